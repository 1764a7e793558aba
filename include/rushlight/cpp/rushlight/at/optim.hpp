/* optim.hpp - torch::optim, of operations on tensors as libtorch's is: rushlight/optim.h steps in one pass, but rounds as Python's optimizers do.
 *
 * Averages here are multiplied and added to, where those of Python are interpolated.
 */
#ifndef RUSHLIGHT_AT_OPTIM_HPP
#define RUSHLIGHT_AT_OPTIM_HPP

#include "serialize.hpp"

#include <deque>
#include <unordered_map>

namespace torch::optim {

namespace detail {

/* Values that archives have another form of; no value and no tensor is written as nothing. */
template <class T> void write(serialize::OutputArchive &archive, const char *name, const T &x) { archive.write(name, c10::IValue(x)); }
inline void write(serialize::OutputArchive &archive, const char *name, const Tensor &x)
{
    if (x.defined()) archive.write(name, c10::IValue(x));
}
inline void write(serialize::OutputArchive &archive, const char *name, const std::deque<Tensor> &list) { archive.write(name, c10::IValue(std::vector<Tensor>(list.begin(), list.end()))); }
template <class T> void write(serialize::OutputArchive &archive, const char *name, const std::optional<T> &x)
{
    if (x) archive.write(name, c10::IValue(*x));
}

template <class T> void take(const c10::IValue &from, T &x) { x = from.to<T>(); }
inline void take(const c10::IValue &from, Tensor &x) { x = from.toTensor(); }
inline void take(const c10::IValue &from, std::vector<Tensor> &x) { x = from.toTensorVector(); }
inline void take(const c10::IValue &from, std::string &x) { x = from.toStringRef(); }
inline void take(const c10::IValue &from, std::tuple<double, double> &x) { x = {from.toTuple()->elements().at(0).toDouble(), from.toTuple()->elements().at(1).toDouble()}; }
inline void take(const c10::IValue &from, std::deque<Tensor> &x)
{
    x.clear();
    for (Tensor &t : from.toTensorVector()) x.push_back(std::move(t));
}
template <class T> void take(const c10::IValue &from, std::optional<T> &x)
{
    if (from.isNone()) x.reset();
    else take(from, x.emplace());
}

/* What options and states have in common: Derived::each(f) calls f("lr", lr_) and so on for all that files have. */
template <class Derived, class Base> class Cloneable : public Base {
    Derived &self() { return static_cast<Derived &>(*this); }
    const Derived &self() const { return static_cast<const Derived &>(*this); }

public:
    std::unique_ptr<Base> clone() const override { return std::unique_ptr<Base>(new Derived(self())); }
    void serialize(serialize::OutputArchive &archive) const override
    {
        const_cast<Derived &>(self()).each([&](const char *name, const auto &x) { write(archive, name, x); });
    }
    void serialize(serialize::InputArchive &archive) override
    {
        self().each([&](const char *name, auto &x) {
            if (c10::IValue read; archive.try_read(name, read)) take(read, x);
        });
    }
};

} // namespace detail

class OptimizerParamState {
public:
    virtual ~OptimizerParamState() = default;
    virtual std::unique_ptr<OptimizerParamState> clone() const = 0;
    virtual void serialize(serialize::OutputArchive &) const {}
    virtual void serialize(serialize::InputArchive &) {}
};
template <class Derived> class OptimizerCloneableParamState : public detail::Cloneable<Derived, OptimizerParamState> {};

class OptimizerOptions {
public:
    virtual ~OptimizerOptions() = default;
    virtual std::unique_ptr<OptimizerOptions> clone() const = 0;
    virtual double get_lr() const = 0;
    virtual void set_lr(double lr) = 0;
    virtual void serialize(serialize::OutputArchive &) const {}
    virtual void serialize(serialize::InputArchive &) {}
};
template <class Derived> class OptimizerCloneableOptions : public detail::Cloneable<Derived, OptimizerOptions> {
public:
    double get_lr() const override { return static_cast<const Derived &>(*this).lr(); }
    void set_lr(double lr) override { static_cast<Derived &>(*this).lr(lr); }
};

class OptimizerParamGroup {
    std::vector<Tensor> its_params;
    std::unique_ptr<OptimizerOptions> its_options;

public:
    OptimizerParamGroup(std::vector<Tensor> params) : its_params(std::move(params)) {}
    OptimizerParamGroup(std::vector<Tensor> params, std::unique_ptr<OptimizerOptions> options) : its_params(std::move(params)), its_options(std::move(options)) {}
    OptimizerParamGroup(const OptimizerParamGroup &other) : its_params(other.its_params), its_options(other.has_options() ? other.its_options->clone() : nullptr) {}
    OptimizerParamGroup(OptimizerParamGroup &&) = default;
    OptimizerParamGroup &operator=(OptimizerParamGroup &&) = default;
    bool has_options() const { return its_options != nullptr; }
    OptimizerOptions &options() { return *its_options; }
    const OptimizerOptions &options() const { return *its_options; }
    void set_options(std::unique_ptr<OptimizerOptions> options) { its_options = std::move(options); }
    std::vector<Tensor> &params() { return its_params; }
    const std::vector<Tensor> &params() const { return its_params; }
};

class Optimizer {
protected:
    std::vector<OptimizerParamGroup> param_groups_;
    std::unordered_map<void *, std::unique_ptr<OptimizerParamState>> state_; /* by the tensor */
    std::unique_ptr<OptimizerOptions> defaults_;

