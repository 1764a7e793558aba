/* few_bits.c - products with matrices of int8 and int4: of two of them, and of floats with a weight of few bits.
 *
 * A weight is used as it lies in memory and read once. Results are exact for integers; with a weight of few bits, sums are made in
 * float32 and rounded once to the dtype of the first matrix. The layouts of packed weights are those of kernels/cpu/quant.h.
 */
#include "kernels/cpu/quant.h"
#include "kernels/engine/engine.h"
#include "op/formula.h"
#include "ops/product/product.h"

/* ---- int8 times int8; on the CPU uint8 times int8, too ---- */

static int int_mm_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *a = in[0].t, *b = in[1].t;
    RUSH_CHECK(a->ndim == 2, RUSH_RUNTIME_ERROR, "Expected self to be of dimension 2 but got %d", a->ndim);
    RUSH_CHECK(b->ndim == 2, RUSH_RUNTIME_ERROR, "Expected mat2 to be of dimension 2 but got %d", b->ndim);
    bool fits = a->dtype == RUSH_I8 || (a->dtype == RUSH_U8 && a->device.type == RUSH_CPU);
    RUSH_CHECK(fits && b->dtype == RUSH_I8, RUSH_RUNTIME_ERROR, "Expected self and mat2 to be of type int8 but got %s and %s",
               rush_dtype_name(a->dtype), rush_dtype_name(b->dtype));
    RUSH_CHECK(a->size[1] == b->size[0], RUSH_RUNTIME_ERROR, "self.size(1) needs to match mat2.size(0) but got %lld and %lld", (long long)a->size[1],
               (long long)b->size[0]);
    return rush_out_t(out, 0, a, RUSH_I32, 2, (int64_t[]){a->size[0], b->size[1]}) ? 0 : -1;
}

/* t itself or, if its elements do not lie side by side, a new tensor that rush_copy_into is to bring there. */
static rush_tensor *side_by_side(rush_tensor *t)
{
    return rush_contiguous(t) ? t : rush_tensor_new(t->dtype, t->device, t->ndim, t->size);
}

/* The engine packs the second matrix: that pays where its rows lie side by side, which our kernel had to transpose, or for more than few rows of the first. */
static bool int_mm_engine(const rush_tensor *a, const rush_tensor *b, const rush_tensor *c)
{
    if (a->dtype != RUSH_I8 || (b->stride[1] != 1 && (b->stride[0] != 1 || a->size[0] <= 8)) || b->size[1] < 2 || !a->numel || !c->numel) return false;
    return rush_engine_matmul(&(rush_engine_product){
        .dtype = RUSH_I8, .batch = 1, .m = a->size[0], .n = b->size[1], .k = a->size[1], .a = rush_ptr(a), .b = rush_ptr(b), .c = rush_ptr(c),
        .am = a->stride[0], .ak = a->stride[1], .bk = b->stride[0], .bn = b->stride[1], .cm = c->stride[0], .cn = c->stride[1]});
}

static void int_mm_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (int_mm_engine(in[0].t, in[1].t, out[0].t)) return;
    const rush_tensor *a = rush_contiguous_copy(in[0].t), *b = rush_contiguous_copy(T("t", in[1]));
    bool is_signed = a && a->dtype == RUSH_I8;
    const rush_tensor *above = is_signed ? rush_tensor_new(RUSH_U8, a->device, 2, a->size) : a;
    rush_tensor *c = side_by_side(out[0].t);
    if (!b || !above || !c) return;
    if (is_signed) rush_k_quant->above(rush_ptr(above), rush_ptr(a), a->numel);
    rush_k_quant->bytes(&(rush_byte_product){.m = a->size[0], .n = b->size[0], .k = a->size[1], .a = rush_ptr(above), .b = rush_ptr(b), .c = rush_ptr(c), .a_zero = is_signed ? 128 : 0});
    if (c != out[0].t) rush_copy_into(out[0].t, c);
}

static rush_op op_int_mm = {
    .schema = "_int_mm(Tensor self, Tensor mat2) -> Tensor",
    .doc = "Matrix product of int8 with sums in int32.", .shape = int_mm_shape, .cpu = int_mm_cpu, .flags = RUSH_NO_GRAD,
};

/* ---- floats times a weight ---- */

