/* record.c - the node of a recorded operation: what it saves, and how it calls the record's derivative. */
#include "autograd/autograd.h"
#include "autograd/room.h"
#include "op/watch.h"
#include "op/formula.h"

char *(*rush_anomaly_trace)(void);
bool rush_anomaly_check_nan = true;
void (*rush_anomaly_report)(const char *made_at, const char *node_name);

/* ---- saved tensors ---- */

static _Thread_local rush_saved_hooks *saved_hooks RUSH_QUICK_TLS;

void rush_saved_hooks_push(rush_saved_hooks *hooks)
{
    hooks->outer = saved_hooks;
    saved_hooks = hooks;
}

void rush_saved_hooks_pop(void)
{
    if (saved_hooks) saved_hooks = saved_hooks->outer;
}

typedef struct packed {
    void *value;
    rush_tensor *(*unpack)(void *arg, void *packed);
    void (*free_packed)(void *packed);
    void *arg;
    rush_edge edge; /* of what was packed, unless it is a result of the node: what is unpacked goes on with its history */
} packed;

static int pack(rush_saved *s, rush_tensor *t)
{
    packed *p = rush_malloc(sizeof *p);
    if (!p) return -1;
    rush_saved_hooks *hooks = saved_hooks;
    *p = (packed){.unpack = hooks->unpack, .free_packed = hooks->free_packed, .arg = hooks->arg};
    if (!s->is_output && rush_wants_grad(t)) p->edge = rush_grad_edge(t);
    uint32_t mode = rush_now.mode;
    saved_hooks = NULL; /* what the hook itself saves is not packed */
    rush_now.mode |= RUSH_MODE_NO_GRAD;
    p->value = hooks->pack(hooks->arg, t);
    rush_now.mode = mode;
    saved_hooks = hooks;
    if (!rush_failed() && rush_version_of(t) != s->version)
        rush_fail(RUSH_RUNTIME_ERROR, "A saved tensor pack hook is modifying its input in place. Tensors given to a pack hook cannot be changed in place, "
                                      "as others use them, too: let it work on a copy.");
    s->packed = p;
    if (!rush_failed()) return 0;
    rush_saved_free(s);
    return -1;
}

/* What a hook unpacked, at the place in the graph of what was packed. */
static rush_tensor *placed(rush_tensor *t, rush_edge edge)
{
    if (edge.node->kind == &rush_accumulate_kind ? edge.node->data == t : t->ag && t->ag->fn == edge.node && t->ag->slot == edge.slot) return t;
    t = rush_is_watched(t) ? T("detach", V(t)) : rush_tensor_detach(t);
    if (t) rush_node_output(edge.node, (int)edge.slot, t);
    return t && t->ag ? t : NULL;
}

/* Of what was parked last, the reference that parking holds. */
static rush_tensor *take_over(rush_tensor *t)
{
    if (RUSH_LIKELY(t && rush_now.nparked && rush_now.parked[rush_now.nparked - 1] == t)) {
        rush_now.nparked--;
        return t;
    }
    return rush_keep(t);
}

RUSH_HOT static bool same_geometry(const rush_tensor *a, const rush_tensor *b)
{
    return a->ndim == b->ndim && a->dtype == b->dtype && a->layout == b->layout && a->device.type == b->device.type &&
           a->device.index == b->device.index && a->offset == b->offset && !((a->flags ^ b->flags) & RUSH_T_WRAPPED) &&
           !memcmp(a->size, b->size, sizeof *a->size * a->ndim) && !memcmp(a->stride, b->stride, sizeof *a->stride * a->ndim);
}

/* The like of t without memory: the node that made t may have it already, or this one for another of its first arguments. */
RUSH_HOT static rush_tensor *geometry(const rush_node *node, uint32_t nsaved, const rush_tensor *t)
{
    const rush_node *maker = t->ag ? t->ag->fn : NULL;
    rush_tensor *there = maker && t->ag->slot < maker->nout ? maker->shape[t->ag->slot] : NULL;
    if (there && same_geometry(there, t)) return rush_keep(there);
    for (uint32_t k = 0; k < RUSH_MIN(nsaved, 3); ++k)
        if (node->saved[k].shape_only && (there = node->saved[k].t) && same_geometry(there, t)) return rush_keep(there);
    return take_over(rush_tensor_shape_only(t));
}

