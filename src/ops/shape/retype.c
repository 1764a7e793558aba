/* retype.c - views that keep the place of every element: alias, detach, and other dtypes over the same bytes.
 *
 * view.dtype, view_as_real, view_as_complex, real and imag differ from other views in one thing: the alias gets a dtype
 * of its own, and sizes and strides that count in its elements.
 */
#include "op/formula.h"
#include "ops/geometry.h"
#include "autograd/autograd.h"

#define SELF (in[0].t)

/* ---- the same elements by another name ---- */

static int alias_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_out_alias(out, SELF, SELF->ndim, SELF->size, SELF->stride);
}

static void alias_grad(rush_grads *s)
{
    s->gin[0] = s->g[0];
}

static rush_op op_alias = {
    .schema = "alias(Tensor(a) self) -> Tensor(a)", .method = RUSH_NO_FUNCTION,
    .doc = "A view of everything.", .shape = alias_shape, .grad = alias_grad, .flags = RUSH_VIEW | RUSH_HIDDEN,
};

static rush_op op_lift_fresh = {
    .schema = "lift_fresh(Tensor(a) self) -> Tensor(a)", .method = RUSH_NO_FUNCTION,
    .doc = "A tensor that has just been made, as it is.", .shape = alias_shape, .grad = alias_grad, .flags = RUSH_VIEW | RUSH_HIDDEN,
};

static int fresh_copy_run(const rush_op *op, const rush_value *in, rush_value *out) { return rush_result(out, T("clone", in[0])); }
static rush_op op_lift_fresh_copy = {
    .schema = "lift_fresh_copy(Tensor self) -> Tensor", .doc = "A copy of a tensor that has just been made: what a graph holds in its place.",
    .run = fresh_copy_run, .flags = RUSH_HIDDEN | RUSH_WHOLE,
};

static rush_op op_detach = {
    .schema = "detach(Tensor(a) self) -> Tensor(a)", .method = RUSH_METHOD,
    .doc = "The same memory without a history: no gradient flows through the result.",
    .shape = alias_shape, .flags = RUSH_VIEW | RUSH_NO_GRAD,
};

static int detach_inplace_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *self = SELF;
    RUSH_CHECK(!self->base || !rush_wants_grad(self), RUSH_RUNTIME_ERROR,
               "Can't detach views in-place. Use detach() instead. If you are using DistributedDataParallel (DDP) for training, and "
               "gradient_as_bucket_view is set as True, gradients are views of DDP buckets, and hence detach_() cannot be called on these "
               "gradients.");
    if (self->ag) {
        rush_node *fn = self->ag->fn;
        self->ag->fn = NULL;
        self->ag->slot = 0;
        self->ag->requires_grad = false;
        rush_node_drop(fn);
    }
    return rush_result(out, self);
}

static rush_op op_detach_inplace = {
    .schema = "detach_(Tensor(a!) self) -> Tensor(a!)", .method = RUSH_METHOD_ | RUSH_FUNCTION_,
    .doc = "Makes self a leaf without history.", .run = detach_inplace_run, .flags = RUSH_NO_GRAD,
};

/* ---- other dtypes over the same bytes ---- */

static rush_tensor *as_dtype(const rush_tensor *t, rush_dtype d, int ndim, const int64_t *size, const int64_t *stride, int64_t offset)
{
    rush_tensor *view = rush_tensor_alias(t, ndim, size, stride, offset);
    if (view) view->dtype = d;
    return view;
}

