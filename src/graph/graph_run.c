/* graph_run.c - runs a graph: one call after the other, through the same road as a C program's own calls.
 *
 * So gradients are recorded as they always are, and a program that is run can be trained. A value is given up after the last
 * node that reads it.
 */
#include "graph/graph.h"
#include "op/formula.h"
#include "tensor/tensor.h"
#include <stdio.h>

/* Values stand by their number; tensors are held. */
static void hold(rush_value *at, uint32_t k, rush_value v)
{
    if (k == RUSH_NO_VALUE) return;
    if (v.kind == RUSH_V_TENSOR) rush_keep(v.t);
    at[k] = v;
}

static void let_go(rush_value *at, uint32_t k)
{
    if (at[k].kind == RUSH_V_TENSOR) rush_drop(at[k].t);
    at[k] = RUSH_NONE;
}

/* ---- arguments ---- */

static int list_of(const rush_value *at, const rush_operand *o, const rush_arg *a, rush_value *v);

static int read_one(const rush_value *at, const rush_operand *o, const rush_arg *a, rush_value *v)
{
    if (o->kind == RUSH_OPERAND_LIST) return list_of(at, o, a, v);
    *v = o->kind == RUSH_OPERAND_VALUE ? at[o->value] : o->constant;
    if (!a || a->list || a->type != RUSH_A_TENSOR || !rush_is_number(*v) || a->kinds >> v->kind & 1) return 0;
    rush_tensor *t = rush_tensor_of_number(*v, true); /* a number where the schema says Tensor */
    return t ? (*v = rush_v_tensor(t), 0) : -1;
}

/* Lists in the kind that the argument asks for; what they hold lives in the scope. */
static int list_of(const rush_value *at, const rush_operand *o, const rush_arg *a, rush_value *v)
{
    rush_arg_type type = a ? (rush_arg_type)a->type : RUSH_A_SCALAR;
    size_t n = o->n, item = type == RUSH_A_TENSOR ? sizeof *v->tensors : type == RUSH_A_SCALAR ? sizeof *v->values : 8;
    void *room = rush_scope_alloc(n * item);
    if (!room) return -1;
    for (size_t i = 0; i < n; ++i) {
        rush_value one;
        if (read_one(at, &o->item[i], NULL, &one)) return -1;
        bool fits = type == RUSH_A_TENSOR ? one.kind == RUSH_V_TENSOR || one.kind == RUSH_V_NONE : rush_is_number(one);
        RUSH_CHECK(fits, RUSH_TYPE_ERROR, "item %zu of the list '%s' is of the wrong kind", i, a ? a->name : "");
        if (type == RUSH_A_TENSOR) ((rush_tensor **)room)[i] = one.kind == RUSH_V_TENSOR ? one.t : NULL;
        else if (type == RUSH_A_SCALAR) ((rush_value *)room)[i] = one;
        else if (type == RUSH_A_FLOAT) ((double *)room)[i] = rush_to_double(one);
        else ((int64_t *)room)[i] = rush_to_int(one);
    }
    *v = type == RUSH_A_TENSOR ? rush_v_tensors(room, n) : type == RUSH_A_FLOAT ? rush_v_floats(room, n) : rush_v_ints(room, n);
    if (type == RUSH_A_SCALAR) *v = (rush_value){.kind = RUSH_V_VALUES, .n = (uint32_t)n, .values = room};
    return 0;
}

/* ---- nodes ---- */

/* Is the first argument nobody else's, and the result of its size and dtype? */
static bool fits_into_first(const rush_op *op, const rush_value *in)
{
    const rush_tensor *to = in[0].kind == RUSH_V_TENSOR ? in[0].t : NULL;
    if (!to || !(rush_now.mode & (RUSH_MODE_NO_GRAD | RUSH_MODE_INFERENCE)) || rush_now.mode & RUSH_MODE_AUTOCAST || to->refs != 1 || to->layout || !to->storage ||
        to->storage->refs != 1 || to->py || to->ag || to->base)
        return false;
    for (int i = 1; i < op->nargs; ++i) {
        if (in[i].kind != RUSH_V_TENSOR) continue;
        const rush_tensor *t = in[i].t;
        if (t->dtype != to->dtype || t->ndim > to->ndim) return false;
        for (int d = 0; d < t->ndim; ++d)
            if (t->size[d] != 1 && t->size[d] != to->size[to->ndim - t->ndim + d]) return false;
    }
    return rush_is_contiguous(to);
}

