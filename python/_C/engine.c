/* engine.c - backward and gradients from Python, with the interpreter's lock released while the library walks. */
#include "ext.h"
#include "op/watch.h"
#include "op/formula.h"
#include <pthread.h>

typedef struct tensor_list {
    rush_tensor **t;
    int n;
} tensor_list;

/* A tensor, or a sequence of tensors, edges and, if allowed, None. The array is the scope's. */
static int read_list(PyObject *x, tensor_list *list, bool none, const char *what)
{
    if (py_is_tensor(x)) {
        if (!(list->t = rush_scope_alloc(sizeof *list->t))) return py_raise_int();
        list->t[0] = py_tensor_of(x);
        list->n = 1;
        return 0;
    }
    if (!PyTuple_Check(x) && !PyList_Check(x)) return PyErr_Format(PyExc_TypeError, "%s must be a Tensor or a sequence of Tensors, not %s", what, py_type_name(x)), -1;
    list->n = (int)PySequence_Fast_GET_SIZE(x);
    if (!(list->t = rush_scope_alloc(sizeof *list->t * RUSH_MAX(list->n, 1)))) return py_raise_int();
    for (int i = 0; i < list->n; ++i) {
        PyObject *item = PySequence_Fast_GET_ITEM(x, i);
        if (item == Py_None && none) {
            list->t[i] = NULL;
            continue;
        }
        list->t[i] = py_tensor_at_edge(item);
        if (!list->t[i] && (PyErr_Occurred() || !(list->t[i] = py_need_tensor(item, what)))) return -1;
        rush_park(rush_keep(list->t[i]));
    }
    return 0;
}

typedef struct request {
    const tensor_list *roots, *grads, *inputs; /* inputs: NULL for the leaves' .grad */
    bool retain, graph, unused;
    rush_tensor **out; /* of inputs, the scope's; NULL where they come to .grad */
} request;

static int run_here(const request *r)
{
    bool to_inputs = r->inputs != NULL;
    int64_t outer = py_backward_begins(to_inputs);
    PyThreadState *thread = PyEval_SaveThread();
    rush_tensor **g = r->grads->n ? r->grads->t : NULL;
    int n = r->roots->n, failed;
    if (!r->inputs) failed = rush_backward_full(n, r->roots->t, g, r->retain, r->graph);
    else if (!r->out) failed = rush_backward_into(n, r->roots->t, g, r->inputs->n, r->inputs->t, r->retain, r->graph);
    else failed = rush_grad_of(n, r->roots->t, g, r->inputs->n, r->inputs->t, r->out, r->retain, r->graph, r->unused);
    PyEval_RestoreThread(thread);
    int late = py_backward_ends(outer, to_inputs, failed);
    return failed ? py_raise_int() : late;
}

/* Backwards inside of one another use up the stack, and what Python allows of calls: past so many of them the next one goes on
 * in a thread of its own, for which this one waits. */
enum { DEEP = 60 };

typedef struct deeper {
    const request *r;
    const void *walker;
    uint32_t mode;
    bool alone;
    rush_generator *generator;
    int failed;
    PyObject *error[3];
} deeper;

static void *go_deeper(void *arg)
{
    deeper *d = arg;
    rush_now.mode = d->mode & (RUSH_MODE_NO_GRAD | RUSH_MODE_INFERENCE | RUSH_MODE_ANOMALY); /* other modes are of what the first thread has */
    rush_now.alone = d->alone;
    rush_now.generator = d->generator;
    rush_walker_set(d->walker);
    PyGILState_STATE gil = PyGILState_Ensure();
    size_t mark = rush_scope_open();
    d->failed = run_here(d->r);
    if (d->failed) PyErr_Fetch(&d->error[0], &d->error[1], &d->error[2]);
    for (int i = 0; d->r->out && i < d->r->inputs->n && !d->failed; ++i) rush_keep(d->r->out[i]);
    rush_scope_close(mark);
    PyGILState_Release(gil);
    return NULL;
}

static int run(const request *r)
{
    deeper d = {.r = r, .walker = rush_walker(), .mode = rush_now.mode, .alone = rush_now.alone, .generator = rush_now.generator};
    pthread_t thread;
    if (py_backward_depth() < DEEP) return run_here(r);
    PyThreadState *mine = PyEval_SaveThread();
    bool started = !pthread_create(&thread, NULL, go_deeper, &d);
    if (started) pthread_join(thread, NULL);
    PyEval_RestoreThread(mine);
    if (!started) return run_here(r);
    if (d.failed) return PyErr_Restore(d.error[0], d.error[1], d.error[2]), -1;
    for (int i = 0; r->out && i < r->inputs->n; ++i) rush_park(r->out[i]);
    return 0;
}

