/* pt2_graph.c - the graph of an exported program, from JSON.
 *
 * Nodes name ATen's operations and their arguments, so that they are bound by the registry's schemas; what is left out has the
 * schema's default. Nothing else in the file is believed: every name, kind and number is looked at before it is used.
 */
#include "graph/pt2.h"
#include "base/hash.h"

#if RUSH_HAS_JSON
#include <math.h>
#include <stdio.h>

enum { DEEPEST = 64 }; /* blocks in blocks */

static int damaged(const char *what, const char *name) { return rush_fail(RUSH_VALUE_ERROR, "the program is damaged: %s%s%.100s", what, name ? ": " : "", name ? name : ""); }

/* ---- small things ---- */

int rush_pt2_dtype(const cJSON *code)
{
    static const int8_t dtypes[] = {
        -1, RUSH_U8, RUSH_I8, RUSH_I16, RUSH_I32, RUSH_I64, RUSH_F16, RUSH_F32, RUSH_F64, RUSH_C32, RUSH_C64, RUSH_C128, RUSH_BOOL, RUSH_BF16,
        -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, RUSH_U16, RUSH_F8E4M3FN, RUSH_F8E5M2, RUSH_F8E4M3FNUZ, RUSH_F8E5M2FNUZ,
        RUSH_F8E8M0FNU, RUSH_U32, RUSH_U64};
    if (!cJSON_IsNumber(code)) return -1;
    double d = code->valuedouble;
    return d >= 0 && d < (double)RUSH_COUNT(dtypes) && d == floor(d) ? dtypes[(int)d] : -1;
}

int64_t rush_pt2_int(const cJSON *number)
{
    double d = number->valuedouble;
    return d >= 0x1p63 ? INT64_MAX : d < -0x1p63 ? INT64_MIN : d != d ? 0 : (int64_t)d;
}

bool rush_pt2_size(const cJSON *size, int64_t *n)
{
    const cJSON *x = rush_json(size, "as_int");
    return cJSON_IsNumber(x) && (*n = rush_pt2_int(x), true);
}

