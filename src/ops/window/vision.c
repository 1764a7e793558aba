/* vision.c - pictures changed as torchvision.transforms.v2.functional changes tensors: resized, cut, coloured, moved.
 *
 * Pictures are (..., channels, height, width): floats from 0 to 1 or integers up to their type's largest number. All
 * but the hue are other operations put together, so they have derivatives and work for any dtype those work for.
 */
#include "op/op.h"
#include <math.h>

static bool is_picture(const rush_tensor *t, const char *what)
{
    if (t && t->ndim >= 2) return true;
    rush_fail(RUSH_TYPE_ERROR, "%s: a picture is a tensor (..., channels, height, width), not %s", what, t ? rush_shape_of(t) : "nothing");
    return false;
}

static double bound(const rush_tensor *t) { return rush_dtype_is_float((rush_dtype)t->dtype) ? 1 : rush_dtypes[t->dtype].max; }

static rush_tensor *as_dtype(rush_tensor *t, int d) { return t && t->dtype != d ? T("_to_dtype", V(t), rush_v_dtype(d)) : t; }

/* Clamped to the range of `like`, of its dtype. */
static rush_tensor *as_picture(rush_tensor *t, const rush_tensor *like)
{
    return t ? as_dtype(T("clamp", V(t), V(0), V(bound(like))), like->dtype) : NULL;
}

/* f(t as (n, channels, height, width)) with the leading dimensions back. */
static rush_tensor *on_batch(rush_tensor *t, rush_tensor *(*f)(rush_tensor *, const void *), const void *arg)
{
    int64_t size[RUSH_MAXDIM], flat[4] = {1, 1, t->size[t->ndim - 2], t->size[t->ndim - 1]};
    int n = t->ndim;
    memcpy(size, t->size, (size_t)n * sizeof *size);
    if (n >= 3) flat[1] = t->size[n - 3];
    for (int d = 0; d < n - 3; d++) flat[0] *= size[d];
    rush_tensor *four = T("reshape", V(t), rush_v_ints(flat, 4));
    rush_tensor *r = four ? f(four, arg) : NULL;
    if (!r) return NULL;
    size[n - 2] = r->size[2];
    size[n - 1] = r->size[3];
    return T("reshape", V(r), rush_v_ints(size, (size_t)n));
}

/* ---- resize ---- */

typedef struct resizing {
    int64_t size[2];
    const char *how;
    bool antialias;
} resizing;

static rush_tensor *resize(rush_tensor *t, const void *arg)
{
    const resizing *r = arg;
    rush_value size = rush_v_ints(r->size, 2);
    if (!strcmp(r->how, "nearest")) return T("upsample_nearest2d", V(t), size);
    if (!strcmp(r->how, "nearest-exact")) return T("_upsample_nearest_exact2d", V(t), size);
    bool cubic = !strcmp(r->how, "bicubic");
    RUSH_CHECK_NULL(cubic || !strcmp(r->how, "bilinear"), RUSH_VALUE_ERROR, "interpolation is nearest, nearest-exact, bilinear or bicubic, not '%s'", r->how);
    bool direct = rush_dtype_is_float((rush_dtype)t->dtype) || (t->dtype == RUSH_U8 && !cubic);
    rush_tensor *x = direct ? t : as_dtype(t, RUSH_F32);
    if (cubic) x = r->antialias ? T("_upsample_bicubic2d_aa", V(x), size, V(false)) : T("upsample_bicubic2d", V(x), size, V(false));
    else x = r->antialias ? T("_upsample_bilinear2d_aa", V(x), size, V(false)) : T("upsample_bilinear2d", V(x), size, V(false));
    return direct || !x ? x : as_picture(T("round", V(x)), t);
}

static int resize_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *t = T_(in[0]);
    if (!is_picture(t, "vision_resize")) return -1;
    RUSH_CHECK(in[1].n == 1 || in[1].n == 2, RUSH_VALUE_ERROR, "a height and a width are expected, got %u numbers", (unsigned)in[1].n);
    resizing r = {{in[1].ints[0], in[1].ints[in[1].n - 1]}, in[2].s, I_(in[3])};
    RUSH_CHECK(r.size[0] > 0 && r.size[1] > 0, RUSH_VALUE_ERROR, "a picture can't be resized to %lld x %lld", (long long)r.size[0], (long long)r.size[1]);
    if (t->size[t->ndim - 2] == r.size[0] && t->size[t->ndim - 1] == r.size[1]) return rush_result(out, t);
    return rush_result(out, on_batch(t, resize, &r));
}

