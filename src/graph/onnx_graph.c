/* onnx_graph.c - the graph of an ONNX file: names become values, nodes calls that are bound by their operation's schema.
 *
 * Branches see the names around them; here a block is given what it uses, so that a name that a branch finds outside becomes an
 * input of both branches. Tensors in branches belong to the whole program.
 */
#include "graph/onnx.h"
#include "nn/module.h"
#include "op/op.h"

#include <stdio.h>

enum { DEEPEST = 32, MOST_ATTRIBUTES = 64 };

/* Operations that are ATen's as they stand: no attributes, the same order of inputs, the same dtypes. All others are composites. */
static const struct { const char *onnx, *aten; } same[] = {
    {"Abs", "abs"}, {"Acos", "acos"}, {"Acosh", "acosh"}, {"Add", "add.Tensor"}, {"And", "logical_and"}, {"Asin", "asin"}, {"Asinh", "asinh"}, {"Atan", "atan"},
    {"Atanh", "atanh"}, {"BitwiseAnd", "bitwise_and.Tensor"}, {"BitwiseNot", "bitwise_not"}, {"BitwiseOr", "bitwise_or.Tensor"}, {"BitwiseXor", "bitwise_xor.Tensor"},
    {"Ceil", "ceil"}, {"Cos", "cos"}, {"Cosh", "cosh"}, {"Det", "det"}, {"Equal", "eq.Tensor"}, {"Erf", "erf"}, {"Exp", "exp"}, {"Floor", "floor"},
    {"Greater", "gt.Tensor"}, {"GreaterOrEqual", "ge.Tensor"}, {"HardSwish", "hardswish"}, {"IsNaN", "isnan"}, {"Less", "lt.Tensor"}, {"LessOrEqual", "le.Tensor"},
    {"Log", "log"}, {"MatMul", "matmul"}, {"Mish", "mish"}, {"Mul", "mul.Tensor"}, {"Neg", "neg"}, {"Not", "logical_not"}, {"Or", "logical_or"},
    {"Reciprocal", "reciprocal"}, {"Relu", "relu"}, {"Round", "round"}, {"Sigmoid", "sigmoid"}, {"Sign", "sign"}, {"Sin", "sin"}, {"Sinh", "sinh"},
    {"Softplus", "softplus"}, {"Sqrt", "sqrt"}, {"Sub", "sub.Tensor"}, {"Tan", "tan"}, {"Tanh", "tanh"}, {"Where", "where.self"}, {"Xor", "logical_xor"}};

static int damaged(const char *what, const char *name) { return rush_fail(RUSH_VALUE_ERROR, "the ONNX file is damaged: %s%s%.100s", what, name ? ": " : "", name ? name : ""); }

/* ---- names ---- */

static uint32_t hash(const char *s)
{
    uint32_t h = 2166136261u;
    for (; *s; ++s) h = (h ^ (uint8_t)*s) * 16777619u;
    return h;
}

static uint32_t find(const rush_onnx_reader *r, const char *name)
{
    if (!r->slot) return RUSH_NO_VALUE;
    for (uint32_t at = hash(name) & r->mask; r->slot[at]; at = (at + 1) & r->mask)
        if (!strcmp(r->name[r->slot[at] - 1], name)) return r->slot[at] - 1;
    return RUSH_NO_VALUE;
}

static void enter(rush_onnx_reader *r, uint32_t v)
{
    uint32_t at = hash(r->name[v]) & r->mask;
    while (r->slot[at]) at = (at + 1) & r->mask;
    r->slot[at] = v + 1;
}

/* Room for one more value: twice as much as before when there is none. */
static int grow_values(rush_onnx_reader *r)
{
    rush_graph *g = r->g;
    if (g->nvalues < r->values_room) return 0;
    uint32_t room = r->values_room ? 2 * r->values_room : 32;
    rush_graph_value *value = rush_graph_alloc(g, room * sizeof *value);
    const char **name = rush_realloc(r->name, room * sizeof *name);
    if (name) r->name = name;
    uint32_t *slot = value && name ? rush_calloc(2 * room, sizeof *slot) : NULL;
    if (!slot) return -1;
    if (g->nvalues) memcpy(value, g->value, g->nvalues * sizeof *value);
    g->value = value;
    rush_free(r->slot);
    r->slot = slot;
    r->mask = 2 * room - 1;
    r->values_room = room;
    for (uint32_t v = 0; v < g->nvalues; ++v) enter(r, v);
    return 0;
}

