/* formula.h - tensor words: the arithmetic of derivatives and composite operations, read as formulas.
 *
 * mul(g, cosh(x)) is two operations; numbers may stand for tensors. Include it only in files that do no
 * scalar mathematics of their own, since the words shadow those of <math.h>.
 */
#ifndef RUSH_FORMULA_H
#define RUSH_FORMULA_H

#include "op/op.h"

#define WORD1(name, a) T(#name, V(a))
#define WORD2(name, a, b) T(#name, V(a), V(b))

#define add(a, b) T("add.Tensor", V(a), V(b))
#define sub(a, b) T("sub.Tensor", V(a), V(b))
#define mul(a, b) T("mul.Tensor", V(a), V(b))
#define div_(a, b) T("div.Tensor", V(a), V(b))
#define pow_(a, b) T("pow.Tensor_Tensor", V(a), V(b))
#define neg(a) WORD1(neg, a)
#define reciprocal(a) WORD1(reciprocal, a)
#define square(a) mul(a, a)
#define conj_(a) T("_conj_if_complex", V(a)) /* the conjugate of complex tensors, real ones as they are */
#define exp_(a) WORD1(exp, a)
#define log_(a) WORD1(log, a)
#define sqrt_(a) WORD1(sqrt, a)
#define rsqrt(a) WORD1(rsqrt, a)
#define sin_(a) WORD1(sin, a)
#define cos_(a) WORD1(cos, a)
#define sinh_(a) WORD1(sinh, a)
#define cosh_(a) WORD1(cosh, a)
#define tanh_(a) WORD1(tanh, a)
#define sigmoid(a) WORD1(sigmoid, a)
#define sgn(a) WORD1(sgn, a)
#define abs_(a) WORD1(abs, a)
#define where(c, a, b) T("where.self", V(c), V(a), V(b))
#define eq(a, b) T("eq.Tensor", V(a), V(b))
#define ne(a, b) T("ne.Tensor", V(a), V(b))
#define lt(a, b) T("lt.Tensor", V(a), V(b))
#define le(a, b) T("le.Tensor", V(a), V(b))
#define gt(a, b) T("gt.Tensor", V(a), V(b))
#define ge(a, b) T("ge.Tensor", V(a), V(b))
#define logical_and(a, b) WORD2(logical_and, a, b)
#define logical_not(a) WORD1(logical_not, a)
#define matmul(a, b) WORD2(matmul, a, b)
#define mm(a, b) WORD2(mm, a, b)
#define transpose(a, i, j) T("transpose.int", V(a), V((int64_t)(i)), V((int64_t)(j)))
#define unsqueeze(a, d) T("unsqueeze", V(a), V((int64_t)(d)))
#define squeeze(a, d) T("squeeze.dim", V(a), V((int64_t)(d)))
#define sum_all(a) T("sum", V(a))
#define zero_where(mask, a) T("masked_fill.Scalar", V(a), V(mask), V(0.0))
#define sum_dim(a, d, keep) T("sum.dim_IntList", V(a), INTS((int64_t)(d)), V((bool)(keep)))
#define sum_to_size(a, like) rush_sum_to(a, like) /* undoes broadcasting: a summed to like's sizes */
#define expand_to(a, like) T("expand", V(a), rush_v_ints((like)->size, (like)->ndim))
#define reshape_to(a, like) T("reshape", V(a), rush_v_ints((like)->size, (like)->ndim))
#define to_dtype(a, d) T("_to_dtype", V(a), rush_v_dtype(d))
#define zeros_like(a) rush_formula_zeros(a)
#define ones_like(a) T("ones_like", V(a))

/* These work on shape-only tensors too. */
rush_tensor *rush_sum_to(rush_tensor *a, const rush_tensor *like);
RUSH_PY rush_tensor *rush_zeros_like(const rush_tensor *like); /* contiguous zeros of like's size, dtype, device */
rush_tensor *rush_laid_plain(rush_tensor *t); /* contiguous, recorded; t itself where it is, NULL passes through */
rush_tensor *rush_formula_zeros(rush_tensor *like); /* in the order of like's strides; who looks at operations sees zeros_like() */
rush_tensor *rush_to_device(rush_tensor *t, const rush_tensor *like); /* t itself where it is there already */
/* The one element, by the operation item: what follows depends on data, and a device has to be waited for. NaN and an error. */
RUSH_PY double rush_number_of(rush_tensor *);
/* All elements as integers, by an operation, too; they live until the scope closes. NULL and an error. */
const int64_t *rush_numbers_of(rush_tensor *);

#endif
