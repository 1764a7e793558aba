/* bind.c - what names stand for, found once: operations of the registry, what the language has itself, functions and classes of
 * the program, constants. All that is missing is gathered, so that one error can tell of everything. */
#include "script/script.h"

#include <stdio.h>

typedef struct binder {
    script_unit *u;
    script_function *f; /* NULL in constants */
} binder;

script_class *rush_script_class_find(const script_unit *u, const char *path)
{
    for (script_class *c = u->first_class; c; c = c->next)
        if (!strcmp(c->path, path)) return c;
    return NULL;
}

script_function *rush_script_function_find(const script_unit *u, const char *path)
{
    for (script_function *f = u->first_function; f; f = f->next)
        if (!strcmp(f->path, path)) return f;
    return NULL;
}

script_function *rush_script_method_find(const script_class *c, const char *name)
{
    for (script_function *f = c->method; f; f = f->next)
        if (!strcmp(f->name, name)) return f;
    return NULL;
}

script_field *rush_script_field_find(const script_class *c, const char *name)
{
    for (uint32_t i = 0; i < c->nfields; ++i)
        if (!strcmp(c->field[i].name, name)) return &c->field[i];
    return NULL;
}

static void missing(binder *b, const char *name, uint32_t line)
{
    char where[200];
    snprintf(where, sizeof where, "%.180s, line %u", b->f ? b->f->path : "a constant", (unsigned)line);
    rush_missing_add(&b->u->missing, name, where);
}

/* The registry's, also where only the form without "_" is a record. */
static const rush_op *op_named(const char *name)
{
    char text[128];
    size_t n = strlen(name);
    const rush_op *op = rush_op_find(name);
    if (op || n < 2 || n >= sizeof text || name[n - 1] != '_' || name[n - 2] == '_') return op;
    snprintf(text, sizeof text, "%.*s", (int)n - 1, name);
    return rush_op_find(text);
}

/* "linalg.norm" is the operation linalg_norm, "nn.functional.relu" is relu. */
static void flat_name(const char *name, char *to, size_t room)
{
    const char *dot = strrchr(name, '.');
    static const char *const spaces[] = {"linalg.", "fft.", "special."};
    for (size_t i = 0; i < RUSH_COUNT(spaces); ++i)
        if (!strncmp(name, spaces[i], strlen(spaces[i]))) {
            snprintf(to, room, "%.*s_%s", (int)strlen(spaces[i]) - 1, spaces[i], name + strlen(spaces[i]));
            return;
        }
    snprintf(to, room, "%s", dot ? dot + 1 : name);
}

static int bind_call(binder *b, script_node *x)
{
    const char *name = x->kid[0]->name, *rest = name;
    static const char *const forms[] = {"annotate", "uninitialized", "unchecked_cast", "isinstance", "getattr", "hasattr", "torch.jit.annotate", "torch.jit.isinstance", "ops.prim.unchecked_cast", "fork", "ops.prim.fork"};
    for (size_t i = 0; i < RUSH_COUNT(forms); ++i)
        if (!strcmp(name, forms[i])) return x->what = SCRIPT_T_FORM, x->name = strrchr(name, '.') ? strrchr(name, '.') + 1 : name, 0;
    char beside[512]; /* a function of the same text may go by its bare name */
    snprintf(beside, sizeof beside, "__torch__.%.480s", name);
    const bool bare = !strchr(name, '.') && (!rush_script_builtin_find(name) || rush_script_text_method(name)); /* those of texts are methods */
    if ((x->target = rush_script_function_find(b->u, name)) || (bare && (x->target = rush_script_function_find(b->u, beside)))) return x->what = SCRIPT_T_FUNCTION, 0;
    if ((x->target = rush_script_class_find(b->u, name))) return x->what = SCRIPT_T_CLASS, 0;
    size_t length = strlen(name);
    if (length > 8 && !strcmp(name + length - 8, ".__new__")) { /* an object before its __init__ */
        const char *type = rush_script_copy(b->u, name, length - 8);
        if (!type) return -1;
        if ((x->target = rush_script_class_find(b->u, type))) return x->what = SCRIPT_T_NEW, x->n = 1, 0;
        if ((x->target = rush_class_at((rush_type_text){name, length - 8}))) return x->what = SCRIPT_T_FOREIGN, x->n = 1, 0;
    }
    const rush_class *foreign = rush_class_at((rush_type_text){name, length});
    if (foreign && (x->op_of = rush_class_method(foreign, "__init__"))) return x->name = x->op_of->base, x->target = NULL, x->what = SCRIPT_T_OP, 0;
    char flat[160];
    if (!strncmp(name, "torch.", 6)) flat_name(name + 6, flat, sizeof flat);
    else if (!strncmp(name, "ops.", 4) && strchr(name + 4, '.')) {
        rest = strchr(name + 4, '.') + 1;
        bool own = !strncmp(name, "ops.prim.", 9) || !strncmp(name, "ops.aten.", 9);
        if (own) snprintf(flat, sizeof flat, "%s", rest);
        else snprintf(flat, sizeof flat, "%.*s::%s", (int)(rest - name - 5), name + 4, rest);
    } else if (!strncmp(name, "math.", 5)) snprintf(flat, sizeof flat, "%s", name + 5);
    else snprintf(flat, sizeof flat, "%s", strchr(name, '.') ? "" : name);
    script_builtin builtin = rush_script_builtin_find(flat);
    x->op_of = *flat ? op_named(flat) : NULL;
    x->target = (const void *)builtin;
    if (!(x->name = rush_script_copy(b->u, flat, strlen(flat)))) return -1;
    x->what = builtin ? SCRIPT_T_BUILTIN : SCRIPT_T_OP;
    if (!builtin && !x->op_of) missing(b, name, x->line);
    return 0;
}

