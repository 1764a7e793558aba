/* methods.c - what a tensor tells about itself: sizes, memory, flags; and its properties. */
#include "ext.h"
#include "op/watch.h"
#include <rushlight/nn.h>
#include "op/formula.h"
#include "tensor/quantized.h"
#include "tensor/sparse.h"

static rush_tensor *self_of(PyObject *x) { return py_tensor_of(x); }

/* A parked result as Python's, or its error raised; the scope ends. */
static PyObject *finish(size_t mark, rush_tensor *r)
{
    PyObject *x = r ? py_wrap(r) : py_raise();
    rush_scope_close(mark);
    return x;
}

/* Of a sparse tensor: an exception, and true. */
static bool has_no_storage(const rush_tensor *t)
{
    if (rush_in_memory(t)) return false;
    PyErr_Format(PyExc_RuntimeError, "Cannot access data pointer of Tensor that doesn't have storage");
    return true;
}

/* A tensor that answers for itself and was not asked: an error, which `what` may not go beyond. */
bool py_lacks_data(const rush_tensor *t, const char *what)
{
    if (rush_lacks_data(t)) PyErr_Format(PyExc_RuntimeError, "%s: the tensor stands for another and has no data", what);
    return rush_lacks_data(t);
}

static bool has_no_strides(const rush_tensor *t, const char *what)
{
    if (t->layout <= RUSH_SPARSE_COO || t->layout >= RUSH_QUANTIZED) return false;
    PyErr_Format(PyExc_RuntimeError, "Sparse %s tensors do not have %s", rush_blocked(t->layout) ? "blocked" : "CSR", what);
    return true;
}

/* ---- geometry ---- */

static int dim_argument(const char *name, PyObject *const *args, Py_ssize_t n, PyObject *kwnames, PyObject **dim)
{
    Py_ssize_t nkw = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    *dim = NULL;
    if (n + nkw > 1) return PyErr_Format(PyExc_TypeError, "%s() takes at most 1 argument (%zd given)", name, n + nkw), -1;
    if (nkw && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, 0), "dim"))
        return PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'", name, PyTuple_GET_ITEM(kwnames, 0)), -1;
    if (n + nkw && args[0] != Py_None) *dim = args[0];
    return 0;
}

static PyObject *one_of(const char *name, PyObject *self, const rush_tensor *t, const int64_t *values, PyObject *dim)
{
    int64_t d;
    int ok = py_to_int(dim, &d);
    if (ok < 0) return NULL;
    if (!ok) return PyErr_Format(PyExc_TypeError, "%s(): argument 'dim' (position 1) must be int, not %s", name, py_type_name(dim));
    if (t->ndim == 0) return PyErr_Format(PyExc_IndexError, "Dimension specified as %lld but tensor has no dimensions", (long long)d);
    int i = rush_dim_wrap(d, t->ndim);
    return i < 0 ? py_raise() : self && py_tracing() ? py_traced_size(self, i) : PyLong_FromLongLong(values[i]);
}

static PyObject *size(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    PyObject *dim;
    if (dim_argument("size", args, n, kwnames, &dim)) return NULL;
    if (!dim && py_tracing()) return py_traced_sizes(self);
    return dim ? one_of("size", self, self_of(self), self_of(self)->size, dim) : py_size(self_of(self)->ndim, self_of(self)->size);
}

static PyObject *stride(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    PyObject *dim;
    rush_tensor *t = self_of(self);
    if (dim_argument("stride", args, n, kwnames, &dim) || has_no_strides(t, "strides")) return NULL;
    if (dim) return one_of("stride", NULL, t, t->stride, dim);
    PyObject *tuple = PyTuple_New(t->ndim);
    for (int i = 0; tuple && i < t->ndim; ++i) PyTuple_SET_ITEM(tuple, i, PyLong_FromLongLong(t->stride[i]));
    return tuple;
}

