/* reduce.c - sums, means, products, any, all, counts over all dims or some. How they run is in reduce_run.c. */
#include "op/formula.h"
#include "ops/reduce/reduce.h"

#define DIMS_OF(v) (v), true /* an empty list of dims means all */

/* ---- which fold ---- */

static int refuse(const char *what, const rush_tensor *x)
{
    return rush_fail(RUSH_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", what, rush_dtype_word(x->dtype));
}

static bool is_odd_type(rush_dtype d) { return d == RUSH_C32 || d > RUSH_C128; }

static const rush_fold *sum_fold(rush_dtype from, rush_dtype to)
{
    const struct rush_fold_sum_kernels *k = rush_k_fold_sum;
    switch (to) {
    case RUSH_C64: return &k->sum_c64;
    case RUSH_C128: return &k->sum_c128;
    case RUSH_F64: return &k->sum_f64;
    case RUSH_F32: case RUSH_F16: case RUSH_BF16: return from == RUSH_BF16 ? &k->sum_bf16 : &k->sum_f32;
    case RUSH_BOOL: return &k->any;
    default: return from == RUSH_BOOL || from == RUSH_U8 ? &k->sum_u8 : from == RUSH_I32 ? &k->sum_i32 : &k->sum_i64;
    }
}

static const rush_fold *prod_fold(rush_dtype to)
{
    const struct rush_fold_sum_kernels *k = rush_k_fold_sum;
    switch (to) {
    case RUSH_C64: return &k->prod_c64;
    case RUSH_C128: return &k->prod_c128;
    case RUSH_F64: return &k->prod_f64;
    case RUSH_F32: case RUSH_F16: case RUSH_BF16: return &k->prod_f32;
    case RUSH_BOOL: return &k->all;
    default: return &k->prod_i64;
    }
}

/* Sums of integers are int64 unless a dtype is asked for. */
static rush_dtype sum_dtype(const rush_tensor *x, rush_value dtype)
{
    if (HAS(dtype)) return (rush_dtype)dtype.i;
    return rush_dtypes[x->dtype].category < 2 ? RUSH_I64 : x->dtype;
}

/* A bool tensor's bytes are 0 or 1, so the fold for bytes reads them as they are. */
static const rush_value *as_bytes(const rush_value *in, const rush_fold *f, rush_value *room, rush_tensor *header)
{
    if (in[0].t->dtype != RUSH_BOOL || f->reads != RUSH_U8) return in;
    *header = *in[0].t;
    header->dtype = RUSH_U8;
    room[0] = in[0];
    room[0].t = header;
    return room;
}

RUSH_HOT static void run_sum(const rush_value *in, rush_value dims, rush_value *out, bool mean)
{
    rush_fold_arg arg = {.mean = mean};
    rush_value room[1];
    rush_tensor header;
    uint64_t bits;
    const rush_fold *f = sum_fold(in[0].t->dtype, out[0].t->dtype);
    if (rush_dims_read(dims, in[0].t->ndim, true, &bits)) return;
    if (mean) arg.count = (double)rush_reduced_count(in[0].t, bits);
    if (in[0].t->dtype == RUSH_F32 && out[0].t->dtype == RUSH_F32) {
        const rush_tensor *x = rush_plain(in[0].t);
        if (!x || rush_cascade_sum(x, bits, out[0].t, arg.count)) return;
    }
    rush_fold_op(f, as_bytes(in, f, room, &header), DIMS_OF(dims), out, 1, &arg);
}

/* ---- sum ---- */

static int sum_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_dtype d = sum_dtype(in[0].t, in[1]);
    if (is_odd_type(d)) return refuse("sum_cpu", in[0].t);
    return rush_reduced_out(out, 0, in[0].t, DIMS_OF(RUSH_NONE), false, d);
}
static void sum_cpu(const rush_op *op, const rush_value *in, rush_value *out) { run_sum(in, RUSH_NONE, out, false); }
static void sum_grad(rush_grads *s) { s->gin[0] = rush_spread(s->g[0], s->in[0].t, RUSH_NONE, false); }

static int sum_dims_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_dtype d = sum_dtype(in[0].t, in[3]);
    if (is_odd_type(d)) return refuse("sum_cpu", in[0].t);
    return rush_reduced_out(out, 0, in[0].t, DIMS_OF(in[1]), in[2].i, d);
}
static void sum_dims_cpu(const rush_op *op, const rush_value *in, rush_value *out) { run_sum(in, in[1], out, false); }
static void sum_dims_grad(rush_grads *s) { s->gin[0] = rush_spread(s->g[0], s->in[0].t, s->in[1], s->in[2].i); }

