/* libraries.h - NVIDIA's libraries as tables of functions, opened when one is needed: cuBLAS and cuBLASLt, cuFFT, cuSOLVER, cuDNN, NCCL, NVRTC.
 *
 * The prototypes are written in the types of their headers. Here those are plain stand-ins of the same size, so that the build needs
 * no toolkit; libraries_check.c compiles the same tables against the headers themselves, where they are installed.
 */
#ifndef RUSH_CUDA_LIBRARIES_H
#define RUSH_CUDA_LIBRARIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The numbers of cudnn_graph.h that are used. N(name, value) */
#define RUSH_CUDNN_NUMBERS(N) \
    N(CUDNN_STATUS_NOT_SUPPORTED, 3000) N(CUDNN_STATUS_INTERNAL_ERROR, 4000) N(CUDNN_DATA_FLOAT, 0) N(CUDNN_DATA_DOUBLE, 1) N(CUDNN_DATA_HALF, 2) \
    N(CUDNN_DATA_BFLOAT16, 9) N(CUDNN_CROSS_CORRELATION, 1) N(CUDNN_HEUR_MODE_FALLBACK, 2) N(CUDNN_HEUR_MODE_A, 3) \
    N(CUDNN_NUMERICAL_NOTE_TENSOR_CORE, 0) N(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS, 1) N(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, 4) \
    N(CUDNN_TYPE_HANDLE, 0) N(CUDNN_TYPE_DATA_TYPE, 1) N(CUDNN_TYPE_INT64, 3) N(CUDNN_TYPE_FLOAT, 4) N(CUDNN_TYPE_DOUBLE, 5) N(CUDNN_TYPE_VOID_PTR, 6) \
    N(CUDNN_TYPE_CONVOLUTION_MODE, 7) N(CUDNN_TYPE_HEUR_MODE, 8) N(CUDNN_TYPE_NUMERICAL_NOTE, 11) N(CUDNN_TYPE_BACKEND_DESCRIPTOR, 15) \
    N(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, 1) N(CUDNN_BACKEND_ENGINE_DESCRIPTOR, 2) N(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, 3) \
    N(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, 4) N(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, 5) \
    N(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, 10) N(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, 11) \
    N(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, 12) N(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, 15) \
    N(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, 16) N(CUDNN_BACKEND_TENSOR_DESCRIPTOR, 17) N(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, 100) \
    N(CUDNN_ATTR_CONVOLUTION_CONV_MODE, 101) N(CUDNN_ATTR_CONVOLUTION_DILATIONS, 102) N(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 103) \
    N(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, 104) N(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 105) N(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 106) \
    N(CUDNN_ATTR_ENGINEHEUR_MODE, 200) N(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, 201) N(CUDNN_ATTR_ENGINEHEUR_RESULTS, 202) \
    N(CUDNN_ATTR_ENGINECFG_ENGINE, 300) N(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, 400) N(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, 401) \
    N(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, 402) N(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, 700) \
    N(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 701) N(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, 702) \
    N(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, 703) N(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, 704) \
    N(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, 705) N(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, 706) \
    N(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, 707) N(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, 708) \
    N(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, 709) N(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, 710) \
    N(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, 711) N(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, 712) \
    N(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, 713) N(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, 714) \
    N(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, 715) N(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, 716) \
    N(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, 717) N(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, 800) N(CUDNN_ATTR_OPERATIONGRAPH_OPS, 801) \
    N(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 900) N(CUDNN_ATTR_TENSOR_DATA_TYPE, 901) N(CUDNN_ATTR_TENSOR_DIMENSIONS, 902) \
    N(CUDNN_ATTR_TENSOR_STRIDES, 903) N(CUDNN_ATTR_TENSOR_UNIQUE_ID, 906) N(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, 1303) \
    N(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, 1000) N(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, 1001) N(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, 1003)

