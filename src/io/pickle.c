/* pickle.c - the pickle machine: protocols 2 to 5, without what could run code.
 *
 * Work and memory are in proportion to the length of the pickle: lengths are compared with the bytes that remain,
 * the memo has at most an entry per opcode, and values that a hash or a comparison would walk have a weight, since
 * ten tuples of two each hold a thousand leaves without taking their room.
 */
#include "io/pickle.h"

#include <inttypes.h>
#include <stdio.h>

#define DEEPEST 1000u
#define HEAVIEST 10000000u

typedef struct slot {
    void *value;
    uint32_t depth;  /* how far values are nested in it, as far as known here */
    uint32_t weight; /* how many leaves a walk of it would meet               */
} slot;

typedef struct memo_entry {
    uint32_t key;
    slot s;          /* value NULL: free */
} memo_entry;

typedef struct machine {
    const rush_pickle_maker *m;
    void *self;
    const uint8_t *start, *p, *end;
    const char *name;
    slot *stack;
    size_t n, room;
    size_t *marks, nmarks, marks_room;
    memo_entry *memo;
    size_t memo_used, memo_size; /* size is a power of two, or 0 */
} machine;

static int wrong(machine *u, const char *what)
{
    return rush_fail(RUSH_VALUE_ERROR, "the pickle of '%s' is damaged at byte %zd: %s", u->name, (ssize_t)(u->p - u->start), what);
}

/* ---- stack, marks, memo ---- */

static int push(machine *u, void *value, uint32_t depth, uint32_t weight)
{
    if (!value) return -1;
    if (u->n == u->room) {
        size_t room = RUSH_MAX(u->room * 2, (size_t)64);
        slot *more = rush_realloc(u->stack, room * sizeof *more);
        if (!more) {
            u->m->drop(value);
            return -1;
        }
        u->stack = more;
        u->room = room;
    }
    u->stack[u->n++] = (slot){value, depth, weight};
    if (depth > DEEPEST) return wrong(u, "values are nested deeper than 1000");
    return 0;
}

static size_t floor_of(const machine *u) { return u->nmarks ? u->marks[u->nmarks - 1] : 0; }

/* The topmost k values, which must lie above the last mark. */
static slot *top(machine *u, size_t k)
{
    if (u->n - floor_of(u) < k) return wrong(u, "the stack is empty"), NULL;
    return u->stack + u->n - k;
}

static void pop(machine *u, size_t k)
{
    while (k--) u->m->drop(u->stack[--u->n].value);
}

static int mark(machine *u)
{
    if (u->nmarks == u->marks_room) {
        size_t room = RUSH_MAX(u->marks_room * 2, (size_t)16);
        size_t *more = rush_realloc(u->marks, room * sizeof *more);
        if (!more) return -1;
        u->marks = more;
        u->marks_room = room;
    }
    u->marks[u->nmarks++] = u->n;
    return 0;
}

/* The values above the last mark, which goes. */
static slot *above_mark(machine *u, size_t *n)
{
    if (!u->nmarks) return wrong(u, "there is no mark"), NULL;
    size_t at = u->marks[--u->nmarks];
    *n = u->n - at;
    return u->stack ? u->stack + at : (slot *)u; /* of no values any place will do */
}

static memo_entry *find(machine *u, uint32_t key)
{
    size_t at = (key * 2654435761u) & (u->memo_size - 1);
    while (u->memo[at].s.value && u->memo[at].key != key) at = (at + 1) & (u->memo_size - 1);
    return u->memo + at;
}

