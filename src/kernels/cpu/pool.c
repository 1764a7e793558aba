/* pool.c - windows over planes. Regular windows go row by row: for each element of the window, the whole row of
 * results at once, which the compiler turns into vectors. Irregular ones go result by result.
 */
#include "kernels/cpu/pool.h"

#include <math.h>

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t volume(const int64_t *s) { return s[0] * s[1] * s[2]; }
static int64_t grain(const rush_pool *p) { return most(1, 32768 / most(1, volume(p->space))); }

/* With channels last: images, the bands of channels that a thread takes at a time, and results for one. */
enum { BAND = 64 };
static int64_t images(const rush_pool *p) { return p->planes / p->channels; }
static int64_t bands(int64_t channels) { return (channels + BAND - 1) / BAND; }
static int64_t last_grain(const rush_pool *p) { return 1 + 16384 / most(1, p->channels * volume(p->kernel)); }

/* Results [first, last) of a row have element `at` of their window inside the image. */
static void inside(const rush_pool *p, int d, int64_t at, int64_t *first, int64_t *last)
{
    int64_t w = at * p->dilation[d] - p->before[d], s = p->stride[d];
    *first = w < 0 ? (-w + s - 1) / s : 0;
    *last = w >= p->space[d] ? 0 : least((p->space[d] - w + s - 1) / s, p->result[d]);
    if (*last < *first) *last = *first;
}

/* How many elements a result's mean is over, in one dimension. */
static int64_t extent(const rush_pool *p, int d, int64_t o, bool padding)
{
    int64_t begin = o * p->stride[d] - p->before[d], end = least(begin + p->kernel[d], p->space[d] + p->before[d]);
    return padding ? end - begin : least(end, p->space[d]) - most(begin, 0);
}

/* The results of all images one after the other, and the window of each within its image. */
typedef struct walk {
    const rush_pool *p;
    int64_t o, image, at[3], lo[3], hi[3], step[3];
} walk;

static void look(walk *w, int d)
{
    const rush_pool *p = w->p;
    const int64_t from = p->begin[0] ? p->begin[d][w->at[d]] : w->at[d] * p->stride[d] - p->before[d], step = p->begin[0] ? 1 : p->dilation[d];
    w->lo[d] = from < 0 ? from + (-from + step - 1) / step * step : from;
    w->hi[d] = p->begin[0] ? p->end[d][w->at[d]] : least(from + (p->kernel[d] - 1) * step + 1, p->space[d]);
    w->step[d] = step;
}

static walk walk_to(const rush_pool *p, int64_t o)
{
    const int64_t n = most(1, volume(p->result));
    walk w = {p, o, o / n, {o % n / (p->result[2] * p->result[1]), o / p->result[2] % p->result[1], o % p->result[2]}, {0}, {0}, {0}};
    for (int d = 0; d < 3; ++d) look(&w, d);
    return w;
}

static void walk_on(walk *w)
{
    int d = 2;
    ++w->o;
    for (; d >= 0 && ++w->at[d] == w->p->result[d]; --d) w->at[d] = 0;
    if (d < 0) ++w->image, d = 0;
    for (; d < 3; ++d) look(w, d);
}

/* How many elements the mean of a window is over. */
static int64_t mean_of(const walk *w)
{
    const rush_pool *p = w->p;
    int64_t by = 1;
    if (p->divisor) return p->divisor;
    for (int d = 0; d < 3; ++d) by *= p->begin[0] ? w->hi[d] - w->lo[d] : extent(p, d, w->at[d], p->count_padding);
    return by;
}

#define T float
#define I int32_t
#define F(x) x##_f32
#define LOWEST (-INFINITY)
#define IS_NAN(v) ((v) != (v))
#define PART float
#include "kernels/cpu/pool.inc"

#define T double
#define I int64_t
#define F(x) x##_f64
#define LOWEST (-INFINITY)
#define IS_NAN(v) ((v) != (v))
#define PART double
#include "kernels/cpu/pool.inc"

RUSH_WRAPPING
#define T int64_t
#define I int64_t
#define F(x) x##_i64
#define LOWEST INT64_MIN
#define IS_NAN(v) 0
#include "kernels/cpu/pool.inc"
RUSH_WRAPPING_END

RUSH_KERNELS(pool) = {.f32 = {max_f32, mean_f32, mean_back_f32, scatter_f32}, .f64 = {max_f64, mean_f64, mean_back_f64, scatter_f64}, .i64 = {max_i64, mean_i64, NULL, NULL}};
