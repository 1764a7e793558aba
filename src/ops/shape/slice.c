/* slice.c - views of part of the elements: select, slice, narrow, diagonal, as_strided, unfold.
 *
 * Each has three forms over one geometry: the view itself, its derivative (X_backward: the gradient pasted into
 * zeros), and X_scatter (src pasted into a copy of self). The derivative of one form is another of the three.
 */
#include "op/formula.h"
#include "ops/geometry.h"

#define SELF (in[0].t)

/* ---- geometries ---- */

void rush_geometry_of(geometry *g, const rush_tensor *t)
{
    g->ndim = t->ndim;
    g->offset = t->offset;
    if (!t->ndim) return;
    memcpy(g->size, t->size, sizeof *g->size * t->ndim);
    memcpy(g->stride, t->stride, sizeof *g->stride * t->ndim);
}

rush_tensor *rush_geometry_view(const rush_tensor *t, const geometry *g)
{
    return rush_tensor_alias(t, g->ndim, g->size, g->stride, g->offset);
}

int rush_grown(const char *op, int64_t *size, int64_t times)
{
    RUSH_CHECK(!__builtin_mul_overflow(*size, times, size), RUSH_RUNTIME_ERROR, "%s: a side of the result is too long for a 64-bit number", op);
    return 0;
}

rush_tensor *rush_part(const rush_tensor *t, int dim, int64_t start, int64_t length)
{
    int64_t size[RUSH_MAXDIM];
    memcpy(size, t->size, sizeof *size * t->ndim);
    size[dim] = length;
    return rush_tensor_alias(t, t->ndim, size, t->stride, t->offset + (length ? start * t->stride[dim] : 0));
}

rush_tensor *rush_pixels(const rush_tensor *t)
{
    geometry g;
    rush_geometry_of(&g, t);
    for (int d = 1; d + 1 < g.ndim; ++d) g.size[d] = t->size[d + 1], g.stride[d] = t->stride[d + 1];
    g.size[g.ndim - 1] = t->size[1], g.stride[g.ndim - 1] = t->stride[1];
    return rush_geometry_view(t, &g);
}

static bool lies_as_pixels(const rush_tensor *t)
{
    return t->ndim > 3 && t->device.type == RUSH_CPU && !rush_contiguous(t) && !(t->flags & (RUSH_T_NEG | RUSH_T_CONJ)) && rush_contiguous_as(t, rush_channels_last(t->ndim));
}

bool rush_lie_as_pixels(const rush_tensor *a, const rush_tensor *b) { return lies_as_pixels(a) && lies_as_pixels(b); }

int rush_geometry_select(geometry *g, const rush_tensor *t, int64_t dim, int64_t index)
{
    RUSH_CHECK(t->ndim > 0, RUSH_INDEX_ERROR, "select() cannot be applied to a 0-dim tensor.");
    int d = rush_dim_wrap(dim, t->ndim);
    if (d < 0) return -1;
    int64_t n = t->size[d];
    RUSH_CHECK(index >= -n && index < n, RUSH_INDEX_ERROR, "select(): index %lld out of range for tensor of size %s at dimension %d",
               (long long)index, rush_shape_of(t), d);
    if (index < 0) index += n;
    g->ndim = t->ndim - 1;
    g->offset = t->offset + index * t->stride[d];
    for (int k = 0, j = 0; k < t->ndim; ++k) {
        if (k == d) continue;
        g->size[j] = t->size[k];
        g->stride[j++] = t->stride[k];
    }
    return 0;
}

int rush_geometry_slice(geometry *g, const rush_tensor *t, int64_t dim, rush_value start, rush_value end, int64_t step)
{
    RUSH_CHECK(t->ndim > 0, RUSH_INDEX_ERROR, "slice() cannot be applied to a 0-dim tensor.");
    int d = rush_dim_wrap(dim, t->ndim);
    if (d < 0) return -1;
    RUSH_CHECK(step > 0, RUSH_RUNTIME_ERROR, "slice step must be positive");
    int64_t n = t->size[d], from = HAS(start) ? start.i : 0, to = HAS(end) ? end.i : INT64_MAX;
    if (from < 0) from += n;
    if (to < 0) to += n;
    from = from < 0 ? 0 : from >= n ? n : from;
    to = to < from ? from : to >= n ? n : to;
    rush_geometry_of(g, t);
    g->offset += from * t->stride[d];
    g->size[d] = to == from ? 0 : (to - from - 1) / step + 1;
    if (__builtin_mul_overflow(t->stride[d], step, &g->stride[d])) g->stride[d] = t->stride[d]; /* then there is one element at most */
    return 0;
}

