/* apply.c - helpers of rules and formulas: results, numbers, calling operations by name from C. */
#include "op/op.h"
#include "op/formula.h"
#include "op/watch.h"
#include "tensor/backend.h"

bool rush_is_number(rush_value v)
{
    return v.kind == RUSH_V_INT || v.kind == RUSH_V_FLOAT || v.kind == RUSH_V_BOOL || v.kind == RUSH_V_COMPLEX;
}

double rush_to_double(rush_value v)
{
    switch (v.kind) {
    case RUSH_V_FLOAT: return v.f;
    case RUSH_V_COMPLEX: return v.c[0];
    case RUSH_V_TENSOR: return rush_item(v.t);
    default: return v.kind == RUSH_V_INT && v.n ? (double)(uint64_t)v.i : (double)v.i;
    }
}

int64_t rush_to_int(rush_value v)
{
    switch (v.kind) {
    case RUSH_V_FLOAT: return (int64_t)v.f;
    case RUSH_V_COMPLEX: return (int64_t)v.c[0];
    case RUSH_V_TENSOR: return rush_item_int(v.t);
    default: return v.i;
    }
}

rush_value rush_conj_number(rush_value v)
{
    if (v.kind == RUSH_V_COMPLEX) v.c[1] = -v.c[1];
    return v;
}

rush_dtype rush_number_dtype(rush_value v)
{
    switch (v.kind) {
    case RUSH_V_BOOL: return RUSH_BOOL;
    case RUSH_V_INT: return RUSH_I64;
    case RUSH_V_COMPLEX: return rush_dtype_complex(rush_default_dtype());
    default: return rush_default_dtype();
    }
}

/* ---- results ---- */

static rush_tensor *set(rush_value *out, int i, rush_tensor *t)
{
    if (t) out[i] = rush_v_tensor(t);
    return t;
}

int rush_out_takes(const rush_op *op, bool inplace, rush_dtype dtype, const rush_tensor *given)
{
    const rush_dtype_info *from = &rush_dtypes[dtype], *to = &rush_dtypes[given->dtype];
    if (op && op->flags & RUSH_OUT_TRUTH) {
        RUSH_CHECK(given->dtype == RUSH_BOOL || given->dtype == RUSH_U8, RUSH_RUNTIME_ERROR, "%s only supports bool tensor for result, got: %s", op->base,
                   rush_dtype_word(given->dtype));
        return 0;
    }
    if (from == to) return 0;
    RUSH_CHECK(inplace || !op || op->flags & RUSH_OUT_CASTS || !op->tensor_args, RUSH_RUNTIME_ERROR, "Expected out tensor to have dtype %s, but got %s instead",
               from->c_type, to->c_type);
    RUSH_CHECK(!inplace || !op || from->category != 2 || to->category != 3, RUSH_RUNTIME_ERROR, "In-place abs is not supported for complex tensors.");
    RUSH_CHECK(from->category <= to->category, op && op->flags & RUSH_OUT_TYPE ? RUSH_TYPE_ERROR : RUSH_RUNTIME_ERROR,
               "result type %s can't be cast to the desired output type %s", rush_dtype_word(dtype), rush_dtype_word(given->dtype));
    RUSH_CHECK(inplace || !op || !(op->flags & RUSH_OUT_KIND) || from->category == 3 || to->category < 3, RUSH_RUNTIME_ERROR,
               "expects a floating point output tensor, but got %s", rush_dtype_word(given->dtype));
    return 0;
}

void rush_warn_of_resize(const rush_tensor *given, int ndim, const int64_t *size)
{
    if (given->numel)
        rush_log(1, "An output with one or more elements was resized since it had shape %s, which does not match the required output shape %s. This behavior is deprecated, and in a future "
                    "PyTorch release outputs will not be resized unless they have zero elements: t.resize_(0) before says that it is meant.", rush_shape_of(given), rush_shape_text(ndim, size));
}

RUSH_HOT rush_tensor *rush_out(rush_value *out, int i, rush_dtype dtype, rush_device device, int ndim, const int64_t *size)
{
    RUSH_CHECK_NULL(out && (unsigned)dtype < RUSH_DTYPES && ndim >= 0 && i >= 0 && i < RUSH_MAXOUT && (size || ndim <= 0), RUSH_TYPE_ERROR, "a result without a place or sizes");
    rush_tensor *given = T_(out[i]);
    if (!given) return set(out, i, rush_tensor_new(dtype, device, ndim, size));
    bool fits = given->ndim == ndim && rush_sizes_equal(ndim, given->size, size), inplace = rush_now.mode & RUSH_MODE_INPLACE;
    RUSH_CHECK_NULL(fits || !(rush_now.mode & (RUSH_MODE_INPLACE | RUSH_MODE_READ_TOO)), RUSH_RUNTIME_ERROR,
                    "output with shape %s doesn't match the broadcast shape %s", rush_shape_of(given), rush_shape_text(ndim, size));
    if (rush_out_takes(rush_now.op, inplace, dtype, given)) return NULL;
    if (fits) return given;
    if (!rush_now.op || rush_now.op->tensor_args) rush_warn_of_resize(given, ndim, size);
    return rush_tensor_resize(given, ndim, size) ? NULL : given;
}

