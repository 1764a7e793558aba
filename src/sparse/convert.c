/* convert.c - to_dense, to_sparse and its forms, copies and other dtypes. */
#include "sparse/coo.h"

#define SELF (in[0].t)

/* ---- to dense ---- */

static int to_dense_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (SELF->layout) return rush_result(out, T("_to_dense", in[0], in[1], in[2]));
    return rush_result(out, HAS(in[1]) && I_(in[1]) != SELF->dtype ? T("_to_dtype", in[0], in[1]) : SELF);
}

static int do_to_dense_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(!HAS(in[1]), RUSH_RUNTIME_ERROR, "dtype argument is not supported by sparse_to_dense");
    return rush_result(out, rush_as_dense(SELF));
}

/* A dense gradient at self's entries, or, if the entries are no mask, wherever it is not zero. */
static void to_dense_grad(rush_grads *s)
{
    rush_tensor *self = s->in[0].t, *g = s->g[0];
    if (!g) return;
    if (!HAS(s->in[2]) || I_(s->in[2])) {
        s->gin[0] = T("sparse_mask", V(g), V(IS_COO(self) ? T("coalesce", V(self)) : self));
    } else if (IS_COO(self)) {
        s->gin[0] = T("to_sparse.sparse_dim", V(g), V((int64_t)self->parts->sparse_dim));
    } else {
        int64_t block[2];
        rush_block_size(self, block);
        s->gin[0] = T("to_sparse", V(g), ((rush_value){.kind = RUSH_V_LAYOUT, .i = self->layout}), rush_blocked(self->layout) ? rush_v_ints(block, 2) : RUSH_NONE,
                      V((int64_t)self->parts->dense_dim));
    }
}

static rush_op op_to_dense = {
    .schema = "to_dense(Tensor self, ScalarType? dtype=None, *, bool? masked_grad=None) -> Tensor", .method = RUSH_METHOD | RUSH_NO_FUNCTION, .doc = "A strided tensor of the same elements.",
    .run = to_dense_run, .flags = RUSH_ANY_LAYOUT,
};
static rush_op op_do_to_dense = {
    .schema = "_to_dense(Tensor self, ScalarType? dtype=None, bool? masked_grad=None) -> Tensor", .method = RUSH_METHOD, .doc = "to_dense() of sparse tensors.",
    .run = do_to_dense_run, .grad = to_dense_grad, .saves = "self", .flags = RUSH_ANY_LAYOUT,
};

/* ---- to sparse ---- */

/* Dense in COO with so many sparse dimensions: the rows in which anything is not zero. */
static rush_tensor *dense_to_coo(rush_tensor *t, int64_t sparse)
{
    if (rush_sparse_place(t->device)) return NULL;
    RUSH_CHECK_NULL(sparse >= 0 && sparse <= t->ndim, RUSH_RUNTIME_ERROR, "dense_to_sparse: sparse_dim argument must be in [0,%d] range, but %lld is given", t->ndim,
                    (long long)sparse);
    RUSH_CHECK_NULL(sparse > 0 || t->ndim == 0, RUSH_RUNTIME_ERROR, "dense_to_sparse: sparse_dim argument must be in >0 when self.dim()>0");
    rush_tensor *mask = ne(t, (int64_t)0);
    int64_t size[RUSH_MAXDIM + 1], rows = 1;
    for (int d = 0; d < sparse; ++d) rows *= t->size[d];
    for (int d = (int)sparse; d < t->ndim; ++d) size[d - sparse] = d;
    if (sparse < t->ndim) mask = T("any.dims", V(mask), rush_v_ints(size, (size_t)(t->ndim - sparse)));
    rush_tensor *places = mask ? T("nonzero", V(T("reshape", V(mask), INTS(-1)))) : NULL;
    rush_tensor *flat = places ? T("reshape", V(places), INTS(-1)) : NULL;
    if (!flat) return NULL;
    rush_tensor *list[RUSH_MAXDIM], *left = flat;
    for (int d = (int)sparse - 1; d >= 0 && left; --d) {
        list[d] = d ? T("remainder.Scalar", V(left), V(RUSH_MAX(t->size[d], 1))) : left;
        if (d) left = T("floor_divide.Scalar", V(left), V(RUSH_MAX(t->size[d], 1)));
    }
    rush_tensor *indices = !left ? NULL : sparse ? T("stack", rush_v_tensors(list, (size_t)sparse)) : T("new_empty", V(flat), INTS(0, flat->numel));
    if (!indices) return NULL;
    size[0] = rows;
    memcpy(size + 1, t->size + sparse, sizeof *size * (size_t)(t->ndim - sparse));
    rush_tensor *all = T("reshape", V(t), rush_v_ints(size, (size_t)(t->ndim - sparse + 1)));
    return all ? rush_coo_new(t->ndim, t->size, indices, T("index_select", V(all), V((int64_t)0), V(flat)), true) : NULL;
}

