/* http.c - paths of the protocol, on civetweb: who may ask, what is read, what is answered. */
#define _GNU_SOURCE
#include "serve/serve.h"
#include "config.h"

#include <arpa/inet.h>
#include <civetweb.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#if RUSH_HAS_ZLIB
#include <zlib.h>
#endif

atomic_bool serve_draining;
static struct mg_context *server;
static atomic_int answering;
static atomic_size_t held; /* bytes of bodies that are being answered */

/* ---- answers ---- */

static const char *reason(int status)
{
    switch (status) {
    case 200: return "OK";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 411: return "Length Required";
    case 413: return "Content Too Large";
    case 415: return "Unsupported Media Type";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    default: return "Internal Server Error";
    }
}

/* A response is counted before it is sent: who has it finds it in the metrics. */
static _Thread_local bool response_counted;

void serve_count_response(int status)
{
    if (!response_counted && status >= 0 && status < 600) atomic_fetch_add(&serve_responses[status], 1);
    response_counted = true;
}

/* Does civetweb read another request of this connection? Not where the client asks for something else (a browser for HTTP/2), nor behind a trailer, which
 * it does not read: then the client is told so, or it would send one into a connection that ends. */
bool serve_stays(const struct mg_connection *c)
{
    const char *asked = mg_get_header(c, "Connection");
    bool wanted = asked ? strcasestr(asked, "keep-alive") != NULL : !strcmp(mg_get_request_info(c)->http_version, "1.1");
    return wanted && !mg_get_header(c, "Trailer") && !atomic_load(&serve_draining);
}

static int send_all(struct mg_connection *c, int status, const char *type, const char *body, size_t n, size_t nheader)
{
    char head[512], more[64] = "", *whole;
    const char *path = mg_get_request_info(c)->local_uri ? mg_get_request_info(c)->local_uri : ""; /* a browser asks for the key of the page */
    bool close = !serve_stays(c) || (status >= 400 && status != 429 && status != 404); /* what was not read must not be taken for a request */
    size_t sent = strcmp(mg_get_request_info(c)->request_method, "HEAD") ? n : 0; /* HEAD is told how long the body would be */
    if (nheader) snprintf(more, sizeof more, "Inference-Header-Content-Length: %zu\r\n", nheader);
    int k = snprintf(head, sizeof head, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n%s%sConnection: %s\r\n\r\n", status, reason(status), type, n, more,
                     status == 401 ? !strcmp(path, "/") ? "WWW-Authenticate: Basic realm=\"rushlight: the key is the password\"\r\n" : "WWW-Authenticate: Bearer\r\n" : status == 429 ? "Retry-After: 1\r\n" : "", close ? "close" : "keep-alive");
    if (close) mg_disable_connection_keep_alive(c);
    serve_count_response(status);
    if (sent < 65536 && (whole = malloc(SERVE_ROOM((size_t)k + sent + 1)))) { /* one packet */
        memcpy(whole, head, (size_t)k);
        if (sent) memcpy(whole + k, body, sent);
        mg_write(c, whole, (size_t)k + sent);
        free(whole);
    } else {
        mg_write(c, head, (size_t)k);
        if (sent) mg_write(c, body, sent);
    }
    return status;
}

int serve_send(struct mg_connection *c, int status, const char *type, serve_text *t)
{
    int sent = t->failed ? send_all(c, 500, "text/plain", "", 0, 0) : send_all(c, status, type, t->p ? t->p : "", t->n, 0);
    free(t->p);
    *t = (serve_text){0};
    return sent;
}

static int send_json(struct mg_connection *c, serve_text *t) { return serve_send(c, 200, "application/json", t); }

int serve_send_error(struct mg_connection *c, int status, const char *why)
{
    serve_text t = {0};
    const char *path = mg_get_request_info(c)->local_uri;
    if (path && !strncmp(path, "/v1/", 4)) serve_openai_put_error(&t, status, why);
    else serve_print(&t, "{\"error\":"), serve_put_json(&t, why), serve_print(&t, "}");
    return serve_send(c, status, "application/json", &t);
}

int serve_send_failed(struct mg_connection *c)
{
    char why[SERVE_ERROR];
    int status = rush_error_kind_now() == RUSH_MEMORY_ERROR ? 503 : 400;
    snprintf(why, sizeof why, "%s", rush_error() ? rush_error() : "the request failed");
    rush_error_clear();
    return serve_send_error(c, status, why);
}

