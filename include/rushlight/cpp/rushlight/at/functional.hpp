/* functional.hpp - torch::nn::functional and the losses: options by name over the functions of namespace at. */
#ifndef RUSHLIGHT_AT_FUNCTIONAL_HPP
#define RUSHLIGHT_AT_FUNCTIONAL_HPP

#include "nn.hpp"

namespace torch {

/* Words that options take: torch::kMean is the one value of the type torch::enumtype::kMean. */
#define AT_WORD_(name)                                                                                      \
    namespace enumtype {                                                                                    \
    struct name {};                                                                                         \
    }                                                                                                       \
    constexpr enumtype::name name = {}
AT_WORD_(kNone);
AT_WORD_(kMean);
AT_WORD_(kSum);
AT_WORD_(kBatchMean);
AT_WORD_(kTanh);
AT_WORD_(kReLU);
AT_WORD_(kConstant);
AT_WORD_(kReflect);
AT_WORD_(kReplicate);
AT_WORD_(kCircular);
AT_WORD_(kNearest);
AT_WORD_(kBilinear);
AT_WORD_(kBicubic);
#undef AT_WORD_

namespace nn {

using LossReduction = std::variant<enumtype::kMean, enumtype::kNone, enumtype::kSum, enumtype::kBatchMean>;
inline int64_t reduction_of(const LossReduction &r)
{
    if (std::holds_alternative<enumtype::kNone>(r)) return Reduction::None;
    return std::holds_alternative<enumtype::kMean>(r) ? Reduction::Mean : Reduction::Sum;
}
inline std::optional<Tensor> given(const Tensor &x) { return x.defined() ? std::optional<Tensor>(x) : std::nullopt; }

/* ---- what losses are told ---- */

#define AT_REDUCTION_(Name)                                                                                 \
    Name##Options() = default;                                                                              \
    template <class R, class = std::enable_if_t<std::is_convertible_v<R, LossReduction>>> Name##Options(R r) : reduction_(r) {} \
    TORCH_ARG(LossReduction, reduction) = kMean
struct MSELossOptions {
    AT_REDUCTION_(MSELoss);
};
struct L1LossOptions {
    AT_REDUCTION_(L1Loss);
};
struct SmoothL1LossOptions {
    AT_REDUCTION_(SmoothL1Loss);
    TORCH_ARG(double, beta) = 1;
};
struct HuberLossOptions {
    AT_REDUCTION_(HuberLoss);
    TORCH_ARG(double, delta) = 1;
};
struct NLLLossOptions {
    AT_REDUCTION_(NLLLoss);
    TORCH_ARG(Tensor, weight) = {};
    TORCH_ARG(int64_t, ignore_index) = -100;
};
struct CrossEntropyLossOptions {
    AT_REDUCTION_(CrossEntropyLoss);
    TORCH_ARG(Tensor, weight) = {};
    TORCH_ARG(int64_t, ignore_index) = -100;
    TORCH_ARG(double, label_smoothing) = 0;
};
struct BCELossOptions {
    AT_REDUCTION_(BCELoss);
    TORCH_ARG(Tensor, weight) = {};
};
struct BCEWithLogitsLossOptions {
    AT_REDUCTION_(BCEWithLogitsLoss);
    TORCH_ARG(Tensor, weight) = {};
    TORCH_ARG(Tensor, pos_weight) = {};
};
struct KLDivLossOptions {
    AT_REDUCTION_(KLDivLoss);
    TORCH_ARG(bool, log_target) = false;
};
#undef AT_REDUCTION_

namespace functional {

using MSELossFuncOptions = MSELossOptions;
using L1LossFuncOptions = L1LossOptions;
using SmoothL1LossFuncOptions = SmoothL1LossOptions;
using HuberLossFuncOptions = HuberLossOptions;
using NLLLossFuncOptions = NLLLossOptions;
using CrossEntropyFuncOptions = CrossEntropyLossOptions;
using BinaryCrossEntropyFuncOptions = BCELossOptions;
using BinaryCrossEntropyWithLogitsFuncOptions = BCEWithLogitsLossOptions;
using KLDivFuncOptions = KLDivLossOptions;

inline Tensor mse_loss(const Tensor &x, const Tensor &target, const MSELossOptions &o = {}) { return at::mse_loss(x, target, reduction_of(o.reduction())); }
inline Tensor l1_loss(const Tensor &x, const Tensor &target, const L1LossOptions &o = {}) { return at::l1_loss(x, target, reduction_of(o.reduction())); }
inline Tensor smooth_l1_loss(const Tensor &x, const Tensor &target, const SmoothL1LossOptions &o = {}) { return at::smooth_l1_loss(x, target, reduction_of(o.reduction()), o.beta()); }
inline Tensor huber_loss(const Tensor &x, const Tensor &target, const HuberLossOptions &o = {}) { return at::huber_loss(x, target, reduction_of(o.reduction()), o.delta()); }
inline Tensor nll_loss(const Tensor &x, const Tensor &target, const NLLLossOptions &o = {}) { return at::nll_loss_nd(x, target, given(o.weight()), reduction_of(o.reduction()), o.ignore_index()); }
inline Tensor cross_entropy(const Tensor &x, const Tensor &target, const CrossEntropyLossOptions &o = {})
{
    return at::cross_entropy_loss(x, target, given(o.weight()), reduction_of(o.reduction()), o.ignore_index(), o.label_smoothing());
}
inline Tensor binary_cross_entropy(const Tensor &x, const Tensor &target, const BCELossOptions &o = {}) { return at::binary_cross_entropy(x, target, given(o.weight()), reduction_of(o.reduction())); }
inline Tensor binary_cross_entropy_with_logits(const Tensor &x, const Tensor &target, const BCEWithLogitsLossOptions &o = {})
{
    return at::binary_cross_entropy_with_logits(x, target, given(o.weight()), given(o.pos_weight()), reduction_of(o.reduction()));
}
inline Tensor kl_div(const Tensor &x, const Tensor &target, const KLDivLossOptions &o = {})
{
    Tensor sum = at::kl_div(x, target, reduction_of(o.reduction()), o.log_target());
    return std::holds_alternative<enumtype::kBatchMean>(o.reduction()) && x.dim() ? sum / x.size(0) : sum;
}

/* ---- layers ---- */

inline Tensor linear(const Tensor &x, const Tensor &weight, const Tensor &bias = {}) { return at::linear(x, weight, given(bias)); }
template <size_t D> struct ConvFuncOptions {
    TORCH_ARG(Tensor, bias) = {};
    TORCH_ARG(ExpandingArray<D>, stride) = 1;
    TORCH_ARG(ExpandingArray<D>, padding) = 0;
    TORCH_ARG(ExpandingArray<D>, output_padding) = 0;
    TORCH_ARG(ExpandingArray<D>, dilation) = 1;
    TORCH_ARG(int64_t, groups) = 1;
};
#define AT_CONV_(D)                                                                                         \
    using Conv##D##dFuncOptions = ConvFuncOptions<D>;                                                       \
    using ConvTranspose##D##dFuncOptions = ConvFuncOptions<D>;                                              \
    inline Tensor conv##D##d(const Tensor &x, const Tensor &weight, const ConvFuncOptions<D> &o = {})       \
    {                                                                                                       \
        return at::conv##D##d(x, weight, given(o.bias()), o.stride(), o.padding(), o.dilation(), o.groups()); \
    }                                                                                                       \
    inline Tensor conv_transpose##D##d(const Tensor &x, const Tensor &weight, const ConvFuncOptions<D> &o = {}) \
    {                                                                                                       \
        return at::convolution(x, weight, given(o.bias()), o.stride(), o.padding(), o.dilation(), true, o.output_padding(), o.groups()); \
    }
AT_CONV_(1)
AT_CONV_(2)
AT_CONV_(3)
#undef AT_CONV_

struct DropoutFuncOptions {
    TORCH_ARG(double, p) = 0.5;
    TORCH_ARG(bool, training) = true;
    TORCH_ARG(bool, inplace) = false;
};
using Dropout2dFuncOptions = DropoutFuncOptions;
using Dropout3dFuncOptions = DropoutFuncOptions;
inline Tensor dropout(const Tensor &x, const DropoutFuncOptions &o = {}) { return o.inplace() ? at::dropout_(x, o.p(), o.training()) : at::dropout(x, o.p(), o.training()); }
inline Tensor dropout2d(const Tensor &x, const DropoutFuncOptions &o = {}) { return at::feature_dropout(x, o.p(), o.training()); }
inline Tensor dropout3d(const Tensor &x, const DropoutFuncOptions &o = {}) { return dropout2d(x, o); }

template <size_t D> struct MaxPoolFuncOptions {
    MaxPoolFuncOptions(ExpandingArray<D> kernel) : kernel_size_(kernel), stride_(kernel) {}
    TORCH_ARG(ExpandingArray<D>, kernel_size);
    TORCH_ARG(ExpandingArray<D>, stride);
    TORCH_ARG(ExpandingArray<D>, padding) = 0;
    TORCH_ARG(ExpandingArray<D>, dilation) = 1;
    TORCH_ARG(bool, ceil_mode) = false;
};
template <size_t D> struct AvgPoolFuncOptions {
    AvgPoolFuncOptions(ExpandingArray<D> kernel) : kernel_size_(kernel), stride_(kernel) {}
    TORCH_ARG(ExpandingArray<D>, kernel_size);
    TORCH_ARG(ExpandingArray<D>, stride);
    TORCH_ARG(ExpandingArray<D>, padding) = 0;
    TORCH_ARG(bool, ceil_mode) = false;
    TORCH_ARG(bool, count_include_pad) = true;
};
template <size_t D> struct AdaptiveAvgPoolFuncOptions {
    AdaptiveAvgPoolFuncOptions(ExpandingArray<D> size) : output_size_(size) {}
    TORCH_ARG(ExpandingArray<D>, output_size);
};
#define AT_POOL_(D)                                                                                         \
    using MaxPool##D##dFuncOptions = MaxPoolFuncOptions<D>;                                                 \
    using AvgPool##D##dFuncOptions = AvgPoolFuncOptions<D>;                                                 \
    using AdaptiveAvgPool##D##dFuncOptions = AdaptiveAvgPoolFuncOptions<D>;                                 \
    inline Tensor max_pool##D##d(const Tensor &x, const MaxPoolFuncOptions<D> &o)                           \
    {                                                                                                       \
        return at::max_pool##D##d(x, o.kernel_size(), o.stride(), o.padding(), o.dilation(), o.ceil_mode()); \
    }                                                                                                       \
    inline Tensor avg_pool##D##d(const Tensor &x, const AvgPoolFuncOptions<D> &o)                           \
    {                                                                                                       \
        return at::avg_pool##D##d(x, o.kernel_size(), o.stride(), o.padding(), o.ceil_mode(), o.count_include_pad()); \
    }                                                                                                       \
    inline Tensor adaptive_avg_pool##D##d(const Tensor &x, const AdaptiveAvgPoolFuncOptions<D> &o) { return at::adaptive_avg_pool##D##d(x, o.output_size()); }
AT_POOL_(1)
AT_POOL_(2)
AT_POOL_(3)
#undef AT_POOL_

struct BatchNormFuncOptions {
    TORCH_ARG(Tensor, weight) = {};
    TORCH_ARG(Tensor, bias) = {};
    TORCH_ARG(bool, training) = false;
    TORCH_ARG(std::optional<double>, momentum) = 0.1;
    TORCH_ARG(double, eps) = 1e-5;
};
inline Tensor batch_norm(const Tensor &x, const Tensor &mean, const Tensor &variance, const BatchNormFuncOptions &o = {})
{
    return at::batch_norm(x, given(o.weight()), given(o.bias()), given(mean), given(variance), o.training(), o.momentum().value_or(0), o.eps(), true);
}
struct LayerNormFuncOptions {
    LayerNormFuncOptions(std::vector<int64_t> shape) : normalized_shape_(std::move(shape)) {}
    TORCH_ARG(std::vector<int64_t>, normalized_shape);
    TORCH_ARG(Tensor, weight) = {};
    TORCH_ARG(Tensor, bias) = {};
    TORCH_ARG(double, eps) = 1e-5;
};
inline Tensor layer_norm(const Tensor &x, const LayerNormFuncOptions &o) { return at::layer_norm(x, o.normalized_shape(), given(o.weight()), given(o.bias()), o.eps()); }
struct GroupNormFuncOptions {
    GroupNormFuncOptions(int64_t n) : num_groups_(n) {}
    TORCH_ARG(int64_t, num_groups);
    TORCH_ARG(Tensor, weight) = {};
    TORCH_ARG(Tensor, bias) = {};
    TORCH_ARG(double, eps) = 1e-5;
};
inline Tensor group_norm(const Tensor &x, const GroupNormFuncOptions &o) { return at::group_norm(x, o.num_groups(), given(o.weight()), given(o.bias()), o.eps()); }
struct EmbeddingFuncOptions {
    TORCH_ARG(std::optional<int64_t>, padding_idx) = std::nullopt;
    TORCH_ARG(bool, scale_grad_by_freq) = false;
    TORCH_ARG(bool, sparse) = false;
};
inline Tensor embedding(const Tensor &indices, const Tensor &weight, const EmbeddingFuncOptions &o = {})
{
    return at::embedding(weight, indices, o.padding_idx().value_or(-1), o.scale_grad_by_freq(), o.sparse());
}
inline Tensor one_hot(const Tensor &x, int64_t classes = -1) { return at::one_hot(x, classes); }

/* ---- activations ---- */

struct ReLUFuncOptions {
    ReLUFuncOptions(bool in_place = false) : inplace_(in_place) {}
    TORCH_ARG(bool, inplace);
};
inline Tensor relu(Tensor x, const ReLUFuncOptions &o = {}) { return o.inplace() ? at::relu_(x) : at::relu(x); }
struct LeakyReLUFuncOptions {
    TORCH_ARG(double, negative_slope) = 0.01;
    TORCH_ARG(bool, inplace) = false;
};
inline Tensor leaky_relu(Tensor x, const LeakyReLUFuncOptions &o = {}) { return o.inplace() ? at::leaky_relu_(x, o.negative_slope()) : at::leaky_relu(x, o.negative_slope()); }
struct ELUFuncOptions {
    TORCH_ARG(double, alpha) = 1;
    TORCH_ARG(bool, inplace) = false;
};
inline Tensor elu(Tensor x, const ELUFuncOptions &o = {}) { return o.inplace() ? at::elu_(x, o.alpha()) : at::elu(x, o.alpha()); }
struct SoftplusFuncOptions {
    TORCH_ARG(double, beta) = 1;
    TORCH_ARG(double, threshold) = 20;
};
inline Tensor softplus(const Tensor &x, const SoftplusFuncOptions &o = {}) { return at::softplus(x, o.beta(), o.threshold()); }
struct SoftmaxFuncOptions {
    SoftmaxFuncOptions(int64_t d) : dim_(d) {}
    TORCH_ARG(int64_t, dim);
    TORCH_ARG(std::optional<ScalarType>, dtype) = std::nullopt;
};
using LogSoftmaxFuncOptions = SoftmaxFuncOptions;
inline Tensor softmax(const Tensor &x, const SoftmaxFuncOptions &o) { return at::softmax(x, o.dim(), o.dtype()); }
inline Tensor log_softmax(const Tensor &x, const SoftmaxFuncOptions &o) { return at::log_softmax(x, o.dim(), o.dtype()); }
struct GELUFuncOptions {
    TORCH_ARG(std::string, approximate) = "none";
};
inline Tensor gelu(const Tensor &x, const GELUFuncOptions &o = {}) { return at::gelu(x, o.approximate()); }
inline Tensor silu(const Tensor &x) { return at::silu(x); }
inline Tensor mish(const Tensor &x) { return at::mish(x); }
inline Tensor logsigmoid(const Tensor &x) { return at::log_sigmoid(x); }
inline Tensor tanhshrink(const Tensor &x) { return x - at::tanh(x); }
inline Tensor softsign(const Tensor &x) { return x / (at::abs(x) + 1); }

/* ---- vision, distances ---- */

struct NormalizeFuncOptions {
    TORCH_ARG(double, p) = 2;
    TORCH_ARG(int64_t, dim) = 1;
    TORCH_ARG(double, eps) = 1e-12;
};
inline Tensor normalize(const Tensor &x, const NormalizeFuncOptions &o = {}) { return x / x.norm(o.p(), {o.dim()}, true).clamp_min(Scalar(o.eps())).expand_as(x); }
struct CosineSimilarityFuncOptions {
    TORCH_ARG(int64_t, dim) = 1;
    TORCH_ARG(double, eps) = 1e-8;
};
inline Tensor cosine_similarity(const Tensor &a, const Tensor &b, const CosineSimilarityFuncOptions &o = {}) { return at::cosine_similarity(a, b, o.dim(), o.eps()); }
using PadMode = std::variant<enumtype::kConstant, enumtype::kReflect, enumtype::kReplicate, enumtype::kCircular>;
struct PadFuncOptions {
    PadFuncOptions(std::vector<int64_t> list) : pad_(std::move(list)) {}
    TORCH_ARG(std::vector<int64_t>, pad);
    TORCH_ARG(PadMode, mode) = kConstant;
    TORCH_ARG(double, value) = 0;
};
inline Tensor pad(const Tensor &x, const PadFuncOptions &o)
{
    static const char *const modes[] = {"constant", "reflect", "replicate", "circular"};
    return at::pad(x, o.pad(), modes[o.mode().index()], o.mode().index() ? std::nullopt : std::optional<double>(o.value()));
}
using InterpolateMode = std::variant<enumtype::kNearest, enumtype::kBilinear, enumtype::kBicubic>;
struct InterpolateFuncOptions {
    TORCH_ARG(std::optional<std::vector<int64_t>>, size) = std::nullopt;
    TORCH_ARG(std::optional<std::vector<double>>, scale_factor) = std::nullopt;
    TORCH_ARG(InterpolateMode, mode) = kNearest;
    TORCH_ARG(std::optional<bool>, align_corners) = std::nullopt;
};
/* Of images, (n, channels, height, width). */
inline Tensor interpolate(const Tensor &x, const InterpolateFuncOptions &o = {})
{
    TORCH_CHECK(x.dim() == 4, "interpolate: 4 dimensions are expected, but got ", x.dim());
    TORCH_CHECK(o.size().has_value() != o.scale_factor().has_value(), "only one of size or scale_factor should be defined");
    at::OptionalIntArrayRef size = o.size();
    at::OptionalArrayRef<double> scale = o.scale_factor();
    bool align = o.align_corners().value_or(false);
    if (std::holds_alternative<enumtype::kNearest>(o.mode())) return at::upsample_nearest2d(x, size, scale);
    return std::holds_alternative<enumtype::kBilinear>(o.mode()) ? at::upsample_bilinear2d(x, size, align, scale) : at::upsample_bicubic2d(x, size, align, scale);
}

} // namespace functional

/* ---- losses as modules ---- */

#define AT_LOSS_(Name, function)                                                                            \
    class Name##Impl : public Module {                                                                      \
    public:                                                                                                 \
        Name##Options options;                                                                              \
        explicit Name##Impl(Name##Options o = {}) : options(std::move(o)) {}                                \
        void pretty_print(std::ostream &out) const override { out << "torch::nn::" #Name "()"; }            \
        Tensor forward(const Tensor &input, const Tensor &target) { return functional::function(input, target, options); } \
    };                                                                                                      \
    TORCH_MODULE(Name)
AT_LOSS_(MSELoss, mse_loss);
AT_LOSS_(L1Loss, l1_loss);
AT_LOSS_(SmoothL1Loss, smooth_l1_loss);
AT_LOSS_(HuberLoss, huber_loss);
AT_LOSS_(NLLLoss, nll_loss);
AT_LOSS_(CrossEntropyLoss, cross_entropy);
AT_LOSS_(BCELoss, binary_cross_entropy);
AT_LOSS_(BCEWithLogitsLoss, binary_cross_entropy_with_logits);
AT_LOSS_(KLDivLoss, kl_div);
#undef AT_LOSS_

} // namespace nn
} // namespace torch
#endif
