/* sort.cu - rows in order: tiles by a bitonic network in shared memory, then runs merged in pairs, each element finding its rank in the other run.
 *
 * Elements are keys, unsigned numbers in the same order (NaN above all, both zeros equal), that go with their places. No two pairs are
 * equal, so that any network sorts stably.
 */
#include "cuda/device.h"

FN uint64_t key_of(double x)
{
    union { double f; uint64_t u; } v;
    v.f = x == 0 ? 0 : x;
    if (x != x) return ~(uint64_t)0;
    return v.u >> 63 ? ~v.u : v.u | (uint64_t)1 << 63;
}
FN uint64_t key_of(int64_t x) { return (uint64_t)x ^ (uint64_t)1 << 63; }
FN uint64_t key_of(uint64_t x) { return x; }

struct placed { uint64_t key; int64_t at; };
FN bool is_before(placed a, placed b) { return a.key < b.key || (a.key == b.key && a.at < b.at); }

template <class T> FN void sort_tiles(const cuda_sort &p)
{
    __shared__ placed tile[CUDA_TILE];
    const int64_t each = p.n > CUDA_TILE ? (p.n + CUDA_TILE - 1) / CUDA_TILE : 1, together = CUDA_TILE / p.span; /* tiles of a row, rows of a tile */
    const int64_t tiles = (p.rows + together - 1) / together * each;
    ROLLED
    for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
        for (int e = (int)threadIdx.x; e < CUDA_TILE; e += CUDA_THREADS) {
            const int64_t row = t / each * together + e / p.span, i = t % each * CUDA_TILE + e % p.span, far = row * p.n + i;
            if (row < p.rows && i < p.n) tile[e] = {key_of(load<T>(p.x + far * p.item, p.dtype)) ^ p.flip, i};
            else tile[e] = {~(uint64_t)0, INT64_MAX};
        }
        __syncthreads();
        ROLLED
        for (int k = 2; k <= p.span; k *= 2) {
            ROLLED
            for (int j = k / 2; j; j /= 2) {
                const int i = 2 * (int)threadIdx.x - ((int)threadIdx.x & (j - 1));
                const placed a = tile[i], b = tile[i + j];
                const bool upwards = k == p.span || !(i & k);
                if (is_before(b, a) == upwards) tile[i] = b, tile[i + j] = a;
                __syncthreads();
            }
        }
        for (int e = (int)threadIdx.x; e < CUDA_TILE; e += CUDA_THREADS) {
            const int64_t row = t / each * together + e / p.span, i = t % each * CUDA_TILE + e % p.span, far = row * p.n + i;
            if (row < p.rows && i < p.n) p.key_to[far] = tile[e].key, p.at_to[far] = tile[e].at; /* a thread's own places, which it fills again */
        }
    }
}
KERNEL(sort_tiles_i64, cuda_sort) { sort_tiles<int64_t>(p); }
KERNEL(sort_tiles_u64, cuda_sort) { sort_tiles<uint64_t>(p); }
KERNEL(sort_tiles_f64, cuda_sort) { sort_tiles<double>(p); }

KERNEL(sort_merge, cuda_sort)
{
    ROLLED
    for (int64_t i = FIRST; i < p.rows * p.n; i += ALL) {
        const int64_t first = i / p.n * p.n, at = i - first, run = at / p.run, other = (run ^ 1) * p.run;
        const placed mine = {p.key[i], p.at[i]};
        int64_t low = other < p.n ? other : p.n, high = other + p.run < p.n ? other + p.run : p.n;
        const int64_t begin = low;
        while (low < high) {
            const int64_t middle = (low + high) / 2;
            if (is_before({p.key[first + middle], p.at[first + middle]}, mine)) low = middle + 1;
            else high = middle;
        }
        const int64_t to = first + (run & ~(int64_t)1) * p.run + (at - run * p.run) + (low - begin);
        p.key_to[to] = mine.key, p.at_to[to] = mine.at;
    }
}
