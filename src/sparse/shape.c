/* shape.c - other shapes of sparse tensors: transposed, selected, joined. Indices are rewritten, values follow. */
#include "sparse/coo.h"

#define SELF (in[0].t)

static rush_tensor *rows_in_order(rush_tensor *indices, int n, const int64_t *order)
{
    rush_tensor *which = rush_from_data(order, RUSH_I64, 1, (int64_t[]){n});
    which = rush_to_device(which, indices);
    return which ? T("index_select", V(indices), V((int64_t)0), V(which)) : NULL;
}

/* ---- orders of dimensions ---- */

static rush_tensor *permuted(rush_tensor *t, const int64_t *order)
{
    int64_t size[RUSH_MAXDIM], sparse_order[RUSH_MAXDIM], dense_order[RUSH_MAXDIM + 1] = {0};
    int sparse = t->parts->sparse_dim;
    bool same = true;
    for (int d = 0; d < t->ndim; ++d) {
        size[d] = t->size[order[d]];
        same &= order[d] == d;
        RUSH_CHECK_NULL((d < sparse) == (order[d] < sparse), RUSH_RUNTIME_ERROR,
                        "permute(): sparse and dense dimensions of a tensor with %d sparse and %d dense ones cannot be exchanged", sparse, t->parts->dense_dim);
        if (d < sparse) sparse_order[d] = order[d];
        else dense_order[d - sparse + 1] = order[d] - sparse + 1;
    }
    if (same) return rush_sparse_alias(t);
    rush_tensor *values = t->parts->dense_dim ? T("permute", V(VALUES(t)), rush_v_ints(dense_order, t->parts->dense_dim + 1)) : VALUES(t);
    return rush_coo_new(t->ndim, size, rows_in_order(INDICES(t), sparse, sparse_order), values, false);
}

static rush_layout other_way(int layout)
{
    return layout == RUSH_SPARSE_CSR ? RUSH_SPARSE_CSC : layout == RUSH_SPARSE_CSC ? RUSH_SPARSE_CSR : layout == RUSH_SPARSE_BSR ? RUSH_SPARSE_BSC : RUSH_SPARSE_BSR;
}

/* Rows become columns: the same indices by another name. */
static rush_tensor *transposed_compressed(rush_tensor *t, int a, int b)
{
    int batch = t->parts->batch_dim;
    if (a == b) return rush_sparse_alias(t);
    RUSH_CHECK_NULL(t->parts->dense_dim == 0, RUSH_RUNTIME_ERROR, "transpose(): hybrid sparse compressed tensors with dense dimensions are not supported");
    RUSH_CHECK_NULL((a < batch) == (b < batch), RUSH_RUNTIME_ERROR,
                    "transpose(): can only transpose dimensions of the same type (Batch, Sparse, Dense), got %d(%s) and %d(%s)", a, a < batch ? "Batch" : "Sparse", b,
                    b < batch ? "Batch" : "Sparse");
    int64_t size[RUSH_MAXDIM];
    memcpy(size, t->size, sizeof *size * t->ndim);
    size[a] = t->size[b], size[b] = t->size[a];
    rush_tensor *compressed = t->parts->compressed, *plain = t->parts->plain, *values = VALUES(t);
    if (a < batch) {
        compressed = transpose(compressed, a, b), plain = transpose(plain, a, b), values = transpose(values, a, b);
        return rush_sparse_new((rush_layout)t->layout, t->ndim, size, compressed, plain, values, 2, 0, true);
    }
    if (rush_blocked(t->layout)) values = transpose(values, -2, -1);
    return rush_sparse_new(other_way(t->layout), t->ndim, size, compressed, plain, values, 2, 0, true);
}

static rush_tensor *transposed(rush_tensor *t, int64_t a, int64_t b)
{
    int64_t order[RUSH_MAXDIM];
    int i = rush_dim_wrap(a, t->ndim), j = rush_dim_wrap(b, t->ndim);
    if (i < 0 || j < 0) return NULL;
    if (IS_COMPRESSED(t)) return transposed_compressed(t, i, j);
    for (int d = 0; d < t->ndim; ++d) order[d] = d;
    order[i] = j, order[j] = i;
    return permuted(t, order);
}

