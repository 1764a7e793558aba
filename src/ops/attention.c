/* attention.c - scaled dot product attention, by blocks of queries.
 *
 * A block of queries meets all its keys in a buffer of BLOCK rows per thread, so memory grows with the length, not
 * with its square; the way back computes the weights again from the saved logarithms of their sums. After Dao et
 * al., "FlashAttention" (2022). Where a mask wants a gradient, with dropout, and for second derivatives the same is
 * done by operations, in full.
 */
#include "kernels/cpu/attention.h"
#include "kernels/cpu/gemm.h"
#include "op/formula.h"
#include <math.h>

enum { BLOCK = 64 };

/* One call, all tensors (B, H, length, size) of any strides; key and value may have fewer heads (grouped). */
typedef struct attention {
    rush_tensor *q, *k, *v, *mask, *out, *lse;           /* lse (B, H, L) contiguous */
    rush_tensor *g, *dq, *dk, *dv;                       /* of the way back */
    bool causal, mask_is_bool;
    double scale;
    int64_t heads, group, l, s, e, ev;
    int type; /* 0 float, 1 double */
    size_t item;
    atomic_bool failed;
} attention;

static char *at4(const rush_tensor *t, int64_t b, int64_t h, int64_t row)
{
    return (char *)rush_ptr(t) + (b * t->stride[0] + h * t->stride[1] + row * t->stride[2]) * rush_dtypes[t->dtype].size;
}

static void product(const attention *a, int64_t m, int64_t n, int64_t k, const void *x, int64_t xm, int64_t xk, const void *y, int64_t yk, int64_t yn,
                    void *c, int64_t cm, double alpha, double beta)
{
    rush_gemm p = {.m = m, .n = n, .k = k, .a = x, .b = y, .c = c, .am = xm, .ak = xk, .bk = yk, .bn = yn, .cm = cm, .cn = 1, .alpha = alpha, .beta = beta};
    if (a->type) rush_k_gemm->f64(&p);
    else rush_k_gemm->f32(&p);
}

static int64_t keys_of(const attention *a, int64_t first, int64_t rows) { return a->causal ? RUSH_MIN(a->s, first + rows) : a->s; }

/* The masked scores of `rows` queries from `first` on into s (rows, n). */
static void scores(const attention *a, int64_t b, int64_t h, int64_t first, int64_t rows, int64_t n, void *s)
{
    int64_t kv = h / a->group;
    product(a, rows, n, a->e, at4(a->q, b, h, first), a->q->stride[2], a->q->stride[3], at4(a->k, b, kv, 0), a->k->stride[3], a->k->stride[2], s, n,
            a->scale, 0);
    const char *mask = a->mask ? at4(a->mask, b, h, first) : NULL;
    size_t item = a->mask ? rush_dtypes[a->mask->dtype].size : 0;
    if (mask || a->causal)
        rush_k_attention->mask[a->type](s, rows, n, n, mask, a->mask_is_bool, mask ? a->mask->stride[2] * (int64_t)item : 0,
                                        mask ? a->mask->stride[3] * (int64_t)item : 0, a->causal, first);
}

static void forward_blocks(void *arg, int64_t begin, int64_t end)
{
    attention *a = arg;
    int64_t blocks = (a->l + BLOCK - 1) / BLOCK;
    char *s = malloc((size_t)BLOCK * RUSH_MAX(a->s, 1) * a->item);
    if (!s) {
        a->failed = true;
        return;
    }
    for (int64_t i = begin; i < end; ++i) {
        int64_t b = i / blocks / a->heads, h = i / blocks % a->heads, first = i % blocks * BLOCK, rows = RUSH_MIN(BLOCK, a->l - first);
        int64_t n = keys_of(a, first, rows), kv = h / a->group;
        scores(a, b, h, first, rows, n, s);
        rush_k_attention->softmax[a->type](s, rows, n, n, (char *)rush_ptr(a->lse) + ((b * a->heads + h) * a->l + first) * a->item);
        product(a, rows, a->ev, n, s, n, 1, at4(a->v, b, kv, 0), a->v->stride[2], a->v->stride[3], at4(a->out, b, h, first), a->out->stride[2], 1, 0);
    }
    free(s);
}

