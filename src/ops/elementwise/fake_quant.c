/* fake_quant.c - floats rounded to the grid that quantized integers could hold, for training that is to be quantized later.
 *
 * The numbers stay floats, so no quantized dtype is needed. Each operation is the first result of one that also tells
 * which elements lay within the grid: the gradient passes there and is zero elsewhere. Whatever the dtype, the grid is
 * found in float32. fused_moving_avg_obs_fake_quant also follows the range of what it sees and makes the grid of it.
 */
#include "op/formula.h"
#include "ops/geometry.h"
#include <math.h>

typedef struct grid {
    float scale, zero; /* unless they are operands 3 and 4: one per channel */
    int64_t low, high;
    bool rounds_sum;   /* zero points are floats: added before rounding */
} grid;

static inline void snap(float *to, bool *within, double q, double zero, float scale, const grid *j)
{
    *within = q >= (double)j->low && q <= (double)j->high;
    *to = (float)((fmin(fmax(q, (double)j->low), (double)j->high) - zero) * scale);
}

static void snap_all(char **p, const int64_t *stride, int64_t n, const void *arg)
{
    const grid *j = arg;
    float inverse = 1 / j->scale;
    for (int64_t i = 0; i < n; ++i) {
        float x = *(const float *)(p[2] + i * stride[2]);
        snap((float *)(p[0] + i * stride[0]), (bool *)(p[1] + i * stride[1]), nearbyintf(x * inverse) + j->zero, j->zero, j->scale, j);
    }
}

/* Per channel the integers are real ones: what no int64 holds becomes its least. */
static void snap_channels(char **p, const int64_t *stride, int64_t n, const void *arg)
{
    const grid *j = arg;
    for (int64_t i = 0; i < n; ++i) {
        float x = *(const float *)(p[2] + i * stride[2]), scale = *(const float *)(p[3] + i * stride[3]), zero = *(const float *)(p[4] + i * stride[4]);
        float inverse = 1 / scale, q = j->rounds_sum ? nearbyintf(x * inverse + zero) : zero + nearbyintf(x * inverse);
        snap((float *)(p[0] + i * stride[0]), (bool *)(p[1] + i * stride[1]), fabsf(q) < 0x1p63f ? (double)q : -0x1p63, zero, scale, j);
    }
}

static int both_shapes(const rush_value *in, rush_value *out, const char *what, int64_t low, int64_t high)
{
    rush_tensor *x = in[0].t;
    RUSH_CHECK(low <= high, RUSH_RUNTIME_ERROR, "`quant_min` should be less than or         equal to `quant_max`.");
    RUSH_CHECK(rush_dtype_is_float(x->dtype), RUSH_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", what, rush_dtype_word(x->dtype));
    return rush_out_like(out, 0, x, x->dtype) && rush_out_like(out, 1, x, RUSH_BOOL) ? 0 : -1;
}

static void run_grid(const rush_value *in, rush_value *out, const grid *j)
{
    rush_value operand[3] = {out[0], out[1], in[0]};
    rush_iterate(2, 3, operand, (const uint8_t[]){RUSH_F32, RUSH_BOOL, RUSH_F32}, snap_all, j, 0);
}

static void masked_grad(rush_grads *s)
{
    if (s->g[0] && rush_needs(s, 0)) s->gin[0] = mul(s->g[0], s->out[1].t);
}

/* ---- one grid: (self, scale, zero_point, [enabled], quant_min, quant_max) ---- */

static int tensor_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (both_shapes(in, out, "fake_quantize_tensor_cachemask_kernel_type_handling", I_(in[3]), I_(in[4]))) return -1;
    RUSH_CHECK(I_(in[2]) >= I_(in[3]) && I_(in[2]) <= I_(in[4]), RUSH_RUNTIME_ERROR, "`zero_point` must be between `quant_min` and `quant_max`.");
    return 0;
}

static void tensor_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    run_grid(in, out, &(grid){.scale = (float)D_(in[1]), .zero = (float)I_(in[2]), .low = I_(in[3]), .high = I_(in[4])});
}

static int qparams_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    for (int i = 1; i <= 3; ++i)
        RUSH_CHECK(in[i].t->numel == 1, RUSH_RUNTIME_ERROR, "a Tensor with %lld elements cannot be converted to Scalar", (long long)in[i].t->numel);
    return both_shapes(in, out, "fake_quantize_tensor_cachemask_kernel_type_handling", I_(in[4]), I_(in[5]));
}

