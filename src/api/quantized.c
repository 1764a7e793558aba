/* quantized.c - where quantized tensors leave the road: they have functions of their own (RUSH_QUANTIZED_RULES).
 *
 * Nothing is recorded, no kernel of numbers runs. A composite runs piece by piece; any other operation without a function is
 * an error, so no kernel can take the integers for what they stand for.
 */
#include "api/api.h"
#include "tensor/quantized.h"

static int give(rush_tensor *to, rush_tensor *from, bool inplace)
{
    if (to == from) return 0;
    if (!rush_same_sizes(to, from)) {
        RUSH_CHECK(!inplace, RUSH_RUNTIME_ERROR, "output with shape %s doesn't match the broadcast shape %s", rush_shape_of(to), rush_shape_of(from));
        if (rush_tensor_resize(to, from->ndim, from->size)) return -1;
    }
    return T("copy_", V(to), V(from)) ? 0 : -1;
}

static int give_all(rush_form form, const rush_op *op, rush_value *out, const rush_value *fresh)
{
    for (int i = 0; i < op->nout; ++i) {
        if (out[i].kind != RUSH_V_TENSOR) out[i] = fresh[i];
        else if (fresh[i].kind == RUSH_V_TENSOR && give(out[i].t, fresh[i].t, form == RUSH_FORM_INPLACE)) return -1;
    }
    return 0;
}

int rush_quantized_call(rush_form form, const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value fresh[RUSH_MAXOUT] = {0};
    rush_rule rule = rush_quantized_rule_of(op), run = rule ? rule : op->run;
    RUSH_CHECK(run, RUSH_NOT_IMPLEMENTED, "Could not run 'aten::%s' with arguments from the 'QuantizedCPU' backend: the operation is not there for quantized tensors.", op->name);
    bool changes = op->nargs && op->args[0].written && !op->args[0].list && in[0].kind == RUSH_V_TENSOR;
    if (form == RUSH_FORM_INPLACE || changes) {
        RUSH_CHECK(in[0].kind == RUSH_V_TENSOR, RUSH_TYPE_ERROR, "the operation has no in-place form");
        if (rush_inplace_check(in[0].t, false)) return -1;
    }
    uint32_t mode = rush_now.mode;
    rush_now.mode |= RUSH_MODE_NO_GRAD;
    if (form == RUSH_FORM_INPLACE) out[0] = in[0];
    int failed = run(op, in, form == RUSH_FORM_CALL ? out : fresh) || rush_failed();
    if (!failed && form != RUSH_FORM_CALL) failed = give_all(form, op, out, fresh);
    rush_now.mode = mode;
    if (failed) return -1;
    if (form == RUSH_FORM_OUT)
        for (int i = 0; i < op->nout; ++i)
            if (out[i].kind == RUSH_V_TENSOR) rush_version_bump(out[i].t);
    if (form == RUSH_FORM_INPLACE || changes) {
        rush_version_bump(in[0].t);
        if (op->nout) out[0] = rush_v_tensor(in[0].t);
    }
    return 0;
}
