/* unpickle.c - Python's objects made by the pickle machine of src/io: what torch.load(weights_only=True) reads with.
 *
 * The machine makes containers and numbers; each name in the file is answered by a Python function that knows the
 * allow-list, and only what that function gave out can be called.
 */
#include "ext.h"
#include "io/pickle.h"

typedef struct maker {
    PyObject *find, *persistent, *make, *build; /* borrowed callables                                 */
    PyObject *fillable;                         /* a set of classes besides dict that take items      */
    PyObject *sized;                            /* ids of callables that make memory of a number      */
    PyObject *hashes;                           /* {(id of a dict or set, hash): keys that have it}   */
    const char *encoding;                       /* of Python 2's str; "bytes": stays bytes            */
    PyObject *named;                            /* {id: object} of what find gave out, which is alive */
    size_t copied, copies;                      /* calls copy not much more than the pickle is long   */
} maker;

static void keep(void *x) { Py_INCREF((PyObject *)x); }
static void drop(void *x) { Py_DECREF((PyObject *)x); }
static void *none(void *self) { return py_ref(Py_None); }
static void *boolean(void *self, bool b) { return PyBool_FromLong(b); }
static void *integer(void *self, int64_t i) { return PyLong_FromLongLong(i); }
static void *real(void *self, double f) { return PyFloat_FromDouble(f); }
static void *list(void *self) { return PyList_New(0); }
static void *dict(void *self) { return PyDict_New(); }
static void *set(void *self) { return PySet_New(NULL); }

static void *big(void *self, const uint8_t *p, size_t n)
{
    PyObject *bytes = PyBytes_FromStringAndSize((const char *)p, (Py_ssize_t)n), *method = PyObject_GetAttrString((PyObject *)&PyLong_Type, "from_bytes");
    PyObject *args = bytes && method ? Py_BuildValue("(Os)", bytes, "little") : NULL, *signed_ = args ? Py_BuildValue("{s:O}", "signed", Py_True) : NULL;
    PyObject *x = signed_ ? PyObject_Call(method, args, signed_) : NULL;
    Py_XDECREF(bytes);
    Py_XDECREF(method);
    Py_XDECREF(args);
    Py_XDECREF(signed_);
    return x;
}

static void *text(void *self, const char *p, size_t n) { return PyUnicode_DecodeUTF8(p, (Py_ssize_t)n, "surrogatepass"); }

static void *bytes(void *self, const char *p, size_t n, int kind)
{
    maker *m = self;
    if (kind == RUSH_PICKLE_BYTEARRAY) return PyByteArray_FromStringAndSize(p, (Py_ssize_t)n);
    if (kind == RUSH_PICKLE_BYTES || !strcmp(m->encoding, "bytes")) return PyBytes_FromStringAndSize(p, (Py_ssize_t)n);
    return PyUnicode_Decode(p, (Py_ssize_t)n, m->encoding, "strict");
}

static void *tuple(void *self, void **items, size_t n)
{
    PyObject *t = PyTuple_New((Py_ssize_t)n);
    for (size_t i = 0; t && i < n; i++) PyTuple_SET_ITEM(t, (Py_ssize_t)i, py_ref(items[i]));
    return t;
}

static int wrong_target(const char *what, PyObject *x)
{
    rush_fail(RUSH_VALUE_ERROR, "%s, but got <class '%.200s'>", what, Py_TYPE(x)->tp_name);
    return -1;
}

/* Keys can be made to have one hash, which makes a dict slow; texts cannot, and small numbers are their own. */
static int crowded(maker *m, void *where, PyObject *key)
{
    if (PyUnicode_CheckExact(key) || PyBytes_CheckExact(key) || key == Py_None || PyBool_Check(key)) return 0;
    Py_hash_t hash = PyObject_Hash(key);
    if (hash == -1) return -1;
    if (PyLong_CheckExact(key) && (PyLong_AsLongLong(key) == hash || PyErr_Occurred())) {
        bool small = !PyErr_Occurred();
        PyErr_Clear();
        if (small) return 0;
    }
    PyObject *place = Py_BuildValue("nn", (Py_ssize_t)(uintptr_t)where, (Py_ssize_t)hash), *count = place ? PyDict_GetItemWithError(m->hashes, place) : NULL;
    long n = count ? PyLong_AsLong(count) + 1 : 1;
    PyObject *next = PyErr_Occurred() ? NULL : PyLong_FromLong(n);
    int failed = next ? PyDict_SetItem(m->hashes, place, next) : -1;
    Py_XDECREF(next);
    Py_XDECREF(place);
    return failed || n < 500 ? failed : rush_fail(RUSH_VALUE_ERROR, "too many keys of a dict or set have the same hash");
}

