/* zip_write.c - zip archives of stored entries, written from front to back.
 *
 * The checksum of an entry is known before its header is written, so nothing is patched afterwards and any sink
 * will do. An extra field "FB" of the wanted length puts the bytes at a multiple of 64, or of a page for large
 * entries: there they go from memory to the disk without a copy, and can be mapped.
 */
#include "io/zip.h"
#include "io/crc32.h"

#define ALIGN 64
#define PAGE 4096
#define PAGE_FROM ((uint64_t)256 << 10)
#define WIDE 0xffffffffu /* what does not fit 32 bits says so, and stands in an extra field */

typedef struct bytes {
    uint8_t p[512];
    int n;
} bytes;

static void put(bytes *b, uint64_t x, int n)
{
    for (int i = 0; i < n; i++) b->p[b->n++] = (uint8_t)(x >> 8 * i);
}

static int emit(rush_zip_writer *z, const void *p, size_t n)
{
    if (n && z->sink(z->to, p, n)) return -1;
    z->at += n;
    return 0;
}

static int to_directory(rush_zip_writer *z, const void *p, size_t n)
{
    if (z->room - z->used < n) {
        size_t room = RUSH_MAX(z->room * 2, z->used + n + 4096);
        char *more = rush_realloc(z->directory, room);
        if (!more) return -1;
        z->directory = more;
        z->room = room;
    }
    memcpy(z->directory + z->used, p, n);
    z->used += n;
    return 0;
}

void rush_zip_begin(rush_zip_writer *z, rush_sink sink, void *to)
{
    *z = (rush_zip_writer){.sink = sink, .to = to, .check = true};
}

int rush_zip_to_file(void *writing, const void *p, size_t n)
{
    return rush_write(writing, p, n);
}

/* The fields that local header and directory have in common: from the version to the size. */
static void common(bytes *b, uint32_t crc, uint64_t size, uint64_t offset, size_t name)
{
    bool wide = size >= WIDE || offset >= WIDE;
    put(b, wide ? 45 : 20, 2);
    put(b, 0x0800, 2); /* names are UTF-8 */
    put(b, 0, 2);      /* stored */
    put(b, 0, 2);
    put(b, 0x21, 2);   /* the first day that zip knows: the same content gives the same file */
    put(b, crc, 4);
    put(b, size >= WIDE ? WIDE : size, 4);
    put(b, size >= WIDE ? WIDE : size, 4);
    put(b, name, 2);
}

static uint32_t crc_of_zeros(uint64_t n)
{
    static const char zeros[4096];
    uint32_t crc = rush_crc32(0, zeros, (size_t)(n % sizeof zeros)), page = rush_crc32(0, zeros, sizeof zeros);
    uint64_t length = sizeof zeros, have = n % sizeof zeros;
    for (uint64_t pages = n / sizeof zeros; pages; pages >>= 1) {
        if (pages & 1) crc = rush_crc32_join(page, crc, have), have += length;
        page = rush_crc32_join(page, page, length);
        length *= 2;
    }
    return crc;
}

static int emit_zeros(rush_zip_writer *z, uint64_t n)
{
    static const char zeros[1 << 16];
    for (uint64_t step; n; n -= step) {
        step = RUSH_MIN(n, (uint64_t)sizeof zeros);
        if (emit(z, zeros, (size_t)step)) return -1;
    }
    return 0;
}

int rush_zip_add(rush_zip_writer *z, const char *name, const void *p, uint64_t n)
{
    return rush_zip_add_headed(z, name, NULL, 0, p, n);
}

int rush_zip_add_headed(rush_zip_writer *z, const char *name, const void *head, size_t nhead, const void *p, uint64_t body)
{
    size_t length = strlen(name);
    uint64_t n = nhead + body;
    RUSH_CHECK(length > 0 && length < 65536, RUSH_VALUE_ERROR, "an entry of a zip has a name of 1 to 65535 bytes, not %zu", length);
    uint32_t crc = !z->check ? 0 : p ? rush_crc32_of(p, (size_t)body) : crc_of_zeros(body);
    if (z->check && nhead) crc = rush_crc32_join(rush_crc32(0, head, nhead), crc, body);
    uint64_t offset = z->at, align = n >= PAGE_FROM ? PAGE : ALIGN;
    int wide = n >= WIDE ? 20 : 0;
    int padding = (int)((align - (offset + 30 + length + (uint64_t)wide + 4) % align) % align);
    bytes b = {.n = 0};
    put(&b, 0x04034b50, 4);
    common(&b, crc, n, 0, length);
    put(&b, (uint64_t)(wide + 4 + padding), 2);
    if (emit(z, b.p, (size_t)b.n) || emit(z, name, length)) return -1;
    b.n = 0;
    if (wide) {
        put(&b, 1, 2);
        put(&b, 16, 2);
        put(&b, n, 8);
        put(&b, n, 8);
    }
    put(&b, 0x4246, 2);
    put(&b, (uint64_t)padding, 2);
    char fill[PAGE];
    memset(fill, 'Z', (size_t)padding);
    if (emit(z, b.p, (size_t)b.n) || emit(z, fill, (size_t)padding)) return -1;
    if (emit(z, head, nhead) || (p ? emit(z, p, (size_t)body) : emit_zeros(z, body))) return -1;

    b.n = 0;
    put(&b, 0x02014b50, 4);
    put(&b, 0, 2);
    common(&b, crc, n, offset, length);
    int extra = (n >= WIDE ? 16 : 0) + (offset >= WIDE ? 8 : 0);
    put(&b, extra ? (uint64_t)extra + 4 : 0, 2);
    put(&b, 0, 8);     /* no comment, disk 0, attributes inside */
    put(&b, 0, 2);     /* and outside */
    put(&b, offset >= WIDE ? WIDE : offset, 4);
    if (to_directory(z, b.p, (size_t)b.n) || to_directory(z, name, length)) return -1;
    b.n = 0;
    if (extra) {
        put(&b, 1, 2);
        put(&b, (uint64_t)extra, 2);
        if (n >= WIDE) put(&b, n, 8), put(&b, n, 8);
        if (offset >= WIDE) put(&b, offset, 8);
        if (to_directory(z, b.p, (size_t)b.n)) return -1;
    }
    z->n++;
    return 0;
}

int rush_zip_end(rush_zip_writer *z, bool keep)
{
    uint64_t start = z->at;
    int failed = keep ? emit(z, z->directory, z->used) : -1;
    if (!failed) {
        uint64_t end = z->at;
        bytes b = {.n = 0};
        put(&b, 0x06064b50, 4); /* the wide end record, its locator, the narrow one: as PyTorch writes them, always */
        put(&b, 44, 8);
        put(&b, 45, 2);
        put(&b, 45, 2);
        put(&b, 0, 8);
        put(&b, z->n, 8);
        put(&b, z->n, 8);
        put(&b, z->used, 8);
        put(&b, start, 8);
        put(&b, 0x07064b50, 4);
        put(&b, 0, 4);
        put(&b, end, 8);
        put(&b, 1, 4);
        put(&b, 0x06054b50, 4);
        put(&b, 0, 4);
        put(&b, RUSH_MIN(z->n, (size_t)0xffff), 2);
        put(&b, RUSH_MIN(z->n, (size_t)0xffff), 2);
        put(&b, RUSH_MIN(z->used, (size_t)WIDE), 4);
        put(&b, RUSH_MIN(start, (uint64_t)WIDE), 4);
        put(&b, 0, 2);
        failed = emit(z, b.p, (size_t)b.n);
    }
    rush_free(z->directory);
    z->directory = NULL;
    return keep ? failed : 0;
}
