/* convert.c - tensors to another dtype, device or memory format: to(), type(), float() and the like, set_(). */
#include "ext.h"
#include "call.h"
#include "op/watch.h"
#include "op/formula.h"

typedef struct wanted {
    int dtype;        /* -1: as it is */
    bool has_device, copy, has_copy, non_blocking;
    rush_device device;
    int format;       /* RUSH_PRESERVE: as it is */
    bool has_format;
} wanted;

static rush_tensor *convert(rush_tensor *t, const wanted *w)
{
    int dtype = w->dtype < 0 ? t->dtype : w->dtype;
    rush_device device = w->has_device ? w->device : t->device;
    if (device.type == RUSH_CPU) device.index = -1; /* of tensors: there is one */
    bool moves = !rush_same_device(rush_device_resolve(device), t->device);
    bool reorders = w->has_format && rush_in_memory(t) && w->format != RUSH_PRESERVE && rush_format_of(t) != w->format; /* by the strides' order, unlike contiguous() */
    if (!moves && !w->copy && dtype == t->dtype && !reorders) return t;
    static const rush_op *op;
    if (!op && !(op = rush_op_find("_to_copy"))) {
        if (moves) return rush_fail(RUSH_NOT_IMPLEMENTED, "moving tensors between devices is not there yet"), NULL;
        if (dtype != t->dtype) t = to_dtype(t, dtype);
        else if (t) t = T("clone", V(t));
        return reorders ? T("contiguous", V(t), ((rush_value){.kind = RUSH_V_MEMORY_FORMAT, .i = w->format})) : t;
    }
    rush_value in[16], out[RUSH_MAXOUT];
    for (int i = 0; i < op->nargs; ++i) in[i] = op->args[i].def;
    in[0] = rush_v_tensor(t);
    if (w->dtype >= 0) in[rush_op_arg(op, "dtype")] = rush_v_dtype(dtype);
    if (w->has_device) in[rush_op_arg(op, "device")] = (rush_value){.kind = RUSH_V_DEVICE, .device = device};
    if (w->has_format) in[rush_op_arg(op, "memory_format")] = (rush_value){.kind = RUSH_V_MEMORY_FORMAT, .i = w->format};
    return py_run(op, in, out) ? NULL : out[0].t;
}

static PyObject *converted(PyObject *self, const wanted *w)
{
    size_t mark = rush_scope_open();
    rush_tensor *t = py_tensor_of(self), *r = convert(t, w);
    PyObject *x = r == t ? py_ref(self) : r ? py_wrap(r) : py_raise();
    rush_scope_close(mark);
    return x;
}

/* One keyword of to(). */
static int take_keyword(wanted *w, PyObject *name, PyObject *x)
{
    int ok = 1;
    if (!PyUnicode_CompareWithASCIIString(name, "dtype")) {
        if (x != Py_None) ok = py_to_dtype(x, &w->dtype);
    } else if (!PyUnicode_CompareWithASCIIString(name, "device")) {
        if (x != Py_None) w->has_device = true, ok = py_to_device(x, &w->device);
    } else if (!PyUnicode_CompareWithASCIIString(name, "tensor") || !PyUnicode_CompareWithASCIIString(name, "other")) {
        if (!py_is_tensor(x)) return 0;
        w->dtype = py_tensor_of(x)->dtype, w->device = py_tensor_of(x)->device, w->has_device = true;
    } else if (!PyUnicode_CompareWithASCIIString(name, "non_blocking")) {
        ok = PyObject_IsTrue(x);
        w->non_blocking = ok > 0;
        ok = ok < 0 ? -1 : 1;
    } else if (!PyUnicode_CompareWithASCIIString(name, "copy")) {
        ok = PyObject_IsTrue(x);
        w->copy = ok > 0, w->has_copy = true;
        ok = ok < 0 ? -1 : 1;
    } else if (!PyUnicode_CompareWithASCIIString(name, "memory_format")) {
        if (x == Py_None) return 1;
        if (Py_TYPE(x) != &py_type_memory_format) return 0;
        w->format = py_constant_value(x);
        w->has_format = true;
    } else if (PyUnicode_CompareWithASCIIString(name, "layout") || x == Py_None) {
        ok = !PyUnicode_CompareWithASCIIString(name, "layout");
    }
    return ok;
}

