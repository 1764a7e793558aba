/* reduce_run.c - walks a tensor for a fold: which elements go where, in which pieces, on which thread.
 *
 * Dims are parted into kept and reduced ones, sorted by stride and merged. If a reduced dim is innermost in memory,
 * each output is made of rows; if a kept one is, many outputs are made side by side of columns. Elements that are not
 * contiguous or of another dtype pass through a small buffer. Work is cut into tasks by the shape alone: outputs, and
 * pieces of long reductions whose accumulators are merged in order; so threads never change a result.
 */
#include "op/tables.h"
#include "op/watch.h"
#include "ops/reduce/reduce.h"

#define PIECE 65536          /* elements of one piece of a long reduction              */
#define TASKS_ENOUGH 16      /* with so many outputs (or blocks of them) none is cut    */
#define BUFFER_BYTES 32768
#define BATCH 64             /* outputs made of rows that are finished together         */

typedef struct walk {
    const rush_fold *f;
    const rush_fold_arg *arg;
    const char *x;
    uint8_t dtype;        /* of x */
    int64_t item, size;   /* bytes of an element in memory, and as the fold reads it */
    rush_axis kept[RUSH_MAXDIM], gone[RUSH_MAXDIM]; /* innermost first; in bytes of the input, elements of the output */
    int nkept, ngone;
    bool columns;         /* kept[0] runs across the columns */
    int64_t length;       /* of the reduction */
    int64_t width, chunk, chunks; /* of columns: all, in one task, tasks across */
    int64_t outer;        /* outputs or column chunks along the other kept dims */
    int64_t pieces, piece;
    char *partial;        /* accumulators of pieces; NULL without pieces */
    rush_tensor *const *out;
} walk;

/* ---- dims ---- */

RUSH_HOT void rush_axes_sort(rush_axis *d, int n)
{
    for (int i = 1; i < n; ++i)
        for (int j = i; j > 0 && llabs(d[j].in) < llabs(d[j - 1].in); --j) {
            rush_axis t = d[j];
            d[j] = d[j - 1], d[j - 1] = t;
        }
}

RUSH_HOT int rush_axes_merge(rush_axis *d, int n)
{
    int last = 0;
    for (int i = 1; i < n; ++i) {
        if (d[i].in == d[last].in * d[last].size && d[i].out == d[last].out * d[last].size) d[last].size *= d[i].size;
        else d[++last] = d[i];
    }
    return n ? last + 1 : 0;
}

static void part_dims(walk *w, const rush_tensor *x, uint64_t dims)
{
    int64_t out = 1;
    for (int d = x->ndim - 1; d >= 0; --d) {
        int64_t n = x->size[d], in = x->stride[d] * w->item;
        if (dims >> d & 1) {
            if (n != 1) w->gone[w->ngone++] = (rush_axis){n, in, 0};
            w->length *= n;
        } else {
            if (n != 1) w->kept[w->nkept++] = (rush_axis){n, in, out};
            out *= n;
        }
    }
    if (w->nkept > 1) rush_axes_sort(w->kept, w->nkept), w->nkept = rush_axes_merge(w->kept, w->nkept);
    if (w->ngone > 1) rush_axes_sort(w->gone, w->ngone), w->ngone = rush_axes_merge(w->gone, w->ngone);
    for (int d = 1; d < w->ngone && w->gone[0].in == 0; ++d) { /* repetitions go behind what lies along memory */
        rush_axis again = w->gone[0];
        memmove(w->gone, w->gone + 1, sizeof *w->gone * (size_t)(w->ngone - 1));
        w->gone[w->ngone - 1] = again;
    }
}

/* ---- pieces of a reduction ---- */

static void fetch(const walk *w, void *to, const char *from, int64_t stride, int64_t n)
{
    rush_convert_many(to, w->f->reads, w->size, from, w->dtype, stride, n);
}

