/* tensor.h - what a warp does together with tensor cores, and copies into shared memory that are waited for later: PTX of sm_80, and the same for the
 * emulator, lane by lane. Numbers are of half types, two in a register.
 */
#ifndef RUSH_CUDA_TENSOR_H
#define RUSH_CUDA_TENSOR_H

#include "cuda/attention.h"

#ifdef __CUDACC__

typedef uint32_t shared_at; /* a place in shared memory: half the registers that a pointer takes */
FN shared_at at_shared(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }

/* Four matrices of 8 by 8: lane 8 i + r has the address of row r of matrix i; lane 4 r + c gets numbers 2 c and 2 c + 1 of its row r. */
FN void load_matrices(uint32_t *to, shared_at row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(row) : "memory");
}
/* The same of the matrices turned: lane 4 r + c gets numbers r of rows 2 c and 2 c + 1. */
FN void load_matrices_turned(uint32_t *to, shared_at row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(row) : "memory");
}

/* c += a b, of 16 by 16 and 16 by 8. Of lane 4 r + c, a: rows r, r + 8, r, r + 8 at columns 2 c, 2 c, 2 c + 8, 2 c + 8; b: column r at rows 2 c, 2 c + 8;
 * c: rows r, r, r + 8, r + 8 at columns 2 c, 2 c + 1, 2 c, 2 c + 1. */
template <class T> FN void multiply_add(float *c, const uint32_t *a, uint32_t b0, uint32_t b1);
template <> FN void multiply_add<f16>(float *c, const uint32_t *a, uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <> FN void multiply_add<bf16>(float *c, const uint32_t *a, uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <class T> FN uint32_t two(float low, float high);
template <> FN uint32_t two<f16>(float low, float high)
{
    uint32_t r;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
}
template <> FN uint32_t two<bf16>(float low, float high)
{
    uint32_t r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
}

/* BYTES (4 or 16) into shared memory, zeros if there are none; there after copies_wait<N> when all groups but the last N are. */
template <int BYTES> FN void copy_later(shared_at to, const void *from, bool there)
{
    if (BYTES == 16) asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0) : "memory");
    else asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(there ? 4 : 0) : "memory");
}
FN void copies_end_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> FN void copies_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

FN float exp2_near(float v)
{
    float r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
    return r;
}

#else
#include <vector>

namespace emulated {
struct copy { void *to; const void *from; unsigned bytes, group; bool there; };
inline std::vector<copy> copies[1024];
inline unsigned groups[1024];
inline unsigned lane() { return thread_index.x & 31; }
inline uint64_t *lane_memory(unsigned i) { return lanes[(thread_index.x & ~31u) | i]; }
inline void put_down(const void *p, size_t bytes)
{
    memcpy(lane_memory(lane()), p, bytes);
    meet_warp();
}
}

typedef uintptr_t shared_at;
FN shared_at at_shared(const void *p) { return (uintptr_t)p; }

FN void load_matrices(uint32_t *to, shared_at row)
{
    emulated::put_down(&row, sizeof row);
    for (unsigned i = 0, l = emulated::lane(); i < 4; i++) memcpy(&to[i], (const uint32_t *)*emulated::lane_memory(8 * i + l / 4) + l % 4, 4);
    emulated::meet_warp();
}
FN void load_matrices_turned(uint32_t *to, shared_at row)
{
    emulated::put_down(&row, sizeof row);
    for (unsigned i = 0, l = emulated::lane(); i < 4; i++) {
        const uint16_t *first = (const uint16_t *)*emulated::lane_memory(8 * i + l % 4 * 2), *second = (const uint16_t *)*emulated::lane_memory(8 * i + l % 4 * 2 + 1);
        to[i] = first[l / 4] | (uint32_t)second[l / 4] << 16;
    }
    emulated::meet_warp();
}
template <class T> FN float half_of(uint32_t two, int which) { return as_float(T{(uint16_t)(two >> 16 * which)}); }
template <class T> FN void multiply_add(float *c, const uint32_t *a, uint32_t b0, uint32_t b1)
{
    const unsigned l = emulated::lane(), row = l / 4, column = l % 4 * 2;
    float rows[2][16], columns[2][16];
    emulated::put_down(a, 16);
    for (unsigned k = 0; k < 4; k++) {
        uint32_t its[4];
        memcpy(its, emulated::lane_memory(4 * row + k), 16);
        for (int i = 0; i < 4; i++)
            for (int h = 0; h < 2; h++) rows[i & 1][2 * k + h + 8 * (i >> 1)] = half_of<T>(its[i], h);
    }
    emulated::meet_warp();
    const uint32_t b[2] = {b0, b1};
    emulated::put_down(b, 8);
    for (unsigned n = 0; n < 2; n++)
        for (unsigned k = 0; k < 4; k++) {
            uint32_t its[2];
            memcpy(its, emulated::lane_memory(4 * (column + n) + k), 8);
            for (int i = 0; i < 2; i++)
                for (int h = 0; h < 2; h++) columns[n][2 * k + h + 8 * i] = half_of<T>(its[i], h);
        }
    emulated::meet_warp();
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 16; k++) c[i] += rows[i >> 1][k] * columns[i & 1][k];
}
template <class T> FN uint32_t two(float low, float high) { return from_float<T>(low).bits | (uint32_t)from_float<T>(high).bits << 16; }

/* Nothing is there before it is waited for. */
template <int BYTES> FN void copy_later(shared_at to, const void *from, bool there) { emulated::copies[threadIdx.x].push_back({(void *)to, from, BYTES, emulated::groups[threadIdx.x], there}); }
FN void copies_end_group() { emulated::groups[threadIdx.x]++; }
template <int N> FN void copies_wait()
{
    std::vector<emulated::copy> left;
    for (emulated::copy &c : emulated::copies[threadIdx.x]) {
        if (c.group + N >= emulated::groups[threadIdx.x]) left.push_back(c);
        else if (c.there) memcpy(c.to, c.from, c.bytes);
        else memset(c.to, 0, c.bytes);
    }
    emulated::copies[threadIdx.x] = left;
}
FN float exp2_near(float v) { return exp2f(v); }
#endif

#endif