/* to(dtype, non_blocking, copy), to(device, dtype, non_blocking, copy), to(other, non_blocking, copy), by keyword. */
static int parse_to(wanted *w, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    *w = (wanted){.dtype = -1, .format = RUSH_PRESERVE};
    Py_ssize_t i = 0, nkw = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    int ok = 1;
    if (i < n) {
        if (py_is_tensor(args[0])) {
            w->dtype = py_tensor_of(args[0])->dtype, w->device = py_tensor_of(args[0])->device, w->has_device = true;
            i = 1;
        } else if (py_to_dtype(args[0], &w->dtype)) {
            i = 1;
        } else {
            if (args[0] != Py_None && (w->has_device = (ok = py_to_device(args[0], &w->device)) > 0, ok <= 0)) goto wrong;
            i = 1;
            if (i < n && args[i] != Py_None && !(ok = py_to_dtype(args[i], &w->dtype))) goto wrong;
            i += i < n;
        }
    }
    bool *flags[] = {&w->non_blocking, &w->copy};
    for (int k = 0; i < n; ++i, ++k) {
        ok = k < 2 && PyBool_Check(args[i]);
        if (!ok) goto wrong;
        *flags[k] = args[i] == Py_True;
        w->has_copy |= k == 1;
    }
    for (Py_ssize_t k = 0; k < nkw; ++k)
        if ((ok = take_keyword(w, PyTuple_GET_ITEM(kwnames, k), args[n + k])) <= 0) goto wrong;
    if (w->has_device && py_device_ready(w->device)) return -1;
    return 0;
wrong:
    if (PyErr_Occurred()) return -1;
    PyObject *got = py_describe_args(args, n, kwnames, 0);
    if (got)
        PyErr_Format(PyExc_TypeError, "to() received an invalid combination of arguments - got %U, but expected one of:\n"
                     " * (torch.device device = None, torch.dtype dtype = None, bool non_blocking = False, bool copy = False, *, torch.memory_format memory_format = None)\n"
                     " * (torch.dtype dtype, bool non_blocking = False, bool copy = False, *, torch.memory_format memory_format = None)\n"
                     " * (Tensor tensor, bool non_blocking = False, bool copy = False, *, torch.memory_format memory_format = None)\n",
                     got);
    Py_XDECREF(got);
    return -1;
}

static PyObject *to(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    wanted w;
    return parse_to(&w, args, n, kwnames) ? NULL : converted(self, &w);
}

/* A memory_format that was given, or NULL or None. */
static int take_format(wanted *w, PyObject *x)
{
    if (!x || x == Py_None) return 0;
    if (Py_TYPE(x) != &py_type_memory_format) return PyErr_Format(PyExc_TypeError, "argument 'memory_format' must be torch.memory_format, not %s", py_type_name(x)), -1;
    w->format = py_constant_value(x);
    w->has_format = true;
    return 0;
}

/* float(), half(), ...: to(dtype) with an optional memory format. */
static PyObject *to_fixed(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames, int dtype)
{
    wanted w = {.dtype = dtype, .format = RUSH_PRESERVE};
    PyObject *format = n ? args[0] : kwnames && PyTuple_GET_SIZE(kwnames) ? args[0] : NULL;
    return take_format(&w, format) ? NULL : converted(self, &w);
}
#define FIXED(name, dtype)                                                                                   \
    static PyObject *to_##name(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)       \
    {                                                                                                        \
        return to_fixed(self, args, n, kwnames, dtype);                                                      \
    }
FIXED(float, RUSH_F32)
FIXED(double, RUSH_F64)
FIXED(half, RUSH_F16)
FIXED(bfloat16, RUSH_BF16)
FIXED(long, RUSH_I64)
FIXED(int, RUSH_I32)
FIXED(short, RUSH_I16)
FIXED(char, RUSH_I8)
FIXED(byte, RUSH_U8)
FIXED(bool, RUSH_BOOL)
FIXED(cfloat, RUSH_C64)
FIXED(cdouble, RUSH_C128)
FIXED(chalf, RUSH_C32)

/* x.cpu(memory_format=torch.preserve_format) */
static PyObject *cpu(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"memory_format", NULL};
    PyObject *format = NULL;
    wanted w = {.dtype = -1, .has_device = true, .device = {RUSH_CPU, -1}, .format = RUSH_PRESERVE};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:cpu", names, &format) || take_format(&w, format)) return NULL;
    return converted(self, &w);
}

