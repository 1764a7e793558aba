/* convert.c - numbers on a grid: quantize, dequantize, and what a quantized tensor tells.
 *
 * The kernels turn floats into integers and back; quantized tensors are made of the integers without a copy.
 */
#include "quant/quant.h"
#include "kernels/cpu/grid.h"
#include <math.h>

#define SELF (in[0].t)
#define TELLS .flags = RUSH_NO_GRAD

int64_t rush_grid_low(int dtype) { return dtype == RUSH_QUINT8 ? 0 : dtype == RUSH_QINT8 ? -128 : INT32_MIN; }
int64_t rush_grid_high(int dtype) { return dtype == RUSH_QUINT8 ? 255 : dtype == RUSH_QINT8 ? 127 : INT32_MAX; }

int rush_need_quantized(const char *name, const rush_tensor *t)
{
    RUSH_CHECK(rush_is_quantized(t), RUSH_NOT_IMPLEMENTED, "Could not run 'aten::%s' with arguments from the 'CPU' backend: it takes quantized tensors.", name);
    return 0;
}

int rush_need_per_tensor(const char *name, const rush_tensor *t)
{
    if (rush_need_quantized(name, t)) return -1;
    RUSH_CHECK(t->q->scheme == RUSH_PER_TENSOR, RUSH_RUNTIME_ERROR, "Expected quantizer->qscheme() == kPerTensorAffine to be true, but got false.");
    return 0;
}

int rush_need_zero_point(const char *name, int64_t zero, int dtype)
{
    RUSH_CHECK(zero >= rush_grid_low(dtype), RUSH_RUNTIME_ERROR, "%s zero_point %lld is below lower bound.", name, (long long)zero);
    RUSH_CHECK(zero <= rush_grid_high(dtype), RUSH_RUNTIME_ERROR, "%s zero_point %lld is above upper bound.", name, (long long)zero);
    return 0;
}

/* ---- the kernels: integers are strided tensors of int8, uint8, int32 ---- */

static int need_integers(const rush_op *op, rush_dtype dtype)
{
    RUSH_CHECK(dtype == RUSH_I8 || dtype == RUSH_U8 || dtype == RUSH_I32, RUSH_TYPE_ERROR, "%s: int8, uint8 or int32 expected, got %s", op->base, rush_dtype_word(dtype));
    return 0;
}

static int place(int dtype) { return dtype == RUSH_I8 ? GRID_I8 : dtype == RUSH_U8 ? GRID_U8 : GRID_I32; }

static rush_grid grid_of(rush_value scale, rush_value zero)
{
    float s = (float)D_(scale);
    return (rush_grid){.scale = s, .inverse = 1 / s, .zero = (int32_t)I_(zero)};
}

static int to_ints_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_dtype dtype = (rush_dtype)I_(in[op->nargs - 1]);
    if (need_integers(op, dtype)) return -1;
    if (SELF->flags & RUSH_T_CHANNELS_LAST) return rush_out_like(out, 0, SELF, dtype) ? 0 : -1;
    return rush_out_t(out, 0, SELF, dtype, SELF->ndim, SELF->size) ? 0 : -1;
}

static void to_ints_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_grid g = grid_of(in[1], in[2]);
    uint8_t dtype = out[0].t->dtype;
    rush_iterate(1, 2, (rush_value[]){out[0], in[0]}, (const uint8_t[]){dtype, RUSH_F32}, rush_k_grid->quantize[place(dtype)], &g, 0);
}

static int to_numbers_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    return !need_integers(op, SELF->dtype) && rush_out_like(out, 0, SELF, RUSH_F32) ? 0 : -1;
}

static void to_numbers_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_grid g = grid_of(in[1], in[2]);
    uint8_t dtype = SELF->dtype;
    rush_iterate(1, 2, (rush_value[]){out[0], in[0]}, (const uint8_t[]){RUSH_F32, dtype}, rush_k_grid->dequantize[place(dtype)], &g, 0);
}

