/* attention.c - attention: kernels that keep no scores (attention.cu, attention_mma.cu), and for what they do not take, doubles and widths above 256, products and
 * softmax, with the scores kept whole.
 */
#include "cuda/column.h"
#include "op/formula.h"
#include <stdio.h>

/* ---- kernels ---- */

typedef struct tile {
    const char *kernel; /* the beginning of its name */
    int width, rows, shared; /* up to this width; rows of a block's tile; bytes of shared memory */
} tile;
enum { FLOATS = 4, HALVES = 2, WARPS = CUDA_ATTEND_THREADS / 32, MMA_ROWS = 64 };
/* Rows of W numbers with the weights; attention.cu */
#define TILE(width, own, other) {"attend", width, own, FLOATS * ((own + 2 * other) * (width + 4) + own * (other + 4))},
#define TILE_BACK(width, own, other) {"attend_back", width, own, FLOATS * (2 * (own + other) * (width + 4) + own * (other + 4))},
/* attention_mma.cu */
#define MMA(width, sixteens, stages) {"attend_mma", width, 16 * sixteens * WARPS, HALVES * width * (16 * sixteens * WARPS + 2 * MMA_ROWS)},
#define MMA_BACK(width, sixteens, stages) {"attend_mma_back", width, MMA_ROWS, HALVES * width * (2 + 2 * stages) * MMA_ROWS + FLOATS * 2 * stages * MMA_ROWS},
static const tile tiles[2][2][3] = {{{CUDA_ATTENTION_TILES(TILE)}, {CUDA_ATTENTION_TILES(TILE_BACK)}}, {{CUDA_ATTENTION_MMA_TILES(MMA)}, {CUDA_ATTENTION_MMA_TILES(MMA_BACK)}}};

/* The tile for these; NULL: no kernel takes them. */
static const tile *tile_for(const rush_tensor *q, const rush_tensor *v, bool back)
{
    const int64_t width = RUSH_MAX(q->size[3], v->size[3]);
    const cuda_device *device = &cuda_devices[q->device.index];
    const bool mma = rush_dtypes[q->dtype].size == 2 && device->major >= 8; /* tensor cores with bfloat16 and copies that are waited for later */
    if (q->dtype == RUSH_F64 || v->size[2] > 1 << 30 || q->size[2] > 1 << 30 || (RUSH_MAX(q->size[2], v->size[2]) + 31) / 32 * q->size[0] * q->size[1] > 1 << 29) return NULL; /* kernels count with int */
    for (size_t i = 0; i < RUSH_COUNT(tiles[0][0]); i++) {
        const tile *t = &tiles[mma][back][i];
        if (width <= t->width) return t->shared <= device->shared ? t : NULL;
    }
    return NULL;
}

/* With rows that are contiguous, and without lazy bits. */
static rush_tensor *by_rows(rush_tensor *t)
{
    return t && (t->flags & (RUSH_T_CONJ | RUSH_T_NEG) || (t->stride[3] != 1 && t->size[3] != 1)) ? rush_contiguous_copy(t) : t;
}

/* t's memory and its steps; what is not of vectors of 16 bytes is noted. */
static char *lay(cuda_attention *p, const rush_tensor *t, int64_t *step)
{
    const int64_t item = (int64_t)rush_dtypes[t->dtype].size;
    char *at = rush_ptr(t);
    int64_t odd = (int64_t)(size_t)at | t->size[3] * item;
    for (int d = 0; d < 3; d++) step[d] = t->stride[d] * item, odd |= t->size[d] > 1 ? step[d] : 0;
    if (odd & 15) p->wide = 0;
    return at;
}

static const char *name_of(rush_dtype d) { return d == RUSH_F32 ? "f32" : d == RUSH_F16 ? "f16" : "bf16"; }

static int start(cuda_attention *p, rush_value *qkv, rush_value causal, rush_value mask, rush_value scale)
{
    for (int i = 0; i < 3; i++)
        if (!(qkv[i].t = by_rows(qkv[i].t))) return -1;
    const rush_tensor *q = qkv[0].t, *k = qkv[1].t, *v = qkv[2].t;
    *p = (cuda_attention){.batch = q->size[0], .heads = q->size[1], .group = RUSH_MAX(q->size[1] / RUSH_MAX(k->size[1], 1), 1), .rows = q->size[2], .keys = k->size[2],
                          .width = (int)q->size[3], .value_width = (int)v->size[3], .causal = I_(causal), .wide = 1};
    p->scale = (float)(HAS(scale) ? rush_to_double(scale) : 1 / __builtin_sqrt((double)RUSH_MAX(q->size[3], 1)));
    p->q = lay(p, q, p->q_step), p->k = lay(p, k, p->k_step), p->v = lay(p, v, p->v_step);
    if (!HAS(mask)) return 0;
    const bool known = mask.t->dtype == RUSH_BOOL || mask.t->dtype == RUSH_F16 || mask.t->dtype == RUSH_BF16 || mask.t->dtype == RUSH_F32;
    rush_tensor *m = known && !(mask.t->flags & (RUSH_T_CONJ | RUSH_T_NEG)) ? mask.t : rush_cast_copy(mask.t, known ? mask.t->dtype : RUSH_F32);
    m = m ? T("expand", V(m), INTS(p->batch, p->heads, p->rows, p->keys)) : NULL;
    if (!m) return -1;
    p->mask = rush_ptr(m), p->mask_dtype = m->dtype;
    for (int d = 0; d < 4; d++) p->mask_step[d] = m->stride[d] * (int64_t)rush_dtypes[m->dtype].size;
    return 0;
}

