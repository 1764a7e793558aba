/* attention_half.cu - attention of half types without tensor cores, for sm_75. */
#define HALVES
#include "cuda/attention.cu"