static PyObject *ndimension(PyObject *self, PyObject *unused) { return PyLong_FromLong(self_of(self)->ndim); }
static PyObject *numel(PyObject *self, PyObject *unused) { return py_tracing() ? py_traced_size(self, -1) : PyLong_FromLongLong(self_of(self)->numel); }
static PyObject *storage_offset(PyObject *self, PyObject *unused) { return PyLong_FromLongLong(self_of(self)->offset); }
static PyObject *element_size(PyObject *self, PyObject *unused) { return PyLong_FromLong(rush_dtypes[self_of(self)->dtype].size); }
static PyObject *data_ptr(PyObject *self, PyObject *unused)
{
    if (self_of(self)->layout == RUSH_ELSEWHERE) return PyLong_FromLong(0);
    if (has_no_storage(self_of(self))) return NULL;
    if (self_of(self)->storage) rush_storage_show(self_of(self)->storage);
    return PyLong_FromVoidPtr(self_of(self)->numel ? rush_ptr(self_of(self)) : NULL);
}
static PyObject *use_count(PyObject *self, PyObject *unused) { return PyLong_FromLong(self_of(self)->refs); }

Py_ssize_t py_tensor_length(PyObject *self)
{
    PyObject *result;
    if (py_asks(self) && py_method_overridden(self, "__len__", NULL, 0, NULL, &result)) {
        Py_ssize_t n = result ? PyLong_AsSsize_t(result) : -1;
        Py_XDECREF(result);
        return n;
    }
    if (py_reads_are_told() && self_of(self)->ndim) { /* a size that follows from data is no int */
        PyObject *size = py_traced_size(self, 0);
        Py_ssize_t n = size ? PyNumber_AsSsize_t(size, PyExc_OverflowError) : -1;
        Py_XDECREF(size);
        return n;
    }
    if (!self_of(self)->ndim) return PyErr_SetString(PyExc_TypeError, "len() of a 0-d tensor"), -1;
    return (Py_ssize_t)self_of(self)->size[0];
}

PyObject *py_tensor_iter(PyObject *self)
{
    rush_tensor *t = self_of(self);
    if (!t->ndim) return PyErr_Format(PyExc_TypeError, "iteration over a 0-d tensor");
    static const rush_op *op;
    if (!op && !(op = rush_op_find("unbind.int"))) return PySeqIter_New(self);
    PyObject *list;
    if (py_asks(self)) { /* who is asked, is asked about unbind() */
        list = PyObject_CallMethod(self, "unbind", "i", 0);
    } else {
        size_t mark = rush_scope_open();
        rush_value in[2] = {rush_v_tensor(t), rush_v_int(0)}, out[RUSH_MAXOUT];
        list = rush_call(op, in, out) ? py_raise() : py_wrap_list(out[0].tensors, out[0].n, true);
        rush_scope_close(mark);
    }
    PyObject *iter = list ? PyObject_GetIter(list) : NULL;
    Py_XDECREF(list);
    return iter;
}

static PyObject *is_contiguous(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"memory_format", NULL};
    PyObject *format = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O!:is_contiguous", names, &py_type_memory_format, &format)) return NULL;
    int f = format ? py_constant_value(format) : RUSH_CONTIGUOUS;
    if (has_no_strides(self_of(self), "is_contiguous")) return NULL;
    return PyBool_FromLong(f == RUSH_CONTIGUOUS ? rush_contiguous(self_of(self)) : rush_contiguous_as(self_of(self), f));
}

static PyObject *is_set_to(PyObject *self, PyObject *other)
{
    rush_tensor *a = self_of(self), *b = py_need_tensor(other, "is_set_to(): argument 'tensor' (position 1)");
    if (!b) return NULL;
    if (!rush_in_memory(a) || !rush_in_memory(b)) return PyBool_FromLong(a == b);
    return PyBool_FromLong(a->storage == b->storage && a->offset == b->offset && rush_same_sizes(a, b) &&
                           !memcmp(a->stride, b->stride, sizeof *a->stride * a->ndim));
}

