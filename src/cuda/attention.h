/* attention.h - what both files of attention's kernels stand on: half types as elements, and a score behind its mask. */
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

/* The scaled score of a query and a key with what the mask says: -inf if the row does not see the key, or one of them is not there. */
FN float score(const cuda_attention &p, int b, int h, int row, int key, float v)
{
    if (row >= (int)p.rows || key >= (int)p.keys || (p.causal && key > row)) return -INFINITY;
    if (!p.mask) return v;
    const char *m = p.mask + b * p.mask_step[0] + h * p.mask_step[1] + row * p.mask_step[2] + key * p.mask_step[3];
    switch (p.mask_dtype) {
    case RUSH_BOOL: return *(const uint8_t *)m ? v : -INFINITY;
    case RUSH_F16: return v + f16_to_float(*(const uint16_t *)m);
    case RUSH_BF16: return v + bf16_to_float(*(const uint16_t *)m);
    default: return v + *(const float *)m;
    }
}

#endif