static int not_found(struct mg_connection *c, const char *what)
{
    char why[256];
    snprintf(why, sizeof why, "Request for unknown model: '%.100s' is not found", what);
    return serve_send_error(c, 404, why);
}

/* ---- bodies ---- */

/* Whether the client sends its body only when told to, as curl does before a megabyte. */
static bool waits(struct mg_connection *c)
{
    const char *expect = mg_get_header(c, "Expect");
    return expect && !strcasecmp(expect, "100-continue");
}

/* What is too large is read over, up to a bound: a client that still sends would not see the answer. */
static int too_large(struct mg_connection *c)
{
    char room[4096];
    if (waits(c)) return 413;
    for (size_t n = 0; n < (size_t)8 << 20;) {
        int got = mg_read(c, room, sizeof room);
        if (got <= 0) break;
        n += (size_t)got;
    }
    return 413;
}

#if RUSH_HAS_ZLIB
/* What the n bytes were before gzip or zlib, counted in `held` in their place. An HTTP status; 0. */
static int expand(char **body, size_t *n)
{
    z_stream z = {.next_in = (Bytef *)*body, .avail_in = (uInt)*n};
    char *whole = NULL;
    size_t room = 0, given = *n;
    int status = *n < UINT_MAX && inflateInit2(&z, 15 + 32) == Z_OK ? 0 : 400, state = Z_OK; /* 32: either of both */
    while (!status && state == Z_OK) {
        size_t most = RUSH_MIN(serve_given.max_bytes + 1 - room, (size_t)1 << 30), more = RUSH_MIN(RUSH_MAX(room, (size_t)65536), most); /* one more than is allowed: is there more? */
        char *p = atomic_fetch_add(&held, more) + more > serve_given.max_held ? NULL : realloc(whole, room + more + 1);
        if (!p) atomic_fetch_sub(&held, more), status = 429;
        else {
            whole = p;
            z.next_out = (Bytef *)whole + room;
            z.avail_out = (uInt)more;
            room += more;
            state = inflate(&z, Z_NO_FLUSH);
            if (state == Z_OK && room > serve_given.max_bytes) status = 413;
            else if (state == Z_BUF_ERROR || (state == Z_OK && z.avail_out)) status = 400; /* the bytes end before what they say */
        }
    }
    size_t have = room - z.avail_out;
    inflateEnd(&z);
    if (!status && (state != Z_STREAM_END || z.avail_in || have > serve_given.max_bytes)) status = have > serve_given.max_bytes ? 413 : 400;
    atomic_fetch_sub(&held, given + room - (status ? 0 : have));
    free(*body);
    if (status) return free(whole), *body = NULL, *n = 0, status;
    whole[have] = 0;
    return *body = whole, *n = have, 0;
}
#else
static int expand(char **body, size_t *n) { return atomic_fetch_sub(&held, *n), free(*body), *body = NULL, *n = 0, 415; }
#endif

/* What a client has compressed becomes what it was. */
static int decode(struct mg_connection *c, char **body, size_t *n)
{
    const char *how = mg_get_header(c, "Content-Encoding");
    if (!how || !strcasecmp(how, "identity")) return 0;
    if (!strcasecmp(how, "gzip") || !strcasecmp(how, "x-gzip") || !strcasecmp(how, "deflate")) return expand(body, n);
    return atomic_fetch_sub(&held, *n), free(*body), *body = NULL, *n = 0, 415;
}

/* The whole body with a zero behind it, counted in `held`. An HTTP status; 0. */
int serve_body_read(struct mg_connection *c, char **body, size_t *n)
{
    const struct mg_request_info *info = mg_get_request_info(c);
    long long told = info->content_length;
    size_t room = told >= 0 ? (size_t)told : 65536;
    *body = NULL;
    *n = 0;
    if (told > 0 && (unsigned long long)told > serve_given.max_bytes) return too_large(c);
    if (waits(c)) mg_write(c, "HTTP/1.1 100 Continue\r\n\r\n", 25);
    int got = 0; /* negative: cut short, or chunks that civetweb cannot read */
    for (size_t counted = 0;;) {
        size_t have = atomic_fetch_add(&held, room - counted) + room - counted;
        counted = room;
        char *more = have > serve_given.max_held ? NULL : realloc(*body, SERVE_ROOM(room + 1));
        if (!more) return free(*body), *body = NULL, atomic_fetch_sub(&held, counted), *n = 0, 429;
        *body = more;
        while (*n < room && (got = mg_read(c, *body + *n, room - *n)) > 0) *n += (size_t)got;
        if (told >= 0 || *n < room) {
            if (got < 0 || (told >= 0 && *n < room)) return free(*body), *body = NULL, atomic_fetch_sub(&held, counted), *n = 0, 400;
            atomic_fetch_sub(&held, counted - *n);
            (*body)[*n] = 0;
            return decode(c, body, n);
        }
        if (room >= serve_given.max_bytes) return free(*body), *body = NULL, atomic_fetch_sub(&held, counted), *n = 0, 413;
        room = room * 2 < serve_given.max_bytes ? room * 2 : serve_given.max_bytes;
    }
}

