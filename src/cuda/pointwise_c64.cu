/* pointwise_c64.cu - pointwise.def in complex float. */
#include "cuda/rows.h"
#define REAL_T float
#include "cuda/words_complex.h"
#define IN T
#define SUFFIX c64
#include "cuda/pointwise.h"