static PyObject *is_floating_point(PyObject *self, PyObject *unused) { return PyBool_FromLong(rush_dtypes[self_of(self)->dtype].category == 2); }
static PyObject *is_complex(PyObject *self, PyObject *unused) { return PyBool_FromLong(rush_dtypes[self_of(self)->dtype].category == 3); }
static PyObject *is_signed(PyObject *self, PyObject *unused)
{
    const rush_dtype_info *d = &rush_dtypes[self_of(self)->dtype];
    return PyBool_FromLong(d->category >= 2 || d->is_signed);
}
static PyObject *is_inference(PyObject *self, PyObject *unused) { return PyBool_FromLong(self_of(self)->flags & RUSH_T_INFERENCE); }
static PyObject *is_conj(PyObject *self, PyObject *unused) { return PyBool_FromLong(self_of(self)->flags & RUSH_T_CONJ); }
static PyObject *is_neg(PyObject *self, PyObject *unused) { return PyBool_FromLong(self_of(self)->flags & RUSH_T_NEG); }
static PyObject *is_view(PyObject *self, PyObject *unused) { return PyBool_FromLong(self_of(self)->base != NULL); }
static PyObject *never(PyObject *self, PyObject *unused) { Py_RETURN_FALSE; }
static PyObject *nothing(PyObject *self, PyObject *unused) { Py_RETURN_NONE; }

static PyObject *is_nonzero(PyObject *self, PyObject *unused)
{
    int yes = PyObject_IsTrue(self);
    return yes < 0 ? NULL : PyBool_FromLong(yes);
}

static PyObject *qscheme(PyObject *self, PyObject *unused)
{
    rush_value in[1] = {rush_v_tensor(self_of(self))}, out[RUSH_MAXOUT];
    return rush_call(rush_op_find("_qscheme"), in, out) ? py_raise() : py_qscheme((int)out[0].i);
}

static PyObject *get_device(PyObject *self, PyObject *unused)
{
    return PyLong_FromLong(self_of(self)->device.index);
}

static PyObject *elements(const rush_tensor *t, int d, const char *p)
{
    if (d == t->ndim) return py_number_of(t, p);
    PyObject *list = PyList_New((Py_ssize_t)t->size[d]);
    int64_t step = t->stride[d] * rush_dtypes[t->dtype].size;
    for (int64_t i = 0; list && i < t->size[d]; ++i, p += step) {
        PyObject *x = elements(t, d + 1, p);
        if (!x) Py_CLEAR(list);
        else PyList_SET_ITEM(list, (Py_ssize_t)i, x);
    }
    return list;
}

static PyObject *tolist(PyObject *self, PyObject *unused)
{
    rush_tensor *t = self_of(self);
    if (t->device.type == RUSH_META) return PyErr_Format(PyExc_NotImplementedError, "Cannot copy out of meta tensor; no data!");
    if (t->layout == RUSH_ELSEWHERE) return PyErr_Format(PyExc_RuntimeError, ".tolist() is not supported for tensor subclasses, got %s", py_type_name(self));
    if (has_no_storage(t) || py_lacks_data(t, ".tolist()")) return NULL;
    if (py_reads_are_told()) return py_traced_item(self, NULL);
    size_t mark = rush_scope_open();
    if (rush_is_quantized(t)) t = T("dequantize.self", V(t));
    const rush_tensor *host = t ? rush_on_host(t) : NULL;
    PyObject *list = host ? elements(host, 0, rush_ptr(host)) : py_raise();
    rush_scope_close(mark);
    return list;
}

/* The text of a C program's print; Python's own has all of set_printoptions. */
static PyObject *format(PyObject *self, PyObject *unused)
{
    size_t n = rush_tensor_format(self_of(self), NULL, 0);
    char *text = rush_malloc(n + 1);
    if (!text) return py_raise();
    rush_tensor_format(self_of(self), text, n + 1);
    PyObject *x = PyUnicode_FromString(text);
    rush_free(text);
    return x;
}

