/* hooks.c - Python functions as hooks of tensors and nodes.
 *
 * A hook's Python part is shared by the library's hook and the handle that the user got. Removing it through the
 * handle empties it; the empty hook is swept away when the next one is registered while none runs: the engine walks the list.
 */
#include "ext.h"
#include "ops/geometry.h"

static int running; /* hooks, of any thread; with the interpreter's lock */

enum { ON_TENSOR, POST_ACCUMULATE, NODE_PRE, NODE_POST };

typedef struct python_hook {
    atomic_int refs;
    PyObject *f; /* NULL: removed */
    int kind;
    int held;     /* by so many runs */
    bool removed; /* since they began: it is still called in them, as in PyTorch */
} python_hook;

static void drop(python_hook *h) /* with the interpreter's lock */
{
    if (atomic_fetch_sub(&h->refs, 1) != 1) return;
    Py_XDECREF(h->f);
    rush_free(h);
}

static void free_hook(void *arg)
{
    if (!Py_IsInitialized()) return;
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    drop(arg);
    PyErr_Restore(type, value, trace);
    PyGILState_Release(gil);
}

/* A tensor that a hook gave back takes the place of *g; strictly: not of nothing. */
static int replace(rush_tensor **g, PyObject *x, bool strictly)
{
    if (x == Py_None) return 0;
    if (!py_is_tensor(x)) {
        PyErr_Format(PyExc_TypeError, "expected Variable, but hook returned '%s'", Py_TYPE(x)->tp_name);
        return -1;
    }
    rush_tensor *t = py_tensor_of(x);
    if (!*g && strictly) return PyErr_Format(PyExc_RuntimeError, "can't replace a None gradient with a non-None value"), -1;
    if (*g && t->dtype != (*g)->dtype) return PyErr_Format(PyExc_RuntimeError, "hook has changed the type of value (was %s got %s)", rush_dtype_name((*g)->dtype), rush_dtype_name(t->dtype)), -1;
    if (*g && !rush_same_sizes(t, *g)) return PyErr_Format(PyExc_RuntimeError, "hook has changed the size of value"), -1;
    *g = rush_park(rush_keep(t));
    return 0;
}

/* A hook that sees the sum in .grad changes it in place, if at all. */
static int nothing(const rush_node *node, PyObject *x)
{
    if (x == Py_None || (py_is_tensor(x) && py_tensor_of(x) == node->data)) return 0;
    if (!py_is_tensor(x)) PyErr_Format(PyExc_TypeError, "expected Variable, but hook returned '%s'", Py_TYPE(x)->tp_name);
    else PyErr_Format(PyExc_RuntimeError, "Tensor post accumulate grad hooks should return None.");
    return -1;
}

static int replace_all(rush_tensor **g, int n, PyObject *x)
{
    if (x == Py_None) return 0;
    if (py_is_tensor(x) && n == 1) return replace(g, x, false);
    if (!PyTuple_Check(x) && !PyList_Check(x)) return PyErr_Format(PyExc_TypeError, "expected tuple, but hook returned '%s'", Py_TYPE(x)->tp_name), -1;
    if (PySequence_Fast_GET_SIZE(x) != n) return PyErr_Format(PyExc_RuntimeError, "hook has returned an incorrect number of values (got %zd, but expected %d)", PySequence_Fast_GET_SIZE(x), n), -1;
    for (int i = 0; i < n; ++i)
        if (replace(&g[i], PySequence_Fast_GET_ITEM(x, i), false)) return -1;
    return 0;
}

/* Results without a gradient, such as the places of max(), are not told of. */
static int with_gradient(const rush_node *node, int n)
{
    while (node->op && n > 1 && node->shape[n - 1] && rush_dtypes[node->shape[n - 1]->dtype].category < 2) --n;
    return n;
}

