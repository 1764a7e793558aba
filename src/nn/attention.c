/* attention.c - multi-head attention and the transformer's layers. Vaswani et al., Attention is all you need, 2017. */
#include "nn/module.h"

#include <math.h>

typedef struct attention_settings {
    int64_t features, heads;
    rush_nn_attention_options o;
    bool packed; /* one weight for query, key and value */
} attention_settings;

/* Own tensors: packed 0 in_proj_weight, 1 in_proj_bias; else 0 q, 1 k, 2 v weights, 3 in_proj_bias. Child 0: out_proj. */

/* Rows [i * features, (i+1) * features) of the input projection, applied to x (its own weight, or part of the packed). */
static rush_tensor *project(rush_module *m, rush_tensor *x, int i)
{
    const attention_settings *s = m->data;
    int64_t e = s->features;
    rush_tensor *w = rush_slot_at(m, s->packed ? 0 : i), *b = rush_slot_at(m, s->packed ? 1 : 3);
    if (s->packed) w = T("narrow", V(w), V(0), V(i * e), V(e));
    if (b) b = T("narrow", V(b), V(0), V(i * e), V(e));
    return T("linear", V(x), V(w), V(b));
}

/* (batch, length, features) to (batch, heads, length, features / heads) */
static rush_tensor *split(const attention_settings *s, rush_tensor *x)
{
    if (!x) return NULL;
    rush_tensor *parts = T("unflatten.int", V(x), V(2), INTS(s->heads, s->features / s->heads));
    return T("transpose.int", V(parts), V(1), V(2));
}

static int attention_forward(rush_module *m, int n, rush_tensor *const *in, rush_tensor **out)
{
    const attention_settings *s = m->data;
    rush_tensor *q = in[0], *k = n > 1 && in[1] ? in[1] : q, *v = n > 2 && in[2] ? in[2] : k, *mask = n > 3 ? in[3] : NULL;
    RUSH_CHECK(q->ndim == k->ndim && k->ndim == v->ndim && (q->ndim == 2 || q->ndim == 3), RUSH_RUNTIME_ERROR,
               "attention takes tensors of 2 or 3 dimensions, got %s, %s and %s", rush_shape_of(q), rush_shape_of(k), rush_shape_of(v));
    bool alone = q->ndim == 2;
    rush_tensor *x[3] = {q, k, v}, *heads[3];
    for (int i = 0; i < 3; i++) {
        if (alone) x[i] = T("unsqueeze", V(x[i]), V(0));
        else if (!s->o.batch_first) x[i] = T("transpose.int", V(x[i]), V(0), V(1));
        if (!x[i] || !(heads[i] = split(s, project(m, x[i], i)))) return -1;
    }
    if (mask && mask->dtype == RUSH_BOOL) mask = T("logical_not", V(mask)); /* here true forbids, in the operation it allows */
    if (mask && mask->ndim == 3) { /* (batch * heads, length, length) */
        mask = T("unflatten.int", V(mask), V(0), INTS(-1, s->heads));
    }
    double p = m->training ? s->o.dropout : 0;
    rush_tensor *y = T("scaled_dot_product_attention", V(heads[0]), V(heads[1]), V(heads[2]), V(mask), V(p), V((bool)(s->o.causal && !mask)));
    y = y ? T("flatten.using_ints", V(T("transpose.int", V(y), V(1), V(2))), V(2)) : NULL;
    y = y ? rush_forward(rush_child_at(m, 0), y) : NULL;
    if (y && alone) y = T("squeeze.dim", V(y), V(0));
    else if (y && !s->o.batch_first) y = T("transpose.int", V(y), V(0), V(1));
    out[0] = y;
    return y ? 1 : -1;
}

static const rush_module_kind attention = {.name = "MultiheadAttention", .size = sizeof(attention_settings), .forward = attention_forward};

rush_module *rush_nn_attention_with(int64_t features, int64_t heads, const rush_nn_attention_options *o)
{
    o = RUSH_OPTIONS(o);
    RUSH_CHECK_NULL(heads > 0 && features % heads == 0, RUSH_VALUE_ERROR, "embed_dim must be divisible by num_heads");
    RUSH_CHECK_NULL(features <= INT64_MAX / 3, RUSH_VALUE_ERROR, "%lld features are too many", (long long)features);
    rush_module *m = rush_module_new(&attention);
    attention_settings *s = rush_module_data(m);
    if (!s) return NULL;
    int64_t k = o->kdim ? o->kdim : features, v = o->vdim ? o->vdim : features, three = 3 * features;
    *s = (attention_settings){features, heads, *o, k == features && v == features};
    /* the projection of the result draws its numbers first, as in PyTorch */
    rush_module *result = rush_nn_linear(features, features, .no_bias = o->no_bias);
    if (s->packed) {
        rush_module_parameter(m, "in_proj_weight", rush_init_xavier_uniform(rush_weight_new(2, (const int64_t[]){three, features}), 1));
    } else {
        rush_module_parameter(m, "q_proj_weight", rush_init_xavier_uniform(rush_weight_new(2, (const int64_t[]){features, features}), 1));
        rush_module_parameter(m, "k_proj_weight", rush_init_xavier_uniform(rush_weight_new(2, (const int64_t[]){features, k}), 1));
        rush_module_parameter(m, "v_proj_weight", rush_init_xavier_uniform(rush_weight_new(2, (const int64_t[]){features, v}), 1));
    }
    rush_module_parameter(m, "in_proj_bias", o->no_bias ? NULL : rush_init_constant(rush_weight_new(1, &three), 0));
    if (result && !o->no_bias) rush_init_constant(rush_slot_at(result, 1), 0);
    rush_module_add(m, "out_proj", result);
    return rush_failed() ? NULL : m;
}

