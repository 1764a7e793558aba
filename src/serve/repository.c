/* repository.c - the models of a folder: DIR/NAME.pt2 (.onnx, .pt), or DIR/NAME/VERSION/model.pt2.
 *
 * The folder is looked at again every second. A file that changed is loaded beside the model that is there and takes its place
 * when it is whole; requests that are under way end with the old one. A file that cannot be loaded leaves the old one in place.
 */
#include "serve/serve.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;   /* of the list and what is in it */
static pthread_mutex_t scanning = PTHREAD_MUTEX_INITIALIZER; /* one thread at a time loads    */
static serve_entry *entries;

static void copy(char *to, size_t room, const char *from) { snprintf(to, room, "%.*s", (int)room - 1, from); }

/* ---- one model ---- */

void serve_model_drop(serve_model *m)
{
    if (!m || atomic_fetch_sub(&m->refs, 1) != 1) return;
    pthread_mutex_destroy(&m->lock);
    pthread_cond_destroy(&m->more);
    pthread_cond_destroy(&m->help);
    free(m->in);
    free(m->out);
    free(m);
}

void serve_model_end(serve_model *m)
{
    if (!m) return;
    pthread_mutex_lock(&m->lock);
    m->ending = true;
    pthread_cond_broadcast(&m->more);
    pthread_cond_broadcast(&m->help);
    pthread_mutex_unlock(&m->lock);
    serve_model_drop(m);
}

static void describe(serve_value *to, const rush_program_value *v, const char *kind, int i)
{
    if (v->name && *v->name) copy(to->name, sizeof to->name, v->name);
    else snprintf(to->name, sizeof to->name, "%s__%d", kind, i);
    to->dtype = v->dtype;
    to->ndim = v->ndim;
    for (int d = 0; d < v->ndim; ++d) to->size[d] = v->size[d];
    if (v->text) to->dtype = SERVE_BYTES, to->ndim--; /* the bytes of a text are no dimension to who asks */
}

/* What the file says of inputs and results. Those of TorchScript have names only. */
static int describe_all(serve_model *m, rush_module *net)
{
    m->nin = rush_program_inputs(net);
    m->nout = rush_program_results(net);
    if (m->nin < 0 || m->nout < 0) return -1;
    if (m->nin > SERVE_TENSORS || m->nout > SERVE_TENSORS) return rush_fail(RUSH_VALUE_ERROR, "a model of more than %d inputs or results", SERVE_TENSORS);
    m->in = calloc((size_t)m->nin + 1, sizeof *m->in);
    m->out = calloc((size_t)m->nout + 1, sizeof *m->out);
    if (!m->in || !m->out) return rush_fail(RUSH_MEMORY_ERROR, "out of memory");
    bool batches = m->nin > 0;
    rush_program_value v;
    for (int i = 0; i < m->nin; ++i) {
        if (rush_program_input_at(net, i, &v)) return -1;
        describe(&m->in[i], &v, "INPUT", i);
        batches &= v.ndim < 0 || (v.ndim > 0 && v.size[0] < 0);
    }
    for (int i = 0; i < m->nout; ++i) {
        if (rush_program_result_at(net, i, &v)) return -1;
        describe(&m->out[i], &v, "OUTPUT", i);
        batches &= v.ndim < 0 || (v.ndim > 0 && v.size[0] < 0);
    }
    m->max_batch = batches ? serve_given.max_batch : 1;
    return 0;
}

static rush_module *load_net(const char *path)
{
    rush_module *net = rush_program_load(path);
    if (!net) return NULL;
    rush_module_eval(net);
    if (rush_program_freeze(net)) rush_error_clear(); /* programs of TorchScript are not folded */
    return net;
}