static int call(void *arg, rush_node *node, rush_tensor **g, int ng, rush_tensor **gin, int ngin)
{
    python_hook *h = arg;
    if (!h->f) return 0;
    if (h->kind == NODE_PRE || h->kind == NODE_POST) ng = with_gradient(node, ng);
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *f = h->f, *a = NULL, *b = NULL, *r = NULL;
    int failed = -1;
    if (f) {
        ++running;
        Py_INCREF(f);
        atomic_fetch_add(&h->refs, 1);
        if (h->kind == ON_TENSOR) a = *g ? py_wrap(*g) : py_ref(Py_None);
        else if (h->kind == POST_ACCUMULATE) a = py_wrap(node->data);
        else if (h->kind == NODE_PRE) a = py_wrap_list(g, (size_t)ng, true);
        else a = py_wrap_list(gin, (size_t)ngin, true), b = py_wrap_list(g, (size_t)ng, true);
        if (a && (h->kind != NODE_POST || b)) r = PyObject_CallFunctionObjArgs(f, a, b, NULL);
        if (r) failed = h->kind == ON_TENSOR ? replace(g, r, true) : h->kind == NODE_PRE ? replace_all(g, ng, r) : h->kind == NODE_POST ? replace_all(gin, ngin, r) : nothing(node, r);
        Py_XDECREF(r);
        Py_XDECREF(a);
        Py_XDECREF(b);
        Py_DECREF(f);
        drop(h);
        --running;
        if (failed) py_foreign();
    } else {
        failed = 0;
    }
    PyGILState_Release(gil);
    return failed;
}

static bool hold(void *arg, bool on)
{
    python_hook *h = arg;
    PyGILState_STATE gil = PyGILState_Ensure();
    bool takes_part = h->f && !h->removed;
    if (on) h->held += takes_part;
    else if (--h->held == 0 && h->removed) Py_CLEAR(h->f);
    PyGILState_Release(gil);
    return takes_part;
}

PyObject *py_hook_callable(const rush_node_hook *hook) { return hook->call == call && !((python_hook *)hook->arg)->removed ? ((python_hook *)hook->arg)->f : NULL; }

static void sweep(rush_node_hook **list)
{
    for (rush_node_hook *h = running ? NULL : *list, *next; h; h = next) {
        next = h->next;
        if (h->call == call && !((python_hook *)h->arg)->f) rush_node_hook_remove(list, h->id);
    }
}

/* ---- the handle ---- */

typedef struct handle {
    PyObject_HEAD
    python_hook *hook;
    uint64_t id;
} handle;

static void handle_dealloc(PyObject *self)
{
    drop(((handle *)self)->hook);
    PyObject_Free(self);
}

static PyObject *handle_remove(PyObject *self, PyObject *unused)
{
    python_hook *h = ((handle *)self)->hook;
    h->removed = true;
    if (!h->held) Py_CLEAR(h->f);
    Py_RETURN_NONE;
}

static PyObject *handle_enter(PyObject *self, PyObject *unused) { return py_ref(self); }
static PyObject *handle_exit(PyObject *self, PyObject *args) { return handle_remove(self, NULL); }
static PyObject *handle_id(PyObject *self, void *unused) { return PyLong_FromUnsignedLongLong(((handle *)self)->id); }

static PyMethodDef handle_methods[] = {{"remove", handle_remove, METH_NOARGS, "Takes the hook away."}, {"__enter__", handle_enter, METH_NOARGS, NULL},
                                       {"__exit__", handle_exit, METH_VARARGS, NULL}, {NULL}};
static PyGetSetDef handle_getset[] = {{"id", handle_id, NULL, NULL}, {NULL}};
static PyTypeObject type_handle = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "torch._C.RemovableHandle", .tp_basicsize = sizeof(handle), .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "Takes a hook away again: remove(), or at the end of a with block.", .tp_dealloc = handle_dealloc,
    .tp_methods = handle_methods, .tp_getset = handle_getset,
};

static PyObject *make(PyObject *f, int kind, rush_node_hook **made)
{
    python_hook *h = rush_malloc(sizeof *h);
    rush_node_hook *hook = rush_calloc(1, sizeof *hook);
    handle *x = h && hook ? PyObject_New(handle, &type_handle) : NULL;
    if (!x) {
        rush_free(h);
        rush_free(hook);
        return rush_failed() ? py_raise() : NULL;
    }
    *h = (python_hook){.refs = 2, .f = py_ref(f), .kind = kind};
    *hook = (rush_node_hook){.call = call, .free = free_hook, .hold = hold, .arg = h, .slot = -1, .pre = kind != NODE_POST};
    x->hook = h;
    x->id = 0;
    *made = hook;
    return (PyObject *)x;
}

static PyObject *on_node(rush_node *node, PyObject *f, int kind)
{
    rush_node_hook *hook;
    PyObject *x = make(f, kind, &hook);
    if (!x) return NULL;
    sweep(&node->hooks);
    ((handle *)x)->id = rush_node_hook_add(node, hook);
    return x;
}

