/* lapack.c - one call per factorisation, by type. What LAPACK needs as workspace LAPACKE takes itself. */
#include "kernels/lapack/lapack.h"
#include "config.h"

#if RUSH_HAS_LAPACK
#include <lapacke.h>

#define COL LAPACK_COL_MAJOR

/* OpenBLAS has threads of its own, which fight with ours over the processors: it works on the caller's thread.
 * Other LAPACKs do not have this function. */
#if RUSH_HAS_SCIPY_OPENBLAS /* PyPI's build puts a word before its names */
#define NAMED(name) scipy_##name
#else
#define NAMED(name) name
#endif
extern void NAMED(openblas_set_num_threads)(int) __attribute__((weak));

__attribute__((constructor)) static void one_thread(void)
{
    if (NAMED(openblas_set_num_threads)) NAMED(openblas_set_num_threads)(1);
    NAMED(LAPACKE_set_nancheck)(0); /* a NaN goes through, as in PyTorch; routines that would not end with one are not called */
}

/* The four types of one routine; void pointers go where each wants its own. */
#define BY_TYPE(name, ...)                                                                                  \
    (d == RUSH_F32 ? NAMED(LAPACKE_s##name)(COL, __VA_ARGS__) : d == RUSH_F64 ? NAMED(LAPACKE_d##name)(COL, __VA_ARGS__)  \
     : d == RUSH_C64 ? NAMED(LAPACKE_c##name)(COL, __VA_ARGS__) : NAMED(LAPACKE_z##name)(COL, __VA_ARGS__))
#define BY_TYPE2(real, complex, ...)                                                                        \
    (d == RUSH_F32 ? NAMED(LAPACKE_s##real)(COL, __VA_ARGS__) : d == RUSH_F64 ? NAMED(LAPACKE_d##real)(COL, __VA_ARGS__)  \
     : d == RUSH_C64 ? NAMED(LAPACKE_c##complex)(COL, __VA_ARGS__) : NAMED(LAPACKE_z##complex)(COL, __VA_ARGS__))

int rush_potrf(rush_dtype d, bool upper, int n, void *a, int lda) { return BY_TYPE(potrf, upper ? 'U' : 'L', n, a, lda); }

int rush_getrf(rush_dtype d, int m, int n, void *a, int lda, int32_t *pivots) { return BY_TYPE(getrf, m, n, a, lda, pivots); }

int rush_trtrs(rush_dtype d, bool upper, char trans, bool unit, int n, int nrhs, const void *a, int lda, void *b, int ldb)
{
    return BY_TYPE(trtrs, upper ? 'U' : 'L', trans, unit ? 'U' : 'N', n, nrhs, a, lda, b, ldb);
}

int rush_geqrf(rush_dtype d, int m, int n, void *a, int lda, void *tau) { return BY_TYPE(geqrf, m, n, a, lda, tau); }

int rush_orgqr(rush_dtype d, int m, int n, int k, void *a, int lda, const void *tau)
{
    return BY_TYPE2(orgqr, ungqr, m, n, k, a, lda, tau);
}

int rush_syevd(rush_dtype d, bool vectors, bool upper, int n, void *a, int lda, void *w)
{
    return BY_TYPE2(syevd, heevd, vectors ? 'V' : 'N', upper ? 'U' : 'L', n, a, lda, w);
}

/* The real routines give conjugate pairs as (real, imaginary) columns: made complex here. */
#define PAIRS(T)                                                                                            \
    do {                                                                                                    \
        T *wr = rush_malloc(sizeof(T) * 2 * RUSH_MAX(n, 1)), *vr = rush_malloc(sizeof(T) * RUSH_MAX((size_t)n * n, 1)); \
        if (!wr || !vr) return rush_free(wr), rush_free(vr), -1;                                            \
        int info = sizeof(T) == 4 ? NAMED(LAPACKE_sgeev)(COL, 'N', vectors ? 'V' : 'N', n, a, lda, (void *)wr, (void *)(wr + n), NULL, 1, (void *)vr, RUSH_MAX(n, 1)) \
                                  : NAMED(LAPACKE_dgeev)(COL, 'N', vectors ? 'V' : 'N', n, a, lda, (void *)wr, (void *)(wr + n), NULL, 1, (void *)vr, RUSH_MAX(n, 1)); \
        T *cw = w, *cv = v;                                                                                 \
        for (int j = 0; j < n; ++j) cw[2 * j] = wr[j], cw[2 * j + 1] = wr[n + j];                           \
        for (int j = 0; vectors && j < n; ++j) {                                                            \
            bool pair = wr[n + j] != 0 && j + 1 < n;                                                        \
            for (int i = 0; i < n; ++i) {                                                                   \
                T re = vr[(size_t)j * n + i], im = pair ? vr[(size_t)(j + 1) * n + i] : 0;                  \
                cv[2 * ((size_t)j * ldv + i)] = re;                                                         \
                cv[2 * ((size_t)j * ldv + i) + 1] = im;                                                     \
                if (pair) cv[2 * ((size_t)(j + 1) * ldv + i)] = re, cv[2 * ((size_t)(j + 1) * ldv + i) + 1] = -im; \
            }                                                                                               \
            j += pair;                                                                                      \
        }                                                                                                   \
        rush_free(wr);                                                                                      \
        rush_free(vr);                                                                                      \
        return info;                                                                                        \
    } while (0)

int rush_geev(rush_dtype d, bool vectors, int n, void *a, int lda, void *w, void *v, int ldv)
{
    char job = vectors ? 'V' : 'N';
    if (d == RUSH_C64) return NAMED(LAPACKE_cgeev)(COL, 'N', job, n, a, lda, w, NULL, 1, v, RUSH_MAX(ldv, 1));
    if (d == RUSH_C128) return NAMED(LAPACKE_zgeev)(COL, 'N', job, n, a, lda, w, NULL, 1, v, RUSH_MAX(ldv, 1));
    if (d == RUSH_F32) PAIRS(float);
    PAIRS(double);
}

int rush_gesdd(rush_dtype d, char jobz, int m, int n, void *a, int lda, void *s, void *u, int ldu, void *vt, int ldvt)
{
    return BY_TYPE(gesdd, jobz, m, n, a, lda, s, u, ldu, vt, ldvt);
}

int rush_gels(rush_dtype d, int m, int n, int nrhs, void *a, int lda, void *b, int ldb) { return BY_TYPE(gels, 'N', m, n, nrhs, a, lda, b, ldb); }

int rush_gelsy(rush_dtype d, int m, int n, int nrhs, void *a, int lda, void *b, int ldb, int32_t *pivots, double rcond, int32_t *rank)
{
    return BY_TYPE(gelsy, m, n, nrhs, a, lda, b, ldb, pivots, rcond, rank);
}

int rush_gelsd(rush_dtype d, int m, int n, int nrhs, void *a, int lda, void *b, int ldb, void *s, double rcond, int32_t *rank)
{
    return BY_TYPE(gelsd, m, n, nrhs, a, lda, b, ldb, s, rcond, rank);
}

int rush_sytrf(rush_dtype d, bool hermitian, int n, void *a, int lda, int32_t *pivots)
{
    if (!hermitian || d == RUSH_F32 || d == RUSH_F64) return BY_TYPE(sytrf, 'L', n, a, lda, pivots);
    return d == RUSH_C64 ? NAMED(LAPACKE_chetrf)(COL, 'L', n, a, lda, pivots) : NAMED(LAPACKE_zhetrf)(COL, 'L', n, a, lda, pivots);
}

int rush_sytrs(rush_dtype d, bool hermitian, int n, int nrhs, const void *a, int lda, const int32_t *pivots, void *b, int ldb)
{
    if (!hermitian || d == RUSH_F32 || d == RUSH_F64) return BY_TYPE(sytrs, 'L', n, nrhs, a, lda, pivots, b, ldb);
    return d == RUSH_C64 ? NAMED(LAPACKE_chetrs)(COL, 'L', n, nrhs, a, lda, pivots, b, ldb) : NAMED(LAPACKE_zhetrs)(COL, 'L', n, nrhs, a, lda, pivots, b, ldb);
}

#else

static int absent(void) { return rush_lacks("LAPACK"); }
int rush_potrf(rush_dtype d, bool upper, int n, void *a, int lda) { return absent(); }
int rush_getrf(rush_dtype d, int m, int n, void *a, int lda, int32_t *pivots) { return absent(); }
int rush_trtrs(rush_dtype d, bool up, char t, bool unit, int n, int k, const void *a, int lda, void *b, int ldb) { return absent(); }
int rush_geqrf(rush_dtype d, int m, int n, void *a, int lda, void *tau) { return absent(); }
int rush_orgqr(rush_dtype d, int m, int n, int k, void *a, int lda, const void *tau) { return absent(); }
int rush_syevd(rush_dtype d, bool vectors, bool upper, int n, void *a, int lda, void *w) { return absent(); }
int rush_geev(rush_dtype d, bool vectors, int n, void *a, int lda, void *w, void *v, int ldv) { return absent(); }
int rush_gesdd(rush_dtype d, char j, int m, int n, void *a, int lda, void *s, void *u, int ldu, void *vt, int ldvt) { return absent(); }
int rush_gels(rush_dtype d, int m, int n, int k, void *a, int lda, void *b, int ldb) { return absent(); }
int rush_gelsy(rush_dtype d, int m, int n, int k, void *a, int lda, void *b, int ldb, int32_t *p, double r, int32_t *rank) { return absent(); }
int rush_gelsd(rush_dtype d, int m, int n, int k, void *a, int lda, void *b, int ldb, void *s, double r, int32_t *rank) { return absent(); }
int rush_sytrf(rush_dtype d, bool hermitian, int n, void *a, int lda, int32_t *p) { return absent(); }
int rush_sytrs(rush_dtype d, bool hermitian, int n, int k, const void *a, int lda, const int32_t *p, void *b, int ldb) { return absent(); }
#endif
