/* optim.h - optimizers, learning rates over time, clipping of gradients.
 *
 * An optimizer is made for a list of parameters and parked in the scope. Its step updates all of them in one
 * parallel pass, by the same fused operators that the Python package uses.
 *
 *     rush_optim *opt = rush_adamw(rush_parameters(net), .lr = 3e-4, .weight_decay = 0.01);
 *     ...
 *     rush_optim_lr_set(opt, rush_lr_cosine(3e-4, epoch, epochs, 0));
 *     rush_optim_step(opt);
 *
 * Options that are left out are PyTorch's defaults, so are all where NULL stands for them. A zero in such a call is a zero; in a
 * struct of one's own it is the default, unless `exact` is set.
 */
#ifndef RUSHLIGHT_OPTIM_H
#define RUSHLIGHT_OPTIM_H

#include <rushlight.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rush_optim rush_optim;

typedef struct rush_sgd_options {
    rush_exact exact RUSH_OTHERWISE(rush_exact::yes);
    double lr RUSH_OTHERWISE(RUSH_DEFAULT);
    double momentum RUSH_ZERO, dampening RUSH_ZERO, weight_decay RUSH_ZERO;
    bool nesterov RUSH_ZERO, maximize RUSH_ZERO;
} rush_sgd_options;
typedef struct rush_adam_options { /* also adamw, adamax, nadam, radam */
    rush_exact exact RUSH_OTHERWISE(rush_exact::yes);
    double lr RUSH_OTHERWISE(RUSH_DEFAULT), beta1 RUSH_OTHERWISE(RUSH_DEFAULT), beta2 RUSH_OTHERWISE(RUSH_DEFAULT), eps RUSH_OTHERWISE(RUSH_DEFAULT), weight_decay RUSH_OTHERWISE(RUSH_DEFAULT), momentum_decay RUSH_OTHERWISE(RUSH_DEFAULT);
    bool amsgrad RUSH_ZERO, maximize RUSH_ZERO, decoupled RUSH_ZERO;
} rush_adam_options;
typedef struct rush_rmsprop_options {
    rush_exact exact RUSH_OTHERWISE(rush_exact::yes);
    double lr RUSH_OTHERWISE(RUSH_DEFAULT), alpha RUSH_OTHERWISE(RUSH_DEFAULT), eps RUSH_OTHERWISE(RUSH_DEFAULT);
    double weight_decay RUSH_ZERO, momentum RUSH_ZERO;
    bool centered RUSH_ZERO, maximize RUSH_ZERO;
} rush_rmsprop_options;
typedef struct rush_adagrad_options {
    rush_exact exact RUSH_OTHERWISE(rush_exact::yes);
    double lr RUSH_OTHERWISE(RUSH_DEFAULT), eps RUSH_OTHERWISE(RUSH_DEFAULT);
    double lr_decay RUSH_ZERO, weight_decay RUSH_ZERO, initial RUSH_ZERO;
    bool maximize RUSH_ZERO;
} rush_adagrad_options;
typedef struct rush_adadelta_options {
    rush_exact exact RUSH_OTHERWISE(rush_exact::yes);
    double lr RUSH_OTHERWISE(RUSH_DEFAULT), rho RUSH_OTHERWISE(RUSH_DEFAULT), eps RUSH_OTHERWISE(RUSH_DEFAULT);
    double weight_decay RUSH_ZERO;
    bool maximize RUSH_ZERO;
} rush_adadelta_options;
typedef struct rush_rprop_options {
    rush_exact exact RUSH_OTHERWISE(rush_exact::yes);
    double lr RUSH_OTHERWISE(RUSH_DEFAULT), eta_minus RUSH_OTHERWISE(RUSH_DEFAULT), eta_plus RUSH_OTHERWISE(RUSH_DEFAULT), step_min RUSH_OTHERWISE(RUSH_DEFAULT), step_max RUSH_OTHERWISE(RUSH_DEFAULT);
    bool maximize RUSH_ZERO;
} rush_rprop_options;
typedef struct rush_asgd_options {
    rush_exact exact RUSH_OTHERWISE(rush_exact::yes);
    double lr RUSH_OTHERWISE(RUSH_DEFAULT), lambd RUSH_OTHERWISE(RUSH_DEFAULT), alpha RUSH_OTHERWISE(RUSH_DEFAULT), t0 RUSH_OTHERWISE(RUSH_DEFAULT);
    double weight_decay RUSH_ZERO;
    bool maximize RUSH_ZERO;
} rush_asgd_options;
typedef struct rush_lbfgs_options {
    rush_exact exact RUSH_OTHERWISE(rush_exact::yes);
    double lr RUSH_OTHERWISE(RUSH_DEFAULT), tolerance_grad RUSH_OTHERWISE(RUSH_DEFAULT), tolerance_change RUSH_OTHERWISE(RUSH_DEFAULT);
    int max_iter RUSH_ZERO, max_eval RUSH_ZERO, history RUSH_ZERO; /* 0: 20, 5 / 4 of max_iter, 100 */
    bool line_search RUSH_ZERO;
} rush_lbfgs_options;

