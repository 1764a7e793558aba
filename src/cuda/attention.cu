/* attention.cu - attention that keeps no scores: a block has a tile of queries, meets the keys tile by tile, and keeps of each row the largest score
 * and the sum so far (Dao et al., "FlashAttention", 2022; Dao, "FlashAttention-2", 2023). The way back makes the weights again from the logarithms of
 * the sums: one block has a tile of queries for dq, another one a tile of keys for dk and dv, so that nothing is added to by two blocks and
 * results have the same bits each time.
 *
 * Here each thread makes a rectangle of the scores, with float operands from shared memory; attention_mma.cu has tensor cores.
 */
#include "cuda/attention.h"

/* ROWS rows of a tensor, which become floats W + 4 apart: zeros behind the last row, and up to the next four columns. */
template <class T, int ROWS, int W, int THREADS> struct rows_of {
    enum { LEAD = W + 4, V = 16 / sizeof(T), EACH = ROWS * W / V / THREADS, HELD = EACH < 8 ? EACH : sizeof(T) == 2 && W == 256 ? 4 : 8 }; /* HELD: of a thread's vectors, those that are under way at once */
    const char *x;
    int64_t step, have;
    int width;
    FN int row(int e) const { return ((int)threadIdx.x + e * THREADS) / (W / V); }
    FN int column() const { return (int)threadIdx.x % (W / V) * V; }
    FN void load(pack<T> *got, int first) const
    {
        UNROLLED
        for (int e = 0; e < HELD; e++) {
            if (row(first + e) < have && column() < width) got[e] = *(const pack<T> *)(x + row(first + e) * step + column() * (int)sizeof(T));
            else got[e] = pack<T>{};
        }
    }
    FN void store(float *to, const pack<T> *got, int first) const
    {
        UNROLLED
        for (int e = 0; e < HELD; e++)
            UNROLLED
            for (int v = 0; v < V; v += 4)
                if (column() < width)
                    *(pack<float> *)(to + row(first + e) * LEAD + column() + v) = {as_float(got[e].v[v]), as_float(got[e].v[v + 1]), as_float(got[e].v[v + 2]), as_float(got[e].v[v + 3])};
    }
    FN void move(float *to) const /* what is not of vectors */
    {
        const int padded = (width + 3) & ~3;
        ROLLED
        for (int i = (int)threadIdx.x; i < ROWS * W; i += THREADS) {
            const int r = i / W, c = i % W;
            if (c < padded) to[r * LEAD + c] = r < have && c < width ? as_float(*(const T *)(x + r * step + c * (int)sizeof(T))) : 0;
        }
    }
};

/* Two tiles, when nobody reads what was there; both are under way before one is waited for, or their halves, where registers are for no more. */
template <class T, int ROWS, int W, int THREADS> FN void fill(float *to, const rows_of<T, ROWS, W, THREADS> &rows, float *to_other, const rows_of<T, ROWS, W, THREADS> &other, bool wide)
{
    enum { HELD = rows_of<T, ROWS, W, THREADS>::HELD, EACH = rows_of<T, ROWS, W, THREADS>::EACH };
    if (wide) {
        ROLLED
        for (int first = 0; first < EACH; first += HELD) {
            pack<T> got[HELD], got_other[HELD];
            rows.load(got, first);
            other.load(got_other, first);
            if (!first) __syncthreads();
            rows.store(to, got, first);
            other.store(to_other, got_other, first);
        }
    } else {
        __syncthreads();
        rows.move(to);
        other.move(to_other);
    }
    __syncthreads();
}

/* s[i][j] = a[row + i * GROUPS] . b[column + 16 j], of rows LEAD apart */
template <int R, int C, int GROUPS, int LEAD> FN void dot_rows(float (*s)[C], const float *a, const float *b, int width)
{
    a += threadIdx.x / 16 * LEAD;
    b += threadIdx.x % 16 * LEAD;
    UNROLLED
    for (int i = 0; i < R; i++)
        UNROLLED
        for (int j = 0; j < C; j++) s[i][j] = 0;
    UNROLLED_BY(2)
    for (int k = 0; k < width; k += 4) {
        pack<float> x[R], y[C];
        UNROLLED
        for (int i = 0; i < R; i++) x[i] = *(const pack<float> *)(a + i * GROUPS * LEAD + k);
        UNROLLED
        for (int j = 0; j < C; j++) y[j] = *(const pack<float> *)(b + j * 16 * LEAD + k);
        UNROLLED
        for (int v = 0; v < 4; v++)
            UNROLLED
            for (int i = 0; i < R; i++)
                UNROLLED
                for (int j = 0; j < C; j++) s[i][j] += x[i].v[v] * y[j].v[v];
    }
}

