/* softmax.c - softmax and log_softmax along a dim, and their derivatives as operations of their own. */
#include "kernels/cpu/softmax.h"
#include "op/formula.h"

static int check(const rush_tensor *x, int64_t dim)
{
    RUSH_CHECK(rush_dtype_is_float(x->dtype), RUSH_NOT_IMPLEMENTED, "softmax is not implemented for %s", rush_dtype_name(x->dtype));
    return rush_dim_wrap(dim, x->ndim) < 0 ? -1 : 0;
}

static int softmax_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t;
    RUSH_CHECK(!in[2].i, RUSH_RUNTIME_ERROR, "conversion from half to float is supported on CUDA only");
    return check(x, in[1].i) || !rush_out_t(out, 0, x, x->dtype, x->ndim, x->size) ? -1 : 0;
}

typedef struct rows {
    rush_softmax_rows r;
    int type;
    bool back, failed;
} rows;

static void run_rows(void *arg, int64_t begin, int64_t end)
{
    rows *w = arg;
    if (w->back) rush_k_softmax->backward[w->type](&w->r, begin, end);
    else rush_k_softmax->forward[w->type](&w->r, begin, end);
}

/* Rows [begin, end) along memory of a half type, as floats a few at a time that stay in the cache: x (or y), g, and the result in the place of x. */
static void run_halves(void *arg, int64_t begin, int64_t end)
{
    rows *w = arg;
    int64_t row = w->r.n, some = RUSH_MIN(RUSH_MAX(8192 / row, 1), end - begin);
    const char *x = w->back ? w->r.y : w->r.x, *g = w->r.g;
    size_t got;
    float *room = rush_block_alloc(sizeof *room * (size_t)((w->back ? 2 : 1) * some * row), &got), *grad = room + some * row;
    if (!room) {
        rush_error_clear(); /* this thread may be a helper: the caller tells */
        w->failed = true;
        return;
    }
    rush_softmax_rows r = w->r;
    r.x = r.y = r.to = room, r.g = grad;
    for (; begin < end; begin += some) {
        int64_t n = RUSH_MIN(some, end - begin), at = begin * row * 2;
        rush_convert_many(room, RUSH_F32, 4, x + at, w->r.stored, 2, n * row);
        if (w->back) rush_convert_many(grad, RUSH_F32, 4, g + at, w->r.stored, 2, n * row);
        (w->back ? rush_k_softmax->backward : rush_k_softmax->forward)[0](&r, 0, n);
        rush_convert_many((char *)w->r.to + at, w->r.stored, 2, room, RUSH_F32, 4, n * row);
    }
    rush_block_free(room, got);
}

/* x (or y and g) to out, whatever their strides. */
static void softmax(rush_tensor *x, rush_tensor *g, rush_tensor *out, int64_t dim, bool log)
{
    int d = rush_dim_wrap(dim, out->ndim);
    int64_t n = out->ndim ? out->size[d] : 1, inner = 1, outer = 1;
    for (int k = 0; k < d; ++k) outer *= out->size[k];
    for (int k = d + 1; k < out->ndim; ++k) inner *= out->size[k];
    if (!out->numel) return;
    if (inner == 1 && (out->dtype == RUSH_F16 || out->dtype == RUSH_BF16)) {
        rush_tensor *plain[] = {rush_cast_copy(x, out->dtype), g ? rush_cast_copy(g, out->dtype) : NULL}, *to = rush_contiguous(out) ? out : rush_tensor_new(out->dtype, out->device, out->ndim, out->size);
        if (!plain[0] || !to || (g && !plain[1])) return;
        rows w = {{rush_ptr(plain[0]), rush_ptr(plain[0]), g ? rush_ptr(plain[1]) : NULL, rush_ptr(to), n, inner, log, out->dtype}, 0, g != NULL, false};
        rush_parallel_for(outer, RUSH_MAX(1, 16384 / n), run_halves, &w);
        if (w.failed) rush_fail(RUSH_MEMORY_ERROR, "no memory for rows as floats");
        else if (to != out) rush_copy_into(out, to);
        return;
    }
    rush_dtype compute = out->dtype == RUSH_F64 ? RUSH_F64 : RUSH_F32;
    rush_tensor *from = rush_cast_copy(x, compute), *grad = g ? rush_cast_copy(g, compute) : NULL;
    bool direct = out->dtype == compute && rush_contiguous(out);
    rush_tensor *to = direct ? out : rush_tensor_new(compute, out->device, out->ndim, out->size);
    if (!from || !to || (g && !grad)) return;
    rows w = {{rush_ptr(from), rush_ptr(from), grad ? rush_ptr(grad) : NULL, rush_ptr(to), n, inner, log, out->dtype}, compute == RUSH_F64, g != NULL};
    int64_t chunks = (inner + RUSH_SOFTMAX_WIDE - 1) / RUSH_SOFTMAX_WIDE;
    rush_parallel_for(outer * chunks, RUSH_MAX(1, 16384 * chunks / (n * inner)), run_rows, &w);
    if (!direct) rush_copy_into(out, to);
}

