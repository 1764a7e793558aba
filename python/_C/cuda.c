/* cuda.c - what torch.cuda asks beyond what every kind of device has (device.c); src/tensor/cuda.h answers. */
#include "ext.h"
#include "tensor/backend.h"
#include "tensor/cuda.h"

/* The answers for device `index`; NULL and an exception when there are none. */
static const rush_cuda_interface *need(long index, rush_device *d)
{
    *d = (rush_device){RUSH_CUDA, (int8_t)(index < 0 ? rush_device_current(RUSH_CUDA) : RUSH_MIN(index, 127))};
    return py_device_ready(*d) ? NULL : rush_cuda(NULL);
}

static const rush_cuda_interface *need_at(PyObject *x, rush_device *d)
{
    long index = PyLong_AsLong(x);
    return index == -1 && PyErr_Occurred() ? NULL : need(index, d);
}

static PyObject *opened(PyObject *module, PyObject *unused) { return PyBool_FromLong(rush_backend_of((rush_device){RUSH_CUDA, 0}) != NULL); }

static PyObject *why(PyObject *module, PyObject *unused)
{
    const char *text = NULL;
    if (rush_cuda(&text) || !text) Py_RETURN_NONE;
    return PyUnicode_FromString(text);
}

static PyObject *properties(PyObject *module, PyObject *x)
{
    rush_device d;
    rush_cuda_properties p;
    const rush_cuda_interface *cuda = need_at(x, &d);
    if (!cuda) return NULL;
    if (cuda->properties(d, &p)) return py_raise();
    return Py_BuildValue("{s:s,s:i,s:i,s:n,s:i,s:i,s:N,s:N,s:i,s:i}", "name", p.name, "major", p.major, "minor", p.minor, "total_memory", (Py_ssize_t)p.memory,
                         "multi_processor_count", p.processors, "max_threads_per_multi_processor", p.threads_per_processor, "is_integrated",
                         PyBool_FromLong(p.integrated), "is_emulated", PyBool_FromLong(p.emulated), "L2_cache_size", p.l2_cache, "clock_rate", p.clock);
}

static PyObject *memory(PyObject *module, PyObject *x)
{
    rush_device d;
    rush_cuda_memory m;
    const rush_cuda_interface *cuda = need_at(x, &d);
    if (!cuda) return NULL;
    if (cuda->memory(d, &m)) return py_raise();
    return Py_BuildValue("{s:n,s:n,s:n,s:n,s:n,s:n,s:n,s:d}", "reserved", (Py_ssize_t)m.reserved, "peak_reserved", (Py_ssize_t)m.peak_reserved, "cached",
                         (Py_ssize_t)m.cached, "largest_free", (Py_ssize_t)m.largest_free, "segments", (Py_ssize_t)m.segments, "retries", (Py_ssize_t)m.retries,
                         "out_of_memory", (Py_ssize_t)m.out_of_memory, "fraction", m.fraction);
}

static PyObject *memory_info(PyObject *module, PyObject *x)
{
    rush_device d;
    size_t free, total;
    const rush_cuda_interface *cuda = need_at(x, &d);
    if (!cuda) return NULL;
    if (cuda->memory_info(d, &free, &total)) return py_raise();
    return Py_BuildValue("nn", (Py_ssize_t)free, (Py_ssize_t)total);
}

static PyObject *done(int failed)
{
    if (failed) return py_raise();
    Py_RETURN_NONE;
}

static PyObject *memory_empty(PyObject *module, PyObject *x)
{
    rush_device d;
    const rush_cuda_interface *cuda = need_at(x, &d);
    return cuda ? done(cuda->memory_empty(d)) : NULL;
}

static PyObject *memory_reset_peak(PyObject *module, PyObject *x)
{
    rush_device d;
    const rush_cuda_interface *cuda = need_at(x, &d);
    return cuda ? done(cuda->memory_reset_peak(d) || rush_device_stats_reset_peak(d)) : NULL;
}

static PyObject *memory_fraction(PyObject *module, PyObject *args)
{
    rush_device d;
    long index;
    double fraction;
    if (!PyArg_ParseTuple(args, "ld", &index, &fraction)) return NULL;
    const rush_cuda_interface *cuda = need(index, &d);
    return cuda ? done(cuda->memory_fraction(d, fraction)) : NULL;
}

