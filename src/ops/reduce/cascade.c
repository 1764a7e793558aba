/* cascade.c - which elements of a tensor of floats go into which sum of kernels/cpu/cascade.c.
 *
 * The reduced dims come first, by their strides, then the kept ones; those that lie one behind the other are one. The
 * first two are a call of the kernel, which adds to the output; the others are counted through. Outputs are parted
 * among threads, and a long row at its blocks, so that threads never change a result.
 */
#include "ops/reduce/reduce.h"
#include "kernels/cpu/cascade.h"

typedef struct walk {
    rush_axis d[RUSH_MAXDIM + 2]; /* in elements */
    int n, gone;
    rush_cascade_way way;
    const float *x;
    float *out;
    int64_t chunk, chunks; /* of the outputs of a call */
    float divisor;         /* of means, otherwise 0 */
    int64_t outer;         /* calls for each output */
} walk;

static void part_dims(walk *w, const rush_tensor *x, uint64_t dims)
{
    rush_axis kept[RUSH_MAXDIM];
    int64_t out = 1;
    int many = 0;
    w->n = 0;
    for (int d = x->ndim - 1; d >= 0; --d) {
        bool gone = dims >> d & 1;
        if (x->size[d] != 1 && gone) w->d[w->n++] = (rush_axis){x->size[d], x->stride[d], 0};
        if (x->size[d] != 1 && !gone) kept[many++] = (rush_axis){x->size[d], x->stride[d], out};
        if (!gone) out *= x->size[d];
    }
    rush_axes_sort(w->d, w->n);
    w->n = w->gone = rush_axes_merge(w->d, w->n);
    if (!w->n) w->d[w->n++] = (rush_axis){1, 0, 0}, w->gone = 1;
    many = rush_axes_merge(kept, many);
    for (int d = 0; d < many; ++d) w->d[w->n++] = kept[d];
    if (w->n < 2) w->d[w->n++] = (rush_axis){1, 0, 0};
}

static rush_cascade_way way_of(const rush_axis *d)
{
    const int64_t lanes = RUSH_CASCADE_LANES;
    if (d[0].in == 1 && d[0].size >= lanes) return RUSH_CASCADE_ROWS;
    if (d[1].in == 1 && d[1].size >= lanes) return RUSH_CASCADE_COLUMNS;
    return d[0].in < d[1].in ? RUSH_CASCADE_ROWS_ONE : RUSH_CASCADE_COLUMNS_ONE;
}

/* Tasks [begin, end): chunks of the first kept dim, times the other kept ones. */
RUSH_HOT static void outputs(void *arg, int64_t begin, int64_t end)
{
    const walk *w = arg;
    bool across = w->gone < 2; /* the outputs of a call are different ones */
    const rush_axis *d1 = &w->d[1];
    for (int64_t task = begin; task < end; ++task) {
        int64_t first = task % w->chunks * w->chunk, n = across ? RUSH_MIN(w->chunk, d1->size - first) : d1->size, u = task / w->chunks;
        const float *x = w->x + first * d1->in;
        float *out = w->out + first * d1->out;
        for (int d = RUSH_MAX(w->gone, 2); d < w->n; ++d) {
            x += u % w->d[d].size * w->d[d].in;
            out += u % w->d[d].size * w->d[d].out;
            u /= w->d[d].size;
        }
        for (int64_t i = 0; i < (across ? n : 1); ++i) out[i * d1->out] = 0;
        for (int64_t o = 0; o < w->outer; ++o) {
            const float *from = x;
            int64_t v = o;
            for (int d = 2; d < w->gone; ++d) {
                from += v % w->d[d].size * w->d[d].in;
                v /= w->d[d].size;
            }
            rush_k_cascade->sum(w->way, from, w->d[0].size, w->d[0].in, n, d1->in, out, d1->out);
        }
        if (w->divisor != 0)
            for (int64_t i = 0; i < (across ? n : 1); ++i) out[i * d1->out] /= w->divisor;
    }
}

typedef struct row {
    const float *x;
    int64_t n;
    float *partial;
} row;

static void some_blocks(void *arg, int64_t begin, int64_t end)
{
    const row *r = arg;
    rush_k_cascade->some(r->x, r->n, begin, end, r->partial);
}

/* One output of one long row. */
static bool long_row(const walk *w)
{
    int64_t n = w->d[0].size, blocks = rush_k_cascade->blocks(n);
    if (w->way != RUSH_CASCADE_ROWS || w->d[1].size > 1 || blocks < 4) return false;
    row r = {w->x, n, rush_malloc(sizeof(float) * RUSH_CASCADE_GROUP * (size_t)blocks)};
    if (!r.partial) return true;
    rush_parallel_for(blocks, 4, some_blocks, &r);
    float sum = rush_k_cascade->join(w->x, n, r.partial);
    *w->out = w->divisor != 0 ? sum / w->divisor : sum;
    rush_free(r.partial);
    return true;
}

RUSH_HOT bool rush_cascade_sum(const rush_tensor *x, uint64_t dims, rush_tensor *out, double divisor)
{
    if (x->device.type != RUSH_CPU) return false;
    walk w = {.x = rush_ptr(x), .out = rush_ptr(out), .outer = 1, .divisor = (float)divisor};
    int64_t tasks = 1, work = 1;
    if (!x->numel) return false;
    part_dims(&w, x, dims);
    w.way = way_of(w.d);
    if (w.n == 2 && long_row(&w)) return true;
    for (int d = 2; d < w.n; ++d) *(d < w.gone ? &w.outer : &tasks) *= w.d[d].size;
    work = w.d[0].size * w.outer;
    w.chunk = w.d[1].size, w.chunks = 1;
    int64_t group = w.way == RUSH_CASCADE_ROWS || w.way == RUSH_CASCADE_ROWS_ONE ? 1 : RUSH_CASCADE_GROUP;
    if (w.gone < 2 && w.chunk > group && work * w.chunk > 32768) {
        w.chunk = RUSH_MIN(w.chunk, RUSH_MAX(32768 / group / work, w.way == RUSH_CASCADE_COLUMNS ? 16 : 1) * group); /* along memory */
        w.chunks = (w.d[1].size + w.chunk - 1) / w.chunk;
    }
    work *= w.gone < 2 ? w.chunk : w.d[1].size;
    tasks *= w.chunks;
    if (work >= 1 << 18 && tasks < 2) return false; /* a long sum goes in pieces, of another order */
    rush_parallel_for(tasks, 1 + 32768 / (work + 1), outputs, &w);
    return true;
}