/* x.cuda(device=None, non_blocking=False, memory_format=torch.preserve_format) */
static PyObject *cuda(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"device", "non_blocking", "memory_format", NULL};
    PyObject *device = Py_None, *format = NULL;
    int unused;
    wanted w = {.dtype = -1, .has_device = true, .device = {RUSH_CUDA, -1}, .format = RUSH_PRESERVE};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OpO:cuda", names, &device, &unused, &format)) return NULL;
    if (device != Py_None && py_to_device(device, &w.device) <= 0)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "cuda(): argument 'device' must be torch.device, not %s", py_type_name(device));
    if (take_format(&w, format)) return NULL;
    if (w.device.type != RUSH_CUDA) return PyErr_Format(PyExc_RuntimeError, "Invalid device, must be cuda device");
    if (py_device_ready(w.device)) return NULL;
    return converted(self, &w);
}

static PyObject *type_as(PyObject *self, PyObject *other)
{
    rush_tensor *t = py_need_tensor(other, "type_as(): argument 'other' (position 1)");
    wanted w = {.dtype = t ? t->dtype : -1, .has_device = true, .device = t ? t->device : (rush_device){0}, .format = RUSH_PRESERVE};
    return t ? converted(self, &w) : NULL;
}

int py_legacy_dtype(const char *name) /* "torch.FloatTensor", "FloatTensor" */
{
    if (!strncmp(name, "torch.", 6)) name += 6;
    if (!strncmp(name, "sparse.", 7)) name += 7;
    for (int d = 0; d < RUSH_DTYPES; ++d) {
        size_t n = strlen(rush_dtypes[d].word);
        if (!strncmp(name, rush_dtypes[d].word, n) && !strcmp(name + n, "Tensor")) return d;
    }
    return -1;
}

static PyObject *type_word(const rush_tensor *t)
{
    bool host = t->device.type == RUSH_CPU;
    return PyUnicode_FromFormat("torch.%s%s%s%sTensor", host ? "" : rush_device_name(t->device.type), host ? "" : ".", t->layout == RUSH_SPARSE_COO ? "sparse." : t->layout == RUSH_QUANTIZED ? "quantized." : "", rush_dtypes[t->dtype].word);
}

/* type(): the name; type(dtype or name): converted */
static PyObject *type(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    rush_tensor *t = py_tensor_of(self);
    Py_ssize_t nkw = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    if (n + nkw == 0 || (n && args[0] == Py_None)) return type_word(t);
    PyObject *x = args[0], *dtype = NULL;
    wanted w = {.dtype = -1, .format = RUSH_PRESERVE};
    if (x == (PyObject *)py_Tensor) {
        w.dtype = rush_default_dtype();
    } else if (PyType_Check(x)) {
        const char *name = ((PyTypeObject *)x)->tp_name, *dot = strrchr(name, '.');
        return PyErr_Format(PyExc_ValueError, "invalid type: '%s'", dot ? dot + 1 : name);
    } else if (PyUnicode_Check(x)) {
        const char *name = PyUnicode_AsUTF8(x);
        if (!name) return NULL;
        if (!strcmp(name, "torch.Tensor")) w.dtype = rush_default_dtype();
        else if (!strncmp(name, "torch.", 6)) w.dtype = py_legacy_dtype(name);
        if (w.dtype < 0) return PyErr_Format(PyExc_ValueError, "invalid type: %R", x);
    } else if (py_is_tensor(x) || !py_to_dtype(x, &w.dtype)) {
        dtype = py_is_tensor(x) ? NULL : py_getattr_quiet(x, "dtype"); /* torch.FloatTensor's */
        if (dtype) py_to_dtype(dtype, &w.dtype);
        Py_XDECREF(dtype);
        if (w.dtype < 0) return PyErr_Format(PyExc_TypeError, "dtype must be a type, str, or dtype object");
    }
    return converted(self, &w);
}

