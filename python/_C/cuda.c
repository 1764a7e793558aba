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

static PyObject *used(PyObject *module, PyObject *unused)
{
    const rush_cuda_interface *cuda = rush_backend_of((rush_device){RUSH_CUDA, 0}) ? rush_cuda(NULL) : NULL;
    return PyBool_FromLong(cuda && cuda->used());
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
    return Py_BuildValue("{s:n,s:n,s:n,s:n,s:n,s:n,s:n,s:n,s:n,s:d}", "active", (Py_ssize_t)m.active, "peak_active", (Py_ssize_t)m.peak_active, "reserved", (Py_ssize_t)m.reserved, "peak_reserved", (Py_ssize_t)m.peak_reserved, "cached",
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

static PyObject *settings(PyObject *module, PyObject *text)
{
    const char *words = PyUnicode_AsUTF8(text);
    return words ? done(rush_cuda_set(words)) : NULL;
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

/* ---- pools of memory ---- */

static PyObject *pool_pair(rush_pool_id id) { return Py_BuildValue("KK", (unsigned long long)id.graph, (unsigned long long)id.user); }

static PyObject *pool_handle(PyObject *module, PyObject *unused)
{
    rush_device d;
    const rush_cuda_interface *cuda = need(-1, &d);
    return cuda ? pool_pair(cuda->pool_id(false)) : NULL;
}

static PyObject *pool_new(PyObject *module, PyObject *args)
{
    rush_device d;
    int last_resort, whole;
    const rush_cuda_interface *cuda = need(-1, &d);
    if (!cuda || !PyArg_ParseTuple(args, "pp", &last_resort, &whole)) return NULL;
    const rush_pool_id id = cuda->pool_id(false);
    return cuda->pool_new(id, whole, last_resort) ? py_raise() : pool_pair(id);
}

static PyObject *pool_free(PyObject *module, PyObject *args)
{
    rush_device d;
    unsigned long long a, b;
    const rush_cuda_interface *cuda = need(-1, &d);
    if (!cuda || !PyArg_ParseTuple(args, "(KK)", &a, &b)) return NULL;
    return done(cuda->pool_free((rush_pool_id){a, b}));
}

static PyObject *pool_users(PyObject *module, PyObject *args)
{
    rush_device d;
    unsigned long long a, b;
    const rush_cuda_interface *cuda = need(-1, &d);
    if (!cuda || !PyArg_ParseTuple(args, "(KK)", &a, &b)) return NULL;
    return PyLong_FromLong(cuda->pool_users((rush_pool_id){a, b}));
}

static PyObject *pool_route(PyObject *module, PyObject *args)
{
    rush_device d;
    long index;
    int on;
    unsigned long long a, b;
    if (!PyArg_ParseTuple(args, "l(KK)p", &index, &a, &b, &on)) return NULL;
    const rush_cuda_interface *cuda = need(index, &d);
    return cuda ? done((on ? cuda->pool_begin : cuda->pool_end)(d, (rush_pool_id){a, b})) : NULL;
}

/* A list of tuples, piece by piece: address, bytes, busy, first, stream, pool, operation, small, expandable. */
static PyObject *memory_blocks(PyObject *module, PyObject *x)
{
    rush_device d;
    const rush_cuda_interface *cuda = need_at(x, &d);
    if (!cuda) return NULL;
    const size_t room = cuda->memory_blocks(d, NULL, 0) + 64; /* what the list itself frees or takes meanwhile */
    rush_cuda_block *blocks = PyMem_Calloc(room, sizeof *blocks);
    if (!blocks) return PyErr_NoMemory();
    const size_t n = RUSH_MIN(room, cuda->memory_blocks(d, blocks, room));
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < n; i++) {
        const rush_cuda_block *b = &blocks[i];
        PyObject *one = Py_BuildValue("NnNNiNzNN", PyLong_FromVoidPtr((void *)b->p), (Py_ssize_t)b->bytes, PyBool_FromLong(b->busy), PyBool_FromLong(b->first), b->stream,
                                      pool_pair(b->pool), b->op, PyBool_FromLong(b->small), PyBool_FromLong(b->expandable));
        if (!one || PyList_Append(list, one)) Py_CLEAR(list);
        Py_XDECREF(one);
    }
    PyMem_Free(blocks);
    return list;
}

/* ---- what devices did, for the profiler ---- */

/* _cuda_trace_begin(with memory?) */
static PyObject *trace_begin(PyObject *module, PyObject *x)
{
    rush_device d;
    uint32_t thread;
    const rush_cuda_interface *cuda = need(-1, &d);
    const int memory = PyObject_IsTrue(x);
    if (!cuda || memory < 0) return NULL;
    return cuda->trace_begin(memory, &thread) ? py_raise() : PyLong_FromUnsignedLong(thread);
}

static PyObject *of_record(const rush_cuda_record *r)
{
    return Py_BuildValue("isiiIIKKL(iii)(iii)iinn", (int)r->kind, r->name ? r->name : "", r->device, r->stream, r->correlation, r->thread, (unsigned long long)r->start, (unsigned long long)r->end,
                         (long long)r->bytes, r->grid[0], r->grid[1], r->grid[2], r->block[0], r->block[1], r->block[2], r->shared, r->registers,
                         (Py_ssize_t)r->active, (Py_ssize_t)r->reserved);
}

/* _cuda_trace_end() -> (kind, name, device, stream, correlation, thread, start, end, bytes, grid, block, shared, registers, active, reserved) of each */
static PyObject *trace_end(PyObject *module, PyObject *unused)
{
    rush_device d;
    rush_cuda_record *records = NULL;
    size_t n = 0;
    const rush_cuda_interface *cuda = need(-1, &d);
    if (!cuda) return NULL;
    const int failed = cuda->trace_end(&records, &n);
    PyObject *list = failed ? py_raise() : PyList_New((Py_ssize_t)n);
    for (size_t i = 0; i < n; i++) {
        PyObject *one = list ? of_record(&records[i]) : NULL;
        if (one) PyList_SET_ITEM(list, (Py_ssize_t)i, one);
        else Py_CLEAR(list);
        free(records[i].name);
    }
    free(records);
    return list;
}

/* ---- what other processes are given ---- */

/* _cuda_share(storage) -> device, handle, bytes, offset, counter, its place, event, whether that has to be waited for */
static PyObject *share(PyObject *module, PyObject *x)
{
    rush_cuda_shared to;
    rush_storage *s = py_any_storage_of(x);
    if (!s || s->device.type != RUSH_CUDA) return PyErr_Format(PyExc_TypeError, "_share_cuda_(): only available on CUDA");
    const rush_cuda_sharing *sharing = rush_cuda(NULL)->sharing;
    if (sharing->is_taken(s))
        return PyErr_Format(PyExc_RuntimeError, "Attempted to send CUDA tensor received from another process; this is not currently supported. Consider cloning before sending.");
    if (!s->nbytes) return Py_BuildValue("iOniOiOO", s->device.index, Py_None, (Py_ssize_t)0, 0, Py_None, 0, Py_None, Py_False);
    if (!rush_storage_show(s) || sharing->give(s->device, s->data, &to)) return py_raise();
    PyObject *all = Py_BuildValue("iy#nnyiy#O", s->device.index, to.handle, (Py_ssize_t)to.handle_bytes, (Py_ssize_t)s->nbytes, (Py_ssize_t)to.offset, to.counter, to.slot,
                                  to.event, (Py_ssize_t)sizeof to.event, Py_True);
    rush_free(to.handle);
    return all;
}

/* _cuda_open_shared(what _cuda_share() gave) -> a storage */
static PyObject *open_shared(PyObject *module, PyObject *args)
{
    rush_device d;
    rush_cuda_shared from = {0};
    long index;
    const char *counter, *event;
    Py_ssize_t handle_bytes, bytes, offset, event_bytes;
    int waits;
    if (!PyArg_ParseTuple(args, "ly#nnyiz#p", &index, &from.handle, &handle_bytes, &bytes, &offset, &counter, &from.slot, &event, &event_bytes, &waits)) return NULL;
    const rush_cuda_interface *cuda = need(index, &d);
    if (!cuda) return NULL;
    if (strlen(counter) >= sizeof from.counter || (waits && event_bytes != sizeof from.event) || handle_bytes < 1 || bytes < 0 || offset < 0)
        return PyErr_Format(PyExc_ValueError, "not what _share_cuda_() gave");
    strcpy(from.counter, counter);
    if (waits) memcpy(from.event, event, sizeof from.event);
    from.handle_bytes = (size_t)handle_bytes, from.offset = (size_t)offset, from.waits = waits;
    rush_storage *s = cuda->sharing->take(d, &from, (size_t)bytes);
    PyObject *made = s ? py_storage(s) : py_raise();
    rush_storage_drop(s);
    return made;
}

static PyObject *release_shared(PyObject *module, PyObject *args)
{
    rush_device d;
    const char *counter;
    int slot;
    if (!PyArg_ParseTuple(args, "yi", &counter, &slot)) return NULL;
    const rush_cuda_interface *cuda = need(-1, &d);
    return cuda ? done(cuda->sharing->back(counter, slot)) : NULL;
}

static PyObject *collect_shared(PyObject *module, PyObject *unused)
{
    rush_device d;
    const rush_cuda_interface *cuda = need(-1, &d);
    if (!cuda) return NULL;
    cuda->sharing->collect();
    Py_RETURN_NONE;
}

/* ---- graphs ---- */

typedef struct graph_object {
    PyObject_HEAD
    rush_cuda_graph *graph;
} graph_object;
#define GRAPH(x) (((graph_object *)(x))->graph)
#define GRAPHS (rush_cuda(NULL)->graphs)

static PyObject *graph_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"keep_graph", NULL};
    int keep = 0;
    rush_device d;
    const rush_cuda_interface *cuda = need(-1, &d);
    if (!cuda || !PyArg_ParseTupleAndKeywords(args, kwargs, "|p:CUDAGraph", names, &keep)) return NULL;
    graph_object *self = (graph_object *)type->tp_alloc(type, 0);
    if (self && !(self->graph = cuda->graphs->make(keep))) {
        Py_DECREF(self);
        return py_raise();
    }
    return (PyObject *)self;
}

