/* stable_ops.hpp - operations on torch::stable::Tensor. They are called by name; those that take a number of any type have C functions. */
#ifndef RUSHLIGHT_AT_STABLE_OPS_HPP
#define RUSHLIGHT_AT_STABLE_OPS_HPP

#include "stable.hpp"

namespace torch::stable {

using headeronly::IntHeaderOnlyArrayRef;

namespace detail {

/* The one result, if any, of an operation. */
template <class R = Tensor, class... Args> R call(const char *name, const char *overload, const Args &...args)
{
    StableIValue stack[sizeof...(Args)] = {from(args)...};
    STABLE_TORCH_ERROR_CODE_CHECK(torch_call_dispatcher(name, overload, stack, TORCH_ABI_VERSION));
    return to<R>(stack[0]);
}

/* What C functions take of options: pointers to numbers, or NULL. */
struct Options {
    int32_t dtype, layout, type, index, pinned;
    int32_t *dtype_at, *layout_at, *type_at, *pinned_at;
    Options(std::optional<c10::ScalarType> d, std::optional<c10::Layout> l, std::optional<Device> on, std::optional<bool> pin)
        : dtype(d ? number_of(dtypes, *d, "dtype") : 0), layout(l ? number_of(layouts, *l, "layout") : 0), type(on ? number_of(device_types, on->type(), "type of device") : 0),
          index(on ? on->index() : 0), pinned(pin.value_or(false)), dtype_at(d ? &dtype : nullptr), layout_at(l ? &layout : nullptr), type_at(on ? &type : nullptr), pinned_at(pin ? &pinned : nullptr) {}
    Options(const Options &) = delete;
};

} // namespace detail

/* ---- made ---- */

#define STABLE_OPTIONS_                                                                                     \
    std::optional<c10::ScalarType> dtype = std::nullopt, std::optional<c10::Layout> layout = std::nullopt, std::optional<Device> device = std::nullopt, std::optional<bool> pin_memory = std::nullopt
inline Tensor empty(IntHeaderOnlyArrayRef size, STABLE_OPTIONS_, std::optional<c10::MemoryFormat> memory_format = std::nullopt)
{
    return detail::call("aten::empty", "memory_format", size, dtype, layout, device, pin_memory, memory_format);
}
inline Tensor empty_like(const Tensor &self, STABLE_OPTIONS_, std::optional<c10::MemoryFormat> memory_format = std::nullopt)
{
    return detail::call("aten::empty_like", "", self, dtype, layout, device, pin_memory, memory_format);
}
inline Tensor new_empty(const Tensor &self, IntHeaderOnlyArrayRef size, STABLE_OPTIONS_) { return detail::call("aten::new_empty", "", self, size, dtype, layout, device, pin_memory); }
inline Tensor new_zeros(const Tensor &self, IntHeaderOnlyArrayRef size, STABLE_OPTIONS_) { return detail::call("aten::new_zeros", "", self, size, dtype, layout, device, pin_memory); }
inline Tensor full(IntHeaderOnlyArrayRef size, double fill_value, STABLE_OPTIONS_)
{
    detail::Options o(dtype, layout, device, pin_memory);
    AtenTensorHandle made;
    STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_aten_full(size.data(), static_cast<int64_t>(size.size()), fill_value, o.dtype_at, o.layout_at, o.type_at, o.index, o.pinned_at, &made));
    return Tensor(made);
}
#undef STABLE_OPTIONS_

/* A tensor of the caller's memory; deleter(data) is called with the last tensor that has it. */
template <class Deleter, std::enable_if_t<std::is_invocable_v<Deleter, void *>, int> = 0>
Tensor from_blob(void *data, IntHeaderOnlyArrayRef sizes, IntHeaderOnlyArrayRef strides, Device device, c10::ScalarType dtype, Deleter deleter, int64_t storage_offset = 0,
                 c10::Layout layout = c10::Layout::Strided)
{
    auto kept = std::make_unique<Deleter>(std::move(deleter));
    AtenTensorHandle made;
    auto end = [](void *p, void *context) {
        std::unique_ptr<Deleter> own(static_cast<Deleter *>(context));
        (*own)(p);
    };
    STABLE_TORCH_ERROR_CODE_CHECK(torch_from_blob(data, static_cast<int64_t>(sizes.size()), sizes.data(), strides.data(), storage_offset, detail::number_of(detail::dtypes, dtype, "dtype"),
                                                  detail::number_of(detail::device_types, device.type(), "type of device"), device.index(), &made,
                                                  detail::number_of(detail::layouts, layout, "layout"), nullptr, 0, end, kept.get()));
    kept.release();
    return Tensor(made);
}
inline Tensor from_blob(void *data, IntHeaderOnlyArrayRef sizes, IntHeaderOnlyArrayRef strides, Device device, c10::ScalarType dtype, int64_t storage_offset = 0,
                        c10::Layout layout = c10::Layout::Strided)
{
    return from_blob(data, sizes, strides, device, dtype, [](void *) {}, storage_offset, layout);
}

