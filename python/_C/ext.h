/* ext.h - what the files of the extension share. Read tensor.c (the Python object of a tensor), then call.c
 * (how a Python call finds its operation).
 *
 * Conventions: py_ names are shared; functions returning PyObject * give a new reference or NULL with a Python
 * exception set; a rush error is turned into one by py_raise(). A Python call is one rush scope.
 */
#ifndef RUSH_PYTHON_EXT_H
#define RUSH_PYTHON_EXT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>
#include "api/api.h"
#include "tensor/backend.h"

/* ---- the tensor object ---- */

typedef struct py_tensor {
    PyObject_HEAD
    rush_tensor *t; /* owned, unless the tensor owns the object (RUSH_T_PY_OWNED) */
    PyObject *dict, *weak;
} py_tensor;

extern PyTypeObject py_type_TensorMeta, py_type_TensorBase;
extern PyTypeObject *py_Tensor; /* the Python class Tensor; TensorBase before it is made */

static inline bool py_is_tensor(PyObject *x)
{
    return Py_TYPE(x) == py_Tensor || PyType_IsSubtype(Py_TYPE(x), &py_type_TensorBase);
}
#define py_tensor_of(x) (((py_tensor *)(x))->t)
PyObject *py_wrap(rush_tensor *);                          /* the tensor's object; None for NULL */
PyObject *py_wrap_as(PyTypeObject *, rush_tensor *);       /* a new object of that class; the tensor has none yet */
PyObject *py_wrap_list(rush_tensor **, size_t n, bool tuple);
bool py_may_end_objects(void); /* in this thread? At the interpreter's end, whose last collections look at them still, only in its own */
void py_clear_slots(PyTypeObject *, PyTypeObject *base, PyObject *); /* members that Python subclasses of base have by __slots__ */
int py_visit_tensor(rush_tensor *, visitproc, void *arg);  /* what only this reference keeps alive */
int py_visit_node(rush_node *, visitproc, void *arg);
int py_need_bool(PyObject *, const char *what); /* 0, 1, or -1 with a TypeError: "what must be bool, not int" */
rush_tensor *py_need_tensor(PyObject *, const char *what); /* TypeError: "what must be a Tensor, not str" */

/* ---- errors ---- */

extern PyObject *py_LinAlgError, *py_OutOfMemoryError;
RUSH_COLD void *py_raise(void);   /* the pending rush error as a Python exception; NULL */
RUSH_COLD int py_raise_int(void); /* the same; -1 */
RUSH_COLD int py_foreign(void);   /* a Python exception as pending rush error, for callbacks; -1 */
RUSH_COLD __typeof__(PyErr_Format) PyErr_Format; /* Python's headers do not say it */
RUSH_COLD __typeof__(PyErr_SetString) PyErr_SetString;
void py_error_in_module(PyObject *module); /* a call of the module failed: the pending exception tells where */
int py_errors_init(PyObject *module);

/* ---- values ---- */

extern PyTypeObject py_type_dtype, py_type_device, py_type_layout, py_type_memory_format, py_type_qscheme, py_type_Size,
    py_type_Generator, py_type_Storage;
PyObject *py_dtype(int);
PyObject *py_device(rush_device);
#define PY_NO_LAYOUT 63 /* the value of layouts that are names only */
PyObject *py_layout(int);
PyObject *py_memory_format(int);
PyObject *py_qscheme(int);
int py_constant_value(PyObject *); /* of a layout, memory_format or qscheme */
PyObject *py_size(int n, const int64_t *);
PyObject *py_generator(rush_generator *);
PyObject *py_storage(rush_storage *);
PyObject *py_object(struct rush_object *); /* of a program's class */
struct rush_object *py_object_of(PyObject *); /* NULL: it is none */
/* 1: it is one; 0: it is none (no exception); -1: an exception */
int py_to_dtype(PyObject *, int *out);
int py_to_device(PyObject *, rush_device *out);
int py_to_bool(PyObject *, rush_value *out);   /* truth values, NumPy's too */
int py_to_int(PyObject *, int64_t *out);       /* ints, NumPy's, 0-d integer tensors, __index__; no bools */
int py_to_number(PyObject *, rush_value *out); /* Python's and NumPy's numbers, 0-d tensors without gradient */
int py_plain_number(PyObject *, rush_value *out); /* Python's and NumPy's numbers only */
int py_to_sizes(PyObject *, int64_t *out, int room, int *n); /* a sequence of ints, or one */
rush_generator *py_generator_of(PyObject *);
rush_storage *py_any_storage_of(PyObject *); /* of a typed one, too; NULL for others */
bool py_storage_fits(PyObject *, int dtype); /* a typed storage of another dtype is an error */
rush_storage *py_storage_of(PyObject *);
bool py_is_generator(PyObject *);
int py_device_ready(rush_device); /* -1 and the exception PyTorch raises for a device that is not there */
PyObject *py_from_value(const rush_value *);
int py_take_results(const rush_op *, PyObject *returned, rush_value *out); /* of a Python function in the operation's place */
PyObject *py_number_of(const rush_tensor *, const void *element); /* a Python number */
const char *py_public_name(void);  /* "rushlight", or "torch" when it goes by that name */
bool py_lacks_data(const rush_tensor *, const char *what);
const char *py_type_name(PyObject *); /* for messages */
extern rush_device py_default_device; /* of factories; type RUSH_DEVICES: not set */
extern bool py_default_device_set;

