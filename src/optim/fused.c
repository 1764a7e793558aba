/* fused.c - operators that do an optimizer's whole step: all parameters, gradients and state in one parallel pass.
 *
 * Tensors whose elements lie alike in memory are laid end to end in one list of jobs, which the threads share by
 * elements, so that many small parameters cost as little as one large one. Tensors that lie differently are
 * copied to contiguous ones and back. Half types are computed in float, a block at a time.
 */
#include "kernels/cpu/optim.h"
#include "op/op.h"
#include "op/tables.h"
#include "ops/geometry.h"

#include <math.h>

enum { PARTS = RUSH_STEP_PARTS };
typedef rush_step_job job;
typedef rush_step_work work;

static void run_half(const work *w, const job *j, int64_t at, int64_t n)
{
    enum { BLOCK = 512 };
    float room[PARTS][BLOCK];
    for (int64_t done = 0; done < n; done += BLOCK) {
        int64_t k = RUSH_MIN(n - done, (int64_t)BLOCK);
        void *p[PARTS] = {NULL};
        for (int i = 0; i < w->parts; i++) {
            if (!j->p[i]) continue;
            rush_convert_many(room[i], RUSH_F32, 4, (char *)j->p[i] + 2 * (at + done), j->dtype, 2, k);
            p[i] = room[i];
        }
        rush_k_optim->f32[w->kind](p, k, &j->step);
        for (int i = 0; i < w->parts; i++)
            if (j->p[i] && w->written >> i & 1) rush_convert_many((char *)j->p[i] + 2 * (at + done), j->dtype, 2, room[i], RUSH_F32, 4, k);
    }
}

static void piece(void *arg, int64_t begin, int64_t end)
{
    const work *w = arg;
    int low = 0, high = w->n; /* the last job that begins at or before `begin` */
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (w->jobs[middle].begin <= begin) low = middle;
        else high = middle;
    }
    for (const job *j = w->jobs + low; begin < end; j++) {
        int64_t stop = RUSH_MIN(j[1].begin, end), at = begin - j->begin, n = stop - begin;
        if (n <= 0) continue;
        begin = stop;
        if (j->dtype == RUSH_F16 || j->dtype == RUSH_BF16) {
            run_half(w, j, at, n);
            continue;
        }
        void *p[PARTS] = {NULL};
        for (int i = 0; i < w->parts; i++)
            if (j->p[i]) p[i] = (char *)j->p[i] + at * rush_dtypes[j->dtype].size;
        (j->dtype == RUSH_F64 ? rush_k_optim->f64 : rush_k_optim->f32)[w->kind](p, n, &j->step);
    }
}

static int check_part(const rush_tensor *t, const rush_tensor *first, int k)
{
    RUSH_CHECK(t, RUSH_TYPE_ERROR, "a list of an optimizer's tensors has None in it");
    RUSH_CHECK(t->layout == RUSH_STRIDED, RUSH_NOT_IMPLEMENTED, "fused steps take strided tensors");
    bool real = rush_dtypes[t->dtype].category == 2 && t->dtype < RUSH_F8E4M3FN;
    RUSH_CHECK(real, RUSH_RUNTIME_ERROR, "fused steps take floating tensors, not %s", rush_dtype_name(t->dtype));
    RUSH_CHECK(t->dtype == first->dtype && rush_same_sizes(t, first), RUSH_RUNTIME_ERROR,
               "tensor %d of a parameter %s of %s has size %s and is %s", k, rush_shape_of(first), rush_dtype_name(first->dtype),
               rush_shape_of(t), rush_dtype_name(t->dtype));
    return 0;
}

static bool lies_alike(const rush_tensor *a, const rush_tensor *b)
{
    for (int d = 0; d < a->ndim; d++)
        if (a->size[d] != 1 && a->stride[d] != b->stride[d]) return false;
    return (a->flags & RUSH_T_DENSE) != 0 && !((a->flags | b->flags) & (RUSH_T_CONJ | RUSH_T_NEG));
}

