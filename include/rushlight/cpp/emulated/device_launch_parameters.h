/* device_launch_parameters.h - what is emulated of CUDA */
#include "cuda_runtime.h"
