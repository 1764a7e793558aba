/* ivalue.hpp - c10::IValue: a value of any type that operations take or give. */
#ifndef RUSHLIGHT_AT_IVALUE_HPP
#define RUSHLIGHT_AT_IVALUE_HPP

#include "tensor.hpp"
#include <c10/util/intrusive_ptr.h>
#include <rushlight/library.h>
#include <cstring>
#include <typeinfo>

namespace torch {
/* The base of classes that are registered with torch::class_. */
struct CustomClassHolder : c10::intrusive_ptr_target {};
namespace jit {
class Module;
class Object;
} // namespace jit
} // namespace torch

namespace c10 {
namespace detail {

/* A class of C++ once it is registered; its objects hold an intrusive_ptr of their own. */
template <class T> struct Registered {
    inline static const rush_class *as = nullptr;
    static const rush_class *get()
    {
        TORCH_CHECK(as, "Can't find class ", typeid(T).name(), " in tmap, make sure that it is registered with torch::class_");
        return as;
    }
    static rush_object *box(const intrusive_ptr<T> &x) /* in the scope */
    {
        rush_object *o = rush_object_new(get(), new intrusive_ptr<T>(x));
        if (!o) raise();
        return o;
    }
    static intrusive_ptr<T> unbox(const rush_object *o)
    {
        void *data = rush_object_data(o, get());
        TORCH_CHECK(data, "an object of ", rush_class_path(as), " is used before its __init__, or it is of another class");
        return *static_cast<intrusive_ptr<T> *>(data);
    }
};

} // namespace detail

/* A number or a tensor is in the value itself; all else is kept once, for all copies. Written out because std::variant's tables for
 * copies of 15 types took a tenth of the time to compile a file. */
class IValue {
    enum class Tag : uint8_t { None, Tensor, Double, Int, Bool, ComplexDouble, String, Device, IntList, DoubleList, BoolList, TensorList, StringList, GenericList, GenericDict, Generator, Tuple, Object, Script };
    using Tuple = std::shared_ptr<std::vector<IValue>>;
    struct Kept {
        virtual ~Kept() = default;
    };
    template <class T> struct Keeps : Kept {
        T x;
        explicit Keeps(T given) : x(std::move(given)) {}
    };

    using Script = std::shared_ptr<rush_object>;
    struct Object {
        std::shared_ptr<void> p;
        const std::type_info *of;
        rush_object *(*box)(const std::shared_ptr<void> &);
    };

    Tag tag = Tag::None;
    union {
        int64_t i = 0; /* Int, Bool */
        double f;
    };
    at::Tensor t;
    std::shared_ptr<Kept> kept;

    static constexpr Tag tag_of(const std::complex<double> *) { return Tag::ComplexDouble; }
    static constexpr Tag tag_of(const std::string *) { return Tag::String; }
    static constexpr Tag tag_of(const Device *) { return Tag::Device; }
    static constexpr Tag tag_of(const List<int64_t> *) { return Tag::IntList; }
    static constexpr Tag tag_of(const List<double> *) { return Tag::DoubleList; }
    static constexpr Tag tag_of(const List<bool> *) { return Tag::BoolList; }
    static constexpr Tag tag_of(const List<at::Tensor> *) { return Tag::TensorList; }
    static constexpr Tag tag_of(const List<std::string> *) { return Tag::StringList; }
    static constexpr Tag tag_of(const List<IValue> *) { return Tag::GenericList; }
    static constexpr Tag tag_of(const Dict<IValue, IValue> *) { return Tag::GenericDict; }
    static constexpr Tag tag_of(const Generator *) { return Tag::Generator; }
    static constexpr Tag tag_of(const Tuple *) { return Tag::Tuple; }
    static constexpr Tag tag_of(const Object *) { return Tag::Object; }
    static constexpr Tag tag_of(const Script *) { return Tag::Script; }
    static constexpr Tag tag_of(const void *) { return Tag::None; } /* no tag of its own */

