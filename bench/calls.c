/* calls.c - what one call costs from C, one thread: nanoseconds per call, allocation included.
 *
 *     bench/calls [NAME]
 */
#include <rushlight.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static rush_tensor *a, *b, *m, *w, *q, *p1, *p2, *big;

static void add(void) { rush_add(a, b); }
static void add_number(void) { rush_mul(a, 2.0); }
static void relu(void) { rush_relu(w); }
static void product(void) { rush_matmul(m, w); }
static void sum(void) { rush_sum(w); }
static void forward_backward(void)
{
    rush_grad_set(q, NULL);
    rush_backward(rush_sum(rush_relu(rush_matmul(m, q))));
}
static void product_1024(void) { rush_matmul(p1, p2); }
static void exp_1m(void) { rush_exp(big); }

static const struct { const char *name; void (*fn)(void); int calls; } cases[] = {
    {"add of 4 floats", add, 200000},
    {"mul by a number", add_number, 200000},
    {"relu 8x8", relu, 200000},
    {"matmul 4x8x8", product, 200000},
    {"sum 8x8", sum, 200000},
    {"relu(m @ w).sum() forward and backward", forward_backward, 100000},
    {"matmul 1024", product_1024, 10},
    {"exp of 1,000,000", exp_1m, 200},
};

int main(int argc, char **argv)
{
    rush_num_threads_set(1);
    rush_manual_seed(0);
    rush_tensor *made[] = {rush_randn(RUSH_INTS(4)), rush_randn(RUSH_INTS(4)), rush_randn(RUSH_INTS(4, 8)), rush_randn(RUSH_INTS(8, 8)),
                           rush_randn(RUSH_INTS(8, 8)), rush_randn(RUSH_INTS(1024, 1024)), rush_randn(RUSH_INTS(1024, 1024)),
                           rush_randn(RUSH_INTS(1000000))};
    a = made[0], b = made[1], m = made[2], w = made[3], q = made[4], p1 = made[5], p2 = made[6], big = made[7];
    rush_requires_grad_set(q, true);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; ++k) {
        if (argc > 1 && !strstr(cases[k].name, argv[1])) continue;
        double best = 1e30, from = now();
        int each = cases[k].calls / 100 ? cases[k].calls / 100 : 1; /* short rounds: some meet an idle machine */
        for (int round = 0; round < 20 || now() - from < 1e9; ++round) {
            double begin = now();
            for (int i = 0; i < each; ++i) rush_scope() cases[k].fn();
            double took = (now() - begin) / each;
            best = took < best ? took : best;
        }
        printf("%-42s %12.1f ns\n", cases[k].name, best);
        if (rush_error()) return fprintf(stderr, "%s\n", rush_error()), 1;
    }
    return 0;
}
