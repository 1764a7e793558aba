/* script.c - programs of src/script for Python: _C._ScriptUnit, which has functions and classes, and _C._ScriptObject.
 *
 * Values cross by copy, as in PyTorch: numbers, texts, lists, tuples and dictionaries become Python's own, objects of Python's classes
 * those of the program's; tensors are the same tensors on both sides. The program's objects are wrapped: rushlight.jit makes modules of
 * them, and objects of Python's classes.
 */
#include "ext.h"
#include "io/content.h"
#include "script/script.h"

typedef struct unit_object {
    PyObject_HEAD
    script_unit *u;
    PyObject *classes; /* {class of Python: its path in the program} */
} unit_object;

typedef struct script_thing {
    PyObject_HEAD
    PyObject *unit; /* a unit_object: what the object's class belongs to */
    script_value v;
} script_thing;

static PyTypeObject *unit_type, *thing_type;
static PyObject *named_tuples; /* {class path: namedtuple class} */

/* ---- values ---- */

static PyObject *wrap(PyObject *unit, script_value v)
{
    script_thing *x = (script_thing *)thing_type->tp_alloc(thing_type, 0);
    if (!x) return NULL;
    x->unit = py_ref(unit);
    x->v = rush_script_keep(v);
    return (PyObject *)x;
}

static PyObject *to_python(PyObject *unit, script_value v);

static PyObject *named_tuple(const script_class *type)
{
    PyObject *made = PyDict_GetItemString(named_tuples, type->path);
    if (made) return made;
    PyObject *module = PyImport_ImportModule("collections"), *names = PyList_New(0);
    const char *dot = strrchr(type->path, '.');
    for (uint32_t i = 0; names && i < type->nfields; ++i) {
        PyObject *name = PyUnicode_FromString(type->field[i].name);
        if (!name || PyList_Append(names, name)) Py_CLEAR(names);
        Py_XDECREF(name);
    }
    made = module && names ? PyObject_CallMethod(module, "namedtuple", "sO", dot ? dot + 1 : type->path, names) : NULL;
    Py_XDECREF(module);
    Py_XDECREF(names);
    if (!made || PyDict_SetItemString(named_tuples, type->path, made)) return Py_XDECREF(made), NULL;
    Py_DECREF(made); /* the dictionary has it */
    return made;
}

static PyObject *items_to_python(PyObject *unit, const script_box *b)
{
    bool list = b->kind == SCRIPT_LIST;
    PyObject *x = list ? PyList_New((Py_ssize_t)b->n) : PyTuple_New((Py_ssize_t)b->n);
    for (size_t i = 0; x && i < b->n; ++i) {
        PyObject *item = to_python(unit, b->item[i]);
        if (!item) Py_CLEAR(x);
        else if (list) PyList_SET_ITEM(x, (Py_ssize_t)i, item);
        else PyTuple_SET_ITEM(x, (Py_ssize_t)i, item);
    }
    if (!x || list || !b->type) return x;
    PyObject *type = named_tuple(b->type), *made = type ? PyObject_CallObject(type, x) : NULL;
    Py_DECREF(x);
    return made;
}

static PyObject *dict_to_python(PyObject *unit, const script_box *b)
{
    PyObject *d = PyDict_New();
    for (size_t i = 0; d && i + 1 < b->n; i += 2) {
        PyObject *key = to_python(unit, b->item[i]), *v = key ? to_python(unit, b->item[i + 1]) : NULL;
        if (!v || PyDict_SetItem(d, key, v)) Py_CLEAR(d);
        Py_XDECREF(key);
        Py_XDECREF(v);
    }
    return d;
}

