/* types.c - torch.dtype, torch.device, torch.Size.
 *
 * A dtype is one object per rush_dtype, compared by identity. A device is a small value. Size is a tuple that
 * knows its product and stays a Size when sliced or added to.
 */
#include "ext.h"
#include "ops/create/factory.h"
#include "tensor/cuda.h"

static const char *public_name = "rushlight";

const char *py_public_name(void) { return public_name; }

static PyObject *public_module(PyObject *self, void *unused) { return PyUnicode_FromString(public_name); }

/* ---- dtype ---- */

typedef struct dtype_object {
    PyObject_HEAD
    int dtype; /* RUSH_DTYPES: one that only exists by name */
    const rush_dtype_info *info;
} dtype_object;

/* Names that files and packages mention, of which there are no tensors here. */
#define ONLY(name_, size_, category_, signed_) {.name = #name_, .word = #name_, .size = size_, .category = category_, .is_signed = signed_, .numpy = -1}
static const rush_dtype_info by_name_only[] = {
    ONLY(quint4x2, 1, 0, false), ONLY(quint2x4, 1, 0, false), ONLY(bits8, 1, 0, false), ONLY(bits16, 2, 0, false), ONLY(bits1x8, 1, 0, false),
    ONLY(bits2x4, 1, 0, false), ONLY(bits4x2, 1, 0, false), ONLY(float4_e2m1fn_x2, 1, 2, true), ONLY(uint1, 1, 1, false),
    ONLY(uint2, 1, 1, false), ONLY(uint3, 1, 1, false), ONLY(uint4, 1, 1, false), ONLY(uint5, 1, 1, false), ONLY(uint6, 1, 1, false),
    ONLY(uint7, 1, 1, false), ONLY(int1, 1, 1, true), ONLY(int2, 1, 1, true), ONLY(int3, 1, 1, true), ONLY(int4, 1, 1, true),
    ONLY(int5, 1, 1, true), ONLY(int6, 1, 1, true), ONLY(int7, 1, 1, true)};

static dtype_object dtypes[RUSH_DTYPES + RUSH_COUNT(by_name_only)];
#define DTYPE(x) (((dtype_object *)(x))->dtype)
#define INFO(x) (((dtype_object *)(x))->info)

PyObject *py_dtype(int d) { return py_ref((PyObject *)&dtypes[d]); }

int py_to_dtype(PyObject *x, int *out)
{
    if (Py_TYPE(x) == &py_type_dtype) return DTYPE(x) < RUSH_DTYPES ? (*out = DTYPE(x), 1) : 0;
    if (x == (PyObject *)&PyFloat_Type) return *out = RUSH_F64, 1;
    if (x == (PyObject *)&PyLong_Type) return *out = RUSH_I64, 1;
    if (x == (PyObject *)&PyBool_Type) return *out = RUSH_BOOL, 1;
    if (x == (PyObject *)&PyComplex_Type) return *out = RUSH_C128, 1;
    return 0;
}

