/* ivalue.hpp - c10::IValue: a value of any type that operations take or give. */
#ifndef RUSHLIGHT_AT_IVALUE_HPP
#define RUSHLIGHT_AT_IVALUE_HPP

#include "tensor.hpp"
#include <c10/util/intrusive_ptr.h>
#include <typeinfo>

namespace torch {
/* The base of classes that are registered with torch::class_. */
struct CustomClassHolder : c10::intrusive_ptr_target {};
} // namespace torch

namespace c10 {

/* A number or a tensor is in the value itself; all else is kept once, for all copies. Written out because std::variant's tables for
 * copies of 15 types took a tenth of the time to compile a file. */
class IValue {
    enum class Tag : uint8_t { None, Tensor, Double, Int, Bool, ComplexDouble, String, Device, IntList, DoubleList, BoolList, TensorList, StringList, Generator, Tuple, Object };
    using Tuple = std::shared_ptr<std::vector<IValue>>;
    struct Kept {
        virtual ~Kept() = default;
    };
    template <class T> struct Keeps : Kept {
        T x;
        explicit Keeps(T given) : x(std::move(given)) {}
    };

    struct Object {
        std::shared_ptr<void> p;
        const std::type_info *of;
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
    static constexpr Tag tag_of(const Generator *) { return Tag::Generator; }
    static constexpr Tag tag_of(const Tuple *) { return Tag::Tuple; }
    static constexpr Tag tag_of(const Object *) { return Tag::Object; }

    template <class T> void keep(T x)
    {
        tag = tag_of(static_cast<const T *>(nullptr));
        kept.reset(static_cast<Kept *>(new Keeps<T>(std::move(x))));
    }
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
    template <class T> IValue(List<T> list) { keep(std::move(list)); }
    template <class T> IValue(intrusive_ptr<T> x)
    {
        if (x) keep(Object{std::move(x), &typeid(T)});
    }
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
    bool isObject() const { return tag == Tag::Object; }
    bool isCustomClass() const { return isObject(); }
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
    List<int64_t> toIntList() const { return as<List<int64_t>>("IntList"); }
    std::vector<int64_t> toIntVector() const { return toIntList().vec(); }
    List<double> toDoubleList() const { return as<List<double>>("DoubleList"); }
    std::vector<double> toDoubleVector() const { return toDoubleList().vec(); }
    List<bool> toBoolList() const { return as<List<bool>>("BoolList"); }
    List<at::Tensor> toTensorList() const { return as<List<at::Tensor>>("TensorList"); }
    std::vector<at::Tensor> toTensorVector() const { return toTensorList().vec(); }
    /* A list of whatever it has; a copy. */
    List<IValue> toList() const
    {
        List<IValue> list;
        TORCH_CHECK(each_of<int64_t>(list) || each_of<double>(list) || each_of<bool>(list) || each_of<at::Tensor>(list) || each_of<std::string>(list),
                    "Expected GenericList but got ", tagKind());
        return list;
    }
    struct Elements {
        std::shared_ptr<std::vector<IValue>> items;
        const std::vector<IValue> &elements() const { return *items; }
        const Elements *operator->() const { return this; }
    };
    Elements toTuple() const { return {as<Tuple>("Tuple")}; }
    Scalar toScalar() const { return isDouble() ? Scalar(toDouble()) : isBool() ? Scalar(toBool()) : isInt() ? Scalar(toInt()) : Scalar(toComplexDouble()); }
    template <class T> intrusive_ptr<T> toCustomClass() const
    {
        const Object &o = as<Object>("Object");
        TORCH_CHECK(*o.of == typeid(T), "Tried to convert an IValue of type ", o.of->name(), " to custom class type ", typeid(T).name());
        return std::static_pointer_cast<T>(o.p);
    }
    template <class T> T to() const
    {
        if constexpr (std::is_same_v<T, at::Tensor>) return toTensor();
        else if constexpr (std::is_same_v<T, bool>) return toBool();
        else if constexpr (std::is_same_v<T, std::string>) return toStringRef();
        else if constexpr (std::is_floating_point_v<T>) return static_cast<T>(toDouble());
        else if constexpr (std::is_integral_v<T>) return static_cast<T>(toInt());
        else if constexpr (std::is_same_v<T, std::vector<int64_t>>) return toIntVector();
        else if constexpr (std::is_same_v<T, std::vector<at::Tensor>>) return toTensorVector();
        else if constexpr (std::is_same_v<T, Scalar>) return toScalar();
        else return as<T>("another type");
    }
    template <class T> std::optional<T> toOptional() const { return isNone() ? std::nullopt : std::optional<T>(to<T>()); }
    std::string tagKind() const
    {
        static const char *const names[] = {"None", "Tensor", "Double", "Int", "Bool", "ComplexDouble", "String", "Device", "IntList", "DoubleList", "BoolList",
                                            "TensorList", "StringList", "Generator", "Tuple", "Object"};
        return names[static_cast<int>(tag)];
    }
};

} // namespace c10
namespace torch {
using c10::IValue;
}
#endif
