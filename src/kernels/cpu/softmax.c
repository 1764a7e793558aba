/* softmax.c - softmax for float and double; the bodies are in softmax.inc. */
#include "kernels/cpu/softmax.h"
#include "kernels/cpu/libmvec.h"

enum { WIDE = 64 };

#define T float
#define EXP expf
#define LOG logf
#define NAME(x) x##_f32
#include "kernels/cpu/softmax.inc"
#undef T
#undef EXP
#undef LOG
#undef NAME

#define T double
#define EXP exp
#define LOG log
#define NAME(x) x##_f64
#include "kernels/cpu/softmax.inc"

RUSH_KERNELS(softmax) = {
    .forward = {forward_f32, forward_f64},
    .backward = {backward_f32, backward_f64},
};
