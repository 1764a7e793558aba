/* onnx_write_nn.c - products, convolutions, windows, normalisations, attention and recurrent cells, written as ONNX. */
#include "graph/onnx_write.h"
#include "op/op.h"

#include <math.h>

#define RULE(name) static int name(W *w, const rush_graph_node *node)

static const char *number(W *w, double x, int dtype) { return rush_onnx_number(w, rush_v_float(x), dtype); }
static const char *optional(W *w, const rush_operand *o) { return rush_onnx_none(o) ? "" : rush_onnx_tensor_of(w, o, -1); }

static const char *turned(W *w, const char *x, int n) /* the last two dimensions change places */
{
    int64_t perm[RUSH_MAXDIM];
    for (int d = 0; d < n; ++d) perm[d] = d < n - 2 ? d : n - 1 - (d - (n - 2));
    return PUT("Transpose", rush_onnx_ints(NULL, "perm", n, perm), x);
}

/* ---- products ---- */

RULE(matmul) { GIVE(PUT("MatMul", NULL, TENSOR(0), TENSOR(1))); }

RULE(linear)
{
    const rush_graph_value *x = TYPE(0), *bias = TYPE(2);
    if (!x || x->ndim < 1 || (!bias && !rush_onnx_none(IN(2)))) return 1;
    if (x->ndim == 2) GIVE(PUT("Gemm", rush_onnx_i(NULL, "transB", 1), TENSOR(0), TENSOR(1), optional(w, IN(2))));
    const char *y = PUT("MatMul", NULL, TENSOR(0), turned(w, TENSOR(1), 2));
    GIVE(bias ? PUT("Add", NULL, y, TENSOR(2)) : y);
}

RULE(addmm)
{
    double beta, alpha;
    if (!rush_onnx_float(IN(3), &beta) || !rush_onnx_float(IN(4), &alpha)) return 1;
    if (!strcmp(node->op->base, "addmm")) GIVE(PUT("Gemm", rush_onnx_f(rush_onnx_f(NULL, "alpha", alpha), "beta", beta), TENSOR(1), TENSOR(2), TENSOR(0)));
    int d = RESULT(0)->dtype; /* baddbmm */
    const char *y = PUT("MatMul", NULL, TENSOR(1), TENSOR(2)), *c = TENSOR(0);
    if (alpha != 1) y = PUT("Mul", NULL, y, number(w, alpha, d));
    if (beta != 1) c = PUT("Mul", NULL, c, number(w, beta, d));
    GIVE(PUT("Add", NULL, y, c));
}

RULE(outer) { GIVE(PUT("Mul", NULL, PUT("Unsqueeze", NULL, rush_onnx_tensor_of(w, IN(0), RESULT(0)->dtype), rush_onnx_list(w, 1, (int64_t[]){1})), rush_onnx_tensor_of(w, IN(1), RESULT(0)->dtype))); }

RULE(einsum)
{
    const char *each[32];
    const rush_operand *list = IN(1);
    if (IN(0)->kind != RUSH_OPERAND_CONSTANT || IN(0)->constant.kind != RUSH_V_STRING || list->kind != RUSH_OPERAND_LIST || list->n > 32) return 1;
    for (uint32_t i = 0; i < list->n; ++i) each[i] = rush_onnx_tensor_of(w, &list->item[i], -1);
    GIVE(rush_onnx_put(w, "Einsum", rush_onnx_s(NULL, "equation", IN(0)->constant.s), (int)list->n, each));
}

/* ---- convolutions: arguments by name, since conv2d, conv_transpose2d and convolution have their own orders ---- */

static int numbers(const rush_graph_node *node, const char *name, int n, int64_t fallback, int64_t *to)
{
    int at = rush_op_arg(node->op, name), m = at < 0 ? 0 : rush_onnx_ints_of(IN(at), RUSH_MAXDIM, to);
    if (m < 0) return -1;
    for (int d = m; d < n; ++d) to[d] = m ? to[m - 1] : fallback;
    return 0;
}

static int twice(W *w, int n, int64_t *x) /* pads before and after */
{
    for (int d = 0; d < n; ++d) x[n + d] = x[d];
    return n;
}

