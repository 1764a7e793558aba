/* shape.c - the algebra of sizes and strides: broadcasting, views, memory formats, overlap. */
#include "tensor/tensor.h"
#include <stdio.h>

const char *rush_shape_text(int ndim, const int64_t *size)
{
    char *text = rush_words();
    size_t room = RUSH_WORDS, at = 0;
    int d = 0;
    at += snprintf(text, room, "[");
    for (; d < ndim && at < room - 28; ++d) at += snprintf(text + at, room - at, d ? ", %lld" : "%lld", (long long)size[d]);
    snprintf(text + at, room - at, d < ndim ? ", ...]" : "]");
    return text;
}

RUSH_HOT int rush_dim_wrap(int64_t dim, int ndim)
{
    int n = RUSH_MAX(ndim, 1);
    RUSH_CHECK(dim >= -n && dim < n, RUSH_INDEX_ERROR,
               "Dimension out of range (expected to be in range of [%d, %d], but got %lld)", -n, n - 1, (long long)dim);
    return (int)(dim < 0 ? dim + n : dim);
}

RUSH_HOT int64_t rush_numel_of(int ndim, const int64_t *size)
{
    int64_t n = 1;
    RUSH_CHECK(ndim <= RUSH_MAXDIM, RUSH_NOT_IMPLEMENTED, "tensors have at most %d dimensions, not %d", RUSH_MAXDIM, ndim);
    for (int d = 0; d < ndim; ++d)
        RUSH_CHECK(size[d] >= 0, RUSH_RUNTIME_ERROR, "Trying to create tensor with negative dimension %lld: %s",
                   (long long)size[d], rush_shape_text(ndim, size));
    bool empty = false;
    for (int d = 0; d < ndim; ++d) { /* empty tensors have strides too */
        empty |= size[d] == 0;
        RUSH_CHECK(!__builtin_mul_overflow(n, RUSH_MAX(size[d], 1), &n), RUSH_RUNTIME_ERROR, "Storage size calculation overflowed with sizes=%s",
                   rush_shape_text(ndim, size));
    }
    RUSH_CHECK(n <= INT64_MAX / 16, RUSH_RUNTIME_ERROR, "Storage size calculation overflowed with sizes=%s", rush_shape_text(ndim, size)); /* in bytes */
    return empty ? 0 : n;
}

int64_t rush_size_times(int64_t a, int64_t b)
{
    int64_t n;
    RUSH_CHECK(a >= 0 && b >= 0 && !__builtin_mul_overflow(a, b, &n), RUSH_RUNTIME_ERROR, "%lld times %lld is not a size", (long long)a, (long long)b);
    return n;
}

bool rush_same_sizes(const rush_tensor *a, const rush_tensor *b)
{
    return a->ndim == b->ndim && rush_sizes_equal(a->ndim, a->size, b->size);
}

int rush_broadcast_sizes(int na, const int64_t *a, int nb, const int64_t *b, int *ndim, int64_t *size)
{
    int n = RUSH_MAX(na, nb);
    int64_t result[RUSH_MAXDIM];
    for (int i = 1; i <= n; ++i) {
        int64_t x = i <= na ? a[na - i] : 1, y = i <= nb ? b[nb - i] : 1;
        RUSH_CHECK(x == y || x == 1 || y == 1, RUSH_RUNTIME_ERROR,
                   "The size of tensor a (%lld) must match the size of tensor b (%lld) at non-singleton dimension %d; the shapes are %s and %s",
                   (long long)x, (long long)y, n - i, rush_shape_text(na, a), rush_shape_text(nb, b));
        result[n - i] = x == 1 ? y : x;
    }
    *ndim = n;
    if (n) memcpy(size, result, sizeof *size * n);
    return 0;
}

int rush_broadcast(int n, const rush_tensor *const *ts, int *ndim, int64_t *size)
{
    *ndim = 0;
    for (int i = 0; i < n; ++i)
        if (ts[i] && rush_broadcast_sizes(*ndim, size, ts[i]->ndim, ts[i]->size, ndim, size)) return -1;
    return 0;
}

