/* pool.c - windows over planes. Regular windows go row by row: for each element of the window, the whole row of
 * results at once, which the compiler turns into vectors. Irregular ones go result by result.
 */
#include "kernels/cpu/pool.h"

#include <math.h>

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t volume(const int64_t *s) { return s[0] * s[1] * s[2]; }

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

RUSH_KERNELS(pool) = {.max_f32 = max_f32, .max_f64 = max_f64, .max_i64 = max_i64, .max_last_f32 = max_last_f32, .max_last_f64 = max_last_f64, .mean_f32 = mean_f32, .mean_f64 = mean_f64,
                      .mean_i64 = mean_i64, .mean_back_f32 = mean_back_f32, .mean_back_f64 = mean_back_f64,
                      .scatter_f32 = scatter_f32, .scatter_f64 = scatter_f64};
