/* libraries.c - opens NVIDIA's libraries: each once, when an operation first needs it. */
#include "cuda/libraries.h"
#include "cuda/cuda.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

bool cuda_has_libraries(void) { return !cuda_emulated || getenv("RUSHLIGHT_CUDA_LIBRARIES"); }

typedef struct entry {
    const char *symbol;
    void **to;
} entry;

/* The symbols of so, each into its place; 0, or -1 and an error. */
static int open_library(const char *so, const entry *entries, size_t n)
{
    char path[4096];
    const char *folder = getenv("RUSHLIGHT_CUDA_LIBRARIES");
    snprintf(path, sizeof path, "%s%s%s", folder ? folder : "", folder ? "/" : "", so);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) return rush_fail(RUSH_RUNTIME_ERROR, "%s is needed on device 'cuda', and is not there: %s", so, dlerror());
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
