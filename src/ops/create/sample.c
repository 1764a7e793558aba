/* sample.c - numbers drawn with a parameter per element: bernoulli(p), poisson, binomial, gamma, Dirichlet, multinomial.
 *
 * The methods are in kernels/cpu/draws.inc, of which each draws the same numbers of the generator as PyTorch does.
 */
#include "ops/create/random.h"
#include "kernels/cpu/random.h"
#include "ops/geometry.h"

#include <math.h>

#define DRAW_FN static
#define DRAW_SOURCE rush_generator
#define DRAW_UNIFORM rush_uniform_one
#define DRAW_NORMAL rush_normal_one
#include "kernels/cpu/draws.inc"

/* ---- walking a result and its parameters in step, one element after the other ---- */

typedef struct walk {
    rush_generator *g;
    double (*one)(rush_generator *, double a, double b);
} walk;

static void each(char **p, const int64_t *stride, int64_t n, const void *arg)
{
    const walk *w = arg;
    for (int64_t i = 0; i < n; i++) {
        double a = *(double *)(p[1] + i * stride[1]), b = *(double *)(p[2] + i * stride[2]);
        *(double *)(p[0] + i * stride[0]) = w->one(w->g, a, b);
    }
}

/* to[i] = one(g, a[i], b[i]) in the order of the result's memory; on one thread, since the numbers are a sequence. */
static void draw_each(rush_tensor *to, rush_value a, rush_value b, rush_generator *g, double (*one)(rush_generator *, double, double))
{
    rush_value operand[3] = {rush_v_tensor(to), a, b};
    walk w = {g, one};
    rush_iter it;
    if (!to->numel || rush_iter_init(&it, 1, 3, operand, (const uint8_t[]){RUSH_F64, RUSH_F64, RUSH_F64})) return;
    rush_generator_lock(g);
    rush_iter_run(&it, each, &w, INT64_MAX);
    rush_generator_unlock(g);
}

static int needs_real(const rush_tensor *to)
{
    RUSH_CHECK(rush_dtypes[to->dtype].category < 3, RUSH_NOT_IMPLEMENTED, "\"bernoulli_tensor_cpu_self_\" not implemented for '%s'", rush_dtype_word(to->dtype));
    return 0;
}

static int needs_float(const rush_tensor *t, const char *what)
{
    RUSH_CHECK(rush_dtypes[t->dtype].category == 2 && t->dtype < RUSH_F8E4M3FN, RUSH_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", what,
               rush_dtype_word(t->dtype));
    return 0;
}

/* ---- bernoulli with a tensor of probabilities: a float of one word, or a double of two, is compared ---- */

static double bernoulli_narrow(rush_generator *g, double p, double unused)
{
    return (double)((float)(rush_random32(g) & 0xffffff) * 0x1p-24f) < p;
}

static double bernoulli_wide(rush_generator *g, double p, double unused)
{
    return rush_uniform_one(g) < p;
}

/* Kernels check before they draw. */
static int probabilities(const rush_tensor *p)
{
    const rush_tensor *all = rush_cast_copy(p, RUSH_F64);
    for (int64_t i = 0; all && i < all->numel; i++) {
        double x = ((const double *)rush_ptr(all))[i];
        RUSH_CHECK(x >= 0 && x <= 1, RUSH_RUNTIME_ERROR, "Expected p_in >= 0 && p_in <= 1 to be true, but got false.");
    }
    return all ? 0 : -1;
}

static void bernoulli_into(rush_tensor *to, rush_value p, rush_value gen)
{
    rush_generator *g = rush_generator_of(gen);
    if (g && !probabilities(p.t)) draw_each(to, p, rush_v_float(0), g, p.t->dtype == RUSH_F64 ? bernoulli_wide : bernoulli_narrow);
}

static int bernoulli_self_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (needs_real(HAS(out[0]) ? out[0].t : in[0].t)) return -1;
    return needs_float(in[0].t, "bernoulli_tensor_cpu_p_") || !rush_out_t(out, 0, in[0].t, HAS(out[0]) ? out[0].t->dtype : in[0].t->dtype, in[0].t->ndim, in[0].t->size) ? -1 : 0;
}

static void bernoulli_self_cpu(const rush_op *op, const rush_value *in, rush_value *out) { bernoulli_into(out[0].t, in[0], in[1]); }

