/* variance.c - variance and deviation, log-sum-exp, vector norms and distances. */
#include "op/formula.h"
#include "ops/reduce/reduce.h"

static bool plain_float(rush_dtype d) { return rush_dtypes[d].category >= 2 && d <= RUSH_C128; }

/* ---- var, std, with the mean or without: in = self, dim, correction, keepdim ---- */

static double correction_of(rush_value v) { return HAS(v) ? D_(v) : 1; }

static int stat_out(const rush_value *in, rush_value *out, const char *word, bool mean)
{
    const rush_tensor *x = in[0].t;
    RUSH_CHECK(plain_float(x->dtype), RUSH_RUNTIME_ERROR, "%s only support floating point and complex dtypes", word);
    if (rush_reduced_out(out, 0, x, in[1], true, in[3].i, rush_dtype_real(x->dtype))) return -1;
    return mean ? rush_reduced_out(out, 1, x, in[1], true, in[3].i, x->dtype) : 0;
}

/* A complex variance is that of the real plus that of the imaginary parts. */
static void complex_stat(const rush_value *in, rush_value *out, bool root)
{
    rush_tensor *parts = T("view_as_real", V(rush_contiguous_copy(in[0].t)));
    rush_tensor *re = T("select.int", V(parts), V((int64_t)-1), V((int64_t)0));
    rush_tensor *im = T("select.int", V(parts), V((int64_t)-1), V((int64_t)1));
    rush_value a[2], b[2];
    if (TN(a, "var_mean.correction", V(re), in[1], in[2], in[3]) || TN(b, "var_mean.correction", V(im), in[1], in[2], in[3])) return;
    rush_tensor *var = add(a[0].t, b[0].t);
    if (root) var = sqrt_(var);
    if (var) rush_copy_into(out[0].t, var);
    rush_tensor *mean = HAS(out[1]) ? T("complex", V(a[1].t), V(b[1].t)) : NULL;
    if (mean) rush_copy_into(out[1].t, mean);
}

static void run_stat(const rush_op *op, const rush_value *in, rush_value *results, int nout, bool root)
{
    rush_value out[2] = {results[0], nout > 1 ? results[1] : RUSH_NONE};
    const rush_tensor *x = in[0].t;
    uint64_t bits;
    if (rush_dims_read(in[1], x->ndim, true, &bits)) return;
    rush_fold_arg arg = {.count = (double)rush_reduced_count(x, bits), .correction = correction_of(in[2]), .root = root};
    if (arg.count - arg.correction <= 0 && out[0].t->numel)
        rush_log(1, "%s(): degrees of freedom is <= 0. Correction should be strictly less than the reduction factor "
                    "(input numel divided by output numel).", op->base);
    if (rush_dtype_is_complex(x->dtype)) {
        complex_stat(in, out, root);
        return;
    }
    rush_fold_op(x->dtype == RUSH_F64 ? &rush_k_fold_stat->var_f64 : &rush_k_fold_stat->var_f32, in, in[1], true, out, 2, &arg);
}

static int var_shape(const rush_op *op, const rush_value *in, rush_value *out) { return stat_out(in, out, "std and var", false); }
static int var_mean_shape(const rush_op *op, const rush_value *in, rush_value *out) { return stat_out(in, out, "var_mean", true); }
static int std_mean_shape(const rush_op *op, const rush_value *in, rush_value *out) { return stat_out(in, out, "std_mean", true); }
static void var_cpu(const rush_op *op, const rush_value *in, rush_value *out) { run_stat(op, in, out, 1, false); }
static void std_cpu(const rush_op *op, const rush_value *in, rush_value *out) { run_stat(op, in, out, 1, true); }
static void var_mean_cpu(const rush_op *op, const rush_value *in, rush_value *out) { run_stat(op, in, out, 2, false); }
static void std_mean_cpu(const rush_op *op, const rush_value *in, rush_value *out) { run_stat(op, in, out, 2, true); }

/* 2 / (n - correction) * g * (x - mean) */
static rush_tensor *var_gradient(rush_grads *s, rush_tensor *g)
{
    rush_tensor *x = s->in[0].t;
    uint64_t bits;
    if (!g || rush_failed() || rush_dims_read(s->in[1], x->ndim, true, &bits)) return NULL;
    double freedom = (double)rush_reduced_count(x, bits) - correction_of(s->in[2]);
    g = rush_restore_dims(g, x, bits, s->in[3].i);
    rush_tensor *mean = T("mean.dim", V(x), s->in[1], V(true));
    return mul(mul(2.0 / RUSH_MAX(freedom, 0.0), g), sub(x, mean));
}

