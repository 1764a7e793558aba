/* factor.c - matrix factorisations: Cholesky, LU, QR, LDL (eigenvalues: spectral.c); by LAPACK, over batches.
 *
 * A shape rule makes the results column-major (that is what LAPACK writes, and what PyTorch returns); a kernel copies its
 * argument there and factorises matrix by matrix. The derivatives follow M. Giles, "An extended collection of matrix
 * derivative results for forward and reverse mode algorithmic differentiation" (2008), and their complex forms.
 */
#include "kernels/lapack/lapack.h"
#include "op/formula.h"
#include "ops/linalg/linalg.h"

/* ---- checks and results ---- */

int rush_linalg_check(const rush_tensor *a, const char *name, bool square)
{
    RUSH_CHECK(rush_dtypes[a->dtype].category >= 2, RUSH_RUNTIME_ERROR, "Expected a floating point or complex tensor as input. Got %s",
               rush_dtype_name(a->dtype));
    RUSH_CHECK(a->dtype == RUSH_F32 || a->dtype == RUSH_F64 || a->dtype == RUSH_C64 || a->dtype == RUSH_C128, RUSH_RUNTIME_ERROR,
               "Low precision dtypes not supported. Got %s", rush_dtype_name(a->dtype));
    RUSH_CHECK(a->ndim >= 2, RUSH_RUNTIME_ERROR, "The input tensor %s must have at least 2 dimensions.", name);
    RUSH_CHECK(!square || a->size[a->ndim - 1] == a->size[a->ndim - 2], RUSH_RUNTIME_ERROR,
               "%s must be batches of square matrices, but they are %lld by %lld matrices", name, (long long)a->size[a->ndim - 2],
               (long long)a->size[a->ndim - 1]);
    return 0;
}

rush_tensor *rush_out_matrix(rush_value *out, int i, const rush_tensor *like, rush_dtype dtype, int64_t m, int64_t n)
{
    int64_t size[RUSH_MAXDIM], stride[RUSH_MAXDIM];
    int nd = like->ndim;
    memcpy(size, like->size, sizeof *size * nd);
    size[nd - 2] = m;
    size[nd - 1] = n;
    rush_strides_for(RUSH_CONTIGUOUS, nd, size, stride);
    stride[nd - 2] = 1;
    stride[nd - 1] = RUSH_MAX(m, 1);
    rush_tensor *t = rush_tensor_new_strided(dtype, like->device, nd, size, stride);
    if (t) out[i] = rush_v_tensor(t);
    return t;
}

rush_tensor *rush_out_batch(rush_value *out, int i, const rush_tensor *like, rush_dtype dtype, int64_t n)
{
    int64_t size[RUSH_MAXDIM];
    memcpy(size, like->size, sizeof *size * like->ndim);
    int nd = like->ndim - 2;
    if (n >= 0) size[nd++] = n;
    rush_tensor *t = rush_tensor_new(dtype, like->device, nd, size);
    if (t) out[i] = rush_v_tensor(t);
    return t;
}

int64_t rush_batches(const rush_tensor *a)
{
    int64_t n = 1;
    for (int d = 0; d < a->ndim - 2; ++d) n *= a->size[d];
    return n;
}

/* ---- Cholesky ---- */

static int cholesky_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *a = in[0].t;
    if (rush_linalg_check(a, "A", true)) return -1;
    return rush_out_matrix(out, 0, a, a->dtype, ROWS(a), COLS(a)) && rush_out_batch(out, 1, a, RUSH_I32, -1) ? 0 : -1;
}

static void cholesky_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *l = out[0].t;
    bool upper = in[1].i;
    int n = ROWS(l);
    if (rush_copy_into(l, in[0].t)) return;
    for (int64_t b = 0; b < rush_batches(l); ++b) {
        char *a = matrix(l, b);
        int info = n ? rush_potrf(l->dtype, upper, n, a, n) : 0;
        if (info < 0) return;
        ((int32_t *)rush_ptr(out[1].t))[b] = info;
        size_t item = BYTES(l);
        for (int j = 0; j < n; ++j) /* the other triangle still holds A */
            if (upper) memset(a + ((size_t)j * n + j + 1) * item, 0, (size_t)(n - j - 1) * item);
            else memset(a + (size_t)j * n * item, 0, (size_t)j * item);
    }
    if (in[2].i) rush_linalg_raise(out[1].t, NOT_POSITIVE);
}

#define solve_tri(a, b, upper, left) T("linalg_solve_triangular", V(a), V(b), V((bool)(upper)), V((bool)(left)), V(false))
#define solve_tri_unit(a, b, upper, left) T("linalg_solve_triangular", V(a), V(b), V((bool)(upper)), V((bool)(left)), V(true))

