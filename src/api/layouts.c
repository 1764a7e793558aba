/* layouts.c - where tensors of sparse layouts leave the road of dense ones: they have records of their own. */
#include "api/api.h"
#include "tensor/sparse.h"

static const rush_tensor *first_sparse(const rush_op *op, const rush_value *in)
{
    for (uint64_t left = op->tensor_args; left; left &= left - 1) {
        const rush_value *v = &in[__builtin_ctzll(left)];
        if (v->kind == RUSH_V_TENSOR && v->t->layout) return v->t;
        for (uint32_t k = 0; v->kind == RUSH_V_TENSORS && k < v->n; ++k)
            if (v->tensors[k] && v->tensors[k]->layout) return v->tensors[k];
    }
    return NULL;
}

const rush_op *rush_sparse_form(const rush_op *op, const rush_value *in)
{
    const rush_tensor *t = first_sparse(op, in);
    RUSH_CHECK_NULL(!t || t->parts, RUSH_NOT_IMPLEMENTED, "the elements of a sparse tensor are wanted that were not saved for the derivative");
    if (op->flags & RUSH_ANY_LAYOUT) return op;
    RUSH_CHECK_NULL(t, RUSH_NOT_IMPLEMENTED, "the result cannot be written to a sparse tensor");
    bool first = in[0].kind != RUSH_V_TENSOR || in[0].t->layout;
    if (op->sparse && (first || op->sparse->flags & RUSH_DENSE_FIRST)) return rush_now.op = op->sparse;
    int layout = t->layout;
    rush_fail(RUSH_NOT_IMPLEMENTED, "Could not run 'aten::%s' with arguments from the '%s' backend: the operation is not there for tensors of layout %s.",
              op->name, layout == RUSH_SPARSE_COO ? "SparseCPU" : "SparseCsrCPU", rush_layout_word(layout));
    return NULL;
}

int rush_sparse_give(rush_tensor *to, rush_tensor *from, bool inplace)
{
    RUSH_CHECK(to->layout && from->layout, RUSH_RUNTIME_ERROR, "a result of layout %s cannot be written to a tensor of layout %s",
               rush_layout_word(from->layout), rush_layout_word(to->layout));
    if (from->dtype != to->dtype) from = rush_sparse_with(from, rush_cast_copy(from->parts->values, to->dtype));
    return from ? rush_sparse_become(to, from) : -1;
}
