/* pass_batch_norm.c - batch normalisation with fixed statistics, behind a convolution that nothing else reads, becomes part of its
 * weight and bias: w' = w * gamma / sqrt(var + eps), b' = (b - mean) * gamma / sqrt(var + eps) + beta.
 */
#include "graph/pass.h"
#include "op/formula.h"
#include "tensor/tensor.h"

typedef struct records { /* looked up once; a program without such operations has none of them */
    const rush_op *conv[4], *convolution, *norm, *inference;
} records;

static const rush_tensor *tensor(const rush_program *p, const rush_operand *o, bool *absent)
{
    if (o->kind == RUSH_OPERAND_CONSTANT && o->constant.kind == RUSH_V_NONE) return *absent = true, NULL;
    return o->kind == RUSH_OPERAND_VALUE ? rush_program_tensor(p, o->value) : NULL;
}

static bool is_true(const rush_operand *o) { return o->kind != RUSH_OPERAND_CONSTANT || o->constant.i; }

static bool convolves(const records *r, const rush_graph_node *node)
{
    if (node->form != RUSH_NODE_CALL) return false;
    for (size_t i = 0; i < RUSH_COUNT(r->conv); ++i)
        if (r->conv[i] && node->op == r->conv[i]) return true;
    return r->convolution && node->op == r->convolution && !is_true(&node->in[6]); /* not transposed */
}

/* What the node divides by is fixed; its other results, if any, are not asked for. */
static bool normalises(const records *r, const rush_graph_node *node, const uint32_t *uses)
{
    if (node->form != RUSH_NODE_CALL || !((r->norm && node->op == r->norm && !is_true(&node->in[5])) || (r->inference && node->op == r->inference))) return false;
    for (uint32_t i = 1; i < node->nout; ++i)
        if (node->out[i] != RUSH_NO_VALUE && uses[node->out[i]]) return false;
    return node->in[0].kind == RUSH_OPERAND_VALUE && uses[node->in[0].value] == 1;
}

static rush_operand operand_of(uint32_t value) { return (rush_operand){.kind = RUSH_OPERAND_VALUE, .value = value}; }

/* 1: done; 0: it cannot be; -1 and an error */
static int join(rush_module *m, rush_program *p, rush_graph_node *conv, const rush_graph_node *norm, int eps_at)
{
    bool absent[6] = {false};
    const rush_tensor *w = tensor(p, &conv->in[1], &absent[0]), *b = tensor(p, &conv->in[2], &absent[1]), *part[4];
    if (!w || (!b && !absent[1]) || w->ndim < 2 || norm->in[eps_at].kind != RUSH_OPERAND_CONSTANT) return 0;
    for (int i = 0; i < 4; ++i)
        if (!(part[i] = tensor(p, &norm->in[1 + i], &absent[2 + i])) && !(i < 2 && absent[2 + i])) return 0;
    rush_tensor *scale = T("rsqrt", V(T("add.Scalar", V((rush_tensor *)part[3]), norm->in[eps_at].constant)));
    if (part[0]) scale = T("mul.Tensor", V(scale), V((rush_tensor *)part[0]));
    int64_t shape[RUSH_MAXDIM];
    for (int d = 0; d < w->ndim; ++d) shape[d] = d ? 1 : w->size[0];
    rush_tensor *weight = T("mul.Tensor", V((rush_tensor *)w), V(T("view", V(scale), rush_v_ints(shape, (size_t)w->ndim))));
    rush_tensor *less = b ? T("sub.Tensor", V((rush_tensor *)b), V((rush_tensor *)part[2])) : T("neg", V((rush_tensor *)part[2]));
    rush_tensor *bias = T("mul.Tensor", V(less), V(scale));
    if (part[1]) bias = T("add.Tensor", V(bias), V((rush_tensor *)part[1]));
    if (rush_failed()) return -1;
    uint32_t new_weight = rush_program_constant(m, p, "weight", weight), new_bias = rush_program_constant(m, p, "bias", bias);
    if (new_weight == RUSH_NO_VALUE || new_bias == RUSH_NO_VALUE) return -1;
    conv->in[1] = operand_of(new_weight);
    conv->in[2] = operand_of(new_bias);
    return 1;
}

static int fold(rush_module *m, rush_program *p, const records *r, bool *drop)
{
    rush_graph *g = p->graph;
    const uint32_t *uses = rush_graph_uses(g);
    if (!uses) return -1;
    int changes = 0;
    for (uint32_t k = 0; k < g->nnodes; ++k) {
        const rush_graph_node *norm = &g->node[k];
        drop[k] = false;
        if (!normalises(r, norm, uses)) continue;
        for (uint32_t j = 0; j < k; ++j) {
            rush_graph_node *conv = &g->node[j];
            if (drop[j] || !convolves(r, conv) || conv->out[0] != norm->in[0].value) continue;
            int done = join(m, p, conv, norm, norm->op == r->norm ? 7 : 6);
            if (done < 0) return -1;
            if (!done) break;
            conv->out[0] = norm->out[0];
            drop[k] = true;
            ++changes;
            break;
        }
    }
    rush_graph_drop_nodes(g, drop);
    return changes;
}

static int run(rush_module *m, rush_program *p)
{
    records r = {.conv = {rush_op_find("conv1d"), rush_op_find("conv2d"), rush_op_find("conv3d")}, .convolution = rush_op_find("convolution"),
                 .norm = rush_op_find("batch_norm"), .inference = rush_op_find("_native_batch_norm_legit_no_training")};
    bool *drop = rush_scope_alloc(p->graph->nnodes + 1);
    if (!drop) return -1;
    uint32_t mode = rush_now.mode;
    rush_now.mode |= RUSH_MODE_NO_GRAD;
    int changes = fold(m, p, &r, drop);
    rush_now.mode = mode;
    return changes;
}

const rush_graph_pass rush_pass_batch_norm = {.name = "batch normalisation", .when = RUSH_PASS_FROZEN, .run = run};