static rush_tensor *dense_to_compressed(rush_tensor *t, rush_layout layout, const int64_t *block, int64_t dense)
{
    const char *word = rush_layout_word(layout);
    if (rush_sparse_place(t->device)) return NULL;
    RUSH_CHECK_NULL(t->ndim >= 2, RUSH_INDEX_ERROR, "dense_to_sparse: conversion to %s wants at least two dimensions, got %s", word, rush_shape_of(t));
    RUSH_CHECK_NULL(dense >= 0 && dense <= t->ndim - 2, RUSH_RUNTIME_ERROR, "dense_to_sparse_%c%c%c: dense_dim argument must be in [0,%d] range, but %lld is given",
                    word[6] | 32, word[7], word[8], t->ndim - 2, (long long)dense);
    int64_t rows = t->size[t->ndim - 2 - dense], cols = t->size[t->ndim - 1 - dense];
    RUSH_CHECK_NULL(!block || (block[0] > 0 && block[1] > 0 && rows % block[0] == 0 && cols % block[1] == 0), RUSH_RUNTIME_ERROR,
                    "dense_to_sparse_%c%c%c: tensor sparse size (%lld,%lld) must be divisible by given blocksize (%lld,%lld)", word[6] | 32, word[7], word[8],
                    (long long)rows, (long long)cols, (long long)block[0], (long long)block[1]);
    return rush_as_compressed(dense_to_coo(t, t->ndim - dense), layout, block);
}

/* Between sparse layouts, with PyTorch's limits. */
static rush_tensor *sparse_to(rush_tensor *t, rush_layout layout, const int64_t *block, rush_value dense)
{
    const char *from = rush_layout_word(t->layout), *to = rush_layout_word(layout);
    int64_t own[2];
    rush_block_size(t, own);
    RUSH_CHECK_NULL(!HAS(dense) || I_(dense) == t->parts->dense_dim, RUSH_RUNTIME_ERROR,
                    "to_sparse: conversion from %s to %s with dense_dim argument != self.dense_dim() is not supported", from, to);
    if (t->layout == layout) {
        RUSH_CHECK_NULL(!block || (block[0] == own[0] && block[1] == own[1]), RUSH_RUNTIME_ERROR,
                        "to_sparse_%c%c%c: conversion from %s to %s with blocksize changed from [%lld, %lld] to [%lld, %lld] is not supported", to[6] | 32, to[7], to[8],
                        from, to, (long long)own[0], (long long)own[1], (long long)(block ? block[0] : 0), (long long)(block ? block[1] : 0));
        return t;
    }
    if (layout == RUSH_SPARSE_COO) return rush_as_coo(t);
    RUSH_CHECK_NULL(!IS_COO(t) || t->parts->sparse_dim == 2, RUSH_RUNTIME_ERROR,
                    "coo_to_sparse_%c%c%c: conversion from %s to %s for input tensors with sparse_dim()!=2 is not supported", to[6] | 32, to[7], to[8], from, to);
    RUSH_CHECK_NULL(!rush_blocked(t->layout) || rush_blocked(layout), RUSH_RUNTIME_ERROR,
                    "sparse_compressed_to_sparse_%c%c%c: expected SparseCsr or SparseCsc layout but got %s", to[6] | 32, to[7], to[8], from);
    RUSH_CHECK_NULL(!rush_blocked(layout) || rush_blocked(t->layout) || !t->parts->batch_dim, RUSH_RUNTIME_ERROR,
                    "sparse_compressed_to_sparse_%c%c%c: conversion from %s to %s for batched inputs is not supported", to[6] | 32, to[7], to[8], from, to);
    int batch = t->parts->batch_dim;
    RUSH_CHECK_NULL(!block || (block[0] > 0 && block[1] > 0 && t->size[batch] % block[0] == 0 && t->size[batch + 1] % block[1] == 0), RUSH_RUNTIME_ERROR,
                    "sparse_compressed_to_sparse_%c%c%c: tensor sparse size (%lld,%lld) must be divisible by given blocksize (%lld,%lld)", to[6] | 32, to[7], to[8],
                    (long long)t->size[batch], (long long)t->size[batch + 1], (long long)(block ? block[0] : 0), (long long)(block ? block[1] : 0));
    rush_tensor *r = rush_as_compressed(rush_as_coo(t), layout, rush_blocked(layout) ? block : NULL);
    return rush_index_type_of(r, t);
}

