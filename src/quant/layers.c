/* layers.c - linear layers, convolutions and embeddings with quantized weights.
 *
 * Products of integers are exact (ops/product/conv_bytes.c says where those of convolutions have 24 bits). What comes of
 * them is scaled once, with the bias in float32, and rounded once to the output's grid.
 * These are what the operations over packed parameters (torch.ops.quantized.linear, ...) are made of.
 */
#include "quant/quant.h"
#include "kernels/cpu/quant.h"

#define SELF (in[0].t)
#define PLAIN .flags = RUSH_NO_GRAD | RUSH_HIDDEN

/* ---- integers times integers ---- */

static int product_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *a = in[0].t, *b = in[2].t;
    RUSH_CHECK(a->ndim == 2 && b->ndim == 2 && a->size[1] == b->size[1], RUSH_RUNTIME_ERROR, "The columns of the input %s and of the weight %s differ",
               rush_shape_of(a), rush_shape_of(b));
    RUSH_CHECK((a->dtype == RUSH_U8 || a->dtype == RUSH_I8) && b->dtype == RUSH_I8, RUSH_RUNTIME_ERROR, "products are of int8 or uint8 and int8, not of %s and %s",
               rush_dtype_name(a->dtype), rush_dtype_name(b->dtype));
    return rush_out_t(out, 0, a, RUSH_I32, 2, (int64_t[]){a->size[0], b->size[0]}) ? 0 : -1;
}

static void product_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *a = rush_contiguous_copy(in[0].t), *b = rush_contiguous_copy(in[2].t);
    rush_tensor *c = rush_contiguous(out[0].t) ? out[0].t : rush_tensor_new(RUSH_I32, out[0].t->device, 2, out[0].t->size);
    uint32_t zero = (uint32_t)I_(in[1]); /* sums are modulo 2^32, whatever it is */
    if (!a || !b || !c) return;
    if (a->dtype == RUSH_I8) {
        rush_tensor *above = rush_tensor_new(RUSH_U8, a->device, 2, a->size);
        if (!above) return;
        rush_k_quant->above(rush_ptr(above), rush_ptr(a), a->numel);
        a = above;
        zero += 128;
    }
    rush_k_quant->bytes(&(rush_byte_product){.m = a->size[0], .n = b->size[0], .k = a->size[1], .a = rush_ptr(a), .b = rush_ptr(b), .c = rush_ptr(c), .a_zero = (int32_t)zero});
    if (c != out[0].t) rush_copy_into(out[0].t, c);
}

static rush_op op_product = {
    .schema = "_grid_product(Tensor self, int zero_point, Tensor weight) -> Tensor",
    .doc = "(self - zero_point) @ weight.T of int8 or uint8 and int8, in int32.", .shape = product_shape, .cpu = product_cpu, .flags = RUSH_NO_GRAD | RUSH_HIDDEN};

/* ---- what both kinds of layers need of a weight ---- */

static int need_weight(const rush_tensor *x, const rush_tensor *w)
{
    if (rush_need_per_tensor("linear", x) || rush_need_quantized("linear", w)) return -1;
    RUSH_CHECK(w->dtype == RUSH_QINT8, RUSH_RUNTIME_ERROR, "quantized layers have weights of qint8, not of %s", rush_dtype_name(w->dtype));
    RUSH_CHECK(x->dtype == RUSH_QUINT8 || x->dtype == RUSH_QINT8, RUSH_RUNTIME_ERROR, "quantized layers take quint8 and qint8, not %s", rush_dtype_name(x->dtype));
    return 0;
}

/* What an integer of the sums stands for, by output channel. */
static rush_tensor *unit_of(const rush_tensor *x, const rush_tensor *w, int64_t channels)
{
    double sx = x->q->scale;
    if (w->q->scheme == RUSH_PER_TENSOR) return T("full", rush_v_ints(&channels, 1), V((double)((float)sx * (float)w->q->scale)), rush_v_dtype(RUSH_F32));
    return to_dtype(mul(w->q->scales, sx), RUSH_F32);
}

/* Do integers of the weight stand for numbers that are not in proportion? */
static bool has_zero_points(const rush_tensor *w)
{
    return w->q->scheme == RUSH_PER_TENSOR ? w->q->zero_point != 0 : rush_number_of(T("any", V(w->q->zeros))) != 0;
}

/* A layer's grid; numbers == true: the result is of float32, on none. */
typedef struct layer_result {
    bool relu, numbers;
    double scale;
    int64_t zero_point;
} layer_result;

