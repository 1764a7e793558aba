/* split.c - one tensor seen as several along a dimension: split, chunk, tensor_split, unbind.
 *
 * Every form decides on a list of sizes; the pieces are views, and their gradients are joined again.
 */
#include "autograd/autograd.h"
#include "op/formula.h"
#include "ops/geometry.h"

#define SELF (in[0].t)

static int pieces(rush_value *out, const rush_tensor *t, int dim, int64_t n, const int64_t *size)
{
    rush_tensor **list = rush_out_list(out, 0, (size_t)n);
    if (!list) return -1;
    for (int64_t k = 0, start = 0; k < n; start += size[k++])
        if (!(list[k] = rush_part(t, dim, start, size[k]))) return -1;
    return 0;
}

static int64_t *room_for(int64_t n)
{
    RUSH_CHECK_NULL(n < 1 << 26, RUSH_MEMORY_ERROR, "there is no room for %lld pieces", (long long)n);
    return rush_scope_alloc(sizeof(int64_t) * (size_t)n);
}

static int64_t count_of(int64_t have, int64_t each) { return each == 0 ? 1 : RUSH_MAX(have / each + (have % each != 0), 1); }

/* Sizes that follow from one number: `each` and a smaller last one. */
static int equal_pieces(rush_value *out, const rush_tensor *t, int dim, int64_t each)
{
    int64_t have = t->size[dim], n = count_of(have, each);
    int64_t *size = rush_scope_alloc(sizeof *size * (size_t)n);
    if (!size) return -1;
    for (int64_t k = 0; k < n; ++k) size[k] = RUSH_MIN(each, have - k * each);
    return pieces(out, t, dim, n, size);
}

static int split_each(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *t = SELF;
    int64_t each = I_(in[1]);
    RUSH_CHECK(t->ndim > 0, RUSH_RUNTIME_ERROR, "split expects at least a 1-dimensional tensor");
    RUSH_CHECK(each >= 0, RUSH_RUNTIME_ERROR, "split expects split_size be non-negative, but got split_size=%lld", (long long)each);
    int dim = rush_dim_wrap(I_(in[2]), t->ndim);
    if (dim < 0) return -1;
    RUSH_CHECK(each > 0 || t->size[dim] == 0, RUSH_RUNTIME_ERROR, "split_size can only be 0 if dimension size is 0, but got dimension size of %lld",
               (long long)t->size[dim]);
    return equal_pieces(out, t, dim, each);
}

static int split_sizes(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *t = SELF;
    int64_t sum = 0;
    RUSH_CHECK(t->ndim > 0, RUSH_RUNTIME_ERROR, "split expects at least a 1-dimensional tensor");
    int dim = rush_dim_wrap(I_(in[2]), t->ndim);
    if (dim < 0) return -1;
    for (uint32_t k = 0; k < in[1].n; ++k) {
        RUSH_CHECK(in[1].ints[k] >= 0, RUSH_RUNTIME_ERROR, "split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes=%s",
                   rush_shape_text((int)in[1].n, in[1].ints));
        RUSH_CHECK(!__builtin_add_overflow(sum, in[1].ints[k], &sum), RUSH_RUNTIME_ERROR, "split_sizes=%s are more than any size",
                   rush_shape_text((int)in[1].n, in[1].ints));
    }
    RUSH_CHECK(sum == t->size[dim], RUSH_RUNTIME_ERROR,
               "split_with_sizes expects split_sizes to sum exactly to %lld (input tensor's size at dimension %lld), but got split_sizes=%s",
               (long long)t->size[dim], (long long)I_(in[2]), rush_shape_text((int)in[1].n, in[1].ints));
    return pieces(out, t, dim, in[1].n, in[1].ints);
}

