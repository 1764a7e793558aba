/* pt2_graph.c - the graph of an exported program, from JSON.
 *
 * Nodes name ATen's operations and their arguments, so that they are bound by the registry's schemas; what is left out has the
 * schema's default. Nothing else in the file is believed: every name, kind and number is looked at before it is used.
 */
#include "graph/pt2.h"
#include "base/hash.h"

#include <math.h>
#include <stdio.h>

enum { DEEPEST = 64 }; /* blocks in blocks */

static int damaged(const char *what, const char *name) { return rush_fail(RUSH_VALUE_ERROR, "the program is damaged: %s%s%.100s", what, name ? ": " : "", name ? name : ""); }

/* ---- small things ---- */

int rush_pt2_dtype(const rush_json *code)
{
    static const int8_t dtypes[] = {
        -1, RUSH_U8, RUSH_I8, RUSH_I16, RUSH_I32, RUSH_I64, RUSH_F16, RUSH_F32, RUSH_F64, RUSH_C32, RUSH_C64, RUSH_C128, RUSH_BOOL, RUSH_BF16,
        -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, RUSH_U16, RUSH_F8E4M3FN, RUSH_F8E5M2, RUSH_F8E4M3FNUZ, RUSH_F8E5M2FNUZ,
        RUSH_F8E8M0FNU, RUSH_U32, RUSH_U64};
    return rush_json_is(code, RUSH_JSON_WHOLE) && code->i >= 0 && code->i < (int64_t)RUSH_COUNT(dtypes) ? dtypes[code->i] : -1;
}

int64_t rush_pt2_int(const rush_json *number)
{
    double d = number->number;
    if (number->kind == RUSH_JSON_WHOLE) return number->i;
    return d >= 0x1p63 ? INT64_MAX : d < -0x1p63 ? INT64_MIN : d != d ? 0 : (int64_t)d;
}

bool rush_pt2_size(const rush_json *size, int64_t *n)
{
    const rush_json *x = rush_json_get(size, "as_int");
    return rush_json_is_number(x) && (*n = rush_pt2_int(x), true);
}

static int number_of(const rush_json *x, double *f)
{
    const char *s = rush_json_text(x);
    if (rush_json_is_number(x)) *f = x->number;
    else if (s && !strcmp(s, "Infinity")) *f = INFINITY;
    else if (s && !strcmp(s, "-Infinity")) *f = -INFINITY;
    else if (s && !strcmp(s, "NaN")) *f = NAN;
    else return damaged("a number is none", NULL);
    return 0;
}

/* ---- values, by name ---- */

typedef struct reader {
    rush_graph *g;
    uint32_t *slot, mask; /* value's number + 1 */
    rush_missing *missing;
    int depth;
} reader;

static uint32_t find(const reader *r, const char *name)
{
    for (uint32_t at = (uint32_t)rush_hash_name(name) & r->mask; r->slot[at]; at = (at + 1) & r->mask)
        if (!strcmp(r->g->value[r->slot[at] - 1].name, name)) return r->slot[at] - 1;
    return RUSH_NO_VALUE;
}

static rush_graph_value *add_value(reader *r, const char *name, rush_arg_type type)
{
    if (find(r, name) != RUSH_NO_VALUE) return damaged("a value is described twice", name), NULL;
    rush_graph_value *v = &r->g->value[r->g->nvalues];
    *v = (rush_graph_value){.name = rush_graph_copy(r->g, name), .type = (uint8_t)type, .ndim = -1};
    if (!v->name) return NULL;
    uint32_t at = (uint32_t)rush_hash_name(name) & r->mask;
    while (r->slot[at]) at = (at + 1) & r->mask;
    r->slot[at] = ++r->g->nvalues;
    return v;
}

/* "Symbol('s77', positive=True, integer=True)" and nothing else: the symbol's number, made when it is new; -1 otherwise, -2 and an error. */
static int32_t symbol_of(reader *r, const char *text)
{
    if (!text || strncmp(text, "Symbol('", 8) || strchr(text + 8, '(')) return -1;
    const char *name = text + 8, *end = strchr(name, '\'');
    if (!end) return -1;
    int32_t k = rush_graph_symbol_named(r->g, name, (size_t)(end - name));
    return k < 0 ? -2 : k;
}

