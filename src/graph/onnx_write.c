/* onnx_write.c - a program as an ONNX file: its graph, inputs, results and tensors. */
#include "graph/onnx_write.h"
#include "tensor/tensor.h"

#include <rushlight/program.h>
#include <stdio.h>

static int write_graph(W *w);

/* ---- arithmetic on sizes: int64 tensors of no dimension ---- */

static int write_sizes(W *w, const rush_graph_node *node)
{
    static const struct { const char *target, *onnx; } two[] = {
        {"_operator.add", "Add"}, {"_operator.sub", "Sub"}, {"_operator.mul", "Mul"}, {"_operator.floordiv", "Div"}, {"_operator.mod", "Mod"}, {"torch.sym_max", "Max"}, {"torch.sym_min", "Min"},
        {"_operator.eq", "Equal"}, {"_operator.lt", "Less"}, {"_operator.le", "LessOrEqual"}, {"_operator.gt", "Greater"}, {"_operator.ge", "GreaterOrEqual"}};
    const char *t = node->target;
    int64_t d;
    if (strstr(t, "_assert") || strstr(t, "sym_constrain_range")) return 0;
    for (size_t k = 0; k < RUSH_COUNT(two); ++k)
        if (!strcmp(two[k].target, t)) GIVE(PUT(two[k].onnx, NULL, rush_onnx_tensor_of(w, IN(0), RUSH_I64), rush_onnx_tensor_of(w, IN(1), RUSH_I64)));
    if (strstr(t, "sym_size") && rush_onnx_int(IN(1), &d)) {
        if (d < 0 && TYPE(0)) d += TYPE(0)->ndim;
        GIVE(PUT("Squeeze", NULL, PUT("Shape", rush_onnx_i(rush_onnx_i(NULL, "start", d), "end", d + 1), TENSOR(0)), rush_onnx_list(w, 1, (int64_t[]){0})));
    }
    if (strstr(t, "sym_numel")) GIVE(PUT("Size", NULL, TENSOR(0)));
    if (!strcmp(t, "_operator.truediv")) GIVE(PUT("Div", NULL, rush_onnx_tensor_of(w, IN(0), RUSH_F32), rush_onnx_tensor_of(w, IN(1), RUSH_F32)));
    if (!strcmp(t, "torch.sym_float")) GIVE(rush_onnx_tensor_of(w, IN(0), RUSH_F32));
    if (!strcmp(t, "torch.sym_int") || !strcmp(t, "math.trunc")) GIVE(rush_onnx_tensor_of(w, IN(0), RUSH_I64));
    if (strstr(t, "item") || strstr(t, "_local_scalar_dense")) GIVE(PUT("Reshape", NULL, TENSOR(0), rush_onnx_list(w, 0, NULL)));
    return 1;
}

/* ---- blocks ---- */

/* A writer for a block: its inputs are called as what they are given outside. */
static int enter(W *w, const rush_graph_node *node, const rush_graph *block, uint32_t first, W *inner)
{
    *inner = *w;
    inner->g = block;
    inner->name = rush_scope_alloc((block->nvalues + 1) * sizeof *inner->name);
    if (!inner->name) return -1;
    memset(inner->name, 0, (block->nvalues + 1) * sizeof *inner->name);
    for (uint32_t i = 0; i < block->nin; ++i)
        if (block->in[i] != RUSH_NO_VALUE && !(inner->name[block->in[i]] = rush_onnx_tensor_of(w, IN(first + i), -1))) return 1;
    return 0;
}

static int write_block(W *w, const rush_graph_node *node)
{
    W inner;
    int failed = enter(w, node, node->block[0], 0, &inner);
    if (!failed) failed = write_graph(&inner);
    for (uint32_t i = 0; !failed && i < node->nout; ++i) failed = rush_onnx_give(w, node, (int)i, rush_onnx_tensor_of(&inner, &node->block[0]->out[i], -1));
    return failed;
}

static void add_value(rush_bytes *to, int field, const rush_graph *g, const rush_graph_value *v, const char *name);

