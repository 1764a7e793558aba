/* product.c - matrix products: by cuBLASLt where it is and multiplies the dtype, else by product.cu, as on emulated devices.
 *
 * cuBLASLt counts down columns, tensors along rows: so c = a b is asked for as c' = b' a', whose matrices lie in memory as they are.
 */
#include "cuda/column.h"
#include "cuda/libraries.h"
#include "op/formula.h"
#include "ops/product/product.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static int check(cublasStatus_t status, const char *what) { return status ? rush_fail(RUSH_RUNTIME_ERROR, "CUDA error: %s answers %d", what, status) : 0; }

static cudaDataType_t data_type(rush_dtype d)
{
    switch (d) {
    case RUSH_F16: return CUDA_R_16F;
    case RUSH_BF16: return CUDA_R_16BF;
    case RUSH_F32: return CUDA_R_32F;
    case RUSH_F64: return CUDA_R_64F;
    case RUSH_C64: return CUDA_C_32F;
    case RUSH_C128: return CUDA_C_64F;
    default: return -1;
    }
}

/* How cuBLASLt reads a matrix of (batch, rows, columns): its own columns lie one behind the other, so rows that do are its columns. */
typedef struct laid {
    uint32_t rows, columns; /* as they lie */
    int32_t op, batch;      /* CUBLAS_OP_T: read the other way round */
    int64_t stride, apart;  /* elements from one of its columns to the next, and from matrix to matrix */
    uint32_t aligned, none; /* bytes; nothing */
} laid;

/* All that a plan depends on; no padding, since it is compared by its bytes. */
typedef struct key {
    laid a, b, c;
    int32_t dtype, device, compute, bias;
} key;

/* What cuBLASLt was told and what it chose: asking costs it 20 to 50 microseconds. */
typedef struct plan {
    key of;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulHeuristicResult_t chosen;
} plan;

enum { PLANS = 1024, WORKSPACE = 32 << 20 };
static plan *plans[PLANS]; /* by hash; the newer one stays */
static pthread_mutex_t plans_lock = PTHREAD_MUTEX_INITIALIZER;

static uint32_t alignment(const rush_tensor *t)
{
    const size_t p = (size_t)rush_ptr(t) | 256;
    return (uint32_t)(p & -p);
}

/* Can it be read as it lies? */
static bool side_of(laid *s, const rush_tensor *t)
{
    const int64_t rows = t->size[1], columns = t->size[2];
    *s = (laid){.batch = (int32_t)t->size[0], .apart = t->size[0] == 1 ? 0 : t->stride[0], .aligned = alignment(t)};
    if (t->flags & RUSH_T_NEG || t->size[0] > INT32_MAX || rows > INT32_MAX || columns > INT32_MAX) return false;
    const bool lies = columns == 1 || t->stride[2] == 1, turned = rows == 1 || t->stride[1] == 1, conj = t->flags & RUSH_T_CONJ;
    if (lies && !conj && (rows == 1 || t->stride[1] >= columns)) {
        s->rows = (uint32_t)columns, s->columns = (uint32_t)rows, s->stride = rows == 1 ? columns : t->stride[1];
        return true;
    }
    if (!turned || !(columns == 1 || t->stride[2] >= rows)) return false;
    s->rows = (uint32_t)rows, s->columns = (uint32_t)columns, s->op = conj ? CUBLAS_OP_C : CUBLAS_OP_T, s->stride = columns == 1 ? rows : t->stride[2];
    return true;
}

/* t as it can be read; a copy, where it cannot. */
static rush_tensor *read_as(laid *s, rush_tensor *t)
{
    if (side_of(s, t)) return t;
    t = rush_contiguous_copy(t);
    if (t && t->flags & (RUSH_T_CONJ | RUSH_T_NEG)) t = T("resolve_neg", V(T("resolve_conj", V(t))));
    RUSH_CHECK_NULL(!t || side_of(s, t), RUSH_NOT_IMPLEMENTED, "matrices of more than 2^31 - 1 rows are not multiplied on device 'cuda'");
    return t;
}

static int layout(const rush_cublaslt *lt, cublasLtMatrixLayout_t *made, rush_dtype dtype, const laid *s)
{
    return check(lt->layout_create(made, data_type(dtype), s->rows, s->columns, s->stride), "cublasLtMatrixLayoutCreate") ||
           check(lt->layout_set(*made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &s->batch, sizeof s->batch), "cublasLtMatrixLayoutSetAttribute") ||
           check(lt->layout_set(*made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &s->apart, sizeof s->apart), "cublasLtMatrixLayoutSetAttribute") ? -1 : 0;
}