/* A value of that name in this graph; NO_VALUE and an error. */
static uint32_t define(rush_onnx_reader *r, const char *name)
{
    if (!name || grow_values(r)) return RUSH_NO_VALUE;
    if (find(r, name) != RUSH_NO_VALUE) return damaged("a name is given twice", name), RUSH_NO_VALUE;
    uint32_t v = r->g->nvalues++;
    r->g->value[v] = (rush_graph_value){.name = name, .type = RUSH_A_TENSOR, .ndim = -1};
    r->name[v] = name;
    enter(r, v);
    return v;
}

/* One more input of the graph. */
static int add_input(rush_onnx_reader *r, uint32_t v, uint32_t from)
{
    rush_graph *g = r->g;
    if (v == RUSH_NO_VALUE) return -1;
    if (g->nin == r->in_room) {
        uint32_t room = r->in_room ? 2 * r->in_room : 8, *in = rush_graph_alloc(g, room * sizeof *in), *outside = rush_graph_alloc(g, room * sizeof *outside);
        if (!in || !outside) return -1;
        if (g->nin) memcpy(in, g->in, g->nin * sizeof *in), memcpy(outside, r->from, g->nin * sizeof *outside);
        g->in = in;
        r->from = outside;
        r->in_room = room;
    }
    r->from[g->nin] = from;
    g->in[g->nin++] = v;
    return 0;
}

/* The value that a name stands for, here or around; NO_VALUE without an error: none. */
static uint32_t look_up(rush_onnx_reader *r, const char *name)
{
    uint32_t v = find(r, name);
    if (v != RUSH_NO_VALUE || !r->outer) return v;
    uint32_t outside = look_up(r->outer, name);
    if (outside == RUSH_NO_VALUE) return RUSH_NO_VALUE;
    v = define(r, name);
    return add_input(r, v, outside) ? RUSH_NO_VALUE : v;
}

/* ---- tensors ---- */

static rush_onnx_reader *root_of(rush_onnx_reader *r)
{
    while (r->outer) r = r->outer;
    return r;
}

/* A tensor of the file as an input of the program; `name` is given in graph r. */
static int hold(rush_onnx_reader *r, const char *name, rush_tensor *t, int what)
{
    rush_onnx_reader *root = root_of(r);
    if (!name || !t) return -1;
    if (root->nheld == root->held_room) {
        uint32_t room = root->held_room ? 2 * root->held_room : 32;
        rush_onnx_held *more = rush_realloc(root->held, room * sizeof *more);
        if (!more) return -1;
        root->held = more;
        root->held_room = room;
    }
    char apart[40];
    const char *whole = name;
    if (r != root && look_up(root, name) != RUSH_NO_VALUE) { /* two branches may use one name */
        snprintf(apart, sizeof apart, "constant.%u", root->nheld);
        if (!(whole = rush_graph_copy(r->g, apart))) return -1;
    }
    uint32_t v = define(root, whole);
    if (add_input(root, v, RUSH_NO_VALUE)) return -1;
    root->held[root->nheld++] = (rush_onnx_held){whole, t, v, (uint8_t)what};
    return r == root || whole == name ? 0 : add_input(r, define(r, name), look_up(r->outer, whole));
}

/* "val_3": what PyTorch's exporter calls what it computed itself: of one dimension tables of numbers, of more weights, transposed or joined. */
static bool is_numbered(const char *name)
{
    if (strncmp(name, "val_", 4)) return false;
    for (name += 4; *name >= '0' && *name <= '9';) ++name;
    return !*name;
}

static int read_initializers(rush_onnx_reader *r, rush_wire graph)
{
    rush_wire_field f, name;
    while (rush_wire_next(&graph, &f) > 0) {
        if (f.number == 15) return rush_fail(RUSH_NOT_IMPLEMENTED, "'%s' holds sparse tensors, which are not read", r->file->path);
        if (f.number != 5 || f.type != 2) continue;
        if (!rush_wire_find(f.bytes, 8, &name) || name.type != 2) return damaged("a tensor has no name", NULL);
        const char *called = rush_wire_text(r->g, name.bytes);
        rush_tensor *t = called ? rush_onnx_tensor(r->file, f.bytes) : NULL;
        if (!t) return -1;
        bool weight = rush_dtypes[t->dtype].category >= 2 && (t->ndim > 1 || (t->ndim && !is_numbered(called)));
        if (hold(r, called, t, weight ? SLOT_PARAMETER : SLOT_SCRATCH)) return -1;
    }
    return rush_failed() ? -1 : 0;
}

