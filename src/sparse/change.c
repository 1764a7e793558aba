/* change.c - sparse tensors changed in place: zero_, copy_, fill_, and other sizes. Each gives the tensor new parts. */
#include "autograd/autograd.h"
#include "sparse/coo.h"

#define SELF (in[0].t)

static int becomes(const rush_value *in, rush_value *out, const rush_tensor *t)
{
    return t && !rush_sparse_become(SELF, t) ? rush_result(out, SELF) : -1;
}

static int zero_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return becomes(in, out, rush_cleared(SELF, (rush_dtype)SELF->dtype));
}

static int fill_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(IS_COMPRESSED(SELF), RUSH_NOT_IMPLEMENTED, "Could not run 'aten::fill_.Scalar' with arguments from the 'SparseCPU' backend.");
    rush_tensor *values = T("full_like", V(VALUES(SELF)), in[1]);
    return becomes(in, out, values ? rush_sparse_with(SELF, values) : NULL);
}

static int copy_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *self = SELF, *src = T_(in[1]);
    if (src == self) return rush_result(out, self);
    RUSH_CHECK(src, RUSH_NOT_IMPLEMENTED, "Could not run 'aten::fill_.Scalar' with arguments from the 'SparseCPU' backend.");
    if (self->layout != src->layout) {
        RUSH_CHECK(!IS_COMPRESSED(self) && !IS_COMPRESSED(src), RUSH_RUNTIME_ERROR,
                   "torch.copy_: copy of sparse compressed tensors having different layouts is not supported. self layout is %s and src layout is %s",
                   rush_layout_word(self->layout), rush_layout_word(src->layout));
        return rush_fail(RUSH_RUNTIME_ERROR, "copy_() between dense and sparse Tensors is not implemented! Found self type = torch.%s%s and src type = torch.%s%s",
                         self->layout ? "sparse." : "", rush_dtype_name(self->dtype), src->layout ? "sparse." : "", rush_dtype_name(src->dtype));
    }
    RUSH_CHECK(IS_COO(self) || rush_same_sizes(self, src), RUSH_RUNTIME_ERROR, "torch.copy_: only sparse compressed tensors with the same sizes are supported, got %s and %s",
               rush_shape_of(self), rush_shape_of(src));
    RUSH_CHECK(IS_COO(self) || rush_nnz(self) == rush_nnz(src), RUSH_RUNTIME_ERROR,
               "torch.copy_: only sparse compressed tensors with the same number of specified elements are supported.");
    if (!rush_same_sizes(self, src)) { /* as far as entries can be kept when it is resized */
        rush_tensor *resized = T("clone", V(self));
        if (!resized || !T("sparse_resize_", V(resized), rush_v_ints(src->size, src->ndim), V((int64_t)src->parts->sparse_dim), V((int64_t)src->parts->dense_dim))) return -1;
    }
    rush_tensor *copy = src->dtype == self->dtype ? T("clone", V(src)) : T("_to_copy", V(src), rush_v_dtype(self->dtype));
    return becomes(in, out, copy);
}

static void copy_grad(rush_grads *s)
{
    if (rush_needs(s, 1)) s->gin[1] = s->g[0];
}

static rush_op sparse_zero = {.schema = "zero_", .run = zero_run}, sparse_copy = {.schema = "copy_", .run = copy_run, .grad = copy_grad, .flags = RUSH_DENSE_FIRST};
static rush_op sparse_fill = {.schema = "fill_.Scalar", .run = fill_run};

/* ---- other sizes ---- */

static int dims_fit(const rush_value *in)
{
    if (rush_need_coo("sparse_resize_", SELF)) return -1;
    int64_t sparse = I_(in[2]), dense = I_(in[3]);
    RUSH_CHECK(sparse >= 0 && dense >= 0 && sparse <= in[1].n && dense == (int64_t)in[1].n - sparse, RUSH_RUNTIME_ERROR,
               "'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = %u, sparse_dim = %lld, dense_dim = %lld", in[1].n, (long long)sparse, (long long)dense);
    return 0;
}

static rush_tensor *without_entries(const rush_value *in)
{
    return T("_sparse_coo_tensor_with_dims", in[2], in[3], in[1], rush_v_dtype(SELF->dtype));
}

