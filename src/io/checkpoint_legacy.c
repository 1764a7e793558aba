/* checkpoint_legacy.c - the format before 2020: five pickles one after the other, then the storages.
 *
 * A magic number, a version, what the machine was, the object, the keys of its storages; then for each key the
 * number of elements and the elements.
 */
#include "io/checkpoint.h"

static const uint8_t magic[] = {0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19};

static rush_content *wrong(const rush_reader *r, const char *what)
{
    rush_fail(RUSH_VALUE_ERROR, "'%s' is no readable checkpoint: %s", r->path, what);
    return NULL;
}

static int fill(rush_reader *r, rush_loaded *l, const uint8_t *p, const uint8_t *end, size_t *used)
{
    rush_tensor *t = l->whole;
    size_t size = rush_dtypes[t->dtype].size;
    uint64_t n = 0;
    if (end - p < 8) return wrong(r, "it ends before the elements of a storage"), -1;
    for (int i = 0; i < 8; i++) n |= (uint64_t)p[i] << 8 * (r->swap ? 7 - i : i);
    if (n != (uint64_t)t->numel)
        return rush_fail(RUSH_VALUE_ERROR, "storage %.100s of '%s' has %llu elements, but %lld are expected", l->key, r->path, (unsigned long long)n, (long long)t->numel);
    if ((uint64_t)(end - p - 8) / size < n) return wrong(r, "it ends within the elements of a storage"), -1;
    if (n && t->storage->data) {
        memcpy(t->storage->data, p + 8, (size_t)n * size);
        if (r->swap) rush_swap_bytes(t->storage->data, (rush_dtype)t->dtype, (size_t)n);
        if (t->dtype == RUSH_BOOL) rush_clean_bools(t->storage->data, (size_t)n);
    }
    *used = 8 + (size_t)n * size;
    return 0;
}

static rush_content *read_all(rush_reader *r, const uint8_t *p, size_t n)
{
    const uint8_t *end = p + n;
    rush_content *part[5];
    for (int i = 0; i < 5; i++) {
        size_t used;
        r->left = (uint64_t)(end - p);
        if (!(part[i] = rush_reader_pickle(r, p, (size_t)(end - p), &used))) return NULL;
        p += used;
        if (i == 0 && (part[0]->kind != RUSH_CONTENT_BYTES || part[0]->n != sizeof magic || memcmp(part[0]->s, magic, sizeof magic)))
            return wrong(r, "Invalid magic number; corrupt file?");
        if (i == 1 && (part[1]->kind != RUSH_CONTENT_INT || part[1]->i != 1001)) return wrong(r, "Invalid protocol version");
        if (i == 2) {
            const rush_content *little = rush_content_get(part[2], "little_endian");
            r->swap = little && little->kind == RUSH_CONTENT_BOOL && !little->i;
        }
    }
    if (part[4]->kind != RUSH_CONTENT_LIST) return wrong(r, "the keys of its storages are no list");
    for (size_t i = 0; i < part[4]->n; i++) {
        const rush_content *key = part[4]->items[i];
        rush_loaded *l = key->kind == RUSH_CONTENT_TEXT ? rush_reader_storage(r, key->s) : NULL;
        size_t used = 0;
        if (!l || l->filled) return wrong(r, "it holds a storage that nothing refers to, or one twice");
        if (fill(r, l, p, end, &used)) return NULL;
        l->filled = true;
        p += used;
    }
    if (part[4]->n != r->n) return wrong(r, "it does not hold every storage that is referred to");
    return part[3];
}

rush_content *rush_legacy_load(rush_reader *r, const rush_source *source)
{
    char head[512];
    if (source->size >= 512 && !rush_source_read(source, 0, head, 512) && !memcmp(head + 257, "ustar", 5)) {
        rush_fail(RUSH_NOT_IMPLEMENTED, "'%s' is a tar archive of PyTorch before 0.1.10, which is not supported from C", r->path);
        return NULL;
    }
    size_t n = (size_t)source->size;
    uint8_t *p = rush_malloc(n);
    rush_content *x = p && !rush_source_read_much(source, 0, p, n, NULL) ? read_all(r, p, n) : NULL;
    rush_free(p);
    return x;
}
