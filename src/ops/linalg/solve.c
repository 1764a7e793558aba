/* solve.c - systems of equations, inverses, determinants, and what is composed of factorisations (factor.c). */
#include "kernels/lapack/lapack.h"
#include "autograd/autograd.h"
#include "op/formula.h"
#include "ops/linalg/linalg.h"
#include <math.h>

/* Batch sizes of two stacks of matrices together, into size; the number of dims or -1. */
static int batch_of(const rush_tensor *a, const rush_tensor *b, int64_t *size)
{
    int nd;
    return rush_broadcast_sizes(a->ndim - 2, a->size, b->ndim - 2, b->size, &nd, size) ? -1 : nd;
}

/* Result 0: column-major m x n with this batch. */
static rush_tensor *out_batched(rush_value *out, const rush_tensor *like, int nd, int64_t *size, int64_t m, int64_t n)
{
    size[nd] = m;
    size[nd + 1] = n;
    rush_tensor shape = {.ndim = (uint8_t)(nd + 2), .size = size, .device = like->device};
    return rush_out_matrix(out, 0, &shape, like->dtype, m, n);
}

/* A column-major copy of t expanded to the batch of `like`, in its dtype. */
static rush_tensor *columns(rush_tensor *t, const rush_tensor *like)
{
    int64_t size[RUSH_MAXDIM];
    rush_value room[1];
    memcpy(size, like->size, sizeof *size * like->ndim);
    size[like->ndim - 2] = ROWS(t);
    size[like->ndim - 1] = COLS(t);
    rush_tensor *wide = T("expand", V(t), rush_v_ints(size, like->ndim));
    rush_tensor *copy = wide ? rush_out_matrix(room, 0, like, like->dtype, ROWS(t), COLS(t)) : NULL;
    return copy && !rush_copy_into(copy, wide) ? copy : NULL;
}

static int check_dtypes(const rush_tensor *a, const rush_tensor *b)
{
    RUSH_CHECK(a->dtype == b->dtype, RUSH_RUNTIME_ERROR, "Expected A and B to have the same dtype, but found A of type %s and B of type %s instead",
               rush_dtype_name(a->dtype), rush_dtype_name(b->dtype));
    return 0;
}

static int check_pair(const rush_tensor *a, const rush_tensor *b, bool left)
{
    if (rush_linalg_check(a, "A", true)) return -1;
    RUSH_CHECK(b->ndim >= 2, RUSH_RUNTIME_ERROR, "The input tensor B must have at least 2 dimensions.");
    RUSH_CHECK(left ? ROWS(a) == ROWS(b) : ROWS(a) == COLS(b), RUSH_RUNTIME_ERROR, "Incompatible shapes of A and B for the equation %s (%dx%d and %dx%d)",
               left ? "AX = B" : "XA = B", ROWS(a), COLS(a), ROWS(b), COLS(b));
    return 0;
}

/* ---- triangular systems: X has A's dtype, whatever B's is ---- */

static int triangular_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *a = in[0].t, *b = in[1].t;
    int64_t size[RUSH_MAXDIM];
    if (check_pair(a, b, in[3].i)) return -1;
    int nd = batch_of(a, b, size);
    return nd >= 0 && out_batched(out, a, nd, size, ROWS(b), COLS(b)) ? 0 : -1;
}

static void triangular_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = out[0].t, *a = columns(in[0].t, x);
    bool upper = in[2].i, left = in[3].i, unit = in[4].i;
    int m = ROWS(x), n = COLS(x), k = ROWS(in[0].t);
    if (!a || !x->numel) return;
    rush_tensor *b = columns(in[1].t, x);
    if (b && !left) b = rush_contiguous_copy(b); /* X A = B is A^T X^T = B^T; B^T column-major is B row-major */
    if (!b) return;
    size_t bytes = (size_t)x->numel * rush_dtypes[x->dtype].size;
    if (left) memcpy(rush_ptr(x), rush_ptr(b), bytes);
    for (int64_t i = 0; i < rush_batches(x); ++i) {
        rush_triangle t = {x->dtype, upper, unit, left ? 'N' : 'T', k, k, matrix(a, i)};
        rush_solve_triangle(&t, left ? n : m, left ? matrix(x, i) : matrix(b, i), k);
    }
    if (!left && !rush_failed()) rush_copy_into(x, b);
}

static void triangular_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0], *a = s->in[0].t, *x = s->out[0].t;
    bool upper = s->in[2].i, left = s->in[3].i, unit = s->in[4].i;
    if (!g) return;
    rush_tensor *gb = T("linalg_solve_triangular", V(mH(a)), V(g), V(!upper), V(left), V(unit));
    if (rush_needs(s, 1)) s->gin[1] = rush_sum_to(gb, s->in[1].t);
    if (!rush_needs(s, 0)) return;
    rush_tensor *ga = left ? matmul(gb, mH(x)) : matmul(mH(x), gb);
    ga = neg(upper ? triu(ga, unit) : tril(ga, -(int)unit));
    s->gin[0] = rush_sum_to(ga, a);
}

