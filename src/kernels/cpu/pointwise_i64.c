/* pointwise_i64.c - pointwise.def in int64_t, which also serves uint32_t. */
#include "kernels/cpu/pointwise.h"
#define T int64_t
#define IS_BOOL 0
#define TABLE pw_i64
#include "kernels/cpu/words_integer.h"
#include "kernels/cpu/pointwise_loops.inc"
