/* quantized.h - tensors of integers that stand for numbers: (q - zero point) * scale.
 *
 * Such a tensor has memory, sizes and strides like any strided one, a dtype of its own (qint8, quint8, qint32) and, beside it,
 * the parameters, which its views share. Its layout is a value of its own, so that nobody takes the integers for numbers
 * without asking: rush_quantized_ints() is the same memory as plain integers. Python calls the layout strided.
 */
#ifndef RUSH_TENSOR_QUANTIZED_H
#define RUSH_TENSOR_QUANTIZED_H

#include "tensor/tensor.h"

/* Numbered as Python's torch.qscheme. The symmetric ones are for observers: no tensor has them. */
typedef enum rush_qscheme { RUSH_PER_TENSOR, RUSH_PER_CHANNEL, RUSH_PER_CHANNEL_FLOAT = 4 } rush_qscheme;

struct rush_qparams {
    atomic_int refs;
    uint8_t scheme;         /* a rush_qscheme                                                      */
    uint8_t axis;           /* per channel: the dimension with a scale for each index              */
    double scale;           /* per tensor                                                          */
    int64_t zero_point;
    rush_tensor *scales;    /* per channel: float64 and int64, or both float32; NULL otherwise     */
    rush_tensor *zeros;
};

static inline bool rush_is_quantized(const rush_tensor *t) { return t->layout == RUSH_QUANTIZED; }
int rush_quantized_of(int dtype);   /* int8 -> qint8, ...; -1 */
int rush_quantized_store(int dtype); /* qint8 -> int8, ...; -1 */
/* A quantized tensor over the memory of integers; parked. */
rush_tensor *rush_quantized_tensor(const rush_tensor *ints, double scale, int64_t zero_point);
rush_tensor *rush_quantized_channels(const rush_tensor *ints, rush_tensor *scales, rush_tensor *zeros, int axis, rush_qscheme);
/* The same with the parameters of another. */
rush_tensor *rush_quantized_like(const rush_tensor *ints, const rush_tensor *of);
/* The memory of a quantized tensor as integers; parked. */
rush_tensor *rush_quantized_ints(const rush_tensor *);
bool rush_quantized_same(const rush_tensor *, const rush_tensor *); /* dtype and parameters */
/* of's parameters for t, which has integers of the same dtype already. */
void rush_quantized_adopt(rush_tensor *t, const rush_tensor *of);
/* In place: of's memory, geometry and parameters, as set_data wants. */
int rush_quantized_become(rush_tensor *self, const rush_tensor *of);

#endif
