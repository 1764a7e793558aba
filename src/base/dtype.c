/* dtype.c - the element types: what each is, and which type two of them become together. */
#include "base/base.h"

#include <math.h>

#define F32_MAX 3.4028234663852886e+38
#define F32_TINY 1.1754943508222875e-38
#define F64_MAX 1.7976931348623157e+308
#define F64_TINY 2.2250738585072014e-308
/* NumPy takes 64 bits for int64 where they are a long, else for longlong. */
#if __SIZEOF_LONG__ == 8
#define LONG "l"
#define ULONG "L"
#else
#define LONG "q"
#define ULONG "Q"
#endif
#define BF16_MAX 3.3895313892515355e+38

/* Columns: name, word, C++ type, size, category, signed; storage class, ONNX, NumPy, npy, buffer, safetensors; eps, min, max, tiny. */
const rush_dtype_info rush_dtypes[RUSH_DTYPES] = {
    [RUSH_BOOL] = {"bool", "Bool", "bool", 1, 0, false, true, 9, 0, "b1", "?", "BOOL", 0, 0, 1, 0},
    [RUSH_U8] = {"uint8", "Byte", "uint8_t", 1, 1, false, true, 2, 2, "u1", "B", "U8", 0, 0, 255, 0},
    [RUSH_I8] = {"int8", "Char", "int8_t", 1, 1, true, true, 3, 1, "i1", "b", "I8", 0, -128, 127, 0},
    [RUSH_I16] = {"int16", "Short", "int16_t", 2, 1, true, true, 5, 3, "i2", "h", "I16", 0, -32768, 32767, 0},
    [RUSH_I32] = {"int32", "Int", "int", 4, 1, true, true, 6, 5, "i4", "i", "I32", 0, -2147483648.0, 2147483647.0, 0},
    [RUSH_I64] = {"int64", "Long", "int64_t", 8, 1, true, true, 7, 7, "i8", LONG, "I64", 0, -0x1p63, 0x1p63, 0},
    [RUSH_U16] = {"uint16", "UInt16", "uint16_t", 2, 1, false, false, 4, 4, "u2", "H", "U16", 0, 0, 65535, 0},
    [RUSH_U32] = {"uint32", "UInt32", "uint32_t", 4, 1, false, false, 12, 6, "u4", "I", "U32", 0, 0, 4294967295.0, 0},
    [RUSH_U64] = {"uint64", "UInt64", "uint64_t", 8, 1, false, false, 13, 8, "u8", ULONG, "U64", 0, 0, 0x1p64, 0},
    [RUSH_F16] = {"float16", "Half", "c10::Half", 2, 2, true, true, 10, 23, "f2", "e", "F16", 0x1p-10, -65504, 65504, 0x1p-14},
    [RUSH_BF16] = {"bfloat16", "BFloat16", "c10::BFloat16", 2, 2, true, true, 16, -1, "", "", "BF16", 0x1p-7, -BF16_MAX, BF16_MAX, F32_TINY},
    [RUSH_F32] = {"float32", "Float", "float", 4, 2, true, true, 1, 11, "f4", "f", "F32", 0x1p-23, -F32_MAX, F32_MAX, F32_TINY},
    [RUSH_F64] = {"float64", "Double", "double", 8, 2, true, true, 11, 12, "f8", "d", "F64", 0x1p-52, -F64_MAX, F64_MAX, F64_TINY},
    [RUSH_C32] = {"complex32", "ComplexHalf", "c10::complex<c10::Half>", 4, 3, true, false, 0, -1, "", "", NULL, 0x1p-10, -65504, 65504, 0x1p-14},
    [RUSH_C64] = {"complex64", "ComplexFloat", "c10::complex<float>", 8, 3, true, true, 14, 14, "c8", "Zf", "C64", 0x1p-23, -F32_MAX, F32_MAX, F32_TINY},
    [RUSH_C128] = {"complex128", "ComplexDouble", "c10::complex<double>", 16, 3, true, true, 15, 15, "c16", "Zd", NULL, 0x1p-52, -F64_MAX, F64_MAX, F64_TINY},
    [RUSH_F8E4M3FN] = {"float8_e4m3fn", "Float8_e4m3fn", "c10::Float8_e4m3fn", 1, 2, true, false, 17, -1, "", "", "F8_E4M3", 0.125, -448, 448, 0x1p-6},
    [RUSH_F8E5M2] = {"float8_e5m2", "Float8_e5m2", "c10::Float8_e5m2", 1, 2, true, false, 19, -1, "", "", "F8_E5M2", 0.25, -57344, 57344, 0x1p-14},
    [RUSH_F8E4M3FNUZ] = {"float8_e4m3fnuz", "Float8_e4m3fnuz", "c10::Float8_e4m3fnuz", 1, 2, true, false, 18, -1, "", "", "F8_E4M3FNUZ", 0.125, -240, 240, 0x1p-7},
    [RUSH_F8E5M2FNUZ] = {"float8_e5m2fnuz", "Float8_e5m2fnuz", "c10::Float8_e5m2fnuz", 1, 2, true, false, 20, -1, "", "", "F8_E5M2FNUZ", 0.125, -57344, 57344, 0x1p-15},
    [RUSH_F8E8M0FNU] = {"float8_e8m0fnu", "Float8_e8m0fnu", "c10::Float8_e8m0fnu", 1, 2, false, false, 24, -1, "", "", "F8_E8M0", 1, 0x1p-127, 0x1p127, 0x1p-127},
    [RUSH_QINT8] = {"qint8", "QInt8", "QInt8", 1, 1, true, true, 0, 1, "", "", NULL, 0, -128, 127, 0},
    [RUSH_QUINT8] = {"quint8", "QUInt8", "QUInt8", 1, 1, false, true, 0, 2, "", "", NULL, 0, 0, 255, 0},
    [RUSH_QINT32] = {"qint32", "QInt32", "QInt32", 4, 1, true, true, 0, 5, "", "", NULL, 0, -2147483648.0, 2147483647.0, 0},
};

