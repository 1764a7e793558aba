/* mask.c - what a byte mask chooses: counting, packing, spreading, filling.
 *
 * Packing 4- and 8-byte elements takes AVX-512's compress, which leaves the chosen lanes of a register side by side.
 */
#include "kernels/cpu/mask.h"
#if defined(__AVX512F__) && defined(__AVX512BW__)
#include <immintrin.h>
#define HAS_COMPRESS 1
#else
#define HAS_COMPRESS 0
#endif

/* How many elements there are to the last that is chosen: without jumps all others are written, too, where the next one will be. */
static int64_t up_to_last(const uint8_t *mask, int64_t n)
{
    while (n && !mask[n - 1]) --n;
    return n;
}

#define BODY "kernels/cpu/mask.inc"
#include "kernels/cpu/each_size.inc"

static int64_t count(const uint8_t *mask, int64_t n)
{
    int64_t total = 0;
    for (int64_t i = 0; i < n; i += 4096) { /* short runs, so that the inner sum stays narrow */
        int64_t end = RUSH_MIN(i + 4096, n);
        uint32_t c = 0;
        for (int64_t k = i; k < end; k++) c += mask[k] != 0;
        total += c;
    }
    return total;
}

static int64_t pack(char *dst, const char *src, const uint8_t *mask, int64_t n, size_t size)
{
    int64_t i = 0, used = 0;
#if HAS_COMPRESS
    if (size == 4) {
        for (; i + 16 <= n; i += 16) {
            __mmask16 m = _mm_test_epi8_mask(_mm_loadu_si128((const void *)(mask + i)), _mm_set1_epi8(-1));
            __m512i v = _mm512_maskz_compress_epi32(m, _mm512_loadu_si512(src + 4 * i));
            int k = __builtin_popcount(m);
            _mm512_mask_storeu_epi32(dst + 4 * used, (__mmask16)((1u << k) - 1), v);
            used += k;
        }
    } else if (size == 8) {
        for (; i + 8 <= n; i += 8) {
            __mmask8 m = (__mmask8)_mm_test_epi8_mask(_mm_loadl_epi64((const void *)(mask + i)), _mm_set1_epi8(-1));
            __m512i v = _mm512_maskz_compress_epi64(m, _mm512_loadu_si512(src + 8 * i));
            int k = __builtin_popcount(m);
            _mm512_mask_storeu_epi64(dst + 8 * used, (__mmask8)((1u << k) - 1), v);
            used += k;
        }
    }
#endif
    dst += used * (int64_t)size;
    src += i * (int64_t)size;
    switch (size) {
    case 1: return used + pack_1(dst, src, mask + i, n - i);
    case 2: return used + pack_2(dst, src, mask + i, n - i);
    case 4: return used + pack_4(dst, src, mask + i, n - i);
    case 8: return used + pack_8(dst, src, mask + i, n - i);
    default: return used + pack_16(dst, src, mask + i, n - i);
    }
}

static int64_t spread(char *dst, const char *src, const uint8_t *mask, int64_t n, size_t size)
{
    switch (size) {
    case 1: return spread_1(dst, src, mask, n);
    case 2: return spread_2(dst, src, mask, n);
    case 4: return spread_4(dst, src, mask, n);
    case 8: return spread_8(dst, src, mask, n);
    default: return spread_16(dst, src, mask, n);
    }
}

static int64_t positions(int64_t *dst, const uint8_t *mask, int64_t n, int64_t base)
{
    int64_t i = 0, used = 0;
#if HAS_COMPRESS
    __m512i at = _mm512_add_epi64(_mm512_set1_epi64(base), _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0));
    for (; i + 8 <= n; i += 8, at = _mm512_add_epi64(at, _mm512_set1_epi64(8))) {
        __mmask8 m = (__mmask8)_mm_test_epi8_mask(_mm_loadl_epi64((const void *)(mask + i)), _mm_set1_epi8(-1));
        if (!m) continue;
        int k = __builtin_popcount(m);
        _mm512_mask_storeu_epi64(dst + used, (__mmask8)((1u << k) - 1), _mm512_maskz_compress_epi64(m, at));
        used += k;
    }
#endif
    n = up_to_last(mask, n);
    for (; i < n; i++) dst[used] = base + i, used += mask[i] != 0;
    return used;
}

static void fill(char **p, const int64_t *s, int64_t n, const void *arg)
{
    const rush_masked_value *v = arg;
    switch (v->size) {
    case 1: fill_1(p, s, n, v->value); break;
    case 2: fill_2(p, s, n, v->value); break;
    case 4: fill_4(p, s, n, v->value); break;
    case 8: fill_8(p, s, n, v->value); break;
    default: fill_16(p, s, n, v->value);
    }
}

RUSH_KERNELS(mask) = {.count = count, .pack = pack, .spread = spread, .positions = positions, .fill = fill};
