/* winograd.c - Winograd's F(2 x 2, 3 x 3) and F(4 x 4, 3 x 3): results that lie together take 16 products for each pair of channels
 * instead of 36, or 36 instead of 144.
 *
 * Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2016. The picture is cut into tiles of 4 x 4 or 6 x 6 points
 * that overlap by two. Each is brought into a form (B' d B) in which convolving it is multiplying point by point, which summed over
 * the channels is one product of matrices for each point: (tiles, in) by (in, out). Their results go back (A' m A) as 2 x 2 or 4 x 4.
 *
 * The transforms evaluate polynomials: those of 2 x 2 at 0, 1 and -1, so that all their numbers are 0, 1 and 1/2. Those of 4 x 4 take
 * 0, +-sqrt(1/2) and +-sqrt(2) instead of the paper's 0, +-1 and +-2: no number is large beside another, and with 64 to 256 channels
 * the largest error is 1e-6 to 2e-6 of the largest result, about that of plain sums in their order, where the paper's is 4e-6 to 7e-6.
 */
#include "kernels/cpu/winograd.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/simd.h"

enum { LEAST = 16, LARGEST = 12 << 20 }; /* channels; bytes of weights in tiles of 4 x 4, which are four times the plain ones */

#define POINTS(side) (((side) + 2) * ((side) + 2))
#define ROOT 1.41421356237309504880

static int64_t tiles_of(const rush_conv *c, int side) { return c->n * ((c->result[1] + side - 1) / side) * ((c->result[2] + side - 1) / side); }

/* What reading the weights takes is as much as sixteen tiles' products. */
static int64_t cost(const rush_conv *c, int side) { return POINTS(side) * (tiles_of(c, side) + 16); }

static int side_of(const rush_conv *c)
{
    bool such = c->groups == 1 && c->space[0] == 1 && c->kernel[0] == 1 && c->result[0] == 1;
    for (int d = 1; d < 3; ++d) such = such && c->kernel[d] == 3 && c->stride[d] == 1 && c->dilation[d] == 1;
    if (!such || c->in % VF || c->out % VF || c->in < LEAST || c->out < LEAST) return 0;
    bool small = POINTS(4) * (int64_t)sizeof(float) * c->in * c->out <= LARGEST;
    return small && cost(c, 4) < cost(c, 2) ? 4 : 2;
}

/* ---- weights: G g G' ---- */

static size_t weight_size(int side, int64_t in, int64_t out) { return (size_t)POINTS(side) * rush_k_gemm->panels_size(out, in); }

static void wider(int side, const double g[3], double to[6])
{
    if (side == 2) {
        to[0] = g[0];
        to[1] = (g[0] + g[2] + g[1]) / 2;
        to[2] = (g[0] + g[2] - g[1]) / 2;
        to[3] = g[2];
        return;
    }
    double near = g[0] + g[2] / 2, far = g[0] + g[2] * 2;
    to[0] = g[0];
    to[1] = (near + g[1] * (ROOT / 2)) * (-2. / 3);
    to[2] = (near - g[1] * (ROOT / 2)) * (-2. / 3);
    to[3] = (far + g[1] * ROOT) / 6;
    to[4] = (far - g[1] * ROOT) / 6;
    to[5] = g[2];
}

static void lay_out(int side, int64_t in, int64_t out, const float *w, int64_t out_step, int64_t in_step, int64_t tap_step, void *to)
{
    int points = side + 2;
    size_t each = rush_k_gemm->panels_size(out, in);
    if (out % (2 * VF)) memset(to, 0, (size_t)POINTS(side) * each); /* columns that are missing */
    for (int64_t o = 0; o < out; ++o)
        for (int64_t i = 0; i < in; ++i) {
            double rows[6][3], column[3], line[6];
            const float *g = w + o * out_step + i * in_step;
            for (int x = 0; x < 3; ++x) {
                for (int y = 0; y < 3; ++y) column[y] = (double)g[(3 * y + x) * tap_step];
                wider(side, column, line);
                for (int y = 0; y < points; ++y) rows[y][x] = line[y];
            }
            for (int y = 0; y < points; ++y) {
                wider(side, rows[y], line);
                for (int x = 0; x < points; ++x)
                    ((float *)((char *)to + (size_t)(points * y + x) * each))[RUSH_PANEL_AT(2 * VF, in, i, o)] = (float)line[x];
            }
        }
}