void serve_body_free(char *body, size_t n)
{
    free(body);
    atomic_fetch_sub(&held, n);
}

const char *serve_body_why(int status)
{
    return status == 413 ? "the request is larger than the server allows" : status == 429 ? "the server is busy with other large requests" : status == 415 ? "bodies are compressed by gzip or deflate, or not at all" : "the body was cut short, its chunks have extensions, or its compression is damaged";
}

static int body_failed(struct mg_connection *c, int status) { return serve_send_error(c, status, serve_body_why(status)); }

/* The JSON of the body, freed by rush_free(); NULL: it is none. As serve_body_read(). */
static int read_json(struct mg_connection *c, rush_json **json)
{
    char *body;
    size_t n;
    int status = serve_body_read(c, &body, &n);
    if (status) return status;
    *json = n ? rush_json_read(body, n) : NULL;
    serve_body_free(body, n);
    return 0;
}

/* ---- inference ---- */

void serve_note(serve_model *m, bool well, uint64_t begin)
{
    serve_stats *s = m->stats;
    serve_count *count = well ? &s->success : &s->fail;
    uint64_t took = serve_now() - begin;
    struct timespec t;
    int k = 0;
    clock_gettime(CLOCK_REALTIME, &t);
    atomic_store(&s->last_ms, (unsigned long long)t.tv_sec * 1000 + (unsigned long long)t.tv_nsec / 1000000);
    atomic_fetch_add(&count->n, 1), atomic_fetch_add(&count->ns, took);
    for (uint64_t edge = 100000; k < SERVE_BUCKETS - 1 && took > edge; edge *= 2) ++k;
    atomic_fetch_add(&s->bucket[k], 1);
}

/* Of a client on this machine. */
static bool is_near(struct mg_connection *c)
{
    const char *from = mg_get_request_info(c)->remote_addr;
    return !strncmp(from, "127.", 4) || !strcmp(from, "::1") || !strcmp(from, "[::1]") || !strncmp(from, "::ffff:127.", 11);
}

/* Counts are made before a request is answered: who has its answer finds it in the metrics. 410, and nothing is sent: the model is being replaced. */
static int infer_body(struct mg_connection *c, serve_model *m, const char *body, size_t n, uint64_t begin)
{
    uint64_t received = serve_now();
    const char *told = mg_get_header(c, "Inference-Header-Content-Length"), *type = mg_get_header(c, "Content-Type");
    char *end = NULL;
    bool raw = !told && type && (!strncasecmp(type, "image/", 6) || !strncasecmp(type, "text/plain", 10)); /* the body is the only input */
    size_t nheader = told ? strtoull(told, &end, 10) : raw ? 0 : n, njson = 0;
    serve_stats *s = m->stats;
    if (told && (*end || end == told || *told == '-' || nheader > n))
        return serve_note(m, false, begin), serve_send_error(c, 400, "Inference-Header-Content-Length is no length within the body");
    serve_job *job = serve_job_new(m);
    serve_request *r = job ? serve_request_read(m, body, n, nheader, is_near(c), job) : NULL;
    if (!r) return serve_job_drop(job), serve_note(m, false, begin), serve_send_failed(c);
    uint64_t read = serve_now(), trace = serve_trace_begin(m);
    int status = serve_job_run(job);
    if (status == 410) return serve_request_free(r), serve_job_drop(job), status;
    serve_text out = {0};
    uint64_t ran = serve_now();
    bool well = status == 200 && !serve_request_answer(r, job, &out, &njson);
    atomic_fetch_add(&s->input.n, 1), atomic_fetch_add(&s->input.ns, read - begin);
    atomic_fetch_add(&s->output.n, 1), atomic_fetch_add(&s->output.ns, serve_now() - ran);
    serve_note(m, well, begin);
    uint64_t put = serve_now();
    if (well) status = send_all(c, 200, njson ? "application/octet-stream" : "application/json", out.p, out.n, njson);
    else status = status == 200 ? serve_send_failed(c) : serve_send_error(c, status, job->why);
    if (well && trace) {
        const serve_moment moments[] = {{"HTTP_RECV_START", begin}, {"HTTP_RECV_END", received}, {"REQUEST_START", read}, {"QUEUE_START", job->queued_at}, {"COMPUTE_START", job->began},
                                        {"COMPUTE_END", ran}, {"REQUEST_END", put}, {"HTTP_SEND_START", put}, {"HTTP_SEND_END", serve_now()}};
        serve_trace(trace, m, serve_request_id(r), moments, (int)RUSH_COUNT(moments));
    }
    free(out.p);
    serve_request_free(r);
    serve_job_drop(job);
    return status;
}

