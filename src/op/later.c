/* later.c - what is put off and what is not: the lists of the threads that have begun. later_run.c does the steps.
 *
 * A list is its thread's, but a tensor that waits may be handed to another one; so there is a lock per list, and one
 * (RUSH_LOCK_LATER) under which lists come and go, which is taken first.
 */
#include "op/later_list.h"
#include "op/tables.h"
#include "tensor/backend.h"

enum { LEAST = 4096, LEAST_ROW = 16, FURTHEST = 64 }; /* elements worth a step; of a strided row; bytes between those of a row */
enum { SMALL = 32768, ALONE = 32, REST = 1000 };

atomic_int rush_later_threads;
static later_list *lists; /* of all threads that have begun */
static __thread later_list *mine;

/* What is put off and then done alone gains nothing, and on small tensors that is felt. After ALONE such steps in a row the next
 * REST ones of less than SMALL elements are done at once. */
static __thread struct { int alone, rest; } habit;

/* ---- doing it ---- */

static void give_back(const later_list *list, const later_cell *c)
{
    if (list->device.type == RUSH_CPU) rush_block_free(c->data, c->block);
    else rush_device_free(list->device, c->data, c->block);
}

/* The memory comes back into its storage, or goes where nobody has that any more. Unlocks the list. */
static void settle_and_unlock(later_list *list)
{
    rush_storage *held[LATER_CELLS];
    int nheld = 0;
    if (list->nsteps) rush_later_run(list);
    if (list == mine && list->nsteps && list->device.type == RUSH_CPU) {
        habit.alone = list->nsteps == 1 && list->step[0].numel < SMALL ? habit.alone + 1 : 0;
        if (habit.alone == ALONE) habit.alone = 0, habit.rest = REST;
    }
    for (int i = 0; i < list->ncells; ++i) {
        later_cell *c = &list->cell[i];
        if (!c->block) {
            held[nheld++] = c->storage;
        } else if (!c->storage) {
            if (c->data) give_back(list, c);
        } else {
            c->storage->block = c->block; /* `owner` stays: another thread may be about to ask it for the list */
            __atomic_store_n(&c->storage->data, c->data, __ATOMIC_RELEASE);
            __atomic_store_n(&c->storage->release, NULL, __ATOMIC_RELEASE);
        }
    }
    list->nsteps = list->ncells = list->nstrided = 0;
    __atomic_store_n(list->pending, 0, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&list->lock);
    for (int i = 0; i < nheld; ++i) rush_storage_drop(held[i]);
}

static bool reads(const later_list *list, const rush_storage *s)
{
    for (int i = 0; i < list->ncells; ++i)
        if (list->cell[i].storage == s) return true;
    return false;
}

/* The list that a storage waits in, locked, or NULL: it does not wait, or not any more. */
static later_list *lock_list_of(rush_storage *s)
{
    rush_lock(RUSH_LOCK_LATER);
    later_list *list = rush_storage_waits(s) ? ((later_cell *)s->owner)->list : NULL;
    if (list) pthread_mutex_lock(&list->lock);
    rush_unlock(RUSH_LOCK_LATER);
    if (!list || rush_storage_waits(s)) return list;
    pthread_mutex_unlock(&list->lock);
    return NULL;
}

static void touch(rush_storage *s)
{
    if (!s) {
        rush_later_settle();
    } else if (rush_storage_waits(s)) {
        later_list *list = lock_list_of(s);
        if (list) settle_and_unlock(list);
    } else if (mine) {
        pthread_mutex_lock(&mine->lock);
        if (reads(mine, s)) settle_and_unlock(mine);
        else pthread_mutex_unlock(&mine->lock);
    }
}

