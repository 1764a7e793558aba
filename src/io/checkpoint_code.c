/* checkpoint_code.c - the classes of an archive of TorchScript that has no functions, as libtorch's torch::save writes it: of each object
 * which attributes it has and of what type.
 *
 * Objects are numbered in the order in which the pickle has them. The outermost one's class is __torch__.Module, the others' are
 * __torch__.___torch_mangle_0.Module and so on.
 */
#include "io/content.h"
#include "io/zip.h"

#include <ctype.h>
#include <stdio.h>

#define DEEPEST 200

typedef struct code {
    rush_zip_writer *zip;
    const char *root;
    uint32_t objects;
} code;

typedef struct text {
    char *p;
    size_t n, room;
} text;

int rush_content_class(char *to, size_t room, uint32_t number)
{
    int n = number ? snprintf(to, room, "__torch__.___torch_mangle_%u", number - 1) : snprintf(to, room, "__torch__");
    return n > 0 && (size_t)n < room ? 0 : rush_fail(RUSH_VALUE_ERROR, "there are too many objects");
}

static int add(text *t, const char *s)
{
    size_t n = strlen(s);
    if (t->room - t->n <= n) {
        size_t room = RUSH_MAX(2 * t->room, t->n + n + 1000);
        char *more = rush_realloc(t->p, room);
        if (!more) return -1;
        t->p = more;
        t->room = room;
    }
    memcpy(t->p + t->n, s, n + 1);
    t->n += n;
    return 0;
}

static bool is_word(const char *s)
{
    if (!isalpha((unsigned char)*s) && *s != '_') return false;
    while (isalnum((unsigned char)*s) || *s == '_') ++s;
    return !*s;
}

static int add_type(text *t, const rush_content *x)
{
    switch (x->kind) {
    case RUSH_CONTENT_NONE: return add(t, "NoneType");
    case RUSH_CONTENT_BOOL: return add(t, "bool");
    case RUSH_CONTENT_INT: return add(t, "int");
    case RUSH_CONTENT_FLOAT: return add(t, "float");
    case RUSH_CONTENT_TEXT: return add(t, "str");
    case RUSH_CONTENT_TENSOR: return add(t, "Tensor");
    case RUSH_CONTENT_LIST:
        if (add(t, "List[") || (x->n ? add_type(t, x->items[0]) : add(t, "Tensor"))) return -1;
        return add(t, "]");
    case RUSH_CONTENT_TUPLE:
        if (add(t, "Tuple[")) return -1;
        for (size_t i = 0; i < x->n; ++i)
            if ((i && add(t, ", ")) || add_type(t, x->items[i])) return -1;
        return add(t, "]");
    default: return rush_fail(RUSH_NOT_IMPLEMENTED, "an archive of TorchScript has no such value");
    }
}

/* The line of all tensors that are parameters, or are none. */
static int add_names(text *t, const rush_content *x, const char *title, bool parameters)
{
    if (add(t, "  ") || add(t, title) || add(t, " = [")) return -1;
    for (size_t i = 0; i < x->n; i += 2)
        if (x->items[i + 1]->kind == RUSH_CONTENT_TENSOR && x->items[i + 1]->parameter == parameters)
            if (add(t, "\"") || add(t, x->items[i]->s) || add(t, "\", ")) return -1;
    return add(t, "]\n");
}

static int put_class(code *c, const rush_content *x, int depth);

static int add_attribute(code *c, text *t, const char *name, const rush_content *x, bool words, int depth)
{
    char type[64];
    if (words ? add(t, "  ") || add(t, name) || add(t, " : ") : add(t, "  __annotations__[\"") || add(t, name) || add(t, "\"] = ")) return -1;
    if (x->kind != RUSH_CONTENT_DICT || !x->type) return add_type(t, x) || add(t, "\n");
    if (rush_content_class(type, sizeof type, c->objects)) return -1;
    return add(t, type) || add(t, ".Module\n") || put_class(c, x, depth + 1);
}

static int add_attributes(code *c, text *t, const rush_content *x, int depth)
{
    bool words = true;
    if (add(t, "class Module(Module):\n") || add_names(t, x, "__parameters__", true) || add_names(t, x, "__buffers__", false)) return -1;
    for (size_t i = 0; i < x->n; i += 2) {
        const rush_content *name = x->items[i];
        RUSH_CHECK(name->kind == RUSH_CONTENT_TEXT && name->n && !strpbrk(name->s, "\"\\\n"), RUSH_VALUE_ERROR, "attributes need a name without quotes");
        words &= is_word(name->s);
    }
    if (!words && add(t, "  __annotations__ = []\n")) return -1;
    for (size_t i = 0; i < x->n; i += 2)
        if (add_attribute(c, t, x->items[i]->s, x->items[i + 1], words || is_word(x->items[i]->s), depth)) return -1;
    return 0;
}

/* The class of object number c->objects, and of those in it. */
static int put_class(code *c, const rush_content *x, int depth)
{
    char name[300];
    text t = {0};
    RUSH_CHECK(depth < DEEPEST, RUSH_VALUE_ERROR, "modules are nested too deeply");
    uint32_t number = c->objects++;
    if (number) snprintf(name, sizeof name, "%s/code/__torch__/___torch_mangle_%u.py", c->root, number - 1);
    else snprintf(name, sizeof name, "%s/code/__torch__.py", c->root);
    int failed = add_attributes(c, &t, x, depth) || rush_zip_add(c->zip, name, t.p, t.n);
    rush_free(t.p);
    return failed ? -1 : 0;
}

int rush_content_code(const rush_content *x, const char *root, rush_zip_writer *zip)
{
    return put_class(&(code){.zip = zip, .root = root}, x, 0);
}
