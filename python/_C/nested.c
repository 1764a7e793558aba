/* nested.c - dicts, tuples, and lists of what is no plain type, for the schemas of programs: see op/nested.h. 1: converted, 0: it is
 * of another type, -1: an exception. */
#include "nested.h"

static int to_plain(int type, PyObject *x, rush_value *v)
{
    int ok, kind;
    const char *text;
    Py_ssize_t n;
    switch (type) {
    case RUSH_A_TENSOR:
        if (!py_is_tensor(x) || !py_tensor_of(x)) return 0;
        return *v = rush_v_tensor(rush_park(rush_keep(py_tensor_of(x)))), 1; /* the container may change while the call runs */
    case RUSH_A_INT: return *v = rush_v_int(0), py_to_int(x, &v->i);
    case RUSH_A_BOOL: return PyBool_Check(x) ? (*v = rush_v_bool(x == Py_True), 1) : 0;
    case RUSH_A_FLOAT:
    case RUSH_A_SCALAR:
        ok = py_to_number(x, v);
        if (ok <= 0 || type == RUSH_A_SCALAR) return ok;
        return v->kind == RUSH_V_COMPLEX ? 0 : (*v = rush_v_float(rush_to_double(*v)), 1);
    case RUSH_A_STRING:
        if (!PyUnicode_Check(x)) return 0;
        if (!(text = PyUnicode_AsUTF8AndSize(x, &n))) return -1;
        *v = rush_v_string(rush_scope_copy(text, (size_t)n + 1));
        return v->s ? 1 : py_raise_int();
    case RUSH_A_DTYPE: return py_to_dtype(x, &kind) ? (*v = rush_v_dtype(kind), 1) : 0;
    case RUSH_A_DEVICE: return v->kind = RUSH_V_DEVICE, py_to_device(x, &v->device);
    default: return 0;
    }
}

/* Items as values, then as the array that lists of their type are. */
static int to_list(rush_type_text items, PyObject *x, rush_value *v)
{
    if (!PyList_Check(x) && !PyTuple_Check(x)) return 0;
    rush_type_text inner;
    bool optional = rush_type_read(items, &inner) == RUSH_TYPE_OPTIONAL;
    int type = rush_type_plain(optional ? inner : items);
    size_t n = (size_t)PySequence_Fast_GET_SIZE(x);
    rush_value *values = rush_scope_alloc(sizeof *values * RUSH_MAX(n, 1));
    if (!values) return py_raise_int();
    for (size_t i = 0; i < n; ++i) {
        PyObject *item = py_list_item(x, (Py_ssize_t)i);
        int ok = item ? py_to_nested(items, item, &values[i]) : -1;
        Py_XDECREF(item);
        if (ok <= 0) return ok;
    }
    bool ints = !optional && (type == RUSH_A_INT || type == RUSH_A_BOOL), floats = !optional && type == RUSH_A_FLOAT;
    *v = (rush_value){.kind = RUSH_V_VALUES, .n = (uint32_t)n, .values = values};
    if (type != RUSH_A_TENSOR && !ints && !floats) return 1;
    rush_value *room = rush_scope_alloc(sizeof(int64_t) * RUSH_MAX(n, 1));
    if (!room) return py_raise_int();
    for (size_t i = 0; i < n; ++i) {
        if (ints) ((int64_t *)room)[i] = values[i].i;
        else if (floats) ((double *)room)[i] = values[i].f;
        else ((rush_tensor **)room)[i] = values[i].kind == RUSH_V_TENSOR ? values[i].t : NULL;
    }
    *v = ints ? rush_v_ints((int64_t *)room, n) : floats ? rush_v_floats((double *)room, n) : rush_v_tensors((rush_tensor **)room, n);
    return 1;
}

static int to_tuple(rush_type_text inside, PyObject *x, rush_value *v)
{
    if (!PyTuple_Check(x)) return 0;
    size_t n = (size_t)PyTuple_GET_SIZE(x), i = 0;
    rush_value *values = rush_scope_alloc(sizeof *values * RUSH_MAX(n, 1));
    if (!values) return py_raise_int();
    do {
        int ok = i < n ? py_to_nested(inside, PyTuple_GET_ITEM(x, i), &values[i]) : 0;
        if (ok <= 0) return ok;
        ++i;
    } while (rush_type_next(&inside));
    *v = (rush_value){.kind = RUSH_V_VALUES, .n = (uint32_t)n, .values = values};
    return i == n;
}