    template <class T> void keep(T x)
    {
        tag = tag_of(static_cast<const T *>(nullptr));
        kept.reset(static_cast<Kept *>(new Keeps<T>(std::move(x))));
    }
    template <class T> static constexpr bool tagged = tag_of(static_cast<const T *>(nullptr)) != Tag::None;
    template <class T> bool each_of(List<IValue> &to) const
    {
        if (tag != tag_of(static_cast<const List<T> *>(nullptr))) return false;
        for (const auto &item : static_cast<const Keeps<List<T>> &>(*kept).x) to.push_back(IValue(item));
        return true;
    }
    void expect(Tag wanted, const char *name) const
    {
        TORCH_CHECK(tag == wanted, "Expected ", name, " but got ", tagKind());
    }
    template <class T> const T &as(const char *name) const
    {
        expect(tag_of(static_cast<const T *>(nullptr)), name);
        return static_cast<const Keeps<T> &>(*kept).x;
    }
    /* A generic list is taken where each of its items is a T. */
    template <class T> List<T> list_of(const char *name) const
    {
        if (tag != Tag::GenericList) return as<List<T>>(name);
        List<T> list;
        for (const IValue &item : as<List<IValue>>(name)) list.push_back(item.to<T>());
        return list;
    }

public:
    IValue() = default;
    IValue(std::nullopt_t) {}
    IValue(at::Tensor x) : tag(Tag::Tensor), t(std::move(x)) {}
    IValue(double x) : tag(Tag::Double), f(x) {}
    IValue(bool b) : tag(Tag::Bool), i(b) {}
    template <class I, std::enable_if_t<std::is_integral_v<I> && !std::is_same_v<I, bool>, int> = 0> IValue(I x) : tag(Tag::Int), i(static_cast<int64_t>(x)) {}
    IValue(std::complex<double> c) { keep(c); }
    IValue(const Scalar &s)
    {
        if (s.isFloatingPoint()) tag = Tag::Double, f = s.toDouble();
        else if (s.isComplex()) keep(s.toComplexDouble());
        else tag = s.isBoolean() ? Tag::Bool : Tag::Int, i = s.toLong();
    }
    IValue(const char *s) { keep(std::string(s)); }
    IValue(std::string s) { keep(std::move(s)); }
    IValue(Device d) { keep(d); }
    IValue(ScalarType x) : tag(Tag::Int), i(static_cast<int64_t>(x)) {}
    IValue(Generator g) { keep(std::move(g)); }
    IValue(ArrayRef<int64_t> list) { keep(List<int64_t>(list)); }
    IValue(ArrayRef<double> list) { keep(List<double>(list)); }
    IValue(ArrayRef<at::Tensor> list) { keep(List<at::Tensor>(list)); }
    IValue(std::vector<int64_t> list) { keep(List<int64_t>(std::move(list))); }
    IValue(std::vector<double> list) { keep(List<double>(std::move(list))); }
    IValue(std::vector<bool> list) { keep(List<bool>(std::move(list))); }
    IValue(std::vector<at::Tensor> list) { keep(List<at::Tensor>(std::move(list))); }
    IValue(std::vector<std::string> list) { keep(List<std::string>(std::move(list))); }
    template <class T> IValue(std::vector<T> list) : IValue(List<T>(std::move(list))) {}
    template <class T> IValue(List<T> list)
    {
        if constexpr (tagged<List<T>>) {
            keep(std::move(list));
        } else {
            List<IValue> items;
            for (const auto &x : list) items.push_back(IValue(x));
            keep(std::move(items));
        }
    }
    template <class K, class V> IValue(const Dict<K, V> &dict);
    template <class K, class V> IValue(const std::unordered_map<K, V> &map);
    template <class T> IValue(intrusive_ptr<T> x)
    {
        if (x) keep(Object{std::move(x), &typeid(T), [](const std::shared_ptr<void> &p) { return detail::Registered<T>::box(intrusive_ptr<T>(std::static_pointer_cast<T>(p))); }});
    }
    explicit IValue(rush_object *o) { keep(Script(rush_object_keep(o), rush_object_drop)); }
    template <class T> IValue(const std::optional<T> &x)
    {
        if (x) *this = IValue(*x);
    }
    IValue(SymInt x) : tag(Tag::Int), i(static_cast<int64_t>(x)) {}
    IValue(SymIntArrayRef list) { keep(List<int64_t>(std::vector<int64_t>(list.begin(), list.end()))); }
    template <class... T> IValue(std::tuple<T...> items)
    {
        std::apply([&](auto &...x) { keep(std::make_shared<std::vector<IValue>>(std::vector<IValue>{IValue(x)...})); }, items);
    }

