/* rushlight.h - all that a program or an extension needs: PyTorch's system as a C library.
 *
 * Three rules carry the whole interface.
 *
 * Ownership. A function that returns a tensor parks it in the innermost open scope of the thread; it
 * goes when the scope closes, unless rush_keep() took it out (where none is open, when the thread ends). So nested calls need no names and no frees:
 *
 *     rush_scope() {
 *         rush_tensor *loss = rush_cross_entropy(rush_forward(net, x), y);
 *         rush_backward(loss);
 *         rush_optim_step(opt);
 *     }
 *
 * Errors. A failing call returns NULL (or -1) and leaves one error in the thread; while it is pending,
 * every operation returns NULL at once. Look once at the end: rush_error() is the message of the first
 * cause, rush_error_clear() forgets it. The library never exits, aborts or prints over what it is fed.
 *
 * Operations. Each is one record (rush_op), found by its ATen name, called with boxed values by
 * rush_call(). rushlight/ops.h, which this header includes at its end, has a typed prototype for each.
 */
#ifndef RUSHLIGHT_H
#define RUSHLIGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RUSH_API __attribute__((visibility("default")))
#define RUSH_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define RUSH_COLD __attribute__((cold)) /* seldom called: the compiler moves what leads there out of the way */
#define RUSH_MAXDIM 64 /* as many dimensions as a tensor can have */

typedef struct rush_tensor rush_tensor;
typedef struct rush_storage rush_storage;
typedef struct rush_node rush_node;
typedef struct rush_generator rush_generator;
typedef struct rush_op rush_op;
typedef struct rush_value rush_value;

/* ---- dtypes, devices ------------------------------------------------------------------------------ */

typedef enum rush_dtype {
    RUSH_BOOL, RUSH_U8, RUSH_I8, RUSH_I16, RUSH_I32, RUSH_I64, RUSH_U16, RUSH_U32, RUSH_U64,
    RUSH_F16, RUSH_BF16, RUSH_F32, RUSH_F64, RUSH_C32, RUSH_C64, RUSH_C128,
    RUSH_F8E4M3FN, RUSH_F8E5M2, RUSH_F8E4M3FNUZ, RUSH_F8E5M2FNUZ, RUSH_F8E8M0FNU,
    RUSH_QINT8, RUSH_QUINT8, RUSH_QINT32,
    RUSH_DTYPES
} rush_dtype;

/* The types of devices that C knows by name; rush_backend_register() gives others their numbers (rushlight/backend.h). */
typedef enum rush_device_type { RUSH_CPU, RUSH_META, RUSH_CUDA, RUSH_PRIVATEUSEONE = 8, RUSH_DEVICES = 32 } rush_device_type;
typedef struct rush_device {
    uint8_t type; /* a rush_device_type or the number of a backend      */
    int8_t index; /* -1: the current one; always so of cpu and meta     */
} rush_device;

typedef enum rush_layout { RUSH_STRIDED, RUSH_SPARSE_COO, RUSH_SPARSE_CSR, RUSH_SPARSE_CSC, RUSH_SPARSE_BSR,
                           RUSH_SPARSE_BSC, RUSH_LAYOUTS } rush_layout;
typedef enum rush_memory_format { RUSH_CONTIGUOUS, RUSH_PRESERVE, RUSH_CHANNELS_LAST,
                                  RUSH_CHANNELS_LAST_3D } rush_memory_format;

RUSH_API const char *rush_dtype_name(rush_dtype);        /* "float32", PyTorch's name without torch. */
RUSH_API int rush_dtype_from_name(const char *name);     /* -1 when there is none (no error is set)  */
RUSH_API size_t rush_dtype_size(rush_dtype);             /* bytes per element                        */
RUSH_API bool rush_dtype_is_float(rush_dtype);           /* real floating point, half types included */
RUSH_API bool rush_dtype_is_complex(rush_dtype);
RUSH_API bool rush_dtype_is_integer(rush_dtype);         /* integers without bool                    */
RUSH_API rush_dtype rush_promote(rush_dtype, rush_dtype); /* torch.promote_types                     */
RUSH_API rush_dtype rush_default_dtype(void);
RUSH_API int rush_default_dtype_set(rush_dtype);         /* a floating type                          */

