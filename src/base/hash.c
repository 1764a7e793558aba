/* hash.c - SipHash-2-4 (Aumasson and Bernstein, SipHash: a fast short-input PRF, 2012). */
#include "base/hash.h"

#include <fcntl.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

static uint64_t key[2];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void draw_key(void)
{
    int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    bool drawn = fd >= 0 && read(fd, key, sizeof key) == sizeof key;
    if (fd >= 0) close(fd);
    if (drawn) return;
    struct timespec t; /* where there is no such device: better than a key that all know */
    clock_gettime(CLOCK_REALTIME, &t);
    key[0] = (uint64_t)t.tv_nsec * 0x9e3779b97f4a7c15u ^ (uint64_t)getpid() << 32;
    key[1] = (uint64_t)t.tv_sec * 0xbf58476d1ce4e5b9u ^ (uintptr_t)&t;
}

static uint64_t turn(uint64_t x, int by) { return x << by | x >> (64 - by); }

static void mix(uint64_t v[4], int rounds)
{
    for (int i = 0; i < rounds; i++) {
        v[0] += v[1], v[1] = turn(v[1], 13) ^ v[0], v[0] = turn(v[0], 32);
        v[2] += v[3], v[3] = turn(v[3], 16) ^ v[2];
        v[0] += v[3], v[3] = turn(v[3], 21) ^ v[0];
        v[2] += v[1], v[1] = turn(v[1], 17) ^ v[2], v[2] = turn(v[2], 32);
    }
}

uint64_t rush_hash_bytes(const char *s, size_t n)
{
    pthread_once(&once, draw_key);
    uint64_t v[4] = {key[0] ^ 0x736f6d6570736575u, key[1] ^ 0x646f72616e646f6du, key[0] ^ 0x6c7967656e657261u, key[1] ^ 0x7465646279746573u};
    for (size_t left = n;; s += 8, left -= 8) {
        uint64_t word = left < 8 ? (uint64_t)n << 56 : 0;
        memcpy(&word, s, left < 8 ? left : 8);
        v[3] ^= word;
        mix(v, 2);
        v[0] ^= word;
        if (left < 8) break;
    }
    v[2] ^= 0xff;
    mix(v, 4);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

uint64_t rush_hash_name(const char *s) { return rush_hash_bytes(s, strlen(s)); }
