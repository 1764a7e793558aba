/* lapack.h - the glue to LAPACK: factorisations of one column-major matrix, any of the four types.
 *
 * Every function returns LAPACK's info (0 is success). Built without LAPACK they leave a NOT_IMPLEMENTED error.
 * d is RUSH_F32, F64, C64 or C128; matrices are column-major with the leading dimension given.
 */
#ifndef RUSH_LAPACK_H
#define RUSH_LAPACK_H

#include "base/base.h"

int rush_potrf(rush_dtype d, bool upper, int n, void *a, int lda);
int rush_getrf(rush_dtype d, int m, int n, void *a, int lda, int32_t *pivots);
int rush_trtrs(rush_dtype d, bool upper, char trans, bool unit, int n, int nrhs, const void *a, int lda, void *b, int ldb);
int rush_geqrf(rush_dtype d, int m, int n, void *a, int lda, void *tau);
int rush_orgqr(rush_dtype d, int m, int n, int k, void *a, int lda, const void *tau);
/* Hermitian eigenvalues (real) into w; a becomes the vectors if wanted. */
int rush_syevd(rush_dtype d, bool vectors, bool upper, int n, void *a, int lda, void *w);
/* General eigenvalues w and right vectors v, both complex; a is destroyed. */
int rush_geev(rush_dtype d, bool vectors, int n, void *a, int lda, void *w, void *v, int ldv);
/* jobz 'A', 'S' or 'N'; s real; a is destroyed. */
int rush_gesdd(rush_dtype d, char jobz, int m, int n, void *a, int lda, void *s, void *u, int ldu, void *vt, int ldvt);
/* Least squares: of full rank, by pivoted QR, by singular values; rcond and rank as in LAPACK. b has max(m, n) rows, pivots n. */
int rush_gels(rush_dtype d, int m, int n, int nrhs, void *a, int lda, void *b, int ldb);
int rush_gelsy(rush_dtype d, int m, int n, int nrhs, void *a, int lda, void *b, int ldb, int32_t *pivots, double rcond, int32_t *rank);
int rush_gelsd(rush_dtype d, int m, int n, int nrhs, void *a, int lda, void *b, int ldb, void *s, double rcond, int32_t *rank);
int rush_sytrf(rush_dtype d, bool hermitian, int n, void *a, int lda, int32_t *pivots);
int rush_sytrs(rush_dtype d, bool hermitian, int n, int nrhs, const void *a, int lda, const int32_t *pivots, void *b, int ldb);

/* ---- by halves, on all threads (halves.c) ---- */

/* op(A), column-major and triangular: A ('N'), its transposed ('T') or conjugate transposed ('C'). */
typedef struct rush_triangle {
    rush_dtype dtype;
    bool upper, unit; /* of A; unit: ones on the diagonal, which is not read */
    char trans;
    int n, lda;
    const void *a;
} rush_triangle;

/* b becomes X of op(A) X = B, nrhs columns. A zero on the diagonal gives infinities and NaN, as division does. */
void rush_solve_triangle(const rush_triangle *, int nrhs, void *b, int ldb);
/* LAPACK's getrf and getrs */
int rush_lu(rush_dtype d, int m, int n, void *a, int lda, int32_t *pivots);
void rush_solve_lu(rush_dtype d, char trans, int n, int nrhs, const void *lu, int lda, const int32_t *pivots, void *b, int ldb);

#endif
