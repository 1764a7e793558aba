/* parts.c - what a sparse tensor tells: indices, values, dimensions; coalesce; values at a pattern and a pattern with values.
 *
 * Gradients rest on two operations that undo each other: _sparse_values_at reads a tensor at the entries of a pattern,
 * _sparse_values_like makes a tensor of a pattern's indices and given values. All else is written with them.
 */
#include "ops/reduce/reduce.h"
#include "sparse/coo.h"

#define SELF (in[0].t)

static int need_sparse(const char *name, const rush_tensor *t)
{
    RUSH_CHECK(t->layout, RUSH_RUNTIME_ERROR, "%s expected sparse tensor layout but got %s", name, rush_layout_word(t->layout));
    return 0;
}

/* For questions that have no answer: PyTorch finds no kernel for them. */
static int no_backend(const char *name, const rush_tensor *t)
{
    return rush_fail(RUSH_NOT_IMPLEMENTED, "Could not run 'aten::%s' with arguments from the '%s' backend.", name,
                     !t->layout ? "CPU" : IS_COO(t) ? "SparseCPU" : "SparseCsrCPU");
}

static int shown(rush_value *out, rush_tensor *part)
{
    return rush_result(out, part ? rush_tensor_detach(part) : NULL);
}

/* ---- parts ---- */

static int indices_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (rush_need_coo("indices", SELF)) return -1;
    RUSH_CHECK(SELF->parts->coalesced, RUSH_RUNTIME_ERROR, "Cannot get indices on an uncoalesced tensor, please call .coalesce() first");
    return shown(out, INDICES(SELF));
}

static int plain_indices_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return IS_COO(SELF) ? shown(out, INDICES(SELF)) : no_backend("_indices", SELF);
}

static int plain_values_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return IS_COO(SELF) ? shown(out, VALUES(SELF)) : no_backend("_values", SELF);
}

static int values_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (need_sparse("values", SELF)) return -1;
    RUSH_CHECK(!IS_COO(SELF) || SELF->parts->coalesced, RUSH_RUNTIME_ERROR, "Cannot get values on an uncoalesced tensor, please call .coalesce() first");
    return shown(out, VALUES(SELF));
}

static void values_grad(rush_grads *s)
{
    if (s->g[0]) s->gin[0] = T("_sparse_values_like", s->in[0], V(s->g[0]));
}

static int compressed_part(const rush_value *in, rush_value *out, const char *name, bool by_row, bool compressed)
{
    RUSH_CHECK(IS_COMPRESSED(SELF) && rush_by_row(SELF->layout) == by_row, RUSH_RUNTIME_ERROR,
               "%s expected sparse %s compressed tensor layout but got %s", name, by_row ? "row" : "column", rush_layout_word(SELF->layout));
    return shown(out, compressed ? SELF->parts->compressed : SELF->parts->plain);
}

static int crow_indices_run(const rush_op *op, const rush_value *in, rush_value *out) { return compressed_part(in, out, "crow_indices", true, true); }
static int col_indices_run(const rush_op *op, const rush_value *in, rush_value *out) { return compressed_part(in, out, "col_indices", true, false); }
static int ccol_indices_run(const rush_op *op, const rush_value *in, rush_value *out) { return compressed_part(in, out, "ccol_indices", false, true); }
static int row_indices_run(const rush_op *op, const rush_value *in, rush_value *out) { return compressed_part(in, out, "row_indices", false, false); }

#define PART(id, name, at, words, more)                                                                     \
    static rush_op op_##id = {.schema = name "(Tensor(a) self) -> Tensor(a)", .method = at, .doc = words, .run = id##_run, more}
#define ONLY_METHOD RUSH_METHOD | RUSH_NO_FUNCTION
#define PLAIN .flags = RUSH_ANY_LAYOUT | RUSH_NO_GRAD
PART(indices, "indices", ONLY_METHOD, "The coordinates of a coalesced COO tensor's entries, (sparse_dim, nnz).", PLAIN);
PART(plain_indices, "_indices", RUSH_METHOD, "The coordinates of a COO tensor's entries, coalesced or not.", PLAIN);
PART(plain_values, "_values", RUSH_METHOD, "The values of a COO tensor's entries, coalesced or not; not recorded.", PLAIN);
PART(crow_indices, "crow_indices", ONLY_METHOD, "Where each row's entries begin: (batch..., rows + 1).", PLAIN);
PART(col_indices, "col_indices", ONLY_METHOD, "The columns of the entries, row by row.", PLAIN);
PART(ccol_indices, "ccol_indices", ONLY_METHOD, "Where each column's entries begin: (batch..., columns + 1).", PLAIN);
PART(row_indices, "row_indices", ONLY_METHOD, "The rows of the entries, column by column.", PLAIN);
static rush_op op_values = {
    .schema = "values(Tensor(a) self) -> Tensor(a)", .method = RUSH_METHOD | RUSH_NO_FUNCTION, .doc = "The values of a sparse tensor's entries.", .run = values_run, .grad = values_grad,
    .saves = "self", .flags = RUSH_ANY_LAYOUT,
};

