/* cascade.c - sums of floats: short chains in vectors, whose blocks are summed level by level; see cascade.inc.
 *
 * The order of the additions is PyTorch's, found by sums that tell it: vectors of eight, four chains of them side by side
 * along a row, or four across the columns, blocks of 16, four levels; of a row in vectors, what is left over comes first
 * and then the lanes. Wider vectors hold several chains.
 */
#pragma GCC diagnostic ignored "-Wpsabi" /* vectors wider than the processor's are passed within this file alone */
#include "kernels/cpu/cascade.h"
#include "kernels/cpu/simd.h"

enum { LEVELS = 4, CHAINS = 8, LANES = RUSH_CASCADE_LANES, GROUP = RUSH_CASCADE_GROUP, WIDE = GROUP / VF, BAND = 1024 };

typedef float eight __attribute__((vector_size(32)));
typedef float eight_any __attribute__((vector_size(32), aligned(4), may_alias));

/* A block has 2^this steps: so many that four levels suffice. */
static int power_of(int64_t n)
{
    int log = n > 1 ? 64 - __builtin_clzll((unsigned long long)n - 1) : 0;
    return log / LEVELS > 4 ? log / LEVELS : 4;
}

#define V vf
#define W(name) wide_##name
#define LOAD(p) vf_load(p)
#include "kernels/cpu/cascade.inc"
#undef V
#undef W
#undef LOAD

#define V eight
#define W(name) eight_##name
#define LOAD(p) (*(const eight_any *)(p))
#include "kernels/cpu/cascade.inc"
#undef V
#undef W
#undef LOAD

#define V float
#define W(name) one_##name
#define LOAD(p) (*(p))
#include "kernels/cpu/cascade.inc"

/* The lanes of a row of whose vectors all but the last few are in `chains`. */
static inline eight lanes_of(const float *chains, const float *x, int64_t n)
{
    eight s = *(const eight_any *)chains;
    for (int64_t i = n / GROUP * GROUP; i + LANES <= n; i += LANES) s += *(const eight_any *)(x + i);
    for (int c = 1; c < 4; ++c) s += *(const eight_any *)(chains + c * LANES);
    return s;
}

/* What is behind the vectors of a row. */
static inline float rest_of(const float *x, int64_t n)
{
    float sum = 0;
    for (int64_t i = n / LANES * LANES; i < n; ++i) sum += x[i];
    return sum;
}

static float finish_row(const float *chains, const float *x, int64_t n)
{
    eight s = lanes_of(chains, x, n);
    float sum = rest_of(x, n);
    for (int l = 0; l < LANES; ++l) sum += s[l];
    return sum;
}

static inline void put_wide(const vf *s, float *to)
{
    for (int c = 0; c < WIDE; ++c) vf_store(to + c * VF, s[c]);
}

#if VBYTES >= 32
enum { SHORT = 8 * GROUP };

/* The lanes of a row of less than SHORT elements: of fewer steps than a block has. */
static inline eight lanes_of_short(const float *x, int64_t n)
{
    eight s[4] = {{0}};
    int64_t i = 0;
    for (; i + GROUP <= n; i += GROUP)
        for (int c = 0; c < 4; ++c) s[c] += *(const eight_any *)(x + i + c * LANES);
    for (; i + LANES <= n; i += LANES) s[0] += *(const eight_any *)(x + i);
    return ((s[0] + s[1]) + s[2]) + s[3];
}
#endif

static void sum_rows(const float *x, int64_t n0, int64_t n1, int64_t stride1, float *out, int64_t out_stride)
{
    float chains[GROUP];
    vf s[WIDE];
    int64_t j = 0;
#if VBYTES >= 32
    for (; j + LANES <= n1 && n0 < 1024; j += LANES) { /* the lanes of eight rows go together */
        float sums[LANES];
        __m256 v[LANES], sum;
        for (int r = 0; r < LANES; ++r, x += stride1) {
            sums[r] = rest_of(x, n0);
            if (n0 < SHORT) {
                v[r] = (__m256)lanes_of_short(x, n0);
                continue;
            }
            wide_chains(WIDE, x, n0 / GROUP, GROUP, VF, s);
            put_wide(s, chains);
            v[r] = (__m256)lanes_of(chains, x, n0);
        }
        turn8(v);
        sum = _mm256_loadu_ps(sums);
        for (int l = 0; l < LANES; ++l) sum += v[l];
        _mm256_storeu_ps(sums, sum);
        for (int r = 0; r < LANES; ++r) out[(j + r) * out_stride] += sums[r];
    }
#endif
    for (; j < n1; ++j, x += stride1) {
        wide_chains(WIDE, x, n0 / GROUP, GROUP, VF, s);
        put_wide(s, chains);
        out[j * out_stride] += finish_row(chains, x, n0);
    }
}

/* The sums of n rows of so many vectors. */
static inline __attribute__((always_inline)) void add_block(int vectors, const float *x, int64_t n, int64_t stride, float *to)
{
    vf s[8];
    memset(s, 0, sizeof s);
    for (; n > 0; --n, x += stride)
#pragma GCC unroll 8
        for (int c = 0; c < vectors; ++c) s[c] += vf_load(x + c * VF);
    for (int c = 0; c < vectors; ++c) vf_store(to + c * VF, vf_load(to + c * VF) + s[c]);
}

