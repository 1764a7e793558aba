/* later_run.c - the steps that were put off, done: one walk over blocks for each run of steps of as many elements.
 *
 * All steps are done for one block before the next begins. What is read or written in the order of its memory is read and
 * written there; strides, other dtypes and results that nobody else sees go through buffers. Blocks are so small that
 * the buffers of all steps stay in the first-level cache. Where a compiler has made one loop of the steps (later_compile.c), that is run.
 */
#include "op/later_list.h"
#include "op/tables.h"

enum { ROOM = 24576, LEAST_BLOCK = 64, MOST_BLOCK = 2048, GRAIN = 32768 };
_Static_assert((LATER_STEPS + RUSH_LOOP_OPERANDS) * LEAST_BLOCK * 16 <= 65536, "every step can have a buffer");

enum { STREAMS = 8, LINE = 64, FAR = 262144 }; /* FAR: elements that no cache holds */

typedef struct walk {
    later_list *list;
    int first, end;
    int slots;       /* buffers in use at once; those behind them are for the operands of a step */
    int64_t block;   /* elements          */
    size_t room;     /* bytes of a buffer */
    int nstreams;    /* memory that is walked along: its next block is fetched while this one is computed */
    struct { const char *from; int64_t item; } stream[STREAMS];
} walk;

char *rush_later_gather(const later_operand *x, char *from, int64_t i, int64_t n, char *to)
{
    int inner = x->ndim - 1;
    int64_t row = i / x->size[inner], col = i % x->size[inner], step = x->stride[inner], item = rush_dtypes[x->compute].size;
    for (char *next = to; n > 0; ++row, col = 0) {
        int64_t m = RUSH_MIN(n, x->size[inner] - col), rest = row;
        char *p = from + col * step;
        for (int d = inner - 1; d >= 0; --d) {
            p += rest % x->size[d] * x->stride[d];
            rest /= x->size[d];
        }
        if (next == to && m == n && step == item && x->dtype == x->compute) return p;
        rush_convert_many(next, (rush_dtype)x->compute, item, p, (rush_dtype)x->dtype, step, m);
        next += m * item;
        n -= m;
    }
    return to;
}

/* Where elements from i on of a cell are that is walked along. */
static char *along(const walk *w, const later_operand *x, char *buffers, int64_t i)
{
    const later_cell *c = &w->list->cell[x->cell];
    return c->slot >= 0 ? buffers + (size_t)c->slot * w->room : c->data + x->at + i * rush_dtypes[x->dtype].size;
}

static void run_step(const walk *w, const later_step *s, char *buffers, int64_t i, int64_t n)
{
    char *p[RUSH_LOOP_OPERANDS], *own = buffers + (size_t)w->slots * w->room;
    unsigned ones = 0, one;
    for (int k = 1; k < s->loop.n; ++k) ones |= s->x[k].way == LATER_ONE ? 1u << (k - 1) : 0;
    one = rush_block_ones(&s->loop, ones);
    for (int k = 1; k < s->loop.n; ++k) {
        const later_operand *x = &s->x[k];
        char *to = own + (size_t)k * w->room;
        if (x->way == LATER_ONE) {
            p[k] = one >> (k - 1) & 1 ? (char *)x->one : to;
            if (p[k] == to) rush_block_move(to, s->loop.size[k], x->one, 0, n, s->loop.size[k]);
        } else if (x->way == LATER_STRIDED) {
            p[k] = rush_later_gather(x, w->list->cell[x->cell].data + x->at, i, n, to);
        } else {
            p[k] = along(w, x, buffers, i);
            if (x->dtype == x->compute) continue;
            rush_convert_many(to, (rush_dtype)x->compute, s->loop.size[k], p[k], (rush_dtype)x->dtype, rush_dtypes[x->dtype].size, n);
            p[k] = to;
        }
    }
    const later_operand *to = &s->x[0];
    char *result = along(w, to, buffers, i);
    p[0] = to->dtype == to->compute ? result : own;
    rush_block_run(&s->loop, p, n, one);
    if (p[0] == own) rush_convert_many(result, (rush_dtype)to->dtype, rush_dtypes[to->dtype].size, own, (rush_dtype)to->compute, s->loop.size[0], n);
}