/* Scales and zero points, of sizes that broadcast to self's. */
static void channels_cpu(const rush_value *in, rush_value *out, bool forth)
{
    uint8_t to = out[0].t->dtype, from = forth ? RUSH_F32 : SELF->dtype;
    rush_grid_loop loop = forth ? rush_k_grid->quantize_channels[place(to)] : rush_k_grid->dequantize_channels[place(from)];
    rush_iterate(1, 4, (rush_value[]){out[0], in[0], in[1], in[2]}, (const uint8_t[]){to, from, RUSH_F32, RUSH_F32}, loop, NULL, 0);
}
static void to_ints_channels_cpu(const rush_op *op, const rush_value *in, rush_value *out) { channels_cpu(in, out, true); }
static void to_numbers_channels_cpu(const rush_op *op, const rush_value *in, rush_value *out) { channels_cpu(in, out, false); }

/* in: self, unit, bias, relu, scale, zero_point, dtype */
static int finish_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_dtype dtype = (rush_dtype)I_(in[6]);
    const rush_tensor *bias = T_(in[2]);
    RUSH_CHECK(SELF->dtype == RUSH_I32 && (SELF->ndim == 2 || SELF->ndim == 4 || SELF->ndim == 5) && in[1].t->dtype == RUSH_F32 && in[1].t->numel == SELF->size[1], RUSH_RUNTIME_ERROR,
               "%s: sums of 2, 4 or 5 dimensions in int32 and a unit for each of their channels expected", op->base);
    RUSH_CHECK(!bias || (bias->dtype == RUSH_F32 && bias->numel == SELF->size[1]), RUSH_RUNTIME_ERROR, "%s: the bias must be a float32 for each channel, but is %s", op->base,
               bias ? rush_shape_of(bias) : "");
    return (dtype == RUSH_F32 || !need_integers(op, dtype)) && rush_out_format(out, 0, rush_channels_last(SELF->ndim), SELF, dtype, SELF->ndim, SELF->size) ? 0 : -1;
}

static void finish_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_memory_format format = rush_channels_last(SELF->ndim);
    rush_tensor *to = out[0].t, *unit = rush_contiguous_copy(in[1].t), *bias = HAS(in[2]) ? rush_contiguous_copy(in[2].t) : T("zeros_like", V(unit));
    rush_tensor *sums = T("contiguous", in[0], rush_v_memory_format(format));
    rush_tensor *y = rush_contiguous_as(to, format) ? to : T("empty_like", V(to), RUSH_NONE, RUSH_NONE, RUSH_NONE, RUSH_NONE, rush_v_memory_format(format));
    if (!unit || !bias || !sums || !y || !to->numel) return;
    rush_grid_sums s = {.rows = to->numel / to->size[1], .channels = to->size[1], .sums = rush_ptr(sums), .unit = rush_ptr(unit), .bias = rush_ptr(bias), .relu = I_(in[3]),
                        .grid = grid_of(in[4], in[5]), .to = rush_ptr(y)};
    (to->dtype == RUSH_F32 ? rush_k_grid->finish_f32 : rush_k_grid->finish[place(to->dtype)])(&s);
    if (y != to) rush_copy_into(to, y);
}

static rush_op op_finish = {
    .schema = "_grid_finish(Tensor self, Tensor unit, Tensor? bias, bool relu, float scale, int zero_point, ScalarType dtype) -> Tensor",
    .doc = "self * unit + bias of sums in int32 (n, channels, ...) with a unit and a bias for each channel, relu'd if so: on the grid of scale and zero_point, or in "
           "float32. The result lies with its channels last.", .shape = finish_shape, .cpu = finish_cpu, .flags = RUSH_NO_GRAD | RUSH_HIDDEN};
static rush_op op_to_ints = {
    .schema = "_grid_integers(Tensor self, float scale, int zero_point, ScalarType dtype) -> Tensor",
    .doc = "round(self / scale) + zero_point within the bounds of an integer dtype.", .shape = to_ints_shape, .cpu = to_ints_cpu, .flags = RUSH_NO_GRAD | RUSH_HIDDEN};
static rush_op op_to_ints_channels = {
    .schema = "_grid_integers.channels(Tensor self, Tensor scale, Tensor zero_point, ScalarType dtype) -> Tensor",
    .doc = "The same with a scale and a zero point for each element, broadcast.", .shape = to_ints_shape, .cpu = to_ints_channels_cpu, .flags = RUSH_NO_GRAD | RUSH_HIDDEN};
