/* trace.c - when a request came, waited, was computed and answered, in a file of JSON, of as many requests as the settings of the protocol say. */
#include "serve/serve.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEVEL, RATE, COUNT, FREQUENCY, SETTINGS }; /* LEVEL 1: with times. One of RATE requests is traced, COUNT of them in all (-1: any), FREQUENCY in one file (0: all) */
static const char *const names[SETTINGS] = {"trace_level", "trace_rate", "trace_count", "log_frequency"};
static const int64_t least[SETTINGS] = {0, 1, -1, 0}, begun[SETTINGS] = {0, 1000, -1, 0};

/* Of one model what it has of its own, else of all. */
typedef struct scope {
    char name[SERVE_NAME]; /* empty: of all */
    bool own[SETTINGS];
    int64_t value[SETTINGS];
    uint64_t seen, left; /* requests; traces that COUNT allows */
    struct scope *next;
} scope;

static scope all = {.value = {0, 1000, -1, 0}};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool any; /* is anything traced? */
static uint64_t made;   /* traces */
static FILE *file;

static scope *scope_of(const char *model)
{
    scope *s = model ? all.next : &all;
    while (model && s && strcmp(s->name, model)) s = s->next;
    return s;
}

static int64_t value_of(const scope *s, int k) { return s && s->own[k] ? s->value[k] : all.value[k]; }

static void put_settings(serve_text *t, const scope *s)
{
    serve_print(t, "{\"%s\":[\"%s\"]", names[LEVEL], value_of(s, LEVEL) ? "TIMESTAMPS" : "OFF");
    for (int k = RATE; k < SETTINGS; ++k) serve_print(t, ",\"%s\":\"%" PRId64 "\"", names[k], value_of(s, k));
    serve_print(t, ",\"trace_file\":");
    serve_put_json(t, serve_given.trace ? serve_given.trace : "");
    serve_print(t, "}");
}

void serve_trace_settings(const char *model, serve_text *t)
{
    pthread_mutex_lock(&lock);
    put_settings(t, scope_of(model));
    pthread_mutex_unlock(&lock);
}

/* Numbers come as texts, too. INT64_MIN: it is no such value. */
static int64_t read_value(const rush_json *x, int k)
{
    if (k == LEVEL) {
        const char *level = rush_json_is(x, RUSH_JSON_LIST) && x->n == 1 ? rush_json_text(x->first) : NULL;
        return level && !strcmp(level, "TIMESTAMPS") ? 1 : level && !strcmp(level, "OFF") ? 0 : INT64_MIN;
    }
    char *end = NULL;
    const char *text = rush_json_text(x);
    int64_t v = text ? strtoll(text, &end, 10) : rush_json_is(x, RUSH_JSON_WHOLE) ? x->i : INT64_MIN;
    return (text && (!*text || *end)) || v < least[k] ? INT64_MIN : v;
}

static int name_of(const rush_json *x)
{
    for (int k = 0; x->name && k < SETTINGS; ++k)
        if (!strcmp(x->name, names[k])) return k;
    return -1;
}

static int check(const rush_json *settings)
{
    RUSH_CHECK(rush_json_is(settings, RUSH_JSON_OBJECT), RUSH_VALUE_ERROR, "the settings are no JSON object");
    rush_json_each(x, settings) {
        int k = name_of(x);
        const char *same = k < 0 && !strcmp(x->name, "trace_file") ? rush_json_text(x) : NULL;
        RUSH_CHECK(k >= 0 || (same && !strcmp(same, serve_given.trace ? serve_given.trace : "")), RUSH_VALUE_ERROR, "'%.100s' cannot be changed", x->name);
        if (k < 0 || x->kind == RUSH_JSON_NULL) continue;
        RUSH_CHECK(read_value(x, k) != INT64_MIN, RUSH_VALUE_ERROR, k == LEVEL ? "'%s' is [\"OFF\"] or [\"TIMESTAMPS\"]" : "'%s' is a whole number", names[k]);
        RUSH_CHECK(k != LEVEL || !read_value(x, k) || serve_given.trace, RUSH_VALUE_ERROR, "traces are for servers that are started with --trace FILE");
    }
    return 0;
}

