/* covariance.c - cov and corrcoef; a tensor's one element as a number. */
#include "op/formula.h"
#include "ops/reduce/reduce.h"
#include "tensor/backend.h"
#include <math.h>

/* ---- cov: in = self, correction, fweights, aweights ---- */

static int check_weights(const char *name, rush_tensor *w, int64_t observations, bool integers)
{
    if (!w) return 0;
    RUSH_CHECK(w->ndim <= 1, RUSH_RUNTIME_ERROR, "cov(): expected %s to have one or fewer dimensions but got %s with %d dimensions", name, name, w->ndim);
    RUSH_CHECK(integers ? rush_dtype_is_integer(w->dtype) : rush_dtype_is_float(w->dtype), RUSH_RUNTIME_ERROR,
               "cov(): expected %s to have %s dtype but got %s with %s dtype", name, integers ? "integral" : "floating point", name, rush_dtype_word(w->dtype));
    RUSH_CHECK(w->numel == observations, RUSH_RUNTIME_ERROR,
               "cov(): expected %s to have the same numel as there are observations in the input but got %lld != %lld", name, (long long)w->numel,
               (long long)observations);
    rush_tensor *least = w->numel ? T("amin", V(w)) : NULL;
    return rush_failed() || (least && TN(NULL, "_assert_async.msg", V(ge(least, 0)), V(integers ? "cov(): fweights cannot be negative"
                                                                                       : "cov(): aweights cannot be negative"))) ? -1 : 0;
}

static int cov_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t, *fw = T_(in[2]), *aw = T_(in[3]), *w = NULL;
    double correction = (double)in[1].i;
    RUSH_CHECK(x->ndim <= 2, RUSH_RUNTIME_ERROR, "cov(): expected input to have two or fewer dimensions but got an input with %d dimensions", x->ndim);
    RUSH_CHECK(x->dtype != RUSH_BOOL, RUSH_RUNTIME_ERROR, "cov(): bool dtype is not supported for input");
    bool flat = x->ndim < 2;
    if (flat) x = T("reshape", V(x), INTS(1, -1));
    if (x && rush_dtypes[x->dtype].category < 2) x = to_dtype(x, rush_default_dtype());
    if (!x) return -1;
    int64_t n = x->size[1];
    if (check_weights("fweights", fw, n, true) || check_weights("aweights", aw, n, false)) return -1;
    if (fw && aw) w = mul(fw, aw);
    else w = fw ? fw : aw;
    rush_tensor *factor, *mean;
    if (w) {
        rush_tensor *total = sum_all(w);
        if (!total || TN(out, "_assert_async.msg", V(ne(total, 0)), V("cov(): fweights and aweights sum to zero, can't be normalized"))) return -1;
        mean = div_(sum_dim(mul(x, w), 1, true), total);
        factor = aw && correction != 0 ? sub(total, mul(correction, div_(sum_all(mul(w, aw)), total))) : sub(total, correction);
        factor = T("clamp_min", V(factor), V(0));
    } else {
        mean = T("mean.dim", V(x), INTS(1), V(true));
        factor = rush_tensor_of_number(rush_v_float((double)n - correction > 0 ? (double)n - correction : 0), true);
    }
    if (!w && (double)n - correction <= 0)
        rush_log(1, "cov(): degrees of freedom is <= 0. Correction should be strictly less than the number of observations.");
    rush_tensor *c = sub(x, mean);
    rush_tensor *weighted = w ? mul(c, w) : c;
    rush_tensor *y = div_(matmul(c, conj_(transpose(weighted, 0, 1))), factor);
    return rush_result(out, flat && y ? T("reshape", V(y), rush_v_ints(NULL, 0)) : T("squeeze", V(y)));
}

static rush_op op_cov = {
    .schema = "cov(Tensor self, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None) -> Tensor", .method = RUSH_METHOD,
    .doc = "The covariance matrix of variables, which are rows, from observations, which are columns. fweights say how often each "
           "observation was made, aweights how much each counts.",
    .run = cov_run,
};

static int corrcoef_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(in[0].t->ndim <= 2, RUSH_RUNTIME_ERROR, "corrcoef(): expected input to have two or fewer dimensions but got an input with %d dimensions",
               in[0].t->ndim);
    rush_tensor *c = T("cov", in[0]);
    if (!c) return -1;
    if (c->ndim == 0) return rush_result(out, div_(c, c));
    bool complex = rush_dtype_is_complex(c->dtype);
    rush_tensor *d = T("diagonal", V(c));
    rush_tensor *sigma = sqrt_(complex ? WORD1(real, d) : d);
    c = div_(div_(c, T("view", V(sigma), INTS(-1, 1))), T("view", V(sigma), INTS(1, -1)));
    if (!complex) return rush_result(out, T("clamp", V(c), V(-1), V(1)));
    return rush_result(out, WORD2(complex, T("clamp", V(WORD1(real, c)), V(-1), V(1)), T("clamp", V(WORD1(imag, c)), V(-1), V(1))));
}

