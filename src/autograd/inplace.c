/* inplace.c - in-place changes of tensors that have a history, and of views of them.
 *
 * Changing a view changes its base. The base then gets a node that pastes: going back, the gradient of the
 * base is copied, the view's part of it goes through the operation's own derivative and is pasted in again.
 */
#include "autograd/autograd.h"
#include "autograd/room.h"
#include "op/watch.h"
#include <stdio.h>

int rush_view_barred(const rush_tensor *view, bool by_another)
{
    const char *what = by_another ? "its base or another view of its base has been modified inplace" : "is being modified inplace";
    bool inference = view->flags & RUSH_T_INFERENCE_VIEW;
    const char *mode = inference ? "inference" : "no_grad", *now = inference ? "in normal mode" : "with grad mode enabled", *why = NULL;
    const rush_node *fn = view->ag ? view->ag->fn : NULL;
    const char *name = fn ? fn->kind->name(fn) : "", *end = NULL;
    for (const char *word = name; (word = strstr(word, "Backward")); ++word) end = word;
    char head[256];
    if (view->flags & RUSH_T_MANY_VIEW)
        why = "This view is the output of a function that returns multiple views. Such functions do not allow the output views to be modified "
              "inplace. You should replace the inplace operation by an out-of-place one.";
    else if (view->flags & RUSH_T_FUNCTION_VIEW)
        why = "This view was created inside a custom Function (or because an input was returned as-is) and the autograd logic to handle "
              "view+inplace would override the custom backward associated with the custom Function, leading to incorrect gradients. This "
              "behavior is forbidden. You can fix this by cloning the output of the custom Function.";
    int n = fn ? snprintf(head, sizeof head, "Output %u of %.*s is a view", view->ag->slot, end ? (int)(end - name) : 40, name) : 0;
    if (fn && why) snprintf(head + n, sizeof head - (size_t)n, " and %s.", what);
    else snprintf(head + n, sizeof head - (size_t)n, "%s created in %s mode and %s %s.", fn ? " of a view which was" : "A view was", mode, what, now);
    if (why) return rush_fail(RUSH_RUNTIME_ERROR, "%s %s", head, why);
    return rush_fail(RUSH_RUNTIME_ERROR,
                     "%s Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both the view "
                     "and the inplace either both inside the %s block (if you don't want the inplace to be tracked) or both outside (if you want "
                     "the inplace to be tracked).",
                     head, inference ? "inference_mode" : "no_grad");
}

int rush_inplace_check(rush_tensor *self, bool with_grad)
{
    if (RUSH_LIKELY(!self->ag && !self->base && !(self->flags & RUSH_T_INFERENCE))) return 0;
    RUSH_CHECK(!(self->flags & RUSH_T_INFERENCE) || rush_now.mode & RUSH_MODE_INFERENCE, RUSH_RUNTIME_ERROR,
               "Inplace update to inference tensor outside InferenceMode is not allowed. You can make a clone to get a normal tensor "
               "before doing inplace update.");
    if (!with_grad || rush_now.mode & (RUSH_MODE_NO_GRAD | RUSH_MODE_INFERENCE)) return 0;
    const rush_tensor *base = self->base;
    if (base && self->flags & RUSH_T_APART) return rush_view_barred(self, false);
    RUSH_CHECK(!base || !rush_wants_grad(self) || (base->ag && base->ag->fn), RUSH_RUNTIME_ERROR,
               "a view of a leaf Variable that requires grad is being used in an in-place operation.");
    RUSH_CHECK(!self->ag || !self->ag->requires_grad || self->ag->fn, RUSH_RUNTIME_ERROR,
               "a leaf Variable that requires grad is being used in an in-place operation.");
    return 0;
}

/* ---- which part of its base a view shows ---- */

#define LAZY (RUSH_T_CONJ | RUSH_T_NEG)

typedef struct part {
    int ndim;
    uint16_t lazy;                 /* of LAZY, how the view differs from its base */
    bool complex;
    int64_t offset, size[RUSH_MAXDIM + 1], stride[RUSH_MAXDIM + 1]; /* of complex numbers, if base and view are complex, else of real ones */
} part;

static bool is_complex(const rush_tensor *t) { return rush_dtype_is_complex((rush_dtype)t->dtype); }

static void part_of(part *p, const rush_tensor *view, const rush_tensor *base)
{
    if (view->ag && view->ag->shown) view = view->ag->shown;
    bool real_of = !is_complex(view) && is_complex(base), pairs = is_complex(view) && !is_complex(base);
    int n = view->ndim;
    *p = (part){.ndim = n + pairs, .complex = is_complex(view), .lazy = (view->flags ^ base->flags) & LAZY};
    p->offset = pairs ? 2 * view->offset - base->offset : view->offset - (real_of ? 2 : 1) * base->offset;
    for (int d = 0; d < n; ++d) p->size[d] = view->size[d], p->stride[d] = view->stride[d] * (pairs ? 2 : 1);
    if (pairs) p->size[n] = 2, p->stride[n] = 1;
    if (real_of && base->flags & RUSH_T_CONJ) p->lazy ^= p->offset & 1 ? LAZY : RUSH_T_CONJ; /* imag of what is conjugated is negated */
}

