/* shuffle.c - regroupings of images: pixel_shuffle, channel_shuffle, and the columns of windows (im2col, col2im). */
#include "op/formula.h"
#include "ops/geometry.h"

#define SELF (in[0].t)

/* ---- pixels and channels ---- */

/* Sizes, an order of them, and sizes again, in the format of t. */
static int regrouped(rush_value *out, rush_tensor *t, int n, const int64_t *parts, const int64_t *order, int m, const int64_t *size)
{
    const rush_value format = {.kind = RUSH_V_MEMORY_FORMAT, .i = rush_format_of(t)};
    t = T("reshape", V(t), rush_v_ints(parts, n));
    t = t ? T("permute", V(t), rush_v_ints(order, n)) : NULL;
    t = t ? T("clone", V(t), ((rush_value){.kind = RUSH_V_MEMORY_FORMAT, .i = RUSH_CONTIGUOUS})) : NULL;
    t = t ? T("view", V(t), rush_v_ints(size, m)) : NULL;
    return rush_result(out, t && format.i != RUSH_CONTIGUOUS ? T("contiguous", V(t), format) : t);
}

static int check_factor(const char *name, const char *factor, int n, int64_t r)
{
    RUSH_CHECK(n >= 3, RUSH_RUNTIME_ERROR, "%s expects input to have at least 3 dimensions, but got input with %d dimension(s)", name, n);
    RUSH_CHECK(r > 0, RUSH_RUNTIME_ERROR, "%s expects a positive %s, but got %lld", name, factor, (long long)r);
    RUSH_CHECK(r <= INT32_MAX, RUSH_RUNTIME_ERROR, "%s: %s %lld is too large", name, factor, (long long)r);
    return 0;
}

static int pixel_shuffle_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *t = SELF;
    int64_t r = I_(in[1]), parts[RUSH_MAXDIM + 3], order[RUSH_MAXDIM + 3], size[RUSH_MAXDIM];
    int n = t->ndim, b = n - 3;
    if (check_factor("pixel_shuffle", "upscale_factor", n, r)) return -1;
    int64_t c = t->size[b], h = t->size[b + 1], w = t->size[b + 2];
    RUSH_CHECK(c % (r * r) == 0, RUSH_RUNTIME_ERROR,
               "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, but input.size(-3)=%lld is not divisible "
               "by %lld", (long long)c, (long long)(r * r));
    for (int d = 0; d < b; ++d) parts[d] = size[d] = t->size[d], order[d] = d;
    int64_t p[5] = {c / (r * r), r, r, h, w}, o[5] = {b, b + 3, b + 1, b + 4, b + 2}, s[3] = {c / (r * r), h, w};
    if (rush_grown("pixel_shuffle", &s[1], r) || rush_grown("pixel_shuffle", &s[2], r)) return -1;
    memcpy(parts + b, p, sizeof p);
    memcpy(order + b, o, sizeof o);
    memcpy(size + b, s, sizeof s);
    return regrouped(out, SELF, n + 2, parts, order, n, size);
}

static int pixel_unshuffle_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *t = SELF;
    int64_t r = I_(in[1]), parts[RUSH_MAXDIM + 3], order[RUSH_MAXDIM + 3], size[RUSH_MAXDIM];
    int n = t->ndim, b = n - 3;
    if (check_factor("pixel_unshuffle", "downscale_factor", n, r)) return -1;
    int64_t c = t->size[b], h = t->size[b + 1], w = t->size[b + 2];
    RUSH_CHECK(h % r == 0, RUSH_RUNTIME_ERROR, "pixel_unshuffle expects height to be divisible by downscale_factor, but input.size(-2)=%lld is not divisible by %lld",
               (long long)h, (long long)r);
    RUSH_CHECK(w % r == 0, RUSH_RUNTIME_ERROR, "pixel_unshuffle expects width to be divisible by downscale_factor, but input.size(-1)=%lld is not divisible by %lld",
               (long long)w, (long long)r);
    for (int d = 0; d < b; ++d) parts[d] = size[d] = t->size[d], order[d] = d;
    int64_t p[5] = {c, h / r, r, w / r, r}, o[5] = {b, b + 2, b + 4, b + 1, b + 3}, s[3] = {c, h / r, w / r};
    if (!t->numel) return rush_result(out, T("clone", V(SELF))); /* of the sizes that it has, as in PyTorch */
    if (rush_grown("pixel_unshuffle", &s[0], r * r)) return -1;
    memcpy(parts + b, p, sizeof p);
    memcpy(order + b, o, sizeof o);
    memcpy(size + b, s, sizeof s);
    return regrouped(out, SELF, n + 2, parts, order, n, size);
}

