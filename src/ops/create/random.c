/* random.c - numbers drawn from a distribution: factories (rand, randn, ...), name_ and name forms.
 *
 * A distribution is a sampler: it draws blocks in a wide dtype, which are converted into the tensor. Which words
 * of the generator make which number, and how it is rounded, is PyTorch's on the CPU, bit by bit.
 */
#include "ops/create/pin.h"
#include "op/tables.h"
#include "ops/create/random.h"
#include "tensor/backend.h"
#include "kernels/cpu/random.h"
#include "ops/geometry.h"

#include <math.h>

/* ---- single numbers ---- */

double rush_uniform_one(rush_generator *g)
{
    return (double)(rush_random64(g) & (((uint64_t)1 << 53) - 1)) * 0x1p-53;
}

/* Box-Muller makes two; the second waits in the generator. */
double rush_normal_one(rush_generator *g)
{
    if (g->has_normal_double) {
        g->has_normal_double = false;
        return g->normal_double;
    }
    double u = rush_uniform_one(g), v = rush_uniform_one(g);
    double radius = sqrt(-2 * log1p(-v)), angle = 6.28318530717958647692 * u;
    g->normal_double = radius * sin(angle);
    g->has_normal_double = true;
    return radius * cos(angle);
}

rush_generator *rush_generator_of(rush_value v)
{
    return v.kind == RUSH_V_GENERATOR && v.gen ? v.gen : rush_default_generator();
}

int rush_generator_check(rush_value v, rush_device device)
{
    RUSH_CHECK(v.kind != RUSH_V_GENERATOR || !v.gen || device.type == RUSH_META || rush_same_device(v.gen->device, rush_device_resolve(device)), RUSH_RUNTIME_ERROR,
               "Expected a '%s' device type for generator but found '%s'", rush_device_name(device.type), rush_device_name(v.gen->device.type));
    return 0;
}

/* ---- n elements of a sampler's block ---- */

#define BLOCK 1024

static float round_to(rush_dtype d, float x)
{
    return d == RUSH_F16 ? rush_f16_to_f32(rush_f32_to_f16(x)) : d == RUSH_BF16 ? rush_bf16_to_f32(rush_f32_to_bf16(x)) : x;
}

static void uniform_draw(const sampler *s, rush_generator *g, void *block, int64_t n)
{
    if (s->block == RUSH_F64) {
        rush_k_random->uniform_f64(g, block, n, s->a, s->b);
        return;
    }
    float *f = block;
    rush_k_random->uniform_f32(g, f, n, (float)s->a, (float)s->b);
    if (s->dtype != RUSH_F16 && s->dtype != RUSH_BF16) return;
    float from = round_to(s->dtype, (float)s->a), to = round_to(s->dtype, (float)s->b);
    for (int64_t i = 0; i < n; i++)
        if (round_to(s->dtype, f[i]) == to) f[i] = from;
}

static void normal_draw(const sampler *s, rush_generator *g, void *block, int64_t n)
{
    double *p = block;
    for (int64_t i = 0; i < n; i++) p[i] = fma(rush_normal_one(g), s->b, s->a);
}

static void log_normal_draw(const sampler *s, rush_generator *g, void *block, int64_t n)
{
    normal_draw(s, g, block, n);
    double *p = block;
    for (int64_t i = 0; i < n; i++) p[i] = exp(p[i]);
}

static void exponential_draw(const sampler *s, rush_generator *g, void *block, int64_t n)
{
    double *p = block, by = -1.0 / s->a;
    rush_k_random->uniform_f64(g, p, n, 0, 1);
    for (int64_t i = 0; i < n; i++) p[i] = by * log1p(-p[i]);
}

static void geometric_draw(const sampler *s, rush_generator *g, void *block, int64_t n)
{
    double *p = block, by = log(1 - s->a);
    rush_k_random->uniform_f64(g, p, n, 0, 1);
    for (int64_t i = 0; i < n; i++) p[i] = ceil(log(p[i]) / by);
}

static void cauchy_draw(const sampler *s, rush_generator *g, void *block, int64_t n)
{
    double *p = block;
    rush_k_random->uniform_f64(g, p, n, 0, 1);
    for (int64_t i = 0; i < n; i++) p[i] = fma(s->b, tan(3.14159265358979323846 * (p[i] - 0.5)), s->a);
}

static void bernoulli_draw(const sampler *s, rush_generator *g, void *block, int64_t n)
{
    rush_k_random->below(g, block, n, s->a);
}

static void integer_draw(const sampler *s, rush_generator *g, void *block, int64_t n)
{
    int64_t *p = block;
    uint32_t w[2 * BLOCK];
    for (int64_t at = 0; at < n; at += BLOCK) {
        int64_t k = RUSH_MIN(n - at, (int64_t)BLOCK);
        rush_k_random->words(g, w, s->wide ? 2 * k : k);
        for (int64_t i = 0; i < k; i++) {
            uint64_t x = s->wide ? (uint64_t)w[2 * i] << 32 | w[2 * i + 1] : w[i];
            p[at + i] = (int64_t)((s->range ? x % s->range : x) + (uint64_t)s->base);
        }
    }
}

