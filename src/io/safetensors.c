/* safetensors.c - named tensors in one file: the header's length, a header in JSON, the elements one after the other. */
#define _GNU_SOURCE
#include "base/json.h"
#include "base/utf8.h"
#include "io/file.h"
#include "nn/module.h"

#define HEADER_MOST 100000000 /* bytes, as the reference has it */

/* Larger elements first, so that each tensor lies at a multiple of its element's size. */
static int by_size(const void *a, const void *b)
{
    const rush_tensor *const *x = a, *const *y = b;
    return rush_dtypes[(*y)->dtype].size - rush_dtypes[(*x)->dtype].size;
}

typedef struct named { const rush_tensor *t; const char *name; } named;

/* The header of tensors that lie one after the other, with pairs of name and text about the file (NULL ends them); NULL: no memory. */
static char *header_of(const named *e, int n, const char *const *notes)
{
    char *text = NULL;
    size_t length, at = 0;
    FILE *f = open_memstream(&text, &length);
    if (!f) return NULL;
    fputc('{', f);
    for (int i = 0; notes && notes[i]; i += 2) {
        fputs(i ? "," : "\"__metadata__\":{", f);
        rush_json_write_text(f, notes[i]);
        fputc(':', f);
        rush_json_write_text(f, notes[i + 1]);
        if (!notes[i + 2]) fputs(n ? "}," : "}", f);
    }
    for (int i = 0; i < n; i++) {
        const rush_tensor *t = e[i].t;
        size_t end = at + (size_t)t->numel * rush_dtypes[t->dtype].size;
        if (i) fputc(',', f);
        rush_json_write_text(f, e[i].name);
        fprintf(f, ":{\"dtype\":\"%s\",\"shape\":[", rush_dtypes[t->dtype].safetensors);
        for (int d = 0; d < t->ndim; d++) fprintf(f, d ? ",%lld" : "%lld", (long long)t->size[d]);
        fprintf(f, "],\"data_offsets\":[%zu,%zu]}", at, end);
        at = end;
    }
    fputc('}', f);
    bool failed = ferror(f);
    if (!fclose(f) && !failed) return text;
    free(text);
    return NULL;
}

int rush_safetensors_save_noted(const char *path, rush_state s, const char *const *notes)
{
    if (!rush_state_given(s)) return -1;
    RUSH_CHECK(path, RUSH_TYPE_ERROR, "a path is missing (NULL)");
    if (rush_failed()) return -1;
    RUSH_CHECK(s.n >= 0, RUSH_VALUE_ERROR, "there is no state to write to '%s'", path);
    size_t mark = rush_scope_open();
    int failed = 0;
    named *e = rush_scope_alloc(sizeof *e * (size_t)RUSH_MAX(s.n, 1));
    for (int i = 0; e && i < s.n && !failed; i++) {
        e[i] = (named){rush_as_in_files(s.tensor[i]), s.name[i]};
        if (!e[i].t) failed = -1;
        else if (!rush_dtypes[e[i].t->dtype].safetensors) failed = rush_fail(RUSH_TYPE_ERROR, "safetensors files hold no %s ('%s')", rush_dtype_name(e[i].t->dtype), s.name[i]);
        else if (!rush_utf8_is(s.name[i])) failed = rush_fail(RUSH_VALUE_ERROR, "the name '%s' is no UTF-8, which safetensors files ask for", s.name[i]);
        for (int k = 0; k < i && !failed; k++)
            if (!strcmp(s.name[k], s.name[i])) failed = rush_fail(RUSH_VALUE_ERROR, "the name '%s' is there twice", s.name[i]);
    }
    for (int i = 0; notes && notes[i] && !failed; i++)
        if (!rush_utf8_is(notes[i])) failed = rush_fail(RUSH_VALUE_ERROR, "a note of '%s' is no UTF-8, which safetensors files ask for", path);
    if (!e || failed) return rush_scope_close(mark), -1;
    qsort(e, (size_t)s.n, sizeof *e, by_size);

    char *text = header_of(e, s.n, notes);
    rush_writing w;
    failed = !text ? rush_fail(RUSH_MEMORY_ERROR, "not enough memory for the header of '%s'", path) : rush_write_begin(&w, path);
    if (!failed) {
        size_t n = strlen(text), whole = (n + 7) / 8 * 8;
        uint8_t length[8];
        for (int i = 0; i < 8; i++) length[i] = (uint8_t)(whole >> 8 * i);
        failed = rush_write(&w, length, 8) || rush_write(&w, text, n) || rush_write(&w, "        ", whole - n);
        for (int i = 0; i < s.n && !failed; i++) failed = rush_write(&w, rush_ptr(e[i].t), (size_t)e[i].t->numel * rush_dtypes[e[i].t->dtype].size);
        failed = rush_write_end(&w, !failed) || failed;
    }
    free(text);
    rush_scope_close(mark);
    return failed ? -1 : 0;
}

