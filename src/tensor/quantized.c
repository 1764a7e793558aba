/* quantized.c - making and ending quantized tensors. What is computed with them is in src/quant. */
#include "tensor/quantized.h"

static const struct { uint8_t store, dtype; } kinds[] = {{RUSH_I8, RUSH_QINT8}, {RUSH_U8, RUSH_QUINT8}, {RUSH_I32, RUSH_QINT32}};

int rush_quantized_of(int dtype)
{
    for (size_t i = 0; i < RUSH_COUNT(kinds); ++i)
        if (kinds[i].store == dtype) return kinds[i].dtype;
    return -1;
}

int rush_quantized_store(int dtype)
{
    for (size_t i = 0; i < RUSH_COUNT(kinds); ++i)
        if (kinds[i].dtype == dtype) return kinds[i].store;
    return -1;
}

static void drop(rush_qparams *q)
{
    if (!q || !rush_refs_drop(&q->refs)) return;
    rush_drop(q->scales);
    rush_drop(q->zeros);
    rush_free(q);
}

__attribute__((constructor)) static void install(void)
{
    rush_qparams_free = drop;
}

/* Takes the caller's reference to q. */
static rush_tensor *over(const rush_tensor *ints, rush_qparams *q)
{
    int dtype = ints ? rush_quantized_of(ints->dtype) : -1;
    rush_tensor *t = NULL;
    if (ints && dtype < 0) rush_fail(RUSH_RUNTIME_ERROR, "Unsupported dtype for quantized storage: %s", rush_dtype_name(ints->dtype));
    else if (q && ints) t = rush_tensor_retyped(ints, (rush_dtype)ints->dtype);
    if (!t) return drop(q), NULL;
    t->dtype = (uint8_t)dtype;
    t->layout = RUSH_QUANTIZED;
    t->q = q;
    return t;
}

static rush_qparams *params(rush_qscheme scheme)
{
    rush_qparams *q = rush_calloc(1, sizeof *q);
    if (!q) return NULL;
    atomic_init(&q->refs, 1);
    q->scheme = (uint8_t)scheme;
    return q;
}

rush_tensor *rush_quantized_tensor(const rush_tensor *ints, double scale, int64_t zero_point)
{
    rush_qparams *q = ints ? params(RUSH_PER_TENSOR) : NULL;
    if (!q) return NULL;
    q->scale = scale;
    q->zero_point = zero_point;
    return over(ints, q);
}

rush_tensor *rush_quantized_channels(const rush_tensor *ints, rush_tensor *scales, rush_tensor *zeros, int axis, rush_qscheme scheme)
{
    rush_qparams *q = ints && scales && zeros ? params(scheme) : NULL;
    if (!q) return NULL;
    q->axis = (uint8_t)axis;
    q->scales = rush_keep(scales);
    q->zeros = rush_keep(zeros);
    return over(ints, q);
}

rush_tensor *rush_quantized_like(const rush_tensor *ints, const rush_tensor *of)
{
    if (!ints) return NULL;
    atomic_fetch_add_explicit(&of->q->refs, 1, memory_order_relaxed);
    return over(ints, of->q);
}

rush_tensor *rush_quantized_ints(const rush_tensor *t)
{
    return t ? rush_tensor_retyped(t, (rush_dtype)rush_quantized_store(t->dtype)) : NULL;
}

bool rush_quantized_same(const rush_tensor *a, const rush_tensor *b)
{
    const rush_qparams *p = a->q, *q = b->q;
    if (a->dtype != b->dtype || p->scheme != q->scheme) return false;
    return p == q || (p->scheme == RUSH_PER_TENSOR ? p->scale == q->scale && p->zero_point == q->zero_point
                                                   : p->scales == q->scales && p->zeros == q->zeros && p->axis == q->axis);
}

void rush_quantized_adopt(rush_tensor *t, const rush_tensor *of)
{
    atomic_fetch_add_explicit(&of->q->refs, 1, memory_order_relaxed);
    drop(t->q);
    t->q = of->q;
}

int rush_quantized_become(rush_tensor *self, const rush_tensor *of)
{
    if (self == of) return 0;
    RUSH_CHECK(rush_is_quantized(self) && rush_is_quantized(of), RUSH_RUNTIME_ERROR, "a quantized tensor and one that is not");
    if (rush_tensor_reshape_inplace(self, of->ndim, of->size, of->stride, of->offset)) return -1;
    rush_tensor_set_storage(self, of->storage, of->offset);
    self->dtype = of->dtype;
    rush_quantized_adopt(self, of);
    return 0;
}
