/* jit.hpp - torch::jit::load: programs that torch.jit.save wrote, run and trained; their methods, attributes and values of any type. */
#ifndef RUSHLIGHT_AT_JIT_HPP
#define RUSHLIGHT_AT_JIT_HPP

#include "all.hpp"
#include "serialize.hpp"
#include <rushlight/program.h>

#include <cmath>

namespace c10 {
std::ostream &operator<<(std::ostream &, const IValue &);
namespace detail {

/* In the scope, for programs. */
inline rush_value boxed_any(const IValue &x)
{
    if (x.isNone()) return rush_v_none();
    if (x.isTensor()) return Boxed<at::Tensor>::box(x.toTensor());
    if (x.isScalar()) return x.toScalar().value();
    if (x.isString()) return Boxed<std::string>::box(x.toStringRef());
    if (x.isDevice()) return rush_v_device(x.toDevice().value());
    if (x.isObject()) return rush_v_object(x.boxed());
    std::vector<rush_value> items;
    rush_value v;
    if (x.isGenericDict()) {
        for (const auto &entry : x.toGenericDict()) items.push_back(boxed_any(entry.key())), items.push_back(boxed_any(entry.value()));
    } else if (x.isTuple()) {
        for (const IValue &item : x.toTuple()->elements()) items.push_back(boxed_any(item));
    } else {
        for (const IValue &item : x.toList()) items.push_back(boxed_any(item));
    }
    v = boxed_values(items);
    if (!x.isList()) v.kind = x.isTuple() ? RUSH_V_TUPLE : RUSH_V_DICT;
    return v;
}

inline IValue unboxed_any(const rush_value &v);
template <class T> bool all_of(const rush_value &v, rush_value_kind kind, IValue &out)
{
    std::vector<T> list;
    for (uint32_t i = 0; i < v.n; ++i) {
        if (v.values[i].kind != kind) return false;
        list.push_back(Boxed<T>::unbox(v.values[i]));
    }
    out = IValue(std::move(list));
    return true;
}
inline IValue unboxed_list(const rush_value &v)
{
    IValue made;
    if (v.n && (all_of<at::Tensor>(v, RUSH_V_TENSOR, made) || all_of<int64_t>(v, RUSH_V_INT, made) || all_of<double>(v, RUSH_V_FLOAT, made) || all_of<bool>(v, RUSH_V_BOOL, made)))
        return made;
    impl::GenericList list;
    for (uint32_t i = 0; i < v.n; ++i) list.push_back(unboxed_any(v.values[i]));
    return list;
}
inline IValue unboxed_any(const rush_value &v)
{
    switch (v.kind) {
    case RUSH_V_TENSOR: return at::Tensor::of(v.t);
    case RUSH_V_INT: return v.i;
    case RUSH_V_BOOL: return v.i != 0;
    case RUSH_V_FLOAT: case RUSH_V_COMPLEX: return Scalar::of(v);
    case RUSH_V_STRING: return std::string(v.s);
    case RUSH_V_DEVICE: return Device(v.device);
    case RUSH_V_GENERATOR: return Generator::of(v.gen);
    case RUSH_V_OBJECT: return IValue(v.object);
    case RUSH_V_VALUES: return unboxed_list(v);
    case RUSH_V_TUPLE: {
        std::vector<IValue> items;
        for (uint32_t i = 0; i < v.n; ++i) items.push_back(unboxed_any(v.values[i]));
        return IValue::tuple(std::move(items));
    }
    case RUSH_V_DICT: {
        impl::GenericDict dict;
        for (uint32_t i = 0; i + 1 < v.n; i += 2) dict.insert(unboxed_any(v.values[i]), unboxed_any(v.values[i + 1]));
        return dict;
    }
    default: return {};
    }
}

template <class Items> void print_items(std::ostream &out, const char *open, const Items &items, const char *close)
{
    out << open;
    const char *between = "";
    for (const IValue &x : items) out << between << x, between = ", ";
    out << close;
}

} // namespace detail

inline std::ostream &operator<<(std::ostream &out, const IValue &x)
{
    auto number = [&](double d) {
        std::streamsize before = out.precision(std::numeric_limits<double>::max_digits10);
        if (std::fabs(d) <= 1e10 && d == std::floor(d)) out << static_cast<int64_t>(d) << '.';
        else out << d;
        out.precision(before);
    };
    if (x.isNone()) return out << "None";
    if (x.isTensor()) return out << x.toTensor();
    if (x.isBool()) return out << (x.toBool() ? "True" : "False");
    if (x.isInt()) return out << x.toInt();
    if (x.isDouble()) return number(x.toDouble()), out;
    if (x.isScalar()) return number(x.toComplexDouble().real()), out << '+', number(x.toComplexDouble().imag()), out << 'j';
    if (x.isString()) return out << x.toStringRef();
    if (x.isDevice()) return out << x.toDevice().str();
    if (x.isTuple()) return detail::print_items(out, "(", x.toTuple()->elements(), x.toTuple()->size() == 1 ? ",)" : ")"), out;
    if (x.isList()) return detail::print_items(out, "[", x.toList(), "]"), out;
    if (!x.isGenericDict()) return out << '<' << x.tagKind() << '>';
    const char *between = "{";
    for (const auto &entry : x.toGenericDict()) out << between << entry.key() << ": " << entry.value(), between = ", ";
    return out << (*between == '{' ? "{}" : "}");
}

} // namespace c10

