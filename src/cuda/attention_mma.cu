/* attention_mma.cu - attention of half types by tensor cores, on devices from sm_80: the plan of attention.cu, where a warp has whole rows of scores. They
 * stay in its registers, where they are what the next product takes. Tiles lie in shared memory as rows of W numbers, 16 bytes of a row exchanged by its
 * number, so that the eight rows of a matrix are in different banks.
 */
#include "cuda/tensor.h"

enum { THREADS = CUDA_ATTEND_THREADS, WARPS = THREADS / 32, BN = 64, PAIRS = BN / 16 };

/* Where eight numbers of a row lie. */
template <int W> FN int place(int row, int eight) { return row * W + ((eight ^ (row & 7)) << 3); }

/* A tile's rows, zeros behind the last row and column. Not vectors of 16 bytes: copied at once. */
template <class T, int ROWS, int W> FN void fetch(T *to, const char *x, int64_t step, int have, int width, bool wide)
{
    enum { EIGHTS = W / 8, HOP = THREADS / EIGHTS };
    const int c = (int)(threadIdx.x % EIGHTS), row = (int)(threadIdx.x / EIGHTS);
    x += row * step + c * 16;
    if (wide) {
        UNROLLED
        for (int r = 0; r < ROWS; r += HOP, x += HOP * step) copy_later<16>(at_shared(to + place<W>(row + r, c)), x, row + r < have && c * 8 < width);
        return;
    }
    ROLLED
    for (int r = row; r < ROWS; r += HOP, x += HOP * step)
        ROLLED
        for (int u = 0; u < 8; u++) to[place<W>(r, c) + u] = r < have && c * 8 + u < width ? ((const T *)x)[u] : T{0};
}

/* Where a lane's row begins of the four matrices at (row, 0): `across` of those of a second operand's rows, else a first operand's. */
template <class T, int W> FN shared_at matrix_row(const T *tile, bool across)
{
    const int lane = (int)(threadIdx.x % 32), i = lane / 8;
    return at_shared(tile + place<W>((across ? i >> 1 : i & 1) * 8 + lane % 8, across ? i & 1 : i >> 1));
}
/* The same at (row, 8 eight), both even: tiles begin at 128 bytes, so what `place` exchanges is bits of the address. */
template <int W> FN shared_at matrix_at(shared_at first, int row, int eight) { return (first ^ (shared_at)((eight & 6) << 4)) + (shared_at)(row * W * 2 + (eight >> 3 << 7)); }

/* s = a b^T of 16 MT rows of a and the BN rows of b; a's numbers as they were loaded, if `kept` is given. */
template <class T, int W, int MT> FN void multiply_rows(float (*s)[2 * PAIRS][4], const T *a, const T *b, const uint32_t (*kept)[W / 16][4])
{
    UNROLLED
    for (int m = 0; m < MT; m++)
        UNROLLED
        for (int n = 0; n < 2 * PAIRS; n++)
            UNROLLED
            for (int e = 0; e < 4; e++) s[m][n][e] = 0;
    const shared_at of_a = matrix_row<T, W>(a, false), of_b = matrix_row<T, W>(b, true);
    UNROLLED_BY(W > 128 ? 2 : 4) /* four steps' loads are ahead of products: those of more take registers that there are not */
    for (int k = 0; k < W / 16; k++) {
        uint32_t x[MT][4], y[4];
        UNROLLED
        for (int m = 0; m < MT; m++) {
            if (!kept) load_matrices(x[m], matrix_at<W>(of_a, 16 * m, 2 * k));
            else
                UNROLLED
                for (int i = 0; i < 4; i++) x[m][i] = kept[m][k][i];
        }
        UNROLLED
        for (int n = 0; n < PAIRS; n++) {
            load_matrices(y, matrix_at<W>(of_b, 16 * n, 2 * k));
            UNROLLED
            for (int m = 0; m < MT; m++) {
                multiply_add<T>(s[m][2 * n], x[m], y[0], y[1]);
                multiply_add<T>(s[m][2 * n + 1], x[m], y[2], y[3]);
            }
        }
    }
}