static void cholesky_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0], *l = s->out[0].t;
    if (!g) return;
    if (s->in[1].i) g = mH(g), l = mH(l);
    rush_tensor *p = matmul(mH(l), g);
    rush_tensor *x = solve_tri(mH(l), add(tril(p, 0), mH(tril(p, -1))), true, true);
    s->gin[0] = mul(solve_tri(l, x, false, false), 0.5);
}

static rush_op op_linalg_cholesky_ex = {
    .schema = "linalg_cholesky_ex(Tensor self, *, bool upper=False, bool check_errors=False) -> (Tensor L, Tensor info)",
    .doc = "Cholesky factor of Hermitian positive-definite matrices (*, n, n); info is 0 or the order of the minor that is not positive.",
    .shape = cholesky_shape, .cpu = cholesky_cpu, .grad = cholesky_grad, .saves = "result", .flags = RUSH_AUTOCAST_F32,
};

/* The first matrix of a batch whose info is not 0: its number, or -1. */
static int failure_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(in[0].t->dtype == RUSH_I32, RUSH_RUNTIME_ERROR, "info must be int32");
    return 0;
}

static void failure_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *info = rush_contiguous_copy(in[0].t);
    if (!info) return;
    const int32_t *p = rush_ptr(info);
    int64_t b = 0;
    while (b < info->numel && !p[b]) ++b;
    out[0] = rush_v_int(b < info->numel ? b : -1);
    out[1] = rush_v_int(b < info->numel ? p[b] : 0);
}

static rush_op op_failure = {
    .schema = "_linalg_first_failure(Tensor info) -> (int, int)", .doc = "Which matrix of a batch failed first (-1: none), and its info.",
    .shape = failure_shape, .cpu = failure_cpu, .flags = RUSH_NO_GRAD | RUSH_DATA_SIZED | RUSH_HIDDEN,
};

int rush_linalg_raise(const rush_tensor *info, linalg_failure how)
{
    static const struct { int kind; const char *text; } failures[] = {
        [NOT_POSITIVE] = {RUSH_LINALG_ERROR, "The factorization could not be completed because the input is not positive-definite "
                                             "(the leading minor of order %d is not positive-definite)."},
        [NO_LU] = {RUSH_RUNTIME_ERROR, "U[%1$d,%1$d] is zero and using it on lu_solve would result in a division by zero. If you still want to "
                                       "perform the factorization, consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)"},
        [NO_LDL] = {RUSH_RUNTIME_ERROR, "The factorization is singular at diagonal element %d."},
        [NO_SOLUTION] = {RUSH_LINALG_ERROR, "The solver failed because the input matrix is singular."},
        [NO_INVERSE] = {RUSH_LINALG_ERROR, "The diagonal element %d is zero, the inversion could not be completed because the input matrix is singular."},
    };
    rush_value failure[2];
    if (!info || info->device.type == RUSH_META) return rush_failed() ? -1 : 0;
    if (TN(failure, "_linalg_first_failure", V((rush_tensor *)info))) return -1;
    int64_t b = failure[0].i;
    int what = (int)failure[1].i;
    if (b < 0) return 0;
    char batch[48] = "", text[512];
    if (info->ndim) snprintf(batch, sizeof batch, "(Batch element %lld): ", (long long)b);
    snprintf(text, sizeof text, failures[how].text, what);
    return rush_fail(failures[how].kind, "%s%s", batch, text);
}

static int cholesky_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value got[RUSH_MAXOUT];
    if (TN(got, "linalg_cholesky_ex", in[0], in[1], V(false))) return -1;
    if (rush_linalg_raise(got[1].t, NOT_POSITIVE)) return -1;
    return rush_result(out, got[0].t);
}

static rush_op op_linalg_cholesky = {
    .schema = "linalg_cholesky(Tensor self, *, bool upper=False) -> Tensor",
    .doc = "Cholesky factor L (or its conjugate transpose) of Hermitian positive-definite matrices; LinAlgError when they are not.",
    .run = cholesky_run, .flags = RUSH_AUTOCAST_F32,
};
static rush_op op_cholesky = {
    .schema = "cholesky(Tensor self, bool upper=False) -> Tensor", .method = RUSH_METHOD, .node = "CholeskyBackward0",
    .doc = "The older name of linalg_cholesky.",
    .run = cholesky_run, .flags = RUSH_OUT_CASTS | RUSH_WHOLE | RUSH_AUTOCAST_F32,
};

/* ---- LU ---- */

static int lu_factor_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *a = in[0].t;
    if (rush_linalg_check(a, "A", false)) return -1;
    RUSH_CHECK(in[1].i, RUSH_RUNTIME_ERROR, "LU without pivoting is not implemented on the CPU");
    return rush_out_matrix(out, 0, a, a->dtype, ROWS(a), COLS(a)) && rush_out_batch(out, 1, a, RUSH_I32, RUSH_MIN(ROWS(a), COLS(a))) &&
                   rush_out_batch(out, 2, a, RUSH_I32, -1) ? 0 : -1;
}