namespace torch::jit {

using IValue = c10::IValue;
using Stack = std::vector<IValue>;
using Kwargs = std::unordered_map<std::string, IValue>;
using ExtraFilesMap = std::unordered_map<std::string, std::string>;
template <class T> struct Named {
    std::string name;
    T value;
};
class Method;

/* Shared when copied. */
class Object {
    std::shared_ptr<rush_object> its;
    std::shared_ptr<const std::vector<std::string>> kept; /* of what was frozen: the attributes and methods that are left */

protected:
    bool is_script() const { return its != nullptr; }
    void keep_only(std::vector<std::string> names) { kept = std::make_shared<const std::vector<std::string>>(std::move(names)); }
    bool is_kept(const std::string &name) const { return !kept || std::find(kept->begin(), kept->end(), name) != kept->end(); }
    rush_object *given() const
    {
        TORCH_CHECK(its, "this module is empty, or no program of TorchScript");
        return its.get();
    }

public:
    Object() = default;
    explicit Object(rush_object *o) : its(rush_object_keep(o), rush_object_drop) {}
    IValue _ivalue() const { return IValue(given()); }
    const Object *operator->() const { return this; }

    IValue attr(const std::string &name) const
    {
        at::detail::Call scope;
        rush_value v;
        c10::detail::check(rush_object_get(given(), name.c_str(), &v));
        return c10::detail::unboxed_any(v);
    }
    IValue attr(const std::string &name, IValue or_else) const { return hasattr(name) ? attr(name) : std::move(or_else); }
    IValue getAttr(const std::string &name) const { return attr(name); }
    bool hasattr(const std::string &name) const
    {
        for (const std::string &attribute : attribute_names())
            if (attribute == name) return true;
        return false;
    }
    void setattr(const std::string &name, const IValue &value)
    {
        at::detail::Call scope;
        c10::detail::check(rush_object_set(given(), name.c_str(), c10::detail::boxed_any(value)));
    }
    std::vector<std::string> attribute_names() const
    {
        std::vector<std::string> names;
        for (int i = 0; const char *name = rush_object_attribute_at(given(), i); ++i)
            if (is_kept(name)) names.emplace_back(name);
        return names;
    }
    std::string type_name() const { return rush_object_type(given()); }