RUSH_HOT rush_tensor *rush_out_t(rush_value *out, int i, const rush_tensor *on, rush_dtype dtype, int ndim, const int64_t *size)
{
    return rush_out(out, i, dtype, on->device, ndim, size);
}

RUSH_HOT rush_tensor *rush_out_strided(rush_value *out, int i, rush_dtype dtype, rush_device device, int ndim, const int64_t *size, const int64_t *stride)
{
    if (!HAS(out[i])) return set(out, i, rush_tensor_new_strided(dtype, device, ndim, size, stride));
    bool fits = out[i].t->ndim == ndim && rush_sizes_equal(ndim, out[i].t->size, size);
    rush_tensor *given = rush_out(out, i, dtype, device, ndim, size);
    return given && !fits && rush_tensor_reshape_inplace(given, ndim, size, stride, given->offset) ? NULL : given;
}

rush_tensor *rush_out_format(rush_value *out, int i, rush_memory_format f, const rush_tensor *on, rush_dtype dtype, int ndim, const int64_t *size)
{
    int64_t stride[RUSH_MAXDIM];
    if (f == RUSH_CONTIGUOUS) return rush_out(out, i, dtype, on->device, ndim, size);
    rush_strides_for(f, ndim, size, stride);
    return rush_out_strided(out, i, dtype, on->device, ndim, size, stride);
}

rush_tensor *rush_out_like(rush_value *out, int i, const rush_tensor *like, rush_dtype dtype)
{
    if (rush_is_plain(like)) return rush_out(out, i, dtype, like->device, like->ndim, like->size);
    if (!HAS(out[i])) return set(out, i, rush_tensor_new_like(like, dtype, like->device, RUSH_PRESERVE));
    const rush_tensor *strides = rush_tensor_new_like(like, dtype, (rush_device){RUSH_META, -1}, RUSH_PRESERVE);
    return strides ? rush_out_strided(out, i, dtype, like->device, like->ndim, like->size, strides->stride) : NULL;
}

RUSH_HOT void rush_out_view(rush_value *out, int i, rush_tensor *view)
{
    set(out, i, view);
}

rush_tensor **rush_out_list(rush_value *out, int i, size_t n)
{
    rush_tensor **list = rush_scope_alloc(sizeof *list * n);
    if (!list) return NULL;
    memset(list, 0, sizeof *list * n);
    out[i] = rush_v_tensors(list, n);
    return list;
}

RUSH_HOT int rush_result(rush_value *out, rush_tensor *t)
{
    if (!t) return -1;
    out[0] = rush_v_tensor(t);
    return 0;
}

int rush_same_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_out_like(out, 0, in[0].t, in[0].t->dtype) ? 0 : -1;
}

int rush_same_shape_float(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_dtype d = in[0].t->dtype;
    if (rush_dtypes[d].category < 2) d = rush_default_dtype();
    return rush_out_like(out, 0, in[0].t, d) ? 0 : -1;
}

/* ---- calls ---- */

/* The whole argument list of a call that gave its first n. */
static int fill(const rush_op *op, int n, const rush_value *in, rush_value *all)
{
    RUSH_CHECK(n >= 0 && n <= op->nargs && (in || !n), RUSH_TYPE_ERROR, "%s takes %d arguments, got %d", op->name, op->nargs, n);
    memcpy(all, in, sizeof *in * n);
    for (int i = n; i < op->nargs; ++i) {
        RUSH_CHECK(op->args[i].has_default, RUSH_TYPE_ERROR, "%s is missing its argument '%s'", op->name, op->args[i].name);
        all[i] = op->args[i].def;
    }
    return 0;
}

static rush_tensor *first(const rush_op *op, const rush_value *out)
{
    return op->nout && out[0].kind == RUSH_V_TENSOR ? out[0].t : NULL;
}

/* Numbers may stand for tensors in formulas. Who looks sees the overload that takes a number, as PyTorch's formulas call it. */
static const rush_op *with_number(const rush_op *op, rush_value *in)
{
    bool second = op->nargs >= 2 && in[0].kind == RUSH_V_TENSOR && op->args[1].type == RUSH_A_TENSOR && rush_is_number(in[1]);
    bool first = op->nargs >= 2 && in[1].kind == RUSH_V_TENSOR && op->args[0].type == RUSH_A_TENSOR && rush_is_number(in[0]);
    if (!first && !second) return op;
    for (const rush_op *o = rush_op_find(op->base); o; o = o->next) {
        if (o->nargs != op->nargs || o->args[first ? 0 : 1].type != RUSH_A_SCALAR || o->args[first ? 1 : 0].type != RUSH_A_TENSOR) continue;
        return o;
    }
    if (!first || (strcmp(op->name, "mul.Tensor") && strcmp(op->name, "add.Tensor"))) return op;
    rush_value number = in[0];
    in[0] = in[1];
    in[1] = number;
    return with_number(op, in);
}

