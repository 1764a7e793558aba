/* collective.c - a collective from tensors to the engine and back. Tensors may be on a device whose memory the engine knows.
 *
 * Engines know dense arrays of numbers of 1, 2, 4 or 8 bytes. So several tensors, and those that are not contiguous, are
 * packed into memory that lasts for the call, but for a tensor per rank where the engine takes parts; complex numbers are two
 * real ones each.
 */
#define _GNU_SOURCE
#include "dist/group.h"

#include <stdio.h>

static const char *const names[RUSH_DIST_KINDS] = {"all_reduce", "broadcast", "reduce", "all_gather", "gather", "scatter", "reduce_scatter", "all_to_all",
                                                   "barrier", "monitored_barrier", "send", "recv"};
static const char *const reduces[RUSH_REDUCE_OPS + 1] = {"SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM"};

const char *rush_collective_name(rush_dist_kind kind) { return names[kind]; }

/* ---- packing ---- */

typedef struct dense { /* tensors as one array */
    char *p;
    rush_tensor *own; /* whose memory it is; NULL: the tensor's that was given */
    char **parts; /* (ranks) where the engine takes parts and it has one for each */
} dense;

static int64_t numel(rush_tensor *const *t, int n)
{
    int64_t all = 0;
    for (int i = 0; i < n; i++) all += rush_numel(t[i]);
    return all;
}

/* Copies between tensors and the array behind each other. */
static int move(rush_tensor *const *t, int n, rush_tensor *all, bool out)
{
    int64_t at = 0, stride[RUSH_MAXDIM];
    const size_t item = rush_dtype_size(rush_dtype_of(all));
    for (int i = 0; i < n; at += t[i++]->numel) {
        if (all->device.type == RUSH_CPU && rush_is_contiguous(t[i])) { /* quicker than an operation */
            char *own = rush_data(t[i]), *p = (char *)rush_data(all) + (size_t)at * item;
            if (t[i]->numel) memcpy(out ? own : p, out ? p : own, (size_t)t[i]->numel * item);
            continue;
        }
        rush_strides_for(RUSH_CONTIGUOUS, t[i]->ndim, t[i]->size, stride);
        rush_tensor *part = rush_tensor_alias(all, t[i]->ndim, t[i]->size, stride, all->offset + at);
        if (!part || (out ? rush_copy_into(t[i], part) : rush_copy_into(part, t[i]))) return -1;
    }
    return 0;
}

/* Do its elements fill a piece of memory without gaps, in some order? */
static bool is_dense(const rush_tensor *t)
{
    int64_t expected = 1;
    for (int placed = 0; placed < rush_ndim(t); placed++) {
        int d = 0;
        while (d < rush_ndim(t) && (rush_size(t, d) == 1 || rush_stride(t, d) != expected)) d++;
        if (d == rush_ndim(t)) break;
        expected *= rush_size(t, d);
    }
    return expected == rush_numel(t);
}

/* An array of its own, of all numbers of the tensors. */
static int dense_own(dense *d, rush_tensor *const *t, int n, bool read)
{
    int64_t all = numel(t, n);
    *d = (dense){.own = rush_keep(rush_tensor_new(rush_dtype_of(t[0]), rush_device_of(t[0]), 1, &all))};
    if (!d->own) return -1;
    d->p = rush_data(d->own);
    return read ? move(t, n, d->own, false) : 0;
}

/* any: the order does not matter, as it is the same on all ranks (so PyTorch takes it, too). */
static int dense_open(dense *d, rush_tensor *const *t, int n, bool read, bool any)
{
    *d = (dense){0};
    if (n == 1 && (rush_is_contiguous(t[0]) || (any && is_dense(t[0])))) {
        d->p = rush_data(t[0]);
        return 0;
    }
    return n ? dense_own(d, t, n, read) : 0;
}

static int dense_close(dense *d, rush_tensor *const *t, int n, bool write)
{
    int failed = d->own && write ? move(t, n, d->own, true) : 0;
    rush_drop(d->own);
    rush_free(d->parts);
    *d = (dense){0};
    return failed;
}