/* Those of nccl.h. */
#define RUSH_NCCL_NUMBERS(N) \
    N(ncclSuccess, 0) N(ncclInProgress, 7) N(ncclSum, 0) N(ncclProd, 1) N(ncclMax, 2) N(ncclMin, 3) N(ncclAvg, 4) N(ncclInt8, 0) N(ncclUint8, 1) N(ncclInt32, 2) N(ncclUint32, 3) \
    N(ncclInt64, 4) N(ncclUint64, 5) N(ncclFloat16, 6) N(ncclFloat32, 7) N(ncclFloat64, 8) N(ncclBfloat16, 9) N(ncclScalarHostImmediate, 1)
#define NCCL_SPLIT_NOCOLOR -1

#ifndef RUSH_NCCL_HEADER
typedef int ncclResult_t, ncclRedOp_t, ncclDataType_t, ncclScalarResidence_t;
typedef struct ncclComm *ncclComm_t;
typedef struct { char internal[128]; } ncclUniqueId;
typedef struct ncclConfig ncclConfig_t;
#define NCCL_NUMBER(name, value) name = value,
enum { RUSH_NCCL_NUMBERS(NCCL_NUMBER) };
#undef NCCL_NUMBER
#endif

#ifndef RUSH_CUDA_HEADERS
typedef int nvrtcResult; /* 0: all is well */
typedef struct _nvrtcProgram *nvrtcProgram;
typedef int cublasStatus_t, cufftResult, cufftHandle, cufftType, cusolverStatus_t, cudnnStatus_t; /* 0: all is well */
typedef int cublasComputeType_t, cudaDataType_t, cudaDataType, cublasLtMatmulDescAttributes_t, cublasLtMatrixLayoutAttribute_t, cublasLtMatmulPreferenceAttributes_t, cublasFillMode_t;
typedef int cublasOperation_t, cublasSideMode_t, cublasDiagType_t, cusolverEigMode_t;
typedef int cudnnDataType_t, cudnnConvolutionMode_t, cudnnBackendDescriptorType_t, cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, cudnnBackendHeurMode_t, cudnnBackendNumericalNote_t;
typedef struct CUstream_st *cudaStream_t;
typedef void *cublasLtHandle_t, *cublasLtMatmulDesc_t, *cublasLtMatrixLayout_t, *cublasLtMatmulPreference_t, *cusolverDnHandle_t, *cusolverDnParams_t, *cublasHandle_t, *gesvdjInfo_t;
typedef void *cudnnHandle_t, *cudnnBackendDescriptor_t;
typedef struct { uint64_t data[8]; } cublasLtMatmulAlgo_t;
typedef struct {
    cublasLtMatmulAlgo_t algo;
    size_t workspaceSize;
    cublasStatus_t state;
    float wavesCount;
    int reserved[4];
} cublasLtMatmulHeuristicResult_t;
typedef float cufftReal;
typedef double cufftDoubleReal;
typedef struct { float x, y; } cufftComplex, cuComplex;
typedef struct { double x, y; } cufftDoubleComplex, cuDoubleComplex;
enum { /* of library_types.h, cublas_api.h, cublasLt.h, cufft.h, and RUSH_CUDNN_NUMBERS of cudnn_graph.h */
#define LIBRARY_NUMBER(name, value) name = value,
    RUSH_CUDNN_NUMBERS(LIBRARY_NUMBER)
    CUBLAS_FILL_MODE_LOWER = 0, CUBLAS_FILL_MODE_UPPER = 1, CUBLAS_SIDE_LEFT = 0, CUBLAS_SIDE_RIGHT = 1,
    CUFFT_C2C = 0x29, CUFFT_R2C = 0x2a, CUFFT_C2R = 0x2c, CUFFT_D2Z = 0x6a, CUFFT_Z2Z = 0x69, CUFFT_Z2D = 0x6c,
    CUDA_R_32F = 0, CUDA_R_64F = 1, CUDA_R_16F = 2, CUDA_C_32F = 4, CUDA_C_64F = 5, CUDA_R_16BF = 14,
    CUBLAS_COMPUTE_32F = 68, CUBLAS_COMPUTE_32F_FAST_TF32 = 77, CUBLAS_COMPUTE_64F = 70, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT = 5, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET = 6,
    CUBLAS_OP_N = 0, CUBLAS_OP_T = 1, CUBLAS_OP_C = 2, CUBLASLT_MATMUL_DESC_TRANSA = 3, CUBLASLT_MATMUL_DESC_TRANSB = 4, CUBLASLT_MATMUL_DESC_EPILOGUE = 7,
    CUBLASLT_MATMUL_DESC_BIAS_POINTER = 8, CUBLASLT_EPILOGUE_BIAS = 4, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK = 3, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE = 2, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES = 6, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES = 7, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8
};
#endif