int rush_geometry_diagonal(geometry *g, const rush_tensor *t, int64_t offset, int64_t dim1, int64_t dim2)
{
    int a = rush_dim_wrap(dim1, t->ndim), b = a < 0 ? -1 : rush_dim_wrap(dim2, t->ndim);
    if (b < 0) return -1;
    RUSH_CHECK(a != b, RUSH_RUNTIME_ERROR, "diagonal dimensions cannot be identical %lld, %lld", (long long)dim1, (long long)dim2);
    int64_t rows = t->size[a], cols = t->size[b];
    int64_t n = offset >= 0 ? RUSH_MIN(rows, offset > cols ? 0 : cols - offset) : RUSH_MIN(offset < -rows ? 0 : rows + offset, cols);
    n = RUSH_MAX(n, 0);
    g->ndim = t->ndim - 1;
    g->offset = t->offset;
    if (n > 0) g->offset += offset >= 0 ? offset * t->stride[b] : -offset * t->stride[a];
    int j = 0;
    for (int k = 0; k < t->ndim; ++k) {
        if (k == a || k == b) continue;
        g->size[j] = t->size[k];
        g->stride[j++] = t->stride[k];
    }
    g->size[j] = n;
    g->stride[j] = (int64_t)((uint64_t)t->stride[a] + (uint64_t)t->stride[b]);
    return 0;
}

int rush_geometry_strided(geometry *g, const rush_tensor *t, rush_value size, rush_value stride, rush_value offset)
{
    RUSH_CHECK(size.n == stride.n, RUSH_RUNTIME_ERROR, "mismatch in length of strides and shape");
    RUSH_CHECK(size.n <= RUSH_MAXDIM, RUSH_NOT_IMPLEMENTED, "tensors have at most %d dimensions, not %u", RUSH_MAXDIM, size.n);
    g->ndim = (int)size.n;
    g->offset = HAS(offset) ? offset.i : t->offset;
    RUSH_CHECK(g->offset >= 0, RUSH_RUNTIME_ERROR, "Tensor: invalid storage offset %lld", (long long)g->offset);
    int64_t numel = rush_numel_of(g->ndim, size.ints), last = 0, item = rush_dtypes[t->dtype].size;
    if (numel < 0) return -1;
    bool fits = true;
    for (int d = 0; d < g->ndim; ++d) {
        int64_t span;
        g->size[d] = size.ints[d];
        g->stride[d] = stride.ints[d];
        RUSH_CHECK(g->stride[d] >= 0, RUSH_RUNTIME_ERROR, "as_strided: Negative strides are not supported at the moment, got strides: %s",
                   rush_shape_text(g->ndim, stride.ints));
        fits &= !__builtin_mul_overflow(g->size[d] - 1, g->stride[d], &span) && !__builtin_add_overflow(last, span, &last);
    }
    if (numel == 0) return 0;
    int64_t have = t->storage ? (int64_t)t->storage->nbytes : 0;
    fits = fits && last < INT64_MAX / 32 && g->offset < INT64_MAX / 32;
    int64_t need = fits ? (last + g->offset + 1) * item : INT64_MAX;
    RUSH_CHECK(fits && need <= have, RUSH_RUNTIME_ERROR,
               "setStorage: sizes %s, strides %s, storage offset %lld, and itemsize %lld requiring a storage size of %lld are out of bounds "
               "for storage of size %lld",
               rush_shape_text(g->ndim, size.ints), rush_shape_text(g->ndim, stride.ints), (long long)g->offset, (long long)item,
               (long long)need, (long long)have);
    return 0;
}

static int view_of(rush_value *out, const rush_tensor *t, const geometry *g)
{
    rush_tensor *view = rush_geometry_view(t, g);
    if (!view) return -1;
    rush_out_view(out, 0, view);
    return 0;
}

/* ---- pasting: shape rule and kernel of X_backward and X_scatter are alike but for the geometry ---- */

static int zeros_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_out_t(out, 0, SELF, SELF->dtype, (int)in[1].n, in[1].ints) ? 0 : -1;
}

