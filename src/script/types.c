/* types.c - the language's types, which signatures and isinstance() name: whether a value is of one, and what a caller gives as one. */
#include "script/script.h"

#include <stdio.h>

static const struct { const char *name; uint8_t kind; } kinds[] = {
    {"int", SCRIPT_INT}, {"float", SCRIPT_FLOAT}, {"bool", SCRIPT_BOOL}, {"str", SCRIPT_TEXT}, {"complex", SCRIPT_COMPLEX}, {"Tensor", SCRIPT_TENSOR}, {"torch.Tensor", SCRIPT_TENSOR},
    {"NoneType", SCRIPT_NONE}, {"None", SCRIPT_NONE}, {"List", SCRIPT_LIST}, {"list", SCRIPT_LIST}, {"Tuple", SCRIPT_TUPLE}, {"tuple", SCRIPT_TUPLE}, {"Dict", SCRIPT_DICT},
    {"dict", SCRIPT_DICT}, {"Device", SCRIPT_DEVICE}, {"torch.device", SCRIPT_DEVICE}};

static bool is_named_type(script_value v, const char *t, const script_unit *u)
{
    for (size_t i = 0; i < RUSH_COUNT(kinds); ++i)
        if (!strcmp(kinds[i].name, t)) return v.kind == kinds[i].kind;
    if (!strcmp(t, "Any")) return true;
    if (!strcmp(t, "number") || !strcmp(t, "Scalar")) return script_is_number(v);
    if (v.kind == SCRIPT_FOREIGN) return !strcmp(t, rush_script_kind_name(v));
    const script_class *c = rush_script_class_find(u, t);
    return c && (v.kind == SCRIPT_OBJECT || v.kind == SCRIPT_TUPLE) && v.box->type == c;
}

/* The text of a dotted name whose parts are still nodes. */
static const char *type_name(const script_node *t, char *room, size_t n)
{
    if (t->op == SCRIPT_N_CONSTANT && t->constant.kind == SCRIPT_NONE) return "NoneType";
    if (t->op != SCRIPT_N_ATTRIBUTE) return t->name ? t->name : "";
    char inner[400];
    snprintf(room, n, "%.380s.%.100s", type_name(t->kid[0], inner, sizeof inner), t->name);
    return room;
}

bool rush_script_is_type(script_value v, const script_node *t, const script_unit *u)
{
    char room[512];
    if (t->op == SCRIPT_N_LIST || t->op == SCRIPT_N_TUPLE) { /* one of several */
        for (uint32_t i = 0; i < t->n; ++i)
            if (rush_script_is_type(v, t->kid[i], u)) return true;
        return false;
    }
    if (t->op != SCRIPT_N_INDEX) return is_named_type(v, type_name(t, room, sizeof room), u);
    const char *of = type_name(t->kid[0], room, sizeof room);
    const script_node *inner = t->kid[1];
    if (!strcmp(of, "Optional")) return v.kind == SCRIPT_NONE || rush_script_is_type(v, inner, u);
    if (!strcmp(of, "Union")) return rush_script_is_type(v, inner, u);
    if (!is_named_type(v, of, u)) return false;
    if (v.kind == SCRIPT_LIST) {
        for (size_t i = 0; i < v.box->n; ++i)
            if (!rush_script_is_type(v.box->item[i], inner, u)) return false;
        return true;
    }
    if (v.kind == SCRIPT_TUPLE && inner->op == SCRIPT_N_TUPLE) {
        bool all = v.box->n == inner->n;
        for (size_t i = 0; all && i < v.box->n; ++i) all = rush_script_is_type(v.box->item[i], inner->kid[i], u);
        return all;
    }
    if (v.kind == SCRIPT_DICT && inner->op == SCRIPT_N_TUPLE && inner->n == 2)
        for (size_t i = 0; i < v.box->n; ++i)
            if (!rush_script_is_type(v.box->item[i], inner->kid[i % 2], u)) return false;
    return true;
}

/* ---- what a caller gives ---- */