static int channel_shuffle_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *t = SELF;
    int64_t groups = I_(in[1]), parts[RUSH_MAXDIM + 1], order[RUSH_MAXDIM + 1];
    int n = t->ndim;
    RUSH_CHECK(n > 2, RUSH_RUNTIME_ERROR, "channel_shuffle expects input with > 2 dims, but got input with sizes %s", rush_shape_of(t));
    RUSH_CHECK(groups > 0, RUSH_RUNTIME_ERROR, "Number of groups to divide channels in must be positive. Value of groups:%lld", (long long)groups);
    RUSH_CHECK(t->size[1] % groups == 0, RUSH_RUNTIME_ERROR, "Number of channels must be divisible by groups. Got %lld channels and %lld groups.",
               (long long)t->size[1], (long long)groups);
    parts[0] = t->size[0];
    parts[1] = groups;
    parts[2] = t->size[1] / groups;
    for (int d = 2; d < n; ++d) parts[d + 1] = t->size[d];
    for (int d = 0; d <= n; ++d) order[d] = d == 1 ? 2 : d == 2 ? 1 : d;
    return regrouped(out, SELF, n + 1, parts, order, n, t->size);
}

static void pixel_shuffle_grad(rush_grads *s) { s->gin[0] = T("pixel_unshuffle", V(s->g[0]), s->in[1]); }
static void pixel_unshuffle_grad(rush_grads *s) { s->gin[0] = T("pixel_shuffle", V(s->g[0]), s->in[1]); }
static void channel_shuffle_grad(rush_grads *s) { s->gin[0] = T("channel_shuffle", V(s->g[0]), V(s->g[0] ? s->g[0]->size[1] / I_(s->in[1]) : 1)); }

static rush_op op_pixel_shuffle = {
    .schema = "pixel_shuffle(Tensor self, int upscale_factor) -> Tensor", .node = "PixelShuffleBackward0",
    .doc = "Channels spread over pixels: (C r r, H, W) to (C, H r, W r).", .run = pixel_shuffle_run, .grad = pixel_shuffle_grad, .flags = RUSH_WHOLE};
static rush_op op_pixel_unshuffle = {
    .schema = "pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor", .node = "PixelUnshuffleBackward0",
    .doc = "Pixels gathered into channels: (C, H r, W r) to (C r r, H, W).", .run = pixel_unshuffle_run, .grad = pixel_unshuffle_grad, .flags = RUSH_WHOLE};
static rush_op op_channel_shuffle = {
    .schema = "channel_shuffle(Tensor self, SymInt groups) -> Tensor",
    .doc = "Channels dealt out to the groups in turn.", .run = channel_shuffle_run, .grad = channel_shuffle_grad, .flags = RUSH_WHOLE};
static rush_op op_native_channel_shuffle = {
    .schema = "native_channel_shuffle(Tensor self, SymInt groups) -> Tensor", .doc = "channel_shuffle().", .run = channel_shuffle_run, .flags = RUSH_HIDDEN};

/* ---- windows as columns: (N, C, H, W) and (N, C kh kw, L) ---- */

typedef struct windows {
    int64_t n, c, h, w;          /* the image */
    int64_t kh, kw, dh, dw, ph, pw, sh, sw;
    int64_t rows, cols;          /* windows   */
} windows;