static bool known(rush_dtype d)
{
    if (RUSH_LIKELY((unsigned)d < RUSH_DTYPES)) return true;
    rush_fail(RUSH_TYPE_ERROR, "there is no dtype %d", (int)d);
    return false;
}

const char *rush_dtype_name(rush_dtype d)
{
    return (unsigned)d < RUSH_DTYPES ? rush_dtypes[d].name : "?";
}

const char *rush_dtype_word(rush_dtype d)
{
    return (unsigned)d < RUSH_DTYPES ? rush_dtypes[d].word : "Undefined";
}

int rush_dtype_from_name(const char *name)
{
    static const struct { const char *name; rush_dtype dtype; } other[] = {
        {"half", RUSH_F16}, {"float", RUSH_F32}, {"double", RUSH_F64}, {"short", RUSH_I16}, {"int", RUSH_I32},
        {"long", RUSH_I64}, {"chalf", RUSH_C32}, {"cfloat", RUSH_C64}, {"cdouble", RUSH_C128},
    };
    if (!name) return -1;
    for (int i = 0; i < RUSH_DTYPES; i++)
        if (!strcmp(name, rush_dtypes[i].name)) return i;
    for (size_t i = 0; i < RUSH_COUNT(other); i++)
        if (!strcmp(name, other[i].name)) return (int)other[i].dtype;
    return -1;
}

size_t rush_dtype_size(rush_dtype d)
{
    return known(d) ? rush_dtypes[d].size : 0;
}

bool rush_dtype_is_float(rush_dtype d)
{
    return known(d) && rush_dtypes[d].category == 2;
}

bool rush_dtype_is_complex(rush_dtype d)
{
    return known(d) && rush_dtypes[d].category == 3;
}

bool rush_dtype_is_integer(rush_dtype d)
{
    return known(d) && rush_dtypes[d].category == 1;
}

rush_dtype rush_dtype_real(rush_dtype d)
{
    return d == RUSH_C32 ? RUSH_F16 : d == RUSH_C64 ? RUSH_F32 : d == RUSH_C128 ? RUSH_F64 : d;
}

rush_dtype rush_dtype_complex(rush_dtype d)
{
    return d == RUSH_F16 ? RUSH_C32 : d == RUSH_F64 ? RUSH_C128 : rush_dtypes[d].category == 3 ? d : RUSH_C64;
}

/* ---- promotion ---- */

static const char *family_without_promotion(rush_dtype d)
{
    if (d >= RUSH_QINT8) return "quantized types";
    if (d >= RUSH_F8E4M3FN) return "Float8 Types";
    if (d >= RUSH_U16 && d <= RUSH_U64) return "uint16, uint32, uint64 types";
    return NULL;
}

static int cannot(rush_dtype a, rush_dtype b)
{
    const char *x = family_without_promotion(a), *y = family_without_promotion(b);
    return rush_fail(RUSH_RUNTIME_ERROR, "Promotion for %s is not supported, attempted to promote %s and %s: convert one of them", x ? x : y,
                     rush_dtypes[a].word, rush_dtypes[b].word);
}

/* After an error the first type is returned; rush_error() tells. */
rush_dtype rush_promote(rush_dtype a, rush_dtype b)
{
    if (a == b) return a;
    if (RUSH_UNLIKELY(!known(a) || !known(b))) return RUSH_F32;
    if (a > b) {
        rush_dtype swap = a;
        a = b;
        b = swap;
    }
    /* a comes before b in the enum: bool, integers, wide unsigned, floats, complex, the rest */
    if (b >= RUSH_F8E4M3FN) return cannot(a, b), a;
    if (b >= RUSH_C32) {
        if (a >= RUSH_U16 && a <= RUSH_U64) return cannot(a, b), a;
        if (a == RUSH_F64) return RUSH_C128;
        if (b == RUSH_C32 && (a == RUSH_F32 || a == RUSH_BF16)) return RUSH_C64;
        return b;
    }
    if (b >= RUSH_F16) return a == RUSH_F16 && b == RUSH_BF16 ? RUSH_F32 : b;
    if (b >= RUSH_U16) return cannot(a, b), a;
    if (a == RUSH_U8 && b == RUSH_I8) return RUSH_I16;
    return b;
}

static atomic_int default_dtype = RUSH_F32;

rush_dtype rush_default_dtype(void)
{
    return (rush_dtype)atomic_load_explicit(&default_dtype, memory_order_relaxed);
}

int rush_default_dtype_set(rush_dtype d)
{
    RUSH_CHECK((unsigned)d < RUSH_F8E4M3FN && rush_dtypes[d].category == 2, RUSH_TYPE_ERROR,
               "the default dtype must be a floating type (float16, bfloat16, float32, float64), not %s",
               rush_dtype_name(d));
    atomic_store(&default_dtype, (int)d);
    return 0;
}
