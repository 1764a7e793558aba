/* dist.c - _C._Group, _C._Work and _C._Reducer: process groups, the calls in them, and the mean of gradients, for
 * rushlight.distributed.
 */
#include "ext.h"
#include "dist/mpi.h"
#include "dist/recorder.h"
#include "dist/reducer.h"

typedef struct py_group {
    PyObject_HEAD
    rush_group *g; /* NULL: it was destroyed */
} py_group;

typedef struct py_work {
    PyObject_HEAD
    rush_work *w;
    PyObject *group, *result; /* the tensors that are written */
} py_work;

static PyTypeObject *group_type;

/* ---- groups ---- */

static PyObject *group_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"store", "rank", "size", "backend", "name", "timeout", "parent", "device_backend", "device", "urgent", "part", NULL};
    PyObject *store, *parent = Py_None, *device = Py_None;
    rush_group_options o = {0};
    int urgent = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "Oiiss|dOzOpi", names, &store, &o.rank, &o.size, &o.backend, &o.name, &o.timeout, &parent, &o.device_backend, &device, &urgent, &o.part)) return NULL;
    o.urgent = urgent;
    if (device != Py_None && py_to_device(device, &o.device) != 1) return PyErr_Occurred() ? NULL : (PyErr_SetString(PyExc_TypeError, "device is no device"), NULL);
    if (parent != Py_None && !PyObject_TypeCheck(parent, group_type)) return PyErr_SetString(PyExc_TypeError, "parent is no group"), NULL;
    if (parent != Py_None) o.parent = ((py_group *)parent)->g;
    rush_store *s = store == Py_None ? NULL : py_store_of(store);
    if (!s && store != Py_None) return NULL;
    py_group *x = (py_group *)type->tp_alloc(type, 0);
    if (!x) return NULL;
    Py_BEGIN_ALLOW_THREADS
    x->g = rush_group_new_with(s, &o);
    Py_END_ALLOW_THREADS
    if (x->g) return (PyObject *)x;
    Py_DECREF(x);
    return py_raise();
}

static void drop(py_group *x)
{
    rush_group *g = x->g;
    x->g = NULL;
    Py_BEGIN_ALLOW_THREADS
    rush_group_drop(g);
    Py_END_ALLOW_THREADS
}

static PyObject *group_destroy(PyObject *self, PyObject *unused)
{
    drop((py_group *)self);
    Py_RETURN_NONE;
}

static PyObject *group_abort(PyObject *self, PyObject *args)
{
    const char *why = "it was aborted";
    if (!PyArg_ParseTuple(args, "|s", &why)) return NULL;
    if (((py_group *)self)->g) rush_group_abort(((py_group *)self)->g, why);
    Py_RETURN_NONE;
}

