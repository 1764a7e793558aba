/* philox.h - Philox4x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw (Parallel random numbers: as easy as 1, 2, 3;
 * 2011): four words of a counter and two of a key give four random words. cuRAND's and PyTorch's on CUDA is this one.
 */
#ifndef RUSH_CUDA_PHILOX_H
#define RUSH_CUDA_PHILOX_H

#include <stdint.h>
#ifndef FN
#define FN static inline
#endif

typedef struct philox_words { uint32_t w[4]; } philox_words;

FN philox_words philox(philox_words c, uint32_t key0, uint32_t key1)
{
    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = (uint64_t)0xD2511F53u * c.w[0], p1 = (uint64_t)0xCD9E8D57u * c.w[2];
        philox_words next;
        next.w[0] = (uint32_t)(p1 >> 32) ^ c.w[1] ^ key0;
        next.w[1] = (uint32_t)p1;
        next.w[2] = (uint32_t)(p0 >> 32) ^ c.w[3] ^ key1;
        next.w[3] = (uint32_t)p0;
        c = next;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return c;
}

#ifdef __cplusplus
#include "cuda/params.h"

/* The seed, and how many draws there were before. */
FN cuda_philox begun(const cuda_philox &p) { return {p.state ? p.state[0] : p.seed, (p.state ? p.state[1] + p.offset : p.offset) / 4, nullptr}; }
#endif

#endif
