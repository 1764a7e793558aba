/* checkpoint_read.c - .pt files as contents: what the pickle machine makes for C programs.
 *
 * A checkpoint is a pickle in which tensors are calls of a handful of functions that rebuild them from storages, and
 * storages are references to entries of the zip. The table below is all that a file can name; each name stands for
 * a few lines of C here, and nothing else happens, whatever the file says.
 */
#include "base/hash.h"
#include "io/checkpoint.h"
#include "io/pickle.h"
#include "io/zip.h"
#include "op/object.h"
#include "tensor/quantized.h"

#include <fcntl.h>
#include <unistd.h>

/* What a name stands for. A content of kind NAME keeps it in `room`. */
enum meaning {
    PLAIN, REBUILD, REBUILD_V2, REBUILD_V3, REBUILD_PARAMETER, REBUILD_META, REBUILD_QUANTIZED, REBUILD_FROM_TYPE, UNSUPPORTED, PARAMETER, TENSOR_CLASS,
    DEVICE, SIZE, LAYOUT, DICT, COUNTER, SET, COMPLEX, BYTEARRAY, ENCODE, UNTYPED, TAGGED, AS_LIST, OBJECT,
    STORAGE /* + dtype */
};

static const struct { const char *name; int meaning; } names[] = {
    {"torch._utils._rebuild_tensor_v2", REBUILD_V2}, {"torch._utils._rebuild_tensor_v3", REBUILD_V3}, {"torch._utils._rebuild_tensor", REBUILD},
    {"torch._utils._rebuild_parameter", REBUILD_PARAMETER}, {"torch._utils._rebuild_parameter_with_state", REBUILD_PARAMETER},
    {"torch._utils._rebuild_meta_tensor_no_storage", REBUILD_META}, {"torch._tensor._rebuild_from_type_v2", REBUILD_FROM_TYPE},
    {"torch._utils._rebuild_qtensor", REBUILD_QUANTIZED}, {"torch._utils._rebuild_sparse_tensor", UNSUPPORTED}, {"torch._utils._rebuild_nested_tensor", UNSUPPORTED},
    {"torch.nn.parameter.Parameter", PARAMETER}, {"torch.nn.parameter.Buffer", PARAMETER}, {"torch.Tensor", TENSOR_CLASS}, {"torch.device", DEVICE}, {"torch.Size", SIZE},
    {"torch.serialization._get_layout", LAYOUT}, {"torch.storage.UntypedStorage", UNTYPED}, {"torch.UntypedStorage", UNTYPED}, {"torch.storage.TypedStorage", PLAIN},
    {"torch.per_tensor_affine", PLAIN}, {"torch.per_channel_affine", PLAIN}, {"torch.per_channel_affine_float_qparams", PLAIN}, {"torch.contiguous_format", PLAIN},
    {"collections.OrderedDict", DICT}, {"collections.Counter", COUNTER}, {"builtins.set", SET}, {"__builtin__.set", SET}, {"builtins.complex", COMPLEX},
    {"__builtin__.complex", COMPLEX}, {"builtins.bytearray", BYTEARRAY}, {"__builtin__.bytearray", BYTEARRAY}, {"_codecs.encode", ENCODE},
    {"torch.jit._pickle.restore_type_tag", TAGGED}, {"torch.jit._pickle.build_intlist", AS_LIST}, {"torch.jit._pickle.build_tensorlist", AS_LIST},
    {"torch.jit._pickle.build_doublelist", AS_LIST}, {"torch.jit._pickle.build_boollist", AS_LIST},
};

static void *damaged(const rush_reader *r, const char *what)
{
    rush_fail(RUSH_VALUE_ERROR, "'%s' is no readable checkpoint: %s", r->path, what);
    return NULL;
}

/* ---- plain values ---- */

static void nothing(void *value) { }
static void *make_none(void *self) { return rush_content_none(); }
static void *make_bool(void *self, bool b) { return rush_content_bool(b); }
static void *make_int(void *self, int64_t i) { return rush_content_int(i); }
static void *make_float(void *self, double f) { return rush_content_float(f); }
static void *make_list(void *self) { return rush_content_list(); }
static void *make_dict(void *self) { return rush_content_dict(); }
static void *make_set(void *self) { return rush_content_new(RUSH_CONTENT_SET); }
static void *make_text(void *self, const char *p, size_t n) { return rush_content_bytes(RUSH_CONTENT_TEXT, p, n); }