/* v: kernel_size, dilation, padding, stride */
static int windows_read(windows *w, const rush_value *v)
{
    const int64_t *k = v[0].ints, *d = v[1].ints, *p = v[2].ints, *s = v[3].ints;
    for (int i = 0; i < 4; ++i) RUSH_CHECK(v[i].n == 2, RUSH_RUNTIME_ERROR, "It is expected that kernel_size, dilation, padding and stride have two numbers");
    *w = (windows){.kh = k[0], .kw = k[1], .dh = d[0], .dw = d[1], .ph = p[0], .pw = p[1], .sh = s[0], .sw = s[1]};
    RUSH_CHECK(w->kh > 0 && w->kw > 0, RUSH_RUNTIME_ERROR, "kernel size should be greater than zero, but got kernel_height: %lld kernel_width: %lld",
               (long long)w->kh, (long long)w->kw);
    RUSH_CHECK(w->dh > 0 && w->dw > 0, RUSH_RUNTIME_ERROR, "dilation should be greater than zero, but got dilation_height: %lld dilation_width: %lld",
               (long long)w->dh, (long long)w->dw);
    RUSH_CHECK(w->ph >= 0 && w->pw >= 0, RUSH_RUNTIME_ERROR, "padding should be non-negative, but got pad_height: %lld pad_width: %lld", (long long)w->ph,
               (long long)w->pw);
    RUSH_CHECK(w->sh > 0 && w->sw > 0, RUSH_RUNTIME_ERROR, "stride should be greater than zero, but got stride_height: %lld stride_width: %lld",
               (long long)w->sh, (long long)w->sw);
    for (int i = 0; i < 8; ++i)
        RUSH_CHECK(v[i / 2].ints[i % 2] <= INT32_MAX, RUSH_RUNTIME_ERROR, "%lld is too much for a kernel_size, dilation, padding or stride", (long long)v[i / 2].ints[i % 2]);
    return 0;
}

static int64_t steps(int64_t size, int64_t kernel, int64_t dilation, int64_t padding, int64_t stride)
{
    int64_t room = size + 2 * padding - dilation * (kernel - 1) - 1;
    return (room < 0 ? room - stride + 1 : room) / stride + 1; /* rounded down: none, or fewer, where the kernel does not fit */
}

static int windows_count(windows *w)
{
    int64_t all;
    w->rows = steps(w->h, w->kh, w->dh, w->ph, w->sh);
    w->cols = steps(w->w, w->kw, w->dw, w->pw, w->sw);
    RUSH_CHECK(!__builtin_mul_overflow(w->rows, w->cols, &all), RUSH_RUNTIME_ERROR, "%lld x %lld windows are too many", (long long)w->rows, (long long)w->cols);
    return 0;
}

/* Windows [*first, *last) along a dimension whose element `at` of the kernel lies in the image. */
static void inside(int64_t size, int64_t at, int64_t padding, int64_t stride, int64_t count, int64_t *first, int64_t *last)
{
    int64_t begin = padding - at;
    *first = begin <= 0 ? 0 : RUSH_MIN((begin + stride - 1) / stride, count);
    int64_t end = size + padding - at; /* exclusive, in units of one */
    *last = end <= 0 ? 0 : RUSH_MIN((end + stride - 1) / stride, count);
    *last = RUSH_MAX(*last, *first);
}

static int im2col_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    windows w;
    const rush_tensor *t = SELF;
    RUSH_CHECK(t->ndim >= 2, RUSH_INDEX_ERROR, "Dimension out of range (expected to be in range of [-%d, %d], but got 2)", t->ndim, t->ndim - 1);
    if (windows_read(&w, in + 1)) return -1;
    bool good = t->ndim == 3 || t->ndim == 4;
    for (int d = t->ndim == 4; d < t->ndim && good; ++d) good = t->size[d] > 0;
    RUSH_CHECK(good, RUSH_RUNTIME_ERROR, "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, but got: %s",
               rush_shape_of(t));
    RUSH_CHECK(rush_dtypes[t->dtype].category >= 2 || t->dtype == RUSH_BOOL, RUSH_NOT_IMPLEMENTED, "\"im2col_out_cpu\" not implemented for '%s'",
               rush_dtype_word(t->dtype));
    w.h = t->size[t->ndim - 2];
    w.w = t->size[t->ndim - 1];
    if (windows_count(&w)) return -1;
    RUSH_CHECK(w.rows >= 1 && w.cols >= 1, RUSH_RUNTIME_ERROR,
               "Given input with spatial size (%lld, %lld), kernel_size=(%lld, %lld), dilation=(%lld, %lld), padding=(%lld, %lld), calculated shape of the array "
               "of sliding blocks as (%lld, %lld), but its components must be at least one.",
               (long long)w.h, (long long)w.w, (long long)w.kh, (long long)w.kw, (long long)w.dh, (long long)w.dw, (long long)w.ph, (long long)w.pw,
               (long long)w.rows, (long long)w.cols);
    int64_t size[3] = {t->ndim == 4 ? t->size[0] : 1, 0, w.rows * w.cols};
    RUSH_CHECK(!__builtin_mul_overflow(t->size[t->ndim - 3], w.kh * w.kw, &size[1]), RUSH_RUNTIME_ERROR, "columns of %lld x %lld x %lld numbers are too long",
               (long long)t->size[t->ndim - 3], (long long)w.kh, (long long)w.kw);
    return rush_out_t(out, 0, t, t->dtype, t->ndim - 1, t->ndim == 4 ? size : size + 1) ? 0 : -1;
}

