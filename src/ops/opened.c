/* opened.c - operations that are one record here and several in PyTorch, taken apart for who looks at operations (op/watch.h).
 *
 * Nobody else comes here: the rule is asked only under a mode or for a tensor that answers for itself, and what it calls
 * is what PyTorch's own composite calls.
 */
#include "api/api.h"
#include "autograd/autograd.h"
#include "op/formula.h"
#include "op/op.h"
#include "ops/geometry.h"

#include <math.h>
#include <string.h>

#define SELF (in[0].t)
#define RULE(name) static int name##_open(const rush_op *op, const rush_value *in, rush_value *out)

RULE(square) { return rush_result(out, T("pow.Tensor_Scalar", in[0], V(2))); }
RULE(log_sigmoid)
{
    rush_value both[RUSH_MAXOUT] = {0};
    return TN(both, "log_sigmoid_forward", in[0]) ? -1 : rush_result(out, both[0].t);
}

static rush_tensor *all_ones(const rush_tensor *x) { return T("ones_like", V((rush_tensor *)x), rush_v_dtype(RUSH_BOOL)); }

static rush_tensor *is_finite(rush_tensor *x)
{
    if (x && !rush_dtype_is_float(x->dtype) && !rush_dtype_is_complex(x->dtype)) return all_ones(x);
    if (x && rush_dtype_is_complex(x->dtype)) return T_INPLACE("bitwise_and.Tensor", V(is_finite(T("real", V(x)))), V(is_finite(T("imag", V(x)))));
    rush_tensor *below = T("ne.Scalar", V(T("abs", V(x))), V(INFINITY));
    return T("mul.Tensor", V(T("eq.Tensor", V(x), V(x))), V(below));
}
RULE(isfinite) { return rush_result(out, is_finite(SELF)); }
RULE(isreal) { return rush_result(out, rush_dtype_is_complex(SELF->dtype) ? T("eq.Scalar", V(T("imag", in[0])), V(0)) : all_ones(SELF)); }

static rush_tensor *both_parts(rush_tensor *x) { return T("view_as_real", V(x && x->flags & RUSH_T_CONJ ? T("_conj", V(x)) : x)); }
RULE(_real_part) { return rush_result(out, T("select.int", V(both_parts(SELF)), V(SELF->ndim), V(0))); }
RULE(_imag_part)
{
    rush_tensor *both = both_parts(SELF);
    return rush_result(out, T("select.int", V(SELF->flags & RUSH_T_CONJ ? T("_neg_view", V(both)) : both), V(SELF->ndim), V(1)));
}

RULE(isclose)
{
    if (SELF->dtype != in[1].t->dtype || D_(in[2]) < 0 || D_(in[3]) < 0) return op->run(op, in, out); /* refused there */
    bool exact = rush_dtypes[SELF->dtype].category < 2;
    rush_tensor *close = T("eq.Tensor", in[0], in[1]);
    if (I_(in[4]) && !exact) {
        rush_tensor *nans = T("__and__.Tensor", V(T("isnan", in[0])), V(T("isnan", in[1])));
        close = T_INPLACE("bitwise_or.Tensor", V(close), V(nans));
    }
    if (D_(in[2]) == 0 && D_(in[3]) == 0) return rush_result(out, close);
    const rush_value wide = rush_v_dtype(rush_default_dtype());
    rush_tensor *self = SELF->dtype == RUSH_BOOL ? T("_to_copy", in[0], wide) : SELF, *other = exact ? T("_to_copy", in[1], wide) : in[1].t;
    rush_tensor *allowed = T("add.Scalar", V(T("abs", V(T("mul.Scalar", V(other), in[2])))), in[3]), *off = T("abs", V(T("sub.Tensor", V(self), V(other))));
    return rush_result(out, T_INPLACE("bitwise_or.Tensor", V(close), V(T_INPLACE("bitwise_and.Tensor", V(is_finite(off)), V(T("le.Tensor", V(off), V(allowed)))))));
}

RULE(special_ndtr)
{
    rush_tensor *erf = T("erf", V(T("mul.Scalar", in[0], V(M_SQRT1_2))));
    return rush_result(out, T("mul.Scalar", V(T("add.Scalar", V(erf), V(1))), V(0.5)));
}

RULE(argwhere) { return rush_result(out, T("nonzero", in[0])); }
RULE(linalg_diagonal) { return rush_result(out, T("diagonal", in[0], in[1], in[2], in[3])); }
RULE(pdist) { return rush_result(out, T("_pdist_forward", in[0], in[1])); }
RULE(matrix_exp) { return rush_result(out, T("linalg_matrix_exp", in[0])); }

