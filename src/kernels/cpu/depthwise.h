/* depthwise.h - convolutions of each channel by itself, of float pictures with their channels last. */
#ifndef RUSH_DEPTHWISE_H
#define RUSH_DEPTHWISE_H

#include "kernels/cpu/conv.h"

struct rush_depthwise_kernels {
    /* x (n, space, in), w (kernel, in), bias (in) or NULL, y (n, result, in); as many channels out as in, and each a group */
    void (*forward)(const rush_conv *, const float *x, const float *w, const float *bias, float *y);
};
RUSH_KERNEL_TABLE(depthwise);

#endif
