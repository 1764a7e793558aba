/* value.c - the values of programs: numbers and tensors as they are, everything else in counted boxes. */
#include "script/script.h"
#include "nn/module.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>

script_value rush_script_keep(script_value v)
{
    if (v.kind == SCRIPT_TENSOR) rush_keep(v.t);
    else if (v.kind == SCRIPT_FOREIGN) rush_object_keep(v.object);
    else if (script_is_boxed(v)) atomic_fetch_add(&v.box->refs, 1);
    return v;
}

static void end_box(script_box *b)
{
    for (size_t i = 0; b->item && i < b->n; ++i) rush_script_drop(b->item[i]);
    rush_free(b->item);
    rush_free(b->text);
    rush_free(b);
}

void rush_script_drop(script_value v)
{
    if (v.kind == SCRIPT_TENSOR) rush_drop(v.t);
    else if (v.kind == SCRIPT_FOREIGN) rush_object_drop(v.object);
    else if (script_is_boxed(v) && atomic_fetch_sub(&v.box->refs, 1) == 1) end_box(v.box);
}

script_value rush_script_of_tensor(rush_tensor *t) { return t ? (script_value){.kind = SCRIPT_TENSOR, .t = rush_keep(t)} : SCRIPT_NOTHING; }

script_value rush_script_of_object(rush_object *o) { return o ? (script_value){.kind = SCRIPT_FOREIGN, .object = rush_object_keep(o)} : SCRIPT_NOTHING; }

static script_value box(int kind)
{
    script_box *b = rush_calloc(1, sizeof *b);
    if (!b) return (script_value){.kind = SCRIPT_UNSET};
    atomic_init(&b->refs, 1);
    b->kind = (uint8_t)kind;
    return (script_value){.kind = (uint8_t)kind, .box = b};
}

script_value rush_script_text(const char *s, size_t n)
{
    script_value v = box(SCRIPT_TEXT);
    if (v.kind == SCRIPT_UNSET) return v;
    if (!(v.box->text = rush_malloc(n + 1))) return rush_script_drop(v), (script_value){.kind = SCRIPT_UNSET};
    if (n) memcpy(v.box->text, s, n);
    v.box->text[v.box->n = n] = 0;
    return v;
}

static int grow(script_box *b, size_t more)
{
    if (b->n + more <= b->room) return 0;
    size_t room = RUSH_MAX(b->room * 2, RUSH_MAX(b->n + more, (size_t)4));
    script_value *item = rush_realloc(b->item, room * sizeof *item);
    if (!item) return -1;
    b->item = item;
    b->room = room;
    return 0;
}

script_value rush_script_list(int kind, size_t n, const script_value *items)
{
    script_value v = box(kind);
    if (v.kind == SCRIPT_UNSET) return v;
    if (n && grow(v.box, n)) return rush_script_drop(v), (script_value){.kind = SCRIPT_UNSET};
    for (size_t i = 0; i < n; ++i) v.box->item[v.box->n++] = rush_script_keep(items[i]);
    return v;
}

script_value rush_script_dict(void) { return box(SCRIPT_DICT); }

script_value rush_script_object(const script_class *type)
{
    script_value v = box(SCRIPT_OBJECT);
    if (v.kind == SCRIPT_UNSET) return v;
    if (type->nslots && grow(v.box, type->nslots)) return rush_script_drop(v), (script_value){.kind = SCRIPT_UNSET};
    for (uint32_t i = 0; i < type->nslots; ++i) v.box->item[v.box->n++] = (script_value){.kind = SCRIPT_UNSET};
    v.box->type = type;
    return v;
}

int rush_script_append(script_box *list, script_value v)
{
    if (grow(list, 1)) return -1;
    list->item[list->n++] = rush_script_keep(v);
    return 0;
}

void rush_script_remove(script_box *b, size_t from, size_t n)
{
    for (size_t i = from; i < from + n; ++i) rush_script_drop(b->item[i]);
    memmove(b->item + from, b->item + from + n, (b->n - from - n) * sizeof *b->item);
    b->n -= n;
}