static int converted(rush_value *out, rush_tensor *t, rush_layout layout, rush_value blocksize, rush_value dense)
{
    const int64_t *block = HAS(blocksize) && blocksize.n == 2 ? blocksize.ints : NULL;
    const char *from = rush_layout_word(t->layout), *to = rush_layout_word(layout);
    RUSH_CHECK(layout != RUSH_STRIDED, RUSH_RUNTIME_ERROR, "to_sparse: conversion from %s to %s is none to a sparse layout", from, to);
    RUSH_CHECK(!block || rush_blocked(layout), RUSH_RUNTIME_ERROR, "dense_to_sparse: conversion from %s to %s with blocksize argument given is not supported", from, to);
    RUSH_CHECK(block || !rush_blocked(layout) || t->layout == layout, RUSH_RUNTIME_ERROR,
               "dense_to_sparse: conversion from %s to %s without blocksize argument given is not supported", from, to);
    if (t->layout) return rush_result(out, sparse_to(t, layout, block, dense));
    int64_t n = HAS(dense) ? I_(dense) : 0;
    RUSH_CHECK(n >= 0 && n <= t->ndim, RUSH_RUNTIME_ERROR, "dense_to_sparse: a tensor of %d dimensions has no %lld dense ones", t->ndim, (long long)n);
    return rush_result(out, layout == RUSH_SPARSE_COO ? dense_to_coo(t, t->ndim - n) : dense_to_compressed(t, layout, block, n));
}

static int do_to_sparse_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return converted(out, SELF, HAS(in[1]) ? (rush_layout)I_(in[1]) : RUSH_SPARSE_COO, in[2], in[3]);
}
static int do_to_sparse_dim_run(const rush_op *op, const rush_value *in, rush_value *out) { return rush_result(out, dense_to_coo(SELF, I_(in[1]))); }
static int do_to_csr_run(const rush_op *op, const rush_value *in, rush_value *out) { return converted(out, SELF, RUSH_SPARSE_CSR, RUSH_NONE, in[1]); }
static int do_to_csc_run(const rush_op *op, const rush_value *in, rush_value *out) { return converted(out, SELF, RUSH_SPARSE_CSC, RUSH_NONE, in[1]); }
static int do_to_bsr_run(const rush_op *op, const rush_value *in, rush_value *out) { return converted(out, SELF, RUSH_SPARSE_BSR, in[1], in[2]); }
static int do_to_bsc_run(const rush_op *op, const rush_value *in, rush_value *out) { return converted(out, SELF, RUSH_SPARSE_BSC, in[1], in[2]); }

/* The gradient in the layout that self had. */
static void to_sparse_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0], *self = s->in[0].t;
    if (!g) return;
    if (!self->layout) {
        s->gin[0] = T("to_dense", V(g));
    } else if (g->layout == self->layout) {
        s->gin[0] = g;
    } else {
        int64_t block[2] = {1, 1};
        bool blocked = rush_blocked(self->layout);
        if (blocked) rush_block_size(self, block);
        s->gin[0] = T("to_sparse", V(g), ((rush_value){.kind = RUSH_V_LAYOUT, .i = self->layout}), blocked ? rush_v_ints(block, 2) : RUSH_NONE);
    }
}

