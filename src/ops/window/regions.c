/* regions.c - what detectors do with boxes: non-maximum suppression, regions of interest, deformable convolution. These are the compiled
 * operations of torchvision, under its names and with its numbers, so that its wheels need nothing but the library.
 */
#include "op/formula.h"
#include "op/op.h"
#include "ops/geometry.h"
#include <float.h>
#include <math.h>

enum { MOST_SAMPLES = 1 << 20 }; /* of a region, in one direction */

typedef struct regions {
    int64_t n, channels, height, width; /* regions; channels and pixels of the pictures */
    int64_t rows, columns, outputs; /* bins of a region; channels that each region has */
    double scale; /* pixels of the pictures per unit of the boxes */
    int64_t sampling; /* samples in a bin, in one direction; 0: as many as it has pixels */
    bool aligned; /* are pixels' centres at one half? */
    bool by_position; /* has each bin its own channels? */
    const void *rois, *from;
    void *to;
    int32_t *index; /* the channel or the pixel that each result is from, or NULL */
} regions;

/* To a whole number that sums of pictures' sides still hold. */
static int64_t rounded(double x) { return x > 1e9 ? (int64_t)1e9 : x < -1e9 ? (int64_t)-1e9 : isnan(x) ? 0 : (int64_t)x; }

#define real float
#define R(name) name##_f32
#include "ops/window/regions.inc"
#undef real
#undef R
#define real double
#define R(name) name##_f64
#include "ops/window/regions.inc"
#undef real
#undef R

/* ---- nms ---- */

static int boxes_check(const rush_value *in)
{
    const rush_tensor *boxes = in[0].t, *scores = in[1].t;
    RUSH_CHECK(boxes->ndim == 2, RUSH_RUNTIME_ERROR, "boxes should be a 2d tensor, got %dD", boxes->ndim);
    RUSH_CHECK(boxes->size[1] == 4, RUSH_RUNTIME_ERROR, "boxes should have 4 elements in dimension 1, got %lld", (long long)boxes->size[1]);
    RUSH_CHECK(scores->ndim == 1, RUSH_RUNTIME_ERROR, "scores should be a 1d tensor, got %dD", scores->ndim);
    RUSH_CHECK(boxes->size[0] == scores->size[0], RUSH_RUNTIME_ERROR, "boxes and scores should have same number of elements in dimension 0, got %lld and %lld",
               (long long)boxes->size[0], (long long)scores->size[0]);
    RUSH_CHECK(boxes->dtype == scores->dtype, RUSH_RUNTIME_ERROR, "dets should have the same type as scores");
    RUSH_CHECK(rush_dtype_is_float((rush_dtype)boxes->dtype), RUSH_NOT_IMPLEMENTED, "\"nms_kernel\" not implemented for '%s'", rush_dtype_word(boxes->dtype));
    return 0;
}

static int nms_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (boxes_check(in)) return -1;
    rush_tensor *order = T("argsort.stable", in[1], V(true), V((int64_t)0), V(true)), *boxes = T("index_select", in[0], V((int64_t)0), V(order));
    return rush_result(out, T("masked_select", V(order), V(T("torchvision::_nms_kept", V(boxes), in[2]))));
}

static rush_op op_nms = {
    .schema = "torchvision::nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    .doc = "Which boxes (x1, y1, x2, y2) stay where those that overlap one of a higher score go: their indices, by falling score.", .run = nms_run,
    .flags = RUSH_NO_GRAD,
};

static int kept_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *boxes = in[0].t;
    RUSH_CHECK(boxes->ndim == 2 && boxes->size[1] == 4 && rush_dtype_is_float((rush_dtype)boxes->dtype), RUSH_RUNTIME_ERROR, "boxes should be floats (N, 4), got %s", rush_shape_of(boxes));
    return rush_out_t(out, 0, boxes, RUSH_BOOL, 1, boxes->size) ? 0 : -1;
}

static void kept_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_dtype d = rush_computed_in(in[0].t);
    rush_tensor *boxes = rush_cast_copy(in[0].t, d);
    if (!boxes) return;
    if (d == RUSH_F32) suppress_f32(rush_ptr(boxes), boxes->size[0], D_(in[1]), rush_ptr(out[0].t));
    else suppress_f64(rush_ptr(boxes), boxes->size[0], D_(in[1]), rush_ptr(out[0].t));
}

