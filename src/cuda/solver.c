/* solver.c - factorisations and systems of equations by cuSOLVER and cuBLAS, where they are installed.
 *
 * They count down columns, as LAPACK does, and so do the results that the shape rules make: what is factorised is copied into a result
 * and replaced there. Batches are one call where there is one, else a call per matrix on the stream. Where a library is absent, or
 * the host is quicker, the host computes (host.c).
 */
#include "cuda/column.h"
#include "cuda/libraries.h"
#include "op/formula.h"
#include "ops/linalg/linalg.h"
#include <pthread.h>

/* From this size on a call per matrix fills the device; below, one call for the batch. PyTorch's choice, too. */
enum { LARGE = 512 };
/* What takes a call per matrix, and steps that wait for each other, is quicker on the host for small ones: a column, reflection or rotation is
 * a launch of microseconds on the device. */
enum { SMALL_LU = 64, SMALL_QR = 64, SMALL_EIGH = 64, SMALL_SVD = 128, JACOBI_BATCHED = 32, BATCH_THAT_PAYS = 16 };

typedef struct solver {
    const rush_cusolver *lib;
    const rush_cublas *blas;
    cusolverDnHandle_t handle;
    cusolverDnParams_t params;
    cublasHandle_t products;
    gesvdjInfo_t jacobi;
    cudaDataType type, real; /* of the matrices at hand */
    rush_dtype dtype;
    rush_device device;
} solver;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* a handle has one stream at a time */

static int check(int status, const char *what) { return status ? rush_fail(RUSH_RUNTIME_ERROR, "CUDA error: %s answers %d", what, status) : 0; }
#define CALL(f, ...) check(s->f(__VA_ARGS__), #f)

static int create(solver *s, rush_device d)
{
    s->lib = cuda_cusolver();
    s->blas = s->lib ? cuda_cublas() : NULL;
    if (!s->blas) return -1;
    const int mode = cuda_relaxed(d);
    const int failed = CALL(lib->create, &s->handle) || CALL(lib->params, &s->params) || CALL(lib->jacobi, &s->jacobi) || CALL(blas->create, &s->products);
    cuda_strict(mode);
    return failed ? -1 : 0;
}

/* The libraries, on the current stream, for this thread alone until leave(); NULL and an error. */
static solver *enter(const rush_tensor *t)
{
    static solver solvers[CUDA_DEVICES];
    solver *s = &solvers[t->device.index];
    pthread_mutex_lock(&lock);
    if (!cuda_enter(t->device) || (!s->products && create(s, t->device)) || CALL(lib->stream, s->handle, cuda_stream(t->device)) ||
        CALL(blas->stream, s->products, cuda_stream(t->device))) {
        pthread_mutex_unlock(&lock);
        return NULL;
    }
    s->dtype = t->dtype, s->device = t->device;
    s->type = t->dtype == RUSH_F32 ? CUDA_R_32F : t->dtype == RUSH_F64 ? CUDA_R_64F : t->dtype == RUSH_C64 ? CUDA_C_32F : CUDA_C_64F;
    s->real = rush_dtype_real(t->dtype) == RUSH_F32 ? CUDA_R_32F : CUDA_R_64F;
    return s;
}
static void leave(void) { pthread_mutex_unlock(&lock); }

