/* make.c - tensors made of Python data: tensor(), as_tensor(), asarray(), from_numpy(), frombuffer().
 *
 * Nested sequences are read twice: once for sizes and dtype, once to store the numbers where they belong.
 */
#include "ext.h"
#include "op/formula.h"
#include "ops/create/pin.h"

/* ---- sizes and dtype of nested data ---- */

typedef struct shape {
    int ndim;
    int64_t size[RUSH_MAXDIM];
    int dtype; /* promoted over the numbers seen, -1 before the first */
} shape;

static bool is_sequence(PyObject *x)
{
    if (PyList_Check(x) || PyTuple_Check(x)) return true;
    return PySequence_Check(x) && !py_is_tensor(x) && !py_is_ndarray(x) && !py_is_numpy_scalar(x);
}

static bool is_text(PyObject *x) { return PyUnicode_Check(x) || PyBytes_Check(x); }

static int no_text(PyObject *x) { return PyErr_Format(PyExc_TypeError, "new(): invalid data type '%s'", Py_TYPE(x)->tp_name), -1; }

/* A tensor among the data, or an array as one; parked. NULL without an exception for others. */
static rush_tensor *as_part(PyObject *x)
{
    if (py_is_tensor(x)) return py_tensor_of(x);
    return py_is_ndarray(x) ? py_from_ndarray(x, false) : NULL;
}

static int find_sizes(shape *s, PyObject *x)
{
    PyObject *owned = NULL;
    while (true) {
        rush_tensor *part = as_part(x);
        if (part && py_is_tensor(x)) break; /* of one element, as a number */
        if (part) {
            if (s->ndim + part->ndim > RUSH_MAXDIM) goto deep;
            for (int d = 0; d < part->ndim; ++d) s->size[s->ndim++] = part->size[d];
            break;
        }
        if (PyErr_Occurred()) goto failed;
        if (!is_sequence(x)) break;
        if (s->ndim == RUSH_MAXDIM) goto deep;
        Py_ssize_t n = PySequence_Size(x);
        if (n < 0) goto failed;
        if (n && PyUnicode_Check(x)) goto deep; /* a letter is a string of one letter, without end */
        s->size[s->ndim++] = n;
        if (n == 0) break;
        PyObject *first = PySequence_GetItem(x, 0);
        Py_XDECREF(owned);
        owned = first;
        if (!first) return PyErr_Format(PyExc_ValueError, "could not determine the shape of object type '%s'", Py_TYPE(x)->tp_name), -1;
        x = first;
    }
    Py_XDECREF(owned);
    return 0;
deep:
    PyErr_Format(PyExc_ValueError, "too many dimensions '%s'", Py_TYPE(x)->tp_name);
failed:
    Py_XDECREF(owned);
    return -1;
}

static int dtype_of_number(PyObject *x)
{
    if (py_is_numpy_scalar(x)) {
        PyObject *dtype = PyObject_GetAttrString(x, "dtype"), *name = dtype ? PyObject_GetAttrString(dtype, "name") : NULL;
        const char *text = name ? PyUnicode_AsUTF8(name) : NULL;
        int d = text ? rush_dtype_from_name(text) : -1;
        Py_XDECREF(name);
        Py_XDECREF(dtype);
        PyErr_Clear();
        if (d >= 0) return d;
    }
    if (PyBool_Check(x)) return RUSH_BOOL;
    if (PyFloat_Check(x)) return rush_default_dtype();
    if (PyComplex_Check(x)) return rush_dtype_complex(rush_default_dtype());
    if (PyLong_Check(x)) return RUSH_I64;
    if (PyIndex_Check(x)) return RUSH_I64;
    if (PyNumber_Check(x) && Py_TYPE(x)->tp_as_number->nb_float) return rush_default_dtype();
    PyErr_Format(PyExc_RuntimeError, "Could not infer dtype of %s", Py_TYPE(x)->tp_name);
    return -1;
}

static void merge(shape *s, int dtype) { s->dtype = s->dtype < 0 || s->dtype == dtype ? dtype : (int)rush_promote(s->dtype, dtype); }

