/* extremes.c - the largest and the smallest element, with its index or without. NaN beats all. */
#include "ops/elementwise/pointwise.h"
#include "op/formula.h"
#include "ops/reduce/reduce.h"

/* ---- which fold ---- */

#define CHOOSE(kind)                                                                                        \
    static const rush_fold *kind##_fold(rush_dtype d)                                                       \
    {                                                                                                       \
        const struct rush_fold_best_kernels *k = rush_k_fold_best;                                          \
        switch (d) {                                                                                        \
        case RUSH_BOOL: case RUSH_U8: return &k->kind##_u8;                                                 \
        case RUSH_I8: case RUSH_I16: case RUSH_I32: return &k->kind##_i32;                                  \
        case RUSH_F64: return &k->kind##_f64;                                                               \
        case RUSH_F32: case RUSH_F16: case RUSH_BF16: return &k->kind##_f32;                                \
        default: return &k->kind##_i64;                                                                     \
        }                                                                                                   \
    }
CHOOSE(max)
CHOOSE(min)
CHOOSE(argmax)
CHOOSE(argmin)

/* Bool bytes are read as they are. */
static const rush_tensor *readable(const rush_tensor *x, const rush_fold *f, rush_tensor *header)
{
    x = rush_plain(x);
    if (!x || x->dtype != RUSH_BOOL || f->reads != RUSH_U8) return x;
    *header = *x;
    header->dtype = RUSH_U8;
    return header;
}

/* The fold of bytes writes bytes; so must a bool result take them. */
static void fold_into(const rush_fold *f, const rush_tensor *self, rush_value dims, bool empty_is_all, rush_tensor *first, rush_tensor *second)
{
    rush_tensor header, result;
    rush_fold_arg none = {0};
    uint64_t bits;
    const rush_tensor *x = readable(self, f, &header);
    if (!x || rush_dims_read(dims, x->ndim, empty_is_all, &bits)) return;
    if (first && first->dtype == RUSH_BOOL && f->writes[0] == RUSH_U8) {
        result = *first;
        result.dtype = RUSH_U8;
        first = &result;
    }
    rush_fold_run(f, x, bits, (rush_tensor *const[2]){first, second}, &none);
}

/* ---- checks ---- */

static int ordered(const rush_tensor *x, const char *kernel)
{
    RUSH_CHECK(!x->numel ||
                   (rush_dtypes[x->dtype].category < 3 && x->dtype <= RUSH_F64 && !(x->dtype >= RUSH_U16 && x->dtype <= RUSH_U64)),
               RUSH_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", kernel, rush_dtype_word(x->dtype));
    return 0;
}

static int not_empty_all(const rush_tensor *x)
{
    RUSH_CHECK(x->numel, RUSH_RUNTIME_ERROR,
               "Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument.");
    return 0;
}

static int not_empty_dim(const rush_tensor *x, uint64_t dims)
{
    for (int d = 0; d < x->ndim; ++d)
        RUSH_CHECK(!(dims >> d & 1) || x->size[d], RUSH_INDEX_ERROR, "Expected reduction dim %d to have non-zero size.", d);
    return 0;
}

/* ---- derivatives ---- */

/* g shared equally among the elements that equal the result (or are NaN, where it is). */
static rush_tensor *share(rush_tensor *g, rush_tensor *x, rush_tensor *result, rush_value dims, bool keepdim)
{
    uint64_t bits;
    int64_t list[RUSH_MAXDIM];
    int n = 0;
    if (!g || rush_failed() || rush_dims_read(dims, x->ndim, true, &bits)) return NULL;
    for (int d = 0; d < x->ndim; ++d)
        if (bits >> d & 1) list[n++] = d;
    g = rush_restore_dims(g, x, bits, keepdim);
    result = rush_restore_dims(result, x, bits, keepdim);
    rush_tensor *mask = eq(result, x);
    return n ? div_(mul(mask, g), T("sum.dim_IntList", V(mask), rush_v_ints(list, n), V(true))) : mul(mask, g);
}

rush_tensor *rush_share_all(rush_tensor *g, rush_tensor *x, rush_tensor *mask)
{
    return T("masked_fill.Tensor", V(zeros_like(x)), V(mask), V(div_(g, sum_all(mask))));
}

static rush_tensor *share_all(rush_tensor *g, rush_tensor *x, rush_tensor *result)
{
    if (rush_failed()) return NULL;
    double best = rush_number_of(result);
    rush_tensor *mask = best == best ? eq(x, result) : WORD1(isnan, x);
    return rush_share_all(g, x, mask);
}

/* ---- amax, amin ---- */

static int best_shape(const rush_value *in, rush_value *out, const char *kernel)
{
    uint64_t bits;
    const rush_tensor *x = in[0].t;
    if (ordered(x, kernel) || rush_dims_read(in[1], x->ndim, true, &bits)) return -1;
    if (!x->numel && (in[1].n == 0 ? not_empty_all(x) : not_empty_dim(x, bits))) return -1;
    return rush_reduced_out(out, 0, x, in[1], true, in[2].i, x->dtype);
}

static int amax_shape(const rush_op *op, const rush_value *in, rush_value *out) { return best_shape(in, out, "max_values_cpu"); }
static int amin_shape(const rush_op *op, const rush_value *in, rush_value *out) { return best_shape(in, out, "min_values_cpu"); }
static void amax_cpu(const rush_op *op, const rush_value *in, rush_value *out) { fold_into(max_fold(in[0].t->dtype), in[0].t, in[1], true, out[0].t, NULL); }
static void amin_cpu(const rush_op *op, const rush_value *in, rush_value *out) { fold_into(min_fold(in[0].t->dtype), in[0].t, in[1], true, out[0].t, NULL); }
static void amax_grad(rush_grads *s) { s->gin[0] = share(s->g[0], s->in[0].t, s->out[0].t, s->in[1], s->in[2].i); }

static rush_op op_amax = {
    .schema = "amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor", .method = RUSH_METHOD,
    .doc = "The largest element over dim, one dim or several (default: all). Equal elements share the gradient.",
    .shape = amax_shape, .cpu = amax_cpu, .grad = amax_grad, .saves = "self, result",
};
static rush_op op_amin = {
    .schema = "amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor", .method = RUSH_METHOD,
    .doc = "The smallest element over dim, one dim or several (default: all). Equal elements share the gradient.",
    .shape = amin_shape, .cpu = amin_cpu, .grad = amax_grad, .saves = "self, result",
};

/* ---- max, min of all ---- */

static int max_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    return not_empty_all(in[0].t) || ordered(in[0].t, "max_all") ? -1 : rush_reduced_out(out, 0, in[0].t, RUSH_NONE, true, false, in[0].t->dtype);
}
static int min_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    return not_empty_all(in[0].t) || ordered(in[0].t, "min_all") ? -1 : rush_reduced_out(out, 0, in[0].t, RUSH_NONE, true, false, in[0].t->dtype);
}
static void max_cpu(const rush_op *op, const rush_value *in, rush_value *out) { fold_into(max_fold(in[0].t->dtype), in[0].t, RUSH_NONE, true, out[0].t, NULL); }
static void min_cpu(const rush_op *op, const rush_value *in, rush_value *out) { fold_into(min_fold(in[0].t->dtype), in[0].t, RUSH_NONE, true, out[0].t, NULL); }
static void max_grad(rush_grads *s) { s->gin[0] = share_all(s->g[0], s->in[0].t, s->out[0].t); }

