/* arith.c - elementwise operations: functions that keep zero, sums, products and quotients.
 *
 * A function of one tensor runs on the values, and its derivative is the dense record's, run on values too. Sums and
 * products of two tensors join entries by the numbers of their places.
 */
#include "ops/elementwise/pointwise.h"
#include "sparse/coo.h"

#define SELF (in[0].t)

/* ---- functions of one tensor ---- */

/* The dense record on the values of t, and the result with t's indices. */
static int on_values(const rush_op *op, const rush_value *in, rush_value *out, rush_tensor *t)
{
    const rush_op *dense = op->row;
    rush_value inner[64], result[RUSH_MAXOUT] = {0};
    if (!t) return -1;
    memcpy(inner, in, sizeof *in * dense->nargs);
    inner[0] = rush_v_tensor(VALUES(t));
    if (rush_call(dense, inner, result)) return -1;
    return rush_result(out, rush_sparse_with(t, result[0].t == VALUES(t) ? T("clone", V(VALUES(t))) : result[0].t));
}

static int unary_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return on_values(op, in, out, IS_COO(SELF) ? rush_coo_coalesced(SELF) : SELF);
}

/* Of functions that are linear, so that values at equal indices need not be joined. */
static int linear_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return on_values(op, in, out, SELF);
}

static void unary_grad(rush_grads *s)
{
    const rush_op *dense = s->op->row;
    rush_tensor *y = s->out[0].t, *g = s->g[0] ? T("_sparse_values_at", V(s->g[0]), V(y)) : NULL, *gin[64] = {0}, **lists[64] = {0};
    if (!g || !dense->grad) return;
    rush_value in[64], out = rush_v_tensor(T("_sparse_values_at", V(y), V(y)));
    memcpy(in, s->in, sizeof *in * dense->nargs);
    in[0] = rush_v_tensor(T("_sparse_values_at", s->in[0], V(y)));
    if (rush_failed()) return;
    rush_grads inner = {.op = dense, .in = in, .out = &out, .g = &g, .gin = gin, .glist = lists, .needs = s->needs & 1};
    dense->grad(&inner);
    s->gin[0] = gin[0] ? T("_sparse_values_like", V(y), V(gin[0])) : NULL;
}

#define UNARY(id, names) static rush_op sparse_##id = {.schema = names, .run = unary_run, .grad = unary_grad, .saves = "self, result"}
#define LINEAR(id, names) static rush_op sparse_##id = {.schema = names, .run = linear_run, .flags = RUSH_SAME_GRAD}
UNARY(abs, "abs absolute");
UNARY(asin, "asin arcsin");
UNARY(asinh, "asinh arcsinh");
UNARY(atan, "atan arctan");
UNARY(atanh, "atanh arctanh");
UNARY(ceil, "ceil");
UNARY(erf, "erf special_erf");
UNARY(erfinv, "erfinv special_erfinv");
UNARY(expm1, "expm1 special_expm1");
UNARY(floor, "floor");
UNARY(frac, "frac");
UNARY(isinf, "isinf");
UNARY(isnan, "isnan");
UNARY(isneginf, "isneginf");
UNARY(isposinf, "isposinf");
UNARY(log1p, "log1p");
UNARY(nan_to_num, "nan_to_num");
UNARY(relu, "relu");
UNARY(round, "round");
UNARY(round_decimals, "round.decimals");
UNARY(sgn, "sgn");
UNARY(sign, "sign");
UNARY(signbit, "signbit");
UNARY(sin, "sin");
UNARY(sinh, "sinh");
UNARY(sqrt, "sqrt");
UNARY(tan, "tan");
UNARY(tanh, "tanh");
UNARY(trunc, "trunc fix");
UNARY(angle, "angle");
UNARY(square, "square");
LINEAR(neg, "neg negative");
LINEAR(deg2rad, "deg2rad");
LINEAR(rad2deg, "rad2deg");
LINEAR(conj_physical, "conj_physical _conj_physical");
LINEAR(real, "real");
LINEAR(imag, "imag");

static int pow_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(rush_to_double(in[1]) != 0 || in[1].kind == RUSH_V_COMPLEX, RUSH_RUNTIME_ERROR,
               "pow: cannot raise to zeroth power on sparse tensor; it would make the result tensor dense");
    return unary_run(op, in, out);
}