static int find_dtype(shape *s, PyObject *x)
{
    if (PyFloat_CheckExact(x) || PyLong_CheckExact(x)) return merge(s, PyFloat_CheckExact(x) ? rush_default_dtype() : RUSH_I64), 0;
    rush_tensor *part = as_part(x);
    if (part) return merge(s, part->dtype), 0;
    if (PyErr_Occurred()) return -1;
    if (is_text(x)) return no_text(x);
    if (!is_sequence(x)) {
        int d = dtype_of_number(x);
        return d < 0 ? -1 : (merge(s, d), 0);
    }
    if (Py_EnterRecursiveCall(" while the dtype of nested lists is looked for")) return -1;
    PyObject *fast = PySequence_Fast(x, "a sequence was expected");
    int failed = fast ? 0 : -1;
    if (fast && !PySequence_Fast_GET_SIZE(fast)) merge(s, rush_default_dtype());
    PyTypeObject *last = NULL; /* long lists of one type are looked at quickly */
    for (Py_ssize_t i = 0; !failed && i < PySequence_Fast_GET_SIZE(fast); ++i) {
        if (Py_TYPE(PySequence_Fast_GET_ITEM(fast, i)) == last) continue;
        PyObject *item = py_list_item(fast, i);
        failed = item != x ? find_dtype(s, item) : (PyErr_Format(PyExc_TypeError, "new(): self-referential lists are incompatible"), -1);
        if (PyFloat_CheckExact(item) || PyLong_CheckExact(item)) last = Py_TYPE(item);
        Py_DECREF(item);
    }
    Py_XDECREF(fast);
    Py_LeaveRecursiveCall();
    return failed;
}

/* ---- storing ---- */

/* A number that no int64 holds is a ValueError here. */
static int too_big(void)
{
    if (PyErr_ExceptionMatches(PyExc_RuntimeError) || PyErr_ExceptionMatches(PyExc_OverflowError)) PyErr_SetString(PyExc_ValueError, "Overflow when unpacking long long");
    return -1;
}

static int no_number(int dtype, PyObject *x)
{
    const char *name = Py_TYPE(x)->tp_name;
    if (rush_dtypes[dtype].category < 2) PyErr_Format(PyExc_TypeError, "'%s' object cannot be interpreted as an integer", name);
    else PyErr_Format(PyExc_TypeError, "must be real number, not %s", name);
    return -1;
}

static int store_number(char *p, int dtype, PyObject *x)
{
    rush_value v;
    if (dtype == RUSH_F32 && PyFloat_CheckExact(x)) return *(float *)p = (float)PyFloat_AS_DOUBLE(x), 0;
    if (dtype == RUSH_F64 && PyFloat_CheckExact(x)) return *(double *)p = PyFloat_AS_DOUBLE(x), 0;
    if (dtype == RUSH_I64 && PyLong_CheckExact(x)) {
        int64_t i;
        if (py_to_int(x, &i) < 0) return too_big();
        return *(int64_t *)p = i, 0;
    }
    if (PyLong_Check(x) && !PyBool_Check(x) && rush_dtypes[dtype].category >= 2) { /* as large as the float takes */
        double number = PyLong_AsDouble(x);
        if (number == -1 && PyErr_Occurred()) return -1;
        return rush_number_store(p, dtype, rush_v_float(number)), 0;
    }
    if (PyLong_Check(x) && dtype == RUSH_BOOL) return rush_number_store(p, dtype, rush_v_bool(PyObject_IsTrue(x))), 0;
    int ok = py_to_number(x, &v);
    if (ok > 0 && v.kind == RUSH_V_INT && v.n && dtype != RUSH_U64) return PyErr_SetString(PyExc_ValueError, "Overflow when unpacking long long"), -1;
    if (ok > 0 && v.kind == RUSH_V_INT && !v.n && v.i < 0 && dtype == RUSH_U64) return PyErr_SetString(PyExc_OverflowError, "can't convert negative int to unsigned"), -1;
    if (ok == 0 && PyNumber_Check(x)) {
        PyObject *number = PyIndex_Check(x) ? PyNumber_Index(x) : PyNumber_Float(x);
        ok = number ? py_plain_number(number, &v) : -1;
        Py_XDECREF(number);
    }
    if (ok <= 0) return !ok ? no_number(dtype, x) : dtype == RUSH_U64 ? -1 : too_big();
    const rush_dtype_info *d = &rush_dtypes[dtype];
    if (v.kind == RUSH_V_COMPLEX && d->category % 3 && v.c[1] != 0) return no_number(dtype, x);
    if (v.kind == RUSH_V_INT && d->category == 1 && d->size < 8) {
        int64_t lo = d->is_signed ? -((int64_t)1 << (d->size * 8 - 1)) : -((int64_t)1 << (d->size * 8 - 1)) * 2 + 1;
        int64_t hi = ((int64_t)1 << (d->size * 8 - (d->is_signed ? 1 : 0))) - 1;
        if (v.i < lo || v.i > hi) return PyErr_Format(PyExc_RuntimeError, "value cannot be converted to type %s without overflow", d->name), -1;
    }
    if (v.kind == RUSH_V_FLOAT && dtype == RUSH_U64) return PyErr_Format(PyExc_TypeError, "an integer is required"), -1;
    if (v.kind == RUSH_V_FLOAT && d->category == 1 && rush_number_fits(v, dtype)) {
        rush_error_clear(); /* which names the type of C */
        return PyErr_Format(PyExc_RuntimeError, "value cannot be converted to type %s without overflow", d->name), -1;
    }
    rush_number_store(p, dtype, v);
    return 0;
}

