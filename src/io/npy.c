/* npy.c - NumPy's array files: a magic, a dictionary as Python would print it, the elements.
 *
 * The dictionary is read by a grammar of its three keys and nothing else: {'descr': 'text', 'fortran_order': True or
 * False, 'shape': (numbers)}, in any order.
 */
#include "io/npy.h"

#include <ctype.h>

/* ---- writing ---- */

int rush_npy_write_head(char *head, const rush_tensor *t)
{
    const char *code = rush_dtypes[t->dtype].npy;
    RUSH_CHECK(*code, RUSH_TYPE_ERROR, "NumPy has no type for %s: convert it first", rush_dtype_name((rush_dtype)t->dtype));
    char order = rush_dtypes[t->dtype].size == 1 ? '|' : __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? '>' : '<';
    char *text = head + 10;
    size_t room = 4096 - 10 - 64;
    int n = snprintf(text, room, "{'descr': '%c%s', 'fortran_order': False, 'shape': (", order, code);
    for (int d = 0; d < t->ndim; d++) n += snprintf(text + n, room - (size_t)n, "%lld,%s", (long long)t->size[d], d + 1 < t->ndim ? " " : "");
    n += snprintf(text + n, room - (size_t)n, "), }");
    int whole = (10 + n + 1 + 63) / 64 * 64; /* the elements begin at a multiple of 64 */
    memset(text + n, ' ', (size_t)(whole - 10 - n));
    head[whole - 1] = '\n';
    memcpy(head, "\x93NUMPY\x01\x00", 8);
    head[8] = (char)((whole - 10) & 255);
    head[9] = (char)((whole - 10) >> 8);
    return whole;
}

int rush_npy_save(const char *path, const rush_tensor *given)
{
    if (!rush_tensor_given(given)) return -1;
    RUSH_CHECK(path, RUSH_TYPE_ERROR, "a path is missing (NULL)");
    if (rush_failed()) return -1;
    const rush_tensor *t = rush_as_in_files(given);
    char head[4096];
    int n = t ? rush_npy_write_head(head, t) : -1;
    rush_writing w;
    if (n < 0 || rush_write_begin(&w, path)) return -1;
    int failed = rush_write(&w, head, (size_t)n) || rush_write(&w, rush_ptr(t), (size_t)t->numel * rush_dtypes[t->dtype].size);
    return rush_write_end(&w, !failed) || failed ? -1 : 0;
}

/* ---- reading ---- */

typedef struct text {
    const char *p, *end, *path;
} text;

static int wrong(const text *s, const char *what)
{
    return rush_fail(RUSH_VALUE_ERROR, "'%s' has no readable npy header: %s", s->path, what);
}

static bool eat(text *s, char c)
{
    while (s->p < s->end && isspace((unsigned char)*s->p)) s->p++;
    if (s->p == s->end || *s->p != c) return false;
    s->p++;
    return true;
}

/* A text in quotes without escapes. */
static int quoted(text *s, const char **from, size_t *n)
{
    char quote = '\'';
    if (!eat(s, quote) && !eat(s, quote = '"')) return wrong(s, "a text in quotes is expected");
    const char *end = memchr(s->p, quote, (size_t)(s->end - s->p));
    if (!end) return wrong(s, "a text does not end");
    *from = s->p;
    *n = (size_t)(end - s->p);
    s->p = end + 1;
    return 0;
}

static bool word(text *s, const char *w)
{
    size_t n = strlen(w);
    eat(s, ' ');
    if ((size_t)(s->end - s->p) < n || memcmp(s->p, w, n)) return false;
    s->p += n;
    return true;
}

static int read_type(text *s, rush_npy *h)
{
    const char *t = NULL;
    size_t n = 0;
    if (eat(s, '[')) return rush_fail(RUSH_NOT_IMPLEMENTED, "'%s' has elements of several fields, which no dtype stands for", s->path);
    if (quoted(s, &t, &n)) return -1;
    int found = -1;
    for (int d = 0; d < RUSH_DTYPES && n > 1; d++)
        if (*rush_dtypes[d].npy && strlen(rush_dtypes[d].npy) == n - 1 && !memcmp(rush_dtypes[d].npy, t + 1, n - 1)) found = d;
    bool order = n > 1 && (t[0] == '<' || t[0] == '>' || t[0] == '|' || t[0] == '=');
    if (n > 1 && t[1] == 'O') return rush_fail(RUSH_TYPE_ERROR, "'%s' holds Python objects as a pickle, which is not run", s->path);
    RUSH_CHECK(found >= 0 && order, RUSH_TYPE_ERROR, "'%s' has elements of type '%.*s', which no dtype stands for", s->path, (int)RUSH_MIN(n, (size_t)40), t);
    h->dtype = (rush_dtype)found;
    bool big = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
    h->swap = rush_dtypes[h->dtype].size > 1 && t[0] == (big ? '<' : '>');
    return 0;
}

