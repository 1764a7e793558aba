/* storage.c - torch.UntypedStorage: the bytes under tensors as a Python object, also shared between processes.
 *
 * An object with something to lose stays as long as its storage does: the ownership turns round as tensor.c tells of tensors.
 *
 * Sharing moves the bytes to an anonymous file in memory that is mapped by every process which has its
 * descriptor; the kernel frees it with the last mapping.
 */
#define _GNU_SOURCE
#include "ext.h"
#include "io/file.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct storage_object {
    PyObject_HEAD
    rush_storage *s; /* owned, or owns this (py_owned); its `py` points back */
    PyObject *dict, *weak;
} storage_object;
#define STORAGE(x) (((storage_object *)(x))->s)

static PyTypeObject *storage_class = &py_type_Storage; /* the Python subclass, once there is one */

/* What a storage over a mapped file owns. */
typedef struct mapping {
    void *at;
    size_t size;
    int fd; /* -1: closed */
    bool shared, nameless; /* nameless: of no file, shared with children that are forked; gets one when it is sent */
    int forks;             /* of the process, before it was mapped */
    rush_storage *before;  /* has the memory that was moved here, where somebody may still point to it */
} mapping;

/* Has it no bytes, being a wrapper's? Then a RuntimeError. */
static bool out_of_reach(const rush_storage *s)
{
    if (s->nowhere) PyErr_SetString(PyExc_RuntimeError, "Attempted to access the data pointer on an invalid python storage.");
    return s->nowhere;
}

rush_storage *py_storage_of(PyObject *x) { return PyObject_TypeCheck(x, &py_type_Storage) ? STORAGE(x) : NULL; }

rush_storage *py_any_storage_of(PyObject *x)
{
    if (PyList_CheckExact(x) || PyTuple_CheckExact(x) || py_is_tensor(x)) return NULL;
    rush_storage *s = py_storage_of(x);
    PyObject *untyped = s ? NULL : py_getattr_quiet(x, "_untyped_storage");
    if (untyped) s = py_storage_of(untyped);
    Py_XDECREF(untyped);
    return s && out_of_reach(s) ? NULL : s;
}

bool py_storage_fits(PyObject *x, int dtype)
{
    PyObject *own = py_getattr_quiet(x, "dtype");
    int typed = -1, known = own && py_to_dtype(own, &typed) > 0;
    Py_XDECREF(own);
    if (!known || typed == dtype) return true;
    PyErr_Format(PyExc_RuntimeError, "Expected a Storage of type %s or an UntypedStorage, but got %s for argument 1 'storage'", rush_dtype_word(dtype), rush_dtype_word(typed));
    return false;
}

static void storage_dealloc(PyObject *self);

static PyObject *wrap(PyTypeObject *type, rush_storage *owned)
{
    if (!owned) return py_raise();
    type->tp_dealloc = storage_dealloc; /* a subclass's of Python would not survive the turn of ownership */
    storage_object *self = (storage_object *)type->tp_alloc(type, 0);
    if (!self) {
        rush_storage_drop(owned);
        return NULL;
    }
    self->s = owned;
    owned->py = self;
    return (PyObject *)self;
}

PyObject *py_storage(rush_storage *s)
{
    if (!s) return PyErr_Format(PyExc_NotImplementedError, "Cannot access storage of a tensor that has none");
    if (s->py_owned) { /* the storage's reference becomes the caller's, and the object owns again */
        s->py_owned = false;
        rush_storage_keep(s);
        return s->py;
    }
    if (s->py) return py_ref(s->py);
    if (storage_class == &py_type_Storage) { /* the class is rushlight.storage's */
        PyObject *module = PyImport_ImportModule("rushlight.storage");
        Py_XDECREF(module);
        if (!module) return NULL;
    }
    rush_storage_keep(s);
    return wrap(storage_class, s);
}

static bool has_something_to_lose(storage_object *x)
{
    return x->weak || Py_TYPE(x) != storage_class || (x->dict && PyDict_GET_SIZE(x->dict));
}