static int remember(machine *u, uint32_t key)
{
    slot *s = top(u, 1);
    if (!s) return -1;
    if (2 * (u->memo_used + 1) > u->memo_size) {
        memo_entry *old = u->memo;
        size_t n = u->memo_size, size = RUSH_MAX(n * 2, (size_t)64);
        memo_entry *more = rush_calloc(size, sizeof *more);
        if (!more) return -1;
        u->memo = more;
        u->memo_size = size;
        for (size_t i = 0; i < n; i++)
            if (old[i].s.value) *find(u, old[i].key) = old[i];
        rush_free(old);
    }
    memo_entry *e = find(u, key);
    u->m->keep(s->value);
    if (e->s.value) u->m->drop(e->s.value);
    else u->memo_used++;
    *e = (memo_entry){key, *s};
    return 0;
}

static int recall(machine *u, uint32_t key)
{
    memo_entry *e = u->memo_size ? find(u, key) : NULL;
    if (!e || !e->s.value) return rush_fail(RUSH_VALUE_ERROR, "Memo value not found at index %u (of '%s')", key, u->name);
    u->m->keep(e->s.value);
    return push(u, e->s.value, e->s.depth, e->s.weight);
}

/* ---- operands ---- */

static const uint8_t *take(machine *u, uint64_t n)
{
    if (n > (uint64_t)(u->end - u->p)) return wrong(u, "Ran out of input"), NULL;
    const uint8_t *p = u->p;
    u->p += n;
    return p;
}

static int number(machine *u, int width, uint64_t *x)
{
    const uint8_t *p = take(u, (uint64_t)width);
    *x = 0;
    for (int i = 0; p && i < width; i++) *x |= (uint64_t)p[i] << 8 * i;
    return p ? 0 : -1;
}

static int integer(machine *u, const uint8_t *p, size_t n)
{
    if (!p) return -1;
    if (n > 8) return push(u, u->m->big(u->self, p, n), 0, 1);
    uint64_t x = n && p[n - 1] & 0x80 ? ~(uint64_t)0 : 0; /* two's complement */
    for (size_t i = n; i-- > 0;) x = x << 8 | p[i];
    return push(u, u->m->integer(u->self, (int64_t)x), 0, 1);
}

static int text(machine *u, int width)
{
    uint64_t n;
    const uint8_t *p;
    if (number(u, width, &n) || !(p = take(u, n))) return -1;
    return push(u, u->m->text(u->self, (const char *)p, (size_t)n), 0, 1);
}

static int bytes(machine *u, int width, int kind)
{
    uint64_t n;
    const uint8_t *p;
    if (number(u, width, &n) || !(p = take(u, n))) return -1;
    return push(u, u->m->bytes(u->self, (const char *)p, (size_t)n, kind), 0, 1);
}

static int real(machine *u)
{
    const uint8_t *p = take(u, 8);
    union { uint64_t u; double f; } x = {0};
    for (int i = 0; p && i < 8; i++) x.u = x.u << 8 | p[i];
    return p ? push(u, u->m->real(u->self, x.f), 0, 1) : -1;
}

static int line(machine *u, char *to, size_t room)
{
    const uint8_t *end = memchr(u->p, '\n', (size_t)(u->end - u->p));
    if (!end || (size_t)(end - u->p) >= room || memchr(u->p, 0, (size_t)(end - u->p))) return wrong(u, "a name is cut off, or too long");
    size_t n = (size_t)(end - u->p);
    memcpy(to, u->p, n);
    to[n] = 0;
    u->p = end + 1;
    return 0;
}

/* ---- opcodes ---- */

static int tuple(machine *u, const slot *items, size_t n)
{
    uint32_t depth = 0;
    uint64_t weight = 1;
    void *few[16], **values = n <= RUSH_COUNT(few) ? few : rush_malloc(n * sizeof *values);
    if (!values) return -1;
    for (size_t i = 0; i < n; i++) {
        values[i] = items[i].value;
        depth = RUSH_MAX(depth, items[i].depth);
        weight += items[i].weight;
    }
    void *made = u->m->tuple(u->self, values, n);
    if (values != few) rush_free(values);
    if (!made) return -1;
    pop(u, n);
    return push(u, made, depth + 1, (uint32_t)RUSH_MIN(weight, (uint64_t)UINT32_MAX));
}