static rush_op op_kept = {
    .schema = "torchvision::_nms_kept(Tensor boxes, float iou_threshold) -> Tensor", .doc = "Which boxes nms() keeps of those in its order.", .shape = kept_shape, .cpu = kept_cpu,
    .flags = RUSH_NO_GRAD | RUSH_HIDDEN,
};

static int qnms_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_result(out, T("torchvision::nms", V(to_dtype(in[0].t, RUSH_F32)), V(to_dtype(in[1].t, RUSH_F32)), in[2]));
}

static rush_op op_qnms = {
    .schema = "torchvision::qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    .doc = "nms() of what quantized boxes and scores hold: how much boxes share depends on no scale.", .run = qnms_run, .flags = RUSH_NO_GRAD,
};

/* ---- how much turned boxes share ---- */

typedef struct point { double x, y; } point;
typedef struct corners { /* of a convex polygon, in order: four sides cut by four others have at most eight */
    int n;
    point p[8];
} corners;

/* A box (centre x, y, width, height, degrees) about the point `origin`, so that far boxes lose no digits. */
static corners turned(const double *box, point origin)
{
    const double turn = -box[4] * M_PI / 180, c = cos(turn) / 2, s = sin(turn) / 2, x = box[0] - origin.x, y = box[1] - origin.y, w = box[2], h = box[3];
    return (corners){4, {{x - s * h - c * w, y + c * h - s * w}, {x + s * h - c * w, y - c * h - s * w}, {x + s * h + c * w, y - c * h + s * w}, {x - s * h + c * w, y + c * h + s * w}}};
}

static double side_of(point a, point b, point p) { return (b.x - a.x) * (p.y - a.y) - (b.y - a.y) * (p.x - a.x); }

/* What lies on the left of the line from a to b (Sutherland and Hodgman, 1974). */
static corners cut(const corners *from, point a, point b)
{
    corners left = {0};
    for (int i = 0; i < from->n; ++i) {
        const point p = from->p[i], q = from->p[(i + 1) % from->n];
        const double at = side_of(a, b, p), next = side_of(a, b, q);
        if (at >= 0 && left.n < 8) left.p[left.n++] = p;
        if ((at > 0 && next < 0) || (at < 0 && next > 0)) {
            const double t = at / (at - next);
            if (left.n < 8) left.p[left.n++] = (point){p.x + t * (q.x - p.x), p.y + t * (q.y - p.y)};
        }
    }
    return left;
}

static double shared(const double *one, const double *other)
{
    const point origin = {(one[0] + other[0]) / 2, (one[1] + other[1]) / 2};
    const double areas = one[2] * one[3] + other[2] * other[3];
    corners left = turned(one, origin), by = turned(other, origin);
    if (one[2] * one[3] < 1e-14 || other[2] * other[3] < 1e-14) return 0;
    for (int i = 0; i < 4; ++i) left = cut(&left, by.p[i], by.p[(i + 1) % 4]);
    double twice = 0;
    for (int i = 1; i + 1 < left.n; ++i) twice += side_of(left.p[0], left.p[i], left.p[i + 1]);
    return twice / 2 / (areas - twice / 2);
}

static int turned_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    for (int i = 0; i < 2; ++i)
        RUSH_CHECK(in[i].t->ndim == 2 && in[i].t->size[1] == 5, RUSH_RUNTIME_ERROR, "boxes%d should be (N, 5): centre, width, height and degrees, got %s", i + 1, rush_shape_of(in[i].t));
    RUSH_CHECK(in[0].t->dtype == in[1].t->dtype && rush_dtype_is_float((rush_dtype)in[0].t->dtype), RUSH_RUNTIME_ERROR, "boxes1 and boxes2 should have one floating-point type, got %s and %s",
               rush_dtype_word(in[0].t->dtype), rush_dtype_word(in[1].t->dtype));
    return rush_out_t(out, 0, in[0].t, in[0].t->dtype, 2, (int64_t[]){in[0].t->size[0], in[1].t->size[0]}) ? 0 : -1;
}