static PyObject *to_python(PyObject *unit, script_value v)
{
    switch (v.kind) {
    case SCRIPT_BOOL: return PyBool_FromLong(v.i != 0);
    case SCRIPT_INT: return PyLong_FromLongLong(v.i);
    case SCRIPT_FLOAT: return PyFloat_FromDouble(v.f);
    case SCRIPT_COMPLEX: return PyComplex_FromDoubles(v.c[0], v.c[1]);
    case SCRIPT_TENSOR: return py_wrap(v.t);
    case SCRIPT_DEVICE: return py_device(v.device);
    case SCRIPT_TEXT: return PyUnicode_DecodeUTF8(v.box->text, (Py_ssize_t)v.box->n, "surrogateescape");
    case SCRIPT_LIST: case SCRIPT_TUPLE: return items_to_python(unit, v.box);
    case SCRIPT_DICT: return dict_to_python(unit, v.box);
    case SCRIPT_OBJECT: return wrap(unit, v);
    case SCRIPT_FOREIGN: return py_object(v.object);
    default: Py_RETURN_NONE;
    }
}

static int from_python(PyObject *unit, PyObject *x, script_value *out);

static int object_from_python(PyObject *unit, PyObject *x, PyObject *path, script_value *out) /* attribute by attribute */
{
    const char *s = PyUnicode_AsUTF8(path);
    const script_class *c = s ? rush_script_class_find(((unit_object *)unit)->u, s) : NULL;
    if (!c) return s ? PyErr_Format(PyExc_RuntimeError, "there is no class '%s'", s), -1 : -1;
    if ((*out = rush_script_object(c)).kind == SCRIPT_UNSET) return py_raise_int();
    for (uint32_t i = 0; i < c->nfields; ++i) {
        if (c->field[i].fixed) continue;
        PyObject *held = py_getattr_quiet(x, c->field[i].name);
        if (!held && !PyErr_Occurred()) PyErr_Format(PyExc_RuntimeError, "Tried to cast object to type %s but object was missing attribute %s", s, c->field[i].name);
        script_value v;
        int failed = !held || from_python(unit, held, &v);
        Py_XDECREF(held);
        if (failed) return rush_script_drop(*out), -1;
        failed = rush_script_attribute_set(*out, c->field[i].name, v);
        rush_script_drop(v);
        if (failed) return rush_script_drop(*out), py_raise_int();
    }
    return 0;
}

static int items_from_python(PyObject *unit, PyObject *x, script_value *out)
{
    *out = rush_script_list(PyList_Check(x) ? SCRIPT_LIST : SCRIPT_TUPLE, 0, NULL);
    if (out->kind == SCRIPT_UNSET) return py_raise_int();
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(x); ++i) {
        PyObject *item = py_list_item(x, i);
        script_value v;
        int failed = !item || from_python(unit, item, &v);
        Py_XDECREF(item);
        if (failed) return rush_script_drop(*out), -1;
        failed = rush_script_append(out->box, v);
        rush_script_drop(v);
        if (failed) return rush_script_drop(*out), py_raise_int();
    }
    return 0;
}

static int dict_from_python(PyObject *unit, PyObject *x, script_value *out)
{
    *out = rush_script_dict();
    PyObject *items = out->kind == SCRIPT_UNSET ? (PyObject *)py_raise() : PyDict_Items(x);
    int failed = !items;
    for (Py_ssize_t i = 0; !failed && i < PyList_GET_SIZE(items); ++i) {
        script_value key, v;
        PyObject *pair = PyList_GET_ITEM(items, i);
        if ((failed = from_python(unit, PyTuple_GET_ITEM(pair, 0), &key))) break;
        if (!(failed = from_python(unit, PyTuple_GET_ITEM(pair, 1), &v))) {
            if ((failed = rush_script_dict_set(out->box, key, v))) py_raise();
            rush_script_drop(v);
        }
        rush_script_drop(key);
    }
    Py_XDECREF(items);
    if (failed) rush_script_drop(*out);
    return failed ? -1 : 0;
}

static bool is_enum(PyObject *x)
{
    static PyObject *Enum;
    PyObject *module = Enum ? NULL : PyImport_ImportModule("enum");
    if (module) Enum = PyObject_GetAttrString(module, "Enum");
    Py_XDECREF(module);
    return Enum && PyObject_IsInstance(x, Enum) > 0;
}