static rush_op op_sum = {
    .schema = "sum(Tensor self, *, ScalarType? dtype=None) -> Tensor", .method = RUSH_METHOD,
    .doc = "The sum of all elements. Integers and booleans are summed as int64. With dtype, elements are converted first.",
    .shape = sum_shape, .cpu = sum_cpu, .grad = sum_grad, .flags = RUSH_OUT_CASTS,
};
static rush_op op_sum_dim = {
    .schema = "sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    .doc = "The sum over dim, one dim or several; over all when dim is None or empty. keepdim leaves them with size 1.",
    .shape = sum_dims_shape, .cpu = sum_dims_cpu, .grad = sum_dims_grad, .flags = RUSH_OUT_CASTS,
};

/* ---- nansum, nanmean ---- */

static int nansum_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *x = in[0].t;
    rush_dtype d = sum_dtype(x, in[3]);
    RUSH_CHECK(!rush_dtype_is_complex(x->dtype), RUSH_RUNTIME_ERROR, "nansum on CPU does not support complex inputs");
    RUSH_CHECK(rush_dtypes[x->dtype].category < 2 || !rush_dtype_is_complex(d), RUSH_NOT_IMPLEMENTED, "\"nansum_cpu\" not implemented for '%s'", rush_dtype_word(d));
    return sum_dims_shape(op, in, out);
}

static void nansum_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_dtype to = out[0].t->dtype;
    if (!rush_dtype_is_float(in[0].t->dtype) || !rush_dtype_is_float(to)) run_sum(in, in[1], out, false);
    else rush_fold_op(to == RUSH_F64 ? &rush_k_fold_sum->nansum_f64 : &rush_k_fold_sum->nansum_f32, in, DIMS_OF(in[1]), out, 1, NULL);
}

static void nansum_grad(rush_grads *s)
{
    rush_tensor *x = s->in[0].t;
    rush_tensor *nan = WORD1(isnan, x);
    s->gin[0] = T_INPLACE("masked_fill.Scalar", V(mul(rush_spread(s->g[0], x, s->in[1], s->in[2].i), logical_not(nan))), V(nan), V(0.0)); /* the product alone would let a tangent's NaN in */
}

static rush_op op_nansum = {
    .schema = "nansum(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", .method = RUSH_METHOD,
    .doc = "The sum over dim (default: all), NaN counting as 0.",
    .shape = nansum_shape, .cpu = nansum_cpu, .grad = nansum_grad, .saves = "self", .flags = RUSH_OUT_CASTS | RUSH_OUT_KIND,
};

static int nanmean_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t;
    RUSH_CHECK(rush_dtypes[x->dtype].category >= 2, RUSH_RUNTIME_ERROR,
               "nanmean(): expected input to have floating point or complex dtype but got %s", rush_dtype_word(x->dtype));
    rush_tensor *count = T("sum.dim_IntList", V(logical_not(WORD1(isnan, x))), in[1], in[2]);
    return rush_result(out, div_(T("nansum", in[0], in[1], in[2], in[3]), count));
}

static rush_op op_nanmean = {
    .schema = "nanmean(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", .method = RUSH_METHOD,
    .doc = "The mean over dim (default: all) of the elements that are not NaN.",
    .run = nanmean_run, .flags = RUSH_OUT_CASTS,
};

/* ---- mean ---- */

static int mean_out(const rush_value *in, rush_value *out, rush_value dims, bool keepdim, rush_value dtype)
{
    rush_dtype d = HAS(dtype) ? (rush_dtype)dtype.i : in[0].t->dtype;
    RUSH_CHECK(rush_dtypes[d].category >= 2, RUSH_RUNTIME_ERROR,
               "mean(): could not infer output dtype. %s dtype must be either a floating point or complex dtype. Got: %s",
               HAS(dtype) ? "Optional" : "Input", rush_dtype_word(d));
    if (is_odd_type(d)) return refuse("sum_cpu", in[0].t);
    return rush_reduced_out(out, 0, in[0].t, DIMS_OF(dims), keepdim, d);
}

