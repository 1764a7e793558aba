/* grid.c - floats to the integers of a grid, and back (grid.h). */
#include "kernels/cpu/grid.h"
#include <math.h>

/* What a sum stands for; least: 0 with relu, -infinity without. */
static inline float number_of(int32_t sum, float unit, float bias, float least)
{
    float y = (float)sum * unit + bias;
    return y < least ? least : y; /* what is no number stays so */
}

static float least_of(const rush_grid_sums *s) { return s->relu ? 0 : -INFINITY; }

static int64_t some_rows(const rush_grid_sums *s) { return 1 + 16384 / (s->channels + 1); }

static void finish_rows_f32(void *arg, int64_t begin, int64_t end)
{
    const rush_grid_sums *s = arg;
    const float *restrict unit = s->unit, *restrict bias = s->bias, least = least_of(s);
    for (int64_t r = begin, n = s->channels; r < end; ++r) {
        const int32_t *restrict from = s->sums + r * n;
        float *restrict to = (float *)s->to + r * n;
        for (int64_t c = 0; c < n; ++c) to[c] = number_of(from[c], unit[c], bias[c], least);
    }
}

static void finish_f32(const rush_grid_sums *s) { rush_parallel_for(s->rows, some_rows(s), finish_rows_f32, (void *)s); }

#define BYTES
#define ON_GRID(x, inverse, zero) __builtin_fmaf(x, inverse, zero)
#define F(x) x##_i8
#define T int8_t
#define WIDE float
#define LOW -128
#define HIGH 127
#include "kernels/cpu/grid.inc"

#define F(x) x##_u8
#define T uint8_t
#define WIDE float
#define LOW 0
#define HIGH 255
#include "kernels/cpu/grid.inc"

#undef BYTES
#undef ON_GRID
#define ON_GRID(x, inverse, zero) ((x) * (inverse) + (zero))
#define F(x) x##_i32
#define T int32_t
#define WIDE double
#define LOW INT32_MIN
#define HIGH INT32_MAX
#include "kernels/cpu/grid.inc"

RUSH_KERNELS(grid) = {
    .finish = {finish_i8, finish_u8, finish_i32}, .finish_f32 = finish_f32,
    .quantize = {quantize_i8, quantize_u8, quantize_i32}, .quantize_channels = {quantize_channels_i8, quantize_channels_u8, quantize_channels_i32},
    .dequantize = {dequantize_i8, dequantize_u8, dequantize_i32},
    .dequantize_channels = {dequantize_channels_i8, dequantize_channels_u8, dequantize_channels_i32},
};