static rush_op op_resize = {
    .schema = "vision_resize(Tensor image, int[2] size, str interpolation='bilinear', bool antialias=True) -> Tensor",
    .doc = "The picture (..., channels, height, width) with another height and width. Antialiasing widens the filter where it shrinks.",
    .run = resize_run,
};

/* ---- crop, normalise ---- */

static int crop_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *t = T_(in[0]);
    if (!is_picture(t, "vision_crop")) return -1;
    int64_t top = I_(in[1]), left = I_(in[2]), high = I_(in[3]), wide = I_(in[4]), h = t->size[t->ndim - 2], w = t->size[t->ndim - 1];
    const int64_t far = (int64_t)1 << 40;
    RUSH_CHECK(high >= 0 && wide >= 0 && high < far && wide < far, RUSH_VALUE_ERROR, "a part of %lld x %lld of a picture", (long long)high, (long long)wide);
    RUSH_CHECK(top > -far && top < far && left > -far && left < far, RUSH_VALUE_ERROR, "a part of a picture at %lld, %lld", (long long)top, (long long)left);
    /* Padding by negative amounts cuts, so one operation does both. */
    return rush_result(out, T("constant_pad_nd", V(t), INTS(-left, left + wide - w, -top, top + high - h), V(0)));
}

static rush_op op_crop = {
    .schema = "vision_crop(Tensor image, int top, int left, int height, int width) -> Tensor",
    .doc = "A part of the picture; what lies beyond its edges is 0.", .run = crop_run,
};

static rush_tensor *per_channel(rush_value numbers, const rush_tensor *like)
{
    rush_tensor *t = rush_from_data(numbers.floats, RUSH_F64, 3, (int64_t[]){numbers.n, 1, 1});
    return as_dtype(t, like->dtype);
}

static int normalize_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *t = T_(in[0]);
    RUSH_CHECK(t && t->ndim >= 3, RUSH_VALUE_ERROR, "Expected tensor to be a tensor image of size (..., C, H, W). Got tensor.size() = %s", t ? rush_shape_of(t) : "nothing");
    RUSH_CHECK(rush_dtype_is_float((rush_dtype)t->dtype), RUSH_TYPE_ERROR, "Input tensor should be a float tensor. Got %s.", rush_dtype_name((rush_dtype)t->dtype));
    for (uint32_t i = 0; i < in[2].n; i++)
        RUSH_CHECK(in[2].floats[i] != 0, RUSH_VALUE_ERROR, "std %u is 0, leading to division by zero", i);
    rush_tensor *x = T("sub.Tensor", V(t), V(per_channel(in[1], t)));
    return rush_result(out, x ? T("div.Tensor", V(x), V(per_channel(in[2], t))) : NULL);
}

static rush_op op_normalize = {
    .schema = "vision_normalize(Tensor image, float[] mean, float[] std) -> Tensor",
    .doc = "(picture - mean) / std, each with a number for every channel.", .run = normalize_run,
};

/* ---- colour ---- */

static bool is_colour(const rush_tensor *t, const char *what)
{
    if (!is_picture(t, what)) return false;
    int64_t c = t->ndim >= 3 ? t->size[t->ndim - 3] : 1;
    if (c == 1 || c == 3) return true;
    rush_fail(RUSH_TYPE_ERROR, "%s: Input image tensor permitted channel values are 1 or 3, but found %lld", what, (long long)c);
    return false;
}

static bool one_channel(const rush_tensor *t) { return t->ndim < 3 || t->size[t->ndim - 3] == 1; }

/* Luma, one channel, of a floating type; of integers without its fraction. */
static rush_tensor *luma(rush_tensor *t)
{
    int d = t->ndim - 3;
    rush_tensor *x = rush_dtype_is_float((rush_dtype)t->dtype) ? t : as_dtype(t, RUSH_F32);
    if (one_channel(t)) return x;
    rush_tensor *r = T("mul.Tensor", V(T("narrow", V(x), V(d), V(0), V(1))), V(0.2989));
    r = T("add.Tensor", V(r), V(T("narrow", V(x), V(d), V(1), V(1))), V(0.587));
    r = T("add.Tensor", V(r), V(T("narrow", V(x), V(d), V(2), V(1))), V(0.114));
    return x == t || !r ? r : T("floor", V(r));
}

