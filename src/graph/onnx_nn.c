/* onnx_nn.c - ONNX's layers as composites: products, convolutions, windows, normalisations, recurrent cells. */
#include "op/formula.h"

#define RULE(name) static int name##_run(const rush_op *op, const rush_value *in, rush_value *out)
#define RECORD(name, arguments, doc_) static rush_op op_##name = {.schema = "onnx::" #name "(" arguments ") -> Tensor", .doc = doc_, .run = name##_run, .flags = RUSH_HIDDEN}

enum { MOST = 8 }; /* spatial dimensions */

/* ---- products ---- */

RULE(Gemm)
{
    rush_tensor *a = in[0].t, *b = in[1].t, *c = T_(in[2]);
    bool plain = D_(in[3]) == 1 && D_(in[4]) == 1 && !I_(in[5]) && I_(in[6]) && (!c || c->ndim == 1);
    if (plain) return rush_result(out, T("linear", V(a), V(b), in[2]));
    if (I_(in[5])) a = transpose(a, 0, 1);
    if (I_(in[6])) b = transpose(b, 0, 1);
    return rush_result(out, c ? T("addmm", V(c), V(a), V(b), in[4], in[3]) : mul(mm(a, b), in[3]));
}
RECORD(Gemm, "Tensor A, Tensor B, Tensor? C=None, *, float alpha=1.0, float beta=1.0, int transA=0, int transB=0", "alpha A B + beta C, either of them transposed.");

RULE(Einsum) { return rush_result(out, T("einsum", in[1], in[0])); }
RECORD(Einsum, "Tensor[] Inputs, *, str equation", "einsum().");

/* ---- windows: strides, paddings, dilations of each dimension ---- */

typedef struct windows {
    int n; /* spatial dimensions                       */
    int64_t kernel[MOST], stride[MOST], dilation[MOST], pad[MOST]; /* pad: where both sides are the same */
    int64_t border[2 * MOST];                                      /* otherwise, as pad() takes it       */
    bool uneven;
} windows;

static int take_list(rush_value v, int n, int64_t fallback, int64_t *to)
{
    RUSH_CHECK(!HAS(v) || v.n == (uint32_t)n, RUSH_VALUE_ERROR, "%u numbers for %d dimensions", (unsigned)v.n, n);
    for (int d = 0; d < n; ++d) to[d] = HAS(v) ? v.ints[d] : fallback;
    return 0;
}

/* auto_pad: NOTSET says pads; VALID none; SAME_UPPER, SAME_LOWER so much that the result has a place for each stride. */
static int take_windows(const rush_tensor *x, const int64_t *kernel, rush_value strides, rush_value pads, rush_value dilations, const char *automatic, windows *w)
{
    w->n = x->ndim - 2;
    RUSH_CHECK(w->n >= 1 && w->n <= MOST, RUSH_VALUE_ERROR, "a tensor of a batch, channels and 1 to %d dimensions, not of shape %s", MOST, rush_shape_of(x));
    for (int d = 0; d < w->n; ++d) w->kernel[d] = kernel[d];
    int64_t both[2 * MOST];
    if (take_list(strides, w->n, 1, w->stride) || take_list(dilations, w->n, 1, w->dilation) || take_list(pads, 2 * w->n, 0, both)) return -1;
    bool lower = !strcmp(automatic, "SAME_LOWER"), same = lower || !strcmp(automatic, "SAME_UPPER");
    w->uneven = false;
    for (int d = 0; d < w->n; ++d) {
        int64_t size = x->size[2 + d], before = both[d], after = both[w->n + d];
        RUSH_CHECK(w->stride[d] > 0 && w->dilation[d] > 0 && w->kernel[d] >= 0 && w->kernel[d] < INT32_MAX && w->dilation[d] < INT32_MAX && w->stride[d] < INT32_MAX && size < INT64_MAX / 4 &&
                       before > -INT32_MAX && before < INT32_MAX && after > -INT32_MAX && after < INT32_MAX,
                   RUSH_VALUE_ERROR, "windows of size %lld, stride %lld, dilation %lld", (long long)w->kernel[d], (long long)w->stride[d], (long long)w->dilation[d]);
        if (same) {
            int64_t places = (size + w->stride[d] - 1) / w->stride[d], all = (places - 1) * w->stride[d] + (w->kernel[d] - 1) * w->dilation[d] + 1 - size;
            all = RUSH_MAX(all, (int64_t)0);
            before = lower ? all - all / 2 : all / 2;
            after = all - before;
        } else if (!strcmp(automatic, "VALID")) {
            before = after = 0;
        }
        w->pad[d] = before;
        w->border[2 * (w->n - 1 - d)] = before;
        w->border[2 * (w->n - 1 - d) + 1] = after;
        w->uneven = w->uneven || before != after;
    }
    return 0;
}