/* to += w x, of weights as `pack_weights` left them and BN rows of x */
template <class T, int W, int MT> FN void weigh_rows(float (*to)[W / 8][4], const uint32_t (*w)[PAIRS][4], const T *x)
{
    const shared_at of_x = matrix_row<T, W>(x, false);
    UNROLLED
    for (int k = 0; k < PAIRS; k++)
        UNROLLED
        for (int n = 0; n < W / 16; n++) {
            uint32_t y[4];
            load_matrices_turned(y, matrix_at<W>(of_x, 16 * k, 2 * n));
            UNROLLED
            for (int m = 0; m < MT; m++) {
                multiply_add<T>(to[m][2 * n], w[m][k], y[0], y[1]);
                multiply_add<T>(to[m][2 * n + 1], w[m][k], y[2], y[3]);
            }
        }
}

/* What a product leaves in a lane is what the next one takes of its first operand. */
template <class T, int MT> FN void pack_weights(uint32_t (*w)[PAIRS][4], const float (*s)[2 * PAIRS][4])
{
    UNROLLED
    for (int m = 0; m < MT; m++)
        UNROLLED
        for (int k = 0; k < PAIRS; k++)
            UNROLLED
            for (int i = 0; i < 4; i++) w[m][k][i] = two<T>(s[m][2 * k + (i >> 1)][2 * (i & 1)], s[m][2 * k + (i >> 1)][2 * (i & 1) + 1]);
}

/* A warp's 16 MT rows, each times its `by`, through its own shared memory into the tensor's. */
template <class T, int W, int MT> FN void put_rows(T *room, const float (*o)[W / 8][4], const float *by, char *to, int64_t step, int have, int width, bool wide)
{
    const int lane = (int)(threadIdx.x % 32);
    __syncwarp();
    UNROLLED
    for (int m = 0; m < MT; m++)
        UNROLLED
        for (int n = 0; n < W / 8; n++)
            UNROLLED
            for (int h = 0; h < 2; h++)
                *(uint32_t *)(room + place<W>(16 * m + lane / 4 + 8 * h, n) + lane % 4 * 2) = two<T>(o[m][n][2 * h] * by[2 * m + h], o[m][n][2 * h + 1] * by[2 * m + h]);
    __syncwarp();
    ROLLED
    for (int i = lane; i < 16 * MT * (W / 8); i += 32) {
        const int r = i / (W / 8), c = i % (W / 8);
        const T *from = room + place<W>(r, c);
        T *at = (T *)(to + r * step) + 8 * c;
        if (r >= have || 8 * c >= width) continue;
        if (wide) *(pack<T> *)at = *(const pack<T> *)from;
        else
            for (int u = 0; u < 8 && 8 * c + u < width; u++) at[u] = from[u];
    }
}

/* How many keys from `from` on this row sees, be they less than a tile; where its mask has the first of them. */
FN int seen_keys(const cuda_attention &p, int row, int from)
{
    return row < p.rows ? (int)(p.causal ? smaller(p.keys, row + 1) : p.keys) - from : 0;
}
FN const char *mask_row(const cuda_attention &p, int b, int h, int row, int from)
{
    return p.mask ? p.mask + b * p.mask_step[0] + h * p.mask_step[1] + row * p.mask_step[2] + from * p.mask_step[3] : NULL;
}

/* A lane's scores of a row get what the mask has from m on (NULL: none); those before `begin` and from `end` on are not seen. Counted from the lane's
 * first column: what is counted from the row's takes a register each. */
template <int AT> FN void mask_scores(float (*s)[4], const char *m, int64_t step, int dtype, int begin, int end)
{
    if (m) {
        if (dtype == RUSH_BOOL) {
            UNROLLED
            for (int n = 0; n < 2 * PAIRS; n++)
                UNROLLED
                for (int e = 0; e < 2; e++)
                    if (8 * n + e >= begin && 8 * n + e < end && !*(const uint8_t *)(m + (8 * n + e) * step)) s[n][AT + e] = -INFINITY;
        } else if (dtype == RUSH_F32) {
            UNROLLED
            for (int n = 0; n < 2 * PAIRS; n++)
                UNROLLED
                for (int e = 0; e < 2; e++)
                    if (8 * n + e >= begin && 8 * n + e < end) s[n][AT + e] += *(const float *)(m + (8 * n + e) * step);
        } else {
            UNROLLED
            for (int n = 0; n < 2 * PAIRS; n++)
                UNROLLED
                for (int e = 0; e < 2; e++)
                    if (8 * n + e >= begin && 8 * n + e < end) {
                        const uint16_t bits = *(const uint16_t *)(m + (8 * n + e) * step);
                        s[n][AT + e] += dtype == RUSH_F16 ? f16_to_float(bits) : bf16_to_float(bits);
                    }
        }
    }
    UNROLLED
    for (int n = 0; n < 2 * PAIRS; n++)
        UNROLLED
        for (int e = 0; e < 2; e++)
            if (8 * n + e < begin || 8 * n + e >= end) s[n][AT + e] = -INFINITY;
}