static void graph_dealloc(PyObject *self)
{
    if (GRAPH(self)) GRAPHS->drop(GRAPH(self));
    rush_error_clear(); /* nobody can be told */
    Py_TYPE(self)->tp_free(self);
}

static PyObject *capture_begin(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"pool", "capture_error_mode", NULL};
    static const char *const modes[] = {[RUSH_CAPTURE_GLOBAL] = "global", [RUSH_CAPTURE_THREAD_LOCAL] = "thread_local", [RUSH_CAPTURE_RELAXED] = "relaxed"};
    PyObject *pool = Py_None;
    const char *mode = "global";
    unsigned long long a = 0, b = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|Os:capture_begin", names, &pool, &mode) || (pool != Py_None && !PyArg_ParseTuple(pool, "KK", &a, &b))) return NULL;
    for (int k = 0; k < (int)RUSH_COUNT(modes); k++)
        if (!strcmp(mode, modes[k])) return done(GRAPHS->begin(GRAPH(self), (rush_pool_id){a, b}, k));
    return PyErr_Format(PyExc_RuntimeError, "Unknown capture error mode. Expected `global`, `thread_local`, or `relaxed`, got %s", mode);
}

static PyObject *capture_end(PyObject *self, PyObject *unused)
{
    const int empty = GRAPHS->end(GRAPH(self));
    if (empty > 0 && PyErr_WarnEx(PyExc_UserWarning, "The CUDA Graph is empty. This usually means that the graph was attempted to be captured on wrong device or stream.", 1)) return NULL;
    return done(empty < 0);
}