/* Sizes may be any here, so products are unsigned: what becomes a tensor has passed rush_numel_of. */
void rush_strides_for(int f, int ndim, const int64_t *size, int64_t *stride)
{
    uint64_t next = 1;
    if ((f == RUSH_CHANNELS_LAST && ndim == 4) || (f == RUSH_CHANNELS_LAST_3D && ndim == 5)) {
        stride[1] = 1;
        next = (uint64_t)RUSH_MAX(size[1], 1);
        for (int d = ndim - 1; d >= 2; --d) {
            stride[d] = (int64_t)next;
            next *= (uint64_t)RUSH_MAX(size[d], 1);
        }
        stride[0] = (int64_t)next;
        return;
    }
    for (int d = ndim - 1; d >= 0; --d) {
        stride[d] = (int64_t)next;
        next *= (uint64_t)RUSH_MAX(size[d], 1);
    }
}

bool rush_is_plain(const rush_tensor *t)
{
    uint64_t next = 1; /* an empty tensor's other sizes may be of any size */
    if (!(t->flags & RUSH_T_CONTIGUOUS)) return false;
    for (int d = t->ndim - 1; d >= 0; --d) {
        if ((uint64_t)t->stride[d] != next) return false;
        next *= (uint64_t)RUSH_MAX(t->size[d], 1);
    }
    return true;
}

bool rush_contiguous_as(const rush_tensor *t, rush_memory_format f)
{
    if (f == RUSH_CONTIGUOUS) return rush_contiguous(t);
    if (f == RUSH_PRESERVE) return t->flags & RUSH_T_DENSE;
    if (t->ndim != (f == RUSH_CHANNELS_LAST ? 4 : 5)) return false;
    return t->numel == 0 || t->flags & RUSH_T_CHANNELS_LAST;
}

rush_memory_format rush_format_of(const rush_tensor *t)
{
    if ((t->ndim != 4 && t->ndim != 5) || !rush_in_memory(t) || t->stride[1] == 0) return RUSH_CONTIGUOUS;
    int64_t reached = 0; /* by the dimensions within: channels, then the last one, and on to the first */
    for (int k = 0; k < t->ndim; ++k) {
        int d = k == 0 ? 1 : k == t->ndim - 1 ? 0 : t->ndim - k;
        /* one channel of one pixel each is no less contiguous */
        if (t->size[d] == 0 || t->stride[d] < reached || (d == 0 && reached == t->stride[1])) return RUSH_CONTIGUOUS;
        reached = t->stride[d] * t->size[d];
    }
    return t->ndim == 4 ? RUSH_CHANNELS_LAST : RUSH_CHANNELS_LAST_3D;
}

bool rush_view_strides(const rush_tensor *t, int ndim, const int64_t *size, int64_t *stride)
{
    if (t->numel == 0) {
        if (ndim == t->ndim && (ndim == 0 || !memcmp(size, t->size, sizeof *size * ndim))) memcpy(stride, t->stride, sizeof *stride * ndim);
        else rush_strides_for(RUSH_CONTIGUOUS, ndim, size, stride);
        return true;
    }
    if (t->ndim == 0) {
        for (int d = 0; d < ndim; ++d) stride[d] = 1;
        return true;
    }
    /* Walk both shapes from the back, chunk by chunk of old dimensions that lie evenly in memory. */
    int view = ndim - 1;
    int64_t chunk_stride = t->stride[t->ndim - 1], old_numel = 1, new_numel = 1;
    for (int d = t->ndim - 1; d >= 0; --d) {
        old_numel *= t->size[d];
        bool ends = d == 0 || (t->size[d - 1] != 1 && t->stride[d - 1] != old_numel * chunk_stride);
        if (!ends) continue;
        while (view >= 0 && (new_numel < old_numel || size[view] == 1)) {
            stride[view] = new_numel * chunk_stride;
            new_numel *= size[view--];
        }
        if (new_numel != old_numel) return false;
        if (d > 0) {
            chunk_stride = t->stride[d - 1];
            old_numel = new_numel = 1;
        }
    }
    return view == -1;
}

