/* pool.c - maxima and means over sliding and adaptive windows, in one to three dimensions.
 *
 * A pooling of `nd` dimensions takes (channels, space...) or (n, channels, space...). Maxima come with the index
 * of the element within its plane; their derivative sends the gradient there. Half types are computed in float,
 * and channels-last images through a contiguous copy.
 */
#include "autograd/autograd.h"
#include "op/formula.h"
#include "kernels/cpu/pool.h"
#include "op/tables.h"
#include "op/watch.h"
#include "ops/geometry.h"
#include "ops/reduce/reduce.h"
#include "tensor/quantized.h"

#include <stdio.h>

#define RESULT2 "(Tensor, Tensor)"

/* ---- arguments ---- */

static int spread(rush_value v, int nd, int64_t *to, const char *op, const char *name, const int64_t *otherwise)
{
    RUSH_CHECK(v.n == 1 || (int)v.n == nd || (v.n == 0 && otherwise), RUSH_RUNTIME_ERROR, "%s: %s must either be a single int, or a tuple of %d ints",
               op, name, nd);
    for (int i = 0; i < 3; ++i) to[i] = 1;
    for (int i = 0; i < nd; ++i) to[3 - nd + i] = v.n == 0 ? otherwise ? otherwise[3 - nd + i] : 1 : v.n == 1 ? v.ints[0] : v.ints[i];
    return 0;
}

static int check_input(const rush_tensor *x, int nd, const char *op)
{
    RUSH_CHECK(x->ndim == nd + 1 || x->ndim == nd + 2, RUSH_RUNTIME_ERROR,
               "%s: Expected %dD or %dD (batch mode) tensor with optional 0 dim batch size for input, but got:%s", op, nd + 1, nd + 2,
               rush_shape_of(x));
    for (int i = x->ndim == nd + 2; i < x->ndim; ++i)
        RUSH_CHECK(x->size[i] != 0, RUSH_RUNTIME_ERROR,
                   "%s: Expected %dD or %dD (batch mode) tensor with optional 0 dim batch size for input, but got:%s", op, nd + 1, nd + 2,
                   rush_shape_of(x));
    return 0;
}

/* "(1x0x0)": the last n sizes, of which the first is that of the planes */
static const char *times(const int64_t *size, int n, char *room, size_t length)
{
    size_t at = 0;
    for (int i = 0; i < n && at < length; ++i) at += (size_t)snprintf(room + at, length - at, "%s%lld", i ? "x" : "", (long long)size[i]);
    return room;
}

static int output_too_small(const rush_tensor *x, int nd, const int64_t *size)
{
    char given[100], made[100];
    int first = x->ndim - nd - 1;
    return rush_fail(RUSH_RUNTIME_ERROR, "Given input size: (%s). Calculated output size: (%s). Output size is too small", times(x->size + first, nd + 1, given, sizeof given),
                     times(size + first, nd + 1, made, sizeof made));
}

/* Geometry of a pooling with kernel, stride and padding at in[1..]; dilation may be NULL; size gets the result's. */
static int read_geometry(rush_pool *p, const rush_tensor *x, int nd, const rush_value *in, const rush_value *dilation, bool ceil_mode, const char *op,
                         int64_t *size)
{
    *p = (rush_pool){.planes = 1};
    if (spread(in[1], nd, p->kernel, op, "kernel_size", NULL) || spread(in[2], nd, p->stride, op, "stride", p->kernel) ||
        spread(in[3], nd, p->before, op, "padding", NULL))
        return -1;
    for (int i = 0; i < 3; ++i) p->dilation[i] = p->space[i] = p->result[i] = 1;
    for (int i = 0; i < 3 - nd; ++i) p->before[i] = 0;
    if (dilation && spread(*dilation, nd, p->dilation, op, "dilation", NULL)) return -1;
    if (check_input(x, nd, op)) return -1;
    memcpy(size, x->size, sizeof *size * x->ndim);
    bool too_small = false;
    for (int i = 3 - nd; i < 3; ++i) {
        int64_t k = p->kernel[i], s = p->stride[i], d = p->dilation[i], b = p->before[i], n = x->size[x->ndim - 3 + i];
        RUSH_CHECK(s, RUSH_RUNTIME_ERROR, "stride should not be zero");
        RUSH_CHECK(k > 0, RUSH_RUNTIME_ERROR, "kernel size should be greater than zero, but got %lld", (long long)k);
        RUSH_CHECK(s > 0, RUSH_RUNTIME_ERROR, "stride should be greater than zero, but got %lld", (long long)s);
        RUSH_CHECK(d > 0, RUSH_RUNTIME_ERROR, "dilation should be greater than zero, but got %lld", (long long)d);
        RUSH_CHECK(b >= 0, RUSH_RUNTIME_ERROR, "pad must be non-negative, but got pad: %lld", (long long)b);
        RUSH_CHECK(RUSH_MAX(RUSH_MAX(k, s), RUSH_MAX(d, b)) <= INT32_MAX, RUSH_RUNTIME_ERROR, "integer out of range");
        RUSH_CHECK(b <= ((k - 1) * d + 1) / 2, RUSH_RUNTIME_ERROR,
                   "pad should be at most half of effective kernel size, but got pad=%lld, kernel_size=%lld and dilation=%lld", (long long)b,
                   (long long)k, (long long)d);
        int64_t room = n + 2 * b - d * (k - 1) - 1 + (ceil_mode ? s - 1 : 0), result = room < 0 ? 0 : room / s + 1;
        if (ceil_mode && (result - 1) * s >= n + b) --result;
        too_small |= result < 1;
        p->space[i] = n;
        p->kernel[i] = RUSH_MIN(k, (n + 2 * b + d - 1) / d); /* elements of a window behind the image count nowhere */
        p->result[i] = size[x->ndim - 3 + i] = result;
    }
    if (too_small) return output_too_small(x, nd, size);
    for (int i = 0; i < x->ndim - nd; ++i) p->planes *= x->size[i];
    return 0;
}

/* ---- running a kernel on tensors ---- */

static rush_dtype kernel_dtype(rush_dtype d)
{
    return d == RUSH_F16 || d == RUSH_BF16 || (d >= RUSH_F8E4M3FN && d <= RUSH_F8E8M0FNU) ? RUSH_F32 : rush_dtypes[d].category == 1 ? RUSH_I64 : d;
}

static int floats_only(const rush_tensor *x, const char *kernel)
{
    RUSH_CHECK(rush_dtype_is_float(x->dtype) && rush_dtypes[x->dtype].size > 1, RUSH_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", kernel,
               rush_dtype_word(x->dtype));
    return 0;
}

static bool channels_last(const rush_tensor *t) { return t->ndim == 4 && t->flags & RUSH_T_CHANNELS_LAST && !rush_contiguous(t); }

