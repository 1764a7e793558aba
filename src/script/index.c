/* index.c - x[i] of everything that has items, and what loops walk. */
#include "script/script.h"

static int call(const char *name, int n, script_value *in, script_value *out)
{
    script_call c = {.name = name, .n = n, .in = in};
    const rush_op *op = rush_op_find(name);
    return op ? rush_script_run_op(op, &c, out) : rush_fail(RUSH_NOT_IMPLEMENTED, "there is no operation %s", name);
}

/* start, stop and step of a slice over n items. */
static int slice_of(script_value s, int64_t n, int64_t *from, int64_t *to, int64_t *step)
{
    const script_value *p = s.box->item;
    for (int i = 0; i < 3; ++i) RUSH_CHECK(p[i].kind == SCRIPT_INT || p[i].kind == SCRIPT_NONE || p[i].kind == SCRIPT_BOOL, RUSH_TYPE_ERROR, "a slice with a %s", rush_script_kind_name(p[i]));
    *step = p[2].kind == SCRIPT_NONE ? 1 : p[2].i;
    RUSH_CHECK(*step, RUSH_VALUE_ERROR, "slice step cannot be zero");
    bool down = *step < 0;
    int64_t least = down ? -1 : 0, most = down ? n - 1 : n;
    *from = p[0].kind == SCRIPT_NONE ? (down ? most : least) : p[0].i < 0 ? (p[0].i < -n ? -1 : p[0].i + n) : p[0].i;
    *to = p[1].kind == SCRIPT_NONE ? (down ? least : most) : p[1].i < 0 ? (p[1].i < -n ? -1 : p[1].i + n) : p[1].i;
    *from = RUSH_MIN(RUSH_MAX(*from, least), most);
    *to = RUSH_MIN(RUSH_MAX(*to, least), most);
    return 0;
}

static int of_list(script_value of, script_value at, script_value *out)
{
    const script_box *b = of.box;
    int64_t n = (int64_t)b->n;
    if (at.kind == SCRIPT_SLICE) {
        int64_t from = 0, to = 0, step = 1;
        if (slice_of(at, n, &from, &to, &step)) return -1;
        *out = of.kind == SCRIPT_TEXT ? rush_script_text("", 0) : rush_script_list(of.kind, 0, NULL);
        if (of.kind == SCRIPT_TEXT && out->kind != SCRIPT_UNSET) {
            char *p = rush_realloc(out->box->text, b->n + 1);
            if (!p) return rush_script_drop(*out), -1;
            out->box->text = p;
        }
        for (int64_t i = from; out->kind != SCRIPT_UNSET && (step > 0 ? i < to : i > to);) {
            if (of.kind == SCRIPT_TEXT) out->box->text[out->box->n++] = b->text[i];
            else if (rush_script_append(out->box, b->item[i])) return rush_script_drop(*out), -1;
            if (__builtin_add_overflow(i, step, &i)) break;
        }
        if (of.kind == SCRIPT_TEXT && out->kind != SCRIPT_UNSET) out->box->text[out->box->n] = 0;
        return out->kind == SCRIPT_UNSET ? -1 : 0;
    }
    int64_t i = at.i;
    if (at.kind == SCRIPT_TENSOR) i = rush_item_int(at.t);
    else RUSH_CHECK(at.kind == SCRIPT_INT || at.kind == SCRIPT_BOOL, RUSH_TYPE_ERROR, "an index of a %s is a %s", rush_script_kind_name(of), rush_script_kind_name(at));
    if (i < 0) i += n;
    RUSH_CHECK(i >= 0 && i < n, RUSH_INDEX_ERROR, "list index out of range");
    if (of.kind == SCRIPT_TEXT) return (*out = rush_script_text(b->text + i, 1)).kind == SCRIPT_UNSET ? -1 : 0;
    return *out = rush_script_keep(b->item[i]), 0;
}

/* ---- tensors ---- */

typedef struct view {
    script_value t;                    /* what is left after numbers, slices and None: one reference */
    script_value by[RUSH_MAXDIM];      /* tensors, by dimension; NONE where there is none; held      */
    int dim, nby;
    bool some;
} view;

static void end_view(view *v)
{
    rush_script_drop(v->t);
    for (int i = 0; i < v->nby; ++i) rush_script_drop(v->by[i]);
}

static int step(view *v, const char *name, int n, script_value *in)
{
    script_value next;
    if (call(name, n, in, &next)) return -1;
    rush_script_drop(v->t);
    v->t = next;
    return 0;
}

static int consumed(script_value at)
{
    if (at.kind == SCRIPT_NONE || at.kind == SCRIPT_ELLIPSIS || at.kind == SCRIPT_BOOL) return 0;
    return at.kind == SCRIPT_TENSOR && (at.t->dtype == RUSH_BOOL || at.t->dtype == RUSH_U8) ? at.t->ndim : 1;
}

