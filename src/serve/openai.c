/* openai.c - /v1/models, /v1/completions and /v1/chat/completions as OpenAI's clients speak them, for language models (text.c).
 *
 * A request asks for one or more choices; each is a job of its own. A stream sends the same in parts, as server-sent events.
 */
#include "serve/serve.h"
#include "base/utf8.h"

#include <civetweb.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_CHOICES = 128 };

typedef struct ask {
    struct mg_connection *c;
    const rush_json *json;
    const char *name; /* of the model, as the client says it */
    serve_model *model;
    bool chat, stream, usage, plain; /* plain: a stream without chunks, for HTTP/1.0 */
    bool begun;                      /* the head of a stream is sent                 */
    int choices;                     /* of each prompt                               */
    char id[40];
    long long created;
    uint64_t seed;
    int64_t read, made;
} ask;

void serve_openai_put_error(serve_text *t, int status, const char *why)
{
    serve_print(t, "{\"error\":{\"message\":");
    serve_put_json(t, why);
    serve_print(t, ",\"type\":\"%s\",\"param\":null,\"code\":%s}}", status < 500 && status != 429 ? "invalid_request_error" : "server_error",
                status == 401 ? "\"invalid_api_key\"" : status == 404 ? "\"model_not_found\"" : "null");
}

/* ---- what is asked ---- */

static bool is_nothing(const rush_json *x)
{
    return !x || x->kind == RUSH_JSON_NULL || ((x->kind == RUSH_JSON_BOOL || x->kind == RUSH_JSON_WHOLE || x->kind == RUSH_JSON_NUMBER) && x->number == 0 && !x->i) ||
           ((x->kind == RUSH_JSON_LIST || x->kind == RUSH_JSON_OBJECT) && !x->n);
}

static int number(const rush_json *json, const char *name, double least, double most, double *to)
{
    const rush_json *x = rush_json_get(json, name);
    if (!x || x->kind == RUSH_JSON_NULL) return 0;
    RUSH_CHECK(rush_json_is_number(x) && x->number >= least && x->number <= most, RUSH_VALUE_ERROR, "'%s' must be a number from %g to %g", name, least, most);
    *to = x->number;
    return 0;
}

static int whole(const rush_json *json, const char *name, int64_t least, int64_t most, int64_t *to)
{
    const rush_json *x = rush_json_get(json, name);
    if (!x || x->kind == RUSH_JSON_NULL) return 0;
    RUSH_CHECK(x->kind == RUSH_JSON_WHOLE && x->i >= least && x->i <= most, RUSH_VALUE_ERROR, "'%s' must be an integer from %lld to %lld", name, (long long)least, (long long)most);
    *to = x->i;
    return 0;
}

static int refuse_unknown(const rush_json *json)
{
    static const char *const names[] = {"suffix", "tools", "functions", "audio", "prediction", "web_search_options"};
    for (size_t k = 0; k < sizeof names / sizeof *names; ++k)
        RUSH_CHECK(is_nothing(rush_json_get(json, names[k])), RUSH_NOT_IMPLEMENTED, "'%s' is not supported", names[k]);
    const char *form = rush_json_text_of(rush_json_get(json, "response_format"), "type");
    RUSH_CHECK(!form || !strcmp(form, "text"), RUSH_NOT_IMPLEMENTED, "'response_format' can only be text");
    return 0;
}

static int read_stops(const rush_json *json, serve_talk *t)
{
    const rush_json *stop = rush_json_get(json, "stop"), *x = rush_json_is(stop, RUSH_JSON_LIST) ? stop->first : stop;
    if (!stop || stop->kind == RUSH_JSON_NULL) return 0;
    for (; x; x = rush_json_is(stop, RUSH_JSON_LIST) ? x->next : NULL) {
        const char *text = rush_json_text(x);
        RUSH_CHECK(text && *text && strlen(text) < SERVE_STOP && t->stops < SERVE_STOPS, RUSH_VALUE_ERROR, "'stop' must be at most %d texts of 1 to %d bytes", SERVE_STOPS, SERVE_STOP - 1);
        memcpy(t->stop[t->stops++], text, strlen(text) + 1);
    }
    return 0;
}