/* A tensor among the data stands for its one number. */
static int store_element(char *p, int dtype, PyObject *x)
{
    const rush_tensor *t = py_tensor_of(x);
    if (rush_dtypes[dtype].category == 1 && (t->numel != 1 || rush_dtypes[t->dtype].category > 1))
        return PyErr_Format(PyExc_TypeError, "only integer tensors of a single element can be converted to an index"), -1;
    if (t->numel != 1) return PyErr_Format(PyExc_ValueError, "only one element tensors can be converted to Python scalars"), -1;
    PyObject *number = py_item(x, NULL);
    int failed = number ? store_number(p, dtype, number) : -1;
    Py_XDECREF(number);
    return failed;
}

static int wrong_length(const rush_tensor *to, int dim, int64_t n)
{
    return PyErr_Format(PyExc_ValueError, "expected sequence of length %lld at dim %d (got %lld)", (long long)to->size[dim], dim, (long long)n), -1;
}

static int store(const rush_tensor *to, int dim, char *p, PyObject *x)
{
    int size = rush_dtypes[to->dtype].size;
    if (dim == to->ndim && py_is_tensor(x)) return store_element(p, to->dtype, x);
    rush_tensor *part = PyFloat_CheckExact(x) || PyLong_CheckExact(x) ? NULL : as_part(x);
    if (part && (part->ndim || dim == to->ndim)) {
        for (int d = 0; d < part->ndim && !py_is_tensor(x) && part->ndim == to->ndim - dim; ++d)
            if (part->size[d] != to->size[dim + d]) return wrong_length(to, dim + d, part->size[d]);
        if (part->ndim != to->ndim - dim || memcmp(part->size, to->size + dim, sizeof *part->size * part->ndim))
            return PyErr_Format(PyExc_ValueError, "only one element tensors can be converted to Python scalars"), -1;
        rush_tensor *place = rush_tensor_alias(to, part->ndim, to->size + dim, to->stride + dim, (p - (char *)to->storage->data) / size);
        return place && !rush_copy_into(place, part) ? 0 : py_raise_int();
    }
    if (PyErr_Occurred()) return -1;
    if (dim == to->ndim) {
        return is_sequence(x) ? no_number(to->dtype, x) : store_number(p, to->dtype, x);
    }
    PyObject *fast = PySequence_Fast(x, "not a sequence");
    if (!fast) return -1;
    int failed = 0;
    if (PySequence_Fast_GET_SIZE(fast) != to->size[dim])
        failed = wrong_length(to, dim, PySequence_Fast_GET_SIZE(fast));
    bool last = dim + 1 == to->ndim;
    for (Py_ssize_t i = 0; !failed && i < to->size[dim]; ++i) {
        PyObject *item = py_list_item(fast, i);
        bool number = last && item && (PyFloat_CheckExact(item) || PyLong_CheckExact(item));
        failed = !item ? -1 : number ? store_number(p, to->dtype, item) : store(to, dim + 1, p, item);
        Py_XDECREF(item);
        p += to->stride[dim] * size;
    }
    Py_DECREF(fast);
    return failed;
}