/* One head of keys at a time, with all the query heads that share it, so that sums have one order. */
static void backward_heads(void *arg, int64_t begin, int64_t end)
{
    attention *a = arg;
    int64_t kv_heads = a->heads / a->group;
    char *p = malloc((size_t)BLOCK * RUSH_MAX(a->s, 1) * a->item * 2), *delta = malloc(BLOCK * a->item);
    if (!p || !delta) {
        a->failed = true;
        free(p);
        free(delta);
        return;
    }
    char *dp = p + (size_t)BLOCK * a->s * a->item;
    for (int64_t i = begin; i < end; ++i) {
        int64_t b = i / kv_heads, kv = i % kv_heads;
        for (int64_t h = kv * a->group; h < (kv + 1) * a->group; ++h)
            for (int64_t first = 0; first < a->l; first += BLOCK) {
                int64_t rows = RUSH_MIN(BLOCK, a->l - first), n = keys_of(a, first, rows);
                scores(a, b, h, first, rows, n, p);
                rush_k_attention->weights[a->type](p, rows, n, n, (char *)rush_ptr(a->lse) + ((b * a->heads + h) * a->l + first) * a->item);
                for (int64_t r = 0; r < rows; ++r) { /* sum of dout * out */
                    char *g = at4(a->g, b, h, first + r), *o = at4(a->out, b, h, first + r);
                    int64_t gs = a->g->stride[3], os = a->out->stride[3];
                    double sum = 0;
                    for (int64_t c = 0; c < a->ev; ++c)
                        sum += a->type ? ((double *)g)[c * gs] * ((double *)o)[c * os] : ((float *)g)[c * gs] * ((float *)o)[c * os];
                    if (a->type) ((double *)delta)[r] = sum;
                    else ((float *)delta)[r] = (float)sum;
                }
                product(a, rows, n, a->ev, at4(a->g, b, h, first), a->g->stride[2], a->g->stride[3], at4(a->v, b, kv, 0), a->v->stride[3], a->v->stride[2], dp,
                        n, 1, 0);
                product(a, n, a->ev, rows, p, 1, n, at4(a->g, b, h, first), a->g->stride[2], a->g->stride[3], at4(a->dv, b, kv, 0), a->dv->stride[2], 1, 1);
                rush_k_attention->back[a->type](dp, p, rows, n, n, delta, a->scale);
                product(a, rows, a->e, n, dp, n, 1, at4(a->k, b, kv, 0), a->k->stride[2], a->k->stride[3], at4(a->dq, b, h, first), a->dq->stride[2], 1, 0);
                product(a, n, a->e, rows, dp, 1, n, at4(a->q, b, h, first), a->q->stride[2], a->q->stride[3], at4(a->dk, b, kv, 0), a->dk->stride[2], 1, 1);
            }
    }
    free(p);
    free(delta);
}

/* in: query, key, value, dropout_p, is_causal, attn_mask, scale */
static int prepare(attention *a, const rush_value *in)
{
    *a = (attention){.q = in[0].t, .k = in[1].t, .v = in[2].t, .causal = in[4].i};
    RUSH_CHECK(a->q->ndim == 4 && a->k->ndim == 4 && a->v->ndim == 4, RUSH_RUNTIME_ERROR, "query, key and value must have 4 dimensions");
    RUSH_CHECK(a->q->dtype == a->k->dtype && a->q->dtype == a->v->dtype, RUSH_RUNTIME_ERROR, "query, key and value must have one dtype");
    RUSH_CHECK(a->k->size[1] && a->q->size[1] % a->k->size[1] == 0, RUSH_RUNTIME_ERROR, "the heads of key (%lld) must divide those of query (%lld)",
               (long long)a->k->size[1], (long long)a->q->size[1]);
    a->heads = a->q->size[1];
    a->group = a->heads / a->k->size[1];
    a->l = a->q->size[2];
    a->e = a->q->size[3];
    a->s = a->k->size[2];
    a->ev = a->v->size[3];
    a->scale = in[6].kind == RUSH_V_NONE ? 1 / sqrt((double)a->e) : rush_to_double(in[6]);
    a->type = a->q->dtype == RUSH_F64;
    a->item = rush_dtypes[a->q->dtype].size;
    if (HAS(in[5])) {
        int64_t size[] = {a->q->size[0], a->heads, a->l, a->s};
        a->mask = T("expand", in[5], rush_v_ints(size, 4));
        if (!a->mask) return -1;
        a->mask_is_bool = a->mask->dtype == RUSH_BOOL;
    }
    return 0;
}