static int start(serve_model *m, rush_module *net, bool helps)
{
    pthread_t thread;
    serve_instance_start *arg = malloc(sizeof *arg);
    if (!arg) return rush_fail(RUSH_MEMORY_ERROR, "out of memory");
    *arg = (serve_instance_start){m, rush_module_keep(net), helps};
    atomic_fetch_add(&m->refs, 1);
    if (pthread_create(&thread, NULL, serve_instance, arg)) {
        serve_model_drop(m);
        rush_module_drop(net);
        free(arg);
        return rush_fail(RUSH_RUNTIME_ERROR, "no more threads");
    }
    return pthread_detach(thread);
}

/* Runs of a program that changes nothing may overlap: then all threads share it, and the only instance of one that takes batches
 * has a thread for each processor. */
static int start_all(serve_model *m, const char *path)
{
    rush_module *net = load_net(path);
    if (!net || describe_all(m, net)) return -1;
    bool overlap = rush_program_changes(net) == 0;
    m->led = m->instances == 1 && overlap && m->max_batch > 1 && rush_thread_limit() > 1;
    m->takers = m->led ? rush_thread_limit() : m->instances;
    for (int i = 0; i < m->takers; ++i)
        if ((i && !overlap && !(net = load_net(path))) || start(m, net, m->led && i)) return -1;
    return 0;
}

serve_model *serve_model_load(const char *name, const char *version, const char *path, serve_stats *stats)
{
    serve_model *m = calloc(1, sizeof *m);
    if (!m) return rush_fail(RUSH_MEMORY_ERROR, "out of memory"), NULL;
    pthread_condattr_t forward;
    pthread_condattr_init(&forward);
    pthread_condattr_setclock(&forward, CLOCK_MONOTONIC);
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->more, &forward);
    pthread_cond_init(&m->help, &forward);
    pthread_condattr_destroy(&forward);
    atomic_init(&m->refs, 1);
    m->last = &m->first;
    m->stats = stats;
    m->delay_us = serve_given.delay_us;
    copy(m->name, sizeof m->name, name);
    copy(m->version, sizeof m->version, version);
    const char *dot = strrchr(path, '.');
    bool talks = !strcmp(dot, ".gguf");
    copy(m->platform, sizeof m->platform, talks ? "gguf" : !strcmp(dot, ".onnx") ? "onnx" : !strcmp(dot, ".pt2") ? "pytorch_export" : "torchscript");
    int failed = 0;
    if (talks) m->max_batch = 1;
    rush_scope() {
        m->instances = serve_given.instances;
        for (int i = 0; !failed && talks && i < m->instances; ++i) failed = serve_talk_instance(m, path);
        if (!talks) failed = start_all(m, path);
    }
    if (!failed) return m;
    serve_model_end(m);
    return NULL;
}

/* ---- the list ---- */

/* Of entries with a name the one of that version, or of the highest that is loaded. */
static serve_entry *entry_of(const char *name, const char *version, bool loaded)
{
    serve_entry *best = NULL;
    for (serve_entry *e = entries; e; e = e->next) {
        if (strcmp(e->name, name) || (version && strcmp(e->version, version)) || (loaded && !e->model)) continue;
        if (!best || atoll(e->version) > atoll(best->version)) best = e;
    }
    return best;
}

serve_model *serve_model_find(const char *name, const char *version)
{
    pthread_mutex_lock(&lock);
    serve_entry *e = entry_of(name, version, true);
    serve_model *m = e ? e->model : NULL;
    if (m) atomic_fetch_add(&m->refs, 1);
    pthread_mutex_unlock(&lock);
    return m;
}

void serve_repository_each(void (*fn)(serve_entry *, void *), void *arg)
{
    pthread_mutex_lock(&lock);
    for (serve_entry *e = entries; e; e = e->next) fn(e, arg);
    pthread_mutex_unlock(&lock);
}

static void replace(serve_entry *e, serve_model *fresh, const char *reason)
{
    pthread_mutex_lock(&lock);
    serve_model *old = e->model;
    e->model = fresh;
    copy(e->reason, sizeof e->reason, reason);
    pthread_mutex_unlock(&lock);
    serve_model_end(old);
}

