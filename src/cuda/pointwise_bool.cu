/* pointwise_bool.cu - pointwise.def for bool. */
#include "cuda/rows.h"
#define inline __device__ inline
#define T uint8_t
#define IS_BOOL 1
#include "kernels/cpu/words_integer.h"
#define IN truth
#define SUFFIX bool
#define CAST_REAL(v) CAST(v)
#include "cuda/pointwise.h"