static bool direct(const rush_tensor *t) { return (t->dtype == RUSH_F32 || t->dtype == RUSH_F64) && !(t->flags & (RUSH_T_CONJ | RUSH_T_NEG)); }

static int flash_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_dtype dtype = in[0].t->dtype;
    rush_value args[7];
    memcpy(args, in, sizeof args);
    for (int i = 0; i < 3; ++i)
        if (!direct(args[i].t)) args[i] = V(rush_cast_copy(args[i].t, RUSH_F32));
    if (rush_failed()) return -1;
    if (HAS(args[5]) && args[5].t->dtype != RUSH_BOOL && args[5].t->dtype != args[0].t->dtype) args[5] = V(rush_cast_copy(args[5].t, args[0].t->dtype));
    attention a;
    if (rush_failed() || prepare(&a, args)) return -1;
    rush_device cpu = a.q->device;
    int64_t b = a.q->size[0], size[] = {b, a.l, a.heads, a.ev}, strided[] = {b, a.heads, a.l, a.ev};
    rush_tensor *made = rush_tensor_new(a.q->dtype, cpu, 4, size); /* (B, L, H, E): what the next projection reads in order */
    a.lse = rush_tensor_new(a.q->dtype, cpu, 3, (int64_t[]){b, a.heads, a.l});
    a.out = made ? rush_tensor_alias(made, 4, strided, (int64_t[]){made->stride[0], made->stride[2], made->stride[1], 1}, 0) : NULL;
    if (!a.out || !a.lse) return -1;
    if (cpu.type == RUSH_CPU && a.out->numel) rush_parallel_for(b * a.heads * ((a.l + BLOCK - 1) / BLOCK), 1, forward_blocks, &a);
    RUSH_CHECK(!a.failed, RUSH_MEMORY_ERROR, "out of memory for the scores of %d queries and %lld keys", BLOCK, (long long)a.s);
    out[0] = rush_v_tensor(a.out->dtype == dtype ? a.out : rush_cast_copy(a.out, dtype));
    out[1] = rush_v_tensor(a.lse);
    return rush_failed() ? -1 : 0;
}

/* By operations: (out, attention weights). */
static rush_tensor *in_full(rush_tensor *q, rush_tensor *k, rush_tensor *v, rush_tensor *mask, double dropout, bool causal, double scale, rush_tensor **weights)
{
    if (q && k && q->ndim >= 3 && q->size[q->ndim - 3] != k->size[k->ndim - 3] && k->size[k->ndim - 3] > 1) {
        int64_t n = q->size[q->ndim - 3] / k->size[k->ndim - 3];
        k = T("repeat_interleave.self_int", V(k), V(n), V(-3));
        v = T("repeat_interleave.self_int", V(v), V(n), V(-3));
    }
    double half = sqrt(scale < 0 ? -scale : scale);
    rush_tensor *s = matmul(mul(q, half), transpose(mul(k, scale < 0 ? -half : half), -2, -1));
    if (!s) return NULL;
    if (causal) {
        rush_tensor *keep = T("tril", V(T("ones", rush_v_ints(s->size + s->ndim - 2, 2), rush_v_dtype(RUSH_BOOL), RUSH_NONE,
                                          (rush_value){.kind = RUSH_V_DEVICE, .device = s->device})));
        s = T("masked_fill.Scalar", V(s), V(logical_not(keep)), V(-INFINITY));
    }
    if (mask) s = mask->dtype == RUSH_BOOL ? T("masked_fill.Scalar", V(s), V(logical_not(mask)), V(-INFINITY)) : add(s, mask);
    rush_tensor *p = s ? T("softmax.int", V(s), V(-1)) : NULL;
    if (mask && p) { /* rows without any key */
        rush_tensor *none = T("all.dim", V(eq(s, -INFINITY)), V(-1), V(true));
        p = T("masked_fill.Scalar", V(p), V(none), V(0.0));
    }
    if (dropout > 0 && p) p = T("dropout", V(p), V(dropout), V(true));
    if (weights) *weights = p;
    return matmul(p, v);
}