    IValue call(const std::string &method, const Stack &in, const Kwargs &named = {}) const
    {
        at::detail::Call scope;
        std::vector<rush_value> values;
        std::vector<const char *> names(in.size(), nullptr);
        for (const IValue &x : in) values.push_back(c10::detail::boxed_any(x));
        for (const auto &[name, x] : named) names.push_back(name.c_str()), values.push_back(c10::detail::boxed_any(x));
        rush_value out;
        c10::detail::check(rush_object_call(given(), method.c_str(), static_cast<int>(values.size()), values.data(), names.data(), &out));
        return c10::detail::unboxed_any(out);
    }
    size_t num_inputs(const std::string &method) const /* self is one of them */
    {
        int n = rush_object_inputs(given(), method.c_str());
        if (n < 0) c10::detail::raise();
        return static_cast<size_t>(n);
    }
    template <class... T> IValue run_method(const std::string &method, T &&...x) const { return call(method, {IValue(std::forward<T>(x))...}); }
    std::optional<Method> find_method(const std::string &name) const;
    Method get_method(const std::string &name) const;
    std::vector<Method> get_methods() const;
};

class Method {
    Object self;
    std::string its_name;

public:
    Method(Object of, std::string name) : self(std::move(of)), its_name(std::move(name)) {}
    const std::string &name() const { return its_name; }
    size_t num_inputs() const { return self.num_inputs(its_name); }
    Object owner() const { return self; }
    IValue operator()(const Stack &in, const Kwargs &named = {}) const { return self.call(its_name, in, named); }
    void run(Stack &stack) const { stack = {self.call(its_name, stack)}; }
};
inline std::vector<Method> Object::get_methods() const
{
    std::vector<Method> methods;
    for (int i = 0; const char *name = rush_object_method_at(given(), i); ++i)
        if (is_kept(name)) methods.emplace_back(*this, name);
    return methods;
}
inline std::optional<Method> Object::find_method(const std::string &name) const
{
    for (const Method &m : get_methods())
        if (m.name() == name) return m;
    return std::nullopt;
}
inline Method Object::get_method(const std::string &name) const
{
    std::optional<Method> method = find_method(name);
    TORCH_CHECK(method, "Method '", name, "' is not defined.");
    return *method;
}

/* An object with tensors and modules below it; a program that is no TorchScript (.pt2, ONNX) is one without methods and attributes. */
class Module : public Object {
    std::shared_ptr<rush_module> its;

    rush_module *module() const
    {
        TORCH_CHECK(its, "this module is empty: torch::jit::load makes one");
        return its.get();
    }
    static Object object_of(rush_module *m)
    {
        rush_object *o = rush_program_object(m);
        if (!o) rush_error_clear();
        return o ? Object(o) : Object();
    }
    std::vector<Named<Tensor>> tensors(bool parameters, bool recurse) const
    {
        at::detail::Call scope;
        rush_state all = rush_module_state(module());
        rush_tensors list = rush_parameters(module());
        if (rush_error()) c10::detail::raise();
        std::vector<Named<Tensor>> found;
        for (int i = 0; i < all.n; ++i) { /* the state itself is detached */
            if ((!recurse && std::strchr(all.name[i], '.')) || !is_kept(std::string(all.name[i], std::strcspn(all.name[i], ".")))) continue;
            rush_tensor *t = rush_module_tensor(module(), all.name[i]);
            if (parameters == (std::find(list.data, list.data + list.n, t) != list.data + list.n)) found.push_back({all.name[i], Tensor::of(t)});
        }
        return found;
    }
    template <class T> static std::vector<T> values(const std::vector<Named<T>> &named)
    {
        std::vector<T> list;
        for (const Named<T> &n : named) list.push_back(n.value);
        return list;
    }
    void add(const std::string &name, const char *type, const IValue &value, int role)
    {
        at::detail::Call scope;
        c10::detail::check(rush_program_add(module(), name.c_str(), type, c10::detail::boxed_any(value), role));
    }
    void add_modules(const std::string &name, std::vector<Named<Module>> &list) const
    {
        list.push_back({name, *this});
        for (const auto &child : named_children()) child.value.add_modules(name.empty() ? child.name : name + "." + child.name, list);
    }

public:
    Module() = default;
    explicit Module(rush_module *m) : Object(object_of(m)), its(rush_module_keep(m), rush_module_drop) {}
    /* One without attributes and methods, to which they are added. */
    explicit Module(const std::string &name)
    {
        at::detail::Call scope;
        rush_module *m = rush_program_new(name.c_str());
        if (!m) c10::detail::raise();
        *this = Module(m);
    }
    explicit Module(const char *name) : Module(std::string(name)) {}
    void register_parameter(const std::string &name, const Tensor &t, bool is_buffer) { add(name, nullptr, t, is_buffer ? RUSH_PROGRAM_BUFFER : RUSH_PROGRAM_PARAMETER); }
    void register_buffer(const std::string &name, const Tensor &t) { add(name, nullptr, t, RUSH_PROGRAM_BUFFER); }
    void register_module(const std::string &name, const Module &child) { add(name, nullptr, child._ivalue(), RUSH_PROGRAM_ATTRIBUTE); }
    void register_attribute(const std::string &name, const c10::TypePtr &type, const IValue &value, bool is_param = false, bool is_buffer = false)
    {
        add(name, type->annotation_str().c_str(), value, is_param ? RUSH_PROGRAM_PARAMETER : is_buffer ? RUSH_PROGRAM_BUFFER : RUSH_PROGRAM_ATTRIBUTE);
    }
    /* Methods in TorchScript's language. */
    void define(const std::string &methods) { c10::detail::check(rush_program_define(module(), methods.c_str())); }

