/* pointwise_f32.c - pointwise.def in float, which also serves the half types. */
#include "kernels/cpu/pointwise.h"
#define T float
#define F(name) name##f
#define TABLE pw_f32
#include "kernels/cpu/words_real.h"
#include "kernels/cpu/words_float.h"
#include "kernels/cpu/pointwise_loops.inc"
