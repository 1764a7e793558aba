/* signature.c - overloads as read from the registry, their texts, and the TypeErrors that list them. */
#include "call.h"
#include "op/nested.h"

/* ---- reading the records ---- */

static bool one_of(const char *name, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; ++i)
        if (!strcmp(name, list[i])) return true;
    return false;
}

/* Where PyTorch's Python functions take a number for a Tensor argument. */
static bool takes_numbers(const char *base)
{
    static const char *const names[] = {"add", "sub", "mul", "div", "multiply", "subtract", "divide", "true_divide", "floor_divide", "copy_"};
    return one_of(base, names, RUSH_COUNT(names));
}

/* ... and where that is their only form: subtract(x, 2, 3) is there, sub(x, 2, 3) the old order. */
static bool one_form(const char *base)
{
    static const char *const names[] = {"add", "sub", "mul", "div"};
    return one_of(base, names, RUSH_COUNT(names));
}

static const char *numpy_word(const char *name)
{
    static const char *const pairs[][2] = {{"dim", "axis"}, {"keepdim", "keepdims"}, {"other", "x2"}};
    for (size_t i = 0; i < RUSH_COUNT(pairs); ++i)
        if (!strcmp(pairs[i][0], name)) return pairs[i][1];
    return NULL;
}

static int read_one(py_function_object *f, py_overload *o, const rush_op *op)
{
    bool method = f->flags & PY_METHOD, written = false, schema = !strcmp(f->space, "ops"); /* torch.ops: named as in the schema, self too */
    *o = (py_overload){.op = op, .inplace = f->flags & PY_INPLACE, .numbers = takes_numbers(op->base)};
    o->wraps = f->flags & PY_ONLY && !o->numbers;
    o->name = PyMem_Calloc(2 * RUSH_MAX(op->nargs, 1), sizeof *o->name);
    if (!o->name) return PyErr_NoMemory(), -1;
    o->alias = o->name + RUSH_MAX(op->nargs, 1);
    bool dtype = false, device = false;
    for (int i = 0; i < op->nargs; ++i) {
        const rush_arg *a = &op->args[i];
        bool input = !method && !schema && a->type == RUSH_A_TENSOR && !a->list && !strcmp(a->name, "self");
        const char *name = input ? "input" : a->name, *alias = numpy_word(a->name);
        if (!(o->name[i] = PyUnicode_InternFromString(name))) return -1;
        if (alias && !(o->alias[i] = PyUnicode_InternFromString(alias))) return -1;
        if (!a->kwonly) o->npos = (uint8_t)(i + 1);
        dtype |= a->kwonly && !strcmp(name, "dtype");
        device |= a->kwonly && !strcmp(name, "device");
        o->tensor_args |= a->type == RUSH_A_TENSOR;
        if (a->has_default && !strcmp(name, "reduction") && !schema) o->unreduced = (uint8_t)(i + 1);
        written |= a->written;
    }
    int list = method ? 1 : 0;
    o->varargs = o->npos == list + 1 && op->args[list].list && op->args[list].type == RUSH_A_INT;
    o->factory = dtype && device;
    o->placed = o->factory && !o->tensor_args && strcmp(op->base, "normal") && strcmp(op->base, "range"); /* these two: on the CPU, as PyTorch's */
    bool maps = op->nout && op->out_list & 1 && op->args[0].list; /* lists to lists, as in _foreach_add: no out= */
    o->out = !method && !o->inplace && !written && op->nout && !maps && !(op->flags & RUSH_VIEW) && op->out_types[0] == RUSH_A_TENSOR;
    return 0;
}

/* Overloads that take tensors are tried before those that take numbers (a tensor of one element is a number, too), one int
 * before a list of ints. */
static int rank(const rush_op *op)
{
    int r = 0;
    for (int i = 0; i < RUSH_MIN(op->nargs, 4); ++i) {
        const rush_arg *a = &op->args[i];
        r = r * 4 + (a->type == RUSH_A_SCALAR || a->type == RUSH_A_FLOAT ? 3 : a->type == RUSH_A_INT ? 1 + a->list : 0);
    }
    for (int i = op->nargs; i < 4; ++i) r *= 4;
    return r;
}

