/* sequence.c - batches of sequences of different lengths: padded, and packed without padding; and weight norm.
 *
 * A packed batch holds the rows step by step: those of all sequences at step 0, then of those that have a step 1, and
 * so on; batch_sizes says how many each step has. Both directions are one index_select with the rows computed here.
 */
#include "op/formula.h"
#include "ops/geometry.h"
#include "ops/reduce/reduce.h"

/* (A, B, ...) as rows (A * B, ...), and back. */
static rush_tensor *as_rows(rush_tensor *t) { return T("flatten.using_ints", V(t), V((int64_t)0), V((int64_t)1)); }

static rush_tensor *rows_to(rush_tensor *rows, int64_t a, int64_t b) { return T("unflatten.int", V(rows), V((int64_t)0), INTS(a, b)); }

/* in = input (T, B, ...) or (B, T, ...), lengths, batch_first. out = data, batch_sizes */
static int pack_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    bool batch_first = in[2].i;
    rush_tensor *x = in[0].t;
    int64_t batch = in[1].t->numel, n = 0;
    RUSH_CHECK(x->numel > 0, RUSH_RUNTIME_ERROR, "Cannot pack empty tensors.");
    const int64_t *length = rush_numbers_of(in[1].t);
    if (!length) return -1;
    RUSH_CHECK(in[1].t->ndim == 1 && in[1].t->dtype == RUSH_I64, RUSH_RUNTIME_ERROR, "'lengths' argument should be a 1D CPU int64 tensor, but got %dD cpu %s tensor",
               in[1].t->ndim, rush_dtype_word(in[1].t->dtype));
    if (rush_dim_wrap(1, x->ndim) < 0) return -1;
    if (batch_first) x = transpose(x, 0, 1);
    if (!x) return -1;
    RUSH_CHECK(batch == x->size[1], RUSH_RUNTIME_ERROR, "Expected `len(lengths)` to be equal to batch_size, but got %lld (batch_size=%lld)", (long long)batch,
               (long long)x->size[1]);
    RUSH_CHECK(batch > 0 && length[batch - 1] > 0, RUSH_RUNTIME_ERROR,
               "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0");
    for (int64_t b = 1; b < batch; ++b)
        RUSH_CHECK(length[b] <= length[b - 1], RUSH_RUNTIME_ERROR,
                   "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass `enforce_sorted=False` to "
                   "pack_padded_sequence and/or pack_sequence to sidestep this requirement if you do not need ONNX exportability.");
    int64_t steps = length[0], total = 0;
    RUSH_CHECK(steps <= x->size[0], RUSH_RUNTIME_ERROR, "Expected the longest sequence to have at most %lld steps, but got a length of %lld",
               (long long)x->size[0], (long long)steps);
    for (int64_t b = 0; b < batch; ++b) total += length[b];
    int64_t *row = rush_scope_alloc(sizeof *row * (size_t)total), *size = rush_scope_alloc(sizeof *size * (size_t)steps);
    if (!row || !size) return -1;
    for (int64_t t = 0; t < steps; ++t) {
        int64_t here = batch;
        while (length[here - 1] <= t) --here;
        size[t] = here;
        for (int64_t b = 0; b < here; ++b) row[n++] = t * batch + b;
    }
    rush_tensor *rows = rush_to_device(rush_from_data(row, RUSH_I64, 1, &total), x);
    out[0] = rush_v_tensor(T("index_select", V(as_rows(x)), V((int64_t)0), V(rows)));
    out[1] = rush_v_tensor(rush_from_data(size, RUSH_I64, 1, &steps));
    return rush_failed() ? -1 : 0;
}
static rush_op op_pack = {
    .schema = "_pack_padded_sequence(Tensor input, Tensor lengths, bool batch_first) -> (Tensor, Tensor)",
    .doc = "The rows of a padded batch without the padding, step by step, and how many each step has.", .run = pack_run, .flags = RUSH_CROSS_DEVICE,
};