#define DO(id, name, arguments)                                                                             \
    static rush_op op_do_##id = {.schema = name "(Tensor self" arguments ") -> Tensor", .method = RUSH_METHOD, .doc = "to_sparse() where there is something to do.", \
                                 .run = do_##id##_run, .grad = to_sparse_grad, .saves = "self", .flags = RUSH_ANY_LAYOUT | RUSH_HIDDEN}
DO(to_sparse, "_to_sparse", ", *, Layout? layout=None, int[2]? blocksize=None, int? dense_dim=None");
DO(to_sparse_dim, "_to_sparse.sparse_dim", ", int sparse_dim");
DO(to_csr, "_to_sparse_csr", ", int? dense_dim=None");
DO(to_csc, "_to_sparse_csc", ", int? dense_dim=None");
DO(to_bsr, "_to_sparse_bsr", ", int[2] blocksize, int? dense_dim=None");
DO(to_bsc, "_to_sparse_bsc", ", int[2] blocksize, int? dense_dim=None");

static int to_sparse_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    int layout = HAS(in[1]) ? (int)I_(in[1]) : RUSH_SPARSE_COO;
    if (layout == SELF->layout && !(HAS(in[2]) && rush_blocked(layout))) return rush_result(out, SELF);
    RUSH_CHECK(layout != RUSH_STRIDED, RUSH_RUNTIME_ERROR, "to_sparse: conversion from %s to Strided: use to_dense()", rush_layout_word(SELF->layout));
    return rush_result(out, T("_to_sparse", in[0], in[1], in[2], in[3]));
}
static int to_sparse_dim_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (!SELF->layout) return rush_result(out, T("_to_sparse.sparse_dim", in[0], in[1]));
    bool same = I_(in[1]) == SELF->parts->sparse_dim;
    RUSH_CHECK(same || !IS_COO(SELF), RUSH_RUNTIME_ERROR,
               "to_sparse: conversion from Sparse to Sparse with sparse_dim argument !=self.sparse_dim() is not supported");
    RUSH_CHECK(same, RUSH_RUNTIME_ERROR, "sparse_compressed_to_sparse: conversion from %s to Sparse with sparse_dim argument !=2 is not supported",
               rush_layout_word(SELF->layout));
    return rush_result(out, IS_COO(SELF) ? SELF : T("_to_sparse", in[0]));
}
static int to_csr_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_result(out, SELF->layout == RUSH_SPARSE_CSR ? SELF : T("_to_sparse_csr", in[0], in[1]));
}
static int to_csc_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_result(out, SELF->layout == RUSH_SPARSE_CSC ? SELF : T("_to_sparse_csc", in[0], in[1]));
}
static int to_bsr_run(const rush_op *op, const rush_value *in, rush_value *out) { return rush_result(out, T("_to_sparse_bsr", in[0], in[1], in[2])); }
static int to_bsc_run(const rush_op *op, const rush_value *in, rush_value *out) { return rush_result(out, T("_to_sparse_bsc", in[0], in[1], in[2])); }

#define TO(id, name, arguments, words)                                                                      \
    static rush_op op_##id = {.schema = name "(Tensor self" arguments ") -> Tensor", .method = RUSH_METHOD | RUSH_NO_FUNCTION, .doc = words, .run = id##_run, .flags = RUSH_ANY_LAYOUT}
TO(to_sparse, "to_sparse", ", *, Layout? layout=None, int[2]? blocksize=None, int? dense_dim=None", "self in a sparse layout, COO if none is named.");
TO(to_sparse_dim, "to_sparse.sparse_dim", ", int sparse_dim", "self in layout COO with indices for the first dimensions only.");
TO(to_csr, "to_sparse_csr", ", int? dense_dim=None", "self with its rows compressed.");
TO(to_csc, "to_sparse_csc", ", int? dense_dim=None", "self with its columns compressed.");
TO(to_bsr, "to_sparse_bsr", ", int[2] blocksize, int? dense_dim=None", "self as blocks, their rows compressed.");
TO(to_bsc, "to_sparse_bsc", ", int[2] blocksize, int? dense_dim=None", "self as blocks, their columns compressed.");

/* ---- copies of sparse tensors ---- */

static rush_tensor *fresh(rush_tensor *part, rush_value where)
{
    if (!part) return NULL;
    return HAS(where) ? T("_to_copy", V(part), RUSH_NONE, RUSH_NONE, where) : T("clone", V(part));
}

