/* conv.c - convolution as a matrix product whose second matrix, the windows of the image, is never stored.
 *
 * For one group, y (out, pixels) = w (out, in kernel) * windows (in kernel, pixels), with the pixels of all
 * images as columns. The blocked product of gemm.c asks for panels of `windows` as it needs them, and this file
 * reads them from the image. The weight's gradient is g * windows^T, laid out the same way but turned; the
 * input's is a convolution with the flipped weight for stride 1, and otherwise w^T g with its windows added up.
 * Depthwise convolutions, which are no products, walk padded images. The body is conv.inc.
 */
#include "kernels/cpu/conv.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/simd.h"

#define WIDEST (2 * VF)

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t volume(const int64_t *s) { return s[0] * s[1] * s[2]; }

/* Some pixels of a panel that lie side by side in one row of the result. */
typedef struct run {
    int64_t x, n;        /* place in the panel, length     */
    int64_t image;       /* offset of the image's group    */
    int64_t d, h, w;     /* of the window of its first pixel: its corner in the space */
} run;

/* Splits pixels [line, line + n) of all images into runs. */
static int find_runs(const rush_conv *c, int64_t line, int64_t n, run *runs)
{
    int64_t pixels = volume(c->result), image = c->in * volume(c->space), row = c->result[2];
    int count = 0;
    for (int64_t x = 0; x < n; ++count) {
        int64_t p = (line + x) % pixels, w = p % row, h = p / row % c->result[1], d = p / (row * c->result[1]);
        runs[count] = (run){x, least(row - w, n - x), (line + x) / pixels * image, d * c->stride[0] - c->before[0],
                            h * c->stride[1] - c->before[1], w * c->stride[2] - c->before[2]};
        x += runs[count].n;
    }
    return count;
}

/* Where in the window element k of a column lies. */
typedef struct tap {
    int64_t channel, at[3];
} tap;

static tap tap_of(const rush_conv *c, int64_t k)
{
    int64_t a = c->kernel[1] * c->kernel[2], taps = c->kernel[0] * a;
    return (tap){k / taps, {k % taps / a, k % a / c->kernel[2], k % c->kernel[2]}};
}

static void next_tap(const rush_conv *c, tap *t)
{
    if (++t->at[2] < c->kernel[2]) return;
    t->at[2] = 0;
    if (++t->at[1] < c->kernel[1]) return;
    t->at[1] = 0;
    if (++t->at[0] < c->kernel[0]) return;
    t->at[0] = 0;
    ++t->channel;
}

#define T float
#define V vf
#define VL VF
#define F(x) x##_f32
#define LOAD vf_load
#define STORE vf_store
#define FMA vf_fma
#define SET vf_set
#define SUM vf_sum
#define MASKED (VBYTES == 64)
#include "kernels/cpu/conv.inc"

#define T double
#define V vd
#define VL VD
#define F(x) x##_f64
#define LOAD vd_load
#define STORE vd_store
#define FMA vd_fma
#define SET vd_set
#define SUM vd_sum
#define MASKED 0
#include "kernels/cpu/conv.inc"

/* ---- integers, whose sums wrap around ---- */

typedef struct integer_job {
    const rush_conv *c;
    const uint64_t *x, *w, *bias;
    uint64_t *y;
    bool back;
} integer_job;

static void integer_images(void *arg, int64_t begin, int64_t end)
{
    const integer_job *job = arg;
    const rush_conv *c = job->c;
    int64_t icg = c->in / c->groups, ocg = c->out / c->groups, pixels = volume(c->result), space = volume(c->space), taps = volume(c->kernel);
    for (int64_t i = begin; i < end; ++i)
        for (int64_t o = 0; o < c->out; ++o)
            for (int64_t p = 0; p < pixels; ++p) {
                int64_t w = p % c->result[2], h = p / c->result[2] % c->result[1], d = p / (c->result[2] * c->result[1]);
                uint64_t *y = job->y + (i * c->out + o) * pixels + p, sum = 0;
                tap t = {0};
                for (int64_t k = 0; k < icg * taps; ++k, next_tap(c, &t)) {
                    int64_t a = d * c->stride[0] - c->before[0] + t.at[0] * c->dilation[0];
                    int64_t b = h * c->stride[1] - c->before[1] + t.at[1] * c->dilation[1];
                    int64_t e = w * c->stride[2] - c->before[2] + t.at[2] * c->dilation[2];
                    if (a < 0 || a >= c->space[0] || b < 0 || b >= c->space[1] || e < 0 || e >= c->space[2]) continue;
                    int64_t at = (i * c->in + o / ocg * icg + t.channel) * space + (a * c->space[1] + b) * c->space[2] + e;
                    uint64_t weight = job->w[o * icg * taps + k];
                    if (job->back) ((uint64_t *)job->x)[at] += weight * *y;
                    else sum += weight * job->x[at];
                }
                if (!job->back) *y = sum + (job->bias ? job->bias[o] : 0);
            }
}

static void forward_i64(const rush_conv *c, const int64_t *x, const int64_t *w, const int64_t *bias, int64_t *y)
{
    integer_job job = {c, (const uint64_t *)x, (const uint64_t *)w, (const uint64_t *)bias, (uint64_t *)y, false};
    rush_parallel_for(c->n, 1, integer_images, &job);
}

static void grad_input_i64(const rush_conv *c, const int64_t *g, const int64_t *w, int64_t *gx)
{
    integer_job job = {c, (uint64_t *)gx, (const uint64_t *)w, NULL, (uint64_t *)g, true};
    memset(gx, 0, sizeof *gx * (size_t)(c->n * c->in * volume(c->space)));
    rush_parallel_for(c->n, 1, integer_images, &job);
}

RUSH_KERNELS(conv) = {.forward_f32 = forward_f32, .forward_f64 = forward_f64, .grad_input_f32 = grad_input_f32,
                      .grad_input_f64 = grad_input_f64, .grad_weight_f32 = grad_weight_f32, .grad_weight_f64 = grad_weight_f64,
                      .forward_i64 = forward_i64, .grad_input_i64 = grad_input_i64};