/* ---- inputs ---- */

static int read_sizes(rush_onnx_reader *r, rush_graph_value *v, rush_wire shape)
{
    rush_wire_field f, x;
    size_t n = rush_wire_count(shape, 1);
    if (n > RUSH_MAXDIM) return damaged("an input has more than 64 dimensions", v->name);
    if (!(v->size = rush_graph_alloc(r->g, (n + 1) * sizeof *v->size))) return -1;
    v->ndim = 0;
    while (rush_wire_next(&shape, &f) > 0) {
        if (f.number != 1 || f.type != 2) continue;
        rush_graph_size *s = &v->size[v->ndim++];
        *s = (rush_graph_size){-1, -1};
        if (rush_wire_find(f.bytes, 1, &x) && x.type == 0 && (int64_t)x.n >= 0) s->n = (int64_t)x.n;
        else if (rush_wire_find(f.bytes, 2, &x) && x.type == 2 && x.n) {
            const char *name = rush_wire_text(r->g, x.bytes);
            if (!name || (s->symbol = rush_graph_symbol_named(r->g, name, strlen(name))) < 0) return -1;
        }
    }
    return rush_failed() ? -1 : 0;
}

/* The dtype and sizes that the description of an input or a result tells. */
static int read_type(rush_onnx_reader *r, uint32_t v, rush_wire described)
{
    rush_wire_field type, tensor, x;
    const char *called = r->g->value[v].name;
    if (!rush_wire_find(described, 2, &type) || type.type != 2) return damaged("an input has no type", called);
    if (!rush_wire_find(type.bytes, 1, &tensor) || tensor.type != 2) return rush_failed() ? -1 : rush_fail(RUSH_NOT_IMPLEMENTED, "the program's input '%s' is no tensor", called);
    int d = rush_wire_find(tensor.bytes, 1, &x) ? rush_onnx_dtype(x.n) : -1;
    RUSH_CHECK(d >= 0, RUSH_NOT_IMPLEMENTED, "the program's input '%s' is of a type that is not supported", called);
    r->g->value[v].dtype = (uint8_t)d;
    return rush_wire_find(tensor.bytes, 2, &x) && x.type == 2 ? read_sizes(r, &r->g->value[v], x.bytes) : 0;
}

static int read_inputs(rush_onnx_reader *r, rush_wire graph)
{
    rush_wire_field f, name;
    while (rush_wire_next(&graph, &f) > 0) {
        if (f.number != 11 || f.type != 2) continue;
        if (!rush_wire_find(f.bytes, 1, &name) || name.type != 2) return damaged("an input has no name", NULL);
        const char *called = rush_wire_text(r->g, name.bytes);
        if (!called) return -1;
        if (find(r, called) != RUSH_NO_VALUE) continue; /* older files list their tensors, too */
        uint32_t v = define(r, called);
        if (add_input(r, v, RUSH_NO_VALUE) || read_type(r, v, f.bytes)) return -1;
    }
    return rush_failed() ? -1 : 0;
}

/* ---- nodes ---- */

typedef struct node { /* as it stands in the file */
    const char *type, *name, *domain;
    rush_wire attribute[MOST_ATTRIBUTES];
    int nattributes;
    uint32_t nresults; /* up to the last that has a name */
    rush_wire whole;
} node;

static int lacks(rush_onnx_reader *r, const node *n, const char *what, const char *which)
{
    char text[200], where[120];
    if (!which) return -1; /* a name that cannot be read: that is told already */
    snprintf(text, sizeof text, "%s%s%.60s%s%.40s%s%.60s", n->domain, *n->domain ? "::" : "", n->type, *what ? " " : "", what, *which ? " " : "", which);
    snprintf(where, sizeof where, "the node '%.100s'", n->name);
    rush_missing_add(r->missing, text, where);
    return 1;
}

static const char *text_at(rush_onnx_reader *r, const rush_wire_field *f) { return f->type == 2 ? rush_wire_text(r->g, f->bytes) : (damaged("a name is a number", NULL), NULL); }