/* May tensors of a list stay where they are? Not where what is written lies over what is still to be read. */
static bool stays(rush_work *w, rush_tensor *const *list)
{
    const rush_collective *k = &w->call;
    int rank = w->group->rank;
    for (int i = 0; i < w->group->size; i++)
        if (!rush_is_contiguous(list[i])) return false;
    for (int i = 0; i < k->nin; i++) {
        char *in = rush_data(k->in[i]), *in_end = in + (size_t)rush_numel(k->in[i]) * rush_dtype_size(rush_dtype_of(k->in[i]));
        for (int o = 0; o < k->nout; o++) {
            char *out = rush_data(k->out[o]), *out_end = out + (size_t)rush_numel(k->out[o]) * rush_dtype_size(rush_dtype_of(k->out[o]));
            bool own = in == out && (k->nin == 1 || i == rank) && (k->nout == 1 || o == rank);
            if (in < out_end && out < in_end && !own) return false;
        }
    }
    return true;
}

/* Of a side with a part for each rank, of `each` bytes, or as many numbers as `counts` says. */
static int parts_open(dense *d, rush_work *w, rush_engine_kind kind, rush_tensor *const *t, int n, bool read, size_t each, const int64_t *counts, size_t item)
{
    int size = w->group->size;
    bool parts = w->engine && (w->engine->takes_parts >> kind & 1), apart = parts && n == size && stays(w, t);
    *d = (dense){0};
    if (!apart && dense_open(d, t, n, read, false)) return -1;
    if (!parts) return 0;
    d->parts = rush_malloc((size_t)size * sizeof *d->parts);
    char *p = d->p;
    for (int i = 0; d->parts && i < size; i++) {
        d->parts[i] = apart ? rush_data(t[i]) : p;
        if (!apart) p += counts ? (size_t)counts[i] * item : each;
    }
    return d->parts ? 0 : -1;
}

/* ---- what an engine gets ---- */

static int engine_run(rush_work *w, rush_engine_call *c)
{
    rush_group *g = w->group;
    char why[512] = "";
    c->tag = w->tag;
    c->seconds = w->call.timeout;
    c->reduce = (int)w->call.reduce;
    c->factor = w->call.factor;
    c->ranks = g->size;
    c->what = w->what;
    c->direct = w->direct;
    if (!w->engine || !w->engine->run(w->opened, c, why, sizeof why)) return 0;
    return why[0] ? rush_fail(RUSH_DIST_BACKEND_ERROR, "%s", why) : -1;
}

/* The numbers of a dtype as the engine sees them. */
static void set_numbers(rush_engine_call *c, rush_dtype dtype, int64_t n)
{
    bool pairs = rush_dtype_is_complex(dtype);
    c->dtype = rush_dtype_real(dtype);
    c->n = (size_t)n << pairs;
    c->size = rush_dtype_size(dtype) >> pairs;
}

static bool divides(const rush_work *w) { return w->call.reduce == RUSH_REDUCE_AVG && !(w->engine && w->engine->averages); }

/* Of one side that goes on in place: ALL_REDUCE, BROADCAST. */
static int in_place(rush_work *w, rush_engine_kind kind)
{
    rush_collective *k = &w->call;
    rush_dtype dtype = rush_dtype_of(k->out[0]), number = rush_dtype_real(dtype);
    bool reads = kind == RUSH_ENGINE_ALL_REDUCE || w->group->rank == k->root;
    rush_engine_call c = {.kind = kind, .root = k->root, .reduction = rush_reduction_of(number, k->reduce)};
    set_numbers(&c, dtype, numel(k->out, k->nout));
    dense d;
    int failed = dense_open(&d, k->out, k->nout, reads, true);
    c.out = d.p;
    if (!failed && (c.n || kind == RUSH_ENGINE_BROADCAST)) failed = engine_run(w, &c); /* PyTorch sends nothing, too, but does send it */
    if (!failed && kind == RUSH_ENGINE_ALL_REDUCE && divides(w)) rush_average(d.p, number, c.n, w->group->size);
    return dense_close(&d, k->out, k->nout, !failed && !(kind == RUSH_ENGINE_BROADCAST && reads)) || failed ? -1 : 0;
}

