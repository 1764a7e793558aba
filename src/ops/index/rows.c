/* rows.c - whole slices along one dimension, named by an index vector: index_select, index_add, index_copy, ...
 *
 * Seen as (before, dim, after), slice i of the vector goes between slice i of one tensor and slice index[i] of another.
 * Where indices repeat, slices are added in the vector's order.
 */
#include "kernels/cpu/index.h"
#include "op/formula.h"
#include "ops/geometry.h"
#include "ops/index/places.h"
#include "ops/walk.h"

#define SELF (in[0].t)

/* Strides of a tensor as the walk over `ndim` dimensions wants them; 0-d tensors count as vectors of one. */
static void as_vector(const rush_tensor *t, int64_t *size, int64_t *stride)
{
    if (t->ndim == 0) {
        size[0] = stride[0] = 1;
        return;
    }
    memcpy(size, t->size, sizeof *size * t->ndim);
    memcpy(stride, t->stride, sizeof *stride * t->ndim);
}

/* Walks a box of `size` where operand `moving` does not move along dim but is offset by the index. */
static void walk_slices(rush_tensor *indexed, rush_tensor *other, const int64_t *other_stride, int dim, int64_t n, const int64_t *index, bool taking,
                        rush_index_loop fn, rush_at *at)
{
    int64_t size[RUSH_MAXDIM], stride[RUSH_MAXDIM], places[RUSH_MAXDIM] = {0}, item = rush_dtypes[indexed->dtype].size;
    int ndim = RUSH_MAX(indexed->ndim, 1);
    as_vector(indexed, size, stride);
    at->scale = stride[dim] * item;
    at->size = (size_t)item;
    size[dim] = n;
    stride[dim] = 0;
    places[dim] = 1;
    rush_walk w;
    rush_walk_start(&w, ndim, size);
    if (taking) rush_walk_add(&w, rush_ptr(other), other_stride, item);
    rush_walk_add(&w, rush_ptr(indexed), stride, item);
    if (!taking) rush_walk_add(&w, rush_ptr(other), other_stride, item);
    rush_walk_add(&w, index, places, 8);
    rush_walk_run(&w, taking ? 0 : (uint64_t)1 << dim, fn, at);
}

/* ---- index_select ---- */

static int index_select_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *self = SELF, *index = in[2].t;
    int64_t size[RUSH_MAXDIM];
    int dim = rush_dim_wrap(I_(in[1]), self->ndim);
    if (dim < 0) return -1;
    RUSH_CHECK(index->ndim <= 1, RUSH_INDEX_ERROR, "index_select(): Index is supposed to be a vector");
    RUSH_CHECK(index->dtype == RUSH_I64 || index->dtype == RUSH_I32, RUSH_RUNTIME_ERROR, "index_select(): Expected dtype int32 or int64 for index");
    RUSH_CHECK(self->ndim > 0 || index->numel == 1, RUSH_RUNTIME_ERROR, "index_select(): Index to scalar can have only 1 value, got %lld value(s)",
               (long long)index->numel);
    if (self->ndim) {
        memcpy(size, self->size, sizeof *size * self->ndim);
        size[dim] = index->numel;
    }
    return rush_same_dtype_out(out, self) ? -1 : rush_out_t(out, 0, self, self->dtype, self->ndim, size) ? 0 : -1;
}

typedef struct row_job {
    char *dst;
    const char *src;
    const int64_t *index;
    int64_t bytes, rows;
} row_job;

static void take_some_rows(void *arg, int64_t begin, int64_t end)
{
    const row_job *j = arg;
    rush_k_index->take_rows(j->dst + begin * j->bytes, j->src, j->index + begin, end - begin, j->bytes, j->rows);
}

void rush_take_rows(rush_tensor *to, const rush_tensor *from, const int64_t *index, int64_t n)
{
    int64_t bytes = from->numel / from->size[0] * (int64_t)rush_dtypes[from->dtype].size;
    row_job j = {rush_ptr(to), rush_ptr(from), index, bytes, from->size[0]};
    rush_parallel_for(n, 1 + 131072 / bytes, take_some_rows, &j);
}

