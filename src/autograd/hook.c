/* hook.c - hooks of C programs on gradients. */
#include "autograd/autograd.h"

typedef struct c_hook {
    rush_hook_fn fn;
    void *arg;
    void (*end)(void *);
} c_hook;

static int call(void *arg, rush_node *node, rush_tensor **g, int ng, rush_tensor **gin, int ngin)
{
    c_hook *h = arg;
    if (!*g) return 0;
    rush_tensor *other = h->fn(h->arg, *g);
    if (rush_failed()) return -1;
    if (!other || other == *g) return 0;
    RUSH_CHECK(rush_same_sizes(other, *g) && other->dtype == (*g)->dtype, RUSH_RUNTIME_ERROR, "a hook returned a gradient of another size or dtype");
    *g = other;
    return 0;
}

static void end(void *arg)
{
    c_hook *h = arg;
    if (h->end) h->end(h->arg);
    rush_free(h);
}

uint64_t rush_hook_add(rush_tensor *t, rush_hook_fn fn, void *arg, void (*at_end)(void *))
{
    if (rush_failed() || !rush_tensor_given(t)) return 0;
    if (!fn) return rush_fail(RUSH_TYPE_ERROR, "a hook without a function (NULL)"), 0;
    if (!rush_wants_grad(t)) return rush_fail(RUSH_RUNTIME_ERROR, "a hook of a tensor that doesn't require gradients"), 0;
    c_hook *h = rush_malloc(sizeof *h);
    rush_node_hook *hook = rush_calloc(1, sizeof *hook);
    if (h) *h = (c_hook){fn, arg, at_end};
    if (hook) *hook = (rush_node_hook){.call = call, .free = end, .arg = h, .slot = -1};
    uint64_t id = h && hook ? rush_tensor_hook(t, hook) : 0;
    if (!id) rush_free(h), rush_free(hook);
    return id;
}

int rush_hook_remove(rush_tensor *t, uint64_t id)
{
    if (rush_failed() || !rush_tensor_given(t)) return -1;
    rush_node *fn = t->ag ? rush_grad_fn(t) : NULL;
    rush_node_hook **list = fn ? &fn->hooks : t->ag ? &t->ag->hooks : NULL;
    for (rush_node_hook *h = list ? *list : NULL; h; h = h->next)
        if (h->id == id && h->call == call) return rush_node_hook_remove(list, id), 0;
    return rush_fail(RUSH_VALUE_ERROR, "the tensor has no hook %llu", (unsigned long long)id);
}