/* torch._C._nn._parse_to(...) of Module.to: device, dtype, non_blocking, memory format */
static PyObject *parse_to_function(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    wanted w;
    if (parse_to(&w, args, n, kwnames)) return NULL;
    if (w.has_copy) return PyErr_Format(PyExc_RuntimeError, ".to() does not accept copy argument");
    return Py_BuildValue("NNNN", w.has_device ? py_device(w.device) : py_ref(Py_None), w.dtype < 0 ? py_ref(Py_None) : py_dtype(w.dtype),
                         PyBool_FromLong(w.non_blocking), w.has_format ? py_memory_format(w.format) : py_ref(Py_None));
}

/* set_() and set_(tensor) where somebody is asked. */
static PyObject *set_as_asked(PyObject *self, PyObject *source)
{
    rush_tensor *t = py_tensor_of(self);
    size_t mark = rush_scope_open();
    PyObject *x = (source ? T("set_.source_Tensor", V(t), V(py_tensor_of(source))) : T("set_", V(t))) ? py_ref(self) : py_raise();
    rush_scope_close(mark);
    return x;
}

/* set_(), set_(other), set_(storage, offset, size, stride): other memory in this tensor */
static PyObject *set(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"source", "storage_offset", "size", "stride", NULL};
    PyObject *source = NULL, *size = NULL, *stride = NULL;
    const long long unset = LLONG_MIN;
    long long offset = unset;
    int64_t sizes[RUSH_MAXDIM], strides[RUSH_MAXDIM];
    int ndim = 1, nstride = 1;
    rush_tensor *t = py_tensor_of(self);
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OLOO:set_", names, &source, &offset, &size, &stride)) return NULL;
    if (!size && offset == unset && (!source || py_is_tensor(source)) && (rush_is_watched(t) || (source && rush_is_watched(py_tensor_of(source)))))
        return set_as_asked(self, source);
    if (!rush_in_memory(t) || (source && py_is_tensor(source) && !rush_in_memory(py_tensor_of(source)))) return PyErr_Format(PyExc_NotImplementedError, "set_() of sparse tensors: they have no storage");
    /* What changes other tensors of the new storage does not change this one: its count goes on by itself. */
    if (rush_inplace_check(t, rush_wants_grad(t)) || (!t->version && rush_version_own(t, rush_version_of(t)))) return py_raise();
    if (t->ag && rush_wants_grad(t) && !(rush_now.mode & RUSH_MODE_NO_GRAD) && t->ag->fn) return PyErr_Format(PyExc_RuntimeError, "set_() of a tensor in a graph is not supported");
    if ((offset != unset) != (size != NULL)) return PyErr_Format(PyExc_TypeError, "set_(): a storage_offset and a size come together");
    if (!size) offset = 0;
    rush_storage *s = NULL, *made = NULL;
    if (!source) {
        if (!(s = made = rush_storage_new(0, t->device))) return py_raise();
        sizes[0] = 0, strides[0] = 1;
    } else if (py_is_tensor(source)) {
        rush_tensor *from = py_tensor_of(source);
        if (from->dtype != t->dtype) return PyErr_Format(PyExc_RuntimeError, "Could not set tensor of type %s to a tensor of type %s", rush_dtypes[from->dtype].c_type, rush_dtypes[t->dtype].c_type);
        ndim = nstride = from->ndim;
        memcpy(sizes, from->size, sizeof *sizes * ndim);
        memcpy(strides, from->stride, sizeof *strides * ndim);
        if (size && !rush_contiguous(from)) return PyErr_Format(PyExc_RuntimeError, "passed in tensor to be used as storage must be contiguous");
        if (__builtin_add_overflow(offset, from->offset, &offset)) return PyErr_Format(PyExc_RuntimeError, "set_(): the storage offset is out of bounds");
        if (size && py_to_sizes(size, sizes, RUSH_MAXDIM, &ndim) <= 0) goto wrong;
        if (size && !stride) rush_strides_for(RUSH_CONTIGUOUS, nstride = ndim, sizes, strides);
        if (size && stride && py_to_sizes(stride, strides, RUSH_MAXDIM, &nstride) <= 0) goto wrong;
        s = from->storage;
    } else {
        s = py_any_storage_of(source);
        if (!s) return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "set_(): argument 'source' must be a Tensor or a storage, not %s", py_type_name(source));
        if (!py_storage_fits(source, t->dtype)) return NULL;
        if (size && py_to_sizes(size, sizes, RUSH_MAXDIM, &ndim) <= 0) goto wrong;
        if (!size) sizes[0] = (int64_t)(s->nbytes / rush_dtypes[t->dtype].size) - offset;
        if (!stride) rush_strides_for(RUSH_CONTIGUOUS, nstride = ndim, sizes, strides);
        else if (py_to_sizes(stride, strides, RUSH_MAXDIM, &nstride) <= 0) goto wrong;
    }
    if (nstride != ndim) return PyErr_Format(PyExc_RuntimeError, "unequal size length (%d) and stride length (%d)", ndim, nstride);
    int failed = rush_tensor_show(t, s, ndim, sizes, strides, offset);
    if (made) rush_storage_drop(made);
    if (failed) return py_raise();
    rush_version_bump(t);
    return py_ref(self);