static void group_end(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    drop((py_group *)self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *group_foreign(PyObject *self, PyObject *unused)
{
    rush_group *g = ((py_group *)self)->g;
    return PyBool_FromLong(g && rush_group_foreign(g));
}

static PyObject *group_in_no_part(PyObject *self, PyObject *unused)
{
    int failed;
    Py_BEGIN_ALLOW_THREADS
    failed = rush_group_in_no_part(((py_group *)self)->g);
    Py_END_ALLOW_THREADS
    if (failed) return py_raise();
    Py_RETURN_NONE;
}

static PyMethodDef group_methods[] = {
    {"destroy", group_destroy, METH_NOARGS, "Finishes what was begun and says goodbye to the other ranks."},
    {"foreign", group_foreign, METH_NOARGS, "Is a rank not rushlight's?"},
    {"in_no_part", group_in_no_part, METH_NOARGS, "The others make groups that are parts of this one, and this rank is in none."},
    {"abort", group_abort, METH_VARARGS, "abort(why): all calls fail from now on, here and elsewhere."},
    {NULL},
};

/* ---- works ---- */

/* The tensors of a list or tuple into room for n, borrowed. */
static int tensors_of(PyObject *list, rush_tensor **t, int n, const char *what)
{
    for (int i = 0; i < n; i++) {
        PyObject *x = PyTuple_GET_ITEM(list, i);
        if (!py_is_tensor(x)) return PyErr_Format(PyExc_TypeError, "Invalid function argument. Expected parameter `%s` of type torch.Tensor", what), -1;
        t[i] = py_tensor_of(x);
    }
    return 0;
}

static int splits_of(PyObject *list, int64_t **splits, int size)
{
    *splits = NULL;
    if (list == Py_None) return 0;
    int n;
    *splits = PyMem_Malloc(((size_t)size + 1) * sizeof **splits);
    if (!*splits) return PyErr_NoMemory(), -1;
    if (PySequence_Size(list) == size) {
        for (n = 0; n < size; n++) {
            PyObject *x = PySequence_GetItem(list, n);
            int bad = !x || py_to_int(x, &(*splits)[n]) != 1;
            Py_XDECREF(x);
            if (bad) break;
        }
        if (n == size) return 0;
    }
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, "Number of tensor splits not equal to group size");
    PyMem_Free(*splits);
    *splits = NULL;
    return -1;
}

/* waits: the caller does nothing else until it is done. */
static rush_work *start(rush_group *g, rush_collective *call, bool waits, PyObject *in, PyObject *out, PyObject *in_splits, PyObject *out_splits)
{
    rush_work *w = NULL;
    int64_t *a = NULL, *b = NULL;
    call->nin = (int)PyTuple_GET_SIZE(in);
    call->nout = (int)PyTuple_GET_SIZE(out);
    rush_tensor **t = PyMem_Malloc((size_t)(call->nin + call->nout + 1) * sizeof *t);
    if (!t) return PyErr_NoMemory(), NULL;
    call->in = t;
    call->out = t + call->nin;
    if (!tensors_of(in, call->in, call->nin, "tensor") && !tensors_of(out, call->out, call->nout, "tensor") &&
        !splits_of(in_splits, &a, rush_group_size(g)) && !splits_of(out_splits, &b, rush_group_size(g))) {
        call->in_splits = a;
        call->out_splits = b;
        if (waits) {
            Py_BEGIN_ALLOW_THREADS
            w = rush_dist_do(g, call);
            Py_END_ALLOW_THREADS
            if (rush_failed()) rush_work_drop(w), w = NULL;
        } else {
            Py_BEGIN_ALLOW_THREADS /* devices may have to meet first */
            w = rush_dist_start(g, call);
            Py_END_ALLOW_THREADS
        }
        if (!w) py_raise();
    }
    PyMem_Free(a);
    PyMem_Free(b);
    PyMem_Free(t);
    return w;
}

static PyObject *work_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"group", "kind", "inputs", "outputs", "root", "reduce", "in_splits", "out_splits", "tag", "timeout", "wait_all", "waits", "device", "factor", NULL};
    PyObject *group, *in, *out, *in_splits = Py_None, *out_splits = Py_None, *device = NULL;
    int kind, reduce = 0, wait_all = 0, waits = 0;
    unsigned tag = 0;
    rush_collective call = {.device = {RUSH_CPU, -1}, .factor = 1};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!iO!O!|iiOOIdppOd", names, group_type, &group, &kind, &PyTuple_Type, &in, &PyTuple_Type, &out,
                                     &call.root, &reduce, &in_splits, &out_splits, &tag, &call.timeout, &wait_all, &waits, &device, &call.factor)) return NULL;
    rush_group *g = ((py_group *)group)->g;
    if (!g) return PyErr_SetString(PyExc_ValueError, "the process group was destroyed"), NULL;
    if (device && py_to_device(device, &call.device) != 1) return PyErr_Occurred() ? NULL : (PyErr_SetString(PyExc_TypeError, "device is no device"), NULL);
    call.kind = (rush_dist_kind)kind;
    call.reduce = (rush_reduce)reduce;
    call.tag = tag;
    call.wait_all = wait_all;
    rush_work *w = start(g, &call, waits, in, out, in_splits, out_splits);
    py_work *x = w ? (py_work *)type->tp_alloc(type, 0) : NULL;
    if (!x) {
        rush_work_drop(w);
        return NULL;
    }
    x->w = w;
    x->group = py_ref(group);
    x->result = py_ref(out);
    return (PyObject *)x;
}

/* Waits; an error of the work is the exception. A second wait raises it again. */
static int wait_for(py_work *x, double seconds)
{
    int failed;
    rush_work *w = rush_work_keep(x->w);
    Py_BEGIN_ALLOW_THREADS
    failed = rush_work_wait(w, seconds);
    Py_END_ALLOW_THREADS
    rush_work_drop(w);
    return failed ? py_raise_int() : 0;
}

