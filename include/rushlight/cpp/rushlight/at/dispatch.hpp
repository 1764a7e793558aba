/* dispatch.hpp - code for each dtype: AT_DISPATCH_..., inside of which scalar_t is the C++ type of the elements. */
#ifndef RUSHLIGHT_AT_DISPATCH_HPP
#define RUSHLIGHT_AT_DISPATCH_HPP

#include "tensor.hpp"

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

namespace detail {
inline at::ScalarType scalar_type(at::ScalarType t) { return t; }
inline at::ScalarType scalar_type(const at::DeprecatedTypeProperties &t) { return t.scalarType(); }
} // namespace detail

#define AT_DISPATCH_CASE(enum_type, ...)                                                                    \
    case enum_type: {                                                                                       \
        using scalar_t C10_UNUSED = ::c10::impl::ScalarTypeToCPPTypeT<enum_type>;                            \
        return __VA_ARGS__();                                                                               \
    }
#define AT_DISPATCH_SWITCH(TYPE, NAME, ...)                                                                 \
    [&] {                                                                                                   \
        const auto &at_dispatched = TYPE;                                                                   \
        constexpr const char *at_dispatch_name = NAME;                                                      \
        const ::at::ScalarType at_dispatch_type = ::detail::scalar_type(at_dispatched);                      \
        switch (at_dispatch_type) {                                                                         \
            __VA_ARGS__                                                                                     \
        default: ::c10::detail::fail<::c10::NotImplementedError>("", '"', at_dispatch_name, "\" not implemented for '", ::c10::toString(at_dispatch_type), "'"); \
        }                                                                                                   \
    }()

#define AT_DISPATCH_CASE_FLOATING_TYPES(...) AT_DISPATCH_CASE(::at::ScalarType::Double, __VA_ARGS__) AT_DISPATCH_CASE(::at::ScalarType::Float, __VA_ARGS__)
#define AT_DISPATCH_CASE_REDUCED_FLOATING_TYPES(...) AT_DISPATCH_CASE(::at::ScalarType::Half, __VA_ARGS__) AT_DISPATCH_CASE(::at::ScalarType::BFloat16, __VA_ARGS__)
#define AT_DISPATCH_CASE_COMPLEX_TYPES(...) AT_DISPATCH_CASE(::at::ScalarType::ComplexDouble, __VA_ARGS__) AT_DISPATCH_CASE(::at::ScalarType::ComplexFloat, __VA_ARGS__)
#define AT_DISPATCH_CASE_INTEGRAL_TYPES(...)                                                                \
    AT_DISPATCH_CASE(::at::ScalarType::Byte, __VA_ARGS__) AT_DISPATCH_CASE(::at::ScalarType::Char, __VA_ARGS__) AT_DISPATCH_CASE(::at::ScalarType::Int, __VA_ARGS__) \
    AT_DISPATCH_CASE(::at::ScalarType::Long, __VA_ARGS__) AT_DISPATCH_CASE(::at::ScalarType::Short, __VA_ARGS__)
#define AT_DISPATCH_CASE_ALL_TYPES(...) AT_DISPATCH_CASE_INTEGRAL_TYPES(__VA_ARGS__) AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__)
#define AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES(...) AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__) AT_DISPATCH_CASE_COMPLEX_TYPES(__VA_ARGS__)
#define AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX(...) AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__) AT_DISPATCH_CASE_COMPLEX_TYPES(__VA_ARGS__)
#define AT_DISPATCH_CASE_FLOATING_TYPES_AND_HALF(...) AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__) AT_DISPATCH_CASE(::at::ScalarType::Half, __VA_ARGS__)

