/* gradcheck.h - derivatives against finite differences, in double, and the like of randn for tests. */
#ifndef RUSH_TEST_GRADCHECK_H
#define RUSH_TEST_GRADCHECK_H

#include <rushlight.h>
#include <math.h>
#include <stdio.h>

static uint64_t test_seed = 1;

static inline double test_random(void) /* [-1, 1) */
{
    test_seed = test_seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(test_seed >> 11) / 4503599627370496.0 - 1.0;
}

static inline rush_tensor *test_tensor(int ndim, const int64_t *size)
{
    int64_t n = 1;
    for (int d = 0; d < ndim; ++d) n *= size[d];
    double data[16384];
    for (int64_t i = 0; i < n && i < 16384; ++i) data[i] = test_random();
    return rush_from_data(data, RUSH_F64, ndim, size);
}
#define TENSOR(...) test_tensor((int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), (int64_t[]){__VA_ARGS__})

/* Is d fn(x...)/dx right, for a function of n leaves to one tensor? The weights of the sum are 1, 2, 3 by turns. */
typedef rush_tensor *(*test_fn)(rush_tensor **x);

static inline rush_tensor *test_weighted(test_fn fn, rush_tensor **x)
{
    rush_tensor *y = fn(x);
    if (!y) return NULL;
    int64_t n = rush_numel(y);
    double w[16384];
    for (int64_t i = 0; i < n && i < 16384; ++i) w[i] = 1.0 + (double)(i % 3);
    return rush_sum(rush_mul(y, rush_from_data(w, RUSH_F64, rush_ndim(y), rush_sizes(y))));
}

static inline double gradcheck(test_fn fn, int n, rush_tensor **x)
{
    double worst = 0;
    rush_scope() {
        rush_tensor *leaf[8];
        for (int i = 0; i < n; ++i) leaf[i] = rush_requires_grad_set(rush_from_data(rush_data(x[i]), RUSH_F64, rush_ndim(x[i]), rush_sizes(x[i])), true);
        if (rush_backward(test_weighted(fn, leaf))) worst = INFINITY;
        for (int i = 0; i < n && worst < 1; ++i)
            for (int64_t k = 0; k < rush_numel(x[i]); ++k) rush_scope() {
                    double *at = (double *)rush_data(x[i]) + k, was = *at, h = 1e-6;
                    *at = was + h;
                    double up = rush_item(test_weighted(fn, x));
                    *at = was - h;
                    double down = rush_item(test_weighted(fn, x));
                    *at = was;
                    double got = rush_grad(leaf[i]) ? ((double *)rush_data(rush_grad(leaf[i])))[k] : 0, want = (up - down) / (2 * h);
                    worst = fmax(worst, fabs(got - want) / fmax(1, fabs(want)));
                }
    }
    if (rush_error()) fprintf(stderr, "gradcheck: %s\n", rush_error()), worst = INFINITY;
    return worst;
}

/* The largest difference of two tensors, taken as double. */
static inline double test_distance(rush_tensor *a, rush_tensor *b)
{
    double d = rush_item(rush_max(rush_abs(rush_sub(a, b))));
    if (rush_error()) fprintf(stderr, "distance: %s\n", rush_error()), d = INFINITY;
    return d;
}

#endif
