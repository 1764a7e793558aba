/* resize.c - a tensor's geometry changed in place: resize_, set_, t_, squeeze_, as_strided_ and the like.
 *
 * The recorded ones make the view as an operation and then let self become it, history included.
 */
#include "op/formula.h"
#include "ops/create/factory.h"
#include "ops/geometry.h"
#include "api/api.h"
#include "op/watch.h"
#include "tensor/backend.h"

#define SELF (in[0].t)

/* fn: the view's history; bumped: whoever was asked has raised the version. */
static int become(const rush_value *in, rush_value *out, rush_tensor *view, rush_node *fn, bool bumped)
{
    rush_tensor *self = SELF;
    if (rush_tensor_reshape_inplace(self, view->ndim, view->size, view->stride, view->offset)) return -1;
    if (fn) rush_node_output(fn, (int)view->ag->slot, self);
    if (!bumped) rush_version_bump(self);
    if (fn && self->base) self->ag->view_version = rush_version_of(self);
    return rush_result(out, self);
}

/* The view is made before anything changes. Who looks at operations sees this one, not the view. */
#define CHANGES(name, call)                                                                                                                          \
    static int name##_run(const rush_op *op, const rush_value *in, rush_value *out)                                                                  \
    {                                                                                                                                                \
        bool watched = rush_is_watched(SELF);                                                                                                        \
        uint32_t mode = rush_now.mode;                                                                                                               \
        unsigned version = rush_version_of(SELF);                                                                                                    \
        if (rush_inplace_check(SELF, rush_wants_grad(SELF))) return -1;                                                                              \
        if (SELF->layout == RUSH_ELSEWHERE) return rush_watched(RUSH_FORM_CALL, op, in, out, true, false) ? -1 : 0;                                  \
        if (watched) rush_now.mode |= RUSH_MODE_UNWATCHED;                                                                                           \
        rush_tensor *view = call;                                                                                                                    \
        rush_now.mode = mode;                                                                                                                        \
        rush_node *fn = view ? rush_grad_fn(view) : NULL;                                                                                            \
        if (!view || (watched && rush_watched(RUSH_FORM_CALL, op, in, out, true, false) < 0)) return -1;                                             \
        return become(in, out, view, fn, rush_version_of(SELF) != version);                                                                          \
    }

CHANGES(squeeze, T("squeeze", V(SELF)))
CHANGES(squeeze_dim, T("squeeze.dim", V(SELF), in[1]))
CHANGES(squeeze_dims, T("squeeze.dims", V(SELF), in[1]))
CHANGES(unsqueeze, T("unsqueeze", V(SELF), in[1]))
CHANGES(t, T("t", V(SELF)))
CHANGES(transpose, T("transpose.int", V(SELF), in[1], in[2]))
CHANGES(as_strided, T("as_strided", V(SELF), in[1], in[2], in[3]))

static int swapped_run(const rush_op *op, const rush_value *in, rush_value *out) { return rush_result(out, T("transpose_", in[0], in[1], in[2])); }

static rush_op op_squeeze = {
    .schema = "squeeze_(Tensor(a!) self) -> Tensor(a!)", .method = RUSH_METHOD_, .doc = "squeeze() of self itself.", .run = squeeze_run};
static rush_op op_squeeze_dim = {
    .schema = "squeeze_.dim(Tensor(a!) self, int dim) -> Tensor(a!)", .doc = "squeeze() of self itself.", .run = squeeze_dim_run};
static rush_op op_squeeze_dims = {
    .schema = "squeeze_.dims(Tensor(a!) self, int[] dim) -> Tensor(a!)", .doc = "squeeze() of self itself.", .run = squeeze_dims_run};
static rush_op op_unsqueeze = {
    .schema = "unsqueeze_(Tensor(a!) self, int dim) -> Tensor(a!)", .method = RUSH_METHOD_, .doc = "unsqueeze() of self itself.", .run = unsqueeze_run};