static PyObject *dtype_repr(PyObject *self) { return PyUnicode_FromFormat("torch.%s", INFO(self)->name); }
static PyObject *dtype_reduce(PyObject *self, PyObject *unused) { return PyUnicode_FromString(INFO(self)->name); }
static PyObject *dtype_floating(PyObject *self, void *unused) { return PyBool_FromLong(INFO(self)->category == 2); }
static PyObject *dtype_complex(PyObject *self, void *unused) { return PyBool_FromLong(INFO(self)->category == 3); }
static PyObject *dtype_itemsize(PyObject *self, void *unused) { return PyLong_FromLong(INFO(self)->size); }
static PyObject *dtype_signed(PyObject *self, void *unused)
{
    const rush_dtype_info *d = INFO(self);
    if (*d->name == 'q') return PyErr_Format(PyExc_RuntimeError, "is_signed is not supported for quantized types, of which %s is one", d->name);
    if (!strncmp(d->name, "bits", 4)) return PyErr_Format(PyExc_RuntimeError, "Bits types are undefined: %s is neither signed nor unsigned", d->name);
    return PyBool_FromLong(DTYPE(self) != RUSH_F8E8M0FNU && (d->category >= 2 || d->is_signed));
}
static PyObject *dtype_word(PyObject *self, void *unused) { return PyUnicode_FromString(INFO(self)->word); }
/* f32, i64, u8, bf16, f8e4m3fn, b16x1: a letter and the rest of the name; what has less than a byte, and quantized types, keep theirs. */
static PyObject *dtype_abbr(PyObject *self, void *unused)
{
    const char *name = INFO(self)->name, *rest = name + strcspn(name, "0123456789");
    if (*name == 'q' || (DTYPE(self) >= RUSH_DTYPES && INFO(self)->category == 1)) return PyUnicode_FromString(name);
    char text[32];
    bool bits = !strncmp(name, "bits", 4);
    int n = snprintf(text, sizeof text, "%.*s%s", strncmp(name, "bf", 2) ? 1 : 2, name, *rest ? rest : "8");
    if (bits && !strchr(text, 'x')) snprintf(text + n, sizeof text - (size_t)n, "x1");
    char *to = text;
    for (const char *from = text; (*to = *from); ++from) to += *from != '_';
    return PyUnicode_FromString(text);
}
static PyObject *dtype_onnx(PyObject *self, void *unused) { return PyLong_FromLong(INFO(self)->onnx); }
static PyObject *dtype_storage(PyObject *self, void *unused) { return INFO(self)->storage ? PyUnicode_FromFormat("%sStorage", INFO(self)->word) : py_ref(Py_None); }
static PyObject *dtype_to_real(PyObject *self, PyObject *unused) { return DTYPE(self) < RUSH_DTYPES ? py_dtype(rush_dtype_real(DTYPE(self))) : py_ref(self); }
static PyObject *dtype_to_complex(PyObject *self, PyObject *unused)
{
    int d = DTYPE(self);
    bool has = d == RUSH_F16 || d == RUSH_BF16 || d == RUSH_F32 || d == RUSH_F64 || (d < RUSH_DTYPES && rush_dtype_is_complex(d));
    return has ? py_dtype(rush_dtype_complex(d)) : PyErr_Format(PyExc_RuntimeError, "Unknown Complex ScalarType for %s", INFO(self)->word);
}

static PyGetSetDef dtype_getset[] = {
    {"is_floating_point", dtype_floating, NULL, "Is it a real floating point type?"},
    {"is_complex", dtype_complex, NULL, "Is it a complex type?"},
    {"is_signed", dtype_signed, NULL, "Can it be negative?"},
    {"itemsize", dtype_itemsize, NULL, "Bytes per element."},
    {"abbr", dtype_abbr, NULL, "Its name in short: f32."},
    {"_word", dtype_word, NULL, "What messages and classes of old call it: Float."},
    {"_storage", dtype_storage, NULL, "The name of its storage class, or None."},
    {"_onnx", dtype_onnx, NULL, "ONNX's number of it; 0: none."},
    {"__module__", public_module, NULL, NULL},
    {NULL},
};
static PyMethodDef dtype_methods[] = {
    {"to_real", dtype_to_real, METH_NOARGS, "The type of the real part."},
    {"to_complex", dtype_to_complex, METH_NOARGS, "The complex type with parts of this type."},
    {"__reduce__", dtype_reduce, METH_NOARGS, NULL},
    {NULL},
};
PyTypeObject py_type_dtype = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "rushlight.dtype",
    .tp_basicsize = sizeof(dtype_object),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "The type of a tensor's elements.",
    .tp_repr = dtype_repr,
    .tp_methods = dtype_methods,
    .tp_getset = dtype_getset,
};

/* ---- device ---- */

typedef struct device_object {
    PyObject_HEAD
    rush_device device;
    PyObject *outer; /* the default devices that `with` replaced, a list */
} device_object;

#define DEVICE(x) (((device_object *)(x))->device)

rush_device py_default_device;
bool py_default_device_set;

PyObject *py_device(rush_device d)
{
    device_object *x = PyObject_New(device_object, &py_type_device);
    if (!x) return NULL;
    x->device = d;
    x->outer = NULL;
    return (PyObject *)x;
}

