/* coo.c - coordinates: numbers of places, equal ones joined, and what COO tensors are looked up and summed by. */
#include "sparse/coo.h"

rush_tensor *rush_coo_new(int ndim, const int64_t *size, rush_tensor *indices, rush_tensor *values, bool coalesced)
{
    if (!indices || !values) return NULL;
    int sparse = (int)indices->size[0];
    return rush_sparse_new(RUSH_SPARSE_COO, ndim, size, NULL, indices, values, sparse, ndim - sparse, coalesced);
}

/* As the kernels want them: int64, in order. */
rush_tensor *rush_plain_numbers(const rush_tensor *t) { return rush_contiguous_copy(rush_cast_copy(t, RUSH_I64)); }

rush_tensor *rush_coo_keys(const rush_tensor *indices, int ndim, const int64_t *size)
{
    rush_tensor *plain = rush_plain_numbers(indices);
    return plain ? T("_coo_keys", V(plain), rush_v_ints(size, (size_t)ndim)) : NULL;
}

rush_tensor *rush_coo_keys_of(const rush_tensor *t)
{
    return rush_coo_keys(INDICES(t), t->parts->sparse_dim, t->size);
}

int rush_coo_group(rush_groups *g, rush_tensor *keys)
{
    rush_value got[RUSH_MAXOUT];
    if (!keys || TN(got, "_coo_group", V(keys))) return -1;
    *g = (rush_groups){.n = got[1].t->numel, .group = got[0].t, .first = got[1].t};
    return 0;
}

rush_tensor *rush_coo_gather(const rush_groups *g, rush_tensor *values)
{
    if (g->n == values->size[0]) return T("index_select", V(values), V((int64_t)0), V(g->first));
    int64_t size[RUSH_MAXDIM];
    memcpy(size, values->size, sizeof *size * values->ndim);
    size[0] = g->n;
    rush_tensor *sum = T("new_zeros", V(values), rush_v_ints(size, values->ndim));
    return sum ? T_INPLACE("index_add", V(sum), V((int64_t)0), V(g->group), V(values)) : NULL;
}

rush_tensor *rush_coo_coalesced(rush_tensor *t)
{
    if (!t || t->parts->coalesced) return t;
    rush_groups g;
    rush_tensor *keys = rush_coo_keys_of(t);
    if (!keys || rush_coo_group(&g, keys)) return NULL;
    rush_tensor *indices = T("index_select", V(INDICES(t)), V((int64_t)1), V(g.first));
    return rush_coo_new(t->ndim, t->size, indices, rush_coo_gather(&g, VALUES(t)), true);
}

rush_tensor *rush_flat_values(const rush_tensor *t, int64_t lead)
{
    int dense = t->parts->dense_dim;
    int64_t size[RUSH_MAXDIM];
    size[0] = lead;
    memcpy(size + 1, t->size + t->ndim - dense, sizeof *size * dense);
    return T("reshape", V(VALUES(t)), rush_v_ints(size, dense + 1));
}

static rush_tensor *dense_at(rush_tensor *t, rush_tensor *indices)
{
    rush_tensor *list[RUSH_MAXDIM];
    int n = (int)indices->size[0];
    if (n == 0) return T("repeat_interleave.self_int", V(unsqueeze(t, 0)), V(indices->size[1]), V((int64_t)0));
    for (int d = 0; d < n; ++d)
        if (!(list[d] = T("select.int", V(indices), V((int64_t)0), V((int64_t)d)))) return NULL;
    return T("index.Tensor", V(t), rush_v_tensors(list, n));
}

rush_tensor *rush_values_at(rush_tensor *t, rush_tensor *mask)
{
    rush_tensor *keys = mask ? rush_coo_keys_of(mask) : NULL; /* also checks that the indices are within */
    if (!t || !keys) return NULL;
    if (!t->layout) return dense_at(t, INDICES(mask));
    t = rush_coo_coalesced(t);
    rush_tensor *have = t ? rush_coo_keys_of(t) : NULL, *at = have ? T("_coo_find", V(keys), V(have)) : NULL;
    if (!at) return NULL;
    int64_t size[RUSH_MAXDIM];
    memcpy(size, VALUES(t)->size, sizeof *size * VALUES(t)->ndim);
    size[0] = 1; /* behind the values a zero, for what is not there */
    rush_tensor *with_zero[] = {VALUES(t), T("new_zeros", V(VALUES(t)), rush_v_ints(size, VALUES(t)->ndim))};
    if (!with_zero[1]) return NULL;
    return T("index_select", V(T("cat", rush_v_tensors(with_zero, 2), V((int64_t)0))), V((int64_t)0), V(at));
}

rush_tensor *rush_cleared(const rush_tensor *t, rush_dtype dtype)
{
    const rush_sparse *p = t->parts;
    int64_t size[RUSH_MAXDIM + 2];
    int batch = p->batch_dim;
    memcpy(size, p->values->size, sizeof *size * p->values->ndim);
    size[batch] = 0;
    rush_tensor *values = rush_tensor_new(dtype, t->device, p->values->ndim, size), *starts = NULL;
    if (IS_COO(t)) return rush_coo_new(t->ndim, t->size, rush_tensor_new(RUSH_I64, t->device, 2, (int64_t[]){p->sparse_dim, 0}), values, true);
    starts = T("zeros_like", V(p->compressed));
    return rush_sparse_new((rush_layout)t->layout, t->ndim, t->size, starts, rush_tensor_new(p->plain->dtype, t->device, batch + 1, size), values, 2, p->dense_dim, true);
}

void rush_no_derivative(rush_grads *s)
{
    rush_fail(RUSH_RUNTIME_ERROR, "derivative for aten::%s is not implemented", s->op->name);
}

int rush_need_coo(const char *name, const rush_tensor *t)
{
    RUSH_CHECK(IS_COO(t), RUSH_RUNTIME_ERROR, "%s expected sparse coordinate tensor layout but got %s", name, rush_layout_word(t->layout));
    return 0;
}
