/* crc32.c - CRC-32 by carry-less multiplication.
 *
 * The message is a polynomial over two elements, and its checksum the remainder by P. A block of 16 bytes that
 * lies D bits before the end counts as itself times x^D, and x^D mod P has 32 bits: so a block is folded into the
 * one D bits further on with two 64-bit carry-less products and an exclusive or, four lines of blocks side by
 * side. What is left at the end, 16 bytes, goes through a table. Bits are stored in reverse, which turns the
 * factors x^(D+32) and x^(D-32) round and shifts them by one. (Gopal and others, "Fast CRC computation for generic
 * polynomials using PCLMULQDQ", Intel 2009.)
 */
#include "io/crc32.h"

#include <pthread.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define POLYNOMIAL 0xedb88320u /* reversed */
#define BLOCK ((size_t)1 << 20)

static uint32_t table[8][256];
static uint64_t fold_by[3][2]; /* for D = 2048, 512, 128 bits */
enum { BY_2048, BY_512, BY_128 };
#if defined(__x86_64__)
static int level;              /* 0 tables, 1 PCLMULQDQ, 2 VPCLMULQDQ on 64 bytes */
#endif
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* a * b mod P, both reversed: x^0 is the highest bit. */
static uint32_t multiply(uint32_t a, uint32_t b)
{
    uint32_t product = 0;
    for (; a; a <<= 1) {
        if (a & 0x80000000u) product ^= b;
        b = b & 1 ? b >> 1 ^ POLYNOMIAL : b >> 1;
    }
    return product;
}

/* x^n mod P */
static uint32_t power(uint64_t n)
{
    uint32_t result = 0x80000000u, square = 0x40000000u;
    for (; n; n >>= 1) {
        if (n & 1) result = multiply(square, result);
        square = multiply(square, square);
    }
    return result;
}

static void prepare(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++) c = c & 1 ? c >> 1 ^ POLYNOMIAL : c >> 1;
        table[0][i] = c;
    }
    for (int t = 1; t < 8; t++)
        for (int i = 0; i < 256; i++) table[t][i] = table[t - 1][i] >> 8 ^ table[0][table[t - 1][i] & 255];
    static const int distance[] = {2048, 512, 128};
    for (int i = 0; i < 3; i++) {
        fold_by[i][0] = (uint64_t)power((uint64_t)distance[i] + 32) << 1;
        fold_by[i][1] = (uint64_t)power((uint64_t)distance[i] - 32) << 1;
    }
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1")) level = 1;
    if (level && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("vpclmulqdq")) level = 2;
#endif
}

static uint32_t by_table(uint32_t c, const uint8_t *p, size_t n)
{
    for (; n >= 8; p += 8, n -= 8) {
        uint64_t w;
        memcpy(&w, p, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        w = __builtin_bswap64(w);
#endif
        w ^= c;
        c = table[7][w & 255] ^ table[6][w >> 8 & 255] ^ table[5][w >> 16 & 255] ^ table[4][w >> 24 & 255] ^
            table[3][w >> 32 & 255] ^ table[2][w >> 40 & 255] ^ table[1][w >> 48 & 255] ^ table[0][w >> 56];
    }
    for (; n; n--) c = c >> 8 ^ table[0][(c ^ *p++) & 255];
    return c;
}

#if defined(__x86_64__)
#define NARROW __attribute__((target("pclmul,sse4.1")))
#define WIDE __attribute__((target("avx512f,avx512vl,vpclmulqdq,pclmul,sse4.1")))

NARROW static inline __m128i fold(__m128i x, __m128i k, __m128i next)
{
    return _mm_xor_si128(next, _mm_xor_si128(_mm_clmulepi64_si128(x, k, 0x00), _mm_clmulepi64_si128(x, k, 0x11)));
}

NARROW static uint32_t finish(__m128i x, const uint8_t *p, size_t n)
{
    uint8_t left[16];
    for (__m128i k = _mm_loadu_si128((const void *)fold_by[BY_128]); n >= 16; p += 16, n -= 16) x = fold(x, k, _mm_loadu_si128((const void *)p));
    _mm_storeu_si128((void *)left, x);
    return by_table(by_table(0, left, 16), p, n);
}

/* n >= 64 */
NARROW static uint32_t by_products(uint32_t c, const uint8_t *p, size_t n)
{
    const __m128i *b = (const void *)p;
    __m128i k = _mm_loadu_si128((const void *)fold_by[BY_512]);
    __m128i x0 = _mm_xor_si128(_mm_loadu_si128(b), _mm_cvtsi32_si128((int)c)), x1 = _mm_loadu_si128(b + 1);
    __m128i x2 = _mm_loadu_si128(b + 2), x3 = _mm_loadu_si128(b + 3);
    for (p += 64, n -= 64; n >= 64; p += 64, n -= 64) {
        b = (const void *)p;
        x0 = fold(x0, k, _mm_loadu_si128(b));
        x1 = fold(x1, k, _mm_loadu_si128(b + 1));
        x2 = fold(x2, k, _mm_loadu_si128(b + 2));
        x3 = fold(x3, k, _mm_loadu_si128(b + 3));
    }
    k = _mm_loadu_si128((const void *)fold_by[BY_128]);
    return finish(fold(fold(fold(x0, k, x1), k, x2), k, x3), p, n);
}

WIDE static inline __m512i wide_fold(__m512i x, __m512i k, __m512i next)
{
    return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(x, k, 0x00), _mm512_clmulepi64_epi128(x, k, 0x11), next, 0x96);
}

