/* text.c - language models of GGUF files: one text after the other, token by token, read by whoever waits for it.
 *
 * A model lives in the scope of its thread, which the thread keeps open. What a text has in common with the one before it, as the
 * messages of a conversation have, is not fed again, unless it is to be told how likely each token of it was.
 */
#define _GNU_SOURCE /* memmem */
#include "serve/serve.h"
#include <rushlight/modes.h>

#include <errno.h>
#include <math.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FED_AT_ONCE = 512 }; /* tokens, between two looks at whether anybody still waits */

void serve_talk_drop(serve_talk *t)
{
    if (!t) return;
    free(t->prompt.p);
    free(t->tokens);
    free(t->said.p);
    free(t->pieces.p);
    free(t->chances.p);
    free((void *)t->how.bias);
    free(t);
}

/* ---- what is said ---- */

/* How many of the last bytes may be the beginning of something: of a stop, or of a character. */
static size_t held_back(const serve_talk *t)
{
    const char *p = t->said.p;
    size_t n = t->said.n, held = 0;
    for (int k = 0; k < t->stops; ++k)
        for (size_t m = strlen(t->stop[k]); m-- > held + 1;)
            if (m <= n - t->echoed && !memcmp(p + n - m, t->stop[k], m)) held = m;
    for (size_t m = 1; m <= 3 && m <= n; ++m) {
        unsigned char c = (unsigned char)p[n - m];
        if (c >= 0xc0 && m < (c >= 0xf0 ? 4u : c >= 0xe0 ? 3u : 2u) && m > held) held = m;
        if (c < 0x80 || c >= 0xc0) break;
    }
    return held;
}

/* Cuts what is said at the first stop. `fresh` bytes are new: a stop ends in them. */
static bool stopped(serve_talk *t, size_t fresh)
{
    char *at = NULL;
    for (int k = 0; k < t->stops; ++k) {
        size_t m = strlen(t->stop[k]), n = t->said.n - t->echoed, back = fresh + m - 1 < n ? fresh + m - 1 : n;
        char *found = memmem(t->said.p + t->said.n - back, back, t->stop[k], m);
        if (found && (!at || found < at)) at = found;
    }
    if (!at) return false;
    t->said.n = (size_t)(at - t->said.p);
    while (t->chances.n && ((serve_chance *)(t->chances.p + t->chances.n))[-1].at >= t->said.n) t->chances.n -= sizeof(serve_chance);
    return true;
}

/* How likely the token was after what the model said before it (NULL: it is the first), and which were likelier. */
static int note(serve_job *j, const rush_lm *lm, const float *logits, int32_t token, size_t at)
{
    serve_talk *t = j->talk;
    rush_lm_chance found[SERVE_LIKELIEST + 1] = {{token, NAN}};
    int n = logits ? (int)RUSH_MIN((int64_t)t->likeliest, rush_lm_vocabulary(lm)) : 0;
    if (logits && rush_lm_likeliest(lm, logits, token, (size_t)n, found)) return -1;
    pthread_mutex_lock(&j->lock);
    for (int k = 0; k <= n; ++k) {
        serve_chance c = {.at = at, .piece = t->pieces.n, .token = found[k].token, .rank = k, .log = found[k].log};
        const char *piece = rush_lm_piece(lm, c.token, &c.bytes);
        serve_put(&t->pieces, piece, c.bytes);
        serve_put(&t->chances, &c, sizeof c);
    }
    bool failed = t->pieces.failed || t->chances.failed;
    pthread_mutex_unlock(&j->lock);
    return failed ? rush_fail(RUSH_MEMORY_ERROR, "out of memory") : 0;
}

/* Appends a token's bytes. true: they end in a stop. */
static bool say(serve_job *j, const char *piece, size_t n)
{
    serve_talk *t = j->talk;
    pthread_mutex_lock(&j->lock);
    serve_put(&t->said, piece, n);
    bool end = n && !t->said.failed && stopped(t, n);
    t->sure = end || !t->said.n ? t->said.n : t->said.n - held_back(t);
    t->made++;
    t->steps++;
    pthread_mutex_unlock(&j->lock);
    pthread_cond_signal(&j->done);
    return end;
}

