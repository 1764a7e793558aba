/* gradient.c - numerical derivatives of samples along dims, by differences of neighbours.
 *
 * Inside, the difference of the two neighbours, which is of second order; weighted if the samples' places are given,
 * whose distances may vary. At the two ends differences to one side, of the order that edge_order says.
 */
#include "op/formula.h"
#include "ops/reduce/reduce.h"

/* n elements from `begin` along d */
static rush_tensor *run(rush_tensor *x, int d, int64_t begin, int64_t n) { return T("narrow", V(x), V(d), V(begin), V(n)); }

/* A weight for each place along d of x, so that it broadcasts. */
static rush_tensor *along(rush_tensor *weight, const rush_tensor *x, int d)
{
    int64_t size[RUSH_MAXDIM];
    for (int k = 0; k < x->ndim; ++k) size[k] = 1;
    size[d] = -1;
    return T("view", V(T("reshape", V(weight), INTS(-1))), rush_v_ints(size, x->ndim));
}

static rush_tensor *mixed(rush_tensor *x, rush_tensor *a, rush_tensor *y, rush_tensor *b, rush_tensor *z, rush_tensor *c)
{
    return add(add(mul(x, a), mul(y, b)), mul(z, c));
}

/* The ends: `out` is the outermost element, distances h to the next and k beyond it; outwards is -1 at the front. */
static rush_tensor *end_of_second_order(rush_tensor *out, rush_tensor *next, rush_tensor *third, rush_tensor *h, rush_tensor *k, double outwards)
{
    rush_tensor *both = add(h, k);
    rush_tensor *a = div_(add(h, both), mul(h, both)), *b = div_(both, mul(h, k)), *c = div_(h, mul(k, both));
    return mul(mixed(out, a, next, neg(b), third, c), outwards);
}

static rush_tensor *by_places(rush_tensor *x, int d, rush_tensor *places, int64_t edge_order)
{
    int64_t n = x->size[d];
    RUSH_CHECK_NULL(places->ndim == 1, RUSH_RUNTIME_ERROR, "torch.gradient expected each element of spacing to have one dimension, but got an element with %d dimensions!",
                    places->ndim);
    rush_tensor *h = T("diff", V(places));
    if (!h) return NULL;
    int64_t m = h->size[0];
    RUSH_CHECK_NULL(m >= edge_order, RUSH_RUNTIME_ERROR, "torch.gradient expected each element of spacing to have as many elements as its dim, but got %lld for %lld",
                    (long long)places->numel, (long long)n);
    rush_tensor *left = along(run(h, 0, 0, m - 1), x, d), *right = along(run(h, 0, 1, m - 1), x, d), *both = add(left, right);
    rush_tensor *a = div_(neg(right), mul(left, both)), *b = div_(sub(right, left), mul(left, right)), *c = div_(left, mul(right, both));
    rush_tensor *inside = mixed(run(x, d, 0, n - 2), a, run(x, d, 1, n - 2), b, run(x, d, 2, n - 2), c), *front, *back;
    rush_tensor *h0 = run(h, 0, 0, 1), *h1 = run(h, 0, m - 1, 1);
    if (edge_order == 1) {
        front = div_(sub(run(x, d, 1, 1), run(x, d, 0, 1)), along(h0, x, d));
        back = div_(sub(run(x, d, n - 1, 1), run(x, d, n - 2, 1)), along(h1, x, d));
    } else {
        front = end_of_second_order(run(x, d, 0, 1), run(x, d, 1, 1), run(x, d, 2, 1), along(h0, x, d), along(run(h, 0, 1, 1), x, d), -1);
        back = end_of_second_order(run(x, d, n - 1, 1), run(x, d, n - 2, 1), run(x, d, n - 3, 1), along(h1, x, d), along(run(h, 0, m - 2, 1), x, d), 1);
    }
    return T("cat", rush_v_tensors((rush_tensor *[]){front, inside, back}, 3), V(d));
}

/* Samples of one distance. */
static rush_tensor *by_step(rush_tensor *x, int d, rush_value step, int64_t edge_order)
{
    int64_t n = x->size[d];
    rush_tensor *inside = mul(sub(run(x, d, 2, n - 2), run(x, d, 0, n - 2)), 0.5), *front, *back;
    if (edge_order == 1) {
        front = sub(run(x, d, 1, 1), run(x, d, 0, 1));
        back = sub(run(x, d, n - 1, 1), run(x, d, n - 2, 1));
    } else {
        front = sub(sub(mul(run(x, d, 1, 1), 2), mul(run(x, d, 0, 1), 1.5)), mul(run(x, d, 2, 1), 0.5));
        back = add(sub(mul(run(x, d, n - 1, 1), 1.5), mul(run(x, d, n - 2, 1), 2)), mul(run(x, d, n - 3, 1), 0.5));
    }
    return div_(T("cat", rush_v_tensors((rush_tensor *[]){front, inside, back}, 3), V(d)), step);
}