PyObject *py_node_register(rush_node *node, PyObject *f, bool pre) { return on_node(node, f, pre ? NODE_PRE : NODE_POST); }

/* ---- methods of tensors ---- */

static PyObject *register_hook(PyObject *self, PyObject *f)
{
    rush_tensor *t = py_tensor_of(self);
    rush_node_hook *hook;
    if (!rush_wants_grad(t)) return PyErr_Format(PyExc_RuntimeError, "cannot register a hook on a tensor that doesn't require gradient");
    if (!PyCallable_Check(f)) return PyErr_Format(PyExc_TypeError, "the hook must be callable, not %s", py_type_name(f));
    rush_autograd *ag = rush_autograd_of(t);
    rush_node *fn = ag ? rush_grad_fn(t) : NULL;
    PyObject *x = rush_failed() ? py_raise() : make(f, ON_TENSOR, &hook);
    if (!x) return NULL;
    sweep(fn ? &fn->hooks : &ag->hooks);
    ((handle *)x)->id = rush_tensor_hook(t, hook);
    return x;
}

static PyObject *register_post_accumulate(PyObject *self, PyObject *f)
{
    rush_tensor *t = py_tensor_of(self);
    rush_node_hook *hook;
    if (!rush_wants_grad(t)) return PyErr_Format(PyExc_RuntimeError, "cannot register a hook on a tensor that doesn't require gradient");
    if (rush_grad_fn(t)) return PyErr_Format(PyExc_RuntimeError, "post accumulate grad hooks cannot be registered on non-leaf tensors");
    if (rush_failed() || !rush_autograd_of(t)) return py_raise();
    PyObject *x = make(f, POST_ACCUMULATE, &hook);
    if (!x) return NULL;
    rush_node_hook **list = &t->ag->post_accumulate;
    static atomic_ullong ids = 1ull << 40;
    sweep(list);
    hook->id = ((handle *)x)->id = atomic_fetch_add(&ids, 1);
    while (*list) list = &(*list)->next;
    *list = hook;
    return x;
}

static PyObject *retain_grad(PyObject *self, PyObject *unused)
{
    if (rush_retain_grad(py_tensor_of(self))) return py_raise();
    Py_RETURN_NONE;
}

static PyObject *requires_grad_(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"requires_grad", NULL};
    PyObject *given = Py_True;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:requires_grad_", names, &given)) return NULL;
    int on = py_need_bool(given, "requires_grad_(): argument 'requires_grad' (position 1)");
    if (on < 0) return NULL;
    rush_tensor *t = py_tensor_of(self);
    if (on && t->flags & RUSH_T_INFERENCE && !(rush_now.mode & RUSH_MODE_INFERENCE))
        return PyErr_Format(PyExc_RuntimeError, "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.");
    return rush_requires_grad_set(t, on) ? py_ref(self) : py_raise();
}

PyMethodDef py_tensor_hook_methods[] = {
    {"register_hook", register_hook, METH_O, "register_hook(f): f(grad) is called with the gradient and may give another; returns a handle with remove()."},
    {"register_post_accumulate_grad_hook", register_post_accumulate, METH_O, "register_post_accumulate_grad_hook(hook): hook(tensor) is called when .grad has been updated."},
    {"retain_grad", retain_grad, METH_NOARGS, "Keeps the gradient of a tensor that is no leaf in .grad."},
    {"requires_grad_", (PyCFunction)(void (*)(void))requires_grad_, METH_VARARGS | METH_KEYWORDS, "requires_grad_(requires_grad=True): sets whether gradients are wanted."},
    {NULL},
};

/* ---- properties of tensors that autograd has ---- */

PyObject *py_get_requires_grad(PyObject *self, void *unused) { return PyBool_FromLong(rush_wants_grad(py_tensor_of(self))); }

int py_set_requires_grad(PyObject *self, PyObject *value, void *unused)
{
    if (!value || !PyBool_Check(value)) return PyErr_Format(PyExc_RuntimeError, "requires_grad must be a bool"), -1;
    rush_tensor *t = py_tensor_of(self);
    if (value == Py_True && rush_dtypes[t->dtype].category < 2) return PyErr_Format(PyExc_RuntimeError, "only Tensors of floating point and complex dtype can require gradients"), -1;
    return rush_requires_grad_set(t, value == Py_True) ? 0 : py_raise_int();
}

