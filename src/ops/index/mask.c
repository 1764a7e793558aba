/* mask.c - masks: masked_fill, masked_select, masked_scatter, nonzero, where(condition).
 *
 * Results whose size depends on data are made by the kernels (RUSH_DATA_SIZED). Large masks are counted in chunks first, so
 * that each chunk knows where its part begins.
 */
#include "kernels/cpu/mask.h"
#include "op/formula.h"
#include "op/watch.h"
#include "ops/geometry.h"
#include "ops/index/places.h"

#define SELF (in[0].t)
#define CHUNK 65536

/* ---- chunks of a mask ---- */

typedef struct chunks {
    const uint8_t *mask;
    int64_t n, count, *begin; /* begin[c]: results before chunk c; one more at the end */
    char *dst;
    const char *src;
    size_t size;
} chunks;

static void count_chunks(void *arg, int64_t first, int64_t last)
{
    const chunks *c = arg;
    for (int64_t k = first; k < last; ++k) c->begin[k + 1] = rush_k_mask->count(c->mask + k * CHUNK, RUSH_MIN(CHUNK, c->n - k * CHUNK));
}

/* Total number of chosen elements; -1 */
static int64_t chunks_start(chunks *c, const uint8_t *mask, int64_t n)
{
    c->mask = mask;
    c->n = n;
    c->count = (n + CHUNK - 1) / CHUNK;
    c->begin = rush_scope_alloc(sizeof *c->begin * (size_t)(c->count + 1));
    if (!c->begin) return -1;
    c->begin[0] = 0;
    rush_parallel_for(c->count, 1, count_chunks, c);
    for (int64_t k = 0; k < c->count; ++k) c->begin[k + 1] += c->begin[k];
    return c->begin[c->count];
}

static void pack_chunks(void *arg, int64_t first, int64_t last)
{
    const chunks *c = arg;
    int64_t size = (int64_t)c->size;
    for (int64_t k = first; k < last; ++k)
        rush_k_mask->pack(c->dst + c->begin[k] * size, c->src + k * CHUNK * size, c->mask + k * CHUNK, RUSH_MIN(CHUNK, c->n - k * CHUNK), c->size);
}

static void position_chunks(void *arg, int64_t first, int64_t last)
{
    const chunks *c = arg;
    for (int64_t k = first; k < last; ++k)
        rush_k_mask->positions((int64_t *)c->dst + c->begin[k], c->mask + k * CHUNK, RUSH_MIN(CHUNK, c->n - k * CHUNK), k * CHUNK);
}

static void spread_chunks(void *arg, int64_t first, int64_t last)
{
    const chunks *c = arg;
    int64_t size = (int64_t)c->size;
    for (int64_t k = first; k < last; ++k)
        rush_k_mask->spread(c->dst + k * CHUNK * size, c->src + c->begin[k] * size, c->mask + k * CHUNK, RUSH_MIN(CHUNK, c->n - k * CHUNK), c->size);
}

rush_tensor *rush_masked_pack(const rush_tensor *t, const rush_tensor *mask)
{
    chunks c;
    const rush_tensor *data = rush_contiguous_copy(t);
    mask = rush_cast_copy(mask, RUSH_BOOL);
    if (!data || !mask) return NULL;
    int64_t total = chunks_start(&c, rush_ptr(mask), mask->numel);
    rush_tensor *out = total < 0 ? NULL : rush_tensor_new(t->dtype, t->device, 1, &total);
    if (!out || !total) return out;
    c.dst = rush_ptr(out);
    c.src = rush_ptr(data);
    c.size = rush_dtypes[t->dtype].size;
    rush_parallel_for(c.count, 1, pack_chunks, &c);
    return out;
}

/* ---- nonzero ---- */

typedef struct unravel {
    int64_t *p, n; /* row d at p + d * n; the last row has linear positions to begin with */
    int ndim;
    const int64_t *size;
} unravel;