static PyObject *work_wait(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"timeout", NULL};
    PyObject *timeout = Py_None;
    double seconds = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O", names, &timeout)) return NULL;
    if (timeout != Py_None) {
        PyObject *f = PyObject_CallMethod(timeout, "total_seconds", NULL);
        seconds = f ? PyFloat_AsDouble(f) : -1;
        Py_XDECREF(f);
        if (PyErr_Occurred()) return NULL;
    }
    if (wait_for((py_work *)self, seconds)) return NULL;
    Py_RETURN_TRUE;
}

static PyObject *work_done(PyObject *self, PyObject *unused)
{
    return PyBool_FromLong(rush_work_done(((py_work *)self)->w));
}

/* The exception that it ended with, or None; waits. */
static PyObject *work_exception(PyObject *self, PyObject *unused)
{
    if (!rush_work_done(((py_work *)self)->w) || !wait_for((py_work *)self, 0)) Py_RETURN_NONE;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    Py_XDECREF(type);
    Py_XDECREF(trace);
    return value;
}

static PyObject *work_success(PyObject *self, PyObject *unused)
{
    PyObject *e = rush_work_done(((py_work *)self)->w) ? work_exception(self, NULL) : NULL;
    bool good = e == Py_None;
    Py_XDECREF(e);
    return PyBool_FromLong(good);
}

static PyObject *work_source(PyObject *self, PyObject *unused) { return PyLong_FromLong(rush_work_source(((py_work *)self)->w)); }
static PyObject *work_result(PyObject *self, PyObject *unused) { return PySequence_List(((py_work *)self)->result); }

static void work_end(PyObject *self)
{
    py_work *x = (py_work *)self;
    PyTypeObject *type = Py_TYPE(self);
    rush_work_drop(x->w);
    Py_XDECREF(x->group);
    Py_XDECREF(x->result);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMethodDef work_methods[] = {
    {"wait", (PyCFunction)(void *)work_wait, METH_VARARGS | METH_KEYWORDS, "wait(timeout=the call's own): True, or the exception that it ended with."},
    {"is_completed", work_done, METH_NOARGS, "Is it done, well or not?"},
    {"is_success", work_success, METH_NOARGS, "Is it done, and well?"},
    {"exception", work_exception, METH_NOARGS, "The exception that it ended with, or None."},
    {"source_rank", work_source, METH_NOARGS, "Of a receive: whose message it was."},
    {"_source_rank", work_source, METH_NOARGS, NULL},
    {"result", work_result, METH_NOARGS, "The tensors that it writes."},
    {NULL},
};

/* ---- gradients ---- */

typedef struct py_reducer {
    PyObject_HEAD
    rush_reducer *r;
    PyObject *group, *begin, *finish; /* functions of a bucket's number; NULL: all_reduce */
} py_reducer;

static int call_hook(PyObject *f, int bucket)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *x = PyObject_CallFunction(f, "i", bucket);
    int failed = x ? 0 : py_foreign();
    Py_XDECREF(x);
    PyGILState_Release(gil);
    return failed;
}

static int begin_bucket(void *x, int bucket) { return call_hook(((py_reducer *)x)->begin, bucket); }
static int finish_bucket(void *x, int bucket) { return call_hook(((py_reducer *)x)->finish, bucket); }

/* A list of lists, in which each of n parameters has a place, into room for 3 (n + 1) numbers. */
static int read_buckets(PyObject *buckets, int n, int *room, rush_reducer_options *o)
{
    int *order = room + n + 1, *seen = order + n + 1, at = 0;
    Py_ssize_t all = PyList_Check(buckets) ? PyList_GET_SIZE(buckets) : 0;
    bool good = all > 0 && all <= n;
    for (Py_ssize_t b = 0; good && b < all; b++) {
        PyObject *list = PyList_GET_ITEM(buckets, b);
        good = PyList_Check(list) && PyList_GET_SIZE(list) > 0 && PyList_GET_SIZE(list) <= n - at;
        for (Py_ssize_t k = 0; good && k < PyList_GET_SIZE(list); k++) {
            long number = PyLong_AsLong(PyList_GET_ITEM(list, k));
            good = number >= 0 && number < n && !seen[number]++;
            if (good) order[at++] = (int)number;
        }
        if (good) room[b] = (int)PyList_GET_SIZE(list);
    }
    if (good && at == n) return o->counts = room, o->order = order, o->nbuckets = (int)all, 0;
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "buckets: a list of lists is needed, in which each parameter's number stands once");
    return -1;
}