static rush_tensor *bordered(rush_tensor *x, const windows *w, double with) { return T("constant_pad_nd", V(x), rush_v_ints(w->border, 2 * (size_t)w->n), V(with)); }

#define LIST(of) rush_v_ints(w.of, (size_t)w.n)

RULE(Conv)
{
    static const int64_t none[MOST];
    rush_tensor *x = in[0].t, *weight = in[1].t;
    windows w;
    RUSH_CHECK(weight->ndim == x->ndim && x->ndim >= 3, RUSH_VALUE_ERROR, "a weight of shape %s", rush_shape_of(weight));
    if (take_windows(x, weight->size + 2, in[7], in[6], in[4], in[3].s, &w)) return -1;
    if (w.uneven) x = bordered(x, &w, 0);
    if (!x) return -1;
    return rush_result(out, T("convolution", V(x), V(weight), in[2], LIST(stride), w.uneven ? rush_v_ints(none, (size_t)w.n) : LIST(pad), LIST(dilation), V(false), rush_v_ints(none, (size_t)w.n), in[5]));
}
static rush_op op_Conv = {
    .schema = "onnx::Conv(Tensor X, Tensor W, Tensor? B=None, *, str auto_pad='NOTSET', int[]? dilations=None, int group=1, int[]? pads=None, int[]? strides=None, int[]? kernel_shape=None) -> Tensor",
    .doc = "A convolution over any number of dimensions.", .run = Conv_run, .flags = RUSH_HIDDEN};

RULE(ConvTranspose)
{
    rush_tensor *x = in[0].t, *weight = in[1].t;
    windows w;
    int64_t more[MOST], none[MOST] = {0};
    RUSH_CHECK(weight->ndim == x->ndim && x->ndim >= 3, RUSH_VALUE_ERROR, "a weight of shape %s", rush_shape_of(weight));
    RUSH_CHECK(!HAS(in[10]) && strncmp(in[3].s, "SAME", 4), RUSH_NOT_IMPLEMENTED, "output_shape and auto_pad are not supported");
    if (take_windows(x, weight->size + 2, in[7], in[6], in[4], in[3].s, &w) || take_list(in[9], w.n, 0, more)) return -1;
    rush_tensor *y = T("convolution", V(x), V(weight), in[2], LIST(stride), w.uneven ? rush_v_ints(none, (size_t)w.n) : LIST(pad), LIST(dilation), V(true), rush_v_ints(more, (size_t)w.n), in[5]);
    for (int d = 0; w.uneven && y && d < w.n; ++d) { /* what pads take away is cut off */
        int64_t before = w.border[2 * (w.n - 1 - d)], after = w.border[2 * (w.n - 1 - d) + 1];
        y = T("slice.Tensor", V(y), V((int64_t)d + 2), V(before), V(y->size[2 + d] - after));
    }
    return rush_result(out, y);
}
static rush_op op_ConvTranspose = {
    .schema = "onnx::ConvTranspose(Tensor X, Tensor W, Tensor? B=None, *, str auto_pad='NOTSET', int[]? dilations=None, int group=1, int[]? pads=None, int[]? strides=None, int[]? kernel_shape=None, "
              "int[]? output_padding=None, int[]? output_shape=None) -> Tensor",
    .doc = "The transpose of a convolution.", .run = ConvTranspose_run, .flags = RUSH_HIDDEN};