/* What both products ask of the rows, the packed weight and the scales. */
static int check_weight(const char *name, const rush_tensor *a, const rush_tensor *w, const rush_tensor *scale, rush_dtype dtype)
{
    RUSH_CHECK(a->dtype == RUSH_F32 || a->dtype == RUSH_F16 || a->dtype == RUSH_BF16, RUSH_RUNTIME_ERROR,
               "%s : expect A to be either 32-bit or 16-bit float tensor.", name);
    RUSH_CHECK(a->ndim == 2 && w->ndim == 2, RUSH_INDEX_ERROR, "%s : A and B must be matrices, but their sizes are %s and %s", name, rush_shape_of(a), rush_shape_of(w));
    RUSH_CHECK(w->dtype == dtype, RUSH_RUNTIME_ERROR, "%s : expect B to be %s tensor.", name, rush_dtype_name(dtype));
    RUSH_CHECK(rush_contiguous(w), RUSH_RUNTIME_ERROR, "%s : expect B to be contiguous.", name);
    RUSH_CHECK(scale->dtype == a->dtype, RUSH_RUNTIME_ERROR, "expected scalar type %s but found %s", rush_dtype_word(a->dtype), rush_dtype_word(scale->dtype));
    return 0;
}

/* in: self (m, k), mat2 (n, k) int8, scales (n) */
static int int8_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    static const char name[] = "_weight_int8pack_mm_cpu";
    const rush_tensor *a = in[0].t, *w = in[1].t, *scale = in[2].t;
    if (check_weight(name, a, w, scale, RUSH_I8)) return -1;
    RUSH_CHECK(a->size[1] <= 1 || a->stride[1] == 1, RUSH_RUNTIME_ERROR, "%s : A must be contiguous on the last dimension.", name);
    RUSH_CHECK(w->size[1] == a->size[1], RUSH_RUNTIME_ERROR, "%s : expect B.size(1) == %lld", name, (long long)a->size[1]);
    RUSH_CHECK(scale->ndim == 1 && scale->size[0] == w->size[0], RUSH_RUNTIME_ERROR, "%s : expect scales to be 1d tensor with size %lld", name, (long long)w->size[0]);
    return rush_out_t(out, 0, a, a->dtype, 2, (int64_t[]){a->size[0], w->size[0]}) ? 0 : -1;
}

/* The operands in float32, side by side, and the result. */
static void weight_product(const rush_value *in, const rush_tensor *scales, rush_value *out, int64_t group)
{
    bool pairs = group && scales->dtype == RUSH_BF16; /* many: read as they are */
    const rush_tensor *a = rush_cast_copy(in[0].t, RUSH_F32), *w = in[1].t, *scale = rush_cast_copy(scales, pairs ? RUSH_BF16 : RUSH_F32);
    rush_tensor *to = out[0].t, *c = to->dtype == RUSH_F32 ? side_by_side(to) : rush_tensor_new(RUSH_F32, to->device, 2, to->size);
    if (!a || !scale || !c) return;
    rush_weight_product g = {.m = a->size[0], .n = c->size[1], .k = a->size[1], .a = rush_ptr(a), .w = rush_ptr(w), .scale = rush_ptr(scale), .c = rush_ptr(c), .group = group,
                             .scale_bf16 = pairs, .a_bf16 = in[0].t->dtype == RUSH_BF16};
    (group ? rush_k_quant->int4_weight : rush_k_quant->int8_weight)(&g);
    if (c != to) rush_copy_into(to, c);
}

static void int8_cpu(const rush_op *op, const rush_value *in, rush_value *out) { weight_product(in, in[2].t, out, 0); }

static rush_op op_int8 = {
    .schema = "_weight_int8pack_mm(Tensor self, Tensor mat2, Tensor scales) -> Tensor",
    .doc = "self (m, k) times the transpose of mat2 * scales[:, None], where mat2 (n, k) is int8 and scales (n) of self's dtype.",
    .shape = int8_shape, .cpu = int8_cpu, .flags = RUSH_NO_GRAD};

/* in: self (n, k) int32, innerKTiles */
static int pack_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    static const char name[] = "_convert_weight_to_int4pack_cpu";
    const rush_tensor *q = in[0].t;
    RUSH_CHECK(q->ndim == 2, RUSH_RUNTIME_ERROR, "%s : expect weight to be 2D tensor.", name);
    RUSH_CHECK(q->dtype == RUSH_I32, RUSH_RUNTIME_ERROR, "%s : expect weight to be kInt.", name);
    RUSH_CHECK(q->size[0] % 16 == 0, RUSH_RUNTIME_ERROR, "%s : expect N to be dividable by 16", name);
    RUSH_CHECK(q->size[1] % 2 == 0, RUSH_RUNTIME_ERROR, "_convert_weight_to_int4pack: expect K to be dividable by 2");
    return rush_out_t(out, 0, q, RUSH_U8, 2, (int64_t[]){q->size[0], q->size[1] / 2}) ? 0 : -1;
}

static void pack_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *q = rush_contiguous_copy(in[0].t);
    rush_tensor *to = side_by_side(out[0].t);
    if (!q || !to) return;
    rush_k_quant->int4_pack(rush_ptr(to), rush_ptr(q), q->size[0], q->size[1]);
    if (to != out[0].t) rush_copy_into(out[0].t, to);
}

