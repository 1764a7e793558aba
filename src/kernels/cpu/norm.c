/* norm.c - the kernels of layer, group, RMS and batch norm: norm.inc for float and for double. */
#include "kernels/cpu/norm.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/quick_exp.h"
#include <math.h>

#define T float
#define FN(f) f##f32
#define FUSED MULADD32
#include "kernels/cpu/norm.inc"

#define T double
#define FN(f) f##f64
#define FUSED MULADD64
#include "kernels/cpu/norm.inc"

RUSH_KERNELS(norm) = {
    .rows = {rows_f32, rows_f64},
    .rows_back = {rows_back_f32, rows_back_f64},
    .apply = {apply_f32, apply_f64},
    .apply_back = {apply_back_f32, apply_back_f64},
    .moments = {channel_moments_f32, channel_moments_f64},
    .sums = {sums_f32, sums_f64},
};
