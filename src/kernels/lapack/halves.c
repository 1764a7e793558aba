/* halves.c - triangular systems and LU factorisations by halves.
 *
 * LAPACK's own work on one thread here (lapack.c says why) and an LU of a few hundred rows gains from a second one. Cut
 * into halves, nearly all of the work is products, which our kernels do on all threads, after Toledo, "Locality of reference
 * in LU decomposition with partial pivoting" (1997). LAPACK does the ends of a large LU, systems of few right-hand sides and
 * complex ones. Right-hand sides are cut into pieces of a fixed width, so that results do not depend on the number of threads.
 */
#include "config.h"
#include "kernels/cpu/gemm.h"
#include "kernels/lapack/lapack.h"
#include "tensor/iter.h"
#include <complex.h>
#include <float.h>
#include <math.h>

enum { SMALL = 24, END = 64, WIDTH = RUSH_SUBSTITUTION_WIDTH }; /* rows of a small LU, rows that are not cut again, right-hand sides of a piece */

static bool cuts(rush_dtype d) { return d == RUSH_F32 || d == RUSH_F64; }

static void *at(rush_dtype d, const void *p, int64_t i) { return (char *)p + i * (int64_t)rush_dtypes[d].size; }

/* C (rows x columns) -= M X, with M's elements mi apart down and mj across, k of them. Columns are `ldc` and `ldx` apart. */
static void subtract(rush_dtype d, int rows, int columns, int k, void *c, int ldc, const void *m, int64_t mi, int64_t mj, const void *x, int ldx)
{
    rush_gemm g = {.m = columns, .n = rows, .k = k, .a = x, .am = ldx, .ak = 1, .b = m, .bk = mj, .bn = mi, .c = c, .cm = ldc, .cn = 1, .alpha = -1, .beta = 1};
    if (d == RUSH_F32) rush_k_gemm->f32(&g);
    else rush_k_gemm->f64(&g);
}

/* What LAPACK refuses: a zero on the diagonal, which makes infinities and NaN. */
#define SUBSTITUTE(name, T, CONJ)                                                                           \
    static void name(const rush_triangle *t, int nrhs, const T *a, T *b, int ldb)                           \
    {                                                                                                       \
        bool trans = t->trans != 'N', down = t->upper == trans;                                             \
        for (int c = 0; c < nrhs; ++c, b += ldb)                                                            \
            for (int step = 0; step < t->n; ++step) {                                                       \
                int64_t i = down ? step : t->n - 1 - step;                                                  \
                T s = b[i];                                                                                 \
                for (int64_t j = down ? 0 : i + 1, end = down ? i : t->n; j < end; ++j) {                   \
                    T x = trans ? a[j + i * t->lda] : a[i + j * t->lda];                                    \
                    s -= (t->trans == 'C' ? CONJ(x) : x) * b[j];                                            \
                }                                                                                           \
                T x = a[i + i * t->lda];                                                                    \
                b[i] = t->unit ? s : s / (t->trans == 'C' ? CONJ(x) : x);                                   \
            }                                                                                               \
    }
#define ITSELF(x) (x)
SUBSTITUTE(substitute_f32, float, ITSELF)
SUBSTITUTE(substitute_f64, double, ITSELF)
SUBSTITUTE(substitute_c64, float complex, conjf)
SUBSTITUTE(substitute_c128, double complex, conj)

/* Real ones: the right-hand sides are turned to lie side by side. */
static void substitute(const rush_triangle *t, int nrhs, void *b, int ldb)
{
    double room[END * WIDTH];
    bool trans = t->trans != 'N';
    size_t size = rush_dtypes[t->dtype].size;
    rush_substitution s = {.a = t->a, .ai = trans ? t->lda : 1, .aj = trans ? 1 : t->lda, .n = t->n, .b = room, .down = t->upper == trans, .unit = t->unit};
    if (nrhs < WIDTH) memset(room, 0, size * (size_t)t->n * WIDTH);
    rush_k_copy->transpose((char *)room, WIDTH * (int64_t)size, b, ldb * (int64_t)size, t->n, nrhs, size);
    if (t->dtype == RUSH_F32) rush_k_gemm->substitute_f32(&s);
    else rush_k_gemm->substitute_f64(&s);
    rush_k_copy->transpose(b, ldb * (int64_t)size, (char *)room, WIDTH * (int64_t)size, nrhs, t->n, size);
}