/* to[i][4 c ..] += w[row + i * GROUPS] x[.., column * 4 + 64 c ..] over N rows of x */
template <int R, int COLUMNS, int N, int GROUPS, int LEAD> FN void weigh(float (*to)[4 * COLUMNS], const float *w, const float *x)
{
    w += threadIdx.x / 16 * (N + 4);
    x += threadIdx.x % 16 * 4;
    UNROLLED_BY(1)
    for (int k = 0; k < N; k += 4) {
        pack<float> by[R];
        UNROLLED
        for (int i = 0; i < R; i++) by[i] = *(const pack<float> *)(w + i * GROUPS * (N + 4) + k);
        UNROLLED
        for (int v = 0; v < 4; v++)
            UNROLLED
            for (int c = 0; c < COLUMNS; c++) {
                const pack<float> y = *(const pack<float> *)(x + (k + v) * LEAD + 64 * c);
                UNROLLED
                for (int i = 0; i < R; i++)
                    UNROLLED
                    for (int u = 0; u < 4; u++) to[i][4 * c + u] += by[i].v[v] * y.v[u];
            }
    }
}

/* A thread's weights to where its warp reads them. */
template <int R, int C, int N, int GROUPS> FN void put_weights(float *w, float (*s)[C])
{
    __syncwarp();
    UNROLLED
    for (int i = 0; i < R; i++)
        UNROLLED
        for (int j = 0; j < C; j++) w[(threadIdx.x / 16 + i * GROUPS) * (N + 4) + threadIdx.x % 16 + 16 * j] = s[i][j];
    __syncwarp();
}

/* What a thread has of a row's result, times `by`, into memory. */
template <class T, int COLUMNS> FN void put_row(char *row, const float *x, float by, int width, bool wide)
{
    UNROLLED
    for (int c = 0; c < COLUMNS; c++) {
        const int at = (int)threadIdx.x % 16 * 4 + 64 * c;
        T *to = (T *)row + at;
        results<T, 4> r;
        UNROLLED
        for (int u = 0; u < 4; u++) r.v[u] = from_float<T>(x[4 * c + u] * by);
        if (wide && at < width) *(results<T, 4> *)to = r;
        else
            UNROLLED
            for (int u = 0; u < 4; u++)
                if (at + u < width) to[u] = r.v[u];
    }
}

/* A thread's scores get what the mask has; what a query does not see is -inf. The thread's first score is that of the query (KEYS: key) `own` and the key
 * (query) `its`, and all is counted from there: what is counted from the tile's beginning takes a register each. */
template <int R, int C, int GROUPS, bool KEYS> FN void mask_scores(float (*s)[C], const cuda_attention &p, int b, int h, int own, int its)
{
    const int own_left = (int)(KEYS ? p.keys : p.rows) - own, its_left = (int)(KEYS ? p.rows : p.keys) - its, before = KEYS ? its - own : own - its; /* queries before keys */
    const int64_t own_step = p.mask_step[KEYS ? 3 : 2], its_step = p.mask_step[KEYS ? 2 : 3];
    const char *m = p.mask ? p.mask + b * p.mask_step[0] + h * p.mask_step[1] + own * own_step + its * its_step : NULL;
    UNROLLED
    for (int i = 0; i < R; i++)
        UNROLLED
        for (int j = 0; j < C; j++) {
            if (i * GROUPS >= own_left || 16 * j >= its_left || (p.causal && (KEYS ? i * GROUPS - 16 * j : 16 * j - i * GROUPS) > before)) s[i][j] = -INFINITY;
            else if (m) s[i][j] = masked(s[i][j], m + i * GROUPS * own_step + 16 * j * its_step, p.mask_dtype);
        }
}

