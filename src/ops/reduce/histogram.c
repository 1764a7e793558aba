/* histogram.c - counts of values between edges, in one dimension (histc, histogram) or several (histogramdd).
 *
 * All are one walk over points of D coordinates: each coordinate finds its bin between sorted edges, and the bin's cell
 * is raised by the point's weight. The last bin has both its edges.
 */
#include "op/formula.h"
#include "ops/geometry.h"
#include <math.h>

#define SELF (in[0].t)

/* Edges of one dimension, as numbers of the input's dtype. */
typedef struct axis {
    double *edge; /* bins + 1 */
    int64_t bins;
} axis;

static double rounded(double x, rush_dtype d)
{
    return d == RUSH_F32 ? (double)(float)x : x;
}

static int axis_even(axis *a, int64_t bins, double low, double high, rush_dtype d)
{
    RUSH_CHECK(bins < INT64_MAX / 16, RUSH_MEMORY_ERROR, "there is no room for %lld bins", (long long)bins);
    a->bins = bins;
    a->edge = rush_scope_alloc(sizeof *a->edge * (size_t)(bins + 1));
    if (!a->edge) return -1;
    double step = rounded((high - low) / (double)bins, d);
    for (int64_t k = 0; k <= bins; ++k) /* from both ends, as linspace does */
        a->edge[k] = k < (bins + 1) / 2 ? rounded(low + step * (double)k, d) : rounded(high - step * (double)(bins - k), d);
    return 0;
}

/* Bin of x, -1 when it is outside (or NaN). */
static int64_t bin_of(const axis *a, double x)
{
    if (!(x >= a->edge[0] && x <= a->edge[a->bins])) return -1;
    int64_t low = 0, high = a->bins; /* the last edge that is not above x */
    while (high - low > 1) {
        int64_t mid = (low + high) / 2;
        if (a->edge[mid] <= x) low = mid;
        else high = mid;
    }
    return low;
}

/* Smallest and largest of every D-th number; 0 and 1 when there are none. */
static int limits(const double *x, int64_t n, int64_t dims, int64_t d, double *low, double *high)
{
    *low = 0;
    *high = 1;
    for (int64_t i = 0; i < n; ++i) {
        double v = x[i * dims + d];
        if (i == 0 || v < *low || v != v) *low = v;
        if (i == 0 || v > *high || v != v) *high = v;
        if (v != v) break;
    }
    RUSH_CHECK(isfinite(*low) && isfinite(*high), RUSH_RUNTIME_ERROR, "torch.histogramdd: dimension %lld's range [%g, %g] is not finite", (long long)d, *low,
               *high);
    return 0;
}

static void count_into(rush_tensor *to, const double *x, int64_t n, int dims, const axis *axes, const rush_tensor *weight, bool density)
{
    int64_t size[RUSH_MAXDIM];
    for (int d = 0; d < dims; ++d) size[d] = axes[d].bins;
    const rush_tensor *w = weight ? rush_cast_copy(weight, RUSH_F64) : NULL;
    rush_tensor *sum = rush_tensor_new(RUSH_F64, to->device, dims, size);
    if (!sum || (weight && !w)) return;
    rush_zero_into(sum);
    double *cell = rush_ptr(sum), total = 0;
    const double *raise = w ? rush_ptr(w) : NULL;
    for (int64_t i = 0; i < n; ++i) {
        int64_t at = 0, b = 0;
        for (int d = 0; d < dims && b >= 0; ++d) {
            b = bin_of(&axes[d], x[i * dims + d]);
            at = at * axes[d].bins + b;
        }
        if (b >= 0) cell[at] += raise ? raise[i] : 1;
    }
    if (density) {
        for (int64_t c = 0; c < sum->numel; ++c) total += cell[c];
        bool stays = total > 0 && isfinite(total); /* a zero, divided; not where a bin has no width */
        for (int d = 0; d < dims; ++d)
            for (int64_t b = 0; b < axes[d].bins; ++b) stays = stays && axes[d].edge[b + 1] > axes[d].edge[b];
        for (int64_t c = 0; c < sum->numel; ++c) {
            int64_t rest = c;
            if (stays && cell[c] == 0) continue;
            double v = cell[c] / total;
            for (int d = dims - 1; d >= 0; --d) {
                int64_t b = rest % axes[d].bins;
                rest /= axes[d].bins;
                v /= axes[d].edge[b + 1] - axes[d].edge[b];
            }
            cell[c] = v;
        }
    }
    rush_copy_into(to, sum);
}