/* What a record's row says of its optimizer. Lists are numbered by their place in the schema: parameters, gradients, state. */
typedef struct stepper {
    rush_step_kind kind;
    int parts;
    uint32_t written;   /* bit k: list k is written (gradients, too, when they are scaled)                     */
    uint32_t matching;  /* bit k: argument k is a list that has to be as long as the parameters                */
    int8_t scale, found; /* arguments grad_scale and found_inf, 0: none                                        */
    bool decoupled;
    bool (*needs)(const rush_value *in, int k); /* does the step use list k? NULL: yes                         */
    void (*step_of)(const struct stepper *, rush_step *, int i, const rush_value *in); /* each parameter's numbers */
} stepper;

static bool has_part(const stepper *row, const rush_value *in, int k)
{
    return !row->needs || row->needs(in, k);
}

static int steps_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const stepper *row = op->row;
    for (int k = 1; k < op->nargs; k++)
        if ((row->matching | 2) >> k & 1 || (k < row->parts && has_part(row, in, k)))
            RUSH_CHECK(in[k].n == in[0].n, RUSH_RUNTIME_ERROR, "Tensor lists must have the same number of tensors, got %u and %u", in[0].n, in[k].n);
    for (uint32_t i = 0; i < in[0].n; i++)
        for (int k = 0; k < row->parts; k++)
            if (has_part(row, in, k) && check_part(in[k].tensors[i], in[0].tensors[i], k)) return -1;
    return 0;
}

/* Tensors of one parameter that do not lie alike: contiguous copies take their place. */
static int lay_alike(job *j, const stepper *row, const rush_value *in, int i, rush_tensor **copies)
{
    rush_tensor *first = in[0].tensors[i];
    bool holes = !lies_alike(first, first);
    for (int k = 0; k < row->parts; k++) {
        copies[k] = NULL;
        if (!has_part(row, in, k)) continue;
        rush_tensor *t = in[k].tensors[i];
        if (holes || !lies_alike(first, t)) {
            rush_tensor *c = holes ? rush_tensor_new(t->dtype, t->device, t->ndim, t->size) : rush_tensor_new_like(first, t->dtype, t->device, RUSH_PRESERVE);
            if (!c || rush_copy_into(c, t)) return -1;
            t = copies[k] = c;
        }
        j->p[k] = rush_ptr(t);
    }
    return 0;
}

static void steps_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    const stepper *row = op->row;
    int n = (int)in[0].n;
    if (!n || (row->found && T_(in[row->found]) && rush_item(in[row->found].t) == 1)) return; /* this step is to be skipped */
    double scale = row->scale && T_(in[row->scale]) ? rush_item(in[row->scale].t) : 0;
    uint32_t written = row->written | (scale ? 2 : 0);
    job *jobs = rush_scope_alloc(sizeof *jobs * (size_t)(n + 1));
    rush_tensor **copies = rush_scope_alloc(sizeof *copies * (size_t)n * PARTS);
    if (!jobs || !copies) return;
    int64_t all = 0;
    for (int i = 0; i < n; i++) {
        jobs[i] = (job){.begin = all, .dtype = in[0].tensors[i]->dtype};
        all += in[0].tensors[i]->numel;
        if (lay_alike(&jobs[i], row, in, i, copies + i * PARTS)) return;
        row->step_of(row, &jobs[i].step, i, in);
        jobs[i].step.scale = scale;
        if (rush_failed()) return;
    }
    jobs[n] = (job){.begin = all};
    work w = {jobs, n, row->parts, written, row->kind};
    const rush_tables *tables = rush_tables_of[in[0].tensors[0]->device.type];
    if (!tables) rush_parallel_for(all, 16384, piece, &w);
    else if (tables->steps(&w, in[0].tensors[0]->device)) return;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < row->parts; k++)
            if (written >> k & 1 && has_part(row, in, k) && copies[i * PARTS + k] && rush_copy_into(in[k].tensors[i], copies[i * PARTS + k])) return;
}

/* ---- the arguments of each, by their place in the schema ---- */

static double count_of(const rush_value *steps, int i)
{
    return rush_item(steps->tensors[i]);
}

