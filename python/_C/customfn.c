/* customfn.c - torch.autograd.Function: operations whose forward and backward are Python code.
 *
 * The context is the object of the graph's node: the node owns it, it knows the node as long as that lives. apply()
 * runs forward unrecorded, then makes a node whose edges go to the tensor arguments and attaches the results.
 */
#include "ext.h"
#include "op/formula.h"

typedef struct context {
    PyObject_HEAD
    rush_node *node;          /* borrowed; NULL when nothing wanted a gradient, or the graph is gone */
    PyObject *dict, *weak;
    PyObject *to_save, *dirty, *non_differentiable, *saved_for_forward, *metadata, *next; /* next_functions of a node that is gone */
    PyObject *needs;          /* needs_input_grad: a tuple */
    rush_saved *saved;
    int nsaved;
    bool materialize, released, cleared; /* saved tensors are gone: after backward; at the first look, where the class asks for that */
    int ninputs;
    bool *is_tensor;          /* which arguments of forward were tensors */
} context;

static PyTypeObject type_context;

/* ---- the node ---- */

static const char *node_name(const rush_node *node) { return Py_TYPE((PyObject *)node->data)->tp_name; }

static PyObject *gradient(context *x, rush_tensor *g, int i)
{
    if (g || !x->materialize || !x->node->shape[i]) return py_wrap(g);
    rush_tensor *zeros = rush_zeros_like(x->node->shape[i]);
    return zeros ? py_wrap(zeros) : py_raise();
}

static int take_gradients(context *x, rush_node *node, PyObject *r, rush_tensor **gin)
{
    PyObject *tuple = PyTuple_Check(r) ? py_ref(r) : PyTuple_Pack(1, r);
    if (!tuple) return -1;
    Py_ssize_t n = PyTuple_GET_SIZE(tuple);
    int failed = 0, e = 0;
    while (n > x->ninputs && PyTuple_GET_ITEM(tuple, n - 1) == Py_None) --n;
    if (n != x->ninputs)
        failed = (PyErr_Format(PyExc_RuntimeError, "function %s returned an incorrect number of gradients (expected %d, got %zd)", node_name(node), x->ninputs, n), -1);
    for (int i = 0; !failed && i < x->ninputs; ++i) {
        PyObject *g = PyTuple_GET_ITEM(tuple, i);
        if (!x->is_tensor[i]) {
            if (g != Py_None) failed = (PyErr_Format(PyExc_RuntimeError, "function %s returned a gradient different than None at position %d, but the corresponding forward input was not a Variable", node_name(node), i + 1), -1);
            continue;
        }
        if (g == Py_None) {
            ++e;
        } else if (!py_is_tensor(g)) {
            failed = (PyErr_Format(PyExc_RuntimeError, "expected Variable or None (got %s)", Py_TYPE(g)->tp_name), -1);
        } else {
            gin[e++] = rush_park(rush_keep(py_tensor_of(g)));
        }
    }
    Py_DECREF(tuple);
    return failed;
}

static int apply_backward(rush_node *node, rush_tensor **g, rush_tensor **gin)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    context *x = node->data;
    PyObject *args = PyTuple_New(node->nout), *f = NULL, *r = NULL;
    int failed = -1;
    Py_INCREF(x);
    for (int i = 0; args && i < node->nout; ++i) {
        PyObject *item = gradient(x, g[i], i);
        if (!item) Py_CLEAR(args);
        else PyTuple_SET_ITEM(args, i, item);
    }
    if (args && (f = PyObject_GetAttrString((PyObject *)x, "apply")) && (r = PyObject_Call(f, args, NULL))) failed = take_gradients(x, node, r, gin);
    Py_XDECREF(r);
    Py_XDECREF(f);
    Py_XDECREF(args);
    if (failed) py_foreign();
    Py_DECREF(x);
    PyGILState_Release(gil);
    return failed;
}

static void free_saved(context *x)
{
    rush_saved *saved = x->saved;
    int n = x->nsaved;
    x->saved = NULL;
    x->nsaved = 0;
    for (int i = 0; i < n; ++i) rush_saved_free(&saved[i]);
    rush_free(saved);
}