/* The weights of a row's scores of this tile, in place; the row's largest score and sum follow. Returns what the sums so far are worth now. */
template <int AT> FN float weigh_scores(float (*s)[4], float *most, float *sum, float scale, bool scaled)
{
    float now = *most;
    UNROLLED
    for (int n = 0; n < 2 * PAIRS; n++) now = fmaxf(now, fmaxf(s[n][AT], s[n][AT + 1]));
    now = fmaxf(now, __shfl_xor_sync(~0u, now, 1));
    now = fmaxf(now, __shfl_xor_sync(~0u, now, 2));
    const float zero = now == -INFINITY ? 0 : now, by = scaled ? LOG2E : scale * LOG2E, less = exp2_near((*most - zero) * by);
    *most = now;
    *sum *= less;
    if (scaled) { /* differences first: numbers near the largest one times LOG2E are none */
        UNROLLED
        for (int n = 0; n < 2 * PAIRS; n++)
            UNROLLED
            for (int e = AT; e < AT + 2; e++) *sum += s[n][e] = exp2_near((s[n][e] - zero) * LOG2E);
    } else {
        UNROLLED
        for (int n = 0; n < 2 * PAIRS; n++)
            UNROLLED
            for (int e = AT; e < AT + 2; e++) *sum += s[n][e] = exp2_near(s[n][e] * by - zero * by);
    }
    return less;
}

template <class T, int W, int MT> FN void attend(const cuda_attention &p)
{
    enum { OWN = 16 * MT, BM = OWN * WARPS, KEPT = W == 64 };
    SHARED_MEMORY;
    T *q = (T *)shared_memory, *k = q + BM * W, *v = k + BN * W;
    const int warp = (int)(threadIdx.x / 32), lane = (int)(threadIdx.x % 32);
    const int rows = (int)p.rows, keys = (int)p.keys, heads = (int)p.heads, tiles = (rows + BM - 1) / BM, block = (int)blockIdx.x;
    const bool scaled = p.mask || !(p.scale > 0); /* scores are, else the weights' exponents */
    T *const mine = q + warp * OWN * W;
    const int head = block / tiles, first = (tiles - 1 - block % tiles) * BM, b = head / heads, h = head % heads; /* with causal, the long ones first */
    const char *of_k = p.k + b * p.k_step[0] + h / (int)p.group * p.k_step[1], *of_v = p.v + b * p.v_step[0] + h / (int)p.group * p.v_step[1];
    const int end = p.causal ? (int)smaller(keys, first + BM) : keys, row = first + warp * OWN + lane / 4, column = lane % 4 * 2;
    float o[MT][W / 8][4] = {}, s[MT][2 * PAIRS][4], most[2 * MT], sum[2 * MT] = {};
    uint32_t kept[KEPT ? MT : 1][W / 16][4];
    UNROLLED
    for (int i = 0; i < 2 * MT; i++) most[i] = -INFINITY;
    fetch<T, BM, W>(q, p.q + b * p.q_step[0] + h * p.q_step[1] + first * p.q_step[2], p.q_step[2], rows - first, p.width, p.wide);
    if (end > 0) fetch<T, BN, W>(k, of_k, p.k_step[2], keys, p.width, p.wide);
    copies_end_group();
    ROLLED
    for (int from = 0; from < end; from += BN) {
        copies_wait<0>();
        __syncthreads();
        fetch<T, BN, W>(v, of_v + from * p.v_step[2], p.v_step[2], keys - from, p.value_width, p.wide);
        copies_end_group();
        if (KEPT && from == 0)
            UNROLLED
            for (int m = 0; m < MT; m++)
                UNROLLED
                for (int i = 0; i < W / 16; i++) load_matrices(kept[KEPT ? m : 0][i], matrix_at<W>(matrix_row<T, W>(mine, false), 16 * m, 2 * i));
        multiply_rows<T, W, MT>(s, mine, k, KEPT ? kept : NULL);
        if (scaled)
            UNROLLED
            for (int m = 0; m < MT; m++)
                UNROLLED
                for (int n = 0; n < 2 * PAIRS; n++)
                    UNROLLED
                    for (int e = 0; e < 4; e++) s[m][n][e] *= p.scale;
        if (p.mask || from + BN > keys || (p.causal && from + BN > first + warp * OWN + 1))
            UNROLLED
            for (int m = 0; m < MT; m++) {
                const int at = row + 16 * m;
                mask_scores<0>(s[m], mask_row(p, b, h, at, from + column), p.mask_step[3], p.mask_dtype, 0, seen_keys(p, at, from + column));
                mask_scores<2>(s[m], mask_row(p, b, h, at + 8, from + column), p.mask_step[3], p.mask_dtype, 0, seen_keys(p, at + 8, from + column));
            }
        UNROLLED
        for (int m = 0; m < MT; m++) {
            const float less[2] = {weigh_scores<0>(s[m], &most[2 * m], &sum[2 * m], p.scale, scaled), weigh_scores<2>(s[m], &most[2 * m + 1], &sum[2 * m + 1], p.scale, scaled)};
            UNROLLED
            for (int n = 0; n < W / 8; n++)
                UNROLLED
                for (int e = 0; e < 4; e++) o[m][n][e] *= less[e >> 1];
        }
        uint32_t w[MT][PAIRS][4];
        pack_weights<T, MT>(w, s);
        copies_wait<0>();
        __syncthreads();
        if (from + BN < end) fetch<T, BN, W>(k, of_k + (from + BN) * p.k_step[2], p.k_step[2], keys - from - BN, p.width, p.wide);
        copies_end_group();
        weigh_rows<T, W, MT>(o, w, v);
    }
    if (end <= 0) { /* no key: q is on its way */
        copies_wait<0>();
        __syncthreads();
    }
    UNROLLED
    for (int i = 0; i < 2 * MT; i++) {
        const int at = row + 8 * i;
        sum[i] += __shfl_xor_sync(~0u, sum[i], 1);
        sum[i] += __shfl_xor_sync(~0u, sum[i], 2);
        if (at < rows && lane % 4 == 0) p.lse[head * p.rows + at] = sum[i] == 0 ? 0 : most[i] * (scaled ? 1 : p.scale) + logf(sum[i]);
        sum[i] = sum[i] == 0 ? 0 : 1 / sum[i];
    }
    const int own = first + warp * OWN;
    put_rows<T, W, MT>(mine, o, sum, p.out + b * p.out_step[0] + h * p.out_step[1] + own * p.out_step[2], p.out_step[2], rows - own, p.value_width, p.wide);
}