static int read_tokens(const rush_json *list, serve_talk *t)
{
    RUSH_CHECK(list->n, RUSH_VALUE_ERROR, "the prompt is empty");
    t->tokens = malloc(list->n * sizeof *t->tokens);
    RUSH_CHECK(t->tokens, RUSH_MEMORY_ERROR, "out of memory");
    rush_json_each(x, list) {
        RUSH_CHECK(x->kind == RUSH_JSON_WHOLE && x->i >= 0 && x->i <= INT32_MAX, RUSH_VALUE_ERROR, "'prompt' must be a text, a list of texts, of tokens, or of lists of tokens");
        t->tokens[t->ntokens++] = (int32_t)x->i;
    }
    return 0;
}

/* A content is a text, or parts of which each is one. */
static int put_content(serve_text *to, const rush_json *content)
{
    bool parts = rush_json_is(content, RUSH_JSON_LIST);
    for (const rush_json *x = parts ? content->first : content; x; x = parts ? x->next : NULL) {
        const char *type = rush_json_text_of(x, "type"), *text = parts ? type && !strcmp(type, "text") ? rush_json_text_of(x, "text") : NULL : rush_json_text(x);
        RUSH_CHECK(text, RUSH_VALUE_ERROR, "a message's 'content' must be a text, or a list of parts whose type is 'text'");
        serve_put(to, text, strlen(text));
    }
    RUSH_CHECK(content, RUSH_VALUE_ERROR, "a message has no 'content'");
    serve_put(to, "", 1);
    return 0;
}

static int read_messages(const rush_json *json, serve_talk *t)
{
    static const char *const roles[] = {"developer", "system", "user", "assistant"};
    const rush_json *list = rush_json_get(json, "messages");
    RUSH_CHECK(rush_json_is(list, RUSH_JSON_LIST) && list->n, RUSH_VALUE_ERROR, "'messages' must be a list of at least one message");
    rush_json_each(x, list) {
        const char *role = rush_json_text_of(x, "role");
        size_t k = 0, n = sizeof roles / sizeof *roles;
        while (k < n && role && strcmp(roles[k], role)) ++k;
        RUSH_CHECK(role && k < n, RUSH_VALUE_ERROR, "a message's 'role' must be system, developer, user or assistant");
        serve_put(&t->prompt, roles[k ? k : 1], strlen(roles[k ? k : 1]) + 1); /* a developer is the system */
        if (put_content(&t->prompt, rush_json_get(x, "content"))) return -1;
    }
    return 0;
}

static int read_bias(const rush_json *json, serve_talk *t)
{
    const rush_json *all = rush_json_get(json, "logit_bias");
    if (is_nothing(all)) return 0;
    rush_lm_bias *bias = rush_json_is(all, RUSH_JSON_OBJECT) ? malloc(all->n * sizeof *bias) : NULL;
    RUSH_CHECK(bias || !rush_json_is(all, RUSH_JSON_OBJECT), RUSH_MEMORY_ERROR, "out of memory");
    t->how.bias = bias;
    rush_json_each(x, bias ? all : NULL) {
        char *end;
        long token = strtol(x->name, &end, 10);
        bool good = end != x->name && !*end && token >= 0 && token <= INT32_MAX && rush_json_is_number(x) && x->number >= -100 && x->number <= 100;
        RUSH_CHECK(good, RUSH_VALUE_ERROR, "'logit_bias' must have numbers from -100 to 100 for numbers of tokens");
        bias[t->how.nbias++] = (rush_lm_bias){(int32_t)token, (float)x->number};
    }
    RUSH_CHECK(bias, RUSH_VALUE_ERROR, "'logit_bias' must be an object");
    return 0;
}

/* A chat says whether, and then of how many; the other path says of how many. */
static int read_likeliest(const ask *a, serve_talk *t)
{
    const rush_json *said = rush_json_get(a->json, "logprobs");
    int64_t n = -1;
    t->likeliest = -1;
    if (!a->chat && whole(a->json, "logprobs", 0, SERVE_LIKELIEST, &n)) return -1;
    if (a->chat) {
        RUSH_CHECK(!said || said->kind == RUSH_JSON_NULL || said->kind == RUSH_JSON_BOOL, RUSH_VALUE_ERROR, "'logprobs' must be true or false");
        if (rush_json_is_true(said)) n = 0;
        else RUSH_CHECK(is_nothing(rush_json_get(a->json, "top_logprobs")), RUSH_VALUE_ERROR, "'top_logprobs' needs 'logprobs' to be true");
        if (n == 0 && whole(a->json, "top_logprobs", 0, SERVE_LIKELIEST, &n)) return -1;
    }
    t->likeliest = (int)n;
    return 0;
}