static int reduce(rush_work *w)
{
    rush_collective *k = &w->call;
    rush_dtype dtype = rush_dtype_of(k->out[0]), number = rush_dtype_real(dtype);
    rush_engine_call c = {.kind = RUSH_ENGINE_REDUCE, .root = k->root, .reduction = rush_reduction_of(number, k->reduce)};
    set_numbers(&c, dtype, numel(k->out, k->nout));
    size_t bytes = RUSH_MAX(c.n * c.size, 1), got = 0;
    bool in_place = !w->engine || w->engine->reduces_in_place, root = w->group->rank == k->root;
    dense d;
    char *result = in_place ? NULL : rush_block_alloc(bytes, &got);
    int failed = (!in_place && !result) || dense_open(&d, k->out, k->nout, true, true);
    if (!failed) {
        c.in = d.p;
        c.out = in_place ? d.p : result;
        if (c.n) failed = engine_run(w, &c);
        if (!failed && root && divides(w)) rush_average(c.out, number, c.n, w->group->size);
        if (!failed && root && c.n && !in_place) memcpy(d.p, result, c.n * c.size);
        failed = dense_close(&d, k->out, k->nout, !failed && root) || failed;
    }
    if (result) rush_block_free(result, got);
    return failed ? -1 : 0;
}

/* From one side to another: ALL_GATHER, GATHER, SCATTER, ALL_TO_ALL, REDUCE_SCATTER. `each`: numbers per rank. */
static int between(rush_work *w, rush_engine_call *c, int64_t each)
{
    rush_collective *k = &w->call;
    bool to_all = c->kind == RUSH_ENGINE_ALL_TO_ALL || c->kind == RUSH_ENGINE_ALL_TO_ALL_V;
    bool ins = to_all || c->kind == RUSH_ENGINE_SCATTER || c->kind == RUSH_ENGINE_REDUCE_SCATTER;
    bool outs = to_all || c->kind == RUSH_ENGINE_GATHER || c->kind == RUSH_ENGINE_ALL_GATHER;
    set_numbers(c, rush_dtype_of(k->nout ? k->out[0] : k->in[0]), each);
    size_t part = c->n * c->size / (c->kind == RUSH_ENGINE_ALL_TO_ALL ? (size_t)w->group->size : 1);
    dense in = {0}, out = {0};
    int failed = 0;
    if (k->nin) failed = ins ? parts_open(&in, w, c->kind, k->in, k->nin, true, part, c->in_counts, c->size) : dense_open(&in, k->in, k->nin, true, false);
    if (k->nout && !failed) failed = outs ? parts_open(&out, w, c->kind, k->out, k->nout, false, part, c->out_counts, c->size) : dense_open(&out, k->out, k->nout, false, false);
    c->in = in.p;
    c->out = out.p;
    c->ins = in.parts;
    c->outs = out.parts;
    bool fake = !w->engine;
    if (!failed && each && !fake) failed = engine_run(w, c);
    if (!failed && fake && k->nin && k->nout) { /* as if all ranks had what this one has */
        size_t item = rush_dtype_size(rush_dtype_of(k->out[0])), from = (size_t)numel(k->in, k->nin) * item, to = (size_t)numel(k->out, k->nout) * item;
        for (size_t at = 0; from && at < to; at += from) memcpy(out.p + at, in.p, RUSH_MIN(from, to - at));
    }
    if (!failed && c->reduction && divides(w)) rush_average(out.p, (rush_dtype)c->dtype, c->n, w->group->size);
    failed = dense_close(&out, k->out, k->nout, !failed) || failed;
    dense_close(&in, k->in, k->nin, false);
    return failed ? -1 : 0;
}

/* All of it is reduced, and each rank takes its part: what PyTorch's gloo does, too, for one tensor; of several it reduces each,
 * and so do we, for its ranks' sake. */
static int reduce_scatter(rush_work *w)
{
    rush_collective *k = &w->call;
    rush_dtype dtype = rush_dtype_of(k->out[0]), number = rush_dtype_real(dtype);
    if (w->engine && w->engine->reduces_scattered)
        return between(w, &(rush_engine_call){.kind = RUSH_ENGINE_REDUCE_SCATTER, .reduction = rush_reduction_of(number, k->reduce)}, rush_numel(k->out[0]));
    int64_t mine = rush_numel(k->out[0]), parts = k->nin;
    size_t part = (size_t)mine * rush_dtype_size(dtype);
    rush_engine_call c = {.kind = RUSH_ENGINE_ALL_REDUCE, .reduction = rush_reduction_of(number, k->reduce)};
    set_numbers(&c, dtype, mine * w->group->size / parts);
    dense all;
    int failed = dense_own(&all, k->in, k->nin, true);
    char *own = failed ? NULL : all.p + part * (size_t)w->group->rank;
    uint32_t tag = w->tag;
    for (int i = 0; i < parts && !failed && c.n; i++) {
        c.out = all.p + (size_t)i * c.n * c.size;
        w->tag = tag + (uint32_t)i;
        failed = engine_run(w, &c);
    }
    size_t numbers = part / RUSH_MAX(c.size, 1);
    if (!failed && divides(w)) rush_average(own, number, numbers, w->group->size);
    rush_tensor *result = failed ? NULL : rush_tensor_alias(all.own, 1, &mine, &(int64_t){1}, mine * w->group->rank);
    failed = failed || !result || move(k->out, 1, result, true);
    dense_close(&all, NULL, 0, false);
    return failed ? -1 : 0;
}

