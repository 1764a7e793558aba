/* loss.h - what the losses share. */
#ifndef RUSH_OPS_LOSS_H
#define RUSH_OPS_LOSS_H

#include "op/op.h"

rush_tensor *rush_reduced(rush_tensor *loss, int64_t reduction); /* 0 none, 1 mean, 2 sum */

#endif
