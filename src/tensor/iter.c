/* iter.c - walk several strided tensors of one broadcast shape in step.
 *
 * Four ways lead to a loop. Contiguous operands of the right dtypes go there as they are. Others get their
 * dimensions sorted and merged, and a piece of the linear index range is walked row by row; rows that are short
 * are gathered into blocks. Where one operand runs across another's rows (x + x.t()), the walk goes in square
 * tiles and the crossing operand is transposed through a buffer that stays in the first-level cache.
 */
#include "tensor/iter.h"

#define GRAIN 32768
#define BLOCK_BYTES 4096   /* of the conversion buffer of one operand */
#define TILE_COLS 64
#define TILE_BYTES 16384

typedef struct job {
    rush_iter *it;
    rush_loop loop;
    const void *arg;
    uint32_t crossing;   /* bit k: operand k is transposed through a buffer */
    int64_t tile_rows, row_tiles;
} job;

RUSH_HOT void rush_number_store(void *dst, rush_dtype d, rush_value v)
{
    switch (v.kind) {
    case RUSH_V_FLOAT:
        if (d == RUSH_F32) *(float *)dst = (float)v.f;
        else if (d == RUSH_F64) *(double *)dst = v.f;
        else rush_convert(dst, d, 0, &v.f, RUSH_F64, 0, 1);
        break;
    case RUSH_V_COMPLEX:
        rush_convert(dst, d, 0, v.c, RUSH_C128, 0, 1);
        break;
    default:
        if (RUSH_UNLIKELY(v.n)) rush_convert(dst, d, 0, &v.i, RUSH_U64, 0, 1);
        else if (d == RUSH_F32) *(float *)dst = (float)v.i;
        else if (d == RUSH_I64) *(int64_t *)dst = v.i;
        else rush_convert(dst, d, 0, &v.i, RUSH_I64, 0, 1);
    }
}

/* ---- preparing ---- */

/* Is dimension a to be inside dimension b? Outputs decide first; broadcast operands have no say. */
static bool inside(const rush_iter *it, int a, int b)
{
    for (int k = 0; k < it->nop; k++) {
        int64_t sa = it->stride[k][a], sb = it->stride[k][b];
        if (sa == 0 || sb == 0 || sa == sb) continue;
        return sa < sb;
    }
    return false;
}

static void swap_dims(rush_iter *it, int a, int b)
{
    int64_t s = it->size[a];
    it->size[a] = it->size[b], it->size[b] = s;
    for (int k = 0; k < it->nop; k++) {
        s = it->stride[k][a];
        it->stride[k][a] = it->stride[k][b], it->stride[k][b] = s;
    }
}

/* Sizes and strides of empty tensors may be of any size. */
static bool mergeable(const rush_iter *it, int low, int high)
{
    int64_t next;
    for (int k = 0; k < it->nop; k++)
        if (__builtin_mul_overflow(it->stride[k][low], it->size[low], &next) || it->stride[k][high] != next) return false;
    return !__builtin_mul_overflow(it->size[low], it->size[high], &next);
}

static void sort_and_merge(rush_iter *it)
{
    for (int i = 1; i < it->ndim; i++)
        for (int j = i; j > 0 && inside(it, j, j - 1); j--) swap_dims(it, j, j - 1);
    int last = 0;
    for (int d = 1; d < it->ndim; d++) {
        if (mergeable(it, last, d)) {
            it->size[last] *= it->size[d];
            continue;
        }
        if (++last == d) continue;
        it->size[last] = it->size[d];
        for (int k = 0; k < it->nop; k++) it->stride[k][last] = it->stride[k][d];
    }
    it->ndim = it->ndim ? last + 1 : 0;
}

static int mismatch(int64_t a, int64_t b, int dim)
{
    return rush_fail(RUSH_RUNTIME_ERROR,
                     "The size of tensor a (%lld) must match the size of tensor b (%lld) at non-singleton dimension %d",
                     (long long)a, (long long)b, dim);
}