/* Another library's array: an object with __dlpack__, or a capsule that one gave; parked. NULL without an exception for others. */
static rush_tensor *from_dlpack(PyObject *x, bool capsules)
{
    if (PyList_Check(x) || PyTuple_Check(x) || PyFloat_Check(x) || PyLong_Check(x) || is_text(x) || py_is_numpy_scalar(x)) return NULL;
    if (!(PyCapsule_CheckExact(x) ? capsules : PyObject_HasAttrString(x, "__dlpack__"))) return NULL;
    PyObject *module = PyImport_ImportModule("rushlight.utils.dlpack"), *made = module ? PyObject_CallMethod(module, "from_dlpack", "O", x) : NULL;
    rush_tensor *t = made && py_is_tensor(made) ? rush_park(rush_keep(py_tensor_of(made))) : NULL;
    Py_XDECREF(made);
    Py_XDECREF(module);
    return t;
}

/* A storage's elements, which have to be of the dtype asked for or of what their numbers would become. Bytes that are untyped are read as that. */
static rush_tensor *over_storage(rush_storage *s, PyObject *data, int dtype)
{
    shape found = {.dtype = -1};
    if (dtype < 0 && find_dtype(&found, data)) return NULL;
    if (dtype < 0) dtype = found.dtype;
    if (!py_storage_fits(data, dtype)) return NULL;
    rush_tensor *t = rush_tensor_over(s, dtype, 1, (int64_t[]){(int64_t)(s->nbytes / rush_dtypes[dtype].size)}, (int64_t[]){1}, 0);
    return t ? t : py_raise();
}

rush_tensor *py_tensor_from_data(PyObject *data, int dtype, rush_device device, bool copy)
{
    shape s = {.dtype = -1};
    bool number = PyFloat_CheckExact(data) || PyLong_CheckExact(data);
    rush_tensor *t = number ? NULL : as_part(data), *moved;
    rush_storage *bytes = number || t || PyErr_Occurred() ? NULL : py_any_storage_of(data);
    if (bytes) t = over_storage(bytes, data, dtype), copy = false; /* as PyTorch: a storage is shown, not copied */
    if (!t && !PyErr_Occurred()) t = from_dlpack(data, false);
    if (PyErr_Occurred()) return NULL;
    if (t && t->flags & RUSH_T_WATCHED) {
        uint32_t mode = rush_now.mode;
        rush_now.mode |= RUSH_MODE_NO_GRAD;
        t = T("_to_copy", V(t), rush_v_dtype(dtype < 0 ? t->dtype : dtype), RUSH_NONE, (rush_value){.kind = RUSH_V_DEVICE, .device = device.type == RUSH_CPU ? t->device : device});
        rush_now.mode = mode;
        return t ? t : py_raise();
    }
    if (t && t->layout) {
        t = dtype >= 0 && t->dtype != dtype ? T("_to_copy", V(rush_tensor_detach(t)), rush_v_dtype(dtype)) : copy ? T("clone", V(rush_tensor_detach(t))) : t;
    } else if (t) {
        if (dtype >= 0 && t->dtype != dtype) t = rush_cast_copy(t, dtype), copy = false;
        if (t && copy) {
            moved = rush_tensor_new_like(t, t->dtype, t->device, RUSH_PRESERVE);
            t = moved && !rush_copy_into(moved, t) ? moved : NULL;
        }
    } else {
        if (is_text(data)) return no_text(data), NULL;
        if (find_sizes(&s, data) || (dtype < 0 && find_dtype(&s, data))) return NULL;
        t = rush_tensor_new(dtype >= 0 ? dtype : s.dtype, (rush_device){RUSH_CPU, -1}, s.ndim, s.size);
        if (t && t->numel && store(t, 0, rush_ptr(t), data)) return NULL;
    }
    if (!t) return py_raise();
    if (device.type != RUSH_CPU && !rush_same_device(rush_device_resolve(device), t->device)) {
        moved = rush_tensor_new_like(t, t->dtype, device, RUSH_PRESERVE);
        if (!moved || rush_copy_into(moved, t)) return py_raise();
        t = moved;
    }
    return t;
}

/* ---- the functions ---- */

