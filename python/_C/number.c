/* number.c - Python's operators on tensors.
 *
 * tensor op tensor and tensor op number go straight to rush_call with operations that were looked up once; everything
 * else (subclasses, modes, foreign operands, reflected forms) takes the road of the methods.
 */
#include "ext.h"
#include "op/watch.h"
#include "op/op.h"

typedef struct word {
    const char *op, *op_number; /* the operation for a tensor and for a number on the right */
    const char *method, *override; /* what stands for it: to call, and to tell a __torch_function__ */
    const rush_op *cached, *cached_number;
} word;

/* name of the operation with two tensors, with a number, the method that stands for it */
enum { ADD, SUB, MUL, DIV, FLOORDIV, REMAINDER, POW, MATMUL, AND, OR, XOR, LSHIFT, RSHIFT, EQ, NE, LT, LE, GT, GE };
static word words[] = {
    [ADD] = {"add.Tensor", "add.Tensor", "add"},
    [SUB] = {"sub.Tensor", "sub.Tensor", "sub"},
    [MUL] = {"mul.Tensor", "mul.Tensor", "mul"},
    [DIV] = {"div.Tensor", "div.Tensor", "div"},
    [FLOORDIV] = {"floor_divide", "floor_divide.Scalar", "floor_divide", "__floordiv__"},
    [REMAINDER] = {"remainder.Tensor", "remainder.Scalar", "remainder"},
    [POW] = {"pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow"},
    [MATMUL] = {"matmul", NULL, "matmul"},
    [AND] = {"bitwise_and.Tensor", "bitwise_and.Scalar", "bitwise_and"},
    [OR] = {"bitwise_or.Tensor", "bitwise_or.Scalar", "bitwise_or"},
    [XOR] = {"bitwise_xor.Tensor", "bitwise_xor.Scalar", "bitwise_xor"},
    [LSHIFT] = {"bitwise_left_shift.Tensor", "bitwise_left_shift.Tensor_Scalar", "bitwise_left_shift"},
    [RSHIFT] = {"bitwise_right_shift.Tensor", "bitwise_right_shift.Tensor_Scalar", "bitwise_right_shift"},
    [EQ] = {"eq.Tensor", "eq.Scalar", "eq", "__eq__"},
    [NE] = {"ne.Tensor", "ne.Scalar", "ne", "__ne__"},
    [LT] = {"lt.Tensor", "lt.Scalar", "lt", "__lt__"},
    [LE] = {"le.Tensor", "le.Scalar", "le", "__le__"},
    [GT] = {"gt.Tensor", "gt.Scalar", "gt", "__gt__"},
    [GE] = {"ge.Tensor", "ge.Scalar", "ge", "__ge__"},
};

static const rush_op *lookup(const rush_op **cache, const char *name)
{
    if (!*cache && !(*cache = rush_op_find(name))) PyErr_Format(PyExc_NotImplementedError, "the operation '%s' is not there yet", name);
    return *cache;
}

/* in[0] and in[1] are set; the rest are defaults. */
RUSH_HOT static PyObject *run(const rush_op *op, rush_value *in, bool inplace)
{
    rush_value out[RUSH_MAXOUT];
    for (int i = 2; i < op->nargs; ++i) in[i] = op->args[i].def;
    size_t mark = rush_scope_open();
    int failed = inplace ? py_run_inplace(op, in, out) : py_run(op, in, out);
    PyObject *x = failed ? py_raise() : py_wrap(out[0].t);
    rush_scope_close(mark);
    return x;
}

static inline bool plain(PyObject *x) { return Py_TYPE(x) == py_Tensor; }

/* A number that the fast road takes. */
static inline bool small_number(PyObject *x, rush_value *v)
{
    if (PyFloat_CheckExact(x)) return *v = rush_v_float(PyFloat_AS_DOUBLE(x)), true;
    if (PyBool_Check(x)) return *v = rush_v_bool(x == Py_True), true;
    if (PyLong_CheckExact(x)) {
        int over;
        long long n = PyLong_AsLongLongAndOverflow(x, &over);
        return *v = rush_v_int(n), !over;
    }
    return false;
}