static void lu_factor_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *lu = out[0].t;
    int m = ROWS(lu), n = COLS(lu);
    if (rush_copy_into(lu, in[0].t)) return;
    for (int64_t b = 0; b < rush_batches(lu); ++b) {
        int info = m && n ? rush_lu(lu->dtype, m, n, matrix(lu, b), m, (int32_t *)(void *)batch_row(out[1].t, b, RUSH_MIN(m, n))) : 0;
        if (info < 0) return;
        ((int32_t *)rush_ptr(out[2].t))[b] = info;
    }
    if (in[2].i) rush_linalg_raise(out[2].t, NO_LU);
}

/* The gradient of P^T A = L U by A, times P; gl and gu may be NULL. See the header of this file for the derivation. */
static rush_tensor *lu_backward(rush_tensor *gl, rush_tensor *gu, rush_tensor *p, rush_tensor *l, rush_tensor *u)
{
    if (!l || !u) return NULL;
    int64_t m = l->size[l->ndim - 2], n = u->size[u->ndim - 1], k = RUSH_MIN(m, n);
    if (!gl) gl = rush_zeros_like(l);
    if (!gu) gu = rush_zeros_like(u);
    rush_tensor *l1 = m > k ? part(l, -2, 0, k) : l, *u1 = n > k ? part(u, -1, 0, k) : u;
    rush_tensor *gl1 = m > k ? part(gl, -2, 0, k) : gl, *gu1 = n > k ? part(gu, -1, 0, k) : gu, *rest = NULL;
    if (n > k) { /* wide: U2 = L^-1 A2 */
        rest = solve_tri_unit(mH(l1), part(gu, -1, k, n - k), true, true);
        gl1 = sub(gl1, tril(matmul(rest, mH(part(u, -1, k, n - k))), -1));
    } else if (m > k) { /* tall: L2 = A2 U^-1 */
        rest = solve_tri(mH(u1), part(gl, -2, k, m - k), false, false);
        gu1 = sub(gu1, triu(matmul(mH(part(l, -2, k, m - k)), rest), 0));
    }
    rush_tensor *inner = add(tril(matmul(mH(l1), gl1), -1), triu(matmul(gu1, mH(u1)), 0));
    rush_tensor *ga = solve_tri(mH(u1), solve_tri_unit(mH(l1), inner, true, true), false, false);
    if (rest && ga) ga = T("cat", rush_v_tensors((rush_tensor *[]){ga, rest}, 2), V(n > k ? -1 : -2));
    return p ? matmul(p, ga) : ga;
}

static void lu_factor_grad(rush_grads *s)
{
    if (!s->g[0]) return;
    rush_value got[RUSH_MAXOUT];
    if (TN(got, "lu_unpack", s->out[0], s->out[1])) return;
    rush_tensor *lu = s->out[0].t;
    int64_t m = ROWS(lu), n = COLS(lu), k = RUSH_MIN(m, n);
    rush_tensor *gl = tril(n > k ? part(s->g[0], -1, 0, k) : s->g[0], -1), *gu = triu(m > k ? part(s->g[0], -2, 0, k) : s->g[0], 0);
    s->gin[0] = lu_backward(gl, gu, got[0].t, got[1].t, got[2].t);
}

static rush_op op_linalg_lu_factor_ex = {
    .schema = "linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) -> (Tensor LU, Tensor pivots, Tensor info)",
    .doc = "LU factorisation with partial pivoting of matrices (*, m, n), packed; pivots are 1-based row exchanges, as LAPACK's.",
    .shape = lu_factor_shape, .cpu = lu_factor_cpu, .grad = lu_factor_grad, .saves = "result0, result1",
};

static int lu_factor_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value got[RUSH_MAXOUT];
    if (TN(got, "linalg_lu_factor_ex", in[0], in[1], V(false))) return -1;
    if (rush_linalg_raise(got[2].t, NO_LU)) return -1;
    out[0] = got[0];
    out[1] = got[1];
    return 0;
}

static rush_op op_linalg_lu_factor = {
    .schema = "linalg_lu_factor(Tensor A, *, bool pivot=True) -> (Tensor LU, Tensor pivots)",
    .doc = "linalg_lu_factor_ex, with an error for singular matrices.",
    .run = lu_factor_run,
};

static int lu_with_info_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return TN(out, "linalg_lu_factor_ex", in[0], in[1], V(false));
}

