/* product.c - products with sparse matrices: with dense ones, with each other, sampled at the entries of one.
 *
 * Every sparse operand becomes rows of entries (start, col, value), whatever its layout; what is computed with them is in
 * kernels.c. A dense matrix times a sparse one is the transposed product of the transposed.
 */
#include "ops/product/product.h"
#include "sparse/coo.h"

#define SELF (in[0].t)

/* ---- rows of entries ---- */

typedef struct rows {
    int64_t n, width; /* the matrix is n x width */
    rush_tensor *start, *col, *values;
} rows;

/* What a kernel computes in. */
static rush_dtype computed(rush_dtype d)
{
    if (rush_dtypes[d].category < 2) return RUSH_I64;
    if (rush_dtypes[d].category == 3) return d == RUSH_C128 ? RUSH_C128 : RUSH_C64;
    return d == RUSH_F64 ? RUSH_F64 : RUSH_F32;
}

static int sort_rows(rows *r, rush_tensor *row)
{
    int64_t n = row ? row->numel : 0;
    rush_tensor *falls = n > 1 ? T("any", V(lt(T("narrow", V(row), V(0), V(1), V(n - 1)), T("narrow", V(row), V(0), V(0), V(n - 1))))) : NULL;
    if (!row || rush_failed()) return -1;
    if (falls && rush_number_of(falls) != 0) {
        rush_value got[RUSH_MAXOUT];
        if (TN(got, "sort.stable", V(row), V(true))) return -1;
        row = got[0].t;
        r->col = T("index_select", V(r->col), V((int64_t)0), V(got[1].t));
        r->values = T("index_select", V(r->values), V((int64_t)0), V(got[1].t));
    }
    r->start = T("_row_starts", V(row), V(r->n));
    return r->start && r->col && r->values ? 0 : -1;
}

static rush_tensor *plain_values(const rush_tensor *t, rush_dtype d) { return rush_contiguous_copy(rush_cast_copy(VALUES(t), d)); }

static int csr_rows(rows *r, rush_tensor *t, rush_dtype d)
{
    *r = (rows){.n = t->size[0], .width = t->size[1], .values = plain_values(t, d)};
    return r->values ? rush_csr_parts(t, &r->start, &r->col) : -1;
}

/* A matrix without dense dimensions; batches of them (3-d COO) as one block diagonal matrix. */
static int as_rows(rows *r, rush_tensor *t, rush_dtype d)
{
    if (t->layout == RUSH_SPARSE_CSR && t->ndim == 2) return csr_rows(r, t, d);
    t = rush_as_coo(t);
    if (!t) return -1;
    int lead = t->ndim - 2;
    RUSH_CHECK(t->parts->dense_dim == 0 && lead >= 0 && lead <= 1, RUSH_RUNTIME_ERROR, "matrices expected, got a tensor of size %s with %d sparse and %d dense dimensions",
               rush_shape_of(t), t->parts->sparse_dim, t->parts->dense_dim);
    if (!rush_coo_keys_of(t)) return -1; /* are the indices within? */
    int64_t batches = lead ? t->size[0] : 1, height = t->size[lead], width = t->size[lead + 1];
    rush_tensor *indices = rush_plain_numbers(INDICES(t)), *of[3];
    *r = (rows){.n = batches * height, .width = batches * width, .values = plain_values(t, d)};
    for (int k = 0; k < lead + 2; ++k)
        if (!(of[k] = indices ? T("select.int", V(indices), V((int64_t)0), V((int64_t)k)) : NULL)) return -1;
    r->col = lead ? add(mul(of[0], width), of[2]) : of[1];
    return r->col && r->values ? sort_rows(r, lead ? add(mul(of[0], height), of[1]) : of[0]) : -1;
}

/* ---- sparse times dense ---- */