static int add_index(view *v, script_value at) /* a tensor in the place of a dimension, or several for a mask */
{
    int dims = at.t->dtype == RUSH_BOOL || at.t->dtype == RUSH_U8 ? at.t->ndim : 1;
    RUSH_CHECK(v->dim + RUSH_MAX(dims, 1) <= RUSH_MAXDIM, RUSH_INDEX_ERROR, "too many indices for tensor of dimension %d", v->t.t->ndim);
    while (v->nby < v->dim) v->by[v->nby++] = SCRIPT_NOTHING;
    v->by[v->nby++] = rush_script_keep(at);
    v->dim += dims;
    v->some = true;
    return 0;
}

static int add_one(view *v, script_value at, int rest)
{
    switch (at.kind) {
    case SCRIPT_INT: return step(v, "select", 3, (script_value[]){v->t, script_of_int(v->dim), at});
    case SCRIPT_NONE: return step(v, "unsqueeze", 2, (script_value[]){v->t, script_of_int(v->dim)}) ? -1 : (++v->dim, 0);
    case SCRIPT_ELLIPSIS: return v->dim = v->t.t->ndim - rest, 0;
    case SCRIPT_SLICE: {
        const script_value *p = at.box->item;
        RUSH_CHECK(v->dim < v->t.t->ndim, RUSH_INDEX_ERROR, "too many indices for tensor of dimension %d", v->t.t->ndim);
        if (p[0].kind != SCRIPT_NONE || p[1].kind != SCRIPT_NONE || p[2].kind != SCRIPT_NONE) {
            script_value in[5] = {v->t, script_of_int(v->dim), p[0], p[1], p[2].kind == SCRIPT_NONE ? script_of_int(1) : p[2]};
            if (step(v, "slice.Tensor", 5, in)) return -1;
        }
        return ++v->dim, 0;
    }
    case SCRIPT_TENSOR:
        if (at.t->ndim == 0 && rush_dtypes[at.t->dtype].category == 1 && at.t->dtype != RUSH_U8) {
            script_value i = script_of_int(rush_item_int(at.t));
            return rush_failed() ? -1 : step(v, "select", 3, (script_value[]){v->t, script_of_int(v->dim), i});
        }
        return add_index(v, at);
    case SCRIPT_LIST: {
        script_value t;
        script_call c = {.name = "tensor", .n = 1, .in = &at};
        if (rush_script_builtin_find("tensor")(&c, &t)) return -1;
        int failed = add_index(v, t);
        rush_script_drop(t);
        return failed;
    }
    default: return rush_fail(RUSH_TYPE_ERROR, "a tensor's index is a %s", rush_script_kind_name(at));
    }
}

static int look(script_value of, script_value at, view *v)
{
    const script_value *item = at.kind == SCRIPT_TUPLE ? at.box->item : &at;
    int n = at.kind == SCRIPT_TUPLE ? (int)at.box->n : 1, rest = 0;
    *v = (view){.t = rush_script_keep(of)};
    for (int i = 0; i < n; ++i) rest += consumed(item[i]);
    for (int i = 0; i < n; ++i) {
        rest -= consumed(item[i]);
        if (add_one(v, item[i], rest)) return end_view(v), -1;
    }
    return 0;
}

static int of_tensor(script_value of, script_value at, script_value *out)
{
    view v;
    if (look(of, at, &v)) return -1;
    int failed = 0;
    if (!v.some) *out = rush_script_keep(v.t);
    else {
        script_value by = rush_script_list(SCRIPT_LIST, (size_t)v.nby, v.by);
        failed = by.kind == SCRIPT_UNSET || call("index.Tensor", 2, (script_value[]){v.t, by}, out);
        rush_script_drop(by);
    }
    end_view(&v);
    return failed ? -1 : 0;
}

int rush_script_no_key(script_value key)
{
    script_value text = rush_script_print(key, false);
    if (text.kind == SCRIPT_UNSET) return -1;
    rush_fail(RUSH_KEY_ERROR, "KeyError: %s", text.box->text);
    return rush_script_drop(text), -1;
}

int rush_script_index(script_value of, script_value at, script_value *out)
{
    if (of.kind == SCRIPT_TENSOR) return of_tensor(of, at, out);
    if (of.kind == SCRIPT_LIST || of.kind == SCRIPT_TUPLE || of.kind == SCRIPT_TEXT) return of_list(of, at, out);
    if (of.kind == SCRIPT_DICT) {
        script_value *v = rush_script_dict_at(of.box, at);
        return v ? (*out = rush_script_keep(*v), 0) : rush_script_no_key(at);
    }
    if (of.kind == SCRIPT_OBJECT) {
        int r = rush_script_special(of, "__getitem__", 1, &at, out);
        if (r != SCRIPT_NOT_MINE) return r;
        if (at.kind == SCRIPT_TEXT) return rush_script_attribute(of, at.box->text, out);
    }
    script_value items;
    if (rush_script_items(of, &items)) return -1;
    int failed = of_list(items, at, out);
    rush_script_drop(items);
    return failed;
}

