/* reducer.c - data-parallel training: each process has the same parameters and other data; gradients become their mean.
 *
 * Parameters are dealt into buckets, the last ones first, as their gradients come in that order. A hook on each parameter puts
 * its gradient into its bucket; the all_reduce of a full bucket begins at once, in the same order on all ranks, and goes on
 * beside the rest of the backward pass. When the last gradient is there, the means go back to the parameters.
 */
#define _GNU_SOURCE
#include "dist/reducer.h"
#include "autograd/autograd.h"
#include "op/op.h"

#include <stdio.h>

typedef struct slot { /* of a parameter */
    rush_tensor *t;
    rush_reducer *r;
    int bucket;
    int64_t at, n;   /* numbers before it in the bucket, and its own */
    bool ready, used;
    uint64_t hook;
} slot;

typedef struct bucket {
    rush_tensor *flat;
    int first, n;    /* parameters: their place in the order */
    int waiting;     /* for so many of them */
    bool begun;
    rush_work *work;
} bucket;

struct rush_reducer {
    rush_group *group;
    rush_reducer_options o;
    slot *slots;
    bucket *buckets;
    int *order, *came;     /* parameters as they lie in the buckets; in the order of their first gradients */
    int n, nbuckets, ncame, next; /* the bucket that goes next */
    int left;              /* parameters that are not ready */
    bool on, busy;         /* busy: some are ready, some are not */
};

static rush_tensor *view_of(const slot *s, rush_tensor *like)
{
    int64_t stride[RUSH_MAXDIM];
    rush_strides_for(RUSH_CONTIGUOUS, like->ndim, like->size, stride);
    return rush_tensor_alias(s->r->buckets[s->bucket].flat, like->ndim, like->size, stride, s->at);
}

static void rearm(rush_reducer *r)
{
    for (int i = 0; i < r->n; i++) r->slots[i].ready = r->slots[i].used = false;
    for (int i = 0; i < r->nbuckets; i++) {
        r->buckets[i].waiting = r->buckets[i].n;
        r->buckets[i].begun = false;
    }
    r->left = r->n;
    r->next = 0;
    r->busy = false;
}

/* ---- a backward pass ---- */

static int begin_bucket(rush_reducer *r, int i)
{
    bucket *b = &r->buckets[i];
    b->begun = true;
    if (r->o.begin) return r->o.begin(r->o.arg, i);
    double part = 1.0 / r->group->size;
    if (rush_device_of(b->flat).type == RUSH_CPU) rush_scale(rush_data(b->flat), rush_dtype_of(b->flat), (size_t)rush_numel(b->flat), part);
    else if (!T_INPLACE("mul.Tensor", V(b->flat), V(part))) return -1;
    b->work = rush_dist_start(r->group, &(rush_collective){.kind = RUSH_DIST_ALL_REDUCE, .nout = 1, .out = &b->flat});
    return b->work ? 0 : -1;
}

static int finish_bucket(rush_reducer *r, int i)
{
    bucket *b = &r->buckets[i];
    if (r->o.begin) return r->o.finish(r->o.arg, i);
    int failed = rush_work_wait(b->work, 0);
    rush_work_drop(b->work);
    b->work = NULL;
    return failed;
}

/* Which parameters had a part on any rank; the others' gradients stay as they were. */
static int share_used(rush_reducer *r)
{
    if (!r->o.find_unused) return 0;
    rush_tensor *used = rush_tensor_new(RUSH_I32, (rush_device){RUSH_CPU, -1}, 1, (int64_t[]){r->n}), *sum = used;
    if (!used) return -1;
    int32_t *p = rush_data(used);
    for (int i = 0; i < r->n; i++) p[i] = r->slots[i].used;
    if (!r->group->backend) sum = rush_tensor_new(RUSH_I32, rush_device_of(r->buckets[0].flat), 1, rush_sizes(used)); /* it takes tensors of devices only */
    if (!sum || (sum != used && rush_copy_into(sum, used)) || rush_dist_all_reduce(r->group, sum, RUSH_REDUCE_SUM) || (sum != used && rush_copy_into(used, sum))) return -1;
    for (int i = 0; i < r->n; i++) r->slots[i].used = p[i] > 0;
    return 0;
}

