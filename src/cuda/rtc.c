/* rtc.c - kernels that are written while a program runs: NVRTC compiles them, for emulated devices the C++ compiler.
 *
 * What it makes is kept (base/kept.h) under a hash of all that it is made of.
 */
#define _GNU_SOURCE
#include "base/kept.h"
#include "cuda/cuda.h"
#include "cuda/libraries.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* The headers that kernels stand on, as the library was built of them; and what NVRTC has no headers for. */
typedef struct header {
    const char *name, *text;
} header;
static const header headers[] = {
#include "cuda_headers.inc"
};
static const header standard[] = {
    {"stdint.h", "typedef signed char int8_t; typedef unsigned char uint8_t; typedef short int16_t; typedef unsigned short uint16_t; typedef int int32_t;\n"
                 "typedef unsigned uint32_t; typedef long int64_t; typedef unsigned long uint64_t;\n#define INT64_MAX 0x7fffffffffffffffL\n"},
    {"stdbool.h", ""},
    {"math.h", "#define INFINITY __int_as_float(0x7f800000)\n#define NAN __int_as_float(0x7fc00000)\n"}};

/* ---- what is kept ---- */

static int write_file(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wbx");
    if (!f) return -1;
    int failed = fwrite(bytes, 1, n, f) != n;
    failed |= fclose(f) != 0;
    if (failed) unlink(path);
    return failed ? -1 : 0;
}

static char *read_file(const char *path, size_t *n)
{
    struct stat s;
    char *bytes = NULL;
    const int f = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (f < 0) return NULL;
    if (!fstat(f, &s) && S_ISREG(s.st_mode) && s.st_uid == geteuid() && s.st_size > 0 && (bytes = rush_malloc((size_t)s.st_size)) && read(f, bytes, (size_t)s.st_size) != s.st_size) {
        rush_free(bytes);
        bytes = NULL;
    }
    *n = bytes ? (size_t)s.st_size : 0;
    close(f);
    return bytes;
}

/* What was made takes its name at once and whole. That it cannot be kept is no error. */
static void keep(const char *path, const void *bytes, size_t n)
{
    char beside[4400];
    snprintf(beside, sizeof beside, "%s.%ld", path, (long)getpid());
    if (!write_file(beside, bytes, n) && rename(beside, path)) unlink(beside);
}

/* ---- NVRTC ---- */

/* The device's architecture, or the last one before it that NVRTC knows: machine code for the first, for the second what the driver compiles on. */
static int architecture(const rush_nvrtc *rtc, rush_device d, char option[48], bool *exact)
{
    int known[128], n = 0, minor = 0, best = 0;
    if (cuda_check(cuda_driver->device_attribute(&minor, CU_ATTRIBUTE_MINOR, cuda_devices[d.index].number), "cuDeviceGetAttribute")) return -1;
    const int own = cuda_devices[d.index].major * 10 + minor;
    if (rtc->architecture_count(&n) || n > (int)RUSH_COUNT(known) || rtc->architectures(known)) n = 0;
    for (int i = 0; i < n; i++)
        if (known[i] <= own) best = RUSH_MAX(best, known[i]);
    RUSH_CHECK(best, RUSH_NOT_IMPLEMENTED, "NVRTC compiles for no device of compute capability %d.%d", own / 10, own % 10);
    *exact = best == own;
    snprintf(option, 48, "--gpu-architecture=%s_%d", *exact ? "sm" : "compute", best);
    return 0;
}

static char *made_by(const rush_nvrtc *rtc, nvrtcProgram program, bool exact, const char *const *options, int noptions, size_t *n)
{
    if (rtc->compile(program, noptions, options)) {
        size_t length = 0;
        char *log = rtc->log_size(program, &length) ? NULL : rush_calloc(1, length + 1);
        if (log) rtc->log(program, log);
        rush_fail(RUSH_RUNTIME_ERROR, "NVRTC does not compile a kernel that was made of several operations: %s", log ? log : "(it does not say why)");
        rush_free(log);
        return NULL;
    }
    if (exact ? rtc->cubin_size(program, n) : rtc->ptx_size(program, n)) return rush_fail(RUSH_RUNTIME_ERROR, "NVRTC has compiled a kernel, and does not say how large it is"), NULL;
    char *image = rush_malloc(*n);
    if (!image) return NULL;
    if (exact ? rtc->cubin(program, image) : rtc->ptx(program, image)) return rush_free(image), rush_fail(RUSH_RUNTIME_ERROR, "NVRTC does not give away what it has compiled"), NULL;
    return image;
}

static char *made_by_nvrtc(const rush_nvrtc *rtc, const char *name, const char *text, const char *arch, bool exact, size_t *n)
{
    enum { ALL = RUSH_COUNT(headers) + RUSH_COUNT(standard) };
    const char *texts[ALL], *names[ALL], *const options[] = {arch, "--std=c++17", "--fmad=false", "--device-as-default-execution-space", "--disable-warnings"};
    for (size_t i = 0; i < RUSH_COUNT(headers); i++) names[i] = headers[i].name, texts[i] = headers[i].text;
    for (size_t i = 0; i < RUSH_COUNT(standard); i++) names[RUSH_COUNT(headers) + i] = standard[i].name, texts[RUSH_COUNT(headers) + i] = standard[i].text;
    nvrtcProgram program;
    const nvrtcResult failed = rtc->create(&program, text, name, ALL, texts, names);
    if (failed) return rush_fail(RUSH_RUNTIME_ERROR, "NVRTC: %s", rtc->text_of(failed)), NULL;
    char *image = made_by(rtc, program, exact, options, RUSH_COUNT(options), n);
    rtc->destroy(&program);
    return image;
}

/* ---- the C++ compiler, for emulated devices ---- */