static int from_python(PyObject *unit, PyObject *x, script_value *out) /* unit: whose classes objects have; NULL: none has one */
{
    int dtype;
    rush_device device;
    rush_value number;
    if (x == Py_None) return *out = SCRIPT_NOTHING, 0;
    if (PyBool_Check(x)) return *out = script_of_bool(x == Py_True), 0;
    if (py_is_tensor(x)) return *out = rush_script_of_tensor(py_tensor_of(x)), 0;
    if (PyUnicode_Check(x)) {
        Py_ssize_t n;
        const char *s = PyUnicode_AsUTF8AndSize(x, &n);
        if (!s) return -1;
        return (*out = rush_script_text(s, (size_t)n)).kind == SCRIPT_UNSET ? py_raise_int() : 0;
    }
    if (PyList_Check(x) || PyTuple_Check(x)) {
        if (Py_EnterRecursiveCall(" while a value is handed to a program")) return -1;
        int failed = items_from_python(unit, x, out);
        Py_LeaveRecursiveCall();
        return failed;
    }
    if (PyRange_Check(x)) {
        PyObject *list = PySequence_List(x);
        int failed = list ? items_from_python(unit, list, out) : -1;
        Py_XDECREF(list);
        return failed;
    }
    if (PyDict_Check(x)) {
        if (Py_EnterRecursiveCall(" while a value is handed to a program")) return -1;
        int failed = dict_from_python(unit, x, out);
        Py_LeaveRecursiveCall();
        return failed;
    }
    if (py_object_of(x)) return *out = rush_script_of_object(py_object_of(x)), 0;
    if (Py_TYPE(x) == thing_type) return *out = rush_script_keep(((script_thing *)x)->v), 0;
    if (Py_TYPE(x) == &py_type_dtype) return py_to_dtype(x, &dtype) < 0 ? -1 : (*out = script_of_int(rush_script_dtype_code(dtype)), 0);
    if (Py_TYPE(x) == &py_type_device) return py_to_device(x, &device) < 0 ? -1 : (*out = (script_value){.kind = SCRIPT_DEVICE, .device = device}, 0);
    if (Py_TYPE(x) == &py_type_layout) return *out = script_of_int(rush_script_layout_code(py_constant_value(x))), 0;
    if (Py_TYPE(x) == &py_type_memory_format) return *out = script_of_int(py_constant_value(x)), 0;
    if (PyComplex_Check(x)) return *out = (script_value){.kind = SCRIPT_COMPLEX, .c = {PyComplex_RealAsDouble(x), PyComplex_ImagAsDouble(x)}}, 0;
    int r = py_plain_number(x, &number);
    if (r < 0) return -1;
    if (r && number.kind == RUSH_V_INT) return *out = script_of_int(number.i), 0;
    if (r && number.kind == RUSH_V_FLOAT) return *out = script_of_float(number.f), 0;
    if (r && number.kind == RUSH_V_BOOL) return *out = script_of_bool(number.i), 0;
    PyObject *path = unit ? PyDict_GetItemWithError(((unit_object *)unit)->classes, (PyObject *)Py_TYPE(x)) : NULL;
    if (path) {
        if (Py_EnterRecursiveCall(" while a value is handed to a program")) return -1;
        int failed = object_from_python(unit, x, path, out);
        Py_LeaveRecursiveCall();
        return failed;
    }
    if (is_enum(x)) { /* programs have members of enums as their values */
        PyObject *value = PyObject_GetAttrString(x, "value");
        int failed = value ? from_python(unit, value, out) : -1;
        Py_XDECREF(value);
        return failed;
    }
    PyObject *inner = py_getattr_quiet(x, "_c");
    if (inner && Py_TYPE(inner) == thing_type) return *out = rush_script_keep(((script_thing *)inner)->v), Py_DECREF(inner), 0;
    Py_XDECREF(inner);
    if (!PyErr_Occurred()) PyErr_Format(PyExc_TypeError, "a program cannot be given a value of type '%s'", Py_TYPE(x)->tp_name);
    return -1;
}

