/* recorder.c - the flight recorder: a ring of the last calls of all groups of this process, for those who look why a job has failed.
 *
 * TORCH_FR_BUFFER_SIZE calls (2000; 0: none) are remembered. When a call fails, they are written to the file that
 * TORCH_FR_DUMP_TEMP_FILE names, with the rank's number behind the name; without it nothing is written.
 */
#define _GNU_SOURCE
#include "dist/recorder.h"
#include "base/json.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

enum { DIMS = 8, NAME = 48, USUAL = 2000, MOST = 1 << 20 };

typedef struct shapes { /* of the tensors of one side, which all have the size of the first */
    int n, ndim;
    int64_t size[DIMS];
} shapes;

typedef struct record {
    int64_t id, number, created, started, ended; /* nanoseconds since 1970; 0: not yet */
    const char *name, *backend; /* of the operation */
    const char *word;        /* of the dtype; NULL: no tensors */
    char group[NAME];
    shapes in, out;
    double timeout;
    bool message, failed;
} record;

static struct {
    pthread_mutex_t lock;
    record *ring;
    int64_t room, count;     /* count: of all that were ever begun */
    bool opened, dumped;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static const char *environment(const char *name, const char *older)
{
    const char *told = getenv(name);
    return told && *told ? told : getenv(older);
}

/* The ring is made when the first call comes. */
static bool open_ring(void)
{
    if (all.opened) return all.ring;
    all.opened = true;
    const char *told = environment("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE");
    all.room = told ? atoll(told) : USUAL;
    if (all.room <= 0 || all.room > MOST) return false;
    all.ring = rush_calloc((size_t)all.room, sizeof *all.ring);
    rush_error_clear(); /* without memory nothing is remembered */
    return all.ring;
}

static void take_shapes(shapes *s, rush_tensor *const *t, int n)
{
    s->n = n;
    s->ndim = n ? RUSH_MIN(rush_ndim(t[0]), DIMS) : 0;
    for (int d = 0; d < s->ndim; d++) s->size[d] = rush_size(t[0], d);
}

void rush_recorder_begin(rush_work *w)
{
    rush_group *g = w->group;
    rush_tensor *t = w->call.nout ? w->call.out[0] : w->call.nin ? w->call.in[0] : NULL;
    pthread_mutex_lock(&all.lock);
    if (!rush_failed() && open_ring()) {
        record *r = &all.ring[all.count % all.room];
        *r = (record){.id = all.count++, .number = w->number, .created = now(), .name = rush_collective_name(w->call.kind), .backend = w->device.type == RUSH_CPU && g->backend ? g->backend : g->device_backend, .word = t ? rush_dtype_word(rush_dtype_of(t)) : NULL,
                      .timeout = w->call.timeout, .message = w->number < 0};
        snprintf(r->group, sizeof r->group, "%s", g->name);
        bool in_place = w->call.kind == RUSH_DIST_ALL_REDUCE || w->call.kind == RUSH_DIST_BROADCAST || w->call.kind == RUSH_DIST_REDUCE;
        take_shapes(&r->in, in_place ? w->call.out : w->call.in, in_place ? w->call.nout : w->call.nin);
        take_shapes(&r->out, w->call.out, w->call.nout);
        w->record = r->id + 1;
    }
    pthread_mutex_unlock(&all.lock);
}

/* The record of a work, if it is still there. Under the lock. */
static record *record_of(const rush_work *w)
{
    record *r = w->record ? &all.ring[(w->record - 1) % all.room] : NULL;
    return r && r->id == w->record - 1 ? r : NULL;
}

void rush_recorder_start(rush_work *w)
{
    pthread_mutex_lock(&all.lock);
    record *r = record_of(w);
    if (r) r->started = now();
    pthread_mutex_unlock(&all.lock);
}

void rush_recorder_end(rush_work *w)
{
    pthread_mutex_lock(&all.lock);
    record *r = record_of(w);
    if (r && !r->ended) {
        r->ended = now();
        r->failed = w->error.kind;
    }
    pthread_mutex_unlock(&all.lock);
}

void rush_recorder_clear(void)
{
    pthread_mutex_lock(&all.lock);
    all.count = 0;
    if (all.ring) memset(all.ring, 0, (size_t)all.room * sizeof *all.ring);
    pthread_mutex_unlock(&all.lock);
}

/* ---- JSON ---- */

static void put_shapes(FILE *f, const char *side, const shapes *s, const char *word)
{
    fprintf(f, "\"%s_sizes\": [", side);
    for (int i = 0; i < s->n; i++) {
        fprintf(f, "%s[", i ? ", " : "");
        for (int d = 0; d < s->ndim; d++) fprintf(f, "%s%lld", d ? ", " : "", (long long)s->size[d]);
        fputc(']', f);
    }
    fprintf(f, "], \"%s_dtypes\": [", side);
    for (int i = 0; i < s->n; i++) fprintf(f, "%s\"%s\"", i ? ", " : "", word);
    fputs("], ", f);
}

static void put_time(FILE *f, const char *name, int64_t t)
{
    if (t) fprintf(f, "\"%s\": %lld, ", name, (long long)t);
    else fprintf(f, "\"%s\": null, ", name);
}

static void put_record(FILE *f, const record *r)
{
    fprintf(f, "{\"record_id\": %lld, \"op_id\": %lld, \"process_group\": [", (long long)r->id, (long long)r->id + 1);
    rush_json_write_text(f, r->group);
    fprintf(f, ", \"%s\"], \"collective_seq_id\": %lld, \"is_p2p\": %s, \"profiling_name\": \"%s:%s\", ", strcmp(r->group, "0") ? "undefined" : "default_pg",
            (long long)r->number + 1, r->message ? "true" : "false", r->backend, r->name);
    put_time(f, "time_created_ns", r->created);
    put_time(f, "time_discovered_started_ns", r->started);
    put_time(f, "time_discovered_completed_ns", r->ended);
    put_shapes(f, "input", &r->in, r->word);
    put_shapes(f, "output", &r->out, r->word);
    fprintf(f, "\"state\": \"%s\", \"retired\": %s, \"timeout_ms\": %.0f}", r->failed ? "failed" : r->ended ? "completed" : r->started ? "started" : "scheduled",
            r->ended ? "true" : "false", r->timeout * 1e3);
}

/* What each rank of a group began last, as far as it is known here. */
static void put_ranks(FILE *f, rush_group *g, const char *why)
{
    fputs("\"failed_group\": ", f);
    rush_json_write_text(f, g->name);
    fputs(", \"error\": ", f);
    rush_json_write_text(f, why);
    fputs(", \"ranks\": [", f);
    for (int i = 0; g->mesh && i < g->size; i++) {
        fprintf(f, "%s{\"rank\": %d, \"host\": ", i ? ", " : "", i);
        rush_json_write_text(f, rush_mesh_host(g->mesh, i) ? rush_mesh_host(g->mesh, i) : "");
        fprintf(f, ", \"last_begun\": %lld}", (long long)rush_mesh_reached(g->mesh, i));
    }
    fputs("], ", f);
}

static void put_all(FILE *f, bool collectives, bool only_active)
{
    bool first = true;
    fputs("\"version\": \"2.10\", \"entries\": [", f);
    pthread_mutex_lock(&all.lock);
    for (int64_t i = RUSH_MAX(all.count - all.room, 0); collectives && all.ring && i < all.count; i++) {
        const record *r = &all.ring[i % all.room];
        if (only_active && r->ended) continue;
        if (!first) fputs(", ", f);
        first = false;
        put_record(f, r);
    }
    pthread_mutex_unlock(&all.lock);
    fputs("]}\n", f);
}

int rush_recorder_json(rush_bytes *b, bool collectives, bool only_active)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    if (f) {
        fputc('{', f);
        put_all(f, collectives, only_active);
    }
    int failed = !f || fclose(f) || rush_bytes_copy(b, text, n);
    free(text);
    return failed && !rush_failed() ? rush_fail(RUSH_MEMORY_ERROR, "not enough memory") : failed ? -1 : 0;
}

void rush_recorder_dump(rush_group *g, const char *why)
{
    const char *prefix = environment("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE");
    pthread_mutex_lock(&all.lock);
    bool first = !all.dumped;
    all.dumped = true;
    pthread_mutex_unlock(&all.lock);
    if (!first || !prefix || !*prefix) return;
    char *path = NULL;
    FILE *f = asprintf(&path, "%s%d", prefix, g->rank) < 0 ? NULL : fopen(path, "we");
    if (f) {
        fputc('{', f);
        put_ranks(f, g, why);
        put_all(f, true, false);
    }
    if (!f || fclose(f)) rush_log(1, "the flight recorder cannot write to %s", prefix);
    free(path);
}
