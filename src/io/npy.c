/* npy.c - NumPy's array files: a magic, a Python dictionary in ASCII, the elements. */
#include "io/file.h"

static const struct { const char *code; rush_dtype dtype; } codes[] = {
    {"|b1", RUSH_BOOL}, {"|u1", RUSH_U8}, {"|i1", RUSH_I8}, {"<i2", RUSH_I16}, {"<i4", RUSH_I32}, {"<i8", RUSH_I64},
    {"<u2", RUSH_U16}, {"<u4", RUSH_U32}, {"<u8", RUSH_U64}, {"<f2", RUSH_F16}, {"<f4", RUSH_F32}, {"<f8", RUSH_F64},
    {"<c8", RUSH_C64}, {"<c16", RUSH_C128},
};

int rush_npy_save(const char *path, const rush_tensor *given)
{
    if (rush_failed()) return -1;
    const rush_tensor *t = rush_as_in_files(given);
    if (!t) return -1;
    const char *code = NULL;
    for (size_t i = 0; i < RUSH_COUNT(codes); i++)
        if (codes[i].dtype == t->dtype) code = codes[i].code;
    RUSH_CHECK(code, RUSH_TYPE_ERROR, "NumPy has no type for %s: convert it first", rush_dtype_name(t->dtype));
    char head[4096];
    int n = snprintf(head + 10, sizeof head - 10, "{'descr': '%s', 'fortran_order': False, 'shape': (", code);
    for (int d = 0; d < t->ndim; d++) n += snprintf(head + 10 + n, sizeof head - 10 - (size_t)n, "%lld,%s", (long long)t->size[d], d + 1 < t->ndim ? " " : "");
    n += snprintf(head + 10 + n, sizeof head - 10 - (size_t)n, "), }");
    int whole = (10 + n + 1 + 63) / 64 * 64; /* the elements begin at a multiple of 64 */
    memset(head + 10 + n, ' ', (size_t)(whole - 10 - n));
    head[whole - 1] = '\n';
    memcpy(head, "\x93NUMPY\x01\x00", 8);
    head[8] = (char)((whole - 10) & 255);
    head[9] = (char)((whole - 10) >> 8);
    rush_writing w;
    if (rush_write_begin(&w, path)) return -1;
    int failed = rush_write(&w, head, (size_t)whole) || rush_write(&w, rush_ptr(t), (size_t)t->numel * rush_dtypes[t->dtype].size);
    return rush_write_end(&w, !failed) || failed ? -1 : 0;
}

/* The text after 'key': in the dictionary, NULL when there is none. */
static const char *after(const char *dict, const char *key)
{
    char quoted[32];
    snprintf(quoted, sizeof quoted, "'%s'", key);
    const char *p = strstr(dict, quoted);
    if (!p) return NULL;
    p += strlen(quoted);
    p += strspn(p, " ");
    if (*p++ != ':') return NULL;
    return p + strspn(p, " ");
}

static rush_tensor *parse(rush_mapping *m, const char *path, char *dict, size_t at)
{
    const char *descr = after(dict, "descr"), *order = after(dict, "fortran_order"), *shape = after(dict, "shape");
    RUSH_CHECK_NULL(descr && order && shape && *shape == '(' && *descr == '\'', RUSH_VALUE_ERROR, "'%s' has no readable npy header", path);
    int dtype = -1;
    for (size_t i = 0; i < RUSH_COUNT(codes); i++) {
        const char *c = codes[i].code;
        size_t n = strlen(c) - 1; /* '<', '|' and '=' are the same for little-endian machines and single bytes */
        if ((descr[1] == c[0] || descr[1] == '=' || descr[1] == '|') && !strncmp(descr + 2, c + 1, n) && descr[2 + n] == '\'') dtype = (int)codes[i].dtype;
    }
    RUSH_CHECK_NULL(dtype >= 0, RUSH_TYPE_ERROR, "'%s' has elements of type %.10s, which no dtype stands for", path, descr);
    int64_t size[RUSH_MAXDIM], stride[RUSH_MAXDIM], numel = 1;
    int ndim = 0;
    for (shape++; *shape && *shape != ')'; shape += strspn(shape, ", ")) {
        char *end;
        long long n = strtoll(shape, &end, 10);
        RUSH_CHECK_NULL(end > shape && n >= 0 && ndim < RUSH_MAXDIM, RUSH_VALUE_ERROR, "'%s' has no readable shape", path);
        size[ndim++] = n;
        shape = end;
        if (*shape == 'L') shape++;
    }
    numel = rush_numel_of(ndim, size);
    if (numel < 0) return NULL;
    size_t item = rush_dtypes[dtype].size;
    RUSH_CHECK_NULL((uint64_t)numel <= (m->size - at) / item, RUSH_VALUE_ERROR, "'%s' ends before its %lld elements do", path, (long long)numel);
    bool fortran = !strncmp(order, "True", 4);
    for (int64_t d = 0, s = 1; fortran && d < ndim; s *= size[d++]) stride[d] = s;
    return rush_map_tensor(m, at, (rush_dtype)dtype, ndim, size, fortran ? stride : NULL);
}

rush_tensor *rush_npy_load(const char *path)
{
    if (rush_failed()) return NULL;
    rush_mapping *m = rush_map(path);
    if (!m) return NULL;
    const uint8_t *p = (const uint8_t *)m->data;
    rush_tensor *t = NULL;
    bool magic = m->size > 12 && !memcmp(p, "\x93NUMPY", 6) && p[6] >= 1 && p[6] <= 3;
    size_t n = 0, at = 0;
    if (magic) {
        at = p[6] == 1 ? 10 : 12;
        n = p[6] == 1 ? (size_t)p[8] | (size_t)p[9] << 8 : (size_t)p[8] | (size_t)p[9] << 8 | (size_t)p[10] << 16 | (size_t)p[11] << 24;
    }
    char *dict = magic && n < m->size - at ? rush_malloc(n + 1) : NULL;
    if (dict) {
        memcpy(dict, p + at, n);
        dict[n] = 0;
        t = parse(m, path, dict, at + n);
    } else {
        rush_fail(RUSH_VALUE_ERROR, "'%s' is no npy file", path);
    }
    rush_free(dict);
    rush_unmap(m);
    return t;
}