RULE(convolved)
{
    const rush_graph_value *x = TYPE(0), *weight = TYPE(1);
    int64_t stride[RUSH_MAXDIM], pad[2 * RUSH_MAXDIM], dilation[RUSH_MAXDIM], more[RUSH_MAXDIM], groups = 1, flag = 0;
    if (!x || !weight || x->ndim < 3 || x->ndim != weight->ndim) return 1;
    int n = x->ndim - 2, group = rush_op_arg(node->op, "groups"), how = rush_op_arg(node->op, "transposed"), padding = rush_op_arg(node->op, "padding");
    const char *automatic = rush_onnx_is(IN(padding), "same") ? "SAME_UPPER" : rush_onnx_is(IN(padding), "valid") ? "VALID" : NULL;
    if (how >= 0) rush_onnx_int(IN(how), &flag);
    bool transposed = flag || !strncmp(node->op->base, "conv_transpose", 14);
    if (numbers(node, "stride", n, 1, stride) || (!automatic && numbers(node, "padding", n, 0, pad)) || numbers(node, "dilation", n, 1, dilation) || numbers(node, "output_padding", n, 0, more) ||
        (group >= 0 && !rush_onnx_int(IN(group), &groups)))
        return 1;
    rush_bytes *a = rush_onnx_i(rush_onnx_ints(rush_onnx_ints(NULL, "strides", n, stride), "dilations", n, dilation), "group", groups);
    a = automatic ? rush_onnx_s(a, "auto_pad", automatic) : rush_onnx_ints(a, "pads", twice(w, n, pad) * 2, pad);
    if (transposed) a = rush_onnx_ints(a, "output_padding", n, more);
    GIVE(PUT(transposed ? "ConvTranspose" : "Conv", a, TENSOR(0), TENSOR(1), optional(w, IN(2))));
}

/* ---- windows ---- */

RULE(pooled)
{
    bool most = !strcmp(rush_onnx_word(node), "MaxPool");
    const rush_graph_value *x = TYPE(0);
    const char *base = node->op->base, *digit = strpbrk(base, "123"), *in = TENSOR(0), *y;
    int n = digit ? *digit - '0' : 0, ceil = rush_op_arg(node->op, "ceil_mode"), count = rush_op_arg(node->op, "count_include_pad"), divisor = rush_op_arg(node->op, "divisor_override");
    int64_t kernel[8], stride[8], pad[16], dilation[8], up = 0, all = 1;
    if (!x || !n || x->ndim < n + 1 || x->ndim > n + 2 || rush_onnx_ints_of(IN(1), 3, kernel) < 0 || numbers(node, "kernel_size", n, 1, kernel) || numbers(node, "padding", n, 0, pad) || numbers(node, "dilation", n, 1, dilation)) return 1;
    int m = rush_onnx_ints_of(IN(2), 3, stride);
    if (m < 0 || (divisor >= 0 && !rush_onnx_none(IN(divisor))) || (most && node->nout > 1 && node->out[1] != RUSH_NO_VALUE && w->name[node->out[1]])) return 1;
    for (int d = m; d < n; ++d) stride[d] = m ? stride[m - 1] : kernel[d];
    if (ceil >= 0) rush_onnx_int(IN(ceil), &up);
    if (count >= 0) rush_onnx_int(IN(count), &all);
    rush_bytes *a = rush_onnx_ints(rush_onnx_ints(rush_onnx_ints(NULL, "kernel_shape", n, kernel), "strides", n, stride), "pads", twice(w, n, pad) * 2, pad);
    a = rush_onnx_i(a, "ceil_mode", up);
    a = most ? rush_onnx_ints(a, "dilations", n, dilation) : rush_onnx_i(a, "count_include_pad", all);
    if (x->ndim == n + 1) in = PUT("Unsqueeze", NULL, in, rush_onnx_list(w, 1, (int64_t[]){0}));
    y = PUT(rush_onnx_word(node), a, in);
    GIVE(x->ndim == n + 1 ? PUT("Squeeze", NULL, y, rush_onnx_list(w, 1, (int64_t[]){0})) : y);
}

