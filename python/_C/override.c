/* override.c - the __torch_function__ protocol: subclasses, foreign objects and modes that take a call over.
 *
 * Every public function and method asks its arguments first. To keep that out of the hand-written methods and
 * properties of Tensor, these are published through two descriptor types that ask before they call.
 */
#include "ext.h"

_Thread_local py_override py_overrides;
PyObject *py_disabled_torch_function;
static PyObject *s_torch_function;

/* ---- who is asked ---- */

bool py_overrides_function(PyObject *x)
{
    PyTypeObject *type = Py_TYPE(x);
    if (type == py_Tensor || py_overrides.disabled) return false;
    PyObject *f = _PyType_Lookup(type, s_torch_function);
    return f && f != py_disabled_torch_function;
}

PyObject *py_ask(PyObject *who, PyObject *protocol, bool is_mode, PyObject *func, PyObject *types, PyObject *args, PyObject *kwargs)
{
    PyObject *f = PyObject_GetAttr(who, protocol);
    if (f && is_mode && PyMethod_Check(f) && PyMethod_GET_SELF(f) == (PyObject *)Py_TYPE(who)) {
        PyErr_Format(PyExc_RuntimeError, "Defining your mode's `%U` as a classmethod is not supported, please make it a plain method", protocol);
        Py_CLEAR(f);
    }
    PyObject *r = f ? PyObject_CallFunctionObjArgs(f, func, types, args, kwargs, NULL) : NULL;
    Py_XDECREF(f);
    return r;
}

static PyObject *ask_mode(PyObject *func, PyObject *types, PyObject *args, PyObject *kwargs)
{
    py_override *o = &py_overrides;
    PyObject *mode = py_ref(PyList_GET_ITEM(o->modes, o->nmodes - 1));
    int n = o->nmodes;
    if (PyList_SetSlice(o->modes, n - 1, n, NULL)) return Py_DECREF(mode), NULL;
    o->nmodes = n - 1;
    PyObject *r = py_ask(mode, s_torch_function, true, func, types, args, kwargs);
    if (PyList_Append(o->modes, mode)) Py_CLEAR(r);
    o->nmodes = (int)PyList_GET_SIZE(o->modes);
    Py_DECREF(mode);
    return r;
}

/* Subclasses before their bases, else in the order of the arguments; each type once. */
static int sort_overloads(PyObject **over, int nover, PyObject **sorted)
{
    int n = 0;
    for (int i = 0; i < nover; ++i) {
        int at = n;
        bool known = false;
        for (int k = 0; k < n; ++k) known |= Py_TYPE(sorted[k]) == Py_TYPE(over[i]);
        if (known) continue;
        for (int k = 0; k < n; ++k)
            if (PyType_IsSubtype(Py_TYPE(over[i]), Py_TYPE(sorted[k]))) {
                at = k;
                break;
            }
        memmove(sorted + at + 1, sorted + at, sizeof *sorted * (n - at));
        sorted[at] = over[i];
        ++n;
    }
    return n;
}

static void no_answer(PyObject *func, PyObject **sorted, int n)
{
    PyObject *name = py_getattr_quiet(func, "__name__"), *owner = py_getattr_quiet(func, "__objclass__"), *lines = PyUnicode_FromString("");
    for (int i = 0; lines && i < n; ++i) Py_SETREF(lines, PyUnicode_FromFormat("%U  - tensor subclass %R\n", lines, Py_TYPE(sorted[i])));
    if (lines && name)
        PyErr_Format(PyExc_TypeError, "Multiple dispatch failed for 'torch.%s%S'; all __torch_function__ handlers returned NotImplemented:\n\n%U"
                     "\nFor more information, try re-running with TORCH_LOGS=not_implemented", owner ? "Tensor." : "", name, lines);
    Py_XDECREF(lines);
    Py_XDECREF(owner);
    Py_XDECREF(name);
}

