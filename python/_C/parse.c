/* parse.c - matches a Python call against one overload's schema.
 *
 * Nothing is built on the way: positional arguments come from the vectorcall array, keywords are compared by
 * identity first, each value is converted straight into its place in the operation's argument array.
 */
#include "call.h"
#include "nested.h"

/* ---- one argument ---- */

static int64_t *room_for_ints(py_call *c, size_t n)
{
    if (c->nints + n <= RUSH_COUNT(c->ints)) {
        int64_t *p = c->ints + c->nints;
        c->nints += (int)n;
        return p;
    }
    return rush_scope_alloc(n * sizeof(int64_t));
}

static void note_override(py_call *c, PyObject *x)
{
    if (c->nover < (int)RUSH_COUNT(c->over)) c->over[c->nover++] = py_ref(x);
}

/* A tensor, also of a subclass, or something that has a __torch_function__. */
RUSH_HOT static int take_tensor(py_call *c, PyObject *x, rush_tensor **out)
{
    if (RUSH_LIKELY(Py_TYPE(x) == py_Tensor)) return *out = py_tensor_of(x), *out != NULL;
    if (py_is_tensor(x)) {
        if (py_overrides_function(x)) note_override(c, x);
        return *out = py_tensor_of(x), *out != NULL;
    }
    *out = NULL;
    if (x == Py_None || PyLong_CheckExact(x) || PyFloat_CheckExact(x) || PyTuple_CheckExact(x) || PyList_CheckExact(x)) return 0;
    if (!py_overrides_function(x)) return 0;
    note_override(c, x);
    return 1;
}

/* One of several ints. Truth values are ints behind the first, as in PyTorch, which looks at that one's type alone. */
static int take_item(const rush_arg *a, PyObject *item, Py_ssize_t i, int64_t *out)
{
    if ((i > 0 || a->type == RUSH_A_BOOL) && PyBool_Check(item)) return *out = item == Py_True, 1;
    return py_to_int(item, out);
}

static int take_ints(py_call *c, const rush_arg *a, PyObject *x, rush_value *v)
{
    if (PyTuple_Check(x) || PyList_Check(x)) {
        Py_ssize_t n = PySequence_Fast_GET_SIZE(x);
        int64_t *p = room_for_ints(c, (size_t)RUSH_MAX(n, 1));
        if (!p) return py_raise_int();
        for (Py_ssize_t i = 0; i < n; ++i) {
            PyObject *item = py_list_item(x, i);
            int ok = item ? take_item(a, item, i, &p[i]) : -1;
            Py_XDECREF(item);
            if (ok <= 0) return c->item = (int)i, ok;
        }
        *v = rush_v_ints(p, (size_t)n);
        return 1;
    }
    if (a->fixed) { /* int[2]: one int stands for both */
        int64_t i, *p;
        int ok = take_item(a, x, 0, &i);
        if (ok > 0) {
            if (!(p = room_for_ints(c, (size_t)a->fixed))) return py_raise_int();
            for (int k = 0; k < a->fixed; ++k) {
                p[k] = i;
                if (RUSH_UNLIKELY(py_traces) && py_is_traced(x)) py_trace_number(&p[k], -1, x);
            }
            *v = rush_v_ints(p, (size_t)a->fixed);
        }
        if (ok) return ok;
    }
    if (py_is_tensor(x) || PyUnicode_Check(x) || !PySequence_Check(x)) return 0;
    Py_ssize_t n = PySequence_Size(x); /* ranges, arrays of ints */
    if (n < 0) return PyErr_Clear(), 0;
    int64_t *p = room_for_ints(c, (size_t)RUSH_MAX(n, 1));
    if (!p) return py_raise_int();
    for (Py_ssize_t i = 0; i < n; ++i) {
        PyObject *item = PySequence_GetItem(x, i);
        int ok = item ? py_to_int(item, &p[i]) : -1;
        Py_XDECREF(item);
        if (ok <= 0) return ok;
    }
    *v = rush_v_ints(p, (size_t)n);
    return 1;
}