static PyObject *saved_values(context *x, bool history)
{
    PyObject *tuple = PyTuple_New(x->nsaved);
    size_t mark = rush_scope_open();
    for (int i = 0; tuple && i < x->nsaved; ++i) {
        rush_tensor *t = rush_saved_read(&x->saved[i], x->node, history);
        PyObject *item = rush_failed() ? py_raise() : py_wrap(t);
        if (!item) Py_CLEAR(tuple);
        else PyTuple_SET_ITEM(tuple, i, item);
    }
    rush_scope_close(mark);
    return tuple;
}

/* After the node's backward, which no other is to follow; at the node's end `end` does it. */
static void release(rush_node *node)
{
    context *x = node->data;
    if (!x || !node->refs) return;
    if (x->nsaved) x->released = true;
    free_saved(x);
}

/* The node ends, but somebody has its object: what that shows of it stays. Values that hooks packed are gone. */
static void outlive(context *x, rush_node *node)
{
    x->next = py_next_functions(node);
    if (!x->saved || x->released) return;
    x->released = true;
    if (rush_failed()) return; /* the nodes of a call that failed: its error is still to be told */
    for (int i = 0; i < x->nsaved; ++i)
        if (x->saved[i].packed) return;
    PyObject *saved = saved_values(x, false); /* an output's history would be the node that ends */
    if (!saved) return;
    Py_XSETREF(x->to_save, saved);
    x->released = false;
}

static void end(rush_node *node)
{
    context *x = node->data;
    if (!x || !Py_IsInitialized()) {
        if (x) free_saved(x);
        node->data = NULL;
        return;
    }
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (Py_REFCNT(x) > 1) outlive(x, node);
    PyErr_Clear();
    free_saved(x);
    node->data = NULL;
    x->node = NULL;
    Py_DECREF(x);
    PyErr_Restore(type, value, trace);
    PyGILState_Release(gil);
}

static const rush_node_kind function_kind = {.name = node_name, .apply = apply_backward, .release = release, .end = end, .unasked = true};

PyObject *py_node_python_object(rush_node *node) { return node->kind == &function_kind ? node->data : NULL; }

/* ---- forward ---- */

static bool contains(PyObject *tuple, PyObject *x)
{
    for (Py_ssize_t i = 0; tuple && i < PyTuple_GET_SIZE(tuple); ++i)
        if (PyTuple_GET_ITEM(tuple, i) == x) return true;
    return false;
}

static int as_tuple(PyObject **slot)
{
    if (!*slot || PyTuple_Check(*slot)) return 0;
    PyObject *tuple = PySequence_Tuple(*slot);
    if (!tuple) return -1;
    Py_SETREF(*slot, tuple);
    return 0;
}

/* Result i, as the caller gets it: attached to the node, or outside of the graph. A new reference. */
static PyObject *attach(context *x, PyObject *args, PyObject *out, int i, unsigned as_view)
{
    if (!py_is_tensor(out)) return py_ref(out);
    bool dirty = contains(x->dirty, out), input = contains(args, out);
    PyObject *alias = NULL;
    if (input && !dirty && py_overrides_function(out) && (x->node || !rush_wants_grad(py_tensor_of(out)))) { /* a subclass says itself what its alias is */
        uint32_t mode = rush_now.mode;
        rush_now.mode |= RUSH_MODE_NO_GRAD;
        alias = PyObject_CallMethod(out, "view_as", "O", out);
        rush_now.mode = mode;
        if (!alias) return NULL;
        if (!py_is_tensor(alias)) return alias;
    }
    PyObject *given = alias ? alias : out;
    unsigned how = (dirty ? RUSH_RESULT_DIRTY : 0) | (input && !alias ? RUSH_RESULT_INPUT : 0) | (contains(x->non_differentiable, out) ? RUSH_RESULT_NO_GRAD : 0);
    rush_tensor *result = rush_node_attach(x->node, i, py_tensor_of(given), how, as_view);
    PyObject *made = !result ? py_raise() : result == py_tensor_of(given) ? py_ref(given) : py_wrap(result);
    Py_XDECREF(alias);
    return made;
}

