/* legacy.c - the old constructors: Tensor(2, 3), FloatTensor([1, 2]), x.new(...). */
#include "ext.h"
#include "op/formula.h"
#include "ops/create/factory.h"

/* Nothing, sizes, a Size, a storage, a tensor of the same type, or data. */
static rush_tensor *make(int dtype, rush_device device, PyObject *args)
{
    Py_ssize_t n = PyTuple_GET_SIZE(args);
    int64_t size[RUSH_MAXDIM] = {0};
    int ndim = 1;
    PyObject *x = n ? PyTuple_GET_ITEM(args, 0) : NULL;
    if (n == 1) {
        if (py_is_tensor(x)) {
            rush_tensor *t = py_tensor_of(x);
            if (t->dtype != dtype) return PyErr_Format(PyExc_TypeError, "expected %s (got %s)", rush_dtypes[dtype].name, rush_dtypes[t->dtype].name), NULL;
            t = T("alias", V(t));
            return t ? t : py_raise();
        }
        rush_storage *s = py_any_storage_of(x);
        if (PyErr_Occurred()) return NULL;
        if (s) {
            if (!py_storage_fits(x, dtype)) return NULL;
            size[0] = (int64_t)(s->nbytes / rush_dtypes[dtype].size);
            rush_tensor *t = rush_tensor_over(s, dtype, 1, size, (int64_t[]){1}, 0);
            return t ? t : py_raise();
        }
        int64_t i;
        int ok = Py_TYPE(x) == &py_type_Size ? 0 : py_to_int(x, &i);
        if (ok < 0) return NULL;
        if (!ok && Py_TYPE(x) != &py_type_Size && !PySequence_Check(x)) return PyErr_Format(PyExc_TypeError, "new(): data must be a sequence (got %s)", py_type_name(x)), NULL;
        if (!ok && Py_TYPE(x) != &py_type_Size) return py_tensor_from_data(x, dtype, device, true);
    }
    if (n) {
        int ok = py_to_sizes(Py_TYPE(x) == &py_type_Size && n == 1 ? x : args, size, RUSH_MAXDIM, &ndim);
        if (ok < 0) return NULL;
        if (!ok) return PyErr_Format(PyExc_TypeError, "new() received an invalid combination of arguments: sizes or a sequence were expected, got %s", py_type_name(x)), NULL;
    }
    rush_tensor *t = rush_tensor_new(dtype, device, ndim, size);
    if (t && device.type == RUSH_CPU) rush_fresh_fill(t);
    return t ? t : py_raise();
}

PyObject *py_legacy_make(PyTypeObject *cls, int dtype, rush_device device, PyObject *args, PyObject *kwargs)
{
    PyObject *key, *value, *built = NULL;
    Py_ssize_t at = 0;
    bool placed = false;
    const rush_device own = {device.type, -1};
    while (kwargs && PyDict_Next(kwargs, &at, &key, &value)) {
        if (!PyUnicode_CompareWithASCIIString(key, "device")) {
            if (value != Py_None && py_to_device(value, &device) <= 0)
                return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "new(): argument 'device' must be torch.device, not %s", py_type_name(value));
            if (device.type != own.type)
                return PyErr_Format(PyExc_RuntimeError, "legacy constructor expects device type: %s but device type: %s was passed", rush_device_text(own), rush_device_text(device));
            if (py_device_ready(device)) return NULL;
            placed = value != Py_None;
        } else if (!PyUnicode_CompareWithASCIIString(key, "data") || !PyUnicode_CompareWithASCIIString(key, "other")) {
            if (!(built = PyTuple_Pack(1, value))) return NULL;
        } else if (!PyUnicode_CompareWithASCIIString(key, "size")) {
            if (!PyTuple_Check(value) && !PyList_Check(value))
                return PyErr_Format(PyExc_TypeError, "new(): argument 'size' must be tuple of ints, not %s", py_type_name(value));
            if (!(built = PySequence_Tuple(value))) return NULL;
        } else {
            return PyErr_Format(PyExc_TypeError, "new() got an unexpected keyword argument '%U'", key);
        }
    }
    PyObject *given = built ? built : args;
    if (placed && PyTuple_GET_SIZE(given) == 1 && py_is_tensor(PyTuple_GET_ITEM(given, 0))) {
        Py_XDECREF(built);
        return PyErr_Format(PyExc_RuntimeError, "Legacy tensor constructor of a tensor with a device is not supported. Use torch.tensor(...) or torch.as_tensor(...) instead.");
    }
    size_t mark = rush_scope_open();
    rush_tensor *t = make(dtype, device, given);
    PyObject *x = t ? py_wrap_as(cls, t) : NULL;
    rush_scope_close(mark);
    Py_XDECREF(built);
    return x;
}