static int transpose_run(const rush_op *op, const rush_value *in, rush_value *out) { return rush_result(out, transposed(SELF, I_(in[1]), I_(in[2]))); }

static int t_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_sparse *p = SELF->parts;
    RUSH_CHECK(!IS_COO(SELF) || (p->sparse_dim <= 2 && p->dense_dim == 0), RUSH_RUNTIME_ERROR,
               "t() expects a tensor with <= 2 sparse and 0 dense dimensions, but got %d sparse and %d dense dimensions", p->sparse_dim, p->dense_dim);
    RUSH_CHECK(SELF->ndim <= 2, RUSH_RUNTIME_ERROR, "t() expects a tensor with <= 2 dimensions, but self is %dD", SELF->ndim);
    return rush_result(out, SELF->ndim < 2 ? rush_sparse_alias(SELF) : transposed(SELF, 0, 1));
}

static int permute_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    int64_t order[RUSH_MAXDIM];
    uint64_t seen = 0;
    RUSH_CHECK(IS_COO(SELF), RUSH_NOT_IMPLEMENTED, "Could not run 'aten::permute' with arguments from the 'SparseCsrCPU' backend.");
    RUSH_CHECK((int)in[1].n == SELF->ndim, RUSH_RUNTIME_ERROR,
               "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired ordering of dimensions i.e. input.dim() = %d is "
               "not equal to len(dims) = %u", SELF->ndim, in[1].n);
    for (int d = 0; d < SELF->ndim; ++d) {
        int k = rush_dim_wrap(in[1].ints[d], SELF->ndim);
        if (k < 0) return -1;
        RUSH_CHECK(!(seen >> k & 1), RUSH_RUNTIME_ERROR, "permute(): duplicate dims are not allowed.");
        seen |= (uint64_t)1 << k;
        order[d] = k;
    }
    return rush_result(out, permuted(SELF, order));
}

static int transpose_inplace_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(IS_COO(SELF), RUSH_RUNTIME_ERROR, "torch.transpose_: in-place transposition is not supported for %s layout", rush_layout_word(SELF->layout));
    rush_tensor *t = transposed(SELF, in[1].kind == RUSH_V_INT ? I_(in[1]) : 0, in[1].kind == RUSH_V_INT ? I_(in[2]) : 1);
    return t && !rush_sparse_become(SELF, t) ? rush_result(out, SELF) : -1;
}
static int t_inplace_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_value both[] = {in[0], rush_v_int(0), rush_v_int(1)};
    return SELF->ndim < 2 ? rush_result(out, SELF) : transpose_inplace_run(op, both, out);
}

static rush_op sparse_transpose = {.schema = "transpose.int swapaxes swapdims", .run = transpose_run, .flags = RUSH_SAME_GRAD};
static rush_op sparse_t = {.schema = "t", .run = t_run, .flags = RUSH_SAME_GRAD}, sparse_permute = {.schema = "permute", .run = permute_run, .flags = RUSH_SAME_GRAD};
static rush_op sparse_transpose_inplace = {.schema = "transpose_", .run = transpose_inplace_run}, sparse_t_inplace = {.schema = "t_", .run = t_inplace_run};
static rush_op sparse_movedim = {.schema = "movedim.int"}, sparse_movedims = {.schema = "movedim.intlist"}, sparse_moveaxis = {.schema = "moveaxis.int"};
static rush_op sparse_numpy_t = {.schema = "numpy_T"}, sparse_mt = {.schema = "mT"}, sparse_adjoint = {.schema = "adjoint"};

/* ---- dimensions of size one ---- */

static int unsqueeze_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *t = SELF;
    int64_t size[RUSH_MAXDIM + 1];
    int d = rush_dim_wrap(I_(in[1]), t->ndim + 1), sparse = t->parts->sparse_dim;
    RUSH_CHECK(IS_COO(t), RUSH_RUNTIME_ERROR, "Sparse CSR tensors do not have strides");
    if (d < 0) return -1;
    memcpy(size, t->size, sizeof *size * d);
    size[d] = 1;
    memcpy(size + d + 1, t->size + d, sizeof *size * (t->ndim - d));
    rush_tensor *indices = INDICES(t), *values = VALUES(t);
    if (d <= sparse) {
        rush_tensor *zero = T("new_zeros", V(indices), INTS(1, rush_nnz(t)));
        rush_tensor *all[3] = {d ? T("narrow", V(indices), V((int64_t)0), V((int64_t)0), V((int64_t)d)) : zero, zero,
                               d < sparse ? T("narrow", V(indices), V((int64_t)0), V((int64_t)d), V((int64_t)(sparse - d))) : NULL};
        rush_tensor **first = d ? all : all + 1;
        if (rush_failed()) return -1;
        indices = T("cat", rush_v_tensors(first, (size_t)(all + (d < sparse ? 3 : 2) - first)), V((int64_t)0));
    } else {
        values = unsqueeze(values, d - sparse + 1);
    }
    return rush_result(out, rush_coo_new(t->ndim + 1, size, indices, values, false));
}