RUSH_HOT rush_tensor *rush_apply(const rush_op *op, int n, const rush_value *in)
{
    rush_value all[64], out[RUSH_MAXOUT];
    if (RUSH_UNLIKELY(!op)) return rush_fail(RUSH_NOT_IMPLEMENTED, "there is no such operation"), NULL;
    if (RUSH_UNLIKELY(rush_now.mode & RUSH_MODE_WATCH) && !rush_failed()) {
        if (fill(op, n, in, all)) return NULL;
        op = with_number(op, all);
        return rush_call(op, all, out) ? NULL : first(op, out);
    }
    if (rush_failed() || (n != op->nargs && fill(op, n, in, all)) || rush_call(op, n == op->nargs ? in : all, out)) return NULL;
    return first(op, out);
}

RUSH_HOT static const rush_op *cached(const rush_op **cache, const char *name)
{
    const rush_op *op = __atomic_load_n(cache, __ATOMIC_RELAXED);
    if (RUSH_LIKELY(op != NULL)) return op;
    op = rush_op_find(name);
    if (!op) return rush_fail(RUSH_NOT_IMPLEMENTED, "no operation is called %s", name), NULL;
    __atomic_store_n(cache, op, __ATOMIC_RELAXED);
    return op;
}

RUSH_HOT rush_tensor *rush_apply_cached(const rush_op **cache, const char *name, int n, const rush_value *in)
{
    if (rush_failed()) return NULL;
    const rush_op *op = cached(cache, name);
    return op ? rush_apply(op, n, in) : NULL;
}

int rush_apply_all_cached(const rush_op **cache, const char *name, int n, const rush_value *in, rush_value *out)
{
    if (rush_failed()) return -1;
    const rush_op *op = cached(cache, name);
    rush_value all[64];
    if (!op || fill(op, n, in, all)) return -1;
    for (int i = 0; i < op->nout; ++i) out[i] = RUSH_NONE;
    return rush_call(op, all, out);
}

rush_tensor *rush_apply_inplace(const rush_op *op, int n, const rush_value *in)
{
    rush_value all[64], out[RUSH_MAXOUT] = {0};
    if (RUSH_UNLIKELY(!op)) return rush_fail(RUSH_NOT_IMPLEMENTED, "there is no such operation"), NULL;
    if (rush_failed() || fill(op, n, in, all)) return NULL;
    if (RUSH_UNLIKELY(rush_now.mode & RUSH_MODE_WATCH)) op = with_number(op, all);
    if (rush_call_inplace(op, all, out)) return NULL;
    return first(op, out);
}

rush_tensor *rush_apply_inplace_cached(const rush_op **cache, const char *name, int n, const rush_value *in)
{
    if (rush_failed()) return NULL;
    const rush_op *op = cached(cache, name);
    return op ? rush_apply_inplace(op, n, in) : NULL;
}

/* ---- words that are no operation of their own ---- */

rush_tensor *rush_sum_to(rush_tensor *a, const rush_tensor *like)
{
    if (!a || !like || rush_same_sizes(a, like)) return a;
    int64_t dims[RUSH_MAXDIM];
    int n = 0, lead = a->ndim - like->ndim;
    for (int d = 0; d < a->ndim; ++d)
        if (d < lead || (like->size[d - lead] == 1 && a->size[d] != 1)) dims[n++] = d;
    if (n) a = T("sum.dim_IntList", V(a), rush_v_ints(dims, n), V(true));
    if (a && lead > 0) a = T("view", V(a), rush_v_ints(like->size, like->ndim));
    return a;
}

static rush_tensor *zeroed(rush_tensor *t)
{
    if (t && RUSH_UNLIKELY(t->device.type)) return rush_device_fill(t, V((int64_t)0)) ? NULL : t;
    if (t) rush_clear(t);
    return t;
}

rush_tensor *rush_laid_plain(rush_tensor *t) { return !t || rush_contiguous(t) ? t : T("contiguous", V(t)); }

rush_tensor *rush_formula_zeros(rush_tensor *like)
{
    if (like && rush_is_watched(like)) return T("zeros_like", V(like));
    return zeroed(like ? rush_tensor_new_like(like, like->dtype, like->device, RUSH_PRESERVE) : NULL);
}

rush_tensor *rush_zeros_like(const rush_tensor *like)
{
    return zeroed(like ? rush_tensor_new(like->dtype, like->device, like->ndim, like->size) : NULL);
}