static int read_head(rush_onnx_reader *r, rush_wire w, node *n)
{
    rush_wire_field f;
    uint32_t results = 0;
    *n = (node){.type = "", .name = "", .domain = "", .whole = w};
    while (rush_wire_next(&w, &f) > 0) {
        if (f.number == 2 && ++results && f.n) n->nresults = results;
        if (f.number == 3 && !(n->name = text_at(r, &f))) return -1;
        if (f.number == 4 && !(n->type = text_at(r, &f))) return -1;
        if (f.number == 7 && !(n->domain = text_at(r, &f))) return -1;
        if (f.number != 5) continue;
        if (f.type != 2 || n->nattributes == MOST_ATTRIBUTES) return damaged("a node's attributes cannot be read", n->name);
        n->attribute[n->nattributes++] = f.bytes;
    }
    if (!strcmp(n->domain, "ai.onnx")) n->domain = "";
    return rush_failed() ? -1 : 0;
}

static const rush_op *operation(const node *n)
{
    char name[100];
    if (*n->domain) return NULL;
    for (size_t k = 0; k < RUSH_COUNT(same); ++k)
        if (!strcmp(same[k].onnx, n->type)) return rush_op_find(same[k].aten);
    snprintf(name, sizeof name, "onnx::%.80s", n->type);
    return rush_op_find(name);
}

static void constant(rush_operand *o, rush_value v) { *o = (rush_operand){.kind = RUSH_OPERAND_CONSTANT, .constant = v}; }

static int put_int(void *to, uint64_t n) { return *(*(int64_t **)to)++ = (int64_t)n, 0; }

static int put_double(void *to, uint64_t n)
{
    uint32_t bits = (uint32_t)n;
    float f;
    memcpy(&f, &bits, sizeof f);
    return *(*(double **)to)++ = f, 0;
}

/* The items of a repeated field of attributes as one list. */
static int list_of(rush_onnx_reader *r, rush_wire attribute, uint32_t field, rush_operand *o)
{
    rush_wire_field f;
    bool floats = field == 7;
    size_t most = 0;
    for (rush_wire w = attribute; rush_wire_next(&w, &f) > 0;)
        if (f.number == field) most += f.type == 2 ? (size_t)f.n : 1;
    uint64_t *room = rush_graph_alloc(r->g, (most + 1) * sizeof *room);
    if (!room) return -1;
    int64_t *ints = (int64_t *)room;
    double *numbers = (double *)room;
    while (rush_wire_next(&attribute, &f) > 0)
        if (f.number == field && rush_wire_numbers(&f, floats ? 4 : 0, floats ? put_double : put_int, floats ? (void *)&numbers : (void *)&ints)) return -1;
    if (floats) constant(o, rush_v_floats((double *)room, (size_t)(numbers - (double *)room)));
    else constant(o, rush_v_ints((int64_t *)room, (size_t)(ints - (int64_t *)room)));
    return rush_failed() ? -1 : 0;
}

/* A tensor that stands in a node. */
static int tensor_in(rush_onnx_reader *r, rush_tensor *t, rush_operand *o)
{
    char name[40];
    snprintf(name, sizeof name, "constant.%u", root_of(r)->nheld);
    const char *kept = rush_graph_copy(r->g, name);
    if (hold(r, kept, t, SLOT_SCRATCH)) return -1;
    uint32_t v = look_up(r, kept);
    if (v == RUSH_NO_VALUE) return -1;
    return *o = (rush_operand){.kind = RUSH_OPERAND_VALUE, .value = v}, 0;
}

/* Several texts as one, with blanks between. */
static int texts(rush_onnx_reader *r, rush_wire attribute, rush_operand *o)
{
    char all[1024] = "";
    size_t used = 0;
    rush_wire_field f;
    while (rush_wire_next(&attribute, &f) > 0) {
        if (f.number != 9 || f.type != 2) continue;
        if (f.n + used + 2 > sizeof all) return damaged("an attribute's text is too long", NULL);
        used += (size_t)snprintf(all + used, sizeof all - used, "%s%.*s", used ? " " : "", (int)f.n, (const char *)f.bytes.p);
    }
    const char *kept = rush_graph_copy(r->g, all);
    return kept ? constant(o, rush_v_string(kept)), 0 : -1;
}

