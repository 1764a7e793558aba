/* op.h - what an operation is, for the rooms that define and call operations. */
#ifndef RUSH_OP_H
#define RUSH_OP_H

#include "tensor/tensor.h"
#include "tensor/iter.h"

_Static_assert(sizeof(rush_op) == offsetof(rush_op, tensor_args) + 8 * RUSH_OP_MORE && offsetof(rush_op, tensor_args) % 8 == 0, "the public header has room for op/fields.h");

/* A family's file ends with the table of its records. They are gathered by the linker, so no list names them:
 *
 *     RUSH_FAMILY(scan, &op_cumsum, &op_cumprod, ...)
 */
#define RUSH_FAMILY(name, ...)                                                                              \
    static rush_op *const rush_family_##name[] __attribute__((section("rush_ops"), used)) = {__VA_ARGS__};

/* What operations do with tensors of sparse layouts: records of their own, which the road takes when it sees such an
 * argument. `schema` names the operation that the record serves, then others of the same arguments ("abs absolute");
 * arguments and results are that one's. Without `run` it is the operation's own composite; `row` becomes the dense record.
 *
 *     RUSH_SPARSE(arith, &sparse_add, &sparse_mul, ...)
 */
#define RUSH_SPARSE(name, ...)                                                                              \
    static rush_op *const rush_sparse_##name[] __attribute__((section("rush_sparse_ops"), used)) = {__VA_ARGS__};

/* What operations do with quantized tensors: functions that the road takes when it sees such an argument (api/quantized.c). They
 * serve all operations that `names` names, whatever their arguments, and record nothing. A composite needs none.
 *
 *     RUSH_QUANTIZED_RULES(shape, {"view permute", on_integers}, {"relu", relu_rule})
 */
typedef struct rush_quantized_rule {
    const char *names;
    rush_rule run;
} rush_quantized_rule;
#define RUSH_QUANTIZED_RULES(name, ...)                                                                     \
    static const rush_quantized_rule rush_quantized_##name[] __attribute__((section("rush_quantized_rules"), used)) = {__VA_ARGS__};

rush_rule rush_quantized_rule_of(const rush_op *); /* NULL: none */

/* The three ways to call a record: as it is, in place (name_), with results that are given (out=). */
typedef enum rush_form { RUSH_FORM_CALL, RUSH_FORM_INPLACE, RUSH_FORM_OUT } rush_form;

/* ---- reading arguments in rules and kernels: the schema has checked the kinds ---- */
#define T_(v) ((v).kind == RUSH_V_TENSOR ? (v).t : NULL)   /* a tensor or NULL (None) */
#define I_(v) ((v).i)                                      /* int, bool, dtype, ...   */
#define HAS(v) ((v).kind != RUSH_V_NONE)
RUSH_PY double rush_to_double(rush_value); /* any number; an integer whose n is 1 is of 64 bits without a sign */
int64_t rush_to_int(rush_value);
#define D_(v) rush_to_double(v)
bool rush_is_number(rush_value);
rush_value rush_conj_number(rush_value); /* the conjugate of a complex one, others as they are */
rush_dtype rush_number_dtype(rush_value); /* bool, int64, default float, default complex */

/* Runs a kernel on arguments that are checked and results that are made; 0, or -1 with an error. */
static inline int rush_kernel_run(rush_kernel kernel, const rush_op *op, const rush_value *in, rush_value *out)
{
    uint32_t mode = rush_now.mode;
    rush_now.mode = (mode | RUSH_MODE_NO_GRAD) & ~(uint32_t)RUSH_MODE_AUTOCAST; /* operations that a kernel calls are its own affair */
    kernel(op, in, out);
    rush_now.mode = mode;
    return rush_failed() ? -1 : 0;
}

/* Runs an operation, whose results the shape rule has made, on a device that is not the CPU. */
int rush_run_on(rush_device, const rush_op *, const rush_value *in, rush_value *out);
RUSH_PY bool rush_runs_on(rush_device, const rush_op *); /* does it have a kernel there, or the backend's fallback? */
RUSH_PY bool rush_needs_fallback(rush_device, const rush_op *); /* is it an operation that needs a kernel there, and has none? */

/* ---- numbers in all places: into.c ---- */
/* dst += src for any strides and dtypes (computed in dst's, half types in float); dst must not overlap itself. */
int rush_add_into(rush_tensor *dst, const rush_tensor *src);
/* All bytes zero, any strides. */
void rush_zero_into(rush_tensor *);
/* Every element these bytes, of the size that the dtype has; for tensors of the CPU. */
void rush_element_into(rush_tensor *, const void *element);
/* Every element a number, any strides and dtype; the number has been checked to fit. */
void rush_fill_into(rush_tensor *, rush_value);
/* Does the number fit the dtype? PyTorch's "value cannot be converted to type ... without overflow". */
RUSH_PY int rush_number_fits(rush_value, rush_dtype);

