/* tensor.c - the Python object of a tensor: identity, lifetime, garbage collection.
 *
 * A tensor has at most one Python object. Normally the object owns a reference to the tensor. When Python drops the
 * last reference to an object whose tensor lives on (in a graph, as .grad), and the object has something to lose
 * (attributes, a subclass, weak references), the ownership turns round: the tensor owns the object
 * (RUSH_T_PY_OWNED) until Python asks for it again. Python's collector sees through what C structures hold as long
 * as theirs is the only reference; so cycles through tensors, hooks and graphs are collected.
 */
#include "ext.h"

PyTypeObject *py_Tensor = &py_type_TensorBase;
static PyObject *s_torch_function;

/* ---- wrapping ---- */

#define KEPT 256 /* objects of ended tensors kept for reuse */
static void tensor_dealloc(PyObject *self);
static PyObject *kept[KEPT];
static int nkept;

static inline __attribute__((always_inline)) PyObject *wrap(PyTypeObject *type, rush_tensor *t)
{
    py_tensor *x;
    if (type == py_Tensor && nkept) {
        x = (py_tensor *)kept[--nkept];
        _Py_NewReference((PyObject *)x);
        PyObject_GC_Track(x);
    } else {
        type->tp_dealloc = tensor_dealloc; /* of a class, too, whose metaclass does not call its base's __init__ */
        x = (py_tensor *)type->tp_alloc(type, 0);
        if (!x) return NULL;
    }
    atomic_fetch_add_explicit(&t->refs, 1, memory_order_relaxed);
    x->t = t;
    t->py = x;
    if (RUSH_UNLIKELY(type != py_Tensor) && py_answers_itself(type)) t->flags |= RUSH_T_WATCHED;
    return (PyObject *)x;
}

PyObject *py_wrap_as(PyTypeObject *type, rush_tensor *t) { return wrap(type, t); }

RUSH_HOT PyObject *py_wrap(rush_tensor *t)
{
    if (RUSH_UNLIKELY(!t)) Py_RETURN_NONE;
    if (!t->py) return wrap(py_Tensor, t);
    if (t->flags & RUSH_T_PY_OWNED) { /* the tensor's reference becomes the caller's, and the object owns again */
        t->flags &= ~RUSH_T_PY_OWNED;
        rush_keep(t);
        return t->py;
    }
    return py_ref(t->py);
}

/* ---- the end ---- */

void py_clear_slots(PyTypeObject *type, PyTypeObject *base, PyObject *self)
{
    for (; type && type != base; type = type->tp_base) {
        if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE) || !type->tp_members) continue;
        for (PyMemberDef *m = type->tp_members; m->name; ++m)
            if (m->type == T_OBJECT_EX && !(m->flags & READONLY)) Py_CLEAR(*(PyObject **)((char *)self + m->offset));
    }
}

static bool has_something_to_lose(py_tensor *x)
{
    return x->weak || Py_TYPE(x) != py_Tensor || (x->dict && PyDict_GET_SIZE(x->dict));
}

RUSH_HOT static void tensor_dealloc(PyObject *self)
{
    py_tensor *x = (py_tensor *)self;
    rush_tensor *t = x->t;
    PyTypeObject *type = Py_TYPE(self);
    if (t && t->refs > 1 && has_something_to_lose(x)) {
        Py_SET_REFCNT(self, 1); /* the tensor's */
        t->flags |= RUSH_T_PY_OWNED;
        rush_drop(t);
        return;
    }
    if (type->tp_finalize && PyObject_CallFinalizerFromDealloc(self) < 0) return;
    PyObject_GC_UnTrack(self);
    if (t) t->py = NULL; /* callbacks below may meet the tensor: then it gets another object */
    if (x->weak) PyObject_ClearWeakRefs(self);
    if (type != py_Tensor) py_clear_slots(type, &py_type_TensorBase, self);
    Py_CLEAR(x->dict);
    if (t) {
        x->t = NULL;
        rush_drop(t);
    }
    if (type == py_Tensor && nkept < KEPT) {
        kept[nkept++] = self;
        return;
    }
    type->tp_free(self);
    if (type->tp_flags & Py_TPFLAGS_HEAPTYPE) Py_DECREF(type);
}

bool py_may_end_objects(void)
{
    return Py_IsInitialized() || (PyGILState_GetThisThreadState() && PyGILState_Check());
}