/* ---- calls ---- */

/* What a program raises itself is torch.jit.Error. */
static void raise_from_program(void)
{
    PyObject *jit = rush_script_raised() ? PyImport_ImportModule("rushlight.jit") : NULL, *error = jit ? PyObject_GetAttrString(jit, "Error") : NULL;
    Py_XDECREF(jit);
    if (!error) {
        PyErr_Clear();
        py_raise();
        return;
    }
    PyErr_SetString(error, rush_error());
    Py_DECREF(error);
    rush_error_clear();
}

static PyObject *run(PyObject *unit, const script_function *f, script_value self, PyObject *args, PyObject *kwargs)
{
    Py_ssize_t n = PyTuple_GET_SIZE(args), m = kwargs ? PyDict_GET_SIZE(kwargs) : 0, done = 0, at = 0;
    script_value *in = PyMem_Calloc((size_t)(n + m) + 1, sizeof *in), out;
    const char **names = PyMem_Calloc((size_t)(n + m) + 1, sizeof *names);
    PyObject *key, *value, *result = NULL;
    int failed = !in || !names;
    for (; !failed && done < n; ++done)
        if ((failed = from_python(unit, PyTuple_GET_ITEM(args, done), &in[done]))) break;
    while (!failed && m && PyDict_Next(kwargs, &at, &key, &value)) {
        if (!(names[done] = PyUnicode_AsUTF8(key)) || from_python(unit, value, &in[done])) failed = 1;
        else ++done;
    }
    if (!failed) {
        size_t mark = rush_scope_open();
        if (rush_script_run(((unit_object *)unit)->u, f, self, (int)done, in, names, 0, &out)) raise_from_program();
        else {
            result = to_python(unit, out);
            rush_script_drop(out);
        }
        rush_scope_close(mark);
    } else if (!PyErr_Occurred()) PyErr_NoMemory();
    for (Py_ssize_t i = 0; in && i < done; ++i) rush_script_drop(in[i]);
    PyMem_Free(in);
    PyMem_Free(names);
    return result;
}

static const script_class *class_of(PyObject *self) { return ((script_thing *)self)->v.box->type; }

static PyObject *thing_call(PyObject *self, PyObject *args, PyObject *kwargs) /* call(method, args, kwargs) */
{
    const char *name;
    PyObject *given, *named;
    if (!PyArg_ParseTuple(args, "sO!O!", &name, &PyTuple_Type, &given, &PyDict_Type, &named)) return NULL;
    const script_function *f = rush_script_method_find(class_of(self), name);
    if (!f) return PyErr_Format(PyExc_AttributeError, "'%s' has no method '%s'", class_of(self)->path, name);
    return run(((script_thing *)self)->unit, f, ((script_thing *)self)->v, given, named);
}

/* get(name, class=None): a tensor that Python has not seen becomes an object of the class. */
static PyObject *thing_get(PyObject *self, PyObject *args)
{
    const char *name;
    PyTypeObject *type = NULL;
    script_value v;
    if (!PyArg_ParseTuple(args, "s|O!", &name, &PyType_Type, &type)) return NULL;
    if (rush_script_attribute(((script_thing *)self)->v, name, &v)) return py_raise();
    bool fresh = type && v.kind == SCRIPT_TENSOR && !v.t->py;
    PyObject *x = fresh ? py_wrap_as(type, v.t) : to_python(((script_thing *)self)->unit, v);
    rush_script_drop(v);
    return x;
}

static PyObject *thing_set(PyObject *self, PyObject *args)
{
    const char *name;
    PyObject *value;
    script_value v;
    if (!PyArg_ParseTuple(args, "sO", &name, &value) || from_python(((script_thing *)self)->unit, value, &v)) return NULL;
    int failed = rush_script_attribute_set(((script_thing *)self)->v, name, v);
    rush_script_drop(v);
    if (failed) return py_raise();
    Py_RETURN_NONE;
}