/* What is asked for: either `bins` per dimension (with a range or not) or the edges themselves. */
typedef struct request {
    const rush_tensor *self;
    int dims;          /* coordinates of a point: the last dimension of self, or 1 */
    bool flat;         /* histogram(): self is points of one coordinate */
    const int64_t *bins; /* NULL: as many along each as `even` says, unless there are edges */
    int64_t even;
    rush_tensor *const *edges;
    rush_value range;
    const rush_tensor *weight;
    bool density;
} request;

static int request_check(const request *q)
{
    const rush_tensor *self = q->self, *w = q->weight;
    RUSH_CHECK(q->flat || self->ndim >= 2, RUSH_RUNTIME_ERROR, "torch.histogramdd: input tensor should have at least 2 dimensions");
    RUSH_CHECK(self->dtype == RUSH_F32 || self->dtype == RUSH_F64, RUSH_NOT_IMPLEMENTED, "\"histogramdd\" not implemented for '%s'", rush_dtype_word(self->dtype));
    if (w) {
        RUSH_CHECK(w->dtype == self->dtype, RUSH_RUNTIME_ERROR,
                   "torch.histogramdd: if weight tensor is provided, input tensor and weight tensor should have the same dtype, but got input(%s), and weight(%s)",
                   rush_dtype_name(self->dtype), rush_dtype_name(w->dtype));
        int n = q->flat ? self->ndim : self->ndim - 1;
        RUSH_CHECK(w->ndim == n && !(n && memcmp(w->size, self->size, sizeof *w->size * n)), RUSH_RUNTIME_ERROR,
                   "torch.histogramdd: if weight tensor is provided it should have the same shape as the input tensor excluding its innermost dimension, but got "
                   "input with shape %s and weight with shape %s", rush_shape_of(self), rush_shape_of(w));
    }
    RUSH_CHECK(!HAS(q->range) || (int)q->range.n == 2 * q->dims, RUSH_RUNTIME_ERROR,
               "torch.histogramdd: for a %d-dimensional histogram range should have %d elements, but got %u", q->dims, 2 * q->dims, q->range.n);
    return 0;
}

static int64_t bins_of(const request *q, int d) { return q->edges ? q->edges[d]->numel - 1 : q->bins ? q->bins[d] : q->even; }

/* What is known of dimension d without data. */
static int axis_check(const request *q, int d)
{
    if (q->edges) {
        const rush_tensor *e = q->edges[d];
        RUSH_CHECK(e->dtype == q->self->dtype, RUSH_RUNTIME_ERROR,
                   "torch.histogramdd: input tensor and bins tensors should have the same dtype, but got input with dtype %s and bins for dimension %d with dtype %s",
                   rush_dtype_name(q->self->dtype), d, rush_dtype_name(e->dtype));
        RUSH_CHECK(e->ndim == 1, RUSH_RUNTIME_ERROR,
                   "torch.histogramdd: bins tensor should have one dimension, but got %d dimensions in the bins tensor for dimension %d", e->ndim, d);
        RUSH_CHECK(e->numel > 0, RUSH_RUNTIME_ERROR,
                   "torch.histogramdd: bins tensor should have at least 1 element, but got 0 elements in the bins tensor for dimension %d", d);
        RUSH_CHECK(e->numel > 1, RUSH_RUNTIME_ERROR, "torch.histogram(): bins must be > 0, but got 0 for dimension %d", d);
        return 0;
    }
    int64_t bins = bins_of(q, d);
    RUSH_CHECK(bins > 0, RUSH_RUNTIME_ERROR, "torch.histogram(): bins must be > 0, but got %lld for dimension %d", (long long)bins, d);
    RUSH_CHECK(bins < INT64_MAX / 16, RUSH_MEMORY_ERROR, "%lld bins do not fit in memory", (long long)bins);
    if (!HAS(q->range)) return 0;
    double low = q->range.floats[2 * d], high = q->range.floats[2 * d + 1];
    RUSH_CHECK(isfinite(low) && isfinite(high), RUSH_RUNTIME_ERROR, "torch.histogramdd: dimension %d's range [%g, %g] is not finite", d, low, high);
    RUSH_CHECK(low <= high, RUSH_RUNTIME_ERROR, "torch.histogramdd: min should not exceed max, but got min %g max %g for dimension %d", low, high, d);
    return 0;
}