/* Two tensors: the gradient's values at the entries of self. */
static int threshold_backward_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *grad = SELF, *self = in[1].t;
    RUSH_CHECK(IS_COO(self) && IS_COO(grad) && rush_same_sizes(self, grad), RUSH_NOT_IMPLEMENTED, "two COO tensors of one size are expected, got %s of %s and %s of %s",
               rush_layout_word(grad->layout), rush_shape_of(grad), rush_layout_word(self->layout), rush_shape_of(self));
    self = rush_coo_coalesced(self);
    rush_tensor *g = self ? rush_values_at(grad, self) : NULL, *values = g ? T("threshold_backward", V(g), V(VALUES(self)), in[2]) : NULL;
    return rush_result(out, values ? rush_sparse_with(self, values) : NULL);
}
static rush_op sparse_threshold_backward = {.schema = "threshold_backward", .run = threshold_backward_run, .grad = rush_no_derivative};
static rush_op sparse_pow = {.schema = "pow.Tensor_Scalar", .run = pow_run, .grad = unary_grad, .saves = "self, result"};

/* Complex tensors are conjugated at once: there is no storage for a lazy view. */
static int conj_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_result(out, rush_dtype_is_complex(SELF->dtype) ? T("conj_physical", V(SELF)) : SELF);
}
static int itself_run(const rush_op *op, const rush_value *in, rush_value *out) { return rush_result(out, SELF); }
static rush_op sparse_conj = {.schema = "conj _conj _conj_if_complex", .run = conj_run};
static rush_op sparse_resolve = {.schema = "resolve_conj resolve_neg", .run = itself_run};

/* ---- sums ---- */

static rush_tensor *scaled(rush_tensor *values, rush_value alpha)
{
    bool one = alpha.kind == RUSH_V_FLOAT ? alpha.f == 1 : alpha.kind != RUSH_V_COMPLEX && alpha.i == 1;
    return one || !values ? values : T("mul.Tensor", V(values), alpha);
}

static int add_to_dense(const rush_value *in, rush_value *out, rush_tensor *dense, rush_tensor *other, rush_value alpha)
{
    RUSH_CHECK(rush_same_sizes(dense, other), RUSH_RUNTIME_ERROR,
               "add: expected 'self' and 'other' to have same size, but self has size %s while other has size %s (FYI: %s-sparse addition does not currently "
               "support broadcasting)", rush_shape_of(dense), rush_shape_of(other), IS_COO(other) ? "dense" : "op2");
    rush_dtype d = rush_result_type(2, (const rush_value[]){rush_v_tensor(dense), rush_v_tensor(other)});
    rush_tensor *coo = rush_as_coo(other), *keys = coo ? rush_coo_keys_of(coo) : NULL, *given = T_(out[0]), *result = dense;
    if (!keys) return -1;
    if (!given || given != dense || given->dtype != d || !rush_contiguous(given)) { /* not in place */
        result = rush_tensor_new(d, dense->device, dense->ndim, dense->size);
        if (!result || rush_copy_into(result, dense)) return -1;
    }
    if (keys->numel && result->numel) {
        int sparse = coo->parts->sparse_dim, ndim = coo->parts->dense_dim;
        int64_t size[RUSH_MAXDIM + 1];
        size[0] = 1;
        for (int i = 0; i < sparse; ++i) size[0] *= coo->size[i];
        memcpy(size + 1, coo->size + sparse, sizeof *size * ndim);
        rush_tensor *flat = T("view", V(result), rush_v_ints(size, ndim + 1)), *values = rush_cast_copy(VALUES(coo), d);
        if (!flat || !values || !T_INPLACE("index_add", V(flat), V((int64_t)0), V(keys), V(values), alpha)) return -1;
    }
    return rush_result(out, result);
}

static rush_tensor *add_nothing(rush_tensor *a, rush_tensor *b, rush_value alpha)
{
    rush_dtype d = rush_result_type(2, (const rush_value[]){rush_v_tensor(a), rush_v_tensor(b)});
    rush_tensor *sum = VALUES(b)->size[0] ? b : a, *values = rush_cast_copy(VALUES(sum), d);
    if (sum == b) values = scaled(values, alpha);
    return values ? rush_coo_new(sum->ndim, sum->size, INDICES(sum), values->dtype == d ? values : rush_cast_copy(values, d), sum->parts->coalesced) : NULL;
}