/* ---- calls ---- */

/* A callable that stands for all overloads of one operation; see call.c. */
enum py_function_flags { PY_METHOD = 1, PY_INPLACE = 2, PY_ONLY = 4 /* the one overload of that full name */ };
PyObject *py_function(const char *base, const char *name, const char *space, int flags); /* NULL: no such operation */
PyObject *py_make_signature(PyObject *parameters); /* an inspect.Signature of "self, dim=None"; takes the reference */
PyObject *py_results(const rush_op *, const rush_value *out); /* what a Python call returns */
int py_run(const rush_op *, const rush_value *in, rush_value *out); /* rush_call, without the GIL when it is long */
int py_run_inplace(const rush_op *, const rush_value *in, rush_value *out);
bool py_is_long(const rush_op *, const rush_value *in);
int py_functions_fill(PyObject *module); /* _VariableFunctions, _nn, ... and the methods of TensorBase */
bool py_answers_itself(PyTypeObject *); /* has the class a __torch_dispatch__ of its own? */
int py_needs_gradient(rush_tensor *); /* for requires_grad=True of what makes tensors; 0, or -1 and a library error */
PyObject *py_return_type(const rush_op *, bool given); /* the class of a record with named results, of those that out= gave; borrowed */

/* ---- __torch_function__ ---- */

