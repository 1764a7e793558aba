/* engine.h - what is asked of oneDNN: each function says true when it did the work, false when the portable
 * kernels must do it (oneDNN is not built in, or does not know this case).
 *
 * Primitives are made once per case (dtype, sizes, strides) and thread, and kept in a cache that is bounded in
 * bytes: see onednn.c. Sizes and strides are in elements.
 */
#ifndef RUSH_ENGINE_H
#define RUSH_ENGINE_H

#include "base/base.h"

/* c = a b + beta c + bias, `batch` of them. A batch stride of 0 repeats the matrix. */
typedef struct rush_engine_product {
    rush_dtype dtype;
    int64_t batch, m, n, k;
    const void *a, *b, *bias; /* bias: n or NULL */
    void *c;
    int64_t ab, am, ak, bb, bk, bn, cb, cm, cn;
    double beta; /* 0 or 1 */
} rush_engine_product;
bool rush_engine_matmul(const rush_engine_product *);

/* Is low precision (bfloat16) arithmetic done by the processor itself? */
bool rush_engine_has_bf16(void);

/* Convolutions; the input and the result (n, c, space), the weight (out, in / groups, kernel).
 * With `transposed`, the weight is (in, out / groups, kernel). */
typedef struct rush_engine_conv {
    rush_dtype dtype;
    bool transposed;
    int nd;                     /* 1..3 */
    int64_t n, in, out, groups;
    int64_t space[3], result[3], kernel[3], stride[3], dilation[3], before[3], after[3];
    bool channels_last;         /* of input and result */
    bool weight_fixed;          /* the weight's memory is known by (storage, version): its blocked form is kept */
    uint64_t weight_version;
} rush_engine_conv;
bool rush_engine_conv_forward(const rush_engine_conv *, const void *x, const void *w, const void *bias, void *y);
bool rush_engine_conv_grad_input(const rush_engine_conv *, const void *g, const void *w, void *gx);
bool rush_engine_conv_grad_weight(const rush_engine_conv *, const void *g, const void *x, void *gw, void *gbias);

#endif