static PyObject *dispatch(PyObject *func, PyObject **over, int nover, PyObject *args, PyObject *kwargs)
{
    PyObject *sorted[64], *result = NULL;
    int n = sort_overloads(over, RUSH_MIN(nover, 64), sorted);
    PyObject *types = PyTuple_New(n);
    if (!types) return NULL;
    for (int i = 0; i < n; ++i) PyTuple_SET_ITEM(types, i, py_ref((PyObject *)Py_TYPE(sorted[i])));
    bool answered = false;
    if (py_overrides.nmodes) {
        result = ask_mode(func, types, args, kwargs);
        answered = result != Py_NotImplemented;
    }
    for (int i = 0; i < n && !answered; ++i) {
        Py_XDECREF(result);
        result = py_ask(sorted[i], s_torch_function, false, func, types, args, kwargs);
        answered = result != Py_NotImplemented;
    }
    if (!answered) {
        Py_CLEAR(result);
        no_answer(func, sorted, n);
    }
    Py_DECREF(types);
    return result;
}

int py_pack(PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, PyObject **tuple, PyObject **kwargs)
{
    Py_ssize_t nkw = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    *tuple = PyTuple_New(nargs), *kwargs = nkw ? PyDict_New() : NULL;
    for (Py_ssize_t i = 0; *tuple && i < nargs; ++i) PyTuple_SET_ITEM(*tuple, i, py_ref(args[i]));
    for (Py_ssize_t i = 0; *kwargs && i < nkw; ++i)
        if (PyDict_SetItem(*kwargs, PyTuple_GET_ITEM(kwnames, i), args[nargs + i])) Py_CLEAR(*kwargs);
    if (*tuple && (*kwargs || !nkw)) return 0;
    Py_CLEAR(*tuple);
    return -1;
}

PyObject *py_dispatch(PyObject *func, PyObject **over, int nover, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    PyObject *tuple, *kwargs, *result = NULL;
    if (!py_pack(args, nargs, kwnames, &tuple, &kwargs)) result = dispatch(func, over, nover, tuple, kwargs);
    Py_XDECREF(tuple);
    Py_XDECREF(kwargs);
    return result;
}

bool py_method_overridden(PyObject *self, const char *name, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames,
                          PyObject **result)
{
    bool asks = py_overrides_function(self);
    if (!asks && (!py_overrides.nmodes || py_overrides.disabled > 1)) return false;
    PyObject *func = PyObject_GetAttrString((PyObject *)py_Tensor, name);
    PyObject *all[8] = {self};
    for (Py_ssize_t i = 0; i < nargs && i < 7; ++i) all[i + 1] = args[i];
    *result = func ? py_dispatch(func, &self, asks, all, nargs + 1, kwnames) : NULL;
    Py_XDECREF(func);
    return true;
}

/* ---- descriptors that ask ---- */

typedef struct native_method {
    PyObject_HEAD
    vectorcallfunc call;
    const PyMethodDef *def;
    PyObject *name;
} native_method;

static PyObject *native_call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames);

/* Called with nothing but names: is one of them "input"? Then it is called again, with that in front. */
static bool named_input(PyObject *self, PyObject *const *values, PyObject *kwnames, PyObject **result)
{
    PyObject *all[8], *names = NULL;
    Py_ssize_t nkw = PyTuple_GET_SIZE(kwnames), at = 0, rest = 0;
    while (at < nkw && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, at), "input")) ++at;
    if (at == nkw || nkw > (Py_ssize_t)RUSH_COUNT(all)) return false;
    *result = NULL;
    if (nkw > 1 && !(names = PyTuple_New(nkw - 1))) return true;
    all[0] = values[at];
    for (Py_ssize_t i = 0; i < nkw; ++i) {
        if (i == at) continue;
        PyTuple_SET_ITEM(names, rest, py_ref(PyTuple_GET_ITEM(kwnames, i)));
        all[++rest] = values[i];
    }
    *result = native_call(self, all, 1, names);
    Py_XDECREF(names);
    return true;
}

/* Methods whose other tensors are data, and are not asked. */
static bool asks_self_only(const PyMethodDef *def)
{
    static const char *const names[] = {"new", "new_tensor", "set_", "backward"};
    for (size_t i = 0; i < RUSH_COUNT(names); ++i)
        if (!strcmp(def->ml_name, names[i])) return true;
    return false;
}

/* The arguments of a method that are tensors with an override of their own. */
static int asking(const PyMethodDef *def, PyObject *const *args, Py_ssize_t n, PyObject **over)
{
    int nover = 0;
    for (Py_ssize_t i = 0; i < n && nover < 8; ++i)
        if (Py_TYPE(args[i]) != py_Tensor && py_is_tensor(args[i]) && py_overrides_function(args[i]) && !(i && asks_self_only(def))) over[nover++] = args[i];
    return nover;
}

