/* summary_graph.c - graphs to look at: a network's modules, and the operations behind a result.
 *
 * Both are walked once into GraphDef nodes (for TensorBoard) or dot's text. Nodes of a backward graph are named
 * after the operation and numbered in the order in which the walk meets them.
 */
#include "autograd/autograd.h"
#include "io/summary_file.h"
#include "nn/module.h"
#include "base/text.h"

#include <stdarg.h>

static int write_graph(rush_summary *s, rush_bytes *graph)
{
    rush_bytes event = {0}, versions = {0};
    rush_pb_int(&versions, 1, 22);
    rush_pb_message(graph, 4, &versions);
    rush_pb_double(&event, 1, s && s->wall ? s->wall : rush_wall_time());
    rush_pb_message(&event, 4, graph);
    int failed = event.lost || rush_failed() ? -1 : rush_summary_event(s, event.p, event.n);
    rush_bytes_end(&event);
    return failed;
}

/* ---- modules ---- */

static void add_shape(rush_bytes *node, const rush_tensor *t)
{
    rush_bytes attribute = {0}, value = {0}, list = {0}, shape = {0};
    for (int d = 0; d < t->ndim; d++) {
        rush_bytes dim = {0};
        rush_pb_int(&dim, 1, t->size[d]);
        rush_pb_message(&shape, 2, &dim);
    }
    rush_pb_message(&list, 7, &shape);
    rush_pb_message(&value, 1, &list);
    rush_pb_text(&attribute, 1, "_output_shapes");
    rush_pb_message(&attribute, 2, &value);
    rush_pb_message(node, 5, &attribute);
}

static void add_modules(rush_bytes *graph, rush_module *m, const char *path)
{
    char name[1024];
    rush_bytes node = {0};
    snprintf(name, sizeof name, "%s/%s", path, m->kind->name);
    rush_pb_text(&node, 1, name);
    rush_pb_text(&node, 2, m->kind->name);
    for (int i = 0; i < m->nslots; i++) {
        if (!m->slots[i].t || m->slots[i].what == SLOT_SCRATCH) continue;
        rush_bytes own = {0};
        snprintf(name, sizeof name, "%s/%s", path, m->slots[i].name);
        rush_pb_text(&own, 1, name);
        rush_pb_text(&own, 2, m->slots[i].what == SLOT_PARAMETER ? "Parameter" : "Buffer");
        add_shape(&own, m->slots[i].t);
        rush_pb_message(graph, 1, &own);
        rush_pb_text(&node, 3, name);
    }
    rush_pb_message(graph, 1, &node);
    for (int i = 0; i < m->nchildren; i++) {
        snprintf(name, sizeof name, "%s/%s", path, m->children[i].name);
        add_modules(graph, m->children[i].module, name);
    }
}

int rush_summary_module(rush_summary *s, rush_module *m)
{
    if (rush_failed()) return -1;
    if (!rush_summary_given(s)) return -1;
    if (!rush_module_name(m)) return -1;
    rush_bytes graph = {0};
    add_modules(&graph, m, m->kind->name);
    return write_graph(s, &graph);
}

/* ---- what made a result ---- */

typedef struct walk {
    rush_node **node; /* in the order met: index is the number */
    size_t n, room;
    size_t *slot, slots; /* open hash from node to number + 1 */
} walk;

static size_t *find(walk *w, const rush_node *n)
{
    size_t at = ((uintptr_t)n >> 4) * 0x9e3779b97f4a7c15u >> 20 & (w->slots - 1);
    while (w->slot[at] && w->node[w->slot[at] - 1] != n) at = (at + 1) & (w->slots - 1);
    return &w->slot[at];
}

static int grow(walk *w)
{
    size_t room = w->room ? w->room * 2 : 256;
    rush_node **node = rush_realloc(w->node, room * sizeof *node);
    if (node) w->node = node;
    size_t *slot = node ? rush_calloc(room * 4, sizeof *slot) : NULL;
    if (!slot) return -1;
    rush_free(w->slot);
    w->slot = slot;
    w->slots = room * 4;
    w->room = room;
    for (size_t i = 0; i < w->n; i++) *find(w, w->node[i]) = i + 1;
    return 0;
}