static int read_talk(const ask *a, const rush_json *prompt, serve_talk *t)
{
    const rush_json *json = a->json;
    double temperature = 1, top_p = 1;
    t->chat = a->chat;
    t->most = a->chat ? -1 : 16;
    if (number(json, "temperature", 0, 2, &temperature) || number(json, "top_p", 0, 1, &top_p) || whole(json, "top_k", 0, INT32_MAX, &t->how.top_k)) return -1;
    if (whole(json, "max_tokens", a->chat ? 1 : 0, INT32_MAX, &t->most) || (a->chat && whole(json, "max_completion_tokens", 1, INT32_MAX, &t->most)) || read_stops(json, t)) return -1;
    if (number(json, "frequency_penalty", -2, 2, &t->how.frequency) || number(json, "presence_penalty", -2, 2, &t->how.presence) || read_bias(json, t) || read_likeliest(a, t)) return -1;
    t->how.temperature = temperature;
    t->how.top_p = top_p > 0 ? top_p : 1e-9; /* of 0 the likeliest is left, as of anything small */
    t->echo = !a->chat && rush_json_is_true(rush_json_get(json, "echo"));
    if (a->chat) {
        if (read_messages(json, t)) return -1;
    } else if (rush_json_is(prompt, RUSH_JSON_LIST)) {
        if (read_tokens(prompt, t)) return -1;
    } else serve_put(&t->prompt, prompt->text, strlen(prompt->text));
    RUSH_CHECK(!t->prompt.failed, RUSH_MEMORY_ERROR, "out of memory");
    return 0;
}

/* The job of one choice; NULL and an error. */
static serve_job *job_of(ask *a, const rush_json *prompt, int index)
{
    serve_job *j = serve_job_new(a->model);
    if (j && !(j->talk = calloc(1, sizeof *j->talk))) rush_fail(RUSH_MEMORY_ERROR, "out of memory");
    if (!j || !j->talk || read_talk(a, prompt, j->talk)) return serve_job_drop(j), NULL;
    j->talk->seed = a->seed + (uint64_t)index;
    return j;
}

/* ---- what is answered ---- */

static void put_head(const ask *a, serve_text *t)
{
    serve_print(t, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,\"model\":", a->id, a->chat ? a->stream ? "chat.completion.chunk" : "chat.completion" : "text_completion", a->created);
    serve_put_json(t, a->name);
    serve_print(t, ",\"choices\":[");
}

static void put_usage(const ask *a, serve_text *t)
{
    serve_print(t, "\"usage\":{\"prompt_tokens\":%lld,\"completion_tokens\":%lld,\"total_tokens\":%lld}", (long long)a->read, (long long)a->made, (long long)(a->read + a->made));
}

static void put_log(serve_text *t, const char *before, float log)
{
    if (isnan(log)) serve_print(t, "%snull", before);
    else serve_print(t, "%s%.7g", before, isinf(log) ? -9999. : log);
}

static void put_piece(serve_text *t, const serve_talk *k, const serve_chance *c) { serve_put_json_bytes(t, k->pieces.p + c->piece, c->bytes); }

/* One of a chat's, without its end. */
static void put_chance(serve_text *t, const char *before, const serve_talk *k, const serve_chance *c)
{
    serve_print(t, "%s{\"token\":", before);
    put_piece(t, k, c);
    put_log(t, ",\"logprob\":", c->log);
    for (size_t i = 0; i < c->bytes; ++i) serve_print(t, i ? ",%d" : ",\"bytes\":[%d", (unsigned char)k->pieces.p[c->piece + i]);
    serve_print(t, c->bytes ? "]" : ",\"bytes\":[]");
}

static void put_chat_chances(serve_text *t, const serve_talk *k, const serve_chance *c, const serve_chance *end)
{
    serve_print(t, "{\"content\":[");
    for (const char *between = ""; c < end; between = ",") {
        put_chance(t, between, k, c++);
        serve_print(t, ",\"top_logprobs\":[");
        for (const char *inner = ""; c < end && c->rank; inner = ",", serve_print(t, "}")) put_chance(t, inner, k, c++);
        serve_print(t, "]}");
    }
    serve_print(t, "],\"refusal\":null}");
}

/* {"the": -1.5, ...}: the token itself is always among them. Where the next one stands. */
static const serve_chance *put_likeliest(serve_text *t, const serve_talk *k, const serve_chance *said, const serve_chance *end)
{
    const serve_chance *c = said + 1;
    const char *before = "{";
    bool among = false;
    for (; c < end && c->rank; ++c, before = ",") {
        among |= c->token == said->token;
        serve_print(t, "%s", before);
        put_piece(t, k, c);
        put_log(t, ":", c->log);
    }
    if (!among) serve_print(t, "%s", before), put_piece(t, k, said), put_log(t, ":", said->log);
    serve_print(t, "}");
    return c;
}

