/* cuda_runtime_api.h - what is emulated of CUDA */
#include "cuda_runtime.h"
