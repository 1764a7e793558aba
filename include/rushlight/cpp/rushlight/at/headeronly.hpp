/* headeronly.hpp - torch::headeronly: dtypes, devices, lists, accessors and checks that need no library; failing checks throw what C++ itself has. */
#ifndef RUSHLIGHT_AT_HEADERONLY_HPP
#define RUSHLIGHT_AT_HEADERONLY_HPP

#include "accessor.hpp"
#include "cases.hpp"
#include "tags.hpp"

namespace torch::headeronly {

using namespace c10;
template <class T> using HeaderOnlyArrayRef = c10::ArrayRef<T>;
using IntHeaderOnlyArrayRef = HeaderOnlyArrayRef<int64_t>;

using at::DefaultPtrTraits;
using at::GenericPackedTensorAccessor;
using at::RestrictPtrTraits;
using at::TensorAccessor;
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class Index = int64_t> using HeaderOnlyTensorAccessor = TensorAccessor<T, N, Traits, Index>;
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class Index = int64_t>
using HeaderOnlyGenericPackedTensorAccessor = GenericPackedTensorAccessor<T, N, Traits, Index>;

namespace impl {
using c10::impl::ScalarTypeToCPPType;
using c10::impl::ScalarTypeToCPPTypeT;
} // namespace impl

} // namespace torch::headeronly

namespace torch::headeronly::detail {

/* Where it failed, then why. */
template <class... Args> [[noreturn]] C10_NOINLINE void fail(const char *function, const char *file, int line, const char *otherwise, const Args &...args)
{
    throw std::runtime_error(c10::str(function, ", ", file, ":", line, ", ", sizeof...(args) ? c10::str(args...) : std::string(otherwise)));
}

} // namespace torch::headeronly::detail

#define STD_TORCH_CHECK(condition, ...)                                                                     \
    if (C10_UNLIKELY(!(condition)))                                                                         \
        ::torch::headeronly::detail::fail(__func__, __FILE__, __LINE__, "Expected " #condition " to be true, but got false.", ##__VA_ARGS__);
#define THO_DISPATCH_CASE(enum_type, ...) AT_CASE_(enum_type, scalar_t, __VA_ARGS__)
#define THO_PRIVATE_CASE_TYPE_USING_HINT(enum_type, HINT, ...) AT_CASE_(enum_type, HINT, __VA_ARGS__)
#define THO_DISPATCH_SWITCH(TYPE, NAME, ...) AT_SWITCH_(std::runtime_error, at_dispatched, TYPE, NAME, __VA_ARGS__)
#define THO_DISPATCH_V2(TYPE, NAME, BODY, ...) THO_DISPATCH_SWITCH(TYPE, NAME, AT_EACH_(AT_WRAP(BODY), __VA_ARGS__))

#endif