/* What an attribute says, for an argument of that kind. 1: it is of another kind. */
static int read_attribute(rush_onnx_reader *r, rush_wire a, const rush_arg *arg, rush_operand *o)
{
    rush_wire_field f;
    if (arg->list) return arg->type == RUSH_A_INT ? list_of(r, a, 8, o) : arg->type == RUSH_A_FLOAT ? list_of(r, a, 7, o) : 1;
    if (arg->type == RUSH_A_TENSOR) {
        if (!rush_wire_find(a, 5, &f) || f.type != 2) return rush_failed() ? -1 : 1;
        rush_tensor *t = rush_onnx_tensor(r->file, f.bytes);
        return t ? tensor_in(r, t, o) : -1;
    }
    if (arg->type == RUSH_A_STRING) {
        if (!rush_wire_find(a, 4, &f)) return rush_failed() ? -1 : texts(r, a, o);
        const char *s = text_at(r, &f);
        return s ? constant(o, rush_v_string(s)), 0 : -1;
    }
    if (arg->type == RUSH_A_FLOAT) {
        double x = 0, *to = &x;
        if (rush_wire_find(a, 2, &f)) put_double(&to, f.n);
        constant(o, rush_v_float(x));
    } else {
        int64_t i = rush_wire_find(a, 3, &f) ? (int64_t)f.n : 0;
        constant(o, arg->type == RUSH_A_BOOL ? rush_v_bool(i != 0) : rush_v_int(i));
    }
    return rush_failed() ? -1 : 0;
}

static int bind_attributes(rush_onnx_reader *r, const node *n, rush_graph_node *to, uint64_t *given)
{
    rush_wire_field name;
    for (int k = 0; k < n->nattributes; ++k) {
        if (!rush_wire_find(n->attribute[k], 1, &name) || name.type != 2) return damaged("an attribute has no name", n->name);
        int i = 0;
        while (i < to->op->nargs && (!to->op->args[i].kwonly || !rush_wire_is(name.bytes, to->op->args[i].name))) ++i;
        if (i == to->op->nargs) return lacks(r, n, "with attribute", rush_wire_text(r->g, name.bytes));
        int failed = read_attribute(r, n->attribute[k], &to->op->args[i], &to->in[i]);
        if (failed) return failed < 0 ? -1 : lacks(r, n, "with attribute", to->op->args[i].name);
        *given |= (uint64_t)1 << i;
    }
    return 0;
}

static const rush_onnx_sequence *sequence_of(const rush_onnx_reader *r, const char *name)
{
    for (; r; r = r->outer)
        for (const rush_onnx_sequence *s = r->sequences; s; s = s->next)
            if (!strcmp(s->name, name)) return s;
    return NULL;
}

/* The name of an input or result, or NULL; field 1 has inputs, 2 results. */
static const char *nth_name(rush_onnx_reader *r, rush_wire message, uint32_t field, int n)
{
    rush_wire_field f;
    while (rush_wire_next(&message, &f) > 0)
        if (f.number == field && f.type == 2 && !n--) return rush_wire_text(r->g, f.bytes);
    return NULL;
}

static int read_input(rush_onnx_reader *r, const node *n, rush_wire name, rush_operand *o)
{
    if (name.p == name.end) return constant(o, RUSH_NONE), 0;
    const char *text = rush_wire_text(r->g, name);
    uint32_t v = text ? look_up(r, text) : RUSH_NO_VALUE;
    if (v == RUSH_NO_VALUE && text && sequence_of(r, text)) return lacks(r, n, "of a sequence", text);
    if (v == RUSH_NO_VALUE) return rush_failed() ? -1 : damaged("a node uses a name that nothing before it makes", text);
    *o = (rush_operand){.kind = RUSH_OPERAND_VALUE, .value = v};
    rush_onnx_reader *root = root_of(r);
    bool statistics = !strcmp(n->type, "BatchNormalization");
    for (uint32_t k = 0; statistics && k < root->nheld; ++k) /* marked below by what they are used for */
        if (!strcmp(root->held[k].name, text) && root->held[k].what == SLOT_PARAMETER) return 2 + (int)k;
    return 0;
}