/* ---- numbers ---- */

static int number(rush_value *out, int64_t n) { return out[0] = rush_v_int(n), 0; }

static int nnz_run(const rush_op *op, const rush_value *in, rush_value *out) { return SELF->layout ? number(out, rush_nnz(SELF)) : no_backend("_nnz", SELF); }
static int sparse_dim_run(const rush_op *op, const rush_value *in, rush_value *out) { return number(out, SELF->layout ? SELF->parts->sparse_dim : 0); }
static int dense_dim_run(const rush_op *op, const rush_value *in, rush_value *out) { return number(out, SELF->layout ? SELF->parts->dense_dim : SELF->ndim); }
static int dim_i_run(const rush_op *op, const rush_value *in, rush_value *out) { return IS_COO(SELF) ? number(out, SELF->parts->sparse_dim) : no_backend("_dimI", SELF); }
static int dim_v_run(const rush_op *op, const rush_value *in, rush_value *out) { return IS_COO(SELF) ? number(out, SELF->parts->dense_dim) : no_backend("_dimV", SELF); }
static int is_coalesced_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (rush_need_coo("is_coalesced", SELF)) return -1;
    return out[0] = rush_v_bool(SELF->parts->coalesced), 0;
}

#define QUESTION(id, name, at, result, words)                                                               \
    static rush_op op_##id = {.schema = name "(Tensor self) -> " result, .method = at, .doc = words, .run = id##_run, PLAIN}
QUESTION(nnz, "_nnz", RUSH_METHOD, "int", "How many entries; of batches, in each.");
QUESTION(sparse_dim, "sparse_dim", ONLY_METHOD, "int", "How many dimensions have indices.");
QUESTION(dense_dim, "dense_dim", ONLY_METHOD, "int", "How many dimensions lie dense within each value.");
QUESTION(dim_i, "_dimI", RUSH_METHOD, "int", "sparse_dim() of COO tensors.");
QUESTION(dim_v, "_dimV", RUSH_METHOD, "int", "dense_dim() of COO tensors.");
QUESTION(is_coalesced, "is_coalesced", ONLY_METHOD, "bool", "Are a COO tensor's indices sorted and distinct?");

/* ---- coalesce ---- */

static int coalesce_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (rush_need_coo("coalesce", SELF)) return -1;
    return rush_result(out, SELF->parts->coalesced ? SELF : T("_coalesce", V(SELF)));
}

static int do_coalesce_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return IS_COO(SELF) ? rush_result(out, rush_coo_coalesced(SELF)) : no_backend("_coalesce", SELF);
}

static void pass_grad(rush_grads *s)
{
    s->gin[0] = s->g[0];
}

static rush_op op_coalesce = {
    .schema = "coalesce(Tensor(a) self) -> Tensor(a)", .method = RUSH_METHOD | RUSH_NO_FUNCTION, .doc = "A COO tensor with its indices sorted and the values of equal ones added up.",
    .run = coalesce_run, .flags = RUSH_ANY_LAYOUT,
};
static rush_op op_do_coalesce = {
    .schema = "_coalesce(Tensor self) -> Tensor", .doc = "coalesce() where there is something to do.", .run = do_coalesce_run, .grad = pass_grad,
    .flags = RUSH_ANY_LAYOUT,
};

static int coalesced_set_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (!IS_COO(SELF)) return no_backend("_coalesced_", SELF);
    SELF->parts->coalesced = I_(in[1]);
    return rush_result(out, SELF);
}
static rush_op op_coalesced_set = {
    .schema = "_coalesced_(Tensor(a!) self, bool coalesced) -> Tensor(a!)", .method = RUSH_METHOD_, .doc = "Says that a COO tensor is coalesced, unchecked.",
    .run = coalesced_set_run, .flags = RUSH_ANY_LAYOUT | RUSH_SIDE_EFFECT,
};

/* ---- values at a pattern, and back ---- */