int rush_iter_init(rush_iter *it, int nout, int nop, const rush_value *operand, const uint8_t *compute)
{
    int ndim = 0;
    int64_t broadcast[RUSH_MAXDIM];
    const int64_t *size = broadcast;
    RUSH_ASSERT(nop <= RUSH_OPERANDS);
    if (nout) {
        ndim = operand[0].t->ndim;
        size = operand[0].t->size;
    } else {
        memset(broadcast, 0, sizeof broadcast);
        for (int k = 0; k < nop; k++)
            if (operand[k].kind == RUSH_V_TENSOR &&
                rush_broadcast_sizes(ndim, broadcast, operand[k].t->ndim, operand[k].t->size, &ndim, broadcast) < 0)
                return -1;
    }
    it->nout = nout;
    it->nop = nop;
    it->casts = false;
    it->rows = NULL;
    it->numel = 1;
    int kept[RUSH_MAXDIM], nkept = 0; /* dimensions of the broadcast shape that are larger than one, innermost first */
    for (int d = ndim - 1; d >= 0; d--) {
        it->numel *= size[d];
        if (size[d] == 1) continue;
        it->size[nkept] = size[d];
        kept[nkept++] = d;
    }
    it->ndim = nkept;
    for (int k = 0; k < nop; k++) {
        it->compute[k] = compute[k];
        it->lazy[k] = 0;
        if (operand[k].kind != RUSH_V_TENSOR) {
            rush_number_store(it->number[k], compute[k], operand[k]);
            it->own[k] = compute[k];
            it->data[k] = it->number[k];
            for (int j = 0; j < nkept; j++) it->stride[k][j] = 0;
            continue;
        }
        const rush_tensor *t = operand[k].t;
        int64_t bytes = rush_dtypes[t->dtype].size;
        it->own[k] = t->dtype;
        it->lazy[k] = t->flags & (RUSH_T_CONJ | RUSH_T_NEG);
        it->data[k] = rush_ptr(t);
        it->casts |= t->dtype != compute[k] || it->lazy[k];
        int lead = ndim - t->ndim; /* dimensions that this operand lacks */
        if (lead < 0 || (k < nout && lead)) return mismatch(ndim, t->ndim, 0);
        for (int j = 0; j < nkept; j++) {
            int d = kept[j] - lead;
            if (d < 0 || (t->size[d] == 1 && k >= nout)) it->stride[k][j] = 0;
            else if (t->size[d] == it->size[j]) it->stride[k][j] = t->stride[d] * bytes;
            else return mismatch(it->size[j], t->size[d], kept[j]);
        }
        for (int d = 0; d < t->ndim; d++) /* where the broadcast size is one, so is this operand's */
            if (t->size[d] != 1 && size[d + lead] == 1) return mismatch(1, t->size[d], d + lead);
    }
    if (it->ndim > 1) sort_and_merge(it);
    return 0;
}

/* ---- walking ---- */

static void apply_lazy(void *p, rush_dtype d, int64_t n, int flags)
{
    if (!rush_dtype_is_complex(d)) flags &= ~RUSH_T_CONJ;
    if (flags) rush_k_copy->lazy(p, d, n, flags);
}