static int axis_make(axis *a, const request *q, int d, const double *x, int64_t n)
{
    double low, high;
    if (q->edges) {
        const rush_tensor *wide = rush_cast_copy(q->edges[d], RUSH_F64);
        if (!wide) return -1;
        *a = (axis){rush_ptr(wide), wide->numel - 1};
        return 0;
    }
    if (HAS(q->range)) low = q->range.floats[2 * d], high = q->range.floats[2 * d + 1];
    else if (limits(x, n, q->dims, d, &low, &high)) return -1;
    if (low == high) low -= 0.5, high += 0.5;
    return axis_even(a, bins_of(q, d), low, high, q->self->dtype);
}

/* The arguments self, bins (a number, numbers, edges), range, weight, density, as far as the operation has them. */
static int request_read(request *q, const rush_op *op, const rush_value *in)
{
    const rush_tensor *self = SELF;
    int range = rush_op_arg(op, "range"), weight = rush_op_arg(op, "weight"), density = rush_op_arg(op, "density");
    int64_t inner = self->ndim ? self->size[self->ndim - 1] : 0;
    *q = (request){.self = self, .dims = 1, .flat = op->row != NULL, .range = range < 0 ? RUSH_NONE : in[range], .weight = T_(in[weight]), .density = I_(in[density])};
    if (!q->flat) {
        RUSH_CHECK(self->ndim >= 2, RUSH_RUNTIME_ERROR, "torch.histogramdd: input tensor should have at least 2 dimensions");
        RUSH_CHECK(inner <= RUSH_MAXDIM, RUSH_NOT_IMPLEMENTED, "tensors have at most %d dimensions", RUSH_MAXDIM);
        RUSH_CHECK(in[1].kind == RUSH_V_INT || (int64_t)in[1].n == inner, RUSH_RUNTIME_ERROR,
                   "histogramdd: The size of bins must be equal to the innermost dimension of the input.");
        q->dims = (int)inner;
    }
    switch (in[1].kind) {
    case RUSH_V_TENSOR: q->edges = (rush_tensor *const *)&in[1].t; break;
    case RUSH_V_TENSORS: q->edges = in[1].tensors; break;
    case RUSH_V_INTS: q->bins = in[1].ints; break;
    default: q->even = in[1].i;
    }
    return 0;
}

/* Which results are the counts and the edges; -1: it has none. */
static int hist_at(const rush_op *op) { return op->out_list & 1 ? -1 : 0; }
static int edges_at(const rush_op *op) { return op->out_list & 1 ? 0 : op->nout > 1 ? 1 : -1; }

static int histogram_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    request q;
    int64_t size[RUSH_MAXDIM];
    if (request_read(&q, op, in) || request_check(&q)) return -1;
    for (int d = 0; d < q.dims; ++d) {
        if (axis_check(&q, d)) return -1;
        size[d] = bins_of(&q, d);
    }
    if (hist_at(op) >= 0 && !rush_out_t(out, 0, q.self, q.self->dtype, q.dims, size)) return -1;
    if (edges_at(op) < 0) return 0;
    for (int d = 0; d < q.dims; ++d) ++size[d];
    if (q.flat) return rush_out_t(out, 1, q.self, q.self->dtype, 1, size) ? 0 : -1;
    rush_tensor **list = rush_out_list(out, edges_at(op), (size_t)q.dims);
    for (int d = 0; list && d < q.dims; ++d)
        if (!(list[d] = q.edges ? q.edges[d] : rush_tensor_new(q.self->dtype, q.self->device, 1, &size[d]))) return -1;
    return list ? 0 : -1;
}

