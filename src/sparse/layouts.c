/* layouts.c - between layouts: COO is the middle, every other one knows the way to it and from it.
 *
 * A compressed layout is read into coordinates in its own order; it is written by sorting coordinates by
 * (batch, major, minor), the major dimension being the compressed one, and joining those of one block.
 */
#include "sparse/coo.h"

void rush_block_size(const rush_tensor *t, int64_t block[2])
{
    for (int i = 0; i < 2; ++i) block[i] = rush_blocked(t->layout) ? VALUES(t)->size[t->parts->batch_dim + 1 + i] : 1;
}

/* ---- compressed to COO ---- */

typedef struct compressed {
    int batch_dim;
    int64_t batches, majors, minors, nnz; /* majors, minors: in blocks; nnz: of each batch */
    int64_t block[2];
    bool by_row;
} compressed;

static int look(compressed *c, const rush_tensor *t)
{
    c->batch_dim = t->parts->batch_dim;
    c->batches = 1;
    for (int d = 0; d < c->batch_dim; ++d) c->batches *= t->size[d];
    rush_block_size(t, c->block);
    RUSH_CHECK(c->block[0] > 0 && c->block[1] > 0, RUSH_RUNTIME_ERROR, "blocks of size %lld x %lld", (long long)c->block[0], (long long)c->block[1]);
    c->by_row = rush_by_row(t->layout);
    int64_t rows = t->size[c->batch_dim] / c->block[0], cols = t->size[c->batch_dim + 1] / c->block[1];
    c->majors = c->by_row ? rows : cols;
    c->minors = c->by_row ? cols : rows;
    c->nnz = rush_nnz(t);
    return 0;
}

/* The index parts as (batches, majors + 1) and (batches, nnz) int64. Are they those of one tensor? */
static int parts_of(const compressed *c, const rush_tensor *t, rush_tensor **starts, rush_tensor **minors)
{
    *starts = rush_plain_numbers(t->parts->compressed);
    *minors = rush_plain_numbers(t->parts->plain);
    if (!*starts || !*minors) return -1;
    RUSH_CHECK((*starts)->numel == c->batches * (c->majors + 1) && (*minors)->numel == c->batches * c->nnz, RUSH_RUNTIME_ERROR,
               "compressed indices %s, plain indices %s and values %s do not belong to one tensor of size %s", rush_shape_of(*starts),
               rush_shape_of(*minors), rush_shape_of(VALUES(t)), rush_shape_of(t));
    *starts = T("view", V(*starts), INTS(c->batches, c->majors + 1));
    *minors = T("view", V(*minors), INTS(c->batches, c->nnz));
    return *starts && *minors ? 0 : -1;
}

/* And may they be trusted? */
static int trusted_parts(const compressed *c, const rush_tensor *t, rush_tensor **starts, rush_tensor **minors)
{
    rush_value none[RUSH_MAXOUT];
    return parts_of(c, t, starts, minors) || TN(none, "_compressed_within", V(*starts), V(*minors), V(c->minors)) ? -1 : 0;
}

int rush_csr_parts(rush_tensor *t, rush_tensor **starts, rush_tensor **cols)
{
    compressed c;
    if (look(&c, t) || trusted_parts(&c, t, starts, cols)) return -1;
    *starts = T("view", V(*starts), INTS(-1));
    *cols = T("view", V(*cols), INTS(-1));
    return *starts && *cols ? 0 : -1;
}

rush_tensor *rush_as_coo(rush_tensor *t)
{
    if (!t || IS_COO(t)) return t;
    compressed c;
    rush_tensor *starts, *minors;
    if (look(&c, t) || trusted_parts(&c, t, &starts, &minors)) return NULL;
    rush_tensor *indices = T("_compressed_coordinates", V(starts), V(minors), rush_v_ints(t->size, (size_t)c.batch_dim), rush_v_ints(c.block, 2), V(c.by_row));
    if (!indices) return NULL;
    return rush_coo_new(t->ndim, t->size, indices, rush_flat_values(t, indices->size[1]), t->layout == RUSH_SPARSE_CSR || (t->layout == RUSH_SPARSE_BSR && c.block[0] * c.block[1] == 1));
}

