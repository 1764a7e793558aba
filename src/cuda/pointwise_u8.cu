/* pointwise_u8.cu - pointwise.def for u8. */
#include "cuda/rows.h"
#define inline __device__ inline
#define T uint8_t
#define IS_BOOL 0
#include "kernels/cpu/words_integer.h"
#define IN T
#define SUFFIX u8
#define CAST_REAL(v) CAST(v)
#include "cuda/pointwise.h"