static int parse_device(const char *text, rush_device *out)
{
    const char *colon = strchr(text, ':');
    size_t n = colon ? (size_t)(colon - text) : strlen(text);
    for (int i = 0; i < RUSH_DEVICES; ++i) {
        const char *name = rush_device_name(i);
        if (strncmp(name, text, n) || name[n] || n == 0 || *name == '?') continue;
        char *end = NULL;
        long index = colon ? strtol(colon + 1, &end, 10) : -1;
        if (colon && (colon[1] < '0' || colon[1] > '9' || *end || index < 0 || index > 127 || (colon[1] == '0' && colon[2]))) break;
        *out = (rush_device){(uint8_t)i, (int8_t)index};
        return 1;
    }
    if (colon || !n || text[strspn(text, "abcdefghijklmnopqrstuvwxyz_ABCDEFGHIJKLMNOPQRSTUVWXYZ")]) PyErr_Format(PyExc_RuntimeError, "Invalid device string: '%s'", text);
    else PyErr_Format(PyExc_RuntimeError, "Expected one of cpu, cuda, ipu, xpu, mkldnn, opengl, opencl, ideep, hip, ve, fpga, maia, xla, lazy, "
                      "vulkan, mps, meta, hpu, mtia, %s device type at start of device string: %s", rush_device_name(RUSH_PRIVATEUSEONE), text);
    return -1;
}

int py_to_device(PyObject *x, rush_device *out)
{
    if (Py_TYPE(x) == &py_type_device) return *out = DEVICE(x), 1;
    if (PyUnicode_Check(x)) {
        const char *text = PyUnicode_AsUTF8(x);
        return text ? parse_device(text, out) : -1;
    }
    if (PyLong_Check(x) && !PyBool_Check(x)) {
        long index = PyLong_AsLong(x);
        if (index == -1 && PyErr_Occurred()) return -1;
        if (index < 0 || index > 127) return PyErr_Format(PyExc_RuntimeError, "Device index must not be negative, nor above 127, but is %ld", index), -1;
        *out = (rush_device){RUSH_CUDA, (int8_t)index};
        return 1;
    }
    return 0;
}

/* PyTorch's words where there is no driver, with the reason for who asked for it; the driver's where that has no device, or fails. */
static void no_cuda(void)
{
    const char *why = NULL, *asked = getenv("RUSHLIGHT_CUDA");
    rush_cuda(&why);
    if (why && !strcmp(why, "the driver finds no device")) PyErr_SetString(PyExc_RuntimeError, "No CUDA GPUs are available");
    else if (why && !strncmp(why, "the driver ", 11)) PyErr_Format(PyExc_RuntimeError, "CUDA: %s", why);
    else PyErr_Format(PyExc_AssertionError, "Torch not compiled with CUDA enabled%s%s", why && asked ? ": " : "", why && asked ? why : "");
}

int py_device_ready(rush_device d)
{
    int count = rush_device_count(d.type);
    if (d.type == RUSH_CPU || d.type == RUSH_META || (count && d.index < count)) return 0;
    if (count) PyErr_Format(PyExc_RuntimeError, "device %s is not there: the number of devices is %d", rush_device_text(d), count);
    else if (d.type == RUSH_CUDA) no_cuda();
    else PyErr_Format(PyExc_NotImplementedError, "this build has no device of type %s", rush_device_name(d.type));
    return -1;
}

static PyObject *device_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"type", "index", NULL};
    static char *names2[] = {"device", "index", NULL};
    PyObject *what, *index = Py_None;
    bool first = kwargs && PyDict_GetItemString(kwargs, "type");
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O:device", first ? names : names2, &what, &index)) return NULL;
    rush_device d;
    int ok = py_to_device(what, &d);
    if (ok < 0) return NULL;
    if (!ok) return PyErr_Format(PyExc_TypeError, "device(): argument 'type' must be str, not %s", py_type_name(what));
    if (index != Py_None) {
        if (!PyIndex_Check(index)) return PyErr_Format(PyExc_TypeError, "device(): argument 'index' (position 2) must be int, not %s", py_type_name(index));
        long i = PyLong_AsLong(index);
        if (i == -1 && PyErr_Occurred()) return NULL;
        if (d.index >= 0) return PyErr_Format(PyExc_RuntimeError, "type (string) must not include an index because index was passed explicitly: %S", what);
        if (i < 0 || i > 127) return PyErr_Format(PyExc_RuntimeError, "Device index must not be negative");
        d.index = (int8_t)i;
    }
    return py_device(d);
}

