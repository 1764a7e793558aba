/* pointwise_i32.cu - pointwise.def for i32, which also serves narrower integers. */
#include "cuda/rows.h"
#define inline __device__ inline
#define T int32_t
#define IS_BOOL 0
#include "kernels/cpu/words_integer.h"
#define IN T
#define SUFFIX i32
#define CAST_REAL(v) CAST(v)
#include "cuda/pointwise.h"
