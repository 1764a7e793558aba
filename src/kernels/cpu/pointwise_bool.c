/* pointwise_bool.c - pointwise.def for bool. */
#include "kernels/cpu/pointwise.h"
#define T uint8_t
#define IS_BOOL 1
#define TABLE pw_bool
#include "kernels/cpu/words_integer.h"
#include "kernels/cpu/pointwise_loops.inc"