template <class T, int W, int BM, int BN, int THREADS> FN void attend(const cuda_attention &p)
{
    enum { GROUPS = THREADS / 16, R = BM / GROUPS, C = BN / 16, LEAD = W + 4, COLUMNS = W / 64 };
    SHARED_MEMORY;
    float *q = (float *)shared_memory, *k = q + BM * LEAD, *v = k + BN * LEAD, *weights = v + BN * LEAD;
    const int rows = (int)p.rows, keys = (int)p.keys, heads = (int)p.heads, tiles = (rows + BM - 1) / BM, block = (int)blockIdx.x;
    const int width = (p.width + 3) & ~3, row = (int)(threadIdx.x / 16), column = (int)(threadIdx.x % 16);
    const int head = block / tiles, first = (tiles - 1 - block % tiles) * BM, b = head / heads, h = head % heads; /* with causal, the long ones first */
    const char *of_k = p.k + b * p.k_step[0] + h / (int)p.group * p.k_step[1], *of_v = p.v + b * p.v_step[0] + h / (int)p.group * p.v_step[1];
    const int end = p.causal ? (int)smaller(keys, first + BM) : keys;
    float o[R][4 * COLUMNS] = {}, s[R][C], most[R], sum[R] = {};
    UNROLLED
    for (int i = 0; i < R; i++) most[i] = -INFINITY;
    const rows_of<T, BM, W, THREADS> queries = {p.q + b * p.q_step[0] + h * p.q_step[1] + first * p.q_step[2], p.q_step[2], rows - first, p.width};
    if (p.wide) {
        ROLLED
        for (int e = 0; e < queries.EACH; e += queries.HELD) {
            pack<T> got[queries.HELD];
            queries.load(got, e);
            queries.store(q, got, e);
        }
    } else {
        queries.move(q);
    }
    ROLLED
    for (int from = 0; from < end; from += BN) {
        fill<T, BN, W, THREADS>(k, {of_k + from * p.k_step[2], p.k_step[2], keys - from, p.width}, v, {of_v + from * p.v_step[2], p.v_step[2], keys - from, p.value_width}, p.wide);
        dot_rows<R, C, GROUPS, LEAD>(s, q, k, width);
        const bool whole = from + BN <= keys && !(p.causal && from + BN > first + 1) && !p.mask;
        UNROLLED
        for (int i = 0; i < R; i++)
            UNROLLED
            for (int j = 0; j < C; j++) s[i][j] *= p.scale;
        if (!whole) mask_scores<R, C, GROUPS, false>(s, p, b, h, first + row, from + column);
        UNROLLED
        for (int i = 0; i < R; i++) {
            float now = -INFINITY;
            UNROLLED
            for (int j = 0; j < C; j++) now = fmaxf(now, s[i][j]);
            for (int far = 8; far; far /= 2) now = fmaxf(now, __shfl_xor_sync(~0u, now, far));
            now = fmaxf(most[i], now);
            const float zero = now == -INFINITY ? 0 : now, less = exp2f((most[i] - zero) * LOG2E);
            most[i] = now;
            sum[i] *= less;
            UNROLLED
            for (int j = 0; j < C; j++) sum[i] += s[i][j] = exp2f((s[i][j] - zero) * LOG2E);
            UNROLLED
            for (int c = 0; c < 4 * COLUMNS; c++) o[i][c] *= less;
        }
        put_weights<R, C, BN, GROUPS>(weights, s);
        weigh<R, COLUMNS, BN, GROUPS, LEAD>(o, weights, v);
    }
    UNROLLED
    for (int i = 0; i < R; i++) {
        const int at = first + row + i * GROUPS;
        for (int far = 8; far; far /= 2) sum[i] += __shfl_xor_sync(~0u, sum[i], far);
        if (at >= rows) continue;
        if (!column) p.lse[head * p.rows + at] = sum[i] == 0 ? 0 : most[i] + logf(sum[i]);
        put_row<T, COLUMNS>(p.out + b * p.out_step[0] + h * p.out_step[1] + at * p.out_step[2], o[i], sum[i] == 0 ? 0 : 1 / sum[i], p.value_width, p.wide);
    }
}

