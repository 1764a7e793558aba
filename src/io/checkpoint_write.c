/* checkpoint_write.c - contents as .pt files, which torch.load reads with weights_only=True.
 *
 * One pass over the contents finds the storages and which part of each is used; only that part is written, so that
 * a view of a large tensor makes a small file, and views that share memory share it again. The second pass writes the
 * pickle, after which the storages follow as entries of their own. The archive of a program has two pickles.
 */
#include "nn/module.h"
#include "io/checkpoint.h"
#include "io/zip.h"
#include "op/object.h"
#include "op/formula.h"
#include "tensor/quantized.h"

#include <inttypes.h>
#include <stdio.h>

#define DEEPEST 1000

typedef struct part {
    rush_storage *storage;
    rush_tensor *t;          /* one over it, which keeps it alive and knows its dtype */
    int64_t from, to;        /* bytes of it that are used                             */
} part;

typedef struct writer {
    const char *path;
    char *p;                 /* the pickle */
    size_t n, room;
    part *parts;
    size_t nparts, parts_room;
    uint32_t *slots;         /* numbers + 1 of parts, by the address of their storage */
    size_t nslots;
    bool script;             /* an archive of TorchScript: objects, tensors without Python's classes */
    bool program;            /* one with functions: objects have the classes that they say */
    uint32_t objects;        /* written so far */
    const rush_content **object; /* those of a program */
    uint32_t memo;           /* names written so far, by number: repeated ones are one opcode */
    struct { const char *name; } known[32];
} writer;

/* ---- storages ---- */

static part *part_of(writer *w, rush_storage *s)
{
    if (2 * (w->nparts + 1) > w->nslots) {
        size_t nslots = RUSH_MAX(w->nslots * 2, (size_t)64);
        uint32_t *slots = rush_scope_alloc(nslots * sizeof *slots);
        part *parts = rush_scope_alloc(nslots * sizeof *parts);
        if (!slots || !parts) return NULL;
        memset(slots, 0, nslots * sizeof *slots);
        if (w->nparts) memcpy(parts, w->parts, w->nparts * sizeof *parts);
        for (size_t i = 0; i < w->nparts; i++) {
            size_t at = ((uintptr_t)parts[i].storage >> 4) * 2654435761u & (nslots - 1);
            while (slots[at]) at = (at + 1) & (nslots - 1);
            slots[at] = (uint32_t)i + 1;
        }
        w->slots = slots, w->nslots = nslots, w->parts = parts;
    }
    size_t at = ((uintptr_t)s >> 4) * 2654435761u & (w->nslots - 1);
    for (; w->slots[at]; at = (at + 1) & (w->nslots - 1))
        if (w->parts[w->slots[at] - 1].storage == s) return w->parts + w->slots[at] - 1;
    w->slots[at] = (uint32_t)++w->nparts;
    w->parts[w->nparts - 1] = (part){.storage = s, .from = INT64_MAX};
    return w->parts + w->nparts - 1;
}

/* The tensor as it is written: elements in memory, no lazy bits. Contents keep what was made for them. */
static rush_tensor *plain(rush_content *x)
{
    rush_tensor *t = x->t;
    RUSH_CHECK_NULL(t->layout == RUSH_STRIDED || rush_is_quantized(t), RUSH_NOT_IMPLEMENTED, "only strided tensors are written from C");
    if (t->device.type != RUSH_CPU && !(t = x->t = rush_to_device(t, &(rush_tensor){.device.type = RUSH_CPU}))) return NULL;
    if (!(t->flags & (RUSH_T_CONJ | RUSH_T_NEG))) return t;
    rush_tensor *resolved = rush_contiguous_copy(t);
    if (resolved && rush_requires_grad(t) && !(resolved = rush_requires_grad_set(rush_tensor_detach(resolved), true))) return NULL;
    return x->t = resolved;
}