static int values_at_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *t = SELF, *pattern = in[1].t;
    if (need_sparse("_sparse_values_at", pattern)) return -1;
    RUSH_CHECK(rush_same_sizes(t, pattern), RUSH_RUNTIME_ERROR, "a tensor of size %s has no values at the entries of one of size %s", rush_shape_of(t),
               rush_shape_of(pattern));
    if (t->layout == pattern->layout && t->parts->plain == pattern->parts->plain && t->parts->compressed == pattern->parts->compressed && pattern->parts->coalesced)
        return shown(out, VALUES(t));
    rush_tensor *values = rush_values_at(t->layout ? rush_as_coo(t) : t, rush_as_coo(pattern)), *like = VALUES(pattern);
    return rush_result(out, values ? T("reshape", V(values), rush_v_ints(like->size, like->ndim)) : NULL);
}

static void values_at_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0] ? T("_sparse_values_like", s->in[1], V(s->g[0])) : NULL;
    if (!g) return;
    int layout = s->in[0].t->layout;
    if (layout == RUSH_STRIDED) g = T("to_dense", V(g));
    else if (layout == RUSH_SPARSE_COO) g = T("coalesce", V(IS_COO(g) ? g : T("to_sparse", V(g))));
    s->gin[0] = g;
}

static rush_op op_values_at = {
    .schema = "_sparse_values_at(Tensor self, Tensor pattern) -> Tensor", .doc = "The values of self at the entries of a sparse tensor.",
    .run = values_at_run, .grad = values_at_grad, .saves = "pattern", .flags = RUSH_ANY_LAYOUT | RUSH_HIDDEN,
};

static int values_like_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (need_sparse("_sparse_values_like", SELF)) return -1;
    RUSH_CHECK(!in[1].t->layout && rush_same_sizes(VALUES(SELF), in[1].t), RUSH_RUNTIME_ERROR, "values have size %s, the pattern's have %s", rush_shape_of(in[1].t),
               rush_shape_of(VALUES(SELF)));
    return rush_result(out, rush_sparse_with(SELF, rush_tensor_detach(in[1].t)));
}

static void values_like_grad(rush_grads *s)
{
    if (s->g[0] && rush_needs(s, 1)) s->gin[1] = T("_sparse_values_at", V(s->g[0]), s->in[0]);
}

static rush_op op_values_like = {
    .schema = "_sparse_values_like(Tensor pattern, Tensor values) -> Tensor", .doc = "A sparse tensor of the indices of another one.",
    .run = values_like_run, .grad = values_like_grad, .saves = "pattern", .flags = RUSH_ANY_LAYOUT | RUSH_HIDDEN,
};

static int mask_fits(const rush_tensor *self, const rush_tensor *mask)
{
    if (need_sparse("sparse_mask", mask)) return -1;
    RUSH_CHECK(rush_same_sizes(self, mask), RUSH_RUNTIME_ERROR, "sparse_mask(): operands have incompatible sizes; self has size %s but mask has size %s",
               rush_shape_of(self), rush_shape_of(mask));
    if (!self->layout) return 0;
    RUSH_CHECK(self->parts->sparse_dim == mask->parts->sparse_dim || self->layout != mask->layout, RUSH_RUNTIME_ERROR,
               "sparse_mask(): the number of sparse dimensions in `self` should match that of the `mask`. Got `self.sparse_dim() == %d` != "
               "`mask.sparse_dim() == %d`.", self->parts->sparse_dim, mask->parts->sparse_dim);
    RUSH_CHECK(!IS_COMPRESSED(self) || IS_COMPRESSED(mask), RUSH_RUNTIME_ERROR,
               "sparse_mask_sparse_compressed expects mask to have sparse compressed layout, got %s", rush_layout_word(mask->layout));
    return 0;
}

static int sparse_mask_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (mask_fits(SELF, in[1].t)) return -1;
    rush_tensor *values = T("_sparse_values_at", in[0], in[1]);
    return rush_result(out, values ? T("_sparse_values_like", in[1], V(values)) : NULL);
}

static void sparse_mask_grad(rush_grads *s)
{
    if (!s->g[0] || !rush_needs(s, 0)) return;
    rush_tensor *values = T("_sparse_values_at", V(s->g[0]), s->in[1]);
    rush_grads at = *s;
    at.g = &values;
    values_at_grad(&at);
}

static rush_op op_sparse_mask = {
    .schema = "sparse_mask(Tensor self, Tensor mask) -> Tensor", .method = RUSH_METHOD | RUSH_NO_FUNCTION, .doc = "self at the entries of a sparse tensor, in its layout.", .run = sparse_mask_run,
    .grad = sparse_mask_grad, .saves = "mask", .flags = RUSH_ANY_LAYOUT,
};

/* ---- the two forms of sorted row indices: one per entry, and where each row begins ---- */