/* One row through buffers: operands whose dtype is not the loop's are converted block by block. */
static void run_converted(const job *w, char **p, const int64_t *stride, int64_t n)
{
    const rush_iter *it = w->it;
    char buffer[RUSH_OPERANDS][BLOCK_BYTES] __attribute__((aligned(64)));
    char *q[RUSH_OPERANDS];
    int64_t qs[RUSH_OPERANDS], block = 1024;
    bool via[RUSH_OPERANDS];
    for (int k = 0; k < it->nop; k++) {
        int64_t room = BLOCK_BYTES / rush_dtypes[it->compute[k]].size;
        if (room < block) block = room;
        via[k] = it->own[k] != it->compute[k] || it->lazy[k];
        q[k] = via[k] ? buffer[k] : p[k];
        qs[k] = via[k] ? rush_dtypes[it->compute[k]].size : stride[k];
        if (k >= it->nout && via[k] && stride[k] == 0) { /* the same element all along: once will do */
            rush_convert_many(buffer[k], it->compute[k], 0, p[k], it->own[k], 0, 1);
            apply_lazy(buffer[k], it->compute[k], 1, it->lazy[k]);
            qs[k] = 0;
        }
    }
    for (int64_t i = 0; i < n; i += block) {
        int64_t m = RUSH_MIN(block, n - i);
        for (int k = it->nout; k < it->nop; k++) {
            if (!via[k]) {
                q[k] = p[k] + i * stride[k];
            } else if (qs[k]) {
                rush_convert_many(buffer[k], it->compute[k], qs[k], p[k] + i * stride[k], it->own[k], stride[k], m);
                apply_lazy(buffer[k], it->compute[k], m, it->lazy[k]);
            }
        }
        for (int k = 0; k < it->nout; k++)
            if (!via[k]) q[k] = p[k] + i * stride[k];
        w->loop(q, qs, m, w->arg);
        for (int k = 0; k < it->nout; k++) {
            if (!via[k]) continue;
            apply_lazy(buffer[k], it->compute[k], m, it->lazy[k]);
            rush_convert_many(p[k] + i * stride[k], it->own[k], stride[k], buffer[k], it->compute[k], qs[k], m);
        }
    }
}

/* Do all operands' elements lie together along rows, and has the loop a form for many such rows? */
static bool by_rows(const rush_iter *it, const int64_t *stride)
{
    if (!it->rows || it->casts) return false;
    for (int k = 0; k < it->nop; k++)
        if (stride[k] != rush_dtypes[it->own[k]].size) return false;
    return true;
}

static inline void run_row(const job *w, char **p, const int64_t *stride, int64_t n)
{
    if (w->it->casts) run_converted(w, p, stride, n);
    else w->loop(p, stride, n, w->arg);
}

/* Linear indices [begin, end) of the merged shape. */
static void run_piece(void *arg, int64_t begin, int64_t end)
{
    const job *w = arg;
    const rush_iter *it = w->it;
    int nop = it->nop, ndim = it->ndim;
    char *p[RUSH_OPERANDS];
    int64_t stride[RUSH_OPERANDS], next[RUSH_OPERANDS], at[RUSH_MAXDIM], rest = begin;
    for (int k = 0; k < nop; k++) p[k] = it->data[k];
    for (int d = 0; d < ndim; d++) {
        at[d] = rest % it->size[d];
        rest /= it->size[d];
        for (int k = 0; k < nop; k++) p[k] += at[d] * it->stride[k][d];
    }
    for (int k = 0; k < nop; k++) stride[k] = ndim ? it->stride[k][0] : 0;
    int64_t row = ndim ? it->size[0] : 1;
    bool many = ndim > 1 && by_rows(it, stride);
    while (begin < end) {
        int64_t n = RUSH_MIN(row - (ndim ? at[0] : 0), end - begin);
        run_row(w, p, stride, n);
        begin += n;
        if (begin >= end) return;
        for (int k = 0; k < nop; k++) p[k] -= at[0] * stride[k]; /* back to the row's start, then on to the next */
        at[0] = 0;
        for (int d = 1; d < ndim; d++) {
            for (int k = 0; k < nop; k++) p[k] += it->stride[k][d];
            if (++at[d] < it->size[d]) break;
            for (int k = 0; k < nop; k++) p[k] -= at[d] * it->stride[k][d];
            at[d] = 0;
        }
        /* whole rows in a run, without looking at the outer dimensions */
        int64_t rows = RUSH_MIN(it->size[1] - at[1], (end - begin) / row) - 1;
        if (rows <= 0) continue;
        if (many) {
            for (int k = 0; k < nop; k++) next[k] = it->stride[k][1];
            it->rows(p, next, rows, row, w->arg);
            for (int k = 0; k < nop; k++) p[k] += rows * next[k];
        }
        for (int64_t r = 0; r < rows && !many; r++) {
            run_row(w, p, stride, row);
            for (int k = 0; k < nop; k++) p[k] += it->stride[k][1];
        }
        at[1] += rows;
        begin += rows * row;
    }
}

