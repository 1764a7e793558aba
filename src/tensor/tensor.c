/* tensor.c - tensors: header and shape in one block, views, geometry, what the public header reads of them.
 *
 * Whatever is returned here is parked in the thread's scope (scope.c); nothing here knows operations.
 */
#include "base/buried.h"
#include "tensor/backend.h"
#include "tensor/quantized.h"
#include "tensor/sparse.h"
#include <math.h>

void (*rush_autograd_free)(rush_autograd *);
void (*rush_parts_free)(rush_sparse *);
void (*rush_qparams_free)(rush_qparams *);
bool (*rush_python_free)(rush_tensor *);

/* ---- making and ending ---- */

static bool all_contiguous(const rush_tensor *t)
{
    int64_t want = 1;
    for (int d = t->ndim - 1; d >= 0; --d) {
        if (t->size[d] == 1) continue;
        if (t->stride[d] != want) return false;
        want *= t->size[d];
    }
    return true;
}

static bool dense(const rush_tensor *t)
{
    int order[RUSH_MAXDIM], n = 0;
    for (int d = 0; d < t->ndim; ++d)
        if (t->size[d] != 1) order[n++] = d;
    for (int i = 1; i < n; ++i)
        for (int j = i; j > 0 && t->stride[order[j]] < t->stride[order[j - 1]]; --j) {
            int swap = order[j];
            order[j] = order[j - 1];
            order[j - 1] = swap;
        }
    int64_t want = 1;
    for (int i = 0; i < n; ++i) {
        if (t->stride[order[i]] != want) return false;
        want *= t->size[order[i]];
    }
    return true;
}

static bool channels_last(const rush_tensor *t)
{
    if (t->ndim != 4 && t->ndim != 5) return false;
    int64_t want[RUSH_MAXDIM];
    rush_strides_for(t->ndim == 4 ? RUSH_CHANNELS_LAST : RUSH_CHANNELS_LAST_3D, t->ndim, t->size, want);
    for (int d = 0; d < t->ndim; ++d)
        if (t->size[d] != 1 && t->stride[d] != want[d]) return false;
    return true;
}

RUSH_HOT void rush_tensor_refresh(rush_tensor *t)
{
    int64_t numel = 1;
    for (int d = 0; d < t->ndim; ++d) numel *= t->size[d];
    t->numel = numel;
    t->flags &= ~(RUSH_T_CONTIGUOUS | RUSH_T_CHANNELS_LAST | RUSH_T_DENSE);
    if (t->layout % RUSH_QUANTIZED) return;
    if (numel == 0 || all_contiguous(t)) t->flags |= RUSH_T_CONTIGUOUS | RUSH_T_DENSE;
    else if (dense(t)) t->flags |= RUSH_T_DENSE;
    if (t->ndim >= 4 && numel && channels_last(t)) t->flags |= RUSH_T_CHANNELS_LAST;
}

RUSH_HOT rush_tensor *rush_tensor_header(rush_dtype dtype, rush_device device, int ndim)
{
    RUSH_CHECK_NULL((unsigned)dtype < RUSH_DTYPES && ndim >= 0, RUSH_TYPE_ERROR, "a tensor of %d dimensions and dtype number %d", ndim, (int)dtype);
    RUSH_CHECK_NULL(dtype < RUSH_QINT8, RUSH_NOT_IMPLEMENTED, "a tensor of %s needs a scale: see quantize_per_tensor", rush_dtype_name(dtype));
    RUSH_CHECK_NULL(ndim <= RUSH_MAXDIM, RUSH_NOT_IMPLEMENTED, "tensors have at most %d dimensions, not %d", RUSH_MAXDIM, ndim);
    rush_tensor *t = rush_small_alloc(sizeof *t);
    if (!t) return NULL;
    memset(t, 0, offsetof(rush_tensor, dims));
    atomic_init(&t->refs, 1);
    t->dtype = dtype;
    t->device = RUSH_LIKELY(device.type <= RUSH_META) ? device : rush_device_resolve(device);
    t->ndim = ndim;
    t->size = t->dims;
    if (RUSH_UNLIKELY(rush_now.mode & RUSH_MODE_INFERENCE)) t->flags = RUSH_T_INFERENCE;
    if (ndim > RUSH_INLINE_DIMS) {
        t->size = rush_malloc(sizeof *t->size * 2 * ndim);
        if (!t->size) {
            rush_small_free(t, sizeof *t);
            return NULL;
        }
    }
    t->stride = t->size + (ndim > RUSH_INLINE_DIMS ? ndim : RUSH_INLINE_DIMS);
    return t;
}

