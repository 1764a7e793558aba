/* sparse.h - what a tensor of a sparse layout is made of: tensors of indices and values.
 *
 * Such a tensor has no storage and no strides. Its parts are shared by detach() and the like and are never written by
 * an operation: a change in place gives the tensor other parts (rush_sparse_become) and counts in a version of its own.
 *
 *   COO          plain (sparse_dim, nnz) int64, values (nnz, dense...)
 *   CSR, CSC     compressed (batch..., rows or columns + 1), plain (batch..., nnz), values (batch..., nnz, dense...)
 *   BSR, BSC     the same of blocks: values (batch..., nnz, block height, block width, dense...)
 */
#ifndef RUSH_TENSOR_SPARSE_H
#define RUSH_TENSOR_SPARSE_H

#include "tensor/tensor.h"

struct rush_sparse {
    rush_tensor *compressed; /* NULL of COO                                                      */
    rush_tensor *plain, *values;
    uint8_t sparse_dim;      /* of compressed layouts 2, behind the batch                        */
    uint8_t dense_dim, batch_dim;
    bool coalesced;          /* COO: indices are sorted and distinct                             */
};

/* Keeps the parts. compressed is NULL for COO; nothing is checked here. */
rush_tensor *rush_sparse_new(rush_layout, int ndim, const int64_t *size, rush_tensor *compressed, rush_tensor *plain, rush_tensor *values,
                             int sparse_dim, int dense_dim, bool coalesced);
/* Of t's sizes and indices, with other values. */
rush_tensor *rush_sparse_with(const rush_tensor *t, rush_tensor *values);
/* Without entries. */
rush_tensor *rush_sparse_empty(rush_layout, rush_dtype, rush_device, int ndim, const int64_t *size);
rush_tensor *rush_sparse_alias(const rush_tensor *t);             /* the same parts */
int rush_sparse_become(rush_tensor *self, const rush_tensor *of); /* in place: of's sizes and parts */
RUSH_PY const char *rush_layout_word(int layout);                         /* "SparseCsr", for messages */
int rush_sparse_place(rush_device);                               /* -1 and an error: there are none on that device */

static inline int64_t rush_nnz(const rush_tensor *t) { return t->parts->values->size[t->parts->batch_dim]; }
static inline bool rush_by_row(int layout) { return layout == RUSH_SPARSE_CSR || layout == RUSH_SPARSE_BSR; }
static inline bool rush_blocked(int layout) { return layout == RUSH_SPARSE_BSR || layout == RUSH_SPARSE_BSC; }

#endif
