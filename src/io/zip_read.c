/* zip_read.c - zip archives, of which nothing is believed.
 *
 * Everything is known from the directory at the end. It is read once and checked as a whole: every record within
 * it, every entry's place within the file, no two at one place, no name twice. What an entry says of itself at
 * its own place (name, length of the extra field) is checked when it is read.
 */
#include "base/hash.h"
#include "config.h"
#include "io/zip.h"
#include "io/crc32.h"

#if RUSH_HAS_ZLIB
#include <zlib.h>
#endif

#define DEFLATE_MOST 1032 /* no byte of deflated data stands for more */

static uint64_t number(const void *p, int n)
{
    uint64_t x = 0;
    for (int i = 0; i < n; i++) x |= (uint64_t)((const uint8_t *)p)[i] << 8 * i;
    return x;
}

static int corrupt(const rush_zip *z, const char *what, const char *name)
{
    return rush_fail(RUSH_RUNTIME_ERROR, "PytorchStreamReader failed reading zip archive: %s%s%.200s%s ('%s' is damaged, or was not written completely)", what,
                     name ? " (entry '" : "", name ? name : "", name ? "')" : "", z->source.name);
}

/* Where the directory is. */
typedef struct place {
    uint64_t start, size, count;
} place;

static int find_directory(const rush_zip *z, place *d)
{
    const rush_source *s = &z->source;
    size_t n = (size_t)RUSH_MIN(s->size, (uint64_t)65536 + 22 + 20 + 56);
    uint64_t base = s->size - n;
    uint8_t *tail = rush_malloc(n), *end = NULL;
    if (!tail || rush_source_read(s, base, tail, n)) return rush_free(tail), -1;
    for (size_t i = n; i >= 22 && !end; i--)
        if (!memcmp(tail + i - 22, "PK\5\6", 4)) end = tail + i - 22;
    int failed = -1;
    if (!end) {
        corrupt(z, "failed finding central directory", NULL);
    } else {
        uint64_t at = base + (uint64_t)(end - tail);
        *d = (place){number(end + 16, 4), number(end + 12, 4), number(end + 10, 2)};
        uint8_t locator[20], wide[56];
        bool has = at >= 20;
        if (has && rush_source_read(s, at - 20, locator, 20)) return rush_free(tail), -1;
        if (has && !memcmp(locator, "PK\6\7", 4)) {
            uint64_t where = number(locator + 8, 8);
            if (where > at - 20 || at - 20 - where < 56) {
                corrupt(z, "the place of the wide end record is wrong", NULL);
                return rush_free(tail), -1;
            }
            if (rush_source_read(s, where, wide, 56)) return rush_free(tail), -1;
            if (memcmp(wide, "PK\6\6", 4)) {
                corrupt(z, "there is no wide end record at its place", NULL);
                return rush_free(tail), -1;
            }
            *d = (place){number(wide + 48, 8), number(wide + 40, 8), number(wide + 32, 8)};
            at = where;
        }
        if (d->start > at || d->size > at - d->start || d->count > d->size / 46) corrupt(z, "the place of the directory is wrong", NULL);
        else failed = 0;
    }
    rush_free(tail);
    return failed;
}

/* Sizes and place beyond 32 bits: those that are saturated, in this order. */
static bool widen(const uint8_t *extra, size_t n, rush_zip_entry *e)
{
    uint64_t *field[] = {&e->size, &e->packed, &e->offset};
    for (size_t at = 0; n - at >= 4; ) {
        size_t id = number(extra + at, 2), length = number(extra + at + 2, 2);
        at += 4;
        if (length > n - at) return false;
        if (id == 1) {
            for (int i = 0; i < 3; i++) {
                if (*field[i] != 0xffffffffu) continue;
                if (length < 8) return false;
                *field[i] = number(extra + at, 8);
                at += 8, length -= 8;
            }
            return true;
        }
        at += length;
    }
    return e->size != 0xffffffffu && e->packed != 0xffffffffu && e->offset != 0xffffffffu;
}

static int by_place(const void *a, const void *b)
{
    const rush_zip_entry *const *x = a, *const *y = b;
    return ((*x)->offset > (*y)->offset) - ((*x)->offset < (*y)->offset);
}

