/* call.c - the callables: one object stands for all overloads of one operation.
 *
 * A call tries the overloads in order (parse.c), asks __torch_function__ where an argument has one, runs the
 * operation, and wraps the results. What the overloads are is read from the registry at the first call.
 */
#include "call.h"
#include "nested.h"
#include "op/formula.h"

/* ---- running ---- */

/* Calls that take long enough to let other Python threads run. */
RUSH_HOT bool py_is_long(const rush_op *op, const rush_value *in)
{
    bool tensors = false;
    for (uint64_t left = op->tensor_args; left; left &= left - 1) {
        const rush_value *v = &in[__builtin_ctzll(left)];
        if (v->kind == RUSH_V_TENSOR) {
            tensors = true;
            if (v->t->numel >= 1 << 14) return true;
        } else if (v->kind == RUSH_V_TENSORS) {
            tensors = tensors || v->n;
            int64_t sum = 0;
            for (uint32_t k = 0; k < v->n; ++k) sum += v->tensors[k] ? v->tensors[k]->numel : 0;
            if (sum >= 1 << 14) return true;
        }
    }
    if (tensors || !op->nargs || in[0].kind != RUSH_V_INTS) return false;
    int64_t n = 1; /* zeros(size), randn(size) */
    for (uint32_t k = 0; k < in[0].n; ++k) n = RUSH_MIN(n * RUSH_MIN(RUSH_MAX(in[0].ints[k], 0), 1 << 20), 1 << 20);
    return n >= 1 << 16;
}

RUSH_HOT int py_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (RUSH_LIKELY(!py_is_long(op, in))) return rush_call(op, in, out);
    PyThreadState *thread = PyEval_SaveThread();
    int failed = rush_call(op, in, out);
    PyEval_RestoreThread(thread);
    return failed;
}

int py_run_inplace(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (RUSH_LIKELY(!py_is_long(op, in))) return rush_call_inplace(op, in, out);
    PyThreadState *thread = PyEval_SaveThread();
    int failed = rush_call_inplace(op, in, out);
    PyEval_RestoreThread(thread);
    return failed;
}

/* ---- results ---- */

static PyObject *return_types; /* operation's index -> class */

static PyObject *return_type_repr(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject *lines = PyList_New(0), *text = NULL;
    for (Py_ssize_t i = 0; lines && i < PyTuple_GET_SIZE(self); ++i) {
        PyObject *line = PyUnicode_FromFormat("%s=%R", type->tp_members[i].name, PyTuple_GET_ITEM(self, i));
        if (!line || PyList_Append(lines, line)) Py_CLEAR(lines);
        Py_XDECREF(line);
    }
    PyObject *between = PyUnicode_FromString(",\n"), *body = lines && between ? PyUnicode_Join(between, lines) : NULL;
    if (body) text = PyUnicode_FromFormat("%s(\n%U)", type->tp_name, body);
    Py_XDECREF(body);
    Py_XDECREF(between);
    Py_XDECREF(lines);
    return text;
}

/* max.dim's is torch.return_types.max, with out= max_out; linalg's keep their prefix */
static const char *return_name(const rush_op *op, bool given)
{
    char text[160];
    snprintf(text, sizeof text, "torch.return_types.%s%s", op->base, given ? "_out" : "");
    char *kept = rush_malloc(strlen(text) + 1);
    return kept ? strcpy(kept, text) : NULL;
}

PyObject *py_return_type(const rush_op *op, bool given)
{
    PyObject *key = PyLong_FromLong(2 * (long)op->index + given), *type = NULL;
    if (!key) return NULL;
    if (!return_types && !(return_types = PyDict_New())) goto end;
    if ((type = PyDict_GetItem(return_types, key))) goto end;
    PyStructSequence_Field fields[RUSH_MAXOUT + 1] = {{0}};
    for (int i = 0; i < op->nout; ++i) fields[i].name = op->out_names[i];
    PyStructSequence_Desc desc = {.name = return_name(op, given), .fields = fields, .n_in_sequence = op->nout};
    PyTypeObject *made = PyStructSequence_NewType(&desc);
    if (!made) goto end;
    made->tp_repr = return_type_repr;
    PyType_Modified(made);
    if (PyDict_SetItem(return_types, key, (PyObject *)made)) goto end;
    type = (PyObject *)made;
    Py_DECREF(made);
end:
    Py_DECREF(key);
    return type;
}