static void device_dealloc(PyObject *self)
{
    Py_XDECREF(((device_object *)self)->outer);
    PyObject_Free(self);
}

static PyObject *device_str(PyObject *self)
{
    rush_device d = DEVICE(self);
    return d.index < 0 ? PyUnicode_FromString(rush_device_name(d.type)) : PyUnicode_FromFormat("%s:%d", rush_device_name(d.type), d.index);
}

static PyObject *device_repr(PyObject *self)
{
    rush_device d = DEVICE(self);
    return d.index < 0 ? PyUnicode_FromFormat("device(type='%s')", rush_device_name(d.type))
                       : PyUnicode_FromFormat("device(type='%s', index=%d)", rush_device_name(d.type), d.index);
}

static Py_hash_t device_hash(PyObject *self) { return DEVICE(self).type * 257 + DEVICE(self).index + 7; }

static PyObject *device_compare(PyObject *a, PyObject *b, int op)
{
    if (Py_TYPE(b) != &py_type_device || (op != Py_EQ && op != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
    bool same = DEVICE(a).type == DEVICE(b).type && DEVICE(a).index == DEVICE(b).index;
    return PyBool_FromLong(same == (op == Py_EQ));
}

static PyObject *device_type(PyObject *self, void *unused) { return PyUnicode_FromString(rush_device_name(DEVICE(self).type)); }

static PyObject *device_index(PyObject *self, void *unused)
{
    if (DEVICE(self).index < 0) Py_RETURN_NONE;
    return PyLong_FromLong(DEVICE(self).index);
}

static PyObject *device_reduce(PyObject *self, PyObject *unused)
{
    rush_device d = DEVICE(self);
    return d.index < 0 ? Py_BuildValue("O(s)", Py_TYPE(self), rush_device_name(d.type))
                       : Py_BuildValue("O(si)", Py_TYPE(self), rush_device_name(d.type), d.index);
}

/* `with torch.device("meta"):` makes it the device of factories. */
static PyObject *device_enter(PyObject *self, PyObject *unused)
{
    device_object *d = (device_object *)self;
    if (!d->outer && !(d->outer = PyList_New(0))) return NULL;
    PyObject *old = py_default_device_set ? py_device(py_default_device) : py_ref(Py_None);
    if (!old || PyList_Append(d->outer, old)) {
        Py_XDECREF(old);
        return NULL;
    }
    Py_DECREF(old);
    py_default_device = d->device;
    py_default_device_set = true;
    return py_ref(self);
}

static PyObject *device_exit(PyObject *self, PyObject *args)
{
    device_object *d = (device_object *)self;
    Py_ssize_t n = d->outer ? PyList_GET_SIZE(d->outer) : 0;
    if (n == 0) return PyErr_Format(PyExc_RuntimeError, "device: __exit__ without __enter__");
    PyObject *old = PyList_GET_ITEM(d->outer, n - 1);
    py_default_device_set = old != Py_None;
    if (py_default_device_set) py_default_device = DEVICE(old);
    if (PyList_SetSlice(d->outer, n - 1, n, NULL)) return NULL;
    Py_RETURN_NONE;
}

static PyObject *device_itself(PyObject *self, PyObject *unused) { return py_ref(self); }

/* As a decorator. */
static PyObject *device_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    PyObject *contextlib = PyImport_ImportModule("rushlight.utils._contextlib");
    PyObject *make = PyObject_GetAttrString(self, "_itself"), *f, *result = NULL;
    if (contextlib && make && PyArg_ParseTuple(args, "O", &f)) result = PyObject_CallMethod(contextlib, "context_decorator", "OO", make, f);
    Py_XDECREF(make);
    Py_XDECREF(contextlib);
    return result;
}

static PyGetSetDef device_getset[] = {
    {"type", device_type, NULL, "\"cpu\", \"cuda\", \"meta\", ..."},
    {"index", device_index, NULL, "Which device of that type; None for the current one."},
    {NULL},
};
static PyMethodDef device_methods[] = {
    {"__reduce__", device_reduce, METH_NOARGS, NULL},
    {"_itself", device_itself, METH_NOARGS, NULL},
    {"__enter__", device_enter, METH_NOARGS, NULL},
    {"__exit__", device_exit, METH_VARARGS, NULL},
    {NULL},
};
PyTypeObject py_type_device = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "rushlight.device",
    .tp_basicsize = sizeof(device_object),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "Where a tensor's memory is: device(\"cpu\"), device(\"cuda\", 0). As a context, the device of factories.",
    .tp_new = device_new,
    .tp_dealloc = device_dealloc,
    .tp_repr = device_repr,
    .tp_str = device_str,
    .tp_hash = device_hash,
    .tp_richcompare = device_compare,
    .tp_call = device_call,
    .tp_methods = device_methods,
    .tp_getset = device_getset,
};

