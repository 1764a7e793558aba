/* index.c - x[...] and x[...] = value with everything PyTorch takes.
 *
 * An index is read left to right into views: an int selects, a slice narrows, None inserts, True and False insert a
 * dimension of one or none. Tensors, arrays and lists are gathered in a list of indices, one slot per dimension, that
 * the operation `index` (or index_put_) takes after the views. One int or one slice, the usual case, is done at once.
 */
#include "ext.h"
#include "op/watch.h"
#include "op/formula.h"

/* ---- one step ---- */

/* `place` is the entry's in the index: the message counts by it. */
RUSH_HOT static rush_tensor *select_int(rush_tensor *t, int64_t dim, int64_t i, int place)
{
    if (dim < t->ndim && (i >= t->size[dim] || i < -t->size[dim])) { /* the words of indexing, not of select() */
        rush_fail(RUSH_INDEX_ERROR, "index %lld is out of bounds for dimension %d with size %lld", (long long)i, place, (long long)t->size[dim]);
        return NULL;
    }
    return T("select.int", V(t), V(dim), V(i));
}

static rush_tensor *slice(rush_tensor *t, int64_t dim, int64_t start, int64_t stop, int64_t step)
{
    return T("slice.Tensor", V(t), V(dim), V(start), V(stop), V(step));
}

static int slice_bounds(PyObject *s, int64_t *start, int64_t *stop, int64_t *step)
{
    PySliceObject *x = (PySliceObject *)s;
    PyObject *part[] = {x->start, x->stop, x->step};
    int64_t value[] = {0, INT64_MAX, 1};
    for (int i = 0; i < 3; ++i) {
        if (part[i] == Py_None) continue;
        int ok = py_to_int(part[i], &value[i]);
        if (ok < 0 && PyErr_ExceptionMatches(PyExc_RuntimeError) && PyLong_Check(part[i])) { /* slices saturate */
            PyErr_Clear();
            PyObject *zero = PyLong_FromLong(0);
            value[i] = zero && PyObject_RichCompareBool(part[i], zero, Py_LT) == 1 ? INT64_MIN + 1 : INT64_MAX;
            Py_XDECREF(zero);
            ok = 1;
        }
        if (ok < 0) return -1;
        if (!ok) return PyErr_Format(PyExc_TypeError, "slice indices must be integers or None or have an __index__ method"), -1;
        if (RUSH_UNLIKELY(py_traces) && py_is_traced(part[i])) py_trace_number(NULL, 2 + i, part[i]);
    }
    if (value[2] == 0) return PyErr_Format(PyExc_ValueError, "slice step cannot be zero"), -1;
    if (value[2] < 0) return PyErr_Format(PyExc_ValueError, "step must be greater than zero"), -1;
    *start = value[0], *stop = value[1], *step = value[2];
    return 0;
}

static rush_tensor *take_slice(rush_tensor *t, int64_t dim, PyObject *s)
{
    int64_t start, stop, step;
    if (slice_bounds(s, &start, &stop, &step)) return NULL;
    if (start == 0 && stop >= t->size[dim] && step == 1 && !(RUSH_UNLIKELY(py_traces) && py_traced_end(s))) return t;
    rush_tensor *r = slice(t, dim, start, stop, step);
    return r ? r : py_raise();
}

/* ---- a whole index ---- */

typedef struct plan {
    rush_tensor *t;                   /* the view so far                           */
    rush_tensor *index[RUSH_MAXDIM];  /* per dimension of t; NULL where none       */
    int nindex;                       /* slots in use                              */
    int place;                        /* of the entry that is read                 */
} plan;

static bool is_int(PyObject *x, int64_t *i, int *ok)
{
    *ok = 1;
    if (PyLong_CheckExact(x)) {
        *ok = py_to_int(x, i);
        return true;
    }
    if (PyBool_Check(x) || x == Py_None || PySlice_Check(x) || x == Py_Ellipsis || PyList_Check(x) || PyTuple_Check(x) || py_is_ndarray(x)) return false;
    if (py_is_tensor(x)) return false;
    if (RUSH_UNLIKELY(py_traces) && py_is_symbol(x)) {
        *ok = py_to_int(x, i);
        py_trace_number(NULL, 2, x);
        return true;
    }
    if (!PyIndex_Check(x) || (py_is_numpy_scalar(x) && !strncmp(Py_TYPE(x)->tp_name, "numpy.bool", 10))) return false;
    *ok = py_to_int(x, i);
    return true;
}