/* Memory goes at once when all that use it run together: they take a buffer. */
static void dropped(rush_storage *s)
{
    later_list *list = lock_list_of(s);
    if (!list) return;
    later_cell *c = s->owner;
    s->release = NULL;
    s->owner = NULL;
    c->storage = NULL;
    if (!c->loaded && list->step[c->first].group == list->step[c->last].group) {
        give_back(list, c);
        c->data = NULL;
    }
    pthread_mutex_unlock(&list->lock);
}

/* A forked child has one thread: the lists of the others are nobody's. */
static void child_begins(void)
{
    lists = mine;
    atomic_store(&rush_later_threads, mine != NULL);
    if (!mine) return;
    mine->next = NULL;
    pthread_mutex_init(&mine->lock, NULL);
}

__attribute__((constructor)) static void start(void)
{
    rush_later_touch = touch;
    rush_later_dropped = dropped;
    pthread_atfork(NULL, NULL, child_begins);
}

void rush_later_settle(void)
{
    if (!mine) return;
    pthread_mutex_lock(&mine->lock);
    settle_and_unlock(mine);
}

void rush_later_settle_others(const rush_tensor *t)
{
    later_list *list;
    do {
        rush_lock(RUSH_LOCK_LATER);
        for (list = lists; list; list = list->next) {
            if (list == mine) continue;
            pthread_mutex_lock(&list->lock);
            if (reads(list, t->storage)) break;
            pthread_mutex_unlock(&list->lock);
        }
        rush_unlock(RUSH_LOCK_LATER);
        if (list) settle_and_unlock(list);
    } while (list);
}

uint32_t rush_later_waiting(void) { return mine ? (uint32_t)mine->nsteps : 0; }

/* ---- begin and end ---- */

int rush_later_begin(void)
{
    if (!mine) {
        size_t size;
        later_list *list = rush_block_alloc(sizeof *list, &size);
        if (!list) return -1;
        list->size = size;
        list->depth = list->nsteps = list->ncells = list->nstrided = 0;
        list->pending = &rush_now.pending;
        pthread_mutex_init(&list->lock, NULL);
        rush_lock(RUSH_LOCK_LATER);
        list->next = lists;
        lists = list;
        rush_unlock(RUSH_LOCK_LATER);
        atomic_fetch_add(&rush_later_threads, 1);
        mine = list;
    }
    if (mine->depth++ == 0) rush_now.mode |= RUSH_MODE_LATER;
    return 0;
}

void rush_later_end(void)
{
    if (!mine || --mine->depth) return;
    rush_later_settle();
    rush_now.mode &= ~(uint32_t)RUSH_MODE_LATER;
    rush_lock(RUSH_LOCK_LATER);
    later_list **at = &lists;
    while (*at != mine) at = &(*at)->next;
    *at = mine->next;
    rush_unlock(RUSH_LOCK_LATER);
    atomic_fetch_sub(&rush_later_threads, 1);
    pthread_mutex_lock(&mine->lock); /* who found the list before it went out */
    pthread_mutex_unlock(&mine->lock);
    pthread_mutex_destroy(&mine->lock);
    rush_block_free(mine, mine->size);
    mine = NULL;
}

/* ---- putting off ---- */

typedef enum answer { YES, NO, AFTER } answer; /* AFTER: when what waits is done */

static bool same_geometry(const rush_tensor *a, const rush_tensor *b)
{
    if (a->numel != b->numel) return false;
    if (a->flags & b->flags & RUSH_T_CONTIGUOUS) return true;
    return a->ndim == b->ndim && rush_same_sizes(a, b) && rush_sizes_equal(a->ndim, a->stride, b->stride);
}

/* Memory of ours, which nobody outside knows. */
static bool private(const rush_storage *s)
{
    return s && !s->shown && !s->lent && (rush_storage_waits(s) || s->block || s->own);
}