static rush_op op_to_numbers = {
    .schema = "_grid_numbers(Tensor self, float scale, int zero_point) -> Tensor",
    .doc = "(self - zero_point) * scale of integers, float32.", .shape = to_numbers_shape, .cpu = to_numbers_cpu, .flags = RUSH_NO_GRAD | RUSH_HIDDEN};
static rush_op op_to_numbers_channels = {
    .schema = "_grid_numbers.channels(Tensor self, Tensor scale, Tensor zero_point) -> Tensor",
    .doc = "The same with a scale and a zero point for each element, broadcast.", .shape = to_numbers_shape, .cpu = to_numbers_channels_cpu, .flags = RUSH_NO_GRAD | RUSH_HIDDEN};

/* ---- quantize ---- */

/* Scales or zero points of t's channels, so that they broadcast over t. */
static rush_tensor *along(rush_tensor *per_channel, const rush_tensor *t, int axis)
{
    int64_t size[RUSH_MAXDIM];
    for (int d = 0; d < t->ndim; ++d) size[d] = d == axis ? -1 : 1;
    return T("reshape", V(per_channel), rush_v_ints(size, t->ndim));
}

static int store_of(rush_value dtype, const rush_tensor *x)
{
    int store = rush_quantized_store((int)I_(dtype));
    RUSH_CHECK(store >= 0, RUSH_RUNTIME_ERROR, "ScalarType %s is not supported in quantized tensors: quint8, qint8 and qint32 are", rush_dtype_word((rush_dtype)I_(dtype)));
    RUSH_CHECK(x->dtype == RUSH_F32, RUSH_RUNTIME_ERROR, "Quantize only works on Float Tensor, got %s", rush_dtype_word(x->dtype));
    return store;
}

static rush_tensor *quantized(rush_tensor *x, double scale, int64_t zero, int dtype, const char *name)
{
    int store = store_of(rush_v_dtype(dtype), x);
    if (store < 0) return NULL;
    if (rush_need_zero_point(name, zero, dtype)) return NULL;
    rush_tensor *ints = T("_grid_integers", V(x), V(scale), V(zero), rush_v_dtype(store));
    return ints ? rush_quantized_tensor(ints, scale, zero) : NULL;
}

rush_tensor *rush_on_grid(rush_tensor *x, double scale, int64_t zero_point, int dtype)
{
    return x ? quantized(x, scale, zero_point, dtype, "quantize_tensor_per_tensor_affine") : NULL;
}

/* The same scales and zero points, for integers of another tensor. */
static rush_tensor *channel_integers(rush_tensor *x, rush_tensor *scales, rush_tensor *zeros, int axis, int store)
{
    return T("_grid_integers.channels", V(x), V(along(scales, x, axis)), V(along(zeros, x, axis)), rush_v_dtype(store));
}

rush_tensor *rush_on_grid_of(rush_tensor *x, const rush_tensor *of)
{
    const rush_qparams *q = of->q;
    int store = rush_quantized_store(of->dtype);
    if (!x) return NULL;
    rush_tensor *ints = q->scheme == RUSH_PER_TENSOR ? T("_grid_integers", V(x), V(q->scale), V(q->zero_point), rush_v_dtype(store))
                                                     : channel_integers(x, q->scales, q->zeros, q->axis, store);
    return rush_quantized_like(ints, of);
}

static int per_tensor_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_result(out, rush_on_grid(SELF, D_(in[1]), I_(in[2]), (int)I_(in[3])));
}

static int tensor_qparams_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *zero = to_dtype(in[2].t, RUSH_I64);
    double scale = rush_number_of(in[1].t), at = rush_number_of(zero);
    return rush_failed() ? -1 : rush_result(out, rush_on_grid(SELF, scale, (int64_t)at, (int)I_(in[3])));
}