/* The reduced dims but the innermost, counted up in at: how far the n-th place lies from the first, in bytes. */
static int64_t seek(const walk *w, int64_t *at, int64_t n)
{
    int64_t far = 0;
    for (int d = 1; d < w->ngone; ++d) {
        at[d] = n % w->gone[d].size;
        n /= w->gone[d].size;
        far += at[d] * w->gone[d].in;
    }
    return far;
}

/* And how far the next place lies from this one. */
static int64_t step(const walk *w, int64_t *at)
{
    int64_t far = 0;
    for (int d = 1; d < w->ngone; ++d) {
        far += w->gone[d].in;
        if (++at[d] < w->gone[d].size) break;
        far -= at[d] * w->gone[d].in;
        at[d] = 0;
    }
    return far;
}

/* Elements [begin, end) of the reduction that starts at x join accumulator j of n. */
static void add_rows(const walk *w, char *acc, int64_t n, int64_t j, const char *x, int64_t begin, int64_t end)
{
    char buffer[BUFFER_BYTES] __attribute__((aligned(64)));
    int64_t inner = w->ngone ? w->gone[0].size : 1, stride = w->ngone ? w->gone[0].in : 0;
    bool direct = w->dtype == w->f->reads && (stride == w->size || inner == 1);
    int64_t room = direct ? INT64_MAX : BUFFER_BYTES / w->size;
    int64_t at[RUSH_MAXDIM], i = begin % inner;
    x += seek(w, at, begin / inner);
    for (;;) {
        int64_t m = RUSH_MIN(RUSH_MIN(inner - i, end - begin), room);
        const void *from = x + i * stride;
        if (!direct) {
            fetch(w, buffer, from, stride, m);
            from = buffer;
        }
        w->f->row(acc, n, j, from, m, begin, w->arg);
        begin += m;
        if (begin >= end) return;
        if ((i += m) < inner) continue;
        i = 0;
        x += step(w, at);
    }
}

/* The same for n columns: rows [begin, end). */
static void add_columns(const walk *w, char *acc, int64_t n, const char *x, int64_t begin, int64_t end)
{
    char buffer[BUFFER_BYTES] __attribute__((aligned(64)));
    int64_t inner = w->ngone ? w->gone[0].size : 1, stride = w->ngone ? w->gone[0].in : 0;
    bool direct = w->dtype == w->f->reads && (w->kept[0].in == w->size || n == 1) && stride % w->size == 0;
    int64_t room = direct ? INT64_MAX : BUFFER_BYTES / (w->size * n);
    int64_t at[RUSH_MAXDIM], i = begin % inner;
    x += seek(w, at, begin / inner);
    for (;;) {
        int64_t m = RUSH_MIN(RUSH_MIN(inner - i, end - begin), room);
        const char *from = x + i * stride;
        if (direct) {
            w->f->cols(acc, n, from, m, stride / w->size, begin, w->arg);
        } else {
            for (int64_t r = 0; r < m; ++r) fetch(w, buffer + r * n * w->size, from + r * stride, w->kept[0].in, n);
            w->f->cols(acc, n, buffer, m, n, begin, w->arg);
        }
        begin += m;
        if (begin >= end) return;
        if ((i += m) < inner) continue;
        i = 0;
        x += step(w, at);
    }
}

/* ---- results ---- */

/* n finished outputs, `stride` elements apart from element `first` of the output. */
static void put(const walk *w, const char *acc, int64_t n, int64_t first, int64_t stride)
{
    char buffer[2][FOLD_WIDTH * 16] __attribute__((aligned(64)));
    void *to[2] = {NULL, NULL};
    bool direct[2] = {false, false};
    for (int k = 0; k < 2; ++k) {
        const rush_tensor *t = w->out[k];
        if (!t) continue;
        direct[k] = t->dtype == w->f->writes[k] && (stride == 1 || n == 1);
        to[k] = direct[k] ? (char *)rush_ptr(t) + first * rush_dtypes[t->dtype].size : buffer[k];
    }
    w->f->finish(to, acc, n, w->arg);
    for (int k = 0; k < 2; ++k) {
        const rush_tensor *t = w->out[k];
        if (!t || direct[k]) continue;
        int64_t bytes = rush_dtypes[t->dtype].size;
        rush_convert_many((char *)rush_ptr(t) + first * bytes, t->dtype, stride * bytes, buffer[k], w->f->writes[k],
                     rush_dtypes[w->f->writes[k]].size, n);
    }
}