static rush_tensor *mean_gradient(rush_grads *s, rush_tensor *g)
{
    uint64_t bits;
    if (!g || rush_failed() || rush_dims_read(s->in[1], s->in[0].t->ndim, true, &bits)) return NULL;
    return div_(rush_spread(g, s->in[0].t, s->in[1], s->in[3].i), rush_reduced_count(s->in[0].t, bits));
}

/* The gradient of the variance below a root: 0 where the root is 0. */
static rush_tensor *below_root(rush_tensor *g, rush_tensor *root)
{
    return g ? zero_where(eq(root, 0.0), div_(g, mul(root, 2.0))) : NULL;
}

static rush_tensor *both(rush_tensor *a, rush_tensor *b) { return a && b ? add(a, b) : a ? a : b; }
static void var_grad(rush_grads *s) { s->gin[0] = var_gradient(s, s->g[0]); }
static void std_grad(rush_grads *s) { s->gin[0] = var_gradient(s, below_root(s->g[0], s->out[0].t)); }
static void var_mean_grad(rush_grads *s) { s->gin[0] = both(var_gradient(s, s->g[0]), mean_gradient(s, s->g[1])); }
static void std_mean_grad(rush_grads *s)
{
    s->gin[0] = both(var_gradient(s, below_root(s->g[0], s->out[0].t)), mean_gradient(s, s->g[1]));
}

static rush_op op_var = {
    .schema = "var.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor", .method = RUSH_METHOD,
    .doc = "The variance over dim (default: all): the sum of squared distances from the mean over n - correction (default 1).",
    .shape = var_shape, .cpu = var_cpu, .grad = var_grad, .saves = "self", .flags = RUSH_OUT_CASTS,
};
static rush_op op_std = {
    .schema = "std.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor", .method = RUSH_METHOD,
    .doc = "The standard deviation over dim (default: all), the root of var.",
    .shape = var_shape, .cpu = std_cpu, .grad = std_grad, .saves = "self, result", .flags = RUSH_OUT_CASTS,
};
static rush_op op_var_mean = {
    .schema = "var_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor, Tensor)",
    .doc = "The variance and the mean over dim (default: all), in one pass.",
    .shape = var_mean_shape, .cpu = var_mean_cpu, .grad = var_mean_grad, .saves = "self",
};
static rush_op op_std_mean = {
    .schema = "std_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor, Tensor)",
    .doc = "The standard deviation and the mean over dim (default: all), in one pass.",
    .shape = std_mean_shape, .cpu = std_mean_cpu, .grad = std_mean_grad, .saves = "self, result0",
};

/* The older forms: unbiased for a correction of 1. */
static int var_all_run(const rush_op *op, const rush_value *in, rush_value *out) { return rush_result(out, T("var.correction", in[0], RUSH_NONE, V(in[1].i))); }
static int std_all_run(const rush_op *op, const rush_value *in, rush_value *out) { return rush_result(out, T("std.correction", in[0], RUSH_NONE, V(in[1].i))); }
static int var_mean_all_run(const rush_op *op, const rush_value *in, rush_value *out) { return TN(out, "var_mean.correction", in[0], RUSH_NONE, V(in[1].i)); }
static int std_mean_all_run(const rush_op *op, const rush_value *in, rush_value *out) { return TN(out, "std_mean.correction", in[0], RUSH_NONE, V(in[1].i)); }
static int var_dim_run(const rush_op *op, const rush_value *in, rush_value *out) { return rush_result(out, T("var.correction", in[0], in[1], V(in[2].i), in[3])); }
static int std_dim_run(const rush_op *op, const rush_value *in, rush_value *out) { return rush_result(out, T("std.correction", in[0], in[1], V(in[2].i), in[3])); }
static int var_mean_dim_run(const rush_op *op, const rush_value *in, rush_value *out) { return TN(out, "var_mean.correction", in[0], in[1], V(in[2].i), in[3]); }
static int std_mean_dim_run(const rush_op *op, const rush_value *in, rush_value *out) { return TN(out, "std_mean.correction", in[0], in[1], V(in[2].i), in[3]); }

