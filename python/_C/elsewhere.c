/* elsewhere.c - wrapper subclasses: tensors whose class says in __torch_dispatch__ what an operation on them does.
 *
 * The tensor behind such an object has sizes and a dtype but no memory (RUSH_ELSEWHERE). The road (api/call.c) opens composites
 * and records derivatives as for any tensor; in the place of shape rule and kernel it comes here with the operation, which
 * becomes the Python object torch.ops.aten.name.overload, and its arguments, less what is as the schema has it anyway.
 */
#include "ext.h"

static PyObject *forms[2]; /* the operation's address -> its Python object, as it is and in place */

static PyObject *find_form(const rush_op *op, bool inplace)
{
    const char *dot = strchr(op->name, '.'), *colon = strstr(op->base, "::");
    PyObject *space = PyUnicode_FromStringAndSize(colon ? op->base : "aten", colon ? colon - op->base : 4);
    PyObject *base = PyUnicode_FromFormat("%s%s", colon ? colon + 2 : op->base, inplace ? "_" : "");
    PyObject *module = PyImport_ImportModule("rushlight"), *f = module ? PyObject_GetAttrString(module, "ops") : NULL;
    if (f && space) Py_SETREF(f, PyObject_GetAttr(f, space));
    if (f && base) Py_SETREF(f, PyObject_GetAttr(f, base));
    if (f) Py_SETREF(f, PyObject_GetAttrString(f, dot ? dot + 1 : "default"));
    Py_XDECREF(module);
    Py_XDECREF(space);
    Py_XDECREF(base);
    return f;
}

/* torch.ops.aten.add.Tensor; borrowed */
static PyObject *python_form(const rush_op *op, bool inplace)
{
    if (!forms[inplace] && !(forms[inplace] = PyDict_New())) return NULL;
    PyObject *key = PyLong_FromVoidPtr((void *)op), *f = key ? PyDict_GetItemWithError(forms[inplace], key) : NULL;
    if (key && !f && !PyErr_Occurred() && (f = find_form(op, inplace))) {
        if (PyDict_SetItem(forms[inplace], key, f)) Py_CLEAR(f);
        Py_XDECREF(f); /* the dict has it */
    }
    Py_XDECREF(key);
    return f;
}

static bool is_default(const rush_arg *a, const rush_value *v)
{
    const rush_value *def = &a->def;
    if (!a->has_default || v->kind != def->kind) return false;
    switch (v->kind) {
    case RUSH_V_NONE: return true;
    case RUSH_V_FLOAT: return v->f == def->f;
    case RUSH_V_STRING: return !strcmp(v->s, def->s);
    case RUSH_V_INTS: return v->n == def->n && !memcmp(v->ints, def->ints, v->n * sizeof *v->ints);
    case RUSH_V_INT:
    case RUSH_V_BOOL:
    case RUSH_V_DTYPE:
    case RUSH_V_LAYOUT:
    case RUSH_V_MEMORY_FORMAT: return v->i == def->i;
    default: return false;
    }
}

/* The classes of the wrappers among the arguments, each once. */
static int add_class(PyObject *types, const rush_tensor *t)
{
    if (!t || t->layout != RUSH_ELSEWHERE) return 0;
    PyObject *x = py_wrap((rush_tensor *)t);
    int has = x ? PySequence_Contains(types, (PyObject *)Py_TYPE(x)) : -1;
    if (!has) has = PyList_Append(types, (PyObject *)Py_TYPE(x));
    Py_XDECREF(x);
    return has < 0 ? -1 : 0;
}

static int add_classes(PyObject *types, const rush_value *v)
{
    if (v->kind == RUSH_V_TENSOR) return add_class(types, v->t);
    for (uint32_t i = 0; v->kind == RUSH_V_TENSORS && i < v->n; ++i)
        if (add_class(types, v->tensors[i])) return -1;
    return 0;
}

/* Fills args and kwargs as a call in Python would be written. */
static int write_call(const rush_op *op, const rush_value *in, PyObject *types, PyObject *args, PyObject *kwargs)
{
    int last = -1;
    for (int i = 0; i < op->nargs; ++i)
        if (!op->args[i].kwonly && !is_default(&op->args[i], &in[i])) last = i;
    for (int i = 0; i < op->nargs; ++i) {
        const rush_arg *a = &op->args[i];
        if (add_classes(types, &in[i])) return -1;
        if (a->kwonly ? is_default(a, &in[i]) : i > last) continue;
        bool truth = a->type == RUSH_A_BOOL && in[i].kind == RUSH_V_INT;
        PyObject *x = truth ? PyBool_FromLong(in[i].i != 0) : py_from_value(&in[i]);
        int failed = !x || (a->kwonly ? PyDict_SetItemString(kwargs, a->name, x) : PyList_Append(args, x));
        Py_XDECREF(x);
        if (failed) return -1;
    }
    return 0;
}

static PyObject *ask(PyObject *func, PyObject *types, PyObject *args, PyObject *kwargs)
{
    PyObject *result = py_ref(Py_NotImplemented), *all = PyList_AsTuple(types), *positional = PyList_AsTuple(args);
    if (!all || !positional) Py_CLEAR(result);
    for (Py_ssize_t i = 0; result == Py_NotImplemented && i < PyList_GET_SIZE(types); ++i) {
        PyObject *dispatch = PyObject_GetAttrString(PyList_GET_ITEM(types, i), "__torch_dispatch__");
        Py_SETREF(result, dispatch ? PyObject_CallFunctionObjArgs(dispatch, func, all, positional, kwargs, NULL) : NULL);
        Py_XDECREF(dispatch);
    }
    if (result == Py_NotImplemented) {
        PyErr_Format(PyExc_TypeError, "Multiple dispatch failed for '%S'; all __torch_dispatch__ handlers returned NotImplemented", func);
        Py_CLEAR(result);
    }
    Py_XDECREF(all);
    Py_XDECREF(positional);
    return result;
}