static rush_op op_max = {
    .schema = "max(Tensor self) -> Tensor", .node = "MaxBackward1",
    .doc = "The largest of all elements.",
    .shape = max_shape, .cpu = max_cpu, .grad = max_grad, .saves = "self, result", .flags = RUSH_OUT_CASTS,
};
static rush_op op_min = {
    .schema = "min(Tensor self) -> Tensor", .node = "MinBackward1",
    .doc = "The smallest of all elements.",
    .shape = min_shape, .cpu = min_cpu, .grad = max_grad, .saves = "self, result", .flags = RUSH_OUT_CASTS,
};

/* ---- max, min along a dim, with indices ---- */

static int max_dim_out(const rush_value *in, rush_value *out, const char *kernel)
{
    const rush_tensor *x = in[0].t;
    uint64_t bits;
    if (rush_dims_read(in[1], x->ndim, false, &bits) || not_empty_dim(x, bits)) return -1;
    RUSH_CHECK(!rush_dtype_is_complex(x->dtype), RUSH_RUNTIME_ERROR, "does not support complex input");
    if (ordered(x, kernel)) return -1;
    return rush_reduced_out(out, 0, x, in[1], false, in[2].i, x->dtype) || rush_reduced_out(out, 1, x, in[1], false, in[2].i, RUSH_I64);
}

static int max_dim_shape(const rush_op *op, const rush_value *in, rush_value *out) { return max_dim_out(in, out, "max_cpu"); }
static int min_dim_shape(const rush_op *op, const rush_value *in, rush_value *out) { return max_dim_out(in, out, "min_cpu"); }
static void max_dim_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    fold_into(argmax_fold(in[0].t->dtype), in[0].t, in[1], false, out[0].t, out[1].t);
}
static void min_dim_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    fold_into(argmin_fold(in[0].t->dtype), in[0].t, in[1], false, out[0].t, out[1].t);
}
static void max_dim_grad(rush_grads *s) { s->gin[0] = rush_put_back(s->g[0], s->in[0].t, s->out[1].t, s->in[1].i, s->in[2].i); }

