/* profiler.c - records what the library's hook sees (src/op/profile.h): the raw material of torch.profiler.
 *
 * A recorder belongs to the thread that started it. While operations run nothing of Python's is touched (the
 * interpreter's lock may be free), but for stacks: events and descriptions of arguments are plain memory, and become
 * Python objects when the recorder stops.
 */
#include "ext.h"
#include "op/profile.h"
#include <frameobject.h>

typedef struct event {
    const rush_op *op;
    char *name;            /* of nodes and ranges; owned */
    rush_profile_how how;
    uint64_t begin, end;
    int64_t bytes, live;   /* allocated less freed meanwhile; in use at the end */
    int64_t sequence;
    size_t inputs;         /* where in words[] its arguments are described; 0: nowhere */
    PyObject *stack;       /* tuple of (file, line, function), innermost first; NULL: that of the event it is part of */
    int parent;            /* -1: none */
} event;

typedef struct recorder {
    bool shapes, memory, stacks;
    event *events;
    int n, room, open;     /* open: the innermost event that has not ended, -1: none */
    int64_t *words;
    size_t nwords, words_room;
} recorder;

static _Thread_local recorder *recording;

/* ---- arguments, as words: a kind, then what it takes to show the value ---- */

enum word_kind { WORD_NONE, WORD_TENSOR, WORD_TENSORS, WORD_INT, WORD_BOOL, WORD_FLOAT, WORD_INTS, WORD_FLOATS };

static void put(recorder *r, int64_t word)
{
    if (r->nwords == r->words_room) {
        size_t room = r->words_room ? 2 * r->words_room : 4096;
        int64_t *words = realloc(r->words, room * sizeof *words);
        if (!words) return; /* what is cut off is shown as None */
        r->words = words;
        r->words_room = room;
    }
    r->words[r->nwords++] = word;
}

static void put_tensor(recorder *r, const rush_tensor *t)
{
    if (!t) {
        put(r, WORD_NONE);
        return;
    }
    put(r, WORD_TENSOR);
    put(r, t->dtype);
    put(r, t->ndim);
    for (int i = 0; i < t->ndim; ++i) put(r, t->size[i]);
    for (int i = 0; i < t->ndim; ++i) put(r, t->stride[i]);
}

static void put_value(recorder *r, const rush_value *v)
{
    int64_t bits;
    switch (v->kind) {
    case RUSH_V_TENSOR: put_tensor(r, v->t); return;
    case RUSH_V_TENSORS:
        put(r, WORD_TENSORS);
        put(r, v->n);
        for (uint32_t i = 0; i < v->n; ++i) put_tensor(r, v->tensors[i]);
        return;
    case RUSH_V_INT: put(r, WORD_INT), put(r, v->i); return;
    case RUSH_V_BOOL: put(r, WORD_BOOL), put(r, v->i); return;
    case RUSH_V_FLOAT: put(r, WORD_FLOAT), memcpy(&bits, &v->f, sizeof bits), put(r, bits); return;
    case RUSH_V_INTS:
    case RUSH_V_FLOATS:
        put(r, v->kind == RUSH_V_INTS ? WORD_INTS : WORD_FLOATS);
        put(r, v->n);
        for (uint32_t i = 0; i < v->n; ++i) memcpy(&bits, v->kind == RUSH_V_INTS ? (const void *)&v->ints[i] : &v->floats[i], sizeof bits), put(r, bits);
        return;
    default: put(r, WORD_NONE);
    }
}

/* The number of arguments, the arguments; given results behind them. */
static size_t describe(recorder *r, const rush_profile_event *e)
{
    if (!r->nwords) put(r, 0);
    size_t at = r->nwords;
    int given = e->how == RUSH_PROFILE_OUT ? e->op->nout : 0;
    put(r, e->op->nargs + given);
    for (int i = 0; i < e->op->nargs; ++i) put_value(r, &e->in[i]);
    for (int i = 0; i < given; ++i) put_value(r, &e->out[i]);
    return at;
}

static int64_t take(const recorder *r, size_t *at) { return *at < r->nwords ? r->words[(*at)++] : 0; }