/* Scores of the way back: of the query `own` with the keys from `its` on, or (KEYS) of the key `own` with queries. */
template <bool KEYS, int AT> FN void mask_own(float (*s)[4], const cuda_attention &p, int b, int h, int own, int its)
{
    const int begin = KEYS && p.causal ? own - its : 0, end = !KEYS ? seen_keys(p, own, its) : own < p.keys ? (int)p.rows - its : 0;
    mask_scores<AT>(s, KEYS ? mask_row(p, b, h, its, own) : mask_row(p, b, h, own, its), p.mask_step[KEYS ? 2 : 3], p.mask_dtype, begin, end);
}

/* A tile of queries (KEYS: of keys), of the head that `block` says, with all that it meets: dq, or what of dk and dv is wanted. With two STAGES the next
 * tile is on its way while one is computed. */
template <class T, int W, bool KEYS, bool DX, bool DY, int STAGES> FN void attend_back(const cuda_attention &p, int block)
{
    enum { OWN = 16, BM = OWN * WARPS };
    SHARED_MEMORY;
    T *x = (T *)shared_memory, *y = x + BM * W, *tiles_u = y + BM * W, *tiles_z = tiles_u + STAGES * BN * W; /* x by u are the scores, y by z the weights' gradients */
    float *tiles_lse = (float *)(tiles_z + STAGES * BN * W), *tiles_delta = tiles_lse + STAGES * BN;
    const int warp = (int)(threadIdx.x / 32), lane = (int)(threadIdx.x % 32);
    const int rows = (int)p.rows, own = KEYS ? (int)p.keys : rows, other = KEYS ? rows : (int)p.keys, tiles = (own + BM - 1) / BM, group = (int)p.group, heads = KEYS ? (int)p.heads / group : (int)p.heads;
    const int b = block / tiles / heads, own_head = block / tiles % heads, first = (KEYS ? block % tiles : tiles - 1 - block % tiles) * BM;
    const int begin = KEYS && p.causal ? first / BN * BN : 0, end = !KEYS && p.causal ? (int)smaller(other, first + BM) : other;
    const int mine = first + warp * OWN, row = mine + lane / 4, column = lane % 4 * 2, of_kv = KEYS ? own_head : own_head / group, of_head = KEYS ? own_head * group : own_head, end_head = begin < end ? of_head + (KEYS ? group : 1) : of_head;
    const int64_t u_head = KEYS ? p.q_step[1] : 0, u_step = KEYS ? p.q_step[2] : p.k_step[2], z_head = KEYS ? p.g_step[1] : 0, z_step = KEYS ? p.g_step[2] : p.v_step[2];
    const char *of_k = p.k + b * p.k_step[0] + of_kv * p.k_step[1], *of_v = p.v + b * p.v_step[0] + of_kv * p.v_step[1];
    const char *of_q = p.q + b * p.q_step[0] + of_head * p.q_step[1], *of_g = p.g + b * p.g_step[0] + of_head * p.g_step[1];
    const char *its_u = (KEYS ? of_q : of_k) + begin * u_step, *its_z = (KEYS ? of_g : of_v) + begin * z_step; /* the next tile to be brought */
    float dx[1][W / 8][4] = {}, dy[1][W / 8][4] = {}, s[1][2 * PAIRS][4], d[1][2 * PAIRS][4], lse[2], delta[2];
    auto bring = [&](int stage, int h, int from) {
        fetch<T, BN, W>(tiles_u + stage * BN * W, its_u, u_step, other - from, p.width, p.wide);
        fetch<T, BN, W>(tiles_z + stage * BN * W, its_z, z_step, other - from, p.value_width, p.wide);
        const bool next_head = from + BN >= end;
        its_u += next_head ? u_head - (from - begin) * u_step : BN * u_step;
        its_z += next_head ? z_head - (from - begin) * z_step : BN * z_step;
        if (!KEYS) return;
        const int64_t at = (b * p.heads + h) * p.rows + smaller(from + (int)(threadIdx.x % BN), rows - 1);
        if (threadIdx.x < BN) copy_later<4>(at_shared(tiles_lse + stage * BN + threadIdx.x), p.lse + at, true);
        else copy_later<4>(at_shared(tiles_delta + stage * BN + threadIdx.x - BN), p.delta + at, true);
    };
    if (KEYS) {
        fetch<T, BM, W>(x, of_k + first * p.k_step[2], p.k_step[2], own - first, p.width, p.wide);
        fetch<T, BM, W>(y, of_v + first * p.v_step[2], p.v_step[2], own - first, p.value_width, p.wide);
    } else {
        fetch<T, BM, W>(x, of_q + first * p.q_step[2], p.q_step[2], own - first, p.width, p.wide);
        fetch<T, BM, W>(y, of_g + first * p.g_step[2], p.g_step[2], own - first, p.value_width, p.wide);
        UNROLLED
        for (int i = 0; i < 2; i++) {
            const int64_t at = (b * p.heads + of_head) * p.rows + smaller(row + 8 * i, rows - 1);
            lse[i] = p.lse[at], delta[i] = p.delta[at];
        }
    }
    if (of_head < end_head) bring(0, of_head, begin);
    copies_end_group();
    ROLLED
    for (int stage = 0, h = of_head, from = begin; h < end_head;) {
        const int next = from + BN < end ? from + BN : begin, next_head = from + BN < end ? h : h + 1;
        copies_wait<0>();
        __syncthreads();
        if (STAGES > 1 && next_head < end_head) {
            bring(stage ^ 1, next_head, next);
            copies_end_group();
        }
        const T *u = tiles_u + stage * BN * W, *z = tiles_z + stage * BN * W;
        multiply_rows<T, W, 1>(s, x + warp * OWN * W, u, NULL);
        const bool inside = mine + OWN <= own && from + BN <= other, seen = !p.causal || (KEYS ? mine + OWN <= from + 1 : from + BN <= mine + 1), whole = inside && seen && !p.mask;
        const float *const l = tiles_lse + stage * BN + column, *const less = tiles_delta + stage * BN + column;
        if (whole) {
            UNROLLED
            for (int n = 0; n < 2 * PAIRS; n++)
                UNROLLED
                for (int e = 0; e < 4; e++) s[0][n][e] = exp2_near(s[0][n][e] * (p.scale * LOG2E) - (KEYS ? l[8 * n + (e & 1)] : lse[e >> 1]) * LOG2E);
        } else {
            UNROLLED
            for (int n = 0; n < 2 * PAIRS; n++)
                UNROLLED
                for (int e = 0; e < 4; e++) s[0][n][e] *= p.scale;
            mask_own<KEYS, 0>(s[0], p, b, h, row, from + column);
            mask_own<KEYS, 2>(s[0], p, b, h, row + 8, from + column);
            UNROLLED
            for (int n = 0; n < 2 * PAIRS; n++)
                UNROLLED
                for (int e = 0; e < 4; e++) s[0][n][e] = exp2_near((s[0][n][e] - (KEYS ? l[8 * n + (e & 1)] : lse[e >> 1])) * LOG2E);
        }
        if (DX) { /* after the weights: what they are made from needs no registers any more */
            multiply_rows<T, W, 1>(d, y + warp * OWN * W, z, NULL);
            UNROLLED
            for (int n = 0; n < 2 * PAIRS; n++)
                UNROLLED
                for (int e = 0; e < 4; e++) d[0][n][e] = s[0][n][e] * (d[0][n][e] - (KEYS ? less[8 * n + (e & 1)] : delta[e >> 1]));
        }
        uint32_t w[1][PAIRS][4];
        if (DY) {
            pack_weights<T, 1>(w, s);
            weigh_rows<T, W, 1>(dy, w, z);
        }
        if (DX) {
            pack_weights<T, 1>(w, d);
            weigh_rows<T, W, 1>(dx, w, u);
        }
        if (STAGES == 1 && next_head < end_head) {
            __syncthreads();
            bring(0, next_head, next);
            copies_end_group();
        }
        from = next, h = next_head, stage = STAGES > 1 ? stage ^ 1 : 0;
    }
    if (of_head == end_head) { /* x and y are on their way */
        copies_wait<0>();
        __syncthreads();
    }
    const float by[2] = {p.scale, p.scale}, one[2] = {1, 1};
    if (KEYS && DX) put_rows<T, W, 1>(x + warp * OWN * W, dx, by, p.dk + b * p.dk_step[0] + own_head * p.dk_step[1] + mine * p.dk_step[2], p.dk_step[2], own - mine, p.width, p.wide);
    if (KEYS && DY) put_rows<T, W, 1>(y + warp * OWN * W, dy, one, p.dv + b * p.dv_step[0] + own_head * p.dv_step[1] + mine * p.dv_step[2], p.dv_step[2], own - mine, p.value_width, p.wide);
    if (!KEYS) put_rows<T, W, 1>(x + warp * OWN * W, dx, by, p.dq + b * p.dq_step[0] + own_head * p.dq_step[1] + mine * p.dq_step[2], p.dq_step[2], own - mine, p.width, p.wide);
}

