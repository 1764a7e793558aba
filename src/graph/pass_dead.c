/* pass_dead.c - nodes whose results nobody asks for are left out, and so are the program's tensors that nothing reads. */
#include "graph/pass.h"

static bool wanted(const rush_graph_node *node, const uint32_t *uses)
{
    if (!rush_node_is_pure(node)) return true;
    for (uint32_t i = 0; i < node->nout; ++i)
        if (node->out[i] != RUSH_NO_VALUE && uses[node->out[i]]) return true;
    return false;
}

/* Results say by number which input they change: with such, inputs stay. */
static void drop_inputs(rush_program *p, const uint32_t *uses)
{
    rush_graph *g = p->graph;
    uint32_t left = 0;
    for (uint32_t i = 0; i < g->nout; ++i)
        if (p->out[i].into >= 0) return;
    for (uint32_t i = 0; i < g->nin; ++i) {
        if (p->in[i].part && g->in[i] != RUSH_NO_VALUE && !uses[g->in[i]]) continue;
        g->in[left] = g->in[i];
        p->in[left++] = p->in[i];
    }
    g->nin = left;
}

static int run(rush_module *m, rush_program *p)
{
    rush_graph *g = p->graph;
    bool *drop = rush_scope_alloc(g->nnodes + 1);
    int changes = 0;
    if (!drop) return -1;
    for (bool again = true; again;) {
        const uint32_t *uses = rush_graph_uses(g);
        if (!uses) return -1;
        again = false;
        for (uint32_t k = 0; k < g->nnodes; ++k) {
            drop[k] = !wanted(&g->node[k], uses);
            again |= drop[k];
            changes += drop[k];
        }
        rush_graph_drop_nodes(g, drop);
    }
    const uint32_t *uses = rush_graph_uses(g);
    if (!uses) return -1;
    drop_inputs(p, uses);
    return changes;
}

const rush_graph_pass rush_pass_dead = {.name = "dead code", .run = run};