static int check_places(rush_zip *z, uint64_t end)
{
    rush_zip_entry **sorted = rush_malloc(sizeof *sorted * RUSH_MAX(z->n, 1u));
    if (!sorted) return -1;
    for (uint32_t i = 0; i < z->n; i++) sorted[i] = z->entry + i;
    qsort(sorted, z->n, sizeof *sorted, by_place);
    int failed = 0;
    for (uint32_t i = 0; i < z->n && !failed; i++) {
        rush_zip_entry *e = sorted[i];
        e->limit = i + 1 < z->n ? sorted[i + 1]->offset : end;
        uint64_t head = 30 + strlen(e->name);
        if (e->offset > e->limit || e->limit - e->offset < head || e->packed > e->limit - e->offset - head)
            failed = corrupt(z, "entries overlap, or reach beyond the file", e->name);
        else if (e->method == 0 ? e->size != e->packed : e->size / DEFLATE_MOST > e->packed)
            failed = corrupt(z, "the size is not possible", e->name);
    }
    rush_free(sorted);
    return failed;
}

static int read_directory(rush_zip *z)
{
    place d;
    if (find_directory(z, &d)) return -1;
    size_t n = (size_t)d.size;
    z->directory = rush_malloc(n + 1);
    z->entry = rush_calloc((size_t)d.count, sizeof *z->entry);
    z->mask = 7;
    while (z->mask < 2 * d.count) z->mask = z->mask * 2 + 1;
    z->slots = rush_calloc(z->mask + (size_t)1, sizeof *z->slots);
    if (!z->directory || !z->entry || !z->slots || rush_source_read(&z->source, d.start, z->directory, n)) return -1;
    uint8_t *p = (uint8_t *)z->directory, *end = p + n;
    for (uint64_t i = 0; i < d.count; i++) {
        if ((size_t)(end - p) < 46 || memcmp(p, "PK\1\2", 4)) return corrupt(z, "a record of the directory is damaged", NULL);
        size_t name = number(p + 28, 2), extra = number(p + 30, 2), comment = number(p + 32, 2);
        if ((size_t)(end - p) - 46 < name + extra + comment || !name) return corrupt(z, "a record of the directory is cut off", NULL);
        rush_zip_entry *e = z->entry + z->n;
        *e = (rush_zip_entry){.offset = number(p + 42, 4), .packed = number(p + 20, 4), .size = number(p + 24, 4),
                              .crc = (uint32_t)number(p + 16, 4), .method = (uint16_t)number(p + 10, 2)};
        bool wide = widen(p + 46 + name, extra, e), locked = p[8] & 1;
        char *moved = (char *)p + 45; /* by one place: room for the zero that ends it */
        memmove(moved, moved + 1, name);
        moved[name] = 0;
        e->name = moved;
        if (strlen(e->name) != name) return corrupt(z, "a name has a zero in it", e->name);
        if (!wide) return corrupt(z, "the extra field is damaged", e->name);
        if (locked || (e->method != 0 && e->method != 8)) return corrupt(z, "it is packed in a way that is not supported", e->name);
        p += 46 + name + extra + comment;
        uint32_t at = (uint32_t)rush_hash_name(e->name) & z->mask;
        for (; z->slots[at]; at = (at + 1) & z->mask)
            if (!strcmp(z->entry[z->slots[at] - 1].name, e->name)) return corrupt(z, "two entries have one name", e->name);
        z->slots[at] = ++z->n;
    }
    const char *first = z->n ? z->entry[0].name : "", *slash = strchr(first, '/');
    size_t length = slash ? (size_t)(slash - first) : 0;
    z->root = rush_malloc(length + 1);
    if (!z->root) return -1;
    memcpy(z->root, first, length);
    z->root[length] = 0;
    return check_places(z, d.start);
}

rush_zip *rush_zip_open(rush_source source)
{
    rush_zip *z = rush_calloc(1, sizeof *z);
    if (!z) return rush_source_close(&source), NULL;
    z->source = source;
    z->check = true;
    z->name = rush_malloc(strlen(source.name) + 1);
    if (z->name) z->source.name = strcpy(z->name, source.name);
    if (!z->name || read_directory(z)) {
        rush_zip_close(z);
        return NULL;
    }
    return z;
}

void rush_zip_close(rush_zip *z)
{
    if (!z) return;
    rush_source_close(&z->source);
    rush_free(z->entry);
    rush_free(z->slots);
    rush_free(z->directory);
    rush_free(z->name);
    rush_free(z->root);
    rush_free(z);
}

const rush_zip_entry *rush_zip_find(const rush_zip *z, const char *name)
{
    for (uint32_t at = (uint32_t)rush_hash_name(name) & z->mask; z->slots[at]; at = (at + 1) & z->mask)
        if (!strcmp(z->entry[z->slots[at] - 1].name, name)) return z->entry + z->slots[at] - 1;
    return NULL;
}

const rush_zip_entry *rush_zip_find_below(const rush_zip *z, const char *name)
{
    size_t n = strlen(z->root);
    char few[512], *whole = n + strlen(name) + 2 <= sizeof few ? few : rush_malloc(n + strlen(name) + 2);
    if (!whole) return NULL;
    memcpy(whole, z->root, n);
    whole[n] = '/';
    strcpy(whole + n + 1, name);
    const rush_zip_entry *e = rush_zip_find(z, whole);
    if (whole != few) rush_free(whole);
    return e;
}

