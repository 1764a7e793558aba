/* modes.c - per-thread switches: recording of gradients, inference, autocast, threads; as functions and contexts. */
#include "ext.h"
#include "op/later.h"

/* ---- no_grad and its like: one type of object each, cheap to enter ---- */

typedef struct mode_context {
    PyObject_HEAD
    bool on;                     /* what it sets */
    int depth;
    uint32_t before[16];         /* the modes that were, per nested entry */
} mode_context;

enum { GRAD_BITS = RUSH_MODE_NO_GRAD | RUSH_MODE_INFERENCE };

static PyObject *context_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    mode_context *x = (mode_context *)type->tp_alloc(type, 0);
    if (x) x->on = true;
    return (PyObject *)x;
}

static PyObject *enter(PyObject *self, uint32_t clear, uint32_t set)
{
    mode_context *x = (mode_context *)self;
    if (x->depth == (int)RUSH_COUNT(x->before)) return PyErr_Format(PyExc_RuntimeError, "%s was entered too often", Py_TYPE(self)->tp_name);
    x->before[x->depth++] = rush_now.mode & GRAD_BITS;
    rush_now.mode = (rush_now.mode & ~clear) | set;
    Py_RETURN_NONE;
}

static PyObject *context_exit(PyObject *self, PyObject *args)
{
    mode_context *x = (mode_context *)self;
    if (x->depth) rush_now.mode = (rush_now.mode & ~GRAD_BITS) | x->before[--x->depth];
    Py_RETURN_NONE;
}

/* In a function that is only differentiated forwards no_grad has no effect: tangents go through it. The graph is their vehicle. */
static _Thread_local bool always;

static PyObject *record_always(PyObject *module, PyObject *on)
{
    bool was = always;
    int is = PyObject_IsTrue(on);
    if (is < 0) return NULL;
    always = is;
    return PyBool_FromLong(was);
}

static PyObject *no_grad_enter(PyObject *self, PyObject *unused) { return enter(self, 0, always ? 0 : RUSH_MODE_NO_GRAD); }
static PyObject *enable_grad_enter(PyObject *self, PyObject *unused) { return enter(self, RUSH_MODE_NO_GRAD, 0); }
static PyObject *inference_enter(PyObject *self, PyObject *unused)
{
    return ((mode_context *)self)->on ? enter(self, 0, GRAD_BITS) : enter(self, GRAD_BITS, 0);
}
static PyObject *set_grad_enter(PyObject *self, PyObject *unused) { Py_RETURN_NONE; }

static PyObject *clone_context(PyObject *self, PyObject *unused)
{
    PyObject *x = Py_TYPE(self)->tp_alloc(Py_TYPE(self), 0);
    if (x) ((mode_context *)x)->on = ((mode_context *)self)->on;
    return x;
}
static PyObject *set_grad_clone(PyObject *self, PyObject *unused)
{
    return PyObject_CallFunction((PyObject *)Py_TYPE(self), "O", ((mode_context *)self)->on ? Py_True : Py_False);
}

/* As decorators: with a fresh context at each call, generators and classes included. */
static PyObject *decorate(PyObject *self, PyObject *args, PyObject *kwargs)
{
    PyObject *f, *module = PyImport_ImportModule("rushlight.utils._contextlib");
    if (!module || !PyArg_ParseTuple(args, "O", &f)) return Py_XDECREF(module), NULL;
    PyObject *make = PyObject_GetAttrString(self, "clone"), *r = make ? PyObject_CallMethod(module, "decorated", "OO", make, f) : NULL;
    Py_XDECREF(make);
    Py_DECREF(module);
    return r;
}

/* no_grad(f) decorates without parentheses: then the result of the type is the decorated function. */
static PyObject *new_or_decorate(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *x = context_new(type, NULL, NULL);
    if (!x || PyTuple_GET_SIZE(args) == 0) return x;
    PyObject *r = decorate(x, args, NULL);
    Py_DECREF(x);
    return r;
}

static PyObject *inference_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"mode", NULL};
    PyObject *mode = Py_True;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:inference_mode", names, &mode)) return NULL;
    if (PyBool_Check(mode) || !PyCallable_Check(mode)) return context_new(type, NULL, NULL);
    PyObject *given = PyTuple_Pack(1, mode), *r = given ? new_or_decorate(type, given, NULL) : NULL; /* mode=f, too */
    Py_XDECREF(given);
    return r;
}