static bool is_key(script_value a, script_value b)
{
    if (a.kind == SCRIPT_TEXT) return b.kind == SCRIPT_TEXT && a.box->n == b.box->n && !memcmp(a.box->text, b.box->text, a.box->n);
    if (a.kind == SCRIPT_TENSOR || b.kind == SCRIPT_TENSOR) return a.kind == b.kind && a.t == b.t;
    if (a.kind == SCRIPT_TUPLE && b.kind == SCRIPT_TUPLE) {
        bool same = a.box->n == b.box->n;
        for (size_t i = 0; same && i < a.box->n; ++i) same = is_key(a.box->item[i], b.box->item[i]);
        return same;
    }
    return script_is_number(a) && script_is_number(b) && rush_script_double(a) == rush_script_double(b);
}

script_value *rush_script_dict_at(const script_box *dict, script_value key)
{
    for (size_t i = 0; i + 1 < dict->n; i += 2)
        if (is_key(dict->item[i], key)) return &dict->item[i + 1];
    return NULL;
}

int rush_script_dict_set(script_box *dict, script_value key, script_value v)
{
    script_value *at = rush_script_dict_at(dict, key);
    if (at) {
        script_value old = *at;
        *at = rush_script_keep(v);
        rush_script_drop(old);
        return 0;
    }
    if (grow(dict, 2)) return -1;
    return rush_script_append(dict, key) || rush_script_append(dict, v) ? -1 : 0;
}

double rush_script_double(script_value v) { return v.kind == SCRIPT_FLOAT ? v.f : v.kind == SCRIPT_COMPLEX ? v.c[0] : (double)v.i; }

const char *rush_script_kind_name(script_value v)
{
    static const char *const names[] = {"nothing", "None", "bool", "int", "float", "complex", "Tensor", "Device", "Generator", "...", "function", "object",
                                        "str", "List", "Tuple", "Dict", "object", "slice", "range"};
    if (v.kind == SCRIPT_OBJECT && v.box->type) return v.box->type->path;
    if (v.kind == SCRIPT_FOREIGN) return rush_class_path(rush_object_class(v.object));
    return v.kind < RUSH_COUNT(names) ? names[v.kind] : "?";
}

int rush_script_truth(script_value v)
{
    switch (v.kind) {
    case SCRIPT_NONE: return 0;
    case SCRIPT_BOOL: case SCRIPT_INT: return v.i != 0;
    case SCRIPT_FLOAT: return v.f != 0;
    case SCRIPT_COMPLEX: return v.c[0] != 0 || v.c[1] != 0;
    case SCRIPT_TEXT: case SCRIPT_LIST: case SCRIPT_TUPLE: case SCRIPT_DICT: return v.box->n > 0;
    case SCRIPT_TENSOR: {
        RUSH_CHECK(v.t->numel == 1, RUSH_RUNTIME_ERROR, "Boolean value of Tensor with %s value%s is ambiguous", v.t->numel ? "more than one" : "no", v.t->numel ? "" : "s");
        double d = rush_item(v.t);
        return rush_failed() ? -1 : d != 0;
    }
    case SCRIPT_OBJECT: {
        script_value own;
        int r = rush_script_special(v, "__bool__", 0, NULL, &own);
        if (r == SCRIPT_NOT_MINE) return 1;
        if (r) return -1;
        r = own.kind == SCRIPT_BOOL ? (int)own.i : rush_fail(RUSH_TYPE_ERROR, "__bool__ gave a %s", rush_script_kind_name(own));
        return rush_script_drop(own), r;
    }
    default: return rush_fail(RUSH_RUNTIME_ERROR, "a condition is a %s", rush_script_kind_name(v));
    }
}

int rush_script_same_items(script_value a, script_value b)
{
    if (a.box->n != b.box->n) return 0;
    for (size_t i = 0; i < a.box->n; ++i) {
        int same = rush_script_same(a.box->item[i], b.box->item[i]);
        if (same != 1) return same;
    }
    return 1;
}

