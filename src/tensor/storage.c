/* storage.c - counted bytes, from the block allocator or foreign.
 *
 * The only place where a tensor's memory is taken and given back. A few bytes lie behind the structure, in one block.
 */
#include "tensor/backend.h"
#include <sys/mman.h>

#define FEW_BYTES 448 /* with the structure a block of 512 */
_Static_assert(sizeof(rush_storage) % 64 == 0, "the bytes behind a storage are aligned as in a block of their own");

rush_storage *rush_storage_over(void *data, size_t nbytes, void (*release)(void *), void *owner)
{
    rush_storage *s = rush_small_alloc(sizeof *s);
    if (!s) return NULL;
    *s = (rush_storage){.refs = 1, .device = {RUSH_CPU, -1}, .data = data, .nbytes = nbytes, .release = release, .owner = owner};
    return s;
}

static char nobody; /* the owner of closed ones */

rush_storage *rush_storage_closed(size_t nbytes) { return rush_storage_over(NULL, nbytes, NULL, &nobody); }

static void close_zeros(void *storage)
{
    const rush_storage *s = storage;
    munmap(s->data, s->nbytes + RUSH_BEHIND);
}

/* Pages of zeros, which take no memory: whoever looks has no way to say that there is none. */
static void open_closed(rush_storage *s)
{
    rush_fail(RUSH_RUNTIME_ERROR, "the derivative reads elements of what its record does not name in .saves");
    s->owner = NULL;
    void *zeros = s->nbytes ? mmap(NULL, s->nbytes + RUSH_BEHIND, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) : MAP_FAILED;
    if (zeros != MAP_FAILED) s->data = zeros, s->release = close_zeros, s->owner = s;
}

static void give_back(rush_device device, void *data, size_t block)
{
    if (RUSH_LIKELY(device.type == RUSH_CPU)) rush_block_free(data, block);
    else rush_device_free(device, data, block);
}

RUSH_HOT rush_storage *rush_storage_new(size_t nbytes, rush_device device)
{
    void *data = NULL;
    size_t block = 0;
    if (device.type == RUSH_CPU && nbytes - 1 < FEW_BYTES) {
        rush_storage *s = rush_block_alloc_with(sizeof *s, nbytes, &block);
        if (s) *s = (rush_storage){.refs = 1, .device = device, .resizable = true, .data = s + 1, .nbytes = nbytes, .own = (uint32_t)block};
        return s;
    }
    if (device.type == RUSH_CPU && nbytes > 0) {
        data = rush_block_alloc(nbytes, &block);
        if (!data) return NULL;
    } else if (device.type > RUSH_META) {
        device = rush_device_resolve(device);
        if (nbytes > 0 && !(data = rush_device_alloc(device, block = nbytes))) return NULL;
    }
    rush_storage *s = rush_small_alloc(sizeof *s);
    if (!s) {
        if (data) give_back(device, data, block);
        return NULL;
    }
    *s = (rush_storage){.refs = 1, .device = device, .resizable = true, .data = data, .nbytes = nbytes, .block = block};
    return s;
}

RUSH_HOT void rush_storage_keep(rush_storage *s)
{
    if (s) atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
}

void (*rush_later_touch)(rush_storage *), (*rush_later_dropped)(rush_storage *);

/* What waits is given up by rush_later_dropped(), which knows the storage too. */
void rush_later_mark(void *unused) {}

void *rush_storage_touch(rush_storage *s)
{
    if (RUSH_UNLIKELY(s->owner == &nobody)) open_closed(s);
    rush_later_touch(s);
    return s->data;
}

void *rush_storage_show(rush_storage *s)
{
    s->shown = true;
    return rush_storage_data(s);
}

RUSH_HOT static void free_bytes(rush_storage *s)
{
    if (RUSH_UNLIKELY(rush_storage_waits(s))) rush_later_dropped(s);
    if (s->block) give_back(s->device, s->data, s->block);
    else if (s->release) s->release(s->owner);
    s->data = NULL;
    s->block = 0;
    s->release = NULL;
}

void (*rush_python_free_storage)(rush_storage *);

RUSH_HOT void rush_storage_drop(rush_storage *s)
{
    if (!s || !rush_refs_drop(&s->refs)) return;
    if (RUSH_UNLIKELY(s->py_owned)) {
        rush_python_free_storage(s);
        return;
    }
    free_bytes(s);
    if (s->own) rush_block_free_with(sizeof *s, s, s->own);
    else rush_small_free(s, sizeof *s);
}