/* where: the device, or none for the tensor's */
static rush_tensor *copied(const rush_tensor *t, rush_dtype dtype, rush_value where)
{
    const rush_sparse *p = t->parts;
    rush_tensor *values = p->values->dtype == dtype ? p->values : rush_cast_copy(p->values, dtype);
    if (values && (values == p->values || HAS(where))) values = fresh(values, where);
    rush_tensor *copy = values ? rush_sparse_new((rush_layout)t->layout, t->ndim, t->size, fresh(p->compressed, where), fresh(p->plain, where), values, p->sparse_dim, p->dense_dim, p->coalesced) : NULL;
    if (copy) copy->parts->coalesced = p->coalesced;
    return copy;
}

static int clone_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(!HAS(in[1]) || I_(in[1]) == RUSH_PRESERVE, RUSH_RUNTIME_ERROR, "unsupported memory format option %s",
               I_(in[1]) == RUSH_CONTIGUOUS ? "Contiguous" : "ChannelsLast");
    return rush_result(out, copied(SELF, SELF->dtype, RUSH_NONE));
}

static int to_copy_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (HAS(in[3]) && rush_sparse_place(in[3].device)) return -1;
    RUSH_CHECK(!HAS(in[2]) || I_(in[2]) == SELF->layout, RUSH_NOT_IMPLEMENTED, "conversion between layouts: use to_dense(), to_sparse()");
    return rush_result(out, copied(SELF, HAS(in[1]) ? (rush_dtype)I_(in[1]) : (rush_dtype)SELF->dtype, in[3]));
}

static int alias_run(const rush_op *op, const rush_value *in, rush_value *out) { return rush_result(out, rush_sparse_alias(SELF)); }

static rush_op sparse_clone = {.schema = "clone", .run = clone_run, .flags = RUSH_SAME_GRAD};
static rush_op sparse_to_copy = {.schema = "_to_copy", .run = to_copy_run, .flags = RUSH_SAME_GRAD};
static rush_op sparse_alias = {.schema = "alias", .run = alias_run, .flags = RUSH_SAME_GRAD};
static rush_op sparse_detach = {.schema = "detach", .run = alias_run, .flags = RUSH_NO_GRAD};
static rush_op sparse_to_dtype = {.schema = "to.dtype"}, sparse_to_device = {.schema = "to.device"}, sparse_to_layout = {.schema = "to.dtype_layout"};
static rush_op sparse_to_other = {.schema = "to.other", .flags = RUSH_DENSE_FIRST}, sparse_type_as = {.schema = "type_as", .flags = RUSH_DENSE_FIRST}, sparse_plain_to = {.schema = "_to_dtype"};
static rush_op sparse_positive = {.schema = "positive"};

/* ---- like another ---- */

/* Layouts as PyTorch has them: a compressed tensor gives zeros of another sparse layout of its kind (blocks or none), nothing else
 * of another layout; a COO tensor gives what is dense, too. */
static int like_layout(const rush_tensor *self, rush_value wanted, rush_value format, bool zeros)
{
    int layout = HAS(wanted) ? (int)I_(wanted) : self->layout;
    RUSH_CHECK(!HAS(format) || !IS_COO(self), RUSH_RUNTIME_ERROR, "memory format option is only supported by strided tensors");
    RUSH_CHECK(IS_COO(self) || layout == self->layout || (zeros && layout != RUSH_STRIDED), RUSH_RUNTIME_ERROR,
               "empty_like with different sparse layout is not supported (self is %s but you requested %s)", rush_layout_word(self->layout), rush_layout_word(layout));
    RUSH_CHECK(layout == RUSH_STRIDED || layout == RUSH_SPARSE_COO || rush_blocked(layout) == rush_blocked(self->layout), RUSH_RUNTIME_ERROR,
               "blocksize: a tensor of layout %s gives none of layout %s", rush_layout_word(self->layout), rush_layout_word(layout));
    return layout;
}