static int run_elsewhere(rush_form form, const rush_op *op, const rush_value *in, rush_value *out)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *func = python_form(op, form == RUSH_FORM_INPLACE), *types = PyList_New(0), *args = PyList_New(0), *kwargs = PyDict_New(), *r = NULL;
    if (func && types && args && kwargs && !write_call(op, in, types, args, kwargs)) r = ask(func, types, args, kwargs);
    int failed = r ? 0 : -1;
    if (r && form == RUSH_FORM_CALL) failed = py_take_results(op, r, out);
    Py_XDECREF(r);
    Py_XDECREF(types);
    Py_XDECREF(args);
    Py_XDECREF(kwargs);
    if (failed) py_foreign();
    PyGILState_Release(gil);
    return failed;
}

/* ---- making one ---- */

static int read_sizes(PyObject *x, const char *what, int64_t *size, int *n)
{
    int ok = py_to_sizes(x, size, RUSH_MAXDIM, n);
    if (!ok) PyErr_Format(PyExc_TypeError, "_make_wrapper_subclass(): argument '%s' must be tuple of ints, not %s", what, py_type_name(x));
    return ok > 0 ? 0 : -1;
}

static bool has_dispatch(PyObject *cls)
{
    PyObject *own = PyObject_GetAttrString(cls, "__torch_dispatch__"), *none = PyObject_GetAttrString((PyObject *)py_Tensor, "__torch_dispatch__");
    bool has = own && none && own != none;
    Py_XDECREF(own);
    Py_XDECREF(none);
    PyErr_Clear();
    return has;
}

PyObject *py_make_wrapper_subclass(PyObject *unused, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"cls", "size", "strides", "storage_offset", "memory_format", "dtype", "layout", "device", "pin_memory", "requires_grad",
                            "dispatch_sizes_strides_policy", "dispatch_device", "dispatch_layout", "_extra_dispatch_keys", "storage_size", NULL};
    PyObject *cls, *sizes, *strides = Py_None, *dtype = Py_None, *device = Py_None, *offset = Py_None, *ignored[7];
    int64_t first = 0;
    int grad = 0, n, nstrides, d = rush_default_dtype();
    int64_t size[RUSH_MAXDIM], stride[RUSH_MAXDIM];
    rush_device at = {RUSH_CPU, -1};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|OO$OOOOOpOOOOO:_make_wrapper_subclass", names, &cls, &sizes, &strides, &offset, &ignored[0], &dtype,
                                     &ignored[1], &device, &ignored[2], &grad, &ignored[2], &ignored[3], &ignored[4], &ignored[5], &ignored[6])) return NULL;
    if (!PyType_Check(cls) || !PyType_IsSubtype((PyTypeObject *)cls, &py_type_TensorBase)) return PyErr_Format(PyExc_TypeError, "cls must be a type (got %s)", py_type_name(cls));
    if (!has_dispatch(cls)) return PyErr_Format(PyExc_TypeError, "%s must define __torch_dispatch__", ((PyTypeObject *)cls)->tp_name);
    if (read_sizes(sizes, "size", size, &n)) return NULL;
    if (strides != Py_None && read_sizes(strides, "strides", stride, &nstrides)) return NULL;
    if (strides == Py_None) rush_strides_for(RUSH_CONTIGUOUS, nstrides = n, size, stride);
    if (nstrides != n) return PyErr_Format(PyExc_RuntimeError, "a wrapper of %d sizes and %d strides", n, nstrides);
    if (dtype != Py_None && !py_to_dtype(dtype, &d)) return PyErr_Format(PyExc_TypeError, "_make_wrapper_subclass(): argument 'dtype' must be torch.dtype, not %s", py_type_name(dtype));
    int ok = device == Py_None ? 1 : py_to_device(device, &at);
    if (ok <= 0) return ok ? NULL : PyErr_Format(PyExc_TypeError, "_make_wrapper_subclass(): argument 'device' must be torch.device, not %s", py_type_name(device));
    if (offset != Py_None && (ok = py_to_int(offset, &first)) <= 0)
        return ok ? NULL : PyErr_Format(PyExc_TypeError, "_make_wrapper_subclass(): argument 'storage_offset' must be int, not %s", py_type_name(offset));
    size_t mark = rush_scope_open();
    rush_tensor *t = rush_tensor_elsewhere((rush_dtype)d, at, n, size, stride, first);
    if (t && grad) t = rush_requires_grad_set(t, true);
    PyObject *x = t ? py_wrap_as((PyTypeObject *)cls, t) : py_raise();
    rush_scope_close(mark);
    return x;
}

static PyObject *has_storage(PyObject *module, PyObject *x)
{
    rush_tensor *t = py_need_tensor(x, "_has_storage(): argument 'x'");
    return t ? PyBool_FromLong(!t->layout) : NULL;
}

static PyMethodDef functions[] = {
    {"_has_storage", has_storage, METH_O, "Has the tensor memory of its own? Sparse ones and wrappers have not."},
    {NULL},
};

int py_elsewhere_init(PyObject *module)
{
    rush_elsewhere_run = run_elsewhere;
    return PyModule_AddFunctions(module, functions);
}