typedef struct end_job {
    const rush_triangle *t;
    void *b;
    int nrhs, ldb;
} end_job;

static void end_pieces(void *arg, int64_t begin, int64_t end)
{
    const end_job *j = arg;
    const rush_triangle *t = j->t;
    for (int64_t p = begin; p < end; ++p) {
        int first = (int)p * WIDTH, columns = RUSH_MIN(WIDTH, j->nrhs - first);
        void *b = at(t->dtype, j->b, (int64_t)first * j->ldb);
        if (cuts(t->dtype) && t->n <= END && columns > 4) substitute(t, columns, b, j->ldb);
        else if (rush_trtrs(t->dtype, t->upper, t->trans, t->unit, t->n, columns, t->a, t->lda, b, j->ldb) <= 0) continue;
        else if (t->dtype == RUSH_F32) substitute_f32(t, columns, t->a, b, j->ldb);
        else if (t->dtype == RUSH_F64) substitute_f64(t, columns, t->a, b, j->ldb);
        else if (t->dtype == RUSH_C64) substitute_c64(t, columns, t->a, b, j->ldb);
        else substitute_c128(t, columns, t->a, b, j->ldb);
    }
}

void rush_solve_triangle(const rush_triangle *t, int nrhs, void *b, int ldb)
{
    if (!RUSH_HAS_LAPACK) {
        rush_lacks("LAPACK");
        return;
    }
    if (t->n <= END || nrhs < 16 || !cuts(t->dtype)) {
        end_job j = {t, b, nrhs, ldb};
        rush_parallel_for((nrhs + WIDTH - 1) / WIDTH, 1 + 32768 / ((int64_t)t->n * t->n * WIDTH + 1), end_pieces, &j);
        return;
    }
    int h = t->n / 2 / 16 * 16, rest = t->n - h;
    bool trans = t->trans != 'N', down = t->upper == trans; /* which half can be solved first */
    rush_triangle above = *t, below = *t;
    above.n = h;
    below.n = rest;
    below.a = at(t->dtype, t->a, h + (int64_t)h * t->lda);
    const void *corner = at(t->dtype, t->a, t->upper ? (int64_t)h * t->lda : h);
    int64_t mi = trans ? t->lda : 1, mj = trans ? 1 : t->lda;
    void *b2 = at(t->dtype, b, h);
    rush_solve_triangle(down ? &above : &below, nrhs, down ? b : b2, ldb);
    if (down) subtract(t->dtype, rest, nrhs, h, b2, ldb, corner, mi, mj, b, ldb);
    else subtract(t->dtype, h, nrhs, rest, b, ldb, corner, mi, mj, b2, ldb);
    rush_solve_triangle(down ? &below : &above, nrhs, down ? b2 : b, ldb);
}

/* Rows change places as the pivots [first, end) say, counted from 1 as in LAPACK; backwards undoes it. */
static void swap_rows(rush_dtype d, int columns, void *a, int lda, const int32_t *pivots, int first, int end, bool backwards)
{
#define SWAPS(T)                                                                                            \
    for (int c = 0; c < columns; ++c) {                                                                     \
        T *column = (T *)a + (int64_t)c * lda;                                                              \
        for (int step = first; step < end; ++step) {                                                        \
            int i = backwards ? end - 1 - (step - first) : step;                                            \
            T x = column[i];                                                                                \
            column[i] = column[pivots[i] - 1];                                                              \
            column[pivots[i] - 1] = x;                                                                      \
        }                                                                                                   \
    }
    switch (rush_dtypes[d].size) {
    case 4: SWAPS(float) break;
    case 8: SWAPS(double) break;
    default: SWAPS(double complex)
    }
#undef SWAPS
}