static int take_floats(py_call *c, PyObject *x, rush_value *v)
{
    if (!PyTuple_Check(x) && !PyList_Check(x)) return 0;
    Py_ssize_t n = PySequence_Fast_GET_SIZE(x);
    double *p = rush_scope_alloc(sizeof *p * (size_t)RUSH_MAX(n, 1));
    if (!p) return py_raise_int();
    for (Py_ssize_t i = 0; i < n; ++i) {
        rush_value number;
        PyObject *item = py_list_item(x, i);
        int ok = item ? py_to_number(item, &number) : -1;
        Py_XDECREF(item);
        if (ok <= 0 || number.kind == RUSH_V_COMPLEX) return RUSH_MIN(ok, 0);
        p[i] = rush_to_double(number);
    }
    *v = rush_v_floats(p, (size_t)n);
    return 1;
}

static int take_numbers(PyObject *x, rush_value *v)
{
    if (!PyTuple_Check(x) && !PyList_Check(x)) return 0;
    Py_ssize_t n = PySequence_Fast_GET_SIZE(x);
    rush_value *p = rush_scope_alloc(sizeof *p * (size_t)RUSH_MAX(n, 1));
    if (!p) return py_raise_int();
    for (Py_ssize_t i = 0; i < n; ++i) {
        PyObject *item = py_list_item(x, i);
        int ok = item ? py_to_number(item, &p[i]) : -1;
        Py_XDECREF(item);
        if (ok <= 0) return ok;
    }
    *v = (rush_value){.kind = RUSH_V_VALUES, .n = (uint32_t)n};
    v->values = p;
    return 1;
}

static int take_tensors(py_call *c, const rush_arg *a, PyObject *x, rush_value *v)
{
    if (!PyTuple_Check(x) && !PyList_Check(x)) return 0;
    Py_ssize_t n = PySequence_Fast_GET_SIZE(x);
    rush_tensor **p = rush_scope_alloc(sizeof *p * (size_t)RUSH_MAX(n, 1));
    if (!p) return py_raise_int();
    for (Py_ssize_t i = 0; i < n; ++i) {
        PyObject *item = py_list_item(x, i);
        bool ok = item && ((item == Py_None && a->optional_items) || take_tensor(c, item, &p[i]));
        if (ok && item == Py_None) p[i] = NULL;
        if (ok) rush_park(rush_keep(p[i])); /* the list may change while the call runs */
        Py_XDECREF(item);
        if (!ok) return c->item = (int)i, item ? 0 : -1;
    }
    *v = rush_v_tensors(p, (size_t)n);
    return 1;
}

static int take_list(py_call *c, const rush_arg *a, PyObject *x, rush_value *v)
{
    switch (a->type) {
    case RUSH_A_TENSOR: return take_tensors(c, a, x, v);
    case RUSH_A_FLOAT: return take_floats(c, x, v);
    case RUSH_A_SCALAR: return take_numbers(x, v);
    default: return take_ints(c, a, x, v);
    }
}

RUSH_HOT static int take_value(py_call *c, const py_overload *o, const rush_arg *a, PyObject *x, rush_value *v)
{
    int ok, kind;
    if (x == Py_None && a->optional) return *v = RUSH_NONE, 1;
    if (x == Py_None && a->list && a->has_default && a->def.kind == RUSH_V_INTS && !a->def.n) return *v = a->def, 1; /* dims=[] */
    if (a->list) return take_list(c, a, x, v);
    switch (a->type) {
    case RUSH_A_TENSOR: {
        rush_tensor *t;
        if (take_tensor(c, x, &t)) return *v = rush_v_tensor(t), 1;
        if (!o->numbers && !o->wraps) return 0;
        ok = py_plain_number(x, v);
        if (ok > 0 && (o->wraps || a == o->op->args)) *v = rush_v_tensor(rush_tensor_of_number(*v, true));
        return ok;
    }
    case RUSH_A_INT:
        ok = py_to_int(x, &v->i);
        v->kind = RUSH_V_INT;
        v->n = 0;
        return ok;
    case RUSH_A_FLOAT:
        if (PyLong_CheckExact(x)) { /* of any length */
            *v = rush_v_float(PyLong_AsDouble(x));
            return v->f == -1 && PyErr_Occurred() ? -1 : 1;
        }
        /* fall through */
    case RUSH_A_SCALAR:
        ok = py_to_number(x, v);
        if (ok <= 0 || a->type == RUSH_A_SCALAR) return ok;
        if (v->kind == RUSH_V_COMPLEX) return 0;
        *v = rush_v_float(rush_to_double(*v));
        return 1;
    case RUSH_A_BOOL: return py_to_bool(x, v);
    case RUSH_A_STRING:
        if (!PyUnicode_Check(x)) return 0;
        v->kind = RUSH_V_STRING;
        return (v->s = PyUnicode_AsUTF8(x)) ? 1 : -1;
    case RUSH_A_DTYPE:
        if (!py_to_dtype(x, &kind)) return 0;
        return *v = rush_v_dtype(kind), 1;
    case RUSH_A_DEVICE:
        ok = py_to_device(x, &v->device);
        if (ok > 0 && py_device_ready(v->device)) return -1;
        if (ok > 0 && v->device.type == RUSH_CPU) v->device.index = -1;
        v->kind = RUSH_V_DEVICE;
        return ok;
    case RUSH_A_LAYOUT:
    case RUSH_A_MEMORY_FORMAT: {
        PyTypeObject *type = a->type == RUSH_A_LAYOUT ? &py_type_layout : &py_type_memory_format;
        if (Py_TYPE(x) != type) return 0;
        v->kind = a->type == RUSH_A_LAYOUT ? RUSH_V_LAYOUT : RUSH_V_MEMORY_FORMAT;
        v->i = py_constant_value(x);
        if (a->type == RUSH_A_LAYOUT && v->i == PY_NO_LAYOUT) return PyErr_Format(PyExc_NotImplementedError, "tensors of layout %R are not supported: the layout is a name only", x), -1;
        return 1;
    }
    case RUSH_A_GENERATOR:
        if (!py_is_generator(x)) return 0;
        v->kind = RUSH_V_GENERATOR;
        v->gen = py_generator_of(x);
        return 1;
    case RUSH_A_NESTED: return py_to_nested(rush_type_of_arg(o->op, (int)(a - o->op->args)), x, v);
    default: return 0;
    }
}