static PyObject *storage(PyObject *self, PyObject *unused)
{
    rush_tensor *t = self_of(self);
    if (t->layout == RUSH_ELSEWHERE) return rush_storage_nowhere(t) ? py_storage(t->storage) : py_raise();
    if (!rush_in_memory(t)) return PyErr_Format(PyExc_NotImplementedError, "Cannot access storage of %sTensorImpl", t->layout == RUSH_SPARSE_COO ? "Sparse" : "SparseCsr");
    return py_storage(t->storage);
}

/* nonzero(*, out=None, as_tuple=False): places as rows, or one tensor of places per dimension */
static PyObject *nonzero(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"out", "as_tuple", NULL};
    PyObject *out = Py_None, *x = NULL;
    PyObject *given = Py_False;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OO:nonzero", names, &out, &given)) return NULL;
    int tuple = py_need_bool(given, "nonzero(): argument 'as_tuple'");
    if (tuple < 0) return NULL;
    if (tuple && out != Py_None) return PyErr_Format(PyExc_RuntimeError, "nonzero(): as_tuple=True has several results, out= takes one");
    const rush_op *op = rush_op_find("nonzero");
    if (!op) return PyErr_Format(PyExc_NotImplementedError, "the operation 'nonzero' is not there yet");
    size_t mark = rush_scope_open();
    rush_tensor *t = self_of(self);
    if (tuple && !t->ndim) t = T("unsqueeze", V(t), V((int64_t)0));
    rush_value in = rush_v_tensor(t), result[RUSH_MAXOUT] = {RUSH_NONE};
    if (out != Py_None && py_is_tensor(out)) result[0] = rush_v_tensor(py_tensor_of(out));
    if (!t || (result[0].t ? rush_call_out(op, &in, result) : py_run(op, &in, result))) {
        py_raise();
    } else if (!tuple) {
        x = py_wrap(result[0].t);
    } else {
        rush_value columns[RUSH_MAXOUT];
        if (TN(columns, "unbind.int", V(result[0].t), V((int64_t)1))) py_raise();
        else x = py_wrap_list(columns[0].tensors, columns[0].n, true);
    }
    rush_scope_close(mark);
    return x;
}

/* is_pinned(device=None): whatever the device */
static PyObject *is_pinned(PyObject *self, PyObject *args, PyObject *kwargs)
{
    return PyBool_FromLong(rush_is_pinned(py_tensor_of(self)));
}

static PyObject *pin_memory(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"device", NULL};
    PyObject *where = Py_None;
    rush_value device = RUSH_NONE;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:pin_memory", names, &where)) return NULL;
    if (where != Py_None) {
        device.kind = RUSH_V_DEVICE;
        int ok = py_to_device(where, &device.device);
        if (ok <= 0) return ok ? NULL : PyErr_Format(PyExc_TypeError, "a device was expected, not %s", py_type_name(where));
    }
    size_t mark = rush_scope_open();
    rush_tensor *t = T("_pin_memory", V(self_of(self)), device);
    PyObject *x = t ? py_wrap(t) : py_raise();
    rush_scope_close(mark);
    return x;
}

static PyObject *view_func(PyObject *self, PyObject *base) { return PyErr_Format(PyExc_NotImplementedError, "_view_func() is not there yet"); }

/* ---- classes ---- */

static PyObject *as_subclass(PyObject *self, PyObject *cls)
{
    if (!PyType_Check(cls)) return PyErr_Format(PyExc_TypeError, "cls must be a type (got %s)", py_type_name(cls));
    if (!PyType_IsSubtype((PyTypeObject *)cls, &py_type_TensorBase)) return PyErr_Format(PyExc_TypeError, "Creating a Tensor subclass from a class that does not inherit from Tensor is not possible: %s",
                                                                                         ((PyTypeObject *)cls)->tp_name);
    size_t mark = rush_scope_open();
    rush_tensor *t = T("alias", V(self_of(self)));
    PyObject *x = t ? py_wrap_as((PyTypeObject *)cls, t) : py_raise();
    rush_scope_close(mark);
    return x;
}