/* Numbers of a part per rank: rows of one tensor, or whole tensors. */
static void counts_of(int64_t *counts, int size, rush_tensor *const *t, int n, const int64_t *splits, bool pairs)
{
    for (int i = 0; i < size; i++) {
        int64_t rows = n == 1 && splits ? rush_size(t[0], 0) : 0;
        counts[i] = n == size && !splits ? rush_numel(t[i]) : !splits ? rush_numel(t[0]) / size : rows ? splits[i] * (rush_numel(t[0]) / rows) : 0;
        counts[i] <<= pairs;
    }
}

static int all_to_all(rush_work *w)
{
    rush_collective *k = &w->call;
    int size = w->group->size;
    bool pairs = rush_dtype_is_complex(rush_dtype_of(k->in[0]));
    if (k->nin == 1 && k->nout == 1 && !k->in_splits && !k->out_splits)
        return between(w, &(rush_engine_call){.kind = RUSH_ENGINE_ALL_TO_ALL}, rush_numel(k->in[0]));
    int64_t *counts = rush_malloc(2 * (size_t)size * sizeof *counts);
    if (!counts) return -1;
    counts_of(counts, size, k->in, k->nin, k->in_splits, pairs);
    counts_of(counts + size, size, k->out, k->nout, k->out_splits, pairs);
    int failed = between(w, &(rush_engine_call){.kind = RUSH_ENGINE_ALL_TO_ALL_V, .in_counts = counts, .out_counts = counts + size}, 1);
    rush_free(counts);
    return failed;
}

/* ---- a barrier that says who is missing ---- */

static int message(rush_work *w, int other, bool receives, uint32_t tag, double seconds)
{
    int32_t word = w->group->rank;
    rush_mesh_buffer *b = rush_mesh_buffer_new(w->group->mesh, &word, sizeof word, NULL, NULL);
    if (!b) return -1;
    int failed = receives ? rush_mesh_receive(b, 1, &other, tag, 0, sizeof word) : rush_mesh_send(b, other, tag, 0, sizeof word);
    failed = failed || rush_mesh_wait(b, receives, seconds, NULL);
    rush_mesh_buffer_drop(b);
    return failed;
}

/* Who has not been heard of in time: the first, or with wait_all all of them. */
static int fail_missing(rush_work *w, rush_mesh_buffer *const *heard)
{
    char list[256] = "";
    size_t n = 0;
    int missing = 0;
    for (int i = 1; i < w->group->size && n < 200; i++) {
        if (rush_mesh_done(heard[i], true) || (missing && !w->call.wait_all)) continue;
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%d", missing++ ? ", " : "", i);
    }
    return rush_fail(RUSH_DIST_BACKEND_ERROR, "[Rank 0]: Rank%s %s failed to pass monitoredBarrier in %.0f ms", missing > 1 ? "s" : "", list, w->call.timeout * 1e3);
}

/* Rank 0 waits until it has heard of all others. */
static int hear(rush_work *w, rush_mesh_buffer **heard, int32_t *words)
{
    rush_group *g = w->group;
    double until = rush_seconds() + w->call.timeout;
    for (int i = 1, from = 1; i < g->size; from = ++i)
        if (!(heard[i] = rush_mesh_buffer_new(g->mesh, &words[i], sizeof *words, NULL, NULL)) ||
            rush_mesh_receive(heard[i], 1, &from, w->tag, 0, sizeof *words)) return -1;
    for (int i = 1; i < g->size; i++)
        while (!rush_mesh_done(heard[i], true)) {
            if (rush_seconds() > until) return fail_missing(w, heard);
            rush_nap(0.001);
        }
    for (int i = 1; i < g->size; i++)
        if (rush_mesh_wait(heard[i], true, 1, NULL)) return -1;
    return 0;
}