static void drop_counter(rush_counter *c)
{
    if (c && atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) == 1) rush_free(c);
}

int rush_version_own(rush_tensor *t, unsigned from)
{
    rush_counter *c = rush_malloc(sizeof *c);
    if (!c) return -1;
    atomic_init(&c->refs, 1);
    atomic_init(&c->n, from);
    drop_counter(t->version);
    t->version = c;
    return 0;
}

void rush_version_share(rush_tensor *t, const rush_tensor *with)
{
    rush_counter *c = with->version;
    if (!c || t->version == c) return;
    atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
    drop_counter(t->version);
    t->version = c;
}

static void end(rush_tensor *t)
{
    if (t->py && rush_python_free && rush_python_free(t)) return;
    if (t->ag) rush_autograd_free(t->ag);
    if (rush_is_quantized(t)) rush_qparams_free(t->q);
    else if (t->parts) rush_parts_free(t->parts);
    rush_storage_drop(t->storage);
    drop_counter(t->version);
    rush_tensor *base = t->base;
    if (t->size != t->dims) rush_free(t->size);
    t->ndim = RUSH_T_ENDED; /* whoever still has it is told so, until the memory is another tensor's */
#if defined(__SANITIZE_ADDRESS__)
    rush_bury(t, sizeof *t, offsetof(rush_tensor, storage));
#else
    rush_small_free(t, sizeof *t);
#endif
    rush_drop(base);
}

bool rush_tensor_given(const rush_tensor *t)
{
    if (RUSH_LIKELY(t && t->ndim <= RUSH_MAXDIM)) return true;
    rush_fail(RUSH_TYPE_ERROR, t ? "a tensor is used after its scope was closed" : "a tensor was expected, but there is none (NULL)");
    return false;
}

RUSH_HOT rush_tensor *rush_keep(rush_tensor *t)
{
    if (!t || RUSH_UNLIKELY(t->ndim == RUSH_T_ENDED && !rush_tensor_given(t))) return NULL;
    atomic_fetch_add_explicit(&t->refs, 1, memory_order_relaxed);
    return t;
}

RUSH_HOT void rush_drop(rush_tensor *t)
{
    if (!t || RUSH_UNLIKELY(t->ndim == RUSH_T_ENDED && !rush_tensor_given(t))) return;
    if (rush_refs_drop(&t->refs)) end(t);
}

RUSH_HOT rush_tensor *rush_tensor_new(rush_dtype dtype, rush_device device, int ndim, const int64_t *size)
{
    int64_t numel = rush_numel_of(ndim, size);
    if (numel < 0) return NULL;
    rush_tensor *t = rush_tensor_header(dtype, device, ndim);
    if (!t) return NULL;
    int64_t stride = 1;
    for (int d = ndim - 1; d >= 0; --d) {
        t->size[d] = size[d];
        t->stride[d] = stride;
        stride *= RUSH_MAX(size[d], 1);
    }
    t->numel = numel;
    t->flags |= RUSH_T_CONTIGUOUS | RUSH_T_DENSE;
    if (ndim >= 4 && numel && channels_last(t)) t->flags |= RUSH_T_CHANNELS_LAST;
    t->storage = rush_storage_new((size_t)numel * rush_dtypes[dtype].size, device);
    if (!t->storage) return rush_drop(t), NULL;
    return rush_park(t);
}

