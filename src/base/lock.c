/* lock.c - the locks that the process has for good, and what a fork does with them.
 *
 * A forked child has the locks as they were, but only one of the threads: one that another thread held would never
 * be released. So a fork takes them all, in the order of the list, and both sides release them. Locks of single
 * objects (loaders, generators) ask rush_forks(), which tells their owner's process from its children.
 */
#include "base/base.h"

pthread_mutex_t rush_locks[RUSH_LOCKS] = {[0 ... RUSH_LOCKS - 1] = PTHREAD_MUTEX_INITIALIZER};
static atomic_int forks;

int rush_forks(void)
{
    return atomic_load_explicit(&forks, memory_order_relaxed);
}

static void fork_begins(void)
{
    for (int i = 0; i < RUSH_LOCKS; ++i) rush_lock(i);
}

static void fork_ends(void)
{
    for (int i = RUSH_LOCKS - 1; i >= 0; --i) rush_unlock(i);
}

static void child_begins(void)
{
    atomic_fetch_add(&forks, 1);
    fork_ends();
}

__attribute__((constructor)) static void start(void)
{
    pthread_atfork(fork_begins, fork_ends, child_begins);
}