static bool has_gradient(const rush_op *op, int result, const rush_tensor *t)
{
    bool plain = op && ((result && op->flags & RUSH_FIRST_GRAD) || (result == op->nout - 1 && op->flags & RUSH_LAST_PLAIN));
    return rush_dtypes[t->dtype].category >= 2 && !plain;
}

/* A result without its history. Who looks at operations sees it, as in PyTorch, where it has one to lose. */
static rush_tensor *detached(const rush_op *op, uint32_t slot, rush_tensor *t)
{
    return rush_is_watched(t) && has_gradient(op, (int)slot, t) ? T("detach", V(t)) : rush_tensor_detach(t);
}

/* Will the derivative show t itself to somebody, who answers for it? A shape will not do. */
static bool hands_on(const rush_node *node, const rush_tensor *t)
{
    return t->layout == RUSH_ELSEWHERE && node->op && node->op->flags & RUSH_HANDS_ON && rush_is_watched(t);
}

RUSH_HOT int rush_saved_make(rush_saved *s, rush_node *node, rush_tensor *t, bool is_output, uint32_t slot, bool shape_only)
{
    *s = (rush_saved){.is_output = is_output, .slot = slot, .shape_only = shape_only};
    if (!t) return 0;
    if (shape_only) return (s->t = hands_on(node, t) ? rush_keep(t) : geometry(node, (uint32_t)(s - node->saved), t)) ? 0 : -1;
    RUSH_CHECK(!(t->flags & RUSH_T_INFERENCE), RUSH_RUNTIME_ERROR,
               "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in computation tracked by "
               "autograd. To work around this, you can make a clone to get a normal tensor and use it in autograd, or use `torch.no_grad()` "
               "instead of `torch.inference_mode()`.");
    s->version = rush_version_of(t);
    if (is_output && !(rush_is_watched(t) && !has_gradient(node->op, (int)slot, t))) t = detached(node->op, slot, t); /* without a history it is no cycle */
    if (!t) return -1;
    if (RUSH_UNLIKELY(saved_hooks != NULL)) return pack(s, t);
    s->t = is_output ? take_over(t) : rush_keep(t);
    return 0;
}

rush_tensor *rush_saved_read(rush_saved *s, rush_node *node, bool history)
{
    rush_tensor *t = s->t;
    if (RUSH_UNLIKELY(s->packed != NULL)) {
        packed *p = s->packed;
        t = p->unpack(p->arg, p->value);
        if (t && s->is_output) t = rush_tensor_detach(t);
        else if (t && p->edge.node && history) t = placed(t, p->edge);
        if (!t) return NULL;
    } else if (!t || s->shape_only) {
        return t;
    } else if (RUSH_UNLIKELY(rush_version_of(t) != s->version)) {
        const char *writer = rush_last_writer(t);
        rush_fail(RUSH_RUNTIME_ERROR,
                  "one of the variables needed for gradient computation has been modified by an inplace operation: "
                  "[%s %s], which %s saved, is at version %u; expected version %u instead.%s%s%s Hint: the backtrace of the forward call is shown with "
                  "torch.autograd.set_detect_anomaly(True).",
                  rush_dtype_name(t->dtype), rush_shape_of(t), node->kind->name(node), rush_version_of(t), s->version,
                  writer ? " It was changed by " : "", writer ? writer : "", writer ? "." : "");
        return NULL;
    }
    if (t && s->is_output && has_gradient(node->op, (int)s->slot, t)) {
        if (rush_is_watched(t)) t = T("detach", V(t)); /* by who looks: what is behind t is theirs */
        else if (history) t = rush_tensor_detach(t);
        if (!t || !history) return t;
        rush_node_output(node, (int)s->slot, t);
        if (!t->ag) return NULL; /* no memory */
    }
    return t;
}