RULE(adapted) /* to a size: windows of equal sizes, or all of it */
{
    const rush_graph_value *x = TYPE(0), *y = RESULT(0);
    const char *digit = strpbrk(node->op->base, "123");
    int n = digit ? *digit - '0' : 0;
    int64_t kernel[8], axes[8];
    bool all = true, most = strstr(node->op->base, "max") != NULL;
    if (!x || !n || x->ndim < n || y->ndim != x->ndim) return 1;
    for (int d = 0; d < n; ++d) {
        int64_t from = x->size[x->ndim - n + d].n, to = y->size[y->ndim - n + d].n;
        all = all && to == 1;
        axes[d] = d - n;
        kernel[d] = from > 0 && to > 0 && from % to == 0 ? from / to : 0;
    }
    if (all) GIVE(PUT(most ? "ReduceMax" : "ReduceMean", rush_onnx_i(NULL, "keepdims", 1), TENSOR(0), rush_onnx_list(w, n, axes)));
    for (int d = 0; d < n; ++d)
        if (!kernel[d] || x->ndim != n + 2) return 1;
    GIVE(PUT(most ? "MaxPool" : "AveragePool", rush_onnx_ints(rush_onnx_ints(NULL, "kernel_shape", n, kernel), "strides", n, kernel), TENSOR(0)));
}

RULE(resized)
{
    const rush_graph_value *x = TYPE(0), *y = RESULT(0);
    const char *base = node->op->base;
    bool near = strstr(base, "nearest") != NULL, exact = strstr(base, "exact") != NULL;
    int align = rush_op_arg(node->op, "align_corners"), by = rush_op_arg(node->op, "scale_factors");
    int64_t corners = 0;
    if (!x || x->ndim < 3) return 1;
    if (align >= 0) rush_onnx_int(IN(align), &corners);
    rush_bytes *a = rush_onnx_s(NULL, "mode", near ? "nearest" : strstr(base, "cubic") ? "cubic" : "linear");
    a = rush_onnx_s(a, "coordinate_transformation_mode", near && !exact ? "asymmetric" : corners ? "align_corners" : strstr(base, "cubic") || exact ? "half_pixel" : "pytorch_half_pixel");
    if (near) a = rush_onnx_s(a, "nearest_mode", exact ? "round_prefer_ceil" : "floor");
    if (strstr(base, "cubic")) a = rush_onnx_f(a, "cubic_coeff_a", -0.75);
    const rush_operand *o = by >= 0 ? IN(by) : NULL;
    if (o && o->kind == RUSH_OPERAND_CONSTANT && o->constant.kind == RUSH_V_FLOATS && (int)o->constant.n == x->ndim - 2) {
        float scale[RUSH_MAXDIM] = {1, 1};
        for (uint32_t d = 0; d < o->constant.n; ++d) scale[2 + d] = (float)o->constant.floats[d];
        int64_t n = x->ndim;
        const char *scales = rush_onnx_fresh(w);
        if (!scales || rush_onnx_constant(w, scales, rush_from_data(scale, RUSH_F32, 1, &n))) return -1;
        GIVE(PUT("Resize", a, TENSOR(0), "", scales));
    }
    GIVE(PUT("Resize", a, TENSOR(0), "", "", rush_onnx_shape_of(w, y, NULL, false)));
}

RULE(sampled)
{
    static const char *const old[] = {"bilinear", "nearest", "bicubic"}, *const now[] = {"linear", "nearest", "cubic"}, *const border[] = {"zeros", "border", "reflection"};
    int64_t mode, outside, align;
    if (!rush_onnx_int(IN(2), &mode) || !rush_onnx_int(IN(3), &outside) || !rush_onnx_int(IN(4), &align) || mode < 0 || mode > 2 || outside < 0 || outside > 2) return 1;
    rush_bytes *a = rush_onnx_i(rush_onnx_s(rush_onnx_s(NULL, "mode", w->opset < 20 ? old[mode] : now[mode]), "padding_mode", border[outside]), "align_corners", align);
    GIVE(PUT("GridSample", a, TENSOR(0), TENSOR(1)));
}

/* ---- normalisations ---- */

