/* chat.c - `rushlight chat MODEL.gguf`: a conversation, a line of the standard input and an answer in turn.
 *
 * How a turn is written is told by the template in the file. Templates are programs (Jinja); here only those of known families are recognised, by the marks they print.
 */
#include "cmd/speak.h"
#include "cmd/cmd.h"
#include <rushlight/checkpoint.h>
#include <rushlight/gguf.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct style {
    const char *mark;                   /* only its templates have it */
    const char *system, *system_end;    /* around what the model is told first */
    const char *user, *user_first;      /* before what is said; where it follows what the model is told */
    const char *answer, *answer_end;    /* before and after the answer */
} style;

static const style styles[] = {
    {"<|im_start|>", "<|im_start|>system\n", "<|im_end|>\n", "<|im_start|>user\n", "<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n", "<|im_end|>\n"},
    {"<|start_header_id|>", "<|start_header_id|>system<|end_header_id|>\n\n", "<|eot_id|>", "<|start_header_id|>user<|end_header_id|>\n\n",
     "<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>"},
    {"[INST]", "[INST] <<SYS>>\n", "\n<</SYS>>\n\n", "[INST] ", "", " [/INST]", "</s><s>"},
};

static const style *style_of(const char *path)
{
    const rush_content *about = rush_gguf_metadata(path), *text = about ? rush_content_get(about, "tokenizer.chat_template") : NULL;
    bool there = text && text->kind == RUSH_CONTENT_TEXT;
    for (size_t i = 0; there && i < sizeof styles / sizeof *styles; i++)
        if (strstr(text->s, styles[i].mark)) return &styles[i];
    if (about)
        rush_fail(RUSH_NOT_IMPLEMENTED, there ? "chat: the template of '%s' is of no known family: ChatML (Qwen), Llama 3 and Llama 2 (Mistral) are known here" : "chat: '%s' has no chat template: use generate", path);
    return NULL;
}

/* Feeds one turn and prints the answer. 1: there is no more room; -1 and an error. */
static int turn(const rush_speak *o, rush_lm *lm, const style *s, const char *said, size_t length)
{
    bool first = rush_lm_position(lm) == 0, told = first && o->system;
    const char *parts[] = {first ? "" : s->answer_end, told ? s->system : "", told ? o->system : "", told ? s->system_end : "", told ? s->user_first : s->user};
    size_t n = length + strlen(s->answer) + 1, begins = 0, count = 0, at = 0;
    for (size_t i = 0; i < 5; i++) n += strlen(parts[i]);
    char *text = malloc(n);
    if (!text) return rush_fail(RUSH_MEMORY_ERROR, "chat: no memory");
    for (size_t i = 0; i < 5; i++) at += strlen(strcpy(text + at, parts[i]));
    memcpy(text + at, said, length);
    strcpy(text + at + length, s->answer);
    int full = -1;
    rush_scope() {
        if (rush_lm_encode(lm, "", 0, &begins) && first) begins = 0; /* what stands before a text does so once */
        const int32_t *tokens = rush_lm_encode(lm, text, n - 1, &count);
        full = !tokens ? -1 : (int64_t)(count - begins) > rush_lm_context(lm) - rush_lm_position(lm);
        const float *logits = full ? NULL : rush_lm_feed(lm, tokens + begins, count - begins);
        if (full == 0 && rush_speak_on(o, lm, logits) < 0) full = -1;
    }
    free(text);
    return full;
}

static int talk(const rush_speak *o)
{
    const style *s = style_of(o->model);
    rush_lm *lm = s ? rush_lm_load(o->model, o->context) : NULL;
    bool asks = isatty(STDIN_FILENO);
    char *line = NULL;
    size_t room = 0;
    int full = lm ? 0 : -1;
    for (ssize_t n; !full; printf("\n")) {
        if (asks) printf("> "), fflush(stdout);
        if ((n = getline(&line, &room, stdin)) < 0) break;
        full = turn(o, lm, s, line, (size_t)n - (n && line[n - 1] == '\n'));
    }
    free(line);
    if (full > 0) fprintf(stderr, "rushlight: the model's context of %lld tokens is full\n", (long long)rush_lm_context(lm));
    return full < 0 ? -1 : 0;
}

int rush_cmd_chat(int n, char **args)
{
    rush_speak o = {.tokens = 1024, .seed = -1, .talks = true};
    if (rush_speak_options(&o, n, args) || o.prompt)
        return fprintf(stderr, "usage: rushlight chat MODEL.gguf [--system TEXT] [-n TOKENS] [--temperature T] [--top-k K] [--top-p P] [--repetition R]\n"
                               "                     [--seed S] [--context TOKENS]\n  a line of the standard input, an answer, and so on; -n: the most of an answer\n"), 2;
    int failed = 0;
    rush_scope() {
        if (o.seed >= 0) rush_manual_seed((uint64_t)o.seed);
        failed = talk(&o);
        if (failed) fprintf(stderr, "rushlight: %s\n", rush_error());
    }
    return failed != 0;
}