/* Loads what changed. Called while `scanning` is held. */
static int refresh(serve_entry *e, bool anyway)
{
    struct stat s;
    if (stat(e->path, &s)) return 0;
    int64_t stamp[4] = {s.st_mtim.tv_sec, s.st_mtim.tv_nsec, s.st_size, (int64_t)s.st_ino};
    if (!anyway && !memcmp(stamp, e->stamp, sizeof stamp)) return 0;
    memcpy(e->stamp, stamp, sizeof stamp);
    serve_model *fresh = serve_model_load(e->name, e->version, e->path, &e->stats);
    if (fresh) {
        if (e->max_batch && fresh->max_batch > 1) fresh->max_batch = e->max_batch; /* nobody asks it yet */
        if (e->delay_us >= 0) fresh->delay_us = e->delay_us;
        atomic_fetch_add(&e->stats.loads, 1);
        rush_log(2, "%s: loaded", e->path);
        return replace(e, fresh, ""), 1;
    }
    rush_log(1, "%s: %s", e->path, rush_error());
    pthread_mutex_lock(&lock);
    copy(e->reason, sizeof e->reason, rush_error());
    pthread_mutex_unlock(&lock);
    rush_error_clear();
    return -1;
}

static bool is_name(const char *s)
{
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.");
    return n && n < SERVE_NAME && !s[n] && s[0] != '.';
}

static const char *model_ending(const char *file)
{
    static const char *const endings[] = {".pt2", ".onnx", ".pt", ".gguf"};
    size_t n = strlen(file);
    for (int k = 0; k < 4; ++k)
        if (n > strlen(endings[k]) && !strcmp(file + n - strlen(endings[k]), endings[k])) return endings[k];
    return NULL;
}

static void see(const char *name, const char *version, const char *path)
{
    pthread_mutex_lock(&lock);
    serve_entry *e = entries;
    while (e && (strcmp(e->name, name) || strcmp(e->version, version))) e = e->next;
    if (!e && (e = calloc(1, sizeof *e))) {
        copy(e->name, sizeof e->name, name);
        copy(e->version, sizeof e->version, version);
        e->delay_us = -1;
        e->next = entries;
        entries = e;
    }
    if (e && !e->sent) {
        e->seen = true;
        copy(e->path, sizeof e->path, path);
    }
    pthread_mutex_unlock(&lock);
}

/* Files of a folder: fn(full path, name). */
static void each_file(const char *dir, void (*fn)(const char *path, const char *name, void *arg), void *arg)
{
    char path[1024];
    DIR *d = opendir(dir);
    for (struct dirent *f; d && (f = readdir(d));)
        if (f->d_name[0] != '.' && (size_t)snprintf(path, sizeof path, "%s/%s", dir, f->d_name) < sizeof path) fn(path, f->d_name, arg);
    if (d) closedir(d);
}

typedef struct place { const char *name, *version; } place;

static void see_file(const char *path, const char *file, void *arg)
{
    const place *p = arg;
    const char *ending = model_ending(file);
    if (ending && !strncmp(file, "model.", 6)) see(p->name, p->version, path);
}

static void see_version(const char *path, const char *version, void *arg)
{
    place p = {arg, version};
    if (version[strspn(version, "0123456789")] == 0 && strlen(version) < 20) each_file(path, see_file, &p);
}

static void see_model(const char *path, const char *file, void *arg)
{
    const char *ending = model_ending(file);
    char name[SERVE_NAME];
    if (!is_name(file)) return;
    copy(name, sizeof name, file);
    if (ending) {
        name[strlen(file) - strlen(ending)] = 0;
        see(name, "1", path);
    } else each_file(path, see_version, name);
}

static void not_seen(serve_entry *e, void *arg) { e->seen = false; }

