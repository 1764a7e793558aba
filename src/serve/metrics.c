/* metrics.c - what the server counts, in Prometheus' text format, a family after the other; and its log, a line of JSON for each event. */
#include "serve/serve.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

atomic_ullong serve_responses[600];

/* Counters of a model. Rows of one name stand together. */
typedef struct counter { const char *name, *help, *label; size_t at; double unit; } counter;
#define AT(field) offsetof(serve_stats, field)
static const counter counters[] = {
    {"requests_total", "Requests that were answered.", ",outcome=\"success\"", AT(success.n), 1},
    {"requests_total", "", ",outcome=\"fail\"", AT(fail.n), 1},
    {"refused_total", "Requests that found the queue full.", "", AT(refused), 1},
    {"timeouts_total", "Requests that took too long.", "", AT(timed_out), 1},
    {"executions_total", "Batches that were computed.", "", AT(executions), 1},
    {"rows_total", "Samples in these batches.", "", AT(rows), 1},
    {"loads_total", "How often the model's file was loaded.", "", AT(loads), 1},
    {"tokens_total", "Tokens of language models.", ",kind=\"read\"", AT(tokens_read), 1},
    {"tokens_total", "", ",kind=\"made\"", AT(tokens_made), 1},
    {"input_seconds_total", "Time that went into reading tensors.", "", AT(input.ns), 1e-9},
    {"queue_seconds_total", "Time that requests waited.", "", AT(waited.ns), 1e-9},
    {"compute_seconds_total", "Time that requests were computed.", "", AT(infer.ns), 1e-9},
    {"output_seconds_total", "Time that went into writing answers.", "", AT(output.ns), 1e-9},
};

typedef struct sheet { serve_text *t; const counter *row; } sheet;

static void put_head(serve_text *t, const char *name, const char *type, const char *help) { serve_print(t, "# HELP rushlight_%s %s\n# TYPE rushlight_%s %s\n", name, help, name, type); }

static void put_number(serve_text *t, unsigned long long n, double unit)
{
    if (unit == 1) serve_print(t, "%llu\n", n);
    else serve_print(t, "%.9f\n", (double)n * unit);
}

static void put_counter(serve_entry *e, void *arg)
{
    const sheet *s = arg;
    serve_print(s->t, "rushlight_%s{model=\"%s\",version=\"%s\"%s} ", s->row->name, e->name, e->version, s->row->label);
    put_number(s->t, atomic_load((atomic_ullong *)(void *)((char *)&e->stats + s->row->at)), s->row->unit);
}

static void put_histogram(serve_entry *e, void *arg)
{
    serve_text *t = ((sheet *)arg)->t;
    serve_stats *s = &e->stats;
    unsigned long long sum = 0;
    for (int k = 0; k < SERVE_BUCKETS; ++k) {
        sum += atomic_load(&s->bucket[k]);
        serve_print(t, "rushlight_request_seconds_bucket{model=\"%s\",version=\"%s\",le=\"", e->name, e->version);
        if (k == SERVE_BUCKETS - 1) serve_print(t, "+Inf\"} %llu\n", sum);
        else serve_print(t, "%g\"} %llu\n", 1e-4 * (double)(1 << k), sum);
    }
    serve_print(t, "rushlight_request_seconds_sum{model=\"%s\",version=\"%s\"} ", e->name, e->version);
    put_number(t, atomic_load(&s->success.ns) + atomic_load(&s->fail.ns), 1e-9);
    serve_print(t, "rushlight_request_seconds_count{model=\"%s\",version=\"%s\"} %llu\n", e->name, e->version, sum);
}

static void put_ready(serve_entry *e, void *arg) { serve_print(((sheet *)arg)->t, "rushlight_model_ready{model=\"%s\",version=\"%s\"} %d\n", e->name, e->version, e->model != NULL); }

static void put_queued(serve_entry *e, void *arg)
{
    int waiting = 0;
    if (e->model) {
        pthread_mutex_lock(&e->model->lock);
        waiting = e->model->waiting;
        pthread_mutex_unlock(&e->model->lock);
    }
    serve_print(((sheet *)arg)->t, "rushlight_queued{model=\"%s\",version=\"%s\"} %d\n", e->name, e->version, waiting);
}

static long long resident_bytes(void)
{
    long long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%*d %lld", &pages) != 1) pages = 0;
    if (f) fclose(f);
    return pages * sysconf(_SC_PAGESIZE);
}

static void put_process(serve_text *t)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    serve_print(t, "# HELP process_cpu_seconds_total Time of processors.\n# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total %.6f\n",
                (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + 1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec));
    serve_print(t, "# HELP process_resident_memory_bytes Memory in use.\n# TYPE process_resident_memory_bytes gauge\nprocess_resident_memory_bytes %lld\n", resident_bytes());
}