static int run(char *const *command)
{
    pid_t child;
    int status = -1;
    const int failed = posix_spawnp(&child, command[0], NULL, NULL, command, environ);
    if (failed) return rush_fail(RUSH_RUNTIME_ERROR, "the C++ compiler '%s' cannot be started: %s", command[0], strerror(failed));
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    RUSH_CHECK(status == 0, RUSH_RUNTIME_ERROR, "the C++ compiler '%s' has not compiled a kernel for emulated devices", command[0]);
    return 0;
}

static void remove_all(const char *folder)
{
    char *const command[] = {"rm", "-rf", (char *)folder, NULL};
    run(command);
}

static int write_below(const char *folder, const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    rush_make_parents(path);
    return write_file(path, text, strlen(text)) ? rush_fail(RUSH_IO_ERROR, "%s cannot be written: %s", path, strerror(errno)) : 0;
}

/* A shared object at `to`; in an empty folder. */
static int made_by_compiler(const char *folder, const char *text, const char *to)
{
    char include[64], source[64];
    const char *cxx = getenv("CXX");
    Dl_info own;
    int failed = write_below(folder, "fused.cc", text);
    for (size_t i = 0; i < RUSH_COUNT(headers) && !failed; i++) failed = write_below(folder, headers[i].name, headers[i].text);
    snprintf(include, sizeof include, "-I%s", folder);
    snprintf(source, sizeof source, "%s/fused.cc", folder);
    dladdr((void *)made_by_compiler, &own); /* where the emulator's own symbols are */
    char *const command[] = {(char *)(cxx && *cxx ? cxx : "c++"), "-std=gnu++20", "-O1", "-w", "-shared", "-fPIC", "-fwrapv", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math",
                             "-DCUDA_FILE=fused", include, "-o", (char *)to, source, (char *)own.dli_fname, NULL};
    return failed || run(command) ? -1 : 0;
}

/* ---- both ---- */

bool cuda_compiles(void)
{
    static _Atomic int known; /* 1: no, 2: yes */
    if (!known) {
        const rush_error_state before = rush_error_take();
        known = cuda_emulated || cuda_nvrtc() ? 2 : 1;
        rush_error_clear();
        rush_error_restore(before);
    }
    return known == 2;
}

static CUfunction loaded(rush_device d, const char *name, const void *image)
{
    CUmodule module;
    CUfunction f = NULL;
    const int mode = cuda_relaxed(d); /* what is loaded is no part of a graph */
    if (cuda_check(cuda_driver->module_load(&module, image), name) || cuda_check(cuda_driver->module_function(&f, module, name), name)) f = NULL;
    cuda_strict(mode);
    return f;
}

static CUfunction emulated(rush_device d, const char *name, const char *text, const char *path)
{
    char folder[] = "/tmp/rushlight-kernel-XXXXXX", own[64], beside[4400];
    if (*path && !access(path, R_OK)) {
        CUfunction f = loaded(d, name, path);
        if (f) return f;
        rush_error_clear(); /* what was kept is of no use */
    }
    if (!mkdtemp(folder)) return rush_fail(RUSH_RUNTIME_ERROR, "there is no room for a kernel's text in /tmp: %s", strerror(errno)), NULL;
    snprintf(own, sizeof own, "%s/fused.so", folder);
    snprintf(beside, sizeof beside, "%s.%ld", path, (long)getpid());
    const char *to = *path ? beside : own;
    CUfunction f = made_by_compiler(folder, text, to) ? NULL : loaded(d, name, to);
    if (*path && (!f || rename(beside, path))) unlink(beside);
    remove_all(folder);
    return f;
}

CUfunction cuda_compile(rush_device d, const char *name, const char *text)
{
    char folder[4096], path[4200] = "", arch[48];
    int major = 0, minor = 0;
    bool exact = true;
    size_t n = 0;
    const rush_nvrtc *rtc = cuda_has_libraries() ? cuda_nvrtc() : NULL;
    if (!rtc && !cuda_emulated) return NULL;
    RUSH_CHECK_NULL(cuda_emulated || !rtc->version(&major, &minor), RUSH_RUNTIME_ERROR, "NVRTC does not say its version");
    if (!cuda_enter(d) || (rtc && architecture(rtc, d, arch, &exact))) return NULL;
    uint64_t h[2] = {RUSH_HASH_NOTHING, 7809847782465536322u};
    for (int i = 0; i < 2; i++) {
        for (size_t k = 0; k < RUSH_COUNT(headers); k++) h[i] = rush_hash_text(h[i], headers[k].text);
        h[i] = rush_hash_text(rush_hash_text(rush_hash_text(h[i], text), cuda_emulated ? "emulated" : arch), rush_version()) + (uint64_t)(major * 1000 + minor);
    }
    if (!rush_kept_folder(folder, sizeof folder))
        snprintf(path, sizeof path, "%s/%016llx%016llx.%s", folder, (unsigned long long)h[0], (unsigned long long)h[1], cuda_emulated ? "so" : exact ? "cubin" : "ptx");
    if (cuda_emulated && rtc) { /* of emulated devices the machine code is made, and that is all */
        char *code = made_by_nvrtc(rtc, name, text, arch, exact, &n);
        if (!code) return NULL;
        rush_free(code);
    }
    rush_error_clear();
    if (cuda_emulated) return emulated(d, name, text, path);
    char *image = *path ? read_file(path, &n) : NULL;
    CUfunction f = image ? loaded(d, name, image) : NULL;
    rush_free(image);
    if (f) return f;
    rush_error_clear(); /* what was kept is of no use */
    if (!(image = made_by_nvrtc(rtc, name, text, arch, exact, &n))) return NULL;
    f = loaded(d, name, image);
    if (f && *path) keep(path, image, n);
    rush_free(image);
    return f;
}