static int view_dtype_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *t = SELF;
    rush_dtype d = (rush_dtype)I_(in[1]);
    int64_t from = rush_dtypes[t->dtype].size, to = rush_dtypes[d].size, size[RUSH_MAXDIM], stride[RUSH_MAXDIM], offset = t->offset;
    int n = t->ndim;
    const char *a = rush_dtype_word(t->dtype), *b = rush_dtype_word(d);
    if (d != t->dtype) {
        RUSH_CHECK(!(t->flags & RUSH_T_CONJ), RUSH_RUNTIME_ERROR,
                   "torch.Tensor.view is not supported for conjugate view tensors when converting to a different dtype.");
        RUSH_CHECK(!(t->flags & RUSH_T_NEG), RUSH_RUNTIME_ERROR,
                   "torch.Tensor.view is not supported for tensors with negative bit set when converting to a different dtype.");
    }
    if (n) {
        memcpy(size, t->size, sizeof *size * n);
        memcpy(stride, t->stride, sizeof *stride * n);
    }
    RUSH_CHECK(from == to || n > 0, RUSH_RUNTIME_ERROR, "self.dim() cannot be 0 to view %s as %s (different element sizes)", a, b);
    if (from != to) {
        int64_t ratio = from > to ? from / to : to / from;
        RUSH_CHECK(stride[n - 1] == 1, RUSH_RUNTIME_ERROR, "self.stride(-1) must be 1 to view %s as %s (different element sizes), but got %lld", a, b,
                   (long long)stride[n - 1]);
        if (from < to) {
            RUSH_CHECK(size[n - 1] % ratio == 0, RUSH_RUNTIME_ERROR,
                       "self.size(-1) must be divisible by %lld to view %s as %s (different element sizes), but got %lld", (long long)ratio, a, b,
                       (long long)size[n - 1]);
            RUSH_CHECK(offset % ratio == 0, RUSH_RUNTIME_ERROR,
                       "self.storage_offset() must be divisible by %lld to view %s as %s (different element sizes), but got %lld",
                       (long long)ratio, a, b, (long long)offset);
            for (int k = 0; k < n - 1; ++k) {
                RUSH_CHECK(stride[k] % ratio == 0, RUSH_RUNTIME_ERROR,
                           "self.stride(%d) must be divisible by %lld to view %s as %s (different element sizes), but got %lld", k,
                           (long long)ratio, a, b, (long long)stride[k]);
                stride[k] /= ratio;
            }
            size[n - 1] /= ratio;
            offset /= ratio;
        } else {
            for (int k = 0; k < n - 1; ++k) stride[k] *= ratio;
            size[n - 1] *= ratio;
            offset *= ratio;
        }
    }
    rush_tensor *view = as_dtype(t, d, n, size, stride, offset);
    if (!view) return -1;
    rush_out_view(out, 0, view);
    return 0;
}

static rush_op op_view_dtype = {
    .schema = "view.dtype(Tensor(a) self, ScalarType dtype) -> Tensor(a)", .method = RUSH_METHOD | RUSH_NO_FUNCTION,
    .doc = "The same bytes read as another dtype; of another element size, the last dimension grows or shrinks.",
    .shape = view_dtype_shape, .flags = RUSH_VIEW | RUSH_NO_GRAD,
};

static int view_as_real_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *t = SELF;
    int64_t size[RUSH_MAXDIM + 1], stride[RUSH_MAXDIM + 1];
    RUSH_CHECK(rush_dtype_is_complex(t->dtype), RUSH_RUNTIME_ERROR, "view_as_real is only supported for complex tensors");
    RUSH_CHECK(!(t->flags & RUSH_T_CONJ), RUSH_RUNTIME_ERROR,
               "view_as_real doesn't work on unresolved conjugated tensors.  To resolve the conjugate tensor so you can view it as real, use "
               "self.resolve_conj(); however, be warned that the resulting tensor will NOT alias the original.");
    for (int d = 0; d < t->ndim; ++d) size[d] = t->size[d], stride[d] = t->stride[d] * 2;
    size[t->ndim] = 2;
    stride[t->ndim] = 1;
    rush_tensor *view = as_dtype(t, rush_dtype_real(t->dtype), t->ndim + 1, size, stride, t->offset * 2);
    if (!view) return -1;
    rush_out_view(out, 0, view);
    return 0;
}

static void view_as_real_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0];
    if (g) s->gin[0] = T("view_as_complex", V(T("contiguous", V(g))));
}

static rush_op op_view_as_real = {
    .schema = "view_as_real(Tensor(a) self) -> Tensor(a)",
    .doc = "Complex numbers as pairs of real ones, in a last dimension of size 2. A view.",
    .shape = view_as_real_shape, .grad = view_as_real_grad, .flags = RUSH_VIEW,
};

static int view_as_complex_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *t = SELF;
    int n = t->ndim;
    int64_t stride[RUSH_MAXDIM];
    RUSH_CHECK(t->dtype == RUSH_F16 || t->dtype == RUSH_F32 || t->dtype == RUSH_F64, RUSH_RUNTIME_ERROR,
               "view_as_complex is only supported for half, float and double tensors, but got a tensor of scalar type: %s", rush_dtype_word(t->dtype));
    RUSH_CHECK(n > 0, RUSH_RUNTIME_ERROR, "Input tensor must have one or more dimensions");
    RUSH_CHECK(t->size[n - 1] == 2, RUSH_RUNTIME_ERROR, "Tensor must have a last dimension of size 2");
    RUSH_CHECK(t->stride[n - 1] == 1, RUSH_RUNTIME_ERROR, "Tensor must have a last dimension with stride 1");
    for (int d = 0; d < n - 1; ++d) {
        RUSH_CHECK(t->stride[d] % 2 == 0, RUSH_RUNTIME_ERROR, "Tensor must have a stride divisible by 2 for all but last dimension");
        stride[d] = t->stride[d] / 2;
    }
    RUSH_CHECK(t->offset % 2 == 0, RUSH_RUNTIME_ERROR, "Tensor must have a storage_offset divisible by 2");
    rush_tensor *view = as_dtype(t, rush_dtype_complex(t->dtype), n - 1, t->size, stride, t->offset / 2);
    if (!view) return -1;
    rush_out_view(out, 0, view);
    return 0;
}