int rush_script_same(script_value a, script_value b)
{
    if (a.kind == SCRIPT_COMPLEX || b.kind == SCRIPT_COMPLEX)
        return script_is_number(a) && script_is_number(b) && rush_script_double(a) == rush_script_double(b) && (a.kind == SCRIPT_COMPLEX ? a.c[1] : 0) == (b.kind == SCRIPT_COMPLEX ? b.c[1] : 0);
    if (script_is_number(a) && script_is_number(b)) return a.kind == SCRIPT_FLOAT || b.kind == SCRIPT_FLOAT ? rush_script_double(a) == rush_script_double(b) : a.i == b.i;
    if (a.kind != b.kind) return 0;
    switch (a.kind) {
    case SCRIPT_NONE: return 1;
    case SCRIPT_DEVICE: return a.device.type == b.device.type && (a.device.index == b.device.index || a.device.type == RUSH_CPU);
    case SCRIPT_TEXT: return is_key(a, b);
    case SCRIPT_TENSOR: {
        rush_value out, in[2] = {rush_v_tensor(a.t), rush_v_tensor(b.t)};
        rush_op *op = rush_op_find("equal");
        return !op || rush_call(op, in, &out) ? -1 : out.i != 0;
    }
    case SCRIPT_LIST: case SCRIPT_TUPLE: return rush_script_same_items(a, b);
    case SCRIPT_DICT:
        if (a.box->n != b.box->n) return 0;
        for (size_t i = 0; i + 1 < a.box->n; i += 2) {
            script_value *at = rush_script_dict_at(b.box, a.box->item[i]);
            int same = at ? rush_script_same(a.box->item[i + 1], *at) : 0;
            if (same != 1) return same;
        }
        return 1;
    case SCRIPT_OBJECT: {
        script_value own;
        int r = rush_script_special(a, "__eq__", 1, &b, &own);
        if (r == SCRIPT_NOT_MINE) return a.box == b.box;
        if (r) return -1;
        r = rush_script_truth(own);
        return rush_script_drop(own), r;
    }
    case SCRIPT_FUNCTION: return a.call == b.call;
    default: return script_is_boxed(a) && a.box == b.box;
    }
}

int rush_script_order(script_value a, script_value b, int *order)
{
    if (script_is_number(a) && script_is_number(b)) {
        if (a.kind == SCRIPT_FLOAT || b.kind == SCRIPT_FLOAT) {
            double x = rush_script_double(a), y = rush_script_double(b);
            *order = x < y ? -1 : x > y ? 1 : x == y ? 0 : 2; /* 2: not a number */
        } else *order = (a.i > b.i) - (a.i < b.i);
        return 0;
    }
    if (a.kind == SCRIPT_TEXT && b.kind == SCRIPT_TEXT) return *order = strcmp(a.box->text, b.box->text), 0;
    if (a.kind == b.kind && (a.kind == SCRIPT_LIST || a.kind == SCRIPT_TUPLE)) {
        for (size_t i = 0; i < a.box->n && i < b.box->n; ++i)
            if (rush_script_order(a.box->item[i], b.box->item[i], order) || *order) return rush_failed() ? -1 : 0;
        *order = (a.box->n > b.box->n) - (a.box->n < b.box->n);
        return 0;
    }
    script_value own;
    const int r = rush_script_special(a, "__lt__", 1, &b, &own);
    if (r < 0) return -1;
    if (!r) {
        const int less = rush_script_truth(own);
        rush_script_drop(own);
        if (less) return *order = -1, less < 0 ? -1 : 0;
        const int same = rush_script_same(a, b);
        return *order = same != 1, same < 0 ? -1 : 0;
    }
    return rush_fail(RUSH_TYPE_ERROR, "a %s and a %s cannot be put in order", rush_script_kind_name(a), rush_script_kind_name(b));
}

/* ---- numbers of dtypes and layouts ---- */

static const int8_t dtypes[] = {RUSH_U8, RUSH_I8, RUSH_I16, RUSH_I32, RUSH_I64, RUSH_F16, RUSH_F32, RUSH_F64, RUSH_C32, RUSH_C64, RUSH_C128, RUSH_BOOL,
                                RUSH_QINT8, RUSH_QUINT8, RUSH_QINT32, RUSH_BF16, -1, -1, -1, -1, -1, -1, -1, RUSH_F8E5M2, RUSH_F8E4M3FN, RUSH_F8E5M2FNUZ,
                                RUSH_F8E4M3FNUZ, RUSH_U16, RUSH_U32, RUSH_U64};

