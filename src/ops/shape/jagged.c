/* jagged.c - rows of different lengths, packed one behind the other, to and from a padded tensor.
 *
 * Packed values are (total, ...), the padded tensor is (batch, longest, ...); offsets (batch + 1) say where each part begins
 * and ends. Both directions are one walk that copies a part's rows, whole bytes at a time, and each is the other's derivative.
 */
#include "base/base.h"
#include "op/formula.h"
#include "ops/geometry.h"

typedef struct parts {
    char *packed, *padded;
    const int64_t *offset; /* (batch + 1) */
    int64_t longest, row;  /* rows of a padded part; bytes of a row */
    bool pads;             /* from packed to padded, else back */
} parts;

static void copy_parts(void *arg, int64_t begin, int64_t end)
{
    const parts *p = arg;
    for (int64_t b = begin; b < end; ++b) {
        size_t bytes = (size_t)(RUSH_MIN(p->offset[b + 1] - p->offset[b], p->longest) * p->row);
        char *packed = p->packed + p->offset[b] * p->row, *padded = p->padded + b * p->longest * p->row;
        if (bytes) memcpy(p->pads ? padded : packed, p->pads ? packed : padded, bytes);
    }
}

static int read_offsets(parts *p, const rush_value *list, int64_t batch, int64_t total)
{
    const rush_tensor *t = rush_cast_copy(list->tensors[0], RUSH_I64);
    if (!t) return -1;
    p->offset = rush_ptr(t);
    for (int64_t b = 0; b < batch; ++b)
        RUSH_CHECK(p->offset[b] >= 0 && p->offset[b + 1] >= p->offset[b] && p->offset[b + 1] <= total, RUSH_RUNTIME_ERROR,
                   "part %lld from row %lld to row %lld lies outside of the %lld rows", (long long)b, (long long)p->offset[b], (long long)p->offset[b + 1],
                   (long long)total);
    return 0;
}

static int check_offsets(const rush_value *list)
{
    RUSH_CHECK(list->n == 1 && list->tensors[0], RUSH_RUNTIME_ERROR, "only a single jagged dim is supported for now");
    const rush_tensor *t = list->tensors[0];
    RUSH_CHECK(t->ndim == 1, RUSH_RUNTIME_ERROR, "expected 1D offsets, but got offsets.dim() == %d", t->ndim);
    RUSH_CHECK(t->size[0] > 0, RUSH_RUNTIME_ERROR, "offsets need one element at least");
    return 0;
}

/* `packed` and `padded` are contiguous; one of them is to be filled. */
static void walk(parts *p, const rush_tensor *packed, const rush_tensor *padded)
{
    int64_t batch = padded->size[0];
    p->packed = rush_ptr(packed);
    p->padded = rush_ptr(padded);
    p->longest = padded->size[1];
    p->row = (int64_t)rush_dtypes[packed->dtype].size;
    for (int d = 1; d < packed->ndim; ++d) p->row *= packed->size[d];
    if (p->longest && p->row) rush_parallel_for(batch, RUSH_MAX(1, 32768 / RUSH_MAX(1, p->longest * p->row)), copy_parts, p);
}

/* ---- packed to padded ---- */

/* in: values, offsets, max_lengths, padding_value */
static int pad_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *t = in[0].t;
    int64_t size[RUSH_MAXDIM];
    if (check_offsets(&in[1])) return -1;
    RUSH_CHECK(in[2].n == 1, RUSH_RUNTIME_ERROR, "only a single jagged dim is supported for now");
    RUSH_CHECK(t->ndim && t->ndim < RUSH_MAXDIM, RUSH_VALUE_ERROR, "values of %d dimensions", t->ndim);
    RUSH_CHECK(!rush_dtype_is_complex(t->dtype), RUSH_NOT_IMPLEMENTED, "\"_jagged_to_padded_dense_forward_cpu\" not implemented for '%s'", rush_dtype_word(t->dtype));
    size[0] = in[1].tensors[0]->size[0] - 1;
    size[1] = in[2].ints[0];
    RUSH_CHECK(size[1] >= 0, RUSH_RUNTIME_ERROR, "Trying to create tensor with negative dimension %lld", (long long)size[1]);
    memcpy(size + 2, t->size + 1, sizeof *size * (size_t)(t->ndim - 1));
    return rush_out_t(out, 0, t, t->dtype, t->ndim + 1, size) ? 0 : -1;
}

static void pad_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    parts p = {.pads = true};
    const rush_tensor *values = rush_cast_copy(in[0].t, in[0].t->dtype);
    if (!values || read_offsets(&p, &in[1], out[0].t->size[0], values->size[0])) return;
    rush_fill_into(out[0].t, in[3]);
    walk(&p, values, out[0].t);
}

static void pad_grad(rush_grads *s)
{
    if (s->g[0]) s->gin[0] = T("_jagged_to_padded_dense_backward", V(s->g[0]), s->in[1], V(s->in[0].t->size[0]));
}

static rush_op op_jagged_to_padded = {
    .schema = "_jagged_to_padded_dense_forward(Tensor values, Tensor[] offsets, SymInt[] max_lengths, float padding_value=0.0) -> Tensor",
    .doc = "Parts of values (total, ...), which lie between offsets, as rows of one padded tensor (batch, max_lengths[0], ...). Longer ones are cut off.",
    .shape = pad_shape, .cpu = pad_cpu, .grad = pad_grad, .saves = "offsets",
};