/* adam: 0 self, 1 grads, 2 m, 3 v, 4 max v, 5 steps, 6 lr, 7 beta1, 8 beta2, 9 decay, 10 eps, 11 amsgrad, 12 maximize, 13 scale, 14 found */
static void adam_step(const stepper *row, rush_step *s, int i, const rush_value *in)
{
    double t = count_of(&in[5], i), lr = D_(in[6]), b1 = D_(in[7]), b2 = D_(in[8]);
    *s = (rush_step){.lr = lr / (1 - pow(b1, t)), .decay = D_(in[9]), .decoupled = row->decoupled, .shrink = 1 - lr * D_(in[9]),
                     .maximize = I_(in[12]), .flag = I_(in[11]), .b1 = b1, .b2 = b2, .eps = D_(in[10]), .c2 = sqrt(1 - pow(b2, t))};
}

static bool adam_needs(const rush_value *in, int k) { return k < 4 || I_(in[11]); }

static int adam_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(!I_(in[11]) || in[4].n == in[0].n, RUSH_RUNTIME_ERROR, "amsgrad needs a maximum for each parameter");
    return steps_shape(op, in, out);
}

#define ADAM .kind = RUSH_STEP_ADAM, .parts = 5, .written = 0x1d, .matching = 1 << 5, .scale = 13, .found = 14, .needs = adam_needs, .step_of = adam_step
static const stepper adam = {ADAM}, adamw = {ADAM, .decoupled = true};

#define ADAM_ARGS(lr)                                                                                       \
    "(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] exp_avgs, Tensor(d!)[] exp_avg_sqs, Tensor(e!)[] max_exp_avg_sqs, " \
    "Tensor[] state_steps, *, " lr " lr, float beta1, float beta2, float weight_decay, float eps, bool amsgrad, bool maximize, " \
    "Tensor? grad_scale=None, Tensor? found_inf=None) -> ()"
#define STEP_OP_BY(id, rule, row_, text_schema, text)                                                        \
    static rush_op op_##id = {.schema = text_schema, .method = RUSH_FUNCTION_, .doc = text, .shape = rule, .cpu = steps_cpu, .row = &row_, \
                              .flags = RUSH_SIDE_EFFECT | RUSH_HIDDEN | RUSH_NO_GRAD};
#define STEP_OP(id, text_schema, text) STEP_OP_BY(id, steps_shape, id, text_schema, text)

STEP_OP_BY(adam, adam_shape, adam, "_fused_adam_" ADAM_ARGS("float"), "A step of Adam. Kingma and Ba, Adam: a method for stochastic optimization, 2014.")
STEP_OP_BY(adamw, adam_shape, adamw, "_fused_adamw_" ADAM_ARGS("float"), "A step of AdamW. Loshchilov and Hutter, Decoupled weight decay regularization, 2017.")
STEP_OP_BY(adam_lr, adam_shape, adam, "_fused_adam_.tensor_lr" ADAM_ARGS("Tensor"), "A step of Adam, lr a tensor.")
STEP_OP_BY(adamw_lr, adam_shape, adamw, "_fused_adamw_.tensor_lr" ADAM_ARGS("Tensor"), "A step of AdamW, lr a tensor.")

/* sgd: 2 buffers, 3 decay, 4 momentum, 5 lr, 6 dampening, 7 nesterov, 8 maximize, 9 first, 10 scale, 11 found */
static void sgd_step(const stepper *row, rush_step *s, int i, const rush_value *in)
{
    *s = (rush_step){.lr = D_(in[5]), .decay = D_(in[3]), .maximize = I_(in[8]), .flag = I_(in[7]), .first = I_(in[9]), .b1 = D_(in[4]), .b2 = D_(in[6])};
}

static bool sgd_needs(const rush_value *in, int k) { return k < 2 || D_(in[4]) != 0; }

static int sgd_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(D_(in[4]) == 0 || in[2].n == in[0].n, RUSH_RUNTIME_ERROR, "momentum needs a buffer for each parameter");
    return steps_shape(op, in, out);
}

