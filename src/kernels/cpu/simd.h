/* simd.h - the widest vectors of the instruction set that a kernel file is compiled for, as GCC vector types.
 *
 * vf and vd hold VF floats and VD doubles. Arithmetic on them is written with operators; what has no operator
 * (fused multiply-add, loads of any alignment) has a name here. Without FMA units the fused form is two steps.
 */
#ifndef RUSH_SIMD_H
#define RUSH_SIMD_H

#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__)
#define VBYTES 64
#elif defined(__AVX2__)
#define VBYTES 32
#else
#define VBYTES 16
#endif
#define VF (VBYTES / 4)
#define VD (VBYTES / 8)

typedef float vf __attribute__((vector_size(VBYTES)));
typedef double vd __attribute__((vector_size(VBYTES)));
typedef float vf_any __attribute__((vector_size(VBYTES), aligned(4), may_alias));
typedef double vd_any __attribute__((vector_size(VBYTES), aligned(8), may_alias));
typedef int32_t vi __attribute__((vector_size(VBYTES)));

static inline vf vf_load(const float *p) { return *(const vf_any *)p; }
static inline void vf_store(float *p, vf v) { *(vf_any *)p = v; }
static inline vd vd_load(const double *p) { return *(const vd_any *)p; }
static inline void vd_store(double *p, vd v) { *(vd_any *)p = v; }

#if defined(__FMA__)
#include <immintrin.h>
#endif
/* The first n floats from p on, zeros beyond; n <= VF. */
static inline vf vf_load_part(const float *p, int n)
{
#if defined(__AVX512F__)
    return (vf)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
#elif VBYTES == 32
    return (vf)_mm256_maskload_ps(p, _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)));
#else
    vf v = {0};
    memcpy(&v, p, (size_t)n * sizeof(float));
    return v;
#endif
}
static inline vf vf_fma(vf a, vf b, vf c)
{
#if defined(__AVX512F__)
    return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__) && VBYTES == 32
    return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    return a * b + c;
#endif
}
static inline vd vd_fma(vd a, vd b, vd c)
{
#if defined(__AVX512F__)
    return (vd)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif defined(__FMA__) && VBYTES == 32
    return (vd)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#else
    return a * b + c;
#endif
}
/* The vector in a register: GCC would load it again at each use. */
#if defined(__AVX512F__)
#define IN_REGISTER(v) __asm__("" : "+v"(v))
#elif defined(__SSE2__)
#define IN_REGISTER(v) __asm__("" : "+x"(v))
#else
#define IN_REGISTER(v) (void)(v)
#endif
static inline vf vf_set(float x) { return x - (vf){0}; }
static inline vd vd_set(double x) { return x - (vd){0}; }
static inline float vf_sum(vf v)
{
    float s = 0;
    for (int i = 0; i < VF; ++i) s += v[i];
    return s;
}
static inline double vd_sum(vd v)
{
    double s = 0;
    for (int i = 0; i < VD; ++i) s += v[i];
    return s;
}
static inline vf vf_where(vi mask, vf a, vf b) { return (vf)(((vi)a & mask) | ((vi)b & ~mask)); }
static inline vf vf_max(vf a, vf b) { return vf_where(a > b, a, b); }

#if VBYTES >= 32
/* Eight vectors, rows for columns. */
static inline void turn8(__m256 v[8])
{
    __m256 t[8], u[8];
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(v[i], v[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(v[i], v[i + 1]);
    }
    for (int i = 0; i < 8; i += 4)
        for (int k = 0; k < 2; ++k) {
            u[i + 2 * k] = _mm256_shuffle_ps(t[i + k], t[i + k + 2], 0x44);
            u[i + 2 * k + 1] = _mm256_shuffle_ps(t[i + k], t[i + k + 2], 0xee);
        }
    for (int i = 0; i < 4; ++i) {
        v[i] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x20);
        v[i + 4] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x31);
    }
}
#endif

#if VBYTES == 32
static inline void vf_transpose(vf v[8]) { turn8((__m256 *)v); }
#elif VBYTES == 64
/* 16 vectors of 16 floats, rows for columns. */
static inline void vf_transpose(vf v[16])
{
    __m512 t[16], u[16];
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_ps((__m512)v[i], (__m512)v[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps((__m512)v[i], (__m512)v[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
        u[i] = (__m512)_mm512_unpacklo_pd((__m512d)t[i], (__m512d)t[i + 2]);
        u[i + 1] = (__m512)_mm512_unpackhi_pd((__m512d)t[i], (__m512d)t[i + 2]);
        u[i + 2] = (__m512)_mm512_unpacklo_pd((__m512d)t[i + 1], (__m512d)t[i + 3]);
        u[i + 3] = (__m512)_mm512_unpackhi_pd((__m512d)t[i + 1], (__m512d)t[i + 3]);
    }
    for (int j = 0; j < 4; ++j) {
        __m512 a = _mm512_shuffle_f32x4(u[j], u[4 + j], 0x88), b = _mm512_shuffle_f32x4(u[8 + j], u[12 + j], 0x88);
        __m512 c = _mm512_shuffle_f32x4(u[j], u[4 + j], 0xdd), d = _mm512_shuffle_f32x4(u[8 + j], u[12 + j], 0xdd);
        v[j] = (vf)_mm512_shuffle_f32x4(a, b, 0x88);
        v[4 + j] = (vf)_mm512_shuffle_f32x4(c, d, 0x88);
        v[8 + j] = (vf)_mm512_shuffle_f32x4(a, b, 0xdd);
        v[12 + j] = (vf)_mm512_shuffle_f32x4(c, d, 0xdd);
    }
}
#endif

#endif