/* Where output (or row of column chunks) u along kept dims from `d` on starts, in the input and the output. */
static void locate(const walk *w, int d, int64_t u, const char **x, int64_t *out)
{
    for (; d < w->nkept; ++d) {
        int64_t i = u % w->kept[d].size;
        u /= w->kept[d].size;
        *x += i * w->kept[d].in;
        *out += i * w->kept[d].out;
    }
}

/* ---- tasks ---- */

/* Outputs [begin, end), each made of its whole row. */
static void whole_rows(void *arg, int64_t begin, int64_t end)
{
    const walk *w = arg;
    char acc[BATCH * FOLD_KEEPS] __attribute__((aligned(64)));
    rush_axis none = {1, 0, 1};
    const rush_axis *d0 = w->nkept ? w->kept : &none;
    bool plain = w->ngone == 1 && w->dtype == w->f->reads && w->gone[0].in == w->size;
    while (begin < end) {
        const char *x = w->x;
        int64_t out = 0, i = begin % d0->size;
        int64_t n = RUSH_MIN(RUSH_MIN(BATCH, end - begin), d0->size - i);
        locate(w, 0, begin, &x, &out);
        w->f->start(acc, n);
        for (int64_t j = 0; j < n; ++j) {
            if (plain) w->f->row(acc, n, j, x + j * d0->in, w->length, 0, w->arg);
            else if (w->length) add_rows(w, acc, n, j, x + j * d0->in, 0, w->length);
        }
        put(w, acc, n, out, d0->out);
        begin += n;
    }
}

/* Tasks [begin, end) of outer x chunks, each made of its whole columns. */
static void whole_columns(void *arg, int64_t begin, int64_t end)
{
    const walk *w = arg;
    char acc[FOLD_WIDTH * FOLD_KEEPS] __attribute__((aligned(64)));
    for (; begin < end; ++begin) {
        const char *x = w->x;
        int64_t out = 0, c = begin % w->chunks * w->chunk, n = RUSH_MIN(w->chunk, w->width - c);
        locate(w, 1, begin / w->chunks, &x, &out);
        w->f->start(acc, n);
        if (w->length) add_columns(w, acc, n, x + c * w->kept[0].in, 0, w->length);
        put(w, acc, n, out + c * w->kept[0].out, w->kept[0].out);
    }
}

/* Tasks [begin, end) of outputs (or chunks) x pieces: accumulators only. */
static void some_pieces(void *arg, int64_t begin, int64_t end)
{
    const walk *w = arg;
    int64_t most = w->columns ? w->chunk : 1;
    for (; begin < end; ++begin) {
        int64_t u = begin / w->pieces, p = begin % w->pieces * w->piece, out = 0;
        const char *x = w->x;
        char *acc = w->partial + begin * most * w->f->keeps;
        if (w->columns) {
            int64_t c = u % w->chunks * w->chunk, n = RUSH_MIN(w->chunk, w->width - c);
            locate(w, 1, u / w->chunks, &x, &out);
            w->f->start(acc, n);
            add_columns(w, acc, n, x + c * w->kept[0].in, p, RUSH_MIN(p + w->piece, w->length));
        } else {
            locate(w, 0, u, &x, &out);
            w->f->start(acc, 1);
            add_rows(w, acc, 1, 0, x, p, RUSH_MIN(p + w->piece, w->length));
        }
    }
}

