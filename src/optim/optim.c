/* optim.c - optimizer objects: parameters, their state, and a step by one fused operator.
 *
 * A kind says which operator, which state each parameter has and how the operator's options follow its lists.
 * State is made when a parameter has its first gradient, so frozen ones cost nothing.
 */
#include "optim/optim.h"
#include "base/buried.h"
#include "nn/module.h"

#include <math.h>
#include <stdio.h>

static bool given(const rush_optim *o) { return rush_lives(o, "an optimizer"); }

static void give_up(void *object)
{
    rush_optim *o = object;
    if (atomic_fetch_sub(&o->refs, 1) != 1) return;
    for (int i = 0; i < o->n; i++) {
        rush_drop(o->entry[i].parameter);
        rush_drop(o->entry[i].step);
        for (int k = 0; k < RUSH_OPTIM_STATES; k++) rush_drop(o->entry[i].state[k]);
    }
    if (o->lbfgs) rush_lbfgs_free(o->lbfgs);
    rush_free(o->entry);
    rush_bury_handle(o, sizeof *o);
}

rush_optim *rush_optim_keep(rush_optim *o)
{
    if (!o || !given(o)) return NULL;
    atomic_fetch_add(&o->refs, 1);
    return o;
}

void rush_optim_drop(rush_optim *o)
{
    if (o && given(o)) give_up(o);
}

rush_optim *rush_optim_new(const rush_optim_kind *kind, rush_tensors parameters)
{
    if (rush_failed()) return NULL;
    RUSH_CHECK_NULL(parameters.n && parameters.data, RUSH_VALUE_ERROR, "optimizer got an empty parameter list");
    RUSH_CHECK_NULL(parameters.n < INT32_MAX, RUSH_VALUE_ERROR, "an optimizer of %zu parameters", parameters.n);
    for (size_t i = 0; i < parameters.n; i++) {
        const rush_tensor *p = parameters.data[i];
        if (!rush_tensor_given(p)) return NULL;
        RUSH_CHECK_NULL(rush_dtypes[p->dtype].category == 2, RUSH_TYPE_ERROR, "optimizers change floating tensors");
    }
    rush_optim *o = rush_calloc(1, sizeof *o);
    if (!o) return NULL;
    o->end = give_up;
    o->kind = kind;
    atomic_init(&o->refs, 1);
    if (!(o->entry = rush_calloc(parameters.n, sizeof *o->entry))) return give_up(o), NULL;
    for (size_t i = 0; i < parameters.n; i++) o->entry[o->n++].parameter = rush_keep(parameters.data[i]);
    return rush_park_object(o);
}

/* ---- a step ---- */

static rush_tensor *filled_like(const rush_tensor *like, double value)
{
    rush_tensor *t = rush_tensor_new_like(like, like->dtype, like->device, RUSH_PRESERVE);
    return rush_init_constant(t, value);
}

static rush_tensor *number(double value)
{
    return rush_tensor_of_number_typed(rush_v_float(value), RUSH_F32);
}

int rush_optim_begin(rush_optim *o, rush_optim_entry *e)
{
    if (e->begun) return 0;
    for (int k = 0; k < RUSH_OPTIM_STATES && o->kind->state[k].name; k++) {
        const rush_optim_state_kind *s = &o->kind->state[k];
        if (!o->uses[k] || e->state[k]) continue;
        double start = o->start[k];
        rush_tensor *t = s->number ? number(start) : filled_like(e->parameter, start);
        if (!t) return -1;
        e->state[k] = rush_keep(t);
    }
    if (!e->step) {
        rush_tensor *t = number(0);
        if (!t) return -1;
        e->step = rush_keep(t);
    }
    e->begun = true;
    return 0;
}

/* The parameters that have a gradient and are `begun` or not (sgd's first step makes its buffers), as the operator's lists. */
static int lists(rush_optim *o, rush_value *args, bool first, bool by_first)
{
    size_t room = sizeof(rush_tensor *) * (size_t)o->n;
    rush_tensor **p = rush_scope_alloc(room), **g = rush_scope_alloc(room), **steps = rush_scope_alloc(room), **state[RUSH_OPTIM_STATES];
    for (int k = 0; k < RUSH_OPTIM_STATES; k++)
        if (!(state[k] = rush_scope_alloc(room))) return -1;
    if (!p || !g || !steps) return -1;
    int n = 0;
    for (int i = 0; i < o->n; i++) {
        rush_optim_entry *e = &o->entry[i];
        rush_tensor *grad = rush_grad(e->parameter);
        if (!grad || (by_first && (first ? e->begun : e->fresh))) {
            e->fresh = false;
            continue;
        }
        e->fresh = by_first && first;
        if (rush_optim_begin(o, e)) return -1;
        ++*(float *)rush_ptr(e->step);
        p[n] = e->parameter;
        g[n] = grad;
        steps[n] = e->step;
        for (int k = 0; k < RUSH_OPTIM_STATES; k++) state[k][n] = e->state[k];
        n++;
    }
    int at = 0;
    args[at++] = rush_v_tensors(p, (size_t)n);
    args[at++] = rush_v_tensors(g, (size_t)n);
    for (int k = 0; k < RUSH_OPTIM_STATES && o->kind->state[k].name; k++) args[at++] = rush_v_tensors(state[k], o->uses[k] ? (size_t)n : 0);
    if (o->kind->steps) args[at++] = rush_v_tensors(steps, (size_t)n);
    return n ? at : 0;
}

