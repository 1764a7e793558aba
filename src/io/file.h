/* file.h - reading and writing files: atomically, or as mapped memory. */
#ifndef RUSH_IO_FILE_H
#define RUSH_IO_FILE_H

#include "op/op.h"
#include <rushlight/io.h>
#include <stdio.h>

/* A file that is written beside `path` and takes its place when it is whole. */
typedef struct rush_writing {
    FILE *f;
    char *path, *draft;
} rush_writing;
int rush_write_begin(rush_writing *, const char *path);
int rush_write(rush_writing *, const void *, size_t);
int rush_write_end(rush_writing *, bool keep); /* false: forget it */

/* A whole file in memory, private: writing does not change the file. One reference; tensors over it hold others. */
typedef struct rush_mapping {
    atomic_int refs;
    char *data;
    size_t size;
} rush_mapping;
rush_mapping *rush_map(const char *path);
void rush_unmap(void *mapping); /* gives up a reference */
/* A tensor over [offset, ...) of the mapping; copied where the place does not suit the dtype. */
rush_tensor *rush_map_tensor(rush_mapping *, size_t offset, rush_dtype, int ndim, const int64_t *size, const int64_t *stride);
/* The tensor as it lies in files: contiguous, on the CPU, without lazy bits. */
const rush_tensor *rush_as_in_files(const rush_tensor *);

#endif
