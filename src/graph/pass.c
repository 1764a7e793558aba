/* pass.c - the list of passes, and what they have in common. */
#include "graph/pass.h"
#include "tensor/backend.h"
#include "tensor/tensor.h"

#include <stdio.h>

static const rush_graph_pass *const passes[] = {
    &rush_pass_functional,
    &rush_pass_common,
    &rush_pass_constants,
    &rush_pass_batch_norm,
    &rush_pass_layout,
    &rush_pass_dead,
};

int rush_passes_run(rush_module *m, rush_program *p, enum rush_pass_when most)
{
    for (size_t i = 0; i < RUSH_COUNT(passes); ++i) {
        if (passes[i]->when > most) continue;
        size_t mark = rush_scope_open();
        int changes = passes[i]->run(m, p);
        rush_scope_close(mark);
        if (changes < 0) return -1;
    }
    return rush_graph_finish(p->graph);
}

/* ---- looking ---- */

static void count(uint32_t *uses, const rush_operand *o)
{
    if (o->kind == RUSH_OPERAND_VALUE) ++uses[o->value];
    if (o->kind == RUSH_OPERAND_LIST)
        for (uint32_t i = 0; i < o->n; ++i) count(uses, &o->item[i]);
}

uint32_t *rush_graph_uses(const rush_graph *g)
{
    uint32_t *uses = rush_scope_alloc((g->nvalues + 1) * sizeof *uses);
    if (!uses) return NULL;
    memset(uses, 0, g->nvalues * sizeof *uses);
    for (uint32_t k = 0; k < g->nnodes; ++k)
        for (uint32_t i = 0; i < g->node[k].nin; ++i) count(uses, &g->node[k].in[i]);
    for (uint32_t i = 0; i < g->nout; ++i) count(uses, &g->out[i]);
    return uses;
}

static bool same_constant(const rush_value *a, const rush_value *b)
{
    if (a->kind != b->kind) return false;
    switch (a->kind) {
    case RUSH_V_NONE: return true;
    case RUSH_V_INT:
    case RUSH_V_BOOL:
    case RUSH_V_DTYPE:
    case RUSH_V_LAYOUT:
    case RUSH_V_MEMORY_FORMAT: return a->i == b->i;
    case RUSH_V_FLOAT: return !memcmp(&a->f, &b->f, sizeof a->f);
    case RUSH_V_COMPLEX: return !memcmp(a->c, b->c, sizeof a->c);
    case RUSH_V_STRING: return !strcmp(a->s, b->s);
    case RUSH_V_DEVICE: return rush_same_device(a->device, b->device);
    case RUSH_V_INTS: return a->n == b->n && !memcmp(a->ints, b->ints, a->n * sizeof *a->ints);
    case RUSH_V_FLOATS: return a->n == b->n && !memcmp(a->floats, b->floats, a->n * sizeof *a->floats);
    default: return false;
    }
}

bool rush_operand_same(const rush_operand *a, const rush_operand *b)
{
    if (a->kind != b->kind) return false;
    if (a->kind == RUSH_OPERAND_VALUE) return a->value == b->value;
    if (a->kind == RUSH_OPERAND_CONSTANT) return same_constant(&a->constant, &b->constant);
    bool same = a->n == b->n;
    for (uint32_t i = 0; same && i < a->n; ++i) same = rush_operand_same(&a->item[i], &b->item[i]);
    return same;
}

bool rush_node_is_pure(const rush_graph_node *node)
{
    if (node->form == RUSH_NODE_SIZES) return node->nout > 0;
    return node->form == RUSH_NODE_CALL && !rush_op_effects(node->op) && node->nout > 0;
}

bool rush_graph_writes(const rush_graph *g)
{
    for (uint32_t k = 0; k < g->nnodes; ++k) {
        const rush_graph_node *node = &g->node[k];
        if (node->form == RUSH_NODE_INPLACE || (node->form == RUSH_NODE_CALL && rush_op_effects(node->op) & RUSH_EFFECT_WRITES)) return true;
        for (int i = 0; i < 2; ++i)
            if (node->block[i] && rush_graph_writes(node->block[i])) return true;
    }
    return false;
}

