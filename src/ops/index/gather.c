/* gather.c - single elements named by an index tensor: gather, scatter and its sums, take, put.
 *
 * index[i][j][k] says where along one dimension an element goes to or comes from; the other coordinates are its own.
 * So the indexed tensor is walked with stride 0 along that dimension, offset by the index. Where indices repeat, elements
 * are combined in row-major order.
 */
#include "kernels/cpu/index.h"
#include "op/formula.h"
#include "op/watch.h"
#include "ops/geometry.h"
#include "ops/index/places.h"
#include "ops/walk.h"

#define SELF (in[0].t)

/* ---- the walk ---- */

/* Index numbers without the repetition that expanding brought: as int64 with strides of their own. */
typedef struct numbers {
    const rush_tensor *t; /* int64 */
    int64_t stride[RUSH_MAXDIM];
} numbers;

static int numbers_read(numbers *n, const rush_tensor *index)
{
    int64_t size[RUSH_MAXDIM];
    for (int d = 0; d < index->ndim; ++d) size[d] = index->stride[d] == 0 && index->size[d] ? 1 : index->size[d];
    rush_tensor *once = rush_tensor_alias(index, index->ndim, size, index->stride, index->offset);
    n->t = once ? rush_cast_copy(once, RUSH_I64) : NULL;
    if (!n->t) return -1;
    for (int d = 0; d < index->ndim; ++d) n->stride[d] = size[d] == index->size[d] ? n->t->stride[d] : 0;
    return 0;
}

/* 0-d tensors count as vectors of one. */
static int at_least_1d(const rush_tensor *t, int64_t *stride)
{
    if (t->ndim) memcpy(stride, t->stride, sizeof *stride * t->ndim);
    else stride[0] = 1;
    return RUSH_MAX(t->ndim, 1);
}

static int64_t size_at(const rush_tensor *t, int dim)
{
    return t->ndim ? t->size[dim] : 1;
}

/* Between `indexed` (moved along dim by the numbers) and `other` (walked as it is, or a number everywhere: strides 0). */
static void walk_elements(const rush_tensor *indexed, const void *other, const int64_t *other_stride, int dim, const rush_tensor *index, const numbers *n,
                          bool taking, rush_index_loop fn)
{
    int64_t stride[RUSH_MAXDIM], places[RUSH_MAXDIM] = {0}, size[RUSH_MAXDIM] = {1}, item = rush_dtypes[indexed->dtype].size;
    int ndim = RUSH_MAX(index->ndim, 1);
    at_least_1d(indexed, stride);
    if (index->ndim) {
        memcpy(size, index->size, sizeof *size * ndim);
        memcpy(places, n->stride, sizeof *places * ndim);
    }
    int bad = 0;
    rush_at at = {.scale = stride[dim] * item, .size = (size_t)item, .limit = taking ? size_at(indexed, dim) : 0, .bad = &bad};
    stride[dim] = 0;
    rush_walk w;
    rush_walk_start(&w, ndim, size);
    if (taking) rush_walk_add(&w, other, other_stride, item);
    rush_walk_add(&w, rush_ptr(indexed), stride, item);
    if (!taking) rush_walk_add(&w, other, other_stride, item);
    rush_walk_add(&w, rush_ptr(n->t), places, 8);
    rush_walk_run(&w, taking ? 0 : (uint64_t)1 << dim, fn, &at);
    if (bad) rush_index_within(n->t, 0, size_at(indexed, dim), RUSH_RUNTIME_ERROR, dim);
}

/* ---- gather ---- */

static int gather_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *self = SELF, *index = in[2].t;
    int dim = rush_dim_wrap(I_(in[1]), self->ndim);
    if (dim < 0) return -1;
    if (index->numel) {
        RUSH_CHECK(index->dtype == RUSH_I64 || index->dtype == RUSH_I32, RUSH_RUNTIME_ERROR, "gather(): Expected dtype int32/int64 for index");
        RUSH_CHECK(RUSH_MAX(self->ndim, 1) == RUSH_MAX(index->ndim, 1), RUSH_RUNTIME_ERROR,
                   "Index tensor must have the same number of dimensions as input tensor");
        for (int d = 0; d < self->ndim; ++d)
            RUSH_CHECK(d == dim || size_at(index, d) <= self->size[d], RUSH_RUNTIME_ERROR,
                       "Size does not match at dimension %d expected index %s to be no larger than self %s apart from dimension %d", d, rush_shape_of(index),
                       rush_shape_of(self), dim);
    }
    return rush_same_dtype_out(out, self) ? -1 : rush_out_t(out, 0, self, self->dtype, index->ndim, index->size) ? 0 : -1;
}