RULE(MaxPool)
{
    rush_tensor *x = in[0].t;
    windows w;
    RUSH_CHECK(in[1].n == (uint32_t)(x->ndim - 2), RUSH_VALUE_ERROR, "windows of %u dimensions over a tensor of shape %s", (unsigned)in[1].n, rush_shape_of(x));
    if (take_windows(x, in[1].ints, in[6], in[5], in[4], in[2].s, &w)) return -1;
    bool wide = w.uneven;
    for (int d = 0; d < w.n; ++d) wide = wide || 2 * w.pad[d] > w.kernel[d];
    if (wide) {
        x = bordered(x, &w, -__builtin_inf());
        for (int d = 0; d < w.n; ++d) w.pad[d] = 0;
    }
    rush_value v = V(x), ceil = V((bool)I_(in[3]));
    if (w.n == 1) return rush_result(out, T("max_pool1d", v, LIST(kernel), LIST(stride), LIST(pad), LIST(dilation), ceil));
    if (w.n == 2) return rush_result(out, T("max_pool2d", v, LIST(kernel), LIST(stride), LIST(pad), LIST(dilation), ceil));
    RUSH_CHECK(w.n == 3, RUSH_NOT_IMPLEMENTED, "windows of %d dimensions", w.n);
    return rush_result(out, T("max_pool3d", v, LIST(kernel), LIST(stride), LIST(pad), LIST(dilation), ceil));
}
RECORD(MaxPool, "Tensor X, *, int[] kernel_shape, str auto_pad='NOTSET', int ceil_mode=0, int[]? dilations=None, int[]? pads=None, int[]? strides=None, int storage_order=0", "The largest of each window.");

static rush_tensor *means(rush_tensor *x, windows w, rush_value ceil, bool all)
{
    rush_value v = V(x), include = V(all);
    if (!x) return NULL;
    if (w.n == 1) return T("avg_pool1d", v, LIST(kernel), LIST(stride), LIST(pad), ceil, include);
    if (w.n == 2) return T("avg_pool2d", v, LIST(kernel), LIST(stride), LIST(pad), ceil, include);
    RUSH_CHECK_NULL(w.n == 3, RUSH_NOT_IMPLEMENTED, "windows of %d dimensions", w.n);
    return T("avg_pool3d", v, LIST(kernel), LIST(stride), LIST(pad), ceil, include);
}

RULE(AveragePool)
{
    rush_tensor *x = in[0].t;
    windows w;
    bool all = I_(in[4]), wide = false;
    rush_value ceil = V((bool)I_(in[3]));
    RUSH_CHECK(in[1].n == (uint32_t)(x->ndim - 2), RUSH_VALUE_ERROR, "windows of %u dimensions over a tensor of shape %s", (unsigned)in[1].n, rush_shape_of(x));
    if (take_windows(x, in[1].ints, in[7], in[6], in[5], in[2].s, &w)) return -1;
    for (int d = 0; d < w.n; ++d) {
        RUSH_CHECK(w.dilation[d] == 1, RUSH_NOT_IMPLEMENTED, "dilated windows of means");
        wide = wide || w.uneven || 2 * w.pad[d] > w.kernel[d];
    }
    if (!wide) return rush_result(out, means(x, w, ceil, all));
    rush_tensor *padded = bordered(x, &w, 0), *there = all ? NULL : bordered(ones_like(x), &w, 0);
    for (int d = 0; d < w.n; ++d) w.pad[d] = 0;
    rush_tensor *y = means(padded, w, ceil, true);
    return rush_result(out, all ? y : div_(y, means(there, w, ceil, true))); /* the share of each window that is no border */
}
RECORD(AveragePool, "Tensor X, *, int[] kernel_shape, str auto_pad='NOTSET', int ceil_mode=0, int count_include_pad=0, int[]? dilations=None, int[]? pads=None, int[]? strides=None", "The mean of each window.");

/* All dimensions from the third on. */
static rush_value spatial(const rush_tensor *x, int64_t *room)
{
    for (int d = 2; d < x->ndim; ++d) room[d - 2] = d;
    return rush_v_ints(room, (size_t)RUSH_MAX(x->ndim - 2, 0));
}

RULE(GlobalAveragePool)
{
    int64_t room[RUSH_MAXDIM];
    return rush_result(out, T("mean.dim", in[0], spatial(in[0].t, room), V(true)));
}
RECORD(GlobalAveragePool, "Tensor X", "The mean of each channel.");

RULE(GlobalMaxPool)
{
    int64_t room[RUSH_MAXDIM];
    return rush_result(out, T("amax", in[0], spatial(in[0].t, room), V(true)));
}
RECORD(GlobalMaxPool, "Tensor X", "The largest of each channel.");

/* ---- normalisations ---- */

RULE(BatchNormalization)
{
    RUSH_CHECK(!I_(in[7]), RUSH_NOT_IMPLEMENTED, "models are read as they infer: training_mode is not supported");
    return rush_result(out, T("batch_norm", in[0], in[1], in[2], in[3], in[4], V(false), in[6], in[5], V(false)));
}
RECORD(BatchNormalization, "Tensor X, Tensor scale, Tensor B, Tensor input_mean, Tensor input_var, *, float epsilon=1e-05, float momentum=0.9, int training_mode=0, int spatial=1", "batch_norm() by statistics that are given.");

