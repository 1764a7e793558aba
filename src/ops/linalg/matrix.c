/* matrix.c - functions of matrices made of factorisations (factor.c, spectral.c) and solvers (solve.c): pseudoinverse, rank,
 * norms, condition numbers, tensors as operators, the exponential.
 */
#include "op/formula.h"
#include "ops/linalg/linalg.h"
#include "tensor/backend.h"
#include <math.h>

/* ---- pseudoinverse and rank ---- */

static rush_tensor *tolerance(rush_tensor *largest, rush_value atol, rush_value rtol, double default_rtol)
{
    /* max(atol, rtol * largest): rtol is 0 when only atol is given */
    if (!largest) return NULL;
    rush_tensor *t = NULL;
    bool has_atol = HAS(atol), has_rtol = HAS(rtol);
    if (!has_rtol) {
        bool positive = has_atol && rush_is_number(atol) && rush_to_double(atol) > 0;
        if (has_atol && !rush_is_number(atol)) t = mul(largest, where(gt(atol, 0.0), 0.0, default_rtol));
        else t = mul(largest, positive ? 0.0 : default_rtol);
    } else {
        t = mul(largest, rtol);
    }
    if (!has_atol) return t;
    return rush_is_number(atol) ? T("clamp_min", V(t), atol) : T("maximum", V(t), V(to_dtype(atol.t, largest->dtype)));
}

static double rank_eps(const rush_tensor *a)
{
    return rush_dtypes[rush_dtype_real(a->dtype)].eps * RUSH_MAX(ROWS(a), COLS(a));
}

/* in: A, atol, rtol, hermitian */
static rush_tensor *pinv(rush_tensor *a, rush_value atol, rush_value rtol, bool hermitian)
{
    if (rush_linalg_check(a, "A", hermitian)) return NULL;
    if (!a->numel) {
        int64_t size[RUSH_MAXDIM];
        memcpy(size, a->size, sizeof *size * a->ndim);
        size[a->ndim - 2] = COLS(a);
        size[a->ndim - 1] = ROWS(a);
        return T("zeros", rush_v_ints(size, a->ndim), rush_v_dtype(a->dtype), ON(a));
    }
    rush_value got[RUSH_MAXOUT];
    if (hermitian) {
        if (TN(got, "linalg_eigh", V(a))) return NULL;
        rush_tensor *size = abs_(got[0].t), *largest = T("amax", V(size), INTS(-1), V(true));
        rush_tensor *keep = gt(size, unsqueeze(tolerance(squeeze(largest, -1), atol, rtol, rank_eps(a)), -1));
        rush_tensor *inv = where(keep, reciprocal(got[0].t), rush_zeros_like(got[0].t));
        return matmul(mul(got[1].t, unsqueeze(to_dtype(inv, a->dtype), -2)), mH(got[1].t));
    }
    if (TN(got, "_linalg_svd", V(a))) return NULL;
    rush_tensor *sv = got[1].t, *largest = T("select.int", V(sv), V(-1), V(0));
    rush_tensor *keep = gt(sv, unsqueeze(tolerance(largest, atol, rtol, rank_eps(a)), -1));
    rush_tensor *inv = where(keep, reciprocal(sv), rush_zeros_like(sv));
    return matmul(mul(mH(got[2].t), unsqueeze(to_dtype(inv, a->dtype), -2)), mH(got[0].t));
}

static int pinv_run(const rush_op *op, const rush_value *in, rush_value *out) { return rush_result(out, pinv(in[0].t, in[1], in[2], in[3].i)); }

/* Golub and Pereyra, "The differentiation of pseudo-inverses" (1973). */
static void pinv_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0], *p = s->out[0].t, *a = s->in[0].t;
    if (!g) return;
    rush_tensor *gh = mH(g), *ph = mH(p);
    if (ROWS(a) <= COLS(a)) {
        rush_tensor *k = matmul(gh, p), *kp = matmul(k, ph);
        rush_tensor *x = sub(kp, mH(matmul(p, k)));
        x = sub(x, matmul(matmul(a, p), kp));
        s->gin[0] = add(x, matmul(matmul(ph, p), sub(gh, matmul(k, a))));
    } else {
        rush_tensor *k = matmul(p, gh), *pk = matmul(ph, k);
        rush_tensor *x = sub(matmul(matmul(sub(gh, matmul(a, k)), p), ph), mH(matmul(k, p)));
        s->gin[0] = add(x, sub(pk, matmul(matmul(pk, p), a)));
    }
}

