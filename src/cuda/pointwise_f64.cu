/* pointwise_f64.cu - pointwise.def in double. */
#include "cuda/rows.h"
#include "cuda/special.h"
#define inline __device__ inline
#define T double
#define F(name) name
#include "kernels/cpu/words_real.h"
#define nextafter(v, w) step_to(v, w)
#define IN T
#define SUFFIX f64
#define CAST_REAL(v) (T)(v)
#include "cuda/pointwise.h"