static int mean_shape(const rush_op *op, const rush_value *in, rush_value *out) { return mean_out(in, out, RUSH_NONE, false, in[1]); }
static int mean_dims_shape(const rush_op *op, const rush_value *in, rush_value *out) { return mean_out(in, out, in[1], in[2].i, in[3]); }
static void mean_cpu(const rush_op *op, const rush_value *in, rush_value *out) { run_sum(in, RUSH_NONE, out, true); }
static void mean_dims_cpu(const rush_op *op, const rush_value *in, rush_value *out) { run_sum(in, in[1], out, true); }

static rush_tensor *mean_gradient(rush_grads *s, rush_value dims, bool keepdim)
{
    uint64_t bits;
    if (rush_dims_read(dims, s->in[0].t->ndim, true, &bits)) return NULL;
    return div_(rush_spread(s->g[0], s->in[0].t, dims, keepdim), rush_reduced_count(s->in[0].t, bits));
}
static void mean_grad(rush_grads *s) { s->gin[0] = mean_gradient(s, RUSH_NONE, false); }
static void mean_dims_grad(rush_grads *s) { s->gin[0] = mean_gradient(s, s->in[1], s->in[2].i); }

static rush_op op_mean = {
    .schema = "mean(Tensor self, *, ScalarType? dtype=None) -> Tensor", .method = RUSH_METHOD,
    .doc = "The mean of all elements, which must be of a floating or complex type (or dtype is).",
    .shape = mean_shape, .cpu = mean_cpu, .grad = mean_grad, .flags = RUSH_OUT_CASTS,
};
static rush_op op_mean_dim = {
    .schema = "mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    .doc = "The mean over dim, one dim or several; over all when dim is None or empty.",
    .shape = mean_dims_shape, .cpu = mean_dims_cpu, .grad = mean_dims_grad, .flags = RUSH_OUT_CASTS,
};

/* ---- prod ---- */

static int prod_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_dtype d = sum_dtype(in[0].t, in[1]);
    if (is_odd_type(d)) return refuse("prod_out_cpu", in[0].t);
    return rush_reduced_out(out, 0, in[0].t, DIMS_OF(RUSH_NONE), false, d);
}

static int prod_dim_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_dtype d = sum_dtype(in[0].t, in[3]);
    if (is_odd_type(d)) return refuse("prod_out_cpu", in[0].t);
    return rush_reduced_out(out, 0, in[0].t, in[1], false, in[2].i, d);
}

static void prod_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_fold_op(prod_fold(out[0].t->dtype), in, DIMS_OF(RUSH_NONE), out, 1, NULL);
}

static void prod_dim_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_fold_op(prod_fold(out[0].t->dtype), in, in[1], false, out, 1, NULL);
}

/* Along dim, the product of all elements before each one. */
static rush_tensor *product_before(rush_tensor *x, int64_t dim)
{
    if (!x) return NULL;
    rush_tensor *first = T("narrow", V(x), V(dim), V((int64_t)0), V((int64_t)1));
    rush_tensor *rest = T("narrow", V(x), V(dim), V((int64_t)0), V(x->size[dim] - 1));
    rush_tensor *both[2] = {ones_like(first), rest};
    if (rush_failed()) return NULL;
    rush_tensor *shifted = T("cat", rush_v_tensors(both, 2), V(dim));
    return T("cumprod", V(shifted), V(dim));
}

/* The product of all other elements: what is before times what is after, which holds with zeros among them. */
static rush_tensor *product_of_others(rush_tensor *x, int64_t dim)
{
    rush_tensor *before = product_before(x, dim);
    rush_tensor *after = product_before(T("flip", V(x), INTS(dim)), dim);
    return mul(before, T("flip", V(after), INTS(dim)));
}

static void prod_grad(rush_grads *s)
{
    rush_tensor *x = s->in[0].t, *g = s->g[0];
    if (x->ndim == 0) {
        s->gin[0] = rush_spread(g, x, RUSH_NONE, false);
        return;
    }
    if (x->numel == 0) {
        s->gin[0] = rush_zeros_like(x);
        return;
    }
    rush_tensor *flat = T("reshape", V(x), INTS(-1));
    if (flat && flat->dtype != g->dtype) flat = to_dtype(flat, g->dtype);
    rush_tensor *others = flat ? product_of_others(flat, 0) : NULL;
    rush_tensor *gx = mul(g, conj_(others));
    gx = gx ? reshape_to(gx, x) : NULL;
    s->gin[0] = gx && gx->dtype != x->dtype ? to_dtype(gx, x->dtype) : gx;
}