static int step_of(rush_optim *o, bool first, bool by_first)
{
    rush_value args[32], none[1];
    int at = lists(o, args, first, by_first);
    if (at <= 0) return at;
    const rush_op *op = rush_op_find(o->kind->op);
    RUSH_CHECK(op, RUSH_NOT_IMPLEMENTED, "there is no operation %s", o->kind->op);
    /* options by name: the schema's order is the operator's affair */
    for (int i = at; i < op->nargs; i++) {
        args[i] = op->args[i].has_default ? op->args[i].def : RUSH_NONE;
        for (int k = 0; k < o->noptions; k++) {
            if (strcmp(op->args[i].name, o->option[k].name)) continue;
            args[i] = op->args[i].type == RUSH_A_BOOL ? rush_v_bool(o->option[k].value != 0) : rush_v_float(o->option[k].value);
        }
        if (!strcmp(op->args[i].name, "lr")) args[i] = rush_v_float(o->lr);
        if (!strcmp(op->args[i].name, "is_first_step")) args[i] = rush_v_bool(first);
    }
    return rush_call(op, args, none);
}

int rush_optim_step(rush_optim *o)
{
    if (rush_failed()) return -1;
    if (!given(o)) return -1;
    RUSH_CHECK(!o->lbfgs, RUSH_RUNTIME_ERROR, "LBFGS computes the loss several times a step: use rush_optim_step_closure()");
    size_t mark = rush_scope_open();
    bool grad = rush_grad_enabled_set(false);
    /* sgd's buffers start as the first gradient: parameters that come late have their first step later */
    int failed = o->kind->first_apart ? step_of(o, true, true) || step_of(o, false, true) : step_of(o, false, false);
    rush_grad_enabled_set(grad);
    rush_scope_close(mark);
    return failed ? -1 : 0;
}

double rush_optim_step_closure(rush_optim *o, rush_tensor *(*loss_of)(void *), void *arg)
{
    if (rush_failed() || !given(o) || (!loss_of && rush_fail(RUSH_TYPE_ERROR, "a step needs a function"))) return NAN;
    if (o->lbfgs) return rush_lbfgs_step(o, loss_of, arg);
    rush_tensor *loss = loss_of(arg);
    double value = loss ? rush_item(loss) : NAN;
    return rush_optim_step(o) ? NAN : value;
}


void rush_optim_zero_grad(rush_optim *o)
{
    if (!given(o)) return;
    for (int i = 0; i < o->n; i++) rush_grad_set(o->entry[i].parameter, NULL);
}

double rush_optim_lr(const rush_optim *o) { return given(o) ? o->lr : NAN; }

void rush_optim_lr_set(rush_optim *o, double lr)
{
    if (given(o)) o->lr = lr;
}

/* ---- state ---- */

rush_state rush_optim_state(rush_optim *o)
{
    rush_state s = {0, NULL, NULL};
    if (!given(o)) return (rush_state){.n = -1};
    size_t most = (size_t)o->n * (RUSH_OPTIM_STATES + 1);
    s.name = rush_scope_alloc(most * sizeof *s.name);
    s.tensor = rush_scope_alloc(most * sizeof *s.tensor);
    if (!s.name || !s.tensor) return (rush_state){.n = -1};
    for (int i = 0; i < o->n; i++)
        for (int k = -1; k < RUSH_OPTIM_STATES; k++) {
            rush_tensor *t = k < 0 ? o->entry[i].step : o->entry[i].state[k];
            char *name = t ? rush_scope_alloc(64) : NULL;
            if (!t) continue;
            if (!name) return (rush_state){.n = -1};
            snprintf(name, 64, "%d.%s", i, k < 0 ? "step" : o->kind->state[k].name);
            s.name[s.n] = name;
            s.tensor[s.n++] = t;
        }
    return s;
}