/* F(member, symbol, result, arguments) */
#define RUSH_CUBLASLT_FUNCTIONS(F)                                                                          \
    F(create, cublasLtCreate, cublasStatus_t, (cublasLtHandle_t *))                                         \
    F(desc_create, cublasLtMatmulDescCreate, cublasStatus_t, (cublasLtMatmulDesc_t *, cublasComputeType_t, cudaDataType_t scale)) \
    F(desc_set, cublasLtMatmulDescSetAttribute, cublasStatus_t, (cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t, const void *, size_t)) \
    F(preference_create, cublasLtMatmulPreferenceCreate, cublasStatus_t, (cublasLtMatmulPreference_t *))    \
    F(preference_set, cublasLtMatmulPreferenceSetAttribute, cublasStatus_t, (cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t, const void *, size_t)) \
    F(preference_destroy, cublasLtMatmulPreferenceDestroy, cublasStatus_t, (cublasLtMatmulPreference_t))    \
    F(heuristic, cublasLtMatmulAlgoGetHeuristic, cublasStatus_t, (cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b, \
      cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t, int asked, cublasLtMatmulHeuristicResult_t[], int *found)) \
    F(desc_destroy, cublasLtMatmulDescDestroy, cublasStatus_t, (cublasLtMatmulDesc_t))                      \
    F(layout_create, cublasLtMatrixLayoutCreate, cublasStatus_t, (cublasLtMatrixLayout_t *, cudaDataType, uint64_t rows, uint64_t columns, int64_t stride)) \
    F(layout_set, cublasLtMatrixLayoutSetAttribute, cublasStatus_t, (cublasLtMatrixLayout_t, cublasLtMatrixLayoutAttribute_t, const void *, size_t)) \
    F(layout_destroy, cublasLtMatrixLayoutDestroy, cublasStatus_t, (cublasLtMatrixLayout_t))                \
    F(multiply, cublasLtMatmul, cublasStatus_t, (cublasLtHandle_t, cublasLtMatmulDesc_t, const void *alpha, const void *a, cublasLtMatrixLayout_t, \
      const void *b, cublasLtMatrixLayout_t, const void *beta, const void *c, cublasLtMatrixLayout_t, void *d, cublasLtMatrixLayout_t, \
      const cublasLtMatmulAlgo_t *, void *workspace, size_t bytes, cudaStream_t))

#define RUSH_CUFFT_FUNCTIONS(F)                                                                             \
    F(create, cufftCreate, cufftResult, (cufftHandle *))                                                    \
    F(destroy, cufftDestroy, cufftResult, (cufftHandle))                                                    \
    F(plan, cufftMakePlanMany64, cufftResult, (cufftHandle, int rank, long long *n, long long *inembed, long long istride, long long idist, \
      long long *onembed, long long ostride, long long odist, cufftType, long long batch, size_t *bytes))   \
    F(own_room, cufftSetAutoAllocation, cufftResult, (cufftHandle, int on))                                 \
    F(room, cufftSetWorkArea, cufftResult, (cufftHandle, void *))                                           \
    F(stream, cufftSetStream, cufftResult, (cufftHandle, cudaStream_t))                                     \
    F(c2c, cufftExecC2C, cufftResult, (cufftHandle, cufftComplex *, cufftComplex *, int direction))         \
    F(z2z, cufftExecZ2Z, cufftResult, (cufftHandle, cufftDoubleComplex *, cufftDoubleComplex *, int direction)) \
    F(r2c, cufftExecR2C, cufftResult, (cufftHandle, cufftReal *, cufftComplex *))                           \
    F(c2r, cufftExecC2R, cufftResult, (cufftHandle, cufftComplex *, cufftReal *))                           \
    F(d2z, cufftExecD2Z, cufftResult, (cufftHandle, cufftDoubleReal *, cufftDoubleComplex *))               \
    F(z2d, cufftExecZ2D, cufftResult, (cufftHandle, cufftDoubleComplex *, cufftDoubleReal *))