RULE(InstanceNormalization) { return rush_result(out, T("instance_norm", in[0], in[1], in[2], RUSH_NONE, RUSH_NONE, V(true), V(0.0), in[3], V(false))); }
RECORD(InstanceNormalization, "Tensor input, Tensor scale, Tensor B, *, float epsilon=1e-05", "instance_norm().");

RULE(LayerNormalization)
{
    const rush_tensor *x = in[0].t;
    int d = rush_dim_wrap(I_(in[3]), x->ndim);
    return d < 0 ? -1 : TN(out, "native_layer_norm", in[0], rush_v_ints(x->size + d, (size_t)(x->ndim - d)), in[1], in[2], in[4]);
}
static rush_op op_LayerNormalization = {.schema = "onnx::LayerNormalization(Tensor X, Tensor Scale, Tensor? B=None, *, int axis=-1, float epsilon=1e-05, int stash_type=1) -> (Tensor, Tensor, Tensor)",
                                        .doc = "native_layer_norm() of the dimensions from axis on.", .run = LayerNormalization_run, .flags = RUSH_HIDDEN};

RULE(RMSNormalization)
{
    const rush_tensor *x = in[0].t;
    int d = rush_dim_wrap(I_(in[2]), x->ndim);
    return d < 0 ? -1 : rush_result(out, T("rms_norm", in[0], rush_v_ints(x->size + d, (size_t)(x->ndim - d)), in[1], in[3]));
}
RECORD(RMSNormalization, "Tensor X, Tensor scale, *, int axis=-1, float epsilon=1e-05, int stash_type=1", "rms_norm() of the dimensions from axis on.");

/* Before version 21 scale and bias are of groups, since then of channels. */
RULE(GroupNormalization)
{
    rush_tensor *x = in[0].t, *scale = in[1].t, *bias = in[2].t;
    int64_t groups = I_(in[4]);
    RUSH_CHECK(x->ndim >= 2 && groups > 0 && x->size[1] % groups == 0, RUSH_VALUE_ERROR, "%lld groups of a tensor of shape %s", (long long)groups, rush_shape_of(x));
    if (I_(in[6]) < 21) {
        scale = T("repeat_interleave.self_int", V(scale), V(x->size[1] / groups));
        bias = T("repeat_interleave.self_int", V(bias), V(x->size[1] / groups));
        if (!scale || !bias) return -1;
    }
    return rush_result(out, T("group_norm", V(x), V(groups), V(scale), V(bias), in[3], V(false)));
}
RECORD(GroupNormalization, "Tensor X, Tensor scale, Tensor bias, *, float epsilon=1e-05, int num_groups, int stash_type=1, int opset=21", "group_norm().");

RULE(LpNormalization)
{
    rush_tensor *norm = T("linalg_vector_norm", in[0], in[2], INTS(I_(in[1])), V(true));
    return rush_result(out, div_(in[0].t, norm));
}
RECORD(LpNormalization, "Tensor input, *, int axis=-1, int p=2", "Divided by the norm along axis.");

RULE(LRN)
{
    rush_tensor *x = in[0].t;
    int64_t n = I_(in[4]);
    RUSH_CHECK(x->ndim >= 3 && n > 0 && n < 1 << 20, RUSH_VALUE_ERROR, "%lld channels of a tensor of shape %s", (long long)n, rush_shape_of(x));
    rush_tensor *flat = T("reshape", V(square(x)), INTS(x->size[0], 1, x->size[1], -1));
    flat = T("avg_pool2d", V(T("constant_pad_nd", V(flat), INTS(0, 0, (n - 1) / 2, n / 2), V(0))), INTS(n, 1), INTS(1, 1));
    return rush_result(out, flat ? div_(x, T("pow.Tensor_Scalar", V(add(mul(reshape_to(flat, x), in[1]), in[3])), in[2])) : NULL);
}
RECORD(LRN, "Tensor X, *, float alpha=0.0001, float beta=0.75, float bias=1.0, int size", "Divided by a power of the mean square of neighbouring channels.");

/* ---- other sizes ---- */