static void (*const draw[DISTRIBUTIONS])(const sampler *, rush_generator *, void *block, int64_t n) = {
    [UNIFORM] = uniform_draw, [NORMAL] = normal_draw, [LOG_NORMAL] = log_normal_draw, [EXPONENTIAL] = exponential_draw,
    [GEOMETRIC] = geometric_draw, [CAUCHY] = cauchy_draw, [BERNOULLI] = bernoulli_draw, [INTEGER] = integer_draw,
};

/* ---- filling a tensor ---- */

static void fill_run(const sampler *s, rush_generator *g, char *p, rush_dtype dtype, int64_t stride, int64_t n)
{
    if (dtype == s->block && stride == rush_dtypes[dtype].size) {
        draw[s->of](s, g, p, n);
        return;
    }
    double block[BLOCK];
    for (int64_t at = 0; at < n; at += BLOCK) {
        int64_t k = RUSH_MIN(n - at, (int64_t)BLOCK);
        draw[s->of](s, g, block, k);
        rush_convert_many(p + at * stride, dtype, stride, block, s->block, rush_dtypes[s->block].size, k);
    }
}

/* n >= 16 normal numbers in one piece: blocks of 16, the last one drawn anew over the end. Half types skip the words
 * of the incomplete block, float and double use them up. */
static void normal_blocks(const sampler *s, rush_generator *g, char *p, rush_dtype dtype, int64_t n)
{
    bool f64 = dtype == RUSH_F64, half = !f64 && dtype != RUSH_F32;
    size_t size = rush_dtypes[dtype].size;
    union { float f[BLOCK]; double d[BLOCK]; } b;
    int64_t whole = n / 16 * 16;
    for (int64_t at = 0; at < n + 16; at += BLOCK) {
        int64_t k = RUSH_MIN(whole - at, (int64_t)BLOCK);
        char *to = p + at * (int64_t)size;
        if (k <= 0) break;
        if (f64) {
            rush_k_random->uniform_f64(g, (double *)to, k, 0, 1);
            rush_k_random->normal_f64((double *)to, k, s->a, s->b);
        } else {
            float *f = half ? b.f : (float *)to;
            rush_k_random->uniform_f32(g, f, k, 0, 1);
            rush_k_random->normal_f32(f, k, (float)s->a, (float)s->b);
            if (half) rush_convert_many(to, dtype, (int64_t)size, f, RUSH_F32, 4, k);
        }
    }
    if (whole == n) return;
    p += (n - 16) * (int64_t)size;
    if (f64) {
        rush_k_random->uniform_f64(g, b.d, n - whole, 0, 1);
        rush_k_random->uniform_f64(g, (double *)p, 16, 0, 1);
        rush_k_random->normal_f64((double *)p, 16, s->a, s->b);
    } else {
        if (!half) rush_k_random->uniform_f32(g, b.f, n - whole, 0, 1);
        rush_k_random->uniform_f32(g, b.f, 16, 0, 1);
        rush_k_random->normal_f32(b.f, 16, (float)s->a, (float)s->b);
        rush_convert_many(p, dtype, (int64_t)size, b.f, RUSH_F32, 4, 16);
    }
}

void rush_sample_into(rush_tensor *t, const sampler *s, rush_generator *g)
{
    if (!t->numel) return;
    if (t->flags & (RUSH_T_CONJ | RUSH_T_NEG)) { /* by way of one that lies as it reads */
        rush_tensor *plain = rush_tensor_new_like(t, t->dtype, t->device, RUSH_PRESERVE);
        if (plain) rush_sample_into(plain, s, g);
        if (plain && !rush_failed()) rush_copy_into(t, plain);
        return;
    }
    if (rush_dtype_is_complex(t->dtype)) { /* two numbers of half the variance each */
        sampler real = *s;
        if (s->of == NORMAL) real.b /= sqrt(2);
        real.dtype = rush_dtype_real(t->dtype);
        rush_tensor *parts = T("view_as_real", V(t));
        if (parts) rush_sample_into(parts, &real, g);
        return;
    }
    const rush_tables *tables = rush_tables_of[t->device.type];
    if (RUSH_UNLIKELY(tables != NULL)) return (void)tables->sample(t, s, g);
    if (!g) g = rush_default_generator();
    rush_generator_lock(g);
    if (s->of == NORMAL && t->numel >= 16 && rush_contiguous(t)) {
        normal_blocks(s, g, rush_ptr(t), t->dtype, t->numel);
    } else if (t->flags & RUSH_T_DENSE) {
        fill_run(s, g, rush_ptr(t), t->dtype, rush_dtypes[t->dtype].size, t->numel);
    } else {
        rush_iter it;
        rush_value v = rush_v_tensor(t);
        if (!rush_iter_init(&it, 1, 1, &v, &t->dtype)) {
            int64_t index[RUSH_MAXDIM] = {0}, lines = it.ndim ? it.numel / it.size[0] : 1;
            for (int64_t line = 0; line < lines; line++) {
                char *p = it.data[0];
                for (int d = 1; d < it.ndim; d++) p += index[d] * it.stride[0][d];
                fill_run(s, g, p, t->dtype, it.ndim ? it.stride[0][0] : 0, it.ndim ? it.size[0] : 1);
                for (int d = 1; d < it.ndim && ++index[d] == it.size[d]; d++) index[d] = 0;
            }
        }
    }
    rush_generator_unlock(g);
}