static int read_meta(reader *r, rush_graph_value *v, const rush_json *meta)
{
    const rush_json *sizes = rush_json_get(meta, "sizes");
    int dtype = rush_pt2_dtype(rush_json_get(meta, "dtype")), n = rush_json_is(sizes, RUSH_JSON_LIST) ? (int)rush_json_count(sizes) : -1;
    if (dtype < 0 || n < 0 || n > RUSH_MAXDIM) return damaged("a tensor's description cannot be read", v->name);
    if (!(v->size = rush_graph_alloc(r->g, (size_t)RUSH_MAX(n, 1) * sizeof *v->size))) return -1;
    v->dtype = (uint8_t)dtype;
    v->ndim = 0;
    rush_json_each(x, sizes) {
        rush_graph_size *s = &v->size[v->ndim++];
        *s = (rush_graph_size){-1, -1};
        if (rush_pt2_size(x, &s->n)) continue;
        if ((s->symbol = symbol_of(r, rush_json_text_of(rush_json_get(x, "as_expr"), "expr_str"))) == -2) return -1;
    }
    return 0;
}

static int read_values(reader *r, const rush_json *json)
{
    static const struct { const char *key; rush_arg_type type; } kinds[] = {
        {"tensor_values", RUSH_A_TENSOR}, {"sym_int_values", RUSH_A_INT}, {"sym_bool_values", RUSH_A_BOOL}, {"sym_float_values", RUSH_A_FLOAT}};
    size_t n = 0;
    for (size_t k = 0; k < RUSH_COUNT(kinds); ++k) n += rush_json_count(rush_json_get(json, kinds[k].key));
    r->mask = 16;
    while (r->mask < 2 * n) r->mask *= 2;
    r->slot = rush_calloc(r->mask--, sizeof *r->slot);
    r->g->value = rush_graph_alloc(r->g, (n + 1) * sizeof *r->g->value);
    if (!r->slot || !r->g->value) return -1;
    for (size_t k = 0; k < RUSH_COUNT(kinds); ++k) {
        rush_json_each(x, rush_json_get(json, kinds[k].key)) {
            rush_graph_value *v = x->name ? add_value(r, x->name, kinds[k].type) : NULL;
            if (!v) return rush_failed() ? -1 : damaged("a value has no name", NULL);
            if (kinds[k].type == RUSH_A_TENSOR && read_meta(r, v, x)) return -1;
        }
    }
    return 0;
}

/* ---- arguments ---- */

static int constant(rush_operand *o, rush_value v) { return *o = (rush_operand){.kind = RUSH_OPERAND_CONSTANT, .constant = v}, 0; }

static int value_named(reader *r, const rush_json *name, rush_operand *o)
{
    const char *s = rush_json_text(name);
    uint32_t v = s ? find(r, s) : RUSH_NO_VALUE;
    if (v == RUSH_NO_VALUE) return damaged("a value is used that is not described", s);
    return *o = (rush_operand){.kind = RUSH_OPERAND_VALUE, .value = v}, 0;
}

static int read_operand(reader *r, const rush_json *arg, rush_operand *o);

/* One item of a list that the tag "as_KIND" announces, as KIND's own tag would say it. */
static int read_item(reader *r, const char *tag, const rush_json *x, rush_operand *o)
{
    double f = 0;
    if (rush_json_is(x, RUSH_JSON_OBJECT) && rush_json_get(x, "name")) return value_named(r, rush_json_get(x, "name"), o);
    if (rush_json_is(x, RUSH_JSON_OBJECT) && rush_json_get(x, "as_name")) return value_named(r, rush_json_get(x, "as_name"), o);
    if (rush_json_is(x, RUSH_JSON_OBJECT)) return read_operand(r, x, o);
    if (rush_json_is(x, RUSH_JSON_BOOL)) return constant(o, rush_v_bool(rush_json_is_true(x)));
    if (rush_json_is_number(x) && strcmp(tag, "as_floats")) return constant(o, rush_v_int(rush_pt2_int(x)));
    return number_of(x, &f) ? -1 : constant(o, rush_v_float(f));
}

static int read_list(reader *r, const char *tag, const rush_json *list, rush_operand *o)
{
    size_t n = rush_json_count(list);
    *o = (rush_operand){.kind = RUSH_OPERAND_LIST, .item = rush_graph_alloc(r->g, (n + 1) * sizeof *o->item)};
    if (!o->item) return -1;
    rush_json_each(x, list) if (read_item(r, tag, x, &o->item[o->n++])) return -1;
    return 0;
}