PyObject *py_get_grad(PyObject *self, void *unused)
{
    rush_tensor *t = py_tensor_of(self), *g = rush_grad(t);
    if (!g && t->ag && t->ag->fn && !t->ag->retains_grad && rush_wants_grad(t) &&
        PyErr_WarnEx(PyExc_UserWarning, "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be populated during "
                     "autograd.backward(). If you indeed want the .grad field to be populated for a non-leaf Tensor, use .retain_grad() on the non-leaf Tensor. "
                     "If you access the non-leaf Tensor by mistake, make sure you access the leaf Tensor instead.", 1))
        return NULL;
    return py_wrap(g);
}

int py_set_grad(PyObject *self, PyObject *value, void *unused)
{
    rush_tensor *t = py_tensor_of(self), *g;
    if (!value || value == Py_None) return t->ag ? rush_grad_set(t, NULL) : 0;
    if (!py_is_tensor(value)) return PyErr_Format(PyExc_TypeError, "assigned grad expected to be a Tensor or None but got grad of type %s", py_type_name(value)), -1;
    g = py_tensor_of(value);
    if (g == t) return PyErr_Format(PyExc_RuntimeError, "can't assign Variable as its own grad"), -1;
    int d = rush_grad_dtype(t);
    if (d >= 0 && d != (int)g->dtype)
        return PyErr_Format(PyExc_RuntimeError, "attempting to assign a gradient with dtype '%s' to a tensor with grad_dtype '%s'. The gradient must match the "
                            "tensor's grad_dtype (defaults to the tensor's dtype). You can set the tensor's grad_dtype attribute with a specific dtype, or None to "
                            "allow any dtype. Set grad_dtype with caution. Diverging the dtypes of a tensor and its gradient may break downstream systems that "
                            "assume they match.", rush_dtypes[g->dtype].c_type, rush_dtype_word((rush_dtype)d)), -1;
    if (!rush_same_device(g->device, t->device)) return PyErr_Format(PyExc_RuntimeError, "assigned grad has data located on a different device"), -1;
    if (!rush_same_sizes(g, t) && g->layout == t->layout) return PyErr_Format(PyExc_RuntimeError, "attempting to assign a gradient of size '%s' to a tensor of size '%s'. Please ensure that the gradient and the tensor are the same size", rush_shape_of(g), rush_shape_of(t)), -1;
    return rush_grad_set(t, g) ? py_raise_int() : 0;
}

PyObject *py_get_grad_dtype(PyObject *self, void *unused)
{
    rush_tensor *t = py_tensor_of(self);
    if (rush_wants_grad(t) && rush_grad_fn(t)) return PyErr_Format(PyExc_RuntimeError, "grad_dtype can only be accessed on leaf tensors.");
    int d = rush_grad_dtype(t);
    return d < 0 ? py_ref(Py_None) : py_dtype(d);
}

int py_set_grad_dtype(PyObject *self, PyObject *value, void *unused)
{
    rush_tensor *t = py_tensor_of(self), *g = rush_grad(t);
    int d = -1;
    if (!value) return PyErr_Format(PyExc_RuntimeError, "grad_dtype cannot be deleted"), -1;
    if (rush_wants_grad(t) && rush_grad_fn(t)) return PyErr_Format(PyExc_RuntimeError, "grad_dtype can only be set on leaf tensors."), -1;
    if (value != Py_None && !Py_IS_TYPE(value, &py_type_dtype))
        return PyErr_Format(PyExc_RuntimeError, "grad_dtype must be a torch.dtype or None, but got %s", py_type_name(value)), -1;
    if (value != Py_None && !py_to_dtype(value, &d)) return -1;
    if (g && d >= 0 && (int)g->dtype != d)
        return PyErr_Format(PyExc_RuntimeError, "Cannot set grad_dtype to '%s' because there is already a gradient with dtype '%s'. Please clear the gradient (.grad = "
                            "None) before changing grad_dtype, or ensure the new grad_dtype matches the existing gradient's dtype.",
                            rush_dtype_word((rush_dtype)d), rush_dtypes[g->dtype].c_type), -1;
    rush_autograd *ag = rush_autograd_of(t);
    if (!ag) return py_raise_int();
    ag->grad_dtype = (uint8_t)(d < 0 ? RUSH_GRAD_ANY : d + 1);
    return 0;
}

