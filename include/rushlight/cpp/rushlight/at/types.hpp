/* types.hpp - dtypes, numbers, devices, and the options of tensors, as ATen spells them. */
#ifndef RUSHLIGHT_AT_TYPES_HPP
#define RUSHLIGHT_AT_TYPES_HPP

#include "base.hpp"
#include <rushlight/generator.h>

#include <cmath>
#include <complex>

namespace c10 {

/* ---- half types: stored in 16 bits, computed in float ---- */

namespace detail {

inline float float_of(uint32_t bits)
{
    float f;
    std::memcpy(&f, &bits, sizeof f);
    return f;
}
inline uint32_t bits_of(float f)
{
    uint32_t bits;
    std::memcpy(&bits, &f, sizeof bits);
    return bits;
}

inline float float_of_half(uint16_t h)
{
    uint32_t sign = static_cast<uint32_t>(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 1023;
    if (exponent == 31) return float_of(sign | 0x7f800000 | fraction << 13);
    if (exponent) return float_of(sign | (exponent + 112) << 23 | fraction << 13);
    float small = static_cast<float>(fraction) * 0x1p-24f;
    return sign ? -small : small;
}

/* To the nearest, of two the even one. */
inline uint16_t half_of_float(float f)
{
    uint32_t bits = bits_of(f), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
    if (rest > 0x7f800000) return static_cast<uint16_t>(sign | 0x7e00);
    if (rest >= 0x477ff000) return static_cast<uint16_t>(sign | 0x7c00);
    if (rest < 0x38800000) return static_cast<uint16_t>(sign | static_cast<uint32_t>(std::nearbyint(float_of(rest) * 0x1p24f)));
    rest += 0xfff + (rest >> 13 & 1);
    return static_cast<uint16_t>(sign | (rest - 0x38000000) >> 13);
}

inline uint16_t bfloat_of_float(float f)
{
    uint32_t bits = bits_of(f);
    if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fc0;
    return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

} // namespace detail

#define C10_HALF_TYPE_(Name, to_float, from_float)                                                          \
    struct Name {                                                                                           \
        uint16_t x;                                                                                         \
        struct from_bits_t {};                                                                              \
        static constexpr from_bits_t from_bits() { return {}; }                                             \
        Name() = default;                                                                                   \
        constexpr Name(uint16_t bits, from_bits_t) : x(bits) {}                                             \
        Name(float f) : x(from_float) {}                                                                    \
        operator float() const { return to_float; }                                                         \
    };                                                                                                      \
    inline Name operator+(Name a, Name b) { return float(a) + float(b); }                                   \
    inline Name operator-(Name a, Name b) { return float(a) - float(b); }                                   \
    inline Name operator*(Name a, Name b) { return float(a) * float(b); }                                   \
    inline Name operator/(Name a, Name b) { return float(a) / float(b); }                                   \
    inline Name operator-(Name a) { return -float(a); }                                                     \
    inline Name &operator+=(Name &a, Name b) { return a = a + b; }                                          \
    inline Name &operator-=(Name &a, Name b) { return a = a - b; }                                          \
    inline Name &operator*=(Name &a, Name b) { return a = a * b; }                                          \
    inline Name &operator/=(Name &a, Name b) { return a = a / b; }                                          \
    inline float operator+(Name a, float b) { return float(a) + b; }                                        \
    inline float operator-(Name a, float b) { return float(a) - b; }                                        \
    inline float operator*(Name a, float b) { return float(a) * b; }                                        \
    inline float operator/(Name a, float b) { return float(a) / b; }                                        \
    inline float operator+(float a, Name b) { return a + float(b); }                                        \
    inline float operator-(float a, Name b) { return a - float(b); }                                        \
    inline float operator*(float a, Name b) { return a * float(b); }                                        \
    inline float operator/(float a, Name b) { return a / float(b); }                                        \
    inline float &operator+=(float &a, Name b) { return a += float(b); }                                    \
    inline float &operator-=(float &a, Name b) { return a -= float(b); }                                    \
    inline float &operator*=(float &a, Name b) { return a *= float(b); }                                    \
    inline float &operator/=(float &a, Name b) { return a /= float(b); }                                    \
    inline double operator+(Name a, double b) { return float(a) + b; }                                      \
    inline double operator-(Name a, double b) { return float(a) - b; }                                      \
    inline double operator*(Name a, double b) { return float(a) * b; }                                      \
    inline double operator/(Name a, double b) { return float(a) / b; }                                      \
    inline double operator+(double a, Name b) { return a + float(b); }                                      \
    inline double operator-(double a, Name b) { return a - float(b); }                                      \
    inline double operator*(double a, Name b) { return a * float(b); }                                      \
    inline double operator/(double a, Name b) { return a / float(b); }                                      \
    template <class I, std::enable_if_t<std::is_integral_v<I>, int> = 0> Name operator+(Name a, I b) { return float(a) + float(b); } \
    template <class I, std::enable_if_t<std::is_integral_v<I>, int> = 0> Name operator-(Name a, I b) { return float(a) - float(b); } \
    template <class I, std::enable_if_t<std::is_integral_v<I>, int> = 0> Name operator*(Name a, I b) { return float(a) * float(b); } \
    template <class I, std::enable_if_t<std::is_integral_v<I>, int> = 0> Name operator/(Name a, I b) { return float(a) / float(b); } \
    template <class I, std::enable_if_t<std::is_integral_v<I>, int> = 0> Name operator+(I a, Name b) { return float(a) + float(b); } \
    template <class I, std::enable_if_t<std::is_integral_v<I>, int> = 0> Name operator-(I a, Name b) { return float(a) - float(b); } \
    template <class I, std::enable_if_t<std::is_integral_v<I>, int> = 0> Name operator*(I a, Name b) { return float(a) * float(b); } \
    template <class I, std::enable_if_t<std::is_integral_v<I>, int> = 0> Name operator/(I a, Name b) { return float(a) / float(b); } \
    inline std::ostream &operator<<(std::ostream &out, Name a) { return out << float(a); }

C10_HALF_TYPE_(Half, detail::float_of_half(x), detail::half_of_float(f))
C10_HALF_TYPE_(BFloat16, detail::float_of(static_cast<uint32_t>(x) << 16), detail::bfloat_of_float(f))

template <class T> using complex = std::complex<T>;

/* ---- numbers of quantized tensors, as they are stored ---- */

#define C10_QINT_(Name, type)                                                                               \
    struct Name {                                                                                           \
        using underlying = type;                                                                            \
        type val_;                                                                                          \
        Name() = default;                                                                                   \
        explicit Name(type x) : val_(x) {}                                                                  \
    };
C10_QINT_(qint8, int8_t)
C10_QINT_(quint8, uint8_t)
C10_QINT_(qint32, int)
#undef C10_QINT_

/* A size that tracing may leave open; here it is known. */
class SymInt {
    int64_t i = 0;

public:
    SymInt() = default;
    template <class I, std::enable_if_t<std::is_integral_v<I>, int> = 0> SymInt(I n) : i(static_cast<int64_t>(n)) {}
    operator int64_t() const { return i; }
    int64_t guard_int(const char *, int64_t) const { return i; }
    int64_t expect_int() const { return i; }
    std::optional<int64_t> maybe_as_int() const { return i; }
    bool is_symbolic() const { return false; }
    SymInt &operator+=(int64_t n) { return i += n, *this; }
    SymInt &operator-=(int64_t n) { return i -= n, *this; }
    SymInt &operator*=(int64_t n) { return i *= n, *this; }
};
using SymIntArrayRef = ArrayRef<SymInt>;

/* ---- dtypes, with PyTorch's numbers ---- */

/* (C++ type, PyTorch's name, the library's) */
#define AT_FORALL_TYPES_(_)                                                                                 \
    _(uint8_t, Byte, U8) _(int8_t, Char, I8) _(int16_t, Short, I16) _(int, Int, I32) _(int64_t, Long, I64)   \
    _(::c10::Half, Half, F16) _(float, Float, F32) _(double, Double, F64) _(::c10::complex<float>, ComplexFloat, C64) \
    _(::c10::complex<double>, ComplexDouble, C128) _(bool, Bool, BOOL) _(::c10::BFloat16, BFloat16, BF16)    \
    _(uint16_t, UInt16, U16) _(uint32_t, UInt32, U32) _(uint64_t, UInt64, U64)

enum class ScalarType : int8_t {
    Byte, Char, Short, Int, Long, Half, Float, Double, ComplexHalf, ComplexFloat, ComplexDouble, Bool, QInt8, QUInt8, QInt32, BFloat16,
    Float8_e5m2 = 23, Float8_e4m3fn, Float8_e5m2fnuz, Float8_e4m3fnuz, UInt16 = 27, UInt32, UInt64, Float8_e8m0fnu = 44, Undefined = 46
};

namespace detail {

struct dtype_pair {
    ScalarType at;
    rush_dtype rush;
    const char *name, *cpp; /* as streams print them, and the C++ type as a TypeMeta does */
};
constexpr dtype_pair dtype_pairs[] = {
#define AT_PAIR_(name, rush, cpp) {ScalarType::name, RUSH_##rush, #name, cpp},
    AT_PAIR_(Byte, U8, "unsigned char") AT_PAIR_(Char, I8, "signed char") AT_PAIR_(Short, I16, "short int") AT_PAIR_(Int, I32, "int") AT_PAIR_(Long, I64, "long int")
    AT_PAIR_(Half, F16, "c10::Half") AT_PAIR_(Float, F32, "float") AT_PAIR_(Double, F64, "double") AT_PAIR_(ComplexHalf, C32, "c10::complex<c10::Half>")
    AT_PAIR_(ComplexFloat, C64, "c10::complex<float>") AT_PAIR_(ComplexDouble, C128, "c10::complex<double>") AT_PAIR_(Bool, BOOL, "bool") AT_PAIR_(BFloat16, BF16, "c10::BFloat16")
    AT_PAIR_(UInt16, U16, "short unsigned int") AT_PAIR_(UInt32, U32, "unsigned int") AT_PAIR_(UInt64, U64, "long unsigned int")
    AT_PAIR_(QInt8, QINT8, "c10::qint8") AT_PAIR_(QUInt8, QUINT8, "c10::quint8") AT_PAIR_(QInt32, QINT32, "c10::qint32")
    AT_PAIR_(Float8_e5m2, F8E5M2, "c10::Float8_e5m2") AT_PAIR_(Float8_e4m3fn, F8E4M3FN, "c10::Float8_e4m3fn") AT_PAIR_(Float8_e5m2fnuz, F8E5M2FNUZ, "c10::Float8_e5m2fnuz")
    AT_PAIR_(Float8_e4m3fnuz, F8E4M3FNUZ, "c10::Float8_e4m3fnuz") AT_PAIR_(Float8_e8m0fnu, F8E8M0FNU, "c10::Float8_e8m0fnu")};
#undef AT_PAIR_

/* NULL: Undefined */
inline const dtype_pair *pair_of(ScalarType t)
{
    for (auto &pair : dtype_pairs)
        if (pair.at == t) return &pair;
    return nullptr;
}
inline rush_dtype dtype_of(ScalarType t)
{
    if (const dtype_pair *pair = pair_of(t)) return pair->rush;
    fail<Error>("a dtype was expected, not Undefined");
}
inline ScalarType scalar_type_of(int64_t dtype)
{
    for (auto &pair : dtype_pairs)
        if (pair.rush == dtype) return pair.at;
    return ScalarType::Undefined;
}

} // namespace detail

#define AT_CONSTANT_(type, name, rush) constexpr ScalarType k##name = ScalarType::name;
AT_FORALL_TYPES_(AT_CONSTANT_)
#undef AT_CONSTANT_
constexpr ScalarType kComplexHalf = ScalarType::ComplexHalf, kUInt8 = kByte, kInt8 = kChar, kInt16 = kShort, kInt32 = kInt, kInt64 = kLong, kFloat16 = kHalf,
                     kFloat32 = kFloat, kFloat64 = kDouble, kComplexFloat32 = kComplexFloat, kU8 = kByte, kI8 = kChar, kI16 = kShort, kI32 = kInt,
                     kI64 = kLong, kF16 = kHalf, kF32 = kFloat, kF64 = kDouble, kFloat8_e5m2 = ScalarType::Float8_e5m2, kFloat8_e4m3fn = ScalarType::Float8_e4m3fn,
                     kFloat8_e5m2fnuz = ScalarType::Float8_e5m2fnuz, kFloat8_e4m3fnuz = ScalarType::Float8_e4m3fnuz, kFloat8_e8m0fnu = ScalarType::Float8_e8m0fnu;

template <class T> struct CppTypeToScalarType;
#define AT_TYPE_(type, name, rush)                                                                          \
    template <> struct CppTypeToScalarType<type> : std::integral_constant<ScalarType, ScalarType::name> {};
AT_FORALL_TYPES_(AT_TYPE_)
#undef AT_TYPE_
#define AT_QINTS_(_) _(::c10::qint8, QInt8) _(::c10::quint8, QUInt8) _(::c10::qint32, QInt32)
#define AT_TYPE_(type, name)                                                                                \
    template <> struct CppTypeToScalarType<type> : std::integral_constant<ScalarType, ScalarType::name> {};  \
    constexpr ScalarType k##name = ScalarType::name;
AT_QINTS_(AT_TYPE_)
#undef AT_TYPE_
template <> struct CppTypeToScalarType<long long> : std::integral_constant<ScalarType, ScalarType::Long> {};
static_assert(std::is_same_v<int64_t, long>, "elements of dtype int64 are of type long");

inline size_t elementSize(ScalarType t) { return rush_dtype_size(detail::dtype_of(t)); }
inline bool isFloatingType(ScalarType t) { return rush_dtype_is_float(detail::dtype_of(t)); }
inline bool isComplexType(ScalarType t) { return rush_dtype_is_complex(detail::dtype_of(t)); }
inline bool isIntegralType(ScalarType t, bool includeBool) { return rush_dtype_is_integer(detail::dtype_of(t)) || (includeBool && t == kBool); }
inline ScalarType promoteTypes(ScalarType a, ScalarType b) { return detail::scalar_type_of(rush_promote(detail::dtype_of(a), detail::dtype_of(b))); }
inline const char *toString(ScalarType t)
{
    const detail::dtype_pair *pair = detail::pair_of(t);
    return pair ? pair->name : "Undefined";
}
inline std::ostream &operator<<(std::ostream &out, ScalarType t) { return out << toString(t); }

} // namespace c10

namespace caffe2 {
/* What Tensor::dtype() gives: a dtype that is printed as the C++ type of its elements. */
class TypeMeta {
    c10::ScalarType its = c10::ScalarType::Undefined;

public:
    TypeMeta() = default;
    explicit TypeMeta(c10::ScalarType t) : its(t) {}
    TypeMeta &operator=(c10::ScalarType t) { return its = t, *this; }
    c10::ScalarType toScalarType() const { return its; }
    bool isScalarType() const { return its != c10::ScalarType::Undefined; }
    bool isScalarType(c10::ScalarType t) const { return its == t; }
    size_t itemsize() const { return isScalarType() ? c10::elementSize(its) : 0; }
    std::string_view name() const
    {
        const c10::detail::dtype_pair *pair = c10::detail::pair_of(its);
        return pair ? pair->cpp : "nullptr (uninitialized)";
    }
    template <class T> static TypeMeta Make() { return TypeMeta(c10::CppTypeToScalarType<T>::value); }
    template <class T> static std::string_view TypeName() { return Make<T>().name(); }
    template <class T> static size_t ItemSize() { return sizeof(T); }
    template <class T> bool Match() const { return its == c10::CppTypeToScalarType<T>::value; }
    static TypeMeta fromScalarType(c10::ScalarType t) { return TypeMeta(t); }
    friend bool operator==(TypeMeta a, TypeMeta b) { return a.its == b.its; }
    friend bool operator!=(TypeMeta a, TypeMeta b) { return a.its != b.its; }
    friend bool operator==(TypeMeta a, c10::ScalarType b) { return a.its == b; }
    friend bool operator!=(TypeMeta a, c10::ScalarType b) { return a.its != b; }
    friend bool operator==(c10::ScalarType a, TypeMeta b) { return a == b.its; }
    friend bool operator!=(c10::ScalarType a, TypeMeta b) { return a != b.its; }
    friend std::ostream &operator<<(std::ostream &out, TypeMeta t) { return out << t.name(); }
};
} // namespace caffe2

namespace c10 {

using caffe2::TypeMeta;
inline ScalarType typeMetaToScalarType(TypeMeta t) { return t.toScalarType(); }
inline std::optional<ScalarType> optTypeMetaToScalarType(std::optional<TypeMeta> t) { return t ? std::optional<ScalarType>(t->toScalarType()) : std::nullopt; }
inline TypeMeta scalarTypeToTypeMeta(ScalarType t) { return TypeMeta(t); }
inline TypeMeta get_default_dtype() { return TypeMeta(detail::scalar_type_of(rush_default_dtype())); }
inline ScalarType get_default_dtype_as_scalartype() { return get_default_dtype().toScalarType(); }
inline void set_default_dtype(TypeMeta t) { detail::check(rush_default_dtype_set(detail::dtype_of(t.toScalarType()))); }

/* ---- numbers ---- */

class Scalar {
    rush_value v = rush_v_int(0);

public:
    Scalar() = default;
    Scalar(bool b) : v(rush_v_bool(b)) {}
    Scalar(double f) : v(rush_v_float(f)) {}
    Scalar(float f) : v(rush_v_float(f)) {}
    Scalar(Half f) : v(rush_v_float(float(f))) {}
    Scalar(BFloat16 f) : v(rush_v_float(float(f))) {}
    template <class I, std::enable_if_t<std::is_integral_v<I> && !std::is_same_v<I, bool>, int> = 0> Scalar(I i) : v(rush_v_int(static_cast<int64_t>(i))) {}
    template <class F> Scalar(std::complex<F> c) : v(rush_v_none())
    {
        v.kind = RUSH_V_COMPLEX;
        v.c[0] = static_cast<double>(c.real());
        v.c[1] = static_cast<double>(c.imag());
    }
    static Scalar of(const rush_value &value)
    {
        Scalar s;
        s.v = value;
        return s;
    }
    const rush_value &value() const { return v; }
    bool isFloatingPoint() const { return v.kind == RUSH_V_FLOAT; }
    bool isComplex() const { return v.kind == RUSH_V_COMPLEX; }
    bool isBoolean() const { return v.kind == RUSH_V_BOOL; }
    bool isIntegral(bool includeBool) const { return v.kind == RUSH_V_INT || (includeBool && v.kind == RUSH_V_BOOL); }
    bool isIntegral() const { return isIntegral(false); }
    ScalarType type() const { return isFloatingPoint() ? kDouble : isComplex() ? kComplexDouble : isBoolean() ? kBool : kLong; }
    template <class T> T to() const
    {
        if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
            using F = typename T::value_type;
            return isComplex() ? T(static_cast<F>(v.c[0]), static_cast<F>(v.c[1])) : T(static_cast<F>(isFloatingPoint() ? v.f : static_cast<double>(v.i)));
        } else {
            if (isComplex()) TORCH_CHECK(v.c[1] == 0, "value cannot be converted to a real type without losing its imaginary part");
            if (isComplex()) return static_cast<T>(static_cast<float>(v.c[0]));
            if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) return T(isFloatingPoint() ? static_cast<float>(v.f) : static_cast<float>(v.i));
            else return isFloatingPoint() ? static_cast<T>(v.f) : static_cast<T>(v.i);
        }
    }
    double toDouble() const { return to<double>(); }
    float toFloat() const { return to<float>(); }
    int64_t toLong() const { return to<int64_t>(); }
    int toInt() const { return to<int>(); }
    bool toBool() const { return to<bool>(); }
    std::complex<double> toComplexDouble() const { return to<std::complex<double>>(); }
    Scalar operator-() const
    {
        if (isFloatingPoint()) return -v.f;
        if (isComplex()) return std::complex<double>(-v.c[0], -v.c[1]);
        return -v.i;
    }
    bool equal(const Scalar &other) const { return toComplexDouble() == other.toComplexDouble(); }
};
inline std::ostream &operator<<(std::ostream &out, const Scalar &s)
{
    if (s.isFloatingPoint()) return out << s.toDouble();
    if (s.isComplex()) return out << s.toComplexDouble();
    return out << s.toLong();
}

/* ---- devices, layouts ---- */

enum class DeviceType : int8_t { CPU, CUDA, MKLDNN, OPENGL, OPENCL, IDEEP, HIP, FPGA, MAIA, XLA, Vulkan, Metal, XPU, MPS, Meta, HPU, VE, Lazy, IPU, MTIA, PrivateUse1, COMPILE_TIME_MAX_DEVICE_TYPES };
constexpr DeviceType kCPU = DeviceType::CPU, kCUDA = DeviceType::CUDA, kHIP = DeviceType::HIP, kXLA = DeviceType::XLA, kXPU = DeviceType::XPU, kMPS = DeviceType::MPS, kMeta = DeviceType::Meta,
                     kPrivateUse1 = DeviceType::PrivateUse1;
using DeviceIndex = int8_t;

namespace detail {
inline uint8_t device_type_of(DeviceType t)
{
    switch (t) {
    case DeviceType::CPU: return RUSH_CPU;
    case DeviceType::CUDA: return RUSH_CUDA;
    case DeviceType::Meta: return RUSH_META;
    case DeviceType::PrivateUse1: return RUSH_PRIVATEUSEONE;
    default: fail<Error>("there is no backend for this type of device");
    }
}
} // namespace detail

class Device {
    DeviceType its_type;
    DeviceIndex its_index;

public:
    Device(DeviceType type, DeviceIndex index = -1) : its_type(type), its_index(index) {}
    explicit Device(rush_device d)
        : its_type(d.type == RUSH_CPU ? kCPU : d.type == RUSH_META ? kMeta : d.type == RUSH_CUDA ? kCUDA : kPrivateUse1), its_index(d.index) {}
    Device(const std::string &text);
    Device(const char *text) : Device(std::string(text)) {}
    rush_device value() const { return {detail::device_type_of(its_type), its_index}; }
    DeviceType type() const { return its_type; }
    DeviceIndex index() const { return its_index; }
    bool has_index() const { return its_index >= 0; }
    bool is_cpu() const { return its_type == kCPU; }
    bool is_cuda() const { return its_type == kCUDA; }
    bool is_meta() const { return its_type == kMeta; }
    bool is_mps() const { return its_type == kMPS; }
    bool is_xla() const { return its_type == kXLA; }
    bool is_privateuseone() const { return its_type == kPrivateUse1; }
    bool operator==(const Device &other) const { return its_type == other.its_type && its_index == other.its_index; }
    bool operator!=(const Device &other) const { return !(*this == other); }
    void set_index(DeviceIndex index) { its_index = index; }
    std::string str() const;
};
inline std::ostream &operator<<(std::ostream &out, const Device &d) { return out << d.str(); }
inline std::string DeviceTypeName(DeviceType t, bool lower = false)
{
    static const char *const names[] = {"CPU", "CUDA", "MKLDNN", "OPENGL", "OPENCL", "IDEEP", "HIP", "FPGA", "MAIA", "XLA", "VULKAN", "METAL", "XPU", "MPS", "META", "HPU", "VE", "LAZY", "IPU", "MTIA"};
    const bool own = t == DeviceType::PrivateUse1;
    std::string name = own ? rush_device_text(rush_device{RUSH_PRIVATEUSEONE, -1}) : names[static_cast<int>(t)];
    for (char &c : name) c = static_cast<char>(own && !lower ? std::toupper(c) : lower ? std::tolower(c) : c);
    return name;
}
inline std::string Device::str() const { return DeviceTypeName(its_type, true) + (has_index() ? ":" + std::to_string(its_index) : ""); }
inline Device::Device(const std::string &text) : Device(kCPU)
{
    TORCH_CHECK(!text.empty(), "Device string must not be empty");
    size_t colon = text.find(':');
    std::string index = colon == std::string::npos ? "" : text.substr(colon + 1), type = text.substr(0, colon);
    bool plain = index.find_first_not_of("0123456789") == std::string::npos && index.size() < 4 && (index.size() < 2 || index[0] != '0');
    TORCH_CHECK(plain && (colon == std::string::npos || !index.empty()) && (index.empty() || std::stoi(index) < 128), "Invalid device string: '", text, "'");
    its_index = static_cast<DeviceIndex>(index.empty() ? -1 : std::stoi(index));
    for (int t = 0; t < static_cast<int>(DeviceType::COMPILE_TIME_MAX_DEVICE_TYPES); ++t)
        if (type == DeviceTypeName(its_type = static_cast<DeviceType>(t), true)) return;
    TORCH_CHECK(rush_device_from_name(type.c_str()) == RUSH_PRIVATEUSEONE, "Expected one of cpu, cuda, ipu, xpu, mkldnn, opengl, opencl, ideep, hip, ve, fpga, maia, xla, lazy, vulkan, mps, meta, hpu, mtia, "
                "privateuseone device type at start of device string: ", type);
    its_type = kPrivateUse1;
}
inline std::ostream &operator<<(std::ostream &out, DeviceType t) { return out << DeviceTypeName(t, true); }

enum class Layout : int8_t { Strided, Sparse, SparseCsr, Mkldnn, SparseCsc, SparseBsr, SparseBsc };
constexpr Layout kStrided = Layout::Strided, kSparse = Layout::Sparse, kSparseCsr = Layout::SparseCsr, kSparseCsc = Layout::SparseCsc,
                 kSparseBsr = Layout::SparseBsr, kSparseBsc = Layout::SparseBsc;
enum class MemoryFormat : int8_t { Contiguous, Preserve, ChannelsLast, ChannelsLast3d };
static_assert(RUSH_CONTIGUOUS == 0 && RUSH_PRESERVE == 1 && RUSH_CHANNELS_LAST == 2 && RUSH_CHANNELS_LAST_3D == 3, "the same numbers on both sides");
inline std::ostream &operator<<(std::ostream &out, Layout l)
{
    static const char *const names[] = {"Strided", "Sparse", "SparseCsr", "Mkldnn", "SparseCsc", "SparseBsr", "SparseBsc"};
    return out << names[static_cast<int>(l)];
}
inline std::ostream &operator<<(std::ostream &out, MemoryFormat f)
{
    static const char *const names[] = {"Contiguous", "Preserve", "ChannelsLast", "ChannelsLast3d"};
    return out << names[static_cast<int>(f)];
}

namespace detail {
inline int layout_value(Layout l)
{
    constexpr int values[] = {RUSH_STRIDED, RUSH_SPARSE_COO, RUSH_SPARSE_CSR, -1, RUSH_SPARSE_CSC, RUSH_SPARSE_BSR, RUSH_SPARSE_BSC};
    int value = values[static_cast<int>(l)];
    if (value < 0) fail<Error>("this layout is not supported");
    return value;
}
inline Layout layout_of(int64_t value)
{
    constexpr Layout layouts[] = {kStrided, kSparse, kSparseCsr, kSparseCsc, kSparseBsr, kSparseBsc};
    return layouts[value];
}
} // namespace detail

class Generator {
    std::shared_ptr<rush_generator> g;

public:
    Generator() = default;
    explicit Generator(rush_generator *own) : g(own, rush_generator_drop) {} /* takes the reference */
    static Generator of(rush_generator *shared)
    {
        if (shared) rush_generator_keep(shared);
        return shared ? Generator(shared) : Generator();
    }
    rush_generator *get() const { return g.get(); }
    template <class T> T *get() const { return T::of(*this); } /* what draws: at::CPUGeneratorImpl */
    bool defined() const { return static_cast<bool>(g); }
    uint64_t current_seed() const { return rush_generator_seeded(g.get()); }
    Device device() const { return Device(rush_generator_device(g.get())); }
    void set_current_seed(uint64_t seed) const { rush_generator_seed(g.get(), seed); }
};

/* dtype, layout, device and more of a tensor to be made: each may be left open. */
class TensorOptions {
    std::optional<ScalarType> its_dtype;
    std::optional<Layout> its_layout;
    std::optional<Device> its_device;
    std::optional<bool> pinned, grad;
    std::optional<MemoryFormat> format;

public:
    TensorOptions() = default;
    TensorOptions(ScalarType t) : its_dtype(t) {}
    TensorOptions(TypeMeta t) : its_dtype(t.toScalarType()) {}
    TensorOptions(Layout l) : its_layout(l) {}
    TensorOptions(Device d) : its_device(d) {}
    TensorOptions(DeviceType t) : its_device(Device(t)) {}
    TensorOptions(const std::string &device) : its_device(Device(device)) {}
    TensorOptions(const char *device) : its_device(Device(device)) {}
    explicit TensorOptions(MemoryFormat f) : format(f) {}
    TensorOptions dtype(std::optional<ScalarType> t) const { return with(&TensorOptions::its_dtype, t); }
    TensorOptions dtype(TypeMeta t) const { return dtype(std::optional<ScalarType>(t.toScalarType())); }
    TensorOptions dtype(ScalarType t) const { return dtype(std::optional<ScalarType>(t)); }
    template <class T> TensorOptions dtype() const { return dtype(CppTypeToScalarType<T>::value); }
    TensorOptions layout(std::optional<Layout> l) const { return with(&TensorOptions::its_layout, l); }
    TensorOptions device(std::optional<Device> d) const { return with(&TensorOptions::its_device, d); }
    TensorOptions device(DeviceType t, DeviceIndex index = -1) const { return device(std::optional<Device>(Device(t, index))); }
    TensorOptions device_index(DeviceIndex i) const { return device(Device(kCUDA, i)); }
    TensorOptions pinned_memory(std::optional<bool> b) const { return with(&TensorOptions::pinned, b); }
    TensorOptions requires_grad(std::optional<bool> b) const { return with(&TensorOptions::grad, b); }
    TensorOptions memory_format(std::optional<MemoryFormat> f) const { return with(&TensorOptions::format, f); }
    TypeMeta dtype() const { return its_dtype ? TypeMeta(*its_dtype) : get_default_dtype(); }
    Layout layout() const { return its_layout.value_or(kStrided); }
    Device device() const { return its_device.value_or(Device(kCPU)); }
    bool pinned_memory() const { return pinned.value_or(false); }
    bool requires_grad() const { return grad.value_or(false); }
    bool has_dtype() const { return its_dtype.has_value(); }
    bool has_device() const { return its_device.has_value(); }
    const std::optional<ScalarType> &dtype_opt() const { return its_dtype; }
    const std::optional<Layout> &layout_opt() const { return its_layout; }
    const std::optional<Device> &device_opt() const { return its_device; }
    const std::optional<bool> &pinned_memory_opt() const { return pinned; }
    const std::optional<bool> &requires_grad_opt() const { return grad; }
    const std::optional<MemoryFormat> &memory_format_opt() const { return format; }

private:
    template <class T> TensorOptions with(std::optional<T> TensorOptions::*what, std::optional<T> value) const
    {
        TensorOptions changed = *this;
        changed.*what = value;
        return changed;
    }
};
inline std::ostream &operator<<(std::ostream &out, const TensorOptions &o)
{
    auto part = [&](const char *name, const auto &value, bool given) { out << name << std::boolalpha << value << (given ? "" : " (default)"); };
    part("TensorOptions(dtype=", o.dtype(), o.has_dtype());
    part(", device=", o.device(), o.has_device());
    part(", layout=", o.layout(), o.layout_opt().has_value());
    part(", requires_grad=", o.requires_grad(), o.requires_grad_opt().has_value());
    part(", pinned_memory=", o.pinned_memory(), o.pinned_memory_opt().has_value());
    out << ", memory_format=";
    return o.memory_format_opt() ? out << *o.memory_format_opt() << ')' : out << "(nullopt))";
}
inline TensorOptions dtype(ScalarType t) { return TensorOptions(t); }
inline TensorOptions dtype(TypeMeta t) { return TensorOptions(t); }
inline TensorOptions layout(Layout l) { return TensorOptions(l); }
inline TensorOptions device(Device d) { return TensorOptions(d); }
inline TensorOptions device(DeviceType t) { return TensorOptions(Device(t)); }
inline TensorOptions requires_grad(bool b = true) { return TensorOptions().requires_grad(b); }

} // namespace c10

