/* pointwise_c128.c - pointwise.def in complex double. */
#include "kernels/cpu/pointwise.h"
#define REAL_T double
#define T double _Complex
#define F(name) c##name
#define R(name) name
#define HAS_GROUPS 4
#define TABLE pw_c128
#include "kernels/cpu/words_complex.h"
#include "kernels/cpu/pointwise_loops.inc"
