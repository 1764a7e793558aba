/* kernels.c - kernels that programs give to the library's operations (torch.library.Library("aten", "IMPL")).
 *
 * While there are any, the road asks about each call, as it does under a mode: composites are opened, so that a kernel is
 * reached wherever PyTorch would reach it. (Operations of other namespaces are pieces of none of ours: calls of theirs alone are asked about.) Kernels of devices run where the library's own would (op/watch.h), those of
 * Autograd keys and of composites in place of everything below the call, those of Autocast keys before them. The fallback of a device type stands for the
 * kernels that its backend has not.
 */
#include "ext.h"
#include "op/watch.h"
#include "tensor/backend.h"

enum { SLOTS = 1024, ALL_DEVICES = 128, ABOVE = 256, AUTOCAST = 512 }; /* a slot: the type of a device or all of them, below autograd, above, or before both under autocast */

static PyObject *given;    /* (3 * index + form) * SLOTS + slot -> function */
static PyObject *fallbacks; /* type of a device -> function of an OpOverload and its arguments */
static uint16_t *number;   /* of functions, by an operation's index */
static uint32_t nnumber, of_ours; /* the latter: functions given to operations without a namespace */
static _Thread_local bool below; /* an Autograd kernel said so */
static _Thread_local const rush_op *past; /* whose own kernel was asked for: those given are not asked */

static PyObject *key_of(const rush_op *op, rush_form form, int slot)
{
    return PyLong_FromLong(((long)op->index * 3 + form) * SLOTS + slot);
}

static int device_of(const rush_op *op, const rush_value *in)
{
    int type = RUSH_CPU;
    for (int i = 0; i < op->nargs; ++i) {
        const rush_value *v = &in[i];
        if (v->kind == RUSH_V_TENSOR && v->t->device.type != RUSH_CPU) return v->t->device.type;
        for (uint32_t k = 0; v->kind == RUSH_V_TENSORS && k < v->n; ++k)
            if (v->tensors[k] && v->tensors[k]->device.type != RUSH_CPU) return v->tensors[k]->device.type;
        if (v->kind == RUSH_V_DEVICE) type = v->device.type;
    }
    return type;
}

static PyObject *find(const rush_op *op, rush_form form, int slot)
{
    PyObject *key = key_of(op, form, slot), *f = key ? PyDict_GetItemWithError(given, key) : NULL;
    Py_XDECREF(key);
    return f;
}

/* f(func, ...), or f(...) where func is NULL. */
static int run(PyObject *f, PyObject *func, rush_form form, const rush_op *op, const rush_value *in, rush_value *out)
{
    PyObject *args = NULL, *kwargs = NULL, *r = NULL, *first = func ? PyTuple_Pack(1, func) : NULL;
    if ((first || !func) && !py_watch_arguments(form, op, in, out, &args, &kwargs)) {
        if (first) Py_SETREF(args, PySequence_Concat(first, args));
        if (args) r = PyObject_Call(f, args, kwargs);
    }
    Py_XDECREF(first);
    int failed = !r || (form == RUSH_FORM_CALL && py_take_results(op, r, out)) ? -1 : 0;
    Py_XDECREF(r);
    Py_XDECREF(kwargs);
    Py_XDECREF(args);
    return failed;
}

static int ask(int above, rush_form form, const rush_op *op, const rush_value *in, rush_value *out)
{
    if (op->index >= nnumber || !number[op->index] || (above == ABOVE && below) || (past && op->index == past->index)) return 1;
    int failed = 1;
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *f = find(op, form, above + device_of(op, in));
    if (!f && !PyErr_Occurred()) f = find(op, form, above + ALL_DEVICES);
    if (f) {
        Py_INCREF(f);
        failed = run(f, NULL, form, op, in, out);
        Py_DECREF(f);
    } else if (PyErr_Occurred()) {
        failed = -1;
    }
    if (failed < 0) py_foreign();
    PyGILState_Release(gil);
    return failed;
}

static int fall_back(rush_form form, const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_device at = {(uint8_t)device_of(op, in), 0};
    if (!rush_needs_fallback(at, op)) return 1;
    int failed = 1;
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *type = PyLong_FromLong(at.type), *f = type ? PyDict_GetItemWithError(fallbacks, type) : NULL;
    if (f) {
        PyObject *func = py_overload_of(op, form);
        Py_INCREF(f);
        failed = func ? run(f, func, form, op, in, out) : -1;
        Py_DECREF(f);
    } else if (PyErr_Occurred()) {
        failed = -1;
    }
    Py_XDECREF(type);
    if (failed < 0) py_foreign();
    PyGILState_Release(gil);
    return failed;
}

int py_kernel(rush_form form, const rush_op *op, const rush_value *in, rush_value *out)
{
    int failed = ask(0, form, op, in, out);
    return failed > 0 && PyDict_GET_SIZE(fallbacks) ? fall_back(form, op, in, out) : failed;
}

/* In place, and where the schema says that argument 0 is changed, that is the result. */
static int above(rush_form form, const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value kept[RUSH_MAXOUT];
    memcpy(kept, out, sizeof *out * op->nout);
    bool cast = op->index < nnumber && number[op->index] && rush_autocast_on(device_of(op, in));
    int failed = cast ? ask(AUTOCAST, form, op, in, out) : 1;
    if (failed > 0) failed = ask(ABOVE, form, op, in, out);
    if (failed) return failed;
    if (form == RUSH_FORM_OUT) memcpy(out, kept, sizeof *out * op->nout);
    else if (op->nout && op->nargs && (form == RUSH_FORM_INPLACE || (op->args[0].written && !op->args[0].list)) && in[0].kind == RUSH_V_TENSOR) out[0] = in[0];
    return 0;
}