static int chunk_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *t = SELF;
    int64_t chunks = I_(in[1]);
    RUSH_CHECK(t->ndim > 0, RUSH_RUNTIME_ERROR, "chunk expects at least a 1-dimensional tensor");
    RUSH_CHECK(chunks > 0, RUSH_RUNTIME_ERROR, "chunk expects `chunks` to be greater than 0, got: %lld", (long long)chunks);
    int dim = rush_dim_wrap(I_(in[2]), t->ndim);
    if (dim < 0) return -1;
    int64_t have = t->size[dim], each = have / chunks + (have % chunks != 0);
    if (each == 0) { /* as many empty pieces as were asked for */
        int64_t *size = room_for(chunks);
        if (!size) return -1;
        memset(size, 0, sizeof *size * (size_t)chunks);
        return pieces(out, t, dim, chunks, size);
    }
    return equal_pieces(out, t, dim, each);
}

static int sections_check(const rush_tensor *t)
{
    RUSH_CHECK(t->ndim > 0, RUSH_RUNTIME_ERROR, "tensor_split expected at least a 1-dimensional tensor, but got a tensor with %d dims", t->ndim);
    return 0;
}

/* As slices, which are views each by itself: they may be changed in place, overlap, and run beyond the end. */
static int slices(rush_value *out, rush_tensor *t, int64_t n, const int64_t *cut, rush_value dim)
{
    rush_tensor **list = rush_out_list(out, 0, (size_t)n);
    if (!list) return -1;
    for (int64_t k = 0; k < n; ++k) {
        list[k] = T("slice.Tensor", V(t), dim, V(k ? cut[k - 1] : (int64_t)0), V(k + 1 < n ? cut[k] : t->size[rush_dim_wrap(I_(dim), t->ndim)]), V((int64_t)1));
        if (!list[k]) return -1;
    }
    return 0;
}

/* The sizes of n pieces; NULL and an error. */
static int64_t *sections_of(const rush_tensor *t, rush_value sections, rush_value dim)
{
    int64_t n = I_(sections);
    int d = sections_check(t) ? -1 : rush_dim_wrap(I_(dim), t->ndim);
    if (d < 0) return NULL;
    RUSH_CHECK_NULL(n > 0, RUSH_RUNTIME_ERROR, "number of sections must be larger than 0, got %lld", (long long)n);
    int64_t *size = room_for(n);
    for (int64_t k = 0; size && k < n; ++k) size[k] = t->size[d] / n + (k < t->size[d] % n);
    return size;
}

/* Pieces of one call and one derivative, that makes the whole in one go; but views each by itself. */
static int tensor_split_sections(const rush_op *op, const rush_value *in, rush_value *out)
{
    const int64_t *size = sections_of(SELF, in[1], in[2]);
    if (!size || pieces(out, SELF, rush_dim_wrap(I_(in[2]), SELF->ndim), I_(in[1]), size)) return -1;
    for (uint32_t k = 0; k < out[0].n; ++k) rush_view_link(out[0].tensors[k], SELF, 0);
    return 0;
}

static int tensor_split_open(const rush_op *op, const rush_value *in, rush_value *out)
{
    int64_t *cut = sections_of(SELF, in[1], in[2]);
    for (int64_t k = 1; cut && k < I_(in[1]); ++k) cut[k] += cut[k - 1];
    return cut ? slices(out, SELF, I_(in[1]), cut, in[2]) : -1;
}

static int tensor_split_indices(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (sections_check(SELF) || rush_dim_wrap(I_(in[2]), SELF->ndim) < 0) return -1;
    return slices(out, SELF, (int64_t)in[1].n + 1, in[1].ints, in[2]);
}

/* Pieces in order that make up the whole: joined, zeros where a piece had no gradient. */
static void join_grad(rush_grads *s, int dim, int64_t n, const int64_t *piece)
{
    const rush_tensor *self = s->in[0].t;
    rush_tensor *any = NULL, **all = rush_scope_alloc(sizeof *all * (size_t)n);
    if (!all) return;
    for (int64_t k = 0; k < n && !any; ++k) any = s->g[k];
    if (!any) return;
    for (int64_t k = 0; k < n; ++k) {
        int64_t size[RUSH_MAXDIM];
        memcpy(size, self->size, sizeof *size * self->ndim);
        size[dim] = piece[k];
        all[k] = s->g[k] ? s->g[k] : T("new_zeros", V(any), rush_v_ints(size, self->ndim));
    }
    s->gin[0] = T("cat", rush_v_tensors(all, (size_t)n), V((int64_t)dim));
}

