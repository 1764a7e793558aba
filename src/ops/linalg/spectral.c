/* spectral.c - eigenvalues and singular values of matrices, by LAPACK, over batches; as factor.c does it. */
#include "kernels/lapack/lapack.h"
#include "op/formula.h"
#include "ops/linalg/linalg.h"

bool rush_all_finite(const rush_tensor *t)
{
    int64_t n = t->numel * (rush_dtype_is_complex(t->dtype) ? 2 : 1);
    double sum = 0; /* 0 times inf or NaN is NaN */
    if (rush_dtype_real(t->dtype) == RUSH_F32) for (int64_t i = 0; i < n; ++i) sum += 0 * (double)((const float *)rush_ptr(t))[i];
    else for (int64_t i = 0; i < n; ++i) sum += 0 * ((const double *)rush_ptr(t))[i];
    return sum == 0;
}

/* ---- Hermitian eigenvalues ---- */

static int eigh_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *a = in[0].t;
    char uplo = (char)(in[1].s[0] & ~32);
    if (rush_linalg_check(a, "A", true)) return -1;
    RUSH_CHECK((uplo == 'L' || uplo == 'U') && !in[1].s[1], RUSH_RUNTIME_ERROR, "Expected UPLO argument to be 'L' or 'U', but got %s", in[1].s);
    int64_t none = 0, n = ROWS(a);
    if (!rush_out_batch(out, 0, a, rush_dtype_real(a->dtype), n)) return -1;
    if (!in[2].i) return out[1] = rush_v_tensor(rush_tensor_new(a->dtype, a->device, 1, &none)), rush_failed() ? -1 : 0;
    return rush_out_matrix(out, 1, a, a->dtype, n, n) ? 0 : -1;
}

static void eigh_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *a = in[0].t;
    int n = ROWS(a);
    bool vectors = in[2].i;
    rush_value room[1];
    rush_tensor *work = vectors ? out[1].t : rush_out_matrix(room, 0, a, a->dtype, n, n);
    if (!work || rush_copy_into(work, a) || !n) return;
    for (int64_t b = 0; b < rush_batches(a); ++b) {
        int info = rush_syevd(a->dtype, vectors, (in[1].s[0] & ~32) == 'U', n, matrix(work, b), n, batch_row(out[0].t, b, n));
        if (info > 0) rush_fail(RUSH_LINALG_ERROR, "The algorithm failed to converge because the input matrix is ill-conditioned or has too many "
                                                   "repeated eigenvalues (error code: %d).", info);
        if (info) return;
    }
}

/* Differences x_j - x_i of the last dimension, with ones on the diagonal. */
static rush_tensor *differences(rush_tensor *x)
{
    rush_tensor *d = sub(unsqueeze(x, -2), unsqueeze(x, -1));
    return d ? add(d, eye_like(d, d->size[d->ndim - 1])) : NULL;
}

static void eigh_grad(rush_grads *s)
{
    rush_tensor *gl = s->g[0], *gv = s->g[1], *l = s->out[0].t, *v = s->out[1].t;
    if (!s->in[2].i) {
        rush_fail(RUSH_RUNTIME_ERROR, "eigenvalues alone were computed; their derivative needs the vectors");
        return;
    }
    rush_tensor *inner = NULL;
    if (gv) {
        rush_tensor *vhgv = matmul(mH(v), gv);
        if (rush_dtype_is_complex(v->dtype)) vhgv = sub(vhgv, diag_embed(diagonal(vhgv)));
        inner = div_(vhgv, differences(l));
        inner = sub(inner, diag_embed(diagonal(inner)));
    }
    if (gl) {
        rush_tensor *d = diag_embed(to_dtype(gl, v->dtype));
        inner = inner ? add(inner, d) : d;
    }
    if (!inner) return;
    rush_tensor *ga = matmul(v, matmul(inner, mH(v))); /* of a matrix that is read as Hermitian */
    s->gin[0] = gv ? mul(add(ga, mH(ga)), 0.5) : ga;
}

static rush_op op__linalg_eigh = {
    .schema = "_linalg_eigh(Tensor A, str UPLO='L', bool compute_v=True) -> (Tensor eigenvalues, Tensor eigenvectors)",
    .doc = "Eigenvalues, ascending, and vectors of Hermitian matrices, of which one triangle is read.",
    .shape = eigh_shape, .cpu = eigh_cpu, .grad = eigh_grad, .saves = "result0, result1",
};