/* ---- the same elements in another way ---- */

inline Tensor clone(const Tensor &self, std::optional<c10::MemoryFormat> memory_format = std::nullopt) { return detail::call("aten::clone", "", self, memory_format); }
inline Tensor contiguous(const Tensor &self, c10::MemoryFormat memory_format = c10::MemoryFormat::Contiguous) { return detail::call("aten::contiguous", "", self, memory_format); }
inline Tensor reshape(const Tensor &self, IntHeaderOnlyArrayRef shape) { return detail::call("aten::reshape", "", self, shape); }
inline Tensor view(const Tensor &self, IntHeaderOnlyArrayRef size) { return detail::call("aten::view", "", self, size); }
inline Tensor view(const Tensor &self, c10::ScalarType dtype) { return detail::call("aten::view", "dtype", self, dtype); }
inline Tensor permute(const Tensor &self, IntHeaderOnlyArrayRef dims) { return detail::call("aten::permute", "", self, dims); }
inline Tensor flatten(const Tensor &self, int64_t start_dim = 0, int64_t end_dim = -1) { return detail::call("aten::flatten", "using_ints", self, start_dim, end_dim); }
inline Tensor squeeze(const Tensor &self, int64_t dim) { return detail::call("aten::squeeze", "dim", self, dim); }
inline Tensor unsqueeze(const Tensor &self, int64_t dim) { return detail::call("aten::unsqueeze", "", self, dim); }
inline Tensor transpose(const Tensor &self, int64_t dim0, int64_t dim1) { return detail::call("aten::transpose", "int", self, dim0, dim1); }
inline Tensor select(const Tensor &self, int64_t dim, int64_t index) { return detail::call("aten::select", "int", self, dim, index); }
inline Tensor index_select(const Tensor &self, int64_t dim, const Tensor &index) { return detail::call("aten::index_select", "", self, dim, index); }
inline Tensor masked_select(const Tensor &self, const Tensor &mask) { return detail::call("aten::masked_select", "", self, mask); }
inline Tensor flip(const Tensor &self, IntHeaderOnlyArrayRef dims) { return detail::call("aten::flip", "", self, dims); }
inline Tensor narrow(const Tensor &self, int64_t dim, int64_t start, int64_t length) { return detail::call("aten::narrow", "", self, dim, start, length); }
inline Tensor pad(const Tensor &self, IntHeaderOnlyArrayRef pad, const std::string &mode = "constant", double value = 0)
{
    return detail::call("aten::pad", "", self, pad, mode, std::optional<double>(value));
}
inline Tensor to(const Tensor &self, std::optional<c10::ScalarType> dtype = std::nullopt, std::optional<c10::Layout> layout = std::nullopt, std::optional<Device> device = std::nullopt,
                 std::optional<bool> pin_memory = std::nullopt, bool non_blocking = false, bool copy = false, std::optional<c10::MemoryFormat> memory_format = std::nullopt)
{
    return detail::call("aten::to", "dtype_layout", self, dtype, layout, device, pin_memory, non_blocking, copy, memory_format);
}
inline Tensor to(const Tensor &self, Device device, bool non_blocking = false, bool copy = false)
{
    return to(self, std::nullopt, std::nullopt, device, std::nullopt, non_blocking, copy);
}
inline bool is_pinned(const Tensor &self, std::optional<Device> device = std::nullopt) { return detail::call<bool>("aten::is_pinned", "", self, device); }

/* ---- changed ---- */

