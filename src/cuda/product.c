/* product.c - matrix products: by cuBLASLt where it is and multiplies the dtype, else by product.cu, as on emulated devices.
 *
 * The calls of cuBLASLt were compiled, with prototypes that libraries_check.c compares with NVIDIA's headers; never run. It counts
 * down columns, tensors along rows: so c = a b is asked for as c' = b' a', whose matrices lie in memory as they are.
 */
#include "cuda/column.h"
#include "cuda/libraries.h"
#include "op/formula.h"
#include <stdio.h>

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

/* `batch` matrices of rows by columns, each contiguous, `apart` from each other. */
static int layout(const rush_cublaslt *lt, cublasLtMatrixLayout_t *made, const rush_tensor *t)
{
    const int32_t count = (int32_t)t->size[0];
    const int64_t apart = t->stride[0];
    return check(lt->layout_create(made, data_type(t->dtype), (uint64_t)t->size[2], (uint64_t)t->size[1], RUSH_MAX(t->size[2], 1)), "cublasLtMatrixLayoutCreate") ||
           check(lt->layout_set(*made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count), "cublasLtMatrixLayoutSetAttribute") ||
           check(lt->layout_set(*made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &apart, sizeof apart), "cublasLtMatrixLayoutSetAttribute") ? -1 : 0;
}

static cublasLtHandle_t handle_of(const rush_cublaslt *lt, rush_device d)
{
    static _Thread_local cublasLtHandle_t handles[CUDA_DEVICES];
    if (!cuda_enter(d) || (!handles[d.index] && check(lt->create(&handles[d.index]), "cublasLtCreate"))) return NULL;
    return handles[d.index];
}

/* The library, if it is to multiply these; NULL without an error: it is not. */
static const rush_cublaslt *library_for(const rush_tensor *a, const rush_tensor *c)
{
    if (cuda_emulated || a->dtype != c->dtype || data_type(c->dtype) < 0) return NULL;
    const rush_cublaslt *lt = cuda_cublaslt();
    if (!lt) rush_error_clear();
    return lt;
}

/* Each matrix of (batch, rows, columns) contiguous, however the batch lies. */
static bool is_dense(const rush_tensor *t) { return !(t->flags & (RUSH_T_CONJ | RUSH_T_NEG)) && t->stride[2] == 1 && t->stride[1] == t->size[2]; }
static rush_tensor *dense(rush_tensor *t) { return is_dense(t) ? t : rush_contiguous_copy(t); }

static int by_library(const rush_cublaslt *lt, rush_tensor *a, rush_tensor *b, rush_tensor *c, const double *alpha, const double *beta)
{
    const bool wide = c->dtype == RUSH_F64 || c->dtype == RUSH_C128;
    const float by[4] = {(float)alpha[0], (float)alpha[1], (float)beta[0], (float)beta[1]};
    cublasLtMatmulDesc_t desc = NULL;
    cublasLtMatrixLayout_t of_a = NULL, of_b = NULL, of_c = NULL;
    cublasLtHandle_t handle = handle_of(lt, c->device);
    a = dense(a), b = dense(b);
    if (!handle || !a || !b) return -1;
    int failed = check(lt->desc_create(&desc, wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F, rush_dtypes[c->dtype].size == 2 ? CUDA_R_32F : data_type(c->dtype)),
                       "cublasLtMatmulDescCreate") || layout(lt, &of_a, a) || layout(lt, &of_b, b) || layout(lt, &of_c, c);
    failed = failed || check(lt->multiply(handle, desc, wide ? (const void *)alpha : by, rush_ptr(b), of_b, rush_ptr(a), of_a, wide ? (const void *)beta : by + 2, rush_ptr(c), of_c,
                                          rush_ptr(c), of_c, NULL, NULL, 0, cuda_stream(c->device)), "cublasLtMatmul");
    if (of_a) lt->layout_destroy(of_a);
    if (of_b) lt->layout_destroy(of_b);
    if (of_c) lt->layout_destroy(of_c);
    if (desc) lt->desc_destroy(desc);
    return failed ? -1 : 0;
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
    if (lt && to && !rush_contiguous(to)) to = rush_tensor_new(c->dtype, c->device, c->ndim, c->size);
    cuda_product p = {.alpha = {1}, .beta = {0}};
    if (HAS(alpha)) parts(alpha, p.alpha);
    if (d) parts(beta, p.beta);
    if (d && p.beta[0] == 0 && p.beta[1] == 0) d = NULL; /* what it holds does not count, be it NaN */
    if (d) d = T("expand", V(d), rush_v_ints(c->size, c->ndim));
    rush_tensor *a3 = three(a), *b3 = three(b), *c3 = three(to), *d3 = three(d);
    if (rush_failed()) return -1;
    if (lt && a3->size[2]) {
        if ((d && rush_copy_into(to, d)) || by_library(lt, a3, b3, c3, p.alpha, p.beta)) return -1;
        return to == c ? 0 : rush_copy_into(c, to);
    }
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

const cuda_kernel cuda_product_kernels[] = {{"mm", product}, {"bmm", product}, {"_int_mm", product}, {"addmm", product_added}, {"baddbmm", product_added}, {"addbmm", product_summed},
                                            {"mv", product_vector}, {"addmv", product_vector_added}, {"dot", dot}, {"linear", linear}, {0}};

const char *cuda_library(void)
{
    static char listed[256];
    if (!*listed)
        for (const cuda_kernel *k = cuda_product_kernels; k->op; k++) snprintf(listed + strlen(listed), sizeof listed - strlen(listed), *listed ? " %s" : "%s", k->op);
    return listed;
}
