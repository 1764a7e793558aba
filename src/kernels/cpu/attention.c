/* attention.c - the row-wise part of attention for float and double; the bodies are in attention.inc. */
#include "kernels/cpu/attention.h"
#include "kernels/cpu/float_math.h"
#include "kernels/cpu/libmvec.h"

#define T float
#define LOWEST -87.3f
#define EXP plain_exp
#define LOG logf
#define NAME(x) x##_f32
#include "kernels/cpu/attention.inc"
#undef T
#undef EXP
#undef LOG
#undef LOWEST
#undef NAME

#define T double
#define LOWEST -708.0
#define EXP exp
#define LOG log
#define NAME(x) x##_f64
#include "kernels/cpu/attention.inc"

RUSH_KERNELS(attention) = {
    .mask = {mask_f32, mask_f64},
    .softmax = {softmax_f32, softmax_f64},
    .weights = {weights_f32, weights_f64},
    .back = {back_f32, back_f64},
};
