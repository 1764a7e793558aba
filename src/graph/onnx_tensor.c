/* onnx_tensor.c - tensors of ONNX files: their bytes as they lie, in lists of numbers, or in a file beside.
 *
 * Bytes beside the model must lie in its own folder: names that lead out of it, and links, are refused.
 */
#define _GNU_SOURCE
#include "graph/onnx.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static int damaged(const char *what) { return rush_fail(RUSH_VALUE_ERROR, "the ONNX file is damaged: %s", what); }

int rush_onnx_dtype(uint64_t code)
{
    for (int d = 0; code && d < RUSH_DTYPES; ++d)
        if (rush_dtypes[d].onnx == code) return d;
    return -1;
}

typedef struct sizes {
    int n;
    int64_t *size;
} sizes;

static int put_size(void *to, uint64_t n)
{
    sizes *s = to;
    if (s->n == RUSH_MAXDIM || (int64_t)n < 0) return damaged("a tensor has a negative size, or more than 64");
    s->size[s->n++] = (int64_t)n;
    return 0;
}

int rush_onnx_size(rush_wire w, uint32_t field, int *ndim, int64_t *size)
{
    sizes s = {0, size};
    rush_wire_field f;
    while (rush_wire_next(&w, &f) > 0)
        if (f.number == field && rush_wire_numbers(&f, 0, put_size, &s)) return -1;
    *ndim = s.n;
    return rush_failed() ? -1 : 0;
}

/* ---- numbers in lists ---- */

typedef struct filling {
    char *at;
    size_t item, left;
} filling;

static int put_number(void *to, uint64_t n)
{
    filling *f = to;
    if (!f->left) return damaged("a tensor has more numbers than its sizes say");
    memcpy(f->at, &n, f->item); /* little-endian, as the bits of a number are */
    f->at += f->item;
    --f->left;
    return 0;
}

static rush_tensor *listed(rush_wire tensor, rush_dtype d, int ndim, const int64_t *size, int64_t numel)
{
    static const struct { uint32_t field; int width; size_t item; } lists[] = {{4, 4, 4}, {5, 0, 0}, {7, 0, 8}, {10, 8, 8}, {11, 0, 0}};
    size_t parts = d == RUSH_C64 || d == RUSH_C128 ? 2 : 1, item = rush_dtypes[d].size / parts, bytes = (size_t)(tensor.end - tensor.p);
    if ((uint64_t)numel > bytes) return damaged("a tensor has fewer numbers than its sizes say"), NULL; /* before memory is asked for */
    rush_tensor *t = rush_tensor_new(d, (rush_device){RUSH_CPU, -1}, ndim, size);
    if (!t) return NULL;
    filling to = {rush_ptr(t), item, (size_t)numel * parts};
    rush_wire_field f;
    while (rush_wire_next(&tensor, &f) > 0)
        for (size_t k = 0; k < RUSH_COUNT(lists); ++k) {
            if (lists[k].field != f.number) continue;
            if (lists[k].item && lists[k].item != item) return damaged("a tensor's numbers are of another type than it says"), NULL;
            if (rush_wire_numbers(&f, lists[k].width, put_number, &to)) return NULL;
        }
    if (!rush_failed() && to.left) damaged("a tensor has fewer numbers than its sizes say");
    if (d == RUSH_BOOL && numel) rush_clean_bools(rush_ptr(t), (size_t)numel);
    return rush_failed() ? NULL : t;
}

/* ---- bytes ---- */

static rush_tensor *mapped(rush_mapping *m, size_t offset, size_t bytes, rush_dtype d, int ndim, const int64_t *size, int64_t numel)
{
    RUSH_CHECK_NULL((size_t)numel * rush_dtypes[d].size == bytes, RUSH_VALUE_ERROR, "the ONNX file is damaged: a tensor of %lld numbers has %zu bytes", (long long)numel, bytes);
    rush_tensor *t = rush_map_tensor(m, offset, d, ndim, size, NULL);
    if (t && d == RUSH_BOOL && numel) rush_clean_bools(rush_ptr(t), bytes);
    return t;
}