static int check_lengths(const tensor_list *roots, const tensor_list *grads)
{
    if (!grads->n || grads->n == roots->n) return 0;
    PyErr_Format(PyExc_RuntimeError, "got %d tensors and %d gradients", roots->n, grads->n);
    return -1;
}

static int truths(int n, PyObject *const *x, bool *to)
{
    for (int i = 0; i < n; ++i) {
        int is = PyObject_IsTrue(x[i]);
        if (is < 0) return -1;
        to[i] = is;
    }
    return 0;
}

/* _run_backward(roots, grads, retain_graph, create_graph, inputs, allow_unused, accumulate) */
PyObject *py_run_backward(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    if (n != 7) return PyErr_Format(PyExc_TypeError, "_run_backward() takes 7 arguments (%zd given)", n);
    size_t mark = rush_scope_open();
    tensor_list roots, grads = {0}, inputs = {0};
    PyObject *result = NULL;
    bool is[4];
    if (truths(4, (PyObject *[]){args[2], args[3], args[5], args[6]}, is)) goto end;
    bool graph = is[1], retain = args[2] == Py_None ? graph : is[0], into = is[3];
    if (into && py_transforms()) {
        PyErr_SetString(PyExc_RuntimeError, "backward() called inside a functorch transform. This is not supported, please use functorch.grad or functorch.vjp "
                                            "instead or call backward() outside of functorch transforms.");
        goto end;
    }
    bool has_inputs = args[4] != Py_None && PySequence_Size(args[4]) > 0;
    if (PyErr_Occurred() || read_list(args[0], &roots, false, "tensors") || (args[1] != Py_None && read_list(args[1], &grads, true, "grad_tensors")) ||
        (has_inputs && read_list(args[4], &inputs, false, "inputs")) || check_lengths(&roots, &grads))
        goto end;
    bool returns = has_inputs && !into;
    rush_tensor **out = returns ? rush_scope_alloc(sizeof *out * inputs.n) : NULL;
    if (returns && !out) {
        py_raise();
        goto end;
    }
    if (graph && into)
        RUSH_WARN_ONCE("Using backward() with create_graph=True will create a reference cycle between the parameter and its gradient which can cause a memory "
                       "leak. We recommend using autograd.grad when creating the graph to avoid this. If you have to use this function, make sure to reset "
                       "the .grad fields of your parameters to None after use to break the cycle and avoid the leak.");
    request r = {&roots, &grads, has_inputs ? &inputs : NULL, retain, graph, is[2], out};
    if (run(&r)) goto end;
    result = returns ? py_wrap_list(out, (size_t)inputs.n, true) : py_ref(Py_None);
end:
    rush_scope_close(mark);
    return result;
}

/* Tensor.backward(gradient=None, retain_graph=None, create_graph=False, inputs=None) */
static PyObject *backward(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"gradient", "retain_graph", "create_graph", "inputs", NULL};
    PyObject *gradient = Py_None, *retain = Py_None, *inputs = Py_None;
    int graph = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OOpO:backward", names, &gradient, &retain, &graph, &inputs)) return NULL;
    Py_ssize_t given = inputs == Py_None || py_is_tensor(inputs) ? 1 : PySequence_Size(inputs);
    if (given <= 0) return given ? NULL : PyErr_Format(PyExc_RuntimeError, "`inputs` argument to `backward()` cannot be empty.");
    PyObject *one = py_is_tensor(inputs) ? PyTuple_Pack(1, inputs) : py_ref(inputs);
    PyObject *all[] = {self, gradient, retain, graph ? Py_True : Py_False, one, Py_True, Py_True};
    PyObject *r = one ? py_run_backward(NULL, all, 7) : NULL;
    Py_XDECREF(one);
    return r;
}

/* detach(), detach_(): out of the graph */
static PyObject *detach(PyObject *self, PyObject *unused)
{
    if (!rush_is_watched(py_tensor_of(self)) && py_lacks_data(py_tensor_of(self), "detach()")) return NULL;
    size_t mark = rush_scope_open();
    rush_tensor *t = py_tensor_of(self), *r = rush_is_watched(t) || rush_now.mode & RUSH_MODE_PROFILE ? T("detach", V(t)) : rush_tensor_detach(t);
    PyObject *x = r ? py_wrap(r) : py_raise();
    rush_scope_close(mark);
    return x;
}