/* Positional arguments, in their order; a list takes all that are left. */
static int bind_inputs(rush_onnx_reader *r, const node *n, rush_graph_node *to, uint64_t *given)
{
    rush_wire w = n->whole;
    rush_wire_field f;
    int at = 0, nth = 0;
    while (rush_wire_next(&w, &f) > 0) {
        rush_operand o;
        if (f.number != 1 || f.type != 2) continue;
        int held = read_input(r, n, f.bytes, &o);
        if (held < 0 || held == 1) return held;
        if (held >= 2 && nth >= 3) root_of(r)->held[held - 2].what = SLOT_BUFFER; /* running mean and variance */
        ++nth;
        const rush_arg *a = at < to->op->nargs ? &to->op->args[at] : NULL;
        if (!a || a->kwonly || a->type != RUSH_A_TENSOR) return lacks(r, n, "with so many inputs", "");
        if (a->list) {
            rush_operand *list = &to->in[at];
            if (!(*given >> at & 1)) *list = (rush_operand){.kind = RUSH_OPERAND_LIST, .item = rush_graph_alloc(r->g, rush_wire_count(n->whole, 1) * sizeof *list->item)};
            if (!list->item) return -1;
            list->item[list->n++] = o;
            *given |= (uint64_t)1 << at;
            continue;
        }
        if (o.kind == RUSH_OPERAND_VALUE) to->in[at] = o, *given |= (uint64_t)1 << at;
        ++at;
    }
    return rush_failed() ? -1 : 0;
}

static int read_results(rush_onnx_reader *r, const node *n, rush_graph_node *to)
{
    rush_wire w = n->whole;
    rush_wire_field f;
    if (!(to->out = rush_graph_alloc(r->g, (rush_wire_count(w, 2) + 1) * sizeof *to->out))) return -1;
    uint32_t nout = 0;
    while (rush_wire_next(&w, &f) > 0) {
        if (f.number != 2 || f.type != 2) continue;
        to->out[nout] = f.n ? define(r, rush_wire_text(r->g, f.bytes)) : RUSH_NO_VALUE;
        if (rush_failed()) return -1;
        if (to->out[nout++] != RUSH_NO_VALUE) to->nout = nout;
    }
    return rush_failed() ? -1 : 0;
}

static int bind(rush_onnx_reader *r, const node *n, rush_graph_node *to)
{
    const rush_op *op = to->op;
    uint64_t given = 0;
    to->nin = op->nargs;
    to->list = op->out_list & 1;
    if (op->nargs > 63 || !(to->in = rush_graph_alloc(r->g, (op->nargs + 1u) * sizeof *to->in))) return -1;
    int failed = bind_inputs(r, n, to, &given);
    if (!failed) failed = bind_attributes(r, n, to, &given);
    if (!failed && !to->list && to->nout > op->nout) failed = lacks(r, n, "with so many results", "");
    for (int i = 0; !failed && i < op->nargs; ++i) {
        const rush_arg *a = &op->args[i];
        if (given >> i & 1) continue;
        if (a->kwonly && !strcmp(a->name, "opset")) constant(&to->in[i], rush_v_int(r->file->opset)); /* ours: what the file was written for */
        else if (a->kwonly && !strcmp(a->name, "results")) constant(&to->in[i], rush_v_int(to->nout));
        else if (a->has_default) constant(&to->in[i], a->def);
        else return damaged("a node lacks an input or an attribute", n->name);
    }
    return failed;
}

/* ---- branches ---- */

/* Both branches take the same inputs, in the same order: what either of them uses from outside. */
static int join_inputs(rush_onnx_reader *r, rush_onnx_reader *branch, rush_graph_node *to)
{
    uint32_t n = 0, most = branch[0].g->nin + branch[1].g->nin, *from = rush_graph_alloc(r->g, (most + 1) * sizeof *from);
    to->in = rush_graph_alloc(r->g, (most + 2) * sizeof *to->in);
    if (!from || !to->in) return -1;
    for (int k = 0; k < 2; ++k)
        for (uint32_t i = 0; i < branch[k].g->nin; ++i) {
            uint32_t j = 0;
            while (j < n && from[j] != branch[k].from[i]) ++j;
            if (j == n) from[n++] = branch[k].from[i];
        }
    for (int k = 0; k < 2; ++k) {
        uint32_t *in = rush_graph_alloc(r->g, (n + 1) * sizeof *in);
        if (!in) return -1;
        for (uint32_t j = 0; j < n; ++j) {
            uint32_t i = 0;
            while (i < branch[k].g->nin && branch[k].from[i] != from[j]) ++i;
            in[j] = i < branch[k].g->nin ? branch[k].g->in[i] : RUSH_NO_VALUE;
        }
        branch[k].g->in = in;
        branch[k].g->nin = n;
    }
    for (uint32_t j = 0; j < n; ++j) to->in[1 + j] = (rush_operand){.kind = RUSH_OPERAND_VALUE, .value = from[j]};
    to->nin = 1 + n;
    return 0;
}

