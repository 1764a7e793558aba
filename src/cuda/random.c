/* random.c - random numbers on CUDA devices: a seed and an offset, counted on by as much as PyTorch's launches count it.
 *
 * The offset is kept in the generator's normal_double, which seeding sets to 0 and which states carry: a number below 2^53.
 */
#include "cuda/column.h"
#include "op/formula.h"
#include "ops/create/random.h"
#include <math.h>
#include <pthread.h>

static pthread_mutex_t drawing = PTHREAD_MUTEX_INITIALIZER; /* generators of devices draw nowhere else */

/* As many threads as PyTorch starts for n elements. */
static int64_t threads_for(rush_device d, int64_t n)
{
    static int per_processor[CUDA_DEVICES];
    int *most = &per_processor[d.index];
    if (!*most && (cuda_driver->device_attribute(most, CU_ATTRIBUTE_THREADS_PER_MULTIPROCESSOR, cuda_devices[d.index].number) || *most < CUDA_THREADS)) *most = 2048;
    int64_t blocks = cuda_blocks_of(n, 1), at_once = (int64_t)cuda_devices[d.index].processors * (*most / CUDA_THREADS);
    return CUDA_THREADS * RUSH_MIN(blocks, at_once);
}

void cuda_random_take(rush_generator *g, uint64_t by, uint64_t *seed, uint64_t *offset)
{
    pthread_mutex_lock(&drawing);
    *seed = g->seed;
    *offset = (uint64_t)g->normal_double;
    g->has_normal_double = true; /* states carry it then */
    g->normal_double += (double)by;
    pthread_mutex_unlock(&drawing);
}

/* The seed, and the offset that the generator stands at (NULL: the device's), which counts on by `by`; what is captured takes them when it is launched. */
static int take(rush_device d, rush_generator *g, int64_t by, cuda_philox *from)
{
    rush_cuda_graph *graph = cuda_capture(d);
    if (!g || g->device.type == RUSH_CPU) g = rush_device_generator(d);
    if (!g) return -1;
    if (graph) return cuda_graph_draw(graph, g, (uint64_t)by, &from->state, &from->offset);
    cuda_random_take(g, (uint64_t)by, &from->seed, &from->offset);
    return 0;
}

/* What a generator of the host begins with that draws for the device: other words each time, the same after the same seed. */
uint64_t cuda_random_seed(rush_device d, rush_generator *g)
{
    cuda_philox from = {0};
    return take(d, g, 4, &from) ? 0 : from.seed ^ from.offset * 0x9e3779b97f4a7c15u;
}

/* Which elements have the numbers of one draw: those that lie a launch's threads apart, or neighbours; or neighbours in one draw of as many
 * threads as it takes. */
enum { APART, TOGETHER, ONE_DRAW };
#define UNIT ((distribution)DISTRIBUTIONS) /* the number as it was drawn, (0, 1] */

static int sample_into(rush_tensor *t, const sampler *s, rush_generator *g, int how)
{
    cuda_sample p = {.of = (int)s->of, .a = s->a, .b = s->b, .base = s->base, .range = s->range, .wide = s->wide, .together = how != APART};
    rush_value operand[1] = {V(t)};
    if (!t->numel) return 0;
    if (cuda_walk_make(&p.w, 1, 1, operand, &t->dtype)) return -1;
    bool wide = s->of == INTEGER ? s->wide : t->dtype == RUSH_F64; /* whatever the CPU draws in */
    p.unroll = wide ? 2 : 4;
    p.stride = how == ONE_DRAW ? (t->numel + p.unroll - 1) / p.unroll : threads_for(t->device, t->numel);
    if (take(t->device, g, how == ONE_DRAW ? 12 : 4 * ((t->numel - 1) / (p.stride * p.unroll) + 1), &p.from)) return -1;
    return cuda_launch(t->device, wide && s->of != INTEGER ? "sample_f64" : "sample_f32", &p, t->numel);
}

int cuda_sample_into(rush_tensor *t, const struct sampler *s, rush_generator *g) { return sample_into(t, s, g, APART); }

/* in = input, p, train: four elements side by side of each draw */
static void native_dropout(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t, *y = out[0].t, *mask = out[1].t;
    double p = D_(in[1]);
    if (HAS(in[2]) && !in[2].i) {
        if (!cuda_fill(mask, rush_v_int(1))) rush_copy_into(y, x);
        return;
    }
    sampler s = {.of = BERNOULLI, .block = RUSH_F32, .dtype = RUSH_BOOL, .a = 1 - p};
    if (sample_into(mask, &s, NULL, x->numel % 4 == 0 ? TOGETHER : APART)) return;
    rush_tensor *made = T("native_dropout_backward", V(x), V(mask), V(p == 1 ? 0 : 1 / (1 - p)));
    if (made) rush_copy_into(y, made);
}

