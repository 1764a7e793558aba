/* optim.c - optimizer steps in float and in double; the bodies are in optim.inc. */
#include "kernels/cpu/optim.h"

#include <math.h>

#define T float
#define NAME(x) x##_f32
#define SQRT sqrtf
#define FABS fabsf
#ifdef __FMA__
#define FMA(a, b, c) __builtin_fmaf(a, b, c)
#else
#define FMA(a, b, c) ((a) * (b) + (c)) /* a call of the C library's would cost more than the bit is worth */
#endif
#include "kernels/cpu/optim.inc"
#undef T
#undef NAME
#undef SQRT
#undef FABS
#undef FMA

#define T double
#define NAME(x) x##_f64
#define SQRT sqrt
#define FABS fabs
#ifdef __FMA__
#define FMA(a, b, c) __builtin_fma(a, b, c)
#else
#define FMA(a, b, c) ((a) * (b) + (c))
#endif
#include "kernels/cpu/optim.inc"

#define STEPS(d) {adam_##d, sgd_##d, adagrad_##d, rmsprop_##d, adadelta_##d, adamax_##d, nadam_##d, radam_##d, rprop_##d, asgd_##d}

RUSH_KERNELS(optim) = {.f32 = STEPS(f32), .f64 = STEPS(f64)};