#define PINV_DOC "Moore-Penrose inverse; singular values not above max(atol, rtol * largest) count as zero."
static rush_op op_linalg_pinv_atol_rtol_tensor = {
    .schema = "linalg_pinv.atol_rtol_tensor(Tensor self, *, Tensor? atol=None, Tensor? rtol=None, bool hermitian=False) -> Tensor",
    .doc = PINV_DOC, .run = pinv_run, .grad = pinv_grad, .saves = "self, result", .flags = RUSH_OUT_CASTS,
};
static rush_op op_linalg_pinv_atol_rtol_float = {
    .schema = "linalg_pinv.atol_rtol_float(Tensor self, *, float? atol=None, float? rtol=None, bool hermitian=False) -> Tensor",
    .doc = PINV_DOC, .run = pinv_run, .grad = pinv_grad, .saves = "self, result", .flags = RUSH_OUT_CASTS,
};

static int pinv_rcond_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_result(out, pinv(in[0].t, RUSH_NONE, in[1], in[2].i));
}

static rush_op op_linalg_pinv = {
    .schema = "linalg_pinv(Tensor self, float rcond, bool hermitian=False) -> Tensor",
    .doc = PINV_DOC, .run = pinv_rcond_run, .grad = pinv_grad, .saves = "self, result", .flags = RUSH_OUT_CASTS,
};
static rush_op op_linalg_pinv_rcond_tensor = {
    .schema = "linalg_pinv.rcond_tensor(Tensor self, Tensor rcond, bool hermitian=False) -> Tensor",
    .doc = PINV_DOC, .run = pinv_rcond_run, .grad = pinv_grad, .saves = "self, result", .flags = RUSH_OUT_CASTS,
};

static int pinverse_run(const rush_op *op, const rush_value *in, rush_value *out) { return rush_result(out, T("linalg_pinv", in[0], in[1])); }

static rush_op op_pinverse = {
    .schema = "pinverse(Tensor self, float rcond=1e-15) -> Tensor", .method = RUSH_METHOD,
    .doc = "The older form of linalg_pinv.", .run = pinverse_run, .flags = RUSH_AUTOCAST_F32,
};

static int rank_of(const rush_value *in, rush_value atol, rush_value rtol, bool hermitian, rush_value *out)
{
    rush_tensor *a = in[0].t;
    if (rush_linalg_check(a, "A", hermitian)) return -1;
    rush_tensor *sv = hermitian ? abs_(T("linalg_eigvalsh", V(a))) : T("linalg_svdvals", V(a));
    if (!sv) return -1;
    if (!a->numel || !sv->numel) return rush_result(out, T("zeros", rush_v_ints(a->size, a->ndim - 2), rush_v_dtype(RUSH_I64), ON(a)));
    rush_tensor *largest = T("amax", V(sv), INTS(-1));
    rush_tensor *tol = tolerance(largest, atol, rtol, rank_eps(a));
    return rush_result(out, sum_dim(gt(sv, unsqueeze(tol, -1)), -1, false));
}

static int rank_run(const rush_op *op, const rush_value *in, rush_value *out) { return rank_of(in, in[1], in[2], in[3].i, out); }
static int rank_tol_run(const rush_op *op, const rush_value *in, rush_value *out) { return rank_of(in, in[1], V(0.0), in[2].i, out); }

#define RANK_DOC "How many singular values are above max(atol, rtol * largest)."
static rush_op op_linalg_matrix_rank_atol_rtol_tensor = {
    .schema = "linalg_matrix_rank.atol_rtol_tensor(Tensor input, *, Tensor? atol=None, Tensor? rtol=None, bool hermitian=False) -> Tensor",
    .doc = RANK_DOC, .run = rank_run, .flags = RUSH_NO_GRAD | RUSH_OUT_CASTS | RUSH_AUTOCAST_F32,
};
static rush_op op_linalg_matrix_rank_atol_rtol_float = {
    .schema = "linalg_matrix_rank.atol_rtol_float(Tensor self, *, float? atol=None, float? rtol=None, bool hermitian=False) -> Tensor",
    .doc = RANK_DOC, .run = rank_run, .flags = RUSH_NO_GRAD | RUSH_OUT_CASTS | RUSH_AUTOCAST_F32,
};
static rush_op op_linalg_matrix_rank = {
    .schema = "linalg_matrix_rank(Tensor self, float tol, bool hermitian=False) -> Tensor",
    .doc = RANK_DOC, .run = rank_tol_run, .flags = RUSH_NO_GRAD | RUSH_OUT_CASTS | RUSH_AUTOCAST_F32,
};
static rush_op op_linalg_matrix_rank_tol_tensor = {
    .schema = "linalg_matrix_rank.tol_tensor(Tensor input, Tensor tol, bool hermitian=False) -> Tensor",
    .doc = RANK_DOC, .run = rank_tol_run, .flags = RUSH_NO_GRAD | RUSH_OUT_CASTS | RUSH_AUTOCAST_F32,
};