static double take_float(const recorder *r, size_t *at)
{
    int64_t bits = take(r, at);
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static PyObject *take_list(const recorder *r, size_t *at, int64_t n, bool floats)
{
    PyObject *list = PyList_New(n);
    for (int64_t i = 0; list && i < n; ++i) {
        PyObject *x = floats ? PyFloat_FromDouble(take_float(r, at)) : PyLong_FromLongLong(take(r, at));
        if (x) PyList_SET_ITEM(list, i, x);
        else Py_CLEAR(list);
    }
    return list;
}

static PyObject *take_value(const recorder *r, size_t *at)
{
    int64_t n;
    switch (take(r, at)) {
    case WORD_TENSOR: {
        const char *dtype = rush_dtypes[take(r, at)].name;
        n = take(r, at);
        PyObject *sizes = take_list(r, at, n, false), *strides = sizes ? take_list(r, at, n, false) : NULL;
        return strides ? Py_BuildValue("(sNN)", dtype, sizes, strides) : (Py_XDECREF(sizes), NULL);
    }
    case WORD_TENSORS: {
        n = take(r, at);
        PyObject *list = PyList_New(0);
        for (int64_t i = 0; list && i < n; ++i) {
            PyObject *x = take_value(r, at);
            if (!x || PyList_Append(list, x)) Py_CLEAR(list);
            Py_XDECREF(x);
        }
        return list;
    }
    case WORD_INT: return PyLong_FromLongLong(take(r, at));
    case WORD_BOOL: return PyBool_FromLong(take(r, at) != 0);
    case WORD_FLOAT: return PyFloat_FromDouble(take_float(r, at));
    case WORD_INTS: return n = take(r, at), take_list(r, at, n, false);
    case WORD_FLOATS: return n = take(r, at), take_list(r, at, n, true);
    default: Py_RETURN_NONE;
    }
}

static PyObject *inputs_of(const recorder *r, const event *e)
{
    PyObject *list = PyList_New(0);
    if (!e->inputs) return list;
    size_t at = e->inputs;
    for (int64_t n = take(r, &at); list && n > 0; --n) {
        PyObject *x = take_value(r, &at);
        if (!x || PyList_Append(list, x)) Py_CLEAR(list);
        Py_XDECREF(x);
    }
    return list;
}

/* ---- the hook ---- */

static PyObject *stack_now(void)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *list = PyList_New(0), *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyFrameObject *frame = PyEval_GetFrame();
    Py_XINCREF(frame);
    while (frame && list) {
        PyCodeObject *code = PyFrame_GetCode(frame);
        PyObject *line = Py_BuildValue("(OiO)", code->co_filename, PyFrame_GetLineNumber(frame), code->co_name);
        Py_DECREF(code);
        if (!line || PyList_Append(list, line)) Py_CLEAR(list);
        Py_XDECREF(line);
        PyFrameObject *back = PyFrame_GetBack(frame);
        Py_DECREF(frame);
        frame = back;
    }
    Py_XDECREF(frame);
    PyErr_Restore(type, value, trace);
    PyGILState_Release(gil);
    return list;
}

static int64_t live_bytes(void)
{
    rush_memory_stats s;
    rush_memory_stats_read(&s);
    return (int64_t)s.live_bytes;
}

static int begin(recorder *r, const rush_profile_event *e)
{
    if (r->n == r->room) {
        int room = r->room ? 2 * r->room : 1024;
        event *events = realloc(r->events, room * sizeof *events);
        if (!events) return -1;
        r->events = events;
        r->room = room;
    }
    event *made = &r->events[r->n];
    *made = (event){.op = e->op, .how = e->how, .sequence = e->sequence, .parent = r->open};
    if (e->name) {
        made->name = malloc(strlen(e->name) + 1);
        if (!made->name) return -1;
        strcpy(made->name, e->name);
    }
    if (r->shapes && e->op) made->inputs = describe(r, e);
    if (r->stacks && (r->open < 0 || r->events[r->open].how == RUSH_PROFILE_RANGE || e->how == RUSH_PROFILE_RANGE)) made->stack = stack_now();
    if (r->memory) made->bytes = live_bytes();
    r->open = r->n++;
    made->begin = rush_clock();
    return r->open;
}

/* Ends event i, and what was left open inside it. */
static void end(recorder *r, int i)
{
    uint64_t now = rush_clock();
    int64_t live = r->memory ? live_bytes() : 0;
    while (r->open >= i) {
        event *e = &r->events[r->open];
        e->end = now;
        e->live = live;
        e->bytes = live - e->bytes;
        r->open = e->parent;
    }
}

