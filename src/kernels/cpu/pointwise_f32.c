/* pointwise_f32.c - pointwise.def in float, which also serves the half types. */
#include "kernels/cpu/pointwise.h"
#define T float
#define F(name) name##f
#define TABLE pw_f32
#include "kernels/cpu/words_real.h"
#include "kernels/cpu/words_float.h"
#if defined(__FMA__)
#include "kernels/cpu/quick_pow.h"
#define power(v, w) pow_f32(v, w)
#include "kernels/cpu/quick_exp.h"
#define one_and_exp(v) one_and_exp_f32(v)
#endif
#include "kernels/cpu/pointwise_loops.inc"