static rush_op op__lu_with_info = {
    .schema = "_lu_with_info(Tensor self, bool pivot=True, bool check_errors=True) -> (Tensor LU, Tensor pivots, Tensor info)",
    .doc = "What torch.lu is made of.",
    .run = lu_with_info_run, .flags = RUSH_AUTOCAST_F32,
};

/* Row exchanges to a permutation matrix. */
static int permutation_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *p = in[0].t;
    RUSH_CHECK(p->dtype == RUSH_I32, RUSH_RUNTIME_ERROR, "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype");
    RUSH_CHECK(p->ndim > 0 && p->ndim < RUSH_MAXDIM, RUSH_RUNTIME_ERROR, "torch.lu_unpack: Expected LU_pivots to have at least one dimension");
    RUSH_CHECK(in[1].i >= 0 && p->size[p->ndim - 1] <= in[1].i, RUSH_RUNTIME_ERROR, "torch.lu_unpack: %lld row exchanges do not fit %lld rows",
               (long long)p->size[p->ndim - 1], (long long)in[1].i);
    int64_t size[RUSH_MAXDIM];
    memcpy(size, p->size, sizeof *size * p->ndim);
    size[p->ndim - 1] = in[1].i;
    size[p->ndim] = in[1].i;
    return rush_out(out, 0, (rush_dtype)in[2].i, p->device, p->ndim + 1, size) ? 0 : -1;
}

static void permutation_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *piv = rush_contiguous_copy(in[0].t), *p = out[0].t;
    int64_t k = in[0].t->size[in[0].t->ndim - 1], m = in[1].i, batches = p->numel ? p->numel / (m * m) : 0;
    int64_t *order = rush_malloc(sizeof *order * RUSH_MAX(m, 1));
    if (!piv || !order) return rush_free(order);
    rush_clear(p);
    for (int64_t b = 0; b < batches; ++b) {
        const int32_t *x = (const int32_t *)rush_ptr(piv) + b * k;
        for (int64_t i = 0; i < m; ++i) order[i] = i;
        for (int64_t i = 0; i < k; ++i) {
            int64_t j = (int64_t)x[i] - 1;
            if (j < 0 || j >= m) {
                rush_fail(RUSH_RUNTIME_ERROR, "pivots must be between 1 and %lld, got %d", (long long)m, x[i]);
                break;
            }
            int64_t swap = order[i];
            order[i] = order[j];
            order[j] = swap;
        }
        double one = 1;
        for (int64_t i = 0; i < m; ++i) rush_convert((char *)rush_ptr(p) + ((b * m + order[i]) * m + i) * BYTES(p), p->dtype, 0, &one, RUSH_F64, 0, 1);
    }
    rush_free(order);
}

static rush_op op__pivots_to_permutation = {
    .schema = "_pivots_to_permutation(Tensor pivots, int m, ScalarType dtype) -> Tensor",
    .doc = "The permutation matrices (*, m, m) of LAPACK's row exchanges.",
    .shape = permutation_shape, .cpu = permutation_cpu, .flags = RUSH_NO_GRAD | RUSH_HIDDEN,
};

static int lu_unpack_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *lu = in[0].t;
    if (rush_linalg_check(lu, "LU", false)) return -1;
    int64_t m = ROWS(lu), n = COLS(lu), k = RUSH_MIN(m, n);
    bool data = in[2].i, pivots = in[3].i;
    int64_t none = 0;
    out[0] = rush_v_tensor(pivots ? T("_pivots_to_permutation", in[1], V(m), rush_v_dtype(lu->dtype))
                                  : rush_tensor_new(lu->dtype, lu->device, 1, &none));
    if (data) {
        out[1] = rush_v_tensor(add(tril(n > k ? part(lu, -1, 0, k) : lu, -1), T("eye.m", V(m), V(k), rush_v_dtype(lu->dtype), ON(lu))));
        out[2] = rush_v_tensor(triu(m > k ? part(lu, -2, 0, k) : lu, 0));
    } else {
        out[1] = rush_v_tensor(rush_tensor_new(lu->dtype, lu->device, 1, &none));
        out[2] = rush_v_tensor(rush_tensor_new(lu->dtype, lu->device, 1, &none));
    }
    return rush_failed() ? -1 : 0;
}

static rush_op op_lu_unpack = {
    .schema = "lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True) -> (Tensor P, Tensor L, Tensor U)",
    .doc = "The factors P, L, U of a packed LU factorisation.",
    .run = lu_unpack_run, .flags = RUSH_WHOLE,
};

static int lu_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value got[RUSH_MAXOUT];
    return TN(got, "linalg_lu_factor_ex", in[0], in[1], V(false)) || TN(out, "lu_unpack", got[0], got[1]) ? -1 : 0;
}

static rush_op op_linalg_lu = {
    .schema = "linalg_lu(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)",
    .doc = "A = P L U with partial pivoting.",
    .run = lu_run, .flags = RUSH_WHOLE,
};

