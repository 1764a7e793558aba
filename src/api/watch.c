/* watch.c - the step of the road at which somebody else does an operation's work: op/watch.h. */
#include "api/api.h"
#include "op/watch.h"

rush_watch_fn rush_watcher, rush_taken_above;
bool rush_watch_all;

/* A view's base was found where nothing is recorded; it is the caller who knows whether that is so. */
static void view_again(rush_tensor *view, const rush_tensor *of)
{
    if (view && view->base && !(of->flags & RUSH_T_APART)) view->flags &= ~RUSH_T_NO_GRAD_VIEW;
}

/* Is it an argument as it is, or does it come with a history? Autograd would take it for its own result. */
static bool has_history(const rush_tensor *t, const rush_value *in, const rush_op *op)
{
    for (int k = 0; t && k < op->nargs; ++k)
        if (T_(in[k]) == t) return true;
    return t && t->ag && (t->ag->fn || t->ag->requires_grad);
}

static int take_results(const rush_op *op, const rush_value *in, rush_value *out, bool recorded, bool wants)
{
    if (op->nout && op->nargs && op->args[0].written && !op->args[0].list && in[0].kind == RUSH_V_TENSOR) out[0] = in[0];
    const rush_tensor *of = op->flags & RUSH_VIEW && recorded ? T_(in[0]) : NULL;
    for (int i = 0; i < op->nout; ++i) {
        rush_tensor *t = T_(out[i]);
        if (wants && recorded && has_history(t, in, op) && !(i == 0 && t == T_(in[0]) && op->args[0].written)) { /* a history of its own: an argument, as it is */
            if (!(t = t->layout == RUSH_ELSEWHERE ? T("detach", V(t)) : rush_tensor_detach(t))) return -1;
            out[i] = rush_v_tensor(t);
        }
        if (of) view_again(t, of);
        for (uint32_t k = 0; of && out[i].kind == RUSH_V_TENSORS && k < out[i].n; ++k) view_again(out[i].tensors[k], of);
    }
    return 0;
}

int rush_watched(rush_form form, const rush_op *op, const rush_value *in, rush_value *out, bool recorded, bool wants)
{
    rush_value given[RUSH_MAXOUT];
    const uint32_t mode = rush_now.mode, *outside = rush_now.outside;
    if (!rush_watcher) return 1;
    rush_now.outside = &mode;
    memcpy(given, out, sizeof *out * op->nout);
    if (recorded) rush_now.mode |= RUSH_MODE_NO_GRAD;
    rush_now.mode &= ~(RUSH_MODE_INPLACE | RUSH_MODE_READ_TOO | RUSH_MODE_AUTOCAST);
    int r = rush_watcher(form, op, in, out);
    rush_now.mode = mode;
    rush_now.outside = outside;
    if (r) return r;
    if (rush_failed()) return -1;
    if (form == RUSH_FORM_CALL) return take_results(op, in, out, recorded, wants);
    for (int i = 0; i < op->nout; ++i)
        if (given[i].kind == RUSH_V_TENSOR) out[i] = given[i];
    return 0;
}