/* Can the method take this operand? If not, Python tries the other side. */
static bool operand(PyObject *x)
{
    rush_value v;
    if (py_is_tensor(x) || PyFloat_Check(x) || PyLong_Check(x) || PyComplex_Check(x) || py_overrides_function(x)) return true;
    return py_is_numpy_scalar(x) && (py_plain_number(x, &v) > 0 || (PyErr_Clear(), false));
}

/* Through Tensor's method or the function: overrides, modes, conversions. */
static PyObject *by_method(const char *method, PyObject *a, PyObject *b)
{
    PyObject *f = PyObject_GetAttrString((PyObject *)py_Tensor, method), *args[] = {a, b};
    PyObject *r = f ? PyObject_Vectorcall(f, args, 2, NULL) : NULL;
    Py_XDECREF(f);
    return r;
}

/* number - x, number ** x: forms with a number in them. */
static PyObject *with_number(const char *op_name, int at, PyObject *number, PyObject *x)
{
    rush_value in[8];
    const rush_op *op = NULL;
    if (!lookup(&op, op_name)) return NULL;
    int ok = py_plain_number(number, &in[at]);
    if (ok <= 0) return ok < 0 ? NULL : py_ref(Py_NotImplemented);
    in[1 - at] = rush_v_tensor(py_tensor_of(x));
    return run(op, in, false);
}

/* The left operand is a number: made a 0-d tensor of low rank in promotion. */
static PyObject *number_first(const char *op_name, PyObject *number, PyObject *x)
{
    rush_value v, in[8];
    const rush_op *op = rush_op_find(op_name);
    if (!op) return PyErr_Format(PyExc_NotImplementedError, "the operation '%s' is not there yet", op_name);
    int ok = py_plain_number(number, &v);
    if (ok <= 0) return ok < 0 ? NULL : py_ref(Py_NotImplemented);
    size_t mark = rush_scope_open();
    in[0] = rush_v_tensor(rush_tensor_of_number(v, true));
    in[1] = rush_v_tensor(py_tensor_of(x));
    PyObject *r = in[0].t ? run(op, in, false) : py_raise();
    rush_scope_close(mark);
    return r;
}

/* other op x where x, the tensor, is on the right. */
static PyObject *reflected(int which, PyObject *other, PyObject *x)
{
    static const char *const dunder[] = {"add", "__rsub__", "mul", "__rdiv__", "__rfloordiv__", "__rmod__", "__rpow__", "__rmatmul__",
                                         "bitwise_and", "bitwise_or", "bitwise_xor", "__rlshift__", "__rrshift__"};
    PyObject *result;
    if (!operand(other)) Py_RETURN_NOTIMPLEMENTED;
    if (py_asks(x) && py_method_overridden(x, dunder[which], &other, 1, NULL, &result)) return result;
    if (which == ADD || which == MUL || (which >= AND && which <= XOR)) return by_method(words[which].method, x, other);
    if (which == DIV) { /* the reciprocal times the number, as PyTorch rounds it */
        static const rush_op *reciprocal, *mul;
        rush_value in[8], v;
        if (!lookup(&reciprocal, "reciprocal") || !lookup(&mul, "mul.Tensor")) return NULL;
        int ok = py_plain_number(other, &v);
        if (ok <= 0) return ok < 0 ? NULL : py_ref(Py_NotImplemented);
        size_t mark = rush_scope_open();
        in[0] = rush_v_tensor(rush_apply(reciprocal, 1, (rush_value[]){rush_v_tensor(py_tensor_of(x))}));
        in[1] = v;
        PyObject *r = in[0].t ? run(mul, in, false) : py_raise();
        rush_scope_close(mark);
        return r;
    }
    if (which == SUB) return with_number("rsub.Scalar", 1, other, x);
    if (which == POW) return with_number("pow.Scalar", 0, other, x);
    return number_first(words[which].op, other, x);
}

