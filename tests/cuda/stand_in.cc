/* stand_in.cc - stand-ins for NVIDIA's libraries on emulated devices, in plain loops and LAPACK: what src/cuda asks of them is answered by the meaning
 * that their manuals give it. tests/python/test_cuda.py compiles this file and puts it where RUSHLIGHT_CUDA_LIBRARIES says.
 */
#include <complex>
#include <type_traits>
#define lapack_complex_float std::complex<float>
#define lapack_complex_double std::complex<double>
#include <lapacke.h>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <link.h>
#include <vector>

static int find_emulator(struct dl_phdr_info *one, size_t bytes, void *host)
{
    void *part = strstr(one->dlpi_name, "librushlight_cuda.so") ? dlopen(one->dlpi_name, RTLD_NOW | RTLD_NOLOAD) : nullptr;
    return part && (*(void **)host = dlsym(part, "rush_emulator_host"));
}

/* Runs f with the memory of the devices open, after all that was queued. */
template <class F> static int on_device(F f)
{
    static int (*host)(int (*)(void *), void *);
    if (!host && !dl_iterate_phdr(find_emulator, &host)) abort();
    if (host([](void *arg) { return (*(F *)arg)(), 0; }, &f)) abort();
    return 0;
}

extern "C" {

/* ---- cuFFT ---- */

typedef std::complex<double> wide_complex;
struct transform {
    int rank, kind, sign, is_made, own;
    long long size[3], from[3], from_step, from_apart, to[3], to_step, to_apart, batch;
    void *x, *y, *room;
};
static transform plans[80]; /* more at a time nobody should keep */

int cufftCreate(int *p)
{
    for (*p = 0; plans[*p].is_made; ++*p)
        if (*p == 79) return 1;
    plans[*p] = transform{};
    plans[*p].own = plans[*p].is_made = 1;
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

static wide_complex read_at(const transform *t, const void *x, long long at, int is_complex)
{
    const int wide = t->kind >= 0x69;
    if (!is_complex) return wide ? ((const double *)x)[at] : ((const float *)x)[at];
    return wide ? ((const wide_complex *)x)[at] : wide_complex(((const std::complex<float> *)x)[at]);
}
static void write_at(const transform *t, void *y, long long at, int is_complex, wide_complex v)
{
    const int wide = t->kind >= 0x69;
    if (!is_complex && wide) ((double *)y)[at] = v.real();
    else if (!is_complex) ((float *)y)[at] = (float)v.real();
    else if (wide) ((wide_complex *)y)[at] = v;
    else ((std::complex<float> *)y)[at] = std::complex<float>(v);
}

static long long place(const long long *inside, long long step, long long apart, long long b, const long long *at, int rank)
{
    long long in = 0;
    for (int i = 0; i < rank; i++) in = i ? in * inside[i] + at[i] : at[i];
    return b * apart + in * step;
}

static void run(const transform *t)
{
    const int to_real = (t->kind & 15) == 0xc, from_real = (t->kind & 15) == 0xa;
    long long n[3] = {1, 1, 1}, total = 1;
    for (int i = 0; i < t->rank; i++) total *= n[i] = t->size[i];
    std::vector<wide_complex> all(total), next(total);
    memset(t->room, 0x77, 4096); /* it is ours meanwhile */
    for (long long b = 0; b < t->batch; b++) {
        for (long long k = 0; k < total; k++) {
            long long at[3], rest = k;
            for (int i = t->rank - 1; i >= 0; i--) at[i] = rest % n[i], rest /= n[i];
            const int last = t->rank - 1, mirrored = to_real && at[last] > n[last] / 2;
            for (int i = 0; mirrored && i < t->rank; i++) at[i] = (n[i] - at[i]) % n[i];
            const wide_complex v = read_at(t, t->x, place(t->from, t->from_step, t->from_apart, b, at, t->rank), !from_real);
            all[k] = mirrored ? std::conj(v) : v;
        }
        for (int d = 0; d < t->rank; d++) {
            long long inner = 1;
            for (int i = d + 1; i < t->rank; i++) inner *= n[i];
            for (long long k = 0; k < total; k++) {
                const long long q = k / inner % n[d], first = k - q * inner;
                wide_complex sum = 0;
                for (long long j = 0; j < n[d]; j++) sum += all[first + j * inner] * std::polar(1.0, t->sign * 2 * M_PI * (double)(j * q % n[d]) / (double)n[d]);
                next[k] = sum;
            }
            all = next;
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
}

static int execute(int p, void *x, void *y, int sign, int kind)
{
    transform *t = &plans[p];
    if (!t->is_made || t->kind != kind || t->own || !t->room) return 1;
    t->x = x, t->y = y, t->sign = sign;
    on_device([=] { run(t); });
    t->room = NULL;
    return 0;
}
int cufftExecC2C(int p, void *x, void *y, int sign) { return execute(p, x, y, sign, 0x29); }
int cufftExecZ2Z(int p, void *x, void *y, int sign) { return execute(p, x, y, sign, 0x69); }
int cufftExecR2C(int p, void *x, void *y) { return execute(p, x, y, -1, 0x2a); }
int cufftExecD2Z(int p, void *x, void *y) { return execute(p, x, y, -1, 0x6a); }
int cufftExecC2R(int p, void *x, void *y) { return execute(p, x, y, 1, 0x2c); }
int cufftExecZ2D(int p, void *x, void *y) { return execute(p, x, y, 1, 0x6c); }

/* ---- cuSOLVER and cuBLAS ---- */

static int handle;
int cusolverDnCreate(void **h) { return *h = &handle, 0; }
int cusolverDnSetStream(void *h, void *) { return h != &handle; }
int cusolverDnCreateParams(void **p) { return *p = &handle, 0; }
int cusolverDnCreateGesvdjInfo(void **p) { return *p = &handle, 0; }
int cublasCreate_v2(void **h) { return *h = &handle, 0; }
int cublasSetStream_v2(void *h, void *) { return h != &handle; }

} /* extern "C" */

enum { DEVICE_ROOM = 1000, HOST_ROOM = 500 };
template <class N> static constexpr bool is_complex = !std::is_floating_point_v<N>;
template <class N> struct part_of { typedef N type; };
template <class N> struct part_of<std::complex<N>> { typedef N type; };
template <class N> using part = typename part_of<N>::type;
template <class N> static N conj_of(N x)
{
    if constexpr (is_complex<N>) return std::conj(x);
    else return x;
}
#define OF_TYPE(N, of_real, of_complex, ...)                                                                      \
    [&] {                                                                                                   \
        if constexpr (std::is_same_v<N, float>) return LAPACKE_s##of_real(LAPACK_COL_MAJOR, __VA_ARGS__);      \
        else if constexpr (std::is_same_v<N, double>) return LAPACKE_d##of_real(LAPACK_COL_MAJOR, __VA_ARGS__); \
        else if constexpr (std::is_same_v<N, std::complex<float>>) return LAPACKE_c##of_complex(LAPACK_COL_MAJOR, __VA_ARGS__); \
        else return LAPACKE_z##of_complex(LAPACK_COL_MAJOR, __VA_ARGS__);                                      \
    }()

/* f of a null pointer to numbers of that cudaDataType */
template <class F> static void of_type(int type, F f)
{
    if (type == 0) f((float *)nullptr);
    else if (type == 1) f((double *)nullptr);
    else if (type == 4) f((std::complex<float> *)nullptr);
    else f((std::complex<double> *)nullptr);
}
#define POINTED(p) std::remove_pointer_t<decltype(p)>

static void use(void *room, size_t bytes, void *host, size_t host_bytes) { memset(room, 0x77, bytes), memset(host, 0x77, host_bytes); }
static int rooms(size_t *bytes, size_t *host) { return *bytes = DEVICE_ROOM, *host = HOST_ROOM, 0; }

template <class N> static int cholesky(int fill, int n, N *a, int lda)
{
    const int info = OF_TYPE(N, potrf, potrf, fill ? 'U' : 'L', n, a, lda);
    for (int j = 0; j < n; j++)
        for (int i = 0; i < n; i++)
            if (fill ? i > j : i < j) a[i + (size_t)j * lda] = NAN; /* the other triangle is room for work */
    return info;
}

template <class N> static void triangle(int side, int fill, int how, int unit, int m, int n, N alpha, const N *a, int lda, N *b, int ldb)
{
    const int k = side ? n : m;
    const bool lower = (fill == 0) == (how == 0), forward = lower != (side == 1);
    auto at = [&](int i, int j) { return how == 0 ? a[i + (size_t)j * lda] : how == 1 ? a[j + (size_t)i * lda] : conj_of(a[j + (size_t)i * lda]); };
    for (int line = 0; line < (side ? m : n); line++) {
        auto x = [&](int i) -> N & { return side ? b[line + (size_t)i * ldb] : b[i + (size_t)line * ldb]; };
        for (int step = 0; step < k; step++) {
            const int i = forward ? step : k - 1 - step;
            N sum = alpha * x(i);
            for (int before = 0; before < step; before++) {
                const int j = forward ? before : k - 1 - before;
                sum -= (side ? at(j, i) : at(i, j)) * x(j);
            }
            x(i) = unit ? sum : sum / at(i, i);
        }
    }
}

template <class N> static int factor_lu(int m, int n, N *a, int lda, int *pivots) { return OF_TYPE(N, getrf, getrf, m, n, a, lda, pivots); }
template <class N> static int solve_lu(int how, int n, int nrhs, const N *a, int lda, const int *pivots, N *b, int ldb)
{
    return OF_TYPE(N, getrs, getrs, "NTC"[how], n, nrhs, a, lda, pivots, b, ldb);
}
template <class N> static int make_q(int m, int n, int k, N *a, int lda, const N *tau) { return OF_TYPE(N, orgqr, ungqr, m, n, k, a, lda, tau); }

/* A = U diag(s) V^H; a is lost. */
template <class N> static int rotations(int vectors, int econ, int m, int n, N *a, int lda, part<N> *s, N *u, int ldu, N *v, int ldv)
{
    const int k = std::min(m, n), of_v = econ ? k : n;
    std::vector<N> vh((size_t)n * n);
    const int info = OF_TYPE(N, gesdd, gesdd, !vectors ? 'N' : econ ? 'S' : 'A', m, n, a, lda, s, u, ldu, vh.data(), n);
    for (int j = 0; vectors && j < of_v; j++)
        for (int i = 0; i < n; i++) v[i + (size_t)j * ldv] = conj_of(vh[j + (size_t)i * n]);
    memset((void *)a, 0x77, sizeof *a * m * n);
    return info;
}

template <class N> static int eigen(int vectors, int fill, int n, N *a, int lda, part<N> *values)
{
    const int info = OF_TYPE(N, syevd, heevd, vectors ? 'V' : 'N', fill ? 'U' : 'L', n, a, lda, values);
    for (int i = 0; !vectors && i < n * n; i++) a[i] = NAN;
    return info;
}

extern "C" {

int cusolverDnXpotrf_bufferSize(void *, void *, int, int64_t, int, const void *, int64_t, int, size_t *bytes, size_t *host) { return rooms(bytes, host); }
int cusolverDnXpotrf(void *, void *, int fill, int64_t n, int type, void *a, int64_t lda, int, void *room, size_t bytes, void *host, size_t host_bytes, int *info)
{
    return on_device([=] {
        use(room, bytes, host, host_bytes);
        of_type(type, [=](auto *p) { *info = cholesky(fill, (int)n, (decltype(p))a, (int)lda); });
    });
}
int cusolverDnXgeqrf_bufferSize(void *, void *, int64_t, int64_t, int, const void *, int64_t, int, const void *, int, size_t *bytes, size_t *host) { return rooms(bytes, host); }
int cusolverDnXgeqrf(void *, void *, int64_t m, int64_t n, int type, void *a, int64_t lda, int, void *tau, int, void *room, size_t bytes, void *host, size_t host_bytes, int *info)
{
    return on_device([=] {
        use(room, bytes, host, host_bytes);
        of_type(type, [=](auto *p) { *info = OF_TYPE(POINTED(p), geqrf, geqrf, (int)m, (int)n, (decltype(p))a, (int)lda, (decltype(p))tau); });
    });
}
int cusolverDnXsyevd_bufferSize(void *, void *, int, int, int64_t, int, const void *, int64_t, int, const void *, int, size_t *bytes, size_t *host) { return rooms(bytes, host); }
int cusolverDnXsyevBatched_bufferSize(void *, void *, int, int, int64_t, int, const void *, int64_t, int, const void *, int, size_t *bytes, size_t *host, int64_t) { return rooms(bytes, host); }
int cusolverDnXsyevBatched(void *, void *, int vectors, int fill, int64_t n, int type, void *a, int64_t lda, int, void *values, int, void *room, size_t bytes, void *host, size_t host_bytes,
                           int *info, int64_t batch)
{
    return on_device([=] {
        use(room, bytes, host, host_bytes);
        for (int64_t b = 0; b < batch; b++)
            of_type(type, [=](auto *p) { info[b] = eigen(vectors, fill, (int)n, (decltype(p))a + b * n * lda, (int)lda, (part<POINTED(p)> *)values + b * n); });
    });
}
int cusolverDnXsyevd(void *h, void *params, int vectors, int fill, int64_t n, int type, void *a, int64_t lda, int real, void *values, int compute, void *room, size_t bytes, void *host,
                     size_t host_bytes, int *info)
{
    return cusolverDnXsyevBatched(h, params, vectors, fill, n, type, a, lda, real, values, compute, room, bytes, host, host_bytes, info, 1);
}

#define FUNCTIONS(L, q, N)                                                                                  \
    int cusolverDn##L##potrfBatched(void *, int fill, int n, N *a[], int lda, int *info, int batch)         \
    {                                                                                                       \
        return on_device([=] { for (int b = 0; b < batch; b++) info[b] = cholesky(fill, n, a[b], lda); });  \
    }                                                                                                       \
    int cusolverDn##L##getrf_bufferSize(void *, int, int, N *, int, int *room) { return *room = 100, 0; }   \
    int cusolverDn##L##getrf(void *, int m, int n, N *a, int lda, N *room, int *pivots, int *info)          \
    {                                                                                                       \
        return on_device([=] { memset((void *)room, 0x77, 100 * sizeof *room), *info = factor_lu(m, n, a, lda, pivots); }); \
    }                                                                                                       \
    int cusolverDn##L##getrs(void *, int how, int n, int nrhs, const N *a, int lda, const int *pivots, N *b, int ldb, int *info) \
    {                                                                                                       \
        return on_device([=] { *info = solve_lu(how, n, nrhs, a, lda, pivots, b, ldb); }); \
    }                                                                                                       \
    int cublas##L##getrfBatched(void *, int n, N *const a[], int lda, int *pivots, int *info, int batch)    \
    {                                                                                                       \
        return on_device([=] { for (int b = 0; b < batch; b++) info[b] = factor_lu(n, n, a[b], lda, pivots + b * n); }); \
    }                                                                                                       \
    int cublas##L##getrsBatched(void *, int how, int n, int nrhs, const N *const a[], int lda, const int *pivots, N *const x[], int ldb, int *info, int batch) \
    {                                                                                                       \
        *info = 0;                                                                                          \
        return on_device([=] { for (int b = 0; b < batch; b++) solve_lu(how, n, nrhs, a[b], lda, pivots + b * n, x[b], ldb); }); \
    }                                                                                                       \
    int cublas##L##trsm_v2(void *, int side, int fill, int how, int unit, int m, int n, const N *alpha, const N *a, int lda, N *b, int ldb) \
    {                                                                                                       \
        return on_device([=] { triangle(side, fill, how, unit, m, n, *alpha, a, lda, b, ldb); });           \
    }                                                                                                       \
    int cublas##L##trsmBatched(void *, int side, int fill, int how, int unit, int m, int n, const N *alpha, const N *const a[], int lda, N *const x[], int ldb, int batch) \
    {                                                                                                       \
        return on_device([=] { for (int b = 0; b < batch; b++) triangle(side, fill, how, unit, m, n, *alpha, a[b], lda, x[b], ldb); }); \
    }                                                                                                       \
    int cusolverDn##L##q##gqr_bufferSize(void *, int, int, int, const N *, int, const N *, int *room) { return *room = 100, 0; } \
    int cusolverDn##L##q##gqr(void *, int m, int n, int k, N *a, int lda, const N *tau, N *room, int, int *info) \
    {                                                                                                       \
        return on_device([=] { memset((void *)room, 0x77, 100 * sizeof *room), *info = make_q(m, n, k, a, lda, tau); }); \
    }                                                                                                       \
    int cusolverDn##L##gesvdj_bufferSize(void *, int, int, int, int, const N *, int, const part<N> *, const N *, int, const N *, int, int *room, void *) { return *room = 100, 0; } \
    int cusolverDn##L##gesvdj(void *, int vectors, int econ, int m, int n, N *a, int lda, part<N> *s, N *u, int ldu, N *v, int ldv, N *room, int, int *info, void *) \
    {                                                                                                       \
        return on_device([=] { memset((void *)room, 0x77, 100 * sizeof *room), *info = rotations(vectors, econ, m, n, a, lda, s, u, ldu, v, ldv); }); \
    }                                                                                                       \
    int cusolverDn##L##gesvdjBatched_bufferSize(void *, int, int, int, const N *, int, const part<N> *, const N *, int, const N *, int, int *room, void *, int) { return *room = 100, 0; } \
    int cusolverDn##L##gesvdjBatched(void *, int vectors, int m, int n, N *a, int lda, part<N> *s, N *u, int ldu, N *v, int ldv, N *room, int, int *info, void *, int batch) \
    {                                                                                                       \
        if (m > 32 || n > 32) return 3;                                                                     \
        return on_device([=] {                                                                              \
            memset((void *)room, 0x77, 100 * sizeof *room);                                                 \
            for (int b = 0; b < batch; b++)                                                                 \
                info[b] = rotations(vectors, 0, m, n, a + b * lda * n, lda, s + b * std::min(m, n), u + b * ldu * m, ldu, v + b * ldv * n, ldv); \
        });                                                                                                 \
    }
FUNCTIONS(S, or, float)
FUNCTIONS(D, or, double)
FUNCTIONS(C, un, std::complex<float>)
FUNCTIONS(Z, un, std::complex<double>)

} /* extern "C" */