    virtual std::unique_ptr<OptimizerParamState> empty_state() const { return nullptr; } /* for load(); none: files have no state of this class */

public:
    explicit Optimizer(const std::vector<OptimizerParamGroup> &groups, std::unique_ptr<OptimizerOptions> defaults) : defaults_(std::move(defaults))
    {
        for (const auto &group : groups) add_param_group(group);
    }
    explicit Optimizer(std::vector<Tensor> parameters, std::unique_ptr<OptimizerOptions> defaults) : Optimizer(std::vector<OptimizerParamGroup>{OptimizerParamGroup(std::move(parameters))}, std::move(defaults)) {}
    Optimizer(const Optimizer &) = delete;
    Optimizer &operator=(const Optimizer &) = delete;
    virtual ~Optimizer() = default;

    void add_param_group(const OptimizerParamGroup &given)
    {
        OptimizerParamGroup group(given);
        TORCH_CHECK(defaults_ || group.has_options(), "a group of parameters needs options");
        if (!group.has_options()) group.set_options(defaults_->clone());
        for (const auto &x : group.params()) {
            TORCH_CHECK(x.is_leaf(), "can't optimize a non-leaf Tensor");
            for (const auto &other : param_groups_)
                for (const auto &y : other.params()) TORCH_CHECK(!x.is_same(y), "some parameters appear in more than one parameter group");
        }
        param_groups_.push_back(std::move(group));
    }
    std::vector<OptimizerParamGroup> &param_groups() { return param_groups_; }
    const std::vector<OptimizerParamGroup> &param_groups() const { return param_groups_; }
    auto &state() { return state_; }
    const auto &state() const { return state_; }
    OptimizerOptions &defaults() { return *defaults_; }
    const OptimizerOptions &defaults() const { return *defaults_; }
    std::vector<Tensor> parameters() const
    {
        std::vector<Tensor> all;
        for (const auto &group : param_groups_) all.insert(all.end(), group.params().begin(), group.params().end());
        return all;
    }
    size_t size() const { return parameters().size(); }

    using LossClosure = std::function<Tensor()>;
    /* Of a closure, which computes the loss and its gradients, the loss. */
    virtual Tensor step(LossClosure closure = nullptr) = 0;

protected:
    static Tensor loss_of(const LossClosure &closure)
    {
        AutoGradMode recorded(true);
        return closure();
    }

public:
    void zero_grad(bool set_to_none = true)
    {
        for (auto &x : parameters())
            if (set_to_none) c10::detail::check(rush_grad_set(x.get(), nullptr));
            else if (x.grad().defined()) x.grad().detach_().zero_();
    }
    double lr() const { return param_groups_.at(0).options().get_lr(); }
    void set_lr(double lr)
    {
        for (auto &group : param_groups_) group.options().set_lr(lr);
    }

