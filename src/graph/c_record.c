/* c_record.c - what a program calls, kernel by kernel, with the tensors that it was called with. */
#include "graph/c_text.h"
#include "op/profile.h"

static void hook(void *arg, const rush_profile_event *e, bool begins);

int rush_c_record_begin(c_record *r)
{
    RUSH_CHECK(!(rush_now.mode & RUSH_MODE_PROFILE), RUSH_RUNTIME_ERROR, "calls are being recorded already, by a profiler");
    rush_profile_to(hook, r);
    return 0;
}

int rush_c_record_end(c_record *r)
{
    rush_profile_to(NULL, NULL);
    return r->failed || rush_failed() ? -1 : 0;
}

void rush_c_record_free(c_record *r)
{
    for (uint32_t i = 0; i < r->nheld; ++i) rush_drop(r->held[i]);
    rush_free(r->held);
    rush_free(r->step);
    rush_free(r->buffer);
    rush_arena_free(&r->arena);
    *r = (c_record){0};
}

c_buffer *rush_c_buffer_of(const c_record *r, const rush_storage *s)
{
    for (uint32_t i = r->nbuffers; s && i-- > 0;) /* the newest are asked for most */
        if (r->buffer[i].storage == s) return &r->buffer[i];
    return NULL;
}

/* One more item behind n; room doubles at powers of two. */
static void *grown(void *list, uint32_t n, size_t item)
{
    return n & (n - 1) ? list : rush_realloc(list, (n ? 2 * (size_t)n : 1) * item);
}

static int hold(c_record *r, rush_tensor *t)
{
    rush_tensor **more = grown(r->held, r->nheld, sizeof *more);
    if (!more) return -1;
    r->held = more;
    r->held[r->nheld++] = rush_keep(t);
    return 0;
}

static c_buffer *added(c_record *r, c_buffer b)
{
    c_buffer *more = grown(r->buffer, r->nbuffers, sizeof *more);
    if (!more) return NULL;
    r->buffer = more;
    for (uint32_t i = 0; i < r->nbuffers; ++i) b.number += more[i].use == b.use;
    more[r->nbuffers] = b;
    return &more[r->nbuffers++];
}

int rush_c_buffer_add(c_record *r, rush_tensor *t, c_use use, const char *name)
{
    if (!t->storage || rush_c_buffer_of(r, t->storage)) return 0;
    if (name && !(name = rush_arena_copy(&r->arena, name, strlen(name)))) return -1;
    const int64_t n = (int64_t)(t->storage->nbytes / rush_dtypes[t->dtype].size);
    if (!added(r, (c_buffer){.storage = t->storage, .use = (uint8_t)use, .dtype = t->dtype, .first = -1, .last = -1, .n = n, .name = name, .whole = t})) return -1;
    return hold(r, t);
}

c_buffer *rush_c_room(c_record *r, rush_dtype dtype, int64_t n)
{
    return added(r, (c_buffer){.use = C_WORK, .dtype = (uint8_t)dtype, .first = r->now, .last = r->now, .n = n});
}

/* A tensor that a call reads or writes: what nobody made is a constant. */
static int seen(c_record *r, rush_tensor *t, c_use made, bool writes)
{
    if (!t->storage) return hold(r, t); /* only its shape is looked at */
    c_buffer *b = rush_c_buffer_of(r, t->storage);
    if (!b && rush_c_buffer_add(r, t, made, NULL)) return -1;
    if (b && hold(r, t)) return -1;
    b = rush_c_buffer_of(r, t->storage);
    b->written |= writes;
    if (b->first < 0) b->first = r->nsteps;
    b->last = r->nsteps;
    return 0;
}

static int copied(c_record *r, const rush_value *from, rush_value *to, c_use made, bool writes)
{
    *to = *from;
    size_t size = from->kind == RUSH_V_TENSORS ? sizeof *from->tensors : from->kind == RUSH_V_INTS || from->kind == RUSH_V_FLOATS ? 8 : from->kind == RUSH_V_VALUES ? sizeof *from->values : 0;
    if (from->kind == RUSH_V_TENSOR && from->t) return seen(r, from->t, made, writes);
    if (from->kind == RUSH_V_STRING && from->s) return (to->s = rush_arena_copy(&r->arena, from->s, strlen(from->s))) ? 0 : -1;
    if (!size) return 0;
    void *items = rush_arena_alloc(&r->arena, size * ((size_t)from->n + 1));
    if (!items) return -1;
    if (from->n) memcpy(items, from->ints, size * from->n);
    to->ints = items;
    for (uint32_t i = 0; from->kind == RUSH_V_TENSORS && i < from->n; ++i)
        if (from->tensors[i] && seen(r, from->tensors[i], made, writes)) return -1;
    return 0;
}