/* The values of a and of b, alpha times, where they are to be added. */
static int terms_of(rush_tensor *a, rush_tensor *b, rush_value alpha, rush_tensor **va, rush_tensor **vb)
{
    rush_dtype d = rush_result_type(2, (const rush_value[]){rush_v_tensor(a), rush_v_tensor(b)});
    *va = rush_cast_copy(VALUES(a), d), *vb = scaled(rush_cast_copy(VALUES(b), d), alpha);
    if (*vb && (*vb)->dtype != d) *vb = rush_cast_copy(*vb, d);
    return *va && *vb ? 0 : -1;
}

/* n values: va at places to_a, and vb added at places to_b. */
static rush_tensor *sum_of_terms(int64_t n, rush_tensor *va, rush_value to_a, rush_tensor *vb, rush_value to_b)
{
    int64_t size[RUSH_MAXDIM + 1];
    memcpy(size, va->size, sizeof *size * va->ndim);
    size[0] = n;
    rush_tensor *values = T("new_zeros", V(va), rush_v_ints(size, va->ndim));
    values = values ? T_INPLACE("index_copy", V(values), V((int64_t)0), to_a, V(va)) : NULL;
    return values ? T_INPLACE("index_add", V(values), V((int64_t)0), to_b, V(vb)) : NULL;
}

static rush_tensor *add_coo(rush_tensor *a, rush_tensor *b, rush_value alpha)
{
    RUSH_CHECK_NULL(rush_same_sizes(a, b), RUSH_RUNTIME_ERROR, "add: expected sizes of 'self' and 'other' to match, but %s != %s", rush_shape_of(a),
                    rush_shape_of(b));
    if (a->parts->sparse_dim != b->parts->sparse_dim && (VALUES(a)->size[0] == 0 || VALUES(b)->size[0] == 0)) /* nothing is added, in whatever dimensions */
        return add_nothing(a, b, alpha);
    RUSH_CHECK_NULL(a->parts->sparse_dim == b->parts->sparse_dim, RUSH_RUNTIME_ERROR,
                    "add: expected 'self' and 'other' to have same density, but 'self' has %d sparse dimensions while 'other' has %d sparse dimensions",
                    a->parts->sparse_dim, b->parts->sparse_dim);
    bool coalesced = a->parts->coalesced && b->parts->coalesced, plain = rush_contiguous(VALUES(a)) && rush_contiguous(VALUES(b));
    rush_tensor *va, *vb, *ia[] = {INDICES(a), INDICES(b)};
    if (terms_of(a, b, alpha, &va, &vb)) return NULL;
    if (!plain && !coalesced) { /* as PyTorch does with gradients that are views: one list behind the other */
        rush_tensor *v[] = {va, vb};
        return rush_coo_new(a->ndim, a->size, T("cat", rush_v_tensors(ia, 2), V((int64_t)1)), T("cat", rush_v_tensors(v, 2), V((int64_t)0)), false);
    }
    rush_value to[RUSH_MAXOUT]; /* which entry of the sum each entry goes to */
    rush_tensor *ka = rush_coo_keys_of(a), *kb = rush_coo_keys_of(b);
    if (!ka || !kb || TN(to, "_coo_merge", V(ka), V(kb))) return NULL;
    rush_tensor *indices = T("new_empty", V(INDICES(a)), INTS(a->parts->sparse_dim, to[2].i)), *values = sum_of_terms(to[2].i, va, to[0], vb, to[1]);
    if (!indices || !values) return NULL;
    indices = T_INPLACE("index_copy", V(indices), V((int64_t)1), to[0], V(ia[0]));
    indices = indices ? T_INPLACE("index_copy", V(indices), V((int64_t)1), to[1], V(ia[1])) : NULL;
    return rush_coo_new(a->ndim, a->size, indices, values, coalesced);
}

