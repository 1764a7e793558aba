/* repack.c - the reorders that matter, done by kernels of our own: oneDNN 2's take two to three times as long.
 *
 * Known are dense images that become channels-last or come from it, convolution weights in blocks of 16 (or of a
 * multiple of 16 outputs), and the right-hand matrices of bfloat16 products. All else is left to oneDNN.
 */
#include "config.h"
#include "kernels/cpu/repack.h"
#include "kernels/engine/engine.h"

#if RUSH_HAS_ONEDNN
#include "kernels/engine/onednn.h"

static bool whole(const dnnl_memory_desc_t *md)
{
    return md->format_kind == dnnl_blocked && !md->offset0 && !md->extra.flags &&
           !memcmp(md->dims, md->padded_dims, sizeof *md->dims * (size_t)md->ndims);
}

static int64_t space(const dnnl_memory_desc_t *md)
{
    int64_t n = 1;
    for (int i = 2; i < md->ndims; ++i) n *= md->dims[i];
    return n;
}

/* Dimensions from `first` on follow each other densely, the last with this step. */
static bool dense_from(const dnnl_memory_desc_t *md, int first, int64_t step)
{
    for (int i = md->ndims - 1; i >= first; --i) {
        if (md->dims[i] != 1 && md->format_desc.blocking.strides[i] != step) return false;
        step *= md->dims[i];
    }
    return true;
}

static bool plan_image(rush_repack *l, const dnnl_memory_desc_t *want)
{
    const dnnl_blocking_desc_t *b = &want->format_desc.blocking;
    int64_t points = space(want), channels = want->dims[1];
    if (b->inner_nblks || b->strides[1] != 1 || channels < 8 || points < 8) return false;
    if (!dense_from(want, 2, channels) || (want->dims[0] != 1 && b->strides[0] != points * channels)) return false;
    *l = (rush_repack){.kind = RUSH_REPACK_IMAGE, .outer = want->dims[0], .rows = channels, .columns = points};
    return true;
}

static bool plan_weight(rush_repack *l, const dnnl_memory_desc_t *want)
{
    const dnnl_blocking_desc_t *b = &want->format_desc.blocking;
    int64_t taps = space(want), out = want->dims[0], in = want->dims[1];
    int last = want->ndims - 1;
    bool by_out = b->inner_nblks == 1 && b->inner_idxs[0] == 0 && b->inner_blks[0] % 16 == 0;
    bool both = b->inner_nblks == 2 && b->inner_blks[0] == 16 && b->inner_blks[1] == 16 && b->inner_idxs[0] + b->inner_idxs[1] == 1;
    if ((!by_out && !both) || out % 16 || in % 16) return false;
    int64_t tap_step = b->strides[last];
    if (taps == 1) tap_step = 0;
    else if (!dense_from(want, 2, tap_step)) return false;
    bool inner_out = by_out || b->inner_idxs[1] == 0;
    *l = (rush_repack){.kind = inner_out ? RUSH_REPACK_OUTPUTS : RUSH_REPACK_INPUTS, .outer = out / 16, .rows = in / 16, .taps = taps,
                       .block = by_out ? b->inner_blks[0] : 16, .out_step = b->strides[0], .in_step = by_out ? 16 * b->strides[1] : b->strides[1],
                       .step = by_out ? b->strides[1] : 16, .tap_step = tap_step, .row = in * taps};
    return true;
}

/* (k, n) in blocks of 32 rows in pairs and of n columns: BA16a64b2a and its kin. */
static bool plan_pairs(rush_repack *l, const dnnl_memory_desc_t *user, const dnnl_memory_desc_t *want)
{
    const dnnl_blocking_desc_t *b = &want->format_desc.blocking;
    const int64_t *s = user->format_desc.blocking.strides;
    if (want->ndims != 2 || b->inner_nblks != 3 || b->inner_blks[0] != 16 || b->inner_blks[2] != 2 || b->inner_blks[1] % 16) return false;
    if (b->inner_idxs[0] || b->inner_idxs[1] != 1 || b->inner_idxs[2] || (s[0] != 1 && s[1] != 1) || (s[1] != 1 && s[1] % 2)) return false;
    *l = (rush_repack){.kind = s[1] == 1 ? RUSH_REPACK_PAIRS : RUSH_REPACK_PAIRS_ACROSS, .outer = want->dims[1] / b->inner_blks[1],
                       .rows = want->dims[0] / 32, .block = b->inner_blks[1], .out_step = b->strides[1], .in_step = b->strides[0],
                       .row = s[1] == 1 ? s[0] : s[1]};
    return true;
}