int py_overloads_read(py_function_object *f)
{
    const rush_op *found[32];
    int n = 0;
    for (const rush_op *op = rush_op_find(f->base); op && n < 32; op = op->next) {
        if (f->flags & PY_INPLACE && (!op->nargs || op->args[0].type != RUSH_A_TENSOR)) continue;
        if (f->flags & PY_METHOD && (!op->nargs || op->args[0].type != RUSH_A_TENSOR || op->args[0].list)) continue;
        if (f->flags & PY_ONLY && strcmp(op->name, f->base)) continue;
        if (!(f->flags & PY_ONLY) && one_form(f->base) && strstr(op->name, ".Scalar")) continue; /* the Tensor overload takes numbers */
        int at = n;
        while (at > 0 && rank(found[at - 1]) > rank(op)) --at;
        memmove(found + at + 1, found + at, sizeof *found * (n - at));
        found[at] = op;
        ++n;
    }
    if (!n) return PyErr_Format(PyExc_NotImplementedError, "the operation '%U' is not there yet", f->name), -1;
    f->overload = PyMem_Calloc(n, sizeof *f->overload);
    if (!f->overload) return PyErr_NoMemory(), -1;
    for (int i = 0; i < n; ++i) {
        if (read_one(f, &f->overload[i], found[i])) return -1;
        f->n = i + 1;
    }
    return 0;
}

/* ---- signatures as text ---- */

static const char *type_word(const rush_arg *a)
{
    static const char *const words[] = {"Tensor", "int", "float", "bool", "Number", "str", "torch.dtype", "torch.device", "torch.layout",
                                        "torch.memory_format", "torch.Generator", "as the schema says"};
    static const char *const lists[] = {"tuple of Tensors", "tuple of ints", "tuple of floats", "tuple of bools", "tuple of Scalars"};
    return a->list ? lists[RUSH_MIN(a->type, 4)] : words[a->type];
}

static PyObject *nested_word(const rush_op *op, int i)
{
    rush_type_text type = rush_type_of_arg(op, i);
    return PyUnicode_FromStringAndSize(type.at, (Py_ssize_t)type.n);
}

static PyObject *default_text(const rush_arg *a)
{
    switch (a->def.kind) {
    case RUSH_V_NONE: return PyUnicode_FromString("None");
    case RUSH_V_BOOL: return PyUnicode_FromString(a->def.i ? "True" : "False");
    case RUSH_V_MEMORY_FORMAT: return PyUnicode_FromFormat("torch.%s", a->def.i ? "preserve_format" : "contiguous_format");
    case RUSH_V_STRING: return PyUnicode_FromString(a->def.s);
    default: {
        PyObject *x = py_from_value(&a->def), *text = NULL;
        if (x && PyList_Check(x)) {
            PyObject *tuple = PySequence_Tuple(x);
            text = tuple ? PyObject_Repr(tuple) : NULL;
            Py_XDECREF(tuple);
        } else if (x) {
            text = PyObject_Repr(x);
        }
        Py_XDECREF(x);
        return text;
    }
    }
}

PyObject *py_signature(const py_function_object *f, const py_overload *o)
{
    bool method = f->flags & PY_METHOD, star = false;
    PyObject *parts = PyList_New(0), *text = NULL;
    for (int i = method; parts && i < o->op->nargs; ++i) {
        const rush_arg *a = &o->op->args[i];
        PyObject *value = a->has_default ? default_text(a) : NULL;
        PyObject *part = value ? PyUnicode_FromFormat("%s %U = %U", type_word(a), o->name[i], value) : PyUnicode_FromFormat("%s %U", type_word(a), o->name[i]);
        PyObject *mark = a->kwonly && !star ? PyUnicode_FromString("*") : NULL;
        if (mark && PyList_Append(parts, mark)) Py_CLEAR(parts);
        star |= a->kwonly;
        if (parts && (!part || PyList_Append(parts, part))) Py_CLEAR(parts);
        Py_XDECREF(mark);
        Py_XDECREF(part);
        Py_XDECREF(value);
    }
    const char *more[3] = {o->out && !star ? "*" : NULL, o->out ? o->op->nout > 1 ? "tuple of Tensors out = None" : "Tensor out = None" : NULL,
                           o->factory ? "bool requires_grad = False" : NULL};
    for (int i = 0; parts && i < 3; ++i) {
        PyObject *part = more[i] ? PyUnicode_FromString(more[i]) : NULL;
        if (part && PyList_Append(parts, part)) Py_CLEAR(parts);
        Py_XDECREF(part);
    }
    PyObject *comma = PyUnicode_FromString(", "), *body = comma && parts ? PyUnicode_Join(comma, parts) : NULL;
    if (body) text = PyUnicode_FromFormat("(%U)", body);
    Py_XDECREF(body);
    Py_XDECREF(comma);
    Py_XDECREF(parts);
    return text;
}