    static IValue tuple(std::vector<IValue> items)
    {
        IValue made;
        made.keep(std::make_shared<std::vector<IValue>>(std::move(items)));
        return made;
    }

    bool isNone() const { return tag == Tag::None; }
    bool isTensor() const { return tag == Tag::Tensor; }
    bool isDouble() const { return tag == Tag::Double; }
    bool isInt() const { return tag == Tag::Int; }
    bool isBool() const { return tag == Tag::Bool; }
    bool isString() const { return tag == Tag::String; }
    bool isDevice() const { return tag == Tag::Device; }
    bool isIntList() const { return tag == Tag::IntList; }
    bool isDoubleList() const { return tag == Tag::DoubleList; }
    bool isBoolList() const { return tag == Tag::BoolList; }
    bool isTensorList() const { return tag == Tag::TensorList; }
    bool isTuple() const { return tag == Tag::Tuple; }
    bool isList() const { return tag >= Tag::IntList && tag <= Tag::GenericList; }
    bool isGenericDict() const { return tag == Tag::GenericDict; }
    bool isObject() const { return tag == Tag::Object || tag == Tag::Script; }
    bool isCustomClass() const { return tag == Tag::Object || (tag == Tag::Script && !std::strncmp(rush_class_path(rush_object_class(scripted())), "__torch__.torch.", 16)); }
    bool isModule() const;
    bool isScalar() const { return isDouble() || isInt() || isBool() || tag == Tag::ComplexDouble; }