/* Is t so many planes of images whose channels lie last, for a kernel of floats d on them? What is made of it then has the same layout. */
static bool goes_last(const rush_tensor *t, int64_t planes, rush_dtype d)
{
    return channels_last(t) && t->size[0] * t->size[1] == planes && (d == RUSH_F32 || d == RUSH_F64) && !rush_tables_of[t->device.type];
}

/* What a kernel of type d reads: contiguous, or with channels last. */
static rush_tensor *source(rush_tensor *x, rush_dtype d, bool last)
{
    if (!last) return rush_cast_copy(x, d);
    if (x->dtype == d && channels_last(x) && !(x->flags & RUSH_T_NEG)) return x;
    rush_tensor *copy = rush_tensor_new_like(x, d, x->device, RUSH_CHANNELS_LAST);
    return copy && !rush_copy_into(copy, x) ? copy : NULL;
}

/* A place for a kernel's result of type d that belongs in `to`: itself if it can be written. */
static rush_tensor *landing(rush_tensor *to, rush_dtype d, bool last)
{
    if (!to || (to->dtype == d && (last ? to->flags & RUSH_T_CHANNELS_LAST : rush_contiguous(to)))) return to;
    return last ? rush_tensor_new_like(to, d, to->device, RUSH_CHANNELS_LAST) : rush_tensor_new(d, to->device, to->ndim, to->size);
}

static int land(rush_tensor *to, rush_tensor *from)
{
    return to == from || !to ? 0 : rush_copy_into(to, from);
}

static const rush_pool_of *kernels_of(rush_dtype d) { return d == RUSH_F32 ? &rush_k_pool->f32 : d == RUSH_F64 ? &rush_k_pool->f64 : &rush_k_pool->i64; }

/* Gradients come as x and go to y; only maxima have an index, which may be NULL. */
static int run_pool(rush_pool_kind kind, rush_pool p, rush_tensor *x, rush_tensor *y, rush_tensor *index)
{
    const rush_dtype d = kernel_dtype(x->dtype);
    const rush_tensor *image = kind == RUSH_POOL_MEAN_BACK ? y : x;
    const bool last = goes_last(image, p.planes, d) && !p.each;
    if (!y->numel) return 0;
    p.channels = last ? image->size[1] : 0;
    x = source(x, d, last);
    rush_tensor *v = landing(y, d, last), *at = landing(index, RUSH_I64, last);
    if (rush_failed()) return -1;
    const rush_tables *tables = rush_tables_of[x->device.type];
    if (RUSH_UNLIKELY(tables != NULL)) tables->pool(kind, &p, x, v, at);
    else if (kind == RUSH_POOL_MAX) kernels_of(d)->max(&p, rush_ptr(x), rush_ptr(v), at ? rush_ptr(at) : NULL);
    else (kind == RUSH_POOL_MEAN ? kernels_of(d)->mean : kernels_of(d)->mean_back)(&p, rush_ptr(x), rush_ptr(v));
    return rush_failed() || land(y, v) || land(index, at) ? -1 : 0;
}

/* Sends g to the elements of gx (zero elsewhere) that the indices name, in planes of the last nd dimensions. */
static int run_scatter(rush_tensor *g, rush_tensor *index, rush_tensor *gx, int nd, bool add)
{
    rush_dtype d = kernel_dtype(g->dtype);
    int64_t result = 1, space = 1;
    if (!gx->numel) return 0;
    for (int i = 1; i <= nd; ++i) {
        result *= g->size[g->ndim - i];
        space *= gx->size[gx->ndim - i];
    }
    if (rush_dtypes[d].category == 1) d = RUSH_F64;
    const bool last = nd == 2 && goes_last(gx, gx->numel / RUSH_MAX(space, 1), d);
    g = source(g, d, last);
    index = source(index, RUSH_I64, last);
    rush_tensor *v = landing(gx, d, last);
    if (rush_failed()) return -1;
    rush_zero_into(v);
    int64_t planes = space ? gx->numel / space : 0;
    const rush_tables *tables = rush_tables_of[g->device.type];
    if (RUSH_UNLIKELY(tables != NULL)) return tables->pool_scatter(planes, result, space, g, index, v, add) ? -1 : land(gx, v);
    const int64_t *at = rush_ptr(index);
    for (int64_t i = 0; i < index->numel; ++i)
        RUSH_CHECK(at[i] >= 0 && at[i] < space, RUSH_RUNTIME_ERROR, "Found an invalid max index: %lld (output volumes are of size %lld)",
                   (long long)at[i], (long long)space);
    kernels_of(d)->scatter(planes, last ? gx->size[1] : 0, result, space, rush_ptr(g), at, rush_ptr(v), add);
    return land(gx, v);
}

/* Batches of images with channels last keep their layout, lines like images of one row. */
static rush_tensor *result_like(rush_value *out, int i, const rush_tensor *x, rush_dtype d, const int64_t *size, int nd)
{
    if (x->ndim != nd + 2) return rush_out_t(out, i, x, d, x->ndim, size);
    if (nd > 1) return rush_out_format(out, i, rush_format_of(x), x, d, x->ndim, size);
    const int64_t *n = x->size, *by = x->stride;
    rush_tensor image = *x;
    image.ndim = 4;
    image.size = (int64_t[]){n[0], n[1], 1, n[2]};
    image.stride = (int64_t[]){by[0], by[1], n[2] * by[2], by[2]};
    if (!x->numel || rush_format_of(&image) == RUSH_CONTIGUOUS) return rush_out_t(out, i, x, d, 3, size);
    return rush_out_strided(out, i, d, x->device, 3, size, (int64_t[]){size[1] * size[2], 1, size[1]});
}

/* Volumes do so only where the largest is taken. */
static rush_tensor *image_like(rush_value *out, int i, const rush_tensor *x, rush_dtype d, const int64_t *size, int nd)
{
    return nd == 3 ? rush_out_t(out, i, x, d, x->ndim, size) : result_like(out, i, x, d, size, nd);
}

/* ---- max_pool: self, kernel_size, stride, padding, dilation, ceil_mode ---- */

static int max_pool_shape(const rush_value *in, rush_value *out, int nd, bool indices)
{
    static const char *const names[] = {"max_pool1d", "max_pool2d", "max_pool3d"};
    const rush_tensor *x = in[0].t;
    rush_pool p;
    int64_t size[RUSH_MAXDIM];
    if (read_geometry(&p, x, nd, in, &in[4], I_(in[5]), names[nd - 1], size)) return -1;
    if (nd == 1 && !indices && floats_only(x, "max_pool1d_impl")) return -1; /* with indices it is max_pool2d in PyTorch */
    RUSH_CHECK(rush_dtypes[x->dtype].category == 1 || (rush_dtype_is_float(x->dtype) && rush_dtypes[x->dtype].size > 1), RUSH_NOT_IMPLEMENTED,
               "\"%s\" not implemented for '%s'", names[nd - 1], rush_dtype_word(x->dtype));
    if (nd == 1 && !indices) return rush_out_t(out, 0, x, x->dtype, x->ndim, size) ? 0 : -1;
    if (!result_like(out, 0, x, x->dtype, size, nd)) return -1;
    return !indices || result_like(out, 1, x, RUSH_I64, size, nd) ? 0 : -1;
}

