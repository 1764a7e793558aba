/* pad.c - borders: constant_pad_nd, and padding by reflection, replication and wrapping of up to three dimensions.
 *
 * The last three say for each position of the padded dimension which inner one it shows; such a table per dimension is
 * all that tells them apart. Negative padding cuts off.
 */
#include "autograd/autograd.h"
#include "kernels/cpu/pad.h"
#include "op/formula.h"
#include "op/tables.h"
#include "ops/geometry.h"

#define SELF (in[0].t)

/* n elements with a border of low and high (negative: cut off); -1 where that is no size. */
static int64_t bordered_size(int64_t n, int64_t low, int64_t high)
{
    const int64_t far = (int64_t)1 << 61;
    return low > -far && high > -far && low < far && high < far && n < far ? n + low + high : -1;
}

/* ---- constant ---- */

static int constant_pad_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *t = SELF;
    int n = (int)in[1].n / 2;
    int64_t size[RUSH_MAXDIM];
    RUSH_CHECK(in[1].n % 2 == 0, RUSH_RUNTIME_ERROR, "Length of pad must be even but instead it equals %u", in[1].n);
    RUSH_CHECK(n <= t->ndim, RUSH_RUNTIME_ERROR,
               "Length of pad should be no more than twice the number of dimensions of the input. Pad length is %u while the input has %d dimensions.", in[1].n,
               t->ndim);
    if (rush_number_fits(in[2], t->dtype)) return -1;
    for (int d = 0; d < t->ndim; ++d) {
        int k = t->ndim - 1 - d;
        int64_t low = k < n ? in[1].ints[2 * k] : 0, high = k < n ? in[1].ints[2 * k + 1] : 0;
        size[d] = bordered_size(t->size[d], low, high);
        RUSH_CHECK(size[d] >= 0, RUSH_RUNTIME_ERROR,
                   "The input size %lld, plus negative padding %lld and %lld, resulted in a negative output size, which is invalid. Check dimension %d of "
                   "your input.", (long long)t->size[d], (long long)low, (long long)high, d);
    }
    return rush_out_format(out, 0, rush_format_of(t), t, t->dtype, t->ndim, size) ? 0 : -1;
}

static void constant_pad_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *from = SELF, *to = out[0].t;
    for (int k = (int)in[1].n / 2 - 1; k >= 0; --k) { /* the slabs before and after along each dimension, from the outermost in */
        int d = SELF->ndim - 1 - k;
        int64_t low = in[1].ints[2 * k], high = in[1].ints[2 * k + 1];
        int64_t cut = low < 0 ? -low : 0, length = RUSH_MAX(SELF->size[d] - cut + (high < 0 ? high : 0), 0), begin = low > 0 ? low : 0;
        begin = RUSH_MIN(begin, to->size[d]);
        length = RUSH_MIN(length, to->size[d] - begin);
        rush_tensor *before = begin ? rush_part(to, d, 0, begin) : NULL;
        if (before) rush_fill_into(before, in[2]);
        int64_t rest = to->size[d] - begin - length;
        rush_tensor *after = rest ? rush_part(to, d, begin + length, rest) : NULL;
        if (after) rush_fill_into(after, in[2]);
        from = rush_part(from, d, RUSH_MIN(cut, from->size[d]), length);
        to = from ? rush_part(to, d, begin, length) : NULL;
        if (!to || length == 0) return;
    }
    rush_copy_into((rush_tensor *)to, from);
}

static void constant_pad_grad(rush_grads *s)
{
    int64_t back[2 * RUSH_MAXDIM];
    if (!s->g[0]) return;
    for (uint32_t k = 0; k < s->in[1].n; ++k) back[k] = -s->in[1].ints[k];
    s->gin[0] = T("constant_pad_nd", V(s->g[0]), rush_v_ints(back, s->in[1].n), V((int64_t)0));
}

