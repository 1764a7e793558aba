/* rnn.c - recurrent cells for float and double; the bodies are in rnn.inc. */
#include "kernels/cpu/rnn.h"
#include "kernels/cpu/float_math.h"
#include "kernels/cpu/libmvec.h"
#include "kernels/cpu/quick_exp.h"
#include "kernels/cpu/simd.h"

/* Rows and vectors of the product's tile: as many accumulators as registers hold. */
#if VBYTES == 64
#define ROWS 6
#define ACROSS 4
#else
#define ROWS 4
#define ACROSS 2
#endif

#define T float
#define ONE_AND_EXP one_and_exp_f32
#define TANH float_tanh
#define NAME(x) x##_f32
#include "kernels/cpu/rnn.inc"
#undef T
#undef ONE_AND_EXP
#undef TANH
#undef NAME

#define T double
#define ONE_AND_EXP(x) (1 + exp(x))
#define TANH tanh
#define NAME(x) x##_f64
#include "kernels/cpu/rnn.inc"

RUSH_KERNELS(rnn) = {
    .lstm = {lstm_f32, lstm_f64},
    .lstm_back = {lstm_back_f32, lstm_back_f64},
    .gru = {gru_f32, gru_f64},
    .gru_back = {gru_back_f32, gru_back_f64},
    .add = {add_f32, add_f64},
    .pack = {pack_f32, pack_f64},
    .product = {product_f32, product_f64},
};