static void plan_free(const rush_cublaslt *lt, plan *p)
{
    if (!p) return;
    if (p->a) lt->layout_destroy(p->a);
    if (p->b) lt->layout_destroy(p->b);
    if (p->c) lt->layout_destroy(p->c);
    if (p->desc) lt->desc_destroy(p->desc);
    rush_free(p);
}

/* Its first choice among the ways that fit; 1: it has none. */
static int choose(const rush_cublaslt *lt, cublasLtHandle_t handle, plan *p)
{
    const struct { int32_t what; uint32_t value; } asked[] = {{CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE}, /* sums of halves are not halves before the end */
                                                              {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, p->of.b.aligned}, {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, p->of.a.aligned},
                                                              {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, p->of.c.aligned}, {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, p->of.c.aligned}};
    const size_t room = WORKSPACE;
    cublasLtMatmulPreference_t preference = NULL;
    int found = 0, failed = check(lt->preference_create(&preference), "cublasLtMatmulPreferenceCreate") ||
                            check(lt->preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &room, sizeof room), "cublasLtMatmulPreferenceSetAttribute");
    for (size_t i = 0; i < RUSH_COUNT(asked) && !failed; i++)
        failed = check(lt->preference_set(preference, asked[i].what, &asked[i].value, sizeof asked[i].value), "cublasLtMatmulPreferenceSetAttribute");
    if (failed) return -1;
    int status = lt->heuristic(handle, p->desc, p->b, p->a, p->c, p->c, preference, 1, &p->chosen, &found);
    lt->preference_destroy(preference);
    return status || !found || p->chosen.state;
}

/* The plan for a key; NULL: an error, or none without one, where there is no way. Holding plans_lock. */
static plan *plan_for(const rush_cublaslt *lt, cublasLtHandle_t handle, const key *k, const void *bias)
{
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < sizeof *k / 4; i++) h = (h ^ ((const uint32_t *)k)[i]) * 1099511628211u;
    plan **at = &plans[(h >> 32) % PLANS], *p = *at;
    if (p && !memcmp(&p->of, k, sizeof *k)) return p;
    if (!(p = rush_calloc(1, sizeof *p))) return NULL;
    p->of = *k;
    const bool half = rush_dtypes[k->dtype].size == 2;
    const int32_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    int failed = check(lt->desc_create(&p->desc, k->compute, half ? CUDA_R_32F : data_type(k->dtype)), "cublasLtMatmulDescCreate") ||
                 check(lt->desc_set(p->desc, CUBLASLT_MATMUL_DESC_TRANSA, &k->b.op, sizeof k->b.op), "cublasLtMatmulDescSetAttribute") ||
                 check(lt->desc_set(p->desc, CUBLASLT_MATMUL_DESC_TRANSB, &k->a.op, sizeof k->a.op), "cublasLtMatmulDescSetAttribute") ||
                 (k->bias && (check(lt->desc_set(p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue), "cublasLtMatmulDescSetAttribute") ||
                              check(lt->desc_set(p->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias), "cublasLtMatmulDescSetAttribute"))) ||
                 layout(lt, &p->a, k->dtype, &k->a) || layout(lt, &p->b, k->dtype, &k->b) || layout(lt, &p->c, k->dtype, &k->c) ? -1 : choose(lt, handle, p);
    if (failed) {
        plan_free(lt, p);
        return NULL;
    }
    plan_free(lt, *at);
    return *at = p;
}

/* c = alpha a b + beta c, or + bias, a row. 1: the library has no way for these. */
static int by_library(const rush_cublaslt *lt, rush_tensor *a, rush_tensor *b, rush_tensor *c, const rush_tensor *bias, const double *alpha, const double *beta)
{
    static cublasLtHandle_t handles[CUDA_DEVICES];
    const bool wide = c->dtype == RUSH_F64 || c->dtype == RUSH_C128;
    const bool tf32 = (c->dtype == RUSH_F32 || c->dtype == RUSH_C64) && rush_cuda_switch(RUSH_PRODUCT_TF32, -1);
    const float by[4] = {(float)alpha[0], (float)alpha[1], (float)beta[0], (float)beta[1]};
    key k = {.dtype = c->dtype, .device = c->device.index, .compute = wide ? CUBLAS_COMPUTE_64F : tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, .bias = bias ? (int32_t)alignment(bias) : 0};
    a = read_as(&k.a, a), b = read_as(&k.b, b);
    const void *row = bias ? rush_ptr(bias) : NULL;
    if (!a || !b || !cuda_enter(c->device)) return -1;
    if (!side_of(&k.c, c) || k.c.op) return 1;
    pthread_mutex_lock(&plans_lock);
    cublasLtHandle_t *handle = &handles[c->device.index];
    const int mode = cuda_relaxed(c->device);
    int failed = !*handle && check(lt->create(handle), "cublasLtCreate") ? -1 : 0;
    plan *p = failed ? NULL : plan_for(lt, *handle, &k, row);
    cuda_strict(mode);
    if (!p) failed = failed || rush_failed() ? -1 : 1;
    const size_t room = p ? p->chosen.workspaceSize : 0;
    void *workspace = room ? cuda_alloc(c->device, room) : NULL;
    if (p && (room && !workspace)) failed = -1;
    if (!failed && bias) failed = check(lt->desc_set(p->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &row, sizeof row), "cublasLtMatmulDescSetAttribute");
    if (!failed)
        failed = check(lt->multiply(*handle, p->desc, wide ? (const void *)alpha : by, rush_ptr(b), p->b, rush_ptr(a), p->a, wide ? (const void *)beta : by + 2, rush_ptr(c), p->c,
                                    rush_ptr(c), p->c, &p->chosen.algo, workspace, room, cuda_stream(c->device)), "cublasLtMatmul");
    pthread_mutex_unlock(&plans_lock);
    if (workspace) cuda_free(c->device, workspace, room); /* in the stream's order: the product has it before anyone else */
    return failed;
}

