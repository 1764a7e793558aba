/* checks.hpp - what functions ask of their arguments, in ATen's words: checkAllSameType(c, {input, weight}). */
#ifndef RUSHLIGHT_AT_CHECKS_HPP
#define RUSHLIGHT_AT_CHECKS_HPP

#include "tensor.hpp"

namespace at {

using CheckedFrom = const char *; /* the function that asks */

struct TensorArg {
    const Tensor &tensor;
    const char *name;
    int pos; /* from 1; 0: it has none */
    TensorArg(const Tensor &t, const char *its_name, int position) : tensor(t), name(its_name), pos(position) {}
    TensorArg(Tensor &&, const char *, int) = delete; /* it would be gone */
    const Tensor *operator->() const { return &tensor; }
    const Tensor &operator*() const { return tensor; }
};
using TensorGeometryArg = TensorArg;
inline std::ostream &operator<<(std::ostream &out, const TensorArg &t)
{
    if (t.pos) return out << "argument #" << t.pos << " '" << t.name << "'";
    return out << "argument '" << t.name << "'";
}

#define AT_CHECK_(condition, ...) TORCH_CHECK(condition, ##__VA_ARGS__, " (while checking arguments for ", c, ")")

inline void checkDim(CheckedFrom c, const TensorArg &t, int64_t dim) { AT_CHECK_(t->dim() == dim, "Expected ", dim, "-dimensional tensor, but got ", t->dim(), "-dimensional tensor for ", t); }
inline void checkDimRange(CheckedFrom c, const TensorArg &t, int64_t from, int64_t end)
{
    AT_CHECK_(t->dim() >= from && t->dim() < end, "Expected ", from, " to ", end - 1, " dimensions, but got ", t->dim(), "-dimensional tensor for ", t);
}
inline void checkContiguous(CheckedFrom c, const TensorArg &t) { AT_CHECK_(t->is_contiguous(), "Expected contiguous tensor, but got non-contiguous tensor for ", t); }
inline void checkSize(CheckedFrom c, const TensorArg &t, IntArrayRef sizes)
{
    checkDim(c, t, static_cast<int64_t>(sizes.size()));
    AT_CHECK_(t->sizes() == sizes, "Expected tensor of size ", sizes, ", but got tensor of size ", t->sizes(), " for ", t);
}
inline void checkSize(CheckedFrom c, const TensorArg &t, int64_t dim, int64_t size)
{
    AT_CHECK_(t->size(dim) == size, "Expected tensor to have size ", size, " at dimension ", dim, ", but got size ", t->size(dim), " for ", t);
}
inline void checkNumel(CheckedFrom c, const TensorArg &t, int64_t numel)
{
    AT_CHECK_(t->numel() == numel, "Expected tensor for ", t, " to have ", numel, " elements; but it actually has ", t->numel(), " elements");
}
inline void checkScalarType(CheckedFrom c, const TensorArg &t, ScalarType s)
{
    AT_CHECK_(t->scalar_type() == s, "Expected tensor for ", t, " to have scalar type ", s, "; but got ", t->toString(), " instead");
}
inline void checkScalarTypes(CheckedFrom c, const TensorArg &t, ArrayRef<ScalarType> types)
{
    if (std::find(types.begin(), types.end(), t->scalar_type()) != types.end()) return;
    std::string list;
    for (size_t i = 0; i < types.size(); ++i) list += (i ? ", " : "") + std::string(c10::toString(types[i]));
    AT_CHECK_(false, "Expected tensor for ", t, " to have one of the following scalar types: ", list, "; but got ", t->toString(), " instead");
}
inline void checkDefined(CheckedFrom c, const TensorArg &t) { AT_CHECK_(t->defined(), "Expected tensor for ", t, " to be non-null, but it was undefined"); }
inline void checkSameDim(CheckedFrom c, const TensorArg &a, const TensorArg &b)
{
    AT_CHECK_(a->dim() == b->dim(), "Expected tensor for ", a, " to have the same dimension as tensor for ", b, "; but ", a->dim(), " does not equal ", b->dim());
}
inline void checkSameSize(CheckedFrom c, const TensorArg &a, const TensorArg &b)
{
    AT_CHECK_(a->sizes() == b->sizes(), "Expected tensor for ", a, " to have same size as tensor for ", b, "; but ", a->sizes(), " does not equal ", b->sizes());
}
inline void checkSameNumel(CheckedFrom c, const TensorArg &a, const TensorArg &b)
{
    AT_CHECK_(a->numel() == b->numel(), "Expected tensor for ", a, " to have same number of elements as tensor for ", b, "; but ", a->numel(), " does not equal ", b->numel());
}
inline void checkSameType(CheckedFrom c, const TensorArg &a, const TensorArg &b)
{
    AT_CHECK_(a->type() == b->type(), "Expected tensor for ", a, " to have the same type as tensor for ", b, "; but type ", a->toString(), " does not equal ", b->toString());
}
inline void checkSameGPU(CheckedFrom c, const TensorArg &a, const TensorArg &b)
{
    AT_CHECK_(a->is_cuda() && b->is_cuda(), "Expected all tensors to be on a GPU; but ", a->is_cuda() ? b : a, " is not");
    AT_CHECK_(a->get_device() == b->get_device(), "Expected tensor for ", a, " to have the same device as tensor for ", b, "; but device ", a->get_device(), " does not equal ", b->get_device());
}
#undef AT_CHECK_

/* Each with the first. */
#define AT_CHECK_ALL_(name, same)                                                                           \
    inline void name(CheckedFrom c, ArrayRef<TensorArg> list)                                               \
    {                                                                                                       \
        for (size_t i = 1; i < list.size(); ++i)                                                            \
            if (list[0]->defined() && list[i]->defined()) same(c, list[0], list[i]);                        \
    }
AT_CHECK_ALL_(checkAllSameSize, checkSameSize)
AT_CHECK_ALL_(checkAllSameNumel, checkSameNumel)
AT_CHECK_ALL_(checkAllSameType, checkSameType)
AT_CHECK_ALL_(checkAllSameGPU, checkSameGPU)
#undef AT_CHECK_ALL_
inline void checkAllContiguous(CheckedFrom c, ArrayRef<TensorArg> list)
{
    for (const TensorArg &t : list)
        if (t->defined()) checkContiguous(c, t);
}
inline void checkAllDefined(CheckedFrom c, ArrayRef<TensorArg> list)
{
    for (const TensorArg &t : list) checkDefined(c, t);
}
inline void checkDeviceType(CheckedFrom c, TensorList list, DeviceType type)
{
    for (const Tensor &t : list) TORCH_CHECK(!t.defined() || t.device().type() == type, "Expected tensor to have ", type, " DeviceType, but got tensor with ", t.device().type(), " DeviceType (while checking arguments for ", c, ")");
}
/* The old word for where a tensor is and how it lies. */
enum class Backend { CPU, CUDA, Meta, SparseCPU, SparseCUDA, Undefined };
inline Backend backend_of(const Tensor &t)
{
    if (!t.defined()) return Backend::Undefined;
    return t.is_cuda() ? (t.is_sparse() ? Backend::SparseCUDA : Backend::CUDA) : t.is_meta() ? Backend::Meta : t.is_sparse() ? Backend::SparseCPU : Backend::CPU;
}
using c10::toString;
inline const char *toString(Backend b)
{
    static const char *const names[] = {"CPU", "CUDA", "Meta", "SparseCPU", "SparseCUDA", "UNKNOWN_BACKEND"};
    return names[static_cast<int>(b)];
}
inline void checkBackend(CheckedFrom c, TensorList list, Backend backend)
{
    for (const Tensor &t : list)
        TORCH_CHECK(!t.defined() || backend_of(t) == backend, "Expected tensor to have ", toString(backend), " Backend, but got tensor with ", toString(backend_of(t)), " Backend (while checking arguments for ",
                    c, ")");
}

} // namespace at
#endif
