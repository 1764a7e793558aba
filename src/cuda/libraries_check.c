/* libraries_check.c - the tables of libraries.h against NVIDIA's headers: it only has to compile, and is empty where they are not
 * installed. */
#if __has_include(<cublasLt.h>) && __has_include(<cublas_v2.h>) && __has_include(<cudnn.h>) && __has_include(<cufft.h>) && __has_include(<cusolverDn.h>) && __has_include(<nvrtc.h>)
#define RUSH_CUDA_HEADERS
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cudnn.h>
#include <cufft.h>
#include <cusolverDn.h>
#include <nvrtc.h>
#if __has_include(<nccl.h>)
#define RUSH_NCCL_HEADER
#include <nccl.h>
#endif
#include "cuda/libraries.h"

#define SAME(member, symbol, result, args) _Static_assert(__builtin_types_compatible_p(__typeof__(symbol), result args), #symbol " has another type");
RUSH_CUBLASLT_FUNCTIONS(SAME)
RUSH_CUFFT_FUNCTIONS(SAME)
RUSH_CUSOLVER_FUNCTIONS(SAME)
RUSH_CUBLAS_FUNCTIONS(SAME)
RUSH_CUDNN_FUNCTIONS(SAME)
RUSH_NCCL_FUNCTIONS(SAME)
RUSH_NVRTC_FUNCTIONS(SAME)
#define IS(name, value) _Static_assert(name == value, #name " is another number");
RUSH_CUDNN_NUMBERS(IS)
RUSH_NCCL_NUMBERS(IS)
_Static_assert(sizeof(ncclUniqueId) == 128, "ncclUniqueId");
_Static_assert(sizeof(cudnnDataType_t) == 4 && sizeof(cudnnConvolutionMode_t) == 4 && sizeof(cudnnBackendHeurMode_t) == 4 && sizeof(cudnnBackendNumericalNote_t) == 4,
               "attributes of other sizes");
_Static_assert(sizeof(cublasLtMatmulAlgo_t) == 64 && sizeof(cufftHandle) == 4, "the stand-ins have other sizes");
_Static_assert(CUDA_R_32F == 0 && CUDA_R_64F == 1 && CUDA_R_16F == 2 && CUDA_C_32F == 4 && CUDA_C_64F == 5 && CUDA_R_16BF == 14, "cudaDataType");
_Static_assert(CUBLAS_COMPUTE_32F == 68 && CUBLAS_COMPUTE_32F_FAST_TF32 == 77 && CUBLAS_COMPUTE_64F == 70, "cublasComputeType_t");
_Static_assert(sizeof(cublasLtMatmulHeuristicResult_t) == 96 && offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize) == 64, "cublasLtMatmulHeuristicResult_t");
_Static_assert(CUBLAS_OP_N == 0 && CUBLAS_OP_T == 1 && CUBLAS_OP_C == 2, "cublasOperation_t");
_Static_assert(CUBLASLT_MATMUL_DESC_TRANSA == 3 && CUBLASLT_MATMUL_DESC_TRANSB == 4 && CUBLASLT_MATMUL_DESC_EPILOGUE == 7 && CUBLASLT_MATMUL_DESC_BIAS_POINTER == 8 && CUBLASLT_EPILOGUE_BIAS == 4,
               "cublasLtMatmulDescAttributes_t");
_Static_assert(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES == 1 && CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK == 3 && CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE == 2 && CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES == 5 && CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES == 8,
               "cublasLtMatmulPreferenceAttributes_t");
_Static_assert(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT == 5 && CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET == 6, "cublasLtMatrixLayoutAttribute_t");
_Static_assert(CUFFT_C2C == 0x29 && CUFFT_R2C == 0x2a && CUFFT_C2R == 0x2c && CUFFT_D2Z == 0x6a && CUFFT_Z2Z == 0x69 && CUFFT_Z2D == 0x6c && CUFFT_FORWARD == -1 && CUFFT_INVERSE == 1, "cufftType");
_Static_assert(CUBLAS_FILL_MODE_LOWER == 0 && CUBLAS_FILL_MODE_UPPER == 1 && CUBLAS_SIDE_LEFT == 0 && CUBLAS_SIDE_RIGHT == 1, "cublasFillMode_t");
_Static_assert(CUBLAS_OP_N == 0 && CUBLAS_OP_T == 1 && CUBLAS_OP_C == 2 && CUSOLVER_EIG_MODE_NOVECTOR == 0 && CUSOLVER_EIG_MODE_VECTOR == 1 && CUBLAS_DIAG_UNIT == 1, "cublasOperation_t");
#endif