/* One branch as an attribute: a graph without inputs, since names around it are seen in it. */
static int write_branch(W *w, const rush_graph_node *node, int k, rush_bytes *attributes)
{
    W inner;
    rush_bytes graph = {0}, attribute = {0};
    const rush_graph *block = node->block[k];
    int failed = enter(w, node, block, 1, &inner);
    inner.nodes = &graph;
    if (!failed) failed = write_graph(&inner);
    for (uint32_t i = 0; !failed && i < block->nout; ++i) {
        const char *from = rush_onnx_tensor_of(&inner, &block->out[i], -1), *name = from ? rush_onnx_put(&inner, "Identity", NULL, 1, &from) : NULL;
        const rush_graph_value *v = block->out[i].kind == RUSH_OPERAND_VALUE ? &block->value[block->out[i].value] : NULL;
        failed = name && v ? 0 : 1;
        if (!failed) add_value(&graph, 12, block, v, name);
    }
    rush_pb_text(&graph, 2, k ? "else_branch" : "then_branch");
    rush_pb_text(&attribute, 1, k ? "else_branch" : "then_branch");
    rush_pb_message(&attribute, 6, &graph);
    rush_pb_int(&attribute, 20, 5);
    rush_pb_message(attributes, 5, &attribute);
    return failed;
}

static int write_cond(W *w, const rush_graph_node *node)
{
    rush_bytes attributes = {0};
    const char *condition = rush_onnx_tensor_of(w, IN(0), RUSH_BOOL), **out = rush_scope_alloc((node->nout + 1) * sizeof *out);
    int failed = !out || !condition || write_branch(w, node, 0, &attributes) || write_branch(w, node, 1, &attributes);
    if (failed) return rush_bytes_end(&attributes), rush_failed() ? -1 : 1;
    failed = rush_onnx_put_many(w, "If", &attributes, 1, &condition, (int)node->nout, out);
    for (uint32_t i = 0; !failed && i < node->nout; ++i) failed = rush_onnx_give(w, node, (int)i, out[i]);
    return failed;
}

/* A value of a block by a name of its own, as an input or a result of the graph that is an attribute. */
static const char *bound(W *inner, rush_bytes *graph, int field, const rush_graph *block, uint32_t value, const char *name)
{
    if (!name && !(name = rush_onnx_fresh(inner))) return NULL;
    if (value != RUSH_NO_VALUE) {
        if (field == 11) inner->name[value] = name;
        add_value(graph, field, block, &block->value[value], name);
    }
    return name;
}

/* Results of a block, as results of the attribute's graph. 1: one is no value of the block. */
static int bind_results(W *inner, rush_bytes *graph, const rush_graph *block)
{
    for (uint32_t i = 0; i < block->nout; ++i) {
        const char *from = rush_onnx_tensor_of(inner, &block->out[i], -1), *name = from ? rush_onnx_put(inner, "Identity", NULL, 1, &from) : NULL;
        if (!name || block->out[i].kind != RUSH_OPERAND_VALUE) return 1;
        bound(inner, graph, 12, block, block->out[i].value, name);
    }
    return 0;
}

/* What a loop carries or takes slices of gets names inside; what it does not change is seen in it by the names outside. */
static int enter_loop(W *w, const rush_graph_node *node, const rush_graph *block, uint32_t own, rush_bytes *graph, W *inner)
{
    int failed = enter(w, node, block, 0, inner);
    inner->nodes = graph;
    for (uint32_t i = 0; !failed && i < own; ++i)
        if (block->in[i] == RUSH_NO_VALUE || !bound(inner, graph, 11, block, block->in[i], NULL)) failed = 1;
    return failed;
}

static rush_bytes *body_of(rush_bytes *attributes, rush_bytes *graph)
{
    rush_bytes attribute = {0};
    rush_pb_text(graph, 2, "body");
    rush_pb_text(&attribute, 1, "body");
    rush_pb_message(&attribute, 6, graph);
    rush_pb_int(&attribute, 20, 5);
    rush_pb_message(attributes, 5, &attribute);
    return attributes;
}

static int put_loop(W *w, const rush_graph_node *node, const char *type, rush_bytes *attributes, uint32_t nin, const char *const *in)
{
    const char **out = rush_scope_alloc((node->nout + 1) * sizeof *out);
    int failed = !out || rush_onnx_put_many(w, type, attributes, (int)nin, in, (int)node->nout, out);
    for (uint32_t i = 0; !failed && i < node->nout; ++i) failed = rush_onnx_give(w, node, (int)i, out[i]);
    return failed;
}

/* scan and map: Scan, over the first dimension. */
static int write_slices(W *w, const rush_graph_node *node)
{
    W inner;
    rush_bytes graph = {0}, attributes = {0};
    uint32_t own = node->ncarried + node->nsliced;
    const char **in = rush_scope_alloc((own + 1) * sizeof *in);
    int failed = !in || enter_loop(w, node, node->block[0], own, &graph, &inner) || write_graph(&inner) || bind_results(&inner, &graph, node->block[0]);
    for (uint32_t i = 0; !failed && i < own; ++i) failed = !(in[i] = rush_onnx_tensor_of(w, IN(i), -1));
    if (failed) return rush_bytes_end(&graph), rush_failed() ? -1 : 1;
    return put_loop(w, node, "Scan", rush_onnx_i(body_of(&attributes, &graph), "num_scan_inputs", node->nsliced), own, in);
}