static int fits(const rush_tensor *self, const rush_tensor *p)
{
    const rush_tensor *both[2] = {self, p};
    int64_t size[RUSH_MAXDIM];
    int ndim;
    if (rush_broadcast(2, both, &ndim, size)) return -1;
    RUSH_CHECK(ndim == self->ndim && !memcmp(size, self->size, sizeof *size * (size_t)ndim), RUSH_RUNTIME_ERROR,
               "The size of p %s cannot be expanded to self's %s", rush_shape_of(p), rush_shape_of(self));
    return needs_real(self) || needs_float(p, "bernoulli_tensor_cpu_p_");
}

static int bernoulli_inplace_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (fits(in[0].t, in[1].t) ) return -1;
    RUSH_CHECK(!rush_self_overlap(in[0].t), RUSH_RUNTIME_ERROR, "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
                                                               "Please clone() the tensor before performing the operation.");
    if (rush_overlap(in[0].t, in[1].t) == 2) return rush_overlaps_input();
    rush_out_view(out, 0, in[0].t);
    return 0;
}

static int bernoulli_tensor_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (fits(in[0].t, in[1].t)) return -1;
    return rush_out_t(out, 0, in[0].t, in[0].t->dtype, in[0].t->ndim, in[0].t->size) ? 0 : -1;
}

static void bernoulli_tensor_cpu(const rush_op *op, const rush_value *in, rush_value *out) { bernoulli_into(out[0].t, in[1], in[2]); }

static void bernoulli_grad(rush_grads *s)
{
    rush_zero_grad(s);
    if (rush_needs(s, 1)) s->gin[1] = T("zeros_like", s->in[1]);
}

static rush_op op_bernoulli = {
    .schema = "bernoulli(Tensor self, *, Generator? generator=None) -> Tensor",
    .doc = "Ones with the probabilities that self gives, and zeros.", .shape = bernoulli_self_shape, .cpu = bernoulli_self_cpu,
    .grad = rush_zero_grad, .saves = "self", .flags = RUSH_SIDE_EFFECT | RUSH_STRIDED_OUT};
static rush_op op_bernoulli_inplace = {
    .schema = "bernoulli_.Tensor(Tensor(a!) self, Tensor p, *, Generator? generator=None) -> Tensor(a!)", .method = RUSH_METHOD_,
    .doc = "Fills self with ones, with the probabilities in p, and zeros.", .shape = bernoulli_inplace_shape,
    .cpu = bernoulli_tensor_cpu, .grad = bernoulli_grad, .saves = "p", .flags = RUSH_SIDE_EFFECT};
static rush_op op_bernoulli_tensor = {
    .schema = "bernoulli.Tensor(Tensor self, Tensor p, *, Generator? generator=None) -> Tensor",
    .doc = "A tensor like self of ones, with the probabilities in p, and zeros.", .shape = bernoulli_tensor_shape,
    .cpu = bernoulli_tensor_cpu, .grad = bernoulli_grad, .saves = "p", .flags = RUSH_SIDE_EFFECT | RUSH_HIDDEN};

/* ---- poisson ---- */

static int poisson_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (needs_float(in[0].t, "poisson_cpu") || rush_generator_check(in[1], in[0].t->device)) return -1;
    return rush_out_t(out, 0, in[0].t, in[0].t->dtype, in[0].t->ndim, in[0].t->size) ? 0 : -1;
}

static void poisson_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *all = rush_cast_copy(in[0].t, RUSH_F64);
    for (int64_t i = 0; all && i < all->numel; i++)
        if (!(((const double *)rush_ptr(all))[i] >= 0)) rush_fail(RUSH_RUNTIME_ERROR, "invalid Poisson rate, expected rate to be non-negative");
    if (all && !rush_failed()) draw_each(out[0].t, in[0], rush_v_float(0), rush_generator_of(in[1]), poisson_one);
}

static rush_op op_poisson = {
    .schema = "poisson(Tensor self, Generator? generator=None) -> Tensor",
    .doc = "Counts of the Poisson distribution with the rates that self gives.", .shape = poisson_shape, .cpu = poisson_cpu,
    .grad = rush_zero_grad, .flags = RUSH_SIDE_EFFECT};

/* ---- binomial ---- */

static int binomial_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *both[2] = {in[0].t, in[1].t};
    int64_t size[RUSH_MAXDIM];
    int ndim;
    if (needs_float(both[0], "binomial_cpu") || needs_float(both[1], "binomial_cpu") || rush_broadcast(2, both, &ndim, size)) return -1;
    RUSH_CHECK(both[0]->dtype == both[1]->dtype, RUSH_VALUE_ERROR, "Binomial count and probability must have the same dtype, got %s and %s",
               rush_dtype_name(both[0]->dtype), rush_dtype_name(both[1]->dtype));
    if (rush_generator_check(in[2], in[0].t->device)) return -1;
    return rush_out_t(out, 0, both[0], both[0]->dtype, ndim, size) ? 0 : -1;
}

