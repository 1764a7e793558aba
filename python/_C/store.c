/* store.c - _C.Store and its kinds: the library's stores as torch.distributed has them. Waits are without the interpreter's
 * lock, and end with Ctrl-C.
 */
#include "ext.h"
#include "dist/store.h"

typedef struct py_store {
    PyObject_HEAD
    rush_store *s;   /* NULL: a class of Python's own */
    PyObject *under; /* of a PrefixStore */
} py_store;

static PyTypeObject *types[5]; /* Store and the four kinds */
enum { STORE, HASH, PREFIX, FILE_, TCP };

rush_store *py_store_of(PyObject *x)
{
    if (!PyObject_TypeCheck(x, types[STORE])) return PyErr_Format(PyExc_TypeError, "a Store is needed, not %s", py_type_name(x)), NULL;
    if (!((py_store *)x)->s) PyErr_SetString(PyExc_RuntimeError, "Not implemented.");
    return ((py_store *)x)->s;
}

/* Called by a waiting thread, which has given up the interpreter's lock. */
static int interrupted(void)
{
    if (!Py_IsInitialized()) return 0;
    PyGILState_STATE gil = PyGILState_Ensure();
    int failed = PyErr_CheckSignals() ? py_foreign() : 0;
    PyGILState_Release(gil);
    return failed;
}

/* Seconds of a timedelta. */
static int seconds_of(PyObject *x, double *out)
{
    PyObject *f = PyObject_CallMethod(x, "total_seconds", NULL);
    if (!f) return PyErr_Format(PyExc_TypeError, "incompatible function arguments: a timeout is a datetime.timedelta, not %s", py_type_name(x)), -1;
    *out = PyFloat_AsDouble(f);
    Py_DECREF(f);
    return *out == -1 && PyErr_Occurred() ? -1 : 0;
}

static PyObject *timedelta(double seconds)
{
    PyObject *module = PyImport_ImportModule("datetime");
    PyObject *cls = module ? PyObject_GetAttrString(module, "timedelta") : NULL;
    PyObject *x = cls ? PyObject_CallFunction(cls, "id", 0, seconds) : NULL;
    Py_XDECREF(cls);
    Py_XDECREF(module);
    return x;
}

static const char *key_of(PyObject *x)
{
    if (PyUnicode_Check(x)) {
        Py_ssize_t n;
        const char *s = PyUnicode_AsUTF8AndSize(x, &n);
        if (s && strlen(s) == (size_t)n) return s;
        if (s) PyErr_SetString(PyExc_ValueError, "a key without the character 0 is needed");
        return NULL;
    }
    PyErr_Format(PyExc_TypeError, "incompatible function arguments: a key is a str, not %s", py_type_name(x));
    return NULL;
}

static int value_of(PyObject *x, rush_bytes *out)
{
    Py_ssize_t n;
    if (PyUnicode_Check(x)) {
        out->data = (void *)PyUnicode_AsUTF8AndSize(x, &n);
        if (!out->data) return -1;
    } else if (PyBytes_Check(x)) {
        out->data = PyBytes_AS_STRING(x);
        n = PyBytes_GET_SIZE(x);
    } else {
        return PyErr_Format(PyExc_TypeError, "incompatible function arguments: a store holds str and bytes, not %s", py_type_name(x)), -1;
    }
    out->n = (size_t)n;
    return 0;
}

/* A list of keys, or one; `*held` keeps them alive. */
static const char **keys_of(PyObject *x, int *n, PyObject **held)
{
    *held = PyUnicode_Check(x) ? PyTuple_Pack(1, x) : PySequence_Tuple(x);
    if (!*held) return NULL;
    *n = (int)PyTuple_GET_SIZE(*held);
    const char **keys = PyMem_Malloc((size_t)(*n + 1) * sizeof *keys);
    bool good = keys;
    for (int i = 0; good && i < *n; i++) good = (keys[i] = key_of(PyTuple_GET_ITEM(*held, i)));
    if (good) return keys;
    if (!keys) PyErr_NoMemory();
    PyMem_Free(keys);
    Py_CLEAR(*held);
    return NULL;
}