static void *make_big(void *self, const uint8_t *p, size_t n)
{
    while (n > 8 && p[n - 1] == (p[n - 2] & 0x80 ? 0xff : 0)) n--; /* bytes that say nothing new */
    if (n <= 8) {
        uint64_t x = p[n - 1] & 0x80 ? ~(uint64_t)0 : 0;
        while (n--) x = x << 8 | p[n];
        return rush_content_int((int64_t)x);
    }
    return rush_content_bytes(RUSH_CONTENT_BYTES, (const char *)p, n); /* only the old format's magic number is so long */
}

static void *make_bytes(void *self, const char *p, size_t n, int kind)
{
    return rush_content_bytes(kind == RUSH_PICKLE_OLD_TEXT ? RUSH_CONTENT_TEXT : RUSH_CONTENT_BYTES, p, n);
}

static void *make_tuple(void *self, void **items, size_t n)
{
    rush_content *x = rush_content_tuple();
    return x && !rush_content_add(x, (rush_content **)items, n) ? x : NULL;
}

static int add_to(void *self, void *to, void **items, size_t n, int kind, const char *what)
{
    rush_content *x = to;
    if (x->kind != kind) return damaged(self, what), -1;
    return rush_content_add(x, (rush_content **)items, n);
}

static int append(void *self, void *list, void **items, size_t n) { return add_to(self, list, items, n, RUSH_CONTENT_LIST, "it appends to what is no list"); }
static int set_items(void *self, void *dict, void **items, size_t n) { return add_to(self, dict, items, n, RUSH_CONTENT_DICT, "it sets items of what is no dictionary"); }
static int add_items(void *self, void *set, void **items, size_t n) { return add_to(self, set, items, n, RUSH_CONTENT_SET, "it adds to what is no set"); }

/* ---- names ---- */

static rush_content *name_content(const char *name, size_t meaning)
{
    rush_content *x = rush_content_bytes(RUSH_CONTENT_NAME, name, strlen(name));
    if (x) x->room = meaning;
    return x;
}

static void *make_global(void *self, const char *module, const char *name)
{
    rush_reader *r = self;
    char full[8200];
    snprintf(full, sizeof full, "%s.%s", module, name);
    for (size_t i = 0; i < RUSH_COUNT(names); i++)
        if (!strcmp(names[i].name, full)) return name_content(full, (size_t)names[i].meaning);
    if (!strcmp(module, "torch")) {
        int dtype = rush_dtype_from_name(name);
        if (dtype >= 0) {
            rush_content *x = rush_content_new(RUSH_CONTENT_DTYPE);
            if (x) x->i = dtype;
            return x;
        }
    }
    if (!strcmp(module, "torch") || !strcmp(module, "torch.cuda"))
        for (int d = 0; d < RUSH_DTYPES; d++) {
            size_t n = strlen(rush_dtypes[d].word);
            if (rush_dtypes[d].storage && !strncmp(name, rush_dtypes[d].word, n) && !strcmp(name + n, "Storage")) return name_content(full, STORAGE + (size_t)d);
        }
    if (r->script && !strncmp(module, "__torch__", 9)) return name_content(full, OBJECT);
    if (!strncmp(module, "torch.nn.modules.", 17))
        rush_fail(RUSH_VALUE_ERROR, "Unsupported global: '%s' holds a pickled module (%.200s). Save its state_dict() instead", r->path, full);
    else
        rush_fail(RUSH_VALUE_ERROR, "Unsupported global: GLOBAL %.200s in '%s' is not among the names that a checkpoint may hold", full, r->path);
    return NULL;
}

static void *make_global_of(void *self, void *module, void *name)
{
    rush_content *m = module, *n = name;
    if (m->kind != RUSH_CONTENT_TEXT || n->kind != RUSH_CONTENT_TEXT || m->n > 4096 || n->n > 4096) return damaged(self, "STACK_GLOBAL wants two texts");
    return make_global(self, m->s, n->s);
}

/* ---- storages ---- */

