/* conv.h - convolutions of channels-first, contiguous arrays: forward, and both gradients. */
#ifndef RUSH_CONV_H
#define RUSH_CONV_H

#include "kernels/cpu/isa.h"

/* Always three dimensions; those that are missing have size 1 in front. */
typedef struct rush_conv {
    int64_t n, in, out, groups; /* images; channels in all */
    int64_t space[3], result[3], kernel[3], stride[3], dilation[3], before[3]; /* before: zeros in front of the space */
} rush_conv;

/* x (n, in, space), w (out, in / groups, kernel), y (n, out, result), bias (out) or NULL. */
struct rush_conv_kernels {
    void (*forward_f32)(const rush_conv *, const float *x, const float *w, const float *bias, float *y);
    void (*forward_f64)(const rush_conv *, const double *x, const double *w, const double *bias, double *y);
    void (*grad_input_f32)(const rush_conv *, const float *g, const float *w, float *gx);
    void (*grad_input_f64)(const rush_conv *, const double *g, const double *w, double *gx);
    void (*grad_weight_f32)(const rush_conv *, const float *g, const float *x, float *gw);
    void (*grad_weight_f64)(const rush_conv *, const double *g, const double *x, double *gw);
    /* integers, by plain loops */
    void (*forward_i64)(const rush_conv *, const int64_t *x, const int64_t *w, const int64_t *bias, int64_t *y);
    void (*grad_input_i64)(const rush_conv *, const int64_t *g, const int64_t *w, int64_t *gx);
};
RUSH_KERNEL_TABLE(conv);

#endif