static int infer(struct mg_connection *c, const char *name, const char *version)
{
    uint64_t begin = serve_now();
    char *body;
    size_t n;
    int status = serve_body_read(c, &body, &n);
    if (status) return body_failed(c, status);
    for (int tries = 0; tries < 8; ++tries) { /* of a model that is being replaced the new one is asked */
        serve_model *m = serve_model_find(name, version);
        if (!m) {
            status = not_found(c, name);
            break;
        }
        status = infer_body(c, m, body, n, begin);
        serve_model_drop(m);
        if (status != 410) break;
    }
    if (status == 410) status = serve_send_error(c, 503, "the model is being replaced");
    serve_body_free(body, n);
    return status;
}

/* ---- what there is ---- */

static void put_values(serve_text *t, const serve_value *v, int n, bool config)
{
    for (int i = 0; i < n; ++i) {
        const char *type = serve_datatype(v[i].dtype);
        serve_print(t, "%s{\"name\":", i ? "," : "");
        serve_put_json(t, v[i].name);
        serve_print(t, config ? ",\"data_type\":\"TYPE_%s\",\"dims\":[" : ",\"datatype\":\"%s\",\"shape\":[", !type ? "FP32" : config && v[i].dtype == SERVE_BYTES ? "STRING" : type);
        if (v[i].ndim < 0) serve_print(t, "-1");
        for (int d = 0; d < v[i].ndim; ++d) serve_print(t, d ? ",%lld" : "%lld", (long long)v[i].size[d]);
        serve_print(t, "]}");
    }
}

static int describe(struct mg_connection *c, const char *name, const char *version, bool config)
{
    serve_text t = {0};
    serve_model *m = serve_model_find(name, version);
    if (!m) return not_found(c, name);
    serve_print(&t, "{\"name\":\"%s\"", m->name);
    if (config) serve_print(&t, ",\"platform\":\"%s\",\"backend\":\"rushlight\",\"max_batch_size\":0,\"instance_group\":[{\"name\":\"cpu\",\"kind\":\"KIND_CPU\",\"count\":%d}],"
                                "\"dynamic_batching\":{\"preferred_batch_size\":[%d],\"max_queue_delay_microseconds\":%lld}",
                            m->platform, m->instances, m->max_batch, (long long)m->delay_us);
    else serve_print(&t, ",\"versions\":[\"%s\"],\"platform\":\"%s\"", m->version, m->platform);
    serve_print(&t, config ? ",\"input\":[" : ",\"inputs\":[");
    put_values(&t, m->in, m->nin, config);
    serve_print(&t, config ? "],\"output\":[" : "],\"outputs\":[");
    put_values(&t, m->out, m->nout, config);
    serve_print(&t, "]}");
    serve_model_drop(m);
    return send_json(c, &t);
}

static void put_count(serve_text *t, const char *name, const serve_count *x, bool first)
{
    serve_print(t, "%s\"%s\":{\"count\":%llu,\"ns\":%llu}", first ? "" : ",", name, atomic_load(&((serve_count *)x)->n), atomic_load(&((serve_count *)x)->ns));
}

typedef struct listing { serve_text *t; const char *name, *version; int n; } listing;

