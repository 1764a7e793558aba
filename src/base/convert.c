/* convert.c - any number to any dtype, in scalar C: the reference, and the way of the rarer types.
 *
 * A number is loaded as an integer or as a complex double, and stored from that. Bulk conversions of the
 * common types are vectorised in kernels/cpu/copy.c, which comes here for the quantized types. Numbers out of an
 * integer's range become what PyTorch's x86 build makes of them.
 */
#include "base/base.h"
#include "base/small_float.h"

float rush_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 1023;
    rush_float_bits x;
    if (e == 31) {
        x.u = sign | 0x7f800000 | m << 13;
    } else if (e) {
        x.u = sign | (e + 112) << 23 | m << 13;
    } else {
        x.f = (float)m * 0x1p-24f;
        x.u |= sign;
    }
    return x.f;
}

uint16_t rush_f32_to_f16(float f)
{
    rush_float_bits x = {.f = f};
    uint16_t sign = (uint16_t)(x.u >> 16 & 0x8000);
    uint32_t a = x.u & 0x7fffffff;
    if (a > 0x7f800000) return sign | 0x7e00 | (uint16_t)(a >> 13 & 0x3ff);
    if (a >= 0x477ff000) return sign | 0x7c00; /* rounds to 65536 or more */
    if (a < 0x38800000) {                      /* subnormal: adding 2^-1 ulp-aligned rounds it to even */
        rush_float_bits y = {.u = a};
        y.f += 0.5f;
        return sign | (uint16_t)(y.u - 0x3f000000);
    }
    a += 0xfff + (a >> 13 & 1);
    return sign | (uint16_t)((a - 0x38000000) >> 13);
}

/* ---- any to any ---- */

typedef struct number {
    bool is_integer;
    int64_t i;     /* of uint64 the same bits */
    double re, im;
} number;

static number load(const void *p, rush_dtype d)
{
    number v = {.is_integer = rush_dtypes[d].category < 2};
    switch (d) {
    case RUSH_BOOL: v.i = *(const uint8_t *)p != 0; break;
    case RUSH_U8:
    case RUSH_QUINT8: v.i = *(const uint8_t *)p; break;
    case RUSH_I8:
    case RUSH_QINT8: v.i = *(const int8_t *)p; break;
    case RUSH_I16: v.i = *(const int16_t *)p; break;
    case RUSH_U16: v.i = *(const uint16_t *)p; break;
    case RUSH_I32:
    case RUSH_QINT32: v.i = *(const int32_t *)p; break;
    case RUSH_U32: v.i = *(const uint32_t *)p; break;
    case RUSH_I64:
    case RUSH_U64: v.i = *(const int64_t *)p; break;
    case RUSH_F16: v.re = rush_f16_to_f32(*(const uint16_t *)p); break;
    case RUSH_BF16: v.re = rush_bf16_to_f32(*(const uint16_t *)p); break;
    case RUSH_F32: v.re = *(const float *)p; break;
    case RUSH_F64: v.re = *(const double *)p; break;
    case RUSH_C32:
        v.re = rush_f16_to_f32(((const uint16_t *)p)[0]);
        v.im = rush_f16_to_f32(((const uint16_t *)p)[1]);
        break;
    case RUSH_C64:
        v.re = ((const float *)p)[0];
        v.im = ((const float *)p)[1];
        break;
    case RUSH_C128:
        v.re = ((const double *)p)[0];
        v.im = ((const double *)p)[1];
        break;
    default: v.re = rush_f8_to_f32(d, *(const uint8_t *)p);
    }
    return v;
}

/* x86 turns what does not fit, and NaN, into the smallest number; narrower integers keep the low bits of that. */
static int32_t i32_of(double x)
{
    return x > -2147483649.0 && x < 2147483648.0 ? (int32_t)x : INT32_MIN;
}