/* ---- QR ---- */

static int geqrf_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *a = in[0].t;
    if (rush_linalg_check(a, "input", false)) return -1;
    return rush_out_matrix(out, 0, a, a->dtype, ROWS(a), COLS(a)) && rush_out_batch(out, 1, a, a->dtype, RUSH_MIN(ROWS(a), COLS(a))) ? 0 : -1;
}

static void geqrf_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *a = out[0].t;
    int m = ROWS(a), n = COLS(a);
    if (rush_copy_into(a, in[0].t) || !m || !n) return;
    for (int64_t b = 0; b < rush_batches(a); ++b)
        if (rush_geqrf(a->dtype, m, n, matrix(a, b), m, batch_row(out[1].t, b, RUSH_MIN(m, n)))) return;
}

static rush_op op_geqrf = {
    .schema = "geqrf(Tensor self) -> (Tensor a, Tensor tau)", .method = RUSH_METHOD,
    .doc = "QR factorisation as Householder reflectors below the diagonal, and their factors tau.",
    .shape = geqrf_shape, .cpu = geqrf_cpu, .flags = RUSH_OUT_CASTS | RUSH_AUTOCAST_F32,
};

static int qr_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *a = in[0].t;
    const char *mode = in[1].s;
    if (rush_linalg_check(a, "A", false)) return -1;
    bool complete = !strcmp(mode, "complete"), only_r = !strcmp(mode, "r");
    RUSH_CHECK(complete || only_r || !strcmp(mode, "reduced"), RUSH_RUNTIME_ERROR,
               "qr received unrecognized mode '%s' but expected one of 'reduced' (default), 'r', or 'complete'", mode);
    int64_t m = ROWS(a), n = COLS(a), k = RUSH_MIN(m, n), none = 0;
    if (only_r) out[0] = rush_v_tensor(rush_tensor_new(a->dtype, a->device, 1, &none));
    else if (!rush_out_matrix(out, 0, a, a->dtype, m, complete ? m : k)) return -1;
    return rush_out_matrix(out, 1, a, a->dtype, complete ? m : k, n) ? 0 : -1;
}

static void qr_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *a = in[0].t, *q = out[0].t, *r = out[1].t;
    int m = ROWS(a), n = COLS(a), k = RUSH_MIN(m, n), wide = RUSH_MAX(m, n);
    bool want_q = q->ndim >= 2;
    size_t item = BYTES(a);
    char *work = rush_malloc((size_t)m * wide * item + 16), *tau = rush_malloc((size_t)RUSH_MAX(k, 1) * item);
    rush_tensor *columns = rush_contiguous_copy(T("transpose.int", V(a), V(-2), V(-1)));
    for (int64_t b = 0; work && tau && columns && b < rush_batches(a); ++b) {
        if (m && n) memcpy(work, (char *)rush_ptr(columns) + b * m * n * item, (size_t)m * n * item);
        if (k && rush_geqrf(a->dtype, m, n, work, m, tau)) break;
        int rows = ROWS(r);
        for (int j = 0; j < n; ++j)
            for (int i = 0; i < rows; ++i) {
                char *to = matrix(r, b) + ((size_t)j * rows + i) * item;
                if (i <= j && i < m) memcpy(to, work + ((size_t)j * m + i) * item, item);
                else memset(to, 0, item);
            }
        if (!want_q) continue;
        int cols = COLS(q);
        if (k && cols && rush_orgqr(a->dtype, m, cols, k, work, m, tau)) break;
        if (!k && cols) { /* nothing to reflect: the identity */
            memset(work, 0, (size_t)m * cols * item);
            double one = 1;
            for (int j = 0; j < RUSH_MIN(m, cols); ++j) rush_convert(work + ((size_t)j * m + j) * item, a->dtype, 0, &one, RUSH_F64, 0, 1);
        }
        if (m && cols) memcpy(matrix(q, b), work, (size_t)m * cols * item);
    }
    rush_free(work);
    rush_free(tau);
}

/* The lower triangle mirrored with its conjugate above, the diagonal real: the phases of R's are fixed. */
static rush_tensor *mirror(rush_tensor *x)
{
    rush_tensor *y = add(tril(x, 0), mH(tril(x, -1)));
    if (!y || !rush_dtype_is_complex(y->dtype)) return y;
    rush_tensor *d = diagonal(x);
    return sub(y, diag_embed(mul(sub(d, conj_(d)), 0.5)));
}

