/* composite.c - operations that are functions over other operations. */
#include "api/api.h"

/* What an operation with a derivative of its own made last may be a view of what it made before, which nobody else sees: its
 * result is no view, and may be changed in place. */
static void own(const rush_op *op, const rush_value *in, rush_tensor *t)
{
    for (int i = 0; i < op->nargs; ++i) {
        if (in[i].kind == RUSH_V_TENSOR && in[i].t->storage == t->storage) return;
        for (uint32_t k = 0; in[i].kind == RUSH_V_TENSORS && k < in[i].n; ++k)
            if (in[i].tensors[k] && in[i].tensors[k]->storage == t->storage) return;
    }
    rush_drop(t->base);
    t->base = NULL;
    t->flags &= (uint16_t)~RUSH_T_APART;
}

int rush_composite_run(const rush_op *op, rush_rule run, const rush_value *in, rush_value *out, bool recorded)
{
    uint32_t mode = rush_now.mode;
    if (!recorded) rush_now.mode |= RUSH_MODE_NO_GRAD;
    int failed = run(op, in, out);
    rush_now.mode = mode;
    if (failed || rush_failed()) return -1;
    for (int i = 0; i < op->nout && !recorded && op->grad; ++i)
        if (out[i].kind == RUSH_V_TENSOR && out[i].t->base) own(op, in, out[i].t);
    return 0;
}

/* A composite without a derivative of its own records itself piece by piece. In place, its result, which has a history,
 * is copied over argument 0; what its pieces save must outlive that, so with a history they get a copy. */
RUSH_HOT int rush_composite_opened(rush_form form, const rush_op *op, rush_rule run, const rush_value *in, rush_value *out, bool wants)
{
    rush_value values[64];
    bool inplace = form == RUSH_FORM_INPLACE;
    uint64_t since = wants && op->node && !inplace ? rush_node_clock() : 0;
    if (inplace && wants) {
        memcpy(values, in, sizeof *in * op->nargs);
        rush_tensor *kept = T("clone", in[0]);
        if (!kept) return -1;
        values[0] = rush_v_tensor(kept);
    }
    if (rush_composite_run(op, run, inplace && wants ? values : in, out, !(op->flags & RUSH_NO_GRAD))) return -1;
    if (since) rush_record_name(op, out, since);
    if (!inplace) return 0;
    if (out[0].kind != RUSH_V_TENSOR || rush_given_fits(in[0].t, out[0].t)) return -1;
    rush_tensor *self = in[0].t, *result = out[0].t, *changed = self;
    if (wants && result == values[0].t) return rush_result(out, self); /* nothing was done: dropout with probability 0 */
    if (result != self && !self->base && self->dtype == result->dtype && rush_wants_grad(result)) { /* its history is that of the result */
        if (rush_copy_into(self, result)) return -1;
        rush_version_bump(self);
        rush_same_history(self, result);
    } else if (result != self) {
        changed = T("copy_", V(self), V(result));
    }
    return changed && !rush_failed() ? rush_result(out, changed) : -1;
}
