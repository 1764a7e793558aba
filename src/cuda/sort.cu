/* sort.cu - rows in order, and what stands at some place of that order.
 *
 * An element's key is an unsigned number in the same order (NaN above all, both zeros equal), all bits of it flipped if the order goes
 * down. Short rows are sorted in tiles, several to a block, by a bitonic network; rows of a few thousand by a block each, digit after
 * digit; longer ones so, too, but in pieces with two launches a digit: counts of the pieces' digits, then each piece puts its elements
 * behind those of the pieces before it. All are stable. Who wants few of many (topk, kthvalue, median) narrows down their key by digits.
 */
#include "cuda/lanes.h"

enum { DIGIT = 8, DIGITS = 1 << DIGIT };
static_assert((int)DIGITS == (int)CUDA_THREADS, "a thread to each digit");

template <class U> FN U key_of(const cuda_sort &p, U raw)
{
    const U sign = (U)p.sign, infinity = (U)p.infinity, size = (U)(raw & (U)~sign);
    U key = (U)(raw ^ sign);
    if (infinity) key = size > infinity ? (U)~(U)0 : !size ? sign : raw & sign ? (U)~raw : (U)(raw | sign);
    return (U)(key ^ (U)p.flip);
}
template <class U> FN int digit_of(U key, int pass) { return (int)(key >> pass * DIGIT & (DIGITS - 1)); }

/* ---- tiles: several short rows to a block ---- */

struct placed { uint64_t key; int64_t at; };
FN bool is_before(placed a, placed b) { return a.key < b.key || (a.key == b.key && a.at < b.at); }
FN bool is_before(uint64_t a, uint64_t b) { return a < b; }
/* No two are equal, so that any network sorts stably. */
template <class U> struct pair_of {
    typedef uint64_t type;
    static FN type of(U key, int i) { return (uint64_t)key << 32 | (unsigned)i; }
    static FN int place(type t) { return (int)(t & 0xffffffff); }
};
template <> struct pair_of<uint64_t> {
    typedef placed type;
    static FN type of(uint64_t key, int i) { return {key, i}; }
    static FN int place(type t) { return (int)t.at; }
};

template <class U> FN void sort_tiles(const cuda_sort &p)
{
    typedef pair_of<U> pair;
    __shared__ typename pair::type tile[CUDA_TILE];
    const int together = CUDA_TILE / p.span; /* rows of a tile */
    ROLLED
    for (int64_t first = (int64_t)blockIdx.x * together; first < p.rows; first += (int64_t)gridDim.x * together) {
        for (int e = (int)threadIdx.x; e < CUDA_TILE; e += CUDA_THREADS) {
            const int i = e & (p.span - 1);
            const int64_t row = first + e / p.span;
            const bool there = row < p.rows && i < p.n;
            tile[e] = pair::of(there ? key_of<U>(p, ((const U *)p.x)[row * p.n + i]) : (U)~(U)0, there ? i : CUDA_TILE + i);
        }
        __syncthreads();
        ROLLED
        for (int k = 2; k <= p.span; k *= 2) {
            ROLLED
            for (int j = k / 2; j; j /= 2) {
                const int i = 2 * (int)threadIdx.x - ((int)threadIdx.x & (j - 1));
                const typename pair::type a = tile[i], b = tile[i + j];
                const bool upwards = k == p.span || !(i & k);
                if (is_before(b, a) == upwards) tile[i] = b, tile[i + j] = a;
                __syncthreads();
            }
        }
        for (int e = (int)threadIdx.x; e < CUDA_TILE; e += CUDA_THREADS) {
            const int64_t row = first + e / p.span, to = row * p.n + (e & (p.span - 1));
            if (row >= p.rows || (e & (p.span - 1)) >= p.n) continue;
            const int64_t from = row * p.n + pair::place(tile[e]);
            ((U *)p.value)[to] = ((const U *)p.x)[from];
            p.at[to] = p.from ? p.from[from] : from - row * p.n;
        } /* a thread's own places, which it fills again */
    }
}

/* ---- a tile's elements by a digit: element r of a lane stands a warp's width behind the one before it ---- */

