/* scaled_product.c - products of float8 matrices with scales: _scaled_mm.
 *
 * On the CPU they are float32 products, scaled and rounded once. There is one scale for all of a matrix, or one per row of the
 * first and column of the second.
 */
#include "op/formula.h"

enum recipe { WHOLE, ROWS };

static bool is_float8(const rush_tensor *t) { return t->dtype >= RUSH_F8E4M3FN && t->dtype <= RUSH_F8E5M2FNUZ; }

static int check_matrices(const rush_tensor *a, const rush_tensor *b, const rush_tensor *bias)
{
    RUSH_CHECK(a->ndim == 2, RUSH_RUNTIME_ERROR, "mat1 must be a matrix");
    RUSH_CHECK(b->ndim == 2, RUSH_RUNTIME_ERROR, "mat2 must be a matrix");
    RUSH_CHECK(a->size[1] == b->size[0], RUSH_RUNTIME_ERROR, "mat1 and mat2 shapes cannot be multiplied (%lldx%lld and %lldx%lld)", (long long)a->size[0],
               (long long)a->size[1], (long long)b->size[0], (long long)b->size[1]);
    RUSH_CHECK(!bias || bias->numel == b->size[1], RUSH_RUNTIME_ERROR, "Bias must be size %lld but got %lld", (long long)b->size[1], (long long)bias->numel);
    return 0;
}

static bool has_scales(enum recipe recipe, const rush_tensor *a, const rush_tensor *b, const rush_tensor *scale_a, const rush_tensor *scale_b)
{
    if (recipe == WHOLE) return scale_a->numel == 1 && scale_b->numel == 1;
    return scale_a->ndim == 2 && scale_b->ndim == 2 && scale_a->size[0] == a->size[0] && scale_a->size[1] == 1 && scale_b->size[0] == 1 && scale_b->size[1] == b->size[1];
}

static int product(rush_tensor *a, rush_tensor *b, rush_tensor *scale_a, rush_tensor *scale_b, rush_tensor *bias, rush_value dtype, rush_value *out)
{
    rush_dtype to = HAS(dtype) ? (rush_dtype)dtype.i : a->dtype;
    RUSH_CHECK(rush_dtype_is_float(to) && to != RUSH_F64, RUSH_RUNTIME_ERROR, "a product of float8 matrices has no result of dtype %s", rush_dtypes[to].name);
    rush_tensor *y = mm(to_dtype(a, RUSH_F32), to_dtype(b, RUSH_F32));
    y = mul(mul(y, to_dtype(scale_a, RUSH_F32)), to_dtype(scale_b, RUSH_F32));
    if (y && y->ndim != 2) y = T("view", V(y), INTS(a->size[0], b->size[1])); /* one scale may have more dims than the product */
    if (bias) y = add(y, to_dtype(bias, RUSH_F32));
    return rush_result(out, to_dtype(y, to));
}

/* in: self, mat2, scale_a, scale_b, bias, scale_result, out_dtype, use_fast_accum */
static int scaled_mm_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *a = in[0].t, *b = in[1].t, *sa = in[2].t, *sb = in[3].t, *bias = T_(in[4]);
    if (check_matrices(a, b, bias)) return -1;
    RUSH_CHECK(is_float8(a) && is_float8(b) && (has_scales(WHOLE, a, b, sa, sb) || has_scales(ROWS, a, b, sa, sb)), RUSH_VALUE_ERROR,
               "Invalid scaling configuration: float8 matrices, with one scale each or scales of size (%lld, 1) and (1, %lld), were expected, but got %s, %s, %s and %s",
               (long long)a->size[0], (long long)b->size[1], rush_dtype_word(a->dtype), rush_dtype_word(b->dtype), rush_shape_of(sa), rush_shape_of(sb));
    return product(a, b, sa, sb, bias, in[6], out);
}

static rush_op op_scaled_mm = {
    .schema = "_scaled_mm(Tensor self, Tensor mat2, Tensor scale_a, Tensor scale_b, Tensor? bias=None, Tensor? scale_result=None, ScalarType? out_dtype=None, "
              "bool use_fast_accum=False) -> Tensor",
    .doc = "The product of two float8 matrices, times their scales, plus bias; the result is of self's dtype if out_dtype is not given.",
    .run = scaled_mm_run, .flags = RUSH_HIDDEN,
};

/* in: self, mat2, scale_a, recipe_a, swizzle_a, scale_b, recipe_b, swizzle_b, bias, out_dtype, contraction_dim, use_fast_accum */
static int scaled_mm_v2_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *a = in[0].t, *b = in[1].t, *bias = T_(in[8]);
    if (check_matrices(a, b, bias)) return -1;
    RUSH_CHECK(is_float8(a), RUSH_RUNTIME_ERROR, "Expected mat1 to be Float8 matrix got %s", rush_dtype_word(a->dtype));
    RUSH_CHECK(is_float8(b), RUSH_RUNTIME_ERROR, "Expected mat2 to be Float8 matrix got %s", rush_dtype_word(b->dtype));
    RUSH_CHECK(in[2].n == 1 && in[3].n == 1 && in[5].n == 1 && in[6].n == 1 && in[3].ints[0] == in[6].ints[0] && in[3].ints[0] >= WHOLE && in[3].ints[0] <= ROWS,
               RUSH_NOT_IMPLEMENTED, "scales of blocks of float8 matrices are not supported: one per matrix, or per row and column, are");
    enum recipe recipe = (enum recipe)in[3].ints[0];
    rush_tensor *sa = in[2].tensors[0], *sb = in[5].tensors[0];
    RUSH_CHECK(sa && sb && has_scales(recipe, a, b, sa, sb), RUSH_VALUE_ERROR, "Invalid scaling configuration: the recipe is for %s",
               recipe == WHOLE ? "one scale for each matrix" : "scales of size (rows, 1) and (1, columns)");
    return product(a, b, sa, sb, bias, in[9], out);
}

static rush_op op_scaled_mm_v2 = {
    .schema = "_scaled_mm_v2(Tensor self, Tensor mat2, Tensor[] scale_a, int[] recipe_a, int[] swizzle_a, Tensor[] scale_b, int[] recipe_b, int[] swizzle_b, "
              "Tensor? bias, ScalarType? out_dtype, int[] contraction_dim=[], bool use_fast_accum=False) -> Tensor",
    .doc = "_scaled_mm, with the kind of scales named: 0 one per matrix, 1 one per row and column.", .run = scaled_mm_v2_run, .flags = RUSH_HIDDEN,
};

RUSH_FAMILY(scaled_product, &op_scaled_mm, &op_scaled_mm_v2)