static rush_generator *generator_of(rush_value v) { return v.kind == RUSH_V_GENERATOR ? v.gen : NULL; }

/* ones where a number is not above p */
static void bernoulli_tensor(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *to = out[0].t, *p = in[op->nargs - 2].kind == RUSH_V_TENSOR ? in[op->nargs - 2].t : in[0].t;
    const sampler s = {.of = UNIT, .block = RUSH_F32, .dtype = RUSH_F32};
    rush_tensor *u = rush_tensor_new_like(to, RUSH_F32, to->device, RUSH_PRESERVE);
    if (!u || sample_into(u, &s, generator_of(in[op->nargs - 1]), ONE_DRAW)) return;
    rush_tensor *ones = le(u, to_dtype(p, to->dtype == RUSH_F64 ? RUSH_F64 : RUSH_F32));
    if (ones) rush_copy_into(to, ones);
}

/* in: self, noise, lower, upper, training, generator. Slopes are computed in double from numbers of self's dtype. */
static void rrelu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t, *noise = in[1].t;
    const double lower = D_(in[2]), upper = D_(in[3]);
    if (!I_(in[4])) {
        rush_tensor *plain = T("leaky_relu", V(x), V((lower + upper) / 2));
        if (plain) rush_copy_into(out[0].t, plain);
        return;
    }
    const sampler s = {.of = UNIT, .block = x->dtype, .dtype = x->dtype};
    rush_tensor *u = rush_tensor_new(x->dtype, x->device, x->ndim, x->size);
    if (!u || sample_into(u, &s, generator_of(in[5]), APART)) return;
    rush_tensor *slopes = to_dtype(add(mul(to_dtype(u, RUSH_F64), upper - lower), lower), x->dtype);
    slopes = where(le(x, 0.0), slopes, ones_like(u));
    rush_tensor *y = mul(x, slopes);
    if (!y || rush_copy_into(noise, slopes) || rush_copy_into(out[0].t, y)) return;
    rush_version_bump(noise);
}

/* in: self, num_samples, replacement, generator. Without replacement: the largest of p / e, e exponential. */
static void multinomial(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *p = in[0].t, *e;
    const int64_t n = I_(in[1]);
    if ((I_(in[2]) && n > 1) || !p->numel) return cuda_host_run(op, in, out);
    rush_tensor *right = T("all", V(logical_and(ge(p, 0.0), lt(p, INFINITY)))), *empty = T("any", V(eq(sum_dim(p, -1, false), 0.0)));
    if (rush_failed()) return;
    if (cuda_capture(p->device)) {
        rush_value none[RUSH_MAXOUT];
        if (TN(none, "_assert_async", V(logical_and(right, logical_not(empty))))) return;
    } else if (rush_number_of(right) == 0 || rush_number_of(empty) != 0) return cuda_host_run(op, in, out); /* it says what is wrong */
    const sampler s = {.of = EXPONENTIAL, .block = p->dtype, .dtype = p->dtype, .a = 1};
    if (!(e = rush_tensor_new_like(p, p->dtype, p->device, RUSH_PRESERVE)) || sample_into(e, &s, generator_of(in[3]), APART)) return;
    rush_value best[RUSH_MAXOUT];
    rush_tensor *shares = div_(p, e);
    if (n == 1) best[1].t = T("argmax", V(shares), V(-1), V(true));
    else if (TN(best, "topk", V(shares), V(n))) return;
    if (best[1].t) rush_copy_into(out[0].t, best[1].t);
}

