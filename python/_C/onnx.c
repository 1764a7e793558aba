/* onnx.c - programs written as ONNX, and run from such files, for torch.onnx. */
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

static void end_program(PyObject *capsule) { rush_module_drop(PyCapsule_GetPointer(capsule, "rush_program")); }

/* _onnx_load(path): the model as an object for _onnx_run, and the names of its inputs and results. */
static PyObject *load_onnx(PyObject *unused, PyObject *path)
{
    PyObject *from = NULL, *made = NULL;
    if (!PyUnicode_FSConverter(path, &from)) return NULL;
    size_t mark = rush_scope_open();
    rush_module *net = rush_program_load(PyBytes_AS_STRING(from));
    if (net) made = Py_BuildValue("(N[][])", PyCapsule_New(rush_module_keep(net), "rush_program", end_program));
    else py_raise();
    for (int side = 0; made && side < 2; ++side)
        for (int i = 0, n = side ? rush_program_results(net) : rush_program_inputs(net); made && i < n; ++i) {
            rush_program_value v = {0};
            PyObject *name = (side ? rush_program_result_at : rush_program_input_at)(net, i, &v) ? py_raise() : PyUnicode_FromString(v.name ? v.name : "");
            if (!name || PyList_Append(PyTuple_GET_ITEM(made, 1 + side), name)) Py_CLEAR(made);
            Py_XDECREF(name);
        }
    rush_scope_close(mark);
    Py_DECREF(from);
    return made;
}

/* _onnx_run(model, tensors): its results, a list. */
static PyObject *run_onnx(PyObject *unused, PyObject *args)
{
    PyObject *capsule, *list, *made = NULL;
    rush_tensor *in[MOST], *out[MOST];
    if (!PyArg_ParseTuple(args, "O!O!", &PyCapsule_Type, &capsule, &PyList_Type, &list)) return NULL;
    rush_module *net = PyCapsule_GetPointer(capsule, "rush_program");
    Py_ssize_t n = PyList_GET_SIZE(list);
    if (!net) return NULL;
    if (n > MOST) return PyErr_SetString(PyExc_ValueError, "more than 256 tensors"), NULL;
    for (Py_ssize_t i = 0; i < n; ++i) {
        if (!py_is_tensor(PyList_GET_ITEM(list, i))) return PyErr_SetString(PyExc_TypeError, "expected a list of tensors"), NULL;
        in[i] = py_tensor_of(PyList_GET_ITEM(list, i));
    }
    size_t mark = rush_scope_open();
    int nout = rush_program_run(net, (int)n, in, MOST, out);
    if (nout < 0) py_raise();
    else made = py_wrap_list(out, (size_t)nout, false);
    rush_scope_close(mark);
    return made;
}

static PyMethodDef functions[] = {{"_onnx_write", write_onnx, METH_VARARGS, NULL}, {"_onnx_load", load_onnx, METH_O, NULL}, {"_onnx_run", run_onnx, METH_VARARGS, NULL}, {NULL}};

int py_onnx_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