static void storage_dealloc(PyObject *self)
{
    storage_object *x = (storage_object *)self;
    PyTypeObject *type = Py_TYPE(self);
    if (x->s && x->s->refs > 1 && has_something_to_lose(x)) {
        Py_SET_REFCNT(self, 1); /* the storage's */
        x->s->py_owned = true;
        rush_storage_drop(x->s);
        return;
    }
    if (type->tp_finalize && PyObject_CallFinalizerFromDealloc(self) < 0) return;
    PyObject_GC_UnTrack(self);
    if (x->s) x->s->py = NULL;
    if (x->weak) PyObject_ClearWeakRefs(self);
    py_clear_slots(type, &py_type_Storage, self);
    Py_CLEAR(x->dict);
    rush_storage_drop(x->s);
    type->tp_free(self);
    if (type->tp_flags & Py_TPFLAGS_HEAPTYPE) Py_DECREF(type);
}

/* The library dropped the last reference to a storage that owns its object: as of tensors. */
static void python_free(rush_storage *s)
{
    if (!py_may_end_objects()) return; /* both stay until the process ends */
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    s->py_owned = false;
    atomic_store(&s->refs, 1);
    Py_DECREF(s->py);
    PyErr_Restore(type, value, trace);
    PyGILState_Release(gil);
}

static int storage_traverse(PyObject *self, visitproc visit, void *arg)
{
    storage_object *x = (storage_object *)self;
    if (!x->s || x->s->refs == 1) Py_VISIT(x->dict); /* else a tensor has it, which the collector does not see */
    return 0;
}

static int storage_clear(PyObject *self)
{
    Py_CLEAR(((storage_object *)self)->dict);
    return 0;
}

/* ---- mapped files ---- */

/* Nameless mappings that nobody uses, to be used again: a fresh one costs more than what is written to it. Not those that a
 * child has, too. */
enum { SPARE = 8, SPARE_BYTES = 64 << 20 };
static _Atomic(mapping *) spare[SPARE];
static atomic_int forks;

static void forked(void) { atomic_fetch_add(&forks, 1); }

static bool put_aside(mapping *m)
{
    if (!m->nameless || m->forks != atomic_load(&forks) || m->size > SPARE_BYTES) return false;
    for (int i = 0; i < SPARE; ++i) {
        mapping *none = NULL;
        if (atomic_compare_exchange_strong(&spare[i], &none, m)) return true;
    }
    return false;
}

static void end_mapping(mapping *m)
{
    munmap(m->at, m->size ? m->size : 1);
    if (m->fd >= 0) close(m->fd);
    rush_free(m);
}

static void unmap(void *owner)
{
    mapping *m = owner;
    rush_storage_drop(m->before);
    m->before = NULL;
    if (!put_aside(m)) end_mapping(m);
}

/* One of that size, if there is one; those of other sizes make room. */
static mapping *take_aside(size_t size)
{
    for (int i = 0; i < SPARE; ++i) {
        mapping *m = atomic_exchange(&spare[i], NULL);
        if (m && m->size == size && m->forks == atomic_load(&forks)) return m;
        if (m && (i == 0 || !put_aside(m))) end_mapping(m);
    }
    return NULL;
}

/* A storage over `size` bytes of an open file, or (-1) of none. The descriptor is kept in the mapping when `keep`, else left alone. */
static rush_storage *map_fd(int fd, size_t size, bool shared, bool keep)
{
    mapping *m = rush_malloc(sizeof *m);
    if (!m) return NULL;
    int how = (shared ? MAP_SHARED : MAP_PRIVATE) | (fd < 0 ? MAP_ANONYMOUS | MAP_POPULATE : 0);
    void *at = mmap(NULL, size ? size : 1, PROT_READ | PROT_WRITE, how, fd, 0);
    if (at == MAP_FAILED) {
        rush_free(m);
        rush_fail(RUSH_RUNTIME_ERROR, "unable to map %zu bytes: %s", size, strerror(errno));
        return NULL;
    }
    *m = (mapping){at, size, keep ? fd : -1, shared, fd < 0, atomic_load(&forks), NULL};
    rush_storage *s = rush_storage_over(at, size, unmap, m);
    if (!s) unmap(m);
    return s;
}