static void flash_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0];
    if (!g) return;
    attention a;
    if (prepare(&a, s->in)) return;
    if (rush_grad_enabled()) { /* the derivative will be differentiated: the same by operations */
        rush_tensor *leaves[3], *got[3];
        int which[3], n = 0;
        for (int i = 0; i < 3; ++i)
            if (rush_needs(s, i)) which[n] = i, leaves[n++] = s->in[i].t;
        rush_tensor *y = in_full(a.q, a.k, a.v, T_(s->in[5]), 0, a.causal, a.scale, NULL);
        if (!y || rush_grad_of(1, &y, &g, n, leaves, got, true, true, true)) return;
        for (int i = 0; i < n; ++i) s->gin[which[i]] = got[i];
        return;
    }
    rush_dtype dtype = a.q->dtype;
    rush_value args[7];
    memcpy(args, s->in, sizeof args);
    if (!direct(a.q) || !direct(a.k) || !direct(a.v)) {
        for (int i = 0; i < 3; ++i) args[i] = V(rush_cast_copy(args[i].t, dtype == RUSH_F64 ? RUSH_F64 : RUSH_F32));
        if (HAS(args[5]) && args[5].t->dtype != RUSH_BOOL) args[5] = V(rush_cast_copy(args[5].t, RUSH_F32));
        if (rush_failed() || prepare(&a, args)) return;
    }
    a.g = a.q->dtype == g->dtype ? g : rush_cast_copy(g, a.q->dtype);
    a.out = s->out[0].t->dtype == a.q->dtype ? s->out[0].t : rush_cast_copy(s->out[0].t, a.q->dtype);
    a.lse = s->out[1].t;
    a.dq = rush_tensor_new(a.q->dtype, a.q->device, 4, a.q->size);
    a.dk = rush_zeros_like(a.k);
    a.dv = rush_zeros_like(a.v);
    if (!a.g || !a.out || !a.dq || !a.dk || !a.dv) return;
    if (a.s == 0 && a.dq->numel) memset(rush_ptr(a.dq), 0, a.dq->numel * a.item);
    if (a.s && a.l) rush_parallel_for(a.q->size[0] * (a.heads / a.group), 1, backward_heads, &a);
    if (a.failed) {
        rush_fail(RUSH_MEMORY_ERROR, "out of memory for the scores of %d queries and %lld keys", BLOCK, (long long)a.s);
        return;
    }
    rush_tensor *made[] = {a.dq, a.dk, a.dv};
    for (int i = 0; i < 3; ++i)
        if (rush_needs(s, i)) s->gin[i] = made[i]->dtype == dtype ? made[i] : rush_cast_copy(made[i], dtype);
}

static rush_op op_flash = {
    .schema = "_scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, float dropout_p=0.0, bool is_causal=False, *, "
              "Tensor? attn_mask=None, float? scale=None) -> (Tensor output, Tensor logsumexp)",
    .doc = "Attention of (B, H, L, E) tensors by blocks of queries, and the logarithm of each row's sum.",
    .run = flash_run, .grad = flash_grad, .saves = "query, key, value, attn_mask, result0, result1", .flags = RUSH_AUTOCAST_LOW,
};

