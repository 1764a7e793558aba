/* generate.c - `rushlight generate MODEL.gguf -p TEXT`: goes on with a text, token by token. */
#include "cmd/speak.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

const char rush_usage_generate[] =
    "usage: rushlight generate MODEL.gguf -p TEXT [-n TOKENS] [--temperature T] [--top-k K] [--top-p P] [--seed S]\n"
    "                         [--repetition R] [--context TOKENS] [--tokenizer tokenizer.json]\n"
    "                         [--cache int8] [--draft SMALL.gguf] [--numbers] [--timed]\n"
    "  -p -: the text is read from the standard input; --temperature 0 (the default): the likeliest token each time;\n"
    "  --draft: a smaller model of the same tokens that proposes some, which the model checks together: the same text in less time\n";

int rush_speak_options(rush_speak *o, const char *command, const rush_option *own, int words, int n, char **args)
{
    const rush_option known[] = {
        {"--tokenizer", RUSH_TO(&o->from.tokenizer)}, {"--cache", RUSH_TO(&o->from.cache)}, {"--context", RUSH_TO(&o->from.context), .least = own ? 0 : 4}, own ? *own : (rush_option){0},
        {"-n", RUSH_TO(&o->tokens)}, {"--temperature", RUSH_TO(&o->how.temperature)}, {"--top-k", RUSH_TO(&o->how.top_k)}, {"--top-p", RUSH_TO(&o->how.top_p)},
        {"--repetition", RUSH_TO(&o->how.repetition)}, {"--seed", RUSH_TO(&o->seed), 0, INT64_MAX}, {"--draft", RUSH_TO(&o->draft)}, {"--numbers", RUSH_TO(&o->numbers)}, {"--timed", RUSH_TO(&o->timed)}, {0}};
    n = rush_options_read(command, known, words, n, args);
    o->model = args[0];
    return n < 0 || n == words ? n : RUSH_CMD_WRONG;
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

char *rush_read_all(FILE *f, size_t *n)
{
    size_t room = 1 << 16;
    char *text = malloc(room);
    for (*n = 0; text; *n += fread(text + *n, 1, room - *n, f)) {
        if (feof(f) || ferror(f)) return text;
        if (*n < room) continue;
        char *more = realloc(text, room *= 2);
        if (!more) free(text);
        text = more;
    }
    return NULL;
}

static void show(const rush_speak *o, const rush_lm *lm, int32_t token, FILE *copy)
{
    size_t n;
    const char *piece = rush_lm_piece(lm, token, &n);
    if (o->numbers) printf("%d ", token);
    else fwrite(piece, 1, n, stdout);
    fflush(stdout);
    if (copy) fwrite(piece, 1, n, copy);
}

rush_lm *rush_speak_draft(const rush_speak *o) { return o->draft ? rush_lm_load_with(o->draft, &o->from) : NULL; }

long long rush_speak_on(const rush_speak *o, rush_lm *lm, rush_lm *draft, const float *logits, FILE *copy)
{
    int32_t next[RUSH_LM_AHEAD + 1] = {logits ? rush_lm_draw(lm, logits, &o->how) : -1};
    long long made = 0;
    for (int64_t n = 1; n > 0 && o->tokens > 0; n = rush_lm_speculate(lm, draft, next[n - 1], (size_t)(o->tokens - made), next, &o->how)) {
        for (int64_t i = 0; i < n; i++) {
            if (next[i] < 0 || rush_lm_ends(lm, next[i])) return rush_error() ? -1 : made;
            show(o, lm, next[i], copy);
            if (++made == o->tokens) return made;
        }
        if (rush_lm_position(lm) == rush_lm_context(lm)) return made;
    }
    return rush_error() ? -1 : made;
}

static int go_on(const rush_speak *o, const char *prompt, size_t length)
{
    size_t n;
    rush_lm *lm = rush_lm_load_with(o->model, &o->from), *draft = rush_speak_draft(o);
    const int32_t *tokens = lm && !rush_error() ? rush_lm_encode(lm, prompt, length, &n) : NULL;
    if (!tokens) return -1;
    if (!n) return rush_fail(RUSH_VALUE_ERROR, "generate: there is nothing to go on from");
    double begin = seconds();
    const float *logits = rush_lm_feed(lm, tokens, n);
    double read = seconds();
    long long made = rush_speak_on(o, lm, draft, logits, NULL);
    double end = seconds();
    printf("\n");
    if (o->timed && made >= 0)
        fprintf(stderr, "read %zu tokens in %.3f s (%.2f a second), wrote %lld in %.3f s (%.2f a second)\n", n, read - begin, (double)n / (read - begin), made, end - read,
                (double)(made - 1) / (end - read)); /* the first one's step is that of the last read */
    return made < 0 ? -1 : 0;
}

int rush_cmd_generate(int n, char **args)
{
    rush_speak o = {.tokens = 128, .seed = -1};
    if ((n = rush_speak_options(&o, "generate", &(rush_option){"-p", RUSH_TO(&o.prompt)}, 1, n, args)) < 0) return n;
    if (!o.prompt) return RUSH_CMD_WRONG;
    bool piped = !strcmp(o.prompt, "-");
    size_t length = strlen(o.prompt);
    char *all = piped ? rush_read_all(stdin, &length) : NULL;
    if (piped && !all) return fprintf(stderr, "rushlight: no memory for the text\n"), 1;
    int failed = 0;
    rush_scope() {
        if (o.seed >= 0) rush_manual_seed((uint64_t)o.seed);
        failed = go_on(&o, piped ? all : o.prompt, length);
        if (failed) fprintf(stderr, "rushlight: %s\n", rush_error());
    }
    free(all);
    return failed != 0;
}
