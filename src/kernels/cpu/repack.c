/* repack.c - transpositions of 16 by 16 floats between the caller's layouts and oneDNN's (repack.h). */
#include "kernels/cpu/repack.h"
#include "kernels/cpu/simd.h"

#if VBYTES == 64

static inline void load(vf v[16], const float *from, int64_t row)
{
    for (int i = 0; i < 16; ++i) v[i] = (vf)_mm512_loadu_ps(from + i * row);
}

/* The first n elements of the first m rows, zeros beyond. */
static inline void load_part(vf v[16], const float *from, int64_t row, int m, int n)
{
    __mmask16 some = (__mmask16)((1u << n) - 1);
    for (int i = 0; i < 16; ++i) v[i] = i < m ? (vf)_mm512_maskz_loadu_ps(some, from + i * row) : (vf){0};
}

static void transpose(float *to, int64_t to_row, const float *from, int64_t from_row, int64_t rows, int64_t columns)
{
    vf v[16];
    for (int64_t c = 0; c < columns; c += 16) {
        int n = (int)RUSH_MIN(columns - c, 16);
        int64_t r = 0;
        for (; n == 16 && r + 16 <= rows; r += 16) {
            load(v, from + r * from_row + c, from_row);
            vf_transpose(v);
            for (int i = 0; i < 16; ++i) vf_store(to + (c + i) * to_row + r, v[i]);
        }
        for (; r < rows; r += 16) {
            int m = (int)RUSH_MIN(rows - r, 16);
            load_part(v, from + r * from_row + c, from_row, m, n);
            vf_transpose(v);
            for (int i = 0; i < n; ++i) _mm512_mask_storeu_ps(to + (c + i) * to_row + r, (__mmask16)((1u << m) - 1), (__m512)v[i]);
        }
    }
}

static void outputs(float *to, int64_t in_step, int64_t tap_step, const float *from, int64_t row, int64_t taps)
{
    vf v[16];
    float *at = to;
    int64_t k = 0;
    for (int64_t t = 0; t < taps; ++t) {
        load(v, from + t * 16, row);
        vf_transpose(v);
        for (int j = 0; j < 16; ++j) {
            vf_store(at + k * tap_step, v[j]);
            if (++k == taps) k = 0, at += in_step;
        }
    }
}

static void outputs_back(float *back, int64_t row, const float *from, int64_t in_step, int64_t tap_step, int64_t taps)
{
    vf v[16];
    const float *at = from;
    int64_t k = 0;
    for (int64_t t = 0; t < taps; ++t) {
        for (int j = 0; j < 16; ++j) {
            v[j] = vf_load(at + k * tap_step);
            if (++k == taps) k = 0, at += in_step;
        }
        vf_transpose(v);
        for (int j = 0; j < 16; ++j) vf_store(back + j * row + t * 16, v[j]);
    }
}

static void inputs(float *to, int64_t out_step, int64_t tap_step, const float *from, int64_t row, int64_t taps)
{
    vf v[16];
    for (int o = 0; o < 16; ++o)
        for (int64_t k = 0; k < taps; k += 16) {
            int n = (int)RUSH_MIN(taps - k, 16);
            load_part(v, from + o * row + k, taps, 16, n);
            vf_transpose(v);
            for (int j = 0; j < n; ++j) vf_store(to + o * out_step + (k + j) * tap_step, v[j]);
        }
}

static void pairs(uint16_t *to, const uint16_t *from, int64_t row, int64_t n)
{
    for (int r = 0; r < 32; r += 2) {
        const uint16_t *a = from + r * row, *b = a + row;
        uint16_t *at = to + r * n;
        for (int64_t c = 0; c < n; c += 16) {
            __m512i x = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)(a + c)));
            __m512i y = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)(b + c)));
            _mm512_storeu_si512(at + 2 * c, _mm512_or_si512(x, _mm512_slli_epi32(y, 16)));
        }
    }
}

RUSH_KERNELS(repack) = {.transpose = transpose, .outputs = outputs, .outputs_back = outputs_back, .inputs = inputs, .pairs = pairs};

#else

RUSH_KERNELS(repack) = {0};

#endif