/* The lanes with the same digit. */
FN unsigned same_digit(int digit)
{
#ifdef __CUDACC__
    unsigned same = ~0u;
    for (int b = 0; b <= DIGIT; b++) { /* one more: those that are not there have the digit behind the last one */
        const unsigned set = __ballot_sync(~0u, digit >> b & 1);
        same &= digit >> b & 1 ? set : ~set;
    }
    return same;
#else
    return __match_any_sync(~0u, digit);
#endif
}

/* The sum of v over the threads before this one, and over all of the block. */
FN unsigned before_me(unsigned v, unsigned *all)
{
    __shared__ unsigned warps[CUDA_WARPS];
    struct sum { unsigned n; FN void merge(sum o) { n += o.n; } } upto = up_to_here(sum{v}, WARP);
    __syncthreads(); /* others may still read what was there */
    if (LANE == WARP - 1) warps[MY_WARP] = upto.n;
    __syncthreads();
    unsigned before = upto.n - v;
    *all = 0;
    for (int w = 0; w < CUDA_WARPS; w++) {
        if (w < MY_WARP) before += warps[w];
        *all += warps[w];
    }
    return before;
}

/* Where each element goes among the tile's, and how many of this thread's digit there are, of which the first goes to `start`. */
FN unsigned places_in_tile(const int *digit, int rows, unsigned *to, unsigned *start)
{
    __shared__ uint16_t counts[CUDA_WARPS][DIGITS];
    uint16_t *mine = counts[MY_WARP];
    for (int w = 0; w < CUDA_WARPS; w++) counts[w][threadIdx.x] = 0;
    __syncthreads();
    for (int r = 0; r < SORT_ROWS; r++) {
        if (r >= rows) break;
        const int d = digit[r];
        const unsigned same = same_digit(d);
        to[r] = __popc(same & ((1u << LANE) - 1)) + (d < DIGITS ? mine[d] : 0);
        __syncwarp();
        if (d < DIGITS && !(same >> LANE >> 1)) mine[d] = (uint16_t)(to[r] + 1); /* the last of them */
        __syncwarp();
    }
    __syncthreads();
    unsigned n = 0, all;
    for (int w = 0; w < CUDA_WARPS; w++) {
        const unsigned here = counts[w][threadIdx.x];
        counts[w][threadIdx.x] = (uint16_t)n;
        n += here;
    }
    *start = before_me(n, &all);
    for (int w = 0; w < CUDA_WARPS; w++) counts[w][threadIdx.x] += (uint16_t)*start;
    __syncthreads();
    for (int r = 0; r < SORT_ROWS; r++)
        if (r < rows && digit[r] < DIGITS) to[r] += mine[digit[r]];
    return n;
}

template <class U> struct wide_enough { typedef uint32_t type; };
template <> struct wide_enough<uint64_t> { typedef uint64_t type; };

/* ---- rows of a tile at most: a block each, the elements in registers ---- */

template <class U> FN void sort_rows(const cuda_sort &p)
{
    typedef typename wide_enough<U>::type W;
    __shared__ W memory[SORT_TILE];
    const int rows = (int)((p.n + CUDA_THREADS - 1) / CUDA_THREADS), first = MY_WARP * WARP * rows + LANE;
    ROLLED
    for (int64_t row = blockIdx.x; row < p.rows; row += gridDim.x) {
        U v[SORT_ROWS];
        unsigned at[SORT_ROWS];
        for (int r = 0; r < SORT_ROWS; r++) {
            at[r] = (unsigned)(first + r * WARP), v[r] = 0;
            if (r < rows && at[r] < p.n) v[r] = ((const U *)p.x)[row * p.n + at[r]];
        }
        ROLLED
        for (int pass = 0; pass < (int)sizeof(U); pass++) {
            int digit[SORT_ROWS];
            unsigned to[SORT_ROWS], start;
            for (int r = 0; r < SORT_ROWS; r++) digit[r] = at[r] < p.n ? digit_of<U>(key_of<U>(p, v[r]), pass) : DIGITS - 1; /* what is not there stays behind */
            places_in_tile(digit, rows, to, &start);
            for (int r = 0; r < SORT_ROWS; r++)
                if (r < rows) memory[to[r]] = v[r];
            __syncthreads();
            for (int r = 0; r < SORT_ROWS; r++)
                if (r < rows) v[r] = (U)memory[first + r * WARP];
            __syncthreads();
            for (int r = 0; r < SORT_ROWS; r++)
                if (r < rows) memory[to[r]] = at[r];
            __syncthreads();
            for (int r = 0; r < SORT_ROWS; r++)
                if (r < rows) at[r] = (unsigned)memory[first + r * WARP];
            __syncthreads();
        }
        for (int r = 0; r < SORT_ROWS; r++) {
            const int64_t to = row * p.n + first + r * WARP;
            if (r >= rows || at[r] >= p.n) continue;
            ((U *)p.value)[to] = v[r];
            p.at[to] = p.from ? p.from[row * p.n + at[r]] : at[r];
        }
    }
}