RUSH_API rush_optim *rush_sgd_with(rush_tensors parameters, const rush_sgd_options *);
RUSH_API rush_optim *rush_adam_with(rush_tensors parameters, const rush_adam_options *);
RUSH_API rush_optim *rush_adamw_with(rush_tensors parameters, const rush_adam_options *);
RUSH_API rush_optim *rush_adamax_with(rush_tensors parameters, const rush_adam_options *);
RUSH_API rush_optim *rush_nadam_with(rush_tensors parameters, const rush_adam_options *);
RUSH_API rush_optim *rush_radam_with(rush_tensors parameters, const rush_adam_options *);
RUSH_API rush_optim *rush_rmsprop_with(rush_tensors parameters, const rush_rmsprop_options *);
RUSH_API rush_optim *rush_adagrad_with(rush_tensors parameters, const rush_adagrad_options *);
RUSH_API rush_optim *rush_adadelta_with(rush_tensors parameters, const rush_adadelta_options *);
RUSH_API rush_optim *rush_rprop_with(rush_tensors parameters, const rush_rprop_options *);
RUSH_API rush_optim *rush_asgd_with(rush_tensors parameters, const rush_asgd_options *);
RUSH_API rush_optim *rush_lbfgs_with(rush_tensors parameters, const rush_lbfgs_options *);

/* One step from the gradients that are there; parameters without one stay as they are. LBFGS wants the other. */
RUSH_API int rush_optim_step(rush_optim *);
/* loss_of clears nothing: it computes the loss, calls rush_backward() on it and returns it. Returns the first loss. */
RUSH_API double rush_optim_step_closure(rush_optim *, rush_tensor *(*loss_of)(void *arg), void *arg);
RUSH_API void rush_optim_zero_grad(rush_optim *);  /* gradients go, as set_to_none does */
RUSH_API double rush_optim_lr(const rush_optim *);
RUSH_API void rush_optim_lr_set(rush_optim *, double);
RUSH_API rush_optim *rush_optim_keep(rush_optim *);
RUSH_API void rush_optim_drop(rush_optim *);
/* What a later run needs to go on: "0.exp_avg", "0.step", ... Arrays and names live in the scope. */
RUSH_API rush_state rush_optim_state(rush_optim *);
RUSH_API int rush_optim_load_state(rush_optim *, rush_state);

#ifndef __cplusplus
#define rush_sgd(parameters, ...) RUSH_NAMED(rush_sgd_options, rush_sgd_with(parameters, &rush_options_), .lr = RUSH_DEFAULT, __VA_ARGS__)
#define RUSH_ADAM(make, parameters, ...) \
    RUSH_NAMED(rush_adam_options, make(parameters, &rush_options_), .lr = RUSH_DEFAULT, .beta1 = RUSH_DEFAULT, .beta2 = RUSH_DEFAULT, .eps = RUSH_DEFAULT, .weight_decay = RUSH_DEFAULT, .momentum_decay = RUSH_DEFAULT, __VA_ARGS__)
#define rush_adam(parameters, ...) RUSH_ADAM(rush_adam_with, parameters, __VA_ARGS__)
#define rush_adamw(parameters, ...) RUSH_ADAM(rush_adamw_with, parameters, __VA_ARGS__)
#define rush_adamax(parameters, ...) RUSH_ADAM(rush_adamax_with, parameters, __VA_ARGS__)
#define rush_nadam(parameters, ...) RUSH_ADAM(rush_nadam_with, parameters, __VA_ARGS__)
#define rush_radam(parameters, ...) RUSH_ADAM(rush_radam_with, parameters, __VA_ARGS__)
#define rush_rmsprop(parameters, ...) RUSH_NAMED(rush_rmsprop_options, rush_rmsprop_with(parameters, &rush_options_), .lr = RUSH_DEFAULT, .alpha = RUSH_DEFAULT, .eps = RUSH_DEFAULT, __VA_ARGS__)
#define rush_adagrad(parameters, ...) RUSH_NAMED(rush_adagrad_options, rush_adagrad_with(parameters, &rush_options_), .lr = RUSH_DEFAULT, .eps = RUSH_DEFAULT, __VA_ARGS__)
#define rush_adadelta(parameters, ...) RUSH_NAMED(rush_adadelta_options, rush_adadelta_with(parameters, &rush_options_), .lr = RUSH_DEFAULT, .rho = RUSH_DEFAULT, .eps = RUSH_DEFAULT, __VA_ARGS__)
#define rush_rprop(parameters, ...) RUSH_NAMED(rush_rprop_options, rush_rprop_with(parameters, &rush_options_), .lr = RUSH_DEFAULT, .eta_minus = RUSH_DEFAULT, .eta_plus = RUSH_DEFAULT, .step_min = RUSH_DEFAULT, .step_max = RUSH_DEFAULT, __VA_ARGS__)
#define rush_asgd(parameters, ...) RUSH_NAMED(rush_asgd_options, rush_asgd_with(parameters, &rush_options_), .lr = RUSH_DEFAULT, .lambd = RUSH_DEFAULT, .alpha = RUSH_DEFAULT, .t0 = RUSH_DEFAULT, __VA_ARGS__)
#define rush_lbfgs(parameters, ...) RUSH_NAMED(rush_lbfgs_options, rush_lbfgs_with(parameters, &rush_options_), .lr = RUSH_DEFAULT, .tolerance_grad = RUSH_DEFAULT, .tolerance_change = RUSH_DEFAULT, __VA_ARGS__)
#endif

