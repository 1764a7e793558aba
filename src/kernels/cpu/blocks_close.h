/* blocks_close.h - floats as a block of each type, see blocks.def: the other way of blocks_open.h.
 *
 * The blocks of 32 are those of the gguf package, bit for bit. Those of 256 look for the scales (and lows) of least squared error: from several first
 * guesses elements are rounded, and a line is fitted through what came out.
 */
#ifndef RUSH_KERNELS_BLOCKS_CLOSE_H
#define RUSH_KERNELS_BLOCKS_CLOSE_H

#include "kernels/cpu/blocks_open.h"

#include <math.h>

static inline void half_put(uint8_t *p, float f)
{
    uint16_t h = rush_f32_to_f16(f);
    p[0] = (uint8_t)h, p[1] = (uint8_t)(h >> 8);
}

/* To the nearest whole number from least to most; of no number, the least. */
static inline float whole(float x, float least, float most) { return floorf(fminf(fmaxf(x, least), most) + 0.5f); }

/* ---- how integers lie ---- */

static inline void halves_put(uint8_t *b, const uint8_t *q, int n) /* four bits of n elements in the low halves of n bytes, of the next n in the high ones */
{
    for (int i = 0; i < n; i++) b[i] = (uint8_t)((q[i] & 15) | (q[n + i] & 15) << 4);
}

static inline void fifth_bits_put(uint8_t *b, const uint8_t *q)
{
    memset(b, 0, 4);
    for (int i = 0; i < 32; i++) b[i / 8] = (uint8_t)(b[i / 8] | (q[i] >> 4) << i % 8);
}

static inline void two_bits_put(uint8_t *b, const uint8_t *q, int shift) /* bits `shift` and the next of 256 elements */
{
    memset(b, 0, 64);
    for (int g = 0; g < 8; g++)
        for (int i = 0; i < 32; i++) b[g / 4 * 32 + i] = (uint8_t)(b[g / 4 * 32 + i] | (q[32 * g + i] >> shift & 3) << g % 4 * 2);
}

static inline void bit_put(uint8_t *b, const uint8_t *q, int bit) /* of 256 elements: bit g of byte i is that of element 32 g + i */
{
    memset(b, 0, 32);
    for (int g = 0; g < 8; g++)
        for (int i = 0; i < 32; i++) b[i] = (uint8_t)(b[i] | (q[32 * g + i] >> bit & 1) << g);
}

/* ---- blocks of 32 ---- */

/* The largest number, by its distance from zero, becomes -zero. */
static inline float signed_32(const float *x, int zero, uint8_t *q)
{
    float most = x[0];
    for (int i = 1; i < 32; i++) most = fabsf(x[i]) > fabsf(most) ? x[i] : most;
    float scale = most / (float)-zero, inverse = scale == 0 ? 0 : 1 / scale;
    for (int i = 0; i < 32; i++) q[i] = (uint8_t)fminf(fmaxf(truncf(x[i] * inverse + (float)zero + 0.5f), 0), (float)(2 * zero - 1));
    return scale;
}

static inline void low_32(const float *x, int most, uint8_t *b, uint8_t *q)
{
    float low = x[0], high = x[0];
    for (int i = 1; i < 32; i++) low = fminf(low, x[i]), high = fmaxf(high, x[i]);
    float scale = (high - low) / (float)most, inverse = scale == 0 ? 0 : 1 / scale;
    for (int i = 0; i < 32; i++) q[i] = (uint8_t)fminf(fmaxf(truncf((x[i] - low) * inverse + 0.5f), 0), (float)most);
    half_put(b, scale), half_put(b + 2, low);
}

static inline void Q4_0_close(const float *x, uint8_t *b)
{
    uint8_t q[32];
    half_put(b, signed_32(x, 8, q));
    halves_put(b + 2, q, 16);
}

static inline void Q4_1_close(const float *x, uint8_t *b)
{
    uint8_t q[32];
    low_32(x, 15, b, q);
    halves_put(b + 4, q, 16);
}

static inline void Q5_0_close(const float *x, uint8_t *b)
{
    uint8_t q[32];
    half_put(b, signed_32(x, 16, q));
    fifth_bits_put(b + 2, q);
    halves_put(b + 6, q, 16);
}

static inline void Q5_1_close(const float *x, uint8_t *b)
{
    uint8_t q[32];
    low_32(x, 31, b, q);
    fifth_bits_put(b + 4, q);
    halves_put(b + 8, q, 16);
}