/* ---- the kinds of arguments: check.c ---- */
uint32_t rush_arg_kinds(const rush_op *, const rush_arg *);
int rush_arg_wrong(const rush_op *, int i, const rush_value *); /* -1: not of a kind that argument i takes */
bool rush_numbers_only(const rush_op *, const rush_value *in); /* is argument 0, of which results have their shape, one, and nothing a tensor? */
/* The call again with what was given made fit: floats of integers, tensors of the numbers that a composite gets. */
int rush_call_fitted(rush_form, const rush_op *, const rush_value *in, rush_value *out);
/* 1; 0: it is NULL, holds a NULL, or names what there is not; -1: a tensor in it is used after its scope was closed. */
int rush_value_holds(const rush_value *, bool optional_items);
int rush_arg_holds(const rush_op *, int i, const rush_value *); /* -1 and an error if what it holds or points to is not there */

/* ---- making results in shape rules ---- */
int rush_same_shape(const rush_op *op, const rush_value *in, rush_value *out);       /* result 0 like argument 0 */
int rush_same_shape_float(const rush_op *op, const rush_value *in, rush_value *out); /* integers become the default float */
rush_tensor *rush_out_like(rush_value *out, int i, const rush_tensor *like, rush_dtype); /* keeps dense strides */
void rush_warn_of_resize(const rush_tensor *given, int ndim, const int64_t *size); /* where it holds elements */
/* -1: a result of this dtype cannot be written to `given`: of in-place forms and RUSH_OUT_CASTS by category, else by dtype. */
int rush_out_takes(const rush_op *, bool inplace, rush_dtype, const rush_tensor *given);
rush_tensor *rush_out_t(rush_value *out, int i, const rush_tensor *on, rush_dtype, int ndim, const int64_t *size);
rush_tensor *rush_out_format(rush_value *out, int i, rush_memory_format, const rush_tensor *on, rush_dtype, int ndim, const int64_t *size);
/* With these strides, unless one that is given has the size already and keeps its own. */
rush_tensor *rush_out_strided(rush_value *out, int i, rush_dtype, rush_device, int ndim, const int64_t *size, const int64_t *stride);
void rush_out_view(rush_value *out, int i, rush_tensor *view);    /* result i is this tensor, as it is */
/* A tensor list result; the array lives in the scope. */
RUSH_PY rush_tensor **rush_out_list(rush_value *out, int i, size_t n);
/* Parks a thing that is no tensor: its first member is the function that gives up one reference to it. */
typedef void (*rush_object_end)(void *object);
void *rush_park_object(void *object);
bool rush_op_is_added(const rush_op *); /* by a program, behind those of the library */
const char *rush_arg_c_name(const rush_arg *); /* as a parameter or field in C and C++; the text lives until the next call */
const char *rush_node_name(const rush_op *); /* what graphs call it; the text lives until the next call */
/* Closes the scope of an operation's body, but hands its results on to the caller's. */
void rush_scope_leave(size_t mark, int nout, const rush_value *out);
RUSH_PY void *rush_scope_alloc(size_t bytes); /* memory that goes with the current scope; NULL and an error */

/* ---- calling operations from C: T("gather", V(x), V(dim), V(index)) is gather's first result. The name is text, not
 * a variable: each place of a call keeps its operation. ---- */
#define T(name, ...) RUSH_CALL_(__COUNTER__, rush_apply_cached, name, __VA_ARGS__)
/* The same, all results into out[]; 0 or -1. */
#define TN(out, name, ...) RUSH_CALL_ALL_(__COUNTER__, out, name, __VA_ARGS__)
/* In place: T_INPLACE("add.Tensor", ...) writes into its first argument, as add_ does. */
#define T_INPLACE(name, ...) RUSH_CALL_(__COUNTER__, rush_apply_inplace_cached, name, __VA_ARGS__)
#define RUSH_CALL_(id, how, name, ...) RUSH_CALL2_(id, how, name, __VA_ARGS__)
#define RUSH_CALL2_(id, how, name, ...)                                                                     \
    ({                                                                                                      \
        static const rush_op *op_##id;                                                                      \
        const rush_value args_##id[] = {__VA_ARGS__};                                                       \
        how(&op_##id, "" name, (int)RUSH_COUNT(args_##id), args_##id);                                      \
    })
#define RUSH_CALL_ALL_(id, out, name, ...) RUSH_CALL_ALL2_(id, out, name, __VA_ARGS__)
#define RUSH_CALL_ALL2_(id, out, name, ...)                                                                 \
    ({                                                                                                      \
        static const rush_op *op_##id;                                                                      \
        const rush_value args_##id[] = {__VA_ARGS__};                                                       \
        rush_apply_all_cached(&op_##id, "" name, (int)RUSH_COUNT(args_##id), args_##id, out);               \
    })
#define V(x) RUSH_V(x)
#define ON(t) RUSH_NONE, ((rush_value){.kind = RUSH_V_DEVICE, .device = (t)->device}) /* layout and device of factories: where t is */
#define INTS(...) rush_v_ints((const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / 8)
RUSH_PY rush_tensor *rush_apply_cached(const rush_op **cache, const char *name, int n, const rush_value *in);
RUSH_PY int rush_apply_all_cached(const rush_op **cache, const char *name, int n, const rush_value *in, rush_value *out);
rush_tensor *rush_apply_inplace_cached(const rush_op **cache, const char *name, int n, const rush_value *in);
/* Composite rules end with `return rush_result(out, tensor)`: -1 when it is NULL. */
int rush_result(rush_value *out, rush_tensor *);
/* Argument number by name, for messages and bindings; -1. */
RUSH_PY int rush_op_arg(const rush_op *, const char *name);

#endif
