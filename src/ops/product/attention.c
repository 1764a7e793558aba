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
#include "ops/geometry.h"
#include <math.h>

enum { BLOCK = 64 };

/* One call, all tensors (B, H, length, size) of any strides; key and value may have fewer heads (grouped). */
typedef struct attention {
    rush_tensor *q, *k, *v, *mask, *out, *lse;           /* lse (B, H, L) contiguous */
    rush_tensor *g, *dq, *dk, *dv;                       /* of the way back */
    bool causal, mask_is_bool;
    double scale;
    int64_t heads, group, l, s, e, ev;
    int type;        /* 0 float, 1 double */
    rush_dtype half; /* what a float is rounded to on the way back: F16, BF16 or F32 */
    int64_t block;   /* queries at a time there: of half types as many as in PyTorch, since what is added up is rounded after each block */
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

/* The masked scores of `rows` queries from `first` on into s (rows, n); `keys` are those of the head. */
static void scores(const attention *a, int64_t b, int64_t h, int64_t first, int64_t rows, int64_t n, const void *keys, void *s)
{
    product(a, rows, n, a->e, at4(a->q, b, h, first), a->q->stride[2], a->q->stride[3], keys, a->k->stride[3], a->k->stride[2], s, n, a->scale, 0);
    const char *mask = a->mask ? at4(a->mask, b, h, first) : NULL;
    size_t item = a->mask ? rush_dtypes[a->mask->dtype].size : 0;
    if (mask || a->causal)
        rush_k_attention->mask[a->type](s, rows, n, n, mask, a->mask_is_bool, mask ? a->mask->stride[2] * (int64_t)item : 0,
                                        mask ? a->mask->stride[3] * (int64_t)item : 0, a->causal, first);
}

/* Rows of `width` floats, `step` apart, become what the half type holds of them. */
static void round_rows(const attention *a, float *x, int64_t rows, int64_t width, int64_t step, uint16_t *room)
{
    for (int64_t r = 0; r < rows && a->half != RUSH_F32; ++r) {
        rush_convert_many(room, a->half, 2, x + r * step, RUSH_F32, 4, width);
        rush_convert_many(x + r * step, RUSH_F32, 4, room, a->half, 2, width);
    }
}

/* One head of keys or values of half types becomes floats on its own, near the processor, where it lies in one piece. */
static bool in_one_piece(const rush_tensor *t)
{
    return rush_dtypes[t->dtype].size == 2 && !(t->flags & RUSH_T_NEG) && t->stride[3] == 1 && t->stride[2] == t->size[3];
}

static size_t room_of_head(const rush_tensor *t) { return in_one_piece(t) ? (size_t)(t->size[2] * t->size[3]) * sizeof(float) : 0; }

static const void *floats_of_head(const rush_tensor *t, int64_t b, int64_t h, void *room)
{
    if (!in_one_piece(t)) return at4(t, b, h, 0);
    rush_convert_many(room, RUSH_F32, 4, at4(t, b, h, 0), t->dtype, 2, t->size[2] * t->size[3]);
    return room;
}

static void forward_blocks(void *arg, int64_t begin, int64_t end)
{
    attention *a = arg;
    int64_t blocks = (a->l + BLOCK - 1) / BLOCK;
    size_t got;
    bool rounds = a->half != RUSH_F32; /* the exponentials are, as in PyTorch, and divided by their sum after the product */
    float inverse[BLOCK];
    size_t buffer = ((size_t)BLOCK * RUSH_MAX(a->s, 1) * (a->item + (rounds ? 2 : 0)) + 63) / 64 * 64, of_keys = (room_of_head(a->k) + 63) / 64 * 64;
    char *s = rush_block_alloc(buffer + of_keys + room_of_head(a->v), &got);
    const void *keys = NULL, *values = NULL;
    if (!s) {
        rush_error_clear(); /* this thread may be a helper: the caller tells */
        a->failed = true;
        return;
    }
    for (int64_t i = begin; i < end; ++i) {
        int64_t b = i / blocks / a->heads, h = i / blocks % a->heads, first = i % blocks * BLOCK, rows = RUSH_MIN(BLOCK, a->l - first);
        int64_t n = keys_of(a, first, rows), kv = h / a->group;
        if (i == begin || (first == 0 && h % a->group == 0)) {
            keys = floats_of_head(a->k, b, kv, s + buffer);
            values = floats_of_head(a->v, b, kv, s + buffer + of_keys);
        }
        scores(a, b, h, first, rows, n, keys, s);
        char *to = at4(a->out, b, h, first);
        rush_k_attention->softmax[a->type](s, rows, n, n, (char *)rush_ptr(a->lse) + ((b * a->heads + h) * a->l + first) * a->item, rounds ? inverse : NULL);
        round_rows(a, (float *)s, rows, n, n, (uint16_t *)(s + (size_t)BLOCK * a->s * a->item));
        product(a, rows, a->ev, n, s, n, 1, values, a->v->stride[2], a->v->stride[3], to, a->out->stride[2], 1, 0);
        for (int64_t r = 0; r < rows && rounds; ++r)
            for (int64_t c = 0; c < a->ev; ++c) ((float *)to)[r * a->out->stride[2] + c] *= inverse[r];
    }
    rush_block_free(s, got);
}

/* One head of keys at a time, with all the query heads that share it, so that sums have one order. */
static void backward_heads(void *arg, int64_t begin, int64_t end)
{
    attention *a = arg;
    int64_t kv_heads = a->heads / a->group;
    char *p = malloc((size_t)a->block * RUSH_MAX(a->s, 1) * a->item * 2), *delta = malloc((size_t)a->block * a->item);
    uint16_t *room = malloc((size_t)RUSH_MAX(RUSH_MAX(a->s, a->e), a->ev) * sizeof *room + 1);
    if (!p || !delta || !room) {
        a->failed = true;
        free(p);
        free(delta);
        free(room);
        return;
    }
    char *dp = p + (size_t)a->block * a->s * a->item;
    for (int64_t i = begin; i < end; ++i) {
        int64_t b = i / kv_heads, kv = i % kv_heads;
        for (int64_t h = kv * a->group; h < (kv + 1) * a->group; ++h)
            for (int64_t first = 0; first < a->l; first += a->block) {
                int64_t rows = RUSH_MIN(a->block, a->l - first), n = keys_of(a, first, rows);
                scores(a, b, h, first, rows, n, at4(a->k, b, kv, 0), p);
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
                double left = a->half == RUSH_F32 ? 1 : a->scale; /* what the products below have to scale */
                rush_k_attention->back[a->type](dp, p, rows, n, n, delta, a->scale / left);
                round_rows(a, (float *)p, rows, n, n, room);
                round_rows(a, (float *)dp, rows, n, n, room);
                char *dk = at4(a->dk, b, kv, 0), *dv = at4(a->dv, b, kv, 0);
                product(a, n, a->ev, rows, p, 1, n, at4(a->g, b, h, first), a->g->stride[2], a->g->stride[3], dv, a->dv->stride[2], 1, 1);
                product(a, rows, a->e, n, dp, n, 1, at4(a->k, b, kv, 0), a->k->stride[2], a->k->stride[3], at4(a->dq, b, h, first), a->dq->stride[2], left, 0);
                product(a, n, a->e, rows, dp, 1, n, at4(a->q, b, h, first), a->q->stride[2], a->q->stride[3], dk, a->dk->stride[2], left, 1);
                round_rows(a, (float *)dv, n, a->ev, a->dv->stride[2], room);
                round_rows(a, (float *)dk, n, a->e, a->dk->stride[2], room);
            }
    }
    free(p);
    free(delta);
    free(room);
}

/* in: query, key, value, and a mask or none */
static int check_sizes(rush_tensor *const *qkv, const rush_tensor *mask)
{
    const rush_tensor *q = qkv[0], *k = qkv[1], *v = qkv[2];
    RUSH_CHECK(q->ndim == 4 && k->ndim == 4 && v->ndim == 4, RUSH_RUNTIME_ERROR, "query, key and value must have 4 dimensions");
    RUSH_CHECK(q->dtype == k->dtype && q->dtype == v->dtype, RUSH_RUNTIME_ERROR, "query, key and value must have one dtype");
    RUSH_CHECK(rush_dtype_is_float(q->dtype), RUSH_NOT_IMPLEMENTED, "attention is not implemented for %s", rush_dtype_name(q->dtype));
    RUSH_CHECK(k->size[1] && q->size[1] % k->size[1] == 0, RUSH_RUNTIME_ERROR, "the heads of key (%lld) must divide those of query (%lld)",
               (long long)k->size[1], (long long)q->size[1]);
    RUSH_CHECK(k->size[0] == q->size[0] && v->size[0] == q->size[0] && v->size[1] == k->size[1] && v->size[2] == k->size[2] && k->size[3] == q->size[3],
               RUSH_RUNTIME_ERROR, "query %s, key %s and value %s do not fit", rush_shape_of(q), rush_shape_of(k), rush_shape_of(v));
    const int64_t size[] = {q->size[0], q->size[1], q->size[2], k->size[2]};
    bool fits = !mask || mask->ndim <= 4;
    for (int d = 0; mask && fits && d < mask->ndim; ++d) fits = mask->size[d] == size[4 - mask->ndim + d] || mask->size[d] == 1;
    RUSH_CHECK(fits, RUSH_RUNTIME_ERROR, "the mask %s does not fit scores of size %s", rush_shape_of(mask), rush_shape_text(4, size));
    return 0;
}

static double scale_of(rush_value scale, const rush_tensor *q)
{
    return HAS(scale) ? rush_to_double(scale) : 1 / sqrt((double)RUSH_MAX(q->size[q->ndim - 1], 1));
}

/* What loops read: of one floating type, and without lazy bits. */
static rush_tensor *readable(rush_tensor *t, rush_dtype type)
{
    return t->dtype == type && !(t->flags & (RUSH_T_CONJ | RUSH_T_NEG)) ? t : rush_cast_copy(t, type);
}

/* Forward, what lies in one piece stays of its half type. */
static int prepare(attention *a, rush_tensor *const *qkv, rush_tensor *mask, bool causal, rush_value scale, bool forward)
{
    rush_dtype type = qkv[0]->dtype == RUSH_F64 ? RUSH_F64 : RUSH_F32;
    *a = (attention){.q = readable(qkv[0], type), .causal = causal};
    a->k = forward && in_one_piece(qkv[1]) ? qkv[1] : readable(qkv[1], type);
    a->v = forward && in_one_piece(qkv[2]) ? qkv[2] : readable(qkv[2], type);
    if (!a->q || !a->k || !a->v) return -1;
    a->heads = a->q->size[1];
    a->group = RUSH_MAX(a->heads / RUSH_MAX(a->k->size[1], 1), 1); /* no heads: nothing is read */
    a->l = a->q->size[2];
    a->e = a->q->size[3];
    a->s = a->k->size[2];
    a->ev = a->v->size[3];
    a->scale = scale_of(scale, a->q);
    a->type = type == RUSH_F64;
    a->item = rush_dtypes[type].size;
    a->half = type == RUSH_F64 ? RUSH_F32 : qkv[0]->dtype;
    a->block = a->half == RUSH_F32 ? BLOCK : a->l >= 768 ? 256 : a->l >= 192 ? 64 : 32;
    if (mask) {
        int64_t size[] = {a->q->size[0], a->heads, a->l, a->s};
        a->mask_is_bool = mask->dtype == RUSH_BOOL;
        mask = readable(mask, a->mask_is_bool ? RUSH_BOOL : type);
        a->mask = mask ? T("expand", V(mask), rush_v_ints(size, 4)) : NULL;
        if (!a->mask) return -1;
    }
    return 0;
}

/* (B, H, L, E) over (B, L, H, E): what projections before and behind read in order. */
static rush_tensor *by_heads(rush_dtype dtype, rush_device device, int64_t b, int64_t heads, int64_t l, int64_t e)
{
    rush_tensor *made = rush_tensor_new(dtype, device, 4, (int64_t[]){b, l, heads, e});
    return made ? rush_tensor_alias(made, 4, (int64_t[]){b, heads, l, e}, (int64_t[]){made->stride[0], made->stride[2], made->stride[1], 1}, 0) : NULL;
}

/* Where features do not lie side by side PyTorch takes the products apart, which shows in how results and gradients lie. */
static bool taken_apart(rush_tensor *const *qkv)
{
    for (int i = 0; i < 3; ++i)
        if (qkv[i]->stride[3] != 1) return true;
    return false;
}

/* in: query, key, value, dropout_p, is_causal, attn_mask, scale */
static int flash_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *q = in[0].t, *qkv[3] = {q, in[1].t, in[2].t};
    if (check_sizes(qkv, T_(in[5]))) return -1;
    if (taken_apart(qkv)) {
        const int64_t size[] = {q->size[0], q->size[1], q->size[2], qkv[2]->size[3]};
        return rush_out_t(out, 0, q, q->dtype, 4, size) && rush_out_t(out, 1, q, q->dtype == RUSH_F64 ? RUSH_F64 : RUSH_F32, 3, q->size) ? 0 : -1;
    }
    rush_tensor *made = q->size[3] == qkv[2]->size[3] ? rush_tensor_new_like(q, q->dtype, q->device, RUSH_PRESERVE) : NULL;
    if (rush_failed()) return -1;
    if (!made || made->stride[3] != 1) made = by_heads(q->dtype, q->device, q->size[0], q->size[1], q->size[2], qkv[2]->size[3]);
    if (!made) return -1;
    rush_out_view(out, 0, made);
    return rush_out_t(out, 1, q, q->dtype == RUSH_F64 ? RUSH_F64 : RUSH_F32, 3, q->size) ? 0 : -1;
}

