/* cases.hpp - what code for each dtype is made of: a switch, its cases, the dtypes that one list names. */
#ifndef RUSHLIGHT_AT_CASES_HPP
#define RUSHLIGHT_AT_CASES_HPP

#include "types.hpp"

namespace c10::impl {
template <ScalarType> struct ScalarTypeToCPPType;
#define AT_TYPE_(cpp, name, rush)                                                                           \
    template <> struct ScalarTypeToCPPType<ScalarType::name> { using type = cpp; };
AT_FORALL_TYPES_(AT_TYPE_)
#undef AT_TYPE_
#define AT_TYPE_(cpp, name)                                                                                 \
    template <> struct ScalarTypeToCPPType<ScalarType::name> { using type = cpp; };
AT_QINTS_(AT_TYPE_)
#undef AT_TYPE_
template <ScalarType N> using ScalarTypeToCPPTypeT = typename ScalarTypeToCPPType<N>::type;
} // namespace c10::impl

/* The case of a dtype: inside of the function that is called, `hint` is the C++ type of its elements. */
#define AT_CASE_(enum_type, hint, ...)                                                                      \
    case enum_type: {                                                                                       \
        using hint C10_UNUSED = ::c10::impl::ScalarTypeToCPPTypeT<enum_type>;                                \
        return __VA_ARGS__();                                                                               \
    }
/* `dtype` says what at_dispatched, the value of TYPE, stands for. */
#define AT_SWITCH_(error, dtype, TYPE, NAME, ...)                                                           \
    [&] {                                                                                                   \
        const auto &at_dispatched = TYPE;                                                                   \
        constexpr const char *at_dispatch_name = NAME;                                                      \
        const ::c10::ScalarType at_dispatch_type = dtype;                                                    \
        switch (at_dispatch_type) {                                                                         \
            __VA_ARGS__                                                                                     \
        default: ::c10::detail::fail<error>("", '"', at_dispatch_name, "\" not implemented for '", ::c10::toString(at_dispatch_type), "'"); \
        }                                                                                                   \
    }()

/* Lists of dtypes for AT_DISPATCH_V2, whose function stands in AT_WRAP, since it may have commas. */
#define AT_EXPAND(...) __VA_ARGS__
#define AT_WRAP(...) __VA_ARGS__
#define AT_FLOATING_TYPES ::c10::ScalarType::Double, ::c10::ScalarType::Float
#define AT_COMPLEX_TYPES ::c10::ScalarType::ComplexDouble, ::c10::ScalarType::ComplexFloat
#define AT_INTEGRAL_TYPES ::c10::ScalarType::Byte, ::c10::ScalarType::Char, ::c10::ScalarType::Int, ::c10::ScalarType::Long, ::c10::ScalarType::Short
#define AT_BAREBONES_UNSIGNED_TYPES ::c10::ScalarType::UInt16, ::c10::ScalarType::UInt32, ::c10::ScalarType::UInt64
#define AT_INTEGRAL_TYPES_V2 AT_EXPAND(AT_INTEGRAL_TYPES), AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES)
#define AT_ALL_TYPES AT_EXPAND(AT_INTEGRAL_TYPES), AT_EXPAND(AT_FLOATING_TYPES)
#define AT_ALL_TYPES_AND_COMPLEX AT_EXPAND(AT_ALL_TYPES), AT_EXPAND(AT_COMPLEX_TYPES)
#define AT_QINT_TYPES ::c10::ScalarType::QInt8, ::c10::ScalarType::QUInt8, ::c10::ScalarType::QInt32

/* A case for each dtype of a list, up to 32 of them. */
#define AT_EACH_(b, ...) AT_PICK_(__VA_ARGS__, AT_EACH_32_, AT_EACH_31_, AT_EACH_30_, AT_EACH_29_, AT_EACH_28_, AT_EACH_27_, AT_EACH_26_, AT_EACH_25_, \
    AT_EACH_24_, AT_EACH_23_, AT_EACH_22_, AT_EACH_21_, AT_EACH_20_, AT_EACH_19_, AT_EACH_18_, AT_EACH_17_, AT_EACH_16_, AT_EACH_15_, AT_EACH_14_, AT_EACH_13_, \
    AT_EACH_12_, AT_EACH_11_, AT_EACH_10_, AT_EACH_9_, AT_EACH_8_, AT_EACH_7_, AT_EACH_6_, AT_EACH_5_, AT_EACH_4_, AT_EACH_3_, AT_EACH_2_, AT_EACH_1_, \
    0)(AT_WRAP(b), __VA_ARGS__)
#define AT_PICK_(a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19, a20, a21, a22, a23, a24, a25, a26, a27, a28, a29, a30, \
    a31, a32, chosen, ...) chosen
