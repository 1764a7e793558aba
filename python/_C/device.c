/* device.c - kinds of devices that backends bring (include/rushlight/backend.h): what torch.NAME modules and torch.accelerator ask. */
#include "ext.h"

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

static PyObject *runs(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    rush_device d;
    const char *name = n == 2 ? PyUnicode_AsUTF8(args[0]) : NULL;
    if (!name) return PyErr_Format(PyExc_TypeError, "_device_runs(operation, device)");
    if (ready_device(args[1], &d)) return NULL;
    const rush_op *op = rush_op_find(name);
    return PyBool_FromLong(op && rush_runs_on(d, op));
}

/* The first kind of device beside cpu and meta that this process has; None. */
static PyObject *accelerator(PyObject *module, PyObject *unused)
{
    for (int type = RUSH_META + 1; type < RUSH_DEVICES; ++type)
        if (rush_device_count(type)) return py_device((rush_device){(uint8_t)type, -1});
    Py_RETURN_NONE;
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
    {"_device_runs", (PyCFunction)(void (*)(void))runs, METH_FASTCALL, "Is there a kernel of an operation for a device?"},
    {"_device_accelerator", accelerator, METH_NOARGS, "The type of device beside the CPU that there is, or None."},
    {NULL},
};

int py_device_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
