/* fft.c - Fourier transforms for float and double; the bodies are in fft.inc. */
#include "kernels/cpu/fft.h"
#include <math.h>

#define T float
#define NAME(x) fft_##x##_f32
static void fft_run_f32(const rush_fft_plan *, void *, int64_t, void *);
#include "kernels/cpu/fft.inc"
#undef T
#undef NAME

#define T double
#define NAME(x) fft_##x##_f64
static void fft_run_f64(const rush_fft_plan *, void *, int64_t, void *);
#include "kernels/cpu/fft.inc"

RUSH_KERNELS(fft) = {
    .plan = {fft_make_f32, fft_make_f64, fft_make_real_f32, fft_make_real_f64},
    .end = {fft_end_f32, fft_end_f64, fft_end_f32, fft_end_f64},
    .scratch = {fft_scratch_f32, fft_scratch_f64},
    .run = {fft_run_f32, fft_run_f64},
    .run_real = {fft_run_real_f32, fft_run_real_f64},
    .run_real_back = {fft_run_real_back_f32, fft_run_real_back_f64},
};