wrong:
    return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "set_(): sizes and strides must be ints");
}

/* apply_(f), map_(other, f), map2_(a, b, f): a Python function on every element, slowly */
static PyObject *each(PyObject *self, PyObject **others, int n, PyObject *f)
{
    static const char *const names[] = {"apply_", "map_", "map2_"};
    rush_tensor *t = py_tensor_of(self), *o[2] = {0};
    bool grad = rush_requires_grad(t);
    for (int k = 0; k < n; ++k) grad |= py_is_tensor(others[k]) && rush_requires_grad(py_tensor_of(others[k]));
    if (grad) return PyErr_Format(n ? PyExc_RuntimeError : PyExc_TypeError, "Can't call %s() on Variable that requires grad. Use var.detach().%s()%s", names[n], names[n], n ? " instead." : "");
    if (t->device.type != RUSH_CPU) return PyErr_Format(PyExc_TypeError, "apply_ is only implemented on CPU tensors");
    if (t->layout) return PyErr_Format(PyExc_RuntimeError, "Cannot access data pointer of Tensor that doesn't have storage");
    size_t mark = rush_scope_open();
    rush_tensor *made = T("clone", V(t), rush_v_memory_format(RUSH_CONTIGUOUS));
    PyObject *result = made ? NULL : py_raise();
    for (int k = 0; k < n; ++k) {
        if (!made || py_lacks_data(made, names[n]) || !(o[k] = py_need_tensor(others[k], "the other tensor"))) goto end;
        if (o[k]->dtype != t->dtype || !rush_same_device(o[k]->device, t->device) || o[k]->layout) {
            PyObject *word = type_word(o[k]);
            if (word) PyErr_Format(PyExc_TypeError, "%s: expected torch.%sTensor for %s (got %U)", n == 1 ? "map_" : "map2_", rush_dtypes[t->dtype].word,
                         n == 1 ? "'other'" : k == 0 ? "argument 'x'" : "argument 'y'", word);
            Py_XDECREF(word);
            goto end;
        }
        o[k] = T("clone", V(expand_to(o[k], t)), rush_v_memory_format(RUSH_CONTIGUOUS));
        if (!o[k]) {
            py_raise();
            goto end;
        }
        if (py_lacks_data(o[k], names[n])) goto end;
    }
    if (!made || py_lacks_data(made, names[n])) goto end;
    int size = rush_dtypes[t->dtype].size;
    for (int64_t i = 0; i < made->numel; ++i) { /* of copies: f may do anything to the tensors */
        PyObject *args[3] = {py_number_of(made, (char *)rush_ptr(made) + i * size)};
        for (int k = 0; k < n; ++k) args[k + 1] = py_number_of(o[k], (char *)rush_ptr(o[k]) + i * size);
        PyObject *r = PyObject_Vectorcall(f, args, n + 1, NULL);
        for (int k = 0; k <= n; ++k) Py_XDECREF(args[k]);
        rush_value v;
        int ok = r ? py_to_number(r, &v) : -1;
        if (ok == 0) PyErr_Format(PyExc_TypeError, "a number was expected from the function, got %s", py_type_name(r));
        Py_XDECREF(r);
        if (ok <= 0) goto end;
        rush_number_store((char *)rush_ptr(made) + i * size, t->dtype, v);
    }
    result = T("copy_", V(t), V(made)) ? py_ref(self) : py_raise();
end:
    rush_scope_close(mark);
    return result;
}

static PyObject *apply(PyObject *self, PyObject *f) { return each(self, NULL, 0, f); }

static PyObject *map(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    PyObject *others[1] = {n ? args[0] : NULL};
    return n == 2 ? each(self, others, 1, args[1]) : PyErr_Format(PyExc_TypeError, "map_() takes a tensor and a function");
}

