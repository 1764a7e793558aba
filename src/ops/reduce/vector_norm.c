/* vector_norm.c - norms over dims and what is made of them: norm, dist, norm_except_dim. */
#include "kernels/cpu/fold.h"
#include "op/formula.h"
#include "ops/reduce/reduce.h"
#include "base/text.h"
#include <stdio.h>

/* ---- linalg_vector_norm: in = self, ord, dim, keepdim, dtype ---- */

static const rush_fold *norm_fold(rush_dtype read, bool wide, double p)
{
    const struct rush_fold_stat_kernels *k = rush_k_fold_stat;
    if (p == 0) return wide ? &k->norm0_f64 : &k->norm0_f32;
    if (p == 1) return wide ? &k->norm1_f64 : &k->norm1_f32;
    if (p == 2 && !wide && (read == RUSH_F16 || read == RUSH_BF16)) return &k->norm2_half;
    if (p == 2) return wide ? &k->norm2_f64 : &k->norm2_f32;
    if (p == __builtin_inf()) return wide ? &k->norm_inf_f64 : &k->norm_inf_f32;
    if (p == -__builtin_inf()) return wide ? &k->norm_ninf_f64 : &k->norm_ninf_f32;
    return wide ? &k->norm_f64 : &k->norm_f32;
}

static int check_dtype(rush_dtype x, rush_dtype d)
{
    RUSH_CHECK(rush_dtypes[d].category >= 2, RUSH_RUNTIME_ERROR, "dtype should be floating point or complex, but got %s", rush_dtype_word(d));
    RUSH_CHECK(rush_dtype_is_complex(x) == rush_dtype_is_complex(d), RUSH_RUNTIME_ERROR, "dtype should be %s for %s inputs, but got %s",
               rush_dtype_is_complex(x) ? "complex" : "real", rush_dtype_is_complex(x) ? "complex" : "real", rush_dtype_word(d));
    RUSH_CHECK(rush_promote(x, d) == d, RUSH_RUNTIME_ERROR,
               "the dtype of the input (%s) should be convertible without narrowing to the specified dtype (%s)", rush_dtype_word(x), rush_dtype_word(d));
    return 0;
}

static int norm_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *x = in[0].t;
    double p = D_(in[1]);
    uint64_t bits;
    RUSH_CHECK(rush_dtypes[x->dtype].category >= 2, RUSH_RUNTIME_ERROR,
               "linalg.vector_norm: Expected a floating point or complex tensor as input. Got %s", rush_dtype_word(x->dtype));
    rush_dtype d = HAS(in[4]) ? (rush_dtype)in[4].i : (rush_dtype)x->dtype;
    if (HAS(in[4]) && check_dtype(x->dtype, d)) return -1;
    if (rush_dims_read(in[2], x->ndim, true, &bits)) return -1;
    if (x->numel == 0 && (p < 0 || p == __builtin_inf())) {
        char number[32];
        rush_snprintf(number, sizeof number, "%g", p);
        RUSH_CHECK(HAS(in[2]) && in[2].n, RUSH_RUNTIME_ERROR,
                   "linalg.vector_norm cannot compute the %s norm on an empty tensor because the operation does not have an identity", number);
        for (int k = 0; k < x->ndim; ++k)
            RUSH_CHECK(!(bits >> k & 1) || x->size[k], RUSH_RUNTIME_ERROR,
                       "linalg.vector_norm cannot compute the %s norm on the dimension %d because this dimension is empty and the operation does not "
                       "have an identity", number, k);
    }
    return rush_reduced_out(out, 0, x, in[2], true, in[3].i, rush_dtype_real(d));
}

static void norm_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_fold_arg arg = {.p = D_(in[1])};
    rush_value x = in[0];
    if (rush_dtype_is_complex(x.t->dtype)) {
        bool wide = out[0].t->dtype == RUSH_F64 && x.t->dtype != RUSH_C128;
        x = rush_v_tensor(abs_(wide ? to_dtype(x.t, RUSH_C128) : x.t));
    }
    if (T_(x)) rush_fold_op(norm_fold(x.t->dtype, out[0].t->dtype == RUSH_F64, arg.p), &x, in[2], true, out, 1, &arg);
}