/* ---- short rows ---- */

#define SHORT_BLOCK 512 /* elements */

/* Rows so short that a call for each costs more than gathering them; longer ones if only repeated rows are gathered. */
static bool short_rows(const rush_iter *it)
{
    int64_t stride[RUSH_OPERANDS];
    if (it->size[1] < 8 || it->size[0] > SHORT_BLOCK / 2) return false;
    for (int k = 0; k < it->nop; k++) stride[k] = it->stride[k][0];
    if (by_rows(it, stride)) return false;
    if (it->size[0] < 32) return true;
    for (int k = 0; k < it->nop; k++) {
        int64_t bytes = rush_dtypes[it->own[k]].size, s0 = it->stride[k][0], s1 = it->stride[k][1];
        if (!(s0 == bytes && s1 == it->size[0] * bytes) && !(k >= it->nout && s1 == 0)) return false;
    }
    return true;
}

#define GATHER(T)                                                                                           \
    for (int64_t r = 0; r < rows; r++, from += next, to += cols * (int64_t)sizeof(T)) {                     \
        const T first = *(const T *)from;                                                                   \
        for (int64_t c = 0; c < cols; c++) ((T *)to)[c] = step ? *(const T *)(from + c * step) : first;     \
    }

static void gather_rows(char *to, const char *from, int64_t next, int64_t step, int64_t rows, int64_t cols, size_t bytes)
{
    if (step == (int64_t)bytes) {
        rush_k_copy->rows(to, cols * step, from, next, rows, cols * step);
        return;
    }
    if (next == (int64_t)bytes) {
        rush_k_copy->transpose(to, cols * next, from, step, rows, cols, bytes);
        return;
    }
    switch (bytes) {
    case 1: GATHER(uint8_t) break;
    case 2: GATHER(uint16_t) break;
    case 4: GATHER(uint32_t) break;
    case 8: GATHER(uint64_t) break;
    default:
        for (int64_t r = 0; r < rows; r++, from += next)
            for (int64_t c = 0; c < cols; c++, to += bytes) memcpy(to, from + c * step, bytes);
    }
}

static void scatter_rows(char *to, const char *from, int64_t next, int64_t step, int64_t rows, int64_t cols, size_t bytes)
{
    if (step == (int64_t)bytes) {
        rush_k_copy->rows(to, next, from, cols * step, rows, cols * step);
        return;
    }
    for (int64_t r = 0; r < rows; r++, to += next)
        for (int64_t c = 0; c < cols; c++, from += bytes) memcpy(to + c * step, from, bytes);
}

/* Blocks [begin, end) of rows too short for a loop of their own: many rows are put together in buffers. */
static void run_short(void *arg, int64_t begin, int64_t end)
{
    const job *w = arg;
    const rush_iter *it = w->it;
    char buffer[RUSH_OPERANDS][SHORT_BLOCK * 16] __attribute__((aligned(64)));
    char *base[RUSH_OPERANDS], *p[RUSH_OPERANDS];
    int64_t stride[RUSH_OPERANDS], cols = it->size[0], filled = -1;
    bool direct[RUSH_OPERANDS];
    for (int k = 0; k < it->nop; k++) {
        int64_t bytes = rush_dtypes[it->own[k]].size, s0 = it->stride[k][0], s1 = it->stride[k][1];
        bool one = k >= it->nout && s0 == 0 && s1 == 0;
        direct[k] = one || (s0 == bytes && s1 == cols * bytes);
        stride[k] = one ? 0 : bytes;
    }
    for (int64_t u = begin; u < end; u++) {
        int64_t outer = u / w->row_tiles, rest = outer, row = u % w->row_tiles * w->tile_rows;
        int64_t rows = RUSH_MIN(w->tile_rows, it->size[1] - row);
        for (int k = 0; k < it->nop; k++) base[k] = it->data[k] + row * it->stride[k][1];
        for (int d = 2; d < it->ndim; d++) {
            for (int k = 0; k < it->nop; k++) base[k] += rest % it->size[d] * it->stride[k][d];
            rest /= it->size[d];
        }
        for (int k = 0; k < it->nop; k++) {
            p[k] = direct[k] ? base[k] : buffer[k];
            bool repeats = it->stride[k][1] == 0 && filled == outer; /* the same row again: still there */
            if (!direct[k] && k >= it->nout && !repeats)
                gather_rows(p[k], base[k], it->stride[k][1], it->stride[k][0], it->stride[k][1] ? rows : w->tile_rows, cols, (size_t)rush_dtypes[it->own[k]].size);
        }
        filled = outer;
        run_row(w, p, stride, rows * cols);
        for (int k = 0; k < it->nout; k++)
            if (!direct[k]) scatter_rows(base[k], p[k], it->stride[k][1], it->stride[k][0], rows, cols, (size_t)rush_dtypes[it->own[k]].size);
    }
}

