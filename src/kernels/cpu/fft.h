/* fft.h - discrete Fourier transforms of any length, complex, float and double.
 *
 * A plan is made once per length. `lines` transforms of length n run at once: element j of line i stands at
 * data[2 * (j * lines + i)], so that loops run over lines and vectorise.
 */
#ifndef RUSH_KERNELS_FFT_H
#define RUSH_KERNELS_FFT_H

#include "kernels/cpu/isa.h"

typedef struct rush_fft_plan rush_fft_plan;

struct rush_fft_kernels {
    /* Index 0 float, 1 double, 2 and 3 of an even count of real ones. NULL and an error without memory. */
    rush_fft_plan *(*plan[4])(int64_t n, bool forward);
    void (*end[4])(rush_fft_plan *);
    /* Bytes of scratch that run wants for this many lines. */
    size_t (*scratch[2])(const rush_fft_plan *, int64_t lines);
    /* In place on data (2 * n * lines numbers), unscaled. */
    void (*run[2])(const rush_fft_plan *, void *data, int64_t lines, void *scratch);
    /* n real numbers to the first n / 2 + 1 results, with the scratch of one line */
    void (*run_real[2])(const rush_fft_plan *, const void *x, void *out, void *scratch);
    void (*run_real_back[2])(const rush_fft_plan *, const void *x, void *out, void *scratch); /* the other way, unscaled */
};
RUSH_KERNEL_TABLE(fft);

#endif
