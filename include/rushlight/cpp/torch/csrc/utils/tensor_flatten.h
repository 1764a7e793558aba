/* tensor_flatten.h - the elements of many tensors in one, and back. */
#pragma once
#include <rushlight/at/aten.hpp>

namespace torch::utils {

inline at::Tensor flatten_dense_tensors(at::TensorList tensors)
{
    std::vector<at::Tensor> flat;
    for (const at::Tensor &t : tensors) flat.push_back(t.contiguous().view({-1}));
    return at::cat(flat);
}
/* Parts of `flat`, of the sizes of `tensors`. */
inline std::vector<at::Tensor> unflatten_dense_tensors(const at::Tensor &flat, at::TensorList tensors)
{
    std::vector<at::Tensor> parts;
    int64_t from = 0;
    for (const at::Tensor &t : tensors) {
        parts.push_back(flat.narrow(0, from, t.numel()).view(t.sizes()));
        from += t.numel();
    }
    return parts;
}

} // namespace torch::utils
