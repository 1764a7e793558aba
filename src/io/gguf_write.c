/* gguf_write.c - writing GGUF files: values and descriptions as they are counted in gguf.c, then tensors, blocks of few bits made on the way. */
#include "io/gguf.h"
#include "nn/module.h"

#define PART 65536 /* elements that become blocks at a time */

typedef struct out {
    rush_writing w;
    uint64_t at;
} out;

static int put(out *o, const void *p, size_t n)
{
    o->at += n;
    return rush_write(&o->w, p, n);
}

static int put32(out *o, uint32_t x) { return put(o, &x, 4); }
static int put64(out *o, uint64_t x) { return put(o, &x, 8); }
static int put_text(out *o, const char *s, size_t n) { return put64(o, n) || put(o, s, n) ? -1 : 0; }

static int pad(out *o, uint64_t alignment)
{
    static const char zeros[64];
    for (uint64_t left = (alignment - o->at % alignment) % alignment, n; left; left -= n)
        if (put(o, zeros, n = RUSH_MIN(left, sizeof zeros))) return -1;
    return 0;
}

/* ---- metadata ---- */

static int kind_of_dtype(const rush_tensor *t)
{
    for (int i = 0; i < GGUF_KINDS; i++)
        if (rush_gguf_kinds[i] == t->dtype) return i;
    return rush_fail(RUSH_TYPE_ERROR, "metadata of GGUF files holds no %s", rush_dtype_name((rush_dtype)t->dtype));
}

static int kind_of(const rush_content *x)
{
    if (!rush_content_given(x)) return -1;
    switch (x->kind) {
    case RUSH_CONTENT_BOOL: return GGUF_BOOL;
    case RUSH_CONTENT_INT: return x->i >= 0 ? x->i <= UINT32_MAX ? GGUF_U32 : GGUF_U64 : x->i >= INT32_MIN ? GGUF_I32 : GGUF_I64;
    case RUSH_CONTENT_FLOAT: return GGUF_F32;
    case RUSH_CONTENT_TEXT: return GGUF_TEXT;
    case RUSH_CONTENT_LIST:
    case RUSH_CONTENT_TUPLE: return GGUF_LIST;
    case RUSH_CONTENT_TENSOR: return x->t->ndim ? GGUF_LIST : kind_of_dtype(x->t);
    default: return rush_fail(RUSH_TYPE_ERROR, "metadata of GGUF files holds numbers, bools, texts and lists of one kind");
    }
}

/* The one kind that all items can be written as. */
static int kind_of_items(const rush_content *list)
{
    int kind = list->n ? kind_of(list->items[0]) : GGUF_I32;
    bool wide = false, number = true;
    for (size_t i = 0; i < list->n && kind >= 0; i++) {
        const rush_content *x = list->items[i];
        int other = kind_of(x);
        if (other < 0) return -1;
        number = number && (x->kind == RUSH_CONTENT_INT || x->kind == RUSH_CONTENT_FLOAT);
        wide = wide || (x->kind == RUSH_CONTENT_INT && (x->i > INT32_MAX || x->i < INT32_MIN));
        if (other == GGUF_F32) kind = GGUF_F32;
        RUSH_CHECK(number || other == kind, RUSH_TYPE_ERROR, "a list in metadata of GGUF files has items of one kind");
    }
    return number && kind >= 0 && kind != GGUF_F32 ? wide ? GGUF_I64 : GGUF_I32 : kind;
}

static int put_value(out *o, const rush_content *x, int kind, int depth);

static int put_list(out *o, const rush_content *x, int depth)
{
    RUSH_CHECK(depth < 16, RUSH_VALUE_ERROR, "lists in metadata of GGUF files are nested too deep");
    if (x->kind == RUSH_CONTENT_TENSOR) {
        const rush_tensor *t = rush_as_in_files(x->t);
        int kind = t ? kind_of_dtype(t) : -1;
        if (kind < 0) return -1;
        RUSH_CHECK(t->ndim == 1, RUSH_VALUE_ERROR, "a tensor in metadata of GGUF files has one dimension, or none");
        return put32(o, (uint32_t)kind) || put64(o, (uint64_t)t->numel) || put(o, rush_ptr(t), (size_t)t->numel * rush_dtypes[t->dtype].size) ? -1 : 0;
    }
    int kind = kind_of_items(x);
    if (kind < 0 || put32(o, (uint32_t)kind) || put64(o, x->n)) return -1;
    for (size_t i = 0; i < x->n; i++)
        if (put_value(o, x->items[i], kind, depth + 1)) return -1;
    return 0;
}

static int put_value(out *o, const rush_content *x, int kind, int depth)
{
    if (kind == GGUF_LIST) return put_list(o, x, depth);
    if (kind == GGUF_TEXT) return put_text(o, x->s, x->n);
    if (x->kind == RUSH_CONTENT_TENSOR) {
        const rush_tensor *t = rush_as_in_files(x->t);
        return t ? put(o, rush_ptr(t), rush_dtypes[t->dtype].size) : -1;
    }
    float f = (float)(x->kind == RUSH_CONTENT_FLOAT ? x->f : (double)x->i);
    return kind == GGUF_F32 ? put(o, &f, 4) : put(o, &x->i, rush_dtypes[rush_gguf_kinds[kind]].size); /* the low bytes */
}

static int put_metadata(out *o, const rush_content *dict)
{
    for (size_t i = 0; dict && i < dict->n; i += 2) {
        RUSH_CHECK(dict->items[i]->kind == RUSH_CONTENT_TEXT, RUSH_TYPE_ERROR, "names in metadata of GGUF files are texts");
        int kind = kind_of(dict->items[i + 1]);
        if (kind < 0 || put_text(o, dict->items[i]->s, dict->items[i]->n) || put32(o, (uint32_t)kind) || put_value(o, dict->items[i + 1], kind, 0)) return -1;
    }
    return 0;
}