int rush_optim_load_state(rush_optim *o, rush_state from)
{
    if (!given(o) || !rush_state_given(from)) return -1;
    int used = 0;
    for (int i = 0; i < o->n; i++) {
        rush_optim_entry *e = &o->entry[i];
        char name[64];
        snprintf(name, sizeof name, "%d.step", i);
        if (!rush_state_find(from, name)) continue;
        if (rush_optim_begin(o, e)) return -1;
        ++used;
        for (int k = -1; k < RUSH_OPTIM_STATES; k++) {
            rush_tensor *to = k < 0 ? e->step : e->state[k];
            if (!to) continue;
            snprintf(name, sizeof name, "%d.%s", i, k < 0 ? "step" : o->kind->state[k].name);
            rush_tensor *t = rush_state_find(from, name);
            RUSH_CHECK(t && rush_same_sizes(t, to), RUSH_RUNTIME_ERROR, "the optimizer's state has no '%s' of size %s", name, rush_shape_of(to));
            if (rush_copy_into(to, t)) return -1;
        }
    }
    RUSH_CHECK(used || !from.n, RUSH_RUNTIME_ERROR, "the state holds nothing of this optimizer's %d parameters: '%s'", o->n, from.n ? from.name[0] : "");
    return 0;
}

/* ---- the kinds ---- */

static void option(rush_optim *o, const char *name, double value)
{
    static const char *const at_least_0[] = {"momentum", "weight_decay", "eps", "alpha", "rho", "lr_decay", "momentum_decay", "initial_accumulator_value"};
    for (size_t k = 0; k < RUSH_COUNT(at_least_0); k++)
        if (!(value >= 0) && !strcmp(name, at_least_0[k])) rush_fail(RUSH_VALUE_ERROR, "Invalid %s value: %g", strcmp(name, "eps") ? name : "epsilon", value);
    if (o && o->noptions < RUSH_OPTIM_OPTIONS) o->option[o->noptions++] = (rush_optim_option){name, value};
}

static rush_optim *made(rush_optim *o) { return rush_failed() ? NULL : o; }

#define SAME "maximize! foreach- differentiable~"
#define ADAM "lr betas=beta1,beta2 eps weight_decay "
#define MOMENTS {"exp_avg"}, {"exp_avg_sq"}
static const rush_optim_kind sgd = {"_fused_sgd_", {{"momentum_buffer", .optional = true}}, false, true,
                                    "lr momentum dampening weight_decay nesterov! " SAME " fused-"};
static const rush_optim_kind adam = {"_fused_adam_", {MOMENTS, {"max_exp_avg_sq", .optional = true}}, true, false,
                                     ADAM "amsgrad! maximize! foreach- capturable~ differentiable~ fused- decoupled_weight_decay!"};
static const rush_optim_kind adamw = {"_fused_adamw_", {MOMENTS, {"max_exp_avg_sq", .optional = true}}, true, false,
                                      ADAM "amsgrad! maximize! foreach- capturable~ differentiable~ fused- decoupled_weight_decay+"};
static const rush_optim_kind adamax = {"_fused_adamax_", {{"exp_avg"}, {"exp_inf"}}, true, false, ADAM "foreach- maximize! differentiable~ capturable~"};
static const rush_optim_kind nadam = {"_fused_nadam_", {MOMENTS, {"mu_product", true}}, true, false,
                                      ADAM "momentum_decay decoupled_weight_decay! maximize! foreach- capturable~ differentiable~"};
static const rush_optim_kind radam = {"_fused_radam_", {MOMENTS}, true, false, ADAM "maximize! foreach- capturable~ decoupled_weight_decay! differentiable~"};
static const rush_optim_kind rmsprop = {"_fused_rmsprop_", {{"square_avg"}, {"grad_avg", .optional = true}, {"momentum_buffer", .optional = true}}, false, false,
                                        "lr momentum alpha eps centered! weight_decay capturable~ foreach- maximize! differentiable~"};
static const rush_optim_kind adagrad = {"_fused_adagrad_", {{"sum"}}, true, false, "lr lr_decay eps weight_decay initial_accumulator_value foreach- maximize! differentiable~ fused-"};
static const rush_optim_kind adadelta = {"_fused_adadelta_", {{"square_avg"}, {"acc_delta"}}, false, false,
                                         "lr rho eps weight_decay maximize! capturable~ foreach- differentiable~"};