/* A tile of queries (KEYS: of keys), of the head that `block` says, with all that it meets. */
template <class T, int W, int BM, int BN, int THREADS, bool KEYS> FN void attend_back(const cuda_attention &p, int block)
{
    enum { GROUPS = THREADS / 16, R = BM / GROUPS, C = BN / 16, LEAD = W + 4, COLUMNS = W / 64 };
    SHARED_MEMORY;
    float *x = (float *)shared_memory, *y = x + BM * LEAD, *u = y + BM * LEAD, *z = u + BN * LEAD, *weights = z + BN * LEAD; /* x by u are the scores, y by z the weights' gradients */
    const int rows = (int)p.rows, own = KEYS ? (int)p.keys : rows, other = KEYS ? rows : (int)p.keys, tiles = (own + BM - 1) / BM, group = (int)p.group, heads = KEYS ? (int)p.heads / group : (int)p.heads;
    const int b = block / tiles / heads, own_head = block / tiles % heads, first = (KEYS ? block % tiles : tiles - 1 - block % tiles) * BM;
    const int width = (p.width + 3) & ~3, value_width = (p.value_width + 3) & ~3, row = (int)(threadIdx.x / 16), column = (int)(threadIdx.x % 16);
    const int begin = KEYS && p.causal ? first / BN * BN : 0, end = !KEYS && p.causal ? (int)smaller(other, first + BM) : other;
    float dx[R][4 * COLUMNS] = {}, dy[KEYS ? R : 1][4 * COLUMNS] = {}, s[R][C], d[R][C], lse[KEYS ? C : R], delta[KEYS ? C : R];
    const char *of_q = p.q + b * p.q_step[0], *of_k = p.k + b * p.k_step[0], *of_v = p.v + b * p.v_step[0], *of_g = p.g + b * p.g_step[0];
    const char *own_x = KEYS ? of_k + own_head * p.k_step[1] + first * p.k_step[2] : of_q + own_head * p.q_step[1] + first * p.q_step[2];
    const char *own_y = KEYS ? of_v + own_head * p.v_step[1] + first * p.v_step[2] : of_g + own_head * p.g_step[1] + first * p.g_step[2];
    fill<T, BM, W, THREADS>(x, {own_x, KEYS ? p.k_step[2] : p.q_step[2], own - first, p.width}, y, {own_y, KEYS ? p.v_step[2] : p.g_step[2], own - first, p.value_width}, p.wide);
    ROLLED
    for (int h = KEYS ? own_head * group : own_head, last = KEYS ? h + group : h + 1; h < last; h++) {
        const float *of_lse = p.lse + (b * p.heads + h) * p.rows, *of_delta = p.delta + (b * p.heads + h) * p.rows;
        UNROLLED
        for (int i = 0; i < R && !KEYS; i++) {
            const int at = (int)smaller(first + row + i * GROUPS, rows - 1);
            lse[i] = of_lse[at], delta[i] = of_delta[at];
        }
        const int64_t u_step = KEYS ? p.q_step[2] : p.k_step[2], z_step = KEYS ? p.g_step[2] : p.v_step[2];
        const char *its_u = (KEYS ? of_q + h * p.q_step[1] : of_k + h / group * p.k_step[1]) + begin * u_step, *its_z = (KEYS ? of_g + h * p.g_step[1] : of_v + h / group * p.v_step[1]) + begin * z_step;
        ROLLED
        for (int from = begin; from < end; from += BN, its_u += BN * u_step, its_z += BN * z_step) {
            UNROLLED
            for (int j = 0; j < C && KEYS; j++) {
                const int at = (int)smaller(from + column + 16 * j, rows - 1);
                lse[j] = of_lse[at], delta[j] = of_delta[at];
            }
            fill<T, BN, W, THREADS>(u, {its_u, u_step, other - from, p.width}, z, {its_z, z_step, other - from, p.value_width}, p.wide);
            dot_rows<R, C, GROUPS, LEAD>(s, x, u, width);
            const bool inside = first + BM <= own && from + BN <= other, seen = !p.causal || (KEYS ? first + BM <= from + 1 : from + BN <= first + 1), whole = inside && seen && !p.mask;
            UNROLLED
            for (int i = 0; i < R; i++)
                UNROLLED
                for (int j = 0; j < C; j++) s[i][j] *= p.scale;
            if (!whole) mask_scores<R, C, GROUPS, KEYS>(s, p, b, h, first + row, from + column);
            UNROLLED
            for (int i = 0; i < R; i++)
                UNROLLED
                for (int j = 0; j < C; j++) s[i][j] = exp2f((s[i][j] - lse[KEYS ? j : i]) * LOG2E);
            dot_rows<R, C, GROUPS, LEAD>(d, y, z, value_width); /* after the weights: what they are made from needs no registers any more */
            UNROLLED
            for (int i = 0; i < R; i++)
                UNROLLED
                for (int j = 0; j < C; j++) d[i][j] = s[i][j] * (d[i][j] - delta[KEYS ? j : i]);
            if (KEYS) {
                put_weights<R, C, BN, GROUPS>(weights, s);
                weigh<R, COLUMNS, BN, GROUPS, LEAD>(dy, weights, z);
            }
            put_weights<R, C, BN, GROUPS>(weights, d);
            weigh<R, COLUMNS, BN, GROUPS, LEAD>(dx, weights, u);
        }
    }
    UNROLLED
    for (int i = 0; i < R; i++) {
        const int at = first + row + i * GROUPS;
        if (at >= own) continue;
        if (KEYS) {
            put_row<T, COLUMNS>(p.dk + b * p.dk_step[0] + own_head * p.dk_step[1] + at * p.dk_step[2], dx[i], p.scale, p.width, p.wide);
            put_row<T, COLUMNS>(p.dv + b * p.dv_step[0] + own_head * p.dv_step[1] + at * p.dv_step[2], dy[i], 1, p.value_width, p.wide);
        } else {
            put_row<T, COLUMNS>(p.dq + b * p.dq_step[0] + own_head * p.dq_step[1] + at * p.dq_step[2], dx[i], p.scale, p.width, p.wide);
        }
    }
}