/* ---- contents that change no more ---- */

typedef struct settled {
    rush_device device;
    void *data;
    size_t block;
    void (*release)(void *);
    void *owner;
    _Atomic(rush_kept *) kept;
} settled;

static void end_settled(void *owner)
{
    settled *c = owner;
    for (rush_kept *k = atomic_load(&c->kept), *next; k; k = next) {
        next = k->next;
        k->end(k);
    }
    if (c->block) give_back(c->device, c->data, c->block);
    else if (c->release) c->release(c->owner);
    rush_free(c);
}

static int settle(rush_storage *s)
{
    if (s->own || s->release == end_settled || !rush_storage_data(s)) return rush_failed() ? -1 : 0;
    settled *c = rush_calloc(1, sizeof *c);
    if (!c) return -1;
    c->device = s->device, c->data = s->data, c->block = s->block, c->release = s->release, c->owner = s->owner;
    s->resizable = false;
    s->block = 0;
    s->release = end_settled;
    s->owner = c;
    return 0;
}

int rush_storage_settle(rush_storage *s)
{
    rush_lock(RUSH_LOCK_SETTLE);
    int failed = settle(s);
    rush_unlock(RUSH_LOCK_SETTLE);
    return failed;
}

bool rush_storage_settled(const rush_storage *s) { return s->release == end_settled; }

#define ROOM(s) (6 * (s)->nbytes + (64 << 10)) /* for all forms: a convolution's may take four times as much */

rush_kept *rush_storage_form(const rush_storage *s, size_t nbytes, bool (*fits)(const rush_kept *, const void *), rush_kept *(*make)(const void *), const void *arg)
{
    if (!rush_storage_settled(s)) return NULL;
    settled *c = s->owner;
    unsigned version = atomic_load(&s->version);
    rush_kept *first = atomic_load(&c->kept), *k, *made;
    size_t taken = nbytes;
    for (k = first; k; taken += k->nbytes, k = k->next)
        if (k->version == version && fits(k, arg)) return k;
    if (taken > ROOM(s) || !(made = make(arg))) return NULL;
    made->nbytes = nbytes;
    made->version = version;
    rush_lock(RUSH_LOCK_SETTLE);
    for (k = atomic_load(&c->kept); k != first && !fits(k, arg); k = k->next) continue; /* did another thread make it meanwhile? */
    if (k == first) {
        made->next = atomic_load(&c->kept);
        atomic_store(&c->kept, made);
    }
    rush_unlock(RUSH_LOCK_SETTLE);
    if (k == first) return made;
    made->end(made);
    return k;
}

rush_storage *rush_storage_lend(rush_storage *s)
{
    rush_storage_keep(s);
    if (s && s->lent < UINT8_MAX) ++s->lent;
    return s;
}

void rush_storage_unlend(rush_storage *s)
{
    if (s && s->lent < UINT8_MAX) --s->lent;
    rush_storage_drop(s);
}

static size_t room(const rush_storage *s)
{
    return s->own && s->data == s + 1 ? s->own - sizeof *s : s->block;
}

int rush_storage_resize(rush_storage *s, size_t nbytes)
{
    RUSH_CHECK(s->resizable && !s->lent, RUSH_RUNTIME_ERROR, "Trying to resize storage that is not resizable");
    rush_storage_data(s);
    if (s->device.type == RUSH_META || nbytes <= room(s)) {
        s->nbytes = nbytes;
        return 0;
    }
    size_t block = 0;
    bool host = s->device.type == RUSH_CPU;
    void *data = host ? rush_block_alloc(nbytes, &block) : rush_device_alloc(s->device, block = nbytes);
    if (!data) return -1;
    if (s->data && host) {
        memcpy(data, s->data, RUSH_MIN(s->nbytes, nbytes));
    } else if (s->data && rush_backend_of(s->device)->copy(data, s->device, s->data, s->device, RUSH_MIN(s->nbytes, nbytes))) {
        rush_device_free(s->device, data, block);
        return -1;
    }
    free_bytes(s);
    s->data = data;
    s->block = block;
    s->nbytes = nbytes;
    return 0;
}