static int run_call(rush_value *at, const rush_graph_node *node)
{
    rush_value in[64], out[RUSH_MAXOUT];
    const rush_op *op = node->op;
    for (uint32_t i = 0; i < node->nin; ++i)
        if (read_one(at, &node->in[i], &op->args[i], &in[i])) return -1;
    bool inplace = node->form == RUSH_NODE_INPLACE || (node->reuses && fits_into_first(op, in));
    if (inplace ? rush_call_inplace(op, in, out) : rush_call(op, in, out)) return -1;
    if (node->list) {
        RUSH_CHECK(out[0].kind == RUSH_V_TENSORS && out[0].n == node->nout, RUSH_RUNTIME_ERROR, "the list has %u tensors, the program has names for %u", (unsigned)out[0].n, (unsigned)node->nout);
        for (uint32_t i = 0; i < node->nout; ++i) hold(at, node->out[i], rush_v_tensor(out[0].tensors[i]));
        return 0;
    }
    for (uint32_t i = 0; i < node->nout; ++i) hold(at, node->out[i], out[i]);
    return 0;
}

static int run_sizes(rush_value *at, const rush_graph_node *node)
{
    rush_value in[8] = {RUSH_NONE}, out = RUSH_NONE;
    for (uint32_t i = 0; i < node->nin; ++i)
        if (read_one(at, &node->in[i], NULL, &in[i])) return -1;
    if (node->run((int)node->nin, in, &out)) return -1;
    if (node->nout) hold(at, node->out[0], out);
    return 0;
}

/* One of two blocks, or one that is run with other modes. in[0] is the predicate of the former. */
static int run_block(rush_value *at, const rush_graph_node *node)
{
    uint32_t first = node->form == RUSH_NODE_COND, mode = rush_now.mode;
    const rush_graph *block = node->block[0];
    if (first) {
        rush_value p;
        if (read_one(at, &node->in[0], NULL, &p)) return -1;
        double truth = p.kind == RUSH_V_TENSOR ? rush_item(p.t) : rush_to_double(p);
        if (rush_failed()) return -1;
        if (truth == 0) block = node->block[1];
    }
    rush_value *in = rush_scope_alloc(sizeof *in * (block->nin + block->nout + 1)), *out = in + block->nin;
    if (!in) return -1;
    for (uint32_t i = 0; i < block->nin; ++i)
        if (read_one(at, &node->in[first + i], NULL, &in[i])) return -1;
    if (node->form == RUSH_NODE_BLOCK) rush_now.mode = node->grad ? mode & ~(uint32_t)RUSH_MODE_NO_GRAD : mode | RUSH_MODE_NO_GRAD;
    int failed = rush_graph_run(block, in, out);
    rush_now.mode = mode;
    for (uint32_t i = 0; !failed && i < node->nout; ++i) hold(at, node->out[i], out[i]);
    return failed;
}

static int read_all(const rush_value *at, const rush_graph_node *node, rush_value *in)
{
    for (uint32_t i = 0; i < node->nin; ++i)
        if (read_one(at, &node->in[i], NULL, &in[i])) return -1;
    return 0;
}

static int run_while(rush_value *at, const rush_graph_node *node)
{
    uint32_t n = node->nin, carried = node->ncarried;
    rush_value *in = rush_scope_alloc(sizeof *in * (n + carried + 1)), *out = in + n;
    if (!in || read_all(at, node, in)) return -1;
    for (;;) {
        rush_value again;
        if (rush_graph_run(node->block[0], in, &again)) return -1;
        double truth = again.kind == RUSH_V_TENSOR ? rush_item(again.t) : rush_to_double(again);
        if (rush_failed()) return -1;
        if (truth == 0) break;
        if (rush_graph_run(node->block[1], in, out)) return -1;
        memcpy(in, out, sizeof *in * carried);
    }
    for (uint32_t i = 0; i < carried; ++i) hold(at, node->out[i], in[i]);
    return 0;
}