static PyObject *reducer_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"group", "parameters", "first_bucket", "bucket", "find_unused", "buckets", NULL};
    PyObject *group, *parameters, *buckets = Py_None;
    rush_reducer_options o = {0};
    int find_unused = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!|ddpO", names, group_type, &group, &PyTuple_Type, &parameters, &o.first_bucket, &o.bucket, &find_unused, &buckets)) return NULL;
    o.find_unused = find_unused;
    int n = (int)PyTuple_GET_SIZE(parameters);
    rush_tensor **t = PyMem_Malloc(((size_t)n + 1) * sizeof *t);
    int *counts = PyMem_Calloc(3 * ((size_t)n + 1), sizeof *counts);
    py_reducer *x = NULL;
    if (!t || !counts) PyErr_NoMemory();
    else if (!tensors_of(parameters, t, n, "parameters") && (buckets == Py_None || !read_buckets(buckets, n, counts, &o))) x = (py_reducer *)type->tp_alloc(type, 0);
    if (x && ((py_group *)group)->g) x->r = rush_reducer_new(((py_group *)group)->g, n, t, &o);
    PyMem_Free(t);
    PyMem_Free(counts);
    if (!x) return NULL;
    if (!x->r) {
        Py_DECREF(x);
        return py_raise();
    }
    x->group = py_ref(group);
    return (PyObject *)x;
}

