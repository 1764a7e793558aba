/* save.c - a program as an archive that torch.jit.load reads: its texts as they were read, objects and constants as they are now. */
#include "script/text_of.h"
#include "io/content.h"
#include "io/zip.h"
#include "nn/module.h"

#include <stdio.h>

enum { DEEPEST = 500 };

typedef struct saver {
    struct { const void *what; rush_content *made; } *object; /* what is held twice is written once */
    size_t n, room;
    int depth;
    script_place *places; /* of all programs that have a part in it; the first is the outermost one's */
} saver;

static rush_content *content_of(saver *s, script_value v);

static rush_content *add(rush_content *to, rush_content *x) { return x && !rush_content_add(to, &x, 1) ? to : NULL; }

/* A dict, which an object becomes; made before, or to be filled: *fresh. */
static rush_content *place(saver *s, const void *what, const char *type, bool *fresh)
{
    *fresh = false;
    for (size_t i = 0; i < s->n; ++i)
        if (s->object[i].what == what) return s->object[i].made;
    if (s->n == s->room) {
        size_t room = 2 * s->room + 16;
        void *more = rush_scope_alloc(room * sizeof *s->object);
        if (!more) return NULL;
        if (s->n) memcpy(more, s->object, s->n * sizeof *s->object);
        s->object = more;
        s->room = room;
    }
    rush_content *x = rush_content_dict();
    if (!x) return NULL;
    *fresh = true;
    x->type = type;
    s->object[s->n].what = what;
    s->object[s->n++].made = x;
    return x;
}

/* Of a class that C or C++ registered: what its __getstate__ gives, with no name. */
static rush_content *foreign_of(saver *s, script_value v)
{
    bool fresh;
    script_value state;
    rush_content *x = place(s, v.object, rush_script_kind_name(v), &fresh);
    if (!x || !fresh) return x;
    int r = rush_script_special(v, "__getstate__", 0, NULL, &state);
    RUSH_CHECK_NULL(r != SCRIPT_NOT_MINE, RUSH_RUNTIME_ERROR, "Tried to serialize object %s which does not have a __getstate__ method defined!", x->type);
    rush_content *made = r ? NULL : content_of(s, state);
    if (!r) rush_script_drop(state);
    return made && add(x, rush_content_none()) ? add(x, made) : NULL;
}

static script_place *place_of(const saver *s, const script_unit *u)
{
    script_place *p = s->places;
    while (p && p->unit != u) p = p->next;
    return p;
}

/* The path that "__torch__.a.b" of a program has where it is written, in the scope. */
static char *path_in(const script_place *p, const char *path)
{
    const size_t own = strncmp(path, "__torch__", 9) ? 0 : 9, n = strlen(p->name) + strlen(path) + 1;
    char *made = rush_scope_alloc(n);
    if (made) snprintf(made, n, "%s%s", own ? p->name : "", path + own);
    return made;
}

static rush_content *object_of(saver *s, script_value v)
{
    bool fresh;
    const script_box *b = v.box;
    const script_place *at = place_of(s, b->type->unit);
    if (!at && rush_script_class_find(s->places->unit, b->type->path)) at = s->places; /* Python replaces parts by their like */
    RUSH_CHECK_NULL(at, RUSH_NOT_IMPLEMENTED, "an object of %.200s belongs to another program", b->type->path);
    const char *path = path_in(at, b->type->path);
    rush_content *x = path ? place(s, b, path, &fresh) : NULL;
    if (!x || !fresh) return x;
    for (uint32_t i = 0; i < b->type->nfields; ++i) {
        const script_field *f = &b->type->field[i];
        script_value item;
        if (f->fixed) continue;
        if (rush_script_attribute(v, f->name, &item)) return NULL;
        rush_content *made = content_of(s, item);
        rush_script_drop(item);
        if (!made || !add(x, rush_content_text(f->name)) || !add(x, made)) return NULL;
    }
    return x;
}

static rush_content *items_of(saver *s, rush_content *x, const script_box *b)
{
    for (size_t i = 0; i < b->n && x; ++i) x = add(x, content_of(s, b->item[i]));
    return x;
}

static rush_content *box_of(saver *s, script_value v)
{
    switch (v.kind) {
    case SCRIPT_TEXT: return rush_content_bytes(RUSH_CONTENT_TEXT, v.box->text, v.box->n);
    case SCRIPT_LIST: return items_of(s, rush_content_list(), v.box);
    case SCRIPT_TUPLE: return items_of(s, rush_content_tuple(), v.box);
    case SCRIPT_DICT: return items_of(s, rush_content_dict(), v.box);
    case SCRIPT_OBJECT: return object_of(s, v);
    case SCRIPT_FOREIGN: return foreign_of(s, v);
    default: return rush_fail(RUSH_NOT_IMPLEMENTED, "archives of programs hold no %s", rush_script_kind_name(v)), NULL;
    }
}