/* dims: None (all), an int or a list; spacing: None, a number, or a list of numbers or tensors, one per dim. */
static int gradient(const rush_value *in, rush_value spacing, rush_value dims, int64_t edge_order, rush_value *out)
{
    rush_tensor *x = in[0].t;
    int64_t all[RUSH_MAXDIM];
    uint64_t bits;
    if (rush_dims_read(dims, x->ndim, false, &bits)) return -1;
    int n = 0;
    if (dims.kind == RUSH_V_INTS)
        for (; n < (int)dims.n; ++n) all[n] = rush_dim_wrap(dims.ints[n], x->ndim);
    else if (HAS(dims)) all[n++] = rush_dim_wrap(dims.i, x->ndim);
    else
        for (; n < x->ndim; ++n) all[n] = n;
    bool list = spacing.kind == RUSH_V_VALUES || spacing.kind == RUSH_V_TENSORS;
    RUSH_CHECK(!list || (int)spacing.n == n, RUSH_RUNTIME_ERROR,
               HAS(dims) ? "torch.gradient expected spacing to be unspecified, a scalar or it's spacing and dim arguments to have the same length, but got a "
                           "spacing argument of length %u and a dim argument of length %d."
                         : "torch.gradient expected spacing to be unspecified, a scalar, or a list of length equal to the number of dims, since dim "
                           "argument was not given, but got a list of length %u for %d dims",
               spacing.n, n);
    RUSH_CHECK(x->dtype != RUSH_U8, RUSH_RUNTIME_ERROR, "torch.gradient does not support uint8 input.");
    RUSH_CHECK(edge_order == 1 || edge_order == 2, RUSH_RUNTIME_ERROR, "torch.gradient only supports edge_order=1 and edge_order=2.");
    for (int k = 0; k < n; ++k)
        RUSH_CHECK(x->ndim && x->size[all[k]] > edge_order, RUSH_RUNTIME_ERROR, "torch.gradient expected each dimension size to be at least edge_order+1");
    rush_tensor **list_out = rush_out_list(out, 0, (size_t)n);
    if (!list_out) return -1;
    for (int k = 0; k < n; ++k) {
        if (spacing.kind == RUSH_V_TENSORS) list_out[k] = by_places(x, (int)all[k], spacing.tensors[k], edge_order);
        else list_out[k] = by_step(x, (int)all[k], list ? spacing.values[k] : HAS(spacing) ? spacing : V(1), edge_order);
        if (!list_out[k]) return -1;
    }
    return 0;
}

static int spaced_run(const rush_op *op, const rush_value *in, rush_value *out) { return gradient(in, in[1], in[2], in[3].i, out); }
static int dims_run(const rush_op *op, const rush_value *in, rush_value *out) { return gradient(in, RUSH_NONE, in[1], in[2].i, out); }

#define DOC "The derivative along each dim, estimated by differences. spacing is the distance of samples, one or one per dim, or their places."
#define FORM(id, arguments, how)                                                                            \
    static rush_op op_gradient_##id = {                                                                     \
        .schema = "gradient." #id "(Tensor self, *, " arguments ", int edge_order=1) -> Tensor[]", .doc = DOC, .run = how}
FORM(scalarint, "Scalar? spacing=None, int? dim=None", spaced_run);
FORM(scalararray, "Scalar spacing, int[] dim", spaced_run);
FORM(array, "int[] dim", dims_run);
FORM(scalarrayint, "Scalar[] spacing, int? dim=None", spaced_run);
FORM(scalarrayarray, "Scalar[] spacing, int[] dim", spaced_run);
FORM(tensorarrayint, "Tensor[] spacing, int? dim=None", spaced_run);
FORM(tensorarray, "Tensor[] spacing, int[] dim", spaced_run);

RUSH_FAMILY(gradient, &op_gradient_scalarint, &op_gradient_scalararray, &op_gradient_array, &op_gradient_scalarrayint, &op_gradient_scalarrayarray,
            &op_gradient_tensorarrayint, &op_gradient_tensorarray)
