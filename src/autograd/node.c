/* node.c - nodes: one block each, counted, freed without recursion however long the graph is. */
#include "autograd/room.h"
#include "tensor/sparse.h"
#include "op/watch.h"

static atomic_ullong next_seq = 1;

/* The arrays lie behind the node: edges, shapes of results, saved tensors, then whatever the caller wants. */
RUSH_HOT rush_node *rush_node_new_room(const rush_node_kind *kind, int nedge, int nout, int nsaved, size_t extra)
{
    size_t bytes = sizeof(rush_node) + (size_t)nedge * sizeof(rush_edge) + (size_t)nout * sizeof(rush_tensor *) + (size_t)nsaved * sizeof(rush_saved) + extra;
    rush_node *node = rush_small_alloc(bytes);
    if (!node) return NULL;
    memset(node, 0, bytes);
    atomic_init(&node->refs, 1);
    node->bytes = bytes;
    node->kind = kind;
    node->nedge = nedge;
    node->nout = nout;
    node->nsaved = (uint32_t)nsaved;
    node->later = rush_now.mode & RUSH_MODE_LATER;
    node->seq = atomic_fetch_add_explicit(&next_seq, 1, memory_order_relaxed);
    node->edge = (rush_edge *)(node + 1);
    node->shape = (rush_tensor **)(node->edge + nedge);
    node->saved = (rush_saved *)(node->shape + nout);
    return node;
}

rush_node *rush_node_new(const rush_node_kind *kind, int nedge, int nout)
{
    return rush_node_new_room(kind, nedge, nout, 0, 0);
}

uint64_t rush_node_clock(void)
{
    return atomic_load_explicit(&next_seq, memory_order_relaxed);
}

void rush_node_keep(rush_node *node)
{
    if (node) atomic_fetch_add_explicit(&node->refs, 1, memory_order_relaxed);
}

void rush_node_hook_drop(rush_node_hook *hook)
{
    if (atomic_fetch_sub(&hook->held, 1) != 1 || !hook->removed) return;
    if (hook->free) hook->free(hook->arg);
    rush_free(hook);
}

static void unlink_hook(rush_node_hook **list)
{
    rush_node_hook *hook = *list;
    atomic_fetch_add(&hook->held, 1);
    *list = hook->next;
    hook->removed = true;
    rush_node_hook_drop(hook);
}

static void drop_hooks(rush_node_hook **list)
{
    while (*list) unlink_hook(list);
}

static void end(rush_node *node)
{
    if (node->kind->release) node->kind->release(node);
    if (node->kind->end) node->kind->end(node);
    for (int i = 0; i < node->nout; ++i) rush_drop(node->shape[i]);
    for (int i = 0; i < node->nedge; ++i) rush_node_drop(node->edge[i].node);
    drop_hooks(&node->hooks);
    rush_free(node->made_at);
    rush_small_free(node, node->bytes);
}

/* Who holds the only reference need not lock, except that accumulators can be found without having one. */
static bool was_last(rush_node *node)
{
    if (node->kind == &rush_accumulate_kind || atomic_load_explicit(&node->refs, memory_order_acquire) != 1)
        return atomic_fetch_sub_explicit(&node->refs, 1, memory_order_acq_rel) == 1;
    atomic_store_explicit(&node->refs, 0, memory_order_relaxed);
    return true;
}

RUSH_HOT void rush_node_drop(rush_node *node)
{
    /* Ending a node drops its neighbours; they wait in a list (linked through `task`) for the outermost call. */
    static _Thread_local rush_node *waiting RUSH_QUICK_TLS;
    static _Thread_local bool draining RUSH_QUICK_TLS;
    if (!node || !was_last(node)) return;
    node->task = waiting;
    waiting = node;
    if (draining) return;
    draining = true;
    while (waiting) {
        rush_node *next = waiting;
        waiting = next->task;
        end(next);
    }
    draining = false;
}

/* ---- hooks ---- */

static atomic_ullong next_hook = 1;
static int retain(void *arg, rush_node *node, rush_tensor **g, int ng, rush_tensor **gin, int ngin);