/* Where a number, a dtype or a list of them is asked for: what is none but has a __torch_function__, such as fx's proxies, takes the call over. */
static int take_foreign(py_call *c, PyObject *x)
{
    int before = c->nover;
    if (PyTuple_Check(x) || PyList_Check(x))
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(x); ++i) {
            PyObject *item = py_list_item(x, i);
            if (item && !py_is_tensor(item) && py_overrides_function(item)) note_override(c, item);
            Py_XDECREF(item);
        }
    else if (!py_is_tensor(x) && py_overrides_function(x)) note_override(c, x);
    return c->nover > before;
}

RUSH_HOT static int take(py_call *c, const py_overload *o, const rush_arg *a, PyObject *x, rush_value *v)
{
    int ok = take_value(c, o, a, x, v);
    if (RUSH_LIKELY(ok)) return ok;
    *v = RUSH_NONE;
    return take_foreign(c, x);
}

/* ---- a whole call ---- */

static bool same_name(PyObject *a, PyObject *b) { return a == b || PyUnicode_Compare(a, b) == 0; }

static int find_name(const py_overload *o, PyObject *name)
{
    for (int i = 0; i < o->op->nargs; ++i)
        if (name == o->name[i] || name == o->alias[i]) return i;
    for (int i = 0; i < o->op->nargs; ++i)
        if (same_name(name, o->name[i]) || (o->alias[i] && same_name(name, o->alias[i]))) return i;
    if (PyUnicode_CompareWithASCIIString(name, "input") == 0 || PyUnicode_CompareWithASCIIString(name, "x") == 0 ||
        PyUnicode_CompareWithASCIIString(name, "a") == 0 || PyUnicode_CompareWithASCIIString(name, "x1") == 0)
        return !strcmp(o->op->nargs ? o->op->args[0].name : "", "self") ? 0 : -1;
    return -1;
}

static int fail(py_call *c, int why, int which, PyObject *what)
{
    c->why = why;
    c->which = which;
    c->what = what;
    return 0;
}

/* Keywords that no schema lists: out=, requires_grad=, names=, pin_memory= of those without it. */
static int take_extra(const py_overload *o, py_call *c, PyObject *name, PyObject *x)
{
    if (o->out && PyUnicode_CompareWithASCIIString(name, "out") == 0) {
        if (x == Py_None) return 1;
        c->out = x;
        bool several = PyTuple_Check(x) || PyList_Check(x);
        for (Py_ssize_t i = 0; i < (several ? PySequence_Fast_GET_SIZE(x) : 1); ++i) {
            PyObject *one = several ? PySequence_Fast_GET_ITEM(x, i) : x;
            if (Py_TYPE(one) != py_Tensor && py_overrides_function(one)) note_override(c, one);
            else if (!several && !py_is_tensor(one)) return fail(c, PY_BAD_OUT, 0, x);
        }
        return 1;
    }
    if (o->factory && PyUnicode_CompareWithASCIIString(name, "requires_grad") == 0) {
        rush_value yes = V(false);
        if (x != Py_None && !py_to_bool(x, &yes)) return fail(c, PY_BAD_GRAD, 0, x);
        c->requires_grad = yes.i;
        return 1;
    }
    if (o->factory && x == Py_None && PyUnicode_CompareWithASCIIString(name, "names") == 0) return 1;
    return fail(c, PY_UNKNOWN, 0, name);
}