typedef struct py_override {
    int disabled;    /* 0; 1: of subclasses; 2: modes too */
    PyObject *modes; /* a list, the innermost last; NULL: none */
    int nmodes;
    bool skip;       /* the next function in Python that would ask does not: redispatch_function */
} py_override;
extern _Thread_local py_override py_overrides;
extern PyObject *py_disabled_torch_function;
bool py_overrides_function(PyObject *); /* is this argument's __torch_function__ to be asked? */
/* The arguments of a vectorcall as a tuple and a dictionary (NULL: no keywords); -1 and an exception. */
int py_pack(PyObject *const *args, Py_ssize_t n, PyObject *kwnames, PyObject **tuple, PyObject **kwargs);
/* func.__torch_function__ of the arguments in `over` or of the mode; args as in a vectorcall */
PyObject *py_dispatch(PyObject *func, PyObject **over, int nover, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
/* Asks a mode, a tensor or a class by its __torch_function__ or __torch_dispatch__. */
PyObject *py_ask(PyObject *who, PyObject *protocol, bool is_mode, PyObject *func, PyObject *types, PyObject *args, PyObject *kwargs);
PyObject *py_call_plainly(const char *format, PyObject *args, PyObject *kwargs); /* (func, types, args, kwargs) of such a call: func(*args, **kwargs) */
/* For hand-written methods: is self overriding? then *result is the answer. func is found by name on TensorBase. */
bool py_method_overridden(PyObject *self, const char *name, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames,
                          PyObject **result);

static inline bool py_asks(PyObject *x) /* quick: is there anything to ask for this tensor? */
{
    return RUSH_UNLIKELY(Py_TYPE(x) != py_Tensor || py_overrides.nmodes);
}

/* ---- parts of the module, one function per file ---- */

int py_types_init(PyObject *module);
int py_constants_init(PyObject *module);
int py_generator_init(PyObject *module);
int py_storage_init(PyObject *module);
int py_tensor_init(PyObject *module);
int py_make_init(PyObject *module);
int py_numpy_init(PyObject *module);
int py_dlpack_init(PyObject *module);
int py_call_init(PyObject *module);
int py_override_init(PyObject *module);
int py_dispatch_init(PyObject *module);
int py_watch_arguments(rush_form, const rush_op *, const rush_value *in, const rush_value *out, PyObject **args, PyObject **kwargs);
PyObject *py_overload_of(const rush_op *, rush_form); /* torch.ops.aten.name.overload; borrowed */
int py_kernel(rush_form, const rush_op *, const rush_value *in, rush_value *out); /* a program's, for the device; 1: there is none */
int py_kernels_init(PyObject *module);
int py_node_init(PyObject *module);
int py_hooks_init(PyObject *module);
int py_engine_init(PyObject *module);
int py_customfn_init(PyObject *module);
int py_modes_init(PyObject *module);
int py_device_init(PyObject *module);
int py_cuda_init(PyObject *module);
int py_share_init(PyObject *module);
int py_elsewhere_init(PyObject *module);
int py_library_init(PyObject *module);
int py_legacy_init(PyObject *module);
int py_compat_init(PyObject *module);
bool py_transforms(void); /* is a transform of torch.func running? */
int py_nnmodule_init(PyObject *module);
int py_profiler_init(PyObject *module);
int py_capture_init(PyObject *module);
extern _Thread_local bool py_capturing; /* calls are told: what goes around the road elsewhere goes along it */
/* Traces in which sizes are tensors (capture.c): how many threads make one; is this thread one of them? */
extern int py_traces;
bool py_tracing(void);
/* A tensor is taken for a number, which goes to this place, or to argument `arg` of the next call (else -1). */
void py_trace_number(const void *at, int arg, PyObject *x);
bool py_is_symbol(PyObject *x); /* a number that follows from data, in an export */
bool py_is_traced(PyObject *x); /* that, or a tensor */
bool py_traced_end(PyObject *slice);
int py_symbol_number(PyObject *x, rush_value *out);
bool py_reads_are_told(void);
PyObject *py_traced_item(PyObject *self, PyObject *value);
PyObject *py_traced_size(PyObject *self, int dim); /* a tensor; dim -1: how many elements */
PyObject *py_traced_sizes(PyObject *self);
bool py_holds_traced(const rush_value *, int arg); /* is argument `arg`, or one of its items, such a number? */
PyObject *py_traced_argument(const rush_value *, int arg, PyObject *x); /* x, stolen, with the tensors in the numbers' places */
#define py_is_seen(t) (rush_is_watched(t) || RUSH_UNLIKELY(py_capturing))
int py_unpickle_init(PyObject *module);
int py_archive_init(PyObject *module);
int py_gguf_init(PyObject *module);
int py_summary_init(PyObject *module);
int py_store_init(PyObject *module);
int py_dist_init(PyObject *module);
int py_script_init(PyObject *module);
int py_object_init(PyObject *module);
int py_onnx_init(PyObject *module);
struct rush_store *py_store_of(PyObject *); /* borrowed; NULL and an exception */
PyObject *py_store_new_tcp(struct rush_store *); /* takes it; NULL raises */

extern PyMethodDef py_tensor_methods[], py_tensor_object_methods[], py_tensor_graph_methods[], py_tensor_data_methods[], py_tensor_hook_methods[], py_tensor_convert_methods[];
extern PyGetSetDef py_tensor_getset[];
extern PyNumberMethods py_tensor_number;
PyObject *py_tensor_richcompare(PyObject *, PyObject *, int op);
PyObject *py_tensor_getitem(PyObject *, PyObject *);
int py_tensor_setitem(PyObject *, PyObject *, PyObject *);
PyObject *py_legacy_new(PyTypeObject *, PyObject *args, PyObject *kwargs);
extern PyBufferProcs py_tensor_buffer;

/* ---- NumPy, without its headers ---- */
bool py_is_ndarray(PyObject *);
bool py_is_numpy_scalar(PyObject *);
PyObject *py_numpy_scalar_item(PyObject *);
int py_ndarray_dtype(PyObject *);                /* rush_dtype, or -1 (no exception) */
rush_tensor *py_from_ndarray(PyObject *, bool warn); /* parked, shares the memory; NULL and an exception */
PyObject *py_to_ndarray(PyObject *self, rush_tensor *);

/* ---- making tensors of Python data ---- */
rush_tensor *py_tensor_from_data(PyObject *data, int dtype, rush_device, bool copy); /* dtype -1: inferred; parked */
PyObject *py_node_of(rush_node *); /* the grad_fn object; None for NULL */
PyObject *py_node_python_object(rush_node *); /* what a node of a Python function owns; borrowed, or NULL */
PyObject *py_hook_callable(const rush_node_hook *); /* borrowed, or NULL: no hook of Python's */
PyObject *py_legacy_make(PyTypeObject *cls, int dtype, rush_device, PyObject *args, PyObject *kwargs);
PyObject *py_legacy_sparse(int dtype, PyObject *args);
int py_legacy_dtype(const char *name);           /* "FloatTensor" -> RUSH_F32; -1 */
PyObject *py_next_functions(rush_node *);
PyObject *py_dict_at(PyObject *self, void *offset); /* the getter of a dictionary that is kept there, made at the first look */
/* What stands at an edge of the graph (GradientEdge: a node, the number of its result): the leaf, or a tensor of the scope that has no
 * memory. NULL: that is none, or an exception. */
rush_tensor *py_tensor_at_edge(PyObject *);
rush_node *py_node_behind(PyObject *);           /* of a grad_fn object; NULL without an exception for others */
PyObject *py_input_metadata(rush_node *);        /* shapes and dtypes of a node's results: a list */
rush_node *py_context_node(PyObject *);          /* of a custom function's context */
PyObject *py_run_backward(PyObject *module, PyObject *const *args, Py_ssize_t n);
int64_t py_backward_begins(bool to_inputs); /* the task that is outside of it, for the end */
int py_backward_depth(void); /* how many are running inside of one another in this thread */
int py_backward_ends(int64_t outer, bool to_inputs, bool failed);
bool py_saved_hooks_disabled(void);              /* true and an exception */
bool py_saved_hooks_pushed(void);                /* is some pair of hooks open? */
PyObject *py_node_register(rush_node *, PyObject *f, bool pre); /* a hook; its handle */
PyObject *py_item(PyObject *tensor, PyObject *unused);
PyObject *py_make_wrapper_subclass(PyObject *unused, PyObject *args, PyObject *kwargs);
Py_ssize_t py_tensor_length(PyObject *);
PyObject *py_tensor_iter(PyObject *);
Py_hash_t py_tensor_hash(PyObject *);
/* properties of tensors that autograd has: hooks.c */
PyObject *py_get_grad(PyObject *, void *);
PyObject *py_get_grad_fn(PyObject *, void *);
PyObject *py_get_requires_grad(PyObject *, void *);
PyObject *py_get_is_leaf(PyObject *, void *);
PyObject *py_get_retains_grad(PyObject *, void *);
PyObject *py_get_grad_dtype(PyObject *, void *);
int py_set_grad_dtype(PyObject *, PyObject *, void *);
PyObject *py_get_output_nr(PyObject *, void *);
PyObject *py_get_backward_hooks(PyObject *, void *);
int py_set_grad(PyObject *, PyObject *, void *);
int py_set_grad_fn(PyObject *, PyObject *, void *);
int py_set_requires_grad(PyObject *, PyObject *, void *);
int py_set_backward_hooks(PyObject *, PyObject *, void *);

static inline PyObject *py_ref(PyObject *x) /* Py_NewRef is 3.10's */
{
    Py_INCREF(x);
    return x;
}
/* Item i of a list or tuple, a new reference: converting an item may run code that changes the list. NULL and an exception if it got shorter. */
static inline PyObject *py_list_item(PyObject *list, Py_ssize_t i)
{
    if (RUSH_LIKELY(i < PySequence_Fast_GET_SIZE(list))) return py_ref(PySequence_Fast_GET_ITEM(list, i));
    PyErr_SetString(PyExc_RuntimeError, "the list changed its size while it was read");
    return NULL;
}
static inline int py_add(PyObject *module, const char *name, PyObject *steals)
{
    if (!steals) return -1;
    int failed = PyModule_AddObject(module, name, steals);
    if (failed) Py_DECREF(steals);
    return failed;
}
/* Attribute or NULL without an exception when there is none. */
static inline PyObject *py_getattr_quiet(PyObject *x, const char *name)
{
    PyObject *v = PyObject_GetAttrString(x, name);
    if (!v && PyErr_ExceptionMatches(PyExc_AttributeError)) PyErr_Clear();
    return v;
}

#endif