/* ---- the distributions ---- */

static int needs_float(rush_dtype d, const char *what)
{
    RUSH_CHECK(rush_dtypes[d].category == 2 && d < RUSH_F8E4M3FN, RUSH_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", what,
               rush_dtype_word(d));
    return 0;
}

static int needs_number(rush_dtype d, const char *what)
{
    bool fine = d <= RUSH_I64 || (d >= RUSH_F16 && d <= RUSH_F64);
    RUSH_CHECK(fine, RUSH_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", what, rush_dtype_word(d));
    return 0;
}

static int uniform_with(sampler *s, rush_dtype d, double from, double to)
{
    rush_dtype real = rush_dtype_real(d);
    if (needs_float(real, "check_uniform_bounds")) return -1;
    double most = rush_dtypes[real].max;
    RUSH_CHECK(from >= -most && from <= most, RUSH_RUNTIME_ERROR, "from is out of bounds for %s", rush_dtype_name(real));
    RUSH_CHECK(to >= -most && to <= most, RUSH_RUNTIME_ERROR, "to is out of bounds for %s", rush_dtype_name(real));
    RUSH_CHECK(from <= to, RUSH_RUNTIME_ERROR, "uniform_ expects to return a [from, to) range, but found from=%g > to=%g", from, to);
    RUSH_CHECK(to - from <= most, RUSH_RUNTIME_ERROR, "uniform_ expects to-from <= std::numeric_limits<%s>::max(), but found to=%g and from=%g",
               rush_dtype_name(real), to, from);
    *s = (sampler){.of = UNIFORM, .block = real == RUSH_F64 ? RUSH_F64 : RUSH_F32, .dtype = real, .a = from, .b = to};
    return 0;
}

static int normal_with(sampler *s, rush_dtype d, double mean, double std)
{
    RUSH_CHECK(std >= 0, RUSH_RUNTIME_ERROR, "normal expects std >= 0.0, but found std %g", std);
    if (needs_float(rush_dtype_real(d), "normal_kernel_cpu")) return -1;
    *s = (sampler){.of = NORMAL, .block = RUSH_F64, .dtype = d, .a = mean, .b = std};
    return 0;
}

static int log_normal_with(sampler *s, rush_dtype d, double mean, double std)
{
    RUSH_CHECK(std > 0, RUSH_RUNTIME_ERROR, "log_normal_ expects std > 0.0, but found std=%g", std);
    if (needs_float(d, "log_normal_cpu")) return -1;
    *s = (sampler){.of = LOG_NORMAL, .block = RUSH_F64, .dtype = d, .a = mean, .b = std};
    return 0;
}

int rush_sampler_exponential(sampler *s, rush_dtype d, double lambda)
{
    RUSH_CHECK(lambda > 0, RUSH_RUNTIME_ERROR, "exponential_ expects lambda > 0.0, but found lambda=%g", lambda);
    if (needs_float(d, "exponential_cpu")) return -1;
    *s = (sampler){.of = EXPONENTIAL, .block = RUSH_F64, .dtype = d, .a = lambda};
    return 0;
}

static int geometric_with(sampler *s, rush_dtype d, double p)
{
    RUSH_CHECK(p > 0 && p < 1, RUSH_RUNTIME_ERROR, "geometric_ expects p to be in (0, 1), but got p=%g", p);
    RUSH_CHECK(d != RUSH_BOOL, RUSH_NOT_IMPLEMENTED, "\"geometric_cpu\" not implemented for 'Bool'");
    if (needs_number(d, "geometric_cpu")) return -1;
    *s = (sampler){.of = GEOMETRIC, .block = RUSH_F64, .dtype = d, .a = p};
    return 0;
}

static int cauchy_with(sampler *s, rush_dtype d, double median, double sigma)
{
    RUSH_CHECK(sigma > 0, RUSH_RUNTIME_ERROR, "cauchy_ expects sigma > 0.0, but found sigma=%g", sigma);
    RUSH_CHECK(rush_dtypes[d].category == 2, RUSH_RUNTIME_ERROR,
               "Cauchy distribution is a continuous probability distribution. dtype must be a floating point but you specified %s",
               rush_dtype_name(d));
    if (needs_float(d, "cauchy_cpu")) return -1;
    *s = (sampler){.of = CAUCHY, .block = RUSH_F64, .dtype = d, .a = median, .b = sigma};
    return 0;
}

int rush_sampler_bernoulli(sampler *s, rush_dtype d, double p)
{
    RUSH_CHECK(p >= 0 && p <= 1, RUSH_RUNTIME_ERROR, "bernoulli_ expects p to be in [0, 1], but got p=%g", p);
    if (needs_number(d, "bernoulli_scalar_cpu_")) return -1;
    *s = (sampler){.of = BERNOULLI, .block = RUSH_U8, .dtype = d, .a = p};
    return 0;
}

/* ---- integers ---- */

static int digits_of(rush_dtype d) /* of a floating type's mantissa */
{
    return d == RUSH_F64 ? 53 : d == RUSH_F32 ? 24 : d == RUSH_F16 ? 11 : 8;
}

static int64_t largest_of(rush_dtype d) /* up to which a type holds every whole number */
{
    if (rush_dtypes[d].category == 2) return (int64_t)1 << digits_of(d);
    return d == RUSH_I64 ? INT64_MAX : (int64_t)rush_dtypes[d].max;
}

static int random_with(sampler *s, rush_dtype d)
{
    if (needs_number(d, "random_kernel_cpu")) return -1;
    *s = (sampler){.of = INTEGER, .block = RUSH_I64, .dtype = d, .range = (uint64_t)largest_of(d) + 1,
                   .wide = d == RUSH_I64 || d == RUSH_F64};
    return 0;
}

/* Whole numbers beyond the bits of a float's mantissa are not all there; what float16 does not reach at all is an error. */
static int float_holds(rush_dtype d, const char *name, int64_t n)
{
    const rush_dtype_info *info = &rush_dtypes[d];
    int bits = digits_of(d);
    RUSH_CHECK((double)n >= info->min && (double)n <= info->max, RUSH_RUNTIME_ERROR, "%s is out of bounds for %s", name, info->c_type);
    int64_t whole = (int64_t)1 << bits;
    if (n < -whole || n > whole)
        rush_log(1, "%s is out of bounds [-(2^%d), 2^%d]: of the whole numbers beyond, %s has only some, so they are not drawn evenly", name, bits, bits, info->c_type);
    return rush_failed() ? -1 : 0;
}

static int random_between(sampler *s, rush_dtype d, int64_t from, int64_t to)
{
    RUSH_CHECK(from < to, RUSH_RUNTIME_ERROR, "random_ expects 'from' to be less than 'to', but got from=%lld >= to=%lld", (long long)from,
               (long long)to);
    bool unsigned_wide = d >= RUSH_U16 && d <= RUSH_U64;
    if (!unsigned_wide && needs_number(d, "random_from_to_kernel_cpu")) return -1;
    if (rush_dtypes[d].category < 2) {
        const rush_dtype_info *info = &rush_dtypes[d];
        int64_t most = d == RUSH_U64 ? INT64_MAX : largest_of(d);
        RUSH_CHECK((double)from >= info->min && from <= most, RUSH_RUNTIME_ERROR, "from is out of bounds for %s", info->name);
        RUSH_CHECK((double)(to - 1) >= info->min && to - 1 <= most, RUSH_RUNTIME_ERROR, "to - 1 is out of bounds for %s", info->name);
    }
    if (rush_dtypes[d].category == 2 && (float_holds(d, "from", from) || float_holds(d, "to - 1", to - 1))) return -1;
    uint64_t range = (uint64_t)to - (uint64_t)from;
    *s = (sampler){.of = INTEGER, .block = RUSH_I64, .dtype = d, .base = from, .range = range, .wide = range >= (uint64_t)1 << 28};
    return 0;
}

/* random_(from, None): up to the largest number of the type. */
static int random_from(sampler *s, rush_dtype d, int64_t from)
{
    int64_t most = d <= RUSH_U32 || (d >= RUSH_F16 && d <= RUSH_F64) ? largest_of(d) : 0;
    if (d != RUSH_U16 && d != RUSH_U32 && needs_number(d, "random_from_to_kernel_cpu")) return -1;
    if (rush_dtypes[d].category < 2)
        RUSH_CHECK((double)from >= rush_dtypes[d].min && from <= most, RUSH_RUNTIME_ERROR, "from is out of bounds for %s", rush_dtype_name(d));
    RUSH_CHECK(from <= most, RUSH_RUNTIME_ERROR, "random_ expects 'from' casted to dtype to be less than or equal to 'to_inc' casted to dtype");
    uint64_t range = (uint64_t)most - (uint64_t)from + 1; /* 0: all 64 bits */
    *s = (sampler){.of = INTEGER, .block = RUSH_I64, .dtype = d, .base = range ? from : 0, .range = range,
                   .wide = !range || range >= (uint64_t)1 << 28};
    return 0;
}

/* ---- name_ and name: argument 0 is the tensor, then the parameters, the generator last ---- */

typedef int (*prepare)(sampler *, rush_dtype, const rush_value *in);

static int p_normal(sampler *s, rush_dtype d, const rush_value *in) { return normal_with(s, d, D_(in[1]), D_(in[2])); }
static int p_uniform(sampler *s, rush_dtype d, const rush_value *in) { return uniform_with(s, d, D_(in[1]), D_(in[2])); }
static int p_log_normal(sampler *s, rush_dtype d, const rush_value *in) { return log_normal_with(s, d, D_(in[1]), D_(in[2])); }
static int p_cauchy(sampler *s, rush_dtype d, const rush_value *in) { return cauchy_with(s, d, D_(in[1]), D_(in[2])); }
static int p_exponential(sampler *s, rush_dtype d, const rush_value *in) { return rush_sampler_exponential(s, d, D_(in[1])); }
static int p_geometric(sampler *s, rush_dtype d, const rush_value *in) { return geometric_with(s, d, D_(in[1])); }
static int p_bernoulli(sampler *s, rush_dtype d, const rush_value *in) { return rush_sampler_bernoulli(s, d, D_(in[1])); }
static int p_random(sampler *s, rush_dtype d, const rush_value *in) { return random_with(s, d); }
static int p_random_to(sampler *s, rush_dtype d, const rush_value *in) { return random_between(s, d, 0, I_(in[1])); }
static int p_random_from(sampler *s, rush_dtype d, const rush_value *in)
{
    return HAS(in[2]) ? random_between(s, d, I_(in[1]), I_(in[2])) : random_from(s, d, I_(in[1]));
}

static int prepared(const rush_op *op, sampler *s, rush_dtype d, const rush_value *in)
{
    union { const void *row; prepare fn; } u = {.row = op->row};
    return u.fn(s, d, in);
}

static int inplace_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    sampler s;
    rush_tensor *t = in[0].t;
    if (rush_generator_check(in[op->nargs - 1], t->device) || prepared(op, &s, t->dtype, in)) return -1;
    RUSH_CHECK(!rush_self_overlap(t), RUSH_RUNTIME_ERROR,
               "unsupported operation: more than one element of the written-to tensor refers to a single memory location. Please clone() the tensor before performing the operation.");
    rush_out_view(out, 0, t);
    return 0;
}