/* ---- errors, log ------------------------------------------------------------------------------------ */

/* Each kind is the Python exception that PyTorch raises in its place. */
typedef enum rush_error_kind {
    RUSH_OK, RUSH_RUNTIME_ERROR, RUSH_VALUE_ERROR, RUSH_TYPE_ERROR, RUSH_INDEX_ERROR, RUSH_KEY_ERROR,
    RUSH_NOT_IMPLEMENTED, RUSH_MEMORY_ERROR, RUSH_IO_ERROR, RUSH_LINALG_ERROR, RUSH_OVERFLOW_ERROR,
    RUSH_ZERO_DIVISION_ERROR, RUSH_ATTRIBUTE_ERROR, RUSH_FOREIGN_ERROR, /* raised by a callback, which keeps the details */
    RUSH_DIST_ERROR, RUSH_DIST_BACKEND_ERROR, RUSH_DIST_NETWORK_ERROR, RUSH_DIST_STORE_ERROR, RUSH_DIST_QUEUE_ERROR /* rushlight/dist.h */
} rush_error_kind;

RUSH_API const char *rush_error(void);              /* message of the pending error, NULL without one */
RUSH_API rush_error_kind rush_error_kind_now(void); /* RUSH_OK without one */
RUSH_API void rush_error_clear(void);
/* Leave an error unless one is pending; the message is prefixed by the running operation's name.
 * Returns -1, so that a rule can say `return rush_fail(...)`. */
RUSH_API int rush_fail(rush_error_kind, const char *format, ...) RUSH_PRINTF(2, 3) RUSH_COLD;

typedef void (*rush_log_fn)(int level, const char *message, void *arg); /* 0 error, 1 warning, 2 info, 3 debug */
RUSH_API void rush_log_to(rush_log_fn, void *arg);                      /* default: standard error, up to warnings */
RUSH_API void rush_log(int level, const char *format, ...) RUSH_PRINTF(2, 3) RUSH_COLD;

/* ---- scopes and references -------------------------------------------------------------------------- */

RUSH_API size_t rush_scope_open(void);        /* a mark to close with */
RUSH_API void rush_scope_close(size_t mark);
RUSH_API rush_tensor *rush_keep(rush_tensor *);  /* one more reference, the caller's own; NULL passes through */
RUSH_API void rush_drop(rush_tensor *);          /* gives up such a reference; NULL is fine */
RUSH_API rush_tensor *rush_park(rush_tensor *);  /* hands the caller's own reference to the current scope */

