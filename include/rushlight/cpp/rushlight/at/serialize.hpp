/* serialize.hpp - torch::save and torch::load: archives of named values and of archives in them, in the files that libtorch writes and reads. */
#ifndef RUSHLIGHT_AT_SERIALIZE_HPP
#define RUSHLIGHT_AT_SERIALIZE_HPP

#include "nn.hpp"
#include <rushlight/checkpoint.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <unistd.h>

namespace torch::serialize {

/* What an archive holds, in order. */
struct Entries {
    struct Entry {
        std::string name;
        c10::IValue value;
        std::shared_ptr<Entries> archive; /* in place of a value */
        bool parameter = false;
    };
    std::vector<Entry> list;
    const Entry *find(const std::string &name) const
    {
        for (const Entry &e : list)
            if (e.name == name) return &e;
        return nullptr;
    }
};

namespace detail {

template <class Content> Content *checked(Content *x)
{
    if (!x) c10::detail::raise();
    return x;
}
/* In the current scope, as everything of contents. */
inline rush_content *content_of(const c10::IValue &x)
{
    if (x.isTensor()) return checked(rush_content_tensor(x.toTensor().get()));
    if (x.isBool()) return checked(rush_content_bool(x.toBool()));
    if (x.isInt()) return checked(rush_content_int(x.toInt()));
    if (x.isDouble()) return checked(rush_content_float(x.toDouble()));
    if (x.isString()) return checked(rush_content_text(x.toStringRef().c_str()));
    if (x.isNone()) return checked(rush_content_none());
    TORCH_CHECK(x.isTuple() || x.isList() || x.isGenericDict(), "an archive takes tensors, numbers, text, lists, tuples and dictionaries, but got ", x.tagKind());
    if (x.isGenericDict()) {
        rush_content *dict = checked(rush_content_dict());
        for (const auto &entry : x.toGenericDict()) c10::detail::check(rush_content_pair(dict, content_of(entry.key()), content_of(entry.value())));
        return dict;
    }
    rush_content *items = checked(x.isTuple() ? rush_content_tuple() : rush_content_list());
    if (x.isTuple())
        for (const c10::IValue &item : x.toTuple()->elements()) c10::detail::check(rush_content_append(items, content_of(item)));
    else
        for (const c10::IValue &item : x.toList()) c10::detail::check(rush_content_append(items, content_of(item)));
    return items;
}
inline rush_content *content_of(const Entries &entries)
{
    rush_content *object = checked(rush_content_object());
    for (const Entries::Entry &e : entries.list) {
        rush_content *x = e.archive ? content_of(*e.archive) : content_of(e.value);
        x->parameter = e.parameter;
        c10::detail::check(rush_content_set(object, e.name.c_str(), x));
    }
    return object;
}
inline c10::IValue value_of(const rush_content *x)
{
    switch (x->kind) {
    case RUSH_CONTENT_TENSOR: return Tensor::of(x->t);
    case RUSH_CONTENT_BOOL: return x->i != 0;
    case RUSH_CONTENT_INT: return x->i;
    case RUSH_CONTENT_FLOAT: return x->f;
    case RUSH_CONTENT_TEXT: return std::string(x->s, x->n);
    case RUSH_CONTENT_TUPLE: {
        std::vector<c10::IValue> items;
        for (size_t i = 0; i < x->n; ++i) items.push_back(value_of(x->items[i]));
        return c10::IValue::tuple(std::move(items));
    }
    case RUSH_CONTENT_LIST: {
        std::vector<Tensor> tensors;
        c10::List<c10::IValue> items;
        for (size_t i = 0; i < x->n; ++i) {
            items.push_back(value_of(x->items[i]));
            if (x->items[i]->kind == RUSH_CONTENT_TENSOR) tensors.push_back(items.get(i).toTensor());
        }
        return tensors.size() == x->n ? c10::IValue(tensors) : c10::IValue(items);
    }
    case RUSH_CONTENT_DICT: {
        c10::Dict<c10::IValue, c10::IValue> dict;
        for (size_t i = 0; i + 1 < x->n; i += 2) dict.insert(value_of(x->items[i]), value_of(x->items[i + 1]));
        return dict;
    }
    default: return {};
    }
}
inline std::shared_ptr<Entries> entries_of(const rush_content *x)
{
    auto entries = std::make_shared<Entries>();
    for (size_t i = 0; i + 1 < x->n; i += 2) {
        const rush_content *name = x->items[i], *value = x->items[i + 1];
        if (name->kind != RUSH_CONTENT_TEXT) continue;
        Entries::Entry e;
        e.name = name->s;
        if (value->kind == RUSH_CONTENT_DICT) e.archive = entries_of(value);
        else e.value = value_of(value);
        entries->list.push_back(std::move(e));
    }
    return entries;
}

/* A file for a stream, which goes when it was read. */
struct Passing {
    std::string path;
    Passing()
    {
        const char *folder = std::getenv("TMPDIR");
        path = std::string(folder ? folder : "/tmp") + "/archive-XXXXXX";
        int file = mkstemp(&path[0]);
        TORCH_CHECK(file >= 0, "no temporary file can be made at ", path);
        close(file);
    }
    Passing(const Passing &) = delete;
    Passing &operator=(const Passing &) = delete;
    ~Passing() { unlink(path.c_str()); }
};

} // namespace detail

class OutputArchive {
    std::shared_ptr<Entries> entries = std::make_shared<Entries>();

public:
    OutputArchive() = default;
    void write(const std::string &key, const c10::IValue &value) { entries->list.push_back({key, value, nullptr, false}); }
    void write(const std::string &key, const Tensor &x, bool is_buffer = false) { entries->list.push_back({key, x, nullptr, !is_buffer}); }
    void write(const std::string &key, OutputArchive &nested) { entries->list.push_back({key, {}, nested.entries, false}); }
    void save_to(const std::string &path)
    {
        at::detail::Call scope;
        c10::detail::check(rush_save(path.c_str(), detail::content_of(*entries)));
    }
    void save_to(std::ostream &out)
    {
        detail::Passing file;
        save_to(file.path);
        out << std::ifstream(file.path, std::ios::binary).rdbuf();
    }
    template <class... T> void operator()(T &&...x) { write(std::forward<T>(x)...); }
};

class InputArchive {
    std::shared_ptr<Entries> entries = std::make_shared<Entries>();
    std::string prefix;
    std::optional<Device> device;

public:
    bool try_read(const std::string &key, c10::IValue &value)
    {
        const Entries::Entry *e = entries->find(key);
        if (!e || e->archive) return false;
        value = e->value;
        return true;
    }
    /* A tensor that is there gets the memory of the file's, so that who else has it sees the values. */
    bool try_read(const std::string &key, Tensor &x, bool = false)
    {
        const Entries::Entry *e = entries->find(key);
        if (!e || !e->value.isTensor()) return false;
        Tensor read = e->value.toTensor().detach();
        if (device) read = read.to(TensorOptions(read.scalar_type()).device(*device));
        if (x.defined()) c10::detail::check(rush_data_set(x.get(), read.get()));
        else x = read;
        return true;
    }
    bool try_read(const std::string &key, InputArchive &archive)
    {
        const Entries::Entry *e = entries->find(key);
        if (!e || !e->archive) return false;
        archive.entries = e->archive;
        archive.prefix = prefix + key + ".";
        archive.device = device;
        return true;
    }
    void read(const std::string &key, c10::IValue &value) { TORCH_CHECK(try_read(key, value), "No such serialized IValue '", prefix, key, "'"); }
    void read(const std::string &key, Tensor &x, bool is_buffer = false) { TORCH_CHECK(try_read(key, x, is_buffer), "No such serialized tensor '", prefix, key, "'"); }
    void read(const std::string &key, InputArchive &archive) { TORCH_CHECK(try_read(key, archive), "No such serialized submodule: '", prefix, key, "'"); }
    std::vector<std::string> keys() const
    {
        std::vector<std::string> names;
        for (const auto &e : entries->list) names.push_back(e.name);
        return names;
    }
    void load_from(const std::string &path, std::optional<Device> to = std::nullopt)
    {
        at::detail::Call scope;
        if (std::FILE *file = std::fopen(path.c_str(), "rb")) std::fclose(file);
        else TORCH_CHECK(false, "open file failed because of errno ", errno, " on fopen: ", std::strerror(errno), ", file path: ", path);
        const rush_content *read = rush_load(path.c_str());
        if (!read) c10::detail::raise();
        TORCH_CHECK(read->kind == RUSH_CONTENT_DICT, path, " is no archive of torch::save");
        entries = detail::entries_of(read);
        device = to;
    }
    void load_from(std::istream &in, std::optional<Device> to = std::nullopt)
    {
        detail::Passing file;
        std::ofstream(file.path, std::ios::binary) << in.rdbuf();
        load_from(file.path, to);
    }
    template <class... T> void operator()(T &&...x) { read(std::forward<T>(x)...); }
};

} // namespace torch::serialize

