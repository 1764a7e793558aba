/* suite.c - runs a program's tests, and again with each allocation failing in turn.
 *
 * A run with a failing allocation goes through cmocka like any other, since only cmocka can leave a test at a
 * failed assertion; its output is thrown away. What is left is looked at when the test's own clean-up is due:
 * the pending error, then, with error cleared and scopes closed, the number of live allocations.
 */
#define _GNU_SOURCE
#include "suite/suite.h"
#include "base/base.h"

#include <stdio.h>

enum { SEED = 1 }; /* the same numbers in every run: what fails once fails again */

/* The test that is running with failing allocations, and what its clean-up saw. */
static const struct CMUnitTest *current;
static int error_left;
static bool reached_end;

static void body(void **state)
{
    current->test_func(state);
    reached_end = true;
}

/* ---- what tests made ---- */

static struct {
    void (*give_up)(void *);
    void *thing;
} made[64];
static size_t nmade;

void suite_after(void (*give_up)(void *), void *thing)
{
    if (!thing) return;
    RUSH_ASSERT(nmade < RUSH_COUNT(made));
    made[nmade].give_up = give_up;
    made[nmade++].thing = thing;
}

void suite_forget(void *thing)
{
    for (size_t i = 0; i < nmade; ++i)
        if (made[i].thing == thing) made[i].give_up = NULL;
}

void *suite_alloc(size_t bytes)
{
    void *p = malloc(bytes);
    suite_after(free, p);
    return p;
}

bool suite_failing(void) { return current != NULL; }

/* After every test: what it leaves must not spoil the next. */
static int settle(void **state)
{
    while (nmade) {
        --nmade;
        if (made[nmade].give_up) made[nmade].give_up(made[nmade].thing);
    }
    rush_error_clear();
    rush_scope_close(0);
    return 0;
}

static int clean_up(void **state)
{
    rush_memory_fail_at(0, false);
    error_left = rush_error_kind_now();
    return settle(state);
}

size_t suite_live(void)
{
    rush_memory_stats s;
    rush_memory_stats_read(&s);
    return s.small_live + s.live_blocks - (rush_now.parked != NULL); /* the stack of scopes, which goes only when it is long */
}

/* Runs `current` with its n-th allocation failing (0: none), silently; true if it passed. */
static bool run(uint64_t n)
{
    const struct CMUnitTest one[] = {{.name = current->name, .test_func = body, .teardown_func = clean_up}};
    static FILE *nowhere; /* in place of the streams, not the descriptors: sanitizers stay heard */
    if (!nowhere) nowhere = fopen("/dev/null", "w");
    FILE *out = stdout, *err = stderr;
    stdout = stderr = nowhere;
    error_left = RUSH_OK;
    reached_end = false;
    rush_manual_seed(SEED);
    rush_memory_fail_at(n, false);
    int failed = _cmocka_run_group_tests("failing", one, 1, NULL, NULL);
    rush_memory_fail_at(0, false);
    stdout = out;
    stderr = err;
    return !failed;
}

/* What is wrong after a run in which the n-th allocation failed; NULL if nothing is. */
static const char *complaint(uint64_t n, size_t before)
{
    bool passed = run(n);
    if (suite_live() > before) return "leaks";
    if (!passed && !reached_end && !error_left) return "fails without an error";
    return NULL;
}

/* How many of a test's allocations fail in turn: the same ones on every machine. */
static uint64_t trials(uint64_t all, double effort)
{
    uint64_t n = (uint64_t)(effort * 1.5e6 / (double)(all + 1));
    n = RUSH_MAX(RUSH_MIN(n, (uint64_t)(effort * 300)), 6);
    return RUSH_MIN(n, all);
}

static int try_failures(const struct CMUnitTest *test, double effort, uint64_t only)
{
    current = test;
    run(0);
    uint64_t first = rush_memory_count(), wrong = 0, tried = 0;
    if (!run(0)) return printf("FAIL %s: fails without failing allocations\n", test->name), 1;
    uint64_t all = rush_memory_count() - first, most = only ? 1 : trials(all, effort), dense = most == all ? all : most / 2;
    size_t before = suite_live();
    double spread = 0;
    for (; tried < most; ++tried) { /* the first ones, then the rest by the golden section, which spreads them evenly */
        uint64_t n = tried + 1;
        if (n > dense) {
            spread += 0.6180339887498949;
            spread -= (double)(int64_t)spread;
            n = dense + 1 + (uint64_t)(spread * (double)(all - dense));
        }
        if (only) n = only;
        const char *what = complaint(n, before);
        if (what) {
            if (++wrong <= 5) printf("FAIL %s: %s when allocation %llu of %llu fails\n", test->name, what, (unsigned long long)n, (unsigned long long)all);
            before = suite_live();
        }
    }
    if (!run(0)) ++wrong, printf("FAIL %s: fails after failed allocations\n", test->name);
    printf("%s %s: %llu of %llu allocations made to fail, %llu wrong\n", wrong ? "FAIL" : "ok  ", test->name, (unsigned long long)tried,
           (unsigned long long)all, (unsigned long long)wrong);
    fflush(stdout);
    return wrong != 0;
}

static int seeded(void **state)
{
    rush_manual_seed(SEED);
    return 0;
}

int suite_run(int argc, char **argv, const struct CMUnitTest *tests, size_t n)
{
    struct CMUnitTest each[64];
    RUSH_ASSERT(n <= RUSH_COUNT(each));
    for (size_t i = 0; i < n; i++) {
        each[i] = tests[i];
        each[i].setup_func = seeded;
        each[i].teardown_func = settle;
    }
    if (argc < 2 || strcmp(argv[1], "--failing")) return _cmocka_run_group_tests("tests", each, n, NULL, NULL);
    double effort = argc > 2 ? atof(argv[2]) : 1;
    int failed = 0, ran = 0;
    for (size_t i = 0; i < n; i++) {
        if (argc > 3 && !strstr(tests[i].name, argv[3])) continue;
        failed += try_failures(&tests[i], effort, argc > 4 ? strtoull(argv[4], NULL, 10) : 0);
        ran++;
    }
    printf("%d test(s) run with failing allocations, %d wrong\n", ran, failed);
    return failed;
}