static void gather_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *self = SELF, *index = in[2].t;
    numbers n;
    int64_t stride[RUSH_MAXDIM];
    int dim = rush_dim_wrap(I_(in[1]), self->ndim);
    if (index->numel == 0 || numbers_read(&n, index)) return;
    if (size_at(self, dim) == 0 && rush_index_within(n.t, 0, 0, RUSH_RUNTIME_ERROR, dim)) return;
    if (self->flags & (RUSH_T_CONJ | RUSH_T_NEG) && !(self = rush_contiguous_copy(self))) return;
    at_least_1d(out[0].t, stride);
    walk_elements(self, rush_ptr(out[0].t), stride, dim, index, &n, true, rush_k_index->take);
}

static void gather_grad(rush_grads *s)
{
    const rush_tensor *self = s->in[0].t;
    rush_tensor *g = s->g[0];
    if (!g || !rush_needs(s, 0)) return;
    rush_tensor *zeros = T("new_zeros", V(g), rush_v_ints(self->size, self->ndim));
    if (zeros && g->numel) zeros = T_INPLACE("scatter_add", V(zeros), s->in[1], s->in[2], V(g));
    s->gin[0] = zeros;
}

static rush_op op_gather = {
    .schema = "gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor", .method = RUSH_METHOD,
    .doc = "For each element of index, the element of self that has this number along dim and is else at the same place.",
    .shape = gather_shape, .cpu = gather_cpu, .grad = gather_grad, .saves = "index",
    .flags = RUSH_STRIDED_OUT,
};

static int gather_backward_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *zeros = T("new_zeros", V(SELF), rush_v_ints(in[1].t->size, in[1].t->ndim));
    return rush_result(out, zeros ? T("scatter_add", V(zeros), in[2], in[3], V(SELF)) : NULL);
}

static rush_op op_gather_backward = {
    .schema = "gather_backward(Tensor grad, Tensor self, int dim, Tensor index, bool sparse_grad) -> Tensor",
    .doc = "The derivative of gather.", .run = gather_backward_run, .flags = RUSH_HIDDEN,
};

static int value_selecting_backward_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *g = SELF, *index = in[2].t;
    if (!I_(in[4]) && in[3].n > 0) {
        g = T("unsqueeze", V(g), in[1]);
        index = T("unsqueeze", V(index), in[1]);
    }
    rush_tensor *zeros = g ? T("new_zeros", V(g), in[3]) : NULL;
    return rush_result(out, zeros && index ? T("scatter", V(zeros), in[1], V(index), V(g)) : NULL);
}

static rush_op op_value_selecting_backward = {
    .schema = "value_selecting_reduction_backward(Tensor grad, int dim, Tensor indices, SymInt[] sizes, bool keepdim) -> Tensor",
    .doc = "The gradient of what max, median, sort chose, put where it came from.", .run = value_selecting_backward_run, .flags = RUSH_HIDDEN,
};

static int take_along_dim_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *self = SELF, *index = in[1].t;
    if (!HAS(in[2])) {
        rush_tensor *flat = T("reshape", V(self), INTS(-1)), *at = T("reshape", V(index), INTS(-1));
        return rush_result(out, flat && at ? T("gather", V(flat), V((int64_t)0), V(at)) : NULL);
    }
    RUSH_CHECK(self->ndim == index->ndim, RUSH_RUNTIME_ERROR,
               "torch.take_along_dim(): input and indices should have the same number of dimensions, but got %d dimensions for input, and %d dimensions for "
               "indices", self->ndim, index->ndim);
    RUSH_CHECK(index->dtype == RUSH_I64, RUSH_RUNTIME_ERROR, "torch.take_along_dim(): dtype of indices should be Long but got %s", rush_dtype_word(index->dtype));
    int dim = rush_dim_wrap(I_(in[2]), self->ndim), n;
    int64_t size[RUSH_MAXDIM], a[RUSH_MAXDIM], b[RUSH_MAXDIM];
    if (dim < 0) return -1;
    memcpy(a, self->size, sizeof *a * self->ndim);
    memcpy(b, index->size, sizeof *b * index->ndim);
    if (self->ndim) a[dim] = b[dim] = 1;
    if (rush_broadcast_sizes(self->ndim, a, index->ndim, b, &n, size)) return -1;
    if (n) size[dim] = self->size[dim];
    rush_tensor *from = T("expand", V(self), rush_v_ints(size, n));
    if (n) size[dim] = index->size[dim];
    rush_tensor *at = T("expand", V(index), rush_v_ints(size, n));
    if (!from || !at) return -1;
    /* negative numbers count from the end */
    rush_tensor *wrapped = where(lt(at, (int64_t)0), add(at, size_at(self, dim)), at);
    return rush_result(out, T("gather", V(from), V((int64_t)dim), V(wrapped)));
}