static void histogram_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    request q;
    axis axes[RUSH_MAXDIM];
    if (request_read(&q, op, in)) return;
    const rush_tensor *wide = rush_cast_copy(q.self, RUSH_F64);
    int64_t n = q.self->numel / RUSH_MAX(q.dims, 1);
    if (!wide) return;
    for (int d = 0; d < q.dims; ++d)
        if (axis_make(&axes[d], &q, d, rush_ptr(wide), n)) return;
    if (hist_at(op) >= 0) count_into(out[0].t, rush_ptr(wide), n, q.dims, axes, q.weight, q.density);
    for (int d = 0; d < q.dims && edges_at(op) >= 0; ++d) {
        rush_tensor *to = q.flat ? out[1].t : out[edges_at(op)].tensors[d];
        if (q.flat || !q.edges) rush_convert(rush_ptr(to), to->dtype, rush_dtypes[to->dtype].size, axes[d].edge, RUSH_F64, 8, axes[d].bins + 1);
    }
}

static const bool one_coordinate = true; /* the row of histogram(); histogramdd() has none */

static rush_op op_histogram_tensor = {
    .schema = "histogram.bins_tensor(Tensor self, Tensor bins, *, Tensor? weight=None, bool density=False) -> (Tensor hist, Tensor bin_edges)",
    .method = RUSH_METHOD,
    .doc = "How many elements (or how much weight) lie between each two of the given edges.", .shape = histogram_shape, .cpu = histogram_cpu, .row = &one_coordinate, .flags = RUSH_NO_GRAD,
};
static rush_op op_histogram = {
    .schema = "histogram.bin_ct(Tensor self, int bins=100, *, float[]? range=None, Tensor? weight=None, bool density=False) -> (Tensor hist, Tensor bin_edges)",
    .doc = "How many elements lie in each of `bins` even bins of a range, which is the elements' own if none is given.", .shape = histogram_shape, .cpu = histogram_cpu, .row = &one_coordinate,
    .flags = RUSH_NO_GRAD,
};

/* ---- several dimensions ---- */

static rush_op op_histogramdd = {
    .schema = "histogramdd(Tensor self, int[] bins, float[]? range=None, Tensor? weight=None, bool density=False) -> (Tensor hist, Tensor[] bin_edges)",
    .doc = "Points (the last dimension their coordinates) counted in a grid of even bins.", .shape = histogram_shape, .cpu = histogram_cpu, .flags = RUSH_NO_GRAD};
static rush_op op_histogramdd_int = {
    .schema = "histogramdd.int_bins(Tensor self, int bins, float[]? range=None, Tensor? weight=None, bool density=False) -> (Tensor hist, Tensor[] bin_edges)",
    .doc = "histogramdd() with as many bins along every coordinate.", .shape = histogram_shape, .cpu = histogram_cpu, .flags = RUSH_NO_GRAD};
static rush_op op_histogramdd_tensors = {
    .schema = "histogramdd.TensorList_bins(Tensor self, Tensor[] bins, float[]? range=None, Tensor? weight=None, bool density=False) -> (Tensor hist, Tensor[] bin_edges)",
    .doc = "histogramdd() between given edges.", .shape = histogram_shape, .cpu = histogram_cpu, .flags = RUSH_NO_GRAD};
static rush_op op_bin_edges = {
    .schema = "_histogramdd_bin_edges(Tensor self, int[] bins, *, float[]? range=None, Tensor? weight=None, bool density=False) -> Tensor[]",
    .doc = "The edges that histogramdd() takes.", .shape = histogram_shape, .cpu = histogram_cpu, .flags = RUSH_NO_GRAD | RUSH_HIDDEN};
static rush_op op_from_counts = {
    .schema = "_histogramdd_from_bin_cts(Tensor self, int[] bins, *, float[]? range=None, Tensor? weight=None, bool density=False) -> Tensor",
    .doc = "The counts of histogramdd().", .shape = histogram_shape, .cpu = histogram_cpu, .flags = RUSH_NO_GRAD | RUSH_HIDDEN};
static rush_op op_from_tensors = {
    .schema = "_histogramdd_from_bin_tensors(Tensor self, Tensor[] bins, *, Tensor? weight=None, bool density=False) -> Tensor",
    .doc = "The counts of histogramdd() between given edges.", .shape = histogram_shape, .cpu = histogram_cpu, .flags = RUSH_NO_GRAD | RUSH_HIDDEN};

/* ---- histc: bins by arithmetic alone, in the dtype's own precision ---- */

typedef struct histc_job {
    double low, high;
    int64_t bins;
} histc_job;