static void view_as_complex_grad(rush_grads *s)
{
    if (s->g[0]) s->gin[0] = T("view_as_real", V(T("resolve_conj", V(s->g[0]))));
}

static rush_op op_view_as_complex = {
    .schema = "view_as_complex(Tensor(a) self) -> Tensor(a)",
    .doc = "Pairs of real numbers in the last dimension as complex ones. A view.",
    .shape = view_as_complex_shape, .grad = view_as_complex_grad, .flags = RUSH_VIEW | RUSH_AUTOCAST_F32,
};

/* One half of complex numbers; a lazily conjugated tensor gives a lazily negated imaginary part. */
static int half_shape(const rush_value *in, rush_value *out, bool imaginary)
{
    const rush_tensor *t = SELF;
    int64_t stride[RUSH_MAXDIM];
    RUSH_CHECK(rush_dtype_is_complex(t->dtype), RUSH_RUNTIME_ERROR, "only complex tensors have two parts, not %s", rush_dtype_name(t->dtype));
    for (int d = 0; d < t->ndim; ++d) stride[d] = t->stride[d] * 2;
    rush_tensor *view = as_dtype(t, rush_dtype_real(t->dtype), t->ndim, t->size, stride, t->offset * 2 + imaginary);
    if (!view) return -1;
    if (imaginary && t->flags & RUSH_T_CONJ) view->flags ^= RUSH_T_NEG;
    view->flags &= ~RUSH_T_CONJ;
    rush_tensor_refresh(view);
    rush_out_view(out, 0, view);
    return 0;
}

static int real_shape(const rush_op *op, const rush_value *in, rush_value *out) { return half_shape(in, out, false); }
static int imag_shape(const rush_op *op, const rush_value *in, rush_value *out) { return half_shape(in, out, true); }

static void real_grad(rush_grads *s)
{
    if (s->g[0]) s->gin[0] = T("complex", V(s->g[0]), V(rush_zeros_like(s->g[0])));
}

static void imag_grad(rush_grads *s)
{
    if (s->g[0]) s->gin[0] = T("complex", V(rush_zeros_like(s->g[0])), V(s->g[0]));
}

static rush_op op_real_part = {
    .schema = "_real_part(Tensor(a) self) -> Tensor(a)",
    .doc = "real() of complex tensors.", .shape = real_shape, .grad = real_grad, .flags = RUSH_VIEW | RUSH_HIDDEN,
};
static rush_op op_imag_part = {
    .schema = "_imag_part(Tensor(a) self) -> Tensor(a)",
    .doc = "imag() of complex tensors.", .shape = imag_shape, .grad = imag_grad, .flags = RUSH_VIEW | RUSH_HIDDEN,
};

static int real_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_result(out, rush_dtype_is_complex(SELF->dtype) ? T("_real_part", V(SELF)) : SELF);
}

static int imag_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(rush_dtype_is_complex(SELF->dtype), RUSH_RUNTIME_ERROR, "imag is not implemented for tensors with non-complex dtypes.");
    return rush_result(out, T("_imag_part", V(SELF)));
}

static rush_op op_real = {
    .schema = "real(Tensor(a) self) -> Tensor(a)",
    .doc = "The real parts of complex tensors, as a view; real tensors as they are.", .run = real_run,
};
static rush_op op_imag = {
    .schema = "imag(Tensor(a) self) -> Tensor(a)",
    .doc = "The imaginary parts of a complex tensor, as a view.", .run = imag_run,
};

RUSH_FAMILY(retype, &op_alias, &op_lift_fresh, &op_lift_fresh_copy, &op_detach, &op_detach_inplace, &op_view_dtype, &op_view_as_real, &op_view_as_complex, &op_real_part, &op_imag_part, &op_real,
            &op_imag)
