/* grouped.c - a product for each group of rows, columns or matrices: what a mixture of experts multiplies by.
 *
 * A factor of three dims has one matrix per group. A matrix as the other factor is cut along one dim, and `offs` says where each
 * group ends: its rows where it is the first factor, its columns where it is the second, and the dim that is summed where both are
 * matrices. What lies behind the last end belongs to no group, and is zero in the result.
 */
#include "op/formula.h"
#include "ops/product/product.h"

/* How many groups, and the result's size; -1 and an error. */
static int64_t groups_of(const rush_tensor *a, const rush_tensor *b, const rush_tensor *offs, int64_t *size)
{
    RUSH_CHECK(a->ndim == 2 || a->ndim == 3, RUSH_RUNTIME_ERROR, "mat_a has to be 2 or 3d");
    RUSH_CHECK(b->ndim == 2 || b->ndim == 3, RUSH_RUNTIME_ERROR, "mat_b has to be 2 or 3d");
    const bool cut_a = a->ndim == 2, cut_b = b->ndim == 2;
    RUSH_CHECK(a->size[a->ndim - 1] == b->size[b->ndim - 2], RUSH_RUNTIME_ERROR, "contraction dimension of mat_a and mat_b must match");
    RUSH_CHECK((offs != NULL) == (cut_a || cut_b), RUSH_RUNTIME_ERROR, "Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d");
    if (offs) {
        RUSH_CHECK(offs->ndim == 1, RUSH_RUNTIME_ERROR, "offs has to be 1D");
        RUSH_CHECK(offs->dtype == RUSH_I32, RUSH_RUNTIME_ERROR, "Offsets have to be int32");
    }
    const int64_t n = !cut_a ? a->size[0] : !cut_b ? b->size[0] : offs->size[0];
    RUSH_CHECK(!offs || offs->size[0] == n, RUSH_RUNTIME_ERROR, "matrix batch sizes have to match");
    RUSH_CHECK(cut_a || cut_b || b->size[0] == n, RUSH_RUNTIME_ERROR, "batched dimension has to match");
    size[0] = n, size[1] = a->size[a->ndim - 2], size[2] = b->size[b->ndim - 1];
    return n;
}

static int grouped_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *a = in[0].t, *b = in[1].t;
    int64_t size[3];
    RUSH_CHECK(a->dtype == RUSH_F32 || a->dtype == RUSH_BF16 || a->dtype == RUSH_F16, RUSH_RUNTIME_ERROR,
               "Expected mat_a to be Float32, BFloat16 or Float16 matrix, got %s", rush_dtype_word(a->dtype));
    RUSH_CHECK(a->dtype == b->dtype, RUSH_RUNTIME_ERROR, "expected m1 and m2 to have the same dtype, but got: %s != %s", rush_dtype_word(a->dtype), rush_dtype_word(b->dtype));
    if (groups_of(a, b, T_(in[2]), size) < 0) return -1;
    RUSH_CHECK(!HAS(in[3]), RUSH_RUNTIME_ERROR, "Bias not supported yet");
    RUSH_CHECK(!HAS(in[4]) || (rush_dtype)in[4].i == a->dtype, RUSH_RUNTIME_ERROR, "Grouped gemm output dtype must match `mat_a` dtype");
    const bool both = a->ndim == b->ndim; /* then there is a matrix per group; else the groups lie in one */
    return rush_out_t(out, 0, a, a->dtype, both ? 3 : 2, both ? size : size + 1) ? 0 : -1;
}

/* Matrix g of three dims, or rows (dim 0) or columns (1) [begin, end) of two. */
static rush_tensor *group_of(const rush_tensor *t, int64_t g, int dim, int64_t begin, int64_t end)
{
    if (t->ndim == 2) return rush_part(t, dim, begin, end - begin);
    rush_tensor *one = rush_part(t, 0, g, 1);
    return one ? rush_tensor_alias(one, 2, one->size + 1, one->stride + 1, one->offset) : NULL;
}

int rush_grouped(rush_tensor *c, rush_tensor *a, rush_tensor *b, rush_tensor *offs, int (*multiply)(rush_tensor *c, rush_tensor *a, rush_tensor *b))
{
    int64_t size[3] = {0}, n = groups_of(a, b, offs, size), begin = 0;
    if (n < 0 || !offs || !c->numel) return n < 0 ? -1 : c->numel ? multiply(c, a, b) : 0;
    const int64_t all = b->ndim == 3 ? size[1] : a->ndim == 3 ? size[2] : a->size[1], *ends = rush_numbers_of(offs);
    if (!ends) return -1;
    bool each = a->ndim == b->ndim || (n && ends[n - 1] == all); /* is every element some group's? */
    for (int64_t g = 1; g < n; ++g) each &= ends[g - 1] <= ends[g];
    if (!each && !T_INPLACE("zero_", V(c))) return -1;
    for (int64_t g = 0; g < n; ++g) {
        const int64_t from = RUSH_MIN(RUSH_MAX(begin, 0), all), to = RUSH_MAX(from, RUSH_MIN(ends[g], all));
        rush_tensor *x = group_of(a, g, b->ndim == 3 ? 0 : 1, from, to), *y = group_of(b, g, a->ndim == 3 ? 1 : 0, from, to);
        rush_tensor *z = group_of(c, g, b->ndim == 3 ? 0 : 1, from, to);
        begin = ends[g];
        if (!x || !y || !z || multiply(z, x, y)) return -1;
    }
    return 0;
}

static int multiply(rush_tensor *c, rush_tensor *a, rush_tensor *b) { return rush_product(c, a, b, 1, 0, NULL); }

static void grouped_cpu(const rush_op *op, const rush_value *in, rush_value *out) { rush_grouped(out[0].t, in[0].t, in[1].t, T_(in[2]), multiply); }

static bool by_columns(const rush_tensor *t) { return t->stride[t->ndim - 2] == 1 && t->stride[t->ndim - 1] >= t->size[t->ndim - 2]; }

/* a b; computed as the transpose of its transpose where the gradient's factor lies by columns, since then the gradient does. */
static rush_tensor *grouped(rush_tensor *a, rush_tensor *b, rush_value offs, const rush_tensor *like)
{
    return by_columns(like) ? rush_adjoint(T("_grouped_mm", V(rush_adjoint(b)), V(rush_adjoint(a)), offs, RUSH_NONE, RUSH_NONE)) : T("_grouped_mm", V(a), V(b), offs, RUSH_NONE, RUSH_NONE);
}

static void grouped_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0];
    if (rush_needs(s, 0)) s->gin[0] = grouped(g, rush_adjoint(s->in[1].t), s->in[2], s->in[0].t);
    if (rush_needs(s, 1)) s->gin[1] = grouped(rush_adjoint(s->in[0].t), g, s->in[2], s->in[1].t);
}

static rush_op op_grouped_mm = {
    .schema = "_grouped_mm(Tensor self, Tensor mat2, Tensor? offs=None, Tensor? bias=None, ScalarType? out_dtype=None) -> Tensor",
    .doc = "A matrix product per group: (n, k) and (groups, k, m) give (n, m), (groups, n, k) and (k, m) give (n, m), (n, k) and (k, m) give (groups, n, m). "
           "offs (groups), int32, is where each group ends along the dim that is cut. Two tensors of three dims take no offs.",
    .shape = grouped_shape, .cpu = grouped_cpu, .grad = grouped_grad, .saves = "self@mat2, mat2@self, offs", .flags = RUSH_HIDDEN,
};

RUSH_FAMILY(grouped, &op_grouped_mm)