static int put_back(slot *s)
{
    rush_tensor *grad = rush_grad(s->t), *mean;
    if (!s->used) return 0;
    if (!grad) {
        grad = rush_tensor_new(rush_dtype_of(s->t), rush_device_of(s->t), rush_ndim(s->t), rush_sizes(s->t));
        if (!grad || rush_grad_set(s->t, grad)) return -1;
    }
    mean = view_of(s, grad);
    return mean ? rush_copy_into(grad, mean) : -1;
}

static int finish(rush_reducer *r)
{
    int failed = share_used(r);
    for (int i = 0; i < r->nbuckets; i++)
        if (finish_bucket(r, i)) failed = -1;
    for (int i = 0; i < r->n && !failed; i++) failed = put_back(&r->slots[i]);
    rearm(r);
    return failed;
}

/* A parameter's part of its bucket is there. */
static int ready(slot *s)
{
    rush_reducer *r = s->r;
    s->ready = r->busy = true;
    if (r->ncame < r->n) r->came[r->ncame++] = (int)(s - r->slots);
    r->left--;
    r->buckets[s->bucket].waiting--;
    int failed = 0;
    for (; r->next < r->nbuckets && !r->buckets[r->next].waiting && !failed; r->next++) failed = begin_bucket(r, r->next);
    if (!failed && !r->left) failed = finish(r);
    return failed;
}

static int gradient_is_there(void *arg, rush_node *node, rush_tensor **g, int ng, rush_tensor **gin, int ngin)
{
    slot *s = arg;
    rush_reducer *r = s->r;
    rush_tensor *grad = rush_grad(s->t);
    if (!r->on || !grad) return 0;
    RUSH_CHECK(!s->ready, RUSH_RUNTIME_ERROR, "Expected to mark a variable ready only once. Parameter %d got a second gradient before all others had one: it is "
               "shared between passes, or was said to have no part in this one.", (int)(s - r->slots));
    int failed = -1;
    rush_scope() {
        rush_tensor *view = view_of(s, grad);
        if (view && !rush_copy_into(view, grad)) failed = 0;
        s->used = true;
        failed = failed || ready(s) ? -1 : 0;
    }
    return failed;
}

/* ---- which parameters have a part ---- */

typedef struct seen { /* nodes of a graph: a set, and a stack of those to look at */
    rush_node **set, **stack;
    size_t room, n, top;
} seen;

static bool insert(seen *s, rush_node *node)
{
    size_t i = (uintptr_t)node / 16 * 0x9e3779b97f4a7c15u & (s->room - 1);
    while (s->set[i] && s->set[i] != node) i = (i + 1) & (s->room - 1);
    if (s->set[i]) return false;
    s->set[i] = node;
    s->n++;
    return true;
}

static int see(seen *s, rush_node *node)
{
    if (!node) return 0;
    if (2 * (s->n + 1) > s->room) {
        seen larger = {.room = s->room ? 2 * s->room : 256, .top = s->top};
        larger.set = rush_calloc(larger.room, sizeof *larger.set);
        larger.stack = larger.set ? rush_realloc(s->stack, larger.room * sizeof *larger.stack) : NULL;
        if (!larger.stack) return rush_free(larger.set), -1;
        for (size_t i = 0; i < s->room; i++)
            if (s->set[i]) insert(&larger, s->set[i]);
        rush_free(s->set);
        *s = larger;
    }
    if (insert(s, node)) s->stack[s->top++] = node;
    return 0;
}

static int zero(const slot *s)
{
    rush_tensor *view = view_of(s, s->t);
    if (!view) return -1;
    if (view->device.type != RUSH_CPU) return rush_device_fill(view, (rush_value){.kind = RUSH_V_INT});
    memset(rush_data(view), 0, (size_t)s->n * rush_dtype_size(rush_dtype_of(view)));
    return 0;
}

