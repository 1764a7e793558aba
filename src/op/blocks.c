/* blocks.c - see blocks.h: tails of vectors, single elements. */
#include "op/blocks.h"
#include "tensor/iter.h"

void rush_block_move(char *to, int64_t to_stride, const char *from, int64_t from_stride, int64_t n, int size)
{
    static const uint8_t of_size[17] = {[1] = RUSH_U8, [2] = RUSH_I16, [4] = RUSH_I32, [8] = RUSH_I64, [16] = RUSH_C128};
    rush_convert_many(to, of_size[size], to_stride, from, of_size[size], from_stride, n);
}

unsigned rush_block_ones(const rush_block_loop *r, unsigned mask)
{
    static const uint8_t order[] = {6, 4, 2, 1};
    for (int i = 0; i < 4; i++)
        if ((order[i] & mask) == order[i] && r->ones >> order[i] & 1) return order[i];
    return 0;
}

/* Functions like exp have a vector form, and a scalar one for what is left of a loop, and they may round differently. So
 * that an element's value depends neither on its place nor on the threads, what is left is run as a whole vector too. */
static void run_even(const rush_block_loop *r, char *const *p, int64_t n, unsigned one)
{
    char buffer[RUSH_LOOP_OPERANDS][RUSH_LOOP_EVEN * 16] __attribute__((aligned(64)));
    char *q[RUSH_LOOP_OPERANDS];
    int64_t whole = n / RUSH_LOOP_EVEN * RUSH_LOOP_EVEN, rest = n - whole;
    if (whole) r->loop(p, whole, r->args, one);
    if (!rest) return;
    for (int k = 0; k < r->n; k++) {
        bool single = k >= r->nout && one >> (k - r->nout) & 1;
        char *from = p[k] + (single ? 0 : whole * r->size[k]);
        q[k] = single ? from : buffer[k];
        for (int64_t i = 0; k >= r->nout && !single && i < RUSH_LOOP_EVEN; i += rest) memcpy(q[k] + i * r->size[k], from, (size_t)(RUSH_MIN(rest, RUSH_LOOP_EVEN - i) * r->size[k]));
    }
    r->loop(q, RUSH_LOOP_EVEN, r->args, one);
    for (int k = 0; k < r->nout; k++) memcpy(p[k] + whole * r->size[k], q[k], (size_t)(rest * r->size[k]));
}

void rush_block_run(const rush_block_loop *r, char *const *p, int64_t n, unsigned one)
{
    if (r->even) run_even(r, p, n, one);
    else r->loop(p, n, r->args, one);
}