typedef struct rush_scope_guard {
    size_t mark;
    bool open;
} rush_scope_guard;
static inline void rush_scope_guard_close(rush_scope_guard *g)
{
    if (g->open) rush_scope_close(g->mark);
    g->open = false;
}
/* `rush_scope() { ... }`: what is parked inside goes at the closing brace; break and return are fine. */
#define rush_scope() RUSH_SCOPE_(__LINE__)
#define RUSH_SCOPE_(line) RUSH_SCOPE2_(line)
#define RUSH_SCOPE2_(line)                                                                                  \
    for (rush_scope_guard rush_guard_##line __attribute__((cleanup(rush_scope_guard_close))) =              \
             {rush_scope_open(), true};                                                                     \
         rush_guard_##line.open; rush_scope_guard_close(&rush_guard_##line))

/* ---- tensors ------------------------------------------------------------------------------------------ */

RUSH_API int rush_ndim(const rush_tensor *);
RUSH_API int64_t rush_numel(const rush_tensor *);
RUSH_API int64_t rush_size(const rush_tensor *, int dim);   /* dim may be negative */
RUSH_API int64_t rush_stride(const rush_tensor *, int dim); /* in elements */
RUSH_API const int64_t *rush_sizes(const rush_tensor *);
RUSH_API const int64_t *rush_strides(const rush_tensor *);
RUSH_API rush_dtype rush_dtype_of(const rush_tensor *);
RUSH_API rush_device rush_device_of(const rush_tensor *);
RUSH_API void *rush_data(const rush_tensor *);              /* the first element, in its device's memory; NULL on meta */
RUSH_API bool rush_is_contiguous(const rush_tensor *);
RUSH_API rush_layout rush_layout_of(const rush_tensor *);
RUSH_API int64_t rush_storage_offset(const rush_tensor *);  /* of the first element in its memory, in elements */
RUSH_API unsigned rush_tensor_version(const rush_tensor *); /* how often its memory was changed in place: _version */
RUSH_API bool rush_is_leaf(const rush_tensor *);            /* no result of something recorded */
RUSH_API double rush_item(const rush_tensor *);             /* the one element as a number; NaN and an error otherwise */
RUSH_API int64_t rush_item_int(const rush_tensor *);
RUSH_API bool rush_requires_grad(const rush_tensor *);
RUSH_API rush_tensor *rush_requires_grad_set(rush_tensor *, bool);
RUSH_API rush_tensor *rush_grad(const rush_tensor *);       /* NULL before the first backward */
RUSH_API int rush_grad_set(rush_tensor *, rush_tensor *);

/* A tensor over the caller's memory, copied (from_data) or shared (from_blob; release is called at its end). */
RUSH_API rush_tensor *rush_from_data(const void *data, rush_dtype, int ndim, const int64_t *size);
RUSH_API rush_tensor *rush_from_blob(void *data, rush_dtype, int ndim, const int64_t *size, const int64_t *stride,
                                     void (*release)(void *arg), void *arg);
/* Text like PyTorch's print; at most `size` bytes into buf, returns the length of the whole. */
RUSH_API size_t rush_tensor_format(const rush_tensor *, char *buf, size_t size);
RUSH_API void rush_tensor_print(const rush_tensor *);       /* to standard output, also from a debugger */

/* ---- values: one argument or result, boxed ------------------------------------------------------------ */

typedef enum rush_value_kind {
    RUSH_V_NONE, RUSH_V_TENSOR, RUSH_V_INT, RUSH_V_FLOAT, RUSH_V_BOOL, RUSH_V_COMPLEX, RUSH_V_INTS, RUSH_V_FLOATS,
    RUSH_V_TENSORS, RUSH_V_VALUES, RUSH_V_STRING, RUSH_V_DTYPE, RUSH_V_DEVICE, RUSH_V_LAYOUT,
    RUSH_V_MEMORY_FORMAT, RUSH_V_GENERATOR, RUSH_V_OBJECT,
    RUSH_V_TUPLE, RUSH_V_DICT /* of programs of TorchScript alone: rushlight/program.h */
} rush_value_kind;

/* What an array or text points to is the caller's and lives through the call; of results, the scope's. */
struct rush_value {
    uint8_t kind;
    uint32_t n; /* elements of an array */
    union {
        int64_t i;   /* RUSH_V_INT, DTYPE, LAYOUT, MEMORY_FORMAT; 0 or 1 for BOOL       */
        double f;
        double c[2]; /* real, imaginary                                                 */
        rush_tensor *t;
        const int64_t *ints; /* also bool lists, as 0 and 1                             */
        const double *floats;
        rush_tensor **tensors; /* NULL entries where the schema says Tensor?[]          */
        const rush_value *values; /* Scalar[]; of a dict keys and values in turn        */
        const char *s;
        rush_device device;
        rush_generator *gen;
        struct rush_object *object; /* of a program's class: rushlight/library.h        */
    };
};

/* Lists, as arguments and as options: RUSH_INTS(2, -1), RUSH_TENSORS(a, b). data NULL: not given. They last as long as the
 * block in which they stand; in C++ as long as the scope. */
typedef struct rush_ints { const int64_t *data; size_t n; } rush_ints;
typedef struct rush_floats { const double *data; size_t n; } rush_floats;
typedef struct rush_tensors { rush_tensor **data; size_t n; } rush_tensors;
typedef struct rush_scalars { const rush_value *data; size_t n; } rush_scalars;
RUSH_API void *rush_scope_copy(const void *, size_t bytes); /* a copy that lives as long as the innermost scope; NULL and an error */
RUSH_API rush_tensor *rush_from_floats(rush_floats);        /* one dimension, of the default dtype */
RUSH_API rush_tensor *rush_from_ints(rush_ints);            /* one dimension, int64 */
static inline rush_ints rush_ints_same(rush_ints list) { return list; }
static inline rush_ints rush_ints_one(int64_t i) { rush_ints list = {(const int64_t *)rush_scope_copy(&i, sizeof i), 1}; return list; }
#ifndef __cplusplus
#define RUSH_INTS(...) ((rush_ints){(const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)})
#define RUSH_FLOATS(...) ((rush_floats){(const double[]){__VA_ARGS__}, sizeof((const double[]){__VA_ARGS__}) / sizeof(double)})
#define RUSH_TENSORS(...) ((rush_tensors){(rush_tensor *[]){__VA_ARGS__}, sizeof((rush_tensor *[]){__VA_ARGS__}) / sizeof(rush_tensor *)})
/* A list where one number stands for all of its entries: 2 or RUSH_INTS(2, 3). */
#define RUSH_SIZES(x) _Generic((x), rush_ints: rush_ints_same, default: rush_ints_one)(x)
#endif

static inline rush_value rush_v_none(void) { rush_value v = {RUSH_V_NONE, 0, {0}}; return v; }
static inline rush_value rush_v_tensor(rush_tensor *t) { rush_value v = rush_v_none(); if (t) { v.kind = RUSH_V_TENSOR; v.t = t; } return v; }
static inline rush_value rush_v_int(int64_t i) { rush_value v = {RUSH_V_INT, 0, {i}}; return v; }
static inline rush_value rush_v_bool(bool b) { rush_value v = {RUSH_V_BOOL, 0, {b}}; return v; }
static inline rush_value rush_v_float(double f) { rush_value v = rush_v_none(); v.kind = RUSH_V_FLOAT; v.f = f; return v; }
static inline rush_value rush_v_string(const char *s) { rush_value v = rush_v_none(); v.kind = RUSH_V_STRING; v.s = s; return v; }
static inline rush_value rush_v_dtype(int d) { rush_value v = {RUSH_V_DTYPE, 0, {d}}; return v; }
static inline rush_value rush_v_layout(int l) { rush_value v = {RUSH_V_LAYOUT, 0, {l}}; return v; }
static inline rush_value rush_v_memory_format(int f) { rush_value v = {RUSH_V_MEMORY_FORMAT, 0, {f}}; return v; }
static inline rush_value rush_v_device(rush_device d) { rush_value v = rush_v_none(); v.kind = RUSH_V_DEVICE; v.device = d; return v; }
static inline rush_value rush_v_generator(rush_generator *g) { rush_value v = rush_v_none(); if (g) { v.kind = RUSH_V_GENERATOR; v.gen = g; } return v; }
static inline rush_value rush_v_ints(const int64_t *p, size_t n) { rush_value v = rush_v_none(); v.kind = RUSH_V_INTS; v.n = (uint32_t)n; v.ints = p; return v; }
static inline rush_value rush_v_floats(const double *p, size_t n) { rush_value v = rush_v_none(); v.kind = RUSH_V_FLOATS; v.n = (uint32_t)n; v.floats = p; return v; }
static inline rush_value rush_v_tensors(rush_tensor **p, size_t n) { rush_value v = rush_v_none(); v.kind = RUSH_V_TENSORS; v.n = (uint32_t)n; v.tensors = p; return v; }
static inline rush_value rush_v_value(rush_value v) { return v; }

#ifndef __cplusplus
#define RUSH_NONE ((rush_value){.kind = RUSH_V_NONE})
/* RUSH_V(x): a tensor, number, text or value, boxed. Integers of any width, float and double, bool. */
#define RUSH_V(x)                                                                                           \
    _Generic((x), rush_tensor *: rush_v_tensor, const rush_tensor *: rush_v_tensor, bool: rush_v_bool,      \
             float: rush_v_float, double: rush_v_float, char *: rush_v_string, const char *: rush_v_string, \
             rush_value: rush_v_value, rush_device: rush_v_device, default: rush_v_int)(x)
#endif

/* Options of functions (rushlight/ops.h, optim.h, nn.h). NULL for them, and what is zero in a struct of one's own, is the schema's
 * default; with `exact` set zeros count as they stand, as in the calls by name: rush_adamw(p, .weight_decay = 0). RUSH_DEFAULT is the
 * default of a number in either case. In C++ a struct of options begins with the defaults, of which RUSH_ZERO and RUSH_OTHERWISE tell the compiler. */
#define RUSH_DEFAULT (-1.7976931348623157e308)
#ifdef __cplusplus
enum class rush_exact : bool { no, yes };
#define RUSH_OTHERWISE(x) = x
#define RUSH_ZERO = {}
#else
typedef bool rush_exact;
#define RUSH_OTHERWISE(x)
#define RUSH_ZERO
#endif
/* Around calls by name whose options have defaults other than zero: that a field is set twice is meant. gcc 11 and older take no
 * pragma within a macro's argument, as in assert(rush_allclose(x, y).i): there the warning is off from here to the file's end. */
#if defined(__clang__) || __GNUC__ >= 12
#define RUSH_OVER_DEFAULTS_BEGIN                                                                            \
    _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Woverride-init\"") _Pragma("GCC diagnostic ignored \"-Wshadow\"")
