/* dispatch.c - __torch_dispatch__: modes and tensor classes that answer for operations, below autograd.
 *
 * The road asks here (op/watch.h) with a record and boxed values. The innermost mode is asked first, with itself taken
 * off the stack while it answers, then the classes of the arguments. What they are given is the OpOverload of
 * torch.ops that stands for the record and its form, found once per record.
 */
#include "ext.h"
#include "op/watch.h"

static _Thread_local PyObject *modes; /* a list, the innermost last; NULL: none yet */
static PyObject *overloads;           /* 3 * index + form -> OpOverload */
static PyObject *s_torch_dispatch, *disabled;

static Py_ssize_t nmodes(void) { return modes ? PyList_GET_SIZE(modes) : 0; }

static void refresh_mode_bit(void)
{
    if (nmodes()) rush_now.mode |= RUSH_MODE_WATCH;
    else rush_now.mode &= ~RUSH_MODE_WATCH;
}

bool py_answers_itself(PyTypeObject *type)
{
    PyObject *f = type == py_Tensor || !s_torch_dispatch ? NULL : _PyType_Lookup(type, s_torch_dispatch);
    return f && f != disabled;
}

/* ---- what is asked ---- */

PyObject *py_overload_of(const rush_op *op, rush_form form)
{
    PyObject *key = PyLong_FromLong((long)op->index * 3 + form), *f = key ? PyDict_GetItemWithError(overloads, key) : NULL;
    if (key && !f && !PyErr_Occurred()) {
        PyObject *module = PyImport_ImportModule("rushlight._ops");
        f = module ? PyObject_CallMethod(module, "_overload_of", "si", op->name, (int)form) : NULL;
        Py_XDECREF(module);
        if (f && PyDict_SetItem(overloads, key, f)) Py_CLEAR(f);
        Py_XDECREF(f); /* the table's */
    }
    Py_XDECREF(key);
    return f;
}

static bool is_default(const rush_arg *a, const rush_value *v)
{
    const rush_value *d = &a->def;
    if (!a->has_default || d->kind != v->kind || d->kind == RUSH_V_TENSOR || d->kind == RUSH_V_TENSORS) return false;
    switch (v->kind) {
    case RUSH_V_NONE: return true;
    case RUSH_V_FLOAT: return d->f == v->f;
    case RUSH_V_COMPLEX: return d->c[0] == v->c[0] && d->c[1] == v->c[1];
    case RUSH_V_INTS: return d->n == v->n && !memcmp(d->ints, v->ints, v->n * sizeof *v->ints);
    case RUSH_V_FLOATS: return d->n == v->n && !memcmp(d->floats, v->floats, v->n * sizeof *v->floats);
    case RUSH_V_STRING: return !strcmp(d->s, v->s);
    case RUSH_V_DEVICE: return d->device.type == v->device.type && d->device.index == v->device.index;
    case RUSH_V_VALUES: return false;
    default: return d->i == v->i;
    }
}

/* Formulas in C may write 1 for true, or a dtype as its number. */
static PyObject *argument(const rush_arg *a, rush_value v)
{
    if (v.kind == RUSH_V_TENSORS) return py_wrap_list(v.tensors, v.n, false);
    bool number = v.kind == RUSH_V_TENSOR && v.t->flags & RUSH_T_WRAPPED && !v.t->ndim && !v.t->py && v.t->device.type == RUSH_CPU && rush_ptr(v.t);
    if (number) return py_number_of(v.t, rush_ptr(v.t));
    if (v.kind == RUSH_V_INT && !a->list && a->type == RUSH_A_BOOL) v.kind = RUSH_V_BOOL;
    if (v.kind == RUSH_V_INT && !a->list && a->type == RUSH_A_DTYPE) v.kind = RUSH_V_DTYPE;
    return py_from_value(&v);
}

static bool left_out(const rush_op *op, const rush_value *in, int i)
{
    return is_default(&op->args[i], &in[i]) && !(py_tracing() && py_holds_traced(&in[i], i));
}

/* What is written, by the names that the form with out= has for it. */
static int written_arguments(const rush_op *op, const rush_value *out, PyObject *kwargs)
{
    PyObject *f = py_overload_of(op, RUSH_FORM_OUT), *names = f ? PyObject_GetAttrString(f, "_out_names") : NULL;
    int failed = names && PyTuple_Check(names) && PyTuple_GET_SIZE(names) == op->nout ? 0 : -1;
    if (failed && !PyErr_Occurred()) PyErr_Format(PyExc_RuntimeError, "%s: its form with out= writes something else than its results", op->name);
    for (int i = 0; !failed && i < op->nout; ++i) {
        PyObject *x = py_from_value(&out[i]);
        failed = x ? PyDict_SetItem(kwargs, PyTuple_GET_ITEM(names, i), x) : -1;
        Py_XDECREF(x);
    }
    Py_XDECREF(names);
    return failed;
}