rush_tensor *rush_tensor_new_strided(rush_dtype dtype, rush_device device, int ndim, const int64_t *size, const int64_t *stride)
{
    int64_t numel = rush_numel_of(ndim, size), last = 0;
    if (numel < 0) return NULL;
    for (int d = 0; d < ndim; ++d) {
        int64_t span;
        RUSH_CHECK_NULL(stride[d] >= 0, RUSH_RUNTIME_ERROR, "strides must not be negative, got %s", rush_shape_text(ndim, stride));
        RUSH_CHECK_NULL(numel == 0 || (!__builtin_mul_overflow(size[d] - 1, stride[d], &span) && !__builtin_add_overflow(last, span, &last)),
                        RUSH_RUNTIME_ERROR, "a tensor of sizes %s and strides %s is too large", rush_shape_text(ndim, size), rush_shape_text(ndim, stride));
    }
    RUSH_CHECK_NULL(last < INT64_MAX / 16, RUSH_RUNTIME_ERROR, "a tensor of sizes %s is too large", rush_shape_text(ndim, size));
    rush_tensor *t = rush_tensor_header(dtype, device, ndim);
    if (!t) return NULL;
    if (ndim) {
        memcpy(t->size, size, sizeof *size * ndim);
        memcpy(t->stride, stride, sizeof *stride * ndim);
    }
    rush_tensor_refresh(t);
    t->storage = rush_storage_new(numel ? (size_t)(last + 1) * rush_dtypes[dtype].size : 0, device);
    if (!t->storage) return rush_drop(t), NULL;
    return rush_park(t);
}

rush_tensor *rush_tensor_new_like(const rush_tensor *like, rush_dtype dtype, rush_device device, int f)
{
    if (f == RUSH_PRESERVE) {
        if (rush_is_plain(like)) return rush_tensor_new(dtype, device, like->ndim, like->size);
        int64_t stride[RUSH_MAXDIM];
        if (like->flags & (RUSH_T_DENSE | RUSH_T_CONTIGUOUS)) return rush_tensor_new_strided(dtype, device, like->ndim, like->size, like->stride);
        /* Neither: dense strides in the order of like's, as PyTorch infers them. */
        int order[RUSH_MAXDIM];
        for (int i = 0; i < like->ndim; ++i) order[i] = like->ndim - 1 - i;
        for (int i = 1; i < like->ndim; ++i)
            for (int at = i, j = i - 1; j >= 0; --j) { /* a stride of zero says nothing: the next one may */
                int a = order[j], b = order[at];
                if (like->stride[a] == 0 || like->stride[b] == 0) continue;
                if (like->stride[a] < like->stride[b] || (like->stride[a] == like->stride[b] && like->size[a] <= like->size[b])) break;
                order[j] = b;
                order[at] = a;
                at = j;
            }
        int64_t next = 1;
        for (int i = 0; i < like->ndim; ++i) {
            stride[order[i]] = next;
            next *= RUSH_MAX(like->size[order[i]], 1);
        }
        return rush_tensor_new_strided(dtype, device, like->ndim, like->size, stride);
    }
    if (f == RUSH_CONTIGUOUS) return rush_tensor_new(dtype, device, like->ndim, like->size);
    int want = f == RUSH_CHANNELS_LAST ? 4 : 5;
    RUSH_CHECK_NULL(like->ndim == want, RUSH_RUNTIME_ERROR, "required rank %d tensor to use %s format", want,
                    want == 4 ? "channels_last" : "channels_last_3d");
    int64_t stride[RUSH_MAXDIM];
    rush_strides_for(f, like->ndim, like->size, stride);
    return rush_tensor_new_strided(dtype, device, like->ndim, like->size, stride);
}

RUSH_HOT static rush_tensor *shared(const rush_tensor *of, rush_dtype dtype, int ndim, const int64_t *size, const int64_t *stride, int64_t offset)
{
    rush_tensor *t = rush_tensor_header(dtype, of->device, ndim);
    if (!t) return NULL;
    if (ndim) {
        memcpy(t->size, size, sizeof *size * ndim);
        memcpy(t->stride, stride, sizeof *stride * ndim);
    }
    t->offset = offset;
    t->flags = of->flags & (RUSH_T_CONJ | RUSH_T_NEG | RUSH_T_INFERENCE | RUSH_T_ZERO);
    rush_tensor_refresh(t);
    rush_storage_keep(of->storage);
    t->storage = of->storage;
    if ((t->version = of->version)) atomic_fetch_add_explicit(&t->version->refs, 1, memory_order_relaxed);
    return rush_park(t);
}

