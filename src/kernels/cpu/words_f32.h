/* words_f32.h - all words of pointwise.def for float: for the loops of the library, and for those that a compiler makes while a
 * program runs (src/op/later_compile.c), which is given this file with all that it includes as one text. */
#include "kernels/cpu/float_math.h"
#include "kernels/cpu/libmvec.h"
/* Words of <math.h> that are not left to libmvec */
#define expf(v) float_exp(v)
#define exp2f(v) float_exp2(v)
#define expm1f(v) float_expm1(v)
#define logf(v) float_log(v)
#define log2f(v) float_log2(v)
#define log10f(v) float_log10(v)
#define log1pf(v) float_log1p(v)
#define sinf(v) float_sin(v)
#define cosf(v) float_cos(v)
#define tanf(v) float_tan(v)
#define sinhf(v) float_sinh(v)
#define coshf(v) float_cosh(v)
#define tanhf(v) float_tanh(v)
#define erff(v) float_erf(v)
#define atanf(v) float_atan(v)
#define asinf(v) float_asin(v)
#define acosf(v) float_acos(v)
#define T float
#define F(name) name##f
#include "kernels/cpu/words_real.h"
#include "kernels/cpu/words_float.h"
#if defined(__FMA__)
#include "kernels/cpu/quick_pow.h"
#define power(v, w) pow_f32(v, w)
#include "kernels/cpu/quick_exp.h"
#define one_and_exp(v) one_and_exp_f32(v)
#endif