static void index_select_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *self = SELF, *to = out[0].t;
    int dim = rush_dim_wrap(I_(in[1]), self->ndim);
    int64_t n = in[2].t->numel, have = self->ndim ? self->size[dim] : 1;
    const rush_tensor *numbers = rush_index_numbers(in[2].t);
    if (!numbers) return;
    const int64_t *index = rush_ptr(numbers);
    if (n && have == 0) {
        rush_fail(RUSH_RUNTIME_ERROR, "index_select(): self indexing axis dim should be positive");
        return;
    }
    if (n && rush_k_index->outside(index, n, 0, have) >= 0) {
        int64_t at = rush_k_index->outside(index, n, 0, have);
        if (dim == 1) rush_fail(RUSH_RUNTIME_ERROR, "INDICES element is out of DATA bounds, id=%lld axis_dim=%lld: index[%lld] of dimension %d", (long long)index[at], (long long)have, (long long)at, dim);
        else rush_fail(RUSH_INDEX_ERROR, "index out of range in self: index[%lld] is %lld, dimension %d has size %lld", (long long)at, (long long)index[at], dim, (long long)have);
        return;
    }
    if (to->numel == 0) return;
    if (self->flags & (RUSH_T_CONJ | RUSH_T_NEG) && !(self = rush_contiguous_copy(self))) return;
    if (dim == 0 && rush_contiguous(self) && rush_contiguous(to) && to->numel > n) {
        rush_take_rows(to, self, index, n);
        return;
    }
    int64_t size[RUSH_MAXDIM], stride[RUSH_MAXDIM];
    rush_at at = {0};
    as_vector(to, size, stride);
    walk_slices(self, to, stride, dim, n, index, true, rush_k_index->take, &at);
}

static void index_select_grad(rush_grads *s)
{
    const rush_tensor *self = s->in[0].t;
    rush_tensor *g = s->g[0];
    if (!g || !rush_needs(s, 0)) return;
    rush_tensor *zeros = T("new_zeros", V(g), rush_v_ints(self->size, self->ndim));
    s->gin[0] = zeros ? T_INPLACE("index_add", V(zeros), s->in[1], s->in[2], V(g)) : NULL;
}

static rush_op op_index_select = {
    .schema = "index_select(Tensor self, int dim, Tensor index) -> Tensor", .method = RUSH_METHOD,
    .doc = "The slices of dimension dim that an index vector names, in its order.",
    .shape = index_select_shape, .cpu = index_select_cpu, .grad = index_select_grad, .saves = "index",
    .flags = RUSH_STRIDED_OUT | RUSH_APART,
};

static int index_select_backward_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *zeros = T("new_zeros", V(SELF), in[1]);
    return rush_result(out, zeros ? T("index_add", V(zeros), in[2], in[3], V(SELF)) : NULL);
}

static rush_op op_index_select_backward = {
    .schema = "index_select_backward(Tensor grad, SymInt[] self_sizes, int dim, Tensor index) -> Tensor",
    .doc = "The derivative of index_select.", .run = index_select_backward_run, .flags = RUSH_HIDDEN,
};

/* ---- index_add, index_reduce ---- */

/* What index_add and index_reduce ask of (self, dim, index, source). */
static int slices_check(const char *name, const rush_tensor *self, int64_t at, const rush_tensor *index, const rush_tensor *source)
{
    int dim = rush_dim_wrap(at, self->ndim);
    if (dim < 0) return -1;
    int64_t n = index->numel, have = source->ndim ? source->size[RUSH_MIN(dim, source->ndim - 1)] : 1;
    RUSH_CHECK(index->ndim <= 1, RUSH_INDEX_ERROR, "%s(): Index is supposed to be a vector, but got dim: %d with type: %s and size: %s", name, index->ndim,
               rush_dtype_word(index->dtype), rush_shape_of(index));
    RUSH_CHECK(index->dtype == RUSH_I64 || index->dtype == RUSH_I32, RUSH_RUNTIME_ERROR, "%s(): Expected dtype int32/int64 for index but got: %s", name,
               rush_dtype_word(index->dtype));
    RUSH_CHECK(self->dtype == source->dtype, RUSH_RUNTIME_ERROR, "%s(): self (%s) and source (%s) must have the same scalar type", name,
               rush_dtype_word(self->dtype), rush_dtype_word(source->dtype));
    RUSH_CHECK(source->ndim == 0 || dim < source->ndim, RUSH_RUNTIME_ERROR, "%s(): Indexing dim %d is out of bounds of the source tensor with dim %d", name,
               dim, source->ndim);
    RUSH_CHECK(n == have, RUSH_RUNTIME_ERROR, "%s(): Number of indices (%lld) should be equal to source.size(dim): (%lld), for dim: %d", name, (long long)n,
               (long long)have, dim);
    bool same = self->ndim == source->ndim;
    for (int d = 0; d < self->ndim && same; ++d) same = d == dim || self->size[d] == source->size[d];
    RUSH_CHECK(same || (self->ndim == 1 && source->ndim == 0) || (self->ndim == 0 && source->numel == 1 && source->ndim == 0), RUSH_RUNTIME_ERROR,
               "source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = %s source.shape = %s",
               rush_shape_of(self), rush_shape_of(source));
    return 0;
}