RUSH_HOT rush_tensor *rush_tensor_alias(const rush_tensor *of, int ndim, const int64_t *size, const int64_t *stride, int64_t offset)
{
    RUSH_CHECK_NULL(of->layout == RUSH_STRIDED, RUSH_NOT_IMPLEMENTED, "tensors of layout %s have no storage that a view could show", rush_layout_word(of->layout));
    if (rush_numel_of(ndim, size) < 0) return NULL;
    RUSH_CHECK_NULL(offset <= INT64_MAX / 16, RUSH_RUNTIME_ERROR, "the storage offset %lld is out of bounds", (long long)offset);
    for (int d = 0; d < ndim; ++d) /* so that steps in bytes are numbers, too */
        RUSH_CHECK_NULL(stride[d] <= INT64_MAX / 16 && stride[d] >= -(INT64_MAX / 16), RUSH_RUNTIME_ERROR, "the stride %lld is out of bounds", (long long)stride[d]);
    return shared(of, (rush_dtype)of->dtype, ndim, size, stride, offset);
}

rush_tensor *rush_tensor_retyped(const rush_tensor *of, rush_dtype dtype)
{
    return shared(of, dtype, of->ndim, of->size, of->stride, of->offset);
}

RUSH_HOT rush_tensor *rush_tensor_shape_only(const rush_tensor *of)
{
    rush_tensor *t = rush_tensor_header(of->dtype, of->device, of->ndim);
    if (!t) return NULL;
    memcpy(t->size, of->size, of->ndim <= RUSH_INLINE_DIMS ? sizeof t->dims : sizeof *t->size * 2 * of->ndim); /* with the strides */
    t->flags = of->flags & (RUSH_T_CONTIGUOUS | RUSH_T_CHANNELS_LAST | RUSH_T_DENSE | RUSH_T_WRAPPED);
    t->offset = of->offset;
    t->numel = of->numel;
    t->layout = of->layout;
    return rush_park(t);
}

/* Up to the last element, whatever lies before the first; sizes and strides of wrappers may be anything. */
static size_t bytes_spanned(const rush_tensor *t)
{
    size_t last = (size_t)t->offset;
    for (int d = 0; d < t->ndim; ++d) last += (size_t)(t->size[d] - 1) * (size_t)t->stride[d];
    return t->numel ? (last + 1) * rush_dtypes[t->dtype].size : 0;
}

rush_storage *rush_storage_nowhere(rush_tensor *elsewhere)
{
    if (!elsewhere->storage && (elsewhere->storage = rush_storage_over(NULL, bytes_spanned(elsewhere), NULL, NULL))) {
        elsewhere->storage->device = elsewhere->device;
        elsewhere->storage->nowhere = true;
    }
    return elsewhere->storage;
}

rush_tensor *rush_tensor_closed(rush_tensor *of)
{
    if (of->layout != RUSH_STRIDED || of->device.type != RUSH_CPU || of->storage) return of;
    rush_tensor *t = rush_tensor_shape_only(of);
    if (t) t->storage = rush_storage_closed(bytes_spanned(of));
    return t && t->storage ? t : NULL;
}

rush_tensor *rush_tensor_elsewhere(rush_dtype dtype, rush_device device, int ndim, const int64_t *size, const int64_t *stride, int64_t offset)
{
    if (rush_numel_of(ndim, size) < 0) return NULL;
    rush_tensor *t = rush_tensor_header(dtype, device, ndim);
    if (!t) return NULL;
    memcpy(t->size, size, sizeof *size * ndim);
    memcpy(t->stride, stride, sizeof *stride * ndim);
    t->offset = offset;
    rush_tensor_refresh(t);
    t->layout = RUSH_ELSEWHERE;
    return rush_version_own(t, 0) ? (rush_drop(t), NULL) : rush_park(t);
}

rush_tensor *rush_tensor_detach(const rush_tensor *of)
{
    if (of->layout == RUSH_STRIDED) return rush_tensor_alias(of, of->ndim, of->size, of->stride, of->offset);
    return rush_is_quantized(of) ? rush_quantized_like(rush_quantized_ints(of), of) : rush_sparse_alias(of);
}