static rush_op op_take_along_dim = {
    .schema = "take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor", .method = RUSH_METHOD,
    .doc = "gather() whose arguments are broadcast together; without dim, from the flattened tensors.", .run = take_along_dim_run,
};

/* ---- scatter ---- */

enum { ASSIGN, SUM, PROD, MEAN, AMAX, AMIN, UNKNOWN };

static int scatter_check(const rush_tensor *self, int64_t at, const rush_tensor *index, const rush_tensor *src, const char *name)
{
    int dim = rush_dim_wrap(at, self->ndim);
    if (dim < 0) return -1;
    if (index->numel == 0) return 0;
    RUSH_CHECK(index->dtype == RUSH_I64 || index->dtype == RUSH_I32, RUSH_RUNTIME_ERROR, "scatter(): Expected dtype int32/int64 for index");
    RUSH_CHECK(!src || self->dtype == src->dtype, RUSH_RUNTIME_ERROR, "scatter(): Expected self.dtype to be equal to src.dtype, got %s and %s",
               rush_dtype_word(self->dtype), src ? rush_dtype_word(src->dtype) : "");
    RUSH_CHECK(RUSH_MAX(self->ndim, 1) == RUSH_MAX(index->ndim, 1), RUSH_RUNTIME_ERROR, "Index tensor must have the same number of dimensions as self tensor");
    RUSH_CHECK(!src || RUSH_MAX(self->ndim, 1) == RUSH_MAX(src->ndim, 1), dim >= RUSH_MAX(src->ndim, 1) ? RUSH_INDEX_ERROR : RUSH_RUNTIME_ERROR,
               "Index tensor must have the same number of dimensions as src tensor");
    bool fits = true;
    for (int d = 0; d < RUSH_MAX(self->ndim, 1); ++d) {
        int64_t want = size_at(index, d);
        fits &= (d == dim || want <= size_at(self, d)) && (!src || want <= size_at(src, d));
    }
    RUSH_CHECK(fits, RUSH_RUNTIME_ERROR, "Expected index %s to be no larger than self %s apart from dimension %d%s%s", rush_shape_of(index),
               rush_shape_of(self), dim, src ? " and to be no larger size than src " : "", src ? rush_shape_of(src) : "");
    return 0;
}

static rush_tensor *plain_target(rush_tensor *to, const rush_tensor *self)
{
    if (!(to->flags & (RUSH_T_CONJ | RUSH_T_NEG))) return to == self || !rush_copy_into(to, self) ? to : NULL;
    rush_tensor *plain = rush_tensor_new(to->dtype, to->device, to->ndim, to->size);
    return plain && !rush_copy_into(plain, self) ? plain : NULL;
}

/* src NULL: the number everywhere */
static int scatter_into(rush_tensor *to, int64_t at, const rush_tensor *index, rush_tensor *src, rush_value number, int how)
{
    static const int puts[] = {[SUM] = RUSH_PUT_ADD, [PROD] = RUSH_PUT_MUL, [MEAN] = RUSH_PUT_ADD, [AMAX] = RUSH_PUT_MAX, [AMIN] = RUSH_PUT_MIN};
    int dim = rush_dim_wrap(at, to->ndim);
    numbers n;
    int64_t stride[RUSH_MAXDIM] = {0};
    char one[16];
    if (index->numel == 0) return 0;
    if (numbers_read(&n, index) || rush_index_within(n.t, 0, size_at(to, dim), RUSH_RUNTIME_ERROR, dim)) return -1;
    rush_index_loop fn = how == ASSIGN ? rush_k_index->put : rush_combining(puts[how], to->dtype);
    if (!fn) return -1;
    if (src && (src->flags & (RUSH_T_CONJ | RUSH_T_NEG) || rush_overlap(to, src))) {
        rush_tensor *copy = rush_tensor_new(src->dtype, src->device, src->ndim, src->size);
        if (!copy || rush_copy_into(copy, src)) return -1;
        src = copy;
    }
    if (src) at_least_1d(src, stride);
    else rush_number_store(one, to->dtype, number);
    walk_elements(to, src ? rush_ptr(src) : (void *)one, stride, dim, index, &n, false, fn);
    return 0;
}