static int inference_init(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"mode", NULL};
    PyObject *mode = Py_True;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:inference_mode", names, &mode)) return -1;
    int on = PyObject_IsTrue(mode);
    ((mode_context *)self)->on = on;
    return on < 0 ? -1 : 0;
}

/* 0, 1, or -1 and TypeError: "no" and None are mistakes, as PyTorch says. */
static int is_on(PyObject *x)
{
    if (PyBool_Check(x)) return x == Py_True;
    return PyErr_Format(PyExc_TypeError, "set_grad_enabled(): argument 'enabled' (position 1) must be bool, not %s", py_type_name(x)), -1;
}

/* set_grad_enabled(mode) has its effect at once, and undoes it when it is left as a context. */
static int set_grad_init(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"mode", NULL};
    PyObject *mode, *none;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:set_grad_enabled", names, &mode)) return -1;
    int on = is_on(mode);
    if (on < 0) return -1;
    ((mode_context *)self)->on = on;
    none = on ? enter(self, RUSH_MODE_NO_GRAD, 0) : enter(self, 0, always ? 0 : RUSH_MODE_NO_GRAD);
    Py_XDECREF(none);
    return none ? 0 : -1;
}

/* Decorating: the immediate effect is taken back. */
static PyObject *set_grad_decorate(PyObject *self, PyObject *args, PyObject *kwargs)
{
    PyObject *none = context_exit(self, NULL);
    Py_XDECREF(none);
    return decorate(self, args, kwargs);
}

static PyObject *set_grad_repr(PyObject *self)
{
    return PyUnicode_FromFormat("%s(mode=%s)", Py_TYPE(self)->tp_name, ((mode_context *)self)->on ? "True" : "False");
}

static PyObject *get_mode(PyObject *self, void *unused) { return PyBool_FromLong(((mode_context *)self)->on); }
static PyObject *get_prev(PyObject *self, void *unused)
{
    mode_context *x = (mode_context *)self;
    return PyBool_FromLong(x->depth && !(x->before[x->depth - 1] & RUSH_MODE_NO_GRAD));
}

/* Copies and pickles of contexts, which modules hold: what PyTorch's classes have in their dictionaries. */
static PyObject *get_state(PyObject *self, PyObject *unused)
{
    PyObject *own = PyObject_GetAttrString(self, "__dict__"), *mode = get_mode(self, NULL), *prev = get_prev(self, NULL), *state = own ? PyDict_Copy(own) : NULL;
    if (!own && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyErr_Clear();
        state = PyDict_New();
    }
    if (state && (PyDict_SetItemString(state, "mode", mode) || PyDict_SetItemString(state, "prev", prev))) Py_CLEAR(state);
    Py_XDECREF(own);
    Py_DECREF(mode);
    Py_DECREF(prev);
    return state;
}

static PyObject *set_state(PyObject *self, PyObject *state)
{
    mode_context *x = (mode_context *)self;
    if (!PyDict_Check(state)) return PyErr_Format(PyExc_TypeError, "the state of a context is a dict");
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(state, &at, &key, &value);) {
        bool mode = PyUnicode_Check(key) && !PyUnicode_CompareWithASCIIString(key, "mode");
        bool prev = PyUnicode_Check(key) && !PyUnicode_CompareWithASCIIString(key, "prev");
        if (mode) x->on = value == Py_True;
        else if (prev) x->before[0] = value == Py_True ? 0 : RUSH_MODE_NO_GRAD, x->depth = 1;
        else if (PyObject_SetAttr(self, key, value)) return NULL;
    }
    Py_RETURN_NONE;
}
static PyGetSetDef context_getset[] = {{"mode", get_mode, NULL, NULL}, {"prev", get_prev, NULL, NULL}, {NULL}};

