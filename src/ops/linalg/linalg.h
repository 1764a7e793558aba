/* linalg.h - what the linear algebra families share: checks, column-major results, errors of a batch. */
#ifndef RUSH_OPS_LINALG_H
#define RUSH_OPS_LINALG_H

#include "op/op.h"
#include <stdio.h>

/* Floating or complex, single or double, at least a matrix, square if asked for; `name` is the argument's. */
bool rush_all_finite(const rush_tensor *); /* contiguous, of a type that LAPACK takes */
int rush_linalg_check(const rush_tensor *a, const char *name, bool square);
/* Result i: column-major matrices m x n with like's batch; vectors of n (n < 0: numbers) with like's batch. */
rush_tensor *rush_out_matrix(rush_value *out, int i, const rush_tensor *like, rush_dtype, int64_t m, int64_t n);
rush_tensor *rush_out_batch(rush_value *out, int i, const rush_tensor *like, rush_dtype, int64_t n);
RUSH_PY int64_t rush_batches(const rush_tensor *a); /* product of all sizes but the last two */
/* An error that names the first matrix of the batch whose info is not 0, and what could not be done with it. */
typedef enum linalg_failure { NOT_POSITIVE, NO_LU, NO_LDL, NO_SOLUTION, NO_INVERSE } linalg_failure;
RUSH_PY int rush_linalg_raise(const rush_tensor *info, linalg_failure);
#define rush_wants_grad_of(t) rush_requires_grad(t)

/* A stack of matrices (*, rows, columns), and its matrix number b where it is packed. */
#define ROWS(t) ((int)(t)->size[(t)->ndim - 2])
#define COLS(t) ((int)(t)->size[(t)->ndim - 1])
static inline char *matrix(const rush_tensor *t, int64_t b)
{
    return (char *)rush_ptr(t) + b * ROWS(t) * COLS(t) * rush_dtypes[t->dtype].size;
}

#define BYTES(t) ((size_t)rush_dtypes[(t)->dtype].size)

/* Row b of a result made by rush_out_batch. */
static inline char *batch_row(const rush_tensor *t, int64_t b, int64_t n)
{
    return (char *)rush_ptr(t) + b * n * BYTES(t);
}

/* Words of linear algebra, beside those of op/formula.h. */
#define mT(a) T("transpose.int", V(a), V(-2), V(-1))
#define mH(a) T("_conj_if_complex", V(mT(a)))
#define tril(a, k) T("tril", V(a), V((int64_t)(k)))
#define triu(a, k) T("triu", V(a), V((int64_t)(k)))
#define diagonal(a) T("diagonal", V(a), V(0), V(-2), V(-1))
#define part(a, dim, begin, n) T("narrow", V(a), V((int64_t)(dim)), V((int64_t)(begin)), V((int64_t)(n)))
#define eye_like(a, n) T("eye", V((int64_t)(n)), rush_v_dtype((a)->dtype), ON(a))
#define diag_embed(a) T("diag_embed", V(a))

#endif
