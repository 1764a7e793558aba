/* gguf.c - the files of llama.cpp: typed values by name, then tensors, of which many are blocks of few bits (kernels/blocks.def).
 *
 * A file is looked through once: what it says about lengths is compared with the bytes that remain before anything is done with it.
 * After that its tensors are memory, and nothing can be wrong with it any more.
 */
#include "io/gguf.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>

#define DEEPEST 16 /* lists in lists */

const rush_dtype rush_gguf_kinds[GGUF_KINDS] = {RUSH_U8, RUSH_I8, RUSH_U16, RUSH_I16, RUSH_U32, RUSH_I32, RUSH_F32, RUSH_BOOL, RUSH_DTYPES, RUSH_DTYPES, RUSH_U64, RUSH_I64, RUSH_F64};

bool rush_gguf_type_of(int number, const char *name, rush_gguf_type *to)
{
    static const rush_gguf_type plain[] = {{0, "F32", RUSH_F32}, {1, "F16", RUSH_F16}, {24, "I8", RUSH_I8}, {25, "I16", RUSH_I16}, {26, "I32", RUSH_I32},
                                           {27, "I64", RUSH_I64}, {28, "F64", RUSH_F64}, {30, "BF16", RUSH_BF16}};
    for (size_t i = 0; i < RUSH_COUNT(plain); i++)
        if (name ? !strcmp(plain[i].name, name) : plain[i].number == number) return *to = plain[i], true;
    for (int i = 0; name && i < 64; i++) {
        const rush_block_type *b = rush_block_type_of(i);
        if (b && !strcmp(b->name, name)) number = i;
    }
    const rush_block_type *b = rush_block_type_of(number);
    if (!b || (name && strcmp(b->name, name))) return false;
    *to = (rush_gguf_type){b->number, b->name, RUSH_F32, b};
    return true;
}

/* ---- bytes in order ---- */

typedef struct cursor {
    const char *at, *end;
    rush_gguf *of;
} cursor;

static int short_of(const cursor *c, const char *what)
{
    return rush_fail(RUSH_VALUE_ERROR, "'%s' ends or is damaged at byte %zu, where %s should be", c->of->path, (size_t)(c->at - c->of->map->data), what);
}

static int take(cursor *c, void *to, size_t n, const char *what)
{
    if ((size_t)(c->end - c->at) < n) return short_of(c, what);
    memcpy(to, c->at, n);
    c->at += n;
    return 0;
}

/* A text and its length, where they lie. */
static int take_text(cursor *c, const char **p, size_t *n, const char *what)
{
    uint64_t length = 0;
    if (take(c, &length, 8, what)) return -1;
    if (length > (uint64_t)(c->end - c->at)) return short_of(c, what);
    *p = c->at;
    c->at += *n = (size_t)length;
    return 0;
}

/* One that is a name: a copy with its end. */
static const char *take_name(cursor *c, const char *what)
{
    const char *p = NULL;
    size_t n = 0;
    if (take_text(c, &p, &n, what)) return NULL;
    if (memchr(p, 0, n)) return short_of(c, what), NULL;
    char *name = rush_scope_alloc(n + 1);
    if (!name) return NULL;
    memcpy(name, p, n);
    name[n] = 0;
    return name;
}

/* ---- metadata ---- */

static rush_content *take_number(cursor *c, uint32_t kind)
{
    union { uint8_t u8; int8_t i8; uint16_t u16; int16_t i16; uint32_t u32; int32_t i32; float f32; uint64_t u64; int64_t i64; double f64; } x = {.u64 = 0};
    if (take(c, &x, rush_dtypes[rush_gguf_kinds[kind]].size, "a number")) return NULL;
    switch (kind) {
    case GGUF_U8: return rush_content_int(x.u8);
    case GGUF_I8: return rush_content_int(x.i8);
    case GGUF_U16: return rush_content_int(x.u16);
    case GGUF_I16: return rush_content_int(x.i16);
    case GGUF_U32: return rush_content_int(x.u32);
    case GGUF_I32: return rush_content_int(x.i32);
    case GGUF_I64: return rush_content_int(x.i64);
    case GGUF_BOOL: return rush_content_bool(x.u8 != 0);
    case GGUF_F32: return rush_content_float(x.f32);
    case GGUF_F64: return rush_content_float(x.f64);
    default: /* beyond int64 it is what keeps its value */
        if (x.u64 <= INT64_MAX) return rush_content_int((int64_t)x.u64);
        return rush_content_tensor(rush_from_data(&x.u64, RUSH_U64, 0, NULL));
    }
}