/* Part `part` of `parts` of the elements [i, i + n) of all streams. */
static void fetch(const walk *w, int64_t i, int64_t n, int part, int parts)
{
    int64_t from = n * part / parts, to = n * (part + 1) / parts;
    for (int k = 0; k < w->nstreams; ++k) {
        const char *p = w->stream[k].from + (i + from) * w->stream[k].item, *past = w->stream[k].from + (i + to) * w->stream[k].item;
        for (; p < past; p += LINE) __builtin_prefetch(p, 0, 2);
    }
}

static void run_piece(void *arg, int64_t begin, int64_t end)
{
    const walk *w = arg;
    char buffers[65536] __attribute__((aligned(64)));
    for (int64_t i = begin; i < end; i += w->block) {
        int64_t n = RUSH_MIN(w->block, end - i), next = RUSH_MIN(w->block, end - i - n);
        for (int s = w->first; s < w->end; ++s) {
            run_step(w, &w->list->step[s], buffers, i, n);
            if (next > 0) fetch(w, i + n, next, s - w->first, w->end - w->first);
        }
    }
}

static void add_stream(walk *w, const later_operand *x)
{
    const later_cell *c = x->cell >= 0 && x->way == LATER_ALONG ? &w->list->cell[x->cell] : NULL;
    if (!c || c->slot >= 0 || !c->data || w->nstreams == STREAMS) return;
    const char *from = c->data + x->at;
    for (int k = 0; k < w->nstreams; ++k)
        if (w->stream[k].from == from) return;
    w->stream[w->nstreams].from = from;
    w->stream[w->nstreams++].item = rush_dtypes[x->dtype].size;
}

/* Gives every cell that has no memory a buffer from its first step to its last. How many are there? */
static int give_buffers(const walk *w)
{
    uint64_t taken = 0;
    int most = 0;
    for (int s = w->first; s < w->end; ++s) {
        const later_step *step = &w->list->step[s];
        later_cell *c = &w->list->cell[step->x[0].cell];
        if (!c->data && c->first == s) {
            c->slot = __builtin_ctzll(~taken);
            taken |= (uint64_t)1 << c->slot;
            most = RUSH_MAX(most, c->slot + 1);
        }
        for (int k = 0; k < step->loop.n; ++k) {
            c = step->x[k].cell >= 0 ? &w->list->cell[step->x[k].cell] : NULL;
            if (c && c->slot >= 0 && c->last == s) taken &= ~((uint64_t)1 << c->slot);
        }
    }
    return most;
}

static void run_group(walk *w)
{
    size_t widest = 1;
    for (int s = w->first; s < w->end; ++s) {
        later_step *step = &w->list->step[s];
        for (int k = 0; k < step->loop.n; ++k) {
            later_operand *x = &step->x[k];
            widest = RUSH_MAX(widest, step->loop.size[k]);
            if (x->cell < 0) continue;
            widest = RUSH_MAX(widest, rush_dtypes[x->dtype].size);
            if (x->way == LATER_ONE) rush_convert(x->one, (rush_dtype)x->compute, 0, w->list->cell[x->cell].data + x->at, (rush_dtype)x->dtype, 0, 1);
        }
    }
    if (rush_later_run_compiled(w->list, w->first, w->end)) return;
    w->slots = give_buffers(w);
    w->nstreams = 0;
    for (int s = w->first; s < w->end && w->list->step[s].numel >= FAR; ++s)
        for (int k = 0; k < w->list->step[s].loop.n; ++k) add_stream(w, &w->list->step[s].x[k]);
    int64_t fits = ROOM / (int64_t)((size_t)(w->slots + 2) * widest);
    w->block = RUSH_MIN(RUSH_MAX(fits / LEAST_BLOCK * LEAST_BLOCK, LEAST_BLOCK), MOST_BLOCK);
    while (w->block > LEAST_BLOCK && (size_t)w->block * widest * (size_t)(w->slots + RUSH_LOOP_OPERANDS) > 65536) w->block -= LEAST_BLOCK;
    w->room = (size_t)w->block * widest;
    int steps = w->end - w->first;
    rush_parallel_for(w->list->step[w->first].numel, RUSH_MAX(GRAIN / steps, MOST_BLOCK), run_piece, w);
}

void rush_later_run(later_list *list)
{
    for (int i = 0; i < list->ncells; ++i) list->cell[i].slot = -1;
    for (walk w = {.list = list}; w.first < list->nsteps; w.first = w.end) {
        for (w.end = w.first; w.end < list->nsteps && list->step[w.end].group == w.first; ++w.end) continue;
        if (list->device.type == RUSH_CPU) run_group(&w);
        else rush_tables_of[list->device.type]->fuser->run(list, w.first, w.end);
    }
}