static PyObject *result(const rush_op *op, int i, const rush_value *v)
{
    if (op->out_types[i] == RUSH_A_NESTED) return py_from_nested(rush_type_of_result(op, i), v);
    return v->kind == RUSH_V_TENSORS ? py_wrap_list(v->tensors, v->n, true) : py_from_value(v);
}

/* given: the caller's own, out= */
RUSH_HOT static PyObject *results(const rush_op *op, const rush_value *out, bool given)
{
    if (RUSH_LIKELY(op->nout == 1)) return out->kind == RUSH_V_TENSOR ? py_wrap(out->t) : result(op, 0, out);
    if (op->nout == 0) Py_RETURN_NONE;
    bool named = true;
    for (int i = 0; i < op->nout; ++i) named = named && op->out_names[i];
    PyObject *type = named ? py_return_type(op, given) : NULL;
    PyObject *tuple = type ? PyStructSequence_New((PyTypeObject *)type) : PyTuple_New(op->nout);
    for (int i = 0; tuple && i < op->nout; ++i) {
        PyObject *x = result(op, i, &out[i]);
        if (!x) Py_CLEAR(tuple);
        else if (type) PyStructSequence_SetItem(tuple, i, x);
        else PyTuple_SET_ITEM(tuple, i, x);
    }
    return tuple;
}

RUSH_HOT PyObject *py_results(const rush_op *op, const rush_value *out) { return results(op, out, false); }

/* ---- one call ---- */

/* requires_grad=True of what makes tensors: in other words than requires_grad_()'s. */
int py_needs_gradient(rush_tensor *t)
{
    RUSH_CHECK(rush_dtypes[t->dtype].category >= 2, RUSH_RUNTIME_ERROR, "Only Tensors of floating point and complex dtype can require gradients");
    return rush_requires_grad_set(t, true) ? 0 : -1;
}

static int take_out(const py_overload *o, py_call *c, rush_value *out)
{
    bool one = py_is_tensor(c->out);
    Py_ssize_t n = one ? 1 : PySequence_Fast_GET_SIZE(c->out);
    if (n != o->op->nout) {
        PyErr_Format(PyExc_TypeError, "%s(): argument 'out' must be %s of %d Tensors, not %s", o->op->base, o->op->nout == 1 ? "one" : "tuple",
                     o->op->nout, py_type_name(c->out));
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; ++i) {
        PyObject *x = one ? c->out : PySequence_Fast_GET_ITEM(c->out, i);
        rush_tensor *t = py_need_tensor(x, "argument 'out'");
        if (!t) return -1;
        out[i] = rush_v_tensor(t);
    }
    return 0;
}

/* out= of an operation whose result is a list: each piece is copied to its tensor, which takes its sizes. split_copy()
 * leaves dtypes and sizes as they are, as copy_() does. */
static PyObject *run_into_list(const rush_op *op, py_call *c)
{
    rush_value out[RUSH_MAXOUT];
    if (py_is_tensor(c->out)) return PyErr_Format(PyExc_TypeError, "%s(): argument 'out' must be tuple of Tensors, not Tensor", op->base);
    if (py_run(op, c->in, out)) return py_raise();
    Py_ssize_t n = PySequence_Fast_GET_SIZE(c->out);
    bool keeps = op->flags & RUSH_OUT_CASTS;
    if (n != (Py_ssize_t)out[0].n) return PyErr_Format(PyExc_RuntimeError, "%s() expected an out= argument of size %u, got size %zd", op->base, out[0].n, n);
    for (uint32_t k = 0; k < out[0].n; ++k) {
        rush_tensor *to = k < PySequence_Fast_GET_SIZE(c->out) ? py_need_tensor(PySequence_Fast_GET_ITEM(c->out, k), "argument 'out'") : NULL, *piece = out[0].tensors[k];
        if (!to) return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_RuntimeError, "the list of out= has changed");
        if (!keeps && rush_given_asked_dtype(op, piece->dtype, to)) return py_raise();
        if (rush_wants_grad(to) || rush_wants_grad(piece))
            return PyErr_Format(PyExc_RuntimeError, "%s(): functions with out=... arguments don't support automatic differentiation, but one of the arguments requires grad.", op->base);
        rush_value size = rush_v_ints(piece->size, piece->ndim);
        if (!keeps && (to->ndim != piece->ndim || memcmp(to->size, piece->size, sizeof *to->size * to->ndim)) && !T("resize_", V(to), size)) return py_raise();
        if (!T("copy_", V(to), V(piece))) return py_raise();
    }
    Py_RETURN_NONE;
}