static int scatter_result(const rush_value *in, rush_value *out, const rush_tensor *src)
{
    if (scatter_check(SELF, I_(in[1]), in[2].t, src, "scatter")) return -1;
    return rush_out_t(out, 0, SELF, SELF->dtype, SELF->ndim, SELF->size) ? 0 : -1;
}

static void scatter_run(const rush_value *in, rush_value *out, rush_tensor *src, rush_value number, int how)
{
    rush_tensor *to = out[0].t, *plain = plain_target(to, SELF);
    if (plain && !scatter_into(plain, I_(in[1]), in[2].t, src, number, how) && plain != to) rush_copy_into(to, plain);
}

static int scatter_src_shape(const rush_op *op, const rush_value *in, rush_value *out) { return scatter_result(in, out, in[3].t); }

static int scatter_value_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_number_fits(in[3], SELF->dtype) ? -1 : scatter_result(in, out, NULL);
}

static void scatter_src_cpu(const rush_op *op, const rush_value *in, rush_value *out) { scatter_run(in, out, in[3].t, RUSH_NONE, ASSIGN); }
static void scatter_value_cpu(const rush_op *op, const rush_value *in, rush_value *out) { scatter_run(in, out, NULL, in[3], ASSIGN); }
static void scatter_add_cpu(const rush_op *op, const rush_value *in, rush_value *out) { scatter_run(in, out, in[3].t, RUSH_NONE, SUM); }

/* What src sees: the places that the index names; src may be larger than index, and is not used there. */
static rush_tensor *gathered(rush_tensor *g, rush_value dim, rush_tensor *index, const rush_tensor *src)
{
    int64_t pad[2 * RUSH_MAXDIM] = {0};
    bool larger = false;
    rush_tensor *part = T("gather", V(g), dim, V(index));
    for (int d = 0; d < src->ndim && index->ndim == src->ndim; ++d) {
        pad[2 * (src->ndim - 1 - d) + 1] = src->size[d] - index->size[d];
        larger |= src->size[d] != index->size[d];
    }
    if (part && larger) part = T("constant_pad_nd", V(part), rush_v_ints(pad, 2 * (size_t)src->ndim));
    return part && part->ndim != src->ndim ? reshape_to(part, src) : part;
}

static void scatter_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0];
    if (!g) return;
    if (rush_needs(s, 0)) s->gin[0] = T("scatter.value", V(g), s->in[1], s->in[2], V((int64_t)0));
    if (rush_needs(s, 3)) s->gin[3] = gathered(g, s->in[1], s->in[2].t, s->in[3].t);
}

static void scatter_add_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0];
    if (!g) return;
    if (rush_needs(s, 0)) s->gin[0] = g;
    if (rush_needs(s, 3)) s->gin[3] = gathered(g, s->in[1], s->in[2].t, s->in[3].t);
}

static rush_op op_scatter = {
    .schema = "scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor", .method = RUSH_METHODS,
    .doc = "self with the elements of src put where index says along dim; the last of several wins.",
    .shape = scatter_src_shape, .cpu = scatter_src_cpu, .grad = scatter_grad, .saves = "index", .flags = RUSH_STRIDED_OUT | RUSH_INPLACE_OK | RUSH_APART,
};
static rush_op op_scatter_value = {
    .schema = "scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor",
    .doc = "self with a number put where index says along dim.",
    .shape = scatter_value_shape, .cpu = scatter_value_cpu, .grad = scatter_grad, .saves = "index", .flags = RUSH_STRIDED_OUT | RUSH_INPLACE_OK | RUSH_APART,
};
static rush_op op_scatter_add = {
    .schema = "scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor", .method = RUSH_METHODS,
    .doc = "self with the elements of src added where index says along dim, in order.",
    .shape = scatter_src_shape, .cpu = scatter_add_cpu, .grad = scatter_add_grad, .saves = "index", .flags = RUSH_STRIDED_OUT | RUSH_INPLACE_OK | RUSH_APART,
};