bool rush_repack_plan(rush_repack *l, const dnnl_memory_desc_t *user, const dnnl_memory_desc_t *want)
{
    l->kind = RUSH_REPACK_NONE;
    if (!rush_k_repack->transpose || !whole(user) || !whole(want) || user->format_desc.blocking.inner_nblks) return false;
    if (user->data_type == dnnl_bf16) return plan_pairs(l, user, want);
    if (user->data_type != dnnl_f32 || user->ndims < 4 || !dense_from(user, 0, 1)) return false;
    return plan_image(l, want) || plan_weight(l, want);
}

typedef struct job {
    const rush_repack *l;
    float *to;
    const float *from;
    bool back;
} job;

#define PIECE 64 /* columns of an image that one task transposes */

static void images(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    const rush_repack *l = j->l;
    int64_t pieces = (l->columns + PIECE - 1) / PIECE;
    for (int64_t t = begin; t < end; ++t) {
        int64_t at = t / pieces * l->rows * l->columns, c = t % pieces * PIECE, n = RUSH_MIN(l->columns - c, PIECE);
        if (j->back) rush_k_repack->transpose(j->to + at + c, l->columns, j->from + at + c * l->rows, l->rows, n, l->rows);
        else rush_k_repack->transpose(j->to + at + c * l->rows, l->rows, j->from + at + c, l->columns, l->rows, n);
    }
}

static void weights(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    const rush_repack *l = j->l;
    for (int64_t o = begin; o < end; ++o)
        for (int64_t i = 0; i < l->rows; ++i) {
            int64_t plain = (o * l->row + i * l->taps) * 16;
            int64_t blocked = o * 16 / l->block * l->out_step + o * 16 % l->block + i * l->in_step;
            if (j->back) rush_k_repack->outputs_back(j->to + plain, l->row, j->from + blocked, l->step, l->tap_step, l->taps);
            else if (l->kind == RUSH_REPACK_OUTPUTS)
                rush_k_repack->outputs(j->to + blocked, l->step, l->tap_step, j->from + plain, l->row, l->taps);
            else rush_k_repack->inputs(j->to + blocked, l->step, l->tap_step, j->from + plain, l->row, l->taps);
        }
}

/* Two bfloat16 of a column that lies densely are one element of four bytes. */
static void pairs(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    const rush_repack *l = j->l;
    for (int64_t t = begin; t < end; ++t) {
        int64_t n = t / l->rows, k = t % l->rows;
        uint16_t *to = (uint16_t *)j->to + n * l->out_step + k * l->in_step;
        const uint16_t *from = (const uint16_t *)j->from;
        if (l->kind == RUSH_REPACK_PAIRS) rush_k_repack->pairs(to, from + k * 32 * l->row + n * l->block, l->row, l->block);
        else rush_k_repack->transpose((float *)to, l->block, (const float *)(from + n * l->block * l->row + k * 32), l->row / 2, l->block, 16);
    }
}

bool rush_repack_both_ways(const rush_repack *l) { return l->kind == RUSH_REPACK_IMAGE || l->kind == RUSH_REPACK_OUTPUTS; }

void rush_repack_run(const rush_repack *l, void *to, const void *from, bool back)
{
    job j = {l, to, from, back};
    if (l->kind == RUSH_REPACK_IMAGE) {
        int64_t tasks = l->outer * ((l->columns + PIECE - 1) / PIECE);
        rush_parallel_for(tasks, 1 + 32768 / (PIECE * l->rows), images, &j);
    } else if (l->kind == RUSH_REPACK_PAIRS || l->kind == RUSH_REPACK_PAIRS_ACROSS) {
        rush_parallel_for(l->outer * l->rows, 1 + 32768 / (32 * l->block), pairs, &j);
    } else {
        rush_parallel_for(l->outer, 1 + 32768 / (16 * l->row), weights, &j);
    }
}

#endif