static rush_op op_linalg_solve_triangular = {
    .schema = "linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, bool unitriangular=False) -> Tensor",
    .doc = "X with self X = B (or X self = B), self triangular; only its triangle is read.",
    .shape = triangular_shape, .cpu = triangular_cpu, .grad = triangular_grad, .saves = "self, result",
};

static int triangular_old_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *b = in[0].t, *a = in[1].t;
    bool upper = in[2].i, transpose = in[3].i;
    if (rush_linalg_check(a, "A", true) || check_dtypes(a, b)) return -1;
    rush_tensor *x = transpose ? T("linalg_solve_triangular", V(mT(a)), V(b), V(!upper), V(true), in[4])
                               : T("linalg_solve_triangular", V(a), V(b), V(upper), V(true), in[4]);
    int64_t size[RUSH_MAXDIM];
    if (!x) return -1;
    memcpy(size, x->size, sizeof *size * x->ndim);
    size[x->ndim - 1] = COLS(a);
    size[x->ndim - 2] = ROWS(a);
    out[0] = rush_v_tensor(x);
    out[1] = rush_v_tensor(T("clone", V(T("expand", V(a), rush_v_ints(size, x->ndim)))));
    return rush_failed() ? -1 : 0;
}

static rush_op op_triangular_solve = {
    .schema = "triangular_solve(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool unitriangular=False) -> (Tensor solution, Tensor cloned_coefficient)",
    .method = RUSH_METHOD, .node = "TriangularSolveBackward0",
    .doc = "The older form of linalg_solve_triangular.",
    .run = triangular_old_run, .flags = RUSH_WHOLE | RUSH_AUTOCAST_F32,
};

/* ---- systems by LU ---- */

static int lu_solve_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *lu = in[0].t, *b = in[2].t;
    int64_t size[RUSH_MAXDIM];
    if (rush_linalg_check(lu, "LU", true) || check_pair(lu, b, in[3].i) || check_dtypes(lu, b)) return -1;
    RUSH_CHECK(in[1].t->dtype == RUSH_I32, RUSH_RUNTIME_ERROR, "pivots should be a tensor of scalar type torch.int32");
    RUSH_CHECK(in[1].t->ndim == lu->ndim - 1 && in[1].t->size[lu->ndim - 2] == ROWS(lu), RUSH_RUNTIME_ERROR,
               "Number of pivots per batch should be same as the dimension of the matrix");
    int nd = batch_of(lu, b, size);
    if (nd < 0 || in[3].i) return nd >= 0 && out_batched(out, b, nd, size, ROWS(b), COLS(b)) ? 0 : -1;
    size[nd] = ROWS(b), size[nd + 1] = COLS(b);
    return rush_out_t(out, 0, b, b->dtype, nd + 2, size) ? 0 : -1; /* its transpose lies by columns */
}

static void lu_solve_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = out[0].t, *lu = columns(in[0].t, x);
    bool left = in[3].i, adjoint = in[4].i;
    int k = ROWS(in[0].t), m = ROWS(x), n = COLS(x);
    int64_t size[RUSH_MAXDIM];
    if (!lu || !x->numel) return;
    memcpy(size, x->size, sizeof *size * (x->ndim - 2));
    size[x->ndim - 2] = k;
    rush_tensor *pivots = rush_contiguous_copy(T("expand", in[1], rush_v_ints(size, x->ndim - 1)));
    rush_tensor *b = columns(in[2].t, x);
    bool complex = rush_dtype_is_complex(x->dtype);
    if (b && !left) b = rush_contiguous_copy(complex && adjoint ? T("resolve_conj", V(conj_(b))) : b);
    if (!pivots || !b) return;
    for (int64_t i = 0; i < pivots->numel; ++i) {
        int32_t p = ((const int32_t *)rush_ptr(pivots))[i];
        if (p >= 1 && p <= k) continue;
        rush_fail(RUSH_RUNTIME_ERROR, "Pivots given to lu_solve must all be between 1 and %d, not %d. Did you properly pass the result of lu_factor?", k, p);
        return;
    }
    if (left) memcpy(rush_ptr(x), rush_ptr(b), (size_t)x->numel * rush_dtypes[x->dtype].size);
    /* X A = B: A^T X^T = B^T; X A^H = B: conj(A) X^T = B^T, which is A conj(X)^T = conj(B)^T */
    char trans = left ? (adjoint ? 'C' : 'N') : (adjoint ? 'N' : 'T');
    for (int64_t i = 0; i < rush_batches(x); ++i)
        rush_solve_lu(x->dtype, trans, k, left ? n : m, matrix(lu, i), k, (int32_t *)rush_ptr(pivots) + i * k, left ? matrix(x, i) : matrix(b, i), k);
    if (!left && !rush_failed()) rush_copy_into(x, complex && adjoint ? conj_(b) : b);
}