/* Linear positions, which increase, into coordinates: as a rule the next one is a few steps on in the last dimension. */
static void unravel_range(void *arg, int64_t begin, int64_t end)
{
    const unravel *u = arg;
    int64_t at[RUSH_MAXDIM] = {0}, before = 0;
    int last = u->ndim - 1;
    for (int64_t i = begin; i < end; ++i) {
        int64_t now = u->p[last * u->n + i];
        at[last] += now - before;
        before = now;
        for (int d = last; d > 0 && at[d] >= u->size[d]; --d) {
            int64_t carry = at[d] < 2 * u->size[d] ? 1 : at[d] / u->size[d];
            at[d] -= carry * u->size[d];
            at[d - 1] += carry;
        }
        for (int d = 0; d <= last; ++d) u->p[d * u->n + i] = at[d];
    }
}

rush_tensor *rush_nonzero_rows(const rush_tensor *t)
{
    chunks c;
    const rush_tensor *mask = rush_cast_copy(t, RUSH_BOOL);
    if (!mask) return NULL;
    int64_t total = chunks_start(&c, rush_ptr(mask), mask->numel);
    if (total < 0) return NULL;
    int64_t size[2] = {t->ndim, total};
    rush_tensor *rows = rush_tensor_new(RUSH_I64, t->device, 2, size);
    if (!rows || t->ndim == 0 || total == 0) return rows;
    c.dst = (char *)((int64_t *)rush_ptr(rows) + (t->ndim - 1) * total);
    rush_parallel_for(c.count, 1, position_chunks, &c);
    if (t->ndim > 1) {
        unravel u = {rush_ptr(rows), total, t->ndim, t->size};
        rush_parallel_for(total, 8192, unravel_range, &u);
    }
    return rows;
}

static int anything(const rush_op *op, const rush_value *in, rush_value *out) { return 0; }

static void nonzero_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *rows = rush_nonzero_rows(SELF);
    if (!rows) return;
    const int64_t size[2] = {rows->size[1], rows->size[0]}, stride[2] = {1, RUSH_MAX(rows->size[1], 1)};
    rush_result(out, rush_tensor_alias(rows, 2, size, stride, rows->offset));
}

static rush_op op_nonzero = {
    .schema = "nonzero(Tensor self) -> Tensor",
    .doc = "The coordinates of all elements that are not zero, one row each, in order.", .shape = anything, .cpu = nonzero_cpu,
    .flags = RUSH_NO_GRAD | RUSH_DATA_SIZED,
};
static rush_op op_argwhere = {
    .schema = "argwhere(Tensor self) -> Tensor", .method = RUSH_METHOD, .doc = "nonzero() under NumPy's name.", .shape = anything, .cpu = nonzero_cpu,
    .flags = RUSH_NO_GRAD | RUSH_DATA_SIZED};

static int nonzero_list_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *rows = T("nonzero", V(SELF->ndim ? SELF : unsqueeze(SELF, 0)));
    return rows ? TN(out, "unbind.int", V(rows), V(1)) : -1;
}

static rush_op op_nonzero_numpy = {
    .schema = "nonzero_numpy(Tensor self) -> Tensor[]",
    .doc = "The coordinates of all elements that are not zero, one vector per dimension.", .run = nonzero_list_run, .flags = RUSH_NO_GRAD,
};
static rush_op op_where = {
    .schema = "where(Tensor condition) -> Tensor[]",
    .doc = "nonzero() as one vector per dimension.", .run = nonzero_list_run, .flags = RUSH_NO_GRAD,
};

static int nonzero_static_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(I_(in[1]) >= 0, RUSH_RUNTIME_ERROR, "nonzero_static: 'size' must be an non-negative integer");
    const int64_t size[2] = {I_(in[1]), SELF->ndim};
    return rush_out_t(out, 0, SELF, RUSH_I64, 2, size) ? 0 : -1;
}