static int resize_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (dims_fit(in)) return -1;
    rush_tensor *self = SELF;
    int64_t n = rush_nnz(self), sparse = I_(in[2]), dense = I_(in[3]), size[RUSH_MAXDIM + 1];
    if (n == 0) return becomes(in, out, without_entries(in));
    RUSH_CHECK(sparse == self->parts->sparse_dim, RUSH_RUNTIME_ERROR,
               "changing the number of sparse dimensions (from %d to %lld) on a non-empty sparse tensor is not supported.\nYou could make an empty tensor of that size, "
               "or use to_dense() and to_sparse(%lld)", self->parts->sparse_dim, (long long)sparse, (long long)sparse);
    RUSH_CHECK(dense == self->parts->dense_dim, RUSH_RUNTIME_ERROR,
               "changing the number of dense dimensions (from %d to %lld) on a non-empty sparse tensor is not supported", self->parts->dense_dim, (long long)dense);
    for (int d = 0; d < self->ndim; ++d)
        RUSH_CHECK(in[1].ints[d] >= self->size[d], RUSH_RUNTIME_ERROR, "shrinking the size of %s dimensions (from %s to %s) on a non-empty sparse tensor is not supported",
                   d < sparse ? "sparse" : "dense", d < sparse ? rush_shape_text((int)sparse, self->size) : rush_shape_text((int)dense, self->size + sparse),
                   d < sparse ? rush_shape_text((int)sparse, in[1].ints) : rush_shape_text((int)dense, in[1].ints + sparse));
    size[0] = n;
    memcpy(size + 1, in[1].ints + sparse, sizeof *size * (size_t)dense);
    rush_tensor *values = VALUES(self), *wide = T("new_zeros", V(values), rush_v_ints(size, (size_t)dense + 1)), *part = wide;
    for (int64_t d = 1; d <= dense && part; ++d) part = T("narrow", V(part), V(d), V((int64_t)0), V(values->size[d]));
    if (!part || !T("copy_", V(part), V(values))) return -1;
    return becomes(in, out, rush_coo_new((int)in[1].n, in[1].ints, INDICES(self), wide, self->parts->coalesced));
}

static int clear_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return dims_fit(in) ? -1 : becomes(in, out, without_entries(in));
}

static int resize_as_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *of = in[1].t;
    RUSH_CHECK(SELF->layout && of->layout == SELF->layout, RUSH_RUNTIME_ERROR, "resize_as_sparse_: expected two tensors of one sparse layout, got %s and %s",
               rush_layout_word(SELF->layout), rush_layout_word(of->layout));
    if (!IS_COO(SELF)) /* entries stay where the sizes do */
        return rush_same_sizes(SELF, of) ? rush_result(out, SELF) : becomes(in, out, rush_cleared(of, (rush_dtype)SELF->dtype));
    const rush_value args[] = {in[0], rush_v_ints(of->size, of->ndim), rush_v_int(of->parts->sparse_dim), rush_v_int(of->parts->dense_dim)};
    return resize_run(op, args, out);
}

static int sizes_fit(const rush_tensor *self, rush_value size)
{
    const rush_sparse *p = self->parts;
    int n = (int)size.n, cols = n - 1, rows = n - 2;
    RUSH_CHECK(!rush_wants_grad(self), RUSH_RUNTIME_ERROR, "cannot resize variables that require grad");
    RUSH_CHECK(n >= 2, RUSH_RUNTIME_ERROR, "torch.resize_: Only batched sparse CSR matrices are supported, but got size %s", rush_shape_text(n, size.ints));
    RUSH_CHECK(n == self->ndim && !p->dense_dim && !memcmp(size.ints, self->size, sizeof *self->size * p->batch_dim), RUSH_NOT_IMPLEMENTED,
               "torch.resize_: batches and dense dimensions of a sparse compressed tensor stay as they are, but size %s was to become %s", rush_shape_of(self), rush_shape_text(n, size.ints));
    RUSH_CHECK(size.ints[rows] >= 0 && size.ints[cols] >= 0, RUSH_RUNTIME_ERROR, "Trying to create tensor with negative dimension %lld: %s",
               (long long)(size.ints[rows] < 0 ? size.ints[rows] : size.ints[cols]), rush_shape_text(n, size.ints));
    RUSH_CHECK(size.ints[cols] >= self->size[cols], RUSH_RUNTIME_ERROR, "torch.resize_: Resizing columns of sparse CSR tensors to a smaller value is not supported. "
               "The original number of columns is %lld while the requested new number of columns is %lld.", (long long)self->size[cols], (long long)size.ints[cols]);
    RUSH_CHECK(rush_by_row(self->layout) || size.ints[rows] >= self->size[rows], RUSH_RUNTIME_ERROR, "torch.resize_: Resizing rows of sparse CSC tensors to a smaller value is not supported. "
               "The original number of rows is %lld while the requested new number of rows is %lld.", (long long)self->size[rows], (long long)size.ints[rows]);
    return 0;
}