/* Sums with channels in dimension 1, of int32, or of float32 where weights have zero points. */
static rush_tensor *finish(rush_tensor *sums, rush_tensor *unit, rush_tensor *bias, const layer_result *r, int dtype)
{
    rush_dtype store = r->numbers ? RUSH_F32 : (rush_dtype)rush_quantized_store(dtype);
    if (!sums || !unit || (!r->numbers && rush_need_zero_point("quantize_tensor_per_tensor_affine", r->zero_point, dtype))) return NULL;
    if (sums->dtype == RUSH_I32 && (!bias || bias->dtype == RUSH_F32)) {
        rush_tensor *y = T("_grid_finish", V(sums), V(unit), bias ? V(bias) : RUSH_NONE, V(r->relu), V(r->scale), V(r->zero_point), rush_v_dtype(store));
        return y && !r->numbers ? rush_quantized_tensor(y, r->scale, r->zero_point) : y;
    }
    int64_t size[RUSH_MAXDIM];
    for (int d = 0; d < sums->ndim; ++d) size[d] = d == 1 ? -1 : 1;
    rush_tensor *y = mul(to_dtype(sums, RUSH_F32), T("reshape", V(unit), rush_v_ints(size, (size_t)sums->ndim)));
    if (bias) y = add(y, T("reshape", V(bias), rush_v_ints(size, (size_t)sums->ndim)));
    if (r->relu) y = T("relu", V(y));
    return r->numbers || !y ? y : rush_on_grid(y, r->scale, r->zero_point, dtype);
}

/* ---- linear ---- */

static int linear(rush_value *out, rush_tensor *x, rush_tensor *w, rush_tensor *bias, const layer_result *r)
{
    if (need_weight(x, w)) return -1;
    RUSH_CHECK(x->ndim >= 1 && w->ndim == 2 && x->size[x->ndim - 1] == w->size[1], RUSH_RUNTIME_ERROR,
               "The number of columns in the input (%s) must be the number of rows in the packed weight (%s)", rush_shape_of(x), rush_shape_of(w));
    int64_t size[RUSH_MAXDIM], k = w->size[1];
    memcpy(size, x->size, sizeof *size * x->ndim);
    size[x->ndim - 1] = w->size[0];
    rush_tensor *rows = T("reshape", V(rush_quantized_ints(x)), INTS(k ? x->numel / k : 0, k));
    rush_tensor *sums = T("_grid_product", V(rows), V(x->q->zero_point), V(rush_quantized_ints(w)));
    if (sums && has_zero_points(w)) { /* less the weight's zero point times the sum of a row */
        rush_tensor *row = sub(sum_dim(rows, 1, true), V(k * x->q->zero_point));
        sums = sub(to_dtype(sums, RUSH_F32), mul(to_dtype(row, RUSH_F32), w->q->scheme == RUSH_PER_TENSOR ? V((double)w->q->zero_point) : V(to_dtype(w->q->zeros, RUSH_F32))));
    }
    rush_tensor *y = finish(sums, unit_of(x, w, w->size[0]), bias, r, x->dtype);
    return rush_result(out, y ? T("reshape", V(y), rush_v_ints(size, x->ndim)) : NULL);
}

static int linear_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return linear(out, SELF, in[1].t, T_(in[2]), &(layer_result){.relu = I_(in[5]), .scale = D_(in[3]), .zero_point = I_(in[4])});
}

static int linear_numbers_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return linear(out, SELF, in[1].t, T_(in[2]), &(layer_result){.relu = I_(in[3]), .numbers = true, .scale = 1});
}

static int linear_dynamic_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(SELF->dtype == RUSH_F32, RUSH_RUNTIME_ERROR, "linear_dynamic takes float32, not %s", rush_dtype_name(SELF->dtype));
    rush_tensor *x = T("quantize_per_tensor_dynamic", in[0], rush_v_dtype(RUSH_QUINT8), in[4]);
    return x ? linear(out, x, in[1].t, T_(in[2]), &(layer_result){.relu = I_(in[3]), .numbers = true, .scale = 1}) : -1;
}

static rush_op op_linear = {
    .schema = "_quantized_linear(Tensor input, Tensor weight, Tensor? bias, float scale, int zero_point, bool relu) -> Tensor",
    .doc = "A linear layer of a quantized input and weight (out, in), on the grid of scale and zero_point.", .run = linear_run, PLAIN};
static rush_op op_linear_numbers = {
    .schema = "_quantized_linear.numbers(Tensor input, Tensor weight, Tensor? bias, bool relu) -> Tensor", .doc = "The same with a result in float32.", .run = linear_numbers_run, PLAIN};
static rush_op op_linear_dynamic = {
    .schema = "_quantized_linear.dynamic(Tensor input, Tensor weight, Tensor? bias, bool relu, bool reduce_range) -> Tensor",
    .doc = "The same of an input in float32, which is quantized by its least and greatest element.", .run = linear_dynamic_run, PLAIN};

/* ---- convolution ---- */

/* The integers less their zero points, as float32. */
static rush_tensor *steps(rush_tensor *t)
{
    const rush_qparams *q = t->q;
    rush_tensor *ints = rush_quantized_ints(t);
    if (q->scheme == RUSH_PER_TENSOR) return T("_grid_numbers", V(ints), V(1.0), V(q->zero_point));
    rush_tensor *plain = to_dtype(ints, RUSH_F32);
    int64_t size[RUSH_MAXDIM];
    for (int d = 0; d < t->ndim; ++d) size[d] = d == q->axis ? -1 : 1;
    return has_zero_points(t) ? sub(plain, T("reshape", V(to_dtype(q->zeros, RUSH_F32)), rush_v_ints(size, t->ndim))) : plain;
}

