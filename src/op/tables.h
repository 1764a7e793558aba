/* tables.h - how a device computes what many operations share: the rows of src/kernels/pointwise.def, the folds of fold.h, the
 * distributions that random numbers are drawn from, and windows, borders and weighted sums over the planes of images.
 *
 * The kernels of the CPU for such operations are written over these; a backend that has them takes op->cpu as its kernel.
 */
#ifndef RUSH_TABLES_H
#define RUSH_TABLES_H

#include "kernels/cpu/distance.h"
#include "kernels/cpu/fold.h"
#include "kernels/cpu/pad.h"
#include "kernels/cpu/pointwise.h"
#include "kernels/cpu/pool.h"
#include "kernels/cpu/resample.h"
#include "kernels/cpu/step.h"
#include "op/op.h"

/* Rows beyond the table's: loops whose operands are not all of one type. */
enum { RUSH_PW_where = RUSH_PW_COUNT, RUSH_PW_frexp, RUSH_PW_nextafter_half };

struct sampler;
typedef enum rush_pool_kind { RUSH_POOL_MAX, RUSH_POOL_MEAN, RUSH_POOL_MEAN_BACK } rush_pool_kind;

typedef struct rush_tables {
    /* operand[0..nout) are written, tensors or numbers are read; compute[k] is what the row computes k in. */
    int (*row)(int id, int nout, int n, const rush_value *operand, const uint8_t *compute, const rush_pw_args *);
    int (*fold)(const rush_fold *, const rush_tensor *x, uint64_t dims, rush_tensor *const out[2], const rush_fold_arg *);
    /* Numbers of a distribution (ops/create/random.h) into a tensor; a generator of the CPU or none stands for the device's. */
    int (*sample)(rush_tensor *, const struct sampler *, rush_generator *);
    /* Of contiguous x to contiguous y, in the kernels' types: as rush_k_pool, rush_k_resample and rush_k_pad have them. */
    int (*pool)(rush_pool_kind, const rush_pool *, const rush_tensor *x, rush_tensor *y, rush_tensor *index);
    int (*pool_scatter)(int64_t planes, int64_t result, int64_t space, const rush_tensor *g, const rush_tensor *index, rush_tensor *gx, bool add);
    int (*along)(const rush_taps *, int64_t outer, int64_t inner, const rush_tensor *x, rush_tensor *y, bool back);
    int (*nearest)(const rush_nearest *, const rush_tensor *x, rush_tensor *y);
    int (*pad)(const rush_pad *, const rush_tensor *x, rush_tensor *y, bool back);
    int (*grid)(rush_grid_pass, const rush_grid *, rush_dtype, rush_device, const rush_grid_data *); /* as rush_k_resample->grid_f32 and grid_f64 */
    /* as rush_k_distance->all; and ga from `weight`, each distance's gradient over what its norm has left of it, as distance.c makes it */
    int (*distances)(const rush_distances *, const rush_tensor *a, const rush_tensor *b, rush_tensor *to);
    int (*distances_back)(const rush_distances *, const rush_tensor *weight, const rush_tensor *a, const rush_tensor *b, const rush_tensor *distance, rush_tensor *ga);
    int (*steps)(const rush_step_work *, rush_device); /* of an optimizer, over all its parameters */
    const struct rush_fuser *fuser; /* of rows that were put off (op/later_list.h); NULL: they never are */
} rush_tables;

extern RUSH_PY const rush_tables *rush_tables_of[RUSH_DEVICES];

#endif