/* The library, if it is to multiply these; NULL without an error: it is not. */
static const rush_cublaslt *library_for(const rush_tensor *a, const rush_tensor *c)
{
    if (cuda_emulated || a->dtype != c->dtype || data_type(c->dtype) < 0) return NULL;
    const rush_cublaslt *lt = cuda_cublaslt();
    if (!lt) rush_error_clear();
    return lt;
}

/* Is d a row that is added to each of c, which the library does on its way? */
static bool is_bias(const rush_tensor *d, const rush_tensor *c, const double *beta)
{
    if (c->dtype != d->dtype || (c->dtype != RUSH_F32 && rush_dtypes[c->dtype].size != 2) || d->flags & RUSH_T_NEG || beta[0] != 1 || beta[1] != 0) return false;
    for (int i = 0; i + 1 < d->ndim; i++)
        if (d->size[i] != 1) return false;
    return d->ndim && d->size[d->ndim - 1] == c->size[c->ndim - 1] && d->stride[d->ndim - 1] == 1;
}

static const char *steps(const rush_tensor *t, int64_t *step, uint8_t *dtype, uint8_t *lazy)
{
    for (int d = 0; d < 3; d++) step[d] = t->stride[d] * (int64_t)rush_dtypes[t->dtype].size;
    *dtype = t->dtype, *lazy = t->flags & (RUSH_T_CONJ | RUSH_T_NEG);
    return rush_ptr(t);
}

static void parts(rush_value v, double *to)
{
    to[0] = v.kind == RUSH_V_COMPLEX ? v.c[0] : rush_to_double(v);
    to[1] = v.kind == RUSH_V_COMPLEX ? v.c[1] : 0;
}

/* t as (batch, rows, columns) */
static rush_tensor *three(rush_tensor *t) { return t && t->ndim == 2 ? unsqueeze(t, 0) : t; }

/* c = alpha a b + beta d; d may be NULL, or broadcast. Of two or three dims each. */
int cuda_multiply(rush_tensor *a, rush_tensor *b, rush_tensor *d, rush_tensor *c, rush_value alpha, rush_value beta)
{
    char kernel[32];
    rush_tensor *to = c->flags & (RUSH_T_CONJ | RUSH_T_NEG) ? rush_tensor_new(c->dtype, c->device, c->ndim, c->size) : c;
    if (!c->numel) return 0;
    const rush_cublaslt *lt = library_for(a, c);
    if (lt && to && (to->stride[to->ndim - 1] != 1 || to->stride[to->ndim - 2] < to->size[to->ndim - 1])) to = rush_tensor_new(c->dtype, c->device, c->ndim, c->size);
    cuda_product p = {.alpha = {1}, .beta = {0}};
    if (HAS(alpha)) parts(alpha, p.alpha);
    if (d) parts(beta, p.beta);
    if (d && p.beta[0] == 0 && p.beta[1] == 0) d = NULL; /* what it holds does not count, be it NaN */
    rush_tensor *a3 = three(a), *b3 = three(b), *c3 = three(to);
    if (rush_failed()) return -1;
    if (lt && a3->size[2]) {
        static const double none[2];
        const bool bias = d && is_bias(d, c, p.beta);
        int no_way = bias ? by_library(lt, a3, b3, c3, d, p.alpha, none) : 1;
        if (no_way > 0) no_way = d && rush_copy_into(to, T("expand", V(d), rush_v_ints(c->size, c->ndim))) ? -1 : by_library(lt, a3, b3, c3, NULL, p.alpha, p.beta);
        if (no_way <= 0) return no_way || to == c ? no_way : rush_copy_into(c, to);
    }
    rush_tensor *d3 = d ? three(T("expand", V(d), rush_v_ints(c->size, c->ndim))) : NULL;
    if (rush_failed()) return -1;
    uint8_t none;
    p.batch = c3->size[0], p.m = c3->size[1], p.n = c3->size[2], p.k = a3->size[2];
    p.a = steps(a3, p.a_step, &p.a_dtype, &p.a_lazy), p.b = steps(b3, p.b_step, &p.b_dtype, &p.b_lazy);
    p.c = (char *)steps(c3, p.c_step, &p.c_dtype, &none);
    if (d) p.d = steps(d3, p.d_step, &p.d_dtype, &p.d_lazy);
    snprintf(kernel, sizeof kernel, "product_%s", cuda_word(c->dtype));
    const int64_t side = CUDA_PRODUCT_SIDE, squares = p.batch * ((p.m + side - 1) / side) * ((p.n + side - 1) / side);
    return cuda_launch_blocks(c->device, kernel, &p, squares) ? -1 : to == c ? 0 : rush_copy_into(c, to);
}

