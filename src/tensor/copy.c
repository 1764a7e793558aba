/* copy.c - elements from one tensor to another of any dtype and strides.
 *
 * Equal layouts are a memcpy; all else is a walk whose loop converts (transposed operands are dealt with by
 * the iterator's tiles). Knows no autograd: the operations copy_, clone, contiguous and to are in src/ops.
 */
#include "tensor/backend.h"
#include "tensor/iter.h"
#include "tensor/sparse.h"

typedef struct bytes_job {
    char *dst;
    const char *src;
} bytes_job;

static void copy_bytes(void *arg, int64_t begin, int64_t end)
{
    const bytes_job *j = arg;
    memcpy(j->dst + begin, j->src + begin, (size_t)(end - begin));
}

typedef struct pair {
    uint8_t dst, src;
} pair;

static void convert_loop(char **p, const int64_t *stride, int64_t n, const void *arg)
{
    const pair *d = arg;
    rush_convert_many(p[0], d->dst, stride[0], p[1], d->src, stride[1], n);
}

/* The same without conversion, elements lying together. */
static void copy_rows(char *const *p, const int64_t *next, int64_t rows, int64_t n, const void *arg)
{
    rush_k_copy->rows(p[0], next[0], p[1], next[1], rows, n * (int64_t)rush_dtypes[((const pair *)arg)->dst].size);
}

static bool same_layout(const rush_tensor *a, const rush_tensor *b)
{
    if (a->ndim != b->ndim || !(a->flags & b->flags & (RUSH_T_CONTIGUOUS | RUSH_T_DENSE))) return false;
    for (int d = 0; d < a->ndim; d++)
        if (a->size[d] != b->size[d] || (a->stride[d] != b->stride[d] && a->size[d] > 1)) return false;
    return true;
}

int rush_copy_into(rush_tensor *dst, const rush_tensor *src)
{
    if (RUSH_UNLIKELY(!dst || !src)) return -1; /* what came to nothing, for an error that is pending */
    RUSH_CHECK(dst->layout == RUSH_STRIDED && src->layout == RUSH_STRIDED, RUSH_NOT_IMPLEMENTED, "elements of a tensor of layout %s cannot be copied to one of layout %s",
               rush_layout_word(src->layout), rush_layout_word(dst->layout));
    if (RUSH_UNLIKELY(dst->device.type == RUSH_META)) return 0;
    RUSH_CHECK(src->device.type != RUSH_META, RUSH_NOT_IMPLEMENTED, "Cannot copy out of meta tensor; no data!");
    if (RUSH_UNLIKELY(dst->device.type | src->device.type)) return rush_device_copy(dst, src);
    if (dst->storage == src->storage && dst != src && rush_overlap(dst, src) > 1) { /* read before it is overwritten */
        rush_tensor *apart = rush_tensor_new(src->dtype, src->device, src->ndim, src->size);
        return !apart || rush_copy_into(apart, src) ? -1 : rush_copy_into(dst, apart);
    }
    if (dst->dtype == src->dtype && !((dst->flags ^ src->flags) & (RUSH_T_CONJ | RUSH_T_NEG)) && same_layout(dst, src)) {
        int64_t n = dst->numel * (int64_t)rush_dtypes[dst->dtype].size;
        bytes_job j = {rush_ptr(dst), rush_ptr(src)};
        if (n == 0 || j.dst == j.src) return 0;
        if (n <= 65536) memcpy(j.dst, j.src, (size_t)n);
        else rush_parallel_for(n, 131072, copy_bytes, &j);
        return 0;
    }
    if (dst->numel == 0 && src->numel == 0 && rush_same_sizes(dst, src)) return 0;
    /* More leading dimensions of size one than dst has are fine: x[0] = y of shape (1, n). */
    const int64_t *size = src->size, *stride = src->stride;
    int ndim = src->ndim;
    while (ndim > dst->ndim && size[0] == 1) ndim--, size++, stride++;
    rush_tensor narrowed;
    if (ndim < src->ndim) {
        narrowed = *src;
        narrowed.ndim = (uint8_t)ndim;
        narrowed.size = (int64_t *)size;
        narrowed.stride = (int64_t *)stride;
        src = &narrowed;
    }
    pair d = {dst->dtype, src->dtype};
    rush_value operand[2] = {rush_v_tensor(dst), rush_v_tensor((rush_tensor *)src)};
    rush_iter it;
    if (rush_iter_init(&it, 1, 2, operand, (const uint8_t[]){d.dst, d.src}) < 0) return -1;
    if (d.dst == d.src) it.rows = copy_rows;
    rush_iter_run(&it, convert_loop, &d, 0);
    return 0;
}

rush_tensor *rush_contiguous_copy(const rush_tensor *t)
{
    return t ? rush_cast_copy(t, t->dtype) : NULL;
}

rush_tensor *rush_cast_copy(const rush_tensor *t, rush_dtype d)
{
    if (!t) return NULL;
    if (t->dtype == d && rush_contiguous(t) && !(t->flags & (RUSH_T_CONJ | RUSH_T_NEG))) return (rush_tensor *)t;
    rush_tensor *r = rush_tensor_new(d, t->device, t->ndim, t->size);
    if (!r || rush_copy_into(r, t) < 0) return NULL;
    return r;
}
