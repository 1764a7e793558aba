/* names.c - which operations are functions, which are methods of Tensor, and where they live.
 *
 * Everything stands in the records: an operation is a function of the main namespace, or of the one that the prefix of its
 * name means (linalg_, fft_, special_); `.method` says what else it is. Methods that are written by hand say nothing there.
 */
#include "call.h"

enum { LINALG, FFT, SPECIAL, NN, SPARSE, NESTED, MAIN, SPACES };
static const struct space {
    const char *prefix, *name;
} spaces[SPACES] = {{"linalg_", "_linalg"}, {"fft_", "_fft"}, {"special_", "_special"}, {NULL, "_nn"}, {NULL, "_sparse"}, {NULL, "_nested"}, {NULL, "_VariableFunctions"}};

/* What the overloads of an operation say together. */
unsigned py_method_of(const rush_op *op)
{
    unsigned method = 0;
    for (; op; op = op->next) method |= op->method;
    return method;
}

/* Does `base` have an in-place form `base_`, derived from its record? */
bool py_has_inplace(const char *base) { return py_method_of(rush_op_find(base)) & (RUSH_METHOD_ | RUSH_FUNCTION_); }

static int publish(PyObject *dict, const char *base, const char *name, const char *space, int flags)
{
    PyObject *f = py_function(base, name, space, flags);
    int failed = f ? PyDict_SetItem(dict, ((py_function_object *)f)->name, f) : -1;
    Py_XDECREF(f);
    return failed;
}

/* base_: an operation of that name, or the in-place form of `base`. */
static int publish_inplace(PyObject *dict, const char *base, const char *space, int flags)
{
    size_t n = strlen(base);
    char *name_ = rush_malloc(n + 2); /* lives as long as the callables */
    if (!name_) return py_raise(), -1;
    memcpy(name_, base, n);
    memcpy(name_ + n, "_", 2);
    return rush_op_find(name_) ? publish(dict, name_, name_, space, flags) : publish(dict, base, name_, space, flags | PY_INPLACE);
}

/* All that Python has of one operation. */
static int publish_operation(PyObject *const *dict, const rush_op *op)
{
    unsigned method = py_method_of(op);
    const char *base = op->base;
    PyObject *methods = py_type_TensorBase.tp_dict;
    bool changes = base[strlen(base) - 1] == '_'; /* itself what is called x_ */
    int at = method & RUSH_NN ? NN : MAIN;
    for (int s = 0; s <= SPECIAL; ++s)
        if (!strncmp(base, spaces[s].prefix, strlen(spaces[s].prefix))) at = s;
    const char *space = at == MAIN ? "" : spaces[at].name;
    bool none = method & RUSH_NO_FUNCTION || strchr(base, ':') || (changes && !op->args[0].list && !(method & RUSH_FUNCTION_));
    if (!none && publish(dict[at], base, base, space, 0)) return -1;
    if (method & RUSH_IN_SPARSE && publish(dict[SPARSE], base, base, spaces[SPARSE].name, 0)) return -1;
    if (method & (changes ? RUSH_METHOD_ : RUSH_METHOD) && publish(methods, base, base, "", PY_METHOD)) return -1;
    if (!changes && method & RUSH_METHOD_ && publish_inplace(methods, base, "", PY_METHOD)) return -1;
    return !changes && method & RUSH_FUNCTION_ ? publish_inplace(dict[at], base, space, 0) : 0;
}

static PyObject *add_space(PyObject *module, const char *name)
{
    char full[64];
    snprintf(full, sizeof full, "rushlight._C.%s", name);
    PyObject *space = PyModule_New(full), *modules = PyImport_GetModuleDict();
    if (!space || PyDict_SetItemString(modules, full, space) || PyModule_AddObject(module, name, space)) return NULL;
    return PyModule_GetDict(space);
}

int py_functions_fill(PyObject *module)
{
    PyObject *dict[SPACES];
    for (int s = 0; s < SPACES; ++s)
        if (!(dict[s] = add_space(module, spaces[s].name))) return -1;
    for (const rush_op *op = rush_op_first(); op; op = rush_op_next(op))
        if (rush_op_find(op->base) == op && publish_operation(dict, op)) return -1; /* once for all overloads */
    PyObject *functions = PyObject_GetAttrString(module, spaces[MAIN].name); /* PyTorch's pickles of functions name its class */
    return functions ? PyModule_AddObject(module, "_VariableFunctionsClass", functions) : -1;
}