static rush_tensor *qr_square(rush_tensor *gq, rush_tensor *gr, rush_tensor *q, rush_tensor *r)
{
    rush_tensor *m = NULL;
    if (gr) m = matmul(r, mH(gr));
    if (gq) {
        rush_tensor *x = matmul(mH(gq), q);
        m = m ? sub(m, x) : neg(x);
    }
    rush_tensor *sum = matmul(q, mirror(m));
    if (gq) sum = add(sum, gq);
    return T("linalg_solve_triangular", V(mH(r)), V(sum), V(false), V(false));
}

static void qr_grad(rush_grads *s)
{
    rush_tensor *gq = s->g[0], *gr = s->g[1], *q = s->out[0].t, *r = s->out[1].t, *a = s->in[0].t;
    int64_t m = ROWS(a), n = COLS(a);
    if (!gq && !gr) return;
    if (!strcmp(s->in[1].s, "r")) {
        rush_fail(RUSH_RUNTIME_ERROR, "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use "
                                      "linalg.qr(A, mode='reduced') if you are going to require gradients.");
        return;
    }
    if (!strcmp(s->in[1].s, "complete") && m > n) {
        rush_fail(RUSH_RUNTIME_ERROR, "The QR decomposition is not differentiable when mode='complete' and nrows > ncols");
        return;
    }
    if (m >= n) {
        s->gin[0] = qr_square(gq, gr, q, r);
        return;
    }
    /* wide: A = Q [U | V], X = A[:, :m]; V = Q^H Y */
    rush_tensor *u = part(r, -1, 0, m), *y = part(s->in[0].t, -1, m, n - m);
    rush_tensor *gu = gr ? part(gr, -1, 0, m) : NULL, *gv = gr ? part(gr, -1, m, n - m) : NULL;
    if (gv) {
        rush_tensor *more = matmul(y, mH(gv));
        gq = gq ? add(gq, more) : more;
    }
    rush_tensor *gx = qr_square(gq, gu, q, u), *gy = gv ? matmul(q, gv) : rush_zeros_like(y);
    if (gx && gy) s->gin[0] = T("cat", rush_v_tensors((rush_tensor *[]){gx, gy}, 2), V(-1));
}

static rush_op op_linalg_qr = {
    .schema = "linalg_qr(Tensor A, str mode='reduced') -> (Tensor Q, Tensor R)",
    .doc = "QR factorisation of matrices (*, m, n); mode is reduced, complete or r.",
    .shape = qr_shape, .cpu = qr_cpu, .grad = qr_grad, .saves = "A, result0, result1", .flags = RUSH_AUTOCAST_F32,
};

static int qr_old_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return TN(out, "linalg_qr", in[0], V(in[1].i ? "reduced" : "complete"));
}

static rush_op op_qr = {
    .schema = "qr(Tensor self, bool some=True) -> (Tensor Q, Tensor R)", .method = RUSH_METHOD,
    .doc = "The older name of linalg_qr.",
    .run = qr_old_run, .flags = RUSH_AUTOCAST_F32,
};

/* Q of Householder reflectors, one product each; by operations, so that its derivative needs no formula. */
static int householder_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *a = in[0].t, *tau = in[1].t;
    if (rush_linalg_check(a, "input", false)) return -1;
    int64_t m = ROWS(a), n = COLS(a), k = tau->ndim ? tau->size[tau->ndim - 1] : 0;
    RUSH_CHECK(m >= n, RUSH_RUNTIME_ERROR, "input.shape[-2] must be greater than or equal to input.shape[-1]");
    RUSH_CHECK(n >= k, RUSH_RUNTIME_ERROR, "input.shape[-1] must be greater than or equal to tau.shape[-1]");
    RUSH_CHECK(tau->ndim == a->ndim - 1, RUSH_RUNTIME_ERROR,
               "Expected tau to have one dimension less than input, but got tau.ndim equal to %d and input.ndim is equal to %d", tau->ndim, a->ndim);
    RUSH_CHECK(!memcmp(a->size, tau->size, sizeof *a->size * (a->ndim - 2)), RUSH_RUNTIME_ERROR,
               "Expected batch dimensions of tau to be equal to input.shape[:-2], but got %s", rush_shape_of(tau));
    RUSH_CHECK(tau->dtype == a->dtype, RUSH_RUNTIME_ERROR, "tau dtype %s does not match input dtype %s", rush_dtype_name(tau->dtype), rush_dtype_name(a->dtype));
    int64_t size[RUSH_MAXDIM];
    memcpy(size, a->size, sizeof *size * a->ndim);
    rush_tensor *q = T("expand", V(T("eye.m", V(m), V(n), rush_v_dtype(a->dtype), ON(a))), rush_v_ints(size, a->ndim));
    rush_tensor *v = k ? add(tril(part(a, -1, 0, k), -1), T("eye.m", V(m), V(k), rush_v_dtype(a->dtype), ON(a))) : NULL;
    for (int64_t i = k - 1; i >= 0; --i) {
        rush_tensor *vi = part(v, -1, i, 1); /* (*, m, 1) */
        rush_tensor *t = unsqueeze(part(tau, -1, i, 1), -1);
        q = sub(q, mul(t, matmul(vi, matmul(mH(vi), q))));
    }
    if (!k && q) { /* zeros that depend on both arguments, which so have gradients */
        rush_tensor *nothing = unsqueeze(sum_dim(tau, -1, true), -1);
        q = add(add(q, tril(a, -m)), nothing);
    }
    return rush_result(out, transpose(T("clone", V(transpose(q, -2, -1)), rush_v_memory_format(RUSH_CONTIGUOUS)), -2, -1)); /* column by column */
}

