/* pass_constants.c - what follows from the program's tensors alone is computed once. */
#include "graph/pass.h"
#include "tensor/tensor.h"

enum { SMALL = 1 << 16 };

/* Of constants alone? `bytes` sums up those of tensors. */
static bool known(const rush_operand *o, const rush_value *v, int64_t *numel)
{
    if (o->kind == RUSH_OPERAND_CONSTANT) return true;
    if (o->kind == RUSH_OPERAND_VALUE) {
        if (v[o->value].kind == RUSH_V_TENSOR) *numel += v[o->value].t->numel;
        return v[o->value].kind != RUSH_V_NONE;
    }
    for (uint32_t i = 0; i < o->n; ++i)
        if (!known(&o->item[i], v, numel)) return false;
    return true;
}

static bool worth_it(const rush_graph_node *node, const rush_value *v, int64_t numel)
{
    int64_t made = 0;
    for (uint32_t i = 0; i < node->nout; ++i)
        if (node->out[i] != RUSH_NO_VALUE && v[node->out[i]].kind == RUSH_V_TENSOR) made += v[node->out[i]].t->numel;
    return made <= RUSH_MAX(numel, SMALL);
}

static void forget(const rush_graph_node *node, rush_value *v)
{
    for (uint32_t i = 0; i < node->nout; ++i) {
        if (node->out[i] == RUSH_NO_VALUE) continue;
        if (v[node->out[i]].kind == RUSH_V_TENSOR) rush_drop(v[node->out[i]].t);
        v[node->out[i]] = RUSH_NONE;
    }
}

/* Numbers stay where they are: only tensors can be the program's. */
static bool makes_tensors(const rush_graph *g, const rush_graph_node *node)
{
    for (uint32_t i = 0; i < node->nout; ++i)
        if (node->out[i] != RUSH_NO_VALUE && g->value[node->out[i]].type != RUSH_A_TENSOR) return false;
    return node->form == RUSH_NODE_CALL;
}

/* Gives the program those of the computed tensors that other nodes read. */
static int keep(rush_module *m, rush_program *p, const rush_value *v, uint32_t nvalues, const bool *made)
{
    const uint32_t *uses = rush_graph_uses(p->graph);
    for (uint32_t i = 0; uses && i < nvalues; ++i) {
        if (!made[i] || !uses[i]) continue;
        uint32_t c = rush_program_constant(m, p, p->graph->value[i].name, v[i].t);
        if (c == RUSH_NO_VALUE) return -1;
        rush_graph_replace(p->graph, 0, i, c);
    }
    return uses ? 0 : -1;
}

static int fold(rush_module *m, rush_program *p, rush_value *v, bool *made, bool *drop)
{
    rush_graph *g = p->graph;
    uint32_t nvalues = g->nvalues;
    int changes = 0;
    for (uint32_t i = 0; i < g->nin; ++i) {
        rush_tensor *t = g->in[i] == RUSH_NO_VALUE ? NULL : rush_program_tensor(p, g->in[i]);
        if (t) v[g->in[i]] = rush_v_tensor(rush_keep(t));
    }
    for (uint32_t k = 0; k < g->nnodes; ++k) {
        const rush_graph_node *node = &g->node[k];
        int64_t numel = 0;
        bool all = rush_node_is_pure(node) && makes_tensors(g, node);
        for (uint32_t i = 0; all && i < node->nin; ++i) all = known(&node->in[i], v, &numel);
        if (!(drop[k] = all)) continue;
        if (rush_graph_run_node(g, k, v)) return -1;
        if (!(drop[k] = worth_it(node, v, numel))) {
            forget(node, v);
            continue;
        }
        for (uint32_t i = 0; i < node->nout; ++i)
            if (node->out[i] != RUSH_NO_VALUE) made[node->out[i]] = v[node->out[i]].kind == RUSH_V_TENSOR;
        ++changes;
    }
    rush_graph_drop_nodes(g, drop);
    return keep(m, p, v, nvalues, made) ? -1 : changes;
}

static int run(rush_module *m, rush_program *p)
{
    const rush_graph *g = p->graph;
    uint32_t nvalues = g->nvalues, mode = rush_now.mode;
    rush_value *v = rush_calloc(nvalues + 1, sizeof *v);
    bool *made = rush_calloc(nvalues + 1, sizeof *made), *drop = rush_calloc(g->nnodes + 1, sizeof *drop);
    int changes = v && made && drop ? 0 : -1;
    rush_now.mode |= RUSH_MODE_NO_GRAD;
    if (!changes && !rush_graph_writes(g)) changes = fold(m, p, v, made, drop);
    rush_now.mode = mode;
    for (uint32_t i = 0; v && i < nvalues; ++i)
        if (v[i].kind == RUSH_V_TENSOR) rush_drop(v[i].t);
    rush_free(v);
    rush_free(made);
    rush_free(drop);
    return changes;
}

const rush_graph_pass rush_pass_constants = {.name = "constants", .when = RUSH_PASS_FROZEN, .run = run};