static int shapes_multiply(const rush_tensor *a, const rush_tensor *b)
{
    RUSH_CHECK(a->ndim == 2 && b->ndim == 2, RUSH_RUNTIME_ERROR, "matrices expected, got %dD and %dD tensors", a->ndim, b->ndim);
    RUSH_CHECK(a->size[1] == b->size[0], RUSH_RUNTIME_ERROR, "mat1 and mat2 shapes cannot be multiplied (%lldx%lld and %lldx%lld)", (long long)a->size[0],
               (long long)a->size[1], (long long)b->size[0], (long long)b->size[1]);
    RUSH_CHECK(a->dtype == b->dtype, RUSH_RUNTIME_ERROR, "mat1 dtype %s does not match mat2 dtype %s", rush_dtype_word(a->dtype),
               rush_dtype_word(b->dtype));
    return 0;
}

/* a sparse, (n, k) or (batch, n, k); b dense: the result is dense. */
static rush_tensor *sparse_dense(rush_tensor *a, rush_tensor *b)
{
    if (!a || !b) return NULL;
    rush_dtype d = computed(a->dtype);
    rows r;
    rush_tensor *plain = rush_contiguous_copy(rush_cast_copy(b, d));
    int64_t width = b->size[b->ndim - 1], size[3];
    memcpy(size, a->size, sizeof *size * a->ndim);
    size[a->ndim - 1] = width;
    plain = plain ? T("reshape", V(plain), INTS(width ? plain->numel / width : a->ndim == 3 ? b->size[0] * b->size[1] : b->size[0], width)) : NULL;
    const bool blocks = a->layout == RUSH_SPARSE_BSR && a->ndim == 2 && !a->parts->dense_dim;
    if (!plain || (blocks ? csr_rows(&r, a, d) : as_rows(&r, a, d))) return NULL;
    rush_tensor *c = T("_rows_dense", V(r.start), V(r.col), V(r.values), V(plain));
    c = c ? T("view", V(c), rush_v_ints(size, a->ndim)) : NULL;
    return !c || d == a->dtype ? c : rush_cast_copy(c, a->dtype);
}

/* ---- sparse times sparse ---- */

/* Both sparse: the result is COO, coalesced. */
static rush_tensor *sparse_sparse(rush_tensor *a, rush_tensor *b)
{
    rush_dtype d = computed(a->dtype);
    rows x, y;
    rush_value made[RUSH_MAXOUT];
    if (as_rows(&x, a, d) || as_rows(&y, b, d)) return NULL;
    if (TN(made, "_rows_sparse", V(x.start), V(x.col), V(x.values), V(y.start), V(y.col), V(y.values), V(y.width))) return NULL;
    return rush_coo_new(2, (int64_t[]){a->size[0], b->size[1]}, made[0].t, rush_cast_copy(made[1].t, a->dtype), true);
}

/* ---- mm and what is made of it ---- */

static rush_tensor *product(rush_tensor *a, rush_tensor *b)
{
    if (shapes_multiply(a, b)) return NULL;
    if (a->layout && b->layout) {
        rush_tensor *c = sparse_sparse(a, b);
        return IS_COO(a) && IS_COO(b) ? c : rush_in_layout(c, RUSH_SPARSE_CSR, c);
    }
    if (a->layout) return sparse_dense(a, b);
    rush_tensor *c = sparse_dense(T("transpose.int", V(b), V((int64_t)0), V((int64_t)1)), T("transpose.int", V(a), V((int64_t)0), V((int64_t)1)));
    return c ? rush_contiguous_copy(T("transpose.int", V(c), V((int64_t)0), V((int64_t)1))) : NULL;
}

static int mm_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_result(out, product(SELF, in[1].t));
}

static bool is_zero(rush_value v) { return v.kind != RUSH_V_COMPLEX && rush_to_double(v) == 0; }
static bool is_one(rush_value v) { return v.kind != RUSH_V_COMPLEX && rush_to_double(v) == 1; }
static rush_tensor *scaled(rush_tensor *t, rush_value v) { return !t || is_one(v) ? t : T("mul.Tensor", V(t), v); }