/* A "union": an object with one member, whose name says what it is. */
static int read_operand(reader *r, const rush_json *arg, rush_operand *o)
{
    const rush_json *x = rush_json_is(arg, RUSH_JSON_OBJECT) ? arg->first : NULL;
    const char *tag = x ? x->name : NULL;
    double f = 0, imaginary = 0;
    if (!tag || x->next) return damaged("an argument cannot be read", NULL);
    if (!strcmp(tag, "as_none")) return constant(o, RUSH_NONE);
    if (rush_json_is(x, RUSH_JSON_LIST) && strcmp(tag, "as_strings") && strcmp(tag, "as_nested_tensors") && strcmp(tag, "as_int_lists")) return read_list(r, tag, x, o);
    if (!strcmp(tag, "as_tensor") || !strcmp(tag, "as_optional_tensor")) {
        if (rush_json_get(x, "as_none")) return constant(o, RUSH_NONE);
        const rush_json *name = rush_json_get(x, "name");
        return value_named(r, name ? name : rush_json_get(rush_json_get(x, "as_tensor"), "name"), o);
    }
    if (!strcmp(tag, "as_sym_int") || !strcmp(tag, "as_sym_float") || !strcmp(tag, "as_sym_bool")) return read_item(r, tag, x, o);
    if (!strcmp(tag, "as_int") && rush_json_is_number(x)) return constant(o, rush_v_int(rush_pt2_int(x)));
    if (!strcmp(tag, "as_float")) return number_of(x, &f) ? -1 : constant(o, rush_v_float(f));
    if (!strcmp(tag, "as_bool") && rush_json_is(x, RUSH_JSON_BOOL)) return constant(o, rush_v_bool(rush_json_is_true(x)));
    if (!strcmp(tag, "as_string") && x->text) {
        const char *s = rush_graph_copy(r->g, x->text);
        return s ? constant(o, rush_v_string(s)) : -1;
    }
    if (!strcmp(tag, "as_complex")) {
        if (number_of(rush_json_get(x, "real"), &f) || number_of(rush_json_get(x, "imag"), &imaginary)) return -1;
        return constant(o, (rush_value){.kind = RUSH_V_COMPLEX, .c = {f, imaginary}});
    }
    if (!strcmp(tag, "as_scalar_type") && rush_pt2_dtype(x) >= 0) return constant(o, rush_v_dtype(rush_pt2_dtype(x)));
    if (!strcmp(tag, "as_layout") && rush_json_is_number(x) && x->number == 7) return constant(o, (rush_value){.kind = RUSH_V_LAYOUT, .i = RUSH_STRIDED});
    if (!strcmp(tag, "as_memory_format") && rush_json_is_number(x) && x->number >= 1 && x->number <= 4) {
        static const int formats[] = {RUSH_CONTIGUOUS, RUSH_CHANNELS_LAST, RUSH_CHANNELS_LAST_3D, RUSH_PRESERVE};
        return constant(o, (rush_value){.kind = RUSH_V_MEMORY_FORMAT, .i = formats[(int)x->number - 1]});
    }
    if (!strcmp(tag, "as_device")) { /* programs run where their tensors are */
        const char *type = rush_json_text_of(x, "type");
        if (type && !strcmp(type, "cpu")) return constant(o, (rush_value){.kind = RUSH_V_DEVICE, .device = {RUSH_CPU, -1}});
    }
    return rush_fail(RUSH_NOT_IMPLEMENTED, "a program has an argument of the kind '%.40s' that is not supported", tag);
}

/* ---- nodes ---- */

/* "model.py, line 9, in forward", of the first of a stack of such lines, without its folders. */
static const char *where_of(rush_graph *g, const rush_json *node)
{
    const char *trace = rush_json_text_of(rush_json_get(node, "metadata"), "stack_trace"), *file = trace ? strstr(trace, "File \"") : NULL;
    const char *quote = file ? strchr(file + 6, '"') : NULL, *end = quote ? strchr(quote, '\n') : NULL;
    if (!quote) return NULL;
    for (const char *p = file + 6; p < quote; ++p)
        if (p == file + 6 || p[-1] == '/') file = p - 6;
    for (const char *p = file + 6; p < quote; ++p)
        if (*p == '/') file = p - 5;
    char text[160];
    const char *name = file + 6;
    snprintf(text, sizeof text, "%.*s%.*s", (int)RUSH_MIN(quote - name, 80), name, (int)RUSH_MIN(end ? end - quote - 1 : (ptrdiff_t)strlen(quote) - 1, 70), quote + 1);
    return rush_graph_copy(g, text);
}