#define RUSH_OVER_DEFAULTS_END _Pragma("GCC diagnostic pop")
#else
#ifndef __cplusplus
#pragma GCC diagnostic ignored "-Woverride-init"
#endif
#define RUSH_OVER_DEFAULTS_BEGIN
#define RUSH_OVER_DEFAULTS_END
#endif
/* A call by name: `call` reads rush_options_, of this type, set to defaults and then to what the caller says. */
#define RUSH_NAMED(type, call, ...) \
    __extension__({ RUSH_OVER_DEFAULTS_BEGIN const type rush_options_ = {.exact = 1, __VA_ARGS__}; RUSH_OVER_DEFAULTS_END call; })

/* ---- operations ----------------------------------------------------------------------------------------- */

typedef enum rush_arg_type {
    RUSH_A_TENSOR, RUSH_A_INT, RUSH_A_FLOAT, RUSH_A_BOOL, RUSH_A_SCALAR, RUSH_A_STRING, RUSH_A_DTYPE, RUSH_A_DEVICE,
    RUSH_A_LAYOUT, RUSH_A_MEMORY_FORMAT, RUSH_A_GENERATOR
} rush_arg_type;

typedef struct rush_arg {
    const char *name;
    uint8_t type;     /* a rush_arg_type                                            */
    bool list;        /* Tensor[], int[], ...                                       */
    bool optional;    /* may be None                                                */
    bool optional_items; /* Tensor?[]                                               */
    bool kwonly;
    bool written;     /* (a!): an in-place argument                                 */
    bool has_default;
    uint32_t kinds;   /* bit k: it takes values of that rush_value_kind; read from the rest */
    int8_t fixed;     /* int[2]: 2, so that one int stands for two; 0 otherwise     */
    rush_value def;
} rush_arg;