static void unsqueeze_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0];
    if (!g) return;
    if (!g->layout) s->gin[0] = T("squeeze.dim", V(g), s->in[1]);
    else s->gin[0] = T("select.int", V(g), s->in[1], V((int64_t)0));
}

static rush_op sparse_unsqueeze = {.schema = "unsqueeze", .run = unsqueeze_run, .grad = unsqueeze_grad};

/* ---- selecting ---- */

/* The entries in which `row` (a row of indices) has numbers that `keep` says yes to: their positions. */
static rush_tensor *positions_of(const rush_tensor *indices, int d, int64_t low, int64_t high)
{
    rush_tensor *row = T("select.int", V((rush_tensor *)indices), V((int64_t)0), V((int64_t)d));
    rush_tensor *in = row ? T("logical_and", V(ge(row, low)), V(lt(row, high))) : NULL, *at = in ? T("nonzero", V(in)) : NULL;
    return at ? T("reshape", V(at), INTS(-1)) : NULL;
}

/* Entries at these positions, in a tensor of other sizes; `without` drops a row of the indices (-1: none). */
static rush_tensor *entries(rush_tensor *t, rush_tensor *at, int ndim, const int64_t *size, int without)
{
    int64_t order[RUSH_MAXDIM];
    int n = 0;
    for (int d = 0; d < t->parts->sparse_dim; ++d)
        if (d != without) order[n++] = d;
    rush_tensor *indices = at ? T("index_select", V(INDICES(t)), V((int64_t)1), V(at)) : NULL;
    if (indices && without >= 0) indices = rows_in_order(indices, n, order);
    return indices ? rush_coo_new(ndim, size, indices, T("index_select", V(VALUES(t)), V((int64_t)0), V(at)), false) : NULL;
}

/* The slice of dimension d, a sparse one, whose entries are at these positions. */
static rush_tensor *slice_of(rush_tensor *t, int d, rush_tensor *at)
{
    int64_t size[RUSH_MAXDIM];
    memcpy(size, t->size, sizeof *size * d);
    memcpy(size + d, t->size + d + 1, sizeof *size * (t->ndim - d - 1));
    if (t->parts->sparse_dim > 1) return entries(t, at, t->ndim - 1, size, d);
    rush_tensor *values = at ? T("index_select", V(VALUES(t)), V((int64_t)0), V(at)) : NULL; /* no sparse dimension is left */
    return values ? T("sum.dim_IntList", V(values), INTS(0), V(false), rush_v_dtype(values->dtype)) : NULL;
}

static rush_tensor *select_coo(rush_tensor *t, int d, int64_t i)
{
    int sparse = t->parts->sparse_dim;
    if (d < sparse) return slice_of(t, d, positions_of(INDICES(t), d, i, i + 1));
    int64_t size[RUSH_MAXDIM];
    memcpy(size, t->size, sizeof *size * d);
    memcpy(size + d, t->size + d + 1, sizeof *size * (t->ndim - d - 1));
    rush_tensor *values = T("select.int", V(VALUES(t)), V((int64_t)(d - sparse + 1)), V(i));
    return rush_coo_new(t->ndim - 1, size, INDICES(t), values, t->parts->coalesced);
}

