/* program.c - an archive of TorchScript as a module of C: its tensors are the module's, so that it can be trained, moved and saved. */
#include "script/script.h"
#include "io/checkpoint.h"
#include "io/zip.h"
#include "nn/module.h"
#include <rushlight/program.h>

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
        script_value v = f->fixed ? SCRIPT_NOTHING : b->item[f->slot];
        if (v.kind == SCRIPT_TENSOR) {
            bool parameter = lists(b->type->parameters, f->name) && rush_dtypes[v.t->dtype].category >= 2, wants = rush_requires_grad(v.t);
            if (parameter ? !rush_module_parameter(m, f->name, v.t) : !rush_module_buffer(m, f->name, v.t, lists(b->type->buffers, f->name))) return NULL;
            if (parameter && !wants && !rush_requires_grad_set(v.t, false)) return NULL;
        } else if (v.kind == SCRIPT_OBJECT && v.box->type->is_module) {
            rush_module *child = v.box->module ? v.box->module : module_of(v, depth + 1);
            if (!child || !rush_module_add(m, f->name, child)) return NULL;
        } else if (!strcmp(f->name, "training") && v.kind == SCRIPT_BOOL) m->training = v.i;
    }
    b->module = m;
    return m;
}

rush_module *rush_script_program(const char *path)
{
    size_t mark = rush_scope_open();
    script_unit *u = rush_script_load(path);
    rush_module *m = u ? rush_module_keep(module_of(u->root, 0)) : NULL;
    rush_scope_close(mark);
    if (!m) return rush_script_unit_drop(u), NULL;
    ((program *)m->data)->u = u;
    return rush_park_object(m);
}