static int like_check(const rush_op *op, const rush_value *in)
{
    sampler s;
    return rush_generator_check(in[op->nargs - 1], in[0].t->device) || prepared(op, &s, in[0].t->dtype, in) ? -1 : 0;
}

static int like_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    return like_check(op, in) || !rush_out_like(out, 0, in[0].t, in[0].t->dtype) ? -1 : 0;
}

static int contiguous_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    return like_check(op, in) || !rush_out_t(out, 0, in[0].t, in[0].t->dtype, in[0].t->ndim, in[0].t->size) ? -1 : 0;
}

static void sample_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    sampler s;
    if (!prepared(op, &s, out[0].t->dtype, in)) rush_sample_into(out[0].t, &s, rush_generator_of(in[op->nargs - 1]));
}

#define DISTRIBUTION(id, over, head, args, text)                                                            \
    static rush_op op_##id##_ = {.schema = head "_" over "(Tensor(a!) self, " args "*, Generator? generator=None) -> Tensor(a!)", .method = RUSH_METHOD_, \
        .doc = "Fills self with " text, .shape = inplace_shape, .cpu = sample_cpu, .grad = rush_zero_grad,  \
        .flags = RUSH_SIDE_EFFECT, .row = (const void *)p_##id};
#define DISTRIBUTION_NEW(id, over, head, args, text)                                                        \
    static rush_op op_##id = {.schema = head over "(Tensor self, " args "*, Generator? generator=None) -> Tensor", .method = RUSH_NO_FUNCTION, \
        .doc = "A tensor like self filled with " text, .shape = like_shape, .cpu = sample_cpu, .grad = rush_zero_grad, \
        .flags = RUSH_SIDE_EFFECT | RUSH_HIDDEN, .row = (const void *)p_##id};