/* One row of a CSR tensor (one column of a CSC one) lies in one piece: found without a walk over the others, and its values are shared. */
static rush_tensor *select_line(rush_tensor *t, const int64_t *size, int64_t i)
{
    rush_tensor *ends = T("narrow", V(t->parts->compressed), V((int64_t)0), V(i), V((int64_t)2));
    const int64_t *at = ends ? rush_numbers_of(ends) : NULL;
    if (!at) return NULL;
    rush_tensor *row = T("narrow", V(t->parts->plain), V((int64_t)0), V(at[0]), V(at[1] - at[0]));
    rush_tensor *values = T("narrow", V(VALUES(t)), V((int64_t)0), V(at[0]), V(at[1] - at[0]));
    rush_tensor *indices = row ? T("unsqueeze", V(rush_plain_numbers(row)), V((int64_t)0)) : NULL;
    return indices && values ? rush_coo_new(t->ndim - 1, size, indices, values, true) : NULL;
}

static int select_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *t = SELF;
    RUSH_CHECK(t->ndim, RUSH_INDEX_ERROR, "select() cannot be applied to a 0-dim tensor.");
    int d = rush_dim_wrap(I_(in[1]), t->ndim);
    if (d < 0) return -1;
    int64_t i = I_(in[2]), n = t->size[d];
    RUSH_CHECK(i >= -n && i < n, RUSH_INDEX_ERROR, "select(): index %lld out of range for tensor of size %s at dimension %d", (long long)i, rush_shape_of(t), d);
    if (i < 0) i += n;
    if (IS_COO(t)) return rush_result(out, select_coo(t, d, i));
    int batch = t->parts->batch_dim;
    int64_t size[RUSH_MAXDIM];
    memcpy(size, t->size, sizeof *size * d);
    memcpy(size + d, t->size + d + 1, sizeof *size * (t->ndim - d - 1));
    if (d < batch) { /* one of the batch */
        rush_tensor *c = T("select.int", V(t->parts->compressed), V((int64_t)d), V(i)), *p = T("select.int", V(t->parts->plain), V((int64_t)d), V(i));
        rush_tensor *v = T("select.int", V(VALUES(t)), V((int64_t)d), V(i));
        return rush_result(out, rush_sparse_new((rush_layout)t->layout, t->ndim - 1, size, c, p, v, 2, t->parts->dense_dim, true));
    }
    if (d >= batch + 2) {
        rush_tensor *v = T("select.int", V(VALUES(t)), V((int64_t)(d - t->ndim)), V(i));
        return rush_result(out, rush_sparse_new((rush_layout)t->layout, t->ndim - 1, size, t->parts->compressed, t->parts->plain, v, 2, t->parts->dense_dim - 1, true));
    }
    RUSH_CHECK(!batch, RUSH_RUNTIME_ERROR, "select(): selecting sparse dimensions is not supported for batched sparse compressed tensors.");
    if (d == (t->layout == RUSH_SPARSE_CSR ? 0 : t->layout == RUSH_SPARSE_CSC ? 1 : -1)) return rush_result(out, select_line(t, size, i));
    rush_tensor *line = select_coo(rush_as_coo(t), d, i);
    return rush_result(out, line && line->layout ? rush_coo_coalesced(line) : line);
}

/* g goes where the selected slice was. */
static void select_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0], *self = s->in[0].t;
    if (!g) return;
    if (g->layout && !IS_COO(g)) g = T("to_dense", V(g));
    int d = rush_dim_wrap(I_(s->in[1]), self->ndim);
    int64_t i = I_(s->in[2]) < 0 ? I_(s->in[2]) + self->size[d] : I_(s->in[2]);
    if (g && !g->layout) {
        s->gin[0] = T("select_backward", V(g), rush_v_ints(self->size, self->ndim), V((int64_t)d), V(i));
        return;
    }
    /* a new dimension of one entry, widened and moved */
    rush_tensor *up = g ? unsqueeze(g, d) : NULL;
    s->gin[0] = up ? T("_sparse_shifted", V(up), rush_v_ints(self->size, self->ndim), V((int64_t)d), V(i)) : NULL;
}

