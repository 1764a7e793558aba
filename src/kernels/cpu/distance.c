/* distance.c - p-norm distances of rows, and their gradient: distance.inc for float and for double.
 *
 * Rows of b are turned, a tile at a time, so that loops go over them and each of them sums on its own.
 */
#include "kernels/cpu/distance.h"
#include "kernels/cpu/libmvec.h"
#include "kernels/cpu/quick_exp.h"

enum { COUNT, ONE, TWO, LARGEST, OTHER }; /* what p stands for: 0, 1, 2, infinity, any other */
#define TILE 64

static int kind_of(double p)
{
    return p == 0 ? COUNT : p == 1 ? ONE : p == 2 ? TWO : p == __builtin_inf() ? LARGEST : OTHER;
}

/* Where distance (i, j) of a batch stands. */
static int64_t place(const rush_distances *d, int64_t i, int64_t j)
{
    return d->pairs ? i * (2 * d->n - i - 1) / 2 + j - i - 1 : i * d->m + j;
}

static int64_t tiles(int64_t n) { return (n + TILE - 1) / TILE; }

#define T float
#define FN(f) f##f32
#define WORD(name) name##f
#define FUSED MULADD32
#include "kernels/cpu/distance.inc"

#define T double
#define FN(f) f##f64
#define WORD(name) name
#define FUSED MULADD64
#include "kernels/cpu/distance.inc"

RUSH_KERNELS(distance) = {.all = {all_f32, all_f64}, .back = {back_f32, back_f64}};