/* zeros(2, 3, out=sparse): what can be made of a sparse layout has no entries. Compressed ones are resized as resize_() does. */
static PyObject *clear_sparse(const rush_op *op, py_call *c, rush_tensor *to)
{
    rush_value fresh[RUSH_MAXOUT];
    int layout = rush_op_arg(op, "layout");
    c->in[layout] = (rush_value){.kind = RUSH_V_LAYOUT, .i = to->layout};
    if (py_run(op, c->in, fresh)) return py_raise();
    const rush_tensor *made = fresh[0].t;
    rush_value size = rush_v_ints(made->size, made->ndim);
    if (to->layout == RUSH_SPARSE_COO) T("sparse_resize_and_clear_", V(to), size, V((int64_t)made->ndim), V((int64_t)0));
    else if (rush_same_sizes(to, made) || T("resize_", V(to), size)) T("zero_", V(to));
    return rush_failed() ? py_raise() : py_ref(c->out);
}

/* Factories with out= write into it at its own size: the device and dtype, if given, must agree. */
RUSH_HOT static PyObject *run(const py_overload *o, py_call *c)
{
    const rush_op *op = o->op;
    rush_value out[RUSH_MAXOUT];
    int failed;
    if (py_default_device_set && o->placed) {
        int i = rush_op_arg(op, "device");
        if (c->in[i].kind == RUSH_V_NONE) {
            c->in[i].kind = RUSH_V_DEVICE;
            c->in[i].device = py_default_device;
        }
    }
    if (RUSH_UNLIKELY(c->out && op->out_list & 1)) return run_into_list(op, c);
    if (RUSH_UNLIKELY(c->out != NULL)) {
        for (int i = 0; i < RUSH_MAXOUT; ++i) out[i] = RUSH_NONE;
        if (take_out(o, c, out)) return NULL;
        if (o->factory) {
            int dtype = rush_op_arg(op, "dtype"), device = rush_op_arg(op, "device");
            if (c->in[dtype].kind == RUSH_V_NONE) c->in[dtype] = rush_v_dtype(out[0].t->dtype);
            else if (rush_given_asked_dtype(op, (rush_dtype)c->in[dtype].i, out[0].t)) return py_raise();
            if (c->in[device].kind == RUSH_V_NONE) c->in[device].kind = RUSH_V_DEVICE, c->in[device].device = out[0].t->device;
            if (out[0].t->layout && out[0].t->layout != RUSH_ELSEWHERE && rush_op_arg(op, "layout") >= 0) return clear_sparse(op, c, out[0].t);
        }
        failed = rush_call_out(op, c->in, out);
        if (failed || (c->requires_grad && py_needs_gradient(out[0].t))) return py_raise();
        if (py_is_tensor(c->out)) return py_ref(c->out);
        return results(op, out, true);
    }
    failed = o->inplace ? py_run_inplace(op, c->in, out) : py_run(op, c->in, out);
    if (failed) return py_raise();
    if (c->requires_grad && py_needs_gradient(out[0].t)) return py_raise();
    return py_results(op, out);
}

/* The matched call: asks who overrides it, or runs it. */
static inline __attribute__((always_inline)) PyObject *finish(py_function_object *f, const py_overload *o, py_call *c, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    if (RUSH_UNLIKELY(c->nover || (py_overrides.nmodes && py_overrides.disabled < 2))) return py_dispatch(f->shown ? f->shown : (PyObject *)f, c->over, c->nover, args, n, kwnames);
    PyObject *result = run(o, c);
    if (RUSH_LIKELY(result != Py_None) || !n || o->op->nout || strncmp(o->op->base, "_foreach_", 9)) return result;
    Py_SETREF(result, py_ref(args[0])); /* _foreach_add_(list, 1) gives the list */
    return result;
}

/* ---- numbers first, as of old: add(x, 2, y), addcmul(x, 2, y, z), addmm(beta, x, alpha, y, z), x.addmm_(beta, y, z) ---- */

static bool takes_old_order(const rush_op *op) { return py_method_of(rush_op_find(op->base)) & RUSH_OLD_ORDER; }

/* Matches what was given after the numbers have become the keywords that they are today. One number stands behind self; of two,
 * beta stands before it in functions and behind it in methods, and alpha, which may be missing, comes next. */