/* The function of the matrices' type; pointers to void stand for those to numbers. */
#define TYPED(l, f, ...)                                                                                    \
    check(s->dtype == RUSH_F32 ? s->l->s##f(__VA_ARGS__) : s->dtype == RUSH_F64 ? s->l->d##f(__VA_ARGS__) : \
          s->dtype == RUSH_C64 ? s->l->c##f(__VA_ARGS__) : s->l->z##f(__VA_ARGS__), #f)
#define TYPED_Q(f, ...)                                                                                     \
    check(s->dtype == RUSH_F32 ? s->lib->sor##f(__VA_ARGS__) : s->dtype == RUSH_F64 ? s->lib->dor##f(__VA_ARGS__) : \
          s->dtype == RUSH_C64 ? s->lib->cun##f(__VA_ARGS__) : s->lib->zun##f(__VA_ARGS__), #f)

static bool has_libraries(void)
{
    const bool has = cuda_has_libraries() && cuda_cusolver() && cuda_cublas();
    if (!has) rush_error_clear();
    return has;
}

/* Memory of the device for one call, or several that follow each other; NULL and an error, or 0 bytes. */
static void *room_of(const solver *s, size_t bytes)
{
    rush_tensor *t = rush_tensor_new(RUSH_U8, s->device, 1, &(int64_t){(int64_t)bytes});
    return t ? rush_ptr(t) : NULL;
}

/* Where each matrix of a stack begins, in memory of the device. */
static void *pointers(const rush_tensor *t, int64_t batch)
{
    const int64_t first = (int64_t)(intptr_t)rush_ptr(t), step = ROWS(t) * (int64_t)COLS(t) * (int64_t)BYTES(t);
    rush_tensor *all = T("arange.start_step", V(first), V(first + batch * step), V(step), rush_v_dtype(RUSH_I64), ON(t));
    return all ? rush_ptr(all) : NULL;
}

/* t expanded to the batch of `like`, its matrices packed down their columns: t itself where it lies so. */
static rush_tensor *columns(rush_tensor *t, const rush_tensor *like)
{
    int64_t size[RUSH_MAXDIM];
    memcpy(size, like->size, sizeof *size * like->ndim);
    size[like->ndim - 2] = ROWS(t), size[like->ndim - 1] = COLS(t);
    rush_tensor *turned = mT(T("expand", V(t), rush_v_ints(size, like->ndim)));
    return turned ? mT(rush_contiguous_copy(turned)) : NULL;
}

/* New memory for like's batch of m by n, packed down their columns. */
static rush_tensor *new_columns(const rush_tensor *like, int64_t m, int64_t n)
{
    int64_t size[RUSH_MAXDIM];
    memcpy(size, like->size, sizeof *size * like->ndim);
    size[like->ndim - 2] = n, size[like->ndim - 1] = m;
    rush_tensor *t = rush_tensor_new(like->dtype, like->device, like->ndim, size);
    return t ? mT(t) : NULL;
}

/* Did an info of the batch say that it failed? Waits for the device. */
static bool any_failed(const rush_tensor *info)
{
    rush_tensor *any = T("any", V((rush_tensor *)info));
    return !any || rush_number_of(any) != 0;
}

/* ---- Cholesky; in: self, upper, check_errors; out: L, info ---- */

static int factor_cholesky(rush_tensor *l, rush_tensor *infos, bool upper)
{
    const int64_t n = ROWS(l), batch = rush_batches(l);
    int *info = rush_ptr(infos);
    size_t bytes, host_bytes;
    void *all = batch > 1 ? pointers(l, batch) : NULL;
    solver *s = rush_failed() ? NULL : enter(l);
    if (!s) return -1;
    int failed;
    if (all) {
        failed = TYPED(lib, potrf_batched, s->handle, upper, (int)n, all, (int)n, info, (int)batch);
    } else {
        failed = CALL(lib->potrf_room, s->handle, s->params, upper, n, s->type, rush_ptr(l), n, s->type, &bytes, &host_bytes);
        void *room = failed ? NULL : room_of(s, bytes), *host = failed ? NULL : rush_scope_alloc(host_bytes);
        failed = failed || rush_failed() || CALL(lib->potrf, s->handle, s->params, upper, n, s->type, rush_ptr(l), n, s->type, room, bytes, host, host_bytes, info);
    }
    leave();
    return failed ? -1 : 0;
}

static void cholesky(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *l = out[0].t;
    const bool upper = in[1].i;
    if (!l->numel || !has_libraries()) return cuda_host_run(op, in, out);
    if (rush_copy_into(l, in[0].t) || factor_cholesky(l, out[1].t, upper)) return;
    if (upper) CUDA_INPLACE("triu", V(l), V(0)); /* the other triangle still holds A */
    else CUDA_INPLACE("tril", V(l), V(0));
    if (in[2].i && !rush_failed()) rush_linalg_raise(out[1].t, NOT_POSITIVE);
}

/* ---- LU; in: A, pivot, check_errors; out: LU, pivots, info ---- */

static void lu_factor(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *lu = out[0].t;
    if (!lu->numel || !has_libraries()) return cuda_host_run(op, in, out);
    const int m = ROWS(lu), n = COLS(lu), k = RUSH_MIN(m, n);
    const int64_t batch = rush_batches(lu);
    const bool together = batch > 1 && m == n && n < LARGE;
    if (batch > 1 && !together && RUSH_MAX(m, n) <= SMALL_LU) return cuda_host_run(op, in, out);
    if (rush_copy_into(lu, in[0].t)) return;
    int *pivots = rush_ptr(out[1].t), *info = rush_ptr(out[2].t), count;
    void *all = together ? pointers(lu, batch) : NULL;
    solver *s = rush_failed() ? NULL : enter(lu);
    if (!s) return;
    if (together) {
        TYPED(blas, getrf_batched, s->products, n, all, n, pivots, info, (int)batch);
    } else if (!TYPED(lib, getrf_room, s->handle, m, n, rush_ptr(lu), m, &count)) {
        void *room = room_of(s, (size_t)count * BYTES(lu));
        for (int64_t b = 0; b < batch && !rush_failed(); b++) TYPED(lib, getrf, s->handle, m, n, (void *)matrix(lu, b), m, room, pivots + b * k, info + b);
    }
    leave();
    if (in[2].i && !rush_failed()) rush_linalg_raise(out[2].t, NO_LU);
}

/* Replaces the columns of b (packed, k rows, a row of pivots per matrix) by the solutions. */
static int solve_lu(rush_tensor *lu, rush_tensor *pivots, rush_tensor *b, cublasOperation_t how)
{
    const int k = ROWS(lu), n = COLS(b);
    const int64_t batch = rush_batches(b);
    const bool together = batch > 1 && k < LARGE;
    void *all_lu = together ? pointers(lu, batch) : NULL, *all_b = together ? pointers(b, batch) : NULL;
    const int *p = rush_ptr(pivots);
    int argument = 0;
    solver *s = rush_failed() ? NULL : enter(b);
    if (!s) return -1;
    if (together) {
        TYPED(blas, getrs_batched, s->products, how, k, n, all_lu, k, p, all_b, k, &argument, (int)batch);
    } else {
        void *info = room_of(s, sizeof(int));
        for (int64_t i = 0; i < batch && !rush_failed(); i++) TYPED(lib, getrs, s->handle, how, k, n, (void *)matrix(lu, i), k, p + i * k, (void *)matrix(b, i), k, info);
    }
    leave();
    return rush_failed() ? -1 : 0;
}

/* in: LU, pivots, B, left, adjoint */
static void lu_solve(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = out[0].t, *b = x;
    const bool left = in[3].i, adjoint = in[4].i, conjugated = !left && adjoint && rush_dtype_is_complex(x->dtype);
    if (!x->numel || !has_libraries()) return cuda_host_run(op, in, out);
    rush_tensor *lu = columns(in[0].t, x);
    int64_t size[RUSH_MAXDIM];
    memcpy(size, x->size, sizeof *size * (x->ndim - 2));
    size[x->ndim - 2] = ROWS(in[0].t);
    /* within the matrix: what lies outside would be read outside its memory */
    rush_tensor *pivots = T("clamp", in[1], V(1), V(size[x->ndim - 2]));
    pivots = pivots ? rush_contiguous_copy(T("expand", V(pivots), rush_v_ints(size, x->ndim - 1))) : NULL;
    if (!left) b = new_columns(x, COLS(x), ROWS(x)); /* X A = B is A^T X^T = B^T; X A^H = B is A conj(X)^T = conj(B)^T */
    if (!lu || !pivots || !b || rush_copy_into(left ? b : mT(b), conjugated ? conj_(in[2].t) : in[2].t)) return;
    if (solve_lu(lu, pivots, b, left ? (adjoint ? CUBLAS_OP_C : CUBLAS_OP_N) : adjoint ? CUBLAS_OP_N : CUBLAS_OP_T) || left) return;
    rush_copy_into(x, conjugated ? conj_(mT(b)) : mT(b));
}

/* ---- triangular systems; in: self, B, upper, left, unitriangular ---- */

static void solve_triangular(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = out[0].t, *a = in[0].t;
    if (!x->numel || !has_libraries()) return cuda_host_run(op, in, out);
    /* A matrix that lies along its rows is its transpose down the columns: its other triangle, and turned when it is used. */
    const bool by_rows = rush_contiguous(a) && a->ndim == x->ndim && !memcmp(a->size, x->size, sizeof *a->size * (a->ndim - 2)) && !(a->flags & RUSH_T_NEG);
    const cublasOperation_t how = !by_rows ? CUBLAS_OP_N : a->flags & RUSH_T_CONJ ? CUBLAS_OP_C : CUBLAS_OP_T;
    const int fill = (in[2].i != 0) != by_rows, side = !in[3].i, unit = in[4].i != 0, m = ROWS(x), n = COLS(x), k = ROWS(a);
    const double one[2] = {1, 0};
    const float one_float[2] = {1, 0};
    const void *alpha = rush_dtype_real(x->dtype) == RUSH_F32 ? (const void *)one_float : one;
    const int64_t batch = rush_batches(x);
    const bool together = batch > 1 && k <= LARGE;
    if (!by_rows) a = columns(a, x);
    if (!a || rush_copy_into(x, in[1].t)) return;
    void *all_a = together ? pointers(a, batch) : NULL, *all_x = together ? pointers(x, batch) : NULL;
    solver *s = rush_failed() ? NULL : enter(x);
    if (!s) return;
    if (together) TYPED(blas, trsm_batched, s->products, side, fill, how, unit, m, n, alpha, all_a, k, all_x, m, (int)batch);
    else for (int64_t b = 0; b < batch && !rush_failed(); b++) TYPED(blas, trsm, s->products, side, fill, how, unit, m, n, alpha, (void *)matrix(a, b), k, (void *)matrix(x, b), m);
    leave();
}

/* ---- QR ---- */

/* The first `of` columns of each matrix become R and reflectors. */
static int factor_qr(rush_tensor *a, int of, rush_tensor *tau)
{
    const int m = ROWS(a), k = RUSH_MIN(m, of);
    const int64_t batch = rush_batches(a);
    size_t bytes, host_bytes;
    solver *s = enter(a);
    if (!s) return -1;
    if (!CALL(lib->geqrf_room, s->handle, s->params, m, of, s->type, rush_ptr(a), m, s->type, rush_ptr(tau), s->type, &bytes, &host_bytes)) {
        void *room = room_of(s, bytes), *info = room_of(s, sizeof(int)), *host = rush_scope_alloc(host_bytes);
        for (int64_t b = 0; b < batch && !rush_failed(); b++)
            CALL(lib->geqrf, s->handle, s->params, m, of, s->type, matrix(a, b), m, s->type, batch_row(tau, b, k), s->type, room, bytes, host, host_bytes, info);
    }
    leave();
    return rush_failed() ? -1 : 0;
}

/* The first `of` columns of each matrix, reflectors, become Q. */
static int make_q(rush_tensor *a, int of, rush_tensor *tau)
{
    const int m = ROWS(a), k = (int)tau->size[tau->ndim - 1];
    const int64_t batch = rush_batches(a);
    int count;
    solver *s = enter(a);
    if (!s) return -1;
    if (!TYPED_Q(gqr_room, s->handle, m, of, k, rush_ptr(a), m, rush_ptr(tau), &count)) {
        void *room = room_of(s, (size_t)count * BYTES(a)), *info = room_of(s, sizeof(int));
        for (int64_t b = 0; b < batch && !rush_failed(); b++)
            TYPED_Q(gqr, s->handle, m, of, k, (void *)matrix(a, b), m, (void *)batch_row(tau, b, k), room, count, info);
    }
    leave();
    return rush_failed() ? -1 : 0;
}

static bool is_small_qr(const rush_tensor *a) { return RUSH_MAX(ROWS(a), COLS(a)) <= SMALL_QR; }

/* in: self; out: a, tau */
static void geqrf(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (!out[0].t->numel || is_small_qr(in[0].t) || !has_libraries()) return cuda_host_run(op, in, out);
    if (!rush_copy_into(out[0].t, in[0].t)) factor_qr(out[0].t, COLS(out[0].t), out[1].t);
}

/* in: A, mode; out: Q, R */
static void qr(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *a = in[0].t, *q = out[0].t, *r = out[1].t;
    if (!a->numel || is_small_qr(a) || !has_libraries()) return cuda_host_run(op, in, out);
    const int m = ROWS(a), n = COLS(a), of_q = q->ndim >= 2 ? COLS(q) : 0;
    int64_t size[RUSH_MAXDIM];
    memcpy(size, a->size, sizeof *size * a->ndim);
    size[a->ndim - 2] = RUSH_MIN(m, n);
    rush_tensor *work = new_columns(a, m, RUSH_MAX(n, of_q)), *tau = rush_tensor_new(a->dtype, a->device, a->ndim - 1, size);
    if (!work || !tau || rush_copy_into(part(work, -1, 0, n), a) || factor_qr(work, n, tau)) return;
    rush_tensor *upper = triu(part(part(work, -1, 0, n), -2, 0, ROWS(r)), 0);
    if (!upper || rush_copy_into(r, upper) || !of_q || make_q(work, of_q, tau)) return;
    rush_copy_into(q, part(work, -1, 0, of_q));
}

/* ---- eigenvalues and singular values ---- */

static int factor_eigh(rush_tensor *a, rush_tensor *values, rush_tensor *infos, bool upper, bool vectors)
{
    const int64_t n = ROWS(a), batch = rush_batches(a);
    int *info = rush_ptr(infos);
    size_t bytes, host_bytes;
    solver *s = enter(a);
    if (!s) return -1;
    const bool one = batch == 1;
    if (!(one ? CALL(lib->syevd_room, s->handle, s->params, vectors, upper, n, s->type, rush_ptr(a), n, s->real, rush_ptr(values), s->type, &bytes, &host_bytes)
              : CALL(lib->syev_batched_room, s->handle, s->params, vectors, upper, n, s->type, rush_ptr(a), n, s->real, rush_ptr(values), s->type, &bytes, &host_bytes, batch))) {
        void *room = room_of(s, bytes), *host = rush_scope_alloc(host_bytes);
        if (rush_failed()) (void)0;
        else if (one) CALL(lib->syevd, s->handle, s->params, vectors, upper, n, s->type, rush_ptr(a), n, s->real, rush_ptr(values), s->type, room, bytes, host, host_bytes, info);
        else CALL(lib->syev_batched, s->handle, s->params, vectors, upper, n, s->type, rush_ptr(a), n, s->real, rush_ptr(values), s->type, room, bytes, host, host_bytes, info, batch);
    }
    leave();
    return rush_failed() ? -1 : 0;
}

/* in: A, UPLO, compute_v; out: values, vectors. What does not converge the host tries, too: it says what failed. */
static void eigh(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *a = in[0].t;
    const bool vectors = in[2].i;
    if (!a->numel || (ROWS(a) <= SMALL_EIGH && rush_batches(a) < BATCH_THAT_PAYS) || !has_libraries()) return cuda_host_run(op, in, out);
    rush_tensor *work = vectors ? out[1].t : new_columns(a, ROWS(a), ROWS(a)), *info = rush_tensor_new(RUSH_I32, a->device, a->ndim - 2, a->size);
    if (!work || !info || rush_copy_into(work, a) || factor_eigh(work, out[0].t, info, (in[1].s[0] & ~32) == 'U', vectors)) return;
    if (any_failed(info) && !rush_failed()) cuda_host_run(op, in, out);
}

/* By Jacobi's rotations, as PyTorch does it: A = U diag(values) V^H; a is overwritten. U and V are square, or have as many columns as there are values. */
static int factor_svd(rush_tensor *a, rush_tensor *u, rush_tensor *values, rush_tensor *v, rush_tensor *infos, bool vectors, bool together)
{
    const int m = ROWS(a), n = COLS(a), k = RUSH_MIN(m, n), econ = COLS(u) == k && COLS(v) == k;
    const int64_t batch = rush_batches(a);
    int *info = rush_ptr(infos), count;
    void *to_u = rush_ptr(u), *to_v = rush_ptr(v);
    solver *s = enter(a);
    if (!s) return -1;
    if (together) {
        if (!TYPED(lib, gesvdj_batched_room, s->handle, vectors, m, n, rush_ptr(a), m, rush_ptr(values), to_u, m, to_v, n, &count, s->jacobi, (int)batch)) {
            void *room = room_of(s, (size_t)count * BYTES(a));
            if (!rush_failed()) TYPED(lib, gesvdj_batched, s->handle, vectors, m, n, rush_ptr(a), m, rush_ptr(values), to_u, m, to_v, n, room, count, info, s->jacobi, (int)batch);
        }
    } else if (!TYPED(lib, gesvdj_room, s->handle, vectors, econ, m, n, rush_ptr(a), m, rush_ptr(values), to_u, m, to_v, n, &count, s->jacobi)) {
        void *room = room_of(s, (size_t)count * BYTES(a));
        for (int64_t b = 0; b < batch && !rush_failed(); b++)
            TYPED(lib, gesvdj, s->handle, vectors, econ, m, n, (void *)matrix(a, b), m, (void *)batch_row(values, b, k), (void *)matrix(u, b), m, (void *)matrix(v, b), n,
                  room, count, info + b, s->jacobi);
    }
    leave();
    return rush_failed() ? -1 : 0;
}

/* in: A, full_matrices, compute_uv, driver; out: U, S, Vh. Numbers that are not finite, and what does not converge, are the host's. */
static void svd(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *a = in[0].t;
    const bool vectors = in[2].i;
    if (!a->numel || !has_libraries()) return cuda_host_run(op, in, out);
    const int m = ROWS(a), n = COLS(a), k = RUSH_MIN(m, n);
    const bool together = RUSH_MAX(m, n) <= JACOBI_BATCHED && rush_batches(a) >= BATCH_THAT_PAYS; /* it gives square U and V only */
    if (k <= SMALL_SVD && !together) return cuda_host_run(op, in, out);
    rush_tensor *finite = T("all", V(T("isfinite", V(a))));
    if (!finite || rush_number_of(finite) == 0) return rush_failed() ? (void)0 : cuda_host_run(op, in, out);
    const int of_u = in[1].i || together ? m : k, of_v = in[1].i || together ? n : k;
    /* gesvdj ends with an internal error where it has no place for vectors, even if none are asked for */
    rush_tensor *work = new_columns(a, m, n), *u = new_columns(a, m, of_u), *v = new_columns(a, n, of_v);
    rush_tensor *info = rush_tensor_new(RUSH_I32, a->device, a->ndim - 2, a->size);
    if (rush_failed() || rush_copy_into(work, a) || factor_svd(work, u, out[1].t, v, info, vectors, together)) return;
    if (any_failed(info)) return rush_failed() ? (void)0 : cuda_host_run(op, in, out);
    if (vectors && !rush_copy_into(out[0].t, part(u, -1, 0, COLS(out[0].t)))) rush_copy_into(out[2].t, mH(part(v, -1, 0, ROWS(out[2].t))));
}

const cuda_kernel cuda_solver_kernels[] = {{"linalg_cholesky_ex", cholesky}, {"linalg_lu_factor_ex", lu_factor}, {"linalg_lu_solve", lu_solve},
                                           {"linalg_solve_triangular", solve_triangular}, {"geqrf", geqrf}, {"linalg_qr", qr}, {"_linalg_eigh", eigh}, {"_linalg_svd", svd}, {0}};
