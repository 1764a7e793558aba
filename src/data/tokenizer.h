/* tokenizer.h - what a tokeniser is inside. Where it comes from, a text or a file of some format, is a file's matter; what it does with texts is in tokenizer.c. */
#ifndef RUSH_DATA_TOKENIZER_H
#define RUSH_DATA_TOKENIZER_H

#include "data/pairs.h"
#include "io/gguf.h"
#include <rushlight/data.h>

#define RUSH_BLANK_MARK "\xe2\x96\x81" /* how SentencePiece writes a blank */

typedef enum rush_tokenizer_kind {
    RUSH_CHARACTERS, /* each is a token                                                                    */
    RUSH_BYTE_PAIRS, /* bytes, merged within words                                                         */
    RUSH_PIECES      /* SentencePiece's: characters, or else their bytes, merged in all of the text at once */
} rush_tokenizer_kind;

/* Is a blank put before a text? Before each part between special tokens, or those of them that begin with none, or only the first, if it does. */
typedef enum rush_blank { RUSH_BLANK_NONE, RUSH_BLANK_EACH, RUSH_BLANK_EACH_WITHOUT, RUSH_BLANK_FIRST_WITHOUT } rush_blank;

typedef struct rush_piece { /* of `bytes`; ended by a zero */
    size_t at;              /* 0: nothing was said of this token */
    uint32_t n;
    int32_t token;
} rush_piece;

struct rush_tokenizer {
    uint64_t lives;           /* first: 1 until its end */
    rush_tokenizer_kind kind;
    int64_t n, room;          /* tokens */
    rush_piece *piece;        /* what each stands for */
    bool *ends;               /* of each: is it the end of a text or a turn? */
    char *bytes;
    size_t nbytes, bytes_room;
    int32_t *slot;            /* the tokens that are found by what they stand for: an open hash table of `slots`, -1: free */
    size_t slots;
    rush_pairs pairs;
    int32_t byte[256];        /* the token of each byte; -1: none */
    int32_t begin, unknown;   /* stands before each text; instead of what has no token; -1: none */
    int digits;               /* see rush_word_end() */
    bool whole_words;         /* one that is a token is not merged */
    bool composes;            /* texts are brought into Unicode's normal form C before */
    bool fuses;               /* of several unknown characters in a row one token is left */
    rush_blank adds_blank;    /* to pieces */
    rush_piece *special;      /* texts that always are a token, the longest first */
    size_t specials;
    bool leads[256];          /* is it the first byte of a special one? */
};

rush_tokenizer *rush_tokenizer_begin(rush_tokenizer_kind, int64_t room); /* of that many tokens */
/* What a token stands for; `found`: by it, too, unless an earlier one is. A number below the room; t->n counts up to the largest. */
int rush_tokenizer_put(rush_tokenizer *, int64_t token, const char *text, size_t n, bool found);
bool rush_tokenizer_put_byte(rush_tokenizer *, int32_t token, const char *text); /* is it written as SentencePiece's bytes, <0x41>? Then it is put */
int rush_tokenizer_put_special(rush_tokenizer *, int32_t token, const char *text, size_t n);
int32_t rush_tokenizer_find(const rush_tokenizer *, const char *text, size_t n); /* -1: none */
/* How a file writes what a token stands for, opened: letters become bytes, SentencePiece's blanks blanks. `to` has room for n; how many it has then. */
size_t rush_tokenizer_open(const rush_tokenizer *, const char *text, size_t n, char *to);
/* Two tokens become the one that stands for both; rank -1: which is the next one, and it is put. 1: there is none. */
int rush_tokenizer_put_pair(rush_tokenizer *, int32_t left, int32_t right, int32_t rank);
/* The same of two that a file writes with a blank between; room for what it writes. */
int rush_tokenizer_put_merge(rush_tokenizer *, const char *p, const char *end, int32_t rank, char *room);
void rush_tokenizer_finish(rush_tokenizer *); /* all is said */
bool rush_tokenizer_given(const rush_tokenizer *);

/* Into `to`, which has room for rush_tokenizer_most(); how many, -1 and an error. */
size_t rush_tokenizer_most(const rush_tokenizer *, size_t n);
int64_t rush_tokenizer_encode_to(const rush_tokenizer *, const char *text, size_t n, int32_t *to);
const char *rush_tokenizer_piece(const rush_tokenizer *, int64_t token, size_t *n);

typedef struct rush_named_text {
    const char *text;
    size_t n;
    const char *name; /* of the file, for messages */
} rush_named_text;
rush_tokenizer *rush_tokenizer_read(rush_named_text merges, const rush_named_text *vocabulary); /* rush_tokenizer_load() of what is in memory */
int rush_tokenizer_tables(const rush_tokenizer *, rush_tensor **pairs, rush_tensor **bytes); /* what rushlight::tokens takes; parked. 0; -1 and an error */
bool rush_tokenizer_is_end(const char *text); /* is a special token of that name the end of a text or a turn? */
rush_tokenizer *rush_tokenizer_of_json(rush_named_text); /* Hugging Face's tokenizer.json */
rush_tokenizer *rush_tokenizer_of_gguf(const rush_gguf *); /* that its metadata tell of */

#endif