static PyObject *peer(PyObject *module, PyObject *args)
{
    rush_device d, other;
    long a, b;
    if (!PyArg_ParseTuple(args, "ll", &a, &b)) return NULL;
    const rush_cuda_interface *cuda = need(a, &d);
    if (!cuda || !need(b, &other)) return NULL;
    int can = cuda->peer(d, other);
    return can < 0 ? py_raise() : PyBool_FromLong(can);
}

static PyObject *library(PyObject *module, PyObject *unused)
{
    rush_device d;
    const rush_cuda_interface *cuda = need(-1, &d);
    return cuda ? PyUnicode_FromString(cuda->library()) : NULL;
}

static PyObject *host(PyObject *module, PyObject *unused)
{
    rush_device d;
    const rush_cuda_interface *cuda = need(-1, &d);
    return cuda ? PyUnicode_FromString(cuda->host()) : NULL;
}

static PyObject *needed(PyObject *module, PyObject *unused)
{
    rush_device d;
    if (!need(-1, &d)) return NULL;
    Py_RETURN_NONE;
}

/* By name, since programs turn switches before there is a device. */
static PyObject *switched(PyObject *module, PyObject *args)
{
    static const char *const names[RUSH_CUDA_SWITCHES] = {[RUSH_CUDNN_ENABLED] = "cudnn_enabled", [RUSH_CUDNN_BENCHMARK] = "cudnn_benchmark",
                                                          [RUSH_CUDNN_BENCHMARK_LIMIT] = "cudnn_benchmark_limit", [RUSH_CUDNN_DETERMINISTIC] = "cudnn_deterministic",
                                                          [RUSH_CUDNN_TF32] = "cudnn_tf32", [RUSH_DETERMINISTIC] = "deterministic", [RUSH_PRODUCT_TF32] = "product_tf32"};
    const char *name;
    int value = -1;
    if (!PyArg_ParseTuple(args, "s|i", &name, &value)) return NULL;
    for (int k = 0; k < RUSH_CUDA_SWITCHES; k++)
        if (!strcmp(name, names[k])) return PyLong_FromLong(rush_cuda_switch(k, value));
    return PyErr_Format(PyExc_ValueError, "there is no switch '%s'", name);
}

static PyObject *cudnn_version(PyObject *module, PyObject *unused)
{
    const rush_cuda_interface *cuda = rush_cuda(NULL);
    return PyLong_FromSize_t(cuda ? cuda->cudnn_version() : 0);
}

static PyMethodDef functions[] = {
    {"_cuda_opened", opened, METH_NOARGS, "Has the CUDA part been opened? It is when a device is first asked for."},
    {"_cuda_why", why, METH_NOARGS, "Why there is no CUDA device; None when there is one."},
    {"_cuda_properties", properties, METH_O, "A dict of what the device of that index is."},
    {"_cuda_memory", memory, METH_O, "A dict of what the caching allocator has taken."},
    {"_cuda_memory_info", memory_info, METH_O, "(free, total) bytes of the device."},
    {"_cuda_memory_empty", memory_empty, METH_O, "Gives what is cached back to the device."},
    {"_cuda_memory_reset_peak", memory_reset_peak, METH_O, "Peaks begin anew from what is taken."},
    {"_cuda_memory_fraction", memory_fraction, METH_VARARGS, "_cuda_memory_fraction(index, part): no more than that part of the device is taken."},
    {"_cuda_peer", peer, METH_VARARGS, "Can one device reach the memory of the other?"},
    {"_cuda_library", library, METH_NOARGS, "The operations that NVIDIA's libraries do, where they are there, separated by blanks."},
    {"_cuda_host", host, METH_NOARGS, "The operations that the host computes, between copies, separated by blanks."},
    {"_cuda_need", needed, METH_NOARGS, "_cuda_need(): an error that says why, where there is no CUDA device."},
    {"_cuda_switch", switched, METH_VARARGS, "_cuda_switch(name[, value]): what a switch of the CUDA part was before, a number; with a value it is turned."},
    {"_cuda_cudnn_version", cudnn_version, METH_NOARGS, "cuDNN's version as one number; 0 where it is not used: no device, an emulated one, or no such library."},
    {NULL}};

int py_cuda_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
