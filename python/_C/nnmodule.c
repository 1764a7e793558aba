/* nnmodule.c - the base of torch.nn.Module: its call, and the look-up of parameters, buffers and children.
 *
 * Without hooks, calling a module is calling its forward, with no Python in between. An attribute that is found
 * neither in the class nor in the instance is looked for in _parameters, _buffers and _modules. Everything else about
 * modules, the call with hooks included, is Python (rushlight/nn/modules/module.py).
 */
#include "ext.h"

typedef struct module_object {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject *dict, *weak;
} module_object;

static PyTypeObject type_module;
static PyObject *own_call, *own_getattr; /* what the type's dictionary has: to notice when a class or a patch replaces it */
static PyObject *global_hooks[8];        /* dictionaries of hooks for all modules */
static int nglobal;

enum { FORWARD, CALL, GETATTR, CALL_IMPL, COMPILED, FIRSTLINENO, FIRST_HOOK, LAST_HOOK = FIRST_HOOK + 3, FIRST_HELD, LAST_HELD = FIRST_HELD + 2, NAMES };
static const char *const words[NAMES] = {"forward", "__call__", "__getattr__", "_call_impl", "_compiled_call_impl", "__firstlineno__", "_forward_hooks",
                                         "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks", "_parameters", "_buffers", "_modules"};
static PyObject *names[NAMES];
static PyObject *python_call_impl; /* Module's own _call_impl, for comparison */

/* ---- attributes ---- */

/* Borrowed; NULL without an exception when there is none. */
static PyObject *held(module_object *x, PyObject *name)
{
    for (int k = FIRST_HELD; x->dict && k <= LAST_HELD; ++k) {
        PyObject *all = PyDict_GetItemWithError(x->dict, names[k]);
        if (!all || !PyDict_Check(all)) continue;
        PyObject *value = PyDict_GetItemWithError(all, name);
        if (value || PyErr_Occurred()) return value;
    }
    return NULL;
}

static PyObject *missing(PyObject *self, PyObject *name)
{
    if (!PyErr_Occurred()) PyErr_Format(PyExc_AttributeError, "'%s' object has no attribute '%U'", Py_TYPE(self)->tp_name, name);
    return NULL;
}

static PyObject *getattro(PyObject *self, PyObject *name)
{
    PyObject *x = _PyObject_GenericGetAttrWithDict(self, name, NULL, 1);
    if (x || PyErr_Occurred()) return x;
    x = held((module_object *)self, name);
    return x ? py_ref(x) : missing(self, name);
}

/* For super().__getattr__(name) of classes that have their own. */
static PyObject *getattr_method(PyObject *self, PyObject *name)
{
    PyObject *x = PyUnicode_Check(name) ? held((module_object *)self, name) : NULL;
    return x ? py_ref(x) : missing(self, name);
}

/* ---- the call ---- */

static bool empty(PyObject *x) { return !x || (PyDict_Check(x) && PyDict_GET_SIZE(x) == 0); }

static bool no_hooks(module_object *x)
{
    for (int i = 0; i < nglobal; ++i)
        if (!empty(global_hooks[i])) return false;
    for (int k = FIRST_HOOK; k <= LAST_HOOK; ++k)
        if (!empty(PyDict_GetItemWithError(x->dict, names[k]))) return false;
    return true;
}

/* f(self, *args): the array with self in front. */
static PyObject *call_with_self(PyObject *f, PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    Py_ssize_t n = PyVectorcall_NARGS(nargsf), nkw = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    if (nargsf & PY_VECTORCALL_ARGUMENTS_OFFSET) {
        PyObject **all = (PyObject **)args - 1, *kept = all[0];
        all[0] = self;
        PyObject *r = PyObject_Vectorcall(f, all, (size_t)n + 1, kwnames);
        all[0] = kept;
        return r;
    }
    PyObject *few[16], **all = n + nkw < 16 ? few : PyMem_Malloc(sizeof *all * (size_t)(n + nkw + 1));
    if (!all) return PyErr_NoMemory();
    all[0] = self;
    memcpy(all + 1, args, sizeof *all * (size_t)(n + nkw));
    PyObject *r = PyObject_Vectorcall(f, all, (size_t)n + 1, kwnames);
    if (all != few) PyMem_Free(all);
    return r;
}

/* An attribute as a method of self, called. */
static PyObject *call_attribute(PyObject *self, int which, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    PyObject *f = PyObject_GetAttr(self, names[which]);
    PyObject *r = f ? PyObject_Vectorcall(f, args, nargsf, kwnames) : NULL;
    Py_XDECREF(f);
    return r;
}