/* mm, bmm, _int_mm: in = self, mat2 */
static void product(const rush_op *op, const rush_value *in, rush_value *out) { cuda_multiply(in[0].t, in[1].t, NULL, out[0].t, RUSH_NONE, RUSH_NONE); }

/* _grouped_mm: in = self, mat2, offs */
static int multiply(rush_tensor *c, rush_tensor *a, rush_tensor *b) { return cuda_multiply(a, b, NULL, c, RUSH_NONE, RUSH_NONE); }
static void product_grouped(const rush_op *op, const rush_value *in, rush_value *out) { rush_grouped(out[0].t, in[0].t, in[1].t, T_(in[2]), multiply); }

/* addmm, baddbmm: in = self, a, b, beta, alpha */
static void product_added(const rush_op *op, const rush_value *in, rush_value *out) { cuda_multiply(in[1].t, in[2].t, in[0].t, out[0].t, in[4], in[3]); }

/* The sum over the batch: one product of all its columns and rows. */
static void product_summed(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *a = in[1].t, *b = in[2].t;
    a = T("reshape", V(transpose(a, 0, 1)), INTS(a->size[1], a->size[0] * a->size[2]));
    b = a ? T("reshape", V(b), INTS(b->size[0] * b->size[1], b->size[2])) : NULL;
    if (b) cuda_multiply(a, b, in[0].t, out[0].t, in[4], in[3]);
}

static void vector(rush_tensor *matrix, rush_tensor *v, rush_tensor *added, rush_tensor *to, rush_value alpha, rush_value beta)
{
    rush_tensor *column = unsqueeze(v, 1), *d = added ? unsqueeze(added, -1) : NULL, *c = unsqueeze(to, 1);
    if (!rush_failed()) cuda_multiply(matrix, column, d, c, alpha, beta);
}
static void product_vector(const rush_op *op, const rush_value *in, rush_value *out) { vector(in[0].t, in[1].t, NULL, out[0].t, RUSH_NONE, RUSH_NONE); }
static void product_vector_added(const rush_op *op, const rush_value *in, rush_value *out) { vector(in[1].t, in[2].t, in[0].t, out[0].t, in[4], in[3]); }

static void dot(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *sum = sum_all(mul(in[0].t, in[1].t));
    if (sum) rush_copy_into(out[0].t, sum);
}

/* in = input (..., k), weight (n, k) or (k), bias? */
static void linear(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *to = out[0].t, *w = in[1].t, *y = rush_contiguous(to) ? to : rush_tensor_new(to->dtype, to->device, to->ndim, to->size);
    const int64_t n = w->ndim == 1 ? 1 : w->size[0], k = w->size[w->ndim - 1];
    if (!y || !y->numel) return;
    rush_tensor *x = T("reshape", in[0], INTS(y->numel / n, k)), *flat = T("view", V(y), INTS(y->numel / n, n)), *turned = w->ndim == 1 ? unsqueeze(w, 1) : T("t", V(w));
    if (!rush_failed() && !cuda_multiply(x, turned, T_(in[2]), flat, RUSH_NONE, rush_v_int(1)) && y != to) rush_copy_into(to, y);
}

const cuda_kernel cuda_product_kernels[] = {{"mm", product}, {"bmm", product}, {"_int_mm", product}, {"addmm", product_added}, {"baddbmm", product_added}, {"addbmm", product_summed}, {"_grouped_mm", product_grouped},
                                            {"mv", product_vector}, {"addmv", product_vector_added}, {"dot", dot}, {"linear", linear}, {0}};

const char *cuda_library(void)
{
    static char listed[256];
    if (!*listed)
        for (const cuda_kernel *k = cuda_product_kernels; k->op; k++) snprintf(listed + strlen(listed), sizeof listed - strlen(listed), *listed ? " %s" : "%s", k->op);
    return listed;
}
