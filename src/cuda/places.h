/* places.h - a walk by hand, for operations that index: sizes, and the strides of each operand; and results that are written in part. */
#ifndef RUSH_CUDA_PLACES_H
#define RUSH_CUDA_PLACES_H

#include "cuda/column.h"

typedef struct places {
    cuda_places p;
    int ndim;
    int64_t size[RUSH_MAXDIM], stride[CUDA_OPERANDS][RUSH_MAXDIM]; /* outermost first; bytes */
} places;

/* The sizes that (n, size) and (m, more) broadcast to, in size; their number, or -1: they differ. */
int cuda_broadcast(int n, int64_t *size, int m, const int64_t *more);
void cuda_places_begin(places *, int ndim, const int64_t *size, rush_device);
/* Operand k is t, whose dims stand at `first` and behind; sizes of one are repeated. */
void cuda_places_operand(places *, int k, const rush_tensor *t, int first);
int cuda_places_finish(places *);

/* out[0] with self's elements, lazily conjugated ones settled; what is put goes there, and from there into out[0]. */
rush_tensor *cuda_target(const rush_value *in, rush_value *out, rush_tensor **made);
void cuda_deliver(rush_value *out, rush_tensor *made);
/* mask.c: what a mask of x's sizes chooses; the value where the mask is true, what was there elsewhere. */
void cuda_select_into(rush_value *out, rush_tensor *x, rush_tensor *mask);
int cuda_fill_where(rush_tensor *to, rush_tensor *mask, rush_value value, rush_value from);

static inline const rush_tensor *plain(const rush_tensor *t) { return t->flags & (RUSH_T_CONJ | RUSH_T_NEG) ? rush_contiguous_copy(t) : t; }
static inline int64_t item_of(const rush_tensor *t) { return rush_dtypes[t->dtype].size; }

#endif