int rush_safetensors_save(const char *path, rush_state s) { return rush_safetensors_save_noted(path, s, NULL); }

/* What is written as [from, to]. */
static bool read_offsets(const rush_json *item, int64_t *from, int64_t *to)
{
    const rush_json *offsets = rush_json_get(item, "data_offsets"), *a = offsets ? offsets->first : NULL, *b = a ? a->next : NULL;
    if (!rush_json_is(offsets, RUSH_JSON_LIST) || offsets->n != 2 || a->kind != RUSH_JSON_WHOLE || b->kind != RUSH_JSON_WHOLE) return false;
    *from = a->i;
    *to = b->i;
    return *from >= 0 && *to >= 0;
}

/* One entry of the header as a tensor over the mapping; data begins at `base`. */
static rush_tensor *entry(rush_mapping *m, size_t base, const rush_json *item, const char *path)
{
    const rush_json *shape = rush_json_get(item, "shape");
    const char *code = rush_json_text_of(item, "dtype");
    int64_t size[RUSH_MAXDIM], from, to, numel = 1;
    int ndim = 0, d = -1;
    for (int i = 0; code && i < RUSH_DTYPES; i++)
        if (rush_dtypes[i].safetensors && !strcmp(rush_dtypes[i].safetensors, code)) d = i;
    RUSH_CHECK_NULL(code && d >= 0, RUSH_TYPE_ERROR, "'%s' of '%s' has elements of type %s, which no dtype stands for", item->name, path, code ? code : "(none)");
    bool fine = rush_json_is(shape, RUSH_JSON_LIST) && shape->n <= RUSH_MAXDIM && read_offsets(item, &from, &to);
    rush_json_each(x, fine ? shape : NULL) {
        fine = fine && x->kind == RUSH_JSON_WHOLE && x->i >= 0;
        size[ndim++] = x->i;
    }
    RUSH_CHECK_NULL(fine, RUSH_VALUE_ERROR, "'%s' of '%s' has no readable shape or place", item->name, path);
    numel = rush_numel_of(ndim, size);
    if (numel < 0) return NULL;
    RUSH_CHECK_NULL(from <= to && (uint64_t)to <= m->size - base && (uint64_t)(to - from) / rush_dtypes[d].size == (uint64_t)numel &&
                        (uint64_t)(to - from) % rush_dtypes[d].size == 0,
                    RUSH_VALUE_ERROR, "'%s' of '%s' lies outside of the file, or has another size than its shape says", item->name, path);
    return rush_map_tensor(m, base + (size_t)from, (rush_dtype)d, ndim, size, NULL);
}

/* Where a tensor lies, to see that together they are all of the data. */
typedef struct span {
    int64_t from, to;
    const char *name;
} span;

static int by_place(const void *a, const void *b)
{
    const span *x = a, *y = b;
    return x->from != y->from ? (x->from > y->from) - (x->from < y->from) : (x->to > y->to) - (x->to < y->to);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const span *)a)->name, ((const span *)b)->name);
}