static int note(writer *w, rush_tensor *t)
{
    part *p = t ? part_of(w, t->storage) : NULL;
    if (!p) return -1;
    if (rush_is_quantized(t) && t->q->scales && (note(w, t->q->scales) || note(w, t->q->zeros))) return -1;
    p = part_of(w, t->storage); /* which others may have moved */
    RUSH_CHECK(!p->t || p->t->dtype == t->dtype, RUSH_RUNTIME_ERROR, "Cannot save multiple tensors or storages that view the same data as different types ('%s')", w->path);
    p->t = t;
    int64_t size = rush_dtypes[t->dtype].size, from = t->offset, last = t->offset;
    for (int i = 0; i < t->ndim; i++) last += (t->size[i] - 1) * t->stride[i];
    if (!t->numel) return 0;
    p->from = RUSH_MIN(p->from, from * size);
    p->to = RUSH_MAX(p->to, (last + 1) * size);
    return 0;
}

static int note_all(writer *w, rush_content *x, int depth)
{
    RUSH_CHECK(depth < DEEPEST, RUSH_VALUE_ERROR, "what is to be written to '%s' is nested deeper than 1000, or in a circle", w->path);
    if (x->kind == RUSH_CONTENT_TENSOR) return note(w, plain(x));
    for (size_t i = 0; x->kind >= RUSH_CONTENT_LIST && x->kind <= RUSH_CONTENT_DICT && i < x->n; i++)
        if (note_all(w, x->items[i], depth + 1)) return -1;
    return 0;
}

/* ---- the pickle ---- */

static int put(writer *w, const void *p, size_t n)
{
    if (w->room - w->n < n) {
        size_t room = RUSH_MAX(w->room * 2, w->n + n + 4096);
        char *more = rush_realloc(w->p, room);
        if (!more) return -1;
        w->p = more;
        w->room = room;
    }
    memcpy(w->p + w->n, p, n);
    w->n += n;
    return 0;
}

static int op(writer *w, int code) { return put(w, &(char){(char)code}, 1); }

static int put_number(writer *w, int code, uint64_t x, int width)
{
    uint8_t b[9] = {(uint8_t)code};
    for (int i = 0; i < width; i++) b[1 + i] = (uint8_t)(x >> 8 * i);
    return put(w, b, (size_t)width + 1);
}

static int put_int(writer *w, int64_t x)
{
    if (x >= 0 && x < 256) return put_number(w, 'K', (uint64_t)x, 1);
    if (x >= 0 && x < 65536) return put_number(w, 'M', (uint64_t)x, 2);
    if (x >= INT32_MIN && x <= INT32_MAX) return put_number(w, 'J', (uint64_t)x, 4);
    uint8_t b[10] = {0x8a, 8};
    for (int i = 0; i < 8; i++) b[2 + i] = (uint8_t)((uint64_t)x >> 8 * i);
    return put(w, b, 10);
}

static int put_float(writer *w, double f)
{
    union { double f; uint64_t u; } x = {.f = f};
    uint8_t b[9] = {'G'};
    for (int i = 0; i < 8; i++) b[1 + i] = (uint8_t)(x.u >> (56 - 8 * i));
    return put(w, b, 9);
}

static int put_text(writer *w, const char *s, size_t n)
{
    RUSH_CHECK(n <= UINT32_MAX, RUSH_VALUE_ERROR, "a text of %zu bytes is too long for '%s'", n, w->path);
    return put_number(w, 'X', n, 4) || put(w, s, n);
}

/* "module\nname" by its opcode; the second time by its number in the memo. */
static int put_global(writer *w, const char *name)
{
    for (uint32_t i = 0; i < w->memo; i++)
        if (!strcmp(w->known[i].name, name)) return put_number(w, 'h', i, 1);
    if (op(w, 'c') || put(w, name, strlen(name)) || op(w, '\n')) return -1;
    if (w->memo == RUSH_COUNT(w->known)) return 0;
    char *copy = rush_scope_alloc(strlen(name) + 1);
    if (!copy) return -1;
    w->known[w->memo].name = strcpy(copy, name);
    return put_number(w, 'q', w->memo++, 1);
}

