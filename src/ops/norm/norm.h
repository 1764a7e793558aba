/* norm.h - what the normalising layers share. */
#ifndef RUSH_OPS_NORM_H
#define RUSH_OPS_NORM_H

#include "ops/reduce/reduce.h"

/* The dtype of statistics: the weight's, which is the input's or float beside a half type; else an error. */
int rush_norm_param_dtype(const rush_tensor *x, const rush_tensor *weight, rush_dtype *);
/* (x - mean) / sigma over dims by operations, and 1 / sigma; not centered: x / root mean square. */
rush_tensor *rush_normalised(rush_tensor *x, rush_value dims, double eps, bool centered, rush_tensor **rstd);
/* The gradient of that by x, by operations: g is the result's gradient, hat the result. */
rush_tensor *rush_norm_gradient(rush_tensor *g, rush_tensor *hat, rush_tensor *rstd, rush_value dims, bool centered);

#endif
