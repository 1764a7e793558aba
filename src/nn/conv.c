/* conv.c - convolution and pooling layers in one, two and three dimensions. */
#include "nn/module.h"

#include <math.h>

typedef struct conv_settings {
    const rush_op *op;
    int dims;
    bool transposed;
    int64_t stride[3], padding[3], dilation[3], output_padding[3], groups;
    int64_t around[6];        /* for pad(): last dimension first, before and after */
    const char *padding_mode; /* NULL: zeros, which the convolution pads itself    */
} conv_settings;

static int conv_forward(rush_module *m, int n, rush_tensor *const *in, rush_tensor **out)
{
    const conv_settings *s = m->data;
    rush_tensor *x = in[0];
    size_t k = (size_t)s->dims;
    static const int64_t none[3];
    if (s->padding_mode) {
        x = T("pad", V(x), rush_v_ints(s->around, 2 * k), V(s->padding_mode));
        if (!x) return -1;
    }
    rush_value stride = rush_v_ints(s->stride, k), padding = rush_v_ints(s->padding_mode ? none : s->padding, k), dilation = rush_v_ints(s->dilation, k);
    rush_value weight = V(rush_slot_at(m, 0)), bias = V(rush_slot_at(m, 1)), groups = V(s->groups);
    if (s->transposed) {
        const rush_value args[] = {V(x), weight, bias, stride, padding, rush_v_ints(s->output_padding, k), groups, dilation};
        out[0] = rush_apply(s->op, 8, args);
    } else {
        const rush_value args[] = {V(x), weight, bias, stride, padding, dilation, groups};
        out[0] = rush_apply(s->op, 7, args);
    }
    return out[0] ? 1 : -1;
}

static const rush_module_kind conv = {.name = "Conv", .size = sizeof(conv_settings), .forward = conv_forward};

/* A list of one entry counts for all dimensions; without a list it is `otherwise`. */
static int spread(int64_t *to, rush_ints from, int dims, int64_t otherwise)
{
    bool given = from.data && from.n;
    RUSH_CHECK(!given || from.n == 1 || from.n == (size_t)dims, RUSH_VALUE_ERROR, "one number, or one for each of %d dimensions, not %zu", dims, from.n);
    for (int d = 0; d < dims; d++) to[d] = !given ? otherwise : from.data[from.n == 1 ? 0 : d];
    return 0;
}

static const char *known_mode(const char *mode)
{
    static const char *const modes[] = {"reflect", "replicate", "circular"};
    for (size_t i = 0; i < RUSH_COUNT(modes); i++)
        if (!strcmp(mode, modes[i])) return modes[i];
    return NULL;
}

rush_module *rush_nn_conv_with(int dims, bool transposed, int64_t in, int64_t out, rush_ints kernel, const rush_nn_conv_options *o)
{
    RUSH_CHECK_NULL(kernel.data && kernel.n, RUSH_TYPE_ERROR, "conv: the kernel's size is missing");
    o = RUSH_OPTIONS(o);
    static const char *const ops[2][3] = {{"conv1d", "conv2d", "conv3d"},
                                          {"conv_transpose1d", "conv_transpose2d.input", "conv_transpose3d.input"}};
    RUSH_CHECK_NULL(dims >= 1 && dims <= 3, RUSH_VALUE_ERROR, "a convolution has 1 to 3 dimensions, not %d", dims);
    int64_t groups = o->groups ? o->groups : 1, size[5];
    RUSH_CHECK_NULL(groups > 0 && in % groups == 0 && out % groups == 0, RUSH_VALUE_ERROR, "%lld groups don't divide %lld channels into %lld",
                    (long long)groups, (long long)in, (long long)out);
    size[0] = transposed ? in : out;
    size[1] = (transposed ? out : in) / groups;
    if (spread(size + 2, kernel, dims, 1)) return NULL;
    rush_module *m = rush_module_new(&conv);
    conv_settings *s = rush_module_data(m);
    if (!s) return NULL;
    *s = (conv_settings){.op = rush_op_find(ops[transposed][dims - 1]), .dims = dims, .transposed = transposed, .groups = groups};
    RUSH_CHECK_NULL(s->op, RUSH_NOT_IMPLEMENTED, "there is no operation %s", ops[transposed][dims - 1]);
    if (spread(s->stride, o->stride, dims, 1) || spread(s->dilation, o->dilation, dims, 1) || spread(s->padding, o->padding, dims, 0) ||
        spread(s->output_padding, o->output_padding, dims, 0))
        return NULL;
    const char *mode = o->padding_mode && strcmp(o->padding_mode, "zeros") ? o->padding_mode : NULL;
    RUSH_CHECK_NULL(!mode || (known_mode(mode) && !transposed), RUSH_VALUE_ERROR, "padding_mode '%s' is not known%s", mode,
                    transposed ? " to transposed convolutions" : "");
    int64_t fan = size[1];
    bool uneven = false;
    for (int d = 0; d < dims; d++) {
        int64_t span = o->same ? rush_size_times(s->dilation[d], size[2 + d] - 1) : 0, before = o->same ? span / 2 : s->padding[d], after = o->same ? span - before : before;
        RUSH_CHECK_NULL(!o->same || (s->stride[d] == 1 && !transposed), RUSH_VALUE_ERROR, "padding that keeps the size needs stride 1");
        s->padding[d] = before;
        uneven |= before != after;
        s->around[2 * (dims - 1 - d)] = before;
        s->around[2 * (dims - 1 - d) + 1] = after;
        fan = rush_size_times(fan, size[2 + d]);
    }
    if (rush_failed()) return NULL;
    s->padding_mode = mode ? known_mode(mode) : uneven ? "constant" : NULL;
    rush_tensor *w = rush_weight_new(2 + dims, size), *b = o->no_bias ? NULL : rush_weight_new(1, &out);
    rush_init_kaiming_uniform(w, sqrt(5), false);
    if (b) rush_init_fan(b, fan);
    rush_module_parameter(m, "weight", w);
    rush_module_parameter(m, "bias", b);
    return rush_failed() ? NULL : m;
}

