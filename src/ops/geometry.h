/* geometry.h - sizes, strides and offset of a view, computed apart from making it.
 *
 * A view operation makes an alias of a geometry, its derivative pastes a gradient into the same geometry of
 * zeros, and the _scatter form pastes into a copy: so each geometry is worked out by one function.
 */
#ifndef RUSH_OPS_GEOMETRY_H
#define RUSH_OPS_GEOMETRY_H

#include "op/op.h"

typedef struct geometry {
    int ndim;
    int64_t offset; /* in elements, absolute within the storage */
    int64_t size[RUSH_MAXDIM], stride[RUSH_MAXDIM];
} geometry;

/* Each returns -1 with an error for arguments that PyTorch refuses. */
int rush_geometry_select(geometry *, const rush_tensor *, int64_t dim, int64_t index);
int rush_geometry_slice(geometry *, const rush_tensor *, int64_t dim, rush_value start, rush_value end, int64_t step);
int rush_geometry_diagonal(geometry *, const rush_tensor *, int64_t offset, int64_t dim1, int64_t dim2);
int rush_geometry_strided(geometry *, const rush_tensor *, rush_value size, rush_value stride, rush_value offset);
void rush_geometry_of(geometry *, const rush_tensor *);
rush_tensor *rush_geometry_view(const rush_tensor *, const geometry *);
/* The first result: the tensor from its first element on, by other sizes and strides. */
int rush_out_alias(rush_value *out, const rush_tensor *, int ndim, const int64_t *size, const int64_t *stride);
/* Part [start, start + length) along dim, unchecked. */
rush_tensor *rush_part(const rush_tensor *, int dim, int64_t start, int64_t length);
/* Images with dim 1 as the last: contiguous where their channels lie side by side. */
rush_tensor *rush_pixels(const rush_tensor *);
/* Do both lie so, and may be read and written so by kernels of the processor? */
bool rush_lie_as_pixels(const rush_tensor *, const rush_tensor *);
/* *size *= times; an error where that is no number: an empty tensor may have sides of any length. */
int rush_grown(const char *op, int64_t *size, int64_t times);

#endif