static void prod_dim_grad(rush_grads *s)
{
    rush_tensor *x = s->in[0].t, *g = s->g[0];
    if (x->numel == 0) {
        s->gin[0] = rush_zeros_like(x);
        return;
    }
    int dim = rush_dim_wrap(s->in[1].i, x->ndim);
    if (x->ndim == 0) {
        s->gin[0] = rush_spread(g, x, RUSH_NONE, false);
        return;
    }
    g = rush_restore_dims(g, x, (uint64_t)1 << dim, s->in[2].i);
    if (g && x->dtype != g->dtype) x = to_dtype(x, g->dtype);
    rush_tensor *gx = mul(g, conj_(product_of_others(x, dim)));
    s->gin[0] = gx && gx->dtype != s->in[0].t->dtype ? to_dtype(gx, s->in[0].t->dtype) : gx;
}

static rush_op op_prod = {
    .schema = "prod(Tensor self, *, ScalarType? dtype=None) -> Tensor", .method = RUSH_METHOD,
    .doc = "The product of all elements. Integers and booleans are multiplied as int64.",
    .shape = prod_shape, .cpu = prod_cpu, .grad = prod_grad, .saves = "self", .flags = RUSH_AUTOCAST_F32 | RUSH_OUT_CASTS,
};
static rush_op op_prod_dim = {
    .schema = "prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    .doc = "The product over dim.",
    .shape = prod_dim_shape, .cpu = prod_dim_cpu, .grad = prod_dim_grad, .saves = "self", .flags = RUSH_AUTOCAST_F32 | RUSH_OUT_CASTS,
};

/* ---- any, all: bool, but uint8 for uint8; an out= may be either ---- */

static int truth_out(const rush_value *in, rush_value *out, rush_value dims, bool keepdim)
{
    return rush_reduced_out(out, 0, in[0].t, dims, false, keepdim, in[0].t->dtype == RUSH_U8 ? RUSH_U8 : RUSH_BOOL);
}

static int truth_shape(const rush_op *op, const rush_value *in, rush_value *out) { return truth_out(in, out, RUSH_NONE, false); }
static int truth_dim_shape(const rush_op *op, const rush_value *in, rush_value *out) { return truth_out(in, out, in[1], in[2].i); }
static void any_cpu(const rush_op *op, const rush_value *in, rush_value *out) { rush_fold_op(&rush_k_fold_sum->any, in, RUSH_NONE, false, out, 1, NULL); }
static void all_cpu(const rush_op *op, const rush_value *in, rush_value *out) { rush_fold_op(&rush_k_fold_sum->all, in, RUSH_NONE, false, out, 1, NULL); }
static void any_dim_cpu(const rush_op *op, const rush_value *in, rush_value *out) { rush_fold_op(&rush_k_fold_sum->any, in, in[1], false, out, 1, NULL); }
static void all_dim_cpu(const rush_op *op, const rush_value *in, rush_value *out) { rush_fold_op(&rush_k_fold_sum->all, in, in[1], false, out, 1, NULL); }

/* ---- hash_tensor: the exclusive or of all bits, of elements as int64 or, if they have a point, as float64 ---- */

static int hash_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *x = in[0].t;
    RUSH_CHECK(in[3].i == 0, RUSH_RUNTIME_ERROR, "Unknown hash_tensor mode");
    RUSH_CHECK(!rush_dtype_is_complex(x->dtype), RUSH_NOT_IMPLEMENTED, "\"hash_tensor\" not implemented for '%s'", rush_dtype_word(x->dtype));
    RUSH_CHECK(x->numel || in[1].n, RUSH_RUNTIME_ERROR,
               "Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument.");
    return rush_reduced_out(out, 0, x, DIMS_OF(in[1]), in[2].i, RUSH_U64);
}

static void hash_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *wide = rush_cast_copy(in[0].t, rush_dtypes[in[0].t->dtype].category < 2 ? RUSH_I64 : RUSH_F64), bits;
    if (!wide) return;
    bits = *wide;
    bits.dtype = RUSH_I64;
    rush_fold_op(&rush_k_fold_sum->xor_i64, (rush_value[]){V(&bits)}, DIMS_OF(in[1]), out, 1, NULL);
}

