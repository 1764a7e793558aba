/* fft.h - discrete Fourier transforms of any length, complex and real, float and double.
 *
 * A plan is made once per length. One transform runs alone where it is long; short ones run as many at once as a vector
 * has numbers, each in its own lane, whatever the strides of their lines.
 */
#ifndef RUSH_KERNELS_FFT_H
#define RUSH_KERNELS_FFT_H

#include "kernels/cpu/isa.h"

typedef struct rush_fft_plan rush_fft_plan;

enum { RUSH_FFT_COMPLEX, RUSH_FFT_REAL, RUSH_FFT_REAL_BACK, RUSH_FFT_LANES = 16 };

/* Some transforms of n points. Plans of real ones are of plan[2 or 3] for even n; for odd n they are complex ones. */
typedef struct rush_fft_lines {
    int kind;
    int64_t n, have;        /* points; of RUSH_FFT_REAL_BACK, the elements that x has of n / 2 + 1 (zeros follow) */
    int64_t x_step, y_step; /* from element to element of a line, in real numbers */
    double scale;           /* results are multiplied by it */
    const void *x[RUSH_FFT_LANES];
    void *y[RUSH_FFT_LANES];
} rush_fft_lines;

struct rush_fft_kernels {
    /* Index 0 float, 1 double, 2 and 3 of an even count of real ones. NULL and an error without memory. */
    rush_fft_plan *(*plan[4])(int64_t n, bool forward);
    void (*end[4])(rush_fft_plan *);
    /* Bytes of scratch that run_many or the others want. */
    size_t (*scratch[2])(const rush_fft_plan *, bool many);
    /* One transform, in place, unscaled. */
    void (*run[2])(const rush_fft_plan *, void *data, void *scratch);
    /* n real numbers to the first n / 2 + 1 results, n even */
    void (*run_real[2])(const rush_fft_plan *, const void *x, void *out, void *scratch);
    void (*run_real_back[2])(const rush_fft_plan *, const void *x, void *out, void *scratch); /* the other way, unscaled */
    /* The first `count` lines, at most lanes of them. y may be x. */
    void (*run_many[2])(const rush_fft_plan *, const rush_fft_lines *, int count, void *scratch);
    int lanes[2];
};
RUSH_KERNEL_TABLE(fft);

#endif
