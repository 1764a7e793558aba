/* transpose.h - matrices of floats (or of any four bytes) transposed 16 by 16, for instruction sets with vectors of 16. */
#ifndef RUSH_TRANSPOSE_H
#define RUSH_TRANSPOSE_H

#include "kernels/cpu/isa.h"
#include "kernels/cpu/simd.h"

#if VBYTES == 64

static inline void load16(vf v[16], const float *from, int64_t row)
{
    for (int i = 0; i < 16; ++i) v[i] = vf_load(from + i * row);
}

/* The first n elements of the first m rows, zeros beyond. */
static inline void load_part16(vf v[16], const float *from, int64_t row, int m, int n)
{
    for (int i = 0; i < 16; ++i) v[i] = i < m ? vf_load_part(from + i * row, n) : (vf){0};
}

/* to[c * to_row + r] = from[r * from_row + c] for r < rows, c < columns */
static inline void transpose16(float *to, int64_t to_row, const float *from, int64_t from_row, int64_t rows, int64_t columns)
{
    vf v[16];
    for (int64_t c = 0; c < columns; c += 16) {
        int n = (int)RUSH_MIN(columns - c, 16);
        int64_t r = 0;
        for (; n == 16 && r + 16 <= rows; r += 16) {
            load16(v, from + r * from_row + c, from_row);
            vf_transpose(v);
            for (int i = 0; i < 16; ++i) vf_store(to + (c + i) * to_row + r, v[i]);
        }
        for (; r < rows; r += 16) {
            int m = (int)RUSH_MIN(rows - r, 16);
            load_part16(v, from + r * from_row + c, from_row, m, n);
            vf_transpose(v);
            for (int i = 0; i < n; ++i) _mm512_mask_storeu_ps(to + (c + i) * to_row + r, (__mmask16)((1u << m) - 1), (__m512)v[i]);
        }
    }
}

#endif

#endif
