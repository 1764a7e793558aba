/* repack.c - the reorders that matter, done by kernels of our own: oneDNN 2's take two to three times as long.
 *
 * Known are dense images that become channels-last or come from it, convolution weights in blocks of 16 (or of a
 * multiple of 16 outputs), and the right-hand matrices of bfloat16 products. All else is left to oneDNN.
 */
#include "config.h"
#include "kernels/cpu/repack.h"
#include "kernels/engine/engine.h"
#include "tensor/iter.h"

#if RUSH_HAS_ONEDNN
#include "kernels/engine/onednn.h"

/* A layout as a descriptor tells it: dimensions, and within them blocks, the innermost last. */
typedef struct layout {
    dnnl_data_type_t type;
    int nd, nblocks;
    const int64_t *dims, *strides, *blocks, *block_of;
} layout;

#if DNNL_VERSION_MAJOR >= 3
/* False when there is padding, an offset, or no such layout. */
static bool look(layout *l, rush_const_desc md)
{
    dnnl_format_kind_t kind;
    int64_t offset;
    const int64_t *padded;
    bool known = dnnl_memory_desc_query(md, dnnl_query_format_kind, &kind) == dnnl_success && kind == dnnl_blocked &&
                 dnnl_memory_desc_query(md, dnnl_query_submemory_offset_s64, &offset) == dnnl_success && !offset &&
                 dnnl_memory_desc_query(md, dnnl_query_padded_dims, &padded) == dnnl_success &&
                 dnnl_memory_desc_query(md, dnnl_query_data_type, &l->type) == dnnl_success &&
                 dnnl_memory_desc_query(md, dnnl_query_ndims_s32, &l->nd) == dnnl_success &&
                 dnnl_memory_desc_query(md, dnnl_query_dims, &l->dims) == dnnl_success &&
                 dnnl_memory_desc_query(md, dnnl_query_strides, &l->strides) == dnnl_success &&
                 dnnl_memory_desc_query(md, dnnl_query_inner_nblks_s32, &l->nblocks) == dnnl_success &&
                 dnnl_memory_desc_query(md, dnnl_query_inner_blks, &l->blocks) == dnnl_success &&
                 dnnl_memory_desc_query(md, dnnl_query_inner_idxs, &l->block_of) == dnnl_success;
    return known && !memcmp(l->dims, padded, sizeof *padded * (size_t)l->nd);
}
#else
static bool look(layout *l, rush_const_desc md)
{
    const dnnl_blocking_desc_t *b = &md->format_desc.blocking;
    *l = (layout){md->data_type, md->ndims, b->inner_nblks, md->dims, b->strides, b->inner_blks, b->inner_idxs};
    return md->format_kind == dnnl_blocked && !md->offset0 && !md->extra.flags && !memcmp(md->dims, md->padded_dims, sizeof *md->dims * (size_t)md->ndims);
}
#endif

static int64_t space(const layout *l)
{
    int64_t n = 1;
    for (int i = 2; i < l->nd; ++i) n *= l->dims[i];
    return n;
}

/* Dimensions from `first` on follow each other densely, the last with this step. */
static bool dense_from(const layout *l, int first, int64_t step)
{
    for (int i = l->nd - 1; i >= first; --i) {
        if (l->dims[i] != 1 && l->strides[i] != step) return false;
        step *= l->dims[i];
    }
    return true;
}

static bool plan_image(rush_repack *l, const layout *want)
{
    int64_t points = space(want), channels = want->dims[1];
    if (want->nblocks || want->strides[1] != 1 || channels < 8 || points < 8) return false;
    if (!dense_from(want, 2, channels) || (want->dims[0] != 1 && want->strides[0] != points * channels)) return false;
    *l = (rush_repack){.kind = RUSH_REPACK_IMAGE, .outer = want->dims[0], .rows = channels, .columns = points};
    return true;
}

static bool plan_weight(rush_repack *l, const layout *want)
{
    const int64_t *blocks = want->blocks, *of = want->block_of;
    int64_t taps = space(want), out = want->dims[0], in = want->dims[1];
    bool by_out = want->nblocks == 1 && of[0] == 0 && blocks[0] % 16 == 0;
    bool both = want->nblocks == 2 && blocks[0] == 16 && blocks[1] == 16 && of[0] + of[1] == 1;
    if ((!by_out && !both) || out % 16 || in % 16) return false;
    int64_t tap_step = want->strides[want->nd - 1];
    if (taps == 1) tap_step = 0;
    else if (!dense_from(want, 2, tap_step)) return false;
    bool inner_out = by_out || of[1] == 0;
    *l = (rush_repack){.kind = inner_out ? RUSH_REPACK_OUTPUTS : RUSH_REPACK_INPUTS, .outer = out / 16, .rows = in / 16, .taps = taps,
                       .block = by_out ? blocks[0] : 16, .out_step = want->strides[0], .in_step = by_out ? 16 * want->strides[1] : want->strides[1],
                       .step = by_out ? want->strides[1] : 16, .tap_step = tap_step, .row = in * taps};
    return true;
}