static int no_room(const attention *a)
{
    return rush_fail(RUSH_MEMORY_ERROR, "out of memory for the scores of %d queries and %lld keys", BLOCK, (long long)a->s);
}

static void flash_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    attention a;
    rush_tensor *qkv[3] = {in[0].t, in[1].t, in[2].t}, *to = out[0].t;
    if (!to->numel || prepare(&a, qkv, T_(in[5]), I_(in[4]), in[6], true)) return;
    a.lse = out[1].t;
    a.out = to->dtype == a.q->dtype ? to : by_heads(a.q->dtype, to->device, to->size[0], a.heads, a.l, a.ev);
    if (!a.out) return;
    rush_parallel_for(to->size[0] * a.heads * ((a.l + BLOCK - 1) / BLOCK), 1, forward_blocks, &a);
    if (a.failed) no_room(&a);
    else if (a.out != to) rush_copy_into(to, a.out);
}

/* By operations: (out, attention weights). */
/* Keys or values with as many heads as the query has: each stands for a group of its heads. */
static rush_tensor *each_head(const rush_tensor *q, rush_tensor *k)
{
    RUSH_CHECK_NULL(q->ndim >= 3 && k->ndim >= 3, RUSH_INDEX_ERROR, "Dimension out of range (expected to be in range of [-2, 1], but got -3)");
    int64_t heads = q->size[q->ndim - 3], groups = k->size[k->ndim - 3];
    RUSH_CHECK_NULL(groups && heads % groups == 0, RUSH_RUNTIME_ERROR, "Number of heads in key and value must divide the number of heads in query, but %lld do not divide %lld",
                    (long long)groups, (long long)heads);
    return heads == groups ? k : T("repeat_interleave.self_int", V(k), V(heads / groups), V(-3));
}