static void max_pool_cpu(const rush_value *in, rush_value *out, int nd, bool indices)
{
    rush_pool p;
    int64_t size[RUSH_MAXDIM];
    if (!read_geometry(&p, in[0].t, nd, in, &in[4], I_(in[5]), "max_pool", size)) run_pool(RUSH_POOL_MAX, p, in[0].t, out[0].t, indices ? out[1].t : NULL);
}

static int values1_shape(const rush_op *op, const rush_value *in, rush_value *out) { return max_pool_shape(in, out, 1, false); }
static int values2_shape(const rush_op *op, const rush_value *in, rush_value *out) { return max_pool_shape(in, out, 2, false); }
static int values3_shape(const rush_op *op, const rush_value *in, rush_value *out) { return max_pool_shape(in, out, 3, false); }
static void values1_cpu(const rush_op *op, const rush_value *in, rush_value *out) { max_pool_cpu(in, out, 1, false); }
static void values2_cpu(const rush_op *op, const rush_value *in, rush_value *out) { max_pool_cpu(in, out, 2, false); }
static void values3_cpu(const rush_op *op, const rush_value *in, rush_value *out) { max_pool_cpu(in, out, 3, false); }
static int max1_shape(const rush_op *op, const rush_value *in, rush_value *out) { return max_pool_shape(in, out, 1, true); }
static int max2_shape(const rush_op *op, const rush_value *in, rush_value *out) { return max_pool_shape(in, out, 2, true); }
static int max3_shape(const rush_op *op, const rush_value *in, rush_value *out) { return max_pool_shape(in, out, 3, true); }
static void max1_cpu(const rush_op *op, const rush_value *in, rush_value *out) { max_pool_cpu(in, out, 1, true); }
static void max2_cpu(const rush_op *op, const rush_value *in, rush_value *out) { max_pool_cpu(in, out, 2, true); }
static void max3_cpu(const rush_op *op, const rush_value *in, rush_value *out) { max_pool_cpu(in, out, 3, true); }

/* The row of each record: how many dimensions a window has. */
static const int window_dims[] = {0, 1, 2, 3};
#define DIMS(n) (&window_dims[n])
static int dims_of(const rush_op *op) { return *(const int *)op->row; }

static void max_pool_grad(rush_grads *s)
{
    const rush_value *a = s->in;
    static const char *const names[] = {"_max_pool1d_with_indices_backward", "max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward"};
    int nd = dims_of(s->op);
    rush_value all[8] = {V(s->g[0]), a[0], a[1], a[2], a[3], a[4], a[5], s->out[1]}, out[1] = {RUSH_NONE};
    const rush_op *op = rush_op_find(names[nd - 1]);
    if (op && !rush_call(op, all, out)) s->gin[0] = T_(out[0]);
}

static int index_at(const rush_op *op) { return op->nargs - 1; }

/* Of every op (g, self, ..., indices): g's elements at the places that the indices name. */
static int no_empty_space(const rush_tensor *g, int nd)
{
    for (int i = g->ndim - nd; i < g->ndim; ++i)
        RUSH_CHECK(g->size[i] > 0, RUSH_RUNTIME_ERROR,
                   "Expected grad_output to have non-zero size for non-batch dimensions, but grad_output has sizes %s with dimension %d being empty", rush_shape_of(g), i);
    return 0;
}

static int scatter_check(const rush_op *op, const rush_value *in)
{
    const rush_tensor *g = in[0].t, *x = in[1].t, *index = in[index_at(op)].t;
    int nd = dims_of(op);
    RUSH_CHECK(index->dtype == RUSH_I64, RUSH_RUNTIME_ERROR, "expected dtype Long for `indices` but got dtype %s", rush_dtype_word(index->dtype));
    if (floats_only(g, "max_pool_backward")) return -1;
    RUSH_CHECK(rush_same_sizes(g, index), RUSH_RUNTIME_ERROR, "grad_output of shape %s and indices of shape %s do not go together", rush_shape_of(g),
               rush_shape_of(index));
    RUSH_CHECK(g->ndim == x->ndim && x->ndim >= nd && !memcmp(g->size, x->size, sizeof *x->size * (size_t)(x->ndim - nd)), RUSH_RUNTIME_ERROR,
               "grad_output of shape %s and input of shape %s do not go together", rush_shape_of(g), rush_shape_of(x));
    RUSH_CHECK(in[0].t->dtype == in[1].t->dtype, RUSH_RUNTIME_ERROR, "expected dtype %s for `grad_output` but got dtype %s",
               rush_dtype_word(in[1].t->dtype), rush_dtype_word(in[0].t->dtype));
    return 0;
}

static int max_back_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    return scatter_check(op, in) || !result_like(out, 0, in[1].t, in[1].t->dtype, in[1].t->size, dims_of(op)) ? -1 : 0;
}

static int adaptive_max_back_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (scatter_check(op, in) || no_empty_space(in[0].t, dims_of(op))) return -1;
    return image_like(out, 0, in[1].t, in[1].t->dtype, in[1].t->size, dims_of(op)) ? 0 : -1;
}

static int fractional_back_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    return scatter_check(op, in) || !rush_out_t(out, 0, in[1].t, in[1].t->dtype, in[1].t->ndim, in[1].t->size) ? -1 : 0;
}

/* gg's elements of the planes' last nd dimensions at the indices. */
static rush_tensor *pick(rush_tensor *gg, rush_tensor *index, int nd)
{
    int64_t lead = index->ndim - nd;
    rush_tensor *from = T("flatten.using_ints", V(gg), V(lead), V(-1)), *at = T("flatten.using_ints", V(index), V(lead), V(-1));
    return T("view", V(T("gather", V(from), V(-1), V(at))), rush_v_ints(index->size, index->ndim));
}

static void scatter_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    run_scatter(in[0].t, in[index_at(op)].t, out[0].t, dims_of(op), true);
}

static void scatter_grad(rush_grads *s)
{
    s->gin[0] = pick(s->g[0], s->in[index_at(s->op)].t, dims_of(s->op));
    rush_no_curvature(s);
}