static rush_op op_t = {.schema = "t_(Tensor(a!) self) -> Tensor(a!)", .method = RUSH_METHOD_, .doc = "t() of self itself.", .run = t_run};
static rush_op op_transpose = {
    .schema = "transpose_(Tensor(a!) self, int dim0, int dim1) -> Tensor(a!)", .method = RUSH_METHOD_, .doc = "transpose() of self itself.", .run = transpose_run};
static rush_op op_swapaxes = {
    .schema = "swapaxes_(Tensor(a!) self, int axis0, int axis1) -> Tensor(a!)", .method = RUSH_METHOD_, .doc = "transpose() of self itself.", .run = swapped_run};
static rush_op op_swapdims = {
    .schema = "swapdims_(Tensor(a!) self, int dim0, int dim1) -> Tensor(a!)", .method = RUSH_METHOD_, .doc = "transpose() of self itself.", .run = swapped_run};
static rush_op op_as_strided = {
    .schema = "as_strided_(Tensor(a!) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor(a!)",
    .method = RUSH_METHOD_ | RUSH_FUNCTION_,
    .doc = "as_strided() of self itself.", .run = as_strided_run};

/* ---- resize_ ---- */

static int resized(rush_tensor *self, int n, const int64_t *size, rush_value format)
{
    RUSH_CHECK(rush_now.mode & RUSH_MODE_NO_GRAD || !rush_wants_grad(self), RUSH_RUNTIME_ERROR, "cannot resize variables that require grad");
    size_t before = self->storage ? self->storage->nbytes : 0;
    bool same = self->ndim == n && !memcmp(self->size, size, sizeof *size * (size_t)n);
    if (rush_tensor_resize(self, n, size)) return -1;
    if (self->storage && self->storage->nbytes > before) {
        size_t each = rush_dtypes[self->dtype].size, from = (before + each - 1) / each, to = self->storage->nbytes / each;
        rush_tensor *added = rush_tensor_over(self->storage, self->dtype, 1, (int64_t[]){(int64_t)(to - from)}, (int64_t[]){1}, (int64_t)from);
        if (!added) return -1;
        rush_fresh_fill(added);
    }
    if (HAS(format) && I_(format) != RUSH_CONTIGUOUS) {
        int64_t stride[RUSH_MAXDIM];
        int want = I_(format) == RUSH_CHANNELS_LAST ? 4 : I_(format) == RUSH_CHANNELS_LAST_3D ? 5 : -1;
        RUSH_CHECK(want > 0, RUSH_RUNTIME_ERROR, "Unsupported memory format for resize_: preserve_format");
        RUSH_CHECK(n == want, RUSH_RUNTIME_ERROR, "required rank %d tensor to use %s format", want, want == 4 ? "channels_last" : "channels_last_3d");
        rush_strides_for((int)I_(format), n, size, stride);
        if (rush_tensor_reshape_inplace(self, n, size, stride, self->offset)) return -1;
    }
    if (!same) rush_version_bump(self);
    return 0;
}

static int may_resize(const rush_tensor *self)
{
    RUSH_CHECK(rush_now.mode & RUSH_MODE_INFERENCE || !rush_wants_grad(self), RUSH_RUNTIME_ERROR, "cannot resize variables that require grad");
    return 0;
}

static int resize_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return may_resize(SELF) || resized(SELF, (int)in[1].n, in[1].ints, in[2]) ? -1 : rush_result(out, SELF);
}

static rush_op op_resize = {
    .schema = "resize_(Tensor(a!) self, SymInt[] size, *, MemoryFormat? memory_format=None) -> Tensor(a!)", .method = RUSH_METHOD_,
    .doc = "Other sizes over the same storage, which grows where it must; new elements are not initialised.",
    .run = resize_run, .flags = RUSH_NO_GRAD,
};

static int resize_as_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value format = in[2];
    if (may_resize(SELF)) return -1;
    if (HAS(format) && I_(format) == RUSH_PRESERVE)
        format.i = rush_format_of(in[1].t);
    return resized(SELF, in[1].t->ndim, in[1].t->size, format) ? -1 : rush_result(out, SELF);
}