/* ---- learning rates: of step t, counted from 0, for a base rate; PyTorch's schedules in closed form ---- */

RUSH_API double rush_lr_step(double base, int64_t t, int64_t size, double gamma);
RUSH_API double rush_lr_multistep(double base, int64_t t, rush_ints milestones, double gamma);
RUSH_API double rush_lr_exponential(double base, int64_t t, double gamma);
RUSH_API double rush_lr_constant(double base, int64_t t, double factor, int64_t total);
RUSH_API double rush_lr_linear(double base, int64_t t, double start, double end, int64_t total);
RUSH_API double rush_lr_polynomial(double base, int64_t t, int64_t total, double power);
RUSH_API double rush_lr_cosine(double base, int64_t t, int64_t total, double least);
RUSH_API double rush_lr_warm_restarts(double base, int64_t t, int64_t first, int64_t factor, double least);
RUSH_API double rush_lr_one_cycle(double most, int64_t t, int64_t total, double rising, double start_div, double end_div);
RUSH_API double rush_lr_cyclic(double base, double most, int64_t t, int64_t up, int64_t down);
/* Lowers the optimizer's rate by factor after `patience` calls without a lower loss. Start from {0}. */
typedef struct rush_plateau { double best; int64_t bad; bool begun; } rush_plateau;
RUSH_API void rush_lr_plateau(rush_plateau *, rush_optim *, double loss, double factor, int64_t patience, double least);

/* ---- gradients ---- */

RUSH_API double rush_clip_grad_norm(rush_tensors parameters, double max_norm, double p); /* the norm before; p 2, or INFINITY */
RUSH_API void rush_clip_grad_value(rush_tensors parameters, double most);

#ifdef __cplusplus
}
#endif

#ifdef __cplusplus
inline rush_optim *rush_sgd(rush_tensors parameters, const rush_sgd_options &options = {}) { return rush_sgd_with(parameters, &options); }
inline rush_optim *rush_adam(rush_tensors parameters, const rush_adam_options &options = {}) { return rush_adam_with(parameters, &options); }
inline rush_optim *rush_adamw(rush_tensors parameters, const rush_adam_options &options = {}) { return rush_adamw_with(parameters, &options); }
inline rush_optim *rush_adamax(rush_tensors parameters, const rush_adam_options &options = {}) { return rush_adamax_with(parameters, &options); }
inline rush_optim *rush_nadam(rush_tensors parameters, const rush_adam_options &options = {}) { return rush_nadam_with(parameters, &options); }
inline rush_optim *rush_radam(rush_tensors parameters, const rush_adam_options &options = {}) { return rush_radam_with(parameters, &options); }
inline rush_optim *rush_rmsprop(rush_tensors parameters, const rush_rmsprop_options &options = {}) { return rush_rmsprop_with(parameters, &options); }
inline rush_optim *rush_adagrad(rush_tensors parameters, const rush_adagrad_options &options = {}) { return rush_adagrad_with(parameters, &options); }
inline rush_optim *rush_adadelta(rush_tensors parameters, const rush_adadelta_options &options = {}) { return rush_adadelta_with(parameters, &options); }
inline rush_optim *rush_rprop(rush_tensors parameters, const rush_rprop_options &options = {}) { return rush_rprop_with(parameters, &options); }
inline rush_optim *rush_asgd(rush_tensors parameters, const rush_asgd_options &options = {}) { return rush_asgd_with(parameters, &options); }
inline rush_optim *rush_lbfgs(rush_tensors parameters, const rush_lbfgs_options &options = {}) { return rush_lbfgs_with(parameters, &options); }
#endif
#endif