#define RUSH_MAXOUT 8 /* as many results as an operation can have */
#define RUSH_OP_MORE 17 /* words of rush_op that are the library's own */
typedef struct rush_grads rush_grads; /* what a derivative is given: below */
typedef void (*rush_kernel)(const rush_op *, const rush_value *in, rush_value *out);
typedef int (*rush_rule)(const rush_op *, const rush_value *in, rush_value *out);
typedef void (*rush_derivative)(rush_grads *);

/* One operation. The first group is written by hand, the second is filled by rush_op_register(), and more for itself. */
struct rush_op {
    const char *schema; /* ATen's: "cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor" */
    const char *doc;    /* what it does: shapes, dtypes, the paper or source where there is one        */
    rush_rule shape;    /* checks arguments, decides size and dtype, makes the results (rush_out)      */
    rush_kernel cpu;    /* the kernel; those of other devices are in the column of their backend. On meta
                           the shape rule is all there is to do                                       */
    rush_rule run;         /* composite: a function over other operations, in place of shape and kernels */
    rush_rule open;        /* the operations that PyTorch makes of this one, where it is one here: run in its place
                              when somebody looks at operations (op/watch.h)                   */
    rush_derivative grad;  /* NULL: no derivative for results of a floating type is an error, see flags   */
    const char *saves;     /* what grad reads the elements of: "self, result, result1"; the rest it knows
                              by shape and dtype only. "self@other|weight": self, if other or weight
                              wants a gradient */
    const char *node;      /* how graphs show it; NULL: "CumsumBackward0", by the name               */
    uint32_t flags;        /* rush_op_flags                                                          */
    uint8_t method;        /* rush_op_method: where Python has it beside a function of torch         */

