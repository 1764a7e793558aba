/* compat.c - names of torch._C that packages reach for: the engine object, conj and neg bits, swapping, stacks that are
 * always empty here. What is plain Python of this kind is in rushlight/_C_names.py.
 */
#include "ext.h"

/* ---- the engine as an object ---- */

static _Thread_local int depth;           /* backward calls of this thread that are running */
static _Thread_local int64_t task = -1;   /* the number of the innermost, which no other has */
static _Thread_local int partial;         /* of them those that go to some inputs only */
static _Thread_local PyObject *callbacks; /* to run at the end of the outermost */

/* A callback may add others. */
static int run_callbacks(void)
{
    PyObject *r = Py_None;
    for (Py_ssize_t i = 0; r && callbacks && i < PyList_GET_SIZE(callbacks); ++i) {
        r = PyObject_CallNoArgs(PyList_GET_ITEM(callbacks, i));
        Py_XDECREF(r);
    }
    Py_CLEAR(callbacks);
    return r ? 0 : -1;
}

int64_t py_backward_begins(bool to_inputs)
{
    static atomic_llong tasks;
    int64_t outer = task;
    ++depth;
    partial += to_inputs;
    task = atomic_fetch_add(&tasks, 1);
    return outer;
}

int py_backward_depth(void) { return depth; }

/* 0, or -1 when a callback of the end failed. */
int py_backward_ends(int64_t outer, bool to_inputs, bool failed)
{
    partial -= to_inputs;
    int late = 0;
    if (depth == 1 && failed) Py_CLEAR(callbacks);
    else if (depth == 1) late = run_callbacks();
    --depth;
    task = outer;
    return late;
}

/* run_backward(tensors, grad_tensors, keep_graph, create_graph, inputs=(), allow_unreachable=False, accumulate_grad=False) */
static PyObject *run_backward(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"tensors", "grad_tensors", "keep_graph", "create_graph", "inputs", "allow_unreachable", "accumulate_grad", NULL};
    PyObject *all[7] = {NULL, Py_None, Py_False, Py_False, Py_None, Py_False, Py_False};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|OOOOOO:run_backward", names, &all[0], &all[1], &all[2], &all[3], &all[4], &all[5], &all[6])) return NULL;
    return py_run_backward(NULL, all, 7);
}

static PyObject *queue_callback(PyObject *self, PyObject *f)
{
    if (!depth) return PyErr_Format(PyExc_RuntimeError, "Final callbacks can only be installed during backward pass.");
    if (!callbacks && !(callbacks = PyList_New(0))) return NULL;
    if (PyList_Append(callbacks, f)) return NULL;
    Py_RETURN_NONE;
}

static PyObject *is_checkpoint_valid(PyObject *self, PyObject *unused) { return PyBool_FromLong(!partial); }

static PyMethodDef engine_methods[] = {
    {"run_backward", (PyCFunction)(void (*)(void))run_backward, METH_VARARGS | METH_KEYWORDS, NULL},
    {"queue_callback", queue_callback, METH_O, "A function that is called when the running backward has ended."},
    {"is_checkpoint_valid", is_checkpoint_valid, METH_NOARGS, NULL},
    {NULL},
};
static PyTypeObject type_engine = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "torch._C._EngineBase", .tp_basicsize = sizeof(PyObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, .tp_new = PyType_GenericNew, .tp_methods = engine_methods,
    .tp_doc = "What runs backward.",
};

static PyObject *graph_task(PyObject *module, PyObject *unused) { return PyLong_FromLongLong(task); }

/* Will the running backward come to this node? */
static PyObject *will_execute(PyObject *module, PyObject *x)
{
    rush_node *node = py_node_behind(x);
    if (!node) return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "a node was expected, not %s", py_type_name(x));
    if (!depth) return PyErr_Format(PyExc_RuntimeError, "_get_should_execute_nodes should only be called during the backward pass");
    return PyBool_FromLong(node->task && node->needed);
}

/* ---- tensors ---- */

static PyObject *set_flag(PyObject *args, uint16_t flag)
{
    PyObject *x;
    int on;
    if (!PyArg_ParseTuple(args, "Op", &x, &on)) return NULL;
    rush_tensor *t = py_need_tensor(x, "the argument");
    if (!t) return NULL;
    t->flags = on ? t->flags | flag : t->flags & ~flag;
    Py_RETURN_NONE;
}
static PyObject *set_conj(PyObject *module, PyObject *args) { return set_flag(args, RUSH_T_CONJ); }
static PyObject *set_neg(PyObject *module, PyObject *args) { return set_flag(args, RUSH_T_NEG); }

