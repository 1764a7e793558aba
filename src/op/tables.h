/* tables.h - how a device computes what many operations share: the rows of src/kernels/pointwise.def, the folds of fold.h, and the
 * distributions that random numbers are drawn from.
 *
 * The kernels of the CPU for such operations are written over these; a backend that has them takes op->cpu as its kernel.
 */
#ifndef RUSH_TABLES_H
#define RUSH_TABLES_H

#include "kernels/cpu/fold.h"
#include "kernels/cpu/pointwise.h"
#include "op/op.h"

/* Rows beyond the table's: loops whose operands are not all of one type. */
enum { RUSH_PW_where = RUSH_PW_COUNT, RUSH_PW_frexp, RUSH_PW_nextafter_half };

struct sampler;

typedef struct rush_tables {
    /* operand[0..nout) are written, tensors or numbers are read; compute[k] is what the row computes k in. */
    int (*row)(int id, int nout, int n, const rush_value *operand, const uint8_t *compute, const rush_pw_args *);
    int (*fold)(const rush_fold *, const rush_tensor *x, uint64_t dims, rush_tensor *const out[2], const rush_fold_arg *);
    /* Numbers of a distribution (ops/create/random.h) into a tensor; a generator of the CPU or none stands for the device's. */
    int (*sample)(rush_tensor *, const struct sampler *, rush_generator *);
} rush_tables;

extern RUSH_PY const rush_tables *rush_tables_of[RUSH_DEVICES];

#endif