static void paste_into_zeros(rush_tensor *whole, const geometry *g, const rush_tensor *part)
{
    rush_zero_into(whole);
    rush_tensor *to = rush_geometry_view(whole, g);
    if (to) rush_copy_into(to, part);
}

static int scatter_check(const rush_value *in, const geometry *g)
{
    const rush_tensor *src = in[1].t;
    RUSH_CHECK(src->ndim == g->ndim && !(g->ndim && memcmp(src->size, g->size, sizeof *g->size * g->ndim)), RUSH_RUNTIME_ERROR,
               "expected src to have a size equal to the slice of self. src size = %s, slice size = %s", rush_shape_of(src),
               rush_shape_text(g->ndim, g->size));
    return 0;
}

static void paste_into_copy(const rush_value *in, rush_value *out, const geometry *g)
{
    rush_copy_into(out[0].t, SELF);
    rush_tensor *to = rush_geometry_view(out[0].t, g);
    if (to) rush_copy_into(to, in[1].t);
}

/* ---- select ---- */

static int select_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    geometry g;
    return rush_geometry_select(&g, SELF, I_(in[1]), I_(in[2])) ? -1 : view_of(out, SELF, &g);
}

static void select_grad(rush_grads *s)
{
    const rush_tensor *self = s->in[0].t;
    if (s->g[0]) s->gin[0] = T("select_backward", V(s->g[0]), rush_v_ints(self->size, self->ndim), s->in[1], s->in[2]);
}

static rush_op op_select = {
    .schema = "select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)", .method = RUSH_METHOD,
    .doc = "What lies at one index of dimension dim, which goes. A view.",
    .shape = select_shape, .grad = select_grad, .flags = RUSH_VIEW,
};

static void select_backward_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    geometry g;
    if (!rush_geometry_select(&g, out[0].t, I_(in[2]), I_(in[3]))) paste_into_zeros(out[0].t, &g, SELF);
}

static void select_backward_grad(rush_grads *s)
{
    if (s->g[0]) s->gin[0] = T("select.int", V(s->g[0]), s->in[2], s->in[3]);
}

static rush_op op_select_backward = {
    .schema = "select_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt index) -> Tensor",
    .doc = "Zeros with grad_output at one index: the derivative of select.",
    .shape = zeros_shape, .cpu = select_backward_cpu, .grad = select_backward_grad, .flags = RUSH_HIDDEN,
};

static int select_scatter_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    geometry g;
    if (rush_geometry_select(&g, SELF, I_(in[2]), I_(in[3])) || scatter_check(in, &g)) return -1;
    return rush_out_like(out, 0, SELF, SELF->dtype) ? 0 : -1;
}

static void select_scatter_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    geometry g;
    if (!rush_geometry_select(&g, out[0].t, I_(in[2]), I_(in[3]))) paste_into_copy(in, out, &g);
}

static void select_scatter_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0];
    if (!g) return;
    if (rush_needs(s, 0)) s->gin[0] = T("select_scatter", V(g), V(rush_zeros_like(s->in[1].t)), s->in[2], s->in[3]);
    if (rush_needs(s, 1)) s->gin[1] = T("select.int", V(g), s->in[2], s->in[3]);
}

static rush_op op_select_scatter = {
    .schema = "select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> Tensor", .method = RUSH_METHOD,
    .doc = "A copy of self with src at one index of dimension dim.",
    .shape = select_scatter_shape, .cpu = select_scatter_cpu, .grad = select_scatter_grad,
};

/* ---- slice, narrow ---- */

static int slice_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    geometry g;
    return rush_geometry_slice(&g, SELF, I_(in[1]), in[2], in[3], I_(in[4])) ? -1 : view_of(out, SELF, &g);
}

static void slice_grad(rush_grads *s)
{
    const rush_tensor *self = s->in[0].t;
    const rush_value *in = s->in;
    if (s->g[0])
        s->gin[0] = T("slice_backward", V(s->g[0]), rush_v_ints(self->size, self->ndim), in[1], HAS(in[2]) ? in[2] : V((int64_t)0),
                      HAS(in[3]) ? in[3] : V(INT64_MAX), in[4]);
}

static rush_op op_slice = {
    .schema = "slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor(a)", .method = RUSH_NO_FUNCTION,
    .doc = "Indices start, start + step, ... below end of dimension dim, counted and clipped as Python does. A view.",
    .shape = slice_shape, .grad = slice_grad, .flags = RUSH_VIEW,
};

