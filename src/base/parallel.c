/* parallel.c - loops shared among threads, on OpenMP, which oneDNN uses too: one pool in the process.
 *
 * libgomp's pool does not survive fork(), and a child that used it would wait for threads which are not there.
 * So a child of a process whose pool has run works on one thread.
 */
#define _GNU_SOURCE
#include "base/base.h"

#include <ctype.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif

static atomic_int threads;   /* 0: not decided yet */
static atomic_bool pool_used, forked;

/* ---- how many processors are ours ---- */

int rush_thread_limit(void)
{
    static atomic_int known;
    int n = atomic_load(&known);
    if (n) return n;
    const char *asked = getenv("OMP_NUM_THREADS");
    n = asked ? atoi(asked) : 0;
    if (n <= 0) {
        n = (int)sysconf(_SC_NPROCESSORS_ONLN);
        cpu_set_t set;
        if (!sched_getaffinity(0, sizeof set, &set)) n = CPU_COUNT(&set);
        double q = rush_granted_processors();
        if (q > 0 && q < n) n = (int)(q + 0.999);
    }
    n = RUSH_MAX(n, 1);
    atomic_store(&known, n);
    return n;
}

/* ---- the number in use ---- */

static void child_begins(void)
{
#ifdef _OPENMP
    omp_set_num_threads(1); /* for libraries that use OpenMP by themselves: the pool's threads are not in the child */
#endif
    if (atomic_load(&pool_used)) atomic_store(&forked, true);
}

__attribute__((constructor)) static void start(void)
{
    pthread_atfork(NULL, NULL, child_begins);
#ifdef _OPENMP
    omp_set_num_threads(rush_thread_limit());
#endif
}

int rush_num_threads(void)
{
    if (atomic_load_explicit(&forked, memory_order_relaxed) || rush_now.alone) return 1;
    int n = atomic_load_explicit(&threads, memory_order_relaxed);
    return n ? n : rush_thread_limit();
}

void rush_num_threads_set(int n)
{
    if (n < 1) {
        rush_fail(RUSH_RUNTIME_ERROR, "the number of threads must be positive, not %d", n);
        return;
    }
    if (rush_now.generator) return; /* a worker's, which has one, whatever it says */
    atomic_store(&threads, n);
#ifdef _OPENMP
    if (!atomic_load(&forked)) omp_set_num_threads(n);
#endif
}

void rush_parallel_elsewhere(void)
{
    if (rush_num_threads() < 2) return;
    atomic_store_explicit(&pool_used, true, memory_order_relaxed);
    rush_busy();
}

void rush_parallel_alone(bool alone)
{
    rush_now.alone = alone;
#ifdef _OPENMP
    omp_set_num_threads(alone || atomic_load(&forked) ? 1 : rush_num_threads()); /* this thread's: oneDNN asks OpenMP */
#endif
}

/* ---- the loop ---- */

typedef struct loop {
    void (*fn)(void *arg, int64_t begin, int64_t end);
    void *arg;
    const rush_op *op;
    int64_t n, piece;
    rush_error_state first; /* the first error of another thread */
} loop;

static void run_piece(const loop *l, int k)
{
    int64_t begin = k * l->piece, end = RUSH_MIN(begin + l->piece, l->n);
    const rush_op *outer = rush_now.op;
    rush_now.in_parallel = 1 + k;
    rush_now.op = l->op;
    if (begin < end) l->fn(l->arg, begin, end);
    rush_now.op = outer;
    rush_now.in_parallel = 0;
}

#ifdef _OPENMP
static void run_on_threads(loop *l, int use)
{
    atomic_store_explicit(&pool_used, true, memory_order_relaxed);
#pragma omp parallel num_threads(use)
    {
        run_piece(l, omp_get_thread_num());
        if (rush_failed() && omp_get_thread_num()) { /* an error belongs to who called */
            rush_error_state s = rush_error_take();
#pragma omp critical(rush_parallel_error)
            {
                if (l->first.kind) free(s.message);
                else l->first = s;
            }
        }
    }
    if (!l->first.kind) return;
    if (rush_failed()) free(l->first.message);
    else rush_error_restore(l->first);
}
#endif

RUSH_HOT void rush_parallel_for(int64_t n, int64_t grain, void (*fn)(void *arg, int64_t begin, int64_t end), void *arg)
{
    if (!fn) rush_fail(RUSH_VALUE_ERROR, "rush_parallel_for: the function is NULL");
    if (n <= 0 || !fn) return;
#ifdef _OPENMP
    int use = 1;
    if (n > grain && !rush_now.in_parallel) {
        use = rush_num_threads();
        int64_t pieces = grain > 1 ? (n + grain - 1) / grain : n;
        if (use > pieces) use = (int)pieces;
    }
    if (use > 1 && !omp_in_parallel()) {
        loop l = {.fn = fn, .arg = arg, .op = rush_now.op, .n = n, .piece = (n + use - 1) / use};
        if (!rush_busy()) run_on_threads(&l, use);
        else
            for (int k = 0; k < use; k++) run_piece(&l, k); /* the same pieces, so that sums come out the same */
        return;
    }
#endif
    fn(arg, 0, n);
}

bool rush_in_parallel(void) { return rush_now.in_parallel != 0; }

int rush_thread_number(void) { return RUSH_MAX(rush_now.in_parallel - 1, 0); }