static void turned_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *a = rush_cast_copy(in[0].t, RUSH_F64), *b = rush_cast_copy(in[1].t, RUSH_F64), *y = rush_tensor_new(RUSH_F64, (rush_device){RUSH_CPU, -1}, 2, out[0].t->size);
    if (!a || !b || !y) return;
    const double *p = rush_ptr(a), *q = rush_ptr(b);
    double *to = rush_ptr(y);
    for (int64_t i = 0; i < y->numel; ++i) to[i] = shared(p + i / y->size[1] * 5, q + i % y->size[1] * 5);
    rush_copy_into(out[0].t, y);
}

static rush_op op_turned = {
    .schema = "torchvision::box_iou_rotated(Tensor boxes1, Tensor boxes2) -> Tensor",
    .doc = "Of each pair of boxes (centre x, y, width, height, degrees) the part of their union that they share.", .shape = turned_shape, .cpu = turned_cpu, .flags = RUSH_NO_GRAD,
};

/* ---- regions of interest ---- */

typedef void (*loop)(void *arg, int64_t begin, int64_t end);
typedef struct kind { /* of the four */
    const char *name, *back;
    loop forward[2], backward[2]; /* of float and double */
    bool by_position, samples, index;
} kind;
static const kind kinds[] = {
    {"roi_align", "torchvision::_roi_align_backward", {align_f32, align_f64}, {align_back_f32, align_back_f64}, false, true, false},
    {"ps_roi_align", "torchvision::_ps_roi_align_backward", {align_f32, align_f64}, {align_back_f32, align_back_f64}, true, true, true},
    {"roi_pool", "torchvision::_roi_pool_backward", {pool_f32, pool_f64}, {pool_back_f32, pool_back_f64}, false, false, true},
    {"ps_roi_pool", "torchvision::_ps_roi_pool_backward", {pool_f32, pool_f64}, {pool_back_f32, pool_back_f64}, true, false, true},
};
static const kind *kind_of(const rush_op *op) { return op->row; }

/* input (N, C, H, W), rois (K, 5), spatial_scale, pooled_height, pooled_width, and of those that sample sampling_ratio; of roi_align aligned. */
static int read_regions(regions *g, const kind *k, const rush_value *in)
{
    const rush_tensor *x = in[0].t, *rois = in[1].t;
    RUSH_CHECK(rois->ndim == 2 && rois->size[1] == 5, RUSH_RUNTIME_ERROR, "Tensor rois should have shape as Tensor[K, 5], got %s", rush_shape_of(rois));
    RUSH_CHECK(x->ndim == 4, RUSH_RUNTIME_ERROR, "%s: the input should have shape (N, C, H, W), got %s", k->name, rush_shape_of(x));
    RUSH_CHECK(x->dtype == rois->dtype, RUSH_RUNTIME_ERROR, "%s: input and rois should have the same type, got %s and %s", k->name, rush_dtype_word(x->dtype), rush_dtype_word(rois->dtype));
    RUSH_CHECK(rush_dtype_is_float((rush_dtype)x->dtype), RUSH_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", k->name, rush_dtype_word(x->dtype));
    *g = (regions){.n = rois->size[0], .channels = x->size[1], .height = x->size[2], .width = x->size[3], .scale = D_(in[2]), .rows = I_(in[3]), .columns = I_(in[4]),
                   .by_position = k->by_position, .sampling = k->samples ? I_(in[5]) : 0, .aligned = k->by_position || (k->samples && I_(in[6]))};
    RUSH_CHECK(g->rows > 0 && g->columns > 0 && g->rows <= MOST_SAMPLES && g->columns <= MOST_SAMPLES, RUSH_RUNTIME_ERROR, "%s: a region of %lld x %lld bins", k->name, (long long)g->rows, (long long)g->columns);
    RUSH_CHECK(g->sampling <= 1024, RUSH_NOT_IMPLEMENTED, "%s: more than 1024 samples in a bin, in one direction", k->name);
    RUSH_CHECK(!k->by_position || g->channels % (g->rows * g->columns) == 0, RUSH_RUNTIME_ERROR, "input channels must be a multiple of pooling height * pooling width");
    RUSH_CHECK(g->width == 0 || g->height <= INT32_MAX / g->width, RUSH_NOT_IMPLEMENTED, "%s: pictures of %lld x %lld pixels", k->name, (long long)g->height, (long long)g->width);
    g->outputs = k->by_position ? g->channels / (g->rows * g->columns) : g->channels;
    return 0;
}

static int regions_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    regions g = {0};
    if (read_regions(&g, kind_of(op), in)) return -1;
    const int64_t size[4] = {g.n, g.outputs, g.rows, g.columns};
    if (!rush_out_t(out, 0, in[0].t, in[0].t->dtype, 4, size)) return -1;
    return !kind_of(op)->index || rush_out_t(out, 1, in[0].t, RUSH_I32, 4, size) ? 0 : -1;
}