namespace torch::nn {

inline void Module::save(serialize::OutputArchive &archive) const
{
    for (auto &[name, x] : own_parameters)
        if (x.defined()) archive.write(name, x);
    for (auto &[name, x] : own_buffers)
        if (x.defined()) archive.write(name, x, true);
    for (auto &[name, child] : own_children) {
        if (!child->is_serializable()) continue;
        serialize::OutputArchive part;
        child->save(part);
        archive.write(name, part);
    }
}
inline void Module::load(serialize::InputArchive &archive)
{
    NoGradGuard unrecorded;
    for (auto &[name, x] : own_parameters)
        if (x.defined()) archive.read(name, x);
    for (auto &[name, x] : own_buffers)
        if (x.defined()) archive.read(name, x, true);
    for (auto &[name, child] : own_children) {
        if (!child->is_serializable()) continue;
        serialize::InputArchive part;
        archive.read(name, part);
        child->load(part);
    }
}
inline serialize::OutputArchive &operator<<(serialize::OutputArchive &archive, const Module &m) { return m.save(archive), archive; }
inline serialize::InputArchive &operator>>(serialize::InputArchive &archive, Module &m) { return m.load(archive), archive; }
template <class M, class = std::enable_if_t<std::is_base_of_v<Module, M>>> serialize::OutputArchive &operator<<(serialize::OutputArchive &archive, const std::shared_ptr<M> &m)
{
    TORCH_CHECK(m != nullptr, "Cannot serialize empty module");
    return archive << *m;
}
template <class M, class = std::enable_if_t<std::is_base_of_v<Module, M>>> serialize::InputArchive &operator>>(serialize::InputArchive &archive, const std::shared_ptr<M> &m)
{
    TORCH_CHECK(m != nullptr, "Cannot deserialize empty module");
    return archive >> *m;
}
template <class M> serialize::OutputArchive &operator<<(serialize::OutputArchive &archive, const ModuleHolder<M> &m) { return archive << m.ptr(); }
template <class M> serialize::InputArchive &operator>>(serialize::InputArchive &archive, ModuleHolder<M> &m) { return archive >> m.ptr(); }

} // namespace torch::nn