RULE(batch_norm)
{
    int64_t training = 0;
    double eps;
    int how = rush_op_arg(node->op, "training"), at = rush_op_arg(node->op, "eps");
    const rush_graph_value *x = TYPE(0);
    if (how >= 0) rush_onnx_int(IN(how), &training);
    if (training || !x || x->ndim < 2 || x->size[1].n < 0 || !rush_onnx_float(IN(at), &eps)) return 1;
    int64_t n = x->size[1].n;
    const char *scale = rush_onnx_none(IN(1)) ? rush_onnx_filled(w, n, 1, x->dtype) : TENSOR(1), *bias = rush_onnx_none(IN(2)) ? rush_onnx_filled(w, n, 0, x->dtype) : TENSOR(2);
    GIVE(PUT("BatchNormalization", rush_onnx_f(NULL, "epsilon", eps), TENSOR(0), scale, bias, TENSOR(3), TENSOR(4)));
}

RULE(layer_norm)
{
    int64_t size[RUSH_MAXDIM];
    const char *in[3], *out[3];
    double eps;
    int n = rush_onnx_ints_of(IN(1), RUSH_MAXDIM, size), count = node->nout > 1 ? 3 : 1;
    const rush_graph_value *x = TYPE(0);
    if (n < 1 || !x || !rush_onnx_float(IN(4), &eps)) return 1;
    in[0] = TENSOR(0);
    in[1] = rush_onnx_none(IN(2)) ? PUT("Expand", NULL, number(w, 1, x->dtype), rush_onnx_list(w, n, size)) : TENSOR(2);
    in[2] = optional(w, IN(3));
    int failed = rush_onnx_put_many(w, "LayerNormalization", rush_onnx_f(rush_onnx_i(NULL, "axis", -n), "epsilon", eps), 3, in, count, out);
    for (int k = 0; !failed && k < count && k < (int)node->nout; ++k) failed = rush_onnx_give(w, node, k, out[k]);
    return failed;
}

/* Scale and bias of channels, (C) as (C, 1, 1). */
static const char *channels(W *w, const char *x, int spatial)
{
    int64_t size[RUSH_MAXDIM] = {-1};
    for (int d = 0; d < spatial; ++d) size[1 + d] = 1;
    return PUT("Reshape", NULL, x, rush_onnx_list(w, 1 + spatial, size));
}

RULE(group_norm) /* group_norm and native_group_norm: groups as channels of InstanceNormalization */
{
    const rush_graph_value *x = TYPE(0);
    bool native = !strcmp(node->op->base, "native_group_norm");
    int at = rush_op_arg(node->op, "weight"), by = rush_op_arg(node->op, native ? "group" : "num_groups"), eps_at = rush_op_arg(node->op, "eps");
    int64_t groups;
    double eps;
    if (!x || x->ndim < 2 || !rush_onnx_int(IN(by), &groups) || !rush_onnx_float(IN(eps_at), &eps)) return 1;
    const char *in = TENSOR(0), *flat = PUT("Reshape", NULL, in, rush_onnx_list(w, 3, (int64_t[]){0, groups, -1}));
    const char *y = PUT("InstanceNormalization", rush_onnx_f(NULL, "epsilon", eps), flat, rush_onnx_filled(w, groups, 1, x->dtype), rush_onnx_filled(w, groups, 0, x->dtype));
    y = PUT("Reshape", NULL, y, PUT("Shape", NULL, in));
    if (!rush_onnx_none(IN(at))) y = PUT("Mul", NULL, y, channels(w, TENSOR(at), x->ndim - 2));
    if (!rush_onnx_none(IN(at + 1))) y = PUT("Add", NULL, y, channels(w, TENSOR(at + 1), x->ndim - 2));
    GIVE(y);
}

RULE(instance_norm)
{
    const rush_graph_value *x = TYPE(0);
    int64_t own = 1;
    double eps;
    if (!x || x->ndim < 2 || x->size[1].n < 0 || !rush_onnx_int(IN(5), &own) || !rush_onnx_float(IN(7), &eps)) return 1;
    if (!own) return 1;
    const char *scale = rush_onnx_none(IN(1)) ? rush_onnx_filled(w, x->size[1].n, 1, x->dtype) : TENSOR(1), *bias = rush_onnx_none(IN(2)) ? rush_onnx_filled(w, x->size[1].n, 0, x->dtype) : TENSOR(2);
    GIVE(PUT("InstanceNormalization", rush_onnx_f(NULL, "epsilon", eps), TENSOR(0), scale, bias));
}

