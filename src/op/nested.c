/* nested.c - types inside of types, as the schemas of programs have them: Dict(str, Tensor), (str, int)[], int[][]; and classes.
 *
 * Records know one argument type and whether there is a list of it; what goes further is read here, from the schema's text, each
 * time that a value is checked or converted. None of the library's own operations has such an argument.
 */
#include "op/object.h"
#include <ctype.h>

static const struct { const char *name; uint8_t type; } names[] = {
    {"Tensor", RUSH_A_TENSOR}, {"SymInt", RUSH_A_INT}, {"int", RUSH_A_INT}, {"float", RUSH_A_FLOAT}, {"bool", RUSH_A_BOOL},
    {"Scalar", RUSH_A_SCALAR}, {"str", RUSH_A_STRING}, {"ScalarType", RUSH_A_DTYPE}, {"Device", RUSH_A_DEVICE},
    {"Layout", RUSH_A_LAYOUT}, {"MemoryFormat", RUSH_A_MEMORY_FORMAT}, {"Generator", RUSH_A_GENERATOR},
};

static const char *blank(const char *at)
{
    while (*at == ' ') ++at;
    return at;
}

/* The types in parentheses, up to behind the closing one. */
static const char *types_end(const char *at)
{
    do at = rush_type_end(blank(at + 1));
    while (at && *(at = blank(at)) == ',');
    return at && *at == ')' ? at + 1 : NULL;
}

/* Behind the path of a class that there is. */
static const char *class_end(const char *type)
{
    const char *end = rush_class_path_end(type);
    return end && rush_class_at((rush_type_text){type, (size_t)(end - type)}) ? end : NULL;
}

const char *rush_type_end(const char *type)
{
    const char *at = type;
    while (isalpha((unsigned char)*at)) ++at;
    rush_type_text name = {type, (size_t)(at - type)};
    if (*at == '(' && (!name.n || (name.n == 4 && !strncmp(type, "Dict", 4)))) at = types_end(at);
    else if (!name.n) at = class_end(type);
    else if (rush_type_plain(name) < 0) return NULL;
    while (at && (*at == '?' || *at == '[')) {
        if (*at++ == '?') continue;
        while (isdigit((unsigned char)*at)) ++at;
        at = *at == ']' ? at + 1 : NULL;
    }
    return at;
}

rush_type_form rush_type_read(rush_type_text t, rush_type_text *first)
{
    *first = t;
    if (t.n && t.at[t.n - 1] == '?') return --first->n, RUSH_TYPE_OPTIONAL;
    if (t.n && t.at[t.n - 1] == ']') {
        while (t.at[--first->n] != '[') ;
        return RUSH_TYPE_LIST;
    }
    if (!t.n || t.at[t.n - 1] != ')') return RUSH_TYPE_PLAIN;
    first->at = blank(strchr(t.at, '(') + 1);
    first->n = (size_t)(rush_type_end(first->at) - first->at);
    return *t.at == 'D' ? RUSH_TYPE_DICT : RUSH_TYPE_TUPLE;
}

bool rush_type_next(rush_type_text *inside)
{
    const char *at = blank(inside->at + inside->n);
    if (*at != ',') return false;
    inside->at = blank(at + 1);
    inside->n = (size_t)(rush_type_end(inside->at) - inside->at);
    return true;
}

int rush_type_plain(rush_type_text t)
{
    for (size_t k = 0; k < RUSH_COUNT(names); ++k)
        if (strlen(names[k].name) == t.n && !strncmp(names[k].name, t.at, t.n)) return names[k].type;
    return -1;
}

/* The i-th of what stands in parentheses that open at `at`: where its type begins. */
static const char *item(const char *at, int i)
{
    int depth = 0;
    at = blank(at + 1);
    for (;; ++at) {
        if (*at == '*') at = blank(strchr(at, ',') + 1);
        if (!i) return at;
        for (; *at && (depth || *at != ','); ++at) depth += (*at == '(' || *at == '[') - (*at == ')' || *at == ']');
        if (!*at) return NULL;
        at = blank(at + 1) - 1;
        --i;
    }
}

static rush_type_text type_at(const char *at)
{
    const char *end = at ? rush_type_end(at) : NULL;
    return (rush_type_text){at, end ? (size_t)(end - at) : 0};
}

rush_type_text rush_type_of_arg(const rush_op *op, int i)
{
    return type_at(item(strchr(op->schema, '('), i));
}

rush_type_text rush_type_of_result(const rush_op *op, int i)
{
    const char *at = strstr(op->schema, "->");
    for (const char *later; at && (later = strstr(at + 2, "->"));) at = later; /* the last one: (a -> *) may stand before */
    at = blank(at + 2);
    return type_at(op->nout > 1 ? item(at, i) : at);
}

static bool plain_fits(int type, const rush_value *v)
{
    const rush_arg a = {.type = (uint8_t)type};
    static const rush_op composite;
    return type >= 0 && rush_arg_kinds(&composite, &a) >> v->kind & 1 && (type != RUSH_A_TENSOR || (v->kind == RUSH_V_TENSOR && v->t && v->t->ndim <= RUSH_MAXDIM));
}

/* Lists of plain types are as in any call. */
static bool list_fits(rush_type_text items, const rush_value *v)
{
    rush_type_text inner;
    bool optional = rush_type_read(items, &inner) == RUSH_TYPE_OPTIONAL;
    int type = rush_type_plain(optional ? inner : items);
    if (type == RUSH_A_TENSOR) {
        bool ok = v->kind == RUSH_V_TENSORS;
        for (uint32_t k = 0; ok && k < v->n; ++k) ok = v->tensors[k] ? v->tensors[k]->ndim <= RUSH_MAXDIM : optional;
        return ok;
    }
    if (!optional && (type == RUSH_A_INT || type == RUSH_A_BOOL)) return v->kind == RUSH_V_INTS;
    if (!optional && type == RUSH_A_FLOAT) return v->kind == RUSH_V_FLOATS;
    bool ok = v->kind == RUSH_V_VALUES;
    for (uint32_t k = 0; ok && k < v->n; ++k) ok = rush_type_fits(items, &v->values[k]);
    return ok;
}

bool rush_type_fits(rush_type_text t, const rush_value *v)
{
    rush_type_text inside, second;
    rush_type_form form = rush_type_read(t, &inside);
    uint32_t k = 0;
    switch (form) {
    case RUSH_TYPE_OPTIONAL: return v->kind == RUSH_V_NONE || rush_type_fits(inside, v);
    case RUSH_TYPE_LIST: return list_fits(inside, v);
    case RUSH_TYPE_TUPLE:
        if (v->kind != RUSH_V_VALUES) return false;
        do {
            if (k == v->n || !rush_type_fits(inside, &v->values[k++])) return false;
        } while (rush_type_next(&inside));
        return k == v->n;
    case RUSH_TYPE_DICT:
        second = inside;
        if (v->kind != RUSH_V_VALUES || v->n % 2 || !rush_type_next(&second)) return false;
        for (; k < v->n; k += 2)
            if (!rush_type_fits(inside, &v->values[k]) || !rush_type_fits(second, &v->values[k + 1])) return false;
        return true;
    default: return v->kind == RUSH_V_OBJECT ? v->object && rush_object_class(v->object) == rush_class_at(t) : plain_fits(rush_type_plain(t), v);
    }
}