/* ---- the transformer's layers ---- */

typedef struct transformer_settings {
    double p;
    bool gelu, norm_first, decoder;
} transformer_settings;

static rush_tensor *drop_out(rush_module *m, rush_tensor *x)
{
    const transformer_settings *s = m->data;
    return x ? T("dropout", V(x), V(s->p), V(m->training)) : NULL;
}

/* x plus dropout(part(norm(x))), or norm(x + dropout(part(x))) */
static rush_tensor *attend(rush_module *m, rush_module *part, rush_module *norm, rush_tensor *x, rush_tensor *memory, rush_tensor *mask)
{
    const transformer_settings *s = m->data;
    rush_tensor *q = s->norm_first ? rush_forward(norm, x) : x, *kv = memory ? memory : q, *in[4] = {q, kv, kv, mask}, *y[8] = {NULL};
    if (!q || rush_forward_all(part, 4, in, y) < 0) return NULL;
    rush_tensor *sum = T("add.Tensor", V(x), V(drop_out(m, y[0])));
    return s->norm_first || !sum ? sum : rush_forward(norm, sum);
}

static rush_tensor *feed_forward(rush_module *m, rush_module *first, rush_module *second, rush_module *norm, rush_tensor *x)
{
    const transformer_settings *s = m->data;
    rush_tensor *h = s->norm_first ? rush_forward(norm, x) : x;
    h = h ? rush_forward(first, h) : NULL;
    if (h) h = s->gelu ? T("gelu", V(h)) : T("relu", V(h));
    h = h ? rush_forward(second, drop_out(m, h)) : NULL;
    rush_tensor *sum = h ? T("add.Tensor", V(x), V(drop_out(m, h))) : NULL;
    return s->norm_first || !sum ? sum : rush_forward(norm, sum);
}

/* Children of an encoder layer: 0 self_attn, 1 linear1, 2 linear2, 3 norm1, 4 norm2. Inputs: x, mask. */
static int encoder_forward(rush_module *m, int n, rush_tensor *const *in, rush_tensor **out)
{
    rush_tensor *x = attend(m, rush_child_at(m, 0), rush_child_at(m, 3), in[0], NULL, n > 1 ? in[1] : NULL);
    out[0] = x ? feed_forward(m, rush_child_at(m, 1), rush_child_at(m, 2), rush_child_at(m, 4), x) : NULL;
    return out[0] ? 1 : -1;
}

/* Of a decoder layer: 0 self_attn, 1 multihead_attn, 2 linear1, 3 linear2, 4 to 6 norms. Inputs: x, memory, mask, memory mask. */
static int decoder_forward(rush_module *m, int n, rush_tensor *const *in, rush_tensor **out)
{
    RUSH_CHECK(n > 1 && in[1], RUSH_TYPE_ERROR, "TransformerDecoderLayer needs a memory to attend to");
    rush_tensor *x = attend(m, rush_child_at(m, 0), rush_child_at(m, 4), in[0], NULL, n > 2 ? in[2] : NULL);
    x = x ? attend(m, rush_child_at(m, 1), rush_child_at(m, 5), x, in[1], n > 3 ? in[3] : NULL) : NULL;
    out[0] = x ? feed_forward(m, rush_child_at(m, 2), rush_child_at(m, 3), rush_child_at(m, 6), x) : NULL;
    return out[0] ? 1 : -1;
}

static const rush_module_kind encoder = {.name = "TransformerEncoderLayer", .size = sizeof(transformer_settings), .forward = encoder_forward};
static const rush_module_kind decoder = {.name = "TransformerDecoderLayer", .size = sizeof(transformer_settings), .forward = decoder_forward};

static rush_module *transformer(const rush_module_kind *kind, int64_t features, int64_t heads, const rush_nn_transformer_options *o)
{
    double p = RUSH_OPTION(o, dropout, 0.1);
    RUSH_CHECK_NULL(p >= 0 && p <= 1, RUSH_VALUE_ERROR, "dropout probability has to be between 0 and 1, but got %g", p);
    rush_module *m = rush_module_new(kind);
    transformer_settings *s = rush_module_data(m);
    if (!s) return NULL;
    int64_t wide = o->feedforward ? o->feedforward : 2048;
    bool two = kind == &decoder;
    *s = (transformer_settings){p, o->gelu, o->norm_first, two};
    rush_module_add(m, "self_attn", rush_nn_attention(features, heads, .dropout = p, .batch_first = o->batch_first, .causal = o->causal));
    if (two) rush_module_add(m, "multihead_attn", rush_nn_attention(features, heads, .dropout = p, .batch_first = o->batch_first));
    rush_module_add(m, "linear1", rush_nn_linear(features, wide));
    rush_module_add(m, "linear2", rush_nn_linear(wide, features));
    static const char *const norms[] = {"norm1", "norm2", "norm3"};
    for (int i = 0; i < 2 + two; i++) rush_module_add(m, norms[i], rush_nn_layer_norm(features, .eps = RUSH_OPTION(o, eps, RUSH_DEFAULT)));
    return rush_failed() ? NULL : m;
}

rush_module *rush_nn_encoder_layer_with(int64_t features, int64_t heads, const rush_nn_transformer_options *o)
{
    o = RUSH_OPTIONS(o);
    return transformer(&encoder, features, heads, o);
}

rush_module *rush_nn_decoder_layer_with(int64_t features, int64_t heads, const rush_nn_transformer_options *o)
{
    o = RUSH_OPTIONS(o);
    return transformer(&decoder, features, heads, o);
}