static rush_op op_constant_pad = {
    .schema = "constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor",
    .doc = "Borders of a number: pad has (before, after) of the last dimension, then of the one before it, and so on. Negative ones cut.",
    .shape = constant_pad_shape, .cpu = constant_pad_cpu, .grad = constant_pad_grad,
};

/* ---- tables ---- */

enum { REFLECT, REPLICATE, WRAP };

/* What position `at` of the input, which may lie outside, shows. Wrapping goes round what negative padding left. */
static int64_t shown(int mode, int64_t at, int64_t n, int64_t low, int64_t high)
{
    if (mode == WRAP) {
        int64_t first = low < 0 ? -low : 0, kept = n - first + RUSH_MIN(high, 0);
        return first + (((at - first) % kept) + kept) % kept;
    }
    if (mode == REPLICATE) return at < 0 ? 0 : at >= n ? n - 1 : at;
    return at < 0 ? -at : at >= n ? 2 * (n - 1) - at : at;
}

/* Fills a plan for planes of `inner` sizes; tables live in the scope. */
static int pad_plan(rush_pad *p, int mode, const int64_t *inner, int dims, rush_value pad)
{
    for (int d = 0; d < 3; ++d) {
        int k = 2 - d; /* pad begins with the last dimension */
        int64_t low = k < dims ? pad.ints[2 * k] : 0, high = k < dims ? pad.ints[2 * k + 1] : 0;
        p->in[d] = k < dims ? inner[dims - 1 - k] : 1;
        p->out[d] = p->in[d] + low + high;
        int64_t *map = rush_scope_alloc(sizeof *map * (size_t)RUSH_MAX(p->out[d], 1));
        if (!map) return -1;
        for (int64_t i = 0; i < p->out[d]; ++i) map[i] = shown(mode, i - low, p->in[d], low, high);
        p->map[d] = map;
        if (d == 2) {
            p->begin = RUSH_MIN(RUSH_MAX(low, 0), p->out[2]);
            p->end = RUSH_MAX(p->begin, RUSH_MIN(low + p->in[2], p->out[2]));
        }
    }
    return 0;
}

typedef struct planes {
    rush_pad plan;
    char *to;
    const char *from;
    int64_t in_bytes, out_bytes;
    int parts;
    bool wide;
} planes;

static void forward_rows(void *arg, int64_t begin, int64_t end)
{
    const planes *w = arg;
    rush_k_pad->forward(&w->plan, w->to, w->from, begin, end);
}

static void backward_planes(void *arg, int64_t begin, int64_t end)
{
    const planes *w = arg;
    for (int64_t i = begin; i < end; ++i) {
        char *to = w->to + i * w->in_bytes;
        const char *from = w->from + i * w->out_bytes;
        memset(to, 0, (size_t)w->in_bytes);
        if (w->wide) rush_k_pad->backward_f64(&w->plan, (double *)to, (const double *)from, w->parts);
        else rush_k_pad->backward_f32(&w->plan, (float *)to, (const float *)from, w->parts);
    }
}

static int64_t volume(const int64_t *size)
{
    return size[0] * size[1] * size[2];
}

/* ---- forward ---- */

static const char *dim_names[] = {"W", "H", "D"};

