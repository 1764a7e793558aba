/* pass_common.c - of two nodes that compute the same from the same, the second is left out. */
#include "graph/pass.h"

static bool same(const rush_graph_node *a, const rush_graph_node *b)
{
    if (a->form != b->form || a->op != b->op || a->run != b->run || a->nin != b->nin || a->nout != b->nout || a->list != b->list) return false;
    for (uint32_t i = 0; i < a->nin; ++i)
        if (!rush_operand_same(&a->in[i], &b->in[i])) return false;
    for (uint32_t i = 0; i < a->nout; ++i)
        if (a->out[i] == RUSH_NO_VALUE && b->out[i] != RUSH_NO_VALUE) return false;
    return true;
}

/* Results are objects that their owner may change: each stays one of its own. */
static bool is_result(const rush_graph *g, const rush_graph_node *node)
{
    for (uint32_t i = 0; i < g->nout; ++i)
        for (uint32_t k = 0; k < node->nout; ++k)
            if (g->out[i].kind == RUSH_OPERAND_VALUE && g->out[i].value == node->out[k]) return true;
    return false;
}

static int run(rush_module *m, rush_program *p)
{
    rush_graph *g = p->graph;
    bool *drop = rush_scope_alloc(g->nnodes + 1);
    int changes = 0;
    if (!drop) return -1;
    if (rush_graph_writes(g)) return 0;
    for (uint32_t k = 0; k < g->nnodes; ++k) {
        drop[k] = false;
        rush_graph_node *node = &g->node[k];
        if (!rush_node_is_pure(node) || is_result(g, node)) continue;
        for (uint32_t j = 0; j < k && !drop[k]; ++j) {
            if (drop[j] || !same(&g->node[j], node)) continue;
            for (uint32_t i = 0; i < node->nout; ++i)
                if (node->out[i] != RUSH_NO_VALUE) rush_graph_replace(g, 0, node->out[i], g->node[j].out[i]);
            drop[k] = true;
            ++changes;
        }
    }
    rush_graph_drop_nodes(g, drop);
    return changes;
}

const rush_graph_pass rush_pass_common = {.name = "common subexpressions", .run = run};