#define CONTEXT(c_name, py_name, text, make, init, enter_with, clone_with, call_with)                        \
    static PyMethodDef c_name##_methods[] = {{"__enter__", enter_with, METH_NOARGS, NULL}, {"__exit__", context_exit, METH_VARARGS, NULL}, \
                                             {"clone", clone_with, METH_NOARGS, "Another context like it."}, \
                                             {"__getstate__", get_state, METH_NOARGS, NULL}, {"__setstate__", set_state, METH_O, NULL}, {NULL}}; \
    static PyTypeObject type_##c_name = {                                                                    \
        PyVarObject_HEAD_INIT(NULL, 0).tp_name = "torch.autograd.grad_mode." py_name, .tp_basicsize = sizeof(mode_context), \
        .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, .tp_doc = text, .tp_new = make, .tp_init = init, .tp_call = call_with, \
        .tp_methods = c_name##_methods, .tp_getset = context_getset,                                         \
    };
CONTEXT(no_grad, "no_grad", "Context and decorator: operations are not recorded.", new_or_decorate, NULL, no_grad_enter, clone_context, decorate)
CONTEXT(enable_grad, "enable_grad", "Context and decorator: operations are recorded again.", new_or_decorate, NULL, enable_grad_enter, clone_context, decorate)
CONTEXT(inference_mode, "inference_mode", "Context and decorator: like no_grad, and results can take no part in graphs later.", inference_new, inference_init, inference_enter, clone_context, decorate)
CONTEXT(set_grad_enabled, "set_grad_enabled", "set_grad_enabled(mode): as a call, a context or a decorator.", context_new, set_grad_init, set_grad_enter, set_grad_clone, set_grad_decorate)

/* ---- functions ---- */

static PyObject *grad_enabled(PyObject *module, PyObject *unused) { return PyBool_FromLong(!(rush_now.mode & RUSH_MODE_NO_GRAD)); }
static PyObject *inference_enabled(PyObject *module, PyObject *unused) { return PyBool_FromLong(rush_now.mode & RUSH_MODE_INFERENCE); }

static PyObject *set_grad(PyObject *module, PyObject *x)
{
    int on = is_on(x);
    if (on < 0) return NULL;
    rush_grad_enabled_set(on);
    Py_RETURN_NONE;
}

/* The arguments of a function by position or name: borrowed, NULL where there is none. */
static int taken(const char *who, PyObject *const *args, Py_ssize_t n, PyObject *names, Py_ssize_t most, const char *const *word, PyObject **out)
{
    if (n > most) return PyErr_Format(PyExc_TypeError, "%s() takes %zd positional argument%s but %zd were given", who, most, most == 1 ? "" : "s", n), -1;
    for (Py_ssize_t i = 0; i < most; ++i) out[i] = i < n ? args[i] : NULL;
    for (Py_ssize_t k = 0; names && k < PyTuple_GET_SIZE(names); ++k) {
        PyObject *name = PyTuple_GET_ITEM(names, k);
        Py_ssize_t i = 0;
        while (i < most && PyUnicode_CompareWithASCIIString(name, word[i])) ++i;
        if (i == most) return PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'", who, name), -1;
        if (out[i]) return PyErr_Format(PyExc_TypeError, "%s() got multiple values for argument '%U'", who, name), -1;
        out[i] = args[n + k];
    }
    return 0;
}

/* The type of a device that a string names. */
static int named_type(const char *who, PyObject *x)
{
    rush_device d;
    if (!x || !PyUnicode_Check(x)) return PyErr_Format(PyExc_TypeError, "%s(): argument 'device_type' (position 1) must be str, not %s", who, x ? py_type_name(x) : "absent"), -1;
    return py_to_device(x, &d) < 0 ? -1 : d.type;
}

static bool has_autocast(int type)
{
    static const char *const known[] = {"cpu", "cuda", "xpu", "mps", "hpu", "ipu", "xla", "mtia", "maia"};
    for (size_t i = 0; i < RUSH_COUNT(known); ++i)
        if (!strcmp(rush_device_name(type), known[i])) return true;
    return type == RUSH_PRIVATEUSEONE;
}

static PyObject *autocast_available(PyObject *module, PyObject *x)
{
    int d = named_type("_is_autocast_available", x);
    return d < 0 ? NULL : PyBool_FromLong(has_autocast(d));
}

static int autocast_key(const char *who, PyObject *x)
{
    int d = named_type(who, x);
    if (d >= 0 && !has_autocast(d)) return PyErr_SetString(PyExc_RuntimeError, "unknown device type for autocast in get_autocast_dispatch_key_from_device_type"), -1;
    return d;
}

