/* values.c - numbers and lists between Python and boxed values. */
#include "ext.h"
#include "op/watch.h"

const char *py_type_name(PyObject *x)
{
    if (py_is_tensor(x) && Py_TYPE(x) == py_Tensor) return "Tensor";
    const char *name = Py_TYPE(x)->tp_name, *dot = strrchr(name, '.');
    if (!strncmp(name, "rushlight.", 10) || !strncmp(name, "torch.", 6)) { /* by their public name, whichever it is now */
        static _Thread_local char text[4][64];
        static _Thread_local int next;
        return snprintf(text[next = (next + 1) % 4], sizeof text[0], "torch%s", strchr(name, '.')), text[next];
    }
    return dot && !(Py_TYPE(x)->tp_flags & Py_TPFLAGS_HEAPTYPE) ? name : dot ? dot + 1 : name;
}

rush_tensor *py_need_tensor(PyObject *x, const char *what)
{
    if (py_is_tensor(x) && py_tensor_of(x)) return py_tensor_of(x);
    return PyErr_Format(PyExc_TypeError, "%s must be a Tensor, not %s", what, py_type_name(x)), NULL;
}

/* ---- numbers in ---- */

int py_to_bool(PyObject *x, rush_value *v)
{
    if (PyBool_Check(x)) return *v = rush_v_bool(x == Py_True), 1;
    if (!py_is_numpy_scalar(x)) return 0;
    return py_plain_number(x, v) > 0 && v->kind == RUSH_V_BOOL;
}

int py_need_bool(PyObject *x, const char *what)
{
    rush_value v;
    if (py_to_bool(x, &v)) return v.i != 0;
    return PyErr_Format(PyExc_TypeError, "%s must be bool, not %s", what, py_type_name(x)), -1;
}

static inline int whole(PyObject *x, int64_t *out)
{
    int over;
    long long n = PyLong_AsLongLongAndOverflow(x, &over);
    if (RUSH_UNLIKELY(over)) return PyErr_SetString(PyExc_RuntimeError, "Overflow when unpacking long long"), -1;
    if (n == -1 && PyErr_Occurred()) return -1;
    *out = n;
    return 1;
}

static bool takes_gradient(const rush_tensor *t) { return t->ag && rush_wants_grad(t); }

/* As a number: what only 64 bits without a sign hold is marked as that (op/op.h). */
static int whole_number(PyObject *x, rush_value *out)
{
    int over;
    long long n = PyLong_AsLongLongAndOverflow(x, &over);
    if (RUSH_UNLIKELY(over)) {
        n = (long long)PyLong_AsUnsignedLongLong(x);
        if (PyErr_Occurred()) return -1;
    }
    if (n == -1 && PyErr_Occurred()) return -1;
    *out = rush_v_int(n);
    out->n = over != 0;
    return 1;
}

RUSH_HOT int py_to_int(PyObject *x, int64_t *out)
{
    if (PyLong_CheckExact(x)) return whole(x, out);
    if (PyBool_Check(x) || PyFloat_Check(x) || x == Py_None) return 0;
    if (py_is_tensor(x)) {
        rush_tensor *t = py_tensor_of(x);
        if (!t || t->numel != 1 || rush_dtypes[t->dtype].category != 1 || takes_gradient(t)) return 0;
        if (py_is_seen(t) && !py_tracing()) {
            PyObject *number = py_item(x, NULL);
            int ok = number ? whole(number, out) : -1;
            Py_XDECREF(number);
            return ok;
        }
        *out = rush_item_int(t);
        if (*out < 0 && t->dtype == RUSH_U64) return PyErr_SetString(PyExc_RuntimeError, "Overflow when unpacking long long"), -1;
        if (RUSH_UNLIKELY(py_traces)) py_trace_number(out, -1, x);
        return rush_failed() ? py_raise_int() : 1;
    }
    if (RUSH_UNLIKELY(py_traces) && py_is_symbol(x)) {
        rush_value v;
        int ok = py_symbol_number(x, &v);
        if (ok <= 0 || v.kind != RUSH_V_INT) return RUSH_MIN(ok, 0);
        *out = v.i;
        py_trace_number(out, -1, x);
        return 1;
    }
    if (!PyIndex_Check(x)) return 0;
    if (py_is_numpy_scalar(x) && !strncmp(Py_TYPE(x)->tp_name, "numpy.bool", 10)) return 0;
    PyObject *i = PyNumber_Index(x);
    if (!i) {
        if (PyErr_ExceptionMatches(PyExc_TypeError)) return PyErr_Clear(), 0;
        return -1;
    }
    int ok = whole(i, out);
    Py_DECREF(i);
    return ok;
}