static int number_of(const cJSON *x, double *f)
{
    const char *s = cJSON_GetStringValue(x);
    if (cJSON_IsNumber(x)) *f = x->valuedouble;
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

static int read_meta(reader *r, rush_graph_value *v, const cJSON *meta)
{
    const cJSON *sizes = rush_json(meta, "sizes"), *x;
    int dtype = rush_pt2_dtype(rush_json(meta, "dtype")), n = cJSON_IsArray(sizes) ? cJSON_GetArraySize(sizes) : -1;
    if (dtype < 0 || n < 0 || n > RUSH_MAXDIM) return damaged("a tensor's description cannot be read", v->name);
    if (!(v->size = rush_graph_alloc(r->g, (size_t)RUSH_MAX(n, 1) * sizeof *v->size))) return -1;
    v->dtype = (uint8_t)dtype;
    v->ndim = 0;
    cJSON_ArrayForEach(x, sizes)
    {
        rush_graph_size *s = &v->size[v->ndim++];
        *s = (rush_graph_size){-1, -1};
        if (rush_pt2_size(x, &s->n)) continue;
        if ((s->symbol = symbol_of(r, rush_json_text(rush_json(x, "as_expr"), "expr_str"))) == -2) return -1;
    }
    return 0;
}

static int read_values(reader *r, const cJSON *json)
{
    static const struct { const char *key; rush_arg_type type; } kinds[] = {
        {"tensor_values", RUSH_A_TENSOR}, {"sym_int_values", RUSH_A_INT}, {"sym_bool_values", RUSH_A_BOOL}, {"sym_float_values", RUSH_A_FLOAT}};
    size_t n = 0;
    for (size_t k = 0; k < RUSH_COUNT(kinds); ++k) n += (size_t)cJSON_GetArraySize(rush_json(json, kinds[k].key));
    r->mask = 16;
    while (r->mask < 2 * n) r->mask *= 2;
    r->slot = rush_calloc(r->mask--, sizeof *r->slot);
    r->g->value = rush_graph_alloc(r->g, (n + 1) * sizeof *r->g->value);
    if (!r->slot || !r->g->value) return -1;
    for (size_t k = 0; k < RUSH_COUNT(kinds); ++k) {
        const cJSON *x;
        cJSON_ArrayForEach(x, rush_json(json, kinds[k].key))
        {
            rush_graph_value *v = x->string ? add_value(r, x->string, kinds[k].type) : NULL;
            if (!v) return rush_failed() ? -1 : damaged("a value has no name", NULL);
            if (kinds[k].type == RUSH_A_TENSOR && read_meta(r, v, x)) return -1;
        }
    }
    return 0;
}

/* ---- arguments ---- */

static int constant(rush_operand *o, rush_value v) { return *o = (rush_operand){.kind = RUSH_OPERAND_CONSTANT, .constant = v}, 0; }

static int value_named(reader *r, const cJSON *name, rush_operand *o)
{
    const char *s = cJSON_GetStringValue(name);
    uint32_t v = s ? find(r, s) : RUSH_NO_VALUE;
    if (v == RUSH_NO_VALUE) return damaged("a value is used that is not described", s);
    return *o = (rush_operand){.kind = RUSH_OPERAND_VALUE, .value = v}, 0;
}

static int read_operand(reader *r, const cJSON *arg, rush_operand *o);

/* One item of a list that the tag "as_KIND" announces, as KIND's own tag would say it. */
static int read_item(reader *r, const char *tag, const cJSON *x, rush_operand *o)
{
    double f;
    if (cJSON_IsObject(x) && rush_json(x, "name")) return value_named(r, rush_json(x, "name"), o);
    if (cJSON_IsObject(x) && rush_json(x, "as_name")) return value_named(r, rush_json(x, "as_name"), o);
    if (cJSON_IsObject(x)) return read_operand(r, x, o);
    if (cJSON_IsBool(x)) return constant(o, rush_v_bool(cJSON_IsTrue(x)));
    if (cJSON_IsNumber(x) && strcmp(tag, "as_floats")) return constant(o, rush_v_int(rush_pt2_int(x)));
    return number_of(x, &f) ? -1 : constant(o, rush_v_float(f));
}

static int read_list(reader *r, const char *tag, const cJSON *list, rush_operand *o)
{
    const cJSON *x;
    size_t n = (size_t)cJSON_GetArraySize(list);
    *o = (rush_operand){.kind = RUSH_OPERAND_LIST, .item = rush_graph_alloc(r->g, (n + 1) * sizeof *o->item)};
    if (!o->item) return -1;
    cJSON_ArrayForEach(x, list) if (read_item(r, tag, x, &o->item[o->n++])) return -1;
    return 0;
}

/* A "union": an object with one member, whose name says what it is. */
static int read_operand(reader *r, const cJSON *arg, rush_operand *o)
{
    const cJSON *x = cJSON_IsObject(arg) ? arg->child : NULL;
    const char *tag = x ? x->string : NULL;
    double f = 0, imaginary = 0;
    if (!tag || x->next) return damaged("an argument cannot be read", NULL);
    if (!strcmp(tag, "as_none")) return constant(o, RUSH_NONE);
    if (cJSON_IsArray(x) && strcmp(tag, "as_strings") && strcmp(tag, "as_nested_tensors") && strcmp(tag, "as_int_lists")) return read_list(r, tag, x, o);
    if (!strcmp(tag, "as_tensor") || !strcmp(tag, "as_optional_tensor")) {
        if (rush_json(x, "as_none")) return constant(o, RUSH_NONE);
        const cJSON *name = rush_json(x, "name");
        return value_named(r, name ? name : rush_json(rush_json(x, "as_tensor"), "name"), o);
    }
    if (!strcmp(tag, "as_sym_int") || !strcmp(tag, "as_sym_float") || !strcmp(tag, "as_sym_bool")) return read_item(r, tag, x, o);
    if (!strcmp(tag, "as_int") && cJSON_IsNumber(x)) return constant(o, rush_v_int(rush_pt2_int(x)));
    if (!strcmp(tag, "as_float")) return number_of(x, &f) ? -1 : constant(o, rush_v_float(f));
    if (!strcmp(tag, "as_bool") && cJSON_IsBool(x)) return constant(o, rush_v_bool(cJSON_IsTrue(x)));
    if (!strcmp(tag, "as_string") && cJSON_IsString(x)) {
        const char *s = rush_graph_copy(r->g, x->valuestring);
        return s ? constant(o, rush_v_string(s)) : -1;
    }
    if (!strcmp(tag, "as_complex")) {
        if (number_of(rush_json(x, "real"), &f) || number_of(rush_json(x, "imag"), &imaginary)) return -1;
        return constant(o, (rush_value){.kind = RUSH_V_COMPLEX, .c = {f, imaginary}});
    }
    if (!strcmp(tag, "as_scalar_type") && rush_pt2_dtype(x) >= 0) return constant(o, rush_v_dtype(rush_pt2_dtype(x)));
    if (!strcmp(tag, "as_layout") && cJSON_IsNumber(x) && x->valuedouble == 7) return constant(o, (rush_value){.kind = RUSH_V_LAYOUT, .i = RUSH_STRIDED});
    if (!strcmp(tag, "as_memory_format") && cJSON_IsNumber(x) && x->valuedouble >= 1 && x->valuedouble <= 4) {
        static const int formats[] = {RUSH_CONTIGUOUS, RUSH_CHANNELS_LAST, RUSH_CHANNELS_LAST_3D, RUSH_PRESERVE};
        return constant(o, (rush_value){.kind = RUSH_V_MEMORY_FORMAT, .i = formats[(int)x->valuedouble - 1]});
    }
    if (!strcmp(tag, "as_device")) { /* programs run where their tensors are */
        const char *type = rush_json_text(x, "type");
        if (type && !strcmp(type, "cpu")) return constant(o, (rush_value){.kind = RUSH_V_DEVICE, .device = {RUSH_CPU, -1}});
    }
    return rush_fail(RUSH_NOT_IMPLEMENTED, "a program has an argument of the kind '%.40s' that is not supported", tag);
}

/* ---- nodes ---- */

/* "model.py, line 9, in forward", of the first of a stack of such lines, without its folders. */
static const char *where_of(rush_graph *g, const cJSON *node)
{
    const char *trace = rush_json_text(rush_json(node, "metadata"), "stack_trace"), *file = trace ? strstr(trace, "File \"") : NULL;
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

static int bind(reader *r, rush_graph_node *node, const cJSON *inputs)
{
    const rush_op *op = node->op;
    const cJSON *x;
    uint64_t given = 0;
    int at = 0;
    node->nin = op->nargs;
    if (!(node->in = rush_graph_alloc(r->g, (node->nin + 1u) * sizeof *node->in))) return -1;
    cJSON_ArrayForEach(x, inputs)
    {
        const char *name = rush_json_text(x, "name");
        int i = name && *name ? 0 : at;
        if (name && *name)
            while (i < op->nargs && strcmp(op->args[i].name, name)) ++i;
        if (i == op->nargs && node->form == RUSH_NODE_INPLACE && !strcmp(name, "self")) i = 0; /* dropout_(self), but dropout(input) */
        if (i >= op->nargs || i >= 64 || given >> i & 1) return damaged("a call has an argument that its operation does not take", node->target);
        if (read_operand(r, rush_json(x, "arg"), &node->in[i]) || settle(r->g, &op->args[i], &node->in[i])) return -1;
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

static int read_plain_inputs(reader *r, rush_graph_node *node, const cJSON *inputs)
{
    const cJSON *x;
    int n = cJSON_GetArraySize(inputs);
    if (n < 1 || n > 8) return damaged("arithmetic on sizes with no arguments, or many", node->target);
    if (!(node->in = rush_graph_alloc(r->g, (size_t)n * sizeof *node->in))) return -1;
    cJSON_ArrayForEach(x, inputs) if (read_operand(r, rush_json(x, "arg"), &node->in[node->nin++])) return -1;
    return 0;
}

static int read_graph(rush_graph *g, const cJSON *json, rush_missing *missing, int depth);

/* Operations on graphs: what is a graph becomes a block, what is a list is handed to its inputs one by one. */
static int read_block_inputs(reader *r, rush_graph_node *node, const cJSON *inputs)
{
    const cJSON *x, *y;
    size_t most = 0;
    int nblocks = 0, nlists = 0;
    cJSON_ArrayForEach(x, inputs) most += 1 + (size_t)cJSON_GetArraySize(rush_json(rush_json(x, "arg"), "as_tensors"));
    if (!(node->in = rush_graph_alloc(r->g, (most + 1) * sizeof *node->in))) return -1;
    cJSON_ArrayForEach(x, inputs)
    {
        const cJSON *arg = rush_json(x, "arg"), *graph = rush_json(rush_json(arg, "as_graph"), "graph"), *list = rush_json(arg, "as_tensors");
        rush_operand o;
        if (graph) {
            if (nblocks == 2) return damaged("a node with too many graphs", node->target);
            rush_graph *block = node->block[nblocks++] = rush_graph_new(r->g);
            if (!block || read_graph(block, graph, r->missing, r->depth + 1)) return -1;
        } else if (list) {
            uint32_t *n = nlists == 0 ? &node->ncarried : nlists == 1 ? &node->nsliced : NULL, before = node->nin;
            cJSON_ArrayForEach(y, list) if (read_item(r, "as_tensors", y, &node->in[node->nin++])) return -1;
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

static int read_node_outputs(reader *r, rush_graph_node *node, const cJSON *outputs)
{
    const cJSON *x, *y;
    size_t most = 0;
    cJSON_ArrayForEach(x, outputs) most += 1 + (size_t)cJSON_GetArraySize(x->child);
    if (!(node->out = rush_graph_alloc(r->g, (most + 1) * sizeof *node->out))) return -1;
    cJSON_ArrayForEach(x, outputs)
    {
        const cJSON *what = cJSON_IsObject(x) ? x->child : NULL;
        if (cJSON_IsArray(what)) {
            node->list = node->form <= RUSH_NODE_INPLACE;
            cJSON_ArrayForEach(y, what)
            {
                const char *name = rush_json_text(y, "name");
                node->out[node->nout++] = name ? find(r, name) : RUSH_NO_VALUE;
            }
            continue;
        }
        const char *name = rush_json_text(what, "name") ? rush_json_text(what, "name") : rush_json_text(what, "as_name");
        node->out[node->nout++] = name ? find(r, name) : RUSH_NO_VALUE;
    }
    bool fits = node->form > RUSH_NODE_INPLACE || (node->list ? cJSON_GetArraySize(outputs) == 1 && node->op->out_list & 1 : node->nout <= node->op->nout);
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

static int read_node(reader *r, rush_graph_node *node, const cJSON *json)
{
    const char *target = rush_json_text(json, "target");
    const cJSON *inputs = rush_json(json, "inputs");
    bool inplace = false;
    if (!target || strlen(target) > 200 || !cJSON_IsArray(inputs)) return damaged("a node cannot be read", target);
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
    return read_node_outputs(r, node, rush_json(json, "outputs"));
}

/* ---- the whole ---- */

static int read_ends(reader *r, const cJSON *json)
{
    const cJSON *inputs = rush_json(json, "inputs"), *outputs = rush_json(json, "outputs"), *x;
    rush_graph *g = r->g;
    g->in = rush_graph_alloc(g, ((size_t)cJSON_GetArraySize(inputs) + 1) * sizeof *g->in);
    g->out = rush_graph_alloc(g, ((size_t)cJSON_GetArraySize(outputs) + 1) * sizeof *g->out);
    if (!g->in || !g->out) return -1;
    cJSON_ArrayForEach(x, inputs)
    {
        rush_operand o;
        if (read_operand(r, x, &o)) return -1;
        g->in[g->nin++] = o.kind == RUSH_OPERAND_VALUE ? o.value : RUSH_NO_VALUE; /* a constant is not passed on */
    }
    cJSON_ArrayForEach(x, outputs)
    {
        if (read_operand(r, x, &g->out[g->nout])) return -1;
        if (g->out[g->nout].kind == RUSH_OPERAND_LIST) return rush_fail(RUSH_NOT_IMPLEMENTED, "a program whose result is a list inside of its results");
        ++g->nout;
    }
    return 0;
}

static int read_nodes(reader *r, const cJSON *nodes)
{
    const cJSON *x;
    rush_graph *g = r->g;
    g->node = rush_graph_alloc(g, ((size_t)cJSON_GetArraySize(nodes) + 1) * sizeof *g->node);
    if (!g->node) return -1;
    cJSON_ArrayForEach(x, nodes) if (read_node(r, &g->node[g->nnodes++], x) < 0) return -1;
    return 0;
}

static int read_graph(rush_graph *g, const cJSON *json, rush_missing *missing, int depth)
{
    reader r = {.g = g, .missing = missing, .depth = depth};
    if (!cJSON_IsObject(json) || depth > DEEPEST) return damaged("its graph cannot be read", NULL);
    if (cJSON_GetArraySize(rush_json(json, "custom_obj_values")))
        return rush_fail(RUSH_NOT_IMPLEMENTED, "the program holds objects of classes of its own, which only the program that wrote it knows");
    int failed = read_values(&r, json) || read_nodes(&r, rush_json(json, "nodes")) || read_ends(&r, json) || (!missing->n && rush_graph_finish(g));
    rush_free(r.slot);
    return failed ? -1 : 0;
}

int rush_pt2_graph(rush_graph *g, const cJSON *json, rush_missing *missing) { return read_graph(g, json, missing, 0); }
#endif