typedef struct making {
    PyObject *data;
    int dtype;
    rush_device device;
    bool has_device, requires_grad, says_grad;
    int copy; /* -1: not said */
} making;

static int take(making *m, const char *who, const char *name, PyObject *x)
{
    int ok = 1;
    if (x == Py_None && strcmp(name, "data")) return 1;
    if (!strcmp(name, "data") || !strcmp(name, "obj")) {
        m->data = x;
    } else if (!strcmp(name, "dtype")) {
        ok = py_to_dtype(x, &m->dtype);
    } else if (!strcmp(name, "device")) {
        ok = py_to_device(x, &m->device);
        m->has_device = true;
        if (ok > 0 && py_device_ready(m->device)) return -1;
    } else if (!strcmp(name, "requires_grad")) {
        char what[64];
        snprintf(what, sizeof what, "%s(): argument 'requires_grad'", who);
        ok = py_need_bool(x, what);
        m->requires_grad = ok > 0;
        m->says_grad = true;
        return ok < 0 ? -1 : 1;
    } else if (!strcmp(name, "copy")) {
        m->copy = PyObject_IsTrue(x);
        return m->copy < 0 ? -1 : 1;
    } else if (!strcmp(name, "pin_memory")) {
        int pins = PyObject_IsTrue(x);
        return pins < 0 ? -1 : rush_pin_check(V((bool)pins), m->device) ? py_raise_int() : 1;
    }
    if (ok == 0) PyErr_Format(PyExc_TypeError, "%s(): argument '%s' must be torch.%s, not %s", who, name, name, py_type_name(x));
    return ok;
}

/* data, then what `names` lists: positional ones first, keywords after "*" */
static int parse(making *m, const char *who, const char *const *names, int npos, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    *m = (making){.dtype = -1, .device = {RUSH_CPU, -1}, .copy = -1};
    if (py_default_device_set) m->device = py_default_device;
    if (n > npos) return PyErr_Format(PyExc_TypeError, "%s() takes %d positional argument%s but %zd were given", who, npos, npos == 1 ? "" : "s", n), -1;
    for (Py_ssize_t i = 0; i < n; ++i)
        if (take(m, who, names[i], args[i]) <= 0) return -1;
    for (Py_ssize_t k = 0; kwnames && k < PyTuple_GET_SIZE(kwnames); ++k) {
        PyObject *name = PyTuple_GET_ITEM(kwnames, k);
        int i = 0;
        while (names[i] && PyUnicode_CompareWithASCIIString(name, names[i])) ++i;
        if (!names[i]) return PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'", who, name), -1;
        if (i < n) return PyErr_Format(PyExc_TypeError, "%s() got multiple values for argument '%U'", who, name), -1;
        if (take(m, who, names[i], args[n + k]) <= 0) return -1;
    }
    if (!m->data) return PyErr_Format(PyExc_TypeError, "%s() missing 1 required positional arguments: \"%s\"", who, names[0]), -1;
    return 0;
}

static PyObject *finish(rush_tensor *t, const making *m, size_t mark)
{
    if (t && m->requires_grad && py_needs_gradient(t)) t = py_raise();
    PyObject *x = t ? py_wrap(t) : NULL;
    rush_scope_close(mark);
    return x;
}

static PyObject *self_function(const char *name)
{
    PyObject *module = PyImport_ImportModule("rushlight._C"), *space = module ? PyObject_GetAttrString(module, "_VariableFunctions") : NULL;
    PyObject *f = space ? PyObject_GetAttrString(space, name) : NULL;
    Py_XDECREF(space);
    Py_XDECREF(module);
    return f;
}

/* What is made of data asks the modes, never the data. */
static bool overridden(const char *name, PyObject *const *args, Py_ssize_t n, PyObject *kwnames, PyObject **result)
{
    if (!py_overrides.nmodes || py_overrides.disabled > 1) return false;
    PyObject *f = self_function(name);
    *result = f ? py_dispatch(f, NULL, 0, args, n, kwnames) : NULL;
    Py_XDECREF(f);
    return true;
}

static int warn_of_copy(PyObject *data, const char *who)
{
    return py_is_tensor(data) ? PyErr_WarnFormat(PyExc_UserWarning, 1, "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
                                                 "sourceTensor.detach().clone().requires_grad_(True), rather than %s(sourceTensor).", who) : 0;
}

