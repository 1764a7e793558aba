/* infer.c - what a call would return, without making the call: shapes, dtypes, strides; and what it would do besides.
 *
 * A rule for shapes is a rule for results of any device, so the call is made on the meta device, where nothing is allocated,
 * computed, drawn or written; composites are run there as well.
 */
#include "api/survey.h"

static const rush_device meta = {RUSH_META, -1};

static rush_tensor *without_data(const rush_tensor *t)
{
    int64_t extent = 0; /* elements from the first of the storage to the last */
    RUSH_CHECK_NULL(!t->layout, RUSH_NOT_IMPLEMENTED, "shapes are inferred of strided tensors only");
    for (int d = 0; d < t->ndim && t->numel; ++d) extent += (t->size[d] - 1) * t->stride[d];
    rush_tensor *all = rush_tensor_new(t->dtype, meta, 1, (int64_t[]){t->numel ? t->offset + extent + 1 : 0});
    return all ? rush_tensor_alias(all, t->ndim, t->size, t->stride, t->offset) : NULL;
}

static int argument(rush_value *to, const rush_value *from, rush_device *device)
{
    *to = *from;
    uint32_t n = from->kind == RUSH_V_TENSORS ? from->n : from->kind == RUSH_V_TENSOR;
    rush_tensor **list = from->kind == RUSH_V_TENSORS ? rush_scope_alloc(n * sizeof *list) : NULL;
    if (from->kind == RUSH_V_TENSORS && !(to->tensors = list)) return -1;
    for (uint32_t k = 0; k < n; ++k) {
        const rush_tensor *t = list ? from->tensors[k] : from->t;
        rush_tensor *made = t ? without_data(t) : NULL;
        if (t && !made) return -1;
        if (t && device->type == RUSH_META) *device = t->device;
        if (list) list[k] = made;
        else to->t = made;
    }
    return 0;
}

/* The geometry of a result alone, on the device where it would be. */
static rush_tensor *geometry(const rush_tensor *t, rush_device device)
{
    rush_tensor *r = t ? rush_tensor_shape_only(t) : NULL;
    if (r) r->device = device;
    return r;
}

int rush_infer(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value args[64];
    rush_device device = meta;
    if (rush_failed()) return -1;
    RUSH_CHECK(op && (in || !op->nargs) && (out || !op->nout), RUSH_TYPE_ERROR, op ? "a call without values or without room for results" : "there is no such operation");
    survey seen = {0};
    if (survey_args(&seen, op, in) < 0) return -1;
    for (int i = 0; i < op->nargs; ++i)
        if (argument(&args[i], &in[i], &device)) return -1;
    int asked = rush_op_arg(op, "device");
    if (asked >= 0) {
        if (in[asked].kind == RUSH_V_DEVICE) device = in[asked].device;
        else if (device.type == RUSH_META) device = (rush_device){RUSH_CPU, -1};
        args[asked] = (rush_value){.kind = RUSH_V_DEVICE, .device = meta};
    }
    uint32_t mode = rush_now.mode;
    rush_now.mode |= RUSH_MODE_NO_GRAD | RUSH_MODE_UNWATCHED;
    rush_now.mode &= ~(RUSH_MODE_PROFILE | RUSH_MODE_AUTOCAST);
    int failed = rush_call(op, args, out);
    rush_now.mode = mode;
    for (int i = 0; !failed && i < op->nout; ++i) {
        if (out[i].kind == RUSH_V_TENSOR) failed = (out[i].t = geometry(out[i].t, device)) ? 0 : -1;
        for (uint32_t k = 0; out[i].kind == RUSH_V_TENSORS && !failed && k < out[i].n; ++k)
            failed = (out[i].tensors[k] = geometry(out[i].tensors[k], device)) ? 0 : -1;
    }
    return failed ? -1 : 0;
}

unsigned rush_op_effects(const rush_op *op)
{
    if (!op) return rush_fail(RUSH_TYPE_ERROR, "there is no such operation"), 0;
    unsigned effects = op->flags & RUSH_IO ? RUSH_EFFECT_IO : 0;
    bool draws = op->flags & RUSH_RANDOM;
    for (int i = 0; i < op->nargs; ++i) {
        if (op->args[i].written) effects |= RUSH_EFFECT_WRITES;
        draws |= op->args[i].type == RUSH_A_GENERATOR;
    }
    if (draws || (op->flags & RUSH_SIDE_EFFECT && !effects)) effects |= RUSH_EFFECT_RANDOM;
    return effects;
}