RUSH_HOT static PyObject *native_call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    const PyMethodDef *def = ((native_method *)self)->def;
    Py_ssize_t n = PyVectorcall_NARGS(nargsf), nkw = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    if (n < 1 || !py_is_tensor(args[0]) || !py_tensor_of(args[0])) {
        PyObject *result;
        if (n && py_overrides_function(args[0])) return py_dispatch(self, (PyObject **)args, true, args, n, kwnames);
        if (!n && nkw && named_input(self, args, kwnames, &result)) return result; /* torch.numel(input=x) */
        return PyErr_Format(PyExc_TypeError, "descriptor '%s' for 'torch._C.TensorBase' objects needs a tensor", def->ml_name);
    }
    PyObject *x = args[0], *over[8];
    if (n + nkw > 1 || py_asks(x)) {
        int nover = asking(def, args, n + nkw, over);
        if (RUSH_UNLIKELY(nover || (py_overrides.nmodes && py_overrides.disabled < 2))) return py_dispatch(self, over, nover, args, n, kwnames);
    }
    switch (def->ml_flags) {
    case METH_NOARGS:
        if (n != 1 || nkw) return PyErr_Format(PyExc_TypeError, "%s() takes no arguments (%zd given)", def->ml_name, n - 1 + nkw);
        return def->ml_meth(x, NULL);
    case METH_O:
        if (n != 2 || nkw) return PyErr_Format(PyExc_TypeError, "%s() takes exactly one argument (%zd given)", def->ml_name, n - 1 + nkw);
        return def->ml_meth(x, args[1]);
    case METH_FASTCALL:
        if (nkw) return PyErr_Format(PyExc_TypeError, "%s() takes no keyword arguments", def->ml_name);
        return ((PyObject *(*)(PyObject *, PyObject *const *, Py_ssize_t))(void (*)(void))def->ml_meth)(x, args + 1, n - 1);
    case METH_FASTCALL | METH_KEYWORDS:
        return ((PyObject *(*)(PyObject *, PyObject *const *, Py_ssize_t, PyObject *))(void (*)(void))def->ml_meth)(x, args + 1, n - 1, kwnames);
    default: { /* METH_VARARGS | METH_KEYWORDS */
        PyObject *tuple = PyTuple_New(n - 1), *kwargs = nkw ? PyDict_New() : NULL, *result = NULL;
        bool ok = tuple && (!nkw || kwargs);
        for (Py_ssize_t i = 1; ok && i < n; ++i) PyTuple_SET_ITEM(tuple, i - 1, py_ref(args[i]));
        for (Py_ssize_t i = 0; ok && i < nkw; ++i) ok = !PyDict_SetItem(kwargs, PyTuple_GET_ITEM(kwnames, i), args[n + i]);
        if (ok) result = ((PyCFunctionWithKeywords)(void (*)(void))def->ml_meth)(x, tuple, kwargs);
        Py_XDECREF(tuple);
        Py_XDECREF(kwargs);
        return result;
    }
    }
}

static PyObject *native_get(PyObject *self, PyObject *x, PyObject *type)
{
    if (!x || x == Py_None) return py_ref(self);
    return PyMethod_New(self, x);
}

static PyObject *native_repr(PyObject *self) { return PyUnicode_FromFormat("<method '%U' of 'torch._C.TensorBase' objects>", ((native_method *)self)->name); }
static PyObject *native_doc(PyObject *self, void *unused)
{
    const char *doc = ((native_method *)self)->def->ml_doc;
    if (!doc) Py_RETURN_NONE;
    return PyUnicode_FromString(doc);
}
/* Read from a description that opens with "name(parameters): ". */
static PyObject *native_signature(PyObject *self, void *unused)
{
    const PyMethodDef *def = ((native_method *)self)->def;
    size_t n = strlen(def->ml_name);
    const char *doc = def->ml_doc ? def->ml_doc : "", *end = strstr(doc, "): ");
    if (def->ml_flags & METH_NOARGS) return py_make_signature(PyUnicode_FromString("self"));
    if (strncmp(doc, def->ml_name, n) || doc[n] != '(' || !end) return PyErr_Format(PyExc_AttributeError, "__signature__");
    PyObject *parameters = PyUnicode_FromStringAndSize(doc + n + 1, end - doc - (Py_ssize_t)n - 1);
    if (parameters) Py_SETREF(parameters, PyUnicode_FromFormat(end == doc + n + 1 ? "self%U" : "self, %U", parameters));
    return py_make_signature(parameters);
}