static mapping *mapping_of(rush_storage *s) { return s->release == unmap ? s->owner : NULL; }

/* Moves the bytes into a shared mapping, once. */
static mapping *share(rush_storage *s)
{
    mapping *m = mapping_of(s);
    if (m && m->shared && !m->nameless) return m;
    if (out_of_reach(s)) return NULL;
    if (s->device.type != RUSH_CPU) return rush_fail(RUSH_RUNTIME_ERROR, "only storages on the CPU can be shared"), NULL;
    int fd = memfd_create("rushlight", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, s->nbytes ? (off_t)s->nbytes : 1)) {
        rush_fail(RUSH_RUNTIME_ERROR, "unable to make shared memory of %zu bytes: %s", s->nbytes, strerror(errno));
        if (fd >= 0) close(fd);
        return NULL;
    }
    rush_storage *moved = map_fd(fd, s->nbytes, true, true);
    if (!moved) return close(fd), NULL;
    rush_storage_show(s);
    if (s->nbytes) memcpy(moved->data, s->data, s->nbytes);
    rush_storage old = *s; /* swap the memory of the two, and let the old one go */
    s->data = moved->data, s->block = 0, s->release = moved->release, s->owner = moved->owner, s->resizable = false;
    moved->data = old.data, moved->block = old.block, moved->release = old.release, moved->owner = old.owner;
    m = mapping_of(s);
    if (old.lent || !old.resizable) m->before = moved;
    else rush_storage_drop(moved);
    return m;
}

static PyObject *share_memory(PyObject *self, PyObject *unused)
{
    mapping *m = mapping_of(STORAGE(self));
    return (m && m->shared) || share(STORAGE(self)) ? py_ref(self) : py_raise();
}

static PyObject *is_shared(PyObject *self, PyObject *unused)
{
    rush_storage *s = STORAGE(self);
    mapping *m = mapping_of(s);
    if (s->device.type == RUSH_CUDA) Py_RETURN_TRUE;
    return PyBool_FromLong(m ? m->shared : s->release == rush_unmap && ((rush_mapping *)s->owner)->shared);
}

static PyObject *share_fd(PyObject *self, PyObject *unused)
{
    mapping *m = share(STORAGE(self));
    if (!m) return py_raise();
    if (m->fd < 0) return PyErr_Format(PyExc_RuntimeError, "the descriptor of this shared storage is closed");
    return Py_BuildValue("in", m->fd, (Py_ssize_t)STORAGE(self)->nbytes);
}

static PyObject *new_shared_fd(PyObject *type, PyObject *args)
{
    int fd;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(args, "in", &fd, &size)) return NULL;
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (own < 0) return PyErr_SetFromErrno(PyExc_OSError);
    rush_storage *s = map_fd(own, (size_t)size, true, true);
    if (!s) close(own);
    return wrap((PyTypeObject *)type, s);
}

static PyObject *new_using_fd(PyObject *type, PyObject *x)
{
    int64_t n;
    if (py_to_int(x, &n) <= 0 || n < 0) return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "a size was expected");
    rush_storage *s = rush_storage_new((size_t)n, (rush_device){RUSH_CPU, -1});
    if (s && !share(s)) {
        rush_storage_drop(s);
        s = NULL;
    }
    return wrap((PyTypeObject *)type, s);
}

