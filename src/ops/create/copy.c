/* copy.c - copies: copy_, clone, contiguous, to and its forms, and the lazily conjugated and negated views.
 *
 * _to_copy is the one that converts; everything called `to` is it, or nothing at all where dtype, device and
 * layout are as wanted already.
 */
#include "op/formula.h"
#include "tensor/backend.h"

#define SELF (in[0].t)

static void warn_of_imaginary(const rush_tensor *from, rush_dtype to)
{
    if (rush_dtype_is_complex(from->dtype) && !rush_dtype_is_complex(to) && to != RUSH_BOOL && from->device.type != RUSH_META && rush_numel(from))
        RUSH_WARN_ONCE("Casting complex values to real discards the imaginary part");
}

/* ---- copy_ ---- */

static int copy_into_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (in[1].kind == RUSH_V_TENSOR) {
        const rush_tensor *src = in[1].t;
        int64_t size[RUSH_MAXDIM];
        int ndim;
        if (rush_broadcast_sizes(SELF->ndim, SELF->size, src->ndim, src->size, &ndim, size)) return -1;
        RUSH_CHECK(ndim == SELF->ndim && !memcmp(size, SELF->size, sizeof *size * (size_t)ndim), RUSH_RUNTIME_ERROR,
                   "output with shape %s doesn't match the broadcast shape %s", rush_shape_of(SELF), rush_shape_text(ndim, size));
        RUSH_CHECK(src->device.type != RUSH_META || SELF->device.type == RUSH_META, RUSH_NOT_IMPLEMENTED,
                   "Cannot copy out of meta tensor; no data!");
        if (SELF->device.type != RUSH_META) warn_of_imaginary(src, SELF->dtype);
    }
    if (in[1].kind == RUSH_V_TENSOR && in[1].t != SELF && rush_overlap(SELF, in[1].t) == 2) return rush_overlaps_input();
    RUSH_CHECK(!rush_self_overlap(SELF), RUSH_RUNTIME_ERROR,
               "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
               "Please clone() the tensor before performing the operation.");
    rush_out_view(out, 0, SELF);
    return 0;
}

static void copy_into_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *src = in[1].kind == RUSH_V_TENSOR ? in[1].t : rush_tensor_of_number_typed(in[1], SELF->dtype);
    if (src) rush_copy_into(SELF, src);
}

static void copy_into_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0];
    if (g && rush_needs(s, 0)) s->gin[0] = rush_zeros_like(s->in[0].t);
    if (!g || !rush_needs(s, 1)) return;
    const rush_tensor *src = s->in[1].t;
    if (rush_dtype_is_complex(g->dtype) && !rush_dtype_is_complex(src->dtype)) g = T("real", V(g));
    g = sum_to_size(g, src);
    s->gin[1] = g && g->dtype != src->dtype ? to_dtype(g, src->dtype) : g;
}

static rush_op op_copy_into = {
    .schema = "copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)", .method = RUSH_METHOD_, .node = "CopyBackwards",
    .doc = "Copies the elements of src, converted and broadcast, into self.",
    .shape = copy_into_shape, .cpu = copy_into_cpu, .grad = copy_into_grad, .flags = RUSH_SIDE_EFFECT | RUSH_CROSS_DEVICE | RUSH_NUMBERS,
};

static int copy_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *t = T("clone", V(SELF));
    return rush_result(out, t ? T("copy_", V(t), in[1], in[2]) : NULL);
}
static rush_op op_copy = {
    .schema = "copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor", .method = RUSH_NO_FUNCTION,
    .doc = "src in the size, dtype and device of self.", .run = copy_run, .flags = RUSH_WHOLE,
};

/* ---- copies ---- */

static int like_shape(rush_value *out, const rush_tensor *t, rush_dtype d, rush_device device, rush_value format)
{
    int f = HAS(format) ? (int)I_(format) : RUSH_PRESERVE;
    if (HAS(out[0])) return rush_out(out, 0, d, device, t->ndim, t->size) ? 0 : -1;
    RUSH_CHECK((f != RUSH_CHANNELS_LAST || t->ndim == 4) && (f != RUSH_CHANNELS_LAST_3D || t->ndim == 5), RUSH_RUNTIME_ERROR,
               "required rank %d tensor to use %s format", f == RUSH_CHANNELS_LAST ? 4 : 5,
               f == RUSH_CHANNELS_LAST ? "channels_last" : "channels_last_3d");
    rush_tensor *r = rush_tensor_new_like(t, d, device, f);
    if (!r) return -1;
    rush_out_view(out, 0, r);
    return 0;
}

static int clone_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    return like_shape(out, SELF, SELF->dtype, SELF->device, in[1]);
}
static void clone_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_copy_into(out[0].t, SELF);
}
static void clone_grad(rush_grads *s)
{
    if (rush_needs(s, 0)) s->gin[0] = s->g[0];
}
static rush_op op_clone = {
    .schema = "clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor", .method = RUSH_METHOD,
    .doc = "A copy of its own memory; by default with the strides of self where they are dense.",
    .shape = clone_shape, .cpu = clone_cpu, .grad = clone_grad, .flags = RUSH_STRIDED_OUT | RUSH_CROSS_DEVICE,
};