void rush_saved_free(rush_saved *s)
{
    if (s->packed) {
        packed *p = s->packed;
        s->packed = NULL;
        if (p->free_packed && p->value) p->free_packed(p->value);
        rush_node_drop(p->edge.node);
        rush_free(p);
    }
    rush_tensor *t = s->t;
    s->t = NULL;
    rush_drop(t);
}

/* The last in-place operation of this thread on a storage, for the message above. */
typedef struct writers {
    unsigned next;
    struct {
        const rush_storage *storage;
        const char *name;
    } last[16];
} writers;

void rush_note_writer(const rush_tensor *t, const char *name)
{
    writers *w = rush_of_thread(RUSH_ROOM_WRITERS, sizeof *w);
    if (!w) return; /* the message will say less */
    w->last[w->next % 16].storage = t->storage;
    w->last[w->next++ % 16].name = name;
}

const char *rush_last_writer(const rush_tensor *t)
{
    const writers *w = rush_of_thread(RUSH_ROOM_WRITERS, 0);
    for (unsigned k = 1; w && k <= 16; ++k)
        if (w->last[(w->next - k) % 16].storage == t->storage) return w->last[(w->next - k) % 16].name;
    return NULL;
}

/* ---- nodes of operations ---- */

/* PyTorch has no node for `linear`: what is seen is the last of the operations that it is made of. */
static const char *linear_name(const rush_node *node)
{
    int ndim = node->saved[0].t ? node->saved[0].t->ndim : 2;
    if (node->in[2].kind == RUSH_V_TENSOR) return ndim == 2 ? "AddmmBackward0" : "ViewBackward0";
    return ndim == 2 ? "MmBackward0" : ndim == 1 ? "SqueezeBackward4" : "UnsafeViewBackward0";
}

static const char *op_name(const rush_node *node)
{
    if (node->name) return node->name;
    return strcmp(node->op->name, "linear") ? rush_node_name(node->op) : linear_name(node);
}

/* A composite that graphs show by a name of its own: the last of the nodes that it made gets it. */
void rush_record_name(const rush_op *op, rush_value *out, uint64_t since)
{
    for (int i = 0; i < op->nout; ++i) {
        const rush_tensor *t = out[i].kind == RUSH_V_TENSOR ? out[i].t : NULL;
        rush_node *node = t && t->ag ? t->ag->fn : NULL;
        if (node && node->kind == &rush_op_kind && node->seq >= since) node->name = op->node;
    }
}

/* Does this backward want what flows along the edge? autograd.grad() may ask for some inputs' gradients only. */
static bool wanted(const rush_node *node, rush_edge edge)
{
    return edge.node && (!node->task || edge.node->task != node->task || edge.node->needed);
}

rush_value rush_in_graph(const rush_grads *s, int i)
{
    int k = 0;
    if (!s->node || rush_now.mode & RUSH_MODE_NO_GRAD) return s->in[i];
    for (int j = 0; j < i; ++j) k += s->in[j].kind == RUSH_V_TENSOR ? 1 : s->in[j].kind == RUSH_V_TENSORS ? (int)s->in[j].n : 0;
    rush_edge edge = s->node->edge[k];
    rush_tensor *t = s->in[i].t;
    if (!edge.node || !s->node->saved[k].shape_only || rush_is_watched(t)) return s->in[i];
    if ((t = rush_tensor_shape_only(t))) rush_node_output(edge.node, (int)edge.slot, t);
    return rush_v_tensor(t);
}

void rush_no_curvature(rush_grads *s)
{
    if (s->g[0] && rush_needs(s, 1)) s->gin[1] = rush_is_watched(s->g[0]) ? zeros_like(s->g[0]) : rush_zeros_like(s->g[0]);
}

