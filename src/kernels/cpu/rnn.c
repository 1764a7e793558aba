/* rnn.c - recurrent cells for float and double; the bodies are in rnn.inc. */
#include "kernels/cpu/rnn.h"
#include "kernels/cpu/libmvec.h"

#define T float
#define EXP expf
#define TANH tanhf
#define NAME(x) x##_f32
#include "kernels/cpu/rnn.inc"
#undef T
#undef EXP
#undef TANH
#undef NAME

#define T double
#define EXP exp
#define TANH tanh
#define NAME(x) x##_f64
#include "kernels/cpu/rnn.inc"

RUSH_KERNELS(rnn) = {
    .lstm = {lstm_f32, lstm_f64},
    .lstm_back = {lstm_back_f32, lstm_back_f64},
    .gru = {gru_f32, gru_f64},
    .gru_back = {gru_back_f32, gru_back_f64},
};