/* Wide rows leave registers for one result only: dk and dv are of two blocks then. */
template <class T, int W, bool APART> FN void attend_back_all(const cuda_attention &p)
{
    enum { BM = 16 * WARPS, STAGES = APART ? 1 : 2 };
    const int of_keys = (int)(p.batch * (p.heads / p.group) * ((p.keys + BM - 1) / BM)), before = APART ? 2 * of_keys : of_keys, block = (int)blockIdx.x;
    if (block < of_keys) attend_back<T, W, true, true, !APART, STAGES>(p, block);
    else if (APART && block < before) attend_back<T, W, true, false, true, STAGES>(p, block - of_keys);
    else attend_back<T, W, false, true, false, STAGES>(p, block - before);
}

#define ATTENTION_OF(type, T, W, MT, STAGES)                                                                \
    KERNEL_OF(CUDA_ATTEND_THREADS, attend_mma_##type##_##W, cuda_attention) { attend<T, W, MT>(p); }        \
    KERNEL_(attend_mma_back_##type##_##W, cuda_attention, CUDA_ATTEND_THREADS, W == 64 ? 2 : 0) { attend_back_all<T, W, STAGES == 1>(p); } /* room for two blocks: ptxas would make room for three, and spill */
#define ATTENTION(W, MT, STAGES) ATTENTION_OF(f16, f16, W, MT, STAGES) ATTENTION_OF(bf16, bf16, W, MT, STAGES)
CUDA_ATTENTION_MMA_TILES(ATTENTION)
