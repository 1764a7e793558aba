/* capture.c - what a program calls, told to Python call by call: the raw material of torch.export.
 *
 * The hook of the road (src/op/profile.h) sees every call, and those that a call makes itself. Told are the outermost ones, after
 * they have run: composites stay whole, as the program wrote them.
 */
#include "ext.h"
#include "op/profile.h"

typedef struct capture {
    PyObject *tell;                  /* tell(op's name, form, args, kwargs, results, grad) */
    PyObject *size, *number;         /* size(tensor, dim) is a size, in traces a tensor; number(x) stands for one among arguments */
    PyObject *item, *symbol;         /* of exports: item(tensor, value) is what item() returns; the type of numbers that follow from data */
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

bool py_is_symbol(PyObject *x) { return py_tracing() && listening->symbol && PyType_IsSubtype(Py_TYPE(x), (PyTypeObject *)listening->symbol); }
bool py_is_traced(PyObject *x) { return py_tracing() && (py_is_tensor(x) || py_is_symbol(x)); }

/* Of a slice that takes all there is: is it one because the number happens to be what it is? */
bool py_traced_end(PyObject *slice) { return py_tracing() && (!listening->symbol || py_is_traced(((PySliceObject *)slice)->stop)); }

static void remember(const void *at, int arg, int64_t value, PyObject *x)
{
    enum { MOST = RUSH_COUNT(numbers) };
    if (nnumbers == MOST) { /* of calls that never came */
        for (int i = 0; i < MOST / 2; ++i) Py_DECREF(numbers[i].tensor);
        memmove(numbers, numbers + MOST / 2, sizeof *numbers * (MOST - MOST / 2));
        nnumbers = MOST - MOST / 2;
    }
    numbers[nnumbers++] = (traced){at, arg, value, py_ref(x)};
}

/* As it is compared: a float's bits. */
static int64_t bits_of(const rush_value *v)
{
    int64_t bits = v->i;
    if (v->kind == RUSH_V_FLOAT) memcpy(&bits, &v->f, sizeof bits);
    return bits;
}

static int symbol_value(PyObject *x, rush_value *out)
{
    PyObject *value = PyObject_GetAttrString(x, "_value");
    int ok = value ? py_plain_number(value, out) : -1;
    Py_XDECREF(value);
    return ok;
}

void py_trace_number(const void *at, int arg, PyObject *x)
{
    rush_value v = rush_v_int(0);
    if (!py_tracing()) return;
    if (py_is_tensor(x)) {
        const rush_tensor *t = py_tensor_of(x);
        if (t->numel != 1) return;
        if (rush_dtypes[t->dtype].category < 2) v.i = rush_item_int(t);
        else if (listening->symbol) v = rush_v_float(rush_item(t));
    } else if (symbol_value(x, &v) <= 0) {
        return PyErr_Clear();
    }
    remember(at, arg, bits_of(&v), x);
}

/* The number that a symbol has in this run. */
int py_symbol_number(PyObject *x, rush_value *out)
{
    int ok = symbol_value(x, out);
    if (ok > 0) remember(out, -1, bits_of(out), x);
    return ok;
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
    if (v->kind == RUSH_V_TENSOR && v->t && v->t->flags & RUSH_T_WRAPPED && rush_ptr(v->t)) { /* a number in a tensor's place */
        rush_value in = v->t->dtype == RUSH_I64 ? rush_v_int(rush_item_int(v->t)) : rush_v_float(rush_item(v->t));
        int64_t bits = bits_of(&in);
        return number_at(v, -1, &bits);
    }
    if (t || (v->kind != RUSH_V_INT && v->kind != RUSH_V_FLOAT)) return t;
    int64_t bits = bits_of(v);
    return number_at(v, arg, v->kind == RUSH_V_INT || listening->symbol ? &bits : NULL);
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

/* What is read of a tensor in an export: its one number, stolen; with NULL all of them, as lists. */
PyObject *py_traced_item(PyObject *self, PyObject *value)
{
    capture *c = py_tracing() && listening->item ? listening : NULL;
    if (!c) return value;
    if (value) listen(NULL);
    PyObject *x = PyObject_CallFunctionObjArgs(c->item, self, value ? value : Py_None, NULL);
    if (value) listen(c);
    Py_XDECREF(value);
    return x;
}

bool py_reads_are_told(void) { return py_tracing() && listening->item; }

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

/* _capture(tell, function, args, kwargs[, size, number[, item, symbol]]): the function's result; its calls are told. */
static PyObject *run(PyObject *module, PyObject *arguments)
{
    PyObject *function, *args, *kwargs;
    capture c = {0};
    if (!PyArg_ParseTuple(arguments, "OOO!O!|OOOO", &c.tell, &function, &PyTuple_Type, &args, &PyDict_Type, &kwargs, &c.size, &c.number, &c.item, &c.symbol)) return NULL;
    if (c.item == Py_None) c.item = NULL;
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
    {"_capture", run, METH_VARARGS, "_capture(tell, function, args, kwargs, size, number, item, symbol): calls the function, and tells of the operations that it calls. With size(tensor, dim), "
                                                "sizes are what that gives, and item(tensor, number) is what item() gives; as an argument that is a number, a tensor or an object of the type "
                                                "`symbol` is told as number(object)."},
    {"_capture_paused", paused, METH_O, "_capture_paused(function): calls it, and tells nothing."},
    {NULL},
};

int py_capture_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