rush_tensor *rush_tensor_of_number_typed(rush_value v, rush_dtype dtype)
{
    rush_tensor *t = rush_tensor_new(dtype, (rush_device){RUSH_CPU, -1}, 0, NULL);
    if (!t) return NULL;
    switch (v.kind) {
    case RUSH_V_FLOAT: rush_convert(rush_ptr(t), dtype, 0, &v.f, RUSH_F64, 0, 1); break;
    case RUSH_V_COMPLEX: rush_convert(rush_ptr(t), dtype, 0, v.c, RUSH_C128, 0, 1); break;
    default: rush_convert(rush_ptr(t), dtype, 0, &v.i, RUSH_I64, 0, 1);
    }
    return t;
}

rush_tensor *rush_tensor_of_number(rush_value v, bool wrapped)
{
    rush_dtype dtype = v.kind == RUSH_V_BOOL ? RUSH_BOOL : v.kind == RUSH_V_INT ? RUSH_I64
                     : v.kind == RUSH_V_COMPLEX ? RUSH_C128 : RUSH_F64;
    if (!wrapped && dtype == RUSH_F64) dtype = rush_default_dtype();
    if (!wrapped && dtype == RUSH_C128) dtype = rush_dtype_complex(rush_default_dtype());
    rush_tensor *t = rush_tensor_of_number_typed(v, dtype);
    if (t && wrapped) t->flags |= RUSH_T_WRAPPED;
    return t;
}

/* ---- changing geometry ---- */

void rush_tensor_set_storage(rush_tensor *t, rush_storage *s, int64_t offset)
{
    rush_storage_keep(s);
    rush_storage_drop(t->storage);
    t->storage = s;
    t->offset = offset;
}

/* Grows s, as PyTorch does, until such a tensor lies within it. */
static int hold(rush_storage *s, rush_dtype dtype, int ndim, const int64_t *size, const int64_t *stride, int64_t offset)
{
    int64_t last = offset, numel = rush_numel_of(ndim, size);
    bool over = false;
    if (numel < 0) return -1;
    RUSH_CHECK(offset >= 0, RUSH_RUNTIME_ERROR, "Tensor: invalid storage offset %lld", (long long)offset);
    for (int d = 0; d < ndim; ++d) {
        int64_t reach;
        over |= stride[d] < 0 || __builtin_mul_overflow(size[d] - 1, stride[d], &reach) || __builtin_add_overflow(last, reach, &last);
    }
    over |= last >= INT64_MAX / 16;
    RUSH_CHECK(!over || !numel, RUSH_RUNTIME_ERROR, "Storage size calculation overflowed with sizes=%s and strides=%s", rush_shape_text(ndim, size), rush_shape_text(ndim, stride));
    size_t need = numel ? (size_t)(last + 1) * rush_dtypes[dtype].size : 0;
    return need > s->nbytes ? rush_storage_resize(s, need) : 0;
}

int rush_tensor_show(rush_tensor *t, rush_storage *s, int ndim, const int64_t *size, const int64_t *stride, int64_t offset)
{
    RUSH_CHECK(!s || rush_same_device(t->device, s->device), RUSH_RUNTIME_ERROR,
               "Attempted to set the storage of a tensor on device \"%s\" to a storage on different device \"%s\".  This is no longer allowed; the devices must match.",
               rush_device_text(t->device), rush_device_text(s->device));
    RUSH_CHECK(s || !rush_numel_of(ndim, size), RUSH_NOT_IMPLEMENTED, "this tensor has no storage that could be shown");
    if (s && hold(s, t->dtype, ndim, size, stride, offset)) return -1;
    rush_tensor_set_storage(t, s, offset);
    return rush_tensor_reshape_inplace(t, ndim, size, stride, offset);
}

rush_tensor *rush_tensor_over(rush_storage *s, rush_dtype dtype, int ndim, const int64_t *size, const int64_t *stride, int64_t offset)
{
    rush_tensor *t = rush_tensor_new(dtype, s->device, 1, (int64_t[]){0});
    if (!t) return NULL;
    rush_tensor_set_storage(t, s, 0);
    return rush_tensor_reshape_inplace(t, ndim, size, stride, offset) ? NULL : t;
}

