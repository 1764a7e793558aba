/* pointwise_c64.c - pointwise.def in complex float. */
#include "kernels/cpu/pointwise.h"
#define REAL_T float
#define T float _Complex
#define F(name) c##name##f
#define R(name) name##f
#define HAS_GROUPS 8
#define TABLE pw_c64
#include "kernels/cpu/words_complex.h"
#include "kernels/cpu/pointwise_loops.inc"