static void lu_solve_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0], *lu = s->in[0].t, *x = s->out[0].t;
    bool left = s->in[3].i, adjoint = s->in[4].i;
    if (!g) return;
    rush_tensor *gb = T("linalg_lu_solve", V(lu), s->in[1], V(g), V(left), V(!adjoint));
    if (rush_needs(s, 2)) s->gin[2] = rush_sum_to(gb, s->in[2].t);
    if (!rush_needs(s, 0)) return;
    rush_value got[RUSH_MAXOUT];
    if (TN(got, "lu_unpack", V(lu), s->in[1])) return;
    rush_tensor *p = got[0].t, *l = got[1].t, *u = got[2].t;
    /* gradient of A, where A = P L U: of op(A) X = B it is -gB X^H, of X op(A) = B it is -X^H gB */
    rush_tensor *ga = left ? matmul(gb, mH(x)) : matmul(mH(x), gb);
    if (adjoint) ga = mH(ga);
    rush_tensor *gm = neg(matmul(mH(p), ga));
    rush_tensor *glu = add(tril(matmul(gm, mH(u)), -1), triu(matmul(mH(l), gm), 0));
    s->gin[0] = rush_sum_to(glu, lu);
}

static rush_op op_linalg_lu_solve = {
    .schema = "linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False) -> Tensor",
    .doc = "X with A X = B, A given by its packed LU factorisation.",
    .shape = lu_solve_shape, .cpu = lu_solve_cpu, .grad = lu_solve_grad, .saves = "LU, pivots, result",
};

static int lu_solve_old_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_result(out, T("linalg_lu_solve", in[1], in[2], in[0]));
}

static rush_op op_lu_solve = {
    .schema = "lu_solve(Tensor self, Tensor LU_data, Tensor LU_pivots) -> Tensor", .method = RUSH_METHOD,
    .doc = "The older form of linalg_lu_solve.",
    .run = lu_solve_old_run, .flags = RUSH_AUTOCAST_F32,
};

/* NumPy's rule: B is a vector when it is 1-d or has the batch of A without the last size. */
static bool is_vector(const rush_tensor *a, const rush_tensor *b)
{
    return b->ndim == 1 || (a->ndim - 1 == b->ndim && !memcmp(a->size, b->size, sizeof *a->size * b->ndim));
}

static int solve_ex_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *a = in[0].t, *b = in[1].t;
    bool left = in[2].i;
    if (rush_linalg_check(a, "A", true)) return -1;
    bool vector = is_vector(a, b);
    RUSH_CHECK(left || !vector, RUSH_RUNTIME_ERROR, "Vector broadcasting of the left hand side is not supported for left=False. In this case "
                                                    "linalg.solve is equivalent to B / A.squeeze(-1)");
    if (vector) b = unsqueeze(b, -1);
    if (!b || check_pair(a, b, left) || check_dtypes(a, b)) return -1;
    rush_value got[RUSH_MAXOUT];
    if (TN(got, "linalg_lu_factor_ex", V(a)) || (I_(in[3]) && rush_linalg_raise(got[2].t, NO_SOLUTION))) return -1;
    rush_tensor *x = T("linalg_lu_solve", got[0], got[1], V(b), V(left));
    if (vector) x = squeeze(x, -1);
    if (vector && x && x->ndim > 1) x = transpose(T("contiguous", V(transpose(x, -2, -1))), -2, -1); /* as if of one matrix */
    out[0] = rush_v_tensor(x);
    out[1] = got[0];
    out[2] = got[1];
    out[3] = got[2];
    return rush_failed() ? -1 : 0;
}

static rush_op op__linalg_solve_ex = {
    .schema = "_linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor result, Tensor LU, Tensor pivots, Tensor info)",
    .doc = "linalg_solve_ex with the factorisation that was used.",
    .run = solve_ex_run, .flags = RUSH_WHOLE,
};

static int solve_info_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value got[RUSH_MAXOUT];
    if (TN(got, "_linalg_solve_ex", in[0], in[1], in[2], in[3])) return -1;
    out[0] = got[0];
    out[1] = got[3];
    return 0;
}

static rush_op op_linalg_solve_ex = {
    .schema = "linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor result, Tensor info)",
    .doc = "linalg_solve without an error: info is not 0 where a matrix is singular.",
    .run = solve_info_run,
};