static uint64_t append(rush_node_hook **list, rush_node_hook *hook)
{
    hook->id = atomic_fetch_add(&next_hook, 1);
    while (*list && ((*list)->call != retain || hook->call == retain)) list = &(*list)->next; /* retain_grad sees what the others leave */
    hook->next = *list;
    *list = hook;
    return hook->id;
}

uint64_t rush_node_hook_add(rush_node *node, rush_node_hook *hook)
{
    return append(&node->hooks, hook);
}

void rush_node_hook_remove(rush_node_hook **list, uint64_t id)
{
    for (; *list; list = &(*list)->next)
        if ((*list)->id == id) {
            unlink_hook(list);
            return;
        }
}

uint64_t rush_tensor_hook(rush_tensor *t, rush_node_hook *hook)
{
    rush_autograd *ag = rush_autograd_of(t);
    if (!ag) return 0;
    rush_node *fn = rush_grad_fn(t);
    if (rush_failed()) return 0;
    hook->pre = true;
    hook->slot = fn ? (int)ag->slot : 0;
    return append(fn ? &fn->hooks : &ag->hooks, hook);
}

/* ---- a tensor's part ---- */

RUSH_HOT rush_autograd *rush_autograd_of(rush_tensor *t)
{
    if (t->ag) return t->ag;
    rush_autograd *ag = rush_small_alloc(sizeof *ag);
    if (!ag) return NULL;
    memset(ag, 0, sizeof *ag);
    if (t->base) ag->view_version = rush_version_of(t) - (t->base->ag && t->base->ag->fn); /* a base with a history has one to give */
    return t->ag = ag;
}

int rush_grad_dtype(const rush_tensor *t)
{
    int d = t->ag ? t->ag->grad_dtype : 0;
    return d == RUSH_GRAD_ANY ? -1 : d ? d - 1 : (int)t->dtype;
}

RUSH_HOT static void free_autograd(rush_autograd *ag)
{
    if (ag->fn && ag->retain_hook) rush_node_hook_remove(&ag->fn->hooks, ag->retain_hook);
    rush_node *fn = ag->fn;
    rush_tensor *grad = ag->grad, *shown = ag->shown;
    drop_hooks(&ag->hooks);
    drop_hooks(&ag->post_accumulate);
    rush_small_free(ag, sizeof *ag);
    rush_drop(grad);
    rush_drop(shown);
    rush_node_drop(fn);
}

__attribute__((constructor)) static void install(void)
{
    rush_autograd_free = free_autograd;
}

RUSH_HOT void rush_node_output(rush_node *node, int i, rush_tensor *t)
{
    rush_autograd *ag = rush_autograd_of(t);
    if (!ag) return;
    rush_node *old = ag->fn;
    bool retains = old && ag->retain_hook; /* that goes on with what the tensor becomes */
    if (retains) rush_node_hook_remove(&old->hooks, ag->retain_hook), ag->retain_hook = 0;
    rush_node_keep(node);
    ag->fn = node;
    ag->slot = (uint32_t)i;
    ag->view_version = rush_version_of(t);
    if (retains) rush_retain_grad(t);
    rush_node_drop(old);
}

rush_tensor *rush_node_result(rush_node *node, int i)
{
    if (node->kind == &rush_accumulate_kind) return node->data;
    RUSH_CHECK_NULL(i >= 0 && i < node->nout && node->shape[i], RUSH_VALUE_ERROR, "%s has no result %d", node->kind->name(node), i);
    rush_tensor *t = rush_tensor_shape_only(node->shape[i]);
    if (t) rush_node_output(node, i, t);
    return t;
}

static void leave_node(rush_tensor *t)
{
    rush_autograd *ag = t->ag;
    rush_node *old = ag->fn;
    if (ag->retain_hook) rush_node_hook_remove(&old->hooks, ag->retain_hook), ag->retain_hook = 0;
    ag->fn = NULL;
    ag->view_version = rush_version_of(t);
    rush_node_drop(old);
}

/* ---- leaves ---- */

rush_tensor *rush_grad_sum(rush_tensor *a, rush_tensor *b)
{
    if (a->layout && !b->layout) return T("add.Tensor", V(b), V(a)); /* add() takes the dense one first */
    return T("add.Tensor", V(a), V(b));
}