static int put_ints(writer *w, int n, const int64_t *x)
{
    if (op(w, '(')) return -1;
    for (int i = 0; i < n; i++)
        if (put_int(w, x[i])) return -1;
    return op(w, 't');
}

static int put_tensor(writer *w, const rush_content *x);

/* (scheme, scale, zero point), or (scheme, scales, zero points, axis) */
static int put_grid(writer *w, const struct rush_qparams *q)
{
    if (op(w, '(')) return -1;
    if (q->scheme == RUSH_PER_TENSOR) return put_global(w, "torch\nper_tensor_affine") || put_float(w, q->scale) || put_int(w, q->zero_point) || op(w, 't') ? -1 : 0;
    const rush_content scales = {.kind = RUSH_CONTENT_TENSOR, .t = q->scales}, zeros = {.kind = RUSH_CONTENT_TENSOR, .t = q->zeros};
    if (put_global(w, q->scheme == RUSH_PER_CHANNEL ? "torch\nper_channel_affine" : "torch\nper_channel_affine_float_qparams")) return -1;
    return put_tensor(w, &scales) || put_tensor(w, &zeros) || put_int(w, q->axis) || op(w, 't') ? -1 : 0;
}

static int put_tensor(writer *w, const rush_content *x)
{
    const rush_tensor *t = x->t;
    const rush_dtype_info *d = &rush_dtypes[t->dtype]; /* without a class of their own, storages are untyped and counted in bytes */
    part *p = part_of(w, t->storage);
    if (!p) return -1;
    int64_t size = rush_dtypes[t->dtype].size, bytes = p->to > p->from ? p->to - p->from : 0;
    int64_t offset = t->numel ? t->offset - p->from / size : 0;
    char name[64], key[32];
    snprintf(name, sizeof name, d->storage ? "torch\n%sStorage" : "torch.storage\nUntypedStorage", d->word);
    snprintf(key, sizeof key, "%zu", (size_t)(p - w->parts));
    bool wants = rush_requires_grad(t), parameter = x->parameter && !w->script;
    RUSH_CHECK(d->storage || !w->script, RUSH_NOT_IMPLEMENTED, "archives of TorchScript have no tensors of %s ('%s')", rush_dtype_name((rush_dtype)t->dtype), w->path);
    if (parameter && (put_global(w, "torch._utils\n_rebuild_parameter") || op(w, '('))) return -1;
    const char *maker = rush_is_quantized(t) ? "torch._utils\n_rebuild_qtensor" : d->storage ? "torch._utils\n_rebuild_tensor_v2" : "torch._utils\n_rebuild_tensor_v3";
    if (put_global(w, maker) || op(w, '(')) return -1;
    if (op(w, '(') || put_text(w, "storage", 7) || put_global(w, name) || put_text(w, key, strlen(key)) || put_text(w, "cpu", 3) ||
        put_int(w, d->storage ? bytes / size : bytes) || op(w, 't') || op(w, 'Q'))
        return -1;
    if (put_int(w, offset) || put_ints(w, t->ndim, t->size) || put_ints(w, t->ndim, t->stride)) return -1;
    if ((rush_is_quantized(t) && put_grid(w, t->q)) || op(w, wants && !parameter ? 0x88 : 0x89)) return -1;
    if (put_global(w, "collections\nOrderedDict") || op(w, ')') || op(w, 'R')) return -1;
    if (!d->storage) {
        snprintf(name, sizeof name, "torch\n%s", rush_dtype_name((rush_dtype)t->dtype));
        if (put_global(w, name)) return -1;
    }
    if (op(w, 't') || op(w, 'R')) return -1;
    if (!parameter) return 0;
    return op(w, wants ? 0x88 : 0x89) || put_global(w, "collections\nOrderedDict") || op(w, ')') || op(w, 'R') || op(w, 't') || op(w, 'R');
}