/* Hands n values to a container below them, which is then as deep as the deepest, and drops them. */
static int fill(machine *u, slot *items, size_t n, int (*with)(void *, void *, void **, size_t), size_t keys_every)
{
    if (!items) return -1;
    if ((size_t)(items - u->stack) <= floor_of(u)) return wrong(u, "there is no container to add to");
    slot *target = items - 1;
    void **values = rush_malloc(RUSH_MAX(n, (size_t)1) * sizeof *values);
    if (!values) return -1;
    int failed = 0;
    for (size_t i = 0; i < n; i++) {
        values[i] = items[i].value;
        target->depth = RUSH_MAX(target->depth, items[i].depth + 1);
        if (keys_every && i % keys_every == 0 && items[i].weight > HEAVIEST) failed = wrong(u, "a key is too large to be looked up");
    }
    if (!failed) failed = with(u->self, target->value, values, n);
    rush_free(values);
    if (!failed && target->depth > DEEPEST) failed = wrong(u, "values are nested deeper than 1000");
    pop(u, n);
    return failed;
}

static int replace(machine *u, size_t k, void *value, uint32_t depth, uint32_t weight)
{
    if (!value) return -1;
    pop(u, k);
    return push(u, value, depth, weight);
}

/* A call, or a new object: what a function returns may hold all its arguments. */
static int call(machine *u, size_t k)
{
    slot *s = top(u, k);
    if (!s) return -1;
    uint32_t depth = 0;
    for (size_t i = 1; i < k; i++) depth = RUSH_MAX(depth, s[i].depth);
    void *made = k == 3 ? u->m->make(u->self, s[0].value, s[1].value, s[2].value) : u->m->call(u->self, s[0].value, s[1].value);
    return replace(u, k, made, depth + 1, s[1].weight);
}

static int global(machine *u)
{
    char module[4097], name[4097];
    if (line(u, module, sizeof module) || line(u, name, sizeof name)) return -1;
    return push(u, u->m->global(u->self, module, name), 0, 1);
}

static int items_of(machine *u, int op)
{
    size_t n;
    slot *items = above_mark(u, &n);
    if (!items) return -1;
    if (op == 't') return tuple(u, items, n);
    if (!n) return top(u, 1) ? 0 : -1;
    if (op == 'e') return fill(u, items, n, u->m->append, 0);
    if (op == 'u' && n % 2) return wrong(u, "SETITEMS with an odd number of items");
    return op == 'u' ? fill(u, items, n, u->m->set_items, 2) : fill(u, items, n, u->m->add_items, 1);
}

