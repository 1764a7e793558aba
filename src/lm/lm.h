/* lm.h - what a language model is inside: sizes, weights where the file has them, a cache of fixed size. */
#ifndef RUSH_LM_H
#define RUSH_LM_H

#include "data/tokenizer.h"
#include "kernels/cpu/decoder.h"
#include <rushlight/lm.h>

typedef struct rush_weight { /* a matrix as it lies in the file */
    rush_gguf_type type;
    int64_t n, k; /* results, elements of a row */
    const void *data;
    const float *bias; /* (n); NULL: none */
} rush_weight;

static inline int64_t rush_weight_step(const rush_weight *w) /* bytes of a row */
{
    return w->type.block ? w->k / w->type.block->elements * w->type.block->bytes : w->k * (int64_t)rush_dtypes[w->type.dtype].size;
}

typedef struct rush_lm_layer {
    rush_weight q, k, v, o, gate, up, down;
    rush_norm attention_norm, feed_norm;
    rush_norm q_norm, k_norm; /* of each head; weight NULL: none */
    void *keys, *values;      /* as rush_attend has them: float16, or int8 */
    float *key_scale, *value_scale; /* (kv_heads, places) of int8; NULL: float16 */
} rush_lm_layer;

typedef struct rush_lm_style rush_lm_style;

struct rush_lm {
    rush_object_end end; /* first: parked, and 0 after its end */
    int64_t layers, width, feed, heads, kv_heads, head, turned, vocabulary; /* turned: elements of a head that positions turn */
    int64_t context, position, places; /* places: of the cache, a multiple of 64 */
    float eps;
    bool halves; /* pairs that are turned are half a head apart, not neighbours */
    bool gated;  /* the second half of a layer is silu of one product times another; else gelu of one */
    float *frequency; /* (turned / 2) of the pairs, per position */
    rush_weight embedding, output;
    rush_weight position_embedding; /* data NULL: none */
    rush_norm norm;
    rush_lm_layer *layer;
    rush_tokenizer *tokenizer;
    const rush_lm_style *style; /* of conversations; NULL: the file has no template, or one of no known family */
    bool has_template;
    /* room for RUSH_LM_ROWS rows at a time */
    float *x, *y, *q, *k, *v, *gate, *up, *turns, *logits;
    void *rounded;
    int32_t *fed; /* (context) its tokens, `position` of them */
    const rush_lm *drafter; /* the model whose tokens were found to be this one's; NULL: none yet */
};

enum { RUSH_LM_ROWS = 512 };

bool rush_lm_given(const rush_lm *); /* is there one, whose scope is open? If not, an error */
const rush_lm_style *rush_lm_style_of(const rush_gguf *, bool *has_template); /* chat.c */

/* model.c: appends up to RUSH_LM_ROWS tokens; to (n, vocabulary): what the model says after each. -1 and an error, nothing is appended then. */
int rush_lm_feed_each(rush_lm *, const int32_t *tokens, size_t n, float *to);

/* draw.c; tensors in the scope */
bool rush_lm_can_draw(const rush_lm *, const rush_lm_sampling *); /* if not, an error */
rush_tensor *rush_lm_chances(const rush_lm *, const float *logits, int64_t n, const rush_lm_sampling *); /* what one of the first n tokens is drawn from, with a temperature */
int32_t rush_lm_drawn(rush_tensor *p, const rush_lm_sampling *);
int32_t rush_lm_pick(const rush_lm *, const float *logits, int64_t n, const rush_lm_sampling *, rush_tensor **p); /* one of the first n; p: the chances, with a temperature */

#endif