/* Does each region say which picture it is of? (An empty picture has nothing to sample.) */
static int pictures_check(const regions *g, const kind *k, const rush_tensor *rois, int64_t pictures)
{
    rush_tensor *exact = rush_cast_copy(rois, RUSH_F64);
    if (!exact) return -1;
    const double *p = rush_ptr(exact);
    for (int64_t i = 0; i < g->n; ++i)
        RUSH_CHECK(p[i * 5] > -1 && p[i * 5] < (double)pictures && g->height && g->width, RUSH_INDEX_ERROR, "%s: region %lld is of picture %g, of %lld pictures with %lld x %lld pixels", k->name,
                   (long long)i, p[i * 5], (long long)pictures, (long long)g->height, (long long)g->width);
    return 0;
}

static void regions_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    regions g = {0};
    const kind *k = kind_of(op);
    const rush_dtype d = rush_computed_in(in[0].t);
    if (read_regions(&g, k, in) || !out[0].t->numel || pictures_check(&g, k, in[1].t, in[0].t->size[0])) return;
    rush_tensor *x = rush_cast_copy(in[0].t, d), *rois = rush_cast_copy(in[1].t, d), *y = out[0].t->dtype == d ? out[0].t : rush_tensor_new(d, x->device, 4, out[0].t->size);
    if (!x || !rois || !y) return;
    g.from = rush_ptr(x), g.rois = rush_ptr(rois), g.to = rush_ptr(y), g.index = k->index ? rush_ptr(out[1].t) : NULL;
    rush_parallel_for(g.n, 1, k->forward[d == RUSH_F64], &g);
    if (y != out[0].t && !rush_failed()) rush_copy_into(out[0].t, y);
}

static void regions_grad(rush_grads *s)
{
    const rush_value *a = s->in;
    const kind *k = kind_of(s->op);
    const int64_t *n = a[0].t->size;
    if (!s->g[0]) return;
    rush_value v[12] = {V(s->g[0]), a[1]};
    int at = 2;
    if (k->index) v[at++] = s->out[1];
    for (int i = 2; i < 5; ++i) v[at++] = a[i];
    if (k->samples && k->by_position) v[at++] = a[5];
    for (int i = 0; i < 4; ++i) v[at++] = V(n[i]);
    if (k->samples && !k->by_position) v[at++] = a[5], v[at++] = a[6];
    s->gin[0] = rush_apply(rush_op_find(k->back), at, v);
}

/* The gradient's arguments: grad, rois, the index where there is one, then as torchvision orders them. `as_forward` gets those of the forward form. */
static void back_arguments(const kind *k, const rush_value *in, rush_value *as_forward, int64_t size[4])
{
    int at = 2 + k->index;
    as_forward[1] = in[1];
    for (int i = 2; i < 5; ++i) as_forward[i] = in[at++];
    if (k->samples && k->by_position) as_forward[5] = in[at++];
    for (int i = 0; i < 4; ++i) size[i] = I_(in[at++]);
    if (k->samples && !k->by_position) as_forward[5] = in[at], as_forward[6] = in[at + 1];
}

