/* lm.h - language models from GGUF files, on the CPU, their weights in the blocks that the file has.
 *
 *     rush_lm *lm = rush_lm_load("model.gguf", 0);
 *     size_t n;
 *     const int32_t *tokens = rush_lm_encode(lm, "Once upon", 9, &n);
 *     for (const float *logits = rush_lm_feed(lm, tokens, n); logits && !rush_lm_ends(lm, token = rush_lm_draw(lm, logits, NULL)); logits = rush_lm_feed(lm, &token, 1))
 *         printf("%s", rush_lm_piece(lm, token, NULL));
 *
 * A model lives in the scope that it was loaded in; one thread uses it at a time.
 */
#ifndef RUSHLIGHT_LM_H
#define RUSHLIGHT_LM_H

#include <rushlight.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rush_lm rush_lm;

typedef struct rush_lm_options {
    int64_t context;       /* how many tokens it remembers; 0: as many as it was trained for, at most 4096 */
    const char *tokenizer; /* the path of a tokenizer.json (see rush_tokenizer_load()) that stands for the file's own tokens; NULL: none */
    const char *cache;     /* what keys and values are remembered as: "float16" (NULL), or "int8", each head's of a token by a scale, in half the memory */
} rush_lm_options;
RUSH_API rush_lm *rush_lm_load_with(const char *path, const rush_lm_options *);
RUSH_API rush_lm *rush_lm_load(const char *path, int64_t context); /* with nothing else said */
RUSH_API int64_t rush_lm_vocabulary(const rush_lm *); /* how many tokens there are */
RUSH_API int64_t rush_lm_context(const rush_lm *);
RUSH_API int64_t rush_lm_position(const rush_lm *);   /* how many of them it has been fed */
RUSH_API int rush_lm_rewind(rush_lm *, int64_t position); /* forgets what came from there on */
/* Forgets all but what these tokens begin with, too. How many of them need not be fed again: n - 1 at most, so that the last one is. -1 and an error. */
RUSH_API int64_t rush_lm_resume(rush_lm *, const int32_t *tokens, size_t n);

/* The tokens of a text, with those that the model wants before it, and with special tokens that are written out; in the scope. */
RUSH_API const int32_t *rush_lm_encode(const rush_lm *, const char *text, size_t n, size_t *count);
/* The bytes that a token stands for, ended by a zero; empty for special ones. Lives as long as the model. n may be NULL. */
RUSH_API const char *rush_lm_piece(const rush_lm *, int32_t token, size_t *n);
RUSH_API bool rush_lm_ends(const rush_lm *, int32_t token); /* is it the end of a text or of a turn? */

/* Appends tokens; what the model says of the next one: a number for each of the vocabulary, until the next call. NULL on error. */
RUSH_API const float *rush_lm_feed(rush_lm *, const int32_t *tokens, size_t n);

/* Appends tokens, too; to (n): of each the logarithm of the probability that the model gave it after those before it, but 0 of the first. -1 on error,
 * after which the tokens are not appended. */
RUSH_API int rush_lm_score(rush_lm *, const int32_t *tokens, size_t n, float *to);

/* A conversation as one text, up to where the answer begins, by the template in the model's file: ChatML's, Llama 3's or Llama 2's; another one, or none, is
 * an error. Roles are system, user and assistant. length may be NULL; the text lives in the scope. */
typedef struct rush_lm_message { const char *role, *content; } rush_lm_message;
RUSH_API const char *rush_lm_chat(const rush_lm *, size_t n, const rush_lm_message *, size_t *length);

/* A token, and the logarithm of the probability that the model gives it. */
typedef struct rush_lm_chance { int32_t token; float log; } rush_lm_chance;
/* Of a token, then of the n likeliest ones, to (n + 1): from what the model says, before anything of rush_lm_sampling. 0; -1 and an error. */
RUSH_API int rush_lm_likeliest(const rush_lm *, const float *logits, int32_t token, size_t n, rush_lm_chance *to);

/* What is added to the logit of a token. */
typedef struct rush_lm_bias { int32_t token; float by; } rush_lm_bias;
/* How a token is drawn. All zero: the likeliest. */
typedef struct rush_lm_sampling {
    double temperature;        /* logits are divided by it; 0: the likeliest token */
    int64_t top_k;             /* only the k likeliest; 0: all */
    double top_p;              /* only the likeliest that together reach p; 0: all */
    rush_generator *generator; /* NULL: the default one */
    double repetition;         /* logits of the last 64 tokens that were fed are divided by it, negative ones multiplied; 0 or 1: nothing happens */
    double frequency, presence; /* taken from the logit of a token for each time that it was fed; once if it was; 0: nothing */
    int64_t counted;            /* of those two: only tokens from that position on are counted */
    const rush_lm_bias *bias;
    size_t nbias;
} rush_lm_sampling;
/* As torch.multinomial(probabilities, 1) draws it; -1 on error. */
RUSH_API int32_t rush_lm_draw(const rush_lm *, const float *logits, const rush_lm_sampling *);

/* Speculative decoding: a smaller model of the same tokens, `draft`, proposes, and lm checks the proposals in one run. Feeds `token`, the one that was drawn
 * last, and writes what follows it to `to` (RUSH_LM_AHEAD + 1): at least one token, `most` at most, and all but the last are fed. They are what lm alone would
 * have drawn: with temperature 0 the same, else by the same chances. How many; -1 and an error. draft NULL: one token. */
enum { RUSH_LM_AHEAD = 4 };
RUSH_API int64_t rush_lm_speculate(rush_lm *, rush_lm *draft, int32_t token, size_t most, int32_t *to, const rush_lm_sampling *);

#ifdef __cplusplus
}
#endif
#endif