inline Tensor fill_(const Tensor &self, double value)
{
    STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_aten_fill__Scalar(self.get(), value));
    return self;
}
inline Tensor zero_(const Tensor &self)
{
    STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_zero_(self.get()));
    return self;
}
inline Tensor copy_(const Tensor &self, const Tensor &src, std::optional<bool> non_blocking = std::nullopt)
{
    STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_copy_(self.get(), src.get(), non_blocking.value_or(false)));
    return self;
}

/* ---- computed ---- */

inline Tensor matmul(const Tensor &self, const Tensor &other) { return detail::call("aten::matmul", "", self, other); }
inline Tensor amax(const Tensor &self, IntHeaderOnlyArrayRef dims, bool keepdim = false) { return detail::call("aten::amax", "", self, dims, keepdim); }
inline Tensor amax(const Tensor &self, int64_t dim, bool keepdim = false) { return amax(self, IntHeaderOnlyArrayRef(dim), keepdim); }
inline Tensor sum(const Tensor &self, std::optional<IntHeaderOnlyArrayRef> dim = std::nullopt, bool keepdim = false, std::optional<c10::ScalarType> dtype = std::nullopt)
{
    return detail::call("aten::sum", "dim_IntList", self, dim, keepdim, dtype);
}
inline Tensor &sum_out(Tensor &out, const Tensor &self, std::optional<IntHeaderOnlyArrayRef> dim = std::nullopt, bool keepdim = false, std::optional<c10::ScalarType> dtype = std::nullopt)
{
    detail::call("aten::sum", "IntList_out", self, dim, keepdim, dtype, out);
    return out;
}
inline Tensor &mm_out(Tensor &out, const Tensor &self, const Tensor &mat2)
{
    detail::call("aten::mm", "out", self, mat2, out);
    return out;
}
inline Tensor subtract(const Tensor &self, const Tensor &other, double alpha = 1)
{
    AtenTensorHandle made;
    STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_aten_subtract_Tensor(self.get(), other.get(), alpha, &made));
    return Tensor(made);
}
inline Tensor bitwise_and(const Tensor &self, const Tensor &other) { return detail::call("aten::bitwise_and", "Tensor", self, other); }
inline Tensor bitwise_or(const Tensor &self, const Tensor &other) { return detail::call("aten::bitwise_or", "Tensor", self, other); }
inline Tensor bitwise_left_shift(const Tensor &self, const Tensor &other) { return detail::call("aten::bitwise_left_shift", "Tensor", self, other); }
inline Tensor bitwise_right_shift(const Tensor &self, const Tensor &other) { return detail::call("aten::bitwise_right_shift", "Tensor", self, other); }
inline Tensor floor_divide(const Tensor &self, const Tensor &other) { return detail::call("aten::floor_divide", "", self, other); }
inline std::tuple<Tensor, Tensor> sort(const Tensor &self, int64_t dim = -1, bool descending = false)
{
    StableIValue stack[] = {detail::from(self), detail::from(dim), detail::from(descending)};
    STABLE_TORCH_ERROR_CODE_CHECK(torch_call_dispatcher("aten::sort", "", stack, TORCH_ABI_VERSION));
    return {detail::to<Tensor>(stack[0]), detail::to<Tensor>(stack[1])};
}

/* ---- threads ---- */

inline uint32_t get_num_threads()
{
    uint32_t n;
    STABLE_TORCH_ERROR_CODE_CHECK(torch_get_num_threads(&n));
    return n;
}
/* f(begin, end) for parts of [begin, end) of grain_size or more; the first exception is thrown again when all have ended. */
template <class F> void parallel_for(int64_t begin, int64_t end, int64_t grain_size, const F &f)
{
    struct Work {
        const F *f;
        std::exception_ptr thrown;
        std::mutex lock;
    } work{&f, nullptr, {}};
    auto part = [](int64_t from, int64_t until, void *arg) {
        auto *w = static_cast<Work *>(arg);
        try {
            (*w->f)(from, until);
        } catch (...) {
            std::lock_guard<std::mutex> guard(w->lock);
            if (!w->thrown) w->thrown = std::current_exception();
        }
    };
    STABLE_TORCH_ERROR_CODE_CHECK(torch_parallel_for(begin, end, grain_size, part, &work));
    if (work.thrown) std::rethrow_exception(work.thrown);
}

} // namespace torch::stable

#endif