static int in_pieces(walk *w, int64_t tasks)
{
    int64_t most = w->columns ? w->chunk : 1, bytes = most * w->f->keeps;
    w->partial = rush_malloc((size_t)(tasks * w->pieces * bytes));
    if (!w->partial) return -1;
    rush_parallel_for(tasks * w->pieces, 1, some_pieces, w);
    for (int64_t u = 0; u < tasks; ++u) {
        const char *x = w->x;
        char *acc = w->partial + u * w->pieces * bytes;
        int64_t out = 0, c = 0, n = 1;
        if (w->columns) {
            c = u % w->chunks * w->chunk;
            n = RUSH_MIN(w->chunk, w->width - c);
        }
        for (int64_t p = 1; p < w->pieces; ++p) w->f->merge(acc, acc + p * bytes, n);
        if (w->columns) {
            locate(w, 1, u / w->chunks, &x, &out);
            put(w, acc, n, out + c * w->kept[0].out, w->kept[0].out);
        } else {
            locate(w, 0, u, &x, &out);
            put(w, acc, 1, out, 1);
        }
    }
    rush_free(w->partial);
    return 0;
}

int rush_fold_run(const rush_fold *f, const rush_tensor *x, uint64_t dims, rush_tensor *const out[2], const rush_fold_arg *arg)
{
    const rush_tables *tables = rush_tables_of[x->device.type];
    if (RUSH_UNLIKELY(tables != NULL)) return tables->fold(f, x, dims, out, arg);
    walk w;
    w.f = f, w.arg = arg, w.x = rush_ptr(x), w.dtype = x->dtype, w.out = out;
    w.item = rush_dtypes[x->dtype].size;
    w.size = rush_dtypes[f->reads].size;
    w.nkept = w.ngone = 0;
    w.length = 1;
    part_dims(&w, x, dims);
    int64_t outputs = 1;
    for (int d = 0; d < w.nkept; ++d) outputs *= w.kept[d].size;
    if (!outputs) return 0;
    w.columns = w.nkept && (!w.ngone || llabs(w.kept[0].in) < llabs(w.gone[0].in) || (w.gone[0].size < 16 && w.kept[0].size >= 16));
    int64_t tasks = outputs, unit = w.length; /* elements per task */
    if (w.columns) {
        w.width = w.kept[0].size;
        w.chunks = (w.width + FOLD_WIDTH - 1) / FOLD_WIDTH;
        w.chunk = (w.width + w.chunks - 1) / w.chunks;
        tasks = outputs / w.width * w.chunks;
        unit = w.length * w.chunk;
    }
    if (tasks < TASKS_ENOUGH && unit >= 2 * PIECE) {
        w.pieces = RUSH_MIN(unit / PIECE, 256);
        w.piece = (w.length + w.pieces - 1) / w.pieces;
        if (!w.columns) w.piece = (w.piece + FOLD_BLOCK - 1) / FOLD_BLOCK * FOLD_BLOCK;
        w.pieces = (w.length + w.piece - 1) / w.piece;
        if (w.pieces > 1) return in_pieces(&w, tasks);
    }
    int64_t grain = 1 + 32768 / (unit + 1);
    if (w.columns) rush_parallel_for(tasks, grain, whole_columns, &w);
    else rush_parallel_for(tasks, grain, whole_rows, &w);
    return 0;
}

/* ---- what families share ---- */

RUSH_HOT int rush_dims_read(rush_value v, int ndim, bool empty_is_all, uint64_t *bits)
{
    uint64_t all = ndim >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << ndim) - 1;
    *bits = 0;
    if (v.kind == RUSH_V_NONE || (v.kind == RUSH_V_INTS && v.n == 0)) {
        if (v.kind == RUSH_V_NONE || empty_is_all) *bits = all;
        return 0;
    }
    uint32_t n = v.kind == RUSH_V_INTS ? v.n : 1;
    for (uint32_t i = 0; i < n; ++i) {
        int d = rush_dim_wrap(v.kind == RUSH_V_INTS ? v.ints[i] : v.i, ndim);
        if (d < 0) return -1;
        RUSH_CHECK(!(*bits >> d & 1), RUSH_RUNTIME_ERROR, "dim %d appears multiple times in the list of dims", d);
        *bits |= (uint64_t)1 << d;
    }
    *bits &= all; /* dim 0 of a 0-d tensor */
    return 0;
}