namespace at {
inline torch::serialize::OutputArchive &operator<<(torch::serialize::OutputArchive &archive, const Tensor &x) { return archive.write("0", x), archive; }
inline torch::serialize::InputArchive &operator>>(torch::serialize::InputArchive &archive, Tensor &x) { return archive.read("0", x), archive; }
} // namespace at

namespace torch {

/* A module, optimizer or tensor; where: a path or a stream. */
template <class Value, class... To> void save(const Value &value, To &&...where)
{
    serialize::OutputArchive archive;
    archive << value;
    archive.save_to(std::forward<To>(where)...);
}
template <class... To> void save(const std::vector<Tensor> &list, To &&...where)
{
    serialize::OutputArchive archive;
    for (size_t i = 0; i < list.size(); ++i) archive.write(std::to_string(i), list[i]);
    archive.save_to(std::forward<To>(where)...);
}
template <class Value, class... From> void load(Value &value, From &&...where)
{
    serialize::InputArchive archive;
    archive.load_from(std::forward<From>(where)...);
    archive >> value;
}
template <class... From> void load(std::vector<Tensor> &list, From &&...where)
{
    serialize::InputArchive archive;
    archive.load_from(std::forward<From>(where)...);
    Tensor x;
    for (size_t i = 0; archive.try_read(std::to_string(i), x); ++i) list.push_back(std::exchange(x, Tensor()));
}

} // namespace torch
#endif