int py_plain_number(PyObject *x, rush_value *out)
{
    if (PyFloat_CheckExact(x)) return *out = rush_v_float(PyFloat_AS_DOUBLE(x)), 1;
    if (PyLong_CheckExact(x)) return whole_number(x, out);
    if (PyBool_Check(x)) return *out = rush_v_bool(x == Py_True), 1;
    if (RUSH_UNLIKELY(py_traces) && py_is_symbol(x)) return py_symbol_number(x, out);
    if (x == Py_None || PyUnicode_Check(x) || PyTuple_Check(x) || PyList_Check(x) || py_is_tensor(x)) return 0;
    if (PyComplex_Check(x)) {
        Py_complex c = PyComplex_AsCComplex(x);
        *out = (rush_value){.kind = RUSH_V_COMPLEX, .c = {c.real, c.imag}};
        return 1;
    }
    if (PyFloat_Check(x)) return *out = rush_v_float(PyFloat_AS_DOUBLE(x)), 1;
    if (PyLong_Check(x)) return whole_number(x, out);
    if (py_is_numpy_scalar(x)) {
        PyObject *plain = py_numpy_scalar_item(x);
        if (!plain) return -1;
        int ok = Py_TYPE(plain) == Py_TYPE(x) ? 0 : py_plain_number(plain, out);
        Py_DECREF(plain);
        return ok;
    }
    return 0;
}

static rush_value element(const rush_tensor *t)
{
    char raw[16] = {0}, room[16];
    const void *first = rush_first_element(t, room);
    if (!first) return RUSH_NONE;
    rush_value v = RUSH_NONE;
    int lazy = t->flags & (RUSH_T_CONJ | RUSH_T_NEG);
    memcpy(raw, first, rush_dtypes[t->dtype].size);
    switch (rush_dtypes[t->dtype].category) {
    case 0: v = rush_v_bool(raw[0]); break;
    case 1:
        v = rush_v_int(0);
        rush_convert(&v.i, RUSH_I64, 0, raw, t->dtype, 0, 1);
        if (lazy & RUSH_T_NEG) v.i = -v.i;
        break;
    case 2:
        v = rush_v_float(0);
        rush_convert(&v.f, RUSH_F64, 0, raw, t->dtype, 0, 1);
        if (lazy & RUSH_T_NEG) v.f = -v.f;
        break;
    default:
        v.kind = RUSH_V_COMPLEX;
        rush_convert(v.c, RUSH_C128, 0, raw, t->dtype, 0, 1);
        if (lazy & RUSH_T_CONJ) v.c[1] = -v.c[1];
        if (lazy & RUSH_T_NEG) v.c[0] = -v.c[0], v.c[1] = -v.c[1];
    }
    return v;
}

int py_to_number(PyObject *x, rush_value *out)
{
    if (py_is_tensor(x)) {
        rush_tensor *t = py_tensor_of(x);
        if (!t || t->ndim || takes_gradient(t) || !rush_ptr(t)) return 0;
        *out = element(t);
        if (RUSH_UNLIKELY(py_traces)) py_trace_number(out, -1, x);
        return rush_failed() ? py_raise_int() : 1;
    }
    return py_plain_number(x, out);
}

int py_to_sizes(PyObject *x, int64_t *out, int room, int *n)
{
    if (!PyTuple_Check(x) && !PyList_Check(x)) {
        int ok = py_to_int(x, out);
        *n = 1;
        if (ok || !PySequence_Check(x) || PyUnicode_Check(x) || py_is_tensor(x)) return ok;
    }
    PyObject *all = PySequence_Tuple(x); /* no list, which an __index__ could change */
    if (!all) return -1;
    int ok = PyTuple_GET_SIZE(all) <= room;
    if (!ok) PyErr_Format(PyExc_NotImplementedError, "tensors have at most %d dimensions, not %zd", room, PyTuple_GET_SIZE(all)), ok = -1;
    for (Py_ssize_t i = 0; ok > 0 && i < PyTuple_GET_SIZE(all); ++i) ok = py_to_int(PyTuple_GET_ITEM(all, i), &out[i]);
    *n = (int)PyTuple_GET_SIZE(all);
    Py_DECREF(all);
    return ok;
}