/* The library dropped the last reference to a tensor that owns its object. The object takes the tensor back and is
 * let go: it ends both, unless a weak reference has just brought it to life again. */
static bool python_free(rush_tensor *t)
{
    if (!(t->flags & RUSH_T_PY_OWNED)) return false;
    if (!py_may_end_objects()) return true; /* both stay until the process ends */
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *x = t->py, *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    t->flags &= ~RUSH_T_PY_OWNED;
    atomic_store(&t->refs, 1);
    Py_DECREF(x);
    PyErr_Restore(type, value, trace);
    PyGILState_Release(gil);
    return true;
}

/* ---- the collector's view ---- */

typedef struct walk {
    visitproc visit;
    void *arg;
    rush_node **todo; /* nodes whose only reference was found; long chains are no recursion */
    size_t n, room;
    int stop; /* what visit returned when it was not zero */
} walk;

static int walk_hooks(walk *w, rush_node_hook *hook)
{
    for (; hook; hook = hook->next) {
        PyObject *f = py_hook_callable(hook);
        int r = f ? w->visit(f, w->arg) : 0;
        if (r) return r;
    }
    return 0;
}

static void walk_node_later(walk *w, rush_node *node)
{
    if (!node || node->refs != 1) return;
    if (w->n == w->room) {
        size_t room = w->room ? w->room * 2 : 64;
        rush_node **more = PyMem_RawRealloc(w->todo, room * sizeof *more);
        if (!more) return; /* what is not visited is kept alive */
        w->todo = more;
        w->room = room;
    }
    w->todo[w->n++] = node;
}

static int walk_tensor(walk *w, rush_tensor *t);

static int walk_contents(walk *w, rush_tensor *t)
{
    rush_storage *s = t->storage;
    int r = s && s->py_owned && s->refs == 1 ? w->visit(s->py, w->arg) : 0;
    if (!r && t->ag) {
        r = walk_hooks(w, t->ag->hooks);
        if (!r) r = walk_hooks(w, t->ag->post_accumulate);
        if (!r) r = walk_tensor(w, t->ag->grad);
        if (!r) walk_node_later(w, t->ag->fn);
    }
    return r ? r : walk_tensor(w, t->base);
}

static int walk_tensor(walk *w, rush_tensor *t)
{
    if (!t || t->refs != 1) return 0;
    if (t->py) return t->flags & RUSH_T_PY_OWNED ? w->visit(t->py, w->arg) : 0;
    return walk_contents(w, t);
}

static int walk_saved(rush_tensor *t, void *w) { return ((walk *)w)->stop ? 0 : (((walk *)w)->stop = walk_tensor(w, t)); }

static int walk_nodes(walk *w)
{
    int r = 0;
    while (!r && w->n) {
        rush_node *node = w->todo[--w->n];
        r = walk_hooks(w, node->hooks);
        if (!r && node->kind->visit) node->kind->visit(node, walk_saved, w), r = w->stop;
        if (!r && py_node_python_object(node)) r = w->visit(py_node_python_object(node), w->arg);
        for (int i = 0; i < node->nedge; ++i) walk_node_later(w, node->edge[i].node);
    }
    PyMem_RawFree(w->todo);
    return r;
}

int py_visit_tensor(rush_tensor *t, visitproc visit, void *arg)
{
    walk w = {visit, arg};
    int r = walk_tensor(&w, t), r2 = walk_nodes(&w);
    return r ? r : r2;
}

int py_visit_node(rush_node *node, visitproc visit, void *arg)
{
    walk w = {visit, arg};
    walk_node_later(&w, node);
    return walk_nodes(&w);
}

static int tensor_traverse(PyObject *self, visitproc visit, void *arg)
{
    py_tensor *x = (py_tensor *)self;
    if (x->t && x->t->refs != 1) return 0; /* the library has it, too: nothing that hangs on it is to be collected */
    Py_VISIT(x->dict);
    if (!x->t) return 0;
    walk w = {visit, arg};
    int r = walk_contents(&w, x->t), r2 = walk_nodes(&w);
    return r ? r : r2;
}

static void free_hooks(rush_node_hook **list)
{
    while (*list) rush_node_hook_remove(list, (*list)->id);
}