static rush_op op_max_dim = {
    .schema = "max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)", .node = "MaxBackward0",
    .doc = "The largest element along dim and its index, the first of equal ones.",
    .shape = max_dim_shape, .cpu = max_dim_cpu, .grad = max_dim_grad, .saves = "result1",
};
static rush_op op_min_dim = {
    .schema = "min.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)", .node = "MinBackward0",
    .doc = "The smallest element along dim and its index, the first of equal ones.",
    .shape = min_dim_shape, .cpu = min_dim_cpu, .grad = max_dim_grad, .saves = "result1",
};

/* ---- argmax, argmin ---- */

static int arg_out(const rush_value *in, rush_value *out, const char *kernel)
{
    const rush_tensor *x = in[0].t;
    uint64_t bits = 0;
    RUSH_CHECK(x->dtype != RUSH_BOOL, RUSH_RUNTIME_ERROR, "does not support bool input");
    RUSH_CHECK(!rush_dtype_is_complex(x->dtype), RUSH_RUNTIME_ERROR, "does not support complex input");
    if (HAS(in[1]) && (rush_dims_read(in[1], x->ndim, false, &bits) || not_empty_dim(x, bits))) return -1;
    RUSH_CHECK(HAS(in[1]) || x->numel, RUSH_INDEX_ERROR, "Expected reduction dim to be specified for input.numel() == 0.");
    return ordered(x, kernel) || rush_reduced_out(out, 0, x, in[1], false, in[2].i, RUSH_I64);
}

static int argmax_shape(const rush_op *op, const rush_value *in, rush_value *out) { return arg_out(in, out, "argmax_cpu"); }
static int argmin_shape(const rush_op *op, const rush_value *in, rush_value *out) { return arg_out(in, out, "argmin_cpu"); }

static void run_arg(const rush_fold *f, const rush_value *in, rush_value *out)
{
    /* over all dims the index counts elements in order */
    const rush_tensor *x = HAS(in[1]) ? in[0].t : rush_contiguous_copy(in[0].t);
    if (x) fold_into(f, x, in[1], true, NULL, out[0].t);
}
static void argmax_cpu(const rush_op *op, const rush_value *in, rush_value *out) { run_arg(argmax_fold(in[0].t->dtype), in, out); }
static void argmin_cpu(const rush_op *op, const rush_value *in, rush_value *out) { run_arg(argmin_fold(in[0].t->dtype), in, out); }

static rush_op op_argmax = {
    .schema = "argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor", .method = RUSH_METHOD,
    .doc = "The index of the largest element along dim, or in the flattened tensor; the first of equal ones.",
    .shape = argmax_shape, .cpu = argmax_cpu, .flags = RUSH_NO_GRAD,
};
static rush_op op_argmin = {
    .schema = "argmin(Tensor self, int? dim=None, bool keepdim=False) -> Tensor", .method = RUSH_METHOD,
    .doc = "The index of the smallest element along dim, or in the flattened tensor; the first of equal ones.",
    .shape = argmin_shape, .cpu = argmin_cpu, .flags = RUSH_NO_GRAD,
};

/* ---- aminmax ---- */

static int aminmax_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *x = in[0].t;
    uint64_t bits;
    if (HAS(in[1])) {
        if (rush_dims_read(in[1], x->ndim, false, &bits) || not_empty_dim(x, bits)) return -1;
    } else {
        RUSH_CHECK(x->numel, RUSH_RUNTIME_ERROR, "cannot compute aminmax over an empty dimension as the operation has no identity.");
    }
    RUSH_CHECK(!HAS(in[1]) || x->ndim || !rush_dtype_is_complex(x->dtype), RUSH_RUNTIME_ERROR, "not implemented for %s", rush_dtype_word(x->dtype));
    if (ordered(x, "aminmax_cpu")) return -1;
    return rush_reduced_out(out, 0, x, in[1], true, in[2].i, x->dtype) || rush_reduced_out(out, 1, x, in[1], true, in[2].i, x->dtype);
}

static void aminmax_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    fold_into(min_fold(in[0].t->dtype), in[0].t, in[1], true, out[0].t, NULL);
    fold_into(max_fold(in[0].t->dtype), in[0].t, in[1], true, out[1].t, NULL);
}

static void aminmax_grad(rush_grads *s)
{
    rush_tensor *low = share(s->g[0], s->in[0].t, s->out[0].t, s->in[1], s->in[2].i);
    rush_tensor *high = share(s->g[1], s->in[0].t, s->out[1].t, s->in[1], s->in[2].i);
    s->gin[0] = low && high ? add(low, high) : low ? low : high;
}

static rush_op op_aminmax = {
    .schema = "aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)", .method = RUSH_METHOD,
    .doc = "The smallest and the largest element, over dim or of all.",
    .shape = aminmax_shape, .cpu = aminmax_cpu, .grad = aminmax_grad, .saves = "self, result0, result1", .flags = RUSH_OUT_APART,
};

RUSH_FAMILY(extremes, &op_amax, &op_amin, &op_max, &rush_op_max_other, &op_max_dim, &op_min,
            &rush_op_min_other, &op_min_dim, &op_argmax, &op_argmin, &op_aminmax)