static void nonzero_static_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *rows = rush_nonzero_rows(SELF);
    if (!rows) return;
    int64_t have = rows->size[1], *p = rush_ptr(out[0].t);
    const int64_t *r = rush_ptr(rows);
    for (int64_t i = 0; i < I_(in[1]) && SELF->ndim; ++i)
        for (int d = 0; d < SELF->ndim; ++d) p[i * SELF->ndim + d] = i < have ? r[d * have + i] : I_(in[2]);
}

static rush_op op_nonzero_static = {
    .schema = "nonzero_static(Tensor self, *, SymInt size, int fill_value=-1) -> Tensor", .method = RUSH_METHOD,
    .doc = "The first `size` rows of nonzero(), filled up with fill_value.", .shape = nonzero_static_shape, .cpu = nonzero_static_cpu, .flags = RUSH_NO_GRAD,
};

/* ---- masked_fill ---- */

static int masked_shape(const rush_value *in, rush_value *out)
{
    const rush_tensor *both[2] = {SELF, in[1].t};
    int ndim;
    int64_t size[RUSH_MAXDIM];
    RUSH_CHECK(both[1]->dtype == RUSH_BOOL, RUSH_RUNTIME_ERROR, "masked_fill_ only supports boolean masks, but got mask with dtype %s",
               rush_dtype_name(both[1]->dtype));
    if (rush_broadcast(2, both, &ndim, size)) return -1;
    return rush_out_t(out, 0, SELF, SELF->dtype, ndim, size) ? 0 : -1;
}

static int masked_fill_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_number_fits(in[2], SELF->dtype) ? -1 : masked_shape(in, out);
}

static int masked_fill_tensor_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *v = in[2].t;
    RUSH_CHECK(v->ndim == 0, RUSH_RUNTIME_ERROR, "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with %d dimension(s).", v->ndim);
    RUSH_CHECK(!rush_dtype_is_complex(v->dtype) || rush_dtype_is_complex(SELF->dtype), RUSH_RUNTIME_ERROR,
               "value cannot be converted to type %s without overflow", rush_dtype_name(SELF->dtype));
    return masked_shape(in, out);
}

static void masked_fill_with(const rush_value *in, rush_value *out, const rush_masked_value *v)
{
    rush_tensor *self = SELF, *to = out[0].t;
    if ((self->flags | to->flags) & (RUSH_T_CONJ | RUSH_T_NEG)) { /* lazy bits: settled first, by a copy */
        rush_tensor *plain = rush_tensor_new(self->dtype, self->device, self->ndim, self->size);
        rush_tensor *result = plain ? rush_tensor_new(to->dtype, to->device, to->ndim, to->size) : NULL;
        if (!result || rush_copy_into(plain, self)) return;
        rush_value operand[3] = {rush_v_tensor(result), rush_v_tensor(plain), in[1]};
        rush_iterate(1, 3, operand, (const uint8_t[]){self->dtype, self->dtype, RUSH_BOOL}, rush_k_mask->fill, v, 0);
        rush_copy_into(to, result);
        return;
    }
    rush_value operand[3] = {out[0], in[0], in[1]};
    rush_iterate(1, 3, operand, (const uint8_t[]){self->dtype, self->dtype, RUSH_BOOL}, rush_k_mask->fill, v, 0);
}

static void masked_fill_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_masked_value v = {.size = rush_dtypes[SELF->dtype].size};
    rush_number_store(v.value, SELF->dtype, in[2]);
    masked_fill_with(in, out, &v);
}

static void masked_fill_tensor_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_masked_value v = {.size = rush_dtypes[SELF->dtype].size};
    const rush_tensor *one = rush_cast_copy(in[2].t, SELF->dtype);
    if (!one) return;
    memcpy(v.value, rush_ptr(one), v.size);
    masked_fill_with(in, out, &v);
}

static void masked_fill_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0];
    if (!g) return;
    if (rush_needs(s, 0)) s->gin[0] = sum_to_size(T("masked_fill.Scalar", V(g), s->in[1], V((int64_t)0)), s->in[0].t);
    if (rush_needs(s, 2)) s->gin[2] = sum_all(T("masked_fill.Scalar", V(g), V(logical_not(s->in[1].t)), V((int64_t)0)));
}

