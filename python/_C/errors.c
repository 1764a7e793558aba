/* errors.c - one translation of errors, both ways.
 *
 * A rush error becomes the exception that PyTorch raises for it. An exception raised by Python code that the library
 * called (a hook, a custom function) is kept here, goes through the library as RUSH_FOREIGN_ERROR, and is raised again
 * when it comes out. Warnings of the library go to Python's warnings.
 *
 * On its way out through nested modules an error learns where it happened: "in layers.2 (Linear): mat1 and mat2 ...".
 * Each module's failed call puts its child's name in front (py_error_in_module). Only errors that the library or its
 * package raised are touched, never those of the program's own code.
 */
#include "ext.h"

PyObject *py_LinAlgError, *py_OutOfMemoryError;
static PyObject *dist_errors[5]; /* in the order of their kinds, from RUSH_DIST_ERROR on */

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
    case RUSH_DIST_ERROR:
    case RUSH_DIST_BACKEND_ERROR:
    case RUSH_DIST_NETWORK_ERROR:
    case RUSH_DIST_STORE_ERROR:
    case RUSH_DIST_QUEUE_ERROR: return dist_errors[kind - RUSH_DIST_ERROR];
    default: return PyExc_RuntimeError;
    }
}

/* The last error of this thread that the library raised, and the modules it has passed through. */
static _Thread_local struct {
    PyObject *shown, *original; /* the exception's text as it is now, and as it was raised */
    PyObject *path, *cls;       /* "layers.2", "Linear" */
    const PyObject *module;     /* the outermost module so far: only to be found among its parent's children */
} place;

static void place_forget(void)
{
    Py_CLEAR(place.shown);
    Py_CLEAR(place.original);
    Py_CLEAR(place.path);
    Py_CLEAR(place.cls);
    place.module = NULL;
}

/* Was the exception raised in a file of the package? */
static bool from_package(PyObject *trace)
{
    if (!trace || !PyTraceBack_Check(trace)) return false;
    PyTracebackObject *last = (PyTracebackObject *)trace;
    while (last->tb_next) last = last->tb_next;
    PyObject *globals = PyObject_GetAttrString((PyObject *)last->tb_frame, "f_globals");
    PyObject *name = globals ? PyDict_GetItemString(globals, "__name__") : NULL;
    const char *text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    bool own = text && !strncmp(text, "rushlight.", 10);
    Py_XDECREF(globals);
    return own;
}

static bool is_plain_class(PyObject *type)
{
    return type == PyExc_RuntimeError || type == PyExc_ValueError || type == PyExc_TypeError || type == PyExc_IndexError ||
           type == PyExc_NotImplementedError || type == py_LinAlgError;
}

/* The name of a module among another's children, at any depth; a new reference. */
static PyObject *child_name(PyObject *parent, const PyObject *child)
{
    PyObject *all = PyObject_CallMethod(parent, "named_modules", NULL), *iterator = all ? PyObject_GetIter(all) : NULL, *found = NULL, *pair;
    while (iterator && !found && (pair = PyIter_Next(iterator))) {
        if (PyTuple_Check(pair) && PyTuple_GET_SIZE(pair) == 2 && PyTuple_GET_ITEM(pair, 1) == child) found = py_ref(PyTuple_GET_ITEM(pair, 0));
        Py_DECREF(pair);
    }
    Py_XDECREF(iterator);
    Py_XDECREF(all);
    return found;
}

static bool starts_here(PyObject *module, PyObject *text, PyObject *trace, bool known)
{
    if (!known && !from_package(trace)) return false;
    Py_INCREF(text);
    place_forget();
    place.original = text;
    place.cls = PyUnicode_FromString(strrchr(Py_TYPE(module)->tp_name, '.') ? strrchr(Py_TYPE(module)->tp_name, '.') + 1 : Py_TYPE(module)->tp_name);
    return place.cls != NULL;
}

static void place_grow(PyObject *parent)
{
    PyObject *name = place.module ? child_name(parent, place.module) : NULL;
    place.module = name ? parent : NULL; /* a module that its caller does not own: what is known so far is shown */
    if (!name) return;
    PyObject *longer = place.path ? PyUnicode_FromFormat("%U.%U", name, place.path) : py_ref(name);
    Py_DECREF(name);
    Py_XSETREF(place.path, longer);
}

void py_error_in_module(PyObject *module)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    PyObject *args = type && value && is_plain_class(type) ? PyObject_GetAttrString(value, "args") : NULL;
    PyObject *text = args && PyTuple_Check(args) && PyTuple_GET_SIZE(args) == 1 ? PyTuple_GET_ITEM(args, 0) : NULL;
    if (text && PyUnicode_CheckExact(text)) {
        bool known = text == place.shown, later = known && place.cls;
        if (later) place_grow(module);
        if (later || starts_here(module, text, trace, known)) {
            if (!later) place.module = module;
            PyObject *said = place.path ? PyUnicode_FromFormat("in %U (%U): %U", place.path, place.cls, place.original)
                                        : PyUnicode_FromFormat("in %U: %U", place.cls, place.original);
            PyObject *one = said ? PyTuple_Pack(1, said) : NULL;
            if (one && !PyObject_SetAttrString(value, "args", one)) Py_XSETREF(place.shown, py_ref(said));
            Py_XDECREF(one);
            Py_XDECREF(said);
        }
    }
    Py_XDECREF(args);
    PyErr_Clear();
    PyErr_Restore(type, value, trace);
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
        PyObject *text = PyUnicode_DecodeUTF8(rush_error(), (Py_ssize_t)strlen(rush_error()), "replace");
        if (text) PyErr_SetObject(class_of(kind), text);
        place_forget();
        place.shown = text;
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

static int dist_errors_init(PyObject *module)
{
    static const struct { const char *name, *doc; int base; } of[] = {
        {"torch.distributed.DistError", "An error of torch.distributed.", -1},
        {"torch.distributed.DistBackendError", "A backend failed.", 0},
        {"torch.distributed.DistNetworkError", "A connection failed.", 0},
        {"torch.distributed.DistStoreError", "A store failed, or a wait in one took too long.", 0},
        {"torch.distributed.QueueEmptyError", "There is nothing in a store's queue.", 3},
    };
    for (int i = 0; i < 5; i++) {
        dist_errors[i] = PyErr_NewExceptionWithDoc(of[i].name, of[i].doc, of[i].base < 0 ? PyExc_RuntimeError : dist_errors[of[i].base], NULL);
        if (!dist_errors[i]) return -1;
        Py_INCREF(dist_errors[i]);
        if (py_add(module, strrchr(of[i].name, '.') + 1, dist_errors[i])) return -1;
    }
    return 0;
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
    return py_add(module, "OutOfMemoryError", py_OutOfMemoryError) || py_add(module, "_LinAlgError", py_LinAlgError) ||
           dist_errors_init(module) ? -1 : 0;
}