/* The dense and the sparse forms of moving entries along one dimension: what undoes select and narrow_copy. */
static int shifted_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *t = SELF;
    int d = (int)I_(in[2]), sparse = t->parts ? t->parts->sparse_dim : 0;
    int64_t by = I_(in[3]);
    if (rush_need_coo("_sparse_shifted", t)) return -1;
    RUSH_CHECK(I_(in[2]) >= 0 && I_(in[2]) < t->ndim && in[1].n == (uint32_t)t->ndim, RUSH_INDEX_ERROR, "_sparse_shifted: dimension %lld of a tensor of %d, and %u sizes", (long long)I_(in[2]),
               t->ndim, (unsigned)in[1].n);
    rush_tensor *indices = T("clone", V(INDICES(t))), *values = VALUES(t);
    if (!indices) return -1;
    if (d < sparse) {
        rush_tensor *row = T("select.int", V(indices), V((int64_t)0), V((int64_t)d));
        if (!row || !T_INPLACE("add.Tensor", V(row), V(by))) return -1;
    } else {
        int64_t size[RUSH_MAXDIM + 1];
        memcpy(size, values->size, sizeof *size * values->ndim);
        size[d - sparse + 1] = in[1].ints[d];
        rush_tensor *wide = T("new_zeros", V(values), rush_v_ints(size, values->ndim));
        rush_tensor *part = wide ? T("narrow", V(wide), V((int64_t)(d - sparse + 1)), V(by), V(values->size[d - sparse + 1])) : NULL;
        if (!part || !T("copy_", V(part), V(values))) return -1;
        values = wide;
    }
    return rush_result(out, rush_coo_new(t->ndim, in[1].ints, indices, values, t->parts->coalesced));
}
static void shifted_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0];
    int d = (int)I_(s->in[2]);
    if (g) s->gin[0] = T("narrow_copy", V(g), s->in[2], s->in[3], V(s->in[0].t->size[d]));
}
static rush_op op_shifted = {
    .schema = "_sparse_shifted(Tensor self, int[] size, int dim, int by) -> Tensor", .doc = "The entries of a COO tensor moved along dim, in a larger one.",
    .run = shifted_run, .grad = shifted_grad, .flags = RUSH_ANY_LAYOUT | RUSH_HIDDEN,
};

static int narrow_copy_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *t = SELF;
    RUSH_CHECK(IS_COO(t), RUSH_RUNTIME_ERROR, "Sparse CSR tensors do not have strides");
    RUSH_CHECK(t->ndim, RUSH_RUNTIME_ERROR, "narrow() cannot be applied to a 0-dim tensor.");
    int d = rush_dim_wrap(I_(in[1]), t->ndim), sparse = t->parts->sparse_dim;
    if (d < 0) return -1;
    int64_t start = I_(in[2]), length = I_(in[3]), size[RUSH_MAXDIM];
    RUSH_CHECK(length >= 0, RUSH_RUNTIME_ERROR, "narrow(): length must be non-negative.");
    RUSH_CHECK(start >= 0 && start <= t->size[d] && length <= t->size[d] - start, RUSH_RUNTIME_ERROR,
               "Invalid range to narrow. range(start, start+length) must be a subset of range(0, %lld).", (long long)t->size[d]);
    memcpy(size, t->size, sizeof *size * t->ndim);
    size[d] = length;
    if (d >= sparse) {
        rush_tensor *v = T("narrow", V(VALUES(t)), V((int64_t)(d - sparse + 1)), V(start), V(length));
        return rush_result(out, v ? rush_coo_new(t->ndim, size, INDICES(t), T("clone", V(v)), t->parts->coalesced) : NULL);
    }
    rush_tensor *part = entries(t, positions_of(INDICES(t), d, start, start + length), t->ndim, size, -1);
    if (!part) return -1;
    rush_tensor *row = T("select.int", V(INDICES(part)), V((int64_t)0), V((int64_t)d));
    if (!row || !T_INPLACE("sub.Tensor", V(row), V(start))) return -1;
    return rush_result(out, rush_coo_new(t->ndim, size, INDICES(part), VALUES(part), t->parts->coalesced));
}

static void narrow_copy_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0], *self = s->in[0].t;
    int d = rush_dim_wrap(I_(s->in[1]), self->ndim);
    int64_t start = I_(s->in[2]);
    if (!g) return;
    if (g->layout) s->gin[0] = T("_sparse_shifted", V(g), rush_v_ints(self->size, self->ndim), V((int64_t)d), V(start));
    else s->gin[0] = T("slice_backward", V(g), rush_v_ints(self->size, self->ndim), V((int64_t)d), V(start), V(start + I_(s->in[3])), V((int64_t)1));
}