#define IN_SPACE(n) ((n) == 3 ? RUSH_AUTOCAST_F32 : 0) /* PyTorch pools volumes in float32 under autocast */
/* In one dimension PyTorch has functions of torch, whose graphs end with what takes the second dimension away again. */
#define NAMES(n) .method = (n) > 1 ? RUSH_NN : 0
#define NODE(n) .node = (n) > 1 ? NULL : "SqueezeBackward1"
#define MAX_ARGS(n) "int[" #n "] kernel_size, int[" #n "] stride=[], int[" #n "] padding=0, int[" #n "] dilation=1, bool ceil_mode=False"
#define MAX_POOL(n)                                                                                                                     \
    static rush_op op_max_pool##n##d_with_indices = {                                                                                   \
        .row = DIMS(n), .schema = "max_pool" #n "d_with_indices(Tensor self, " MAX_ARGS(n) ") -> " RESULT2, NAMES(n),                     \
        .doc = "The largest element of each window, and its index within its plane.",                                                   \
        .shape = max##n##_shape, .cpu = max##n##_cpu, .grad = max_pool_grad, .saves = "self, result1"};                                 \
    static rush_op op_max_values##n = {.row = DIMS(n), .schema = "_max_pool" #n "d_values(Tensor self, " MAX_ARGS(n) ") -> Tensor",       \
                                       .doc = "max_pool without indices, for tensors that need no gradient.",                           \
                                       .shape = values##n##_shape, .cpu = values##n##_cpu, .flags = RUSH_HIDDEN | RUSH_NO_GRAD};        \
    static rush_op op_max_pool##n##d = {.row = DIMS(n), .schema = "max_pool" #n "d(Tensor self, " MAX_ARGS(n) ") -> Tensor", NODE(n),     \
                                        .doc = "The largest element of each window.", .run = max_pool##n##d_run, .flags = IN_SPACE(n)};

/* Indices are made only where a gradient will want them, or who watches may. */
static int max_pool_run(const rush_value *in, rush_value *out, const char *values, const char *indices)
{
    bool wanted = (rush_grad_enabled() && rush_requires_grad(in[0].t)) || rush_is_watched(in[0].t);
    rush_value all[2] = {RUSH_NONE, RUSH_NONE};
    const rush_op *op = rush_op_find(wanted ? indices : values);
    if (!op || rush_call(op, in, all)) return -1;
    return rush_result(out, T_(all[0]));
}

static int max_pool1d_run(const rush_op *op, const rush_value *in, rush_value *out) { return max_pool_run(in, out, "_max_pool1d_values", "max_pool1d_with_indices"); }
static int max_pool2d_run(const rush_op *op, const rush_value *in, rush_value *out) { return max_pool_run(in, out, "_max_pool2d_values", "max_pool2d_with_indices"); }
static int max_pool3d_run(const rush_op *op, const rush_value *in, rush_value *out) { return max_pool_run(in, out, "_max_pool3d_values", "max_pool3d_with_indices"); }

MAX_POOL(1)
MAX_POOL(2)
MAX_POOL(3)

static int quantized_max_pool_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    static const rush_op *const pools[] = {&op_max_pool1d, &op_max_pool2d, &op_max_pool3d};
    RUSH_CHECK(rush_is_quantized(in[0].t), RUSH_NOT_IMPLEMENTED, "%s: the tensor is not quantized", op->name);
    rush_value y = RUSH_NONE;
    if (rush_call(pools[dims_of(op) - 1], in, &y)) return -1;
    return rush_result(out, T_(y));
}

#define QUANTIZED_MAX_POOL(n)                                                                                                           \
    static rush_op op_quantized_max_pool##n##d = {.row = DIMS(n), .schema = "quantized_max_pool" #n "d(Tensor self, " MAX_ARGS(n) ") -> Tensor", \
                                                  .doc = "max_pool of quantized tensors only.", .run = quantized_max_pool_run};
QUANTIZED_MAX_POOL(1)
QUANTIZED_MAX_POOL(2)
QUANTIZED_MAX_POOL(3)

#define MAX_BACKWARD(prefix, n)                                                                                                            \
    static rush_op op_max_pool##n##d_backward = {                                                                                          \
        .row = DIMS(n), .schema = prefix "max_pool" #n "d_with_indices_backward(Tensor grad_output, Tensor self, int[" #n "] kernel_size, int[" #n \
                         "] stride, int[" #n "] padding, int[" #n "] dilation, bool ceil_mode, Tensor indices) -> Tensor",                  \
        .doc = "Gradient of max_pool: each result's goes to the element that was the largest.",                                            \
        .shape = max_back_shape, .cpu = scatter_cpu, .grad = scatter_grad, .saves = "indices"};
MAX_BACKWARD("_", 1)
MAX_BACKWARD("", 2)
MAX_BACKWARD("", 3)

/* ---- avg_pool: self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override ---- */

static int avg_geometry(rush_pool *p, const rush_tensor *x, const rush_value *in, int nd, int64_t *size)
{
    static const char *const names[] = {"avg_pool1d", "avg_pool2d", "avg_pool3d"};
    if (read_geometry(p, x, nd, in, NULL, I_(in[4]), names[nd - 1], size)) return -1;
    p->count_padding = I_(in[5]);
    if (nd > 1 && HAS(in[6])) {
        RUSH_CHECK(I_(in[6]) != 0, RUSH_RUNTIME_ERROR, "divisor must be not zero");
        p->divisor = I_(in[6]);
    }
    return 0;
}

static int avg_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *x = in[0].t;
    int nd = dims_of(op);
    rush_pool p;
    int64_t size[RUSH_MAXDIM];
    if (avg_geometry(&p, x, in, nd, size)) return -1;
    bool ok = x->dtype == RUSH_F32 || x->dtype == RUSH_F64 || x->dtype == RUSH_I64 || (nd < 3 && (x->dtype == RUSH_F16 || x->dtype == RUSH_BF16));
    RUSH_CHECK(ok, RUSH_NOT_IMPLEMENTED, "\"avg_pool%dd\" not implemented for '%s'", nd, rush_dtype_word(x->dtype));
    return image_like(out, 0, x, x->dtype, size, nd) ? 0 : -1;
}

static void avg_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_pool p;
    int64_t size[RUSH_MAXDIM];
    if (!avg_geometry(&p, in[0].t, in, dims_of(op), size)) run_pool(RUSH_POOL_MEAN, p, in[0].t, out[0].t, NULL);
}

static void avg_grad(rush_grads *s)
{
    const rush_value *a = s->in, self = rush_in_graph(s, 0);
    if (dims_of(s->op) == 1) s->gin[0] = T("_avg_pool1d_backward", V(s->g[0]), self, a[1], a[2], a[3], a[4], a[5], RUSH_NONE);
    else if (dims_of(s->op) == 2) s->gin[0] = T("avg_pool2d_backward", V(s->g[0]), self, a[1], a[2], a[3], a[4], a[5], a[6]);
    else s->gin[0] = T("avg_pool3d_backward", V(s->g[0]), self, a[1], a[2], a[3], a[4], a[5], a[6]);
}