/* A type as people write it, in `room` bytes. */
static void write_type(const script_node *t, char *to, size_t room)
{
    if (!room) return;
    if (t->op == SCRIPT_N_INDEX || t->op == SCRIPT_N_TUPLE || t->op == SCRIPT_N_LIST) {
        char part[200];
        const bool index = t->op == SCRIPT_N_INDEX;
        size_t n = 0;
        *to = 0;
        for (uint32_t i = 0; i < t->n && n < room; ++i) {
            write_type(t->kid[i], part, sizeof part);
            n += (size_t)snprintf(to + n, room - n, "%s%s", !i ? "" : index ? "[" : ", ", part);
        }
        if (index && n < room) snprintf(to + n, room - n, "]");
        return;
    }
    char name[512];
    snprintf(to, room, "%s", type_name(t, name, sizeof name));
}

static bool replace(script_value *v, script_value by) { return rush_script_drop(*v), *v = by, true; }

/* The value that a function of the language makes of it. */
static bool made_by(const char *name, script_value *v)
{
    script_call c = {.name = name, .n = 1, .in = v};
    script_value made;
    return !rush_script_builtin_find(name)(&c, &made) && replace(v, made);
}

/* Numbers are made of numbers, and of tensors with one element; an int is not made of a float. */
static bool fit_number(const char *name, script_value *v)
{
    const bool whole = !strcmp(name, "int"), truth = !strcmp(name, "bool");
    if (truth && v->kind == SCRIPT_NONE) return replace(v, script_of_bool(false));
    const bool tensor = v->kind == SCRIPT_TENSOR;
    if (tensor && (v->t->numel != 1 || !made_by("item", v))) return false;
    if (!script_is_number(*v) || (v->kind == SCRIPT_COMPLEX && !truth && strcmp(name, "complex"))) return false;
    if (whole) return v->kind == SCRIPT_FLOAT ? tensor && made_by("int", v) : replace(v, script_of_int(v->i));
    if (truth) return replace(v, script_of_bool(rush_script_truth(*v) == 1));
    if (*name == 'f') return replace(v, script_of_float(rush_script_double(*v)));
    return v->kind == SCRIPT_COMPLEX || replace(v, (script_value){.kind = SCRIPT_COMPLEX, .c = {rush_script_double(*v), 0}});
}

static bool fit(const script_unit *u, const script_node *t, script_value *v);

static bool fit_name(const script_unit *u, const char *name, script_value *v)
{
    static const char *const free[] = {"Any", "Future", "Generator", "function"};
    if (!strcmp(name, "Tensor")) return v->kind == SCRIPT_TENSOR || v->kind == SCRIPT_NONE;
    if (!strcmp(name, "int") || !strcmp(name, "float") || !strcmp(name, "bool") || !strcmp(name, "complex")) return fit_number(name, v);
    if (!strcmp(name, "str")) return v->kind == SCRIPT_TEXT;
    if (!strcmp(name, "Device") || !strcmp(name, "torch.device")) return v->kind == SCRIPT_TEXT ? made_by("device", v) : v->kind == SCRIPT_DEVICE;
    for (size_t i = 0; i < RUSH_COUNT(free); ++i)
        if (!strcmp(free[i], name)) return true;
    if (rush_class_path_end(name)) return v->kind == SCRIPT_FOREIGN && !strcmp(name, rush_script_kind_name(*v));
    const script_class *c = rush_script_class_find(u, name);
    if (!c || c->is_enum || c->is_interface) return true; /* types that a value does not tell of */
    if (!c->is_tuple) return v->kind == SCRIPT_OBJECT;
    if ((v->kind != SCRIPT_TUPLE && v->kind != SCRIPT_LIST) || v->box->n != c->nfields) return false;
    script_value made = rush_script_list(SCRIPT_TUPLE, v->box->n, v->box->item);
    if (made.kind == SCRIPT_UNSET) return false;
    made.box->type = c;
    replace(v, made);
    for (uint32_t i = 0; i < c->nfields; ++i)
        if (c->field[i].type && !fit(u, c->field[i].type, &made.box->item[i])) return false;
    return true;
}