/* The old reduce= argument: sums and products only. */
static int old_reduction(const char *name)
{
    return !strcmp(name, "add") ? SUM : !strcmp(name, "multiply") ? PROD : UNKNOWN;
}

static int scatter_reduce_old_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(old_reduction(in[4].s) != UNKNOWN, RUSH_RUNTIME_ERROR, "reduce argument must be either add or multiply.");
    return scatter_result(in, out, in[3].t);
}

static int scatter_value_reduce_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(old_reduction(in[4].s) != UNKNOWN, RUSH_RUNTIME_ERROR, "reduce argument must be either add or multiply.");
    return scatter_value_shape(op, in, out);
}

static void scatter_reduce_old_cpu(const rush_op *op, const rush_value *in, rush_value *out) { scatter_run(in, out, in[3].t, RUSH_NONE, old_reduction(in[4].s)); }
static void scatter_value_reduce_cpu(const rush_op *op, const rush_value *in, rush_value *out) { scatter_run(in, out, NULL, in[3], old_reduction(in[4].s)); }

static rush_op op_scatter_reduce_old = {
    .schema = "scatter.reduce(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor",
    .doc = "scatter() that adds or multiplies; scatter_reduce() is its successor, and has a derivative.",
    .shape = scatter_reduce_old_shape, .cpu = scatter_reduce_old_cpu, .flags = RUSH_STRIDED_OUT | RUSH_INPLACE_OK | RUSH_APART,
};
static rush_op op_scatter_value_reduce = {
    .schema = "scatter.value_reduce(Tensor self, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor",
    .doc = "scatter() of a number that adds or multiplies.",
    .shape = scatter_value_reduce_shape, .cpu = scatter_value_reduce_cpu, .flags = RUSH_STRIDED_OUT | RUSH_INPLACE_OK | RUSH_APART,
};

/* ---- scatter_reduce ---- */

static int reduction(const char *name)
{
    static const char *const names[] = {[SUM] = "sum", [PROD] = "prod", [MEAN] = "mean", [AMAX] = "amax", [AMIN] = "amin"};
    if (!strcmp(name, "max") || !strcmp(name, "min")) return name[1] == 'a' ? AMAX : AMIN; /* as PyTorch reads them */
    int k = SUM;
    while (k < UNKNOWN && strcmp(names[k], name)) ++k;
    return k;
}

static int scatter_reduce_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(reduction(in[4].s) != UNKNOWN, RUSH_RUNTIME_ERROR, "reduce argument must be either sum, prod, mean, amax or amin, got %s", in[4].s);
    return scatter_result(in, out, in[3].t);
}

/* The number that a reduction starts from where self does not count. */
static rush_value neutral(int how, rush_dtype d)
{
    const rush_dtype_info *info = &rush_dtypes[d];
    bool integer = info->category < 2;
    if (how == PROD) return rush_v_int(1);
    if (how == SUM || how == MEAN) return rush_v_int(0);
    if (!integer) return rush_v_float(how == AMAX ? -__builtin_inf() : __builtin_inf());
    if (how == AMAX) return d == RUSH_I64 ? rush_v_int(INT64_MIN) : rush_v_int((int64_t)info->min);
    return d == RUSH_I64 ? rush_v_int(INT64_MAX) : d == RUSH_U64 ? rush_v_int(-1) : rush_v_int((int64_t)info->max);
}

static void scatter_reduce_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    int how = reduction(in[4].s);
    bool include = I_(in[5]);
    rush_tensor *to = out[0].t, *index = in[2].t, *plain = plain_target(to, SELF);
    if (!plain || index->numel == 0) return;
    if (!include && scatter_into(plain, I_(in[1]), index, NULL, neutral(how, to->dtype), ASSIGN)) return;
    if (scatter_into(plain, I_(in[1]), index, in[3].t, RUSH_NONE, how)) return;
    if (how == MEAN) {
        rush_tensor *count = T("new_full", V(plain), rush_v_ints(plain->size, plain->ndim), V((int64_t)include));
        if (!count || scatter_into(count, I_(in[1]), index, NULL, rush_v_int(1), SUM)) return;
        count = T("masked_fill.Scalar", V(count), V(T("eq.Scalar", V(count), V((int64_t)0))), V((int64_t)1));
        rush_tensor *mean = rush_dtypes[to->dtype].category < 2 ? T("div.Tensor_mode", V(plain), V(count), V("floor")) : div_(plain, count);
        if (mean) rush_copy_into(to, mean);
        return;
    }
    if (plain != to) rush_copy_into(to, plain);
}

