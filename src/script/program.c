/* program.c - an archive of TorchScript as a module of C: its tensors are the module's, so that it can be trained, moved and saved. */
#include "script/text_of.h"
#include "base/buried.h"
#include "io/checkpoint.h"
#include "io/zip.h"
#include "nn/module.h"
#include <rushlight/program.h>

#include <ctype.h>
#include <stdio.h>

enum { DEEPEST = 500 };

typedef struct program {
    script_unit *u; /* of the outermost module; NULL in parts */
    script_value object;
} program;

static int give_results(script_value v, int room, rush_tensor **out, int *n)
{
    rush_tensor *t = NULL;
    if (v.kind == SCRIPT_LIST || v.kind == SCRIPT_TUPLE || v.kind == SCRIPT_DICT) {
        for (size_t i = v.kind == SCRIPT_DICT; i < v.box->n; i += v.kind == SCRIPT_DICT ? 2 : 1)
            if (give_results(v.box->item[i], room, out, n)) return -1;
        return 0;
    }
    if (v.kind == SCRIPT_NONE) return 0;
    if (v.kind == SCRIPT_TENSOR) t = rush_park(rush_keep(v.t));
    else {
        script_value number;
        script_call c = {.name = "NumToTensor", .n = 1, .in = &v};
        RUSH_CHECK(script_is_number(v), RUSH_NOT_IMPLEMENTED, "the program's result is a %s, which is no tensor", rush_script_kind_name(v));
        if (rush_script_builtin_find("NumToTensor")(&c, &number)) return -1;
        t = rush_park(number.t);
    }
    if (!t) return -1;
    RUSH_CHECK(*n < room, RUSH_VALUE_ERROR, "the program has more results than the %d that there is room for", room);
    out[(*n)++] = t;
    return 0;
}

static int forward(rush_module *m, int n, rush_tensor *const *in, rush_tensor **out) { return rush_script_program_run(m, n, in, 8, out); }

static void end(void *data)
{
    program *p = data;
    if (p->object.kind == SCRIPT_OBJECT) p->object.box->module = NULL; /* somebody may hold it longer */
    rush_script_drop(p->object);
    rush_script_unit_drop(p->u);
}

static const rush_module_kind kind = {.name = "Program", .size = sizeof(program), .forward = forward, .end = end};

bool rush_script_is_program(const rush_module *m) { return m && m->kind == &kind; }

static const script_function *forward_of(const rush_module *m)
{
    const program *p = m->data;
    const script_function *f = rush_script_method_find(p->object.box->type, "forward");
    if (!f) rush_fail(RUSH_NOT_IMPLEMENTED, "%s has no forward", p->object.box->type->path);
    return f;
}

int rush_script_program_run(rush_module *m, int n, rush_tensor *const *in, int room, rush_tensor **out)
{
    const program *p = m->data;
    const script_function *f = rush_failed() ? NULL : forward_of(m);
    RUSH_CHECK(n >= 0 && room >= 0 && (in || !n) && (out || !room), RUSH_TYPE_ERROR, "a run without inputs or without room for results");
    script_value *v = f ? rush_scope_alloc(((size_t)n + 1) * sizeof *v) : NULL, result;
    if (!v) return -1;
    for (int i = 0; i < n; ++i) v[i] = in[i] ? (script_value){.kind = SCRIPT_TENSOR, .t = in[i]} : SCRIPT_NOTHING;
    if (rush_script_run((script_unit *)p->object.box->type->unit, f, p->object, n, v, NULL, 0, &result)) return -1;
    int given = 0, failed = give_results(result, room, out, &given);
    rush_script_drop(result);
    return failed ? -1 : given;
}

int rush_script_program_inputs(const rush_module *m)
{
    const script_function *f = forward_of(m);
    return f ? (int)f->nparams - 1 : -1;
}