/* Rank 0 hears from each of the others, then answers all: PyTorch's way. */
static int monitored_barrier(rush_work *w)
{
    rush_group *g = w->group;
    if (!g->mesh || g->size == 1) return 0;
    double patience = w->call.timeout + 5; /* rank 0 is to say who is missing, not those who wait for its answer */
    if (g->rank) return message(w, 0, false, w->tag, patience) || message(w, 0, true, w->tag + 1, patience) ? -1 : 0;
    rush_mesh_buffer **heard = rush_calloc((size_t)g->size, sizeof *heard);
    int32_t *words = rush_calloc((size_t)g->size, sizeof *words);
    int failed = !heard || !words || hear(w, heard, words);
    if (failed) rush_mesh_break(g->mesh, "%s", rush_error());
    for (int i = 1; heard && i < g->size; i++)
        if (heard[i]) rush_mesh_buffer_drop(heard[i]);
    rush_free(heard);
    rush_free(words);
    for (int i = 1; !failed && i < g->size; i++) failed = message(w, i, false, w->tag + 1, w->call.timeout);
    return failed ? -1 : 0;
}

int rush_collective_run(rush_work *w)
{
    rush_collective *k = &w->call;
    int size = w->group->size;
    switch (k->kind) {
    case RUSH_DIST_ALL_REDUCE: return in_place(w, RUSH_ENGINE_ALL_REDUCE);
    case RUSH_DIST_BROADCAST: return in_place(w, RUSH_ENGINE_BROADCAST);
    case RUSH_DIST_REDUCE: return reduce(w);
    case RUSH_DIST_ALL_GATHER: return between(w, &(rush_engine_call){.kind = RUSH_ENGINE_ALL_GATHER}, numel(k->in, k->nin));
    case RUSH_DIST_GATHER: return between(w, &(rush_engine_call){.kind = RUSH_ENGINE_GATHER, .root = k->root}, numel(k->in, k->nin));
    case RUSH_DIST_SCATTER: return between(w, &(rush_engine_call){.kind = RUSH_ENGINE_SCATTER, .root = k->root}, numel(k->out, k->nout));
    case RUSH_DIST_REDUCE_SCATTER: return reduce_scatter(w);
    case RUSH_DIST_ALL_TO_ALL: return all_to_all(w);
    case RUSH_DIST_BARRIER: return size > 1 ? engine_run(w, &(rush_engine_call){.kind = RUSH_ENGINE_BARRIER, .size = 1, .out = w->dense ? rush_data(w->dense) : NULL}) : 0;
    case RUSH_DIST_MONITORED_BARRIER: return monitored_barrier(w);
    default: return rush_fail(RUSH_NOT_IMPLEMENTED, "a collective of unknown kind %d", k->kind);
    }
}

/* ---- checks ---- */

static int check_tensors(const char *name, rush_tensor *const *t, int n, rush_dtype dtype, rush_device device)
{
    for (int i = 0; i < n; i++) {
        RUSH_CHECK(t[i], RUSH_TYPE_ERROR, "%s: tensor %d is missing", name, i);
        RUSH_CHECK(rush_has_data(t[i]) && t[i]->layout == RUSH_STRIDED, RUSH_RUNTIME_ERROR, "%s: only dense tensors can be communicated", name);
        RUSH_CHECK(rush_same_device(t[i]->device, device), RUSH_RUNTIME_ERROR, "%s: tensors of different devices, %s and %s", name, rush_device_text(device), rush_device_text(t[i]->device));
        RUSH_CHECK(rush_dtype_of(t[i]) == dtype, RUSH_RUNTIME_ERROR, "%s: tensors of different dtypes, %s and %s", name, rush_dtype_name(dtype), rush_dtype_name(rush_dtype_of(t[i])));
    }
    return 0;
}

/* Of a list with one tensor per rank: is each as large as the one on the other side? */
static int check_parts(const char *name, rush_group *g, rush_tensor *const *list, int n, int64_t each)
{
    RUSH_CHECK(n == 1 || n == g->size, RUSH_RUNTIME_ERROR, "%s: a list of %d tensors for a group of %d ranks", name, n, g->size);
    if (n == 1 && g->size > 1) {
        RUSH_CHECK(rush_numel(list[0]) == each * g->size, RUSH_RUNTIME_ERROR, "%s: a tensor of %lld numbers for %d ranks with %lld each", name,
                   (long long)rush_numel(list[0]), g->size, (long long)each);
        return 0;
    }
    for (int i = 0; i < n; i++)
        RUSH_CHECK(rush_numel(list[i]) == each, RUSH_RUNTIME_ERROR, "%s: invalid tensor size at index %d (expected %lld numbers, got %lld)", name, i, (long long)each,
                   (long long)rush_numel(list[i]));
    return 0;
}

