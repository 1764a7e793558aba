/* call.c - operations of the registry, chosen by what they are given: the overload whose schema takes the arguments with the
 * fewest conversions, as TorchScript chooses. */
#include "script/script.h"

#include <stdio.h>

enum { MOST = 64, NEVER = 1 << 20 };

/* How far is the value from what the argument asks for? NEVER: it does not fit. */
static int distance_of_one(int type, script_value v)
{
    switch (type) {
    case RUSH_A_TENSOR: return v.kind == SCRIPT_TENSOR ? 0 : script_is_number(v) ? 40 : NEVER;
    case RUSH_A_INT: return v.kind == SCRIPT_INT ? 0 : v.kind == SCRIPT_BOOL ? 1 : v.kind == SCRIPT_TENSOR && v.t->numel == 1 && rush_dtypes[v.t->dtype].category <= 1 ? 10 : NEVER;
    case RUSH_A_FLOAT: return v.kind == SCRIPT_FLOAT ? 0 : v.kind == SCRIPT_INT || v.kind == SCRIPT_BOOL ? 1 : v.kind == SCRIPT_TENSOR && v.t->numel == 1 ? 10 : NEVER;
    case RUSH_A_BOOL: return v.kind == SCRIPT_BOOL ? 0 : v.kind == SCRIPT_INT ? 5 : v.kind == SCRIPT_TENSOR && v.t->numel == 1 ? 10 : NEVER;
    case RUSH_A_SCALAR: return script_is_number(v) ? 0 : v.kind == SCRIPT_TENSOR && v.t->ndim == 0 ? 10 : NEVER;
    case RUSH_A_STRING: return v.kind == SCRIPT_TEXT ? 0 : NEVER;
    case RUSH_A_DTYPE: return v.kind == SCRIPT_INT && rush_script_dtype_of(v.i) >= 0 ? 35 : NEVER; /* x.view(6) is a size */
    case RUSH_A_LAYOUT: return v.kind == SCRIPT_INT && rush_script_layout_of(v.i) >= 0 ? 2 : NEVER;
    case RUSH_A_MEMORY_FORMAT: return v.kind == SCRIPT_INT && v.i >= 0 && v.i < 7 ? 2 : NEVER;
    case RUSH_A_DEVICE: return v.kind == SCRIPT_DEVICE ? 0 : v.kind == SCRIPT_TEXT ? 3 : NEVER;
    case RUSH_A_GENERATOR: return v.kind == SCRIPT_GENERATOR ? 0 : NEVER;
    default: return NEVER;
    }
}

static int distance(const rush_arg *a, script_value v)
{
    if (v.kind == SCRIPT_NONE) return a->optional || (a->type == RUSH_A_TENSOR && a->optional_items) || a->type == RUSH_A_LAYOUT || a->type == RUSH_A_GENERATOR ? 0 : a->has_default ? 20 : NEVER;
    if (!a->list) return distance_of_one(a->type, v);
    if (v.kind != SCRIPT_LIST && v.kind != SCRIPT_TUPLE) {
        int d = a->fixed || a->type == RUSH_A_INT ? distance_of_one(a->type, v) : NEVER;
        return d == NEVER ? d : d + (a->fixed ? 1 : 30);
    }
    int most = 0;
    for (size_t i = 0; i < v.box->n; ++i) {
        script_value x = v.box->item[i];
        int d = x.kind == SCRIPT_NONE && a->type == RUSH_A_TENSOR ? (a->optional_items ? 0 : NEVER) : distance_of_one(a->type, x);
        if (a->type == RUSH_A_TENSOR && d == 40) d = NEVER;
        most = RUSH_MAX(most, d);
    }
    return most;
}

/* Which argument of the schema takes the k-th one of the call? -1: none. */
static int place(const rush_op *op, const script_call *c, int k)
{
    const char *name = c->names ? c->names[k] : NULL;
    if (!name) return k < op->nargs && !op->args[k].kwonly ? k : -1;
    for (int i = 0; i < op->nargs; ++i)
        if (!strcmp(op->args[i].name, name)) return i;
    return op->nargs && !strcmp(name, "input") && !strcmp(op->args[0].name, "self") ? 0 : -1; /* functions of torch call it so */
}

