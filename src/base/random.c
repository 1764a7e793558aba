/* random.c - PyTorch's generator of random bits for the CPU, mt19937, and its saved form.
 *
 * The words and the state are the reference implementation's (Matsumoto and Nishimura, 1998), so that a seed
 * gives the numbers that PyTorch gives, and states can be exchanged with it.
 */
#include "base/base.h"
#include <rushlight/generator.h>

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#define N 624
#define M 397

void rush_generator_seed(rush_generator *g, uint64_t seed)
{
    if (!g) return (void)rush_fail(RUSH_TYPE_ERROR, "a generator is NULL");
    g->seed = seed;
    uint32_t x = (uint32_t)seed;
    for (uint32_t j = 0; j < N; j++) {
        g->mt[j] = x;
        x = 1812433253u * (x ^ x >> 30) + j + 1;
    }
    g->left = 1;
    g->next = 0;
    g->has_normal_double = g->has_normal_float = false;
    g->normal_double = 0;
    g->normal_float = 0;
}

static rush_generator the_default;

rush_generator *rush_generator_new(uint64_t seed)
{
    rush_generator *g = rush_calloc(1, sizeof *g);
    if (!g) return NULL;
    atomic_init(&g->refs, 1);
    g->device = (rush_device){RUSH_CPU, -1};
    rush_generator_seed(g, seed);
    return g;
}

void rush_generator_keep(rush_generator *g)
{
    if (g) atomic_fetch_add(&g->refs, 1);
}

void rush_generator_drop(rush_generator *g)
{
    if (g && atomic_fetch_sub(&g->refs, 1) == 1 && g != &the_default) rush_free(g); /* that one is nobody's to drop */
}

void rush_generator_lock(rush_generator *g)
{
    int ours = rush_forks() + 1, seen = 0; /* what a thread of the parent held at a fork is free in the child */
    while (!atomic_compare_exchange_weak_explicit(&g->busy, &seen, ours, memory_order_acquire, memory_order_relaxed))
        if (seen == ours) sched_yield(), seen = 0;
}

static uint32_t twist(uint32_t a, uint32_t b)
{
    return ((a & 0x80000000u) | (b & 0x7fffffffu)) >> 1 ^ (b & 1 ? 0x9908b0dfu : 0);
}

static void refill(rush_generator *g)
{
    uint32_t *mt = g->mt;
    int i = 0;
    for (; i < N - M; i++) mt[i] = mt[i + M] ^ twist(mt[i], mt[i + 1]);
    for (; i < N - 1; i++) mt[i] = mt[i + M - N] ^ twist(mt[i], mt[i + 1]);
    mt[N - 1] = mt[M - 1] ^ twist(mt[N - 1], mt[0]);
    g->left = N;
    g->next = 0;
}

uint32_t rush_random32(rush_generator *g)
{
    if (--g->left == 0) refill(g);
    uint32_t y = g->mt[g->next++];
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680u;
    y ^= y << 15 & 0xefc60000u;
    return y ^ y >> 18;
}

uint64_t rush_random64(rush_generator *g)
{
    uint64_t high = rush_random32(g);
    return high << 32 | rush_random32(g);
}

uint64_t rush_generator_seeded(const rush_generator *g)
{
    if (!g) rush_fail(RUSH_TYPE_ERROR, "a generator is NULL");
    return g ? g->seed : 0;
}

rush_device rush_generator_device(const rush_generator *g)
{
    if (!g) rush_fail(RUSH_TYPE_ERROR, "a generator is NULL");
    return g ? g->device : (rush_device){RUSH_CPU, -1};
}

static uint64_t next(rush_generator *g, bool wide)
{
    if (!g || g->device.type != RUSH_CPU) return rush_fail(RUSH_TYPE_ERROR, g ? "bits are drawn from generators of the CPU" : "a generator is NULL"), 0;
    rush_generator_lock(g);
    uint64_t bits = wide ? rush_random64(g) : rush_random32(g);
    rush_generator_unlock(g);
    return bits;
}

uint32_t rush_generator_next32(rush_generator *g) { return (uint32_t)next(g, false); }
uint64_t rush_generator_next64(rush_generator *g) { return next(g, true); }

/* ---- the saved form: little-endian, words of the state widened to 64 bits ---- */

static void put(uint8_t *p, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++) p[i] = (uint8_t)(v >> 8 * i);
}

static uint64_t get(const uint8_t *p, int bytes)
{
    uint64_t v = 0;
    for (int i = 0; i < bytes; i++) v |= (uint64_t)p[i] << 8 * i;
    return v;
}

