/* device.c - kinds of devices that backends bring (include/rushlight/backend.h): what torch.NAME modules and torch.accelerator ask. */
#include "ext.h"
#include "tensor/backend.h"
#include "tensor/cuda.h"

/* A device of a kind that is there, from whatever Python gave. */
static int ready_device(PyObject *x, rush_device *d)
{
    int ok = py_to_device(x, d);
    if (ok == 0) PyErr_Format(PyExc_TypeError, "a device was expected, not %s", py_type_name(x));
    return ok <= 0 || py_device_ready(*d) ? -1 : 0;
}

static PyObject *private_name(PyObject *module, PyObject *unused) { return PyUnicode_FromString(rush_device_name(RUSH_PRIVATEUSEONE)); }

static PyObject *rename_private(PyObject *module, PyObject *name)
{
    const char *text = PyUnicode_AsUTF8(name);
    if (!text) return NULL;
    if (rush_device_rename(RUSH_PRIVATEUSEONE, text)) return py_raise();
    Py_RETURN_NONE;
}

static PyObject *count(PyObject *module, PyObject *x)
{
    rush_device d;
    int ok = py_to_device(x, &d);
    if (ok <= 0) return ok ? NULL : PyErr_Format(PyExc_TypeError, "a device was expected, not %s", py_type_name(x));
    return PyLong_FromLong(rush_device_count(d.type));
}

static PyObject *current(PyObject *module, PyObject *x)
{
    rush_device d;
    return ready_device(x, &d) ? NULL : PyLong_FromLong(rush_device_current(d.type));
}

static PyObject *set_current(PyObject *module, PyObject *x)
{
    rush_device d;
    if (ready_device(x, &d)) return NULL;
    if (rush_device_set_current(d)) return py_raise();
    Py_RETURN_NONE;
}

static PyObject *synchronize(PyObject *module, PyObject *x)
{
    rush_device d;
    if (ready_device(x, &d)) return NULL;
    int failed;
    Py_BEGIN_ALLOW_THREADS
    failed = rush_device_synchronize(d);
    Py_END_ALLOW_THREADS
    if (failed) return py_raise();
    Py_RETURN_NONE;
}

static PyObject *memory_stats(PyObject *module, PyObject *x)
{
    rush_device d;
    rush_device_stats s;
    if (ready_device(x, &d)) return NULL;
    if (rush_device_stats_read(d, &s)) return py_raise();
    return Py_BuildValue("{s:n,s:n,s:n,s:n,s:K,s:K}", "live_bytes", (Py_ssize_t)s.live_bytes, "peak_bytes", (Py_ssize_t)s.peak_bytes, "live_blocks",
                         (Py_ssize_t)s.live_blocks, "peak_blocks", (Py_ssize_t)s.peak_blocks, "allocations", (unsigned long long)s.allocations,
                         "frees", (unsigned long long)s.frees);
}

static PyObject *reset_peak(PyObject *module, PyObject *x)
{
    rush_device d;
    if (ready_device(x, &d)) return NULL;
    if (rush_device_stats_reset_peak(d)) return py_raise();
    Py_RETURN_NONE;
}

static PyObject *generator(PyObject *module, PyObject *x)
{
    rush_device d;
    if (ready_device(x, &d)) return NULL;
    rush_generator *g = rush_device_generator(d);
    return g ? py_generator(g) : py_raise();
}

static PyObject *manual_seed(PyObject *module, PyObject *x)
{
    unsigned long long seed = PyLong_AsUnsignedLongLongMask(x);
    if (PyErr_Occurred()) return NULL;
    if (rush_device_manual_seed(seed)) return py_raise();
    Py_RETURN_NONE;
}

/* Are these lists what an operation over lists takes: of one floating dtype, on one device that has its kernel? */
static PyObject *lists_run(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    bool lists = n == 3;
    for (int k = 1; lists && k < 3; ++k) lists = PyList_Check(args[k]) || PyTuple_Check(args[k]);
    const char *name = lists ? PyUnicode_AsUTF8(args[0]) : NULL;
    if (!name) return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "_lists_run(operation, list, list)");
    const rush_tensor *first = NULL;
    for (int k = 1; k < 3; ++k)
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(args[k]); ++i) {
            const rush_tensor *t = py_need_tensor(PySequence_Fast_GET_ITEM(args[k], i), "an element of the list");
            if (!t) return NULL;
            if (!first) first = t;
            if (t->dtype != first->dtype || !rush_same_device(t->device, first->device)) Py_RETURN_FALSE;
        }
    if (!first || rush_dtypes[first->dtype].category != 2) Py_RETURN_FALSE;
    const rush_op *op = rush_op_find(name);
    return PyBool_FromLong(op && rush_runs_on(first->device, op));
}