/* Two of CSR or CSC, without a way through coordinates. */
static rush_tensor *add_rows(rush_tensor *a, rush_tensor *b, rush_value alpha)
{
    rush_tensor *starts[2], *columns[2], *va, *vb;
    rush_value sum[RUSH_MAXOUT];
    if (rush_csr_parts(a, &starts[0], &columns[0]) || rush_csr_parts(b, &starts[1], &columns[1]) || terms_of(a, b, alpha, &va, &vb)) return NULL;
    if (a->parts->compressed == b->parts->compressed && a->parts->plain == b->parts->plain) return rush_sparse_with(a, add(va, vb)); /* the same entries */
    if (TN(sum, "_rows_merge", V(starts[0]), V(columns[0]), V(starts[1]), V(columns[1]))) return NULL;
    rush_tensor *values = sum_of_terms(sum[1].t->numel, va, sum[2], vb, sum[3]);
    return values ? rush_index_type_of(rush_sparse_new((rush_layout)a->layout, a->ndim, a->size, sum[0].t, sum[1].t, values, 2, a->parts->dense_dim, true), a) : NULL;
}

static int add_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *a = T_(in[0]), *b = T_(in[1]);
    RUSH_CHECK(a, RUSH_RUNTIME_ERROR, "add(number, sparse) is not supported");
    RUSH_CHECK(a->layout || (b && b->layout), RUSH_NOT_IMPLEMENTED, "a dense sum is not written to a sparse tensor");
    if (b && !a->layout) return add_to_dense(in, out, a, b, in[2]);
    RUSH_CHECK(b && (b->layout || IS_COMPRESSED(a)), RUSH_RUNTIME_ERROR, "add(sparse, dense) is not supported. Use add(dense, sparse) instead.");
    if (!b->layout) { /* compressed + dense */
        rush_tensor *scaled_b = scaled(b, in[2]);
        out[0] = RUSH_NONE;
        return scaled_b ? add_to_dense(in, out, scaled_b, a, rush_v_int(1)) : -1;
    }
    RUSH_CHECK(a->layout == b->layout, RUSH_RUNTIME_ERROR, "add: expected tensors of one layout, got %s and %s", rush_layout_word(a->layout),
               rush_layout_word(b->layout));
    out[0] = RUSH_NONE;
    if (IS_COO(a)) return rush_result(out, add_coo(a, b, in[2]));
    if (!rush_blocked(a->layout) && !a->parts->batch_dim && rush_same_sizes(a, b) && a->parts->dense_dim == b->parts->dense_dim) return rush_result(out, add_rows(a, b, in[2]));
    rush_tensor *ca = rush_coo_coalesced(rush_as_coo(a)), *cb = rush_coo_coalesced(rush_as_coo(b)), *sum = ca && cb ? add_coo(ca, cb, in[2]) : NULL;
    return rush_result(out, rush_in_layout(sum, (rush_layout)a->layout, a));
}

static int sub_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value alpha = in[2];
    if (rush_pw_check_sub(in)) return -1;
    if (alpha.kind == RUSH_V_FLOAT) alpha.f = -alpha.f;
    else if (alpha.kind == RUSH_V_COMPLEX) alpha.c[0] = -alpha.c[0], alpha.c[1] = -alpha.c[1];
    else alpha = rush_v_int((int64_t)(0 - (uint64_t)alpha.i)); /* the least wraps, as all integers do */
    const rush_value inner[] = {in[0], in[1], alpha};
    return add_run(op, inner, out);
}

/* number - sparse and the like are refused by add(); tensor - sparse is sub with its operands exchanged */
static int rsub_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(in[1].kind == RUSH_V_TENSOR, RUSH_RUNTIME_ERROR,
               "add: expected 'self' and 'other' to have same size, but self has size [] while other has size %s (FYI: dense-sparse addition does not currently "
               "support broadcasting)", T_(in[0]) ? rush_shape_of(SELF) : "[]");
    return rush_result(out, T("sub.Tensor", in[1], in[0], in[2]));
}

static rush_op sparse_add = {.schema = "add.Tensor add.Scalar", .run = add_run, .flags = RUSH_SAME_GRAD | RUSH_STRIDED_OUT | RUSH_DENSE_FIRST};
static rush_op sparse_sub = {.schema = "sub.Tensor subtract.Tensor sub.Scalar subtract.Scalar", .run = sub_run, .flags = RUSH_SAME_GRAD | RUSH_STRIDED_OUT | RUSH_DENSE_FIRST};
static rush_op sparse_rsub = {.schema = "rsub.Tensor rsub.Scalar", .run = rsub_run, .flags = RUSH_DENSE_FIRST};

