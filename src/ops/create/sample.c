/* sample.c - numbers drawn with a parameter per element: bernoulli(p), poisson, binomial, gamma, Dirichlet, multinomial.
 *
 * The methods are the published ones that PyTorch uses, step by step, so that each draws the same numbers of the
 * generator: Hoermann's transformed rejection for poisson (PTRS, 1993) and binomial (BTRS, 1993), Marsaglia and
 * Tsang for gamma (2000). Derivatives of samples by their parameters come from implicit differentiation: the
 * distribution function is differentiated along with its series (Figurnov et al., 2018).
 */
#include "ops/create/random.h"
#include "kernels/cpu/random.h"
#include "ops/geometry.h"

#include <math.h>

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
    return needs_float(in[0].t, "bernoulli_tensor_cpu_p_") || !rush_out_like(out, 0, in[0].t, in[0].t->dtype) ? -1 : 0;
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
    return needs_float(p, "bernoulli_tensor_cpu_p_");
}

static int bernoulli_inplace_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (fits(in[0].t, in[1].t)) return -1;
    rush_out_view(out, 0, in[0].t);
    return 0;
}

static int bernoulli_tensor_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (fits(in[0].t, in[1].t)) return -1;
    return rush_out_like(out, 0, in[0].t, in[0].t->dtype) ? 0 : -1;
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
    .grad = rush_zero_grad, .saves = "self", .flags = RUSH_SIDE_EFFECT};
static rush_op op_bernoulli_inplace = {
    .schema = "bernoulli_.Tensor(Tensor(a!) self, Tensor p, *, Generator? generator=None) -> Tensor(a!)", .method = RUSH_METHOD_,
    .doc = "Fills self with ones, with the probabilities in p, and zeros.", .shape = bernoulli_inplace_shape,
    .cpu = bernoulli_tensor_cpu, .grad = bernoulli_grad, .saves = "p", .flags = RUSH_SIDE_EFFECT};
static rush_op op_bernoulli_tensor = {
    .schema = "bernoulli.Tensor(Tensor self, Tensor p, *, Generator? generator=None) -> Tensor",
    .doc = "A tensor like self of ones, with the probabilities in p, and zeros.", .shape = bernoulli_tensor_shape,
    .cpu = bernoulli_tensor_cpu, .grad = bernoulli_grad, .saves = "p", .flags = RUSH_SIDE_EFFECT | RUSH_HIDDEN};

/* ---- poisson ---- */

static double poisson_one(rush_generator *g, double lambda, double unused)
{
    if (lambda == 0) return 0;
    if (lambda < 10) { /* arrivals until the product of uniforms falls below exp(-lambda) */
        double floor_at = exp(-lambda), product = 1;
        for (int64_t k = 0;; k++) {
            product *= rush_uniform_one(g);
            if (!(product > floor_at)) return (double)k;
        }
    }
    double root = sqrt(lambda), log_lambda = log(lambda);
    double b = 0.931 + 2.53 * root, a = -0.059 + 0.02483 * b;
    double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), v_r = 0.9277 - 3.6224 / (b - 2);
    for (;;) {
        double u = rush_uniform_one(g) - 0.5, v = rush_uniform_one(g), us = 0.5 - fabs(u);
        double k = floor((2 * a / us + b) * u + lambda + 0.43);
        if (us >= 0.07 && v <= v_r) return (double)(int64_t)k;
        if (k < 0 || (us < 0.013 && v > us)) continue;
        if (log(v) + log(inverse_alpha) - log(a / (us * us) + b) <= -lambda + k * log_lambda - lgamma(k + 1)) return (double)(int64_t)k;
    }
}

static int poisson_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (needs_float(in[0].t, "poisson_cpu") || rush_generator_check(in[1], in[0].t->device)) return -1;
    return rush_out_like(out, 0, in[0].t, in[0].t->dtype) ? 0 : -1;
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

static double stirling_rest(double k) /* what Stirling's formula leaves of log k! */
{
    static const double exact[] = {0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509, 0.0166446911898211,
                                   0.0138761288230707, 0.0118967099458917, 0.0104112652619720, 0.00925546218271273, 0.00833056343336287};
    if (k <= 9) return exact[(int)k];
    double square = (k + 1) * (k + 1);
    return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1);
}

