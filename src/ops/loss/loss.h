/* loss.h - what the losses share. */
#ifndef RUSH_OPS_LOSS_H
#define RUSH_OPS_LOSS_H

#include "op/op.h"
#include <math.h>

/* log(exp(a) + exp(b)), where -infinity is the log of 0. */
static inline double rush_log_add(double a, double b)
{
    if (a == -INFINITY) return b;
    if (b == -INFINITY) return a;
    return a > b ? a + log1p(exp(b - a)) : b + log1p(exp(a - b));
}

rush_tensor *rush_reduced(rush_tensor *loss, int64_t reduction); /* 0 none, 1 mean, 2 sum */

#endif
