/* tokenizer.c - tokenizer.json: whatever it says, it is an error or a tokeniser that takes a text. */
#include "fuzz.h"
#include <rushlight/data.h>

FUZZ({
    static const char text[] = "a ab\xc3\xa9 12's\n</s> e\xcc\x81\xff <s>!! \xea\xb0\x81";
    rush_tokenizer *t = rush_tokenizer_load(fuzz_file(data, size), NULL);
    rush_tensor *tokens = t ? rush_tokenizer_encode(t, text, sizeof text - 1) : NULL;
    char back[256];
    if (tokens) rush_tokenizer_decode(t, tokens, back, sizeof back);
    rush_tokenizer_free(t);
})
