/* make.c - sparse tensors made of indices and values, and the checks of both.
 *
 * What is structure (ranks and sizes that belong together) is always checked, so that the rest may rely on it. Whether
 * indices lie within the size is checked when asked for (_validate_...), and again by whatever reads them.
 */
#include "ops/create/factory.h"
#include "ops/geometry.h"
#include "sparse/coo.h"

#define OPTIONS "*, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None"

/* Values as a part: in the dtype that is asked for, outside of graphs. */
static rush_tensor *as_values(rush_tensor *values, rush_value dtype)
{
    if (HAS(dtype) && I_(dtype) != values->dtype) values = rush_cast_copy(values, (rush_dtype)I_(dtype));
    return values ? rush_tensor_detach(values) : NULL;
}

static rush_tensor *as_indices(rush_tensor *indices)
{
    RUSH_CHECK_NULL(rush_dtypes[indices->dtype].category <= 1, RUSH_RUNTIME_ERROR, "indices must be an int64 tensor");
    rush_tensor *plain = rush_cast_copy(indices, RUSH_I64);
    return plain ? rush_tensor_detach(plain) : NULL;
}

/* ---- COO ---- */

static int coo_parts_fit(const rush_tensor *indices, const rush_tensor *values)
{
    RUSH_CHECK(!indices->layout && !values->layout, RUSH_RUNTIME_ERROR, "expected indices and values to be dense tensors");
    if (rush_sparse_place(indices->device) || rush_sparse_place(values->device)) return -1;
    RUSH_CHECK(indices->ndim == 2, RUSH_RUNTIME_ERROR, "indices must be sparse_dim x nnz, but got: %s", rush_shape_of(indices));
    RUSH_CHECK(values->ndim && indices->size[1] == values->size[0], RUSH_RUNTIME_ERROR,
               "indices and values must have same nnz, but got nnz from indices: %lld, nnz from values: %lld", (long long)indices->size[1],
               (long long)(values->ndim ? values->size[0] : 1));
    return 0;
}

static int coo_fits(const rush_tensor *indices, const rush_tensor *values, rush_value size)
{
    if (coo_parts_fit(indices, values)) return -1;
    int64_t sparse = indices->size[0], dense = values->ndim - 1, want[RUSH_MAXDIM + 1];
    RUSH_CHECK((int64_t)size.n == sparse + dense, RUSH_RUNTIME_ERROR,
               "'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = %u, sparse_dim = %lld, dense_dim = %lld", size.n, (long long)sparse,
               (long long)dense);
    want[0] = values->size[0];
    memcpy(want + 1, size.ints + sparse, sizeof *want * (size_t)dense);
    RUSH_CHECK(!memcmp(want, values->size, sizeof *want * (size_t)values->ndim), RUSH_RUNTIME_ERROR, "values has incorrect size, expected %s, got %s",
               rush_shape_text(values->ndim, want), rush_shape_of(values));
    return 0;
}

static int coo_validate_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (coo_fits(in[0].t, in[1].t, in[2])) return -1;
    rush_value none[RUSH_MAXOUT];
    rush_tensor *plain = as_indices(in[0].t);
    if (!plain || TN(none, "_coo_within", V(plain), in[2])) return -1;
    if (!HAS(in[3]) || !I_(in[3])) return 0;
    rush_tensor *keys = rush_coo_keys(plain, (int)plain->size[0], in[2].ints);
    if (!keys || keys->numel < 2) return keys ? 0 : -1;
    rush_tensor *up = gt(T("narrow", V(keys), V(0), V(1), V(keys->numel - 1)), T("narrow", V(keys), V(0), V(0), V(keys->numel - 1)));
    return up && TN(none, "_assert_async.msg", V(T("all", V(up))), rush_v_string("cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor")) == 0 ? 0 : -1;
}
static rush_op op_coo_validate = {
    .schema = "_validate_sparse_coo_tensor_args(Tensor indices, Tensor values, int[] size, bool? is_coalesced=None, bool? check_pinning=None) -> ()",
    .doc = "Do these make a COO tensor? An error if not.", .run = coo_validate_run, .flags = RUSH_NO_GRAD | RUSH_HIDDEN,
};

