/* fft.c - Fourier transforms for float and double; the bodies are in fft.inc. */
#include "kernels/cpu/fft.h"
#include "kernels/cpu/simd.h"
#include <math.h>

#define FFT_RADIX 31 /* the largest; longer primes go Bluestein's way */
#define FFT_UNIT 64  /* numbers side by side that threads do not part: what a vector loop leaves over is always at the same place */

/* The smallest number not below n that has no primes but 2, 3 and 5. */
static int64_t smooth(int64_t n)
{
    int64_t best = INT64_MAX;
    for (int64_t five = 1; five < 5 * n; five *= 5)
        for (int64_t three = five; three < 3 * n; three *= 3) {
            int64_t k = three;
            while (k < n) k *= 2;
            if (k < best) best = k;
        }
    return best;
}

/* What a part of a pass is made of. */
#define STEP(t)                                                                                             \
    int64_t m = t->pass->m, s = t->s;                                                                       \
    const C *restrict x = t->x;                                                                             \
    C *restrict y = t->y;

typedef int64_t vl __attribute__((vector_size(VBYTES)));

#define T float
#define NAME(x) fft_##x##_f32
#define VECTOR vf
#define LANES VF
#define INDEX vi
#if VBYTES >= 32
#define TRANSPOSE vf_transpose
#endif
#include "kernels/cpu/fft.inc"

#define T double
#define NAME(x) fft_##x##_f64
#define VECTOR vd
#define LANES VD
#define INDEX vl
#include "kernels/cpu/fft.inc"

RUSH_KERNELS(fft) = {
    .plan = {fft_make_f32, fft_make_f64, fft_make_real_f32, fft_make_real_f64},
    .end = {fft_end_f32, fft_end_f64, fft_end_f32, fft_end_f64},
    .scratch = {fft_scratch_f32, fft_scratch_f64},
    .run = {fft_run_f32, fft_run_f64},
    .run_real = {fft_run_real_f32, fft_run_real_f64},
    .run_real_back = {fft_run_real_back_f32, fft_run_real_back_f64},
    .run_many = {fft_run_many_f32, fft_run_many_f64},
    .lanes = {VF, VD},
};
