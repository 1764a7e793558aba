/* fuzz.h - what the fuzz targets share: the input as a file that has a path, and a scope around each run. */
#ifndef RUSH_FUZZ_H
#define RUSH_FUZZ_H

#include <rushlight.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The path of a file in memory with these bytes; the same file each time. */
static inline const char *fuzz_file(const uint8_t *data, size_t size)
{
    static int fd = -1;
    static char path[64];
    if (fd < 0) {
        fd = memfd_create("input", 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    if (fd < 0 || ftruncate(fd, 0) || pwrite(fd, data, size, 0) != (ssize_t)size) abort();
    return path;
}

/* Each element of a tensor is read, so that what lies outside of its memory is noticed. */
static inline void fuzz_touch(const rush_tensor *t)
{
    if (t && rush_numel(t) > 0 && rush_numel(t) < 4096 && rush_data(t)) rush_tensor_format(t, NULL, 0);
}

static inline void fuzz_touch_all(rush_state s)
{
    for (int i = 0; i < s.n; i++) fuzz_touch(s.tensor[i]);
}

/* A target: the body uses data and size; what it leaves behind goes, errors too. Headers of src/ come before this one. */
#define FUZZ(...)                                                                                           \
    int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)                                            \
    {                                                                                                       \
        rush_scope() __VA_ARGS__                                                                                  \
        rush_error_clear();                                                                                 \
        return 0;                                                                                           \
    }

#endif