/* ---- numbers and results out ---- */

PyObject *py_number_of(const rush_tensor *t, const void *p)
{
    switch (t->dtype) {
    case RUSH_F32: return PyFloat_FromDouble(t->flags & RUSH_T_NEG ? -*(const float *)p : *(const float *)p);
    case RUSH_F64: return PyFloat_FromDouble(t->flags & RUSH_T_NEG ? -*(const double *)p : *(const double *)p);
    case RUSH_I64: return PyLong_FromLongLong(*(const int64_t *)p);
    case RUSH_U64: return PyLong_FromUnsignedLongLong(*(const uint64_t *)p);
    case RUSH_BOOL: return PyBool_FromLong(*(const uint8_t *)p);
    default: {
        double c[2] = {0};
        int64_t i;
        switch (rush_dtypes[t->dtype].category) {
        case 1: rush_convert(&i, RUSH_I64, 0, p, t->dtype, 0, 1); return PyLong_FromLongLong(i);
        case 2: rush_convert(c, RUSH_F64, 0, p, t->dtype, 0, 1); return PyFloat_FromDouble(t->flags & RUSH_T_NEG ? -c[0] : c[0]);
        default:
            rush_convert(c, RUSH_C128, 0, p, t->dtype, 0, 1);
            if (t->flags & RUSH_T_CONJ) c[1] = -c[1];
            return t->flags & RUSH_T_NEG ? PyComplex_FromDoubles(-c[0], -c[1]) : PyComplex_FromDoubles(c[0], c[1]);
        }
    }
    }
}

PyObject *py_wrap_list(rush_tensor **t, size_t n, bool tuple)
{
    PyObject *list = tuple ? PyTuple_New((Py_ssize_t)n) : PyList_New((Py_ssize_t)n);
    for (size_t i = 0; list && i < n; ++i) {
        PyObject *x = py_wrap(t[i]);
        if (!x) {
            Py_DECREF(list);
            return NULL;
        }
        if (tuple) PyTuple_SET_ITEM(list, (Py_ssize_t)i, x);
        else PyList_SET_ITEM(list, (Py_ssize_t)i, x);
    }
    return list;
}

PyObject *py_from_value(const rush_value *v)
{
    PyObject *list;
    switch (v->kind) {
    case RUSH_V_NONE: Py_RETURN_NONE;
    case RUSH_V_TENSOR: return py_wrap(v->t);
    case RUSH_V_INT: return PyLong_FromLongLong(v->i);
    case RUSH_V_FLOAT: return PyFloat_FromDouble(v->f);
    case RUSH_V_BOOL: return PyBool_FromLong(v->i != 0);
    case RUSH_V_COMPLEX: return PyComplex_FromDoubles(v->c[0], v->c[1]);
    case RUSH_V_STRING: return PyUnicode_FromString(v->s);
    case RUSH_V_DTYPE: return py_dtype((int)v->i);
    case RUSH_V_DEVICE: return py_device(v->device);
    case RUSH_V_LAYOUT: return py_layout((int)v->i);
    case RUSH_V_MEMORY_FORMAT: return py_memory_format((int)v->i);
    case RUSH_V_GENERATOR: return py_generator(v->gen);
    case RUSH_V_OBJECT: return py_object(v->object);
    case RUSH_V_TENSORS: return py_wrap_list(v->tensors, v->n, false);
    default: break;
    }
    list = PyList_New(v->n);
    for (uint32_t i = 0; list && i < v->n; ++i) {
        PyObject *x = v->kind == RUSH_V_INTS ? PyLong_FromLongLong(v->ints[i]) : v->kind == RUSH_V_FLOATS ? PyFloat_FromDouble(v->floats[i])
                                                                                                       : py_from_value(&v->values[i]);
        if (!x) {
            Py_DECREF(list);
            return NULL;
        }
        PyList_SET_ITEM(list, i, x);
    }
    return list;
}