static double binomial_small(rush_generator *g, double n, double p) /* p <= 1/2 */
{
    if (n * p < 10) { /* jumps from success to success */
        double sum = 0, log_fail = log1p(-p);
        for (int64_t k = 0;; k++) {
            sum += ceil(log(rush_uniform_one(g)) / log_fail);
            if (sum > n) return (double)k;
        }
    }
    double deviation = sqrt(n * p * (1 - p));
    double b = 1.15 + 2.53 * deviation, a = -0.0873 + 0.0248 * b + 0.01 * p, c = n * p + 0.5;
    double v_r = 0.92 - 4.2 / b, r = p / (1 - p), alpha = (2.83 + 5.1 / b) * deviation, m = floor((n + 1) * p);
    for (;;) {
        double u = rush_uniform_one(g) - 0.5, v = rush_uniform_one(g), us = 0.5 - fabs(u);
        double k = floor((2 * a / us + b) * u + c);
        if (us >= 0.07 && v <= v_r) return k;
        if (k < 0 || k > n) continue;
        v = log(v * alpha / (a / (us * us) + b));
        double most = (m + 0.5) * log((m + 1) / (r * (n - m + 1))) + (n + 1) * log((n - m + 1) / (n - k + 1)) +
                      (k + 0.5) * log(r * (n - k + 1) / (k + 1)) + stirling_rest(m) + stirling_rest(n - m) - stirling_rest(k) -
                      stirling_rest(n - k);
        if (v <= most) return k;
    }
}

static double binomial_one(rush_generator *g, double n, double p)
{
    if (n <= 0 || p <= 0) return 0;
    if (p >= 1 || !isfinite(n)) return n; /* more trials than numbers, or NaN */
    if (p <= 0.5) return binomial_small(g, n, p);
    if (p > 0.5) return n - binomial_small(g, n, 1 - p);
    return NAN;
}

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

/* d is what varies with the result's dtype: a third is subtracted in it, and that third is a float's. */
static double gamma_with(rush_generator *g, double scale, double d, double least)
{
    double c = 1 / sqrt(9 * d);
    for (;;) {
        double x, y;
        do {
            x = rush_normal_one(g);
            y = 1 + c * x;
        } while (y <= 0);
        double v = y * y * y, u = 1 - rush_uniform_one(g), xx = x * x;
        if (u < 1 - 0.0331 * xx * xx || log(u) < 0.5 * xx + d * (1 - v + log(v))) return RUSH_MAX(scale * d * v, least);
    }
}

static double gamma_one(rush_generator *g, double alpha, double least)
{
    if (alpha == 0) return least;
    double scale = 1;
    if (alpha < 1) { /* a sample of alpha + 1, brought down */
        scale = pow(1 - rush_uniform_one(g), 1 / alpha);
        alpha += 1;
    }
    return gamma_with(g, scale, alpha - (double)(1.0f / 3), least);
}

static double gamma_one_narrow(rush_generator *g, double concentration, double least)
{
    float alpha = (float)concentration;
    if (alpha == 0) return least;
    double scale = 1;
    if (alpha < 1) {
        scale = pow(1 - rush_uniform_one(g), (double)(1 / alpha));
        alpha += 1;
    }
    return gamma_with(g, scale, (double)(alpha - 1.0f / 3), least);
}

static int gamma_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (needs_float(in[0].t, "gamma") || rush_generator_check(in[1], in[0].t->device)) return -1;
    return rush_out_like(out, 0, in[0].t, in[0].t->dtype) ? 0 : -1;
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

/* A number and its derivative. */
typedef struct dual {
    double v, d;
} dual;

static dual times(dual a, dual b) { return (dual){a.v * b.v, a.v * b.d + a.d * b.v}; }
static dual over(dual a, dual b) { return (dual){a.v / b.v, (a.d - a.v / b.v * b.d) / b.v}; }
static dual plus(dual a, dual b) { return (dual){a.v + b.v, a.d + b.d}; }

static double digamma(double x)
{
    if (x < 0) return digamma(1 - x) - M_PI / tan(M_PI * x);
    double r = 0;
    for (; x < 10; x++) r -= 1 / x;
    double f = 1 / (x * x);
    return r + log(x) - 0.5 / x - f * (1.0 / 12 - f * (1.0 / 120 - f * (1.0 / 252 - f * (1.0 / 240 - f * (1.0 / 132)))));
}

#define LARGE 1e7 /* parameters from which a distribution is normal to that many digits; below, the sums end within thousands of steps */

/* dx/dalpha of a sample x = F^-1(u; alpha): minus dF/dalpha over the density. F is x^a e^-x / Gamma(a) times a sum,
 * so the density cancels: with F = x f(x) S, dx/dalpha = -x ((log x - digamma(a)) S + S'). */
