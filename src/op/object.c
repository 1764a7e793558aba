/* object.c - classes of programs and their objects: rushlight/library.h. An object is counted; what it holds only its program knows. */
#include "op/object.h"
#include "base/buried.h"
#include <ctype.h>
#include <stdio.h>

struct rush_object {
    rush_object_end end; /* first: objects are parked in scopes */
    atomic_int refs;
    const rush_class *of;
    void *data;
};

static rush_class *_Atomic classes; /* added to, never taken from */

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

static const rush_class *find(const char *path, size_t n)
{
    for (const rush_class *c = classes; c; c = c->next)
        if (strlen(c->path) == n && !strncmp(c->path, path, n)) return c;
    return NULL;
}

const char *rush_class_path_end(const char *at)
{
    static const char head[] = RUSH_CLASS_HEAD;
    if (strncmp(at, head, sizeof head - 1)) return NULL;
    while (is_word(*at) || *at == '.') ++at;
    return at;
}

const rush_class *rush_class_at(rush_type_text path)
{
    return find(path.at, path.n);
}

/* "ns::Name" -> its path, which the caller frees; NULL and an error. */
static rush_class *make(const char *name)
{
    const char *colon = name ? strstr(name, "::") : NULL, *at = name;
    RUSH_CHECK_NULL(colon && colon > name && colon[2], RUSH_VALUE_ERROR, "the class '%s' has no name of the form ns::Name", name ? name : "(NULL)");
    while (is_word(*at) || at == colon || at == colon + 1) ++at;
    RUSH_CHECK_NULL(!*at, RUSH_VALUE_ERROR, "the class '%s' has a '%c' in its name", name, *at);
    rush_class *c = rush_calloc(1, sizeof *c + sizeof RUSH_CLASS_HEAD + strlen(name));
    if (c) sprintf(c->path, "%s%.*s.%s", RUSH_CLASS_HEAD, (int)(colon - name), name, colon + 2);
    return c;
}

const rush_class *rush_class_define(const char *name, void (*end)(void *data))
{
    rush_class *c = make(name);
    if (!c) return NULL;
    c->end = end;
    rush_lock(RUSH_LOCK_REGISTRY);
    bool there = find(c->path, strlen(c->path));
    if (!there) c->next = classes, classes = c;
    rush_unlock(RUSH_LOCK_REGISTRY);
    if (!there) return c;
    rush_fail(RUSH_RUNTIME_ERROR, "Custom class with name %s is already registered. Ensure that registration with torch::class_ is only called once.", c->path);
    rush_free(c);
    return NULL;
}

const rush_class *rush_class_find(const char *name)
{
    rush_class *path = make(name);
    const rush_class *c = path ? find(path->path, strlen(path->path)) : NULL;
    rush_free(path);
    return c;
}

const char *rush_class_path(const rush_class *c) { return c ? c->path : (rush_fail(RUSH_TYPE_ERROR, "rush_class_path: the class is NULL"), NULL); }

const rush_op *rush_class_method(const rush_class *c, const char *method)
{
    char name[256];
    const char *own = c->path + sizeof RUSH_CLASS_HEAD - 1, *dot = strchr(own, '.');
    int n = snprintf(name, sizeof name, "%.*s::%s::%s", (int)(dot - own), own, dot + 1, method);
    return n < (int)sizeof name ? rush_op_find(name) : NULL;
}

bool rush_class_any_has(const char *method)
{
    for (const rush_class *c = classes; c; c = c->next)
        if (rush_class_method(c, method)) return true;
    return false;
}

static bool given(const rush_object *o) { return rush_lives(o, "an object"); }

static void end_object(void *object)
{
    rush_object *o = object;
    if (atomic_fetch_sub(&o->refs, 1) != 1) return;
    if (o->of->end && o->data) o->of->end(o->data);
    rush_bury_handle(o, sizeof *o);
}

rush_object *rush_object_new(const rush_class *c, void *data)
{
    rush_object *o = c ? rush_malloc(sizeof *o) : NULL;
    if (!o) {
        if (c && c->end && data) c->end(data);
        return c ? NULL : (rush_fail(RUSH_TYPE_ERROR, "rush_object_new: the class is NULL"), NULL);
    }
    o->end = end_object;
    o->of = c;
    o->data = data;
    atomic_init(&o->refs, 1);
    return rush_park_object(o);
}

const rush_class *rush_object_class(const rush_object *o)
{
    return given(o) ? o->of : NULL;
}

void *rush_object_data(const rush_object *o, const rush_class *c)
{
    RUSH_CHECK_NULL(c, RUSH_TYPE_ERROR, "rush_object_data: the class is NULL");
    return given(o) && o->of == c ? o->data : NULL;
}

void rush_object_become(rush_object *o, rush_object *made)
{
    void *data = o->data;
    o->data = made->data;
    made->data = data;
}

rush_object *rush_object_keep(rush_object *o)
{
    if (o && given(o)) atomic_fetch_add_explicit(&o->refs, 1, memory_order_relaxed);
    return o;
}

void rush_object_drop(rush_object *o)
{
    if (o && given(o)) end_object(o);
}

rush_object *rush_object_park(rush_object *o) { return o && given(o) ? rush_park_object(o) : NULL; }