/* What a derivative that a program brings along is given: to read what was not saved is its mistake, not the library's end. */
static rush_tensor *seen(const rush_op *op, rush_tensor *t) { return RUSH_UNLIKELY(t && !t->storage && rush_op_is_added(op)) ? rush_tensor_closed(t) : t; }

static int op_apply(rush_node *node, rush_tensor **g, rush_tensor **gin)
{
    const rush_op *op = node->op;
    rush_value in[64], out[RUSH_MAXOUT];
    rush_tensor *grads[64], **lists[64];
    RUSH_CHECK(!node->released, RUSH_RUNTIME_ERROR,
               "Trying to backward through the graph a second time (or directly access saved tensors after they have already been freed), at %s. "
               "Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify retain_graph=True if you "
               "need to backward through the graph a second time or if you need to access saved tensors after calling backward.",
               op_name(node));
    rush_grads s = {.op = op, .in = in, .out = out, .g = g, .gin = grads, .glist = lists, .node = node};
    const bool graph = !(rush_now.mode & RUSH_MODE_NO_GRAD);
    int k = 0, e = 0;
    for (int i = 0; i < op->nargs; ++i) { /* edges and saved tensors are in the order of the arguments */
        in[i] = node->in[i];
        grads[i] = NULL;
        lists[i] = NULL;
        if (in[i].kind == RUSH_V_TENSOR) {
            in[i].t = seen(op, rush_saved_read(&node->saved[k++], node, graph));
            if (!in[i].t) return -1;
            if (wanted(node, node->edge[e++])) s.needs |= (uint64_t)1 << i;
        } else if (in[i].kind == RUSH_V_TENSORS) {
            rush_tensor **list = rush_scope_alloc(sizeof *list * in[i].n);
            lists[i] = rush_scope_alloc(sizeof *list * in[i].n);
            if (!list || !lists[i]) return -1;
            memset(lists[i], 0, sizeof *list * in[i].n);
            for (uint32_t j = 0; j < in[i].n; ++j) {
                list[j] = seen(op, rush_saved_read(&node->saved[k++], node, graph));
                if (rush_failed()) return -1;
                if (wanted(node, node->edge[e++])) s.needs |= (uint64_t)1 << i;
            }
            in[i].tensors = list;
        } else if (RUSH_UNLIKELY(rush_now.mode & RUSH_MODE_WATCH) && op->args[i].type == RUSH_A_TENSOR && rush_is_number(in[i])) {
            /* a number that stood for a tensor is one in the formula, too, for who looks */
            in[i] = rush_v_tensor(rush_tensor_of_number(in[i], true));
            if (rush_failed()) return -1;
        }
    }
    for (int i = 0; i < op->nout; ++i) {
        out[i] = RUSH_NONE;
        rush_tensor *t = op->saves_out >> i & 1 ? rush_saved_read(&node->saved[k++], node, graph) : NULL;
        if (rush_failed()) return -1;
        if (!t && i < node->nout) t = seen(op, node->shape[i]);
        out[i] = rush_v_tensor(t);
    }
    op->grad(&s);
    if (rush_failed()) return -1;
    e = 0;
    for (int i = 0; i < op->nargs; ++i) {
        if (node->in[i].kind == RUSH_V_TENSOR) gin[e++] = grads[i]; /* the node's: a number that stands for a tensor has no edge */
        else if (in[i].kind == RUSH_V_TENSORS)
            for (uint32_t j = 0; j < in[i].n; ++j) gin[e++] = lists[i][j];
    }
    return 0;
}

RUSH_HOT static void op_release(rush_node *node)
{
    bool ends = node->refs == 0;
    for (uint32_t k = 0; k < node->nsaved; ++k) {
        rush_saved *s = &node->saved[k];
        if ((!s->t && !s->packed) || (s->shape_only && !ends)) continue;
        rush_saved_free(s);
        node->released = true;
    }
    if (ends || node->released) return;
    for (int i = 0; i < node->op->nargs; ++i) /* a number in a tensor's place is saved too, as far as the user can tell */
        if (node->op->saves_in >> i & 1 && node->op->args[i].type == RUSH_A_TENSOR && rush_is_number(node->in[i])) node->released = true;
}

