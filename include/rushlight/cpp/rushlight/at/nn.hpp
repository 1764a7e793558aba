/* nn.hpp - torch::nn: modules with named parameters, buffers and children, and the layers that programs use most.
 *
 * A module is an Impl class, of which a holder (Linear for LinearImpl) is a counted reference. Layers are a few lines each over the
 * functions of namespace at; the same seed gives the weights that libtorch's modules start with.
 */
#ifndef RUSHLIGHT_AT_NN_HPP
#define RUSHLIGHT_AT_NN_HPP

#include "autograd.hpp"
#include <rushlight/backend.h>
#include <rushlight/nn.h>

#include <fstream>

/* A setting: read by name(), set by name(value), which may be chained. */
#define TORCH_ARG(T, name)                                                                                  \
public:                                                                                                     \
    auto name(const T &set) -> decltype(*this)                                                              \
    {                                                                                                       \
        name##_ = set;                                                                                      \
        return *this;                                                                                       \
    }                                                                                                       \
    const T &name() const noexcept { return name##_; }                                                      \
    T &name() noexcept { return name##_; }                                                                  \
                                                                                                            \
private:                                                                                                    \
    T name##_

namespace torch {

namespace cuda {
inline size_t device_count() { return static_cast<size_t>(rush_device_count(RUSH_CUDA)); }
inline bool is_available() { return device_count() > 0; }
inline bool cudnn_is_available() { return is_available(); }
inline void manual_seed(uint64_t seed) { c10::detail::check(rush_device_manual_seed(seed)); }
} // namespace cuda

struct Reduction {
    enum { None, Mean, Sum };
};

/* D numbers, of which one stands for all. */
template <size_t D, class T = int64_t> class ExpandingArray {
    std::array<T, D> items;

public:
    ExpandingArray(T one) { items.fill(one); }
    ExpandingArray(std::initializer_list<T> list) : ExpandingArray(at::ArrayRef<T>(list)) {}
    ExpandingArray(const std::vector<T> &list) : ExpandingArray(at::ArrayRef<T>(list)) {}
    ExpandingArray(at::ArrayRef<T> list)
    {
        TORCH_CHECK(list.size() == D, "Expected ", D, " values, but instead got ", list.size());
        std::copy(list.begin(), list.end(), items.begin());
    }
    operator at::ArrayRef<T>() const { return items; }
    const T &operator[](size_t i) const { return items[i]; }
    std::array<T, D> &operator*() { return items; }
    std::array<T, D> *operator->() { return &items; }
    size_t size() const { return D; }
    bool is(T one) const { return std::all_of(items.begin(), items.end(), [&](const T &x) { return x == one; }); }
};
template <size_t D, class T> std::ostream &operator<<(std::ostream &out, const ExpandingArray<D, T> &list)
{
    if (D == 1) return out << list[0];
    return out << at::ArrayRef<T>(list);
}

namespace serialize {
class OutputArchive;
class InputArchive;
} // namespace serialize

namespace nn {

class Module : public std::enable_shared_from_this<Module> {
    template <class T> using Named = std::vector<std::pair<std::string, T>>;
    std::string its_name;
    bool training = true;
    Named<Tensor> own_parameters, own_buffers;
    Named<std::shared_ptr<Module>> own_children;

    template <class F> void walk(const std::string &prefix, F &&f) const
    {
        f(prefix, *this);
        for (auto &[name, child] : own_children) child->walk(prefix + name + ".", f);
    }
    Named<Tensor> collect(Named<Tensor> Module::*what) const
    {
        Named<Tensor> all;
        walk("", [&](const std::string &prefix, const Module &m) {
            for (auto &[name, x] : m.*what)
                if (x.defined()) all.emplace_back(prefix + name, x);
        });
        return all;
    }
    static std::vector<Tensor> second(const Named<Tensor> &named)
    {
        std::vector<Tensor> list;
        for (auto &[name, x] : named) list.push_back(x);
        return list;
    }
    /* Names of one kind that a module may still be given. */
    template <class T> static void check_new(const char *kind, const std::string &name, const Named<T> &known)
    {
        TORCH_CHECK(!name.empty(), kind, " name must not be empty");
        TORCH_CHECK(name.find('.') == std::string::npos, kind, " name must not contain a dot (got '", name, "')");
        for (auto &[other, it] : known) TORCH_CHECK(other != name, kind, " '", name, "' already defined");
    }
    template <class F> void each_tensor(F &&convert)
    {
        NoGradGuard unrecorded;
        for (auto what : {&Module::own_parameters, &Module::own_buffers})
            for (auto &[name, x] : collect(what)) c10::detail::check(rush_data_set(x.get(), convert(x).get()));
    }

public:
    Module() = default;
    explicit Module(std::string name) : its_name(std::move(name)) {}
    virtual ~Module() = default;
    /* Of classes that have not said it, what their type is called. */
    const std::string &name() const
    {
        if (its_name.empty()) const_cast<Module *>(this)->its_name = c10::demangle(typeid(*this).name());
        return its_name;
    }
    virtual void pretty_print(std::ostream &out) const { out << name(); }
    virtual bool is_serializable() const { return true; }
    inline virtual void save(serialize::OutputArchive &archive) const; /* inline is said here: else every file that includes this has the table of virtual functions and all that they call */
    inline virtual void load(serialize::InputArchive &archive);

    Tensor &register_parameter(std::string name, Tensor x, bool requires_grad = true)
    {
        check_new("Parameter", name, own_parameters);
        if (x.defined() && requires_grad) x.set_requires_grad(true);
        own_parameters.emplace_back(std::move(name), std::move(x));
        return own_parameters.back().second;
    }
    Tensor &register_buffer(std::string name, Tensor x)
    {
        check_new("Buffer", name, own_buffers);
        own_buffers.emplace_back(std::move(name), std::move(x));
        return own_buffers.back().second;
    }
    template <class M> std::shared_ptr<M> register_module(std::string name, std::shared_ptr<M> child)
    {
        check_new("Submodule", name, own_children);
        own_children.emplace_back(std::move(name), child);
        return child;
    }
    template <class Holder, class = typename Holder::ContainedType> Holder register_module(std::string name, Holder child)
    {
        register_module(std::move(name), child.ptr());
        return child;
    }
    template <class M> std::shared_ptr<M> replace_module(const std::string &name, std::shared_ptr<M> child)
    {
        for (auto &[other, m] : own_children)
            if (other == name) return m = child, child;
        TORCH_CHECK(false, "Submodule '", name, "' is not defined");
    }
    template <class Holder, class = typename Holder::ContainedType> Holder replace_module(const std::string &name, Holder child)
    {
        replace_module(name, child.ptr());
        return child;
    }
    void unregister_module(const std::string &name)
    {
        auto found = std::find_if(own_children.begin(), own_children.end(), [&](const auto &entry) { return entry.first == name; });
        TORCH_CHECK(found != own_children.end(), "No Module with name `", name, "` is registered");
        own_children.erase(found);
    }

    std::vector<Tensor> parameters(bool recurse = true) const { return recurse ? second(collect(&Module::own_parameters)) : second(own_parameters); }
    std::vector<Tensor> buffers(bool recurse = true) const { return recurse ? second(collect(&Module::own_buffers)) : second(own_buffers); }
    /* Pairs as .key() and .value(), or .first and .second. */
    struct Item : std::pair<std::string, Tensor> {
        using std::pair<std::string, Tensor>::pair;
        Item(std::pair<std::string, Tensor> p) : std::pair<std::string, Tensor>(std::move(p)) {}
        const std::string &key() const { return first; }
        const Tensor &value() const { return second; }
        Tensor &value() { return second; }
    };
    std::vector<Item> named_parameters() const
    {
        auto all = collect(&Module::own_parameters);
        return {all.begin(), all.end()};
    }
    std::vector<Item> named_buffers() const
    {
        auto all = collect(&Module::own_buffers);
        return {all.begin(), all.end()};
    }
    std::vector<std::shared_ptr<Module>> children() const
    {
        std::vector<std::shared_ptr<Module>> list;
        for (auto &[name, child] : own_children) list.push_back(child);
        return list;
    }
    const Named<std::shared_ptr<Module>> &named_children() const { return own_children; }
    template <class F> void apply(F &&f)
    {
        for (auto &[name, child] : own_children) child->apply(f);
        f(*this);
    }

    virtual void train(bool on = true)
    {
        training = on;
        for (auto &[name, child] : own_children) child->train(on);
    }
    void eval() { train(false); }
    bool is_training() const noexcept { return training; }
    virtual void zero_grad(bool set_to_none = true)
    {
        for (auto &x : parameters())
            if (set_to_none) c10::detail::check(rush_grad_set(x.get(), nullptr));
            else if (x.grad().defined()) x.mutable_grad().zero_();
    }
    virtual void to(Device device, ScalarType dtype)
    {
        each_tensor([&](const Tensor &x) { return x.to(x.is_floating_point() ? TensorOptions(dtype).device(device) : TensorOptions(x.scalar_type()).device(device)); });
    }
    virtual void to(ScalarType dtype)
    {
        each_tensor([&](const Tensor &x) { return x.is_floating_point() ? x.to(dtype) : x; });
    }
    virtual void to(Device device)
    {
        each_tensor([&](const Tensor &x) { return x.to(TensorOptions(x.scalar_type()).device(device)); });
    }
    template <class M> M *as() { return dynamic_cast<M *>(this); }
};
/* Modules in modules, each on a line of its own. */
inline void print_module(std::ostream &out, const Module &m, const std::string &indent)
{
    m.pretty_print(out);
    if (m.named_children().empty()) return;
    out << "(\n";
    for (auto &[name, child] : m.named_children()) {
        out << indent << "  (" << name << "): ";
        print_module(out, *child, indent + "  ");
        out << '\n';
    }
    out << indent << ")";
}
inline std::ostream &operator<<(std::ostream &out, const Module &m) { return print_module(out, m, ""), out; }

/* A module with a copy that shares nothing, in libtorch; kept for programs that derive from it. */
template <class Derived> class Cloneable : public Module {
public:
    using Module::Module;
    virtual void reset() = 0;
};

template <class Contained> class ModuleHolder {
protected:
    std::shared_ptr<Contained> impl_;

public:
    using ContainedType = Contained;
    ModuleHolder() : impl_(make()) {}
    ModuleHolder(std::nullptr_t) {}
    ModuleHolder(std::shared_ptr<Contained> m) : impl_(std::move(m)) {}
    template <class Head, class... Tail, class = std::enable_if_t<!std::is_base_of_v<ModuleHolder, std::decay_t<Head>> && !std::is_same_v<std::decay_t<Head>, std::shared_ptr<Contained>> && !std::is_same_v<std::decay_t<Head>, std::nullptr_t>>>
    explicit ModuleHolder(Head &&head, Tail &&...tail) : impl_(std::make_shared<Contained>(std::forward<Head>(head), std::forward<Tail>(tail)...)) {}
    explicit operator bool() const noexcept { return !is_empty(); }
    bool is_empty() const noexcept { return !impl_; }
    Contained *operator->() const { return get(); }
    Contained &operator*() const { return *get(); }
    const std::shared_ptr<Contained> &ptr() const { return get(), impl_; }
    Contained *get() const
    {
        TORCH_CHECK(impl_, "Accessing empty ModuleHolder");
        return impl_.get();
    }
    template <class I> decltype(auto) operator[](I &&i) const { return (*get())[std::forward<I>(i)]; }
    template <class... Args> auto operator()(Args &&...args) const { return get()->forward(std::forward<Args>(args)...); }

private:
    static std::shared_ptr<Contained> make()
    {
        if constexpr (std::is_default_constructible_v<Contained>) return std::make_shared<Contained>();
        else return nullptr;
    }
};
template <class Contained> std::ostream &operator<<(std::ostream &out, const ModuleHolder<Contained> &m) { return out << *m; }

#define TORCH_MODULE_IMPL(Name, ImplType)                                                                   \
    class Name : public torch::nn::ModuleHolder<ImplType> {                                                 \
    public:                                                                                                 \
        using torch::nn::ModuleHolder<ImplType>::ModuleHolder;                                              \
        using Impl = ImplType;                                                                              \
    }
#define TORCH_MODULE(Name) TORCH_MODULE_IMPL(Name, Name##Impl)

/* ---- how weights begin ---- */

namespace init {
inline Tensor uniform_(Tensor x, double low = 0, double high = 1) { return NoGradGuard(), x.uniform_(low, high); }
inline Tensor normal_(Tensor x, double mean = 0, double std = 1) { return NoGradGuard(), x.normal_(mean, std); }
inline Tensor constant_(Tensor x, const Scalar &value) { return NoGradGuard(), x.fill_(value); }
inline Tensor ones_(Tensor x) { return constant_(std::move(x), 1); }
inline Tensor zeros_(Tensor x) { return constant_(std::move(x), 0); }
/* Elements that one output, or input, is made of. */
inline std::pair<int64_t, int64_t> fans(const Tensor &x)
{
    TORCH_CHECK(x.dim() >= 2, "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions");
    int64_t field = x.size(0) && x.size(1) ? x.numel() / (x.size(0) * x.size(1)) : 0;
    return {x.size(1) * field, x.size(0) * field};
}
inline Tensor kaiming_uniform_(Tensor x, double a = 0)
{
    double bound = std::sqrt(3.0) * (std::sqrt(2.0 / (1 + a * a)) / std::sqrt(static_cast<double>(fans(x).first)));
    return init::uniform_(std::move(x), -bound, bound);
}
inline Tensor kaiming_normal_(Tensor x, double a = 0) { return init::normal_(x, 0, std::sqrt(2.0 / (1 + a * a)) / std::sqrt(static_cast<double>(fans(x).first))); }
inline Tensor xavier_uniform_(Tensor x, double gain = 1)
{
    auto [in, out] = fans(x);
    double bound = std::sqrt(3.0) * (gain * std::sqrt(2.0 / static_cast<double>(in + out)));
    return init::uniform_(std::move(x), -bound, bound);
}
inline Tensor xavier_normal_(Tensor x, double gain = 1)
{
    auto [in, out] = fans(x);
    return init::normal_(std::move(x), 0, gain * std::sqrt(2.0 / static_cast<double>(in + out)));
}
} // namespace init

/* ---- layers with weights ---- */

struct LinearOptions {
    LinearOptions(int64_t in, int64_t out) : in_features_(in), out_features_(out) {}
    TORCH_ARG(int64_t, in_features);
    TORCH_ARG(int64_t, out_features);
    TORCH_ARG(bool, bias) = true;
};
class LinearImpl : public Module {
public:
    LinearOptions options;
    Tensor weight, bias;
    LinearImpl(int64_t in, int64_t out) : LinearImpl(LinearOptions(in, out)) {}
    explicit LinearImpl(const LinearOptions &o) : options(o)
    {
        weight = register_parameter("weight", at::empty({o.out_features(), o.in_features()}));
        if (o.bias()) bias = register_parameter("bias", at::empty({o.out_features()}));
        reset_parameters();
    }
    void reset_parameters()
    {
        init::kaiming_uniform_(weight, std::sqrt(5));
        double bound = 1 / std::sqrt(static_cast<double>(init::fans(weight).first));
        if (bias.defined()) init::uniform_(bias, -bound, bound);
    }
    void pretty_print(std::ostream &out) const override
    {
        out << "torch::nn::Linear(in_features=" << options.in_features() << ", out_features=" << options.out_features() << ", bias=" << std::boolalpha << options.bias() << ")";
    }
    Tensor forward(const Tensor &x) { return linear(x, weight, bias.defined() ? std::optional<Tensor>(bias) : std::nullopt); }
};
TORCH_MODULE(Linear);

template <size_t D> struct ConvOptions {
    ConvOptions(int64_t in, int64_t out, ExpandingArray<D> kernel) : in_channels_(in), out_channels_(out), kernel_size_(kernel) {}
    TORCH_ARG(int64_t, in_channels);
    TORCH_ARG(int64_t, out_channels);
    TORCH_ARG(ExpandingArray<D>, kernel_size);
    TORCH_ARG(ExpandingArray<D>, stride) = 1;
    TORCH_ARG(ExpandingArray<D>, padding) = 0;
    TORCH_ARG(ExpandingArray<D>, output_padding) = 0;
    TORCH_ARG(ExpandingArray<D>, dilation) = 1;
    TORCH_ARG(int64_t, groups) = 1;
    TORCH_ARG(bool, bias) = true;
};
template <size_t D, bool Transposed> class ConvBase : public Module {
public:
    ConvOptions<D> options;
    Tensor weight, bias;
    ConvBase(int64_t in, int64_t out, ExpandingArray<D> kernel) : ConvBase(ConvOptions<D>(in, out, kernel)) {}
    explicit ConvBase(const ConvOptions<D> &o) : options(o)
    {
        TORCH_CHECK(o.in_channels() % o.groups() == 0, "in_channels must be divisible by groups");
        TORCH_CHECK(o.out_channels() % o.groups() == 0, "out_channels must be divisible by groups");
        std::vector<int64_t> size = {Transposed ? o.in_channels() : o.out_channels(), (Transposed ? o.out_channels() : o.in_channels()) / o.groups()};
        for (size_t i = 0; i < D; ++i) size.push_back(o.kernel_size()[i]);
        weight = register_parameter("weight", at::empty(size));
        if (o.bias()) bias = register_parameter("bias", at::empty({o.out_channels()}));
        reset_parameters();
    }
    void reset_parameters()
    {
        init::kaiming_uniform_(weight, std::sqrt(5));
        double bound = 1 / std::sqrt(static_cast<double>(init::fans(weight).first));
        if (bias.defined()) init::uniform_(bias, -bound, bound);
    }
    void pretty_print(std::ostream &out) const override
    {
        auto &o = options;
        out << "torch::nn::Conv" << (Transposed ? "Transpose" : "") << D << "d(" << o.in_channels() << ", " << o.out_channels() << ", kernel_size=" << o.kernel_size() << ", stride=" << o.stride();
        if (!o.padding().is(0)) out << ", padding=" << o.padding();
        if (!o.dilation().is(1)) out << ", dilation=" << o.dilation();
        if (!o.output_padding().is(0)) out << ", output_padding=" << o.output_padding();
        if (o.groups() != 1) out << ", groups=" << o.groups();
        if (!o.bias()) out << ", bias=false";
        out << ")";
    }
    Tensor forward(const Tensor &x)
    {
        auto &o = options;
        std::optional<Tensor> b = bias.defined() ? std::optional<Tensor>(bias) : std::nullopt;
        if constexpr (!Transposed && D == 1) return conv1d(x, weight, b, o.stride(), o.padding(), o.dilation(), o.groups());
        if constexpr (!Transposed && D == 2) return conv2d(x, weight, b, o.stride(), o.padding(), o.dilation(), o.groups());
        if constexpr (!Transposed && D == 3) return conv3d(x, weight, b, o.stride(), o.padding(), o.dilation(), o.groups());
        return convolution(x, weight, b, o.stride(), o.padding(), o.dilation(), Transposed, o.output_padding(), o.groups());
    }
};
#define AT_CONV_(Name, D, transposed)                                                                       \
    using Name##Options = ConvOptions<D>;                                                                   \
    using Name##Impl = ConvBase<D, transposed>;                                                             \
    TORCH_MODULE(Name)
AT_CONV_(Conv1d, 1, false);
AT_CONV_(Conv2d, 2, false);
AT_CONV_(Conv3d, 3, false);
AT_CONV_(ConvTranspose1d, 1, true);
AT_CONV_(ConvTranspose2d, 2, true);
AT_CONV_(ConvTranspose3d, 3, true);
#undef AT_CONV_

struct BatchNormOptions {
    BatchNormOptions(int64_t n) : num_features_(n) {}
    TORCH_ARG(int64_t, num_features);
    TORCH_ARG(double, eps) = 1e-5;
    TORCH_ARG(std::optional<double>, momentum) = 0.1;
    TORCH_ARG(bool, affine) = true;
    TORCH_ARG(bool, track_running_stats) = true;
};
template <int64_t Fewest, int64_t Most> class BatchNormBase : public Module {
public:
    BatchNormOptions options;
    Tensor weight, bias, running_mean, running_var, num_batches_tracked;
    explicit BatchNormBase(const BatchNormOptions &o) : options(o)
    {
        if (o.affine()) {
            weight = register_parameter("weight", ones({o.num_features()}));
            bias = register_parameter("bias", zeros({o.num_features()}));
        }
        if (!o.track_running_stats()) return;
        running_mean = register_buffer("running_mean", zeros({o.num_features()}));
        running_var = register_buffer("running_var", ones({o.num_features()}));
        num_batches_tracked = register_buffer("num_batches_tracked", tensor(int64_t(0)));
    }
    void pretty_print(std::ostream &out) const override
    {
        out << "torch::nn::BatchNorm" << Most - 2 << "d(" << options.num_features() << ", eps=" << options.eps() << ", momentum=";
        if (options.momentum()) out << *options.momentum();
        else out << "None";
        out << ", affine=" << std::boolalpha << options.affine() << ", track_running_stats=" << std::boolalpha << options.track_running_stats() << ")";
    }
    Tensor forward(const Tensor &x)
    {
        TORCH_CHECK(x.dim() >= Fewest && x.dim() <= Most, "expected ", Fewest == Most ? "" : std::to_string(Fewest) + "D or ", Most, "D input (got ", x.dim(), "D input)");
        double momentum = options.momentum().value_or(0);
        if (is_training() && num_batches_tracked.defined()) {
            num_batches_tracked += 1;
            if (!options.momentum()) momentum = 1 / num_batches_tracked.item<double>();
        }
        auto given = [](const Tensor &t) { return t.defined() ? std::optional<Tensor>(t) : std::nullopt; };
        return batch_norm(x, given(weight), given(bias), given(running_mean), given(running_var), is_training() || !running_mean.defined(), momentum, options.eps(), true);
    }
};
using BatchNorm1dOptions = BatchNormOptions;
using BatchNorm2dOptions = BatchNormOptions;
using BatchNorm3dOptions = BatchNormOptions;
using BatchNorm1dImpl = BatchNormBase<2, 3>;
using BatchNorm2dImpl = BatchNormBase<4, 4>;
using BatchNorm3dImpl = BatchNormBase<5, 5>;
TORCH_MODULE(BatchNorm1d);
TORCH_MODULE(BatchNorm2d);
TORCH_MODULE(BatchNorm3d);

struct LayerNormOptions {
    LayerNormOptions(std::vector<int64_t> shape) : normalized_shape_(std::move(shape)) {}
    TORCH_ARG(std::vector<int64_t>, normalized_shape);
    TORCH_ARG(double, eps) = 1e-5;
    TORCH_ARG(bool, elementwise_affine) = true;
};
class LayerNormImpl : public Module {
public:
    LayerNormOptions options;
    Tensor weight, bias;
    explicit LayerNormImpl(const LayerNormOptions &o) : options(o)
    {
        if (!o.elementwise_affine()) return;
        weight = register_parameter("weight", ones(o.normalized_shape()));
        bias = register_parameter("bias", zeros(o.normalized_shape()));
    }
    void pretty_print(std::ostream &out) const override
    {
        out << "torch::nn::LayerNorm(" << at::IntArrayRef(options.normalized_shape()) << ", eps=" << options.eps() << ", elementwise_affine=" << std::boolalpha << options.elementwise_affine() << ")";
    }
    Tensor forward(const Tensor &x)
    {
        if (!weight.defined()) return layer_norm(x, options.normalized_shape(), std::nullopt, std::nullopt, options.eps());
        return layer_norm(x, options.normalized_shape(), weight, bias, options.eps());
    }
};
TORCH_MODULE(LayerNorm);

struct EmbeddingOptions {
    EmbeddingOptions(int64_t n, int64_t dim) : num_embeddings_(n), embedding_dim_(dim) {}
    TORCH_ARG(int64_t, num_embeddings);
    TORCH_ARG(int64_t, embedding_dim);
    TORCH_ARG(std::optional<int64_t>, padding_idx) = std::nullopt;
    TORCH_ARG(bool, scale_grad_by_freq) = false;
    TORCH_ARG(bool, sparse) = false;
};
class EmbeddingImpl : public Module {
public:
    EmbeddingOptions options;
    Tensor weight;
    EmbeddingImpl(int64_t n, int64_t dim) : EmbeddingImpl(EmbeddingOptions(n, dim)) {}
    explicit EmbeddingImpl(const EmbeddingOptions &o) : options(o)
    {
        int64_t n = o.num_embeddings();
        if (options.padding_idx()) {
            TORCH_CHECK(*o.padding_idx() >= -n && *o.padding_idx() < n, "Padding_idx must be within num_embeddings");
            if (*o.padding_idx() < 0) options.padding_idx(*o.padding_idx() + n);
        }
        weight = register_parameter("weight", at::empty({n, o.embedding_dim()}));
        init::normal_(weight);
        NoGradGuard unrecorded;
        if (o.padding_idx()) weight[*o.padding_idx()].fill_(0);
    }
    void pretty_print(std::ostream &out) const override
    {
        out << "torch::nn::Embedding(num_embeddings=" << options.num_embeddings() << ", embedding_dim=" << options.embedding_dim();
        if (options.padding_idx()) out << ", padding_idx=" << *options.padding_idx();
        if (options.scale_grad_by_freq()) out << ", scale_grad_by_freq=true";
        if (options.sparse()) out << ", sparse=true";
        out << ")";
    }
    Tensor forward(const Tensor &indices) { return embedding(weight, indices, options.padding_idx().value_or(-1), options.scale_grad_by_freq(), options.sparse()); }
};
TORCH_MODULE(Embedding);

/* ---- layers without weights ---- */

struct DropoutOptions {
    DropoutOptions(double p = 0.5) : p_(p) {}
    TORCH_ARG(double, p);
    TORCH_ARG(bool, inplace) = false;
};
template <Tensor (*Drop)(const Tensor &, double, bool), int D> class DropoutBase : public Module {
public:
    DropoutOptions options;
    DropoutBase(const DropoutOptions &o = {}) : options(o) { TORCH_CHECK(o.p() >= 0 && o.p() <= 1, "dropout probability has to be between 0 and 1, but got ", o.p()); }
    void pretty_print(std::ostream &out) const override
    {
        out << "torch::nn::Dropout" << (D > 1 ? std::to_string(D) + "d" : "") << "(p=" << options.p() << ", inplace=" << std::boolalpha << options.inplace() << ")";
    }
    Tensor forward(const Tensor &x) { return Drop(x, options.p(), is_training()); }
};
using DropoutImpl = DropoutBase<at::dropout, 1>;
using Dropout2dImpl = DropoutBase<at::feature_dropout, 2>;
using Dropout3dImpl = DropoutBase<at::feature_dropout, 3>;
TORCH_MODULE(Dropout);
TORCH_MODULE(Dropout2d);
TORCH_MODULE(Dropout3d);

/* One function of a tensor. */
#define AT_ACTIVATION_(Name, ...)                                                                           \
    class Name##Impl : public Module {                                                                      \
    public:                                                                                                 \
        Name##Impl() : Module("torch::nn::" #Name "Impl") {}                                                \
        void pretty_print(std::ostream &out) const override { out << "torch::nn::" #Name "()"; }            \
        Tensor forward(const Tensor &x) { return __VA_ARGS__; }                                             \
    };                                                                                                      \
    TORCH_MODULE(Name)
AT_ACTIVATION_(Identity, x);
AT_ACTIVATION_(ReLU, relu(x));
AT_ACTIVATION_(ReLU6, at::clamp(x, 0, 6));
AT_ACTIVATION_(Sigmoid, sigmoid(x));
AT_ACTIVATION_(Tanh, tanh(x));
AT_ACTIVATION_(GELU, gelu(x));
AT_ACTIVATION_(SiLU, silu(x));
AT_ACTIVATION_(Softplus, softplus(x));
#undef AT_ACTIVATION_

struct LeakyReLUOptions {
    TORCH_ARG(double, negative_slope) = 0.01;
    TORCH_ARG(bool, inplace) = false;
};
class LeakyReLUImpl : public Module {
public:
    LeakyReLUOptions options;
    LeakyReLUImpl(const LeakyReLUOptions &o = {}) : options(o) {}
    void pretty_print(std::ostream &out) const override
    {
        out << "torch::nn::LeakyReLU(negative_slope=" << options.negative_slope() << (options.inplace() ? ", inplace=true)" : ")");
    }
    Tensor forward(const Tensor &x) { return leaky_relu(x, options.negative_slope()); }
};
TORCH_MODULE(LeakyReLU);

struct SoftmaxOptions {
    SoftmaxOptions(int64_t dim) : dim_(dim) {}
    TORCH_ARG(int64_t, dim);
};
using LogSoftmaxOptions = SoftmaxOptions;
class SoftmaxImpl : public Module {
public:
    SoftmaxOptions options;
    SoftmaxImpl(const SoftmaxOptions &o) : options(o) {}
    void pretty_print(std::ostream &out) const override { out << "torch::nn::Softmax(dim=" << options.dim() << ")"; }
    Tensor forward(const Tensor &x) { return softmax(x, options.dim()); }
};
class LogSoftmaxImpl : public Module {
public:
    SoftmaxOptions options;
    LogSoftmaxImpl(const SoftmaxOptions &o) : options(o) {}
    void pretty_print(std::ostream &out) const override { out << "torch::nn::LogSoftmax(dim=" << options.dim() << ")"; }
    Tensor forward(const Tensor &x) { return log_softmax(x, options.dim()); }
};
TORCH_MODULE(Softmax);
TORCH_MODULE(LogSoftmax);

struct FlattenOptions {
    TORCH_ARG(int64_t, start_dim) = 1;
    TORCH_ARG(int64_t, end_dim) = -1;
};
class FlattenImpl : public Module {
public:
    FlattenOptions options;
    FlattenImpl(const FlattenOptions &o = {}) : options(o) {}
    void pretty_print(std::ostream &out) const override { out << "torch::nn::Flatten(start_dim=" << options.start_dim() << ", end_dim=" << options.end_dim() << ")"; }
    Tensor forward(const Tensor &x) { return flatten(x, options.start_dim(), options.end_dim()); }
};
TORCH_MODULE(Flatten);

struct MaxPool2dOptions {
    MaxPool2dOptions(ExpandingArray<2> kernel) : kernel_size_(kernel), stride_(kernel) {}
    TORCH_ARG(ExpandingArray<2>, kernel_size);
    TORCH_ARG(ExpandingArray<2>, stride);
    TORCH_ARG(ExpandingArray<2>, padding) = 0;
    TORCH_ARG(ExpandingArray<2>, dilation) = 1;
    TORCH_ARG(bool, ceil_mode) = false;
};
class MaxPool2dImpl : public Module {
public:
    MaxPool2dOptions options;
    MaxPool2dImpl(const MaxPool2dOptions &o) : options(o) {}
    MaxPool2dImpl(ExpandingArray<2> kernel) : MaxPool2dImpl(MaxPool2dOptions(kernel)) {}
    void pretty_print(std::ostream &out) const override
    {
        auto &o = options;
        out << "torch::nn::MaxPool2d(kernel_size=" << o.kernel_size() << ", stride=" << o.stride() << ", padding=" << o.padding() << ", dilation=" << o.dilation() << ", ceil_mode=" << std::boolalpha << o.ceil_mode() << ")";
    }
    Tensor forward(const Tensor &x) { return max_pool2d(x, options.kernel_size(), options.stride(), options.padding(), options.dilation(), options.ceil_mode()); }
};
TORCH_MODULE(MaxPool2d);

/* Any function, with arguments behind the tensor. */
class FunctionalImpl : public Module {
    std::function<Tensor(Tensor)> function;

public:
    explicit FunctionalImpl(std::function<Tensor(Tensor)> f) : function(std::move(f)) {}
    template <class F, class... Args, class = std::enable_if_t<(sizeof...(Args) > 0)>>
    explicit FunctionalImpl(F f, Args &&...args) : function([f, bound = std::make_tuple(std::forward<Args>(args)...)](Tensor x) {
        return std::apply([&](const auto &...more) { return f(x, more...); }, bound);
    }) {}
    Tensor forward(Tensor x) { return function(std::move(x)); }
    bool is_serializable() const override { return false; }
    void pretty_print(std::ostream &out) const override { out << "torch::nn::Functional()"; }
};
TORCH_MODULE(Functional);

/* ---- modules of modules ---- */

/* A module whose forward takes a tensor and returns one. */
class AnyModule {
    std::shared_ptr<Module> module;
    std::function<Tensor(const Tensor &)> run;

public:
    template <class M, class = std::enable_if_t<std::is_base_of_v<Module, M>>> explicit AnyModule(std::shared_ptr<M> m) : module(m), run([m](const Tensor &x) { return m->forward(x); }) {}
    template <class Holder, class = typename Holder::ContainedType, class = void> explicit AnyModule(const Holder &h) : AnyModule(h.ptr()) {}
    Tensor forward(const Tensor &x) const { return run(x); }
    std::shared_ptr<Module> ptr() const { return module; }
    bool is_empty() const { return !module; }
    const std::type_info &type_info() const { return typeid(*module); }
    template <class M> M &get() const
    {
        M *found = dynamic_cast<M *>(module.get());
        TORCH_CHECK(found, "Attempted to cast module of type ", c10::demangle(typeid(*module).name()), " to type ", c10::demangle(typeid(M).name()));
        return *found;
    }
};

class SequentialImpl : public Module {
    std::vector<AnyModule> modules;

public:
    SequentialImpl() = default;
    void pretty_print(std::ostream &out) const override { out << "torch::nn::Sequential"; }
    template <class... M, class = std::enable_if_t<(sizeof...(M) > 0)>> explicit SequentialImpl(M &&...m) : SequentialImpl() { (push_back(std::forward<M>(m)), ...); }
    template <class M> void push_back(M m) { push_back(std::to_string(modules.size()), std::move(m)); }
    template <class M> void push_back(std::string name, M m)
    {
        if constexpr (std::is_base_of_v<Module, M>) add(std::move(name), AnyModule(std::make_shared<M>(std::move(m))));
        else add(std::move(name), AnyModule(m));
    }
    Tensor forward(Tensor x)
    {
        TORCH_CHECK(!modules.empty(), "Cannot call forward() on an empty Sequential");
        for (auto &m : modules) x = m.forward(x);
        return x;
    }
    size_t size() const { return modules.size(); }
    bool is_empty() const { return modules.empty(); }
    std::shared_ptr<Module> ptr(size_t i) const { return modules.at(i).ptr(); }
    std::shared_ptr<Module> operator[](size_t i) const { return ptr(i); }
    template <class M> M &at(size_t i) const { return dynamic_cast<M &>(*modules.at(i).ptr()); }
    template <class Modules> void extend(const Modules &more)
    {
        for (const auto &m : more) add(std::to_string(modules.size()), AnyModule(m));
    }
    auto begin() { return modules.begin(); }
    auto begin() const { return modules.begin(); }
    auto end() { return modules.end(); }
    auto end() const { return modules.end(); }

private:
    void add(std::string name, AnyModule m)
    {
        register_module(std::move(name), m.ptr());
        modules.push_back(std::move(m));
    }
};
TORCH_MODULE(Sequential);

class ModuleListImpl : public Module {
public:
    ModuleListImpl() = default;
    void pretty_print(std::ostream &out) const override { out << "torch::nn::ModuleList"; }
    template <class... M, class = std::enable_if_t<(sizeof...(M) > 0)>> explicit ModuleListImpl(M &&...m) : ModuleListImpl() { (push_back(std::forward<M>(m)), ...); }
    template <class M> void push_back(M m) { register_module(std::to_string(size()), std::move(m)); }
    size_t size() const { return named_children().size(); }
    bool is_empty() const { return !size(); }
    std::shared_ptr<Module> ptr(size_t i) const { return named_children().at(i).second; }
    std::shared_ptr<Module> operator[](size_t i) const { return ptr(i); }
    template <class M> M &at(size_t i) const { return dynamic_cast<M &>(*ptr(i)); }
    auto begin() { return children_now().begin(); }
    auto end() { return now.end(); }

private:
    std::vector<std::shared_ptr<Module>> now;
    std::vector<std::shared_ptr<Module>> &children_now() { return now = children(); }
};
TORCH_MODULE(ModuleList);

} // namespace nn
} // namespace torch
#endif
