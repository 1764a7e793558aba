/* optim.h - one optimizer step over n elements: parameter, gradient and state in one pass.
 *
 * p[0] is the parameter, p[1] the gradient, p[2].. the state; all contiguous, of one type. The arithmetic is that
 * of PyTorch's operations one after the other, with the fused multiply-adds that those have.
 */
#ifndef RUSH_KERNELS_OPTIM_H
#define RUSH_KERNELS_OPTIM_H

#include "kernels/cpu/isa.h"
#include "kernels/cpu/step.h"

typedef void (*rush_step_fn)(void *const *p, int64_t n, const rush_step *);

struct rush_optim_kernels {
    rush_step_fn f32[RUSH_STEPS], f64[RUSH_STEPS];
};
RUSH_KERNEL_TABLE(optim);

#endif
