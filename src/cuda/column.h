/* column.h - the families of operations with kernels of their own; each list ends with a row of zeros. */
#ifndef RUSH_CUDA_COLUMN_H
#define RUSH_CUDA_COLUMN_H

#include "cuda/cuda.h"
#include "kernels/cpu/conv.h"

typedef struct cuda_kernel {
    const char *op;
    rush_kernel kernel;
} cuda_kernel;

extern const cuda_kernel cuda_index_kernels[], cuda_mask_kernels[], cuda_create_kernels[], cuda_norm_kernels[], cuda_random_kernels[], cuda_product_kernels[], cuda_convolve_kernels[], cuda_sort_kernels[], cuda_layer_kernels[], cuda_fft_kernels[],
    cuda_look_kernels[], cuda_solver_kernels[], cuda_attention_kernels[], cuda_compose_kernels[];
int cuda_host_put(void);
void cuda_host_run(const rush_op *, const rush_value *in, rush_value *out); /* host.c: between copies */
int cuda_fft_by_library(rush_tensor *x, rush_tensor *y, rush_value dims, bool forward); /* cufft.c */
uint64_t cuda_random_seed(rush_device, rush_generator *); /* random.c; NULL: the device's */

/* The products of a plain convolution of x with w to y: y itself, x's gradient from y's and w, w's from y's and x. */
enum { CUDA_CONV_FORWARD, CUDA_CONV_BACK, CUDA_CONV_WEIGH };
/* cudnn.c: 1: it is done, 0: cuDNN does not compute it, -1 and an error. No tensor is empty. */
int cuda_cudnn_convolve(int what, const rush_conv *, rush_tensor *a, rush_tensor *b, rush_tensor *to);

#endif