static rush_tensor *resized(rush_tensor *x, const char *mode, bool align, bool exact, rush_value size, rush_value scale)
{
    int n = x->ndim - 2;
    if (!strcmp(mode, "nearest")) {
        if (n == 1) return exact ? T("_upsample_nearest_exact1d.vec", V(x), size, scale) : T("upsample_nearest1d.vec", V(x), size, scale);
        if (n == 2) return exact ? T("_upsample_nearest_exact2d.vec", V(x), size, scale) : T("upsample_nearest2d.vec", V(x), size, scale);
        if (n == 3) return exact ? T("_upsample_nearest_exact3d.vec", V(x), size, scale) : T("upsample_nearest3d.vec", V(x), size, scale);
    }
    if (!strcmp(mode, "linear")) {
        if (n == 1) return T("upsample_linear1d.vec", V(x), size, V(align), scale);
        if (n == 2) return T("upsample_bilinear2d.vec", V(x), size, V(align), scale);
        if (n == 3) return T("upsample_trilinear3d.vec", V(x), size, V(align), scale);
    }
    if (!strcmp(mode, "cubic") && n == 2) return T("upsample_bicubic2d.vec", V(x), size, V(align), scale);
    rush_fail(RUSH_NOT_IMPLEMENTED, "the mode '%s' for a tensor of shape %s", mode, rush_shape_of(x));
    return NULL;
}

/* The sizes or scales of the spatial dimensions: those of batch and channels must stay. */
static int take_target(const rush_value *in, const rush_tensor *x, rush_value *size, rush_value *scale)
{
    bool by_size = HAS(in[3]) && in[3].t->numel;
    rush_tensor *given = by_size ? in[3].t : T_(in[2]);
    RUSH_CHECK(given && given->numel, RUSH_VALUE_ERROR, "neither sizes nor scales");
    int64_t n = given->numel, skip = n - (x->ndim - 2);
    const int64_t *axes = HAS(in[4]) ? in[4].ints : NULL;
    RUSH_CHECK((axes ? n == in[4].n && skip == 0 : n == x->ndim) && x->ndim >= 3, RUSH_NOT_IMPLEMENTED, "%lld sizes for a tensor of shape %s", (long long)n, rush_shape_of(x));
    for (int64_t k = 0; axes && k < n; ++k) RUSH_CHECK(axes[k] == k + 2 || axes[k] == k + 2 - x->ndim, RUSH_NOT_IMPLEMENTED, "axes other than all but the first two");
    int64_t *sizes = rush_scope_alloc((size_t)n * sizeof *sizes);
    double *scales = rush_scope_alloc((size_t)n * sizeof *scales);
    if (!sizes || !scales) return -1;
    for (int64_t k = 0; k < n; ++k) {
        double f = rush_number_of(T("select.int", V(given), V(0), V(k)));
        bool stays = by_size ? f == (double)x->size[k] : f == 1;
        RUSH_CHECK(!rush_failed() && (k >= skip || stays), RUSH_NOT_IMPLEMENTED, "batch or channels of another size");
        RUSH_CHECK(f > 0 && f < 1e9, RUSH_VALUE_ERROR, "a size or scale of %g", f);
        if (k >= skip) sizes[k - skip] = (int64_t)f, scales[k - skip] = f;
    }
    *size = by_size ? rush_v_ints(sizes, (size_t)(n - skip)) : RUSH_NONE;
    *scale = by_size ? RUSH_NONE : rush_v_floats(scales, (size_t)(n - skip));
    return 0;
}

RULE(Resize)
{
    rush_value size, scale;
    const char *where_from = in[6].s, *mode = in[10].s, *rounding = in[11].s;
    bool align = !strcmp(where_from, "align_corners"), half = !strcmp(where_from, "half_pixel") || !strcmp(where_from, "pytorch_half_pixel"), nearest = !strcmp(mode, "nearest");
    bool floors = nearest && !strcmp(where_from, "asymmetric") && !strcmp(rounding, "floor"), exact = nearest && half && !strncmp(rounding, "round_prefer_", 13);
    RUSH_CHECK((nearest ? floors || exact : align || half) && !I_(in[5]) && !strcmp(in[9].s, "stretch") && (strcmp(mode, "cubic") || D_(in[7]) == -0.75), RUSH_NOT_IMPLEMENTED,
               "the mode '%s' with '%s', '%s' is not supported", mode, where_from, nearest ? rounding : "antialias or another coefficient");
    if (take_target(in, in[0].t, &size, &scale)) return -1;
    return rush_result(out, resized(in[0].t, mode, align, exact, size, scale));
}
static rush_op op_Resize = {
    .schema = "onnx::Resize(Tensor X, Tensor? roi=None, Tensor? scales=None, Tensor? sizes=None, *, int[]? axes=None, int antialias=0, str coordinate_transformation_mode='half_pixel', float cubic_coeff_a=-0.75, "
              "int exclude_outside=0, str keep_aspect_ratio_policy='stretch', str mode='nearest', str nearest_mode='round_prefer_floor', float extrapolation_value=0.0) -> Tensor",
    .doc = "upsample: nearest, linear or cubic.", .run = Resize_run, .flags = RUSH_HIDDEN};