/* "torch.ops.aten.add_.Tensor": the record of add.Tensor, in place. NULL: none, no error. */
static const rush_op *operation(const char *target, bool *inplace)
{
    char name[160];
    *inplace = false;
    if (strncmp(target, "torch.ops.", 10)) return NULL;
    const char *space = target + 10, *dot = strchr(space, '.'), *overload = dot ? strchr(dot + 1, '.') : NULL;
    if (!overload || strlen(space) > sizeof name - 4) return NULL;
    size_t base = (size_t)(overload - dot - 1);
    bool own = !strncmp(space, "aten.", 5), plain = !strcmp(overload, ".default");
    snprintf(name, sizeof name, "%.*s%s%.*s%s", own ? 0 : (int)(dot - space), space, own ? "" : "::", (int)base, dot + 1, plain ? "" : overload);
    const rush_op *op = rush_op_find(name);
    if (op || !own || !base || dot[base] != '_') return op;
    *inplace = true;
    snprintf(name, sizeof name, "%.*s%s", (int)base - 1, dot + 1, plain ? "" : overload);
    return rush_op_find(name);
}

/* A list of constants in the form that the argument has; others stay to be read when the program runs. */
static int settle(rush_graph *g, const rush_arg *a, rush_operand *o)
{
    if (!a->list) return 0;
    if (o->kind == RUSH_OPERAND_CONSTANT && rush_is_number(o->constant)) { /* one number for int[2] */
        size_t n = a->fixed > 0 ? (size_t)a->fixed : 1;
        rush_operand *item = rush_graph_alloc(g, n * sizeof *item);
        if (!item) return -1;
        for (size_t i = 0; i < n; ++i) item[i] = *o;
        *o = (rush_operand){.kind = RUSH_OPERAND_LIST, .n = (uint32_t)n, .item = item};
    }
    if (o->kind != RUSH_OPERAND_LIST || a->type == RUSH_A_TENSOR || a->type == RUSH_A_SCALAR) return 0;
    for (uint32_t i = 0; i < o->n; ++i)
        if (o->item[i].kind != RUSH_OPERAND_CONSTANT || !rush_is_number(o->item[i].constant)) return 0;
    uint64_t *room = rush_graph_alloc(g, ((size_t)o->n + 1) * sizeof *room);
    if (!room) return -1;
    for (uint32_t i = 0; i < o->n; ++i) {
        if (a->type == RUSH_A_FLOAT) ((double *)room)[i] = rush_to_double(o->item[i].constant);
        else ((int64_t *)room)[i] = rush_to_int(o->item[i].constant);
    }
    return constant(o, a->type == RUSH_A_FLOAT ? rush_v_floats((double *)room, o->n) : rush_v_ints((int64_t *)room, o->n));
}

static int bind(reader *r, rush_graph_node *node, const rush_json *inputs)
{
    const rush_op *op = node->op;
    uint64_t given = 0;
    int at = 0;
    node->nin = op->nargs;
    if (!(node->in = rush_graph_alloc(r->g, (node->nin + 1u) * sizeof *node->in))) return -1;
    rush_json_each(x, inputs) {
        const char *name = rush_json_text_of(x, "name");
        int i = name && *name ? 0 : at;
        if (name && *name)
            while (i < op->nargs && strcmp(op->args[i].name, name)) ++i;
        if (i == op->nargs && node->form == RUSH_NODE_INPLACE && name && !strcmp(name, "self")) i = 0; /* dropout_(self), but dropout(input) */
        if (i >= op->nargs || i >= 64 || given >> i & 1) return damaged("a call has an argument that its operation does not take", node->target);
        if (read_operand(r, rush_json_get(x, "arg"), &node->in[i]) || settle(r->g, &op->args[i], &node->in[i])) return -1;
        given |= (uint64_t)1 << i;
        at = i + 1;
    }
    for (int i = 0; i < op->nargs; ++i) {
        if (given >> i & 1) continue;
        if (!op->args[i].has_default) return damaged("a call lacks an argument", node->target);
        constant(&node->in[i], op->args[i].def);
    }
    return 0;
}

static int read_plain_inputs(reader *r, rush_graph_node *node, const rush_json *inputs)
{
    size_t n = rush_json_count(inputs);
    if (n < 1 || n > 8) return damaged("arithmetic on sizes with no arguments, or many", node->target);
    if (!(node->in = rush_graph_alloc(r->g, n * sizeof *node->in))) return -1;
    rush_json_each(x, inputs) if (read_operand(r, rush_json_get(x, "arg"), &node->in[node->nin++])) return -1;
    return 0;
}