/* ---- products ---- */

static bool is_scalar(rush_value v) { return v.kind != RUSH_V_TENSOR || (v.t->ndim == 0 && !v.t->layout); }

/* The dense record with the values of `t` in place of argument `at`. */
static int with_scalar(const rush_op *op, const rush_value *in, rush_value *out, rush_tensor *t, int at)
{
    const rush_op *dense = op->row;
    rush_value inner[8], result[RUSH_MAXOUT] = {0};
    memcpy(inner, in, sizeof *in * dense->nargs);
    inner[at] = rush_v_tensor(VALUES(t));
    if (rush_call(dense, inner, result)) return -1;
    return rush_result(out, rush_sparse_with(t, result[0].t));
}

static rush_tensor *broadcast_coo(rush_tensor *t, int ndim, const int64_t *size);

static rush_tensor *mul_coo_dense(rush_tensor *t, rush_tensor *dense)
{
    int ndim;
    int64_t size[RUSH_MAXDIM];
    if (rush_broadcast_sizes(t->ndim, t->size, dense->ndim, dense->size, &ndim, size)) return NULL;
    if (ndim != t->ndim || memcmp(size, t->size, sizeof *size * ndim)) t = rush_coo_coalesced(broadcast_coo(t, ndim, size));
    rush_tensor *whole = T("expand", V(dense), rush_v_ints(size, ndim)), *at = t && whole ? rush_values_at(whole, t) : NULL;
    return at ? rush_sparse_with(t, mul(VALUES(t), at)) : NULL;
}

/* Entries at indices of `source`; its dense dimensions may have been broadcast in their values. */
static rush_tensor *entries(rush_tensor *source, rush_tensor *indices, rush_tensor *values, bool coalesced)
{
    int64_t size[RUSH_MAXDIM];
    int sparse = source->parts->sparse_dim;
    if (!indices || !values) return NULL;
    memcpy(size, source->size, sizeof *size * sparse);
    memcpy(size + sparse, values->size + 1, sizeof *size * (values->ndim - 1));
    return rush_coo_new(sparse + values->ndim - 1, size, indices, values, coalesced);
}

/* Entries of `source` times what `other` has there. As in PyTorch, those of a coalesced source that `other` does not have
 * go, those of an uncoalesced one become zero. */
static rush_tensor *intersect(rush_tensor *source, rush_tensor *other)
{
    RUSH_CHECK_NULL(source->ndim == other->ndim && source->parts->sparse_dim == other->parts->sparse_dim &&
                    (!source->ndim || !memcmp(source->size, other->size, sizeof *source->size * source->parts->sparse_dim)), RUSH_RUNTIME_ERROR,
                    "sparse_binary_op_intersection_cpu(): expects sparse inputs with equal dimensionality, number of sparse dimensions, and shape of sparse "
                    "dimensions");
    if (!source->parts->coalesced) return entries(source, INDICES(source), mul(VALUES(source), rush_values_at(other, source)), false);
    other = rush_coo_coalesced(other);
    rush_tensor *have = other ? rush_coo_keys_of(other) : NULL, *want = rush_coo_keys_of(source);
    rush_value both[RUSH_MAXOUT];
    if (!have || !want || TN(both, "_coo_common", V(want), V(have))) return NULL;
    rush_tensor *mine = both[0].t, *theirs = both[1].t;
    rush_tensor *values = mul(T("index_select", V(VALUES(source)), V((int64_t)0), V(mine)), T("index_select", V(VALUES(other)), V((int64_t)0), V(theirs)));
    rush_tensor *indices = T("index_select", V(INDICES(source)), V((int64_t)1), V(mine));
    return entries(source, indices, values, true);
}

static rush_tensor *mul_coo(rush_tensor *a, rush_tensor *b)
{
    bool coalesced_a = a->parts->coalesced, coalesced_b = b->parts->coalesced;
    if (coalesced_a != coalesced_b) return coalesced_a ? intersect(b, a) : intersect(a, b);
    return rush_nnz(a) >= rush_nnz(b) ? intersect(b, a) : intersect(a, b);
}

