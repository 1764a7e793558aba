/* pin.h - what the makers of tensors know of page-locked memory. */
#ifndef RUSH_OPS_PIN_H
#define RUSH_OPS_PIN_H

#include "op/op.h"

/* Of the argument pin_memory of a tensor on `at`: -1 and an error if it is true and there is no accelerator to lock memory for. */
RUSH_PY int rush_pin_check(rush_value pin_memory, rush_device at);

#endif