/* As PyTorch hands them over: positions as far as they differ from their defaults, keywords that do. */
int py_watch_arguments(rush_form form, const rush_op *op, const rush_value *in, const rush_value *out, PyObject **args, PyObject **kwargs)
{
    int n = 0;
    for (int i = 0; i < op->nargs; ++i)
        if (!op->args[i].kwonly && !left_out(op, in, i)) n = i + 1;
    *args = PyTuple_New(n);
    *kwargs = PyDict_New();
    for (int i = 0; *args && *kwargs && i < op->nargs; ++i) {
        const rush_arg *a = &op->args[i];
        if (a->kwonly ? left_out(op, in, i) : i >= n) continue;
        PyObject *x = argument(a, in[i]);
        if (py_tracing()) x = py_traced_argument(&in[i], i, x);
        if (x && !a->kwonly) PyTuple_SET_ITEM(*args, i, x);
        else if (!x || PyDict_SetItemString(*kwargs, a->name, x)) return Py_XDECREF(x), -1;
        else Py_DECREF(x);
    }
    if (!*args || !*kwargs) return -1;
    return form == RUSH_FORM_OUT ? written_arguments(op, out, *kwargs) : 0;
}

/* Tensors whose classes answer for themselves; a class once, subclasses before their bases. */
static int answering(const rush_tensor *t, PyObject **who, int n, int room)
{
    if (!t || !(t->flags & RUSH_T_WATCHED) || !t->py || n == room) return n;
    PyTypeObject *type = Py_TYPE((PyObject *)t->py);
    int at = n;
    for (int i = 0; i < n; ++i) {
        if (Py_TYPE(who[i]) == type) return n;
        if (at == n && PyType_IsSubtype(type, Py_TYPE(who[i]))) at = i;
    }
    memmove(who + at + 1, who + at, sizeof *who * (size_t)(n - at));
    who[at] = t->py;
    return n + 1;
}

static int all_answering(const rush_op *op, const rush_value *in, const rush_value *out, rush_form form, PyObject **who, int room)
{
    int n = 0;
    for (int i = 0; i < op->nargs; ++i) {
        if (in[i].kind == RUSH_V_TENSOR) n = answering(in[i].t, who, n, room);
        for (uint32_t k = 0; in[i].kind == RUSH_V_TENSORS && k < in[i].n; ++k) n = answering(in[i].tensors[k], who, n, room);
    }
    for (int i = 0; form == RUSH_FORM_OUT && i < op->nout; ++i)
        if (out[i].kind == RUSH_V_TENSOR) n = answering(out[i].t, who, n, room);
    return n;
}

/* ---- the asking ---- */

static PyObject *ask_mode(PyObject *func, PyObject *types, PyObject *args, PyObject *kwargs)
{
    Py_ssize_t n = nmodes();
    PyObject *mode = py_ref(PyList_GET_ITEM(modes, n - 1));
    if (PyList_SetSlice(modes, n - 1, n, NULL)) return Py_DECREF(mode), NULL;
    refresh_mode_bit();
    PyObject *r = py_ask(mode, s_torch_dispatch, true, func, types, args, kwargs);
    if (PyList_Append(modes, mode)) Py_CLEAR(r);
    refresh_mode_bit();
    Py_DECREF(mode);
    return r;
}

static PyObject *nobody_answered(PyObject *func, PyObject **who, int n)
{
    PyObject *text = PyUnicode_FromFormat("Multiple dispatch failed for 'torch._ops.%S'; all __torch_dispatch__ handlers returned NotImplemented:\n\n", func);
    if (nmodes()) PyUnicode_AppendAndDel(&text, PyUnicode_FromFormat("  - mode object %R\n", PyList_GET_ITEM(modes, nmodes() - 1)));
    for (int i = 0; i < n; ++i) PyUnicode_AppendAndDel(&text, PyUnicode_FromFormat("  - tensor subclass %R\n", (PyObject *)Py_TYPE(who[i])));
    if (text) PyErr_SetObject(PyExc_TypeError, text);
    Py_XDECREF(text);
    return NULL;
}

/* Those of vmap: a mode sees what is computed with the whole batch. */
static bool is_above_modes(PyObject *tensor)
{
    PyObject *above = py_getattr_quiet(tensor, "_above_modes");
    Py_XDECREF(above);
    return above == Py_True;
}