static PyObject *graph_pool(PyObject *self, PyObject *unused)
{
    rush_pool_id id;
    return GRAPHS->pool(GRAPH(self), &id) ? py_raise() : pool_pair(id);
}

static PyObject *debug_dump(PyObject *self, PyObject *args)
{
    const char *path;
    if (!PyArg_ParseTuple(args, "s:debug_dump", &path)) return NULL;
    const int off = GRAPHS->dump(GRAPH(self), path);
    if (off > 0 && PyErr_WarnEx(PyExc_UserWarning, "CUDA Graphs debug not enabled, set with [graph].enable_debug_mode()", 1)) return NULL;
    return done(off < 0);
}

static PyObject *enable_debug(PyObject *self, PyObject *unused)
{
    GRAPHS->debug();
    Py_RETURN_NONE;
}

static PyObject *register_state(PyObject *self, PyObject *x)
{
    if (!py_is_generator(x)) return PyErr_Format(PyExc_TypeError, "a Generator was expected, not %s", py_type_name(x));
    return done(GRAPHS->draws(GRAPH(self), py_generator_of(x)));
}

static PyObject *raw(PyObject *self, bool exec)
{
    void *p;
    return GRAPHS->raw(GRAPH(self), exec, &p) ? py_raise() : PyLong_FromVoidPtr(p);
}
static PyObject *raw_graph(PyObject *self, PyObject *unused) { return raw(self, false); }
static PyObject *raw_exec(PyObject *self, PyObject *unused) { return raw(self, true); }
static PyObject *instantiate(PyObject *self, PyObject *unused) { return done(GRAPHS->instantiate(GRAPH(self))); }
static PyObject *replay(PyObject *self, PyObject *unused) { return done(GRAPHS->replay(GRAPH(self))); }
static PyObject *reset(PyObject *self, PyObject *unused) { return done(GRAPHS->reset(GRAPH(self))); }

