/* driver.c - which driver there is: NVIDIA's, or the emulator where it is asked for. */
#define _GNU_SOURCE
#include "cuda/driver.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static rush_cuda_driver opened;

/* libcuda's functions into the table; NULL and the reason. */
static const rush_cuda_driver *open_libcuda(const char **why)
{
    void *so = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!so) {
        *why = "libcuda.so.1 is not there: NVIDIA's driver is not installed";
        return NULL;
    }
#define LOAD(member, symbol, args)                                                                          \
    if (!(*(void **)&opened.member = dlsym(so, #symbol))) {                                                 \
        *why = "libcuda.so.1 is too old: it has no " #symbol;                                               \
        return NULL;                                                                                        \
    }
    RUSH_CUDA_FUNCTIONS(LOAD)
#undef LOAD
    return &opened;
}

const rush_cuda_driver *rush_cuda_driver_open(const char **why, int *emulated)
{
    const char *how = getenv("RUSHLIGHT_CUDA");
    if (how && !strcmp(how, "off")) {
        *why = "RUSHLIGHT_CUDA is off";
        return NULL;
    }
    *emulated = how && !strcmp(how, "emulated");
    if (how && *how && !*emulated && strcmp(how, "driver")) {
        *why = "RUSHLIGHT_CUDA is none of driver, emulated and off";
        return NULL;
    }
    const rush_cuda_driver *driver = *emulated ? &rush_cuda_emulator : open_libcuda(why);
    CUresult failed = driver ? driver->init(0) : 0;
    if (failed) {
        static char said[256];
        const char *text = NULL;
        if (driver->error_text(failed, &text) || !text) text = "unknown error";
        snprintf(said, sizeof said, "the driver does not start: %s (code %d)%s", text, failed,
                 failed == CUDA_ERROR_NOT_INITIALIZED ? "; was it started in a process that this one was forked from? Such processes need the 'spawn' start method" : "");
        *why = failed == CUDA_ERROR_NO_DEVICE ? "the driver finds no device" : said;
        return NULL;
    }
    return driver;
}