PyObject *py_legacy_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    if (type == &py_type_TensorBase && py_Tensor != type) return PyErr_Format(PyExc_RuntimeError, "Cannot create a TensorBase directly; use Tensor");
    /* Tensor(tensor) is another tensor of the same memory, whatever its dtype. */
    PyObject *other = PyTuple_GET_SIZE(args) == 1 ? PyTuple_GET_ITEM(args, 0) : NULL;
    int dtype = other && py_is_tensor(other) ? (int)py_tensor_of(other)->dtype : (int)rush_default_dtype();
    return py_legacy_make(type, dtype, (rush_device){RUSH_CPU, -1}, args, kwargs); /* the default device is that of functions */
}

/* ---- torch.FloatTensor and its like: callable, and asked by isinstance() ---- */

typedef struct tensor_type {
    PyObject_HEAD
    int dtype;
    bool cuda, sparse;
    char name[48]; /* "torch.FloatTensor" */
} tensor_type;

/* torch.sparse.FloatTensor(...): written in Python, beside sparse_coo_tensor. */
PyObject *py_legacy_sparse(int dtype, PyObject *args)
{
    PyObject *module = PyImport_ImportModule("rushlight.sparse._construct"), *d = module ? py_dtype(dtype) : NULL;
    PyObject *result = d ? PyObject_CallMethod(module, "legacy", "OO", d, args) : NULL;
    Py_XDECREF(d);
    Py_XDECREF(module);
    return result;
}

static PyObject *type_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    tensor_type *x = (tensor_type *)self;
    if (x->cuda) return PyErr_Format(PyExc_TypeError, "type %s not available. Torch not compiled with CUDA enabled.", x->name);
    if (x->sparse) return py_legacy_sparse(x->dtype, args);
    return py_legacy_make(py_Tensor, x->dtype, (rush_device){RUSH_CPU, -1}, args, kwargs);
}

static PyObject *type_repr(PyObject *self) { return PyUnicode_FromFormat("<class '%s'>", ((tensor_type *)self)->name); }
static PyObject *type_name(PyObject *self, void *unused) { return PyUnicode_FromString(strrchr(((tensor_type *)self)->name, '.') + 1); }
static PyObject *type_module(PyObject *self, void *unused)
{
    const char *name = ((tensor_type *)self)->name, *dot = strrchr(name, '.');
    return PyUnicode_FromFormat("%s%s", py_public_name(), dot - name > 5 ? ".cuda" : "");
}
static PyObject *type_dtype(PyObject *self, void *unused) { return py_dtype(((tensor_type *)self)->dtype); }
static PyObject *type_cuda(PyObject *self, void *unused) { return PyBool_FromLong(((tensor_type *)self)->cuda); }
static PyObject *type_layout(PyObject *self, void *unused) { return py_layout(((tensor_type *)self)->sparse ? RUSH_SPARSE_COO : RUSH_STRIDED); }
static PyObject *type_reduce(PyObject *self, PyObject *unused) { return type_name(self, NULL); }