/* A result is written as a whole, in the order of its memory. */
static bool whole(const rush_tensor *t)
{
    const rush_storage *s = t->storage;
    return s && private(s) && (s->block || rush_storage_waits(s)) && t->flags & RUSH_T_DENSE && !t->offset && !(t->flags & (RUSH_T_CONJ | RUSH_T_NEG)) &&
           (size_t)t->numel * rush_dtypes[t->dtype].size == s->nbytes && (t->flags & RUSH_T_CONTIGUOUS || t->ndim <= LATER_DIMS);
}

/* Strides of t along the result's memory, merged. False: not a walk that blocks are good for. */
static bool strides_along(const rush_tensor *to, const rush_tensor *t, later_operand *x)
{
    int order[LATER_DIMS], n = 0, lead = to->ndim - t->ndim;
    int64_t bytes = rush_dtypes[t->dtype].size;
    if (to->ndim > LATER_DIMS || lead < 0) return false;
    for (int d = 0; d < to->ndim; ++d) { /* outermost first */
        int i = n;
        if (to->size[d] == 1) continue;
        for (; i > 0 && to->stride[order[i - 1]] < to->stride[d]; --i) order[i] = order[i - 1];
        order[i] = d;
        ++n;
    }
    x->ndim = 0;
    for (int i = 0; i < n; ++i) {
        int d = order[i] - lead;
        int64_t size = to->size[order[i]], stride = d < 0 || t->size[d] == 1 ? 0 : t->stride[d] * bytes;
        int last = x->ndim - 1;
        if (last >= 0 && x->stride[last] == stride * size) {
            x->size[last] *= size;
            x->stride[last] = stride;
        } else {
            x->size[x->ndim] = size;
            x->stride[x->ndim++] = stride;
        }
    }
    int64_t step = x->ndim ? x->stride[x->ndim - 1] : 0;
    if (to->device.type != RUSH_CPU) return x->ndim;
    return x->ndim && x->size[x->ndim - 1] >= LEAST_ROW && step <= FURTHEST && step >= -FURTHEST;
}

/* How operand t is to be read beside a result of the geometry of `to`. */
static answer look_at(const rush_tensor *to, const rush_tensor *t, later_operand *x)
{
    rush_storage *s = t->storage;
    if (t->layout || !rush_same_device(t->device, to->device) || t->flags & (RUSH_T_CONJ | RUSH_T_NEG) || !private(s)) return NO;
    bool waits = rush_storage_waits(s);
    const later_cell *c = waits ? s->owner : NULL;
    if (waits && c->list != mine) return AFTER;
    x->dtype = t->dtype;
    x->at = t->offset * rush_dtypes[t->dtype].size;
    if (same_geometry(to, t)) {
        x->way = LATER_ALONG;
        return !waits || (t->dtype == c->dtype && whole(t)) ? YES : AFTER; /* all of it in the order of the memory, as it is written */
    }
    if (waits) return AFTER;
    x->way = t->numel == 1 ? LATER_ONE : LATER_STRIDED;
    return t->numel == 1 || strides_along(to, t, x) ? YES : NO;
}

static later_cell *cell_of(rush_storage *s)
{
    if (rush_storage_waits(s)) return s->owner;
    for (int i = 0; i < mine->ncells; ++i)
        if (mine->cell[i].storage == s) return &mine->cell[i];
    later_cell *c = &mine->cell[mine->ncells++];
    *c = (later_cell){.list = mine, .storage = s, .data = s->data, .first = mine->nsteps};
    rush_storage_keep(s);
    return c;
}

/* From here on the storage waits for its contents. */
static void hide(later_cell *c, rush_storage *s, rush_dtype d)
{
    c->dtype = d;
    if (rush_storage_waits(s)) return;
    c->block = s->block;
    s->owner = c;
    s->block = 0;
    __atomic_store_n(&s->release, rush_later_mark, __ATOMIC_RELEASE);
    __atomic_store_n(&s->data, NULL, __ATOMIC_RELEASE);
    rush_storage_drop(s); /* our reference: who else has it keeps it */
}

