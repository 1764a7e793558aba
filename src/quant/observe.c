/* observe.c - which part of a histogram a grid of few steps should cover: values further out are cut off.
 *
 * The range shrinks from both ends, by the quantile that costs fewer bins, as long as the error of rounding and cutting, in the
 * sense of least squares, gets smaller.
 */
#include "quant/quant.h"


/* The integral of density * x^2 between the ends. */
static double moment(double begin, double end, double density)
{
    return density * (end * end * end - begin * begin * begin) / 3;
}

static double step_of(double at, double width, int64_t steps)
{
    double step = __builtin_floor(at / width);
    return step < 0 ? 0 : step > (double)(steps - 1) ? (double)(steps - 1) : step;
}

/* The error of a grid of `steps` over bins [first, last], values outside being moved to its ends. */
static double grid_error(const float *bins, int64_t n, double bin, int64_t first, int64_t last, int64_t steps)
{
    double width = bin * (double)(last - first + 1) / (double)steps, error = 0;
    if (width == 0) return 0;
    for (int64_t i = 0; i < n; ++i) {
        double begin = (double)(i - first) * bin, end = begin + bin, density = bins[i] / bin;
        double from = step_of(begin, width, steps), to = step_of(end, width, steps);
        error += moment(begin - (from + 0.5) * width, width / 2, density) + (to - from - 1) * moment(-width / 2, width / 2, density) +
                 moment(-width / 2, end - (to + 0.5) * width, density);
    }
    return error;
}

typedef struct range {
    int64_t first, last;
} range;

static range best_range(const float *bins, int64_t n, double bin, int64_t steps)
{
    const double quantile = 1e-5;
    double total = 0, below = 0, above = 1, least = __builtin_inf();
    range best = {0, n - 1};
    for (int64_t i = 0; i < n; ++i) total += bins[i];
    int64_t l = 0, r = n - 1;
    double up_to_l = n ? bins[0] : 0, up_to_r = total; /* sums of bins [0, l], [0, r] */
    while (below < above) {
        double next_below = below + quantile, next_above = above - quantile;
        while (l < best.last && up_to_l < next_below * total) up_to_l += bins[++l];
        while (r > best.first && up_to_r > next_above * total) up_to_r -= bins[r--];
        range next = best;
        if (l - best.first > best.last - r) next.first = l, below = next_below;
        else next.last = r, above = next_above;
        if (next.first == best.first && next.last == best.last) continue;
        double error = grid_error(bins, n, bin, next.first, next.last, steps);
        if (error > least) break;
        least = error;
        best = next;
    }
    return best;
}

/* in: histogram, low, high, steps */
static int range_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(in[0].t->ndim == 1 && in[0].t->numel && in[0].t->dtype == RUSH_F32, RUSH_RUNTIME_ERROR, "a histogram is a float32 vector");
    RUSH_CHECK(in[1].t->numel == 1 && in[2].t->numel == 1 && I_(in[3]) > 0, RUSH_RUNTIME_ERROR, "the ends of a histogram are two numbers");
    return rush_out_t(out, 0, in[0].t, RUSH_F32, 0, NULL) && rush_out_t(out, 1, in[0].t, RUSH_F32, 0, NULL) ? 0 : -1;
}

static void range_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *bins = rush_contiguous_copy(in[0].t);
    if (!bins) return;
    double low = rush_item(in[1].t), high = rush_item(in[2].t), bin = (high - low) / (double)bins->numel;
    if (rush_failed()) return;
    range best = best_range(rush_ptr(bins), bins->numel, bin, I_(in[3]));
    *(float *)rush_ptr(out[0].t) = (float)(low + bin * (double)best.first);
    *(float *)rush_ptr(out[1].t) = (float)(low + bin * (double)(best.last + 1));
}

static rush_op op_range = {
    .schema = "_histogram_range(Tensor histogram, Tensor low, Tensor high, int steps) -> (Tensor first, Tensor last)",
    .doc = "The part of a histogram between low and high that a grid of so many steps covers with the least error.", .shape = range_shape, .cpu = range_cpu,
    .flags = RUSH_NO_GRAD | RUSH_HIDDEN};

RUSH_FAMILY(quant_observe, &op_range)