static rush_op op_masked_fill = {
    .schema = "masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor", .method = RUSH_METHODS,
    .doc = "self with a number wherever mask is true.", .shape = masked_fill_shape, .cpu = masked_fill_cpu, .grad = masked_fill_grad,
    .saves = "mask", .flags = RUSH_STRIDED_OUT | RUSH_INPLACE_OK | RUSH_FILLS,
};
static rush_op op_masked_fill_tensor = {
    .schema = "masked_fill.Tensor(Tensor self, Tensor mask, Tensor value) -> Tensor",
    .doc = "self with the element of a 0-d tensor wherever mask is true.", .shape = masked_fill_tensor_shape, .cpu = masked_fill_tensor_cpu,
    .grad = masked_fill_grad, .saves = "mask", .flags = RUSH_STRIDED_OUT | RUSH_INPLACE_OK | RUSH_FILLS,
};

/* ---- masked_select ---- */

static rush_tensor *widened(const rush_tensor *t, int ndim, const int64_t *size)
{
    int64_t stride[RUSH_MAXDIM];
    int lead = ndim - t->ndim;
    for (int d = 0; d < ndim; ++d) stride[d] = d < lead || t->size[d - lead] != size[d] ? 0 : t->stride[d - lead];
    return rush_tensor_alias(t, ndim, size, stride, t->offset);
}

static int masked_select_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *both[2] = {SELF, in[1].t};
    int ndim;
    int64_t size[RUSH_MAXDIM];
    RUSH_CHECK(both[1]->dtype == RUSH_BOOL, RUSH_RUNTIME_ERROR, "masked_select: expected BoolTensor for mask");
    return rush_same_sizes(both[0], both[1]) ? 0 : rush_broadcast(2, both, &ndim, size);
}

static void masked_select_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *both[2] = {SELF, in[1].t};
    int ndim;
    int64_t size[RUSH_MAXDIM];
    if (!rush_same_sizes(both[0], both[1])) {
        if (rush_broadcast(2, both, &ndim, size)) return;
        for (int k = 0; k < 2; ++k)
            if (!(both[k] = widened(both[k], ndim, size))) return;
    }
    rush_result(out, rush_masked_pack(both[0], both[1]));
}

static void masked_select_grad(rush_grads *s)
{
    if (s->g[0]) s->gin[0] = T("masked_select_backward", V(s->g[0]), s->in[0], s->in[1]);
}

static rush_op op_masked_select = {
    .schema = "masked_select(Tensor self, Tensor mask) -> Tensor", .method = RUSH_METHOD,
    .doc = "The elements of self where mask is true, as a vector.", .shape = masked_select_shape, .cpu = masked_select_cpu,
    .grad = masked_select_grad, .saves = "mask", .flags = RUSH_OUT_APART | RUSH_DATA_SIZED,
};

static int masked_select_backward_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *g = SELF, *input = in[1].t, *mask = in[2].t;
    const rush_tensor *both[2] = {input, mask};
    int ndim;
    int64_t size[RUSH_MAXDIM];
    if (rush_broadcast(2, both, &ndim, size)) return -1;
    bool as_it_lies = !rush_is_watched(g) && input->ndim == ndim && rush_sizes_equal(ndim, size, input->size);
    rush_tensor *zeros = as_it_lies ? zeros_like(input) : T("new_zeros", V(g), rush_v_ints(size, ndim));
    if (as_it_lies) return rush_result(out, zeros ? T_INPLACE("masked_scatter", V(zeros), V(mask), V(g)) : NULL);
    zeros = zeros ? T("masked_scatter", V(zeros), V(mask), V(g)) : NULL;
    return rush_result(out, sum_to_size(zeros, input));
}

static rush_op op_masked_select_backward = {
    .schema = "masked_select_backward(Tensor grad, Tensor input, Tensor mask) -> Tensor",
    .doc = "Zeros with grad at the places that masked_select took.", .run = masked_select_backward_run, .flags = RUSH_HIDDEN,
};