#define AT_EACH_1_(b, t) AT_CASE_(t, scalar_t, AT_WRAP(b))
#define AT_EACH_2_(b, t, ...) AT_CASE_(t, scalar_t, AT_WRAP(b)) AT_EACH_1_(AT_WRAP(b), __VA_ARGS__)
#define AT_EACH_3_(b, t, ...) AT_CASE_(t, scalar_t, AT_WRAP(b)) AT_EACH_2_(AT_WRAP(b), __VA_ARGS__)
#define AT_EACH_4_(b, t, ...) AT_CASE_(t, scalar_t, AT_WRAP(b)) AT_EACH_3_(AT_WRAP(b), __VA_ARGS__)
#define AT_EACH_5_(b, t, ...) AT_CASE_(t, scalar_t, AT_WRAP(b)) AT_EACH_4_(AT_WRAP(b), __VA_ARGS__)
#define AT_EACH_6_(b, t, ...) AT_CASE_(t, scalar_t, AT_WRAP(b)) AT_EACH_5_(AT_WRAP(b), __VA_ARGS__)
#define AT_EACH_7_(b, t, ...) AT_CASE_(t, scalar_t, AT_WRAP(b)) AT_EACH_6_(AT_WRAP(b), __VA_ARGS__)
#define AT_EACH_8_(b, t, ...) AT_CASE_(t, scalar_t, AT_WRAP(b)) AT_EACH_7_(AT_WRAP(b), __VA_ARGS__)
#define AT_EACH_9_(b, t, ...) AT_CASE_(t, scalar_t, AT_WRAP(b)) AT_EACH_8_(AT_WRAP(b), __VA_ARGS__)
#define AT_EACH_10_(b, t, ...) AT_CASE_(t, scalar_t, AT_WRAP(b)) AT_EACH_9_(AT_WRAP(b), __VA_ARGS__)
#define AT_EACH_11_(b, t, ...) AT_CASE_(t, scalar_t, AT_WRAP(b)) AT_EACH_10_(AT_WRAP(b), __VA_ARGS__)
#define AT_EACH_12_(b, t, ...) AT_CASE_(t, scalar_t, AT_WRAP(b)) AT_EACH_11_(AT_WRAP(b), __VA_ARGS__)
#define AT_EACH_13_(b, t, ...) AT_CASE_(t, scalar_t, AT_WRAP(b)) AT_EACH_12_(AT_WRAP(b), __VA_ARGS__)
#define AT_EACH_14_(b, t, ...) AT_CASE_(t, scalar_t, AT_WRAP(b)) AT_EACH_13_(AT_WRAP(b), __VA_ARGS__)
#define AT_EACH_15_(b, t, ...) AT_CASE_(t, scalar_t, AT_WRAP(b)) AT_EACH_14_(AT_WRAP(b), __VA_ARGS__)
#define AT_EACH_16_(b, t, ...) AT_CASE_(t, scalar_t, AT_WRAP(b)) AT_EACH_15_(AT_WRAP(b), __VA_ARGS__)
#define AT_EACH_17_(b, t, ...) AT_CASE_(t, scalar_t, AT_WRAP(b)) AT_EACH_16_(AT_WRAP(b), __VA_ARGS__)
#define AT_EACH_18_(b, t, ...) AT_CASE_(t, scalar_t, AT_WRAP(b)) AT_EACH_17_(AT_WRAP(b), __VA_ARGS__)
#define AT_EACH_19_(b, t, ...) AT_CASE_(t, scalar_t, AT_WRAP(b)) AT_EACH_18_(AT_WRAP(b), __VA_ARGS__)
#define AT_EACH_20_(b, t, ...) AT_CASE_(t, scalar_t, AT_WRAP(b)) AT_EACH_19_(AT_WRAP(b), __VA_ARGS__)
#define AT_EACH_21_(b, t, ...) AT_CASE_(t, scalar_t, AT_WRAP(b)) AT_EACH_20_(AT_WRAP(b), __VA_ARGS__)
#define AT_EACH_22_(b, t, ...) AT_CASE_(t, scalar_t, AT_WRAP(b)) AT_EACH_21_(AT_WRAP(b), __VA_ARGS__)
#define AT_EACH_23_(b, t, ...) AT_CASE_(t, scalar_t, AT_WRAP(b)) AT_EACH_22_(AT_WRAP(b), __VA_ARGS__)
#define AT_EACH_24_(b, t, ...) AT_CASE_(t, scalar_t, AT_WRAP(b)) AT_EACH_23_(AT_WRAP(b), __VA_ARGS__)
#define AT_EACH_25_(b, t, ...) AT_CASE_(t, scalar_t, AT_WRAP(b)) AT_EACH_24_(AT_WRAP(b), __VA_ARGS__)
#define AT_EACH_26_(b, t, ...) AT_CASE_(t, scalar_t, AT_WRAP(b)) AT_EACH_25_(AT_WRAP(b), __VA_ARGS__)
#define AT_EACH_27_(b, t, ...) AT_CASE_(t, scalar_t, AT_WRAP(b)) AT_EACH_26_(AT_WRAP(b), __VA_ARGS__)
#define AT_EACH_28_(b, t, ...) AT_CASE_(t, scalar_t, AT_WRAP(b)) AT_EACH_27_(AT_WRAP(b), __VA_ARGS__)
#define AT_EACH_29_(b, t, ...) AT_CASE_(t, scalar_t, AT_WRAP(b)) AT_EACH_28_(AT_WRAP(b), __VA_ARGS__)
#define AT_EACH_30_(b, t, ...) AT_CASE_(t, scalar_t, AT_WRAP(b)) AT_EACH_29_(AT_WRAP(b), __VA_ARGS__)
#define AT_EACH_31_(b, t, ...) AT_CASE_(t, scalar_t, AT_WRAP(b)) AT_EACH_30_(AT_WRAP(b), __VA_ARGS__)
#define AT_EACH_32_(b, t, ...) AT_CASE_(t, scalar_t, AT_WRAP(b)) AT_EACH_31_(AT_WRAP(b), __VA_ARGS__)

#endif