static int append(void *self, void *to, void **items, size_t n)
{
    if (!PyList_CheckExact((PyObject *)to)) return wrong_target("Can only append to lists", to);
    for (size_t i = 0; i < n; i++)
        if (PyList_Append(to, items[i])) return -1;
    return 0;
}

static int set_items(void *self, void *to, void **items, size_t n)
{
    maker *m = self;
    bool plain = PyDict_CheckExact((PyObject *)to);
    int may = plain ? 1 : PySet_Contains(m->fillable, (PyObject *)Py_TYPE((PyObject *)to));
    if (may < 0) return -1;
    if (!may) return wrong_target("Can only set items of dictionaries", to);
    for (size_t i = 0; i < n; i += 2)
        if (crowded(m, to, items[i]) || (plain ? PyDict_SetItem(to, items[i], items[i + 1]) : PyObject_SetItem(to, items[i], items[i + 1]))) return -1;
    return 0;
}

static int add_items(void *self, void *to, void **items, size_t n)
{
    if (Py_TYPE((PyObject *)to) != &PySet_Type) return wrong_target("Can only add items to sets", to);
    for (size_t i = 0; i < n; i++)
        if (crowded(self, to, items[i]) || PySet_Add(to, items[i])) return -1;
    return 0;
}

static void *found(maker *m, PyObject *x)
{
    PyObject *id = x ? PyLong_FromVoidPtr(x) : NULL;
    if (!id || PyDict_SetItem(m->named, id, x)) Py_CLEAR(x);
    Py_XDECREF(id);
    return x;
}

static void *global(void *self, const char *module, const char *name)
{
    maker *m = self;
    return found(m, PyObject_CallFunction(m->find, "ss", module, name));
}

static void *global_of(void *self, void *module, void *name)
{
    maker *m = self;
    if (!PyUnicode_CheckExact((PyObject *)module) || !PyUnicode_CheckExact((PyObject *)name)) return rush_fail(RUSH_VALUE_ERROR, "STACK_GLOBAL requires str"), NULL;
    return found(m, PyObject_CallFunctionObjArgs(m->find, module, name, NULL));
}

static bool is_named(maker *m, PyObject *x)
{
    PyObject *id = PyLong_FromVoidPtr(x);
    bool yes = id && PyDict_GetItem(m->named, id);
    Py_XDECREF(id);
    return yes;
}

/* What OrderedDict, Counter and set make of a list: its items, or the first of each, become keys. */
static int keys_crowded(maker *m, PyObject *args)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); i++) {
        PyObject *x = PyTuple_GET_ITEM(args, i);
        for (Py_ssize_t k = 0; (PyList_CheckExact(x) || PyTuple_CheckExact(x)) && k < PySequence_Fast_GET_SIZE(x); k++) {
            PyObject *item = PySequence_Fast_GET_ITEM(x, k), *key = item;
            if ((PyList_CheckExact(item) || PyTuple_CheckExact(item)) && PySequence_Fast_GET_SIZE(item)) key = PySequence_Fast_GET_ITEM(item, 0);
            if (!PyLong_CheckExact(key) && !PyFloat_CheckExact(key) && !PyComplex_CheckExact(key)) key = item;
            if ((PyList_CheckExact(key) || PyDict_Check(key) || PyAnySet_Check(key)) || !crowded(m, x, key)) continue;
            if (rush_failed() || !PyErr_ExceptionMatches(PyExc_TypeError)) return -1;
            PyErr_Clear(); /* no key: the call will say so */
        }
    }
    return 0;
}

static bool makes_memory(maker *m, PyObject *f, PyObject *args)
{
    PyObject *id = PyLong_FromVoidPtr(f);
    bool sized = id && PySet_Contains(m->sized, id) == 1, number = false;
    for (Py_ssize_t i = 0; sized && i < PyTuple_GET_SIZE(args); i++) number |= PyLong_Check(PyTuple_GET_ITEM(args, i)) || py_is_numpy_scalar(PyTuple_GET_ITEM(args, i));
    Py_XDECREF(id);
    if (number) rush_fail(RUSH_VALUE_ERROR, "the pickle asks for memory that it has nothing for");
    return number;
}

/* A short call can copy a long list, and a file can hold many. */
static bool affordable(maker *m, PyObject *args)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); i++) {
        PyObject *x = PyTuple_GET_ITEM(args, i);
        if (PyList_Check(x) || PyTuple_Check(x) || PyDict_Check(x) || PyAnySet_Check(x) || PyBytes_Check(x) || PyByteArray_Check(x) || PyUnicode_Check(x))
            m->copied += (size_t)PyObject_Size(x);
    }
    if (m->copied > m->copies) rush_fail(RUSH_VALUE_ERROR, "the pickle copies more values than it has");
    return m->copied <= m->copies;
}