static int bordered_shape(const rush_value *in, rush_value *out, int mode, int dims)
{
    const rush_tensor *t = SELF;
    const int64_t *pad = in[1].ints;
    int64_t size[RUSH_MAXDIM];
    bool good = t->ndim == dims + 1 || t->ndim == dims + 2;
    RUSH_CHECK((int)in[1].n == 2 * dims, RUSH_RUNTIME_ERROR, "padding size is expected to be %d, but got: %u", 2 * dims, in[1].n);
    for (int d = good && t->ndim == dims + 2; d < t->ndim && good && mode != WRAP; ++d) good = t->size[d] > 0; /* the batch may be empty */
    RUSH_CHECK(good, RUSH_RUNTIME_ERROR,
               "Expected %dD or %dD (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, but got: %s", dims + 1, dims + 2,
               rush_shape_of(t));
    RUSH_CHECK(t->dtype != RUSH_BOOL || mode == WRAP, RUSH_NOT_IMPLEMENTED, "\"%s_pad%dd\" not implemented for 'Bool'",
               mode == REFLECT ? "reflection" : "replication", dims);
    memcpy(size, t->size, sizeof *size * t->ndim);
    for (int k = 0; k < dims; ++k) {
        int d = t->ndim - 1 - k;
        int64_t low = pad[2 * k], high = pad[2 * k + 1];
        RUSH_CHECK(mode != REFLECT || (low < t->size[d] && high < t->size[d]), RUSH_RUNTIME_ERROR,
                   "Argument #%d: Padding size should be less than the corresponding input dimension, but got: padding (%lld, %lld) at dimension %d of input %s",
                   4 + 2 * k, (long long)low, (long long)high, d,
                   rush_shape_of(t));
        RUSH_CHECK(mode != WRAP || (low <= t->size[d] && high <= t->size[d]), RUSH_RUNTIME_ERROR, "Padding value causes wrapping around more than once.");
        size[d] = bordered_size(t->size[d], low, high);
        RUSH_CHECK(mode != WRAP || size[d] <= 0 || t->size[d] + RUSH_MIN(low, 0) + RUSH_MIN(high, 0) > 0, RUSH_RUNTIME_ERROR,
                   "Padding value causes wrapping around more than once.");
        RUSH_CHECK(mode != WRAP || size[d] >= 0, RUSH_RUNTIME_ERROR, "Negative padding value is resulting in an empty dimension");
        RUSH_CHECK(size[d] >= (mode != WRAP), RUSH_RUNTIME_ERROR, "input (%s: %lld) is too small. Calculated output %s: %lld", dim_names[k], (long long)t->size[d],
                   dim_names[k], (long long)size[d]);
    }
    return rush_out_format(out, 0, mode == WRAP ? RUSH_CONTIGUOUS : rush_format_of(t), t, t->dtype, t->ndim, size) ? 0 : -1;
}

static void bordered(const rush_value *in, rush_value *out, int mode, int dims)
{
    const bool last = SELF->ndim == dims + 2 && rush_lie_as_pixels(SELF, out[0].t);
    const rush_tensor *t = last ? SELF : rush_contiguous_copy(SELF);
    rush_tensor *y = last || rush_contiguous(out[0].t) ? out[0].t : rush_tensor_new(SELF->dtype, SELF->device, SELF->ndim, out[0].t->size);
    int64_t item = rush_dtypes[SELF->dtype].size * (last ? SELF->size[1] : 1);
    planes w = {.plan.size = (size_t)item};
    if (!t || !y || y->numel == 0 || pad_plan(&w.plan, mode, t->size + t->ndim - dims, dims, in[1])) return;
    const rush_tables *tables = rush_tables_of[t->device.type];
    if (RUSH_UNLIKELY(tables != NULL)) {
        if (tables->pad(&w.plan, t, y, false)) return;
    } else {
        int64_t row = w.plan.out[2] * item;
        w.to = rush_ptr(y);
        w.from = rush_ptr(t);
        rush_parallel_for(y->numel * rush_dtypes[y->dtype].size / row, 1 + 131072 / row, forward_rows, &w);
    }
    if (y != out[0].t) rush_copy_into(out[0].t, y);
}