#define power(a, p) T("pow.Tensor_Scalar", V(a), V(p))

/* One element everywhere, as a sum's gradient is. */
static bool is_spread(const rush_tensor *g)
{
    for (int d = 0; d < g->ndim; ++d)
        if (g->size[d] != 1 && g->stride[d]) return false;
    return true;
}

static void norm_grad(rush_grads *s)
{
    rush_tensor *x = s->in[0].t, *gx;
    double p = D_(s->in[1]), inf = __builtin_inf();
    uint64_t bits;
    int64_t dims[RUSH_MAXDIM];
    int n = 0;
    if (p == 0 || rush_dims_read(s->in[2], x->ndim, true, &bits)) return;
    for (int d = 0; d < x->ndim; ++d)
        if (bits >> d & 1) dims[n++] = d;
    rush_tensor *g = rush_restore_dims(s->g[0], x, bits, s->in[3].i), *norm = rush_restore_dims(s->out[0].t, x, bits, s->in[3].i);
    if (p == 1) {
        gx = mul(sgn(x), g);
    } else if (p == 2) {
        rush_tensor *zero = eq(norm, 0.0); /* masked before and after: the derivative of this is finite, too */
        rush_tensor *scale = T_INPLACE("masked_fill.Scalar", V(div_(g, T("masked_fill.Scalar", V(norm), V(zero), V(1.0)))), V(zero), V(0.0));
        gx = is_spread(s->g[0]) ? mul(x, scale) : mul(scale, x); /* in the gradient's order, where it has one */
    } else if (p == inf || p == -inf) {
        rush_tensor *best = T("logical_or", V(eq(abs_(x), norm)), V(WORD1(isnan, norm)));
        if (n) g = div_(g, T("sum.dim_IntList", V(best), rush_v_ints(dims, n), V(true)));
        gx = mul(sgn(x), mul(g, best));
    } else if (p > 2) {
        gx = mul(mul(x, power(abs_(x), p - 2)), zero_where(eq(norm, 0.0), div_(g, power(norm, p - 1))));
    } else {
        gx = mul(mul(sgn(x), zero_where(eq(x, 0.0), power(abs_(x), p - 1))), zero_where(eq(norm, 0.0), mul(g, power(norm, 1 - p))));
    }
    s->gin[0] = gx && gx->dtype != x->dtype ? to_dtype(gx, x->dtype) : gx;
}

static rush_op op_vector_norm = {
    .schema = "linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    .doc = "sum(|self|^ord)^(1 / ord) over dim (default: all); ord 0 counts what is not zero, inf and -inf take the largest and the smallest.",
    .shape = norm_shape, .cpu = norm_cpu, .grad = norm_grad, .saves = "self, result",
};

/* ---- the older names ---- */

static rush_tensor *vector_norm(rush_value x, rush_value p, rush_value dims, rush_value keepdim, rush_value dtype)
{
    return T("linalg_vector_norm", x, HAS(p) ? p : V(2), dims, keepdim, dtype);
}

static int norm_all_run(const rush_op *op, const rush_value *in, rush_value *out) { return rush_result(out, vector_norm(in[0], in[1], RUSH_NONE, V(false), RUSH_NONE)); }
static int norm_dim_run(const rush_op *op, const rush_value *in, rush_value *out) { return rush_result(out, vector_norm(in[0], in[1], in[2], in[3], RUSH_NONE)); }
static int norm_dim_dtype_run(const rush_op *op, const rush_value *in, rush_value *out) { return rush_result(out, vector_norm(in[0], in[1], in[2], in[3], in[4])); }
static int norm_dtype_run(const rush_op *op, const rush_value *in, rush_value *out) { return rush_result(out, vector_norm(in[0], in[1], RUSH_NONE, V(false), in[2])); }
static int frobenius_run(const rush_op *op, const rush_value *in, rush_value *out) { return rush_result(out, vector_norm(in[0], V(2), in[1], in[2], RUSH_NONE)); }