static int product_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *a = T_(in[0]), *b = T_(in[1]);
    if (a && a->layout && is_scalar(in[1])) return with_scalar(op, in, out, a, 0);
    if (is_scalar(in[0]) && b && b->layout) return with_scalar(op, in, out, b, 1);
    RUSH_CHECK(a && b, RUSH_NOT_IMPLEMENTED, "a product of a dense tensor and a number is not written to a sparse tensor");
    rush_tensor *lead = a->layout ? a : b, *other = lead == a ? b : a;
    if (IS_COO(lead) && !other->layout) return rush_result(out, mul_coo_dense(lead, other));
    if (IS_COO(a) && IS_COO(b)) return rush_result(out, mul_coo(a, b));
    if (!IS_COMPRESSED(lead)) return rush_fail(RUSH_RUNTIME_ERROR, "Expected result Tensor to be of format CSR");
    if (!other->layout || (lead->layout == other->layout && lead->parts->plain == other->parts->plain && lead->parts->compressed == other->parts->compressed)) {
        rush_tensor *masked = T("sparse_mask", V(other), V(lead)); /* every entry of lead stays */
        return rush_result(out, masked ? rush_sparse_with(lead, mul(VALUES(lead), VALUES(masked))) : NULL);
    }
    rush_tensor *x = rush_as_coo(lead), *y = rush_as_coo(other);
    x = x ? rush_coo_coalesced(x) : NULL;
    y = y ? rush_coo_coalesced(y) : NULL;
    rush_tensor *product = x && y ? mul_coo(x, y) : NULL;
    return rush_result(out, product ? rush_in_layout(product, (rush_layout)lead->layout, lead) : NULL);
}

static int mul_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *a = T_(in[0]), *b = T_(in[1]), *given = T_(out[0]);
    rush_value x[2] = {in[0], in[1]};
    int number = !a || !b || !a->layout || !b->layout ? -1 : !b->ndim ? 1 : !a->ndim ? 0 : -1; /* a sparse tensor without dimensions is one */
    if (number >= 0 && !(x[number] = rush_v_tensor(rush_as_dense(x[number].t))).t) return -1;
    if (product_run(op, x, out)) return -1;
    return given && !given->layout ? rush_result(out, rush_as_dense(out[0].t)) : 0; /* dense.mul_(sparse) */
}

static int div_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(T_(in[0]) && SELF->layout && is_scalar(in[1]), RUSH_RUNTIME_ERROR, "Sparse division requires a scalar or zero-dim dense tensor divisor (got shape %s for divisor)",
               in[1].kind == RUSH_V_TENSOR ? rush_shape_of(in[1].t) : "[]");
    return with_scalar(op, in, out, SELF, 0);
}

static int div_mode_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value whole[3];
    memcpy(whole, in, sizeof *in * op->nargs);
    if (T_(in[0]) && IS_COO(SELF)) whole[0] = rush_v_tensor(rush_coo_coalesced(SELF)); /* rounding is not linear */
    return whole[0].kind == RUSH_V_TENSOR ? div_run(op, whole, out) : -1;
}

static rush_op sparse_mul = {.schema = "mul.Tensor multiply.Tensor mul.Scalar multiply.Scalar", .run = mul_run, .flags = RUSH_SAME_GRAD | RUSH_STRIDED_OUT | RUSH_DENSE_FIRST};
static rush_op sparse_div = {.schema = "div.Tensor divide.Tensor true_divide.Tensor div.Scalar divide.Scalar true_divide.Scalar", .run = div_run, .flags = RUSH_SAME_GRAD | RUSH_DENSE_FIRST};
static rush_op sparse_div_mode = {.schema = "div.Tensor_mode divide.Tensor_mode div.Scalar_mode divide.Scalar_mode", .run = div_mode_run, .flags = RUSH_SAME_GRAD};
static rush_op sparse_floor_divide = {.schema = "floor_divide floor_divide.Scalar", .run = div_mode_run, .grad = rush_no_derivative};

/* ---- _sparse_broadcast_to ---- */

