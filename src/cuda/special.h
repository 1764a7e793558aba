/* special.h - the words of pointwise.def for real numbers, compiled for devices: src/kernels/cpu/words_real.h and src/base/special.c. */
#define RUSH_LIBMVEC_H /* vectors of the CPU */
#define RUSH_WORD static __device__
#define RUSH_WORD_STATIC static __device__
#ifdef __CUDACC__
#define __builtin_fabs(x) ::fabs(x)
#define __builtin_rint(x) ::rint(x)
#define __builtin_trunc(x) ::trunc(x)
#define __builtin_fma(x, y, z) ::fma(x, y, z)
#define __builtin_copysign(x, y) ::copysign(x, y)
#endif
#include "base/special.c"