static PyObject *native_name(PyObject *self, void *unused) { return py_ref(((native_method *)self)->name); }
static PyObject *native_qualname(PyObject *self, void *unused) { return PyUnicode_FromFormat("TensorBase.%U", ((native_method *)self)->name); }
static PyObject *native_objclass(PyObject *self, void *unused) { return py_ref((PyObject *)&py_type_TensorBase); }
static PyObject *native_reduce(PyObject *self, PyObject *unused)
{
    PyObject *getattr = PyDict_GetItemString(PyEval_GetBuiltins(), "getattr");
    return Py_BuildValue("O(OO)", getattr, py_Tensor, ((native_method *)self)->name);
}

static PyGetSetDef native_getset[] = {{"__doc__", native_doc, NULL, NULL}, {"__signature__", native_signature, NULL, NULL}, {"__name__", native_name, NULL, NULL},
                                      {"__qualname__", native_qualname, NULL, NULL}, {"__objclass__", native_objclass, NULL, NULL}, {NULL}};
static PyMethodDef native_methods[] = {{"__reduce__", native_reduce, METH_NOARGS, NULL}, {NULL}};
static PyTypeObject type_native = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "torch._C.method_descriptor",
    .tp_basicsize = sizeof(native_method),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_vectorcall_offset = offsetof(native_method, call),
    .tp_call = PyVectorcall_Call,
    .tp_descr_get = native_get,
    .tp_repr = native_repr,
    .tp_methods = native_methods,
    .tp_getset = native_getset,
};

typedef struct property {
    PyObject_HEAD
    const PyGetSetDef *def;
} property;

static bool property_asks(PyObject *self, PyObject *x, const char *how, PyObject *value, PyObject **result)
{
    bool asks = py_overrides_function(x);
    if (!asks && (!py_overrides.nmodes || py_overrides.disabled > 1)) return false;
    PyObject *func = PyObject_GetAttrString(self, how), *args[] = {x, value};
    *result = func ? py_dispatch(func, &x, asks, args, value ? 2 : 1, NULL) : NULL;
    Py_XDECREF(func);
    return true;
}

static PyObject *property_get(PyObject *self, PyObject *x, PyObject *type)
{
    const PyGetSetDef *def = ((property *)self)->def;
    PyObject *result;
    if (!x || x == Py_None) return py_ref(self);
    if (!py_is_tensor(x) || !py_tensor_of(x)) return PyErr_Format(PyExc_TypeError, "descriptor '%s' needs a tensor", def->name);
    if (py_asks(x) && property_asks(self, x, "__get__", NULL, &result)) return result;
    return def->get(x, def->closure);
}

static int property_set(PyObject *self, PyObject *x, PyObject *value)
{
    const PyGetSetDef *def = ((property *)self)->def;
    PyObject *result;
    if (!def->set) return PyErr_Format(PyExc_AttributeError, "attribute '%s' of 'torch._C.TensorBase' objects is not writable", def->name), -1;
    if (!py_is_tensor(x) || !py_tensor_of(x)) return PyErr_Format(PyExc_TypeError, "descriptor '%s' needs a tensor", def->name), -1;
    if (py_asks(x) && property_asks(self, x, value ? "__set__" : "__delete__", value, &result)) {
        Py_XDECREF(result);
        return result ? 0 : -1;
    }
    return def->set(x, value, def->closure);
}

static PyObject *property_repr(PyObject *self) { return PyUnicode_FromFormat("<attribute '%s' of 'torch._C.TensorBase' objects>", ((property *)self)->def->name); }
static PyObject *property_doc(PyObject *self, void *unused)
{
    const char *doc = ((property *)self)->def->doc;
    if (!doc) Py_RETURN_NONE;
    return PyUnicode_FromString(doc);
}
static PyObject *property_name(PyObject *self, void *unused) { return PyUnicode_FromString(((property *)self)->def->name); }

static PyObject *property_qualname(PyObject *self, void *unused) { return PyUnicode_FromFormat("TensorBase.%s", ((property *)self)->def->name); }

static PyGetSetDef property_getset[] = {{"__doc__", property_doc, NULL, NULL}, {"__name__", property_name, NULL, NULL}, {"__qualname__", property_qualname, NULL, NULL},
                                        {"__objclass__", native_objclass, NULL, NULL}, {NULL}};
