/* engine.h - what is asked of oneDNN: each function says true when it did the work, false when the portable
 * kernels must do it (oneDNN is not built in, or does not know this case).
 *
 * Primitives are made once per case (dtype, sizes, strides) and thread, and kept in a cache that is bounded in
 * bytes: see onednn.c. Sizes and strides are in elements.
 */
#ifndef RUSH_ENGINE_H
#define RUSH_ENGINE_H

#include "kernels/cpu/conv.h"

/* c = a b + beta c + bias, `batch` of them. A batch stride of 0 repeats the matrix. Of int8 matrices c is int32. */
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

/* The three products of a convolution (kernels/cpu/conv.h has the geometry): forward y = w * x, grad_input
 * gx = w' * g, grad_weight gw = g * x. Images of float32 or bfloat16, channels first or (last) channels last; the
 * weight is (out, in / groups, kernel), contiguous or (weight_last, but not as a result) with its inputs last. Of grad_weight `bias` is a result: the bias's gradient. */
enum { RUSH_CONV_FORWARD, RUSH_CONV_GRAD_INPUT, RUSH_CONV_GRAD_WEIGHT };

bool rush_engine_conv(int what, const rush_conv *, rush_dtype, bool last, bool weight_last, const void *a, const void *b, const void *bias, void *to);

/* Forward of bytes: images of uint8 or int8 with channels last, of which `zero` stands for 0 (without borders unless it is 0), a contiguous weight of
 * int8, and exact sums in int32 with channels last. */
bool rush_engine_conv_bytes(const rush_conv *, rush_dtype, const void *x, int32_t zero, const void *weight, int32_t *to);

/* Until the next call, data (an operand of several products) does not change: its reordered form is kept. NULL ends it. */
void rush_engine_share(const void *data);

/* Until the next call, `data` lies in this storage: if that is settled, its reordered form is kept beside it. NULL ends it. */
void rush_engine_settled(const rush_storage *, const void *data);

#endif