/* Protocol 2 has no bytes: they are text of U+0000 to U+00FF, encoded again. */
static int put_bytes(writer *w, const rush_content *x)
{
    char *text = rush_malloc(2 * x->n + 1);
    size_t n = 0;
    for (size_t i = 0; text && i < x->n; i++) {
        unsigned char c = (unsigned char)x->s[i];
        if (c >= 0x80) text[n++] = (char)(0xc0 | c >> 6);
        text[n++] = (char)(c >= 0x80 ? 0x80 | (c & 0x3f) : c);
    }
    int failed = !text || put_global(w, "_codecs\nencode") || op(w, '(') || put_text(w, text, n) || put_text(w, "latin1", 6) || op(w, 't') || op(w, 'R');
    rush_free(text);
    return failed ? -1 : 0;
}

static int put_content(writer *w, const rush_content *x);

static int put_items(writer *w, const rush_content *x)
{
    for (size_t i = 0; i < x->n; i++)
        if (put_content(w, x->items[i])) return -1;
    return 0;
}

static int remember_object(writer *w, const rush_content *x)
{
    if (!(w->objects & (w->objects - 1))) {
        const rush_content **more = rush_scope_alloc(2 * (w->objects + 1) * sizeof *more);
        if (!more) return -1;
        if (w->objects) memcpy(more, w->object, w->objects * sizeof *more);
        w->object = more;
    }
    w->object[w->objects] = x;
    return put_number(w, 'r', RUSH_COUNT(w->known) + w->objects++, 4);
}

/* Of a program: what is there twice is the same object. PyTorch's reader makes objects when they are built, and remembers none before. */
static int put_instance(writer *w, const rush_content *x)
{
    for (uint32_t i = 0; i < w->objects; ++i)
        if (w->object[i] == x) return put_number(w, 'j', RUSH_COUNT(w->known) + i, 4);
    const char *name = strrchr(x->type, '.');
    RUSH_CHECK(name, RUSH_VALUE_ERROR, "the class '%.200s' is in no module", x->type);
    if (op(w, 'c') || put(w, x->type, (size_t)(name - x->type)) || op(w, '\n') || put(w, name + 1, strlen(name + 1)) || op(w, '\n') || op(w, ')') || op(w, 0x81)) return -1;
    if (rush_class_path_end(x->type)) { /* its state, which need be no dict */
        if (x->n != 2 || put_content(w, x->items[1]) || op(w, 'b')) return -1;
    } else if (op(w, '}') || op(w, '(') || put_items(w, x) || op(w, 'u') || op(w, 'b')) return -1;
    return remember_object(w, x);
}

/* The function that a program's list of these is made by; NULL: none is needed. */
static const char *list_maker(const rush_content *x)
{
    int kind = x->n ? x->items[0]->kind : RUSH_CONTENT_NONE;
    for (size_t i = 1; i < x->n; ++i)
        if (x->items[i]->kind != kind) return NULL;
    return kind == RUSH_CONTENT_INT      ? "torch.jit._pickle\nbuild_intlist"
           : kind == RUSH_CONTENT_FLOAT  ? "torch.jit._pickle\nbuild_doublelist"
           : kind == RUSH_CONTENT_BOOL   ? "torch.jit._pickle\nbuild_boollist"
           : kind == RUSH_CONTENT_TENSOR ? "torch.jit._pickle\nbuild_tensorlist"
                                         : NULL;
}

static int put_list(writer *w, const rush_content *x)
{
    const char *maker = w->program ? list_maker(x) : NULL;
    if (maker && (put_global(w, maker) || op(w, '('))) return -1;
    if (op(w, ']') || op(w, '(') || put_items(w, x) || op(w, 'e')) return -1;
    return maker ? op(w, 't') || op(w, 'R') : 0;
}