static rush_tensor *index_tensor(PyObject *x)
{
    if (py_is_tensor(x)) return py_tensor_of(x);
    if (py_is_ndarray(x)) return py_from_ndarray(x, false);
    return py_tensor_from_data(x, -1, (rush_device){RUSH_CPU, -1}, true);
}

/* How many dimensions of the tensor an entry takes. */
RUSH_HOT static int taken(PyObject *x)
{
    if (x == Py_None || x == Py_Ellipsis || PyBool_Check(x)) return 0;
    if (py_is_tensor(x)) {
        rush_tensor *t = py_tensor_of(x);
        return t->dtype == RUSH_BOOL || t->dtype == RUSH_U8 ? t->ndim : 1;
    }
    if (py_is_ndarray(x)) {
        PyObject *ndim = PyObject_GetAttrString(x, "ndim");
        int n = py_ndarray_dtype(x) == RUSH_BOOL && ndim ? (int)PyLong_AsLong(ndim) : 1;
        Py_XDECREF(ndim);
        return n;
    }
    return 1;
}

static int put_index(plan *p, int *dim, PyObject *x)
{
    rush_tensor *i = index_tensor(x);
    if (!i) return PyErr_Occurred() ? -1 : py_raise_int();
    if (rush_dtypes[i->dtype].category > 1) {
        if (i->numel == 0 && !py_is_tensor(x)) i = T("_to_dtype", V(i), rush_v_dtype(RUSH_I64));
        else return PyErr_Format(PyExc_IndexError, "tensors used as indices must be long, int, byte or bool tensors"), -1;
        if (!i) return py_raise_int();
    }
    p->index[*dim] = rush_park(rush_keep(i));
    ++*dim;
    p->nindex = RUSH_MAX(p->nindex, *dim);
    return 0;
}

/* A sequence that stands for a tuple of indices: a list is an index tensor, unless it holds slices and the like. */
static bool is_tuple_like(PyObject *x)
{
    if (!PyList_Check(x)) return false;
    Py_ssize_t n = PyList_GET_SIZE(x);
    if (n >= 32) return false;
    for (Py_ssize_t i = 0; i < n; ++i) {
        PyObject *item = PyList_GET_ITEM(x, i);
        if (py_is_tensor(item) || PySlice_Check(item) || item == Py_Ellipsis || item == Py_None || PyList_Check(item) || PyTuple_Check(item)) {
            RUSH_WARN_ONCE("Using a non-tuple sequence for multidimensional indexing is deprecated and will be changed in pytorch 2.9; use x[tuple(seq)] instead "
                           "of x[seq]. In pytorch 2.9 this will be interpreted as tensor index, x[torch.tensor(seq)], which will result either in an error or "
                           "a different result");
            return true;
        }
    }
    return false;
}