/* The default of an argument. PyTorch's functions in Python take the schemas' reduction=Mean as none: torch.kl_div(p, q) is as large as they are. */
static rush_value default_of(const py_overload *o, int at) { return o->unreduced == at + 1 ? rush_v_int(0) : o->op->args[at].def; }

RUSH_HOT int py_match(const py_overload *o, py_call *c, PyObject *const *args, Py_ssize_t n, PyObject *kwnames, bool method)
{
    const rush_op *op = o->op;
    PyObject *given[PY_MAXARGS], *const *keywords = args + n; /* their values follow the positional ones */
    Py_ssize_t nkw = kwnames ? PyTuple_GET_SIZE(kwnames) : 0, first = 0;
    py_forget_overrides(c);
    c->nints = 0;
    c->out = NULL;
    c->requires_grad = false;
    c->why = PY_FITS;
    c->item = -1;
    int at = 0, ok;
    if (o->varargs && n > method) { /* view(2, 3): the ints up to the end are the list */
        int list = method ? 1 : 0;
        int64_t probe;
        PyObject *x = args[list];
        if (n - list == 1 && (PyTuple_Check(x) || PyList_Check(x))) goto plain;
        if (n - list == 1 && (!PyLong_Check(x) || PyBool_Check(x)) && (ok = py_to_int(x, &probe)) <= 0) {
            if (ok < 0) return -1;
            goto plain;
        }
        if (method && !(ok = take(c, o, &op->args[0], args[0], &c->in[0]))) return fail(c, PY_WRONG, 0, args[0]);
        int64_t *p = room_for_ints(c, (size_t)(n - list));
        if (!p) return py_raise_int();
        for (Py_ssize_t i = list; i < n; ++i)
            if ((ok = take_item(&op->args[list], args[i], i - list, &p[i - list])) < 0) return -1;
            else if (!ok && !take_foreign(c, args[i])) return fail(c, PY_WRONG, list, args[i]);
        c->in[list] = rush_v_ints(p, (size_t)(n - list));
        first = at = list + 1;
        n = first;
    }
plain:
    if (n > o->npos) return fail(c, PY_TOO_MANY, (int)n, NULL);
    if (!nkw) {
        for (; at < n; ++at)
            if ((ok = take(c, o, &op->args[at], args[at], &c->in[at])) <= 0) return ok < 0 ? -1 : fail(c, PY_WRONG, at, args[at]);
        for (; at < op->nargs; ++at) {
            if (!op->args[at].has_default) return fail(c, PY_MISSING, at, NULL);
            c->in[at] = default_of(o, at);
        }
        return 1;
    }
    memset(given, 0, sizeof *given * op->nargs);
    for (Py_ssize_t i = first; i < n; ++i) given[i] = args[i];
    for (Py_ssize_t k = 0; k < nkw; ++k) {
        PyObject *name = PyTuple_GET_ITEM(kwnames, k), *x = keywords[k];
        int i = find_name(o, name);
        if (i < 0) {
            if ((ok = take_extra(o, c, name, x)) <= 0) return ok;
            continue;
        }
        if (i < at || given[i]) return fail(c, PY_TWICE, i, name);
        given[i] = x;
    }
    for (; at < op->nargs; ++at) {
        if (given[at]) {
            if ((ok = take(c, o, &op->args[at], given[at], &c->in[at])) <= 0) return ok < 0 ? -1 : fail(c, PY_WRONG, at, given[at]);
        } else if (op->args[at].has_default) { /* dtype=int64 is a default where out= does not say another */
            c->in[at] = c->out && o->factory && op->args[at].type == RUSH_A_DTYPE ? RUSH_NONE : default_of(o, at);
        } else {
            return fail(c, PY_MISSING, at, NULL);
        }
    }
    return 1;
}