int rush_script_dtype_of(int64_t code) { return code >= 0 && code < (int64_t)RUSH_COUNT(dtypes) ? dtypes[code] : -1; }

int rush_script_dtype_code(int dtype)
{
    for (size_t i = 0; i < RUSH_COUNT(dtypes); ++i)
        if (dtypes[i] == dtype) return (int)i;
    return -1;
}

static const int8_t layouts[] = {RUSH_STRIDED, RUSH_SPARSE_COO, RUSH_SPARSE_CSR, -1, RUSH_SPARSE_CSC, RUSH_SPARSE_BSR, RUSH_SPARSE_BSC};

int rush_script_layout_of(int64_t code) { return code >= 0 && code < (int64_t)RUSH_COUNT(layouts) ? layouts[code] : -1; }

int rush_script_layout_code(int layout)
{
    for (size_t i = 0; i < RUSH_COUNT(layouts); ++i)
        if (layouts[i] == layout) return (int)i;
    return -1;
}

/* ---- as text ---- */

typedef struct writer { char *p; size_t n, room; bool failed; } writer;

static void put(writer *w, const char *s, size_t n)
{
    if (w->failed) return;
    if (w->n + n + 1 > w->room) {
        size_t room = RUSH_MAX(w->room * 2, w->n + n + 64);
        char *p = rush_realloc(w->p, room);
        if (!p) { w->failed = true; return; }
        w->p = p;
        w->room = room;
    }
    if (n) memcpy(w->p + w->n, s, n);
    w->p[w->n += n] = 0;
}

static void put_text(writer *w, const char *s) { put(w, s, strlen(s)); }

static void put_float(writer *w, double f)
{
    char text[40];
    if (isnan(f)) { put_text(w, "nan"); return; }
    if (isinf(f)) { put_text(w, f < 0 ? "-inf" : "inf"); return; }
    for (int digits = 1; digits <= 17; ++digits) { /* the shortest that reads back as the same */
        rush_snprintf(text, sizeof text, "%.*g", digits, f);
        if (rush_strtod(text, NULL) == f) break;
    }
    char *e = strchr(text, 'e');
    if (e && fabs(f) >= 1e-4 && fabs(f) < 1e16) snprintf(text, sizeof text, "%.0f", f);
    put_text(w, text);
    if (!strpbrk(text, ".en")) put_text(w, ".0");
}

static void write_value(writer *w, script_value v, bool quoted, int depth);

static void write_items(writer *w, const script_box *b, const char *open, const char *close, bool pairs, int depth)
{
    put_text(w, open);
    for (size_t i = 0; i < b->n; ++i) {
        if (i) put_text(w, pairs && i % 2 ? ": " : ", ");
        write_value(w, b->item[i], true, depth);
    }
    if (b->kind == SCRIPT_TUPLE && b->n == 1) put_text(w, ",");
    put_text(w, close);
}

static void write_value(writer *w, script_value v, bool quoted, int depth)
{
    char text[64];
    if (depth > 50) { put_text(w, "..."); return; }
    switch (v.kind) {
    case SCRIPT_NONE: put_text(w, "None"); return;
    case SCRIPT_BOOL: put_text(w, v.i ? "True" : "False"); return;
    case SCRIPT_INT: snprintf(text, sizeof text, "%lld", (long long)v.i); put_text(w, text); return;
    case SCRIPT_FLOAT: put_float(w, v.f); return;
    case SCRIPT_COMPLEX: put_text(w, "("); put_float(w, v.c[0]); put_text(w, v.c[1] < 0 ? "" : "+"); put_float(w, v.c[1]); put_text(w, "j)"); return;
    case SCRIPT_DEVICE: snprintf(text, sizeof text, v.device.index < 0 ? "%s" : "%s:%d", rush_device_name(v.device.type), v.device.index); put_text(w, text); return;
    case SCRIPT_TEXT:
        if (quoted) put_text(w, "'");
        put(w, v.box->text, v.box->n);
        if (quoted) put_text(w, "'");
        return;
    case SCRIPT_LIST: write_items(w, v.box, "[", "]", false, depth + 1); return;
    case SCRIPT_TUPLE: write_items(w, v.box, "(", ")", false, depth + 1); return;
    case SCRIPT_DICT: write_items(w, v.box, "{", "}", true, depth + 1); return;
    case SCRIPT_TENSOR: {
        size_t n = rush_tensor_format(v.t, NULL, 0);
        char *p = rush_malloc(n + 1);
        if (!p) { w->failed = true; return; }
        rush_tensor_format(v.t, p, n + 1);
        put(w, p, n);
        rush_free(p);
        return;
    }
    default: put_text(w, rush_script_kind_name(v));
    }
}