static size_t slot_of(const rush_reader *r, const char *key)
{
    size_t at = rush_hash_name(key) & (r->nslots - 1);
    while (r->slots[at] && strcmp(r->loaded[r->slots[at] - 1].key, key)) at = (at + 1) & (r->nslots - 1);
    return at;
}

rush_loaded *rush_reader_storage(rush_reader *r, const char *key)
{
    uint32_t number = r->nslots ? r->slots[slot_of(r, key)] : 0;
    return number ? r->loaded + number - 1 : NULL;
}

static int remember(rush_reader *r, const char *key, rush_tensor *whole)
{
    if (2 * (r->n + 1) > r->nslots) {
        size_t nslots = RUSH_MAX(r->nslots * 2, (size_t)64);
        uint32_t *slots = rush_scope_alloc(nslots * sizeof *slots);
        rush_loaded *loaded = rush_scope_alloc(nslots * sizeof *loaded);
        if (!slots || !loaded) return -1;
        memset(slots, 0, nslots * sizeof *slots);
        if (r->n) memcpy(loaded, r->loaded, r->n * sizeof *loaded);
        r->slots = slots, r->nslots = nslots, r->loaded = loaded;
        for (size_t i = 0; i < r->n; i++) slots[slot_of(r, loaded[i].key)] = (uint32_t)i + 1;
    }
    r->slots[slot_of(r, key)] = (uint32_t)r->n + 1;
    r->loaded[r->n++] = (rush_loaded){key, whole, false};
    return 0;
}

/* The bytes of an entry: read, or mapped. */
static rush_storage *read_entry(rush_reader *r, const char *key, rush_dtype d, uint64_t bytes)
{
    char name[256];
    snprintf(name, sizeof name, "%s/%.200s", r->folder, key);
    const rush_zip_entry *e = rush_zip_need(r->zip, name);
    if (!e) return NULL;
    if (e->size != bytes) {
        rush_fail(RUSH_VALUE_ERROR, "storage %s of '%s' is declared with %llu bytes, but the file holds %llu", name, r->path, (unsigned long long)bytes, (unsigned long long)e->size);
        return NULL;
    }
    if (r->map && bytes) {
        RUSH_CHECK_NULL(e->method == 0, RUSH_RUNTIME_ERROR, "entry %s of '%s' is compressed and cannot be mapped: load without mmap", name, r->path);
        int64_t at = rush_zip_offset(r->zip, e);
        return at < 0 ? NULL : rush_map_storage(r->map, (size_t)at, (size_t)bytes);
    }
    rush_storage *s = rush_zip_read_storage(r->zip, e);
    if (s && d == RUSH_BOOL) rush_clean_bools(s->data, (size_t)bytes);
    if (s && r->swap) rush_swap_bytes(s->data, d, (size_t)(bytes / rush_dtypes[d].size));
    return s;
}

