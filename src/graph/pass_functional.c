/* pass_functional.c - calls in place become calls that make a new value, where nobody else can see the old one: other passes leave
 * programs alone that change tensors, and most networks do so with relu_ alone; dropout that drops nothing goes. A run loses no memory,
 * since a result takes the place of a first argument that ends with it.
 */
#include "graph/pass.h"
#include "tensor/tensor.h"

/* Composites whose results are always new. */
static const char *const makes[] = {
    "conv1d", "conv2d", "conv3d", "convolution", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "linear", "matmul", "batch_norm", "instance_norm",
    "layer_norm", "group_norm", "max_pool1d", "max_pool2d", "max_pool3d", "avg_pool1d", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d",
    "upsample_nearest2d", "upsample_bilinear2d", "scaled_dot_product_attention", "softmax", "log_softmax", "relu6", "selu", "hardswish", "silu", "mish", "stack",
};

/* Does the call make a value that shares memory with none that it was given? */
static bool is_new(const rush_graph_node *node)
{
    if (node->form != RUSH_NODE_CALL || rush_op_effects(node->op) & RUSH_EFFECT_WRITES) return false;
    if (!node->op->run) return !(node->op->flags & RUSH_VIEW) && !strstr(node->op->schema, "(a");
    for (size_t i = 0; i < RUSH_COUNT(makes); ++i)
        if (!strcmp(node->op->base, makes[i])) return true;
    return false;
}

static bool reads(const rush_operand *o, uint32_t value)
{
    if (o->kind == RUSH_OPERAND_VALUE) return o->value == value;
    for (uint32_t i = 0; o->kind == RUSH_OPERAND_LIST && i < o->n; ++i)
        if (reads(&o->item[i], value)) return true;
    return false;
}

/* Would the call have a result of the first argument's dtype if it made one? It would of floats of one type. */
static bool keeps_type(const rush_graph *g, const rush_graph_node *node)
{
    const rush_graph_value *x = &g->value[node->in[0].value];
    if (x->type != RUSH_A_TENSOR || !rush_dtype_is_float(x->dtype)) return false;
    for (uint32_t i = 1; i < node->nin; ++i) {
        const rush_operand *o = &node->in[i];
        const rush_graph_value *v = o->kind == RUSH_OPERAND_VALUE ? &g->value[o->value] : NULL;
        if (o->kind == RUSH_OPERAND_LIST || (o->kind == RUSH_OPERAND_CONSTANT && o->constant.kind == RUSH_V_COMPLEX)) return false;
        if (v && v->type == RUSH_A_TENSOR && v->dtype != x->dtype) return false;
    }
    return true;
}

/* Is the first argument of node k a value that a call made, of which all that read it before made something new? */
static bool is_alone(const rush_graph *g, uint32_t k)
{
    uint32_t value = g->node[k].in[0].value;
    for (uint32_t j = k; j-- > 0;) {
        const rush_graph_node *node = &g->node[j];
        for (uint32_t i = 0; i < node->nout; ++i)
            if (node->out[i] == value) return is_new(node);
        for (uint32_t i = 0; i < node->nin; ++i)
            if (reads(&node->in[i], value) && !is_new(node) && node->form != RUSH_NODE_SIZES) return false;
    }
    return false; /* it is given */
}

/* Dropout that drops nothing: its result is its argument. */
static bool is_nothing(const rush_graph_node *node)
{
    if (node->form > RUSH_NODE_INPLACE || !strstr(node->op->base, "dropout") || node->nout != 1 || node->nin != 3 || node->in[0].kind != RUSH_OPERAND_VALUE) return false;
    return node->in[2].kind == RUSH_OPERAND_CONSTANT && node->in[2].constant.kind == RUSH_V_BOOL && !node->in[2].constant.i;
}

/* "aten.relu_.default": without the underscore. */
static const char *functional(rush_graph *g, const char *target)
{
    const char *end = strrchr(target, '.');
    char *made = end > target && end[-1] == '_' ? rush_graph_alloc(g, strlen(target) + 1) : NULL;
    if (!made) return rush_failed() ? NULL : target;
    memcpy(made, target, (size_t)(end - 1 - target));
    strcpy(made + (end - 1 - target), end);
    return made;
}

static int run(rush_module *m, rush_program *p)
{
    rush_graph *g = p->graph;
    int changes = 0;
    bool *drop = rush_scope_alloc(g->nnodes + 1);
    if (!drop) return -1;
    for (uint32_t k = 0; k < g->nnodes; ++k) {
        if (g->node[k].block[0]) return 0;
        drop[k] = is_nothing(&g->node[k]);
        if (drop[k] && g->node[k].out[0] != RUSH_NO_VALUE) rush_graph_replace(g, k + 1, g->node[k].out[0], g->node[k].in[0].value);
        changes += drop[k];
    }
    rush_graph_drop_nodes(g, drop);
    for (uint32_t k = 0; k < g->nnodes; ++k) {
        rush_graph_node *node = &g->node[k];
        if (node->form != RUSH_NODE_INPLACE || node->nout != 1 || node->in[0].kind != RUSH_OPERAND_VALUE || !keeps_type(g, node) || !is_alone(g, k)) continue;
        uint32_t from = node->in[0].value;
        const rush_graph_value x = g->value[from];
        if (node->out[0] == RUSH_NO_VALUE && (node->out[0] = rush_graph_add(g, x.name, x.dtype, x.ndim, x.size)) == RUSH_NO_VALUE) return -1;
        node->form = RUSH_NODE_CALL;
        if (!(node->target = functional(g, node->target))) return -1;
        rush_graph_replace(g, k + 1, from, node->out[0]);
        ++changes;
    }
    return changes;
}

const rush_graph_pass rush_pass_functional = {.name = "functional", .when = RUSH_PASS_RUN, .run = run};