    const at::Tensor &toTensor() const { return expect(Tag::Tensor, "Tensor"), t; }
    double toDouble() const
    {
        TORCH_INTERNAL_ASSERT(isDouble(), "expected double");
        return f;
    }
    SymInt toSymInt() const { return toInt(); }
    int64_t toInt() const { return expect(Tag::Int, "Int"), i; }
    bool toBool() const { return expect(Tag::Bool, "Bool"), i != 0; }
    const std::string &toStringRef() const { return as<std::string>("String"); }
    string_view toStringView() const { return toStringRef(); }
    std::complex<double> toComplexDouble() const { return as<std::complex<double>>("ComplexDouble"); }
    Device toDevice() const { return as<Device>("Device"); }
    ScalarType toScalarType() const { return static_cast<ScalarType>(toInt()); }
    Generator toGenerator() const { return as<Generator>("Generator"); }
    List<int64_t> toIntList() const { return list_of<int64_t>("IntList"); }
    std::vector<int64_t> toIntVector() const { return toIntList().vec(); }
    List<double> toDoubleList() const { return list_of<double>("DoubleList"); }
    std::vector<double> toDoubleVector() const { return toDoubleList().vec(); }
    List<bool> toBoolList() const { return list_of<bool>("BoolList"); }
    List<at::Tensor> toTensorList() const { return list_of<at::Tensor>("TensorList"); }
    std::vector<at::Tensor> toTensorVector() const { return toTensorList().vec(); }
    /* A list of whatever it has; a copy, but of a generic one. */
    List<IValue> toList() const
    {
        List<IValue> list;
        if (!(each_of<int64_t>(list) || each_of<double>(list) || each_of<bool>(list) || each_of<at::Tensor>(list) || each_of<std::string>(list))) return as<List<IValue>>("GenericList");
        return list;
    }
    ArrayRef<IValue> toListRef() const { return as<List<IValue>>("GenericList").ref(); }
    Dict<IValue, IValue> toGenericDict() const;
    torch::jit::Module toModule() const;
    torch::jit::Object toObject() const;
    rush_object *scripted() const { return as<Script>("Object").get(); } /* of a program, or of C */
    rush_object *boxed() const /* the same of any object, in the scope */
    {
        if (tag == Tag::Script) return rush_object_park(rush_object_keep(scripted()));
        const Object &o = as<Object>("Object");
        return o.box(o.p);
    }
    struct Text {
        std::string text;
        const std::string &string() const { return text; }
        const Text *operator->() const { return this; }
    };
    Text toString() const { return {toStringRef()}; }
    struct Elements {
        std::shared_ptr<std::vector<IValue>> items;
        const std::vector<IValue> &elements() const { return *items; }
        size_t size() const { return items->size(); }
        const Elements *operator->() const { return this; }
    };
    Elements toTuple() const { return {as<Tuple>("Tuple")}; }
    Elements toTupleRef() const { return toTuple(); }
    Scalar toScalar() const { return isDouble() ? Scalar(toDouble()) : isBool() ? Scalar(toBool()) : isInt() ? Scalar(toInt()) : Scalar(toComplexDouble()); }
    template <class T> intrusive_ptr<T> toCustomClass() const
    {
        if (tag == Tag::Script) return detail::Registered<T>::unbox(scripted());
        const Object &o = as<Object>("Object");
        TORCH_CHECK(*o.of == typeid(T), "Tried to convert an IValue of type ", o.of->name(), " to custom class type ", typeid(T).name());
        return std::static_pointer_cast<T>(o.p);
    }
    template <class T> T to() const { return taken(static_cast<T *>(nullptr)); }
    template <class T> std::optional<T> toOptional() const { return isNone() ? std::nullopt : std::optional<T>(to<T>()); }
    std::string tagKind() const
    {
        static const char *const names[] = {"None", "Tensor", "Double", "Int", "Bool", "ComplexDouble", "String", "Device", "IntList", "DoubleList", "BoolList",
                                            "TensorList", "GenericList", "GenericList", "GenericDict", "Generator", "Tuple", "Object", "Object"};
        return names[static_cast<int>(tag)];
    }
    bool is(const IValue &other) const /* the same one */
    {
        return tag == other.tag && (tag == Tag::Tensor ? t.is_same(other.t) : kept || other.kept ? kept == other.kept : tag == Tag::None || i == other.i);
    }
    friend bool operator==(const IValue &a, const IValue &b);
    friend bool operator!=(const IValue &a, const IValue &b) { return !(a == b); }

private:
    template <class T> T taken(T *) const
    {
        if constexpr (std::is_same_v<T, at::Tensor>) return toTensor();
        else if constexpr (std::is_same_v<T, IValue>) return *this;
        else if constexpr (std::is_same_v<T, bool>) return toBool();
        else if constexpr (std::is_same_v<T, std::string>) return toStringRef();
        else if constexpr (std::is_floating_point_v<T>) return static_cast<T>(toDouble());
        else if constexpr (std::is_integral_v<T>) return static_cast<T>(toInt());
        else if constexpr (std::is_same_v<T, Scalar>) return toScalar();
        else if constexpr (std::is_same_v<T, SymInt>) return toInt();
        else if constexpr (std::is_same_v<T, ScalarType>) return toScalarType();
        else {
            static_assert(tagged<T>, "no value is of this type");
            return as<T>("another type");
        }
    }
    template <class T> List<T> taken(List<T> *) const
    {
        if constexpr (tagged<List<T>> && !std::is_same_v<T, IValue>) return list_of<T>("a list");
        else if constexpr (std::is_same_v<T, IValue>) return toList();
        else return List<T>(taken(static_cast<std::vector<T> *>(nullptr)));
    }
    template <class T> std::vector<T> taken(std::vector<T> *) const
    {
        std::vector<T> list;
        for (const IValue &item : toList()) list.push_back(item.to<T>());
        return list;
    }
    template <class T> std::optional<T> taken(std::optional<T> *) const { return isNone() ? std::nullopt : std::optional<T>(to<T>()); }
    template <class K, class V> Dict<K, V> taken(Dict<K, V> *) const;
    template <class T> intrusive_ptr<T> taken(intrusive_ptr<T> *) const { return toCustomClass<T>(); }
    template <class... T, size_t... I> std::tuple<T...> each_taken(std::index_sequence<I...>, std::tuple<T...> *) const
    {
        const Elements items = toTuple();
        TORCH_CHECK(items.size() == sizeof...(T), "Expected a tuple of ", sizeof...(T), " but got one of ", items.size());
        return {items.elements()[I].template to<T>()...};
    }
    template <class... T> std::tuple<T...> taken(std::tuple<T...> *to) const { return each_taken(std::index_sequence_for<T...>(), to); }
    friend struct std::hash<IValue>;
};

} // namespace c10