static int solve_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value got[RUSH_MAXOUT];
    if (TN(got, "_linalg_solve_ex", in[0], in[1], in[2])) return -1;
    if (rush_linalg_raise(got[3].t, NO_SOLUTION)) return -1;
    return rush_result(out, got[0].t);
}

static rush_op op_linalg_solve = {
    .schema = "linalg_solve(Tensor A, Tensor B, *, bool left=True) -> Tensor", .node = "LinalgSolveExBackward0",
    .doc = "X with A X = B (or X A = B) for square A (*, n, n), by LU; LinAlgError when A is singular.",
    .run = solve_run, .flags = RUSH_AUTOCAST_F32,
};

static int inv_ex_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *a = in[0].t;
    if (rush_linalg_check(a, "A", true)) return -1;
    rush_value got[RUSH_MAXOUT];
    rush_tensor *one = eye_like(a, ROWS(a));
    if (a->ndim > 2) one = T("expand", V(one), rush_v_ints(a->size, a->ndim)); /* a matrix alone may be read as a batch of vectors */
    if (TN(got, "_linalg_solve_ex", V(a), V(one)) || (I_(in[1]) && rush_linalg_raise(got[3].t, NO_INVERSE))) return -1;
    out[0] = got[0];
    out[1] = got[3];
    return 0;
}

static rush_op op_linalg_inv_ex = {
    .schema = "linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)", .node = "LinalgInvExBackward0",
    .doc = "Inverses of square matrices, and LAPACK's info of each.",
    .run = inv_ex_run, .flags = RUSH_WHOLE | RUSH_AUTOCAST_F32,
};

static int inv_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value got[RUSH_MAXOUT];
    if (TN(got, "linalg_inv_ex", in[0])) return -1;
    if (rush_linalg_raise(got[1].t, NO_INVERSE)) return -1;
    return rush_result(out, got[0].t);
}

static int inverse_run(const rush_op *op, const rush_value *in, rush_value *out) { return rush_result(out, T("linalg_inv", in[0])); }

static rush_op op_linalg_inv = {.schema = "linalg_inv(Tensor A) -> Tensor", .node = "LinalgInvExBackward0", .doc = "Inverses of square matrices; LinAlgError when singular.", .run = inv_run, .flags = RUSH_AUTOCAST_F32};
static rush_op op_inverse = {.schema = "inverse(Tensor self) -> Tensor", .method = RUSH_METHOD, .doc = "linalg_inv.", .run = inverse_run, .flags = RUSH_AUTOCAST_F32};

/* ---- by Cholesky ---- */

static int cholesky_solve_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *b = in[0].t, *l = in[1].t;
    bool upper = in[2].i;
    RUSH_CHECK(b->ndim >= 2, RUSH_RUNTIME_ERROR, "b should have at least 2 dimensions, but has %d dimensions instead", b->ndim);
    RUSH_CHECK(l->ndim >= 2, RUSH_RUNTIME_ERROR, "u should have at least 2 dimensions, but has %d dimensions instead", l->ndim);
    if (check_dtypes(l, b)) return -1;
    rush_tensor *y = T("linalg_solve_triangular", V(upper ? mH(l) : l), V(b), V(false));
    return rush_result(out, y ? T("linalg_solve_triangular", V(upper ? l : mH(l)), V(y), V(true)) : NULL);
}

/* The factor is differentiated as a full matrix L in A = L L^H, as PyTorch does. */
static rush_tensor *factor_grad(rush_tensor *ga, rush_tensor *l, bool upper)
{
    rush_tensor *both = add(ga, mH(ga));
    return neg(upper ? matmul(l, both) : matmul(both, l));
}

static void cholesky_solve_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0], *l = s->in[1].t, *x = s->out[0].t;
    if (!g) return;
    rush_tensor *gb = T("cholesky_solve", V(g), V(l), s->in[2]);
    if (rush_needs(s, 0)) s->gin[0] = rush_sum_to(gb, s->in[0].t);
    if (rush_needs(s, 1)) s->gin[1] = rush_sum_to(factor_grad(matmul(gb, mH(x)), l, s->in[2].i), l);
}

static void cholesky_inverse_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0], *l = s->in[0].t, *inv = s->out[0].t;
    if (!g) return;
    s->gin[0] = factor_grad(matmul(matmul(inv, g), inv), l, s->in[1].i);
}

static rush_op op_cholesky_solve = {
    .schema = "cholesky_solve(Tensor self, Tensor input2, bool upper=False) -> Tensor", .method = RUSH_METHOD,
    .doc = "X with A X = self, A = L L^H given by its Cholesky factor input2.",
    .run = cholesky_solve_run, .grad = cholesky_solve_grad, .saves = "input2, result", .flags = RUSH_OUT_CASTS | RUSH_AUTOCAST_F32,
};