static int eigh_run(const rush_op *op, const rush_value *in, rush_value *out) { return TN(out, "_linalg_eigh", in[0], in[1], V(true)); }

static rush_op op_linalg_eigh = {
    .schema = "linalg_eigh(Tensor self, str UPLO='L') -> (Tensor eigenvalues, Tensor eigenvectors)",
    .doc = "Eigenvalues, ascending, and vectors of Hermitian matrices.",
    .run = eigh_run, .flags = RUSH_AUTOCAST_F32,
};

static int eigvalsh_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value got[RUSH_MAXOUT];
    bool vectors = rush_grad_enabled() && rush_wants_grad_of(in[0].t);
    return TN(got, "_linalg_eigh", in[0], in[1], V(vectors)) ? -1 : rush_result(out, got[0].t);
}

static rush_op op_linalg_eigvalsh = {
    .schema = "linalg_eigvalsh(Tensor self, str UPLO='L') -> Tensor",
    .doc = "Eigenvalues, ascending, of Hermitian matrices.",
    .run = eigvalsh_run, .flags = RUSH_AUTOCAST_F32,
};

/* ---- general eigenvalues ---- */

static int eig_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *a = in[0].t;
    if (rush_linalg_check(a, "A", true)) return -1;
    rush_dtype c = rush_dtype_is_complex(a->dtype) ? a->dtype : rush_dtype_complex(a->dtype);
    return rush_out_batch(out, 0, a, c, ROWS(a)) && rush_out_matrix(out, 1, a, c, ROWS(a), ROWS(a)) ? 0 : -1;
}

static void eig_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *a = in[0].t;
    int n = ROWS(a);
    rush_value room[1];
    rush_tensor *work = rush_out_matrix(room, 0, a, a->dtype, n, n);
    if (!work || rush_copy_into(work, a) || !n) return;
    if (!rush_all_finite(work)) {
        rush_fail(RUSH_RUNTIME_ERROR, "torch.linalg.eig: input tensor should not contain infs or NaNs.");
        return;
    }
    for (int64_t b = 0; b < rush_batches(a); ++b) {
        int info = rush_geev(a->dtype, true, n, matrix(work, b), n, batch_row(out[0].t, b, n), matrix(out[1].t, b), n);
        if (info > 0) rush_fail(RUSH_LINALG_ERROR, "The algorithm failed to converge (error code: %d).", info);
        if (info) return;
    }
}

static void eig_grad(rush_grads *s)
{
    rush_tensor *gl = s->g[0], *gv = s->g[1], *l = s->out[0].t, *v = s->out[1].t, *inner = NULL;
    if (!gl && !gv) return;
    if (gv) {
        rush_tensor *vhgv = matmul(mH(v), gv);
        rush_tensor *norm = to_dtype(T("real", V(diagonal(vhgv))), v->dtype);
        vhgv = sub(vhgv, matmul(mH(v), mul(v, unsqueeze(norm, -2))));
        inner = div_(vhgv, conj_(differences(l)));
        inner = sub(inner, diag_embed(diagonal(inner)));
    }
    if (gl) inner = inner ? add(inner, diag_embed(gl)) : diag_embed(gl);
    rush_tensor *ga = T("linalg_solve", V(mH(v)), V(matmul(inner, mH(v))));
    if (ga && !rush_dtype_is_complex(s->in[0].t->dtype)) ga = T("real", V(ga));
    s->gin[0] = ga;
}

static rush_op op_linalg_eig = {
    .schema = "linalg_eig(Tensor self) -> (Tensor eigenvalues, Tensor eigenvectors)",
    .doc = "Complex eigenvalues and right vectors of square matrices, in no particular order.",
    .shape = eig_shape, .cpu = eig_cpu, .grad = eig_grad, .saves = "result0, result1", .flags = RUSH_OUT_CASTS | RUSH_AUTOCAST_F32,
};

static int eigvals_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value got[RUSH_MAXOUT];
    return TN(got, "linalg_eig", in[0]) ? -1 : rush_result(out, got[0].t);
}

static rush_op op_linalg_eigvals = {
    .schema = "linalg_eigvals(Tensor self) -> Tensor",
    .doc = "Complex eigenvalues of square matrices.",
    .run = eigvals_run, .flags = RUSH_OUT_CASTS | RUSH_AUTOCAST_F32,
};