RUSH_HOT static PyObject *binary(int which, PyObject *a, PyObject *b)
{
    word *w = &words[which];
    if (RUSH_LIKELY(plain(a) && !py_overrides.nmodes)) {
        rush_value in[8];
        if (plain(b)) {
            if (RUSH_UNLIKELY(!w->cached) && !lookup(&w->cached, w->op)) return NULL;
            in[0] = rush_v_tensor(py_tensor_of(a));
            in[1] = rush_v_tensor(py_tensor_of(b));
            return run(w->cached, in, false);
        }
        if (w->op_number && small_number(b, &in[1])) {
            if (RUSH_UNLIKELY(!w->cached_number) && !(w->cached_number = rush_op_find(w->op_number)) && !lookup(&w->cached_number, w->op)) return NULL;
            in[0] = rush_v_tensor(py_tensor_of(a));
            return run(w->cached_number, in, false);
        }
    }
    if (!py_is_tensor(a)) return reflected(which, a, b);
    if (!operand(b) || (which == MATMUL && !py_is_tensor(b) && !py_overrides_function(b))) Py_RETURN_NOTIMPLEMENTED;
    PyObject *result;
    if (w->override && (py_asks(a) || py_is_tensor(b)) && py_method_overridden(a, w->override, &b, 1, NULL, &result)) return result;
    return by_method(w->method, a, b);
}

static PyObject *inplace(int which, PyObject *a, PyObject *b)
{
    word *w = &words[which];
    char method[40];
    if (plain(a) && plain(b) && !py_overrides.nmodes) {
        rush_value in[8] = {rush_v_tensor(py_tensor_of(a)), rush_v_tensor(py_tensor_of(b))};
        if (!w->cached && !lookup(&w->cached, w->op)) return NULL;
        return run(w->cached, in, true);
    }
    if (!operand(b)) Py_RETURN_NOTIMPLEMENTED;
    snprintf(method, sizeof method, "%s_", w->method);
    return by_method(method, a, b);
}

/* What the operands are not meant for, says a TypeError: Python asks the other one, and then names both in its own words. */
static inline PyObject *attempted(PyObject *r)
{
    if (RUSH_LIKELY(r != NULL) || !PyErr_ExceptionMatches(PyExc_TypeError)) return r;
    PyErr_Clear();
    Py_RETURN_NOTIMPLEMENTED;
}

#define BINARY(name, which)                                                                                  \
    static PyObject *name(PyObject *a, PyObject *b) { return attempted(binary(which, a, b)); }               \
    static PyObject *inplace_##name(PyObject *a, PyObject *b) { return attempted(inplace(which, a, b)); }
BINARY(add, ADD)
BINARY(subtract, SUB)
BINARY(multiply, MUL)
BINARY(divide, DIV)
BINARY(floor_divide, FLOORDIV)
BINARY(modulo, REMAINDER)
BINARY(and, AND)
BINARY(or, OR)
BINARY(xor, XOR)
BINARY(lshift, LSHIFT)
BINARY(rshift, RSHIFT)

/* In classes made from Python, __iadd__ is also how sequences grow, and what that gives is the result: NotImplemented, too. */
static PyObject *inplace_sum(PyObject *a, PyObject *b)
{
    PyObject *r = inplace_add(a, b);
    if (r != Py_NotImplemented) return r;
    Py_DECREF(r);
    r = PyNumber_Add(a, b);
    if (!r && PyErr_ExceptionMatches(PyExc_TypeError))
        PyErr_Format(PyExc_TypeError, "unsupported operand type(s) for +=: '%.100s' and '%.100s'", Py_TYPE(a)->tp_name, Py_TYPE(b)->tp_name);
    return r;
}

static PyObject *matmul(PyObject *a, PyObject *b) { return attempted(binary(MATMUL, a, b)); }

static PyObject *power(PyObject *a, PyObject *b, PyObject *modulus)
{
    if (modulus != Py_None) Py_RETURN_NOTIMPLEMENTED;
    return attempted(binary(POW, a, b));
}

static PyObject *inplace_power(PyObject *a, PyObject *b, PyObject *modulus)
{
    if (modulus != Py_None) Py_RETURN_NOTIMPLEMENTED;
    return attempted(inplace(POW, a, b));
}

static PyObject *unary(const rush_op **cache, const char *name, const char *method, PyObject *x)
{
    PyObject *result;
    if (py_asks(x) && py_method_overridden(x, method, NULL, 0, NULL, &result)) return result;
    const rush_op *op = lookup(cache, name);
    rush_value in[8] = {rush_v_tensor(py_tensor_of(x))};
    return op ? run(op, in, false) : NULL;
}

