/* test_ulp.c - functions of floats beside those of <math.h> in double: how many units in the last place they are off, over
 * numbers of all exponents and both signs. That its place changes no number's bits is tests/python/test_determinism.py.
 *
 *     RUSHLIGHT_ULP=1 test_ulp     over every float (minutes a function), and prints the largest
 */
#include "suite/suite.h"
#include "op/op.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct function {
    const char *name;
    double (*right)(double);
    double most; /* units */
} function;

static const function functions[] = {
    {"exp", exp, 1}, {"exp2", exp2, 1}, {"expm1", expm1, 1}, {"log", log, 1}, {"log2", log2, 1}, {"log10", log10, 1}, {"log1p", log1p, 1},
    {"sin", sin, 0.65}, {"cos", cos, 0.65}, {"tan", tan, 1}, {"sinh", sinh, 1}, {"cosh", cosh, 1}, {"tanh", tanh, 1}, {"erf", erf, 1}, {"atan", atan, 1}, {"asin", asin, 1}, {"acos", acos, 1},
};

/* Of the float next to the right result; a wrong sign of 0, an infinity or NaN of one alone are very many. */
static double units(float have, double right)
{
    const float near = (float)right;
    if (isnan(right) || isnan(have)) return isnan(right) && isnan(have) ? 0 : 1e9;
    if (have == 0 && near == 0) return signbit(have) == signbit(near) ? 0 : 1e9;
    if (isinf(near) && !isinf(have)) return fabs(right) < 0x1.000001p128 ? (0x1p128 - fabs((double)have)) * 0x1p-104 : 1e9;
    if (isinf(have)) return isinf(near) || fabs(right) > 0x1.fffffep127 ? 0 : 1e9;
    int e;
    frexp(right, &e);
    return fabs((double)have - right) / ldexp(1, (e < -125 ? -125 : e) - 24);
}

enum { MANY = 1 << 14 };

/* The largest over the floats whose bits are in x. */
static double most_units(const function *f, const uint32_t *bits, int64_t n, float *at, float *have)
{
    double most = 0;
    rush_scope() {
        rush_tensor *x = rush_tensor_new(RUSH_F32, (rush_device){RUSH_CPU, -1}, 1, &n);
        assert_non_null(x);
        memcpy(rush_ptr(x), bits, (size_t)n * 4);
        rush_value in = V(x), out = {0};
        assert_int_equal(rush_call(rush_op_find(f->name), &in, &out), 0);
        const float *y = rush_ptr(out.t);
        for (int64_t i = 0; i < n; i++) {
            const float number = ((const float *)rush_ptr(x))[i];
            const double off = units(y[i], f->right((double)number));
            if (off > most) most = off, *at = number, *have = y[i];
        }
    }
    return most;
}

static void functions_are_close(void **state)
{
    (void)state;
    static const float edges[] = {0, 1, 2, 10, 0.5f, 0.25f, INFINITY, 0x1p-149f, 0x1.fffffcp-127f, 0x1p-126f, 0x1.fffffep127f, 88.7228317f, 88.7228394f, 87.3365479f, 103.972076f,
                                  103.972084f, 104, 128, 127.999992f, 126, 149, 149.5f, 150, 89, 17.5f, 0x1.6a09e6p0f, 0x1.6a09e6p127f, 0x1.921fb6p0f, 0x1.921fb6p1f, 0x1p20f, 0x1p40f, 0x1p41f, 0x1.b951f2p95f};
    static uint32_t bits[MANY];
    const bool every = getenv("RUSHLIGHT_ULP") != NULL;
    const uint64_t step = every ? 1 : suite_failing() ? 100000007 : 65521;
    for (size_t k = 0; k < RUSH_COUNT(functions); k++) {
        const function *f = functions + k;
        double most = 0;
        float at = 0, have = 0;
        int64_t n = 0;
        for (size_t i = 0; i < RUSH_COUNT(edges); i++)
            for (int sign = -1; sign < 2; sign += 2) {
                const float x = sign * edges[i];
                memcpy(bits + n++, &x, 4);
            }
        bits[n++] = 0x7fc00000, bits[n++] = 0x7f800001, bits[n++] = 0xffffffff;
        for (uint64_t b = 0; b < (uint64_t)1 << 32; b += step) {
            bits[n++] = (uint32_t)b;
            if (n < MANY && b + step < (uint64_t)1 << 32) continue;
            float here = 0, there = 0;
            const double off = most_units(f, bits, n, &here, &there);
            if (off > most) most = off, at = here, have = there;
            n = 0;
        }
        if (every) printf("%-8s %.4f units at %a\n", f->name, most, (double)at), fflush(stdout);
        if (most > f->most) fail_msg("%s is off by %g units in the last place at %a (%.9g): %.9g for %.17g", f->name, most, (double)at, (double)at, (double)have, f->right((double)at));
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(functions_are_close)};
    return SUITE(tests);
}