static PyObject *ask_all(PyObject *func, PyObject *types, PyObject **who, int n, PyObject *args, PyObject *kwargs)
{
    for (int i = 0; i < n && nmodes(); ++i)
        if (is_above_modes(who[i])) return py_ask(who[i], s_torch_dispatch, false, func, types, args, kwargs);
    PyObject *r = nmodes() ? ask_mode(func, types, args, kwargs) : py_ref(Py_NotImplemented);
    for (int i = 0; i < n && r == Py_NotImplemented; ++i) {
        Py_DECREF(r);
        r = py_ask(who[i], s_torch_dispatch, false, func, types, args, kwargs);
    }
    if (r != Py_NotImplemented) return r;
    Py_DECREF(r);
    return nobody_answered(func, who, n);
}

static int answer(rush_form form, const rush_op *op, const rush_value *in, rush_value *out, PyObject **who, int n)
{
    PyObject *func = py_overload_of(op, form), *types = func ? PyTuple_New(n) : NULL, *args = NULL, *kwargs = NULL, *r = NULL;
    for (int i = 0; types && i < n; ++i) PyTuple_SET_ITEM(types, i, py_ref((PyObject *)Py_TYPE(who[i])));
    if (types && !py_watch_arguments(form, op, in, out, &args, &kwargs)) r = ask_all(func, types, who, n, args, kwargs);
    int failed = !r || (form == RUSH_FORM_CALL && py_take_results(op, r, out)) ? -1 : 0;
    Py_XDECREF(r);
    Py_XDECREF(kwargs);
    Py_XDECREF(args);
    Py_XDECREF(types);
    return failed;
}

static int watch(rush_form form, const rush_op *op, const rush_value *in, rush_value *out)
{
    PyObject *who[32];
    PyGILState_STATE gil = PyGILState_Ensure();
    int n = all_answering(op, in, out, form, who, RUSH_COUNT(who)), failed = 1;
    if (n || nmodes()) failed = answer(form, op, in, out, who, n);
    if (failed < 0) py_foreign();
    PyGILState_Release(gil);
    return failed > 0 ? py_kernel(form, op, in, out) : failed;
}

static int collect(PyObject *x, PyObject **who, int n, int room)
{
    if (py_is_tensor(x)) return py_tensor_of(x) ? answering(py_tensor_of(x), who, n, room) : n;
    if (!PyTuple_Check(x) && !PyList_Check(x)) return n;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(x); ++i) n = collect(PySequence_Fast_GET_ITEM(x, i), who, n, room);
    return n;
}

/* _dispatch(op, args, kwargs), of operators that Python defines: what modes and classes answer about op.overload(); NotImplemented: nobody is to be asked */
static PyObject *dispatch(PyObject *module, PyObject *arguments)
{
    PyObject *op, *args, *kwargs, *who[32], *values;
    if (!PyArg_ParseTuple(arguments, "OO!O!", &op, &PyTuple_Type, &args, &PyDict_Type, &kwargs)) return NULL;
    if (!(values = PyDict_Values(kwargs))) return NULL;
    int n = rush_now.mode & RUSH_MODE_UNWATCHED ? 0 : collect(values, who, collect(args, who, 0, RUSH_COUNT(who)), RUSH_COUNT(who));
    Py_DECREF(values);
    if (!n && (!nmodes() || rush_now.mode & RUSH_MODE_UNWATCHED)) Py_RETURN_NOTIMPLEMENTED;
    PyObject *types = PyTuple_New(n), *func = types ? PyObject_CallMethod(op, "overload", NULL) : NULL, *r = NULL;
    for (int i = 0; types && i < n; ++i) PyTuple_SET_ITEM(types, i, py_ref((PyObject *)Py_TYPE(who[i])));
    if (func) r = ask_all(func, types, who, n, args, kwargs);
    Py_XDECREF(func);
    Py_XDECREF(types);
    return r;
}

typedef struct call_kind {
    bool grad;
    char device[32]; /* meta before others, in the alphabet's order, before cpu */
} call_kind;

static void runs_on(call_kind *kind, const char *device)
{
    const char *now = kind->device;
    bool first = strcmp(now, "meta") && strcmp(device, "cpu") && (!strcmp(now, "cpu") || !strcmp(device, "meta") || strcmp(device, now) < 0);
    if (first) snprintf(kind->device, sizeof kind->device, "%s", device);
}