static bool lists(const script_node *names, const char *name)
{
    for (uint32_t i = 0; names && (names->op == SCRIPT_N_LIST || names->op == SCRIPT_N_TUPLE) && i < names->n; ++i) {
        const script_node *x = names->kid[i];
        if (x->op == SCRIPT_N_CONSTANT && x->constant.kind == SCRIPT_TEXT && !strcmp(x->constant.box->text, name)) return true;
    }
    return false;
}

/* [(name, "parameter" | "buffer" | "constant" | "module" | "attribute"), ...] */
static PyObject *thing_fields(PyObject *self, PyObject *unused)
{
    const script_class *c = class_of(self);
    PyObject *all = PyList_New(0);
    for (uint32_t i = 0; all && i < c->nfields; ++i) {
        const script_field *f = &c->field[i];
        script_value v = f->fixed ? SCRIPT_NOTHING : ((script_thing *)self)->v.box->item[f->slot];
        const char *what = f->fixed ? "constant" : v.kind == SCRIPT_OBJECT && v.box->type->is_module ? "module" : lists(c->parameters, f->name) ? "parameter" : lists(c->buffers, f->name) ? "buffer" : "attribute";
        PyObject *pair = Py_BuildValue("(ss)", f->name, what);
        if (!pair || PyList_Append(all, pair)) Py_CLEAR(all);
        Py_XDECREF(pair);
    }
    return all;
}

static PyObject *thing_methods(PyObject *self, PyObject *unused)
{
    PyObject *all = PyList_New(0);
    for (const script_function *f = class_of(self)->method; all && f; f = f->next) {
        PyObject *name = PyUnicode_FromString(f->name);
        if (!name || PyList_Append(all, name)) Py_CLEAR(all);
        Py_XDECREF(name);
    }
    return all;
}

static PyObject *code_of(const script_function *f) { return PyUnicode_DecodeUTF8(f->text, (Py_ssize_t)f->ntext, "replace"); }

static PyObject *thing_code(PyObject *self, PyObject *name)
{
    const char *s = PyUnicode_AsUTF8(name);
    const script_function *f = s ? rush_script_method_find(class_of(self), s) : NULL;
    if (!f) return s ? PyErr_Format(PyExc_AttributeError, "'%s' has no method '%s'", class_of(self)->path, s) : NULL;
    return code_of(f);
}

static PyObject *thing_type_name(PyObject *self, void *unused) { return PyUnicode_FromString(class_of(self)->path); }
static PyObject *thing_id(PyObject *self, void *unused) { return PyLong_FromVoidPtr(((script_thing *)self)->v.box); }
static PyObject *thing_unit(PyObject *self, void *unused) { return py_ref(((script_thing *)self)->unit); }

static void end_thing(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    rush_script_drop(((script_thing *)self)->v);
    Py_XDECREF(((script_thing *)self)->unit);
    type->tp_free(self);
    Py_DECREF(type);
}

static int append(void *to, const void *p, size_t n)
{
    Py_ssize_t size = PyByteArray_Size(to);
    RUSH_CHECK(!PyByteArray_Resize(to, size + (Py_ssize_t)n), RUSH_MEMORY_ERROR, "out of memory");
    memcpy(PyByteArray_AsString(to) + size, p, n);
    return 0;
}

/* The program as an archive, with {name: bytes} beside it. */
static PyObject *thing_archive(PyObject *self, PyObject *extra)
{
    PyObject *name, *content, *bytes = PyByteArray_FromStringAndSize(NULL, 0);
    rush_archive_file *files = PyMem_Calloc((size_t)PyDict_Size(extra) + 1, sizeof *files);
    Py_ssize_t at = 0;
    size_t n = 0;
    bool good = bytes && files;
    while (good && PyDict_Next(extra, &at, &name, &content)) {
        files[n] = (rush_archive_file){PyUnicode_AsUTF8(name), PyBytes_AsString(content), (size_t)PyBytes_Size(content)};
        good = files[n].name && files[n].p;
        ++n;
    }
    script_thing *x = (script_thing *)self;
    if (good && rush_script_write(class_of(self)->unit, x->v, append, bytes, n, files)) {
        py_raise();
        good = false;
    }
    PyMem_Free(files);
    if (!good) Py_CLEAR(bytes);
    return bytes;
}

