/* extension.c - what kernels of others' extensions ask the CUDA part for (include/rushlight/cpp/c10/cuda, emulated). */
#include "cuda/cuda.h"

/* The driver's stream that the thread's current one of this device stands for, the device made current; *failed: there is an error. */
__attribute__((visibility("default"))) void *rush_cuda_stream(int index, int *failed);
void *rush_cuda_stream(int index, int *failed)
{
    const rush_device d = {RUSH_CUDA, (int8_t)(index < 0 ? rush_device_current(RUSH_CUDA) : index)};
    *failed = !cuda_enter(d);
    return *failed ? NULL : cuda_stream(d);
}