static const rush_optim_kind rprop = {"_fused_rprop_", {{"prev"}, {"step_size"}}, false, false,
                                      "lr etas=etaminus,etaplus step_sizes=step_size_min,step_size_max foreach- maximize! differentiable~ capturable~"};
static const rush_optim_kind asgd = {"_fused_asgd_", {{"ax"}, {"mu", true}, {"eta", true}}, true, false,
                                     "lr lambd alpha t0 weight_decay foreach- maximize! differentiable~ capturable~"};

/* All states in use unless told otherwise. */
static rush_optim *make(const rush_optim_kind *kind, rush_tensors p, double lr)
{
    RUSH_CHECK_NULL(lr >= 0, RUSH_VALUE_ERROR, "Invalid learning rate: %g", lr);
    rush_optim *o = rush_optim_new(kind, p);
    if (!o) return NULL;
    o->lr = lr;
    for (int k = 0; k < RUSH_OPTIM_STATES; k++) o->uses[k] = kind->state[k].name != NULL;
    return o;
}

rush_optim *rush_sgd_with(rush_tensors p, const rush_sgd_options *s)
{
    s = RUSH_OPTIONS(s);
    RUSH_CHECK_NULL(!s->nesterov || (s->momentum > 0 && s->dampening == 0), RUSH_VALUE_ERROR,
                    "Nesterov momentum requires a momentum and zero dampening");
    rush_optim *o = make(&sgd, p, RUSH_OPTION(s, lr, 1e-3));
    if (o) o->uses[0] = s->momentum != 0;
    option(o, "weight_decay", s->weight_decay);
    option(o, "momentum", s->momentum);
    option(o, "dampening", s->dampening);
    option(o, "nesterov", s->nesterov);
    option(o, "maximize", s->maximize);
    return made(o);
}

static rush_optim *adam_like(const rush_optim_kind *kind, rush_tensors p, const rush_adam_options *s, double lr, double decay)
{
    s = RUSH_OPTIONS(s);
    double b1 = RUSH_OPTION(s, beta1, 0.9), b2 = RUSH_OPTION(s, beta2, 0.999);
    RUSH_CHECK_NULL(b1 >= 0 && b1 < 1 && b2 >= 0 && b2 < 1, RUSH_VALUE_ERROR, "betas must lie in [0, 1), got %g and %g", b1, b2);
    rush_optim *o = make(kind, p, RUSH_OPTION(s, lr, lr));
    option(o, "beta1", b1);
    option(o, "beta2", b2);
    option(o, "eps", RUSH_OPTION(s, eps, 1e-8));
    option(o, "weight_decay", RUSH_OPTION(s, weight_decay, decay));
    option(o, "amsgrad", s->amsgrad);
    option(o, "maximize", s->maximize);
    option(o, "decoupled_weight_decay", s->decoupled);
    option(o, "momentum_decay", RUSH_OPTION(s, momentum_decay, 4e-3));
    if (o && (kind == &adam || kind == &adamw)) o->uses[2] = s->amsgrad;
    if (o && kind == &nadam) o->start[2] = 1;
    return made(o);
}

rush_optim *rush_adam_with(rush_tensors p, const rush_adam_options *s) { return adam_like(&adam, p, s, 1e-3, 0); }
rush_optim *rush_adamw_with(rush_tensors p, const rush_adam_options *s) { return adam_like(&adamw, p, s, 1e-3, 1e-2); }
rush_optim *rush_adamax_with(rush_tensors p, const rush_adam_options *s) { return adam_like(&adamax, p, s, 2e-3, 0); }
rush_optim *rush_nadam_with(rush_tensors p, const rush_adam_options *s) { return adam_like(&nadam, p, s, 2e-3, 0); }
rush_optim *rush_radam_with(rush_tensors p, const rush_adam_options *s) { return adam_like(&radam, p, s, 1e-3, 0); }

rush_optim *rush_rmsprop_with(rush_tensors p, const rush_rmsprop_options *s)
{
    s = RUSH_OPTIONS(s);
    rush_optim *o = make(&rmsprop, p, RUSH_OPTION(s, lr, 1e-2));
    if (o) {
        o->uses[1] = s->centered;
        o->uses[2] = s->momentum > 0;
    }
    option(o, "alpha", RUSH_OPTION(s, alpha, 0.99));
    option(o, "eps", RUSH_OPTION(s, eps, 1e-8));
    option(o, "weight_decay", s->weight_decay);
    option(o, "momentum", s->momentum);
    option(o, "centered", s->centered);
    option(o, "maximize", s->maximize);
    return made(o);
}