static rush_value conj_number(rush_value v)
{
    if (v.kind == RUSH_V_COMPLEX) v.c[1] = -v.c[1];
    return v;
}

static int addmm_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *a = in[1].t, *b = in[2].t;
    rush_tensor *c = scaled(a->layout || b->layout ? product(a, b) : T("mm", V(a), V(b)), in[4]);
    if (!c) return -1;
    RUSH_CHECK(!SELF->layout || c->layout, RUSH_RUNTIME_ERROR, "addmm_sparse_dense: expected strided result tensor, got tensor with layout %s",
               rush_layout_word(SELF->layout));
    if (is_zero(in[3])) return rush_result(out, c);
    rush_tensor *self = SELF->layout ? SELF : T("expand", V(SELF), rush_v_ints(c->size, c->ndim));
    return rush_result(out, self ? T("add.Tensor", V(scaled(self, in[3])), V(c->layout && !self->layout ? rush_as_dense(c) : c)) : NULL);
}

static int mv_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(in[1].t->ndim == 1 && !in[1].t->layout, RUSH_RUNTIME_ERROR, "vector + matrix @ vector expected, got %dD, %dD", SELF->ndim, in[1].t->ndim);
    rush_tensor *c = product(SELF, unsqueeze(in[1].t, 1));
    return rush_result(out, c ? squeeze(c, 1) : NULL);
}

static int addmv_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *c = scaled(T("mv", in[1], in[2]), in[4]);
    return rush_result(out, !c || is_zero(in[3]) ? c : add(scaled(SELF, in[3]), c));
}

static int bmm_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *a = SELF, *b = in[1].t;
    RUSH_CHECK(!b->layout, RUSH_RUNTIME_ERROR, "bmm_sparse: Tensor 'mat2' must be dense");
    RUSH_CHECK(IS_COO(a), RUSH_NOT_IMPLEMENTED, "Could not run 'aten::bmm' with arguments from the 'SparseCsrCPU' backend.");
    RUSH_CHECK(a->ndim == 3 && b->ndim == 3 && a->parts->dense_dim == 0, RUSH_RUNTIME_ERROR, "bmm_sparse: batches of matrices expected, got %s and %s", rush_shape_of(a), rush_shape_of(b));
    RUSH_CHECK(a->size[0] == b->size[0] && a->size[2] == b->size[1], RUSH_RUNTIME_ERROR, "bmm_sparse: %s and %s cannot be multiplied", rush_shape_of(a), rush_shape_of(b));
    RUSH_CHECK(a->dtype == b->dtype, RUSH_RUNTIME_ERROR, "bmm_sparse: expected both to have the same dtype, got %s and %s", rush_dtype_name(a->dtype), rush_dtype_name(b->dtype));
    return rush_result(out, sparse_dense(a, b));
}

/* Pieces, so that each keeps its own derivative. */
static int linear_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *w = in[1].t, *y = matmul(SELF, w->ndim == 1 ? w : transpose(w, 0, 1));
    return rush_result(out, y && HAS(in[2]) ? add(in[2].t->layout ? y : T("expand", in[2], rush_v_ints(y->size, y->ndim)), y) : y);
}

static rush_op sparse_linear = {.schema = "linear", .run = linear_run, .flags = RUSH_DENSE_FIRST};
static rush_op sparse_mm = {.schema = "mm", .run = mm_run, .flags = RUSH_SAME_GRAD | RUSH_DENSE_FIRST};
static rush_op sparse_addmm = {.schema = "addmm", .run = addmm_run, .flags = RUSH_SAME_GRAD | RUSH_DENSE_FIRST};
static rush_op sparse_mv = {.schema = "mv", .run = mv_run, .flags = RUSH_SAME_GRAD | RUSH_DENSE_FIRST};
static rush_op sparse_addmv = {.schema = "addmv", .run = addmv_run, .flags = RUSH_SAME_GRAD | RUSH_DENSE_FIRST};
static rush_op sparse_bmm = {.schema = "bmm", .run = bmm_run, .flags = RUSH_SAME_GRAD};
static rush_op sparse_matmul = {.schema = "matmul", .flags = RUSH_DENSE_FIRST}, sparse_linalg_matmul = {.schema = "linalg_matmul", .flags = RUSH_DENSE_FIRST};