static int to_dict(rush_type_text keys, PyObject *x, rush_value *v)
{
    rush_type_text items = keys;
    if (!PyDict_Check(x) || !rush_type_next(&items)) return 0;
    size_t n = 2 * (size_t)PyDict_GET_SIZE(x), i = 0;
    rush_value *values = rush_scope_alloc(sizeof *values * RUSH_MAX(n, 1));
    if (!values) return py_raise_int();
    PyObject *key, *item;
    for (Py_ssize_t at = 0; i < n && PyDict_Next(x, &at, &key, &item); i += 2) {
        py_ref(key), py_ref(item); /* what is converted may change the dict */
        int ok = py_to_nested(keys, key, &values[i]);
        if (ok > 0) ok = py_to_nested(items, item, &values[i + 1]);
        Py_DECREF(key);
        Py_DECREF(item);
        if (ok <= 0) return ok;
    }
    *v = (rush_value){.kind = RUSH_V_VALUES, .n = (uint32_t)i, .values = values};
    return 1;
}

int py_to_nested(rush_type_text type, PyObject *x, rush_value *v)
{
    rush_type_text inside;
    switch (rush_type_read(type, &inside)) {
    case RUSH_TYPE_OPTIONAL: return x == Py_None ? (*v = RUSH_NONE, 1) : py_to_nested(inside, x, v);
    case RUSH_TYPE_LIST: return to_list(inside, x, v);
    case RUSH_TYPE_TUPLE: return to_tuple(inside, x, v);
    case RUSH_TYPE_DICT: return to_dict(inside, x, v);
    default: return rush_type_plain(type) < 0 ? py_to_object(type, x, v) : to_plain(rush_type_plain(type), x, v);
    }
}

static PyObject *from_list(rush_type_text items, const rush_value *v)
{
    PyObject *list = PyList_New(v->n);
    bool bools = rush_type_plain(items) == RUSH_A_BOOL;
    for (uint32_t i = 0; list && i < v->n; ++i) {
        PyObject *x = v->kind == RUSH_V_VALUES  ? py_from_nested(items, &v->values[i])
                    : v->kind == RUSH_V_TENSORS ? (v->tensors[i] ? py_wrap(v->tensors[i]) : py_ref(Py_None))
                    : v->kind == RUSH_V_FLOATS  ? PyFloat_FromDouble(v->floats[i])
                    : bools                     ? PyBool_FromLong(v->ints[i] != 0) : PyLong_FromLongLong(v->ints[i]);
        if (!x) Py_CLEAR(list);
        else PyList_SET_ITEM(list, i, x);
    }
    return list;
}

static PyObject *from_tuple(rush_type_text inside, const rush_value *v)
{
    PyObject *tuple = PyTuple_New(v->n);
    for (uint32_t i = 0; tuple && i < v->n; ++i, rush_type_next(&inside)) {
        PyObject *x = py_from_nested(inside, &v->values[i]);
        if (!x) Py_CLEAR(tuple);
        else PyTuple_SET_ITEM(tuple, i, x);
    }
    return tuple;
}

static PyObject *from_dict(rush_type_text keys, const rush_value *v)
{
    rush_type_text items = keys;
    PyObject *dict = rush_type_next(&items) ? PyDict_New() : NULL;
    for (uint32_t i = 0; dict && i < v->n; i += 2) {
        PyObject *key = py_from_nested(keys, &v->values[i]), *item = key ? py_from_nested(items, &v->values[i + 1]) : NULL;
        if (!item || PyDict_SetItem(dict, key, item)) Py_CLEAR(dict);
        Py_XDECREF(key);
        Py_XDECREF(item);
    }
    return dict;
}

PyObject *py_from_nested(rush_type_text type, const rush_value *v)
{
    rush_type_text inside;
    if (v->kind == RUSH_V_NONE) Py_RETURN_NONE;
    switch (rush_type_read(type, &inside)) {
    case RUSH_TYPE_OPTIONAL: return py_from_nested(inside, v);
    case RUSH_TYPE_LIST: return from_list(inside, v);
    case RUSH_TYPE_TUPLE: return from_tuple(inside, v);
    case RUSH_TYPE_DICT: return from_dict(inside, v);
    default: return py_from_value(v);
    }
}
