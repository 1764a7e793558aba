/* convert.h - conversions between element types: the table of loops, and the eight-bit floats.
 *
 * The small types are one byte: sign, exponent, mantissa. Encoding rounds to nearest, ties to even.
 */
#ifndef RUSH_CONVERT_H
#define RUSH_CONVERT_H

#include "base/base.h"

struct rush_convert_kernels {
    void (*convert)(void *dst, rush_dtype, int64_t dstride, const void *src, rush_dtype, int64_t sstride, int64_t n);
};
extern const struct rush_convert_kernels *rush_k_convert;

float rush_f8_to_f32(rush_dtype, uint8_t);
uint8_t rush_f32_to_f8(rush_dtype, float);

#endif
