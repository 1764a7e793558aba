/* elsewhere.c - wrapper subclasses: tensors whose class says in __torch_dispatch__ what an operation on them does.
 *
 * The tensor behind such an object has sizes and a dtype but no memory (RUSH_ELSEWHERE). Operations on it are asked of its
 * class like those of any class that answers for itself: dispatch.c. A class with the attribute _history_below is made of
 * tensors that have histories: its operations run recorded.
 */
#include "ext.h"

static int read_sizes(PyObject *x, const char *what, int64_t *size, int *n)
{
    int ok = py_to_sizes(x, size, RUSH_MAXDIM, n);
    if (!ok) PyErr_Format(PyExc_TypeError, "_make_wrapper_subclass(): argument '%s' must be tuple of ints, not %s", what, py_type_name(x));
    return ok > 0 ? 0 : -1;
}

PyObject *py_make_wrapper_subclass(PyObject *unused, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"cls", "size", "strides", "storage_offset", "memory_format", "dtype", "layout", "device", "pin_memory", "requires_grad",
                            "dispatch_sizes_strides_policy", "dispatch_device", "dispatch_layout", "_extra_dispatch_keys", "storage_size", NULL};
    PyObject *cls, *sizes, *strides = Py_None, *dtype = Py_None, *device = Py_None, *offset = Py_None, *nbytes = Py_None, *ignored[6];
    int64_t first = 0, bytes = -1;
    int grad = 0, n, nstrides, d = rush_default_dtype();
    int64_t size[RUSH_MAXDIM], stride[RUSH_MAXDIM];
    rush_device at = {RUSH_CPU, -1};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|OOOOOOOpOOOOO:_make_wrapper_subclass", names, &cls, &sizes, &strides, &offset, &ignored[0], &dtype,
                                     &ignored[1], &device, &ignored[2], &grad, &ignored[2], &ignored[3], &ignored[4], &ignored[5], &nbytes)) return NULL;
    if (!PyType_Check(cls) || !PyType_IsSubtype((PyTypeObject *)cls, &py_type_TensorBase)) return PyErr_Format(PyExc_TypeError, "cls must be a type (got %s)", py_type_name(cls));
    if (!py_answers_itself((PyTypeObject *)cls)) return PyErr_Format(PyExc_TypeError, "%s must define __torch_dispatch__", ((PyTypeObject *)cls)->tp_name);
    if (read_sizes(sizes, "size", size, &n)) return NULL;
    if (strides != Py_None && read_sizes(strides, "strides", stride, &nstrides)) return NULL;
    if (strides == Py_None) rush_strides_for(RUSH_CONTIGUOUS, nstrides = n, size, stride);
    if (nstrides != n) return PyErr_Format(PyExc_RuntimeError, "a wrapper of %d sizes and %d strides", n, nstrides);
    if (dtype != Py_None && !py_to_dtype(dtype, &d)) return PyErr_Format(PyExc_TypeError, "_make_wrapper_subclass(): argument 'dtype' must be torch.dtype, not %s", py_type_name(dtype));
    int ok = device == Py_None ? 1 : py_to_device(device, &at);
    if (ok <= 0) return ok ? NULL : PyErr_Format(PyExc_TypeError, "_make_wrapper_subclass(): argument 'device' must be torch.device, not %s", py_type_name(device));
    if (offset != Py_None && (ok = py_to_int(offset, &first)) <= 0)
        return ok ? NULL : PyErr_Format(PyExc_TypeError, "_make_wrapper_subclass(): argument 'storage_offset' must be int, not %s", py_type_name(offset));
    if (nbytes != Py_None && (ok = py_to_int(nbytes, &bytes)) <= 0)
        return ok ? NULL : PyErr_Format(PyExc_TypeError, "_make_wrapper_subclass(): argument 'storage_size' must be int, not %s", py_type_name(nbytes));
    size_t mark = rush_scope_open();
    rush_tensor *t = rush_tensor_elsewhere((rush_dtype)d, at, n, size, stride, first);
    if (t && PyObject_HasAttrString(cls, "_history_below")) t->flags |= RUSH_T_HISTORY_BELOW;
    if (t && bytes >= 0 && !rush_storage_nowhere(t)) t = NULL;
    if (t && bytes >= 0) t->storage->nbytes = (size_t)bytes;
    if (t && grad && py_needs_gradient(t)) t = NULL;
    PyObject *x = t ? py_wrap_as((PyTypeObject *)cls, t) : py_raise();
    rush_scope_close(mark);
    return x;
}

static PyObject *has_storage(PyObject *module, PyObject *x)
{
    rush_tensor *t = py_need_tensor(x, "_has_storage(): argument 'x'");
    return t ? PyBool_FromLong(rush_in_memory(t)) : NULL;
}

static PyMethodDef functions[] = {
    {"_has_storage", has_storage, METH_O, "Has the tensor memory of its own? Sparse ones and wrappers have not."},
    {NULL},
};

int py_elsewhere_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