/* ---- gradients that stay sparse ---- */

/* t as (all rows, k), plain and of dtype d; recorded. */
static rush_tensor *plain_rows(rush_tensor *t, rush_dtype d)
{
    t = t && t->dtype != d ? to_dtype(t, d) : t;
    t = t ? T("resolve_neg", V(T("resolve_conj", V(t)))) : NULL;
    return t ? T("contiguous", V(T("flatten.using_ints", V(t), V((int64_t)0), V((int64_t)-2)))) : NULL;
}

/* (a b) at the entries of pattern, (..., n, k) and (..., k, m) dense or sparse; recorded. */
static rush_tensor *sampled(rush_tensor *pattern, rush_tensor *a, rush_tensor *b)
{
    if (a->layout || b->layout) return T("_sparse_values_at", V(mm(a, b)), V(pattern));
    rush_tensor *coo = rush_as_coo(pattern), *values = VALUES(pattern), *at[RUSH_MAXDIM], *batch = NULL;
    if (!coo || !rush_coo_keys_of(coo)) return NULL;
    const int lead = coo->ndim - 2;
    const rush_dtype d = computed(a->dtype);
    for (int k = 0; k < coo->ndim; ++k)
        if (!(at[k] = T("select.int", V(INDICES(coo)), V((int64_t)0), V((int64_t)k)))) return NULL;
    for (int k = 0; k < lead; ++k) batch = batch ? add(mul(batch, coo->size[k]), at[k]) : at[k];
    for (int k = lead; k < coo->ndim; ++k) at[k] = T("contiguous", V(batch ? add(mul(batch, coo->size[k]), at[k]) : at[k]));
    rush_tensor *x = plain_rows(a, d), *y = plain_rows(transpose(b, -2, -1), d);
    rush_tensor *sums = x && y ? T("_sampled_products", V(x), V(y), V(at[lead]), V(at[lead + 1])) : NULL;
    if (sums && d != a->dtype) sums = to_dtype(sums, a->dtype);
    return sums ? T("reshape", V(sums), rush_v_ints(values->size, values->ndim)) : NULL;
}

/* The gradient of a sparse operand at its own entries. */
static rush_tensor *masked_product(rush_tensor *pattern, rush_tensor *a, rush_tensor *b)
{
    if (!a || !b) return NULL;
    if (IS_COO(pattern)) pattern = T("coalesce", V(pattern));
    rush_tensor *values = pattern ? sampled(pattern, a, b) : NULL;
    return values ? T("_sparse_values_like", V(pattern), V(values)) : NULL;
}

static void sparse_addmm_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0], *a = s->in[1].t, *b = s->in[2].t;
    if (!g) return;
    rush_tensor *ga = scaled(g, conj_number(s->in[4]));
    if (rush_needs(s, 0)) s->gin[0] = scaled(sum_to_size(g, s->in[0].t), conj_number(s->in[3]));
    if (rush_needs(s, 1)) s->gin[1] = a->layout ? masked_product(a, ga, rush_adjoint(b)) : mm(ga, rush_adjoint(b));
    if (rush_needs(s, 2)) s->gin[2] = b->layout ? masked_product(b, rush_adjoint(a), ga) : mm(rush_adjoint(a), ga);
}

static int any_addmm_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_result(out, T("addmm", in[0], in[1], in[2], in[3], in[4]));
}