static int index_add_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (slices_check("index_add_", SELF, I_(in[1]), in[2].t, in[3].t) || rush_number_fits(in[4], SELF->dtype)) return -1;
    return rush_out_t(out, 0, SELF, SELF->dtype, SELF->ndim, SELF->size) ? 0 : -1;
}

/* The target as something whose memory is what it shows, and how it gets back. */
static rush_tensor *plain_target(rush_tensor *to, const rush_tensor *self)
{
    bool lazy = to->flags & (RUSH_T_CONJ | RUSH_T_NEG);
    if (!lazy) return to == self || !rush_copy_into(to, self) ? to : NULL;
    rush_tensor *plain = rush_tensor_new(to->dtype, to->device, to->ndim, to->size);
    return plain && !rush_copy_into(plain, self) ? plain : NULL;
}

static void index_add_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *to = out[0].t, *source = in[3].t, *plain = plain_target(to, SELF);
    int dim = rush_dim_wrap(I_(in[1]), to->ndim);
    const rush_tensor *numbers = rush_index_numbers(in[2].t);
    rush_error_kind kind = to->ndim > 1 && (dim == 0 || dim == to->ndim - 1) ? RUSH_RUNTIME_ERROR : RUSH_INDEX_ERROR; /* PyTorch has a loop for each */
    if (!plain || !numbers || source->numel == 0 || rush_index_within(numbers, 0, to->ndim ? to->size[dim] : 1, kind, dim)) return;
    if (source->flags & (RUSH_T_CONJ | RUSH_T_NEG) || rush_overlap(to, source)) {
        rush_tensor *copy = rush_tensor_new(source->dtype, source->device, source->ndim, source->size);
        if (!copy || rush_copy_into(copy, source)) return;
        source = copy;
    }
    rush_value a = in[4];
    rush_at at = {.alpha = {D_(a), a.kind == RUSH_V_COMPLEX ? a.c[1] : 0}, .whole = rush_to_int(a)};
    bool one = at.alpha[0] == 1 && at.alpha[1] == 0;
    rush_index_loop fn = rush_combining(one ? RUSH_PUT_ADD : RUSH_PUT_ADD_SCALED, to->dtype);
    if (!fn) return;
    int64_t size[RUSH_MAXDIM], stride[RUSH_MAXDIM];
    as_vector(source, size, stride);
    walk_slices(plain, source, stride, dim, numbers->numel, rush_ptr(numbers), false, fn, &at);
    if (plain != to) rush_copy_into(to, plain);
}

static void index_add_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0];
    if (!g) return;
    if (rush_needs(s, 0)) s->gin[0] = g;
    if (!rush_needs(s, 3)) return;
    const rush_tensor *source = s->in[3].t;
    rush_tensor *part = T("index_select", V(g), s->in[1], s->in[2]);
    if (part && part->ndim != source->ndim) part = reshape_to(part, source);
    s->gin[3] = part ? mul(part, rush_conj_number(s->in[4])) : NULL;
}

static rush_op op_index_add = {
    .schema = "index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor", .method = RUSH_METHODS,
    .doc = "self with alpha times slice i of source added to slice index[i] of dim, for all i in order.",
    .shape = index_add_shape, .cpu = index_add_cpu, .grad = index_add_grad, .saves = "index", .flags = RUSH_STRIDED_OUT | RUSH_INPLACE_OK | RUSH_APART,
};

/* How slices are combined; MEAN is a sum that is divided by the number of its terms. */
enum { PROD, MEAN, AMAX, AMIN, UNKNOWN };

static int reduction(const char *name)
{
    static const char *const names[] = {"prod", "mean", "amax", "amin"};
    int k = 0;
    while (k < UNKNOWN && strcmp(names[k], name)) ++k;
    return k;
}