script_value rush_script_print(script_value v, bool quoted)
{
    writer w = {0};
    write_value(&w, v, quoted, 0);
    script_value text = w.failed ? (script_value){.kind = SCRIPT_UNSET} : rush_script_text(w.p ? w.p : "", w.n);
    rush_free(w.p);
    return text;
}

/* ---- results of operations ---- */

static script_value from_nested(rush_type_text, rush_value);

/* Of one type, of several in turn, or keys and values. */
static script_value from_items(rush_type_form form, rush_type_text type, rush_value v)
{
    rush_type_text other = type;
    script_value made = form == RUSH_TYPE_DICT ? rush_script_dict() : rush_script_list(form == RUSH_TYPE_LIST ? SCRIPT_LIST : SCRIPT_TUPLE, 0, NULL);
    if (form == RUSH_TYPE_DICT) rush_type_next(&other);
    for (uint32_t i = 0; made.kind != SCRIPT_UNSET && i < v.n; ++i) {
        script_value x = from_nested(form == RUSH_TYPE_DICT && i % 2 ? other : type, v.values[i]);
        int failed = x.kind == SCRIPT_UNSET || rush_script_append(made.box, x);
        rush_script_drop(x);
        if (failed) return rush_script_drop(made), (script_value){.kind = SCRIPT_UNSET};
        if (form == RUSH_TYPE_TUPLE) rush_type_next(&type);
    }
    return made;
}

static script_value from_nested(rush_type_text type, rush_value v)
{
    rush_type_text inside;
    rush_type_form form = rush_type_read(type, &inside);
    if (form == RUSH_TYPE_OPTIONAL) return from_nested(inside, v);
    return v.kind == RUSH_V_VALUES ? from_items(form, inside, v) : rush_script_from_rush(NULL, 0, v);
}

script_value rush_script_from_rush(const rush_op *op, int result, rush_value v)
{
    script_value list;
    switch (v.kind) {
    case RUSH_V_OBJECT: return rush_script_of_object(v.object);
    case RUSH_V_VALUES: return from_nested(rush_type_of_result(op, result), v);
    case RUSH_V_TENSOR: return rush_script_of_tensor(v.t);
    case RUSH_V_INT: return script_of_int(v.i);
    case RUSH_V_BOOL: return script_of_bool(v.i);
    case RUSH_V_FLOAT: return script_of_float(v.f);
    case RUSH_V_COMPLEX: return (script_value){.kind = SCRIPT_COMPLEX, .c = {v.c[0], v.c[1]}};
    case RUSH_V_DTYPE: return script_of_int(rush_script_dtype_code((int)v.i));
    case RUSH_V_LAYOUT: return script_of_int(rush_script_layout_code((int)v.i));
    case RUSH_V_MEMORY_FORMAT: return script_of_int(v.i);
    case RUSH_V_DEVICE: return (script_value){.kind = SCRIPT_DEVICE, .device = v.device};
    case RUSH_V_STRING: return rush_script_text(v.s, strlen(v.s));
    case RUSH_V_INTS: case RUSH_V_FLOATS: case RUSH_V_TENSORS:
        list = rush_script_list(SCRIPT_LIST, 0, NULL);
        for (uint32_t i = 0; list.kind != SCRIPT_UNSET && i < v.n; ++i) {
            script_value item = v.kind == RUSH_V_INTS ? script_of_int(v.ints[i]) : v.kind == RUSH_V_FLOATS ? script_of_float(v.floats[i]) : rush_script_of_tensor(v.tensors[i]);
            int failed = rush_script_append(list.box, item);
            rush_script_drop(item);
            if (failed) return rush_script_drop(list), (script_value){.kind = SCRIPT_UNSET};
        }
        return list;
    default: return SCRIPT_NOTHING;
    }
}
