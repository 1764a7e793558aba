/* gemm.h - products of two matrices of any strides: C = alpha A B + beta C (+ bias of each column).
 *
 * Strides are in elements. `beta` 0 does not read C. `bias` (n of them, or NULL) is added once. Threads are
 * used where it pays; what is called inside rush_parallel_for stays on its thread.
 */
#ifndef RUSH_GEMM_H
#define RUSH_GEMM_H

#include "kernels/cpu/isa.h"

typedef struct rush_gemm {
    int64_t m, n, k;
    const void *a, *b, *bias; /* (m, k), (k, n), (n) */
    void *c;                  /* (m, n) */
    int64_t am, ak, bk, bn, cm, cn;
    double alpha, beta;
} rush_gemm;

struct rush_gemm_kernels {
    void (*f32)(const rush_gemm *);
    void (*f64)(const rush_gemm *);
    /* C += A B of integers, modulo the type's range; beta and alpha are the caller's */
    void (*integer)(const rush_gemm *, rush_dtype);
    float (*dot_f32)(int64_t n, const float *, int64_t, const float *, int64_t);
    double (*dot_f64)(int64_t n, const double *, int64_t, const double *, int64_t);
};
RUSH_KERNEL_TABLE(gemm);

#endif
