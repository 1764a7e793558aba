/* node.c - grad_fn objects: nodes of the graph as Python sees them.
 *
 * Each name ("AddBackward0") is a class of its own, made when it is first met. The object of a Python function's node
 * is its context (customfn.c).
 */
#include "ext.h"

typedef struct node_object {
    PyObject_HEAD
    rush_node *node; /* owned; its `py` points back */
    PyObject *metadata, *weak;
} node_object;
#define NODE(x) (((node_object *)(x))->node)

static PyTypeObject type_node;
static PyObject *classes; /* name -> class */

static int node_traverse(PyObject *, visitproc, void *);
static int node_clear(PyObject *);
static void node_dealloc(PyObject *);

static PyObject *class_for(const char *name)
{
    PyObject *key = PyUnicode_FromString(name), *type = key ? PyDict_GetItem(classes, key) : NULL;
    if (!key) return NULL;
    if (!type) {
        PyType_Slot slots[] = {{Py_tp_dealloc, node_dealloc}, {Py_tp_traverse, node_traverse}, {Py_tp_clear, node_clear}, {0, NULL}};
        static const char module[] = "torch.autograd.graph.";
        char *kept = rush_malloc(sizeof module + strlen(name));
        PyType_Spec spec = {.name = kept, .basicsize = sizeof(node_object), .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, .slots = slots};
        PyObject *bases = kept ? PyTuple_Pack(1, &type_node) : NULL;
        if (kept) strcat(strcpy(kept, module), name);
        type = bases ? PyType_FromSpecWithBases(&spec, bases) : NULL;
        Py_XDECREF(bases);
        if (type) ((PyTypeObject *)type)->tp_name = strrchr(kept, '.') + 1; /* as messages show it */
        if (type && PyDict_SetItem(classes, key, type)) Py_CLEAR(type);
        Py_XDECREF(type); /* the dictionary keeps it */
    }
    Py_DECREF(key);
    return type;
}

PyObject *py_node_of(rush_node *node)
{
    if (!node) Py_RETURN_NONE;
    PyObject *own = py_node_python_object(node);
    if (own) return py_ref(own);
    if (node->py) return py_ref(node->py);
    PyTypeObject *type = (PyTypeObject *)class_for(node->kind->name(node));
    node_object *x = type ? (node_object *)type->tp_alloc(type, 0) : NULL;
    if (!x) return NULL;
    rush_node_keep(node);
    x->node = node;
    node->py = x;
    return (PyObject *)x;
}

static int node_traverse(PyObject *self, visitproc visit, void *arg)
{
    node_object *x = (node_object *)self;
    Py_VISIT(x->metadata);
    if (Py_TYPE(self)->tp_flags & Py_TPFLAGS_HEAPTYPE) Py_VISIT(Py_TYPE(self));
    return x->node ? py_visit_node(x->node, visit, arg) : 0;
}

static int node_clear(PyObject *self)
{
    Py_CLEAR(((node_object *)self)->metadata);
    return 0;
}