#define BOTH(id, over, head, args, text)                                                                    \
    DISTRIBUTION(id, over, head, args, text)                                                                \
    DISTRIBUTION_NEW(id, over, head, args, text)

BOTH(uniform, "", "uniform", "float from=0, float to=1, ", "numbers drawn uniformly from [from, to).")
BOTH(log_normal, "", "log_normal", "float mean=1, float std=2, ", "numbers whose logarithm is normal with mean and std.")
BOTH(cauchy, "", "cauchy", "float median=0, float sigma=1, ", "numbers of the Cauchy distribution.")
BOTH(exponential, "", "exponential", "float lambd=1, ", "numbers of the exponential distribution of rate lambd.")
BOTH(geometric, "", "geometric", "float p, ", "counts of trials up to the first success, of probability p each.")
BOTH(random, "", "random", "", "integers of the dtype's non-negative range; of floating types up to 2^mantissa.")
BOTH(random_to, ".to", "random", "int to, ", "integers from [0, to).")
BOTH(random_from, ".from", "random", "int from, int? to, ", "integers from [from, to); to=None: up to the dtype's largest.")
DISTRIBUTION(normal, "", "normal", "float mean=0, float std=1, ", "normal numbers.")
DISTRIBUTION(bernoulli, ".float", "bernoulli", "float p=0.5, ", "ones with probability p and zeros.")
static rush_op op_normal_functional = {
    .schema = "normal_functional(Tensor self, float mean=0, float std=1, *, Generator? generator=None) -> Tensor",
    .doc = "A tensor like self filled with normal numbers.", .shape = like_shape, .cpu = sample_cpu, .grad = rush_zero_grad,
    .flags = RUSH_SIDE_EFFECT | RUSH_HIDDEN, .row = (const void *)p_normal};
static rush_op op_bernoulli_p = {
    .schema = "bernoulli.p(Tensor self, float p, *, Generator? generator=None) -> Tensor", .method = RUSH_METHOD,
    .doc = "A tensor like self of ones with probability p and zeros.", .shape = contiguous_shape, .cpu = sample_cpu,
    .grad = rush_zero_grad, .flags = RUSH_SIDE_EFFECT, .row = (const void *)p_bernoulli};