static rush_op op_linalg_householder_product = {
    .schema = "linalg_householder_product(Tensor input, Tensor tau) -> Tensor",
    .doc = "The first n columns of the product of Householder reflectors, as geqrf gives them.",
    .run = householder_run, .flags = RUSH_OUT_CASTS | RUSH_WHOLE | RUSH_AUTOCAST_F32,
};
static rush_op op_orgqr = {
    .schema = "orgqr(Tensor self, Tensor input2) -> Tensor", .method = RUSH_METHOD,
    .doc = "The older name of linalg_householder_product.",
    .run = householder_run, .flags = RUSH_OUT_CASTS | RUSH_AUTOCAST_F32,
};

static int ormqr_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *a = in[0].t, *c = in[2].t;
    bool left = in[3].i, trans = in[4].i;
    if (rush_linalg_check(a, "input", false)) return -1;
    RUSH_CHECK(c->ndim == a->ndim, RUSH_RUNTIME_ERROR, "torch.ormqr: Expected other to have the same number of dimensions as input");
    int64_t m = ROWS(a), n = COLS(a), other = left ? ROWS(c) : COLS(c);
    RUSH_CHECK(other == m, RUSH_RUNTIME_ERROR, "torch.ormqr: other.shape[%d] must be equal to input.shape[-2]", left ? -2 : -1);
    RUSH_CHECK(in[1].t->ndim == a->ndim - 1 && in[1].t->size[a->ndim - 2] <= n, RUSH_RUNTIME_ERROR,
               "torch.ormqr: tau.shape[-1] must be less than or equal to other.shape[%d]", left ? -2 : -1);
    if (n > m) a = part(a, -1, 0, m); /* there are no reflectors beyond the rows */
    if (n < m) { /* the full m x m product: missing reflectors are the identity */
        rush_tensor *pad = T("constant_pad_nd", V(a), INTS(0, m - n), V(0));
        a = pad;
    }
    rush_tensor *q = T("linalg_householder_product", V(a), in[1]);
    if (trans) q = q ? mH(q) : NULL;
    return rush_result(out, left ? matmul(q, c) : matmul(c, q));
}

static rush_op op_ormqr = {
    .schema = "ormqr(Tensor self, Tensor input2, Tensor input3, bool left=True, bool transpose=False) -> Tensor",
    .method = RUSH_METHOD, .node = "OrmqrBackward0",
    .doc = "input3 times the Q of geqrf's reflectors (self, input2), from the left or right, or times its conjugate transpose.",
    .run = ormqr_run, .flags = RUSH_WHOLE | RUSH_AUTOCAST_F32,
};

/* ---- LDL ---- */

static int ldl_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *a = in[0].t;
    if (rush_linalg_check(a, "A", true)) return -1;
    return rush_out_matrix(out, 0, a, a->dtype, ROWS(a), ROWS(a)) && rush_out_batch(out, 1, a, RUSH_I32, ROWS(a)) &&
                   rush_out_batch(out, 2, a, RUSH_I32, -1) ? 0 : -1;
}

static void ldl_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *ld = out[0].t;
    int n = ROWS(ld);
    if (rush_copy_into(ld, T("tril", in[0]))) return;
    for (int64_t b = 0; b < rush_batches(ld); ++b) {
        int info = n ? rush_sytrf(ld->dtype, in[1].i, n, matrix(ld, b), n, (int32_t *)(void *)batch_row(out[1].t, b, n)) : 0;
        if (info < 0) return;
        ((int32_t *)rush_ptr(out[2].t))[b] = info;
    }
    if (in[2].i) rush_linalg_raise(out[2].t, NO_LDL);
}

static rush_op op_linalg_ldl_factor_ex = {
    .schema = "linalg_ldl_factor_ex(Tensor self, *, bool hermitian=False, bool check_errors=False) -> (Tensor LD, Tensor pivots, Tensor info)",
    .doc = "Bunch-Kaufman factorisation of symmetric or Hermitian matrices.",
    .shape = ldl_shape, .cpu = ldl_cpu,
};