static void *make_persistent(void *self, void *given)
{
    rush_reader *r = self;
    const rush_content *id = given;
    bool shape = id->kind == RUSH_CONTENT_TUPLE && id->n >= 5 && id->items[0]->kind == RUSH_CONTENT_TEXT && !strcmp(id->items[0]->s, "storage") &&
                 id->items[1]->kind == RUSH_CONTENT_NAME && id->items[2]->kind == RUSH_CONTENT_TEXT && id->items[3]->kind == RUSH_CONTENT_TEXT &&
                 id->items[4]->kind == RUSH_CONTENT_INT && id->items[4]->i >= 0;
    if (!shape || (id->items[1]->room < STORAGE && id->items[1]->room != UNTYPED)) return damaged(r, "a persistent id is no storage");
    const char *key = id->items[2]->s;
    rush_dtype d = id->items[1]->room == UNTYPED ? RUSH_U8 : (rush_dtype)(id->items[1]->room - STORAGE);
    if (rush_quantized_store(d) >= 0) d = (rush_dtype)rush_quantized_store(d); /* integers until their grid is known */
    int64_t numel = id->items[4]->i;
    uint64_t bytes;
    if (__builtin_mul_overflow((uint64_t)numel, (uint64_t)rush_dtypes[d].size, &bytes) || bytes > INT64_MAX) return damaged(r, "a storage is larger than memory can be");
    rush_loaded *known = rush_reader_storage(r, key);
    rush_content *x = rush_content_new(RUSH_CONTENT_TENSOR);
    if (!x) return NULL;
    if (known) {
        if (known->whole->dtype != d || known->whole->numel != numel) return damaged(r, "one storage is declared in two ways");
        x->t = known->whole;
    } else {
        rush_storage *s;
        if (!strcmp(id->items[3]->s, "meta")) {
            s = rush_storage_new((size_t)bytes, (rush_device){RUSH_META, -1});
        } else if (r->zip) {
            s = read_entry(r, key, d, bytes);
        } else {
            if (bytes > r->left) return damaged(r, "its storages are larger than the file");
            r->left -= bytes;
            s = rush_storage_new((size_t)bytes, (rush_device){RUSH_CPU, -1}); /* filled when the pickle has been read */
            if (s && bytes) memset(s->data, 0, (size_t)bytes);
        }
        x->t = s ? rush_tensor_over(s, d, 1, &numel, (int64_t[]){1}, 0) : NULL;
        rush_storage_drop(s);
        if (!x->t || remember(r, key, x->t)) return NULL;
    }
    if (id->n > 5 && id->items[5]->kind == RUSH_CONTENT_TUPLE) { /* a view of a storage: (key, offset, size) */
        const rush_content *view = id->items[5];
        if (view->n != 3 || view->items[1]->kind != RUSH_CONTENT_INT || view->items[2]->kind != RUSH_CONTENT_INT) return damaged(r, "a view of a storage has no place");
        int64_t from = view->items[1]->i, size = view->items[2]->i;
        if (from < 0 || size < 0 || from > numel || size > numel - from) return damaged(r, "a view of a storage lies outside of it");
        x->t = rush_tensor_alias(x->t, 1, &size, (int64_t[]){1}, from);
    }
    return x->t ? x : NULL;
}

/* ---- tensors ---- */

static bool whole_numbers(const rush_content *x, int64_t *to, int *n)
{
    if ((x->kind != RUSH_CONTENT_TUPLE && x->kind != RUSH_CONTENT_LIST) || x->n > RUSH_MAXDIM) return false;
    *n = (int)x->n;
    for (size_t i = 0; i < x->n; i++) {
        if (x->items[i]->kind != RUSH_CONTENT_INT || x->items[i]->i < 0) return false;
        to[i] = x->items[i]->i;
    }
    return true;
}

static bool is_true(const rush_content *dict, const char *key)
{
    const rush_content *x = rush_content_get(dict, key);
    return x && x->kind == RUSH_CONTENT_BOOL && x->i;
}

/* a: storage, offset, size, stride[, requires_grad, hooks[, dtype][, metadata]] */
static void *rebuild(rush_reader *r, const rush_content *args, int meaning)
{
    rush_content **a = args->items;
    int64_t size[RUSH_MAXDIM], stride[RUSH_MAXDIM];
    int ndim, nstride;
    size_t more = meaning == REBUILD_V3 ? 7 : 6;
    bool shape = args->n >= (meaning == REBUILD_V3 ? 7 : meaning == REBUILD_V2 ? 6 : 4) && a[0]->kind == RUSH_CONTENT_TENSOR && a[1]->kind == RUSH_CONTENT_INT && a[1]->i >= 0 &&
                 whole_numbers(a[2], size, &ndim) && whole_numbers(a[3], stride, &nstride) && ndim == nstride &&
                 (meaning != REBUILD_V3 || a[6]->kind == RUSH_CONTENT_DTYPE);
    if (!shape) return damaged(r, "a tensor has no possible storage, sizes and strides");
    rush_storage *s = a[0]->t->storage;
    rush_dtype d = meaning == REBUILD_V3 ? (rush_dtype)a[6]->i : (rush_dtype)a[0]->t->dtype;
    int64_t from = a[0]->t->offset, offset = a[1]->i, last = offset, room = a[0]->t->numel;
    if (meaning == REBUILD_V3) room = (int64_t)(s->nbytes / rush_dtypes[d].size);
    bool empty = false, fits = true;
    for (int i = 0; i < ndim; i++) empty |= size[i] == 0;
    for (int i = 0; i < ndim && !empty && fits; i++) {
        int64_t step;
        fits = !__builtin_mul_overflow(size[i] - 1, stride[i], &step) && !__builtin_add_overflow(last, step, &last);
    }
    if (!fits || (!empty && last >= room) || (empty && offset > room)) {
        char strides[256];
        snprintf(strides, sizeof strides, "%s", rush_shape_text(ndim, stride));
        rush_fail(RUSH_VALUE_ERROR, "a tensor of '%s' lies outside of its storage: size %s, strides %s, offset %lld, but the storage has %lld elements", r->path,
                  rush_shape_text(ndim, size), strides, (long long)offset, (long long)room);
        return NULL;
    }
    if (rush_numel_of(ndim, size) < 0) return NULL;
    rush_content *x = rush_content_new(RUSH_CONTENT_TENSOR);
    if (!x || !(x->t = rush_tensor_over(s, d, ndim, size, stride, from + offset))) return NULL;
    if (args->n > 4 && a[4]->kind == RUSH_CONTENT_BOOL && a[4]->i && !rush_requires_grad_set(x->t, true)) return NULL;
    if (args->n > more && a[more]->kind == RUSH_CONTENT_DICT) {
        if (is_true(a[more], "conj") && rush_dtypes[d].category == 3) x->t->flags |= RUSH_T_CONJ;
        if (is_true(a[more], "neg") && rush_dtypes[d].category >= 2) x->t->flags |= RUSH_T_NEG;
    }
    return x;
}