/* ---- COO to compressed ---- */

static rush_tensor *line(const rush_tensor *indices, int64_t d) { return T("select.int", V((rush_tensor *)indices), V((int64_t)0), V(d)); }
static rush_tensor *times_plus(rush_tensor *x, int64_t factor, rush_tensor *y) { return x && y ? add(mul(x, factor), y) : NULL; }
static rush_tensor *quotient(rush_tensor *x, int64_t by) { return !x || by == 1 ? x : T("floor_divide.Scalar", V(x), V(by)); }
static rush_tensor *rest(rush_tensor *x, int64_t of) { return x ? T("remainder.Scalar", V(x), V(of)) : NULL; }

/* What is sorted by: the batch, the major and the minor block. */
static rush_tensor *block_keys(const compressed *c, const rush_tensor *coo)
{
    const rush_tensor *indices = rush_plain_numbers(INDICES(coo));
    rush_tensor *keys = indices ? rush_coo_keys(indices, c->batch_dim, coo->size) : NULL;
    if (!keys || !rush_coo_keys_of(coo)) return NULL;
    rush_tensor *r = quotient(line(indices, c->batch_dim), c->block[0]), *k = quotient(line(indices, c->batch_dim + 1), c->block[1]);
    return times_plus(times_plus(keys, c->majors, c->by_row ? r : k), c->minors, c->by_row ? k : r);
}

/* Values of single elements in their places of the blocks: (blocks, height, width, dense...). */
static rush_tensor *into_blocks(const compressed *c, const rush_tensor *coo, const rush_groups *g)
{
    int64_t area = rush_size_times(c->block[0], c->block[1]), all = rush_size_times(g->n, area), size[RUSH_MAXDIM + 2];
    if (all < 0) return NULL;
    const rush_tensor *indices = rush_plain_numbers(INDICES(coo)), *values = VALUES(coo);
    rush_tensor *row = indices ? rest(line(indices, c->batch_dim), c->block[0]) : NULL, *col = indices ? rest(line(indices, c->batch_dim + 1), c->block[1]) : NULL;
    rush_tensor *place = times_plus(g->group, area, times_plus(row, c->block[1], col));
    if (!place) return NULL;
    memcpy(size + 2, values->size, sizeof *size * values->ndim);
    size[2] = all;
    rush_tensor *flat = T("new_zeros", V((rush_tensor *)values), rush_v_ints(size + 2, values->ndim));
    flat = flat ? T_INPLACE("index_add", V(flat), V((int64_t)0), V(place), V((rush_tensor *)values)) : NULL;
    size[0] = g->n, size[1] = c->block[0], size[2] = c->block[1];
    return flat ? T("view", V(flat), rush_v_ints(size, values->ndim + 2)) : NULL;
}

/* A coalesced matrix to CSR: the columns are there already. */
static rush_tensor *to_rows(rush_tensor *coo)
{
    rush_tensor *indices = rush_plain_numbers(INDICES(coo)), *keys = indices ? rush_coo_keys_of(coo) : NULL;
    rush_tensor *starts = keys ? T("_row_starts", V(line(indices, 0)), V(coo->size[0])) : NULL, *cols = starts ? line(indices, 1) : NULL;
    return cols ? rush_sparse_new(RUSH_SPARSE_CSR, coo->ndim, coo->size, starts, T("clone", V(cols)), VALUES(coo), 2, coo->parts->dense_dim, true) : NULL;
}

