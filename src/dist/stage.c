/* stage.c - tensors of devices for engines that know only memory of the host: copies there take their place during the call.
 *
 * The call comes behind what the caller's stream was given before: its start is marked there, and the copies are made on a stream
 * of the group's own, which waits for the mark. It has ended when its results are on the device, so that whoever has waited for
 * the work need not wait for a stream. The copies lie in one piece of page-locked memory that the group keeps.
 */
#include "dist/group.h"

enum { ALIGN = 64 };

int rush_stage_mark(rush_work *w)
{
    if (w->device.type == RUSH_CPU) return 0;
    w->ready = rush_event_new(w->device, false);
    return w->ready ? rush_event_record(w->ready, rush_device_stream(w->device)) : -1;
}

static size_t room_of(const rush_tensor *t)
{
    return ((size_t)rush_numel(t) * rush_dtype_size(rush_dtype_of(t)) + ALIGN - 1) / ALIGN * ALIGN;
}

void rush_stage_free(rush_stage *s)
{
    if (s->memory && s->backend->unpin) s->backend->unpin(s->memory, s->bytes);
    else rush_free(s->memory);
    s->memory = NULL;
    s->bytes = 0;
}

/* The stream of the device, and so many bytes. */
static int prepare(rush_stage *s, rush_device d, size_t bytes)
{
    if (!s->backend || !rush_same_device(s->device, d)) {
        int stream = rush_stream_new(d, 0);
        if (stream < 0) return -1;
        rush_stage_free(s); /* it may be another backend's */
        *s = (rush_stage){.device = d, .stream = stream, .backend = rush_backend_of(d)};
    }
    if (bytes <= s->bytes) return 0;
    rush_stage_free(s);
    size_t n = 4096;
    while (n < bytes) n *= 2;
    s->memory = s->backend->pin ? s->backend->pin(n) : rush_malloc(n);
    s->bytes = s->memory ? n : 0;
    return s->memory ? 0 : -1;
}

/* The same strides, if they leave no gaps: elements are sent in the order of their memory. */
static rush_tensor *on_host(const rush_tensor *t, char **at)
{
    rush_tensor *host = rush_from_blob(*at, rush_dtype_of(t), rush_ndim(t), rush_sizes(t), t->flags & RUSH_T_DENSE ? t->stride : NULL, NULL, NULL);
    *at += room_of(t);
    return host;
}

static int with_copies(rush_work *w, rush_tensor **host, int (*run)(rush_work *))
{
    rush_collective *k = &w->call, given = *k;
    bool reads_out = k->kind == RUSH_DIST_ALL_REDUCE || k->kind == RUSH_DIST_REDUCE || k->kind == RUSH_DIST_BROADCAST;
    char *at = w->group->stage.memory;
    for (int i = 0; i < k->nin; i++)
        if (!(host[i] = on_host(k->in[i], &at)) || rush_copy_into(host[i], k->in[i])) return -1;
    for (int i = 0; i < k->nout; i++)
        if (!(host[k->nin + i] = on_host(k->out[i], &at)) || (reads_out && rush_copy_into(host[k->nin + i], k->out[i]))) return -1;
    if (k->reduce == RUSH_REDUCE_PREMUL_SUM) { /* of an NCCL that is emulated */
        rush_tensor **scaled = k->nin ? host : host + k->nin;
        for (int i = 0; i < (k->nin ? k->nin : k->nout); i++) rush_scale(rush_data(scaled[i]), rush_dtype_of(scaled[i]), (size_t)rush_numel(scaled[i]), k->factor);
        k->reduce = RUSH_REDUCE_SUM;
    }
    k->in = host;
    k->out = host + k->nin;
    int failed = run(w);
    k->in = given.in;
    k->out = given.out;
    k->reduce = given.reduce;
    for (int i = 0; i < k->nout && !failed; i++) failed = rush_copy_into(k->out[i], host[k->nin + i]);
    return failed || rush_stream_synchronize(w->device, w->group->stage.stream) ? -1 : 0;
}

int rush_stage_run(rush_work *w, int (*run)(rush_work *))
{
    rush_collective *k = &w->call;
    rush_stage *s = &w->group->stage;
    size_t bytes = ALIGN; /* some, so that there is an address */
    if (w->device.type == RUSH_CPU) return run(w);
    for (int i = 0; i < k->nin; i++) bytes += room_of(k->in[i]);
    for (int i = 0; i < k->nout; i++) bytes += room_of(k->out[i]);
    rush_tensor **host = rush_malloc((size_t)(k->nin + k->nout) * sizeof *host);
    int before = rush_device_stream(w->device), failed = !host || prepare(s, w->device, bytes) || rush_device_stream_set(w->device, s->stream);
    if (!failed) failed = rush_event_wait(w->ready, s->stream) || with_copies(w, host, run);
    rush_device_stream_set(w->device, before);
    rush_free(host);
    return failed ? -1 : 0;
}