static void binomial_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    draw_each(out[0].t, in[0], in[1], rush_generator_of(in[2]), binomial_one);
}

static void binomial_grad(rush_grads *s)
{
    rush_zero_grad(s);
    if (rush_needs(s, 1)) s->gin[1] = T("zeros_like", s->in[1]);
}

static rush_op op_binomial = {
    .schema = "binomial(Tensor count, Tensor prob, Generator? generator=None) -> Tensor",
    .doc = "Numbers of successes in count trials of probability prob each.", .shape = binomial_shape, .cpu = binomial_cpu,
    .grad = binomial_grad, .saves = "prob", .flags = RUSH_SIDE_EFFECT};

/* ---- gamma ---- */

static int gamma_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (needs_float(in[0].t, "gamma") || rush_generator_check(in[1], in[0].t->device)) return -1;
    return rush_out_t(out, 0, in[0].t, in[0].t->dtype, in[0].t->ndim, in[0].t->size) ? 0 : -1;
}

static void gamma_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    draw_each(out[0].t, in[0], rush_v_float(rush_dtypes[in[0].t->dtype].tiny), rush_generator_of(in[1]),
              in[0].t->dtype == RUSH_F64 ? gamma_one : gamma_one_narrow);
}

static void gamma_grad(rush_grads *s)
{
    rush_tensor *slope = s->g[0] ? T("_standard_gamma_grad", s->in[0], s->out[0]) : NULL;
    if (slope) s->gin[0] = T("mul.Tensor", V(s->g[0]), V(slope));
}

static rush_op op_gamma = {
    .schema = "_standard_gamma(Tensor self, Generator? generator=None) -> Tensor",
    .doc = "Samples of the gamma distributions of rate 1 with the concentrations that self gives.", .shape = gamma_shape,
    .cpu = gamma_cpu, .grad = gamma_grad, .saves = "self, result", .flags = RUSH_SIDE_EFFECT};

static double gamma_slope_one(rush_generator *g, double a, double x) { return gamma_slope(a, x); }

static int gamma_slope_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (needs_float(in[0].t, "_standard_gamma_grad_cpu")) return -1;
    return rush_out_like(out, 0, in[0].t, in[0].t->dtype) ? 0 : -1;
}

static void slope_each(char **p, const int64_t *stride, int64_t n, const void *arg)
{
    each(p, stride, n, &(walk){NULL, gamma_slope_one});
}

static void gamma_slope_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value operand[3] = {out[0], in[0], in[1]};
    rush_iterate(1, 3, operand, (const uint8_t[]){RUSH_F64, RUSH_F64, RUSH_F64}, slope_each, NULL, 512);
}

static rush_op op_gamma_slope = {
    .schema = "_standard_gamma_grad(Tensor self, Tensor output) -> Tensor",
    .doc = "Derivative of gamma samples by their concentrations.", .shape = gamma_slope_shape, .cpu = gamma_slope_cpu,
    .flags = RUSH_NO_GRAD | RUSH_HIDDEN};

/* ---- Dirichlet: gamma samples in double over their sum ---- */

static int dirichlet_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (needs_float(in[0].t, "dirichlet") || rush_generator_check(in[1], in[0].t->device)) return -1;
    return rush_out_t(out, 0, in[0].t, in[0].t->dtype, in[0].t->ndim, in[0].t->size) ? 0 : -1;
}

static void dirichlet_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t, *gamma = rush_tensor_new(RUSH_F64, x->device, x->ndim, x->size);
    if (!gamma || !x->numel) return;
    draw_each(gamma, in[0], rush_v_float(rush_dtypes[RUSH_F64].tiny), rush_generator_of(in[1]), gamma_one);
    /* not 0 and not 1, whatever the dtype */
    const rush_dtype_info *info = &rush_dtypes[x->dtype];
    rush_tensor *total = T("sum.dim_IntList", V(gamma), INTS(-1), V(true));
    if (!total) return;
    double least = info->tiny, most = 1 - info->eps / 2, *p = rush_ptr(gamma), *sums = rush_ptr(total);
    int64_t n = x->ndim ? x->size[x->ndim - 1] : 1;
    for (int64_t row = 0; row < x->numel; row += n) {
        double sum = sums[row / n];
        for (int64_t i = 0; i < n; i++) p[row + i] = fmin(fmax(p[row + i] / sum, least), most);
    }
    rush_copy_into(out[0].t, gamma);
}