static const char *accumulate_name(const rush_node *node) { return "AccumulateGrad"; }

static bool sole_values(const rush_tensor *v) { return v->refs == 1 && v->storage->refs == 1 && rush_contiguous(v); }

/* Under no_grad, too, a view keeps what it was made of: where nobody else does, it becomes a tensor of its own. */
bool rush_alone(rush_tensor *t)
{
    rush_tensor *base = t->base;
    if (t->refs != 1 || t->py || !t->storage || t->storage->refs != (base ? 2 : 1) || !(t->flags & RUSH_T_DENSE)) return false;
    if (!base) return true;
    if (t->ag || base->refs != 1 || base->base || base->py || base->ag) return false;
    t->flags = (uint16_t)(t->flags & ~RUSH_T_APART);
    t->base = NULL;
    rush_drop(base);
    return true;
}

static bool sole_owner(rush_tensor *g)
{
    if (g->layout == RUSH_ELSEWHERE) return g->refs == 1 && (!g->py || g->flags & RUSH_T_PY_OWNED);
    if (g->layout) return g->parts && g->refs == 1 && !g->py && sole_values(g->parts->values);
    return rush_alone(g);
}

/* A leaf's gradient lies in memory as the leaf does, or contiguous where the leaf has gaps: who walks over both, as optimizers do, meets
 * them in one order. */
static bool lies_as(const rush_tensor *g, const rush_tensor *leaf)
{
    if (!memcmp(g->stride, leaf->stride, sizeof *leaf->stride * leaf->ndim)) return true;
    if (!(leaf->flags & RUSH_T_DENSE)) return rush_contiguous(g);
    for (int d = 0; d < leaf->ndim; ++d)
        if (leaf->size[d] != 1 && g->stride[d] != leaf->stride[d]) return leaf->numel == 0;
    return true;
}

static int accumulate(rush_node *node, rush_tensor **g, rush_tensor **gin)
{
    rush_tensor *leaf = node->data;
    rush_autograd *ag = rush_autograd_of(leaf);
    if (!ag) return -1;
    if (!g[0]) return 0;
    bool graph = !(rush_now.mode & RUSH_MODE_NO_GRAD);
    rush_tensor *next;
    if (!ag->grad) {
        bool watched = rush_is_watched(g[0]), keep = sole_owner(g[0]) && (g[0]->layout || lies_as(g[0], leaf));
        if (keep) next = watched ? T("detach", V(g[0])) : g[0];
        else next = g[0]->layout == RUSH_STRIDED && !watched && !(graph && lies_as(g[0], leaf)) ? NULL : T("clone", V(g[0]));
        if (!next && !rush_failed()) {
            const bool dense = leaf->flags & RUSH_T_DENSE;
            next = rush_tensor_new_like(dense ? leaf : g[0], g[0]->dtype, g[0]->device, dense ? RUSH_PRESERVE : RUSH_CONTIGUOUS);
            if (next && graph) next = T("copy_", V(next), V(g[0]));
            else if (next && rush_copy_into(next, g[0])) next = NULL;
        }
        if (next && next->layout == RUSH_SPARSE_COO) next->parts->coalesced = rush_nnz(next) < 2; /* as PyTorch's .grad */
    } else if (!graph && (ag->grad->layout == RUSH_STRIDED || (ag->grad->layout == RUSH_SPARSE_COO && g[0]->layout == RUSH_SPARSE_COO)) && !rush_wants_grad(ag->grad)) {
        return T_INPLACE("add.Tensor", V(ag->grad), V(g[0])) ? 0 : -1;
    } else {
        next = rush_grad_sum(ag->grad, g[0]);
    }
    if (!next) return -1;
    rush_tensor *old = ag->grad;
    ag->grad = rush_keep(next);
    rush_drop(old);
    return 0;
}

static void accumulate_end(rush_node *node)
{
    rush_tensor *leaf = node->data;
    rush_lock(RUSH_LOCK_ACCUMULATORS);
    if (leaf->ag && leaf->ag->accumulator == node) leaf->ag->accumulator = NULL;
    rush_unlock(RUSH_LOCK_ACCUMULATORS);
    rush_drop(leaf);
}

