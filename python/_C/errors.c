/* errors.c - one translation of errors, both ways.
 *
 * A rush error becomes the exception that PyTorch raises for it. An exception raised by Python code that the library
 * called (a hook, a custom function) is kept here, goes through the library as RUSH_FOREIGN_ERROR, and is raised again
 * when it comes out. Warnings of the library go to Python's warnings.
 */
#include "ext.h"

PyObject *py_LinAlgError, *py_OutOfMemoryError;

static _Thread_local struct {
    PyObject *type, *value, *trace;
} kept;

int py_foreign(void)
{
    PyObject *old[] = {kept.type, kept.value, kept.trace};
    PyErr_Fetch(&kept.type, &kept.value, &kept.trace);
    for (int i = 0; i < 3; ++i) Py_XDECREF(old[i]);
    rush_fail(RUSH_FOREIGN_ERROR, "an exception in Python");
    return -1;
}

static PyObject *class_of(rush_error_kind kind)
{
    switch (kind) {
    case RUSH_VALUE_ERROR: return PyExc_ValueError;
    case RUSH_TYPE_ERROR: return PyExc_TypeError;
    case RUSH_INDEX_ERROR: return PyExc_IndexError;
    case RUSH_KEY_ERROR: return PyExc_KeyError;
    case RUSH_NOT_IMPLEMENTED: return PyExc_NotImplementedError;
    case RUSH_MEMORY_ERROR: return py_OutOfMemoryError;
    case RUSH_IO_ERROR: return PyExc_OSError;
    case RUSH_LINALG_ERROR: return py_LinAlgError;
    case RUSH_OVERFLOW_ERROR: return PyExc_OverflowError;
    case RUSH_ZERO_DIVISION_ERROR: return PyExc_ZeroDivisionError;
    case RUSH_ATTRIBUTE_ERROR: return PyExc_AttributeError;
    default: return PyExc_RuntimeError;
    }
}

void *py_raise(void)
{
    rush_error_kind kind = rush_error_kind_now();
    if (kind == RUSH_OK) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_SystemError, "a call failed without saying why");
        return NULL;
    }
    if (kind == RUSH_FOREIGN_ERROR && kept.type) {
        PyErr_Restore(kept.type, kept.value, kept.trace);
        kept.type = kept.value = kept.trace = NULL;
    } else {
        PyErr_SetString(class_of(kind), rush_error());
    }
    rush_error_clear();
    return NULL;
}

int py_raise_int(void)
{
    py_raise();
    return -1;
}

/* Called from any thread, with or without the interpreter's lock. A warning that is turned into an error by a filter
 * becomes the pending error of the call. */
static void log_to_warnings(int level, const char *message, void *arg)
{
    if (!Py_IsInitialized()) return;
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (PyErr_WarnEx(PyExc_UserWarning, message, 1)) py_foreign();
    PyErr_Restore(type, value, trace);
    PyGILState_Release(gil);
}

int py_errors_init(PyObject *module)
{
    rush_log_to(log_to_warnings, NULL);
    py_OutOfMemoryError = PyErr_NewExceptionWithDoc("torch.OutOfMemoryError", "Raised when memory for a tensor cannot be had.",
                                                    PyExc_RuntimeError, NULL);
    py_LinAlgError = PyErr_NewExceptionWithDoc("torch._C._LinAlgError",
                                               "Raised when a linear algebra operation fails (singular, no convergence).",
                                               PyExc_RuntimeError, NULL);
    if (!py_OutOfMemoryError || !py_LinAlgError) return -1;
    Py_INCREF(py_OutOfMemoryError);
    Py_INCREF(py_LinAlgError);
    return py_add(module, "OutOfMemoryError", py_OutOfMemoryError) || py_add(module, "_LinAlgError", py_LinAlgError) ? -1 : 0;
}