/* ---- factories: the positions of their arguments are the row ---- */

typedef struct factory {
    int8_t size;      /* of int[] size; -1: like argument 0      */
    int8_t dtype;     /* then layout, device, pin_memory, and for the like forms memory_format */
    int8_t generator; /* -1: none */
    int8_t low, high; /* the bounds of integers (low -1: 0), mean and std of normal numbers (-1: 0 and 1) */
    distribution of;
} factory;

static int factory_sampler(sampler *s, const factory *f, rush_dtype d, const rush_value *in)
{
    if (f->of == UNIFORM) return uniform_with(s, d, 0, 1);
    if (f->of == NORMAL) return f->low < 0 ? normal_with(s, d, 0, 1) : normal_with(s, d, D_(in[f->low]), D_(in[f->high]));
    int64_t low = f->low < 0 ? 0 : rush_to_int(in[f->low]), high = rush_to_int(in[f->high]);
    return rush_failed() ? -1 : random_between(s, d, low, high);
}

static int factory_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const factory *f = op->row;
    const rush_tensor *like = f->size < 0 ? in[0].t : NULL;
    rush_value dtype = in[f->dtype], layout = in[f->dtype + 1], device = in[f->dtype + 2];
    RUSH_CHECK(!HAS(layout) || I_(layout) == RUSH_STRIDED, RUSH_NOT_IMPLEMENTED, "random numbers are drawn into strided tensors only");
    rush_tensor *given = T_(out[0]);
    rush_dtype d = given ? given->dtype : HAS(dtype) ? (rush_dtype)I_(dtype) : like ? like->dtype : f->of == INTEGER ? RUSH_I64 : rush_default_dtype();
    rush_device at = HAS(device) ? device.device : like ? like->device : given ? given->device : (rush_device){RUSH_CPU, -1};
    sampler s;
    if (rush_pin_check(in[f->dtype + 3], at)) return -1;
    if ((f->generator >= 0 && rush_generator_check(in[f->generator], at)) || factory_sampler(&s, f, d, in)) return -1;
    if (!like) return rush_out(out, 0, d, at, in[f->size].n, in[f->size].ints) ? 0 : -1;
    rush_value format = in[f->dtype + 4];
    if (given || (HAS(format) && I_(format) == RUSH_CONTIGUOUS)) return rush_out(out, 0, d, at, like->ndim, like->size) ? 0 : -1;
    rush_tensor *t = rush_tensor_new_like(like, d, at, HAS(format) ? (int)I_(format) : RUSH_PRESERVE);
    return rush_result(out, t);
}

static void factory_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    const factory *f = op->row;
    sampler s;
    if (factory_sampler(&s, f, out[0].t->dtype, in)) return;
    rush_sample_into(out[0].t, &s, f->generator < 0 ? NULL : rush_generator_of(in[f->generator]));
}

#define TAIL "Layout? layout=None, Device? device=None, bool? pin_memory=None"
#define FACTORY(id, text_schema, text, ...)                                                                 \
    static rush_op op_##id = {.schema = text_schema, .doc = text, .shape = factory_shape, .cpu = factory_cpu, \
        .flags = RUSH_SIDE_EFFECT | RUSH_NO_GRAD, .row = &(const factory){__VA_ARGS__}};

FACTORY(rand, "rand(SymInt[] size, *, ScalarType? dtype=None, " TAIL ") -> Tensor", "Numbers drawn uniformly from [0, 1).",
        0, 1, -1, -1, -1, UNIFORM)
FACTORY(rand_generator, "rand.generator(SymInt[] size, *, Generator? generator, ScalarType? dtype=None, " TAIL ") -> Tensor",
        "Numbers drawn uniformly from [0, 1) by a generator.", 0, 2, 1, -1, -1, UNIFORM)
FACTORY(randn, "randn(SymInt[] size, *, ScalarType? dtype=None, " TAIL ") -> Tensor", "Numbers of the standard normal distribution.",
        0, 1, -1, -1, -1, NORMAL)
FACTORY(randn_generator, "randn.generator(SymInt[] size, *, Generator? generator, ScalarType? dtype=None, " TAIL ") -> Tensor",
        "Numbers of the standard normal distribution, by a generator.", 0, 2, 1, -1, -1, NORMAL)
FACTORY(randint, "randint(SymInt high, SymInt[] size, *, ScalarType? dtype=long, " TAIL ") -> Tensor", "Integers from [0, high).",
        1, 2, -1, -1, 0, INTEGER)
FACTORY(randint_generator, "randint.generator(SymInt high, SymInt[] size, *, Generator? generator, ScalarType? dtype=long, " TAIL ") -> Tensor",
        "Integers from [0, high) by a generator.", 1, 3, 2, -1, 0, INTEGER)
FACTORY(randint_low, "randint.low(SymInt low, SymInt high, SymInt[] size, *, ScalarType? dtype=long, " TAIL ") -> Tensor",
        "Integers from [low, high).", 2, 3, -1, 0, 1, INTEGER)