static rush_op op_corrcoef = {
    .schema = "corrcoef(Tensor self) -> Tensor", .method = RUSH_METHOD,
    .doc = "Pearson's correlation coefficients of variables, which are rows: cov over the deviations.",
    .run = corrcoef_run,
};

/* ---- one element as a number ---- */

static int item_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *x = in[0].t;
    RUSH_CHECK(x->numel == 1, RUSH_RUNTIME_ERROR, "a Tensor with %lld elements cannot be converted to Scalar", (long long)x->numel);
    RUSH_CHECK(x->device.type != RUSH_META, RUSH_RUNTIME_ERROR, "Tensor.item() cannot be called on meta tensors");
    return 0;
}

static void item_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *x = in[0].t;
    if (rush_dtype_is_complex(x->dtype)) {
        rush_value v = {.kind = RUSH_V_COMPLEX};
        const rush_tensor *plain = rush_plain(x);
        if (!plain) return;
        rush_convert(v.c, RUSH_C128, 16, rush_ptr(plain), plain->dtype, 16, 1);
        out[0] = v;
    } else if (rush_dtypes[x->dtype].category == 2) {
        out[0] = rush_v_float(rush_item(x));
    } else {
        out[0] = x->dtype == RUSH_BOOL ? rush_v_bool(rush_item_int(x)) : rush_v_int(rush_item_int(x));
    }
}

static rush_op op_item = {
    .schema = "item(Tensor self) -> Scalar", .method = RUSH_NO_FUNCTION, .doc = "The one element as a number.", .shape = item_shape, .cpu = item_cpu,
    .flags = RUSH_NO_GRAD | RUSH_DATA_SIZED,
};
static rush_op op_local_scalar = {
    .schema = "_local_scalar_dense(Tensor self) -> Scalar", .doc = "item.", .shape = item_shape, .cpu = item_cpu,
    .flags = RUSH_NO_GRAD | RUSH_DATA_SIZED | RUSH_HIDDEN,
};

static void int_list_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *t = rush_contiguous_copy(in[0].t);
    int64_t *list = t ? rush_scope_alloc(sizeof *list * (size_t)RUSH_MAX(t->numel, 1)) : NULL; /* the caller's, not a device's memory */
    if (!list) return;
    rush_convert_many(list, RUSH_I64, 8, rush_ptr(t), t->dtype, rush_dtypes[t->dtype].size, t->numel);
    out[0] = rush_v_ints(list, (size_t)t->numel);
}

static int int_list_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(rush_dtypes[in[0].t->dtype].category < 2, RUSH_TYPE_ERROR, "integers expected, got %s", rush_dtype_name(in[0].t->dtype));
    return 0;
}

static rush_op op_int_list = {
    .schema = "_int_list(Tensor self) -> int[]", .doc = "All elements as integers, for operations that depend on them.", .shape = int_list_shape,
    .cpu = int_list_cpu, .flags = RUSH_NO_GRAD | RUSH_DATA_SIZED | RUSH_HIDDEN,
};

rush_tensor *rush_to_device(rush_tensor *t, const rush_tensor *like)
{
    bool there = !t || rush_same_device(t->device, like->device);
    return there ? t : T("_to_copy", V(t), RUSH_NONE, ON(like));
}

/* No mode is asked: lists of numbers are no operation of PyTorch's, which reads them where they are. */
const int64_t *rush_numbers_of(rush_tensor *t)
{
    static const int64_t none;
    rush_value v = RUSH_NONE;
    uint32_t mode = rush_now.mode;
    if (!t) return NULL;
    if (!(t->flags & RUSH_T_WATCHED)) rush_now.mode |= RUSH_MODE_UNWATCHED;
    int failed = TN(&v, "_int_list", V(t));
    rush_now.mode = mode;
    return failed ? NULL : v.n ? v.ints : &none;
}

double rush_number_of(rush_tensor *t)
{
    rush_value v = RUSH_NONE;
    return !t || TN(&v, "item", V(t)) ? (double)NAN : rush_to_double(v);
}

static int is_nonzero_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *x = in[0].t;
    RUSH_CHECK(x->numel, RUSH_RUNTIME_ERROR, "Boolean value of Tensor with no values is ambiguous");
    RUSH_CHECK(x->numel == 1, RUSH_RUNTIME_ERROR, "Boolean value of Tensor with more than one value is ambiguous");
    rush_value v = RUSH_NONE;
    if (TN(&v, "item", in[0])) return -1;
    out[0] = rush_v_bool(v.kind == RUSH_V_COMPLEX ? v.c[0] != 0 || v.c[1] != 0 : v.kind == RUSH_V_FLOAT ? v.f != 0 : v.i != 0);
    return 0;
}

static rush_op op_is_nonzero = {
    .schema = "is_nonzero(Tensor self) -> bool", .doc = "Is the one element not zero?", .run = is_nonzero_run, .flags = RUSH_NO_GRAD,
};

RUSH_FAMILY(covariance, &op_cov, &op_corrcoef, &op_item, &op_local_scalar, &op_is_nonzero, &op_int_list)
