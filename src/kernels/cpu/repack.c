/* repack.c - transpositions of 16 by 16 floats between the caller's layouts and oneDNN's (repack.h). */
#include "kernels/cpu/repack.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/transpose.h"

#if VBYTES == 64

static void outputs(float *to, int64_t in_step, int64_t tap_step, const float *from, int64_t row, int64_t taps)
{
    vf v[16];
    float *at = to;
    int64_t k = 0;
    for (int64_t t = 0; t < taps; ++t) {
        load16(v, from + t * 16, row);
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
            load_part16(v, from + o * row + k, taps, 16, n);
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

RUSH_KERNELS(repack) = {.transpose = transpose16, .outputs = outputs, .outputs_back = outputs_back, .inputs = inputs, .pairs = pairs};

#else

RUSH_KERNELS(repack) = {0};

#endif