/* Whether values tell if they are of a type: not of enumerations, nor of what the program doesn't have. */
static bool is_told(const script_unit *u, const script_node *t)
{
    char room[512];
    const char *name = type_name(t->op == SCRIPT_N_INDEX ? t->kid[0] : t, room, sizeof room);
    for (size_t i = 0; i < RUSH_COUNT(kinds); ++i)
        if (!strcmp(kinds[i].name, name)) return true;
    const script_class *c = rush_script_class_find(u, name);
    return !strcmp(name, "Optional") || !strcmp(name, "Union") || (c && !c->is_enum && !c->is_interface);
}

static bool fit_one(const script_unit *u, const script_node *of, script_value v)
{
    if (of->op != SCRIPT_N_TUPLE) return rush_script_is_type(v, of, u) || !is_told(u, of);
    for (uint32_t i = 0; i < of->n; ++i)
        if (fit_one(u, of->kid[i], v)) return true;
    return false;
}

bool rush_script_may_be(script_value v, const script_node *of, const script_unit *u) { return fit_one(u, of, v); }

/* Whether a value may be given where the type is said; it becomes of that type, its items in their places. */
static bool fit(const script_unit *u, const script_node *t, script_value *v)
{
    char room[512];
    if (t->op != SCRIPT_N_INDEX) return fit_name(u, type_name(t, room, sizeof room), v);
    const char *of = type_name(t->kid[0], room, sizeof room);
    const script_node *inner = t->kid[1];
    if (!strcmp(of, "Optional")) return v->kind == SCRIPT_NONE || fit(u, inner, v);
    if (!strcmp(of, "Union")) return fit_one(u, inner, *v);
    const bool list = !strcmp(of, "List"), tuple = !strcmp(of, "Tuple"), several = inner->op == SCRIPT_N_TUPLE;
    if (!strcmp(of, "Dict")) {
        if (v->kind != SCRIPT_DICT) return false;
        for (size_t i = 0; several && i < v->box->n; ++i)
            if (!fit(u, inner->kid[i % 2], &v->box->item[i])) return false;
        return true;
    }
    if (!list && !tuple) return true;
    if (v->kind != SCRIPT_LIST && v->kind != SCRIPT_TUPLE) return false;
    if (tuple && v->box->n != (several ? inner->n : 1)) return false;
    const int kind = list ? SCRIPT_LIST : SCRIPT_TUPLE;
    if (v->kind != kind || v->box->type) {
        script_value made = rush_script_list(kind, v->box->n, v->box->item);
        if (made.kind == SCRIPT_UNSET) return false;
        replace(v, made);
    }
    for (size_t i = 0; i < v->box->n; ++i)
        if (!fit(u, tuple && several ? inner->kid[i] : inner, &v->box->item[i])) return false;
    return true;
}

int rush_script_fit(const script_unit *u, const script_function *f, uint32_t at, script_value *v)
{
    static const char *const python[] = {[SCRIPT_NONE] = "NoneType", [SCRIPT_DEVICE] = "torch.device", [SCRIPT_LIST] = "list", [SCRIPT_TUPLE] = "tuple", [SCRIPT_DICT] = "dict"};
    const script_param *p = &f->param[at];
    if (p->type ? fit(u, p->type, v) : p->standard || v->kind == SCRIPT_TENSOR || v->kind == SCRIPT_NONE) return 0;
    if (rush_failed()) return -1;
    char type[400] = "Tensor (inferred)";
    if (p->type) write_type(p->type, type, sizeof type);
    script_value text = rush_script_print(*v, true);
    if (text.kind == SCRIPT_UNSET) return -1;
    rush_fail(RUSH_RUNTIME_ERROR, "%s() Expected a value of type '%s' for argument '%s' but instead found type '%s'.\n%s%s%sPosition: %u\nValue: %.400s", f->name, type, p->name,
              v->kind < RUSH_COUNT(python) && python[v->kind] ? python[v->kind] : rush_script_kind_name(*v), p->type ? "" : "Inferred '", p->type ? "" : p->name,
              p->type ? "" : "' to be of type 'Tensor' because it was not annotated with an explicit type.\n", (unsigned)at, text.box->text);
    return rush_script_drop(text), -1;
}