static PyObject *autocast_enabled(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    PyObject *type;
    if (taken("is_autocast_enabled", args, n, names, 1, (const char *const[]){"device_type"}, &type)) return NULL;
    int d = type ? autocast_key("is_autocast_enabled", type) : RUSH_CUDA; /* as calls of old, without a type, mean it */
    return d < 0 ? NULL : PyBool_FromLong(rush_autocast_on(d));
}

static PyObject *set_autocast(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    PyObject *given[2];
    if (taken("set_autocast_enabled", args, n, names, 2, (const char *const[]){"device_type", "enabled"}, given)) return NULL;
    const bool old = given[0] && !given[1]; /* set_autocast_enabled(enabled): CUDA's */
    PyObject *on = given[!old];
    if (!on || !PyBool_Check(on)) {
        return PyErr_Format(PyExc_TypeError, "set_autocast_enabled(): argument 'enabled' (position %d) must be bool, not %s", 2 - old, on ? py_type_name(on) : "absent");
    }
    int d = old ? RUSH_CUDA : autocast_key("set_autocast_enabled", given[0]);
    if (d < 0) return NULL;
    rush_autocast_set(d, on == Py_True);
    Py_RETURN_NONE;
}

static PyObject *autocast_dtype(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    PyObject *type;
    if (taken("get_autocast_dtype", args, n, names, 1, (const char *const[]){"device_type"}, &type)) return NULL;
    int d = named_type("get_autocast_dtype", type);
    if (d >= 0 && !has_autocast(d)) return PyErr_Format(PyExc_RuntimeError, "unsupported scalarType");
    return d < 0 ? NULL : py_dtype(rush_autocast_dtype(d));
}

static PyObject *set_autocast_dtype(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    PyObject *given[2];
    if (taken("set_autocast_dtype", args, n, names, 2, (const char *const[]){"device_type", "dtype"}, given)) return NULL;
    int dtype, d = named_type("set_autocast_dtype", given[0]);
    if (d < 0) return NULL;
    if (!given[1] || !py_to_dtype(given[1], &dtype)) {
        return PyErr_Format(PyExc_TypeError, "set_autocast_dtype(): argument 'dtype' (position 2) must be torch.dtype, not %s", given[1] ? py_type_name(given[1]) : "absent");
    }
    rush_autocast_dtype_set(d, dtype);
    if (rush_failed()) return py_raise();
    Py_RETURN_NONE;
}

static PyObject *autocast_cache(PyObject *module, PyObject *unused) { return PyBool_FromLong(rush_autocast_cache(false, false)); }
static PyObject *set_autocast_cache(PyObject *module, PyObject *x)
{
    int on = PyObject_IsTrue(x);
    if (on < 0) return NULL;
    rush_autocast_cache(true, on);
    Py_RETURN_NONE;
}
static PyObject *nothing(PyObject *module, PyObject *unused) { Py_RETURN_NONE; }

static _Thread_local long nesting;
static PyObject *nest_more(PyObject *module, PyObject *unused) { return PyLong_FromLong(++nesting); }
static PyObject *nest_less(PyObject *module, PyObject *unused) { return PyLong_FromLong(--nesting); }

/* A loader's worker is told 1, though a program that reads in its place uses all it has. */
static PyObject *num_threads(PyObject *module, PyObject *unused) { return PyLong_FromLong(rush_now.generator ? 1 : rush_num_threads()); }

/* A count of threads for the setting of this name; -1 with an error. */
static long thread_count(PyObject *x, const char *name)
{
    int over = 0;
    long n = PyLong_Check(x) ? PyLong_AsLongAndOverflow(x, &over) : 0;
    if (!PyLong_Check(x)) return PyErr_Format(PyExc_RuntimeError, "%s expects an int, but got %s", name, py_type_name(x)), -1;
    if (over || n != (int)n) return PyErr_Format(PyExc_ValueError, "%s: Overflow when unpacking long", name), -1;
    return n > 0 ? n : (PyErr_Format(PyExc_RuntimeError, "%s expects a positive integer", name), -1);
}

static PyObject *set_num_threads(PyObject *module, PyObject *x)
{
    long n = thread_count(x, "set_num_threads");
    if (n < 0) return NULL;
    rush_num_threads_set((int)n);
    Py_RETURN_NONE;
}