static int match_old_order(const py_overload *o, py_call *c, PyObject *const *args, Py_ssize_t n, PyObject *kwnames, bool method)
{
    enum { MOST = 12 };
    int number[2], nnumbers = 0, at[2] = {1, 2}, result;
    Py_ssize_t nkw = kwnames ? PyTuple_GET_SIZE(kwnames) : 0, given = n;
    for (int i = o->npos; i < o->op->nargs && nnumbers < 2; ++i)
        if (o->op->args[i].type == RUSH_A_SCALAR) number[nnumbers++] = i;
    for (Py_ssize_t k = 0; k < nkw; ++k) given += PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, k), "out") != 0;
    if (nnumbers == 2 && !method) at[0] = 0;
    nnumbers = (int)given - o->npos < nnumbers ? (int)given - o->npos : nnumbers;
    if (nnumbers < 1 || given != o->npos + nnumbers || n <= at[nnumbers - 1] || n + nkw > MOST) return 0;
    PyObject *all[MOST], *names = PyTuple_New(nkw + nnumbers);
    if (!names) return -1;
    Py_ssize_t m = 0;
    for (Py_ssize_t i = 0; i < n; ++i)
        if (i != at[0] && (nnumbers < 2 || i != at[1])) all[m++] = args[i];
    for (Py_ssize_t k = 0; k < nkw + nnumbers; ++k) {
        PyTuple_SET_ITEM(names, k, py_ref(k < nkw ? PyTuple_GET_ITEM(kwnames, k) : o->name[number[k - nkw]]));
        all[m + k] = k < nkw ? args[n + k] : args[at[k - nkw]];
    }
    result = py_match(o, c, all, m, names, method);
    Py_DECREF(names);
    return result;
}

/* Once in a process. */
static int warn_of_old_order(const py_function_object *f)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;
    if (!rush_warn_now(&said)) return 0;
    PyObject *form = py_signature(f, f->overload);
    int failed = !form || PyErr_WarnFormat(PyExc_UserWarning, 1, "This overload of %U is deprecated:\n\tnumbers are keywords now, as in %U%U", f->name, f->name, form);
    Py_XDECREF(form);
    return failed ? -1 : 0;
}

/* Operations whose first call in a process says what to call instead. */
static int warn_of_age(const py_function_object *f)
{
    static const struct {
        const char *name, *instead;
    } old[] = {{"cholesky", "cholesky"}, {"qr", "qr"}, {"triangular_solve", "solve_triangular"}, {"lu_solve", "lu_solve"}};
    static atomic_flag said[RUSH_COUNT(old)];
    for (size_t i = 0; i < RUSH_COUNT(old); ++i) {
        if (strcmp(f->base, old[i].name) || !rush_warn_now(&said[i])) continue;
        return PyErr_WarnFormat(PyExc_UserWarning, 1, "torch.%s is deprecated in favor of torch.linalg.%s", old[i].name, old[i].instead);
    }
    return 0;
}

static __attribute__((noinline)) PyObject *call_no_match(py_function_object *f, const py_call *why, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    if (!PyErr_Occurred() && !rush_failed() && takes_old_order(f->overload->op)) {
        py_call c;
        c.nover = 0;
        int ok = match_old_order(f->overload, &c, args, n, kwnames, f->flags & PY_METHOD);
        PyObject *result = ok > 0 && !warn_of_old_order(f) ? finish(f, f->overload, &c, args, n, kwnames) : NULL;
        py_forget_overrides(&c);
        if (ok) return result;
    }
    return py_no_match(f, f->n == 1 ? why : NULL, args, n, kwnames);
}

RUSH_HOT static PyObject *call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    py_function_object *f = (py_function_object *)self;
    Py_ssize_t n = PyVectorcall_NARGS(nargsf);
    bool method = f->flags & PY_METHOD;
    py_call c;
    c.nover = 0;
    PyObject *result = NULL;
    if (RUSH_UNLIKELY(!f->n) && (py_overloads_read(f) || warn_of_age(f))) return NULL;
    if (method && (n < 1 || !py_is_tensor(args[0])))
        return PyErr_Format(PyExc_TypeError, n < 1 ? "unbound method TensorBase.%U() needs an argument" : "descriptor '%U' for 'torch._C.TensorBase' objects doesn't apply to a '%s' object",
                            f->name, n < 1 ? "" : py_type_name(args[0]));
    size_t mark = rush_scope_open();
    for (int i = 0; i < f->n; ++i) {
        int ok = py_match(&f->overload[i], &c, args, n, kwnames, method);
        if (ok < 0) goto end;
        if (!ok) {
            if (rush_now.nparked != mark) rush_scope_close(mark);
            continue;
        }
        result = finish(f, &f->overload[i], &c, args, n, kwnames);
        goto end;
    }
    result = call_no_match(f, &c, args, n, kwnames);