/* Of tensors of subclasses as their attributes say. */
static int look_at(call_kind *kind, PyObject *x)
{
    if (Py_TYPE(x) == py_Tensor && py_tensor_of(x)) {
        kind->grad |= rush_wants_grad(py_tensor_of(x));
        if (py_tensor_of(x)->device.type != RUSH_CPU) runs_on(kind, rush_device_name(py_tensor_of(x)->device.type));
    } else if (py_is_tensor(x)) {
        PyObject *grad = PyObject_GetAttrString(x, "requires_grad"), *device = grad ? PyObject_GetAttrString(x, "device") : NULL;
        PyObject *type = device ? PyObject_GetAttrString(device, "type") : NULL;
        const char *name = type ? PyUnicode_AsUTF8(type) : NULL;
        int wants = name ? PyObject_IsTrue(grad) : -1;
        if (wants >= 0) kind->grad |= wants, runs_on(kind, name);
        Py_XDECREF(grad);
        Py_XDECREF(device);
        Py_XDECREF(type);
        return wants < 0 ? -1 : 0;
    } else if (PyTuple_Check(x) || PyList_Check(x)) {
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(x); ++i)
            if (look_at(kind, PySequence_Fast_GET_ITEM(x, i))) return -1;
    }
    return 0;
}

/* _call_kind(values) -> (requires one of the tensors a gradient?, the type of the device whose kernel the call takes) */
static PyObject *kind_of_call(PyObject *module, PyObject *values)
{
    call_kind kind = {.device = "cpu"};
    return look_at(&kind, values) ? NULL : Py_BuildValue("Os", kind.grad ? Py_True : Py_False, kind.device);
}

/* The __torch_dispatch__ of Tensor, for super(): the operation as if nobody were to be asked. */
static PyObject *disabled_dispatch(PyObject *module, PyObject *args, PyObject *kwargs)
{
    uint32_t before = rush_now.mode & RUSH_MODE_UNWATCHED;
    rush_now.mode |= RUSH_MODE_UNWATCHED;
    PyObject *r = py_call_plainly("OO|OO:_disabled_torch_dispatch_impl", args, kwargs);
    rush_now.mode = (rush_now.mode & ~RUSH_MODE_UNWATCHED) | before;
    return r;
}

/* ---- the stack ---- */

/* Modes of the machinery (their _mode_key says their place) lie below those of programs. */
static long place_of(PyObject *mode)
{
    PyObject *key = py_getattr_quiet(mode, "_mode_key"), *value = key && key != Py_None ? py_getattr_quiet(key, "value") : NULL;
    long at = value && PyLong_Check(value) ? PyLong_AsLong(value) : 100;
    Py_XDECREF(value);
    Py_XDECREF(key);
    return at;
}

static PyObject *push_mode(PyObject *module, PyObject *mode)
{
    if (!modes && !(modes = PyList_New(0))) return NULL;
    Py_ssize_t at = nmodes();
    while (at && place_of(PyList_GET_ITEM(modes, at - 1)) > place_of(mode)) --at;
    if (PyErr_Occurred() || PyList_Insert(modes, at, mode)) return NULL;
    refresh_mode_bit();
    Py_RETURN_NONE;
}

/* The innermost mode, or the one whose key is given. */
static PyObject *pop_mode(PyObject *module, PyObject *args)
{
    PyObject *key = Py_None;
    if (!PyArg_ParseTuple(args, "|O", &key)) return NULL;
    for (Py_ssize_t i = nmodes() - 1; i >= 0; --i) {
        PyObject *mode = PyList_GET_ITEM(modes, i), *its = py_getattr_quiet(mode, "_mode_key");
        bool found = key == Py_None || its == key;
        Py_XDECREF(its);
        if (!found) continue;
        Py_INCREF(mode);
        if (PyList_SetSlice(modes, i, i + 1, NULL)) Py_CLEAR(mode);
        refresh_mode_bit();
        return mode;
    }
    return PyErr_Format(PyExc_RuntimeError, "no such mode is on the __torch_dispatch__ stack");
}

static PyObject *get_mode(PyObject *module, PyObject *key)
{
    for (Py_ssize_t i = nmodes() - 1; i >= 0; --i) {
        PyObject *its = py_getattr_quiet(PyList_GET_ITEM(modes, i), "_mode_key");
        Py_XDECREF(its);
        if (its == key && key != Py_None) return py_ref(PyList_GET_ITEM(modes, i));
    }
    Py_RETURN_NONE;
}

static PyObject *mode_count(PyObject *module, PyObject *unused) { return PyLong_FromSsize_t(nmodes()); }