/* Slice by slice along the first dimension; what the block gives beyond what it carries is stacked. */
static int run_slices(rush_value *at, const rush_graph_node *node)
{
    const rush_graph *block = node->block[0];
    uint32_t n = node->nin, carried = node->ncarried, rows = block->nout - carried;
    rush_value *in = rush_scope_alloc(sizeof *in * (2 * (size_t)n + block->nout + 1)), *now = in + n, *out = now + n;
    if (!in || read_all(at, node, in)) return -1;
    const rush_tensor *first = T_(in[carried]);
    int64_t steps = first && first->ndim ? first->size[0] : 0;
    RUSH_CHECK(steps > 0, RUSH_VALUE_ERROR, "there are no slices to run over");
    rush_tensor **row = rush_scope_alloc(sizeof *row * (size_t)steps * (rows + 1));
    if (!row) return -1;
    memcpy(now, in, sizeof *in * n);
    for (int64_t k = 0; k < steps; ++k) {
        for (uint32_t i = carried; i < carried + node->nsliced; ++i)
            if (!(now[i] = rush_v_tensor(T("select.int", in[i], V((int64_t)0), V(k)))).t) return -1;
        if (rush_graph_run(block, now, out)) return -1;
        memcpy(now, out, sizeof *in * carried);
        for (uint32_t i = 0; i < rows; ++i) row[(int64_t)i * steps + k] = T_(out[carried + i]);
    }
    for (uint32_t i = 0; i < carried; ++i) hold(at, node->out[i], now[i]);
    for (uint32_t i = 0; i < rows; ++i) {
        rush_tensor *all = T("stack", rush_v_tensors(row + (int64_t)i * steps, (size_t)steps), V((int64_t)0));
        if (!all) return -1;
        hold(at, node->out[carried + i], rush_v_tensor(all));
    }
    return 0;
}

static int run_node(rush_value *at, const rush_graph_node *node)
{
    switch (node->form) {
    case RUSH_NODE_CALL:
    case RUSH_NODE_INPLACE: return run_call(at, node);
    case RUSH_NODE_SIZES: return run_sizes(at, node);
    case RUSH_NODE_WHILE: return run_while(at, node);
    case RUSH_NODE_SCAN:
    case RUSH_NODE_MAP: return run_slices(at, node);
    default: return run_block(at, node);
    }
}

_Thread_local const rush_graph_node *rush_graph_running;

/* Says where in the program an error came about. */
static int told(const rush_graph_node *node)
{
    char what[1024];
    rush_error_kind kind = rush_error_kind_now();
    snprintf(what, sizeof what, "%s", rush_error());
    rush_error_clear();
    return rush_fail(kind, "%s\n  in %s%s%s", what, node->target, node->where ? ", called by " : "", node->where ? node->where : "");
}

int rush_graph_run_node(const rush_graph *g, uint32_t node, rush_value *v)
{
    size_t mark = rush_scope_open();
    int failed = run_node(v, &g->node[node]);
    rush_scope_close(mark);
    return failed ? -1 : 0;
}

int rush_graph_run(const rush_graph *g, const rush_value *in, rush_value *out)
{
    rush_value *at = rush_scope_alloc(RUSH_MAX(g->nvalues, 1u) * sizeof *at);
    if (!at) return -1;
    for (uint32_t v = 0; v < g->nvalues; ++v) at[v] = RUSH_NONE;
    const rush_graph_node *outer = rush_graph_running;
    int failed = 0;
    for (uint32_t i = 0; i < g->nin; ++i) hold(at, g->in[i], in[i]);
    for (uint32_t k = 0; k < g->nnodes && !failed; ++k) {
        const rush_graph_node *node = &g->node[k];
        size_t mark = rush_scope_open();
        rush_graph_running = node;
        failed = run_node(at, node);
        if (failed) told(node);
        rush_scope_close(mark);
        for (uint32_t i = 0; i < node->nends; ++i) let_go(at, node->ends[i]);
    }
    rush_graph_running = outer;
    for (uint32_t i = 0; i < g->nout && !failed; ++i) {
        failed = read_one(at, &g->out[i], NULL, &out[i]);
        if (!failed && out[i].kind == RUSH_V_TENSOR && !rush_park(rush_keep(out[i].t))) failed = -1;
    }
    for (uint32_t v = 0; v < g->nvalues; ++v) let_go(at, v);
    return failed ? -1 : 0;
}
