/* copy.c - transposition of blocks and lazy signs: what the iterator does at a kernel's edge beside conversion. */
#include "kernels/cpu/isa.h"
#include "tensor/iter.h"

typedef uint16_t half;

static void copy_strided(char *d, int64_t ds, const char *s, int64_t ss, int64_t n, size_t size)
{
    int64_t i;
    switch (size) {
    case 1:
        for (i = 0; i < n; i++) d[i * ds] = s[i * ss];
        break;
    case 2:
        for (i = 0; i < n; i++) *(uint16_t *)(d + i * ds) = *(const uint16_t *)(s + i * ss);
        break;
    case 4:
        for (i = 0; i < n; i++) *(uint32_t *)(d + i * ds) = *(const uint32_t *)(s + i * ss);
        break;
    case 8:
        for (i = 0; i < n; i++) *(uint64_t *)(d + i * ds) = *(const uint64_t *)(s + i * ss);
        break;
    default:
        for (i = 0; i < n; i++) memcpy(d + i * ds, s + i * ss, size);
    }
}

/* ---- transposition ---- */

typedef uint32_t lanes8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef uint32_t index8 __attribute__((vector_size(32)));

/* 8 by 8 elements of four bytes, in three rounds of exchanging halves, pairs, neighbours. */
static inline void transpose8(char *dst, int64_t drow, const char *src, int64_t srow)
{
    const index8 low = {0, 8, 1, 9, 2, 10, 3, 11}, high = {4, 12, 5, 13, 6, 14, 7, 15};
    lanes8 a[8], b[8];
    for (int i = 0; i < 8; i++) a[i] = *(const lanes8 *)(src + i * srow);
    for (int i = 0; i < 4; i++) {
        b[2 * i] = __builtin_shuffle(a[i], a[i + 4], low);
        b[2 * i + 1] = __builtin_shuffle(a[i], a[i + 4], high);
    }
    for (int i = 0; i < 4; i++) {
        a[2 * i] = __builtin_shuffle(b[i], b[i + 4], low);
        a[2 * i + 1] = __builtin_shuffle(b[i], b[i + 4], high);
    }
    for (int i = 0; i < 4; i++) {
        b[2 * i] = __builtin_shuffle(a[i], a[i + 4], low);
        b[2 * i + 1] = __builtin_shuffle(a[i], a[i + 4], high);
    }
    for (int i = 0; i < 8; i++) *(lanes8 *)(dst + i * drow) = b[i];
}

static void transpose(char *dst, int64_t drow, const char *src, int64_t srow, int64_t rows, int64_t cols, size_t size)
{
    int64_t r = 0;
    if (size == 4)
        for (; r + 8 <= rows; r += 8) {
            int64_t c = 0;
            for (; c + 8 <= cols; c += 8) transpose8(dst + r * drow + c * 4, drow, src + c * srow + r * 4, srow);
            for (; c < cols; c++)
                for (int i = 0; i < 8; i++) *(uint32_t *)(dst + (r + i) * drow + c * 4) = *(const uint32_t *)(src + c * srow + (r + i) * 4);
        }
    for (; r < rows; r += 8) { /* eight rows at a time, so that a line of src is read once */
        int64_t end = RUSH_MIN(r + 8, rows);
        for (int64_t c = 0; c < cols; c++)
            copy_strided(dst + r * drow + c * (int64_t)size, drow, src + c * srow + r * (int64_t)size, (int64_t)size, end - r, size);
    }
}

/* ---- lazy bits ---- */

static void lazy(void *p, rush_dtype d, int64_t n, int flags)
{
    bool conjugate = flags & RUSH_T_CONJ, negate = flags & RUSH_T_NEG;
    float *f = p;
    double *e = p;
    switch (d) {
    case RUSH_C64:
        for (int64_t i = 0; i < n; i++) {
            f[2 * i] = negate ? -f[2 * i] : f[2 * i];
            f[2 * i + 1] = negate != conjugate ? -f[2 * i + 1] : f[2 * i + 1];
        }
        break;
    case RUSH_C128:
        for (int64_t i = 0; i < n; i++) {
            e[2 * i] = negate ? -e[2 * i] : e[2 * i];
            e[2 * i + 1] = negate != conjugate ? -e[2 * i + 1] : e[2 * i + 1];
        }
        break;
    case RUSH_F32:
        for (int64_t i = 0; i < n && negate; i++) f[i] = -f[i];
        break;
    case RUSH_F64:
        for (int64_t i = 0; i < n && negate; i++) e[i] = -e[i];
        break;
    case RUSH_C32: /* the sign is the top bit of each half */
        for (int64_t i = 0; i < n; i++) {
            half *h = (half *)p + 2 * i;
            h[0] ^= negate ? 0x8000 : 0;
            h[1] ^= negate != conjugate ? 0x8000 : 0;
        }
        break;
    case RUSH_F16:
    case RUSH_BF16:
        for (int64_t i = 0; i < n && negate; i++) ((half *)p)[i] ^= 0x8000;
        break;
    default: /* integers */
        for (int64_t i = 0; i < n && negate; i++) {
            int64_t v;
            char *at = (char *)p + i * rush_dtypes[d].size;
            rush_convert(&v, RUSH_I64, 0, at, d, 0, 1);
            v = -v;
            rush_convert(at, d, 0, &v, RUSH_I64, 0, 1);
        }
    }
}

RUSH_KERNELS(copy) = {.transpose = transpose, .lazy = lazy};