static rush_tensor *in_full(rush_tensor *q, rush_tensor *k, rush_tensor *v, rush_tensor *mask, double dropout, bool causal, double scale, rush_tensor **weights)
{
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

/* in: grad_out, query, key, value, out, logsumexp, dropout_p, is_causal, attn_mask, scale */
static int flash_backward_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *g = in[0].t, *qkv[3] = {in[1].t, in[2].t, in[3].t}, *y = in[4].t, *lse = in[5].t;
    if (check_sizes(qkv, T_(in[8]))) return -1;
    const int64_t size[] = {qkv[0]->size[0], qkv[0]->size[1], qkv[0]->size[2], qkv[2]->size[3]};
    bool fits = g->ndim == 4 && y->ndim == 4 && lse->ndim == 3 && lse->dtype == (qkv[0]->dtype == RUSH_F64 ? RUSH_F64 : RUSH_F32) && rush_contiguous(lse);
    for (int d = 0; fits && d < 4; ++d) fits = g->size[d] == size[d] && y->size[d] == size[d] && (d == 3 || lse->size[d] == size[d]);
    RUSH_CHECK(fits, RUSH_RUNTIME_ERROR, "grad_out %s, out %s and logsumexp %s are not those of results of size %s", rush_shape_of(g), rush_shape_of(y),
               rush_shape_of(lse), rush_shape_text(4, size));
    for (int i = 0; i < 3; ++i) {
        const rush_tensor *x = qkv[i];
        const int64_t l = x->size[2], e = x->size[3];
        if (taken_apart(qkv)) {
            const int64_t stride[] = {x->size[1] * l * e, l * e, i == 1 ? 1 : e, i == 1 ? l : 1}; /* keys are multiplied transposed */
            if (!rush_out_strided(out, i, x->dtype, x->device, 4, x->size, stride)) return -1;
            continue;
        }
        rush_tensor *made = by_heads(x->dtype, x->device, x->size[0], x->size[1], x->size[2], x->size[3]);
        if (!made) return -1;
        rush_out_view(out, i, made);
    }
    return 0;
}