static void bordered_grad(rush_grads *s, int mode)
{
    rush_value g = s->g[0] ? V(s->g[0]) : RUSH_NONE, self = rush_in_graph(s, 0), pad = s->in[1];
    int dims = (int)pad.n / 2;
    if (!HAS(g)) return;
    if (mode == WRAP) s->gin[0] = T("_pad_backward", g, rush_v_ints(self.t->size, self.t->ndim), pad, V((int64_t)mode));
    else if (mode == REFLECT) s->gin[0] = dims == 1 ? T("reflection_pad1d_backward", g, self, pad) : dims == 2 ? T("reflection_pad2d_backward", g, self, pad) : T("reflection_pad3d_backward", g, self, pad);
    else s->gin[0] = dims == 1 ? T("replication_pad1d_backward", g, self, pad) : dims == 2 ? T("replication_pad2d_backward", g, self, pad) : T("replication_pad3d_backward", g, self, pad);
}

static int reflect_1_shape(const rush_op *op, const rush_value *in, rush_value *out) { return bordered_shape(in, out, REFLECT, 1); }
static int reflect_2_shape(const rush_op *op, const rush_value *in, rush_value *out) { return bordered_shape(in, out, REFLECT, 2); }
static int reflect_3_shape(const rush_op *op, const rush_value *in, rush_value *out) { return bordered_shape(in, out, REFLECT, 3); }
static int replicate_1_shape(const rush_op *op, const rush_value *in, rush_value *out) { return bordered_shape(in, out, REPLICATE, 1); }
static int replicate_2_shape(const rush_op *op, const rush_value *in, rush_value *out) { return bordered_shape(in, out, REPLICATE, 2); }
static int replicate_3_shape(const rush_op *op, const rush_value *in, rush_value *out) { return bordered_shape(in, out, REPLICATE, 3); }
static int wrap_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(in[1].n && in[1].n <= 2 * RUSH_COUNT(dim_names), RUSH_RUNTIME_ERROR, "circular padding takes 2, 4 or 6 numbers, but got: %u", in[1].n);
    return bordered_shape(in, out, WRAP, (int)in[1].n / 2);
}
static void reflect_cpu(const rush_op *op, const rush_value *in, rush_value *out) { bordered(in, out, REFLECT, (int)in[1].n / 2); }
static void replicate_cpu(const rush_op *op, const rush_value *in, rush_value *out) { bordered(in, out, REPLICATE, (int)in[1].n / 2); }
static void wrap_cpu(const rush_op *op, const rush_value *in, rush_value *out) { bordered(in, out, WRAP, (int)in[1].n / 2); }
static void reflect_grad(rush_grads *s) { bordered_grad(s, REFLECT); }
static void replicate_grad(rush_grads *s) { bordered_grad(s, REPLICATE); }
static void wrap_grad(rush_grads *s) { bordered_grad(s, WRAP); }

static rush_op op_reflect_1 = {
    .schema = "reflection_pad1d(Tensor self, SymInt[2] padding) -> Tensor", .method = RUSH_NN, .doc = "The last dimension continued as in a mirror, its edge not said twice.",
    .shape = reflect_1_shape, .cpu = reflect_cpu, .grad = reflect_grad, .flags = RUSH_AUTOCAST_F32};
static rush_op op_reflect_2 = {
    .schema = "reflection_pad2d(Tensor self, SymInt[4] padding) -> Tensor", .method = RUSH_NN, .doc = "The last two dimensions continued as in a mirror.",
    .shape = reflect_2_shape, .cpu = reflect_cpu, .grad = reflect_grad, .flags = RUSH_AUTOCAST_F32};
static rush_op op_reflect_3 = {
    .schema = "reflection_pad3d(Tensor self, SymInt[6] padding) -> Tensor", .method = RUSH_NN, .doc = "The last three dimensions continued as in a mirror.",
    .shape = reflect_3_shape, .cpu = reflect_cpu, .grad = reflect_grad};
static rush_op op_replicate_1 = {
    .schema = "replication_pad1d(Tensor self, SymInt[2] padding) -> Tensor", .method = RUSH_NN, .doc = "The last dimension continued by its edges.",
    .shape = replicate_1_shape, .cpu = replicate_cpu, .grad = replicate_grad, .flags = RUSH_AUTOCAST_F32};