static PyObject *negative(PyObject *x)
{
    static const rush_op *op;
    return unary(&op, "neg", "neg", x);
}

static PyObject *absolute(PyObject *x)
{
    static const rush_op *op;
    return unary(&op, "abs", "abs", x);
}

static PyObject *invert(PyObject *x)
{
    static const rush_op *op, *logical;
    if (!py_asks(x) && rush_dtypes[py_tensor_of(x)->dtype].category >= 2)
        return PyErr_Format(PyExc_TypeError, "~ (operator.invert) is only implemented on integer and Boolean-type tensors, not on %s",
                            rush_dtype_name(py_tensor_of(x)->dtype));
    if (py_tensor_of(x)->dtype == RUSH_BOOL && !rush_op_find("bitwise_not")) return unary(&logical, "logical_not", "__invert__", x);
    return unary(&op, "bitwise_not", "__invert__", x);
}

static PyObject *positive(PyObject *x)
{
    PyObject *result;
    if (py_asks(x) && py_method_overridden(x, "__pos__", NULL, 0, NULL, &result)) return result;
    if (py_tensor_of(x)->dtype == RUSH_BOOL) return PyErr_Format(PyExc_RuntimeError, "The `+` operator, on a bool tensor is not supported.");
    return py_ref(x);
}

/* ---- to Python's numbers ---- */

static PyObject *first_number(const rush_tensor *t)
{
    char room[16];
    const void *p = rush_first_element(t, room);
    return p ? py_number_of(t, p) : py_raise();
}

static PyObject *item(PyObject *self, const char *why)
{
    rush_tensor *t = py_tensor_of(self);
    if (t->numel != 1) {
        if (why) return PyErr_Format(PyExc_ValueError, "%s", why);
        return PyErr_Format(PyExc_RuntimeError, "a Tensor with %lld elements cannot be converted to Scalar", (long long)t->numel);
    }
    if (t->device.type == RUSH_META) return PyErr_Format(PyExc_RuntimeError, "Tensor.item() cannot be called on meta tensors");
    if (py_is_seen(t)) {
        size_t mark = rush_scope_open();
        rush_value in[1] = {rush_v_tensor(t)}, out[RUSH_MAXOUT];
        PyObject *x = rush_call(rush_op_find("_local_scalar_dense"), in, out) ? py_raise() : py_from_value(&out[0]);
        rush_scope_close(mark);
        return x ? py_traced_item(self, x) : NULL;
    }
    if (t->layout) { /* the values of the one place, added up; what an integer stands for */
        size_t mark = rush_scope_open();
        rush_tensor *sum = t->layout == RUSH_QUANTIZED ? T("dequantize.self", V(t)) : T("_to_dense", V(t));
        PyObject *x = sum ? first_number(sum) : py_raise();
        rush_scope_close(mark);
        return x;
    }
    return first_number(t);
}

PyObject *py_item(PyObject *self, PyObject *unused) { return item(self, NULL); }

static const char one_element[] = "only one element tensors can be converted to Python scalars";

/* A complex number without an imaginary part, as a real one; takes x. */
static PyObject *real_part(PyObject *x, const char *type)
{
    if (!PyComplex_Check(x)) return x;
    PyObject *real = PyComplex_ImagAsDouble(x) == 0 ? PyFloat_FromDouble(PyComplex_RealAsDouble(x))
                                                    : PyErr_Format(PyExc_RuntimeError, "value cannot be converted to type %s without overflow", type);
    Py_DECREF(x);
    return real;
}

static PyObject *to_int(PyObject *self)
{
    PyObject *result, *x;
    if (py_asks(self) && py_method_overridden(self, "__int__", NULL, 0, NULL, &result)) return result;
    x = item(self, one_element);
    if (x) x = real_part(x, "int64_t");
    if (x) Py_SETREF(x, PyNumber_Long(x));
    return x;
}