/* ---- norms ---- */

/* in[0] with dims (in ints) as the matrix, of order `ord` given as number or name. */
static rush_tensor *matrix_norm(rush_tensor *a, rush_value ord, const int64_t *dims, bool keepdim, rush_value dtype)
{
    bool named = ord.kind == RUSH_V_STRING, frobenius = named && !strcmp(ord.s, "fro"), nuclear = named && !strcmp(ord.s, "nuc");
    double p = named ? 0 : rush_to_double(ord);
    RUSH_CHECK_NULL(rush_dtypes[a->dtype].category >= 2, RUSH_RUNTIME_ERROR, "Expected a floating point or complex tensor as input. Got %s", rush_dtype_name(a->dtype));
    RUSH_CHECK_NULL(!named || frobenius || nuclear, RUSH_RUNTIME_ERROR, "linalg.matrix_norm: Order %s not supported.", ord.s);
    RUSH_CHECK_NULL(named || fabs(p) == 1 || fabs(p) == 2 || isinf(p), RUSH_RUNTIME_ERROR, "linalg.matrix_norm: Order %g not supported.", p);
    RUSH_CHECK_NULL(a->ndim >= 2, RUSH_RUNTIME_ERROR, "linalg.matrix_norm: The input tensor A must have at least 2 dimensions.");
    int d0 = rush_dim_wrap(dims[0], a->ndim), d1 = rush_dim_wrap(dims[1], a->ndim);
    if (d0 < 0 || d1 < 0) return NULL;
    RUSH_CHECK_NULL(d0 != d1, RUSH_RUNTIME_ERROR, "linalg.matrix_norm: dims must be different. Got (%lld, %lld)", (long long)dims[0], (long long)dims[1]);
    if (HAS(dtype)) a = to_dtype(a, (rush_dtype)dtype.i);
    if (!a) return NULL;
    if (frobenius) return T("linalg_vector_norm", V(a), V(2), INTS(d0, d1), V(keepdim));
    if (nuclear || fabs(p) == 2) {
        int64_t order[RUSH_MAXDIM], n = 0;
        for (int d = 0; d < a->ndim; ++d)
            if (d != d0 && d != d1) order[n++] = d;
        order[n++] = d0;
        order[n++] = d1;
        rush_tensor *s = T("linalg_svdvals", V(T("permute", V(a), rush_v_ints(order, n))));
        bool none = s && s->size[s->ndim - 1] == 0; /* the norm of nothing is 0 */
        rush_tensor *r = nuclear || (none && p > 0) ? sum_dim(s, -1, false) : p > 0 ? T("amax", V(s), INTS(-1)) : T("amin", V(s), INTS(-1));
        if (keepdim && r) {
            r = unsqueeze(r, RUSH_MIN(d0, d1));
            r = unsqueeze(r, RUSH_MAX(d0, d1));
        }
        return r;
    }
    int along = isinf(p) ? d1 : d0, rest = isinf(p) ? d0 : d1; /* sums of columns (1) or rows (inf) */
    if (rest > along && !keepdim) --rest;
    rush_tensor *sums = T("linalg_vector_norm", V(a), V(1), INTS(along), V(keepdim));
    if (sums && p > 0 && sums->size[rest] == 0) return sum_dim(sums, rest, keepdim); /* the norm of nothing is 0 */
    return sums ? (p > 0 ? T("amax", V(sums), INTS(rest), V(keepdim)) : T("amin", V(sums), INTS(rest), V(keepdim))) : NULL;
}