static rush_op op_hash_tensor = {
    .schema = "hash_tensor(Tensor self, int[1] dim=[], *, bool keepdim=False, int mode=0) -> Tensor", .method = RUSH_METHOD,
    .doc = "The exclusive or of the bits of all elements, or of those along dim: a quick look whether two tensors are the same.",
    .shape = hash_shape, .cpu = hash_cpu, .flags = RUSH_NO_GRAD,
};

static rush_op op_any = {
    .schema = "any(Tensor self) -> Tensor", .method = RUSH_METHOD,
    .doc = "Is any element not zero?",
    .shape = truth_shape, .cpu = any_cpu, .flags = RUSH_NO_GRAD | RUSH_OUT_TRUTH,
};
static rush_op op_any_dim = {
    .schema = "any.dim(Tensor self, int dim, bool keepdim=False) -> Tensor",
    .doc = "Is any element along dim not zero?",
    .shape = truth_dim_shape, .cpu = any_dim_cpu, .flags = RUSH_NO_GRAD | RUSH_OUT_TRUTH,
};
static rush_op op_any_dims = {
    .schema = "any.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor",
    .doc = "Is any element over these dims not zero? No dims, an empty list, leaves each element to itself.",
    .shape = truth_dim_shape, .cpu = any_dim_cpu, .flags = RUSH_NO_GRAD | RUSH_OUT_TRUTH,
};
static rush_op op_all = {
    .schema = "all(Tensor self) -> Tensor", .method = RUSH_METHOD,
    .doc = "Are all elements not zero?",
    .shape = truth_shape, .cpu = all_cpu, .flags = RUSH_NO_GRAD | RUSH_OUT_TRUTH,
};
static rush_op op_all_dim = {
    .schema = "all.dim(Tensor self, int dim, bool keepdim=False) -> Tensor",
    .doc = "Are all elements along dim not zero?",
    .shape = truth_dim_shape, .cpu = all_dim_cpu, .flags = RUSH_NO_GRAD | RUSH_OUT_TRUTH,
};
static rush_op op_all_dims = {
    .schema = "all.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor",
    .doc = "Are all elements over these dims not zero? No dims, an empty list, leaves each element to itself.",
    .shape = truth_dim_shape, .cpu = all_dim_cpu, .flags = RUSH_NO_GRAD | RUSH_OUT_TRUTH,
};

/* ---- count_nonzero ---- */

static int count_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *set = in[0].t->dtype == RUSH_BOOL ? in[0].t : T("ne.Scalar", in[0], V((int64_t)0));
    rush_value dims = in[1].kind == RUSH_V_INT ? rush_v_ints(&in[1].i, 1) : in[1];
    return rush_result(out, T("sum.dim_IntList", V(set), dims));
}

static rush_op op_count = {
    .schema = "count_nonzero(Tensor self, int? dim=None) -> Tensor", .method = RUSH_METHOD,
    .doc = "How many elements are not zero, along dim or in all.",
    .run = count_run, .flags = RUSH_NO_GRAD,
};
static rush_op op_count_dims = {
    .schema = "count_nonzero.dim_IntList(Tensor self, int[] dim) -> Tensor",
    .doc = "How many elements over these dims are not zero.",
    .run = count_run, .flags = RUSH_NO_GRAD,
};

/* ---- trace ---- */

static int trace_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t;
    RUSH_CHECK(x->ndim == 2, RUSH_RUNTIME_ERROR, "trace: expected a matrix, but got tensor with dim %d", x->ndim);
    if (x->dtype == RUSH_BOOL || is_odd_type(x->dtype)) return refuse("trace", x);
    return rush_result(out, sum_all(T("diagonal", in[0])));
}

static rush_op op_trace = {
    .schema = "trace(Tensor self) -> Tensor", .method = RUSH_METHOD, .node = "TraceBackward0",
    .doc = "The sum of a matrix' diagonal.",
    .run = trace_run, .flags = RUSH_AUTOCAST_F32 | RUSH_WHOLE,
};

RUSH_FAMILY(reduce, &op_hash_tensor, &op_sum, &op_sum_dim, &op_nansum, &op_nanmean, &op_mean, &op_mean_dim, &op_prod, &op_prod_dim, &op_any,
            &op_any_dim, &op_any_dims, &op_all, &op_all_dim, &op_all_dims, &op_count, &op_count_dims, &op_trace)
