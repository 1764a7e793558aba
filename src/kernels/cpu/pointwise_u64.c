/* pointwise_u64.c - pointwise.def in uint64_t. */
#include "kernels/cpu/pointwise.h"
#define T uint64_t
#define IS_BOOL 0
#define TABLE pw_u64
#include "kernels/cpu/words_integer.h"
#include "kernels/cpu/pointwise_loops.inc"