static bool is_out(const script_call *c, int k) { return c->names && c->names[k] && !strcmp(c->names[k], "out"); }

/* ---- values as the registry takes them ---- */

static int number(script_value v, int type, rush_value *out)
{
    if (v.kind == SCRIPT_TENSOR) {
        bool whole = rush_dtypes[v.t->dtype].category == 1;
        if (type == RUSH_A_INT || (type == RUSH_A_SCALAR && whole)) *out = rush_v_int(rush_item_int(v.t));
        else if (rush_dtypes[v.t->dtype].category == 0 || type == RUSH_A_BOOL) *out = rush_v_bool(rush_item(v.t) != 0);
        else *out = rush_v_float(rush_item(v.t));
        return rush_failed() ? -1 : 0;
    }
    if (v.kind == SCRIPT_COMPLEX) return *out = (rush_value){.kind = RUSH_V_COMPLEX, .c = {v.c[0], v.c[1]}}, 0;
    if (type == RUSH_A_FLOAT) *out = rush_v_float(rush_script_double(v));
    else if (type == RUSH_A_INT) *out = rush_v_int(v.i);
    else if (type == RUSH_A_BOOL) *out = rush_v_bool(v.i != 0);
    else *out = v.kind == SCRIPT_BOOL ? rush_v_bool(v.i) : v.kind == SCRIPT_INT ? rush_v_int(v.i) : rush_v_float(v.f);
    return 0;
}

static int one(const rush_arg *a, script_value v, rush_value *out)
{
    *out = RUSH_NONE;
    switch (v.kind == SCRIPT_NONE ? -1 : a->type) {
    case -1: return 0;
    case RUSH_A_TENSOR:
        if (v.kind == SCRIPT_TENSOR) return *out = rush_v_tensor(v.t), 0;
        if (number(v, RUSH_A_SCALAR, out)) return -1;
        if (a->kinds >> out->kind & 1) return 0;
        rush_tensor *t = rush_tensor_of_number(*out, true);
        return t ? (*out = rush_v_tensor(t), 0) : -1;
    case RUSH_A_INT: case RUSH_A_FLOAT: case RUSH_A_BOOL: case RUSH_A_SCALAR: return number(v, a->type, out);
    case RUSH_A_STRING: return *out = rush_v_string(v.box->text), 0;
    case RUSH_A_DTYPE: return *out = rush_v_dtype(rush_script_dtype_of(v.i)), 0;
    case RUSH_A_LAYOUT: return *out = (rush_value){.kind = RUSH_V_LAYOUT, .i = rush_script_layout_of(v.i)}, 0;
    case RUSH_A_MEMORY_FORMAT: return *out = (rush_value){.kind = RUSH_V_MEMORY_FORMAT, .i = v.i}, 0;
    case RUSH_A_GENERATOR: return *out = (rush_value){.kind = RUSH_V_GENERATOR, .gen = v.gen}, 0;
    default: break;
    }
    script_value d = v;
    if (v.kind == SCRIPT_TEXT) {
        script_call c = {.n = 1, .in = &v};
        if (rush_script_builtin_find("device")(&c, &d)) return -1;
    }
    return *out = (rush_value){.kind = RUSH_V_DEVICE, .device = d.device}, 0;
}

/* Lists in the scope. */
static int list(const rush_arg *a, script_value v, rush_value *out)
{
    bool single = v.kind != SCRIPT_LIST && v.kind != SCRIPT_TUPLE;
    size_t n = single ? (size_t)RUSH_MAX(a->fixed, 1) : v.box->n;
    void *room = rush_scope_alloc(n * sizeof(rush_value));
    if (!room) return -1;
    for (size_t i = 0; i < n; ++i) {
        rush_value x;
        if (one(a, single ? v : v.box->item[i], &x)) return -1;
        if (a->type == RUSH_A_TENSOR) ((rush_tensor **)room)[i] = x.kind == RUSH_V_TENSOR ? x.t : NULL;
        else if (a->type == RUSH_A_SCALAR) ((rush_value *)room)[i] = x;
        else if (a->type == RUSH_A_FLOAT) ((double *)room)[i] = x.f;
        else ((int64_t *)room)[i] = x.i;
    }
    *out = a->type == RUSH_A_TENSOR ? rush_v_tensors(room, n) : a->type == RUSH_A_FLOAT ? rush_v_floats(room, n) : rush_v_ints(room, n);
    if (a->type == RUSH_A_SCALAR) *out = (rush_value){.kind = RUSH_V_VALUES, .n = (uint32_t)n, .values = room};
    return 0;
}