static int index_reduce_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(reduction(in[4].s) != UNKNOWN, RUSH_RUNTIME_ERROR, "index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got %s.", in[4].s);
    if (slices_check("index_reduce_", SELF, I_(in[1]), in[2].t, in[3].t)) return -1;
    RUSH_CHECK(!rush_dtype_is_complex(SELF->dtype) && SELF->dtype != RUSH_BOOL, RUSH_NOT_IMPLEMENTED, "\"index_reduce\" not implemented for '%s'",
               rush_dtype_word(SELF->dtype));
    return rush_out_t(out, 0, SELF, SELF->dtype, SELF->ndim, SELF->size) ? 0 : -1;
}

/* The number that a reduction starts from where self does not count. */
static rush_value neutral(int how, rush_dtype d)
{
    const rush_dtype_info *info = &rush_dtypes[d];
    bool integer = info->category < 2;
    if (how == PROD) return rush_v_int(1);
    if (how == MEAN) return rush_v_int(0);
    if (how == AMAX) return integer ? d == RUSH_I64 ? rush_v_int(INT64_MIN) : rush_v_int((int64_t)info->min) : rush_v_float(-__builtin_inf());
    return integer ? d == RUSH_I64 ? rush_v_int(INT64_MAX) : d == RUSH_U64 ? rush_v_int(-1) : rush_v_int((int64_t)info->max) : rush_v_float(__builtin_inf());
}

/* One number (0-d) as a tensor of any sizes. */
static rush_tensor *everywhere(rush_value v, const rush_tensor *like)
{
    const int64_t zeros[RUSH_MAXDIM] = {0};
    rush_tensor *one = rush_tensor_of_number_typed(v, like->dtype);
    return one ? rush_tensor_alias(one, like->ndim, like->size, zeros, 0) : NULL;
}

static void index_reduce_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *to = out[0].t, *source = in[3].t, *plain = plain_target(to, SELF);
    int dim = rush_dim_wrap(I_(in[1]), to->ndim), how = reduction(in[4].s);
    const rush_tensor *numbers = rush_index_numbers(in[2].t);
    if (!plain || !numbers) return;
    int64_t have = to->ndim ? to->size[dim] : 1;
    if (numbers->numel && rush_k_index->outside(rush_ptr(numbers), numbers->numel, 0, have) >= 0) {
        rush_fail(RUSH_INDEX_ERROR, "index out of range in self");
        return;
    }
    static const int puts[] = {[PROD] = RUSH_PUT_MUL, [MEAN] = RUSH_PUT_ADD, [AMAX] = RUSH_PUT_MAX, [AMIN] = RUSH_PUT_MIN};
    rush_index_loop fn = rush_combining(puts[how], to->dtype), add = rush_combining(RUSH_PUT_ADD, to->dtype);
    if (!fn || !add || (source->flags & RUSH_T_NEG && !(source = rush_contiguous_copy(source)))) return;
    int64_t size[RUSH_MAXDIM], stride[RUSH_MAXDIM], zero[RUSH_MAXDIM] = {0};
    const int64_t *index = rush_ptr(numbers);
    rush_at at = {0};
    as_vector(source, size, stride);
    if (!I_(in[5])) {
        rush_tensor *start = everywhere(neutral(how, to->dtype), source);
        if (!start) return;
        walk_slices(plain, start, zero, dim, numbers->numel, index, false, rush_k_index->put, &at);
    }
    walk_slices(plain, source, stride, dim, numbers->numel, index, false, fn, &at);
    if (how == MEAN) {
        rush_tensor *count = T("new_full", V(plain), rush_v_ints(plain->size, plain->ndim), V((int64_t)(I_(in[5]) != 0)));
        rush_tensor *one = count ? everywhere(rush_v_int(1), source) : NULL;
        if (!one) return;
        walk_slices(count, one, zero, dim, numbers->numel, index, false, add, &at);
        count = T("masked_fill.Scalar", V(count), V(T("eq.Scalar", V(count), V((int64_t)0))), V((int64_t)1));
        bool floor = rush_dtypes[to->dtype].category < 2;
        rush_tensor *mean = floor ? T("div.Tensor_mode", V(plain), V(count), V("floor")) : div_(plain, count);
        if (mean) rush_copy_into(to, mean);
        return;
    }
    if (plain != to) rush_copy_into(to, plain);
}