static inline void Q8_0_close(const float *x, uint8_t *b)
{
    float most = 0;
    for (int i = 0; i < 32; i++) most = fmaxf(most, fabsf(x[i]));
    float scale = most / 127, inverse = scale == 0 ? 0 : 1 / scale;
    half_put(b, scale);
    for (int i = 0; i < 32; i++) b[2 + i] = (uint8_t)(int8_t)fminf(fmaxf(roundf(x[i] * inverse), -128), 127);
}

/* ---- blocks of 256 ---- */

/* x is about scale * q - low for q from 0 to most; low is not negative. */
static inline void fit_low(const float *x, int n, int most, float *scale, float *low)
{
    float least = 0, greatest = x[0], best = INFINITY;
    for (int i = 0; i < n; i++) least = fminf(least, x[i]), greatest = fmaxf(greatest, x[i]);
    *scale = 0, *low = -least;
    for (int guess = 0; guess < 8 && greatest > least; guess++) {
        float inverse = ((float)most - 0.75f + 0.25f * (float)guess) / (greatest - least), q[32], of_q = 0, of_x = 0, of_qq = 0, of_qx = 0, error = 0;
        for (int i = 0; i < n; i++) {
            q[i] = whole((x[i] - least) * inverse, 0, (float)most);
            of_q += q[i], of_x += x[i], of_qq += q[i] * q[i], of_qx += q[i] * x[i];
        }
        float d = (float)n * of_qq - of_q * of_q;
        float s = ((float)n * of_qx - of_q * of_x) / d, l = (of_q * of_qx - of_qq * of_x) / d;
        if (d <= 0 || l < 0) l = 0, s = of_qx / of_qq; /* no line goes through equal integers */
        for (int i = 0; i < n; i++) error += (s * q[i] - l - x[i]) * (s * q[i] - l - x[i]);
        if (error < best && s > 0) best = error, *scale = s, *low = l;
    }
}

/* The scales and lows of groups in steps of two halves, and the elements by them. */
static inline void close_low(const float *x, int groups, int most, float steps, uint8_t *halves, uint8_t *scale, uint8_t *low, uint8_t *q)
{
    float s[16], l[16], s_most = 0, l_most = 0;
    int n = 256 / groups;
    for (int g = 0; g < groups; g++) {
        fit_low(x + g * n, n, most, &s[g], &l[g]);
        s_most = fmaxf(s_most, s[g]), l_most = fmaxf(l_most, l[g]);
    }
    half_put(halves, s_most / steps), half_put(halves + 2, l_most / steps);
    float d = half_at(halves), m = half_at(halves + 2);
    for (int g = 0; g < groups; g++) {
        scale[g] = (uint8_t)(d > 0 ? whole(s[g] / d, 0, steps) : 0);
        low[g] = (uint8_t)(m > 0 ? whole(l[g] / m, 0, steps) : 0);
        float by = d * scale[g], inverse = by > 0 ? 1 / by : 0;
        for (int i = g * n; i < (g + 1) * n; i++) q[i] = (uint8_t)whole((x[i] + m * low[g]) * inverse, 0, (float)most);
    }
}

/* x is about scale * q for q from -zero to zero - 1. */
static inline float fit_scale(const float *x, float zero)
{
    float most = 0, best = -INFINITY, scale = 0;
    for (int i = 0; i < 16; i++) most = fabsf(x[i]) > fabsf(most) ? x[i] : most;
    for (int guess = -4; guess <= 4 && most != 0; guess++) {
        float inverse = (0.2f * (float)guess - zero) / most, of_qq = 0, of_qx = 0;
        for (int i = 0; i < 16; i++) {
            float q = whole(x[i] * inverse, -zero, zero - 1);
            of_qq += q * q, of_qx += q * x[i];
        }
        if (of_qq > 0 && of_qx * of_qx / of_qq > best) best = of_qx * of_qx / of_qq, scale = of_qx / of_qq; /* what it takes away from the error */
    }
    return scale;
}