const rush_zip_entry *rush_zip_need(const rush_zip *z, const char *name)
{
    const rush_zip_entry *e = rush_zip_find_below(z, name);
    if (!e) rush_fail(RUSH_RUNTIME_ERROR, "PytorchStreamReader failed locating file %.200s: file not found in '%s'", name, z->source.name);
    return e;
}

int64_t rush_zip_offset(const rush_zip *z, const rush_zip_entry *e)
{
    uint8_t head[30];
    if (rush_source_read(&z->source, e->offset, head, 30)) return -1;
    size_t name = number(head + 26, 2), extra = number(head + 28, 2);
    uint64_t room = e->limit - e->offset;
    if (memcmp(head, "PK\3\4", 4) || name != strlen(e->name) || number(head + 8, 2) != e->method || 30 + name + extra > room ||
        e->packed > room - 30 - name - extra)
        return corrupt(z, "the local header is damaged", e->name);
    char few[256], *own = name <= sizeof few ? few : rush_malloc(name);
    bool same = own && !rush_source_read(&z->source, e->offset + 30, own, name) && !memcmp(own, e->name, name);
    if (own != few) rush_free(own);
    if (!same) return rush_failed() ? -1 : corrupt(z, "its name is another at its place", e->name);
    return (int64_t)(e->offset + 30 + name + extra);
}

static int inflate_entry(const rush_zip *z, const rush_zip_entry *e, uint64_t at, uint8_t *to)
{
#if RUSH_HAS_ZLIB
    enum { STEP = 1 << 16 };
    z_stream s = {0};
    uint8_t *packed = rush_malloc(STEP), spare;
    if (!packed || inflateInit2(&s, -15) != Z_OK) return rush_free(packed), rush_fail(RUSH_MEMORY_ERROR, "not enough memory to inflate '%s'", e->name);
    uint64_t left = e->packed, room = e->size;
    s.next_out = e->size ? to : &spare;
    int failed = 0, state = Z_OK;
    while (!failed && state == Z_OK) {
        if (!s.avail_in && left) {
            s.avail_in = (uInt)RUSH_MIN(left, (uint64_t)STEP);
            s.next_in = packed;
            failed = rush_source_read(&z->source, at, packed, s.avail_in);
            at += s.avail_in, left -= s.avail_in;
            if (failed) break;
        }
        s.avail_out = (uInt)RUSH_MIN(room, (uint64_t)1 << 30);
        uInt before = s.avail_out;
        state = inflate(&s, Z_NO_FLUSH);
        room -= before - s.avail_out;
        if (state == Z_BUF_ERROR || (state == Z_OK && !s.avail_in && !left)) break; /* no more in, or no more room */
    }
    inflateEnd(&s);
    rush_free(packed);
    if (!failed && (state != Z_STREAM_END || room || left || s.avail_in)) failed = corrupt(z, "the deflated data do not give what the directory says", e->name);
    return failed;
#else
    return rush_lacks("zlib");
#endif
}

int rush_zip_read(const rush_zip *z, const rush_zip_entry *e, void *to)
{
    int64_t at = rush_zip_offset(z, e);
    if (at < 0) return -1;
    uint32_t crc = e->crc;
    bool check = z->check && e->crc; /* 0 where the writer left it out */
    if (e->method == 0) {
        if (rush_source_read_much(&z->source, (uint64_t)at, to, (size_t)e->size, check ? &crc : NULL)) return -1;
    } else {
        if (inflate_entry(z, e, (uint64_t)at, to)) return -1;
        if (check) crc = rush_crc32_of(to, (size_t)e->size);
    }
    if (crc != e->crc)
        return rush_fail(RUSH_RUNTIME_ERROR,
                         "PytorchStreamReader failed reading zip archive: the checksum of entry '%.200s' is wrong, %08x is expected and %08x found ('%s' is damaged)",
                         e->name, e->crc, crc, z->source.name);
    return 0;
}

char *rush_zip_read_all(const rush_zip *z, const rush_zip_entry *e)
{
    char *p = rush_malloc((size_t)e->size + 1);
    if (!p || rush_zip_read(z, e, p)) return rush_free(p), NULL;
    p[e->size] = 0;
    return p;
}

rush_storage *rush_zip_read_storage(const rush_zip *z, const rush_zip_entry *e)
{
    rush_storage *s = rush_storage_new((size_t)e->size, (rush_device){RUSH_CPU, -1});
    char none;
    if (!s || !rush_zip_read(z, e, s->data ? s->data : &none)) return s;
    rush_storage_drop(s);
    return NULL;
}