int serve_repository_scan(void)
{
    int changed = 0;
    pthread_mutex_lock(&scanning);
    serve_repository_each(not_seen, NULL);
    each_file(serve_given.dir, see_model, NULL);
    for (serve_entry *e = entries; e; e = e->next) { /* only this thread changes the list */
        if (e->unloaded || e->sent) continue;
        if (!e->seen && e->model) replace(e, NULL, "the file is gone"), memset(e->stamp, 0, sizeof e->stamp), ++changed;
        else if (e->seen) changed += refresh(e, false) > 0;
    }
    pthread_mutex_unlock(&scanning);
    return changed;
}

/* ---- what a request asks for ---- */

enum { MOST_ENTRIES = 4096 }; /* names that came with requests are remembered: not without end */

typedef struct wish { const char *name; const rush_json *parameters; char *error; size_t room; int result; } wish;

/* How a model is run: Triton's names for it. The rest of a configuration says what the file says itself. */
static int configure(const wish *w, int *max_batch, int64_t *delay_us)
{
    const rush_json *text = rush_json_get(w->parameters, "config");
    *max_batch = 0;
    *delay_us = -1;
    if (!text) return 0;
    rush_json *json = rush_json_text(text) ? rush_json_read(text->text, strlen(text->text)) : NULL;
    const rush_json *batch = rush_json_get(json, "max_batch_size"), *delay = rush_json_get(rush_json_get(json, "dynamic_batching"), "max_queue_delay_microseconds");
    bool well = rush_json_is(json, RUSH_JSON_OBJECT) && (!batch || (rush_json_is(batch, RUSH_JSON_WHOLE) && batch->i >= 0 && batch->i <= 1 << 20)) &&
                (!delay || (rush_json_is(delay, RUSH_JSON_WHOLE) && delay->i >= 0 && delay->i <= 1000000000));
    if (well && batch && batch->i) *max_batch = (int)batch->i;
    if (well && delay) *delay_us = delay->i;
    rush_free(json);
    rush_error_clear();
    if (!well) copy(w->error, w->room, "'config' is no configuration of a model");
    return well ? 0 : -1;
}

/* The bytes of a file that was sent, in a file of the same name. 0; -1. */
static int write_sent(const wish *w, const rush_json *file, const char *path)
{
    const char *text = rush_json_text(file);
    size_t n = text ? strlen(text) : 0;
    char *bytes = malloc(n / 4 * 3 + 3);
    FILE *f = bytes && text && serve_base64(text, n, bytes, &n) ? fopen(path, "wxe") : NULL;
    bool well = f && fwrite(bytes, 1, n, f) == n;
    if (f && fclose(f)) well = false;
    free(bytes);
    if (!well) snprintf(w->error, w->room, "'%.100s' is not sent in base64, or there is no room for it", file->name);
    return well ? 0 : -1;
}

/* One that cannot be loaded leaves what was there; a name that was not there before is then one that nobody waits for. */
static int take_sent(const wish *w, serve_entry *e, const char *path, int max_batch, int64_t delay_us)
{
    int old_batch = e->max_batch;
    int64_t old_delay = e->delay_us;
    e->max_batch = max_batch, e->delay_us = delay_us;
    copy(e->path, sizeof e->path, path);
    if (refresh(e, true) > 0) return e->sent = true, e->unloaded = false, 0;
    e->max_batch = old_batch, e->delay_us = old_delay;
    e->unloaded |= !e->model;
    copy(w->error, w->room, e->reason);
    return -1;
}