/* Of what keys of dictionaries are: numbers, texts, tuples of these; tensors by identity. */
template <> struct std::hash<c10::IValue> {
    size_t operator()(const c10::IValue &x) const
    {
        using Tag = c10::IValue::Tag;
        if (x.tag == Tag::String) return std::hash<std::string>()(x.toStringRef());
        if (x.tag == Tag::Double) return std::hash<double>()(x.f);
        if (x.tag == Tag::Tensor) return std::hash<const void *>()(x.t.get());
        size_t sum = static_cast<size_t>(x.tag);
        if (x.tag == Tag::Tuple)
            for (const c10::IValue &item : x.toTuple().elements()) sum = sum * 31 + (*this)(item);
        else TORCH_CHECK(x.tag <= Tag::Bool, "a ", x.tagKind(), " is no key of a dictionary");
        return x.tag == Tag::Int || x.tag == Tag::Bool ? std::hash<int64_t>()(x.i) : sum;
    }
};

namespace c10 {
namespace impl {
using GenericList = List<IValue>;
using GenericDict = Dict<IValue, IValue>;
} // namespace impl
namespace ivalue {
struct Tuple {
    static IValue create(std::vector<IValue> items) { return IValue::tuple(std::move(items)); }
    template <class... T> static IValue create(T &&...x) { return IValue::tuple({IValue(std::forward<T>(x))...}); }
};
} // namespace ivalue

inline bool operator==(const IValue &a, const IValue &b)
{
    using Tag = IValue::Tag;
    const bool lists = a.isList() && b.isList();
    if (a.tag != b.tag && !lists) return false;
    if (lists) {
        List<IValue> x = a.toList(), y = b.toList();
        return x.size() == y.size() && std::equal(x.begin(), x.end(), y.begin());
    }
    switch (a.tag) {
    case Tag::Double: return a.f == b.f;
    case Tag::String: return a.toStringRef() == b.toStringRef();
    case Tag::ComplexDouble: return a.toComplexDouble() == b.toComplexDouble();
    case Tag::Device: return a.toDevice() == b.toDevice();
    case Tag::Tuple: return a.toTuple().elements() == b.toTuple().elements();
    case Tag::GenericDict: {
        Dict<IValue, IValue> x = a.toGenericDict(), y = b.toGenericDict();
        for (const auto &entry : x)
            if (!y.contains(entry.key()) || y.at(entry.key()) != entry.value()) return false;
        return x.size() == y.size();
    }
    default: return a.is(b);
    }
}
inline Dict<IValue, IValue> IValue::toGenericDict() const { return as<Dict<IValue, IValue>>("GenericDict"); }
template <class K, class V> IValue::IValue(const Dict<K, V> &dict)
{
    if constexpr (std::is_same_v<K, IValue>) {
        keep(dict);
    } else {
        Dict<IValue, IValue> made;
        for (const auto &entry : dict) made.insert(IValue(entry.key()), IValue(entry.value()));
        keep(std::move(made));
    }
}
template <class K, class V> IValue::IValue(const std::unordered_map<K, V> &map)
{
    Dict<IValue, IValue> made;
    for (const auto &[key, value] : map) made.insert(IValue(key), IValue(value));
    keep(std::move(made));
}
template <class K, class V> Dict<K, V> IValue::taken(Dict<K, V> *) const
{
    Dict<K, V> made;
    for (const auto &entry : toGenericDict()) made.insert(entry.key().template to<K>(), entry.value().template to<V>());
    return made;
}

} // namespace c10
namespace torch {
using c10::IValue;
}
#endif
