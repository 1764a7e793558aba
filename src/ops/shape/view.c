/* view.c - views that regroup or reorder dimensions: view, reshape, permute, transpose, expand, squeeze, flatten.
 *
 * A view's shape rule is all there is to it: an alias with other sizes and strides. Views that choose a part of
 * the elements are in slice.c, those that give many tensors in split.c, other dtypes over the same bytes in retype.c,
 * changes in place in resize.c.
 */
#include "op/formula.h"
#include "ops/geometry.h"

/* The argument was given, is a tensor; the rest of this file reads in[0].t. */
#define SELF (in[0].t)

int rush_out_alias(rush_value *out, const rush_tensor *t, int ndim, const int64_t *size, const int64_t *stride)
{
    rush_tensor *view = rush_tensor_alias(t, ndim, size, stride, t->offset);
    if (!view) return -1;
    rush_out_view(out, 0, view);
    return 0;
}

/* ---- view, reshape ---- */

static int view_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    int64_t size[RUSH_MAXDIM], stride[RUSH_MAXDIM];
    int n = (int)in[1].n;
    RUSH_CHECK(n <= RUSH_MAXDIM, RUSH_NOT_IMPLEMENTED, "tensors have at most %d dimensions, not %d", RUSH_MAXDIM, n);
    if (rush_infer_size(SELF->numel, n, in[1].ints, size)) return -1;
    RUSH_CHECK(rush_view_strides(SELF, n, size, stride), RUSH_RUNTIME_ERROR,
               "view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
               "contiguous subspaces). Use .reshape(...) instead. The input has sizes %s and strides %s, the view %s",
               rush_shape_of(SELF), rush_shape_text(SELF->ndim, SELF->stride), rush_shape_text(n, size));
    return rush_out_alias(out, SELF, n, size, stride);
}

/* Every regrouping goes back by regrouping. */
static void regroup_grad(rush_grads *s)
{
    const rush_tensor *self = s->in[0].t;
    if (s->g[0]) s->gin[0] = reshape_to(s->g[0], self);
}

static rush_op op_view = {
    .schema = "view(Tensor(a) self, SymInt[] size) -> Tensor(a)",
    .doc = "The same elements under other sizes, without a copy; one size may be -1, which is then worked out.",
    .shape = view_shape, .grad = regroup_grad, .flags = RUSH_VIEW,
};

/* Not linked as a view: its owner just made the memory, and nobody else sees it. */
static rush_op op_unsafe_view = {
    .schema = "_unsafe_view(Tensor self, SymInt[] size) -> Tensor",
    .doc = "view() of a tensor that nobody else holds.",
    .shape = view_shape, .grad = regroup_grad, .flags = RUSH_ANY_DEVICE | RUSH_HIDDEN,
};

static int reshape_alias_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    geometry g;
    return rush_geometry_strided(&g, SELF, in[1], in[2], RUSH_NONE) ? -1 : rush_out_alias(out, SELF, g.ndim, g.size, g.stride);
}

static rush_op op_reshape_alias = {
    .schema = "_reshape_alias(Tensor(a) self, SymInt[] size, SymInt[] stride) -> Tensor(a)",
    .doc = "A view with sizes and strides that are known to fit.",
    .shape = reshape_alias_shape, .grad = regroup_grad, .flags = RUSH_VIEW | RUSH_HIDDEN,
};

static rush_tensor *reshaped(rush_tensor *t, int n, const int64_t *wanted)
{
    int64_t size[RUSH_MAXDIM], stride[RUSH_MAXDIM];
    RUSH_CHECK_NULL(n <= RUSH_MAXDIM, RUSH_NOT_IMPLEMENTED, "tensors have at most %d dimensions, not %d", RUSH_MAXDIM, n);
    if (rush_infer_size(t->numel, n, wanted, size)) return NULL;
    if (rush_view_strides(t, n, size, stride)) return T("view", V(t), rush_v_ints(size, n));
    rush_tensor *copy = T("clone", V(t), ((rush_value){.kind = RUSH_V_MEMORY_FORMAT, .i = RUSH_CONTIGUOUS}));
    return copy ? T("_unsafe_view", V(copy), rush_v_ints(size, n)) : NULL;
}

static int reshape_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_result(out, reshaped(SELF, (int)in[1].n, in[1].ints));
}