/* What a loader's batch lies in: shared as any other storage that came from a worker, without a descriptor for each. */
static PyObject *new_nameless(PyObject *type, PyObject *x)
{
    Py_buffer view = {0};
    int64_t n;
    if (PyObject_CheckBuffer(x)) {
        if (PyObject_GetBuffer(x, &view, PyBUF_SIMPLE)) return NULL;
        n = view.len;
    } else if (py_to_int(x, &n) <= 0 || n < 0) {
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "a size or bytes were expected");
    }
    size_t size = ((size_t)n + 4095) & ~(size_t)4095; /* whole pages: more of them have one size */
    mapping *m = take_aside(size);
    rush_storage *s = m ? rush_storage_over(m->at, size, unmap, m) : map_fd(-1, size, true, false);
    if (m && !s) end_mapping(m);
    if (s) s->nbytes = (size_t)n;
    if (view.obj) {
        if (s && n) memcpy(s->data, view.buf, (size_t)n);
        PyBuffer_Release(&view);
    }
    return wrap((PyTypeObject *)type, s);
}

static PyObject *is_nameless(PyObject *self, PyObject *unused)
{
    mapping *m = mapping_of(STORAGE(self));
    return PyBool_FromLong(m && m->nameless);
}

static PyObject *from_file(PyObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"filename", "shared", "nbytes", NULL};
    PyObject *path;
    int shared = 0;
    Py_ssize_t n = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|pn:from_file", names, PyUnicode_FSConverter, &path, &shared, &n)) return NULL;
    int64_t bytes = n;
    int fd = rush_open_to_map(PyBytes_AS_STRING(path), shared, &bytes);
    Py_DECREF(path);
    if (fd < 0) return wrap((PyTypeObject *)type, NULL);
    rush_storage *s = map_fd(fd, (size_t)bytes, shared, false);
    close(fd);
    return wrap((PyTypeObject *)type, s);
}

/* ---- making ---- */

static void release_buffer(void *owner)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    PyBuffer_Release(owner);
    PyGILState_Release(gil);
    rush_free(owner);
}

static PyObject *from_buffer(PyObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"buffer", "byte_order", "count", "offset", "dtype", NULL};
    PyObject *x, *dtype = NULL;
    const char *order = NULL;
    Py_ssize_t count = -1, offset = 0;
    int d = RUSH_U8;
    Py_buffer view;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|znnO:from_buffer", names, &x, &order, &count, &offset, &dtype)) return NULL;
    if (!dtype || dtype == Py_None) return PyErr_SetString(PyExc_RuntimeError, "argument 'dtype' cannot be None"), NULL;
    if (!py_to_dtype(dtype, &d)) return PyErr_Format(PyExc_TypeError, "from_buffer(): dtype expected, got %s", py_type_name(dtype));
    if (!order && d != RUSH_U8 && d != RUSH_I8) return PyErr_SetString(PyExc_RuntimeError, "function missing required argument 'byte_order' (pos 2)"), NULL;
    if (order && strcmp(order, "big") && strcmp(order, "little") && strcmp(order, "native"))
        return PyErr_Format(PyExc_ValueError, "invalid byte_order '%s' (expected 'big', 'little', or 'native')", order);
    if (PyObject_GetBuffer(x, &view, PyBUF_SIMPLE)) return NULL;
    Py_ssize_t size = rush_dtypes[d].size, n = count < 0 ? view.len - offset : count * size;
    if (offset < 0 || n < 0 || offset + n > view.len || n % size) {
        PyErr_Format(PyExc_ValueError, "buffer of %zd bytes does not hold %zd elements of %zd bytes after offset %zd", view.len, count, size, offset);
        PyBuffer_Release(&view);
        return NULL;
    }
    rush_storage *s = rush_storage_new((size_t)n, (rush_device){RUSH_CPU, -1});
    if (s && n) {
        memcpy(s->data, (char *)view.buf + offset, (size_t)n);
        if (order && !strcmp(order, "big"))
            for (Py_ssize_t i = 0; i < n; i += size)
                for (Py_ssize_t j = 0; j < size / 2; ++j) {
                    char *p = (char *)s->data + i, swap = p[j];
                    p[j] = p[size - 1 - j];
                    p[size - 1 - j] = swap;
                }
    }
    PyBuffer_Release(&view);
    return wrap((PyTypeObject *)type, s);
}