static void accumulate_visit(rush_node *node, int (*fn)(rush_tensor *, void *), void *arg)
{
    fn(node->data, arg);
}

const rush_node_kind rush_accumulate_kind = {accumulate_name, accumulate, NULL, accumulate_end, accumulate_visit};

static rush_node *accumulator_of(rush_tensor *leaf)
{
    rush_autograd *ag = rush_autograd_of(leaf);
    if (!ag) return NULL;
    rush_lock(RUSH_LOCK_ACCUMULATORS);
    rush_node *node = ag->accumulator;
    if (node) {
        /* It may be ending in another thread: a count of zero is not revived. */
        int refs = node->refs;
        while (refs > 0 && !atomic_compare_exchange_weak(&node->refs, &refs, refs + 1)) {}
        if (refs == 0) node = NULL;
    }
    if (!node && (node = rush_node_new(&rush_accumulate_kind, 0, 1))) {
        node->seq = UINT64_MAX;
        node->data = rush_keep(leaf);
        ag->accumulator = node;
    }
    rush_unlock(RUSH_LOCK_ACCUMULATORS);
    return node;
}

static rush_node *current(rush_tensor *t);

RUSH_HOT rush_edge rush_grad_edge(rush_tensor *t)
{
    current(t); /* its own, from now on */
    return rush_grad_edge_had(t);
}

RUSH_HOT rush_edge rush_grad_edge_had(rush_tensor *t)
{
    rush_node *fn = t->ag ? t->ag->fn : NULL;
    if (fn) {
        rush_node_keep(fn);
        return (rush_edge){fn, t->ag->slot};
    }
    if (!t->ag || !t->ag->requires_grad) return (rush_edge){NULL, 0};
    return (rush_edge){accumulator_of(t), 0};
}

/* ---- what the public header and rush_call ask ---- */

static bool wants(const rush_autograd *ag) { return ag && (ag->requires_grad || ag->fn); }

/* A view wants one with its base, even when nothing goes back to that from it. */
RUSH_HOT bool rush_wants_grad(const rush_tensor *t)
{
    return wants(t->ag) || (t->base && wants(t->base->ag));
}

/* Was the base of a view, or another view of it, changed in place since the view got its history? */
static bool stale(const rush_tensor *t)
{
    if (!t->base || !(wants(t->base->ag) || (t->ag && t->ag->fn))) return false;
    return t->ag ? t->ag->view_version != rush_version_of(t) : t->base->ag->fn != NULL;
}

bool rush_any_wants_grad(const rush_op *op, const rush_value *in)
{
    for (int i = 0; i < op->nargs; ++i) {
        if (in[i].kind == RUSH_V_TENSOR && rush_wants_grad(in[i].t)) return true;
        for (uint32_t k = 0; in[i].kind == RUSH_V_TENSORS && k < in[i].n; ++k)
            if (in[i].tensors[k] && rush_wants_grad(in[i].tensors[k])) return true;
    }
    return false;
}

RUSH_HOT static rush_node *current(rush_tensor *t)
{
    if (stale(t)) { /* then it is now a view of what the base is now */
        if (t->flags & RUSH_T_APART) return rush_view_barred(t, true), NULL;
        uint32_t mode = rush_now.mode;
        const rush_op *op = rush_now.op;
        rush_now.mode &= RUSH_MODE_ANOMALY;
        size_t mark = rush_scope_open();
        rush_tensor *again = rush_view_again(t);
        if (again && again->ag && again->ag->fn) rush_node_output(again->ag->fn, (int)again->ag->slot, t);
        else if (again && t->ag && t->ag->fn) leave_node(t); /* a base without a history has none to give */
        rush_scope_close(mark);
        rush_now.mode = mode;
        rush_now.op = op;
    }
    return t->ag ? t->ag->fn : NULL;
}

rush_node *rush_grad_fn(rush_tensor *t) { return rush_tensor_given(t) ? current(t) : NULL; }