static void hook(void *arg, const rush_profile_event *e, bool begins)
{
    recorder *r = arg;
    if (begins) begin(r, e);
    else if (r->open >= 0) end(r, r->open);
}

/* ---- Python ---- */

static void recorder_free(recorder *r)
{
    for (int i = 0; i < r->n; ++i) {
        Py_XDECREF(r->events[i].stack);
        free(r->events[i].name);
    }
    free(r->events);
    free(r->words);
    free(r);
}

/* _profiler_start(record_shapes, profile_memory, with_stack) */
static PyObject *start(PyObject *module, PyObject *args)
{
    int shapes, memory, stacks;
    if (!PyArg_ParseTuple(args, "ppp", &shapes, &memory, &stacks)) return NULL;
    if (recording) return PyErr_Format(PyExc_RuntimeError, "Profiler is already enabled on this thread");
    if (!(recording = calloc(1, sizeof *recording))) return PyErr_NoMemory();
    *recording = (recorder){.shapes = shapes, .memory = memory, .stacks = stacks, .open = -1};
    rush_profile_to(hook, recording);
    Py_RETURN_NONE;
}

static PyObject *name_of(const event *e)
{
    if (!e->op) return PyUnicode_FromFormat(e->how == RUSH_PROFILE_EVALUATE ? "autograd::engine::evaluate_function: %s" : "%s", e->name);
    return PyUnicode_FromFormat("%s%s%s", strchr(e->op->base, ':') ? "" : "aten::", e->op->base, e->how == RUSH_PROFILE_INPLACE ? "_" : "");
}

static PyObject *stack_of(const recorder *r, const event *e)
{
    while (!e->stack && e->parent >= 0) e = &r->events[e->parent];
    return e->stack ? py_ref(e->stack) : PyList_New(0);
}

static const char *overload_of(const event *e)
{
    const char *dot = e->op ? strchr(e->op->name, '.') : NULL;
    return dot ? dot + 1 : "";
}

/* _profiler_stop() -> (name, overload, how, begin, end, bytes, live bytes, sequence, inputs, stack) of each event, in order of begin */
static PyObject *stop(PyObject *module, PyObject *unused)
{
    recorder *r = recording;
    if (!r) return PyErr_Format(PyExc_RuntimeError, "Profiler is not running on this thread");
    rush_profile_to(NULL, NULL);
    recording = NULL;
    if (r->open >= 0) end(r, 0);
    PyObject *list = PyList_New(r->n);
    for (int i = 0; list && i < r->n; ++i) {
        const event *e = &r->events[i];
        PyObject *name = name_of(e), *inputs = name ? inputs_of(r, e) : NULL, *stack = inputs ? stack_of(r, e) : NULL;
        PyObject *x = !stack ? NULL : Py_BuildValue("(NsiKKLLLNN)", name, overload_of(e), (int)e->how, (unsigned long long)e->begin, (unsigned long long)e->end,
                                                    (long long)e->bytes, (long long)e->live, (long long)e->sequence, inputs, stack);
        if (!stack) {
            Py_XDECREF(name);
            Py_XDECREF(inputs);
        }
        if (x) PyList_SET_ITEM(list, i, x);
        else Py_CLEAR(list);
    }
    recorder_free(r);
    return list;
}

/* _profiler_range_push(name) -> a number for _profiler_range_pop; -1 where this thread records nothing */
static PyObject *range_push(PyObject *module, PyObject *x)
{
    const char *name = PyUnicode_AsUTF8(x);
    if (!name) return NULL;
    rush_profile_event e = {.how = RUSH_PROFILE_RANGE, .name = name, .sequence = -1};
    return PyLong_FromLong(recording ? begin(recording, &e) : -1);
}

static PyObject *range_pop(PyObject *module, PyObject *x)
{
    long i = PyLong_AsLong(x);
    if (i == -1 && PyErr_Occurred()) return NULL;
    if (recording && i >= 0 && i < recording->n && !recording->events[i].end) end(recording, (int)i);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"_profiler_start", start, METH_VARARGS, "_profiler_start(record_shapes, profile_memory, with_stack): records this thread's operations."},
    {"_profiler_stop", stop, METH_NOARGS, "Ends recording; the events."},
    {"_profiler_range_push", range_push, METH_O, "A range with a name begins; its number."},
    {"_profiler_range_pop", range_pop, METH_O, "The range of that number ends."},
    {NULL},
};

int py_profiler_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
