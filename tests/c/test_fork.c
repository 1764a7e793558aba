/* test_fork.c - forks while other threads hold locks: the child has the locks, but not the threads that would release them.
 *
 * Five threads are busy with backward passes, registration, transforms and products of changing sizes, random numbers, files
 * and the log; each child does some of all that. FORKS in the environment: how many, instead of a few. */
#include "suite/suite.h"
#include "op/op.h"
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static atomic_bool over;
static char path[64];

static void quiet(int level, const char *message, void *arg) {}

static void differentiate(int64_t i)
{
    rush_tensor *x = rush_requires_grad_set(T("ones", rush_v_ints((int64_t[]){3, 3}, 2)), true);
    rush_tensor *y = T("matmul", V(x), V(x));
    rush_backward(T("sum", V(T("mul.Tensor", V(y), V(x)))));
}

static void register_again(int64_t i)
{
    rush_op_register(rush_op_find("add.Tensor"));
    rush_log_to(quiet, NULL);
    rush_log(3, "busy %d", (int)i);
}

static void transform(int64_t i)
{
    T("fft_fft", V(T("ones", rush_v_ints((int64_t[]){5 + i % 90}, 1))));
    rush_tensor *a = T("ones", rush_v_ints((int64_t[]){33 + i % 50, 40}, 2)), *b = T("ones", rush_v_ints((int64_t[]){40, 40 + i % 7}, 2));
    T("mm", V(a), V(b));
}

static void draw(int64_t i)
{
    rush_manual_seed((uint64_t)i);
    T("randn", rush_v_ints((int64_t[]){2000 + i % 5000}, 1));
}

static void read_file(int64_t i)
{
    rush_npy_save(path, T("ones", rush_v_ints((int64_t[]){100}, 1)));
    rush_npy_load(path);
}

static void (*const work[])(int64_t) = {differentiate, register_again, transform, draw, read_file};

static void *busy(void *arg)
{
    void (*const *does)(int64_t) = arg;
    for (int64_t i = 0; !atomic_load(&over); ++i)
        rush_scope() {
            (*does)(i);
            rush_error_clear();
        }
    return NULL;
}

static void child(void)
{
    alarm(120); /* it hangs: SIGALRM ends it */
    for (int64_t i = 0; i < 3; ++i)
        for (size_t k = 0; k < RUSH_COUNT(work); ++k)
            rush_scope() work[k](i);
    if (rush_error()) fprintf(stderr, "child: %s\n", rush_error());
    _exit(rush_error() ? 1 : 0);
}

static void forks_under_busy_threads(void **state)
{
    if (suite_failing()) return;
#ifdef __SANITIZE_ADDRESS__
    skip(); /* the sanitizer's own allocator has locks that a fork may find taken: its child then waits in malloc */
#endif
    const char *asked = getenv("FORKS");
    pthread_t thread[RUSH_COUNT(work)];
    snprintf(path, sizeof path, "/tmp/rushlight-fork-%d.npy", (int)getpid());
    for (size_t k = 0; k < RUSH_COUNT(work); ++k) assert_int_equal(pthread_create(&thread[k], NULL, busy, (void *)&work[k]), 0);
    int bad = 0, last = 0;
    for (int n = asked ? atoi(asked) : 40; n > 0; --n) {
        pid_t pid = fork();
        if (!pid) child();
        int status = -1;
        waitpid(pid, &status, 0);
        if (status) ++bad, last = status;
    }
    atomic_store(&over, true);
    for (size_t k = 0; k < RUSH_COUNT(work); ++k) pthread_join(thread[k], NULL);
    rush_log_to(NULL, NULL);
    unlink(path);
    if (bad) print_message("%d children failed, the last with status %d\n", bad, last);
    assert_int_equal(bad, 0);
}

/* What a thread held of a generator or a loader that is not the library's own. */
static void *draw_own(void *arg)
{
    while (!atomic_load(&over))
        rush_scope() T("randn.generator", rush_v_ints((int64_t[]){3000}, 1), ((rush_value){.kind = RUSH_V_GENERATOR, .gen = arg}));
    return NULL;
}

static void objects_of_the_parent(void **state)
{
    if (suite_failing()) return;
    rush_generator *g = rush_generator_new(1);
    rush_loader *loader = NULL;
    pthread_t thread;
    atomic_store(&over, false);
    pthread_create(&thread, NULL, draw_own, g);
    rush_scope() {
        rush_tensor *x = T("ones", rush_v_ints((int64_t[]){64, 3}, 2)), *batch[1];
        rush_dataset *data = rush_dataset_tensors(1, &x);
        loader = rush_loader_new(data, .batch = 2, .threads = 2);
        rush_dataset_drop(data);
        assert_int_equal(rush_loader_next(loader, batch), 1);
    }
    int bad = 0;
    for (int n = 0; n < 20; ++n) {
        pid_t pid = fork();
        if (!pid) {
            alarm(120);
            rush_tensor *batch[1];
            rush_scope() {
                T("randn.generator", rush_v_ints((int64_t[]){10}, 1), ((rush_value){.kind = RUSH_V_GENERATOR, .gen = g}));
                bool wrong = rush_error() || rush_loader_next(loader, batch) != -1 || !rush_error();
                rush_loader_free(loader);
                _exit(wrong);
            }
        }
        int status = -1;
        waitpid(pid, &status, 0);
        bad += status != 0;
    }
    atomic_store(&over, true);
    pthread_join(thread, NULL);
    rush_loader_free(loader);
    rush_generator_drop(g);
    assert_int_equal(bad, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(forks_under_busy_threads), cmocka_unit_test(objects_of_the_parent)};
    return SUITE(tests);
}