/* The two objects exchange their tensors. */
static PyObject *swap(PyObject *module, PyObject *args)
{
    PyObject *a, *b;
    if (!PyArg_ParseTuple(args, "O!O!", &py_type_TensorBase, &a, &py_type_TensorBase, &b)) return NULL;
    rush_tensor *ta = py_tensor_of(a), *tb = py_tensor_of(b);
    ((py_tensor *)a)->t = tb, tb->py = a;
    ((py_tensor *)b)->t = ta, ta->py = b;
    Py_RETURN_NONE;
}

/* Objects that live on only because a tensor does: the program has let go of them, though weak references find them. */
static PyObject *is_let_go(PyObject *module, PyObject *x)
{
    rush_tensor *t = py_need_tensor(x, "the argument");
    return t ? PyBool_FromLong(t->flags & RUSH_T_PY_OWNED) : NULL;
}

static PyObject *set_versions(PyObject *module, PyObject *args)
{
    PyObject *tensors, *versions;
    if (!PyArg_ParseTuple(args, "OO", &tensors, &versions)) return NULL;
    PyObject *a = PySequence_Tuple(tensors), *b = a ? PySequence_Tuple(versions) : NULL;
    bool ok = b && PyTuple_GET_SIZE(a) == PyTuple_GET_SIZE(b);
    for (Py_ssize_t i = 0; ok && i < PyTuple_GET_SIZE(a); ++i) {
        rush_tensor *t = py_need_tensor(PyTuple_GET_ITEM(a, i), "the argument");
        unsigned long v = PyLong_AsUnsignedLong(PyTuple_GET_ITEM(b, i));
        if (!t || PyErr_Occurred()) ok = false;
        else if (t->version) t->version->n = (unsigned)v;
        else if (t->storage) t->storage->version = (unsigned)v;
    }
    Py_XDECREF(a);
    Py_XDECREF(b);
    if (!ok) return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "as many versions as tensors were expected");
    Py_RETURN_NONE;
}

/* ---- saved tensor hooks switched off ---- */

static _Thread_local PyObject *hooks_off; /* the message for those who try */

bool py_saved_hooks_disabled(void)
{
    if (hooks_off) PyErr_SetObject(PyExc_RuntimeError, hooks_off);
    return hooks_off != NULL;
}

static PyObject *disable_hooks(PyObject *module, PyObject *args)
{
    PyObject *message, *strict = NULL;
    if (!PyArg_ParseTuple(args, "U|O", &message, &strict)) return NULL;
    if (py_saved_hooks_pushed()) return PyErr_SetObject(PyExc_RuntimeError, message), NULL;
    Py_INCREF(message);
    Py_XSETREF(hooks_off, message);
    Py_RETURN_NONE;
}
static PyObject *enable_hooks(PyObject *module, PyObject *unused)
{
    Py_CLEAR(hooks_off);
    Py_RETURN_NONE;
}
static PyObject *hooks_enabled(PyObject *module, PyObject *unused) { return PyBool_FromLong(!hooks_off); }
static PyObject *hooks_message(PyObject *module, PyObject *unused) { return py_ref(hooks_off ? hooks_off : Py_None); }

/* ---- what is never there ---- */

static PyObject *show_config(PyObject *module, PyObject *unused)
{
    return PyUnicode_FromFormat("rushlight %s: engines %s; kernels for %s; %d threads\n", rush_version(), rush_engines(), rush_cpu_isa(), rush_num_threads());
}

static PyObject *none(PyObject *module, PyObject *unused) { Py_RETURN_NONE; }
static PyObject *no(PyObject *module, PyObject *unused) { Py_RETURN_FALSE; }
static PyObject *yes(PyObject *module, PyObject *unused) { Py_RETURN_TRUE; }

static PyObject *batches, *derivatives; /* rushlight._functorch's lists: of the vmaps that run, and how many derivatives do */

static PyObject *set_transforms(PyObject *module, PyObject *args)
{
    return PyArg_ParseTuple(args, "O!O!", &PyList_Type, &batches, &PyList_Type, &derivatives) ? Py_INCREF(batches), Py_INCREF(derivatives), py_ref(Py_None) : NULL;
}

bool py_transforms(void) { return batches && (PyList_GET_SIZE(batches) || PyObject_IsTrue(PyList_GET_ITEM(derivatives, 0))); }

static PyObject *transforms(PyObject *module, PyObject *unused) { return PyBool_FromLong(py_transforms()); }

