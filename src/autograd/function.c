/* function.c - nodes whose derivative a program brings along: rushlight/function.h, and what Python's autograd.Function shares with it. */
#include "autograd/room.h"
#include "op/formula.h"

typedef struct call {
    const rush_function *function;
    void *arg;
    rush_saved *saved;
    int nsaved;
    bool released;
} call;

static const char *name(const rush_node *node) { return ((const call *)node->data)->function->name; }

static int apply(rush_node *node, rush_tensor **g, rush_tensor **gin)
{
    const call *c = node->data;
    return c->function->backward(node, c->arg, g, gin);
}

static void release(rush_node *node)
{
    call *c = node->data;
    rush_saved *saved = c->saved;
    int n = c->nsaved;
    c->released |= n > 0;
    c->saved = NULL;
    c->nsaved = 0;
    for (int i = 0; i < n; ++i) rush_saved_free(&saved[i]);
    rush_free(saved);
}

static void end(rush_node *node)
{
    call *c = node->data;
    if (c->function->end) c->function->end(c->arg);
    rush_free(c);
}

static void visit(rush_node *node, int (*fn)(rush_tensor *, void *), void *arg)
{
    const call *c = node->data;
    for (int i = 0; i < c->nsaved; ++i)
        if (c->saved[i].t && fn(c->saved[i].t, arg)) return;
}

static const rush_node_kind function_kind = {.name = name, .apply = apply, .release = release, .end = end, .visit = visit, .unasked = true};

int rush_function_begin(const rush_function *function, void *arg, int ninputs, rush_tensor *const *inputs, int nresults, rush_node **node)
{
    if (!function || !function->backward || !node || ninputs < 0 || (ninputs && !inputs) || nresults < 1)
        return rush_fail(RUSH_VALUE_ERROR, "rush_function_begin: a function with a derivative, its inputs, one result or more, and room for the node are needed");
    *node = NULL;
    bool wants = false;
    for (int i = 0; i < ninputs; ++i) wants |= inputs[i] && rush_wants_grad(inputs[i]);
    wants &= !(rush_now.mode & (RUSH_MODE_NO_GRAD | RUSH_MODE_INFERENCE)) && !rush_failed();
    call *c = wants ? rush_calloc(1, sizeof *c) : NULL;
    rush_node *made = c ? rush_node_new(&function_kind, ninputs, nresults) : NULL;
    if (!made) {
        rush_free(c);
        if (function->end) function->end(arg);
        return rush_failed() ? -1 : 0;
    }
    *c = (call){.function = function, .arg = arg};
    made->data = c;
    for (int i = 0; i < ninputs; ++i)
        if (inputs[i]) made->edge[i] = rush_grad_edge(inputs[i]);
    if (rush_now.mode & RUSH_MODE_ANOMALY && rush_anomaly_trace) made->made_at = rush_anomaly_trace();
    if (rush_failed()) {
        rush_node_drop(made);
        return -1;
    }
    *node = made;
    return 0;
}

rush_tensor *rush_node_attach(rush_node *node, int i, rush_tensor *t, unsigned how, unsigned as_view)
{
    bool dirty = how & RUSH_RESULT_DIRTY, input = how & (RUSH_RESULT_INPUT | RUSH_RESULT_DIRTY);
    if (node && !(node->shape[i] = rush_keep(rush_tensor_shape_only(t)))) return NULL;
    if (!node || rush_dtypes[t->dtype].category < 2 || how & RUSH_RESULT_NO_GRAD) {
        if (dirty) rush_version_bump(t);
        if (!input && t->ag && !t->ag->fn) t->ag->requires_grad = false;
        if (!input && t->base && !(rush_now.mode & (RUSH_MODE_NO_GRAD | RUSH_MODE_INFERENCE))) t->flags = (uint16_t)((t->flags & ~RUSH_T_APART) | as_view);
        if (!input || (dirty && !rush_wants_grad(t))) return t;
        rush_tensor *apart = rush_tensor_detach(t); /* what was given comes back as another tensor */
        if (apart && !rush_wants_grad(t)) rush_view_link(apart, t, as_view);
        return apart;
    }
    if (dirty) {
        rush_version_bump(t);
        RUSH_CHECK_NULL(!t->ag || !t->ag->requires_grad || t->ag->fn, RUSH_RUNTIME_ERROR, "a leaf Variable that requires grad has been used in an in-place operation.");
        if (rush_inplace_check(t, true)) return NULL;
        return rush_rebase(t, node, i) ? NULL : t;
    }
    if (input || (t->ag && t->ag->requires_grad)) { /* given back as it came: an alias carries the history */
        rush_tensor *alias = rush_tensor_detach(t);
        if (!alias) return NULL;
        rush_view_link(alias, t, as_view);
        t = alias;
    } else if (t->base) {
        t->flags = (uint16_t)((t->flags & ~RUSH_T_APART) | as_view);
    }
    rush_node_output(node, i, t);
    return rush_failed() ? NULL : t;
}

