/* ivalue.hpp - c10::IValue: a value of any type that operations take or give. */
#ifndef RUSHLIGHT_AT_IVALUE_HPP
#define RUSHLIGHT_AT_IVALUE_HPP

#include "tensor.hpp"

namespace c10 {

class IValue {
    using Tuple = std::shared_ptr<std::vector<IValue>>;
    std::variant<std::monostate, at::Tensor, double, int64_t, bool, std::complex<double>, std::string, Device, List<int64_t>, List<double>, List<bool>,
                 List<at::Tensor>, List<std::string>, Generator, Tuple> v;

    template <class T> bool each_of(List<IValue> &to) const
    {
        const auto *from = std::get_if<List<T>>(&v);
        if (!from) return false;
        for (const auto &item : *from) to.push_back(IValue(item));
        return true;
    }
    template <class T> const T &as(const char *name) const
    {
        const T *x = std::get_if<T>(&v);
        TORCH_CHECK(x, "Expected ", name, " but got ", tagKind());
        return *x;
    }

public:
    IValue() = default;
    IValue(std::nullopt_t) {}
    IValue(at::Tensor t) : v(std::move(t)) {}
    IValue(double f) : v(f) {}
    IValue(bool b) : v(b) {}
    template <class I, std::enable_if_t<std::is_integral_v<I> && !std::is_same_v<I, bool>, int> = 0> IValue(I i) : v(static_cast<int64_t>(i)) {}
    IValue(std::complex<double> c) : v(c) {}
    IValue(const Scalar &s)
    {
        if (s.isFloatingPoint()) v = s.toDouble();
        else if (s.isComplex()) v = s.toComplexDouble();
        else if (s.isBoolean()) v = s.toBool();
        else v = s.toLong();
    }
    IValue(const char *s) : v(std::string(s)) {}
    IValue(std::string s) : v(std::move(s)) {}
    IValue(Device d) : v(d) {}
    IValue(ScalarType t) : v(static_cast<int64_t>(t)) {}
    IValue(Generator g) : v(std::move(g)) {}
    IValue(ArrayRef<int64_t> list) : v(List<int64_t>(list)) {}
    IValue(ArrayRef<double> list) : v(List<double>(list)) {}
    IValue(ArrayRef<at::Tensor> list) : v(List<at::Tensor>(list)) {}
    IValue(std::vector<int64_t> list) : v(List<int64_t>(std::move(list))) {}
    IValue(std::vector<double> list) : v(List<double>(std::move(list))) {}
    IValue(std::vector<bool> list) : v(List<bool>(std::move(list))) {}
    IValue(std::vector<at::Tensor> list) : v(List<at::Tensor>(std::move(list))) {}
    IValue(std::vector<std::string> list) : v(List<std::string>(std::move(list))) {}
    template <class T> IValue(List<T> list) : v(std::move(list)) {}
    template <class T> IValue(const std::optional<T> &x)
    {
        if (x) *this = IValue(*x);
    }
    IValue(SymInt i) : v(static_cast<int64_t>(i)) {}
    IValue(SymIntArrayRef list) : v(List<int64_t>(std::vector<int64_t>(list.begin(), list.end()))) {}
    template <class... T> IValue(std::tuple<T...> items)
    {
        std::apply([&](auto &...x) { v = std::make_shared<std::vector<IValue>>(std::vector<IValue>{IValue(x)...}); }, items);
    }

    static IValue tuple(std::vector<IValue> items)
    {
        IValue made;
        made.v = std::make_shared<std::vector<IValue>>(std::move(items));
        return made;
    }

    bool isNone() const { return v.index() == 0; }
    bool isTensor() const { return std::holds_alternative<at::Tensor>(v); }
    bool isDouble() const { return std::holds_alternative<double>(v); }
    bool isInt() const { return std::holds_alternative<int64_t>(v); }
    bool isBool() const { return std::holds_alternative<bool>(v); }
    bool isString() const { return std::holds_alternative<std::string>(v); }
    bool isDevice() const { return std::holds_alternative<Device>(v); }
    bool isIntList() const { return std::holds_alternative<List<int64_t>>(v); }
    bool isDoubleList() const { return std::holds_alternative<List<double>>(v); }
    bool isBoolList() const { return std::holds_alternative<List<bool>>(v); }
    bool isTensorList() const { return std::holds_alternative<List<at::Tensor>>(v); }
    bool isTuple() const { return std::holds_alternative<Tuple>(v); }
    bool isScalar() const { return isDouble() || isInt() || isBool() || std::holds_alternative<std::complex<double>>(v); }

    const at::Tensor &toTensor() const { return as<at::Tensor>("Tensor"); }
    double toDouble() const
    {
        TORCH_INTERNAL_ASSERT(isDouble(), "expected double");
        return std::get<double>(v);
    }
    SymInt toSymInt() const { return toInt(); }
    int64_t toInt() const { return as<int64_t>("Int"); }
    bool toBool() const { return as<bool>("Bool"); }
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
                                            "TensorList", "StringList", "Generator", "Tuple"};
        return names[v.index()];
    }
};

} // namespace c10
namespace torch {
using c10::IValue;
}
#endif