static rush_content *content_of(saver *s, script_value v)
{
    switch (v.kind) {
    case SCRIPT_NONE: return rush_content_none();
    case SCRIPT_BOOL: return rush_content_bool(v.i);
    case SCRIPT_INT: return rush_content_int(v.i);
    case SCRIPT_FLOAT: return rush_content_float(v.f);
    case SCRIPT_TENSOR: return rush_content_tensor(v.t);
    case SCRIPT_DEVICE: {
        script_value text = rush_script_print(v, false);
        rush_content *x = text.kind == SCRIPT_UNSET ? NULL : rush_content_bytes(RUSH_CONTENT_NAME, text.box->text, text.box->n);
        return rush_script_drop(text), x;
    }
    default: break;
    }
    RUSH_CHECK_NULL(++s->depth < DEEPEST, RUSH_VALUE_ERROR, "values are nested too deeply");
    rush_content *x = box_of(s, v);
    --s->depth;
    return x;
}

/* "code/__torch__/a/b.py" for "__torch__.a.b" */
static char *file_of(const char *path)
{
    size_t n = strlen(path);
    char *name = rush_scope_alloc(n + sizeof "code/.py");
    if (!name) return NULL;
    sprintf(name, "code/%s.py", path);
    for (char *p = name; p < name + 5 + n; ++p)
        if (*p == '.') *p = '/';
    return name;
}

static bool begins_with_any(const script_place *first, const script_place *end, const char *path, bool whole)
{
    const size_t n = strlen(path);
    bool found = false;
    for (const script_place *p = first; p != end && !found; p = p->next)
        for (const script_text *t = p->unit->first_text; t && !found; t = t->next) {
            const char *other = path_in(p, t->path);
            found = other && !strncmp(other, path, n) && (!whole || !other[n]);
        }
    return found;
}

/* A program whose files have the names of others gets a folder of its own. */
static void name_place(saver *s, script_place *p)
{
    bool taken = false;
    strcpy(p->name, "__torch__");
    for (const script_text *t = p->unit->first_text; t && !taken; t = t->next) taken = begins_with_any(s->places, p, t->path, true);
    for (int k = 0; taken; ++k) {
        snprintf(p->name, sizeof p->name, "__torch__.___torch_mangle_%d", k);
        taken = begins_with_any(s->places, p, p->name, false);
    }
}

/* All programs that a program holds objects of, itself first. */
static script_place *add_places(saver *s, script_unit *u)
{
    script_place *p = place_of(s, u), **last = &s->places;
    if (p) return p;
    while (*last) last = &(*last)->next;
    if (!(p = rush_scope_alloc(sizeof *p)) || !(p->used = rush_scope_alloc((u->nused + 1) * sizeof(script_place *)))) return NULL;
    *p = (script_place){.unit = u, .used = p->used};
    *last = p;
    name_place(s, p);
    for (uint32_t i = 0; i < u->nused; ++i)
        if (!(p->used[i] = add_places(s, u->used[i]))) return NULL;
    return p;
}

static rush_content *constants_of(saver *s)
{
    rush_content *all = rush_content_tuple();
    for (script_place *p = s->places; p && all; p = p->next) {
        p->constants = all->n;
        if (p->unit->constants.kind == SCRIPT_TUPLE) all = items_of(s, all, p->unit->constants.box);
    }
    return all;
}

static int write_texts(const script_place *p, script_writer *w, rush_archive_file *file)
{
    for (const script_text *t = p->unit->first_text; t; t = t->next, ++file) {
        char *path = path_in(p, t->path);
        *w = (script_writer){0};
        if (!path || rush_script_put_text(w, p, t)) return -1;
        *file = (rush_archive_file){file_of(path), w->p ? rush_scope_copy(w->p, w->n + 1) : "", w->n};
        rush_free(w->p);
        *w = (script_writer){0};
        if (!file->name || !file->p) return -1;
    }
    return 0;
}

int rush_script_write(const script_unit *u, script_value root, rush_sink sink, void *to, size_t n, const rush_archive_file *more)
{
    size_t mark = rush_scope_open(), total = n;
    saver s = {0};
    int failed = !add_places(&s, (script_unit *)u);
    for (const script_place *p = s.places; p; p = p->next)
        for (const script_text *t = p->unit->first_text; t; t = t->next) ++total;
    rush_archive_file *files = failed ? NULL : rush_scope_alloc((total + 1) * sizeof *files);
    rush_content *data = files ? content_of(&s, root) : NULL, *constants = data ? constants_of(&s) : NULL;
    script_writer w = {0};
    if (n && constants) memcpy(files, more, n * sizeof *files);
    failed = !constants;
    for (const script_place *p = s.places; p && !failed; p = p->next) {
        failed = write_texts(p, &w, files + n);
        for (const script_text *t = p->unit->first_text; t; t = t->next) ++n;
    }
    rush_free(w.p);
    if (!failed) failed = rush_save_archive(sink, to, data, constants, n, files);
    rush_scope_close(mark);
    return failed ? -1 : 0;
}
