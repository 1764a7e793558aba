/* pointwise_i64.cu - pointwise.def for i64. */
#include "cuda/rows.h"
#define inline __device__ inline
#define T int64_t
#define IS_BOOL 0
#include "kernels/cpu/words_integer.h"
#define IN T
#define SUFFIX i64
#define CAST_REAL(v) CAST(v)
#include "cuda/pointwise.h"