static void slice_backward_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    geometry g;
    if (!rush_geometry_slice(&g, out[0].t, I_(in[2]), in[3], in[4], I_(in[5]))) paste_into_zeros(out[0].t, &g, SELF);
}

static void slice_backward_grad(rush_grads *s)
{
    if (s->g[0]) s->gin[0] = T("slice.Tensor", V(s->g[0]), s->in[2], s->in[3], s->in[4], s->in[5]);
}

static rush_op op_slice_backward = {
    .schema = "slice_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt start, SymInt end, SymInt step) -> Tensor",
    .doc = "Zeros with grad_output in a slice: the derivative of slice.",
    .shape = zeros_shape, .cpu = slice_backward_cpu, .grad = slice_backward_grad, .flags = RUSH_HIDDEN,
};

static int slice_scatter_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    geometry g;
    if (rush_geometry_slice(&g, SELF, I_(in[2]), in[3], in[4], I_(in[5])) || scatter_check(in, &g)) return -1;
    return rush_out_like(out, 0, SELF, SELF->dtype) ? 0 : -1;
}

static void slice_scatter_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    geometry g;
    if (!rush_geometry_slice(&g, out[0].t, I_(in[2]), in[3], in[4], I_(in[5]))) paste_into_copy(in, out, &g);
}

static void slice_scatter_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0];
    const rush_value *in = s->in;
    if (!g) return;
    if (rush_needs(s, 0)) s->gin[0] = T("slice_scatter", V(g), V(rush_zeros_like(in[1].t)), in[2], in[3], in[4], in[5]);
    if (rush_needs(s, 1)) s->gin[1] = T("slice.Tensor", V(g), in[2], in[3], in[4], in[5]);
}

static rush_op op_slice_scatter = {
    .schema = "slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor",
    .method = RUSH_METHOD,
    .doc = "A copy of self with src in a slice of dimension dim.",
    .shape = slice_scatter_shape, .cpu = slice_scatter_cpu, .grad = slice_scatter_grad,
};

static rush_tensor *narrowed(rush_tensor *t, int64_t dim, int64_t start, int64_t length)
{
    RUSH_CHECK_NULL(t->ndim > 0, RUSH_RUNTIME_ERROR, "narrow() cannot be applied to a 0-dim tensor.");
    RUSH_CHECK_NULL(length >= 0, RUSH_RUNTIME_ERROR, "narrow(): length must be non-negative.");
    int d = rush_dim_wrap(dim, t->ndim);
    if (d < 0) return NULL;
    int64_t n = t->size[d];
    RUSH_CHECK_NULL(start >= -n && start <= n, RUSH_INDEX_ERROR, "start out of range (expected to be in range of [%lld, %lld], but got %lld)",
                    (long long)-n, (long long)n, (long long)start);
    if (start < 0) start += n;
    RUSH_CHECK_NULL(start <= n - length, RUSH_RUNTIME_ERROR, "start (%lld) + length (%lld) exceeds dimension size (%lld).", (long long)start,
                    (long long)length, (long long)n);
    return T("slice.Tensor", V(t), V((int64_t)d), V(start), V(start + length), V((int64_t)1));
}

static int narrow_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_result(out, narrowed(SELF, I_(in[1]), I_(in[2]), I_(in[3])));
}

static rush_op op_narrow = {
    .schema = "narrow(Tensor(a) self, int dim, SymInt start, SymInt length) -> Tensor(a)", .method = RUSH_METHOD,
    .doc = "Indices start to start + length of dimension dim. A view.", .run = narrow_run,
};

static int narrow_tensor_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *start = in[2].t;
    RUSH_CHECK(start->ndim == 0 && rush_dtype_is_integer(start->dtype), RUSH_RUNTIME_ERROR, "start must be an 0-dim integral Tensor.");
    rush_value at = RUSH_NONE;
    return TN(&at, "_local_scalar_dense", in[2]) ? -1 : rush_result(out, narrowed(SELF, I_(in[1]), at.i, I_(in[3])));
}

static rush_op op_narrow_tensor = {
    .schema = "narrow.Tensor(Tensor(a) self, int dim, Tensor start, SymInt length) -> Tensor(a)",
    .doc = "narrow() from a start that is a 0-d integer tensor.", .run = narrow_tensor_run,
};