static PyTypeObject type_property = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "torch._C.getset_descriptor",
    .tp_basicsize = sizeof(property),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_descr_get = property_get,
    .tp_descr_set = property_set,
    .tp_repr = property_repr,
    .tp_getset = property_getset,
};

static int publish_methods(const PyMethodDef *def)
{
    PyObject *dict = py_type_TensorBase.tp_dict;
    for (; def->ml_name; ++def) {
        if (def->ml_flags & METH_STATIC || def->ml_flags & METH_CLASS) {
            PyMethodDef *plain = (PyMethodDef *)def;
            PyObject *f;
            if (def->ml_flags & METH_CLASS) {
                f = PyDescr_NewClassMethod(&py_type_TensorBase, plain);
            } else {
                PyObject *function = PyCFunction_New(plain, (PyObject *)&py_type_TensorBase);
                f = function ? PyStaticMethod_New(function) : NULL;
                Py_XDECREF(function);
            }
            if (!f || PyDict_SetItemString(dict, def->ml_name, f)) return -1;
            Py_DECREF(f);
            continue;
        }
        native_method *m = PyObject_New(native_method, &type_native);
        if (!m) return -1;
        m->call = native_call;
        m->def = def;
        m->name = PyUnicode_InternFromString(def->ml_name);
        if (!m->name || PyDict_SetItem(dict, m->name, (PyObject *)m)) return -1;
        Py_DECREF(m);
    }
    return 0;
}

static int publish_plain(PyMethodDef *def)
{
    for (; def->ml_name; ++def) {
        PyObject *f = PyDescr_NewMethod(&py_type_TensorBase, def);
        int failed = f ? PyDict_SetItemString(py_type_TensorBase.tp_dict, def->ml_name, f) : -1;
        Py_XDECREF(f);
        if (failed) return -1;
    }
    return 0;
}

static int publish_properties(const PyGetSetDef *def)
{
    for (; def->name; ++def) {
        property *p = PyObject_New(property, &type_property);
        if (!p) return -1;
        p->def = def;
        if (PyDict_SetItemString(py_type_TensorBase.tp_dict, def->name, (PyObject *)p)) return -1;
        Py_DECREF(p);
    }
    return 0;
}

/* Methods written by hand that are functions as well: torch.numel(x). */
static int publish_functions(PyObject *module)
{
    static const char *const names[] = {"numel", "is_complex", "is_floating_point", "is_signed", "is_nonzero", "is_inference", "is_conj", "is_neg",
                                        "is_distributed", "nonzero", "get_device", "detach", "detach_", "_is_zerotensor"};
    PyObject *space = PyObject_GetAttrString(module, "_VariableFunctions");
    int failed = space ? 0 : -1;
    for (size_t i = 0; !failed && i < RUSH_COUNT(names); ++i)
        failed = PyObject_SetAttrString(space, names[i], PyDict_GetItemString(py_type_TensorBase.tp_dict, names[i]));
    Py_XDECREF(space);
    return failed;
}

/* ---- Tensor.__torch_function__: run the function, and give back results as the subclass ---- */

static PyObject *nowrap; /* functions whose results stay as they are */

static PyObject *as_class(PyObject *x, PyTypeObject *cls)
{
    if (py_is_tensor(x)) {
        if (PyType_IsSubtype(Py_TYPE(x), cls)) return py_ref(x);
        return PyObject_CallMethod(x, "as_subclass", "O", cls);
    }
    if (!PyTuple_Check(x) && !PyList_Check(x)) return py_ref(x);
    Py_ssize_t n = PySequence_Fast_GET_SIZE(x);
    PyObject *list = PyList_New(n);
    for (Py_ssize_t i = 0; list && i < n; ++i) {
        PyObject *old = py_list_item(x, i), *item = old ? as_class(old, cls) : NULL;
        Py_XDECREF(old);
        if (!item) {
            Py_CLEAR(list);
            break;
        }
        PyList_SET_ITEM(list, i, item);
    }
    if (!list || PyList_CheckExact(x)) return list;
    PyObject *result = PyObject_CallFunctionObjArgs((PyObject *)Py_TYPE(x), list, NULL);
    Py_DECREF(list);
    return result;
}