void serve_metrics(serve_text *t, int answering, size_t held)
{
    sheet s = {t, NULL};
    for (size_t k = 0; k < sizeof counters / sizeof *counters; ++k) {
        s.row = &counters[k];
        if (*s.row->help) put_head(t, s.row->name, "counter", s.row->help);
        serve_repository_each(put_counter, &s);
    }
    put_head(t, "request_seconds", "histogram", "How long requests took.");
    serve_repository_each(put_histogram, &s);
    put_head(t, "model_ready", "gauge", "1: the model is loaded.");
    serve_repository_each(put_ready, &s);
    put_head(t, "queued", "gauge", "Requests that wait.");
    serve_repository_each(put_queued, &s);
    put_head(t, "http_responses_total", "counter", "Answers by status, of all paths.");
    for (int k = 0; k < 600; ++k)
        if (atomic_load(&serve_responses[k])) serve_print(t, "rushlight_http_responses_total{code=\"%d\"} %llu\n", k, atomic_load(&serve_responses[k]));
    put_head(t, "http_answering", "gauge", "Requests that are being answered.");
    serve_print(t, "rushlight_http_answering %d\n", answering);
    put_head(t, "http_held_bytes", "gauge", "Bodies that are being answered.");
    serve_print(t, "rushlight_http_held_bytes %zu\n", held);
    put_process(t);
}

/* ---- the log ---- */

static void begin_line(serve_text *t, const char *level)
{
    struct timespec now;
    struct tm parts;
    char at[32];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    strftime(at, sizeof at, "%Y-%m-%dT%H:%M:%S", &parts);
    serve_print(t, "{\"at\":\"%s.%03dZ\",\"level\":\"%s\"", at, (int)(now.tv_nsec / 1000000), level);
}

static void end_line(serve_text *t)
{
    serve_print(t, "}\n");
    if (!t->failed) fputs(t->p, stderr); /* a line at once: other threads write, too */
    free(t->p);
}

/* ---- what is logged, which requests may change ---- */

static atomic_bool shown[4] = {true, true, false, false}; /* errors, warnings, what happens, details */
static const char *const shown_names[] = {"log_error", "log_warning", "log_info", "log_verbose_level"};

static int setting_of(const rush_json *x)
{
    for (int k = 0; x->name && k < 4; ++k)
        if (!strcmp(x->name, shown_names[k])) return k;
    return -1;
}

/* Either all of it is done, or nothing. */
int serve_log_change(const rush_json *settings)
{
    RUSH_CHECK(rush_json_is(settings, RUSH_JSON_OBJECT), RUSH_VALUE_ERROR, "the settings are no JSON object");
    rush_json_each(x, settings) {
        int k = setting_of(x);
        bool same = (!strcmp(x->name, "log_file") && rush_json_text(x) && !*x->text) || (!strcmp(x->name, "log_format") && rush_json_text(x) && !strcmp(x->text, "default"));
        RUSH_CHECK(k >= 0 || same, RUSH_VALUE_ERROR, "'%.100s' cannot be changed", x->name);
        RUSH_CHECK(k < 0 || (k == 3 ? rush_json_is(x, RUSH_JSON_WHOLE) && x->i >= 0 : rush_json_is(x, RUSH_JSON_BOOL)), RUSH_VALUE_ERROR, "'%s' is %s", x->name, k == 3 ? "a whole number" : "true or false");
    }
    rush_json_each(x, settings)
        if (setting_of(x) >= 0) atomic_store(&shown[setting_of(x)], x->i > 0);
    rush_log_to(serve_log, NULL);
    return 0;
}

void serve_log_all(void)
{
    atomic_store(&shown[2], true);
    rush_log_to(serve_log, NULL);
}

void serve_log_settings(serve_text *t)
{
    serve_print(t, "{\"log_file\":\"\",\"log_info\":%s,\"log_warning\":%s,\"log_error\":%s,\"log_verbose_level\":%d,\"log_format\":\"default\"}", shown[2] ? "true" : "false",
                shown[1] ? "true" : "false", shown[0] ? "true" : "false", (int)shown[3]);
}

void serve_log(int level, const char *message, void *arg)
{
    static const char *const names[] = {"error", "warning", "info", "debug"};
    serve_text t = {0};
    if (level > 3 || !atomic_load(&shown[level])) return;
    begin_line(&t, names[level]);
    serve_print(&t, ",\"message\":");
    serve_put_json(&t, message);
    end_line(&t);
    (void)arg;
}

bool serve_logs_requests(void)
{
    return atomic_load(&shown[2]);
}

void serve_log_request(const char *method, const char *path, int status, uint64_t ns, const char *from)
{
    serve_text t = {0};
    begin_line(&t, "info");
    serve_print(&t, ",\"method\":");
    serve_put_json(&t, method);
    serve_print(&t, ",\"path\":");
    serve_put_json(&t, path);
    serve_print(&t, ",\"status\":%d,\"us\":%llu,\"from\":", status, (unsigned long long)ns / 1000);
    serve_put_json(&t, from);
    end_line(&t);
}
