/* object.c - a program's modules and objects for C: rushlight/program.h.
 *
 * What a caller holds is a rush_object whose class no schema can name; it keeps the program and the module, so that either may end first.
 */
#include "script/script.h"
#include "base/buried.h"
#include "io/checkpoint.h"
#include "io/content.h"
#include "io/zip.h"
#include "nn/module.h"
#include <rushlight/program.h>

#include <stdio.h>

enum { DEEPEST = 200 };

typedef struct handle {
    script_unit *unit;
    rush_module *module; /* NULL: of an object that is none */
    script_value v;
} handle;

static void end(void *data)
{
    handle *h = data;
    rush_script_drop(h->v);
    rush_module_drop(h->module);
    rush_script_unit_drop(h->unit);
    rush_free(h);
}

static rush_class scripted = {.end = end, .path = "__torch__"};

static rush_object *handle_of(script_value v)
{
    if (v.kind == SCRIPT_FOREIGN) return rush_object_park(rush_object_keep(v.object));
    handle *h = rush_malloc(sizeof *h);
    if (!h) return NULL;
    h->unit = v.box->type->unit;
    atomic_fetch_add(&h->unit->refs, 1);
    h->module = rush_module_keep(v.box->module);
    h->v = rush_script_keep(v);
    return rush_object_new(&scripted, h);
}

/* Borrowed; UNSET and an error: it does not live. */
static script_value value_of(const rush_object *o)
{
    if (!rush_lives(o, "an object")) return (script_value){.kind = SCRIPT_UNSET};
    const handle *h = rush_object_data(o, &scripted);
    return h ? h->v : (script_value){.kind = SCRIPT_FOREIGN, .object = (rush_object *)o};
}

/* ---- values ---- */

static int to_rush(script_value v, int depth, rush_value *out)
{
    *out = rush_v_none();
    switch (v.kind) {
    case SCRIPT_NONE: return 0;
    case SCRIPT_BOOL: return *out = rush_v_bool(v.i), 0;
    case SCRIPT_INT: return *out = rush_v_int(v.i), 0;
    case SCRIPT_FLOAT: return *out = rush_v_float(v.f), 0;
    case SCRIPT_COMPLEX: return *out = (rush_value){.kind = RUSH_V_COMPLEX, .c = {v.c[0], v.c[1]}}, 0;
    case SCRIPT_DEVICE: return *out = rush_v_device(v.device), 0;
    case SCRIPT_GENERATOR: return *out = rush_v_generator(v.gen), 0;
    case SCRIPT_TENSOR: return (*out = rush_v_tensor(rush_park(rush_keep(v.t)))).t ? 0 : -1;
    case SCRIPT_TEXT: return (*out = rush_v_string(rush_scope_copy(v.box->text, v.box->n + 1))).s ? 0 : -1;
    case SCRIPT_OBJECT: case SCRIPT_FOREIGN: return (*out = rush_v_object(handle_of(v))).object ? 0 : -1;
    case SCRIPT_LIST: case SCRIPT_TUPLE: case SCRIPT_DICT: break;
    default: return rush_fail(RUSH_NOT_IMPLEMENTED, "a %s is no value outside of programs", rush_script_kind_name(v));
    }
    RUSH_CHECK(depth < DEEPEST && v.box->n <= UINT32_MAX, RUSH_VALUE_ERROR, "a value is nested too deeply, or too long");
    rush_value *item = rush_scope_alloc((v.box->n + 1) * sizeof *item);
    if (!item) return -1;
    for (size_t i = 0; i < v.box->n; ++i)
        if (to_rush(v.box->item[i], depth + 1, &item[i])) return -1;
    out->kind = v.kind == SCRIPT_LIST ? RUSH_V_VALUES : v.kind == SCRIPT_TUPLE ? RUSH_V_TUPLE : RUSH_V_DICT;
    out->n = (uint32_t)v.box->n;
    out->values = item;
    return 0;
}