/* Those that have a function for each type: its letter, small and large, "or" or "un", the type and that of its parts. */
#define RUSH_CUSOLVER_TYPED(F, l, L, q, N, R)                                                               \
    F(l##potrf_batched, cusolverDn##L##potrfBatched, cusolverStatus_t, (cusolverDnHandle_t, cublasFillMode_t, int n, N *a[], int lda, int *info, int batch)) \
    F(l##getrf_room, cusolverDn##L##getrf_bufferSize, cusolverStatus_t, (cusolverDnHandle_t, int m, int n, N *a, int lda, int *room)) \
    F(l##getrf, cusolverDn##L##getrf, cusolverStatus_t, (cusolverDnHandle_t, int m, int n, N *a, int lda, N *room, int *pivots, int *info)) \
    F(l##getrs, cusolverDn##L##getrs, cusolverStatus_t, (cusolverDnHandle_t, cublasOperation_t, int n, int nrhs, const N *a, int lda, const int *pivots, N *b, int ldb, int *info)) \
    F(l##q##gqr_room, cusolverDn##L##q##gqr_bufferSize, cusolverStatus_t, (cusolverDnHandle_t, int m, int n, int k, const N *a, int lda, const N *tau, int *room)) \
    F(l##q##gqr, cusolverDn##L##q##gqr, cusolverStatus_t, (cusolverDnHandle_t, int m, int n, int k, N *a, int lda, const N *tau, N *room, int, int *info)) \
    F(l##gesvdj_room, cusolverDn##L##gesvdj_bufferSize, cusolverStatus_t, (cusolverDnHandle_t, cusolverEigMode_t, int econ, int m, int n, const N *a, int lda, \
      const R *s, const N *u, int ldu, const N *v, int ldv, int *room, gesvdjInfo_t))                       \
    F(l##gesvdj, cusolverDn##L##gesvdj, cusolverStatus_t, (cusolverDnHandle_t, cusolverEigMode_t, int econ, int m, int n, N *a, int lda, R *s, N *u, int ldu, \
      N *v, int ldv, N *room, int, int *info, gesvdjInfo_t))                                                \
    F(l##gesvdj_batched_room, cusolverDn##L##gesvdjBatched_bufferSize, cusolverStatus_t, (cusolverDnHandle_t, cusolverEigMode_t, int m, int n, const N *a, int lda, \
      const R *s, const N *u, int ldu, const N *v, int ldv, int *room, gesvdjInfo_t, int batch))            \
    F(l##gesvdj_batched, cusolverDn##L##gesvdjBatched, cusolverStatus_t, (cusolverDnHandle_t, cusolverEigMode_t, int m, int n, N *a, int lda, R *s, N *u, int ldu, \
      N *v, int ldv, N *room, int, int *info, gesvdjInfo_t, int batch))

#define RUSH_CUSOLVER_FUNCTIONS(F)                                                                          \
    F(create, cusolverDnCreate, cusolverStatus_t, (cusolverDnHandle_t *))                                   \
    F(stream, cusolverDnSetStream, cusolverStatus_t, (cusolverDnHandle_t, cudaStream_t))                    \
    F(params, cusolverDnCreateParams, cusolverStatus_t, (cusolverDnParams_t *))                             \
    F(jacobi, cusolverDnCreateGesvdjInfo, cusolverStatus_t, (gesvdjInfo_t *))                               \
    F(potrf_room, cusolverDnXpotrf_bufferSize, cusolverStatus_t, (cusolverDnHandle_t, cusolverDnParams_t, cublasFillMode_t, int64_t n, cudaDataType, \
      const void *a, int64_t lda, cudaDataType compute, size_t *device, size_t *host))                      \
    F(potrf, cusolverDnXpotrf, cusolverStatus_t, (cusolverDnHandle_t, cusolverDnParams_t, cublasFillMode_t, int64_t n, cudaDataType, void *a, int64_t lda, \
      cudaDataType compute, void *device, size_t, void *host, size_t, int *info))                           \
    F(geqrf_room, cusolverDnXgeqrf_bufferSize, cusolverStatus_t, (cusolverDnHandle_t, cusolverDnParams_t, int64_t m, int64_t n, cudaDataType, const void *a, \
      int64_t lda, cudaDataType of_tau, const void *tau, cudaDataType compute, size_t *device, size_t *host)) \
    F(geqrf, cusolverDnXgeqrf, cusolverStatus_t, (cusolverDnHandle_t, cusolverDnParams_t, int64_t m, int64_t n, cudaDataType, void *a, int64_t lda, \
      cudaDataType of_tau, void *tau, cudaDataType compute, void *device, size_t, void *host, size_t, int *info)) \
    F(syevd_room, cusolverDnXsyevd_bufferSize, cusolverStatus_t, (cusolverDnHandle_t, cusolverDnParams_t, cusolverEigMode_t, cublasFillMode_t, int64_t n, \
      cudaDataType, const void *a, int64_t lda, cudaDataType of_values, const void *values, cudaDataType compute, size_t *device, size_t *host)) \
    F(syevd, cusolverDnXsyevd, cusolverStatus_t, (cusolverDnHandle_t, cusolverDnParams_t, cusolverEigMode_t, cublasFillMode_t, int64_t n, cudaDataType, void *a, \
      int64_t lda, cudaDataType of_values, void *values, cudaDataType compute, void *device, size_t, void *host, size_t, int *info)) \
    F(syev_batched_room, cusolverDnXsyevBatched_bufferSize, cusolverStatus_t, (cusolverDnHandle_t, cusolverDnParams_t, cusolverEigMode_t, cublasFillMode_t, \
      int64_t n, cudaDataType, const void *a, int64_t lda, cudaDataType of_values, const void *values, cudaDataType compute, size_t *device, size_t *host, int64_t batch)) \
    F(syev_batched, cusolverDnXsyevBatched, cusolverStatus_t, (cusolverDnHandle_t, cusolverDnParams_t, cusolverEigMode_t, cublasFillMode_t, int64_t n, \
      cudaDataType, void *a, int64_t lda, cudaDataType of_values, void *values, cudaDataType compute, void *device, size_t, void *host, size_t, int *info, int64_t batch)) \
    RUSH_CUSOLVER_TYPED(F, s, S, or, float, float) RUSH_CUSOLVER_TYPED(F, d, D, or, double, double)         \
    RUSH_CUSOLVER_TYPED(F, c, C, un, cuComplex, float) RUSH_CUSOLVER_TYPED(F, z, Z, un, cuDoubleComplex, double)

#define RUSH_CUBLAS_TYPED(F, l, L, N)                                                                       \
    F(l##trsm, cublas##L##trsm_v2, cublasStatus_t, (cublasHandle_t, cublasSideMode_t, cublasFillMode_t, cublasOperation_t, cublasDiagType_t, int m, int n, \
      const N *alpha, const N *a, int lda, N *b, int ldb))                                                  \
    F(l##trsm_batched, cublas##L##trsmBatched, cublasStatus_t, (cublasHandle_t, cublasSideMode_t, cublasFillMode_t, cublasOperation_t, cublasDiagType_t, int m, int n, \
      const N *alpha, const N *const a[], int lda, N *const b[], int ldb, int batch))                       \
    F(l##getrf_batched, cublas##L##getrfBatched, cublasStatus_t, (cublasHandle_t, int n, N *const a[], int lda, int *pivots, int *info, int batch)) \
    F(l##getrs_batched, cublas##L##getrsBatched, cublasStatus_t, (cublasHandle_t, cublasOperation_t, int n, int nrhs, const N *const a[], int lda, const int *pivots, \
      N *const b[], int ldb, int *info, int batch))