/* Every entry repeated along new and stretched dimensions; new sparse dimensions come first. */
static rush_tensor *broadcast_coo(rush_tensor *t, int ndim, const int64_t *size)
{
    if (!t) return NULL;
    int lead = ndim - t->ndim, sparse = t->parts->sparse_dim;
    int64_t n = rush_nnz(t), copies = 1, dense[RUSH_MAXDIM + 1];
    RUSH_CHECK_NULL(lead >= 0, RUSH_RUNTIME_ERROR, "the size %s has fewer dimensions than the tensor %s", rush_shape_text(ndim, size), rush_shape_of(t));
    if (rush_numel_of(ndim, size) < 0) return NULL;
    for (int d = 0; d < ndim; ++d) {
        int64_t have = d < lead ? 1 : t->size[d - lead];
        RUSH_CHECK_NULL(have == size[d] || have == 1, RUSH_RUNTIME_ERROR, "the tensor %s does not broadcast to %s", rush_shape_of(t), rush_shape_text(ndim, size));
        RUSH_CHECK_NULL(d >= lead + sparse || have == size[d] || !__builtin_mul_overflow(copies, size[d], &copies), RUSH_RUNTIME_ERROR, "the size %s is too large", rush_shape_text(ndim, size));
    }
    dense[0] = n;
    memcpy(dense + 1, size + lead + sparse, sizeof *dense * t->parts->dense_dim);
    rush_tensor *values = T("expand", V(VALUES(t)), rush_v_ints(dense, t->parts->dense_dim + 1));
    values = values ? T("repeat_interleave.self_int", V(values), V(copies), V((int64_t)0)) : NULL;
    rush_tensor *old = values ? rush_plain_numbers(INDICES(t)) : NULL, *list[RUSH_MAXDIM], *copy = T("arange", V(copies), rush_v_dtype(RUSH_I64), ON(t));
    old = old ? T("repeat_interleave.self_int", V(old), V(copies), V((int64_t)1)) : NULL;
    copy = copy ? T("repeat", V(copy), INTS(n)) : NULL; /* the number of the copy, of each entry */
    for (int d = lead + sparse - 1; d >= 0 && old && copy; --d) {
        int64_t have = d < lead ? 1 : t->size[d - lead];
        if (have == size[d]) list[d] = d < lead ? T("zeros_like", V(copy)) : T("select.int", V(old), V((int64_t)0), V((int64_t)(d - lead)));
        else list[d] = T("remainder.Scalar", V(copy), V(RUSH_MAX(size[d], 1)));
        if (have != size[d]) copy = T("floor_divide.Scalar", V(copy), V(RUSH_MAX(size[d], 1)));
    }
    rush_tensor *indices = !old || !copy ? NULL : lead + sparse ? T("stack", rush_v_tensors(list, (size_t)(lead + sparse))) : old;
    if (!indices) return NULL;
    rush_tensor *result = rush_coo_new(ndim, size, indices, values, false);
    return result;
}

static int broadcast_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_need_coo("_sparse_broadcast_to", SELF) ? -1 : rush_result(out, broadcast_coo(SELF, (int)in[1].n, in[1].ints));
}
static rush_op op_broadcast = {
    .schema = "_sparse_broadcast_to(Tensor(a) self, int[] size) -> Tensor(a)", .doc = "A COO tensor's entries repeated to a larger size.", .run = broadcast_run,
    .grad = rush_no_derivative, .flags = RUSH_ANY_LAYOUT | RUSH_HIDDEN,
};

RUSH_FAMILY(sparse_arith, &op_broadcast)
RUSH_SPARSE(arith, &sparse_abs, &sparse_asin, &sparse_asinh, &sparse_atan, &sparse_atanh, &sparse_ceil, &sparse_erf, &sparse_erfinv, &sparse_expm1, &sparse_floor,
            &sparse_frac, &sparse_isinf, &sparse_isnan, &sparse_isneginf, &sparse_isposinf, &sparse_log1p, &sparse_nan_to_num, &sparse_relu, &sparse_round,
            &sparse_round_decimals, &sparse_sgn, &sparse_sign, &sparse_signbit, &sparse_sin, &sparse_sinh, &sparse_sqrt, &sparse_tan, &sparse_tanh, &sparse_trunc,
            &sparse_angle, &sparse_square, &sparse_neg, &sparse_deg2rad, &sparse_rad2deg, &sparse_conj_physical, &sparse_real, &sparse_imag, &sparse_threshold_backward,
            &sparse_pow, &sparse_conj, &sparse_resolve, &sparse_add, &sparse_sub, &sparse_rsub, &sparse_mul, &sparse_div, &sparse_div_mode, &sparse_floor_divide)
