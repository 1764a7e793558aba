/* chat.c - a conversation as the text that a model was trained on.
 *
 * How it is written is told by the template in the file. Templates are programs (Jinja); here only those of known families are recognised, by the marks they print.
 */
#include "lm/lm.h"

typedef struct around {
    const char *before, *after;
} around;

struct rush_lm_style {
    const char *mark; /* only its templates have it */
    around system, user, answer;
    const char *user_after_system; /* what stands there instead of user.before */
};

static const rush_lm_style styles[] = {
    {"<|im_start|>", {"<|im_start|>system\n", "<|im_end|>\n"}, {"<|im_start|>user\n", "<|im_end|>\n"}, {"<|im_start|>assistant\n", "<|im_end|>\n"}, "<|im_start|>user\n"},
    {"<|start_header_id|>", {"<|start_header_id|>system<|end_header_id|>\n\n", "<|eot_id|>"}, {"<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|>"},
     {"<|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>"}, "<|start_header_id|>user<|end_header_id|>\n\n"},
    {"[INST]", {"[INST] <<SYS>>\n", "\n<</SYS>>\n\n"}, {"[INST] ", " [/INST]"}, {"", "</s><s>"}, ""},
};

const rush_lm_style *rush_lm_style_of(const rush_gguf *file, bool *has_template)
{
    const rush_content *text = rush_content_get(file->metadata, "tokenizer.chat_template");
    *has_template = text && text->kind == RUSH_CONTENT_TEXT;
    for (size_t i = 0; *has_template && i < RUSH_COUNT(styles); i++)
        if (strstr(text->s, styles[i].mark)) return &styles[i];
    return NULL;
}

/* What stands around the message; NULL and an error. */
static const around *around_of(const rush_lm_style *s, const rush_lm_message *m)
{
    RUSH_CHECK_NULL(m->role && m->content, RUSH_TYPE_ERROR, "a message without a role or a content (NULL)");
    if (!strcmp(m->role, "system")) return &s->system;
    if (!strcmp(m->role, "user")) return &s->user;
    if (!strcmp(m->role, "assistant")) return &s->answer;
    return rush_fail(RUSH_VALUE_ERROR, "a message of '%.100s': roles are system, user and assistant", m->role), NULL;
}

const char *rush_lm_chat(const rush_lm *lm, size_t n, const rush_lm_message *messages, size_t *length)
{
    if (!rush_lm_given(lm)) return NULL;
    RUSH_CHECK_NULL(lm->has_template, RUSH_NOT_IMPLEMENTED, "the model's file has no chat template: it goes on with texts only");
    RUSH_CHECK_NULL(lm->style, RUSH_NOT_IMPLEMENTED, "the chat template of the model's file is of no known family: ChatML (Qwen), Llama 3 and Llama 2 (Mistral) are known here");
    RUSH_CHECK_NULL(messages || !n, RUSH_TYPE_ERROR, "a conversation without messages (NULL)");
    const rush_lm_style *s = lm->style;
    size_t room = strlen(s->answer.before) + 1;
    for (size_t i = 0; i < n; i++) {
        const around *a = around_of(s, &messages[i]);
        if (!a) return NULL;
        room += strlen(a->before) + strlen(messages[i].content) + strlen(a->after);
    }
    char *text = rush_scope_alloc(room), *to = text;
    if (!text) return NULL;
    for (size_t i = 0; i < n; i++) {
        const around *a = around_of(s, &messages[i]);
        bool told = i && a == &s->user && !strcmp(messages[i - 1].role, "system");
        to = stpcpy(stpcpy(stpcpy(to, told ? s->user_after_system : a->before), messages[i].content), a->after);
    }
    to = stpcpy(to, s->answer.before);
    if (length) *length = (size_t)(to - text);
    return text;
}