static PyObject *tensor(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    static const char *const names[] = {"data", "dtype", "device", "requires_grad", "pin_memory", "names", NULL};
    making m;
    PyObject *result;
    if (parse(&m, "tensor", names, 1, args, n, kwnames)) return NULL;
    if (overridden("tensor", args, n, kwnames, &result)) return result;
    if (warn_of_copy(m.data, "torch.tensor")) return NULL;
    size_t mark = rush_scope_open();
    rush_tensor *t = py_tensor_from_data(m.data, m.dtype, m.device, true);
    if (t && RUSH_UNLIKELY(rush_now.mode & RUSH_MODE_WATCH || py_capturing)) t = T("lift_fresh", V(t));
    return finish(t ? t : py_raise(), &m, mark);
}

static rush_tensor *from_buffer(PyObject *x, int dtype, int64_t count, int64_t offset, const char *who);

static PyObject *as_tensor(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    static const char *const names[] = {"data", "dtype", "device", NULL};
    making m;
    PyObject *result;
    if (parse(&m, "as_tensor", names, 2, args, n, kwnames)) return NULL;
    if (overridden("as_tensor", args, n, kwnames, &result)) return result;
    if (py_is_tensor(m.data)) {
        PyObject *to = PyObject_GetAttrString(m.data, "to"), *kwargs = PyDict_New(), *none = PyTuple_New(0);
        PyObject *dtype = m.dtype >= 0 ? py_dtype(m.dtype) : NULL, *device = m.has_device ? py_device(m.device) : NULL;
        if (to && kwargs && none && (!dtype || !PyDict_SetItemString(kwargs, "dtype", dtype)) && (!device || !PyDict_SetItemString(kwargs, "device", device)))
            result = PyDict_GET_SIZE(kwargs) ? PyObject_Call(to, none, kwargs) : py_ref(m.data);
        else result = NULL;
        Py_XDECREF(to), Py_XDECREF(kwargs), Py_XDECREF(none), Py_XDECREF(dtype), Py_XDECREF(device);
        return result;
    }
    size_t mark = rush_scope_open();
    return finish(py_tensor_from_data(m.data, m.dtype, m.device, false), &m, mark);
}

/* copy=False and memory that will not do: says why. */
static bool cannot_alias(const making *m, const rush_tensor *t)
{
    if (m->dtype >= 0 && m->dtype != t->dtype) {
        PyErr_Format(PyExc_ValueError, "can't alias tensor with dtype '%s' into dtype '%s'.", rush_dtype_word(t->dtype), rush_dtype_word(m->dtype));
    } else if (m->has_device && !rush_same_device(rush_device_resolve(m->device), t->device)) {
        PyObject *from = py_device(t->device), *to = py_device(rush_device_resolve(m->device));
        if (from && to) PyErr_Format(PyExc_ValueError, "can't alias tensor from device '%S' to '%S'.", from, to);
        Py_XDECREF(to);
        Py_XDECREF(from);
    }
    return PyErr_Occurred() != NULL;
}