PyObject *py_get_grad_fn(PyObject *self, void *unused)
{
    rush_node *fn = rush_grad_fn(py_tensor_of(self));
    return rush_failed() ? py_raise() : py_node_of(fn);
}

int py_set_grad_fn(PyObject *self, PyObject *value, void *unused)
{
    if (value && value != Py_None) return PyErr_Format(PyExc_TypeError, "_grad_fn can be only set to None"), -1;
    rush_autograd *ag = py_tensor_of(self)->ag;
    rush_node *old = ag ? ag->fn : NULL;
    if (old) ag->fn = NULL, rush_node_drop(old);
    return 0;
}

PyObject *py_get_is_leaf(PyObject *self, void *unused)
{
    rush_tensor *t = py_tensor_of(self);
    bool leaf = !rush_wants_grad(t) || !rush_grad_fn(t);
    return rush_failed() ? py_raise() : PyBool_FromLong(leaf);
}

PyObject *py_get_retains_grad(PyObject *self, void *unused)
{
    rush_tensor *t = py_tensor_of(self);
    return PyBool_FromLong(t->ag && t->ag->fn && t->ag->retains_grad);
}

PyObject *py_get_output_nr(PyObject *self, void *unused)
{
    rush_tensor *t = py_tensor_of(self);
    const rush_node *fn = t->ag ? t->ag->fn : NULL;
    bool by_itself = fn && fn->op && fn->op->flags & RUSH_VIEW && !(t->flags & RUSH_T_MANY_VIEW); /* a view by itself has no siblings to tell it from */
    return PyLong_FromLong(fn && !by_itself ? (long)t->ag->slot : 0);
}

/* The hooks as a dict by number, as code that looks at it expects; None when there are none. Setting to None drops them. */
PyObject *py_get_backward_hooks(PyObject *self, void *unused)
{
    rush_tensor *t = py_tensor_of(self);
    rush_node_hook *list = !t->ag ? NULL : t->ag->fn ? t->ag->fn->hooks : t->ag->hooks;
    PyObject *dict = NULL;
    for (; list; list = list->next) {
        PyObject *f = py_hook_callable(list);
        if (!f || ((python_hook *)list->arg)->kind != ON_TENSOR || (t->ag->fn && list->slot != (int)t->ag->slot)) continue;
        if (!dict && !(dict = PyDict_New())) return NULL;
        PyObject *id = PyLong_FromUnsignedLongLong(list->id);
        if (!id || PyDict_SetItem(dict, id, f)) Py_CLEAR(dict);
        Py_XDECREF(id);
    }
    return dict ? dict : py_ref(Py_None);
}

int py_set_backward_hooks(PyObject *self, PyObject *value, void *unused)
{
    rush_tensor *t = py_tensor_of(self);
    rush_node_hook **list = !t->ag ? NULL : t->ag->fn ? &t->ag->fn->hooks : &t->ag->hooks;
    Py_ssize_t given = value && value != Py_None ? PyObject_Size(value) : 0;
    PyObject *values = given > 0 ? PyMapping_Values(value) : NULL;
    int failed = given < 0 || (given && !values) ? -1 : 0;
    for (Py_ssize_t i = 0; values && !failed && i < PyList_GET_SIZE(values); ++i)
        if (!PyCallable_Check(PyList_GET_ITEM(values, i))) failed = (PyErr_SetString(PyExc_TypeError, "hooks are callable"), -1);
    if (failed) { /* those that are there stay */
        Py_XDECREF(values);
        return -1;
    }
    for (rush_node_hook *h = list ? *list : NULL, *next; h; h = next) {
        next = h->next;
        if (py_hook_callable(h) && ((python_hook *)h->arg)->kind == ON_TENSOR) rush_node_hook_remove(list, h->id);
    }
    for (Py_ssize_t i = 0; values && !failed && i < PyList_GET_SIZE(values); ++i) {
        PyObject *x = register_hook(self, PyList_GET_ITEM(values, i));
        failed = x ? 0 : -1;
        Py_XDECREF(x);
    }
    Py_XDECREF(values);
    return failed;
}

int py_hooks_init(PyObject *module)
{
    return PyType_Ready(&type_handle) ? -1 : py_add(module, "RemovableHandle", py_ref((PyObject *)&type_handle));
}