static PyObject *to_float(PyObject *self)
{
    PyObject *result, *x;
    if (py_asks(self) && py_method_overridden(self, "__float__", NULL, 0, NULL, &result)) return result;
    if (rush_requires_grad(py_tensor_of(self)) && !(rush_now.mode & RUSH_MODE_NO_GRAD)) /* item() says that the number is meant to leave the graph, this does not */
        RUSH_WARN_ONCE("Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior.\nConsider using tensor.detach() first.");
    x = rush_failed() ? py_raise() : item(self, one_element);
    if (x) x = real_part(x, "double");
    if (x) Py_SETREF(x, PyNumber_Float(x));
    return x;
}

static PyObject *to_index(PyObject *self)
{
    PyObject *result;
    if (py_asks(self) && py_method_overridden(self, "__index__", NULL, 0, NULL, &result)) return result;
    rush_tensor *t = py_tensor_of(self);
    if (rush_dtypes[t->dtype].category > 1 || t->numel != 1) return PyErr_Format(PyExc_TypeError, "only integer tensors of a single element can be converted to an index");
    PyObject *x = item(self, NULL);
    if (x) Py_SETREF(x, PyNumber_Long(x));
    return x;
}

static int to_bool(PyObject *self)
{
    PyObject *result;
    if (py_asks(self) && py_method_overridden(self, "__bool__", NULL, 0, NULL, &result)) {
        int yes = result ? PyObject_IsTrue(result) : -1;
        Py_XDECREF(result);
        return yes;
    }
    rush_tensor *t = py_tensor_of(self);
    if (t->numel != 1) {
        PyErr_Format(PyExc_RuntimeError, t->numel ? "Boolean value of Tensor with more than one value is ambiguous" : "Boolean value of Tensor with no values is ambiguous");
        return -1;
    }
    if (t->dtype == RUSH_BOOL && t->device.type == RUSH_CPU && rush_ptr(t) && !py_is_seen(t)) return *(uint8_t *)rush_ptr(t) != 0;
    PyObject *x = item(self, NULL);
    int yes = x ? PyObject_IsTrue(x) : -1;
    Py_XDECREF(x);
    return yes;
}

PyNumberMethods py_tensor_number = {
    .nb_add = add, .nb_subtract = subtract, .nb_multiply = multiply, .nb_remainder = modulo, .nb_power = power, .nb_negative = negative,
    .nb_positive = positive, .nb_absolute = absolute, .nb_bool = to_bool, .nb_invert = invert, .nb_lshift = lshift, .nb_rshift = rshift,
    .nb_and = and, .nb_xor = xor, .nb_or = or, .nb_int = to_int, .nb_float = to_float, .nb_index = to_index, .nb_true_divide = divide,
    .nb_floor_divide = floor_divide, .nb_matrix_multiply = matmul,
    .nb_inplace_add = inplace_sum, .nb_inplace_subtract = inplace_subtract, .nb_inplace_multiply = inplace_multiply,
    .nb_inplace_remainder = inplace_modulo, .nb_inplace_power = inplace_power, .nb_inplace_lshift = inplace_lshift,
    .nb_inplace_rshift = inplace_rshift, .nb_inplace_and = inplace_and, .nb_inplace_xor = inplace_xor, .nb_inplace_or = inplace_or,
    .nb_inplace_floor_divide = inplace_floor_divide, .nb_inplace_true_divide = inplace_divide,
};

PyObject *py_tensor_richcompare(PyObject *a, PyObject *b, int op)
{
    static const int which[] = {[Py_LT] = LT, [Py_LE] = LE, [Py_EQ] = EQ, [Py_NE] = NE, [Py_GT] = GT, [Py_GE] = GE};
    if (py_is_tensor(a) && op == Py_EQ && py_is_ndarray(b) && py_ndarray_dtype(b) >= 0) { /* the one comparison that takes arrays: without it, == is False of all */
        size_t mark = rush_scope_open();
        rush_tensor *t = py_from_ndarray(b, false);
        PyObject *array = t ? py_wrap(t) : NULL, *equal = array ? binary(EQ, a, array) : NULL;
        Py_XDECREF(array);
        rush_scope_close(mark);
        return equal;
    }
    if (!py_is_tensor(a) || !operand(b)) Py_RETURN_NOTIMPLEMENTED;
    return attempted(binary(which[op], a, b));
}