static const stepper sgd = {.kind = RUSH_STEP_SGD, .parts = 3, .written = 5, .scale = 10, .found = 11, .needs = sgd_needs, .step_of = sgd_step};

#define SGD_ARGS(lr)                                                                                        \
    "(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] momentum_buffer_list, *, float weight_decay, float momentum, " lr " lr, " \
    "float dampening, bool nesterov, bool maximize, bool is_first_step, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()"
STEP_OP_BY(sgd, sgd_shape, sgd, "_fused_sgd_" SGD_ARGS("float"), "A step of gradient descent, with momentum.")
STEP_OP_BY(sgd_lr, sgd_shape, sgd, "_fused_sgd_.tensor_lr" SGD_ARGS("Tensor"), "A step of gradient descent, lr a tensor.")

/* adagrad: 2 sums, 3 steps, 4 lr, 5 lr_decay, 6 decay, 7 eps, 8 maximize, 9 scale, 10 found */
static void adagrad_step(const stepper *row, rush_step *s, int i, const rush_value *in)
{
    double t = count_of(&in[3], i);
    *s = (rush_step){.lr = D_(in[4]) / (1 + (t - 1) * D_(in[5])), .decay = D_(in[6]), .maximize = I_(in[8]), .eps = D_(in[7])};
}

static const stepper adagrad = {.kind = RUSH_STEP_ADAGRAD, .parts = 3, .written = 5, .matching = 1 << 3, .scale = 9, .found = 10, .step_of = adagrad_step};

STEP_OP(adagrad,
        "_fused_adagrad_(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] state_sums, Tensor(d!)[] state_steps, *, float lr, "
        "float lr_decay, float weight_decay, float eps, bool maximize, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()",
        "A step of Adagrad. Duchi et al., Adaptive subgradient methods, 2011.")
STEP_OP_BY(adagrad_lr, steps_shape, adagrad,
           "_fused_adagrad_.tensor_lr(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] state_sums, Tensor[] state_steps, *, Tensor lr, "
           "float lr_decay, float weight_decay, float eps, bool maximize, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()",
           "A step of Adagrad, lr a tensor.")

/* rmsprop: 2 squares, 3 averages, 4 buffers, 5 lr, 6 alpha, 7 eps, 8 decay, 9 momentum, 10 centered, 11 maximize */
static void rmsprop_step(const stepper *row, rush_step *s, int i, const rush_value *in)
{
    *s = (rush_step){.lr = D_(in[5]), .b1 = D_(in[6]), .eps = D_(in[7]), .decay = D_(in[8]), .b2 = D_(in[9]), .maximize = I_(in[11])};
}

static bool rmsprop_needs(const rush_value *in, int k) { return k < 3 || (k == 3 ? I_(in[10]) != 0 : D_(in[9]) != 0); }

static const stepper rmsprop = {.kind = RUSH_STEP_RMSPROP, .parts = 5, .written = 0x1d, .needs = rmsprop_needs, .step_of = rmsprop_step};

STEP_OP(rmsprop,
        "_fused_rmsprop_(Tensor(a!)[] self, Tensor[] grads, Tensor(b!)[] square_avgs, Tensor(c!)[] grad_avgs, "
        "Tensor(d!)[] momentum_buffer_list, *, float lr, float alpha, float eps, float weight_decay, float momentum, bool centered, "
        "bool maximize) -> ()", "A step of RMSprop. Hinton, Lecture 6e of Neural networks for machine learning, 2012.")

/* adadelta: 2 squares, 3 deltas, 4 lr, 5 rho, 6 eps, 7 decay, 8 maximize */
static void adadelta_step(const stepper *row, rush_step *s, int i, const rush_value *in)
{
    *s = (rush_step){.lr = D_(in[4]), .b1 = D_(in[5]), .eps = D_(in[6]), .decay = D_(in[7]), .maximize = I_(in[8])};
}

static const stepper adadelta = {.kind = RUSH_STEP_ADADELTA, .parts = 4, .written = 0xd, .step_of = adadelta_step};