static int index_select_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *t = SELF, *index = in[2].t;
    RUSH_CHECK(IS_COO(t), RUSH_NOT_IMPLEMENTED, "Could not run 'aten::index_select' with arguments from the 'SparseCsrCPU' backend.");
    RUSH_CHECK(t->ndim, RUSH_INDEX_ERROR, "index_select() cannot be applied to a 0-dim tensor.");
    RUSH_CHECK(!index->layout && index->ndim == 1 && (index->dtype == RUSH_I64 || index->dtype == RUSH_I32), RUSH_RUNTIME_ERROR,
               "index_select() argument index must be 1-D long-tensor.");
    int d = rush_dim_wrap(I_(in[1]), t->ndim), sparse = t->parts->sparse_dim;
    rush_tensor *plain = rush_plain_numbers(index), *indices = rush_plain_numbers(INDICES(t));
    if (d < 0 || !plain || !indices) return -1;
    int64_t m = plain->numel, high = t->size[d], size[RUSH_MAXDIM];
    rush_tensor *bad = T("logical_or", V(lt(plain, -high)), V(ge(plain, high))), *any = bad ? T("any", V(bad)) : NULL;
    if (!any) return -1;
    if (rush_number_of(any) != 0) {
        rush_tensor *first = T("index.Tensor", V(plain), rush_v_tensors(&bad, 1));
        const int64_t *k = first ? rush_numbers_of(first) : NULL;
        if (!k) return -1;
        return rush_fail(RUSH_INDEX_ERROR, "index_select(): index contains %lld that is out of range for tensor of size %s at dimension %d", (long long)*k, rush_shape_of(t), d);
    }
    rush_tensor *wanted = T("where.self", V(lt(plain, 0)), V(add(plain, high)), V(plain));
    if (!wanted) return -1;
    memcpy(size, t->size, sizeof *size * t->ndim);
    size[d] = m;
    if (d >= sparse) {
        rush_tensor *v = T("index_select", V(VALUES(t)), V((int64_t)(d - sparse + 1)), V(wanted));
        return rush_result(out, rush_coo_new(t->ndim, size, INDICES(t), v, t->parts->coalesced));
    }
    /* for every wanted number the entries that have it, found by sorting them once */
    rush_value sorted[RUSH_MAXOUT];
    rush_tensor *row = T("select.int", V(indices), V((int64_t)0), V((int64_t)d));
    if (!row || !rush_coo_keys_of(t) || TN(sorted, "sort.stable", V(row), V(true))) return -1;
    rush_tensor *starts = T("_row_starts", V(row), V(high));
    rush_value found[RUSH_MAXOUT];
    if (!starts || TN(found, "_row_entries", V(starts), sorted[1], V(wanted))) return -1;
    rush_tensor *at = found[0].t, *number = found[1].t;
    rush_tensor *part = entries(t, at, t->ndim, size, -1);
    row = part ? T("select.int", V(INDICES(part)), V((int64_t)0), V((int64_t)d)) : NULL;
    return row && T("copy_", V(row), V(number)) ? rush_result(out, part) : -1;
}

static rush_op sparse_select = {.schema = "select.int", .run = select_run, .grad = select_grad};
static rush_op sparse_narrow_copy = {.schema = "narrow_copy", .run = narrow_copy_run, .grad = narrow_copy_grad};
static rush_op sparse_index_select = {.schema = "index_select", .run = index_select_run, .grad = rush_no_derivative};

/* All slices of a sparse dimension: the entries are sorted once, where select() looks at every one. */
static int unbind_entries(rush_tensor **list, rush_tensor *t, int d, bool coalesced)
{
    rush_value sorted[RUSH_MAXOUT];
    rush_tensor *row = T("select.int", V(rush_plain_numbers(INDICES(t))), V((int64_t)0), V((int64_t)d)), *starts = row ? T("_row_starts", V(row), V(t->size[d])) : NULL;
    const int64_t *at = starts ? rush_numbers_of(starts) : NULL;
    if (!at || TN(sorted, "sort.stable", V(row), V(true))) return -1;
    for (int64_t i = 0; i < t->size[d]; ++i) {
        rush_tensor *slice = slice_of(t, d, T("narrow", sorted[1], V((int64_t)0), V(at[i]), V(at[i + 1] - at[i])));
        if (!(list[i] = slice && slice->layout && coalesced ? rush_coo_coalesced(slice) : slice)) return -1;
    }
    return 0;
}