static int check(const rush_value *in)
{
    rush_tensor *q = in[0].t, *k = in[1].t, *v = in[2].t, *mask = T_(in[3]);
    RUSH_CHECK(q->dtype == k->dtype && q->dtype == v->dtype, RUSH_RUNTIME_ERROR,
               "Expected query, key, and value to have the same dtype, but got query.dtype: %s key.dtype: %s and value.dtype: %s instead.",
               rush_dtype_name(q->dtype), rush_dtype_name(k->dtype), rush_dtype_name(v->dtype));
    RUSH_CHECK(q->ndim >= 2 && k->ndim >= 2 && v->ndim >= 2, RUSH_RUNTIME_ERROR,
               "Expected query, key, and value to all be at least 2 dimensional, but got query dim: %d, key dim: %d and value dim: %d instead.", q->ndim,
               k->ndim, v->ndim);
    RUSH_CHECK(!mask || mask->dtype == RUSH_BOOL || mask->dtype == q->dtype || mask->dtype == RUSH_F32, RUSH_RUNTIME_ERROR,
               "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: %s and query.dtype: %s instead.",
               rush_dtype_name(mask->dtype), rush_dtype_name(q->dtype));
    RUSH_CHECK(!mask || !in[5].i, RUSH_RUNTIME_ERROR, "Explicit attn_mask should not be set when is_causal=True");
    return 0;
}

static int sdpa_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (check(in)) return -1;
    rush_tensor *q = in[0].t, *k = in[1].t, *v = in[2].t, *mask = T_(in[3]);
    double dropout = in[4].f, scale = HAS(in[6]) ? in[6].f : 1 / sqrt((double)RUSH_MAX(q->size[q->ndim - 1], 1));
    bool causal = in[5].i, grouped = in[7].i;
    bool same = q->ndim == k->ndim && q->ndim == v->ndim && q->ndim >= 3 && q->ndim <= 4;
    for (int d = 0; same && d < q->ndim - 2; ++d) {
        bool head = grouped && d == q->ndim - 3;
        same = k->size[d] == v->size[d] && (head ? k->size[d] && q->size[d] % k->size[d] == 0 : q->size[d] == k->size[d]);
    }
    same = same && q->size[q->ndim - 1] == k->size[k->ndim - 1] && k->size[k->ndim - 2] == v->size[v->ndim - 2];
    bool plain = rush_dtype_is_float(q->dtype) && dropout == 0 && q->numel && k->numel && v->numel && q->device.type == RUSH_CPU && !(mask && rush_requires_grad(mask));
    if (!same || !plain || (mask && mask->ndim > q->ndim)) return rush_result(out, in_full(q, k, v, mask, dropout, causal, scale, NULL));
    bool three = q->ndim == 3;
    if (three) {
        int at = grouped ? 0 : 1; /* (N, L, E): one head, or with groups one batch */
        q = unsqueeze(q, at), k = unsqueeze(k, at), v = unsqueeze(v, at);
        if (mask && mask->ndim == 3) mask = unsqueeze(mask, at);
    }
    rush_value got[RUSH_MAXOUT];
    if (TN(got, "_scaled_dot_product_flash_attention_for_cpu", V(q), V(k), V(v), V(0.0), V(causal), V(mask), V(scale))) return -1;
    return rush_result(out, three ? squeeze(got[0].t, grouped ? 0 : 1) : got[0].t);
}

static rush_op op_sdpa = {
    .schema = "scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0.0, bool is_causal=False, *, "
              "float? scale=None, bool enable_gqa=False) -> Tensor",
    .doc = "softmax(query @ key^T * scale + mask) @ value over the last two dims (L, E) and (S, E); memory grows with L, not with L * S.",
    .run = sdpa_run,
};

static int sdpa_math_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *weights = NULL, *q = in[0].t;
    double scale = HAS(in[7]) ? in[7].f : 1 / sqrt((double)RUSH_MAX(q->size[q->ndim - 1], 1));
    if (check(in)) return -1;
    out[0] = rush_v_tensor(in_full(q, in[1].t, in[2].t, T_(in[3]), in[4].f, in[5].i, scale, &weights));
    out[1] = rush_v_tensor(weights);
    return rush_failed() ? -1 : 0;
}

static rush_op op_sdpa_math = {
    .schema = "_scaled_dot_product_attention_math(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0.0, bool is_causal=False, "
              "Tensor? dropout_mask=None, *, float? scale=None, bool enable_gqa=False) -> (Tensor, Tensor)",
    .doc = "Attention by operations, and its weights.",
    .run = sdpa_math_run,
};

RUSH_FAMILY(attention, &op_flash, &op_sdpa, &op_sdpa_math)
