/* libraries.c - opens NVIDIA's libraries: each once, when an operation first needs it. */
#define _GNU_SOURCE
#include "cuda/libraries.h"
#include "cuda/cuda.h"
#include "cuda/cupti.h"
#include <dlfcn.h>
#include <glob.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

bool cuda_has_libraries(void) { return !cuda_emulated || getenv("RUSHLIGHT_CUDA_LIBRARIES"); }

typedef struct entry {
    const char *symbol;
    void **to;
} entry;

static void *opened_in(const char *folder, int length, const char *so)
{
    char path[4096];
    snprintf(path, sizeof path, "%.*s/%s", length, folder, so);
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

/* Where NVIDIA's Python packages put it, if they are installed where this library is. */
static void *opened_beside(const char *so)
{
    Dl_info own;
    char pattern[4096];
    void *library = NULL;
    int length = dladdr((void *)cuda_has_libraries, &own) ? (int)strlen(own.dli_fname) : 0;
    for (int up = 0; up < 4 && length > 0 && !library; up++) {
        glob_t found;
        while (length > 0 && own.dli_fname[--length] != '/');
        snprintf(pattern, sizeof pattern, "%.*s/nvidia/*/lib/%s", length, own.dli_fname, so);
        if (glob(pattern, GLOB_NOSORT, NULL, &found)) continue;
        library = dlopen(found.gl_pathv[0], RTLD_NOW | RTLD_LOCAL);
        globfree(&found);
    }
    return library;
}

/* In the folders that RUSHLIGHT_CUDA_LIBRARIES names and nowhere else, or where the system looks, or beside. */
static void *open_somewhere(const char *so)
{
    const char *folder = getenv("RUSHLIGHT_CUDA_LIBRARIES");
    void *library = folder ? NULL : dlopen(so, RTLD_NOW | RTLD_LOCAL);
    if (!folder) return library ? library : opened_beside(so);
    for (size_t length; !library && *folder; folder += length + (folder[length] == ':')) library = opened_in(folder, (int)(length = strcspn(folder, ":")), so);
    return library;
}

/* The symbols of so, each into its place; 0, or -1 and an error. */
static int open_library(const char *so, const entry *entries, size_t n)
{
    void *library = open_somewhere(so);
    const char *why = library ? NULL : dlerror();
    if (!library) return rush_fail(RUSH_RUNTIME_ERROR, "%s is needed on device 'cuda', and is not there: %s", so, why ? why : "RUSHLIGHT_CUDA_LIBRARIES names no folder");
    for (size_t i = 0; i < n; i++)
        if (!(*entries[i].to = dlsym(library, entries[i].symbol))) return rush_fail(RUSH_RUNTIME_ERROR, "%s has no %s", so, entries[i].symbol);
    return 0;
}

#define ENTRY(member, symbol, result, args) {#symbol, (void **)&opened.member},
#define LIBRARY(name, type, so, functions)                                                                  \
    const type *name(void)                                                                                  \
    {                                                                                                       \
        static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;                                            \
        static type opened;                                                                                 \
        static bool done, missed;                                                                           \
        static char why[512];                                                                               \
        const entry entries[] = {functions(ENTRY)};                                                         \
        pthread_mutex_lock(&lock);                                                                          \
        if (!done && missed) {                                                                              \
            rush_fail(RUSH_RUNTIME_ERROR, "%s", why); /* it is not looked for again: that would take longer than many an operation */ \
        } else if (!done && !(done = !open_library(so, entries, RUSH_COUNT(entries)))) {                    \
            snprintf(why, sizeof why, "%s", rush_error());                                                  \
            missed = true;                                                                                  \
        }                                                                                                   \
        const type *answer = done ? &opened : NULL;                                                         \
        pthread_mutex_unlock(&lock);                                                                        \
        return answer;                                                                                      \
    }

LIBRARY(cuda_cublaslt, rush_cublaslt, "libcublasLt.so.13", RUSH_CUBLASLT_FUNCTIONS)
LIBRARY(cuda_cufft, rush_cufft, "libcufft.so.12", RUSH_CUFFT_FUNCTIONS)
LIBRARY(cuda_cusolver, rush_cusolver, "libcusolver.so.12", RUSH_CUSOLVER_FUNCTIONS)
LIBRARY(cuda_cublas, rush_cublas, "libcublas.so.13", RUSH_CUBLAS_FUNCTIONS)
LIBRARY(cuda_cudnn, rush_cudnn, "libcudnn.so.9", RUSH_CUDNN_FUNCTIONS)
LIBRARY(cuda_cupti, rush_cupti, "libcupti.so.13", RUSH_CUPTI_FUNCTIONS)
LIBRARY(cuda_nvrtc, rush_nvrtc, "libnvrtc.so.13", RUSH_NVRTC_FUNCTIONS)
LIBRARY(cuda_nccl, rush_nccl_library, "libnccl.so.2", RUSH_NCCL_FUNCTIONS)
