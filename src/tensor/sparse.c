/* sparse.c - making, sharing and ending tensors of sparse layouts. What is computed with them is in src/sparse. */
#include "tensor/sparse.h"
#include "tensor/backend.h"

const char *rush_layout_word(int layout)
{
    static const char *const words[] = {"Strided", "Sparse", "SparseCsr", "SparseCsc", "SparseBsr", "SparseBsc"};
    return layout < RUSH_LAYOUTS ? words[layout] : layout == RUSH_QUANTIZED ? "Quantized" : "Elsewhere";
}

int rush_sparse_place(rush_device d)
{
    RUSH_CHECK(d.type != RUSH_META, RUSH_NOT_IMPLEMENTED, "sparse tensors have elements: there are none on %s", rush_device_text(d));
    return 0;
}

static void free_parts(rush_sparse *p)
{
    rush_drop(p->compressed);
    rush_drop(p->plain);
    rush_drop(p->values);
    rush_free(p);
}

__attribute__((constructor)) static void install(void)
{
    rush_parts_free = free_parts;
}

static rush_sparse *copy_parts(const rush_sparse *of)
{
    rush_sparse *p = rush_malloc(sizeof *p);
    if (!p) return NULL;
    *p = *of;
    rush_keep(p->compressed);
    rush_keep(p->plain);
    rush_keep(p->values);
    return p;
}

static rush_tensor *with_parts(rush_layout layout, int ndim, const int64_t *size, const rush_sparse *parts)
{
    int64_t numel = rush_numel_of(ndim, size);
    rush_tensor *t = numel < 0 ? NULL : rush_tensor_header(parts->values->dtype, parts->values->device, ndim);
    if (!t) return NULL;
    for (int d = 0; d < ndim; ++d) {
        t->size[d] = size[d];
        t->stride[d] = 0;
    }
    t->numel = numel;
    t->layout = layout;
    t->parts = rush_version_own(t, 0) ? NULL : copy_parts(parts);
    return t->parts ? rush_park(t) : (rush_drop(t), NULL);
}

rush_tensor *rush_sparse_new(rush_layout layout, int ndim, const int64_t *size, rush_tensor *compressed, rush_tensor *plain, rush_tensor *values,
                             int sparse_dim, int dense_dim, bool coalesced)
{
    if (!plain || !values || (layout != RUSH_SPARSE_COO && !compressed)) return NULL;
    int batch = compressed ? compressed->ndim - 1 : 0;
    const rush_sparse parts = {compressed, plain, values, (uint8_t)sparse_dim, (uint8_t)dense_dim, (uint8_t)batch, coalesced || values->size[batch] < 2};
    return with_parts(layout, ndim, size, &parts);
}

rush_tensor *rush_sparse_with(const rush_tensor *t, rush_tensor *values)
{
    if (!values) return NULL;
    rush_sparse parts = *t->parts;
    parts.values = values;
    return with_parts(t->layout, t->ndim, t->size, &parts);
}

rush_tensor *rush_sparse_alias(const rush_tensor *of)
{
    RUSH_CHECK_NULL(of->layout < RUSH_LAYOUTS && of->parts, RUSH_NOT_IMPLEMENTED, "the tensor has no elements of its own: its object was not asked");
    rush_tensor *t = with_parts(of->layout, of->ndim, of->size, of->parts);
    if (t) t->version->n = rush_version_of(of);
    return t;
}

rush_tensor *rush_sparse_empty(rush_layout layout, rush_dtype dtype, rush_device device, int ndim, const int64_t *size)
{
    int64_t parts[RUSH_MAXDIM];
    if (rush_sparse_place(device)) return NULL;
    if (layout == RUSH_SPARSE_COO) {
        rush_tensor *indices = rush_tensor_new(RUSH_I64, device, 2, (int64_t[]){ndim, 0}), *values = rush_tensor_new(dtype, device, 1, (int64_t[]){0});
        return rush_sparse_new(layout, ndim, size, NULL, indices, values, ndim, 0, true);
    }
    RUSH_CHECK_NULL(!rush_blocked(layout), RUSH_RUNTIME_ERROR, "expected sparse compressed (non-block) tensor layout but got %s", rush_layout_word(layout));
    RUSH_CHECK_NULL(ndim >= 2, RUSH_RUNTIME_ERROR, "Only batched sparse compressed (non-block) tensors are supported, but got size %s",
                    rush_shape_text(ndim, size));
    int batch = ndim - 2;
    memcpy(parts, size, sizeof *size * batch);
    RUSH_CHECK_NULL(!__builtin_add_overflow(size[ndim - (rush_by_row(layout) ? 2 : 1)], 1, &parts[batch]), RUSH_RUNTIME_ERROR, "sizes %s are too large",
                    rush_shape_text(ndim, size));
    rush_tensor *starts = rush_tensor_new(RUSH_I64, device, batch + 1, parts);
    if (!starts) return NULL;
    if (starts->numel && device.type == RUSH_CPU) memset(rush_ptr(starts), 0, (size_t)starts->numel * 8);
    else if (rush_device_fill(starts, rush_v_int(0))) return NULL;
    parts[batch] = 0;
    return rush_sparse_new(layout, ndim, size, starts, rush_tensor_new(RUSH_I64, device, batch + 1, parts), rush_tensor_new(dtype, device, batch + 1, parts), 2, 0, true);
}

int rush_sparse_become(rush_tensor *self, const rush_tensor *of)
{
    if (self == of) return 0;
    RUSH_CHECK(self->layout < RUSH_LAYOUTS && of->layout < RUSH_LAYOUTS && self->parts && of->parts, RUSH_NOT_IMPLEMENTED, "the tensor has no elements of its own: its object was not asked");
    rush_sparse *parts = copy_parts(of->parts);
    if (!parts) return -1;
    int64_t stride[RUSH_MAXDIM] = {0};
    if (rush_tensor_reshape_inplace(self, of->ndim, of->size, stride, 0)) return free_parts(parts), -1;
    free_parts(self->parts);
    self->parts = parts;
    self->layout = of->layout;
    self->dtype = of->dtype;
    return 0;
}