static int avg_back_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_pool p;
    int64_t size[RUSH_MAXDIM];
    const rush_tensor *g = in[0].t, *x = in[1].t;
    if (avg_geometry(&p, x, in + 1, dims_of(op), size)) return -1;
    RUSH_CHECK(g->ndim == x->ndim && !memcmp(g->size, size, sizeof *size * g->ndim), RUSH_RUNTIME_ERROR,
               "grad_output of size %s does not fit the result %s", rush_shape_of(g), rush_shape_text(x->ndim, size));
    if (floats_only(g, "avg_pool2d_backward_out_frame")) return -1;
    return image_like(out, 0, x, x->dtype, x->size, dims_of(op)) ? 0 : -1;
}

static void avg_back_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_pool p;
    int64_t size[RUSH_MAXDIM];
    if (!avg_geometry(&p, in[1].t, in + 1, dims_of(op), size)) run_pool(RUSH_POOL_MEAN_BACK, p, in[0].t, out[0].t, NULL);
}

static void avg_back_grad(rush_grads *s)
{
    const rush_value *a = s->in;
    if (dims_of(s->op) == 1) s->gin[0] = T("avg_pool1d", V(s->g[0]), a[2], a[3], a[4], a[5], a[6]);
    else if (dims_of(s->op) == 2) s->gin[0] = T("avg_pool2d", V(s->g[0]), a[2], a[3], a[4], a[5], a[6], a[7]);
    else s->gin[0] = T("avg_pool3d", V(s->g[0]), a[2], a[3], a[4], a[5], a[6], a[7]);
    rush_no_curvature(s);
}

#define AVG_POOL(n, divisor, prefix)                                                                                                        \
    static rush_op op_avg_pool##n##d = {.row = DIMS(n), .schema = "avg_pool" #n "d(Tensor self, int[" #n "] kernel_size, int[" #n "] stride=[], int[" #n \
                                                  "] padding=0, bool ceil_mode=False, bool count_include_pad=True" divisor ") -> Tensor", NAMES(n), NODE(n), \
                                        .doc = "The mean of each window; zeros around the image count if count_include_pad.",               \
                                        .shape = avg_shape, .cpu = avg_cpu, .grad = avg_grad, .flags = IN_SPACE(n) | RUSH_HANDS_ON};        \
    static rush_op op_avg_pool##n##d_backward = {                                                                                           \
        .row = DIMS(n), .schema = prefix "avg_pool" #n "d_backward(Tensor grad_output, Tensor self, int[" #n "] kernel_size, int[" #n "] stride, int[" #n \
                         "] padding, bool ceil_mode, bool count_include_pad, int? divisor_override) -> Tensor",                              \
        .doc = "Gradient of avg_pool.", .shape = avg_back_shape, .cpu = avg_back_cpu, .grad = avg_back_grad};
AVG_POOL(1, "", "_")
AVG_POOL(2, ", int? divisor_override=None", "")
AVG_POOL(3, ", int? divisor_override=None", "")

/* ---- adaptive: windows [floor(o n / m), ceil((o + 1) n / m)) ---- */

static int adaptive_size(const rush_tensor *x, rush_value want, int nd, const char *op, int64_t *size)
{
    RUSH_CHECK(x->ndim == nd + 1 || x->ndim == nd + 2, RUSH_RUNTIME_ERROR, "%s(): Expected %dD or %dD tensor, but got %s", op, nd + 1, nd + 2,
               rush_shape_of(x));
    RUSH_CHECK((int)want.n == nd || want.n == 1, RUSH_RUNTIME_ERROR, "%s: output_size must be %d", op, nd);
    bool channels = nd == 3 || strstr(op, "max"); /* must there be some, in a batch? */
    for (int i = channels ? 1 : x->ndim - nd; i < x->ndim; ++i)
        RUSH_CHECK(x->size[i] > 0, RUSH_RUNTIME_ERROR,
                   "%s(): Expected input to have non-zero size for non-batch dimensions, but input has sizes %s with dimension %d being empty", op,
                   rush_shape_of(x), i);
    memcpy(size, x->size, sizeof *size * x->ndim);
    for (int i = 0; i < nd; ++i) {
        int64_t m = want.n == 1 ? want.ints[0] : want.ints[i];
        RUSH_CHECK(m >= 0, RUSH_RUNTIME_ERROR, "%s: elements of output_size must be greater than or equal to 0 but received %s", op,
                   rush_shape_text((int)want.n, want.ints));
        size[x->ndim - nd + i] = m;
    }
    return 0;
}

/* The windows from the space of x to that of y; regular where they divide evenly. */
static int adaptive_geometry(rush_pool *p, const rush_tensor *x, const rush_tensor *y, int nd)
{
    *p = (rush_pool){.planes = 1, .apart = true};
    bool even = true;
    for (int i = 0; i < 3; ++i) {
        bool real = i >= 3 - nd;
        p->space[i] = real ? x->size[x->ndim - 3 + i] : 1;
        p->result[i] = real ? y->size[y->ndim - 3 + i] : 1;
        p->dilation[i] = 1;
        if (!p->result[i]) return 0;
        p->kernel[i] = p->stride[i] = p->space[i] / p->result[i];
        even = even && p->space[i] % p->result[i] == 0;
    }
    for (int i = 0; i < x->ndim - nd; ++i) p->planes *= x->size[i];
    if (even && p->result[2] >= 8) return 0;
    for (int i = 0; i < 3; ++i) {
        int64_t n = p->space[i], m = p->result[i], *ends = rush_scope_alloc(sizeof *ends * 2 * (size_t)m);
        if (!ends) return -1;
        for (int64_t o = 0; o < m; ++o) {
            ends[o] = o * n / m;
            ends[m + o] = ((o + 1) * n + m - 1) / m;
        }
        p->begin[i] = ends;
        p->end[i] = ends + m;
    }
    return 0;
}

static int adaptive_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    int64_t size[RUSH_MAXDIM];
    const rush_tensor *x = in[0].t;
    const char *name = op->base + strspn(op->base, "_");
    if (adaptive_size(x, in[1], dims_of(op), name, size) || floats_only(x, name)) return -1;
    const int nd = dims_of(op);
    bool mean = op->nout == 1;
    for (int d = x->ndim - nd; d < x->ndim; ++d) mean = mean && size[d] == 1;
    if (mean) return result_like(out, 0, x, x->dtype, size, nd) ? 0 : -1; /* a mean keeps the layout of volumes, too */
    if (!image_like(out, 0, x, x->dtype, size, dims_of(op))) return -1;
    return op->nout == 1 || image_like(out, 1, x, RUSH_I64, size, dims_of(op)) ? 0 : -1;
}

static void adaptive_avg_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_pool p;
    const rush_tensor *x = in[0].t, *y = out[0].t;
    int nd = dims_of(op);
    const uint64_t space = ((1u << nd) - 1) << (x->ndim - nd);
    if (x->dtype == RUSH_F32 && rush_reduced_count(y, space) == 1) { /* of all there is: a mean, in its order */
        x = rush_plain(x);
        if (!x || rush_cascade_sum(x, space, out[0].t, (double)rush_reduced_count(x, space))) return;
    }
    if (y->numel && !adaptive_geometry(&p, in[0].t, out[0].t, nd)) run_pool(RUSH_POOL_MEAN, p, in[0].t, out[0].t, NULL);
}

