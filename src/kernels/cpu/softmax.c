/* softmax.c - softmax for float and double; the bodies are in softmax.inc.
 *
 * The terms are summed in the order of PyTorch: in the lanes of one vector along a row, whose halves are then added; in
 * plain order where a row is shorter than that or columns stand side by side. What is fused there is fused here, and
 * columns that fill no vector get the exp of <math.h>.
 */
#include "kernels/cpu/softmax.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/quick_exp.h"
#include "kernels/cpu/simd.h"

enum { WIDE = RUSH_SOFTMAX_WIDE };

#define T float
#define EXP exp_negative_f32
#define EXP_ALONE expf
#define LOG log_f32
#define FMA MULADD32
#define NAME(x) x##_f32
#include "kernels/cpu/softmax.inc"
#undef T
#undef EXP
#undef EXP_ALONE
#undef LOG
#undef FMA
#undef NAME

#define T double
#define EXP exp_f64
#define EXP_ALONE exp
#define LOG log
#define FMA MULADD64
#define NAME(x) x##_f64
#include "kernels/cpu/softmax.inc"

RUSH_KERNELS(softmax) = {
    .forward = {forward_f32, forward_f64},
    .backward = {backward_f32, backward_f64},
};