static PyObject *asarray(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    static const char *const names[] = {"obj", "dtype", "device", "copy", "requires_grad", NULL};
    making m;
    PyObject *result;
    if (parse(&m, "asarray", names, 1, args, n, kwnames)) return NULL;
    if (overridden("asarray", args, n, kwnames, &result)) return result;
    size_t mark = rush_scope_open();
    rush_tensor *t = NULL;
    if (py_is_tensor(m.data)) {
        rush_tensor *from = py_tensor_of(m.data);
        bool keep = m.says_grad ? m.requires_grad : rush_wants_grad(from);
        bool same = (m.dtype < 0 || m.dtype == from->dtype) && (!m.has_device || rush_same_device(rush_device_resolve(m.device), from->device));
        if (same && m.copy != 1 && (!from->ag || keep == rush_wants_grad(from))) {
            rush_scope_close(mark);
            return py_ref(m.data);
        }
        if (m.copy == 0 && cannot_alias(&m, from)) goto end;
        t = same && m.copy == 1 ? T("clone", V(from)) : from;
        if (!same) t = T("_to_copy", V(from), rush_v_dtype(m.dtype < 0 ? from->dtype : m.dtype), RUSH_NONE,
                         (rush_value){.kind = RUSH_V_DEVICE, .device = m.has_device ? m.device : from->device});
        if (t && !keep) t = rush_tensor_detach(t);
        return finish(t ? t : py_raise(), &m, mark);
    }
    t = py_is_ndarray(m.data) ? py_from_ndarray(m.data, false) : from_dlpack(m.data, true);
    if (t || PyErr_Occurred()) {
        if (!t || (m.copy == 0 && cannot_alias(&m, t))) goto end;
        bool moves = (m.dtype >= 0 && m.dtype != t->dtype) || !rush_same_device(rush_device_resolve(m.device), t->device);
        if (moves) t = T("_to_copy", V(t), rush_v_dtype(m.dtype < 0 ? t->dtype : m.dtype), RUSH_NONE, (rush_value){.kind = RUSH_V_DEVICE, .device = m.device});
        else if (m.copy == 1) t = T("clone", V(t));
        return finish(t ? t : py_raise(), &m, mark);
    }
    if (!PyList_Check(m.data) && !PyTuple_Check(m.data) && PyObject_CheckBuffer(m.data) && !py_is_numpy_scalar(m.data) && !py_any_storage_of(m.data)) {
        t = from_buffer(m.data, m.dtype < 0 ? (int)rush_default_dtype() : m.dtype, -1, 0, "asarray");
        if (t && m.copy == 1) t = T("clone", V(t));
        return finish(t, &m, mark);
    }
    if (m.copy == 0) {
        if (py_is_numpy_scalar(m.data)) PyErr_SetString(PyExc_RuntimeError, "can't alias NumPy scalars. Leave copy=False out, or make an array of it");
        else PyErr_SetString(PyExc_ValueError, "can't alias arbitrary sequence into a tensor.");
        goto end;
    }
    return finish(py_tensor_from_data(m.data, m.dtype, m.device, m.copy == 1), &m, mark);
end:
    rush_scope_close(mark);
    return NULL;
}

static PyObject *from_numpy(PyObject *module, PyObject *x)
{
    if (!py_is_ndarray(x)) return PyErr_Format(PyExc_TypeError, "expected np.ndarray (got %s)", Py_TYPE(x)->tp_name);
    size_t mark = rush_scope_open();
    rush_tensor *t = py_from_ndarray(x, true);
    PyObject *result = t ? py_wrap(t) : NULL;
    rush_scope_close(mark);
    return result;
}

/* ---- buffers ---- */

static void release_buffer(void *owner)
{
    if (Py_IsInitialized()) {
        PyGILState_STATE gil = PyGILState_Ensure();
        PyBuffer_Release(owner);
        PyGILState_Release(gil);
    }
    rush_free(owner);
}

static rush_tensor *from_buffer(PyObject *x, int dtype, int64_t count, int64_t offset, const char *who)
{
    Py_buffer *view = rush_malloc(sizeof *view);
    if (!view) return py_raise();
    if (PyObject_GetBuffer(x, view, PyBUF_WRITABLE)) {
        PyErr_Clear();
        if (PyObject_GetBuffer(x, view, PyBUF_SIMPLE)) {
            rush_free(view);
            return NULL;
        }
        if (PyErr_WarnEx(PyExc_UserWarning, "The given buffer is not writable, and PyTorch does not support non-writable tensors. This means you can write to "
                         "the underlying (supposedly non-writable) buffer using the tensor. You may want to copy the buffer to protect its data or make it "
                         "writable before converting it to a tensor. This type of warning will be suppressed for the rest of this program.", 1)) goto fail;
    }
    int64_t size = rush_dtypes[dtype].size, length = view->len;
    if (length == 0 || count == 0) {
        PyErr_Format(PyExc_ValueError, "both buffer length (%lld) and count (%lld) must not be 0", (long long)length, (long long)count);
        goto fail;
    }
    if (offset < 0 || offset >= length) {
        PyErr_Format(PyExc_ValueError, "offset (%lld bytes) must be non-negative and no greater than buffer length (%lld bytes) minus 1", (long long)offset, (long long)length);
        goto fail;
    }
    if (count < 0) {
        if ((length - offset) % size) {
            PyErr_Format(PyExc_ValueError, "buffer length (%lld bytes) after offset (%lld bytes) must be a multiple of element size (%lld)", (long long)(length - offset), (long long)offset, (long long)size);
            goto fail;
        }
        count = (length - offset) / size;
    }
    if (count > (length - offset) / size) {
        PyErr_Format(PyExc_ValueError, "requested buffer length (%lld * %lld bytes) after offset (%lld bytes) must not be greater than actual buffer length (%lld bytes)",
                     (long long)count, (long long)size, (long long)offset, (long long)length);
        goto fail;
    }
    rush_tensor *t = rush_from_blob((char *)view->buf + offset, dtype, 1, &count, NULL, release_buffer, view);
    return t ? t : py_raise();
fail:
    release_buffer(view);
    return NULL;
}