static void equal_grad(rush_grads *s, int64_t each, int64_t n, int64_t dim)
{
    const rush_tensor *self = s->in[0].t;
    int d = rush_dim_wrap(dim, self->ndim);
    int64_t *size = rush_scope_alloc(sizeof *size * (size_t)n);
    if (!size || d < 0) return;
    for (int64_t k = 0; k < n; ++k) size[k] = RUSH_MAX(0, RUSH_MIN(each, self->size[d] - k * each));
    join_grad(s, d, n, size);
}

static void split_grad(rush_grads *s)
{
    int64_t each = I_(s->in[1]), have = s->in[0].t->size[rush_dim_wrap(I_(s->in[2]), s->in[0].t->ndim)];
    equal_grad(s, each, count_of(have, each), I_(s->in[2]));
}

static void chunk_grad(rush_grads *s)
{
    int64_t chunks = I_(s->in[1]), have = s->in[0].t->size[rush_dim_wrap(I_(s->in[2]), s->in[0].t->ndim)], each = have / chunks + (have % chunks != 0);
    equal_grad(s, each, each == 0 ? chunks : (have + each - 1) / each, I_(s->in[2]));
}

static void tensor_split_grad(rush_grads *s)
{
    const int64_t *size = sections_of(s->in[0].t, s->in[1], s->in[2]);
    if (size) join_grad(s, rush_dim_wrap(I_(s->in[2]), s->in[0].t->ndim), I_(s->in[1]), size);
}

static void split_sizes_grad(rush_grads *s)
{
    join_grad(s, rush_dim_wrap(I_(s->in[2]), s->in[0].t->ndim), s->in[1].n, s->in[1].ints);
}

static rush_op op_split = {
    .schema = "split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]", .method = RUSH_METHOD,
    .doc = "Pieces of split_size along dim, the last one smaller where it does not divide the size. Views.",
    .shape = split_each, .grad = split_grad, .flags = RUSH_VIEW,
};
static rush_op op_split_sizes = {
    .schema = "split.sizes(Tensor(a -> *) self, SymInt[] split_size, int dim=0) -> Tensor(a)[]",
    .doc = "Pieces of the given sizes along dim. Views.", .shape = split_sizes, .grad = split_sizes_grad, .flags = RUSH_VIEW,
};
static rush_op op_split_with_sizes = {
    .schema = "split_with_sizes(Tensor(a -> *) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]", .method = RUSH_METHOD,
    .doc = "Pieces of the given sizes along dim. Views.", .shape = split_sizes, .grad = split_sizes_grad, .flags = RUSH_VIEW,
};
static rush_op op_chunk = {
    .schema = "chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]", .method = RUSH_METHOD, .node = "SplitBackward0",
    .doc = "At most `chunks` pieces of equal size along dim, the last one smaller. Views.",
    .shape = chunk_shape, .grad = chunk_grad, .flags = RUSH_VIEW,
};
/* The unsafe forms may be changed in place, for their pieces are no views to autograd: each counts its own changes. */
static int own_versions(rush_value *out)
{
    for (uint32_t k = 0; k < out[0].n; ++k)
        if (rush_version_own(out[0].tensors[k], 0)) return -1;
    return 0;
}