static rush_op op_norm = {
    .schema = "norm.Scalar(Tensor self, Scalar p=2) -> Tensor", .method = RUSH_METHOD, .doc = "linalg_vector_norm of all elements.", .run = norm_all_run,
};
static rush_op op_norm_dim = {
    .schema = "norm.ScalarOpt_dim(Tensor self, Scalar? p, int[1] dim, bool keepdim=False) -> Tensor",
    .doc = "linalg_vector_norm over dim.", .run = norm_dim_run,
};
static rush_op op_norm_dim_dtype = {
    .schema = "norm.ScalarOpt_dim_dtype(Tensor self, Scalar? p, int[1] dim, bool keepdim, *, ScalarType dtype) -> Tensor",
    .doc = "linalg_vector_norm over dim, computed in dtype.", .run = norm_dim_dtype_run,
};
static rush_op op_norm_dtype = {
    .schema = "norm.ScalarOpt_dtype(Tensor self, Scalar? p, *, ScalarType dtype) -> Tensor",
    .doc = "linalg_vector_norm of all elements, computed in dtype.", .run = norm_dtype_run,
};
static rush_op op_frobenius = {
    .schema = "frobenius_norm.dim(Tensor self, int[1] dim, bool keepdim=False) -> Tensor",
    .doc = "The root of the sum of squares over dim.", .run = frobenius_run, .flags = RUSH_HIDDEN,
};

static int nuclear_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_result(out, T("linalg_matrix_norm.str_ord", in[0], V("nuc"), INTS(-2, -1), in[1]));
}
static int nuclear_dim_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_result(out, T("linalg_matrix_norm.str_ord", in[0], V("nuc"), in[1], in[2]));
}
static rush_op op_nuclear = {
    .schema = "nuclear_norm(Tensor self, bool keepdim=False) -> Tensor",
    .doc = "The sum of singular values.", .run = nuclear_run, .flags = RUSH_HIDDEN,
};
static rush_op op_nuclear_dim = {
    .schema = "nuclear_norm.dim(Tensor self, int[2] dim, bool keepdim=False) -> Tensor",
    .doc = "The sum of singular values of the matrices in these dims.", .run = nuclear_dim_run, .flags = RUSH_HIDDEN,
};

static int except_dim_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *v = in[0].t;
    int64_t dims[RUSH_MAXDIM];
    int n = 0, keep = in[2].i == -1 ? -1 : rush_dim_wrap(in[2].i, v->ndim);
    if (in[2].i == -1) return rush_result(out, T("linalg_vector_norm", in[0], in[1]));
    if (keep < 0) return -1;
    for (int d = 0; d < v->ndim; ++d)
        if (d != keep) dims[n++] = d;
    return rush_result(out, n ? T("linalg_vector_norm", in[0], in[1], rush_v_ints(dims, n), V(true)) : abs_(v));
}
static rush_op op_except_dim = {
    .schema = "norm_except_dim(Tensor v, int pow=2, int dim=0) -> Tensor",
    .doc = "The norm over all dims but one, -1 meaning none: weight_norm's.", .run = except_dim_run,
};

static int dist_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *d = sub(in[0].t, in[1].t);
    RUSH_CHECK(!d || rush_dtypes[d->dtype].category >= 2, RUSH_RUNTIME_ERROR,
               "norm(): input dtype should be either floating point or complex. Got %s instead.", d ? rush_dtype_word(d->dtype) : "");
    return rush_result(out, T("linalg_vector_norm", V(d), in[2]));
}
static rush_op op_dist = {
    .schema = "dist(Tensor self, Tensor other, Scalar p=2) -> Tensor", .method = RUSH_METHOD, .node = "DistBackward0",
    .doc = "The p-norm of self - other.", .run = dist_run, .flags = RUSH_WHOLE,
};

RUSH_FAMILY(vector_norm, &op_vector_norm, &op_norm, &op_norm_dim, &op_norm_dim_dtype, &op_norm_dtype, &op_frobenius, &op_nuclear,
            &op_nuclear_dim, &op_except_dim, &op_dist)
