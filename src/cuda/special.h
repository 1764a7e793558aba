/* special.h - the words of pointwise.def for real numbers, compiled for devices: src/kernels/cpu/words_real.h and src/base/special.c. */
#define RUSH_LIBMVEC_H /* vectors of the CPU */
#define RUSH_ON_DEVICE /* products and sums are rounded once, in the emulator too */
#define RUSH_WORD static __device__ __noinline__ /* too long to stand in each place that calls them */
#define RUSH_WORD_STATIC static __device__
#ifdef __CUDACC__
#define erfinv(v) erfinv_word(v) /* CUDA has functions of these names */
#define erfcx(v) erfcx_word(v)
#define __builtin_fabs(x) ::fabs(x)
#define __builtin_rint(x) ::rint(x)
#define __builtin_trunc(x) ::trunc(x)
#define __builtin_fma(x, y, z) ::fma(x, y, z)
#define __builtin_copysign(x, y) ::copysign(x, y)
#endif
#include "base/special.c"