static int cholesky_inverse_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *l = in[0].t;
    if (rush_linalg_check(l, "A", true)) return -1;
    rush_tensor *zeros = eq(T("diagonal", V(l), V(0), V(-2), V(-1)), 0), *first = ROWS(l) ? T("argmax", V(to_dtype(zeros, RUSH_I32)), V(-1)) : NULL;
    rush_tensor *info = first ? mul(add(first, 1), T("any.dim", V(zeros), V(-1))) : NULL; /* which element is zero, from 1 on */
    if (info && rush_linalg_raise(to_dtype(info, RUSH_I32), NO_INVERSE)) return -1;
    rush_tensor *one = eye_like(l, ROWS(l));
    return rush_result(out, one ? T("cholesky_solve", V(one), V(l), in[1]) : NULL);
}

static rush_op op_cholesky_inverse = {
    .schema = "cholesky_inverse(Tensor self, bool upper=False) -> Tensor", .method = RUSH_METHOD,
    .doc = "The inverse of A = L L^H from its Cholesky factor.",
    .run = cholesky_inverse_run, .grad = cholesky_inverse_grad, .saves = "self, result", .flags = RUSH_OUT_CASTS | RUSH_AUTOCAST_F32,
};

/* ---- determinants ---- */

/* The sign of the permutation that pivots make: (*) of A's dtype. */
static rush_tensor *permutation_sign(rush_tensor *pivots, rush_dtype dtype)
{
    int64_t n = pivots->size[pivots->ndim - 1];
    if (!n) return T("ones", rush_v_ints(pivots->size, pivots->ndim - 1), rush_v_dtype(dtype), ON(pivots)); /* of as many empty matrices as there may be */
    rush_tensor *places = T("arange.start", V(1), V(n + 1), rush_v_dtype(RUSH_I32), ON(pivots));
    rush_tensor *moved = sum_dim(ne(pivots, places), -1, false);
    return moved ? to_dtype(sub(1, mul(T("remainder.Scalar", V(moved), V(2)), 2)), dtype) : NULL;
}

static int det_values(const rush_value *in, rush_value *lu, rush_tensor **sign, rush_tensor **diag)
{
    rush_tensor *a = in[0].t;
    if (rush_linalg_check(a, "A", true) || TN(lu, "linalg_lu_factor_ex", V(a))) return -1;
    *sign = permutation_sign(lu[1].t, a->dtype);
    *diag = diagonal(lu[0].t);
    return rush_failed() ? -1 : 0;
}

static int det_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value lu[RUSH_MAXOUT];
    rush_tensor *sign, *diag;
    if (det_values(in, lu, &sign, &diag)) return -1;
    out[0] = rush_v_tensor(mul(sign, T("prod.dim_int", V(diag), V(-1))));
    out[1] = lu[0];
    out[2] = lu[1];
    return rush_failed() ? -1 : 0;
}

/* A^-H times g, A by its LU; zero pivots are nudged so that a singular matrix gets its finite gradient. */
static rush_tensor *times_inverse(rush_tensor *lu, rush_tensor *pivots, rush_tensor *g)
{
    int64_t n = ROWS(lu);
    rush_tensor *eye = T("eye", V(n), rush_v_dtype(lu->dtype), ON(lu));
    rush_tensor *rhs = mul(unsqueeze(unsqueeze(g, -1), -1), eye);
    return rhs ? T("linalg_lu_solve", V(lu), V(pivots), V(rhs), V(true), V(true)) : NULL;
}

static void det_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0], *det = s->out[0].t, *lu = s->out[1].t;
    if (!g || !det) return;
    if (rush_grad_enabled()) { /* for second derivatives everything must depend on A again */
        rush_value again[RUSH_MAXOUT];
        if (TN(again, "linalg_lu_factor_ex", s->in[0])) return;
        s->gin[0] = times_inverse(again[0].t, again[1].t, mul(g, conj_(det)));
        return;
    }
    /* cofactors stay finite: det with the zero pivots replaced by eps, times the inverse with the same replaced */
    double eps = rush_dtypes[rush_dtype_real(lu->dtype)].eps;
    rush_tensor *diag = diagonal(lu), *small = lt(abs_(diag), eps * eps);
    if (!small) return;
    rush_tensor *any = T("any", V(small));
    if (any && rush_number_of(any)) {
        rush_tensor *fixed = add(lu, diag_embed(where(small, to_dtype(T("full_like", V(diag), V(eps)), lu->dtype), rush_zeros_like(diag))));
        det = mul(permutation_sign(s->out[2].t, lu->dtype), T("prod.dim_int", V(diagonal(fixed)), V(-1)));
        lu = fixed;
    }
    s->gin[0] = times_inverse(lu, s->out[2].t, mul(g, conj_(det)));
}

