/* resample.c - upsampling one dimension at a time, and sampling images at the points of a grid.
 *
 * Both come down to taps: a few places with weights. Upsampling's are made by the caller; a grid point's are
 * found here once and serve all channels, forward and back. The body is resample.inc.
 */
#include "kernels/cpu/resample.h"

#include <math.h>

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

#define T float
#define F(x) x##_f32
#define FLOOR floorf
#define NEAREST nearbyintf
#define MOD fmodf
#define ABS fabsf
#include "kernels/cpu/resample.inc"

#define T double
#define F(x) x##_f64
#define FLOOR floor
#define NEAREST nearbyint
#define MOD fmod
#define ABS fabs
#include "kernels/cpu/resample.inc"

RUSH_KERNELS(resample) = {.along_f32 = along_f32, .along_f64 = along_f64, .along_back_f32 = along_back_f32, .along_back_f64 = along_back_f64,
                          .grid_f32 = grid_f32, .grid_f64 = grid_f64, .grid_back_f32 = grid_back_f32, .grid_back_f64 = grid_back_f64};