/* Derivatives of the product: every factor sees the product of the others. Where one factor alone is zero, or two are, this is
 * worked out without them; of two each sees the other, so that the second derivative is right; where more are zero, it is zero. */
static void prod_grad(rush_grads *s, rush_tensor **gself, rush_tensor **gsrc)
{
    rush_tensor *g = s->g[0], *self = s->in[0].t, *src = s->in[3].t, *result = s->out[0].t;
    rush_value dim = s->in[1], index = s->in[2], include = s->in[5];
    if (rush_needs(s, 0)) {
        rush_tensor *without = T("scatter_reduce.two", V(ones_like(self)), dim, index, V(src), V("prod"), V(true));
        *gself = mul(g, without);
    }
    if (rush_needs(s, 3)) {
        rush_tensor *is_zero = eq(src, (int64_t)0);
        rush_tensor *zeros = T("gather", V(T("scatter_add", V(T("new_zeros", V(self), rush_v_ints(self->size, self->ndim))), dim, index,
                                              V(to_dtype(is_zero, src->dtype)))), dim, index);
        rush_tensor *pair = logical_and(is_zero, eq(zeros, (int64_t)2)), *few = logical_and(is_zero, T("le.Scalar", V(zeros), V((int64_t)2)));
        rush_tensor *filled = T("masked_fill.Scalar", V(src), V(few), V((int64_t)1)), *two = mul(src, to_dtype(pair, src->dtype));
        rush_tensor *sum = T("scatter_add", V(T("new_zeros", V(self), rush_v_ints(self->size, self->ndim))), dim, index, V(two));
        rush_tensor *other = where(pair, sub(T("gather", V(sum), dim, index), src), ones_like(src));
        rush_tensor *rest = mul(other, T("gather", V(T("scatter_reduce.two", V(self), dim, index, V(filled), V("prod"), include)), dim, index));
        rush_tensor *others = div_(T("gather", V(mul(g, result)), dim, index), T("masked_fill.Scalar", V(src), V(is_zero), V((int64_t)1)));
        *gsrc = where(few, mul(T("gather", V(g), dim, index), rest), others);
    }
}

static void reduced_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0], *self = s->in[0].t, *src = s->in[3].t, *result = s->out[0].t, *gself = NULL, *gsrc = NULL;
    rush_tensor *index = s->in[2].t;
    rush_value dim = s->in[1];
    bool include = I_(s->in[5]);
    int how = reduction(s->in[4].s);
    if (!g) return;
    if (index->numel == 0) {
        if (rush_needs(s, 0)) s->gin[0] = g;
        return;
    }
    for (int d = 0; d < src->ndim && index->ndim == src->ndim; ++d) /* only the part of src that the index reaches was used */
        if (src->size[d] != index->size[d]) src = T("slice.Tensor", V(src), V((int64_t)d), V((int64_t)0), V(index->size[d]), V((int64_t)1));
    if (!src) return;
    rush_value kept = s->in[3];
    ((rush_value *)s->in)[3] = rush_v_tensor(src);
    if (how == SUM) {
        gself = g;
        gsrc = T("gather", V(g), dim, V(index));
    } else if (how == PROD) {
        prod_grad(s, &gself, &gsrc);
    } else if (how == MEAN) {
        rush_tensor *n = include ? ones_like(g) : T("new_zeros", V(g), rush_v_ints(g->size, g->ndim));
        n = T("scatter_add", V(n), dim, V(index), V(T("new_ones", V(g), rush_v_ints(src->size, src->ndim))));
        n = n ? T("masked_fill.Scalar", V(n), V(eq(n, (int64_t)0)), V((int64_t)1)) : NULL;
        gself = div_(g, n);
        gsrc = div_(T("gather", V(g), dim, V(index)), T("gather", V(n), dim, V(index)));
    } else {
        rush_tensor *chosen = T("gather", V(result), dim, V(index));
        rush_tensor *own = to_dtype(eq(self, result), g->dtype), *theirs = to_dtype(eq(src, chosen), g->dtype);
        rush_tensor *start = include ? own : T("scatter.value", V(own), dim, V(index), V((int64_t)0));
        rush_tensor *n = T("scatter_add", V(start), dim, V(index), V(theirs));
        rush_tensor *share = n ? div_(g, T("masked_fill.Scalar", V(n), V(eq(n, (int64_t)0)), V((int64_t)1))) : NULL;
        gself = mul(own, share);
        gsrc = mul(theirs, T("gather", V(share), dim, V(index)));
    }
    ((rush_value *)s->in)[3] = kept;
    if (!include && gself) gself = T("scatter.value", V(gself), dim, V(index), V((int64_t)0));
    if (rush_needs(s, 0)) s->gin[0] = gself;
    if (!rush_needs(s, 3) || !gsrc) return;
    int64_t pad[2 * RUSH_MAXDIM] = {0};
    const rush_tensor *whole = kept.t;
    bool larger = false;
    for (int d = 0; d < whole->ndim && gsrc->ndim == whole->ndim; ++d) {
        pad[2 * (whole->ndim - 1 - d) + 1] = whole->size[d] - gsrc->size[d];
        larger |= whole->size[d] != gsrc->size[d];
    }
    s->gin[3] = larger ? T("constant_pad_nd", V(gsrc), rush_v_ints(pad, 2 * (size_t)whole->ndim)) : gsrc;
}