enum { AT_SEED = 0, AT_LEFT = 8, AT_SEEDED = 12, AT_NEXT = 16, AT_WORDS = 24, AT_NORMAL = AT_WORDS + 8 * N,
       AT_NORMAL_Y = AT_NORMAL + 8, AT_HAS_NORMAL = AT_NORMAL + 24, AT_FLOAT = AT_NORMAL + 32,
       AT_HAS_FLOAT = AT_FLOAT + 4 };

void rush_generator_state(const rush_generator *g, void *bytes)
{
    if (!g || !bytes) return (void)rush_fail(RUSH_TYPE_ERROR, "a generator's state: the generator or the place for it is NULL");
    uint8_t *p = bytes;
    memset(p, 0, RUSH_GENERATOR_STATE);
    put(p + AT_SEED, g->seed, 8);
    put(p + AT_LEFT, (uint32_t)g->left, 4);
    put(p + AT_SEEDED, 1, 4);
    put(p + AT_NEXT, (uint32_t)g->next, 8);
    for (int i = 0; i < N; i++) put(p + AT_WORDS + 8 * i, g->mt[i], 8);
    union { double d; uint64_t u; } d = {.d = g->has_normal_double ? g->normal_double : 0};
    union { float f; uint32_t u; } f = {.f = g->has_normal_float ? g->normal_float : 0};
    put(p + AT_NORMAL_Y, d.u, 8);
    put(p + AT_HAS_NORMAL, g->has_normal_double, 4);
    put(p + AT_FLOAT, f.u, 4);
    p[AT_HAS_FLOAT] = g->has_normal_float;
}

int rush_generator_state_set(rush_generator *g, const void *bytes, size_t n)
{
    const uint8_t *p = bytes;
    RUSH_CHECK(g && p, RUSH_TYPE_ERROR, "a generator's state: the generator or the bytes are NULL");
    /* the older form ends before the float */
    RUSH_CHECK(n == RUSH_GENERATOR_STATE || n == AT_FLOAT, RUSH_RUNTIME_ERROR,
               "a generator's state has %d (or, in its older form, %d) bytes, not %zu", RUSH_GENERATOR_STATE,
               AT_FLOAT, n);
    int64_t left = (int32_t)get(p + AT_LEFT, 4), next = (int64_t)get(p + AT_NEXT, 8);
    RUSH_CHECK(get(p + AT_SEEDED, 4) == 1 && left > 0 && left <= N && next >= 0 && next <= N, RUSH_RUNTIME_ERROR,
               "these bytes are no state of a mt19937 generator");
    g->seed = get(p + AT_SEED, 8);
    g->left = (int)left;
    g->next = (int)next;
    for (int i = 0; i < N; i++) g->mt[i] = (uint32_t)get(p + AT_WORDS + 8 * i, 8);
    union { uint64_t u; double d; } d = {.u = get(p + AT_NORMAL_Y, 8)};
    g->has_normal_double = get(p + AT_HAS_NORMAL, 4) & 1;
    g->normal_double = d.d;
    g->has_normal_float = n == RUSH_GENERATOR_STATE && p[AT_HAS_FLOAT];
    union { uint32_t u; float f; } f = {.u = g->has_normal_float ? (uint32_t)get(p + AT_FLOAT, 4) : 0};
    g->normal_float = f.f;
    return 0;
}

/* ---- the process's own generator, which starts with a seed nobody chose ---- */

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void start(void)
{
    uint64_t seed = 0;
    int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    bool read_it = fd >= 0 && read(fd, &seed, sizeof seed) == sizeof seed;
    if (fd >= 0) close(fd);
    if (!read_it) {
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        seed = ((uint64_t)t.tv_sec * 1000000007u ^ (uint64_t)t.tv_nsec) * 0x9e3779b97f4a7c15u ^ (uint64_t)getpid();
    }
    atomic_init(&the_default.refs, 1);
    the_default.device = (rush_device){RUSH_CPU, -1};
    rush_generator_seed(&the_default, seed & 0x1fffffffffffff); /* exact as a double, as in PyTorch */
}

rush_generator *rush_default_generator(void)
{
    if (RUSH_UNLIKELY(rush_now.generator != NULL)) return rush_now.generator;
    pthread_once(&once, start);
    return &the_default;
}

rush_generator *rush_thread_generator_set(rush_generator *g)
{
    rush_generator *before = rush_now.generator;
    rush_now.generator = g;
    return before;
}

void rush_manual_seed(uint64_t seed)
{
    rush_generator_seed(rush_default_generator(), seed);
}
