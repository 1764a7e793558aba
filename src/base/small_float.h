/* small_float.h - eight-bit floats: their layouts, to float and from it. */
#ifndef RUSH_SMALL_FLOAT_H
#define RUSH_SMALL_FLOAT_H

#include "base/base.h"

typedef union rush_float_bits {
    float f;
    uint32_t u;
} rush_float_bits;

typedef struct rush_small_float {
    int mantissa, bias;
    uint8_t most;     /* magnitude of the largest number                  */
    uint8_t over;     /* what larger ones become                          */
    uint8_t nan;
    bool one_zero;    /* fnuz: no -0, its code is the NaN; infinity is NaN too */
} rush_small_float;

static const rush_small_float rush_small_floats[] = {
    [RUSH_F8E4M3FN - RUSH_F8E4M3FN] = {3, 7, 0x7e, 0x7e, 0x7f, false},
    [RUSH_F8E5M2 - RUSH_F8E4M3FN] = {2, 15, 0x7b, 0x7c, 0x7f, false},
    [RUSH_F8E4M3FNUZ - RUSH_F8E4M3FN] = {3, 8, 0x7f, 0x80, 0x80, true},
    [RUSH_F8E5M2FNUZ - RUSH_F8E4M3FN] = {2, 16, 0x7f, 0x80, 0x80, true},
};

static inline float rush_f8_to_f32(rush_dtype d, uint8_t c)
{
    rush_float_bits x;
    if (d == RUSH_F8E8M0FNU) {
        x.u = c == 255 ? 0x7fc00000 : c ? (uint32_t)c << 23 : 0x00400000;
        return x.f;
    }
    const rush_small_float *s = &rush_small_floats[d - RUSH_F8E4M3FN];
    uint32_t sign = (uint32_t)(c & 0x80) << 24, a = c & 0x7f;
    if (s->one_zero ? c == 0x80 : a > s->over) x.u = (s->one_zero ? 0 : sign) | 0x7fc00000;
    else if (d == RUSH_F8E5M2 && a == 0x7c) x.u = sign | 0x7f800000;
    else if (d == RUSH_F8E4M3FN && a == 0x7f) x.u = sign | 0x7fc00000;
    else {
        uint32_t e = a >> s->mantissa, m = a & ((1u << s->mantissa) - 1);
        if (e) {
            x.u = (e + 127 - (uint32_t)s->bias) << 23 | m << (23 - s->mantissa);
        } else {
            rush_float_bits scale = {.u = (uint32_t)(127 + 1 - s->bias - s->mantissa) << 23};
            x.f = (float)m * scale.f;
        }
        x.u |= sign;
    }
    return x.f;
}

static inline __attribute__((always_inline)) uint8_t rush_f32_to_f8(rush_dtype d, float f)
{
    rush_float_bits x = {.f = f};
    uint32_t a = x.u & 0x7fffffff;
    if (d == RUSH_F8E8M0FNU) { /* a power of two; the sign is dropped */
        uint32_t e = a >> 23;
        if (e == 255) return 255;
        bool up = (a & 0x400000) && ((a & 0x3fffff) || e > 0);
        return (uint8_t)(e + up);
    }
    const rush_small_float *s = &rush_small_floats[d - RUSH_F8E4M3FN];
    uint8_t sign = (uint8_t)(x.u >> 24 & 0x80);
    if (a > 0x7f800000) return s->one_zero ? s->nan : sign | s->nan;
    int drop = 23 - s->mantissa;
    uint32_t lowest = (uint32_t)(127 + 1 - s->bias) << 23, code; /* the smallest normal number */
    if (a >= lowest) {
        uint32_t r = a + ((1u << (drop - 1)) - 1) + (a >> drop & 1);
        code = (r - ((uint32_t)(127 - s->bias) << 23)) >> drop;
    } else {
        /* adding a number whose last bit is the type's smallest step rounds to that step */
        rush_float_bits magic = {.u = (uint32_t)(127 + 1 - s->bias + drop) << 23}, y = {.u = a};
        y.f += magic.f;
        code = y.u - magic.u;
    }
    if (code > s->most) return s->one_zero ? s->over : sign | s->over;
    if (s->one_zero && !code) return 0;
    return sign | (uint8_t)code;
}

#endif