static rush_op op_reshape = {
    .schema = "reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)", .method = RUSH_METHOD,
    .doc = "The same elements in the same order under other sizes: a view where strides allow it, else a copy. One size may be -1.",
    .run = reshape_run,
};

static int reshape_as_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_result(out, reshaped(SELF, in[1].t->ndim, in[1].t->size));
}

static rush_op op_reshape_as = {
    .schema = "reshape_as(Tensor(a) self, Tensor other) -> Tensor(a)", .method = RUSH_METHOD | RUSH_NO_FUNCTION,
    .doc = "reshape() to the sizes of other.",
    .run = reshape_as_run,
};

static int view_as_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_result(out, T("view", V(SELF), rush_v_ints(in[1].t->size, in[1].t->ndim)));
}

static rush_op op_view_as = {
    .schema = "view_as(Tensor(a) self, Tensor other) -> Tensor(a)", .method = RUSH_METHOD | RUSH_NO_FUNCTION,
    .doc = "view() with the sizes of other.",
    .run = view_as_run,
};

static int ravel_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    int64_t all = -1;
    if (SELF->numel == 0) all = 0;
    return rush_result(out, T("view", V(T("contiguous", V(SELF))), rush_v_ints(&all, 1)));
}

static rush_op op_ravel = {
    .schema = "ravel(Tensor(a) self) -> Tensor(a)", .method = RUSH_METHOD,
    .doc = "All elements in one dimension; a view of what is contiguous.",
    .run = ravel_run,
};

static int view_copy_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *v = T("view", V(SELF), in[1]);
    return rush_result(out, v ? T("clone", V(v)) : NULL);
}

static rush_op op_view_copy = {
    .schema = "view_copy(Tensor self, SymInt[] size) -> Tensor",
    .doc = "A copy of view().", .run = view_copy_run, .flags = RUSH_HIDDEN | RUSH_WHOLE,
};

static rush_op op_reshape_copy = {
    .schema = "_reshape_copy(Tensor self, SymInt[] size) -> Tensor",
    .doc = "A copy of reshape().", .run = view_copy_run, .flags = RUSH_HIDDEN | RUSH_WHOLE,
};

/* ---- flatten, unflatten ---- */

static int flatten_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    int64_t size[RUSH_MAXDIM], merged = 1;
    int n = SELF->ndim, first = rush_dim_wrap(I_(in[1]), n), last = rush_dim_wrap(I_(in[2]), n);
    if (first < 0 || last < 0) return -1;
    RUSH_CHECK(first <= last, RUSH_RUNTIME_ERROR, "flatten() has invalid args: start_dim cannot come after end_dim");
    if (n == 0) return rush_result(out, reshaped(SELF, 1, (const int64_t[]){1}));
    if (first == last) return rush_result(out, SELF);
    memcpy(size, SELF->size, sizeof *size * first);
    for (int d = first; d <= last; ++d) merged *= SELF->size[d];
    size[first] = merged;
    memcpy(size + first + 1, SELF->size + last + 1, sizeof *size * (n - last - 1));
    return rush_result(out, reshaped(SELF, n - (last - first), size));
}

static rush_op op_flatten = {
    .schema = "flatten.using_ints(Tensor(a) self, int start_dim=0, int end_dim=-1) -> Tensor(a)", .method = RUSH_METHOD,
    .doc = "Dimensions start_dim to end_dim made one; a view where possible. A 0-d tensor becomes 1-d.",
    .run = flatten_run,
};