static int narrow_copy_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(I_(in[1]) < RUSH_MAX(SELF->ndim, 1), RUSH_RUNTIME_ERROR, "narrow_copy: dimension %lld of a tensor with %d dimensions", (long long)I_(in[1]),
               SELF->ndim);
    rush_tensor *t = narrowed(SELF, I_(in[1]), I_(in[2]), I_(in[3]));
    return rush_result(out, t ? T("clone", V(t), ((rush_value){.kind = RUSH_V_MEMORY_FORMAT, .i = RUSH_CONTIGUOUS})) : NULL);
}

static rush_op op_narrow_copy = {
    .schema = "narrow_copy(Tensor self, int dim, SymInt start, SymInt length) -> Tensor", .method = RUSH_METHOD, .node = "NarrowCopyBackward0",
    .doc = "A copy of narrow().", .run = narrow_copy_run, .flags = RUSH_WHOLE,
};

/* ---- diagonal ---- */

static int diagonal_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    geometry g;
    return rush_geometry_diagonal(&g, SELF, I_(in[1]), I_(in[2]), I_(in[3])) ? -1 : view_of(out, SELF, &g);
}

static void diagonal_grad(rush_grads *s)
{
    const rush_tensor *self = s->in[0].t;
    if (s->g[0]) s->gin[0] = T("diagonal_backward", V(s->g[0]), rush_v_ints(self->size, self->ndim), s->in[1], s->in[2], s->in[3]);
}

static rush_op op_diagonal = {
    .schema = "diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)", .method = RUSH_METHOD,
    .doc = "The diagonal of two dimensions, as a new last one; offset above 0 lies above the main diagonal. A view.",
    .shape = diagonal_shape, .grad = diagonal_grad, .flags = RUSH_VIEW,
};

static rush_op op_linalg_diagonal = {
    .schema = "linalg_diagonal(Tensor(a) A, *, int offset=0, int dim1=-2, int dim2=-1) -> Tensor(a)",
    .doc = "diagonal() of the last two dimensions.",
    .shape = diagonal_shape, .grad = diagonal_grad, .flags = RUSH_VIEW,
};

static void diagonal_backward_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    geometry g;
    if (!rush_geometry_diagonal(&g, out[0].t, I_(in[2]), I_(in[3]), I_(in[4]))) paste_into_zeros(out[0].t, &g, SELF);
}

static void diagonal_backward_grad(rush_grads *s)
{
    if (s->g[0]) s->gin[0] = T("diagonal", V(s->g[0]), s->in[2], s->in[3], s->in[4]);
}

static rush_op op_diagonal_backward = {
    .schema = "diagonal_backward(Tensor grad_output, SymInt[] input_sizes, int offset, int dim1, int dim2) -> Tensor",
    .doc = "Zeros with grad_output on a diagonal: the derivative of diagonal.",
    .shape = zeros_shape, .cpu = diagonal_backward_cpu, .grad = diagonal_backward_grad, .flags = RUSH_HIDDEN,
};

static int diagonal_scatter_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    geometry g;
    if (rush_geometry_diagonal(&g, SELF, I_(in[2]), I_(in[3]), I_(in[4])) || scatter_check(in, &g)) return -1;
    return rush_out_like(out, 0, SELF, SELF->dtype) ? 0 : -1;
}

static void diagonal_scatter_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    geometry g;
    if (!rush_geometry_diagonal(&g, out[0].t, I_(in[2]), I_(in[3]), I_(in[4]))) paste_into_copy(in, out, &g);
}

static void diagonal_scatter_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0];
    const rush_value *in = s->in;
    if (!g) return;
    if (rush_needs(s, 0)) s->gin[0] = T("diagonal_scatter", V(g), V(rush_zeros_like(in[1].t)), in[2], in[3], in[4]);
    if (rush_needs(s, 1)) s->gin[1] = T("diagonal", V(g), in[2], in[3], in[4]);
}

static rush_op op_diagonal_scatter = {
    .schema = "diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor", .method = RUSH_METHOD,
    .doc = "A copy of self with src on a diagonal.",
    .shape = diagonal_scatter_shape, .cpu = diagonal_scatter_cpu, .grad = diagonal_scatter_grad,
};

