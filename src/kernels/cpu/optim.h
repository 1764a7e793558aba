/* optim.h - one optimizer step over n elements: parameter, gradient and state in one pass.
 *
 * p[0] is the parameter, p[1] the gradient, p[2].. the state; all contiguous, of one type. The arithmetic is that
 * of PyTorch's operations one after the other, with the fused multiply-adds that those have.
 */
#ifndef RUSH_KERNELS_OPTIM_H
#define RUSH_KERNELS_OPTIM_H

#include "kernels/cpu/isa.h"

typedef enum rush_step_kind {
    RUSH_STEP_ADAM, RUSH_STEP_SGD, RUSH_STEP_ADAGRAD, RUSH_STEP_RMSPROP, RUSH_STEP_ADADELTA, RUSH_STEP_ADAMAX, RUSH_STEP_NADAM,
    RUSH_STEP_RADAM, RUSH_STEP_RPROP, RUSH_STEP_ASGD, RUSH_STEPS
} rush_step_kind;

/* What an element's update reads; each kind uses the part it needs. */
typedef struct rush_step {
    double lr;           /* the step size as it is, bias corrections included     */
    double decay;        /* weight decay: added to the gradient, or               */
    bool decoupled;      /* the parameter is multiplied by 1 - lr0 * decay        */
    double shrink;       /* that factor (also asgd's 1 - lambd * eta)             */
    bool maximize, flag; /* flag: amsgrad, nesterov, centered, rectified (radam)  */
    bool first;          /* sgd: the momentum buffer is made; asgd: mu is 1       */
    double b1, b2;       /* the two rates of decay: beta1, beta2; momentum, dampening; alpha, momentum; rho; etas */
    double eps, c1, c2;  /* eps and the corrections that divide                   */
    double rect;         /* radam's rectification */
    double scale;        /* gradients are divided by it and stored so; 0: no      */
} rush_step;

typedef void (*rush_step_fn)(void *const *p, int64_t n, const rush_step *);

struct rush_optim_kernels {
    rush_step_fn f32[RUSH_STEPS], f64[RUSH_STEPS];
};
RUSH_KERNEL_TABLE(optim);

#endif