static int unflatten_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    int64_t size[RUSH_MAXDIM], parts[RUSH_MAXDIM], known = 1;
    int n = SELF->ndim, dim = rush_dim_wrap(I_(in[1]), n), k = (int)in[2].n, open = -1;
    if (dim < 0) return -1;
    RUSH_CHECK(k > 0, RUSH_RUNTIME_ERROR, "unflatten: sizes must be non-empty");
    RUSH_CHECK(n > 0 && n - 1 + k <= RUSH_MAXDIM, RUSH_RUNTIME_ERROR, "unflatten: a tensor of %d dimensions cannot be split into %d more", n, k - 1);
    for (int d = 0; d < k; ++d) {
        parts[d] = in[2].ints[d];
        if (parts[d] == -1) {
            RUSH_CHECK(open < 0, RUSH_RUNTIME_ERROR, "only one dimension can be inferred");
            open = d;
        } else {
            RUSH_CHECK(!__builtin_mul_overflow(known, parts[d], &known), RUSH_RUNTIME_ERROR,
                       "unflatten: Provided sizes %s don't multiply up to the size of dim %d (%lld) in the input tensor", rush_shape_text(k, in[2].ints), dim,
                       (long long)SELF->size[dim]);
        }
    }
    if (open >= 0) {
        RUSH_CHECK(known != 0 || SELF->size[dim] != 0, RUSH_RUNTIME_ERROR, "unflatten: cannot unflatten tensor of %lld elements along dim %d into shape %s "
                   "because the unspecified dimension size -1 can be any value and is ambiguous",
                   (long long)SELF->size[dim], dim, rush_shape_text(k, in[2].ints));
        parts[open] = known ? SELF->size[dim] / known : 0;
        known *= parts[open];
    }
    RUSH_CHECK(known == SELF->size[dim], RUSH_RUNTIME_ERROR,
               "unflatten: Provided sizes %s don't multiply up to the size of dim %d (%lld) in the input tensor",
               rush_shape_text(k, in[2].ints), dim, (long long)SELF->size[dim]);
    memcpy(size, SELF->size, sizeof *size * dim);
    memcpy(size + dim, parts, sizeof *size * k);
    memcpy(size + dim + k, SELF->size + dim + 1, sizeof *size * (n - dim - 1));
    return rush_result(out, T("view", V(SELF), rush_v_ints(size, n - 1 + k)));
}

static rush_op op_unflatten = {
    .schema = "unflatten.int(Tensor(a) self, int dim, SymInt[] sizes) -> Tensor(a)", .method = RUSH_METHOD,
    .doc = "Dimension dim divided into sizes, of which one may be -1.",
    .run = unflatten_run,
};

/* ---- order of dimensions ---- */

static int permuted(const rush_tensor *t, const int *order, rush_value *out)
{
    int64_t size[RUSH_MAXDIM], stride[RUSH_MAXDIM];
    for (int d = 0; d < t->ndim; ++d) {
        size[d] = t->size[order[d]];
        stride[d] = t->stride[order[d]];
    }
    return rush_out_alias(out, t, t->ndim, size, stride);
}

static int permute_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    int n = SELF->ndim, order[RUSH_MAXDIM];
    uint64_t seen = 0;
    RUSH_CHECK((int)in[1].n == n, RUSH_RUNTIME_ERROR,
               "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired ordering of "
               "dimensions i.e. input.dim() = %d is not equal to len(dims) = %u", n, in[1].n);
    for (int d = 0; d < n; ++d) {
        order[d] = rush_dim_wrap(in[1].ints[d], n);
        if (order[d] < 0) return -1;
        RUSH_CHECK(!(seen >> order[d] & 1), RUSH_RUNTIME_ERROR, "permute(): duplicate dims are not allowed.");
        seen |= (uint64_t)1 << order[d];
    }
    return permuted(SELF, order, out);
}

static void permute_grad(rush_grads *s)
{
    int n = s->in[0].t->ndim;
    int64_t back[RUSH_MAXDIM];
    if (!s->g[0]) return;
    for (int d = 0; d < n; ++d) back[rush_dim_wrap(s->in[1].ints[d], n)] = d;
    s->gin[0] = T("permute", V(s->g[0]), rush_v_ints(back, n));
}

static rush_op op_permute = {
    .schema = "permute(Tensor(a) self, int[] dims) -> Tensor(a)", .method = RUSH_METHOD,
    .doc = "Dimension d of the result is dimension dims[d] of self. A view.",
    .shape = permute_shape, .grad = permute_grad, .flags = RUSH_VIEW,
};

static int exchanged(const rush_tensor *t, int a, int b, rush_value *out)
{
    int64_t size[RUSH_MAXDIM], stride[RUSH_MAXDIM];
    if (t->ndim == 0) return rush_out_alias(out, t, 0, NULL, NULL);
    memcpy(size, t->size, sizeof *size * t->ndim);
    memcpy(stride, t->stride, sizeof *stride * t->ndim);
    size[a] = t->size[b], size[b] = t->size[a];
    stride[a] = t->stride[b], stride[b] = t->stride[a];
    return rush_out_alias(out, t, t->ndim, size, stride);
}