int rush_script_program_input_at(const rush_module *m, int i, rush_program_value *v)
{
    const script_function *f = forward_of(m);
    if (!f) return -1;
    RUSH_CHECK(i >= 0 && i + 1 < (int)f->nparams, RUSH_INDEX_ERROR, "the program has no such input");
    *v = (rush_program_value){.name = f->param[i + 1].name, .dtype = -1, .ndim = -1};
    return 0;
}

int rush_script_program_results(const rush_module *m)
{
    const script_function *f = forward_of(m);
    const script_node *t = f ? f->result_type : NULL;
    bool tuple = t && t->op == SCRIPT_N_INDEX && t->kid[0]->name && !strcmp(t->kid[0]->name, "Tuple");
    return !f ? -1 : tuple ? t->kid[1]->op == SCRIPT_N_TUPLE ? (int)t->kid[1]->n : 1 : 1;
}

const char *rush_script_program_text(const rush_module *m)
{
    const script_function *f = forward_of(m);
    char *text = f ? rush_scope_alloc(f->ntext + 1) : NULL;
    if (!text) return NULL;
    memcpy(text, f->text, f->ntext);
    text[f->ntext] = 0;
    return text;
}

script_value rush_script_program_value(const rush_module *m) { return ((const program *)m->data)->object; }

static bool lists(const script_node *names, const char *name)
{
    for (uint32_t i = 0; names && (names->op == SCRIPT_N_LIST || names->op == SCRIPT_N_TUPLE) && i < names->n; ++i) {
        const script_node *x = names->kid[i];
        if (x->op == SCRIPT_N_CONSTANT && x->constant.kind == SCRIPT_TEXT && !strcmp(x->constant.box->text, name)) return true;
    }
    return false;
}

/* A tensor that an object has becomes the module's. */
static int take_tensor(rush_module *m, const char *name, rush_tensor *t, bool parameter, bool kept)
{
    bool wants = rush_requires_grad(t);
    parameter = parameter && rush_dtypes[t->dtype].category >= 2;
    if (parameter ? !rush_module_parameter(m, name, t) : !rush_module_buffer(m, name, t, kept)) return -1;
    return parameter && !wants && !rush_requires_grad_set(t, false) ? -1 : 0;
}

/* The module of an object: its tensors and what is below it. */
static rush_module *module_of(script_value object, int depth)
{
    script_box *b = object.box;
    RUSH_CHECK_NULL(depth < DEEPEST, RUSH_VALUE_ERROR, "modules are nested too deeply");
    rush_module *m = rush_module_new(&kind);
    if (!m) return NULL;
    program *p = rush_module_data(m);
    p->object = rush_script_keep(object);
    for (uint32_t i = 0; i < b->type->nfields; ++i) {
        const script_field *f = &b->type->field[i];
        script_value v = f->fixed || f->slot >= b->n ? SCRIPT_NOTHING : b->item[f->slot];
        if (v.kind == SCRIPT_TENSOR) {
            if (take_tensor(m, f->name, v.t, lists(b->type->parameters, f->name), lists(b->type->buffers, f->name))) return NULL;
        } else if (v.kind == SCRIPT_OBJECT && v.box->type->is_module) {
            rush_module *child = v.box->module ? v.box->module : module_of(v, depth + 1);
            if (!child || !rush_module_add(m, f->name, child)) return NULL;
        } else if (!strcmp(f->name, "training") && v.kind == SCRIPT_BOOL) m->training = v.i;
    }
    b->module = m;
    return m;
}

/* ---- programs that are made here ---- */

static bool is_name(const char *s)
{
    if (!s || !(*s == '_' || isalpha((unsigned char)*s))) return false;
    while (*s == '_' || isalnum((unsigned char)*s)) ++s;
    return !*s;
}