static void qparams_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (!rush_item(in[3].t)) {
        rush_fill_into(out[1].t, rush_v_bool(true));
        rush_copy_into(out[0].t, in[0].t);
        return;
    }
    run_grid(in, out, &(grid){.scale = (float)rush_item(in[1].t), .zero = truncf((float)rush_item(in[2].t)), .low = I_(in[4]), .high = I_(in[5])});
}

/* ---- one grid per channel: (self, scale, zero_point, axis, quant_min, quant_max) ---- */

static int channel_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t, *scale = in[1].t, *zero = in[2].t;
    int64_t axis = I_(in[3]);
    RUSH_CHECK(scale->dtype == RUSH_F32 || scale->dtype == RUSH_BF16, RUSH_RUNTIME_ERROR, "Scale must be Float or BFloat16, found %s",
               rush_dtype_word(scale->dtype));
    RUSH_CHECK(zero->dtype == RUSH_I32 || zero->dtype == RUSH_F32 || zero->dtype == RUSH_F16, RUSH_RUNTIME_ERROR,
               "Zero-point must be Int32, Float or Half, found %s", rush_dtype_word(zero->dtype));
    RUSH_CHECK(scale->ndim == 1, RUSH_RUNTIME_ERROR, "scale should be a 1-D tensor");
    RUSH_CHECK(zero->ndim == 1, RUSH_RUNTIME_ERROR, "zero point should be a 1-D tensor");
    RUSH_CHECK(scale->numel == zero->numel, RUSH_RUNTIME_ERROR, "scale and zero-point need to have the same dimensions");
    RUSH_CHECK(axis >= 0, RUSH_RUNTIME_ERROR, "`axis` must be between 0 and number of dimensions of input");
    RUSH_CHECK(x->ndim, RUSH_INDEX_ERROR, "Dimension specified as %lld but tensor has no dimensions", (long long)axis);
    if (rush_dim_wrap(axis, x->ndim) < 0) return -1;
    RUSH_CHECK(scale->numel == x->size[axis], RUSH_RUNTIME_ERROR, "dimensions of scale and zero-point are not consistent with input tensor");
    return both_shapes(in, out, "fake_quantize_channel_cachemask_cpu_type_handling", I_(in[4]), I_(in[5]));
}

static void channel_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    int ndim = in[0].t->ndim, axis = (int)I_(in[3]);
    int64_t size[RUSH_MAXDIM];
    for (int d = 0; d < ndim; ++d) size[d] = d == axis ? in[1].t->numel : 1;
    bool whole = in[2].t->dtype == RUSH_I32;
    grid j = {.low = I_(in[4]), .high = I_(in[5]), .rounds_sum = !whole};
    if (whole && in[2].t->numel) {
        bool within = rush_item(T("min", in[2])) >= (double)j.low && rush_item(T("max", in[2])) <= (double)j.high;
        if (!within && !rush_failed()) rush_fail(RUSH_RUNTIME_ERROR, "`zero_point` must be between `quant_min` and `quant_max`.");
    }
    rush_tensor *scale = T("reshape", in[1], rush_v_ints(size, ndim)), *zero = T("reshape", in[2], rush_v_ints(size, ndim));
    if (rush_failed()) return;
    rush_value operand[5] = {out[0], out[1], in[0], V(scale), V(zero)};
    rush_iterate(2, 5, operand, (const uint8_t[]){RUSH_F32, RUSH_BOOL, RUSH_F32, RUSH_F32, RUSH_F32}, snap_channels, &j, 0);
}

static rush_op op_tensor_mask = {
    .schema = "fake_quantize_per_tensor_affine_cachemask(Tensor self, float scale, int zero_point, int quant_min, int quant_max) -> (Tensor output, Tensor mask)",
    .doc = "fake_quantize_per_tensor_affine, and which elements lay within the grid.", .shape = tensor_shape, .cpu = tensor_cpu,
    .grad = masked_grad, .saves = "result1"};