static int transpose_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    int a = rush_dim_wrap(I_(in[1]), SELF->ndim), b = a < 0 ? -1 : rush_dim_wrap(I_(in[2]), SELF->ndim);
    return b < 0 ? -1 : exchanged(SELF, a, b, out);
}

static void transpose_grad(rush_grads *s)
{
    if (s->g[0]) s->gin[0] = T("transpose.int", V(s->g[0]), s->in[1], s->in[2]);
}

static rush_op op_transpose = {
    .schema = "transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)", .method = RUSH_METHOD,
    .doc = "Two dimensions exchanged. A view.",
    .shape = transpose_shape, .grad = transpose_grad, .flags = RUSH_VIEW,
};

static int t_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    int n = SELF->ndim;
    RUSH_CHECK(n <= 2, RUSH_RUNTIME_ERROR, "t() expects a tensor with <= 2 dimensions, but self is %dD", n);
    return n < 2 ? rush_out_alias(out, SELF, n, SELF->size, SELF->stride) : exchanged(SELF, 0, 1, out);
}

static void t_grad(rush_grads *s)
{
    if (s->g[0]) s->gin[0] = T("t", V(s->g[0]));
}

static rush_op op_t = {
    .schema = "t(Tensor(a) self) -> Tensor(a)", .method = RUSH_METHOD,
    .doc = "The transpose of a matrix; vectors and 0-d tensors as they are. A view.",
    .shape = t_shape, .grad = t_grad, .flags = RUSH_VIEW,
};

static int transpose_alias_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_result(out, T("transpose.int", V(SELF), in[1], in[2]));
}

static rush_op op_swapaxes = {
    .schema = "swapaxes(Tensor(a) self, int axis0, int axis1) -> Tensor(a)", .method = RUSH_METHOD,
    .doc = "transpose() under NumPy's name.", .run = transpose_alias_run,
};

static rush_op op_swapdims = {
    .schema = "swapdims(Tensor(a) self, int dim0, int dim1) -> Tensor(a)", .method = RUSH_METHOD,
    .doc = "transpose() by another name.", .run = transpose_alias_run,
};

static int numpy_T_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    int64_t order[RUSH_MAXDIM];
    int n = SELF->ndim;
    if (n == 0) RUSH_WARN_ONCE("Tensor.T is deprecated on 0-D tensors. This function is the identity in these cases.");
    else if (n != 2)
        RUSH_WARN_ONCE("The use of `x.T` on tensors of dimension other than 2 to reverse their shape is deprecated. Consider `x.mT` to "
                       "transpose batches of matrices or `x.permute(*torch.arange(x.ndim - 1, -1, -1))` to reverse the dimensions of a tensor.");
    for (int d = 0; d < n; ++d) order[d] = n - 1 - d;
    return rush_result(out, T("permute", V(SELF), rush_v_ints(order, n)));
}

static rush_op op_numpy_T = {
    .schema = "numpy_T(Tensor(a) self) -> Tensor(a)", .method = RUSH_NO_FUNCTION,
    .doc = "All dimensions in reverse order: x.T.", .run = numpy_T_run,
};

static int mT_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(SELF->ndim >= 2 || SELF->ndim == 0, RUSH_RUNTIME_ERROR, "tensor.mT is only supported on matrices or batches of matrices. Got %d-D tensor.", SELF->ndim);
    return rush_result(out, SELF->ndim ? transpose(SELF, -2, -1) : SELF);
}

static rush_op op_mT = {
    .schema = "mT(Tensor(a) self) -> Tensor(a)", .method = RUSH_NO_FUNCTION,
    .doc = "The last two dimensions exchanged: x.mT.", .run = mT_run,
};

static int conjugate_transpose(const rush_value *in, rush_value *out)
{
    rush_tensor *t = SELF->ndim < 2 ? SELF : transpose(SELF, -2, -1);
    if (t && rush_dtype_is_complex(t->dtype)) t = T("conj", V(t));
    return rush_result(out, t);
}

static int mH_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(SELF->ndim >= 2 || SELF->ndim == 0, RUSH_RUNTIME_ERROR, "tensor.mH is only supported on matrices or batches of matrices. Got %d-D tensor.", SELF->ndim);
    return conjugate_transpose(in, out);
}

static rush_op op_mH = {
    .schema = "mH(Tensor(a) self) -> Tensor(a)", .method = RUSH_NO_FUNCTION,
    .doc = "The conjugate transpose of matrices: x.mH.", .run = mH_run,
};