static PyObject *type_instance(PyObject *self, PyObject *x)
{
    tensor_type *type = (tensor_type *)self;
    rush_tensor *t = py_is_tensor(x) ? py_tensor_of(x) : NULL;
    return PyBool_FromLong(t && t->dtype == type->dtype && (t->device.type == RUSH_CUDA) == type->cuda && (t->layout == RUSH_SPARSE_COO) == type->sparse);
}

static PyMethodDef type_methods[] = {{"__instancecheck__", type_instance, METH_O, NULL}, {"__reduce__", type_reduce, METH_NOARGS, NULL}, {NULL}};
static PyGetSetDef type_getset[] = {{"dtype", type_dtype, NULL, NULL}, {"is_cuda", type_cuda, NULL, NULL}, {"layout", type_layout, NULL, NULL},
                                    {"__name__", type_name, NULL, NULL}, {"__qualname__", type_name, NULL, NULL}, {"__module__", type_module, NULL, NULL}, {NULL}};
/* torch.LongTensor | None, in annotations: what typing.Union says. */
static PyObject *type_or(PyObject *a, PyObject *b)
{
    PyObject *typing = PyImport_ImportModule("typing"), *u = typing ? PyObject_GetAttrString(typing, "Union") : NULL, *pair = u ? PyTuple_Pack(2, a, b) : NULL;
    PyObject *both = pair ? PyObject_GetItem(u, pair) : NULL;
    Py_XDECREF(pair);
    Py_XDECREF(u);
    Py_XDECREF(typing);
    return both;
}
static PyNumberMethods type_number = {.nb_or = type_or};

/* `class X(torch.FloatTensor)` calls the class of its base, as type(name, bases, dict) does. */
static PyObject *type_derived(PyTypeObject *own, PyObject *args, PyObject *kwargs)
{
    PyObject *bases = PyTuple_GET_SIZE(args) > 1 ? PyTuple_GET_ITEM(args, 1) : NULL;
    for (Py_ssize_t i = 0; bases && PyTuple_Check(bases) && i < PyTuple_GET_SIZE(bases); ++i)
        if (Py_TYPE(PyTuple_GET_ITEM(bases, i)) == own) return PyErr_Format(PyExc_TypeError, "type '%s' is not an acceptable base type", ((tensor_type *)PyTuple_GET_ITEM(bases, i))->name);
    return PyErr_Format(PyExc_TypeError, "cannot create '%s' instances", own->tp_name);
}

static PyTypeObject type_tensortype = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "torch.tensortype",
    .tp_basicsize = sizeof(tensor_type),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "A class of tensors by dtype and device, of old.",
    .tp_new = type_derived,
    .tp_call = type_call,
    .tp_as_number = &type_number,
    .tp_repr = type_repr,
    .tp_methods = type_methods,
    .tp_getset = type_getset,
};

/* tensortype("torch.FloatTensor"): made by the package for each name that it exports */
static PyObject *make_type(PyObject *module, PyObject *name)
{
    const char *text = PyUnicode_AsUTF8(name), *last = text ? strrchr(text, '.') : NULL;
    int dtype = last ? py_legacy_dtype(last + 1) : -1;
    if (!text) return NULL;
    if (dtype < 0 || strlen(text) >= sizeof ((tensor_type *)0)->name) return PyErr_Format(PyExc_ValueError, "invalid type: '%s'", text);
    tensor_type *x = PyObject_New(tensor_type, &type_tensortype);
    if (!x) return NULL;
    x->dtype = dtype;
    x->cuda = strstr(text, ".cuda.") != NULL;
    x->sparse = strstr(text, ".sparse.") != NULL;
    strcpy(x->name, text);
    return (PyObject *)x;
}

static PyMethodDef functions[] = {{"_make_tensortype", make_type, METH_O, "The class of old that goes by a name."}, {NULL}};

int py_legacy_init(PyObject *module)
{
    if (PyType_Ready(&type_tensortype)) return -1;
    return py_add(module, "tensortype", py_ref((PyObject *)&type_tensortype)) || PyModule_AddFunctions(module, functions) ? -1 : 0;
}