static int are_tensors(PyObject *tuple, bool or_none, PyObject *error, const char *wrong)
{
    for (Py_ssize_t i = 0; tuple && i < PyTuple_GET_SIZE(tuple); ++i) {
        PyObject *item = PyTuple_GET_ITEM(tuple, i);
        if (!py_is_tensor(item) && !(or_none && item == Py_None)) return PyErr_Format(error, "%s, but argument %zd is of type %s", wrong, i, Py_TYPE(item)->tp_name), -1;
    }
    return 0;
}

static int save(context *x, PyObject *results)
{
    Py_ssize_t n = x->to_save ? PyTuple_GET_SIZE(x->to_save) : 0;
    if (!n) return 0;
    if (are_tensors(x->to_save, true, PyExc_TypeError, "save_for_backward can only save variables")) return -1;
    if (!(x->saved = rush_calloc((size_t)n, sizeof *x->saved))) return py_raise_int();
    for (Py_ssize_t i = 0; i < n; ++i) {
        PyObject *item = PyTuple_GET_ITEM(x->to_save, i);
        bool output = false;
        uint32_t slot = 0;
        for (Py_ssize_t k = 0; item != Py_None && k < PyTuple_GET_SIZE(results); ++k)
            if (PyTuple_GET_ITEM(results, k) == item && py_tensor_of(item)->ag && py_tensor_of(item)->ag->fn == x->node) output = true, slot = (uint32_t)k;
        x->nsaved = (int)i + 1;
        if (rush_saved_make(&x->saved[i], x->node, item == Py_None ? NULL : py_tensor_of(item), output, slot, false)) return py_raise_int();
    }
    Py_CLEAR(x->to_save);
    return 0;
}

static PyObject *finish(context *x, PyObject *args, PyObject *result, rush_node *node)
{
    bool single = !PyTuple_Check(result);
    PyObject *outs = single ? PyTuple_Pack(1, result) : py_ref(result), *final = NULL;
    if (!outs || as_tuple(&x->to_save) || as_tuple(&x->dirty) || as_tuple(&x->non_differentiable)) goto fail;
    Py_ssize_t n = PyTuple_GET_SIZE(outs);
    if (are_tensors(x->dirty, false, PyExc_RuntimeError, "mark_dirty can only accept variables") ||
        are_tensors(x->non_differentiable, false, PyExc_RuntimeError, "mark_non_differentiable only accepts variable arguments")) goto fail;
    for (Py_ssize_t i = 0; x->dirty && i < PyTuple_GET_SIZE(x->dirty); ++i)
        if (!contains(outs, PyTuple_GET_ITEM(x->dirty, i))) {
            PyErr_SetString(PyExc_RuntimeError, "Some elements marked as dirty during the forward method were not returned as output. "
                                                "The inputs that are modified inplace must all be outputs of the Function.");
            goto fail;
        }
    x->node = node;
    final = PyTuple_New(n);
    for (Py_ssize_t i = 0; final && i < n; ++i) {
        PyObject *item = attach(x, args, PyTuple_GET_ITEM(outs, i), (int)i, n > 1 ? RUSH_T_MANY_VIEW : RUSH_T_FUNCTION_VIEW);
        if (!item) Py_CLEAR(final);
        else PyTuple_SET_ITEM(final, i, item);
    }
    if (final && node && save(x, final)) Py_CLEAR(final);
fail:
    Py_XDECREF(outs);
    if (!final || !single) return final;
    PyObject *one = py_ref(PyTuple_GET_ITEM(final, 0));
    Py_DECREF(final);
    return one;
}