#define RUSH_CUBLAS_FUNCTIONS(F)                                                                            \
    F(create, cublasCreate_v2, cublasStatus_t, (cublasHandle_t *))                                          \
    F(stream, cublasSetStream_v2, cublasStatus_t, (cublasHandle_t, cudaStream_t))                           \
    RUSH_CUBLAS_TYPED(F, s, S, float) RUSH_CUBLAS_TYPED(F, d, D, double) RUSH_CUBLAS_TYPED(F, c, C, cuComplex) RUSH_CUBLAS_TYPED(F, z, Z, cuDoubleComplex)

/* Of cuDNN the graph API alone: a descriptor of any kind is made, given attributes, finished, asked. */
#define RUSH_CUDNN_FUNCTIONS(F)                                                                             \
    F(version, cudnnGetVersion, size_t, (void))                                                             \
    F(status_text, cudnnGetErrorString, const char *, (cudnnStatus_t))                                      \
    F(last_error, cudnnGetLastErrorString, void, (char *text, size_t room))                                 \
    F(create, cudnnCreate, cudnnStatus_t, (cudnnHandle_t *))                                                \
    F(destroy, cudnnDestroy, cudnnStatus_t, (cudnnHandle_t))                                                \
    F(stream, cudnnSetStream, cudnnStatus_t, (cudnnHandle_t, cudaStream_t))                                 \
    F(make, cudnnBackendCreateDescriptor, cudnnStatus_t, (cudnnBackendDescriptorType_t, cudnnBackendDescriptor_t *)) \
    F(drop, cudnnBackendDestroyDescriptor, cudnnStatus_t, (cudnnBackendDescriptor_t))                       \
    F(set, cudnnBackendSetAttribute, cudnnStatus_t, (cudnnBackendDescriptor_t, cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, int64_t n, \
      const void *))                                                                                        \
    F(get, cudnnBackendGetAttribute, cudnnStatus_t, (cudnnBackendDescriptor_t, cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, int64_t room, \
      int64_t *n, void *))                                                                                  \
    F(finish, cudnnBackendFinalize, cudnnStatus_t, (cudnnBackendDescriptor_t))                              \
    F(execute, cudnnBackendExecute, cudnnStatus_t, (cudnnHandle_t, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack))