end:
    py_forget_overrides(&c);
    rush_scope_close(mark);
    return result;
}

/* ---- the types ---- */

static void function_dealloc(PyObject *self)
{
    py_function_object *f = (py_function_object *)self;
    for (int i = 0; i < f->n; ++i) {
        for (int k = 0; k < f->overload[i].op->nargs; ++k) {
            Py_XDECREF(f->overload[i].name[k]);
            Py_XDECREF(f->overload[i].alias[k]);
        }
        PyMem_Free(f->overload[i].name);
    }
    PyMem_Free(f->overload);
    Py_XDECREF(f->name);
    Py_XDECREF(f->shown);
    PyObject_Free(self);
}

static PyObject *function_get(PyObject *self, PyObject *x, PyObject *type)
{
    if (!x || x == Py_None || !(((py_function_object *)self)->flags & PY_METHOD)) return py_ref(self);
    return PyMethod_New(self, x);
}

static PyTypeObject type_function;

static PyObject *function_repr(PyObject *self)
{
    py_function_object *f = (py_function_object *)self;
    if (f->flags & PY_METHOD) return PyUnicode_FromFormat("<method '%U' of 'torch._C.TensorBase' objects>", f->name);
    if (*f->space) return PyUnicode_FromFormat("<built-in function %U>", f->name);
    return PyUnicode_FromFormat("<built-in method %U of type object at %p>", f->name, &type_function); /* programs look for these words in graphs */
}

static PyObject *function_name(PyObject *self, void *unused) { return py_ref(((py_function_object *)self)->name); }

static PyObject *function_qualname(PyObject *self, void *unused)
{
    py_function_object *f = (py_function_object *)self;
    return f->flags & PY_METHOD ? PyUnicode_FromFormat("TensorBase.%U", f->name) : *f->space ? py_ref(f->name) : PyUnicode_FromFormat("_VariableFunctionsClass.%U", f->name);
}

static PyObject *function_module(PyObject *self, void *unused)
{
    py_function_object *f = (py_function_object *)self;
    if (f->flags & PY_METHOD) Py_RETURN_NONE;
    return *f->space ? PyUnicode_FromFormat("%s._C.%s", py_public_name(), f->space) : PyUnicode_FromString(py_public_name());
}

static PyObject *function_reduce(PyObject *self, PyObject *unused)
{
    py_function_object *f = (py_function_object *)self;
    if (!(f->flags & PY_METHOD)) return py_ref(f->name);
    PyObject *getattr = PyDict_GetItemString(PyEval_GetBuiltins(), "getattr");
    return Py_BuildValue("O(OO)", getattr, py_Tensor, f->name);
}

/* What an overload returns: "Tensor", or "(Tensor values, Tensor indices)". */
static PyObject *returned(const rush_op *op)
{
    if (op->nout == 0) return PyUnicode_FromString("None");
    PyObject *text = PyUnicode_FromString("");
    for (int i = 0; text && i < op->nout; ++i)
        Py_SETREF(text, PyUnicode_FromFormat("%U%s%s%s%s", text, i ? ", " : "", op->out_types[i] != RUSH_A_TENSOR ? "Number" : op->out_list >> i & 1 ? "List of Tensors" : "Tensor",
                                             op->nout > 1 && op->out_names[i] ? " " : "", op->nout > 1 && op->out_names[i] ? op->out_names[i] : ""));
    if (text && op->nout > 1) Py_SETREF(text, PyUnicode_FromFormat("(%U)", text));
    return text;
}

static PyObject *function_doc(PyObject *self, void *unused)
{
    py_function_object *f = (py_function_object *)self;
    if (!f->n && py_overloads_read(f)) return NULL;
    PyObject *text = PyUnicode_FromString("");
    for (int i = 0; text && i < f->n; ++i) {
        PyObject *signature = py_signature(f, &f->overload[i]), *result = signature ? returned(f->overload[i].op) : NULL;
        Py_SETREF(text, result ? PyUnicode_FromFormat("%U%U%U -> %U\n", text, f->name, signature, result) : NULL);
        Py_XDECREF(signature);
        Py_XDECREF(result);
    }
    const char *doc = f->overload[0].op->doc;
    if (text && doc) Py_SETREF(text, PyUnicode_FromFormat("%U\n%s", text, doc));
    PyObject *module = text ? PyImport_ImportModule("rushlight._examples") : NULL, *example = module ? PyObject_CallMethod(module, "of", "O", f->name) : NULL;
    Py_XDECREF(module);
    if (text) Py_SETREF(text, example ? PyUnicode_FromFormat("%U%U", text, example) : NULL);
    Py_XDECREF(example);
    return text;
}