static PyObject *make_subclass(PyObject *unused, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"cls", "data", "require_grad", "dispatch_sizes_strides_policy", "dispatch_device", "dispatch_layout", "device_for_backend_keys", NULL};
    PyObject *cls, *data, *given = Py_False, *policy = NULL, *dispatch = NULL, *layout = NULL, *keys = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|O$OOOO:_make_subclass", names, &cls, &data, &given, &policy, &dispatch, &layout, &keys)) return NULL;
    int grad = py_need_bool(given, "_make_subclass(): argument 'require_grad' (position 3)");
    if (grad < 0) return NULL;
    if (!PyType_Check(cls)) return PyErr_Format(PyExc_TypeError, "cls must be a type (got %s)", py_type_name(cls));
    rush_tensor *from = py_need_tensor(data, "_make_subclass(): argument 'data' (position 2)");
    if (!from) return NULL;
    size_t mark = rush_scope_open();
    rush_tensor *t = rush_tensor_detach(from);
    if (t && grad && py_needs_gradient(t)) t = NULL;
    PyObject *x = t ? py_wrap_as((PyTypeObject *)cls, t) : py_raise();
    rush_scope_close(mark);
    return x;
}

PyMethodDef py_tensor_methods[] = {
    {"size", (PyCFunction)(void (*)(void))size, METH_FASTCALL | METH_KEYWORDS, "size(dim=None): the sizes, or that of one dimension."},
    {"stride", (PyCFunction)(void (*)(void))stride, METH_FASTCALL | METH_KEYWORDS, "stride(dim=None): how many elements lie between neighbours along a dimension."},
    {"dim", ndimension, METH_NOARGS, "How many dimensions."},
    {"ndimension", ndimension, METH_NOARGS, "How many dimensions."},
    {"numel", numel, METH_NOARGS, "How many elements."},
    {"nelement", numel, METH_NOARGS, "How many elements."},
    {"storage_offset", storage_offset, METH_NOARGS, "The first element's place in the storage, in elements."},
    {"element_size", element_size, METH_NOARGS, "Bytes per element."},
    {"data_ptr", data_ptr, METH_NOARGS, "The address of the first element."},
    {"const_data_ptr", data_ptr, METH_NOARGS, "The address of the first element."},
    {"_use_count", use_count, METH_NOARGS, "How many references the library counts."},
    {"is_contiguous", (PyCFunction)(void (*)(void))is_contiguous, METH_VARARGS | METH_KEYWORDS, "Do the elements lie in memory in the order of the indices?"},
    {"is_set_to", is_set_to, METH_O, "Is it the same memory in the same shape?"},
    {"is_floating_point", is_floating_point, METH_NOARGS, "Is the dtype a real floating point type?"},
    {"is_complex", is_complex, METH_NOARGS, "Is the dtype complex?"},
    {"is_signed", is_signed, METH_NOARGS, "Is the dtype signed?"},
    {"is_inference", is_inference, METH_NOARGS, "Was it made under inference_mode?"},
    {"qscheme", qscheme, METH_NOARGS, "How its integers stand for numbers: torch.per_tensor_affine, torch.per_channel_affine, ..."},
    {"is_conj", is_conj, METH_NOARGS, "Is it lazily conjugated?"},
    {"is_neg", is_neg, METH_NOARGS, "Is it lazily negated?"},
    {"_is_view", is_view, METH_NOARGS, "Is it a differentiable view of another tensor?"},
    {"_is_zerotensor", never, METH_NOARGS, "No tensor here is one."},
    {"is_nonzero", is_nonzero, METH_NOARGS, "Is the one element not zero?"},
    {"is_distributed", never, METH_NOARGS, "Never: such tensors don't exist any more."},
    {"is_pinned", (PyCFunction)(void (*)(void))is_pinned, METH_VARARGS | METH_KEYWORDS, "Is it in page-locked memory?"},
    {"get_device", get_device, METH_NOARGS, "The index of its device; -1 on the CPU."},
    {"item", py_item, METH_NOARGS, "The one element as a Python number."},
    {"tolist", tolist, METH_NOARGS, "The elements as nested lists; a number for 0-d tensors."},
    {"_format", format, METH_NOARGS, "The text that the library prints."},
    {"untyped_storage", storage, METH_NOARGS, "The bytes under it."},
    {"_make_subclass", (PyCFunction)(void (*)(void))make_subclass, METH_STATIC | METH_VARARGS | METH_KEYWORDS, "A detached tensor as an object of a subclass."},
    {"_make_wrapper_subclass", (PyCFunction)(void (*)(void))py_make_wrapper_subclass, METH_STATIC | METH_VARARGS | METH_KEYWORDS, "A tensor of a subclass without memory of its own: its __torch_dispatch__ runs the operations."},
    {"record_stream", (PyCFunction)nothing, METH_O, "Nothing on the CPU."},
    {"nonzero", (PyCFunction)(void (*)(void))nonzero, METH_VARARGS | METH_KEYWORDS, "nonzero(*, out=None, as_tuple=False): where the elements are not zero."},
    {"pin_memory", (PyCFunction)(void (*)(void))pin_memory, METH_VARARGS | METH_KEYWORDS, "A copy in page-locked memory: only with an accelerator."},
    {NULL},
};