/* The condition of a while_loop, where its arguments are called `name`. */
static const char *condition_of(W *w, const rush_graph_node *node, const char *const *name)
{
    W inner;
    const rush_graph *block = node->block[0];
    if (enter(w, node, block, 0, &inner)) return NULL;
    for (uint32_t i = 0; i < node->ncarried; ++i)
        if (block->in[i] != RUSH_NO_VALUE) inner.name[block->in[i]] = name[i];
    return write_graph(&inner) ? NULL : rush_onnx_tensor_of(&inner, &block->out[0], RUSH_BOOL);
}

/* while_loop: Loop, which asks whether to go on before the first turn, and inside for the next. */
static int write_while(W *w, const rush_graph_node *node)
{
    W inner;
    rush_bytes graph = {0}, attributes = {0};
    const rush_graph *block = node->block[1];
    const rush_graph_value turn = {.type = RUSH_A_INT}, more = {.type = RUSH_A_BOOL};
    uint32_t n = node->ncarried;
    const char **in = rush_scope_alloc((2 * (size_t)n + 3) * sizeof *in), **made = in + n + 2;
    if (!in) return -1;
    for (uint32_t i = 0; i < n; ++i)
        if (!(in[2 + i] = rush_onnx_tensor_of(w, IN(i), -1))) return 1;
    in[0] = "";
    if (!(in[1] = condition_of(w, node, in + 2))) return rush_failed() ? -1 : 1;
    const char *count = rush_onnx_fresh(w), *before = rush_onnx_fresh(w);
    if (!count || !before) return -1;
    add_value(&graph, 11, block, &turn, count);
    add_value(&graph, 11, block, &more, before);
    int failed = enter_loop(w, node, block, n, &graph, &inner) || write_graph(&inner);
    for (uint32_t i = 0; !failed && i < n; ++i) failed = !(made[i] = rush_onnx_tensor_of(&inner, &block->out[i], -1));
    W outside = *w; /* the condition is written among the body's nodes */
    outside.nodes = &graph;
    const char *again = failed ? NULL : condition_of(&outside, node, made);
    if (again) again = rush_onnx_put(&inner, "Identity", NULL, 1, &again);
    if (again) add_value(&graph, 12, block, &more, again);
    if (!again || bind_results(&inner, &graph, block)) return rush_bytes_end(&graph), rush_failed() ? -1 : 1;
    return put_loop(w, node, "Loop", body_of(&attributes, &graph), n + 2, in);
}

/* ---- nodes ---- */

static int write_node(W *w, const rush_graph_node *node)
{
    size_t missing = w->missing->n;
    int failed = 1;
    const rush_onnx_row *row = rush_onnx_row_of(node);
    w->node = node;
    if (node->form == RUSH_NODE_SIZES) failed = write_sizes(w, node);
    else if (node->form == RUSH_NODE_COND) failed = write_cond(w, node);
    else if (node->form == RUSH_NODE_WHILE) failed = write_while(w, node);
    else if (node->form == RUSH_NODE_SCAN || node->form == RUSH_NODE_MAP) failed = write_slices(w, node);
    else if (node->form == RUSH_NODE_BLOCK) failed = write_block(w, node);
    else if (row) failed = row->rule(w, node);
    if (failed > 0 && !rush_failed()) {
        if (missing == w->missing->n) rush_missing_add(w->missing, node->op ? node->op->name : node->target, node->where);
        for (uint32_t i = 0; i < node->nout; ++i)
            if (node->out[i] != RUSH_NO_VALUE && !w->name[node->out[i]]) w->name[node->out[i]] = "missing"; /* so that what uses them is looked at, too */
        return 0;
    }
    if (node->form == RUSH_NODE_INPLACE && node->in[0].kind == RUSH_OPERAND_VALUE && node->nout && node->out[0] != RUSH_NO_VALUE) w->name[node->in[0].value] = w->name[node->out[0]];
    return rush_failed() ? -1 : 0;
}

static int write_graph(W *w)
{
    for (uint32_t k = 0; k < w->g->nnodes; ++k)
        if (write_node(w, &w->g->node[k])) return -1;
    return 0;
}

/* ---- what goes in and comes out ---- */