PyObject *py_parameters(const py_function_object *f, const py_overload *o)
{
    bool star = false, optional = false;
    PyObject *text = PyUnicode_FromString(f->flags & PY_METHOD ? "self" : "");
    for (int i = f->flags & PY_METHOD ? 1 : 0; text && i < o->op->nargs; ++i) {
        const rush_arg *a = &o->op->args[i];
        PyObject *value = !a->has_default ? NULL : a->def.kind == RUSH_V_STRING ? PyUnicode_FromFormat("'%s'", a->def.s) : default_text(a);
        bool gap = optional && !value && !a->kwonly && !star; /* a schema may ask for more after an optional argument */
        const char *comma = PyUnicode_GET_LENGTH(text) ? ", " : "", *mark = (a->kwonly && !star) || gap ? "*, " : "";
        star |= a->kwonly || gap;
        optional |= value != NULL;
        Py_SETREF(text, value ? PyUnicode_FromFormat("%U%s%s%U=%U", text, comma, mark, o->name[i], value)
                              : PyUnicode_FromFormat("%U%s%s%U", text, comma, mark, o->name[i]));
        Py_XDECREF(value);
    }
    if (text && o->out) Py_SETREF(text, PyUnicode_FromFormat("%U%s%sout=None", text, PyUnicode_GET_LENGTH(text) ? ", " : "", star ? "" : "*, "));
    if (text && o->factory) Py_SETREF(text, PyUnicode_FromFormat("%U, requires_grad=False", text));
    return text;
}

/* ---- what went wrong ---- */

static PyObject *join(PyObject *list)
{
    PyObject *comma = PyUnicode_FromString(", "), *text = comma && list ? PyUnicode_Join(comma, list) : NULL;
    Py_XDECREF(comma);
    return text;
}

/* "(Tensor, str, dim=int)": what was given. */
PyObject *py_describe_args(PyObject *const *args, Py_ssize_t n, PyObject *kwnames, int first)
{
    PyObject *list = PyList_New(0);
    Py_ssize_t nkw = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    for (Py_ssize_t i = first; list && i < n + nkw; ++i) {
        PyObject *x = args[i], *part, *inner = NULL;
        if (PyTuple_Check(x) || PyList_Check(x)) {
            PyObject *items = PyList_New(0);
            for (Py_ssize_t k = 0; items && k < PySequence_Fast_GET_SIZE(x); ++k) {
                PyObject *item = PyUnicode_FromString(py_type_name(PySequence_Fast_GET_ITEM(x, k)));
                if (!item || PyList_Append(items, item)) Py_CLEAR(items);
                Py_XDECREF(item);
            }
            PyObject *body = join(items);
            bool one = PyTuple_Check(x) && PyTuple_GET_SIZE(x) == 1;
            inner = body ? PyUnicode_FromFormat("%s of %s%U%s%s", Py_TYPE(x)->tp_name, PyTuple_Check(x) ? "(" : "[", body, one ? "," : "", PyTuple_Check(x) ? ")" : "]") : NULL;
            Py_XDECREF(body);
            Py_XDECREF(items);
        } else {
            inner = PyUnicode_FromString(py_type_name(x));
        }
        part = !inner ? NULL : i < n ? py_ref(inner) : PyUnicode_FromFormat("%U=%U", PyTuple_GET_ITEM(kwnames, i - n), inner);
        if (!part || PyList_Append(list, part)) Py_CLEAR(list);
        Py_XDECREF(part);
        Py_XDECREF(inner);
    }
    PyObject *body = join(list), *text = body ? PyUnicode_FromFormat("(%U)", body) : NULL;
    Py_XDECREF(body);
    Py_XDECREF(list);
    return text;
}