    inline virtual void save(serialize::OutputArchive &archive) const; /* inline is said here, as in Module */
    inline virtual void load(serialize::InputArchive &archive);
};

/* ---- files: the state by names that param_groups say again, in their order ---- */

inline void Optimizer::save(serialize::OutputArchive &archive) const
{
    serialize::OutputArchive state, groups;
    auto name_of = [](const Tensor &x) { return std::to_string(reinterpret_cast<uintptr_t>(x.get())); };
    auto number = [](size_t n) { return at::tensor(static_cast<int64_t>(n)); };
    groups.write("param_groups/size", number(param_groups_.size()));
    for (size_t g = 0; g < param_groups_.size(); ++g) {
        const std::vector<Tensor> &params = param_groups_[g].params();
        serialize::OutputArchive group, options;
        group.write("params/size", number(params.size()));
        for (size_t i = 0; i < params.size(); ++i) {
            group.write("params/" + std::to_string(i), c10::IValue(name_of(params[i])));
            auto found = state_.find(params[i].get());
            if (found == state_.end()) continue;
            serialize::OutputArchive entry;
            found->second->serialize(entry);
            state.write(name_of(params[i]), entry);
        }
        param_groups_[g].options().serialize(options);
        group.write("options", options);
        groups.write("param_groups/" + std::to_string(g), group);
    }
    archive.write("pytorch_version", c10::IValue("1.5.0"));
    archive.write("state", state);
    archive.write("param_groups", groups);
}

inline void Optimizer::load(serialize::InputArchive &archive)
{
    serialize::InputArchive state, groups;
    archive.read("state", state);
    archive.read("param_groups", groups);
    Tensor count;
    groups.read("param_groups/size", count);
    TORCH_CHECK(count.item<int64_t>() == static_cast<int64_t>(param_groups_.size()), "loaded state dict has a different number of parameter groups");
    for (size_t g = 0; g < param_groups_.size(); ++g) {
        const std::vector<Tensor> &params = param_groups_[g].params();
        serialize::InputArchive group, options;
        groups.read("param_groups/" + std::to_string(g), group);
        group.read("params/size", count);
        TORCH_CHECK(count.item<int64_t>() == static_cast<int64_t>(params.size()), "loaded state dict contains a parameter group that has a different size than the optimizer's parameter group");
        group.read("options", options);
        param_groups_[g].options().serialize(options);
        for (size_t i = 0; i < params.size(); ++i) {
            c10::IValue key;
            serialize::InputArchive entry;
            group.read("params/" + std::to_string(i), key);
            std::unique_ptr<OptimizerParamState> made = state.try_read(key.toStringRef(), entry) ? empty_state() : nullptr;
            if (!made) continue;
            made->serialize(entry);
            state_[params[i].get()] = std::move(made);
        }
    }
}
inline serialize::OutputArchive &operator<<(serialize::OutputArchive &archive, const Optimizer &optimizer) { return optimizer.save(archive), archive; }
inline serialize::InputArchive &operator>>(serialize::InputArchive &archive, Optimizer &optimizer) { return optimizer.load(archive), archive; }

/* ---- the optimizers ---- */

namespace detail {

template <class Options> std::unique_ptr<Options> checked(Options o)
{
    std::map<std::string, double> numbers;
    o.each([&](const std::string &name, const auto &value) {
        if constexpr (std::is_arithmetic_v<std::decay_t<decltype(value)>>) {
            double number = numbers[name] = static_cast<double>(value);
            TORCH_CHECK(number >= 0 || name == "dampening", "Invalid ", name == "lr" ? "learning rate" : (name == "eps" ? "epsilon" : name) + " value", ": ", number);
        } else if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::tuple<double, double>>) {
            auto [first, second] = value;
            TORCH_CHECK(first >= 0 && first < 1, "Invalid beta parameter at index 0: ", first);
            TORCH_CHECK(second >= 0 && second < 1, "Invalid beta parameter at index 1: ", second);
        }
    });
    TORCH_CHECK(numbers["nesterov"] == 0 || (numbers["momentum"] > 0 && numbers["dampening"] == 0), "Nesterov momentum requires a momentum and zero dampening");
    return std::make_unique<Options>(o);
}

} // namespace detail