static int unbind_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *t = SELF;
    int d = rush_dim_wrap(I_(in[1]), t->ndim);
    rush_tensor **list = d < 0 || !t->ndim ? NULL : rush_out_list(out, 0, (size_t)t->size[d]);
    if (!list) return rush_failed() ? -1 : rush_fail(RUSH_INDEX_ERROR, "Dimension specified as 0 but tensor has no dimensions");
    bool in_lines = d == (t->layout == RUSH_SPARSE_CSR ? 0 : t->layout == RUSH_SPARSE_CSC ? 1 : -1); /* see select_line() */
    if (IS_COO(t) ? d < t->parts->sparse_dim : d < 2 && !t->parts->batch_dim && !in_lines) {
        rush_tensor *coo = rush_as_coo(t);
        return coo ? unbind_entries(list, coo, d, !IS_COO(t)) : -1;
    }
    for (int64_t i = 0; i < t->size[d]; ++i)
        if (!(list[i] = T("select.int", in[0], V((int64_t)d), V(i)))) return -1;
    return 0;
}
static rush_op sparse_unbind = {.schema = "unbind.int", .run = unbind_run, .flags = RUSH_SAME_GRAD};

/* ---- joining ---- */

static rush_tensor *cat_coo(rush_tensor **list, size_t n, int d)
{
    rush_tensor *indices[64], **ids = n > 64 ? rush_scope_alloc(sizeof *ids * n) : indices, **vs = rush_scope_alloc(sizeof *vs * n);
    const rush_tensor *first = list[0];
    int sparse = first->parts->sparse_dim;
    int64_t size[RUSH_MAXDIM], at = 0;
    if (!ids || !vs) return NULL;
    memcpy(size, first->size, sizeof *size * first->ndim);
    size[d] = 0;
    for (size_t k = 0; k < n; ++k)
        RUSH_CHECK_NULL(!__builtin_add_overflow(size[d], list[k]->size[d], &size[d]), RUSH_RUNTIME_ERROR, "the tensors together are too large");
    for (size_t k = 0; k < n; at += list[k++]->size[d]) {
        rush_tensor *t = list[k];
        rush_tensor *moved = at || d >= sparse ? T("_sparse_shifted", V(t), rush_v_ints(size, t->ndim), V((int64_t)d), V(at)) : t;
        if (!moved) return NULL;
        ids[k] = INDICES(moved);
        vs[k] = VALUES(moved);
    }
    return rush_coo_new(first->ndim, size, T("cat", rush_v_tensors(ids, n), V((int64_t)1)), T("cat", rush_v_tensors(vs, n), V((int64_t)0)), false);
}

static int cat_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor **list = in[0].tensors, *first = list[0];
    for (uint32_t k = 0; k < in[0].n; ++k)
        if (list[k]->layout && !first->layout) first = list[k];
    RUSH_CHECK(IS_COO(first), RUSH_NOT_IMPLEMENTED, "Could not run 'aten::cat' with arguments from the 'SparseCsrCPU' backend.");
    int d = rush_dim_wrap(I_(in[1]), first->ndim);
    if (d < 0) return -1;
    RUSH_CHECK(first->ndim, RUSH_INDEX_ERROR, "Dimension out of range (expected to be in range of [-1, 0], but got 1)"); /* of the indices, which have no row */
    for (uint32_t k = 0; k < in[0].n; ++k) {
        const rush_tensor *t = list[k];
        RUSH_CHECK(IS_COO(t), RUSH_RUNTIME_ERROR, "Concatenating sparse tensors, but a dense tensor was found at position %u.", k);
        bool fits = t->ndim == first->ndim;
        for (int i = 0; i < t->ndim && fits; ++i) fits = i == d || t->size[i] == first->size[i];
        RUSH_CHECK(fits, RUSH_RUNTIME_ERROR, "All tensors must have the same shape: %s (except in the concatenating dimension), but found shape: %s at position %u.",
                   rush_shape_of(first), rush_shape_of(t), k);
        RUSH_CHECK(t->parts->sparse_dim == first->parts->sparse_dim, RUSH_RUNTIME_ERROR,
                   "All tensors must have the same sparse_dim and dense_dim: %d, %d, but tensor at position %u has %d, %d.", first->parts->sparse_dim,
                   first->parts->dense_dim, k, t->parts->sparse_dim, t->parts->dense_dim);
    }
    return rush_result(out, cat_coo(list, in[0].n, d));
}

