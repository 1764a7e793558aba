/* constants.c - torch.layout, torch.memory_format, torch.qscheme: named constants; torch.iinfo and torch.finfo. */
#include "ext.h"
#include "base/text.h"
#include <float.h>
#include <math.h>

typedef struct constant {
    PyObject_HEAD
    const char *name;
    int value;
} constant;

static PyObject *constant_repr(PyObject *self) { return PyUnicode_FromFormat("torch.%s", ((constant *)self)->name); }
static PyObject *constant_reduce(PyObject *self, PyObject *unused) { return PyUnicode_FromString(((constant *)self)->name); }
static PyObject *constant_module(PyObject *self, void *unused) { return PyUnicode_FromString(py_public_name()); }

static PyMethodDef constant_methods[] = {{"__reduce__", constant_reduce, METH_NOARGS, NULL}, {NULL}};
static PyGetSetDef constant_getset[] = {{"__module__", constant_module, NULL, NULL}, {NULL}};

#define CONSTANT_TYPE(what, text)                                                                            \
    PyTypeObject py_type_##what = {                                                                          \
        PyVarObject_HEAD_INIT(NULL, 0).tp_name = "rushlight." #what, .tp_basicsize = sizeof(constant),           \
        .tp_flags = Py_TPFLAGS_DEFAULT, .tp_doc = text, .tp_repr = constant_repr,                            \
        .tp_methods = constant_methods, .tp_getset = constant_getset,                                        \
    };
CONSTANT_TYPE(layout, "How a tensor keeps its elements: strided, or one of the sparse forms.")
CONSTANT_TYPE(memory_format, "The order in which the dimensions of a dense tensor lie in memory.")
CONSTANT_TYPE(qscheme, "How a quantized tensor maps integers to numbers.")

static constant layouts[] = {{.name = "strided", .value = RUSH_STRIDED}, {.name = "sparse_coo", .value = RUSH_SPARSE_COO},
                             {.name = "sparse_csr", .value = RUSH_SPARSE_CSR}, {.name = "sparse_csc", .value = RUSH_SPARSE_CSC},
                             {.name = "sparse_bsr", .value = RUSH_SPARSE_BSR}, {.name = "sparse_bsc", .value = RUSH_SPARSE_BSC},
                             {.name = "jagged", .value = PY_NO_LAYOUT}, {.name = "_mkldnn", .value = PY_NO_LAYOUT}}; /* names, without tensors */
static constant formats[] = {{.name = "contiguous_format", .value = RUSH_CONTIGUOUS}, {.name = "preserve_format", .value = RUSH_PRESERVE},
                             {.name = "channels_last", .value = RUSH_CHANNELS_LAST}, {.name = "channels_last_3d", .value = RUSH_CHANNELS_LAST_3D}};
static constant schemes[] = {{.name = "per_tensor_affine", .value = 0}, {.name = "per_channel_affine", .value = 1},
                             {.name = "per_tensor_symmetric", .value = 2}, {.name = "per_channel_symmetric", .value = 3},
                             {.name = "per_channel_affine_float_qparams", .value = 4}};

int py_constant_value(PyObject *x) { return ((constant *)x)->value; }
PyObject *py_layout(int i) { return py_ref((PyObject *)&layouts[i]); }
PyObject *py_memory_format(int i) { return py_ref((PyObject *)&formats[i]); }
PyObject *py_qscheme(int i) { return py_ref((PyObject *)&schemes[i]); }

static int publish(PyObject *module, constant *all, size_t n, PyTypeObject *type)
{
    if (PyType_Ready(type)) return -1;
    for (size_t i = 0; i < n; ++i) {
        PyObject_Init((PyObject *)&all[i], type);
        if (py_add(module, all[i].name, py_ref((PyObject *)&all[i]))) return -1;
    }
    return py_add(module, strchr(type->tp_name, '.') + 1, py_ref((PyObject *)type));
}

/* ---- iinfo, finfo ---- */

typedef struct info {
    PyObject_HEAD
    int dtype;
} info;
#define INFO(x) (&rush_dtypes[((info *)(x))->dtype])

static PyObject *info_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"type", NULL};
    bool whole = !strcmp(type->tp_name, "torch.iinfo");
    PyObject *x = NULL;
    int d = rush_default_dtype();
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, whole ? "O:iinfo" : "|O:finfo", names, &x)) return NULL;
    if (x && !py_to_dtype(x, &d)) return PyErr_Format(PyExc_TypeError, "%s(): argument 'type' must be torch.dtype, not %s", strchr(type->tp_name, '.') + 1, py_type_name(x));
    if (!whole && rush_dtypes[d].category == 3) d = rush_dtype_real(d);
    if (whole && rush_dtypes[d].category == 0) return PyErr_Format(PyExc_TypeError, "torch.bool is not supported by torch.iinfo");
    if (whole && rush_dtypes[d].category != 1) return PyErr_Format(PyExc_TypeError, "torch.iinfo() requires an integer input type. Use torch.finfo to handle '%s'", rush_dtypes[d].name);
    if (!whole && rush_dtypes[d].category != 2) return PyErr_Format(PyExc_TypeError, "torch.finfo() requires a floating point input type. Use torch.iinfo to handle '%s'", rush_dtypes[d].name);
    info *self = PyObject_New(info, type);
    if (self) self->dtype = d;
    return (PyObject *)self;
}

