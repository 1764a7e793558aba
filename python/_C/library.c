/* library.c - the operations as torch.ops shows them, and what a Python function returns in their place. */
#include "call.h"

static PyObject *sequence(PyObject *x)
{
    return PySequence_Check(x) ? PySequence_Tuple(x) : PyErr_Format(PyExc_RuntimeError, "Object of type '%s' is not an instance of 'sequence'", py_type_name(x));
}

static int cannot_cast(const char *what, PyObject *x, const char *to) { return PyErr_Format(PyExc_RuntimeError, "%s %S to %s", what, x, to), -1; }

/* What a Python function returned for result i. */
static int take_result(const rush_op *op, PyObject *x, rush_value *out, int i)
{
    if (op->out_list >> i & 1) {
        PyObject *all = sequence(x);
        if (!all) return -1;
        Py_ssize_t n = PyTuple_GET_SIZE(all);
        rush_tensor **list = rush_out_list(out, i, (size_t)n);
        int failed = list ? 0 : -1;
        for (Py_ssize_t k = 0; !failed && k < n; ++k) {
            PyObject *item = PyTuple_GET_ITEM(all, k);
            list[k] = py_is_tensor(item) ? py_tensor_of(item) : NULL;
            failed = list[k] ? (rush_park(rush_keep(list[k])), 0) : cannot_cast("Unable to cast", item, "Tensor");
        }
        Py_DECREF(all);
        return failed;
    }
    if (op->out_types[i] == RUSH_A_TENSOR) {
        if (x == Py_None) return out[i] = RUSH_NONE, 0;
        rush_tensor *t = py_is_tensor(x) ? py_tensor_of(x) : NULL;
        if (!t) return cannot_cast("Unable to cast", x, "Tensor");
        out[i] = rush_v_tensor(rush_park(rush_keep(t)));
        return 0;
    }
    int ok = py_plain_number(x, &out[i]);
    return ok ? RUSH_MIN(ok - 1, 0) : cannot_cast("Cannot cast", x, "number");
}

int py_take_results(const rush_op *op, PyObject *r, rush_value *out)
{
    if (op->nout <= 1) return op->nout ? take_result(op, r, out, 0) : 0;
    PyObject *all = sequence(r);
    int failed = all ? 0 : -1;
    if (all && PyTuple_GET_SIZE(all) != op->nout)
        failed = (PyErr_Format(PyExc_RuntimeError, "%s: %d results were expected, got %zd", op->name, op->nout, PyTuple_GET_SIZE(all)), -1);
    for (int i = 0; !failed && i < op->nout; ++i) failed = take_result(op, PyTuple_GET_ITEM(all, i), out, i);
    Py_XDECREF(all);
    return failed;
}

static char *keep_text(const char *text, size_t n) /* lives as long as the callables */
{
    char *s = rush_malloc(n + 1);
    if (!s) return py_raise();
    memcpy(s, text, n);
    s[n] = 0;
    return s;
}

/* "aten::add" or "aten::add_" -> the name of the record and whether the in-place form is meant; NULL: none */
static const rush_op *find_qualified(const char *qualified, bool *inplace)
{
    const char *name = strncmp(qualified, "aten::", 6) ? qualified : qualified + 6;
    const rush_op *op = rush_op_find(name);
    size_t n = strlen(name);
    *inplace = false;
    if (op || n < 2 || name[n - 1] != '_') return op;
    char base[96];
    if (n >= sizeof base) return NULL;
    memcpy(base, name, n - 1);
    base[n - 1] = 0;
    *inplace = true;
    return py_has_inplace(base) ? rush_op_find(base) : NULL;
}