static int coo_of_parts_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *indices = in[3].t, *values = in[4].t;
    if (coo_fits(indices, values, in[2])) return -1;
    indices = as_indices(indices);
    values = as_values(values, in[5]);
    rush_tensor *t = rush_coo_new((int)in[2].n, in[2].ints, indices, values, HAS(in[9]) && I_(in[9]));
    if (t && HAS(in[9])) t->parts->coalesced = I_(in[9]); /* else what has one entry is coalesced */
    return rush_result(out, t);
}

static void coo_of_parts_grad(rush_grads *s)
{
    if (s->g[0] && rush_needs(s, 4)) s->gin[4] = T("_sparse_values_at", V(s->g[0]), s->out[0]);
}

static rush_op op_coo_of_parts = {
    .schema = "_sparse_coo_tensor_with_dims_and_tensors(int sparse_dim, int dense_dim, SymInt[] size, Tensor indices, Tensor values, " OPTIONS
              ", bool? is_coalesced=None) -> Tensor",
    .doc = "A COO tensor of indices (sparse_dim, nnz) and values (nnz, ...).", .run = coo_of_parts_run, .grad = coo_of_parts_grad, .saves = "result",
    .flags = RUSH_HIDDEN,
};

static rush_tensor *coo_of(rush_tensor *indices, rush_tensor *values, rush_value size, const rush_value *options)
{
    if (coo_parts_fit(indices, values)) return NULL;
    return T("_sparse_coo_tensor_with_dims_and_tensors", V(indices->size[0]), V((int64_t)values->ndim - 1), size, V(indices), V(values), options[0], options[1],
             options[2], options[3], options[4]);
}

static int coo_sized_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_result(out, coo_of(in[0].t, in[1].t, in[2], in + 3));
}

static int coo_unsized_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *indices = in[0].t, *values = in[1].t;
    int64_t size[RUSH_MAXDIM];
    if (coo_parts_fit(indices, values)) return -1;
    int64_t sparse = indices->size[0], n = indices->size[1], dense = values->ndim - 1;
    RUSH_CHECK(sparse + dense <= RUSH_MAXDIM, RUSH_RUNTIME_ERROR, "tensors have at most %d dimensions", RUSH_MAXDIM);
    rush_value none[RUSH_MAXOUT];
    rush_tensor *plain = as_indices(indices);
    if (!plain || TN(none, "_coo_within", V(plain), RUSH_NONE)) return -1;
    memset(size, 0, sizeof *size * (size_t)sparse);
    const int64_t *most = sparse && n ? rush_numbers_of(add(T("amax", V(plain), INTS(1)), 1)) : size;
    if (!most) return -1;
    if (most != size) memcpy(size, most, sizeof *size * (size_t)sparse);
    memcpy(size + sparse, values->size + 1, sizeof *size * (size_t)dense);
    return rush_result(out, coo_of(plain, values, rush_v_ints(size, (size_t)(sparse + dense)), in + 2));
}

static int coo_empty_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    factory f;
    rush_value options[4] = {in[1], RUSH_NONE, in[3], in[4]};
    if (rush_factory_read(&f, options, rush_default_dtype(), NULL)) return -1;
    return rush_result(out, rush_sparse_empty(RUSH_SPARSE_COO, f.dtype, f.device, (int)in[0].n, in[0].ints));
}

static int coo_dims_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    int64_t sparse = I_(in[0]), dense = I_(in[1]), size[RUSH_MAXDIM + 1];
    RUSH_CHECK(sparse >= 0 && sparse <= in[2].n && dense == in[2].n - sparse, RUSH_RUNTIME_ERROR,
               "'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = %u, sparse_dim = %lld, dense_dim = %lld", in[2].n, (long long)sparse,
               (long long)dense);
    factory f;
    rush_value options[4] = {in[3], RUSH_NONE, in[5], in[6]};
    if (rush_factory_read(&f, options, rush_default_dtype(), NULL)) return -1;
    size[0] = 0;
    memcpy(size + 1, in[2].ints + sparse, sizeof *size * (size_t)dense);
    rush_tensor *indices = rush_tensor_new(RUSH_I64, f.device, 2, (int64_t[]){sparse, 0}), *values = rush_tensor_new(f.dtype, f.device, (int)dense + 1, size);
    return rush_result(out, rush_coo_new((int)in[2].n, in[2].ints, indices, values, true));
}