static int tensors_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor **list = rush_out_list(out, 0, in[0].n);
    if (!list) return -1;
    RUSH_CHECK(in[1].t->numel >= in[0].n && in[2].t->numel >= in[0].n, RUSH_RUNTIME_ERROR, "there are fewer scales or zero points than tensors");
    for (uint32_t i = 0; i < in[0].n; ++i) {
        rush_tensor *s = T("select.int", in[1], V(0), V((int64_t)i)), *z = T("select.int", in[2], V(0), V((int64_t)i));
        if (!(list[i] = T("quantize_per_tensor.tensor_qparams", V(in[0].tensors[i]), V(s), V(z), in[3]))) return -1;
    }
    return 0;
}

/* The grid of all that is there: scale and zero point by the rule of observers. */
static int range_of(rush_tensor *x, int64_t low, int64_t high, double *scale, int64_t *zero)
{
    rush_value ends[RUSH_MAXOUT], grid[RUSH_MAXOUT];
    RUSH_CHECK(x->dtype == RUSH_F32, RUSH_RUNTIME_ERROR, "Quantize only works on Float Tensor, got %s", rush_dtype_word(x->dtype));
    rush_tensor *flat = T("reshape", V(T("detach", V(x))), INTS(-1));
    if (x->numel && TN(ends, "aminmax", V(flat))) return -1;
    if (!x->numel) ends[0] = ends[1] = V(T("zeros", INTS(), rush_v_dtype(RUSH_F32)));
    if (rush_failed() || TN(grid, "_grid_of_range", ends[0], ends[1], V(low), V(high), V((bool)false))) return -1;
    *scale = rush_number_of(grid[0].t);
    *zero = (int64_t)rush_number_of(grid[1].t);
    double from = rush_number_of(ends[0].t), to = rush_number_of(ends[1].t);
    from = from < 0 ? from : 0;
    to = to > 0 ? to : 0;
    double exact = (to - from) / (double)(high - low);
    if (exact > 0 && (float)exact == (float)*scale) { /* in float64, where it was not widened; and the zero point by the end that is nearer to it */
        double by_low = (double)low - from / exact, by_high = (double)high - to / exact;
        bool lower = fabs((double)low) - from / exact < fabs((double)high) + to / exact;
        *scale = exact;
        *zero = (int64_t)nearbyint(fmin(fmax(lower ? by_low : by_high, (double)low), (double)high));
    }
    return rush_failed() ? -1 : 0;
}

static int dynamic_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    int dtype = (int)I_(in[1]);
    double scale;
    int64_t zero;
    RUSH_CHECK(dtype == RUSH_QINT8 || dtype == RUSH_QUINT8, RUSH_RUNTIME_ERROR, "dtype %s not supported", rush_dtype_word((rush_dtype)dtype));
    int64_t low = rush_grid_low(dtype), high = rush_grid_high(dtype);
    if (I_(in[2])) low /= 2, high /= 2;
    if (range_of(SELF, low, high, &scale, &zero)) return -1;
    return rush_result(out, rush_on_grid(SELF, scale, zero, dtype));
}

static int choose_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    double scale;
    int64_t zero;
    if (range_of(SELF, 0, I_(in[1]) ? 127 : 255, &scale, &zero)) return -1;
    out[0] = rush_v_float(scale);
    out[1] = rush_v_int(zero);
    return 0;
}

/* Scales and zero points as a tensor keeps them. */
static int kept_channels(const rush_tensor *x, rush_tensor **scales, rush_tensor **zeros, int64_t axis, rush_qscheme *scheme)
{
    rush_tensor *s = *scales, *z = *zeros;
    RUSH_CHECK(s->ndim == 1, RUSH_RUNTIME_ERROR, "scale tensor must have dimension 1");
    RUSH_CHECK(z->ndim == 1, RUSH_RUNTIME_ERROR, "zero_points tensor must have dimension 1");
    RUSH_CHECK(s->numel == z->numel, RUSH_RUNTIME_ERROR, "number of elements in scales and zero_points must match");
    RUSH_CHECK(axis >= 0 && axis < x->ndim, RUSH_RUNTIME_ERROR, "Channel axis out of range in per channel affine quantization. Got: %lldExpected: [0, %d)", (long long)axis, x->ndim);
    RUSH_CHECK(s->numel == x->size[axis], RUSH_RUNTIME_ERROR, "length of scales must equal to channel, expected %lld got, %lld", (long long)x->size[axis], (long long)s->numel);
    bool floats = rush_dtype_is_float(z->dtype);
    *scheme = floats ? RUSH_PER_CHANNEL_FLOAT : RUSH_PER_CHANNEL;
    *scales = T("clone", V(to_dtype(s, floats ? RUSH_F32 : RUSH_F64)), rush_v_memory_format(RUSH_CONTIGUOUS));
    *zeros = T("clone", V(to_dtype(z, floats ? RUSH_F32 : RUSH_I64)), rush_v_memory_format(RUSH_CONTIGUOUS));
    return rush_failed() ? -1 : 0;
}