RUSH_HOT static int apply_entry(plan *p, PyObject *x, int *dim)
{
    int64_t i;
    int ok;
    if (is_int(x, &i, &ok)) {
        if (ok < 0) return -1;
        if (!ok) return PyErr_Format(PyExc_IndexError, "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got %s)", Py_TYPE(x)->tp_name), -1;
        if (*dim >= p->t->ndim) return PyErr_Format(PyExc_IndexError, "too many indices for tensor of dimension %d", p->t->ndim), -1;
        return (p->t = select_int(p->t, *dim, i, p->place)) ? 0 : py_raise_int();
    }
    if (PySlice_Check(x)) {
        if (!(p->t = take_slice(p->t, *dim, x))) return -1;
        ++*dim;
        return 0;
    }
    if (x == Py_None) {
        p->t = T("unsqueeze", V(p->t), V((int64_t)*dim));
        ++*dim;
        return p->t ? 0 : py_raise_int();
    }
    if (PyBool_Check(x)) { /* a new dimension of one or of none */
        int64_t n = x == Py_True;
        p->t = T("unsqueeze", V(p->t), V((int64_t)*dim));
        if (!p->t) return py_raise_int();
        rush_tensor *mask = rush_tensor_new(RUSH_BOOL, (rush_device){RUSH_CPU, -1}, 1, (int64_t[]){1});
        if (!mask) return py_raise_int();
        *(uint8_t *)rush_ptr(mask) = (uint8_t)n;
        p->index[*dim] = mask;
        ++*dim;
        p->nindex = RUSH_MAX(p->nindex, *dim);
        return 0;
    }
    if (py_is_tensor(x)) {
        rush_tensor *t = py_tensor_of(x);
        if (t->ndim == 0 && rush_dtypes[t->dtype].category <= 1 && t->device.type == RUSH_CPU && t->dtype != RUSH_BOOL && t->dtype != RUSH_U8) {
            i = rush_item_int(t); /* a 0-d tensor selects like an int */
            if (RUSH_UNLIKELY(py_traces)) py_trace_number(NULL, 2, x);
            if (*dim >= p->t->ndim) return PyErr_Format(PyExc_IndexError, "too many indices for tensor of dimension %d", p->t->ndim), -1;
            return (p->t = select_int(p->t, *dim, i, p->place)) ? 0 : py_raise_int();
        }
        if (t->ndim == 0 && (t->dtype == RUSH_BOOL || t->dtype == RUSH_U8)) {
            p->t = T("unsqueeze", V(p->t), V((int64_t)*dim));
            t = T("unsqueeze", V(t), V((int64_t)0));
            if (!p->t || !t) return py_raise_int();
            p->index[*dim] = t;
            ++*dim;
            p->nindex = RUSH_MAX(p->nindex, *dim);
            return 0;
        }
    } else if (!py_is_ndarray(x) && !PyList_Check(x) && !PyTuple_Check(x) && !PySequence_Check(x)) {
        return PyErr_Format(PyExc_IndexError, "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got %s)", Py_TYPE(x)->tp_name), -1;
    }
    int before = *dim;
    if (put_index(p, dim, x)) return -1;
    rush_tensor *put = p->index[before];
    if (put->dtype == RUSH_BOOL || put->dtype == RUSH_U8) { /* a mask takes as many dimensions as it has */
        *dim = before + RUSH_MAX(put->ndim, 1);
        for (int d = before + 1; d < *dim && d < RUSH_MAXDIM; ++d) p->index[d] = NULL;
    }
    return 0;
}

RUSH_HOT static int read_entries(plan *p, PyObject *const *entry, Py_ssize_t n)
{
    int need = 0, dim = 0;
    for (Py_ssize_t i = 0; i < n; ++i) need += taken(entry[i]);
    if (need > p->t->ndim) return PyErr_Format(PyExc_IndexError, "too many indices for tensor of dimension %d", p->t->ndim), -1;
    bool seen = false;
    for (Py_ssize_t i = 0; i < n; ++i) {
        if (entry[i] == Py_Ellipsis) {
            if (seen) continue;
            seen = true;
            int rest = 0;
            for (Py_ssize_t k = i + 1; k < n; ++k) rest += taken(entry[k]);
            dim = RUSH_MAX(p->t->ndim - rest, dim);
            continue;
        }
        if (dim >= RUSH_MAXDIM) return PyErr_Format(PyExc_IndexError, "too many indices"), -1;
        p->place = (int)i;
        if (apply_entry(p, entry[i], &dim)) return -1;
    }
    return 0;
}

RUSH_HOT static int read_index(plan *p, PyObject *key)
{
    if (PyTuple_Check(key)) return read_entries(p, PySequence_Fast_ITEMS(key), PyTuple_GET_SIZE(key));
    if (!is_tuple_like(key)) return read_entries(p, &key, 1);
    PyObject *tuple = PyList_AsTuple(key); /* the __index__ of an entry may change the list */
    int failed = tuple ? read_entries(p, PySequence_Fast_ITEMS(tuple), PyTuple_GET_SIZE(tuple)) : -1;
    Py_XDECREF(tuple);
    return failed;
}