static rush_op op_qparams_mask = {
    .schema = "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams(Tensor self, Tensor scale, Tensor zero_point, Tensor fake_quant_enabled, "
              "int quant_min, int quant_max) -> (Tensor output, Tensor mask)",
    .doc = "The same by a grid given as tensors; self as it is when fake_quant_enabled is zero.", .shape = qparams_shape, .cpu = qparams_cpu,
    .grad = masked_grad, .saves = "result1"};
static rush_op op_channel_mask = {
    .schema = "fake_quantize_per_channel_affine_cachemask(Tensor self, Tensor scale, Tensor zero_point, int axis, int quant_min, int quant_max) -> "
              "(Tensor output, Tensor mask)",
    .doc = "fake_quantize_per_channel_affine, and which elements lay within the grid.", .shape = channel_shape, .cpu = channel_cpu,
    .grad = masked_grad, .saves = "result1"};

static int tensor_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_result(out, T("fake_quantize_per_tensor_affine_cachemask", in[0], in[1], in[2], in[3], in[4]));
}

/* The grid of these two is a constant: nothing tells how the result hangs on it. */
static int constant_grid(const rush_value *in, const char *name)
{
    for (int i = 1; i <= 2 && rush_grad_enabled(); ++i)
        RUSH_CHECK(!rush_requires_grad(in[i].t), RUSH_RUNTIME_ERROR,
                   "The function '%s' is not differentiable with respect to argument '%s'. This input cannot have requires_grad True.", name,
                   i == 1 ? "scale" : "zero_point");
    return 0;
}

static int qparams_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (constant_grid(in, "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams")) return -1;
    rush_tensor *on = T("ones", INTS(1), rush_v_dtype(RUSH_F32), ON(in[0].t));
    return rush_result(out, on ? T("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams", in[0], in[1], in[2], V(on), in[3], in[4]) : NULL);
}

static int channel_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (constant_grid(in, "fake_quantize_per_channel_affine_cachemask")) return -1;
    return rush_result(out, T("fake_quantize_per_channel_affine_cachemask", in[0], in[1], in[2], in[3], in[4], in[5]));
}

static rush_op op_tensor = {
    .schema = "fake_quantize_per_tensor_affine(Tensor self, float scale, int zero_point, int quant_min, int quant_max) -> Tensor",
    .doc = "(clamp(round(self / scale) + zero_point, quant_min, quant_max) - zero_point) * scale; the gradient passes where nothing was clamped.",
    .run = tensor_run, .flags = RUSH_AUTOCAST_F32};
static rush_op op_qparams = {
    .schema = "fake_quantize_per_tensor_affine.tensor_qparams(Tensor self, Tensor scale, Tensor zero_point, int quant_min, int quant_max) -> Tensor",
    .doc = "The same by a scale and a zero point that are tensors of one element.", .run = qparams_run, .flags = RUSH_AUTOCAST_F32};
static rush_op op_channel = {
    .schema = "fake_quantize_per_channel_affine(Tensor self, Tensor scale, Tensor zero_point, int axis, int quant_min, int quant_max) -> Tensor",
    .doc = "fake_quantize_per_tensor_affine with a scale and a zero point for each index of dimension axis.", .run = channel_run};

/* ---- the grid follows what is seen ---- */

/* A scale and a zero point for [low, high], which is made to hold 0: zero must be a point of the grid. The zero point comes
 * from the end whose rounding error is smaller; symmetric grids have it in their middle. */
static void choose_grid(double low, double high, int64_t first, int64_t last, bool symmetric, float *scale, int32_t *zero)
{
    const double least = 6.1e-5; /* smaller scales have inverses that overflow half types */
    double steps = (double)last - (double)first;
    low = fmin(low, 0), high = fmax(high, 0);
    symmetric = symmetric && low < 0 && high > 0;
    if (symmetric) {
        double below = -(trunc(steps / 2) + 1), above = trunc(steps / 2), widest = fmax(fabs(low / below), fabs(high / above));
        low = (float)(widest * below), high = (float)(widest * above);
    }
    double s = (high - low) / steps;
    if ((float)s == 0 || isinf(1 / (float)s)) s = 0.1;
    if (s < least) {
        double wider = (float)least / (float)s;
        s = least;
        if (low == 0) high = least * steps;
        else if (high == 0) low = -least * steps;
        else low = (float)(low * wider), high = (float)(high * wider);
    }
    bool from_low = fabs((double)first) + fabs(low / s) < fabs((double)last) + fabs(high / s);
    double z = symmetric ? ((double)first + (double)last) / 2 : from_low ? (double)first - low / s : (double)last - high / s;
    *scale = (float)s;
    *zero = (int32_t)(z < (double)first ? first : z > (double)last ? last : (int64_t)nearbyintf((float)z));
}

