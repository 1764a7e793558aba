/* optim.h - what an optimizer object is inside. */
#ifndef RUSH_OPTIM_ROOM_H
#define RUSH_OPTIM_ROOM_H

#include "op/op.h"
#include <rushlight/optim.h>

#define RUSH_OPTIM_STATES 3
#define RUSH_OPTIM_OPTIONS 12

typedef struct rush_optim_state_kind {
    const char *name; /* PyTorch's, in state dicts          */
    bool number;      /* one number instead of a tensor like the parameter */
    bool optional;    /* options decide whether it is there */
} rush_optim_state_kind;

/* The operator, the lists of state that follow its parameters and gradients, whether the counts of steps come after. */
typedef struct rush_optim_kind {
    const char *op;
    rush_optim_state_kind state[RUSH_OPTIM_STATES];
    bool steps;
    bool first_apart; /* the first step is another call than the later ones */
    const char *group; /* the options of PyTorch's groups, in io/checkpoint_optim.c's words; NULL: not written to files */
} rush_optim_kind;

typedef struct rush_optim_entry {
    rush_tensor *parameter, *step, *state[RUSH_OPTIM_STATES]; /* owned; NULL where not in use */
    bool begun, fresh; /* fresh: its first step was the one just made */
} rush_optim_entry;

typedef struct rush_optim_option {
    const char *name; /* of the operator's argument */
    double value;
} rush_optim_option;

typedef struct rush_lbfgs_memory {
    double tolerance_grad, tolerance_change;
    int max_iter, max_eval, room, pairs;
    int64_t iterations, evaluations;
    bool search;
    int64_t n;      /* numbers of all parameters together */
    double *s, *y;  /* room rows of n: steps and changes of gradient, oldest first */
    double *rho;    /* 1 / (s . y) of each */
    double *d, *g;  /* the last direction, gradient */
    double t, scale, loss;
} rush_lbfgs_memory;

struct rush_optim {
    rush_object_end end; /* first: optimizers are parked in scopes */
    atomic_int refs;
    const rush_optim_kind *kind;
    double lr;
    int n, noptions;
    rush_optim_entry *entry;
    bool uses[RUSH_OPTIM_STATES];
    double start[RUSH_OPTIM_STATES]; /* what each state begins with */
    rush_optim_option option[RUSH_OPTIM_OPTIONS];
    rush_lbfgs_memory *lbfgs; /* NULL of all others: io/checkpoint_lbfgs.c */
};

rush_optim *rush_optim_new(const rush_optim_kind *, rush_tensors);
int rush_optim_begin(rush_optim *, rush_optim_entry *); /* its first state, if it has none */
double rush_lbfgs_step(rush_optim *, rush_tensor *(*loss_of)(void *), void *arg);
void rush_lbfgs_free(rush_lbfgs_memory *);
int rush_lbfgs_room(rush_lbfgs_memory *, int room); /* for so many pairs */

#endif
