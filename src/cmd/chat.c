/* chat.c - `rushlight chat MODEL.gguf`: a conversation, a line of the standard input and an answer in turn. */
#include "cmd/speak.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct conversation {
    rush_lm_message *said; /* contents are its own */
    size_t n, room;
} conversation;

/* Takes the content over. */
static int add(conversation *c, const char *role, char *content)
{
    if (content && c->n == c->room) {
        size_t room = c->room * 2 + 16;
        rush_lm_message *more = realloc(c->said, room * sizeof *more);
        if (!more) free(content), content = NULL;
        else c->said = more, c->room = room;
    }
    if (!content) return rush_fail(RUSH_MEMORY_ERROR, "chat: no memory");
    c->said[c->n++] = (rush_lm_message){role, content};
    return 0;
}

/* Prints the answer and adds it. 1: there is no more room; -1 and an error. */
static int answer(const rush_speak *o, rush_lm *lm, rush_lm *draft, conversation *c)
{
    char *text = NULL;
    size_t length, count, written;
    FILE *copy = open_memstream(&text, &written);
    if (!copy) return rush_fail(RUSH_MEMORY_ERROR, "chat: no memory");
    int full = -1;
    rush_scope() {
        const char *whole = rush_lm_chat(lm, c->n, c->said, &length);
        const int32_t *tokens = whole ? rush_lm_encode(lm, whole, length, &count) : NULL;
        int64_t same = tokens ? rush_lm_resume(lm, tokens, count) : -1;
        full = same < 0 ? -1 : (int64_t)count > rush_lm_context(lm);
        if (!full && rush_speak_on(o, lm, draft, rush_lm_feed(lm, tokens + same, count - (size_t)same), copy) < 0) full = -1;
    }
    if (fclose(copy) && !full) full = rush_fail(RUSH_MEMORY_ERROR, "chat: no memory");
    if (!full) return add(c, "assistant", text);
    free(text);
    return full;
}

static int talk(const rush_speak *o, conversation *c)
{
    rush_lm *lm = rush_lm_load_with(o->model, &o->from), *draft = rush_speak_draft(o);
    if (rush_error() || !rush_lm_chat(lm, 0, NULL, NULL) || (o->system && add(c, "system", strdup(o->system)))) return -1;
    bool asks = isatty(STDIN_FILENO);
    int full = 0;
    for (; !full; printf("\n")) {
        char *line = NULL;
        size_t room = 0;
        if (asks) printf("> "), fflush(stdout);
        ssize_t n = getline(&line, &room, stdin);
        if (n < 0) free(line);
        if (n < 0) break;
        if (n && line[n - 1] == '\n') line[n - 1] = 0;
        full = add(c, "user", line) ? -1 : answer(o, lm, draft, c);
    }
    if (full > 0) fprintf(stderr, "rushlight: the model's context of %lld tokens is full\n", (long long)rush_lm_context(lm));
    return full < 0 ? -1 : 0;
}

const char rush_usage_chat[] =
    "usage: rushlight chat MODEL.gguf [--system TEXT] [-n TOKENS] [--temperature T] [--top-k K] [--top-p P] [--repetition R]\n"
    "                     [--seed S] [--context TOKENS] [--tokenizer tokenizer.json] [--cache int8] [--draft SMALL.gguf]\n  a line of the standard input, an answer, and so on; -n: the most of an answer\n";

int rush_cmd_chat(int n, char **args)
{
    rush_speak o = {.tokens = 1024, .seed = -1};
    if ((n = rush_speak_options(&o, "chat", &(rush_option){"--system", RUSH_TO(&o.system)}, 1, n, args)) < 0) return n;
    int failed = 0;
    conversation c = {0};
    rush_scope() {
        if (o.seed >= 0) rush_manual_seed((uint64_t)o.seed);
        failed = talk(&o, &c);
        if (failed) fprintf(stderr, "rushlight: %s\n", rush_error());
    }
    for (size_t i = 0; i < c.n; i++) free((char *)c.said[i].content);
    free(c.said);
    return failed != 0;
}