static void info_dealloc(PyObject *self) { PyObject_Free(self); }

static PyObject *info_compare(PyObject *a, PyObject *b, int op)
{
    if (Py_TYPE(a) != Py_TYPE(b) || (op != Py_EQ && op != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
    return PyBool_FromLong((((info *)a)->dtype == ((info *)b)->dtype) == (op == Py_EQ));
}

static PyObject *info_bits(PyObject *self, void *unused) { return PyLong_FromLong(INFO(self)->size * 8); }
static PyObject *info_dtype(PyObject *self, void *unused) { return PyUnicode_FromString(INFO(self)->name); }

static PyObject *whole_min(PyObject *self, void *unused)
{
    return PyLong_FromLongLong(INFO(self)->is_signed ? (long long)(~0ull << (INFO(self)->size * 8 - 1)) : 0);
}
static PyObject *whole_max(PyObject *self, void *unused)
{
    return PyLong_FromUnsignedLongLong(~0ull >> (64 - INFO(self)->size * 8 + INFO(self)->is_signed));
}

static PyObject *float_min(PyObject *self, void *unused) { return PyFloat_FromDouble(INFO(self)->min); }
static PyObject *float_max(PyObject *self, void *unused) { return PyFloat_FromDouble(INFO(self)->max); }
static PyObject *float_eps(PyObject *self, void *unused) { return PyFloat_FromDouble(INFO(self)->eps); }
static PyObject *float_tiny(PyObject *self, void *unused) { return PyFloat_FromDouble(INFO(self)->tiny); }
static double resolution(const rush_dtype_info *d) { return pow(10, -floor(-log10(d->eps))); }
static PyObject *float_resolution(PyObject *self, void *unused) { return PyFloat_FromDouble(resolution(INFO(self))); }

static PyObject *whole_repr(PyObject *self)
{
    PyObject *lo = whole_min(self, NULL), *hi = whole_max(self, NULL);
    PyObject *text = lo && hi ? PyUnicode_FromFormat("iinfo(min=%S, max=%S, dtype=%s)", lo, hi, INFO(self)->name) : NULL;
    Py_XDECREF(lo);
    Py_XDECREF(hi);
    return text;
}

static PyObject *float_repr(PyObject *self)
{
    const rush_dtype_info *d = INFO(self);
    char text[320];
    rush_snprintf(text, sizeof text, "finfo(resolution=%g, min=%g, max=%g, eps=%g, smallest_normal=%g, tiny=%g, dtype=%s)", resolution(d),
             d->min, d->max, d->eps, d->tiny, d->tiny, d->name);
    return PyUnicode_FromString(text);
}

static PyGetSetDef whole_getset[] = {
    {"bits", info_bits, NULL, NULL}, {"min", whole_min, NULL, NULL}, {"max", whole_max, NULL, NULL}, {"dtype", info_dtype, NULL, NULL}, {NULL},
};
static PyGetSetDef float_getset[] = {
    {"bits", info_bits, NULL, NULL}, {"min", float_min, NULL, NULL}, {"max", float_max, NULL, NULL}, {"eps", float_eps, NULL, NULL},
    {"tiny", float_tiny, NULL, NULL}, {"smallest_normal", float_tiny, NULL, NULL}, {"resolution", float_resolution, NULL, NULL},
    {"dtype", info_dtype, NULL, NULL}, {NULL},
};
static PyTypeObject type_iinfo = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "torch.iinfo", .tp_basicsize = sizeof(info), .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "The range of an integer dtype.", .tp_new = info_new, .tp_dealloc = info_dealloc, .tp_repr = whole_repr,
    .tp_richcompare = info_compare, .tp_getset = whole_getset,
};
static PyTypeObject type_finfo = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "torch.finfo", .tp_basicsize = sizeof(info), .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "The range and precision of a floating point dtype.", .tp_new = info_new, .tp_dealloc = info_dealloc, .tp_repr = float_repr,
    .tp_richcompare = info_compare, .tp_getset = float_getset,
};

int py_constants_init(PyObject *module)
{
    if (PyType_Ready(&type_iinfo) || PyType_Ready(&type_finfo)) return -1;
    return publish(module, layouts, RUSH_COUNT(layouts), &py_type_layout) || publish(module, formats, RUSH_COUNT(formats), &py_type_memory_format) ||
                   publish(module, schemes, RUSH_COUNT(schemes), &py_type_qscheme) || py_add(module, "iinfo", py_ref((PyObject *)&type_iinfo)) ||
                   py_add(module, "finfo", py_ref((PyObject *)&type_finfo))
               ? -1 : 0;
}
