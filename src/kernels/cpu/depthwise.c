/* depthwise.c - see depthwise.h: some points of a row and some vectors of channels at a time, so that a weight is loaded once for them.
 *
 * A result adds its taps to the bias in the order of the kernel; those beyond the picture are left out.
 */
#include "kernels/cpu/depthwise.h"
#include "kernels/cpu/simd.h"

#include <math.h>

enum { POINTS = 4, ACROSS = 2, CHUNK = 64 }; /* channels whose weights stay in the first cache */

typedef struct job {
    const rush_conv *c;
    const float *x, *w, *bias;
    float *y;
} job;

/* Where a window lies: its corner in the picture, and the taps that are inside. */
typedef struct window {
    int64_t h, w, rows[2], columns[2];
} window;

static inline __attribute__((always_inline)) void some_points(int points, int across, const job *j, const float *image, const window *at, int64_t channel, float *y)
{
    const rush_conv *c = j->c;
    int64_t width = c->space[2], n = c->in, next = c->stride[2] * n;
    vf sum[POINTS][ACROSS];
    for (int v = 0; v < across; ++v) {
        sum[0][v] = j->bias ? vf_load(j->bias + channel + v * VF) : (vf){0};
        for (int p = 1; p < points; ++p) sum[p][v] = sum[0][v];
    }
    for (int64_t a = at->rows[0]; a < at->rows[1]; ++a)
        for (int64_t b = at->columns[0]; b < at->columns[1]; ++b) {
            const float *w = j->w + (a * c->kernel[2] + b) * n + channel;
            const float *x = image + ((at->h + a * c->dilation[1]) * width + at->w + b * c->dilation[2]) * n + channel;
            for (int v = 0; v < across; ++v) {
                vf k = vf_load(w + v * VF);
                for (int p = 0; p < points; ++p) sum[p][v] = vf_fma(k, vf_load(x + p * next + v * VF), sum[p][v]);
            }
        }
    for (int p = 0; p < points; ++p)
        for (int v = 0; v < across; ++v) vf_store(y + p * n + channel + v * VF, sum[p][v]);
}

static void one_channel(const job *j, const float *image, const window *at, int64_t channel, float *y)
{
    const rush_conv *c = j->c;
    float sum = j->bias ? j->bias[channel] : 0;
    for (int64_t a = at->rows[0]; a < at->rows[1]; ++a)
        for (int64_t b = at->columns[0]; b < at->columns[1]; ++b)
            sum = fmaf(j->w[(a * c->kernel[2] + b) * c->in + channel], image[((at->h + a * c->dilation[1]) * c->space[2] + at->w + b * c->dilation[2]) * c->in + channel], sum);
    y[channel] = sum;
}

/* The taps of a window from `corner` on that lie inside, along one side. */
static void inside(int64_t corner, int64_t kernel, int64_t dilation, int64_t space, int64_t to[2])
{
    to[0] = corner < 0 ? RUSH_MIN((-corner + dilation - 1) / dilation, kernel) : 0;
    to[1] = corner >= space ? 0 : RUSH_MIN((space - corner + dilation - 1) / dilation, kernel);
    to[1] = RUSH_MAX(to[0], to[1]);
}

/* One row of the result. */
static void row(const job *j, int64_t r)
{
    const rush_conv *c = j->c;
    const float *image = j->x + r / c->result[1] * c->space[1] * c->space[2] * c->in;
    float *to = j->y + r * c->result[2] * c->in;
    window at = {.h = r % c->result[1] * c->stride[1] - c->before[1]};
    inside(at.h, c->kernel[1], c->dilation[1], c->space[1], at.rows);
    for (int64_t first = 0; first < c->in; first += CHUNK) {
        int64_t end = RUSH_MIN(first + CHUNK, c->in), vectors = first + (end - first) / VF * VF;
        for (int64_t w = 0, points; w < c->result[2]; w += points) {
            window last = at;
            at.w = w * c->stride[2] - c->before[2];
            last.w = at.w + (POINTS - 1) * c->stride[2];
            inside(at.w, c->kernel[2], c->dilation[2], c->space[2], at.columns);
            inside(last.w, c->kernel[2], c->dilation[2], c->space[2], last.columns);
            bool whole = at.columns[0] == 0 && at.columns[1] == c->kernel[2] && last.columns[1] == c->kernel[2];
            points = whole && w + POINTS <= c->result[2] ? POINTS : 1;
            int64_t i = first;
            if (points == POINTS) {
                for (; i + ACROSS * VF <= vectors; i += ACROSS * VF) some_points(POINTS, ACROSS, j, image, &at, i, to + w * c->in);
                for (; i < vectors; i += VF) some_points(POINTS, 1, j, image, &at, i, to + w * c->in);
            } else {
                for (; i < vectors; i += VF) some_points(1, 1, j, image, &at, i, to + w * c->in);
            }
            for (; i < end; ++i)
                for (int64_t p = 0; p < points; ++p) {
                    window own = at;
                    own.w += p * c->stride[2];
                    one_channel(j, image, &own, i, to + (w + p) * c->in);
                }
        }
    }
}

static void rows(void *arg, int64_t begin, int64_t end)
{
    for (int64_t r = begin; r < end; ++r) row(arg, r);
}

static void forward(const rush_conv *c, const float *x, const float *w, const float *bias, float *y)
{
    job j = {c, x, w, bias, y};
    rush_parallel_for(c->n * c->result[1], 1 + 32768 / (1 + c->result[2] * c->in * c->kernel[1] * c->kernel[2]), rows, &j);
}

RUSH_KERNELS(depthwise) = {.forward = forward};