static rush_op op_pack = {
    .schema = "_convert_weight_to_int4pack_for_cpu(Tensor self, int innerKTiles) -> Tensor",
    .doc = "int4 weights (n, k), given as int32 from 0 to 15, two in a byte, as _weight_int4pack_mm_for_cpu reads them: (n, k / 2). "
           "innerKTiles is not looked at.", .shape = pack_shape, .cpu = pack_cpu, .flags = RUSH_NO_GRAD};

/* in: self (m, k), mat2 (n, k / 2) packed, qGroupSize, qScaleAndZeros (k / group, n, 2) */
static int int4_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    static const char name[] = "_weight_int4pack_mm_cpu";
    const rush_tensor *a = in[0].t, *w = in[1].t, *scale = in[3].t;
    int64_t group = I_(in[2]);
    if (check_weight(name, a, w, scale, RUSH_U8)) return -1;
    RUSH_CHECK(rush_contiguous(a), RUSH_RUNTIME_ERROR, "%s : expect A to be contiguous.", name);
    RUSH_CHECK(group == 32 || group == 64 || group == 128 || group == 256, RUSH_RUNTIME_ERROR, "%s: expect qGroupSize to be 32, 64, 128 or 256, got %lld", name, (long long)group);
    RUSH_CHECK(w->size[0] % 16 == 0 && w->size[1] == a->size[1] / 2 && a->size[1] % 2 == 0, RUSH_RUNTIME_ERROR,
               "%s : A is %s, so B must be [n, %lld], n a multiple of 16, but is %s", name, rush_shape_of(a), (long long)(a->size[1] / 2), rush_shape_of(w));
    RUSH_CHECK(a->size[1] % group == 0, RUSH_RUNTIME_ERROR, "%s: expect K to be divisible by qGroupSize, got K:%lld, qGroupSize:%lld", name, (long long)a->size[1], (long long)group);
    RUSH_CHECK(scale->ndim == 3 && scale->size[1] == w->size[0] && scale->size[2] == 2, RUSH_RUNTIME_ERROR,
               "%s: expect qScaleAndZeros to be 3d tensor with sizes [:, %lld, 2]", name, (long long)w->size[0]);
    RUSH_CHECK(scale->size[0] >= a->size[1] / group, RUSH_RUNTIME_ERROR, "%s: qScaleAndZeros has %lld groups, but there are %lld", name, (long long)scale->size[0],
               (long long)(a->size[1] / group));
    return rush_out_t(out, 0, a, a->dtype, 2, (int64_t[]){a->size[0], w->size[0]}) ? 0 : -1;
}

static void int4_cpu(const rush_op *op, const rush_value *in, rush_value *out) { weight_product(in, in[3].t, out, I_(in[2])); }

static rush_op op_int4 = {
    .schema = "_weight_int4pack_mm_for_cpu(Tensor self, Tensor mat2, int qGroupSize, Tensor qScaleAndZeros) -> Tensor",
    .doc = "self (m, k) times the transpose of a weight (n, k) that _convert_weight_to_int4pack_for_cpu packed. Number q of it means (q - 8) * scale + zero; "
           "qScaleAndZeros (k / qGroupSize, n, 2), of self's dtype, has both for each group of qGroupSize numbers.",
    .shape = int4_shape, .cpu = int4_cpu, .flags = RUSH_NO_GRAD};

/* ---- rounded rows times int4 ----
 *
 * The packed weight is one float tensor: the bytes of the numbers, as many floats as they fill, then the scales, then the bias. */

typedef struct rounded_sizes {
    int64_t n, k, group, groups, bytes; /* bytes: floats that hold n * k / 2 bytes */
} rounded_sizes;

static int rounded_of(rounded_sizes *s, const char *name, rush_value group, rush_value k, rush_value n)
{
    *s = (rounded_sizes){.n = I_(n), .k = I_(k), .group = I_(group)};
    RUSH_CHECK(s->n > 0 && s->k > 0 && s->n < INT32_MAX && s->k < INT32_MAX, RUSH_RUNTIME_ERROR, "%s: a weight cannot have %lld rows of %lld", name, (long long)s->n, (long long)s->k);
    RUSH_CHECK(s->group == s->k || (s->group > 0 && s->group % 32 == 0 && s->k % s->group == 0), RUSH_RUNTIME_ERROR,
               "%s: Group size should be multiple of 32, in_features [%lld]. Provided %lld", name, (long long)s->k, (long long)s->group);
    RUSH_CHECK(s->k % 8 == 0, RUSH_RUNTIME_ERROR, "%s: in_features must be a multiple of 8, but are %lld", name, (long long)s->k);
    s->groups = s->k / s->group;
    s->bytes = s->n * s->k / 8;
    return 0;
}

