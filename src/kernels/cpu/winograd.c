/* winograd.c - Winograd's F(2 x 2, 3 x 3): four results that lie together take 16 products for each pair of channels instead of 36.
 *
 * Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2016. The picture is cut into tiles of 4 x 4 points that overlap
 * by two. Each is brought into a form (B' d B) in which convolving it is multiplying point by point, which summed over the channels is
 * one product of matrices for each of the 16 points: (tiles, in) by (in, out). Their results go back (A' m A) as 2 x 2 points. All
 * numbers of the three transforms are 0, 1 and 1/2, so little is lost by rounding.
 */
#include "kernels/cpu/winograd.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/simd.h"

enum { POINTS = 16, LEAST = 16 };

static bool takes(const rush_conv *c)
{
    bool such = c->groups == 1 && c->space[0] == 1 && c->kernel[0] == 1 && c->result[0] == 1;
    for (int d = 1; d < 3; ++d) such = such && c->kernel[d] == 3 && c->stride[d] == 1 && c->dilation[d] == 1;
    return such && c->in % VF == 0 && c->out % VF == 0 && c->in >= LEAST && c->out >= LEAST;
}

/* ---- weights: G g G' ---- */

static size_t weight_size(int64_t in, int64_t out) { return POINTS * rush_k_gemm->panels_size(out, in); }

static void wider(const float g[3], float to[4])
{
    to[0] = g[0];
    to[1] = (g[0] + g[2] + g[1]) / 2;
    to[2] = (g[0] + g[2] - g[1]) / 2;
    to[3] = g[2];
}

static void lay_out(int64_t in, int64_t out, const float *w, int64_t out_step, int64_t in_step, int64_t tap_step, void *to)
{
    size_t each = rush_k_gemm->panels_size(out, in);
    if (out % (2 * VF)) memset(to, 0, POINTS * each); /* columns that are missing */
    for (int64_t o = 0; o < out; ++o)
        for (int64_t i = 0; i < in; ++i) {
            float rows[4][3], column[3], four[4];
            const float *g = w + o * out_step + i * in_step;
            for (int x = 0; x < 3; ++x) {
                for (int y = 0; y < 3; ++y) column[y] = g[(3 * y + x) * tap_step];
                wider(column, four);
                for (int y = 0; y < 4; ++y) rows[y][x] = four[y];
            }
            for (int y = 0; y < 4; ++y) {
                wider(rows[y], four);
                for (int x = 0; x < 4; ++x) ((float *)((char *)to + (size_t)(4 * y + x) * each))[RUSH_PANEL_AT(2 * VF, in, i, o)] = four[x];
            }
        }
}

/* ---- pictures ---- */

typedef struct job {
    const rush_conv *c;
    const float *x, *bias;
    const char *w;
    float *y;
    int64_t across, tiles, step; /* tiles in a row, in all, and in a block */
    bool failed;
} job;

/* Tile t's points, channels [0, in), go to `to`, `apart` from each other. */
static void spread(const job *j, int64_t t, const float *zeros, float *to, int64_t apart)
{
    const rush_conv *c = j->c;
    int64_t down = (c->result[1] + 1) / 2, h = t / j->across % down * 2 - c->before[1], w = t % j->across * 2 - c->before[2];
    const float *image = j->x + t / j->across / down * c->space[1] * c->space[2] * c->in, *at[4][4];
    for (int y = 0; y < 4; ++y)
        for (int x = 0; x < 4; ++x) {
            bool inside = h + y >= 0 && h + y < c->space[1] && w + x >= 0 && w + x < c->space[2];
            at[y][x] = inside ? image + ((h + y) * c->space[2] + w + x) * c->in : zeros;
        }
    for (int64_t i = 0; i < c->in; i += VF) {
        vf d[4][4];
        for (int x = 0; x < 4; ++x) {
            vf a = vf_load(at[0][x] + i), b = vf_load(at[1][x] + i), e = vf_load(at[2][x] + i), f = vf_load(at[3][x] + i);
            d[0][x] = a - e, d[1][x] = b + e, d[2][x] = e - b, d[3][x] = b - f;
        }
        for (int y = 0; y < 4; ++y) {
            float *row = to + 4 * y * apart + i;
            vf_store(row, d[y][0] - d[y][2]);
            vf_store(row + apart, d[y][1] + d[y][2]);
            vf_store(row + 2 * apart, d[y][2] - d[y][1]);
            vf_store(row + 3 * apart, d[y][1] - d[y][3]);
        }
    }
}