int rush_tensor_reshape_inplace(rush_tensor *t, int ndim, const int64_t *size, const int64_t *stride, int64_t offset)
{
    RUSH_CHECK(ndim <= RUSH_MAXDIM, RUSH_NOT_IMPLEMENTED, "tensors have at most %d dimensions, not %d", RUSH_MAXDIM, ndim);
    int64_t *dims = t->dims;
    if (ndim > RUSH_INLINE_DIMS && !(dims = rush_malloc(sizeof *dims * 2 * ndim))) return -1;
    int64_t *strides = dims + (ndim > RUSH_INLINE_DIMS ? ndim : RUSH_INLINE_DIMS);
    int64_t kept[2 * RUSH_MAXDIM]; /* the arguments may be t's own arrays */
    if (ndim) {
        memcpy(kept, size, sizeof *size * ndim);
        memcpy(kept + ndim, stride, sizeof *stride * ndim);
    }
    if (t->size != t->dims) rush_free(t->size);
    t->size = dims;
    t->stride = strides;
    t->ndim = ndim;
    t->offset = offset;
    if (ndim) {
        memcpy(t->size, kept, sizeof *size * ndim);
        memcpy(t->stride, kept + ndim, sizeof *stride * ndim);
    }
    rush_tensor_refresh(t);
    return 0;
}

int rush_tensor_resize(rush_tensor *t, int ndim, const int64_t *size)
{
    int64_t numel = rush_numel_of(ndim, size), stride[RUSH_MAXDIM];
    if (numel < 0) return -1;
    if (t->ndim == ndim && (ndim == 0 || !memcmp(t->size, size, sizeof *size * ndim))) return 0;
    size_t need = (size_t)(numel + t->offset) * rush_dtypes[t->dtype].size;
    if (numel && (!t->storage || need > t->storage->nbytes)) {
        if (!t->storage && !(t->storage = rush_storage_new(0, t->device))) return -1;
        if (rush_storage_resize(t->storage, need)) return -1;
    }
    rush_strides_for(RUSH_CONTIGUOUS, ndim, size, stride);
    return rush_tensor_reshape_inplace(t, ndim, size, stride, t->offset);
}

/* ---- the public view of a tensor ---- */

int rush_ndim(const rush_tensor *t) { return rush_tensor_given(t) ? t->ndim : 0; }
int64_t rush_numel(const rush_tensor *t) { return rush_tensor_given(t) ? t->numel : 0; }
const int64_t *rush_sizes(const rush_tensor *t) { return rush_tensor_given(t) ? t->size : NULL; }
const int64_t *rush_strides(const rush_tensor *t) { return rush_tensor_given(t) ? t->stride : NULL; }
rush_dtype rush_dtype_of(const rush_tensor *t) { return rush_tensor_given(t) ? t->dtype : RUSH_F32; }
rush_device rush_device_of(const rush_tensor *t) { return rush_tensor_given(t) ? t->device : (rush_device){RUSH_CPU, -1}; }
void *rush_data(const rush_tensor *t) { return rush_tensor_given(t) && t->storage ? rush_ptr(t) : NULL; }
bool rush_is_contiguous(const rush_tensor *t) { return rush_tensor_given(t) && rush_contiguous(t); }
rush_layout rush_layout_of(const rush_tensor *t) { return rush_tensor_given(t) && t->layout < RUSH_LAYOUTS ? (rush_layout)t->layout : RUSH_STRIDED; }
int64_t rush_storage_offset(const rush_tensor *t) { return rush_tensor_given(t) ? t->offset : 0; }
unsigned rush_tensor_version(const rush_tensor *t) { return rush_tensor_given(t) ? rush_version_of(t) : 0; }

int64_t rush_size(const rush_tensor *t, int dim)
{
    if (!rush_tensor_given(t)) return -1;
    int d = rush_dim_wrap(dim, t->ndim);
    return d < 0 || t->ndim == 0 ? -1 : t->size[d];
}

int64_t rush_stride(const rush_tensor *t, int dim)
{
    if (!rush_tensor_given(t)) return -1;
    int d = rush_dim_wrap(dim, t->ndim);
    return d < 0 || t->ndim == 0 ? -1 : t->stride[d];
}