/* A split into pieces of the size of the first. */
RULE(chunk)
{
    if (SELF->flags & RUSH_T_HISTORY_BELOW) return rush_watched(RUSH_FORM_CALL, op, in, out, false, rush_wants_grad(SELF)) ? -1 : 0; /* nested tensors have their own */
    int64_t n = I_(in[1]);
    int d = SELF->ndim && n > 0 && n < 1 << 26 ? rush_dim_wrap(I_(in[2]), SELF->ndim) : -1;
    if (d < 0) return rush_failed() ? -1 : op->shape(op, in, out); /* which says what is wrong */
    int64_t each = SELF->size[d] / n + (SELF->size[d] % n != 0), *none = each ? NULL : rush_scope_alloc(sizeof *none * (size_t)n);
    bool unsafe = *op->base == 'u';
    if (each) return unsafe ? TN(out, "unsafe_split.Tensor", in[0], V(each), in[2]) : TN(out, "split.Tensor", in[0], V(each), in[2]);
    if (!none) return -1;
    memset(none, 0, sizeof *none * (size_t)n);
    return unsafe ? TN(out, "unsafe_split_with_sizes", in[0], rush_v_ints(none, (size_t)n), in[2]) : TN(out, "split_with_sizes", in[0], rush_v_ints(none, (size_t)n), in[2]);
}

/* ---- windows along one dimension are windows one row high ---- */

static rush_value row(rush_value v, int64_t above, int64_t pair[2])
{
    pair[0] = above;
    pair[1] = v.n ? v.ints[0] : 0;
    return rush_v_ints(pair, v.n ? 2 : 0);
}
static rush_value high(rush_value x) { return V(T("unsqueeze", x, V(-2))); }
static rush_tensor *flat(rush_tensor *x) { return x ? T("squeeze.dim", V(x), V(-2)) : NULL; }

RULE(avg_pool1d)
{
    int64_t kernel[2], stride[2], padding[2];
    rush_value k = row(in[1], 1, kernel), s = row(in[2], 1, stride), p = row(in[3], 0, padding);
    return rush_result(out, flat(T("avg_pool2d", high(in[0]), k, s, p, in[4], in[5])));
}
RULE(max_pool1d_with_indices)
{
    if (SELF->ndim < 2) return op->shape(op, in, out); /* which says what is wrong */
    int64_t kernel[2], stride[2], padding[2], dilation[2];
    rush_value both[RUSH_MAXOUT] = {0}, k = row(in[1], 1, kernel), s = row(in[2], 1, stride), p = row(in[3], 0, padding), d = row(in[4], 1, dilation);
    if (TN(both, "max_pool2d_with_indices", high(in[0]), k, s, p, d, in[5])) return -1;
    out[1] = V(flat(both[1].t));
    return rush_result(out, flat(both[0].t));
}
RULE(adaptive_avg_pool1d)
{
    int64_t size[2];
    rush_value wanted = row(in[1], 1, size);
    return rush_result(out, flat(T("adaptive_avg_pool2d", high(in[0]), wanted)));
}
RULE(adaptive_max_pool1d)
{
    int64_t size[2];
    rush_value both[RUSH_MAXOUT] = {0}, wanted = row(in[1], 1, size);
    if (TN(both, "adaptive_max_pool2d", high(in[0]), wanted)) return -1;
    out[1] = V(flat(both[1].t));
    return rush_result(out, flat(both[0].t));
}

/* After the families' records (900). */
__attribute__((constructor(950))) static void register_opened(void)
{
    static const struct {
        const char *name;
        rush_rule rule;
    } table[] = {
#define OPEN(name) {#name, name##_open}
        OPEN(square), OPEN(log_sigmoid), OPEN(isfinite), OPEN(isreal), OPEN(isclose), OPEN(_real_part), OPEN(_imag_part), OPEN(special_ndtr), OPEN(argwhere), OPEN(linalg_diagonal), OPEN(pdist),
        OPEN(matrix_exp), OPEN(chunk), {"unsafe_chunk", chunk_open}, OPEN(avg_pool1d), OPEN(max_pool1d_with_indices), OPEN(adaptive_avg_pool1d), OPEN(adaptive_max_pool1d),
    };
    for (size_t i = 0; i < RUSH_COUNT(table); ++i) {
        rush_op *op = rush_op_find(table[i].name);
        if (op) op->open = table[i].rule;
    }
}
