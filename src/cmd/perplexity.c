/* perplexity.c - `rushlight perplexity MODEL.gguf TEXT.txt`: how well a model foretells a text.
 *
 * As llama.cpp's tool counts: the text is cut into windows, each begins as a text of its own, and of each the second half is foretold.
 */
#include "cmd/speak.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 512 };

typedef struct tally {
    double sum, squares; /* of -log p */
    long long n;
} tally;

static int score(rush_lm *lm, int32_t *tokens, size_t all, size_t window, tally *to)
{
    size_t begins = 0;
    const int32_t *begin = rush_lm_encode(lm, "", 0, &begins); /* what stands before each text */
    float *scores = begin ? malloc(window * sizeof *scores) : NULL;
    int failed = !scores;
    for (size_t at = 0; !failed && at + window <= all; at += window) {
        if (begins) tokens[at] = *begin;
        failed = rush_lm_rewind(lm, 0) || rush_lm_score(lm, tokens + at, window, scores);
        for (size_t i = window / 2 + 1; i < window && !failed; i++, to->n++) to->sum -= scores[i], to->squares += (double)scores[i] * scores[i];
    }
    free(scores);
    return failed;
}

static int measure(const rush_speak *o, const char *text, size_t length)
{
    rush_lm *lm = rush_lm_load_with(o->model, &o->from);
    long long window = o->from.context;
    size_t n;
    const int32_t *found = lm ? rush_lm_encode(lm, text, length, &n) : NULL;
    if (!found) return -1;
    if (rush_lm_context(lm) < window) window = rush_lm_context(lm);
    if (n < (size_t)window) return rush_fail(RUSH_VALUE_ERROR, "perplexity: the text has %zu tokens, but a window %lld (--context)", n, window);
    int32_t *tokens = malloc(n * sizeof *tokens);
    tally t = {0};
    int failed = !tokens || score(lm, memcpy(tokens, found, n * sizeof *tokens), n, (size_t)window, &t);
    free(tokens);
    if (failed) return -1;
    double mean = t.sum / (double)t.n, off = sqrt(fmax(t.squares / (double)t.n - mean * mean, 0) / (double)t.n);
    printf("perplexity %.4f +- %.4f (%lld tokens in windows of %lld)\n", exp(mean), off * exp(mean), t.n, window);
    return 0;
}

const char rush_usage_perplexity[] =
    "usage: rushlight perplexity MODEL.gguf TEXT [--context TOKENS] [--tokenizer tokenizer.json] [--cache int8]\n  TEXT: a file, or - for the standard input\n";

int rush_cmd_perplexity(int n, char **args)
{
    rush_speak o = {.from.context = WINDOW};
    if ((n = rush_speak_options(&o, "perplexity", NULL, 2, n, args)) < 0) return n;
    FILE *f = strcmp(args[1], "-") ? fopen(args[1], "rb") : stdin;
    if (!f) return fprintf(stderr, "rushlight: can't read '%s': %s\n", args[1], strerror(errno)), 1;
    size_t length;
    char *text = rush_read_all(f, &length);
    bool unread = ferror(f);
    if (unread) fprintf(stderr, "rushlight: can't read '%s': %s\n", args[1], strerror(errno));
    if (f != stdin) fclose(f);
    if (unread) return free(text), 1;
    if (!text) return fprintf(stderr, "rushlight: no memory for the text\n"), 1;
    int failed = 0;
    rush_scope() {
        failed = measure(&o, text, length);
        if (failed) fprintf(stderr, "rushlight: %s\n", rush_error() ? rush_error() : "no memory");
    }
    free(text);
    return failed != 0;
}