static rush_op op_var_all = {
    .schema = "var(Tensor self, bool unbiased=True) -> Tensor", .doc = "The variance of all elements.", .run = var_all_run, .flags = RUSH_OUT_CASTS,
};
static rush_op op_var_dim = {
    .schema = "var.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor",
    .doc = "The variance over dim.", .run = var_dim_run, .flags = RUSH_OUT_CASTS,
};
static rush_op op_std_all = {
    .schema = "std(Tensor self, bool unbiased=True) -> Tensor", .doc = "The standard deviation of all elements.", .run = std_all_run, .flags = RUSH_OUT_CASTS,
};
static rush_op op_std_dim = {
    .schema = "std.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor",
    .doc = "The standard deviation over dim.", .run = std_dim_run, .flags = RUSH_OUT_CASTS,
};
static rush_op op_var_mean_all = {
    .schema = "var_mean(Tensor self, bool unbiased=True) -> (Tensor, Tensor)",
    .doc = "The variance and the mean of all elements.", .run = var_mean_all_run,
};
static rush_op op_var_mean_dim = {
    .schema = "var_mean.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, Tensor)",
    .doc = "The variance and the mean over dim.", .run = var_mean_dim_run,
};
static rush_op op_std_mean_all = {
    .schema = "std_mean(Tensor self, bool unbiased=True) -> (Tensor, Tensor)",
    .doc = "The standard deviation and the mean of all elements.", .run = std_mean_all_run,
};
static rush_op op_std_mean_dim = {
    .schema = "std_mean.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, Tensor)",
    .doc = "The standard deviation and the mean over dim.", .run = std_mean_dim_run,
};

/* ---- logsumexp ---- */

static int lse_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *x = in[0].t;
    rush_dtype d = rush_dtypes[x->dtype].category < 2 ? rush_default_dtype() : x->dtype;
    int64_t kept[RUSH_MAXDIM];
    for (int i = 0; i < x->ndim; ++i) kept[i] = 1;
    RUSH_CHECK(in[1].n || x->ndim == 0 || x->numel == 0 || in[2].i, RUSH_RUNTIME_ERROR, "output with shape [] doesn't match the broadcast shape %s",
               rush_shape_text(x->ndim, kept));
    return rush_reduced_out(out, 0, x, in[1], true, in[2].i, d);
}

static void lse_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (!rush_dtype_is_complex(out[0].t->dtype) && rush_dtypes[out[0].t->dtype].size > 2) { /* of half types each step is rounded */
        rush_fold_op(out[0].t->dtype == RUSH_F64 ? &rush_k_fold_stat->lse_f64 : &rush_k_fold_stat->lse_f32, in, in[1], true, out, 1, NULL);
        return;
    }
    rush_tensor *x = in[0].t;
    rush_tensor *most = in[0].t->numel ? T("amax", V(WORD1(real, x)), in[1], V(true)) : NULL;
    rush_tensor *y;
    if (most) {
        most = T("masked_fill.Scalar", V(most), V(eq(abs_(most), (double)__builtin_inf())), V(0.0));
        y = log_(T("sum.dim_IntList", V(exp_(sub(x, most))), in[1], in[2]));
        y = add(y, reshape_to(most, out[0].t));
    } else {
        y = log_(T("sum.dim_IntList", V(exp_(x)), in[1], in[2]));
    }
    if (y) rush_copy_into(out[0].t, y);
}

static void lse_grad(rush_grads *s)
{
    rush_tensor *x = s->in[0].t;
    uint64_t bits;
    if (rush_dims_read(s->in[1], x->ndim, true, &bits)) return;
    rush_tensor *g = rush_restore_dims(s->g[0], x, bits, s->in[2].i), *y = rush_restore_dims(s->out[0].t, x, bits, s->in[2].i);
    s->gin[0] = mul(g, conj_(exp_(sub(x, y))));
}

static rush_op op_logsumexp = {
    .schema = "logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor", .method = RUSH_METHOD,
    .doc = "log(sum(exp(self), dim)), without overflow: the largest element is taken out first.",
    .shape = lse_shape, .cpu = lse_cpu, .grad = lse_grad, .saves = "self, result", .flags = RUSH_OUT_CASTS,
};

static int special_lse_run(const rush_op *op, const rush_value *in, rush_value *out) { return rush_result(out, T("logsumexp", in[0], in[1], in[2])); }
static rush_op op_special_logsumexp = {
    .schema = "special_logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor",
    .doc = "Another name of logsumexp.", .run = special_lse_run, .flags = RUSH_OUT_CASTS,
};

RUSH_FAMILY(variance, &op_var_all, &op_var_dim, &op_var, &op_std_all, &op_std_dim, &op_std, &op_var_mean_all, &op_var_mean_dim, &op_var_mean,
            &op_std_mean_all, &op_std_mean_dim, &op_std_mean, &op_logsumexp, &op_special_logsumexp)
