/* grid.c - floats to the integers of a grid, and back (grid.h). */
#include "kernels/cpu/grid.h"
#include <math.h>

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

#define F(x) x##_i32
#define T int32_t
#define WIDE double
#define LOW INT32_MIN
#define HIGH INT32_MAX
#include "kernels/cpu/grid.inc"

RUSH_KERNELS(grid) = {
    .quantize = {quantize_i8, quantize_u8, quantize_i32}, .quantize_channels = {quantize_channels_i8, quantize_channels_u8, quantize_channels_i32},
    .dequantize = {dequantize_i8, dequantize_u8, dequantize_i32},
    .dequantize_channels = {dequantize_channels_i8, dequantize_channels_u8, dequantize_channels_i32},
};