static PyObject *set_flush_denormal(PyObject *module, PyObject *x)
{
    if (!PyBool_Check(x)) return PyErr_Format(PyExc_RuntimeError, "flush_denormal expects a bool, but got %s", py_type_name(x));
    return PyBool_FromLong(rush_flush_denormals(x == Py_True));
}

static long interop = 0;
static PyObject *num_interop(PyObject *module, PyObject *unused) { return PyLong_FromLong(interop ? interop : rush_thread_limit()); }
static PyObject *set_num_interop(PyObject *module, PyObject *x)
{
    long n = thread_count(x, "set_num_interop_threads");
    if (n < 0) return NULL;
    interop = n;
    Py_RETURN_NONE;
}

static PyObject *memory_stats(PyObject *module, PyObject *unused)
{
    rush_memory_stats s;
    rush_memory_stats_read(&s);
    return Py_BuildValue("{snsnsnsnsn}", "live_bytes", (Py_ssize_t)s.live_bytes, "live_blocks", (Py_ssize_t)s.live_blocks, "peak_bytes",
                         (Py_ssize_t)s.peak_bytes, "cached_bytes", (Py_ssize_t)s.cached_bytes, "small_live", (Py_ssize_t)s.small_live);
}

static PyObject *memory_trim(PyObject *module, PyObject *unused)
{
    rush_memory_trim();
    Py_RETURN_NONE;
}

static PyObject *cpu_isa(PyObject *module, PyObject *unused) { return PyUnicode_FromString(rush_cpu_isa()); }
static PyObject *version(PyObject *module, PyObject *unused) { return PyUnicode_FromString(rush_version()); }

static PyObject *later_waiting(PyObject *module, PyObject *unused) { return PyLong_FromUnsignedLong(rush_later_waiting()); }

static PyObject *later_compile(PyObject *module, PyObject *how)
{
    const long now = PyLong_AsLong(how);
    if (now == -1 && PyErr_Occurred()) return NULL;
    if (now < RUSH_LATER_BEHIND || now > RUSH_LATER_NEVER) return PyErr_Format(PyExc_ValueError, "1 (behind), 2 (at once) or 3 (never) is expected, not %ld", now);
    return PyLong_FromLong(rush_later_compile((rush_later_how)now));
}

/* A context around eager code within: what waits goes on waiting. */
static PyObject *later_set(PyObject *module, PyObject *on)
{
    bool was = rush_now.mode & RUSH_MODE_LATER;
    int now = PyObject_IsTrue(on);
    if (now < 0) return NULL;
    rush_now.mode = now ? rush_now.mode | RUSH_MODE_LATER : rush_now.mode & ~(uint32_t)RUSH_MODE_LATER;
    return PyBool_FromLong(was);
}

/* ---- what torch.compile does with each call: python/rushlight/_dynamo/eval_frame.py ---- */

static __thread long compiling; /* in how many compiled functions the thread is */

static PyObject *call_compiled(PyObject *const *x, Py_ssize_t n)
{
    if (n != 3 || !PyTuple_Check(x[1]) || !PyDict_Check(x[2])) {
        PyErr_SetString(PyExc_TypeError, "a function, a tuple of arguments and a dict of keywords are expected");
        return NULL;
    }
    ++compiling;
    PyObject *r = PyObject_Call(x[0], x[1], x[2]);
    --compiling;
    return r;
}

static PyObject *run_plainly(PyObject *module, PyObject *const *x, Py_ssize_t n) { return call_compiled(x, n); }

static PyObject *run_lazily(PyObject *module, PyObject *const *x, Py_ssize_t n)
{
    rush_later_compile(RUSH_LATER_BEHIND);
    if (rush_later_begin()) return py_raise();
    PyObject *r = call_compiled(x, n);
    rush_later_end();
    return r;
}

static PyObject *compiling_depth(PyObject *module, PyObject *unused) { return PyLong_FromLong(compiling); }

static PyObject *set_compiling_depth(PyObject *module, PyObject *x)
{
    const long was = compiling, depth = PyLong_AsLong(x);
    if (depth == -1 && PyErr_Occurred()) return NULL;
    compiling = depth;
    return PyLong_FromLong(was);
}