static rush_op op_addmm = {
    .schema = "_sparse_addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", .method = RUSH_IN_SPARSE,
    .doc = "beta self + alpha mat1 @ mat2; the gradient of a sparse operand is sparse.", .run = any_addmm_run, .grad = sparse_addmm_grad,
    .saves = "mat1, mat2", .flags = RUSH_ANY_LAYOUT | RUSH_HIDDEN,
};

static int sparse_matmul_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(SELF->layout && in[1].t->layout, RUSH_NOT_IMPLEMENTED, "Could not run 'aten::_sparse_sparse_matmul' with arguments from the 'CPU' backend.");
    return rush_result(out, product(SELF, in[1].t));
}

static void sparse_matmul_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0], *a = s->in[0].t, *b = s->in[1].t;
    if (g && rush_needs(s, 0)) s->gin[0] = masked_product(a, g, rush_adjoint(b));
    if (g && rush_needs(s, 1)) s->gin[1] = masked_product(b, rush_adjoint(a), g);
}

static rush_op op_sparse_matmul = {
    .schema = "_sparse_sparse_matmul(Tensor self, Tensor other) -> Tensor", .doc = "The product of two sparse matrices, with sparse gradients.",
    .run = sparse_matmul_run, .grad = sparse_matmul_grad, .saves = "self, other", .flags = RUSH_ANY_LAYOUT | RUSH_HIDDEN,
};

static int any_mm_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *a = SELF, *b = in[1].t;
    if (a->layout && b->layout) return rush_result(out, T("_sparse_sparse_matmul", in[0], in[1]));
    bool asked = (a->layout | b->layout) & RUSH_ELSEWHERE && a->ndim == 2 && b->ndim == 2; /* whose product is the object's business */
    if (!asked && shapes_multiply(a, b)) return -1;
    const rush_tensor *like = a->layout ? b : a;
    rush_tensor *zeros = T("zeros", INTS(a->size[0], b->size[1]), rush_v_dtype(like->dtype), ON(like));
    return rush_result(out, zeros ? T("_sparse_addmm", V(zeros), in[0], in[1], V((int64_t)0), V((int64_t)1)) : NULL);
}

static rush_op op_mm = {
    .schema = "_sparse_mm(Tensor sparse, Tensor dense) -> Tensor", .method = RUSH_IN_SPARSE, .doc = "mm() with sparse gradients of sparse operands.", .run = any_mm_run,
    .flags = RUSH_ANY_LAYOUT,
};

/* ---- other reductions than the sum ---- */

static int mm_reduce_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (!strcmp(in[2].s, "sum")) return rush_result(out, T("_sparse_mm", in[0], in[1]));
    rush_value both[RUSH_MAXOUT];
    const char *how = !strcmp(in[2].s, "max") ? "amax" : !strcmp(in[2].s, "min") ? "amin" : in[2].s;
    static const char *const known[] = {"prod", "mean", "amax", "amin"};
    bool found = false;
    for (size_t i = 0; i < RUSH_COUNT(known); ++i) found |= !strcmp(how, known[i]);
    RUSH_CHECK(found, RUSH_RUNTIME_ERROR, "reduce argument must be either sum, prod, mean, amax or amin, got %s", in[2].s);
    return TN(both, "_sparse_mm_reduce_impl", in[0], in[1], rush_v_string(how)) ? -1 : rush_result(out, both[0].t);
}

/* A number per entry: the row it is in. */
static rush_tensor *entry_rows(rush_tensor *t, rush_tensor **col)
{
    rush_tensor *coo = rush_as_coo(t);
    if (!coo || !rush_coo_keys_of(coo)) return NULL;
    *col = T("select.int", V(INDICES(coo)), V((int64_t)0), V((int64_t)1));
    return T("select.int", V(INDICES(coo)), V((int64_t)0), V((int64_t)0));
}