FACTORY(randint_low_generator,
        "randint.low_generator(SymInt low, SymInt high, SymInt[] size, *, Generator? generator, ScalarType? dtype=long, " TAIL ") -> Tensor",
        "Integers from [low, high) by a generator.", 2, 4, 3, 0, 1, INTEGER)
FACTORY(normal_float_float,
        "normal.float_float(float mean, float std, SymInt[] size, *, Generator? generator=None, ScalarType? dtype=None, " TAIL ") -> Tensor",
        "Normal numbers.", 2, 4, 3, 0, 1, NORMAL)

#define LIKE TAIL ", MemoryFormat? memory_format=None) -> Tensor"
FACTORY(rand_like, "rand_like(Tensor self, *, ScalarType? dtype=None, " LIKE, "rand() of self's size.", -1, 1, -1, -1, -1, UNIFORM)
FACTORY(rand_like_generator, "rand_like.generator(Tensor self, *, Generator? generator, ScalarType? dtype=None, " LIKE,
        "rand() of self's size, by a generator.", -1, 2, 1, -1, -1, UNIFORM)
FACTORY(randn_like, "randn_like(Tensor self, *, ScalarType? dtype=None, " LIKE, "randn() of self's size.", -1, 1, -1, -1, -1, NORMAL)
FACTORY(randn_like_generator, "randn_like.generator(Tensor self, *, Generator? generator, ScalarType? dtype=None, " LIKE,
        "randn() of self's size, by a generator.", -1, 2, 1, -1, -1, NORMAL)
FACTORY(randint_like, "randint_like(Tensor self, SymInt high, *, ScalarType? dtype=None, " LIKE, "randint() of self's size.",
        -1, 2, -1, -1, 1, INTEGER)
FACTORY(randint_like_tensor, "randint_like.Tensor(Tensor self, Tensor high, *, ScalarType? dtype=None, " LIKE, "randint() of self's size.",
        -1, 2, -1, -1, 1, INTEGER)
FACTORY(randint_like_low, "randint_like.low_dtype(Tensor self, SymInt low, SymInt high, *, ScalarType? dtype=None, " LIKE,
        "randint() of self's size.", -1, 3, -1, 1, 2, INTEGER)
FACTORY(randint_like_generator, "randint_like.generator(Tensor self, SymInt high, *, Generator? generator, ScalarType? dtype=None, " LIKE,
        "randint() of self's size, by a generator.", -1, 3, 2, -1, 1, INTEGER)
FACTORY(randint_like_tensor_generator,
        "randint_like.Tensor_generator(Tensor self, Tensor high, *, Generator? generator, ScalarType? dtype=None, " LIKE,
        "randint() of self's size, by a generator.", -1, 3, 2, -1, 1, INTEGER)
FACTORY(randint_like_low_generator,
        "randint_like.low_generator_dtype(Tensor self, SymInt low, SymInt high, *, Generator? generator, ScalarType? dtype=None, " LIKE,
        "randint() of self's size, by a generator.", -1, 4, 3, 1, 2, INTEGER)

/* ---- normal numbers whose mean or std are tensors: standard ones, then scaled ---- */

static int normal_tensors(rush_value *out, rush_value mean, rush_value std, rush_value gen)
{
    const rush_tensor *m = T_(mean), *d = T_(std), *both[2] = {m ? m : d, d ? d : m};
    int64_t size[RUSH_MAXDIM];
    int ndim;
    if (d) {
        RUSH_CHECK(!rush_dtype_is_complex(d->dtype), RUSH_RUNTIME_ERROR, "normal expects standard deviation to be non-complex");
        rush_tensor *least = d->numel ? T("amin", std) : NULL;
        if (least && TN(out, "_assert_async.msg", V(T("ge.Scalar", V(least), V(0))), V("normal expects all elements of std >= 0.0"))) return -1;
    } else {
        RUSH_CHECK(D_(std) >= 0, RUSH_RUNTIME_ERROR, "normal expects std >= 0.0, but found std %g", D_(std));
    }
    if (rush_broadcast(2, both, &ndim, size)) return -1;
    rush_tensor *t = rush_tensor_new(both[0]->dtype, both[0]->device, ndim, size);
    if (!t || !T("normal_", V(t), V(0.0), V(1.0), gen)) return -1;
    if (!T_INPLACE("mul.Tensor", V(t), std) || !T_INPLACE("add.Tensor", V(t), mean)) return -1;
    return rush_result(out, t);
}

static int normal_run(const rush_op *op, const rush_value *in, rush_value *out) { return normal_tensors(out, in[0], in[1], in[2]); }

static rush_op op_normal_tensor_float = {
    .schema = "normal.Tensor_float(Tensor mean, float std=1, *, Generator? generator=None) -> Tensor",
    .doc = "Normal numbers, each of its own mean.", .run = normal_run, .grad = rush_zero_grad, .flags = RUSH_SIDE_EFFECT | RUSH_OUT_CASTS};
static rush_op op_normal_float_tensor = {
    .schema = "normal.float_Tensor(float mean, Tensor std, *, Generator? generator=None) -> Tensor",
    .doc = "Normal numbers, each of its own standard deviation.", .run = normal_run, .grad = rush_zero_grad, .flags = RUSH_SIDE_EFFECT | RUSH_OUT_CASTS};