/* About the object, not its values: no __torch_function__ is asked. */
PyMethodDef py_tensor_object_methods[] = {
    {"as_subclass", as_subclass, METH_O, "The same tensor as an object of a subclass."},
    {"_fix_weakref", nothing, METH_NOARGS, "Nothing: objects keep their tensors."},
    {"_view_func", view_func, METH_O, NULL},
    {NULL},
};

/* ---- properties ---- */

static PyObject *get_shape(PyObject *self, void *unused) { return py_tracing() ? py_traced_sizes(self) : py_size(self_of(self)->ndim, self_of(self)->size); }
static PyObject *get_dtype(PyObject *self, void *unused) { return py_dtype(self_of(self)->dtype); }
static PyObject *get_dev(PyObject *self, void *unused) { return py_device(self_of(self)->device); }
static PyObject *get_layout(PyObject *self, void *unused) { return py_layout(self_of(self)->layout % RUSH_QUANTIZED); }
static PyObject *get_ndim(PyObject *self, void *unused) { return PyLong_FromLong(self_of(self)->ndim); }
static PyObject *get_itemsize(PyObject *self, void *unused) { return PyLong_FromLong(rush_dtypes[self_of(self)->dtype].size); }
static PyObject *get_nbytes(PyObject *self, void *unused)
{
    if (self_of(self)->layout % RUSH_QUANTIZED)
        return PyErr_Format(PyExc_RuntimeError, "nbytes is not defined for sparse tensors.  If you want the size of the constituent tensors, add the nbytes of the indices and values.  "
                                                "If you want the size of the  equivalent dense tensor, multiply numel() by element_size()");
    return PyLong_FromLongLong(self_of(self)->numel * rush_dtypes[self_of(self)->dtype].size);
}
static PyObject *get_on(PyObject *self, void *type) { return PyBool_FromLong(self_of(self)->device.type == (intptr_t)type); }
static PyObject *get_false(PyObject *self, void *unused) { Py_RETURN_FALSE; }
static PyObject *get_none(PyObject *self, void *unused) { Py_RETURN_NONE; }
static PyObject *get_sparse(PyObject *self, void *layout) { return PyBool_FromLong(self_of(self)->layout == (intptr_t)layout); }
static PyObject *get_quantized(PyObject *self, void *unused) { return PyBool_FromLong(self_of(self)->dtype >= RUSH_QINT8); }
static PyObject *get_version(PyObject *self, void *unused)
{
    if (self_of(self)->flags & RUSH_T_INFERENCE) return PyErr_Format(PyExc_RuntimeError, "Inference tensors do not track version counter.");
    return PyLong_FromUnsignedLong(rush_version_of(self_of(self)));
}
static PyObject *get_base(PyObject *self, void *unused) { return py_wrap(self_of(self)->base); }
static PyObject *get_cdata(PyObject *self, void *unused) { return PyLong_FromVoidPtr(self_of(self)); }

