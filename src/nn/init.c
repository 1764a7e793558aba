/* init.c - how weights start: PyTorch's initialisers, drawing the same numbers. */
#include "nn/module.h"

#include <math.h>

/* Runs an in-place operation without recording it. */
static rush_tensor *unrecorded(const char *name, rush_tensor *t, double a, double b)
{
    if (rush_failed()) return NULL;
    if (!rush_tensor_given(t)) return NULL;
    if (!rush_numel(t)) return t; /* its bounds may be infinite */
    bool grad = rush_grad_enabled_set(false);
    const rush_op *op = rush_op_find(name);
    const rush_value args[] = {rush_v_tensor(t), rush_v_float(a), rush_v_float(b)};
    rush_tensor *done = rush_apply(op, !strcmp(name, "fill_.Scalar") ? 2 : 3, args);
    rush_grad_enabled_set(grad);
    return done ? t : NULL;
}

rush_tensor *rush_init_constant(rush_tensor *t, double v) { return unrecorded("fill_.Scalar", t, v, 0); }
rush_tensor *rush_init_uniform(rush_tensor *t, double from, double to) { return unrecorded("uniform_", t, from, to); }
rush_tensor *rush_init_normal(rush_tensor *t, double mean, double std) { return unrecorded("normal_", t, mean, std); }

rush_tensor *rush_init_fan(rush_tensor *t, int64_t n)
{
    double bound = n > 0 ? 1 / sqrt((double)n) : 0;
    return rush_init_uniform(t, -bound, bound);
}

rush_tensor *rush_weight_new(int ndim, const int64_t *size)
{
    return rush_tensor_new(rush_default_dtype(), (rush_device){RUSH_CPU, -1}, ndim, size);
}

/* Inputs and outputs that one number of a weight connects: (out, in, window...). */
static int fans(const rush_tensor *t, double *in, double *out)
{
    if (!rush_tensor_given(t)) return -1;
    RUSH_CHECK(t->ndim >= 2, RUSH_VALUE_ERROR, "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions");
    double window = 1;
    for (int d = 2; d < t->ndim; d++) window *= (double)t->size[d];
    *in = (double)t->size[1] * window;
    *out = (double)t->size[0] * window;
    return 0;
}

rush_tensor *rush_init_xavier_uniform(rush_tensor *t, double gain)
{
    double in = 0, out = 0;
    if (fans(t, &in, &out)) return NULL;
    double bound = sqrt(3.0) * (gain * sqrt(2.0 / (in + out)));
    return rush_init_uniform(t, -bound, bound);
}

rush_tensor *rush_init_xavier_normal(rush_tensor *t, double gain)
{
    double in = 0, out = 0;
    if (fans(t, &in, &out)) return NULL;
    return rush_init_normal(t, 0, gain * sqrt(2.0 / (in + out)));
}

rush_tensor *rush_init_kaiming_uniform(rush_tensor *t, double a, bool fan_out)
{
    double in = 0, out = 0;
    if (fans(t, &in, &out)) return NULL;
    double std = sqrt(2.0 / (1 + a * a)) / sqrt(fan_out ? out : in), bound = sqrt(3.0) * std;
    return rush_init_uniform(t, -bound, bound);
}

rush_tensor *rush_init_kaiming_normal(rush_tensor *t, double a, bool fan_out)
{
    double in = 0, out = 0;
    if (fans(t, &in, &out)) return NULL;
    return rush_init_normal(t, 0, sqrt(2.0 / (1 + a * a)) / sqrt(fan_out ? out : in));
}

static double normal_below(double x) { return (1 + erf(x / sqrt(2.0))) / 2; }

/* By the inverse of the distribution function, as PyTorch does: uniform numbers between those of the two ends. */
rush_tensor *rush_init_truncated_normal(rush_tensor *t, double mean, double std, double low, double high)
{
    if (!rush_tensor_given(t)) return NULL;
    double from = normal_below((low - mean) / std), to = normal_below((high - mean) / std);
    if (!rush_init_uniform(t, 2 * from - 1, 2 * to - 1)) return NULL;
    bool grad = rush_grad_enabled_set(false);
    bool fine = T_INPLACE("erfinv", V(t)) && T_INPLACE("mul.Tensor", V(t), V(std * sqrt(2.0))) && T_INPLACE("add.Tensor", V(t), V(mean)) &&
                T_INPLACE("clamp", V(t), V(low), V(high));
    rush_grad_enabled_set(grad);
    return fine ? t : NULL;
}

/* The Q of a random matrix, with the signs that make it unique; rows are orthogonal if there are fewer than columns. */
rush_tensor *rush_init_orthogonal(rush_tensor *t, double gain)
{
    if (!rush_tensor_given(t)) return NULL;
    RUSH_CHECK_NULL(t->ndim >= 2, RUSH_VALUE_ERROR, "Only tensors with 2 or more dimensions are supported");
    if (!t->numel) return t;
    int64_t rows = t->size[0], cols = t->numel / rows;
    bool grad = rush_grad_enabled_set(false);
    size_t mark = rush_scope_open();
    rush_value qr[2];
    rush_tensor *a = rush_tensor_new(t->dtype, t->device, 2, (const int64_t[]){rows, cols});
    a = rush_init_normal(a, 0, 1);
    if (a && rows < cols) a = T("t", V(a));
    bool fine = a && !TN(qr, "linalg_qr", V(a), V("reduced"));
    rush_tensor *sign = fine ? T("sign", V(T("diagonal", qr[1]))) : NULL, *q = sign ? T("mul.Tensor", qr[0], V(sign)) : NULL;
    if (q && rows < cols) q = T("t", V(q));
    if (q) q = T("view", V(rush_contiguous_copy(q)), rush_v_ints(t->size, (size_t)t->ndim));
    fine = q && T_INPLACE("mul.Tensor", V(q), V(gain)) && !rush_copy_into(t, q);
    if (fine) rush_version_bump(t);
    rush_scope_close(mark);
    rush_grad_enabled_set(grad);
    return fine ? t : NULL;
}