/* ... and back: the results of tile t, of which those beyond the picture are left out. */
static void gather(const job *j, int64_t t, const float *from, int64_t apart)
{
    const rush_conv *c = j->c;
    int64_t down = (c->result[1] + 1) / 2, h = t / j->across % down * 2, w = t % j->across * 2, row = c->result[2] * c->out;
    float *to = j->y + (t / j->across / down * c->result[1] + h) * row + w * c->out;
    bool right = w + 1 < c->result[2], below = h + 1 < c->result[1];
    for (int64_t o = 0; o < c->out; o += VF) {
        vf m[2][4], bias = j->bias ? vf_load(j->bias + o) : (vf){0};
        for (int x = 0; x < 4; ++x) {
            const float *p = from + x * apart + o;
            vf a = vf_load(p), b = vf_load(p + 4 * apart), e = vf_load(p + 8 * apart), f = vf_load(p + 12 * apart);
            m[0][x] = a + b + e, m[1][x] = b - e - f;
        }
        vf_store(to + o, m[0][0] + m[0][1] + m[0][2] + bias);
        if (right) vf_store(to + c->out + o, m[0][1] - m[0][2] - m[0][3] + bias);
        if (below) vf_store(to + row + o, m[1][0] + m[1][1] + m[1][2] + bias);
        if (right && below) vf_store(to + row + c->out + o, m[1][1] - m[1][2] - m[1][3] + bias);
    }
}

#define STAGGER 16 /* so that the same place of all points' matrices is not the same place of the cache */

static void blocks(void *arg, int64_t begin, int64_t end)
{
    job *j = arg;
    const rush_conv *c = j->c;
    int64_t in = j->step * c->in + STAGGER, out = j->step * c->out + STAGGER;
    size_t got, each = rush_k_gemm->panels_size(c->out, c->in);
    float *room = rush_block_alloc(sizeof *room * (size_t)(POINTS * (in + out) + c->in), &got);
    if (!room) {
        j->failed = true;
        return;
    }
    float *spread_out = room, *products = room + POINTS * in, *zeros = products + POINTS * out;
    memset(zeros, 0, sizeof *zeros * (size_t)c->in);
    for (int64_t b = begin; b < end; ++b) {
        int64_t first = b * j->step, n = RUSH_MIN(j->step, j->tiles - first);
        for (int64_t t = 0; t < n; ++t) spread(j, first + t, zeros, spread_out + t * c->in, in);
        for (int p = 0; p < POINTS; ++p) {
            rush_gemm g = {.m = n, .n = c->out, .k = c->in, .a = spread_out + p * in, .am = c->in, .ak = 1, .b = j->w, .panels = j->w + (size_t)p * each,
                           .c = products + p * out, .cm = c->out, .cn = 1, .alpha = 1};
            rush_k_gemm->blocked_f32(&g);
        }
        for (int64_t t = 0; t < n; ++t) gather(j, first + t, products + t * c->out, out);
    }
    rush_block_free(room, got);
}

#define BLOCK (128 * 1024) /* floats of a block's tiles and results: they stay in the second cache */

static bool forward(const rush_conv *c, const float *x, const void *laid_out, const float *bias, float *y)
{
    job j = {.c = c, .x = x, .bias = bias, .w = laid_out, .y = y, .across = (c->result[2] + 1) / 2};
    j.tiles = c->n * ((c->result[1] + 1) / 2) * j.across;
    j.step = RUSH_MIN(RUSH_MAX(BLOCK / (POINTS * (c->in + c->out)), 48), j.tiles);
    int64_t n = (j.tiles + j.step - 1) / j.step;
    if (n < rush_num_threads()) blocks(&j, 0, n); /* the products part their columns */
    else rush_parallel_for(n, 1, blocks, &j);
    return !j.failed;
}

RUSH_KERNELS(winograd) = {.takes = takes, .weight_size = weight_size, .lay_out = lay_out, .forward = forward};