static int tensor_clear(PyObject *self)
{
    py_tensor *x = (py_tensor *)self;
    Py_CLEAR(x->dict);
    rush_autograd *ag = x->t && x->t->refs == 1 ? x->t->ag : NULL;
    if (!ag) return 0;
    free_hooks(&ag->hooks);
    free_hooks(&ag->post_accumulate);
    rush_tensor *grad = ag->grad;
    rush_node *fn = ag->fn;
    ag->grad = NULL;
    ag->fn = NULL;
    if (fn) rush_node_drop(fn);
    rush_drop(grad);
    return 0;
}

/* ---- the types ---- */

/* In __init__, since a metaclass that derives from Python's ABCMeta, too, may not have a __new__ of C's beside type's.
   Classes derived from TensorBase get our end instead of Python's, which would not survive the turn of ownership. */
static int meta_init(PyObject *self, PyObject *args, PyObject *kwargs)
{
    if (PyType_Type.tp_init(self, args, kwargs)) return -1;
    PyTypeObject *type = (PyTypeObject *)self;
    type->tp_dealloc = tensor_dealloc;
    /* A class that answers for operations is not asked for functions, too, unless it says so. */
    PyObject *f = py_answers_itself(type) ? _PyType_Lookup(type, s_torch_function) : NULL;
    return f && f == _PyType_Lookup(&py_type_TensorBase, s_torch_function) ? PyObject_SetAttr(self, s_torch_function, py_disabled_torch_function) : 0;
}

PyTypeObject py_type_TensorMeta = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "torch._C._TensorMeta",
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_doc = "The class of Tensor and its subclasses.",
    .tp_init = meta_init,
};

static PyMappingMethods mapping; /* filled below: its functions are elsewhere */
static PySequenceMethods sequence;
/* id(), as programs take for granted. */
Py_hash_t py_tensor_hash(PyObject *self) { return (Py_hash_t)self; }

static PyGetSetDef own_getset[] = {{"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL}, {NULL}};

PyTypeObject py_type_TensorBase = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "torch._C.TensorBase",
    .tp_basicsize = sizeof(py_tensor),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "What Tensor is made of.",
    .tp_new = py_legacy_new,
    .tp_dealloc = tensor_dealloc,
    .tp_traverse = tensor_traverse,
    .tp_clear = tensor_clear,
    .tp_dictoffset = offsetof(py_tensor, dict),
    .tp_getset = own_getset,
    .tp_weaklistoffset = offsetof(py_tensor, weak),
    .tp_hash = py_tensor_hash,
    .tp_richcompare = py_tensor_richcompare,
    .tp_as_number = &py_tensor_number,
    .tp_as_mapping = &mapping,
    .tp_as_sequence = &sequence,
    .tp_as_buffer = &py_tensor_buffer,
    .tp_iter = py_tensor_iter,
};

/* The class that new tensors appear as. */
static PyObject *set_tensor_class(PyObject *module, PyObject *x)
{
    if (!PyType_Check(x) || !PyType_IsSubtype((PyTypeObject *)x, &py_type_TensorBase))
        return PyErr_Format(PyExc_TypeError, "a subclass of TensorBase was expected");
    Py_INCREF(x);
    py_Tensor = (PyTypeObject *)x;
    nkept = 0;
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {{"_set_tensor_class", set_tensor_class, METH_O, "The class that new tensors appear as."}, {NULL}};

int py_tensor_init(PyObject *module)
{
    rush_python_free = python_free;
    if (!(s_torch_function = PyUnicode_InternFromString("__torch_function__"))) return -1;
    mapping = (PyMappingMethods){.mp_length = py_tensor_length, .mp_subscript = py_tensor_getitem, .mp_ass_subscript = py_tensor_setitem};
    sequence = (PySequenceMethods){.sq_length = py_tensor_length};
    py_type_TensorMeta.tp_base = &PyType_Type;
    if (PyType_Ready(&py_type_TensorMeta)) return -1;
    Py_SET_TYPE(&py_type_TensorBase, &py_type_TensorMeta);
    if (PyType_Ready(&py_type_TensorBase)) return -1;
    return py_add(module, "_TensorMeta", py_ref((PyObject *)&py_type_TensorMeta)) ||
                   py_add(module, "TensorBase", py_ref((PyObject *)&py_type_TensorBase)) || PyModule_AddFunctions(module, functions)
               ? -1 : 0;
}