static int read_back(regions *g, const kind *k, const rush_value *in, int64_t size[4])
{
    rush_value forward[7] = {0};
    back_arguments(k, in, forward, size);
    rush_tensor *like = rush_tensor_new(in[0].t->dtype, (rush_device){RUSH_META, 0}, 4, size);
    if (!like) return -1;
    forward[0] = V(like);
    if (read_regions(g, k, forward)) return -1;
    const int64_t want[4] = {g->n, g->outputs, g->rows, g->columns};
    for (int i = 0; i < 1 + k->index; ++i) {
        const rush_tensor *t = in[i ? 2 : 0].t;
        RUSH_CHECK(t->ndim == 4 && !memcmp(t->size, want, sizeof want), RUSH_RUNTIME_ERROR, "%s: %s of size %s for %lld regions", k->back, i ? "an index" : "a gradient", rush_shape_of(t), (long long)g->n);
    }
    RUSH_CHECK(!k->index || in[2].t->dtype == RUSH_I32, RUSH_RUNTIME_ERROR, "%s: expected scalar type Int but found %s", k->back, rush_dtype_word(in[2].t->dtype));
    return 0;
}

static int back_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    regions g = {0};
    int64_t size[4];
    return !read_back(&g, kind_of(op), in, size) && rush_out_t(out, 0, in[0].t, in[0].t->dtype, 4, size) ? 0 : -1;
}

static void back_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    regions g = {0};
    int64_t size[4];
    const kind *k = kind_of(op);
    const rush_dtype d = rush_computed_in(in[0].t);
    if (read_back(&g, k, in, size)) return;
    rush_zero_into(out[0].t);
    if (!in[0].t->numel || pictures_check(&g, k, in[1].t, size[0])) return;
    rush_tensor *grad = rush_cast_copy(in[0].t, d), *rois = rush_cast_copy(in[1].t, d), *index = k->index ? rush_cast_copy(in[2].t, RUSH_I32) : NULL;
    rush_tensor *x = out[0].t->dtype == d ? out[0].t : rush_tensor_new(d, out[0].t->device, 4, size);
    if (!grad || !rois || !x || (k->index && !index)) return;
    if (x != out[0].t) rush_zero_into(x);
    g.from = rush_ptr(grad), g.rois = rush_ptr(rois), g.to = rush_ptr(x), g.index = index ? rush_ptr(index) : NULL;
    rush_parallel_for(g.outputs, 1, k->backward[d == RUSH_F64], &g);
    if (x != out[0].t && !rush_failed()) rush_copy_into(out[0].t, x);
}

/* What a quantized tensor holds, as the numbers that it stands for. */
static rush_tensor *meant(rush_tensor *t, rush_value scale, rush_value zero)
{
    return T("mul.Scalar", V(T("sub.Scalar", V(to_dtype(t, RUSH_F32)), zero)), scale);
}

static int qroi_align_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *x = in[0].t;
    const rush_dtype d = (rush_dtype)x->dtype;
    RUSH_CHECK(rush_dtypes[d].category == 1 && rush_dtypes[d].size <= 4, RUSH_RUNTIME_ERROR, "qroi_align: expected what a quantized tensor holds, got %s", rush_dtype_word(d));
    RUSH_CHECK(x->ndim != 4 || x->size[0] == 1, RUSH_RUNTIME_ERROR, "Only one image per batch is allowed in qroi_align.");
    RUSH_CHECK(D_(in[2]) > 0, RUSH_RUNTIME_ERROR, "qroi_align: a scale of %g", D_(in[2]));
    rush_tensor *y = T("torchvision::roi_align", V(meant(in[0].t, in[2], in[3])), V(meant(in[1].t, in[4], in[5])), in[6], in[7], in[8], in[9], in[10]);
    y = y ? T("add.Scalar", V(T("round", V(T("div.Scalar", V(y), in[2])))), in[3]) : NULL;
    y = y ? T("clamp", V(y), V(rush_dtypes[d].min), V(rush_dtypes[d].max)) : NULL;
    return rush_result(out, y ? to_dtype(y, d) : NULL);
}

static rush_op op_qroi_align = {
    .schema = "torchvision::qroi_align(Tensor input, Tensor rois, float input_scale, int input_zero_point, float rois_scale, int rois_zero_point, float spatial_scale, int pooled_height, "
              "int pooled_width, int sampling_ratio, bool aligned) -> Tensor",
    .doc = "roi_align() of what quantized pictures and regions hold, in the pictures' numbers.", .run = qroi_align_run, .flags = RUSH_NO_GRAD,
};