STEP_OP(adadelta,
        "_fused_adadelta_(Tensor(a!)[] self, Tensor[] grads, Tensor(b!)[] square_avgs, Tensor(c!)[] acc_deltas, *, float lr, float rho, "
        "float eps, float weight_decay, bool maximize) -> ()", "A step of Adadelta. Zeiler, ADADELTA: an adaptive learning rate method, 2012.")

/* adamax: 2 m, 3 u, 4 steps, 5 lr, 6 beta1, 7 beta2, 8 eps, 9 decay, 10 maximize */
static void adamax_step(const stepper *row, rush_step *s, int i, const rush_value *in)
{
    double b1 = D_(in[6]);
    *s = (rush_step){.lr = D_(in[5]) / (1 - pow(b1, count_of(&in[4], i))), .b1 = b1, .b2 = D_(in[7]), .eps = D_(in[8]), .decay = D_(in[9]),
                     .maximize = I_(in[10])};
}

static const stepper adamax = {.kind = RUSH_STEP_ADAMAX, .parts = 4, .written = 0xd, .matching = 1 << 4, .step_of = adamax_step};

STEP_OP(adamax,
        "_fused_adamax_(Tensor(a!)[] self, Tensor[] grads, Tensor(b!)[] exp_avgs, Tensor(c!)[] exp_infs, Tensor[] state_steps, *, "
        "float lr, float beta1, float beta2, float eps, float weight_decay, bool maximize) -> ()",
        "A step of Adamax. Kingma and Ba, Adam: a method for stochastic optimization, 2014.")

/* nadam: 2 m, 3 v, 4 products, 5 steps, 6 lr, 7 beta1, 8 beta2, 9 eps, 10 decay, 11 momentum_decay, 12 decoupled, 13 maximize */
static void nadam_step(const stepper *row, rush_step *s, int i, const rush_value *in)
{
    double t = count_of(&in[5], i), lr = D_(in[6]), b1 = D_(in[7]), b2 = D_(in[8]), md = D_(in[11]);
    double mu = b1 * (1 - 0.5 * pow(0.96, t * md)), next = b1 * (1 - 0.5 * pow(0.96, (t + 1) * md));
    rush_tensor *product = in[4].tensors[i];
    if (!T_INPLACE("mul.Tensor", V(product), V(mu))) return;
    double so_far = rush_item(product);
    *s = (rush_step){.lr = lr * (1 - mu) / (1 - so_far), .c1 = lr * next / (1 - so_far * next), .b1 = b1, .b2 = b2, .eps = D_(in[9]),
                     .c2 = 1 - pow(b2, t), .decay = D_(in[10]), .decoupled = I_(in[12]), .shrink = 1 - lr * D_(in[10]),
                     .maximize = I_(in[13])};
}

static const stepper nadam = {.kind = RUSH_STEP_NADAM, .parts = 4, .written = 0xd, .matching = 1 << 4 | 1 << 5, .step_of = nadam_step};

STEP_OP(nadam,
        "_fused_nadam_(Tensor(a!)[] self, Tensor[] grads, Tensor(b!)[] exp_avgs, Tensor(c!)[] exp_avg_sqs, Tensor(d!)[] mu_products, "
        "Tensor[] state_steps, *, float lr, float beta1, float beta2, float eps, float weight_decay, float momentum_decay, "
        "bool decoupled_weight_decay, bool maximize) -> ()", "A step of NAdam. Dozat, Incorporating Nesterov momentum into Adam, 2016.")

/* radam: 2 m, 3 v, 4 steps, 5 lr, 6 beta1, 7 beta2, 8 eps, 9 decay, 10 decoupled, 11 maximize */
static void radam_step(const stepper *row, rush_step *s, int i, const rush_value *in)
{
    double t = count_of(&in[4], i), lr = D_(in[5]), b1 = D_(in[6]), b2 = D_(in[7]), power = pow(b2, t);
    double most = 2 / (1 - b2) - 1, rho = most - 2 * t * power / (1 - power);
    *s = (rush_step){.lr = lr, .b1 = b1, .b2 = b2, .eps = D_(in[8]), .decay = D_(in[9]), .decoupled = I_(in[10]), .shrink = 1 - lr * D_(in[9]),
                     .maximize = I_(in[11]), .c1 = 1 - pow(b1, t), .c2 = sqrt(1 - power), .flag = rho > 5};
    if (s->flag) s->rect = sqrt((rho - 4) * (rho - 2) * most / ((most - 4) * (most - 2) * rho));
}

