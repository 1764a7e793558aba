/* capture.c - what a program calls, told to Python call by call: the raw material of torch.export.
 *
 * The hook of the road (src/op/profile.h) sees every call, and those that a call makes itself. Told are the outermost ones, after
 * they have run: composites stay whole, as the program wrote them.
 */
#include "ext.h"
#include "op/profile.h"

typedef struct capture {
    PyObject *tell;                  /* tell(op's name, form, args, kwargs, results, grad) */
    PyObject *size, *number;         /* of traces: size(tensor, dim) is a tensor; number(tensor) stands for it among arguments */
    PyObject *type, *value, *trace;  /* the first exception of it                          */
    int depth;
} capture;

static _Thread_local capture *capturing, *listening;
_Thread_local bool py_capturing;

/* ---- numbers that are tensors, in traces: where an operation takes one, it is remembered which ---- */

typedef struct traced {
    const void *at;
    int arg;
    int64_t value;
    PyObject *tensor;
} traced;

static _Thread_local traced numbers[64];
static _Thread_local int nnumbers;
int py_traces;

bool py_tracing(void) { return RUSH_UNLIKELY(py_traces) && listening && listening->size; }

void py_trace_number(const void *at, int arg, PyObject *tensor)
{
    const rush_tensor *t = py_tensor_of(tensor);
    if (nnumbers == RUSH_COUNT(numbers) || !py_tracing() || t->numel != 1) return;
    numbers[nnumbers++] = (traced){at, arg, rush_dtypes[t->dtype].category < 2 ? rush_item_int(t) : 0, py_ref(tensor)};
}

static void forget_numbers(void)
{
    while (nnumbers) Py_DECREF(numbers[--nnumbers].tensor);
}

/* Places are used again by later calls: the value must be the same, too. */
static PyObject *number_at(const void *at, int arg, const int64_t *value)
{
    for (int i = nnumbers; i--;)
        if (at == numbers[i].at || (!numbers[i].at && arg >= 0 && arg == numbers[i].arg))
            if (!value || *value == numbers[i].value) return numbers[i].tensor;
    return NULL;
}

static PyObject *number_of(const rush_value *v, int arg)
{
    PyObject *t = v->kind == RUSH_V_INT ? number_at(&v->i, arg, &v->i) : NULL;
    return t ? t : v->kind == RUSH_V_INT || v->kind == RUSH_V_FLOAT ? number_at(v, arg, v->kind == RUSH_V_INT ? &v->i : NULL) : NULL;
}

bool py_holds_traced(const rush_value *v, int arg)
{
    for (uint32_t j = 0; v->kind == RUSH_V_INTS && j < v->n; ++j)
        if (number_at(&v->ints[j], -1, &v->ints[j])) return true;
    return number_of(v, arg) != NULL;
}

PyObject *py_traced_argument(const rush_value *v, int arg, PyObject *x)
{
    if (!x || !py_holds_traced(v, arg)) return x;
    PyObject *t = number_of(v, arg);
    if (t) return Py_DECREF(x), PyObject_CallOneArg(listening->number, t);
    PyObject *list = PySequence_List(x);
    Py_DECREF(x);
    for (uint32_t j = 0; list && j < v->n; ++j) {
        PyObject *item = (t = number_at(&v->ints[j], -1, &v->ints[j])) ? PyObject_CallOneArg(listening->number, t) : NULL;
        if (t && (!item || PyList_SetItem(list, j, item))) Py_CLEAR(list);
    }
    return list;
}

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

static void tell(capture *c, const rush_profile_event *e, PyObject *args, PyObject *kwargs)
{
    PyObject *answer = NULL;
    bool graded = !(rush_now.mode & (RUSH_MODE_NO_GRAD | RUSH_MODE_INFERENCE));
    if (e->how > RUSH_PROFILE_OUT) {
        PyErr_SetString(PyExc_NotImplementedError, "a program that computes derivatives itself cannot be captured");
    } else if (args && kwargs) {
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
    listening = c;
}

PyObject *py_traced_size(PyObject *self, int dim)
{
    capture *c = listening;
    listen(NULL);
    PyObject *t = PyObject_CallFunction(c->size, "Oi", self, dim);
    listen(c);
    return t;
}

PyObject *py_traced_sizes(PyObject *self)
{
    int n = py_tensor_of(self)->ndim;
    PyObject *x = py_type_Size.tp_alloc(&py_type_Size, n);
    for (int i = 0; x && i < n; ++i) {
        PyObject *item = py_traced_size(self, i);
        if (item) PyTuple_SET_ITEM(x, i, item);
        else Py_CLEAR(x);
    }
    return x;
}

/* Under autocast a composite's parts are cast, not the composite: it is opened, so that the casts are told. */
static bool is_opened(const rush_profile_event *e)
{
    return rush_now.mode & RUSH_MODE_AUTOCAST && e->op && e->op->run && !(e->op->flags & (RUSH_AUTOCAST_LOW | RUSH_AUTOCAST_F32 | RUSH_AUTOCAST_WIDEST));
}

static void hook(void *arg, const rush_profile_event *e, bool begins)
{
    capture *c = arg;
    if (!c->depth && is_opened(e)) return;
    c->depth += begins ? 1 : -1;
    if (begins || c->depth || c->type || e->how == RUSH_PROFILE_RANGE || rush_failed()) return;
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *args = NULL, *kwargs = NULL;
    int failed = e->how > RUSH_PROFILE_OUT ? 0 : py_watch_arguments((rush_form)e->how, e->op, e->in, e->out, &args, &kwargs);
    listen(NULL); /* what the listener calls is not told */
    tell(c, e, failed ? NULL : args, kwargs);
    forget_numbers();
    listen(c);
    PyErr_Restore(type, value, trace);
    PyGILState_Release(gil);
}

/* _capture(tell, function, args, kwargs[, size, number]): the function's result; its calls are told. */
static PyObject *run(PyObject *module, PyObject *arguments)
{
    PyObject *function, *args, *kwargs;
    capture c = {0};
    if (!PyArg_ParseTuple(arguments, "OOO!O!|OO", &c.tell, &function, &PyTuple_Type, &args, &PyDict_Type, &kwargs, &c.size, &c.number)) return NULL;
    if (rush_now.mode & RUSH_MODE_PROFILE) return PyErr_Format(PyExc_RuntimeError, "calls are being recorded already: by a profiler, or another capture");
    capture *outer = capturing; /* paused */
    py_traces += c.size != NULL;
    listen(capturing = &c);
    PyObject *result = PyObject_Call(function, args, kwargs);
    listen(NULL);
    py_traces -= c.size != NULL;
    forget_numbers();
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
    {"_capture", run, METH_VARARGS, "_capture(tell, function, args, kwargs, size, number): calls the function, and tells of the operations that it calls. With size(tensor, dim), sizes are "
                                                "tensors; as an argument that is a number, one is told as number(tensor)."},
    {"_capture_paused", paused, METH_O, "_capture_paused(function): calls it, and tells nothing."},
    {NULL},
};

int py_capture_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