static rush_op op__linalg_det = {
    .schema = "_linalg_det(Tensor A) -> (Tensor result, Tensor LU, Tensor pivots)",
    .doc = "Determinants by LU.",
    .run = det_run, .grad = det_grad, .saves = "A, result0, result1, result2",
};

static int linalg_det_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value got[RUSH_MAXOUT];
    return TN(got, "_linalg_det", in[0]) ? -1 : rush_result(out, got[0].t);
}

static rush_op op_linalg_det = {.schema = "linalg_det(Tensor A) -> Tensor", .doc = "Determinants of square matrices.", .run = linalg_det_run};
static rush_op op_det = {.schema = "det(Tensor self) -> Tensor", .method = RUSH_METHOD, .doc = "linalg_det.", .run = linalg_det_run};

static int slogdet_values_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value lu[RUSH_MAXOUT];
    rush_tensor *sign, *diag;
    if (det_values(in, lu, &sign, &diag)) return -1;
    out[0] = rush_v_tensor(mul(sign, T("prod.dim_int", V(sgn(diag)), V(-1))));
    out[1] = rush_v_tensor(sum_dim(log_(abs_(diag)), -1, false));
    out[2] = lu[0];
    out[3] = lu[1];
    return rush_failed() ? -1 : 0;
}

static void slogdet_grad(rush_grads *s)
{
    rush_tensor *gs = s->g[0], *gl = s->g[1], *sign = s->out[0].t, *a = s->in[0].t;
    bool complex = rush_dtype_is_complex(a->dtype);
    rush_value lu[RUSH_MAXOUT] = {s->out[2], s->out[3]};
    rush_tensor *g = gl ? to_dtype(gl, a->dtype) : NULL;
    if (gs && complex) { /* sign = exp(i theta): only the imaginary part of conj(sign) gs moves it */
        rush_tensor *x = mul(conj_(sign), gs);
        x = T("complex", V(rush_zeros_like(T("real", V(x)))), V(T("imag", V(x))));
        g = g ? add(g, x) : x;
    }
    if (!g) return;
    if (rush_grad_enabled() && TN(lu, "linalg_lu_factor_ex", V(a))) return;
    s->gin[0] = times_inverse(lu[0].t, lu[1].t, g);
}

static rush_op op__linalg_slogdet = {
    .schema = "_linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet, Tensor LU, Tensor pivots)",
    .doc = "Sign and logarithm of the absolute determinant, by LU.",
    .run = slogdet_values_run, .grad = slogdet_grad, .saves = "A, result0, result2, result3",
};

static int slogdet_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value got[RUSH_MAXOUT];
    if (TN(got, "_linalg_slogdet", in[0])) return -1;
    out[0] = got[0];
    out[1] = got[1];
    return 0;
}

static rush_op op_linalg_slogdet = {
    .schema = "linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet)",
    .doc = "Sign and natural logarithm of the absolute value of determinants.",
    .run = slogdet_run,
};
static rush_op op_slogdet = {.schema = "slogdet(Tensor self) -> (Tensor sign, Tensor logabsdet)", .method = RUSH_METHOD, .doc = "linalg_slogdet.", .run = slogdet_run};

static int logdet_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value got[RUSH_MAXOUT];
    if (TN(got, "_linalg_slogdet", in[0])) return -1;
    if (rush_dtype_is_complex(in[0].t->dtype)) return rush_result(out, add(log_(got[0].t), got[1].t));
    return rush_result(out, where(eq(got[0].t, -1.0), NAN, got[1].t));
}

static rush_op op_logdet = {.schema = "logdet(Tensor self) -> Tensor", .method = RUSH_METHOD, .doc = "Logarithm of determinants; NaN where negative.", .run = logdet_run};

/* ---- least squares ---- */