/* "file:1/model.pt2": loaded from a folder that is gone afterwards, in place of a model of that name and version. */
static int load_sent(const wish *w, const rush_json *file, int max_batch, int64_t delay_us)
{
    char folder[] = "/tmp/rushlight-XXXXXX", path[64], version[24];
    const char *slash = strchr(file->name + 5, '/'), *ending = slash ? model_ending(slash + 1) : NULL;
    size_t digits = strspn(file->name + 5, "0123456789");
    if (!ending || !digits || digits > 19 || file->name + 5 + digits != slash || strncmp(slash + 1, "model.", 6) || strlen(slash + 1) > 16)
        return snprintf(w->error, w->room, "'%.100s' is not file:VERSION/model.pt2 (.onnx, .pt, .gguf)", file->name), -1;
    snprintf(version, sizeof version, "%.*s", (int)digits, file->name + 5);
    if (!mkdtemp(folder)) return copy(w->error, w->room, "there is no room for files"), -1;
    snprintf(path, sizeof path, "%s/%s", folder, slash + 1);
    int failed = write_sent(w, file, path);
    if (!failed) {
        see(w->name, version, path);
        serve_entry *e = entries;
        while (e && (strcmp(e->name, w->name) || strcmp(e->version, version))) e = e->next;
        failed = e ? take_sent(w, e, path, max_batch, delay_us) : -1;
    }
    unlink(path);
    rmdir(folder);
    return failed;
}

static void grant_files(wish *w, int max_batch, int64_t delay_us)
{
    int n = 0;
    for (serve_entry *e = entries; e; e = e->next) ++n;
    if (n >= MOST_ENTRIES) return copy(w->error, w->room, "the server knows too many models");
    w->result = 0;
    rush_json_each(x, w->parameters)
        if (!w->result && !strncmp(x->name, "file:", 5)) w->result = load_sent(w, x, max_batch, delay_us);
    for (serve_entry *e = entries; e && !w->result; e = e->next) /* other versions give way */
        if (!strcmp(e->name, w->name) && !e->sent) e->unloaded = true, replace(e, NULL, "another was sent");
}

static void grant_folder(wish *w, int max_batch, int64_t delay_us)
{
    for (serve_entry *e = entries; e; e = e->next)
        if (!strcmp(e->name, w->name) && e->sent) e->sent = e->seen = false, replace(e, NULL, "the file is gone");
    serve_repository_each(not_seen, NULL);
    each_file(serve_given.dir, see_model, NULL);
    for (serve_entry *e = entries; e; e = e->next) {
        if (strcmp(e->name, w->name) || !e->seen) continue;
        e->unloaded = false, e->max_batch = max_batch, e->delay_us = delay_us;
        if (refresh(e, true) > 0) w->result = 0;
        else copy(w->error, w->room, e->reason);
    }
}

static void *grant(void *arg)
{
    wish *w = arg;
    int max_batch;
    int64_t delay_us;
    bool files = false;
    rush_parallel_alone(true);
    copy(w->error, w->room, "no such model in the repository");
    if (!is_name(w->name) || configure(w, &max_batch, &delay_us)) return NULL;
    rush_json_each(x, w->parameters) files |= x->name && !strncmp(x->name, "file:", 5);
    pthread_mutex_lock(&scanning);
    (files ? grant_files : grant_folder)(w, max_batch, delay_us);
    pthread_mutex_unlock(&scanning);
    return NULL;
}

/* Files are read on a thread of its own: that of the web server has a small stack. */
int serve_repository_load(const char *name, const rush_json *parameters, char *error, size_t room)
{
    wish w = {name, rush_json_is(parameters, RUSH_JSON_OBJECT) ? parameters : NULL, error, room, -1};
    pthread_t thread;
    if (pthread_create(&thread, NULL, grant, &w)) return copy(error, room, "no more threads"), -1;
    pthread_join(thread, NULL);
    return w.result;
}

int serve_repository_unload(const char *name)
{
    int result = -1;
    pthread_mutex_lock(&scanning);
    for (serve_entry *e = entries; e; e = e->next) {
        if (strcmp(e->name, name)) continue;
        e->unloaded = true;
        replace(e, NULL, "unloaded");
        result = 0;
    }
    pthread_mutex_unlock(&scanning);
    return result;
}

void serve_repository_end(void)
{
    pthread_mutex_lock(&scanning);
    for (serve_entry *e = entries; e; e = e->next) replace(e, NULL, "the server ends");
    pthread_mutex_unlock(&scanning);
}