static void adaptive_max_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_pool p;
    if (out[0].t->numel && !adaptive_geometry(&p, in[0].t, out[0].t, dims_of(op))) run_pool(RUSH_POOL_MAX, p, in[0].t, out[0].t, out[1].t);
}

static int like_second_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(in[0].t->dtype == in[1].t->dtype, RUSH_RUNTIME_ERROR, "expected dtype %s for `grad_output` but got dtype %s",
               rush_dtype_word(in[1].t->dtype), rush_dtype_word(in[0].t->dtype));
    if (floats_only(in[0].t, op->base)) return -1;
    const rush_tensor *x = in[1].t;
    const int nd = dims_of(op);
    if (nd < 3 && rush_reduced_count(in[0].t, ((1u << nd) - 1) << (x->ndim - nd)) == 1) return rush_out_t(out, 0, x, x->dtype, x->ndim, x->size) ? 0 : -1; /* a mean's */
    return image_like(out, 0, x, x->dtype, x->size, nd) ? 0 : -1;
}

/* The gradient is one of the result's: of x's dimensions, but for the space. */
static int adaptive_avg_back_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *g = in[0].t, *x = in[1].t;
    int nd = dims_of(op);
    RUSH_CHECK(g->ndim == x->ndim, RUSH_RUNTIME_ERROR, "Expected dimensions %d for `grad_output` but got dimensions %d", x->ndim, g->ndim);
    RUSH_CHECK(x->ndim == nd + 1 || x->ndim == nd + 2, RUSH_RUNTIME_ERROR, "Expected %dD or %dD tensor, but got %s", nd + 1, nd + 2, rush_shape_of(x));
    RUSH_CHECK(!memcmp(g->size, x->size, sizeof *g->size * (size_t)(x->ndim - nd)), RUSH_RUNTIME_ERROR, "grad_output of size %s does not fit the input %s",
               rush_shape_of(g), rush_shape_of(x));
    return no_empty_space(g, nd) ? -1 : like_second_shape(op, in, out);
}

static void adaptive_avg_back_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_pool p;
    if (!in[0].t->numel) rush_zero_into(out[0].t);
    else if (!adaptive_geometry(&p, out[0].t, in[0].t, dims_of(op))) run_pool(RUSH_POOL_MEAN_BACK, p, in[0].t, out[0].t, NULL);
}

/* A window that is everything is a mean in PyTorch, which has no second derivative. */
static bool is_mean(rush_value size)
{
    uint32_t ones = 0;
    while (ones < size.n && size.ints[ones] == 1) ++ones;
    return ones == size.n;
}

static void adaptive_avg_grad(rush_grads *s)
{
    int nd = dims_of(s->op);
    rush_value self = is_mean(s->in[1]) ? s->in[0] : rush_in_graph(s, 0);
    if (nd == 1) s->gin[0] = T("_adaptive_avg_pool1d_backward", V(s->g[0]), self);
    else if (nd == 2) s->gin[0] = T("_adaptive_avg_pool2d_backward", V(s->g[0]), self);
    else s->gin[0] = T("_adaptive_avg_pool3d_backward", V(s->g[0]), self);
}

static void adaptive_avg_back_grad(rush_grads *s)
{
    int nd = dims_of(s->op);
    rush_tensor *g = s->in[0].t;
    rush_value size = rush_v_ints(g->size + g->ndim - nd, nd);
    if (nd == 1) s->gin[0] = T("adaptive_avg_pool1d", V(s->g[0]), size);
    else if (nd == 2) s->gin[0] = T("_adaptive_avg_pool2d", V(s->g[0]), size);
    else s->gin[0] = T("_adaptive_avg_pool3d", V(s->g[0]), size);
    rush_no_curvature(s);
}

static void adaptive_max_grad(rush_grads *s)
{
    int nd = dims_of(s->op);
    if (nd == 1) s->gin[0] = T("_adaptive_max_pool1d_backward", V(s->g[0]), s->in[0], s->out[1]);
    else if (nd == 2) s->gin[0] = T("adaptive_max_pool2d_backward", V(s->g[0]), s->in[0], s->out[1]);
    else s->gin[0] = T("adaptive_max_pool3d_backward", V(s->g[0]), s->in[0], s->out[1]);
}

#define ADAPTIVE_AVG(name, n, opened, ...)                                                                                                     \
    {.row = DIMS(n), .schema = name "(Tensor self, SymInt[" #n "] output_size) -> Tensor", .doc = "Means of windows that cover the space evenly.", \
     .shape = adaptive_shape, .cpu = adaptive_avg_cpu, .grad = adaptive_avg_grad, .open = opened, .flags = IN_SPACE(n) | RUSH_HANDS_ON, __VA_ARGS__}
#define ADAPTIVE_AVG_BACKWARD(n)                                                                                                                \
    {.row = DIMS(n), .schema = "_adaptive_avg_pool" #n "d_backward(Tensor grad_output, Tensor self) -> Tensor", .doc = "Gradient of adaptive_avg_pool.", \
     .shape = adaptive_avg_back_shape, .cpu = adaptive_avg_back_cpu, .grad = adaptive_avg_back_grad}
/* PyTorch's kernel is the one with the underscore; windows that are everything are a mean. */
static int adaptive_avg_open(const rush_op *op, const rush_value *in, rush_value *out)
{
    static const int64_t last[] = {-1, -2, -3};
    uint32_t n = (uint32_t)dims_of(op);
    if (is_mean(in[1])) return rush_result(out, T("mean.dim", in[0], rush_v_ints(last, n), V(true)));
    return rush_result(out, n == 2 ? T("_adaptive_avg_pool2d", in[0], in[1]) : T("_adaptive_avg_pool3d", in[0], in[1]));
}

static rush_op op_adaptive_avg_pool1d = ADAPTIVE_AVG("adaptive_avg_pool1d", 1, NULL, NODE(1)), op_adaptive_avg_pool2d = ADAPTIVE_AVG("adaptive_avg_pool2d", 2, adaptive_avg_open, NAMES(2)),
               op_adaptive_avg_pool3d = ADAPTIVE_AVG("adaptive_avg_pool3d", 3, adaptive_avg_open, NAMES(3)), op_inner_avg_pool2d = ADAPTIVE_AVG("_adaptive_avg_pool2d", 2, NULL, NAMES(1)),
               op_inner_avg_pool3d = ADAPTIVE_AVG("_adaptive_avg_pool3d", 3, NULL, NAMES(1));