static rush_op op_scatter_reduce = {
    .schema = "scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) -> Tensor",
    .method = RUSH_METHODS,
    .doc = "self with the elements of src combined into it by sum, prod, mean, amax or amin where index says along dim; without include_self, self does "
           "not count there.",
    .shape = scatter_reduce_shape, .cpu = scatter_reduce_cpu, .grad = reduced_grad, .saves = "self, index, src, result",
    .flags = RUSH_STRIDED_OUT | RUSH_INPLACE_OK | RUSH_APART,
};

/* ---- take, put: self as if it had one dimension ---- */

static int flat_check(const char *name, const rush_tensor *index)
{
    RUSH_CHECK(index->dtype == RUSH_I64, RUSH_RUNTIME_ERROR, "%s(): Expected a long tensor for index, but got %s", name, rush_dtype_word(index->dtype));
    return 0;
}

/* Index numbers counted from the front, contiguous; an error when one is out of range. */
static int64_t *flat_numbers(const rush_tensor *index, int64_t n)
{
    const rush_tensor *t = rush_index_numbers(index);
    int64_t *front = t ? rush_scope_alloc(sizeof *front * (size_t)RUSH_MAX(t->numel, 1)) : NULL;
    if (!front) return NULL;
    const int64_t *p = rush_ptr(t);
    int64_t bad = t->numel ? rush_k_index->outside(p, t->numel, -n, n) : -1;
    RUSH_CHECK_NULL(bad < 0, RUSH_INDEX_ERROR, "out of range: tried to access index %lld on a tensor of %lld elements.", (long long)p[bad], (long long)n);
    memset(front, 0, sizeof *front * (size_t)t->numel);
    rush_k_index->offsets(front, p, t->numel, n, 1);
    return front;
}

static int take_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *index = in[1].t;
    if (flat_check("take", index)) return -1;
    RUSH_CHECK(SELF->numel > 0 || index->numel == 0, RUSH_INDEX_ERROR, "take(): tried to take from an empty tensor");
    return rush_same_dtype_out(out, SELF) ? -1 : rush_out_t(out, 0, SELF, SELF->dtype, index->ndim, index->size) ? 0 : -1;
}

static void flat_walk(char *indexed, char *other, int64_t other_step, const int64_t *index, int64_t n, size_t item, bool taking, rush_index_loop fn)
{
    rush_at at = {.scale = (int64_t)item, .size = item};
    rush_walk w;
    const int64_t one = 1, none = 0;
    rush_walk_start(&w, 1, &n);
    if (taking) rush_walk_add(&w, other, &other_step, (int64_t)item);
    rush_walk_add(&w, indexed, &none, (int64_t)item);
    if (!taking) rush_walk_add(&w, other, &other_step, (int64_t)item);
    rush_walk_add(&w, index, &one, 8);
    rush_walk_run(&w, taking ? 0 : 1, fn, &at);
}

