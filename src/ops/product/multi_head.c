/* multi_head.c - a whole layer of attention in one call: what PyTorch's modules call, and its traces hold, in evaluation without gradients. */
#include "op/formula.h"
#include <math.h>

/* (batch, length, heads * size) as (batch, heads, length, size) */
static rush_tensor *by_heads(rush_tensor *t, int64_t heads)
{
    return t ? transpose(T("view", V(t), INTS(t->size[0], t->size[1], heads, t->size[2] / heads)), 1, 2) : NULL;
}

static int parts_of(rush_tensor *qkv, rush_tensor *bias, int64_t heads, rush_tensor **part)
{
    int64_t width = qkv->size[2] / 3;
    RUSH_CHECK(heads > 0 && qkv->size[2] % 3 == 0 && width % heads == 0, RUSH_RUNTIME_ERROR, "%lld heads do not divide the %lld features of queries, keys and values",
               (long long)heads, (long long)qkv->size[2]);
    RUSH_CHECK(bias->ndim == 1 && bias->size[0] == qkv->size[2], RUSH_RUNTIME_ERROR, "the bias %s is not one of %lld features", rush_shape_of(bias), (long long)qkv->size[2]);
    qkv = add(qkv, bias);
    for (int i = 0; i < 3; ++i) part[i] = by_heads(T("narrow", V(qkv), V(2), V(i * width), V(width)), heads);
    part[0] = mul(part[0], 1 / sqrt((double)RUSH_MAX(width / heads, 1)));
    return rush_failed() ? -1 : 0;
}

/* in: qkv, qkv_bias, num_heads */
static int transform_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *part[3];
    RUSH_CHECK(in[0].t->ndim == 3, RUSH_INDEX_ERROR, "Dimension out of range (expected to be in range of [%d, %d], but got 2)", -in[0].t->ndim, in[0].t->ndim - 1);
    if (parts_of(in[0].t, in[1].t, in[2].i, part)) return -1;
    for (int i = 0; i < 3; ++i) out[i] = rush_v_tensor(rush_laid_plain(part[i]));
    return rush_failed() ? -1 : 0;
}

static rush_op op_transform = {
    .schema = "_transform_bias_rescale_qkv(Tensor qkv, Tensor qkv_bias, int num_heads) -> (Tensor, Tensor, Tensor)",
    .doc = "Queries divided by the root of their size, keys and values, each (batch, heads, length, size), out of their projections (batch, length, 3 * heads * size) and its bias.",
    .run = transform_run, .flags = RUSH_HIDDEN,
};

/* in: query, key, value, embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, need_weights, average_attn_weights, mask_type */
static int check(const rush_value *in)
{
    static const char *const names[] = {"query", "key", "value"};
    const rush_tensor *q = in[0].t, *weight = in[5].t;
    int64_t width = in[3].i, heads = in[4].i;
    for (int i = 0; i < 3; ++i) RUSH_CHECK(in[i].t->ndim == 3, RUSH_RUNTIME_ERROR, "expected 3-D `%s`, got %d-D tensor", names[i], in[i].t->ndim);
    RUSH_CHECK(q->size[2] == width, RUSH_RUNTIME_ERROR, "passed-in embed_dim %lld didn't match last dim of query %lld", (long long)width, (long long)q->size[2]);
    RUSH_CHECK(rush_same_sizes(q, in[1].t) && rush_same_sizes(q, in[2].t), RUSH_RUNTIME_ERROR, "expected `query`/`key`/`value` shapes to match");
    RUSH_CHECK(weight->ndim == 2, RUSH_RUNTIME_ERROR, "expected 2-D `qkv_weight`, got %d-D tensor", weight->ndim);
    RUSH_CHECK(weight->size[0] == 3 * width, RUSH_RUNTIME_ERROR, "expected `qkv_weight` first dim to be 3x embed_dim");
    RUSH_CHECK(weight->size[1] == width, RUSH_RUNTIME_ERROR, "expected `qkv_weight` second dim to be embed_dim");
    RUSH_CHECK(in[6].t->ndim == 1, RUSH_RUNTIME_ERROR, "expected 1-D `qkv_bias`, got %d-D tensor", in[6].t->ndim);
    RUSH_CHECK(in[6].t->size[0] == 3 * width, RUSH_RUNTIME_ERROR, "expected `qkv_bias` first dim and first dim of query to be equal");
    RUSH_CHECK(heads > 0 && width % heads == 0, RUSH_RUNTIME_ERROR, "`embed_dim` must divide evenly by `num_heads`");
    return 0;
}