/* One opcode other than STOP. */
static int step(machine *u, int op)
{
    uint64_t x;
    slot *s;
    switch (op) {
    case 0x80: /* PROTO */
        if (number(u, 1, &x)) return -1;
        return x < 2 || x > 5 ? rush_fail(RUSH_VALUE_ERROR, "unsupported pickle protocol: %" PRIu64, x) : 0;
    case 0x95: return number(u, 8, &x); /* FRAME: how many bytes belong together */
    case '(': return mark(u);
    case 't': case 'e': case 'u': case 0x90: return items_of(u, op);
    case ')': return tuple(u, NULL, 0);
    case 0x85: case 0x86: case 0x87: return (s = top(u, (size_t)(op - 0x84))) ? tuple(u, s, (size_t)(op - 0x84)) : -1;
    case ']': return push(u, u->m->list(u->self), 1, 1);
    case '}': return push(u, u->m->dict(u->self), 1, 1);
    case 0x8f: return push(u, u->m->set(u->self), 1, 1);
    case 'a': return (s = top(u, 2)) ? fill(u, s + 1, 1, u->m->append, 0) : -1;
    case 's': return (s = top(u, 3)) ? fill(u, s + 1, 2, u->m->set_items, 2) : -1;
    case 'N': return push(u, u->m->none(u->self), 0, 1);
    case 0x88: case 0x89: return push(u, u->m->boolean(u->self, op == 0x88), 0, 1);
    case 'K': return number(u, 1, &x) ? -1 : push(u, u->m->integer(u->self, (int64_t)x), 0, 1);
    case 'M': return number(u, 2, &x) ? -1 : push(u, u->m->integer(u->self, (int64_t)x), 0, 1);
    case 'J': return integer(u, take(u, 4), 4);
    case 0x8a: return number(u, 1, &x) ? -1 : integer(u, take(u, x), (size_t)x); /* LONG1 */
    case 'G': return real(u);
    case 'X': return text(u, 4);
    case 0x8c: return text(u, 1);
    case 0x8d: return text(u, 8);
    case 'U': return bytes(u, 1, RUSH_PICKLE_OLD_TEXT);
    case 'T': return bytes(u, 4, RUSH_PICKLE_OLD_TEXT);
    case 'C': return bytes(u, 1, RUSH_PICKLE_BYTES);
    case 'B': return bytes(u, 4, RUSH_PICKLE_BYTES);
    case 0x8e: return bytes(u, 8, RUSH_PICKLE_BYTES);
    case 0x96: return bytes(u, 8, RUSH_PICKLE_BYTEARRAY);
    case 'h': return number(u, 1, &x) ? -1 : recall(u, (uint32_t)x);
    case 'j': return number(u, 4, &x) ? -1 : recall(u, (uint32_t)x);
    case 'q': return number(u, 1, &x) ? -1 : remember(u, (uint32_t)x);
    case 'r': return number(u, 4, &x) ? -1 : remember(u, (uint32_t)x);
    case 0x94: return remember(u, (uint32_t)u->memo_used); /* MEMOIZE */
    case 'c': return global(u);
    case 0x93: return (s = top(u, 2)) ? replace(u, 2, u->m->global_of(u->self, s[0].value, s[1].value), 0, 1) : -1;
    case 'R': return call(u, 2);
    case 0x92: return call(u, 3); /* NEWOBJ_EX */
    case 0x81: return (s = top(u, 2)) ? replace(u, 2, u->m->make(u->self, s[0].value, s[1].value, NULL), s[1].depth + 1, s[1].weight) : -1;
    case 'b': /* BUILD */
        if (!(s = top(u, 2))) return -1;
        s[0].depth = RUSH_MAX(s[0].depth, s[1].depth + 1);
        if (u->m->build(u->self, s[0].value, s[1].value)) return -1;
        pop(u, 1);
        return 0;
    case 'Q': return (s = top(u, 1)) ? replace(u, 1, u->m->persistent(u->self, s[0].value), 0, 1) : -1;
    default: return rush_fail(RUSH_VALUE_ERROR, "Unsupported operand %d (at byte %zd of the pickle of '%s')", op, (ssize_t)(u->p - u->start) - 1, u->name);
    }
}

void *rush_unpickle(const rush_pickle_maker *m, void *self, const void *p, size_t n, size_t *used, const char *name)
{
    machine u = {.m = m, .self = self, .start = p, .p = p, .end = (const uint8_t *)p + n, .name = name};
    int failed = 0, op = 0;
    while (!failed && op != '.') {
        if (u.p == u.end) failed = wrong(&u, "Ran out of input");
        else if ((op = *u.p++) != '.') failed = step(&u, op);
    }
    if (!failed && (u.n != 1 || u.nmarks)) failed = wrong(&u, "it does not end with one value");
    void *result = failed ? NULL : u.stack[--u.n].value;
    pop(&u, u.n);
    for (size_t i = 0; i < u.memo_size; i++)
        if (u.memo[i].s.value) m->drop(u.memo[i].s.value);
    rush_free(u.stack);
    rush_free(u.marks);
    rush_free(u.memo);
    if (used) *used = (size_t)(u.p - u.start);
    return result;
}
