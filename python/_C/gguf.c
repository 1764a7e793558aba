/* gguf.c - GGUF files: what they say about themselves as Python's values, and back. Their tensors are read by archive.c's _load_named. */
#include "ext.h"
#include "io/gguf.h"

/* Texts need not be UTF-8: tokens are bytes. */
static PyObject *text(const char *s, size_t n) { return PyUnicode_DecodeUTF8(s, (Py_ssize_t)n, "surrogateescape"); }

static PyObject *from_content(const rush_content *x)
{
    PyObject *all = NULL;
    switch (x->kind) {
    case RUSH_CONTENT_BOOL: return PyBool_FromLong(x->i != 0);
    case RUSH_CONTENT_INT: return PyLong_FromLongLong(x->i);
    case RUSH_CONTENT_FLOAT: return PyFloat_FromDouble(x->f);
    case RUSH_CONTENT_TEXT: return text(x->s, x->n);
    case RUSH_CONTENT_TENSOR: return x->t->ndim ? py_wrap(x->t) : py_number_of(x->t, rush_ptr(x->t));
    case RUSH_CONTENT_DICT:
        all = PyDict_New();
        for (size_t i = 0; all && i < x->n; i += 2) {
            PyObject *key = from_content(x->items[i]), *value = key ? from_content(x->items[i + 1]) : NULL;
            if (!value || PyDict_SetItem(all, key, value)) Py_CLEAR(all);
            Py_XDECREF(key);
            Py_XDECREF(value);
        }
        return all;
    default:
        all = PyList_New((Py_ssize_t)x->n);
        for (size_t i = 0; all && i < x->n; i++) {
            PyObject *item = from_content(x->items[i]);
            if (!item) Py_CLEAR(all);
            else PyList_SET_ITEM(all, (Py_ssize_t)i, item);
        }
        return all;
    }
}

/* NULL and an exception, or an error that is pending. */
static rush_content *to_content(PyObject *x, int depth)
{
    if (py_is_tensor(x)) return rush_content_tensor(py_tensor_of(x));
    if (PyBool_Check(x)) return rush_content_bool(x == Py_True);
    if (PyFloat_Check(x)) return rush_content_float(PyFloat_AS_DOUBLE(x));
    if (PyLong_Check(x)) {
        long long i = PyLong_AsLongLong(x);
        return i == -1 && PyErr_Occurred() ? NULL : rush_content_int(i);
    }
    if (PyUnicode_Check(x)) {
        PyObject *bytes = PyUnicode_AsEncodedString(x, "utf-8", "surrogateescape");
        rush_content *c = bytes ? rush_content_bytes(RUSH_CONTENT_TEXT, PyBytes_AS_STRING(bytes), (size_t)PyBytes_GET_SIZE(bytes)) : NULL;
        Py_XDECREF(bytes);
        return c;
    }
    if ((!PyList_Check(x) && !PyTuple_Check(x)) || depth == 16) {
        PyErr_Format(PyExc_TypeError, "metadata of GGUF files holds numbers, bools, texts, tensors and lists of them, not %s", depth == 16 ? "deeper lists" : py_type_name(x));
        return NULL;
    }
    rush_content *list = rush_content_list();
    for (Py_ssize_t i = 0; list && i < PySequence_Fast_GET_SIZE(x); i++) {
        rush_content *item = to_content(PySequence_Fast_GET_ITEM(x, i), depth + 1);
        if (!item || rush_content_add(list, &item, 1)) return NULL;
    }
    return list;
}

static rush_content *metadata_of(PyObject *dict)
{
    rush_content *all = rush_content_dict();
    PyObject *key, *value;
    for (Py_ssize_t at = 0; all && PyDict_Next(dict, &at, &key, &value);) {
        if (!PyUnicode_Check(key)) return PyErr_Format(PyExc_TypeError, "names in metadata of GGUF files are texts, not %s", py_type_name(key)), NULL;
        rush_content *pair[2] = {to_content(key, 0), NULL};
        if (!pair[0] || !(pair[1] = to_content(value, 0)) || rush_content_add(all, pair, 2)) return NULL;
    }
    return all;
}

/* _gguf_metadata(path) -> dict */
static PyObject *gguf_metadata(PyObject *module, PyObject *args)
{
    PyObject *path;
    if (!PyArg_ParseTuple(args, "O&:_gguf_metadata", PyUnicode_FSConverter, &path)) return NULL;
    size_t mark = rush_scope_open();
    const rush_content *x = rush_gguf_metadata(PyBytes_AS_STRING(path));
    PyObject *dict = x ? from_content(x) : py_raise();
    rush_scope_close(mark);
    Py_DECREF(path);
    return dict;
}

/* _save_gguf(path, names, tensors, types, metadata): three lists of one length, a dict */
static PyObject *save_gguf(PyObject *module, PyObject *args)
{
    PyObject *path, *names, *tensors, *types, *metadata;
    if (!PyArg_ParseTuple(args, "O&O!O!O!O!:_save_gguf", PyUnicode_FSConverter, &path, &PyList_Type, &names, &PyList_Type, &tensors, &PyList_Type, &types, &PyDict_Type, &metadata))
        return NULL;
    size_t mark = rush_scope_open(), n = (size_t)PyList_GET_SIZE(names);
    rush_state s = {.n = (int)n, .name = rush_scope_alloc(n * sizeof *s.name), .tensor = rush_scope_alloc(n * sizeof *s.tensor)};
    const char **kinds = rush_scope_alloc(n * sizeof *kinds);
    rush_content *about = metadata_of(metadata);
    bool ready = s.name && s.tensor && kinds && about;
    for (size_t i = 0; ready && i < n; i++) {
        PyObject *kind = PyList_GET_ITEM(types, (Py_ssize_t)i);
        s.name[i] = PyUnicode_AsUTF8(PyList_GET_ITEM(names, (Py_ssize_t)i));
        s.tensor[i] = py_need_tensor(PyList_GET_ITEM(tensors, (Py_ssize_t)i), "what is saved");
        kinds[i] = kind == Py_None ? NULL : PyUnicode_AsUTF8(kind);
        ready = s.name[i] && s.tensor[i] && (kinds[i] || kind == Py_None);
    }
    int failed = !ready;
    if (ready) {
        Py_BEGIN_ALLOW_THREADS
        failed = rush_gguf_save(PyBytes_AS_STRING(path), s, about, kinds);
        Py_END_ALLOW_THREADS
    }
    rush_scope_close(mark);
    Py_DECREF(path);
    if (failed) return PyErr_Occurred() ? NULL : py_raise();
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"_gguf_metadata", gguf_metadata, METH_VARARGS, "What a GGUF file says about itself."},
    {"_save_gguf", save_gguf, METH_VARARGS, "A GGUF file."},
    {NULL},
};

int py_gguf_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