static int run(PyObject *self, rush_request *r)
{
    rush_store *s = py_store_of(self);
    if (!s) return -1;
    int failed;
    rush_store_keep(s);
    Py_BEGIN_ALLOW_THREADS
    failed = rush_store_run(s, r);
    rush_store_drop(s);
    Py_END_ALLOW_THREADS
    return failed ? py_raise_int() : 0;
}

static PyObject *bytes_out(rush_bytes *b)
{
    PyObject *x = PyBytes_FromStringAndSize(b->data, (Py_ssize_t)b->n);
    rush_bytes_free(b);
    return x;
}

static PyObject *none_unless(int failed)
{
    if (failed) return NULL;
    Py_RETURN_NONE;
}

/* ---- methods ---- */

static PyObject *with_value(PyObject *self, PyObject *args, PyObject *kwargs, rush_request_kind kind)
{
    static char *names[] = {"key", "value", NULL};
    PyObject *key, *value;
    rush_bytes v;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO", names, &key, &value)) return NULL;
    const char *k = key_of(key);
    if (!k || value_of(value, &v)) return NULL;
    return none_unless(run(self, &(rush_request){.kind = kind, .n = 1, .keys = &k, .values = &v}));
}

static PyObject *set(PyObject *self, PyObject *args, PyObject *kwargs) { return with_value(self, args, kwargs, RUSH_STORE_SET); }
static PyObject *append(PyObject *self, PyObject *args, PyObject *kwargs) { return with_value(self, args, kwargs, RUSH_STORE_APPEND); }
static PyObject *push(PyObject *self, PyObject *args, PyObject *kwargs) { return with_value(self, args, kwargs, RUSH_STORE_PUSH); }

static PyObject *add(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"key", "amount", NULL};
    PyObject *key;
    long long amount;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OL", names, &key, &amount)) return NULL;
    const char *k = key_of(key);
    rush_request r = {.kind = RUSH_STORE_ADD, .n = 1, .keys = &k, .amount = amount};
    return !k || run(self, &r) ? NULL : PyLong_FromLongLong(r.number);
}

static int wait_keys(PyObject *self, PyObject *keys, PyObject *timeout)
{
    rush_store *s = py_store_of(self);
    rush_request r = {.kind = RUSH_STORE_WAIT};
    PyObject *held;
    if (!s || (timeout != Py_None && seconds_of(timeout, &r.seconds))) return -1;
    if (timeout == Py_None) r.seconds = rush_store_timeout(s);
    const char **k = keys_of(keys, &r.n, &held);
    if (!k) return -1;
    r.keys = k;
    int failed = run(self, &r);
    PyMem_Free(k);
    Py_DECREF(held);
    return failed;
}

static PyObject *wait_(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"keys", "timeout", NULL};
    PyObject *keys, *timeout = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O", names, &keys, &timeout)) return NULL;
    return none_unless(wait_keys(self, keys, timeout));
}

static PyObject *get(PyObject *self, PyObject *key)
{
    rush_bytes value = {0};
    const char *k = key_of(key);
    if (!k || wait_keys(self, key, Py_None)) return NULL;
    return run(self, &(rush_request){.kind = RUSH_STORE_GET, .n = 1, .keys = &k, .answers = &value}) ? NULL : bytes_out(&value);
}

/* A request with a list of keys and nothing else. */
static PyObject *check(PyObject *self, PyObject *keys)
{
    PyObject *held;
    rush_request r = {.kind = RUSH_STORE_CHECK};
    const char **k = keys_of(keys, &r.n, &held);
    if (!k) return NULL;
    r.keys = k;
    int failed = run(self, &r);
    PyMem_Free(k);
    Py_DECREF(held);
    return failed ? NULL : PyBool_FromLong(r.number != 0);
}