/* Each object has a class of its own. */
static int put_object(writer *w, const rush_content *x)
{
    char name[64];
    RUSH_CHECK(w->script, RUSH_NOT_IMPLEMENTED, "an object of TorchScript is only written as, or inside of, a file's outermost one ('%s')", w->path);
    if (rush_content_class(name, sizeof name, w->objects++)) return -1;
    if (op(w, 'c') || put(w, name, strlen(name)) || put(w, "\nModule\n", 8) || op(w, ')') || op(w, 0x81) || op(w, '}') || op(w, '(')) return -1;
    return put_items(w, x) || op(w, 'u') || op(w, 'b');
}

static int put_content(writer *w, const rush_content *x)
{
    char name[64];
    if (w->program && x->kind == RUSH_CONTENT_NAME) return put_global(w, "torch\ndevice") || op(w, '(') || put_text(w, x->s, strlen(x->s)) || op(w, 't') || op(w, 'R');
    switch (x->kind) {
    case RUSH_CONTENT_NONE: return op(w, 'N');
    case RUSH_CONTENT_BOOL: return op(w, x->i ? 0x88 : 0x89);
    case RUSH_CONTENT_INT: return put_int(w, x->i);
    case RUSH_CONTENT_FLOAT: return put_float(w, x->f);
    case RUSH_CONTENT_COMPLEX:
        return put_global(w, "__builtin__\ncomplex") || put_float(w, x->c[0]) || put_float(w, x->c[1]) || op(w, 0x86) || op(w, 'R');
    case RUSH_CONTENT_TEXT: return put_text(w, x->s, x->n);
    case RUSH_CONTENT_BYTES: return put_bytes(w, x);
    case RUSH_CONTENT_TENSOR: return put_tensor(w, x);
    case RUSH_CONTENT_LIST: return put_list(w, x);
    case RUSH_CONTENT_TUPLE: return op(w, '(') || put_items(w, x) || op(w, 't');
    case RUSH_CONTENT_SET: return put_global(w, "__builtin__\nset") || op(w, ']') || op(w, '(') || put_items(w, x) || op(w, 'e') || op(w, 0x85) || op(w, 'R');
    case RUSH_CONTENT_DICT:
        if (x->type) return w->program ? put_instance(w, x) : put_object(w, x);
        if (w->program) return op(w, '}') || op(w, '(') || put_items(w, x) || op(w, 'u');
        return put_global(w, "collections\nOrderedDict") || op(w, ')') || op(w, 'R') || op(w, '(') || put_items(w, x) || op(w, 'u');
    case RUSH_CONTENT_DTYPE:
        snprintf(name, sizeof name, "torch\n%s", rush_dtype_name((rush_dtype)x->i));
        return put_global(w, name);
    default: return rush_fail(RUSH_NOT_IMPLEMENTED, "'%.100s' is not written from C ('%s')", x->kind == RUSH_CONTENT_NAME ? x->s : "?", w->path);
    }
}

/* ---- the file ---- */

/* "net" of "runs/net.pt": the folder that all entries are in. */
static void root_of(const char *path, char *root, size_t room)
{
    const char *base = strrchr(path, '/');
    snprintf(root, room, "%s", base ? base + 1 : path);
    char *dot = strrchr(root, '.');
    if (dot && dot != root) *dot = 0;
    if (!*root) snprintf(root, room, "archive");
}

static int add_storages(const writer *w, rush_zip_writer *z, const char *root, const char *folder)
{
    char name[256];
    for (size_t i = 0; i < w->nparts; i++) {
        part *p = w->parts + i;
        snprintf(name, sizeof name, "%s/%s/%zu", root, folder, i);
        bool any = p->to > p->from;
        if (rush_zip_add(z, name, any ? (char *)rush_storage_data(p->storage) + p->from : "", any ? (uint64_t)(p->to - p->from) : 0)) return -1;
    }
    return 0;
}

static int write_pickle(writer *w, rush_content *x) { return note_all(w, x, 0) || put(w, "\x80\x02", 2) || put_content(w, x) || op(w, '.'); }