/* Each kernel element of each channel: a box of the image copied into a box of the columns. */
static void im2col_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    windows w;
    const rush_tensor *t = SELF;
    rush_tensor *to = out[0].t;
    if (to->numel == 0 || windows_read(&w, in + 1)) return;
    int b = t->ndim == 4;
    w.n = b ? t->size[0] : 1;
    w.c = t->size[b];
    w.h = t->size[b + 1];
    w.w = t->size[b + 2];
    if (windows_count(&w)) return;
    if (w.ph || w.pw) rush_zero_into(to);
    int64_t area = w.rows * w.cols, column = w.kh * w.kw * area;
    for (int64_t i = 0; i < w.kh; ++i)
        for (int64_t j = 0; j < w.kw; ++j) {
            int64_t r0, r1, c0, c1;
            inside(w.h, i * w.dh, w.ph, w.sh, w.rows, &r0, &r1);
            inside(w.w, j * w.dw, w.pw, w.sw, w.cols, &c0, &c1);
            const int64_t size[4] = {w.n, w.c, r1 - r0, c1 - c0};
            const int64_t from[4] = {b ? t->stride[0] : 0, t->stride[b], t->stride[b + 1] * w.sh, t->stride[b + 2] * w.sw};
            const int64_t into[4] = {w.c * column, column, w.cols, 1};
            if (size[2] == 0 || size[3] == 0) continue;
            rush_tensor *a = rush_tensor_alias(t, 4, size, from, t->offset + (r0 * w.sh + i * w.dh - w.ph) * t->stride[b + 1] +
                                                                     (c0 * w.sw + j * w.dw - w.pw) * t->stride[b + 2]);
            rush_tensor *d = rush_tensor_alias(to, 4, size, into, to->offset + (i * w.kw + j) * area + r0 * w.cols + c0);
            if (!a || !d || rush_copy_into(d, a)) return;
        }
}

static void im2col_grad(rush_grads *s)
{
    const rush_tensor *t = s->in[0].t;
    if (s->g[0]) s->gin[0] = T("col2im", V(s->g[0]), INTS(t->size[t->ndim - 2], t->size[t->ndim - 1]), s->in[1], s->in[2], s->in[3], s->in[4]);
}

static rush_op op_im2col = {
    .schema = "im2col(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor", .method = RUSH_NN,
    .doc = "Each window of an image as a column: (N, C, H, W) to (N, C kh kw, windows).", .shape = im2col_shape, .cpu = im2col_cpu, .grad = im2col_grad,
};

static int col2im_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    windows w;
    const rush_tensor *t = SELF;
    bool good = t->ndim == 2 || t->ndim == 3;
    for (int d = t->ndim == 3; d < t->ndim && good; ++d) good = t->size[d] > 0;
    RUSH_CHECK(in[1].n == 2, RUSH_RUNTIME_ERROR, "It is expected that output_size equals to 2, but got size %u", in[1].n);
    if (windows_read(&w, in + 2)) return -1;
    RUSH_CHECK(good, RUSH_RUNTIME_ERROR, "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for input, but got: %s",
               rush_shape_of(t));
    int64_t rows = t->size[t->ndim - 2], have = t->size[t->ndim - 1];
    RUSH_CHECK(rows % (w.kh * w.kw) == 0, RUSH_RUNTIME_ERROR,
               "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got input.size(1)=%lld and kernel_size=(%lld, %lld).",
               (long long)rows, (long long)w.kh, (long long)w.kw);
    w.h = in[1].ints[0];
    w.w = in[1].ints[1];
    RUSH_CHECK(w.h <= INT64_MAX / 4 && w.w <= INT64_MAX / 4, RUSH_RUNTIME_ERROR, "output_size=(%lld, %lld) is too large", (long long)w.h, (long long)w.w);
    RUSH_CHECK(w.h >= 1 && w.w >= 1, RUSH_RUNTIME_ERROR, "Expected output spatial size to be positive, but got: output_size=(%lld, %lld).", (long long)w.h,
               (long long)w.w);
    if (windows_count(&w)) return -1;
    RUSH_CHECK(w.rows >= 1 && w.cols >= 1, RUSH_RUNTIME_ERROR,
               "Given output_size=(%lld, %lld), kernel_size=(%lld, %lld), dilation=(%lld, %lld), padding=(%lld, %lld), stride=(%lld, %lld), calculated shape of the "
               "array of sliding blocks as (%lld, %lld), of which there must be at least one",
               (long long)w.h, (long long)w.w, (long long)w.kh, (long long)w.kw, (long long)w.dh, (long long)w.dw, (long long)w.ph, (long long)w.pw,
               (long long)w.sh, (long long)w.sw, (long long)w.rows, (long long)w.cols);
    RUSH_CHECK(have == w.rows * w.cols, RUSH_RUNTIME_ERROR,
               "Given output_size=(%lld, %lld), kernel_size=(%lld, %lld), dilation=(%lld, %lld), padding=(%lld, %lld), stride=(%lld, %lld), expected size of "
               "input's dimension 2 to match the calculated number of sliding blocks %lld * %lld = %lld, but got input.size(2)=%lld.",
               (long long)w.h, (long long)w.w, (long long)w.kh, (long long)w.kw, (long long)w.dh, (long long)w.dw, (long long)w.ph, (long long)w.pw,
               (long long)w.sh, (long long)w.sw, (long long)w.rows, (long long)w.cols, (long long)(w.rows * w.cols), (long long)have);
    RUSH_CHECK(rush_dtypes[t->dtype].category >= 2 || t->dtype == RUSH_BOOL, RUSH_NOT_IMPLEMENTED, "\"col2im_out_cpu\" not implemented for '%s'",
               rush_dtype_word(t->dtype));
    int64_t size[4] = {t->ndim == 3 ? t->size[0] : 1, rows / (w.kh * w.kw), w.h, w.w};
    return rush_out_t(out, 0, t, t->dtype, t->ndim + 1, t->ndim == 3 ? size : size + 1) ? 0 : -1;
}

