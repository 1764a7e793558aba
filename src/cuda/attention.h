/* attention.h - what both files of attention's kernels stand on: half types as elements, and a score with its mask. */
#ifndef RUSH_CUDA_ATTENTION_H
#define RUSH_CUDA_ATTENTION_H

#include "cuda/rows.h"

#ifdef __CUDACC__
#define PRAGMA_(x) _Pragma(#x)
#define UNROLLED_BY(n) PRAGMA_(unroll n)
#else
#define UNROLLED_BY(n)
#endif
#define LOG2E 1.44269504088896340736f

struct f16 { uint16_t bits; };
struct bf16 { uint16_t bits; };
FN float as_float(float v) { return v; }
FN float as_float(f16 v) { return f16_to_float(v.bits); }
FN float as_float(bf16 v) { return bf16_to_float(v.bits); }
template <class T> FN T from_float(float v);
template <> FN float from_float<float>(float v) { return v; }
template <> FN f16 from_float<f16>(float v) { return {float_to_f16(v)}; }
template <> FN bf16 from_float<bf16>(float v) { return {float_to_bf16(v)}; }

FN int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* A score with what the mask has for it. */
FN float masked(float v, const char *m, int dtype)
{
    switch (dtype) {
    case RUSH_BOOL: return *(const uint8_t *)m ? v : -INFINITY;
    case RUSH_F16: return v + f16_to_float(*(const uint16_t *)m);
    case RUSH_BF16: return v + bf16_to_float(*(const uint16_t *)m);
    default: return v + *(const float *)m;
    }
}

#endif
