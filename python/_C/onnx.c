/* onnx.c - programs written as ONNX, for torch.onnx. */
#include "ext.h"
#include <rushlight/program.h>

enum { MOST = 256 };

/* Texts of a list, as long as the list lives. */
static int names_of(PyObject *list, const char **to)
{
    Py_ssize_t n = PyList_GET_SIZE(list);
    if (n > MOST) return PyErr_SetString(PyExc_ValueError, "more than 256 names"), -1;
    for (Py_ssize_t i = 0; i < n; ++i)
        if (!(to[i] = PyUnicode_AsUTF8(PyList_GET_ITEM(list, i)))) return -1;
    return (int)n;
}

/* _onnx_write(program, path, opset, input_names, output_names): the program is the path of a .pt2 file. */
static PyObject *write_onnx(PyObject *unused, PyObject *args)
{
    PyObject *from = NULL, *to = NULL, *in, *out;
    long long opset;
    const char *input[MOST], *output[MOST];
    if (!PyArg_ParseTuple(args, "O&O&LO!O!", PyUnicode_FSConverter, &from, PyUnicode_FSConverter, &to, &opset, &PyList_Type, &in, &PyList_Type, &out)) return Py_XDECREF(from), NULL;
    int nin = names_of(in, input), nout = nin < 0 ? -1 : names_of(out, output), failed = nout < 0;
    size_t mark = rush_scope_open();
    if (!failed) {
        rush_module *net = rush_program_load(PyBytes_AS_STRING(from));
        failed = !net || rush_program_save_onnx_with(net, PyBytes_AS_STRING(to), &(rush_onnx_options){opset, nin, nout, input, output});
        if (failed) py_raise();
    }
    rush_scope_close(mark);
    Py_DECREF(from);
    Py_DECREF(to);
    return failed ? NULL : py_ref(Py_None);
}

static PyMethodDef functions[] = {{"_onnx_write", write_onnx, METH_VARARGS, NULL}, {NULL}};

int py_onnx_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