/* A unit with functions, where they are given, and a class of this name. */
static script_unit *unit_of(const char *name, const char *functions)
{
    script_unit *u = rush_failed() ? NULL : rush_script_unit_new();
    script_writer w = {0};
    if (!u) return NULL;
    int failed = (functions && rush_script_put_lines(&w, functions, 0)) || rush_script_put(&w, "class ") || rush_script_put(&w, name) ||
                 rush_script_put(&w, "(Module):\n  __parameters__ = []\n  __buffers__ = []\n") || rush_script_parse(u, w.p, w.n, "__torch__", name);
    rush_free(w.p);
    if (!failed) u->first_class->method = u->first_function; /* methods that are given no object */
    if (!failed) failed = rush_script_bind(u);
    if (!failed) u->root = rush_script_object(u->first_class);
    if (failed || u->root.kind == SCRIPT_UNSET) return rush_script_unit_drop(u), NULL;
    return u;
}

static rush_module *module_of_unit(script_unit *u)
{
    size_t mark = rush_scope_open();
    rush_module *m = u ? rush_module_keep(module_of(u->root, 0)) : NULL;
    rush_scope_close(mark);
    if (!m) return rush_script_unit_drop(u), NULL;
    ((program *)m->data)->u = u;
    return rush_park_object(m);
}

rush_module *rush_script_program(const char *path) { return module_of_unit(rush_script_load(path)); }

rush_module *rush_program_new(const char *name)
{
    const char *dot = name ? strrchr(name, '.') : NULL;
    if (dot) name = dot + 1;
    RUSH_CHECK_NULL(is_name(name) && strlen(name) < 200, RUSH_VALUE_ERROR, "a program needs a name, not '%.200s'", name ? name : "NULL");
    return module_of_unit(unit_of(name, NULL));
}

rush_module *rush_program_compile(const char *functions)
{
    RUSH_CHECK_NULL(functions, RUSH_TYPE_ERROR, "rush_program_compile: the text is NULL");
    return module_of_unit(unit_of("CompilationUnit", functions));
}

static script_class *class_of(const rush_module *m)
{
    if (!m || !rush_lives(m, "a module") || !rush_script_is_program(m)) return rush_failed() ? NULL : (rush_fail(RUSH_NOT_IMPLEMENTED, "only programs of TorchScript can be added to"), NULL);
    return rush_failed() ? NULL : (script_class *)((const program *)m->data)->object.box->type;
}

int rush_program_define(rush_module *m, const char *methods)
{
    script_class *c = class_of(m);
    if (!c) return -1;
    RUSH_CHECK(methods, RUSH_TYPE_ERROR, "rush_program_define: the text is NULL");
    return rush_script_class_add(c, methods, true, c->path);
}

static bool is_below(const script_box *b, const script_box *sought, int depth)
{
    if (b == sought || depth > DEEPEST) return true;
    for (size_t i = 0; i < b->n; ++i)
        if (b->item[i].kind == SCRIPT_OBJECT && is_below(b->item[i].box, sought, depth + 1)) return true;
    return false;
}

/* The type of an object's class as the lines of a program call it. */
static int type_of_object(script_class *c, const script_box *b, char *to, size_t room)
{
    int k = b->type->unit == c->unit ? 0 : rush_script_unit_use(c->unit, b->type->unit);
    if (k < 0) return -1;
    if (b->type->unit == c->unit) snprintf(to, room, "%s", b->type->path);
    else snprintf(to, room, "__used__%d%s", k, b->type->path + strlen("__torch__"));
    return 0;
}

/* The lines that say of an attribute what it is. */
static int declare(script_class *c, const char *name, const char *type, int role)
{
    static const char *const lists[] = {[RUSH_PROGRAM_PARAMETER] = "__parameters__ = [\"", [RUSH_PROGRAM_BUFFER] = "__buffers__ = [\""};
    script_writer w = {0};
    int failed = rush_script_put(&w, name) || rush_script_put(&w, " : ") || rush_script_put(&w, type) || rush_script_put(&w, "\n");
    if (role != RUSH_PROGRAM_ATTRIBUTE && !failed) failed = rush_script_put(&w, lists[role]) || rush_script_put(&w, name) || rush_script_put(&w, "\", ]\n");
    if (!failed) failed = rush_script_class_add(c, w.p, false, c->path);
    rush_free(w.p);
    return failed ? -1 : 0;
}