static PyObject *get_default_device(PyObject *module, PyObject *unused)
{
    return py_device(py_default_device_set ? py_default_device : (rush_device){RUSH_CPU, -1});
}

static PyObject *get_default_device_type(PyObject *module, PyObject *unused)
{
    PyObject *device = get_default_device(module, NULL), *type = device ? PyObject_GetAttrString(device, "type") : NULL;
    Py_XDECREF(device);
    return type;
}

static PyObject *set_default_device(PyObject *module, PyObject *x)
{
    if (x == Py_None) {
        py_default_device_set = false;
        Py_RETURN_NONE;
    }
    rush_device d;
    int ok = py_to_device(x, &d);
    if (ok < 0) return NULL;
    if (!ok) return PyErr_Format(PyExc_TypeError, "set_default_device(): a device was expected, not %s", py_type_name(x));
    py_default_device = d;
    py_default_device_set = true;
    Py_RETURN_NONE;
}

/* ---- Size ---- */

PyObject *py_size(int n, const int64_t *size)
{
    PyObject *x = py_type_Size.tp_alloc(&py_type_Size, n);
    for (int i = 0; x && i < n; ++i) {
        PyObject *item = PyLong_FromLongLong(size[i]);
        if (!item) {
            Py_DECREF(x);
            return NULL;
        }
        PyTuple_SET_ITEM(x, i, item);
    }
    return x;
}

/* A symbolic size: torch.SymInt is Python, and found when it is asked for. */
static int is_symbol(PyObject *x)
{
    static PyObject *SymInt;
    if (PyLong_Check(x)) return 0;
    if (!SymInt) {
        PyObject *module = PyImport_ImportModule("rushlight._basics");
        SymInt = module ? PyObject_GetAttrString(module, "SymInt") : NULL;
        Py_XDECREF(module);
    }
    return SymInt ? PyObject_IsInstance(x, SymInt) : -1;
}

static PyObject *size_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *self = PyTuple_Type.tp_new(type, args, kwargs);
    for (Py_ssize_t i = 0; self && i < PyTuple_GET_SIZE(self); ++i) {
        PyObject *item = PyTuple_GET_ITEM(self, i);
        if (PyLong_CheckExact(item) || (py_tracing() && py_is_tensor(item))) continue;
        int64_t n;
        int symbol = is_symbol(item);
        if (symbol > 0) continue;
        int ok = symbol < 0 ? -1 : PyBool_Check(item) ? (n = item == Py_True, 1) : py_to_int(item, &n);
        if (ok <= 0) {
            if (!ok) PyErr_Format(PyExc_TypeError, "torch.Size() takes an iterable of 'int' (item %zd is '%s')", i, Py_TYPE(item)->tp_name);
            Py_DECREF(self);
            return NULL;
        }
        PyObject *whole = PyLong_FromLongLong(n);
        if (!whole) {
            Py_DECREF(self);
            return NULL;
        }
        PyTuple_SET_ITEM(self, i, whole);
        Py_DECREF(item);
    }
    return self;
}