static PyObject *map2(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    PyObject *others[2] = {n ? args[0] : NULL, n > 1 ? args[1] : NULL};
    return n == 3 ? each(self, others, 2, args[2]) : PyErr_Format(PyExc_TypeError, "map2_() takes two tensors and a function");
}

static PyObject *numpy_method(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"force", NULL};
    int force = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$p:numpy", names, &force)) return NULL;
    rush_tensor *t = py_tensor_of(self);
    if (!force && rush_grad_enabled() && rush_wants_grad(t)) return PyErr_Format(PyExc_RuntimeError, "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.");
    if (!force && t->flags & RUSH_T_CONJ) return PyErr_Format(PyExc_RuntimeError, "Can't call numpy() on Tensor that has conjugate bit set. Use tensor.resolve_conj().numpy() instead.");
    if (!force && t->flags & RUSH_T_NEG) return PyErr_Format(PyExc_RuntimeError, "Can't call numpy() on Tensor that has negative bit set. Use tensor.resolve_neg().numpy() instead.");
    if (py_reads_are_told()) { /* refused, where it follows from inputs */
        PyObject *asked = py_traced_item(self, py_ref(Py_Ellipsis));
        if (!asked) return NULL;
        Py_DECREF(asked);
    }
    size_t mark = rush_scope_open();
    if (t->flags & (RUSH_T_CONJ | RUSH_T_NEG)) t = rush_contiguous_copy(t);
    PyObject *x = t ? py_to_ndarray(t == py_tensor_of(self) ? self : NULL, t) : py_raise();
    rush_scope_close(mark);
    return x;
}

#define FASTKW(f) (PyCFunction)(void (*)(void))f, METH_FASTCALL | METH_KEYWORDS
PyMethodDef py_tensor_convert_methods[] = {
    {"to", FASTKW(to), "to(device or dtype or other, non_blocking=False, copy=False, *, memory_format): converted, or itself when nothing changes."},
    {"float", FASTKW(to_float), "to(torch.float32)"},
    {"double", FASTKW(to_double), "to(torch.float64)"},
    {"half", FASTKW(to_half), "to(torch.float16)"},
    {"bfloat16", FASTKW(to_bfloat16), "to(torch.bfloat16)"},
    {"long", FASTKW(to_long), "to(torch.int64)"},
    {"int", FASTKW(to_int), "to(torch.int32)"},
    {"short", FASTKW(to_short), "to(torch.int16)"},
    {"char", FASTKW(to_char), "to(torch.int8)"},
    {"byte", FASTKW(to_byte), "to(torch.uint8)"},
    {"bool", FASTKW(to_bool), "to(torch.bool)"},
    {"cfloat", FASTKW(to_cfloat), "to(torch.complex64)"},
    {"cdouble", FASTKW(to_cdouble), "to(torch.complex128)"},
    {"chalf", FASTKW(to_chalf), "to(torch.complex32)"},
    {"cpu", (PyCFunction)(void (*)(void))cpu, METH_VARARGS | METH_KEYWORDS, "On the CPU."},
    {"cuda", (PyCFunction)(void (*)(void))cuda, METH_VARARGS | METH_KEYWORDS, "On a CUDA device."},
    {"type_as", type_as, METH_O, "With the dtype of another tensor."},
    {"type", FASTKW(type), "The name of its type, or converted to a type."},
    {"numpy", (PyCFunction)(void (*)(void))numpy_method, METH_VARARGS | METH_KEYWORDS, "A NumPy array that shares the memory."},
    {"set_", (PyCFunction)(void (*)(void))set, METH_VARARGS | METH_KEYWORDS, "Shows other memory: a storage's or another tensor's."},
    {"apply_", apply, METH_O, "Replaces every element by what a Python function makes of it."},
    {"map_", (PyCFunction)(void (*)(void))map, METH_FASTCALL, "apply_ with the elements of another tensor beside."},
    {"map2_", (PyCFunction)(void (*)(void))map2, METH_FASTCALL, "apply_ with the elements of two other tensors beside."},
    {NULL},
};

PyMethodDef py_parse_to = {"_parse_to", FASTKW(parse_to_function), "The arguments of Module.to: device, dtype, non_blocking, memory format."};