/* `width` columns, a multiple of GROUP: blocks of rows, read along memory. */
static void sum_wide(const float *x, int64_t n, int64_t stride, int64_t width, float *out, int64_t out_stride)
{
    float block[BAND], above[2][BAND];
    int power = power_of(n);
    int64_t mask = ((int64_t)1 << power) - 1, i = 0, whole = n & ~mask, c;
    memset(block, 0, sizeof block);
    memset(above, 0, sizeof above);
    while (i < whole) {
        for (c = 0; c + 8 * VF <= width; c += 8 * VF) add_block(8, x + i * stride + c, mask + 1, stride, block + c);
        for (; c < width; c += 2 * VF) add_block(2, x + i * stride + c, mask + 1, stride, block + c);
        i += mask + 1;
        if (i & (mask << power)) continue;
        for (c = 0; c < width; ++c) {
            above[0][c] += block[c];
            block[c] = 0;
        }
        if (i & (mask << (2 * power))) continue;
        for (c = 0; c < width; ++c) {
            above[1][c] += above[0][c];
            above[0][c] = 0;
        }
    }
    for (c = 0; c < width; c += VF) {
        float sums[VF];
        vf s = {0};
        for (int64_t k = i; k < n; ++k) s += vf_load(x + k * stride + c);
        vf_store(sums, ((s + vf_load(block + c)) + vf_load(above[0] + c)) + vf_load(above[1] + c));
        for (int k = 0; k < VF; ++k) out[(c + k) * out_stride] += sums[k];
    }
}

static void sum_columns(const float *x, int64_t n0, int64_t stride0, int64_t n1, float *out, int64_t out_stride)
{
    int64_t j = 0, n;
    for (; j + GROUP <= n1; j += n) {
        n = n1 - j < BAND ? (n1 - j) / GROUP * GROUP : BAND;
        sum_wide(x + j, n0, stride0, n, out + j * out_stride, out_stride);
    }
    for (; j + LANES <= n1; j += LANES) {
        eight s = eight_line(x + j, n0, stride0);
        for (int c = 0; c < LANES; ++c) out[(j + c) * out_stride] += s[c];
    }
    for (; j < n1; ++j) out[j * out_stride] += one_line(x + j, n0, stride0);
}

static void sum(rush_cascade_way way, const float *x, int64_t n0, int64_t stride0, int64_t n1, int64_t stride1, float *out, int64_t out_stride)
{
    int64_t j = 0;
    if (way == RUSH_CASCADE_ROWS) {
        sum_rows(x, n0, n1, stride1, out, out_stride);
        return;
    }
    if (way == RUSH_CASCADE_COLUMNS) {
        sum_columns(x, n0, stride0, n1, out, out_stride);
        return;
    }
    float s[4] = {0}; /* which are those of before where all outputs are of the same elements */
    for (; way == RUSH_CASCADE_COLUMNS_ONE && j + 4 <= n1; j += 4) {
        if (j == 0 || stride1) one_chains(4, x + j * stride1, n0, stride0, stride1, s);
        for (int c = 0; c < 4; ++c) out[(j + c) * out_stride] += s[c];
    }
    for (int64_t first = j; j < n1; ++j) {
        if (j == first || stride1) s[0] = one_line(x + j * stride1, n0, stride0);
        out[j * out_stride] += s[0];
    }
}

/* ---- a long row in pieces: the blocks of the second level ---- */

static int64_t blocks(int64_t n)
{
    return n / GROUP >> (2 * power_of(n / GROUP));
}

static void some(const float *x, int64_t n, int64_t begin, int64_t end, float *partial)
{
    int power = power_of(n / GROUP);
    for (int64_t b = begin; b < end; ++b) {
        const float *from = x + b * ((int64_t)GROUP << (2 * power));
        vf second[WIDE];
        memset(second, 0, sizeof second);
        for (int64_t i = 0; i < 1 << power; ++i) {
            vf s[WIDE];
            memset(s, 0, sizeof s);
            for (int64_t k = 0; k < 1 << power; ++k, from += GROUP)
                for (int c = 0; c < WIDE; ++c) s[c] += vf_load(from + c * VF);
            for (int c = 0; c < WIDE; ++c) second[c] += s[c];
        }
        put_wide(second, partial + b * GROUP);
    }
}

static float join(const float *x, int64_t n, const float *partial)
{
    int64_t steps = n / GROUP, many = blocks(n);
    int power = power_of(steps);
    vf sum[WIDE], block[WIDE], above[2][WIDE];
    float chains[GROUP];
    memset(sum, 0, sizeof sum);
    memset(block, 0, sizeof block);
    memset(above, 0, sizeof above);
    for (int64_t b = 0; b < many; ++b) {
        for (int c = 0; c < WIDE; ++c) above[0][c] += vf_load(partial + b * GROUP + c * VF);
        if ((b + 1) & ((1 << power) - 1)) continue;
        for (int c = 0; c < WIDE; ++c) {
            above[1][c] += above[0][c];
            above[0][c] = (vf){0};
        }
    }
    for (int64_t i = many << (2 * power); i < steps; ++i) {
        for (int c = 0; c < WIDE; ++c) sum[c] += vf_load(x + i * GROUP + c * VF);
        if ((i + 1) & ((1 << power) - 1)) continue;
        for (int c = 0; c < WIDE; ++c) {
            block[c] += sum[c];
            sum[c] = (vf){0};
        }
    }
    for (int c = 0; c < WIDE; ++c) sum[c] = ((sum[c] + block[c]) + above[0][c]) + above[1][c];
    put_wide(sum, chains);
    return finish_row(chains, x, n);
}

RUSH_KERNELS(cascade) = {.sum = sum, .blocks = blocks, .some = some, .join = join};