static PyObject *get_transposed(PyObject *self, void *unused)
{
    rush_tensor *t = self_of(self);
    int64_t order[RUSH_MAXDIM];
    size_t mark = rush_scope_open();
    for (int i = 0; i < t->ndim; ++i) order[i] = t->ndim - 1 - i;
    static atomic_flag said = ATOMIC_FLAG_INIT;
    if (t->ndim > 2 && rush_warn_now(&said) && PyErr_WarnEx(PyExc_UserWarning, "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is deprecated "
                                    "and it will throw an error in a future release. Consider `x.mT` to transpose batches of matrices or "
                                    "`x.permute(*torch.arange(x.ndim - 1, -1, -1))` to reverse the dimensions of a tensor.", 1)) return NULL;
    return finish(mark, T("permute", V(t), rush_v_ints(order, t->ndim)));
}

static PyObject *matrix_transposed(PyObject *self, bool conj, const char *name, int most)
{
    rush_tensor *t = self_of(self);
    if (t->ndim && (t->ndim < 2 || t->ndim > most))
        return PyErr_Format(PyExc_RuntimeError, "tensor.%s is only supported on matrices%s. Got %d-D tensor.%s", name, most == 2 ? " (2-D tensors)" : " or batches of matrices", t->ndim,
                            most == 2 && t->ndim > 2 ? " For batches of matrices, consider using tensor.mH" : "");
    size_t mark = rush_scope_open();
    rush_tensor *r = t->ndim ? transpose(t, -2, -1) : t;
    if (conj && r && rush_dtypes[r->dtype].category == 3) r = T("conj", V(r));
    PyObject *x = r ? py_wrap(r) : py_raise();
    rush_scope_close(mark);
    return x;
}
static PyObject *get_mT(PyObject *self, void *unused) { return matrix_transposed(self, false, "mT", RUSH_MAXDIM); }
static PyObject *get_mH(PyObject *self, void *unused) { return matrix_transposed(self, true, "mH", RUSH_MAXDIM); }
static PyObject *get_H(PyObject *self, void *unused) { return matrix_transposed(self, true, "H", 2); }

static PyObject *get_real(PyObject *self, void *unused)
{
    if (rush_dtypes[self_of(self)->dtype].category != 3) return py_ref(self);
    size_t mark = rush_scope_open();
    return finish(mark, T("real", V(self_of(self))));
}

static PyObject *get_imag(PyObject *self, void *unused)
{
    if (rush_dtypes[self_of(self)->dtype].category != 3) return PyErr_Format(PyExc_RuntimeError, "imag is not implemented for tensors with non-complex dtypes.");
    size_t mark = rush_scope_open();
    return finish(mark, T("imag", V(self_of(self))));
}

static int set_part(PyObject *part, PyObject *value)
{
    int failed = part ? py_tensor_setitem(part, Py_Ellipsis, value) : -1;
    Py_XDECREF(part);
    return failed;
}
static int set_real(PyObject *self, PyObject *value, void *unused) { return set_part(get_real(self, NULL), value); }
static int set_imag(PyObject *self, PyObject *value, void *unused) { return set_part(get_imag(self, NULL), value); }

static PyObject *get_data(PyObject *self, void *unused)
{
    if (!py_is_seen(self_of(self)) && py_lacks_data(self_of(self), "data")) return NULL;
    size_t mark = rush_scope_open();
    rush_tensor *of = self_of(self), *t = py_is_seen(of) ? T("detach", V(of)) : rush_tensor_detach(of);
    bool made = t && (t == of || !rush_version_own(t, 0)); /* changes through .data are not seen by autograd */
    PyObject *x = made ? py_wrap(t) : py_raise();
    rush_scope_close(mark);
    return x;
}