/* ---- pictures ---- */

typedef struct job {
    const rush_conv *c;
    const float *x, *bias;
    const char *w;
    float *y;
    int side;
    int64_t down, across, tiles, step; /* tiles in a column, in a row, in all, and in a block */
    atomic_bool failed;
} job;

/* A line of B' d. */
static inline __attribute__((always_inline)) void into(int side, const vf *d, vf *to)
{
    if (side == 2) {
        to[0] = d[0] - d[2], to[1] = d[1] + d[2], to[2] = d[2] - d[1], to[3] = d[1] - d[3];
        return;
    }
    vf even = d[4] - d[2] * 2, odd = (d[3] - d[1] * 2) * (float)(ROOT / 2), far = d[4] - d[2] * .5f, wide = (d[3] - d[1] * .5f) * (float)ROOT;
    to[0] = d[0] + d[4] - d[2] * 2.5f;
    to[1] = even + odd, to[2] = even - odd, to[3] = far + wide, to[4] = far - wide;
    to[5] = d[1] + d[5] - d[3] * 2.5f;
}

/* A line of A' m. */
static inline __attribute__((always_inline)) void back(int side, const vf *m, vf *to)
{
    if (side == 2) {
        to[0] = m[0] + m[1] + m[2], to[1] = m[1] - m[2] - m[3];
        return;
    }
    vf even = m[1] + m[2], odd = (m[1] - m[2]) * (float)(ROOT / 2), far = m[3] + m[4], wide = (m[3] - m[4]) * (float)ROOT;
    to[0] = m[0] + even + far;
    to[1] = odd + wide;
    to[2] = even * .5f + far * 2;
    to[3] = odd * .5f + wide * 2 + m[5];
}

/* Tile t's points, channels [0, in), go to `to`, `apart` from each other. */
static inline __attribute__((always_inline)) void spread(const job *j, int side, int64_t t, const float *zeros, float *to, int64_t apart)
{
    const rush_conv *c = j->c;
    const int points = side + 2;
    int64_t h = t / j->across % j->down * side - c->before[1], w = t % j->across * side - c->before[2];
    const float *image = j->x + t / j->across / j->down * c->space[1] * c->space[2] * c->in, *at[6][6];
    for (int y = 0; y < points; ++y)
        for (int x = 0; x < points; ++x) {
            bool inside = h + y >= 0 && h + y < c->space[1] && w + x >= 0 && w + x < c->space[2];
            at[y][x] = inside ? image + ((h + y) * c->space[2] + w + x) * c->in : zeros;
        }
    for (int64_t i = 0; i < c->in; i += VF) {
        vf d[6][6], line[6], column[6];
        for (int x = 0; x < points; ++x) {
            for (int y = 0; y < points; ++y) line[y] = vf_load(at[y][x] + i);
            into(side, line, column);
            for (int y = 0; y < points; ++y) d[y][x] = column[y];
        }
        for (int y = 0; y < points; ++y) {
            into(side, d[y], line);
            for (int x = 0; x < points; ++x) vf_store(to + (points * y + x) * apart + i, line[x]);
        }
    }
}

