/* factory.h - the options that all makers of tensors take. */
#ifndef RUSH_OPS_FACTORY_H
#define RUSH_OPS_FACTORY_H

#include "op/op.h"

typedef struct factory {
    rush_dtype dtype;
    rush_device device;
    rush_layout layout; /* strided, unless the reader allows others */
} factory;

/* `v` has the arguments dtype, layout, device, pin_memory; what is None comes from `dtype` and `like` (may be NULL). */
int rush_factory_read(factory *, const rush_value *v, int dtype, const rush_tensor *like);
/* The same for makers of zeros, which know the sparse layouts too. */
int rush_factory_read_any(factory *, const rush_value *v, int dtype, const rush_tensor *like);

/* Whether memory that is not initialised is filled (NaN, the largest integer, true), so that who reads it gets the same in each run. */
RUSH_PY void rush_fresh_filled(bool);
RUSH_PY void rush_fresh_fill(rush_tensor *); /* does so where it was asked for */

/* rush_number_fits for a tensor filled with one number; a single element of a half or a float8 takes any, as in PyTorch. */
int rush_filled_fits(rush_value, const rush_tensor *);

#endif
