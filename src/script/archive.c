/* archive.c - the files of torch.jit.save: code, constants, and the tree of objects with their tensors.
 *
 * Pickles are read by the machine that reads checkpoints and can run nothing; code becomes nodes. All of it is bound before
 * anything runs, so that what is missing is told at once.
 */
#include "script/script.h"
#include "io/checkpoint.h"
#include "io/zip.h"
#include "tensor/quantized.h"

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
    script_value state, object;
    if (value_of(r, x->items[1], &state)) return -1;
    script_call call = {.name = set_state->base, .n = 1, .in = &state};
    int failed = rush_script_run_op(set_state, &call, &object);
    rush_script_drop(state);
    if (!failed) *out = object;
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