    /* Without TorchScript: tensors in; a tensor, or a tuple of them, out. */
    IValue forward(const Stack &inputs, const Kwargs &named = {}) const
    {
        rush_module *m = module();
        if (is_script()) return call("forward", inputs, named);
        TORCH_CHECK(named.empty(), "this program's arguments have no names");
        std::vector<rush_tensor *> in, out(64);
        for (const IValue &x : inputs) in.push_back(x.toTensor().get());
        at::detail::Call scope;
        int n = rush_program_run(m, static_cast<int>(in.size()), in.data(), static_cast<int>(out.size()), out.data());
        if (n < 0) c10::detail::raise();
        if (n == 1) return Tensor::of(out[0]);
        std::vector<IValue> results;
        for (int i = 0; i < n; ++i) results.push_back(Tensor::of(out[static_cast<size_t>(i)]));
        return IValue::tuple(std::move(results));
    }
    template <class... T> IValue operator()(T &&...x) const { return forward({IValue(std::forward<T>(x))...}); }

    std::vector<Named<Tensor>> named_parameters(bool recurse = true) const { return tensors(true, recurse); }
    std::vector<Named<Tensor>> named_buffers(bool recurse = true) const { return tensors(false, recurse); }
    std::vector<Tensor> parameters(bool recurse = true) const { return values(named_parameters(recurse)); }
    std::vector<Tensor> buffers(bool recurse = true) const { return values(named_buffers(recurse)); }
    std::vector<Named<Module>> named_children() const
    {
        std::vector<Named<Module>> list;
        for (const auto &a : named_attributes(false))
            if (a.value.isModule()) list.push_back({a.name, a.value.toModule()});
        return list;
    }
    std::vector<Module> children() const { return values(named_children()); }
    std::vector<Named<Module>> named_modules() const
    {
        std::vector<Named<Module>> list;
        add_modules("", list);
        return list;
    }
    std::vector<Module> modules() const { return values(named_modules()); }
    std::vector<Named<IValue>> named_attributes(bool recurse = true) const
    {
        std::vector<Named<IValue>> list;
        for (const std::string &name : attribute_names()) {
            list.push_back({name, attr(name)});
            if (!recurse || !list.back().value.isModule()) continue;
            for (auto &below : list.back().value.toModule().named_attributes()) list.push_back({name + "." + below.name, below.value});
        }
        return list;
    }
    std::vector<IValue> attributes(bool recurse = true) const { return values(named_attributes(recurse)); }

    void train(bool on = true) { rush_module_train(module(), on); }
    void eval() { train(false); }
    bool is_training() const { return rush_module_training(module()); }
    void to(ScalarType type, bool = false) { c10::detail::check(rush_module_to(module(), at::detail::dtype_of(type))); }
    void to(Device device, bool = false)
    {
        NoGradGuard unrecorded;
        for (bool parameters : {true, false})
            for (const Named<Tensor> &n : tensors(parameters, true)) c10::detail::check(rush_data_set(n.value.get(), n.value.to(TensorOptions(n.value.scalar_type()).device(device)).get()));
    }
    void to(Device device, ScalarType type, bool = false) { to(type), to(device); }