/* ---- singular values ---- */

static int svd_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *a = in[0].t;
    if (rush_linalg_check(a, "A", false)) return -1;
    RUSH_CHECK(in[3].kind != RUSH_V_STRING, RUSH_RUNTIME_ERROR, "keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend.");
    int64_t m = ROWS(a), n = COLS(a), k = RUSH_MIN(m, n), none = 0;
    bool full = in[1].i, vectors = in[2].i;
    if (!rush_out_batch(out, 1, a, rush_dtype_real(a->dtype), k)) return -1;
    if (vectors) return rush_out_matrix(out, 0, a, a->dtype, m, full ? m : k) && rush_out_matrix(out, 2, a, a->dtype, full ? n : k, n) ? 0 : -1;
    out[0] = rush_v_tensor(rush_tensor_new(a->dtype, a->device, 1, &none));
    out[2] = rush_v_tensor(rush_tensor_new(a->dtype, a->device, 1, &none));
    return rush_failed() ? -1 : 0;
}

static void identity(rush_tensor *t)
{
    double one = 1;
    if (t->ndim < 2 || !t->numel) return;
    rush_clear(t);
    for (int64_t b = 0; b < rush_batches(t); ++b)
        for (int i = 0; i < RUSH_MIN(ROWS(t), COLS(t)); ++i)
            rush_convert(matrix(t, b) + ((size_t)i * ROWS(t) + i) * BYTES(t), t->dtype, 0, &one, RUSH_F64, 0, 1);
}

static void svd_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *a = in[0].t, *u = out[0].t, *s = out[1].t, *vh = out[2].t;
    int m = ROWS(a), n = COLS(a), k = RUSH_MIN(m, n);
    bool full = in[1].i, vectors = in[2].i;
    rush_value room[1];
    if (!k) return identity(u), identity(vh);
    rush_tensor *work = rush_out_matrix(room, 0, a, a->dtype, m, n);
    if (!work || rush_copy_into(work, a)) return;
    if (!rush_all_finite(work)) {
        rush_fail(RUSH_LINALG_ERROR, "The algorithm failed to converge because the input matrix contained non-finite values.");
        return;
    }
    for (int64_t b = 0; b < rush_batches(a); ++b) {
        int info = rush_gesdd(a->dtype, !vectors ? 'N' : full ? 'A' : 'S', m, n, matrix(work, b), m, batch_row(s, b, k), vectors ? matrix(u, b) : NULL,
                              m, vectors ? matrix(vh, b) : NULL, vectors ? ROWS(vh) : RUSH_MAX(n, 1));
        if (info > 0) rush_fail(RUSH_LINALG_ERROR, "The algorithm failed to converge because the input matrix is ill-conditioned or has too many "
                                                   "repeated singular values (error code: %d).", info);
        if (info) return;
    }
}

static void svd_grad(rush_grads *g)
{
    rush_tensor *gu = g->g[0], *gs = g->g[1], *gvh = g->g[2], *u = g->out[0].t, *s = g->out[1].t, *vh = g->out[2].t, *a = g->in[0].t;
    int64_t m = ROWS(a), n = COLS(a), k = RUSH_MIN(m, n);
    if (!gu && !gs && !gvh) return;
    if (g->in[1].i && ((gu && m > k) || (gvh && n > k))) { /* only the first k columns have a derivative */
        if (m > k && gu) gu = part(gu, -1, 0, k);
        if (n > k && gvh) gvh = part(gvh, -2, 0, k);
    }
    if (u->size[u->ndim - 1] > k) u = part(u, -1, 0, k);
    if (vh->size[vh->ndim - 2] > k) vh = part(vh, -2, 0, k);
    bool complex = rush_dtype_is_complex(a->dtype);
    rush_tensor *inner = gs ? diag_embed(to_dtype(gs, a->dtype)) : NULL;
    if (gu || gvh) {
        rush_tensor *s2 = mul(s, s), *e = differences(s2); /* s_j^2 - s_i^2 */
        rush_tensor *row_s = unsqueeze(s, -2), *col_s = unsqueeze(s, -1), *x;
        if (gu) {
            rush_tensor *w = matmul(mH(u), gu);
            x = mul(div_(sub(w, mH(w)), e), row_s);
            if (complex) { /* the phase shared by u and v: U^H gU and V^H gV have matching imaginary diagonals */
                x = sub(x, diag_embed(diagonal(x)));
                x = add(x, diag_embed(div_(sub(diagonal(w), conj_(diagonal(w))), mul(s, 2.0))));
            }
            inner = inner ? add(inner, x) : x;
        }
        if (gvh) {
            rush_tensor *w = matmul(vh, mH(gvh));
            x = mul(div_(sub(w, mH(w)), e), col_s);
            if (complex) x = sub(x, diag_embed(diagonal(x)));
            inner = inner ? add(inner, x) : x;
        }
    }
    rush_tensor *ga = matmul(u, matmul(inner, vh));
    if (gu && m > k) {
        rush_tensor *x = div_(sub(gu, matmul(u, matmul(mH(u), gu))), unsqueeze(s, -2));
        ga = add(ga, matmul(x, vh));
    }
    if (gvh && n > k) {
        rush_tensor *x = div_(sub(gvh, matmul(matmul(gvh, mH(vh)), vh)), unsqueeze(s, -1));
        ga = add(ga, matmul(u, x));
    }
    g->gin[0] = ga;
}