/* storage, offset, size, stride, (scheme, scale, zero point) or (scheme, scales, zero points, axis), requires_grad, hooks */
static void *rebuild_quantized(rush_reader *r, const rush_content *args)
{
    rush_content *x = rebuild(r, args, REBUILD);
    if (!x) return NULL;
    const rush_content *grid = args->n > 4 ? args->items[4] : NULL;
    rush_content **q = grid && grid->kind == RUSH_CONTENT_TUPLE ? grid->items : NULL;
    rush_tensor *ints = x->t;
    if (rush_quantized_of(ints->dtype) < 0 || !q || grid->n < 3 || q[0]->kind != RUSH_CONTENT_NAME) return damaged(r, "a quantized tensor has no grid");
    if (!strcmp(q[0]->s, "torch.per_tensor_affine")) {
        if (q[1]->kind != RUSH_CONTENT_FLOAT || q[2]->kind != RUSH_CONTENT_INT) return damaged(r, "a quantized tensor has no scale");
        x->t = rush_quantized_tensor(ints, q[1]->f, q[2]->i);
        return x->t ? x : NULL;
    }
    const bool floats = !strcmp(q[0]->s, "torch.per_channel_affine_float_qparams");
    if (grid->n < 4 || q[1]->kind != RUSH_CONTENT_TENSOR || q[2]->kind != RUSH_CONTENT_TENSOR || q[3]->kind != RUSH_CONTENT_INT || q[3]->i < 0 || q[3]->i >= ints->ndim)
        return damaged(r, "a quantized tensor has no scales");
    rush_tensor *scales = q[1]->t, *zeros = q[2]->t;
    const int64_t n = ints->size[q[3]->i];
    if (scales->ndim != 1 || zeros->ndim != 1 || scales->size[0] != n || zeros->size[0] != n || scales->dtype != (floats ? RUSH_F32 : RUSH_F64) || zeros->dtype != (floats ? RUSH_F32 : RUSH_I64))
        return damaged(r, "a quantized tensor has scales of another kind");
    x->t = rush_quantized_channels(ints, scales, zeros, (int)q[3]->i, floats ? RUSH_PER_CHANNEL_FLOAT : RUSH_PER_CHANNEL);
    return x->t ? x : NULL;
}

static void *rebuild_parameter(rush_reader *r, const rush_content *args)
{
    if (args->n < 1 || args->items[0]->kind != RUSH_CONTENT_TENSOR) return damaged(r, "a parameter without a tensor");
    rush_content *x = rush_content_tensor(rush_tensor_detach(args->items[0]->t));
    if (!x) return NULL;
    x->parameter = true;
    bool wants = args->n < 2 || args->items[1]->kind != RUSH_CONTENT_BOOL || args->items[1]->i;
    return !wants || rush_requires_grad_set(x->t, true) ? x : NULL;
}