static int to_copy_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_dtype d = HAS(in[1]) ? (rush_dtype)I_(in[1]) : (rush_dtype)SELF->dtype;
    rush_device device = HAS(in[3]) ? in[3].device : SELF->device;
    RUSH_CHECK(!HAS(in[2]) || I_(in[2]) == SELF->layout, RUSH_NOT_IMPLEMENTED, "conversion between layouts: use to_dense(), to_sparse()");
    RUSH_CHECK(SELF->device.type != RUSH_META || device.type == RUSH_META, RUSH_NOT_IMPLEMENTED,
               "Cannot copy out of meta tensor; no data! Please use torch.nn.Module.to_empty() instead of torch.nn.Module.to() "
               "when moving module from meta to a different device.");
    if (device.type != RUSH_META) warn_of_imaginary(SELF, d);
    return like_shape(out, SELF, d, device, in[6]);
}
static void to_copy_grad(rush_grads *s)
{
    const rush_tensor *t = s->in[0].t;
    rush_tensor *g = s->g[0];
    if (!g) return;
    if (rush_dtype_is_complex(g->dtype) && !rush_dtype_is_complex(t->dtype)) g = T("real", V(g));
    if (!g) return;
    if (!rush_same_device(g->device, t->device))
        g = T("_to_copy", V(g), rush_v_dtype(t->dtype), RUSH_NONE, (rush_value){.kind = RUSH_V_DEVICE, .device = t->device});
    s->gin[0] = g && g->dtype != t->dtype ? to_dtype(g, t->dtype) : g;
}
static rush_op op_to_copy = {
    .schema = "_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, "
              "bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor",
    .doc = "A copy of another dtype, on another device.",
    .shape = to_copy_shape, .cpu = clone_cpu, .grad = to_copy_grad, .flags = RUSH_STRIDED_OUT | RUSH_CROSS_DEVICE,
};

/* ---- copies only where something differs ---- */

static bool same_device(rush_device a, rush_device b)
{
    return rush_same_device(rush_device_resolve(a), rush_device_resolve(b));
}

static int convert(const rush_value *in, rush_value *out, rush_value dtype, rush_value device, rush_value format, bool copy)
{
    bool same = !copy && (!HAS(dtype) || I_(dtype) == SELF->dtype) && (!HAS(device) || same_device(device.device, SELF->device)) &&
                (!HAS(format) || I_(format) == RUSH_PRESERVE || rush_format_of(SELF) == I_(format)); /* by the strides' order, unlike contiguous() */
    if (same) return rush_result(out, SELF);
    return rush_result(out, T("_to_copy", V(SELF), dtype, RUSH_NONE, device, RUSH_NONE, V((bool)false), format));
}

static int to_dtype_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return convert(in, out, in[1], RUSH_NONE, in[4], I_(in[3]));
}
static int to_device_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return convert(in, out, in[2], in[1], in[5], I_(in[4]));
}
static int to_layout_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(!HAS(in[2]) || I_(in[2]) == SELF->layout, RUSH_NOT_IMPLEMENTED, "conversion between layouts: use to_dense(), to_sparse()");
    return convert(in, out, in[1], in[3], in[7], I_(in[6]));
}
static rush_value device_value(const rush_tensor *t)
{
    return (rush_value){.kind = RUSH_V_DEVICE, .device = t->device};
}
static int to_other_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return convert(in, out, rush_v_dtype(in[1].t->dtype), device_value(in[1].t), in[4], I_(in[3]));
}
static int type_as_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return convert(in, out, rush_v_dtype(in[1].t->dtype), device_value(in[1].t), RUSH_NONE, false);
}
static int plain_to_dtype_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return convert(in, out, in[1], RUSH_NONE, RUSH_NONE, false);
}

#define TO_DOC "self itself if it is of that dtype and on that device already, else a copy."
static rush_op op_to_dtype = {
    .schema = "to.dtype(Tensor(a) self, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)",
    .method = RUSH_NO_FUNCTION,
    .doc = TO_DOC, .run = to_dtype_run,
};
static rush_op op_to_device = {
    .schema = "to.device(Tensor(a) self, Device device, ScalarType dtype, bool non_blocking=False, bool copy=False, "
              "MemoryFormat? memory_format=None) -> Tensor(a)",
    .doc = TO_DOC, .run = to_device_run,
};
static rush_op op_to_layout = {
    .schema = "to.dtype_layout(Tensor(a) self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
              "bool? pin_memory=None, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)",
    .doc = TO_DOC, .run = to_layout_run,
};
static rush_op op_to_other = {
    .schema = "to.other(Tensor(a) self, Tensor other, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)",
    .doc = TO_DOC, .run = to_other_run,
};
static rush_op op_type_as = {
    .schema = "type_as(Tensor self, Tensor other) -> Tensor", .method = RUSH_NO_FUNCTION, .doc = "self in the dtype and on the device of other.", .run = type_as_run,
};
static rush_op op_plain_to_dtype = {
    .schema = "_to_dtype(Tensor self, ScalarType dtype) -> Tensor", .method = RUSH_NO_FUNCTION, .doc = "self in a dtype.", .run = plain_to_dtype_run, .flags = RUSH_HIDDEN,
};