static int matrix_H_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(SELF->ndim == 2 || SELF->ndim == 0, RUSH_RUNTIME_ERROR, "tensor.H is only supported on matrices (2-D tensors). Got %d-D tensor.%s",
               SELF->ndim, SELF->ndim > 2 ? " For batches of matrices, consider using tensor.mH" : "");
    if (!SELF->ndim) RUSH_WARN_ONCE("Tensor.H is deprecated on 0-D tensors. Consider using x.conj().");
    return conjugate_transpose(in, out);
}

static rush_op op_matrix_H = {
    .schema = "matrix_H(Tensor(a) self) -> Tensor(a)", .method = RUSH_NO_FUNCTION,
    .doc = "The conjugate transpose of one matrix: x.H.", .run = matrix_H_run,
};

static int adjoint_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(SELF->ndim >= 2 || SELF->ndim == 0, RUSH_RUNTIME_ERROR, "tensor.adjoint() is only supported on matrices or batches of matrices. Got %d-D tensor.", SELF->ndim);
    return conjugate_transpose(in, out);
}

static rush_op op_adjoint = {
    .schema = "adjoint(Tensor(a) self) -> Tensor(a)", .method = RUSH_METHOD,
    .doc = "The conjugate transpose of the last two dimensions.", .run = adjoint_run,
};

static int wrap_dims(const char *what, rush_value list, int ndim, int *dims)
{
    uint64_t seen = 0;
    for (uint32_t k = 0; k < list.n; ++k) {
        dims[k] = rush_dim_wrap(list.ints[k], ndim);
        if (dims[k] < 0) return -1;
        RUSH_CHECK(!(seen >> dims[k] & 1), RUSH_RUNTIME_ERROR, "movedim: repeated dim in `%s` (%s)", what, rush_shape_text((int)list.n, list.ints));
        seen |= (uint64_t)1 << dims[k];
    }
    return 0;
}

static rush_tensor *moved(rush_tensor *t, rush_value source, rush_value destination)
{
    int n = t->ndim, from[RUSH_MAXDIM], to[RUSH_MAXDIM], next = 0;
    int64_t order[RUSH_MAXDIM];
    bool taken[RUSH_MAXDIM] = {0};
    RUSH_CHECK_NULL(source.n == destination.n && source.n <= RUSH_MAXDIM, RUSH_RUNTIME_ERROR,
                    "movedim: Invalid source or destination dims: source (%s dims) should contain the same number of dims as destination (%s dims)",
                    rush_shape_text((int)source.n, source.ints), rush_shape_text((int)destination.n, destination.ints));
    if (wrap_dims("source", source, n, from) || wrap_dims("destination", destination, n, to)) return NULL;
    if (n == 0) return T("alias", V(t));
    for (int d = 0; d < n; ++d) order[d] = -1;
    for (uint32_t k = 0; k < source.n; ++k) {
        order[to[k]] = from[k];
        taken[from[k]] = true;
    }
    for (int d = 0; d < n; ++d) {
        if (order[d] >= 0) continue;
        while (taken[next]) ++next;
        order[d] = next++;
    }
    return T("permute", V(t), rush_v_ints(order, n));
}

static int movedim_list_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_result(out, moved(SELF, in[1], in[2]));
}

static int movedim_int_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_result(out, moved(SELF, rush_v_ints(&in[1].i, 1), rush_v_ints(&in[2].i, 1)));
}

static rush_op op_movedim_list = {
    .schema = "movedim.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)", .method = RUSH_METHOD,
    .doc = "Dimensions source put at the places destination, the others kept in order. A view.", .run = movedim_list_run,
};
static rush_op op_movedim_int = {
    .schema = "movedim.int(Tensor(a) self, int source, int destination) -> Tensor(a)",
    .doc = "One dimension put at another place, the others kept in order. A view.", .run = movedim_int_run,
};
static rush_op op_moveaxis_list = {
    .schema = "moveaxis.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)", .method = RUSH_METHOD,
    .doc = "movedim() under NumPy's name.", .run = movedim_list_run,
};
static rush_op op_moveaxis_int = {
    .schema = "moveaxis.int(Tensor(a) self, int source, int destination) -> Tensor(a)",
    .doc = "movedim() under NumPy's name.", .run = movedim_int_run,
};