static int unsafe_each(const rush_op *op, const rush_value *in, rush_value *out) { return split_each(op, in, out) || own_versions(out) ? -1 : 0; }
static int unsafe_sizes(const rush_op *op, const rush_value *in, rush_value *out) { return split_sizes(op, in, out) || own_versions(out) ? -1 : 0; }
static int unsafe_chunk_shape(const rush_op *op, const rush_value *in, rush_value *out) { return chunk_shape(op, in, out) || own_versions(out) ? -1 : 0; }
static rush_op op_unsafe_split = {
    .schema = "unsafe_split.Tensor(Tensor self, SymInt split_size, int dim=0) -> Tensor[]", .method = RUSH_METHOD,
    .doc = "split() whose pieces may be changed in place, if only one is used.", .shape = unsafe_each, .grad = split_grad, .flags = RUSH_ANY_DEVICE,
};
static rush_op op_unsafe_split_with_sizes = {
    .schema = "unsafe_split_with_sizes(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]", .method = RUSH_METHOD,
    .doc = "split_with_sizes() whose pieces may be changed in place.", .shape = unsafe_sizes, .grad = split_sizes_grad, .flags = RUSH_ANY_DEVICE,
};
static rush_op op_unsafe_chunk = {
    .schema = "unsafe_chunk(Tensor self, int chunks, int dim=0) -> Tensor[]", .method = RUSH_METHOD, .node = "UnsafeSplitBackward0",
    .doc = "chunk() whose pieces may be changed in place.", .shape = unsafe_chunk_shape, .grad = chunk_grad, .flags = RUSH_ANY_DEVICE,
};
static rush_op op_tensor_split_sections = {
    .schema = "tensor_split.sections(Tensor(a -> *) self, SymInt sections, int dim=0) -> Tensor(a)[]",
    .method = RUSH_METHOD, .node = "SliceBackward0",
    .doc = "Exactly `sections` pieces along dim, the first ones larger by one where it does not divide the size. Views.",
    .shape = tensor_split_sections, .grad = tensor_split_grad, .open = tensor_split_open, .flags = RUSH_VIEW,
};
static rush_op op_tensor_split_indices = {
    .schema = "tensor_split.indices(Tensor(a -> *) self, SymInt[] indices, int dim=0) -> Tensor(a)[]", .node = "SliceBackward0",
    .doc = "Pieces between cuts at the given indices of dim. Views.",
    .run = tensor_split_indices,
};

static int give_list(rush_value *out, int failed, rush_value list)
{
    if (failed) return -1;
    out[0] = list;
    return 0;
}

static int tensor_split_tensor_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *where_ = in[1].t;
    rush_value list;
    RUSH_CHECK(where_->device.type == RUSH_CPU, RUSH_RUNTIME_ERROR, "tensor_split expected tensor_indices_or_sections to be on cpu");
    RUSH_CHECK(where_->dtype == RUSH_I64, RUSH_RUNTIME_ERROR, "tensor_split expected tensor_indices_or_sections to have dtype of long, but got %s",
               rush_dtype_word(where_->dtype));
    RUSH_CHECK(where_->ndim <= 1, RUSH_RUNTIME_ERROR,
               "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or one-dimensional tensor, but got a tensor with %d dims",
               where_->ndim);
    if (where_->ndim == 0) return give_list(out, TN(&list, "tensor_split.sections", V(SELF), V((int64_t)rush_number_of(in[1].t)), in[2]), list);
    const int64_t *cut = rush_numbers_of(in[1].t);
    if (!cut) return -1;
    return give_list(out, TN(&list, "tensor_split.indices", V(SELF), rush_v_ints(cut, (size_t)where_->numel), in[2]), list);
}

static rush_op op_tensor_split_tensor = {
    .schema = "tensor_split.tensor_indices_or_sections(Tensor(a -> *) self, Tensor tensor_indices_or_sections, int dim=0) -> Tensor(a)[]",
    .doc = "tensor_split() by a number of sections or by cuts that are in a tensor.", .run = tensor_split_tensor_run,
    .flags = RUSH_CROSS_DEVICE,
};

/* hsplit, vsplit, dsplit: tensor_split along a fixed dimension, where the size must divide evenly. */
static int along(const rush_value *in, rush_value *out, const char *name, int least, int dim)
{
    rush_value list;
    RUSH_CHECK(SELF->ndim >= least, RUSH_RUNTIME_ERROR, "torch.%s requires a tensor with at least %d dimension, but got a tensor with %d dimensions!",
               name, least, SELF->ndim);
    if (in[1].kind == RUSH_V_INTS) return give_list(out, TN(&list, "tensor_split.indices", V(SELF), in[1], V((int64_t)dim)), list);
    int64_t n = I_(in[1]);
    RUSH_CHECK(n > 0 && SELF->size[dim] % n == 0, RUSH_RUNTIME_ERROR,
               "torch.%s attempted to split along dimension %d, but the size of the dimension %lld is not divisible by the split_size %lld!", name,
               dim, (long long)SELF->size[dim], (long long)n);
    return give_list(out, TN(&list, "tensor_split.sections", V(SELF), in[1], V((int64_t)dim)), list);
}