static void put_stats(serve_entry *e, void *arg)
{
    listing *l = arg;
    serve_text *t = l->t;
    serve_stats *s = &e->stats;
    if ((l->name && strcmp(l->name, e->name)) || (l->version && strcmp(l->version, e->version)) || !e->model) return;
    serve_print(t, "%s{\"name\":\"%s\",\"version\":\"%s\",\"last_inference\":%llu,\"inference_count\":%llu,\"execution_count\":%llu,\"inference_stats\":{", l->n++ ? "," : "", e->name, e->version,
                atomic_load(&s->last_ms), atomic_load(&s->rows), atomic_load(&s->executions));
    put_count(t, "success", &s->success, true);
    put_count(t, "fail", &s->fail, false);
    put_count(t, "queue", &s->waited, false);
    put_count(t, "compute_input", &s->input, false);
    put_count(t, "compute_infer", &s->infer, false);
    put_count(t, "compute_output", &s->output, false);
    serve_print(t, "},\"batch_stats\":[]}");
}

static int stats(struct mg_connection *c, const char *name, const char *version)
{
    serve_text t = {0};
    listing l = {&t, name, version, 0};
    serve_print(&t, "{\"model_stats\":[");
    serve_repository_each(put_stats, &l);
    serve_print(&t, "]}");
    if (name && !l.n) return free(t.p), not_found(c, name);
    return send_json(c, &t);
}

static void put_entry(serve_entry *e, void *arg)
{
    listing *l = arg;
    serve_print(l->t, "%s{\"name\":\"%s\",\"version\":\"%s\",\"state\":\"%s\",\"reason\":", l->n++ ? "," : "", e->name, e->version, e->model ? "READY" : "UNAVAILABLE");
    serve_put_json(l->t, e->reason);
    serve_print(l->t, "}");
}

static int metrics(struct mg_connection *c)
{
    serve_text t = {0};
    serve_metrics(&t, atomic_load(&answering), atomic_load(&held));
    return serve_send(c, 200, "text/plain; version=0.0.4", &t);
}

/* ---- the repository ---- */

static int change(struct mg_connection *c, const char *name, bool load)
{
    char why[SERVE_ERROR];
    rush_json *json;
    int status = read_json(c, &json);
    if (status) return body_failed(c, status);
    int failed = load ? serve_repository_load(name, rush_json_get(json, "parameters"), why, sizeof why) : 0;
    rush_free(json);
    rush_error_clear();
    if (failed) return serve_send_error(c, 400, why);
    if (!load && serve_repository_unload(name)) return not_found(c, name);
    return send_all(c, 200, "application/json", "", 0, 0);
}

static int list_models(struct mg_connection *c)
{
    char *body;
    size_t n;
    int status = serve_body_read(c, &body, &n);
    if (status) return body_failed(c, status);
    serve_body_free(body, n);
    serve_text t = {0};
    listing l = {&t, NULL, NULL, 0};
    serve_print(&t, "[");
    serve_repository_each(put_entry, &l);
    serve_print(&t, "]");
    return send_json(c, &t);
}

/* ---- logging, traces and shared memory ---- */

static int logging(struct mg_connection *c, bool post)
{
    serve_text t = {0};
    rush_json *json = NULL;
    int status = post ? read_json(c, &json) : 0;
    if (status) return body_failed(c, status);
    int failed = post ? serve_log_change(json) : 0;
    rush_free(json);
    if (failed) return serve_send_failed(c);
    serve_log_settings(&t);
    return send_json(c, &t);
}

static int trace_setting(struct mg_connection *c, const char *model, bool post)
{
    serve_text t = {0};
    rush_json *json = NULL;
    int status = post ? read_json(c, &json) : 0;
    if (status) return body_failed(c, status);
    serve_model *m = model ? serve_model_find(model, NULL) : NULL; /* settings are kept for models that there are */
    bool missing = model && !m;
    int failed = post && !missing ? serve_trace_change(model, json) : 0;
    serve_model_drop(m);
    rush_free(json);
    if (missing) return not_found(c, model);
    if (failed) return serve_send_failed(c);
    serve_trace_settings(model, &t);
    return send_json(c, &t);
}

static int register_region(struct mg_connection *c, const char *name)
{
    rush_json *json;
    int status = read_json(c, &json);
    if (status) return body_failed(c, status);
    int failed = serve_shared_register(name, json);
    rush_free(json);
    return failed ? serve_send_failed(c) : send_all(c, 200, "application/json", "", 0, 0);
}