RUSH_HOT static __attribute__((noinline)) void link_unseen(rush_tensor *view, rush_tensor *of, rush_tensor *base, unsigned how)
{
    if (rush_now.mode & RUSH_MODE_INFERENCE) how = RUSH_T_INFERENCE_VIEW;
    else if (rush_now.mode & RUSH_MODE_NO_GRAD) how = RUSH_T_NO_GRAD_VIEW;
    bool unseen = how & (RUSH_T_INFERENCE_VIEW | RUSH_T_NO_GRAD_VIEW);
    view->flags |= (uint16_t)how;
    view->base = rush_keep(base);
    if (unseen && (wants(base->ag) || wants(of->ag)) && rush_autograd_of(view)) view->ag->view_version = rush_version_of(view);
}

static inline void link(rush_tensor *view, rush_tensor *of, unsigned how)
{
    if (!view || view == of || view->base || view->storage != of->storage || of->flags & RUSH_T_INFERENCE) return;
    rush_tensor *base = of->base ? of->base : of;
    if (!how) how = of->flags & RUSH_T_APART;
    if (RUSH_UNLIKELY(how | (rush_now.mode & (RUSH_MODE_INFERENCE | RUSH_MODE_NO_GRAD)))) link_unseen(view, of, base, how);
    else view->base = rush_keep(base);
}

void rush_view_link(rush_tensor *view, rush_tensor *of, unsigned how) { link(view, of, how); }

static bool lies_like(const rush_tensor *t, const rush_tensor *other)
{
    if (t->ndim != other->ndim || t->offset != other->offset) return false;
    for (int d = 0; d < t->ndim; ++d)
        if (t->size[d] != other->size[d] || (t->size[d] > 1 && t->stride[d] != other->stride[d])) return false;
    return true;
}

/* Which part of its base a view shows that somebody else made: its strides and offset may be anything, so the operation is run once more, on meta. */
static void show_parts(const rush_op *op, const rush_value *in, rush_value *made)
{
    const rush_tensor *of = in[0].t;
    rush_tensor *like = of->ag ? of->ag->shown : NULL;
    rush_value room[64];
    uint32_t mode = rush_now.mode;
    rush_now.mode = (mode & ~RUSH_MODE_WATCH) | RUSH_MODE_UNWATCHED | RUSH_MODE_NO_GRAD;
    if (!like) {
        like = T("empty_strided", rush_v_ints(of->size, of->ndim), rush_v_ints(of->stride, of->ndim), rush_v_dtype(of->dtype), RUSH_NONE,
                 ((rush_value){.kind = RUSH_V_DEVICE, .device = {RUSH_META, -1}}));
        if (like) like->offset = of->offset;
    }
    memcpy(room, in, sizeof *room * op->nargs);
    room[0] = V(like);
    if (rush_call(op, room, made)) {
        rush_error_clear();
        memset(made, 0, sizeof *made * RUSH_MAXOUT);
    }
    rush_now.mode = mode;
}

static void link_elsewhere(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *of = in[0].t;
    rush_value made[RUSH_MAXOUT] = {0};
    bool record = !(op->flags & RUSH_NO_GRAD);
    size_t mark = rush_scope_open();
    if (record) show_parts(op, in, made);
    for (int i = 0; i < op->nout; ++i) {
        bool list = out[i].kind == RUSH_V_TENSORS;
        for (uint32_t k = 0; k < (list ? out[i].n : 1); ++k) {
            rush_tensor *view = list ? out[i].tensors[k] : T_(out[i]), *part = !list ? T_(made[i]) : made[i].kind == RUSH_V_TENSORS && k < made[i].n ? made[i].tensors[k] : NULL;
            if (!view || view == of || view->layout != RUSH_ELSEWHERE) continue;
            rush_version_share(view, of); /* they count changes together */
            if (!record || view->base) continue;
            link(view, of, list ? RUSH_T_MANY_VIEW : part ? 0 : RUSH_T_FUNCTION_VIEW);
            if (part && view->base && !lies_like(view, part) && rush_autograd_of(view)) view->ag->shown = rush_keep(part);
        }
    }
    rush_scope_close(mark);
}