RULE(GridSample)
{
    const char *mode = in[2].s, *border = in[3].s;
    int64_t how = !strcmp(mode, "nearest") ? 1 : !strncmp(mode, "bic", 3) || !strcmp(mode, "cubic") ? 2 : 0, outside = !strcmp(border, "border") ? 1 : !strcmp(border, "reflection") ? 2 : 0;
    return rush_result(out, T("grid_sampler", in[0], in[1], V(how), V(outside), V((bool)I_(in[4]))));
}
RECORD(GridSample, "Tensor X, Tensor grid, *, str mode='linear', str padding_mode='zeros', int align_corners=0", "grid_sampler().");

/* ---- recurrent cells: gates in another order, directions in a dimension of their own ---- */

/* Rows of (directions, gates * n, ...), the gates in PyTorch's order. */
static rush_tensor *gates(rush_tensor *w, int64_t direction, int n, const int *order)
{
    rush_tensor *piece[4], *one = w ? T("select.int", V(w), V(0), V(direction)) : NULL;
    int64_t size = one ? one->size[0] / n : 0;
    RUSH_CHECK_NULL(one && size * n == one->size[0], RUSH_VALUE_ERROR, "weights of shape %s for %d gates", w ? rush_shape_of(w) : "()", n);
    for (int k = 0; k < n; ++k)
        if (!(piece[k] = T("narrow", V(one), V(0), V(order[k] * size), V(size)))) return NULL;
    return T("cat", rush_v_tensors(piece, (size_t)n), V(0));
}

typedef struct cells {
    rush_tensor *x, *weight[8];
    size_t nweights;
    rush_tensor *state[2];
    int64_t directions;
    bool back;
} cells;

/* X, W, R, B, sequence_lens, initial_h, initial_c: what both cells share. in[4] must say that all sequences are whole. */
static int take_cells(const rush_value *in, int ngates, const int *order, int nstates, const char *direction, int64_t layout, cells *c)
{
    rush_tensor *x = in[0].t, *w = in[1].t, *r = in[2].t, *b = T_(in[3]);
    RUSH_CHECK(!layout, RUSH_NOT_IMPLEMENTED, "layout 1");
    RUSH_CHECK(x->ndim == 3 && w->ndim == 3 && r->ndim == 3 && (!b || b->ndim == 2) && w->size[0] <= 2, RUSH_VALUE_ERROR, "weights of shapes %s, %s", rush_shape_of(w), rush_shape_of(r));
    const int64_t *lengths = HAS(in[4]) ? rush_numbers_of(in[4].t) : NULL;
    for (int64_t i = 0; HAS(in[4]) && lengths && i < in[4].t->numel; ++i) RUSH_CHECK(lengths[i] == x->size[0], RUSH_NOT_IMPLEMENTED, "sequences of different lengths");
    *c = (cells){.directions = w->size[0], .back = !strcmp(direction, "reverse")};
    for (int64_t d = 0; d < c->directions && !rush_failed(); ++d) {
        c->weight[c->nweights++] = gates(w, d, ngates, order);
        c->weight[c->nweights++] = gates(r, d, ngates, order);
        for (int64_t half = 0; b && half < 2 && !rush_failed(); ++half) /* one half for each weight */
            c->weight[c->nweights++] = gates(T("narrow", V(b), V(1), V(half * (b->size[1] / 2)), V(b->size[1] / 2)), d, ngates, order);
    }
    c->x = c->back ? T("flip", V(x), INTS(0)) : x;
    int64_t size[] = {c->directions, x->size[1], r->size[2]};
    for (int k = 0; k < nstates && !rush_failed(); ++k) c->state[k] = HAS(in[5 + k]) ? in[5 + k].t : T("zeros", rush_v_ints(size, 3), rush_v_dtype(x->dtype), ON(x));
    return rush_failed() ? -1 : 0;
}

