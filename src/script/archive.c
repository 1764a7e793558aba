/* archive.c - the files of torch.jit.save: code, constants, and the tree of objects with their tensors; as a module of C, too.
 *
 * Pickles are read by the machine that reads checkpoints and can run nothing; code becomes nodes. All of it is bound before
 * anything runs, so that what is missing is told at once.
 */
#include "script/script.h"
#include "base/buried.h"
#include "io/checkpoint.h"
#include "io/zip.h"
#include "nn/module.h"
#include "tensor/quantized.h"
#include <rushlight/program.h>

#include <stdio.h>

enum { DEEPEST = 500, MOST_CODE = 1 << 28 };

/* ---- contents of pickles as values ---- */

typedef struct made { const rush_content *from; script_value v; bool open; } made;

typedef struct reader {
    script_unit *u;
    const char *path;
    made *made; /* by address, so that what is shared stays so */
    size_t n, room;
    rush_tensor **seen; /* tensors, by their memory: held by what has been made; one over the same elements is the same tensor */
    size_t nseen, seen_room;
    int depth;
} reader;

static made *place(const reader *r, const rush_content *x)
{
    size_t at = ((uintptr_t)x >> 4) * 0x9E3779B97F4A7C15u >> 20 & (r->room - 1);
    while (r->made[at].from && r->made[at].from != x) at = (at + 1) & (r->room - 1);
    return &r->made[at];
}

static made *remember(reader *r, const rush_content *x)
{
    if (2 * (r->n + 1) > r->room) {
        reader old = *r;
        r->room = RUSH_MAX(2 * r->room, (size_t)64);
        if (!(r->made = rush_calloc(r->room, sizeof *r->made))) return r->made = old.made, r->room = old.room, NULL;
        for (size_t i = 0; i < old.room; ++i)
            if (old.made[i].from) *place(r, old.made[i].from) = old.made[i];
        rush_free(old.made);
    }
    ++r->n;
    made *m = place(r, x);
    *m = (made){x, {.kind = SCRIPT_UNSET}, true};
    return m;
}

static bool same_elements(const rush_tensor *a, const rush_tensor *b)
{
    if (a->storage != b->storage || a->offset != b->offset || a->dtype != b->dtype || a->ndim != b->ndim || !a->storage || rush_requires_grad(a) != rush_requires_grad(b)) return false;
    for (int d = 0; d < a->ndim; ++d)
        if (a->size[d] != b->size[d] || rush_strides(a)[d] != rush_strides(b)[d]) return false;
    return true;
}

/* The weights that a recurrent layer also has in a list are its parameters: what trains these, trains those. */
static rush_tensor *one_of(reader *r, rush_tensor *t)
{
    if (!t->storage || rush_is_quantized(t)) return t;
    if (2 * (r->nseen + 1) > r->seen_room) {
        size_t room = RUSH_MAX(2 * r->seen_room, (size_t)64);
        rush_tensor **seen = rush_calloc(room, sizeof *seen);
        if (!seen) return NULL;
        for (size_t i = 0; i < r->seen_room; ++i) {
            if (!r->seen[i]) continue;
            size_t at = ((uintptr_t)r->seen[i]->storage >> 4) * 0x9E3779B97F4A7C15u >> 20 & (room - 1);
            while (seen[at]) at = (at + 1) & (room - 1);
            seen[at] = r->seen[i];
        }
        rush_free(r->seen);
        r->seen = seen;
        r->seen_room = room;
    }
    size_t at = ((uintptr_t)t->storage >> 4) * 0x9E3779B97F4A7C15u >> 20 & (r->seen_room - 1);
    for (; r->seen[at]; at = (at + 1) & (r->seen_room - 1))
        if (same_elements(r->seen[at], t)) return r->seen[at];
    ++r->nseen;
    return r->seen[at] = t; /* the contents' scope holds it until all is made */
}

static int value_of(reader *r, const rush_content *x, script_value *out);

