/* summary.c - _C._EventFile: the library's writer of TensorBoard's event files, for rushlight.utils.tensorboard. */
#include "ext.h"
#include "io/summary_file.h"

typedef struct event_file {
    PyObject_HEAD
    rush_summary *s; /* NULL: closed */
} event_file;

static rush_summary *open_one(PyObject *self)
{
    rush_summary *s = ((event_file *)self)->s;
    if (!s) PyErr_SetString(PyExc_ValueError, "the event file is closed");
    return s;
}

static PyObject *make(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"folder", "suffix", "flush_secs", NULL};
    const char *folder, *suffix = "";
    double every = 120;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s|sd", names, &folder, &suffix, &every)) return NULL;
    event_file *f = (event_file *)type->tp_alloc(type, 0);
    if (!f) return NULL;
    f->s = rush_summary_open(folder, suffix);
    if (!f->s) {
        Py_DECREF(f);
        return py_raise();
    }
    rush_summary_flush_every(f->s, every);
    return (PyObject *)f;
}

static void end(PyObject *self)
{
    if (rush_summary_close(((event_file *)self)->s)) rush_error_clear(); /* nobody is left to tell */
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *done(int failed)
{
    if (failed) return py_raise();
    Py_RETURN_NONE;
}

static PyObject *event(PyObject *self, PyObject *arg)
{
    rush_summary *s = open_one(self);
    Py_buffer b;
    if (!s || PyObject_GetBuffer(arg, &b, PyBUF_SIMPLE)) return NULL;
    int failed = rush_summary_event(s, b.buf, (size_t)b.len);
    PyBuffer_Release(&b);
    return done(failed);
}

static PyObject *value(PyObject *self, PyObject *args)
{
    rush_summary *s = open_one(self);
    Py_buffer b;
    long long step = 0;
    double wall = 0;
    if (!s || !PyArg_ParseTuple(args, "y*|Ld", &b, &step, &wall)) return NULL;
    int failed = rush_summary_value(s, b.buf, (size_t)b.len, step, wall);
    PyBuffer_Release(&b);
    return done(failed);
}

static PyObject *scalar(PyObject *self, PyObject *args)
{
    rush_summary *s = open_one(self);
    const char *tag;
    long long step = 0;
    double x, wall = 0;
    if (!s || !PyArg_ParseTuple(args, "sd|Ld", &tag, &x, &step, &wall)) return NULL;
    rush_summary_time(s, wall);
    return done(rush_summary_scalar(s, tag, x, step));
}

/* (tag, tensor, step, wall) */
static PyObject *with_tensor(PyObject *self, PyObject *args, int (*write)(rush_summary *, const char *, const rush_tensor *, int64_t))
{
    rush_summary *s = open_one(self);
    const char *tag;
    PyObject *t;
    long long step = 0;
    double wall = 0;
    if (!s || !PyArg_ParseTuple(args, "sO|Ld", &tag, &t, &step, &wall)) return NULL;
    rush_tensor *tensor = py_need_tensor(t, "the value");
    if (!tensor) return NULL;
    rush_summary_time(s, wall);
    return done(write(s, tag, tensor, step));
}

static PyObject *histogram(PyObject *self, PyObject *args) { return with_tensor(self, args, rush_summary_histogram); }
static PyObject *image(PyObject *self, PyObject *args) { return with_tensor(self, args, rush_summary_image); }
static PyObject *tensor_value(PyObject *self, PyObject *args) { return with_tensor(self, args, rush_summary_tensor); }

static PyObject *audio(PyObject *self, PyObject *args)
{
    rush_summary *s = open_one(self);
    const char *tag;
    PyObject *t;
    int rate;
    long long step = 0;
    double wall = 0;
    if (!s || !PyArg_ParseTuple(args, "sOi|Ld", &tag, &t, &rate, &step, &wall)) return NULL;
    rush_tensor *tensor = py_need_tensor(t, "the sound");
    if (!tensor) return NULL;
    rush_summary_time(s, wall);
    return done(rush_summary_audio(s, tag, tensor, rate, step));
}

static PyObject *pr_curve(PyObject *self, PyObject *args)
{
    rush_summary *s = open_one(self);
    const char *tag;
    PyObject *labels, *predictions, *weights;
    int thresholds;
    long long step = 0;
    double wall = 0;
    if (!s || !PyArg_ParseTuple(args, "sOOOi|Ld", &tag, &labels, &predictions, &weights, &thresholds, &step, &wall)) return NULL;
    rush_tensor *y = py_need_tensor(labels, "labels"), *p = y ? py_need_tensor(predictions, "predictions") : NULL, *w = NULL;
    if (!p || (weights != Py_None && !(w = py_need_tensor(weights, "weights")))) return NULL;
    rush_summary_time(s, wall);
    return done(rush_summary_pr_curve(s, tag, y, p, w, thresholds, step));
}

static PyObject *graph(PyObject *self, PyObject *arg)
{
    rush_summary *s = open_one(self);
    rush_tensor *t = s ? py_need_tensor(arg, "the result") : NULL;
    return t ? done(rush_summary_graph(s, t)) : NULL;
}

static PyObject *flush(PyObject *self, PyObject *unused)
{
    rush_summary *s = open_one(self);
    return s ? done(rush_summary_flush(s)) : NULL;
}

static PyObject *close_file(PyObject *self, PyObject *unused)
{
    event_file *f = (event_file *)self;
    rush_summary *s = f->s;
    f->s = NULL;
    return done(rush_summary_close(s));
}

static PyObject *path(PyObject *self, void *unused)
{
    rush_summary *s = open_one(self);
    return s ? PyUnicode_FromString(rush_summary_path(s)) : NULL;
}

static PyMethodDef methods[] = {
    {"event", event, METH_O, "event(bytes): a serialised Event."},
    {"value", value, METH_VARARGS, "value(bytes, step=0, wall=now): a serialised Summary.Value."},
    {"scalar", scalar, METH_VARARGS, "scalar(tag, number, step=0, wall=now)"},
    {"histogram", histogram, METH_VARARGS, "histogram(tag, tensor, step=0, wall=now), in TensorFlow's buckets"},
    {"image", image, METH_VARARGS, "image(tag, tensor (C, H, W) or (N, C, H, W), step=0, wall=now)"},
    {"tensor", tensor_value, METH_VARARGS, "tensor(tag, tensor, step=0, wall=now)"},
    {"audio", audio, METH_VARARGS, "audio(tag, tensor, rate, step=0, wall=now)"},
    {"pr_curve", pr_curve, METH_VARARGS, "pr_curve(tag, labels, predictions, weights or None, thresholds, step=0, wall=now)"},
    {"graph", graph, METH_O, "graph(result): the operations behind a tensor."},
    {"flush", flush, METH_NOARGS, "Writes what is buffered."},
    {"close", close_file, METH_NOARGS, "Writes what is buffered and closes the file; a second time nothing."},
    {NULL},
};

static PyGetSetDef properties[] = {{"path", path, NULL, "where it is", NULL}, {NULL}};

static PyType_Slot slots[] = {
    {Py_tp_doc, "An event file of its own in a folder: _EventFile(folder, suffix='', flush_secs=120)."},
    {Py_tp_new, make}, {Py_tp_dealloc, end}, {Py_tp_methods, methods}, {Py_tp_getset, properties}, {0, NULL},
};

static PyType_Spec spec = {.name = "rushlight._C._EventFile", .basicsize = sizeof(event_file), .flags = Py_TPFLAGS_DEFAULT, .slots = slots};

/* _graph_dot(result) -> the text that Graphviz draws */
static PyObject *graph_dot(PyObject *module, PyObject *arg)
{
    rush_tensor *t = py_need_tensor(arg, "the result");
    if (!t) return NULL;
    int64_t n = rush_graph_dot(t, NULL, 0);
    char *text = n < 0 ? NULL : rush_malloc((size_t)n + 1);
    if (!text) return py_raise();
    rush_graph_dot(t, text, (size_t)n + 1);
    PyObject *s = PyUnicode_DecodeUTF8(text, n, "replace");
    rush_free(text);
    return s;
}

static PyMethodDef functions[] = {
    {"_graph_dot", graph_dot, METH_O, "The graph behind a tensor, in the language of Graphviz's dot."},
    {NULL},
};

int py_summary_init(PyObject *module)
{
    return py_add(module, "_EventFile", PyType_FromSpec(&spec)) ? -1 : PyModule_AddFunctions(module, functions);
}
