/* pointwise_f32.cu - pointwise.def in float, which also serves the half types. */
#include "cuda/rows.h"
#include "cuda/special.h"
#define inline __device__ inline
#define T float
#define F(name) name##f
#include "kernels/cpu/words_real.h"
#include "kernels/cpu/words_float.h"
#define IN T
#define SUFFIX f32
#define CAST_REAL(v) (T)(v)
#include "cuda/pointwise.h"