PyObject *py_make_signature(PyObject *parameters)
{
    PyObject *module = parameters ? PyImport_ImportModule("rushlight._basics") : NULL;
    PyObject *x = module ? PyObject_CallMethod(module, "_signature", "O", parameters) : NULL;
    Py_XDECREF(module);
    Py_XDECREF(parameters);
    return x;
}

/* inspect.signature(torch.add): of the first overload */
static PyObject *function_signature(PyObject *self, void *unused)
{
    py_function_object *f = (py_function_object *)self;
    if (!f->n && py_overloads_read(f)) return NULL;
    return py_make_signature(py_parameters(f, &f->overload[0]));
}

static int function_show_as(PyObject *self, PyObject *shown, void *unused)
{
    Py_XINCREF(shown);
    Py_XSETREF(((py_function_object *)self)->shown, shown);
    return 0;
}

static PyObject *function_objclass(PyObject *self, void *unused)
{
    if (((py_function_object *)self)->flags & PY_METHOD) return py_ref((PyObject *)&py_type_TensorBase);
    return PyErr_Format(PyExc_AttributeError, "__objclass__");
}

static PyGetSetDef function_getset[] = {
    {"__name__", function_name, NULL, NULL},     {"__qualname__", function_qualname, NULL, NULL}, {"__doc__", function_doc, NULL, NULL},
    {"__module__", function_module, NULL, NULL}, {"__objclass__", function_objclass, NULL, NULL},
    {"__signature__", function_signature, NULL, NULL}, {"_shown", NULL, function_show_as, "What a __torch_function__ is told was called."}, {NULL},
};
static PyMethodDef function_methods[] = {{"__reduce__", function_reduce, METH_NOARGS, NULL}, {NULL}};

static PyTypeObject type_function = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "torch._C.function",
    .tp_basicsize = sizeof(py_function_object),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(py_function_object, call),
    .tp_call = PyVectorcall_Call,
    .tp_dealloc = function_dealloc,
    .tp_repr = function_repr,
    .tp_methods = function_methods,
    .tp_getset = function_getset,
    .tp_doc = "An operation as a function.",
};
static PyTypeObject type_method = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "torch._C.method",
    .tp_basicsize = sizeof(py_function_object),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_vectorcall_offset = offsetof(py_function_object, call),
    .tp_call = PyVectorcall_Call,
    .tp_descr_get = function_get,
    .tp_dealloc = function_dealloc,
    .tp_repr = function_repr,
    .tp_methods = function_methods,
    .tp_getset = function_getset,
    .tp_doc = "An operation as a method of Tensor.",
};

PyObject *py_function(const char *base, const char *name, const char *space, int flags)
{
    py_function_object *f = PyObject_New(py_function_object, flags & PY_METHOD ? &type_method : &type_function);
    if (!f) return NULL;
    f->call = call;
    f->base = base;
    f->space = space;
    f->flags = flags;
    f->n = 0;
    f->overload = NULL;
    f->shown = NULL;
    f->name = PyUnicode_InternFromString(name);
    if (!f->name) Py_CLEAR(f);
    return (PyObject *)f;
}

/* _return_type("max") -> the class of its results with names, or None; "max_out": of those that were given */
static PyObject *return_type(PyObject *module, PyObject *x)
{
    const char *name = PyUnicode_AsUTF8(x);
    char base[128];
    if (!name) return NULL;
    bool given = strlen(name) > 4 && !strcmp(name + strlen(name) - 4, "_out");
    snprintf(base, sizeof base, "%.*s", (int)(strlen(name) - (given ? 4 : 0)), name);
    for (const rush_op *op = rush_op_find(base); op; op = op->next) {
        bool named = op->nout > 1;
        for (int i = 0; i < op->nout; ++i) named = named && op->out_names[i];
        if (!named) continue;
        PyObject *type = py_return_type(op, given);
        return type ? py_ref(type) : NULL;
    }
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {{"_return_type", return_type, METH_O, "The class of an operation's results with names."}, {NULL}};

int py_call_init(PyObject *module)
{
    if (PyModule_AddFunctions(module, functions)) return -1;
    if (PyType_Ready(&type_function) || PyType_Ready(&type_method)) return -1;
    return py_functions_fill(module);
}