template <class T, int W, int BM, int BN, int THREADS> FN void attend_back_all(const cuda_attention &p)
{
    const int of_keys = (int)(p.batch * (p.heads / p.group) * ((p.keys + BM - 1) / BM)), block = (int)blockIdx.x;
    if (block < of_keys) attend_back<T, W, BM, BN, THREADS, true>(p, block);
    else attend_back<T, W, BM, BN, THREADS, false>(p, block - of_keys);
}

#define ATTENTION_OF(type, T, W, BM, BN)                                                                    \
    KERNEL_(attend_##type##_##W, cuda_attention, CUDA_ATTEND_THREADS, W == 64 ? 3 : 2) { attend<T, W, BM, BN, CUDA_ATTEND_THREADS>(p); } \
    KERNEL_OF(CUDA_ATTEND_THREADS, attend_back_##type##_##W, cuda_attention) { attend_back_all<T, W, BM, BN, CUDA_ATTEND_THREADS>(p); }
#ifdef HALVES /* attention_half.cu */
#define ATTENTION(W, BM, BN) ATTENTION_OF(f16, f16, W, BM, BN) ATTENTION_OF(bf16, bf16, W, BM, BN)
#else
#define ATTENTION(W, BM, BN) ATTENTION_OF(f32, float, W, BM, BN)
#endif
CUDA_ATTENTION_TILES(ATTENTION)

#ifndef HALVES

/* A warp to each row. */
template <class T> FN void attend_delta(const cuda_attention &p)
{
    const int64_t warps = ALL / 32;
    ROLLED
    for (int64_t i = FIRST / 32; i < p.batch * p.heads * p.rows; i += warps) {
        const int64_t b = i / p.rows / p.heads, h = i / p.rows % p.heads, row = i % p.rows;
        const T *g = (const T *)(p.g + b * p.g_step[0] + h * p.g_step[1] + row * p.g_step[2]), *y = (const T *)(p.y + b * p.y_step[0] + h * p.y_step[1] + row * p.y_step[2]);
        float sum = 0;
        for (int c = (int)threadIdx.x % 32; c < p.value_width; c += 32) sum += as_float(g[c]) * as_float(y[c]);
        for (int far = 16; far; far /= 2) sum += __shfl_xor_sync(~0u, sum, far);
        if (threadIdx.x % 32 == 0) p.delta[i] = sum;
    }
}
KERNEL(attend_delta_f32, cuda_attention) { attend_delta<float>(p); }
KERNEL(attend_delta_f16, cuda_attention) { attend_delta<f16>(p); }
KERNEL(attend_delta_bf16, cuda_attention) { attend_delta<bf16>(p); }
#endif