/* ---- tiles ---- */

/* Operands that are contiguous along the second dimension and far apart along the first. The dimension along which
 * the first such operand is contiguous is made the second one. */
static uint32_t crossing(rush_iter *it)
{
    uint32_t bits = 0;
    if (it->size[0] < 8 || it->numel < 2048) return 0;
    for (int k = it->nop - 1; k >= 0; k--) {
        int64_t bytes = rush_dtypes[it->own[k]].size;
        if (it->stride[k][0] < 8 * bytes) continue;
        for (int d = 2; d < it->ndim; d++)
            if (it->stride[k][d] == bytes && it->size[d] >= 8) {
                swap_dims(it, 1, d);
                k = 0;
                break;
            }
    }
    if (it->size[1] < 8) return 0;
    for (int k = 0; k < it->nop; k++) {
        int64_t bytes = rush_dtypes[it->own[k]].size;
        if (it->stride[k][1] == bytes && it->stride[k][0] >= 8 * bytes) bits |= 1u << k;
    }
    return bits;
}

/* Tiles [begin, end) of dimension 1 (times all outer dimensions), each over the whole of dimension 0. */
static void run_tiles(void *arg, int64_t begin, int64_t end)
{
    const job *w = arg;
    const rush_iter *it = w->it;
    char tile[TILE_BYTES * 4] __attribute__((aligned(64)));
    char *buffer[RUSH_OPERANDS], *base[RUSH_OPERANDS], *p[RUSH_OPERANDS];
    int64_t stride[RUSH_OPERANDS], next[RUSH_OPERANDS];
    size_t bytes[RUSH_OPERANDS], used = 0;
    for (int k = 0; k < it->nop; k++) {
        bytes[k] = rush_dtypes[it->own[k]].size;
        stride[k] = it->stride[k][0];
        next[k] = it->stride[k][1];
        if (!(w->crossing >> k & 1)) continue;
        buffer[k] = tile + used;
        used += (size_t)w->tile_rows * TILE_COLS * bytes[k];
        stride[k] = (int64_t)bytes[k];
        next[k] = TILE_COLS * (int64_t)bytes[k];
    }
    bool many = by_rows(it, stride);
    for (int64_t u = begin; u < end; u++) {
        int64_t rest = u / w->row_tiles, row = u % w->row_tiles * w->tile_rows;
        int64_t rows = RUSH_MIN(w->tile_rows, it->size[1] - row);
        for (int k = 0; k < it->nop; k++) base[k] = it->data[k] + row * it->stride[k][1];
        for (int d = 2; d < it->ndim; d++) {
            for (int k = 0; k < it->nop; k++) base[k] += rest % it->size[d] * it->stride[k][d];
            rest /= it->size[d];
        }
        for (int64_t col = 0; col < it->size[0]; col += TILE_COLS) {
            int64_t cols = RUSH_MIN(TILE_COLS, it->size[0] - col);
            for (int k = 0; k < it->nop; k++) {
                p[k] = base[k] + col * it->stride[k][0];
                if (!(w->crossing >> k & 1)) continue;
                if (k >= it->nout) rush_k_copy->transpose(buffer[k], next[k], p[k], it->stride[k][0], rows, cols, bytes[k]);
                p[k] = buffer[k];
            }
            if (many) it->rows(p, next, rows, cols, w->arg);
            for (int64_t r = 0; r < rows && !many; r++) {
                run_row(w, p, stride, cols);
                for (int k = 0; k < it->nop; k++) p[k] += next[k];
            }
            for (int k = 0; k < it->nout; k++)
                if (w->crossing >> k & 1)
                    rush_k_copy->transpose(base[k] + col * it->stride[k][0], it->stride[k][0], buffer[k], next[k], cols, rows, bytes[k]);
        }
    }
}