/* That part of whole, recorded; whole is like the base, but need not start where it does. */
static rush_tensor *show(const part *p, rush_tensor *whole)
{
    bool real_of = !p->complex && is_complex(whole), pairs = p->complex && !is_complex(whole);
    uint16_t lazy = (whole->flags ^ p->lazy) & LAZY;
    rush_tensor *t = whole;
    if (real_of && t->flags & RUSH_T_CONJ) {
        t = T("_conj", V(t));
        lazy ^= p->offset & 1 ? LAZY : RUSH_T_CONJ;
    }
    if (real_of) t = t ? T("view_as_real", V(t)) : NULL;
    int64_t from = t ? t->offset : 0;
    t = t ? T("as_strided", V(t), rush_v_ints(p->size, p->ndim), rush_v_ints(p->stride, p->ndim), V(from + p->offset)) : NULL;
    if (t && pairs) t = T("view_as_complex", V(t));
    if (t && (t->flags ^ lazy) & RUSH_T_CONJ) t = T("_conj", V(t));
    if (t && (t->flags ^ lazy) & RUSH_T_NEG) t = T("_neg_view", V(t));
    return t;
}

rush_tensor *rush_view_again(const rush_tensor *view)
{
    part p;
    part_of(&p, view, view->base);
    return show(&p, view->base);
}

/* ---- the pasting node: edge 0 is the base's former history, the rest are the inner node's other edges ---- */

typedef struct paste {
    rush_node *inner; /* the operation on the view; its gradient 0 is the view's */
    int slot;
    part part;
} paste;

static const char *paste_name(const rush_node *node) { return "CopySlices"; }

static int paste_apply(rush_node *node, rush_tensor **g, rush_tensor **gin)
{
    paste *p = node->data;
    if (!g[0]) return 0;
    const rush_tensor *like = node->shape[0];
    rush_tensor *whole = rush_is_watched(g[0]) ? T("new_empty_strided", V(g[0]), rush_v_ints(like->size, like->ndim), rush_v_ints(like->stride, like->ndim))
                                               : rush_tensor_new_strided(g[0]->dtype, g[0]->device, like->ndim, like->size, like->stride);
    whole = whole ? T("copy_", V(whole), V(g[0])) : NULL;
    if (!whole) return -1;
    size_t nout = (size_t)p->inner->nout, n = nout + (size_t)p->inner->nedge;
    rush_tensor *changed = show(&p->part, whole), **inner_g = rush_scope_alloc(sizeof *inner_g * n), **inner_gin = inner_g + nout;
    if (!changed || !inner_g) return -1;
    memset(inner_g, 0, sizeof *inner_g * n);
    inner_g[p->slot] = T("clone", V(changed));
    if (rush_failed() || p->inner->kind->apply(p->inner, inner_g, inner_gin)) return -1;
    for (int i = 1; i < p->inner->nedge; ++i) gin[i] = inner_gin[i];
    if (node->edge[0].node) {
        rush_tensor *pasted = inner_gin[0] ? T("copy_", V(changed), V(inner_gin[0])) : T("zero_", V(changed));
        if (!pasted) return -1;
        gin[0] = whole;
    }
    return 0;
}

static void paste_release(rush_node *node)
{
    paste *p = node->data;
    /* In graphs of second derivatives the inner node stands for itself, too: it may outlive this one, or run later. */
    bool alone = node->refs && (!p->inner->task || p->inner->task != node->task);
    if (alone && p->inner->kind->release) p->inner->kind->release(p->inner);
}

static void paste_end(rush_node *node)
{
    paste *p = node->data;
    rush_node_drop(p->inner);
    rush_free(p);
}

static void paste_visit(rush_node *node, int (*fn)(rush_tensor *, void *), void *arg)
{
    paste *p = node->data;
    if (p->inner->kind->visit) p->inner->kind->visit(p->inner, fn, arg);
}

static const rush_node_kind paste_kind = {paste_name, paste_apply, paste_release, paste_end, paste_visit};

int rush_rebase(rush_tensor *self, rush_node *node, int slot)
{
    rush_tensor *base = self->base;
    if (!base) {
        rush_node_output(node, slot, self);
        if (rush_failed()) return -1;
        self->ag->requires_grad = false;
        return 0;
    }
    paste *p = rush_malloc(sizeof *p);
    rush_node *outer = p ? rush_node_new(&paste_kind, RUSH_MAX(node->nedge, 1), 1) : NULL;
    if (!outer) return rush_free(p), -1;
    p->inner = node;
    p->slot = slot;
    part_of(&p->part, self, base);
    outer->data = p;
    rush_node_keep(node);
    outer->shape[0] = rush_keep(rush_tensor_shape_only(base));
    if (rush_wants_grad(base)) outer->edge[0] = rush_grad_edge(base);
    for (int i = 1; i < node->nedge; ++i) {
        outer->edge[i] = node->edge[i];
        rush_node_keep(node->edge[i].node);
    }
    /* The inner node must give gradient 0 whenever the base wants one, also when the view alone had no history. */
    if (node->nedge && !node->edge[0].node && outer->edge[0].node) {
        node->edge[0] = outer->edge[0];
        rush_node_keep(node->edge[0].node);
    }
    rush_node_output(outer, 0, base);
    rush_node_drop(outer);
    if (rush_failed()) return -1;
    base->ag->requires_grad = false;
    if (self->ag) self->ag->view_version = rush_version_of(self) - 1; /* stale: made anew when asked for */
    if (self->ag && self->ag->retain_hook) rush_grad_fn(self);
    return 0;
}