static int launch(const tile *t, const rush_tensor *q, const cuda_attention *p, int64_t blocks)
{
    char name[32];
    snprintf(name, sizeof name, "%s_%s_%d", t->kernel, name_of(q->dtype), t->width);
    return cuda_launch_shared(q->device, name, p, blocks, CUDA_ATTEND_THREADS, t->shared);
}

static int64_t pieces(int64_t rows, int of) { return (rows + of - 1) / of; }

static void attend_tiles(const tile *t, const rush_value *in, rush_value *out)
{
    cuda_attention p;
    rush_value qkv[3] = {in[0], in[1], in[2]};
    if (start(&p, qkv, in[4], in[5], in[6])) return;
    p.out = lay(&p, out[0].t, p.out_step), p.lse = rush_ptr(out[1].t);
    launch(t, out[0].t, &p, p.batch * p.heads * pieces(p.rows, t->rows));
}

static void attend_tiles_back(const tile *t, const rush_value *in, rush_value *out)
{
    cuda_attention p;
    char name[32];
    rush_value qkv[3] = {in[1], in[2], in[3]};
    rush_tensor *g = by_rows(in[0].t), *y = by_rows(in[4].t), *lse = in[5].t, *delta = rush_tensor_new(RUSH_F32, lse->device, 3, lse->size);
    if (!g || !y || !delta || start(&p, qkv, in[7], in[8], in[9])) return;
    p.g = lay(&p, g, p.g_step), p.y = lay(&p, y, p.y_step), p.lse = rush_ptr(lse), p.delta = rush_ptr(delta);
    p.dq = lay(&p, out[0].t, p.dq_step), p.dk = lay(&p, out[1].t, p.dk_step), p.dv = lay(&p, out[2].t, p.dv_step);
    snprintf(name, sizeof name, "attend_delta_%s", name_of(g->dtype));
    if (cuda_launch(lse->device, name, &p, delta->numel * 32)) return;
    const bool apart = t->width == 256 && strstr(t->kernel, "mma"); /* dk and dv are of two blocks */
    const int64_t of_keys = p.batch * (p.heads / p.group) * pieces(p.keys, t->rows), of_queries = p.batch * p.heads * pieces(p.rows, t->rows);
    launch(t, g, &p, (1 + apart) * of_keys + of_queries);
}

/* ---- products and softmax over (batch, heads, rows, width) ---- */

typedef struct attention {
    rush_tensor *q, *k, *v, *scores;          /* of the type that is computed in, (batch * heads, rows, width); keys and values for each head */
    int64_t batch, heads, group, rows, keys;
    double scale;
    rush_dtype dtype;
} attention;

/* (batch, heads, rows, width) as (batch * heads, rows, width) of dtype; `group` heads of queries share one of keys */
static rush_tensor *flat(rush_tensor *t, rush_dtype dtype, int64_t group)
{
    t = to_dtype(t, dtype);
    if (group > 1) t = T("repeat_interleave.self_int", V(t), V(group), V((int64_t)1));
    return t ? T("reshape", V(t), INTS(t->size[0] * t->size[1], t->size[2], t->size[3])) : NULL;
}