/* dtype, size, stride, requires_grad */
static void *rebuild_meta(rush_reader *r, const rush_content *args)
{
    int64_t size[RUSH_MAXDIM], stride[RUSH_MAXDIM];
    int ndim, nstride;
    if (args->n < 3 || args->items[0]->kind != RUSH_CONTENT_DTYPE || !whole_numbers(args->items[1], size, &ndim) || !whole_numbers(args->items[2], stride, &nstride) || ndim != nstride)
        return damaged(r, "a tensor without memory has no possible sizes and strides");
    if (rush_numel_of(ndim, size) < 0) return NULL;
    return rush_content_tensor(rush_tensor_new_strided((rush_dtype)args->items[0]->i, (rush_device){RUSH_META, -1}, ndim, size, stride));
}

/* ---- calls ---- */

/* A short call can copy a long list, and a file can hold many: together they copy not much more than it is long. */
static bool affordable(rush_reader *r, size_t n)
{
    r->copied += n;
    return r->copied <= r->copies || damaged(r, "it copies more values than it has");
}

/* The bytes that stand behind text: U+0000 to U+00FF in UTF-8. */
static void *encode(rush_reader *r, const rush_content *args)
{
    if (args->n < 1 || args->items[0]->kind != RUSH_CONTENT_TEXT) return damaged(r, "it encodes what is no text");
    const rush_content *text = args->items[0];
    rush_content *x = affordable(r, text->n) ? rush_content_bytes(RUSH_CONTENT_BYTES, text->s, text->n) : NULL;
    if (!x) return NULL;
    char *to = (char *)x->s;
    size_t n = 0;
    for (size_t i = 0; i < text->n; i++) {
        unsigned char c = (unsigned char)text->s[i];
        if (c >= 0x80) {
            if ((c & 0xfc) != 0xc0 || i + 1 == text->n) return damaged(r, "a text that stands for bytes has other letters");
            c = (unsigned char)((c & 3) << 6 | (text->s[++i] & 0x3f));
        }
        to[n++] = (char)c;
    }
    to[x->n = n] = 0;
    return x;
}

static double real_of(const rush_content *x)
{
    return x->kind == RUSH_CONTENT_FLOAT ? x->f : x->kind == RUSH_CONTENT_INT ? (double)x->i : 0;
}

static rush_content *copy_of(rush_reader *r, const rush_content *from, int kind)
{
    rush_content *x = affordable(r, from->n) ? rush_content_new(kind) : NULL;
    return x && !rush_content_add(x, from->items, from->n) ? x : NULL;
}

static void *make_dict_of(rush_reader *r, const rush_content *args)
{
    if (!args->n) return rush_content_dict();
    const rush_content *from = args->items[0];
    if (from->kind == RUSH_CONTENT_DICT) return copy_of(r, from, RUSH_CONTENT_DICT);
    if (from->kind != RUSH_CONTENT_LIST && from->kind != RUSH_CONTENT_TUPLE) return damaged(r, "a dictionary is made of what is no list of pairs");
    rush_content *x = affordable(r, from->n) ? rush_content_dict() : NULL;
    for (size_t i = 0; x && i < from->n; i++) {
        const rush_content *pair = from->items[i];
        if ((pair->kind != RUSH_CONTENT_LIST && pair->kind != RUSH_CONTENT_TUPLE) || pair->n != 2) return damaged(r, "a dictionary is made of what is no list of pairs");
        if (rush_content_add(x, pair->items, 2)) return NULL;
    }
    return x;
}