/* (seq, batch, directions * n) to (seq, directions, batch, n). */
static rush_tensor *apart(const cells *c, rush_tensor *y)
{
    y = T("permute", V(T("reshape", V(y), INTS(y->size[0], y->size[1], c->directions, y->size[2] / c->directions))), INTS(0, 2, 1, 3));
    return y && c->back ? T("flip", V(y), INTS(0)) : y;
}

RULE(LSTM)
{
    static const int order[] = {0, 2, 3, 1}; /* i o f c there, i f c o here */
    cells c;
    rush_value y[3];
    RUSH_CHECK(!HAS(in[7]) && !HAS(in[11]) && !I_(in[13]) && (!HAS(in[9]) || !strncmp("Sigmoid Tanh Tanh Sigmoid Tanh Tanh", in[9].s, strlen(in[9].s))), RUSH_NOT_IMPLEMENTED,
               "peepholes, clipped or other activations");
    if (take_cells(in, 4, order, 2, in[8].s, I_(in[14]), &c)) return -1;
    if (TN(y, "lstm.input", V(c.x), rush_v_tensors(c.state, 2), rush_v_tensors(c.weight, c.nweights), V(HAS(in[3])), V(1), V(0.0), V(false), V(c.directions == 2), V(false))) return -1;
    out[1] = y[1];
    out[2] = y[2];
    return rush_result(out, apart(&c, y[0].t));
}
static rush_op op_LSTM = {.schema = "onnx::LSTM(Tensor X, Tensor W, Tensor R, Tensor? B=None, Tensor? sequence_lens=None, Tensor? initial_h=None, Tensor? initial_c=None, Tensor? P=None, *, "
                                    "str direction='forward', str? activations=None, int hidden_size=0, float? clip=None, float[]? activation_alpha=None, int input_forget=0, int layout=0, "
                                    "float[]? activation_beta=None) -> (Tensor, Tensor, Tensor)",
                          .doc = "lstm() of one layer.", .run = LSTM_run, .flags = RUSH_HIDDEN};

RULE(GRU)
{
    static const int order[] = {1, 0, 2}; /* z r h there, r z n here */
    cells c;
    rush_value y[2];
    RUSH_CHECK(I_(in[11]) && !HAS(in[9]) && (!HAS(in[7]) || !strncmp("Sigmoid Tanh Sigmoid Tanh", in[7].s, strlen(in[7].s))), RUSH_NOT_IMPLEMENTED,
               "linear_before_reset 0, clipped or other activations");
    if (take_cells(in, 3, order, 1, in[6].s, I_(in[12]), &c)) return -1;
    if (TN(y, "gru.input", V(c.x), V(c.state[0]), rush_v_tensors(c.weight, c.nweights), V(HAS(in[3])), V(1), V(0.0), V(false), V(c.directions == 2), V(false))) return -1;
    out[1] = y[1];
    return rush_result(out, apart(&c, y[0].t));
}
static rush_op op_GRU = {.schema = "onnx::GRU(Tensor X, Tensor W, Tensor R, Tensor? B=None, Tensor? sequence_lens=None, Tensor? initial_h=None, *, str direction='forward', str? activations=None, "
                                   "int hidden_size=0, float? clip=None, float[]? activation_alpha=None, int linear_before_reset=0, int layout=0, float[]? activation_beta=None) -> (Tensor, Tensor)",
                         .doc = "gru() of one layer.", .run = GRU_run, .flags = RUSH_HIDDEN};

RULE(RNN)
{
    static const int order[] = {0};
    cells c;
    rush_value y[2];
    bool relu = HAS(in[7]) && !strncmp(in[7].s, "Relu", 4);
    RUSH_CHECK(!HAS(in[9]) && (!HAS(in[7]) || relu || !strncmp(in[7].s, "Tanh", 4)), RUSH_NOT_IMPLEMENTED, "clipped activations, or others than Tanh and Relu");
    if (take_cells(in, 1, order, 1, in[6].s, I_(in[11]), &c)) return -1;
    rush_value x = V(c.x), h = V(c.state[0]), w = rush_v_tensors(c.weight, c.nweights), both = V(c.directions == 2), biased = V(HAS(in[3]));
    if (relu ? TN(y, "rnn_relu.input", x, h, w, biased, V(1), V(0.0), V(false), both, V(false)) : TN(y, "rnn_tanh.input", x, h, w, biased, V(1), V(0.0), V(false), both, V(false))) return -1;
    out[1] = y[1];
    return rush_result(out, apart(&c, y[0].t));
}
static rush_op op_RNN = {.schema = "onnx::RNN(Tensor X, Tensor W, Tensor R, Tensor? B=None, Tensor? sequence_lens=None, Tensor? initial_h=None, *, str direction='forward', str? activations=None, "
                                   "int hidden_size=0, float? clip=None, float[]? activation_alpha=None, int layout=0, float[]? activation_beta=None) -> (Tensor, Tensor)",
                         .doc = "rnn_tanh() or rnn_relu() of one layer.", .run = RNN_run, .flags = RUSH_HIDDEN};