/* [region/NAME/]status, register, unregister */
static int shared_path(struct mg_connection *c, char *path, bool post)
{
    char *rest = NULL, *what = strtok_r(path, "/", &rest), *name = NULL;
    if (what && !strcmp(what, "region")) name = strtok_r(NULL, "/", &rest), what = strtok_r(NULL, "/", &rest);
    if (!what || strtok_r(NULL, "/", &rest)) return serve_send_error(c, 404, "no such path");
    if (post && !strcmp(what, "unregister")) return serve_shared_unregister(name), send_all(c, 200, "application/json", "", 0, 0);
    if (post && name && !strcmp(what, "register")) {
        if (!serve_given.shared) return serve_send_error(c, 400, "shared memory is for servers that are started with --shared-memory");
        return is_near(c) ? register_region(c, name) : serve_send_error(c, 400, "shared memory is for clients on the server's machine");
    }
    if (post || strcmp(what, "status")) return serve_send_error(c, 404, "no such path");
    serve_text t = {0};
    serve_print(&t, "[");
    int n = serve_shared_list(name, &t);
    serve_print(&t, "]");
    if (!name || n) return send_json(c, &t);
    free(t.p);
    return serve_send_error(c, 404, "no such shared memory region");
}

/* ---- paths ---- */

static int about(struct mg_connection *c)
{
    serve_text t = {0};
    serve_print(&t, "{\"name\":\"rushlight\",\"version\":\"%s\",\"extensions\":[\"classification\",\"binary_tensor_data\",\"model_configuration\",\"model_repository\",\"model_repository(unload_dependents)\",\"statistics\",\"trace\",\"logging\"%s]}", rush_version(),
                serve_given.shared ? ",\"system_shared_memory\"" : "");
    return send_json(c, &t);
}

static void count_unready(serve_entry *e, void *arg) { *(int *)arg += !e->model && !e->unloaded; }

static int health(struct mg_connection *c, bool ready)
{
    int unready = 0;
    if (ready) serve_repository_each(count_unready, &unready);
    bool well = !ready || (!unready && !atomic_load(&serve_draining));
    return send_all(c, well ? 200 : 503, "application/json", "", 0, 0);
}

/* /v2/models/NAME[/versions/V][/WHAT] */
static int model_path(struct mg_connection *c, char *path, bool post)
{
    char *rest = NULL, *name = strtok_r(path, "/", &rest), *version = NULL, *what = strtok_r(NULL, "/", &rest);
    if (!name) return serve_send_error(c, 404, "no such path");
    if (!strcmp(name, "stats") && !what) return stats(c, NULL, NULL);
    if (what && !strcmp(what, "versions")) {
        version = strtok_r(NULL, "/", &rest);
        what = strtok_r(NULL, "/", &rest);
        if (!version) return serve_send_error(c, 404, "no such path");
    }
    if (post && what && !strcmp(what, "infer")) return infer(c, name, version);
    if (what && !strcmp(what, "trace")) {
        const char *more = strtok_r(NULL, "/", &rest);
        return more && !strcmp(more, "setting") ? trace_setting(c, name, post) : serve_send_error(c, 404, "no such path");
    }
    if (post) return serve_send_error(c, 405, "this path is read with GET");
    if (!what) return describe(c, name, version, false);
    if (!strcmp(what, "config")) return describe(c, name, version, true);
    if (!strcmp(what, "stats")) return stats(c, name, version);
    if (strcmp(what, "ready")) return serve_send_error(c, 404, "no such path");
    serve_model *m = serve_model_find(name, version);
    serve_model_drop(m);
    return send_all(c, m && !atomic_load(&serve_draining) ? 200 : 400, "application/json", "", 0, 0);
}

static int repository_path(struct mg_connection *c, char *path)
{
    char *rest = NULL, *first = strtok_r(path, "/", &rest), *name = strtok_r(NULL, "/", &rest), *what = strtok_r(NULL, "/", &rest);
    if (first && !strcmp(first, "index") && !name) return list_models(c);
    if (!first || strcmp(first, "models") || !what || (strcmp(what, "load") && strcmp(what, "unload"))) return serve_send_error(c, 404, "no such path");
    return change(c, name, !strcmp(what, "load"));
}

/* page.html: models, a form to try one, how long requests take. */
static int page(struct mg_connection *c)
{
    static const char text[] =
#include "page.inc"
        ;
    return send_all(c, 200, "text/html; charset=utf-8", text, sizeof text - 1, 0);
}