static PyMethodDef graph_methods[] = {
    {"capture_begin", (PyCFunction)(void (*)(void))capture_begin, METH_VARARGS | METH_KEYWORDS, "What the current stream is given from now on is kept, not run."},
    {"capture_end", capture_end, METH_NOARGS, "The end of it."},
    {"instantiate", instantiate, METH_NOARGS, "Makes it ready to run, again if it was changed."},
    {"replay", replay, METH_NOARGS, "Gives all that was kept to the current stream."},
    {"reset", reset, METH_NOARGS, "Forgets what was kept, and gives its memory up."},
    {"pool", graph_pool, METH_NOARGS, "The number of its pool of memory, for graphs that may share it."},
    {"register_generator_state", register_state, METH_O, "The graph may draw from that generator, too."},
    {"enable_debug_mode", enable_debug, METH_NOARGS, "Graphs can be dumped from now on."},
    {"debug_dump", debug_dump, METH_VARARGS, "Writes the graph as text for Graphviz."},
    {"raw_cuda_graph", raw_graph, METH_NOARGS, "The driver's graph, as a number."},
    {"raw_cuda_graph_exec", raw_exec, METH_NOARGS, "The driver's graph as it is launched, as a number."},
    {NULL}};

static PyTypeObject graph_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "torch._C._CUDAGraph",
    .tp_basicsize = sizeof(graph_object),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_doc = "What a stream was given, kept to be launched again.",
    .tp_new = graph_new,
    .tp_dealloc = graph_dealloc,
    .tp_methods = graph_methods,
};