/* A small LU takes the multiples of one row after the other away from all rows below. Summed up first and taken away at
 * once, as BLAS does, they round as coarsely as their sum: a matrix that is singular but for its rounding got a last pivot of
 * exactly zero. Up to 16 rows the bits are MKL's: columns are scaled by a reciprocal, the last one of a square of at most 4 is divided. */
#define SMALL_LU(name, T, ABS, LEAST)                                                                       \
    static int name(int m, int n, T *a, int lda, int32_t *pivots)                                           \
    {                                                                                                       \
        int info = 0;                                                                                       \
        for (int j = 0; j < RUSH_MIN(m, n); ++j) {                                                          \
            T *column = a + (int64_t)j * lda;                                                               \
            int p = j;                                                                                      \
            for (int i = j + 1; i < m; ++i) p = ABS(column[i]) > ABS(column[p]) ? i : p;                    \
            pivots[j] = p + 1;                                                                              \
            if (column[p] == 0) {                                                                           \
                info = info ? info : j + 1;                                                                 \
                continue; /* nothing below it either */                                                     \
            }                                                                                               \
            for (int c = 0; c < n && p != j; ++c) {                                                         \
                T x = a[j + (int64_t)c * lda];                                                              \
                a[j + (int64_t)c * lda] = a[p + (int64_t)c * lda];                                          \
                a[p + (int64_t)c * lda] = x;                                                                \
            }                                                                                               \
            T pivot = column[j], by = 1 / pivot;                                                            \
            bool divides = ABS(pivot) < LEAST || (m == n && m <= 4 && j == m - 2);                          \
            for (int i = j + 1; i < m; ++i) column[i] = divides ? column[i] / pivot : column[i] * by;       \
            for (int c = j + 1; c < n; ++c) {                                                               \
                T *restrict to = a + (int64_t)c * lda, x = to[j];                                           \
                for (int i = j + 1; i < m; ++i) to[i] -= column[i] * x;                                     \
            }                                                                                               \
        }                                                                                                   \
        return info;                                                                                        \
    }
SMALL_LU(small_lu_f32, float, fabsf, FLT_MIN)
SMALL_LU(small_lu_f64, double, fabs, DBL_MIN)

int rush_lu(rush_dtype d, int m, int n, void *a, int lda, int32_t *pivots)
{
    int k = RUSH_MIN(m, n);
    if (RUSH_HAS_LAPACK && cuts(d) && RUSH_MAX(m, n) <= SMALL) return d == RUSH_F32 ? small_lu_f32(m, n, a, lda, pivots) : small_lu_f64(m, n, a, lda, pivots);
    if (k <= END || !cuts(d)) return rush_getrf(d, m, n, a, lda, pivots);
    int h = k / 2 / 16 * 16;
    void *right = at(d, a, (int64_t)h * lda), *below = at(d, a, h), *rest = at(d, right, h);
    int info = rush_lu(d, m, h, a, lda, pivots);
    if (info < 0) return info;
    swap_rows(d, n - h, right, lda, pivots, 0, h, false);
    rush_solve_triangle(&(rush_triangle){d, false, true, 'N', h, lda, a}, n - h, right, lda);
    subtract(d, m - h, n - h, h, rest, lda, below, 1, lda, right, lda);
    int more = rush_lu(d, m - h, n - h, rest, lda, pivots + h);
    if (more < 0) return more;
    for (int i = h; i < k; ++i) pivots[i] += h;
    swap_rows(d, h, a, lda, pivots, h, k, false);
    return info ? info : more ? more + h : 0;
}

void rush_solve_lu(rush_dtype d, char trans, int n, int nrhs, const void *lu, int lda, const int32_t *pivots, void *b, int ldb)
{
    rush_triangle lower = {d, false, true, trans, n, lda, lu}, upper = {d, true, false, trans, n, lda, lu};
    if (trans == 'N') swap_rows(d, nrhs, b, ldb, pivots, 0, n, false);
    rush_solve_triangle(trans == 'N' ? &lower : &upper, nrhs, b, ldb);
    rush_solve_triangle(trans == 'N' ? &upper : &lower, nrhs, b, ldb);
    if (trans != 'N') swap_rows(d, nrhs, b, ldb, pivots, 0, n, true);
}
