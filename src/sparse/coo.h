/* coo.h - what the files of src/sparse share: coordinates as numbers, and the ways between layouts.
 *
 * Operations here are written with operations on dense tensors, indices and values; loops over their elements are in
 * kernels.c, hidden operations themselves. Helpers are not recorded: they are called where recording is off.
 */
#ifndef RUSH_SPARSE_COO_H
#define RUSH_SPARSE_COO_H

#include "op/formula.h"
#include "tensor/sparse.h"

#define IS_COO(t) ((t)->layout == RUSH_SPARSE_COO)
#define IS_COMPRESSED(t) ((t)->layout > RUSH_SPARSE_COO)
#define INDICES(t) ((t)->parts->plain)
#define VALUES(t) ((t)->parts->values)

/* Of t's sizes. */
rush_tensor *rush_coo_new(int ndim, const int64_t *size, rush_tensor *indices, rush_tensor *values, bool coalesced);
/* Per entry the number of its place among the first `ndim` sizes, row by row: (nnz) int64. Indices are (ndim, nnz). An index
 * outside is an error, so that what goes on with the numbers may trust them. */
rush_tensor *rush_coo_keys(const rush_tensor *indices, int ndim, const int64_t *size);
rush_tensor *rush_coo_keys_of(const rush_tensor *t); /* over all sparse dimensions */
rush_tensor *rush_plain_numbers(const rush_tensor *); /* as contiguous int64 */
/* Equal keys joined: `group` numbers the entries in the order of keys, `first` says which entry has that key first. */
typedef struct rush_groups {
    int64_t n;
    rush_tensor *group; /* (nnz) int64, in [0, n) */
    rush_tensor *first; /* (n) int64 */
} rush_groups;
int rush_coo_group(rush_groups *, rush_tensor *keys);
/* Rows of values (nnz, ...) added up by group: (n, ...). */
rush_tensor *rush_coo_gather(const rush_groups *, rush_tensor *values);
rush_tensor *rush_coo_coalesced(rush_tensor *t);  /* t itself when it is */
/* Any layout as COO: batch dimensions become sparse ones, blocks single elements. */
rush_tensor *rush_as_coo(rush_tensor *t);
/* The checked index parts of a CSR tensor as contiguous int64. */
int rush_csr_parts(rush_tensor *t, rush_tensor **starts, rush_tensor **cols);
rush_tensor *rush_as_dense(rush_tensor *t);       /* strided ones as they are */
/* COO in a compressed layout; block has two sizes for blocked ones. */
rush_tensor *rush_as_compressed(rush_tensor *coo, rush_layout, const int64_t *block);
rush_tensor *rush_in_layout(rush_tensor *t, rush_layout, const rush_tensor *blocks_of);
/* t with its index parts in the type of those of `like`. */
rush_tensor *rush_index_type_of(rush_tensor *t, const rush_tensor *like);
/* Block sizes of a blocked tensor, 1 x 1 of others. */
void rush_block_size(const rush_tensor *, int64_t block[2]);
/* The values that t (dense or COO) has at the entries of mask, zero where a COO t has none. */
rush_tensor *rush_values_at(rush_tensor *t, rush_tensor *mask);
rush_tensor *rush_flat_values(const rush_tensor *t, int64_t lead); /* values as (lead, dense...) */

/* Without entries, in t's layout, dimensions and blocks. */
rush_tensor *rush_cleared(const rush_tensor *t, rush_dtype);
void rush_no_derivative(rush_grads *); /* for forms that PyTorch has no derivative for */
/* "coalesce expected sparse coordinate tensor layout but got Strided" */
int rush_need_coo(const char *name, const rush_tensor *);

#endif