static void dirichlet_grad(rush_grads *s)
{
    if (!s->g[0]) return;
    rush_value g = V(s->g[0]), x = s->out[0], last = INTS(-1);
    rush_tensor *total = T("expand_as", V(T("sum.dim_IntList", s->in[0], last, V(true))), s->in[0]);
    rush_tensor *slope = T("_dirichlet_grad", x, s->in[0], V(total));
    rush_tensor *along = T("sum.dim_IntList", V(T("mul.Tensor", x, g)), last, V(true));
    s->gin[0] = T("mul.Tensor", V(slope), V(T("sub.Tensor", g, V(along))));
}

static rush_op op_dirichlet = {
    .schema = "_sample_dirichlet(Tensor self, Generator? generator=None) -> Tensor",
    .doc = "Samples of the Dirichlet distributions whose concentrations are self's rows.", .shape = dirichlet_shape,
    .cpu = dirichlet_cpu, .grad = dirichlet_grad, .saves = "self, result", .flags = RUSH_SIDE_EFFECT};

static void dirichlet_each(char **p, const int64_t *stride, int64_t n, const void *arg)
{
    for (int64_t i = 0; i < n; i++)
        *(double *)(p[0] + i * stride[0]) = dirichlet_slope(*(double *)(p[1] + i * stride[1]), *(double *)(p[2] + i * stride[2]),
                                                            *(double *)(p[3] + i * stride[3]));
}

static void dirichlet_slope_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value operand[4] = {out[0], in[0], in[1], in[2]};
    rush_iterate(1, 4, operand, (const uint8_t[]){RUSH_F64, RUSH_F64, RUSH_F64, RUSH_F64}, dirichlet_each, NULL, 256);
}

static int dirichlet_slope_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (needs_float(in[0].t, "_dirichlet_grad_cpu")) return -1;
    return rush_out_like(out, 0, in[0].t, in[0].t->dtype) ? 0 : -1;
}

static rush_op op_dirichlet_slope = {
    .schema = "_dirichlet_grad(Tensor x, Tensor alpha, Tensor total) -> Tensor",
    .doc = "Derivative of Dirichlet samples by their concentrations, up to the factor that rows have in common.",
    .shape = dirichlet_slope_shape, .cpu = dirichlet_slope_cpu, .flags = RUSH_NO_GRAD | RUSH_HIDDEN};

/* ---- multinomial ---- */

static int check_weights(const rush_tensor *p, int64_t k)
{
    bool narrow = p->dtype != RUSH_F64;
    const rush_tensor *all = rush_cast_copy(p, narrow ? RUSH_F32 : RUSH_F64);
    if (!all) return -1;
    for (int64_t row = 0; row < all->numel; row += k) {
        int wrong = 0, some = 0; /* a sum of what is not negative is positive where any of it is */
        const float *f = (const float *)rush_ptr(all) + row;
        const double *d = (const double *)rush_ptr(all) + row;
        if (narrow)
#pragma omp simd reduction(| : wrong, some)
            for (int64_t i = 0; i < k; i++) wrong |= !(f[i] >= 0) | (f[i] - f[i] != 0), some |= f[i] > 0;
        else
            for (int64_t i = 0; i < k; i++) wrong |= !(d[i] >= 0) | (d[i] - d[i] != 0), some |= d[i] > 0;
        RUSH_CHECK(!wrong, RUSH_RUNTIME_ERROR, "probability tensor contains either `inf`, `nan` or element < 0");
        RUSH_CHECK(some, RUSH_RUNTIME_ERROR, "invalid multinomial distribution (sum of probabilities <= 0)");
    }
    return 0;
}