static PyObject *multi_get(PyObject *self, PyObject *keys)
{
    PyObject *held, *list = NULL;
    rush_request r = {.kind = RUSH_STORE_MULTI_GET};
    const char **k = keys_of(keys, &r.n, &held);
    r.keys = k;
    r.answers = k ? PyMem_Calloc((size_t)r.n + 1, sizeof *r.answers) : NULL;
    if (r.answers && !wait_keys(self, keys, Py_None) && !run(self, &r)) {
        list = PyList_New(r.n);
        for (int i = 0; i < r.n; i++) {
            PyObject *x = list ? bytes_out(&r.answers[i]) : NULL;
            if (!x) Py_CLEAR(list);
            else PyList_SET_ITEM(list, i, x);
        }
        for (int i = 0; i < r.n; i++) rush_bytes_free(&r.answers[i]);
    }
    PyMem_Free(r.answers);
    PyMem_Free(k);
    Py_XDECREF(held);
    return list;
}

static PyObject *multi_set(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"keys", "values", NULL};
    PyObject *keys, *values, *held = NULL;
    rush_request r = {.kind = RUSH_STORE_MULTI_SET};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO", names, &keys, &values)) return NULL;
    PyObject *list = PySequence_Tuple(values);
    const char **k = list ? keys_of(keys, &r.n, &held) : NULL;
    rush_bytes *v = k ? PyMem_Calloc((size_t)r.n + 1, sizeof *v) : NULL;
    int failed = !v;
    if (v && PyTuple_GET_SIZE(list) != r.n) {
        PyErr_SetString(PyExc_ValueError, "multi_set: as many values as keys are needed");
        failed = -1;
    }
    for (int i = 0; i < r.n && !failed; i++) failed = value_of(PyTuple_GET_ITEM(list, i), &v[i]);
    r.keys = k;
    r.values = v;
    failed = failed || run(self, &r);
    PyMem_Free(v);
    PyMem_Free(k);
    Py_XDECREF(held);
    Py_XDECREF(list);
    return none_unless(failed);
}

static PyObject *compare_set(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"key", "expected_value", "desired_value", NULL};
    PyObject *key, *expected, *desired;
    rush_bytes v[2], now = {0};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOO", names, &key, &expected, &desired)) return NULL;
    const char *k = key_of(key);
    if (!k || value_of(expected, &v[0]) || value_of(desired, &v[1])) return NULL;
    return run(self, &(rush_request){.kind = RUSH_STORE_COMPARE_SET, .n = 1, .keys = &k, .values = v, .answers = &now}) ? NULL : bytes_out(&now);
}

static PyObject *delete_key(PyObject *self, PyObject *key)
{
    const char *k = key_of(key);
    rush_request r = {.kind = RUSH_STORE_DELETE, .n = 1, .keys = &k};
    return !k || run(self, &r) ? NULL : PyBool_FromLong(r.number != 0);
}

static PyObject *queue_len(PyObject *self, PyObject *key)
{
    const char *k = key_of(key);
    rush_request r = {.kind = RUSH_STORE_QUEUED, .n = 1, .keys = &k};
    return !k || run(self, &r) ? NULL : PyLong_FromLongLong(r.number);
}

static PyObject *pop(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"key", "block", NULL};
    PyObject *key;
    int block = 1, failed;
    rush_bytes value = {0};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|p", names, &key, &block)) return NULL;
    const char *k = key_of(key);
    rush_store *s = k ? py_store_of(self) : NULL;
    if (!s) return NULL;
    Py_BEGIN_ALLOW_THREADS
    failed = rush_store_pop(s, k, block, &value);
    Py_END_ALLOW_THREADS
    return failed ? py_raise() : bytes_out(&value);
}