static int mark_unused(rush_reducer *r, int n, rush_tensor *const *results)
{
    seen s = {0};
    int failed = 0;
    for (int i = 0; i < n && !failed; i++)
        if (results[i]->ag) failed = see(&s, results[i]->ag->fn ? results[i]->ag->fn : results[i]->ag->accumulator);
    while (s.top && !failed) {
        rush_node *node = s.stack[--s.top];
        for (int e = 0; e < node->nedge && !failed; e++) failed = see(&s, node->edge[e].node);
    }
    for (int i = 0; i < r->n && !failed; i++) {
        rush_node *own = r->slots[i].t->ag ? r->slots[i].t->ag->accumulator : NULL;
        if (own && s.room && !insert(&s, own)) continue; /* it was there */
        rush_scope() failed = zero(&r->slots[i]) || ready(&r->slots[i]);
    }
    rush_free(s.set);
    rush_free(s.stack);
    return failed;
}

int rush_reducer_prepare(rush_reducer *r, int n, rush_tensor *const *results)
{
    if (!r->on) return 0;
    if (r->busy) {
        char list[200] = "";
        size_t at = 0;
        for (int i = 0; i < r->n && at < 180; i++)
            if (!r->slots[i].ready) at += (size_t)snprintf(list + at, sizeof list - at, " %d", i);
        rush_fail(RUSH_RUNTIME_ERROR, "Expected to have finished reduction in the prior iteration before starting a new one. This error indicates that your module "
                  "has parameters that were not used in producing loss: those at the indices%s. Pass find_unused_parameters=True, and see that all results "
                  "of forward have a part in the loss.", list);
        return -1;
    }
    return r->o.find_unused ? mark_unused(r, n, results) : 0;
}

/* ---- making one ---- */

/* Parameters in their order; a bucket ends when it is full, and where the dtype or the device changes. */
static int deal(rush_reducer *r)
{
    double full = r->o.first_bucket > 0 ? r->o.first_bucket : 1 << 20;
    for (int i = 0; i < r->n;) {
        bucket *b = &r->buckets[r->nbuckets];
        rush_dtype dtype = rush_dtype_of(r->slots[r->order[i]].t);
        rush_device device = rush_device_of(r->slots[r->order[i]].t);
        int64_t numbers = 0;
        bool more = true;
        b->first = i;
        for (; more && i < r->n; i++) {
            slot *s = &r->slots[r->order[i]];
            if (rush_dtype_of(s->t) != dtype || !rush_same_device(rush_device_of(s->t), device)) break;
            s->bucket = r->nbuckets;
            s->at = numbers;
            numbers += s->n;
            b->n++;
            more = r->o.nbuckets ? b->n < r->o.counts[RUSH_MIN(r->nbuckets, r->o.nbuckets - 1)] : (double)numbers * (double)rush_dtype_size(dtype) < full;
        }
        b->flat = rush_keep(rush_tensor_new(dtype, device, 1, &numbers));
        if (!b->flat) return -1;
        r->nbuckets++;
        full = r->o.bucket > 0 ? r->o.bucket : 25 << 20;
    }
    return 0;
}

static int hook(slot *s)
{
    static atomic_ullong ids = 1ull << 41; /* other than those of gradient hooks and of Python's */
    rush_autograd *ag = rush_autograd_of(s->t);
    rush_node_hook *h = ag ? rush_calloc(1, sizeof *h) : NULL;
    if (!h) return -1;
    *h = (rush_node_hook){.call = gradient_is_there, .arg = s, .id = s->hook = atomic_fetch_add(&ids, 1), .slot = -1};
    rush_node_hook **list = &ag->post_accumulate;
    while (*list) list = &(*list)->next;
    *list = h;
    return 0;
}