static void softmax_cpu(const rush_op *op, const rush_value *in, rush_value *out) { softmax(in[0].t, NULL, out[0].t, in[1].i, false); }
static void log_softmax_cpu(const rush_op *op, const rush_value *in, rush_value *out) { softmax(in[0].t, NULL, out[0].t, in[1].i, true); }

static void softmax_grad(rush_grads *s)
{
    if (s->g[0]) s->gin[0] = T("_softmax_backward_data", V(s->g[0]), s->out[0], s->in[1], rush_v_dtype(s->in[0].t->dtype));
}

static void log_softmax_grad(rush_grads *s)
{
    if (s->g[0]) s->gin[0] = T("_log_softmax_backward_data", V(s->g[0]), s->out[0], s->in[1], rush_v_dtype(s->in[0].t->dtype));
}

static rush_op op__softmax = {
    .schema = "_softmax(Tensor self, int dim, bool half_to_float) -> Tensor",
    .doc = "exp(self) / sum(exp(self), dim).", .shape = softmax_shape, .cpu = softmax_cpu, .grad = softmax_grad, .saves = "result",
};
static rush_op op__log_softmax = {
    .schema = "_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor",
    .doc = "self - logsumexp(self, dim).", .shape = softmax_shape, .cpu = log_softmax_cpu, .grad = log_softmax_grad, .saves = "result",
};

static int backward_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *y = in[1].t;
    RUSH_CHECK(rush_same_sizes(in[0].t, y), RUSH_RUNTIME_ERROR, "the gradient has shape %s, the output %s", rush_shape_of(in[0].t), rush_shape_of(y));
    return check(y, in[2].i) || !rush_out_t(out, 0, y, (rush_dtype)in[3].i, y->ndim, y->size) ? -1 : 0;
}

static void softmax_back_cpu(const rush_op *op, const rush_value *in, rush_value *out) { softmax(in[1].t, in[0].t, out[0].t, in[2].i, false); }
static void log_softmax_back_cpu(const rush_op *op, const rush_value *in, rush_value *out) { softmax(in[1].t, in[0].t, out[0].t, in[2].i, true); }

static void softmax_back_grad(rush_grads *s)
{
    rush_tensor *gg = s->g[0], *g = s->in[0].t, *y = s->in[1].t;
    int64_t d = s->in[2].i;
    if (!gg) return;
    if (rush_needs(s, 0)) s->gin[0] = T("_softmax_backward_data", V(gg), V(y), V(d), rush_v_dtype(y->dtype));
    if (rush_needs(s, 1)) { /* of y (g - sum(g y)) by y */
        rush_tensor *x = mul(gg, sub(g, sum_dim(mul(g, y), d, true)));
        s->gin[1] = sub(x, mul(sum_dim(mul(gg, y), d, true), g));
    }
}

static void log_softmax_back_grad(rush_grads *s)
{
    rush_tensor *gg = s->g[0], *g = s->in[0].t, *y = s->in[1].t;
    int64_t d = s->in[2].i;
    if (!gg) return;
    rush_tensor *p = exp_(y);
    if (rush_needs(s, 0)) s->gin[0] = sub(gg, sum_dim(mul(gg, p), d, true));
    if (rush_needs(s, 1)) s->gin[1] = neg(mul(mul(gg, p), sum_dim(g, d, true)));
}

static rush_op op__softmax_backward = {
    .schema = "_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor",
    .doc = "Gradient of softmax from its output.", .shape = backward_shape, .cpu = softmax_back_cpu, .grad = softmax_back_grad, .saves = "grad_output, output",
};
static rush_op op__log_softmax_backward = {
    .schema = "_log_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor",
    .doc = "Gradient of log_softmax from its output.", .shape = backward_shape, .cpu = log_softmax_back_cpu, .grad = log_softmax_back_grad,
    .saves = "grad_output, output",
};

