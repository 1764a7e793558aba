/* pointwise_c128.cu - pointwise.def in complex double. */
#include "cuda/rows.h"
#define REAL_T double
#include "cuda/words_complex.h"
#define IN T
#define SUFFIX c128
#include "cuda/pointwise.h"