static PyObject *num_keys(PyObject *self, PyObject *unused)
{
    rush_request r = {.kind = RUSH_STORE_COUNT};
    return run(self, &r) ? NULL : PyLong_FromLongLong(r.number);
}

static PyObject *list_keys(PyObject *self, PyObject *unused)
{
    rush_request r = {.kind = RUSH_STORE_LIST};
    if (run(self, &r)) return NULL;
    PyObject *list = PyList_New(r.nanswers);
    for (int i = 0; i < r.nanswers && list; i++) {
        PyObject *key = PyUnicode_DecodeUTF8(r.answers[i].data, (Py_ssize_t)r.answers[i].n, "replace");
        if (!key) Py_CLEAR(list);
        else PyList_SET_ITEM(list, i, key);
    }
    rush_store_list_free(r.answers, r.nanswers);
    return list;
}

static PyObject *barrier(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"key", "world_size", "timeout", NULL};
    PyObject *key, *timeout = Py_None;
    int size, failed;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "Oi|O", names, &key, &size, &timeout)) return NULL;
    const char *k = key_of(key);
    rush_store *s = k ? py_store_of(self) : NULL;
    double seconds = s ? rush_store_timeout(s) : 0;
    if (!s || (timeout != Py_None && seconds_of(timeout, &seconds))) return NULL;
    Py_BEGIN_ALLOW_THREADS
    failed = rush_store_barrier(s, k, size, seconds);
    Py_END_ALLOW_THREADS
    return failed ? py_raise() : none_unless(0);
}

static PyObject *set_timeout(PyObject *self, PyObject *timeout)
{
    rush_store *s = py_store_of(self);
    double seconds;
    if (!s || seconds_of(timeout, &seconds)) return NULL;
    rush_store_timeout_set(s, seconds);
    Py_RETURN_NONE;
}

static PyObject *extended(PyObject *self, PyObject *unused)
{
    return PyBool_FromLong(!PyObject_TypeCheck(self, types[FILE_]));
}

static PyObject *wrap(PyTypeObject *type, rush_store *s)
{
    py_store *x = s ? (py_store *)type->tp_alloc(type, 0) : NULL;
    if (x) x->s = s;
    else rush_store_drop(s);
    return s ? (PyObject *)x : py_raise();
}

PyObject *py_store_new_tcp(rush_store *s) { return wrap(types[TCP], s); }

static PyObject *clone_(PyObject *self, PyObject *unused)
{
    rush_store *s = py_store_of(self), *made;
    if (!s) return NULL;
    Py_BEGIN_ALLOW_THREADS
    made = rush_store_clone(s);
    Py_END_ALLOW_THREADS
    PyObject *x = wrap(Py_TYPE(self), made);
    if (x) Py_XINCREF(((py_store *)x)->under = ((py_store *)self)->under);
    return x;
}

static PyObject *no_pickle(PyObject *self, PyObject *unused)
{
    return PyErr_Format(PyExc_TypeError, "cannot pickle '%s' object", Py_TYPE(self)->tp_name);
}