static int by_name(const rush_value *in, rush_value *out, bool log)
{
    rush_tensor *x = in[0].t;
    if (HAS(in[2])) x = to_dtype(x, (rush_dtype)in[2].i);
    if (!x) return -1;
    return rush_result(out, log ? T("_log_softmax", V(x), in[1], V(false)) : T("_softmax", V(x), in[1], V(false)));
}

static int softmax_run(const rush_op *op, const rush_value *in, rush_value *out) { return by_name(in, out, false); }
static int log_softmax_run(const rush_op *op, const rush_value *in, rush_value *out) { return by_name(in, out, true); }

#define NAMED(var, name, at, fn, text) static rush_op var = {.schema = name "(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", .method = at, .doc = text, .run = fn}
NAMED(op_softmax, "softmax.int", RUSH_METHOD, softmax_run, "Softmax along dim: positive, summing to 1.");
NAMED(op_log_softmax, "log_softmax.int", RUSH_METHOD, log_softmax_run, "The logarithm of softmax, without its loss of digits.");
NAMED(op_special_softmax, "special_softmax", 0, softmax_run, "softmax.");
static rush_op op_special_log_softmax = {.schema = "special_log_softmax(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor", .doc = "log_softmax.", .run = log_softmax_run};

static int safe_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t;
    if (rush_dim_wrap(in[1].i, x->ndim) < 0) return -1;
    rush_tensor *none = T("all.dim", V(T("eq.Scalar", V(x), V(-(double)__builtin_inf()))), in[1], V(true));
    rush_tensor *y = T("softmax.int", V(T("masked_fill.Scalar", V(x), V(none), V(0.0))), in[1], in[2]);
    return rush_result(out, T("masked_fill.Scalar", V(y), V(none), V(0.0)));
}

static rush_op op_safe_softmax = {
    .schema = "_safe_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
    .doc = "softmax, but 0 instead of NaN where all elements along dim are -inf.", .run = safe_run, .flags = RUSH_HIDDEN | RUSH_WHOLE,
};

/* in = self, mask, dim, mask_type: for a mask of two dims and scores (batch, heads, queries, keys) 0 says (queries, keys), 1 (batch, keys) */
static int masked_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t, *mask = in[1].t;
    RUSH_CHECK(mask->dtype == RUSH_BOOL, RUSH_RUNTIME_ERROR, "Mask should be a boolean tensor");
    RUSH_CHECK(rush_dtype_is_float(x->dtype), RUSH_NOT_IMPLEMENTED, "\"masked_softmax\" not implemented for '%s'", rush_dtype_word(x->dtype));
    bool of_scores = x->ndim == 4 && mask->ndim == 2;
    RUSH_CHECK(!of_scores || HAS(in[3]), RUSH_RUNTIME_ERROR, "Mask Type should be defined");
    RUSH_CHECK(!of_scores || (in[3].i >= 0 && in[3].i <= 2), RUSH_RUNTIME_ERROR, "Mask Type should be 0 (src_mask) or 1 (src_key_padding_mask), or 2 (default_mask)");
    if (of_scores && in[3].i < 2) {
        bool keys = in[3].i == 1;
        RUSH_CHECK(mask->size[1] == x->size[3] && mask->size[0] == x->size[keys ? 0 : 2], RUSH_RUNTIME_ERROR, "For mask_type == %d mask shape should be %s", keys,
                   keys ? "(B, L)" : "(L, L)");
        if (keys) mask = T("view", V(mask), INTS(mask->size[0], 1, 1, mask->size[1]));
    }
    else RUSH_CHECK(rush_same_sizes(mask, x), RUSH_RUNTIME_ERROR, "For mask_type == 2 mask shape should match input shape");
    rush_tensor *open = T("masked_fill.Scalar", V(x), V(mask), V(-(double)__builtin_inf()));
    return rush_result(out, T("softmax.int", V(open), HAS(in[2]) ? in[2] : V((int64_t)-1)));
}

static rush_op op_masked_softmax = {
    .schema = "_masked_softmax(Tensor self, Tensor mask, int? dim=None, int? mask_type=None) -> Tensor",
    .doc = "softmax of the elements where mask is False; the others get 0.", .run = masked_run, .flags = RUSH_HIDDEN,
};

RUSH_FAMILY(softmax, &op__softmax, &op__log_softmax, &op__softmax_backward, &op__log_softmax_backward, &op_softmax, &op_log_softmax, &op_special_softmax,
            &op_special_log_softmax, &op_safe_softmax, &op_masked_softmax)