/* The other path has a column for each. */
static void put_columns(serve_text *t, const serve_talk *k, const serve_chance *c, const serve_chance *end)
{
    static const char *const names[] = {"{\"tokens\":[", "],\"token_logprobs\":[", "],\"text_offset\":[", "],\"top_logprobs\":["};
    serve_text column[4] = {0};
    size_t characters = 0, counted = 0;
    for (const char *before = ""; c < end; before = ",") {
        for (int i = 0; i < 4; ++i) serve_print(&column[i], "%s", before);
        put_piece(&column[0], k, c);
        put_log(&column[1], "", c->log);
        for (; counted < c->at; ++characters) counted += (size_t)RUSH_MAX(rush_utf8_length(k->said.p + counted), 1);
        serve_print(&column[2], "%zu", characters);
        if (isnan(c->log)) serve_print(&column[3], "null"), ++c;
        else c = put_likeliest(&column[3], k, c, end);
    }
    for (int i = 0; i < 4; ++i) {
        serve_print(t, "%s", names[i]);
        if (column[i].n) serve_put(t, column[i].p, column[i].n);
        t->failed |= column[i].failed;
        free(column[i].p);
    }
    serve_print(t, "]}");
}

/* How likely the tokens were whose text was taken since. */
static void put_chances(const ask *a, serve_text *t, serve_job *j)
{
    serve_talk *k = j->talk;
    pthread_mutex_lock(&j->lock);
    const serve_chance *all = (const serve_chance *)k->chances.p, *first = all ? all + k->told : NULL, *end = all ? all + k->chances.n / sizeof *all : NULL, *c = first;
    while (c < end && (k->finish || c->at < k->taken)) ++c;
    if (c == first && a->stream) serve_print(t, "null");
    else if (a->chat) put_chat_chances(t, k, first, c);
    else put_columns(t, k, first, c);
    k->told += (size_t)(c - first);
    pthread_mutex_unlock(&j->lock);
}

/* A choice, or what a part of a stream adds to it. role: it is the first part of a chat's. */
static void put_choice(const ask *a, serve_text *t, int index, serve_job *j, const serve_text *said, bool role, const char *finish)
{
    serve_print(t, "{\"index\":%d,\"logprobs\":", index);
    if (j->talk->likeliest >= 0 && (finish || !role)) put_chances(a, t, j);
    else serve_print(t, "null");
    serve_print(t, ",");
    if (!a->chat) serve_print(t, "\"text\":");
    else serve_print(t, "\"%s\":{%s", a->stream ? "delta" : "message", role ? "\"role\":\"assistant\"," : "");
    if (a->chat && (!finish || !a->stream)) serve_print(t, "\"content\":");
    if (!a->chat || !finish || !a->stream) serve_put_json_bytes(t, said->p ? said->p : "", said->n);
    if (a->chat) serve_print(t, a->stream ? "}" : ",\"refusal\":null}");
    serve_print(t, finish ? ",\"finish_reason\":\"%s\"}" : ",\"finish_reason\":null}", finish);
}

/* -1: the client has gone. */
static int send_event(ask *a, serve_text *t)
{
    int sent = -1;
    if (!t->failed && !a->begun) {
        a->begun = true;
        serve_count_response(200);
        bool stays = !a->plain && serve_stays(a->c);
        if (!stays) mg_disable_connection_keep_alive(a->c);
        mg_printf(a->c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nCache-Control: no-cache\r\n%sConnection: %s\r\n\r\n", a->plain ? "" : "Transfer-Encoding: chunked\r\n",
                  stays ? "keep-alive" : "close");
    }
    serve_print(t, "\n\n");
    if (!t->failed) sent = a->plain ? mg_write(a->c, t->p, t->n) : mg_send_chunk(a->c, t->p, (unsigned)t->n);
    free(t->p);
    *t = (serve_text){0};
    return sent > 0 ? 0 : -1;
}

static int send_part(ask *a, int index, serve_job *j, const serve_text *said, bool role, const char *finish)
{
    serve_text t = {0};
    serve_print(&t, "data: ");
    put_head(a, &t);
    put_choice(a, &t, index, j, said, role, finish);
    serve_print(&t, a->usage ? "],\"usage\":null}" : "]}");
    return send_event(a, &t);
}