/* _cuda_isCurrentStreamCapturing() of the current stream; with (index, stream) of that one. */
static PyObject *is_capturing(PyObject *module, PyObject *args)
{
    rush_device d = {RUSH_CUDA, (int8_t)rush_device_current(RUSH_CUDA)};
    int index = d.index, stream = -1;
    if (!PyArg_ParseTuple(args, "|ii", &index, &stream)) return NULL;
    if (!rush_backend_of(d)) Py_RETURN_FALSE;
    d.index = (int8_t)index;
    const int answer = GRAPHS->is_capturing(d, stream < 0 ? rush_device_stream(d) : stream);
    return answer < 0 ? py_raise() : PyBool_FromLong(answer);
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

static PyObject *has_libraries(PyObject *module, PyObject *unused)
{
    rush_device d;
    const rush_cuda_interface *cuda = need(-1, &d);
    return cuda ? PyBool_FromLong(cuda->libraries()) : NULL;
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
    {"_cuda_used", used, METH_NOARGS, "Does the process use a device? It does not by asking how many there are."},
    {"_cuda_why", why, METH_NOARGS, "Why there is no CUDA device; None when there is one."},
    {"_cuda_properties", properties, METH_O, "A dict of what the device of that index is."},
    {"_cuda_memory", memory, METH_O, "A dict of what the caching allocator has taken."},
    {"_cuda_memory_info", memory_info, METH_O, "(free, total) bytes of the device."},
    {"_cuda_memory_empty", memory_empty, METH_O, "Gives what is cached back to the device."},
    {"_cuda_memory_reset_peak", memory_reset_peak, METH_O, "Peaks begin anew from what is taken."},
    {"_cuda_memory_fraction", memory_fraction, METH_VARARGS, "_cuda_memory_fraction(index, part): no more than that part of the device is taken."},
    {"_accelerator_setAllocatorSettings", settings, METH_O, "What PYTORCH_ALLOC_CONF would say, from now on."},
    {"_graph_pool_handle", pool_handle, METH_NOARGS, "The number of a new pool of memory."},
    {"_cuda_pool_new", pool_new, METH_VARARGS, "_cuda_pool_new(last_resort, whole): a pool; its number."},
    {"_cuda_pool_free", pool_free, METH_VARARGS, "_cuda_pool_free(number): one user less."},
    {"_cuda_pool_users", pool_users, METH_VARARGS, "_cuda_pool_users(number): how many there are."},
    {"_cuda_pool_route", pool_route, METH_VARARGS, "_cuda_pool_route(index, number, on): this thread's allocations come from the pool, or no more."},
    {"_cuda_memory_blocks", memory_blocks, METH_O, "(address, bytes, busy, first of its segment, stream, pool, operation, small, expandable) of all pieces of memory."},
    {"_cuda_trace_begin", trace_begin, METH_O, "_cuda_trace_begin(with memory): what devices do is recorded from now on; the number of this thread in records."},
    {"_cuda_trace_end", trace_end, METH_NOARGS, "Waits for all devices; what they did."},
    {"_cuda_share", share, METH_O, "_cuda_share(storage): what another process opens it by."},
    {"_cuda_open_shared", open_shared, METH_VARARGS, "_cuda_open_shared(...): a storage of another process, by what _cuda_share() gave there."},
    {"_cuda_release_shared", release_shared, METH_VARARGS, "_cuda_release_shared(counter, place): it was not needed."},
    {"_cuda_ipc_collect", collect_shared, METH_NOARGS, "Frees what other processes are done with."},
    {"_cuda_isCurrentStreamCapturing", is_capturing, METH_VARARGS, "Is a graph being captured from the current stream, or from (index, stream)?"},
    {"_cuda_peer", peer, METH_VARARGS, "Can one device reach the memory of the other?"},
    {"_cuda_library", library, METH_NOARGS, "The operations that NVIDIA's libraries do, where they are there, separated by blanks."},
    {"_cuda_has_libraries", has_libraries, METH_NOARGS, "Are NVIDIA's libraries asked? Not on emulated devices, but for stand-ins."},
    {"_cuda_host", host, METH_NOARGS, "The operations that the host computes, between copies, separated by blanks."},
    {"_cuda_need", needed, METH_NOARGS, "_cuda_need(): an error that says why, where there is no CUDA device."},
    {"_cuda_switch", switched, METH_VARARGS, "_cuda_switch(name[, value]): what a switch of the CUDA part was before, a number; with a value it is turned."},
    {"_cuda_cudnn_version", cudnn_version, METH_NOARGS, "cuDNN's version as one number; 0 where it is not used: no device, an emulated one, or no such library."},
    {NULL}};

int py_cuda_init(PyObject *module)
{
    if (PyType_Ready(&graph_type) || PyModule_AddFunctions(module, functions)) return -1;
    return py_add(module, "_CUDAGraph", py_ref((PyObject *)&graph_type));
}
