/* share.c - rushlight/python.h: what extension modules of programs are given. */
#include "ext.h"
#include <rushlight/python.h>

static rush_tensor *tensor(PyObject *x) { return py_is_tensor(x) ? py_tensor_of(x) : NULL; }

static int dtype(PyObject *x)
{
    int d;
    int ok = py_to_dtype(x, &d);
    if (ok < 0) PyErr_Clear();
    return ok > 0 ? d : -1;
}

static int device(PyObject *x, rush_device *d)
{
    int ok = py_to_device(x, d);
    if (ok < 0) PyErr_Clear();
    return ok > 0;
}

static rush_generator *generator(PyObject *x) { return py_is_generator(x) ? py_generator_of(x) : NULL; }

int py_share_init(PyObject *module)
{
    static rush_python api = {sizeof api, tensor, py_wrap, dtype, py_dtype, device, py_device, generator, py_raise, py_foreign};
    PyObject *capsule = PyCapsule_New(&api, RUSH_PYTHON_CAPSULE, NULL);
    int failed = capsule ? PyObject_SetAttrString(module, "_extension_api", capsule) : -1;
    Py_XDECREF(capsule);
    return failed;
}
