/* capture.c - what a program calls, told to Python call by call: the raw material of torch.export.
 *
 * The hook of the road (src/op/profile.h) sees every call, and those that a call makes itself. Told are the outermost ones, after
 * they have run: composites stay whole, as the program wrote them.
 */
#include "ext.h"
#include "op/profile.h"

typedef struct capture {
    PyObject *tell;                  /* tell(op's name, form, args, kwargs, results, grad) */
    PyObject *type, *value, *trace;  /* the first exception of it                          */
    int depth;
} capture;

static _Thread_local capture *capturing;
_Thread_local bool py_capturing;

static PyObject *results_of(const rush_op *op, const rush_value *out)
{
    PyObject *list = PyTuple_New(op->nout);
    for (int i = 0; list && i < op->nout; ++i) {
        PyObject *x = out[i].kind == RUSH_V_TENSORS ? py_wrap_list(out[i].tensors, out[i].n, false) : py_from_value(&out[i]);
        if (x) PyTuple_SET_ITEM(list, i, x);
        else Py_CLEAR(list);
    }
    return list;
}

static void tell(capture *c, const rush_profile_event *e)
{
    PyObject *args = NULL, *kwargs = NULL, *answer = NULL;
    bool graded = !(rush_now.mode & (RUSH_MODE_NO_GRAD | RUSH_MODE_INFERENCE));
    if (e->how > RUSH_PROFILE_OUT) {
        PyErr_SetString(PyExc_NotImplementedError, "a program that computes derivatives itself cannot be captured");
    } else if (!py_watch_arguments((rush_form)e->how, e->op, e->in, e->out, &args, &kwargs)) {
        PyObject *results = results_of(e->op, e->out);
        answer = results ? PyObject_CallFunction(c->tell, "siOONi", e->op->name, (int)e->how, args, kwargs, results, (int)graded) : NULL;
    }
    if (!answer) PyErr_Fetch(&c->type, &c->value, &c->trace);
    Py_XDECREF(answer);
    Py_XDECREF(args);
    Py_XDECREF(kwargs);
}

static void hook(void *arg, const rush_profile_event *e, bool begins);

static void listen(capture *c)
{
    rush_profile_to(c ? hook : NULL, c);
    py_capturing = c;
}

static void hook(void *arg, const rush_profile_event *e, bool begins)
{
    capture *c = arg;
    c->depth += begins ? 1 : -1;
    if (begins || c->depth || c->type || e->how == RUSH_PROFILE_RANGE || rush_failed()) return;
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    listen(NULL); /* what the listener calls is not told */
    tell(c, e);
    listen(c);
    PyErr_Restore(type, value, trace);
    PyGILState_Release(gil);
}

/* _capture(tell, function, args, kwargs): the function's result; its calls are told. */
static PyObject *run(PyObject *module, PyObject *arguments)
{
    PyObject *function, *args, *kwargs;
    capture c = {0};
    if (!PyArg_ParseTuple(arguments, "OOO!O!", &c.tell, &function, &PyTuple_Type, &args, &PyDict_Type, &kwargs)) return NULL;
    if (rush_now.mode & RUSH_MODE_PROFILE) return PyErr_Format(PyExc_RuntimeError, "calls are being recorded already: by a profiler, or another capture");
    capture *outer = capturing; /* paused */
    listen(capturing = &c);
    PyObject *result = PyObject_Call(function, args, kwargs);
    listen(NULL);
    capturing = outer;
    if (!c.type) return result;
    if (result) {
        Py_DECREF(result);
        PyErr_Restore(c.type, c.value, c.trace);
        return NULL;
    }
    Py_XDECREF(c.type); /* the function's own exception says more */
    Py_XDECREF(c.value);
    Py_XDECREF(c.trace);
    return NULL;
}

/* _capture_paused(function): its result; inside, no call is told. */
static PyObject *paused(PyObject *module, PyObject *function)
{
    capture *c = capturing;
    if (c) listen(NULL);
    PyObject *result = PyObject_CallNoArgs(function);
    if (c) listen(c);
    return result;
}

static PyMethodDef functions[] = {
    {"_capture", run, METH_VARARGS, "_capture(tell, function, args, kwargs): calls the function, and tells of the operations that it calls."},
    {"_capture_paused", paused, METH_O, "_capture_paused(function): calls it, and tells nothing."},
    {NULL},
};

int py_capture_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