/* CSR and CSC: compressed rows or columns come and go at the end. As in PyTorch entries behind the last row are its own then, as far as they fit. */
static int resize_compressed_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *self = SELF;
    RUSH_CHECK(IS_COMPRESSED(self) && !rush_blocked(self->layout), RUSH_NOT_IMPLEMENTED, "Could not run 'aten::resize_' with arguments from the '%s' backend: "
               "the operation is not there for tensors of layout %s.", IS_COO(self) ? "SparseCPU" : "SparseCsrCPU", rush_layout_word(self->layout));
    RUSH_CHECK(rush_now.mode & RUSH_MODE_NO_GRAD || !rush_wants_grad(self), RUSH_RUNTIME_ERROR, "cannot resize variables that require grad");
    if (sizes_fit(self, in[1])) return -1;
    const rush_sparse *p = self->parts;
    int batch = p->batch_dim, major = rush_by_row(self->layout) ? batch : batch + 1;
    const int64_t *size = in[1].ints, n = size[major], kept = n < self->size[major] ? n : self->size[major];
    int64_t nnz = rush_nnz(self), room, more[RUSH_MAXDIM];
    if (!__builtin_mul_overflow(size[batch], size[batch + 1], &room) && room < nnz) nnz = room;
    memcpy(more, size, sizeof *size * batch);
    more[batch] = n - kept + 1;
    rush_tensor *starts[] = {T("narrow", V(p->compressed), V((int64_t)batch), V((int64_t)0), V(kept)), T("new_full", V(p->compressed), rush_v_ints(more, (size_t)batch + 1), V(nnz))};
    if (rush_failed()) return -1;
    return becomes(in, out, rush_sparse_new((rush_layout)self->layout, self->ndim, size, T("cat", rush_v_tensors(starts, 2), V((int64_t)batch)),
                                            T("narrow", V(p->plain), V((int64_t)batch), V((int64_t)0), V(nnz)), T("narrow", V(p->values), V((int64_t)batch), V((int64_t)0), V(nnz)), 2, 0, true));
}

static rush_op sparse_resize = {.schema = "resize_", .run = resize_compressed_run};
static rush_op sparse_resize_as = {.schema = "resize_as_", .run = resize_as_run, .flags = RUSH_DENSE_FIRST};

#define CHANGES .flags = RUSH_ANY_LAYOUT | RUSH_SIDE_EFFECT | RUSH_NO_GRAD
static rush_op op_resize = {
    .schema = "sparse_resize_(Tensor(a!) self, int[] size, int sparse_dim, int dense_dim) -> Tensor(a!)", .method = RUSH_METHOD_, .doc = "Other sizes for a COO tensor, which keeps its entries.",
    .run = resize_run, CHANGES,
};
static rush_op op_clear = {
    .schema = "sparse_resize_and_clear_(Tensor(a!) self, int[] size, int sparse_dim, int dense_dim) -> Tensor(a!)", .method = RUSH_METHOD_,
    .doc = "Other sizes for a COO tensor, which loses its entries.", .run = clear_run, CHANGES,
};
static rush_op op_resize_as = {
    .schema = "resize_as_sparse_(Tensor(a!) self, Tensor the_template) -> Tensor(a!)", .method = RUSH_METHOD_ | RUSH_FUNCTION_, .doc = "The sizes of another sparse tensor.", .run = resize_as_run, CHANGES,
};

RUSH_FAMILY(sparse_change, &op_resize, &op_clear, &op_resize_as)
RUSH_SPARSE(change, &sparse_zero, &sparse_copy, &sparse_fill, &sparse_resize, &sparse_resize_as)
