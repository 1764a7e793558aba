/* lm.c - language models: whatever a GGUF file says of one, it is an error or a model that takes a text. */
#include "fuzz.h"
#include <rushlight/lm.h>

FUZZ({
    rush_lm *lm = rush_lm_load(fuzz_file(data, size), 64);
    size_t n = 0;
    const int32_t *tokens = lm ? rush_lm_encode(lm, "a ab\xc3\xa9 12's\n</s>", 15, &n) : NULL;
    const float *logits = tokens && n && n < 40 ? rush_lm_feed(lm, tokens, n) : NULL;
    int32_t token = logits ? rush_lm_draw(lm, logits, NULL) : -1;
    if (token >= 0) rush_lm_piece(lm, token, NULL), rush_lm_ends(lm, token), rush_lm_feed(lm, &token, 1);
})
