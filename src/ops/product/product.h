/* product.h - products of tensors for every family that needs them: the way to the engine that suits. */
#ifndef RUSH_PRODUCT_H
#define RUSH_PRODUCT_H

#include "ops/geometry.h"

/* c = alpha a b + beta c (+ bias of each column). Matrices, or batches of them (3-d, a batch of 1 repeats).
 * c has the dtype of a and b, any strides without overlap. Reads conjugated and negated tensors.
 * Numbers that are no real float (complex, or exact integers) are the caller's. */
int rush_product(rush_tensor *c, const rush_tensor *a, const rush_tensor *b, double alpha, double beta, const rush_tensor *bias);
/* Raises PyTorch's NotImplementedError for types without products. */
int rush_product_dtype(rush_dtype, const char *kernel);
/* The conjugate transpose: what every derivative of a product is made of. */
rush_tensor *rush_adjoint(rush_tensor *);
/* A tensor of this many rows and columns over t's memory, copied only where its strides do not allow it. */
rush_tensor *rush_as_rows(const rush_tensor *t, int64_t rows, int64_t columns);

#endif
