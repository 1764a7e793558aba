/* distance.c - distances of all rows of one matrix from all rows of another (cdist), or of its own (pdist).
 *
 * cdist of many rows with p = 2 is one product, as PyTorch's is; all else takes differences.
 */
#include "op/formula.h"
#include "op/tables.h"
#include "ops/geometry.h"
#include <math.h>

/* |a - b|^2 = |a|^2 - 2 a b + |b|^2 as one product, which PyTorch takes for more than 25 rows. */
static rush_tensor *distances_by_product(rush_tensor *a, rush_tensor *b)
{
    rush_tensor *na = sum_dim(mul(a, a), -1, true), *nb = sum_dim(mul(b, b), -1, true);
    rush_tensor *left[3] = {mul(a, -2.0), na, na ? T("ones_like", V(na)) : NULL}, *right[3] = {b, nb ? T("ones_like", V(nb)) : NULL, nb};
    if (rush_failed()) return NULL;
    rush_tensor *l = T("cat", rush_v_tensors(left, 3), V(-1)), *r = T("cat", rush_v_tensors(right, 3), V(-1));
    rush_tensor *squares = r ? matmul(l, transpose(r, -2, -1)) : NULL;
    return squares ? sqrt_(T("clamp_min", V(squares), V(0))) : NULL;
}

/* The same as an operation, for its gradient: |a - b| is not differentiable at 0, where the gradient is 0. */
static int euclidean_run(const rush_op *op, const rush_value *in, rush_value *out) { return rush_result(out, distances_by_product(in[0].t, in[1].t)); }

static void euclidean_grad(rush_grads *s)
{
    rush_tensor *a = s->in[0].t, *b = s->in[1].t, *d = s->out[0].t, *zero = eq(d, 0.0);
    rush_tensor *ratio = T("masked_fill.Scalar", V(div_(s->g[0], T("masked_fill.Scalar", V(d), V(zero), V(1.0)))), V(zero), V(0.0));
    if (!ratio) return;
    if (rush_needs(s, 0)) s->gin[0] = sum_to_size(sub(mul(a, sum_dim(ratio, -1, true)), matmul(ratio, b)), a);
    if (rush_needs(s, 1)) {
        rush_tensor *turned = transpose(ratio, -1, -2);
        s->gin[1] = turned ? sum_to_size(sub(mul(b, sum_dim(turned, -1, true)), matmul(turned, a)), b) : NULL;
    }
}

static rush_op op_euclidean = {
    .schema = "_euclidean_dist(Tensor x1, Tensor x2) -> Tensor", .doc = "cdist() by one matrix product.", .run = euclidean_run, .grad = euclidean_grad,
    .saves = "x1, x2, result", .flags = RUSH_HIDDEN,
};

/* ---- by differences ---- */

static rush_distances between(const rush_tensor *a, const rush_tensor *b, double p)
{
    return (rush_distances){p, a->size[0], a->size[1], b->size[1], a->size[2], false};
}

static rush_distances among(const rush_tensor *x, double p)
{
    return (rush_distances){p, 1, x->size[0], x->size[0], x->size[1], true};
}

static void distances(const rush_distances *d, rush_tensor *a, rush_tensor *b, rush_tensor *to)
{
    rush_dtype t = rush_computed_in(to);
    rush_tensor *y = to->dtype == t && rush_contiguous(to) ? to : rush_tensor_new(t, to->device, to->ndim, to->size);
    const rush_tensor *x = rush_cast_copy(a, t), *other = a == b ? x : rush_cast_copy(b, t);
    const rush_tables *tables = rush_tables_of[to->device.type];
    if (!x || !other || !y || !y->numel) return;
    if (!d->width) rush_zero_into(y);
    else if (RUSH_UNLIKELY(tables != NULL)) tables->distances(d, x, other, y);
    else rush_k_distance->all[t == RUSH_F64](d, rush_ptr(x), rush_ptr(other), rush_ptr(y));
    if (y != to && !rush_failed()) rush_copy_into(to, y);
}

/* The part of a distance's gradient that all of its differences share: g over |distance| to the power p - 1, 0 where the distance is. */
static rush_tensor *shared_part(rush_tensor *g, rush_tensor *distance, double p)
{
    if (p == 1 || p == INFINITY) return g;
    rush_tensor *w = div_(g, p == 2 ? distance : T("pow.Tensor_Scalar", V(distance), V(p - 1)));
    return w ? zero_where(eq(distance, 0.0), w) : NULL;
}