static void *make_call(void *self, void *callable, void *given)
{
    rush_reader *r = self;
    const rush_content *f = callable, *args = given;
    if (args->kind != RUSH_CONTENT_TUPLE) return damaged(r, "the arguments of a call are no tuple");
    const rush_content *first = args->n ? args->items[0] : NULL;
    bool listed = first && first->kind >= RUSH_CONTENT_LIST && first->kind <= RUSH_CONTENT_SET;
    rush_content *x;
    switch (f->kind == RUSH_CONTENT_NAME ? (int)f->room : -1) {
    case REBUILD: case REBUILD_V2: case REBUILD_V3: return rebuild(r, args, (int)f->room);
    case REBUILD_QUANTIZED: return rebuild_quantized(r, args);
    case REBUILD_PARAMETER: case PARAMETER: return rebuild_parameter(r, args);
    case REBUILD_META: return rebuild_meta(r, args);
    case REBUILD_FROM_TYPE: /* function, class, arguments, attributes: a subclass is its tensor here */
        if (args->n < 3 || (first->kind == RUSH_CONTENT_NAME && first->room == REBUILD_FROM_TYPE)) break;
        return make_call(r, args->items[0], args->items[2]);
    case UNSUPPORTED:
        rush_fail(RUSH_NOT_IMPLEMENTED, "'%s' holds a tensor that is not read from C: %.200s", r->path, f->s);
        return NULL;
    case DEVICE:
        if (!first || first->kind != RUSH_CONTENT_TEXT) break;
        return rush_content_bytes(RUSH_CONTENT_NAME, first->s, first->n);
    case LAYOUT:
        if (!first || first->kind != RUSH_CONTENT_TEXT) break;
        return rush_content_bytes(RUSH_CONTENT_NAME, first->s, first->n);
    case SIZE: return !first ? rush_content_tuple() : listed ? copy_of(r, first, RUSH_CONTENT_TUPLE) : damaged(r, "a size is made of what is no list");
    case SET: return !first ? rush_content_new(RUSH_CONTENT_SET) : listed ? copy_of(r, first, RUSH_CONTENT_SET) : damaged(r, "a set is made of what is no list");
    case AS_LIST: return listed ? copy_of(r, first, RUSH_CONTENT_LIST) : damaged(r, "a list is made of what is no list");
    case TAGGED: if (!first) break; return (void *)first;
    case DICT: case COUNTER: return make_dict_of(r, args);
    case COMPLEX:
        x = rush_content_new(RUSH_CONTENT_COMPLEX);
        if (x && first) x->c[0] = real_of(first);
        if (x && args->n > 1) x->c[1] = real_of(args->items[1]);
        return x;
    case BYTEARRAY:
        if (!first) return rush_content_bytes(RUSH_CONTENT_BYTES, "", 0);
        if (first->kind == RUSH_CONTENT_BYTES) return (void *)first;
        return first->kind == RUSH_CONTENT_TEXT ? encode(r, args) : damaged(r, "a bytearray is made of what is no bytes");
    case ENCODE: return encode(r, args);
    default: break;
    }
    return damaged(r, "it calls what cannot be called");
}

static void *make_object(void *self, void *type, void *args, void *keywords)
{
    rush_reader *r = self;
    const rush_content *c = type;
    if (c->kind == RUSH_CONTENT_NAME && c->room == OBJECT) {
        rush_content *x = rush_content_dict();
        if (x) x->type = c->s;
        return x;
    }
    if (c->kind == RUSH_CONTENT_NAME && (c->room == PARAMETER || c->room == DICT || c->room == COUNTER || c->room == SET || c->room == SIZE || c->room == COMPLEX))
        return make_call(r, type, args);
    return damaged(r, "it makes an object of what is no class that it may");
}

static int build(void *self, void *given, void *state)
{
    rush_content *x = given;
    const rush_content *s = state;
    if (x->kind == RUSH_CONTENT_DICT && x->type && rush_class_path_end(x->type)) /* of a registered class: any state */
        return rush_content_add(x, (rush_content *[]){rush_content_none(), state}, 2);
    if (x->kind == RUSH_CONTENT_DICT && x->type) return s->kind == RUSH_CONTENT_DICT ? rush_content_add(x, s->items, s->n) : (damaged(self, "the state of an object is no dictionary"), -1);
    if (x->kind == RUSH_CONTENT_DICT || x->kind == RUSH_CONTENT_TENSOR) return 0; /* attributes, as _metadata, are Python's */
    return damaged(self, "it gives a state to what has none"), -1;
}

static const rush_pickle_maker maker = {
    .keep = nothing, .drop = nothing, .none = make_none, .boolean = make_bool, .integer = make_int, .big = make_big, .real = make_float, .text = make_text,
    .bytes = make_bytes, .tuple = make_tuple, .list = make_list, .dict = make_dict, .set = make_set, .append = append, .set_items = set_items,
    .add_items = add_items, .global = make_global, .global_of = make_global_of, .call = make_call, .make = make_object, .build = build,
    .persistent = make_persistent,
};

rush_content *rush_reader_pickle(rush_reader *r, const void *p, size_t n, size_t *used)
{
    r->copied = 0;
    r->copies = 16 * (uint64_t)n + 4096;
    return rush_unpickle(&maker, r, p, n, used, r->path);
}