static int need_indices(const char *name, const rush_tensor *t)
{
    RUSH_CHECK(t->dtype == RUSH_I64 || t->dtype == RUSH_I32, RUSH_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", name, rush_dtype_word(t->dtype));
    return 0;
}

static rush_tensor *counting(int64_t n, const rush_tensor *like)
{
    return T("arange", V(n), rush_v_dtype((rush_dtype)like->dtype), RUSH_NONE, (rush_value){.kind = RUSH_V_DEVICE, .device = like->device});
}

static int rows_to_starts_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    int64_t size = I_(in[1]);
    if (need_indices("convert_indices_from_coo_to_csr_cpu", SELF)) return -1;
    RUSH_CHECK(SELF->ndim == 1, RUSH_RUNTIME_ERROR, "Input is supposed to be a vector, but got %d dimensional tensor.", SELF->ndim);
    RUSH_CHECK(size > -2, RUSH_RUNTIME_ERROR, "Trying to create tensor with negative dimension %lld: [%lld]", (long long)size + 1, (long long)size + 1);
    RUSH_CHECK(size < INT64_MAX, RUSH_RUNTIME_ERROR, "%lld rows are too many", (long long)size);
    rush_tensor *row = counting(size + 1, SELF);
    return rush_result(out, row ? T("searchsorted.Tensor", in[0], V(row), in[2]) : NULL);
}

static int starts_to_rows_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *starts = SELF, *minor = in[1].t, *all[RUSH_MAXDIM + 1];
    if (need_indices("convert_indices_from_csr_to_coo_cpu", starts) || need_indices("convert_indices_from_csr_to_coo_cpu", minor)) return -1;
    RUSH_CHECK(starts->ndim > 0 && starts->ndim == minor->ndim && !memcmp(starts->size, minor->size, sizeof *starts->size * (starts->ndim - 1)), RUSH_RUNTIME_ERROR,
               "compressed indices %s and plain indices %s do not belong to one tensor", rush_shape_of(starts), rush_shape_of(minor));
    int batch = starts->ndim - 1;
    rush_value size = rush_v_ints(minor->size, minor->ndim), dtype = rush_v_dtype(I_(in[2]) ? RUSH_I32 : RUSH_I64);
    for (int d = 0; d < batch; ++d) {
        all[d] = counting(minor->size[d], starts);
        for (int i = d; all[d] && i < batch; ++i) all[d] = unsqueeze(all[d], -1);
        all[d] = all[d] ? T("expand", V(all[d]), size) : NULL;
    }
    rush_tensor *entry = counting(minor->size[batch], starts);
    entry = entry ? T("expand", V(entry), size) : NULL;
    rush_tensor *after = entry ? T("searchsorted.Tensor", V(starts), V(entry), V(false), V(true)) : NULL;
    bool turned = I_(in[3]);
    all[batch + turned] = after ? T("sub.Scalar", V(after), V((int64_t)1)) : NULL;
    all[batch + !turned] = minor;
    for (int d = 0; d < batch + 2; ++d) {
        all[d] = all[d] ? T("reshape", V(all[d]), INTS(-1)) : NULL;
        if (all[d]) all[d] = T("_to_dtype", V(all[d]), dtype);
        if (!all[d]) return -1;
    }
    return rush_result(out, T("stack", rush_v_tensors(all, batch + 2), V((int64_t)0)));
}

static rush_op op_rows_to_starts = {
    .schema = "_convert_indices_from_coo_to_csr(Tensor self, int size, *, bool out_int32=False) -> Tensor",
    .doc = "Where each row begins, of sorted row indices.", .run = rows_to_starts_run, .flags = RUSH_NO_GRAD | RUSH_HIDDEN,
};
static rush_op op_starts_to_rows = {
    .schema = "_convert_indices_from_csr_to_coo(Tensor crow_indices, Tensor col_indices, *, bool out_int32=False, bool transpose=False) -> Tensor",
    .doc = "Coordinates of entries, of where each row begins.", .run = starts_to_rows_run, .flags = RUSH_NO_GRAD | RUSH_HIDDEN,
};

RUSH_FAMILY(sparse_parts, &op_rows_to_starts, &op_starts_to_rows, &op_indices, &op_plain_indices, &op_plain_values, &op_crow_indices, &op_col_indices, &op_ccol_indices, &op_row_indices,
            &op_values, &op_nnz, &op_sparse_dim, &op_dense_dim, &op_dim_i, &op_dim_v, &op_is_coalesced, &op_coalesce, &op_do_coalesce,
            &op_coalesced_set, &op_values_at, &op_values_like, &op_sparse_mask)
