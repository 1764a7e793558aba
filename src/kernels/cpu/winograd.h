/* winograd.h - convolutions of pictures with 3 x 3 windows that move by one, by fewer products: for weights that are laid out beforehand. */
#ifndef RUSH_WINOGRAD_H
#define RUSH_WINOGRAD_H

#include "kernels/cpu/conv.h"

struct rush_winograd_kernels {
    /* Into tiles of how many results a side should such a convolution be cut, 2 or 4? 0: it is none, or has too few channels for it to pay. */
    int (*side)(const rush_conv *);
    size_t (*weight_size)(int side, int64_t in, int64_t out);
    /* w (out, in, 3, 3) with these steps; the nine taps of one window lie tap_step apart */
    void (*lay_out)(int side, int64_t in, int64_t out, const float *w, int64_t out_step, int64_t in_step, int64_t tap_step, void *to);
    /* x, y: channels last; bias (out) or NULL. False without memory. */
    bool (*forward)(const rush_conv *, int side, const float *x, const void *laid_out, const float *bias, float *y);
};
RUSH_KERNEL_TABLE(winograd);

#endif