    const char *name;      /* "cumsum" or "sum.dim_IntList"                               */
    const char *base;      /* the name without its overload                               */
    rush_arg *args;
    uint8_t nargs, nout;
#ifdef RUSH_BUILDING
#include "op/fields.h"
#else
    uint64_t more[RUSH_OP_MORE];
#endif
};

enum rush_op_flags {
    RUSH_VIEW = 1,        /* the result shares the first argument's memory                              */
    RUSH_STRIDED_OUT = 2, /* the kernel writes results of any strides, exactly aliasing an input or not  */
    RUSH_NO_GRAD = 4,     /* results never require gradients (comparisons, argmax, ...)                  */
    RUSH_SIDE_EFFECT = 8, /* changes an argument (the schema says which by (a!)) or draws random numbers */
    RUSH_AUTOCAST_LOW = 16,  /* autocast runs it in the low precision type                               */
    RUSH_AUTOCAST_F32 = 32,  /* autocast runs it in float32                                              */
    RUSH_AUTOCAST_WIDEST = 64,
    RUSH_HIDDEN = 128,    /* no part of the public documentation                                         */
    RUSH_INPLACE_OK = 256, /* has an in-place form name_ although it is not pointwise                    */
    RUSH_ANY_DEVICE = 512, /* runs without a kernel slot of the device of its arguments                  */
    RUSH_OUT_APART = 1024, /* out= shares memory with no argument                                        */
    RUSH_ANY_LAYOUT = 2048, /* looks at the layouts of its arguments itself: sparse tensors are fine     */
    RUSH_SAME_GRAD = 4096, /* of sparse forms: the derivative of the dense record serves                 */
    RUSH_FIRST_GRAD = 8192, /* of the results only the first has a gradient                              */
    RUSH_CROSS_DEVICE = 16384, /* copies: arguments may be on different devices, the kernel serves them all   */
    RUSH_DATA_SIZED = 32768, /* sizes depend on data: the kernel makes the results that the shape rule leaves open */
    RUSH_WHOLE = 65536,   /* a composite here, one operation for who looks at operations, as in PyTorch  */
    RUSH_RANDOM = 131072, /* draws random numbers                                                        */
    RUSH_IO = 262144,     /* reads or writes what is no tensor: files, the terminal                      */
    RUSH_FILLS = 524288,  /* with one number: in place, it may lie in what it fills, and an expanded tensor is warned of and changed */
    RUSH_NUMBERS = 1048576, /* numbers stand for its tensor arguments, as in operations made of a table's row */
    RUSH_DENSE_FIRST = 2097152, /* of sparse forms: the first argument may be a strided tensor           */
    RUSH_OUT_CASTS = 4194304, /* out= may be of another dtype whose category holds the result; else it has the very one */
    RUSH_OUT_KIND = 8388608, /* with RUSH_OUT_CASTS: a real result takes no complex out=                 */
    RUSH_OUT_TYPE = 16777216, /* with RUSH_OUT_CASTS: an out= that cannot hold the result is a TypeError */
    RUSH_OUT_TRUTH = 33554432, /* out= is bool or uint8, whichever of them the result would be           */
    RUSH_APART = 67108864, /* in place and with out=, what is written shares memory with no argument but the first */
    RUSH_HANDS_ON = 134217728, /* its derivative calls operations with arguments that it did not save    */
    RUSH_TAKES_TEXT = 268435456, /* its first argument is texts or files, see rushlight/data.h           */
    RUSH_GIVES_TEXT = 536870912 /* its first result is                                                  */
};

