/* pointwise_u8.c - pointwise.def in uint8_t. */
#include "kernels/cpu/pointwise.h"
#define T uint8_t
#define IS_BOOL 0
#define TABLE pw_u8
#include "kernels/cpu/words_integer.h"
#include "kernels/cpu/pointwise_loops.inc"