static int read_graph(rush_graph *g, const rush_json *json, rush_missing *missing, int depth);

/* Operations on graphs: what is a graph becomes a block, what is a list is handed to its inputs one by one. */
static int read_block_inputs(reader *r, rush_graph_node *node, const rush_json *inputs)
{
    size_t most = 0;
    int nblocks = 0, nlists = 0;
    rush_json_each(x, inputs) most += 1 + rush_json_count(rush_json_get(rush_json_get(x, "arg"), "as_tensors"));
    if (!(node->in = rush_graph_alloc(r->g, (most + 1) * sizeof *node->in))) return -1;
    rush_json_each(x, inputs) {
        const rush_json *arg = rush_json_get(x, "arg"), *graph = rush_json_get(rush_json_get(arg, "as_graph"), "graph"), *list = rush_json_get(arg, "as_tensors");
        rush_operand o;
        if (graph) {
            if (nblocks == 2) return damaged("a node with too many graphs", node->target);
            rush_graph *block = node->block[nblocks++] = rush_graph_new(r->g);
            if (!block || read_graph(block, graph, r->missing, r->depth + 1)) return -1;
        } else if (list) {
            uint32_t *n = nlists == 0 ? &node->ncarried : nlists == 1 ? &node->nsliced : NULL, before = node->nin;
            rush_json_each(y, list) if (read_item(r, "as_tensors", y, &node->in[node->nin++])) return -1;
            if (n) *n = node->nin - before;
            ++nlists;
        } else if (read_operand(r, arg, &o)) {
            return -1;
        } else if (node->form == RUSH_NODE_BLOCK && !nblocks && o.kind == RUSH_OPERAND_CONSTANT) {
            node->grad = o.constant.kind == RUSH_V_BOOL && o.constant.i;
        } else {
            node->in[node->nin++] = o;
        }
    }
    bool cond = node->form == RUSH_NODE_COND, two = cond || node->form == RUSH_NODE_WHILE;
    if (node->form == RUSH_NODE_WHILE) node->nsliced = 0;
    if (node->form == RUSH_NODE_MAP) node->nsliced = node->ncarried, node->ncarried = 0;
    if (nblocks != 1 + two || node->nin < cond) return damaged("a node lacks its graphs", node->target);
    if (node->form >= RUSH_NODE_SCAN && !node->nsliced) return damaged("a node has nothing to run over", node->target);
    for (int k = 0; k < nblocks; ++k)
        if (node->block[k]->nin != node->nin - cond) return damaged("a block takes another number of values than it is given", node->target);
    return 0;
}

/* As many results as the blocks have. */
static bool blocks_fit(const rush_graph_node *node)
{
    const rush_graph *a = node->block[0], *b = node->block[1];
    switch (node->form) {
    case RUSH_NODE_WHILE: return a->nout == 1 && b->nout == node->nout && node->nout == node->ncarried;
    case RUSH_NODE_SCAN:
    case RUSH_NODE_MAP: return a->nout == node->nout && node->nout >= node->ncarried;
    default: return a->nout == node->nout && (!b || b->nout == node->nout);
    }
}

static int read_node_outputs(reader *r, rush_graph_node *node, const rush_json *outputs)
{
    size_t most = 0;
    rush_json_each(x, outputs) most += 1 + rush_json_count(x->first);
    if (!(node->out = rush_graph_alloc(r->g, (most + 1) * sizeof *node->out))) return -1;
    rush_json_each(x, outputs) {
        const rush_json *what = rush_json_is(x, RUSH_JSON_OBJECT) ? x->first : NULL;
        if (rush_json_is(what, RUSH_JSON_LIST)) {
            node->list = node->form <= RUSH_NODE_INPLACE;
            rush_json_each(y, what) {
                const char *name = rush_json_text_of(y, "name");
                node->out[node->nout++] = name ? find(r, name) : RUSH_NO_VALUE;
            }
            continue;
        }
        const char *name = rush_json_text_of(what, "name") ? rush_json_text_of(what, "name") : rush_json_text_of(what, "as_name");
        node->out[node->nout++] = name ? find(r, name) : RUSH_NO_VALUE;
    }
    bool fits = node->form > RUSH_NODE_INPLACE || (node->list ? rush_json_count(outputs) == 1 && node->op->out_list & 1 : node->nout <= node->op->nout);
    if (node->form == RUSH_NODE_SIZES) fits = node->nout <= 1;
    if (node->form >= RUSH_NODE_COND) fits = blocks_fit(node);
    return fits ? 0 : damaged("a call has other results than its operation", node->target);
}