static PyMethodDef thing_functions[] = {
    {"call", (PyCFunction)(void (*)(void))thing_call, METH_VARARGS | METH_KEYWORDS, NULL}, {"get", thing_get, METH_VARARGS, NULL}, {"set", thing_set, METH_VARARGS, NULL},
    {"fields", thing_fields, METH_NOARGS, NULL}, {"methods", thing_methods, METH_NOARGS, NULL}, {"code", thing_code, METH_O, NULL}, {"archive", thing_archive, METH_O, NULL},
    {NULL}};
static PyGetSetDef thing_properties[] = {{"type", thing_type_name, NULL, NULL, NULL}, {"id", thing_id, NULL, NULL, NULL}, {"unit", thing_unit, NULL, NULL, NULL}, {NULL}};
static PyType_Slot thing_slots[] = {{Py_tp_dealloc, end_thing}, {Py_tp_methods, thing_functions}, {Py_tp_getset, thing_properties}, {0, NULL}};
static PyType_Spec thing_spec = {"rushlight._C._ScriptObject", sizeof(script_thing), 0, Py_TPFLAGS_DEFAULT, thing_slots};

/* ---- units ---- */

static unit_object *unit_alloc(PyTypeObject *type, PyObject *classes)
{
    unit_object *x = (unit_object *)type->tp_alloc(type, 0);
    if (x && !(x->classes = classes ? py_ref(classes) : PyDict_New())) Py_CLEAR(x);
    return x;
}

static PyObject *unit_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) /* ([(path, text, file)], constants, {class: path}) */
{
    PyObject *texts, *constants = NULL, *classes = NULL;
    if (!PyArg_ParseTuple(args, "O!|O!O!", &PyList_Type, &texts, &PyTuple_Type, &constants, &PyDict_Type, &classes)) return NULL;
    unit_object *x = unit_alloc(type, classes);
    if (!x) return NULL;
    int failed = !(x->u = rush_script_unit_new());
    for (Py_ssize_t i = 0; !failed && i < PyList_GET_SIZE(texts); ++i) {
        const char *path, *text, *file;
        Py_ssize_t n;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(texts, i), "ss#s", &path, &text, &n, &file)) return Py_DECREF(x), NULL;
        failed = rush_script_parse(x->u, text, (size_t)n, path, file);
    }
    if (!failed && constants && from_python((PyObject *)x, constants, &x->u->constants)) return Py_DECREF(x), NULL;
    if (!failed) failed = rush_script_bind(x->u);
    if (failed) return Py_DECREF(x), py_raise();
    return (PyObject *)x;
}

static PyObject *unit_call(PyObject *self, PyObject *args)
{
    const char *path;
    PyObject *given, *named;
    if (!PyArg_ParseTuple(args, "sO!O!", &path, &PyTuple_Type, &given, &PyDict_Type, &named)) return NULL;
    const script_function *f = rush_script_function_find(((unit_object *)self)->u, path);
    if (!f) return PyErr_Format(PyExc_AttributeError, "there is no function '%s'", path);
    return run(self, f, (script_value){.kind = SCRIPT_UNSET}, given, named);
}

static PyObject *unit_code(PyObject *self, PyObject *name)
{
    const char *s = PyUnicode_AsUTF8(name);
    const script_function *f = s ? rush_script_function_find(((unit_object *)self)->u, s) : NULL;
    if (!f) return s ? PyErr_Format(PyExc_AttributeError, "there is no function '%s'", s) : NULL;
    return code_of(f);
}