/* ---- longer rows, in pieces ---- */

/* Which digits of keys have several values was found in the first pass, if it was looked for. */
FN bool is_moved(const cuda_sort &p, int pass) { return !p.differ || pass + 1 == p.passes || (*p.differ >> pass * DIGIT & (DIGITS - 1)); }
FN int passes_before(const cuda_sort &p)
{
    int n = 0;
    for (int k = 0; k < p.pass; k++) n += is_moved(p, k);
    return n;
}

template <class U> FN void sort_count(const cuda_sort &p)
{
    __shared__ unsigned counts[DIGITS];
    if (p.pass && !is_moved(p, p.pass)) return;
    const int done = p.pass ? passes_before(p) : 0;
    const U *from = done ? (const U *)p.swap[~done & 1] : (const U *)p.x;
    ROLLED
    for (int64_t unit = blockIdx.x; unit < p.rows * p.pieces; unit += gridDim.x) {
        const int64_t row = unit / p.pieces, piece = unit - row * p.pieces, begin = piece * p.piece, end = begin + p.piece < p.n ? begin + p.piece : p.n;
        const U *x = from + row * p.n;
        const U one = p.differ ? key_of<U>(p, x[0]) : 0;
        uint64_t differ = 0;
        counts[threadIdx.x] = 0;
        __syncthreads();
        ROLLED
        for (int64_t base = begin; base < end; base += SORT_TILE) {
            U v[SORT_ROWS];
            const int left = (end - base < SORT_TILE ? (int)(end - base) : SORT_TILE) - (int)threadIdx.x;
            for (int r = 0; r < SORT_ROWS; r++) v[r] = r * CUDA_THREADS < left ? x[base + threadIdx.x + r * CUDA_THREADS] : (U)0;
            for (int r = 0; r < SORT_ROWS; r++) {
                if (r * CUDA_THREADS >= left) continue;
                const U key = key_of<U>(p, v[r]);
                differ |= key ^ one;
                atomicAdd(&counts[digit_of<U>(key, p.pass)], 1u);
            }
        }
        __syncthreads();
        const unsigned n = counts[threadIdx.x];
        p.counts[unit * DIGITS + threadIdx.x] = n;
        if (n) atomicAdd(&p.groups[((p.pass * p.rows + row) * p.ngroups + piece / SORT_GROUP) * DIGITS + threadIdx.x], n);
        if (p.differ && !p.pass) {
            struct bits { uint64_t u; FN void merge(bits o) { u |= o.u; } } all = of_block(bits{differ});
            if (!threadIdx.x) atomicOr((unsigned long long *)p.differ, (unsigned long long)all.u);
        }
        __syncthreads();
    }
}

