/* look.cu - places among sorted edges, and rows of a table joined by bag. */
#include "cuda/device.h"

template <class T> FN void search(const cuda_search &p)
{
    ROLLED
    for (int64_t i = FIRST; i < p.count; i += ALL) {
        const T v = element<T>(p.value + i * p.item, p.dtype);
        const int64_t skip = p.by_row ? i / p.row * p.n : 0;
        int64_t low = 0, high = p.n;
        while (low < high) {
            const int64_t middle = (low + high) / 2, at = p.order ? p.order[skip + middle] : middle;
            if (at < 0 || at >= p.n) {
                report(p.fault, CUDA_FAULT_INDEX, at, p.n);
                break;
            }
            const T edge = element<T>(p.edge + (skip + at) * p.item, p.dtype);
            if (v != v || edge < v || (p.right && edge == v)) low = middle + 1; /* NaN goes behind everything */
            else high = middle;
        }
        p.to[i] = low;
    }
}
KERNEL(search_i64, cuda_search) { search<int64_t>(p); }
KERNEL(search_u64, cuda_search) { search<uint64_t>(p); }
KERNEL(search_f64, cuda_search) { search<double>(p); }

/* A thread to each number of each bag; that of the first one says what is known of the bag. */
template <class T> FN void bag(const cuda_bag &p)
{
    ROLLED
    for (int64_t i = FIRST; i < p.bags * p.width; i += ALL) {
        const int64_t b = i / p.width, k = i % p.width;
        const int64_t begin = p.start[b], last = b + 1 < p.starts ? p.start[b + 1] : p.n, end = last < p.n ? last : p.n;
        int64_t used = 0, best = 0;
        T sum = 0;
        ROLLED
        for (int64_t j = begin < 0 ? 0 : begin; j < end; j++) {
            const int64_t row = p.index[j];
            if (!k) p.which[j] = b;
            if (row < 0 || row >= p.rows) {
                report(p.fault, CUDA_FAULT_INDEX, row, p.rows);
                continue;
            }
            if (row == p.padding) continue;
            const T v = ((const T *)p.table)[row * p.width + k];
            if (p.mode == CUDA_BAG_MAX) {
                if (!used || v > sum) sum = v, best = row;
            } else {
                sum += p.scale ? ((const T *)p.scale)[j] * v : v;
            }
            used++;
        }
        if (p.mode == CUDA_BAG_MEAN && used > 1) sum /= (T)used;
        ((T *)p.to)[i] = sum;
        if (p.best) p.best[i] = best;
        if (!k) p.size[b] = used;
    }
}
KERNEL(bag_f32, cuda_bag) { bag<float>(p); }
KERNEL(bag_f64, cuda_bag) { bag<double>(p); }
