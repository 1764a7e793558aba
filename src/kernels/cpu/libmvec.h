/* libmvec.h - tells the compiler which functions of <math.h> have vector forms, so that `omp simd` loops use them.
 *
 * glibc's libmvec has them on x86-64: six since 2.22, the others since 2.35. Elsewhere loops stay scalar.
 */
#ifndef RUSH_LIBMVEC_H
#define RUSH_LIBMVEC_H

#include <math.h>

#if defined(__x86_64__) && defined(__GLIBC__)
#define VECTOR _Pragma("omp declare simd notinbranch")
#define VECTOR1(name) VECTOR double name(double); VECTOR float name##f(float);
#define VECTOR2(name) VECTOR double name(double, double); VECTOR float name##f(float, float);
#if __GLIBC_PREREQ(2, 22)
VECTOR1(exp) VECTOR1(log) VECTOR1(sin) VECTOR1(cos) VECTOR2(pow)
#endif
#if __GLIBC_PREREQ(2, 35)
VECTOR1(exp2) VECTOR1(expm1) VECTOR1(log2) VECTOR1(log10) VECTOR1(log1p)
VECTOR1(tan) VECTOR1(asin) VECTOR1(acos) VECTOR1(atan) VECTOR1(sinh) VECTOR1(cosh) VECTOR1(tanh)
VECTOR1(asinh) VECTOR1(acosh) VECTOR1(atanh) VECTOR1(erf) VECTOR1(erfc) VECTOR2(atan2) VECTOR2(hypot)
#endif
#undef VECTOR
#undef VECTOR1
#undef VECTOR2
#endif

#endif