static int ldl_factor_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value got[RUSH_MAXOUT];
    if (TN(got, "linalg_ldl_factor_ex", in[0], in[1])) return -1;
    if (rush_linalg_raise(got[2].t, NO_LDL)) return -1;
    out[0] = got[0];
    out[1] = got[1];
    return 0;
}

static rush_op op_linalg_ldl_factor = {
    .schema = "linalg_ldl_factor(Tensor self, *, bool hermitian=False) -> (Tensor LD, Tensor pivots)",
    .doc = "linalg_ldl_factor_ex, with an error for singular matrices.",
    .run = ldl_factor_run,
};

static int ldl_solve_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *ld = in[0].t, *b = in[2].t;
    if (rush_linalg_check(ld, "LD", true) || rush_linalg_check(b, "B", false)) return -1;
    RUSH_CHECK(in[1].t->dtype == RUSH_I32 || in[1].t->dtype == RUSH_I64, RUSH_RUNTIME_ERROR, "Expected pivots to be integers. Got %s", rush_dtype_name(in[1].t->dtype));
    RUSH_CHECK(ld->dtype == b->dtype, RUSH_RUNTIME_ERROR, "LD dtype %s does not match b dtype %s", rush_dtype_name(ld->dtype), rush_dtype_name(b->dtype));
    RUSH_CHECK(ROWS(ld) == ROWS(b), RUSH_RUNTIME_ERROR, "Incompatible shapes of LD and B: %s and %s", rush_shape_of(ld), rush_shape_of(b));
    int nd;
    int64_t size[RUSH_MAXDIM];
    if (rush_broadcast_sizes(ld->ndim - 2, ld->size, b->ndim - 2, b->size, &nd, size)) return -1;
    size[nd] = ROWS(b);
    size[nd + 1] = COLS(b);
    rush_tensor *shape = rush_tensor_new(b->dtype, (rush_device){RUSH_META, -1}, nd + 2, size);
    if (!shape) return -1;
    shape->device = b->device;
    return rush_out_matrix(out, 0, shape, b->dtype, ROWS(b), COLS(b)) ? 0 : -1;
}

/* LAPACK trusts what it is given: exchanges within the matrix, and negative ones, of blocks of two, in pairs. */
static bool are_block_pivots(const int32_t *p, int n)
{
    for (int k = 0; k < n; ++k) {
        if (p[k] == 0 || p[k] > n || p[k] < -n) return false;
        if (p[k] < 0 && (++k == n || p[k] >= 0 || p[k] < -n)) return false;
    }
    return true;
}

static void ldl_solve_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = out[0].t;
    int n = ROWS(x);
    int64_t size[RUSH_MAXDIM];
    memcpy(size, x->size, sizeof *size * x->ndim);
    size[x->ndim - 1] = n;
    rush_tensor *full = T("expand", in[0], rush_v_ints(size, x->ndim));
    rush_tensor *piv = rush_cast_copy(T("expand", in[1], rush_v_ints(size, x->ndim - 1)), RUSH_I32);
    rush_value room[1];
    rush_tensor *ld = full && piv ? rush_out_matrix(room, 0, x, x->dtype, n, n) : NULL;
    if (!ld || rush_copy_into(ld, full) || rush_copy_into(x, in[2].t) || !n || !COLS(x)) return;
    for (int64_t b = 0; b < rush_batches(x); ++b)
        if (!are_block_pivots((const int32_t *)(const void *)batch_row(piv, b, n), n)) {
            rush_fail(RUSH_RUNTIME_ERROR, "Pivots given to ldl_solve are not those of a matrix of %d rows. Did you properly pass the result of ldl_factor?", n);
            return;
        }
    for (int64_t b = 0; b < rush_batches(x); ++b)
        if (rush_sytrs(x->dtype, in[3].i, n, COLS(x), matrix(ld, b), n, (int32_t *)(void *)batch_row(piv, b, n), matrix(x, b), n)) return;
}

static rush_op op_linalg_ldl_solve = {
    .schema = "linalg_ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False) -> Tensor",
    .doc = "Solves A X = B by the factorisation of linalg_ldl_factor.",
    .shape = ldl_solve_shape, .cpu = ldl_solve_cpu,
};

RUSH_FAMILY(factor, &op_failure, &op_linalg_cholesky_ex, &op_linalg_cholesky, &op_cholesky, &op_linalg_lu_factor_ex, &op_linalg_lu_factor, &op__lu_with_info,
            &op__pivots_to_permutation, &op_lu_unpack, &op_linalg_lu, &op_geqrf, &op_linalg_qr, &op_qr, &op_linalg_householder_product, &op_orgqr,
            &op_ormqr, &op_linalg_ldl_factor_ex, &op_linalg_ldl_factor, &op_linalg_ldl_solve)