static bool constant_one(const c_record *r, const rush_tensor *t)
{
    const c_buffer *b = t && t->storage ? rush_c_buffer_of(r, t->storage) : NULL;
    return !t || !t->storage || !b || b->use == C_CONSTANT;
}

/* Does the call read nothing but constants? Then its results are constants. */
static bool constant(const c_record *r, const rush_profile_event *e)
{
    for (int i = 0; i < e->op->nargs; ++i) {
        const rush_value *v = &e->in[i];
        if (v->kind == RUSH_V_TENSOR && !constant_one(r, v->t)) return false;
        for (uint32_t k = 0; v->kind == RUSH_V_TENSORS && k < v->n; ++k)
            if (!constant_one(r, v->tensors[k])) return false;
    }
    return !(e->op->flags & RUSH_RANDOM);
}

bool rush_c_is_settled(const rush_op *op) { return !strcmp(op->name, "_assert_tensor_metadata"); }

bool rush_c_depends_on_data(const rush_op *op, bool mask)
{
    bool reads = op->nargs && op->args[0].type == RUSH_A_TENSOR && !(op->flags & RUSH_VIEW), number = false, indices = false;
    for (int i = 0; i < op->nout; ++i) number |= op->out_types[i] != RUSH_A_TENSOR;
    for (int i = 0; i < op->nargs; ++i) indices |= op->args[i].type == RUSH_A_TENSOR && op->args[i].list;
    return op->flags & RUSH_DATA_SIZED ? mask || !indices : reads && number;
}

static bool has_mask(const rush_profile_event *e)
{
    for (int i = 0; i < e->op->nargs; ++i)
        for (uint32_t k = 0; e->in[i].kind == RUSH_V_TENSORS && k < e->in[i].n; ++k)
            if (e->in[i].tensors[k] && (e->in[i].tensors[k]->dtype == RUSH_BOOL || e->in[i].tensors[k]->dtype == RUSH_U8)) return true;
    return false;
}

static int record(c_record *r, const rush_profile_event *e)
{
    const rush_op *op = e->op;
    const c_use made = constant(r, e) ? C_CONSTANT : C_WORK;
    c_step s = {.op = op, .row = rush_c_row_find(op), .depends = rush_c_depends_on_data(op, has_mask(e)), .where = rush_graph_running ? rush_graph_running->where : NULL, .inplace = e->how != RUSH_PROFILE_CALL, .in = rush_arena_alloc(&r->arena, sizeof *s.in * ((size_t)op->nargs + (size_t)op->nout + 1))};
    if (!s.in) return -1;
    s.out = s.in + op->nargs;
    for (int i = 0; i < op->nargs; ++i)
        if (copied(r, &e->in[i], &s.in[i], C_CONSTANT, op->args[i].written || (s.row && s.row->writes >> i & 1))) return -1;
    for (int i = 0; i < op->nout; ++i) {
        if (copied(r, &e->out[i], &s.out[i], made, true)) return -1;
        const c_buffer *b = e->out[i].kind == RUSH_V_TENSOR && e->out[i].t ? rush_c_buffer_of(r, e->out[i].t->storage) : NULL;
        RUSH_CHECK(!b || made == C_CONSTANT || b->use != C_CONSTANT, RUSH_NOT_IMPLEMENTED, "%s writes into a tensor that was a constant so far", op->name);
    }
    if (made == C_CONSTANT) return 0;
    c_step *more = grown(r->step, r->nsteps, sizeof *more);
    if (!more) return -1;
    r->step = more;
    r->step[r->nsteps++] = s;
    return 0;
}

static void hook(void *arg, const rush_profile_event *e, bool begins)
{
    c_record *r = arg;
    if (!e->op) return;
    if (begins) {
        ++r->depth;
        if (!r->inside && (!e->op->run || rush_c_row_find(e->op))) r->inside = r->depth;
        return;
    }
    bool mine = r->inside == r->depth--;
    if (!mine) return;
    r->inside = 0;
    if (r->failed || rush_failed() || e->op->flags & RUSH_VIEW || rush_c_is_settled(e->op)) return;
    rush_profile_to(NULL, NULL); /* what recording calls is not recorded */
    r->failed = record(r, e) != 0;
    rush_profile_to(hook, r);
}