/* Either all of it is done, or nothing. NULL takes back what was said. */
int serve_trace_change(const char *model, const rush_json *settings)
{
    if (check(settings)) return -1;
    pthread_mutex_lock(&lock);
    scope *s = scope_of(model);
    if (!s && (s = calloc(1, sizeof *s))) {
        snprintf(s->name, sizeof s->name, "%s", model);
        s->next = all.next;
        all.next = s;
    }
    bool on = false, failed = !s;
    rush_json_each(x, settings) {
        int k = name_of(x);
        if (!s || k < 0) continue;
        s->own[k] = x->kind != RUSH_JSON_NULL;
        s->value[k] = s->own[k] ? read_value(x, k) : begun[k];
        if (k == COUNT && s->own[k]) s->left = (uint64_t)s->value[k];
    }
    for (const scope *p = &all; p; p = p->next) on |= value_of(p, LEVEL) != 0;
    atomic_store(&any, on);
    pthread_mutex_unlock(&lock);
    RUSH_CHECK(!failed, RUSH_MEMORY_ERROR, "no memory for settings of traces");
    return 0;
}

/* Its number; 0: this one is not traced. */
uint64_t serve_trace_begin(const serve_model *m)
{
    if (!atomic_load(&any)) return 0;
    pthread_mutex_lock(&lock);
    scope *s = scope_of(m->name), *rated = s && s->own[RATE] ? s : &all, *counted = s && s->own[COUNT] ? s : &all;
    bool traced = value_of(s, LEVEL) && rated->seen++ % (uint64_t)rated->value[RATE] == 0;
    if (traced && counted->value[COUNT] >= 0) traced = counted->left && counted->left--;
    uint64_t id = traced ? ++made : 0;
    pthread_mutex_unlock(&lock);
    return id;
}

/* The file is one list at any time: what follows is written over its end. */
static void append(const serve_text *t, int64_t frequency)
{
    static uint64_t written, number;
    char path[1024];
    bool next = file && frequency && written >= (uint64_t)frequency;
    if (next) fclose(file), file = NULL;
    if (!file) {
        written = 0;
        if (frequency) snprintf(path, sizeof path, "%s.%" PRIu64, serve_given.trace, number++);
        else snprintf(path, sizeof path, "%s", serve_given.trace);
        if (!(file = fopen(path, "w"))) {
            rush_log(1, "cannot write traces to '%s': %s", path, strerror(errno));
            return;
        }
    }
    if (written++) fseek(file, -2, SEEK_END);
    fwrite(written > 1 ? ",\n" : "[\n", 1, 2, file);
    fwrite(t->p, 1, t->n, file);
    fwrite("\n]", 1, 2, file);
    fflush(file);
}

void serve_trace(uint64_t id, const serve_model *m, const char *request, const serve_moment *moments, int n)
{
    serve_text t = {0};
    serve_print(&t, "{\"id\":%" PRIu64 ",\"model_name\":", id);
    serve_put_json(&t, m->name);
    serve_print(&t, ",\"model_version\":%s", m->version);
    if (request) serve_print(&t, ",\"request_id\":"), serve_put_json(&t, request);
    serve_print(&t, "},\n{\"id\":%" PRIu64 ",\"timestamps\":[", id);
    for (int k = 0; k < n; ++k) serve_print(&t, "%s{\"name\":\"%s\",\"ns\":%" PRIu64 "}", k ? "," : "", moments[k].name, moments[k].ns);
    serve_print(&t, "]}");
    pthread_mutex_lock(&lock);
    if (!t.failed) append(&t, value_of(scope_of(m->name), FREQUENCY));
    pthread_mutex_unlock(&lock);
    free(t.p);
}

void serve_trace_end(void)
{
    if (file) fclose(file);
    file = NULL;
    while (all.next) {
        scope *s = all.next;
        all.next = s->next;
        free(s);
    }
}
