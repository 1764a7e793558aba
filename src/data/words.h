/* words.h - the characters of a text, the words that byte pairs are merged in, and how GPT-2 writes bytes down. */
#ifndef RUSH_DATA_WORDS_H
#define RUSH_DATA_WORDS_H

#include "base/base.h"

/* The character at p: its bytes, and its code point; a byte that is no UTF-8 stands for itself. */
int rush_character(const char *p, const char *end, int32_t *code);

/* The end of the first word, p < end. digits: of a number that go together, as in Llama 3 (3) and Qwen (1); 0: the pattern of GPT-2. */
const char *rush_word_end(const char *p, const char *end, int digits);

/* The characters that GPT-2 writes bytes as: themselves where they can be seen, else those from 256 on. order: the numbers of its first tokens. */
void rush_byte_letters(int32_t code[256], int32_t order[256]);
/* From such characters to bytes, of which there are no more; -1: one stands for none. */
int64_t rush_from_letters(const char *p, size_t n, char *to);

#endif