static PyObject *default_torch_function(PyObject *cls, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"func", "types", "args", "kwargs", NULL};
    PyObject *func, *types, *a = NULL, *k = NULL, *empty = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|OO:__torch_function__", names, &func, &types, &a, &k)) return NULL;
    PyObject *each = PyObject_GetIter(types);
    if (!each) return NULL;
    int related = 1;
    for (PyObject *t; related > 0 && (t = PyIter_Next(each)); Py_DECREF(t)) related = PyObject_IsSubclass(cls, t);
    Py_DECREF(each);
    if (related < 0 || PyErr_Occurred()) return NULL;
    if (!related) Py_RETURN_NOTIMPLEMENTED;
    if (!a && !(a = empty = PyTuple_New(0))) return NULL;
    int before = py_overrides.disabled;
    py_overrides.disabled = RUSH_MAX(before, 1);
    PyObject *r = PyObject_Call(func, a, k == Py_None ? NULL : k);
    py_overrides.disabled = before;
    Py_XDECREF(empty);
    if (!r || cls == (PyObject *)py_Tensor) return r;
    if (nowrap) {
        int as_is = PySet_Contains(nowrap, func);
        if (as_is < 0) PyErr_Clear();
        if (as_is > 0) return r;
    }
    PyObject *converted = as_class(r, (PyTypeObject *)cls);
    Py_DECREF(r);
    return converted;
}

static PyObject *set_nowrap(PyObject *module, PyObject *set)
{
    Py_INCREF(set);
    Py_XSETREF(nowrap, set);
    Py_RETURN_NONE;
}

PyObject *py_call_plainly(const char *format, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"func", "types", "args", "kwargs", NULL};
    PyObject *func, *types, *a = NULL, *k = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, format, names, &func, &types, &a, &k)) return NULL;
    PyObject *tuple = a ? PySequence_Tuple(a) : PyTuple_New(0);
    PyObject *r = tuple ? PyObject_Call(func, tuple, k == Py_None ? NULL : k) : NULL;
    Py_XDECREF(tuple);
    return r;
}

static PyObject *disabled_function(PyObject *module, PyObject *args, PyObject *kwargs)
{
    int before = py_overrides.disabled;
    py_overrides.disabled = RUSH_MAX(before, 1);
    PyObject *r = py_call_plainly("OO|OO:_disabled_torch_function_impl", args, kwargs);
    py_overrides.disabled = before;
    return r;
}

/* ---- contexts that switch it off ---- */

typedef struct disabler {
    PyObject_HEAD
    int before;
} disabler;

static PyObject *disable_enter(PyObject *self, int level)
{
    ((disabler *)self)->before = py_overrides.disabled;
    py_overrides.disabled = RUSH_MAX(level, py_overrides.disabled);
    Py_RETURN_NONE;
}
static PyObject *disable_enter_subclass(PyObject *self, PyObject *unused) { return disable_enter(self, 1); }
static PyObject *disable_enter_all(PyObject *self, PyObject *unused) { return disable_enter(self, 2); }
static PyObject *disable_exit(PyObject *self, PyObject *args)
{
    py_overrides.disabled = ((disabler *)self)->before;
    Py_RETURN_NONE;
}
static PyObject *enable_enter(PyObject *self, PyObject *unused)
{
    ((disabler *)self)->before = py_overrides.disabled;
    py_overrides.disabled = 0;
    Py_RETURN_NONE;
}
static PyMethodDef enable_methods[] = {{"__enter__", enable_enter, METH_NOARGS, NULL}, {"__exit__", disable_exit, METH_VARARGS, NULL}, {NULL}};
static PyTypeObject type_enable = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "torch._C._EnableTorchFunction", .tp_basicsize = sizeof(disabler),
    .tp_flags = Py_TPFLAGS_DEFAULT, .tp_new = PyType_GenericNew, .tp_methods = enable_methods,
    .tp_doc = "Context: __torch_function__ is asked again.",
};
static PyMethodDef subclass_methods[] = {{"__enter__", disable_enter_subclass, METH_NOARGS, NULL}, {"__exit__", disable_exit, METH_VARARGS, NULL}, {NULL}};
static PyMethodDef all_methods[] = {{"__enter__", disable_enter_all, METH_NOARGS, NULL}, {"__exit__", disable_exit, METH_VARARGS, NULL}, {NULL}};
static PyTypeObject type_disable_subclass = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "torch._C.DisableTorchFunctionSubclass", .tp_basicsize = sizeof(disabler),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, .tp_new = PyType_GenericNew, .tp_methods = subclass_methods,
    .tp_doc = "Context: subclasses' __torch_function__ is not asked.",
};
static PyTypeObject type_disable = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "torch._C.DisableTorchFunction", .tp_basicsize = sizeof(disabler),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, .tp_new = PyType_GenericNew, .tp_methods = all_methods,
    .tp_doc = "Context: neither subclasses' __torch_function__ nor modes are asked.",
};

