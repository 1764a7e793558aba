/* random.c - random numbers on CUDA devices: a seed and an offset, counted on by as much as PyTorch's launches count it.
 *
 * The offset is kept in the generator's normal_double, which seeding sets to 0 and which states carry: a number below 2^53.
 */
#include "cuda/column.h"
#include "op/formula.h"
#include "ops/create/random.h"
#include <pthread.h>

static pthread_mutex_t drawing = PTHREAD_MUTEX_INITIALIZER; /* generators of devices draw nowhere else */

/* As many threads as PyTorch starts for n elements. */
static int64_t threads_for(rush_device d, int64_t n)
{
    static int per_processor[CUDA_DEVICES];
    int *most = &per_processor[d.index];
    if (!*most && (cuda_driver->device_attribute(most, CU_ATTRIBUTE_THREADS_PER_MULTIPROCESSOR, cuda_devices[d.index].number) || *most < CUDA_THREADS)) *most = 2048;
    int64_t blocks = (n + CUDA_THREADS - 1) / CUDA_THREADS, at_once = (int64_t)cuda_devices[d.index].processors * (*most / CUDA_THREADS);
    return CUDA_THREADS * RUSH_MIN(blocks, at_once);
}

/* What a generator of the host begins with that draws for the device: other words each time, the same after the same seed. */
uint64_t cuda_random_seed(rush_device d, rush_generator *g)
{
    if (!g || g->device.type == RUSH_CPU) g = rush_device_generator(d);
    if (!g) return 0;
    pthread_mutex_lock(&drawing);
    uint64_t seed = g->seed ^ (uint64_t)g->normal_double * 0x9e3779b97f4a7c15u;
    g->has_normal_double = true;
    g->normal_double += 4;
    pthread_mutex_unlock(&drawing);
    return seed;
}

static int sample_into(rush_tensor *t, const sampler *s, rush_generator *g, bool together)
{
    cuda_sample p = {.of = (int)s->of, .a = s->a, .b = s->b, .base = s->base, .range = s->range, .wide = s->wide, .together = together};
    rush_value operand[1] = {V(t)};
    if (!t->numel) return 0;
    if (!g || g->device.type == RUSH_CPU) g = rush_device_generator(t->device);
    if (!g || cuda_walk_make(&p.w, 1, 1, operand, &t->dtype)) return -1;
    bool wide = s->of == INTEGER ? s->wide : t->dtype == RUSH_F64; /* whatever the CPU draws in */
    p.unroll = wide ? 2 : 4;
    p.stride = threads_for(t->device, t->numel);
    pthread_mutex_lock(&drawing);
    p.seed = g->seed;
    p.offset = (uint64_t)g->normal_double;
    g->has_normal_double = true; /* states carry it then */
    g->normal_double += 4 * (double)((t->numel - 1) / (p.stride * p.unroll) + 1);
    pthread_mutex_unlock(&drawing);
    return cuda_launch(t->device, wide && s->of != INTEGER ? "sample_f64" : "sample_f32", &p, t->numel);
}

int cuda_sample_into(rush_tensor *t, const struct sampler *s, rush_generator *g) { return sample_into(t, s, g, false); }

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
    if (sample_into(mask, &s, NULL, x->numel % 4 == 0)) return;
    rush_tensor *made = T("native_dropout_backward", V(x), V(mask), V(p == 1 ? 0 : 1 / (1 - p)));
    if (made) rush_copy_into(y, made);
}

/* ones where a uniform number is not above p */
static void bernoulli_tensor(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *to = out[0].t, *p = in[op->nargs - 2].kind == RUSH_V_TENSOR ? in[op->nargs - 2].t : in[0].t;
    rush_dtype d = p->dtype == RUSH_F64 ? RUSH_F64 : RUSH_F32;
    sampler s = {.of = UNIFORM, .block = d, .dtype = d, .a = 0, .b = 1};
    rush_tensor *u = rush_tensor_new(d, to->device, to->ndim, to->size);
    if (!u || sample_into(u, &s, in[op->nargs - 1].kind == RUSH_V_GENERATOR ? in[op->nargs - 1].gen : NULL, false)) return;
    rush_tensor *ones = lt(u, p);
    if (ones) rush_copy_into(to, ones);
}

const cuda_kernel cuda_random_kernels[] = {{"native_dropout", native_dropout}, {"bernoulli", bernoulli_tensor}, {"bernoulli_.Tensor", bernoulli_tensor},
                                           {"bernoulli.Tensor", bernoulli_tensor}, {0}};