/* Gradients of a product, a mean, an extremum that a walk over index made; see reduced_grad in gather.c for the same
 * along single elements. */
static void index_reduce_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0], *self = s->in[0].t, *source = s->in[3].t, *result = s->out[0].t, *gself = NULL, *gsource = NULL;
    rush_value dim = s->in[1], index = s->in[2];
    int how = reduction(s->in[4].s);
    bool include = I_(s->in[5]);
    if (!g) return;
    if (how == PROD) {
        gself = mul(g, T("index_reduce", V(ones_like(self)), dim, index, V(source), V("prod"), V(true)));
        rush_tensor *is_zero = eq(source, (int64_t)0), *zeros = T("new_zeros", V(source), rush_v_ints(self->size, self->ndim));
        rush_tensor *count = T("index_select", V(T("index_add", V(zeros), dim, index, V(to_dtype(is_zero, source->dtype)))), dim, index);
        rush_tensor *pair = logical_and(is_zero, eq(count, (int64_t)2)), *few = logical_and(is_zero, T("le.Scalar", V(count), V((int64_t)2)));
        rush_tensor *filled = T("masked_fill.Scalar", V(source), V(few), V((int64_t)1)), *two = mul(source, to_dtype(pair, source->dtype));
        rush_tensor *sum = T("index_select", V(T("index_add", V(zeros), dim, index, V(two))), dim, index);
        rush_tensor *other = where(pair, sub(sum, source), ones_like(source));
        rush_tensor *rest = mul(other, T("index_select", V(T("index_reduce", V(self), dim, index, V(filled), V("prod"), V(include))), dim, index));
        rush_tensor *others = div_(T("index_select", V(mul(g, result)), dim, index),
                                   T("masked_fill.Scalar", V(source), V(is_zero), V((int64_t)1)));
        gsource = where(few, mul(T("index_select", V(g), dim, index), rest), others);
    } else if (how == MEAN) {
        rush_tensor *n = include ? ones_like(g) : T("new_zeros", V(g), rush_v_ints(g->size, g->ndim));
        n = T("index_add", V(n), dim, index, V(T("new_ones", V(g), rush_v_ints(source->size, source->ndim))));
        n = n ? T("masked_fill.Scalar", V(n), V(eq(n, (int64_t)0)), V((int64_t)1)) : NULL;
        gself = div_(g, n);
        gsource = div_(T("index_select", V(g), dim, index), T("index_select", V(n), dim, index));
    } else {
        rush_tensor *chosen = T("index_select", V(result), dim, index);
        rush_tensor *own = to_dtype(eq(self, result), g->dtype), *theirs = to_dtype(eq(source, chosen), g->dtype);
        rush_tensor *start = include ? own : T("index_fill.int_Scalar", V(own), dim, index, V((int64_t)0));
        rush_tensor *n = T("index_add", V(start), dim, index, V(theirs));
        rush_tensor *share = div_(g, T("masked_fill.Scalar", V(n), V(eq(n, (int64_t)0)), V((int64_t)1)));
        gself = mul(own, share);
        gsource = mul(theirs, T("index_select", V(share), dim, index));
    }
    if (!include && gself) gself = T("index_fill.int_Scalar", V(gself), dim, index, V((int64_t)0));
    if (rush_needs(s, 0)) s->gin[0] = gself;
    if (rush_needs(s, 3)) s->gin[3] = gsource;
}

static rush_op op_index_reduce = {
    .schema = "index_reduce(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True) -> Tensor",
    .method = RUSH_METHODS,
    .doc = "self with the slices of source combined into it by prod, mean, amax or amin where index says; without include_self, self does not count "
           "there.",
    .shape = index_reduce_shape, .cpu = index_reduce_cpu, .grad = index_reduce_grad, .saves = "self, index, source, result",
    .flags = RUSH_STRIDED_OUT | RUSH_INPLACE_OK | RUSH_APART,
};

/* ---- index_copy ---- */

/* The sizes of one slice along dim. */
static int without(const rush_tensor *t, int dim, int64_t *size)
{
    int n = 0;
    for (int d = 0; d < t->ndim; ++d)
        if (d != dim) size[n++] = t->size[d];
    return n;
}