rush_tensor *rush_function_result(rush_node *node, int i, rush_tensor *t, unsigned how)
{
    if (!t || (node && (i < 0 || i >= node->nout))) {
        rush_fail(RUSH_VALUE_ERROR, t ? "rush_function_result: the node has no result %d" : "rush_function_result: tensor %d is NULL", i);
        return NULL;
    }
    return rush_node_attach(node, i, t, how, node && node->nout > 1 ? RUSH_T_MANY_VIEW : RUSH_T_FUNCTION_VIEW);
}

int rush_function_save(rush_node *node, int n, rush_tensor *const *tensors)
{
    if (!node || !n) return 0;
    call *c = node->kind == &function_kind ? node->data : NULL;
    if (!c || c->saved || n < 0 || !tensors) return rush_fail(RUSH_VALUE_ERROR, "rush_function_save: a function's node keeps a list of tensors, once");
    if (!(c->saved = rush_calloc((size_t)n, sizeof *c->saved))) return -1;
    for (int i = 0; i < n; ++i) {
        const rush_autograd *ag = tensors[i] ? tensors[i]->ag : NULL;
        bool output = ag && ag->fn == node;
        c->nsaved = i + 1;
        if (rush_saved_make(&c->saved[i], node, tensors[i], output, output ? ag->slot : 0, false)) return -1;
    }
    return 0;
}

int rush_function_saved(rush_node *node, int i, rush_tensor **tensor)
{
    const call *c = node && node->kind == &function_kind ? node->data : NULL;
    if (!c || !tensor) return rush_fail(RUSH_VALUE_ERROR, "rush_function_saved: a function's node and room for the tensor are needed");
    *tensor = NULL;
    if (c->released)
        return rush_fail(RUSH_RUNTIME_ERROR, "Trying to backward through the graph a second time: the tensors that were saved for it are released. "
                         "Specify retain_graph=True if you need to backward through the graph a second time.");
    if (i < 0 || i >= c->nsaved) return rush_fail(RUSH_INDEX_ERROR, "%s saved %d tensors, number %d is not among them", c->function->name, c->nsaved, i);
    *tensor = rush_saved_read(&c->saved[i], node, true);
    return rush_failed() ? -1 : 0;
}

rush_tensor *rush_function_zeros(rush_node *node, int i)
{
    if (node && i >= 0 && i < node->nout && node->shape[i]) return rush_zeros_like(node->shape[i]);
    rush_fail(RUSH_INDEX_ERROR, "rush_function_zeros: the node has no result %d", i);
    return NULL;
}

bool rush_function_needs(const rush_node *node, int i) { return node && i >= 0 && i < node->nedge && node->edge[i].node; }

const char *rush_grad_fn_name(const rush_node *node)
{
    RUSH_CHECK_NULL(node, RUSH_TYPE_ERROR, "the node is NULL");
    return node->kind->name(node);
}

int rush_grad_fn_edges(const rush_node *node)
{
    RUSH_CHECK(node, RUSH_TYPE_ERROR, "the node is NULL");
    return node->nedge;
}

rush_node *rush_grad_fn_next(const rush_node *node, int i)
{
    RUSH_CHECK_NULL(node, RUSH_TYPE_ERROR, "the node is NULL");
    RUSH_CHECK_NULL(i >= 0 && i < node->nedge, RUSH_INDEX_ERROR, "edge %d of a node that has %d", i, node->nedge);
    return node->edge[i].node;
}