static PyObject *unit_make(PyObject *self, PyObject *name) /* an object without values */
{
    const char *s = PyUnicode_AsUTF8(name);
    const script_class *c = s ? rush_script_class_find(((unit_object *)self)->u, s) : NULL;
    if (!c) return s ? PyErr_Format(PyExc_AttributeError, "there is no class '%s'", s) : NULL;
    script_value v = rush_script_object(c);
    if (v.kind == SCRIPT_UNSET) return py_raise();
    PyObject *x = wrap(self, v);
    rush_script_drop(v);
    return x;
}

static PyObject *unit_names(PyObject *self, PyObject *unused)
{
    PyObject *all = PyList_New(0);
    for (const script_function *f = ((unit_object *)self)->u->first_function; all && f; f = f->next) {
        PyObject *name = PyUnicode_FromString(f->path);
        if (!name || PyList_Append(all, name)) Py_CLEAR(all);
        Py_XDECREF(name);
    }
    return all;
}

static PyObject *unit_constants(PyObject *self, PyObject *unused)
{
    script_value v = ((unit_object *)self)->u->constants;
    return v.kind == SCRIPT_TUPLE ? to_python(self, v) : PyTuple_New(0);
}

static void end_unit(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    rush_script_unit_drop(((unit_object *)self)->u);
    Py_XDECREF(((unit_object *)self)->classes);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *unit_classes(PyObject *self, void *unused) { return py_ref(((unit_object *)self)->classes); }

static PyGetSetDef unit_properties[] = {{"classes", unit_classes, NULL, NULL, NULL}, {NULL}};
static PyMethodDef unit_functions[] = {{"call", unit_call, METH_VARARGS, NULL}, {"code", unit_code, METH_O, NULL}, {"make", unit_make, METH_O, NULL}, {"names", unit_names, METH_NOARGS, NULL}, {"constants", unit_constants, METH_NOARGS, NULL}, {NULL}};
static PyType_Slot unit_slots[] = {{Py_tp_new, unit_new}, {Py_tp_dealloc, end_unit}, {Py_tp_methods, unit_functions}, {Py_tp_getset, unit_properties}, {0, NULL}};
static PyType_Spec unit_spec = {"rushlight._C._ScriptUnit", sizeof(unit_object), 0, Py_TPFLAGS_DEFAULT, unit_slots};

static PyObject *load(PyObject *unused, PyObject *path) /* the object of an archive */
{
    PyObject *bytes = NULL;
    if (!PyUnicode_FSConverter(path, &bytes)) return NULL;
    size_t mark = rush_scope_open();
    script_unit *u = rush_script_load(PyBytes_AS_STRING(bytes));
    rush_scope_close(mark);
    Py_DECREF(bytes);
    if (!u) return py_raise();
    unit_object *x = unit_alloc(unit_type, NULL);
    if (!x) return rush_script_unit_drop(u), NULL;
    x->u = u;
    PyObject *root = wrap((PyObject *)x, u->root);
    Py_DECREF(x);
    return root;
}

static PyObject *code_number(PyObject *unused, PyObject *x) /* of a dtype, layout or memory format: as programs write it */
{
    script_value v;
    return from_python(NULL, x, &v) ? NULL : PyLong_FromLongLong(v.i);
}

static PyMethodDef functions[] = {{"_script_load", load, METH_O, NULL}, {"_script_code", code_number, METH_O, NULL}, {NULL}};

int py_script_init(PyObject *module)
{
    unit_type = (PyTypeObject *)PyType_FromSpec(&unit_spec);
    thing_type = (PyTypeObject *)PyType_FromSpec(&thing_spec);
    named_tuples = PyDict_New();
    if (!unit_type || !thing_type || !named_tuples) return -1;
    return py_add(module, "_ScriptUnit", py_ref((PyObject *)unit_type)) || py_add(module, "_ScriptObject", py_ref((PyObject *)thing_type)) || PyModule_AddFunctions(module, functions) ? -1 : 0;
}