static int grayscale_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *t = T_(in[0]);
    int64_t n = I_(in[1]);
    if (!is_colour(t, "vision_rgb_to_grayscale")) return -1;
    RUSH_CHECK(n == 1 || n == 3, RUSH_VALUE_ERROR, "num_output_channels must be 1 or 3, got %lld.", (long long)n);
    rush_tensor *x = as_dtype(luma(t), t->dtype);
    int64_t size[RUSH_MAXDIM];
    if (!x || n == 1 || x->ndim < 3) return rush_result(out, x);
    memcpy(size, x->size, (size_t)x->ndim * sizeof *size);
    size[x->ndim - 3] = 3;
    return rush_result(out, T("expand", V(x), rush_v_ints(size, x->ndim)));
}

static rush_op op_grayscale = {
    .schema = "vision_rgb_to_grayscale(Tensor image, int num_output_channels=1) -> Tensor",
    .doc = "0.2989 R + 0.587 G + 0.114 B, in one channel or three equal ones.", .run = grayscale_run,
};

static int factor_of(rush_value v, double *factor)
{
    *factor = D_(v);
    RUSH_CHECK(*factor >= 0, RUSH_VALUE_ERROR, "a factor is not negative, got %g", *factor);
    return 0;
}

/* factor * picture + (1 - factor) * other, in the picture's range */
static rush_tensor *blend(rush_tensor *t, rush_tensor *other, double factor)
{
    rush_tensor *x = rush_dtype_is_float((rush_dtype)t->dtype) ? t : as_dtype(t, RUSH_F32);
    rush_tensor *r = T("mul.Tensor", V(x), V(factor));
    if (other) r = T("add.Tensor", V(r), V(other), V(1 - factor));
    return as_picture(r, t);
}

static int brightness_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    double f;
    return !is_picture(T_(in[0]), "vision_adjust_brightness") || factor_of(in[1], &f) ? -1 : rush_result(out, blend(T_(in[0]), NULL, f));
}

static int contrast_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *t = T_(in[0]);
    double f;
    if (!is_colour(t, "vision_adjust_contrast") || factor_of(in[1], &f)) return -1;
    rush_tensor *gray = luma(t);
    rush_tensor *mean = !gray ? NULL : t->ndim < 3 ? T("mean.dim", V(gray), INTS(-2, -1), V(true)) : T("mean.dim", V(gray), INTS(-3, -2, -1), V(true));
    return rush_result(out, mean ? blend(t, mean, f) : NULL);
}

static int saturation_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *t = T_(in[0]);
    double f;
    if (!is_colour(t, "vision_adjust_saturation") || factor_of(in[1], &f)) return -1;
    if (one_channel(t)) return rush_result(out, t);
    rush_tensor *gray = luma(t);
    return rush_result(out, gray ? blend(t, gray, f) : NULL);
}

static int gamma_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *t = T_(in[0]);
    double gamma = D_(in[1]), gain = D_(in[2]);
    if (!is_picture(t, "vision_adjust_gamma")) return -1;
    RUSH_CHECK(gamma >= 0, RUSH_VALUE_ERROR, "Gamma should be a non-negative real number");
    bool real = rush_dtype_is_float((rush_dtype)t->dtype);
    rush_tensor *x = real ? t : T("div.Tensor", V(as_dtype(t, RUSH_F32)), V(bound(t)));
    x = T("clamp", V(T("mul.Tensor", V(T("pow.Tensor_Scalar", V(x), V(gamma))), V(gain))), V(0), V(1));
    if (!real) x = T("mul.Tensor", V(x), V(bound(t) + 1 - 1e-3));
    return rush_result(out, as_dtype(x, t->dtype));
}

static rush_op op_brightness = {
    .schema = "vision_adjust_brightness(Tensor image, float brightness_factor) -> Tensor",
    .doc = "0 gives black, 1 the picture itself, 2 twice the brightness.", .run = brightness_run,
};
static rush_op op_contrast = {
    .schema = "vision_adjust_contrast(Tensor image, float contrast_factor) -> Tensor",
    .doc = "0 gives its mean grey, 1 the picture itself, more than 1 more contrast.", .run = contrast_run,
};
static rush_op op_saturation = {
    .schema = "vision_adjust_saturation(Tensor image, float saturation_factor) -> Tensor",
    .doc = "0 gives grey, 1 the picture itself, more than 1 stronger colours.", .run = saturation_run,
};
static rush_op op_gamma = {
    .schema = "vision_adjust_gamma(Tensor image, float gamma, float gain=1.0) -> Tensor",
    .doc = "gain * picture ** gamma, of numbers from 0 to 1.", .run = gamma_run,
};

/* ---- hue: a kernel of its own, since it goes by way of HSV ---- */