/* ---- expand ---- */

static int expand_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *t = SELF;
    int n = (int)in[1].n, lead = n - t->ndim;
    const int64_t *want = in[1].ints;
    int64_t size[RUSH_MAXDIM], stride[RUSH_MAXDIM];
    RUSH_CHECK(lead >= 0 && n <= RUSH_MAXDIM, RUSH_RUNTIME_ERROR,
               "expand(torch.%sTensor{%s}, size=%s): the number of sizes provided (%d) must be greater or equal to the number of dimensions in the tensor (%d)",
               rush_dtype_word(t->dtype), rush_shape_of(t), rush_shape_text(n, want), n, t->ndim);
    for (int d = n - 1; d >= 0; --d) {
        int k = d - lead;
        int64_t have = k >= 0 ? t->size[k] : 1;
        size[d] = want[d];
        if (size[d] == -1) {
            RUSH_CHECK(k >= 0, RUSH_RUNTIME_ERROR, "The expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension %d", d);
            size[d] = have;
        }
        stride[d] = k >= 0 ? t->stride[k] : d == n - 1 ? 1 : size[d + 1] * stride[d + 1];
        if (size[d] != have) {
            RUSH_CHECK(have == 1 && size[d] >= 0, RUSH_RUNTIME_ERROR,
                       "The expanded size of the tensor (%lld) must match the existing size (%lld) at non-singleton dimension %d.  "
                       "Target sizes: %s.  Tensor sizes: %s",
                       (long long)size[d], (long long)have, d, rush_shape_text(n, want), rush_shape_of(t));
            stride[d] = 0;
        }
    }
    return rush_out_alias(out, t, n, size, stride);
}

static void expand_grad(rush_grads *s)
{
    if (s->g[0]) s->gin[0] = sum_to_size(s->g[0], s->in[0].t);
}

static rush_op op_expand = {
    .schema = "expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)", .method = RUSH_METHOD | RUSH_NO_FUNCTION,
    .doc = "Dimensions of size 1 seen as larger ones, without memory; -1 keeps a size, new dimensions go in front. A view.",
    .shape = expand_shape, .grad = expand_grad, .flags = RUSH_VIEW,
};

static int expand_as_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_result(out, expand_to(SELF, in[1].t));
}

static rush_op op_expand_as = {
    .schema = "expand_as(Tensor(a) self, Tensor other) -> Tensor(a)", .method = RUSH_METHOD | RUSH_NO_FUNCTION,
    .doc = "expand() to the sizes of other.", .run = expand_as_run,
};

static int broadcast_to_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_result(out, T("expand", V(SELF), in[1]));
}

static rush_op op_broadcast_to = {
    .schema = "broadcast_to(Tensor(a) self, SymInt[] size) -> Tensor(a)", .method = RUSH_METHOD,
    .doc = "expand() under NumPy's name.", .run = broadcast_to_run,
};

static int expand_copy_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *t = T("expand", V(SELF), in[1]);
    return rush_result(out, t ? T("clone", V(t), ((rush_value){.kind = RUSH_V_MEMORY_FORMAT, .i = RUSH_CONTIGUOUS})) : NULL);
}

static rush_op op_expand_copy = {
    .schema = "expand_copy(Tensor self, SymInt[] size, *, bool implicit=False) -> Tensor",
    .doc = "A copy of expand().", .run = expand_copy_run, .flags = RUSH_HIDDEN | RUSH_WHOLE,
};

static int broadcast_tensors_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    int ndim;
    int64_t size[RUSH_MAXDIM];
    if (rush_broadcast((int)in[0].n, (const rush_tensor *const *)in[0].tensors, &ndim, size)) return -1;
    rush_tensor **list = rush_out_list(out, 0, in[0].n);
    if (!list) return -1;
    for (uint32_t k = 0; k < in[0].n; ++k) {
        rush_tensor *t = in[0].tensors[k];
        bool same = t->ndim == ndim && !memcmp(t->size, size, sizeof *size * (size_t)ndim); /* itself then: a leaf stays one */
        if (!(list[k] = same ? t : T("expand", V(t), rush_v_ints(size, ndim)))) return -1;
    }
    return 0;
}

static rush_op op_broadcast_tensors = {
    .schema = "broadcast_tensors(Tensor[] tensors) -> Tensor[]",
    .doc = "All tensors expanded to the shape that they have in common.", .run = broadcast_tensors_run,
};