#define REGIONS(which, number, more, results, kept, text)                                                        \
    static rush_op op_##which = {                                                                           \
        .schema = "torchvision::" #which "(Tensor input, Tensor rois, float spatial_scale, int pooled_height, int pooled_width" more ") -> " results, .doc = text, \
        .shape = regions_shape, .cpu = regions_cpu, .grad = regions_grad, .saves = kept, .row = &kinds[number]};
#define BACK(which, number, before, more, after)                                                            \
    static rush_op op_##which##_back = {                                                                    \
        .schema = "torchvision::_" #which "_backward(Tensor grad, Tensor rois" before ", float spatial_scale, int pooled_height, int pooled_width" more         \
                  ", int batch_size, int channels, int height, int width" after ") -> Tensor",             \
        .doc = "The input's gradient of " #which ".", .shape = back_shape, .cpu = back_cpu, .row = &kinds[number], .flags = RUSH_NO_GRAD};
REGIONS(roi_align, 0, ", int sampling_ratio, bool aligned", "Tensor", "rois", "Bins of regions (picture, x1, y1, x2, y2), each the mean of points between pixels.")
REGIONS(ps_roi_align, 1, ", int sampling_ratio", "(Tensor, Tensor)", "rois, result1", "roi_align where each bin has channels of its own, and which one it was.")
REGIONS(roi_pool, 2, "", "(Tensor, Tensor)", "rois, result1", "Bins of regions (picture, x1, y1, x2, y2), each the largest of its pixels, and which one it was.")
REGIONS(ps_roi_pool, 3, "", "(Tensor, Tensor)", "rois, result1", "The mean of each bin's pixels in channels of its own, and which channel it was.")
BACK(roi_align, 0, "", "", ", int sampling_ratio, bool aligned")
BACK(ps_roi_align, 1, ", Tensor channel_mapping", ", int sampling_ratio", "")
BACK(roi_pool, 2, ", Tensor argmax", "", "")
BACK(ps_roi_pool, 3, ", Tensor channel_mapping", "", "")

/* ---- deformable convolution (Dai et al., 2017; with a mask: Zhu et al., 2019) ---- */

typedef struct deformed {
    int64_t n, c, h, w, o, rows, columns, oh, ow; /* pictures, channels, pixels; channels, kernel and pixels of the result */
    int64_t stride[2], pad[2], dilation[2], groups, parts; /* parts of the channels that have offsets of their own */
} deformed;