/* The scales of 16 groups in steps of a half, and the elements by them. */
static inline void close_signed(const float *x, float zero, float steps, uint8_t *half, int8_t *scale, uint8_t *q)
{
    float s[16], most = 0;
    for (int g = 0; g < 16; g++) s[g] = fit_scale(x + 16 * g, zero), most = fabsf(s[g]) > fabsf(most) ? s[g] : most;
    half_put(half, most / -steps);
    float d = half_at(half);
    for (int g = 0; g < 16; g++) {
        scale[g] = (int8_t)(d != 0 ? whole(s[g] / d, -steps, steps - 1) : 0);
        float by = d * scale[g], inverse = by != 0 ? 1 / by : 0;
        for (int i = 16 * g; i < 16 * g + 16; i++) q[i] = (uint8_t)whole(x[i] * inverse + zero, 0, 2 * zero - 1);
    }
}

static inline void Q2_K_close(const float *x, uint8_t *b)
{
    uint8_t q[256], scale[16], low[16];
    close_low(x, 16, 3, 15, b + 80, scale, low, q);
    for (int g = 0; g < 16; g++) b[g] = (uint8_t)(scale[g] | low[g] << 4);
    two_bits_put(b + 16, q, 0);
}

static inline void Q3_K_close(const float *x, uint8_t *b)
{
    uint8_t q[256];
    int8_t scale[16];
    close_signed(x, 4, 32, b + 108, scale, q);
    bit_put(b, q, 2);
    two_bits_put(b + 32, q, 0);
    memset(b + 96, 0, 12);
    for (int g = 0; g < 16; g++) {
        int six = scale[g] + 32;
        b[96 + g % 8] = (uint8_t)(b[96 + g % 8] | (six & 15) << g / 8 * 4);
        b[104 + g % 4] = (uint8_t)(b[104 + g % 4] | six >> 4 << g / 4 * 2);
    }
}

static inline void six_bits_put(uint8_t *b, const uint8_t *scale, const uint8_t *low)
{
    for (int g = 0; g < 4; g++) {
        b[g] = (uint8_t)(scale[g] | scale[4 + g] >> 4 << 6);
        b[4 + g] = (uint8_t)(low[g] | low[4 + g] >> 4 << 6);
        b[8 + g] = (uint8_t)((scale[4 + g] & 15) | (low[4 + g] & 15) << 4);
    }
}

static inline void Q4_K_close(const float *x, uint8_t *b)
{
    uint8_t q[256], scale[8], low[8];
    close_low(x, 8, 15, 63, b, scale, low, q);
    six_bits_put(b + 4, scale, low);
    for (int g = 0; g < 4; g++) halves_put(b + 16 + 32 * g, q + 64 * g, 32);
}

static inline void Q5_K_close(const float *x, uint8_t *b)
{
    uint8_t q[256], scale[8], low[8];
    close_low(x, 8, 31, 63, b, scale, low, q);
    six_bits_put(b + 4, scale, low);
    bit_put(b + 16, q, 4);
    for (int g = 0; g < 4; g++) halves_put(b + 48 + 32 * g, q + 64 * g, 32);
}

static inline void Q6_K_close(const float *x, uint8_t *b)
{
    uint8_t q[256];
    int8_t scale[16];
    close_signed(x, 32, 128, b + 208, scale, q);
    for (int h = 0; h < 2; h++) halves_put(b + 64 * h, q + 128 * h, 64);
    two_bits_put(b + 128, q, 4);
    memcpy(b + 192, scale, 16);
}

/* Floats with a scale for all of them: those that products round rows to in other programs. */
static inline void Q8_K_close(const float *x, uint8_t *b)
{
    float most = 0;
    for (int i = 0; i < 256; i++) most = fabsf(x[i]) > fabsf(most) ? x[i] : most;
    float scale = most / -127, inverse = scale == 0 ? 0 : 1 / scale;
    memcpy(b, &scale, 4);
    for (int i = 0; i < 256; i++) b[4 + i] = (uint8_t)(int8_t)whole(x[i] * inverse, -127, 127);
    for (int g = 0; g < 16; g++) {
        int16_t sum = 0;
        for (int i = 0; i < 16; i++) sum = (int16_t)(sum + (int8_t)b[4 + 16 * g + i]);
        b[260 + 2 * g] = (uint8_t)sum, b[261 + 2 * g] = (uint8_t)(sum >> 8);
    }
}

static inline void block_close(int type, const float *x, uint8_t *b)
{
#define BLOCK(number, name, ...) case number: name##_close(x, b); break;
    switch (type) {
#include "kernels/blocks.def"
    }
#undef BLOCK
}

#endif