static PyObject *mode_at(PyObject *module, PyObject *x)
{
    Py_ssize_t i = PyLong_AsSsize_t(x);
    if (i == -1 && PyErr_Occurred()) return NULL;
    if (i < 0 || i >= nmodes()) return PyErr_Format(PyExc_RuntimeError, "there is no mode at %zd", i);
    return py_ref(PyList_GET_ITEM(modes, i));
}

/* _watch_off(bool) -> what it was: inside, nobody is asked. */
static PyObject *watch_off(PyObject *module, PyObject *on)
{
    bool was = rush_now.mode & RUSH_MODE_UNWATCHED;
    int now = PyObject_IsTrue(on);
    if (now < 0) return NULL;
    rush_now.mode = (rush_now.mode & ~RUSH_MODE_UNWATCHED) | (now ? RUSH_MODE_UNWATCHED : 0);
    return PyBool_FromLong(was);
}

static PyObject *grad_outside(PyObject *module, PyObject *unused)
{
    return PyBool_FromLong(!((rush_now.outside ? *rush_now.outside : rush_now.mode) & RUSH_MODE_NO_GRAD));
}

/* _with_device(t, device, cls=None): the same storage, strides and all, under another device; what fake tensors are made of. */
static PyObject *with_device(PyObject *module, PyObject *args)
{
    PyObject *x, *where, *cls = NULL;
    rush_device device;
    if (!PyArg_ParseTuple(args, "OO|O", &x, &where, &cls)) return NULL;
    rush_tensor *t = py_need_tensor(x, "_with_device(): argument 't'");
    int ok = t ? py_to_device(where, &device) : -1;
    if (ok <= 0) return ok ? NULL : PyErr_Format(PyExc_TypeError, "_with_device(): a device was expected, not %s", py_type_name(where));
    if (!t->storage || t->storage->device.type != RUSH_META) return PyErr_Format(PyExc_RuntimeError, "_with_device(): only of tensors without data");
    if (cls && (!PyType_Check(cls) || !py_answers_itself((PyTypeObject *)cls)))
        return PyErr_Format(PyExc_TypeError, "_with_device(): cls must be a class of tensors that define __torch_dispatch__");
    if (!cls && device.type != RUSH_META) return PyErr_Format(PyExc_RuntimeError, "_with_device(): without a class the device must be meta");
    size_t mark = rush_scope_open();
    rush_tensor *r = rush_tensor_alias(t, t->ndim, t->size, t->stride, t->offset);
    if (r) r->device = device;
    PyObject *made = !r ? py_raise() : cls ? py_wrap_as((PyTypeObject *)cls, r) : py_wrap(r);
    rush_scope_close(mark);
    return made;
}

static PyMethodDef functions[] = {
    {"_disabled_torch_dispatch_impl", (PyCFunction)(void (*)(void))disabled_dispatch, METH_VARARGS | METH_KEYWORDS, "The __torch_dispatch__ of plain tensors."},
    {"_dispatch", dispatch, METH_VARARGS, "Asks modes and classes about a call of an operator that Python defines."},
    {"_call_kind", kind_of_call, METH_O, "_call_kind(values): does one of the tensors require a gradient, and the type of the device whose kernel is called."},
    {"_with_device", with_device, METH_VARARGS, "A tensor without data, of another device, over the same storage."},
    {"_push_on_torch_dispatch_stack", push_mode, METH_O, "The mode sees every operation from now on."},
    {"_pop_torch_dispatch_stack", pop_mode, METH_VARARGS, "Takes the innermost mode, or the one of a key, off the stack."},
    {"_len_torch_dispatch_stack", mode_count, METH_NOARGS, "How many modes see operations."},
    {"_get_dispatch_stack_at", mode_at, METH_O, "The mode at a place, the outermost is 0."},
    {"_get_dispatch_mode", get_mode, METH_O, "The mode of a key, or None."},
    {"_grad_outside", grad_outside, METH_NOARGS, "In a __torch_dispatch__: would the call that it answers have been recorded?"},
    {"_watch_off", watch_off, METH_O, "_watch_off(on): is nobody asked from now on? Returns what it was."},
    {NULL},
};

int py_dispatch_init(PyObject *module)
{
    s_torch_dispatch = PyUnicode_InternFromString("__torch_dispatch__");
    overloads = PyDict_New();
    if (!s_torch_dispatch || !overloads || PyModule_AddFunctions(module, functions)) return -1;
    disabled = PyObject_GetAttrString(module, "_disabled_torch_dispatch_impl");
    rush_watcher = watch;
    return disabled ? 0 : -1;
}