/* A mask occupies one slot of the operation's list, however many dimensions it takes. */
static rush_value index_list(plan *p, rush_tensor **list)
{
    size_t n = 0;
    for (int d = 0; d < p->nindex;) {
        rush_tensor *i = p->index[d];
        if (RUSH_UNLIKELY(i && i->device.type != p->t->device.type && i->device.type == RUSH_CPU)) /* indices may come from the host */
            i = T("_to_copy", V(i), RUSH_NONE, RUSH_NONE, ((rush_value){.kind = RUSH_V_DEVICE, .device = p->t->device}));
        list[n++] = i;
        bool mask = i && (i->dtype == RUSH_BOOL || i->dtype == RUSH_U8);
        d += mask ? RUSH_MAX(i->ndim, 1) : 1;
    }
    return rush_v_tensors(list, n);
}

static inline bool takes_over(PyObject *x)
{
    return Py_TYPE(x) != py_Tensor && !PyLong_CheckExact(x) && !PyFloat_CheckExact(x) && !PySlice_Check(x) && x != Py_None && py_overrides_function(x);
}

/* What in an index is to be asked, tensors or not. */
static int collect(PyObject *x, PyObject **over, int n, int room, int depth)
{
    if (!PyTuple_Check(x) && !PyList_Check(x)) {
        if (n < room && takes_over(x)) over[n++] = x;
        return n;
    }
    for (Py_ssize_t i = 0; depth && n < room && i < PySequence_Fast_GET_SIZE(x); ++i) n = collect(PySequence_Fast_GET_ITEM(x, i), over, n, room, depth - 1);
    return n;
}

RUSH_HOT static bool any_overrides(PyObject *self, PyObject *key, PyObject *value)
{
    PyObject *one;
    if (py_overrides.nmodes && py_overrides.disabled < 2) return true;
    return takes_over(self) || collect(key, &one, 0, 1, RUSH_MAXDIM) || (value && takes_over(value));
}

static PyObject *dispatch(const char *name, PyObject *self, PyObject *key, PyObject *value)
{
    PyObject *args[3] = {self, key, value}, *over[RUSH_MAXDIM];
    int n = 0;
    if (takes_over(self)) over[n++] = self;
    if (value && takes_over(value)) over[n++] = value;
    n = collect(key, over, n, RUSH_COUNT(over), RUSH_MAXDIM);
    PyObject *func = PyObject_GetAttrString((PyObject *)py_Tensor, name);
    PyObject *r = func ? py_dispatch(func, over, n, args, value ? 3 : 2, NULL) : NULL;
    Py_XDECREF(func);
    return r;
}

RUSH_HOT PyObject *py_tensor_getitem(PyObject *self, PyObject *key)
{
    rush_tensor *t = py_tensor_of(self);
    if ((Py_TYPE(self) != py_Tensor || py_overrides.nmodes || !PyLong_CheckExact(key)) && any_overrides(self, key, NULL))
        return dispatch("__getitem__", self, key, NULL);
    size_t mark = rush_scope_open();
    PyObject *result = NULL;
    rush_tensor *r = NULL;
    if (PyLong_CheckExact(key)) {
        int64_t i;
        if (py_to_int(key, &i) < 0) goto end;
        if (RUSH_UNLIKELY(t->ndim == 0)) {
            PyErr_SetString(PyExc_IndexError, "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to convert a 0-dim tensor to a number");
            goto end;
        }
        r = select_int(t, 0, i, 0);
        result = r ? py_wrap(r) : py_raise();
        goto end;
    }
    if (PySlice_Check(key)) { /* also where it takes all: within a tuple that one is left out */
        int64_t start, stop, step;
        if (RUSH_UNLIKELY(t->ndim == 0)) PyErr_SetString(PyExc_IndexError, "slice() cannot be applied to a 0-dim tensor.");
        else if (!slice_bounds(key, &start, &stop, &step)) result = (r = slice(t, 0, start, stop, step)) ? py_wrap(r) : py_raise();
        goto end;
    }
    plan p = {.t = t};
    if (read_index(&p, key)) goto end;
    if (p.nindex) {
        rush_tensor *list[RUSH_MAXDIM];
        static const rush_op *op;
        rush_value in[2] = {rush_v_tensor(p.t), index_list(&p, list)}, out[RUSH_MAXOUT];
        if (!op && !(op = rush_op_find("index.Tensor"))) PyErr_SetString(PyExc_NotImplementedError, "the operation 'index' is not there yet");
        if (!op) goto end;
        result = py_run(op, in, out) ? py_raise() : py_wrap(out[0].t);
    } else {
        if (p.t == t) p.t = T("alias", V(t)); /* x[:] is another tensor */
        result = p.t ? py_wrap(p.t) : py_raise();
    }
end:
    rush_scope_close(mark);
    return result;
}

