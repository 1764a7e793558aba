/* convolve.c - convolutions in one to three dimensions, forward and back, as products of the columns of their windows: what PyTorch does
 * where cuDNN is not.
 *
 * As on the CPU (ops/product/conv.c) a transposed convolution is the way back of a plain one, so three products serve all: the result
 * from the image, the image's gradient, the weight's. A few images at a time, so that columns stay small.
 */
#include "cuda/column.h"
#include "op/formula.h"
#include "ops/product/product.h"
#include <stdio.h>

enum { COLUMN_BYTES = 64 << 20 };

/* The plain convolution of x (n, in, space) with w (out, in / groups, kernel) to y (n, out, result). */
typedef struct plan {
    rush_conv c;
    int64_t rows, results, together; /* of columns: in * positions of a kernel, positions of a result; images at a time */
    bool itself;                     /* the columns are the image */
} plan;

static int64_t volume(const int64_t *size) { return size[0] * size[1] * size[2]; }

/* -1 and an error: the shape rule would have raised it before. */
static int plan_of(plan *g, const rush_tensor *x, const rush_tensor *w, const rush_value *arguments)
{
    int64_t size[RUSH_MAXDIM];
    rush_conv *c = &g->c;
    if (rush_conv_geometry(c, x, w, arguments, size)) return -1;
    g->results = volume(c->result), g->rows = c->in * volume(c->kernel), g->itself = true;
    for (int i = 0; i < 3; i++) g->itself = g->itself && c->kernel[i] == 1 && c->stride[i] == 1 && !c->before[i] && c->space[i] == c->result[i];
    const int64_t bytes = (int64_t)rush_dtypes[x->dtype].size * RUSH_MAX(g->rows * g->results, g->rows * c->out / c->groups);
    g->together = RUSH_MAX(1, RUSH_MIN(c->n, COLUMN_BYTES / RUSH_MAX(bytes, 1)));
    return 0;
}

static int run(const char *what, const char *word, const plan *g, int64_t images, const rush_tensor *x, rush_tensor *y, int64_t work)
{
    char kernel[32];
    cuda_planes p = {.x = rush_ptr(x), .y = rush_ptr(y), .planes = images * g->c.in};
    for (int d = 0; d < 3; d++)
        p.kernel[d] = g->c.kernel[d], p.space[d] = g->c.space[d], p.result[d] = g->c.result[d], p.stride[d] = g->c.stride[d], p.dilation[d] = g->c.dilation[d], p.before[d] = g->c.before[d];
    snprintf(kernel, sizeof kernel, "%s_%s", what, word);
    return cuda_launch(x->device, kernel, &p, work);
}

/* Contiguous images (m, in, space) as (m * groups, rows / groups, results). */
static rush_tensor *columns_of(const plan *g, rush_tensor *x)
{
    const int64_t m = x->size[0], size[] = {m * g->c.groups, g->rows / g->c.groups, g->results};
    if (g->itself) return T("view", V(x), rush_v_ints(size, 3));
    rush_tensor *c = rush_tensor_new(x->dtype, x->device, 3, size);
    char item[8];
    snprintf(item, sizeof item, "%d", (int)rush_dtypes[x->dtype].size);
    return c && !run("columns", item, g, m, x, c, c->numel) ? c : NULL;
}

/* Images `from` to from + m of a tensor that begins with n. */
static rush_tensor *few(rush_tensor *t, int64_t from, int64_t m) { return T("narrow", V(t), V((int64_t)0), V(from), V(m)); }
/* Dense images of any dims, not empty, as (m * groups, channels of a group, rest) */
static rush_tensor *grouped(const plan *g, rush_tensor *t)
{
    if (!t) return NULL;
    const int64_t channels = t->size[1] / g->c.groups, count = t->size[0] * g->c.groups;
    return T("view", V(t), INTS(count, channels, t->numel / (count * channels)));
}
/* The weight as (m * groups, out / groups, rows / groups), for each of m images again. */
static rush_tensor *weights(const plan *g, rush_tensor *w, int64_t m)
{
    const int64_t size[] = {m, g->c.groups, g->c.out / g->c.groups, g->rows / g->c.groups};
    rush_tensor *each = T("expand", V(T("view", V(w), rush_v_ints(size + 1, 3))), rush_v_ints(g->c.groups == 1 ? (const int64_t[]){m, size[2], size[3]} : size, g->c.groups == 1 ? 3 : 4));
    return g->c.groups == 1 || !each ? each : T("reshape", V(each), INTS(m * size[1], size[2], size[3]));
}

/* Columns are summed in the type that is computed in. */
static rush_dtype sum_dtype(rush_dtype d) { return rush_dtypes[d].category < 2 ? RUSH_I64 : rush_dtypes[d].size == 2 ? RUSH_F32 : d; }

/* y = w x */
static int forward(const plan *g, rush_tensor *x, rush_tensor *w, rush_tensor *y)
{
    for (int64_t i = 0; i < g->c.n && !rush_failed(); i += g->together)
        rush_scope() {
            const int64_t m = RUSH_MIN(g->together, g->c.n - i);
            rush_tensor *c = columns_of(g, few(x, i, m)), *to = grouped(g, few(y, i, m)), *by = weights(g, w, m);
            if (!rush_failed()) cuda_multiply(by, c, NULL, to, RUSH_NONE, RUSH_NONE);
        }
    return rush_failed() ? -1 : 0;
}