static rush_op op_normal_tensor_tensor = {
    .schema = "normal.Tensor_Tensor(Tensor mean, Tensor std, *, Generator? generator=None) -> Tensor",
    .doc = "Normal numbers, each of its own mean and standard deviation.", .run = normal_run, .grad = rush_zero_grad, .flags = RUSH_SIDE_EFFECT | RUSH_OUT_CASTS};

/* ---- randperm ---- */

static int randperm_shape(const rush_value *in, rush_value *out, rush_value options)
{
    int64_t n = I_(in[0]);
    RUSH_CHECK(n >= 0, RUSH_RUNTIME_ERROR, "n must be non-negative, got %lld", (long long)n);
    rush_value dtype = options.values[0], device = options.values[2];
    rush_tensor *given = T_(out[0]);
    rush_dtype d = given ? given->dtype : HAS(dtype) ? (rush_dtype)I_(dtype) : RUSH_I64;
    if (needs_number(d, "randperm")) return -1;
    bool fits = d == RUSH_BF16 || n == 0 || n - 1 <= largest_of(d);
    RUSH_CHECK(fits || rush_dtypes[d].category != 2, RUSH_RUNTIME_ERROR, "n cannot be greater than %lld for %s type.", (long long)largest_of(d) + 1,
               rush_dtype_word(d));
    RUSH_CHECK(fits, RUSH_RUNTIME_ERROR, "value cannot be converted to type %s without overflow", rush_dtypes[d].c_type);
    rush_device at = HAS(device) ? device.device : given ? given->device : (rush_device){RUSH_CPU, -1};
    if (rush_pin_check(options.values[3], at)) return -1;
    return rush_out(out, 0, d, at, 1, &n) ? 0 : -1;
}

static int randperm_plain_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    return randperm_shape(in, out, (rush_value){.values = in + 1});
}

static int randperm_generator_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_generator_of(in[1]) ? randperm_shape(in, out, (rush_value){.values = in + 2}) : -1;
}

static void shuffle(rush_tensor *t, rush_generator *g)
{
    int64_t n = t->numel;
    bool direct = t->dtype == RUSH_I64 && rush_contiguous(t);
    int64_t *r = direct ? rush_ptr(t) : rush_scope_alloc((size_t)n * sizeof *r);
    if (!r) return;
    for (int64_t i = 0; i < n; i++) r[i] = i;
    rush_generator_lock(g);
    for (int64_t i = 0; i < n - 1; i++) {
        uint64_t word = n < UINT32_MAX / 20 ? rush_random32(g) : rush_random64(g), at = word % (uint64_t)(n - i);
        int64_t swap = r[i];
        r[i] = r[i + (int64_t)at];
        r[i + (int64_t)at] = swap;
    }
    rush_generator_unlock(g);
    if (!direct && n) rush_convert_many(rush_ptr(t), t->dtype, t->stride[0] * (int64_t)rush_dtypes[t->dtype].size, r, RUSH_I64, 8, n);
}

static void randperm_plain_cpu(const rush_op *op, const rush_value *in, rush_value *out) { shuffle(out[0].t, rush_default_generator()); }
static void randperm_generator_cpu(const rush_op *op, const rush_value *in, rush_value *out) { shuffle(out[0].t, rush_generator_of(in[1])); }

static rush_op op_randperm = {
    .schema = "randperm(SymInt n, *, ScalarType? dtype=long, " TAIL ") -> Tensor", .doc = "The numbers 0..n-1 in random order.",
    .shape = randperm_plain_shape, .cpu = randperm_plain_cpu, .flags = RUSH_SIDE_EFFECT | RUSH_NO_GRAD | RUSH_STRIDED_OUT};
static rush_op op_randperm_generator = {
    .schema = "randperm.generator(SymInt n, *, Generator? generator, ScalarType? dtype=long, " TAIL ") -> Tensor",
    .doc = "The numbers 0..n-1 in random order, by a generator.",
    .shape = randperm_generator_shape, .cpu = randperm_generator_cpu, .flags = RUSH_SIDE_EFFECT | RUSH_NO_GRAD | RUSH_STRIDED_OUT};

RUSH_FAMILY(random, &op_uniform_, &op_uniform, &op_log_normal_, &op_log_normal, &op_cauchy_, &op_cauchy, &op_exponential_,
            &op_exponential, &op_geometric_, &op_geometric, &op_random_, &op_random, &op_random_to_, &op_random_to,
            &op_random_from_, &op_random_from, &op_normal_, &op_normal_functional, &op_bernoulli_, &op_bernoulli_p,
            &op_rand, &op_rand_generator, &op_randn, &op_randn_generator, &op_randint, &op_randint_generator, &op_randint_low,
            &op_randint_low_generator, &op_normal_float_float, &op_rand_like, &op_rand_like_generator, &op_randn_like,
            &op_randn_like_generator, &op_randint_like, &op_randint_like_tensor, &op_randint_like_low,
            &op_randint_like_generator, &op_randint_like_tensor_generator, &op_randint_like_low_generator,
            &op_normal_tensor_float, &op_normal_float_tensor, &op_normal_tensor_tensor, &op_randperm, &op_randperm_generator)
