/* pointwise_u64.cu - pointwise.def for u64. */
#include "cuda/rows.h"
#define inline __device__ inline
#define T uint64_t
#define IS_BOOL 0
#include "kernels/cpu/words_integer.h"
#define IN T
#define SUFFIX u64
#define CAST_REAL(v) CAST(v)
#include "cuda/pointwise.h"