/* The same boxes added into the image; those of one kernel element never overlap. */
static void col2im_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    windows w;
    const rush_tensor *t = SELF;
    rush_tensor *to = out[0].t;
    rush_zero_into(to);
    if (t->numel == 0 || windows_read(&w, in + 2)) return;
    int b = to->ndim == 4, k = t->ndim - 2;
    w.n = b ? to->size[0] : 1;
    w.c = to->size[b];
    w.h = to->size[b + 1];
    w.w = to->size[b + 2];
    if (windows_count(&w)) return;
    for (int64_t i = 0; i < w.kh; ++i)
        for (int64_t j = 0; j < w.kw; ++j) {
            int64_t r0, r1, c0, c1;
            inside(w.h, i * w.dh, w.ph, w.sh, w.rows, &r0, &r1);
            inside(w.w, j * w.dw, w.pw, w.sw, w.cols, &c0, &c1);
            const int64_t size[4] = {w.n, w.c, r1 - r0, c1 - c0};
            const int64_t into[4] = {b ? to->stride[0] : 0, to->stride[b], to->stride[b + 1] * w.sh, to->stride[b + 2] * w.sw};
            const int64_t from[4] = {b ? t->stride[0] : 0, w.kh * w.kw * t->stride[k], w.cols * t->stride[k + 1], t->stride[k + 1]};
            if (size[2] == 0 || size[3] == 0) continue;
            rush_tensor *d = rush_tensor_alias(to, 4, size, into, to->offset + (r0 * w.sh + i * w.dh - w.ph) * to->stride[b + 1] +
                                                                      (c0 * w.sw + j * w.dw - w.pw) * to->stride[b + 2]);
            rush_tensor *a = rush_tensor_alias(t, 4, size, from, t->offset + (i * w.kw + j) * t->stride[k] + (r0 * w.cols + c0) * t->stride[k + 1]);
            if (!a || !d || rush_add_into(d, a)) return;
        }
}

static void col2im_grad(rush_grads *s)
{
    if (s->g[0]) s->gin[0] = T("im2col", V(s->g[0]), s->in[2], s->in[3], s->in[4], s->in[5]);
}

static rush_op op_col2im = {
    .schema = "col2im(Tensor self, SymInt[2] output_size, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor",
    .method = RUSH_NN,
    .doc = "Columns added into the windows of an image: (N, C kh kw, windows) to (N, C, H, W).", .shape = col2im_shape, .cpu = col2im_cpu,
    .grad = col2im_grad,
};

RUSH_FAMILY(shuffle, &op_pixel_shuffle, &op_pixel_unshuffle, &op_channel_shuffle, &op_native_channel_shuffle, &op_im2col, &op_col2im)