/* Those that update one parameter after the other. */
template <class Options, class State> class OptimizerOf : public Optimizer {
public:
    explicit OptimizerOf(const std::vector<OptimizerParamGroup> &groups, Options defaults = {}) : Optimizer(groups, detail::checked(defaults)) {}
    explicit OptimizerOf(std::vector<Tensor> parameters, Options defaults = {}) : Optimizer(std::move(parameters), detail::checked(defaults)) {}

    Tensor step(LossClosure closure = nullptr) override
    {
        Tensor loss = closure ? loss_of(closure) : Tensor();
        NoGradGuard unrecorded;
        at::detail::Call scope;
        for (auto &group : param_groups_) {
            const Options &options = dynamic_cast<const Options &>(group.options());
            for (Tensor &x : group.params()) {
                Tensor grad = x.grad();
                if (!grad.defined()) continue;
                std::unique_ptr<OptimizerParamState> &state = state_[x.get()];
                if (!state) state = empty_state();
                update(x, std::move(grad), options, dynamic_cast<State &>(*state));
            }
        }
        return loss;
    }

protected:
    virtual void update(Tensor &x, Tensor grad, const Options &, State &) const = 0;
    std::unique_ptr<OptimizerParamState> empty_state() const override { return std::make_unique<State>(); }

    static void decay(Tensor &grad, const Tensor &x, double weight_decay)
    {
        if (weight_decay == 0) return;
        TORCH_CHECK(!grad.is_sparse(), "weight_decay option is not compatible with sparse gradients");
        grad = grad.add(x, weight_decay);
    }
};

struct SGDOptions : OptimizerCloneableOptions<SGDOptions> {
    SGDOptions(double lr = 1e-3) : lr_(lr) {}
    TORCH_ARG(double, lr);
    TORCH_ARG(double, momentum) = 0;
    TORCH_ARG(double, dampening) = 0;
    TORCH_ARG(double, weight_decay) = 0;
    TORCH_ARG(bool, nesterov) = false;

public:
    template <class F> void each(F &&f) { f("lr", lr_), f("momentum", momentum_), f("dampening", dampening_), f("weight_decay", weight_decay_), f("nesterov", nesterov_); }
};
struct SGDParamState : OptimizerCloneableParamState<SGDParamState> {
    TORCH_ARG(Tensor, momentum_buffer);

public:
    template <class F> void each(F &&f) { f("momentum_buffer", momentum_buffer_); }
};
struct SGD : OptimizerOf<SGDOptions, SGDParamState> {
    using OptimizerOf::OptimizerOf;

protected:
    void update(Tensor &x, Tensor d, const SGDOptions &o, SGDParamState &state) const override
    {
        decay(d, x, o.weight_decay());
        if (o.momentum() != 0) {
            Tensor &buffer = state.momentum_buffer();
            if (buffer.defined()) buffer.mul_(o.momentum()).add_(d, 1 - o.dampening());
            else buffer = d.clone();
            d = o.nesterov() ? d.add(buffer, o.momentum()) : buffer;
        }
        x.add_(d, -o.lr());
    }
};