rush_tensor *rush_program_tensor(const rush_program *p, uint32_t value)
{
    for (uint32_t i = 0; i < p->graph->nin; ++i) {
        if (p->graph->in[i] != value || !p->in[i].part) continue;
        for (uint32_t k = 0; k < p->graph->nout; ++k)
            if (p->out[k].into == (int32_t)i) return NULL;
        return rush_slot_at(p->in[i].part, p->in[i].slot);
    }
    return NULL;
}

/* ---- changing ---- */

static void replace(rush_operand *o, uint32_t value, uint32_t by)
{
    if (o->kind == RUSH_OPERAND_VALUE && o->value == value) o->value = by;
    if (o->kind == RUSH_OPERAND_LIST)
        for (uint32_t i = 0; i < o->n; ++i) replace(&o->item[i], value, by);
}

void rush_graph_replace(rush_graph *g, uint32_t first, uint32_t value, uint32_t by)
{
    for (uint32_t k = first; k < g->nnodes; ++k)
        for (uint32_t i = 0; i < g->node[k].nin; ++i) replace(&g->node[k].in[i], value, by);
    for (uint32_t i = 0; i < g->nout; ++i) replace(&g->out[i], value, by);
}

void rush_graph_drop_nodes(rush_graph *g, const bool *drop)
{
    uint32_t left = 0;
    for (uint32_t k = 0; k < g->nnodes; ++k)
        if (!drop[k]) g->node[left++] = g->node[k];
    g->nnodes = left;
}

/* One more item in an array of the arena, which does not say how much room there is. */
static void *longer(rush_graph *g, const void *old, size_t n, size_t item)
{
    char *made = rush_graph_alloc(g, (n + 1) * item);
    if (made && n) memcpy(made, old, n * item);
    return made;
}

uint32_t rush_graph_add(rush_graph *g, const char *name, int dtype, int ndim, const rush_graph_size *size)
{
    rush_graph_value *value = longer(g, g->value, g->nvalues, sizeof *value), *v = value ? &value[g->nvalues] : NULL;
    if (!v) return RUSH_NO_VALUE;
    *v = (rush_graph_value){.name = rush_graph_copy(g, name), .type = RUSH_A_TENSOR, .ndim = (int8_t)ndim, .dtype = (uint8_t)dtype};
    if (!v->name || !(v->size = rush_graph_alloc(g, (size_t)RUSH_MAX(ndim, 1) * sizeof *v->size))) return RUSH_NO_VALUE;
    memcpy(v->size, size, (size_t)ndim * sizeof *size);
    g->value = value;
    return g->nvalues++;
}

rush_graph_node *rush_graph_insert(rush_graph *g, uint32_t at, const rush_op *op, const char *target, uint32_t nout)
{
    rush_graph_node *node = longer(g, g->node, g->nnodes, sizeof *node), *made = node ? &node[at] : NULL;
    if (!made) return NULL;
    memmove(made + 1, made, (g->nnodes - at) * sizeof *made);
    *made = (rush_graph_node){.form = RUSH_NODE_CALL, .op = op, .target = rush_graph_copy(g, target), .nin = (uint32_t)op->nargs, .nout = nout};
    made->in = rush_graph_alloc(g, (made->nin + 1) * sizeof *made->in);
    made->out = rush_graph_alloc(g, (nout + 1) * sizeof *made->out);
    if (!made->target || !made->in || !made->out) return NULL;
    g->node = node;
    ++g->nnodes;
    return made;
}

uint32_t rush_program_constant(rush_module *m, rush_program *p, const char *name, rush_tensor *t)
{
    rush_graph *g = p->graph;
    char path[200];
    const char *last;
    rush_graph_size size[RUSH_MAXDIM];
    uint32_t *in = t ? longer(g, g->in, g->nin, sizeof *in) : NULL;
    rush_program_input *from = in ? longer(g, p->in, g->nin, sizeof *from) : NULL;
    snprintf(path, sizeof path, "folded.%.120s_%u", name, (unsigned)g->nvalues);
    rush_module *part = from ? rush_program_part(m, path, &last) : NULL;
    if (!part || rush_program_place(&from[g->nin], part, last, t, SLOT_SCRATCH)) return RUSH_NO_VALUE;
    for (int d = 0; d < t->ndim; ++d) size[d] = (rush_graph_size){t->size[d], -1};
    uint32_t v = rush_graph_add(g, last, t->dtype, t->ndim, size);
    if (v == RUSH_NO_VALUE) return v;
    in[g->nin++] = v;
    g->in = in;
    p->in = from;
    return v;
}