static void reducer_end(PyObject *self)
{
    py_reducer *x = (py_reducer *)self;
    PyTypeObject *type = Py_TYPE(self);
    rush_reducer_drop(x->r);
    Py_XDECREF(x->group);
    Py_XDECREF(x->begin);
    Py_XDECREF(x->finish);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *reducer_prepare(PyObject *self, PyObject *results)
{
    if (!PyTuple_Check(results)) return PyErr_Format(PyExc_TypeError, "a tuple of tensors is needed"), NULL;
    int n = (int)PyTuple_GET_SIZE(results);
    rush_tensor **t = PyMem_Malloc(((size_t)n + 1) * sizeof *t);
    if (!t) return PyErr_NoMemory();
    int failed = tensors_of(results, t, n, "results");
    if (!failed && rush_reducer_prepare(((py_reducer *)self)->r, n, t)) failed = py_raise_int();
    PyMem_Free(t);
    if (failed) return NULL;
    Py_RETURN_NONE;
}

static PyObject *reducer_sync(PyObject *self, PyObject *on)
{
    int is = PyObject_IsTrue(on);
    if (is < 0) return NULL;
    rush_reducer_sync(((py_reducer *)self)->r, is);
    Py_RETURN_NONE;
}

/* PyTorch's name, after calls that were not to be averaged: the next backward pass averages what they accumulated. */
static PyObject *reducer_prepare_for_backward(PyObject *self, PyObject *results)
{
    PyObject *tuple = PySequence_Tuple(results), *r = NULL;
    if (!tuple) return NULL;
    rush_reducer_sync(((py_reducer *)self)->r, true);
    r = reducer_prepare(self, tuple);
    Py_DECREF(tuple);
    return r;
}

static PyObject *reducer_hooks(PyObject *self, PyObject *args)
{
    py_reducer *x = (py_reducer *)self;
    PyObject *begin, *finish;
    if (!PyArg_ParseTuple(args, "OO", &begin, &finish)) return NULL;
    Py_XSETREF(x->begin, py_ref(begin));
    Py_XSETREF(x->finish, py_ref(finish));
    rush_reducer_hooks(x->r, begin_bucket, finish_bucket, x);
    Py_RETURN_NONE;
}

static PyObject *list_of(const int *x, int n)
{
    PyObject *list = PyList_New(n);
    for (int i = 0; list && i < n; i++) PyList_SET_ITEM(list, i, PyLong_FromLong(x[i]));
    return list;
}

static PyObject *reducer_came(PyObject *self, PyObject *unused)
{
    const int *which;
    int n = rush_reducer_came(((py_reducer *)self)->r, &which);
    return list_of(which, n);
}

/* [(the flat tensor, the numbers of its parameters), ...] */
static PyObject *reducer_buckets(PyObject *self, PyObject *unused)
{
    rush_reducer *r = ((py_reducer *)self)->r;
    PyObject *list = PyList_New(rush_reducer_buckets(r));
    for (int i = 0; list && i < rush_reducer_buckets(r); i++) {
        const int *which;
        int n = rush_reducer_parameters(r, i, &which);
        PyObject *numbers = list_of(which, n);
        PyObject *pair = numbers ? Py_BuildValue("(NN)", py_wrap(rush_reducer_bucket(r, i)), numbers) : NULL;
        if (!pair) Py_CLEAR(list);
        else PyList_SET_ITEM(list, i, pair);
    }
    return list;
}

static PyMethodDef reducer_methods[] = {
    {"prepare", reducer_prepare, METH_O, "prepare(results): a backward pass from these will follow."},
    {"prepare_for_backward", reducer_prepare_for_backward, METH_O, "The same of any sequence, and gradients are averaged."},
    {"sync", reducer_sync, METH_O, "sync(on): are gradients averaged?"},
    {"hooks", reducer_hooks, METH_VARARGS, "hooks(begin, finish): functions of a bucket's number in place of all_reduce."},
    {"buckets", reducer_buckets, METH_NOARGS, "[(flat gradients, numbers of the parameters)]"},
    {"came", reducer_came, METH_NOARGS, "Numbers of the parameters, in the order of their first gradients."},
    {NULL},
};
static PyType_Slot reducer_slots[] = {{Py_tp_new, reducer_new}, {Py_tp_dealloc, reducer_end}, {Py_tp_methods, reducer_methods},
                                      {Py_tp_doc, "_Reducer(group, parameters, first_bucket=0, bucket=0, find_unused=False)"}, {0, NULL}};

static PyObject *backend_missing(PyObject *module, PyObject *name)
{
    const char *text = PyUnicode_AsUTF8(name);
    if (!text) return NULL;
    if (!strcmp(text, "gloo")) Py_RETURN_NONE; /* processes of one machine share memory; those of several are told what is missing */
    if (!strcmp(text, "mpi") ? rush_mpi_available() : !strcmp(text, "nccl") ? !rush_nccl_available() : rush_engine_load(!strcmp(text, "libgloo") ? "gloo" : text) != NULL)
        Py_RETURN_NONE;
    PyObject *why = PyUnicode_FromString(rush_error());
    rush_error_clear();
    return why;
}

/* _nccl_devices(kind, inputs, outputs, op, root, streams): tuples of tensors, None for no output, and of numbers of streams, or None. */
static PyObject *nccl_devices(PyObject *module, PyObject *args)
{
    enum { MOST = 64 };
    PyObject *ins, *outs, *streams;
    rush_tensor *in[MOST], *out[MOST];
    int kind, op, root, stream[MOST];
    if (!PyArg_ParseTuple(args, "iO!O!iiO", &kind, &PyTuple_Type, &ins, &PyTuple_Type, &outs, &op, &root, &streams)) return NULL;
    const Py_ssize_t n = PyTuple_GET_SIZE(ins);
    if (n > MOST || PyTuple_GET_SIZE(outs) != n || (streams != Py_None && (!PyTuple_Check(streams) || PyTuple_GET_SIZE(streams) != n)))
        return PyErr_Format(PyExc_RuntimeError, "number of streams and outputs does not match number of inputs (%zd)", n);
    if (tensors_of(ins, in, (int)n, "inputs")) return NULL;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *x = PyTuple_GET_ITEM(outs, i);
        out[i] = py_is_tensor(x) ? py_tensor_of(x) : NULL;
        if (!out[i] && x != Py_None) return PyErr_Format(PyExc_TypeError, "outputs must be tensors");
        stream[i] = streams == Py_None ? 0 : (int)PyLong_AsLong(PyTuple_GET_ITEM(streams, i));
    }
    if (PyErr_Occurred()) return NULL;
    const rush_nccl_call call = {(rush_nccl_kind)kind, (int)n, root, op, in, out, streams == Py_None ? NULL : stream};
    int failed;
    Py_BEGIN_ALLOW_THREADS
    failed = rush_nccl_devices(&call);
    Py_END_ALLOW_THREADS
    if (failed) return py_raise();
    Py_RETURN_NONE;
}