template <class U> FN void sort_scatter(const cuda_sort &p)
{
    typedef typename wide_enough<U>::type W;
    __shared__ W memory[SORT_TILE];
    __shared__ unsigned shift[DIGITS]; /* what lies between a place in the tile and that in the row */
    if (!is_moved(p, p.pass)) return;
    const int done = passes_before(p);
    const bool last = p.pass + 1 == p.passes;
    ROLLED
    for (int64_t unit = blockIdx.x, row; (row = unit / p.pieces) < p.rows; unit += gridDim.x) { /* the product of both would take two registers all along */
        const int64_t piece = unit - row * p.pieces, begin = piece * p.piece, end = begin + p.piece < p.n ? begin + p.piece : p.n, skip = row * p.n;
        const U *x = (done ? (const U *)p.swap[~done & 1] : (const U *)p.x) + skip;
        const uint32_t *x_at = done ? p.place[~done & 1] + skip : NULL;
        U *y = (last ? (U *)p.value : (U *)p.swap[done & 1]) + skip;
        const unsigned *group = p.groups + (p.pass * p.rows + row) * p.ngroups * DIGITS + threadIdx.x, *count = p.counts + row * p.pieces * DIGITS + threadIdx.x;
        unsigned next = 0, all = 0, digits; /* where the next element of this thread's digit goes */
        for (int g = 0; g < p.ngroups; g++) {
            const unsigned n = group[(int64_t)g * DIGITS];
            all += n;
            if (g < piece / SORT_GROUP) next += n;
        }
        for (int64_t q = piece / SORT_GROUP * SORT_GROUP; q < piece; q++) next += count[q * DIGITS];
        next += before_me(all, &digits);
        ROLLED
        for (int64_t base = begin; base < end; base += SORT_TILE) {
            const int have = end - base < SORT_TILE ? (int)(end - base) : SORT_TILE, first = MY_WARP * (WARP * (int)SORT_ROWS) + LANE, left = have - first;
            U v[SORT_ROWS];
            unsigned to[SORT_ROWS], start;
            int digit[SORT_ROWS];
            for (int r = 0; r < SORT_ROWS; r++) v[r] = r * WARP < left ? x[base + first + r * WARP] : (U)0;
            for (int r = 0; r < SORT_ROWS; r++) digit[r] = r * WARP < left ? digit_of<U>(key_of<U>(p, v[r]), p.pass) : DIGITS;
            const unsigned n = places_in_tile(digit, SORT_ROWS, to, &start);
            shift[threadIdx.x] = next - start;
            next += n;
            for (int r = 0; r < SORT_ROWS; r++)
                if (r * WARP < left) memory[to[r]] = v[r];
            __syncthreads();
            unsigned goes[SORT_ROWS];
            for (int r = 0; r < SORT_ROWS; r++) {
                const int q = (int)threadIdx.x + r * CUDA_THREADS;
                if (q >= have) continue;
                const U u = (U)memory[q];
                goes[r] = shift[digit_of<U>(key_of<U>(p, u), p.pass)] + q;
                y[goes[r]] = u;
            }
            __syncthreads();
            for (int r = 0; r < SORT_ROWS; r++)
                if (r * WARP < left) memory[to[r]] = x_at ? x_at[base + first + r * WARP] : (unsigned)base + first + r * WARP;
            __syncthreads();
            for (int r = 0; r < SORT_ROWS; r++) {
                const int q = (int)threadIdx.x + r * CUDA_THREADS;
                if (q >= have) continue;
                const unsigned place = (unsigned)memory[q];
                if (last) p.at[skip + goes[r]] = p.from ? p.from[skip + place] : place;
                else p.place[done & 1][skip + goes[r]] = place;
            }
            __syncthreads();
        }
    }
}

/* ---- the first k of the order, in the order that they have in the row; or the k-th alone ---- */

