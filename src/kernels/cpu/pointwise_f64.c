/* pointwise_f64.c - pointwise.def in double. */
#include "kernels/cpu/pointwise.h"
#define T double
#define F(name) name
#define TABLE pw_f64
#include "kernels/cpu/words_real.h"
#define nextafter(v, w) step_to(v, w)
#include "kernels/cpu/pointwise_loops.inc"