static void gradient(const rush_distances *d, rush_tensor *g, rush_tensor *a, rush_tensor *b, rush_tensor *distance, rush_tensor *to)
{
    rush_dtype t = rush_computed_in(to);
    rush_tensor *ga = to->dtype == t && rush_contiguous(to) ? to : rush_tensor_new(t, to->device, to->ndim, to->size);
    rush_tensor *x[4] = {rush_cast_copy(g, t), rush_cast_copy(a, t), rush_cast_copy(b, t), rush_cast_copy(distance, t)};
    const rush_tables *tables = rush_tables_of[to->device.type];
    if (rush_failed()) return;
    rush_zero_into(ga);
    if (!RUSH_UNLIKELY(tables != NULL)) {
        rush_k_distance->back[t == RUSH_F64](d, rush_ptr(x[0]), rush_ptr(x[1]), rush_ptr(x[2]), rush_ptr(x[3]), rush_ptr(ga));
    } else if (d->p != 0 && ga->numel && g->numel) {
        rush_tensor *weight = shared_part(x[0], x[3], d->p);
        if (weight) tables->distances_back(d, weight, x[1], x[2], x[3], ga);
    }
    if (ga != to && !rush_failed()) rush_copy_into(to, ga);
}

/* The derivative once more, through operations: of `distance`, made of n inputs, into gin. */
static void again(rush_grads *s, rush_tensor *distance, int n)
{
    rush_tensor *x[2], *gx[2];
    int wanted = 0, of[2];
    for (int k = 0; k < n; ++k)
        if (rush_needs(s, k)) of[wanted] = k, x[wanted++] = s->in[k].t;
    if (!distance || rush_grad_of(1, &distance, &s->g[0], wanted, x, gx, true, true, true)) return;
    for (int k = 0; k < wanted; ++k) s->gin[of[k]] = gx[k];
}

static rush_tensor *norm(rush_tensor *difference, rush_value p)
{
    return difference ? T("linalg_vector_norm", V(difference), p, INTS(-1)) : NULL;
}

static int cdist_forward_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *a = in[0].t, *b = in[1].t;
    RUSH_CHECK(a->ndim == 3 && b->ndim == 3 && a->size[0] == b->size[0] && a->size[2] == b->size[2] && a->dtype == b->dtype, RUSH_RUNTIME_ERROR,
               "_cdist_forward: expected x1 (B, P, M) and x2 (B, R, M) of one type, but got %s and %s", rush_shape_of(a), rush_shape_of(b));
    return rush_out_t(out, 0, a, a->dtype, 3, (int64_t[]){a->size[0], a->size[1], b->size[1]}) ? 0 : -1;
}

static void cdist_forward_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_distances d = between(in[0].t, in[1].t, in[2].f);
    distances(&d, in[0].t, in[1].t, out[0].t);
}

static void cdist_forward_grad(rush_grads *s)
{
    rush_tensor *a = s->in[0].t, *b = s->in[1].t, *g = s->g[0], *d = s->out[0].t;
    if (rush_grad_enabled()) {
        again(s, norm(sub(unsqueeze(a, -2), unsqueeze(b, -3)), s->in[2]), 2);
        return;
    }
    if (rush_needs(s, 0)) s->gin[0] = T("_cdist_backward", V(g), V(a), V(b), s->in[2], V(d));
    if (rush_needs(s, 1)) s->gin[1] = T("_cdist_backward", V(transpose(g, 1, 2)), V(b), V(a), s->in[2], V(transpose(d, 1, 2)));
}

static rush_op op_cdist_forward = {
    .schema = "_cdist_forward(Tensor x1, Tensor x2, float p, int? compute_mode) -> Tensor", .doc = "cdist() of (B, P, M) and (B, R, M) by differences.",
    .shape = cdist_forward_shape, .cpu = cdist_forward_cpu, .grad = cdist_forward_grad, .saves = "x1, x2, result", .flags = RUSH_HIDDEN,
};