/* ---- masked_scatter ---- */

static int masked_scatter_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *self = SELF, *mask = in[1].t, *source = in[2].t, *both[2] = {self, mask};
    int ndim;
    int64_t size[RUSH_MAXDIM];
    RUSH_CHECK(self->dtype == source->dtype, RUSH_RUNTIME_ERROR, "masked_scatter: expected self and source to have same dtypes but got %s and %s",
               rush_dtype_word(self->dtype), rush_dtype_word(source->dtype));
    RUSH_CHECK(mask->dtype == RUSH_BOOL, RUSH_RUNTIME_ERROR, "masked_scatter_ only supports boolean masks, but got mask with dtype %s",
               rush_dtype_word(mask->dtype));
    if (rush_broadcast(2, both, &ndim, size)) return -1;
    return rush_out_t(out, 0, self, self->dtype, ndim, size) ? 0 : -1;
}

static void masked_scatter_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *to = out[0].t;
    chunks c;
    const rush_tensor *mask = widened(in[1].t, to->ndim, to->size), *source = rush_contiguous_copy(in[2].t);
    mask = mask ? rush_cast_copy(mask, RUSH_BOOL) : NULL;
    if (!mask || !source || rush_copy_into(to, SELF)) return;
    int64_t total = chunks_start(&c, rush_ptr(mask), mask->numel);
    if (total < 0) return;
    if (total > source->numel) {
        rush_fail(RUSH_RUNTIME_ERROR, "Number of elements of source < number of ones in mask (%lld < %lld)", (long long)source->numel, (long long)total);
        return;
    }
    rush_tensor *plain = rush_contiguous_copy(to);
    if (!plain || !total) return;
    c.dst = rush_ptr(plain);
    c.src = rush_ptr(source);
    c.size = rush_dtypes[to->dtype].size;
    rush_parallel_for(c.count, 1, spread_chunks, &c);
    if (plain != to) rush_copy_into(to, plain);
}

static void masked_scatter_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0];
    const rush_tensor *source = s->in[2].t;
    if (!g) return;
    if (rush_needs(s, 0)) s->gin[0] = sum_to_size(T("masked_fill.Scalar", V(g), s->in[1], V((int64_t)0)), s->in[0].t);
    if (rush_needs(s, 2)) s->gin[2] = T("masked_scatter_backward", V(g), s->in[1], rush_v_ints(source->size, source->ndim));
}

static rush_op op_masked_scatter = {
    .schema = "masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor", .method = RUSH_METHODS,
    .doc = "self with the elements of source, in order, where mask is true.", .shape = masked_scatter_shape, .cpu = masked_scatter_cpu,
    .grad = masked_scatter_grad, .saves = "mask", .flags = RUSH_INPLACE_OK,
};

static int masked_scatter_backward_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *g = SELF, *mask = in[1].t;
    int64_t numel = rush_numel_of((int)in[2].n, in[2].ints);
    if (numel < 0) return -1;
    mask = T("expand", V(mask), rush_v_ints(g->size, g->ndim));
    rush_tensor *picked = mask ? T("masked_select", V(g), V(mask)) : NULL;
    if (!picked) return -1;
    int64_t missing = numel - picked->numel;
    if (missing > 0) picked = T("constant_pad_nd", V(picked), INTS(0, missing));
    return rush_result(out, picked ? T("reshape", V(picked), in[2]) : NULL);
}

static rush_op op_masked_scatter_backward = {
    .schema = "masked_scatter_backward(Tensor grad_output, Tensor mask, SymInt[] sizes) -> Tensor",
    .doc = "What masked_scatter's source sees of a gradient.", .run = masked_scatter_backward_run, .flags = RUSH_HIDDEN,
};

RUSH_FAMILY(mask, &op_nonzero, &op_argwhere, &op_nonzero_numpy, &op_where, &op_nonzero_static, &op_masked_fill, &op_masked_fill_tensor,
            &op_masked_select, &op_masked_select_backward, &op_masked_scatter, &op_masked_scatter_backward)