/* What only the schemas of programs ask for: see op/nested.h. 1; 0: the value is of another type; -1. */
static int nested(rush_type_text t, script_value v, rush_value *out)
{
    rush_type_text inside, next;
    rush_type_form form = rush_type_read(t, &inside);
    if (form == RUSH_TYPE_OPTIONAL) return v.kind == SCRIPT_NONE ? (*out = RUSH_NONE, 1) : nested(inside, v, out);
    int type = rush_type_plain(form == RUSH_TYPE_LIST ? inside : t);
    const rush_arg plain = {.type = (uint8_t)RUSH_MAX(type, 0), .list = form == RUSH_TYPE_LIST};
    if (type >= 0 && (!plain.list || type <= RUSH_A_SCALAR)) return distance(&plain, v) >= NEVER ? 0 : (plain.list ? list(&plain, v, out) : one(&plain, v, out)) ? -1 : 1;
    if (form == RUSH_TYPE_PLAIN) return v.kind == SCRIPT_FOREIGN && rush_object_class(v.object) == rush_class_at(t) ? (*out = rush_v_object(v.object), 1) : 0;
    if (form == RUSH_TYPE_DICT ? v.kind != SCRIPT_DICT : v.kind != SCRIPT_LIST && v.kind != SCRIPT_TUPLE) return 0;
    rush_value *values = rush_scope_alloc(RUSH_MAX(v.box->n, 1) * sizeof *values);
    if (!values) return -1;
    for (size_t i = 0; i < v.box->n; ++i) {
        next = inside;
        if (form == RUSH_TYPE_DICT && i % 2) rush_type_next(&next);
        int ok = nested(next, v.box->item[i], &values[i]);
        if (ok <= 0) return ok;
        if (form == RUSH_TYPE_TUPLE && i + 1 < v.box->n && !rush_type_next(&inside)) return 0;
    }
    if (form == RUSH_TYPE_TUPLE && rush_type_next(&inside)) return 0;
    return *out = (rush_value){.kind = RUSH_V_VALUES, .n = (uint32_t)v.box->n, .values = values}, 1;
}

static int distance_of_argument(const rush_op *op, int i, script_value v)
{
    rush_value as;
    if (op->args[i].type == RUSH_A_NESTED) return nested(rush_type_of_arg(op, i), v, &as) > 0 ? 0 : NEVER;
    return distance(&op->args[i], v);
}

static int distance_of_call(const rush_op *op, const script_call *c)
{
    uint64_t given = 0;
    int sum = 0;
    if (op->nargs > MOST) return NEVER;
    for (int k = 0; k < c->n; ++k) {
        if (is_out(c, k)) continue;
        int i = place(op, c, k), d = i < 0 || given >> i & 1 ? NEVER : distance_of_argument(op, i, c->in[k]);
        if (d >= NEVER) return NEVER;
        given |= (uint64_t)1 << i;
        sum += d;
    }
    for (int i = 0; i < op->nargs; ++i)
        if (!(given >> i & 1) && !op->args[i].has_default) return NEVER;
    return sum;
}

static int no_overload(const rush_op *first, const script_call *c)
{
    char text[512];
    size_t n = 0;
    for (int k = 0; k < c->n && n < sizeof text - 80; ++k)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%.30s%s%.40s", k ? ", " : "", c->names && c->names[k] ? c->names[k] : "", c->names && c->names[k] ? "=" : "", rush_script_kind_name(c->in[k]));
    return rush_fail(RUSH_TYPE_ERROR, "%s takes no arguments of these kinds: (%s); %s", c->name, c->n ? text : "", first->schema);
}