#define RUSH_NCCL_FUNCTIONS(F)                                                                              \
    F(version, ncclGetVersion, ncclResult_t, (int *))                                                       \
    F(error_text, ncclGetErrorString, const char *, (ncclResult_t))                                         \
    F(last_error, ncclGetLastError, const char *, (ncclComm_t))                                             \
    F(unique_id, ncclGetUniqueId, ncclResult_t, (ncclUniqueId *))                                           \
    F(init, ncclCommInitRank, ncclResult_t, (ncclComm_t *, int ranks, ncclUniqueId, int rank))              \
    F(init_all, ncclCommInitAll, ncclResult_t, (ncclComm_t *, int n, const int *devices))                   \
    F(split, ncclCommSplit, ncclResult_t, (ncclComm_t, int color, int key, ncclComm_t *, ncclConfig_t *))   \
    F(destroy, ncclCommDestroy, ncclResult_t, (ncclComm_t))                                                 \
    F(abort, ncclCommAbort, ncclResult_t, (ncclComm_t))                                                     \
    F(async_error, ncclCommGetAsyncError, ncclResult_t, (ncclComm_t, ncclResult_t *))                       \
    F(premul_create, ncclRedOpCreatePreMulSum, ncclResult_t, (ncclRedOp_t *, void *scalar, ncclDataType_t, ncclScalarResidence_t, ncclComm_t)) \
    F(op_destroy, ncclRedOpDestroy, ncclResult_t, (ncclRedOp_t, ncclComm_t))                                \
    F(all_reduce, ncclAllReduce, ncclResult_t, (const void *, void *, size_t n, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t)) \
    F(broadcast, ncclBroadcast, ncclResult_t, (const void *, void *, size_t n, ncclDataType_t, int root, ncclComm_t, cudaStream_t)) \
    F(reduce, ncclReduce, ncclResult_t, (const void *, void *, size_t n, ncclDataType_t, ncclRedOp_t, int root, ncclComm_t, cudaStream_t)) \
    F(all_gather, ncclAllGather, ncclResult_t, (const void *, void *, size_t n, ncclDataType_t, ncclComm_t, cudaStream_t)) \
    F(reduce_scatter, ncclReduceScatter, ncclResult_t, (const void *, void *, size_t n, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t)) \
    F(send, ncclSend, ncclResult_t, (const void *, size_t n, ncclDataType_t, int to, ncclComm_t, cudaStream_t)) \
    F(receive, ncclRecv, ncclResult_t, (void *, size_t n, ncclDataType_t, int from, ncclComm_t, cudaStream_t)) \
    F(group_start, ncclGroupStart, ncclResult_t, (void))                                                    \
    F(group_end, ncclGroupEnd, ncclResult_t, (void))