static int sum_to_size_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    int n = (int)in[1].n, lead = SELF->ndim - n;
    bool fits = lead >= 0;
    for (int d = 0; d < n && fits; ++d) fits = in[1].ints[d] == SELF->size[d + lead] || in[1].ints[d] == 1;
    RUSH_CHECK(fits, RUSH_RUNTIME_ERROR, "size {%s} is not expandable to size {%s}.", rush_shape_text(n, in[1].ints), rush_shape_of(SELF));
    if (n == 0) return rush_result(out, sum_all(SELF));
    rush_tensor like = {.ndim = (uint8_t)n, .size = (int64_t *)in[1].ints};
    return rush_result(out, rush_sum_to(SELF, &like));
}

static rush_op op_sum_to_size = {
    .schema = "sum_to_size(Tensor self, SymInt[] size) -> Tensor", .method = RUSH_METHOD | RUSH_NO_FUNCTION,
    .doc = "Summed over the dimensions that broadcasting from size would have added or grown.", .run = sum_to_size_run,
};

/* ---- squeeze, unsqueeze ---- */

static int squeezed(const rush_tensor *t, uint64_t dims, rush_value *out)
{
    int64_t size[RUSH_MAXDIM], stride[RUSH_MAXDIM];
    int n = 0;
    for (int d = 0; d < t->ndim; ++d) {
        if (dims >> d & 1 && t->size[d] == 1) continue;
        size[n] = t->size[d];
        stride[n++] = t->stride[d];
    }
    return rush_out_alias(out, t, n, size, stride);
}

static int squeeze_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    return squeezed(SELF, ~(uint64_t)0, out);
}

static int squeeze_dim_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    int d = rush_dim_wrap(I_(in[1]), SELF->ndim);
    return d < 0 ? -1 : squeezed(SELF, (uint64_t)1 << d, out);
}

static int squeeze_dims_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    uint64_t dims = 0;
    for (uint32_t k = 0; k < in[1].n; ++k) {
        int d = rush_dim_wrap(in[1].ints[k], SELF->ndim);
        if (d < 0) return -1;
        RUSH_CHECK(!(dims >> d & 1), RUSH_RUNTIME_ERROR, "dim %d appears multiple times in the list of dims", d);
        dims |= (uint64_t)1 << d;
    }
    return squeezed(SELF, dims, out);
}

static rush_op op_squeeze = {
    .schema = "squeeze(Tensor(a) self) -> Tensor(a)", .method = RUSH_METHOD,
    .doc = "Without all dimensions of size 1. A view.", .shape = squeeze_shape, .grad = regroup_grad, .flags = RUSH_VIEW,
};
static void squeeze_dim_grad(rush_grads *s)
{
    const rush_tensor *t = s->in[0].t;
    int d = rush_dim_wrap(I_(s->in[1]), t->ndim);
    s->gin[0] = t->ndim && t->size[d] == 1 ? unsqueeze(s->g[0], d) : s->g[0];
}

static rush_op op_squeeze_dim = {
    .schema = "squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)",
    .doc = "Without dimension dim if its size is 1. A view.", .shape = squeeze_dim_shape, .grad = squeeze_dim_grad, .flags = RUSH_VIEW,
};
static rush_op op_squeeze_dims = {
    .schema = "squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)",
    .doc = "Without those of the given dimensions that have size 1. A view.",
    .shape = squeeze_dims_shape, .grad = regroup_grad, .flags = RUSH_VIEW,
};

static void unsqueeze_grad(rush_grads *s) { s->gin[0] = squeeze(s->g[0], I_(s->in[1])); }

static int unsqueeze_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *t = SELF;
    int64_t size[RUSH_MAXDIM], stride[RUSH_MAXDIM];
    int n = t->ndim, d = rush_dim_wrap(I_(in[1]), n + 1);
    if (d < 0) return -1;
    RUSH_CHECK(n < RUSH_MAXDIM, RUSH_NOT_IMPLEMENTED, "tensors have at most %d dimensions", RUSH_MAXDIM);
    for (int k = 0; k < d; ++k) size[k] = t->size[k], stride[k] = t->stride[k];
    size[d] = 1;
    stride[d] = d < n ? t->size[d] * t->stride[d] : 1;
    for (int k = d; k < n; ++k) size[k + 1] = t->size[k], stride[k + 1] = t->stride[k];
    return rush_out_alias(out, t, n + 1, size, stride);
}

