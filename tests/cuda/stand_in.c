/* stand_in.c - stand-ins for NVIDIA's libraries on emulated devices, in plain loops and LAPACK: what src/cuda asks of them is answered by the meaning
 * that their manuals give it. tests/python/test_cuda.py compiles this file and puts it where RUSHLIGHT_CUDA_LIBRARIES says.
 */
#define _GNU_SOURCE
#include <complex.h>
#include <dlfcn.h>
#include <link.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int find_emulator(struct dl_phdr_info *one, size_t bytes, void *host)
{
    void *part = strstr(one->dlpi_name, "librushlight_cuda.so") ? dlopen(one->dlpi_name, RTLD_NOW | RTLD_NOLOAD) : NULL;
    return part && (*(void **)host = dlsym(part, "rush_emulator_host"));
}

/* Runs f(arg) with the memory of the devices open, after all that was queued. */
static void on_device(int (*f)(void *), void *arg)
{
    static int (*host)(int (*)(void *), void *);
    if ((!host && !dl_iterate_phdr(find_emulator, &host)) || host(f, arg)) abort();
}

/* ---- cuFFT ---- */

typedef struct transform {
    int rank, kind, sign, is_made, own;
    long long size[3], from[3], from_step, from_apart, to[3], to_step, to_apart, batch;
    void *x, *y, *room;
} transform;
static transform plans[80]; /* more at a time nobody should keep */

int cufftCreate(int *p)
{
    for (*p = 0; plans[*p].is_made; ++*p)
        if (*p == 79) return 1;
    plans[*p] = (transform){.own = 1, .is_made = 1};
    return 0;
}
int cufftDestroy(int p) { return plans[p].is_made = 0; }
int cufftSetAutoAllocation(int p, int own) { return plans[p].own = own, 0; }
int cufftSetWorkArea(int p, void *room) { return plans[p].room = room, 0; }
int cufftSetStream(int p, void *stream) { return 0; }
int cufftMakePlanMany64(int p, int rank, long long *n, long long *from, long long step, long long apart, long long *to, long long to_step, long long to_apart, int kind, long long batch, size_t *bytes)
{
    transform *t = &plans[p];
    t->rank = rank, t->kind = kind, t->from_step = step, t->from_apart = apart, t->to_step = to_step, t->to_apart = to_apart, t->batch = batch;
    for (int i = 0; i < rank; i++) t->size[i] = n[i], t->from[i] = from[i], t->to[i] = to[i], n[i] = from[i] = to[i] = -1;
    *bytes = 4096;
    return 0;
}

static double complex read_at(const transform *t, const void *x, long long at, int is_complex)
{
    const int wide = t->kind >= 0x69;
    if (!is_complex) return wide ? ((const double *)x)[at] : ((const float *)x)[at];
    return wide ? ((const double complex *)x)[at] : ((const float complex *)x)[at];
}
static void write_at(const transform *t, void *y, long long at, int is_complex, double complex v)
{
    const int wide = t->kind >= 0x69;
    if (!is_complex && wide) ((double *)y)[at] = creal(v);
    else if (!is_complex) ((float *)y)[at] = (float)creal(v);
    else if (wide) ((double complex *)y)[at] = v;
    else ((float complex *)y)[at] = (float complex)v;
}

static long long place(const long long *inside, long long step, long long apart, long long b, const long long *at, int rank)
{
    long long in = 0;
    for (int i = 0; i < rank; i++) in = i ? in * inside[i] + at[i] : at[i];
    return b * apart + in * step;
}

static int run(void *arg)
{
    const transform *t = arg;
    const int to_real = (t->kind & 15) == 0xc, from_real = (t->kind & 15) == 0xa;
    long long n[3] = {1, 1, 1}, total = 1;
    for (int i = 0; i < t->rank; i++) total *= n[i] = t->size[i];
    double complex *all = malloc(sizeof *all * total), *next = malloc(sizeof *all * total);
    memset(t->room, 0x77, 4096); /* it is ours meanwhile */
    for (long long b = 0; b < t->batch; b++) {
        for (long long k = 0; k < total; k++) {
            long long at[3], rest = k;
            for (int i = t->rank - 1; i >= 0; i--) at[i] = rest % n[i], rest /= n[i];
            const int last = t->rank - 1, mirrored = to_real && at[last] > n[last] / 2;
            for (int i = 0; mirrored && i < t->rank; i++) at[i] = (n[i] - at[i]) % n[i];
            const double complex v = read_at(t, t->x, place(t->from, t->from_step, t->from_apart, b, at, t->rank), !from_real);
            all[k] = mirrored ? conj(v) : v;
        }
        for (int d = 0; d < t->rank; d++) {
            long long inner = 1;
            for (int i = d + 1; i < t->rank; i++) inner *= n[i];
            for (long long k = 0; k < total; k++) {
                const long long q = k / inner % n[d], first = k - q * inner;
                double complex sum = 0;
                for (long long j = 0; j < n[d]; j++) sum += all[first + j * inner] * cexp(I * t->sign * 2 * M_PI * (double)(j * q % n[d]) / (double)n[d]);
                next[k] = sum;
            }
            memcpy(all, next, sizeof *all * total);
        }
        for (long long k = 0; k < total; k++) {
            long long at[3], rest = k;
            for (int i = t->rank - 1; i >= 0; i--) at[i] = rest % n[i], rest /= n[i];
            const long long to = place(t->to, t->to_step, t->to_apart, b, at, t->rank);
            if (from_real && at[t->rank - 1] > n[t->rank - 1] / 2) continue;

            write_at(t, t->y, to, !to_real, all[k]);
        }
    }
    for (long long k = 0; to_real && k < t->batch * 2; k++) ((float *)t->x)[k] = NAN; /* transforms to real numbers may overwrite what they read */
    free(all), free(next);
    return 0;
}

static int execute(int p, void *x, void *y, int sign, int kind)
{
    transform *t = &plans[p];
    if (!t->is_made || t->kind != kind || t->own || !t->room) return 1;
    t->x = x, t->y = y, t->sign = sign;
    on_device(run, t);
    t->room = NULL;
    return 0;
}
int cufftExecC2C(int p, void *x, void *y, int sign) { return execute(p, x, y, sign, 0x29); }
int cufftExecZ2Z(int p, void *x, void *y, int sign) { return execute(p, x, y, sign, 0x69); }
int cufftExecR2C(int p, void *x, void *y) { return execute(p, x, y, -1, 0x2a); }
int cufftExecD2Z(int p, void *x, void *y) { return execute(p, x, y, -1, 0x6a); }
int cufftExecC2R(int p, void *x, void *y) { return execute(p, x, y, 1, 0x2c); }
int cufftExecZ2D(int p, void *x, void *y) { return execute(p, x, y, 1, 0x6c); }
