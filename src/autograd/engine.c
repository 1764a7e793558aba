/* engine.c - the walk back: nodes in order of decreasing sequence number, each once all that flows into it is there.
 *
 * A task first walks the graph once, counting for each node the edges that will deliver to it, and finds which
 * nodes lie on a way to what is asked for. Then it runs the ready node with the largest number (leaves'
 * accumulators have the largest of all). The state of a walk is in the nodes themselves; a backward that runs
 * inside another one puts aside what the outer one had in nodes that both meet.
 */
#include "autograd/autograd.h"
#include "autograd/room.h"
#include "op/profile.h"
#include "op/watch.h"
#include "op/later.h"
#include <math.h>
#include <pthread.h>

typedef struct aside { /* a node's state in an outer task */
    rush_node *node;
    void *task;
    int waiting;
    rush_tensor **buffer, *sole;
    uint8_t needed;
} aside;

enum { DELIVER = 1, EXECUTE = 2 }; /* rush_node.needed */

enum { FEW = 32 };

typedef struct list {
    void **item; /* few, or a block */
    size_t n, room;
    void *few[FEW];
} list;

typedef struct capture { /* a gradient that is asked for */
    rush_edge edge;
    rush_tensor *got; /* owned */
    int input;        /* its place in the caller's list */
} capture;

typedef struct task {
    list roots;   /* rush_node, owned: they keep what they lead to */
    list visited; /* rush_node */
    list asides;  /* aside */
    list ready;   /* heap by seq of nodes, borrowed from visited */
    capture *captures; /* sorted by node */
    int ncaptures;
    bool retain, graph;
    bool into;    /* what is asked for is for .grad: leaves accumulate it, other tensors have a hook that does */
    bool later;   /* some node was recorded while work was put off */
    const void *thread;  /* whose walk it is, see rush_walker() */
    unsigned generation; /* of the process, see below */
} task;

/* A walk's state is in the nodes, so a node belongs to one walk at a time. Walks of several threads go on at once where their
 * graphs have no node in common; else one waits for the other's end. A walk inside another one of the same thread puts
 * the outer one's state aside. */
static pthread_mutex_t claims;
static pthread_cond_t let_go;
static unsigned generation; /* a child of fork() is another: the walks that its parent's threads were on are nobody's there */

static _Thread_local const void *walks_for; /* a thread that goes on with another's walk */

const void *rush_walker(void) { return walks_for ? walks_for : &rush_now; }
void rush_walker_set(const void *walker) { walks_for = walker; }

enum { BUSY = 1 };

static int push(list *l, void *item)
{
    if (RUSH_UNLIKELY(l->n == l->room)) {
        size_t room = l->room * 4;
        void **more = rush_realloc(l->item == l->few ? NULL : l->item, room * sizeof *more);
        if (!more) return -1;
        if (l->item == l->few) memcpy(more, l->few, sizeof l->few);
        l->item = more;
        l->room = room;
    }
    l->item[l->n++] = item;
    return 0;
}

static void start_list(list *l)
{
    l->item = l->few;
    l->n = 0;
    l->room = FEW;
}

static void end_list(list *l)
{
    if (l->item != l->few) rush_free(l->item);
}

/* ---- what is asked for ---- */

static int by_node(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t)((const capture *)a)->edge.node, y = (uintptr_t)((const capture *)b)->edge.node;
    return (x > y) - (x < y);
}

/* The first capture of node or of one behind it, which may be the end. */
static capture *captures_from(const task *t, const rush_node *node)
{
    int low = 0, high = t->ncaptures;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if ((uintptr_t)t->captures[middle].edge.node < (uintptr_t)node) low = middle + 1;
        else high = middle;
    }
    return t->captures + low;
}

static bool captures(const task *t, const capture *c, const rush_node *node)
{
    return c < t->captures + t->ncaptures && c->edge.node == node;
}

/* ---- the heap of ready nodes ---- */

static bool before(const rush_node *a, const rush_node *b) { return a->seq > b->seq; }