static void send_stream_end(ask *a)
{
    serve_text t = {0};
    if (a->usage) {
        serve_print(&t, "data: ");
        put_head(a, &t);
        serve_print(&t, "],");
        put_usage(a, &t);
        serve_print(&t, "}");
        send_event(a, &t);
    }
    serve_print(&t, "data: [DONE]");
    send_event(a, &t);
    if (!a->plain) mg_send_chunk(a->c, "", 0);
}

/* What went wrong after a stream began is its last event. */
static void send_stream_error(ask *a, int status, const char *why)
{
    serve_text t = {0};
    serve_print(&t, "data: ");
    serve_openai_put_error(&t, status, why);
    send_event(a, &t);
    if (!a->plain) mg_send_chunk(a->c, "", 0);
    mg_disable_connection_keep_alive(a->c);
}

/* ---- one choice after the other ---- */

/* Parts as they are said. An HTTP status; 499: the client has gone. */
static int stream_choice(ask *a, serve_job *j, int index)
{
    serve_text said = {0}, none = {0};
    bool first = true;
    int status;
    do {
        said.n = 0;
        status = serve_talk_next(j, &said);
        if (status && status != 200) break;
        if (said.failed || (first && a->chat && send_part(a, index, j, &none, true, NULL)) || (said.n && send_part(a, index, j, &said, false, NULL))) status = 499;
        first = false;
    } while (!status);
    if (status == 200 && send_part(a, index, j, &none, false, j->talk->finish)) status = 499;
    if (status == 499) serve_talk_leave(j);
    free(said.p);
    return status;
}

static int whole_choice(ask *a, serve_job *j, int index, serve_text *out)
{
    serve_text said = {0};
    int status;
    while (!(status = serve_talk_next(j, &said))) continue;
    if (status == 200 && index) serve_put(out, ",", 1);
    if (status == 200) put_choice(a, out, index, j, &said, true, j->talk->finish);
    if (said.failed) out->failed = true;
    free(said.p);
    return status;
}

/* 200, 499, 410 (the model is being replaced), or another status, and then what is wrong has been sent. */
static int run_choice(ask *a, const rush_json *prompt, int index, serve_text *out)
{
    uint64_t begin = serve_now();
    if (strcmp(a->model->platform, "gguf")) return serve_note(a->model, false, begin), serve_send_error(a->c, 400, "the model is no language model: it answers at /v2/models/NAME/infer");
    serve_job *j = job_of(a, prompt, index);
    if (!j) return serve_note(a->model, false, begin), serve_send_failed(a->c);
    int status = serve_job_queue(j);
    if (!status) status = a->stream ? stream_choice(a, j, index) : whole_choice(a, j, index, out);
    if (status != 410) serve_note(a->model, status == 200, begin);
    if (status == 200) a->read += index % a->choices ? 0 : j->talk->read, a->made += j->talk->made;
    else if (a->begun && status != 499) send_stream_error(a, status, j->why);
    else if (status != 410 && status != 499) serve_send_error(a->c, status, j->why);
    serve_job_drop(j);
    return status;
}

/* Of a model that is being replaced the new one is asked. */
static int choose(ask *a, const rush_json *prompt, int index, serve_text *out)
{
    int status = 410;
    for (int tries = 0; status == 410 && tries < 8; ++tries) {
        a->model = serve_model_find(a->name, NULL);
        if (!a->model) {
            char why[256];
            snprintf(why, sizeof why, "The model '%.100s' does not exist", a->name);
            return a->begun ? send_stream_error(a, 404, why), 404 : serve_send_error(a->c, 404, why);
        }
        status = run_choice(a, prompt, index, out);
        serve_model_drop(a->model);
    }
    if (status == 410 && !a->begun) serve_send_error(a->c, 503, "the model is being replaced");
    return status;
}

static bool is_prompt(const rush_json *x) { return rush_json_is(x, RUSH_JSON_TEXT) || (rush_json_is(x, RUSH_JSON_LIST) && (!x->first || x->first->kind == RUSH_JSON_WHOLE)); }