static int check_splits(const char *name, rush_group *g, rush_tensor *const *t, int n, const int64_t *splits)
{
    if (n == g->size && !splits && n != 1) return 0;
    RUSH_CHECK(n == 1, RUSH_RUNTIME_ERROR, "%s: a list of %d tensors for a group of %d ranks", name, n, g->size);
    int64_t rows = rush_ndim(t[0]) ? rush_size(t[0], 0) : 1, all = 0;
    for (int i = 0; splits && i < g->size; i++) {
        RUSH_CHECK(splits[i] >= 0, RUSH_RUNTIME_ERROR, "%s: a part of %lld rows", name, (long long)splits[i]);
        all += splits[i];
    }
    if (splits) RUSH_CHECK(all == rows, RUSH_RUNTIME_ERROR, "Split sizes doesn't match total dim 0 size");
    else RUSH_CHECK(rows % g->size == 0, RUSH_RUNTIME_ERROR, "Tensor's dim 0 does not divide equally across group size");
    return 0;
}

static int check_shapes(rush_group *g, const rush_collective *k, const char *name, bool root)
{
    switch (k->kind) {
    case RUSH_DIST_ALL_GATHER: return check_parts(name, g, k->out, k->nout, numel(k->in, k->nin));
    case RUSH_DIST_GATHER: return root ? check_parts(name, g, k->out, k->nout, numel(k->in, k->nin)) : 0;
    case RUSH_DIST_SCATTER: return root ? check_parts(name, g, k->in, k->nin, numel(k->out, k->nout)) : 0;
    case RUSH_DIST_REDUCE_SCATTER: return check_parts(name, g, k->in, k->nin, numel(k->out, k->nout));
    case RUSH_DIST_ALL_TO_ALL: return check_splits(name, g, k->in, k->nin, k->in_splits) || check_splits(name, g, k->out, k->nout, k->out_splits) ? -1 : 0;
    default: return 0;
    }
}

static int check_reduce(const rush_group *g, const char *name, rush_device device, rush_dtype dtype, rush_reduce op)
{
    static const char *const why = "%s: Cannot use ReduceOp.%s with %s";
    RUSH_CHECK(op >= 0 && op <= RUSH_REDUCE_PREMUL_SUM, RUSH_RUNTIME_ERROR, "%s: unknown reduction %d", name, op);
    if (device.type != RUSH_CPU && !strcmp(g->device_backend, "nccl")) return rush_nccl_reduces(name, dtype, op);
    RUSH_CHECK(op != RUSH_REDUCE_PREMUL_SUM, RUSH_RUNTIME_ERROR, "Cannot use ReduceOp.PREMUL_SUM with Gloo");
    if (rush_dtype_is_complex(dtype))
        RUSH_CHECK(op <= RUSH_REDUCE_AVG, RUSH_VALUE_ERROR, "%s does not support RedOpType.%s on complex tensors", name, reduces[op]);
    else if (op >= RUSH_REDUCE_BAND && rush_dtype_is_float(dtype))
        return rush_fail(RUSH_RUNTIME_ERROR, why, name, reduces[op], "non-integral dtype");
    RUSH_CHECK(rush_reduction_of(rush_dtype_real(dtype), op), RUSH_RUNTIME_ERROR, why, name, reduces[op], rush_dtype_name(dtype));
    return 0;
}

/* What of a call must be the same on all ranks stands before the bracket: mesh.c compares so far. */
static void describe(rush_group *g, const rush_collective *k, rush_tensor *t, int64_t n, bool reduces_, bool rooted, char *what, size_t room)
{
    size_t at = (size_t)snprintf(what, room, "%s", names[k->kind]);
    if (reduces_) at += (size_t)snprintf(what + at, room - at, ".%s", reduces[k->reduce]);
    if (rooted) at += (size_t)snprintf(what + at, room - at, " of rank %d", k->root);
    if (!t) return;
    at += (size_t)snprintf(what + at, room - at, ", %s", rush_dtype_name(rush_dtype_of(t)));
    if (k->kind != RUSH_DIST_ALL_TO_ALL) at += (size_t)snprintf(what + at, room - at, ", %lld numbers", (long long)n);
    at += (size_t)snprintf(what + at, room - at, " [");
    for (int d = 0; d < rush_ndim(t) && at + 24 < room; d++) at += (size_t)snprintf(what + at, room - at, "%s%lld", d ? ", " : "", (long long)rush_size(t, d));
    snprintf(what + at, room - at, "]");
}