int rush_infer_size(int64_t numel, int n, const int64_t *size, int64_t *out)
{
    int unknown = -1;
    int64_t known = 1;
    for (int d = 0; d < n; ++d) {
        out[d] = size[d];
        if (size[d] == -1) {
            RUSH_CHECK(unknown < 0, RUSH_RUNTIME_ERROR, "only one dimension can be inferred");
            unknown = d;
        } else {
            RUSH_CHECK(size[d] >= 0, RUSH_RUNTIME_ERROR, "invalid shape dimension %lld at index %d of shape %s", (long long)size[d], d,
                       rush_shape_text(n, size));
            RUSH_CHECK(!__builtin_mul_overflow(known, size[d], &known), RUSH_RUNTIME_ERROR, "shape %s is too large", rush_shape_text(n, size));
        }
    }
    if (unknown >= 0) {
        RUSH_CHECK(known != 0 || numel, RUSH_RUNTIME_ERROR,
                   "cannot reshape tensor of 0 elements into shape %s because the unspecified dimension size -1 can be any value and is ambiguous",
                   rush_shape_text(n, size));
        RUSH_CHECK(known && numel % known == 0, RUSH_RUNTIME_ERROR, "shape '%s' is invalid for input of size %lld", rush_shape_text(n, size), (long long)numel);
        out[unknown] = numel / known;
        return 0;
    }
    RUSH_CHECK(known == numel, RUSH_RUNTIME_ERROR, "shape '%s' is invalid for input of size %lld", rush_shape_text(n, size), (long long)numel);
    return 0;
}

/* The bytes [*begin, *end) that t's elements lie in. */
static void extent(const rush_tensor *t, const char **begin, const char **end)
{
    size_t item = rush_dtypes[t->dtype].size;
    int64_t last = 0;
    for (int d = 0; d < t->ndim; ++d) last += (t->size[d] - 1) * t->stride[d];
    *begin = rush_ptr(t);
    *end = *begin + (last + 1) * item;
}

/* Is `away` a sum of q[d] * stride[d] with |q[d]| < size[d]? Dimensions from d on, in order of falling strides. */
static bool reaches(const rush_tensor *t, const int *order, int d, int64_t away)
{
    if (d == t->ndim) return away == 0;
    int64_t step = t->stride[order[d]], most = t->size[order[d]] - 1;
    if (step == 0) return reaches(t, order, d + 1, away);
    int64_t q = away / step;
    for (int64_t k = q - 1; k <= q + 1; ++k) /* the rest is less than a step either way, where dimensions nest */
        if (k >= -most && k <= most && reaches(t, order, d + 1, away - k * step)) return true;
    return false;
}

/* Two views of one geometry: are they apart though their extents cross, as even and odd elements are? */
static bool interleaved(const rush_tensor *a, const rush_tensor *b)
{
    int order[6];
    int64_t span = 0;
    if (a->dtype != b->dtype || a->ndim > 6 || !rush_same_sizes(a, b) || memcmp(a->stride, b->stride, sizeof *a->stride * a->ndim)) return false;
    for (int i = 0; i < a->ndim; ++i) {
        int at = i;
        for (; at > 0 && a->stride[order[at - 1]] < a->stride[i]; --at) order[at] = order[at - 1];
        order[at] = i;
    }
    for (int i = a->ndim - 1; i >= 0; --i) { /* do they nest? */
        if (a->stride[order[i]] && a->stride[order[i]] <= span) return false;
        span += (a->size[order[i]] - 1) * a->stride[order[i]];
    }
    return !reaches(a, order, 0, b->offset - a->offset);
}

int rush_overlap(const rush_tensor *a, const rush_tensor *b)
{
    if (!a->storage || !b->storage || !a->numel || !b->numel) return 0;
    if (a->storage != b->storage && (a->storage->data != b->storage->data || !a->storage->data)) return 0;
    int item = rush_dtypes[a->dtype].size;
    if (item == rush_dtypes[b->dtype].size && a->offset == b->offset && rush_same_sizes(a, b) &&
        !memcmp(a->stride, b->stride, sizeof *a->stride * a->ndim))
        return 1;
    const char *a0, *a1, *b0, *b1;
    extent(a, &a0, &a1);
    extent(b, &b0, &b1);
    if (!(a0 < b1 && b0 < a1)) return 0;
    if (a->flags & b->flags & RUSH_T_DENSE) return 2;
    return interleaved(a, b) ? 0 : 3;
}

int rush_overlaps_input(void)
{
    return rush_fail(RUSH_RUNTIME_ERROR, "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single "
                                         "memory location. Please clone() the tensor before performing the operation.");
}

bool rush_self_overlap(const rush_tensor *t)
{
    if (!t->numel) return false;
    for (int d = 0; d < t->ndim; ++d)
        if (t->stride[d] == 0 && t->size[d] > 1) return true;
    return false;
}
