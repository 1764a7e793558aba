/* npy.h - the header of NumPy's array files, for npy.c and npz.c. */
#ifndef RUSH_IO_NPY_H
#define RUSH_IO_NPY_H

#include "io/file.h"

typedef struct rush_npy {
    rush_dtype dtype;
    bool swap, fortran;
    int ndim;
    int64_t size[RUSH_MAXDIM], stride[RUSH_MAXDIM];
    int64_t numel;
    size_t at;           /* where the elements begin */
} rush_npy;

/* Of the n bytes of a file; checks that all elements are there. */
int rush_npy_read_head(rush_npy *, const char *p, size_t n, const char *path);
/* Writes it to `to` (room for 4096 bytes); its length, or -1 for dtypes that NumPy does not have. */
int rush_npy_write_head(char *to, const rush_tensor *);

#endif
