/* softmax.c - softmax for float and double; the bodies are in softmax.inc. */
#include "kernels/cpu/softmax.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/quick_exp.h"

enum { WIDE = RUSH_SOFTMAX_WIDE };

#define T float
#define EXP exp_negative_f32
#define LOG logf
#define NAME(x) x##_f32
#include "kernels/cpu/softmax.inc"
#undef T
#undef EXP
#undef LOG
#undef NAME

#define T double
#define EXP exp_f64
#define LOG log
#define NAME(x) x##_f64
#include "kernels/cpu/softmax.inc"

RUSH_KERNELS(softmax) = {
    .forward = {forward_f32, forward_f64},
    .backward = {backward_f32, backward_f64},
};