#define COALESCED ", bool? is_coalesced=None) -> Tensor"
static rush_op op_coo_empty = {
    .schema = "sparse_coo_tensor.size(SymInt[] size, " OPTIONS ") -> Tensor", .doc = "A COO tensor without entries.", .run = coo_empty_run, .flags = RUSH_NO_GRAD,
};
static rush_op op_coo_unsized = {
    .schema = "sparse_coo_tensor.indices(Tensor indices, Tensor values, " OPTIONS COALESCED,
    .doc = "A COO tensor just large enough for its indices.", .run = coo_unsized_run,
};
static rush_op op_coo_sized = {
    .schema = "sparse_coo_tensor.indices_size(Tensor indices, Tensor values, SymInt[] size, " OPTIONS COALESCED,
    .doc = "A COO tensor: value k lies at the coordinates indices[:, k]; values at equal coordinates add up.", .run = coo_sized_run,
};
static rush_op op_coo_unsafe = {
    .schema = "_sparse_coo_tensor_unsafe(Tensor indices, Tensor values, SymInt[] size, " OPTIONS COALESCED,
    .doc = "sparse_coo_tensor() whose indices are not checked.", .run = coo_sized_run, .flags = RUSH_HIDDEN,
};
static rush_op op_coo_dims = {
    .schema = "_sparse_coo_tensor_with_dims(int sparse_dim, int dense_dim, SymInt[] size, " OPTIONS ") -> Tensor",
    .doc = "A COO tensor without entries, of so many sparse and dense dimensions.", .run = coo_dims_run, .flags = RUSH_NO_GRAD | RUSH_HIDDEN,
};

/* ---- compressed layouts ---- */

typedef struct words { /* what its parts are called in messages */
    const char *compressed, *plain, *major, *minor;
} words;

static const words by_row = {"crow_indices", "col_indices", "row", "ncols"}, by_column = {"ccol_indices", "row_indices", "column", "nrows"};

static int is_compressed(const char *name, rush_value layout)
{
    RUSH_CHECK(HAS(layout) && I_(layout) > RUSH_SPARSE_COO, RUSH_RUNTIME_ERROR, "%s expected sparse compressed tensor layout but got %s", name,
               HAS(layout) ? rush_layout_word((int)I_(layout)) : "none");
    return 0;
}

/* Ranks, without which nothing else can be read. */
static int ranks_fit(const words *w, const rush_tensor *c, const rush_tensor *p, const rush_tensor *v, rush_value size, int layout)
{
    RUSH_CHECK(!c->layout && !p->layout && !v->layout, RUSH_RUNTIME_ERROR, "expected indices and values to be strided tensors");
    if (rush_sparse_place(c->device) || rush_sparse_place(p->device) || rush_sparse_place(v->device)) return -1;
    RUSH_CHECK(c->ndim >= 1, RUSH_RUNTIME_ERROR, "%s must have dimensionality >= 1 but got %d", w->compressed, c->ndim);
    RUSH_CHECK(c->ndim == p->ndim, RUSH_RUNTIME_ERROR, "%s and %s dimensionalities must be equal but got %d and %d, respectively", w->compressed, w->plain,
               c->ndim, p->ndim);
    int batch = c->ndim - 1, block = rush_blocked(layout) ? 2 : 0;
    RUSH_CHECK(v->ndim > batch + block, RUSH_RUNTIME_ERROR, "values must have dimensionality > sum of batch and block dimensionalities (=%d + %d) but got %d", batch,
               block, v->ndim);
    int dense = v->ndim - batch - block - 1;
    RUSH_CHECK((int)size.n == batch + 2 + dense, RUSH_RUNTIME_ERROR,
               "tensor dimensionality must be sum of batch, base, and dense dimensionalities (=%d + 2 + %d) but got %u", batch, dense, size.n);
    return 0;
}