RULE(rms_norm)
{
    const rush_graph_value *x = TYPE(0);
    int64_t axes[RUSH_MAXDIM];
    double eps;
    int n = rush_onnx_ints_of(IN(1), RUSH_MAXDIM, axes);
    if (!x || n < 1) return 1;
    if (!rush_onnx_float(IN(3), &eps)) eps = rush_dtypes[x->dtype].eps;
    for (int d = 0; d < n; ++d) axes[d] = d - n;
    const char *in = TENSOR(0), *mean = PUT("ReduceMean", NULL, PUT("Mul", NULL, in, in), rush_onnx_list(w, n, axes));
    const char *y = PUT("Div", NULL, in, PUT("Sqrt", NULL, PUT("Add", NULL, mean, number(w, eps, x->dtype))));
    GIVE(rush_onnx_none(IN(2)) ? y : PUT("Mul", NULL, y, TENSOR(2)));
}

RULE(dropout)
{
    int64_t training = 0;
    int at = rush_op_arg(node->op, "train");
    if (at >= 0 && rush_onnx_int(IN(at), &training) && training) return 1;
    GIVE(TENSOR(0));
}

/* ---- attention ---- */

/* 0 where a query may look, -inf elsewhere: as many rows as queries, as many columns as keys. */
static const char *causal(W *w, const char *q, const char *k, int n, int dtype)
{
    const char *rows = PUT("Shape", rush_onnx_i(rush_onnx_i(NULL, "start", n - 2), "end", n - 1), q), *columns = PUT("Shape", rush_onnx_i(rush_onnx_i(NULL, "start", n - 2), "end", n - 1), k);
    const char *all = PUT("Expand", NULL, number(w, -INFINITY, dtype), PUT("Concat", rush_onnx_i(NULL, "axis", 0), rows, columns));
    return PUT("Trilu", rush_onnx_i(NULL, "upper", 1), all, rush_onnx_number(w, rush_v_int(1), RUSH_I64));
}

/* Heads of keys that several queries share are repeated. */
static const char *shared(W *w, const char *x, const rush_graph_value *v, int64_t times, int n)
{
    if (times <= 1) return x;
    int64_t tile[RUSH_MAXDIM], size[RUSH_MAXDIM], axis = n - 2;
    for (int d = 0; d <= n; ++d) tile[d] = d == axis ? times : 1;
    for (int d = 0; d < n; ++d) size[d] = d == n - 3 ? v->size[n - 3].n * times : d < n - 3 ? 0 : d == n - 1 ? v->size[d].n : -1;
    return PUT("Reshape", NULL, PUT("Tile", NULL, PUT("Unsqueeze", NULL, x, rush_onnx_list(w, 1, &axis)), rush_onnx_list(w, n + 1, tile)), rush_onnx_list(w, n, size));
}

RULE(attention)
{
    const rush_graph_value *q = TYPE(0), *k = TYPE(1), *v = TYPE(2);
    int mask = rush_op_arg(node->op, "attn_mask"), drop = rush_op_arg(node->op, "dropout_p"), ahead = rush_op_arg(node->op, "is_causal"), by = rush_op_arg(node->op, "scale"), group = rush_op_arg(node->op, "enable_gqa");
    int64_t blind = 0, gqa = 0, times = 1;
    double scale = 0, p = 0;
    if (mask < 0) mask = rush_op_arg(node->op, "attn_bias");
    if (!q || !k || !v || q->ndim < 3 || (drop >= 0 && rush_onnx_float(IN(drop), &p) && p > 0)) return 1;
    int n = q->ndim, d = q->dtype;
    if (ahead >= 0) rush_onnx_int(IN(ahead), &blind);
    if (group >= 0) rush_onnx_int(IN(group), &gqa);
    if (by < 0 || !rush_onnx_float(IN(by), &scale)) {
        if (q->size[n - 1].n <= 0) return 1;
        scale = 1 / sqrt((double)q->size[n - 1].n);
    }
    if (gqa) {
        if (n < 4 || q->size[n - 3].n <= 0 || k->size[n - 3].n <= 0 || k->size[n - 1].n < 0) return 1;
        times = q->size[n - 3].n / k->size[n - 3].n;
    }
    const char *keys = shared(w, TENSOR(1), k, times, n), *values = shared(w, TENSOR(2), v, times, n), *queries = TENSOR(0);
    const char *y = PUT("MatMul", NULL, PUT("Mul", NULL, queries, number(w, scale, d)), turned(w, keys, n));
    if (blind) y = PUT("Add", NULL, y, causal(w, queries, keys, n, d));
    if (mask >= 0 && TYPE(mask)) {
        bool only = TYPE(mask)->dtype == RUSH_BOOL;
        y = only ? PUT("Where", NULL, TENSOR(mask), y, number(w, -INFINITY, d)) : PUT("Add", NULL, y, rush_onnx_tensor_of(w, IN(mask), d));
    }
    GIVE(PUT("MatMul", NULL, PUT("Softmax", rush_onnx_i(NULL, "axis", -1), y), values));
}

