/* emulate.h - the language of CUDA kernels for a C++ compiler of the CPU: threads are fibres, blocks run one after the other.
 *
 * A kernel's thread runs until it meets a barrier; then the next one of its block runs. Who is first is a setting, since a
 * barrier that is missing shows in some orders only. What this cannot show: races within the memory model, divergence, time.
 */
#ifndef RUSH_EMULATE_H
#define RUSH_EMULATE_H

#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __restrict__ __restrict
#define __shared__ static
#define __launch_bounds__(...)

namespace emulated __attribute__((visibility("default"))) { /* kernels that are compiled while the program runs find it there */
struct dim { unsigned x, y, z; };
extern dim grid, block, block_index, thread_index;
void meet_block(); /* until all threads of the block that have not ended are here */
void meet_warp();
extern uint64_t lanes[1024][2];
enum { MOST_SHARED = 227 << 10 };
extern unsigned char shared_memory[MOST_SHARED]; /* of the block that runs */
typedef void (*kernel)(const void *params);
struct registration {
    registration(const char *name, const char *file, kernel, size_t bytes);
    const char *name, *file;
    kernel run;
    size_t bytes;
    registration *next;
};

/* A thread's number in its block, whose threads are in three dimensions, in extensions' kernels. */
inline unsigned number() { return thread_index.x + block.x * (thread_index.y + block.y * thread_index.z); }

/* The lanes of a warp put a value down each, and take that of another one. */
template <class T> T exchange(T mine, unsigned from)
{
    static_assert(sizeof(T) <= 16, "values of up to 16 bytes go from lane to lane");
    unsigned me = number();
    T got;
    memcpy(lanes[me], &mine, sizeof mine);
    meet_warp();
    memcpy(&got, lanes[(me & ~31u) | (from & 31)], sizeof got);
    meet_warp();
    return got;
}
}

#define threadIdx emulated::thread_index
#define blockIdx emulated::block_index
#define blockDim emulated::block
#define gridDim emulated::grid

inline void __syncthreads() { emulated::meet_block(); }
inline void __syncwarp() { emulated::meet_warp(); }
template <class T> T __shfl_down_sync(unsigned, T v, unsigned by)
{
    unsigned lane = emulated::number() & 31;
    return emulated::exchange(v, lane + by < 32 ? lane + by : lane);
}
template <class T> T __shfl_xor_sync(unsigned, T v, unsigned mask) { return emulated::exchange(v, (emulated::number() & 31) ^ mask); }
template <class T> T __shfl_sync(unsigned, T v, unsigned from) { return emulated::exchange(v, from); }
inline unsigned __ballot_sync(unsigned, bool mine)
{
    unsigned all = 0, me = emulated::number();
    emulated::lanes[me][0] = mine;
    emulated::meet_warp();
    for (unsigned k = 0; k < 32; k++) all |= (unsigned)(emulated::lanes[(me & ~31u) | k][0] != 0) << k;
    emulated::meet_warp();
    return all;
}
template <class T> unsigned __match_any_sync(unsigned, T v)
{
    unsigned all = 0, me = emulated::number();
    emulated::lanes[me][0] = (uint64_t)v;
    emulated::meet_warp();
    for (unsigned k = 0; k < 32; k++) all |= (unsigned)(emulated::lanes[(me & ~31u) | k][0] == (uint64_t)v) << k;
    emulated::meet_warp();
    return all;
}
inline int __popc(unsigned v) { return __builtin_popcount(v); }
template <class T> T atomicOr(T *p, T v)
{
    T old = *p;
    *p = old | v;
    return old;
}
template <class T> T atomicAdd(T *p, T v)
{
    T old = *p;
    *p = old + v;
    return old;
}
template <class T> T atomicCAS(T *p, T expected, T v)
{
    T old = *p;
    if (old == expected) *p = v;
    return old;
}
template <class T> T atomicExch(T *p, T v)
{
    T old = *p;
    *p = v;
    return old;
}
inline float __uint_as_float(unsigned u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}
inline unsigned __float_as_uint(float f)
{
    unsigned u;
    memcpy(&u, &f, 4);
    return u;
}
inline uint32_t __umulhi(uint32_t a, uint32_t b) { return (uint32_t)((uint64_t)a * b >> 32); }

#endif