static int hue_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *t = T_(in[0]);
    double f = D_(in[1]);
    if (!is_colour(t, "vision_adjust_hue")) return -1;
    RUSH_CHECK(f >= -0.5 && f <= 0.5, RUSH_VALUE_ERROR, "hue_factor (%g) is not in [-0.5, 0.5].", f);
    RUSH_CHECK(rush_dtypes[t->dtype].category != 3, RUSH_TYPE_ERROR, "a picture is not complex");
    return rush_out(out, 0, (rush_dtype)t->dtype, t->device, t->ndim, t->size) ? 0 : -1;
}

static void turn_pixel(float *p, float by)
{
    float r = p[0], g = p[1], b = p[2], high = fmaxf(fmaxf(r, g), b), low = fminf(fminf(r, g), b), range = high - low;
    if (range == 0) return;
    float s = range / high, rc = (high - r) / range, gc = (high - g) / range, bc = (high - b) / range;
    float h = high == r ? bc - gc : high == g ? 2 + rc - bc : 4 + gc - rc;
    h = fmodf(h / 6 + 1, 1) + by;
    h -= floorf(h);
    float i = floorf(h * 6), f = h * 6 - i;
    float a = fminf(fmaxf(high * (1 - s), 0), 1), q = fminf(fmaxf(high * (1 - s * f), 0), 1), t = fminf(fmaxf(high * (1 - s * (1 - f)), 0), 1);
    const float rgb[6][3] = {{high, t, a}, {q, high, a}, {a, high, t}, {a, q, high}, {t, a, high}, {high, a, q}};
    memcpy(p, rgb[i >= 0 && i < 6 ? (int)i : 0], sizeof rgb[0]); /* no part of the circle: of a NaN, or of 1 by rounding */
}

typedef struct turning {
    const char *from;
    char *to;
    rush_dtype dtype;
    int64_t plane; /* pixels of a picture */
    float by, top;
    bool real;
} turning;

static void turn_pixels(void *arg, int64_t begin, int64_t end)
{
    const turning *w = arg;
    int64_t item = (int64_t)rush_dtypes[w->dtype].size;
    for (int64_t i = begin; i < end; i++) {
        int64_t at = (i / w->plane * 3 * w->plane + i % w->plane) * item, step = w->plane * item;
        float p[3];
        rush_convert(p, RUSH_F32, 4, w->from + at, w->dtype, step, 3);
        for (int c = 0; c < 3; c++) p[c] /= w->top;
        turn_pixel(p, w->by);
        /* whole numbers are cut off as to_dtype(scale=True) does */
        for (int c = 0; c < 3; c++) p[c] = w->real ? p[c] : floorf(p[c] * (w->top + 1 - 1e-3f));
        rush_convert(w->to + at, w->dtype, step, p, RUSH_F32, 4, 3);
    }
}

static void hue_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *t = rush_contiguous_copy(T_(in[0]));
    if (!t || !t->numel) return;
    if (one_channel(t)) {
        rush_copy_into(out[0].t, t);
        return;
    }
    turning w = {.from = rush_ptr(t), .dtype = (rush_dtype)t->dtype, .plane = t->size[t->ndim - 2] * t->size[t->ndim - 1],
                 .by = (float)D_(in[1]), .top = (float)bound(t), .real = rush_dtype_is_float((rush_dtype)t->dtype)};
    w.to = rush_ptr(out[0].t);
    rush_parallel_for(t->numel / 3, 4096, turn_pixels, &w);
}

static rush_op op_hue = {
    .schema = "vision_adjust_hue(Tensor image, float hue_factor) -> Tensor",
    .doc = "Colours turned on their circle by a part of it from -0.5 to 0.5.", .shape = hue_shape, .cpu = hue_cpu,
};

/* ---- affine ---- */

typedef struct moving {
    double m[6]; /* where a pixel of the result comes from, about the centre */
    int how;
    rush_value fill;
} moving;

static int pixels_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(in[0].n == 6 && I_(in[1]) >= 0 && I_(in[2]) >= 0, RUSH_VALUE_ERROR, "a picture's pixels are moved by 6 numbers");
    return rush_out(out, 0, RUSH_F32, in[3].device, 4, (int64_t[]){1, I_(in[1]), I_(in[2]), 2}) ? 0 : -1;
}

