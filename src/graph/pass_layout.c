/* pass_layout.c - pictures between convolutions lie with their channels last, which is how the engine computes with them: they are
 * brought there once, before the first, and back where an operation might notice, instead of around each convolution.
 */
#include "graph/pass.h"
#include "tensor/tensor.h"

enum { FEW = 8 }; /* channels of a result from which on it pays */

/* Operations on pictures whose results lie as what they read does. */
static const char *const follow[] = {
    "relu", "relu6", "hardtanh", "leaky_relu", "elu", "gelu", "silu", "mish", "sigmoid", "tanh", "hardswish", "hardsigmoid", "clamp", "add.Tensor", "sub.Tensor",
    "mul.Tensor", "dropout", "batch_norm", "_native_batch_norm_legit_no_training", "max_pool2d", "avg_pool2d", "adaptive_avg_pool2d", "upsample_nearest2d.vec", "upsample_bilinear2d.vec", "cat",
};

typedef struct pass {
    rush_graph *g;
    const rush_op *conv, *convolution, *contiguous, *follows[RUSH_COUNT(follow)];
    bool *last;       /* per value: it lies with its channels last */
    uint32_t *plain;  /* per value: the same lying plainly, once that was made; RUSH_NO_VALUE: not yet */
} pass;

static bool is_picture(const pass *p, const rush_operand *o) { return o->kind == RUSH_OPERAND_VALUE && p->g->value[o->value].ndim == 4; }

static bool is_last(const pass *p, const rush_operand *o) { return o->kind == RUSH_OPERAND_VALUE && p->last[o->value]; }

/* A convolution of pictures that is done where their channels are last: in one group, or of each channel by itself, and of enough channels. Those of
 * one channel have no format that tells how the result shall lie. */
static bool convolves(const pass *p, const rush_graph_node *node)
{
    if (node->form != RUSH_NODE_CALL || (node->op != p->conv && node->op != p->convolution) || !is_picture(p, &node->in[0]) || node->out[0] == RUSH_NO_VALUE) return false;
    const rush_graph_value *x = &p->g->value[node->in[0].value], *y = &p->g->value[node->out[0]];
    const rush_operand *groups = &node->in[node->op == p->conv ? 6 : 8];
    if (groups->kind != RUSH_OPERAND_CONSTANT || (y->dtype != RUSH_F32 && y->dtype != RUSH_BF16) || y->ndim != 4) return false;
    const int64_t in = x->size[1].n, out = y->size[1].n, n = groups->constant.i;
    return (n == 1 || (n == in && n == out)) && out >= FEW && in != 1;
}

/* Does the result lie with its channels last, because the first argument does, or all of a list of them? */
static bool follows(const pass *p, const rush_graph_node *node)
{
    bool known = false;
    for (size_t i = 0; i < RUSH_COUNT(follow) && node->form == RUSH_NODE_CALL && !known; ++i) known = node->op == p->follows[i];
    if (!known || node->nout < 1 || node->out[0] == RUSH_NO_VALUE || p->g->value[node->out[0]].ndim != 4) return false;
    const rush_operand *x = node->in[0].kind == RUSH_OPERAND_LIST ? node->in[0].item : node->in;
    uint32_t n = node->in[0].kind == RUSH_OPERAND_LIST ? node->in[0].n : 1;
    for (uint32_t i = 0; i < n; ++i)
        if (!is_last(p, &x[i])) return false;
    return true;
}

/* A node before `at` that brings a value into a format; the new value, or RUSH_NO_VALUE and an error. */
static uint32_t bring(pass *p, uint32_t at, uint32_t value, rush_memory_format format)
{
    const rush_graph_value from = p->g->value[value];
    uint32_t made = rush_graph_add(p->g, format == RUSH_CONTIGUOUS ? "plain" : "channels_last", from.dtype, from.ndim, from.size);
    rush_graph_node *node = made == RUSH_NO_VALUE ? NULL : rush_graph_insert(p->g, at, p->contiguous, "aten.contiguous.default", 1);
    if (!node) return RUSH_NO_VALUE;
    node->in[0] = (rush_operand){.kind = RUSH_OPERAND_VALUE, .value = value};
    node->in[1] = (rush_operand){.kind = RUSH_OPERAND_CONSTANT, .constant = {.kind = RUSH_V_MEMORY_FORMAT, .i = format}};
    node->out[0] = made;
    return made;
}