/* No name twice; from the first byte of the data to the last, each belongs to one tensor. */
static int check_spans(span *spans, int n, uint64_t data, const char *path)
{
    qsort(spans, (size_t)n, sizeof *spans, by_name);
    for (int i = 1; i < n; i++)
        if (!strcmp(spans[i - 1].name, spans[i].name)) return rush_fail(RUSH_VALUE_ERROR, "the name '%.200s' is twice in '%s'", spans[i].name, path);
    qsort(spans, (size_t)n, sizeof *spans, by_place);
    int64_t at = 0;
    for (int i = 0; i < n; at = spans[i++].to)
        if (spans[i].from != at)
            return rush_fail(RUSH_VALUE_ERROR, "'%.200s' of '%s' begins at byte %lld of the data, where %lld is expected: tensors overlap or leave a hole", spans[i].name, path,
                             (long long)spans[i].from, (long long)at);
    RUSH_CHECK((uint64_t)at == data, RUSH_VALUE_ERROR, "'%s' has %llu bytes of data, but its header tells of %lld: it is cut off or damaged", path, (unsigned long long)data,
               (long long)at);
    return 0;
}

static int check_metadata(const rush_json *meta, const char *path)
{
    RUSH_CHECK(rush_json_is(meta, RUSH_JSON_OBJECT), RUSH_VALUE_ERROR, "'__metadata__' of '%s' is no object", path);
    rush_json_each(x, meta) RUSH_CHECK(x->text, RUSH_VALUE_ERROR, "'%.200s' in '__metadata__' of '%s' is no text", x->name, path);
    return 0;
}

static rush_json *parse_header(const rush_mapping *m, uint64_t n)
{
    const char *text = m->data + 8;
    return n < 2 || n > HEADER_MOST || n > m->size - 8 || text[0] != '{' ? NULL : rush_json_read(text, (size_t)n);
}

static int read_entries(rush_state *s, rush_mapping *m, const rush_json *head, uint64_t n, const char *path)
{
    size_t count = RUSH_MAX(rush_json_count(head), 1);
    s->name = rush_scope_alloc(sizeof *s->name * count);
    s->tensor = rush_scope_alloc(sizeof *s->tensor * count);
    span *spans = rush_scope_alloc(sizeof *spans * count);
    s->n = 0;
    if (!s->name || !s->tensor || !spans) return -1;
    bool described = false;
    rush_json_each(item, head) {
        if (!strcmp(item->name, "__metadata__")) {
            RUSH_CHECK(!described, RUSH_VALUE_ERROR, "'__metadata__' is twice in '%s'", path);
            described = true;
            if (check_metadata(item, path)) return -1;
            continue;
        }
        rush_tensor *t = entry(m, 8 + (size_t)n, item, path);
        char *name = t ? rush_scope_alloc(strlen(item->name) + 1) : NULL;
        if (!name) return -1;
        spans[s->n].name = name;
        read_offsets(item, &spans[s->n].from, &spans[s->n].to);
        s->name[s->n] = strcpy(name, item->name);
        s->tensor[s->n++] = t;
    }
    return check_spans(spans, s->n, m->size - 8 - n, path);
}

rush_state rush_safetensors_load(const char *path)
{
    if (!(path)) return rush_fail(RUSH_TYPE_ERROR, "a path is missing (NULL)"), (rush_state){-1, NULL, NULL};
    rush_state s = {.n = -1};
    rush_mapping *m = rush_failed() ? NULL : rush_map(path);
    if (!m) return s;
    uint64_t n = 0;
    for (int i = 0; i < 8 && m->size >= 8; i++) n |= (uint64_t)(uint8_t)m->data[i] << 8 * i;
    rush_json *head = m->size >= 8 ? parse_header(m, n) : NULL;
    if (!head) rush_fail(RUSH_VALUE_ERROR, "'%s' is no safetensors file: its header is cut off, or no JSON object", path);
    else read_entries(&s, m, head, n, path);
    rush_free(head);
    rush_unmap(m);
    if (rush_failed()) s.n = -1;
    return s;
}
