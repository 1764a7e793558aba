/* reduce.h - the one mechanism of reductions, and what families built on it share. */
#ifndef RUSH_OPS_REDUCE_H
#define RUSH_OPS_REDUCE_H

#include "kernels/cpu/fold.h"
#include "op/op.h"

/* Reduces the dims of x whose bits are set by the fold; out[0], out[1] (NULL: not wanted) are contiguous and hold
 * one element per index of the other dims. Positions in the reduction count along x's order, so folds that keep
 * an index are for one dim, or all dims of a contiguous tensor. Returns -1 when memory runs out. */
int rush_fold_run(const rush_fold *, const rush_tensor *x, uint64_t dims, rush_tensor *const out[2], const rush_fold_arg *);

/* A dim, or several as one, of a walk over a tensor: strides of what is read and of what is written, in units of the walk's. */
typedef struct rush_axis {
    int64_t size, in, out;
} rush_axis;

void rush_axes_sort(rush_axis *, int n);  /* innermost in memory first; stable */
int rush_axes_merge(rush_axis *, int n);  /* dims that lie one behind the other become one; returns how many are left */

/* The sum of floats (over `divisor`, unless it is 0) in the order of PyTorch's; false where that is left to a fold. */
bool rush_cascade_sum(const rush_tensor *x, uint64_t dims, rush_tensor *out, double divisor);

/* The dims that an int, an int list or None names, as bits. None is all dims; an empty list too if empty_is_all.
 * -1 and an error for a dim out of range or named twice. */
int rush_dims_read(rush_value dims, int ndim, bool empty_is_all, uint64_t *bits);
/* Sizes of the result, with reduced dims 1 or gone; returns the number of dims. */
int rush_reduced_size(const rush_tensor *x, uint64_t dims, bool keepdim, int64_t *size);
int64_t rush_reduced_count(const rush_tensor *x, uint64_t dims); /* elements per result */

/* The two halves of a reducing operation, for rules and kernels: makes result i; fills results 0.. with argument 0
 * folded over these dims. */
int rush_reduced_out(rush_value *out, int i, const rush_tensor *x, rush_value dims, bool empty_is_all, bool keepdim, rush_dtype);
int rush_fold_op(const rush_fold *, const rush_value *in, rush_value dims, bool empty_is_all, rush_value *out, int nout,
                 const rush_fold_arg *);
/* The derivative of a sum: g at each of the elements that were summed, in like's dtype. */
rush_tensor *rush_spread(rush_tensor *g, const rush_tensor *like, rush_value dims, bool keepdim);

/* The derivative of choosing elements along dim: zeros like `like`, with g at the indices. */
rush_tensor *rush_put_back(rush_tensor *g, const rush_tensor *like, rush_tensor *index, int64_t dim, bool keepdim);
/* g divided among the elements of x that are in mask; contiguous. */
rush_tensor *rush_share_all(rush_tensor *g, rush_tensor *x, rush_tensor *mask);
/* For derivatives: t, which lost these dims of `like`, with dims of size one in their place. */
rush_tensor *rush_restore_dims(rush_tensor *t, const rush_tensor *like, uint64_t dims, bool keepdim);
/* x as a kernel wants to read it: not lazily conjugated. */
const rush_tensor *rush_plain(const rush_tensor *x);

#endif