/* n >= 256; to `dst` too unless it is NULL, without reading its lines in when they are whole */
WIDE static uint32_t by_wide_products(uint32_t c, uint8_t *dst, const uint8_t *p, size_t n)
{
    __m512i k = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)fold_by[BY_2048]));
    __m512i first = _mm512_castsi128_si512(_mm_cvtsi32_si128((int)c)), x[4];
    first = _mm512_maskz_mov_epi32(1, first);
    bool stream = dst && ((uintptr_t)dst & 63) == 0 && n >= (size_t)64 << 10;
    for (int i = 0; i < 4; i++) {
        x[i] = _mm512_loadu_si512(p + 64 * i);
        if (dst) _mm512_storeu_si512(dst + 64 * i, x[i]);
    }
    x[0] = _mm512_xor_si512(x[0], first);
    size_t at = 256;
    for (; n - at >= 256; at += 256) {
        __m512i a = _mm512_loadu_si512(p + at), b = _mm512_loadu_si512(p + at + 64);
        __m512i d = _mm512_loadu_si512(p + at + 128), e = _mm512_loadu_si512(p + at + 192);
        if (stream) {
            _mm512_stream_si512((void *)(dst + at), a);
            _mm512_stream_si512((void *)(dst + at + 64), b);
            _mm512_stream_si512((void *)(dst + at + 128), d);
            _mm512_stream_si512((void *)(dst + at + 192), e);
        } else if (dst) {
            _mm512_storeu_si512(dst + at, a);
            _mm512_storeu_si512(dst + at + 64, b);
            _mm512_storeu_si512(dst + at + 128, d);
            _mm512_storeu_si512(dst + at + 192, e);
        }
        x[0] = wide_fold(x[0], k, a);
        x[1] = wide_fold(x[1], k, b);
        x[2] = wide_fold(x[2], k, d);
        x[3] = wide_fold(x[3], k, e);
    }
    if (stream) _mm_sfence();
    if (dst) memcpy(dst + at, p + at, n - at);
    k = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)fold_by[BY_512]));
    __m512i all = wide_fold(wide_fold(wide_fold(x[0], k, x[1]), k, x[2]), k, x[3]);
    __m128i by = _mm_loadu_si128((const void *)fold_by[BY_128]), y = _mm512_castsi512_si128(all);
    y = fold(y, by, _mm512_extracti32x4_epi32(all, 1));
    y = fold(y, by, _mm512_extracti32x4_epi32(all, 2));
    return finish(fold(y, by, _mm512_extracti32x4_epi32(all, 3)), p + at, n - at);
}
#endif

uint32_t rush_crc32(uint32_t crc, const void *p, size_t n)
{
    pthread_once(&once, prepare);
#if defined(__x86_64__)
    if (level >= 2 && n >= 256) return ~by_wide_products(~crc, NULL, p, n);
    if (level >= 1 && n >= 64) return ~by_products(~crc, p, n);
#endif
    return n ? ~by_table(~crc, p, n) : crc;
}

uint32_t rush_crc32_copy(uint32_t crc, void *dst, const void *src, size_t n)
{
    pthread_once(&once, prepare);
#if defined(__x86_64__)
    if (level >= 2 && n >= 256) return ~by_wide_products(~crc, dst, src, n);
#endif
    for (size_t at = 0, step; at < n; at += step) { /* what was copied is read again while it is near */
        step = RUSH_MIN(n - at, (size_t)32 << 10);
        memcpy((char *)dst + at, (const char *)src + at, step);
        crc = rush_crc32(crc, (char *)dst + at, step);
    }
    return crc;
}

uint32_t rush_crc32_join(uint32_t first, uint32_t second, uint64_t bytes)
{
    return multiply(power(bytes * 8), first) ^ second;
}

typedef struct pieces {
    const char *p;
    size_t n;
    uint32_t *crc; /* one per block */
} pieces;

static void some(void *arg, int64_t begin, int64_t end)
{
    pieces *w = arg;
    for (int64_t i = begin; i < end; i++) {
        size_t at = (size_t)i * BLOCK;
        w->crc[i] = rush_crc32(0, w->p + at, RUSH_MIN(BLOCK, w->n - at));
    }
}

uint32_t rush_crc32_of(const void *p, size_t n)
{
    size_t blocks = (n + BLOCK - 1) / BLOCK;
    uint32_t few[256], *crc = blocks > RUSH_COUNT(few) ? malloc(blocks * sizeof *crc) : few;
    if (n <= BLOCK || !crc) return rush_crc32(0, p, n);
    rush_parallel_for((int64_t)blocks, 8, some, &(pieces){p, n, crc});
    uint32_t all = crc[0];
    for (size_t i = 1; i < blocks; i++) all = rush_crc32_join(all, crc[i], RUSH_MIN(BLOCK, n - i * BLOCK));
    if (crc != few) free(crc);
    return all;
}