static double gamma_slope(double a, double x)
{
    if (!(x > 0) || !(a > 0)) return x == 0 ? 0 : NAN;
    if (a > LARGE) return 1 + (x - a) / (2 * a); /* x = a + sqrt(a) z */
    double by_a = log(x) - digamma(a);
    if (x < a + 1) { /* S = sum x^k / (a (a+1) ... (a+k)) */
        dual term = over((dual){1, 0}, (dual){a, 1}), sum = term;
        for (int64_t k = 1; k < 1000000; k++) {
            term = over(times(term, (dual){x, 0}), (dual){a + (double)k, 1});
            sum = plus(sum, term);
            if (!(term.v > sum.v * 1e-17 || fabs(term.d) > fabs(sum.d) * 1e-17)) break;
        }
        return -x * (by_a * sum.v + sum.d);
    }
    /* 1 - F by Lentz's evaluation of its continued fraction */
    dual b = {x + 1 - a, -1}, c = {1e300, 0}, d = over((dual){1, 0}, b), h = d;
    for (int64_t i = 1; i < 1000000; i++) {
        dual an = {-(double)i * ((double)i - a), (double)i};
        b.v += 2;
        d = over((dual){1, 0}, plus(times(an, d), b));
        c = plus(b, over(an, c));
        dual step = times(c, d);
        h = times(h, step);
        if (!(fabs(step.v - 1) > 4e-16 || fabs(step.d) > 1e-16)) break;
    }
    return x * (by_a * h.v + h.d);
}

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
    return rush_out_like(out, 0, in[0].t, in[0].t->dtype) ? 0 : -1;
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

/* Continued fraction of the incomplete beta function, with its derivatives by a and (sign -1) by b. */
static dual beta_fraction(dual a, dual b, double x)
{
    dual one = {1, 0}, ab = plus(a, b), ap = plus(a, one), am = {a.v - 1, a.d}, c = one;
    dual t = over(times(ab, (dual){x, 0}), ap), d = over(one, (dual){1 - t.v, -t.d}), h = d;
    for (int m = 1; m < 100000; m++) {
        double k = m;
        dual two = {2 * k, 0};
        dual even = over(times((dual){k * (b.v - k) * x, k * b.d * x}, one), times(plus(am, two), plus(a, two)));
        d = over(one, plus(one, times(even, d)));
        c = plus(one, over(even, c));
        h = times(h, times(d, c));
        dual odd = times(times((dual){-(a.v + k), -a.d}, (dual){ab.v + k, ab.d}), (dual){x, 0});
        odd = over(odd, times(plus(a, two), plus(ap, two)));
        d = over(one, plus(one, times(odd, d)));
        c = plus(one, over(odd, c));
        dual step = times(d, c);
        h = times(h, step);
        if (!(fabs(step.v - 1) > 4e-16 || fabs(step.d) > 1e-16)) break;
    }
    return h;
}

/* dx/dalpha of a Beta(alpha, beta) sample, over 1 - x. I_x(a, b) = x^a (1-x)^b / (a B(a, b)) * h, and the density is
 * x^(a-1) (1-x)^(b-1) / B(a, b). */
static double dirichlet_slope(double x, double a, double total)
{
    double b = total - a;
    if (!(x > 0 && x < 1 && a > 0 && b > 0)) return x == 0 || x == 1 ? 0 : NAN;
    if (RUSH_MIN(a, b) > LARGE) { /* x = m + s z, s^2 = m (1 - m) / total */
        double m = a / total, z = (x - m) / sqrt(m * (1 - m) / total), slope = (1 - m) / total;
        double of_spread = sqrt(m * (1 - m) / total) / 2 * (slope * (1 - 2 * m) / (m * (1 - m)) - 1 / total);
        return (slope + z * of_spread) / (1 - x);
    }
    if (x < (a + 1) / (total + 2)) {
        dual h = over(beta_fraction((dual){a, 1}, (dual){b, 0}, x), (dual){a, 1});
        return -x * ((log(x) - digamma(a) + digamma(total)) * h.v + h.d);
    }
    dual h = beta_fraction((dual){b, 0}, (dual){a, 1}, 1 - x);
    h = over(h, (dual){b, 0});
    return x * ((log(x) - digamma(a) + digamma(total)) * h.v + h.d);
}

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
    rush_tensor *e = rush_tensor_new(p->dtype, p->device, p->ndim, p->size);
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