template <bool Decoupled> struct AdamOptionsOf : OptimizerCloneableOptions<AdamOptionsOf<Decoupled>> {
    AdamOptionsOf(double lr = 1e-3) : lr_(lr) {}
    using Betas = std::tuple<double, double>;
    TORCH_ARG(double, lr);
    TORCH_ARG(Betas, betas) = std::make_tuple(0.9, 0.999);
    TORCH_ARG(double, eps) = 1e-8;
    TORCH_ARG(double, weight_decay) = Decoupled ? 1e-2 : 0;
    TORCH_ARG(bool, amsgrad) = false;

public:
    template <class F> void each(F &&f) { f("lr", lr_), f("betas", betas_), f("eps", eps_), f("weight_decay", weight_decay_), f("amsgrad", amsgrad_); }
};
using AdamOptions = AdamOptionsOf<false>;
using AdamWOptions = AdamOptionsOf<true>;
struct AdamParamState : OptimizerCloneableParamState<AdamParamState> {
    TORCH_ARG(int64_t, step) = 0;
    TORCH_ARG(Tensor, exp_avg);
    TORCH_ARG(Tensor, exp_avg_sq);
    TORCH_ARG(Tensor, max_exp_avg_sq);

public:
    template <class F> void each(F &&f) { f("step", step_), f("exp_avg", exp_avg_), f("exp_avg_sq", exp_avg_sq_), f("max_exp_avg_sq", max_exp_avg_sq_); }
};
using AdamWParamState = AdamParamState;
template <bool Decoupled> struct AdamOf : OptimizerOf<AdamOptionsOf<Decoupled>, AdamParamState> {
    using OptimizerOf<AdamOptionsOf<Decoupled>, AdamParamState>::OptimizerOf;

protected:
    void update(Tensor &x, Tensor grad, const AdamOptionsOf<Decoupled> &o, AdamParamState &state) const override
    {
        TORCH_CHECK(!grad.is_sparse(), "Adam does not support sparse gradients");
        auto [beta1, beta2] = o.betas();
        Tensor &m = state.exp_avg(), &v = state.exp_avg_sq(), &most = state.max_exp_avg_sq();
        if (!m.defined()) m = at::zeros_like(x), v = at::zeros_like(x);
        if (o.amsgrad() && !most.defined()) most = at::zeros_like(x);
        double step = static_cast<double>(++state.step());
        if (!Decoupled) this->decay(grad, x, o.weight_decay());
        else if (o.weight_decay() != 0) x.mul_(1 - o.lr() * o.weight_decay());
        m.mul_(beta1).add_(grad, 1 - beta1);
        v.mul_(beta2).addcmul_(grad, grad, 1 - beta2);
        if (o.amsgrad()) at::maximum_out(most, v, most);
        x.addcdiv_(m, ((o.amsgrad() ? most : v).sqrt() / std::sqrt(1 - std::pow(beta2, step))).add_(o.eps()), -o.lr() / (1 - std::pow(beta1, step)));
    }
};
struct Adam : AdamOf<false> {
    using AdamOf::AdamOf;
};
struct AdamW : AdamOf<true> {
    using AdamOf::AdamOf;
};