/* ---- recurrent cells, layer by layer ---- */

/* Rows of a weight in the order that ONNX has its gates in, with a dimension for the direction. */
static const char *gates(W *w, const char *x, int n, const int *order, bool unsqueeze)
{
    const char *piece[4], *in[1] = {x}, *sorted[4];
    if (!x || (n > 1 && rush_onnx_put_many(w, "Split", rush_onnx_i(rush_onnx_i(NULL, "axis", 0), "num_outputs", n), 1, in, n, piece))) return NULL;
    for (int k = 0; n > 1 && k < n; ++k) sorted[k] = piece[order[k]];
    const char *y = n > 1 ? rush_onnx_put(w, "Concat", rush_onnx_i(NULL, "axis", 0), n, sorted) : x;
    return unsqueeze ? PUT("Unsqueeze", NULL, y, rush_onnx_list(w, 1, (int64_t[]){0})) : y;
}

typedef struct cell {
    const char *type;
    int ngates, order[4];
    const char *activation;
} cell;

typedef struct layers { /* what lstm.input, gru.input, rnn_*.input were called with */
    const rush_operand *weights;
    int64_t biases, n, both, first;
    const char *state[2], *last[2][64];
    int nstates;
} layers;

/* One layer, both directions: x is (seq, batch, in), so is the result. */
static const char *layer(W *w, const cell *c, layers *l, int k, const char *x)
{
    const char *weight[2][3], *in[7], *out[3];
    int64_t directions = l->both ? 2 : 1, per = l->biases ? 4 : 2;
    for (int64_t d = 0; d < directions; ++d) {
        const rush_operand *p = &l->weights->item[(k * directions + d) * per];
        weight[d][0] = gates(w, rush_onnx_tensor_of(w, &p[0], -1), c->ngates, c->order, true);
        weight[d][1] = gates(w, rush_onnx_tensor_of(w, &p[1], -1), c->ngates, c->order, true);
        weight[d][2] = "";
        if (l->biases) {
            const char *b = PUT("Concat", rush_onnx_i(NULL, "axis", 0), gates(w, rush_onnx_tensor_of(w, &p[2], -1), c->ngates, c->order, false), gates(w, rush_onnx_tensor_of(w, &p[3], -1), c->ngates, c->order, false));
            weight[d][2] = b ? PUT("Unsqueeze", NULL, b, rush_onnx_list(w, 1, (int64_t[]){0})) : NULL;
        }
    }
    for (int i = 0; i < 3; ++i) in[1 + i] = l->both && !(i == 2 && !l->biases) ? PUT("Concat", rush_onnx_i(NULL, "axis", 0), weight[0][i], weight[1][i]) : weight[0][i];
    in[0] = x;
    in[4] = "";
    const rush_graph_value *shape = rush_onnx_type(w, &l->weights->item[1]); /* (gates * hidden, hidden) */
    int64_t from = k * directions, to = from + directions, zero = 0;
    for (int s = 0; s < l->nstates; ++s) in[5 + s] = PUT("Slice", NULL, l->state[s], rush_onnx_list(w, 1, &from), rush_onnx_list(w, 1, &to), rush_onnx_list(w, 1, &zero));
    if (!shape || shape->ndim != 2 || shape->size[1].n < 0) return NULL;
    rush_bytes *a = rush_onnx_s(rush_onnx_i(NULL, "hidden_size", shape->size[1].n), "direction", l->both ? "bidirectional" : "forward");
    if (!strcmp(c->type, "GRU")) a = rush_onnx_i(a, "linear_before_reset", 1);
    for (int64_t d = 0; c->activation && d < directions; ++d) { /* the texts of one attribute */
        rush_bytes one = {0};
        if (d) break;
        rush_pb_text(&one, 1, "activations");
        for (int64_t e = 0; e < directions; ++e) rush_pb_text(&one, 9, c->activation);
        rush_pb_int(&one, 20, 8);
        rush_pb_message(a, 5, &one);
    }
    if (rush_onnx_put_many(w, c->type, a, 5 + l->nstates, in, 1 + l->nstates, out)) return NULL;
    for (int s = 0; s < l->nstates; ++s) l->last[s][k] = out[1 + s];
    /* (seq, directions, batch, hidden) to (seq, batch, directions * hidden) */
    return PUT("Reshape", NULL, PUT("Transpose", rush_onnx_ints(NULL, "perm", 4, (int64_t[]){0, 2, 1, 3}), out[0]), rush_onnx_list(w, 3, (int64_t[]){0, 0, -1}));
}