static PyObject *call_forward(module_object *x, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    PyObject *self = (PyObject *)x, *f = _PyType_Lookup(Py_TYPE(self), names[FORWARD]);
    if (!f || !PyFunction_Check(f) || PyDict_GetItemWithError(x->dict, names[FORWARD])) return call_attribute(self, FORWARD, args, nargsf, kwnames);
    Py_INCREF(f);
    PyObject *r = call_with_self(f, self, args, nargsf, kwnames);
    Py_DECREF(f);
    return r;
}

static PyObject *call_quietly(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    module_object *x = (module_object *)self;
    PyTypeObject *type = Py_TYPE(self);
    if (!x->dict) return call_attribute(self, CALL_IMPL, args, nargsf, kwnames);
    PyObject *compiled = PyDict_GetItemWithError(x->dict, names[COMPILED]);
    if (compiled && compiled != Py_None) return PyObject_Vectorcall(compiled, args, nargsf, kwnames);
    if (_PyType_Lookup(type, names[CALL_IMPL]) != python_call_impl || PyDict_GetItemWithError(x->dict, names[CALL_IMPL]) || !no_hooks(x))
        return call_attribute(self, CALL_IMPL, args, nargsf, kwnames);
    return call_forward(x, args, nargsf, kwnames);
}

/* Also the road of type(m).__call__(m, ...) and super().__call__(...). */
static PyObject *call_module(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    PyObject *r = call_quietly(self, args, nargsf, kwnames);
    if (RUSH_UNLIKELY(!r)) py_error_in_module(self);
    return r;
}

/* m(...): unless the class, or a patch of Module, has another __call__. */
static PyObject *vectorcall(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    PyObject *f = _PyType_Lookup(Py_TYPE(self), names[CALL]);
    if (RUSH_LIKELY(f == own_call)) return call_module(self, args, nargsf, kwnames);
    if (!f) return PyErr_Format(PyExc_TypeError, "'%s' object is not callable", Py_TYPE(self)->tp_name);
    Py_INCREF(f);
    PyObject *r;
    if (PyFunction_Check(f)) {
        r = call_with_self(f, self, args, nargsf, kwnames);
    } else {
        descrgetfunc get = Py_TYPE(f)->tp_descr_get;
        PyObject *bound = get ? get(f, self, (PyObject *)Py_TYPE(self)) : py_ref(f);
        r = bound ? PyObject_Vectorcall(bound, args, nargsf, kwnames) : NULL;
        Py_XDECREF(bound);
    }
    Py_DECREF(f);
    return r;
}

static PyObject *tp_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    Py_ssize_t n = PyTuple_GET_SIZE(args), nkw = kwargs ? PyDict_GET_SIZE(kwargs) : 0, at = 0, k = 0;
    if (!nkw) return call_module(self, ((PyTupleObject *)args)->ob_item, (size_t)n, NULL);
    PyObject *kwnames = PyTuple_New(nkw), **all = PyMem_Malloc(sizeof *all * (size_t)(n + nkw)), *key, *value, *r = NULL;
    if (kwnames && all) {
        memcpy(all, ((PyTupleObject *)args)->ob_item, sizeof *all * (size_t)n);
        while (PyDict_Next(kwargs, &at, &key, &value)) {
            PyTuple_SET_ITEM(kwnames, k, py_ref(key));
            all[n + k++] = value;
        }
        r = call_module(self, all, (size_t)n, kwnames);
    }
    PyMem_Free(all);
    Py_XDECREF(kwnames);
    return r;
}

/* ---- the type ---- */

static PyObject *module_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *none = PyTuple_New(0); /* __init__ reads the arguments; object's own refuses classes with abstract methods */
    module_object *x = none ? (module_object *)PyBaseObject_Type.tp_new(type, none, NULL) : NULL;
    Py_XDECREF(none);
    if (x) x->call = vectorcall;
    return (PyObject *)x;
}

static int module_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(((module_object *)self)->dict);
    return 0;
}

static int module_clear(PyObject *self)
{
    Py_CLEAR(((module_object *)self)->dict);
    return 0;
}

static void module_dealloc(PyObject *self)
{
    module_object *x = (module_object *)self;
    PyObject_GC_UnTrack(self);
    if (x->weak) PyObject_ClearWeakRefs(self);
    Py_CLEAR(x->dict);
    Py_TYPE(self)->tp_free(self);
}

/* A new subclass: fast attributes and calls, where it does not bring its own. Python's class machinery would take
 * a detour through __getattr__ because the base has one. */
