/* reduce.c - sums over dimensions, softmax, norms: on values, grouped by the indices that remain.
 *
 * All are composites over recorded operations on values, so that they need no derivatives.
 */
#include "sparse/coo.h"

#define SELF (in[0].t)

/* ---- everything ---- */

static int sum_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_result(out, T("sum", V(VALUES(SELF)), in[1]));
}

static int any_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *t = IS_COO(SELF) ? rush_coo_coalesced(SELF) : SELF;
    return rush_result(out, t ? T("any", V(VALUES(t))) : NULL);
}

static rush_op sparse_sum = {.schema = "sum", .run = sum_run, .flags = RUSH_SAME_GRAD};
static rush_op sparse_any = {.schema = "any", .run = any_run};

/* The values with equal indices joined, recorded. */
static rush_tensor *joined(rush_tensor *t)
{
    if (IS_COO(t)) t = T("coalesce", V(t));
    return t ? T("values", V(t)) : NULL;
}

static int norm_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *values = joined(SELF);
    return rush_result(out, values ? T("norm.Scalar", V(values), HAS(in[1]) ? in[1] : rush_v_int(2)) : NULL);
}

static int norm_dim_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(in[2].n == 0 || (int)in[2].n == SELF->ndim, RUSH_RUNTIME_ERROR,
               "norm_sparse currently only supports full reductions, so 'dim' must either be empty or contain all dimensions of the input");
    RUSH_CHECK(!I_(in[3]), RUSH_RUNTIME_ERROR, "norm_sparse currently does not support keepdim=True");
    return norm_run(op, in, out);
}

static int vector_norm_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(!HAS(in[2]) || in[2].n == 0 || (int)in[2].n == SELF->ndim, RUSH_RUNTIME_ERROR,
               "norm_sparse currently only supports full reductions, so 'dim' must either be empty or contain all dimensions of the input");
    RUSH_CHECK(!I_(in[3]), RUSH_RUNTIME_ERROR, "norm_sparse currently does not support keepdim=True");
    rush_tensor *values = joined(SELF);
    return rush_result(out, values ? T("linalg_vector_norm", V(values), in[1], RUSH_NONE, V(false), in[4]) : NULL);
}

static int native_norm_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(SELF->layout, RUSH_NOT_IMPLEMENTED, "Could not run 'aten::native_norm' with arguments from the 'CPU' backend.");
    return norm_run(op, in, out);
}

static rush_op sparse_norm = {.schema = "norm.Scalar", .run = norm_run}, sparse_norm_dim = {.schema = "norm.ScalarOpt_dim", .run = norm_dim_run};
static rush_op sparse_vector_norm = {.schema = "linalg_vector_norm", .run = vector_norm_run};
static rush_op op_native_norm = {
    .schema = "native_norm(Tensor self, Scalar p=2) -> Tensor", .doc = "The norm of a sparse tensor.", .run = native_norm_run, .flags = RUSH_ANY_LAYOUT | RUSH_HIDDEN,
};

/* ---- sums over dimensions ---- */

static uint64_t all_dims(const rush_tensor *t) { return t->ndim == 64 ? ~(uint64_t)0 : ((uint64_t)1 << t->ndim) - 1; }

/* Which dimensions a list names, as bits. */
static int dims_of(const rush_tensor *t, rush_value dims, uint64_t *bits)
{
    *bits = 0;
    for (uint32_t i = 0; HAS(dims) && i < dims.n; ++i) {
        int d = rush_dim_wrap(dims.ints[i], t->ndim);
        if (d < 0) return -1;
        RUSH_CHECK(!(*bits >> d & 1), RUSH_RUNTIME_ERROR, "dim %d appears multiple times in the list of dims", d);
        *bits |= (uint64_t)1 << d;
    }
    if (!HAS(dims) || dims.n == 0) *bits = all_dims(t);
    return 0;
}