/* Shares the memory of a buffer, which stays exported for as long: memory maps, bytes read from files. */
static PyObject *over_buffer(PyObject *type, PyObject *x)
{
    Py_buffer *view = rush_malloc(sizeof *view);
    if (!view) return py_raise();
    if (PyObject_GetBuffer(x, view, PyBUF_SIMPLE)) {
        rush_free(view);
        return NULL;
    }
    rush_storage *s = rush_storage_over(view->buf, (size_t)view->len, release_buffer, view);
    if (!s) release_buffer(view);
    return wrap((PyTypeObject *)type, s);
}

static int fill_bytes(rush_storage *s, int64_t start, int64_t n, uint8_t byte);

/* Bytes [start, start + n) as a tensor, through which they go to and from devices; NULL and an error. */
static rush_tensor *as_bytes(rush_storage *s, int64_t start, int64_t n)
{
    rush_tensor *t = rush_tensor_header(RUSH_U8, s->device, 1);
    if (!t) return NULL;
    t->size[0] = n;
    t->stride[0] = 1;
    rush_tensor_refresh(t);
    rush_tensor_set_storage(t, s, start);
    return rush_park(t);
}

static int copy_bytes(rush_storage *to, rush_storage *from)
{
    if (out_of_reach(from) || out_of_reach(to)) return -1;
    if (from->device.type == RUSH_META && to->device.type != RUSH_META) return PyErr_Format(PyExc_NotImplementedError, "Cannot copy out of meta tensor; no data!"), -1;
    size_t mark = rush_scope_open();
    rush_tensor *a = rush_storage_data(to) && rush_storage_data(from) ? as_bytes(to, 0, (int64_t)to->nbytes) : NULL, *b = a ? as_bytes(from, 0, (int64_t)to->nbytes) : NULL;
    int failed = (b && rush_copy_into(a, b)) || rush_failed();
    rush_scope_close(mark);
    return failed ? py_raise_int() : 0;
}

static int fill_bytes(rush_storage *s, int64_t start, int64_t n, uint8_t byte)
{
    if (out_of_reach(s)) return -1;
    size_t mark = rush_scope_open();
    rush_tensor *t = rush_storage_data(s) && n > 0 ? as_bytes(s, start, n) : NULL;
    if (t && t->device.type == RUSH_CPU) memset(rush_ptr(t), byte, (size_t)n);
    else if (t) rush_device_fill(t, rush_v_int(byte));
    rush_scope_close(mark);
    return rush_failed() ? py_raise_int() : 0;
}

static PyObject *storage_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"size", "device", NULL};
    if (type == &py_type_Storage) return PyErr_Format(PyExc_RuntimeError, "Cannot directly construct StorageBase; subclass it and then construct that");
    PyObject *x = NULL, *device = NULL;
    rush_device d = {RUSH_CPU, -1};
    int64_t n = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O$O:UntypedStorage", names, &x, &device)) return NULL;
    if (device && device != Py_None && py_to_device(device, &d) <= 0)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "UntypedStorage(): argument 'device' must be torch.device");
    if (py_device_ready(d)) return NULL;
    bool list = x && PySequence_Check(x);
    if (list) n = PySequence_Size(x);
    else if (x && py_to_int(x, &n) <= 0)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "UntypedStorage(): a size or a sequence of bytes expected, got %s", py_type_name(x));
    if (n < 0) return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_RuntimeError, "Storage size must not be negative, got %lld", (long long)n);
    rush_storage *s = rush_storage_new((size_t)n, d);
    for (int64_t i = 0; s && list && i < n; ++i) {
        PyObject *item = PySequence_GetItem(x, i);
        if (item && !PyIndex_Check(item))
            PyErr_Format(PyExc_RuntimeError, "torch.UntypedStorage(): tried to construct a storage from a sequence (%s), but one of the items was of type %s instead of int",
                         py_type_name(x), py_type_name(item));
        long byte = item && !PyErr_Occurred() ? PyLong_AsLong(item) : -1;
        Py_XDECREF(item);
        if (PyErr_Occurred()) return rush_storage_drop(s), NULL;
        if (fill_bytes(s, i, 1, (uint8_t)byte)) return rush_storage_drop(s), NULL;
    }
    return wrap(type, s);
}