/* One reference in *out. */
static int from_rush(rush_value v, int depth, script_value *out)
{
    if (v.kind == RUSH_V_OBJECT) return (*out = rush_script_keep(value_of(v.object))).kind == SCRIPT_UNSET ? -1 : 0;
    int holds = rush_value_holds(&v, true);
    RUSH_CHECK(holds > 0, RUSH_TYPE_ERROR, holds ? "a tensor is used after its scope was closed" : "a value is NULL, holds a NULL, or names what there is not (kind %d)", v.kind);
    if (v.kind != RUSH_V_VALUES && v.kind != RUSH_V_TUPLE && v.kind != RUSH_V_DICT) return (*out = rush_script_from_rush(NULL, 0, v)).kind == SCRIPT_UNSET ? -1 : 0;
    RUSH_CHECK(depth < DEEPEST && (v.kind != RUSH_V_DICT || v.n % 2 == 0), RUSH_TYPE_ERROR, "a value is nested too deeply, or a dict has a key without a value");
    *out = v.kind == RUSH_V_DICT ? rush_script_dict() : rush_script_list(v.kind == RUSH_V_TUPLE ? SCRIPT_TUPLE : SCRIPT_LIST, 0, NULL);
    for (uint32_t i = 0; out->kind != SCRIPT_UNSET && i < v.n; ++i) {
        script_value key = SCRIPT_NOTHING, item;
        int failed = v.kind == RUSH_V_DICT && from_rush(v.values[i++], depth + 1, &key);
        if (!failed && !(failed = from_rush(v.values[i], depth + 1, &item))) {
            failed = v.kind == RUSH_V_DICT ? rush_script_dict_set(out->box, key, item) : rush_script_append(out->box, item);
            rush_script_drop(item);
        }
        rush_script_drop(key);
        if (failed) return rush_script_drop(*out), -1;
    }
    return out->kind == SCRIPT_UNSET ? -1 : 0;
}

/* The objects of other programs that a value holds live as long as the program that holds it from now on. */
static int hold(script_unit *u, script_value v)
{
    if (v.kind == SCRIPT_OBJECT && v.box->type->unit != u) return rush_script_unit_use(u, v.box->type->unit) < 0 ? -1 : 0;
    for (size_t i = 0; (v.kind == SCRIPT_LIST || v.kind == SCRIPT_TUPLE || v.kind == SCRIPT_DICT) && i < v.box->n; ++i)
        if (hold(u, v.box->item[i])) return -1;
    return 0;
}

static int give(int failed, script_value v, rush_value *out)
{
    if (failed) return -1;
    failed = to_rush(v, 0, out);
    rush_script_drop(v);
    return failed;
}

/* ---- objects ---- */

rush_object *rush_program_object(const rush_module *m)
{
    if (!m || !rush_lives(m, "a module") || !rush_script_is_program(m)) return rush_failed() ? NULL : (rush_fail(RUSH_NOT_IMPLEMENTED, "only programs of TorchScript have methods and attributes"), NULL);
    return rush_failed() ? NULL : handle_of(rush_script_program_value(m));
}

rush_module *rush_object_module(const rush_object *o)
{
    script_value v = value_of(o);
    return v.kind == SCRIPT_OBJECT && v.box->module ? rush_park_object(rush_module_keep(v.box->module)) : NULL;
}

const char *rush_object_type(const rush_object *o)
{
    script_value v = value_of(o);
    return v.kind == SCRIPT_UNSET ? NULL : rush_script_kind_name(v);
}

int rush_object_call(rush_object *o, const char *method, int n, const rush_value *in, const char *const *names, rush_value *out)
{
    script_value self = value_of(o), result;
    if (self.kind == SCRIPT_UNSET || rush_failed()) return -1;
    RUSH_CHECK(method && out && n >= 0 && (in || !n), RUSH_TYPE_ERROR, "rush_object_call: the method, the arguments or the place for the result are NULL");
    const script_function *f = self.kind == SCRIPT_OBJECT ? rush_script_method_find(self.box->type, method) : NULL;
    RUSH_CHECK(f || self.kind == SCRIPT_FOREIGN, RUSH_ATTRIBUTE_ERROR, "Method '%.200s' is not defined.", method);
    script_value *v = rush_scope_alloc(((size_t)n + 1) * sizeof *v); /* before the others self, which methods of registered classes are given */
    const char **said = rush_scope_alloc(((size_t)n + 1) * sizeof *said);
    if (!v || !said) return -1;
    v[0] = self;
    said[0] = NULL;
    int made = 0, failed = 0;
    for (; made < n && !failed; made += !failed) {
        said[made + 1] = names ? names[made] : NULL;
        failed = from_rush(in[made], 0, &v[made + 1]);
    }
    if (!failed && f) failed = rush_script_run(self.box->type->unit, f, self, n, v + 1, names ? said + 1 : NULL, 0, &result);
    else if (!failed) {
        script_call c = {.name = method, .n = n + 1, .in = v, .names = names ? said : NULL};
        failed = rush_script_foreign(&c, method, "", &result);
        if (failed == SCRIPT_NOT_MINE) rush_fail(RUSH_ATTRIBUTE_ERROR, "Method '%.200s' is not defined.", method);
    }
    while (made) rush_script_drop(v[made--]);
    return give(failed, result, out);
}

int rush_object_get(rush_object *o, const char *attribute, rush_value *out)
{
    script_value self = value_of(o), v;
    if (self.kind == SCRIPT_UNSET || rush_failed()) return -1;
    RUSH_CHECK(attribute && out, RUSH_TYPE_ERROR, "rush_object_get: the attribute's name or the place for it is NULL");
    return give(rush_script_attribute(self, attribute, &v), v, out);
}