static answer look(const rush_block_loop *loop, const rush_value *operand, later_operand *x)
{
    const rush_tensor *to = operand[0].t;
    const rush_storage *s = to->storage;
    const bool device = to->device.type != RUSH_CPU;
    int nstrided = mine->nstrided;
    if (mine->nsteps == (device ? LATER_DEVICE_STEPS : LATER_STEPS)) return AFTER;
    if (mine->nsteps && (!rush_same_device(mine->device, to->device) || (device && mine->stream != rush_device_stream(to->device)))) return AFTER;
    if (rush_storage_waits(s)) {
        answer a = look_at(to, to, &x[0]);
        if (a != YES) return a;
    } else {
        for (int i = 0; i < mine->ncells; ++i)
            if (mine->cell[i].storage == s && mine->cell[i].odd) return AFTER;
    }
    for (int k = 1; k < loop->n; ++k) {
        answer a = operand[k].kind == RUSH_V_TENSOR ? look_at(to, operand[k].t, &x[k]) : YES;
        if (a != YES) return a;
        nstrided += device && operand[k].kind == RUSH_V_TENSOR && x[k].way == LATER_STRIDED;
    }
    return nstrided > LATER_DEVICE_STRIDED ? AFTER : YES;
}

static void write_down(const rush_block_loop *loop, const rush_value *operand, const uint8_t *compute, later_step *step)
{
    rush_tensor *to = operand[0].t;
    int at = mine->nsteps;
    if (!at) mine->device = to->device, mine->stream = rush_device_stream(to->device);
    step->numel = to->numel;
    step->group = at && step[-1].numel == to->numel && (to->device.type == RUSH_CPU || step[-1].x[1].compute == compute[1]) ? step[-1].group : at;
    step->loop = *loop;
    step->args = *loop->args;
    step->loop.args = &step->args;
    for (int k = loop->n - 1; k >= 0; --k) { /* what is read, then what is written */
        later_operand *x = &step->x[k];
        x->compute = compute[k];
        if (operand[k].kind != RUSH_V_TENSOR) {
            x->way = LATER_ONE;
            x->cell = -1;
            rush_number_store(x->one, (rush_dtype)compute[k], operand[k]);
            continue;
        }
        const rush_tensor *t = operand[k].t;
        later_cell *c = cell_of(t->storage);
        if (k == 0) {
            x->way = LATER_ALONG, x->dtype = to->dtype, x->at = 0;
            hide(c, to->storage, (rush_dtype)to->dtype);
        } else if (!c->block) {
            c->loaded = true;
            c->odd |= x->way != LATER_ALONG || !whole(t);
            mine->nstrided += x->way == LATER_STRIDED;
        }
        c->last = at;
        x->cell = (int16_t)(c - mine->cell);
    }
    rush_now.pending = (uint32_t)++mine->nsteps;
}

bool rush_later_put(const rush_block_loop *loop, const rush_value *operand, const uint8_t *compute)
{
    const rush_tensor *to = operand[0].t;
    const bool device = to->device.type != RUSH_CPU;
    if (!mine || rush_now.in_parallel || to->numel < (device ? 1 : LEAST) || to->layout || device != !loop->loop || !whole(to)) return false;
    if (habit.rest && !device && to->numel < SMALL) return --habit.rest, false;
    pthread_mutex_lock(&mine->lock);
    later_step *step = &mine->step[mine->nsteps % LATER_STEPS];
    answer a = look(loop, operand, step->x);
    if (a == AFTER) {
        settle_and_unlock(mine);
        for (int k = 0; k < loop->n; ++k)
            if (operand[k].kind == RUSH_V_TENSOR && operand[k].t->storage) rush_storage_data(operand[k].t->storage); /* of other threads */
        pthread_mutex_lock(&mine->lock);
        step = mine->step;
        a = look(loop, operand, step->x);
    }
    if (a == YES) write_down(loop, operand, compute, step);
    pthread_mutex_unlock(&mine->lock);
    return a == YES;
}