/* Rows of the indices of dimensions whose bit is not set. */
static rush_tensor *other_indices(const rush_tensor *t, uint64_t bits)
{
    int64_t keep[RUSH_MAXDIM];
    int n = 0;
    for (int d = 0; d < t->parts->sparse_dim; ++d)
        if (!(bits >> d & 1)) keep[n++] = d;
    rush_tensor *which = rush_from_data(keep, RUSH_I64, 1, (int64_t[]){n});
    which = rush_to_device(which, INDICES(t));
    return which ? T("index_select", V(INDICES(t)), V((int64_t)0), V(which)) : NULL;
}

static rush_tensor *group_sum(const rush_groups *g, rush_tensor *values)
{
    int64_t size[RUSH_MAXDIM];
    memcpy(size, values->size, sizeof *size * values->ndim);
    size[0] = g->n;
    rush_tensor *zeros = T("new_zeros", V(values), rush_v_ints(size, values->ndim));
    return zeros ? T("index_add", V(zeros), V((int64_t)0), V(g->group), V(values)) : NULL;
}

static rush_tensor *sum_coo(rush_tensor *t, uint64_t bits, rush_value dtype)
{
    if (!(t = T("coalesce", V(t)))) return NULL;
    int sparse = t->parts->sparse_dim, ndim = 0, left = 0;
    int64_t dims[RUSH_MAXDIM + 1], size[RUSH_MAXDIM], n = 0;
    rush_tensor *values = T("values", V(t));
    for (int d = sparse; d < t->ndim; ++d)
        if (bits >> d & 1) dims[n++] = d - sparse + 1;
    for (int d = 0; d < t->ndim; ++d) {
        if (bits >> d & 1) continue;
        left += d < sparse;
        size[ndim++] = t->size[d];
    }
    if (!left) dims[n++] = 0;
    if (n && values) values = T("sum.dim_IntList", V(values), rush_v_ints(dims, (size_t)n), V(false), dtype);
    else if (HAS(dtype) && values) values = T("_to_dtype", V(values), dtype);
    else if (values && rush_dtypes[values->dtype].category < 2) values = T("_to_dtype", V(values), rush_v_dtype(RUSH_I64));
    if (!left || !values) return values;
    rush_tensor *indices = other_indices(t, bits), *keys = indices ? rush_coo_keys(indices, left, size) : NULL;
    rush_groups g;
    if (!keys || rush_coo_group(&g, keys)) return NULL;
    indices = T("index_select", V(indices), V((int64_t)1), V(g.first));
    return T("_sparse_coo_tensor_with_dims_and_tensors", V((int64_t)left), V((int64_t)(ndim - left)), rush_v_ints(size, ndim), V(indices), V(group_sum(&g, values)),
             RUSH_NONE, RUSH_NONE, RUSH_NONE, RUSH_NONE, V(true));
}

static int sparse_sum_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *t = T("coalesce", V(SELF)), *values = t ? T("values", V(t)) : NULL;
    return rush_result(out, values ? T("sum", V(values)) : NULL);
}
static int sparse_sum_dtype_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *t = T("coalesce", V(SELF)), *values = t ? T("values", V(t)) : NULL;
    return rush_result(out, values ? T("sum", V(values), in[1]) : NULL);
}

static int sparse_sum_dims(rush_value *out, rush_tensor *t, rush_value list, rush_value dtype)
{
    uint64_t bits;
    RUSH_CHECK(IS_COO(t), RUSH_NOT_IMPLEMENTED, "Could not run 'aten::_indices' with arguments from the '%s' backend.", t->layout ? "SparseCsrCPU" : "CPU");
    RUSH_CHECK(list.n, RUSH_RUNTIME_ERROR, "_sparse_sum: dim must not be empty");
    return dims_of(t, list, &bits) ? -1 : rush_result(out, sum_coo(t, bits, dtype));
}
static int sparse_sum_dim_run(const rush_op *op, const rush_value *in, rush_value *out) { return sparse_sum_dims(out, SELF, in[1], RUSH_NONE); }
static int sparse_sum_dim_dtype_run(const rush_op *op, const rush_value *in, rush_value *out) { return sparse_sum_dims(out, SELF, in[1], in[2]); }