rush_reducer *rush_reducer_new(rush_group *g, int n, rush_tensor *const *parameters, const rush_reducer_options *o)
{
    if (rush_failed()) return NULL;
    rush_reducer *r = rush_calloc(1, sizeof *r);
    if (!r) return NULL;
    r->group = rush_group_keep(g);
    r->o = *o;
    r->on = true;
    r->slots = rush_calloc((size_t)n + 1, sizeof *r->slots);
    r->buckets = rush_calloc((size_t)n + 1, sizeof *r->buckets);
    r->order = rush_malloc(2 * ((size_t)n + 1) * sizeof *r->order);
    int failed = !r->slots || !r->buckets || !r->order;
    if (!failed) r->came = r->order + n;
    for (int i = 0; i < n && !failed; i++, r->n++) {
        r->slots[i] = (slot){.t = rush_keep(parameters[i]), .r = r, .n = rush_numel(parameters[i])};
        r->order[i] = o->nbuckets ? o->order[i] : n - 1 - i;
    }
    rush_scope() failed = failed || deal(r);
    for (int i = 0; i < n && !failed; i++) failed = hook(&r->slots[i]);
    rearm(r);
    if (!failed) return r;
    rush_reducer_drop(r);
    return NULL;
}

void rush_reducer_drop(rush_reducer *r)
{
    if (!r) return;
    for (int i = 0; i < r->n; i++) {
        if (r->slots[i].hook && r->slots[i].t->ag) rush_node_hook_remove(&r->slots[i].t->ag->post_accumulate, r->slots[i].hook);
        rush_drop(r->slots[i].t);
    }
    for (int i = 0; i < r->nbuckets; i++) {
        rush_work_drop(r->buckets[i].work);
        rush_drop(r->buckets[i].flat);
    }
    rush_free(r->slots);
    rush_free(r->buckets);
    rush_free(r->order);
    rush_group_drop(r->group);
    rush_free(r);
}

void rush_reducer_sync(rush_reducer *r, bool on) { r->on = on; }
int rush_reducer_buckets(const rush_reducer *r) { return r->nbuckets; }
rush_tensor *rush_reducer_bucket(const rush_reducer *r, int i) { return r->buckets[i].flat; }

int rush_reducer_parameters(const rush_reducer *r, int i, const int **numbers)
{
    *numbers = r->order + r->buckets[i].first;
    return r->buckets[i].n;
}

int rush_reducer_came(const rush_reducer *r, const int **numbers)
{
    *numbers = r->came;
    return r->ncame;
}

void rush_reducer_hooks(rush_reducer *r, int (*begin)(void *, int), int (*end)(void *, int), void *arg)
{
    r->o.begin = begin;
    r->o.finish = end;
    r->o.arg = arg;
}

/* ---- modules ---- */

/* Values of rank 0 for all. */
static int broadcast_all(rush_group *g, rush_state s)
{
    for (int i = 0; i < s.n; i++)
        if (rush_dist_broadcast(g, s.tensor[i], 0)) return -1;
    return 0;
}

rush_reducer *rush_ddp(rush_group *g, rush_module *m)
{
    rush_reducer *r = NULL;
    RUSH_CHECK_NULL(g, RUSH_TYPE_ERROR, "there is no group (NULL)");
    RUSH_CHECK_NULL(!rush_group_foreign(g), RUSH_NOT_IMPLEMENTED, "rush_ddp: a rank of this group is not rushlight's; in Python, DistributedDataParallel can do that");
    rush_scope() {
        rush_state state = rush_module_state(m);
        rush_tensors all = rush_parameters(m);
        int n = 0;
        for (size_t i = 0; i < all.n; i++)
            if (rush_requires_grad(all.data[i])) all.data[n++] = all.data[i];
        if (rush_failed() || broadcast_all(g, state)) continue;
        if (!n) rush_fail(RUSH_RUNTIME_ERROR, "rush_ddp: the module has no parameters that require a gradient");
        r = rush_reducer_new(g, n, all.data, &(rush_reducer_options){0});
    }
    return r;
}