int rush_collective_check(rush_group *g, const rush_collective *k, char *what, size_t room)
{
    RUSH_CHECK(k->kind >= 0 && k->kind < RUSH_DIST_KINDS, RUSH_VALUE_ERROR, "a collective of unknown kind %d", k->kind);
    const char *name = names[k->kind];
    bool one = k->kind == RUSH_DIST_SEND || k->kind == RUSH_DIST_RECEIVE;
    bool rooted = k->kind == RUSH_DIST_BROADCAST || k->kind == RUSH_DIST_REDUCE || k->kind == RUSH_DIST_GATHER || k->kind == RUSH_DIST_SCATTER || one;
    bool reduces_ = k->kind == RUSH_DIST_ALL_REDUCE || k->kind == RUSH_DIST_REDUCE || k->kind == RUSH_DIST_REDUCE_SCATTER;
    bool root = g->rank == k->root, any = k->kind == RUSH_DIST_RECEIVE && k->root == -1;
    RUSH_CHECK(!rooted || any || (k->root >= 0 && k->root < g->size), RUSH_RUNTIME_ERROR, "ProcessGroupGloo::%s: invalid root rank: %d", name, k->root);
    RUSH_CHECK(!any || rush_device_of(k->out[0]).type == RUSH_CPU || !g->device_backend || strcmp(g->device_backend, "nccl"), RUSH_RUNTIME_ERROR,
               "ProcessGroupNCCL does not support recvAnysource");
    RUSH_CHECK(!one || !root, RUSH_VALUE_ERROR, "%s: a rank cannot communicate with itself", name);
    bool needs_in = k->kind == RUSH_DIST_ALL_GATHER || k->kind == RUSH_DIST_GATHER || (k->kind == RUSH_DIST_SCATTER && root) ||
                    k->kind == RUSH_DIST_REDUCE_SCATTER || k->kind == RUSH_DIST_ALL_TO_ALL || k->kind == RUSH_DIST_SEND;
    bool needs_out = k->kind != RUSH_DIST_BARRIER && k->kind != RUSH_DIST_MONITORED_BARRIER && k->kind != RUSH_DIST_SEND && (k->kind != RUSH_DIST_GATHER || root);
    RUSH_CHECK(!needs_in || k->nin > 0, RUSH_RUNTIME_ERROR, "ProcessGroupGloo::%s: requires non-empty input tensor list", name);
    RUSH_CHECK(!needs_out || k->nout > 0, RUSH_RUNTIME_ERROR, "ProcessGroupGloo::%s: requires non-empty output tensor list", name);
    rush_tensor *t = k->nout ? k->out[0] : k->nin ? k->in[0] : NULL;
    int type = t ? t->device.type : k->kind == RUSH_DIST_BARRIER ? k->device.type : RUSH_CPU;
    RUSH_CHECK(type == RUSH_CPU ? g->backend : g->device_backend, RUSH_RUNTIME_ERROR, "No backend type associated with device type %s", rush_device_name(type));
    if (t && (check_tensors(name, k->in, k->nin, rush_dtype_of(t), rush_device_of(t)) || check_tensors(name, k->out, k->nout, rush_dtype_of(t), rush_device_of(t))))
        return -1;
    if (reduces_ && check_reduce(g, name, t->device, rush_dtype_of(t), k->reduce)) return -1;
    if (t && check_shapes(g, k, name, root)) return -1;
    bool from_in = k->kind == RUSH_DIST_ALL_GATHER || k->kind == RUSH_DIST_GATHER; /* the side that is the same everywhere */
    if (from_in) t = k->in[0];
    int64_t n = !t ? 0 : from_in ? numel(k->in, k->nin) : k->nout ? numel(k->out, k->nout) : numel(k->in, k->nin);
    describe(g, k, t, n, reduces_, rooted, what, room);
    return 0;
}