static void step(serve_job *j)
{
    pthread_mutex_lock(&j->lock);
    j->talk->steps++;
    pthread_mutex_unlock(&j->lock);
    pthread_cond_signal(&j->done);
}

static void end_with(serve_job *j, const char *how)
{
    serve_talk *t = j->talk;
    pthread_mutex_lock(&j->lock);
    t->finish = how;
    t->sure = t->said.n;
    pthread_mutex_unlock(&j->lock);
}

/* ---- the model's thread ---- */

/* What the model says after the tokens. */
static const float *feed(rush_lm *lm, serve_job *j, const int32_t *tokens, size_t n)
{
    bool each = j->talk->echo && j->talk->likeliest >= 0; /* then what it says after each is looked at */
    int64_t same = each ? rush_lm_rewind(lm, 0) : rush_lm_resume(lm, tokens, n);
    const float *logits = NULL;
    size_t said = 0, bytes, m;
    if (same < 0) return NULL;
    for (size_t at = (size_t)same; at < n && !atomic_load(&j->talk->cancelled); at += m) {
        m = each ? 1 : n - at < FED_AT_ONCE ? n - at : FED_AT_ONCE;
        if (each && (note(j, lm, logits, tokens[at], said) || !rush_lm_piece(lm, tokens[at], &bytes))) return NULL;
        if (!(logits = rush_lm_feed(lm, tokens + at, m))) return NULL;
        if (each) said += bytes;
        step(j);
    }
    return logits;
}

static int go_on(rush_lm *lm, serve_job *j, const int32_t *tokens, size_t n)
{
    serve_talk *t = j->talk;
    int64_t room = rush_lm_context(lm);
    RUSH_CHECK(n, RUSH_VALUE_ERROR, "the prompt is empty");
    RUSH_CHECK((int64_t)n < room, RUSH_VALUE_ERROR, "the prompt has %zu tokens, and the model's context is %lld", n, (long long)room);
    t->read = t->how.counted = (int64_t)n;
    const float *logits = feed(lm, j, tokens, n);
    while (logits && !atomic_load(&t->cancelled)) {
        if (t->most >= 0 && t->made >= t->most) return end_with(j, "length"), 0;
        int32_t token = rush_lm_draw(lm, logits, &t->how);
        if (token < 0) return -1;
        if (rush_lm_ends(lm, token)) return end_with(j, "stop"), 0;
        size_t bytes = 0;
        const char *piece = rush_lm_piece(lm, token, &bytes);
        if (!piece || (t->likeliest >= 0 && note(j, lm, logits, token, t->said.n))) return -1;
        if (say(j, piece, bytes)) return end_with(j, "stop"), 0;
        if (t->said.failed) return rush_fail(RUSH_MEMORY_ERROR, "out of memory");
        if (rush_lm_position(lm) >= room) return end_with(j, "length"), 0;
        logits = rush_lm_feed(lm, &token, 1);
    }
    return logits || atomic_load(&t->cancelled) ? (end_with(j, "length"), 0) : -1;
}

/* The messages of a chat as one text; in the scope. */
static const char *write_chat(const rush_lm *lm, const serve_text *messages, size_t *length)
{
    size_t n = 0, k = 0;
    for (const char *p = messages->p, *end = p + messages->n; p < end; p += strlen(p) + 1) ++n;
    rush_lm_message *list = malloc(n / 2 * sizeof *list + 1);
    if (!list) return rush_fail(RUSH_MEMORY_ERROR, "out of memory"), NULL;
    for (const char *p = messages->p; k < n / 2; p = list[k].content + strlen(list[k].content) + 1, ++k) list[k] = (rush_lm_message){p, p + strlen(p) + 1};
    const char *text = rush_lm_chat(lm, k, list, length);
    free(list);
    return text;
}