static int into_tensor(script_value of, script_value at, script_value to)
{
    view v;
    script_value value = rush_script_keep(to), out;
    if (look(of, at, &v)) return rush_script_drop(value), -1;
    int failed = 0;
    if (to.kind != SCRIPT_TENSOR) {
        script_value code = script_of_int(rush_script_dtype_code(of.t->dtype));
        script_call c = {.name = "tensor", .n = 3, .in = (script_value[]){to, code, {.kind = SCRIPT_DEVICE, .device = of.t->device}}, .names = (const char *[]){NULL, "dtype", "device"}};
        rush_script_drop(value);
        value = SCRIPT_NOTHING;
        failed = rush_script_builtin_find("tensor")(&c, &value);
        if (failed) value = SCRIPT_NOTHING;
    }
    if (!failed && v.some) {
        script_value by = rush_script_list(SCRIPT_LIST, (size_t)v.nby, v.by);
        failed = by.kind == SCRIPT_UNSET || call("index_put_", 3, (script_value[]){v.t, by, value}, &out);
        rush_script_drop(by);
    } else if (!failed) failed = call("copy_", 2, (script_value[]){v.t, value}, &out);
    if (!failed) rush_script_drop(out);
    rush_script_drop(value);
    end_view(&v);
    return failed ? -1 : 0;
}

int rush_script_index_set(script_value of, script_value at, script_value to)
{
    if (of.kind == SCRIPT_TENSOR) return into_tensor(of, at, to);
    if (of.kind == SCRIPT_DICT) return rush_script_dict_set(of.box, at, to);
    script_value nothing;
    const int r = rush_script_special(of, "__setitem__", 2, (script_value[]){at, to}, &nothing);
    if (r != SCRIPT_NOT_MINE) return r ? -1 : (rush_script_drop(nothing), 0);
    RUSH_CHECK(of.kind == SCRIPT_LIST && at.kind == SCRIPT_INT, RUSH_TYPE_ERROR, "an item of a %s cannot be set", rush_script_kind_name(of));
    int64_t i = at.i < 0 ? at.i + (int64_t)of.box->n : at.i;
    RUSH_CHECK(i >= 0 && i < (int64_t)of.box->n, RUSH_INDEX_ERROR, "list index out of range");
    script_value old = of.box->item[i];
    of.box->item[i] = rush_script_keep(to);
    rush_script_drop(old);
    return 0;
}

int rush_script_items(script_value of, script_value *out)
{
    script_value list = rush_script_list(SCRIPT_LIST, 0, NULL);
    int failed = list.kind == SCRIPT_UNSET;
    if (failed) return -1;
    if (of.kind == SCRIPT_LIST || of.kind == SCRIPT_TUPLE) {
        rush_script_drop(list);
        return *out = rush_script_keep(of), 0;
    }
    if (of.kind == SCRIPT_RANGE) {
        int64_t from = of.box->item[0].i, to = of.box->item[1].i, by = of.box->item[2].i;
        for (int64_t i = from; !failed && (by > 0 ? i < to : i > to);) failed = rush_script_append(list.box, script_of_int(i)) || __builtin_add_overflow(i, by, &i);
    } else if (of.kind == SCRIPT_DICT) {
        for (size_t i = 0; !failed && i < of.box->n; i += 2) failed = rush_script_append(list.box, of.box->item[i]);
    } else if (of.kind == SCRIPT_TEXT) {
        for (size_t i = 0; !failed && i < of.box->n; ++i) {
            script_value letter = rush_script_text(of.box->text + i, 1);
            failed = letter.kind == SCRIPT_UNSET || rush_script_append(list.box, letter);
            rush_script_drop(letter);
        }
    } else if (of.kind == SCRIPT_TENSOR && of.t->ndim) {
        for (int64_t i = 0; !failed && i < of.t->size[0]; ++i) {
            script_value row;
            failed = call("select", 3, (script_value[]){of, script_of_int(0), script_of_int(i)}, &row);
            if (!failed) failed = rush_script_append(list.box, row), rush_script_drop(row);
        }
    } else if (of.kind == SCRIPT_OBJECT) { /* a container: what is inside, in order */
        for (size_t i = 0; !failed && i < of.box->n; ++i)
            if (of.box->item[i].kind == SCRIPT_OBJECT) failed = rush_script_append(list.box, of.box->item[i]);
    } else failed = rush_fail(RUSH_TYPE_ERROR, "a %s has no items", rush_script_kind_name(of));
    if (failed) return rush_script_drop(list), rush_failed() ? -1 : rush_fail(RUSH_VALUE_ERROR, "a range is too long");
    return *out = list, 0;
}