static PyObject *init_subclass(PyObject *cls, PyObject *args, PyObject *kwargs)
{
    PyTypeObject *type = (PyTypeObject *)cls;
    PyObject *super = PyObject_CallFunctionObjArgs((PyObject *)&PySuper_Type, (PyObject *)&type_module, cls, NULL);
    PyObject *next = super ? PyObject_GetAttrString(super, "__init_subclass__") : NULL, *r = next ? PyObject_Call(next, args, kwargs) : NULL;
    Py_XDECREF(next);
    Py_XDECREF(super);
    if (!r) return NULL;
    PyObject *getattribute = _PyType_Lookup(type, PyUnicode_InternFromString("__getattribute__"));
    bool plain = getattribute && Py_IS_TYPE(getattribute, &PyWrapperDescr_Type);
    if (_PyType_Lookup(type, names[GETATTR]) == own_getattr && plain) type->tp_getattro = getattro;
    type->tp_vectorcall_offset = offsetof(module_object, call);
    type->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
    return r;
}

static PyMethodDef methods[] = {
    {"__call__", (PyCFunction)(void (*)(void))call_module, METH_FASTCALL | METH_KEYWORDS | METH_COEXIST,
     "__call__($self, *args, **kwargs)\n--\n\nRuns forward, and the hooks around it."}, /* not a slot's wrapper: inspect.signature() reads this one */
    {"__getattr__", getattr_method, METH_O, "A parameter, buffer or child by name."},
    {"__init_subclass__", (PyCFunction)(void (*)(void))init_subclass, METH_CLASS | METH_VARARGS | METH_KEYWORDS, NULL},
    {NULL},
};
static PyGetSetDef getset[] = {{"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL}, {NULL}};
static PyTypeObject type_module = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "torch.nn.modules.module.Module", /* whose other half, and source, is there */
    .tp_basicsize = sizeof(module_object),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(module_object, call),
    .tp_doc = "The base of Module: call and attribute look-up.",
    .tp_new = module_new,
    .tp_dealloc = module_dealloc,
    .tp_traverse = module_traverse,
    .tp_clear = module_clear,
    .tp_getattro = getattro,
    .tp_call = tp_call,
    .tp_dictoffset = offsetof(module_object, dict),
    .tp_weaklistoffset = offsetof(module_object, weak),
    .tp_methods = methods,
    .tp_getset = getset,
};

/* _set_module_class(Module, (dictionaries of global hooks)) */
static PyObject *set_module_class(PyObject *module, PyObject *args)
{
    PyObject *cls, *hooks;
    if (!PyArg_ParseTuple(args, "OO!", &cls, &PyTuple_Type, &hooks)) return NULL;
    if (PyTuple_GET_SIZE(hooks) > (Py_ssize_t)RUSH_COUNT(global_hooks)) return PyErr_Format(PyExc_ValueError, "too many dictionaries");
    python_call_impl = _PyType_Lookup((PyTypeObject *)cls, names[CALL_IMPL]);
    Py_XINCREF(python_call_impl);
    nglobal = (int)PyTuple_GET_SIZE(hooks);
    for (int i = 0; i < nglobal; ++i) global_hooks[i] = py_ref(PyTuple_GET_ITEM(hooks, i));
    PyObject *line = _PyType_Lookup((PyTypeObject *)cls, names[FIRSTLINENO]); /* since 3.13 inspect asks the class where its source is */
    if (line && PyDict_SetItem(type_module.tp_dict, names[FIRSTLINENO], line)) return NULL;
    PyType_Modified(&type_module);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {{"_set_module_class", set_module_class, METH_VARARGS, "Tells the class Module and the dictionaries of hooks for all modules."}, {NULL}};

int py_nnmodule_init(PyObject *module)
{
    for (int i = 0; i < NAMES; ++i)
        if (!(names[i] = PyUnicode_InternFromString(words[i]))) return -1;
    if (PyType_Ready(&type_module)) return -1;
    own_call = PyDict_GetItem(type_module.tp_dict, names[CALL]);
    own_getattr = PyDict_GetItem(type_module.tp_dict, names[GETATTR]);
    /* What super().__getattribute__ finds, and what a class with a __getattr__ of its own asks first, is Python's: parameters come after. */
    if (PyDict_DelItemString(type_module.tp_dict, "__getattribute__")) return -1;
    PyType_Modified(&type_module);
    return py_add(module, "_ModuleBase", py_ref((PyObject *)&type_module)) || PyModule_AddFunctions(module, functions) ? -1 : 0;
}
