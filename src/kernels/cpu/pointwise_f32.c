/* pointwise_f32.c - pointwise.def in float, which also serves the half types. */
#include "kernels/cpu/pointwise.h"
#include "kernels/cpu/words_f32.h"
#define TABLE pw_f32
#define HAS_PLAIN 1
static inline bool ordinary_sinc(float x) { return ordinary_sin(K(3.14159265358979323846) * x); }
static inline float plain_sinc(float x) { return x == 0 ? K(1) : plain_sin(K(3.14159265358979323846) * x) / (K(3.14159265358979323846) * x); }
#include "kernels/cpu/pointwise_loops.inc"