static const stepper radam = {.kind = RUSH_STEP_RADAM, .parts = 4, .written = 0xd, .matching = 1 << 4, .step_of = radam_step};

STEP_OP(radam,
        "_fused_radam_(Tensor(a!)[] self, Tensor[] grads, Tensor(b!)[] exp_avgs, Tensor(c!)[] exp_avg_sqs, Tensor[] state_steps, *, "
        "float lr, float beta1, float beta2, float eps, float weight_decay, bool decoupled_weight_decay, bool maximize) -> ()",
        "A step of RAdam. Liu et al., On the variance of the adaptive learning rate and beyond, 2019.")

/* rprop: 2 prevs, 3 sizes, 4 min, 5 max, 6 eta-, 7 eta+, 8 maximize */
static void rprop_step(const stepper *row, rush_step *s, int i, const rush_value *in)
{
    *s = (rush_step){.c1 = D_(in[4]), .c2 = D_(in[5]), .b1 = D_(in[6]), .b2 = D_(in[7]), .maximize = I_(in[8])};
}

static const stepper rprop = {.kind = RUSH_STEP_RPROP, .parts = 4, .written = 0xd, .step_of = rprop_step};

STEP_OP(rprop,
        "_fused_rprop_(Tensor(a!)[] self, Tensor[] grads, Tensor(b!)[] prevs, Tensor(c!)[] step_sizes, *, float step_size_min, "
        "float step_size_max, float etaminus, float etaplus, bool maximize) -> ()",
        "A step of Rprop. Riedmiller and Braun, A direct adaptive method for faster backpropagation learning, 1993.")

/* asgd: 2 ax, 3 mus, 4 etas, 5 steps, 6 lr, 7 lambd, 8 t0, 9 alpha, 10 decay, 11 maximize */
static void asgd_step(const stepper *row, rush_step *s, int i, const rush_value *in)
{
    rush_tensor *mu = in[3].tensors[i], *eta = in[4].tensors[i];
    double t = count_of(&in[5], i), lr = D_(in[6]), lambd = D_(in[7]), t0 = D_(in[8]), alpha = D_(in[9]);
    double e = rush_item(eta), m = rush_item(mu);
    *s = (rush_step){.lr = e, .shrink = 1 - lambd * e, .decay = D_(in[10]), .maximize = I_(in[11]), .first = m == 1, .c1 = m};
    rush_fill_into(eta, rush_v_float(lr / pow(1 + lambd * lr * t, alpha)));
    rush_fill_into(mu, rush_v_float(1 / fmax(1, t - t0)));
}

static const stepper asgd = {.kind = RUSH_STEP_ASGD, .parts = 3, .written = 5, .matching = 1 << 3 | 1 << 4 | 1 << 5, .step_of = asgd_step};

STEP_OP(asgd,
        "_fused_asgd_(Tensor(a!)[] self, Tensor[] grads, Tensor(b!)[] axs, Tensor(c!)[] mus, Tensor(d!)[] etas, Tensor[] state_steps, *, "
        "float lr, float lambd, float t0, float alpha, float weight_decay, bool maximize) -> ()",
        "A step of averaged gradient descent. Polyak and Juditsky, Acceleration of stochastic approximation by averaging, 1992.")

RUSH_FAMILY(fused, &op_adam, &op_adamw, &op_adam_lr, &op_adamw_lr, &op_sgd, &op_sgd_lr, &op_adagrad, &op_adagrad_lr, &op_rmsprop,
            &op_adadelta, &op_adamax, &op_nadam, &op_radam, &op_rprop, &op_asgd)