/* A tensor with self on a diagonal of two new dimensions. */
static int diag_embed_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    int64_t size[RUSH_MAXDIM], offset = I_(in[1]);
    int n = SELF->ndim + 1, a = rush_dim_wrap(I_(in[2]), n), b = a < 0 ? -1 : rush_dim_wrap(I_(in[3]), n);
    RUSH_CHECK(SELF->ndim > 0, RUSH_INDEX_ERROR, "diag_embed needs a tensor of at least one dimension");
    if (b < 0) return -1;
    RUSH_CHECK(a != b, RUSH_RUNTIME_ERROR, "diagonal dimensions cannot be identical %lld, %lld", (long long)I_(in[2]), (long long)I_(in[3]));
    RUSH_CHECK(n <= RUSH_MAXDIM, RUSH_NOT_IMPLEMENTED, "tensors have at most %d dimensions", RUSH_MAXDIM);
    int64_t side = SELF->size[SELF->ndim - 1];
    RUSH_CHECK(offset != INT64_MIN && !__builtin_add_overflow(side, offset < 0 ? -offset : offset, &side), RUSH_RUNTIME_ERROR,
               "a diagonal cannot have the offset %lld", (long long)offset);
    for (int d = 0, k = 0; d < n; ++d) size[d] = d == a || d == b ? side : SELF->size[k++];
    return rush_out_t(out, 0, SELF, SELF->dtype, n, size) ? 0 : -1;
}

static void diag_embed_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    geometry g;
    if (!rush_geometry_diagonal(&g, out[0].t, I_(in[1]), I_(in[2]), I_(in[3]))) paste_into_zeros(out[0].t, &g, SELF);
}

static void diag_embed_grad(rush_grads *s)
{
    if (s->g[0]) s->gin[0] = T("diagonal", V(s->g[0]), s->in[1], s->in[2], s->in[3]);
}

static rush_op op_diag_embed = {
    .schema = "diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor", .method = RUSH_METHOD,
    .doc = "Zeros with the last dimension of self on a diagonal of dimensions dim1 and dim2 of the result.",
    .shape = diag_embed_shape, .cpu = diag_embed_cpu, .grad = diag_embed_grad,
};

static int diag_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    int n = SELF->ndim;
    RUSH_CHECK(n == 1 || n == 2, RUSH_RUNTIME_ERROR, "diag(): Supports 1D or 2D tensors. Got %dD", n);
    if (n == 1) return rush_result(out, T("diag_embed", V(SELF), in[1]));
    return rush_result(out, T("diagonal_copy", V(SELF), in[1]));
}

static rush_op op_diag = {
    .schema = "diag(Tensor self, int diagonal=0) -> Tensor", .method = RUSH_METHOD,
    .doc = "A matrix with a vector on its diagonal, or the diagonal of a matrix.", .run = diag_run,
};

static int diagflat_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *flat = T("reshape", V(SELF), INTS(-1));
    return rush_result(out, flat ? T("diag_embed", V(flat), in[1]) : NULL);
}

static rush_op op_diagflat = {
    .schema = "diagflat(Tensor self, int offset=0) -> Tensor", .method = RUSH_METHOD,
    .doc = "A matrix with all elements of self on its diagonal.", .run = diagflat_run,
};

/* ---- as_strided ---- */

static int as_strided_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    geometry g;
    return rush_geometry_strided(&g, SELF, in[1], in[2], in[3]) ? -1 : view_of(out, SELF, &g);
}

static int64_t extent(int ndim, const int64_t *size, const int64_t *stride)
{
    int64_t last = 0;
    for (int d = 0; d < ndim; ++d) {
        if (size[d] == 0) return 0;
        last += (size[d] - 1) * stride[d];
    }
    return last + 1;
}

/* The places in a flat buffer that a geometry shows, as an index vector. */
static rush_tensor *places(const rush_tensor *on, int64_t n, rush_value size, rush_value stride, int64_t offset)
{
    rush_tensor *all = T("arange", V(n), rush_v_dtype(RUSH_I64), ON(on));
    all = all ? T("as_strided", V(all), size, stride, V(offset)) : NULL;
    return all ? T("reshape", V(all), INTS(-1)) : NULL;
}

/* May two indices lead to one place? By PyTorch's rule: a stride is not beyond what the smaller ones span. */
static bool may_overlap(const rush_tensor *t)
{
    bool done[RUSH_MAXDIM] = {false};
    int64_t spanned = 0;
    if (t->flags & RUSH_T_DENSE || !t->numel) return false;
    for (int k = 0; k < t->ndim; ++k) {
        int least = -1;
        for (int d = 0; d < t->ndim; ++d)
            if (!done[d] && (least < 0 || t->stride[d] < t->stride[least])) least = d;
        done[least] = true;
        if (t->size[least] == 1) continue;
        if (t->stride[least] <= spanned) return true;
        spanned += (t->size[least] - 1) * t->stride[least];
    }
    return false;
}

