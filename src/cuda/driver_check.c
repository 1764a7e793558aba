/* driver_check.c - types and functions of driver.h against cuda.h: it only has to compile, and is empty where that is not installed. */
#if __has_include(<cuda.h>)
#include <cuda.h>
#define RUSH_CUDA_HEADER
#include "cuda/driver.h"

#define SAME(member, symbol, args) _Static_assert(__builtin_types_compatible_p(__typeof__(symbol), CUresult args), #symbol " has another type");
RUSH_CUDA_SPAN_FUNCTIONS(SAME)
#define IS(name, value) _Static_assert((int)name == value, #name " is another number");
RUSH_CUDA_NUMBERS(IS)
#endif