static int matrix_norm_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(in[2].n == 2, RUSH_RUNTIME_ERROR, "linalg.matrix_norm: dim must be a 2-tuple. Got %s", rush_shape_text((int)in[2].n, in[2].ints));
    return rush_result(out, matrix_norm(in[0].t, in[1], in[2].ints, in[3].i, in[4]));
}

static rush_op op_linalg_matrix_norm = {
    .schema = "linalg_matrix_norm(Tensor self, Scalar ord, int[] dim=[-2,-1], bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    .doc = "Matrix norms of order 1, -1, 2, -2, inf, -inf.", .run = matrix_norm_run,
};
static rush_op op_linalg_matrix_norm_str = {
    .schema = "linalg_matrix_norm.str_ord(Tensor self, str ord='fro', int[] dim=[-2,-1], bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    .doc = "Frobenius ('fro') and nuclear ('nuc') norms.", .run = matrix_norm_run,
};

static int linalg_norm_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *a = in[0].t;
    bool dims = HAS(in[2]);
    RUSH_CHECK(!dims || in[2].n <= 2, RUSH_RUNTIME_ERROR, "linalg.norm: If dim is specified, it must be of length 1 or 2. Got %s",
               rush_shape_text((int)in[2].n, in[2].ints));
    RUSH_CHECK(!HAS(in[1]) || dims || a->ndim == 1 || a->ndim == 2, RUSH_RUNTIME_ERROR,
               "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got %dD.", a->ndim);
    bool as_matrix = HAS(in[1]) && ((dims && in[2].n == 2) || (!dims && a->ndim == 2));
    RUSH_CHECK(in[1].kind != RUSH_V_STRING || as_matrix, RUSH_RUNTIME_ERROR, "linalg.norm: order %s needs a matrix", in[1].s);
    if (as_matrix) return rush_result(out, matrix_norm(a, in[1], dims ? in[2].ints : (int64_t[]){0, 1}, in[3].i, in[4]));
    rush_value ord = HAS(in[1]) ? in[1] : V(2);
    if (!dims && !HAS(in[1])) { /* of all elements */
        rush_tensor *r = T("linalg_vector_norm", V(T("flatten.using_ints", V(a))), ord, RUSH_NONE, V(false), in[4]);
        int64_t ones[RUSH_MAXDIM];
        for (int d = 0; d < a->ndim; ++d) ones[d] = 1;
        return rush_result(out, in[3].i && r ? T("view", V(r), rush_v_ints(ones, a->ndim)) : r);
    }
    return rush_result(out, T("linalg_vector_norm", V(a), ord, in[2], in[3], in[4]));
}

static rush_op op_linalg_norm = {
    .schema = "linalg_norm(Tensor self, Scalar? ord=None, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    .doc = "Vector norm along one dim, matrix norm over two, or the 2-norm of all elements.", .run = linalg_norm_run,
};
static rush_op op_linalg_norm_str = {
    .schema = "linalg_norm.ord_str(Tensor self, str ord, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    .doc = "Frobenius and nuclear norms.", .run = linalg_norm_run,
};

static rush_tensor *condition(rush_tensor *a, rush_value p)
{
    if (rush_linalg_check(a, "A", p.kind == RUSH_V_STRING || (HAS(p) && fabs(rush_to_double(p)) != 2))) return NULL;
    int64_t dims[] = {-2, -1};
    if (p.kind != RUSH_V_STRING && (!HAS(p) || fabs(rush_to_double(p)) == 2)) {
        rush_tensor *s = T("linalg_svdvals", V(a));
        if (!s) return NULL;
        if (s->size[s->ndim - 1] == 0) return T("zeros", rush_v_ints(a->size, a->ndim - 2), rush_v_dtype(rush_dtype_real(a->dtype)), ON(a));
        rush_tensor *big = T("select.int", V(s), V(-1), V(0)), *small = T("select.int", V(s), V(-1), V(-1));
        return HAS(p) && rush_to_double(p) < 0 ? div_(small, big) : div_(big, small);
    }
    if (!a->numel) return T("zeros", rush_v_ints(a->size, a->ndim - 2), rush_v_dtype(rush_dtype_real(a->dtype)), ON(a));
    rush_value got[RUSH_MAXOUT];
    if (TN(got, "linalg_inv_ex", V(a))) return NULL;
    rush_tensor *fine = eq(got[1].t, 0), *inverse = where(T("unsqueeze", V(T("unsqueeze", V(fine), V(-1))), V(-1)), got[0].t, 0); /* a norm may be by singular values */
    rush_tensor *r = inverse ? mul(matrix_norm(a, p, dims, false, RUSH_NONE), matrix_norm(inverse, p, dims, false, RUSH_NONE)) : NULL;
    return T("nan_to_num", V(where(fine, r, (double)INFINITY)), V((double)INFINITY), V((double)INFINITY), V(-(double)INFINITY));
}

