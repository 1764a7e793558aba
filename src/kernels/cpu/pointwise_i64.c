/* pointwise_i64.c - pointwise.def in int64_t, which also serves uint32_t. */
#include "kernels/cpu/pointwise.h"
#define T int64_t
#define IS_BOOL 0
#define TABLE pw_i64
#include "kernels/cpu/words_integer.h"
#if defined(__AVX512DQ__)
#define HAS_QUICK 1
#define QUICK_fmod(x, y) mod_quick(x, y)
#define QUICK_remainder(x, y) floor_mod_quick(x, y)
#define QUICK_floor_divide(x, y) floor_div_quick(x, y)
#endif
#include "kernels/cpu/pointwise_loops.inc"