void rush_iter_run(rush_iter *it, rush_loop loop, const void *arg, int64_t grain)
{
    job w = {it, loop, arg, 0, 0, 0};
    if (it->numel <= 0) return;
    if (grain <= 0) grain = GRAIN;
    if (it->ndim > 1 && (w.crossing = crossing(it))) {
        size_t widest = 0;
        for (int k = 0; k < it->nop; k++)
            if (w.crossing >> k & 1) widest += rush_dtypes[it->own[k]].size;
        w.tile_rows = RUSH_MIN(64, TILE_BYTES * 4 / (int64_t)(TILE_COLS * widest));
        w.row_tiles = (it->size[1] + w.tile_rows - 1) / w.tile_rows;
        int64_t units = w.row_tiles, per = w.tile_rows * it->size[0];
        for (int d = 2; d < it->ndim; d++) units *= it->size[d];
        rush_parallel_for(units, (grain - 1) / per + 1, run_tiles, &w);
        return;
    }
    if (it->ndim > 1 && short_rows(it)) {
        w.tile_rows = SHORT_BLOCK / it->size[0];
        w.row_tiles = (it->size[1] + w.tile_rows - 1) / w.tile_rows;
        int64_t units = w.row_tiles, per = RUSH_MIN(w.tile_rows, it->size[1]) * it->size[0];
        for (int d = 2; d < it->ndim; d++) units *= it->size[d];
        rush_parallel_for(units, (grain - 1) / per + 1, run_short, &w);
        return;
    }
    if (it->numel <= grain) run_piece(&w, 0, it->numel);
    else rush_parallel_for(it->numel, grain, run_piece, &w);
}

/* ---- the quick way ---- */

typedef struct flat {
    rush_loop loop;
    const void *arg;
    int nop;
    char *p[RUSH_OPERANDS];
    int64_t stride[RUSH_OPERANDS];
} flat;

static void run_flat(void *arg, int64_t begin, int64_t end)
{
    const flat *f = arg;
    char *p[RUSH_OPERANDS];
    for (int k = 0; k < f->nop; k++) p[k] = f->p[k] + begin * f->stride[k];
    f->loop(p, f->stride, end - begin, f->arg);
}

