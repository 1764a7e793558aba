/* gemm.h - products of two matrices of any strides: C = alpha A B + beta C (+ bias of each column).
 *
 * Strides are in elements. `beta` 0 does not read C. `bias` (n of them, or NULL) is added once. Threads are
 * used where it pays; what is called inside rush_parallel_for stays on its thread.
 */
#ifndef RUSH_GEMM_H
#define RUSH_GEMM_H

#include "kernels/cpu/isa.h"

/* Lays out `lines` lines of a matrix from `line` on (rows of A, columns of B), elements [k0, k0 + k) of each, in
 * panels of `wide` lines: element p of line x of a panel at to[p * wide + x], missing lines as zeros. May write
 * up to 15 elements behind the last panel. */
typedef void (*rush_pack)(const void *arg, void *to, int64_t line, int64_t lines, int64_t k0, int64_t k, int64_t wide);

/* Element (p, j) of a matrix of k rows in panels of `wide` columns. */
#define RUSH_PANEL_AT(wide, k, p, j) (((j) / (wide) * (k) + (p)) * (wide) + (j) % (wide))

typedef struct rush_gemm {
    int64_t m, n, k;
    const void *a, *b, *bias; /* (m, k), (k, n), (n) */
    void *c;                  /* (m, n) */
    int64_t am, ak, bk, bn, cm, cn;
    double alpha, beta;
    const void *row_bias;     /* (m) or NULL */
    /* A matrix that is not in memory as such (the windows of a convolution) is laid out by a function. */
    rush_pack pack_a, pack_b;
    const void *pack_arg;
    const void *panels;       /* all of B, laid out beforehand, or NULL; b is then read by small products only */
    int64_t cut, cut_step;    /* cut > 0: column j of C lies at j / cut * cut_step + j % cut * cn */
    int64_t i0, j0;           /* of a part: where it begins */
} rush_gemm;

/* Sums of floats over k > 192 are made of pieces of this length, each a chain of fused multiply-adds that joins the
 * result: the order in which the products behind PyTorch add, from RUSH_GEMM_WIDE columns and 4 rows on. */
static inline int64_t rush_gemm_depth(int64_t k)
{
    return k <= 192 ? k : k < 384 ? k / 2 : 192;
}
#define RUSH_GEMM_WIDE 12

/* Few columns that lie side by side, for narrow.inc; unaligned ones take twice the steps. */
static inline bool rush_gemm_beside(const rush_gemm *g)
{
    return g->m > 1 && g->n > 1 && g->k > 1 && g->n < RUSH_GEMM_WIDE && g->bn == 1 && g->bk != 1 &&
           g->k * RUSH_MAX(g->m, g->n) <= (g->cm % 4 ? 1 << 17 : 1 << 21);
}

/* Is a float product whose sum is cut as quick with our kernels as with an engine, which adds in another order? It is
 * with few rows, whose packed form stays in the cache. */
static inline bool rush_gemm_keeps(const rush_gemm *g)
{
    if (g->n < RUSH_GEMM_WIDE) return (g->ak == 1 && g->bk == 1) || rush_gemm_beside(g); /* narrow.inc */
    return g->k > 192 && g->m <= 128 && g->m * g->k <= 131072;
}

/* A triangular system of n rows, in place: element (i, j) of the matrix lies at a[i * ai + j * aj], and `down` says that the first
 * row is the one that stands alone. The right-hand sides lie side by side, in n rows of RUSH_SUBSTITUTION_WIDTH. */
#define RUSH_SUBSTITUTION_WIDTH 64
typedef struct rush_substitution {
    const void *a;
    int64_t ai, aj, n;
    void *b;
    bool down, unit; /* unit: ones on the diagonal, which is not read */
} rush_substitution;

struct rush_gemm_kernels {
    void (*f32)(const rush_gemm *);
    void (*f64)(const rush_gemm *);
    /* always the blocked way; needed for packing functions and cut columns */
    void (*blocked_f32)(const rush_gemm *);
    void (*blocked_f64)(const rush_gemm *);
    /* B of floats that takes part in many products, in panels of 2 VF columns (simd.h), whose bytes these are */
    size_t (*panels_size)(int64_t n, int64_t k);
    void (*lay_out)(const rush_gemm *, void *panels);
    /* C += A B of integers, modulo the type's range; beta and alpha are the caller's */
    void (*integer)(const rush_gemm *, rush_dtype);
    float (*dot_f32)(int64_t n, const float *, int64_t, const float *, int64_t);
    double (*dot_f64)(int64_t n, const double *, int64_t, const double *, int64_t);
    void (*substitute_f32)(const rush_substitution *);
    void (*substitute_f64)(const rush_substitution *);
};
RUSH_KERNEL_TABLE(gemm);

#endif
