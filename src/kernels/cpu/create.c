/* create.c - loops that make complex numbers of their parts. */
#include "kernels/cpu/create.h"

static void complex32(char **p, const int64_t *s, int64_t n, const void *arg)
{
    for (int64_t i = 0; i < n; i++) {
        float *d = (float *)(p[0] + i * s[0]), re = *(float *)(p[1] + i * s[1]), im = *(float *)(p[2] + i * s[2]);
        d[0] = re;
        d[1] = im;
    }
}

static void complex64(char **p, const int64_t *s, int64_t n, const void *arg)
{
    for (int64_t i = 0; i < n; i++) {
        double *d = (double *)(p[0] + i * s[0]), re = *(double *)(p[1] + i * s[1]), im = *(double *)(p[2] + i * s[2]);
        d[0] = re;
        d[1] = im;
    }
}

RUSH_KERNELS(create) = {.complex32 = complex32, .complex64 = complex64};