/* Both geometries are places in one buffer: the gradient is added up there and read back. Places that several elements
 * of self share give each of them an equal part. */
static void as_strided_grad(rush_grads *s)
{
    const rush_tensor *self = s->in[0].t;
    rush_value size = s->in[1], stride = s->in[2];
    rush_tensor *g = s->g[0];
    if (!g) return;
    int64_t from = self->offset, to = HAS(s->in[3]) ? I_(s->in[3]) : self->offset, base = RUSH_MIN(from, to);
    int64_t n = RUSH_MAX(extent(self->ndim, self->size, self->stride) + from, extent((int)size.n, size.ints, stride.ints) + to) - base;
    rush_value self_size = rush_v_ints(self->size, self->ndim), self_stride = rush_v_ints(self->stride, self->ndim);
    rush_tensor *buffer = T("new_zeros", V(g), rush_v_ints(&n, 1));
    rush_tensor *at = places(g, n, size, stride, to - base);
    if (!at) return;
    buffer = T("index_add", V(buffer), V((int64_t)0), V(at), V(T("reshape", V(g), INTS(-1))));
    if (may_overlap(self)) {
        rush_tensor *seen = places(g, n, self_size, self_stride, from - base);
        if (!seen) return;
        rush_tensor *count = T("new_zeros", V(g), rush_v_ints(&n, 1));
        count = T("index_add", V(count), V((int64_t)0), V(seen), V(T("new_ones", V(g), rush_v_ints(&seen->numel, 1))));
        count = T("clamp_min", V(count), V((int64_t)1));
        buffer = div_(buffer, count);
    }
    s->gin[0] = buffer ? T("as_strided", V(buffer), self_size, self_stride, V(from - base)) : NULL;
}

static rush_op op_as_strided = {
    .schema = "as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor(a)", .method = RUSH_METHOD,
    .doc = "A view of the storage by sizes, strides and offset, which must lie within it.",
    .shape = as_strided_shape, .grad = as_strided_grad, .flags = RUSH_VIEW,
};

static int as_strided_scatter_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    geometry g;
    if (rush_geometry_strided(&g, SELF, in[2], in[3], in[4]) || scatter_check(in, &g)) return -1;
    return rush_out_like(out, 0, SELF, SELF->dtype) ? 0 : -1;
}

/* The copy has self's own strides, so that the places mean the same in it. */
static void as_strided_scatter_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *t = SELF;
    int64_t offset = HAS(in[4]) ? I_(in[4]) : t->offset;
    int64_t n = t->storage ? (int64_t)t->storage->nbytes / rush_dtypes[t->dtype].size : 0;
    rush_tensor *whole = rush_tensor_new(t->dtype, t->device, 1, &n);
    if (!whole) return;
    rush_zero_into(whole);
    rush_tensor *copy = rush_tensor_alias(whole, t->ndim, t->size, t->stride, t->offset);
    rush_tensor *part = rush_tensor_alias(whole, (int)in[2].n, in[2].ints, in[3].ints, offset);
    if (!copy || !part || rush_copy_into(copy, t) || rush_copy_into(part, in[1].t)) return;
    rush_copy_into(out[0].t, copy);
}

static void as_strided_scatter_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0];
    const rush_value *in = s->in;
    if (!g) return;
    g = T("contiguous", V(g));
    if (rush_needs(s, 0)) s->gin[0] = T("as_strided_scatter", V(g), V(rush_zeros_like(in[1].t)), in[2], in[3], in[4]);
    if (rush_needs(s, 1)) s->gin[1] = T("contiguous", V(T("as_strided", V(g), in[2], in[3], in[4])));
}

static rush_op op_as_strided_scatter = {
    .schema = "as_strided_scatter(Tensor self, Tensor src, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor",
    .method = RUSH_METHOD,
    .doc = "A copy of self with src at the places that as_strided would show.",
    .shape = as_strided_scatter_shape, .cpu = as_strided_scatter_cpu, .grad = as_strided_scatter_grad,
};

/* ---- unfold ---- */