/* ---- the archive ---- */

/* "version" and "byteorder". */
static int read_header(rush_reader *r)
{
    const rush_zip_entry *e = rush_zip_find_below(r->zip, "archive_format");
    RUSH_CHECK(!e, RUSH_NOT_IMPLEMENTED, "'%s' is an exported program (.pt2), not a checkpoint", r->path);
    if (!(e = rush_zip_find_below(r->zip, "version")) && !(e = rush_zip_need(r->zip, ".data/version"))) return -1;
    char *text = e->size < 32 ? rush_zip_read_all(r->zip, e) : NULL;
    if (!text) return rush_failed() ? -1 : (damaged(r, "its version is no number"), -1);
    char *end;
    long version = strtol(text, &end, 10);
    bool fine = end > text && version >= 1 && version <= 10;
    if (!fine) rush_fail(RUSH_RUNTIME_ERROR, "'%s' has version '%.*s' of the format, but 1 to 10 are supported", r->path, (int)strcspn(text, "\n"), text);
    rush_free(text);
    if (fine && (e = rush_zip_find_below(r->zip, "byteorder"))) {
        text = e->size < 32 ? rush_zip_read_all(r->zip, e) : NULL;
        bool big = text && !strncmp(text, "big", 3), little = text && !strncmp(text, "little", 6);
        if (!big && !little && !rush_failed()) damaged(r, "its byte order is neither big nor little");
        fine = big || little;
        r->swap = big;
        rush_free(text);
    }
    return fine ? 0 : -1;
}

static rush_content *read_zip(rush_reader *r)
{
    if (read_header(r)) return NULL;
    r->script = rush_zip_find_below(r->zip, "constants.pkl") != NULL;
    char name[64];
    snprintf(name, sizeof name, "%.50s.pkl", r->folder);
    const rush_zip_entry *e = rush_zip_need(r->zip, name);
    if (!e) return NULL;
    if (r->options.mmap) {
        RUSH_CHECK_NULL(!r->swap, RUSH_RUNTIME_ERROR, "'%s' has the other byte order and cannot be mapped: load without mmap", r->path);
        if (!(r->map = rush_map_fd(r->zip->source.fd, (size_t)r->zip->source.size, false))) return NULL;
    }
    char *pickle = rush_zip_read_all(r->zip, e);
    rush_content *x = pickle ? rush_reader_pickle(r, pickle, (size_t)e->size, NULL) : NULL;
    rush_free(pickle);
    return x;
}

rush_content *rush_load_part(const char *path, const char *part, rush_load_options options)
{
    RUSH_CHECK_NULL(path, RUSH_TYPE_ERROR, "a path is missing (NULL)");
    if (rush_failed()) return NULL;
    rush_reader r = {.path = path, .options = options, .folder = part};
    rush_source source;
    char head[4] = {0};
    if (rush_source_open(&source, path)) return NULL;
    rush_content *x = NULL;
    if (source.size < 4 || rush_source_read(&source, 0, head, 4)) {
        damaged(&r, "it is too short");
        rush_source_close(&source);
    } else if (!memcmp(head, "PK\3\4", 4)) {
        r.zip = rush_zip_open(source);
        if (r.zip) r.zip->check = !options.unchecked;
        x = r.zip ? read_zip(&r) : NULL;
        rush_zip_close(r.zip);
    } else {
        const char *kind = rush_source_kind(&source);
        if (kind) rush_fail(RUSH_VALUE_ERROR, "'%s' is %s, not a checkpoint of PyTorch", path, kind);
        else if (options.mmap) rush_fail(RUSH_RUNTIME_ERROR, "'%s' is of the format before zip, which cannot be mapped", path);
        else x = rush_legacy_load(&r, &source);
        rush_source_close(&source);
    }
    rush_unmap(r.map);
    return x;
}

const rush_content *rush_load_with(const char *path, rush_load_options options) { return rush_load_part(path, "data", options); }

rush_state rush_load_state(const char *path)
{
    if (!(path)) return rush_fail(RUSH_TYPE_ERROR, "a path is missing (NULL)"), (rush_state){-1, NULL, NULL};
    const rush_content *x = rush_load(path);
    return x ? rush_content_tensors(x) : (rush_state){.n = -1};
}
