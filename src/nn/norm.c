/* norm.c - normalising layers. */
#include "nn/module.h"

typedef struct norm_settings {
    double eps, momentum;
    int64_t groups;
    int ndim;
    int64_t shape[8];
    bool has_eps;
} norm_settings;

/* Own tensors of all kinds here: 0 weight, 1 bias; batch and instance norm: 2 mean, 3 variance, 4 count of batches. */

static double rate(rush_module *m)
{
    const norm_settings *s = m->data;
    rush_tensor *count = rush_slot_at(m, 4);
    if (!m->training || !count) return s->momentum;
    int64_t *n = rush_ptr(count);
    ++*n;
    rush_version_bump(count);
    return s->momentum < 0 ? 1 / (double)*n : s->momentum;
}

static int batch_forward(rush_module *m, int n, rush_tensor *const *in, rush_tensor **out)
{
    const norm_settings *s = m->data;
    double momentum = rate(m);
    bool use_input = m->training || !rush_slot_at(m, 2);
    out[0] = T("batch_norm", V(in[0]), V(rush_slot_at(m, 0)), V(rush_slot_at(m, 1)), V(rush_slot_at(m, 2)), V(rush_slot_at(m, 3)), V(use_input),
               V(momentum), V(s->eps), V(false));
    return out[0] ? 1 : -1;
}

static int instance_forward(rush_module *m, int n, rush_tensor *const *in, rush_tensor **out)
{
    const norm_settings *s = m->data;
    double momentum = rate(m);
    bool use_input = m->training || !rush_slot_at(m, 2);
    out[0] = T("instance_norm", V(in[0]), V(rush_slot_at(m, 0)), V(rush_slot_at(m, 1)), V(rush_slot_at(m, 2)), V(rush_slot_at(m, 3)), V(use_input),
               V(momentum), V(s->eps), V(false));
    return out[0] ? 1 : -1;
}

static int group_forward(rush_module *m, int n, rush_tensor *const *in, rush_tensor **out)
{
    const norm_settings *s = m->data;
    out[0] = T("group_norm", V(in[0]), V(s->groups), V(rush_slot_at(m, 0)), V(rush_slot_at(m, 1)), V(s->eps));
    return out[0] ? 1 : -1;
}

static int layer_forward(rush_module *m, int n, rush_tensor *const *in, rush_tensor **out)
{
    const norm_settings *s = m->data;
    out[0] = T("layer_norm", V(in[0]), rush_v_ints(s->shape, (size_t)s->ndim), V(rush_slot_at(m, 0)), V(rush_slot_at(m, 1)), V(s->eps));
    return out[0] ? 1 : -1;
}

static int rms_forward(rush_module *m, int n, rush_tensor *const *in, rush_tensor **out)
{
    const norm_settings *s = m->data;
    rush_value eps = s->has_eps ? V(s->eps) : RUSH_NONE;
    out[0] = T("rms_norm", V(in[0]), rush_v_ints(s->shape, (size_t)s->ndim), V(rush_slot_at(m, 0)), eps);
    return out[0] ? 1 : -1;
}

static const rush_module_kind batch = {.name = "BatchNorm", .size = sizeof(norm_settings), .forward = batch_forward};
static const rush_module_kind instance = {.name = "InstanceNorm", .size = sizeof(norm_settings), .forward = instance_forward};
static const rush_module_kind group = {.name = "GroupNorm", .size = sizeof(norm_settings), .forward = group_forward};
static const rush_module_kind layer = {.name = "LayerNorm", .size = sizeof(norm_settings), .forward = layer_forward};
static const rush_module_kind rms = {.name = "RMSNorm", .size = sizeof(norm_settings), .forward = rms_forward};

static rush_module *norm(const rush_module_kind *kind, rush_ints shape, bool affine, bool bias, const rush_nn_norm_options *o)
{
    RUSH_CHECK_NULL(shape.n <= 8, RUSH_VALUE_ERROR, "a norm over %zu dimensions", shape.n);
    rush_module *m = rush_module_new(kind);
    norm_settings *s = rush_module_data(m);
    if (!s) return NULL;
    double eps = RUSH_OPTION(o, eps, RUSH_DEFAULT);
    s->has_eps = eps != RUSH_DEFAULT;
    s->eps = s->has_eps ? eps : 1e-5;
    s->momentum = RUSH_OPTION(o, momentum, 0.1);
    s->ndim = (int)shape.n;
    if (shape.n) memcpy(s->shape, shape.data, shape.n * sizeof *s->shape);
    rush_tensor *w = affine ? rush_init_constant(rush_weight_new(s->ndim, s->shape), 1) : NULL;
    rush_tensor *b = affine && bias ? rush_init_constant(rush_weight_new(s->ndim, s->shape), 0) : NULL;
    rush_module_parameter(m, "weight", w);
    if (kind != &rms) rush_module_parameter(m, "bias", b);
    return rush_failed() ? NULL : m;
}

static rush_module *tracking(rush_module *m, int64_t features, bool track)
{
    rush_tensor *count = track ? rush_tensor_new(RUSH_I64, (rush_device){RUSH_CPU, -1}, 0, NULL) : NULL;
    if (track && count) *(int64_t *)rush_ptr(count) = 0;
    rush_module_buffer(m, "running_mean", track ? rush_init_constant(rush_weight_new(1, &features), 0) : NULL, true);
    rush_module_buffer(m, "running_var", track ? rush_init_constant(rush_weight_new(1, &features), 1) : NULL, true);
    rush_module_buffer(m, "num_batches_tracked", count, true);
    return rush_failed() ? NULL : m;
}

rush_module *rush_nn_batch_norm_with(int64_t features, const rush_nn_norm_options *o)
{
    o = RUSH_OPTIONS(o);
    return tracking(norm(&batch, (rush_ints){&features, 1}, !o->no_affine, !o->no_bias, o), features, !o->no_track);
}

rush_module *rush_nn_instance_norm_with(int64_t features, const rush_nn_norm_options *o)
{
    o = RUSH_OPTIONS(o);
    return tracking(norm(&instance, (rush_ints){&features, 1}, o->affine, !o->no_bias, o), features, o->track);
}

rush_module *rush_nn_group_norm_with(int64_t groups, int64_t channels, const rush_nn_norm_options *o)
{
    o = RUSH_OPTIONS(o);
    RUSH_CHECK_NULL(groups > 0 && channels % groups == 0, RUSH_VALUE_ERROR, "num_channels must be divisible by num_groups");
    rush_module *m = norm(&group, (rush_ints){&channels, 1}, !o->no_affine, !o->no_bias, o);
    if (m) ((norm_settings *)m->data)->groups = groups;
    return m;
}

rush_module *rush_nn_layer_norm_with(rush_ints shape, const rush_nn_norm_options *o)
{
    RUSH_CHECK_NULL(shape.data || !shape.n, RUSH_TYPE_ERROR, "layer_norm: the shape is missing (NULL)");
    o = RUSH_OPTIONS(o);
    return norm(&layer, shape, !o->no_affine, !o->no_bias, o);
}

rush_module *rush_nn_rms_norm_with(rush_ints shape, const rush_nn_norm_options *o)
{
    RUSH_CHECK_NULL(shape.data || !shape.n, RUSH_TYPE_ERROR, "rms_norm: the shape is missing (NULL)");
    o = RUSH_OPTIONS(o);
    return norm(&rms, shape, !o->no_affine, false, o);
}