static int read_deformed(deformed *g, const rush_value *in)
{
    const rush_tensor *x = in[0].t, *weight = in[1].t, *offset = in[2].t, *mask = in[3].t;
    RUSH_CHECK(x->ndim == 4 && weight->ndim == 4 && offset->ndim == 4, RUSH_RUNTIME_ERROR, "deform_conv2d: input, weight and offset should have 4 dimensions, got %s, %s, %s", rush_shape_of(x),
               rush_shape_of(weight), rush_shape_of(offset));
    *g = (deformed){.n = x->size[0], .c = x->size[1], .h = x->size[2], .w = x->size[3], .o = weight->size[0], .rows = weight->size[2], .columns = weight->size[3],
                    .groups = I_(in[11]), .parts = I_(in[12])};
    const int64_t kernel[2] = {g->rows, g->columns}, side[2] = {g->h, g->w};
    int64_t *result[2] = {&g->oh, &g->ow};
    RUSH_CHECK(g->rows > 0 && g->columns > 0 && g->rows <= INT16_MAX && g->columns <= INT16_MAX, RUSH_RUNTIME_ERROR, "weight: a kernel of %lld x %lld", (long long)g->rows, (long long)g->columns);
    RUSH_CHECK(g->groups > 0 && g->c % g->groups == 0 && weight->size[1] == g->c / g->groups && g->o % g->groups == 0, RUSH_RUNTIME_ERROR,
               "deform_conv2d: weight of size %s for %lld channels in %lld groups", rush_shape_of(weight), (long long)g->c, (long long)g->groups);
    RUSH_CHECK(g->parts > 0 && g->parts <= INT32_MAX && g->c % g->parts == 0, RUSH_RUNTIME_ERROR, "deform_conv2d: %lld channels do not go into %lld offset groups", (long long)g->c, (long long)g->parts);
    for (int i = 0; i < 2; ++i) {
        g->stride[i] = I_(in[5 + i]), g->pad[i] = I_(in[7 + i]), g->dilation[i] = I_(in[9 + i]);
        RUSH_CHECK(g->stride[i] > 0 && g->pad[i] >= 0 && g->dilation[i] > 0 && g->pad[i] < INT32_MAX && g->dilation[i] < INT32_MAX, RUSH_RUNTIME_ERROR,
                   "deform_conv2d: stride %lld, padding %lld, dilation %lld", (long long)g->stride[i], (long long)g->pad[i], (long long)g->dilation[i]);
        RUSH_CHECK(side[i] < INT64_MAX / 4, RUSH_RUNTIME_ERROR, "deform_conv2d: pictures of size %s", rush_shape_of(x));
        *result[i] = (side[i] + 2 * g->pad[i] - (g->dilation[i] * (kernel[i] - 1) + 1)) / g->stride[i] + 1;
        RUSH_CHECK(*result[i] > 0, RUSH_RUNTIME_ERROR, "Calculated output size too small - out_h: %lld out_w: %lld", (long long)g->oh, (long long)g->ow);
    }
    const int64_t taps = g->rows * g->columns;
    RUSH_CHECK(offset->size[1] == g->parts * 2 * taps, RUSH_RUNTIME_ERROR, "offset.shape[1] is not valid: got: %lld expected: %lld", (long long)offset->size[1], (long long)(g->parts * 2 * taps));
    RUSH_CHECK(offset->size[0] == g->n && offset->size[2] == g->oh && offset->size[3] == g->ow, RUSH_RUNTIME_ERROR,
               "the shape of the offset, %s, does not match the result's %lld x %lld of %lld pictures", rush_shape_of(offset), (long long)g->oh, (long long)g->ow, (long long)g->n);
    if (!I_(in[13])) return 0;
    RUSH_CHECK(mask->ndim == 4 && mask->size[1] == g->parts * taps, RUSH_RUNTIME_ERROR, "mask.shape[1] is not valid: got: %lld expected: %lld", (long long)(mask->ndim > 1 ? mask->size[1] : 0),
               (long long)(g->parts * taps));
    RUSH_CHECK(mask->size[0] == g->n && mask->size[2] == g->oh && mask->size[3] == g->ow, RUSH_RUNTIME_ERROR,
               "the shape of the mask, %s, does not match the result's %lld x %lld of %lld pictures", rush_shape_of(mask), (long long)g->oh, (long long)g->ow, (long long)g->n);
    return 0;
}

/* Where the kernel's taps lie without offsets along dimension i, (1, taps, oh, 1) or (1, taps, 1, ow), in grid_sampler's numbers once offsets are added. */
static rush_tensor *places(const deformed *g, int i, const rush_tensor *like)
{
    const int64_t n = i ? g->ow : g->oh, kernel = i ? g->columns : g->rows;
    rush_tensor *start = T("arange", V(n), rush_v_dtype(like->dtype), ON(like)), *tap = T("arange", V(kernel), rush_v_dtype(like->dtype), ON(like));
    start = start ? T("add.Scalar", V(T("mul.Scalar", V(start), V(g->stride[i]))), V(-g->pad[i])) : NULL;
    tap = tap ? T("mul.Scalar", V(tap), V(g->dilation[i])) : NULL;
    if (!start || !tap) return NULL;
    tap = i ? T("reshape", V(tap), INTS(1, kernel)) : T("reshape", V(tap), INTS(kernel, 1));
    tap = T("reshape", V(T("expand", V(tap), INTS(g->rows, g->columns))), INTS(1, g->rows * g->columns, 1, 1));
    start = i ? T("reshape", V(start), INTS(1, 1, 1, n)) : T("reshape", V(start), INTS(1, 1, n, 1));
    return T("add.Tensor", V(tap), V(start));
}

/* Coordinates in pixels as grid_sampler wants them: -1 and 1 are the picture's edges. */
static rush_tensor *for_grid(rush_tensor *at, int64_t n)
{
    return T("add.Scalar", V(T("mul.Scalar", V(at), V(2.0 / (double)RUSH_MAX(n, 1)))), V(1.0 / (double)RUSH_MAX(n, 1) - 1));
}