static int write_archive(writer *w, const rush_content *x, rush_writing *file)
{
    char root[200], name[256];
    root_of(w->path, root, sizeof root);
    rush_zip_writer z;
    rush_zip_begin(&z, rush_zip_to_file, file);
    const char *order = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? "big" : "little";
    struct { const char *name, *p; size_t n; } head[] = {{"data.pkl", w->p, w->n}, {".format_version", "1", 1}, {".storage_alignment", "64", 2}, {"byteorder", order, strlen(order)}};
    int failed = 0;
    for (size_t i = 0; i < RUSH_COUNT(head) && !failed; i++) {
        snprintf(name, sizeof name, "%s/%s", root, head[i].name);
        failed = rush_zip_add(&z, name, head[i].p, head[i].n);
    }
    if (!failed) failed = add_storages(w, &z, root, "data");
    snprintf(name, sizeof name, "%s/constants.pkl", root);
    if (!failed && w->script) failed = rush_zip_add(&z, name, "\x80\x02).", 4) || rush_content_code(x, root, &z);
    snprintf(name, sizeof name, "%s/version", root);
    if (!failed) failed = rush_zip_add(&z, name, "3\n", 2);
    snprintf(name, sizeof name, "%s/.data/serialization_id", root);
    char id[64];
    snprintf(id, sizeof id, "%040" PRIu64, (uint64_t)w->n);
    if (!failed) failed = rush_zip_add(&z, name, id, 40);
    return rush_zip_end(&z, !failed) || failed ? -1 : 0;
}

int rush_save(const char *path, const rush_content *x)
{
    if (!rush_content_given(x)) return -1;
    RUSH_CHECK(path, RUSH_TYPE_ERROR, "a path is missing (NULL)");
    if (rush_failed()) return -1;
    writer w = {.path = path};
    size_t mark = rush_scope_open();
    w.script = x->kind == RUSH_CONTENT_DICT && x->type;
    int failed = write_pickle(&w, (rush_content *)x);
    rush_writing file;
    if (!failed && !(failed = rush_write_begin(&file, path))) {
        failed = write_archive(&w, x, &file);
        failed = rush_write_end(&file, !failed) || failed;
    }
    rush_free(w.p);
    rush_scope_close(mark);
    return failed ? -1 : 0;
}

int rush_save_archive(rush_sink sink, void *to, rush_content *data, rush_content *constants, size_t n, const rush_archive_file *files)
{
    writer w[] = {{.path = "data", .script = true, .program = true}, {.path = "constants", .script = true, .program = true}};
    rush_content *given[] = {data, constants};
    rush_zip_writer z;
    rush_zip_begin(&z, sink, to);
    int failed = 0;
    for (size_t i = 0; i < RUSH_COUNT(w) && !failed; ++i) {
        char name[64];
        snprintf(name, sizeof name, "archive/%s.pkl", w[i].path);
        failed = write_pickle(&w[i], given[i]) || rush_zip_add(&z, name, w[i].p, w[i].n) || add_storages(&w[i], &z, "archive", w[i].path);
        rush_free(w[i].p);
    }
    for (size_t i = 0; i < n && !failed; ++i) {
        char *name = rush_scope_alloc(strlen(files[i].name) + sizeof "archive/");
        failed = !name || rush_zip_add(&z, strcat(strcpy(name, "archive/"), files[i].name), files[i].p, files[i].n);
    }
    if (!failed) failed = rush_zip_add(&z, "archive/version", "10\n", 3) || rush_zip_add(&z, "archive/byteorder", "little", 6);
    return rush_zip_end(&z, !failed) || failed ? -1 : 0;
}

int rush_save_state(const char *path, rush_state s)
{
    if (!rush_state_given(s)) return -1;
    RUSH_CHECK(path, RUSH_TYPE_ERROR, "a path is missing (NULL)");
    if (rush_failed()) return -1;
    size_t mark = rush_scope_open();
    rush_content *dict = rush_content_state(s);
    int failed = dict ? rush_save(path, dict) : rush_failed() ? -1 : rush_fail(RUSH_VALUE_ERROR, "there is no state to write to '%s'", path);
    rush_scope_close(mark);
    return failed;
}