/* ---- pooling: operations with fixed arguments ---- */

static rush_module *pool(const char *const *names, int dims, rush_ints window, const rush_nn_pool_options *o, bool max)
{
    int64_t w[3], stride[3], padding[3], dilation[3];
    RUSH_CHECK_NULL(dims >= 1 && dims <= 3, RUSH_VALUE_ERROR, "pooling has 1 to 3 dimensions, not %d", dims);
    RUSH_CHECK_NULL(window.data && window.n, RUSH_TYPE_ERROR, "pooling: the window's size is missing");
    o = RUSH_OPTIONS(o);
    if (spread(w, window, dims, 1) || spread(padding, o->padding, dims, 0) || spread(dilation, o->dilation, dims, 1) ||
        spread(stride, o->stride.data ? o->stride : window, dims, 1))
        return NULL;
    size_t k = (size_t)dims;
    rush_value args[6] = {rush_v_ints(w, k), rush_v_ints(stride, k), rush_v_ints(padding, k)};
    if (max) {
        args[3] = rush_v_ints(dilation, k);
        args[4] = rush_v_bool(o->ceil_mode);
    } else {
        args[3] = rush_v_bool(o->ceil_mode);
        args[4] = rush_v_bool(!o->exclude_padding);
    }
    return rush_nn_call(names[dims - 1], 5, args);
}

rush_module *rush_nn_max_pool_with(int dims, rush_ints window, const rush_nn_pool_options *o)
{
    return pool((const char *[]){"max_pool1d", "max_pool2d", "max_pool3d"}, dims, window, o, true);
}

rush_module *rush_nn_avg_pool_with(int dims, rush_ints window, const rush_nn_pool_options *o)
{
    return pool((const char *[]){"avg_pool1d", "avg_pool2d", "avg_pool3d"}, dims, window, o, false);
}

static rush_module *adaptive(const char *const *names, int dims, rush_ints size)
{
    RUSH_CHECK_NULL(size.data && size.n, RUSH_TYPE_ERROR, "adaptive pooling needs sizes");
    RUSH_CHECK_NULL(dims >= 1 && dims <= 3, RUSH_VALUE_ERROR, "pooling has 1 to 3 dimensions, not %d", dims);
    int64_t s[3];
    if (spread(s, size, dims, 1)) return NULL;
    return rush_nn_call(names[dims - 1], 1, (rush_value[]){rush_v_ints(s, (size_t)dims)});
}

rush_module *rush_nn_adaptive_avg_pool(int dims, rush_ints size)
{
    return adaptive((const char *[]){"adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d"}, dims, size);
}

/* The maximum's operations give indices too; the first result is the module's. */
rush_module *rush_nn_adaptive_max_pool(int dims, rush_ints size)
{
    return adaptive((const char *[]){"adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d"}, dims, size);
}