static void look(void) { rush_watch_all = of_ours + PyDict_GET_SIZE(fallbacks) > 0; }

static int count(const rush_op *op, int by)
{
    if (op->index >= nnumber) {
        uint32_t n = op->index + 64;
        uint16_t *more = rush_realloc(number, sizeof *more * n);
        if (!more) return py_raise(), -1;
        memset(more + nnumber, 0, sizeof *more * (n - nnumber));
        number = more;
        nnumber = n;
    }
    number[op->index] = (uint16_t)(number[op->index] + by);
    ((rush_op *)op)->given = number[op->index];
    of_ours += strchr(op->name, ':') ? 0 : by;
    look();
    return 0;
}

/* _kernel_set(record, form, device type or -1 for all, 0 below autograd, 1 above or 2 under autocast, f or None) -> what was there */
static PyObject *kernel_set(PyObject *module, PyObject *args)
{
    const char *name;
    int form, type, level;
    PyObject *f;
    if (!PyArg_ParseTuple(args, "siiiO", &name, &form, &type, &level, &f)) return NULL;
    const rush_op *op = rush_op_find(name);
    if (!op || form < RUSH_FORM_CALL || form > RUSH_FORM_OUT) return PyErr_Format(PyExc_RuntimeError, "No such operator %s", name);
    PyObject *key = key_of(op, (rush_form)form, level * ABOVE + (type < 0 ? ALL_DEVICES : type));
    PyObject *was = key ? PyDict_GetItemWithError(given, key) : NULL;
    bool there = was != NULL;
    int failed = !key || PyErr_Occurred();
    was = py_ref(there ? was : Py_None);
    if (!failed && f != Py_None) failed = PyDict_SetItem(given, key, f) || count(op, !there);
    else if (!failed && there) failed = PyDict_DelItem(given, key) || count(op, -1);
    Py_XDECREF(key);
    if (!failed) return was;
    Py_DECREF(was);
    return NULL;
}

/* _fallback_set(device type, f or None): RuntimeError if the backend has one of its own. */
static PyObject *fallback_set(PyObject *module, PyObject *args)
{
    PyObject *type, *f;
    if (!PyArg_ParseTuple(args, "O!O", &PyLong_Type, &type, &f)) return NULL;
    long at = PyLong_AsLong(type);
    if (at < 0 || at >= RUSH_DEVICES) return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "There is no device type %ld", at);
    const rush_backend *b = rush_backend_of((rush_device){(uint8_t)at, 0});
    if (f != Py_None && b && b->fallback)
        return PyErr_Format(PyExc_RuntimeError, "Tried to register multiple backend fallbacks for the device %s: its backend has one", b->name);
    if (f != Py_None ? PyDict_SetItem(fallbacks, type, f) : PyDict_Contains(fallbacks, type) ? PyDict_DelItem(fallbacks, type) : 0) return NULL;
    look();
    Py_RETURN_NONE;
}

/* _is_composite(record): does PyTorch make other operations of it? */
static PyObject *is_composite(PyObject *module, PyObject *x)
{
    const char *name = PyUnicode_AsUTF8(x);
    const rush_op *op = name ? rush_op_find(name) : NULL;
    if (!op) return name ? PyErr_Format(PyExc_RuntimeError, "No such operator %s", name) : NULL;
    return PyBool_FromLong(op->open || (op->run && !(op->flags & RUSH_WHOLE)));
}

/* _kernel_past(record or None) -> what it was: kernels that programs gave to this operation are not asked inside. */
static PyObject *kernel_past(PyObject *module, PyObject *x)
{
    const rush_op *was = past, *op = NULL;
    const char *name = x == Py_None ? NULL : PyUnicode_AsUTF8(x);
    if (x != Py_None && !name) return NULL;
    if (name && !(op = rush_op_find(name))) return PyErr_Format(PyExc_RuntimeError, "No such operator %s", name);
    past = op;
    return was ? PyUnicode_FromString(was->name) : py_ref(Py_None);
}

/* _below_autograd(bool) -> what it was: kernels of Autograd keys are not asked inside. */
static PyObject *below_autograd(PyObject *module, PyObject *on)
{
    bool was = below;
    int now = PyObject_IsTrue(on);
    if (now < 0) return NULL;
    below = now;
    return PyBool_FromLong(was);
}

static PyMethodDef functions[] = {
    {"_kernel_past", kernel_past, METH_O, "Kernels that programs gave to an operation are not asked from now on; returns for which that was so."},
    {"_kernel_set", kernel_set, METH_VARARGS, "Gives an operation of the library a kernel, or takes it away; returns the one that was there."},
    {"_fallback_set", fallback_set, METH_VARARGS, "Gives a device type what stands for the kernels that its backend has not, or takes it away."},
    {"_is_composite", is_composite, METH_O, "Is it made of other operations, for who looks at them?"},
    {"_below_autograd", below_autograd, METH_O, "Are kernels of Autograd keys left out from now on? Returns what it was."},
    {NULL},
};

int py_kernels_init(PyObject *module)
{
    given = PyDict_New();
    fallbacks = PyDict_New();
    rush_taken_above = above;
    return given && fallbacks ? PyModule_AddFunctions(module, functions) : -1;
}
