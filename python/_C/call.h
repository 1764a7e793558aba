/* call.h - what the argument parser (parse.c), the callables (call.c) and their texts (signature.c) share. */
#ifndef RUSH_PYTHON_CALL_H
#define RUSH_PYTHON_CALL_H

#include "ext.h"

#define PY_MAXARGS 64

/* One overload as Python sees it. */
typedef struct py_overload {
    const rush_op *op;
    PyObject **name;   /* of each argument, interned; self is "input" in functions, "self" in methods */
    PyObject **alias;  /* NumPy's word for it, or NULL */
    uint8_t npos;      /* positional arguments come first */
    bool inplace;      /* results go to argument 0 */
    bool varargs;      /* f(1, 2, 3): a list of ints is the only positional argument (beside a method's self) */
    bool factory;      /* has dtype and device: takes requires_grad=, too */
    bool placed;       /* of these, where no device is said: goes to the default device */
    bool out;          /* takes out= */
    bool numbers;      /* numbers stand for tensors */
    bool wraps;        /* numbers become tensors of one element */
    bool tensor_args;  /* has a Tensor argument */
    uint8_t unreduced; /* 1 + the argument whose default is a reduction */
} py_overload;

typedef struct py_function_object {
    PyObject_HEAD
    vectorcallfunc call;
    const char *base;
    PyObject *name;   /* "add", "add_" */
    const char *space; /* "", "_nn", "_linalg", ...; methods: "TensorBase" */
    int flags, n;      /* overloads; 0: not read yet */
    py_overload *overload;
    PyObject *shown;   /* what a __torch_function__ is told was called, of torch.ops; NULL: the function itself */
} py_function_object;

/* A call while its arguments are matched. */
typedef struct py_call {
    rush_value in[PY_MAXARGS];
    PyObject *over[16]; /* arguments with a __torch_function__; references */
    int nover;
    PyObject *out;      /* of out= */
    bool requires_grad;
    int64_t ints[64];   /* room for int lists; longer ones go to the scope */
    int nints;
    /* why it does not match, for the message */
    enum { PY_FITS, PY_TOO_MANY, PY_MISSING, PY_UNKNOWN, PY_TWICE, PY_WRONG, PY_BAD_OUT, PY_BAD_GRAD } why;
    int which;          /* argument or position */
    PyObject *what;     /* borrowed: the argument that is wrong, or the keyword */
    int item;           /* of a list: which one; -1 */
} py_call;

static inline void py_forget_overrides(py_call *c)
{
    while (RUSH_UNLIKELY(c->nover)) Py_DECREF(c->over[--c->nover]);
}
/* 1: matched; 0: not, see why; -1: an exception */
int py_match(const py_overload *, py_call *, PyObject *const *args, Py_ssize_t n, PyObject *kwnames, bool method);
int py_overloads_read(py_function_object *); /* 0 or -1 */
bool py_has_inplace(const char *base);
unsigned py_method_of(const rush_op *first); /* what the overloads say together: rush_op_method */
PyObject *py_describe_args(PyObject *const *args, Py_ssize_t n, PyObject *kwnames, int first); /* "(Tensor, str, dim=int)" */
void *py_no_match(py_function_object *, const py_call *only, PyObject *const *args, Py_ssize_t n, PyObject *kwnames); /* raises */
PyObject *py_parameters(const py_function_object *, const py_overload *); /* "input, other, *, alpha=1, out=None" */
PyObject *py_signature(const py_function_object *, const py_overload *); /* "(Tensor input, Tensor other, *, Number alpha = 1)" */

#endif