/* ---- assignment ---- */

static rush_tensor *value_tensor(rush_tensor *t, PyObject *value)
{
    rush_value v;
    if (py_is_tensor(value)) return py_tensor_of(value);
    int ok = py_plain_number(value, &v);
    if (ok < 0) return NULL;
    if (ok) {
        bool any = t->layout == RUSH_QUANTIZED || (rush_dtypes[t->dtype].category == 2 && rush_dtypes[t->dtype].size < 4 && v.kind != RUSH_V_COMPLEX); /* as infinity */
        if (!any && rush_number_fits(v, t->dtype)) return py_raise();
        rush_tensor *x = rush_tensor_of_number_typed(v, t->layout == RUSH_QUANTIZED ? RUSH_F32 : t->dtype);
        return x ? x : py_raise();
    }
    return PyErr_Format(PyExc_TypeError, "can't assign a %s to a torch.%sTensor", Py_TYPE(value)->tp_name, rush_dtypes[t->dtype].word), NULL;
}

/* A value with leading dimensions of one more than the place has: they are dropped. */
static rush_tensor *fit(rush_tensor *value, const rush_tensor *place)
{
    while (value && value->ndim > place->ndim && value->size[0] == 1) value = T("squeeze.dim", V(value), V((int64_t)0));
    return value;
}

/* One element fills a place of dimensions, and is copied to one without: those who look at operations see which. What is expanded goes to copy_(),
 * which refuses to write one element several times; fill_() would do it. */
static int assign(rush_tensor *place, rush_tensor *value)
{
    if (!(value = fit(value, place))) return py_raise_int();
    bool fills = value->ndim == 0 && (place->ndim || !(rush_is_watched(place) || rush_is_watched(value)));
    if (fills && !value->ag && place->device.type == RUSH_CPU && value->device.type == RUSH_CPU && !rush_wants_grad(place) && !rush_self_overlap(place) && rush_op_find("fill_.Tensor"))
        return T("fill_.Tensor", V(place), V(value)) ? 0 : py_raise_int();
    return T("copy_", V(place), V(value)) ? 0 : py_raise_int();
}

int py_tensor_setitem(PyObject *self, PyObject *key, PyObject *value)
{
    if (!value) return PyErr_Format(PyExc_TypeError, "Tensor does not support deleting items"), -1;
    if (any_overrides(self, key, value)) {
        PyObject *r = dispatch("__setitem__", self, key, value);
        Py_XDECREF(r);
        return r ? 0 : -1;
    }
    if (py_tensor_of(self)->layout % RUSH_QUANTIZED) return PyErr_Format(PyExc_TypeError, "Cannot assign to a sparse tensor"), -1;
    size_t mark = rush_scope_open();
    int failed = -1;
    plan p = {.t = py_tensor_of(self)};
    if (p.t->ndim == 0 && PyLong_Check(key) && !PyBool_Check(key)) {
        PyErr_SetString(PyExc_IndexError, "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to convert a 0-dim tensor to a number");
        goto end;
    }
    rush_tensor *v = value_tensor(p.t, value);
    if (!v || read_index(&p, key)) goto end;
    if (!p.nindex) {
        failed = assign(p.t, v);
        goto end;
    }
    rush_tensor *list[RUSH_MAXDIM];
    rush_value indices = index_list(&p, list);
    if (!py_is_tensor(value) && v->dtype != p.t->dtype && p.t->layout != RUSH_QUANTIZED) v = to_dtype(v, p.t->dtype);
    while (v && v->ndim > 1 && v->size[0] == 1) { /* leading ones beyond the place */
        rush_tensor *place = T("index.Tensor", V(p.t), indices);
        if (!place || v->ndim <= place->ndim) break;
        v = T("squeeze.dim", V(v), V((int64_t)0));
    }
    failed = v && !rush_failed() && T("index_put_", V(p.t), indices, V(v), V(false)) ? 0 : py_raise_int();
end:
    rush_scope_close(mark);
    return failed;
}