struct RMSpropOptions : OptimizerCloneableOptions<RMSpropOptions> {
    RMSpropOptions(double lr = 1e-2) : lr_(lr) {}
    TORCH_ARG(double, lr);
    TORCH_ARG(double, alpha) = 0.99;
    TORCH_ARG(double, eps) = 1e-8;
    TORCH_ARG(double, weight_decay) = 0;
    TORCH_ARG(double, momentum) = 0;
    TORCH_ARG(bool, centered) = false;

public:
    template <class F> void each(F &&f) { f("lr", lr_), f("alpha", alpha_), f("eps", eps_), f("weight_decay", weight_decay_), f("momentum", momentum_), f("centered", centered_); }
};
struct RMSpropParamState : OptimizerCloneableParamState<RMSpropParamState> {
    TORCH_ARG(int64_t, step) = 0;
    TORCH_ARG(Tensor, square_avg);
    TORCH_ARG(Tensor, momentum_buffer);
    TORCH_ARG(Tensor, grad_avg);

public:
    template <class F> void each(F &&f) { f("step", step_), f("square_avg", square_avg_), f("momentum_buffer", momentum_buffer_), f("grad_avg", grad_avg_); }
};
struct RMSprop : OptimizerOf<RMSpropOptions, RMSpropParamState> {
    using OptimizerOf::OptimizerOf;

protected:
    void update(Tensor &x, Tensor grad, const RMSpropOptions &o, RMSpropParamState &state) const override
    {
        TORCH_CHECK(!grad.is_sparse(), "RMSprop does not support sparse gradients");
        Tensor &square = state.square_avg(), &average = state.grad_avg(), &buffer = state.momentum_buffer();
        if (!square.defined()) square = at::zeros_like(x);
        ++state.step();
        decay(grad, x, o.weight_decay());
        square.mul_(o.alpha()).addcmul_(grad, grad, 1 - o.alpha());
        Tensor spread;
        if (o.centered()) {
            if (!average.defined()) average = at::zeros_like(x);
            average.mul_(o.alpha()).add_(grad, 1 - o.alpha());
            spread = square.addcmul(average, average, -1).sqrt_().add_(o.eps());
        } else {
            spread = square.sqrt().add_(o.eps());
        }
        if (o.momentum() > 0) {
            if (!buffer.defined()) buffer = at::zeros_like(x);
            buffer.mul_(o.momentum()).addcdiv_(grad, spread);
            x.add_(buffer, -o.lr());
        } else {
            x.addcdiv_(grad, spread, -o.lr());
        }
    }
};

struct AdagradOptions : OptimizerCloneableOptions<AdagradOptions> {
    AdagradOptions(double lr = 1e-2) : lr_(lr) {}
    TORCH_ARG(double, lr);
    TORCH_ARG(double, lr_decay) = 0;
    TORCH_ARG(double, weight_decay) = 0;
    TORCH_ARG(double, initial_accumulator_value) = 0;
    TORCH_ARG(double, eps) = 1e-10;

public:
    template <class F> void each(F &&f)
    {
        f("lr", lr_), f("lr_decay", lr_decay_), f("weight_decay", weight_decay_), f("initial_accumulator_value", initial_accumulator_value_), f("eps", eps_);
    }
};
struct AdagradParamState : OptimizerCloneableParamState<AdagradParamState> {
    TORCH_ARG(Tensor, sum);
    TORCH_ARG(int64_t, step) = 0;

public:
    template <class F> void each(F &&f) { f("sum", sum_), f("step", step_); }
};
struct Adagrad : OptimizerOf<AdagradOptions, AdagradParamState> {
    using OptimizerOf::OptimizerOf;

protected:
    void update(Tensor &x, Tensor grad, const AdagradOptions &o, AdagradParamState &state) const override
    {
        Tensor &sum = state.sum();
        if (!sum.defined()) sum = at::full_like(x, o.initial_accumulator_value());
        ++state.step();
        decay(grad, x, o.weight_decay());
        double rate = o.lr() / (1 + static_cast<double>(state.step() - 1) * o.lr_decay());
        if (grad.is_sparse()) {
            grad = grad.coalesce();
            auto with = [&](const Tensor &values) { return at::sparse_coo_tensor(grad.indices(), values, grad.sizes()); };
            sum.add_(with(grad.values().pow(2)));
            x.add_(with(grad.values() / sum.sparse_mask(grad).values().sqrt().add_(o.eps())), -rate);
        } else {
            sum.addcmul_(grad, grad);
            x.addcdiv_(grad, sum.sqrt().add_(o.eps()), -rate);
        }
    }
};

/* Every step_size calls of step() the rate of each group falls by gamma. */
class StepLR {
    Optimizer &optimizer;
    unsigned step_size, calls = 0;
    double gamma;

public:
    StepLR(Optimizer &o, unsigned every, double factor = 0.1) : optimizer(o), step_size(every), gamma(factor) {}
    void step()
    {
        if (++calls % step_size) return;
        for (auto &group : optimizer.param_groups()) group.options().set_lr(group.options().get_lr() * gamma);
    }
};

} // namespace torch::optim
#endif