/* options: dtype, layout, device, pin_memory, memory_format */
static rush_tensor *zeros_of(rush_tensor *self, const rush_value *options, int layout)
{
    rush_dtype dtype = HAS(options[0]) ? (rush_dtype)I_(options[0]) : (rush_dtype)self->dtype;
    if (layout < 0 || (HAS(options[2]) && rush_sparse_place(options[2].device))) return NULL;
    if (layout == RUSH_STRIDED) return T("zeros", rush_v_ints(self->size, self->ndim), rush_v_dtype(dtype), ON(self));
    return rush_in_layout(rush_cleared(self, dtype), (rush_layout)layout, self);
}

static int zeros_like_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_result(out, zeros_of(SELF, in + 1, like_layout(SELF, in[2], in[5], true)));
}

static int empty_like_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    int layout = like_layout(SELF, in[2], in[5], false);
    if (layout < 0 || (IS_COO(SELF) && layout <= RUSH_SPARSE_COO)) return rush_result(out, zeros_of(SELF, in + 1, layout));
    if (IS_COO(SELF)) return rush_result(out, rush_sparse_empty((rush_layout)layout, HAS(in[1]) ? (rush_dtype)I_(in[1]) : (rush_dtype)SELF->dtype, SELF->device, SELF->ndim, SELF->size));
    rush_tensor *values = T("zeros_like", V(VALUES(SELF)), in[1]);
    return rush_result(out, values ? rush_sparse_with(SELF, values) : NULL);
}

/* ones_like and its kin: the entries of compressed layouts stay and get these values. */
static int values_like_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_op *dense = op->row;
    int at = rush_op_arg(dense, "layout"), layout = like_layout(SELF, in[at], in[rush_op_arg(dense, "memory_format")], false);
    RUSH_CHECK(layout < 0 || !IS_COO(SELF) || layout == RUSH_STRIDED, RUSH_NOT_IMPLEMENTED, "Could not run 'aten::fill_.Scalar' with arguments from the 'SparseCPU' backend.");
    rush_value inner[16], result[RUSH_MAXOUT] = {0};
    memcpy(inner, in, sizeof *in * dense->nargs);
    rush_tensor *like = IS_COO(SELF) ? zeros_of(SELF, in + at - 1, layout) : VALUES(SELF);
    inner[at] = RUSH_NONE;
    inner[0] = like ? rush_v_tensor(like) : RUSH_NONE;
    if (layout < 0 || !like || rush_call(dense, inner, result)) return -1;
    return rush_result(out, IS_COO(SELF) ? result[0].t : rush_sparse_with(SELF, result[0].t));
}
#define LIKE(id, name) static rush_op sparse_##id = {.schema = name, .run = values_like_run}
LIKE(ones_like, "ones_like");
LIKE(full_like, "full_like");
LIKE(rand_like, "rand_like");
LIKE(randn_like, "randn_like");

static int new_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    int layout = HAS(in[3]) ? (int)I_(in[3]) : SELF->layout;
    rush_dtype dtype = HAS(in[2]) ? (rush_dtype)I_(in[2]) : (rush_dtype)SELF->dtype;
    if (layout == RUSH_STRIDED) return rush_result(out, T("zeros", in[1], rush_v_dtype(dtype), ON(SELF)));
    return rush_result(out, rush_sparse_empty((rush_layout)layout, dtype, SELF->device, (int)in[1].n, in[1].ints));
}

static rush_op sparse_zeros_like = {.schema = "zeros_like", .run = zeros_like_run}, sparse_empty_like = {.schema = "empty_like", .run = empty_like_run};
static rush_op sparse_new = {.schema = "new_zeros new_empty", .run = new_run};

RUSH_FAMILY(sparse_convert, &op_to_dense, &op_do_to_dense, &op_do_to_sparse, &op_do_to_sparse_dim, &op_do_to_csr, &op_do_to_csc, &op_do_to_bsr, &op_do_to_bsc,
            &op_to_sparse, &op_to_sparse_dim, &op_to_csr, &op_to_csc, &op_to_bsr, &op_to_bsc)
RUSH_SPARSE(convert, &sparse_clone, &sparse_to_copy, &sparse_alias, &sparse_detach, &sparse_to_dtype, &sparse_to_device, &sparse_to_layout, &sparse_to_other,
            &sparse_type_as, &sparse_plain_to, &sparse_positive, &sparse_zeros_like, &sparse_empty_like, &sparse_ones_like, &sparse_full_like, &sparse_rand_like, &sparse_randn_like, &sparse_new)
