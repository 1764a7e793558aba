/* object.c - objects of the classes of programs (torch.classes): _C._Object, of which rushlight._classes makes the class that they have in Python. */
#include "nested.h"
#include "op/object.h"

typedef struct object_object {
    PyObject_HEAD
    rush_object *o; /* held */
} object_object;

static PyTypeObject *type;

PyObject *py_object(rush_object *o)
{
    static PyTypeObject *shown; /* a subclass */
    if (!shown) {
        PyObject *module = PyImport_ImportModule("rushlight._classes");
        if (module) shown = (PyTypeObject *)PyObject_GetAttrString(module, "ScriptObject");
        Py_XDECREF(module);
        if (!shown) return NULL;
    }
    object_object *x = (object_object *)shown->tp_alloc(shown, 0);
    if (x) x->o = rush_object_keep(o);
    return (PyObject *)x;
}

rush_object *py_object_of(PyObject *x) { return PyObject_TypeCheck(x, type) ? ((object_object *)x)->o : NULL; }

int py_to_object(rush_type_text path, PyObject *x, rush_value *v)
{
    rush_object *o = py_object_of(x);
    if (!o || rush_object_class(o) != rush_class_at(path)) return 0;
    *v = rush_v_object(rush_object_park(rush_object_keep(o))); /* a container may change while the call runs */
    return v->kind == RUSH_V_OBJECT ? 1 : py_raise_int();
}

static void end(PyObject *self)
{
    PyTypeObject *of = Py_TYPE(self);
    rush_object_drop(((object_object *)self)->o);
    of->tp_free(self);
    Py_DECREF(of);
}

static PyObject *path(PyObject *self, void *unused)
{
    rush_object *o = ((object_object *)self)->o;
    return o ? PyUnicode_FromString(rush_class_path(rush_object_class(o))) : PyErr_Format(PyExc_RuntimeError, "this object was not made by its class");
}

/* _class_methods("ns::Name") -> the names of its methods as they were defined, or None: there is no such class */
static PyObject *class_methods(PyObject *module, PyObject *x)
{
    const char *name = PyUnicode_AsUTF8(x);
    if (!name) return NULL;
    if (!rush_class_find(name)) {
        if (rush_error()) return py_raise();
        Py_RETURN_NONE;
    }
    PyObject *list = PyList_New(0);
    size_t n = strlen(name);
    for (const rush_op *op = rush_op_first(); op && list; op = rush_op_next(op)) {
        if (strncmp(op->name, name, n) || strncmp(op->name + n, "::", 2)) continue;
        PyObject *text = PyUnicode_FromString(op->name + n + 2);
        if (!text || PyList_Append(list, text)) Py_CLEAR(list);
        Py_XDECREF(text);
    }
    return list;
}

static PyGetSetDef properties[] = {{"_path", path, NULL, "\"__torch__.torch.classes.ns.Name\"", NULL}, {NULL}};
static PyType_Slot slots[] = {{Py_tp_dealloc, end}, {Py_tp_getset, properties}, {0, NULL}};
static PyType_Spec spec = {"rushlight._C._Object", sizeof(object_object), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
static PyMethodDef functions[] = {{"_class_methods", class_methods, METH_O, "The names of a class's methods, or None."}, {NULL}};

int py_object_init(PyObject *module)
{
    type = (PyTypeObject *)PyType_FromSpec(&spec);
    return !type || py_add(module, "_Object", py_ref((PyObject *)type)) || PyModule_AddFunctions(module, functions) ? -1 : 0;
}