static void *call(void *self, void *f, void *args)
{
    maker *m = self;
    if (!PyTuple_CheckExact((PyObject *)args)) return rush_fail(RUSH_VALUE_ERROR, "the arguments of a REDUCE must be a tuple, got %s", Py_TYPE((PyObject *)args)->tp_name), NULL;
    if (!is_named(m, f)) {
        PyObject *what = PyObject_Repr(f);
        const char *shown = what ? PyUnicode_AsUTF8(what) : NULL;
        if (shown) rush_fail(RUSH_VALUE_ERROR, "Trying to call reduce for unrecognized function %.200s", shown);
        Py_XDECREF(what);
        return NULL;
    }
    return affordable(m, args) && !makes_memory(m, f, args) && !keys_crowded(m, args) ? PyObject_CallObject(f, args) : NULL;
}

static void *make(void *self, void *type, void *args, void *keywords)
{
    maker *m = self;
    if (!is_named(m, type) || !PyTuple_CheckExact((PyObject *)args)) return rush_fail(RUSH_VALUE_ERROR, "Can only create new objects of classes named in the file"), NULL;
    return PyObject_CallFunctionObjArgs(m->make, type, args, keywords ? keywords : Py_None, NULL);
}

static int build(void *self, void *target, void *state)
{
    maker *m = self;
    PyObject *x = PyObject_CallFunctionObjArgs(m->build, target, state, NULL);
    Py_XDECREF(x);
    return x ? 0 : -1;
}

static void *persistent(void *self, void *id)
{
    maker *m = self;
    return PyObject_CallFunctionObjArgs(m->persistent, id, NULL);
}

static const rush_pickle_maker python_maker = {
    .keep = keep, .drop = drop, .none = none, .boolean = boolean, .integer = integer, .big = big, .real = real, .text = text, .bytes = bytes,
    .tuple = tuple, .list = list, .dict = dict, .set = set, .append = append, .set_items = set_items, .add_items = add_items, .global = global,
    .global_of = global_of, .call = call, .make = make, .build = build, .persistent = persistent,
};

/* A pickle that cannot be read raises pickle.UnpicklingError, one that ends early EOFError. */
static PyObject *raise_unpickling(void)
{
    if (PyErr_Occurred()) {
        rush_error_clear();
        return NULL;
    }
    if (rush_error_kind_now() != RUSH_VALUE_ERROR) return py_raise();
    const char *message = rush_error();
    PyObject *module = PyImport_ImportModule("pickle"), *kind = NULL;
    if (module) kind = strstr(message, "Ran out of input") ? py_ref(PyExc_EOFError) : PyObject_GetAttrString(module, "UnpicklingError");
    if (kind) PyErr_SetString(kind, message);
    Py_XDECREF(kind);
    Py_XDECREF(module);
    rush_error_clear();
    return NULL;
}

/* _unpickle(data, offset, find, persistent_load, new, build, fillable, sized, encoding, name) -> (object, position after it) */
static PyObject *unpickle(PyObject *module, PyObject *args)
{
    Py_buffer data;
    Py_ssize_t offset;
    const char *name;
    maker m = {0};
    if (!PyArg_ParseTuple(args, "y*nOOOOO!O!ss:_unpickle", &data, &offset, &m.find, &m.persistent, &m.make, &m.build, &PySet_Type, &m.fillable, &PySet_Type, &m.sized, &m.encoding, &name)) return NULL;
    size_t used = 0;
    PyObject *x = NULL;
    if (offset < 0 || offset > data.len) {
        PyErr_SetString(PyExc_ValueError, "the offset is outside of the data");
    } else if ((m.named = PyDict_New()) && (m.hashes = PyDict_New())) {
        m.copies = 16 * (size_t)(data.len - offset) + 4096;
        x = rush_unpickle(&python_maker, &m, (char *)data.buf + offset, (size_t)(data.len - offset), &used, name);
        if (!x) raise_unpickling();
    }
    Py_XDECREF(m.named);
    Py_XDECREF(m.hashes);
    PyBuffer_Release(&data);
    return x ? Py_BuildValue("(Nn)", x, offset + (Py_ssize_t)used) : NULL;
}

static PyMethodDef functions[] = {{"_unpickle", unpickle, METH_VARARGS, "Reads one pickle, which can run nothing."}, {NULL}};

int py_unpickle_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