static int cdist_backward_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *a = in[1].t, *b = in[2].t, *pair[] = {in[0].t, in[4].t};
    RUSH_CHECK(a->ndim == 3 && b->ndim == 3 && a->size[0] == b->size[0] && a->size[2] == b->size[2], RUSH_RUNTIME_ERROR,
               "expected x1 (B, P, M) and x2 (B, R, M), but got %s and %s", rush_shape_of(a), rush_shape_of(b));
    for (int i = 0; i < 2; ++i)
        RUSH_CHECK(pair[i]->ndim == 3 && pair[i]->size[0] == a->size[0] && pair[i]->size[1] == a->size[1] && pair[i]->size[2] == b->size[1], RUSH_RUNTIME_ERROR,
                   "distances and their gradient are expected to be (B, P, R), but got %s", rush_shape_of(pair[i]));
    return rush_out_t(out, 0, a, a->dtype, a->ndim, a->size) ? 0 : -1;
}

static void cdist_backward_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_distances d = between(in[1].t, in[2].t, in[3].f);
    gradient(&d, in[0].t, in[1].t, in[2].t, in[4].t, out[0].t);
}

static rush_op op_cdist_backward = {
    .schema = "_cdist_backward(Tensor grad, Tensor x1, Tensor x2, float p, Tensor cdist) -> Tensor", .doc = "Gradient of _cdist_forward() by x1.",
    .shape = cdist_backward_shape, .cpu = cdist_backward_cpu, .flags = RUSH_HIDDEN,
};

/* (..., P, M) with its batches expanded to these, as (B, P, M). */
static rush_tensor *batched(rush_tensor *x, int nd, int64_t *size)
{
    int64_t batch = 1;
    if (!x) return NULL;
    for (int d = 0; d < nd; ++d) batch *= size[d];
    size[nd] = x->size[x->ndim - 2], size[nd + 1] = x->size[x->ndim - 1];
    return T("reshape", V(T("expand", V(x), rush_v_ints(size, nd + 2))), INTS(batch, size[nd], size[nd + 1]));
}

static int of_floats(const char *kernel, const rush_tensor *x)
{
    RUSH_CHECK(x->dtype == RUSH_F32 || x->dtype == RUSH_F64, RUSH_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", kernel, rush_dtype_word(x->dtype));
    return 0;
}

static int cdist_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *a = in[0].t, *b = in[1].t;
    RUSH_CHECK(rush_dtype_is_float(a->dtype), RUSH_RUNTIME_ERROR, "cdist only supports floating-point dtypes, X1 got: %s", rush_dtype_word(a->dtype));
    RUSH_CHECK(rush_dtype_is_float(b->dtype), RUSH_RUNTIME_ERROR, "cdist only supports floating-point dtypes, X2 got: %s", rush_dtype_word(b->dtype));
    RUSH_CHECK(a->ndim >= 2, RUSH_RUNTIME_ERROR, "cdist only supports at least 2D tensors, X1 got: %dD", a->ndim);
    RUSH_CHECK(b->ndim >= 2, RUSH_RUNTIME_ERROR, "cdist only supports at least 2D tensors, X2 got: %dD", b->ndim);
    RUSH_CHECK(a->size[a->ndim - 1] == b->size[b->ndim - 1], RUSH_RUNTIME_ERROR, "X1 and X2 must have the same number of columns. X1: %lld X2: %lld",
               (long long)a->size[a->ndim - 1], (long long)b->size[b->ndim - 1]);
    if (of_floats("cdist", a)) return -1;
    RUSH_CHECK(in[2].f >= 0, RUSH_RUNTIME_ERROR, "cdist only supports non-negative p values");
    RUSH_CHECK(!HAS(in[3]) || (in[3].i >= 0 && in[3].i <= 2), RUSH_RUNTIME_ERROR, "possible modes: 0, 1, 2, but was: %lld", (long long)in[3].i);
    RUSH_CHECK(a->dtype == b->dtype, RUSH_RUNTIME_ERROR, "expected scalar type %s but found %s", rush_dtype_word(a->dtype), rush_dtype_word(b->dtype));
    bool wants = rush_grad_enabled() && (rush_requires_grad(a) || rush_requires_grad(b));
    int64_t mode = HAS(in[3]) ? in[3].i : 0, rows = RUSH_MAX(a->size[a->ndim - 2], b->size[b->ndim - 2]);
    if (in[2].f == 2 && (mode == 1 || (mode == 0 && rows > 25))) return rush_result(out, wants ? T("_euclidean_dist", V(a), V(b)) : distances_by_product(a, b));
    int64_t size[RUSH_MAXDIM];
    int nd;
    if (rush_broadcast_sizes(a->ndim - 2, a->size, b->ndim - 2, b->size, &nd, size)) return -1;
    a = batched(a, nd, size);
    b = batched(b, nd, size);
    rush_tensor *y = b ? T("_cdist_forward", V(a), V(b), in[2], in[3]) : NULL;
    if (!y) return -1;
    size[nd] = y->size[1], size[nd + 1] = y->size[2];
    return rush_result(out, T("view", V(y), rush_v_ints(size, nd + 2)));
}

