/* file.h - reading and writing files: written whole or not at all, read in parallel or as mapped memory. */
#ifndef RUSH_IO_FILE_H
#define RUSH_IO_FILE_H

#include "op/op.h"
#include <rushlight/io.h>
#include <stdio.h>

/* ---- writing: write.c ---- */

/* A file that takes the place of `path` when it is whole; until then it has no name where the system allows that, so
 * that nothing is left behind by a process that dies. */
typedef struct rush_writing {
    FILE *f;           /* for libraries that write by themselves, instead of rush_write */
    char *path;        /* of the file to be, links followed   */
    char *draft;       /* its name until then                 */
    bool named, replaces, direct, tried;
    int fd, mode;      /* mode: permissions to keep; -1 the usual ones, -2 a device or pipe */
    uint64_t at;       /* bytes handed to the system          */
    char *buffer;      /* what is not written yet             */
    size_t waiting;
} rush_writing;
RUSH_PY int rush_write_begin(rush_writing *, const char *path);
int rush_write(rush_writing *, const void *, size_t);
const char *rush_write_draft(rush_writing *); /* the path at which what was written can be read before it takes its place; NULL and an error */
RUSH_PY int rush_write_end(rush_writing *, bool keep); /* false: forget it */

/* ---- what was replaced: replaced.c ---- */

/* Closes the last descriptor of a file that has no name any more when the disk has nothing else to do. */
void rush_close_later(int fd);
/* Closes all of them. Whether there were any: then a full disk has room again. */
bool rush_close_now(void);
void rush_disk_is_busy(void); /* something was just written */

/* ---- reading: read.c ---- */

/* Bytes by position: an open file, or memory. Nothing outside of it is ever read. */
typedef struct rush_source {
    int fd;              /* -1: memory */
    const char *mem;
    uint64_t size;
    uint64_t start;      /* where in the file its first byte is */
    const char *name;    /* for messages; the owner's */
} rush_source;
RUSH_PY int rush_source_open(rush_source *, const char *path); /* the name is kept, not copied */
void rush_source_close(rush_source *);
/* Exactly n bytes from `at`. */
int rush_source_read(const rush_source *, uint64_t at, void *, size_t n);
/* The same for much: by all threads, with the checksum where `crc` is given. */
int rush_source_read_much(const rush_source *, uint64_t at, void *, size_t n, uint32_t *crc);

/* What the file is that somebody took for another: "a safetensors file"; NULL: not known, or an error. */
const char *rush_source_kind(const rush_source *);

/* A whole file in memory, private: writing does not change the file. One reference; tensors over it hold others. */
typedef struct rush_mapping {
    atomic_int refs;
    char *data;
    size_t size;
    bool shared; /* what is written goes to the file */
    size_t held; /* bytes of the block that it is a copy in; 0: it is mapped */
} rush_mapping;
rush_mapping *rush_map(const char *path);
/* The same for what will be read from end to end again and again: a copy in large pages, from which that is up to a third faster, where memory has room for two. */
rush_mapping *rush_map_held(const char *path);
/* A descriptor of a file to be mapped, and in *n how many of its bytes: those asked for, with 0 all. A shared one is made, or grows. */
RUSH_PY int rush_open_to_map(const char *path, bool shared, int64_t *n);
RUSH_PY rush_mapping *rush_map_fd(int fd, size_t size, bool shared);
RUSH_PY void rush_unmap(void *mapping); /* gives up a reference */
/* A tensor over [offset, ...) of the mapping; copied where the place does not suit the dtype. */
rush_tensor *rush_map_tensor(rush_mapping *, size_t offset, rush_dtype, int ndim, const int64_t *size, const int64_t *stride);
/* A storage over it. One reference, the caller's. */
RUSH_PY rush_storage *rush_map_storage(rush_mapping *, size_t offset, size_t n);
/* The tensor as it lies in files: contiguous, on the CPU, without lazy bits. */
const rush_tensor *rush_as_in_files(const rush_tensor *);
/* Bytes of bools other than 0 and 1 count as 1: what reads them later relies on it. Writes only where it must. */
void rush_clean_bools(void *, size_t n);
/* Reverses the bytes of each of n elements: of complex ones, of their halves. */
void rush_swap_bytes(void *, rush_dtype, size_t n);

/* rush_safetensors_save with texts about the file: name, text, name, text, ..., NULL. */
RUSH_PY int rush_safetensors_save_noted(const char *path, rush_state, const char *const *notes);

#endif