RUSH_HOT int rush_iterate(int nout, int nop, const rush_value *operand, const uint8_t *compute, rush_loop loop, const void *arg,
                 int64_t grain)
{
    flat f;
    double number[RUSH_OPERANDS][2];
    const rush_tensor *first = operand[0].t;
    if (nout == 0) goto general;
    if (RUSH_UNLIKELY(first->device.type == RUSH_META)) return 0; /* no memory to fill */
    for (int k = 0; k < nop; k++) {
        if (operand[k].kind != RUSH_V_TENSOR) {
            rush_number_store(number[k], compute[k], operand[k]);
            f.p[k] = (char *)number[k];
            f.stride[k] = 0;
            continue;
        }
        const rush_tensor *t = operand[k].t;
        if (t->dtype != compute[k] || t->flags & (RUSH_T_CONJ | RUSH_T_NEG)) goto general;
        f.p[k] = rush_ptr(t);
        if (t->ndim == 0 && k >= nout) {
            f.stride[k] = 0;
            continue;
        }
        bool dense = t->flags & RUSH_T_CONTIGUOUS, one = k >= nout && t->ndim == first->ndim; /* one: expanded from one element */
        if (t->ndim != first->ndim) goto general;
        for (int d = 0; d < t->ndim; d++) {
            if (t->size[d] != first->size[d]) goto general;
            one &= t->stride[d] == 0 || t->size[d] == 1;
        }
        if (!dense && !one) goto general;
        f.stride[k] = dense ? rush_dtypes[t->dtype].size : 0;
    }
    if (grain <= 0) grain = GRAIN;
    if (first->numel <= grain) {
        if (first->numel > 0) loop(f.p, f.stride, first->numel, arg);
        return 0;
    }
    f.loop = loop;
    f.arg = arg;
    f.nop = nop;
    rush_parallel_for(first->numel, grain, run_flat, &f);
    return 0;
general:;
    rush_iter it;
    if (rush_iter_init(&it, nout, nop, operand, compute) < 0) return -1;
    rush_iter_run(&it, loop, arg, grain);
    return 0;
}

/* ---- lines ---- */

typedef struct line_job {
    int n, ndim;
    int64_t size[RUSH_MAXDIM], stride[RUSH_OPERANDS][RUSH_MAXDIM];
    char *data[RUSH_OPERANDS];
    rush_line_fn fn;
    const void *arg;
} line_job;

static void run_lines(void *arg, int64_t begin, int64_t end)
{
    const line_job *w = arg;
    char *p[RUSH_OPERANDS], *give[RUSH_OPERANDS];
    int64_t at[RUSH_MAXDIM], rest = begin;
    for (int k = 0; k < w->n; k++) p[k] = w->data[k];
    for (int d = 0; d < w->ndim; d++) {
        at[d] = rest % w->size[d];
        rest /= w->size[d];
        for (int k = 0; k < w->n; k++) p[k] += at[d] * w->stride[k][d];
    }
    for (;;) {
        for (int k = 0; k < w->n; k++) give[k] = p[k]; /* fn may advance its pointers */
        w->fn(give, w->arg);
        if (++begin >= end) return;
        for (int d = 0; d < w->ndim; d++) {
            for (int k = 0; k < w->n; k++) p[k] += w->stride[k][d];
            if (++at[d] < w->size[d]) break;
            for (int k = 0; k < w->n; k++) p[k] -= at[d] * w->stride[k][d];
            at[d] = 0;
        }
    }
}

void rush_lines(int n, rush_tensor *const *ts, int dim, int64_t grain, rush_line_fn fn, const void *arg)
{
    line_job w;
    int64_t lines = 1;
    RUSH_ASSERT(n <= RUSH_OPERANDS);
    if (RUSH_UNLIKELY(ts[0]->device.type == RUSH_META)) return;
    w.n = n;
    w.ndim = 0;
    w.fn = fn;
    w.arg = arg;
    if (dim < 0) dim += ts[0]->ndim;
    for (int d = ts[0]->ndim - 1; d >= 0; d--) {
        if (d == dim) continue;
        lines *= ts[0]->size[d];
        if (ts[0]->size[d] == 1) continue;
        w.size[w.ndim] = ts[0]->size[d];
        for (int k = 0; k < n; k++) w.stride[k][w.ndim] = ts[k]->size[d] == 1 ? 0 : ts[k]->stride[d] * (int64_t)rush_dtypes[ts[k]->dtype].size;
        w.ndim++;
    }
    if (lines == 0) return;
    for (int k = 0; k < n; k++) w.data[k] = rush_ptr(ts[k]);
    int64_t length = ts[0]->ndim ? ts[0]->size[dim] : 1;
    if (grain <= 0) grain = 1 + GRAIN / (length + 1);
    rush_parallel_for(lines, grain, run_lines, &w);
}
