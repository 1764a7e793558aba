/* A program that has run once takes no memory from the system: all of a run's comes from what earlier ones gave back. Threads may run it at once. */
#define PROGRAMS "programs"
#include "suite/programs.h"

#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>

static atomic_long taken; /* calls of the C library's allocator, by whomever */

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define COUNTS 1
void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t), *__libc_memalign(size_t, size_t);
void *malloc(size_t n) { ++taken; return __libc_malloc(n); }
void *calloc(size_t k, size_t n) { ++taken; return __libc_calloc(k, n); }
void *realloc(void *p, size_t n) { ++taken; return __libc_realloc(p, n); }
void *memalign(size_t align, size_t n) { ++taken; return __libc_memalign(align, n); }
void *aligned_alloc(size_t align, size_t n) { ++taken; return __libc_memalign(align, n); }
int posix_memalign(void **p, size_t align, size_t n) { ++taken; return (*p = __libc_memalign(align, n)) ? 0 : 12; }
#else
#define COUNTS 0
#endif

static const char *const names[] = {"mlp", "cnn", "masked", "control", "dynamic", "scan", "map", "while"};

static void run(rush_module *net, rush_state in)
{
    rush_scope() {
        rush_tensor *out[8];
        assert_true(rush_program_run(net, in.n, in.tensor, 8, out) > 0);
    }
}

static void a_run_takes_no_memory_from_the_system(void **state)
{
    rush_grad_enabled_set(false);
    for (size_t k = 0; k < sizeof names / sizeof *names; ++k) {
        rush_scope() {
            rush_module *net = rush_program_load(file(names[k], ".pt2"));
            rush_state in = rush_npz_load(file(names[k], "_in.npz"));
            for (int i = 0; i < 4; ++i) run(net, in);
            long before = taken;
            for (int i = 0; i < 10; ++i) run(net, in);
            if (COUNTS && taken != before) print_error("%s: %ld allocations in 10 runs\n", names[k], taken - before);
            assert_int_equal(taken - before, 0);
        }
    }
    rush_grad_enabled_set(true);
}

typedef struct job {
    rush_module *net;
    rush_state in;
    const float *want;
    int64_t n;
    atomic_int *wrong, *failed; /* runs with other numbers, and those that ended in an error */
} job;

static void *repeat(void *arg)
{
    const job *j = arg;
    rush_grad_enabled_set(false);
    for (int i = 0; i < 50; ++i) {
        rush_scope() {
            rush_tensor *out[8];
            if (rush_program_run(j->net, j->in.n, j->in.tensor, 8, out) < 1) ++*j->failed;
            else if (memcmp(rush_data(out[0]), j->want, (size_t)j->n * sizeof *j->want)) ++*j->wrong;
        }
        rush_error_clear();
    }
    return NULL;
}

static void threads_run_one_program(void **state)
{
    rush_grad_enabled_set(false);
    rush_scope() {
        atomic_int wrong = 0, failed = 0;
        rush_tensor *out[8];
        pthread_t thread[4];
        job j = {.net = rush_program_load(file("cnn", ".pt2")), .in = rush_npz_load(file("cnn", "_in.npz")), .wrong = &wrong, .failed = &failed};
        assert_true(rush_program_run(j.net, j.in.n, j.in.tensor, 8, out) > 0);
        j.want = rush_data(out[0]), j.n = rush_numel(out[0]);
        for (int i = 0; i < 4; ++i) assert_int_equal(pthread_create(&thread[i], NULL, repeat, &j), 0);
        for (int i = 0; i < 4; ++i) pthread_join(thread[i], NULL);
        assert_int_equal(wrong, 0);
        if (failed) rush_fail(RUSH_RUNTIME_ERROR, "%d runs failed", failed); /* an error belongs to its thread: told here */
        assert_int_equal(failed, 0);
    }
    rush_grad_enabled_set(true);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_run_takes_no_memory_from_the_system), cmocka_unit_test(threads_run_one_program)};
    return SUITE(tests);
}