static int read_ask(ask *a)
{
    const rush_json *prompts = rush_json_get(a->json, "prompt");
    int64_t n = 1, best = 1, seed = (int64_t)serve_now();
    RUSH_CHECK(rush_json_is(a->json, RUSH_JSON_OBJECT), RUSH_VALUE_ERROR, "the request is no JSON object");
    a->name = rush_json_text_of(a->json, "model");
    RUSH_CHECK(a->name, RUSH_VALUE_ERROR, "you must provide a 'model'");
    if (refuse_unknown(a->json) || whole(a->json, "n", 1, MOST_CHOICES, &n) || whole(a->json, "best_of", 1, MOST_CHOICES, &best) || whole(a->json, "seed", INT64_MIN, INT64_MAX, &seed)) return -1;
    RUSH_CHECK(best <= n, RUSH_NOT_IMPLEMENTED, "'best_of' above 'n' is not supported");
    a->choices = (int)n;
    a->seed = (uint64_t)seed;
    a->stream = rush_json_is_true(rush_json_get(a->json, "stream"));
    a->usage = a->stream && rush_json_is_true(rush_json_get(rush_json_get(a->json, "stream_options"), "include_usage"));
    if (a->chat || is_prompt(prompts)) return 0;
    RUSH_CHECK(rush_json_is(prompts, RUSH_JSON_LIST), RUSH_VALUE_ERROR, "'prompt' must be a text, a list of texts, of tokens, or of lists of tokens");
    RUSH_CHECK(prompts->n * (size_t)n <= MOST_CHOICES, RUSH_VALUE_ERROR, "more than %d choices", MOST_CHOICES);
    rush_json_each(x, prompts) RUSH_CHECK(is_prompt(x), RUSH_VALUE_ERROR, "'prompt' must be a text, a list of texts, of tokens, or of lists of tokens");
    return 0;
}

static int complete(ask *a)
{
    static atomic_ullong count;
    if (read_ask(a)) return serve_send_failed(a->c);
    const rush_json *prompts = rush_json_get(a->json, "prompt"), *prompt = a->chat || is_prompt(prompts) ? prompts : prompts->first;
    bool one = prompt == prompts;
    serve_text out = {0};
    a->created = (long long)time(NULL);
    snprintf(a->id, sizeof a->id, "%s-%llx%llx", a->chat ? "chatcmpl" : "cmpl", a->created, (unsigned long long)atomic_fetch_add(&count, 1));
    put_head(a, &out);
    int status = 200;
    for (int index = 0; status == 200 && (index == 0 || prompt); prompt = one ? NULL : prompt->next)
        for (int k = 0; status == 200 && k < a->choices; ++k) status = choose(a, prompt, index++, &out);
    serve_print(&out, "],");
    put_usage(a, &out);
    serve_print(&out, "}");
    if (status == 200 && !a->stream) return serve_send(a->c, 200, "application/json", &out);
    if (status == 200) send_stream_end(a);
    if (status == 499 || (status != 200 && a->begun)) mg_disable_connection_keep_alive(a->c);
    free(out.p);
    return status;
}

/* ---- paths ---- */

typedef struct listing { serve_text *t; const char *name; int n; } listing;

static void put_model(serve_entry *e, void *arg)
{
    listing *l = arg;
    if (!e->model || strcmp(e->model->platform, "gguf") || (l->name && strcmp(l->name, e->name))) return;
    serve_print(l->t, "%s{\"id\":\"%s\",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"rushlight\"}", l->n++ ? "," : "", e->name, (long long)e->stamp[0]);
}

static int models(struct mg_connection *c, const char *name)
{
    serve_text t = {0};
    listing l = {&t, name, 0};
    if (!name) serve_print(&t, "{\"object\":\"list\",\"data\":[");
    serve_repository_each(put_model, &l);
    if (!name) serve_print(&t, "]}");
    if (name && !l.n) return free(t.p), serve_send_error(c, 404, "The model does not exist");
    return serve_send(c, 200, "application/json", &t);
}

int serve_openai(struct mg_connection *c, char *path, bool post)
{
    bool chat = !strcmp(path, "chat/completions");
    if (!strcmp(path, "models") && !post) return models(c, NULL);
    if (!strncmp(path, "models/", 7) && !post) return models(c, path + 7);
    if (!chat && strcmp(path, "completions")) return serve_send_error(c, 404, "no such path");
    if (!post) return serve_send_error(c, 405, "this path is written to with POST");
    char *body;
    size_t n;
    int status = serve_body_read(c, &body, &n);
    if (status) return serve_send_error(c, status, serve_body_why(status));
    rush_json *json = rush_json_read(body, n);
    serve_body_free(body, n);
    const char *version = mg_get_request_info(c)->http_version;
    ask a = {.c = c, .json = json, .chat = chat, .plain = version && !strcmp(version, "1.0")};
    status = complete(&a);
    rush_free(json);
    return status;
}
