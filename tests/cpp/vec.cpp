// vec.cpp - numbers by the register, code by dtype, bits, flat tensors: what kernels for the CPU are written with.
#include <ATen/Dispatch_v2.h>
#include <ATen/cpu/vec/functional.h>
#include <ATen/cpu/vec/vec.h>
#include <c10/util/llvmMathExtras.h>
#include <torch/all.h>
#include <torch/csrc/utils/tensor_flatten.h>
#include <torch/custom_class.h>

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

using at::vec::Vectorized;
using V = Vectorized<float>;

static int wrong;
#define SAME(a, b)                                                                                          \
    do {                                                                                                    \
        if (!((a) == (b))) std::printf("line %d: %s is not %s\n", __LINE__, #a, #b), ++wrong;               \
    } while (0)

static void vectors()
{
    std::vector<float> x(37), y(37);
    for (int i = 0; i < 37; ++i) x[static_cast<size_t>(i)] = static_cast<float>(i - 18);
    at::vec::map([](auto v) { return v.abs() + V(1); }, y.data(), x.data(), 37);
    SAME(y[0] == 19 && y[36] == 19 && y[18] == 1, true);
    SAME(at::vec::reduce_all<float>([](auto &a, auto &b) { return at::vec::maximum(a, b); }, x.data(), 37), 18);
    SAME(at::vec::map_reduce_all<float>([](auto a) { return a * a; }, [](auto a, auto b) { return a + b; }, x.data(), 3), 18 * 18 + 17 * 17 + 16 * 16);
    V part = V::loadu(x.data(), 3), low(-17.f);
    SAME(part[2] == -16 && part[3] == 0, true);
    SAME(V::blendv(low, part, part > low)[2], -16);
    SAME((~(part < low) & V(5.f))[1], 5);
    SAME(V::set(low, part, 1)[1] + part.gt(low)[2] + (part == part).size() - V::size(), -16);
    SAME(at::vec::clamp(part, low, V(-16.5f))[2] + at::vec::fmadd(low, low, part)[0], -16.5f + 17 * 17 - 18);
    SAME(std::isnan(at::vec::maximum(V(std::nanf("")), part)[0]) && V(std::nanf("")).has_inf_nan(), true);
    SAME(Vectorized<int32_t>::arange(3, 2)[2] + (Vectorized<int32_t>(6) << Vectorized<int32_t>(1))[0] + Vectorized<uint8_t>(uint8_t(200)).abs()[0], 7 + 12 + 200);
    auto [a, b] = at::vec::convert_to_float(Vectorized<at::BFloat16>(at::BFloat16(1.5f)));
    SAME(a[0] + b[V::size() - 1] + static_cast<float>(at::vec::convert_from_float<at::Half>(a, b)[0]), 4.5f);

    // A function that takes vectors of any type rounds after each step, one of floats at the end only.
    std::vector<at::BFloat16> half(20, at::BFloat16(1.0234375f)), rounded(20), exact(20);
    at::vec::map([](auto v) { return v * v - decltype(v)(1); }, rounded.data(), half.data(), 20);
    at::vec::map([](V v) { return v * v - V(1); }, exact.data(), half.data(), 20);
    SAME(static_cast<float>(rounded[19]) == 0.046875f && static_cast<float>(exact[19]) == 0.047363281f, true);
}

static std::string dispatched(const at::Tensor &x)
{
    return AT_DISPATCH_V2(x.scalar_type(), "dispatched", AT_WRAP([&] { return std::pair<std::string, int>(std::to_string(sizeof(scalar_t)), 0).first; }), AT_EXPAND(AT_ALL_TYPES),
                          AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES), at::kHalf);
}
template <class T, template <class> class Traits> static T first(at::TensorAccessor<T, 2, Traits, int64_t> x) { return x[0][1]; }

struct Held : torch::CustomClassHolder {
    int n = 3;
};

int main()
{
    vectors();
    at::Tensor x = torch::arange(6.f).reshape({2, 3});
    SAME(dispatched(x.to(at::kUInt16)) + dispatched(x.to(at::kDouble)), "28");
    try {
        dispatched(x.to(at::kBool));
        SAME(0, 1);
    } catch (const c10::NotImplementedError &e) {
        SAME(std::string(e.what()), "\"dispatched\" not implemented for 'Bool'");
    }
    SAME((first(x.accessor<float, 2>())), 1);
    SAME((x.packed_accessor32<float, 2, at::DefaultPtrTraits>()[1][0]), 3);
    SAME(c10::llvm::countLeadingZeros(uint32_t(1)) + c10::llvm::countTrailingZeros(uint64_t(8)) + c10::llvm::findLastSet(uint16_t(5)), 31 + 3 + 2);
    SAME(c10::llvm::PowerOf2Ceil(5) + c10::llvm::NextPowerOf2(4) + c10::llvm::Log2_64_Ceil(9), 8 + 8 + 4);
    std::vector<at::Tensor> parts = {x.t(), torch::ones({2})};
    at::Tensor flat = torch::utils::flatten_dense_tensors(parts);
    SAME(flat[1].item<int>() + torch::utils::unflatten_dense_tensors(flat, parts)[0][1][0].item<int>(), 4);
    SAME(at::full({2}, 3, std::nullopt, std::nullopt, x.device(), std::nullopt).dtype(), at::kLong);
    SAME(at::empty({2, 2, 2, 2}, at::kHalf, std::nullopt, at::Device(at::kCPU), false, at::MemoryFormat::ChannelsLast).stride(1), 1);
    SAME(x.clone().clamp_min_(1e-1).min().item<float>() + x.clamp_max(torch::tensor(2.f)).max().item<float>() + at::div(x, 2, "floor").sum().item<float>(), 0.1f + 2 + 6);
    SAME(std::string(c10::toString(at::kComplexHalf)) + c10::toString(at::ScalarType::Float8_e4m3fn), "ComplexHalfFloat8_e4m3fn");
    c10::intrusive_ptr<Held> held = c10::make_intrusive<Held>(), shared = held;
    SAME(shared->n + static_cast<int>(held.use_count()), 5);
    at::checkBackend("f", {x}, at::Backend::CPU);
    torch::Dtype dtype = at::kFloat;
    SAME(x.dtype(), dtype);
    if (!wrong) std::printf("fine\n");
    return wrong;
}