static void flash_backward_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    attention a;
    rush_tensor *qkv[3] = {in[1].t, in[2].t, in[3].t}, *made[3];
    if (prepare(&a, qkv, T_(in[8]), I_(in[7]), in[9], false)) return;
    for (int i = 0; i < 3; ++i) {
        made[i] = out[i].t->dtype == a.q->dtype && out[i].t->stride[3] == 1 ? out[i].t : rush_tensor_new(a.q->dtype, out[i].t->device, 4, out[i].t->size);
        if (!made[i]) return;
        if (i || !a.s) rush_zero_into(made[i]);
    }
    a.dq = made[0], a.dk = made[1], a.dv = made[2];
    a.g = readable(in[0].t, a.q->dtype);
    a.out = readable(in[4].t, a.q->dtype);
    a.lse = in[5].t;
    if (!a.g || !a.out) return;
    if (a.s && a.l) rush_parallel_for(a.q->size[0] * (a.heads / a.group), 1, backward_heads, &a);
    if (a.failed) no_room(&a);
    for (int i = 0; i < 3 && !a.failed; ++i)
        if (made[i] != out[i].t && rush_copy_into(out[i].t, made[i])) return;
}

static rush_op op_flash_backward = {
    .schema = "_scaled_dot_product_flash_attention_for_cpu_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor out, Tensor logsumexp, "
              "float dropout_p, bool is_causal, *, Tensor? attn_mask=None, float? scale=None) -> (Tensor grad_query, Tensor grad_key, Tensor grad_value)",
    .doc = "The derivative of _scaled_dot_product_flash_attention_for_cpu.", .shape = flash_backward_shape, .cpu = flash_backward_cpu, .flags = RUSH_HIDDEN,
};

