/* pointwise_i32.c - pointwise.def in int32_t, which also serves the narrower integers. */
#include "kernels/cpu/pointwise.h"
#define T int32_t
#define IS_BOOL 0
#define TABLE pw_i32
#include "kernels/cpu/words_integer.h"
#include "kernels/cpu/pointwise_loops.inc"
