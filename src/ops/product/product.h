/* product.h - products of tensors for every family that needs them: the way to the engine that suits. */
#ifndef RUSH_PRODUCT_H
#define RUSH_PRODUCT_H

#include "kernels/cpu/conv.h"
#include "ops/geometry.h"

/* c = alpha a b + beta c (+ bias of each column). Matrices, or batches of them (3-d, a batch of 1 repeats).
 * c has the dtype of a and b, any strides without overlap. Reads conjugated and negated tensors.
 * Numbers that are no real float (complex, or exact integers) are the caller's. */
int rush_product(rush_tensor *c, const rush_tensor *a, const rush_tensor *b, double alpha, double beta, const rush_tensor *bias);
/* c = the product of each group, by `multiply`; offs is NULL where both factors have three dims (grouped.c). */
RUSH_PY int rush_grouped(rush_tensor *c, rush_tensor *a, rush_tensor *b, rush_tensor *offs, int (*multiply)(rush_tensor *c, rush_tensor *a, rush_tensor *b));
/* A weight of k inputs and n outputs, these elements apart, and how it is brought into the form in which a kernel reads it. */
typedef struct rush_weight {
    const void *at;
    int64_t k, n, k_step, n_step, tap_step; /* tap_step: from one place of a window to the next */
    size_t nbytes;                          /* of the form */
    void (*lay_out)(const struct rush_weight *, void *to);
} rush_weight;
/* That form of a tensor's memory, if it is settled: made once and kept beside it. NULL where it isn't, or takes too much room (laid_out.c). */
const void *rush_laid_out(const rush_tensor *, const rush_weight *);
/* The same, or else made for now, in the scope; NULL and an error. */
const void *rush_laid_out_now(const rush_tensor *, const rush_weight *);
/* Raises PyTorch's NotImplementedError for types without products. */
int rush_product_dtype(rush_dtype, const char *kernel);
/* The conjugate transpose: what every derivative of a product is made of. */
rush_tensor *rush_adjoint(rush_tensor *);
/* A tensor of this many rows and columns over t's memory, copied only where its strides do not allow it. */
rush_tensor *rush_as_rows(const rush_tensor *t, int64_t rows, int64_t columns);

/* Positions of the arguments that say how a convolution's window moves. */
enum { RUSH_CONV_STRIDE, RUSH_CONV_PADDING, RUSH_CONV_DILATION, RUSH_CONV_TRANSPOSED, RUSH_CONV_OUTPUT_PADDING, RUSH_CONV_GROUPS };
/* The geometry of the plain convolution that a call with these arguments is, or (transposed) is the way back of. `result` gets
 * the size of the call's result. -1 and PyTorch's error. */
RUSH_PY int rush_conv_geometry(rush_conv *, const rush_tensor *x, const rush_tensor *weight, const rush_value *arguments, int64_t *result);

#endif