static rush_op op__linalg_svd = {
    .schema = "_linalg_svd(Tensor A, bool full_matrices=False, bool compute_uv=True, *, str? driver=None) -> (Tensor U, Tensor S, Tensor Vh)",
    .doc = "Singular value decomposition A = U diag(S) Vh of matrices (*, m, n), S descending.",
    .shape = svd_shape, .cpu = svd_cpu, .grad = svd_grad, .saves = "result0, result1, result2",
};

static int linalg_svd_run(const rush_op *op, const rush_value *in, rush_value *out) { return TN(out, "_linalg_svd", in[0], in[1], V(true), in[2]); }

static rush_op op_linalg_svd = {
    .schema = "linalg_svd(Tensor A, bool full_matrices=True, *, str? driver=None) -> (Tensor U, Tensor S, Tensor Vh)",
    .doc = "Singular value decomposition A = U diag(S) Vh.",
    .run = linalg_svd_run, .flags = RUSH_AUTOCAST_F32,
};

static int svd_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value got[RUSH_MAXOUT];
    rush_tensor *a = in[0].t;
    if (TN(got, "_linalg_svd", in[0], V(!in[1].i), V(true))) return -1;
    out[0] = got[0];
    out[1] = got[1];
    out[2] = rush_v_tensor(mH(got[2].t));
    if (!in[2].i) { /* compute_uv=False: zeros of the full shapes, as PyTorch gives */
        int64_t size[RUSH_MAXDIM];
        memcpy(size, a->size, sizeof *size * a->ndim);
        for (int i = 0; i < 3; i += 2) {
            size[a->ndim - 2] = size[a->ndim - 1] = i ? COLS(a) : ROWS(a);
            out[i] = rush_v_tensor(T("zeros", rush_v_ints(size, a->ndim), rush_v_dtype(a->dtype), ON(a)));
        }
    }
    return rush_failed() ? -1 : 0;
}

static rush_op op_svd = {
    .schema = "svd(Tensor self, bool some=True, bool compute_uv=True) -> (Tensor U, Tensor S, Tensor V)", .method = RUSH_METHOD,
    .doc = "The older form of linalg_svd: V itself instead of its conjugate transpose.",
    .run = svd_run, .flags = RUSH_AUTOCAST_F32,
};

static int svdvals_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value got[RUSH_MAXOUT];
    bool vectors = rush_grad_enabled() && rush_wants_grad_of(in[0].t);
    return TN(got, "_linalg_svd", in[0], V(false), V(vectors), in[1]) ? -1 : rush_result(out, got[1].t);
}

static rush_op op_linalg_svdvals = {
    .schema = "linalg_svdvals(Tensor A, *, str? driver=None) -> Tensor",
    .doc = "Singular values, descending.",
    .run = svdvals_run, .flags = RUSH_AUTOCAST_F32,
};

RUSH_FAMILY(spectral, &op__linalg_eigh, &op_linalg_eigh, &op_linalg_eigvalsh, &op_linalg_eig, &op_linalg_eigvals, &op__linalg_svd, &op_linalg_svd,
            &op_svd, &op_linalg_svdvals)
