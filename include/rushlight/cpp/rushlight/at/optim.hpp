/* optim.hpp - torch::optim over rushlight/optim.h, which updates all parameters of a group in one pass.
 *
 * Options are looked at before each step: what a program changed since the last one counts from then on.
 */
#ifndef RUSHLIGHT_AT_OPTIM_HPP
#define RUSHLIGHT_AT_OPTIM_HPP

#include "serialize.hpp"
#include <rushlight/optim.h>

namespace torch::optim {

class OptimizerOptions {
public:
    virtual ~OptimizerOptions() = default;
    virtual std::unique_ptr<OptimizerOptions> clone() const = 0;
    virtual double get_lr() const = 0;
    virtual void set_lr(double lr) = 0;
    virtual void serialize(serialize::OutputArchive &) const {}
    virtual void serialize(serialize::InputArchive &) {}
};

/* Derived::each(f) calls f("lr", lr_) and so on for all that files have. */
template <class Derived> class OptimizerCloneableOptions : public OptimizerOptions {
    Derived &self() { return static_cast<Derived &>(*this); }
    const Derived &self() const { return static_cast<const Derived &>(*this); }

public:
    std::unique_ptr<OptimizerOptions> clone() const override { return std::make_unique<Derived>(self()); }
    double get_lr() const override { return self().lr(); }
    void set_lr(double lr) override { self().lr(lr); }
    void serialize(serialize::OutputArchive &archive) const override
    {
        const_cast<Derived &>(self()).each([&](const char *name, const auto &x) { archive.write(name, c10::IValue(x)); });
    }
    void serialize(serialize::InputArchive &archive) override
    {
        self().each([&](const char *name, auto &x) {
            c10::IValue read;
            if (!archive.try_read(name, read)) return;
            if constexpr (std::is_same_v<std::decay_t<decltype(x)>, std::tuple<double, double>>) x = {read.toTuple()->elements().at(0).toDouble(), read.toTuple()->elements().at(1).toDouble()};
            else x = read.to<std::decay_t<decltype(x)>>();
        });
    }
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
    std::unique_ptr<OptimizerOptions> defaults_;

    /* The library's optimizer of one group; of classes that programs derive, which step by themselves, there is none. */
    virtual rush_optim *make(rush_tensors, const OptimizerOptions &) const { return nullptr; }
    virtual bool same(const OptimizerOptions &, const OptimizerOptions &) const { return true; }

private:
    struct Running {
        rush_optim *its = nullptr;
        std::unique_ptr<OptimizerOptions> options;
        Running() = default;
        Running(Running &&other) noexcept : its(std::exchange(other.its, nullptr)), options(std::move(other.options)) {}
        ~Running() { rush_optim_drop(its); }
    };
    std::vector<Running> running;

    /* Other options than before: another optimizer that goes on from the state of that one. */
    rush_optim *current(size_t i)
    {
        running.resize(param_groups_.size());
        Running &r = running[i];
        OptimizerParamGroup &group = param_groups_[i];
        if (r.its && same(*r.options, group.options())) {
            rush_optim_lr_set(r.its, group.options().get_lr());
            return r.its;
        }
        at::detail::Call scope;
        rush_optim *made = rush_optim_keep(make({reinterpret_cast<rush_tensor **>(group.params().data()), group.params().size()}, group.options()));
        if (!made) {
            if (rush_error()) c10::detail::raise();
            TORCH_CHECK(false, "this optimizer has no step of its own");
        }
        rush_optim *was = std::exchange(r.its, made);
        r.options = group.options().clone();
        int failed = was ? rush_optim_load_state(made, rush_optim_state(was)) : 0;
        rush_optim_drop(was);
        c10::detail::check(failed);
        return made;
    }

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
    /* Without gradients; of a closure, which computes the loss and its gradients, the loss. */
    virtual Tensor step(LossClosure closure = nullptr)
    {
        Tensor loss;
        if (closure) loss = closure();
        for (size_t i = 0; i < param_groups_.size(); ++i) {
            if (param_groups_[i].params().empty()) continue;
            rush_optim *optim = current(i);
            at::detail::Call scope;
            c10::detail::check(rush_optim_step(optim));
        }
        return loss;
    }
    void zero_grad(bool set_to_none = true)
    {
        for (auto &x : parameters())
            if (set_to_none) c10::detail::check(rush_grad_set(x.get(), nullptr));
            else if (x.grad().defined()) x.grad().zero_();
    }
    double lr() const { return param_groups_.at(0).options().get_lr(); }
    void set_lr(double lr)
    {
        for (auto &group : param_groups_) group.options().set_lr(lr);
    }

    virtual void save(serialize::OutputArchive &archive) const;
    virtual void load(serialize::InputArchive &archive);
};

/* ---- files: the state by names that param_groups say again, in their order ---- */

inline void Optimizer::save(serialize::OutputArchive &archive) const
{
    serialize::OutputArchive state, groups;
    at::detail::Call scope;
    auto name_of = [](const Tensor &x) { return std::to_string(reinterpret_cast<uintptr_t>(x.get())); };
    auto number = [](size_t n) { return at::tensor(static_cast<int64_t>(n)); };
    groups.write("param_groups/size", number(param_groups_.size()));
    for (size_t g = 0; g < param_groups_.size(); ++g) {
        const std::vector<Tensor> &params = param_groups_[g].params();
        serialize::OutputArchive group, options;
        group.write("params/size", number(params.size()));
        for (size_t i = 0; i < params.size(); ++i) group.write("params/" + std::to_string(i), c10::IValue(name_of(params[i])));
        param_groups_[g].options().serialize(options);
        group.write("options", options);
        groups.write("param_groups/" + std::to_string(g), group);
        if (g >= running.size() || !running[g].its) continue;
        std::map<size_t, serialize::OutputArchive> entries;
        rush_state known = rush_optim_state(running[g].its);
        if (rush_error()) c10::detail::raise();
        for (int k = 0; k < known.n; ++k) {
            size_t of = 0, used = 0;
            std::string name = known.name[k];
            of = std::stoul(name, &used), name = name.substr(used + 1);
            Tensor x = Tensor::of(known.tensor[k]);
            if (name == "step") entries[of].write(name, c10::IValue(x.item<int64_t>()));
            else entries[of].write(name, c10::IValue(x));
        }
        for (auto &[i, entry] : entries) state.write(name_of(params.at(i)), entry);
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
        std::vector<std::string> names;
        std::vector<Tensor> tensors;
        for (size_t i = 0; i < params.size(); ++i) {
            c10::IValue key;
            serialize::InputArchive entry;
            group.read("params/" + std::to_string(i), key);
            if (!state.try_read(key.toStringRef(), entry)) continue;
            if (c10::IValue step; !entry.try_read("step", step)) { /* SGD's, which libtorch does not count */
                names.push_back(std::to_string(i) + ".step");
                tensors.push_back(at::tensor(1.f));
            }
            for (const std::string &name : entry.keys()) {
                c10::IValue x;
                entry.read(name, x);
                if (!x.isTensor() && !x.isInt()) continue;
                names.push_back(std::to_string(i) + "." + name);
                tensors.push_back(x.isTensor() ? x.toTensor() : at::tensor(static_cast<float>(x.toInt())));
            }
        }
        if (tensors.empty()) continue;
        std::vector<const char *> texts;
        for (const std::string &name : names) texts.push_back(name.c_str());
        rush_optim *optim = current(g);
        at::detail::Call scope;
        rush_state read = {};
        read.n = static_cast<int>(tensors.size());
        read.name = texts.data();
        read.tensor = reinterpret_cast<rush_tensor **>(tensors.data());
        c10::detail::check(rush_optim_load_state(optim, read));
    }
}
inline serialize::OutputArchive &operator<<(serialize::OutputArchive &archive, const Optimizer &optimizer) { return optimizer.save(archive), archive; }
inline serialize::InputArchive &operator>>(serialize::InputArchive &archive, Optimizer &optimizer) { return optimizer.load(archive), archive; }

/* ---- the optimizers ---- */

/* Options says how one is made, and equal() when two differ in nothing but the rate. */
template <class Options> class OptimizerOf : public Optimizer {
public:
    explicit OptimizerOf(const std::vector<OptimizerParamGroup> &groups, Options defaults = {}) : Optimizer(groups, checked(defaults)) {}
    explicit OptimizerOf(std::vector<Tensor> parameters, Options defaults = {}) : Optimizer(std::move(parameters), checked(defaults)) {}

protected:
    rush_optim *make(rush_tensors list, const OptimizerOptions &options) const override { return dynamic_cast<const Options &>(options).make(list); }
    bool same(const OptimizerOptions &a, const OptimizerOptions &b) const override
    {
        Options x = dynamic_cast<const Options &>(a), y = dynamic_cast<const Options &>(b);
        bool equal = true;
        x.lr(y.lr());
        x.each([&](const char *name, const auto &value) {
            y.each([&](const char *other, const auto &that) {
                if constexpr (std::is_same_v<decltype(value), decltype(that)>)
                    if (std::string_view(name) == other) equal &= value == that;
            });
        });
        return equal;
    }

private:
    static std::unique_ptr<Options> checked(Options o)
    {
        std::map<std::string, double> numbers;
        o.each([&](const std::string &name, const auto &value) {
            if constexpr (std::is_arithmetic_v<std::decay_t<decltype(value)>>) {
                double number = numbers[name] = static_cast<double>(value);
                TORCH_CHECK(number >= 0 || name == "dampening", "Invalid ", name == "lr" ? "learning rate" : (name == "eps" ? "epsilon" : name) + " value", ": ", number);
            } else {
                auto [first, second] = value;
                TORCH_CHECK(first >= 0 && first < 1, "Invalid beta parameter at index 0: ", first);
                TORCH_CHECK(second >= 0 && second < 1, "Invalid beta parameter at index 1: ", second);
            }
        });
        TORCH_CHECK(numbers["nesterov"] == 0 || (numbers["momentum"] > 0 && numbers["dampening"] == 0), "Nesterov momentum requires a momentum and zero dampening");
        return std::make_unique<Options>(o);
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
    rush_optim *make(rush_tensors list) const
    {
        rush_sgd_options o;
        o.lr = lr_, o.momentum = momentum_, o.dampening = dampening_, o.weight_decay = weight_decay_, o.nesterov = nesterov_;
        return rush_sgd_with(list, &o);
    }
};
struct SGD : OptimizerOf<SGDOptions> {
    using OptimizerOf::OptimizerOf;
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
    rush_optim *make(rush_tensors list) const
    {
        rush_adam_options o;
        o.lr = lr_, o.beta1 = std::get<0>(betas_), o.beta2 = std::get<1>(betas_), o.eps = eps_, o.weight_decay = weight_decay_, o.amsgrad = amsgrad_;
        return Decoupled ? rush_adamw_with(list, &o) : rush_adam_with(list, &o);
    }
};
using AdamOptions = AdamOptionsOf<false>;
using AdamWOptions = AdamOptionsOf<true>;
struct Adam : OptimizerOf<AdamOptions> {
    using OptimizerOf::OptimizerOf;
};
struct AdamW : OptimizerOf<AdamWOptions> {
    using OptimizerOf::OptimizerOf;
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
    rush_optim *make(rush_tensors list) const
    {
        rush_rmsprop_options o;
        o.lr = lr_, o.alpha = alpha_, o.eps = eps_, o.weight_decay = weight_decay_, o.momentum = momentum_, o.centered = centered_;
        return rush_rmsprop_with(list, &o);
    }
};
struct RMSprop : OptimizerOf<RMSpropOptions> {
    using OptimizerOf::OptimizerOf;
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
    rush_optim *make(rush_tensors list) const
    {
        rush_adagrad_options o;
        o.lr = lr_, o.eps = eps_, o.lr_decay = lr_decay_, o.weight_decay = weight_decay_, o.initial = initial_accumulator_value_;
        return rush_adagrad_with(list, &o);
    }
};
struct Adagrad : OptimizerOf<AdagradOptions> {
    using OptimizerOf::OptimizerOf;
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