/* _jit_get_operation("aten::add") -> (a callable of all overloads, their names) */
static PyObject *get_operation(PyObject *module, PyObject *x)
{
    const char *qualified = PyUnicode_AsUTF8(x);
    bool inplace;
    const rush_op *op = qualified ? find_qualified(qualified, &inplace) : NULL;
    if (!qualified) return NULL;
    if (!op) return PyErr_Format(PyExc_RuntimeError, "No such operator %s", qualified);
    const char *colon = strrchr(qualified, ':'), *name = colon ? colon + 1 : qualified;
    char *kept = keep_text(name, strlen(name));
    PyObject *f = kept ? py_function(op->base, kept, "ops", inplace ? PY_INPLACE : 0) : NULL, *list = PyList_New(0);
    for (; op && list; op = op->next) {
        const char *dot = strchr(op->name, '.');
        PyObject *text = PyUnicode_FromString(dot ? dot + 1 : "");
        if (!text || PyList_Append(list, text)) Py_CLEAR(list);
        Py_XDECREF(text);
    }
    if (!f || !list) {
        Py_XDECREF(f);
        Py_XDECREF(list);
        return NULL;
    }
    return Py_BuildValue("NN", f, list);
}

/* _get_operation_overload("aten::add", "Tensor") -> (callable, the same, tags), or None */
static PyObject *get_overload(PyObject *module, PyObject *args)
{
    const char *qualified, *overload;
    bool inplace;
    if (!PyArg_ParseTuple(args, "ss", &qualified, &overload)) return NULL;
    for (const rush_op *op = find_qualified(qualified, &inplace); op; op = op->next) {
        const char *dot = strchr(op->name, '.');
        if (strcmp(dot ? dot + 1 : "", overload)) continue;
        PyObject *f = py_function(op->name, op->name, "ops", PY_ONLY | (inplace ? PY_INPLACE : 0));
        return f ? Py_BuildValue("NO[]", f, f) : NULL;
    }
    Py_RETURN_NONE;
}

/* _schemas(base) -> the schemas of its overloads */
static PyObject *schemas(PyObject *module, PyObject *x)
{
    const char *base = PyUnicode_AsUTF8(x);
    PyObject *list = base ? PyList_New(0) : NULL;
    for (const rush_op *op = list ? rush_op_find(base) : NULL; op && list; op = op->next) {
        PyObject *text = PyUnicode_FromString(op->schema);
        if (!text || PyList_Append(list, text)) Py_CLEAR(list);
        Py_XDECREF(text);
    }
    return list;
}

static PyObject *names(PyObject *module, PyObject *unused)
{
    PyObject *list = PyList_New(0);
    for (const rush_op *op = rush_op_first(); op && list; op = rush_op_next(op)) {
        PyObject *text = PyUnicode_FromString(op->name);
        if (!text || PyList_Append(list, text)) Py_CLEAR(list);
        Py_XDECREF(text);
    }
    return list;
}

/* _op_effects(name) -> bits: 1 writes arguments, 2 draws random numbers, 4 input or output, 8 elementwise by a row of the table */
static PyObject *op_effects(PyObject *module, PyObject *x)
{
    const char *name = PyUnicode_AsUTF8(x);
    const rush_op *op = name ? rush_op_find(name) : NULL;
    if (name && !op) return PyErr_Format(PyExc_RuntimeError, "No such operator %s", name);
    return op ? PyLong_FromLong((long)rush_op_effects(op) | (op->shape == rush_op_find("sin")->shape ? 8 : 0)) : NULL;
}

static PyMethodDef functions[] = {
    {"_op_effects", op_effects, METH_O, "What a call does beyond its results: 1 writes arguments, 2 draws random numbers, 4 input or output, 8 elementwise."},
    {"_jit_get_operation", get_operation, METH_O, "The callable of an operation by its qualified name, and the names of its overloads."},
    {"_get_operation_overload", get_overload, METH_VARARGS, "The callable of one overload."},
    {"_schemas", schemas, METH_O, "The schemas of all overloads of a name."},
    {"_op_names", names, METH_NOARGS, "The names of all operations, those of aten without it."},
    {NULL},
};

int py_library_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