template <class U> FN void sort_select(const cuda_sort &p)
{
    __shared__ unsigned counts[DIGITS], warps[CUDA_WARPS];
    __shared__ int chosen;
    __shared__ unsigned chosen_before;
    ROLLED
    for (int64_t unit = blockIdx.x, row; (row = unit / p.pieces) < p.rows; unit += gridDim.x) { /* the product of both would take two registers all along */
        const int64_t piece = unit - row * p.pieces, begin = p.n * piece / p.pieces, end = p.n * (piece + 1) / p.pieces;
        const U *x = (const U *)p.x + row * p.n;
        unsigned rank = (unsigned)p.k, all; /* counted from 1; later among those that begin as the one that is looked for */
        if (p.middle) {
            unsigned valid = 0;
            for (int64_t i = begin + threadIdx.x; i < end; i += CUDA_THREADS) valid += !p.infinity || key_of<U>(p, x[i]) != (U)~(U)0;
            before_me(valid, &valid);
            rank = p.middle == SORT_MEDIAN && valid < end - begin ? valid + 1 : (valid ? valid - 1 : 0) / 2 + 1;
        }
        U key = 0, known = 0;
        ROLLED
        for (int pass = (int)sizeof(U) - 1; pass >= 0; pass--) {
            counts[threadIdx.x] = 0;
            __syncthreads();
            ROLLED
            for (int64_t base = begin + threadIdx.x; base < end; base += 4 * CUDA_THREADS) {
                U v[4];
                for (int r = 0; r < 4; r++) v[r] = base + r * CUDA_THREADS < end ? x[base + r * CUDA_THREADS] : (U)0;
                for (int r = 0; r < 4; r++) {
                    const U here = key_of<U>(p, v[r]);
                    if (base + r * CUDA_THREADS < end && (here & known) == key) atomicAdd(&counts[digit_of<U>(here, pass)], 1u);
                }
            }
            __syncthreads();
            const unsigned n = counts[threadIdx.x], before = before_me(n, &all);
            if (before < rank && rank <= before + n) chosen = (int)threadIdx.x, chosen_before = before;
            __syncthreads();
            key |= (U)((U)chosen << pass * DIGIT), known |= (U)((U)(DIGITS - 1) << pass * DIGIT), rank -= chosen_before;
            __syncthreads();
        }
        unsigned below_place = 0, equal_place = 0; /* how many of either came before, of which those below the key and the first `rank` equal ones are taken */
        ROLLED
        for (int64_t base = begin; base < end; base += SORT_TILE) {
            const int64_t first = base + MY_WARP * (WARP * (int)SORT_ROWS) + LANE;
            U v[SORT_ROWS];
            unsigned below = 0, equal = 0;
            for (int r = 0; r < SORT_ROWS; r++) v[r] = first + r * WARP < end ? x[first + r * WARP] : (U)0;
            for (int r = 0; r < SORT_ROWS; r++) {
                const U here = key_of<U>(p, v[r]);
                if (first + r * WARP < end) below |= (unsigned)(here < key) << r, equal |= (unsigned)(here == key) << r;
            }
            unsigned n = (unsigned)__popc(below) | (unsigned)__popc(equal) << 16;
            for (int s = WARP / 2; s; s /= 2) n += __shfl_xor_sync(~0u, n, s);
            if (!LANE) warps[MY_WARP] = n;
            __syncthreads();
            unsigned below_mine = 0, equal_mine = 0;
            for (int w = 0; w < CUDA_WARPS; w++) {
                if (w == MY_WARP) below_mine = below_place, equal_mine = equal_place;
                below_place += warps[w] & 0xffff, equal_place += warps[w] >> 16;
            }
            __syncthreads();
            for (int r = 0; r < SORT_ROWS; r++) {
                const unsigned is_below = below >> r & 1, is_equal = equal >> r & 1, before = (1u << LANE) - 1;
                const unsigned all_below = __ballot_sync(~0u, is_below), all_equal = __ballot_sync(~0u, is_equal);
                const unsigned b = below_mine + __popc(all_below & before), e = equal_mine + __popc(all_equal & before);
                below_mine += __popc(all_below), equal_mine += __popc(all_equal);
                if (p.one ? !is_equal || e + 1 != rank : !is_below && !(is_equal && e < rank)) continue;
                const int64_t i = first + r * WARP, to = p.one ? unit : unit * p.k + b + (e < rank ? e : rank);
                ((U *)p.value)[to] = x[i];
                p.at[to] = p.from ? p.from[row * p.n + i] : i;
            }
        }
    }
}

#define SORTS(U, bytes)                                                                                     \
    KERNEL_WIDE(sort_tiles_##bytes, cuda_sort) { sort_tiles<U>(p); }                                        \
    KERNEL(sort_rows_##bytes, cuda_sort) { sort_rows<U>(p); }                                               \
    KERNEL(sort_count_##bytes, cuda_sort) { sort_count<U>(p); }                                             \
    KERNEL_(sort_scatter_##bytes, cuda_sort, CUDA_THREADS, 2) { sort_scatter<U>(p); }                                         \
    KERNEL(sort_select_##bytes, cuda_sort) { sort_select<U>(p); }
SORTS(uint8_t, 1)
SORTS(uint16_t, 2)
SORTS(uint32_t, 4)
SORTS(uint64_t, 8)