/* x = w' y, back from columns to images */
static int back(const plan *g, rush_tensor *y, rush_tensor *w, rush_tensor *x)
{
    const rush_dtype d = sum_dtype(x->dtype);
    for (int64_t i = 0; i < g->c.n && !rush_failed(); i += g->together)
        rush_scope() {
            const int64_t m = RUSH_MIN(g->together, g->c.n - i);
            rush_tensor *to = few(x, i, m), *made = to && d != x->dtype ? rush_tensor_new(d, x->device, to->ndim, to->size) : to;
            rush_tensor *c = g->itself ? grouped(g, made) : rush_tensor_new(d, x->device, 3, (int64_t[]){m * g->c.groups, g->rows / g->c.groups, g->results});
            rush_tensor *from = grouped(g, few(y, i, m)), *by = weights(g, w, m);
            if (rush_failed() || cuda_multiply(transpose(by, 1, 2), from, NULL, c, RUSH_NONE, RUSH_NONE)) break;
            if (!g->itself && run("images", cuda_word(d), g, m, c, made, made->numel)) break;
            if (made != to) rush_copy_into(to, made);
        }
    return rush_failed() ? -1 : 0;
}

/* w = y x', summed over the images */
static int weigh(const plan *g, rush_tensor *y, rush_tensor *x, rush_tensor *w)
{
    const rush_dtype d = sum_dtype(w->dtype);
    const int64_t size[] = {g->c.groups, g->c.out / g->c.groups, g->rows / g->c.groups};
    rush_tensor *sum = rush_tensor_new(d, w->device, 3, size);
    if (!sum || rush_device_fill(sum, rush_v_int(0))) return -1;
    for (int64_t i = 0; i < g->c.n && !rush_failed(); i += g->together)
        rush_scope() {
            const int64_t m = RUSH_MIN(g->together, g->c.n - i);
            rush_tensor *c = columns_of(g, few(x, i, m)), *from = grouped(g, few(y, i, m));
            rush_tensor *each = rush_tensor_new(d, w->device, 3, (int64_t[]){m * g->c.groups, size[1], size[2]});
            if (rush_failed() || cuda_multiply(from, transpose(c, 1, 2), NULL, each, RUSH_NONE, RUSH_NONE)) break;
            rush_tensor *one = m == 1 ? each : sum_dim(T("view", V(each), INTS(m, size[0], size[1], size[2])), 0, false);
            if (one) CUDA_INPLACE("add.Tensor", V(sum), V(one));
        }
    return rush_failed() ? -1 : rush_copy_into(w, reshape_to(sum, w));
}

/* One of the three, whatever strides `to` has. */
static int product(int what, const plan *g, rush_tensor *a, rush_tensor *b, rush_tensor *to)
{
    if (!to->numel) return 0;
    if (!a->numel || !b->numel) return rush_device_fill(to, rush_v_int(0));
    const int done = cuda_cudnn_convolve(what, &g->c, a, b, to);
    if (done) return done < 0 ? -1 : 0;
    rush_tensor *made = rush_contiguous(to) && !(to->flags & (RUSH_T_CONJ | RUSH_T_NEG)) ? to : rush_tensor_new(to->dtype, to->device, to->ndim, to->size);
    a = rush_contiguous_copy(a), b = rush_contiguous_copy(b);
    if (rush_failed()) return -1;
    if (what == CUDA_CONV_FORWARD ? forward(g, a, b, made) : what == CUDA_CONV_BACK ? back(g, a, b, made) : weigh(g, a, b, made)) return -1;
    return made == to ? 0 : rush_copy_into(to, made);
}

static void convolution(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t, *w = in[1].t, *y = out[0].t;
    plan g;
    if (plan_of(&g, x, w, in + 3) || product(I_(in[3 + RUSH_CONV_TRANSPOSED]) ? CUDA_CONV_BACK : CUDA_CONV_FORWARD, &g, x, w, y) || !HAS(in[2])) return;
    int64_t size[5] = {1, y->size[1], 1, 1, 1};
    rush_tensor *bias = T("reshape", in[2], rush_v_ints(size, y->ndim));
    if (bias) CUDA_INPLACE("add.Tensor", V(y), V(bias));
}

/* g, or a copy in y's format where it has holes or repeats itself, since two products read it. */
static rush_tensor *whole(rush_tensor *g, const rush_tensor *x, const rush_tensor *w)
{
    const rush_memory_format f = rush_format_of(x);
    if (g->flags & RUSH_T_DENSE) return g;
    rush_tensor *made = rush_tensor_new_like(g, g->dtype, g->device, f == RUSH_CONTIGUOUS ? rush_format_of(w) : f);
    return made && !rush_copy_into(made, g) ? made : NULL;
}

/* in = grad_output, input, weight, bias_sizes, then as convolution's, output_mask */
static void convolution_backward(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *g = in[0].t, *x = in[1].t, *w = in[2].t;
    const bool turned = I_(in[4 + RUSH_CONV_TRANSPOSED]);
    plan shape;
    x = conj_(x), w = conj_(w);
    if (!x || !w || plan_of(&shape, x, w, in + 4) || !(g = whole(g, x, w))) return;
    if (HAS(out[0]) && product(turned ? CUDA_CONV_FORWARD : CUDA_CONV_BACK, &shape, g, w, out[0].t)) return;
    if (HAS(out[1]) && product(CUDA_CONV_WEIGH, &shape, turned ? x : g, turned ? g : x, out[1].t)) return;
    if (!HAS(out[2])) return;
    const int64_t dims[4] = {0, 2, 3, 4};
    rush_tensor *sum = T("sum.dim_IntList", V(g), rush_v_ints(dims, (size_t)g->ndim - 1), V(false));
    if (sum) rush_copy_into(out[2].t, sum);
}

const cuda_kernel cuda_convolve_kernels[] = {{"convolution", convolution}, {"convolution_backward", convolution_backward}, {0}};
