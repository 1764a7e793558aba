/* optim.hpp - torch::optim over rushlight/optim.h, which updates all parameters in one pass. */
#ifndef RUSHLIGHT_AT_OPTIM_HPP
#define RUSHLIGHT_AT_OPTIM_HPP

#include "nn.hpp"
#include <rushlight/optim.h>

namespace torch::optim {

class Optimizer {
    std::vector<Tensor> list;
    rush_optim *its = nullptr;

protected:
    template <class Options> Optimizer(std::vector<Tensor> parameters, rush_optim *(*make)(rush_tensors, const Options *), const Options &options) : list(std::move(parameters))
    {
        at::detail::Call scope;
        TORCH_CHECK(!list.empty(), "optimizer got an empty parameter list");
        its = rush_optim_keep(make({reinterpret_cast<rush_tensor **>(list.data()), list.size()}, &options));
        if (!its) c10::detail::raise();
    }

public:
    Optimizer(const Optimizer &) = delete;
    Optimizer &operator=(const Optimizer &) = delete;
    virtual ~Optimizer() { rush_optim_drop(its); }
    using LossClosure = std::function<Tensor()>;
    /* Without gradients; of a closure, which computes the loss and its gradients, the loss. */
    virtual Tensor step(LossClosure closure = nullptr)
    {
        Tensor loss;
        if (closure) loss = closure();
        at::detail::Call scope;
        c10::detail::check(rush_optim_step(its));
        return loss;
    }
    void zero_grad(bool set_to_none = true)
    {
        if (set_to_none) return rush_optim_zero_grad(its);
        for (auto &x : list)
            if (x.grad().defined()) x.grad().zero_();
    }
    const std::vector<Tensor> &parameters() const { return list; }
    double lr() const { return rush_optim_lr(its); }
    void set_lr(double lr) { rush_optim_lr_set(its, lr); }
    rush_optim *get() const { return its; }
};

struct SGDOptions {
    SGDOptions(double lr = 1e-3) : lr_(lr) {}
    TORCH_ARG(double, lr);
    TORCH_ARG(double, momentum) = 0;
    TORCH_ARG(double, dampening) = 0;
    TORCH_ARG(double, weight_decay) = 0;
    TORCH_ARG(bool, nesterov) = false;

public:
    rush_sgd_options plain() const
    {
        rush_sgd_options o;
        o.lr = lr_, o.momentum = momentum_, o.dampening = dampening_, o.weight_decay = weight_decay_, o.nesterov = nesterov_;
        return o;
    }
};
struct SGD : Optimizer {
    explicit SGD(std::vector<Tensor> parameters, const SGDOptions &o = {}) : Optimizer(std::move(parameters), rush_sgd_with, o.plain()) {}
};

template <bool Decoupled> struct AdamOptionsOf {
    AdamOptionsOf(double lr = 1e-3) : lr_(lr) {}
    using Betas = std::tuple<double, double>;
    TORCH_ARG(double, lr);
    TORCH_ARG(Betas, betas) = std::make_tuple(0.9, 0.999);
    TORCH_ARG(double, eps) = 1e-8;
    TORCH_ARG(double, weight_decay) = Decoupled ? 1e-2 : 0;
    TORCH_ARG(bool, amsgrad) = false;

public:
    rush_adam_options plain() const
    {
        rush_adam_options o;
        o.lr = lr_, o.beta1 = std::get<0>(betas_), o.beta2 = std::get<1>(betas_), o.eps = eps_, o.weight_decay = weight_decay_, o.amsgrad = amsgrad_;
        return o;
    }
};
using AdamOptions = AdamOptionsOf<false>;
using AdamWOptions = AdamOptionsOf<true>;
struct Adam : Optimizer {
    explicit Adam(std::vector<Tensor> parameters, const AdamOptions &o = {}) : Optimizer(std::move(parameters), rush_adam_with, o.plain()) {}
};
struct AdamW : Optimizer {
    explicit AdamW(std::vector<Tensor> parameters, const AdamWOptions &o = {}) : Optimizer(std::move(parameters), rush_adamw_with, o.plain()) {}
};

struct RMSpropOptions {
    RMSpropOptions(double lr = 1e-2) : lr_(lr) {}
    TORCH_ARG(double, lr);
    TORCH_ARG(double, alpha) = 0.99;
    TORCH_ARG(double, eps) = 1e-8;
    TORCH_ARG(double, weight_decay) = 0;
    TORCH_ARG(double, momentum) = 0;
    TORCH_ARG(bool, centered) = false;

public:
    rush_rmsprop_options plain() const
    {
        rush_rmsprop_options o;
        o.lr = lr_, o.alpha = alpha_, o.eps = eps_, o.weight_decay = weight_decay_, o.momentum = momentum_, o.centered = centered_;
        return o;
    }
};
struct RMSprop : Optimizer {
    explicit RMSprop(std::vector<Tensor> parameters, const RMSpropOptions &o = {}) : Optimizer(std::move(parameters), rush_rmsprop_with, o.plain()) {}
};

struct AdagradOptions {
    AdagradOptions(double lr = 1e-2) : lr_(lr) {}
    TORCH_ARG(double, lr);
    TORCH_ARG(double, lr_decay) = 0;
    TORCH_ARG(double, weight_decay) = 0;
    TORCH_ARG(double, initial_accumulator_value) = 0;
    TORCH_ARG(double, eps) = 1e-10;

public:
    rush_adagrad_options plain() const
    {
        rush_adagrad_options o;
        o.lr = lr_, o.eps = eps_, o.lr_decay = lr_decay_, o.weight_decay = weight_decay_, o.initial = initial_accumulator_value_;
        return o;
    }
};
struct Adagrad : Optimizer {
    explicit Adagrad(std::vector<Tensor> parameters, const AdagradOptions &o = {}) : Optimizer(std::move(parameters), rush_adagrad_with, o.plain()) {}
};

} // namespace torch::optim
#endif