static int reduce_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *a = SELF, *b = in[1].t, *col = NULL;
    RUSH_CHECK(a->layout == RUSH_SPARSE_CSR && !b->layout, RUSH_NOT_IMPLEMENTED, "Could not run 'aten::_sparse_mm_reduce_impl' with arguments from the '%s' backend.",
               a->layout == RUSH_STRIDED ? "CPU" : "SparseCPU");
    if (shapes_multiply(a, b)) return -1;
    rush_tensor *row = entry_rows(a, &col), *values = row ? T("values", V(a)) : NULL;
    bool half = rush_dtypes[a->dtype].size == 2; /* reduced as float */
    if (half) values = to_dtype(values, RUSH_F32), b = to_dtype(b, RUSH_F32);
    rush_tensor *terms = values && b ? mul(unsqueeze(values, 1), T("index_select", V(b), V((int64_t)0), V(col))) : NULL;
    rush_tensor *zeros = terms ? T("new_zeros", V(terms), INTS(a->size[0], b->size[1])) : NULL;
    rush_tensor *at = zeros ? T("expand", V(unsqueeze(row, 1)), rush_v_ints(terms->size, 2)) : NULL;
    rush_tensor *result = at ? T("scatter_reduce.two", V(zeros), V((int64_t)0), V(at), V(terms), in[2], V(false)) : NULL;
    if (half) result = to_dtype(result, a->dtype);
    if (!result) return -1;
    out[0] = rush_v_tensor(result);
    out[1] = rush_v_tensor(row);
    return 0;
}

static rush_op op_mm_reduce = {
    .schema = "_sparse_mm.reduce(Tensor sparse, Tensor dense, str reduce) -> Tensor", .doc = "A product whose sums are another reduction.", .run = mm_reduce_run,
    .flags = RUSH_ANY_LAYOUT,
};
static rush_op op_reduce = {
    .schema = "_sparse_mm_reduce_impl(Tensor self, Tensor other, str reduce) -> (Tensor, Tensor)", .method = RUSH_IN_SPARSE,
    .doc = "A product with a CSR matrix whose sums are another reduction; and the rows of its entries.", .run = reduce_run, .node = "SparseMmReduceImplBackward0", .flags = RUSH_ANY_LAYOUT | RUSH_HIDDEN,
};

/* ---- sampled, half sparse and sparse sums of products ---- */

static int sampled_addmm_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *self = SELF, *a = in[1].t, *b = in[2].t;
    RUSH_CHECK(self->layout == RUSH_SPARSE_CSR, RUSH_NOT_IMPLEMENTED, "Could not run 'aten::sparse_sampled_addmm' with arguments from the '%s' backend.",
               self->layout ? "SparseCPU" : "CPU");
    RUSH_CHECK(!a->layout && !b->layout, RUSH_RUNTIME_ERROR, "sampled_addmm: Expected mat1 and mat2 to have strided layout, but got %s and %s", rush_layout_word(a->layout),
               rush_layout_word(b->layout));
    RUSH_CHECK(a->ndim >= 2 && b->ndim >= 2 && a->ndim == b->ndim, RUSH_RUNTIME_ERROR, "sampled_addmm: Expected mat1 to be a matrix, got %d-D tensor", a->ndim);
    RUSH_CHECK(a->size[a->ndim - 1] == b->size[b->ndim - 2], RUSH_RUNTIME_ERROR, "sampled_addmm: mat1 and mat2 shapes cannot be multiplied (%lldx%lld and %lldx%lld)",
               (long long)a->size[a->ndim - 2], (long long)a->size[a->ndim - 1], (long long)b->size[b->ndim - 2], (long long)b->size[b->ndim - 1]);
    RUSH_CHECK(self->ndim == a->ndim && self->size[self->ndim - 2] == a->size[a->ndim - 2], RUSH_RUNTIME_ERROR,
               "sampled_addmm: self.shape[-2] must match mat1.shape[-2]");
    RUSH_CHECK(self->size[self->ndim - 1] == b->size[b->ndim - 1], RUSH_RUNTIME_ERROR, "sampled_addmm: self.shape[-1] must match mat2.shape[-1]");
    RUSH_CHECK(self->dtype == a->dtype && a->dtype == b->dtype, RUSH_RUNTIME_ERROR, "sampled_addmm: Expected mat1 and mat2 to have the same dtype as self");
    rush_tensor *values = scaled(sampled(self, a, b), in[4]);
    if (values && !is_zero(in[3])) values = add(scaled(VALUES(self), in[3]), values);
    return rush_result(out, values ? rush_sparse_with(self, values) : NULL);
}