static int cond_run(const rush_op *op, const rush_value *in, rush_value *out) { return rush_result(out, condition(in[0].t, in[1])); }

static rush_op op_linalg_cond = {.schema = "linalg_cond(Tensor self, Scalar? p=None) -> Tensor", .doc = "Condition numbers of matrices.", .run = cond_run, .flags = RUSH_OUT_CASTS | RUSH_AUTOCAST_F32};
static rush_op op_linalg_cond_str = {.schema = "linalg_cond.p_str(Tensor self, str p) -> Tensor", .doc = "Condition numbers by a named norm.", .run = cond_run, .flags = RUSH_OUT_CASTS | RUSH_AUTOCAST_F32};

/* ---- tensors as operators ---- */

static int64_t product(const int64_t *size, int64_t n)
{
    int64_t p = 1;
    for (int64_t i = 0; i < n; ++i) p *= size[i];
    return p;
}

static int tensorinv_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *a = in[0].t;
    int64_t k = in[1].i;
    RUSH_CHECK(k > 0, RUSH_RUNTIME_ERROR, "Expected a strictly positive integer for 'ind', got %lld", (long long)k);
    RUSH_CHECK(k <= a->ndim, RUSH_RUNTIME_ERROR, "Expected 'ind' to be at most %d, got %lld", a->ndim, (long long)k);
    int64_t m = product(a->size, k), n = product(a->size + k, a->ndim - k), size[RUSH_MAXDIM];
    RUSH_CHECK(m == n, RUSH_RUNTIME_ERROR, "Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got %lld != %lld",
               (long long)n, (long long)m);
    memcpy(size, a->size + k, sizeof *size * (a->ndim - k));
    memcpy(size + a->ndim - k, a->size, sizeof *size * k);
    rush_tensor *inv = T("linalg_inv", V(T("reshape", V(a), INTS(m, n))));
    return rush_result(out, inv ? T("reshape", V(inv), rush_v_ints(size, a->ndim)) : NULL);
}

static rush_op op_linalg_tensorinv = {
    .schema = "linalg_tensorinv(Tensor self, int ind=2) -> Tensor",
    .doc = "Inverse of a tensor as an operator from its last dims to its first `ind`.", .run = tensorinv_run, .flags = RUSH_OUT_CASTS | RUSH_AUTOCAST_F32,
};

static int tensorsolve_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *a = in[0].t, *b = in[1].t;
    int nd = a->ndim;
    if (HAS(in[2])) { /* these dims go last */
        int64_t order[RUSH_MAXDIM], n = 0;
        bool moved[RUSH_MAXDIM] = {false};
        for (uint32_t i = 0; i < in[2].n; ++i) {
            int d = rush_dim_wrap(in[2].ints[i], nd);
            if (d < 0) return -1;
            RUSH_CHECK(!moved[d], RUSH_RUNTIME_ERROR, "dims: %d is there twice", d);
            moved[d] = true;
        }
        for (int d = 0; d < nd; ++d)
            if (!moved[d]) order[n++] = d;
        for (uint32_t i = 0; i < in[2].n; ++i) order[n++] = rush_dim_wrap(in[2].ints[i], nd);
        a = T("permute", V(a), rush_v_ints(order, n));
        if (!a) return -1;
    }
    int64_t n = b->numel, rest = a->numel / RUSH_MAX(n, 1);
    RUSH_CHECK(b->ndim <= nd && n * rest == a->numel && n == rest, RUSH_RUNTIME_ERROR,
               "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim]), but got %lld != %lld",
               (long long)rest, (long long)n);
    rush_tensor *x = T("linalg_solve", V(T("reshape", V(a), INTS(n, rest))), V(T("reshape", V(b), INTS(n))));
    return rush_result(out, x ? T("reshape", V(x), rush_v_ints(a->size + b->ndim, nd - b->ndim)) : NULL);
}