/* The first kind of device beside cpu and meta that this process has; None. */
static PyObject *accelerator(PyObject *module, PyObject *unused)
{
    for (int type = RUSH_META + 1; type < RUSH_DEVICES; ++type)
        if (rush_device_count(type)) return py_device((rush_device){(uint8_t)type, -1});
    Py_RETURN_NONE;
}

/* ---- streams and events ---- */

static PyObject *stream_new(PyObject *module, PyObject *args)
{
    PyObject *x;
    rush_device d;
    int priority;
    if (!PyArg_ParseTuple(args, "Oi", &x, &priority) || ready_device(x, &d)) return NULL;
    int stream = rush_stream_new(d, priority);
    return stream < 0 ? py_raise() : PyLong_FromLong(stream);
}

static PyObject *stream_current(PyObject *module, PyObject *x)
{
    rush_device d;
    return ready_device(x, &d) ? NULL : PyLong_FromLong(rush_device_stream(d));
}

static PyObject *stream_set(PyObject *module, PyObject *args)
{
    PyObject *x;
    rush_device d;
    int stream;
    if (!PyArg_ParseTuple(args, "Oi", &x, &stream) || ready_device(x, &d)) return NULL;
    if (rush_device_stream_set(d, stream)) return py_raise();
    Py_RETURN_NONE;
}

static PyObject *stream_query(PyObject *module, PyObject *args)
{
    PyObject *x;
    rush_device d;
    int stream;
    if (!PyArg_ParseTuple(args, "Oi", &x, &stream) || ready_device(x, &d)) return NULL;
    int done = rush_stream_query(d, stream);
    return done < 0 ? py_raise() : PyBool_FromLong(done);
}

static PyObject *stream_synchronize(PyObject *module, PyObject *args)
{
    PyObject *x;
    rush_device d;
    int stream, failed;
    if (!PyArg_ParseTuple(args, "Oi", &x, &stream) || ready_device(x, &d)) return NULL;
    Py_BEGIN_ALLOW_THREADS
    failed = rush_stream_synchronize(d, stream);
    Py_END_ALLOW_THREADS
    if (failed) return py_raise();
    Py_RETURN_NONE;
}

static void event_end(PyObject *capsule) { rush_event_free(PyCapsule_GetPointer(capsule, "rush_event")); }

static PyObject *event_capsule(rush_event *e)
{
    PyObject *capsule = e ? PyCapsule_New(e, "rush_event", event_end) : py_raise();
    if (e && !capsule) rush_event_free(e);
    return capsule;
}

/* _event_new(device, timing) -> what the other functions take */
static PyObject *event_new(PyObject *module, PyObject *args)
{
    PyObject *x;
    rush_device d;
    int timing;
    if (!PyArg_ParseTuple(args, "Op", &x, &timing) || ready_device(x, &d)) return NULL;
    return event_capsule(rush_event_new(d, timing));
}

/* _event_shared(device[, handle]) -> one that other processes may wait for, or one of theirs */
static PyObject *event_shared(PyObject *module, PyObject *args)
{
    PyObject *x;
    rush_device d;
    const unsigned char *handle = NULL;
    Py_ssize_t n = 64;
    if (!PyArg_ParseTuple(args, "O|y#", &x, &handle, &n) || ready_device(x, &d)) return NULL;
    if (d.type != RUSH_CUDA || n != 64) return PyErr_Format(PyExc_ValueError, d.type == RUSH_CUDA ? "not a handle of an event" : "events of this device are not shared between processes");
    const rush_cuda_sharing *sharing = rush_cuda(NULL)->sharing;
    void *own = handle ? sharing->event_import(d, handle) : sharing->event_new(d);
    return own ? event_capsule(rush_event_of(d, own, handle != NULL)) : py_raise();
}

static PyObject *event_handle(PyObject *module, PyObject *args)
{
    PyObject *x, *capsule;
    rush_device d;
    unsigned char handle[64];
    if (!PyArg_ParseTuple(args, "OO", &x, &capsule) || ready_device(x, &d)) return NULL;
    rush_event *e = PyCapsule_GetPointer(capsule, "rush_event");
    if (!e) return NULL;
    return rush_cuda(NULL)->sharing->event_export(d, rush_event_own(e), handle) ? py_raise() : PyBytes_FromStringAndSize((char *)handle, sizeof handle);
}