#define SUM(id, name, arguments, node_name)                                                                         \
    static rush_op op_##id = {.schema = name "(Tensor self" arguments ") -> Tensor", .doc = "The sum of a sparse tensor, with sparse gradients.", .run = id##_run, \
                              .node = node_name, .flags = RUSH_ANY_LAYOUT}
SUM(sparse_sum, "_sparse_sum", "", "SumBackward0");
SUM(sparse_sum_dtype, "_sparse_sum.dtype", ", *, ScalarType dtype", "SumBackward0");
SUM(sparse_sum_dim, "_sparse_sum.dim", ", int[1] dim", "SparseSumBackward0");
SUM(sparse_sum_dim_dtype, "_sparse_sum.dim_dtype", ", int[1] dim, *, ScalarType dtype", "SparseSumBackward0");

static int sum_dim_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *t = SELF;
    uint64_t bits;
    bool keep = I_(in[2]);
    if (dims_of(t, in[1], &bits)) return -1;
    RUSH_CHECK(IS_COO(t) || keep, RUSH_RUNTIME_ERROR, "reduction operations on CSR tensors with keepdim=False is unsupported");
    RUSH_CHECK(IS_COO(t) || t->layout == RUSH_SPARSE_CSR, RUSH_RUNTIME_ERROR,
               "Currently the only compressed sparse format supported for sum.dim_IntList is CSR, but got layout %s", rush_layout_word(t->layout));
    RUSH_CHECK(IS_COO(t) || t->ndim == 2, RUSH_NOT_IMPLEMENTED, "sums over dimensions of batches of CSR matrices");
    rush_tensor *coo = IS_COO(t) ? t : T("to_sparse", V(t)), *sum = NULL;
    if (coo == t && bits == all_dims(t)) sum = T("sum", V(t), in[3]); /* of all: with a dense gradient, as without dimensions */
    else if (coo) sum = sum_coo(coo, bits, in[3]);
    for (int d = 0; keep && sum && d < t->ndim; ++d)
        if (bits >> d & 1) sum = unsqueeze(sum, d);
    if (sum && !IS_COO(t)) sum = sum->layout ? T("to_sparse_csr", V(sum)) : T("to_sparse_csr", V(T("to_sparse.sparse_dim", V(sum), V((int64_t)2))));
    return rush_result(out, sum);
}

static rush_op sparse_sum_over = {.schema = "sum.dim_IntList", .run = sum_dim_run};

/* ---- softmax over the entries ---- */

static rush_tensor *grouped_softmax(rush_tensor *values, const rush_groups *g, bool logs)
{
    int64_t size[RUSH_MAXDIM];
    memcpy(size, values->size, sizeof *size * values->ndim);
    size[0] = g->n;
    rush_tensor *fixed = T("detach", V(values)), *most = T("full", rush_v_ints(size, values->ndim), V(-__builtin_inf()), rush_v_dtype(values->dtype), ON(values));
    most = most && fixed ? T("index_reduce", V(most), V((int64_t)0), V(g->group), V(fixed), V("amax")) : NULL;
    rush_tensor *below = most ? sub(values, T("index_select", V(most), V((int64_t)0), V(g->group))) : NULL, *e = below ? exp_(below) : NULL;
    rush_tensor *sum = e ? group_sum(g, e) : NULL;
    if (!sum) return NULL;
    if (logs) return sub(below, T("index_select", V(log_(sum)), V((int64_t)0), V(g->group)));
    return div_(e, T("index_select", V(sum), V((int64_t)0), V(g->group)));
}