int rush_object_set(rush_object *o, const char *attribute, rush_value value)
{
    script_value self = value_of(o), v;
    if (self.kind == SCRIPT_UNSET || rush_failed()) return -1;
    RUSH_CHECK(attribute, RUSH_TYPE_ERROR, "rush_object_set: the attribute's name is NULL");
    if (from_rush(value, 0, &v)) return -1;
    int failed = (self.kind == SCRIPT_OBJECT && hold(self.box->type->unit, v)) || rush_script_attribute_set(self, attribute, v) ? -1 : 0;
    rush_script_drop(v);
    return failed;
}

static const script_function *method_of(const rush_object *o, const char *name)
{
    script_value v = value_of(o);
    const script_function *f = v.kind == SCRIPT_OBJECT && name ? rush_script_method_find(v.box->type, name) : NULL;
    if (!f) rush_fail(RUSH_ATTRIBUTE_ERROR, "Method '%.200s' is not defined.", name ? name : "NULL");
    return f;
}

int rush_object_inputs(const rush_object *o, const char *method)
{
    const script_function *f = method_of(o, method);
    return f ? (int)f->nparams : -1;
}

const char *rush_object_method_text(const rush_object *o, const char *method)
{
    const script_function *f = method_of(o, method);
    size_t n = f ? f->ntext : 0;
    while (n && strchr(" \n\t", f->text[n - 1])) --n;
    char *text = f ? rush_scope_alloc(n + 1) : NULL;
    if (text) memcpy(text, f->text, n), text[n] = 0;
    return text;
}

int rush_program_add(rush_module *m, const char *name, const char *type, rush_value value, int role)
{
    script_value v;
    if (rush_failed() || from_rush(value, 0, &v)) return -1;
    int failed = rush_script_program_add(m, name, type, v, role);
    rush_script_drop(v);
    return failed;
}

const char *rush_object_method_at(const rush_object *o, int i)
{
    script_value v = value_of(o);
    const script_function *f = v.kind == SCRIPT_OBJECT ? v.box->type->method : NULL;
    while (f && i-- > 0) f = f->next;
    return f ? f->name : NULL;
}

const char *rush_object_attribute_at(const rush_object *o, int i)
{
    script_value v = value_of(o);
    for (uint32_t k = 0; v.kind == SCRIPT_OBJECT && k < v.box->type->nfields; ++k)
        if (!v.box->type->field[k].fixed && i-- == 0) return v.box->type->field[k].name;
    return NULL;
}

/* ---- archives ---- */

int rush_program_save_files(const rush_module *m, const char *path, size_t n, const rush_program_file *file)
{
    if (!m || !rush_lives(m, "a module") || !rush_script_is_program(m)) return rush_failed() ? -1 : rush_fail(RUSH_NOT_IMPLEMENTED, "only programs of TorchScript are written as archives");
    RUSH_CHECK(path && (file || !n), RUSH_TYPE_ERROR, "a path or the files are missing (NULL)");
    rush_archive_file *more = rush_failed() ? NULL : rush_scope_alloc((n + 1) * sizeof *more);
    if (!more) return -1;
    for (size_t i = 0; i < n; ++i) {
        RUSH_CHECK(file[i].name && (file[i].data || !file[i].n), RUSH_TYPE_ERROR, "rush_program_save_files: file %zu has no name or no data", i);
        char *name = rush_scope_alloc(strlen(file[i].name) + 7);
        if (!name) return -1;
        strcat(strcpy(name, "extra/"), file[i].name);
        more[i] = (rush_archive_file){name, file[i].data, file[i].n};
    }
    rush_writing to;
    if (rush_write_begin(&to, path)) return -1;
    script_value root = rush_script_program_value(m);
    int failed = rush_script_write(root.box->type->unit, root, rush_zip_to_file, &to, n, more);
    return rush_write_end(&to, !failed) || failed ? -1 : 0;
}

int rush_program_save(const rush_module *m, const char *path) { return rush_program_save_files(m, path, 0, NULL); }

int rush_program_load_file(const char *path, const char *name, rush_program_file *out)
{
    RUSH_CHECK(path && name && out, RUSH_TYPE_ERROR, "rush_program_load_file: the path, the name or the place for the file is NULL");
    rush_source source;
    rush_zip *zip = rush_failed() || rush_source_open(&source, path) ? NULL : rush_zip_open(source);
    if (!zip) return -1;
    char below[1024];
    *out = (rush_program_file){.name = name};
    const rush_zip_entry *e = (size_t)snprintf(below, sizeof below, "extra/%s", name) < sizeof below ? rush_zip_find_below(zip, below) : NULL;
    char *all = e ? rush_zip_read_all(zip, e) : NULL;
    if (all) out->n = (size_t)e->size, out->data = rush_scope_copy(all, out->n + 1);
    rush_free(all);
    rush_zip_close(zip);
    return e && !out->data ? -1 : 0;
}