/* in = data, batch_sizes, batch_first, padding_value, total_length. out = padded, lengths */
static int unpack_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *data = in[0].t;
    int64_t steps = in[1].t->numel, total = in[4].i, start = 0;
    const int64_t *size = rush_numbers_of(in[1].t);
    if (!size) return -1;
    RUSH_CHECK(steps > 0 && data->ndim >= 1, RUSH_RUNTIME_ERROR, "batch_sizes must not be empty");
    RUSH_CHECK(total >= steps || total <= 0, RUSH_RUNTIME_ERROR,
               "Expected total_length to be at least the length of the longest sequence in input, but got total_length=%lld and max sequence length being %lld",
               (long long)total, (long long)steps);
    int64_t batch = size[0], have = data->size[0], count;
    RUSH_CHECK(batch >= 0 && batch <= have && !__builtin_mul_overflow(RUSH_MAX(total, steps), batch, &count) && count < INT64_MAX / 64, RUSH_RUNTIME_ERROR,
               "batch_sizes do not fit data of %lld rows", (long long)have);
    int64_t *row = rush_scope_alloc(sizeof *row * (size_t)RUSH_MAX(count, 1)), *length = rush_scope_alloc(sizeof *length * (size_t)RUSH_MAX(batch, 1));
    if (!row || !length) return -1;
    for (int64_t b = 0; b < batch; ++b) length[b] = 0;
    for (int64_t t = 0; t * batch < count; ++t) {
        int64_t here = t < steps ? size[t] : 0;
        RUSH_CHECK(here >= 0 && here <= batch && start + here <= have, RUSH_RUNTIME_ERROR, "batch_sizes do not fit data of %lld rows", (long long)have);
        for (int64_t b = 0; b < batch; ++b) {
            row[t * batch + b] = b < here ? start + b : have; /* one row more holds the padding */
            length[b] += b < here;
        }
        start += here;
    }
    int64_t one[RUSH_MAXDIM];
    for (int d = 0; d < data->ndim; ++d) one[d] = d ? data->size[d] : 1;
    rush_tensor *padding = T("new_full", V(data), rush_v_ints(one, data->ndim), in[3]);
    rush_tensor *all = T("cat", rush_v_tensors((rush_tensor *[]){data, padding}, 2), V((int64_t)0));
    rush_tensor *rows = T("index_select", V(all), V((int64_t)0), V(rush_to_device(rush_from_data(row, RUSH_I64, 1, &count), data)));
    rush_tensor *padded = rows ? rows_to(rows, RUSH_MAX(total, steps), batch) : NULL;
    if (padded && in[2].i) padded = transpose(padded, 0, 1);
    out[0] = rush_v_tensor(padded);
    out[1] = rush_v_tensor(rush_from_data(length, RUSH_I64, 1, &batch));
    return rush_failed() ? -1 : 0;
}
static rush_op op_unpack = {
    .schema = "_pad_packed_sequence(Tensor data, Tensor batch_sizes, bool batch_first, Scalar padding_value, int total_length) -> (Tensor, Tensor)",
    .doc = "A packed batch with padding again, and the lengths.", .run = unpack_run, .flags = RUSH_CROSS_DEVICE,
};

/* in = sequences, batch_first, padding_value, padding_side */
static int pad_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    uint32_t n = in[0].n;
    bool left = !strcmp(in[3].s, "left");
    int64_t longest = 0;
    RUSH_CHECK(n > 0, RUSH_RUNTIME_ERROR, "received an empty list of sequences");
    RUSH_CHECK(left || !strcmp(in[3].s, "right"), RUSH_RUNTIME_ERROR, "Expected padding_side to be one of left or right, but got %s.", in[3].s);
    rush_tensor **all = rush_scope_alloc(sizeof *all * n), *first = in[0].tensors[0];
    if (!all) return -1;
    for (uint32_t k = 0; k < n; ++k) {
        const rush_tensor *t = in[0].tensors[k];
        RUSH_CHECK(t->ndim >= 1 && t->ndim == first->ndim, RUSH_RUNTIME_ERROR, "sequences must have the same number of dimensions, at least 1, but got %s and %s",
                   rush_shape_of(first), rush_shape_of(t));
        longest = RUSH_MAX(longest, t->size[0]);
    }
    for (uint32_t k = 0; k < n; ++k) {
        rush_tensor *t = in[0].tensors[k];
        int64_t missing = longest - t->size[0], border[2 * RUSH_MAXDIM] = {0};
        border[2 * (t->ndim - 1) + (left ? 0 : 1)] = missing;
        all[k] = missing ? T("constant_pad_nd", V(t), rush_v_ints(border, 2 * (size_t)t->ndim), in[2]) : t;
    }
    return rush_result(out, rush_failed() ? NULL : T("stack", rush_v_tensors(all, n), V((int64_t)(in[1].i ? 0 : 1))));
}
static rush_op op_pad_sequence = {
    .schema = "pad_sequence(Tensor[] sequences, bool batch_first=False, float padding_value=0.0, str padding_side=\"right\") -> Tensor",
    .method = RUSH_NN,
    .doc = "Sequences of different lengths stacked, filled up at one side.", .run = pad_run,
};

/* ---- weight norm: in = v, g, dim ---- */

static int weight_norm_interface_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *norm = T("norm_except_dim", in[0], V((int64_t)2), in[2]);
    out[0] = rush_v_tensor(norm ? mul(in[0].t, div_(in[1].t, norm)) : NULL);
    out[1] = rush_v_tensor(norm);
    return rush_failed() ? -1 : 0;
}
static rush_op op_weight_norm_interface = {
    .schema = "_weight_norm_interface(Tensor v, Tensor g, int dim=0) -> (Tensor, Tensor)",
    .doc = "v with the length g along dim, and the lengths that v had.", .run = weight_norm_interface_run,
};

static int weight_norm_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value both[RUSH_MAXOUT] = {0};
    if (weight_norm_interface_run(op, in, both)) return -1;
    return rush_result(out, both[0].t);
}
static rush_op op_weight_norm = {
    .schema = "_weight_norm(Tensor v, Tensor g, int dim=0) -> Tensor", .doc = "v with the length g along dim.", .run = weight_norm_run,
};

RUSH_FAMILY(sequence, &op_pack, &op_unpack, &op_pad_sequence, &op_weight_norm_interface, &op_weight_norm)