static PyObject *detach_(PyObject *self, PyObject *unused)
{
    rush_tensor *t = py_tensor_of(self);
    if (t->base) return PyErr_Format(PyExc_RuntimeError, "Can't detach views in-place. Use detach() instead.");
    if (t->ag) {
        rush_node *old = t->ag->fn;
        t->ag->requires_grad = false;
        t->ag->fn = NULL;
        t->ag->slot = 0;
        if (old) rush_node_drop(old);
    }
    return py_ref(self);
}

PyMethodDef py_tensor_graph_methods[] = {
    {"backward", (PyCFunction)(void (*)(void))backward, METH_VARARGS | METH_KEYWORDS,
     "backward(gradient=None, retain_graph=None, create_graph=False, inputs=None): adds the gradients of this tensor by the leaves to their .grad."},
    {"detach", detach, METH_NOARGS, "The same memory, outside of the graph."},
    {"detach_", detach_, METH_NOARGS, "Takes the tensor out of the graph."},
    {NULL},
};

/* ---- saved_tensors_hooks ---- */

typedef struct python_saved_hooks {
    rush_saved_hooks hooks;
    PyObject *pack, *unpack;
} python_saved_hooks;

static void *pack(void *arg, rush_tensor *t)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *x = py_wrap(t), *packed = x ? PyObject_CallFunctionObjArgs(((python_saved_hooks *)arg)->pack, x, NULL) : NULL, *pair = NULL;
    if (packed) pair = PyTuple_Pack(2, ((python_saved_hooks *)arg)->unpack, packed); /* outlives the hooks themselves */
    if (!pair) py_foreign();
    Py_XDECREF(packed);
    Py_XDECREF(x);
    PyGILState_Release(gil);
    return pair;
}

static rush_tensor *unpack(void *arg, void *packed)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *x = PyObject_CallFunctionObjArgs(PyTuple_GET_ITEM((PyObject *)packed, 0), PyTuple_GET_ITEM((PyObject *)packed, 1), NULL);
    rush_tensor *t = NULL;
    if (x && !py_is_tensor(x)) PyErr_Format(PyExc_TypeError, "Output of saved tensor unpack_hook expected to be a Tensor but got result of type %s", py_type_name(x));
    else if (x) t = rush_park(rush_keep(py_tensor_of(x)));
    if (!t) py_foreign();
    Py_XDECREF(x);
    PyGILState_Release(gil);
    return t;
}

static void free_packed(void *packed)
{
    if (!Py_IsInitialized()) return;
    PyGILState_STATE gil = PyGILState_Ensure();
    Py_DECREF((PyObject *)packed);
    PyGILState_Release(gil);
}

static _Thread_local python_saved_hooks *innermost; /* mirrors the library's stack, to free them */

bool py_saved_hooks_pushed(void) { return innermost != NULL; }

static PyObject *push_saved_hooks(PyObject *module, PyObject *args)
{
    PyObject *f, *g;
    if (py_saved_hooks_disabled() || !PyArg_ParseTuple(args, "OO", &f, &g)) return NULL;
    python_saved_hooks *h = rush_calloc(1, sizeof *h);
    if (!h) return py_raise();
    h->pack = py_ref(f);
    h->unpack = py_ref(g);
    h->hooks = (rush_saved_hooks){.pack = pack, .unpack = unpack, .free_packed = free_packed, .arg = h};
    rush_saved_hooks_push(&h->hooks);
    innermost = h;
    Py_RETURN_NONE;
}

static PyObject *pop_saved_hooks(PyObject *module, PyObject *unused)
{
    python_saved_hooks *h = innermost;
    if (!h) return PyErr_Format(PyExc_RuntimeError, "there are no saved tensor hooks to take away");
    rush_saved_hooks_pop();
    innermost = h->hooks.outer ? h->hooks.outer->arg : NULL;
    Py_DECREF(h->pack);
    Py_DECREF(h->unpack);
    rush_free(h);
    Py_RETURN_NONE;
}

/* ---- anomaly mode ---- */