static PyObject *size_repr(PyObject *self)
{
    PyObject *list = PySequence_List(self);
    PyObject *text = list ? PyUnicode_FromFormat("torch.Size(%R)", list) : NULL;
    Py_XDECREF(list);
    return text;
}

/* A plain tuple, stolen, as a Size when its items are ints. */
static PyObject *as_size(PyObject *tuple)
{
    if (!tuple || !PyTuple_Check(tuple) || Py_TYPE(tuple) == &py_type_Size) return tuple;
    Py_ssize_t n = PyTuple_GET_SIZE(tuple);
    for (Py_ssize_t i = 0; i < n; ++i)
        if (!PyLong_Check(PyTuple_GET_ITEM(tuple, i)) && !(py_tracing() && py_is_tensor(PyTuple_GET_ITEM(tuple, i)))) {
            int symbol = is_symbol(PyTuple_GET_ITEM(tuple, i));
            if (symbol < 0) Py_CLEAR(tuple);
            if (symbol <= 0) return tuple;
        }
    PyObject *x = py_type_Size.tp_alloc(&py_type_Size, n);
    for (Py_ssize_t i = 0; x && i < n; ++i) PyTuple_SET_ITEM(x, i, py_ref(PyTuple_GET_ITEM(tuple, i)));
    Py_DECREF(tuple);
    return x;
}

static PyObject *size_add(PyObject *a, PyObject *b)
{
    if (!PyTuple_Check(a) || !PyTuple_Check(b)) Py_RETURN_NOTIMPLEMENTED;
    return as_size(PyTuple_Type.tp_as_sequence->sq_concat(a, b));
}
static PyObject *size_concat(PyObject *a, PyObject *b) { return as_size(PyTuple_Type.tp_as_sequence->sq_concat(a, b)); }
static PyObject *size_repeat(PyObject *a, Py_ssize_t n) { return as_size(PyTuple_Type.tp_as_sequence->sq_repeat(a, n)); }
static PyObject *size_subscript(PyObject *a, PyObject *key) { return as_size(PyTuple_Type.tp_as_mapping->mp_subscript(a, key)); }

static PyObject *size_numel(PyObject *self, PyObject *unused)
{
    int64_t n = 1;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self); ++i) n *= PyLong_AsLongLong(PyTuple_GET_ITEM(self, i));
    return PyErr_Occurred() ? NULL : PyLong_FromLongLong(n);
}

static PyObject *size_reduce(PyObject *self, PyObject *unused)
{
    PyObject *tuple = PyTuple_GetSlice(self, 0, PyTuple_GET_SIZE(self));
    if (tuple && Py_TYPE(tuple) != &PyTuple_Type) { /* the whole slice is the object itself */
        Py_DECREF(tuple);
        tuple = PyTuple_New(PyTuple_GET_SIZE(self));
        for (Py_ssize_t i = 0; tuple && i < PyTuple_GET_SIZE(self); ++i) PyTuple_SET_ITEM(tuple, i, py_ref(PyTuple_GET_ITEM(self, i)));
    }
    return tuple ? Py_BuildValue("O(N)", Py_TYPE(self), tuple) : NULL;
}

static PySequenceMethods size_sequence = {.sq_concat = size_concat, .sq_repeat = size_repeat};
static PyNumberMethods size_number = {.nb_add = size_add};
static PyMappingMethods size_mapping = {.mp_subscript = size_subscript};
static PyMethodDef size_methods[] = {
    {"numel", size_numel, METH_NOARGS, "The product: how many elements a tensor of this size has."},
    {"__reduce__", size_reduce, METH_NOARGS, NULL},
    {NULL},
};
PyTypeObject py_type_Size = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "rushlight.Size",
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_doc = "The sizes of a tensor: a tuple of ints.",
    .tp_base = &PyTuple_Type,
    .tp_new = size_new,
    .tp_repr = size_repr,
    .tp_as_number = &size_number,
    .tp_as_sequence = &size_sequence,
    .tp_as_mapping = &size_mapping,
    .tp_methods = size_methods,
};

