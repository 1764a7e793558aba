/* numpy.c - NumPy arrays both ways without copying, and without NumPy's headers.
 *
 * NumPy is looked for when a tensor meets it, never imported for its own sake. The few fields of an array that are
 * read here, and the few functions of NumPy's table that are called, have had their places since 1.0 (its binary
 * interface promises them).
 */
#include "ext.h"
#include "tensor/sparse.h"

/* The beginning of an array, and of a descriptor of its elements. */
typedef struct array_head {
    PyObject_HEAD
    char *data;
    int nd;
    intptr_t *dimensions, *strides; /* strides in bytes */
    PyObject *base, *descr;
    int flags;
} array_head;
typedef struct descr_head {
    PyObject_HEAD
    PyTypeObject *type;
    char kind, letter, byteorder, flags;
    int type_num;
} descr_head;
enum { WRITEABLE = 0x400, ALIGNED = 0x100 };

static struct {
    bool ready;
    PyTypeObject *array, *generic;
    PyObject *(*descr_from_type)(int);
    PyObject *(*new_from_descr)(PyTypeObject *, PyObject *descr, int nd, const intptr_t *dims, const intptr_t *strides, void *data, int flags, PyObject *obj);
    int (*set_base)(PyObject *array, PyObject *base);
} np;

static int load(bool import)
{
    if (np.ready) return 0;
    PyObject *modules = PyImport_GetModuleDict(), *numpy = PyDict_GetItemString(modules, "numpy");
    if (!numpy && !import) return -1;
    PyObject *module = PyImport_ImportModule("numpy._core._multiarray_umath");
    if (!module) {
        PyErr_Clear();
        module = PyImport_ImportModule("numpy.core._multiarray_umath");
    }
    PyObject *capsule = module ? PyObject_GetAttrString(module, "_ARRAY_API") : NULL;
    void **table = capsule ? PyCapsule_GetPointer(capsule, NULL) : NULL;
    Py_XDECREF(capsule);
    Py_XDECREF(module);
    if (!table) {
        if (import) {
            PyErr_Clear();
            PyErr_SetString(PyExc_RuntimeError, "Numpy is not available");
        } else {
            PyErr_Clear();
        }
        return -1;
    }
    np.array = table[2];
    np.generic = table[10];
    np.descr_from_type = (PyObject * (*)(int)) table[45];
    np.new_from_descr = (PyObject * (*)(PyTypeObject *, PyObject *, int, const intptr_t *, const intptr_t *, void *, int, PyObject *)) table[94];
    np.set_base = (int (*)(PyObject *, PyObject *))table[282];
    np.ready = true;
    return 0;
}

bool py_is_ndarray(PyObject *x)
{
    if (!np.ready) {
        if (strncmp(Py_TYPE(x)->tp_name, "numpy.", 6) && !(Py_TYPE(x)->tp_flags & Py_TPFLAGS_HEAPTYPE)) return false;
        if (PyList_Check(x) || PyTuple_Check(x) || py_is_tensor(x) || load(false)) return false;
    }
    return PyObject_TypeCheck(x, np.array);
}

bool py_is_numpy_scalar(PyObject *x)
{
    if (!np.ready && (strncmp(Py_TYPE(x)->tp_name, "numpy.", 6) || load(false))) return false;
    return PyObject_TypeCheck(x, np.generic);
}

PyObject *py_numpy_scalar_item(PyObject *x) { return PyObject_CallMethod(x, "item", NULL); }

/* ---- dtypes: NumPy's numbers of types ---- */

static int from_numpy_type(int num)
{
    if (num == 9 || num == 10) return num == 9 ? RUSH_I64 : RUSH_U64; /* long long */
    for (int d = 0; d < RUSH_QINT8; ++d)
        if (num >= 0 && rush_dtypes[d].numpy == num) return d;
    return -1;
}

int py_ndarray_dtype(PyObject *x) { return from_numpy_type(((descr_head *)((array_head *)x)->descr)->type_num); }

/* ---- array to tensor ---- */

static void release_array(void *owner)
{
    if (!Py_IsInitialized()) return;
    PyGILState_STATE gil = PyGILState_Ensure();
    Py_DECREF((PyObject *)owner);
    PyGILState_Release(gil);
}

rush_tensor *py_from_ndarray(PyObject *x, bool warn)
{
    array_head *a = (array_head *)x;
    int dtype = py_ndarray_dtype(x);
    int64_t size[RUSH_MAXDIM], stride[RUSH_MAXDIM];
    char order = ((descr_head *)a->descr)->byteorder;
    if (dtype < 0) {
        PyErr_Format(PyExc_TypeError, "can't convert np.ndarray of type %s. The only supported types are: float64, float32, float16, complex64, complex128, "
                     "int64, int32, int16, int8, uint64, uint32, uint16, uint8, and bool.", ((descr_head *)a->descr)->type->tp_name);
        return NULL;
    }
    if (order == '>') return PyErr_Format(PyExc_ValueError, "given numpy array has byte order different from the native byte order. Conversion between byte orders is currently not supported."), NULL;
    if (a->nd > RUSH_MAXDIM) return PyErr_Format(PyExc_ValueError, "tensors have at most %d dimensions", RUSH_MAXDIM), NULL;
    int item = rush_dtypes[dtype].size;
    bool empty = false;
    for (int d = 0; d < a->nd; ++d) {
        size[d] = a->dimensions[d];
        empty |= size[d] == 0;
        if (a->strides[d] < 0 && size[d] > 1) return PyErr_Format(PyExc_ValueError, "At least one stride in the given numpy array is negative, and tensors with negative strides are not currently supported. "
                                                                  "(You can probably work around this by making a copy of your array  with array.copy().) "), NULL;
        if (a->strides[d] % item && size[d] > 1) return PyErr_Format(PyExc_ValueError, "given numpy array strides not a multiple of the element byte size. Copy the numpy array to reallocate the memory."), NULL;
        stride[d] = a->strides[d] < 0 ? 1 : a->strides[d] / item;
    }
    if (warn && !(a->flags & WRITEABLE)) {
        static atomic_flag said = ATOMIC_FLAG_INIT;
        if (rush_warn_now(&said) && PyErr_WarnEx(PyExc_UserWarning, "The given NumPy array is not writable, and PyTorch does not support non-writable tensors. This means writing to this tensor "
                                    "will result in undefined behavior. You may want to copy the array to protect its data or make it writable before converting it to a tensor. "
                                    "This type of warning will be suppressed for the rest of this program.", 1)) return NULL;
    }
    if (empty) rush_strides_for(RUSH_CONTIGUOUS, a->nd, size, stride);
    Py_INCREF(x);
    rush_tensor *t = rush_from_blob(a->data, dtype, a->nd, size, stride, release_array, x);
    return t ? t : py_raise();
}