static PyObject *frombuffer(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"buffer", "dtype", "count", "offset", "requires_grad", NULL};
    PyObject *x, *dtype = NULL;
    long long count = -1, offset = 0;
    int grad = 0, d = -1;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$OLLp:frombuffer", names, &x, &dtype, &count, &offset, &grad)) return NULL;
    if (!dtype || !py_to_dtype(dtype, &d)) return PyErr_Format(PyExc_TypeError, "frombuffer(): argument 'dtype' must be torch.dtype, not %s", dtype ? py_type_name(dtype) : "missing");
    if (!PyObject_CheckBuffer(x)) return PyErr_Format(PyExc_ValueError, "object does not implement Python buffer protocol.");
    making m = {.requires_grad = grad};
    size_t mark = rush_scope_open();
    return finish(from_buffer(x, d, count, offset, "frombuffer"), &m, mark);
}

/* ---- methods ---- */

/* new_tensor(data): with this tensor's dtype and device */
static PyObject *new_tensor(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    static const char *const names[] = {"data", "dtype", "device", "requires_grad", "pin_memory", NULL};
    making m;
    if (parse(&m, "new_tensor", names, 1, args, n, kwnames) || warn_of_copy(m.data, "tensor.new_tensor")) return NULL;
    rush_tensor *like = py_tensor_of(self);
    if (!m.has_device) m.device = like->device;
    size_t mark = rush_scope_open();
    return finish(py_tensor_from_data(m.data, m.dtype < 0 ? like->dtype : m.dtype, m.device, true), &m, mark);
}

/* new(...): the old constructor with this tensor's type */
static PyObject *new_like(PyObject *self, PyObject *args, PyObject *kwargs)
{
    if (py_tensor_of(self)->layout) return py_legacy_sparse(py_tensor_of(self)->dtype, args);
    return py_legacy_make(py_Tensor, py_tensor_of(self)->dtype, py_tensor_of(self)->device, args, kwargs);
}

#define FASTKW(f) (PyCFunction)(void (*)(void))f, METH_FASTCALL | METH_KEYWORDS
PyMethodDef py_tensor_data_methods[] = {
    {"new_tensor", FASTKW(new_tensor), "new_tensor(data, *, dtype, device, requires_grad): a tensor of this dtype and device."},
    {"new", (PyCFunction)(void (*)(void))new_like, METH_VARARGS | METH_KEYWORDS, "new(sizes or data): a tensor of this dtype and device."},
    {NULL},
};

static PyMethodDef functions[] = {
    {"tensor", FASTKW(tensor), "tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False): a tensor with a copy of the data."},
    {"as_tensor", FASTKW(as_tensor), "as_tensor(data, dtype=None, device=None): the data as a tensor, shared where possible."},
    {"asarray", FASTKW(asarray), "asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=False): the object as a tensor."},
    {"from_numpy", from_numpy, METH_O, "from_numpy(array): a tensor that shares the memory of the array."},
    {"frombuffer", (PyCFunction)(void (*)(void))frombuffer, METH_VARARGS | METH_KEYWORDS, "frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False): "
                                                                                           "a 1-d tensor that shares the memory of a buffer."},
    {NULL},
};

int py_make_init(PyObject *module)
{
    PyObject *space = PyObject_GetAttrString(module, "_VariableFunctions");
    int failed = space ? PyModule_AddFunctions(space, functions) : -1;
    Py_XDECREF(space);
    return failed;
}
