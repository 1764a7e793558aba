/* busy.c - how long OpenMP's threads wait for each other, by whether the machine has processors to spare.
 *
 * At the end of a parallel loop libgomp's threads spin for some milliseconds before they sleep. That is the fastest way
 * where each has a processor of its own. Where other programs want the processors, the thread that spins keeps the one
 * it waits for from running, and a program of small loops takes twenty times as long. libgomp waits briefly instead once
 * its threads outnumber the processors (see GOMP_SPINCOUNT in its manual). So while the calling thread is kept waiting
 * for a processor, as the kernel's accounts say, a second team makes up the number; it sleeps, and goes when the
 * machine is free again.
 */
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>

enum { LOOK_MS = 20, CALM_LOOKS = 25 }; /* how often the accounts are read; looks without waiting before the team goes */

static atomic_bool there; /* the second team */
static atomic_int calm;   /* looks in a row without waiting */
static sem_t end;

/* What the thread spent running and waiting for a processor at its last look. */
static __thread struct {
    int64_t at, waited;
} last;

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Nanoseconds that this thread has waited for a processor while it could run, or -1. */
static int64_t waited(void)
{
    char text[96];
    unsigned long long ran, delay;
    int f = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    if (f < 0) return -1;
    ssize_t n = read(f, text, sizeof text - 1);
    close(f);
    if (n <= 0) return -1;
    text[n] = 0;
    return sscanf(text, "%llu %llu", &ran, &delay) == 2 ? (int64_t)delay : -1;
}

__attribute__((constructor)) static void start(void) { sem_init(&end, 0, 0); }

static void *outnumber(void *arg)
{
#pragma omp parallel num_threads(2)
    {
        rush_now.in_parallel = true; /* a statement, so that the team is not optimised away */
    }
    while (sem_wait(&end) && errno == EINTR) {}
    return NULL;
}

static void decide(bool busy)
{
    bool expected = !busy; /* there, as it should not be */
    pthread_t thread;
    if (busy) {
        atomic_store(&calm, 0);
        if (!atomic_compare_exchange_strong(&there, &expected, true)) return;
        if (pthread_create(&thread, NULL, outnumber, NULL)) atomic_store(&there, false);
        else pthread_detach(thread);
    } else if (atomic_fetch_add(&calm, 1) >= CALM_LOOKS && atomic_compare_exchange_strong(&there, &expected, false)) {
        sem_post(&end);
    }
}

void rush_wait_briefly_when_busy(void)
{
    int64_t now = now_ms(), since = now - last.at;
    if (since < LOOK_MS) return;
    int64_t delay = waited();
    bool first = !last.at;
    if (delay >= 0 && !first) decide((delay - last.waited) / 1000000 > since / 8);
    last.at = now;
    last.waited = delay;
}
#else
void rush_wait_briefly_when_busy(void) {}
#endif