static PyMethodDef methods[] = {
    {"set", (PyCFunction)(void *)set, METH_VARARGS | METH_KEYWORDS, "set(key, value)"},
    {"get", get, METH_O, "get(key) -> bytes; waits until the key is set."},
    {"add", (PyCFunction)(void *)add, METH_VARARGS | METH_KEYWORDS, "add(key, amount) -> the sum so far"},
    {"append", (PyCFunction)(void *)append, METH_VARARGS | METH_KEYWORDS, "append(key, value)"},
    {"check", check, METH_O, "check(keys): are all of them set?"},
    {"wait", (PyCFunction)(void *)wait_, METH_VARARGS | METH_KEYWORDS, "wait(keys, timeout=the store's)"},
    {"compare_set", (PyCFunction)(void *)compare_set, METH_VARARGS | METH_KEYWORDS, "compare_set(key, expected_value, desired_value) -> what is there now"},
    {"delete_key", delete_key, METH_O, "delete_key(key): was it there?"},
    {"num_keys", num_keys, METH_NOARGS, "The number of keys, the store's own included."},
    {"list_keys", list_keys, METH_NOARGS, "The keys."},
    {"multi_get", multi_get, METH_O, "multi_get(keys) -> list of bytes; waits for all."},
    {"multi_set", (PyCFunction)(void *)multi_set, METH_VARARGS | METH_KEYWORDS, "multi_set(keys, values)"},
    {"queue_push", (PyCFunction)(void *)push, METH_VARARGS | METH_KEYWORDS, "queue_push(key, value)"},
    {"queue_pop", (PyCFunction)(void *)pop, METH_VARARGS | METH_KEYWORDS, "queue_pop(key, block=True) -> the oldest value"},
    {"queue_len", queue_len, METH_O, "queue_len(key)"},
    {"barrier", (PyCFunction)(void *)barrier, METH_VARARGS | METH_KEYWORDS, "barrier(key, world_size, timeout=the store's)"},
    {"set_timeout", set_timeout, METH_O, "set_timeout(timedelta)"},
    {"has_extended_api", extended, METH_NOARGS, "Has it append, multi_get, multi_set in one request?"},
    {"clone", clone_, METH_NOARGS, "The same store over a connection of its own."},
    {"__reduce_ex__", no_pickle, METH_O, NULL},
    {NULL},
};

static PyObject *timeout(PyObject *self, void *unused)
{
    rush_store *s = py_store_of(self);
    return s ? timedelta(rush_store_timeout(s)) : NULL;
}

static PyGetSetDef properties[] = {{"timeout", timeout, NULL, "How long a wait may take.", NULL}, {NULL}};

static void end(PyObject *self)
{
    py_store *x = (py_store *)self;
    PyTypeObject *type = Py_TYPE(self);
    rush_store *s = x->s;
    Py_CLEAR(x->under);
    Py_BEGIN_ALLOW_THREADS /* a server's thread is waited for */
    rush_store_drop(s);
    Py_END_ALLOW_THREADS
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *make_own(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    return type->tp_alloc(type, 0);
}

/* ---- the kinds ---- */

static PyObject *make_hash(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {NULL};
    return PyArg_ParseTupleAndKeywords(args, kwargs, "", names) ? wrap(type, rush_store_hash()) : NULL;
}

static PyObject *make_prefix(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"prefix", "store", NULL};
    const char *prefix;
    PyObject *under;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "sO", names, &prefix, &under)) return NULL;
    rush_store *s = py_store_of(under);
    PyObject *x = s ? wrap(type, rush_store_prefix(prefix, s)) : NULL;
    if (x) ((py_store *)x)->under = py_ref(under);
    return x;
}

static PyObject *make_file(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"file_name", "world_size", NULL};
    PyObject *path;
    int world_size = -1;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|i", names, PyUnicode_FSConverter, &path, &world_size)) return NULL;
    PyObject *x = wrap(type, rush_store_file(PyBytes_AS_STRING(path), world_size));
    Py_DECREF(path);
    return x;
}

static int tcp_options(PyObject *args, PyObject *kwargs, const char **host, int *port, rush_store_tcp_options *o)
{
    static char *names[] = {"host_name", "port", "world_size", "is_master", "timeout", "wait_for_workers", "multi_tenant", "master_listen_fd",
                            "use_libuv", NULL};
    PyObject *world_size = Py_None, *timeout = NULL, *fd = Py_None;
    int master = 0, wait = 1, tenant = 0, libuv;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "si|OpOppOp", names, host, port, &world_size, &master, &timeout, &wait, &tenant, &fd, &libuv)) return -1;
    long size = world_size == Py_None ? 0 : PyLong_AsLong(world_size), listener = fd == Py_None ? 0 : PyLong_AsLong(fd);
    if (PyErr_Occurred()) return -1;
    *o = (rush_store_tcp_options){.world_size = (int)size, .server = master, .wait = wait, .timeout = 300, .listen_fd = (int)listener, .share = tenant};
    return timeout && timeout != Py_None ? seconds_of(timeout, &o->timeout) : 0;
}