/* in: weights (n, k / 2) uint8, scales_zeros (n, groups), bias (n), block_size, in_features, out_features */
static int pack_rounded_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    static const char name[] = "_dyn_quant_pack_4bit_weight_cpu";
    rush_tensor *w = in[0].t, *scale = in[1].t, *bias = T_(in[2]);
    rounded_sizes s;
    RUSH_CHECK(w->dtype == RUSH_U8, RUSH_RUNTIME_ERROR, "%s : expect weight to be kByte.", name);
    if (rounded_of(&s, name, in[3], in[4], in[5])) return -1;
    RUSH_CHECK(w->numel == s.n * s.k / 2, RUSH_RUNTIME_ERROR, "%s : the weight must have %lld bytes, but is %s", name, (long long)(s.n * s.k / 2), rush_shape_of(w));
    RUSH_CHECK(scale->numel == s.n * s.groups, RUSH_RUNTIME_ERROR, "%s : %lld scales are needed, but they are %s", name, (long long)(s.n * s.groups), rush_shape_of(scale));
    RUSH_CHECK(!bias || bias->numel == s.n, RUSH_RUNTIME_ERROR, "Expected bias length to match output dimension");
    rush_tensor *part[3] = {T("view.dtype", V(T("flatten.using_ints", V(T("contiguous", V(w))), V(0), V(-1))), rush_v_dtype(RUSH_F32)),
                            to_dtype(T("flatten.using_ints", V(scale), V(0), V(-1)), RUSH_F32), bias ? to_dtype(T("flatten.using_ints", V(bias), V(0), V(-1)), RUSH_F32) : NULL};
    if (rush_failed()) return -1;
    return rush_result(out, T("cat", rush_v_tensors(part, bias ? 3 : 2)));
}

static rush_op op_pack_rounded = {
    .schema = "_dyn_quant_pack_4bit_weight(Tensor weights, Tensor scales_zeros, Tensor? bias, int block_size, int in_features, int out_features) -> Tensor",
    .doc = "An int4 weight (out_features, in_features / 2) of bytes with two numbers each, the first in the low half, their scales (out_features, in_features / block_size) "
           "and a bias, in one tensor for _dyn_quant_matmul_4bit.", .run = pack_rounded_run, .flags = RUSH_NO_GRAD};

/* in: inp (..., k), packed_weights, block_size, in_features, out_features */
static int rounded_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    static const char name[] = "_dyn_quant_matmul_4bit_cpu";
    const rush_tensor *x = in[0].t, *w = in[1].t;
    rounded_sizes s;
    RUSH_CHECK(x->dtype == RUSH_F32, RUSH_RUNTIME_ERROR, "%s : expect input to be float32 tensor.", name);
    if (rounded_of(&s, name, in[2], in[3], in[4])) return -1;
    int64_t plain = s.bytes + s.n * s.groups;
    RUSH_CHECK(w->dtype == RUSH_F32 && (w->numel == plain || w->numel == plain + s.n), RUSH_RUNTIME_ERROR, "Invalid packed weight tensor size");
    RUSH_CHECK(x->numel % s.k == 0, RUSH_RUNTIME_ERROR, "%s : the input is %s, but in_features are %lld", name, rush_shape_of(x), (long long)s.k);
    return rush_out_t(out, 0, x, RUSH_F32, 2, (int64_t[]){x->numel / s.k, s.n}) ? 0 : -1;
}

static void rounded_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rounded_sizes s;
    const rush_tensor *x = rush_contiguous_copy(in[0].t), *w = rush_contiguous_copy(in[1].t);
    rush_tensor *c = side_by_side(out[0].t);
    if (!x || !w || !c || rounded_of(&s, op->name, in[2], in[3], in[4])) return;
    const float *scale = (const float *)rush_ptr(w) + s.bytes, *bias = w->numel > s.bytes + s.n * s.groups ? scale + s.n * s.groups : NULL;
    rush_k_quant->rounded(&(rush_rounded_product){.m = c->size[0], .n = s.n, .k = s.k, .groups = s.groups, .a = rush_ptr(x), .w = rush_ptr(w),
                                                  .scale = scale, .bias = bias, .c = rush_ptr(c)});
    if (c != out[0].t) rush_copy_into(out[0].t, c);
}

static rush_op op_rounded = {
    .schema = "_dyn_quant_matmul_4bit(Tensor inp, Tensor packed_weights, int block_size, int in_features, int out_features) -> Tensor",
    .doc = "inp (..., in_features), each row of it rounded to int8 on a grid of its own, times the transpose of a weight of _dyn_quant_pack_4bit_weight: (rows, out_features).",
    .shape = rounded_shape, .cpu = rounded_cpu, .flags = RUSH_NO_GRAD};

RUSH_FAMILY(few_bits, &op_int_mm, &op_int8, &op_pack, &op_int4, &op_pack_rounded, &op_rounded)