static rush_op op_linalg_tensorsolve = {
    .schema = "linalg_tensorsolve(Tensor self, Tensor other, int[]? dims=None) -> Tensor",
    .doc = "X with tensordot(self, X) = other.", .run = tensorsolve_run, .flags = RUSH_OUT_CASTS | RUSH_AUTOCAST_F32,
};

/* ---- exponential: Pade approximant of order 13 with scaling and squaring (Higham, 2005) ---- */

static int matrix_exp_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    static const double c[] = {64764752532480000., 32382376266240000., 7771770303897600., 1187353796428800., 129060195264000., 10559470521600.,
                               670442572800., 33522128640., 1323241920., 40840800., 960960., 16380., 182., 1.};
    rush_tensor *a = in[0].t;
    if (a->dtype == RUSH_F16 || a->dtype == RUSH_BF16) { /* in single precision */
        rush_tensor *wide = T("linalg_matrix_exp", V(to_dtype(a, RUSH_F32)));
        return rush_result(out, wide ? to_dtype(wide, a->dtype) : NULL);
    }
    if (rush_linalg_check(a, "A", true)) return -1;
    if (!a->numel) return rush_result(out, T("clone", V(a)));
    int squarings = 0;
    if (rush_has_data(a)) {
        bool was = rush_grad_enabled_set(false);
        rush_tensor *norm = T("amax", V(sum_dim(abs_(a), -2, false)));
        double size = rush_number_of(norm);
        rush_grad_enabled_set(was);
        if (rush_failed()) return -1;
        if (isfinite(size) && size > 1.0) squarings = (int)ceil(log2(size));
    }
    rush_tensor *one = eye_like(a, ROWS(a));
    rush_tensor *x = squarings ? mul(a, ldexp(1.0, -squarings)) : a;
    rush_tensor *x2 = matmul(x, x), *x4 = matmul(x2, x2), *x6 = matmul(x4, x2);
    rush_tensor *odd = matmul(x6, add(add(mul(x6, c[13] / c[0]), mul(x4, c[11] / c[0])), mul(x2, c[9] / c[0])));
    odd = add(odd, add(add(mul(x6, c[7] / c[0]), mul(x4, c[5] / c[0])), add(mul(x2, c[3] / c[0]), mul(one, c[1] / c[0]))));
    odd = matmul(x, odd);
    rush_tensor *even = matmul(x6, add(add(mul(x6, c[12] / c[0]), mul(x4, c[10] / c[0])), mul(x2, c[8] / c[0])));
    even = add(even, add(add(mul(x6, c[6] / c[0]), mul(x4, c[4] / c[0])), add(mul(x2, c[2] / c[0]), one)));
    rush_tensor *r = T("linalg_solve", V(sub(even, odd)), V(add(even, odd)));
    for (int i = 0; i < squarings && r; ++i) r = matmul(r, r);
    return rush_result(out, r);
}

static rush_op op_linalg_matrix_exp = {.schema = "linalg_matrix_exp(Tensor self) -> Tensor", .node = "LinalgMatrixExpBackward0", .doc = "Matrix exponential of square matrices.", .run = matrix_exp_run, .flags = RUSH_WHOLE | RUSH_AUTOCAST_WIDEST};
static rush_op op_matrix_exp = {.schema = "matrix_exp(Tensor self) -> Tensor", .method = RUSH_METHOD, .node = "LinalgMatrixExpBackward0", .doc = "linalg_matrix_exp.", .run = matrix_exp_run, .flags = RUSH_AUTOCAST_WIDEST};

RUSH_FAMILY(matrix, &op_linalg_pinv_atol_rtol_float, &op_linalg_pinv_atol_rtol_tensor, &op_linalg_pinv, &op_linalg_pinv_rcond_tensor, &op_pinverse,
            &op_linalg_matrix_rank_atol_rtol_float, &op_linalg_matrix_rank_atol_rtol_tensor, &op_linalg_matrix_rank,
            &op_linalg_matrix_rank_tol_tensor, &op_linalg_matrix_norm_str, &op_linalg_matrix_norm, &op_linalg_norm, &op_linalg_norm_str,
            &op_linalg_cond, &op_linalg_cond_str, &op_linalg_tensorinv, &op_linalg_tensorsolve, &op_linalg_matrix_exp, &op_matrix_exp)