static int read_if(rush_onnx_reader *r, const node *n, rush_graph_node *to)
{
    rush_onnx_reader branch[2];
    rush_wire_field f, name, graph[2];
    rush_operand condition;
    bool found[2] = {false, false};
    for (int k = 0; k < n->nattributes; ++k) {
        if (!rush_wire_find(n->attribute[k], 1, &name) || name.type != 2) return damaged("an attribute has no name", n->name);
        int which = rush_wire_is(name.bytes, "then_branch") ? 0 : rush_wire_is(name.bytes, "else_branch") ? 1 : -1;
        if (which >= 0) found[which] = rush_wire_find(n->attribute[k], 6, &graph[which]) && graph[which].type == 2;
    }
    if (!found[0] || !found[1] || !rush_wire_find(n->whole, 1, &f) || f.type != 2) return damaged("a condition lacks a branch", n->name);
    if (r->depth == DEEPEST) return damaged("branches in branches, too deep", n->name);
    if (read_input(r, n, f.bytes, &condition) < 0) return -1;
    int failed = 0;
    for (int k = 0; k < 2; ++k) {
        branch[k] = (rush_onnx_reader){.file = r->file, .g = rush_graph_new(r->g), .outer = r, .missing = r->missing, .depth = r->depth + 1};
        to->block[k] = branch[k].g;
        failed = failed || !branch[k].g || rush_onnx_graph(&branch[k], graph[k].bytes);
    }
    failed = failed || join_inputs(r, branch, to);
    for (int k = 0; k < 2; ++k) {
        if (!failed && !r->missing->n) failed = rush_graph_finish(branch[k].g);
        if (!failed && branch[k].g->nout != to->nout) failed = damaged("a branch has another number of results than its condition", n->name);
        rush_onnx_reader_end(&branch[k]);
    }
    if (failed) return -1;
    to->in[0] = condition;
    return 0;
}

/* A node that is a tensor of the file: an input of the program. 1: none that is understood. */
static int read_constant(rush_onnx_reader *r, const node *n)
{
    rush_wire_field f, name;
    rush_operand o;
    rush_wire a = n->attribute[0];
    if (n->nattributes != 1 || !rush_wire_find(a, 1, &name) || name.type != 2 || !rush_wire_find(n->whole, 2, &f) || f.type != 2) return damaged("a constant cannot be read", n->name);
    rush_tensor *t = NULL;
    if (rush_wire_is(name.bytes, "value")) t = rush_wire_find(a, 5, &f) && f.type == 2 ? rush_onnx_tensor(r->file, f.bytes) : NULL;
    else if (rush_wire_is(name.bytes, "value_float") || rush_wire_is(name.bytes, "value_floats")) {
        bool one = rush_wire_is(name.bytes, "value_float");
        rush_arg arg = {.type = RUSH_A_FLOAT, .list = !one};
        if (read_attribute(r, a, &arg, &o)) return -1;
        const double *x = one ? &o.constant.f : o.constant.floats;
        t = T("_to_dtype", V(rush_from_data(x, RUSH_F64, !one, (int64_t[]){one ? 1 : o.constant.n})), rush_v_dtype(RUSH_F32));
    } else if (rush_wire_is(name.bytes, "value_int") || rush_wire_is(name.bytes, "value_ints")) {
        bool one = rush_wire_is(name.bytes, "value_int");
        rush_arg arg = {.type = RUSH_A_INT, .list = !one};
        if (read_attribute(r, a, &arg, &o)) return -1;
        t = rush_from_data(one ? &o.constant.i : o.constant.ints, RUSH_I64, !one, (int64_t[]){one ? 1 : o.constant.n});
    } else {
        return lacks(r, n, "with attribute", rush_wire_text(r->g, name.bytes));
    }
    if (!t) return rush_failed() ? -1 : damaged("a constant has no tensor", n->name);
    return !rush_wire_find(n->whole, 2, &f) || f.type != 2 ? damaged("a constant has no name", n->name) : hold(r, rush_wire_text(r->g, f.bytes), t, SLOT_SCRATCH);
}

static int read_sequence(rush_onnx_reader *r, const node *n)
{
    rush_onnx_sequence *s = rush_graph_alloc(r->g, sizeof *s);
    const char *name = s ? nth_name(r, n->whole, 2, 0) : NULL;
    if (!name) return rush_failed() ? -1 : damaged("a sequence has no name", n->name);
    *s = (rush_onnx_sequence){name, n->whole, r->sequences};
    r->sequences = s;
    return 0;
}