#define FASTKW(f) (PyCFunction)(void (*)(void))f, METH_FASTCALL | METH_KEYWORDS
#define FAST(f) (PyCFunction)(void (*)(void))f, METH_FASTCALL
static PyMethodDef functions[] = {
    {"_record_always", record_always, METH_O, "Whether no_grad is without effect; the answer is whether it was."},
    {"is_grad_enabled", grad_enabled, METH_NOARGS, "Are operations recorded?"},
    {"_set_grad_enabled", set_grad, METH_O, "Sets whether operations are recorded."},
    {"is_inference_mode_enabled", inference_enabled, METH_NOARGS, "Is inference_mode on?"},
    {"is_autocast_enabled", FASTKW(autocast_enabled), "is_autocast_enabled(device_type): is autocast on for it?"},
    {"_is_autocast_available", autocast_available, METH_O, "Has autocast a meaning for this device type?"},
    {"set_autocast_enabled", FASTKW(set_autocast), "set_autocast_enabled(device_type, enabled)"},
    {"get_autocast_dtype", FASTKW(autocast_dtype), "get_autocast_dtype(device_type): the low precision type."},
    {"set_autocast_dtype", FASTKW(set_autocast_dtype), "set_autocast_dtype(device_type, dtype)"},
    {"is_autocast_cache_enabled", autocast_cache, METH_NOARGS, "Are casts of weights kept until autocast ends?"},
    {"set_autocast_cache_enabled", set_autocast_cache, METH_O, "Sets whether casts of weights are kept."},
    {"clear_autocast_cache", nothing, METH_NOARGS, "Forgets casts that were kept."},
    {"autocast_increment_nesting", nest_more, METH_NOARGS, "One autocast context more."},
    {"autocast_decrement_nesting", nest_less, METH_NOARGS, "One autocast context less."},
    {"get_num_threads", num_threads, METH_NOARGS, "How many threads an operation uses."},
    {"_set_flush_denormal", set_flush_denormal, METH_O, "Shall this thread's denormal results become 0?"},
    {"set_num_threads", set_num_threads, METH_O, "Sets how many threads an operation uses."},
    {"get_num_interop_threads", num_interop, METH_NOARGS, "How many operations PyTorch would run beside each other."},
    {"set_num_interop_threads", set_num_interop, METH_O, "Kept, without effect: operations run one after the other."},
    {"_run_lazily", FAST(run_lazily), "_run_lazily(f, args, kwargs): f(*args, **kwargs), with elementwise work on large tensors put off while it runs."},
    {"_run_plainly", FAST(run_plainly), "_run_plainly(f, args, kwargs): f(*args, **kwargs), counted as a compiled function."},
    {"_compiling_depth", compiling_depth, METH_NOARGS, "In how many compiled functions this thread is; 0 in what is kept from the compiler."},
    {"_set_compiling_depth", set_compiling_depth, METH_O, "Sets that; the answer is what it was."},
    {"_later_set", later_set, METH_O, "Within _run_lazily(), whether work is put off; the answer is whether it was."},
    {"_later_compile", later_compile, METH_O, NULL},
    {"_later_compile", later_compile, METH_O, "May a C compiler make loops of what is put off? 1: behind what runs, 2: while the caller waits, 3: no. How many it has made."},
    {"_later_waiting", later_waiting, METH_NOARGS, "How many steps this thread has put off."},
    {"_memory_stats", memory_stats, METH_NOARGS, "Bytes and blocks in use."},
    {"_memory_trim", memory_trim, METH_NOARGS, "Gives cached memory back to the system."},
    {"_cpu_isa", cpu_isa, METH_NOARGS, "The instruction set of the kernels in use."},
    {"_version", version, METH_NOARGS, "The version of the library."},
    {NULL},
};

int py_modes_init(PyObject *module)
{
    PyTypeObject *types[] = {&type_no_grad, &type_enable_grad, &type_inference_mode, &type_set_grad_enabled};
    const char *names[] = {"no_grad", "enable_grad", "inference_mode", "set_grad_enabled"};
    type_set_grad_enabled.tp_repr = set_grad_repr;
    for (size_t i = 0; i < RUSH_COUNT(types); ++i)
        if (PyType_Ready(types[i]) || py_add(module, names[i], py_ref((PyObject *)types[i]))) return -1;
    return PyModule_AddFunctions(module, functions);
}