/* ---- padded to packed ---- */

/* in: dense, offsets, total_L */
static int pack_check(const rush_value *in)
{
    const rush_tensor *t = in[0].t;
    if (check_offsets(&in[1])) return -1;
    RUSH_CHECK(t->ndim >= 2, RUSH_RUNTIME_ERROR, "a padded tensor (batch, longest, ...) was expected, but got %s", rush_shape_of(t));
    int64_t batch = in[1].tensors[0]->size[0] - 1;
    RUSH_CHECK(t->size[0] >= batch, RUSH_RUNTIME_ERROR, "offsets of %lld parts, but a padded tensor of %lld", (long long)batch, (long long)t->size[0]);
    return 0;
}

static int make_packed(const rush_value *in, rush_value *out, int64_t total)
{
    const rush_tensor *t = in[0].t;
    int64_t size[RUSH_MAXDIM];
    size[0] = total;
    memcpy(size + 1, t->size + 2, sizeof *size * (size_t)(t->ndim - 2));
    return rush_out_t(out, 0, t, t->dtype, t->ndim - 1, size) ? 0 : -1;
}

/* The size is the last offset, whether it is given or not: the kernel makes the result. */
static int pack_shape(const rush_op *op, const rush_value *in, rush_value *out) { return pack_check(in); }

static void pack(const rush_value *in, rush_value *out, parts *p)
{
    const rush_tensor *dense = rush_cast_copy(in[0].t, in[0].t->dtype);
    if (!dense) return;
    int64_t size[RUSH_MAXDIM];
    memcpy(size, dense->size, sizeof *size * (size_t)dense->ndim);
    size[0] = in[1].tensors[0]->size[0] - 1; /* what lies beyond is not read */
    if ((dense = rush_tensor_alias(dense, dense->ndim, size, dense->stride, dense->offset))) walk(p, out[0].t, dense);
}

static void pack_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    parts p = {0};
    int64_t batch = in[1].tensors[0]->size[0] - 1, longest = in[0].t->size[1];
    if (read_offsets(&p, &in[1], batch, INT64_MAX)) return;
    if (HAS(in[2]) && p.offset[batch] != in[2].i) {
        rush_fail(RUSH_RUNTIME_ERROR, "final offset should match total_L value");
        return;
    }
    for (int64_t b = 0; b < batch; ++b)
        if (p.offset[b + 1] - p.offset[b] > longest) {
            rush_fail(RUSH_RUNTIME_ERROR, "found batch item of length %lld when max length specified by padded input is %lld", (long long)(p.offset[b + 1] - p.offset[b]), (long long)longest);
            return;
        }
    if (make_packed(in, out, p.offset[batch])) return;
    rush_zero_into(out[0].t);
    pack(in, out, &p);
}

static void pack_grad(rush_grads *s)
{
    if (!s->g[0]) return;
    const rush_tensor *dense = s->in[0].t;
    rush_tensor *g = T("_jagged_to_padded_dense_forward", V(s->g[0]), s->in[1], INTS(dense->size[1]));
    int64_t beyond = g ? dense->size[0] - g->size[0] : 0, pad[2 * RUSH_MAXDIM] = {0};
    pad[2 * dense->ndim - 1] = beyond;
    s->gin[0] = beyond ? T("constant_pad_nd", V(g), rush_v_ints(pad, 2 * (size_t)dense->ndim)) : g;
}

static rush_op op_padded_to_jagged = {
    .schema = "_padded_dense_to_jagged_forward(Tensor dense, Tensor[] offsets, SymInt? total_L=None) -> Tensor",
    .doc = "The parts of a padded tensor (batch, longest, ...), one behind the other: values (total_L, ...), which is what offsets end with.",
    .shape = pack_shape, .cpu = pack_cpu, .grad = pack_grad, .saves = "offsets", .flags = RUSH_DATA_SIZED,
};

/* ---- the gradient of padding: rows that no part has are 0 ---- */

static int unpad_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (pack_check(in)) return -1;
    RUSH_CHECK(in[2].i >= 0, RUSH_RUNTIME_ERROR, "Trying to create tensor with negative dimension %lld", (long long)in[2].i);
    return make_packed(in, out, in[2].i);
}

static void unpad_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    parts p = {0};
    if (read_offsets(&p, &in[1], in[1].tensors[0]->size[0] - 1, out[0].t->size[0])) return;
    rush_zero_into(out[0].t);
    pack(in, out, &p);
}

static rush_op op_jagged_to_padded_backward = {
    .schema = "_jagged_to_padded_dense_backward(Tensor grad, Tensor[] offsets, SymInt total_L) -> Tensor",
    .doc = "The gradient of _jagged_to_padded_dense_forward by its values.",
    .shape = unpad_shape, .cpu = unpad_cpu, .grad = pack_grad, .saves = "offsets", .flags = RUSH_HIDDEN,
};

RUSH_FAMILY(jagged, &op_jagged_to_padded, &op_padded_to_jagged, &op_jagged_to_padded_backward)