static PyMethodDef functions[] = {
    {"_current_graph_task_id", graph_task, METH_NOARGS, "A number for the running backward; -1 outside."},
    {"_will_engine_execute_node", will_execute, METH_O, "Will the running backward come to this node?"},
    {"_set_conj", set_conj, METH_VARARGS, "Sets the bit of lazy conjugation."},
    {"_set_neg", set_neg, METH_VARARGS, "Sets the bit of lazy negation."},
    {"_is_let_go", is_let_go, METH_O, "Does the object live on only because its tensor does?"},
    {"_swap_tensor_impl", swap, METH_VARARGS, "Two objects exchange their tensors."},
    {"_are_functorch_transforms_active", transforms, METH_NOARGS, "Is a transform of torch.func running?"},
    {"_set_transforms", set_transforms, METH_VARARGS, "The list of running vmaps, and that of the number of running derivatives."},
    {"_show_config", show_config, METH_NOARGS, "What the library was built with and computes with, in words."},
    {"_is_fwd_grad_enabled", yes, METH_NOARGS, NULL},
    {"_set_fwd_grad_enabled", none, METH_O, NULL},
    {"_log_api_usage_once", none, METH_VARARGS, "Nothing is logged."},
    {"_log_api_usage_metadata", none, METH_VARARGS, "Nothing is logged."},
    {"_is_xnnpack_enabled", no, METH_NOARGS, NULL},
    {NULL},
};
static PyMethodDef autograd_functions[] = {
    {"_unsafe_set_version_counter", set_versions, METH_VARARGS, "Sets how often tensors count as changed."},
    {"_saved_tensors_hooks_disable", disable_hooks, METH_VARARGS, "Hooks for saved tensors are an error from now on, with this message."},
    {"_saved_tensors_hooks_enable", enable_hooks, METH_NOARGS, "Hooks for saved tensors are fine again."},
    {"_saved_tensors_hooks_get_disabled_error_message", hooks_message, METH_NOARGS, "The message, or None."},
    {"_saved_tensors_hooks_is_enabled", hooks_enabled, METH_NOARGS, "Are hooks for saved tensors fine?"},
    {NULL},
};

/* ---- what is to be done when an object has no references left, in Python but in no finaliser ----
 *
 * An exception that is raised in a finaliser, a KeyboardInterrupt too, is printed and gone. So the object lives on until
 * the interpreter calls its _end() between two instructions of the program, which gets what that raises. */

static int end_now(void *object)
{
    PyObject *r = PyObject_CallMethod(object, "_end", NULL);
    Py_DECREF((PyObject *)object);
    Py_XDECREF(r);
    return r ? 0 : -1;
}

static void end_later(PyObject *self)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    Py_INCREF(self);
    if (Py_AddPendingCall(end_now, self) && end_now(self)) PyErr_WriteUnraisable(NULL); /* too many wait */
    PyErr_Restore(type, value, trace);
}

static PyTypeObject type_ends_later = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "torch._C._EndsLater",
    .tp_basicsize = sizeof(PyObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_FINALIZE,
    .tp_finalize = end_later,
    .tp_new = PyType_GenericNew,
    .tp_doc = "A base whose _end() is called soon after the last reference is gone.",
};

int py_compat_init(PyObject *module)
{
    if (PyType_Ready(&type_ends_later) || py_add(module, "_EndsLater", py_ref((PyObject *)&type_ends_later))) return -1;
    if (PyType_Ready(&type_engine) || PyModule_AddFunctions(module, functions)) return -1;
    PyObject *autograd = PyModule_New("rushlight._C._autograd"), *modules = PyImport_GetModuleDict();
    if (!autograd || PyModule_AddFunctions(autograd, autograd_functions) || PyDict_SetItemString(modules, "rushlight._C._autograd", autograd)) return -1;
    static const char *const both[] = {"_push_saved_tensors_default_hooks", "_pop_saved_tensors_default_hooks"};
    for (size_t i = 0; i < RUSH_COUNT(both); ++i)
        if (py_add(autograd, both[i], PyObject_GetAttrString(module, both[i]))) return -1;
    return py_add(module, "_autograd", autograd) || py_add(module, "_ImperativeEngine", py_ref((PyObject *)&type_engine)) ||
                   py_add(module, "_EngineBase", py_ref((PyObject *)&type_engine)) ||
                   py_add(module, "_InferenceMode", PyObject_GetAttrString(module, "inference_mode"))
               ? -1 : 0;
}