static rush_op op_adaptive_avg1_back = ADAPTIVE_AVG_BACKWARD(1), op_adaptive_avg2_back = ADAPTIVE_AVG_BACKWARD(2),
               op_adaptive_avg3_back = ADAPTIVE_AVG_BACKWARD(3);

#define ADAPTIVE_MAX(n)                                                                                                          \
    {.row = DIMS(n), .schema = "adaptive_max_pool" #n "d(Tensor self, int[" #n "] output_size) -> " RESULT2, NAMES(n), NODE(n),     \
     .doc = "Maxima, with indices, of windows that cover the space evenly.", .shape = adaptive_shape, .cpu = adaptive_max_cpu,   \
     .grad = adaptive_max_grad, .saves = "self, result1", .flags = IN_SPACE(n)}
#define ADAPTIVE_MAX_BACKWARD(prefix, n)                                                                                                  \
    {.row = DIMS(n), .schema = prefix "adaptive_max_pool" #n "d_backward(Tensor grad_output, Tensor self, Tensor indices) -> Tensor",       \
     .doc = "Gradient of adaptive_max_pool.", .shape = adaptive_max_back_shape, .cpu = scatter_cpu, .grad = scatter_grad, .saves = "indices"}
static rush_op op_adaptive_max_pool1d = ADAPTIVE_MAX(1), op_adaptive_max_pool2d = ADAPTIVE_MAX(2), op_adaptive_max_pool3d = ADAPTIVE_MAX(3);
static rush_op op_adaptive_max1_back = ADAPTIVE_MAX_BACKWARD("_", 1), op_adaptive_max2_back = ADAPTIVE_MAX_BACKWARD("", 2),
               op_adaptive_max3_back = ADAPTIVE_MAX_BACKWARD("", 3);

/* ---- fractional: windows of one size at places drawn from samples (n, channels, nd) ---- */

static int fractional_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *x = in[0].t, *r = in[3].t;
    int nd = dims_of(op), lead = x->ndim - nd;
    const char *name = op->base;
    int64_t size[RUSH_MAXDIM];
    RUSH_CHECK((int)in[1].n == nd, RUSH_RUNTIME_ERROR, "%s: kernel_size must either be a single int or a tuple of %d ints", name, nd);
    RUSH_CHECK((int)in[2].n == nd, RUSH_RUNTIME_ERROR, "%s: output_size must either be a single int or a tuple of %d ints", name, nd);
    RUSH_CHECK(lead == 1 || lead == 2, RUSH_RUNTIME_ERROR, "%s(): Expected %dD or %dD tensor, but got: %s", name, nd + 1, nd + 2, rush_shape_of(x));
    memcpy(size, x->size, sizeof *size * x->ndim);
    for (int i = 0; i < nd; ++i) {
        RUSH_CHECK(x->size[lead + i] > 0 && (lead == 1 || x->size[1] > 0), RUSH_RUNTIME_ERROR,
                   "%s(): Expected input to have non-zero size for non-batch dimensions, but got %s", name, rush_shape_of(x));
        int64_t kernel = in[1].ints[i], result = in[2].ints[i], room = x->size[lead + i] - (nd == 3); /* of three dimensions one place must remain */
        const char *word = (const char *[]){"time", "height", "width"}[3 - nd + i];
        RUSH_CHECK(kernel > 0 && result >= 0, RUSH_RUNTIME_ERROR, "%s(): kernel sizes must be positive, output sizes non-negative", name);
        RUSH_CHECK(kernel <= room && result - 1 <= room - kernel, RUSH_RUNTIME_ERROR, "%s(): pool %s %lld too large relative to input %s %lld", name, word,
                   (long long)kernel, word, (long long)x->size[lead + i]);
        size[lead + i] = result;
    }
    RUSH_CHECK(r->ndim == 3, RUSH_RUNTIME_ERROR, "Expect _random_samples to have 3 dimensions, got %d", r->ndim);
    RUSH_CHECK(r->size[0] >= (lead == 2 ? x->size[0] : 1), RUSH_RUNTIME_ERROR, "Expect _random_samples.size(0) no less then input batch size.");
    RUSH_CHECK(r->size[1] == x->size[lead - 1], RUSH_RUNTIME_ERROR, "Expect _random_samples.size(1) equals to input channel size.");
    RUSH_CHECK(r->size[2] == nd, RUSH_RUNTIME_ERROR, "Expect _random_samples.size(2) equals to %d; got %lld.", nd, (long long)r->size[2]);
    RUSH_CHECK(r->dtype == x->dtype, RUSH_RUNTIME_ERROR, "Expect _random_samples to have the same dtype as input");
    if (floats_only(x, "fractional_max_pool2d_out_frame")) return -1;
    return rush_out_t(out, 0, x, x->dtype, x->ndim, size) && rush_out_t(out, 1, x, RUSH_I64, x->ndim, size) ? 0 : -1;
}

static void fractional_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *x = in[0].t, *y = out[0].t;
    int nd = dims_of(op);
    rush_pool p = {.planes = 1, .each = true};
    rush_tensor *samples = rush_cast_copy(in[3].t, RUSH_F64);
    if (samples && samples->device.type != RUSH_CPU) { /* the places are worked out by the host */
        rush_tensor *here = rush_tensor_new(RUSH_F64, (rush_device){RUSH_CPU, 0}, samples->ndim, samples->size);
        samples = here && !rush_copy_into(here, samples) ? here : NULL;
    }
    if (!samples || !y->numel) return;
    const double *u = rush_ptr(samples);
    bool narrow = x->dtype != RUSH_F64; /* PyTorch's positions come from arithmetic of the samples' type */
    for (int i = 0; i < x->ndim - nd; ++i) p.planes *= x->size[i];
    for (int i = 0; i < 3; ++i) {
        int d = i - (3 - nd);
        bool real = d >= 0;
        int64_t n = p.space[i] = real ? x->size[x->ndim - nd + d] : 1, m = p.result[i] = real ? y->size[y->ndim - nd + d] : 1;
        int64_t k = real ? in[1].ints[d] : 1, *begin = rush_scope_alloc(sizeof *begin * 2 * (size_t)(m * p.planes)), *end = begin + m * p.planes;
        if (!begin) return;
        for (int64_t plane = 0; plane < p.planes; ++plane) {
            double sample = real ? u[plane * nd + (nd == 2 ? 1 - d : d)] : 0, alpha = m > 1 ? (double)(n - k) / (double)(m - 1) : 0;
            if (narrow) alpha = m > 1 ? (float)(n - k) / (float)(m - 1) : 0;
            for (int64_t o = 0; o < m; ++o) {
                int64_t at = n - k;
                if (o < m - 1)
                    at = narrow ? (int64_t)(((float)o + (float)sample) * (float)alpha) - (int64_t)((float)sample * (float)alpha)
                                : (int64_t)(((double)o + sample) * alpha) - (int64_t)(sample * alpha);
                begin[plane * m + o] = at = RUSH_MIN(RUSH_MAX(at, 0), n - k); /* samples may lie outside 0 to 1 */
                end[plane * m + o] = at + k;
            }
        }
        p.begin[i] = begin;
        p.end[i] = end;
    }
    run_pool(RUSH_POOL_MAX, p, in[0].t, out[0].t, out[1].t);
}