static void add_value(rush_bytes *to, int field, const rush_graph *g, const rush_graph_value *v, const char *name)
{
    rush_bytes value = {0}, type = {0}, tensor = {0}, shape = {0};
    const rush_graph *root = rush_graph_root(g);
    bool is_tensor = v->type == RUSH_A_TENSOR;
    for (int d = 0; d < v->ndim; ++d) {
        rush_bytes dim = {0};
        if (v->size[d].symbol >= 0) rush_pb_text(&dim, 2, root->symbol[v->size[d].symbol].name);
        else if (v->size[d].n >= 0) rush_pb_int(&dim, 1, v->size[d].n);
        rush_pb_message(&shape, 1, &dim);
    }
    rush_pb_int(&tensor, 1, is_tensor ? rush_dtypes[v->dtype].onnx : v->type == RUSH_A_FLOAT ? 1 : v->type == RUSH_A_BOOL ? 9 : 7);
    if (!is_tensor || v->ndim >= 0) rush_pb_message(&tensor, 2, &shape);
    else rush_bytes_end(&shape);
    rush_pb_message(&type, 1, &tensor);
    rush_pb_text(&value, 1, name);
    rush_pb_message(&value, 2, &type);
    rush_pb_message(to, field, &value);
}

/* "layers.0.weight": what the module calls a tensor of one of its parts. */
static bool called(const rush_module *m, const rush_program_input *in, char *name, size_t used, size_t room)
{
    if (m == in->part) return snprintf(name + used, room - used, "%s", m->slots[in->slot].name) > 0;
    for (int i = 0; i < m->nchildren; ++i) {
        int n = snprintf(name + used, room - used, "%s.", m->children[i].name);
        if (n > 0 && used + (size_t)n < room && called(m->children[i].module, in, name, used + (size_t)n, room)) return true;
    }
    return false;
}

/* A tensor of the module: written once, also where it has several names. */
static int write_tensor(W *w, rush_module *m, const rush_program *p, uint32_t i)
{
    const rush_tensor *t = rush_slot_at(p->in[i].part, p->in[i].slot);
    for (uint32_t k = 0; k < i; ++k)
        if (p->in[k].part && rush_slot_at(p->in[k].part, p->in[k].slot) == t) return w->name[w->g->in[i]] = w->name[w->g->in[k]], 0;
    char *name = rush_scope_alloc(1024);
    if (!name) return -1;
    if (!called(m, &p->in[i], name, 0, 1024)) snprintf(name, 1024, "%s", w->g->value[w->g->in[i]].name);
    w->name[w->g->in[i]] = name;
    return rush_onnx_constant(w, name, t);
}

static int write_inputs(W *w, rush_module *m, const rush_program *p, rush_bytes *graph, const rush_onnx_options *o)
{
    int given = 0;
    for (uint32_t i = 0; i < w->g->nin; ++i) {
        if (w->g->in[i] == RUSH_NO_VALUE || p->in[i].unused) continue;
        if (p->in[i].part) {
            if (write_tensor(w, m, p, i)) return -1;
            continue;
        }
        const rush_graph_value *v = &w->g->value[w->g->in[i]];
        const char *name = given < o->ninputs ? o->input[given] : v->name;
        w->name[w->g->in[i]] = name;
        add_value(graph, 11, w->g, v, name);
        ++given;
    }
    return rush_failed() ? -1 : 0;
}

/* The name of the value, but where an input or an earlier result has it: output_3. */
static const char *result_name(const W *w, uint32_t i, char *room, size_t n)
{
    const rush_graph *g = w->g;
    const rush_operand *o = &g->out[i];
    bool own = o->kind == RUSH_OPERAND_VALUE;
    for (uint32_t k = 0; own && k < g->nin; ++k) own = g->in[k] == RUSH_NO_VALUE || (g->in[k] != o->value && (!w->name[g->in[k]] || strcmp(w->name[g->in[k]], g->value[o->value].name)));
    for (uint32_t k = 0; own && k < i; ++k) own = g->out[k].kind != RUSH_OPERAND_VALUE || g->out[k].value != o->value;
    if (own) return g->value[o->value].name;
    snprintf(room, n, "output_%u", i);
    return room;
}