rush_optim *rush_adagrad_with(rush_tensors p, const rush_adagrad_options *s)
{
    s = RUSH_OPTIONS(s);
    rush_optim *o = make(&adagrad, p, RUSH_OPTION(s, lr, 1e-2));
    if (o) o->start[0] = s->initial;
    option(o, "lr_decay", s->lr_decay);
    option(o, "initial_accumulator_value", s->initial);
    option(o, "weight_decay", s->weight_decay);
    option(o, "eps", RUSH_OPTION(s, eps, 1e-10));
    option(o, "maximize", s->maximize);
    return made(o);
}

rush_optim *rush_adadelta_with(rush_tensors p, const rush_adadelta_options *s)
{
    s = RUSH_OPTIONS(s);
    rush_optim *o = make(&adadelta, p, RUSH_OPTION(s, lr, 1));
    option(o, "rho", RUSH_OPTION(s, rho, 0.9));
    option(o, "eps", RUSH_OPTION(s, eps, 1e-6));
    option(o, "weight_decay", s->weight_decay);
    option(o, "maximize", s->maximize);
    return made(o);
}

rush_optim *rush_rprop_with(rush_tensors p, const rush_rprop_options *s)
{
    s = RUSH_OPTIONS(s);
    double less = RUSH_OPTION(s, eta_minus, 0.5), more = RUSH_OPTION(s, eta_plus, 1.2);
    RUSH_CHECK_NULL(less > 0 && less < 1 && more > 1, RUSH_VALUE_ERROR, "Invalid eta values: %g, %g", less, more);
    rush_optim *o = make(&rprop, p, RUSH_OPTION(s, lr, 1e-2));
    if (o) o->start[1] = o->lr;
    option(o, "step_size_min", RUSH_OPTION(s, step_min, 1e-6));
    option(o, "step_size_max", RUSH_OPTION(s, step_max, 50));
    option(o, "etaminus", less);
    option(o, "etaplus", more);
    option(o, "maximize", s->maximize);
    return made(o);
}

rush_optim *rush_asgd_with(rush_tensors p, const rush_asgd_options *s)
{
    s = RUSH_OPTIONS(s);
    rush_optim *o = make(&asgd, p, RUSH_OPTION(s, lr, 1e-2));
    if (o) {
        o->start[1] = 1;
        o->start[2] = o->lr;
    }
    option(o, "lambd", RUSH_OPTION(s, lambd, 1e-4));
    option(o, "t0", RUSH_OPTION(s, t0, 1e6));
    option(o, "alpha", RUSH_OPTION(s, alpha, 0.75));
    option(o, "weight_decay", s->weight_decay);
    option(o, "maximize", s->maximize);
    return made(o);
}

/* ---- clipping ---- */

static int check_parameters(rush_tensors p)
{
    if (rush_failed()) return -1;
    RUSH_CHECK(p.data || !p.n, RUSH_TYPE_ERROR, "there are no parameters (NULL)");
    for (size_t i = 0; i < p.n; i++)
        if (!rush_tensor_given(p.data[i])) return -1;
    return 0;
}

double rush_clip_grad_norm(rush_tensors parameters, double max_norm, double p)
{
    if (check_parameters(parameters)) return NAN;
    size_t mark = rush_scope_open();
    bool grad = rush_grad_enabled_set(false);
    double norm = 0;
    for (size_t i = 0; i < parameters.n; i++) {
        rush_tensor *g = rush_grad(parameters.data[i]);
        rush_tensor *one = g ? T("linalg_vector_norm", V(g), V(p)) : NULL;
        if (!g) continue;
        double x = one ? rush_item(one) : NAN;
        norm = isinf(p) ? (x > norm || x != x ? x : norm) : norm + pow(x, p);
    }
    if (!isinf(p)) norm = pow(norm, 1 / p);
    double by = max_norm / (norm + 1e-6);
    for (size_t i = 0; i < parameters.n && by < 1; i++) {
        rush_tensor *g = rush_grad(parameters.data[i]);
        if (g && !T_INPLACE("mul.Tensor", V(g), V(by))) break;
    }
    rush_grad_enabled_set(grad);
    rush_scope_close(mark);
    return rush_failed() ? NAN : norm;
}

void rush_clip_grad_value(rush_tensors parameters, double most)
{
    if (check_parameters(parameters)) return;
    bool grad = rush_grad_enabled_set(false);
    size_t mark = rush_scope_open();
    for (size_t i = 0; i < parameters.n; i++) {
        rush_tensor *g = rush_grad(parameters.data[i]);
        if (g && !T_INPLACE("clamp", V(g), V(-most), V(most))) break;
    }
    rush_scope_close(mark);
    rush_grad_enabled_set(grad);
}