static int read_inputs(context *x, PyObject *args, bool *wants)
{
    Py_ssize_t n = PyTuple_GET_SIZE(args);
    bool record = !(rush_now.mode & (RUSH_MODE_NO_GRAD | RUSH_MODE_INFERENCE));
    x->ninputs = (int)n;
    x->needs = PyTuple_New(n);
    x->is_tensor = rush_calloc((size_t)n + 1, sizeof *x->is_tensor);
    if (!x->needs || !x->is_tensor) return x->needs ? py_raise_int() : -1;
    for (Py_ssize_t i = 0; i < n; ++i) {
        PyObject *item = PyTuple_GET_ITEM(args, i);
        x->is_tensor[i] = py_is_tensor(item);
        bool need = x->is_tensor[i] && rush_wants_grad(py_tensor_of(item));
        *wants |= need && record;
        PyTuple_SET_ITEM(x->needs, i, PyBool_FromLong(need));
    }
    return 0;
}

static rush_node *make_node(context *x, PyObject *args, int nout)
{
    int nedge = 0, e = 0;
    for (int i = 0; i < x->ninputs; ++i) nedge += x->is_tensor[i];
    rush_node *node = rush_node_new(&function_kind, nedge, nout);
    if (!node) return py_raise();
    for (int i = 0; i < x->ninputs; ++i)
        if (x->is_tensor[i]) node->edge[e++] = rush_grad_edge(py_tensor_of(PyTuple_GET_ITEM(args, i)));
    node->data = py_ref((PyObject *)x);
    if (rush_now.mode & RUSH_MODE_ANOMALY && rush_anomaly_trace) node->made_at = rush_anomaly_trace();
    return node;
}

/* Does the class say how its context is set up? Then forward goes without it. */
static int has_setup(PyObject *cls)
{
    static PyObject *missing; /* what a class has that does not say it */
    if (!missing) {
        PyObject *module = PyImport_ImportModule("rushlight.autograd.function");
        PyObject *base = module ? PyObject_GetAttrString(module, "_SingleLevelFunction") : NULL;
        missing = base ? PyObject_GetAttrString(base, "setup_context") : NULL;
        Py_XDECREF(base);
        Py_XDECREF(module);
        if (!missing) return -1;
    }
    PyObject *setup = PyObject_GetAttrString(cls, "setup_context");
    Py_XDECREF(setup);
    return setup ? setup != missing : -1;
}

/* Function.apply(*args) */
static PyObject *function_apply(PyObject *cls, PyObject *const *args, Py_ssize_t n)
{
    PyObject *made = PyObject_GetAttrString(cls, "_backward_cls"), *ctx = made ? PyObject_CallNoArgs(made) : NULL;
    PyObject *inputs = PyTuple_New(n), *forward = PyObject_GetAttrString(cls, "forward"), *r = NULL, *result = NULL;
    int setup_apart = has_setup(cls);
    Py_XDECREF(made);
    if (!ctx || !inputs || !forward || setup_apart < 0) {
        Py_XDECREF(ctx), Py_XDECREF(inputs), Py_XDECREF(forward);
        return NULL;
    }
    context *x = (context *)ctx;
    bool wants = false;
    size_t mark = rush_scope_open();
    for (Py_ssize_t i = 0; i < n; ++i) PyTuple_SET_ITEM(inputs, i, py_ref(args[i]));
    if (read_inputs(x, inputs, &wants)) goto end;
    uint32_t mode = rush_now.mode;
    rush_now.mode |= RUSH_MODE_NO_GRAD;
    if (!setup_apart) {
        PyObject *all[64], **at = n < 60 ? all : PyMem_Malloc(sizeof *at * (size_t)(n + 1));
        if (at) {
            at[0] = ctx;
            if (n) memcpy(at + 1, args, sizeof *at * (size_t)n);
            r = PyObject_Vectorcall(forward, at, (size_t)(n + 1), NULL);
            if (at != all) PyMem_Free(at);
        }
    } else {
        r = PyObject_Vectorcall(forward, args, (size_t)n, NULL);
        PyObject *setup = r ? PyObject_CallMethod(cls, "setup_context", "OOO", ctx, inputs, r) : NULL;
        if (r && !setup) Py_CLEAR(r);
        Py_XDECREF(setup);
    }
    rush_now.mode = (rush_now.mode & ~RUSH_MODE_NO_GRAD) | (mode & RUSH_MODE_NO_GRAD);
    if (!r) goto end;
    rush_node *node = wants ? make_node(x, inputs, PyTuple_Check(r) ? (int)PyTuple_GET_SIZE(r) : 1) : NULL;
    if (wants && !node) goto end;
    result = finish(x, inputs, r, node);
    rush_node_drop(node); /* the results hold it */
end:
    rush_scope_close(mark);
    Py_XDECREF(r);
    Py_DECREF(forward);
    Py_DECREF(inputs);
    Py_DECREF(ctx);
    return result;
}

