/* gemm.c - matrix products on one processor: a small kernel, a skinny kernel, and the blocked one.
 *
 * Large products go the way of Goto and van de Geijn ("Anatomy of high-performance matrix multiplication",
 * 2008): blocks of A and B are packed so that the innermost kernel reads both in order and keeps an MR x NR
 * tile of C in registers. Packing is also where any strides are taken care of. Products with few rows or
 * columns read their large matrix once, as it lies; products below some 32^3 skip all preparation.
 * The body is gemm.inc, once for float and once for double.
 */
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/simd.h"

#if VBYTES == 64
#define MR 14
#elif VBYTES == 32
#define MR 6
#else
#define MR 4
#endif
#define KC 256

#if VBYTES >= 32
/* VF x VF at a time, in registers, down VF lines after another. Writes VF lanes where `wide` is less, and the last line
 * again for lines that are missing: the next row covers what is too much, or nobody reads it. */
static int64_t turn_panel(float *to, const float *from, int64_t lines, int64_t ls, int64_t k, int64_t wide)
{
    for (int64_t x = 0; x < wide; x += VF) {
        const float *row[VF];
        for (int i = 0; i < VF; ++i) row[i] = from + (x + i < lines ? x + i : lines - 1) * ls;
        for (int64_t p = 0; p < k; p += VF) {
            int left = (int)(k - p < VF ? k - p : VF);
            vf v[VF];
            if (left == VF) {
                for (int i = 0; i < VF; ++i) v[i] = vf_load(row[i] + p);
            } else {
                for (int i = 0; i < VF; ++i) v[i] = vf_load_part(row[i] + p, left);
            }
            vf_transpose(v);
            for (int i = 0; i < left; ++i) vf_store(to + (p + i) * wide + x, v[i]);
        }
    }
    return k;
}
#endif

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t round_up(int64_t x, int64_t to) { return (x + to - 1) / to * to; }

#define TURN_FAST (VBYTES >= 32)
#define T float
#define V vf
#define VL VF
#define F(x) x##_f32
#define LOAD vf_load
#define STORE vf_store
#define FMA vf_fma
#define SET vf_set
#define SUM vf_sum
#include "kernels/cpu/gemm.inc"
#include "kernels/cpu/narrow.inc"

static size_t panels_size(int64_t n, int64_t k) { return sizeof(float) * (size_t)(round_up(n, 2 * VF) * k + 16); }

static void lay_out(const rush_gemm *g, void *to) { columns_f32(g, to, 0, g->n, 0, g->k); }

static void product_f32(const rush_gemm *g)
{
    if (g->m > 0 && g->n > 0 && !narrow(g)) gemm_f32(g);
}

#undef TURN_FAST
#define TURN_FAST 0
#define T double
#define V vd
#define VL VD
#define F(x) x##_f64
#define LOAD vd_load
#define STORE vd_store
#define FMA vd_fma
#define SET vd_set
#define SUM vd_sum
#include "kernels/cpu/gemm.inc"

/* ---- integers: rows of C gather multiples of rows of B, in W, which wraps around ---- */

typedef struct integer_job {
    const rush_gemm *g;
    rush_dtype dtype;
} integer_job;

#define INTEGER(U, W, name)                                                                                 \
    static void name(const rush_gemm *g, int64_t begin, int64_t end)                                        \
    {                                                                                                       \
        const U *a = g->a, *b = g->b;                                                                       \
        const int64_t n = g->n, bn = g->bn, cn = g->cn; /* stores to c might change g's, for all that C knows */ \
        for (int64_t i = begin; i < end; ++i) {                                                             \
            U *restrict c = (U *)g->c + i * g->cm;                                                          \
            int64_t p = 0;                                                                                  \
            for (; p + 4 <= g->k && bn == 1 && cn == 1; p += 4) { /* four rows at a time: c is loaded less often */ \
                const U *from = a + i * g->am + p * g->ak;                                                  \
                const W x0 = from[0], x1 = from[g->ak], x2 = from[2 * g->ak], x3 = from[3 * g->ak];         \
                const U *restrict r0 = b + p * g->bk, *restrict r1 = r0 + g->bk, *restrict r2 = r1 + g->bk, *restrict r3 = r2 + g->bk; \
                for (int64_t j = 0; j < n; ++j) c[j] = (U)(c[j] + x0 * r0[j] + x1 * r1[j] + x2 * r2[j] + x3 * r3[j]); \
            }                                                                                               \
            for (; p < g->k; ++p) {                                                                         \
                W x = a[i * g->am + p * g->ak];                                                             \
                const U *restrict row = b + p * g->bk;                                                      \
                if (bn == 1 && cn == 1) {                                                                   \
                    for (int64_t j = 0; j < n; ++j) c[j] = (U)(c[j] + x * row[j]);                          \
                } else {                                                                                    \
                    for (int64_t j = 0; j < n; ++j) c[j * cn] = (U)(c[j * cn] + x * row[j * bn]);           \
                }                                                                                           \
            }                                                                                               \
        }                                                                                                   \
    }
INTEGER(uint8_t, uint32_t, rows_8)
INTEGER(uint16_t, uint32_t, rows_16)
INTEGER(uint32_t, uint32_t, rows_32)
INTEGER(uint64_t, uint64_t, rows_64)

static void integer_rows(void *arg, int64_t begin, int64_t end)
{
    const integer_job *job = arg;
    switch (rush_dtypes[job->dtype].size) {
    case 1: rows_8(job->g, begin, end); break;
    case 2: rows_16(job->g, begin, end); break;
    case 4: rows_32(job->g, begin, end); break;
    default: rows_64(job->g, begin, end);
    }
}

static void integer(const rush_gemm *g, rush_dtype dtype)
{
    integer_job job = {g, dtype};
    int64_t work = RUSH_MAX(g->n * g->k, 1);
    rush_parallel_for(g->m, RUSH_MAX(65536 / work, 1), integer_rows, &job);
}

RUSH_KERNELS(gemm) = {.f32 = product_f32, .f64 = gemm_f64, .blocked_f32 = blocked_parallel_f32, .blocked_f64 = blocked_parallel_f64,
                      .panels_size = panels_size, .lay_out = lay_out,
                      .integer = integer, .dot_f32 = dot_f32, .dot_f64 = dot_f64,
                      .substitute_f32 = substitute_f32, .substitute_f64 = substitute_f64};
