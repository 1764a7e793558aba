/* cpu.c - which instruction set the kernels may use, what this library is, and where it lies. */
#define _GNU_SOURCE
#include "base/base.h"
#include "config.h"
#include <dlfcn.h>
#include <stdio.h>

/* Declared here as in kernels/cpu/isa.h, which lies below this room. */
int rush_cpu_level(void);
extern int rush_k_copy_level; /* of the kernels that were chosen: all families agree */

#define HAS(feature) __builtin_cpu_supports(feature)
#if defined(__clang__) ? __clang_major__ < 18 : __GNUC__ < 12 /* knows no names of levels: what distinguishes them */
#define HAS_V2 (HAS("ssse3") && HAS("sse4.2") && HAS("popcnt"))
#define HAS_V3 (HAS_V2 && HAS("avx2") && HAS("fma") && HAS("bmi") && HAS("bmi2"))
#define HAS_V4 (HAS_V3 && HAS("avx512f") && HAS("avx512bw") && HAS("avx512cd") && HAS("avx512dq") && HAS("avx512vl"))
#else
#define HAS_V2 HAS("x86-64-v2")
#define HAS_V3 HAS("x86-64-v3")
#define HAS_V4 HAS("x86-64-v4")
#endif

int rush_cpu_level(void)
{
    static atomic_int known; /* asked from constructors, many times */
    int level = atomic_load(&known);
    if (level) return level;
    level = 1;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (HAS_V4) level = 4;
    else if (HAS_V3) level = 3;
    else if (HAS_V2) level = 2;
#endif
    const char *asked = getenv("RUSHLIGHT_ISA");
    if (asked && *asked >= '1' && *asked <= '4') level = RUSH_MIN(level, RUSH_MAX(*asked - '0', RUSH_LOWEST_ISA));
    atomic_store(&known, level);
    return level;
}

bool rush_cpu_suits(void)
{
    return rush_cpu_level() >= RUSH_LOWEST_ISA;
}

int rush_cpu_refuse(void)
{
    return rush_fail(RUSH_NOT_IMPLEMENTED, "this build of the library has kernels for x86-64-v%d and up, and this processor has x86-64-v%d",
                     RUSH_LOWEST_ISA, rush_cpu_level());
}

const char *rush_cpu_isa(void)
{
#if defined(__x86_64__)
    static const char *const names[] = {"none", "x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"};
    return names[rush_k_copy_level];
#else
    return "portable";
#endif
}

bool rush_flush_denormals(bool on)
{
#if defined(__x86_64__)
    const unsigned bits = 0x8040; /* MXCSR: flush to zero, denormals are zero */
    unsigned now = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(on ? now | bits : now & ~bits);
    return true;
#elif defined(__aarch64__)
    const uint64_t bit = 1 << 24; /* FPCR: flush to zero */
    uint64_t now;
    __asm__ volatile("mrs %0, fpcr" : "=r"(now));
    now = on ? now | bit : now & ~bit;
    __asm__ volatile("msr fpcr, %0" : : "r"(now));
    return true;
#else
    return false;
#endif
}

const char *rush_version(void)
{
    return RUSH_VERSION;
}

void rush_beside_library(char *path, size_t room, const char *file)
{
    Dl_info own;
    const char *slash = dladdr((void *)rush_version, &own) ? strrchr(own.dli_fname, '/') : NULL;
    path[0] = 0;
    if (slash) snprintf(path, room, "%.*s/%s", (int)(slash - own.dli_fname), own.dli_fname, file);
}

/* What a build may have or lack: what it is for, and what Debian calls what it is built with. */
static const struct {
    bool here;
    const char *name, *serves, *package;
} engines[] = {{RUSH_HAS_ONEDNN, "oneDNN", "quick products and convolutions", "libdnnl-dev"},
               {RUSH_HAS_LAPACK, "LAPACK", "linear algebra", "libopenblas-dev liblapacke-dev"},
               {RUSH_HAS_OPENMP, "OpenMP", "threads", "libgomp1"},
               {RUSH_HAS_ZLIB, "zlib", "compressed files", "zlib1g-dev"},
               {RUSH_HAS_PNG, "PNG", "pictures", "libpng-dev"},
               {RUSH_HAS_JPEG, "JPEG", "pictures", "libjpeg-dev"},
               {RUSH_HAS_SNDFILE, "sndfile", "sound", "libsndfile1-dev"},
               {RUSH_HAS_SERVER, "civetweb", "rushlight serve", "libcivetweb-dev"},
               {RUSH_HAS_GLOO, "gloo", "torch.distributed by gloo", "libgloo-dev"},
               {RUSH_HAS_CPP, "C++", "extensions by PyTorch's stable symbols", "g++"}};

const char *rush_engines(void)
{
    static char text[1024];
    if (*text) return text;
    char here[256] = "", lacks[sizeof text - sizeof here] = "";
    for (size_t k = 0; k < RUSH_COUNT(engines); k++)
        if (engines[k].here) strcat(strcat(here, *here ? " " : ""), engines[k].name);
        else snprintf(lacks + strlen(lacks), sizeof lacks - strlen(lacks), "%s%s (%s: %s)", *lacks ? ", " : "; without ", engines[k].name, engines[k].serves, engines[k].package);
    snprintf(text, sizeof text, "%s%s", *here ? here : "none", lacks);
    return text;
}

int rush_lacks(const char *engine)
{
    size_t k = 0;
    while (k + 1 < RUSH_COUNT(engines) && strcmp(engines[k].name, engine)) k++;
    return rush_fail(RUSH_NOT_IMPLEMENTED, "this build is without %s (%s): install %s, as Debian calls it, and build again", engines[k].name, engines[k].serves, engines[k].package);
}