static void take_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *self = rush_contiguous_copy(SELF);
    int64_t *index = self ? flat_numbers(in[1].t, self->numel) : NULL;
    rush_tensor *to = index && !rush_contiguous(out[0].t) ? rush_tensor_new(self->dtype, self->device, out[0].t->ndim, out[0].t->size) : out[0].t;
    if (index && to) flat_walk(rush_ptr(self), rush_ptr(to), 1, index, in[1].t->numel, rush_dtypes[self->dtype].size, true, rush_k_index->take);
    if (index && to && to != out[0].t) rush_copy_into(out[0].t, to);
}

static void take_grad(rush_grads *s)
{
    rush_tensor *self = s->in[0].t, *g = s->g[0];
    if (!g || !rush_needs(s, 0)) return;
    rush_tensor *zeros = rush_is_watched(g) ? T("new_zeros", V(g), rush_v_ints(self->size, self->ndim)) : zeros_like(self);
    s->gin[0] = zeros ? T_INPLACE("put", V(zeros), s->in[1], V(g), V(true)) : NULL;
}

static rush_op op_take = {
    .schema = "take(Tensor self, Tensor index) -> Tensor", .method = RUSH_METHOD,
    .doc = "The elements that index names in the flattened tensor, in the shape of index.",
    .shape = take_shape, .cpu = take_cpu, .grad = take_grad, .saves = "index", .flags = RUSH_STRIDED_OUT | RUSH_APART,
};

static int put_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *index = in[1].t, *source = in[2].t;
    if (flat_check("put_", index)) return -1;
    RUSH_CHECK(SELF->dtype == source->dtype, RUSH_RUNTIME_ERROR,
               "put_(): self and source expected to have the same dtype, but got self.dtype = %s and source.dtype = %s", rush_dtype_word(SELF->dtype),
               rush_dtype_word(source->dtype));
    RUSH_CHECK(index->numel == source->numel, RUSH_INDEX_ERROR,
               "put_(): Expected source and index to have the same number of elements, but got source.numel() = %lld, index.numel() = %lld",
               (long long)source->numel, (long long)index->numel);
    RUSH_CHECK(SELF->numel > 0 || index->numel == 0, RUSH_INDEX_ERROR, "put_(): Tried to put elements into an empty tensor");
    return rush_out_like(out, 0, SELF, SELF->dtype) ? 0 : -1;
}

static void put_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *to = out[0].t, *source = rush_contiguous_copy(in[2].t);
    bool direct = rush_contiguous(to) && !(to->flags & (RUSH_T_CONJ | RUSH_T_NEG));
    rush_tensor *plain = direct ? to : rush_tensor_new(to->dtype, to->device, to->ndim, to->size);
    if (!plain || !source || (plain != SELF && rush_copy_into(plain, SELF))) return;
    int64_t *index = flat_numbers(in[1].t, to->numel);
    rush_index_loop fn = I_(in[3]) ? rush_combining(RUSH_PUT_ADD, to->dtype) : rush_k_index->put;
    if (!index || !fn) return;
    flat_walk(rush_ptr(plain), rush_ptr(source), 1, index, in[1].t->numel, rush_dtypes[to->dtype].size, false, fn);
    if (plain != to) rush_copy_into(to, plain);
}

static void put_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0];
    const rush_tensor *source = s->in[2].t;
    if (!g) return;
    if (rush_needs(s, 0))
        s->gin[0] = I_(s->in[3]) ? g : T("put", V(g), s->in[1], V(T("new_zeros", V(g), rush_v_ints(source->size, source->ndim))), V(false));
    if (rush_needs(s, 2)) {
        rush_tensor *part = T("take", V(g), s->in[1]);
        s->gin[2] = part ? reshape_to(part, source) : NULL;
    }
}

static rush_op op_put = {
    .schema = "put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor", .method = RUSH_METHODS,
    .doc = "self with the elements of source put at, or added to, the places that index names in the flattened tensor.",
    .shape = put_shape, .cpu = put_cpu, .grad = put_grad, .saves = "index", .flags = RUSH_STRIDED_OUT | RUSH_INPLACE_OK | RUSH_APART,
};

RUSH_FAMILY(gather, &op_gather, &op_gather_backward, &op_value_selecting_backward, &op_take_along_dim, &op_scatter, &op_scatter_value, &op_scatter_add,
            &op_scatter_reduce_old, &op_scatter_value_reduce, &op_scatter_reduce, &op_take, &op_put)