/* a b, of which one is sparse; matrices, or batches of them. */
static rush_tensor *batch_product(rush_tensor *a, rush_tensor *b)
{
    if (!a || !b || a->ndim == 2) return a && b ? mm(a, b) : NULL;
    if (b->layout) return transpose(batch_product(transpose(b, -2, -1), transpose(a, -2, -1)), -2, -1);
    RUSH_CHECK_NULL(a->ndim == 3, RUSH_NOT_IMPLEMENTED, "products of more than one batch dimension");
    return T("bmm", V(T("to_sparse", V(a))), V(b));
}

static void sampled_addmm_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0], *self = s->in[0].t;
    if (!g) return;
    if (rush_needs(s, 0)) s->gin[0] = scaled(g, conj_number(s->in[3]));
    if (!rush_needs(s, 1) && !rush_needs(s, 2)) return;
    rush_tensor *at = scaled(T("sparse_mask", V(g), V(self)), conj_number(s->in[4]));
    if (rush_needs(s, 1)) s->gin[1] = batch_product(at, rush_adjoint(s->in[2].t));
    if (rush_needs(s, 2)) s->gin[2] = batch_product(rush_adjoint(s->in[1].t), at);
}

static rush_op op_sampled = {
    .schema = "sparse_sampled_addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", .method = RUSH_IN_SPARSE,
    .doc = "beta self + alpha mat1 @ mat2 at the entries of a CSR matrix only.", .run = sampled_addmm_run, .grad = sampled_addmm_grad, .saves = "self, mat1, mat2", .flags = RUSH_ANY_LAYOUT,
};

static int half_sparse(rush_value *out, rush_tensor *a, rush_tensor *b)
{
    RUSH_CHECK(IS_COO(a) && !b->layout, RUSH_RUNTIME_ERROR, "hspmm: expected 'mat1' to have sparse layout and 'mat2' to have strided layout");
    if (shapes_multiply(a, b)) return -1;
    rush_tensor *coo = rush_coo_coalesced(a), *rows_of = coo ? T("narrow", V(INDICES(coo)), V((int64_t)0), V((int64_t)0), V((int64_t)1)) : NULL;
    rush_tensor *keys = rows_of ? rush_coo_keys(rows_of, 1, a->size) : NULL, *c = keys ? sparse_dense(coo, b) : NULL;
    rush_groups g;
    if (!c || rush_coo_group(&g, keys)) return -1;
    rush_tensor *row = T("index_select", V(keys), V((int64_t)0), V(g.first));
    return rush_result(out, row ? rush_coo_new(2, c->size, unsqueeze(row, 0), T("index_select", V(c), V((int64_t)0), V(row)), false) : NULL);
}

static int hspmm_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(SELF->layout || in[1].t->layout, RUSH_NOT_IMPLEMENTED, "Could not run 'aten::hspmm' with arguments from the 'CPU' backend: one of them is to be sparse");
    return half_sparse(out, SELF, in[1].t);
}

