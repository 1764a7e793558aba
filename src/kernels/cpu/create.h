/* create.h - loops that make complex numbers of their parts. */
#ifndef RUSH_KERNELS_CREATE_H
#define RUSH_KERNELS_CREATE_H

#include "kernels/cpu/isa.h"

struct rush_create_kernels {
    /* loops of the iterator: p[0] complex, p[1] and p[2] its parts, of float and double */
    void (*complex32)(char **p, const int64_t *stride, int64_t n, const void *arg);
    void (*complex64)(char **p, const int64_t *stride, int64_t n, const void *arg);
};
RUSH_KERNEL_TABLE(create);

#endif