static int meet(walk *w, rush_node *n)
{
    if (w->n == w->room && grow(w)) return -1;
    size_t *place = find(w, n);
    if (*place) return 0;
    w->node[w->n++] = n;
    *place = w->n;
    return 0;
}

/* All nodes behind t, nearest first. */
static int collect(walk *w, const rush_tensor *t)
{
    rush_node *root = t->ag ? t->ag->fn : NULL;
    RUSH_CHECK(root, RUSH_RUNTIME_ERROR, "the tensor was not made by recorded operations: it has no graph");
    int failed = meet(w, root);
    for (size_t i = 0; !failed && i < w->n; i++)
        for (int k = 0; !failed && k < w->node[i]->nedge; k++)
            if (w->node[i]->edge[k].node) failed = meet(w, w->node[i]->edge[k].node);
    return failed;
}

static void walk_end(walk *w)
{
    rush_free(w->node);
    rush_free(w->slot);
}

static const char *name_of(const rush_node *n) { return n->kind == &rush_accumulate_kind ? "leaf" : n->name ? n->name : n->kind->name(n); }

int rush_summary_graph(rush_summary *s, const rush_tensor *result)
{
    if (rush_failed()) return -1;
    if (!rush_summary_given(s)) return -1;
    if (!rush_tensor_given(result)) return -1;
    walk w = {0};
    rush_bytes graph = {0};
    int failed = collect(&w, result);
    for (size_t i = 0; !failed && i < w.n; i++) {
        rush_node *n = w.node[i];
        rush_bytes node = {0};
        char name[256];
        snprintf(name, sizeof name, "%s_%zu", name_of(n), i);
        rush_pb_text(&node, 1, name);
        rush_pb_text(&node, 2, name_of(n));
        for (int k = 0; k < n->nedge; k++)
            if (n->edge[k].node) {
                snprintf(name, sizeof name, "%s_%zu", name_of(n->edge[k].node), *find(&w, n->edge[k].node) - 1);
                rush_pb_text(&node, 3, name);
            }
        if (n->kind == &rush_accumulate_kind && n->data) add_shape(&node, n->data);
        else if (n->nout && n->shape && n->shape[0]) add_shape(&node, n->shape[0]);
        rush_pb_message(&graph, 1, &node);
    }
    if (!failed) failed = write_graph(s, &graph);
    else rush_bytes_end(&graph);
    walk_end(&w);
    return failed;
}

static void add_line(rush_bytes *b, const char *format, ...) RUSH_PRINTF(2, 3);
static void add_line(rush_bytes *b, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    int n = rush_vsnprintf(text, sizeof text, format, args);
    va_end(args);
    rush_bytes_add(b, text, RUSH_MIN((size_t)RUSH_MAX(n, 0), sizeof text - 1));
}

int64_t rush_graph_dot(const rush_tensor *result, char *buf, size_t size)
{
    if (rush_failed()) return -1;
    if (!rush_tensor_given(result)) return -1;
    if (!buf) size = 0;
    walk w = {0};
    rush_bytes b = {0};
    int64_t length = -1;
    int failed = collect(&w, result);
    add_line(&b, "digraph backward {\n    rankdir=TB\n    node [shape=box, style=filled, fillcolor=lightgrey, fontsize=10]\n");
    if (!failed) add_line(&b, "    result [label=\"result %s\", fillcolor=darkolivegreen1]\n    result -> n0\n", rush_shape_of(result));
    for (size_t i = 0; !failed && i < w.n; i++) {
        rush_node *n = w.node[i];
        bool leaf = n->kind == &rush_accumulate_kind && n->data;
        if (leaf) add_line(&b, "    n%zu [label=\"leaf %s\", fillcolor=lightblue]\n", i, rush_shape_of((rush_tensor *)n->data));
        else add_line(&b, "    n%zu [label=\"%s\"]\n", i, name_of(n));
        for (int k = 0; k < n->nedge; k++)
            if (n->edge[k].node) add_line(&b, "    n%zu -> n%zu\n", i, *find(&w, n->edge[k].node) - 1);
    }
    add_line(&b, "}\n");
    if (!failed && !b.lost) {
        length = (int64_t)b.n;
        if (size) {
            size_t n = RUSH_MIN(b.n, size - 1);
            memcpy(buf, b.p, n);
            buf[n] = 0;
        }
    }
    rush_bytes_end(&b);
    walk_end(&w);
    return length;
}