static void op_visit(rush_node *node, int (*fn)(rush_tensor *, void *), void *arg)
{
    for (uint32_t k = 0; k < node->nsaved; ++k)
        if (node->saved[k].t) fn(node->saved[k].t, arg);
}

const rush_node_kind rush_op_kind = {op_name, op_apply, op_release, NULL, op_visit};

/* A differentiable operation without a derivative: its results require gradients, the error comes with backward. */
static int missing_apply(rush_node *node, rush_tensor **g, rush_tensor **gin)
{
    return rush_fail(RUSH_NOT_IMPLEMENTED, "the derivative for '%s' is not implemented.", node->op->base);
}

static const rush_node_kind missing_kind = {op_name, missing_apply, op_release, NULL, op_visit};

RUSH_HOT static size_t payload(const rush_value *v)
{
    switch (v->kind) {
    case RUSH_V_INTS: return v->n * sizeof *v->ints;
    case RUSH_V_FLOATS: return v->n * sizeof *v->floats;
    case RUSH_V_VALUES: return v->n * sizeof *v->values;
    case RUSH_V_STRING: return (strlen(v->s) + 8) & ~(size_t)7;
    default: return 0;
    }
}

static int count(const rush_value *v)
{
    return v->kind == RUSH_V_TENSOR ? 1 : v->kind == RUSH_V_TENSORS ? (int)v->n : 0;
}

static int result_count(const rush_op *op, const rush_value *out)
{
    int n = 0;
    for (int i = 0; i < op->nout; ++i) n += op->out_list >> i & 1 ? count(&out[i]) : 1;
    return n;
}

/* Is argument i, or result i - nargs, saved when these arguments want gradients? */
RUSH_HOT static bool saves(const rush_op *op, int i, uint64_t needs)
{
    bool ever = i < op->nargs ? op->saves_in >> i & 1 : op->saves_out >> (i - op->nargs) & 1;
    return ever && (!op->saves_when || !op->saves_when[i] || op->saves_when[i] & needs);
}

bool rush_saves_self(const rush_op *op, const rush_value *in)
{
    uint64_t needs = 0;
    if (!(op->saves_in & 1)) return false;
    for (int i = 0; i < op->nargs; ++i)
        if (in[i].kind == RUSH_V_TENSORS || (in[i].kind == RUSH_V_TENSOR && rush_wants_grad(in[i].t))) needs |= (uint64_t)1 << i;
    return saves(op, 0, needs);
}

void rush_same_history(rush_tensor *copy, rush_tensor *of)
{
    rush_node *fn = rush_grad_fn(of);
    if (fn) rush_node_output(fn, (int)of->ag->slot, copy);
}

/* Do in-place changes of one count for the other? */
static bool same_counter(const rush_tensor *a, const rush_tensor *b)
{
    return a->version || b->version ? a->version == b->version : a->storage && a->storage == b->storage;
}

/* Edges from `in`, saved tensors from `values`. What shares memory with self is saved as it was before the change: to read
 * it is an error. */