static rush_op op_replicate_2 = {
    .schema = "replication_pad2d(Tensor self, SymInt[4] padding) -> Tensor", .method = RUSH_NN, .doc = "The last two dimensions continued by their edges.",
    .shape = replicate_2_shape, .cpu = replicate_cpu, .grad = replicate_grad, .flags = RUSH_AUTOCAST_F32};
static rush_op op_replicate_3 = {
    .schema = "replication_pad3d(Tensor self, SymInt[6] padding) -> Tensor", .method = RUSH_NN, .doc = "The last three dimensions continued by their edges.",
    .shape = replicate_3_shape, .cpu = replicate_cpu, .grad = replicate_grad, .flags = RUSH_AUTOCAST_F32};
static rush_op op_wrap = {
    .schema = "_pad_circular(Tensor self, SymInt[] pad) -> Tensor", .method = RUSH_NN, .doc = "The last dimensions continued from their other end.",
    .shape = wrap_shape, .cpu = wrap_cpu, .grad = wrap_grad, .flags = RUSH_HIDDEN};

/* ---- backward ---- */

static int backward_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    int dims = (int)in[2].n / 2, n = (int)in[1].n;
    RUSH_CHECK(SELF->ndim == n && dims <= n, RUSH_RUNTIME_ERROR, "the gradient %s has not the dimensions of the input %s", rush_shape_of(SELF),
               rush_shape_text(n, in[1].ints));
    RUSH_CHECK(dims <= 3 && in[2].n % 2 == 0 && I_(in[3]) >= REFLECT && I_(in[3]) <= WRAP, RUSH_RUNTIME_ERROR, "padding of %u numbers and mode %lld", in[2].n, (long long)I_(in[3]));
    for (int d = 0; d < n; ++d) {
        int k = n - 1 - d;
        int64_t low = k < dims ? in[2].ints[2 * k] : 0, high = k < dims ? in[2].ints[2 * k + 1] : 0, size = in[1].ints[d], want = bordered_size(size, low, high);
        bool shows = size > 0 || (k >= dims && !size); /* each place of the border something of the input */
        if (shows && I_(in[3]) == REFLECT) shows = k >= dims || (low < size && high < size);
        if (shows && I_(in[3]) == WRAP) shows = k >= dims || (low <= size && high <= size && size + RUSH_MIN(low, 0) + RUSH_MIN(high, 0) > 0);
        RUSH_CHECK(shows, RUSH_RUNTIME_ERROR, "padding (%lld, %lld) does not fit dimension %d of the input %s", (long long)low, (long long)high, d, rush_shape_text(n, in[1].ints));
        RUSH_CHECK(SELF->size[d] == want, RUSH_RUNTIME_ERROR, "gradOutput size %lld unexpected at dimension %d. Expected: %lld", (long long)SELF->size[d], d,
                   (long long)want);
    }
    return rush_out_format(out, 0, I_(in[3]) == WRAP ? RUSH_CONTIGUOUS : rush_format_of(SELF), SELF, SELF->dtype, n, in[1].ints) ? 0 : -1;
}