static int softmax_over(rush_value *out, rush_tensor *t, int64_t over, rush_value dtype, bool logs)
{
    RUSH_CHECK(IS_COO(t), RUSH_NOT_IMPLEMENTED, "Could not run 'aten::%s' with arguments from the '%s' backend.", logs ? "_sparse_log_softmax" : "_sparse_softmax",
               t->layout ? "SparseCsrCPU" : "CPU");
    if (HAS(dtype) && I_(dtype) != t->dtype) t = T("_to_dtype", V(t), dtype);
    if (!t) return -1;
    RUSH_CHECK(rush_dtype_is_float(t->dtype), RUSH_NOT_IMPLEMENTED, "\"%ssoftmax\" not implemented for '%s'", logs ? "log_" : "", rush_dtype_name(t->dtype));
    int d = rush_dim_wrap(over, t->ndim), sparse = t->parts->sparse_dim;
    if (d < 0 || !(t = T("coalesce", V(t)))) return -1;
    rush_tensor *values = T("values", V(t));
    if (d >= sparse) {
        values = logs ? T("log_softmax.int", V(values), V((int64_t)(d - sparse + 1))) : T("softmax.int", V(values), V((int64_t)(d - sparse + 1)));
    } else {
        int64_t size[RUSH_MAXDIM];
        for (int k = 0, n = 0; k < sparse; ++k)
            if (k != d) size[n++] = t->size[k];
        rush_tensor *indices = other_indices(t, (uint64_t)1 << d), *keys = indices ? rush_coo_keys(indices, sparse - 1, size) : NULL;
        rush_groups g;
        if (!keys || rush_coo_group(&g, keys)) return -1;
        values = grouped_softmax(values, &g, logs);
    }
    return rush_result(out, values ? T("_sparse_values_like", V(t), V(values)) : NULL);
}

static int softmax_int_run(const rush_op *op, const rush_value *in, rush_value *out) { return softmax_over(out, SELF, I_(in[1]), in[2], false); }
static int log_softmax_int_run(const rush_op *op, const rush_value *in, rush_value *out) { return softmax_over(out, SELF, I_(in[1]), in[2], true); }
static int softmax_run(const rush_op *op, const rush_value *in, rush_value *out) { return softmax_over(out, SELF, I_(in[1]), RUSH_NONE, false); }
static int log_softmax_run(const rush_op *op, const rush_value *in, rush_value *out) { return softmax_over(out, SELF, I_(in[1]), RUSH_NONE, true); }

#define SOFTMAX(id, name, arguments, node_name)                                                                        \
    static rush_op op_##id = {.schema = name "(Tensor self, int dim" arguments ") -> Tensor", .method = RUSH_IN_SPARSE, \
                              .doc = "softmax() over the entries that there are, missing ones being minus infinity.", .run = id##_run, .node = node_name, \
                              .flags = RUSH_ANY_LAYOUT}
SOFTMAX(softmax_int, "_sparse_softmax.int", ", ScalarType? dtype=None", "SparseSoftmaxBackward0");
SOFTMAX(log_softmax_int, "_sparse_log_softmax.int", ", ScalarType? dtype=None", "SparseLogSoftmaxBackward0");
SOFTMAX(softmax, "_sparse_softmax", ", bool half_to_float", "SparseSoftmaxBackward0");
SOFTMAX(log_softmax, "_sparse_log_softmax", ", bool half_to_float", "SparseLogSoftmaxBackward0");

RUSH_FAMILY(sparse_reduce, &op_native_norm, &op_sparse_sum, &op_sparse_sum_dtype, &op_sparse_sum_dim, &op_sparse_sum_dim_dtype, &op_softmax_int, &op_log_softmax_int,
            &op_softmax, &op_log_softmax)
RUSH_SPARSE(reduce, &sparse_sum, &sparse_any, &sparse_norm, &sparse_norm_dim, &sparse_vector_norm, &sparse_sum_over)