/* ---- tensor to array ---- */

/* Keeps a tensor alive under an array whose tensor has no object of its own. */
PyObject *py_to_ndarray(PyObject *self, rush_tensor *t)
{
    if (t->flags & RUSH_T_WATCHED) return PyErr_Format(PyExc_RuntimeError, ".numpy() is not supported for tensor subclasses.");
    intptr_t size[RUSH_MAXDIM], stride[RUSH_MAXDIM];
    if (load(true)) return NULL;
    if (t->device.type != RUSH_CPU) return PyErr_Format(PyExc_TypeError, "can't convert %s device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.", rush_device_name(t->device.type));
    if (t->layout) return PyErr_Format(PyExc_TypeError, "can't convert %s layout tensor to numpy. Use Tensor.to_dense() first.", rush_layout_word(t->layout));
    if (rush_dtypes[t->dtype].numpy < 0) {
        return PyErr_Format(PyExc_TypeError, "Got unsupported ScalarType %s", rush_dtypes[t->dtype].word);
    }
    static char nothing[16];
    for (int d = 0; d < t->ndim; ++d) {
        size[d] = (intptr_t)t->size[d];
        stride[d] = (intptr_t)t->stride[d] * rush_dtypes[t->dtype].size;
    }
    if (t->storage) rush_storage_show(t->storage);
    PyObject *descr = np.descr_from_type(rush_dtypes[t->dtype].numpy);
    PyObject *array = descr ? np.new_from_descr(np.array, descr, t->ndim, size, stride, rush_ptr(t) ? rush_ptr(t) : nothing, WRITEABLE | ALIGNED, NULL) : NULL;
    PyObject *owner = array ? py_storage(t->storage) : NULL; /* not the tensor, which may be given other memory */
    if (!owner || np.set_base(array, owner)) Py_CLEAR(array);
    if (array) t->storage->resizable = false; /* the array would point to memory that is gone */
    return array;
}

static PyObject *is_array(PyObject *module, PyObject *x) { return PyBool_FromLong(py_is_ndarray(x)); }

static PyMethodDef functions[] = {{"_is_ndarray", is_array, METH_O, "Is it a NumPy array? Never imports NumPy."}, {NULL}};

int py_numpy_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }

/* ---- the buffer protocol ---- */

typedef struct buffer {
    rush_storage *s;
    Py_ssize_t dims[]; /* sizes, then steps in bytes */
} buffer;

static int get_buffer(PyObject *self, Py_buffer *view, int flags)
{
    static char nothing[16];
    rush_tensor *t = py_tensor_of(self);
    if (t->device.type != RUSH_CPU || t->layout || t->flags & RUSH_T_WATCHED || !*rush_dtypes[t->dtype].buffer || t->flags & (RUSH_T_CONJ | RUSH_T_NEG) || (t->ag && rush_wants_grad(t)))
        return PyErr_Format(PyExc_BufferError, "only dense CPU tensors of NumPy's types without gradients are buffers"), -1;
    if (!rush_contiguous(t) && !(flags & PyBUF_STRIDES)) return PyErr_Format(PyExc_BufferError, "the tensor is not contiguous"), -1;
    buffer *b = PyMem_Malloc(sizeof *b + sizeof *b->dims * 2 * t->ndim);
    if (!b) return PyErr_NoMemory(), -1;
    b->s = rush_storage_lend(t->storage);
    Py_ssize_t *dims = b->dims;
    int size = rush_dtypes[t->dtype].size;
    for (int d = 0; d < t->ndim; ++d) {
        dims[d] = (Py_ssize_t)t->size[d];
        dims[t->ndim + d] = (Py_ssize_t)t->stride[d] * size;
    }
    *view = (Py_buffer){.buf = rush_ptr(t) ? rush_ptr(t) : nothing, .obj = py_ref(self), .len = (Py_ssize_t)t->numel * size, .itemsize = size,
                        .format = flags & PyBUF_FORMAT ? (char *)rush_dtypes[t->dtype].buffer : NULL, .ndim = flags & PyBUF_ND ? t->ndim : 1,
                        .shape = flags & PyBUF_ND ? dims : NULL, .strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? dims + t->ndim : NULL, .internal = b};
    return 0;
}

static void release(PyObject *self, Py_buffer *view)
{
    rush_storage_unlend(((buffer *)view->internal)->s);
    PyMem_Free(view->internal);
}

PyBufferProcs py_tensor_buffer = {.bf_getbuffer = get_buffer, .bf_releasebuffer = release};
