/* places.h - what masks and index tensors stand for, as numbers: shared by the families that index. */
#ifndef RUSH_OPS_PLACES_H
#define RUSH_OPS_PLACES_H

#include "op/op.h"
#include "kernels/cpu/index.h"

/* The coordinates of what is true, one row per dimension: (ndim, n) int64. Nonzero means true for other dtypes. */
rush_tensor *rush_nonzero_rows(const rush_tensor *);
/* The elements of t where mask (of the same sizes) is true, 1-d. */
rush_tensor *rush_masked_pack(const rush_tensor *t, const rush_tensor *mask);
/* An index tensor as contiguous int64. */
rush_tensor *rush_index_numbers(const rush_tensor *index);
/* Position of the first of these numbers (contiguous int64) outside [low, high); -1. */
int64_t rush_index_outside(const rush_tensor *numbers, int64_t low, int64_t high);
/* Numbers (contiguous int64) within [low, high)? If not, an error of that kind; dim is for the message. */
int rush_index_within(const rush_tensor *numbers, int64_t low, int64_t high, rush_error_kind, int dim);

/* The loop that puts elements of that dtype with +, *, ...; NULL with an error where there is none. */
rush_index_loop rush_combining(int put, rush_dtype);

/* Rows index[0..n) of `from` (its first dimension; negative numbers count from the end), one after the other, into
 * `to`. Both are contiguous, not empty and of one dtype; the numbers have been checked. */
void rush_take_rows(rush_tensor *to, const rush_tensor *from, const int64_t *index, int64_t n);

/* A result that was given must be of self's dtype and have memory of its own. */
int rush_same_dtype_out(const rush_value *out, const rush_tensor *self);

#endif