static int fill(reader *r, const rush_content *x, script_value v)
{
    for (size_t i = 0; i < x->n; ++i) {
        script_value item, key;
        bool pairs = x->kind == RUSH_CONTENT_DICT;
        if (pairs && x->type) { /* an object: names and values */
            script_field *f = i + 1 < x->n && x->items[i]->kind == RUSH_CONTENT_TEXT ? rush_script_field_find(v.box->type, x->items[i]->s) : NULL;
            RUSH_CHECK(f && !f->fixed, RUSH_VALUE_ERROR, "'%s': an object of %.200s has an attribute that its class has not", r->path, x->type);
            if (value_of(r, x->items[++i], &item)) return -1;
            int failed = rush_script_attribute_set(v, f->name, item);
            rush_script_drop(item);
            if (failed) return -1;
            continue;
        }
        if (pairs) {
            if (i + 1 >= x->n || value_of(r, x->items[i], &key)) return -1;
            if (value_of(r, x->items[++i], &item)) return rush_script_drop(key), -1;
        } else if (value_of(r, x->items[i], &item)) return -1;
        int failed = pairs ? rush_script_dict_set(v.box, key, item) : rush_script_append(v.box, item);
        if (pairs) rush_script_drop(key);
        rush_script_drop(item);
        if (failed) return -1;
    }
    return 0;
}

/* An object of a class that C or C++ registered, from its state. */
static int restore(reader *r, const rush_content *x, const rush_op *set_state, script_value *out)
{
    script_value state, made;
    if (value_of(r, x->items[1], &state)) return -1;
    script_call call = {.name = set_state->base, .n = 1, .in = &state};
    int failed = rush_script_run_op(set_state, &call, &made);
    rush_script_drop(state);
    if (!failed) *out = made;
    return failed;
}

static int box_of(reader *r, const rush_content *x, script_value *out)
{
    made *m = r->room ? place(r, x) : NULL;
    if (m && m->from) {
        RUSH_CHECK(!m->open, RUSH_VALUE_ERROR, "'%s': a value holds itself", r->path);
        return *out = rush_script_keep(m->v), 0;
    }
    const bool foreign = x->type && rush_class_path_end(x->type);
    const rush_class *registered = foreign ? rush_class_at((rush_type_text){x->type, strlen(x->type)}) : NULL;
    const rush_op *set_state = registered && x->n == 2 ? rush_class_method(registered, "__setstate__") : NULL;
    script_class *type = x->type && !foreign ? rush_script_class_find(r->u, x->type) : NULL;
    RUSH_CHECK(!foreign || set_state, RUSH_VALUE_ERROR, "'%s' has an object of %.200s, and no such class is registered", r->path, x->type);
    RUSH_CHECK(!x->type || foreign || type, RUSH_VALUE_ERROR, "'%s' has an object of %.200s, and no such class", r->path, x->type);
    RUSH_CHECK(++r->depth < DEEPEST, RUSH_VALUE_ERROR, "'%s': values are nested too deeply", r->path);
    script_value v = foreign ? SCRIPT_NOTHING : type ? rush_script_object(type) : x->kind == RUSH_CONTENT_DICT ? rush_script_dict() : rush_script_list(x->kind == RUSH_CONTENT_LIST ? SCRIPT_LIST : SCRIPT_TUPLE, 0, NULL);
    if (v.kind == SCRIPT_UNSET || !remember(r, x)) return rush_script_drop(v), -1;
    if (foreign ? restore(r, x, set_state, &v) : fill(r, x, v)) return rush_script_drop(v), -1;
    m = place(r, x); /* the table may have moved */
    m->open = false;
    m->v = rush_script_keep(v);
    --r->depth;
    return *out = v, 0;
}

static int value_of(reader *r, const rush_content *x, script_value *out)
{
    switch (x->kind) {
    case RUSH_CONTENT_NONE: return *out = SCRIPT_NOTHING, 0;
    case RUSH_CONTENT_BOOL: return *out = script_of_bool(x->i), 0;
    case RUSH_CONTENT_INT: return *out = script_of_int(x->i), 0;
    case RUSH_CONTENT_FLOAT: return *out = script_of_float(x->f), 0;
    case RUSH_CONTENT_COMPLEX: return *out = (script_value){.kind = SCRIPT_COMPLEX, .c = {x->c[0], x->c[1]}}, 0;
    case RUSH_CONTENT_TEXT: return (*out = rush_script_text(x->s, x->n)).kind == SCRIPT_UNSET ? -1 : 0;
    case RUSH_CONTENT_TENSOR: {
        rush_tensor *t = one_of(r, x->t);
        return t ? (*out = rush_script_of_tensor(t), 0) : -1;
    }
    case RUSH_CONTENT_DTYPE: return *out = script_of_int(rush_script_dtype_code((int)x->i)), 0;
    case RUSH_CONTENT_LIST: case RUSH_CONTENT_TUPLE: case RUSH_CONTENT_DICT: return box_of(r, x, out);
    case RUSH_CONTENT_NAME: {
        script_value text = rush_script_text(x->s, strlen(x->s));
        script_call c = {.name = "device", .n = 1, .in = &text};
        int failed = text.kind == SCRIPT_UNSET || rush_script_builtin_find("device")(&c, out);
        rush_script_drop(text);
        return failed ? -1 : 0;
    }
    default: return rush_fail(RUSH_NOT_IMPLEMENTED, "'%s' holds a value of a kind that programs do not have", r->path);
    }
}

