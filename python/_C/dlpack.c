/* dlpack.c - tensors through DLPack, both ways: a capsule holds memory, shape and a function that lets them go. */
#include "ext.h"

/* The structures of dlpack.h, version 0.8 and, versioned, 1.0. */
typedef struct dl_device {
    int32_t type; /* 1: CPU, 2: CUDA, 3: CUDA host */
    int32_t id;
} dl_device;
typedef struct dl_tensor {
    void *data;
    dl_device device;
    int32_t ndim;
    struct {
        uint8_t code, bits; /* 0 int, 1 uint, 2 float, 4 bfloat, 5 complex, 6 bool */
        uint16_t lanes;
    } dtype;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} dl_tensor;
typedef struct dl_managed {
    dl_tensor t;
    void *owner;
    void (*release)(struct dl_managed *);
} dl_managed;
typedef struct dl_versioned {
    struct {
        uint32_t major, minor;
    } version;
    void *owner;
    void (*release)(struct dl_versioned *);
    uint64_t flags; /* 1: read only */
    dl_tensor t;
} dl_versioned;

static const struct code {
    uint8_t code, bits;
    int8_t dtype;
} codes[] = {{0, 8, RUSH_I8}, {0, 16, RUSH_I16}, {0, 32, RUSH_I32}, {0, 64, RUSH_I64}, {1, 8, RUSH_U8}, {1, 16, RUSH_U16}, {1, 32, RUSH_U32},
             {1, 64, RUSH_U64}, {2, 16, RUSH_F16}, {2, 32, RUSH_F32}, {2, 64, RUSH_F64}, {4, 16, RUSH_BF16}, {5, 32, RUSH_C32}, {5, 64, RUSH_C64},
             {5, 128, RUSH_C128}, {6, 8, RUSH_BOOL}};

/* ---- out ---- */

typedef struct lent {
    union {
        dl_managed old;
        dl_versioned versioned;
    };
    rush_storage *s;
    int64_t dims[2 * RUSH_MAXDIM];
} lent;

static void end_lent(lent *l)
{
    rush_storage_unlend(l->s);
    rush_free(l);
}
static void release_old(dl_managed *m) { end_lent((lent *)m); }
static void release_versioned(dl_versioned *m) { end_lent((lent *)m); }

static void unused_capsule(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, "dltensor")) {
        dl_managed *m = PyCapsule_GetPointer(capsule, "dltensor");
        m->release(m);
    } else if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        dl_versioned *m = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        m->release(m);
    }
}

/* _to_dlpack(tensor, versioned=False) */
static PyObject *to_dlpack(PyObject *module, PyObject *args)
{
    PyObject *x;
    int versioned = 0;
    if (!PyArg_ParseTuple(args, "O|p:to_dlpack", &x, &versioned)) return NULL;
    rush_tensor *t = py_need_tensor(x, "to_dlpack(): the argument");
    if (!t) return NULL;
    const struct code *c = codes;
    while (c < codes + RUSH_COUNT(codes) && c->dtype != t->dtype) ++c;
    if (c == codes + RUSH_COUNT(codes)) return PyErr_Format(PyExc_BufferError, "%s types are not supported by dlpack", rush_dtypes[t->dtype].name);
    if (t->device.type != RUSH_CPU || t->layout) return PyErr_Format(PyExc_BufferError, "only dense tensors on the CPU go through dlpack");
    if (py_lacks_data(t, "dlpack")) return NULL;
    lent *l = rush_calloc(1, sizeof *l);
    if (!l) return py_raise();
    l->s = rush_storage_lend(t->storage);
    memcpy(l->dims, t->size, sizeof *t->size * t->ndim);
    memcpy(l->dims + RUSH_MAXDIM, t->stride, sizeof *t->stride * t->ndim);
    for (int d = 0; d < t->ndim; ++d)
        if (t->size[d] < 2) l->dims[RUSH_MAXDIM + d] = 1;
    dl_tensor *to = versioned ? &l->versioned.t : &l->old.t;
    *to = (dl_tensor){.data = rush_ptr(t), .device = {1, 0}, .ndim = t->ndim, .dtype = {c->code, c->bits, 1}, .shape = l->dims, .strides = l->dims + RUSH_MAXDIM};
    if (versioned) {
        l->versioned.version.major = 1;
        l->versioned.release = release_versioned;
    } else {
        l->old.release = release_old;
    }
    PyObject *capsule = PyCapsule_New(l, versioned ? "dltensor_versioned" : "dltensor", unused_capsule);
    if (!capsule) end_lent(l);
    return capsule;
}

/* ---- in ---- */

static void return_old(void *m) { if (((dl_managed *)m)->release) ((dl_managed *)m)->release(m); }
static void return_versioned(void *m) { if (((dl_versioned *)m)->release) ((dl_versioned *)m)->release(m); }

/* The lender may be Python code: its release wants the lock. */
static void give_back_old(void *m)
{
    if (!Py_IsInitialized()) return;
    PyGILState_STATE gil = PyGILState_Ensure();
    return_old(m);
    PyGILState_Release(gil);
}
static void give_back_versioned(void *m)
{
    if (!Py_IsInitialized()) return;
    PyGILState_STATE gil = PyGILState_Ensure();
    return_versioned(m);
    PyGILState_Release(gil);
}

static PyObject *from_dlpack(PyObject *module, PyObject *capsule)
{
    bool versioned = PyCapsule_IsValid(capsule, "dltensor_versioned");
    if (!versioned && !PyCapsule_IsValid(capsule, "dltensor"))
        return PyErr_Format(PyExc_RuntimeError, "from_dlpack received an invalid capsule. Note that DLTensor capsules can be consumed only once, so you might have already constructed a tensor from it once.");
    void *m = PyCapsule_GetPointer(capsule, versioned ? "dltensor_versioned" : "dltensor");
    dl_tensor *from = versioned ? &((dl_versioned *)m)->t : &((dl_managed *)m)->t;
    const struct code *c = codes;
    while (c < codes + RUSH_COUNT(codes) && (c->code != from->dtype.code || c->bits != from->dtype.bits)) ++c;
    if (c == codes + RUSH_COUNT(codes) || from->dtype.lanes != 1) return PyErr_Format(PyExc_RuntimeError, "Unsupported dlpack type: code %d, %d bits", from->dtype.code, from->dtype.bits);
    if (from->device.type != 1 && from->device.type != 3) return PyErr_Format(PyExc_BufferError, "dlpack: memory on device type %d cannot be shared by this build", from->device.type);
    if (from->ndim > RUSH_MAXDIM) return PyErr_Format(PyExc_RuntimeError, "dlpack: too many dimensions");
    size_t mark = rush_scope_open();
    rush_tensor *t = rush_from_blob((char *)from->data + from->byte_offset, c->dtype, from->ndim, from->shape, from->strides,
                                    versioned ? give_back_versioned : give_back_old, m);
    PyObject *x = NULL;
    if (!t) py_raise();
    else if (!PyCapsule_SetName(capsule, versioned ? "used_dltensor_versioned" : "used_dltensor")) x = py_wrap(t);
    rush_scope_close(mark);
    return x;
}

static PyMethodDef functions[] = {
    {"_to_dlpack", to_dlpack, METH_VARARGS, "A DLPack capsule that shares the tensor's memory."},
    {"_from_dlpack", from_dlpack, METH_O, "A tensor that shares the memory of a DLPack capsule."},
    {NULL},
};

int py_dlpack_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