static int talk(rush_lm *lm, serve_job *j)
{
    serve_talk *t = j->talk;
    const int32_t *tokens = t->tokens;
    size_t n = t->ntokens;
    if (!tokens) {
        size_t length = t->prompt.n;
        const char *text = t->chat ? write_chat(lm, &t->prompt, &length) : t->prompt.p ? t->prompt.p : "";
        tokens = text ? rush_lm_encode(lm, text, length, &n) : NULL;
        if (!tokens) return -1;
    }
    for (size_t i = 0; t->echo && i < n; ++i) {
        size_t bytes = 0;
        const char *piece = rush_lm_piece(lm, tokens[i], &bytes);
        if (!piece) return -1;
        serve_put(&t->said, piece, bytes);
    }
    t->echoed = t->said.n;
    t->how.generator = rush_generator_new(t->seed);
    int failed = t->how.generator ? go_on(lm, j, tokens, n) : -1;
    if (t->how.generator) rush_generator_drop(t->how.generator);
    return failed;
}

static void speak(void *arg, serve_job **batch, int n)
{
    for (int i = 0; i < n; ++i) {
        serve_job *j = batch[i];
        int failed = 0;
        if (!j->talk) snprintf(j->error, sizeof j->error, "this is a language model: it answers at /v1/completions and /v1/chat/completions");
        else rush_scope() failed = talk(arg, j);
        if (failed) snprintf(j->error, sizeof j->error, "%s", rush_error() ? rush_error() : "the model failed");
        rush_error_clear();
        if (!j->talk) continue;
        atomic_fetch_add(&j->model->stats->tokens_read, (unsigned long long)j->talk->read);
        atomic_fetch_add(&j->model->stats->tokens_made, (unsigned long long)j->talk->made);
    }
}

typedef struct beginning {
    serve_model *model; /* a reference */
    const char *path;
    char error[SERVE_ERROR]; /* empty: it is loaded */
    sem_t told;
} beginning;

static void *live(void *arg)
{
    beginning *b = arg;
    serve_model *m = b->model;
    serve_instance_settle();
    rush_scope() {
        rush_lm *lm = rush_lm_load(b->path, serve_given.context);
        if (!lm) snprintf(b->error, sizeof b->error, "%s", rush_error() ? rush_error() : "out of memory");
        rush_error_clear();
        sem_post(&b->told); /* b is gone after it */
        if (lm) serve_each_batch(m, false, speak, lm);
    }
    serve_model_drop(m);
    return NULL;
}

int serve_talk_instance(serve_model *m, const char *path)
{
    beginning b = {.model = m, .path = path};
    pthread_t thread;
    sem_init(&b.told, 0, 0);
    atomic_fetch_add(&m->refs, 1);
    bool begun = !pthread_create(&thread, NULL, live, &b);
    if (begun) {
        while (sem_wait(&b.told)) continue; /* a signal came in between */
        pthread_detach(thread);
    } else {
        serve_model_drop(m);
        snprintf(b.error, sizeof b.error, "no more threads");
    }
    sem_destroy(&b.told);
    return *b.error ? rush_fail(RUSH_RUNTIME_ERROR, "%s", b.error) : 0;
}

/* ---- who waits ---- */

void serve_talk_leave(serve_job *j)
{
    atomic_store(&j->talk->cancelled, true);
    serve_job_take_back(j);
}

int serve_talk_next(serve_job *j, serve_text *to)
{
    int64_t limit = serve_given.timeout_ms * 1000000;
    struct timespec until = serve_time_of(serve_now() + (uint64_t)limit);
    serve_talk *t = j->talk;
    pthread_mutex_lock(&j->lock);
    int waited = 0;
    for (int64_t steps = t->steps; !j->status && t->sure <= t->taken && waited != ETIMEDOUT;) {
        waited = pthread_cond_timedwait(&j->done, &j->lock, &until);
        if (t->steps == steps) continue;
        steps = t->steps;
        until = serve_time_of(serve_now() + (uint64_t)limit);
    }
    int status = j->status ? j->status : t->sure > t->taken ? 0 : 504;
    if (t->sure > t->taken) serve_put(to, t->said.p + t->taken, t->sure - t->taken);
    t->taken = t->sure;
    pthread_mutex_unlock(&j->lock);
    if (status == 504) return atomic_store(&t->cancelled, true), serve_job_late(j);
    j->why = j->error;
    return status;
}