static int per_channel_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *s = in[1].t, *z = in[2].t;
    rush_qscheme scheme;
    int store = store_of(in[4], SELF);
    if (store < 0 || kept_channels(SELF, &s, &z, I_(in[3]), &scheme)) return -1;
    return rush_result(out, rush_quantized_channels(channel_integers(SELF, s, z, (int)I_(in[3]), store), s, z, (int)I_(in[3]), scheme));
}

static rush_op op_per_tensor = {
    .schema = "quantize_per_tensor(Tensor self, float scale, int zero_point, ScalarType dtype) -> Tensor", .run = per_tensor_run, .flags = RUSH_NO_GRAD,
    .doc = "A quantized tensor: round(self / scale) + zero_point, within the bounds of dtype (quint8, qint8 or qint32)."};
static rush_op op_tensor_qparams = {
    .schema = "quantize_per_tensor.tensor_qparams(Tensor self, Tensor scale, Tensor zero_point, ScalarType dtype) -> Tensor", .run = tensor_qparams_run, .flags = RUSH_NO_GRAD,
    .doc = "The same by a scale and a zero point that are tensors of one element."};
static rush_op op_tensors = {
    .schema = "quantize_per_tensor.tensors(Tensor[] tensors, Tensor scales, Tensor zero_points, ScalarType dtype) -> Tensor[]", .run = tensors_run, .flags = RUSH_NO_GRAD,
    .doc = "Each tensor by its own scale and zero point."};
static rush_op op_dynamic = {
    .schema = "quantize_per_tensor_dynamic(Tensor self, ScalarType dtype, bool reduce_range) -> Tensor", .run = dynamic_run, .flags = RUSH_NO_GRAD,
    .doc = "A quantized tensor by the scale and the zero point that suit the least and the greatest element; with half as many steps if reduce_range."};
static rush_op op_choose = {
    .schema = "_choose_qparams_per_tensor(Tensor self, bool reduce_range=False) -> (float, int)", .run = choose_run, .flags = RUSH_NO_GRAD | RUSH_HIDDEN,
    .doc = "The scale and the zero point that quantize_per_tensor_dynamic takes for quint8."};
static rush_op op_per_channel = {
    .schema = "quantize_per_channel(Tensor self, Tensor scales, Tensor zero_points, int axis, ScalarType dtype) -> Tensor", .run = per_channel_run, .flags = RUSH_NO_GRAD,
    .doc = "A quantized tensor with a scale and a zero point for each index of dimension axis."};

/* ---- back ---- */

rush_tensor *rush_numbers(rush_tensor *t)
{
    if (!t || !rush_is_quantized(t)) return t;
    const rush_qparams *q = t->q;
    rush_tensor *ints = rush_quantized_ints(t);
    if (q->scheme == RUSH_PER_TENSOR) return T("_grid_numbers", V(ints), V(q->scale), V(q->zero_point));
    return T("_grid_numbers.channels", V(ints), V(along(q->scales, t, q->axis)), V(along(q->zeros, t, q->axis)));
}

static rush_tensor *dequantized(rush_tensor *t)
{
    return rush_is_quantized(t) ? rush_numbers(t) : to_dtype(t, RUSH_F32);
}

static int dequantize_run(const rush_op *op, const rush_value *in, rush_value *out) { return rush_result(out, dequantized(SELF)); }

static int dequantize_list_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor **list = rush_out_list(out, 0, in[0].n);
    if (!list) return -1;
    for (uint32_t i = 0; i < in[0].n; ++i)
        if (!(list[i] = dequantized(in[0].tensors[i]))) return -1;
    return 0;
}