static int deform_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    deformed g = {0};
    if (read_deformed(&g, in)) return -1;
    const int64_t taps = g.rows * g.columns, each = g.c / g.parts;
    int64_t all = g.n; /* parts of all pictures */
    if (rush_grown("deform_conv2d", &all, g.parts)) return -1;
    rush_tensor *offset = T("reshape", in[2], INTS(all, taps, 2, g.oh, g.ow)), *y = places(&g, 0, in[2].t), *x = places(&g, 1, in[2].t);
    if (!offset || !y || !x) return -1;
    y = for_grid(T("add.Tensor", V(T("select.int", V(offset), V((int64_t)2), V((int64_t)0))), V(y)), g.h);
    x = for_grid(T("add.Tensor", V(T("select.int", V(offset), V((int64_t)2), V((int64_t)1))), V(x)), g.w);
    if (!x || !y) return -1;
    rush_tensor *grid = T("reshape", V(T("stack", rush_v_tensors((rush_tensor *[]){x, y}, 2), V((int64_t)-1))), INTS(all, taps * g.oh, g.ow, 2));
    rush_tensor *pictures = T("reshape", in[0], INTS(all, each, g.h, g.w));
    rush_tensor *columns = T("grid_sampler_2d", V(pictures), V(grid), V((int64_t)0), V((int64_t)0), V(false));
    if (I_(in[13])) {
        rush_tensor *mask = T("reshape", in[3], INTS(all, 1, taps * g.oh, g.ow));
        columns = T("mul.Tensor", V(columns), V(mask));
    }
    columns = T("reshape", V(columns), INTS(g.n, g.groups, g.c / g.groups * taps, g.oh * g.ow));
    rush_tensor *weight = T("reshape", in[1], INTS(1, g.groups, g.o / g.groups, g.c / g.groups * taps));
    rush_tensor *r = T("reshape", V(T("matmul", V(weight), V(columns))), INTS(g.n, g.o, g.oh, g.ow)), *bias = T("reshape", in[4], INTS(1, g.o, 1, 1));
    return rush_result(out, T("add.Tensor", V(r), V(bias)));
}

static rush_op op_deform = {
    .schema = "torchvision::deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, int stride_h, int stride_w, int pad_h, int pad_w, int dilation_h, int dilation_w, "
              "int groups, int offset_groups, bool use_mask) -> Tensor",
    .doc = "A convolution whose kernel's taps are moved by offsets (y, x), each weighed by the mask.", .run = deform_run,
};

static int deform_back_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *leaf[5], *got[5], *grad = in[0].t;
    rush_value v[14];
    for (int i = 0; i < 5; ++i) {
        leaf[i] = rush_tensor_detach(in[1 + i].t);
        if (!leaf[i] || !rush_requires_grad_set(leaf[i], true)) return -1;
        v[i] = V(leaf[i]);
    }
    for (int i = 5; i < 14; ++i) v[i] = in[1 + i];
    const bool before = rush_grad_enabled_set(true);
    rush_tensor *y = rush_apply(rush_op_find("torchvision::deform_conv2d"), 14, v);
    int failed = !y || rush_grad_of(1, &y, &grad, 5, leaf, got, false, false, true);
    rush_grad_enabled_set(before);
    for (int i = 0; i < 5 && !failed; ++i) out[i] = V(got[i] ? got[i] : rush_zeros_like(leaf[i])); /* no mask: no gradient */
    return failed ? -1 : 0;
}

static rush_op op_deform_back = {
    .schema = "torchvision::_deform_conv2d_backward(Tensor grad, Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, int stride_h, int stride_w, int pad_h, int pad_w, int dilation_h, "
              "int dilation_w, int groups, int offset_groups, bool use_mask) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    .doc = "The gradients of deform_conv2d: of input, weight, offset, mask and bias.", .run = deform_back_run, .flags = RUSH_NO_GRAD,
};

RUSH_FAMILY(regions, &op_turned, &op_kept, &op_nms, &op_qnms, &op_qroi_align, &op_deform_back, &op_roi_align, &op_roi_align_back, &op_ps_roi_align, &op_ps_roi_align_back, &op_roi_pool, &op_roi_pool_back, &op_ps_roi_pool, &op_ps_roi_pool_back, &op_deform)
