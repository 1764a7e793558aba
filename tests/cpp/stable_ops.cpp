// stable_ops.cpp - an extension by torch::stable alone: what arguments, results and operations become on the way.
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/device.h>
#include <torch/csrc/stable/generator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/stableivalue_conversions.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/Dispatch.h>
#include <torch/headeronly/core/Dispatch_v2.h>
#include <torch/headeronly/core/ScalarType.h>
#include <torch/headeronly/core/TensorAccessor.h>
#include <torch/headeronly/util/Exception.h>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

using torch::headeronly::ScalarType;
using torch::stable::Device;
using torch::stable::Tensor;

static std::tuple<std::vector<std::string>, int64_t, bool, double> passed(const Tensor &t, bool b, double f, const std::string &s, const std::string_view &v,
                                                                          torch::headeronly::HeaderOnlyArrayRef<int64_t> ints, std::optional<int64_t> maybe,
                                                                          const std::optional<Tensor> &none, const std::vector<Tensor> &all, std::vector<bool> flags)
{
    return {{s, std::string(v), std::to_string(ints.size()), std::to_string(all.size())}, t.numel() + ints[0] + maybe.value_or(100), b && !none && flags.at(1), f};
}
static std::vector<Tensor> made(Tensor t, Device device, ScalarType dtype, torch::headeronly::MemoryFormat format)
{
    using namespace torch::stable;
    std::vector<int64_t> size = {2, 3};
    Tensor zeros = new_zeros(t, size, dtype), blank = new_empty(t, {4}, std::nullopt, std::nullopt, device);
    fill_(blank, 2.5);
    Tensor most = empty({2, 2, 2, 2}, dtype, std::nullopt, device, std::nullopt, format);
    Tensor e = empty_like(most);
    zero_(most);
    return {zeros, blank, full({2}, 7, dtype), most, zero_(e), pad(t, {1, 0}, "constant", 9.0), transpose(t, 0, 1), narrow(t, 1, 1, 2), select(t, 0, 1), unsqueeze(t, 0),
            squeeze(unsqueeze(t, 1), 1), flatten(t), amax(t, 0, false), amax(t, {0, 1}), matmul(t, transpose(t, 0, 1)), sum(t, std::array<int64_t, 1>{1}, true), subtract(t, t, 0.25),
            clone(contiguous(transpose(t, 0, 1))), reshape(t, {3, 2}), view(t, {6}), to(t, ScalarType::Double), to(t, device)};
}
static Tensor product(Tensor m, Tensor v)
{
    STD_TORCH_CHECK(m.dim() == 2 && v.dim() == 1, "a matrix and a vector are taken, not ", m.dim(), " and ", v.dim());
    Tensor out = new_empty(m, {m.size(0)});
    THO_DISPATCH_V2(m.scalar_type(), "product", AT_WRAP(([&] {
                        torch::headeronly::HeaderOnlyTensorAccessor<scalar_t, 2> a(static_cast<scalar_t *>(m.mutable_data_ptr()), m.sizes().data(), m.strides().data());
                        const scalar_t *x = v.const_data_ptr<scalar_t>();
                        scalar_t *y = out.mutable_data_ptr<scalar_t>();
                        torch::stable::parallel_for(0, a.size(0), 1, [&](int64_t from, int64_t to) {
                            for (int64_t i = from; i < to; ++i) {
                                y[i] = 0;
                                for (int64_t j = 0; j < a.size(1); ++j) y[i] += a[i][j] * x[j];
                            }
                        });
                    })),
                    AT_EXPAND(AT_ALL_TYPES), AT_EXPAND(AT_COMPLEX_TYPES));
    return out;
}
static std::tuple<int64_t, int64_t, bool, bool, int64_t, int64_t> told(Tensor t)
{
    Tensor undefined, copy = t;
    return {t.storage_offset(), static_cast<int64_t>(t.element_size()), t.is_contiguous(), !undefined.defined() && copy.get() == t.get() && t.is_cpu() && t.device() == Device("cpu"), t.strides()[0],
            t.get_device_index()};
}
static void grow(Tensor t, int64_t by)
{
    StableIValue stack[] = {torch::stable::detail::from(t), torch::stable::detail::from(t)};
    STD_TORCH_CHECK(by > 0, "by is ", by);
    STABLE_TORCH_ERROR_CODE_CHECK(torch_call_dispatcher("aten::mul", "Tensor", stack, TORCH_ABI_VERSION));
    torch::stable::copy_(t, torch::stable::detail::to<Tensor>(stack[0]));
}
static int64_t ended;
static Tensor borrowed(int64_t address, torch::headeronly::HeaderOnlyArrayRef<int64_t> sizes)
{
    int64_t *count = &ended;
    return torch::stable::from_blob(reinterpret_cast<void *>(address), sizes, {1}, Device(torch::headeronly::kCPU), ScalarType::Float, [count](void *) { ++*count; });
}
static int64_t ends() { return ended; }
/* The current device in a guard, after another was chosen in it, and outside; its stream. */
static std::vector<int64_t> devices(int64_t inside, int64_t then)
{
    using namespace torch::stable::accelerator;
    std::vector<int64_t> seen;
    {
        DeviceGuard guard(static_cast<int32_t>(inside));
        seen.push_back(getCurrentDeviceIndex());
        guard.set_index(static_cast<int32_t>(then));
        seen.push_back(getCurrentDeviceIndex());
    }
    seen.push_back(getCurrentDeviceIndex());
    seen.push_back(getCurrentStream(static_cast<int32_t>(then)).id());
    return seen;
}
static void half(StableIValue *stack, uint64_t, uint64_t)
{
    auto t = torch::stable::detail::to<Tensor>(stack[0]);
    stack[0] = from(torch::stable::subtract(t, t, 0.5));
}

STABLE_TORCH_LIBRARY(stable_ops, m)
{
    m.def("passed(Tensor t, bool b, float f, str s, str v, int[] ints, int? maybe, Tensor? none, Tensor[] all, bool[] flags) -> (str[], int, bool, float)");
    m.def("made(Tensor t, Device device, ScalarType dtype, MemoryFormat format) -> Tensor[]");
    m.def("product(Tensor m, Tensor v) -> Tensor");
    m.def("told(Tensor t) -> (int, int, bool, bool, int, int)");
}
#define LIBRARY_NAME stable_ops
STABLE_TORCH_LIBRARY_FRAGMENT(LIBRARY_NAME, m)
{
    m.def("grow(Tensor(a!) t, int by) -> ()");
    m.def("borrowed(int address, int[] sizes) -> Tensor");
    m.def("ends() -> int");
    m.def("devices(int inside, int then) -> int[]");
    m.def("half(Tensor t) -> Tensor", std::vector<at::Tag>{at::Tag::pointwise, at::Tag::pt2_compliant_tag});
}
STABLE_TORCH_LIBRARY_IMPL(LIBRARY_NAME, CompositeExplicitAutograd, m)
{
    m.impl("passed", TORCH_BOX(&passed));
    m.impl("made", TORCH_BOX(&made));
    m.impl("told", TORCH_BOX(&told));
    m.impl("grow", TORCH_BOX(&grow));
    m.impl("borrowed", TORCH_BOX(&borrowed));
    m.impl("ends", TORCH_BOX(&ends));
    m.impl("devices", TORCH_BOX(&devices));
}
STABLE_TORCH_LIBRARY_IMPL(stable_ops, CPU, m)
{
    m.impl("product", TORCH_BOX(&product));
    m.impl("half", &half);
}
