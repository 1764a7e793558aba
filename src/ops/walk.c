/* walk.c - a plain walk over a box of up to four operands, in row-major order. */
#include "ops/walk.h"

#define ALONE 16384 /* elements that are not worth a second thread */

void rush_walk_start(rush_walk *w, int ndim, const int64_t *size)
{
    w->nop = 0;
    w->ndim = ndim;
    if (ndim) memcpy(w->size, size, sizeof *size * ndim);
}

void rush_walk_add(rush_walk *w, const void *data, const int64_t *stride, int64_t item)
{
    int k = w->nop++;
    w->data[k] = (char *)data;
    for (int d = 0; d < w->ndim; ++d) w->stride[k][d] = stride[d] * item;
}

/* Without dimensions of size one; neighbours that lie evenly in all operands made one. */
static void merge(rush_walk *w)
{
    int last = -1;
    for (int d = 0; d < w->ndim; ++d) {
        if (w->size[d] == 1) continue;
        bool even = last >= 0;
        for (int k = 0; k < w->nop && even; ++k) even = w->stride[k][last] == w->stride[k][d] * w->size[d];
        if (!even) ++last;
        w->size[last] = even ? w->size[last] * w->size[d] : w->size[d];
        for (int k = 0; k < w->nop; ++k) w->stride[k][last] = w->stride[k][d];
    }
    w->ndim = last + 1;
}

static void walk_alone(rush_walk *w, rush_loop fn, const void *arg)
{
    char *p[RUSH_WALKERS];
    int64_t stride[RUSH_WALKERS], at[RUSH_MAXDIM];
    merge(w);
    int inner = w->ndim - 1;
    for (int k = 0; k < w->nop; ++k) {
        p[k] = w->data[k];
        stride[k] = inner >= 0 ? w->stride[k][inner] : 0;
    }
    if (inner <= 0) {
        fn(p, stride, inner < 0 ? 1 : w->size[0], arg);
        return;
    }
    for (int d = 0; d < inner; ++d) at[d] = 0;
    for (;;) {
        char *give[RUSH_WALKERS];
        for (int k = 0; k < w->nop; ++k) give[k] = p[k];
        fn(give, stride, w->size[inner], arg);
        int d = inner - 1;
        for (; d >= 0; --d) {
            for (int k = 0; k < w->nop; ++k) p[k] += w->stride[k][d];
            if (++at[d] < w->size[d]) break;
            for (int k = 0; k < w->nop; ++k) p[k] -= at[d] * w->stride[k][d];
            at[d] = 0;
        }
        if (d < 0) return;
    }
}

typedef struct shared_walk {
    const rush_walk *w;
    int dim;
    rush_loop fn;
    const void *arg;
} shared_walk;

static void walk_share(void *arg, int64_t begin, int64_t end)
{
    const shared_walk *s = arg;
    rush_walk mine = *s->w;
    for (int k = 0; k < mine.nop; ++k) mine.data[k] += begin * mine.stride[k][s->dim];
    mine.size[s->dim] = end - begin;
    walk_alone(&mine, s->fn, s->arg);
}

void rush_walk_run(const rush_walk *w, uint64_t ordered, rush_loop fn, const void *arg)
{
    int64_t total = 1, threads;
    int dim = -1;
    for (int d = 0; d < w->ndim; ++d) total *= w->size[d];
    if (total == 0) return;
    if (total > ALONE && (threads = rush_num_threads()) > 1) {
        for (int d = 0; d < w->ndim; ++d) { /* the outermost that goes round, else the largest */
            if (ordered >> d & 1 || w->size[d] < 2 || (d == w->ndim - 1 && w->size[d] < 32)) continue;
            if (dim < 0 || w->size[d] > w->size[dim]) dim = d;
            if (w->size[d] >= 8 * threads && d < w->ndim - 1) break;
        }
    }
    if (dim < 0) {
        rush_walk mine = *w;
        walk_alone(&mine, fn, arg);
        return;
    }
    shared_walk s = {w, dim, fn, arg};
    int64_t each = total / w->size[dim];
    rush_parallel_for(w->size[dim], RUSH_MAX(ALONE / RUSH_MAX(each, 1), 1), walk_share, &s);
}