/* Each group as it is, and with one to four dtypes more. */
#define AT_MORE_(t, ...) AT_DISPATCH_CASE(t, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_TYPES(TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND_HALF(TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_FLOATING_TYPES_AND_HALF(__VA_ARGS__))
#define AT_DISPATCH_REDUCED_FLOATING_TYPES(TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_REDUCED_FLOATING_TYPES(__VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND(A, TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__) AT_MORE_(A, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND2(A, B, TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__) AT_MORE_(A, __VA_ARGS__) AT_MORE_(B, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND3(A, B, C, TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__) AT_MORE_(A, __VA_ARGS__) AT_MORE_(B, __VA_ARGS__) AT_MORE_(C, __VA_ARGS__))
#define AT_DISPATCH_COMPLEX_TYPES(TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_COMPLEX_TYPES(__VA_ARGS__))
#define AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES(TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES(__VA_ARGS__))
#define AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES_AND1(A, TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES(__VA_ARGS__) AT_MORE_(A, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES_AND2(A, B, TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES(__VA_ARGS__) AT_MORE_(A, __VA_ARGS__) AT_MORE_(B, __VA_ARGS__))
#define AT_DISPATCH_INTEGRAL_TYPES(TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_INTEGRAL_TYPES(__VA_ARGS__))
#define AT_DISPATCH_INTEGRAL_TYPES_AND(A, TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_INTEGRAL_TYPES(__VA_ARGS__) AT_MORE_(A, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES(TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND(A, TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__) AT_MORE_(A, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND2(A, B, TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__) AT_MORE_(A, __VA_ARGS__) AT_MORE_(B, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND3(A, B, C, TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__) AT_MORE_(A, __VA_ARGS__) AT_MORE_(B, __VA_ARGS__) AT_MORE_(C, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX(TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX(__VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND(A, TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX(__VA_ARGS__) AT_MORE_(A, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND2(A, B, TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX(__VA_ARGS__) AT_MORE_(A, __VA_ARGS__) AT_MORE_(B, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND3(A, B, C, TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX(__VA_ARGS__) AT_MORE_(A, __VA_ARGS__) AT_MORE_(B, __VA_ARGS__) AT_MORE_(C, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND4(A, B, C, D, TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX(__VA_ARGS__) AT_MORE_(A, __VA_ARGS__) AT_MORE_(B, __VA_ARGS__) AT_MORE_(C, __VA_ARGS__) AT_MORE_(D, __VA_ARGS__))
#define AT_INDEX_CASE_(enum_type, ...)                                                                      \
    case enum_type: {                                                                                       \
        using index_t C10_UNUSED = ::c10::impl::ScalarTypeToCPPTypeT<enum_type>;                             \
        return __VA_ARGS__();                                                                               \
    }
#define AT_DISPATCH_INDEX_TYPES(TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, AT_INDEX_CASE_(::at::ScalarType::Int, __VA_ARGS__) AT_INDEX_CASE_(::at::ScalarType::Long, __VA_ARGS__))

/* Quantized types; underlying_t is the type of their numbers. */
#define AT_QINT_CASE_(enum_type, ...)                                                                       \
    case enum_type: {                                                                                       \
        using scalar_t C10_UNUSED = ::c10::impl::ScalarTypeToCPPTypeT<enum_type>;                            \
        using underlying_t C10_UNUSED = scalar_t::underlying;                                               \
        const auto &SCALAR_TYPE C10_UNUSED = enum_type;                                                     \
        const auto &UNDERLYING_TYPE C10_UNUSED = ::c10::CppTypeToScalarType<underlying_t>::value;            \
        return __VA_ARGS__();                                                                               \
    }
#define AT_DISPATCH_CASE_QINT_BYTE_TYPES(...) AT_QINT_CASE_(::at::ScalarType::QInt8, __VA_ARGS__) AT_QINT_CASE_(::at::ScalarType::QUInt8, __VA_ARGS__)
#define AT_DISPATCH_CASE_QINT_TYPES(...) AT_DISPATCH_CASE_QINT_BYTE_TYPES(__VA_ARGS__) AT_QINT_CASE_(::at::ScalarType::QInt32, __VA_ARGS__)
#define AT_DISPATCH_QINT_BYTE_TYPES(TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_QINT_BYTE_TYPES(__VA_ARGS__))
#define AT_DISPATCH_QINT_TYPES(TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_QINT_TYPES(__VA_ARGS__))

#endif