static rush_content *take_value(cursor *c, uint32_t kind, int depth);

/* Numbers become a tensor over the file, others a list. */
static rush_content *take_list(cursor *c, int depth)
{
    uint32_t kind = 0;
    uint64_t n = 0;
    if (take(c, &kind, 4, "a list") || take(c, &n, 8, "a list")) return NULL;
    if (kind >= GGUF_KINDS || depth == DEEPEST) return short_of(c, kind < GGUF_KINDS ? "no deeper list" : "the kind of a list"), NULL;
    rush_dtype d = rush_gguf_kinds[kind];
    if (d != RUSH_DTYPES) {
        if (n > (uint64_t)(c->end - c->at) / rush_dtypes[d].size) return short_of(c, "a list of numbers"), NULL;
        int64_t size = (int64_t)n;
        rush_tensor *t = rush_map_tensor(c->of->map, (size_t)(c->at - c->of->map->data), d, 1, &size, NULL);
        if (t && d == RUSH_BOOL) rush_clean_bools(rush_ptr(t), (size_t)n);
        c->at += n * rush_dtypes[d].size;
        return t ? rush_content_tensor(t) : NULL;
    }
    rush_content *list = rush_content_list();
    for (uint64_t i = 0; list && i < n; i++) { /* each takes bytes of the file, so that this ends */
        rush_content *x = take_value(c, kind, depth + 1);
        if (!x || rush_content_add(list, &x, 1)) return NULL;
    }
    return list;
}