/* ---- for functions written in Python ---- */

static bool asks_now(PyObject *x) { return Py_TYPE(x) != py_Tensor && py_overrides_function(x); }
static bool mode_now(void) { return py_overrides.nmodes && py_overrides.disabled < 2; }

/* Is this the one question that redispatch_function leaves out? */
static bool skipped(void)
{
    bool skip = py_overrides.skip;
    py_overrides.skip = false;
    return skip;
}

static PyObject *has_function(PyObject *module, PyObject *seq)
{
    if (skipped()) Py_RETURN_FALSE;
    if (mode_now()) Py_RETURN_TRUE;
    PyObject *all = PySequence_Check(seq) ? PySequence_Tuple(seq) : PyErr_Format(PyExc_TypeError, "expected a sequence");
    if (!all) return NULL;
    bool any = false;
    for (Py_ssize_t i = 0; !any && i < PyTuple_GET_SIZE(all); ++i) any = asks_now(PyTuple_GET_ITEM(all, i));
    Py_DECREF(all);
    return PyBool_FromLong(any);
}

static PyObject *has_function_unary(PyObject *module, PyObject *x) { return PyBool_FromLong(!skipped() && (mode_now() || asks_now(x))); }

static PyObject *has_function_variadic(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    if (skipped()) Py_RETURN_FALSE;
    bool any = mode_now();
    for (Py_ssize_t i = 0; !any && i < n; ++i) any = asks_now(args[i]);
    return PyBool_FromLong(any);
}

/* handle_torch_function(public_api, relevant_args, *args, **kwargs) */
static PyObject *handle(PyObject *module, PyObject *args, PyObject *kwargs)
{
    PyObject *over[64];
    int n = 0;
    if (PyTuple_GET_SIZE(args) < 2) return PyErr_Format(PyExc_TypeError, "handle_torch_function() needs a function and its relevant arguments");
    PyObject *fast = PySequence_Tuple(PyTuple_GET_ITEM(args, 1));
    PyObject *rest = fast ? PyTuple_GetSlice(args, 2, PyTuple_GET_SIZE(args)) : NULL, *result = NULL;
    for (Py_ssize_t i = 0; rest && i < PyTuple_GET_SIZE(fast) && n < 64; ++i)
        if (asks_now(PyTuple_GET_ITEM(fast, i))) over[n++] = PyTuple_GET_ITEM(fast, i);
    if (rest) result = dispatch(PyTuple_GET_ITEM(args, 0), over, n, rest, kwargs);
    Py_XDECREF(rest);
    Py_XDECREF(fast);
    return result;
}

/* _redispatch(func, args, kwargs): func without its first question. A function of the extension asks only one; in one written in
   Python, what it calls later asks again. */
static PyObject *redispatch(PyObject *module, PyObject *args)
{
    PyObject *func, *a, *k;
    if (!PyArg_ParseTuple(args, "OO!O", &func, &PyTuple_Type, &a, &k)) return NULL;
    int before = py_overrides.disabled;
    bool python = PyFunction_Check(func) || PyMethod_Check(func);
    if (python) py_overrides.skip = true;
    else py_overrides.disabled = 2;
    PyObject *result = PyObject_Call(func, a, k == Py_None ? NULL : k);
    py_overrides.disabled = before;
    py_overrides.skip = false;
    return result;
}

static PyObject *push_mode(PyObject *module, PyObject *mode)
{
    py_override *o = &py_overrides;
    if (!o->modes && !(o->modes = PyList_New(0))) return NULL;
    if (PyList_Append(o->modes, mode)) return NULL;
    o->nmodes = (int)PyList_GET_SIZE(o->modes);
    Py_RETURN_NONE;
}