static int64_t i64_of(double x)
{
    return x >= -0x1p63 && x < 0x1p63 ? (int64_t)x : INT64_MIN;
}

static void store(void *p, rush_dtype d, const number *v, rush_dtype from)
{
    double x = v->re;
    if (v->is_integer) {
        /* float comes straight from the integer: by way of double it would be rounded twice */
        float f = from == RUSH_U64 ? (float)(uint64_t)v->i : (float)v->i;
        x = from == RUSH_U64 ? (double)(uint64_t)v->i : (double)v->i;
        switch (d) {
        case RUSH_BOOL: *(uint8_t *)p = v->i != 0; return;
        case RUSH_U8:
        case RUSH_I8:
        case RUSH_QINT8:
        case RUSH_QUINT8: *(uint8_t *)p = (uint8_t)v->i; return;
        case RUSH_I16:
        case RUSH_U16: *(uint16_t *)p = (uint16_t)v->i; return;
        case RUSH_I32:
        case RUSH_U32:
        case RUSH_QINT32: *(uint32_t *)p = (uint32_t)v->i; return;
        case RUSH_I64:
        case RUSH_U64: *(int64_t *)p = v->i; return;
        case RUSH_F64:
        case RUSH_C128: break;
        default: x = f;
        }
    }
    switch (d) {
    case RUSH_BOOL: *(uint8_t *)p = x != 0 || v->im != 0; break;
    case RUSH_U8:
    case RUSH_QUINT8: *(uint8_t *)p = (uint8_t)i64_of(x); break;
    case RUSH_I8:
    case RUSH_QINT8: *(int8_t *)p = (int8_t)i32_of(x); break;
    case RUSH_I16: *(int16_t *)p = (int16_t)i32_of(x); break;
    case RUSH_U16: *(uint16_t *)p = (uint16_t)i32_of(x); break;
    case RUSH_I32:
    case RUSH_QINT32: *(int32_t *)p = i32_of(x); break;
    case RUSH_U32: *(uint32_t *)p = x >= 0x1p31 ? (uint32_t)i32_of(x - 0x1p31) ^ 0x80000000u : (uint32_t)i32_of(x); break;
    case RUSH_I64: *(int64_t *)p = i64_of(x); break;
    case RUSH_U64: *(uint64_t *)p = x >= 0x1p63 ? (uint64_t)i64_of(x - 0x1p63) ^ 1ull << 63 : (uint64_t)i64_of(x); break;
    case RUSH_F16: *(uint16_t *)p = rush_f32_to_f16((float)x); break;
    case RUSH_BF16: *(uint16_t *)p = rush_f32_to_bf16((float)x); break;
    case RUSH_F32: *(float *)p = (float)x; break;
    case RUSH_F64: *(double *)p = x; break;
    case RUSH_C32:
        ((uint16_t *)p)[0] = rush_f32_to_f16((float)x);
        ((uint16_t *)p)[1] = rush_f32_to_f16((float)v->im);
        break;
    case RUSH_C64:
        ((float *)p)[0] = (float)x;
        ((float *)p)[1] = (float)v->im;
        break;
    case RUSH_C128:
        ((double *)p)[0] = x;
        ((double *)p)[1] = v->im;
        break;
    default: *(uint8_t *)p = rush_f32_to_f8(d, (float)x);
    }
}

void rush_convert(void *dst, rush_dtype dd, int64_t dstride, const void *src, rush_dtype sd, int64_t sstride,
                  int64_t n)
{
    char *d = dst;
    const char *s = src;
    size_t size = rush_dtypes[dd].size;
    if (dd == sd) {
        if ((size_t)dstride == size && (size_t)sstride == size) memmove(d, s, (size_t)n * size);
        else
            for (int64_t i = 0; i < n; i++) memcpy(d + i * dstride, s + i * sstride, size);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        number v = load(s + i * sstride, sd);
        store(d + i * dstride, dd, &v, sd);
    }
}