static int results(const rush_op *op, const rush_value *v, script_value *out)
{
    if (op->nout == 1) return (*out = rush_script_from_rush(op, 0, v[0])).kind == SCRIPT_UNSET ? -1 : 0;
    *out = op->nout ? rush_script_list(SCRIPT_TUPLE, 0, NULL) : SCRIPT_NOTHING;
    if (out->kind == SCRIPT_TUPLE) out->box->of = op;
    for (int i = 0; i < op->nout && out->kind != SCRIPT_UNSET; ++i) {
        script_value x = rush_script_from_rush(op, i, v[i]);
        int failed = x.kind == SCRIPT_UNSET || rush_script_append(out->box, x);
        rush_script_drop(x);
        if (failed) return rush_script_drop(*out), -1;
    }
    return out->kind == SCRIPT_UNSET ? -1 : 0;
}

static const rush_op *closest(const rush_op *first, const script_call *c)
{
    const rush_op *op = NULL;
    int least = NEVER;
    for (const rush_op *o = first; o && least; o = o->next) {
        int d = distance_of_call(o, c);
        if (d < least) op = o, least = d;
    }
    return op;
}

/* x.view(2, 3) for x.view([2, 3]), torch.zeros(2, 3) for torch.zeros([2, 3]): 1 when run, 0 when there is nothing to gather. */
static int run_gathered(const rush_op *first, const script_call *c, script_value *out)
{
    int from = c->n && c->in[0].kind == SCRIPT_TENSOR, to = from;
    while (to < c->n && !(c->names && c->names[to]) && c->in[to].kind == SCRIPT_INT) ++to;
    if (to == from || c->n > MOST) return 0;
    script_value in[MOST], sizes = rush_script_list(SCRIPT_LIST, (size_t)(to - from), c->in + from);
    const char *names[MOST] = {0};
    if (sizes.kind == SCRIPT_UNSET) return -1;
    script_call fewer = *c;
    fewer.n = 0;
    fewer.in = in;
    fewer.names = c->names ? names : NULL;
    for (int k = 0; k < c->n; ++k) {
        if (k > from && k < to) continue;
        names[fewer.n] = c->names ? c->names[k] : NULL;
        in[fewer.n++] = k == from ? sizes : c->in[k];
    }
    int done = closest(first, &fewer) ? rush_script_run_op(first, &fewer, out) ? -1 : 1 : 0;
    rush_script_drop(sizes);
    return done;
}

int rush_script_run_op(const rush_op *first, script_call *c, script_value *out)
{
    const rush_op *op = closest(first, c);
    if (!op) {
        int done = run_gathered(first, c, out);
        return done ? RUSH_MIN(done, 0) : no_overload(first, c);
    }
    rush_value in[MOST], v[RUSH_MAXOUT];
    size_t mark = rush_scope_open(), n = strlen(c->name);
    int failed = 0, nout = 0;
    for (int i = 0; i < op->nargs; ++i) in[i] = op->args[i].def;
    for (int i = 0; i < op->nout; ++i) v[i] = RUSH_NONE;
    for (int k = 0; k < c->n && !failed; ++k) {
        if (is_out(c, k)) {
            if (c->in[k].kind == SCRIPT_TENSOR) v[nout++] = rush_v_tensor(c->in[k].t);
            continue;
        }
        int i = place(op, c, k);
        if (c->in[k].kind == SCRIPT_NONE && !op->args[i].optional && op->args[i].has_default) continue;
        bool as_list = op->args[i].list && c->in[k].kind != SCRIPT_NONE;
        failed = op->args[i].type == RUSH_A_NESTED ? nested(rush_type_of_arg(op, i), c->in[k], &in[i]) <= 0 : as_list ? list(&op->args[i], c->in[k], &in[i]) : one(&op->args[i], c->in[k], &in[i]);
    }
    bool inplace = n > 1 && c->name[n - 1] == '_' && c->name[n - 2] != '_' && strncmp(op->base, c->name, n);
    if (!failed) failed = nout ? rush_call_out(op, in, v) : inplace ? rush_call_inplace(op, in, v) : rush_call(op, in, v);
    if (!failed) failed = results(op, v, out);
    rush_scope_close(mark);
    return failed ? -1 : 0;
}