/* ---- the module's part ---- */

/* Functions that are no operations say the module's public name, too. */
static int name_functions(PyObject *module, PyObject *name)
{
    PyObject *key, *f, *all = PyModule_GetDict(module);
    for (Py_ssize_t at = 0; all && PyDict_Next(all, &at, &key, &f);)
        if (PyCFunction_CheckExact(f)) Py_XSETREF(((PyCFunctionObject *)f)->m_module, py_ref(name));
    return all ? 0 : -1;
}

/* The package is known as "torch" from now on: in the names of its types, and so in pickles. */
static PyObject *set_public_name(PyObject *module, PyObject *x)
{
    static PyTypeObject *const types[] = {&py_type_dtype, &py_type_device, &py_type_Size, &py_type_Generator, &py_type_layout,
                                          &py_type_memory_format, &py_type_qscheme};
    const char *name = PyUnicode_AsUTF8(x);
    if (!name) return NULL;
    char *kept = rush_malloc(strlen(name) + 1); /* lives as long as the types */
    if (!kept) return py_raise();
    public_name = strcpy(kept, name);
    for (size_t i = 0; i < RUSH_COUNT(types); ++i) {
        const char *last = strrchr(types[i]->tp_name, '.') + 1;
        char *full = rush_malloc(strlen(name) + strlen(last) + 2);
        if (!full) return py_raise();
        strcat(strcat(strcpy(full, name), "."), last);
        types[i]->tp_name = full;
        PyType_Modified(types[i]);
    }
    if (py_Tensor != &py_type_TensorBase && PyObject_SetAttrString((PyObject *)py_Tensor, "__module__", x)) return NULL;
    PyObject *space = PyObject_GetAttrString(module, "_VariableFunctions"), *whole = PyUnicode_FromFormat("%U._C", x);
    bool renamed = space && whole && !name_functions(space, x) && !name_functions(module, whole);
    Py_XDECREF(space);
    Py_XDECREF(whole);
    if (!renamed) return NULL;
    Py_RETURN_NONE;
}

static PyObject *get_default_dtype(PyObject *module, PyObject *unused) { return py_dtype(rush_default_dtype()); }

static PyObject *warn_always(PyObject *module, PyObject *x)
{
    rush_warn_always(x == Py_True);
    return py_ref(Py_None);
}

static PyObject *fresh_filled(PyObject *module, PyObject *x)
{
    rush_fresh_filled(x == Py_True);
    return py_ref(Py_None);
}

static PyObject *set_default_dtype(PyObject *module, PyObject *x)
{
    int d;
    if (!py_to_dtype(x, &d)) return PyErr_Format(PyExc_TypeError, "invalid dtype object: only floating-point types are supported as the default type");
    if (rush_dtypes[d].category != 2) return PyErr_Format(PyExc_TypeError, "only floating-point types are supported as the default type");
    if (rush_default_dtype_set(d)) return py_raise();
    Py_RETURN_NONE;
}

static PyObject *dtype_or_error(rush_dtype d) { return rush_error() ? py_raise() : py_dtype(d); }

static PyObject *promote_types(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    int a, b;
    if (n != 2 || !py_to_dtype(args[0], &a) || !py_to_dtype(args[1], &b)) return PyErr_Format(PyExc_TypeError, "promote_types(): two dtypes were expected");
    return dtype_or_error(rush_promote(a, b));
}

/* result_type(a, b): of tensors and numbers */
static PyObject *result_type(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"tensor1", "tensor2", NULL};
    PyObject *x[2];
    rush_value v[2];
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO:result_type", names, &x[0], &x[1])) return NULL;
    for (int i = 0; i < 2; ++i) {
        if (py_is_tensor(x[i])) {
            v[i] = rush_v_tensor(py_tensor_of(x[i]));
            continue;
        }
        int ok = py_plain_number(x[i], &v[i]);
        if (ok < 0) return NULL;
        if (!ok) return PyErr_Format(PyExc_TypeError, "result_type(): argument '%s' must be Tensor or Number, not %s", names[i], py_type_name(x[i]));
    }
    return dtype_or_error(rush_result_type(2, v));
}