/* Corners of boxes in any order, or centres with sizes, as corners in order. */
static rush_tensor *corners(rush_tensor *boxes, bool centred)
{
    rush_tensor *a = T("narrow", V(boxes), V(-1), V(0), V(2)), *b = T("narrow", V(boxes), V(-1), V(2), V(2));
    rush_tensor *both[] = {centred ? sub(a, div_(b, 2)) : T("minimum", V(a), V(b)), centred ? add(a, div_(b, 2)) : T("maximum", V(a), V(b))};
    return T("cat", rush_v_tensors(both, 2), V(-1));
}

/* Of one class: rows of its batch, its number and a box. */
static rush_tensor *without_overlaps(rush_tensor *boxes, rush_tensor *scores, int64_t batch, int64_t class, double most, double overlap, rush_value least)
{
    rush_tensor *some = HAS(least) ? T("reshape", V(T("nonzero", V(T("gt.Tensor", V(scores), least)))), INTS(-1)) : NULL;
    if (some) boxes = T("index_select", V(boxes), V(0), V(some)), scores = T("index_select", V(scores), V(0), V(some));
    rush_tensor *kept = T("torchvision::nms", V(boxes), V(scores), V(overlap));
    if (kept) kept = T("narrow", V(kept), V(0), V(0), V(most < (double)kept->size[0] ? (int64_t)most : kept->size[0]));
    if (some) kept = T("index_select", V(some), V(0), V(kept));
    rush_tensor *row[] = {T("full_like", V(kept), V(batch)), T("full_like", V(kept), V(class)), kept};
    return T("stack", rush_v_tensors(row, 3), V(1));
}

RULE(NonMaxSuppression)
{
    rush_tensor *scores = in[1].t, *boxes = corners(in[0].t, I_(in[5]));
    RUSH_CHECK(boxes && boxes->ndim == 3 && scores->ndim == 3, RUSH_VALUE_ERROR, "boxes and scores have three dimensions");
    int64_t batches = scores->size[0], classes = scores->size[1];
    double most = HAS(in[2]) ? rush_number_of(in[2].t) : 0, overlap = HAS(in[3]) ? rush_number_of(in[3].t) : 0; /* most: files say "all" by 2^63 - 1 */
    if (rush_failed()) return -1;
    rush_tensor **rows = rush_scope_alloc((size_t)(batches * classes + 1) * sizeof *rows);
    if (!rows) return -1;
    rows[0] = T("empty.memory_format", INTS(0, 3), rush_v_dtype(RUSH_I64), ON(scores));
    for (int64_t b = 0, n = 1; b < batches; ++b)
        for (int64_t c = 0; c < classes; ++c, ++n) {
            rush_tensor *of_batch = T("select.int", V(scores), V(0), V(b));
            rows[n] = without_overlaps(T("select.int", V(boxes), V(0), V(b)), T("select.int", V(of_batch), V(0), V(c)), b, c, most, overlap, in[4]);
            if (!rows[n]) return -1;
        }
    return rush_result(out, T("cat", rush_v_tensors(rows, (size_t)(batches * classes + 1)), V(0)));
}
RECORD(NonMaxSuppression, "Tensor boxes, Tensor scores, Tensor? max_output_boxes_per_class=None, Tensor? iou_threshold=None, Tensor? score_threshold=None, *, int center_point_box=0", "For each batch and class the boxes that no better one overlaps.");

RUSH_FAMILY(onnx_nn, &op_NonMaxSuppression, &op_Gemm, &op_Einsum, &op_Conv, &op_ConvTranspose, &op_MaxPool, &op_AveragePool, &op_GlobalAveragePool, &op_GlobalMaxPool, &op_BatchNormalization,
            &op_InstanceNormalization, &op_LayerNormalization, &op_RMSNormalization, &op_GroupNormalization, &op_LpNormalization, &op_LRN, &op_Resize, &op_GridSample, &op_LSTM, &op_GRU, &op_RNN)