static void backward_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    int dims = (int)in[2].n / 2;
    rush_tensor *to = out[0].t;
    rush_dtype d = SELF->dtype;
    bool is_complex = rush_dtype_is_complex(d);
    if (d != RUSH_F64 && d != RUSH_C128) d = is_complex ? RUSH_C64 : RUSH_F32; /* half types are added up in float */
    const bool last = to->ndim == dims + 2 && rush_lie_as_pixels(to, to);
    const rush_tensor *g = rush_cast_copy(last ? rush_pixels(SELF) : SELF, d);
    rush_tensor *into = last ? rush_pixels(to) : to;
    if (!g || !into) return;
    rush_tensor *sum = into->dtype == d && rush_contiguous(into) ? into : rush_tensor_new(d, to->device, to->ndim, into->size);
    const int64_t item = rush_dtypes[d].size * (last ? to->size[1] : 1);
    planes w = {.parts = (int)(last ? to->size[1] : 1) * (is_complex ? 2 : 1), .wide = d == RUSH_F64 || d == RUSH_C128};
    if (!sum || to->numel == 0) return;
    if (pad_plan(&w.plan, (int)I_(in[3]), to->size + to->ndim - dims, dims, in[2])) return;
    const rush_tables *tables = rush_tables_of[g->device.type];
    w.to = rush_ptr(sum);
    w.from = rush_ptr(g);
    w.in_bytes = volume(w.plan.in) * item;
    w.out_bytes = volume(w.plan.out) * item;
    if (RUSH_UNLIKELY(tables != NULL)) tables->pad(&w.plan, g, sum, true);
    else rush_parallel_for(to->numel * rush_dtypes[d].size / w.in_bytes, 1 + 65536 / w.in_bytes, backward_planes, &w);
    if (sum != into) rush_copy_into(into, sum);
}

static rush_tensor *padded(rush_tensor *t, rush_value pad, int mode)
{
    int dims = (int)pad.n / 2;
    if (mode == WRAP) return T("_pad_circular", V(t), pad);
    if (mode == REFLECT) return dims == 1 ? T("reflection_pad1d", V(t), pad) : dims == 2 ? T("reflection_pad2d", V(t), pad) : T("reflection_pad3d", V(t), pad);
    return dims == 1 ? T("replication_pad1d", V(t), pad) : dims == 2 ? T("replication_pad2d", V(t), pad) : T("replication_pad3d", V(t), pad);
}

static void backward_grad(rush_grads *s)
{
    if (s->g[0]) s->gin[0] = padded(s->g[0], s->in[2], (int)I_(s->in[3]));
}

static rush_op op_backward = {
    .schema = "_pad_backward(Tensor grad, SymInt[] input_sizes, SymInt[] padding, int mode) -> Tensor",
    .doc = "The gradient of a border added to what it shows.", .shape = backward_shape, .cpu = backward_cpu, .grad = backward_grad, .flags = RUSH_HIDDEN,
};

static int named_backward(const rush_value *in, rush_value *out, int mode)
{
    rush_tensor *g = T("contiguous", V(SELF), rush_v_memory_format(rush_format_of(in[1].t))); /* the gradient lies as the input */
    return rush_result(out, T("_pad_backward", V(g), rush_v_ints(in[1].t->size, in[1].t->ndim), in[2], V((int64_t)mode)));
}

static void named_backward_grad(rush_grads *s, int mode)
{
    if (s->g[0]) s->gin[0] = padded(s->g[0], s->in[2], mode);
    rush_no_curvature(s);
}

static void reflect_backward_grad(rush_grads *s) { named_backward_grad(s, REFLECT); }
static void replicate_backward_grad(rush_grads *s) { named_backward_grad(s, REPLICATE); }
static int reflect_backward_run(const rush_op *op, const rush_value *in, rush_value *out) { return named_backward(in, out, REFLECT); }
static int replicate_backward_run(const rush_op *op, const rush_value *in, rush_value *out) { return named_backward(in, out, REPLICATE); }

#define BACKWARD(id, name, way)                                                                             \
    static rush_op op_##id = {                                                                              \
        .schema = name " -> Tensor", .doc = "The derivative of the padding of that name.", .run = way##_backward_run, .grad = way##_backward_grad, .flags = RUSH_HIDDEN}