static int sspaddmm_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *self = SELF, *a = in[1].t, *b = in[2].t;
    rush_value half;
    RUSH_CHECK(IS_COO(self), RUSH_RUNTIME_ERROR, "tensor.sspaddmm(...) can only be called on sparse tensors");
    RUSH_CHECK(!b->layout, RUSH_RUNTIME_ERROR, "sspaddmm: expected 'mat2' to have strided layout, got 'mat2' with layout %s", rush_layout_word(b->layout));
    if (half_sparse(&half, a, b)) return -1;
    RUSH_CHECK(self->ndim == 2 && rush_same_sizes(self, half.t), RUSH_RUNTIME_ERROR, "sspaddmm: Argument #1: expected a tensor of size %s, got %s", rush_shape_of(half.t),
               rush_shape_of(self));
    /* rows of the product as single entries, behind those of self */
    rush_tensor *row = INDICES(half.t), *v = VALUES(half.t);
    int64_t n = v->size[0], m = b->size[1];
    rush_tensor *of_row = T("repeat_interleave.self_int", V(T("reshape", V(row), INTS(-1))), V(m), V((int64_t)0)), *flat = T("reshape", V(v), INTS(-1));
    rush_tensor *of_col = T("repeat", V(T("arange", V(m), rush_v_dtype(RUSH_I64), ON(self))), INTS(n));
    rush_tensor *indices = of_row && of_col ? T("stack", rush_v_tensors((rush_tensor *[]){of_row, of_col}, 2)) : NULL;
    if (!indices || !flat) return -1;
    rush_tensor *all[] = {INDICES(self), indices}, *values[] = {scaled(VALUES(self), in[3]), scaled(flat, in[4])};
    if (!values[0] || !values[1]) return -1;
    return rush_result(out, rush_coo_new(2, self->size, T("cat", rush_v_tensors(all, 2), V((int64_t)1)), T("cat", rush_v_tensors(values, 2), V((int64_t)0)), false));
}

static int smm_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(IS_COO(SELF), RUSH_RUNTIME_ERROR, "tensor.sspaddmm(...) can only be called on sparse tensors");
    RUSH_CHECK(SELF->ndim == 2 && in[1].t->ndim == 2, RUSH_RUNTIME_ERROR, "sspaddmm: Argument #2: matrices expected, got %dD tensor", in[1].t->ndim);
    rush_tensor *zeros = T("sparse_coo_tensor.size", INTS(SELF->size[0], in[1].t->size[1]), rush_v_dtype(SELF->dtype), ON(SELF));
    return rush_result(out, zeros ? T("sspaddmm", V(zeros), in[0], in[1], V((int64_t)0), V((int64_t)1)) : NULL);
}

static rush_op op_hspmm = {
    .schema = "hspmm(Tensor mat1, Tensor mat2) -> Tensor", .doc = "A sparse times a dense matrix as COO with dense rows.", .run = hspmm_run, .grad = rush_no_derivative,
    .flags = RUSH_ANY_LAYOUT,
};
static rush_op op_sspaddmm = {
    .schema = "sspaddmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", .method = RUSH_METHOD | RUSH_OLD_ORDER,
    .doc = "beta self + alpha mat1 @ mat2, all sparse but mat2.", .run = sspaddmm_run, .grad = rush_no_derivative, .flags = RUSH_ANY_LAYOUT,
};
static rush_op op_smm = {
    .schema = "smm(Tensor self, Tensor mat2) -> Tensor", .method = RUSH_METHOD, .doc = "A sparse times a dense matrix as a sparse one.", .run = smm_run, .flags = RUSH_ANY_LAYOUT,
};

RUSH_FAMILY(sparse_product, &op_addmm, &op_sparse_matmul, &op_mm, &op_mm_reduce, &op_reduce, &op_sampled, &op_hspmm, &op_sspaddmm, &op_smm)
RUSH_SPARSE(product, &sparse_mm, &sparse_addmm, &sparse_mv, &sparse_addmv, &sparse_bmm, &sparse_matmul, &sparse_linalg_matmul, &sparse_linear)
