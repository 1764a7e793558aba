/* fft.cu - Fourier transforms by Stockham's steps, any radix: a thread makes a number of a step's result, which comes out in order. */
#include "cuda/device.h"

/* exp(sign 2 pi i part / whole), 0 <= part < whole */
template <class R> FN complex_of<R> turned(int64_t part, int64_t whole, int sign)
{
    const R at = (R)2 * (R)part / (R)whole;
#ifdef __CUDACC__
    R s, c;
    sincospi(at, &s, &c);
#else
    const R s = (R)sin(M_PI * (double)at), c = (R)cos(M_PI * (double)at);
#endif
    return {c, sign < 0 ? -s : s};
}

template <class R> FN void fft(const cuda_fft &p)
{
    const int64_t left = p.n / p.done, apart = left / p.radix; /* numbers that are yet to be joined, and how far apart those of this step are */
    ROLLED
    for (int64_t i = FIRST; i < p.lines * p.n; i += ALL) {
        const int64_t at = i % p.n, k = at % p.done, q = at / p.done % p.radix, j = at / p.done / p.radix;
        const complex_of<R> *x = (const complex_of<R> *)p.x + (i - at) + j * p.done + k;
        complex_of<R> sum = x[0];
        ROLLED
        for (int64_t t = 1; t < p.radix; t++) sum = sum + x[t * apart * p.done] * turned<R>(t * q % p.radix, p.radix, p.sign);
        sum = sum * turned<R>(j * q % left, left, p.sign);
        ((complex_of<R> *)p.y)[i] = {sum.re * (R)p.scale, sum.im * (R)p.scale};
    }
}
KERNEL(fft_c64, cuda_fft) { fft<float>(p); }
KERNEL(fft_c128, cuda_fft) { fft<double>(p); }