static int lstsq_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *a = in[0].t, *b = in[1].t;
    if (rush_linalg_check(a, "input", false)) return -1;
    RUSH_CHECK(b->dtype == a->dtype, RUSH_RUNTIME_ERROR, "Expected input and other to have the same dtype, but got input's dtype %s and other's dtype %s",
               rush_dtype_name(a->dtype), rush_dtype_name(b->dtype));
    RUSH_CHECK(b->ndim >= 1, RUSH_RUNTIME_ERROR, "other must have at least 1 dimension.");
    if (in[3].kind == RUSH_V_STRING) {
        static const char *const known[] = {"gels", "gelsy", "gelsd", "gelss"};
        bool found = false;
        for (size_t k = 0; k < RUSH_COUNT(known); ++k) found |= !strcmp(in[3].s, known[k]);
        RUSH_CHECK(found, RUSH_RUNTIME_ERROR, "parameter `driver` should be one of (gels, gelsy, gelsd, gelss)");
    }
    bool vector = is_vector(a, b);
    RUSH_CHECK(vector || b->ndim >= 2, RUSH_RUNTIME_ERROR, "input.dim() must be greater or equal to other.dim() and (input.dim() - other.dim()) <= 1");
    int64_t m = ROWS(a), n = COLS(a), k = vector ? 1 : COLS(b), rows = vector ? b->size[b->ndim - 1] : ROWS(b), size[RUSH_MAXDIM];
    RUSH_CHECK(rows == m, RUSH_RUNTIME_ERROR, "input.size(-2) should match other.size(%d)", vector ? -1 : -2);
    int nd;
    if (rush_broadcast_sizes(a->ndim - 2, a->size, b->ndim - (vector ? 1 : 2), b->size, &nd, size)) return -1;
    rush_tensor *x = out_batched(out, a, nd, size, n, k);
    if (!x) return -1;
    if (vector) {
        rush_tensor *flat = rush_tensor_alias(x, x->ndim - 1, x->size, x->stride, 0);
        if (!flat) return -1;
        out[0] = rush_v_tensor(flat);
    }
    int64_t none = 0;
    const char *driver = in[3].kind == RUSH_V_STRING ? in[3].s : "gelsy";
    bool ranked = strcmp(driver, "gels"), values = !strcmp(driver, "gelsd") || !strcmp(driver, "gelss");
    int batch = a->ndim - 2;
    size[nd] = k;
    bool residuals = m > n && strcmp(driver, "gelsy");
    out[1] = rush_v_tensor(residuals ? rush_tensor_new(rush_dtype_real(a->dtype), a->device, nd + !vector, size)
                                     : rush_tensor_new(rush_dtype_real(a->dtype), a->device, 1, &none));
    out[2] = rush_v_tensor(ranked ? rush_tensor_new(RUSH_I64, a->device, batch, a->size) : rush_tensor_new(RUSH_I64, a->device, 1, &none));
    size[0] = 0;
    if (values) {
        memcpy(size, a->size, sizeof *size * batch);
        size[batch] = RUSH_MIN(m, n);
    }
    out[3] = rush_v_tensor(rush_tensor_new(rush_dtype_real(a->dtype), a->device, values ? batch + 1 : 1, size));
    return rush_failed() ? -1 : 0;
}

static void lstsq_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *a = in[0].t, *b = in[1].t, *x = out[0].t;
    const char *driver = in[3].kind == RUSH_V_STRING ? in[3].s : "gelsy";
    bool vector = is_vector(a, b);
    int m = ROWS(a), n = COLS(a), wide = RUSH_MAX(m, n), small = RUSH_MIN(m, n);
    if (vector) b = unsqueeze(b, -1), x = unsqueeze(x, -1);
    if (!b || !x) return;
    int k = COLS(x);
    double rcond = in[2].kind == RUSH_V_FLOAT ? in[2].f : rush_dtypes[rush_dtype_real(a->dtype)].eps * wide;
    size_t item = rush_dtypes[a->dtype].size, real = rush_dtypes[rush_dtype_real(a->dtype)].size;
    rush_tensor *all_a = columns(a, x), *all_b = columns(b, x);
    char *rhs = rush_calloc((size_t)wide * RUSH_MAX(k, 1), item), *s = rush_calloc(RUSH_MAX(small, 1), real);
    int32_t *pivots = rush_calloc(RUSH_MAX(n, 1), sizeof *pivots);
    int64_t batches = rush_batches(x), own = rush_batches(a), none = 0;
    bool full = true; /* every rank */
    bool values = strcmp(driver, "gels") && strcmp(driver, "gelsy"); /* by singular values, whose search may not end with an inf or a NaN */
    if (values && all_a && all_b && !(rush_all_finite(all_a) && rush_all_finite(all_b)))
        rush_fail(RUSH_LINALG_ERROR, "The least squares solution could not be computed because the input contained non-finite values.");
    for (int64_t i = 0; rhs && s && pivots && all_a && all_b && !rush_failed() && i < batches; ++i) {
        int32_t rank = 0;
        memset(rhs, 0, (size_t)wide * k * item);
        for (int j = 0; j < k && m; ++j) memcpy(rhs + (size_t)j * wide * item, matrix(all_b, i) + (size_t)j * m * item, (size_t)m * item);
        if (m && n && k) {
            int info;
            if (!strcmp(driver, "gels")) {
                info = rush_gels(a->dtype, m, n, k, matrix(all_a, i), m, rhs, wide);
            } else if (!strcmp(driver, "gelsy")) {
                memset(pivots, 0, sizeof *pivots * (size_t)n);
                info = rush_gelsy(a->dtype, m, n, k, matrix(all_a, i), m, rhs, wide, pivots, rcond, &rank);
            } else {
                info = rush_gelsd(a->dtype, m, n, k, matrix(all_a, i), m, rhs, wide, s, rcond, &rank);
            }
            if (info > 0)
                rush_fail(RUSH_LINALG_ERROR, "The least squares solution could not be computed because %s (error code: %d).",
                          values ? "the algorithm failed to converge" : "the input matrix does not have full rank", info);
            if (info) break;
        }
        for (int j = 0; j < k && n; ++j) memcpy(matrix(x, i) + (size_t)j * n * item, rhs + (size_t)j * wide * item, (size_t)n * item);
        for (int j = 0; out[1].t->numel && j < k; ++j) { /* what is left of b beyond its first n rows */
            double sum = 0;
            const void *rest = rhs + ((size_t)j * wide + n) * item;
            for (int64_t r = 0; r < (m - n) * (int64_t)(item / real); ++r) {
                double part = real == 4 ? (double)((const float *)rest)[r] : ((const double *)rest)[r];
                sum += part * part;
            }
            rush_convert((char *)rush_ptr(out[1].t) + ((size_t)i * k + j) * real, out[1].t->dtype, 0, &sum, RUSH_F64, 0, 1);
        }
        full &= !values || rank == n;
        if (i < own && out[2].t->numel > i) ((int64_t *)rush_ptr(out[2].t))[i] = rank;
        if (i < own && out[3].t->numel) memcpy((char *)rush_ptr(out[3].t) + (size_t)i * small * real, s, (size_t)small * real);
    }
    rush_free(rhs);
    rush_free(s);
    rush_free(pivots);
    if (!full && !rush_failed()) rush_tensor_resize(out[1].t, 1, &none); /* no residuals then, as PyTorch has it */
}