/* ---- methods ---- */

static PyObject *nbytes(PyObject *self, PyObject *unused) { return PyLong_FromSize_t(STORAGE(self)->nbytes); }
static PyObject *data_ptr(PyObject *self, PyObject *unused) { return out_of_reach(STORAGE(self)) ? NULL : PyLong_FromVoidPtr(rush_storage_show(STORAGE(self))); }
static PyObject *element_size(PyObject *self, PyObject *unused) { return PyLong_FromLong(1); }
static PyObject *resizable(PyObject *self, PyObject *unused) { return PyBool_FromLong(STORAGE(self)->resizable); }
static Py_ssize_t length(PyObject *self) { return (Py_ssize_t)STORAGE(self)->nbytes; }
static PyObject *get_device(PyObject *self, void *unused) { return py_device(STORAGE(self)->device); }
static PyObject *get_cdata(PyObject *self, void *unused) { return PyLong_FromVoidPtr(STORAGE(self)); }
static PyObject *get_filename(PyObject *self, void *unused) { Py_RETURN_NONE; }

static PyObject *resize(PyObject *self, PyObject *x)
{
    int64_t n;
    if (py_to_int(x, &n) <= 0) return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "resize_ expects an int, but got %s", py_type_name(x));
    if (n < 0) return PyErr_Format(PyExc_RuntimeError, "Storage size must not be negative, got %lld", (long long)n);
    return out_of_reach(STORAGE(self)) ? NULL : rush_storage_resize(STORAGE(self), (size_t)n) ? py_raise() : py_ref(self);
}

static PyObject *fill(PyObject *self, PyObject *x)
{
    int64_t byte;
    if (py_to_int(x, &byte) <= 0) return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "fill_ expects an int, but got %s", py_type_name(x));
    return fill_bytes(STORAGE(self), 0, length(self), (uint8_t)byte) ? NULL : py_ref(self);
}

static PyObject *copy_from(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"src", "non_blocking", NULL};
    PyObject *src;
    int later = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|p:copy_", names, &src, &later)) return NULL;
    rush_storage *from = py_storage_of(src), *to = STORAGE(self);
    if (!from) return PyErr_Format(PyExc_TypeError, "copy_(): an UntypedStorage was expected, not %s", py_type_name(src));
    if (from->nbytes != to->nbytes) return PyErr_Format(PyExc_RuntimeError, "size does not match, self was %zu bytes but src was %zu bytes", to->nbytes, from->nbytes);
    return copy_bytes(to, from) ? NULL : py_ref(self);
}

static PyObject *clone_bytes(PyObject *self, PyObject *unused)
{
    rush_storage *from = STORAGE(self), *s = rush_storage_new(from->nbytes, from->device);
    if (s && copy_bytes(s, from)) return rush_storage_drop(s), NULL;
    return wrap(Py_TYPE(self), s);
}

static PyObject *fresh(PyObject *self, PyObject *unused) { return wrap(Py_TYPE(self), rush_storage_new(0, STORAGE(self)->device)); }

static PyObject *item(PyObject *self, Py_ssize_t i)
{
    rush_storage *s = STORAGE(self);
    if (out_of_reach(s)) return NULL;
    if (s->device.type == RUSH_META) return PyErr_Format(PyExc_NotImplementedError, "Not available for 'meta' device type");
    if (i < 0 || (size_t)i >= s->nbytes || !rush_storage_data(s)) return PyErr_Format(PyExc_IndexError, "index %zd out of range for storage of size %zu", i, s->nbytes);
    size_t mark = rush_scope_open();
    char room[16];
    rush_tensor *t = as_bytes(s, i, 1);
    const uint8_t *byte = t ? rush_first_element(t, room) : NULL;
    PyObject *x = byte ? PyLong_FromLong(*byte) : py_raise();
    rush_scope_close(mark);
    return x;
}