/* The buffer of a statistic: of `dtype`, n elements; a fresh one is made that large. */
static int state(rush_tensor *t, rush_dtype dtype, int64_t n, double first, bool fresh)
{
    RUSH_CHECK(t->dtype == dtype, RUSH_RUNTIME_ERROR, "expected scalar type %s but found %s", rush_dtype_word(dtype), rush_dtype_word(t->dtype));
    if (fresh) {
        if (!T("resize_", V(t), INTS(n)) || !T("fill_.Scalar", V(t), V(first))) return -1;
    }
    RUSH_CHECK(t->numel == n, RUSH_RUNTIME_ERROR, "dimensions of scale and zero-point are not consistent with input tensor");
    return 0;
}

static int observe(rush_tensor *x, rush_tensor *low, rush_tensor *high, float follow, bool rows)
{
    rush_tensor *seen = T("detach", V(x)), *min, *max;
    if (rows && seen) seen = T("flatten.using_ints", V(seen), V(1), V(-1));
    if (!seen) return -1;
    min = rows ? T("amin", V(seen), INTS(1)) : T("min", V(seen));
    max = rows ? T("amax", V(seen), INTS(1)) : T("max", V(seen));
    rush_tensor *end[2] = {low, high}, *now[2] = {min, max};
    for (int e = 0; e < 2; ++e) {
        rush_tensor *old = now[e] ? T("view", V(T("detach", V(end[e]))), rush_v_ints(now[e]->size, now[e]->ndim)) : NULL;
        rush_tensor *next = where(T("isinf", V(old)), now[e], add(old, mul(sub(now[e], old), (double)follow)));
        if (!next || !T("copy_", V(end[e]), V(T("reshape", V(next), rush_v_ints(end[e]->size, end[e]->ndim))))) return -1;
    }
    return 0;
}

/* in: low, high, quant_min, quant_max, symmetric. out: scale, zero point */
static int range_grid_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *low = in[0].t, *high = in[1].t;
    RUSH_CHECK(low->dtype == RUSH_F32 && high->dtype == RUSH_F32 && rush_same_sizes(low, high), RUSH_RUNTIME_ERROR, "ranges must be float32 and of one size");
    RUSH_CHECK(I_(in[2]) <= I_(in[3]), RUSH_RUNTIME_ERROR, "`quant_min` should be less than or         equal to `quant_max`.");
    return rush_out_t(out, 0, low, RUSH_F32, low->ndim, low->size) && rush_out_t(out, 1, low, RUSH_I32, low->ndim, low->size) ? 0 : -1;
}

static void range_grid_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *low = rush_contiguous_copy(in[0].t), *high = rush_contiguous_copy(in[1].t);
    if (!low || !high) return;
    const float *a = rush_ptr(low), *b = rush_ptr(high);
    float *scale = rush_ptr(out[0].t);
    int32_t *zero = rush_ptr(out[1].t);
    for (int64_t i = 0; i < low->numel; ++i) choose_grid(a[i], b[i], I_(in[2]), I_(in[3]), I_(in[4]), scale + i, zero + i);
}

static rush_op op_range_grid = {
    .schema = "_grid_of_range(Tensor low, Tensor high, int quant_min, int quant_max, bool symmetric) -> (Tensor scale, Tensor zero_point)",
    .doc = "The grid that holds a range, for each element of low and high.", .shape = range_grid_shape, .cpu = range_grid_cpu,
    .flags = RUSH_NO_GRAD | RUSH_HIDDEN};

static int regrid(rush_tensor *low, rush_tensor *high, rush_tensor *scale, rush_tensor *zero, int64_t first, int64_t last, bool symmetric)
{
    rush_value made[RUSH_MAXOUT];
    if (TN(made, "_grid_of_range", V(low), V(T("reshape_as", V(high), V(low))), V(first), V(last), V(symmetric))) return -1;
    return T("copy_", V(scale), V(reshape_to(made[0].t, scale))) && T("copy_", V(zero), V(reshape_to(made[1].t, zero))) ? 0 : -1;
}