/* Where Python has an operation; of overloads, what one of them says is true of all. A name with the prefix linalg_, fft_ or
 * special_ is a function of that namespace, one that ends with _ is none. */
enum rush_op_method {
    RUSH_METHOD = 1,      /* x.name()                                                            */
    RUSH_METHOD_ = 2,     /* x.name_(), the form that changes x                                  */
    RUSH_FUNCTION_ = 4,   /* the function name_(x)                                               */
    RUSH_NN = 8,          /* its functions are those of torch._C._nn instead of torch            */
    RUSH_NO_FUNCTION = 16,
    RUSH_IN_SPARSE = 32,  /* torch._C._sparse has the function, too                              */
    RUSH_OLD_ORDER = 64,  /* numbers may stand before tensors, as of old: add(x, 2, y)           */
    RUSH_METHODS = RUSH_METHOD | RUSH_METHOD_, RUSH_ALL_FORMS = RUSH_METHODS | RUSH_FUNCTION_
};

/* What a derivative reads and fills. Arguments whose elements were not saved are there by shape and dtype.
 * For each argument i with rush_needs(s, i), set s->gin[i] (a tensor or, for lists, s->glist[i][k]);
 * leaving it NULL means zero. */
struct rush_grads {
    const rush_op *op;
    const rush_value *in;  /* the forward call's arguments                          */
    const rush_value *out; /* its results                                           */
    rush_tensor **g;       /* gradient of each result, NULL where it is zero        */
    rush_tensor **gin;     /* per argument, to be filled                            */
    rush_tensor ***glist;  /* per argument that is a Tensor[], to be filled         */
    uint64_t needs;        /* bit i: argument i wants a gradient                    */
    rush_node *node;       /* the library's own                                      */
};
#define rush_needs(s, i) ((s)->needs >> (i) & 1)

RUSH_API int rush_op_register(rush_op *);             /* -1 and an error for a schema that cannot be read */
RUSH_API rush_op *rush_op_find(const char *name);     /* "add.Tensor"; without a dot the first overload; NULL */
RUSH_API rush_op *rush_op_first(void);                /* walk all: for (op = first; op; op = next(op))    */
RUSH_API rush_op *rush_op_next(const rush_op *);
RUSH_API const rush_op *rush_op_running(void);        /* the innermost one in this thread; NULL           */