static int unfold_geometry(geometry *g, const rush_tensor *t, int64_t dim, int64_t size, int64_t step)
{
    int d = rush_dim_wrap(dim, t->ndim), n = t->ndim;
    if (d < 0) return -1;
    int64_t have = n ? t->size[d] : 1, stride = n ? t->stride[d] : 1;
    RUSH_CHECK(n < RUSH_MAXDIM, RUSH_NOT_IMPLEMENTED, "tensors have at most %d dimensions", RUSH_MAXDIM);
    RUSH_CHECK(size >= 0, RUSH_RUNTIME_ERROR, "size is %lld but must be >= 0", (long long)size);
    RUSH_CHECK(size <= have, RUSH_RUNTIME_ERROR, "maximum size for tensor at dimension %d is %lld but size is %lld", d, (long long)have, (long long)size);
    RUSH_CHECK(step > 0, RUSH_RUNTIME_ERROR, "step is %lld but must be > 0", (long long)step);
    rush_geometry_of(g, t);
    if (n) {
        g->size[d] = (have - size) / step + 1;
        if (g->size[d] > 1) g->stride[d] = step * stride; /* of a single window it is not looked at */
    }
    g->size[n] = size;
    g->stride[n] = stride;
    g->ndim = n + 1;
    return 0;
}

static int unfold_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    geometry g;
    return unfold_geometry(&g, SELF, I_(in[1]), I_(in[2]), I_(in[3])) ? -1 : view_of(out, SELF, &g);
}

static void unfold_grad(rush_grads *s)
{
    const rush_tensor *self = s->in[0].t;
    if (s->g[0]) s->gin[0] = T("unfold_backward", V(s->g[0]), rush_v_ints(self->size, self->ndim), s->in[1], s->in[2], s->in[3]);
}

static rush_op op_unfold = {
    .schema = "unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)", .method = RUSH_METHOD | RUSH_NO_FUNCTION,
    .doc = "Windows of `size` elements every `step` along a dimension; their elements are a new last dimension. A view.",
    .shape = unfold_shape, .grad = unfold_grad, .flags = RUSH_VIEW,
};

/* Element k of all windows at once: these lie at different places, so each addition is a plain one. */
static void unfold_backward_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    geometry g, one;
    int64_t size = I_(in[3]), step = I_(in[4]);
    rush_zero_into(out[0].t);
    if (unfold_geometry(&g, out[0].t, I_(in[2]), size, step)) return;
    for (int64_t k = 0; k < size; ++k) {
        if (rush_geometry_select(&one, SELF, -1, k)) return;
        rush_tensor *from = rush_geometry_view(SELF, &one);
        rush_tensor *to = rush_tensor_alias(out[0].t, g.ndim - 1, g.size, g.stride, g.offset + k * g.stride[g.ndim - 1]);
        if (!from || !to || rush_add_into(to, from)) return;
    }
}

static void unfold_backward_grad(rush_grads *s)
{
    if (s->g[0]) s->gin[0] = T("unfold", V(s->g[0]), s->in[2], s->in[3], s->in[4]);
}

static rush_op op_unfold_backward = {
    .schema = "unfold_backward(Tensor grad_in, SymInt[] input_sizes, int dim, int size, int step) -> Tensor",
    .doc = "Windows added up where they overlap: the derivative of unfold.",
    .shape = zeros_shape, .cpu = unfold_backward_cpu, .grad = unfold_backward_grad, .flags = RUSH_HIDDEN,
};

/* in: self, src, dim, start, end, step: self is the slice, src what it was made of */
static int slice_inverse_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *src = in[1].t;
    return rush_result(out, T("as_strided", in[0], rush_v_ints(src->size, src->ndim), rush_v_ints(src->stride, src->ndim), V(src->offset)));
}

static rush_op op_slice_inverse = {
    .schema = "slice_inverse(Tensor(a) self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor(a)", .method = RUSH_METHOD,
    .doc = "All of the tensor that self, slice(src), is a view of.", .run = slice_inverse_run, .flags = RUSH_HIDDEN,
};

RUSH_FAMILY(slice, &op_slice_inverse, &op_select, &op_select_backward, &op_select_scatter, &op_slice, &op_slice_backward, &op_slice_scatter, &op_narrow,
            &op_narrow_tensor, &op_narrow_copy, &op_diagonal, &op_linalg_diagonal, &op_diagonal_backward, &op_diagonal_scatter, &op_diag_embed,
            &op_diag, &op_diagflat, &op_as_strided, &op_as_strided_scatter, &op_unfold, &op_unfold_backward)