RULE(recurrent)
{
    static const cell cells[] = {{"LSTM", 4, {0, 3, 1, 2}, NULL}, {"GRU", 3, {1, 0, 2}, NULL}, {"RNN", 1, {0}, "Tanh"}, {"RNN", 1, {0}, "Relu"}};
    const char *base = node->op->base;
    const cell *c = &cells[!strcmp(base, "lstm") ? 0 : !strcmp(base, "gru") ? 1 : strstr(base, "tanh") ? 2 : 3];
    layers l = {.weights = IN(2), .nstates = c == cells ? 2 : 1};
    int64_t train = 0;
    if (!strstr(node->op->name, ".input") || IN(2)->kind != RUSH_OPERAND_LIST || !rush_onnx_int(IN(3), &l.biases) || !rush_onnx_int(IN(4), &l.n) || !rush_onnx_int(IN(7), &l.both) || !rush_onnx_int(IN(8), &l.first)) return 1;
    double p = 0;
    if (rush_onnx_int(IN(6), &train) && train && rush_onnx_float(IN(5), &p) && p > 0) return 1;
    if (l.n < 1 || l.n > 64 || IN(2)->n != (uint32_t)(l.n * (l.both ? 2 : 1) * (l.biases ? 4 : 2)) || !TYPE(0) || TYPE(0)->ndim != 3) return 1; /* with projections: not written */
    if (c == cells ? IN(1)->kind != RUSH_OPERAND_LIST || IN(1)->n != 2 : !TYPE(1)) return 1;
    for (int s = 0; s < l.nstates; ++s) l.state[s] = rush_onnx_tensor_of(w, c == cells ? &IN(1)->item[s] : IN(1), -1);
    static const int64_t swap[] = {1, 0, 2};
    const char *x = TENSOR(0);
    if (l.first) x = PUT("Transpose", rush_onnx_ints(NULL, "perm", 3, swap), x);
    for (int k = 0; k < l.n && x; ++k) x = layer(w, c, &l, k, x);
    if (x && l.first) x = PUT("Transpose", rush_onnx_ints(NULL, "perm", 3, swap), x);
    for (int s = 0; x && s < l.nstates && 1 + s < (int)node->nout; ++s)
        if (rush_onnx_give(w, node, 1 + s, l.n == 1 ? l.last[s][0] : rush_onnx_put(w, "Concat", rush_onnx_i(NULL, "axis", 0), (int)l.n, l.last[s]))) return -1;
    GIVE(x);
}

/* ---- boxes ---- */