static int ready(task *t, rush_node *node)
{
    if (push(&t->ready, node)) return -1;
    rush_node **heap = (rush_node **)t->ready.item;
    size_t i = t->ready.n - 1;
    for (; i > 0 && before(node, heap[(i - 1) / 2]); i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
    heap[i] = node;
    return 0;
}

/* The heap of the C++ library, to the letter: accumulators all have one number, and hooks tell in which order they run. */
static rush_node *next_ready(task *t)
{
    rush_node **heap = (rush_node **)t->ready.item;
    rush_node *top = heap[0], *last = heap[--t->ready.n];
    size_t hole = 0, n = t->ready.n;
    for (size_t k; (k = 2 * hole + 2) <= n; hole = k) { /* the hole sinks to the ground, then `last` rises from there */
        if (k == n || before(heap[k - 1], heap[k])) --k;
        heap[hole] = heap[k];
    }
    for (; hole > 0 && before(last, heap[(hole - 1) / 2]); hole = (hole - 1) / 2) heap[hole] = heap[(hole - 1) / 2];
    if (n) heap[hole] = last;
    return top;
}

/* ---- first walk ---- */

static int visit(task *t, rush_node *node)
{
    const task *other = node->task;
    if (other && other->thread != t->thread && other->generation == generation) return BUSY;
    if (other) {
        aside *a = rush_malloc(sizeof *a);
        if (!a) return -1;
        *a = (aside){node, node->task, node->waiting, node->buffer, node->sole, node->needed};
        if (push(&t->asides, a)) return rush_free(a), -1;
    }
    if (push(&t->visited, node)) return -1;
    node->task = t;
    node->waiting = 0;
    node->buffer = NULL;
    node->needed = t->ncaptures == 0 ? DELIVER | EXECUTE : 0;
    t->later |= node->later;
    return 0;
}

static int enter(task *t, rush_node *node, list *stack)
{
    int failed = visit(t, node);
    return failed ? failed : push(stack, node) || push(stack, NULL) ? -1 : 0;
}

/* Depth first with a stack of (node, next edge); a node is needed when one it leads to is. BUSY: a node is another thread's. */
static int walk(task *t, rush_node *root)
{
    list stack;
    int failed = 0;
    start_list(&stack);
    if (root->task == t) return 0;
    failed = enter(t, root, &stack);
    while (!failed && stack.n) {
        rush_node *node = stack.item[stack.n - 2];
        size_t e = (size_t)stack.item[stack.n - 1];
        if (e == node->nedge) {
            if (t->ncaptures && captures(t, captures_from(t, node), node))
                node->needed |= t->into ? DELIVER | EXECUTE : DELIVER;
            stack.n -= 2;
            /* The parents learn it from their edges, below and here. */
            if (stack.n && node->needed) ((rush_node *)stack.item[stack.n - 2])->needed |= DELIVER | EXECUTE;
            continue;
        }
        stack.item[stack.n - 1] = (void *)(e + 1);
        rush_node *next = node->edge[e].node;
        if (!next) continue;
        if (next->task == t) {
            ++next->waiting;
            if (next->needed) node->needed |= DELIVER | EXECUTE;
            continue;
        }
        failed = enter(t, next, &stack);
        if (!failed) ++next->waiting;
    }
    end_list(&stack);
    return failed;
}

/* ---- delivering gradients ---- */

static bool may_add_into(rush_tensor *a) { return !a->ag && !rush_self_overlap(a) && rush_alone(a); }

/* A gradient as `node` expects it at `slot`: same shape (broadcast dims summed), real for real, its dtype. */
static rush_tensor *fit(rush_node *node, uint32_t slot, rush_tensor *g, const rush_node *from, int index)
{
    const rush_tensor *want = node->kind == &rush_accumulate_kind ? node->data : slot < node->nout ? node->shape[slot] : NULL;
    if (!want || !g) return g;
    if (RUSH_UNLIKELY(!rush_same_sizes(g, want)) && (g->layout == RUSH_STRIDED || g->layout == RUSH_ELSEWHERE)) {
        int ndim = want->ndim;
        int64_t size[RUSH_MAXDIM];
        if (ndim) memcpy(size, want->size, sizeof *size * ndim);
        bool expands = !rush_broadcast_sizes(want->ndim, want->size, g->ndim, g->size, &ndim, size) && ndim == g->ndim &&
                       !memcmp(size, g->size, sizeof *size * ndim);
        rush_error_clear();
        RUSH_CHECK_NULL(expands, RUSH_RUNTIME_ERROR, "Function %s returned an invalid gradient at index %d - got %s but expected shape compatible with %s",
                        from ? from->kind->name(from) : "root", index, rush_shape_of(g), rush_shape_of(want));
        int64_t dims[RUSH_MAXDIM];
        int n = 0, lead = g->ndim - want->ndim;
        for (int d = 0; d < g->ndim; ++d)
            if (d < lead || (want->size[d - lead] == 1 && g->size[d] != 1)) dims[n++] = d;
        g = T("sum.dim_IntList", V(g), rush_v_ints(dims, n), V(true));
        if (g && lead) g = T("view", V(g), rush_v_ints(want->size, want->ndim));
        if (!g) return NULL;
    }
    int dtype = rush_grad_dtype(want);
    if (RUSH_UNLIKELY((int)g->dtype != dtype) && dtype >= 0) {
        if (rush_dtype_is_complex(g->dtype) && !rush_dtype_is_complex((rush_dtype)dtype)) g = T("real", V(g));
        if (g && (int)g->dtype != dtype) g = T("_to_dtype", V(g), rush_v_dtype((rush_dtype)dtype));
    }
    return g;
}

static int deliver(rush_edge edge, rush_tensor *g, const rush_node *from, int index)
{
    rush_node *node = edge.node;
    if (!g) return 0;
    g = fit(node, edge.slot, g, from, index);
    if (!g) return -1;
    if (!node->buffer) {
        rush_tensor **buffer = node->nout <= 1 ? &node->sole : rush_small_alloc(node->nout * sizeof *buffer);
        if (!buffer) return -1;
        for (int i = 0; i < RUSH_MAX(node->nout, 1); ++i) buffer[i] = NULL;
        node->buffer = buffer;
    }
    RUSH_ASSERT(edge.slot < RUSH_MAX(node->nout, 1));
    rush_tensor **at = &node->buffer[edge.slot], *old = *at;
    if (!old) {
        *at = rush_keep(g);
        return 0;
    }
    bool into = rush_now.mode & RUSH_MODE_NO_GRAD && !rush_is_watched(old) && may_add_into(old) && old->layout == RUSH_STRIDED && g->layout == RUSH_STRIDED;
    rush_tensor *sum = into ? T_INPLACE("add.Tensor", V(old), V(g)) : rush_grad_sum(old, g);
    if (!sum) return -1;
    *at = rush_keep(sum);
    rush_drop(old);
    return 0;
}

static void free_buffer(rush_node *node)
{
    if (!node->buffer) return;
    for (int i = 0; i < node->nout; ++i) rush_drop(node->buffer[i]);
    if (node->buffer != &node->sole) rush_small_free(node->buffer, node->nout * sizeof *node->buffer);
    node->buffer = NULL;
}

/* The same at the end of the current scope: a derivative may hand its gradient on as it is. */
static void park_buffer(rush_node *node)
{
    for (int i = 0; i < node->nout && node->buffer; ++i) {
        rush_park(node->buffer[i]);
        node->buffer[i] = NULL;
    }
    free_buffer(node);
}

/* ---- running one node ---- */

enum when { TENSOR_HOOKS, PRE_HOOKS, POST_HOOKS, LEAF_HOOKS };

static bool is_due(const rush_node_hook *h, enum when when)
{
    return when == LEAF_HOOKS || when == (!h->pre ? POST_HOOKS : h->slot >= 0 ? TENSOR_HOOKS : PRE_HOOKS);
}

/* Those that are there when the first is called: a hook may add and remove hooks, itself included. */
static int run_hooks(rush_node_hook *hooks, enum when when, rush_node *node, rush_tensor **g, rush_tensor **gin)
{
    rush_node_hook *few[8], **due = few;
    int most = 0, n = 0, failed = 0;
    for (rush_node_hook *h = hooks; h; h = h->next) most += is_due(h, when);
    if (most > (int)RUSH_COUNT(few) && !(due = rush_scope_alloc(sizeof *due * most))) return -1;
    for (rush_node_hook *h = hooks; h; h = h->next) {
        if (!is_due(h, when) || (most > 1 && h->hold && !h->hold(h->arg, true))) continue;
        atomic_fetch_add(&h->held, 1);
        due[n++] = h;
    }
    for (int i = 0; i < n; ++i) {
        rush_node_hook *h = due[i];
        rush_tensor **at = when == TENSOR_HOOKS ? &g[h->slot] : g;
        if (!failed && !h->removed) failed = h->call(h->arg, node, at, when == TENSOR_HOOKS || when == LEAF_HOOKS ? 1 : node->nout, gin, when == LEAF_HOOKS ? 0 : node->nedge);
        if (most > 1 && h->hold) h->hold(h->arg, false);
        rush_node_hook_drop(h);
    }
    return failed ? -1 : 0;
}

static int check_nan(const rush_node *node, rush_tensor **gin)
{
    for (int i = 0; i < node->nedge; ++i) {
        if (!gin[i] || rush_dtypes[gin[i]->dtype].category < 2 || gin[i]->layout != RUSH_STRIDED || gin[i]->device.type != RUSH_CPU) continue;
        rush_tensor *any = T("any", V(T("isnan", V(gin[i]))));
        if (!any) return -1;
        if (!rush_item_int(any)) continue;
        if (rush_anomaly_report && node->made_at) rush_anomaly_report(node->made_at, node->kind->name(node));
        return rush_fail(RUSH_RUNTIME_ERROR, "Function '%s' returned nan values in its %dth output.", node->kind->name(node), i);
    }
    return 0;
}

/* For the profiler; a leaf's accumulator has no place in the sequence of calls. */
static rush_profile_event node_event(rush_profile_how how, const rush_node *node)
{
    bool leaf = node->kind == &rush_accumulate_kind;
    return (rush_profile_event){.how = how, .name = leaf ? "torch::autograd::AccumulateGrad" : node->kind->name(node),
                                .sequence = leaf ? -1 : (int64_t)node->seq};
}

static int apply_node(rush_node *node, rush_tensor **g, rush_tensor **gin)
{
    if (!RUSH_UNLIKELY(rush_now.mode & RUSH_MODE_PROFILE)) return node->kind->apply(node, g, gin);
    rush_profile_event e = node_event(RUSH_PROFILE_NODE, node);
    rush_profile_tell(&e, true);
    int failed = node->kind->apply(node, g, gin);
    rush_profile_tell(&e, false);
    return failed;
}

/* A leaf's accumulator, then the hooks that see the sum. */
static int accumulate(rush_node *node, rush_tensor *g, rush_tensor **gin)
{
    rush_autograd *leaf = ((rush_tensor *)node->data)->ag;
    if (!leaf || !leaf->requires_grad) return 0; /* not any more */
    int failed = apply_node(node, &g, gin);
    leaf = ((rush_tensor *)node->data)->ag;
    return failed || !leaf || !leaf->post_accumulate ? failed : run_hooks(leaf->post_accumulate, LEAF_HOOKS, node, &g, gin);
}

static int derive(rush_node *node, rush_tensor **g, rush_tensor **gin)
{
    bool any = node->kind->unasked;
    for (int i = 0; i < node->nout && !any; ++i) any = g[i] != NULL;
    return any ? apply_node(node, g, gin) : 0;
}

/* Hooks of tensors, what is captured, and if the node runs its hooks before, the derivative, its hooks after; hooks see also gradients that are missing. */
static int work(task *t, rush_node *node, rush_tensor **g, rush_tensor **gin)
{
    bool is_leaf = node->kind == &rush_accumulate_kind;
    rush_autograd *leaf = is_leaf ? ((rush_tensor *)node->data)->ag : NULL;
    if (leaf && leaf->hooks && run_hooks(leaf->hooks, TENSOR_HOOKS, node, g, gin)) return -1;
    if (node->hooks && run_hooks(node->hooks, TENSOR_HOOKS, node, g, gin)) return -1;
    for (capture *c = t->ncaptures && !t->into ? captures_from(t, node) : NULL; c && captures(t, c, node); ++c)
        if (!c->got) c->got = rush_keep(g[c->edge.slot]);
    if (!(node->needed & EXECUTE) || (t->ncaptures && !t->into && is_leaf)) return 0;
    if (node->hooks && run_hooks(node->hooks, PRE_HOOKS, node, g, gin)) return -1;
    int failed = is_leaf ? accumulate(node, g[0], gin) : derive(node, g, gin);
    if (failed && !rush_failed()) rush_fail(RUSH_RUNTIME_ERROR, "%s failed", node->kind->name(node));
    if (!failed && node->hooks) failed = run_hooks(node->hooks, POST_HOOKS, node, g, gin);
    if (!failed && RUSH_UNLIKELY(rush_now.mode & RUSH_MODE_ANOMALY) && rush_anomaly_check_nan) failed = check_nan(node, gin);
    return failed;
}

static int evaluate(task *t, rush_node *node)
{
    rush_tensor *few[16], **gin = few, *held[8], **own = held; /* what hooks put in place is parked; the buffer owns its entries */
    size_t mark = rush_scope_open();
    const rush_op *op = rush_now.op;
    rush_now.op = NULL;
    if (node->nedge > RUSH_COUNT(few)) gin = rush_scope_alloc(sizeof *gin * node->nedge);
    if (node->nout > RUSH_COUNT(held)) own = rush_scope_alloc(sizeof *own * node->nout);
    int failed = !gin || !own;
    for (int i = 0; i < node->nedge && gin; ++i) gin[i] = NULL;
    for (int i = 0; i < RUSH_MAX(node->nout, 1) && own; ++i) own[i] = node->buffer ? node->buffer[i] : NULL;
    failed = failed || (node->needed && work(t, node, own, gin));
    if (failed && RUSH_UNLIKELY(rush_now.mode & RUSH_MODE_ANOMALY) && rush_anomaly_report && node->made_at && rush_failed()) {
        rush_error_state e = rush_error_take();
        rush_anomaly_report(node->made_at, node->kind->name(node));
        if (!rush_failed()) rush_error_restore(e);
    }
    park_buffer(node);
    if (!failed && !t->retain && node->kind->release && node->needed & EXECUTE) node->kind->release(node);
    bool backwards = node->nedge > 2 && node->op && node->op->flags & RUSH_LAST_GRAD_FIRST;
    for (int k = 0; k < node->nedge && !failed; ++k) {
        int i = backwards ? node->nedge - 1 - k : k;
        rush_node *next = node->edge[i].node;
        if (!next || next->task != t) continue;
        if (next->needed || t->ncaptures == 0) failed = deliver(node->edge[i], gin[i], node, i);
        if (--next->waiting == 0 && !failed) failed = ready(t, next);
    }
    rush_scope_close(mark);
    rush_now.op = op;
    return failed;
}

static int run_node(task *t, rush_node *node)
{
    if (!RUSH_UNLIKELY(rush_now.mode & RUSH_MODE_PROFILE)) return evaluate(t, node);
    rush_profile_event e = node_event(RUSH_PROFILE_EVALUATE, node);
    rush_profile_tell(&e, true);
    int failed = evaluate(t, node);
    rush_profile_tell(&e, false);
    return failed;
}

/* The nodes are nobody's again, or the outer walk's. */
static void give_up(task *t)
{
    for (size_t i = 0; i < t->visited.n; ++i) ((rush_node *)t->visited.item[i])->task = NULL;
    for (size_t i = 0; i < t->asides.n; ++i) {
        aside *a = t->asides.item[i];
        a->node->task = a->task;
        a->node->waiting = a->waiting;
        a->node->buffer = a->buffer;
        a->node->sole = a->sole;
        a->node->needed = a->needed;
        rush_free(a);
    }
    t->visited.n = t->asides.n = 0;
}

/* Makes all that the roots lead to this walk's. */
static int claim(task *t)
{
    int failed;
    pthread_mutex_lock(&claims);
    for (;;) {
        failed = 0;
        for (size_t i = 0; i < t->roots.n && !failed; ++i) failed = walk(t, t->roots.item[i]);
        if (failed != BUSY) break;
        give_up(t);
        pthread_cond_wait(&let_go, &claims);
    }
    pthread_mutex_unlock(&claims);
    return failed;
}

static void finish(task *t)
{
    for (size_t i = 0; i < t->visited.n; ++i) free_buffer(t->visited.item[i]); /* before the lock: it may end Python objects */
    pthread_mutex_lock(&claims);
    give_up(t);
    pthread_cond_broadcast(&let_go);
    pthread_mutex_unlock(&claims);
    for (size_t i = 0; i < t->roots.n; ++i) rush_node_drop(t->roots.item[i]);
    end_list(&t->roots);
    end_list(&t->visited);
    end_list(&t->asides);
    end_list(&t->ready);
}

static void engine_init(void)
{
    pthread_mutex_init(&claims, NULL);
    pthread_cond_init(&let_go, NULL);
    ++generation;
}
__attribute__((constructor)) static void engine_setup(void)
{
    engine_init();
    pthread_atfork(NULL, NULL, engine_init); /* a child starts with no backward running */
}

static rush_tensor *root_gradient(const rush_tensor *root, rush_tensor *given)
{
    if (given) {
        RUSH_CHECK_NULL(rush_same_sizes(root, given), RUSH_RUNTIME_ERROR,
                        "Mismatch in shape: grad_output[0] has a shape of %s and output[0] has a shape of %s.", rush_shape_of(given), rush_shape_of(root));
        return given;
    }
    RUSH_CHECK_NULL(root->numel == 1, RUSH_RUNTIME_ERROR, "grad can be implicitly created only for scalar outputs");
    RUSH_CHECK_NULL(rush_dtype_is_float(root->dtype), RUSH_RUNTIME_ERROR, "grad can be implicitly created only for real scalar outputs but got torch.%s",
                    rush_dtype_name(root->dtype));
    if (root->ndim == 0 && root->device.type == RUSH_CPU && !rush_is_watched(root) && !(rush_now.mode & ~(uint32_t)RUSH_MODE_NO_GRAD)) return rush_tensor_of_number_typed(V(1.0), root->dtype);
    return T("ones_like", V((rush_tensor *)root));
}

static int no_history(int i)
{
    return rush_fail(RUSH_RUNTIME_ERROR, "element %d of tensors does not require grad and does not have a grad_fn", i);
}

static int run_task(task *t, int n, rush_tensor **roots, rush_tensor **grads)
{
    rush_edge few[16], *edge = n <= (int)RUSH_COUNT(few) ? few : rush_scope_alloc((size_t)n * sizeof *edge);
    if (!edge) return -1;
    for (int i = 0; i < n; ++i) {
        edge[i] = rush_grad_edge(roots[i]);
        if (!edge[i].node) return rush_failed() ? -1 : no_history(i);
        if (push(&t->roots, edge[i].node)) return rush_node_drop(edge[i].node), -1;
    }
    if (claim(t)) return t->later = false, -1;
    if (t->later && rush_later_begin()) return t->later = false, -1;
    for (int i = 0; i < n; ++i) {
        rush_tensor *g = root_gradient(roots[i], grads ? grads[i] : NULL);
        if (!g || deliver(edge[i], g, NULL, i)) return -1;
    }
    for (size_t i = 0; i < t->visited.n; ++i) {
        rush_node *node = t->visited.item[i];
        if (node->waiting == 0 && ready(t, node)) return -1;
    }
    while (t->ready.n)
        if (run_node(t, next_ready(t))) return -1;
    return 0;
}

static int run_backward(int n, rush_tensor **roots, rush_tensor **grads, bool retain_graph, bool create_graph, int ncaptures, capture *captures, bool into)
{
    task room, *t = &room; /* large: what is not needed is not cleared */
    if (rush_failed()) return -1;
    t->retain = retain_graph || create_graph;
    t->graph = create_graph;
    t->later = false;
    t->thread = rush_walker();
    t->generation = generation;
    t->ncaptures = ncaptures;
    t->captures = captures;
    t->into = into;
    uint32_t mode = rush_now.mode;
    size_t mark = rush_scope_open();
    start_list(&t->roots);
    start_list(&t->visited);
    start_list(&t->asides);
    start_list(&t->ready);
    if (t->graph) rush_now.mode &= ~RUSH_MODE_NO_GRAD;
    /* root gradients keep their own history only with create_graph */
    if (!t->graph) rush_now.mode |= RUSH_MODE_NO_GRAD;
    rush_now.mode &= ~RUSH_MODE_AUTOCAST;
    int failed = run_task(t, n, roots, grads);
    finish(t);
    rush_now.mode = mode;
    rush_scope_close(mark);
    if (t->later) rush_later_end();
    return failed;
}

static int check_lives(int n, rush_tensor *const *t)
{
    for (int i = 0; t && i < n; ++i)
        if (t[i] && !rush_tensor_given(t[i])) return -1;
    return 0;
}

static int check_list(int n, rush_tensor *const *t, const char *what)
{
    if (rush_failed()) return -1;
    RUSH_CHECK(n >= 0 && (t || !n), RUSH_TYPE_ERROR, "%s %d tensors (NULL)", what, n);
    for (int i = 0; i < n; ++i) RUSH_CHECK(t[i], RUSH_TYPE_ERROR, "%s no tensor: number %d", what, i);
    return check_lives(n, t);
}

int rush_backward_full(int n, rush_tensor **roots, rush_tensor **grads, bool retain_graph, bool create_graph)
{
    return check_list(n, roots, "backward of") || check_lives(n, grads) ? -1 : run_backward(n, roots, grads, retain_graph, create_graph, 0, NULL, true);
}

int rush_backward(rush_tensor *loss)
{
    if (!loss) return rush_failed() ? -1 : rush_fail(RUSH_RUNTIME_ERROR, "backward of no tensor");
    return rush_backward_full(1, &loss, NULL, false, false);
}

int rush_backward_into(int n, rush_tensor **roots, rush_tensor **grads, int n_in, rush_tensor **inputs, bool retain_graph, bool create_graph)
{
    if (check_list(n, roots, "backward of") || check_lives(n, grads) || check_list(n_in, inputs, "backward to")) return -1;
    capture *asked = rush_calloc(RUSH_MAX(n_in, 1), sizeof *asked);
    if (!asked) return -1;
    int failed = 0;
    for (int i = 0; i < n_in && !failed; ++i) {
        failed = rush_retain_grad(inputs[i]);
        if (!failed) asked[i].edge = rush_grad_edge(inputs[i]);
    }
    if (!failed && n_in > 1) qsort(asked, (size_t)n_in, sizeof *asked, by_node);
    failed = failed || run_backward(n, roots, grads, retain_graph, create_graph, n_in, asked, true) ? -1 : 0;
    for (int i = 0; i < n_in; ++i) rush_node_drop(asked[i].edge.node);
    rush_free(asked);
    return failed;
}

int rush_grad_of(int n, rush_tensor **roots, rush_tensor **grads, int n_in, rush_tensor **inputs, rush_tensor **out,
                 bool retain_graph, bool create_graph, bool allow_unused)
{
    if (check_list(n, roots, "gradients of") || check_lives(n, grads) || check_list(n_in, inputs, "gradients by")) return -1;
    RUSH_CHECK(out || !n_in, RUSH_TYPE_ERROR, "there is no room for the gradients");
    capture *asked = rush_calloc(RUSH_MAX(n_in, 1), sizeof *asked);
    if (!asked) return -1;
    int failed = rush_failed() ? -1 : 0;
    for (int k = 0; k < n && n_in && !failed; ++k)
        if (!rush_wants_grad(roots[k])) failed = no_history(k);
    for (int i = 0; i < n_in; ++i) out[i] = NULL;
    for (int i = 0; i < n_in && !failed; ++i) {
        if (!rush_wants_grad(inputs[i])) failed = rush_fail(RUSH_RUNTIME_ERROR, "One of the differentiated Tensors does not require grad");
        else asked[i] = (capture){.edge = rush_grad_edge(inputs[i]), .input = i};
    }
    if (!failed && n_in > 1) qsort(asked, (size_t)n_in, sizeof *asked, by_node);
    failed = failed || run_backward(n, roots, grads, retain_graph, create_graph, n_in, asked, false);
    for (int i = 0; i < n_in; ++i) {
        if (asked[i].got && !failed) out[asked[i].input] = rush_park(asked[i].got);
        else rush_drop(asked[i].got);
        rush_node_drop(asked[i].edge.node);
    }
    rush_free(asked);
    for (int i = 0; i < n_in && !failed && !allow_unused; ++i)
        if (!out[i])
            failed = rush_fail(RUSH_RUNTIME_ERROR, "The differentiated Tensor at index %d appears to not have been used in the graph. Set "
                                                   "allow_unused=True if this is the desired behavior.", i);
    return failed;
}