/* Operations on graphs; -1: it is none */
static int form_of_blocks(const char *target)
{
    static const struct { const char *name; rush_graph_form form; } table[] = {
        {"cond", RUSH_NODE_COND}, {"wrap_with_set_grad_enabled", RUSH_NODE_BLOCK}, {"while_loop", RUSH_NODE_WHILE}, {"scan", RUSH_NODE_SCAN}, {"map_impl", RUSH_NODE_MAP}};
    static const char space[] = "torch.ops.higher_order.";
    for (size_t i = 0; i < RUSH_COUNT(table) && !strncmp(target, space, sizeof space - 1); ++i)
        if (!strcmp(target + sizeof space - 1, table[i].name)) return table[i].form;
    return -1;
}

static int read_node(reader *r, rush_graph_node *node, const rush_json *json)
{
    const char *target = rush_json_text_of(json, "target");
    const rush_json *inputs = rush_json_get(json, "inputs");
    bool inplace = false;
    if (!target || strlen(target) > 200 || !rush_json_is(inputs, RUSH_JSON_LIST)) return damaged("a node cannot be read", target);
    node->target = rush_graph_copy(r->g, target);
    node->where = where_of(r->g, json);
    if (!node->target || rush_failed()) return -1;
    node->run = rush_graph_arithmetic_of(target);
    node->op = node->run ? NULL : operation(target, &inplace);
    int form = form_of_blocks(target);
    node->form = (uint8_t)(form >= 0 ? form : node->run ? RUSH_NODE_SIZES : inplace ? RUSH_NODE_INPLACE : RUSH_NODE_CALL);
    bool call = node->form <= RUSH_NODE_INPLACE;
    if (call && !node->op) return rush_missing_add(r->missing, target, node->where), 1;
    if (call ? bind(r, node, inputs) : node->run ? read_plain_inputs(r, node, inputs) : read_block_inputs(r, node, inputs)) return -1;
    return read_node_outputs(r, node, rush_json_get(json, "outputs"));
}

/* ---- the whole ---- */

static int read_ends(reader *r, const rush_json *json)
{
    const rush_json *inputs = rush_json_get(json, "inputs"), *outputs = rush_json_get(json, "outputs");
    rush_graph *g = r->g;
    g->in = rush_graph_alloc(g, (rush_json_count(inputs) + 1) * sizeof *g->in);
    g->out = rush_graph_alloc(g, (rush_json_count(outputs) + 1) * sizeof *g->out);
    if (!g->in || !g->out) return -1;
    rush_json_each(x, inputs) {
        rush_operand o;
        if (read_operand(r, x, &o)) return -1;
        g->in[g->nin++] = o.kind == RUSH_OPERAND_VALUE ? o.value : RUSH_NO_VALUE; /* a constant is not passed on */
    }
    rush_json_each(x, outputs) {
        if (read_operand(r, x, &g->out[g->nout])) return -1;
        if (g->out[g->nout].kind == RUSH_OPERAND_LIST) return rush_fail(RUSH_NOT_IMPLEMENTED, "a program whose result is a list inside of its results");
        ++g->nout;
    }
    return 0;
}

static int read_nodes(reader *r, const rush_json *nodes)
{
    rush_graph *g = r->g;
    g->node = rush_graph_alloc(g, (rush_json_count(nodes) + 1) * sizeof *g->node);
    if (!g->node) return -1;
    rush_json_each(x, nodes) if (read_node(r, &g->node[g->nnodes++], x) < 0) return -1;
    return 0;
}

static int read_graph(rush_graph *g, const rush_json *json, rush_missing *missing, int depth)
{
    reader r = {.g = g, .missing = missing, .depth = depth};
    if (!rush_json_is(json, RUSH_JSON_OBJECT) || depth > DEEPEST) return damaged("its graph cannot be read", NULL);
    if (rush_json_count(rush_json_get(json, "custom_obj_values")))
        return rush_fail(RUSH_NOT_IMPLEMENTED, "the program holds objects of classes of its own, which only the program that wrote it knows");
    int failed = read_values(&r, json) || read_nodes(&r, rush_json_get(json, "nodes")) || read_ends(&r, json) || (!missing->n && rush_graph_finish(g));
    rush_free(r.slot);
    return failed ? -1 : 0;
}

int rush_pt2_graph(rush_graph *g, const rush_json *json, rush_missing *missing) { return read_graph(g, json, missing, 0); }