static int read_pickle(reader *r, const char *part, script_value *out)
{
    size_t mark = rush_scope_open();
    const rush_content *x = rush_load_part(r->path, part, (rush_load_options){0});
    int failed = !x || value_of(r, x, out);
    for (size_t i = 0; i < r->room; ++i)
        if (r->made[i].from) rush_script_drop(r->made[i].v);
    rush_free(r->made);
    rush_free(r->seen);
    r->made = NULL;
    r->seen = NULL;
    r->nseen = r->seen_room = 0;
    r->n = r->room = 0;
    r->depth = 0;
    rush_scope_close(mark);
    return failed ? -1 : 0;
}

/* ---- code ---- */

/* code/__torch__/torch/nn.py has what is called __torch__.torch.nn.NAME. */
static int read_code(script_unit *u, const rush_zip *zip, const char *path)
{
    size_t root = strlen(zip->root), total = 0;
    for (uint32_t i = 0; i < zip->n; ++i) {
        const rush_zip_entry *e = &zip->entry[i];
        const char *name = strlen(e->name) > root ? e->name + root + (root > 0) : "";
        size_t n = strlen(name);
        char dotted[1024], file[1400];
        if (n < 9 || n >= sizeof dotted || strncmp(name, "code/", 5) || strcmp(name + n - 3, ".py")) continue;
        snprintf(dotted, sizeof dotted, "%.*s", (int)n - 8, name + 5);
        for (char *s = dotted; *s; ++s)
            if (*s == '/') *s = '.';
        RUSH_CHECK(e->size < MOST_CODE && (total += e->size) < MOST_CODE, RUSH_VALUE_ERROR, "'%s' has too much code", path);
        snprintf(file, sizeof file, "%.300s in '%.1000s'", name, path);
        char *text = rush_zip_read_all(zip, e);
        int failed = !text || rush_script_parse(u, text, (size_t)e->size, dotted, file);
        rush_free(text);
        if (failed) return -1;
    }
    return 0;
}

script_unit *rush_script_load(const char *path)
{
    RUSH_CHECK_NULL(path, RUSH_TYPE_ERROR, "a path is missing (NULL)");
    if (rush_failed()) return NULL;
    rush_source source;
    rush_zip *zip = rush_source_open(&source, path) ? NULL : rush_zip_open(source);
    if (!zip) return NULL;
    script_unit *u = rush_script_unit_new();
    reader r = {.u = u, .path = path};
    bool archive = rush_zip_find_below(zip, "constants.pkl") != NULL;
    int failed = !u || !archive || read_code(u, zip, path);
    if (!archive && u) rush_fail(RUSH_RUNTIME_ERROR, "'%s' is no TorchScript archive: there is no constants.pkl in it", path);
    rush_zip_close(zip);
    if (!failed) failed = read_pickle(&r, "constants", &u->constants) || rush_script_bind(u) || read_pickle(&r, "data", &u->root);
    if (!failed && u->root.kind != SCRIPT_OBJECT) failed = rush_fail(RUSH_VALUE_ERROR, "'%s' has no module in it", path);
    if (failed) return rush_script_unit_drop(u), NULL;
    return u;
}

bool rush_script_is_archive(const char *path)
{
    rush_source source;
    char head[4];
    if (!path || rush_failed() || rush_source_open(&source, path)) return rush_error_clear(), false;
    bool zip = source.size >= 4 && !rush_source_read(&source, 0, head, 4) && !memcmp(head, "PK\3\4", 4);
    rush_zip *z = zip ? rush_zip_open(source) : (rush_source_close(&source), NULL);
    bool is = z && rush_zip_find_below(z, "constants.pkl") && !rush_zip_find_below(z, "archive_format");
    rush_zip_close(z);
    rush_error_clear();
    return is;
}

/* ---- as a module of C ---- */

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

int rush_script_program_save(const rush_module *m, const char *path)
{
    const program *p = m->data;
    RUSH_CHECK(path, RUSH_TYPE_ERROR, "a path is missing (NULL)");
    rush_writing file;
    if (rush_failed() || rush_write_begin(&file, path)) return -1;
    int failed = rush_script_write(p->object.box->type->unit, p->object, rush_zip_to_file, &file, 0, NULL);
    return rush_write_end(&file, !failed) || failed ? -1 : 0;
}

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