static int route(struct mg_connection *c, char *path, bool post)
{
    if (!strcmp(path, "/") && !post) return page(c);
    if (!strcmp(path, "/metrics") && !post) return metrics(c);
    if ((!strcmp(path, "/v2") || !strcmp(path, "/v2/")) && !post) return about(c);
    if (!strcmp(path, "/v2/health/live")) return health(c, false);
    if (!strcmp(path, "/v2/health/ready")) return health(c, true);
    if (!strncmp(path, "/v1/", 4)) return serve_openai(c, path + 4, post);
    if (!strncmp(path, "/v2/models/", 11)) return model_path(c, path + 11, post);
    if (!strncmp(path, "/v2/repository/", 15) && post) return repository_path(c, path + 15);
    if (!strcmp(path, "/v2/trace/setting")) return trace_setting(c, NULL, post);
    if (!strcmp(path, "/v2/logging")) return logging(c, post);
    if (!strncmp(path, "/v2/systemsharedmemory/", 23)) return shared_path(c, path + 23, post);
    if (!strncmp(path, "/v2/cudasharedmemory/", 21)) {
        if (!post) return send_all(c, 200, "application/json", "[]", 2, 0);
        return strstr(path, "/unregister") ? send_all(c, 200, "application/json", "", 0, 0) : serve_send_error(c, 400, "this server computes on no CUDA device");
    }
    return serve_send_error(c, 404, "no such path");
}

/* Compares all of both, so that the time says nothing. */
static bool same(const char *a, const char *key)
{
    size_t n = strlen(key), m = strlen(a);
    unsigned different = n != m;
    for (size_t i = 0; i < n; ++i) different |= (unsigned)(a[i < m ? i : 0] ^ key[i]);
    return !different;
}

/* The key as a browser sends it: the password of a user of any name. */
static bool is_password(const char *told, const char *key)
{
    char text[512];
    size_t n = strlen(told);
    if (n / 4 * 3 + 3 >= sizeof text || !serve_base64(told, n, text, &n)) return false;
    text[n] = 0;
    const char *colon = strchr(text, ':');
    return colon && same(colon + 1, key);
}

static bool may(struct mg_connection *c)
{
    const char *bearer = mg_get_header(c, "Authorization"), *key = mg_get_header(c, "X-API-Key");
    if (!serve_given.key) return true;
    return (bearer && !strncasecmp(bearer, "Bearer ", 7) && same(bearer + 7, serve_given.key)) ||
           (bearer && !strncasecmp(bearer, "Basic ", 6) && is_password(bearer + 6, serve_given.key)) || (key && same(key, serve_given.key));
}

/* Does the request say once, and in one way, where its body ends? Else who stands before the server may see the next request elsewhere. */
static bool is_framed(const struct mg_request_info *info)
{
    const char *length = NULL, *encoding = NULL;
    for (int i = 0; i < info->num_headers; ++i) {
        const char *name = info->http_headers[i].name, **told = !strcasecmp(name, "Content-Length") ? &length : !strcasecmp(name, "Transfer-Encoding") ? &encoding : NULL;
        if (told && *told) return false;
        if (told) *told = info->http_headers[i].value;
    }
    size_t digits = length ? strspn(length, "0123456789") : 0;
    return !length || (!encoding && digits && !length[digits + strspn(length + digits, " \t")]);
}

static int handle(struct mg_connection *c, void *arg)
{
    const struct mg_request_info *info = mg_get_request_info(c);
    char path[1024];
    uint64_t begin = serve_now();
    int status;
    atomic_fetch_add(&answering, 1);
    response_counted = false;
    bool logged = serve_logs_requests(); /* as it was asked: the line is written after the answer, when the client may have changed that already */
    bool post = !strcmp(info->request_method, "POST"), get = !strcmp(info->request_method, "GET") || !strcmp(info->request_method, "HEAD");
    if (info->num_headers >= (int)RUSH_COUNT(info->http_headers)) status = serve_send_error(c, 431, "too many headers"); /* what is beyond them was not read */
    else if (!is_framed(info)) status = serve_send_error(c, 400, "the headers do not say clearly where the body ends");
    else if (!may(c)) status = serve_send_error(c, 401, "this server needs a key");
    else if (!post && !get) status = serve_send_error(c, 405, "only GET, HEAD and POST");
    else if ((size_t)snprintf(path, sizeof path, "%s", info->local_uri) >= sizeof path) status = serve_send_error(c, 404, "no such path");
    else status = route(c, path, post);
    serve_count_response(status); /* one whose client left was never sent */
    if (logged) serve_log_request(info->request_method, info->local_uri ? info->local_uri : "", status, serve_now() - begin, info->remote_addr);
    rush_error_clear();
    atomic_fetch_sub(&answering, 1);
    return status;
}

