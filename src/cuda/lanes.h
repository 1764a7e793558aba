/* lanes.h - what the threads of a warp tell one another, and those of a block. A thread's number in its warp is its lane. */
#ifndef RUSH_CUDA_LANES_H
#define RUSH_CUDA_LANES_H

#include "cuda/device.h"

enum { WARP = 32, CUDA_WARPS = CUDA_THREADS / WARP };
#define LANE ((int)(threadIdx.x & (WARP - 1)))
#define MY_WARP ((int)(threadIdx.x / WARP))

/* A value of another lane: structures go in words of 4 bytes. */
template <class F> FN F from_lane(F f, int lane)
{
#ifdef __CUDACC__
    union { F f; unsigned w[sizeof(F) / 4]; } u;
    u.f = f;
    for (int k = 0; k < (int)(sizeof(F) / 4); k++) u.w[k] = __shfl_sync(~0u, u.w[k], lane);
    return u.f;
#else
    return __shfl_sync(~0u, f, lane);
#endif
}

/* f merged with those of the lanes before it, in groups of `width` lanes, a power of two. */
template <class F> FN F up_to_here(F f, int width)
{
    for (int s = 1; s < WARP; s *= 2) {
        if (s >= width) break;
        F sum = from_lane(f, LANE - s);
        if ((LANE & (width - 1)) < s) continue;
        sum.merge(f);
        f = sum;
    }
    return f;
}

/* All of the block's merged, in no order, for each thread. */
template <class F> FN F of_block(F f)
{
    __shared__ F warps[CUDA_WARPS];
    for (int s = WARP / 2; s; s /= 2) f.merge(from_lane(f, LANE ^ s));
    __syncthreads(); /* others may still read what was there */
    if (!LANE) warps[MY_WARP] = f;
    __syncthreads();
    f = warps[0];
    for (int w = 1; w < CUDA_WARPS; w++) f.merge(warps[w]);
    return f;
}

#endif