static int sizes_fit(const words *w, const rush_tensor *c, const rush_tensor *p, const rush_tensor *v, rush_value size, int layout)
{
    int batch = c->ndim - 1, dense = (int)size.n - batch - 2;
    int64_t block[2] = {1, 1};
    if (rush_blocked(layout)) memcpy(block, v->size + batch + 1, sizeof block);
    for (int i = 0; i < 2; ++i) {
        RUSH_CHECK(block[i] > 0, RUSH_RUNTIME_ERROR, "blocksize[%d] must be positive", i);
        RUSH_CHECK(size.ints[batch + i] % block[i] == 0, RUSH_RUNTIME_ERROR,
                   "tensor shape[%d] (=%lld) must be divisible with blocksize[%d] (=%lld) as defined by values shape", batch + i, (long long)size.ints[batch + i], i,
                   (long long)block[i]);
    }
    bool same = batch == 0 || (!memcmp(c->size, p->size, sizeof *c->size * batch) && !memcmp(c->size, v->size, sizeof *c->size * batch) &&
                               !memcmp(c->size, size.ints, sizeof *c->size * batch));
    RUSH_CHECK(same, RUSH_RUNTIME_ERROR, "all batch dimensions of %s (=%s), %s (=%s), values (=%s), and the size must be equal", w->compressed,
               rush_shape_text(batch, c->size), w->plain, rush_shape_text(batch, p->size), rush_shape_text(batch, v->size));
    int major = rush_by_row(layout) ? 0 : 1;
    int64_t majors = size.ints[batch + major] / block[major];
    RUSH_CHECK(c->size[batch] - 1 == majors, RUSH_RUNTIME_ERROR, "%s.shape[-1] must be equal to the number of %ss%s + 1 (=%llu), but got %lld", w->compressed,
               w->major, rush_blocked(layout) ? " blocks" : "", (unsigned long long)majors + 1, (long long)c->size[batch]);
    RUSH_CHECK(p->size[batch] == v->size[batch], RUSH_RUNTIME_ERROR, "%s.shape[-1] must be equal to nnz (=%lld) as defined by values.shape[%d], but got %lld", w->plain,
               (long long)v->size[batch], batch, (long long)p->size[batch]);
    RUSH_CHECK(!dense || !memcmp(v->size + v->ndim - dense, size.ints + batch + 2, sizeof *v->size * dense), RUSH_RUNTIME_ERROR,
               "values.shape[-%d:] (=%s) must be equal to the dense sizes (=%s)", dense, rush_shape_text(dense, v->size + v->ndim - dense),
               rush_shape_text(dense, size.ints + batch + 2));
    return 0;
}

static int index_types_fit(const words *w, const rush_tensor *c, const rush_tensor *p)
{
    RUSH_CHECK(c->dtype == p->dtype, RUSH_RUNTIME_ERROR, "%s and %s must have the same dtype, bot got %s and %s, respectively", w->compressed, w->plain,
               rush_dtype_word(c->dtype), rush_dtype_word(p->dtype));
    RUSH_CHECK(c->dtype == RUSH_I64 || c->dtype == RUSH_I32, RUSH_RUNTIME_ERROR, "%s and %s dtype must be Int or Long, but got %s", w->compressed, w->plain,
               rush_dtype_word(c->dtype));
    return 0;
}