static int index_copy_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *self = SELF, *index = in[2].t, *source = in[3].t;
    int dim = rush_dim_wrap(I_(in[1]), self->ndim);
    if (dim < 0) return -1;
    RUSH_CHECK(index->ndim <= 1, RUSH_INDEX_ERROR, "index_copy_(): Index should have dimension 1 or 0 (got %d)", index->ndim);
    RUSH_CHECK(source->ndim > 0 || index->numel == 1, RUSH_INDEX_ERROR, "index_copy_(): When source is scalar, index should have one element (got %lld)",
               (long long)index->numel);
    RUSH_CHECK(source->ndim == self->ndim || source->ndim == 0 || self->ndim == 0, RUSH_INDEX_ERROR,
               "index_copy_(): When source and destination are not scalars, their dimensionality must match. Source dimensionality (%d), destination "
               "dimensionality (%d)", source->ndim, self->ndim);
    RUSH_CHECK(index->dtype == RUSH_I64, RUSH_RUNTIME_ERROR, "index_copy_(): Expected a long tensor for index, but got %s", rush_dtype_word(index->dtype));
    RUSH_CHECK(self->dtype == source->dtype, RUSH_RUNTIME_ERROR,
               "index_copy_(): self and source expected to have the same dtype, but got (self) %s and (source) %s", rush_dtype_word(self->dtype),
               rush_dtype_word(source->dtype));
    int64_t slice[2][RUSH_MAXDIM];
    int n = without(self, dim, slice[0]), m = without(source, dim, slice[1]);
    RUSH_CHECK(n == m && !memcmp(slice[0], slice[1], sizeof *slice[0] * (size_t)n), RUSH_RUNTIME_ERROR,
               "index_copy_(): Source/destination tensor must have same slice shapes. Destination slice shape: %s at dimension %d and source slice "
               "shape: %s at dimension %d.", rush_shape_text(n, slice[0]), dim, rush_shape_text(m, slice[1]), dim);
    RUSH_CHECK(source->ndim == 0 || index->numel == source->size[RUSH_MIN(dim, source->ndim - 1)], RUSH_INDEX_ERROR,
               "index_copy_(): Number of indices (%lld) should be equal to source.size(dim) (%lld)", (long long)index->numel,
               (long long)source->size[RUSH_MIN(dim, source->ndim - 1)]);
    return rush_out_t(out, 0, self, self->dtype, self->ndim, self->size) ? 0 : -1;
}

static void index_copy_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *to = out[0].t, *source = in[3].t, *plain = plain_target(to, SELF);
    int dim = rush_dim_wrap(I_(in[1]), to->ndim);
    const rush_tensor *numbers = rush_index_numbers(in[2].t);
    if (!plain || !numbers) return;
    int64_t have = to->ndim ? to->size[dim] : 1, bad = numbers->numel ? rush_k_index->outside(rush_ptr(numbers), numbers->numel, 0, have) : -1;
    if (bad >= 0) {
        rush_fail(RUSH_INDEX_ERROR, "index_copy_(): index %lld is out of bounds for dimension %d with size %lld",
                  (long long)((int64_t *)rush_ptr(numbers))[bad], dim, (long long)have);
        return;
    }
    if (source->flags & (RUSH_T_CONJ | RUSH_T_NEG) && !(source = rush_contiguous_copy(source))) return;
    int64_t size[RUSH_MAXDIM], stride[RUSH_MAXDIM];
    rush_at at = {0};
    as_vector(source, size, stride);
    walk_slices(plain, source, stride, dim, numbers->numel, rush_ptr(numbers), false, rush_k_index->put, &at);
    if (plain != to) rush_copy_into(to, plain);
}

static void index_copy_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0];
    const rush_tensor *source = s->in[3].t;
    if (!g) return;
    if (rush_needs(s, 0)) s->gin[0] = T("index_fill.int_Scalar", V(g), s->in[1], s->in[2], V((int64_t)0));
    if (!rush_needs(s, 3)) return;
    rush_tensor *part = T("index_select", V(g), s->in[1], s->in[2]);
    s->gin[3] = part && part->ndim != source->ndim ? reshape_to(part, source) : part;
}

static rush_op op_index_copy = {
    .schema = "index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor", .method = RUSH_METHODS,
    .doc = "self with slice i of source in place of slice index[i] of dim; the last of equal indices wins.",
    .shape = index_copy_shape, .cpu = index_copy_cpu, .grad = index_copy_grad, .saves = "index", .flags = RUSH_STRIDED_OUT | RUSH_INPLACE_OK | RUSH_APART,
};