static bool some_class_has(const script_unit *u, const char *name)
{
    for (const script_class *c = u->first_class; c; c = c->next)
        if (rush_script_method_find(c, name) || rush_script_field_find(c, name)) return true;
    for (uint32_t i = 0; i < u->nused; ++i)
        if (some_class_has(u->used[i], name)) return true;
    return false;
}

static int bind_method(binder *b, script_node *x)
{
    script_builtin builtin = rush_script_builtin_find(x->name);
    x->target = (const void *)builtin;
    x->op_of = op_named(x->name);
    if (!builtin && !x->op_of && !some_class_has(b->u, x->name) && !rush_class_any_has(x->name)) missing(b, x->name, x->line);
    return 0;
}

/* Dotted names that are values. */
static int bind_name(binder *b, script_node *x)
{
    static const struct { const char *name; script_value v; } words[] = {
        {"math.pi", {.kind = SCRIPT_FLOAT, .f = 3.14159265358979323846}}, {"math.e", {.kind = SCRIPT_FLOAT, .f = 2.7182818284590452354}},
        {"math.inf", {.kind = SCRIPT_FLOAT, .f = __builtin_inf()}}, {"math.nan", {.kind = SCRIPT_FLOAT, .f = __builtin_nan("")}},
        {"torch.inf", {.kind = SCRIPT_FLOAT, .f = __builtin_inf()}}, {"torch.pi", {.kind = SCRIPT_FLOAT, .f = 3.14159265358979323846}},
        {"torch.nan", {.kind = SCRIPT_FLOAT, .f = __builtin_nan("")}},
        {"torch.strided", {.kind = SCRIPT_INT, .i = 0}}, {"torch.sparse_coo", {.kind = SCRIPT_INT, .i = 1}}, {"torch.sparse_csr", {.kind = SCRIPT_INT, .i = 2}},
        {"torch._mkldnn", {.kind = SCRIPT_INT, .i = 3}}, {"torch.sparse_csc", {.kind = SCRIPT_INT, .i = 4}}, {"torch.sparse_bsr", {.kind = SCRIPT_INT, .i = 5}},
        {"torch.sparse_bsc", {.kind = SCRIPT_INT, .i = 6}}, {"torch.jagged", {.kind = SCRIPT_INT, .i = 7}}, {"torch.contiguous_format", {.kind = SCRIPT_INT, .i = 0}}, {"torch.preserve_format", {.kind = SCRIPT_INT, .i = 1}},
        {"torch.channels_last", {.kind = SCRIPT_INT, .i = 2}}, {"torch.channels_last_3d", {.kind = SCRIPT_INT, .i = 3}}};
    script_value v = {.kind = SCRIPT_UNSET};
    for (size_t i = 0; i < RUSH_COUNT(words); ++i)
        if (!strcmp(words[i].name, x->name)) v = words[i].v;
    if (!strncmp(x->name, "torch.", 6) && v.kind == SCRIPT_UNSET) {
        int dtype = rush_dtype_from_name(x->name + 6), code = dtype < 0 ? -1 : rush_script_dtype_code(dtype);
        if (code >= 0) v = script_of_int(code);
    }
    if (!strncmp(x->name, "CONSTANTS.c", 11) && b->u->constants.kind == SCRIPT_TUPLE) {
        char *end;
        unsigned long k = strtoul(x->name + 11, &end, 10);
        if (!*end && end > x->name + 11 && k < b->u->constants.box->n) v = b->u->constants.box->item[k]; /* the unit holds it */
    }
    if (v.kind != SCRIPT_UNSET) return x->op = SCRIPT_N_CONSTANT, x->constant = v, 0;
    const script_function *f = rush_script_function_find(b->u, x->name);
    if (f) return x->op = SCRIPT_N_CONSTANT, x->constant = (script_value){.kind = SCRIPT_FUNCTION, .call = f}, 0;
    char owner[512];
    const char *dot = strrchr(x->name, '.');
    if (dot && (size_t)(dot - x->name) < sizeof owner) { /* a constant of a class */
        snprintf(owner, sizeof owner, "%.*s", (int)(dot - x->name), x->name);
        script_class *c = rush_script_class_find(b->u, owner);
        script_field *member = c ? rush_script_field_find(c, dot + 1) : NULL;
        if (member && member->value) return *x = *member->value, 0;
    }
    missing(b, x->name, x->line);
    return 0;
}