    void save(const std::string &path, const ExtraFilesMap &extra = {}) const
    {
        at::detail::Call scope;
        std::vector<rush_program_file> files;
        for (const auto &[name, text] : extra) files.push_back({name.c_str(), text.data(), text.size()});
        c10::detail::check(rush_program_save_files(module(), path.c_str(), files.size(), files.data()));
    }
    void save(std::ostream &out, const ExtraFilesMap &extra = {}) const
    {
        serialize::detail::Passing file;
        save(file.path, extra);
        out << std::ifstream(file.path, std::ios::binary).rdbuf();
    }
    /* With tensors of its own. */
    Module clone(bool = false) const;
    Module deepcopy() const { return clone(); }

    std::string dump_to_str(bool print_method_bodies, bool print_attr_values, bool print_param_values) const
    {
        std::string text;
        dump_lines(text, "", print_method_bodies, print_attr_values, print_param_values);
        return text;
    }
    void dump(bool print_method_bodies = true, bool print_attr_values = true, bool print_param_values = true) const
    {
        std::cout << dump_to_str(print_method_bodies, print_attr_values, print_param_values) << std::endl;
    }
    friend Module freeze(const Module &, const std::optional<std::vector<std::string>> &, bool);
    friend Module optimize_for_inference(Module &, const std::vector<std::string> &);

private:
    /* Lines that follow the first are moved, too. */
    static void dump_line(std::string &text, const std::string &before, const std::string &line)
    {
        for (char c : before + line) text += c == '\n' ? '\n' + before : std::string(1, c);
        text += '\n';
    }
    void dump_lines(std::string &text, const std::string &before, bool bodies, bool attributes, bool parameters) const
    {
        auto value = [&](const std::string &name, const IValue &x, bool shown) {
            std::ostringstream out;
            if (x.isObject()) out << '<' << x.toObject().type_name() << " object at " << static_cast<const void *>(x.boxed()) << '>';
            else if (x.isTensor() && !shown) out << "...";
            else out << x;
            dump_line(text, before + "    ", name + " = " + out.str());
        };
        auto part = [&](const char *line) { dump_line(text, before, line); };
        part(("module " + type_name() + " {").c_str());
        part("  parameters {");
        for (const auto &p : named_parameters(false)) value(p.name, p.value, parameters);
        part("  }\n  attributes {");
        for (const auto &a : named_attributes(false)) value(a.name, a.value, attributes);
        part("  }\n  methods {");
        for (const Method &m : get_methods()) {
            part(("    method " + m.name() + " {").c_str());
            at::detail::Call scope;
            if (bodies) dump_line(text, before + "      ", rush_object_method_text(given(), m.name().c_str()));
            part("    }");
        }
        part("  }\n  submodules {");
        for (const Module &m : children()) m.dump_lines(text, before + "    ", bodies, attributes, parameters);
        part("  }\n}");
    }
};
using Function = Method;

/* Functions of a text. */
class CompilationUnit {
    Module functions;
    std::vector<std::unique_ptr<Function>> list;

public:
    explicit CompilationUnit(const std::string &source)
    {
        at::detail::Call scope;
        rush_module *m = rush_program_compile(source.c_str());
        if (!m) c10::detail::raise();
        functions = Module(m);
        for (Method &f : functions.get_methods()) list.insert(list.begin(), std::make_unique<Function>(std::move(f)));
    }
    Function *find_function(const std::string &name) const
    {
        for (const auto &f : list)
            if (f->name() == name) return f.get();
        return nullptr;
    }
    Function &get_function(const std::string &name) const
    {
        Function *f = find_function(name);
        TORCH_CHECK(f, "attempted to get undefined function ", name);
        return *f;
    }
    std::vector<Function *> get_functions() const
    {
        std::vector<Function *> all;
        for (const auto &f : list) all.push_back(f.get());
        return all;
    }
    template <class... T> IValue run_method(const std::string &name, T &&...x) const { return get_function(name)({IValue(std::forward<T>(x))...}); }
};
inline std::shared_ptr<CompilationUnit> compile(const std::string &source) { return std::make_shared<CompilationUnit>(source); }

namespace script {
using jit::ExtraFilesMap;
using jit::Module;
} // namespace script

/* extra: names of files that were saved beside the program; what they hold is put there. */
inline Module load(const std::string &path, std::optional<Device> device, ExtraFilesMap &extra)
{
    at::detail::Call scope;
    rush_module *m = rush_program_load(path.c_str());
    if (!m) c10::detail::raise();
    for (auto &[name, text] : extra) {
        rush_program_file file;
        c10::detail::check(rush_program_load_file(path.c_str(), name.c_str(), &file));
        if (file.data) text.assign(static_cast<const char *>(file.data), file.n);
    }
    Module module(m);
    if (device) module.to(*device);
    return module;
}
inline Module load(const std::string &path, std::optional<Device> device = std::nullopt)
{
    ExtraFilesMap none;
    return load(path, device, none);
}
inline Module load(std::istream &in, std::optional<Device> device, ExtraFilesMap &extra)
{
    serialize::detail::Passing file;
    std::ofstream(file.path, std::ios::binary) << in.rdbuf();
    return load(file.path, device, extra);
}
inline Module load(std::istream &in, std::optional<Device> device = std::nullopt)
{
    ExtraFilesMap none;
    return load(in, device, none);
}
inline Module Module::clone(bool) const
{
    serialize::detail::Passing file;
    save(file.path);
    Module made = load(file.path);
    std::vector<Module> own = modules(), its_own = made.modules();
    for (size_t i = 0; i < own.size(); ++i) its_own[i].setattr("training", own[i].is_training()); /* each as it was, with none below it */
    return made;
}

/* A copy for inference with tensors of its own, of which forward and the names that are preserved can be reached. */
inline Module freeze(const Module &module, const std::optional<std::vector<std::string>> &preserved = std::nullopt, bool = true)
{
    TORCH_CHECK(!module.is_training(), "Freezing module in training mode is not yet supported");
    std::vector<std::string> names = preserved.value_or(std::vector<std::string>());
    for (const std::string &name : names) TORCH_CHECK(module.hasattr(name) || module.find_method(name), "Unknown name: ", name);
    Module made = module.clone();
    for (const Tensor &t : made.parameters()) t.requires_grad_(false);
    names.push_back("forward");
    made.keep_only(std::move(names));
    return made;
}
inline Module optimize_for_inference(Module &module, const std::vector<std::string> &other_methods = {}) { return module.is_kept("training") ? freeze(module, other_methods) : module; }

/* What torch.save and torch.load know, in memory. */
inline std::vector<char> pickle_save(const IValue &x)
{
    at::detail::Call scope;
    serialize::detail::Passing file;
    c10::detail::check(rush_save(file.path.c_str(), serialize::detail::content_of(x)));
    std::ifstream in(file.path, std::ios::binary);
    return std::vector<char>(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
}
inline IValue pickle_load(const std::vector<char> &bytes)
{
    at::detail::Call scope;
    serialize::detail::Passing file;
    std::ofstream(file.path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return serialize::detail::value_of(serialize::detail::checked(rush_load(file.path.c_str())));
}

inline void setGraphExecutorOptimize(bool) {} /* programs are always run by the same interpreter */

} // namespace torch::jit

namespace c10 {
inline bool IValue::isModule() const
{
    if (tag != Tag::Script) return false;
    at::detail::Call scope;
    return rush_object_module(scripted()) != nullptr;
}
inline torch::jit::Object IValue::toObject() const { return torch::jit::Object(scripted()); }
inline torch::jit::Module IValue::toModule() const
{
    at::detail::Call scope;
    rush_module *m = rush_object_module(scripted());
    TORCH_CHECK(m, "Expected Module but got Object of ", rush_object_type(scripted()));
    return torch::jit::Module(m);
}
} // namespace c10
#endif