static char *trace(void)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *type, *value, *tb;
    char *copy = NULL;
    PyErr_Fetch(&type, &value, &tb);
    PyObject *traceback = PyImport_ImportModule("traceback"), *lines = traceback ? PyObject_CallMethod(traceback, "format_stack", NULL) : NULL;
    PyObject *empty = PyUnicode_FromString(""), *text = lines && empty ? PyUnicode_Join(empty, lines) : NULL;
    const char *utf8 = text ? PyUnicode_AsUTF8(text) : NULL;
    if (utf8 && (copy = rush_malloc(strlen(utf8) + 1))) strcpy(copy, utf8);
    Py_XDECREF(text);
    Py_XDECREF(empty);
    Py_XDECREF(lines);
    Py_XDECREF(traceback);
    PyErr_Restore(type, value, tb);
    PyGILState_Release(gil);
    return copy;
}

static void report(const char *made_at, const char *name)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *type, *value, *tb;
    PyErr_Fetch(&type, &value, &tb);
    if (PyErr_WarnFormat(PyExc_UserWarning, 1, "Error detected in %s. Traceback of forward call that caused the error:\n%s", name, made_at)) py_foreign();
    PyErr_Restore(type, value, tb);
    PyGILState_Release(gil);
}

static PyObject *set_anomaly(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"enabled", "check_nan", NULL};
    PyObject *on, *nan = Py_True;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|O!:set_anomaly_enabled", names, &PyBool_Type, &on, &PyBool_Type, &nan)) return NULL;
    rush_now.mode = on == Py_True ? rush_now.mode | RUSH_MODE_ANOMALY : rush_now.mode & ~RUSH_MODE_ANOMALY;
    rush_anomaly_check_nan = nan == Py_True;
    Py_RETURN_NONE;
}
static PyObject *anomaly(PyObject *module, PyObject *unused) { return PyBool_FromLong(rush_now.mode & RUSH_MODE_ANOMALY); }
static PyObject *anomaly_nan(PyObject *module, PyObject *unused) { return PyBool_FromLong(rush_anomaly_check_nan); }

static PyObject *bump(PyObject *module, PyObject *x)
{
    PyObject *fast = py_is_tensor(x) ? PyTuple_Pack(1, x) : PySequence_Fast(x, "a tensor or tensors were expected");
    if (!fast) return NULL;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast); ++i) {
        rush_tensor *t = py_need_tensor(PySequence_Fast_GET_ITEM(fast, i), "increment_version(): the argument");
        if (!t) return Py_DECREF(fast), NULL;
        rush_version_bump(t);
    }
    Py_DECREF(fast);
    Py_RETURN_NONE;
}

static PyObject *grad_edge(PyObject *module, PyObject *x)
{
    rush_tensor *t = py_need_tensor(x, "get_gradient_edge(): the argument");
    if (!t) return NULL;
    if (!rush_wants_grad(t)) return PyErr_Format(PyExc_RuntimeError, "It is not possible to get the gradient edge for a Tensor that does not require gradients");
    rush_edge e = rush_grad_edge(t);
    PyObject *node = py_node_of(e.node);
    rush_node_drop(e.node);
    return node ? Py_BuildValue("NI", node, e.slot) : NULL;
}

static PyMethodDef functions[] = {
    {"_run_backward", (PyCFunction)(void (*)(void))py_run_backward, METH_FASTCALL, "The engine: _run_backward(roots, grads, retain, create_graph, inputs, allow_unused, accumulate)."},
    {"_push_saved_tensors_default_hooks", push_saved_hooks, METH_VARARGS, "Tensors saved from now on go through pack and unpack."},
    {"_pop_saved_tensors_default_hooks", pop_saved_hooks, METH_NOARGS, "Takes the innermost hooks away."},
    {"set_anomaly_enabled", (PyCFunction)(void (*)(void))set_anomaly, METH_VARARGS | METH_KEYWORDS, "set_anomaly_enabled(enabled, check_nan=True)"},
    {"is_anomaly_enabled", anomaly, METH_NOARGS, "Is anomaly mode on?"},
    {"is_anomaly_check_nan_enabled", anomaly_nan, METH_NOARGS, "Does anomaly mode look for NaN?"},
    {"_increment_version", bump, METH_O, "Counts a change in place that the library did not see."},
    {"_get_gradient_edge", grad_edge, METH_O, "The node and number of the result that a tensor's gradient goes to."},
    {NULL},
};

int py_engine_init(PyObject *module)
{
    rush_anomaly_trace = trace;
    rush_anomaly_report = report;
    return PyModule_AddFunctions(module, functions);
}