static void lstsq_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0], *gr = s->g[1], *a = s->in[0].t, *b = s->in[1].t, *x = s->out[0].t;
    if (!g && (!gr || !gr->numel)) return;
    bool vector = is_vector(a, b);
    if (vector) b = unsqueeze(b, -1), x = unsqueeze(x, -1);
    if (vector && g) g = unsqueeze(g, -1);
    if (gr && gr->numel) { /* |A X - B|^2 by A and B alone: it is least, so X has no part in it */
        if (vector) gr = unsqueeze(gr, -1);
        rush_tensor *rest = mul(mul(sub(matmul(a, x), b), 2), unsqueeze(gr, -2));
        if (rush_needs(s, 0)) s->gin[0] = rush_sum_to(matmul(rest, mH(x)), a);
        if (rush_needs(s, 1)) s->gin[1] = rush_sum_to(neg(vector ? squeeze(rest, -1) : rest), s->in[1].t);
    }
    if (!g) return;
    /* X = pinv(A) B */
    bool was = rush_grad_enabled_set(true);
    rush_tensor *leaf = was ? a : rush_requires_grad_set(rush_tensor_detach(a), true);
    rush_tensor *p = leaf ? T("linalg_pinv", V(leaf), V(1e-15)) : NULL;
    rush_grad_enabled_set(was);
    if (!p) return;
    if (rush_needs(s, 1)) {
        rush_tensor *gb = matmul(mH(p), g);
        gb = rush_sum_to(vector ? squeeze(gb, -1) : gb, s->in[1].t);
        s->gin[1] = s->gin[1] ? add(s->gin[1], gb) : gb;
    }
    if (rush_needs(s, 0)) {
        rush_tensor *gp = rush_sum_to(matmul(g, mH(b)), p), *ga = NULL;
        if (gp && !rush_grad_of(1, &p, &gp, 1, &leaf, &ga, true, was, false)) s->gin[0] = s->gin[0] ? add(s->gin[0], ga) : ga;
    }
}

static rush_op op_linalg_lstsq = {
    .schema = "linalg_lstsq(Tensor self, Tensor b, float? rcond=None, *, str? driver=None) -> (Tensor solution, Tensor residuals, Tensor rank, Tensor singular_values)",
    .doc = "Least squares: X that makes self X - b smallest, of minimal norm; by singular values.",
    .shape = lstsq_shape, .cpu = lstsq_cpu, .grad = lstsq_grad, .saves = "self, b, result0", .flags = RUSH_OUT_CASTS | RUSH_LAST_PLAIN | RUSH_AUTOCAST_F32,
};

RUSH_FAMILY(solve, &op_linalg_solve_triangular, &op_triangular_solve, &op_linalg_lu_solve, &op_lu_solve, &op__linalg_solve_ex, &op_linalg_solve_ex,
            &op_linalg_solve, &op_linalg_inv_ex, &op_linalg_inv, &op_inverse, &op_cholesky_solve, &op_cholesky_inverse, &op__linalg_det,
            &op_linalg_det, &op_det, &op__linalg_slogdet, &op_linalg_slogdet, &op_slogdet, &op_logdet, &op_linalg_lstsq)