/* ---- the context ---- */

static PyObject *context_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    context *x = (context *)type->tp_alloc(type, 0);
    if (x) x->materialize = true;
    return (PyObject *)x;
}

static int context_traverse(PyObject *self, visitproc visit, void *arg)
{
    context *x = (context *)self;
    Py_VISIT(x->dict);
    Py_VISIT(x->to_save);
    Py_VISIT(x->dirty);
    Py_VISIT(x->non_differentiable);
    Py_VISIT(x->saved_for_forward);
    Py_VISIT(x->metadata);
    Py_VISIT(x->next);
    Py_VISIT(x->needs);
    for (int i = 0; i < x->nsaved; ++i) {
        int r = py_visit_tensor(x->saved[i].t, visit, arg);
        if (r) return r;
    }
    return 0;
}

static int context_clear(PyObject *self)
{
    context *x = (context *)self;
    Py_CLEAR(x->dict);
    Py_CLEAR(x->to_save);
    Py_CLEAR(x->dirty);
    Py_CLEAR(x->non_differentiable);
    Py_CLEAR(x->saved_for_forward);
    Py_CLEAR(x->metadata);
    Py_CLEAR(x->next);
    Py_CLEAR(x->needs);
    free_saved(x);
    return 0;
}

static void context_dealloc(PyObject *self)
{
    context *x = (context *)self;
    PyObject_GC_UnTrack(self);
    if (x->weak) PyObject_ClearWeakRefs(self);
    context_clear(self);
    rush_free(x->is_tensor);
    Py_TYPE(self)->tp_free(self);
}

rush_node *py_context_node(PyObject *x) { return PyObject_TypeCheck(x, &type_context) ? ((context *)x)->node : NULL; }

static PyObject *get_saved(PyObject *self, void *unused)
{
    context *x = (context *)self;
    if (x->cleared)
        return PyErr_Format(PyExc_RuntimeError, "saved_tensors can only be accessed once when clear_saved_tensors_on_access=True is set on the autograd.Function. "
                            "Either access saved_tensors only once, or set clear_saved_tensors_on_access=False.");
    if (x->released)
        return PyErr_Format(PyExc_RuntimeError, "Trying to backward through the graph a second time (or directly access saved tensors after they have already been freed). "
                            "Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify retain_graph=True if you need to "
                            "backward through the graph a second time or if you need to access saved tensors after calling backward.");
    if (!x->saved) return x->to_save ? PySequence_Tuple(x->to_save) : x->saved_for_forward ? py_ref(x->saved_for_forward) : PyTuple_New(0);
    if (!x->node) return PyErr_Format(PyExc_RuntimeError, "the graph that saved these tensors is gone");
    PyObject *tuple = saved_values(x, true), *once = tuple ? py_getattr_quiet(self, "clear_saved_tensors_on_access") : NULL;
    if (once == Py_True) {
        free_saved(x);
        x->cleared = true;
    }
    Py_XDECREF(once);
    return tuple;
}