static rush_op op_dequantize = {
    .schema = "dequantize.self(Tensor self) -> Tensor", .method = RUSH_METHOD, .run = dequantize_run,
    .doc = "The numbers that a quantized tensor stands for, float32."};
static rush_op op_dequantize_list = {
    .schema = "dequantize.tensors(Tensor[] tensors) -> Tensor[]", .run = dequantize_list_run, .doc = "The numbers of each."};

/* ---- what it tells ---- */

static int int_repr_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (rush_need_quantized("int_repr", SELF)) return -1;
    rush_tensor *ints = rush_quantized_ints(SELF);
    return rush_result(out, ints ? T("clone", V(ints)) : NULL);
}

static int q_scale_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_need_per_tensor("q_scale", SELF) ? -1 : (out[0] = rush_v_float(SELF->q->scale), 0);
}

static int q_zero_point_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_need_per_tensor("q_zero_point", SELF) ? -1 : (out[0] = rush_v_int(SELF->q->zero_point), 0);
}

static int need_channels(const char *name, const rush_tensor *t)
{
    if (rush_need_quantized(name, t)) return -1;
    RUSH_CHECK(t->q->scheme != RUSH_PER_TENSOR, RUSH_RUNTIME_ERROR,
               "Expected quantizer->qscheme() == kPerChannelAffine || quantizer->qscheme() == kPerChannelAffineFloatQParams to be true, but got false.");
    return 0;
}

static int q_scales_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return need_channels("q_per_channel_scales", SELF) ? -1 : rush_result(out, rush_tensor_detach(SELF->q->scales));
}
static int q_zeros_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return need_channels("q_per_channel_zero_points", SELF) ? -1 : rush_result(out, rush_tensor_detach(SELF->q->zeros));
}
static int q_axis_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return need_channels("q_per_channel_axis", SELF) ? -1 : (out[0] = rush_v_int(SELF->q->axis), 0);
}
static int qscheme_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_need_quantized("qscheme", SELF) ? -1 : (out[0] = rush_v_int(SELF->q->scheme), 0);
}

#define TELL(id, name, result, words) \
    static rush_op op_##id = {.schema = name "(Tensor self) -> " result, .method = RUSH_METHOD, .doc = words, .run = id##_run, TELLS}
TELL(int_repr, "int_repr", "Tensor", "The integers of a quantized tensor, a copy.");
TELL(q_scale, "q_scale", "float", "The scale of a tensor quantized as a whole.");
TELL(q_zero_point, "q_zero_point", "int", "The integer that stands for zero.");
TELL(q_scales, "q_per_channel_scales", "Tensor", "The scales of a tensor quantized per channel.");
TELL(q_zeros, "q_per_channel_zero_points", "Tensor", "The zero points of a tensor quantized per channel.");
TELL(q_axis, "q_per_channel_axis", "int", "The dimension that counts the channels.");
static rush_op op_qscheme = {.schema = "_qscheme(Tensor self) -> int", .doc = "The number of the quantization scheme.", .run = qscheme_run, .flags = RUSH_NO_GRAD | RUSH_HIDDEN};

/* ---- of integers ---- */

/* copied: PyTorch's make functions copy; loading shares the storage. */
static int make_run(const rush_value *in, rush_value *out, bool copied)
{
    rush_tensor *ints = copied ? T("clone", in[0]) : rush_tensor_detach(SELF);
    return rush_result(out, ints ? rush_quantized_tensor(ints, D_(in[1]), I_(in[2])) : NULL);
}

static int make_channels_run(const rush_value *in, rush_value *out, bool copied)
{
    rush_tensor *s = in[1].t, *z = in[2].t, *ints;
    rush_qscheme scheme;
    if (kept_channels(SELF, &s, &z, I_(in[3]), &scheme) || !(ints = copied ? T("clone", in[0]) : rush_tensor_detach(SELF))) return -1;
    return rush_result(out, rush_quantized_channels(ints, s, z, (int)I_(in[3]), scheme));
}

