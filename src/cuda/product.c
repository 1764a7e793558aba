/* product.c - matrix products by cuBLASLt. Compiled, with prototypes that libraries_check.c compares with NVIDIA's headers; never run.
 *
 * cuBLASLt counts down columns, tensors along rows: so c = a b is asked for as c' = b' a', whose matrices lie in memory as they are.
 */
#include "cuda/column.h"
#include "cuda/libraries.h"
#include "op/formula.h"

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

/* `batch` matrices of rows by columns, contiguous. */
static int layout(const rush_cublaslt *lt, cublasLtMatrixLayout_t *made, cudaDataType_t type, int64_t batch, int64_t rows, int64_t columns)
{
    const int32_t count = (int32_t)batch;
    const int64_t apart = rows * columns;
    return check(lt->layout_create(made, type, (uint64_t)columns, (uint64_t)rows, RUSH_MAX(columns, 1)), "cublasLtMatrixLayoutCreate") ||
           check(lt->layout_set(*made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count), "cublasLtMatrixLayoutSetAttribute") ||
           check(lt->layout_set(*made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &apart, sizeof apart), "cublasLtMatrixLayoutSetAttribute") ? -1 : 0;
}

static cublasLtHandle_t handle_of(const rush_cublaslt *lt, rush_device d)
{
    static _Thread_local cublasLtHandle_t handles[CUDA_DEVICES];
    if (!cuda_enter(d) || (!handles[d.index] && check(lt->create(&handles[d.index]), "cublasLtCreate"))) return NULL;
    return handles[d.index];
}

/* c (batch, m, n) = a (batch, m, k) b (batch, k, n), all contiguous and of one dtype. */
static int multiply(const rush_tensor *a, const rush_tensor *b, rush_tensor *c, int64_t batch)
{
    const int64_t m = c->size[c->ndim - 2], n = c->size[c->ndim - 1], k = a->size[a->ndim - 1];
    const rush_cublaslt *lt = cuda_cublaslt();
    const cudaDataType_t type = data_type(c->dtype), scale = rush_dtypes[c->dtype].size == 2 ? CUDA_R_32F : type;
    const bool wide = c->dtype == RUSH_F64 || c->dtype == RUSH_C128;
    cublasLtMatmulDesc_t desc = NULL;
    cublasLtMatrixLayout_t of_a = NULL, of_b = NULL, of_c = NULL;
    const float one[2] = {1, 0}, zero[2] = {0, 0};
    const double one_wide[2] = {1, 0}, zero_wide[2] = {0, 0};
    RUSH_CHECK(type >= 0, RUSH_NOT_IMPLEMENTED, "Could not run 'aten::%s' on device 'cuda': cuBLASLt multiplies no matrices of %s.", rush_now.op->name, rush_dtype_name(c->dtype));
    cublasLtHandle_t handle = lt ? handle_of(lt, c->device) : NULL;
    if (!handle) return -1;
    int failed = check(lt->desc_create(&desc, wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F, scale), "cublasLtMatmulDescCreate") || layout(lt, &of_a, type, batch, m, k) ||
                 layout(lt, &of_b, type, batch, k, n) || layout(lt, &of_c, type, batch, m, n);
    failed = failed || check(lt->multiply(handle, desc, wide ? (const void *)one_wide : one, rush_ptr(b), of_b, rush_ptr(a), of_a, wide ? (const void *)zero_wide : zero,
                                        rush_ptr(c), of_c, rush_ptr(c), of_c, NULL, NULL, 0, cuda_stream(c->device)), "cublasLtMatmul");
    if (of_a) lt->layout_destroy(of_a);
    if (of_b) lt->layout_destroy(of_b);
    if (of_c) lt->layout_destroy(of_c);
    if (desc) lt->desc_destroy(desc);
    return failed ? -1 : 0;
}

/* mm and bmm: in = self, mat2 */
static void product(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *c = out[0].t, *a = rush_contiguous_copy(in[0].t), *b = rush_contiguous_copy(in[1].t);
    if (!c->numel || !a || !b) return;
    if (!a->numel) return (void)rush_device_fill(c, rush_v_int(0));
    rush_tensor *to = rush_contiguous(c) && !(c->flags & (RUSH_T_CONJ | RUSH_T_NEG)) ? c : rush_tensor_new(c->dtype, c->device, c->ndim, c->size);
    if (to && !multiply(a, b, to, c->ndim == 3 ? c->size[0] : 1) && to != c) rush_copy_into(c, to);
}

static rush_tensor *scaled(rush_tensor *t, rush_value by) { return T("mul.Scalar", V(t), by); }

/* addmm, baddbmm: in = self, a, b, beta, alpha */
static void product_added(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *ab = scaled(out[0].t->ndim == 3 ? T("bmm", in[1], in[2]) : T("mm", in[1], in[2]), in[4]);
    rush_tensor *sum = rush_to_double(in[3]) == 0 ? ab : T("add.Tensor", V(ab), V(scaled(in[0].t, in[3])), V((int64_t)1));
    if (sum) rush_copy_into(out[0].t, sum);
}

/* in = input (..., k), weight (n, k), bias? */
static void linear(const rush_op *op, const rush_value *in, rush_value *out)
{
    const int64_t k = in[1].t->size[in[1].t->ndim - 1];
    rush_tensor *y = T("mm", V(T("reshape", in[0], INTS(-1, k))), V(T("t", in[1])));
    y = T("view", V(y), rush_v_ints(out[0].t->size, out[0].t->ndim));
    if (HAS(in[2])) y = T("add.Tensor", V(y), in[2], V((int64_t)1));
    if (y) rush_copy_into(out[0].t, y);
}

rush_kernel cuda_product(const char *op)
{
    static const struct { const char *op; rush_kernel kernel; } connected[] = {
        {"mm", product}, {"bmm", product}, {"addmm", product_added}, {"baddbmm", product_added}, {"linear", linear}};
    for (size_t i = 0; i < RUSH_COUNT(connected); i++)
        if (!strcmp(op, connected[i].op)) return connected[i].kernel;
    return NULL;
}
