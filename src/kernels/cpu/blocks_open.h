/* blocks_open.h - a block of each type as integers and scales, see blocks.def. */
#ifndef RUSH_KERNELS_BLOCKS_OPEN_H
#define RUSH_KERNELS_BLOCKS_OPEN_H

#include "kernels/cpu/blocks.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

static inline float half_at(const uint8_t *p)
{
    uint16_t h = (uint16_t)(p[0] | p[1] << 8);
#if defined(__F16C__)
    return _cvtsh_ss(h);
#else
    return rush_f16_to_f32(h);
#endif
}

static inline float float_at(const uint8_t *p)
{
    float f;
    memcpy(&f, p, 4);
    return f;
}

static inline void halves_of(const uint8_t *b, uint8_t *q, int n) /* the low halves of n bytes, then the high ones */
{
    typedef uint8_t bytes __attribute__((vector_size(16)));
    for (int i = 0; i < n; i += 16) {
        bytes both, low, high;
        memcpy(&both, b + i, 16);
        low = both & 15, high = both >> 4;
        memcpy(q + i, &low, 16), memcpy(q + n + i, &high, 16);
    }
}

static inline void fifth_bits(const uint8_t *b, uint8_t *q) /* bit i of four bytes is that of element i */
{
    uint32_t bits = (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
    for (int i = 0; i < 32; i++) q[i] = (uint8_t)(q[i] | (bits >> i & 1) << 4);
}

static inline void Q4_0_open(const uint8_t *b, uint8_t *q, float *scale, float *low)
{
    scale[0] = half_at(b);
    low[0] = 0;
    halves_of(b + 2, q, 16);
}

static inline void Q4_1_open(const uint8_t *b, uint8_t *q, float *scale, float *low)
{
    scale[0] = half_at(b);
    low[0] = -half_at(b + 2);
    halves_of(b + 4, q, 16);
}

static inline void Q5_0_open(const uint8_t *b, uint8_t *q, float *scale, float *low)
{
    scale[0] = half_at(b);
    low[0] = 0;
    halves_of(b + 6, q, 16);
    fifth_bits(b + 2, q);
}

static inline void Q5_1_open(const uint8_t *b, uint8_t *q, float *scale, float *low)
{
    scale[0] = half_at(b);
    low[0] = -half_at(b + 2);
    halves_of(b + 8, q, 16);
    fifth_bits(b + 4, q);
}

static inline void Q8_0_open(const uint8_t *b, uint8_t *q, float *scale, float *low)
{
    scale[0] = half_at(b);
    low[0] = 0;
    for (int i = 0; i < 32; i++) q[i] = b[2 + i] ^ 128;
}

/* 16 bytes of scale and low; 64 of two bits: elements i, 32 + i, 64 + i, 96 + i of each half are in byte i; scales of both. */
static inline void Q2_K_open(const uint8_t *b, uint8_t *q, float *scale, float *low)
{
    float d = half_at(b + 80), m = half_at(b + 82);
    for (int g = 0; g < 16; g++) scale[g] = d * (float)(b[g] & 15), low[g] = m * (float)(b[g] >> 4);
    for (int g = 0; g < 8; g++)
        for (int i = 0; i < 32; i++) q[32 * g + i] = b[16 + g / 4 * 32 + i] >> g % 4 * 2 & 3;
}

/* 32 bytes of third bits, bit g of byte i of element 32 g + i; 64 of two bits as above; 16 scales of six bits in 12 bytes; their scale. */
static inline void Q3_K_open(const uint8_t *b, uint8_t *q, float *scale, float *low)
{
    float d = half_at(b + 108);
    const uint8_t *s = b + 96;
    for (int g = 0; g < 16; g++) {
        int six = (g < 8 ? s[g] & 15 : s[g - 8] >> 4) | (s[8 + g % 4] >> g / 4 * 2 & 3) << 4;
        scale[g] = d * (float)(six - 32);
        low[g] = 0;
    }
    for (int g = 0; g < 8; g++)
        for (int i = 0; i < 32; i++) q[32 * g + i] = (uint8_t)((b[32 + g / 4 * 32 + i] >> g % 4 * 2 & 3) | (b[i] >> g & 1) << 2);
}

/* The eight scales and lows of Q4_K and Q5_K, six bits each in 12 bytes, a byte each: four have their bits together, of the others two are above the former's. */
static inline void six_bits(const uint8_t *s, uint64_t *scale, uint64_t *low)
{
    uint32_t a, b, c;
    memcpy(&a, s, 4), memcpy(&b, s + 4, 4), memcpy(&c, s + 8, 4);
    *scale = (a & 0x3f3f3f3f) | (uint64_t)((c & 0x0f0f0f0f) | (a >> 2 & 0x30303030)) << 32;
    *low = (b & 0x3f3f3f3f) | (uint64_t)((c >> 4 & 0x0f0f0f0f) | (b >> 2 & 0x30303030)) << 32;
}

static inline void scales_of_k(const uint8_t *b, float *scale, float *low)
{
    float d = half_at(b), m = half_at(b + 2);
    uint64_t of_scale, of_low;
    six_bits(b + 4, &of_scale, &of_low);
    for (int g = 0; g < 8; g++) scale[g] = d * (float)(of_scale >> 8 * g & 255), low[g] = m * (float)(of_low >> 8 * g & 255);
}

static inline void Q4_K_open(const uint8_t *b, uint8_t *q, float *scale, float *low)
{
    scales_of_k(b, scale, low);
    for (int g = 0; g < 4; g++) halves_of(b + 16 + 32 * g, q + 64 * g, 32);
}

static inline void Q5_K_open(const uint8_t *b, uint8_t *q, float *scale, float *low)
{
    scales_of_k(b, scale, low);
    for (int g = 0; g < 4; g++) halves_of(b + 48 + 32 * g, q + 64 * g, 32);
    for (int g = 0; g < 8; g++)
        for (int i = 0; i < 32; i++) q[32 * g + i] = (uint8_t)(q[32 * g + i] | (b[16 + i] >> g & 1) << 4);
}

/* Of each half 64 bytes of low bits, then of each half 32 bytes of two high bits, 16 scales, their scale. */
static inline void Q6_K_open(const uint8_t *b, uint8_t *q, float *scale, float *low)
{
    float d = half_at(b + 208);
    for (int g = 0; g < 16; g++) scale[g] = d * (float)(int8_t)b[192 + g], low[g] = 0;
    for (int h = 0; h < 2; h++) halves_of(b + 64 * h, q + 128 * h, 64);
    for (int g = 0; g < 8; g++)
        for (int i = 0; i < 32; i++) q[32 * g + i] = (uint8_t)(q[32 * g + i] | (b[128 + g / 4 * 32 + i] >> g % 4 * 2 & 3) << 4);
}

static inline void Q8_K_open(const uint8_t *b, uint8_t *q, float *scale, float *low)
{
    for (int g = 0; g < 8; g++) scale[g] = float_at(b), low[g] = 0;
    for (int i = 0; i < 256; i++) q[i] = b[4 + i] ^ 128;
}

static inline __attribute__((always_inline)) void block_open(int type, const uint8_t *b, uint8_t *q, float *scale, float *low)
{
#define BLOCK(number, name, ...) case number: name##_open(b, q, scale, low); break;
    switch (type) {
#include "kernels/blocks.def"
    }
#undef BLOCK
}

#endif