static void node_dealloc(PyObject *self)
{
    node_object *x = (node_object *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (x->weak) PyObject_ClearWeakRefs(self);
    Py_CLEAR(x->metadata);
    if (x->node) {
        x->node->py = NULL;
        rush_node_drop(x->node);
    }
    type->tp_free(self);
    Py_DECREF(type);
}

rush_node *py_node_behind(PyObject *x)
{
    return PyObject_TypeCheck(x, &type_node) ? NODE(x) : py_context_node(x);
}

static PyObject *node_repr(PyObject *self) { return PyUnicode_FromFormat("<%s object at %p>", Py_TYPE(self)->tp_name, self); }
static PyObject *node_name(PyObject *self, PyObject *unused)
{
    const rush_node *node = NODE(self);
    const char *name = node->kind->name(node);
    bool own = !strcmp(name, "AccumulateGrad") || !strcmp(name, "CopySlices") || !strcmp(name, "CopyBackwards") || !strcmp(name, "NotImplemented");
    return PyUnicode_FromFormat(own ? "torch::autograd::%s" : "%s", name); /* C++ names classes without a derivative's number so */
}
static PyObject *node_seq(PyObject *self, PyObject *unused) { return PyLong_FromUnsignedLongLong(NODE(self)->seq); }
static PyObject *node_hook(PyObject *self, PyObject *f) { return py_node_register(NODE(self), f, false); }
static PyObject *node_prehook(PyObject *self, PyObject *f) { return py_node_register(NODE(self), f, true); }

PyObject *py_dict_at(PyObject *self, void *offset)
{
    PyObject **slot = (PyObject **)((char *)self + (size_t)offset);
    return *slot || (*slot = PyDict_New()) ? py_ref(*slot) : NULL;
}

PyObject *py_next_functions(rush_node *node)
{
    PyObject *tuple = PyTuple_New(node->nedge);
    for (int i = 0; tuple && i < node->nedge; ++i) {
        PyObject *next = py_node_of(node->edge[i].node), *pair = next ? Py_BuildValue("NI", next, node->edge[i].slot) : NULL;
        if (!pair) Py_CLEAR(tuple);
        else PyTuple_SET_ITEM(tuple, i, pair);
    }
    return tuple;
}
static PyObject *get_next(PyObject *self, void *unused) { return py_next_functions(NODE(self)); }

static PyStructSequence_Field metadata_fields[] = {{"shape", NULL}, {"dtype", NULL}, {"device", NULL}, {"is_nested_tensor", NULL}, {"is_cpp_nested_tensor", NULL}, {NULL}};
static PyStructSequence_Desc metadata_desc = {.name = "torch._C._autograd._InputMetadata", .fields = metadata_fields, .n_in_sequence = 5};
static PyTypeObject *type_metadata;

static PyObject *metadata_of(const rush_tensor *t)
{
    if (!type_metadata && !(type_metadata = PyStructSequence_NewType(&metadata_desc))) return NULL;
    PyObject *field[] = {py_size(t->ndim, t->size), py_dtype(t->dtype), py_device(t->device), py_ref(Py_False), py_ref(Py_False)};
    PyObject *x = PyStructSequence_New(type_metadata);
    for (int i = 0; i < (int)RUSH_COUNT(field); ++i) {
        if (!field[i]) Py_CLEAR(x);
        if (x) PyStructSequence_SetItem(x, i, field[i]);
        else Py_XDECREF(field[i]);
    }
    return x;
}

/* Shapes and dtypes of the results, as tensors on meta would show them. */
PyObject *py_input_metadata(rush_node *node)
{
    PyObject *list = PyList_New(0);
    for (int i = 0; list && i < node->nout; ++i) {
        const rush_tensor *t = node->kind == &rush_accumulate_kind ? node->data : node->shape[i];
        PyObject *item = t ? metadata_of(t) : py_ref(Py_None);
        if (!item || PyList_Append(list, item)) Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static PyObject *get_input_metadata(PyObject *self, void *unused) { return py_input_metadata(NODE(self)); }

rush_tensor *py_tensor_at_edge(PyObject *x)
{
    rush_node *node = PyTuple_Check(x) && PyTuple_GET_SIZE(x) > 1 ? py_node_behind(PyTuple_GET_ITEM(x, 0)) : NULL;
    if (!node) return NULL;
    long slot = PyLong_AsLong(PyTuple_GET_ITEM(x, 1));
    if (slot == -1 && PyErr_Occurred()) return NULL;
    rush_tensor *t = rush_node_result(node, (int)slot);
    if (!t) py_raise();
    return t;
}

/* grad_fn._saved_self, _saved_dim, ...: what the forward call kept, by the schema's names; accumulators: variable */
static PyObject *saved(rush_node *node, const char *name)
{
    const rush_op *op = node->op;
    int k = 0;
    for (int i = 0; i < op->nargs; ++i) {
        const rush_value *v = &node->in[i];
        int n = v->kind == RUSH_V_TENSOR ? 1 : v->kind == RUSH_V_TENSORS ? (int)v->n : 0;
        if (strcmp(op->args[i].name, name)) {
            k += n;
            continue;
        }
        if (v->kind != RUSH_V_TENSOR) {
            PyObject *x = v->kind == RUSH_V_TENSORS ? NULL : py_from_value(v);
            if (x && PyList_Check(x)) Py_SETREF(x, PySequence_Tuple(x));
            return x;
        }
        if (node->saved[k].shape_only) return NULL;
        if (node->released) goto gone;
        rush_tensor *t = rush_saved_read(&node->saved[k], node, true);
        return t ? py_wrap(t) : rush_failed() ? py_raise() : py_ref(Py_None);
    }
    k = (int)node->nsaved - __builtin_popcount(op->saves_out);
    for (int i = 0; i < op->nout; ++i) {
        char result[16];
        snprintf(result, sizeof result, i ? "result%d" : "result", i);
        bool here = op->saves_out >> i & 1 && !node->saved[k].shape_only;
        bool match = !strcmp(name, result) || (op->out_names[i] && !strcmp(name, op->out_names[i]));
        if (here && match) {
            if (node->released) goto gone;
            rush_tensor *t = rush_saved_read(&node->saved[k], node, true);
            return t ? py_wrap(t) : rush_failed() ? py_raise() : py_ref(Py_None);
        }
        k += op->saves_out >> i & 1;
    }
    return NULL;
gone:
    return PyErr_Format(PyExc_RuntimeError, "Trying to backward through the graph a second time (or directly access saved tensors after they have already been freed). "
                        "Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify retain_graph=True if you need to "
                        "backward through the graph a second time or if you need to access saved tensors after calling backward.");
}

static PyObject *node_getattr(PyObject *self, PyObject *name)
{
    PyObject *x = PyObject_GenericGetAttr(self, name);
    rush_node *node = NODE(self);
    if (x || !PyErr_ExceptionMatches(PyExc_AttributeError)) return x;
    const char *text = PyUnicode_AsUTF8(name);
    if (!text) return NULL;
    if (!strcmp(text, "variable") && node->kind == &rush_accumulate_kind) {
        PyErr_Clear();
        return py_wrap(node->data);
    }
    if (strncmp(text, "_saved_", 7) || !node->op || node->kind != &rush_op_kind) return NULL;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    size_t mark = rush_scope_open();
    x = saved(node, text + 7);
    rush_scope_close(mark);
    if (x || PyErr_Occurred()) Py_XDECREF(type), Py_XDECREF(value), Py_XDECREF(trace);
    else PyErr_Restore(type, value, trace);
    return x;
}

/* The names that only node_getattr knows, for those who look for what starts with _saved_. */
static PyObject *node_dir(PyObject *self, PyObject *unused)
{
    rush_node *node = NODE(self);
    PyObject *object = (PyObject *)&PyBaseObject_Type, *list = PyObject_CallMethod(object, "__dir__", "O", self);
    const rush_op *op = node->kind == &rush_op_kind ? node->op : NULL;
    char result[16];
    for (int i = 0, k = 0; list && op && i < op->nargs + op->nout; ++i) {
        const rush_value *v = i < op->nargs ? &node->in[i] : NULL;
        const char *name = v ? op->args[i].name : op->out_names[i - op->nargs];
        int n = !v ? op->saves_out >> (i - op->nargs) & 1 : v->kind == RUSH_V_TENSOR ? 1 : v->kind == RUSH_V_TENSORS ? (int)v->n : 0;
        bool here = v ? v->kind != RUSH_V_TENSORS && (!n || !node->saved[k].shape_only) : n && !node->saved[k].shape_only;
        k += n;
        if (!v && !name) snprintf(result, sizeof result, i > op->nargs ? "result%d" : "result", i - op->nargs), name = result;
        PyObject *word = here ? PyUnicode_FromFormat("_saved_%s", name) : NULL;
        if (here && (!word || PyList_Append(list, word))) Py_CLEAR(list);
        Py_XDECREF(word);
    }
    return list;
}

/* grad_fn(gradients): the derivative alone, without hooks and the rest of the graph. */
static PyObject *node_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    rush_node *node = NODE(self);
    Py_ssize_t given = PyTuple_GET_SIZE(args);
    if (kwargs && PyDict_GET_SIZE(kwargs)) return PyErr_Format(PyExc_TypeError, "keyword arguments are not supported");
    if (given != node->nout) return PyErr_Format(PyExc_TypeError, "expected %d arguments, got %zd instead", node->nout, given);
    size_t mark = rush_scope_open();
    rush_tensor **g = rush_scope_alloc(sizeof *g * (node->nout + node->nedge + 1)), **gin = g + node->nout;
    PyObject *all = NULL;
    bool any = false;
    for (int i = 0; g && i < node->nout; ++i) {
        PyObject *x = PyTuple_GET_ITEM(args, i);
        if (x != Py_None && !py_is_tensor(x)) {
            PyErr_Format(PyExc_TypeError, "argument %d is not a Variable", i);
            goto done;
        }
        g[i] = x == Py_None ? NULL : py_tensor_of(x);
        any |= g[i] != NULL;
    }
    for (int i = 0; g && i < node->nedge; ++i) gin[i] = NULL;
    if (!g || (any && node->kind->apply(node, g, gin))) {
        py_raise();
        goto done;
    }
    all = PyTuple_New(node->nedge);
    for (int i = 0; all && i < node->nedge; ++i) {
        PyObject *x = gin[i] ? py_wrap(gin[i]) : py_ref(Py_None);
        if (!x) Py_CLEAR(all);
        else PyTuple_SET_ITEM(all, i, x);
    }
    if (all && node->nedge == 1) Py_SETREF(all, py_ref(PyTuple_GET_ITEM(all, 0)));
done:
    rush_scope_close(mark);
    return all;
}

static PyMethodDef node_methods[] = {
    {"__dir__", node_dir, METH_NOARGS, NULL},
    {"name", node_name, METH_NOARGS, "The name: AddBackward0, AccumulateGrad, ..."},
    {"_sequence_nr", node_seq, METH_NOARGS, "Later calls have larger numbers."},
    {"register_hook", node_hook, METH_O, "register_hook(f): f(grad_inputs, grad_outputs) is called after the node ran, and may replace grad_inputs."},
    {"register_prehook", node_prehook, METH_O, "register_prehook(f): f(grad_outputs) is called before the node runs, and may replace them."},
    {NULL},
};
static PyGetSetDef node_getset[] = {
    {"next_functions", get_next, NULL, "The nodes that its gradients go to, each with the number of the result there."},
    {"metadata", py_dict_at, NULL, "A dictionary for the user.", (void *)offsetof(node_object, metadata)},
    {"_input_metadata", get_input_metadata, NULL, NULL},
    {NULL},
};
static PyTypeObject type_node = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "torch.autograd.graph.Node",
    .tp_basicsize = sizeof(node_object),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "A node of the graph of recorded operations.",
    .tp_dealloc = node_dealloc,
    .tp_traverse = node_traverse,
    .tp_clear = node_clear,
    .tp_repr = node_repr,
    .tp_call = node_call,
    .tp_getattro = node_getattr,
    .tp_weaklistoffset = offsetof(node_object, weak),
    .tp_methods = node_methods,
    .tp_getset = node_getset,
};

int py_node_init(PyObject *module)
{
    if (PyType_Ready(&type_node) || !(classes = PyDict_New())) return -1;
    return py_add(module, "_Node", py_ref((PyObject *)&type_node));
}