/* 0 ... n - 1 sorted by random keys of so many bits that most often no two are equal; with a chance of 0.9, by the formula of a birthday. */
static void randperm(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *to = out[0].t;
    const int64_t n = to->numel;
    const double size = (double)n;
    const int bits = (int)fmin(64, ceil(log2(size - (6 * size * size + 1) / (12 * log(0.9)))));
    const bool narrow = bits <= 32;
    const sampler s = {.of = INTEGER, .wide = true, .base = narrow ? INT32_MIN : INT64_MIN, .range = narrow ? UINT32_MAX : UINT64_MAX};
    rush_generator *g = op->nargs > 1 ? generator_of(in[1]) : NULL;
    if (!n) return;
    rush_tensor *keys = rush_tensor_new(narrow ? RUSH_I32 : RUSH_I64, to->device, 1, &n);
    if (!keys || sample_into(keys, &s, g, APART)) return;
    if (bits != 32 && bits != 64) keys = T("bitwise_and.Scalar", V(keys), V((int64_t)(((uint64_t)1 << bits) - 1)));
    rush_value sorted[RUSH_MAXOUT];
    cuda_islands p = {.n = n, .dtype = narrow ? RUSH_I32 : RUSH_I64};
    if (!keys || TN(sorted, "sort.stable", V(keys), V(true)) || take(to->device, g, (n + 3) / 4 * 4, &p.from)) return;
    p.key = rush_ptr(sorted[0].t), p.place = rush_ptr(sorted[1].t);
    if (!cuda_launch(to->device, "shuffle_islands", &p, n)) rush_copy_into(to, sorted[1].t);
}

/* Each element from a sequence of its own, with parameters a and b: numbers that PyTorch does not draw. */
static int draw_each(const char *kernel, rush_tensor *to, rush_value a, rush_value b, rush_value generator)
{
    cuda_philox from = {0};
    if (!to->numel || take(to->device, generator_of(generator), 4, &from)) return 0;
    cuda_rows p = {.i = {(int64_t)from.seed, (int64_t)from.offset, (int64_t)(size_t)from.state}};
    return cuda_rows_run(kernel, 1, 3, (const rush_value[]){V(to), a, b}, (const uint8_t[]){RUSH_F64, RUSH_F64, RUSH_F64}, &p);
}
static void poisson(const rush_op *op, const rush_value *in, rush_value *out) { draw_each("draw_poisson", out[0].t, in[0], rush_v_float(0), in[1]); }
static void binomial(const rush_op *op, const rush_value *in, rush_value *out) { draw_each("draw_binomial", out[0].t, in[0], in[1], in[2]); }
static void gamma_(const rush_op *op, const rush_value *in, rush_value *out)
{
    draw_each(in[0].t->dtype == RUSH_F64 ? "draw_gamma" : "draw_gamma_narrow", out[0].t, in[0], rush_v_float(rush_dtypes[in[0].t->dtype].tiny), in[1]);
}

/* Gamma numbers in double over their sum; not 0 and not 1, whatever the dtype. */
static void dirichlet(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_dtype_info *info = &rush_dtypes[in[0].t->dtype];
    rush_tensor *x = in[0].t, *g = rush_tensor_new(RUSH_F64, x->device, x->ndim, x->size);
    if (!g || !x->numel || draw_each("draw_gamma", g, in[0], rush_v_float(rush_dtypes[RUSH_F64].tiny), in[1])) return;
    rush_tensor *y = div_(g, sum_dim(g, -1, true));
    if (y && (y = T("clamp", V(y), V(info->tiny), V(1 - info->eps / 2)))) rush_copy_into(out[0].t, y);
}

static void slopes(const char *kernel, int n, const rush_value *in, rush_value *out)
{
    cuda_rows p = {0};
    const rush_value operand[4] = {out[0], in[0], in[1], n > 2 ? in[2] : RUSH_NONE};
    cuda_rows_run(kernel, 1, n + 1, operand, (const uint8_t[]){RUSH_F64, RUSH_F64, RUSH_F64, RUSH_F64}, &p);
}
static void gamma_slope(const rush_op *op, const rush_value *in, rush_value *out) { slopes("slope_gamma", 2, in, out); }
static void dirichlet_slope(const rush_op *op, const rush_value *in, rush_value *out) { slopes("slope_dirichlet", 3, in, out); }

const cuda_kernel cuda_random_kernels[] = {{"poisson", poisson}, {"binomial", binomial}, {"_standard_gamma", gamma_}, {"_sample_dirichlet", dirichlet},
                                           {"_standard_gamma_grad", gamma_slope}, {"_dirichlet_grad", dirichlet_slope},
                                           {"native_dropout", native_dropout}, {"bernoulli", bernoulli_tensor}, {"bernoulli_.Tensor", bernoulli_tensor},
                                           {"bernoulli.Tensor", bernoulli_tensor}, {"rrelu_with_noise", rrelu}, {"multinomial", multinomial},
                                           {"randperm", randperm}, {"randperm.generator", randperm}, {0}};
