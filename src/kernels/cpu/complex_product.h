/* complex_product.h - the product of complex numbers without C's detour for infinities, as PyTorch multiplies. */
#ifndef RUSH_COMPLEX_PRODUCT_H
#define RUSH_COMPLEX_PRODUCT_H

#include <complex.h>

static inline float complex times_c64(float complex a, float complex b)
{
    float ar = crealf(a), ai = cimagf(a), br = crealf(b), bi = cimagf(b);
    return __builtin_complex(ar * br - ai * bi, ar * bi + ai * br);
}

static inline double complex times_c128(double complex a, double complex b)
{
    double ar = creal(a), ai = cimag(a), br = creal(b), bi = cimag(b);
    return __builtin_complex(ar * br - ai * bi, ar * bi + ai * br);
}

#endif