static PyObject *event_at(PyObject *args, int (*what)(rush_event *, int stream))
{
    PyObject *capsule;
    int stream;
    if (!PyArg_ParseTuple(args, "Oi", &capsule, &stream)) return NULL;
    rush_event *e = PyCapsule_GetPointer(capsule, "rush_event");
    if (!e) return NULL;
    if (what(e, stream)) return py_raise();
    Py_RETURN_NONE;
}

static PyObject *event_record(PyObject *module, PyObject *args) { return event_at(args, rush_event_record); }
static PyObject *event_wait(PyObject *module, PyObject *args) { return event_at(args, rush_event_wait); }

static PyObject *event_query(PyObject *module, PyObject *capsule)
{
    rush_event *e = PyCapsule_GetPointer(capsule, "rush_event");
    int done = e ? rush_event_query(e) : 0;
    return !e ? NULL : done < 0 ? py_raise() : PyBool_FromLong(done);
}

static PyObject *event_synchronize(PyObject *module, PyObject *capsule)
{
    rush_event *e = PyCapsule_GetPointer(capsule, "rush_event");
    int failed;
    if (!e) return NULL;
    Py_BEGIN_ALLOW_THREADS
    failed = rush_event_synchronize(e);
    Py_END_ALLOW_THREADS
    if (failed) return py_raise();
    Py_RETURN_NONE;
}

static PyObject *event_elapsed(PyObject *module, PyObject *args)
{
    PyObject *a, *b;
    double ms;
    if (!PyArg_ParseTuple(args, "OO", &a, &b)) return NULL;
    rush_event *begin = PyCapsule_GetPointer(a, "rush_event"), *end = begin ? PyCapsule_GetPointer(b, "rush_event") : NULL;
    if (!begin || !end) return NULL;
    return rush_event_elapsed(begin, end, &ms) ? py_raise() : PyFloat_FromDouble(ms);
}

static PyMethodDef functions[] = {
    {"_get_privateuse1_backend_name", private_name, METH_NOARGS, "The name of the device type that is kept for other people's devices."},
    {"_rename_privateuse1_backend", rename_private, METH_O, "Gives that device type another name, once."},
    {"_device_count", count, METH_O, "How many devices of that type there are."},
    {"_device_current", current, METH_O, "The index of the current device of that type."},
    {"_device_set_current", set_current, METH_O, "Makes a device the current one of its type, in this thread."},
    {"_device_synchronize", synchronize, METH_O, "Waits for the work of a device."},
    {"_device_memory_stats", memory_stats, METH_O, "A dict of counts of a device's memory."},
    {"_device_reset_peak", reset_peak, METH_O, "Peaks begin anew from what is in use."},
    {"_device_generator", generator, METH_O, "The default generator of a device."},
    {"_device_manual_seed", manual_seed, METH_O, "Seeds the default generators of all devices but the CPU."},
    {"_lists_run", (PyCFunction)(void (*)(void))lists_run, METH_FASTCALL, "Does an operation take two lists of tensors: one floating dtype, one device that has its kernel?"},
    {"_stream_new", stream_new, METH_VARARGS, "_stream_new(device, priority): the number of another stream."},
    {"_stream_current", stream_current, METH_O, "The stream that gets this thread's work for a device."},
    {"_stream_set", stream_set, METH_VARARGS, "_stream_set(device, stream): the stream that gets it from now on."},
    {"_stream_query", stream_query, METH_VARARGS, "Is all work of a stream done?"},
    {"_stream_synchronize", stream_synchronize, METH_VARARGS, "Waits for the work of a stream."},
    {"_event_new", event_new, METH_VARARGS, "_event_new(device, timing): a point in a stream, to be recorded."},
    {"_event_shared", event_shared, METH_VARARGS, "_event_shared(device[, handle]): an event that other processes may wait for, or one of theirs."},
    {"_event_handle", event_handle, METH_VARARGS, "_event_handle(device, event): what another process opens it by."},
    {"_event_record", event_record, METH_VARARGS, "_event_record(event, stream): it is where the stream's work ends now."},
    {"_event_wait", event_wait, METH_VARARGS, "_event_wait(event, stream): the stream's further work waits for it."},
    {"_event_query", event_query, METH_O, "Is it passed?"},
    {"_event_synchronize", event_synchronize, METH_O, "Waits until it is."},
    {"_event_elapsed", event_elapsed, METH_VARARGS, "_event_elapsed(begin, end): milliseconds."},
    {"_device_accelerator", accelerator, METH_NOARGS, "The type of device beside the CPU that there is, or None."},
    {NULL},
};

int py_device_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