static rush_op op_unsqueeze = {
    .schema = "unsqueeze(Tensor(a) self, int dim) -> Tensor(a)", .method = RUSH_METHOD,
    .doc = "A new dimension of size 1 at place dim. A view.", .shape = unsqueeze_shape, .grad = unsqueeze_grad, .flags = RUSH_VIEW,
};

static rush_tensor *at_least(rush_tensor *t, int n)
{
    if (t->ndim >= n) return t;
    if (n == 1) return reshaped(t, 1, (const int64_t[]){1});
    if (t->ndim == 0) return reshaped(t, n, (const int64_t[]){1, 1, 1});
    t = t->ndim == 1 ? unsqueeze(t, 0) : t;
    return n == 3 && t ? unsqueeze(t, -1) : t;
}

static int at_least_list(const rush_value *in, rush_value *out, int n)
{
    rush_tensor **list = rush_out_list(out, 0, in[0].n);
    if (!list) return -1;
    for (uint32_t k = 0; k < in[0].n; ++k)
        if (!(list[k] = at_least(in[0].tensors[k], n))) return -1;
    return 0;
}

static int atleast_1d_run(const rush_op *op, const rush_value *in, rush_value *out) { return rush_result(out, at_least(SELF, 1)); }
static int atleast_2d_run(const rush_op *op, const rush_value *in, rush_value *out) { return rush_result(out, at_least(SELF, 2)); }
static int atleast_3d_run(const rush_op *op, const rush_value *in, rush_value *out) { return rush_result(out, at_least(SELF, 3)); }
static int atleast_1d_list_run(const rush_op *op, const rush_value *in, rush_value *out) { return at_least_list(in, out, 1); }
static int atleast_2d_list_run(const rush_op *op, const rush_value *in, rush_value *out) { return at_least_list(in, out, 2); }
static int atleast_3d_list_run(const rush_op *op, const rush_value *in, rush_value *out) { return at_least_list(in, out, 3); }

static rush_op op_atleast_1d = {
    .schema = "atleast_1d(Tensor self) -> Tensor", .doc = "A 0-d tensor as one with 1 dimension, others as they are.", .run = atleast_1d_run};
static rush_op op_atleast_2d = {
    .schema = "atleast_2d(Tensor self) -> Tensor", .doc = "With dimensions of size 1 in front until there are 2.", .run = atleast_2d_run};
static rush_op op_atleast_3d = {
    .schema = "atleast_3d(Tensor self) -> Tensor", .doc = "With dimensions of size 1 added until there are 3.", .run = atleast_3d_run};
static rush_op op_atleast_1d_list = {
    .schema = "atleast_1d.Sequence(Tensor[] tensors) -> Tensor[]", .doc = "atleast_1d() of each.", .run = atleast_1d_list_run};
static rush_op op_atleast_2d_list = {
    .schema = "atleast_2d.Sequence(Tensor[] tensors) -> Tensor[]", .doc = "atleast_2d() of each.", .run = atleast_2d_list_run};
static rush_op op_atleast_3d_list = {
    .schema = "atleast_3d.Sequence(Tensor[] tensors) -> Tensor[]", .doc = "atleast_3d() of each.", .run = atleast_3d_list_run};

RUSH_FAMILY(view, &op_view, &op_unsafe_view, &op_reshape_alias, &op_reshape, &op_reshape_as, &op_view_as, &op_ravel,
            &op_view_copy, &op_reshape_copy, &op_flatten, &op_unflatten, &op_permute, &op_transpose, &op_t, &op_swapaxes, &op_swapdims,
            &op_numpy_T, &op_mT, &op_mH, &op_matrix_H, &op_adjoint, &op_movedim_int, &op_movedim_list, &op_moveaxis_int, &op_moveaxis_list,
            &op_expand, &op_expand_as, &op_broadcast_to, &op_expand_copy, &op_broadcast_tensors, &op_sum_to_size, &op_squeeze, &op_squeeze_dim,
            &op_squeeze_dims, &op_unsqueeze, &op_atleast_1d, &op_atleast_2d, &op_atleast_3d, &op_atleast_1d_list, &op_atleast_2d_list,
            &op_atleast_3d_list)