static rush_op op_cdist = {
    .schema = "cdist(Tensor x1, Tensor x2, float p=2, int? compute_mode=None) -> Tensor", .node = "CdistBackward0",
    .doc = "p-norm distances of all rows of x1 (B, P, M) from all rows of x2 (B, R, M).", .run = cdist_run, .flags = RUSH_AUTOCAST_F32,
};

/* ---- pairs ---- */

static int64_t pairs_of(int64_t n)
{
    int64_t twice = n ? rush_size_times(n, n - 1) : 0;
    return twice < 0 ? -1 : twice / 2;
}

static int pdist_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t;
    RUSH_CHECK(x->ndim == 2, RUSH_RUNTIME_ERROR, "pdist only supports 2D tensors, got: %dD", x->ndim);
    RUSH_CHECK(rush_dtype_is_float(x->dtype), RUSH_RUNTIME_ERROR, "pdist only supports floating-point dtypes");
    if (of_floats("pdist", x)) return -1;
    RUSH_CHECK(in[1].f >= 0, RUSH_RUNTIME_ERROR, "pdist only supports non-negative p values");
    int64_t n = pairs_of(x->size[0]);
    return n >= 0 && rush_out_t(out, 0, x, x->dtype, 1, &n) ? 0 : -1;
}

static void pdist_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_distances d = among(in[0].t, in[1].f);
    distances(&d, in[0].t, in[0].t, out[0].t);
}

static void pdist_grad(rush_grads *s)
{
    rush_tensor *x = s->in[0].t;
    if (!s->g[0]) return;
    if (!rush_grad_enabled()) {
        s->gin[0] = T("_pdist_backward", V(s->g[0]), V(x), s->in[1], s->out[0]);
        return;
    }
    rush_tensor *pairs = T("triu_indices", V(x->size[0]), V(x->size[0]), V(1), rush_v_dtype(RUSH_I64), ON(x));
    rush_tensor *i = pairs ? T("select.int", V(pairs), V(0), V(0)) : NULL, *j = pairs ? T("select.int", V(pairs), V(0), V(1)) : NULL;
    again(s, norm(sub(T("index_select", V(x), V(0), V(i)), T("index_select", V(x), V(0), V(j))), s->in[1]), 1);
}

#define PDIST(name) {.schema = name "(Tensor self, float p=2) -> Tensor", .doc = "p-norm distances of all pairs of rows.", .shape = pdist_shape, .cpu = pdist_cpu, \
                     .grad = pdist_grad, .saves = "self, result", .flags = RUSH_AUTOCAST_F32}
static rush_op op_pdist = PDIST("pdist"), op_pdist_forward = PDIST("_pdist_forward");

static int pdist_backward_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *x = in[1].t, *pair[] = {in[0].t, in[3].t};
    RUSH_CHECK(x->ndim == 2, RUSH_RUNTIME_ERROR, "pdist only supports 2D tensors, got: %dD", x->ndim);
    int64_t n = pairs_of(x->size[0]);
    for (int i = 0; i < 2; ++i)
        RUSH_CHECK(n >= 0 && pair[i]->ndim == 1 && pair[i]->size[0] == n, RUSH_RUNTIME_ERROR,
                   "a distance and its gradient for each pair of %lld rows are expected, but got %s", (long long)x->size[0], rush_shape_of(pair[i]));
    return rush_out_t(out, 0, x, x->dtype, 2, x->size) ? 0 : -1;
}

static void pdist_backward_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_distances d = among(in[1].t, in[2].f);
    gradient(&d, in[0].t, in[1].t, in[1].t, in[3].t, out[0].t);
}

static rush_op op_pdist_backward = {
    .schema = "_pdist_backward(Tensor grad, Tensor self, float p, Tensor pdist) -> Tensor", .doc = "Gradient of pdist().",
    .shape = pdist_backward_shape, .cpu = pdist_backward_cpu, .flags = RUSH_HIDDEN,
};

RUSH_FAMILY(distance, &op_euclidean, &op_cdist_forward, &op_cdist_backward, &op_cdist, &op_pdist, &op_pdist_forward, &op_pdist_backward)