static int scores_of(attention *a, const rush_value *qkv, rush_value causal, rush_value mask, rush_value scale)
{
    const rush_tensor *q = qkv[0].t, *k = qkv[1].t;
    *a = (attention){.batch = q->size[0], .heads = q->size[1], .group = RUSH_MAX(q->size[1] / RUSH_MAX(k->size[1], 1), 1), .rows = q->size[2], .keys = k->size[2],
                     .dtype = q->dtype == RUSH_F64 ? RUSH_F64 : RUSH_F32};
    a->scale = HAS(scale) ? rush_to_double(scale) : 1 / __builtin_sqrt((double)RUSH_MAX(q->size[3], 1));
    a->q = flat(qkv[0].t, a->dtype, 1), a->k = flat(qkv[1].t, a->dtype, a->group), a->v = flat(qkv[2].t, a->dtype, a->group);
    rush_tensor *s = rush_failed() ? NULL : rush_tensor_new(a->dtype, q->device, 3, (int64_t[]){a->batch * a->heads, a->rows, a->keys});
    if (!s || cuda_multiply(a->q, transpose(a->k, 1, 2), NULL, s, rush_v_float(a->scale), RUSH_NONE)) return -1;
    if (I_(causal)) {
        rush_tensor *seen = T("tril", V(T("ones", INTS(a->rows, a->keys), rush_v_dtype(RUSH_BOOL), ON(q))));
        s = T("masked_fill.Scalar", V(s), V(logical_not(seen)), V(-__builtin_inf()));
    }
    if (HAS(mask)) {
        rush_tensor *wide = T("view", V(s), INTS(a->batch, a->heads, a->rows, a->keys));
        wide = mask.t->dtype == RUSH_BOOL ? T("masked_fill.Scalar", V(wide), V(logical_not(mask.t)), V(-__builtin_inf())) : add(wide, to_dtype(mask.t, a->dtype));
        s = wide ? reshape_to(wide, s) : NULL;
    }
    a->scores = s;
    return s ? 0 : -1;
}

/* The scores' softmax, which is nearer than exp(scores - lse); rows without any key, which only masks make, are zeros. */
static rush_tensor *weights(const attention *a, rush_value mask)
{
    rush_tensor *p = T("_softmax", V(a->scores), V((int64_t)-1), V(false));
    return HAS(mask) && p ? T("masked_fill.Scalar", V(p), V(T("all.dim", V(eq(a->scores, -__builtin_inf())), V((int64_t)-1), V(true))), V(0.0)) : p;
}

/* in: query, key, value, dropout_p, is_causal, attn_mask, scale. out: output, logsumexp, 0 where a row has no key */
static void attend(const rush_op *op, const rush_value *in, rush_value *out)
{
    attention a;
    rush_tensor *to = out[0].t;
    const tile *t = tile_for(in[0].t, in[2].t, false);
    if (t && to->numel) attend_tiles(t, in, out);
    if (t || !to->numel || scores_of(&a, in, in[4], in[5], in[6])) return;
    rush_tensor *lse = T("logsumexp", V(a.scores), INTS(-1), V(false));
    lse = lse ? T("masked_fill.Scalar", V(lse), V(eq(lse, -__builtin_inf())), V(0.0)) : NULL;
    rush_tensor *p = lse ? weights(&a, in[5]) : NULL, *y = p ? T("bmm", V(p), V(a.v)) : NULL;
    if (y && !rush_copy_into(out[1].t, reshape_to(lse, out[1].t))) rush_copy_into(to, reshape_to(y, to));
}

/* Gradients of keys or values: the heads of a group are summed. */
static void deliver(const attention *a, rush_tensor *g, rush_tensor *to)
{
    if (g && a->group > 1) g = sum_dim(T("view", V(g), INTS(a->batch, to->size[1], a->group, to->size[2], to->size[3])), 2, false);
    if (g) rush_copy_into(to, reshape_to(g, to));
}

/* in: grad_out, query, key, value, out, logsumexp, dropout_p, is_causal, attn_mask, scale */
static void attend_backward(const rush_op *op, const rush_value *in, rush_value *out)
{
    attention a;
    const tile *t = tile_for(in[1].t, in[3].t, true);
    if (t && in[1].t->numel && in[3].t->numel) {
        attend_tiles_back(t, in, out);
        return;
    }
    for (int i = 0; i < 3; i++)
        if (rush_device_fill(out[i].t, rush_v_int(0))) return;
    if (!in[0].t->numel || !in[2].t->numel || scores_of(&a, in + 1, in[7], in[8], in[9])) return;
    rush_tensor *g = flat(in[0].t, a.dtype, 1), *y = flat(in[4].t, a.dtype, 1), *p = weights(&a, in[8]);
    if (!g || !y || !p) return;
    rush_tensor *dp = T("bmm", V(g), V(transpose(a.v, 1, 2))), *delta = sum_dim(mul(g, y), -1, true);
    rush_tensor *ds = dp && delta ? mul(mul(p, sub(dp, delta)), a.scale) : NULL;
    if (!ds) return;
    rush_tensor *dq = T("bmm", V(ds), V(a.k));
    if (dq) rush_copy_into(out[0].t, reshape_to(dq, out[0].t));
    deliver(&a, T("bmm", V(transpose(ds, 1, 2)), V(a.q)), out[1].t);
    deliver(&a, T("bmm", V(transpose(p, 1, 2)), V(g)), out[2].t);
}

const cuda_kernel cuda_attention_kernels[] = {
    {"_scaled_dot_product_flash_attention_for_cpu", attend}, {"_scaled_dot_product_flash_attention_for_cpu_backward", attend_backward}, {0}};