static int multinomial_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *p = in[0].t;
    int64_t n = I_(in[1]), size[2];
    RUSH_CHECK(p->ndim == 1 || p->ndim == 2, RUSH_RUNTIME_ERROR, "prob_dist must be 1 or 2 dim");
    RUSH_CHECK(rush_dtypes[p->dtype].category == 2, RUSH_RUNTIME_ERROR, "multinomial only supports floating-point dtypes for input, got: %s",
               rush_dtype_word(p->dtype));
    RUSH_CHECK(n > 0, RUSH_RUNTIME_ERROR, "cannot sample n_sample <= 0 samples");
    int64_t k = p->size[p->ndim - 1];
    RUSH_CHECK(I_(in[2]) || n <= k, RUSH_RUNTIME_ERROR, "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
    RUSH_CHECK(k <= (int64_t)1 << 24, RUSH_RUNTIME_ERROR, "number of categories cannot exceed 2^24");
    if (rush_generator_check(in[3], in[0].t->device)) return -1;
    size[0] = p->ndim == 2 ? p->size[0] : n;
    size[1] = n;
    return rush_out_t(out, 0, p, RUSH_I64, p->ndim, size) ? 0 : -1;
}

/* Without replacement: the n largest of p / e, e exponential (each computed in p's dtype). */
static void without(const rush_tensor *p, int64_t *to, int64_t n, rush_generator *g)
{
    sampler s;
    rush_value best[RUSH_MAXOUT];
    rush_tensor *e = rush_tensor_new_like(p, p->dtype, p->device, RUSH_PRESERVE); /* drawn in the order of memory */
    if (!e || rush_sampler_exponential(&s, p->dtype, 1)) return;
    rush_sample_into(e, &s, g);
    rush_tensor *q = T("div.Tensor", V((rush_tensor *)p), V(e));
    rush_tensor *places = !q ? NULL : n == 1 ? T("argmax", V(q), V(-1), V(true)) : TN(best, "topk", V(q), V(n)) ? NULL : best[1].t;
    if ((places = rush_contiguous_copy(places))) memcpy(to, rush_ptr(places), sizeof *to * (size_t)places->numel);
}

/* With replacement: a uniform double is looked up in the running sums, which are kept in p's dtype. */
static void with(const rush_tensor *p, int64_t *to, int64_t n, int64_t k, rush_generator *g)
{
    bool narrow = p->dtype != RUSH_F64;
    const rush_tensor *all = rush_cast_copy(p, narrow ? RUSH_F32 : RUSH_F64);
    double *sums = rush_scope_alloc((size_t)k * sizeof *sums);
    if (!all || !sums) return;
    rush_generator_lock(g);
    for (int64_t row = 0; row * k < p->numel; row++, to += n) {
        double sum = 0;
        if (narrow) {
            const float *x = (const float *)rush_ptr(all) + row * k;
            float running = 0;
            for (int64_t i = 0; i < k; i++) sums[i] = running += x[i];
            sum = running;
        } else {
            const double *x = (const double *)rush_ptr(all) + row * k;
            for (int64_t i = 0; i < k; i++) sums[i] = sum += x[i];
        }
        for (int64_t j = 0; j < n; j++) {
            double u = rush_uniform_one(g);
            int64_t left = 0, right = k;
            while (left < right) {
                int64_t middle = left + (right - left) / 2;
                double share = narrow ? (float)sums[middle] / (float)sum : sums[middle] / sum;
                if (middle < k - 1 && share < u) left = middle + 1;
                else right = middle;
            }
            to[j] = left;
        }
    }
    rush_generator_unlock(g);
}

static void multinomial_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *p = in[0].t;
    rush_tensor *to = out[0].t;
    int64_t n = I_(in[1]), k = p->size[p->ndim - 1];
    if (check_weights(p, k) || !to->numel) return;
    rush_tensor *draft = rush_contiguous(to) ? to : rush_tensor_new(RUSH_I64, to->device, to->ndim, to->size);
    if (!draft) return;
    if (I_(in[2]) && n > 1) with(p, rush_ptr(draft), n, k, rush_generator_of(in[3]));
    else without(p, rush_ptr(draft), n, rush_generator_of(in[3]));
    if (draft != to && !rush_failed()) rush_copy_into(to, draft);
}

static rush_op op_multinomial = {
    .schema = "multinomial(Tensor self, SymInt num_samples, bool replacement=False, *, Generator? generator=None) -> Tensor", .method = RUSH_METHOD,
    .doc = "Indices drawn from the categorical distributions whose weights are self's rows.", .shape = multinomial_shape,
    .cpu = multinomial_cpu, .flags = RUSH_SIDE_EFFECT | RUSH_NO_GRAD | RUSH_OUT_APART};

RUSH_FAMILY(sample, &op_bernoulli, &op_bernoulli_inplace, &op_bernoulli_tensor, &op_poisson, &op_binomial, &op_gamma,
            &op_gamma_slope, &op_dirichlet, &op_dirichlet_slope, &op_multinomial)