static PyObject *tolist(PyObject *self, PyObject *unused)
{
    PyObject *list = PyList_New(length(self));
    for (Py_ssize_t i = 0; list && i < PyList_GET_SIZE(list); ++i) {
        PyObject *byte = item(self, i);
        if (byte) PyList_SET_ITEM(list, i, byte);
        else Py_CLEAR(list);
    }
    return list;
}

/* Part of the storage, sharing its memory. */
static void release_part(void *owner) { rush_storage_unlend(owner); }

static PyObject *subscript(PyObject *self, PyObject *key)
{
    rush_storage *s = STORAGE(self);
    if (out_of_reach(s)) return NULL;
    if (PySlice_Check(key)) {
        Py_ssize_t start, stop, step;
        if (PySlice_Unpack(key, &start, &stop, &step)) return NULL;
        Py_ssize_t n = PySlice_AdjustIndices(length(self), &start, &stop, step);
        if (step != 1) return PyErr_Format(PyExc_RuntimeError, "Trying to slice with a step of %zd, but only a step of 1 is supported", step);
        rush_storage *part = rush_storage_data(s) ? rush_storage_over((char *)s->data + start, (size_t)n, release_part, s) : rush_storage_new((size_t)n, s->device);
        if (part && s->data) rush_storage_lend(s), part->device = s->device;
        return wrap(Py_TYPE(self), part);
    }
    int64_t i;
    if (py_to_int(key, &i) <= 0) return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "can't index a UntypedStorage with %s", py_type_name(key));
    return item(self, i < 0 ? i + length(self) : i);
}

static int set_subscript(PyObject *self, PyObject *key, PyObject *value)
{
    Py_ssize_t start, stop, step = 1;
    int64_t byte, i;
    if (!value || py_to_int(value, &byte) <= 0) return PyErr_Occurred() ? -1 : (PyErr_Format(PyExc_TypeError, "can only set storage content with an int"), -1);
    if (PySlice_Check(key)) {
        if (PySlice_Unpack(key, &start, &stop, &step)) return -1;
        PySlice_AdjustIndices(length(self), &start, &stop, step);
    } else {
        if (py_to_int(key, &i) <= 0) return PyErr_Occurred() ? -1 : (PyErr_Format(PyExc_TypeError, "can't index a storage with %s", py_type_name(key)), -1);
        if (i < 0) i += length(self);
        if (i < 0 || i >= length(self)) return PyErr_Format(PyExc_IndexError, "index %lld out of range for storage of size %zd", (long long)i, length(self)), -1;
        start = i, stop = i + 1;
    }
    if (step == 1) return fill_bytes(STORAGE(self), start, stop - start, (uint8_t)byte);
    for (; step > 0 ? start < stop : start > stop; start += step)
        if (fill_bytes(STORAGE(self), start, 1, (uint8_t)byte)) return -1;
    return 0;
}

/* The bytes as a writable buffer: what files are written from. */
static int get_buffer(PyObject *self, Py_buffer *view, int flags)
{
    static char nothing;
    rush_storage *s = STORAGE(self);
    if (out_of_reach(s)) return view->obj = NULL, -1;
    int failed = PyBuffer_FillInfo(view, self, rush_storage_data(s) ? s->data : &nothing, s->device.type == RUSH_CPU ? length(self) : 0, 0, flags);
    if (!failed) rush_storage_lend(s);
    return failed;
}

static void buffer_ended(PyObject *self, Py_buffer *view) { rush_storage_unlend(STORAGE(self)); }