static int compressed_validate_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (is_compressed("validate_sparse_compressed_tensor_args", in[4])) return -1;
    int layout = (int)I_(in[4]);
    const rush_tensor *c = in[0].t, *p = in[1].t, *v = in[2].t;
    const words *w = rush_by_row(layout) ? &by_row : &by_column;
    if (ranks_fit(w, c, p, v, in[3], layout) || sizes_fit(w, c, p, v, in[3], layout) || index_types_fit(w, c, p)) return -1;
    int batch = c->ndim - 1, minor = rush_by_row(layout) ? 1 : 0;
    int64_t minors = in[3].ints[batch + minor] / (rush_blocked(layout) ? v->size[batch + 1 + minor] : 1);
    rush_value none[RUSH_MAXOUT];
    rush_tensor *starts = rush_plain_numbers(c), *plain = rush_plain_numbers(p);
    int64_t batches = c->size[batch] ? c->numel / c->size[batch] : 0;
    starts = starts ? T("view", V(starts), INTS(batches, c->size[batch])) : NULL;
    plain = plain ? T("view", V(plain), INTS(batches, v->size[batch])) : NULL;
    return starts && plain && !TN(none, "_compressed_validate", V(starts), V(plain), V(minors), V((bool)rush_by_row(layout))) ? 0 : -1;
}
static rush_op op_compressed_validate = {
    .schema = "_validate_sparse_compressed_tensor_args(Tensor compressed_indices, Tensor plain_indices, Tensor values, int[] size, Layout layout, "
              "bool? check_pinning=None) -> ()",
    .doc = "Do these make a tensor of a compressed layout? An error if not.", .run = compressed_validate_run, .flags = RUSH_NO_GRAD | RUSH_HIDDEN,
};

static int compressed_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (is_compressed("sparse_compressed_tensor", in[5])) return -1;
    int layout = (int)I_(in[5]);
    rush_tensor *c = in[0].t, *p = in[1].t, *v = in[2].t;
    const words *w = rush_by_row(layout) ? &by_row : &by_column;
    if (ranks_fit(w, c, p, v, in[3], layout) || sizes_fit(w, c, p, v, in[3], layout) || index_types_fit(w, c, p)) return -1;
    int dense = (int)in[3].n - c->ndim - 1;
    c = rush_tensor_detach(c);
    p = rush_tensor_detach(p);
    v = as_values(v, in[4]);
    return rush_result(out, rush_sparse_new((rush_layout)layout, (int)in[3].n, in[3].ints, c, p, v, 2, dense, true));
}

static void compressed_grad(rush_grads *s)
{
    if (s->g[0] && rush_needs(s, 2)) s->gin[2] = T("_sparse_values_at", V(s->g[0]), s->out[0]);
}

/* The size just large enough for the indices. */
static int compressed_unsized_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (is_compressed("sparse_compressed_tensor", in[4])) return -1;
    int layout = (int)I_(in[4]);
    const rush_tensor *c = in[0].t, *p = in[1].t, *v = in[2].t;
    if (rush_sparse_place(p->device)) return -1;
    int64_t size[RUSH_MAXDIM + 2], most = 0, block[2] = {1, 1};
    int batch = c->ndim - 1, blocks = rush_blocked(layout) ? 2 : 0, major = rush_by_row(layout) ? 0 : 1;
    RUSH_CHECK(p->device.type != RUSH_META, RUSH_NOT_IMPLEMENTED, "the size cannot be told from indices without memory: it has to be given");
    RUSH_CHECK(c->ndim >= 1 && v->ndim > batch + blocks, RUSH_RUNTIME_ERROR, "compressed indices %s and values %s do not belong together", rush_shape_of(c),
               rush_shape_of(v));
    if (blocks) memcpy(block, v->size + batch + 1, sizeof block);
    if (p->numel) {
        const int64_t *at = rush_numbers_of(T("amax", V((rush_tensor *)p), rush_v_ints(NULL, 0)));
        if (!at) return -1;
        RUSH_CHECK(*at < INT64_MAX / RUSH_MAX(block[0] * block[1], 1), RUSH_RUNTIME_ERROR, "the index %lld is too large for a size", (long long)*at);
        most = RUSH_MAX(0, *at + 1);
    }
    int dense = v->ndim - batch - blocks - 1;
    RUSH_CHECK(batch + 2 + dense <= RUSH_MAXDIM, RUSH_RUNTIME_ERROR, "tensors have at most %d dimensions", RUSH_MAXDIM);
    memcpy(size, c->size, sizeof *size * batch);
    size[batch + major] = (c->size[batch] - 1) * block[major];
    size[batch + !major] = most * block[!major];
    memcpy(size + batch + 2, v->size + v->ndim - dense, sizeof *size * dense);
    return rush_result(out, T("_sparse_compressed_tensor_unsafe", in[0], in[1], in[2], rush_v_ints(size, (size_t)(batch + 2 + dense)), in[3], in[4], in[5], in[6]));
}