/* Bins of n elements; those outside the range, and NaN, come into one more. The arithmetic is the dtype's own. */
static void bins_of_f32(const histc_job *j, const float *x, int64_t *bin, int64_t n)
{
    const float low = (float)j->low, width = (float)j->high - low, bins = (float)j->bins;
    for (int64_t i = 0; i < n; ++i) {
        int64_t at = (int64_t)((x[i] - low) * bins / width);
        bin[i] = ((double)x[i] >= j->low) & ((double)x[i] <= j->high) ? RUSH_MIN(at, j->bins - 1) : j->bins;
    }
}

static void bins_of_f64(const histc_job *j, const double *x, int64_t *bin, int64_t n)
{
    for (int64_t i = 0; i < n; ++i) {
        int64_t at = (int64_t)((x[i] - j->low) * (double)j->bins / (j->high - j->low));
        bin[i] = (x[i] >= j->low) & (x[i] <= j->high) ? RUSH_MIN(at, j->bins - 1) : j->bins;
    }
}

static int histc_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *self = SELF;
    int64_t bins = I_(in[1]);
    RUSH_CHECK(rush_dtype_is_float(self->dtype), RUSH_NOT_IMPLEMENTED, "\"histogram_cpu\" not implemented for '%s'", rush_dtype_word(self->dtype));
    RUSH_CHECK(bins > 0, RUSH_RUNTIME_ERROR, "torch.histogram(): bins must be > 0, but got %lld for dimension 0", (long long)bins);
    RUSH_CHECK(bins < INT64_MAX / 16, RUSH_MEMORY_ERROR, "there is no room for %lld bins", (long long)bins);
    return rush_out_t(out, 0, self, self->dtype, 1, &bins) ? 0 : -1;
}

/* The range: that of the elements where both limits are equal. */
static int histc_range(histc_job *j, rush_tensor *x)
{
    if (j->low == j->high && x->numel) {
        rush_value limit[2];
        if (TN(limit, "aminmax", V(x))) return -1;
        j->low = rush_item(limit[0].t);
        j->high = rush_item(limit[1].t);
    }
    if (j->low == j->high) j->low -= 1, j->high += 1;
    RUSH_CHECK(isfinite(j->low) && isfinite(j->high), RUSH_RUNTIME_ERROR, "torch.histc: range of [%g, %g] is not finite", j->low, j->high);
    RUSH_CHECK(j->low < j->high, RUSH_RUNTIME_ERROR, "torch.histc: max must be larger than min");
    return 0;
}

static void histc_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    enum { BLOCK = 512 };
    const rush_tensor *self = SELF;
    int64_t bins = I_(in[1]), n = self->numel, bin[BLOCK];
    histc_job j = {D_(in[2]), D_(in[3]), bins};
    const bool wide = self->dtype == RUSH_F64;
    rush_tensor *x = rush_cast_copy(self, wide ? RUSH_F64 : RUSH_F32);
    if (!x || histc_range(&j, x)) return;
    rush_tensor *sum = rush_tensor_new(RUSH_I64, self->device, 1, (int64_t[]){bins + 1});
    if (!sum) return;
    rush_zero_into(sum);
    int64_t *cell = rush_ptr(sum);
    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t some = RUSH_MIN(n - i, BLOCK);
        if (wide) bins_of_f64(&j, (double *)rush_ptr(x) + i, bin, some);
        else bins_of_f32(&j, (float *)rush_ptr(x) + i, bin, some);
        for (int64_t k = 0; k < some; ++k) ++cell[bin[k]];
    }
    sum = rush_part(sum, 0, 0, bins);
    if (sum) rush_copy_into(out[0].t, sum);
}

static rush_op op_histc = {
    .schema = "histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor", .method = RUSH_METHOD,
    .doc = "How many elements lie in each of `bins` even bins from min to max; equal limits mean the elements' own.", .shape = histc_shape, .cpu = histc_cpu, .flags = RUSH_NO_GRAD,
};

RUSH_FAMILY(histogram, &op_histogram, &op_histogram_tensor, &op_histogramdd, &op_histogramdd_int, &op_histogramdd_tensors, &op_bin_edges,
            &op_from_counts, &op_from_tensors, &op_histc)