RULE(nms)
{
    double overlap;
    if (!rush_onnx_float(IN(2), &overlap)) return 1;
    const char *boxes = PUT("Unsqueeze", NULL, rush_onnx_tensor_of(w, IN(0), RUSH_F32), rush_onnx_list(w, 1, (int64_t[]){0}));
    const char *scores = PUT("Unsqueeze", NULL, rush_onnx_tensor_of(w, IN(1), RUSH_F32), rush_onnx_list(w, 2, (int64_t[]){0, 1}));
    const char *found = PUT("NonMaxSuppression", NULL, boxes, scores, rush_onnx_number(w, rush_v_int(INT64_MAX), RUSH_I64), number(w, overlap, RUSH_F32));
    GIVE(PUT("Gather", rush_onnx_i(NULL, "axis", 1), found, rush_onnx_number(w, rush_v_int(2), RUSH_I64))); /* rows: batch, class, box */
}

const rush_onnx_row rush_onnx_nn[] = {
    {"matmul", matmul, NULL}, {"mm", matmul, NULL}, {"bmm", matmul, NULL}, {"linear", linear, NULL}, {"addmm", addmm, NULL}, {"baddbmm", addmm, NULL}, {"einsum", einsum, NULL}, {"outer", outer, NULL}, {"dot", matmul, NULL}, {"mv", matmul, NULL}, {"conv1d", convolved, NULL},
    {"conv2d", convolved, NULL}, {"conv3d", convolved, NULL}, {"convolution", convolved, NULL}, {"_convolution", convolved, NULL}, {"conv_transpose1d", convolved, NULL}, {"conv_transpose2d", convolved, NULL},
    {"conv_transpose3d", convolved, NULL}, {"max_pool1d", pooled, "MaxPool"}, {"max_pool2d", pooled, "MaxPool"}, {"max_pool3d", pooled, "MaxPool"}, {"max_pool2d_with_indices", pooled, "MaxPool"},
    {"max_pool3d_with_indices", pooled, "MaxPool"}, {"avg_pool1d", pooled, "AveragePool"}, {"avg_pool2d", pooled, "AveragePool"}, {"avg_pool3d", pooled, "AveragePool"}, {"adaptive_avg_pool1d", adapted, NULL},
    {"adaptive_avg_pool2d", adapted, NULL}, {"adaptive_avg_pool3d", adapted, NULL}, {"_adaptive_avg_pool2d", adapted, NULL}, {"_adaptive_avg_pool3d", adapted, NULL}, {"adaptive_max_pool1d", adapted, NULL},
    {"adaptive_max_pool2d", adapted, NULL}, {"adaptive_max_pool3d", adapted, NULL}, {"upsample_nearest1d", resized, NULL}, {"upsample_nearest2d", resized, NULL}, {"upsample_nearest3d", resized, NULL},
    {"_upsample_nearest_exact1d", resized, NULL}, {"_upsample_nearest_exact2d", resized, NULL}, {"_upsample_nearest_exact3d", resized, NULL}, {"upsample_linear1d", resized, NULL}, {"upsample_bilinear2d", resized, NULL},
    {"upsample_trilinear3d", resized, NULL}, {"upsample_bicubic2d", resized, NULL}, {"grid_sampler", sampled, NULL}, {"grid_sampler_2d", sampled, NULL}, {"grid_sampler_3d", sampled, NULL}, {"batch_norm", batch_norm, NULL},
    {"native_batch_norm", batch_norm, NULL}, {"_native_batch_norm_legit_no_training", batch_norm, NULL}, {"cudnn_batch_norm", batch_norm, NULL}, {"layer_norm", layer_norm, NULL}, {"native_layer_norm", layer_norm, NULL},
    {"group_norm", group_norm, NULL}, {"native_group_norm", group_norm, NULL}, {"instance_norm", instance_norm, NULL}, {"rms_norm", rms_norm, NULL}, {"_fused_rms_norm", rms_norm, NULL}, {"dropout", dropout, NULL},
    {"dropout_", dropout, NULL}, {"feature_dropout", dropout, NULL}, {"alpha_dropout", dropout, NULL}, {"native_dropout", dropout, NULL}, {"scaled_dot_product_attention", attention, NULL},
    {"_scaled_dot_product_flash_attention_for_cpu", attention, NULL}, {"_scaled_dot_product_attention_math", attention, NULL}, {"lstm", recurrent, NULL}, {"gru", recurrent, NULL}, {"rnn_tanh", recurrent, NULL},
    {"rnn_relu", recurrent, NULL}, {"torchvision::nms", nms, NULL}, {NULL}};