/* (k, n) in blocks of 32 rows in pairs and of n columns: BA16a64b2a and its kin. */
static bool plan_pairs(rush_repack *l, const layout *user, const layout *want)
{
    const int64_t *s = user->strides, *blocks = want->blocks, *of = want->block_of;
    if (want->nd != 2 || want->nblocks != 3 || blocks[0] != 16 || blocks[2] != 2 || blocks[1] % 16) return false;
    if (of[0] || of[1] != 1 || of[2] || (s[0] != 1 && s[1] != 1) || (s[1] != 1 && s[1] % 2)) return false;
    *l = (rush_repack){.kind = s[1] == 1 ? RUSH_REPACK_PAIRS : RUSH_REPACK_PAIRS_ACROSS, .outer = want->dims[1] / blocks[1],
                       .rows = want->dims[0] / 32, .block = blocks[1], .out_step = want->strides[1], .in_step = want->strides[0],
                       .row = s[1] == 1 ? s[0] : s[1]};
    return true;
}

/* Outputs, taps, inputs: a weight whose channels are last. */
static bool inputs_last(const layout *user)
{
    int64_t in = user->dims[1];
    return user->strides[1] == 1 && dense_from(user, 2, in) && user->strides[0] == in * space(user);
}

bool rush_repack_plan(rush_repack *l, rush_const_desc user_desc, rush_const_desc want_desc)
{
    layout user, want;
    l->kind = RUSH_REPACK_NONE;
    if (!rush_k_repack->transpose || !look(&user, user_desc) || !look(&want, want_desc) || user.nblocks) return false;
    if (user.type == dnnl_bf16) return plan_pairs(l, &user, &want);
    if (user.type != dnnl_f32 || user.nd < 4) return false;
    if (dense_from(&user, 0, 1)) return plan_image(l, &want) || plan_weight(l, &want);
    if (!inputs_last(&user) || !plan_weight(l, &want)) return false;
    return l->last = true;
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

/* The same of weights with their inputs last: for each tap a matrix, transposed or not, of as many inputs as lie evenly. */
static void weights_last(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    const rush_repack *l = j->l;
    int64_t in = l->rows * 16, size = sizeof(float), each = l->in_step == 16 * l->step ? in : 16;
    for (int64_t o = begin; o < end; ++o)
        for (int64_t k = 0; k < l->taps; ++k)
            for (int64_t i = 0; i < in; i += each) {
                const float *from = j->from + o * 16 * l->row + k * in + i;
                float *to = j->to + o * 16 / l->block * l->out_step + o * 16 % l->block + i / 16 * l->in_step + k * l->tap_step;
                if (l->kind == RUSH_REPACK_OUTPUTS) rush_k_copy->transpose((char *)to, l->step * size, (const char *)from, l->row * size, each, 16, (size_t)size);
                else
                    for (int x = 0; x < 16; ++x)
                        for (int64_t y = 0; y < each; y += 16) memcpy(to + x * l->step + y / 16 * l->in_step, from + x * l->row + y, 16 * sizeof *to);
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

bool rush_repack_both_ways(const rush_repack *l) { return l->kind == RUSH_REPACK_IMAGE || (l->kind == RUSH_REPACK_OUTPUTS && !l->last); }

void rush_repack_run(const rush_repack *l, void *to, const void *from, bool back)
{
    job j = {l, to, from, back};
    if (l->kind == RUSH_REPACK_IMAGE) {
        int64_t tasks = l->outer * ((l->columns + PIECE - 1) / PIECE);
        rush_parallel_for(tasks, 1 + 32768 / (PIECE * l->rows), images, &j);
    } else if (l->kind == RUSH_REPACK_PAIRS || l->kind == RUSH_REPACK_PAIRS_ACROSS) {
        rush_parallel_for(l->outer * l->rows, 1 + 32768 / (32 * l->block), pairs, &j);
    } else {
        rush_parallel_for(l->outer, 1 + 32768 / (16 * l->row), l->last ? weights_last : weights, &j);
    }
}

#endif