static PyObject *set_class(PyObject *module, PyObject *x)
{
    if (!PyType_Check(x) || !PyType_IsSubtype((PyTypeObject *)x, &py_type_Storage)) return PyErr_Format(PyExc_TypeError, "a subclass of StorageBase was expected");
    Py_INCREF(x);
    storage_class = (PyTypeObject *)x;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"nbytes", nbytes, METH_NOARGS, "How many bytes."},
    {"size", nbytes, METH_NOARGS, "How many bytes."},
    {"data_ptr", data_ptr, METH_NOARGS, "The address of the first byte."},
    {"element_size", element_size, METH_NOARGS, "One."},
    {"resizable", resizable, METH_NOARGS, "Can it be resized?"},
    {"resize_", resize, METH_O, "Changes the number of bytes; what fits is kept."},
    {"fill_", fill, METH_O, "Sets every byte."},
    {"copy_", (PyCFunction)(void (*)(void))copy_from, METH_VARARGS | METH_KEYWORDS, "Copies the bytes of another storage of the same size."},
    {"clone", clone_bytes, METH_NOARGS, "A copy."},
    {"new", fresh, METH_NOARGS, "An empty storage on the same device."},
    {"tolist", tolist, METH_NOARGS, "The bytes as ints."},
    {"is_shared", is_shared, METH_NOARGS, "Is it in memory that processes share?"},
    {"share_memory_", share_memory, METH_NOARGS, "Moves it to memory that processes can share."},
    {"_share_fd_cpu_", share_fd, METH_NOARGS, "Shares it; the descriptor and size."},
    {"_new_shared_fd_cpu", new_shared_fd, METH_VARARGS | METH_CLASS, "A storage over shared memory, from its descriptor and size."},
    {"_new_using_fd_cpu", new_using_fd, METH_O | METH_CLASS, "A storage in shared memory."},
    {"_new_nameless", new_nameless, METH_O | METH_CLASS, "A storage of that size, or of these bytes, in memory that forked children share."},
    {"_is_nameless", is_nameless, METH_NOARGS, "Was it made by _new_nameless()?"},
    {"from_file", (PyCFunction)(void (*)(void))from_file, METH_VARARGS | METH_KEYWORDS | METH_CLASS, "A storage over a file mapped into memory."},
    {"from_buffer", (PyCFunction)(void (*)(void))from_buffer, METH_VARARGS | METH_KEYWORDS | METH_CLASS, "A copy of the bytes of a buffer."},
    {"_over_buffer", over_buffer, METH_O | METH_CLASS, "A storage that shares the memory of a buffer."},
    {NULL},
};
static PyGetSetDef getset[] = {
    {"device", get_device, NULL, "Where the bytes are."},
    {"_cdata", get_cdata, NULL, "A number that names the storage."},
    {"filename", get_filename, NULL, NULL},
    {NULL},
};
static PySequenceMethods sequence = {.sq_length = length, .sq_item = item};
static PyMappingMethods mapping_methods = {.mp_length = length, .mp_subscript = subscript, .mp_ass_subscript = set_subscript};
static PyBufferProcs buffer = {.bf_getbuffer = get_buffer, .bf_releasebuffer = buffer_ended};

PyTypeObject py_type_Storage = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "torch._C.StorageBase",
    .tp_basicsize = sizeof(storage_object),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "The bytes under one or more tensors.",
    .tp_new = storage_new,
    .tp_dealloc = storage_dealloc,
    .tp_traverse = storage_traverse,
    .tp_clear = storage_clear,
    .tp_dictoffset = offsetof(storage_object, dict),
    .tp_weaklistoffset = offsetof(storage_object, weak),
    .tp_as_sequence = &sequence,
    .tp_as_mapping = &mapping_methods,
    .tp_as_buffer = &buffer,
    .tp_methods = methods,
    .tp_getset = getset,
};

static PyMethodDef functions[] = {{"_set_storage_class", set_class, METH_O, "The class that storages of tensors appear as."}, {NULL}};

int py_storage_init(PyObject *module)
{
    if (PyType_Ready(&py_type_Storage)) return -1;
    rush_python_free_storage = python_free;
    pthread_atfork(forked, NULL, NULL);
    return py_add(module, "StorageBase", py_ref((PyObject *)&py_type_Storage)) || PyModule_AddFunctions(module, functions) ? -1 : 0;
}