static int set_data(PyObject *self, PyObject *value, void *unused)
{
    rush_tensor *t = self_of(self), *from = value ? py_need_tensor(value, "the new data") : NULL;
    if (!from) return PyErr_Occurred() ? -1 : (PyErr_SetString(PyExc_RuntimeError, "Deleting tensor data is not allowed. Delete tensor instead!"), -1);
    return rush_data_set(t, from) ? py_raise_int() : 0;
}

PyGetSetDef py_tensor_getset[] = {
    {"shape", get_shape, NULL, "The sizes, a torch.Size."},
    {"dtype", get_dtype, NULL, "The type of the elements."},
    {"device", get_dev, NULL, "Where the memory is."},
    {"layout", get_layout, NULL, "Strided, or one of the sparse forms."},
    {"ndim", get_ndim, NULL, "How many dimensions."},
    {"itemsize", get_itemsize, NULL, "Bytes per element."},
    {"nbytes", get_nbytes, NULL, "Bytes of all elements."},
    {"grad", py_get_grad, py_set_grad, "The gradient that backward() accumulated; None before."},
    {"_grad", py_get_grad, py_set_grad, NULL},
    {"grad_dtype", py_get_grad_dtype, py_set_grad_dtype, "What a leaf's gradients are converted to: its own dtype unless set; None: nothing."},
    {"grad_fn", py_get_grad_fn, py_set_grad_fn, "The node that made it; None for leaves."},
    {"_grad_fn", py_get_grad_fn, NULL, NULL},
    {"requires_grad", py_get_requires_grad, py_set_requires_grad, "Does it take part in gradients?"},
    {"is_leaf", py_get_is_leaf, NULL, "Was it made by the user, not by a recorded operation?"},
    {"retains_grad", py_get_retains_grad, NULL, "Will a tensor that is no leaf keep its gradient?"},
    {"output_nr", py_get_output_nr, NULL, "Which result of its grad_fn."},
    {"_backward_hooks", py_get_backward_hooks, py_set_backward_hooks, NULL},
    {"_post_accumulate_grad_hooks", get_none, NULL, NULL},
    {"data", get_data, set_data, "The same memory outside of graphs; changes to it are not recorded."},
    {"T", get_transposed, NULL, "With its dimensions reversed."},
    {"mT", get_mT, NULL, "With its last two dimensions exchanged."},
    {"H", get_H, NULL, "The matrix transposed and conjugated."},
    {"mH", get_mH, NULL, "Matrices transposed and conjugated."},
    {"real", get_real, set_real, "The real part, a view."},
    {"imag", get_imag, set_imag, "The imaginary part, a view."},
    {"_version", get_version, NULL, "How often the memory was changed in place."},
    {"_base", get_base, NULL, "Whose memory a view shows."},
    {"_cdata", get_cdata, NULL, "A number that names the tensor."},
    {"name", get_none, NULL, NULL},
    {"volatile", get_false, NULL, NULL},
    {"is_cpu", get_on, NULL, NULL, (void *)RUSH_CPU},
    {"is_cuda", get_on, NULL, NULL, (void *)RUSH_CUDA},
    {"is_meta", get_on, NULL, NULL, (void *)RUSH_META},
    {"is_sparse", get_sparse, NULL, NULL, (void *)RUSH_SPARSE_COO},
    {"is_sparse_csr", get_sparse, NULL, NULL, (void *)RUSH_SPARSE_CSR},
    {"is_quantized", get_quantized, NULL, NULL},
    {"is_nested", get_false, NULL, NULL},
    {"is_mkldnn", get_false, NULL, NULL},
    {"is_mps", get_false, NULL, NULL},
    {"is_xpu", get_false, NULL, NULL},
    {"is_xla", get_false, NULL, NULL},
    {"is_ipu", get_false, NULL, NULL},
    {"is_vulkan", get_false, NULL, NULL},
    {"is_maia", get_false, NULL, NULL},
    {"is_mtia", get_false, NULL, NULL},
    {"_has_symbolic_sizes_strides", get_false, NULL, NULL},
    {"_python_dispatch", get_false, NULL, NULL},
    {NULL},
};