static int compressed_sized_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_result(out, T("_sparse_compressed_tensor_unsafe", in[0], in[1], in[2], in[3], in[4], in[5], in[6], in[7]));
}

#define COMPRESSED "(Tensor compressed_indices, Tensor plain_indices, Tensor values, "
static rush_op op_compressed_unsafe = {
    .schema = "_sparse_compressed_tensor_unsafe" COMPRESSED "SymInt[] size, " OPTIONS ") -> Tensor",
    .doc = "sparse_compressed_tensor() whose indices are not checked.", .run = compressed_run, .grad = compressed_grad, .saves = "result",
    .flags = RUSH_HIDDEN,
};
static rush_op op_compressed_sized = {
    .schema = "sparse_compressed_tensor.comp_plain_value_size" COMPRESSED "SymInt[] size, " OPTIONS ") -> Tensor",
    .doc = "A tensor of layout CSR, CSC, BSR or BSC.", .run = compressed_sized_run,
};
static rush_op op_compressed_unsized = {
    .schema = "sparse_compressed_tensor.comp_plain_value" COMPRESSED OPTIONS ") -> Tensor",
    .doc = "A tensor of a compressed layout just large enough for its indices.", .run = compressed_unsized_run,
};

/* The same by the name of the layout. */
static int named_run(rush_layout layout, const rush_value *in, rush_value *out)
{
    return rush_result(out, T("sparse_compressed_tensor", in[0], in[1], in[2], in[3], in[4], rush_v_layout(layout), in[6], in[7]));
}

static int named_unsized_run(rush_layout layout, const rush_value *in, rush_value *out)
{
    return rush_result(out, T("sparse_compressed_tensor.comp_plain_value", in[0], in[1], in[2], in[3], rush_v_layout(layout), in[5], in[6]));
}

#define NAMED(NAME, LAYOUT, MAJOR, MINOR)                                                                                                                        \
    static int NAME##_run(const rush_op *op, const rush_value *in, rush_value *out) { return named_run(RUSH_SPARSE_##LAYOUT, in, out); }                         \
    static int NAME##_unsized_run(const rush_op *op, const rush_value *in, rush_value *out) { return named_unsized_run(RUSH_SPARSE_##LAYOUT, in, out); }         \
    static rush_op op_##NAME = {                                                                                                                                 \
        .schema = "sparse_" #NAME "_tensor." MAJOR "_" MINOR "_value_size(Tensor " MAJOR "_indices, Tensor " MINOR "_indices, Tensor values, int[] size, "       \
                  OPTIONS ") -> Tensor", .doc = "A tensor of layout " #LAYOUT ".", .run = NAME##_run};                                                           \
    static rush_op op_##NAME##_unsized = {                                                                                                                       \
        .schema = "sparse_" #NAME "_tensor." MAJOR "_" MINOR "_value(Tensor " MAJOR "_indices, Tensor " MINOR "_indices, Tensor values, " OPTIONS ") -> Tensor", \
        .doc = "A tensor of layout " #LAYOUT " just large enough for its indices.", .run = NAME##_unsized_run};
NAMED(csr, CSR, "crow", "col")
NAMED(csc, CSC, "ccol", "row")
NAMED(bsr, BSR, "crow", "col")
NAMED(bsc, BSC, "ccol", "row")

RUSH_FAMILY(sparse_make, &op_coo_validate, &op_coo_of_parts, &op_coo_empty, &op_coo_unsized, &op_coo_sized, &op_coo_unsafe, &op_coo_dims,
            &op_compressed_validate, &op_compressed_unsafe, &op_compressed_sized, &op_compressed_unsized,
            &op_csr, &op_csr_unsized, &op_csc, &op_csc_unsized, &op_bsr, &op_bsr_unsized, &op_bsc, &op_bsc_unsized)