RUSH_HOT bool rush_view_links(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (in[0].kind != RUSH_V_TENSOR) return true;
    if (RUSH_UNLIKELY(in[0].t->layout)) {
        if (in[0].t->layout == RUSH_ELSEWHERE) link_elsewhere(op, in, out);
        return true;
    }
    if (RUSH_UNLIKELY(in[0].t->flags & RUSH_T_INFERENCE)) return false;
    if (op->flags & RUSH_NO_GRAD) return true;
    for (int i = 0; i < op->nout; ++i) {
        if (out[i].kind == RUSH_V_TENSOR) link(out[i].t, in[0].t, 0);
        else if (out[i].kind == RUSH_V_TENSORS)
            for (uint32_t k = 0; k < out[i].n; ++k) link(out[i].tensors[k], in[0].t, RUSH_T_MANY_VIEW);
    }
    return true;
}

bool rush_requires_grad(const rush_tensor *t) { return rush_tensor_given(t) && rush_wants_grad(t); }
bool rush_is_leaf(const rush_tensor *t) { return rush_tensor_given(t) && !(t->ag && t->ag->fn); }

rush_tensor *rush_requires_grad_set(rush_tensor *t, bool on)
{
    if (!rush_tensor_given(t)) return NULL;
    if (!on && !t->ag) return t;
    RUSH_CHECK_NULL(!on || rush_dtypes[t->dtype].category >= 2, RUSH_RUNTIME_ERROR, "only Tensors of floating point dtype can require gradients");
    rush_autograd *ag = rush_autograd_of(t);
    if (!ag) return NULL;
    RUSH_CHECK_NULL(on || !rush_grad_fn(t), RUSH_RUNTIME_ERROR,
                    "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a subgraph "
                    "that doesn't require differentiation use var_no_grad = var.detach().");
    if (rush_failed()) return NULL;
    if (!ag->fn) ag->requires_grad = on;
    return t;
}

rush_tensor *rush_grad(const rush_tensor *t) { return rush_tensor_given(t) && t->ag ? t->ag->grad : NULL; }

int rush_grad_set(rush_tensor *t, rush_tensor *grad)
{
    rush_autograd *ag = rush_tensor_given(t) ? rush_autograd_of(t) : NULL;
    if (!ag || (grad && !rush_tensor_given(grad))) return -1;
    RUSH_CHECK(!grad || rush_same_sizes(t, grad), RUSH_RUNTIME_ERROR, "assigned grad has data of a different size");
    rush_tensor *old = ag->grad;
    ag->grad = rush_keep(grad);
    rush_drop(old);
    return 0;
}

bool rush_grad_enabled(void) { return !(rush_now.mode & RUSH_MODE_NO_GRAD); }

bool rush_grad_enabled_set(bool on)
{
    bool was = rush_grad_enabled();
    if (on) rush_now.mode &= ~RUSH_MODE_NO_GRAD;
    else rush_now.mode |= RUSH_MODE_NO_GRAD;
    return was;
}

static int retain(void *arg, rush_node *node, rush_tensor **g, int ng, rush_tensor **gin, int ngin)
{
    rush_tensor *t = arg;
    if (!*g || !t->ag) return 0;
    rush_tensor *sum = t->ag->grad ? rush_grad_sum(t->ag->grad, *g) : T("clone", V(*g));
    return sum ? rush_grad_set(t, sum) : -1;
}

int rush_retain_grad(rush_tensor *t)
{
    if (rush_failed() || !rush_tensor_given(t)) return -1;
    RUSH_CHECK(rush_wants_grad(t), RUSH_RUNTIME_ERROR, "can't retain_grad on Tensor that has requires_grad=False");
    rush_node *fn = rush_grad_fn(t);
    if (!fn || t->ag->retain_hook) return rush_failed() ? -1 : 0;
    rush_node_hook *hook = rush_calloc(1, sizeof *hook);
    if (!hook) return -1;
    *hook = (rush_node_hook){.call = retain, .arg = t, .pre = true, .slot = (int)t->ag->slot};
    t->ag->retain_hook = append(&fn->hooks, hook);
    t->ag->retains_grad = true;
    return 0;
}