static int fill(rush_node *node, const rush_op *op, const rush_value *in, const rush_value *values, char *extra, const rush_tensor *self,
                uint64_t *wants)
{
    uint64_t needs = 0;
    int e = 0, k = 0;
    memcpy(node->in, values, sizeof *values * op->nargs);
    for (int i = 0; i < op->nargs; ++i) {
        for (int j = 0; j < count(&in[i]); ++j, ++e) {
            rush_tensor *t = in[i].kind == RUSH_V_TENSOR ? in[i].t : in[i].tensors[j];
            if (!t || !rush_wants_grad(t)) continue;
            node->edge[e] = self && t->base && same_counter(t, self) ? rush_grad_edge_had(t) : rush_grad_edge(t);
            if (node->edge[e].node) needs |= (uint64_t)1 << i;
        }
        size_t bytes = payload(&values[i]);
        if (!bytes) continue;
        memcpy(extra, values[i].ints, values[i].kind == RUSH_V_STRING ? strlen(values[i].s) + 1 : bytes);
        node->in[i].ints = (const int64_t *)(void *)extra;
        extra += bytes;
    }
    for (int i = 0; i < op->nargs; ++i) {
        bool whole = saves(op, i, needs);
        for (int j = 0; j < count(&values[i]); ++j, ++k) {
            rush_tensor *t = values[i].kind == RUSH_V_TENSOR ? values[i].t : values[i].tensors[j];
            if (rush_saved_make(&node->saved[k], node, t, false, 0, !whole)) return -1;
            if (RUSH_UNLIKELY(self != NULL) && whole && t && same_counter(t, self)) --node->saved[k].version;
        }
    }
    *wants = needs;
    return rush_failed() ? -1 : 0;
}

static int attach(rush_node *node, const rush_op *op, rush_value *out, rush_tensor *self, uint64_t needs)
{
    int slot = 0;
    uint32_t k = node->nsaved;
    for (int i = 0; i < op->nout; ++i) k -= op->saves_out >> i & 1;
    for (int i = 0; i < op->nout; ++i) {
        bool list = op->out_list >> i & 1;
        for (int j = 0; j < (list ? count(&out[i]) : 1); ++j, ++slot) {
            rush_tensor *t = list ? out[i].tensors[j] : out[i].kind == RUSH_V_TENSOR ? out[i].t : NULL;
            if (!t) continue;
            node->shape[slot] = geometry(node, k, t);
            if (!node->shape[slot]) return -1;
            if (t == self) {
                if (rush_rebase(self, node, slot)) return -1;
            } else if (has_gradient(op, i, t)) {
                rush_node_output(node, slot, t);
            }
        }
        if (!(op->saves_out >> i & 1)) continue;
        rush_saved *s = &node->saved[k++];
        if (!saves(op, op->nargs + i, needs)) *s = (rush_saved){.shape_only = true}; /* node->shape has it */
        else if (rush_saved_make(s, node, T_(out[i]), true, (uint32_t)i, false)) return -1;
    }
    return rush_failed() ? -1 : 0;
}

RUSH_HOT int rush_record(const rush_op *op, const rush_value *in, const rush_value *values, rush_value *out, rush_tensor *self)
{
    int nedge = 0, nsaved = __builtin_popcount(op->saves_out), nout = result_count(op, out);
    size_t extra = sizeof *in * op->nargs;
    bool differentiable = false;
    for (int i = 0; i < op->nargs; ++i) {
        nedge += count(&in[i]);
        extra += payload(&values[i]);
    }
    for (int i = 0; i < op->nout; ++i) {
        rush_tensor *t = out[i].kind == RUSH_V_TENSOR ? out[i].t : out[i].kind == RUSH_V_TENSORS && out[i].n ? out[i].tensors[0] : NULL;
        differentiable |= t && rush_dtypes[t->dtype].category >= 2;
    }
    if (!differentiable) return 0;
    nsaved += nedge;
    rush_node *node = rush_node_new_room(op->grad ? &rush_op_kind : &missing_kind, nedge, nout, nsaved, extra);
    if (!node) return -1;
    node->op = op;
    node->in = (rush_value *)(void *)((char *)(node + 1) + nedge * sizeof(rush_edge) + nout * sizeof(rush_tensor *) + nsaved * sizeof(rush_saved));
    size_t mark = rush_scope_open();
    uint64_t needs;
    int failed = fill(node, op, in, values, (char *)(node->in + op->nargs), self, &needs) || attach(node, op, out, self, needs);
    rush_scope_close(mark);
    if (self) rush_note_writer(self, op->base);
    if (RUSH_UNLIKELY(rush_now.mode & RUSH_MODE_ANOMALY) && rush_anomaly_trace) node->made_at = rush_anomaly_trace();
    rush_node_drop(node);
    return failed;
}