/* The compiler of C++ that runs in a process; nvrtc.h */
#define RUSH_NVRTC_FUNCTIONS(F)                                                                             \
    F(text_of, nvrtcGetErrorString, const char *, (nvrtcResult))                                            \
    F(architecture_count, nvrtcGetNumSupportedArchs, nvrtcResult, (int *))                                  \
    F(architectures, nvrtcGetSupportedArchs, nvrtcResult, (int *))                                          \
    F(version, nvrtcVersion, nvrtcResult, (int *major, int *minor))                                         \
    F(create, nvrtcCreateProgram, nvrtcResult, (nvrtcProgram *, const char *text, const char *name, int nheaders, const char *const *headers, const char *const *names)) \
    F(destroy, nvrtcDestroyProgram, nvrtcResult, (nvrtcProgram *))                                          \
    F(compile, nvrtcCompileProgram, nvrtcResult, (nvrtcProgram, int noptions, const char *const *options))  \
    F(log_size, nvrtcGetProgramLogSize, nvrtcResult, (nvrtcProgram, size_t *))                              \
    F(log, nvrtcGetProgramLog, nvrtcResult, (nvrtcProgram, char *))                                         \
    F(cubin_size, nvrtcGetCUBINSize, nvrtcResult, (nvrtcProgram, size_t *))                                 \
    F(cubin, nvrtcGetCUBIN, nvrtcResult, (nvrtcProgram, char *))                                            \
    F(ptx_size, nvrtcGetPTXSize, nvrtcResult, (nvrtcProgram, size_t *))                                     \
    F(ptx, nvrtcGetPTX, nvrtcResult, (nvrtcProgram, char *))

#define LIBRARY_MEMBER(member, symbol, result, args) result (*member) args;
typedef struct rush_cublaslt { RUSH_CUBLASLT_FUNCTIONS(LIBRARY_MEMBER) } rush_cublaslt;
typedef struct rush_cufft { RUSH_CUFFT_FUNCTIONS(LIBRARY_MEMBER) } rush_cufft;
typedef struct rush_cusolver { RUSH_CUSOLVER_FUNCTIONS(LIBRARY_MEMBER) } rush_cusolver;
typedef struct rush_cublas { RUSH_CUBLAS_FUNCTIONS(LIBRARY_MEMBER) } rush_cublas;
typedef struct rush_cudnn { RUSH_CUDNN_FUNCTIONS(LIBRARY_MEMBER) } rush_cudnn;
typedef struct rush_nvrtc { RUSH_NVRTC_FUNCTIONS(LIBRARY_MEMBER) } rush_nvrtc;
typedef struct rush_nccl_library { RUSH_NCCL_FUNCTIONS(LIBRARY_MEMBER) } rush_nccl_library;

/* Are they to be asked at all? On NVIDIA's devices; on emulated ones where RUSHLIGHT_CUDA_LIBRARIES names a folder with stand-ins. */
bool cuda_has_libraries(void);
/* The library with all of its functions; NULL and an error: it is not there, or lacks one. */
const rush_cublaslt *cuda_cublaslt(void);
const rush_cufft *cuda_cufft(void);
const rush_cusolver *cuda_cusolver(void);
const rush_cublas *cuda_cublas(void);
const rush_cudnn *cuda_cudnn(void);
const rush_nccl_library *cuda_nccl(void);
const rush_nvrtc *cuda_nvrtc(void);

#endif