static void flash_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0], *q = s->in[0].t;
    if (!g) return;
    if (rush_grad_enabled()) { /* the derivative will be differentiated: the same by operations */
        rush_tensor *leaves[3], *got[3];
        int which[3], n = 0;
        for (int i = 0; i < 3; ++i)
            if (rush_needs(s, i)) which[n] = i, leaves[n++] = s->in[i].t;
        rush_tensor *y = in_full(q, each_head(q, s->in[1].t), each_head(q, s->in[2].t), T_(s->in[5]), 0, I_(s->in[4]), scale_of(s->in[6], q), NULL);
        if (!y || rush_grad_of(1, &y, &g, n, leaves, got, true, true, true)) return;
        for (int i = 0; i < n; ++i) s->gin[which[i]] = got[i];
        return;
    }
    rush_value made[RUSH_MAXOUT];
    if (TN(made, "_scaled_dot_product_flash_attention_for_cpu_backward", V(g), s->in[0], s->in[1], s->in[2], s->out[0], s->out[1], s->in[3], s->in[4], s->in[5],
           s->in[6]))
        return;
    for (int i = 0; i < 3; ++i)
        if (rush_needs(s, i)) s->gin[i] = made[i].t;
}

static rush_op op_flash = {
    .schema = "_scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, float dropout_p=0.0, bool is_causal=False, *, "
              "Tensor? attn_mask=None, float? scale=None) -> (Tensor output, Tensor logsumexp)",
    .doc = "Attention of (B, H, L, E) tensors by blocks of queries, and the logarithm of each row's sum.",
    .shape = flash_shape, .cpu = flash_cpu, .grad = flash_grad, .saves = "query, key, value, attn_mask, result0, result1", .flags = RUSH_AUTOCAST_LOW | RUSH_FIRST_GRAD,
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
    return 0;
}