static rush_mapping *map_beside(const char *model, const char *name)
{
    char path[4096];
    const char *slash = strrchr(model, '/');
    bool inside = *name && *name != '/' && !strchr(name, '\\') && strcmp(name, "..") && strncmp(name, "../", 3) && !strstr(name, "/..");
    RUSH_CHECK_NULL(inside, RUSH_VALUE_ERROR, "the ONNX file asks for '%.200s', which is not in its folder", name);
    int n = snprintf(path, sizeof path, "%.*s%s", slash ? (int)(slash - model + 1) : 0, model, name);
    RUSH_CHECK_NULL(n > 0 && (size_t)n < sizeof path, RUSH_VALUE_ERROR, "the path of '%.200s' is too long", name);
    for (const char *at = path + (slash ? slash - model + 1 : 0); at; at = strchr(at + 1, '/')) { /* no part of the name is a link */
        const char *end = strchr(at + 1, '/');
        char part[4096];
        struct stat s;
        snprintf(part, sizeof part, "%.*s", end ? (int)(end - path) : n, path);
        RUSH_CHECK_NULL(!lstat(part, &s), RUSH_IO_ERROR, "can't open '%s', which holds weights of the ONNX file: %s", path, strerror(errno));
        RUSH_CHECK_NULL(end ? S_ISDIR(s.st_mode) : S_ISREG(s.st_mode), RUSH_VALUE_ERROR, "'%s' is a link or no file: weights are not read from it", part);
    }
    return rush_map(path);
}

static rush_tensor *beside(const rush_onnx_file *file, rush_wire tensor, rush_dtype d, int ndim, const int64_t *size, int64_t numel)
{
    rush_wire_field f, key, value;
    char name[1024] = "";
    uint64_t offset = 0, bytes = (uint64_t)numel * rush_dtypes[d].size;
    while (rush_wire_next(&tensor, &f) > 0) {
        if (f.number != 13 || f.type != 2 || !rush_wire_find(f.bytes, 1, &key) || !rush_wire_find(f.bytes, 2, &value) || key.type != 2 || value.type != 2) continue;
        char text[1024];
        if (value.n >= sizeof text) return damaged("a location is too long"), NULL;
        snprintf(text, sizeof text, "%.*s", (int)value.n, (const char *)value.bytes.p);
        if (rush_wire_is(key.bytes, "location")) memcpy(name, text, sizeof name);
        if (rush_wire_is(key.bytes, "offset")) offset = strtoull(text, NULL, 10);
        if (rush_wire_is(key.bytes, "length")) bytes = strtoull(text, NULL, 10);
    }
    rush_mapping *m = rush_failed() ? NULL : map_beside(file->path, name);
    if (!m) return NULL;
    rush_tensor *t = NULL;
    if (offset > m->size || bytes > m->size - offset) damaged("weights lie beyond the end of the file beside it");
    else t = mapped(m, (size_t)offset, (size_t)bytes, d, ndim, size, numel);
    rush_unmap(m);
    return t;
}

rush_tensor *rush_onnx_tensor(const rush_onnx_file *file, rush_wire tensor)
{
    rush_wire_field type, raw, location;
    int64_t size[RUSH_MAXDIM];
    int ndim, d = rush_wire_find(tensor, 2, &type) ? rush_onnx_dtype(type.n) : -1;
    if (rush_failed() || rush_onnx_size(tensor, 1, &ndim, size)) return NULL;
    RUSH_CHECK_NULL(d >= 0 && d < RUSH_QINT8, RUSH_NOT_IMPLEMENTED, "the ONNX file holds a tensor of a type that is not supported (number %lld)", d < 0 ? (long long)type.n : (long long)d);
    int64_t numel = rush_numel_of(ndim, size);
    if (numel < 0) return NULL;
    RUSH_CHECK_NULL(numel < INT64_MAX / 16, RUSH_VALUE_ERROR, "the ONNX file is damaged: a tensor of %lld numbers", (long long)numel);
    if (rush_wire_find(tensor, 14, &location) && location.n == 1) return beside(file, tensor, (rush_dtype)d, ndim, size, numel);
    if (rush_wire_find(tensor, 9, &raw) && raw.type == 2)
        return mapped(file->mapping, (size_t)((const char *)raw.bytes.p - file->mapping->data), (size_t)raw.n, (rush_dtype)d, ndim, size, numel);
    return rush_failed() ? NULL : listed(tensor, (rush_dtype)d, ndim, size, numel);
}