namespace std {
template <> struct hash<::c10::Device> {
    size_t operator()(const ::c10::Device &d) const { return static_cast<size_t>(d.type()) << 8 | static_cast<uint8_t>(d.index()); }
};
#define AT_LIMITS_(Name, digits_, lowest_, highest_, smallest_, step_, infinite, nan)                        \
    template <> class numeric_limits<::c10::Name> {                                                         \
        static constexpr ::c10::Name bits(uint16_t x) { return ::c10::Name(x, ::c10::Name::from_bits()); }   \
                                                                                                            \
    public:                                                                                                 \
        static constexpr bool is_specialized = true, is_signed = true, is_integer = false, is_exact = false, has_infinity = true, has_quiet_NaN = true; \
        static constexpr int radix = 2, digits = digits_;                                                   \
        static constexpr ::c10::Name lowest() { return bits(lowest_); }                                      \
        static constexpr ::c10::Name max() { return bits(highest_); }                                        \
        static constexpr ::c10::Name min() { return bits(smallest_); }                                       \
        static constexpr ::c10::Name epsilon() { return bits(step_); }                                       \
        static constexpr ::c10::Name infinity() { return bits(infinite); }                                   \
        static constexpr ::c10::Name quiet_NaN() { return bits(nan); }                                       \
    };
AT_LIMITS_(Half, 11, 0xfbff, 0x7bff, 0x0400, 0x1400, 0x7c00, 0x7e00)
AT_LIMITS_(BFloat16, 8, 0xff7f, 0x7f7f, 0x0080, 0x3c00, 0x7f80, 0x7fc0)
#undef AT_LIMITS_
inline bool isnan(::c10::Half a) { return std::isnan(float(a)); }
inline bool isnan(::c10::BFloat16 a) { return std::isnan(float(a)); }
inline bool isinf(::c10::Half a) { return std::isinf(float(a)); }
inline bool isinf(::c10::BFloat16 a) { return std::isinf(float(a)); }
} // namespace std

namespace at {
/* In which type sums of a dtype are computed. */
template <class T> struct OpMathType { using type = T; };
template <> struct OpMathType<Half> { using type = float; };
template <> struct OpMathType<BFloat16> { using type = float; };
template <class T> using opmath_type = typename OpMathType<T>::type;
template <class T, bool is_cuda> struct AccumulateType {
    using type = std::conditional_t<std::is_integral_v<T>, int64_t, std::conditional_t<is_cuda && !std::is_same_v<T, double>, float, std::conditional_t<is_cuda, double, std::conditional_t<std::is_same_v<T, float> || std::is_same_v<T, double>, double, float>>>>;
};
template <class T, bool is_cuda> using acc_type = typename AccumulateType<T, is_cuda>::type;
} // namespace at

namespace torch {
using Dtype = c10::ScalarType;
}

#endif
