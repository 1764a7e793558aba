/* step.h - what an optimizer's step is told, the same for the CPU and for devices (optim.inc is its arithmetic). */
#ifndef RUSH_KERNELS_STEP_H
#define RUSH_KERNELS_STEP_H

#include <stdbool.h>
#include <stdint.h>

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

enum { RUSH_STEP_PARTS = 5 }; /* parameter, gradient and up to three tensors of state */

/* One parameter's tensors, alike in memory; the whole is all parameters end to end. */
typedef struct rush_step_job {
    void *p[RUSH_STEP_PARTS];
    int64_t begin; /* of its elements in the whole */
    uint8_t dtype;
    rush_step step;
} rush_step_job;

typedef struct rush_step_work {
    const rush_step_job *jobs; /* n, and one more that begins where the whole ends */
    int n, parts;
    uint32_t written; /* bit k: part k is stored back */
    rush_step_kind kind;
} rush_step_work;

#endif
