/* accessor.hpp - the elements of tensors by indices, where their data, sizes and strides are known. */
#ifndef RUSHLIGHT_AT_ACCESSOR_HPP
#define RUSHLIGHT_AT_ACCESSOR_HPP

#include "base.hpp"

namespace at {

template <class T> struct DefaultPtrTraits { using PtrType = T *; };
template <class T> struct RestrictPtrTraits { using PtrType = T *__restrict; };

/* The elements of a tensor that is on the CPU, by N indices. */
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class Index = int64_t> class TensorAccessor {
public:
    using PtrType = typename Traits<T>::PtrType;

private:
    PtrType first;
    const Index *its_sizes, *its_strides;

public:
    C10_HOST_DEVICE TensorAccessor(PtrType data, const Index *sizes, const Index *strides) : first(data), its_sizes(sizes), its_strides(strides) {}
    C10_HOST_DEVICE Index size(Index i) const { return its_sizes[i]; }
    C10_HOST_DEVICE Index stride(Index i) const { return its_strides[i]; }
    C10_HOST_DEVICE PtrType data() const { return first; }
    ArrayRef<Index> sizes() const { return {its_sizes, N}; }
    ArrayRef<Index> strides() const { return {its_strides, N}; }
    C10_HOST_DEVICE decltype(auto) operator[](Index i) const
    {
        if constexpr (N == 1) return static_cast<T &>(first[its_strides[0] * i]);
        else return TensorAccessor<T, N - 1, Traits, Index>(first + its_strides[0] * i, its_sizes + 1, its_strides + 1);
    }
};

/* The same with sizes and strides of its own, to be handed to a kernel by value. */
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class Index = int64_t> class GenericPackedTensorAccessor {
public:
    using PtrType = typename Traits<T>::PtrType;

private:
    PtrType first;
    Index its_sizes[N], its_strides[N];

public:
    template <class Given> GenericPackedTensorAccessor(PtrType data, const Given *sizes, const Given *strides) : first(data)
    {
        for (size_t i = 0; i < N; ++i) its_sizes[i] = static_cast<Index>(sizes[i]), its_strides[i] = static_cast<Index>(strides[i]);
    }
    C10_HOST_DEVICE Index size(Index i) const { return its_sizes[i]; }
    C10_HOST_DEVICE Index stride(Index i) const { return its_strides[i]; }
    C10_HOST_DEVICE PtrType data() const { return first; }
    C10_HOST_DEVICE decltype(auto) operator[](Index i) const { return TensorAccessor<T, N, Traits, Index>(first, its_sizes, its_strides)[i]; }
};
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits> using PackedTensorAccessor32 = GenericPackedTensorAccessor<T, N, Traits, int32_t>;
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits> using PackedTensorAccessor64 = GenericPackedTensorAccessor<T, N, Traits, int64_t>;

} // namespace at
#endif