/* ---- index_fill ---- */

static int index_fill_check(const rush_value *in, rush_value *out)
{
    const rush_tensor *index = in[2].t;
    if (rush_dim_wrap(I_(in[1]), SELF->ndim) < 0) return -1;
    RUSH_CHECK(index->dtype == RUSH_I64, RUSH_INDEX_ERROR, "index_fill_(): Expected dtype int64 for index.");
    RUSH_CHECK(index->ndim <= 1, RUSH_RUNTIME_ERROR, "Index has to be a vector/scalar");
    return rush_out_like(out, 0, SELF, SELF->dtype) ? 0 : -1;
}

static int index_fill_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(in[3].kind != RUSH_V_COMPLEX || rush_dtype_is_complex(SELF->dtype), RUSH_RUNTIME_ERROR,
               "index_fill_(): Converting complex Scalar to non-complex type is not supported");
    return rush_number_fits(in[3], SELF->dtype) ? -1 : index_fill_check(in, out);
}

static int index_fill_tensor_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(in[3].t->ndim == 0, RUSH_RUNTIME_ERROR, "index_fill_ only supports a 0-dimensional value tensor, but got tensor with %d dimension(s).",
               in[3].t->ndim);
    return index_fill_check(in, out);
}

static void index_fill_with(const rush_value *in, rush_value *out, const rush_tensor *one)
{
    rush_tensor *to = out[0].t, *plain = plain_target(to, SELF);
    int dim = rush_dim_wrap(I_(in[1]), to->ndim);
    const int64_t zero[RUSH_MAXDIM] = {0};
    const rush_tensor *numbers = rush_index_numbers(in[2].t);
    int64_t have = to->ndim ? to->size[dim] : 1, n = in[2].t->numel;
    if (!one || !plain || !numbers || rush_index_within(numbers, -have, have, RUSH_INDEX_ERROR, dim) || n == 0) return;
    const int64_t *index = rush_ptr(numbers);
    int64_t *from_front = rush_scope_alloc(sizeof *from_front * (size_t)n);
    if (!from_front) return;
    memset(from_front, 0, sizeof *from_front * (size_t)n);
    rush_k_index->offsets(from_front, index, n, have, 1);
    rush_at at = {0};
    walk_slices(plain, (rush_tensor *)one, zero, dim, n, from_front, false, rush_k_index->put, &at);
    if (plain != to) rush_copy_into(to, plain);
}

static void index_fill_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    index_fill_with(in, out, rush_tensor_of_number_typed(in[3], SELF->dtype));
}

static void index_fill_tensor_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    index_fill_with(in, out, rush_cast_copy(in[3].t, SELF->dtype));
}

static void index_fill_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0];
    if (!g) return;
    if (rush_needs(s, 0)) s->gin[0] = T("index_fill.int_Scalar", V(g), s->in[1], s->in[2], V((int64_t)0));
    if (!rush_needs(s, 3)) return;
    rush_tensor *kept = T("index_fill.int_Scalar", V(g), s->in[1], s->in[2], V((int64_t)0)); /* what is not filled: an index may come twice */
    s->gin[3] = sub(sum_all(g), sum_all(kept));
}

static rush_op op_index_fill = {
    .schema = "index_fill.int_Scalar(Tensor self, int dim, Tensor index, Scalar value) -> Tensor", .method = RUSH_METHODS,
    .doc = "self with a number in the slices of dim that index names.",
    .shape = index_fill_shape, .cpu = index_fill_cpu, .grad = index_fill_grad, .saves = "index", .flags = RUSH_STRIDED_OUT | RUSH_INPLACE_OK | RUSH_APART | RUSH_FILLS,
};
static rush_op op_index_fill_tensor = {
    .schema = "index_fill.int_Tensor(Tensor self, int dim, Tensor index, Tensor value) -> Tensor",
    .doc = "self with the element of a 0-d tensor in the slices of dim that index names.",
    .shape = index_fill_tensor_shape, .cpu = index_fill_tensor_cpu, .grad = index_fill_grad, .saves = "index",
    .flags = RUSH_STRIDED_OUT | RUSH_INPLACE_OK | RUSH_APART | RUSH_FILLS,
};

RUSH_FAMILY(rows, &op_index_select, &op_index_select_backward, &op_index_add, &op_index_reduce, &op_index_copy, &op_index_fill, &op_index_fill_tensor)