/* The formula, after `check`. */
static rush_tensor *by_formula(const rush_value *in, double scale, bool grouped, rush_tensor **weights)
{
    rush_tensor *q = in[0].t, *k = in[1].t, *v = in[2].t;
    RUSH_CHECK_NULL(!HAS(in[3]) || !in[5].i, RUSH_RUNTIME_ERROR, "Explicit attn_mask should not be set when is_causal=True");
    if (grouped && (!(k = each_head(q, k)) || !(v = each_head(q, v)))) return NULL;
    if (rush_dtypes[q->dtype].size > 2) return in_full(q, k, v, T_(in[3]), in[4].f, in[5].i, scale, weights);
    rush_tensor *mask = HAS(in[3]) && in[3].t->dtype != RUSH_BOOL ? to_dtype(in[3].t, RUSH_F32) : T_(in[3]); /* half types: in float, rounded once */
    rush_tensor *y = in_full(to_dtype(q, RUSH_F32), to_dtype(k, RUSH_F32), to_dtype(v, RUSH_F32), mask, in[4].f, in[5].i, scale, weights);
    if (y && weights) *weights = to_dtype(*weights, q->dtype);
    return y ? to_dtype(y, q->dtype) : NULL;
}

static int sdpa_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (check(in)) return -1;
    rush_tensor *q = in[0].t, *k = in[1].t, *v = in[2].t, *mask = T_(in[3]);
    double scale = scale_of(in[6], q);
    bool causal = in[5].i, grouped = in[7].i;
    bool same = q->ndim == k->ndim && q->ndim == v->ndim && q->ndim >= 3 && q->ndim <= 4;
    for (int d = 0; same && d < q->ndim - 2; ++d) {
        bool head = grouped && d == q->ndim - 3;
        same = k->size[d] == v->size[d] && (head ? k->size[d] && q->size[d] % k->size[d] == 0 : q->size[d] == k->size[d]);
    }
    same = same && q->size[q->ndim - 1] == k->size[k->ndim - 1] && k->size[k->ndim - 2] == v->size[v->ndim - 2];
    bool plain = rush_dtype_is_float(q->dtype) && in[4].f == 0 && q->numel && k->numel && v->numel && !(mask && rush_requires_grad(mask));
    if (q->ndim != 4 && ((mask && causal) || rush_dtypes[q->dtype].size == 2)) plain = false; /* as in PyTorch, whose kernel takes both and rounds less */
    if (!same || !plain || (mask && mask->ndim > q->ndim)) return rush_result(out, by_formula(in, scale, grouped, NULL));
    bool three = q->ndim == 3;
    if (three) {
        int at = grouped ? 0 : 1; /* (N, L, E): one head, or with groups one batch */
        q = unsqueeze(q, at), k = unsqueeze(k, at), v = unsqueeze(v, at);
        if (mask && mask->ndim == 3) mask = unsqueeze(mask, at);
    }
    rush_value got[RUSH_MAXOUT];
    if (TN(got, "_scaled_dot_product_flash_attention_for_cpu", V(q), V(k), V(v), V(0.0), V(causal), V(mask), V(scale))) return -1;
    rush_tensor *y = three ? squeeze(got[0].t, grouped ? 0 : 1) : got[0].t;
    return rush_result(out, three ? rush_laid_plain(y) : y);
}

static rush_op op_sdpa = {
    .schema = "scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0.0, bool is_causal=False, *, "
              "float? scale=None, bool enable_gqa=False) -> Tensor", .method = RUSH_NN,
    .doc = "softmax(query @ key^T * scale + mask) @ value over the last two dims (L, E) and (S, E); memory grows with L, not with L * S.",
    .run = sdpa_run,
};

static int sdpa_math_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *weights = NULL, *q = in[0].t;
    if (check(in)) return -1;
    out[0] = rush_v_tensor(by_formula(in, scale_of(in[7], q), in[8].i, &weights));
    out[1] = rush_v_tensor(weights);
    return rush_failed() ? -1 : 0;
}

static rush_op op_sdpa_math = {
    .schema = "_scaled_dot_product_attention_math(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0.0, bool is_causal=False, "
              "Tensor? dropout_mask=None, *, float? scale=None, bool enable_gqa=False) -> (Tensor, Tensor)",
    .doc = "Attention by operations, and its weights.",
    .run = sdpa_math_run,
};

RUSH_FAMILY(attention, &op_flash, &op_flash_backward, &op_sdpa, &op_sdpa_math)