RUSH_HOT int rush_reduced_size(const rush_tensor *x, uint64_t dims, bool keepdim, int64_t *size)
{
    int n = 0;
    for (int d = 0; d < x->ndim; ++d) {
        if (!(dims >> d & 1)) size[n++] = x->size[d];
        else if (keepdim) size[n++] = 1;
    }
    return n;
}

int64_t rush_reduced_count(const rush_tensor *x, uint64_t dims)
{
    int64_t n = 1;
    for (int d = 0; d < x->ndim; ++d)
        if (dims >> d & 1) n *= x->size[d];
    return n;
}

rush_tensor *rush_restore_dims(rush_tensor *t, const rush_tensor *like, uint64_t dims, bool keepdim)
{
    if (!t || keepdim || !dims || t->ndim == like->ndim) return t;
    if (rush_is_watched(t)) { /* one by one, as PyTorch */
        for (int d = 0; d < like->ndim && t; ++d)
            if (dims >> d & 1) t = T("unsqueeze", V(t), V((int64_t)d));
        return t;
    }
    int64_t size[RUSH_MAXDIM];
    rush_reduced_size(like, dims, true, size);
    return T("view", V(t), rush_v_ints(size, like->ndim));
}

const rush_tensor *rush_plain(const rush_tensor *x)
{
    return x->flags & (RUSH_T_CONJ | RUSH_T_NEG) ? rush_contiguous_copy(x) : x;
}

int rush_fold_op(const rush_fold *f, const rush_value *in, rush_value dims, bool empty_is_all, rush_value *out, int nout,
                 const rush_fold_arg *arg)
{
    uint64_t bits;
    rush_tensor *const to[2] = {T_(out[0]), nout > 1 ? T_(out[1]) : NULL};
    rush_fold_arg none = {0};
    const rush_tensor *x = rush_plain(in[0].t);
    if (!x || rush_dims_read(dims, x->ndim, empty_is_all, &bits)) return -1;
    return rush_fold_run(f, x, bits, to, arg ? arg : &none);
}

RUSH_HOT int rush_reduced_out(rush_value *out, int i, const rush_tensor *x, rush_value dims, bool empty_is_all, bool keepdim, rush_dtype dtype)
{
    uint64_t bits;
    int64_t size[RUSH_MAXDIM];
    if (rush_dims_read(dims, x->ndim, empty_is_all, &bits)) return -1;
    int n = rush_reduced_size(x, bits, keepdim, size);
    return rush_out_t(out, i, x, dtype, n, size) ? 0 : -1;
}

rush_tensor *rush_spread(rush_tensor *g, const rush_tensor *like, rush_value dims, bool keepdim)
{
    uint64_t bits;
    if (!g || rush_dims_read(dims, like->ndim, true, &bits)) return NULL;
    if (g->ndim) g = rush_restore_dims(g, like, bits, keepdim); /* a 0-d one expands as it is */
    if (g && g->dtype != like->dtype) g = T("_to_dtype", V(g), rush_v_dtype(like->dtype));
    return g ? T("expand", V(g), rush_v_ints(like->size, like->ndim)) : NULL;
}

rush_tensor *rush_put_back(rush_tensor *g, const rush_tensor *like, rush_tensor *index, int64_t dim, bool keepdim)
{
    if (!g || rush_failed()) return NULL;
    return T("value_selecting_reduction_backward", V(g), V(dim), V(index), rush_v_ints(like->size, like->ndim), V(keepdim));
}