static int hsplit_run(const rush_op *op, const rush_value *in, rush_value *out) { return along(in, out, "hsplit", 1, SELF->ndim == 1 ? 0 : 1); }
static int vsplit_run(const rush_op *op, const rush_value *in, rush_value *out) { return along(in, out, "vsplit", 2, 0); }
static int dsplit_run(const rush_op *op, const rush_value *in, rush_value *out) { return along(in, out, "dsplit", 3, 2); }

static rush_op op_hsplit = {
    .schema = "hsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]", .method = RUSH_METHOD, .doc = "Equal pieces along dimension 1 (0 of vectors).", .run = hsplit_run};
static rush_op op_hsplit_array = {
    .schema = "hsplit.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]", .doc = "Cut along dimension 1 (0 of vectors).", .run = hsplit_run};
static rush_op op_vsplit = {
    .schema = "vsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]", .method = RUSH_METHOD, .doc = "Equal pieces along dimension 0.", .run = vsplit_run};
static rush_op op_vsplit_array = {
    .schema = "vsplit.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]", .doc = "Cut along dimension 0.", .run = vsplit_run};
static rush_op op_dsplit = {
    .schema = "dsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]", .method = RUSH_METHOD, .doc = "Equal pieces along dimension 2.", .run = dsplit_run};
static rush_op op_dsplit_array = {
    .schema = "dsplit.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]", .doc = "Cut along dimension 2.", .run = dsplit_run};

static int unbind_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *t = SELF;
    RUSH_CHECK(t->ndim > 0, RUSH_INDEX_ERROR, "Dimension specified as %lld but tensor has no dimensions", (long long)I_(in[1]));
    int dim = rush_dim_wrap(I_(in[1]), t->ndim);
    if (dim < 0) return -1;
    geometry g;
    rush_tensor **list = rush_out_list(out, 0, (size_t)t->size[dim]);
    if (!list) return -1;
    for (int64_t k = 0; k < t->size[dim]; ++k)
        if (rush_geometry_select(&g, t, dim, k) || !(list[k] = rush_geometry_view(t, &g))) return -1;
    return 0;
}

static void unbind_grad(rush_grads *s)
{
    const rush_tensor *self = s->in[0].t;
    int dim = rush_dim_wrap(I_(s->in[1]), self->ndim);
    int64_t n = self->size[dim];
    rush_tensor *any = NULL, *zero = NULL, **all = rush_scope_alloc(sizeof *all * (size_t)n);
    if (!all) return;
    for (int64_t k = 0; k < n; ++k)
        if (s->g[k] && (!any || !s->g[k]->layout)) any = s->g[k]; /* of sparse slices they are sparse, dense as soon as one is */
    if (!any) return;
    for (int64_t k = 0; k < n; ++k) {
        rush_tensor *g = s->g[k];
        if (!g && !zero) zero = any->layout ? T("zeros_like", V(any)) : rush_zeros_like(any);
        all[k] = !g ? zero : g->layout && !any->layout ? T("to_dense", V(g)) : g;
    }
    s->gin[0] = T("stack", rush_v_tensors(all, (size_t)n), V((int64_t)dim));
}

static rush_op op_unbind = {
    .schema = "unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]", .method = RUSH_METHOD,
    .doc = "Each index of dimension dim as a tensor of its own. Views.", .shape = unbind_shape, .grad = unbind_grad, .flags = RUSH_VIEW,
};

RUSH_FAMILY(split, &op_split, &op_split_sizes, &op_split_with_sizes, &op_chunk, &op_unsafe_split, &op_unsafe_split_with_sizes, &op_unsafe_chunk,
            &op_tensor_split_sections, &op_tensor_split_indices, &op_tensor_split_tensor, &op_hsplit, &op_hsplit_array, &op_vsplit,
            &op_vsplit_array, &op_dsplit, &op_dsplit_array, &op_unbind)