rush_tensor *rush_as_compressed(rush_tensor *coo, rush_layout layout, const int64_t *block)
{
    if (!(coo = rush_coo_coalesced(coo))) return NULL;
    if (layout == RUSH_SPARSE_CSR && coo->parts->sparse_dim == 2) return to_rows(coo);
    int dense = coo->parts->dense_dim, batch = coo->parts->sparse_dim - 2;
    compressed c = {.batch_dim = batch, .batches = 1, .block = {block ? block[0] : 1, block ? block[1] : 1}, .by_row = rush_by_row(layout)};
    int64_t rows = coo->size[batch], cols = coo->size[batch + 1], size[RUSH_MAXDIM + 2];
    for (int d = 0; d < batch; ++d) c.batches *= coo->size[d];
    c.majors = c.by_row ? rows / c.block[0] : cols / c.block[1];
    c.minors = c.by_row ? cols / c.block[1] : rows / c.block[0];
    rush_groups g;
    rush_tensor *keys = block_keys(&c, coo);
    if (!keys || rush_coo_group(&g, keys)) return NULL;
    /* Keys of the groups, in order, are batch, major, minor again. */
    rush_tensor *sorted = T("index_select", V(keys), V((int64_t)0), V(g.first)), *minors = sorted && c.minors ? rest(sorted, c.minors) : sorted;
    c.nnz = c.batches ? g.n / c.batches : 0;
    memcpy(size, coo->size, sizeof *size * batch);
    size[batch] = c.majors + 1;
    rush_tensor *starts = minors ? T("_compressed_starts", V(c.minors ? quotient(sorted, c.minors) : sorted), V(c.batches), V(c.majors)) : NULL;
    starts = starts ? T("view", V(starts), rush_v_ints(size, (size_t)batch + 1)) : NULL;
    if (!starts) return NULL;
    bool blocked = rush_blocked(layout);
    rush_tensor *values = blocked ? into_blocks(&c, coo, &g) : rush_coo_gather(&g, VALUES(coo));
    if (!values) return NULL;
    size[batch] = c.nnz;
    minors = T("view", V(minors), rush_v_ints(size, batch + 1));
    memcpy(size + batch + 1, values->size + 1, sizeof *size * (values->ndim - 1));
    values = T("view", V(values), rush_v_ints(size, batch + values->ndim));
    return rush_sparse_new(layout, coo->ndim, coo->size, starts, minors, values, 2, dense, true);
}

/* Index parts in the type that `like` has its in. */
rush_tensor *rush_index_type_of(rush_tensor *t, const rush_tensor *like)
{
    if (!t || !t->parts->compressed || !like->parts || like->parts->plain->dtype == RUSH_I64) return t;
    rush_dtype d = (rush_dtype)like->parts->plain->dtype;
    const rush_sparse *p = t->parts;
    return rush_sparse_new((rush_layout)t->layout, t->ndim, t->size, rush_cast_copy(p->compressed, d), rush_cast_copy(p->plain, d), p->values, p->sparse_dim,
                           p->dense_dim, true);
}

rush_tensor *rush_in_layout(rush_tensor *t, rush_layout layout, const rush_tensor *blocks_of)
{
    if (!t || t->layout == layout) return t;
    int64_t block[2];
    rush_block_size(blocks_of, block);
    if (layout == RUSH_STRIDED) return rush_as_dense(t);
    t = rush_as_coo(t);
    return layout == RUSH_SPARSE_COO ? t : rush_index_type_of(rush_as_compressed(t, layout, rush_blocked(layout) ? block : NULL), blocks_of);
}

/* ---- to dense ---- */

rush_tensor *rush_as_dense(rush_tensor *t)
{
    if (!t || !t->layout) return t;
    t = rush_as_coo(t);
    rush_tensor *keys = t ? rush_coo_keys_of(t) : NULL, *values = t ? VALUES(t) : NULL;
    rush_tensor *result = keys ? T("new_zeros", V(values), rush_v_ints(t->size, t->ndim)) : NULL;
    if (!result || !keys->numel || !result->numel) return result;
    int sparse = t->parts->sparse_dim, dense = t->parts->dense_dim;
    int64_t size[RUSH_MAXDIM + 1];
    size[0] = 1;
    for (int d = 0; d < sparse; ++d) size[0] *= t->size[d];
    memcpy(size + 1, t->size + sparse, sizeof *size * dense);
    rush_tensor *flat = T("view", V(result), rush_v_ints(size, dense + 1));
    return flat && T_INPLACE("index_add", V(flat), V((int64_t)0), V(keys), V(values)) ? result : NULL;
}