static void cat_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0], **list = s->in[0].tensors;
    if (!g) return;
    int d = rush_dim_wrap(I_(s->in[1]), list[0]->ndim);
    int64_t at = 0;
    for (uint32_t k = 0; k < s->in[0].n; at += list[k++]->size[d])
        s->glist[0][k] = g->layout ? T("narrow_copy", V(g), V((int64_t)d), V(at), V(list[k]->size[d])) : T("narrow", V(g), V((int64_t)d), V(at), V(list[k]->size[d]));
}

static int stack_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor **list = rush_scope_alloc(sizeof *list * in[0].n);
    if (!list) return -1;
    for (uint32_t k = 0; k < in[0].n; ++k)
        if (!(list[k] = T("unsqueeze", V(in[0].tensors[k]), in[1]))) return -1;
    return rush_result(out, T("cat", rush_v_tensors(list, in[0].n), in[1]));
}

static rush_op sparse_cat = {.schema = "cat", .run = cat_run, .grad = cat_grad}, sparse_stack = {.schema = "stack", .run = stack_run};
static rush_op sparse_concat = {.schema = "concat"}, sparse_concatenate = {.schema = "concatenate"};

/* ---- complex pairs ---- */

static int view_as_real_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *t = SELF, *v = T("view_as_real", V(VALUES(t)));
    int64_t size[RUSH_MAXDIM + 1];
    RUSH_CHECK(IS_COO(t), RUSH_NOT_IMPLEMENTED, "Could not run 'aten::view_as_real' with arguments from the 'SparseCsrCPU' backend.");
    memcpy(size, t->size, sizeof *size * t->ndim);
    size[t->ndim] = 2;
    return rush_result(out, v ? rush_coo_new(t->ndim + 1, size, INDICES(t), v, t->parts->coalesced) : NULL);
}

static int view_as_complex_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *t = SELF;
    RUSH_CHECK(IS_COO(t) && t->parts->dense_dim, RUSH_RUNTIME_ERROR, "view_as_complex expects a COO tensor whose last dimension is dense");
    rush_tensor *v = T("view_as_complex", V(VALUES(t)));
    return rush_result(out, v ? rush_coo_new(t->ndim - 1, t->size, INDICES(t), v, t->parts->coalesced) : NULL);
}

static rush_op sparse_view_as_real = {.schema = "view_as_real", .run = view_as_real_run, .flags = RUSH_SAME_GRAD};
static rush_op sparse_view_as_complex = {.schema = "view_as_complex", .run = view_as_complex_run, .flags = RUSH_SAME_GRAD};

/* ---- what has no sparse form, said as PyTorch says it ---- */

static int reshape_run(const rush_op *op, const rush_value *in, rush_value *out) { return rush_fail(RUSH_RUNTIME_ERROR, "reshape is not implemented for sparse tensors"); }
static int expand_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_fail(RUSH_RUNTIME_ERROR, "expand is unsupported for %s tensors", rush_layout_word(SELF->layout));
}
static rush_op sparse_reshape = {.schema = "reshape", .run = reshape_run}, sparse_flatten = {.schema = "flatten.using_ints", .run = reshape_run};
static rush_op sparse_expand = {.schema = "expand", .run = expand_run}, sparse_expand_as = {.schema = "expand_as", .run = expand_run, .flags = RUSH_DENSE_FIRST};

RUSH_FAMILY(sparse_shape, &op_shifted)
RUSH_SPARSE(shape, &sparse_transpose, &sparse_t, &sparse_permute, &sparse_transpose_inplace, &sparse_t_inplace, &sparse_movedim, &sparse_movedims, &sparse_moveaxis,
            &sparse_numpy_t, &sparse_mt, &sparse_adjoint, &sparse_unsqueeze, &sparse_select, &sparse_narrow_copy, &sparse_index_select, &sparse_unbind, &sparse_cat,
            &sparse_stack, &sparse_concat, &sparse_concatenate, &sparse_view_as_real, &sparse_view_as_complex, &sparse_reshape, &sparse_flatten, &sparse_expand,
            &sparse_expand_as)
