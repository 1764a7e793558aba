/* graph.c - the life of a graph: its memory, and what is made sure of before it runs. */
#include "graph/graph.h"

rush_graph *rush_graph_new(rush_graph *outer)
{
    rush_graph *g = outer ? rush_graph_alloc(outer, sizeof *g) : rush_calloc(1, sizeof *g);
    if (g) g->outer = outer;
    return g;
}

void rush_graph_free(rush_graph *g)
{
    if (!g) return;
    rush_arena_free(&g->arena);
    rush_free(g);
}

void *rush_graph_alloc(rush_graph *g, size_t bytes) { return rush_arena_alloc(&rush_graph_root(g)->arena, bytes); }

const char *rush_graph_copy(rush_graph *g, const char *s) { return s ? rush_arena_copy(&rush_graph_root(g)->arena, s, strlen(s)) : NULL; }

int32_t rush_graph_symbol_named(rush_graph *g, const char *name, size_t n)
{
    g = rush_graph_root(g);
    for (uint32_t k = 0; k < g->nsymbols; ++k)
        if (strlen(g->symbol[k].name) == n && !strncmp(g->symbol[k].name, name, n)) return (int32_t)k;
    if (g->nsymbols % 16 == 0) {
        rush_graph_symbol *more = rush_graph_alloc(g, (g->nsymbols + 16) * sizeof *more);
        if (!more) return -1;
        if (g->nsymbols) memcpy(more, g->symbol, g->nsymbols * sizeof *more);
        g->symbol = more;
    }
    const char *copy = rush_arena_copy(&g->arena, name, n);
    if (!copy) return -1;
    g->symbol[g->nsymbols] = (rush_graph_symbol){copy, 0, INT64_MAX};
    return (int32_t)g->nsymbols++;
}

/* ---- values are made once, before they are used, and end at their last use ---- */

typedef struct lives {
    bool *made;
    uint32_t *last; /* the node that uses it last; RUSH_NO_VALUE: a result of the graph, or never */
} lives;

static int use(const rush_graph *g, lives *l, const rush_operand *o, uint32_t node)
{
    if (o->kind == RUSH_OPERAND_LIST)
        for (uint32_t i = 0; i < o->n; ++i)
            if (use(g, l, &o->item[i], node)) return -1;
    if (o->kind != RUSH_OPERAND_VALUE) return 0;
    RUSH_CHECK(o->value < g->nvalues && l->made[o->value], RUSH_VALUE_ERROR, "a graph uses the value '%s' before it is made",
               o->value < g->nvalues ? g->value[o->value].name : "?");
    l->last[o->value] = node;
    return 0;
}

static int make(const rush_graph *g, lives *l, uint32_t v)
{
    if (v == RUSH_NO_VALUE) return 0;
    RUSH_CHECK(v < g->nvalues && !l->made[v], RUSH_VALUE_ERROR, "a graph makes the value '%s' twice", v < g->nvalues ? g->value[v].name : "?");
    return l->made[v] = true, 0;
}

static int follow(rush_graph *g, lives *l)
{
    for (uint32_t i = 0; i < g->nin; ++i)
        if (make(g, l, g->in[i])) return -1;
    for (uint32_t k = 0; k < g->nnodes; ++k) {
        const rush_graph_node *node = &g->node[k];
        for (uint32_t i = 0; i < node->nin; ++i)
            if (use(g, l, &node->in[i], k)) return -1;
        for (uint32_t i = 0; i < node->nout; ++i) {
            if (make(g, l, node->out[i])) return -1;
            if (node->out[i] != RUSH_NO_VALUE) l->last[node->out[i]] = k; /* a result that nothing uses ends at once */
        }
    }
    for (uint32_t i = 0; i < g->nout; ++i)
        if (use(g, l, &g->out[i], RUSH_NO_VALUE)) return -1;
    return 0;
}

/* May the result take the first argument's place, if it is nobody else's when the program runs? */
static bool may_reuse(const rush_graph *g, const rush_graph_node *node, uint32_t k, const lives *l)
{
    const rush_op *op = node->op;
    bool pointwise = node->form == RUSH_NODE_CALL && op && op->row && !op->run && op->cpu && op->nout == 1 && op->flags & RUSH_STRIDED_OUT && !(op->flags & RUSH_INPLACE_OK);
    if (!pointwise || !node->nin || node->in[0].kind != RUSH_OPERAND_VALUE || l->last[node->in[0].value] != k || node->out[0] == RUSH_NO_VALUE) return false;
    const rush_graph_value *a = &g->value[node->in[0].value], *b = &g->value[node->out[0]];
    for (uint32_t i = 1; i < node->nin; ++i)
        if (node->in[i].kind == RUSH_OPERAND_LIST || (node->in[i].kind == RUSH_OPERAND_VALUE && node->in[i].value == node->in[0].value)) return false;
    return a->ndim >= 0 && a->ndim == b->ndim && a->dtype == b->dtype && rush_dtypes[a->dtype].category == 2;
}

int rush_graph_finish(rush_graph *g)
{
    lives l = {rush_calloc(RUSH_MAX(g->nvalues, 1u), sizeof *l.made), rush_malloc(RUSH_MAX(g->nvalues, 1u) * sizeof *l.last)};
    int failed = !l.made || !l.last;
    if (!failed) {
        memset(l.last, 0xff, g->nvalues * sizeof *l.last);
        for (uint32_t k = 0; k < g->nnodes; ++k) g->node[k].nends = 0;
        failed = follow(g, &l);
    }
    for (uint32_t v = 0; !failed && v < g->nvalues; ++v)
        if (l.last[v] != RUSH_NO_VALUE) ++g->node[l.last[v]].nends;
    for (uint32_t k = 0; !failed && k < g->nnodes; ++k) {
        rush_graph_node *node = &g->node[k];
        node->reuses = may_reuse(g, node, k, &l);
        if (node->nends && !(node->ends = rush_graph_alloc(g, node->nends * sizeof *node->ends))) failed = 1;
        node->nends = 0;
    }
    for (uint32_t v = 0; !failed && v < g->nvalues; ++v) {
        if (l.last[v] == RUSH_NO_VALUE) continue;
        rush_graph_node *node = &g->node[l.last[v]];
        node->ends[node->nends++] = v;
    }
    rush_free(l.made);
    rush_free(l.last);
    return failed ? -1 : 0;
}