/* ---- tensors ---- */

typedef struct entry {
    const rush_tensor *t; /* of the dtype that is written, or float32 that becomes blocks */
    rush_gguf_type type;
    size_t bytes;
} entry;

static int prepare(entry *e, rush_tensor *given, const char *name, const char *type)
{
    const rush_tensor *t = rush_as_in_files(given);
    if (!t) return -1;
    bool known = type && rush_gguf_type_of(0, type, &e->type);
    for (int i = 0; !type && !known && i < 64; i++) known = rush_gguf_type_of(i, NULL, &e->type) && !e->type.block && e->type.dtype == t->dtype;
    const rush_block_type *b = known ? e->type.block : NULL;
    RUSH_CHECK(known, RUSH_TYPE_ERROR, "GGUF files hold no %s ('%.200s')", type ? type : rush_dtype_name((rush_dtype)t->dtype), name);
    RUSH_CHECK(t->ndim <= 4, RUSH_VALUE_ERROR, "'%.200s' has %d dimensions: GGUF files know four", name, t->ndim);
    RUSH_CHECK(!b || (t->ndim && t->size[t->ndim - 1] % b->elements == 0), RUSH_VALUE_ERROR, "rows of '%.200s' are no whole blocks of %d: its sizes are %s", name, b ? b->elements : 0,
               rush_shape_of(t));
    e->t = rush_cast_copy(t, e->type.dtype);
    e->bytes = b ? (size_t)(t->numel / b->elements) * (size_t)b->bytes : (size_t)t->numel * rush_dtypes[e->type.dtype].size;
    return e->t ? 0 : -1;
}

static int put_elements(out *o, const entry *e)
{
    const rush_block_type *b = e->type.block;
    if (!b) return put(o, rush_ptr(e->t), e->bytes);
    if (!rush_cpu_suits()) return rush_cpu_refuse();
    char *blocks = rush_malloc((size_t)(PART / b->elements * b->bytes));
    int failed = !blocks;
    for (int64_t at = 0, n; at < e->t->numel && !failed; at += n) {
        n = RUSH_MIN(e->t->numel - at, (int64_t)PART);
        rush_k_blocks->from_float(b, (const float *)rush_ptr(e->t) + at, blocks, n);
        failed = put(o, blocks, (size_t)(n / b->elements * b->bytes));
    }
    rush_free(blocks);
    return failed ? -1 : 0;
}

static int put_file(out *o, rush_state s, const entry *e, const rush_content *metadata, uint64_t alignment)
{
    if (put(o, "GGUF", 4) || put32(o, 3) || put64(o, (uint64_t)s.n) || put64(o, metadata ? metadata->n / 2 : 0) || put_metadata(o, metadata)) return -1;
    uint64_t place = 0;
    for (int i = 0; i < s.n; i++) {
        const rush_tensor *t = e[i].t;
        if (put_text(o, s.name[i], strlen(s.name[i])) || put32(o, t->ndim)) return -1;
        for (int d = t->ndim - 1; d >= 0; d--)
            if (put64(o, (uint64_t)t->size[d])) return -1;
        if (put32(o, (uint32_t)e[i].type.number) || put64(o, place)) return -1;
        place += (e[i].bytes + alignment - 1) / alignment * alignment;
    }
    if (pad(o, alignment)) return -1;
    for (int i = 0; i < s.n; i++)
        if (put_elements(o, &e[i]) || pad(o, alignment)) return -1;
    return 0;
}

int64_t rush_gguf_block(const char *type)
{
    rush_gguf_type is;
    RUSH_CHECK(type, RUSH_TYPE_ERROR, "a type's name is missing (NULL)");
    RUSH_CHECK(rush_gguf_type_of(0, type, &is), RUSH_VALUE_ERROR, "GGUF files hold no %.200s", type);
    return is.block ? is.block->elements : 1;
}

int rush_gguf_save(const char *path, rush_state s, const rush_content *metadata, const char *const *types)
{
    if (!rush_state_given(s) || (metadata && !rush_content_given(metadata))) return -1;
    RUSH_CHECK(path, RUSH_TYPE_ERROR, "a path is missing (NULL)");
    if (rush_failed()) return -1;
    RUSH_CHECK(!metadata || metadata->kind == RUSH_CONTENT_DICT, RUSH_TYPE_ERROR, "metadata of GGUF files is a dict");
    const rush_content *a = metadata ? rush_content_get(metadata, "general.alignment") : NULL;
    int64_t alignment = !a ? RUSH_GGUF_ALIGNMENT : a->kind == RUSH_CONTENT_INT ? a->i : 0;
    RUSH_CHECK(alignment > 0 && alignment <= 65536 && !(alignment & (alignment - 1)), RUSH_VALUE_ERROR, "general.alignment is no power of two up to 65536");
    size_t mark = rush_scope_open();
    entry *e = rush_scope_alloc(RUSH_MAX(s.n, 1) * sizeof *e);
    int failed = !e;
    for (int i = 0; i < s.n && !failed; i++) {
        failed = prepare(&e[i], s.tensor[i], s.name[i], types ? types[i] : NULL);
        for (int k = 0; k < i && !failed; k++)
            if (!strcmp(s.name[k], s.name[i])) failed = rush_fail(RUSH_VALUE_ERROR, "the name '%s' is there twice", s.name[i]);
    }
    out o = {.at = 0};
    if (!failed && !(failed = rush_write_begin(&o.w, path))) {
        failed = put_file(&o, s, e, metadata, (uint64_t)alignment);
        failed = rush_write_end(&o.w, !failed) || failed;
    }
    rush_scope_close(mark);
    return failed ? -1 : 0;
}