static rush_op op_resize_as = {
    .schema = "resize_as_(Tensor(a!) self, Tensor the_template, *, MemoryFormat? memory_format=None) -> Tensor(a!)",
    .method = RUSH_METHOD_ | RUSH_FUNCTION_,
    .doc = "resize_() to the sizes of the template.", .run = resize_as_run, .flags = RUSH_NO_GRAD,
};

/* ---- set_ ---- */

static int set_to(rush_tensor *self, const rush_tensor *source, int n, const int64_t *size, const int64_t *stride, int64_t offset)
{
    RUSH_CHECK(self->dtype == source->dtype, RUSH_RUNTIME_ERROR, "Could not set tensor of type %s to a tensor of type %s",
               rush_dtypes[source->dtype].c_type, rush_dtypes[self->dtype].c_type);
    RUSH_CHECK(rush_now.mode & RUSH_MODE_NO_GRAD || !rush_wants_grad(self), RUSH_RUNTIME_ERROR,
               "a leaf Variable that requires grad is being used in an in-place operation.");
    if (!self->version && rush_version_own(self, rush_version_of(self))) return -1; /* what changes source does not change self */
    if (rush_tensor_show(self, source->storage, n, size, stride, offset)) return -1;
    rush_version_bump(self);
    return 0;
}

static int set_tensor_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *s = in[1].t;
    return set_to(SELF, s, s->ndim, s->size, s->stride, s->offset) ? -1 : rush_result(out, SELF);
}

static rush_op op_set_tensor = {
    .schema = "set_.source_Tensor(Tensor(a!) self, Tensor source) -> Tensor(a!)",
    .doc = "Makes self show the storage of source, as source does.", .run = set_tensor_run, .flags = RUSH_NO_GRAD,
};

static int set_tensor_at_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    int64_t stride[RUSH_MAXDIM];
    int64_t offset = I_(in[2]);
    int n = (int)in[3].n;
    if (rush_numel_of(n, in[3].ints) < 0) return -1; /* more dimensions than there may be, too */
    RUSH_CHECK(rush_contiguous(in[1].t), RUSH_RUNTIME_ERROR, "passed in tensor to be used as storage must be contiguous");
    RUSH_CHECK(!__builtin_add_overflow(offset, in[1].t->offset, &offset), RUSH_RUNTIME_ERROR, "set_: the storage offset is out of bounds");
    RUSH_CHECK(in[4].n == 0 || in[4].n == in[3].n, RUSH_RUNTIME_ERROR, "unequal size length (%d) and stride length (%u)", n, in[4].n);
    if (in[4].n) memcpy(stride, in[4].ints, sizeof *stride * n);
    else rush_strides_for(RUSH_CONTIGUOUS, n, in[3].ints, stride);
    return set_to(SELF, in[1].t, n, in[3].ints, stride, offset) ? -1 : rush_result(out, SELF);
}

static rush_op op_set_tensor_at = {
    .schema = "set_.source_Tensor_storage_offset(Tensor(a!) self, Tensor source, SymInt storage_offset, SymInt[] size, SymInt[] stride=[]) -> Tensor(a!)",
    .doc = "Makes self show part of the storage of source.", .run = set_tensor_at_run, .flags = RUSH_NO_GRAD,
};

static int set_empty_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    const int64_t none = 0;
    rush_tensor *empty = rush_tensor_new(SELF->dtype, SELF->device, 1, &none);
    return !empty || set_to(SELF, empty, 1, &none, (const int64_t[]){1}, 0) ? -1 : rush_result(out, SELF);
}

static rush_op op_set_empty = {
    .schema = "set_(Tensor(a!) self) -> Tensor(a!)",
    .doc = "Makes self an empty tensor with a storage of its own.", .run = set_empty_run, .flags = RUSH_NO_GRAD,
};

RUSH_FAMILY(resize, &op_squeeze, &op_squeeze_dim, &op_squeeze_dims, &op_unsqueeze, &op_t, &op_transpose, &op_swapaxes, &op_swapdims,
            &op_as_strided, &op_resize, &op_resize_as, &op_set_empty, &op_set_tensor, &op_set_tensor_at)