/* Operand o of node *at, and what is in it, becomes plain; *at moves on with what is put before it. */
static int make_plain(pass *p, uint32_t *at, rush_operand *o)
{
    for (uint32_t i = 0; o->kind == RUSH_OPERAND_LIST && i < o->n; ++i)
        if (make_plain(p, at, &o->item[i])) return -1;
    if (!is_last(p, o)) return 0;
    uint32_t value = o->value;
    if (p->plain[value] == RUSH_NO_VALUE && (p->plain[value] = bring(p, (*at)++, value, RUSH_CONTIGUOUS)) == RUSH_NO_VALUE) return -1;
    o->value = p->plain[value];
    return 0;
}

/* Node k, which stands at *k afterwards. */
static int lay_out(pass *p, uint32_t *k)
{
    rush_graph_node *node = &p->g->node[*k];
    if (node->form == RUSH_NODE_SIZES) return 0;
    if (convolves(p, node)) {
        uint32_t x = node->in[0].value, to = node->out[0];
        if (!p->last[x]) {
            uint32_t made = bring(p, *k, x, RUSH_CHANNELS_LAST);
            if (made == RUSH_NO_VALUE) return -1;
            p->g->node[++*k].in[0].value = made;
        }
        return p->last[to] = true, 0;
    }
    if (follows(p, node)) return p->last[node->out[0]] = true, 0;
    for (uint32_t i = 0; i < p->g->node[*k].nin; ++i) {
        rush_operand *in = p->g->node[*k].in; /* nodes move, their operands stay */
        if (make_plain(p, k, &in[i])) return -1;
    }
    return 0;
}

static int run(rush_module *m, rush_program *program)
{
    pass p = {.g = program->graph, .conv = rush_op_find("conv2d"), .convolution = rush_op_find("convolution"), .contiguous = rush_op_find("contiguous")};
    rush_graph *g = p.g;
    uint32_t convolutions = 0, most = 0, before = g->nnodes;
    for (uint32_t k = 0; k < g->nnodes; ++k) {
        const rush_graph_node *node = &g->node[k];
        convolutions += convolves(&p, node);
        most += 1 + node->nin;
        if (node->block[0]) return 0;
        if (node->form == RUSH_NODE_CALL && node->op == p.convolution && (node->in[6].kind != RUSH_OPERAND_CONSTANT || node->in[6].constant.i)) return 0; /* transposed */
    }
    if (!convolutions || rush_graph_writes(g)) return 0;
    for (size_t i = 0; i < RUSH_COUNT(follow); ++i) p.follows[i] = rush_op_find(follow[i]);
    uint32_t room = 2 * g->nvalues + most + 1; /* a value is brought there and back at most once for each that reads it */
    p.last = rush_scope_alloc(room * sizeof *p.last);
    p.plain = rush_scope_alloc(room * sizeof *p.plain);
    if (!p.last || !p.plain) return -1;
    memset(p.last, 0, room * sizeof *p.last);
    memset(p.plain, 0xff, room * sizeof *p.plain);
    for (uint32_t k = 0; k < g->nnodes; ++k)
        if (lay_out(&p, &k)) return -1;
    uint32_t end = g->nnodes;
    for (uint32_t i = 0; i < g->nout; ++i)
        if (make_plain(&p, &end, &g->out[i])) return -1;
    return (int)(g->nnodes - before);
}

const rush_graph_pass rush_pass_layout = {.name = "layout", .when = RUSH_PASS_RUN, .run = run};