/* Projections of query, key and value: one product where they are the same tensor. */
static rush_tensor *projected(const rush_value *in)
{
    rush_tensor *weight = in[5].t, *each[3], *part[3];
    if (in[0].t == in[1].t && in[0].t == in[2].t) return T("linear", V(in[0].t), V(weight));
    for (int i = 0; i < 3; ++i) {
        part[i] = T("narrow", V(weight), V(0), V(i * in[3].i), V(in[3].i));
        each[i] = T("linear", V(in[i].t), V(part[i]));
    }
    return T("cat", rush_v_tensors(each, 3), V(2));
}

static int heads_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *mask = T_(in[9]), *part[3], *weights = NULL, *y;
    if (check(in)) return -1;
    const rush_tensor *q = in[0].t;
    out[0] = out[1] = RUSH_NONE;
    if (!q->numel) return rush_result(out, T("empty_like", V(in[0].t)));
    rush_tensor *qkv = projected(in);
    if (!qkv || parts_of(qkv, in[6].t, in[4].i, part)) return -1;
    if (!mask && !in[10].i) y = T("scaled_dot_product_attention", V(part[0]), V(part[1]), V(part[2]), RUSH_NONE, V(0.0), V(false), V(1.0));
    else {
        rush_tensor *scores = matmul(part[0], transpose(part[1], 2, 3));
        if (mask) weights = T("_masked_softmax", V(scores), V(to_dtype(mask, RUSH_BOOL)), V(3), in[12]);
        else weights = T("softmax.int", V(scores), V(3));
        y = matmul(weights, part[2]);
    }
    y = y ? T("reshape", V(transpose(y, 1, 2)), rush_v_ints(q->size, 3)) : NULL;
    out[0] = rush_v_tensor(T("linear", V(y), in[7], in[8]));
    if (in[10].i) out[1] = rush_v_tensor(in[11].i ? T("mean.dim", V(weights), INTS(1)) : weights);
    return rush_failed() ? -1 : 0;
}

static rush_op op_heads = {
    .schema = "_native_multi_head_attention(Tensor query, Tensor key, Tensor value, int embed_dim, int num_head, Tensor qkv_weight, Tensor qkv_bias, Tensor proj_weight, "
              "Tensor proj_bias, Tensor? mask=None, bool need_weights=True, bool average_attn_weights=True, int? mask_type=None) -> (Tensor, Tensor)",
    .doc = "Attention with several heads and its projections, all (batch, length, embed_dim), and its weights or None. Where mask is not 0 nothing is looked at; mask_type 0: "
           "(length, length), 1: (batch, length), 2: (batch, heads, length, length).",
    .run = heads_run, .flags = RUSH_HIDDEN,
};

static rush_tensor *normed(rush_tensor *x, rush_value weight, rush_value bias, rush_value eps)
{
    return x ? T("layer_norm", V(x), INTS(x->size[2]), weight, bias, eps, V(true)) : NULL;
}

/* in: src, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, use_gelu, norm_first, eps, norm_weight_1, norm_bias_1, norm_weight_2, norm_bias_2,
 * ffn_weight_1, ffn_bias_1, ffn_weight_2, ffn_bias_2, mask, mask_type */
static int encoder_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *src = in[0].t, *x = src;
    bool first = in[8].i;
    rush_value got[RUSH_MAXOUT];
    RUSH_CHECK(src->ndim == 3, RUSH_RUNTIME_ERROR, "expected 3-D `query`, got %d-D tensor", src->ndim);
    if (first && !(x = normed(x, in[10], in[11], in[9]))) return -1;
    if (TN(got, "_native_multi_head_attention", V(x), V(x), V(x), in[1], in[2], in[3], in[4], in[5], in[6], in[18], V(false), V(true), in[19])) return -1;
    x = add(got[0].t, src);
    if (!first) x = normed(x, in[10], in[11], in[9]);
    rush_tensor *y = T("linear", V(first ? normed(x, in[12], in[13], in[9]) : x), in[14], in[15]);
    x = add(T("linear", V(in[7].i ? T("gelu", V(y)) : T("relu", V(y))), in[16], in[17]), x);
    return rush_result(out, first ? x : normed(x, in[12], in[13], in[9]));
}

static rush_op op_encoder = {
    .schema = "_transformer_encoder_layer_fwd(Tensor src, int embed_dim, int num_heads, Tensor qkv_weight, Tensor qkv_bias, Tensor proj_weight, Tensor proj_bias, bool use_gelu, "
              "bool norm_first, float eps, Tensor norm_weight_1, Tensor norm_bias_1, Tensor norm_weight_2, Tensor norm_bias_2, Tensor ffn_weight_1, Tensor ffn_bias_1, "
              "Tensor ffn_weight_2, Tensor ffn_bias_2, Tensor? mask=None, int? mask_type=None) -> Tensor",
    .doc = "A layer of a transformer's encoder on src (batch, length, embed_dim), without dropout; mask as in _native_multi_head_attention.",
    .run = encoder_run, .flags = RUSH_HIDDEN,
};

RUSH_FAMILY(multi_head, &op_transform, &op_heads, &op_encoder)