static int read_one(const rush_tensor *t, void *to, rush_dtype dtype)
{
    if (!rush_tensor_given(t)) return -1;
    RUSH_CHECK(t->numel == 1, RUSH_RUNTIME_ERROR, "a Tensor with %lld elements cannot be converted to Scalar", (long long)t->numel);
    RUSH_CHECK(!t->layout, RUSH_NOT_IMPLEMENTED, "the item of a tensor of layout %s: use to_dense() first", rush_layout_word(t->layout));
    RUSH_CHECK(rush_ptr(t), RUSH_NOT_IMPLEMENTED, "Tensor.item() cannot be called on %s tensors", t->device.type == RUSH_META ? "meta" : "empty");
    char room[16];
    const void *p = rush_first_element(t, room);
    if (!p) return -1;
    rush_convert(to, dtype, 0, p, t->dtype, 0, 1);
    return 0;
}

double rush_item(const rush_tensor *t)
{
    double c[2] = {NAN, 0};
    if (read_one(t, c, t && rush_dtype_is_complex(t->dtype) ? RUSH_C128 : RUSH_F64)) return NAN;
    return t->flags & RUSH_T_NEG ? -c[0] : c[0];
}

int64_t rush_item_int(const rush_tensor *t)
{
    int64_t i = 0;
    return read_one(t, &i, RUSH_I64) ? 0 : t->flags & RUSH_T_NEG ? -i : i;
}

rush_tensor *rush_from_data(const void *data, rush_dtype dtype, int ndim, const int64_t *size)
{
    if (rush_failed()) return NULL;
    RUSH_CHECK_NULL(size || ndim <= 0, RUSH_TYPE_ERROR, "a tensor of %d dimensions without sizes (NULL)", ndim);
    rush_tensor *t = rush_tensor_new(dtype, (rush_device){RUSH_CPU, -1}, ndim, size);
    RUSH_CHECK_NULL(!t || data || !t->numel, RUSH_TYPE_ERROR, "there is no memory to copy %lld elements from", (long long)t->numel);
    if (t && t->numel) memcpy(rush_ptr(t), data, (size_t)t->numel * rush_dtypes[dtype].size);
    return t;
}

rush_tensor *rush_from_blob(void *data, rush_dtype dtype, int ndim, const int64_t *size, const int64_t *stride,
                            void (*release)(void *arg), void *arg)
{
    RUSH_CHECK_NULL(size || ndim <= 0, RUSH_TYPE_ERROR, "a tensor of %d dimensions without sizes (NULL)", ndim);
    int64_t numel = rush_failed() ? -1 : rush_numel_of(ndim, size), last = 0, dense_stride[RUSH_MAXDIM];
    if (numel < 0) return NULL;
    RUSH_CHECK_NULL(data || !numel, RUSH_TYPE_ERROR, "there is no memory for a tensor of %lld elements", (long long)numel);
    RUSH_CHECK_NULL((unsigned)dtype < RUSH_DTYPES, RUSH_TYPE_ERROR, "there is no dtype %d", (int)dtype);
    if (!stride) rush_strides_for(RUSH_CONTIGUOUS, ndim, size, dense_stride);
    if (!stride) stride = dense_stride;
    for (int d = 0; d < ndim && numel; ++d) {
        RUSH_CHECK_NULL(stride[d] >= 0, RUSH_VALUE_ERROR, "strides must not be negative, got %s", rush_shape_text(ndim, stride));
        int64_t span;
        RUSH_CHECK_NULL(!__builtin_mul_overflow(size[d] - 1, stride[d], &span) && !__builtin_add_overflow(last, span, &last) && last < INT64_MAX / 32, RUSH_VALUE_ERROR,
                        "sizes %s and strides reach further than memory can be", rush_shape_text(ndim, size));
    }
    rush_tensor *t = rush_tensor_header(dtype, (rush_device){RUSH_CPU, -1}, ndim);
    if (!t) return NULL;
    if (ndim) {
        memcpy(t->size, size, sizeof *size * ndim);
        memcpy(t->stride, stride, sizeof *stride * ndim);
    }
    rush_tensor_refresh(t);
    t->storage = rush_storage_over(data, numel ? (size_t)(last + 1) * rush_dtypes[dtype].size : 0, release, arg);
    if (!t->storage) return rush_drop(t), NULL;
    return rush_park(t);
}