static int quiet(const struct mg_connection *c, const char *message)
{
    rush_log(3, "%s", message);
    return 1;
}

/* Only instances compute on several threads. libgomp's wait briefly, and then sleep, as soon as all teams together have more threads than there are processors. */
static void *begin_thread(const struct mg_context *context, int type)
{
    rush_parallel_alone(true);
    return NULL;
}

/* Stands before the C library's, for civetweb: it asks for 100 kB, and a thread's stack also holds the thread-local variables of all libraries that the
 * command begins with. Those of the index's OpenBLAS alone take 143 kB, and no thread would start. */
RUSH_API int pthread_attr_setstacksize(pthread_attr_t *attr, size_t n)
{
    int (*set)(pthread_attr_t *, size_t);
    *(void **)&set = dlsym(RTLD_NEXT, "pthread_attr_setstacksize");
    return set ? set(attr, n < (size_t)512 << 10 ? (size_t)512 << 10 : n) : ENOSYS;
}

int serve_http_begin(void)
{
    char ports[128], threads[16], timeout[24];
    const char *pem = serve_given.tls;
    if (pem) RUSH_CHECK(mg_init_library(MG_FEATURES_TLS) & MG_FEATURES_TLS, RUSH_NOT_IMPLEMENTED, "civetweb could not load OpenSSL: libssl.so is missing, or of a version that it does not know (docs/serve.md)");
    else mg_init_library(0);
    struct in_addr unused;
    bool six = strchr(serve_given.host, ':') != NULL, named = serve_given.host[strspn(serve_given.host, "0123456789.")];
    RUSH_CHECK(six || named || inet_pton(AF_INET, serve_given.host, &unused) == 1, RUSH_VALUE_ERROR, "cannot listen at '%s': it is no address", serve_given.host); /* civetweb would find one in it */
    RUSH_CHECK(!six || mg_check_feature(MG_FEATURES_IPV6), RUSH_NOT_IMPLEMENTED, "cannot listen at %s: civetweb was built without IPv6 on this machine", serve_given.host);
    snprintf(ports, sizeof ports, six ? "[%s]:%d%s" : "%s:%d%s", serve_given.host, serve_given.port, pem ? "s" : "");
    snprintf(threads, sizeof threads, "%d", serve_given.connections);
    snprintf(timeout, sizeof timeout, "%lld", (long long)serve_given.timeout_ms);
    const char *options[] = {"listening_ports", ports, "num_threads", threads, "enable_keep_alive", "yes", "keep_alive_timeout_ms", timeout, "request_timeout_ms", timeout, "tcp_nodelay", "1",
                             "max_request_size", "16384", "enable_directory_listing", "no", "access_control_allow_methods", "", "enable_auth_domain_check", "no", pem ? "ssl_certificate" : NULL, pem, "ssl_protocol_version", "4" /* TLS 1.2 and above */, NULL};
    const struct mg_callbacks callbacks = {.log_message = quiet, .init_thread = begin_thread};
    char why[256] = "";
    struct mg_init_data init = {.callbacks = &callbacks, .configuration_options = options};
    struct mg_error_data error = {.text = why, .text_buffer_size = sizeof why};
    server = mg_start2(&init, &error);
    RUSH_CHECK(server, RUSH_IO_ERROR, "cannot listen at %s%s: %s", ports, pem ? " with that certificate and key" : "", *why ? why : strerror(errno));
    mg_set_request_handler(server, "/", handle, NULL);
    struct mg_server_port port[4];
    if (mg_get_server_ports(server, 4, port) > 0) serve_given.port = port[0].port;
    return 0;
}

void serve_http_drain(void)
{
    atomic_store(&serve_draining, true);
    struct timespec moment = {.tv_nsec = 10000000};
    for (int64_t waited = 0, idle = 0; waited < serve_given.grace_ms && idle < 200; waited += 10, idle = atomic_load(&answering) ? 0 : idle + 10) nanosleep(&moment, NULL);
}

void serve_http_end(void)
{
    if (server) mg_stop(server);
    mg_exit_library();
}