static int read_shape(text *s, rush_npy *h)
{
    if (!eat(s, '(')) return wrong(s, "the shape is no tuple");
    h->ndim = 0;
    while (!eat(s, ')')) {
        while (s->p < s->end && isspace((unsigned char)*s->p)) s->p++;
        if (s->p == s->end || !isdigit((unsigned char)*s->p)) return wrong(s, "a size is no number");
        int64_t n = 0;
        for (; s->p < s->end && isdigit((unsigned char)*s->p); s->p++)
            if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, *s->p - '0', &n)) return wrong(s, "a size is too large");
        if (s->p < s->end && *s->p == 'L') s->p++; /* Python 2 */
        if (h->ndim == RUSH_MAXDIM) return wrong(s, "there are too many dimensions");
        h->size[h->ndim++] = n;
        if (eat(s, ',')) continue;
        if (!eat(s, ')')) return wrong(s, "the shape does not end");
        break;
    }
    return 0;
}

static int read_dict(text *s, rush_npy *h)
{
    bool has[3] = {false};
    if (!eat(s, '{')) return wrong(s, "there is no dictionary");
    while (!eat(s, '}')) {
        const char *key = NULL;
        size_t n = 0;
        if (quoted(s, &key, &n)) return -1;
        if (!eat(s, ':')) return wrong(s, "a key without a value");
        int which = n == 5 && !memcmp(key, "descr", 5) ? 0 : n == 13 && !memcmp(key, "fortran_order", 13) ? 1 : n == 5 && !memcmp(key, "shape", 5) ? 2 : -1;
        if (which < 0 || has[which]) return wrong(s, "a key that does not belong there");
        has[which] = true;
        if (which == 0 && read_type(s, h)) return -1;
        if (which == 1 && !(h->fortran = word(s, "True")) && !word(s, "False")) return wrong(s, "fortran_order is neither True nor False");
        if (which == 2 && read_shape(s, h)) return -1;
        if (eat(s, ',')) continue;
        if (!eat(s, '}')) return wrong(s, "the dictionary does not end");
        break;
    }
    return has[0] && has[1] && has[2] ? 0 : wrong(s, "a key is missing");
}

int rush_npy_read_head(rush_npy *h, const char *data, size_t size, const char *path)
{
    const uint8_t *p = (const uint8_t *)data;
    RUSH_CHECK(size >= 12 && !memcmp(p, "\x93NUMPY", 6) && p[6] >= 1 && p[6] <= 3, RUSH_VALUE_ERROR, "'%s' is no npy file", path);
    size_t at = p[6] == 1 ? 10 : 12;
    size_t n = p[6] == 1 ? (size_t)p[8] | (size_t)p[9] << 8 : (size_t)p[8] | (size_t)p[9] << 8 | (size_t)p[10] << 16 | (size_t)p[11] << 24;
    text s = {.p = data + at, .path = path};
    if (n > size - at) return wrong(&s, "it is longer than the file");
    s.end = s.p + n;
    *h = (rush_npy){.at = at + n};
    if (read_dict(&s, h)) return -1;
    while (s.p < s.end && isspace((unsigned char)*s.p)) s.p++;
    if (s.p != s.end) return wrong(&s, "something follows the dictionary");
    h->numel = rush_numel_of(h->ndim, h->size);
    if (h->numel < 0) return -1;
    RUSH_CHECK((uint64_t)h->numel <= (size - h->at) / rush_dtypes[h->dtype].size, RUSH_VALUE_ERROR, "'%s' ends before its %lld elements do: %zu bytes are there", path,
               (long long)h->numel, size - h->at);
    for (int64_t d = 0, step = 1; h->fortran && d < h->ndim; d++) { /* of no elements sizes may multiply to more than fits */
        h->stride[d] = step;
        if (__builtin_mul_overflow(step, RUSH_MAX(h->size[d], (int64_t)1), &step)) step = 1;
    }
    return 0;
}

rush_tensor *rush_npy_load(const char *path)
{
    RUSH_CHECK_NULL(path, RUSH_TYPE_ERROR, "a path is missing (NULL)");
    if (rush_failed()) return NULL;
    rush_mapping *m = rush_map(path);
    if (!m) return NULL;
    rush_npy h;
    rush_tensor *t = NULL;
    if (!rush_npy_read_head(&h, m->data, m->size, path)) t = rush_map_tensor(m, h.at, h.dtype, h.ndim, h.size, h.fortran ? h.stride : NULL);
    if (t && h.swap) rush_swap_bytes(rush_ptr(t), h.dtype, (size_t)h.numel); /* of what is mapped, the pages that are written are copied */
    if (t && h.dtype == RUSH_BOOL) rush_clean_bools(rush_ptr(t), (size_t)h.numel);
    rush_unmap(m);
    return t;
}