/* The one road of every operation. `in` has op->nargs values, `out` room for op->nout. */
RUSH_API int rush_call(const rush_op *, const rush_value *in, rush_value *out);
/* What a call does beyond its results: a graph may drop, repeat or reorder only what has no effects. */
enum rush_effects { RUSH_EFFECT_WRITES = 1, RUSH_EFFECT_RANDOM = 2, RUSH_EFFECT_IO = 4 };
RUSH_API unsigned rush_op_effects(const rush_op *);
/* The results' shapes, dtypes, strides and devices, as tensors without memory: nothing is computed, drawn or written. */
RUSH_API int rush_infer(const rush_op *, const rush_value *in, rush_value *out);
/* The name of its typed C function, "rush_conv2d", in memory of this thread until the next call; NULL: it has none. */
RUSH_API const char *rush_op_c_name(const rush_op *);
/* The forms derived from a record: results written into given tensors (out=), or into argument 0 (name_). */
RUSH_API int rush_call_out(const rush_op *, const rush_value *in, rush_value *out); /* out[i].t given */
RUSH_API int rush_call_inplace(const rush_op *, const rush_value *in, rush_value *out);
/* For C: n values, defaults for the rest, the first result. Of _inplace that is argument 0, changed. */
RUSH_API rush_tensor *rush_apply(const rush_op *, int n, const rush_value *in);
RUSH_API rush_tensor *rush_apply_inplace(const rush_op *, int n, const rush_value *in);

/* For shape rules: result i of this dtype and size on the device of the arguments, contiguous; checks and
 * resizes a tensor that was given. */
RUSH_API rush_tensor *rush_out(rush_value *out, int i, rush_dtype, rush_device, int ndim, const int64_t *size);

/* ---- autograd -------------------------------------------------------------------------------------------- */

RUSH_API int rush_backward(rush_tensor *loss); /* accumulates into rush_grad of the leaves */
RUSH_API int rush_backward_full(int n, rush_tensor **roots, rush_tensor **grads, bool retain_graph, bool create_graph);
/* Gradients of the roots by the inputs, without touching .grad; out[i] is NULL where unused (allow_unused). */
RUSH_API int rush_grad_of(int n, rush_tensor **roots, rush_tensor **grads, int n_in, rush_tensor **inputs,
                          rush_tensor **out, bool retain_graph, bool create_graph, bool allow_unused);
RUSH_API bool rush_grad_enabled(void);
RUSH_API bool rush_grad_enabled_set(bool); /* returns what it was */

/* ---- threads, random numbers, the machine ------------------------------------------------------------------ */

RUSH_API int rush_num_threads(void);
RUSH_API void rush_num_threads_set(int);
/* fn(arg, begin, end) over [0, n) in contiguous pieces of at least `grain`, one per thread at most, on the library's threads. */
RUSH_API void rush_parallel_for(int64_t n, int64_t grain, void (*fn)(void *arg, int64_t begin, int64_t end), void *arg);
RUSH_API bool rush_in_parallel(void);  /* inside of that? A loop there runs on the calling thread */
RUSH_API int rush_thread_number(void); /* which of the threads of such a loop this is, from 0; 0 outside */
RUSH_API void rush_manual_seed(uint64_t seed);           /* the default generator of the CPU */
RUSH_API rush_generator *rush_default_generator(void);
/* Makes the calling thread draw from g where it is told no generator; NULL: as every thread. Returns what was set. g is not kept. */
RUSH_API rush_generator *rush_thread_generator_set(rush_generator *g);
RUSH_API const char *rush_version(void);
RUSH_API const char *rush_engines(void);                 /* the libraries that this build computes with */
RUSH_API bool rush_flush_denormals(bool on);             /* this thread's denormal results become 0; false: the processor cannot */
RUSH_API const char *rush_cpu_isa(void);                 /* "x86-64-v4" and the like: the kernels in use */

#ifdef __cplusplus
}
#include <rushlight/arguments.hpp>
#endif
#include <rushlight/backend.h>
#include <rushlight/modes.h>
#include <rushlight/function.h>
#include <rushlight/library.h>
#include <rushlight/nn.h>
#include <rushlight/optim.h>
#include <rushlight/io.h>
#include <rushlight/checkpoint.h>
#include <rushlight/data.h>
#include <rushlight/media.h>
#include <rushlight/summary.h>
#ifndef RUSH_BUILDING
#include <rushlight/ops.h>
#endif
#endif