BACKWARD(reflect_1b, "reflection_pad1d_backward(Tensor grad_output, Tensor self, SymInt[2] padding)", reflect);
BACKWARD(reflect_2b, "reflection_pad2d_backward(Tensor grad_output, Tensor self, SymInt[4] padding)", reflect);
BACKWARD(reflect_3b, "reflection_pad3d_backward(Tensor grad_output, Tensor self, SymInt[6] padding)", reflect);
BACKWARD(replicate_1b, "replication_pad1d_backward(Tensor grad_output, Tensor self, SymInt[2] padding)", replicate);
BACKWARD(replicate_2b, "replication_pad2d_backward(Tensor grad_output, Tensor self, SymInt[4] padding)", replicate);
BACKWARD(replicate_3b, "replication_pad3d_backward(Tensor grad_output, Tensor self, SymInt[6] padding)", replicate);

/* ---- pad ---- */

static int pad_with(const rush_value *in, rush_value *out, const char *mode, rush_value value)
{
    int n = (int)in[1].n, ndim = SELF->ndim;
    RUSH_CHECK(n % 2 == 0, RUSH_RUNTIME_ERROR, "Padding length must be divisible by 2");
    RUSH_CHECK(n <= 2 * ndim, RUSH_RUNTIME_ERROR,
               "Padding length should be less than or equal to two times the input dimension but got padding length %d and input of dimension %d", n, ndim);
    if (!strcmp(mode, "constant")) return rush_result(out, T("constant_pad_nd", V(SELF), in[1], HAS(value) ? value : V((int64_t)0)));
    RUSH_CHECK(!HAS(value) || D_(value) == 0, RUSH_RUNTIME_ERROR, "Padding mode \"%s\" doesn't take in value argument", mode);
    int how = !strcmp(mode, "reflect") ? REFLECT : !strcmp(mode, "replicate") ? REPLICATE : !strcmp(mode, "circular") ? WRAP : -1;
    RUSH_CHECK(how >= 0, RUSH_NOT_IMPLEMENTED, "Unrecognised padding mode %s", mode);
    RUSH_CHECK((n == 2 && (ndim == 2 || ndim == 3)) || (n == 4 && (ndim == 3 || ndim == 4)) || (n == 6 && (ndim == 4 || ndim == 5)), RUSH_NOT_IMPLEMENTED,
               "Padding size %d is not supported for %dD input tensor.\nSupported combinations for non-constant padding:\n"
               "  - 2D or 3D input: padding size = 2 (pads last dimension)\n  - 3D or 4D input: padding size = 4 (pads last 2 dimensions)\n"
               "  - 4D or 5D input: padding size = 6 (pads last 3 dimensions)", n, ndim);
    return rush_result(out, padded(SELF, in[1], how));
}

static int pad_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return pad_with(in, out, in[2].s, in[3]);
}

static rush_op op_pad = {
    .schema = "pad(Tensor self, SymInt[] pad, str mode=\"constant\", float? value=None) -> Tensor", .method = RUSH_NN,
    .doc = "Borders by mode: constant, reflect, replicate or circular. pad has (before, after) of the last dimension first.", .run = pad_run,
};

static int pad_enum_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    static const char *const modes[] = {"reflect", "replicate", "circular", "constant"};
    RUSH_CHECK(I_(in[2]) >= 0 && I_(in[2]) < 4, RUSH_NOT_IMPLEMENTED, "Unrecognised padding mode %lld", (long long)I_(in[2]));
    return pad_with(in, out, modes[I_(in[2])], in[3]);
}

static rush_op op_pad_enum = {
    .schema = "_pad_enum(Tensor self, SymInt[] pad, int mode, float? value=None) -> Tensor", .method = RUSH_NN,
    .doc = "pad() by a mode's number.", .run = pad_enum_run, .flags = RUSH_HIDDEN,
};

RUSH_FAMILY(pad, &op_constant_pad, &op_reflect_1, &op_reflect_2, &op_reflect_3, &op_replicate_1, &op_replicate_2, &op_replicate_3, &op_wrap, &op_backward,
            &op_reflect_1b, &op_reflect_2b, &op_reflect_3b, &op_replicate_1b, &op_replicate_2b, &op_replicate_3b, &op_pad, &op_pad_enum)