static PyObject *make_tcp(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    const char *host;
    int port;
    rush_store_tcp_options o;
    rush_store *s;
    if (tcp_options(args, kwargs, &host, &port, &o)) return NULL;
    Py_BEGIN_ALLOW_THREADS
    s = rush_store_tcp_with(host, port, &o);
    Py_END_ALLOW_THREADS
    return wrap(type, s);
}

static PyObject *underlying(PyObject *self, void *unused) { return py_ref(((py_store *)self)->under); }
static PyObject *text_or_none(const char *s)
{
    if (s) return PyUnicode_FromString(s);
    Py_RETURN_NONE;
}
static PyObject *prefix(PyObject *self, void *unused) { return text_or_none(rush_store_prefix_of(((py_store *)self)->s)); }
static PyObject *path(PyObject *self, void *unused) { return text_or_none(rush_store_path(((py_store *)self)->s)); }
static PyObject *host(PyObject *self, void *unused) { return text_or_none(rush_store_host(((py_store *)self)->s)); }
static PyObject *port(PyObject *self, void *unused) { return PyLong_FromLong(rush_store_port(((py_store *)self)->s)); }
static PyObject *libuv(PyObject *self, void *unused) { Py_RETURN_TRUE; }

static PyGetSetDef of_prefix[] = {{"underlying_store", underlying, NULL, "The store below.", NULL}, {"prefix", prefix, NULL, NULL, NULL}, {NULL}};
static PyGetSetDef of_file[] = {{"path", path, NULL, "The file.", NULL}, {NULL}};
static PyGetSetDef of_tcp[] = {{"host", host, NULL, NULL, NULL}, {"port", port, NULL, NULL, NULL},
                               {"libuvBackend", libuv, NULL, "One thread serves all.", NULL}, {NULL}};

#define KIND(make, more, doc) {{Py_tp_new, make}, {Py_tp_doc, doc}, {Py_tp_dealloc, end}, {Py_tp_getset, more}, {0, NULL}}
static PyType_Slot slots[][6] = {
    {{Py_tp_new, make_own}, {Py_tp_doc, "A place where processes leave values for each other."}, {Py_tp_dealloc, end}, {Py_tp_methods, methods},
     {Py_tp_getset, properties}, {0, NULL}},
    {{Py_tp_new, make_hash}, {Py_tp_doc, "A store within one process."}, {Py_tp_dealloc, end}, {0, NULL}},
    KIND(make_prefix, of_prefix, "Another store with a prefix before each key."),
    KIND(make_file, of_file, "A store in a file."),
    KIND(make_tcp, of_tcp, "A store that one process, the master, serves to the others."),
};

int py_store_init(PyObject *module)
{
    static const char *names[] = {"torch._C._distributed_c10d.Store", "torch._C._distributed_c10d.HashStore", "torch._C._distributed_c10d.PrefixStore",
                                  "torch._C._distributed_c10d.FileStore", "torch._C._distributed_c10d.TCPStore"};
    rush_wait_interrupted = interrupted;
    for (int i = 0; i < 5; i++) {
        PyType_Spec spec = {.name = names[i], .basicsize = sizeof(py_store), .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, .slots = slots[i]};
        PyObject *type = i ? PyType_FromSpecWithBases(&spec, (PyObject *)types[STORE]) : PyType_FromSpec(&spec);
        if (!type) return -1;
        types[i] = (PyTypeObject *)type;
        Py_INCREF(type);
        if (py_add(module, strrchr(names[i], '.') + 1, type)) return -1;
    }
    return 0;
}