static void say_one(py_function_object *f, const py_call *c, Py_ssize_t n)
{
    const py_overload *o = &f->overload[0];
    bool method = f->flags & PY_METHOD;
    switch (c->why) {
    case PY_TOO_MANY: {
        int want = o->npos - method, got = c->which - method, least = want;
        while (least > 0 && o->op->args[least - 1 + method].has_default) --least;
        if (least < want)
            PyErr_Format(PyExc_TypeError, "%U() takes from %d to %d positional arguments but %d were given", f->name, least, want, got);
        else
            PyErr_Format(PyExc_TypeError, "%U() takes %d positional argument%s but %d %s given", f->name, want, want == 1 ? "" : "s", got, got == 1 ? "was" : "were");
        return;
    }
    case PY_MISSING: {
        int missing = 0;
        PyObject *names = PyList_New(0);
        for (int i = c->which; names && i < o->op->nargs; ++i) {
            if (o->op->args[i].has_default) continue;
            PyObject *quoted = PyUnicode_FromFormat("\"%U\"", o->name[i]);
            if (!quoted || PyList_Append(names, quoted)) Py_CLEAR(names);
            Py_XDECREF(quoted);
            ++missing;
        }
        PyObject *text = join(names);
        if (text) PyErr_Format(PyExc_TypeError, "%U() missing %d required positional arguments: %U", f->name, missing, text);
        Py_XDECREF(text);
        Py_XDECREF(names);
        return;
    }
    case PY_UNKNOWN: PyErr_Format(PyExc_TypeError, "%U() got an unexpected keyword argument '%U'", f->name, c->what); return;
    case PY_TWICE: PyErr_Format(PyExc_TypeError, "%U() got multiple values for argument '%U'", f->name, c->what); return;
    case PY_BAD_OUT: PyErr_Format(PyExc_TypeError, "%U(): argument 'out' must be Tensor, not %s", f->name, py_type_name(c->what)); return;
    case PY_BAD_GRAD: PyErr_Format(PyExc_TypeError, "%U(): argument 'requires_grad' must be bool, not %s", f->name, py_type_name(c->what)); return;
    default: {
        const rush_arg *a = &o->op->args[c->which];
        if (a->list && (PyTuple_Check(c->what) || PyList_Check(c->what)) && c->item >= 0 && c->item < PySequence_Fast_GET_SIZE(c->what)) {
            PyObject *item = PySequence_Fast_GET_ITEM(c->what, c->item);
            if (a->type == RUSH_A_TENSOR) PyErr_Format(PyExc_TypeError, "expected Tensor as element %d in argument %d, but got %s", c->item, c->which, py_type_name(item));
            else PyErr_Format(PyExc_TypeError, "%U(): argument '%U' failed to unpack the object at pos %d with error \"type must be %s,but got %s\"", f->name,
                              o->name[c->which], c->item + 1, type_word(a), py_type_name(item));
            return;
        }
        if (a->type == RUSH_A_DTYPE && Py_TYPE(c->what) == &py_type_dtype) {
            PyErr_Format(PyExc_NotImplementedError, "%U(): tensors of %S are not supported: the type is a name only", f->name, c->what);
            return;
        }
        bool position = c->which < n;
        PyObject *where = position ? PyUnicode_FromFormat(" (position %d)", c->which + !method) : PyUnicode_FromString("");
        PyObject *type = a->type == RUSH_A_NESTED ? nested_word(o->op, c->which) : PyUnicode_FromString(type_word(a));
        if (where && type)
            PyErr_Format(PyExc_TypeError, "%U(): argument '%U'%U must be %U, not %s", f->name, o->name[c->which], where, type, py_type_name(c->what));
        Py_XDECREF(type);
        Py_XDECREF(where);
    }
    }
}

static void say_all(py_function_object *f, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    PyObject *got = py_describe_args(args, n, kwnames, f->flags & PY_METHOD);
    PyObject *text = got ? PyUnicode_FromFormat("%U() received an invalid combination of arguments - got %U, but expected one of:", f->name, got) : NULL;
    for (int i = 0; text && i < f->n; ++i) {
        PyObject *signature = py_signature(f, &f->overload[i]);
        Py_SETREF(text, signature ? PyUnicode_FromFormat("%U\n * %U", text, signature) : NULL);
        Py_XDECREF(signature);
    }
    if (text) PyErr_Format(PyExc_TypeError, "%U\n", text);
    Py_XDECREF(text);
    Py_XDECREF(got);
}

/* torch.ops, whose operators are called by their schema: rushlight._library says what PyTorch says, where it finds what is wrong. */
static void say_operator(py_function_object *f, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    PyObject *tuple, *kwargs, *module = PyImport_ImportModule("rushlight._library.custom_ops"), *none = NULL;
    if (!module) return;
    if (!py_pack(args, n, kwnames, &tuple, &kwargs))
        none = PyObject_CallMethod(module, "refuse", "sOO", f->overload[0].op->schema, tuple, kwargs ? kwargs : Py_None);
    Py_XDECREF(none);
    Py_XDECREF(tuple);
    Py_XDECREF(kwargs);
    Py_DECREF(module);
}

void *py_no_match(py_function_object *f, const py_call *only, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    if (PyErr_Occurred()) return NULL;
    if (rush_failed()) return py_raise();
    const bool operator = !strcmp(f->space, "ops");
    if (operator && only) say_operator(f, args, n, kwnames);
    if (PyErr_Occurred()) return NULL;
    if (only) say_one(f, only, n);
    else say_all(f, args, n, kwnames);
    if (!operator || !PyErr_ExceptionMatches(PyExc_TypeError)) return NULL;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_Format(PyExc_RuntimeError, only ? "%S" : "Overloaded torch operator invoked from Python failed to match any schema:\n%S", value);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    return NULL;
}