static int write_outputs(W *w, const rush_program *p, rush_bytes *graph, const rush_onnx_options *o)
{
    int given = 0;
    w->node = NULL;
    for (uint32_t i = 0; i < w->g->nout; ++i) {
        char name[32];
        if (p->out[i].into >= 0) continue; /* what the program changes stays as it was: ONNX has no memory */
        const char *from = rush_onnx_tensor_of(w, &w->g->out[i], -1);
        RUSH_CHECK(from, RUSH_NOT_IMPLEMENTED, "result %d of the program is no tensor", given);
        const char *to = given < o->noutputs ? o->output[given] : result_name(w, i, name, sizeof name);
        rush_bytes node = {0};
        rush_pb_text(&node, 1, from);
        rush_pb_text(&node, 2, to);
        rush_pb_text(&node, 3, to);
        rush_pb_text(&node, 4, "Identity");
        rush_pb_message(w->nodes, 1, &node);
        rush_graph_value number = {.type = RUSH_A_INT};
        if (w->g->out[i].kind == RUSH_OPERAND_CONSTANT) number.type = w->g->out[i].constant.kind == RUSH_V_FLOAT ? RUSH_A_FLOAT : w->g->out[i].constant.kind == RUSH_V_BOOL ? RUSH_A_BOOL : RUSH_A_INT;
        add_value(graph, 12, w->g, w->g->out[i].kind == RUSH_OPERAND_VALUE ? &w->g->value[w->g->out[i].value] : &number, to);
        ++given;
    }
    return rush_failed() ? -1 : 0;
}

/* ---- the whole ---- */

static int save(const char *path, rush_bytes *graph, int64_t opset)
{
    rush_bytes model = {0}, set = {0};
    rush_writing file;
    RUSH_CHECK(graph->n < INT32_MAX - 4096, RUSH_NOT_IMPLEMENTED, "the model has more than 2 GB, which no ONNX file holds");
    rush_pb_int(&model, 1, opset < 19 ? 8 : opset < 21 ? 9 : 10);
    rush_pb_text(&model, 2, "rushlight");
    rush_pb_text(&model, 3, rush_version());
    rush_pb_message(&model, 7, graph);
    rush_pb_int(&set, 2, opset);
    rush_pb_message(&model, 8, &set);
    int failed = model.lost || rush_failed() || rush_write_begin(&file, path);
    if (!failed) {
        failed = rush_write(&file, model.p, model.n);
        failed = rush_write_end(&file, !failed) || failed;
    }
    rush_bytes_end(&model);
    return failed ? -1 : 0;
}

static int write_whole(W *w, rush_module *m, const rush_program *p, const char *path, const rush_onnx_options *o)
{
    rush_bytes graph = {0};
    w->nodes = w->constants = &graph;
    int failed = write_inputs(w, m, p, &graph, o) || write_graph(w);
    if (!failed && w->missing->n)
        failed = rush_fail(RUSH_NOT_IMPLEMENTED, "%zu operation%s cannot be written as ONNX (operator set %lld):%s", w->missing->n, w->missing->n == 1 ? "" : "s", (long long)w->opset, w->missing->text);
    if (!failed) failed = write_outputs(w, p, &graph, o);
    rush_pb_text(&graph, 2, "main_graph");
    failed = failed || graph.lost || save(path, &graph, w->opset);
    rush_bytes_end(&graph);
    return failed ? -1 : 0;
}

int rush_program_save_onnx_with(rush_module *m, const char *path, const rush_onnx_options *options)
{
    const rush_program *p = rush_failed() ? NULL : rush_program_of(m);
    if (!p) return -1;
    rush_onnx_options o = options ? *options : (rush_onnx_options){0};
    RUSH_CHECK((!o.ninputs || o.input) && (!o.noutputs || o.output), RUSH_TYPE_ERROR, "names are missing (NULL)");
    rush_missing missing = {.n = 0};
    unsigned fresh = 0;
    if (!o.opset) o.opset = 18;
    RUSH_CHECK(path, RUSH_TYPE_ERROR, "a path is missing (NULL)");
    RUSH_CHECK(o.opset >= 18 && o.opset <= 23, RUSH_VALUE_ERROR, "models are written for ONNX's operator sets 18 to 23, not %lld", (long long)o.opset);
    size_t mark = rush_scope_open();
    W w = {.g = p->graph, .missing = &missing, .opset = o.opset, .fresh = &fresh};
    w.name = rush_scope_alloc((w.g->nvalues + 1) * sizeof *w.name);
    w.symbol = rush_scope_alloc((w.g->nsymbols + 1) * sizeof *w.symbol);
    int failed = !w.name || !w.symbol;
    if (!failed) {
        memset(w.name, 0, (w.g->nvalues + 1) * sizeof *w.name);
        memset(w.symbol, 0, (w.g->nsymbols + 1) * sizeof *w.symbol);
        failed = write_whole(&w, m, p, path, &o);
    }
    rush_scope_close(mark);
    return failed ? -1 : 0;
}