/* Whether a value is of a type that is given as text. */
static int check_type(script_class *c, const char *name, const char *type, script_value v)
{
    script_class alone = {.unit = c->unit, .path = c->path};
    script_writer w = {0};
    int failed = rush_script_put(&w, ":\n  _ : ") || rush_script_put(&w, type) || rush_script_put(&w, "\n") || rush_script_parse_more(c->unit, w.p, w.n, &alone, false, "a type");
    rush_free(w.p);
    if (failed) return -1;
    RUSH_CHECK(alone.nfields == 1, RUSH_VALUE_ERROR, "'%.200s' is no type", type);
    RUSH_CHECK(rush_script_may_be(v, alone.field->type, c->unit), RUSH_RUNTIME_ERROR, "Expected a value of type '%.200s' for field '%.200s', but found '%s'", type, name, rush_script_kind_name(v));
    return 0;
}

int rush_script_program_add(rush_module *m, const char *name, const char *type, script_value v, int role)
{
    script_class *c = class_of(m);
    if (!c) return -1;
    const script_value self = ((const program *)m->data)->object;
    char path[600];
    RUSH_CHECK(is_name(name) && strlen(name) < 400, RUSH_VALUE_ERROR, "an attribute needs a name, not '%.200s'", name ? name : "NULL");
    const script_field *known = rush_script_field_find(c, name);
    RUSH_CHECK(!rush_script_method_find(c, name), RUSH_RUNTIME_ERROR, "attempting to add an attribute '%.200s' to %s that has a method of this name", name, c->path);
    RUSH_CHECK(role >= RUSH_PROGRAM_ATTRIBUTE && role <= RUSH_PROGRAM_BUFFER && (role == RUSH_PROGRAM_ATTRIBUTE || v.kind == SCRIPT_TENSOR), RUSH_TYPE_ERROR, "'%s' is to be a tensor, not a %s", name,
               rush_script_kind_name(v));
    if (v.kind == SCRIPT_OBJECT) {
        RUSH_CHECK(!is_below(v.box, self.box, 0), RUSH_VALUE_ERROR, "'%s' would hold the module that it is to be a part of", name);
        RUSH_CHECK(!v.box->type->is_module || v.box->module, RUSH_RUNTIME_ERROR, "'%s' is a module whose tensors were dropped", name);
        if (type_of_object(c, v.box, path, sizeof path)) return -1;
        type = path;
    } else if (v.kind == SCRIPT_FOREIGN) type = rush_script_kind_name(v);
    else if (role != RUSH_PROGRAM_ATTRIBUTE) type = "Tensor";
    RUSH_CHECK(type, RUSH_TYPE_ERROR, "'%s' has no type", name);
    if (known) RUSH_CHECK(!known->fixed && (v.kind != SCRIPT_OBJECT || !v.box->type->is_module) && (!known->type || v.kind == SCRIPT_OBJECT || rush_script_may_be(v, known->type, c->unit)), RUSH_RUNTIME_ERROR, "'%.200s' is there already, of another type or a module", name);
    else if ((v.kind != SCRIPT_OBJECT && check_type(c, name, type, v)) || declare(c, name, type, role)) return -1;
    if (!strcmp(name, "training") && v.kind == SCRIPT_BOOL) return m->training = v.i, 0;
    if (rush_script_attribute_set(self, name, v)) return -1;
    if (known) return 0;
    if (v.kind == SCRIPT_TENSOR) return take_tensor(m, name, v.t, role == RUSH_PROGRAM_PARAMETER, role == RUSH_PROGRAM_BUFFER);
    return v.kind == SCRIPT_OBJECT && v.box->type->is_module && !rush_module_add(m, name, v.box->module) ? -1 : 0;
}