/* One of a sequence: the inputs and attributes of the node that makes it, and the position. */
static int bind_piece(rush_onnx_reader *r, const node *n, rush_graph_node *to)
{
    const char *name = nth_name(r, n->whole, 1, 0);
    const rush_onnx_sequence *s = name ? sequence_of(r, name) : NULL;
    node maker;
    if (!s) return rush_failed() ? -1 : lacks(r, n, "of another sequence", name ? name : "");
    if (read_head(r, s->node, &maker)) return -1;
    int failed = bind(r, &maker, to);
    rush_wire w = n->whole;
    rush_wire_field f;
    for (int nth = 0; !failed && rush_wire_next(&w, &f) > 0;)
        if (f.number == 1 && f.type == 2 && nth++ == 1) failed = read_input(r, n, f.bytes, &to->in[2]);
    return failed < 0 || rush_failed() ? -1 : failed == 1;
}

static int read_node(rush_onnx_reader *r, rush_wire w)
{
    node n;
    if (read_head(r, w, &n)) return -1;
    rush_graph_node made = {.target = n.type, .where = *n.name ? n.name : NULL, .nout = n.nresults};
    int failed = 0;
    if (!*n.domain && !strcmp(n.type, "Constant") && !(failed = read_constant(r, &n))) return 0;
    if (!*n.domain && !strcmp(n.type, "SplitToSequence")) return read_sequence(r, &n);
    if (!*n.domain && !strcmp(n.type, "If")) {
        made.form = RUSH_NODE_COND;
        failed = rush_wire_count(w, 1) != 1 ? damaged("a condition has other than one input", n.name) : read_if(r, &n, &made);
    } else if (!failed) {
        made.op = operation(&n);
        if (made.op) made.target = made.op->name;
        failed = !made.op ? lacks(r, &n, "", "") : strcmp(n.type, "SequenceAt") || *n.domain ? bind(r, &n, &made) : bind_piece(r, &n, &made);
    }
    if (failed < 0 || read_results(r, &n, &made)) return -1; /* of what is missing, too: others use it, and may be missing themselves */
    r->g->node[r->g->nnodes++] = made;
    return 0;
}

static int read_nodes(rush_onnx_reader *r, rush_wire graph)
{
    rush_wire_field f;
    if (!(r->g->node = rush_graph_alloc(r->g, (rush_wire_count(graph, 1) + 1) * sizeof *r->g->node))) return -1;
    while (rush_wire_next(&graph, &f) > 0)
        if (f.number == 1 && (f.type != 2 || read_node(r, f.bytes))) return rush_failed() ? -1 : damaged("a node cannot be read", NULL);
    return rush_failed() ? -1 : 0;
}

static int read_outputs(rush_onnx_reader *r, rush_wire graph)
{
    rush_wire_field f, name, type;
    const node none = {.type = ""};
    if (!(r->g->out = rush_graph_alloc(r->g, (rush_wire_count(graph, 12) + 1) * sizeof *r->g->out))) return -1;
    while (rush_wire_next(&graph, &f) > 0) {
        if (f.number != 12 || f.type != 2) continue;
        if (!rush_wire_find(f.bytes, 1, &name) || name.type != 2 || !name.n) return damaged("a result has no name", NULL);
        rush_operand *o = &r->g->out[r->g->nout++];
        if (read_input(r, &none, name.bytes, o) < 0) return -1;
        bool told = rush_wire_find(f.bytes, 2, &type) && type.type == 2 && rush_wire_find(type.bytes, 1, &type) && type.type == 2; /* of the results of branches nothing may be told */
        if (told && o->kind == RUSH_OPERAND_VALUE && r->g->value[o->value].ndim < 0 && read_type(r, o->value, f.bytes)) return -1;
    }
    return rush_failed() ? -1 : 0;
}

int rush_onnx_graph(rush_onnx_reader *r, rush_wire graph)
{
    return read_initializers(r, graph) || (!r->outer && read_inputs(r, graph)) || read_nodes(r, graph) || read_outputs(r, graph) ? -1 : 0;
}

void rush_onnx_reader_end(rush_onnx_reader *r)
{
    rush_free(r->slot);
    rush_free(r->name);
    rush_free(r->held);
}