static void pixels_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    const double *m = in[0].floats;
    int64_t h = I_(in[1]), w = I_(in[2]);
    float *g = rush_ptr(out[0].t);
    for (int64_t i = 0; g && i < h; i++)
        for (int64_t j = 0; j < w; j++) {
            double px = (double)j + 0.5 - 0.5 * (double)w, py = (double)i + 0.5 - 0.5 * (double)h;
            *g++ = (float)((m[0] * px + m[1] * py + m[2]) / (0.5 * (double)w));
            *g++ = (float)((m[3] * px + m[4] * py + m[5]) / (0.5 * (double)h));
        }
}

static rush_op op_pixels = {
    .schema = "_affine_pixels(float[] matrix, int height, int width, Device device) -> Tensor",
    .doc = "Where each pixel of a picture comes from: a grid for grid_sampler.", .shape = pixels_shape, .cpu = pixels_cpu, .flags = RUSH_NO_GRAD | RUSH_HIDDEN,
};

static rush_tensor *move(rush_tensor *t, const void *arg)
{
    const moving *a = arg;
    int64_t h = t->size[2], w = t->size[3], batch = t->size[0];
    bool real = rush_dtype_is_float((rush_dtype)t->dtype);
    rush_tensor *x = real ? t : as_dtype(t, RUSH_F32);
    rush_tensor *grid = T("_affine_pixels", rush_v_floats(a->m, 6), V(h), V(w), (rush_value){.kind = RUSH_V_DEVICE, .device = t->device});
    if (!x || !grid) return NULL;
    grid = T("expand", V(as_dtype(grid, x->dtype)), INTS(batch, h, w, 2));
    rush_tensor *r = grid ? T("grid_sampler", V(x), V(grid), V(a->how), V(0), V(false)) : NULL;
    if (r && a->fill.n) { /* beyond the edges: the fill's colour, mixed in by how far beyond */
        rush_tensor *inside = T("grid_sampler", V(T("ones", INTS(batch, 1, h, w), rush_v_dtype(x->dtype), ON(x))), V(grid), V(a->how), V(0), V(false));
        rush_tensor *colour = per_channel(a->fill, x);
        if (a->how == 1) r = T("where.self", V(T("lt.Scalar", V(inside), V(0.5))), V(colour), V(r));
        else r = T("add.Tensor", V(T("mul.Tensor", V(T("sub.Tensor", V(r), V(colour))), V(inside))), V(colour));
    }
    if (!r || real) return r;
    return as_picture(a->how == 1 ? r : T("round", V(r)), t);
}

static int affine_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    const double pi = 3.14159265358979323846;
    rush_tensor *t = T_(in[0]);
    const char *how = in[5].s;
    if (!is_picture(t, "vision_affine")) return -1;
    double rot = D_(in[1]) * pi / 180, scale = D_(in[3]), sx = in[4].floats[0] * pi / 180, sy = (in[4].n > 1 ? in[4].floats[1] : 0) * pi / 180;
    RUSH_CHECK(scale > 0, RUSH_VALUE_ERROR, "Argument scale should be positive");
    RUSH_CHECK(in[2].n == 2 && in[4].n >= 1 && in[4].n <= 2, RUSH_VALUE_ERROR, "translate has two numbers, shear one or two");
    bool nearest = !strcmp(how, "nearest");
    RUSH_CHECK(nearest || !strcmp(how, "bilinear"), RUSH_VALUE_ERROR, "interpolation is nearest or bilinear, not '%s'", how);
    moving a = {.how = nearest, .fill = in[6]};
    double p = cos(rot - sy) / cos(sy), q = -cos(rot - sy) * tan(sx) / cos(sy) - sin(rot), r = sin(rot - sy) / cos(sy), s = -sin(rot - sy) * tan(sx) / cos(sy) + cos(rot);
    double m[6] = {s / scale, -q / scale, 0, -r / scale, p / scale, 0}; /* the inverse: its determinant is 1 */
    m[2] = -m[0] * in[2].floats[0] - m[1] * in[2].floats[1];
    m[5] = -m[3] * in[2].floats[0] - m[4] * in[2].floats[1];
    memcpy(a.m, m, sizeof m);
    return rush_result(out, t->numel ? on_batch(t, move, &a) : t);
}

static rush_op op_affine = {
    .schema = "vision_affine(Tensor image, float angle, float[] translate, float scale, float[] shear, str interpolation='nearest', float[] fill=[]) -> Tensor",
    .doc = "The picture sheared, turned clockwise about its centre (both in degrees), scaled, moved by pixels (x, y).", .run = affine_run,
};

RUSH_FAMILY(vision, &op_pixels, &op_resize, &op_crop, &op_normalize, &op_grayscale, &op_brightness, &op_contrast, &op_saturation, &op_gamma, &op_hue, &op_affine)