static int contiguous_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_memory_format f = HAS(in[1]) ? (rush_memory_format)I_(in[1]) : RUSH_CONTIGUOUS;
    RUSH_CHECK(f != RUSH_PRESERVE, RUSH_RUNTIME_ERROR, "preserve memory format is unsupported by the contiguous operator");
    if (rush_contiguous_as(SELF, f)) return rush_result(out, SELF);
    return rush_result(out, T("clone", V(SELF), ((rush_value){.kind = RUSH_V_MEMORY_FORMAT, .i = f})));
}
static rush_op op_contiguous = {
    .schema = "contiguous(Tensor(a) self, *, MemoryFormat memory_format=contiguous_format) -> Tensor(a)", .method = RUSH_METHOD | RUSH_NO_FUNCTION,
    .doc = "self itself if its elements lie in order, else a copy.", .run = contiguous_run,
};

static int positive_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(SELF->dtype != RUSH_BOOL, RUSH_RUNTIME_ERROR, "The `+` operator, on a bool tensor is not supported.");
    return rush_result(out, SELF);
}
static rush_op op_positive = {.schema = "positive(Tensor(a) self) -> Tensor(a)", .method = RUSH_METHOD, .doc = "self as it is.", .run = positive_run};

/* ---- lazy signs ---- */

static int lazy_view(const rush_value *in, rush_value *out, int flag)
{
    rush_tensor *t = rush_tensor_alias(SELF, SELF->ndim, SELF->size, SELF->stride, SELF->offset);
    if (!t) return -1;
    t->flags ^= (uint16_t)flag;
    rush_out_view(out, 0, t);
    return 0;
}
static int conj_view_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(rush_dtype_is_complex(SELF->dtype), RUSH_RUNTIME_ERROR, "_conj is for complex tensors, not %s", rush_dtype_name(SELF->dtype));
    return lazy_view(in, out, RUSH_T_CONJ);
}
static int neg_view_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    return lazy_view(in, out, RUSH_T_NEG);
}
static void conj_grad(rush_grads *s)
{
    if (s->g[0]) s->gin[0] = T("conj", V(s->g[0]));
}
static void neg_view_grad(rush_grads *s)
{
    if (s->g[0]) s->gin[0] = neg(s->g[0]);
}
static rush_op op_conj_view = {
    .schema = "_conj(Tensor(a) self) -> Tensor(a)", .method = RUSH_METHOD, .doc = "A view of complex numbers that shows their conjugates.",
    .shape = conj_view_shape, .grad = conj_grad, .flags = RUSH_VIEW,
};
static rush_op op_neg_view = {
    .schema = "_neg_view(Tensor(a) self) -> Tensor(a)", .method = RUSH_METHOD, .doc = "A view that shows the negative of its elements.",
    .shape = neg_view_shape, .grad = neg_view_grad, .flags = RUSH_VIEW,
};

static int conj_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_result(out, rush_dtype_is_complex(SELF->dtype) ? T("_conj", V(SELF)) : SELF);
}
static rush_op op_conj = {
    .schema = "conj(Tensor(a) self) -> Tensor(a)", .method = RUSH_METHOD, .doc = "The conjugate of complex tensors, as a view; real ones as they are.", .run = conj_run,
};
static rush_op op_conj_if_complex = {
    .schema = "_conj_if_complex(Tensor(a) self) -> Tensor(a)", .method = RUSH_NO_FUNCTION, .doc = "conj(), for formulas.", .run = conj_run, .flags = RUSH_HIDDEN,
};
static int resolve_conj_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_result(out, SELF->flags & RUSH_T_CONJ ? T("clone", V(SELF)) : SELF);
}
static int resolve_neg_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_result(out, SELF->flags & RUSH_T_NEG ? T("clone", V(SELF)) : SELF);
}
static rush_op op_resolve_conj = {
    .schema = "resolve_conj(Tensor(a) self) -> Tensor(a)", .method = RUSH_METHOD, .doc = "A lazily conjugated tensor in memory; others as they are.",
    .run = resolve_conj_run,
};
static rush_op op_resolve_neg = {
    .schema = "resolve_neg(Tensor(a) self) -> Tensor(a)", .method = RUSH_METHOD, .doc = "A lazily negated tensor in memory; others as they are.",
    .run = resolve_neg_run,
};

RUSH_FAMILY(copy, &op_copy_into, &op_copy, &op_clone, &op_to_copy, &op_to_dtype, &op_to_device, &op_to_layout, &op_to_other,
            &op_type_as, &op_plain_to_dtype, &op_contiguous, &op_positive, &op_conj_view, &op_neg_view, &op_conj,
            &op_conj_if_complex, &op_resolve_conj, &op_resolve_neg)