static PyObject *can_cast(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"from_", "to", NULL};
    PyObject *from, *to;
    int a, b;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO:can_cast", names, &from, &to)) return NULL;
    if (!py_to_dtype(from, &a) || !py_to_dtype(to, &b)) return PyErr_Format(PyExc_TypeError, "can_cast(): two dtypes were expected");
    int ca = rush_dtypes[a].category, cb = rush_dtypes[b].category;
    bool loses_sign = ca == 1 && cb == 1 && rush_dtypes[a].is_signed && !rush_dtypes[b].is_signed;
    return PyBool_FromLong(ca <= cb && !loses_sign);
}

static PyMethodDef functions[] = {
    {"_set_public_name", set_public_name, METH_O, "Names the package's types are printed and pickled under."},
    {"_default_device", get_default_device, METH_NOARGS, "The device of factories."},
    {"_get_default_device", get_default_device_type, METH_NOARGS, "The type of the device of factories, as a string."},
    {"_set_default_device", set_default_device, METH_O, "Sets the device of factories; None: back to the CPU."},
    {"get_default_dtype", get_default_dtype, METH_NOARGS, "The dtype of floating point tensors made without saying one."},
    {"_fresh_filled", fresh_filled, METH_O, "Whether memory that is not initialised is filled."},
    {"_warn_always", warn_always, METH_O, "Whether warnings that are given once are given each time."},
    {"_set_default_dtype", set_default_dtype, METH_O, "Sets the default floating point dtype."},
    {"promote_types", (PyCFunction)(void (*)(void))promote_types, METH_FASTCALL, "The dtype that holds what both dtypes hold."},
    {"result_type", (PyCFunction)(void (*)(void))result_type, METH_VARARGS | METH_KEYWORDS, "The dtype of an operation on both."},
    {"can_cast", (PyCFunction)(void (*)(void))can_cast, METH_VARARGS | METH_KEYWORDS, "May a result of one dtype be written to another?"},
    {NULL},
};

int py_types_init(PyObject *module)
{
    static const struct {
        const char *name;
        int dtype;
    } aliases[] = {{"float", RUSH_F32}, {"double", RUSH_F64}, {"half", RUSH_F16}, {"long", RUSH_I64}, {"int", RUSH_I32}, {"short", RUSH_I16},
                   {"chalf", RUSH_C32}, {"cfloat", RUSH_C64}, {"cdouble", RUSH_C128}};
    if (PyType_Ready(&py_type_dtype) || PyType_Ready(&py_type_device) || PyType_Ready(&py_type_Size)) return -1;
    PyObject *all = PyDict_New();
    if (!all) return -1;
    for (int d = 0; d < (int)RUSH_COUNT(dtypes); ++d) {
        PyObject_Init((PyObject *)&dtypes[d], &py_type_dtype);
        dtypes[d].dtype = RUSH_MIN(d, RUSH_DTYPES);
        dtypes[d].info = d < RUSH_DTYPES ? &rush_dtypes[d] : &by_name_only[d - RUSH_DTYPES];
        if (PyDict_SetItemString(all, dtypes[d].info->name, (PyObject *)&dtypes[d])) return -1;
    }
    for (size_t i = 0; i < RUSH_COUNT(aliases); ++i)
        if (PyDict_SetItemString(all, aliases[i].name, (PyObject *)&dtypes[aliases[i].dtype])) return -1;
    return py_add(module, "_dtypes", all) || py_add(module, "dtype", py_ref((PyObject *)&py_type_dtype)) ||
                   py_add(module, "device", py_ref((PyObject *)&py_type_device)) || py_add(module, "Size", py_ref((PyObject *)&py_type_Size)) ||
                   PyModule_AddFunctions(module, functions)
               ? -1 : 0;
}