static PyObject *get_needs(PyObject *self, void *unused)
{
    PyObject *needs = ((context *)self)->needs;
    return needs ? py_ref(needs) : PyErr_Format(PyExc_AttributeError, "needs_input_grad");
}
/* What is kept at an offset into the context; None where nothing is. */
static PyObject *get_kept(PyObject *self, void *offset)
{
    PyObject *x = *(PyObject **)((char *)self + (size_t)offset);
    return py_ref(x ? x : Py_None);
}
static int set_kept(PyObject *self, PyObject *value, void *offset)
{
    Py_XINCREF(value);
    Py_XSETREF(*(PyObject **)((char *)self + (size_t)offset), value);
    return 0;
}
static PyObject *get_next(PyObject *self, void *unused)
{
    context *x = (context *)self;
    return x->node ? py_next_functions(x->node) : x->next ? py_ref(x->next) : PyTuple_New(0);
}
static PyObject *get_input_metadata(PyObject *self, void *unused)
{
    context *x = (context *)self;
    return x->node ? py_input_metadata(x->node) : PyList_New(0);
}
static PyObject *yes(PyObject *self, void *unused) { Py_RETURN_TRUE; }
static int put_materialize(PyObject *self, PyObject *value, void *unused)
{
    int on = value ? PyObject_IsTrue(value) : -1;
    if (on >= 0) ((context *)self)->materialize = on;
    return on < 0 ? -1 : 0;
}
static PyObject *context_name(PyObject *self, PyObject *unused) { return PyUnicode_FromString(Py_TYPE(self)->tp_name); }
static PyObject *context_seq(PyObject *self, PyObject *unused)
{
    context *x = (context *)self;
    return PyLong_FromUnsignedLongLong(x->node ? x->node->seq : 0);
}

static PyObject *hook(PyObject *self, PyObject *f, bool pre)
{
    context *x = (context *)self;
    if (!x->node) return PyErr_Format(PyExc_RuntimeError, "the node of this context is gone, or was never made");
    return py_node_register(x->node, f, pre);
}
static PyObject *register_hook(PyObject *self, PyObject *f) { return hook(self, f, false); }
static PyObject *register_prehook(PyObject *self, PyObject *f) { return hook(self, f, true); }

static PyMethodDef context_methods[] = {
    {"apply", (PyCFunction)(void (*)(void))function_apply, METH_FASTCALL | METH_CLASS, "Runs forward and records it."},
    {"name", context_name, METH_NOARGS, "The name of the node."},
    {"_sequence_nr", context_seq, METH_NOARGS, NULL},
    {"register_hook", register_hook, METH_O, "register_hook(f): f(grad_inputs, grad_outputs) is called after the node ran."},
    {"register_prehook", register_prehook, METH_O, "register_prehook(f): f(grad_outputs) is called before the node runs."},
    {NULL},
};
static PyGetSetDef context_getset[] = {
    {"saved_tensors", get_saved, NULL, "What save_for_backward kept."},
    {"saved_variables", get_saved, NULL, NULL},
    {"needs_input_grad", get_needs, set_kept, "Per argument of forward: is its gradient wanted?", (void *)offsetof(context, needs)},
    {"to_save", get_kept, set_kept, "What save_for_backward was given.", (void *)offsetof(context, to_save)},
    {"saved_for_forward", get_kept, set_kept, "What save_for_forward was given.", (void *)offsetof(context, saved_for_forward)},
    {"dirty_tensors", get_kept, set_kept, "What mark_dirty was given.", (void *)offsetof(context, dirty)},
    {"non_differentiable", get_kept, set_kept, "What mark_non_differentiable was given.", (void *)offsetof(context, non_differentiable)},
    {"next_functions", get_next, NULL, "The nodes that its gradients go to."},
    {"_input_metadata", get_input_metadata, NULL, "Shapes and dtypes of the results."},
    {"requires_grad", yes, NULL, NULL},
    {"materialize_grads", NULL, put_materialize, NULL},
    {"metadata", py_dict_at, NULL, "A dictionary for the user.", (void *)offsetof(context, metadata)},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL},
    {NULL},
};
static PyTypeObject type_context = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "torch._C._FunctionBase",
    .tp_basicsize = sizeof(context),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "The context of a custom function, and its node in the graph.",
    .tp_new = context_new,
    .tp_dealloc = context_dealloc,
    .tp_traverse = context_traverse,
    .tp_clear = context_clear,
    .tp_dictoffset = offsetof(context, dict),
    .tp_weaklistoffset = offsetof(context, weak),
    .tp_methods = context_methods,
    .tp_getset = context_getset,
};

int py_customfn_init(PyObject *module)
{
    if (PyType_Ready(&type_context)) return -1;
    return py_add(module, "_FunctionBase", py_ref((PyObject *)&type_context));
}
