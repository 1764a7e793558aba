/* quant.h - words for functions over quantized tensors. */
#ifndef RUSH_QUANT_H
#define RUSH_QUANT_H

#include "op/formula.h"
#include "tensor/quantized.h"

/* Argument i is a quantized tensor; -1 and PyTorch's error that names the operation. */
int rush_need_quantized(const char *name, const rush_tensor *);
int rush_need_per_tensor(const char *name, const rush_tensor *);
/* The zero point is an integer of the quantized dtype. */
int rush_need_zero_point(const char *name, int64_t zero, int dtype);
/* The numbers, float32; a tensor that is not quantized as it is. */
rush_tensor *rush_numbers(rush_tensor *);
/* Numbers on a grid, as quantized dtype. */
rush_tensor *rush_on_grid(rush_tensor *x, double scale, int64_t zero_point, int dtype);
rush_tensor *rush_on_grid_of(rush_tensor *x, const rush_tensor *of); /* of of's parameters */
/* Least and greatest integer of a quantized dtype. */
int64_t rush_grid_low(int dtype);
int64_t rush_grid_high(int dtype);

#endif
