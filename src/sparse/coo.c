/* coo.c - coordinates: numbers of places, equal ones joined, and what COO tensors are looked up and summed by. */
#include "sparse/coo.h"

rush_tensor *rush_coo_new(int ndim, const int64_t *size, rush_tensor *indices, rush_tensor *values, bool coalesced)
{
    if (!indices || !values) return NULL;
    int sparse = (int)indices->size[0];
    return rush_sparse_new(RUSH_SPARSE_COO, ndim, size, NULL, indices, values, sparse, ndim - sparse, coalesced);
}

rush_tensor *rush_coo_keys(const rush_tensor *indices, int ndim, const int64_t *size)
{
    const rush_tensor *plain = rush_cast_copy(indices, RUSH_I64);
    int64_t n = indices->size[1];
    rush_tensor *keys = plain ? rush_tensor_new(RUSH_I64, indices->device, 1, &n) : NULL;
    if (!keys) return NULL;
    int64_t *key = rush_ptr(keys);
    if (n) memset(key, 0, sizeof *key * (size_t)n);
    for (int d = 0; d < ndim && n; ++d) {
        const int64_t *index = (const int64_t *)rush_ptr(plain) + d * n;
        uint64_t limit = (uint64_t)size[d];
        bool outside = false;
        for (int64_t i = 0; i < n; ++i) {
            outside |= (uint64_t)index[i] >= limit;
            key[i] = (int64_t)((uint64_t)key[i] * limit + (uint64_t)index[i]);
        }
        if (!outside) continue;
        int64_t bad = 0;
        while ((uint64_t)index[bad] < limit) ++bad;
        return rush_fail(RUSH_RUNTIME_ERROR, "size is inconsistent with indices: for dim %d, size is %lld but found index %lld", d, (long long)size[d],
                         (long long)index[bad]), NULL;
    }
    return keys;
}

rush_tensor *rush_coo_keys_of(const rush_tensor *t)
{
    return rush_coo_keys(INDICES(t), t->parts->sparse_dim, t->size);
}

static bool increasing(const int64_t *key, int64_t n)
{
    bool up = true;
    for (int64_t i = 1; i < n; ++i) up &= key[i - 1] < key[i];
    return up;
}

int rush_coo_group(rush_groups *g, const rush_tensor *keys)
{
    int64_t n = keys->numel;
    *g = (rush_groups){.group = rush_tensor_new(RUSH_I64, keys->device, 1, &n), .first = rush_tensor_new(RUSH_I64, keys->device, 1, &n)};
    if (!g->group || !g->first) return -1;
    int64_t *group = rush_ptr(g->group), *first = rush_ptr(g->first);
    if (increasing(rush_ptr(keys), n)) {
        for (int64_t i = 0; i < n; ++i) group[i] = first[i] = i;
        g->n = n;
        return 0;
    }
    rush_value sorted[RUSH_MAXOUT];
    if (TN(sorted, "sort.stable", V((rush_tensor *)keys), V(true))) return -1;
    const int64_t *key = rush_ptr(sorted[0].t), *order = rush_ptr(sorted[1].t);
    for (int64_t i = 0; i < n; ++i) {
        if (i == 0 || key[i] != key[i - 1]) first[g->n++] = order[i];
        group[order[i]] = g->n - 1;
    }
    g->first = T("narrow", V(g->first), V((int64_t)0), V((int64_t)0), V(g->n));
    return g->first ? 0 : -1;
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

rush_tensor *rush_row_starts(const int64_t *row, int64_t n, int64_t rows)
{
    int64_t size = rows + 1;
    rush_tensor *starts = rush_tensor_new(RUSH_I64, (rush_device){RUSH_CPU, -1}, 1, &size);
    if (!starts) return NULL;
    int64_t *start = rush_ptr(starts);
    memset(start, 0, sizeof *start * (size_t)size);
    for (int64_t i = 0; i < n; ++i) ++start[row[i] + 1];
    for (int64_t r = 0; r < rows; ++r) start[r + 1] += start[r];
    return starts;
}

rush_tensor *rush_coo_find(const rush_tensor *keys, const rush_tensor *sorted)
{
    rush_tensor *at = rush_tensor_new(RUSH_I64, keys->device, 1, &keys->numel);
    if (!at) return NULL;
    const int64_t *key = rush_ptr(keys), *in = rush_ptr(sorted);
    int64_t *to = rush_ptr(at), m = sorted->numel, from = 0;
    bool both = increasing(key, keys->numel); /* then both lists are walked together, unless one is much longer */
    both &= m < 16 * keys->numel;
    for (int64_t i = 0; i < keys->numel; ++i) {
        if (both) {
            while (from < m && in[from] < key[i]) ++from;
        } else {
            int64_t high = m;
            for (from = 0; from < high;) {
                int64_t mid = from + (high - from) / 2;
                if (in[mid] < key[i]) from = mid + 1;
                else high = mid;
            }
        }
        to[i] = from < m && in[from] == key[i] ? from : m;
    }
    return at;
}

static rush_tensor *dense_at(rush_tensor *t, rush_tensor *indices)
{
    rush_tensor *list[RUSH_MAXDIM];
    int n = (int)indices->size[0];
    if (n == 0) return T("expand", V(unsqueeze(t, 0)), rush_v_ints((int64_t[]){indices->size[1]}, 1));
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
    rush_tensor *have = t ? rush_coo_keys_of(t) : NULL, *at = have ? rush_coo_find(keys, have) : NULL;
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