static PyObject *pop_mode(PyObject *module, PyObject *unused)
{
    py_override *o = &py_overrides;
    if (!o->nmodes) return PyErr_Format(PyExc_RuntimeError, "no mode of __torch_function__ is active");
    PyObject *mode = py_ref(PyList_GET_ITEM(o->modes, o->nmodes - 1));
    if (PyList_SetSlice(o->modes, o->nmodes - 1, o->nmodes, NULL)) return NULL;
    --o->nmodes;
    return mode;
}

static PyObject *mode_at(PyObject *module, PyObject *x)
{
    long i = PyLong_AsLong(x);
    if (i == -1 && PyErr_Occurred()) return NULL;
    if (i < 0 || i >= py_overrides.nmodes) return PyErr_Format(PyExc_IndexError, "there is no such mode");
    return py_ref(PyList_GET_ITEM(py_overrides.modes, i));
}

static PyObject *count_modes(PyObject *module, PyObject *unused) { return PyLong_FromLong(py_overrides.nmodes); }
static PyObject *function_enabled(PyObject *module, PyObject *unused) { return PyBool_FromLong(py_overrides.disabled == 0); }
static PyObject *all_disabled(PyObject *module, PyObject *unused) { return PyBool_FromLong(py_overrides.disabled > 1); }

static PyMethodDef class_method[] = {{"__torch_function__", (PyCFunction)(void (*)(void))default_torch_function,
                                      METH_CLASS | METH_VARARGS | METH_KEYWORDS, "Runs the function and gives results back as this class."}, {NULL}};
static PyMethodDef functions[] = {
    {"_disabled_torch_function_impl", (PyCFunction)(void (*)(void))disabled_function, METH_VARARGS | METH_KEYWORDS, "A __torch_function__ that is never asked."},
    {"_has_torch_function", has_function, METH_O, "Is one of the arguments (or a mode) to be asked?"},
    {"_has_torch_function_unary", has_function_unary, METH_O, "Is the argument (or a mode) to be asked?"},
    {"_has_torch_function_variadic", (PyCFunction)(void (*)(void))has_function_variadic, METH_FASTCALL, "Is one of the arguments (or a mode) to be asked?"},
    {"_handle_torch_function", (PyCFunction)(void (*)(void))handle, METH_VARARGS | METH_KEYWORDS, "Asks the relevant arguments to run a function."},
    {"_push_on_torch_function_stack", push_mode, METH_O, "Enters a mode."},
    {"_pop_torch_function_stack", pop_mode, METH_NOARGS, "Leaves the innermost mode."},
    {"_get_function_stack_at", mode_at, METH_O, "A mode by its depth."},
    {"_len_torch_function_stack", count_modes, METH_NOARGS, "How many modes are active."},
    {"_is_torch_function_enabled", function_enabled, METH_NOARGS, "Are subclasses asked?"},
    {"_redispatch", redispatch, METH_VARARGS, "Calls func(*args, **kwargs) without asking __torch_function__ first."},
    {"_is_torch_function_all_disabled", all_disabled, METH_NOARGS, "Are modes not asked either?"},
    {"_set_nowrap_functions", set_nowrap, METH_O, "Functions whose results keep their class under the default __torch_function__."},
    {NULL},
};

int py_override_init(PyObject *module)
{
    s_torch_function = PyUnicode_InternFromString("__torch_function__");
    if (!s_torch_function || PyType_Ready(&type_native) || PyType_Ready(&type_property) || PyType_Ready(&type_disable) || PyType_Ready(&type_enable) ||
        PyType_Ready(&type_disable_subclass) || PyModule_AddFunctions(module, functions))
        return -1;
    py_disabled_torch_function = PyObject_GetAttrString(module, "_disabled_torch_function_impl");
    if (publish_methods(py_tensor_methods) || publish_methods(py_tensor_graph_methods) || publish_methods(py_tensor_data_methods) || publish_methods(py_tensor_hook_methods) ||
        publish_methods(py_tensor_convert_methods) || publish_plain(py_tensor_object_methods) || publish_methods(class_method) || publish_properties(py_tensor_getset))
        return -1;
    PyType_Modified(&py_type_TensorBase);
    if (publish_functions(module)) return -1;
    return py_add(module, "_EnableTorchFunction", py_ref((PyObject *)&type_enable)) || py_add(module, "DisableTorchFunction", py_ref((PyObject *)&type_disable)) ||
                   py_add(module, "DisableTorchFunctionSubclass", py_ref((PyObject *)&type_disable_subclass))
               ? -1 : 0;
}