static PyObject *nccl_version(PyObject *module, PyObject *unused)
{
    int version = rush_nccl_version();
    return version < 0 ? py_raise() : PyLong_FromLong(version);
}

static PyObject *meet_by_mpi(PyObject *module, PyObject *args)
{
    double seconds;
    int rank, size;
    if (!PyArg_ParseTuple(args, "d", &seconds)) return NULL;
    rush_store *s;
    Py_BEGIN_ALLOW_THREADS
    s = rush_mpi_meet(&rank, &size, seconds);
    Py_END_ALLOW_THREADS
    PyObject *store = s ? py_store_new_tcp(s) : py_raise();
    return store ? Py_BuildValue("(Nii)", store, rank, size) : NULL;
}

static PyObject *step_begin(PyObject *module, PyObject *unused)
{
    rush_dist_step_begin();
    Py_RETURN_NONE;
}

static PyObject *step_end(PyObject *module, PyObject *unused)
{
    int failed;
    Py_BEGIN_ALLOW_THREADS
    failed = rush_dist_step_end();
    Py_END_ALLOW_THREADS
    if (failed) return py_raise();
    Py_RETURN_NONE;
}

static PyObject *recorded(PyObject *module, PyObject *args)
{
    int collectives, only_active;
    rush_bytes b;
    if (!PyArg_ParseTuple(args, "pp", &collectives, &only_active)) return NULL;
    if (rush_recorder_json(&b, collectives, only_active)) return py_raise();
    PyObject *text = PyBytes_FromStringAndSize(b.data, (Py_ssize_t)b.n);
    rush_bytes_free(&b);
    return text;
}

static PyObject *forget_recorded(PyObject *module, PyObject *unused)
{
    rush_recorder_clear();
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"_dist_missing", backend_missing, METH_O, "None, or why the backend of this name is not there: gloo, mpi, nccl; of libgloo, which gloo needs between machines."},
    {"_dist_meet_by_mpi", meet_by_mpi, METH_VARARGS, "(seconds) -> (store, rank, number of ranks) of the processes that mpiexec has started."},
    {"_nccl_devices", nccl_devices, METH_VARARGS, "_nccl_devices(kind, inputs, outputs, op, root, streams): a collective between devices of this process."},
    {"_nccl_version", nccl_version, METH_NOARGS, "Of the library, as 10000 * major + 100 * minor + patch."},
    {"_dist_step_begin", step_begin, METH_NOARGS, "What is begun from here on goes to the devices together:"},
    {"_dist_step_end", step_end, METH_NOARGS, "now."},
    {"_dist_recorded", recorded, METH_VARARGS, "(collectives, only_active) -> what the flight recorder remembers, as JSON."},
    {"_dist_forget_recorded", forget_recorded, METH_NOARGS, "Empties the flight recorder."},
    {NULL},
};

static PyType_Slot group_slots[] = {{Py_tp_new, group_new}, {Py_tp_dealloc, group_end}, {Py_tp_methods, group_methods},
                                    {Py_tp_doc, "_Group(store, rank, size, backend, name, timeout=1800, parent=None, device_backend=None, device=None, urgent=False, part=0)"}, {0, NULL}};
static PyType_Slot work_slots[] = {{Py_tp_new, work_new}, {Py_tp_dealloc, work_end}, {Py_tp_methods, work_methods},
                                   {Py_tp_doc, "A call in a group, begun by making it."}, {0, NULL}};

int py_dist_init(PyObject *module)
{
    PyType_Spec group = {.name = "rushlight._C._Group", .basicsize = sizeof(py_group), .flags = Py_TPFLAGS_DEFAULT, .slots = group_slots};
    PyType_Spec work = {.name = "rushlight._C._Work", .basicsize = sizeof(py_work), .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, .slots = work_slots};
    PyType_Spec reducer = {.name = "rushlight._C._Reducer", .basicsize = sizeof(py_reducer), .flags = Py_TPFLAGS_DEFAULT, .slots = reducer_slots};
    group_type = (PyTypeObject *)PyType_FromSpec(&group);
    if (!group_type) return -1;
    Py_INCREF(group_type);
    return py_add(module, "_Group", (PyObject *)group_type) || py_add(module, "_Work", PyType_FromSpec(&work)) ||
                   py_add(module, "_Reducer", PyType_FromSpec(&reducer)) || PyModule_AddFunctions(module, functions) ? -1 : 0;
}