static int make_tensor_run(const rush_op *op, const rush_value *in, rush_value *out) { return make_run(in, out, true); }
static int over_tensor_run(const rush_op *op, const rush_value *in, rush_value *out) { return make_run(in, out, false); }
static int make_channel_run(const rush_op *op, const rush_value *in, rush_value *out) { return make_channels_run(in, out, true); }
static int over_channel_run(const rush_op *op, const rush_value *in, rush_value *out) { return make_channels_run(in, out, false); }

static rush_op op_make = {
    .schema = "_make_per_tensor_quantized_tensor(Tensor self, float scale, int zero_point) -> Tensor", .run = make_tensor_run, .flags = RUSH_NO_GRAD | RUSH_HIDDEN,
    .doc = "A quantized tensor of a copy of these integers."};
static rush_op op_make_channels = {
    .schema = "_make_per_channel_quantized_tensor(Tensor self, Tensor scale, Tensor zero_point, int axis) -> Tensor", .run = make_channel_run, .flags = RUSH_NO_GRAD | RUSH_HIDDEN,
    .doc = "The same with a scale and a zero point for each index of dimension axis."};
static rush_op op_over = {
    .schema = "_quantized_over(Tensor self, float scale, int zero_point) -> Tensor", .run = over_tensor_run, .flags = RUSH_NO_GRAD | RUSH_HIDDEN,
    .doc = "A quantized tensor over the memory of these integers."};
static rush_op op_over_channels = {
    .schema = "_quantized_over.channels(Tensor self, Tensor scale, Tensor zero_point, int axis) -> Tensor", .run = over_channel_run, .flags = RUSH_NO_GRAD | RUSH_HIDDEN,
    .doc = "The same with a scale and a zero point for each index of dimension axis."};

/* in: size, [scales, zero_points, axis,] dtype, layout, device, pin_memory, [scale, zero_point,] memory_format */
static rush_tensor *empty_ints(const rush_value *in, rush_value dtype, rush_value device)
{
    int store = HAS(dtype) ? rush_quantized_store((int)I_(dtype)) : -1;
    RUSH_CHECK_NULL(store >= 0, RUSH_RUNTIME_ERROR, "Creation of quantized tensor requires quantized dtype like torch.quint8");
    return T("empty.memory_format", in[0], rush_v_dtype(store), RUSH_NONE, device);
}

static int empty_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *ints = empty_ints(in, in[1], in[3]);
    return rush_result(out, ints ? rush_quantized_tensor(ints, D_(in[5]), I_(in[6])) : NULL);
}

static int empty_channels_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *s = in[1].t, *z = in[2].t, *ints = empty_ints(in, in[4], in[6]);
    rush_qscheme scheme;
    if (!ints || kept_channels(ints, &s, &z, I_(in[3]), &scheme)) return -1;
    return rush_result(out, rush_quantized_channels(ints, s, z, (int)I_(in[3]), scheme));
}

#define FACTORY "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, "
static rush_op op_empty = {
    .schema = "_empty_affine_quantized(SymInt[] size, *, " FACTORY "float scale=1, int zero_point=0, MemoryFormat? memory_format=contiguous_format) -> Tensor",
    .run = empty_run, .flags = RUSH_NO_GRAD | RUSH_HIDDEN, .doc = "A quantized tensor not initialised."};
static rush_op op_empty_channels = {
    .schema = "_empty_per_channel_affine_quantized(SymInt[] size, *, Tensor scales, Tensor zero_points, int axis, " FACTORY "MemoryFormat? memory_format=contiguous_format) -> Tensor",
    .run = empty_channels_run, .flags = RUSH_NO_GRAD | RUSH_HIDDEN, .doc = "The same with a scale and a zero point for each index of dimension axis."};

RUSH_FAMILY(quant_convert, &op_to_ints, &op_finish, &op_to_ints_channels, &op_to_numbers, &op_to_numbers_channels, &op_per_tensor, &op_tensor_qparams, &op_tensors, &op_dynamic,
            &op_choose, &op_per_channel, &op_dequantize, &op_dequantize_list, &op_int_repr, &op_q_scale, &op_q_zero_point, &op_q_scales, &op_q_zeros, &op_q_axis, &op_qscheme,
            &op_make, &op_make_channels, &op_over, &op_over_channels, &op_empty, &op_empty_channels)