static rush_content *take_value(cursor *c, uint32_t kind, int depth)
{
    if (kind >= GGUF_KINDS) return short_of(c, "a kind of value"), NULL;
    if (kind == GGUF_LIST) return take_list(c, depth);
    if (kind != GGUF_TEXT) return take_number(c, kind);
    const char *p = NULL;
    size_t n = 0;
    return take_text(c, &p, &n, "a text") ? NULL : rush_content_bytes(RUSH_CONTENT_TEXT, p, n);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* No name twice. */
static int all_differ(const char **names, size_t n, const char *path)
{
    qsort(names, n, sizeof *names, by_name);
    for (size_t i = 1; i < n; i++) RUSH_CHECK(strcmp(names[i - 1], names[i]), RUSH_VALUE_ERROR, "the name '%.200s' is twice in '%s'", names[i], path);
    return 0;
}

static int take_metadata(cursor *c, uint64_t n)
{
    rush_content *dict = c->of->metadata = rush_content_dict();
    if (n > (uint64_t)(c->end - c->at) / 13) return short_of(c, "metadata"); /* what a name, a kind and a value have at least */
    const char **names = rush_scope_alloc((size_t)n * sizeof *names);
    if (!dict || !names) return -1;
    for (uint64_t i = 0; i < n; i++) {
        uint32_t kind = 0;
        if (!(names[i] = take_name(c, "the name of a value")) || take(c, &kind, 4, "a kind of value")) return -1;
        rush_content *pair[2] = {rush_content_text(names[i]), take_value(c, kind, 0)};
        if (!pair[0] || !pair[1] || rush_content_add(dict, pair, 2)) return -1;
    }
    return all_differ(names, (size_t)n, c->of->path);
}

/* ---- tensors ---- */

/* Its place is counted from the first byte of the data, which is not known yet. */
static int take_tensor(cursor *c, rush_gguf_tensor *t, uint64_t *place)
{
    uint32_t ndim = 0, type = 0;
    if (!(t->name = take_name(c, "the name of a tensor")) || take(c, &ndim, 4, "a number of dimensions")) return -1;
    RUSH_CHECK(ndim <= 4, RUSH_VALUE_ERROR, "'%.200s' of '%s' has %u dimensions: there are four at most", t->name, c->of->path, ndim);
    t->ndim = (int)ndim;
    for (uint32_t d = 0; d < ndim; d++) {
        int64_t *size = &t->size[ndim - 1 - d];
        if (take(c, size, 8, "a size")) return -1;
        RUSH_CHECK(*size >= 0, RUSH_VALUE_ERROR, "'%.200s' of '%s' has a size of %llu", t->name, c->of->path, (unsigned long long)*size);
    }
    if (take(c, &type, 4, "a type") || take(c, place, 8, "the place of a tensor")) return -1;
    RUSH_CHECK(type < 64 && rush_gguf_type_of((int)type, NULL, &t->type), RUSH_NOT_IMPLEMENTED, "'%.200s' of '%s' has elements of type %u, which is not known here", t->name,
               c->of->path, type);
    if ((t->numel = rush_numel_of(t->ndim, t->size)) < 0) return -1;
    int64_t row = ndim ? t->size[ndim - 1] : 1, each = t->type.block ? t->type.block->elements : 1;
    RUSH_CHECK(row % each == 0, RUSH_VALUE_ERROR, "rows of '%.200s' of '%s' have %lld elements, which are no whole blocks of %lld", t->name, c->of->path, (long long)row, (long long)each);
    RUSH_CHECK(!__builtin_mul_overflow((size_t)(t->numel / each), t->type.block ? (size_t)t->type.block->bytes : rush_dtypes[t->type.dtype].size, &t->bytes), RUSH_VALUE_ERROR,
               "'%.200s' of '%s' is larger than memory can be", t->name, c->of->path);
    return 0;
}

static int by_place(const void *a, const void *b)
{
    const rush_gguf_tensor *x = *(const rush_gguf_tensor *const *)a, *y = *(const rush_gguf_tensor *const *)b;
    return x->data != y->data ? (x->data > y->data) - (x->data < y->data) : (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* All of each lies in the data, and no two share a byte. */
static int place_tensors(rush_gguf *g, const uint64_t *place, size_t base, uint64_t alignment)
{
    rush_gguf_tensor **order = rush_scope_alloc(RUSH_MAX(g->n, 1) * sizeof *order);
    const char **names = rush_scope_alloc(RUSH_MAX(g->n, 1) * sizeof *names);
    if (!order || !names) return -1;
    for (int i = 0; i < g->n; i++) {
        rush_gguf_tensor *t = order[i] = &g->tensor[i];
        RUSH_CHECK(base <= g->map->size && place[i] <= g->map->size - base && t->bytes <= g->map->size - base - place[i], RUSH_VALUE_ERROR,
                   "'%.200s' of '%s' lies outside of the file: %zu bytes at %llu of the data, which has %zu", t->name, g->path, t->bytes, (unsigned long long)place[i],
                   g->map->size - RUSH_MIN(base, g->map->size));
        RUSH_CHECK(place[i] % alignment == 0, RUSH_VALUE_ERROR, "'%.200s' of '%s' begins at byte %llu of the data, which is no multiple of %llu", t->name, g->path,
                   (unsigned long long)place[i], (unsigned long long)alignment);
        t->data = g->map->data + base + place[i];
        names[i] = t->name;
    }
    qsort(order, (size_t)g->n, sizeof *order, by_place);
    for (int i = 1; i < g->n; i++)
        RUSH_CHECK(order[i - 1]->data + order[i - 1]->bytes <= order[i]->data, RUSH_VALUE_ERROR, "'%.200s' and '%.200s' of '%s' overlap", order[i - 1]->name, order[i]->name, g->path);
    return all_differ(names, (size_t)g->n, g->path);
}

static int look_through(rush_gguf *g)
{
    RUSH_CHECK(g->map->size >= 24 && !memcmp(g->map->data, "GGUF", 4), RUSH_VALUE_ERROR, "'%s' is no GGUF file", g->path);
    cursor c = {g->map->data + 4, g->map->data + g->map->size, g};
    uint32_t version = 0;
    uint64_t tensors = 0, values = 0;
    if (take(&c, &version, 4, "a version") || take(&c, &tensors, 8, "a count") || take(&c, &values, 8, "a count")) return -1;
    RUSH_CHECK(version & 65535, RUSH_NOT_IMPLEMENTED, "'%s' was written for machines of the other byte order", g->path);
    RUSH_CHECK(version == 2 || version == 3, RUSH_NOT_IMPLEMENTED, "'%s' has version %u of GGUF: 2 and 3 are known here", g->path, version);
    g->version = (int)version;
    if (take_metadata(&c, values)) return -1;
    const rush_content *a = rush_content_get(g->metadata, "general.alignment");
    int64_t alignment = !a ? RUSH_GGUF_ALIGNMENT : a->kind == RUSH_CONTENT_INT ? a->i : 0;
    RUSH_CHECK(alignment > 0 && alignment <= INT32_MAX && !(alignment & (alignment - 1)), RUSH_VALUE_ERROR, "general.alignment of '%s' is no power of two", g->path);
    if (tensors > (uint64_t)(c.end - c.at) / 24) return short_of(&c, "descriptions of tensors"); /* what each has at least */
    g->n = (int)tensors;
    g->tensor = rush_scope_alloc(RUSH_MAX(tensors, 1u) * sizeof *g->tensor);
    uint64_t *place = rush_scope_alloc(RUSH_MAX(tensors, 1u) * sizeof *place);
    if (!g->tensor || !place) return -1;
    memset(g->tensor, 0, tensors * sizeof *g->tensor);
    for (int i = 0; i < g->n; i++)
        if (take_tensor(&c, &g->tensor[i], &place[i])) return -1;
    size_t head = (size_t)(c.at - g->map->data);
    return place_tensors(g, place, (head + (size_t)alignment - 1) / (size_t)alignment * (size_t)alignment, (uint64_t)alignment);
}

static void end(void *object)
{
    rush_gguf *g = object;
    rush_unmap(g->map);
    rush_free(g);
}

static rush_gguf *opened(const char *path, rush_mapping *map(const char *path))
{
    RUSH_CHECK_NULL(path, RUSH_TYPE_ERROR, "a path is missing (NULL)");
    if (rush_failed()) return NULL;
    rush_mapping *m = map(path);
    rush_gguf *g = m ? rush_calloc(1, sizeof *g) : NULL;
    if (!g) return rush_unmap(m), NULL;
    *g = (rush_gguf){.end = end, .path = path, .map = m};
    if (!rush_park_object(g) || look_through(g)) return NULL;
    char *copy = rush_scope_alloc(strlen(path) + 1);
    if (!copy) return NULL;
    g->path = strcpy(copy, path);
    return g;
}

rush_gguf *rush_gguf_open(const char *path) { return opened(path, rush_map); }
rush_gguf *rush_gguf_open_held(const char *path) { return opened(path, rush_map_held); }

const rush_gguf_tensor *rush_gguf_find(const rush_gguf *g, const char *name)
{
    for (int i = 0; i < g->n; i++)
        if (!strcmp(g->tensor[i].name, name)) return &g->tensor[i];
    return NULL;
}

rush_tensor *rush_gguf_tensor_of(const rush_gguf *g, const rush_gguf_tensor *t)
{
    if (!t->type.block) return rush_map_tensor(g->map, (size_t)(t->data - g->map->data), t->type.dtype, t->ndim, t->size, NULL);
    if (!rush_cpu_suits()) return rush_cpu_refuse(), NULL;
    rush_tensor *x = rush_tensor_new(RUSH_F32, (rush_device){RUSH_CPU, -1}, t->ndim, t->size);
    if (x && t->numel) rush_k_blocks->to_float(t->type.block, t->data, rush_ptr(x), t->numel);
    return x;
}

rush_state rush_gguf_load(const char *path)
{
    rush_state s = {.n = -1};
    const rush_gguf *g = rush_gguf_open(path);
    if (!g) return s;
    s.name = rush_scope_alloc(RUSH_MAX(g->n, 1) * sizeof *s.name);
    s.tensor = rush_scope_alloc(RUSH_MAX(g->n, 1) * sizeof *s.tensor);
    for (int i = 0; s.name && s.tensor && i < g->n; i++) {
        s.name[i] = g->tensor[i].name;
        if (!(s.tensor[i] = rush_gguf_tensor_of(g, &g->tensor[i]))) return s;
    }
    s.n = rush_failed() ? -1 : g->n;
    return s;
}

const rush_content *rush_gguf_metadata(const char *path)
{
    const rush_gguf *g = rush_gguf_open(path);
    return g ? g->metadata : NULL;
}

/* ---- as text ---- */

/* What printf would say of it at the end of a text that grows with the scope. */
typedef struct page {
    char *text;
    size_t n, room;
} page;

static RUSH_PRINTF(2, 3) void say(page *p, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = rush_vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (rush_failed() || n < 0) return;
    if (p->room - p->n <= (size_t)n) {
        size_t room = 2 * (p->room + (size_t)n + 1);
        char *more = rush_scope_alloc(room);
        if (!more) return;
        if (p->n) memcpy(more, p->text, p->n);
        p->text = more, p->room = room;
    }
    va_start(args, format);
    p->n += (size_t)rush_vsnprintf(p->text + p->n, p->room - p->n, format, args);
    va_end(args);
}

/* A text in quotes, up to 60 bytes of it, on one line. */
static void say_text(page *p, const char *s, size_t n)
{
    say(p, "\"");
    for (size_t i = 0; i < RUSH_MIN(n, (size_t)60); i++)
        if ((unsigned char)s[i] < 32 || s[i] == 127) say(p, "\\x%02x", (unsigned char)s[i]);
        else say(p, "%c", s[i]);
    say(p, n > 60 ? "\"..." : "\"");
}

static void say_value(page *p, const rush_content *x)
{
    size_t n = x->kind == RUSH_CONTENT_TENSOR ? (size_t)x->t->numel : x->n;
    switch (x->kind) {
    case RUSH_CONTENT_BOOL: say(p, x->i ? "true" : "false"); return;
    case RUSH_CONTENT_INT: say(p, "%lld", (long long)x->i); return;
    case RUSH_CONTENT_FLOAT: say(p, "%.9g", x->f); return;
    case RUSH_CONTENT_TEXT: say_text(p, x->s, x->n); return;
    case RUSH_CONTENT_TENSOR:
        if (!x->t->ndim) say(p, "%llu", *(unsigned long long *)rush_ptr(x->t));
        else say(p, "%zu numbers of %s", n, rush_dtype_name((rush_dtype)x->t->dtype));
        return;
    default:
        say(p, "%zu items: ", n);
        for (size_t i = 0; i < RUSH_MIN(n, (size_t)4); i++) say(p, i ? ", " : ""), say_value(p, x->items[i]);
        say(p, n > 4 ? ", ..." : "");
    }
}

const char *rush_gguf_text(const char *path)
{
    const rush_gguf *g = rush_gguf_open(path);
    page p = {.n = 0};
    if (!g) return NULL;
    size_t bytes = 0;
    int64_t numbers = 0;
    for (int i = 0; i < g->n; i++) bytes += g->tensor[i].bytes, numbers += g->tensor[i].numel;
    say(&p, "GGUF version %d, %zu values, %d tensors of %lld numbers in %zu bytes\n", g->version, g->metadata->n / 2, g->n, (long long)numbers, bytes);
    for (size_t i = 0; i < g->metadata->n; i += 2) {
        say(&p, "%s = ", g->metadata->items[i]->s);
        say_value(&p, g->metadata->items[i + 1]);
        say(&p, "\n");
    }
    for (int i = 0; i < g->n; i++) say(&p, "%-5s %s %s\n", g->tensor[i].type.name, g->tensor[i].name, rush_shape_text(g->tensor[i].ndim, g->tensor[i].size));
    return rush_failed() ? NULL : p.text;
}
