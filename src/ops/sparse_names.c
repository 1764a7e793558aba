/* sparse_names.c - operations on sparse matrices that packages look up by name: of dense tensors they are the dense ones. */
#include "op/formula.h"

static int addmm_run(const rush_value *in, rush_value *out)
{
    return rush_result(out, T("addmm", in[0], in[1], in[2], in[3], in[4]));
}

static int reduce_run(const rush_value *in, rush_value *out)
{
    return rush_fail(RUSH_NOT_IMPLEMENTED, "reductions of sparse products are not supported");
}

static rush_op op__sparse_addmm = {
    .schema = "_sparse_addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
    .doc = "beta self + alpha mat1 @ mat2; of dense tensors addmm.", .run = addmm_run, .flags = RUSH_HIDDEN,
};
static rush_op op__sparse_mm_reduce_impl = {
    .schema = "_sparse_mm_reduce_impl(Tensor self, Tensor other, str reduce) -> (Tensor, Tensor)",
    .doc = "A product with a CSR matrix whose sums are another reduction: not supported.", .run = reduce_run, .flags = RUSH_HIDDEN,
};

RUSH_FAMILY(sparse_names, &op__sparse_addmm, &op__sparse_mm_reduce_impl)