static void fractional_grad(rush_grads *s)
{
    const rush_value *a = s->in;
    s->gin[0] = dims_of(s->op) == 2 ? T("fractional_max_pool2d_backward", V(s->g[0]), a[0], a[1], a[2], s->out[1])
                                    : T("fractional_max_pool3d_backward", V(s->g[0]), a[0], a[1], a[2], s->out[1]);
}

#define FRACTIONAL(n)                                                                                                                     \
    static rush_op op_fractional##n = {.row = DIMS(n), .schema = "fractional_max_pool" #n "d(Tensor self, int[" #n "] kernel_size, int[" #n  \
                                                 "] output_size, Tensor random_samples) -> " RESULT2, NAMES(n),                            \
                                       .doc = "Maxima of windows at pseudo-random places (Graham, 2014).", .shape = fractional_shape,     \
                                       .cpu = fractional_cpu, .grad = fractional_grad, .saves = "self, result1",                          \
                                       .flags = RUSH_AUTOCAST_F32};                                                                        \
    static rush_op op_fractional##n##_back = {.row = DIMS(n), .schema = "fractional_max_pool" #n "d_backward(Tensor grad_output, Tensor self, int[" #n \
                                                        "] kernel_size, int[" #n "] output_size, Tensor indices) -> Tensor",               \
                                              .doc = "Gradient of fractional_max_pool.", .shape = fractional_back_shape, .cpu = scatter_cpu,      \
                                              .grad = scatter_grad, .saves = "indices"};
FRACTIONAL(2)
FRACTIONAL(3)

/* ---- max_unpool: the way back, by indices ---- */

static int unpool_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *x = in[0].t, *index = in[1].t;
    int nd = dims_of(op), lead = x->ndim - nd;
    int64_t size[RUSH_MAXDIM];
    RUSH_CHECK((int)in[2].n == nd, RUSH_RUNTIME_ERROR, "There should be exactly %d elements in output_size, but got %u elements.", nd, in[2].n);
    RUSH_CHECK(index->dtype == RUSH_I64, RUSH_RUNTIME_ERROR, "elements in indices should be type int64 but got: %s", rush_dtype_word(index->dtype));
    RUSH_CHECK(lead == 1 || lead == 2, RUSH_RUNTIME_ERROR,
               "Input to max_unpooling%dd should be a %dd or %dd Tensor, but got a tensor with %d dimensions.", nd, nd + 1, nd + 2, x->ndim);
    RUSH_CHECK(rush_same_sizes(x, index), RUSH_RUNTIME_ERROR,
               "Expected shape of indices to be same as that of the input tensor (%s) but got indices tensor with shape: %s", rush_shape_of(x),
               rush_shape_of(index));
    for (int i = 1; i < x->ndim; ++i)
        RUSH_CHECK(x->size[i] > 0, RUSH_RUNTIME_ERROR,
                   "max_unpooling(): Expected input to have non-zero size for non-batch dimensions, but got %s with dimension %d being empty.",
                   rush_shape_of(x), i);
    if (nd == 3) {
        RUSH_CHECK(in[3].n == 3, RUSH_RUNTIME_ERROR, "There should be exactly three elements (depth, height, width) in stride, but got: %u elements.",
                   in[3].n);
        RUSH_CHECK(in[4].n == 3, RUSH_RUNTIME_ERROR, "There should be exactly three elements (depth, height, width) in padding, but got: %u elements.",
                   in[4].n);
        for (int i = 0; i < 3; ++i)
            RUSH_CHECK(in[3].ints[i] > 0, RUSH_RUNTIME_ERROR, "strides should be greater than zero, but got stride: %s", rush_shape_text(3, in[3].ints));
    }
    memcpy(size, x->size, sizeof *size * x->ndim);
    memcpy(size + lead, in[2].ints, sizeof *size * (size_t)nd);
    if (floats_only(x, "max_unpool")) return -1;
    return image_like(out, 0, x, x->dtype, size, nd) ? 0 : -1;
}

static void unpool_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    run_scatter(in[0].t, in[1].t, out[0].t, dims_of(op), false);
}

static void unpool_grad(rush_grads *s)
{
    s->gin[0] = pick(s->g[0], s->in[1].t, dims_of(s->op));
}

static rush_op op_max_unpool2d = {
    .row = DIMS(2), .schema = "max_unpool2d(Tensor self, Tensor indices, SymInt[2] output_size) -> Tensor", .method = RUSH_NN,
    .doc = "Puts each element at the place that its index names in a plane of output_size; zeros elsewhere.",
    .shape = unpool_shape, .cpu = unpool_cpu, .grad = unpool_grad, .saves = "indices", .flags = RUSH_AUTOCAST_F32,
};
static rush_op op_max_unpool3d = {
    .row = DIMS(3), .schema = "max_unpool3d(Tensor self, Tensor indices, SymInt[3] output_size, int[3] stride, int[3] padding) -> Tensor",
    .method = RUSH_NN,
    .doc = "max_unpool2d in three dimensions.", .shape = unpool_shape, .cpu = unpool_cpu, .grad = unpool_grad, .saves = "indices", .flags = RUSH_AUTOCAST_F32,
};

RUSH_FAMILY(pool, &op_max_pool1d_with_indices, &op_max_pool2d_with_indices, &op_max_pool3d_with_indices, &op_max_values1, &op_max_values2,
            &op_max_values3, &op_max_pool1d, &op_max_pool2d, &op_max_pool3d, &op_max_pool1d_backward, &op_max_pool2d_backward,
            &op_max_pool3d_backward, &op_avg_pool1d, &op_avg_pool2d, &op_avg_pool3d, &op_avg_pool1d_backward, &op_avg_pool2d_backward,
            &op_avg_pool3d_backward, &op_adaptive_avg_pool1d, &op_adaptive_avg_pool2d, &op_adaptive_avg_pool3d, &op_inner_avg_pool2d,
            &op_inner_avg_pool3d, &op_adaptive_avg1_back, &op_adaptive_avg2_back, &op_adaptive_avg3_back, &op_adaptive_max_pool1d,
            &op_adaptive_max_pool2d, &op_adaptive_max_pool3d, &op_adaptive_max1_back, &op_adaptive_max2_back, &op_adaptive_max3_back,
            &op_fractional2, &op_fractional2_back, &op_fractional3, &op_fractional3_back, &op_quantized_max_pool1d,
            &op_quantized_max_pool2d, &op_quantized_max_pool3d, &op_max_unpool2d, &op_max_unpool3d)