static int bind_node(binder *b, script_node *x, bool called);

static int bind_kids(binder *b, script_node *x)
{
    for (uint32_t i = 0; i < x->n; ++i)
        if (bind_node(b, x->kid[i], false)) return -1;
    return 0;
}

static bool is_type_form(const script_node *x)
{
    return x->what == SCRIPT_T_FORM && x->n > 1;
}

/* self.name of a class that people add to. */
static void bind_own(binder *b, const script_node *x)
{
    const script_class *c = b->f ? b->f->of : NULL;
    char getter[160];
    if (!c || !c->grows || x->kid[0]->op != SCRIPT_N_LOCAL || x->kid[0]->slot || rush_script_field_find(c, x->name) || rush_script_method_find(c, x->name)) return;
    if ((size_t)snprintf(getter, sizeof getter, "__%s_getter", x->name) < sizeof getter && rush_script_method_find(c, getter)) return;
    missing(b, x->name, x->line);
}

/* `called`: a name that is called, or goes on behind a dot, is looked up there. */
static int bind_node(binder *b, script_node *x, bool called)
{
    if (x->op == SCRIPT_N_LOCAL && (!b->f || !b->f->stored[x->slot])) x->op = SCRIPT_N_NAME;
    if (x->op == SCRIPT_N_NAME) return called ? 0 : bind_name(b, x);
    bool dotted = x->op == SCRIPT_N_ATTRIBUTE || x->op == SCRIPT_N_METHOD;
    if (!dotted && x->op != SCRIPT_N_CALL) return bind_kids(b, x);
    if (bind_node(b, x->kid[0], true)) return -1;
    if (dotted && x->kid[0]->op == SCRIPT_N_NAME) {
        size_t n = strlen(x->kid[0]->name), m = strlen(x->name);
        char *name = rush_script_alloc(b->u, n + m + 2);
        if (!name) return -1;
        sprintf(name, "%s.%s", x->kid[0]->name, x->name);
        if (x->op == SCRIPT_N_ATTRIBUTE) {
            x->op = SCRIPT_N_NAME;
            x->name = name;
            x->n = 0;
            return called ? 0 : bind_name(b, x);
        }
        x->op = SCRIPT_N_CALL;
        x->kid[0]->name = name;
    }
    if (x->op == SCRIPT_N_ATTRIBUTE) return bind_own(b, x), 0;
    int failed = x->op == SCRIPT_N_METHOD ? bind_method(b, x) : x->kid[0]->op == SCRIPT_N_NAME ? bind_call(b, x) : 0;
    bool types = x->op == SCRIPT_N_CALL && is_type_form(x); /* the argument that is a type is no value */
    const uint32_t type = !types || !strcmp(x->name, "fork") || !strcmp(x->name, "getattr") || !strcmp(x->name, "hasattr") ? 0 : !strcmp(x->name, "isinstance") ? 2 : 1;
    for (uint32_t i = 1; i < x->n && !failed; ++i)
        if (i != type) failed = bind_node(b, x->kid[i], false);
    return failed;
}

static int bind_function(script_unit *u, script_function *f)
{
    binder b = {u, f}, outside = {u, NULL};
    for (uint32_t i = 0; i < f->nparams; ++i)
        if (f->param[i].standard && bind_node(&outside, f->param[i].standard, false)) return -1;
    return bind_node(&b, f->body, false);
}

int rush_script_bind(script_unit *u)
{
    u->missing = (rush_missing){.n = 0};
    for (script_class *c = u->first_class; c; c = c->next) {
        binder b = {u, NULL};
        for (uint32_t i = 0; i < c->nfields; ++i)
            if (c->field[i].value && bind_node(&b, c->field[i].value, false)) return -1;
    }
    for (script_class *c = u->first_class; c; c = c->next)
        for (script_function *f = c->method; f; f = f->next)
            if (bind_function(u, f)) return -1;
    for (script_function *f = u->first_function; f; f = f->next)
        if (bind_function(u, f)) return -1;
    RUSH_CHECK(!u->missing.n, RUSH_NOT_IMPLEMENTED, "the program asks for %zu thing%s that the library does not have:%s", u->missing.n, u->missing.n == 1 ? "" : "s", u->missing.text);
    return 0;
}