/* in: input, weight, bias, stride, padding, dilation, transposed, output_padding, groups, ... */
static rush_tensor *conv(rush_tensor *x, const rush_value *in, const layer_result *r)
{
    rush_tensor *w = in[1].t, *sums;
    if (need_weight(x, w) || (w->storage && rush_storage_settle(w->storage))) return NULL; /* a packed weight changes no more */
    RUSH_CHECK_NULL(x->ndim == w->ndim, RUSH_RUNTIME_ERROR, "a quantized convolution takes %d dimensions, with the batch, not %d", w->ndim, x->ndim);
    if (x->ndim < 4 || has_zero_points(w)) sums = T("convolution", V(steps(x)), V(steps(w)), RUSH_NONE, in[3], in[4], in[5], in[6], in[7], in[8]);
    else sums = T("_grid_convolution", V(rush_quantized_ints(x)), V(x->q->zero_point), V(rush_quantized_ints(w)), in[3], in[4], in[5], in[6], in[7], in[8]);
    return sums ? finish(sums, unit_of(x, w, sums->size[1]), T_(in[2]), r, x->dtype) : NULL;
}

static int conv_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_result(out, conv(SELF, in, &(layer_result){.relu = I_(in[11]), .scale = D_(in[9]), .zero_point = I_(in[10])}));
}

static int conv_add_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *other = in[12].t;
    if (rush_need_per_tensor("conv_add", other)) return -1;
    rush_tensor *y = conv(SELF, in, &(layer_result){.numbers = true, .scale = 1});
    if (y) y = add(y, rush_numbers(other));
    if (I_(in[11]) && y) y = T("relu", V(y));
    return rush_result(out, rush_on_grid(y, D_(in[9]), I_(in[10]), SELF->dtype));
}

static int conv_dynamic_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(SELF->dtype == RUSH_F32, RUSH_RUNTIME_ERROR, "conv_dynamic takes float32, not %s", rush_dtype_name(SELF->dtype));
    rush_tensor *x = T("quantize_per_tensor_dynamic", in[0], rush_v_dtype(RUSH_QUINT8), in[10]);
    return x ? rush_result(out, conv(x, in, &(layer_result){.relu = I_(in[9]), .numbers = true, .scale = 1})) : -1;
}

#define CONV "Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, bool transposed, int[] output_padding, int groups, "
static rush_op op_conv = {
    .schema = "_quantized_conv(" CONV "float scale, int zero_point, bool relu) -> Tensor",
    .doc = "A convolution of a quantized input and weight, on the grid of scale and zero_point.", .run = conv_run, PLAIN};
static rush_op op_conv_add = {
    .schema = "_quantized_conv.add(" CONV "float scale, int zero_point, bool relu, Tensor other) -> Tensor", .doc = "The same with another tensor added before.", .run = conv_add_run, PLAIN};
static rush_op op_conv_dynamic = {
    .schema = "_quantized_conv.dynamic(" CONV "bool relu, bool reduce_range) -> Tensor",
    .doc = "The same of an input in float32, which is quantized by its least and greatest element, with a result in float32.", .run = conv_dynamic_run, PLAIN};

/* ---- embedding: a weight with a float scale and zero point for each row ---- */

static int rows_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *w = SELF, *at = in[1].t;
    if (rush_need_quantized("embedding", w)) return -1;
    RUSH_CHECK(w->ndim == 2 && w->q->scheme != RUSH_PER_TENSOR && w->q->axis == 0, RUSH_RUNTIME_ERROR, "embeddings have a matrix with a scale for each row");
    rush_tensor *flat = T("reshape", V(at), INTS(-1)), *ints = T("index_select", V(rush_quantized_ints(w)), V(0), V(flat));
    rush_tensor *scale = T("index_select", V(w->q->scales), V(0), V(flat)), *zero = T("index_select", V(w->q->zeros), V(0), V(flat));
    if (rush_failed()) return -1;
    rush_tensor *rows = T("_grid_numbers.channels", V(ints), V(unsqueeze(scale, 1)), V(unsqueeze(zero, 1)));
    int64_t size[RUSH_MAXDIM];
    RUSH_CHECK(at->ndim < RUSH_MAXDIM, RUSH_NOT_IMPLEMENTED, "tensors have at most %d dimensions", RUSH_MAXDIM);
    memcpy(size, at->size, sizeof *size * at->ndim);
    size[at->ndim] = w->size[1];
    return rush_result(out, T("reshape", V(rows), rush_v_ints(size, at->ndim + 1)));
}

static rush_op op_rows = {
    .schema = "_quantized_embedding(Tensor weight, Tensor indices) -> Tensor", .doc = "Rows of a quantized matrix as numbers.", .run = rows_run, PLAIN};

RUSH_FAMILY(quant_layers, &op_product, &op_linear, &op_linear_numbers, &op_linear_dynamic, &op_conv, &op_conv_add, &op_conv_dynamic, &op_rows)
