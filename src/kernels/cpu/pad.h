/* pad.h - planes whose border repeats what is inside: forward by copying, backward by adding up. */
#ifndef RUSH_KERNELS_PAD_H
#define RUSH_KERNELS_PAD_H

#include "kernels/cpu/isa.h"

/* A plane has three dimensions (leading ones of size 1 where fewer are padded). Position i of the padded dimension d shows
 * position map[d][i] of the inner one; between begin and end of the last, neighbours show neighbours. */
typedef struct rush_pad {
    int64_t in[3], out[3];
    const int64_t *map[3];
    int64_t begin, end;
    size_t size; /* bytes of an element, with channels last of a pixel */
} rush_pad;

struct rush_pad_kernels {
    void (*forward)(const rush_pad *, char *out, const char *in, int64_t begin, int64_t end); /* rows of the planes, which lie one after another */
    /* in += what out's gradient adds up to; per dtype of float, double and their complex types (as two parts) */
    void (*backward_f32)(const rush_pad *, float *in, const float *out, int parts);
    void (*backward_f64)(const rush_pad *, double *in, const double *out, int parts);
};
RUSH_KERNEL_TABLE(pad);

#endif