/* ... and back: the results of tile t, of which those beyond the picture are left out. */
static inline __attribute__((always_inline)) void gather(const job *j, int side, int64_t t, const float *from, int64_t apart)
{
    const rush_conv *c = j->c;
    const int points = side + 2;
    int64_t h = t / j->across % j->down * side, w = t % j->across * side, row = c->result[2] * c->out;
    float *to = j->y + (t / j->across / j->down * c->result[1] + h) * row + w * c->out;
    int64_t rows = RUSH_MIN(side, c->result[1] - h), columns = RUSH_MIN(side, c->result[2] - w);
    for (int64_t o = 0; o < c->out; o += VF) {
        vf m[4][6], line[6], column[4], bias = j->bias ? vf_load(j->bias + o) : (vf){0};
        for (int x = 0; x < points; ++x) {
            for (int y = 0; y < points; ++y) line[y] = vf_load(from + (points * y + x) * apart + o);
            back(side, line, column);
            for (int y = 0; y < side; ++y) m[y][x] = column[y];
        }
        for (int y = 0; y < side; ++y) {
            if (y >= rows) break;
            back(side, m[y], column);
            for (int x = 0; x < side; ++x)
                if (x < columns) vf_store(to + y * row + x * c->out + o, column[x] + bias);
        }
    }
}

#define STAGGER 16 /* so that the same place of all points' matrices is not the same place of the cache */

static void blocks(void *arg, int64_t begin, int64_t end)
{
    job *j = arg;
    const rush_conv *c = j->c;
    int points = POINTS(j->side);
    int64_t in = j->step * c->in + STAGGER, out = j->step * c->out + STAGGER;
    size_t got, each = rush_k_gemm->panels_size(c->out, c->in);
    float *room = rush_block_alloc(sizeof *room * (size_t)(points * (in + out) + c->in), &got);
    if (!room) {
        atomic_store(&j->failed, true);
        return;
    }
    float *spread_out = room, *products = room + points * in, *zeros = products + points * out;
    memset(zeros, 0, sizeof *zeros * (size_t)c->in);
    for (int64_t b = begin; b < end; ++b) {
        int64_t first = b * j->step, n = RUSH_MIN(j->step, j->tiles - first);
        for (int64_t t = 0; t < n; ++t)
            if (j->side == 2) spread(j, 2, first + t, zeros, spread_out + t * c->in, in);
            else spread(j, 4, first + t, zeros, spread_out + t * c->in, in);
        for (int p = 0; p < points; ++p) {
            rush_gemm g = {.m = n, .n = c->out, .k = c->in, .a = spread_out + p * in, .am = c->in, .ak = 1, .b = j->w, .panels = j->w + (size_t)p * each,
                           .c = products + p * out, .cm = c->out, .cn = 1, .alpha = 1};
            rush_k_gemm->blocked_f32(&g);
        }
        for (int64_t t = 0; t < n; ++t)
            if (j->side == 2) gather(j, 2, first + t, products + t * c->out, out);
            else gather(j, 4, first + t, products + t * c->out, out);
    }
    rush_block_free(room, got);
}

#define BLOCK (128 * 1024) /* floats of a block's tiles and results: they stay in the second cache */

static bool forward(const rush_conv *c, int side, const float *x, const void *laid_out, const float *bias, float *y)
{
    job j = {.c = c, .x = x, .bias = bias, .w = laid_out, .y = y, .side = side, .tiles = tiles_of(c, side)};
    j.down = (c->result[1] + side - 1) / side;
    j.across = (c->result[2] + side - 1) / side;
    int64_t threads = rush_num_threads(), most = RUSH_MAX(BLOCK / (POINTS(side) * (c->in + c->out)), 48), n = (j.tiles + most - 1) / most;
    if (n >= threads) n = (n + threads - 1) / threads * threads; /* as many for each, and all of one size */
    j.step = (j.tiles + n - 1) / n;
    n = (j.tiles + j.step - 1) / j.step;
    if (n < threads) blocks(&j, 0, n); /* the products part their columns */
    else rush_parallel_for(n, 1, blocks, &j);
    return !atomic_load(&j.failed);
}

RUSH_KERNELS(winograd) = {.side = side_of, .weight_size = weight_size, .lay_out = lay_out, .forward = forward};