static int fused_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t, *low = in[3].t, *high = in[4].t, *scale = in[5].t, *zero = in[6].t;
    int64_t first = I_(in[8]), last = I_(in[9]), axis = I_(in[10]);
    bool rows = I_(in[11]), follows = rush_number_of(in[1].t) != 0, snaps = rush_number_of(in[2].t) != 0;
    if (rush_failed()) return -1;
    RUSH_CHECK(!rows || axis == 0, RUSH_RUNTIME_ERROR, "Per-channel FakeQuant in fused_moving_avg_obs_fake_quant is only supported on axis == 0");
    RUSH_CHECK(x->dtype == RUSH_F32, RUSH_RUNTIME_ERROR, "expected scalar type Float but found %s", rush_dtype_word(x->dtype));
    RUSH_CHECK(first <= last, RUSH_RUNTIME_ERROR, "`quant_min` should be less than or         equal to `quant_max`.");
    RUSH_CHECK(!rows || x->ndim, RUSH_INDEX_ERROR, "Dimension specified as 0 but tensor has no dimensions");
    int64_t n = rows ? x->size[0] : 1;
    bool fresh = rows && !low->numel;
    RUSH_CHECK(!snaps || (scale->ndim && zero->ndim), RUSH_INDEX_ERROR, "select() cannot be applied to a 0-dim tensor.");
    if (state(low, RUSH_F32, n, INFINITY, fresh) || state(high, RUSH_F32, n, -INFINITY, fresh)) return -1;
    if ((fresh || snaps) && (state(scale, RUSH_F32, n, 1, fresh) || state(zero, RUSH_I32, n, 0, fresh))) return -1;
    if (follows && x->numel && observe(x, low, high, (float)D_(in[7]), rows)) return -1;
    if (snaps && regrid(low, high, scale, zero, first, last, I_(in[12]))) return -1;
    if (rows && snaps) return TN(out, "fake_quantize_per_channel_affine_cachemask", in[0], in[5], in[6], V(0), in[8], in[9]);
    if (snaps) return TN(out, "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams", in[0], in[5], in[6], in[2], in[8], in[9]);
    out[0] = V(T("clone", in[0]));
    out[1] = V(T("ones_like", in[0], rush_v_dtype(RUSH_BOOL)));
    return rush_failed() ? -1 : 0;
}

static rush_op op_fused_mask = {
    .schema = "_fused_moving_avg_obs_fq_helper(Tensor self, Tensor observer_on, Tensor fake_quant_on, Tensor(a!) running_min, Tensor(b!) running_max, "
              "Tensor(c!) scale, Tensor(d!) zero_point, float averaging_const, int quant_min, int quant_max, int ch_axis, "
              "bool per_row_fake_quant=False, bool symmetric_quant=False) -> (Tensor output, Tensor mask)",
    .doc = "fused_moving_avg_obs_fake_quant, and which elements lay within the grid.", .run = fused_run, .node = "FusedMovingAvgObsFqHelperBackward0",
    .flags = RUSH_SIDE_EFFECT};

static int fused_first_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value both[2];
    if (TN(both, "_fused_moving_avg_obs_fq_helper", in[0], in[1], in[2], in[3], in[4], in[5], in[6], in[7], in[8], in[9], in[10], in[11], in[12])) return -1;
    return rush_result(out, both[0].t);
}

static rush_op op_fused = {
    .schema = "fused_moving_avg_obs_fake_quant(Tensor self, Tensor observer_on, Tensor fake_quant_on, Tensor(a!) running_min, Tensor(b!) running_max, "
              "Tensor(c!) scale, Tensor(d!) zero_point, float averaging_const, int quant_min, int quant_max, int ch_axis, "
              "bool per_row_fake_quant=False, bool symmetric_quant=False) -> Tensor",
    .doc = "With the observer on, the running least and greatest values follow self's by averaging_const. With the rounding on, scale and zero point "
           "are made of them and self is rounded to that grid, per row or as a whole.", .run = fused_first_run, .flags = RUSH_SIDE_EFFECT};

RUSH_FAMILY(fake_quant, &op_tensor_mask, &op_qparams_mask, &op_channel_mask, &op_qparams, &op_tensor, &op_channel, &op_range_grid, &op_fused_mask, &op_fused)
