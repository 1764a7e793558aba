/* copies.c - the _copy forms of views: what the view shows, as memory of its own. */
#include "op/formula.h"

#define SELF (in[0].t)

static int copied(rush_value *out, rush_tensor *view)
{
    return rush_result(out, view ? T("clone", V(view), ((rush_value){.kind = RUSH_V_MEMORY_FORMAT, .i = RUSH_CONTIGUOUS})) : NULL);
}

static int copied_list(rush_value *out, int failed, rush_value views)
{
    rush_tensor **list = failed ? NULL : rush_out_list(out, 0, views.n);
    if (!list) return -1;
    for (uint32_t k = 0; k < views.n; ++k)
        if (!(list[k] = T("clone", V(views.tensors[k]), ((rush_value){.kind = RUSH_V_MEMORY_FORMAT, .i = RUSH_CONTIGUOUS})))) return -1;
    return 0;
}

static int alias_run(const rush_op *op, const rush_value *in, rush_value *out) { return copied(out, SELF); }
static int as_strided_run(const rush_op *op, const rush_value *in, rush_value *out) { return copied(out, T("as_strided", in[0], in[1], in[2], in[3])); }
static int detach_run(const rush_op *op, const rush_value *in, rush_value *out) { return copied(out, T("detach", in[0])); }
static int diagonal_run(const rush_op *op, const rush_value *in, rush_value *out) { return copied(out, T("diagonal", in[0], in[1], in[2], in[3])); }
static int permute_run(const rush_op *op, const rush_value *in, rush_value *out) { return copied(out, T("permute", in[0], in[1])); }
static int select_run(const rush_op *op, const rush_value *in, rush_value *out) { return copied(out, T("select.int", in[0], in[1], in[2])); }
static int slice_run(const rush_op *op, const rush_value *in, rush_value *out) { return copied(out, T("slice.Tensor", in[0], in[1], in[2], in[3], in[4])); }
static int squeeze_run(const rush_op *op, const rush_value *in, rush_value *out) { return copied(out, T("squeeze", in[0])); }
static int squeeze_dim_run(const rush_op *op, const rush_value *in, rush_value *out) { return copied(out, T("squeeze.dim", in[0], in[1])); }
static int squeeze_dims_run(const rush_op *op, const rush_value *in, rush_value *out) { return copied(out, T("squeeze.dims", in[0], in[1])); }
static int t_run(const rush_op *op, const rush_value *in, rush_value *out) { return copied(out, T("t", in[0])); }
static int transpose_run(const rush_op *op, const rush_value *in, rush_value *out) { return copied(out, T("transpose.int", in[0], in[1], in[2])); }
static int unfold_run(const rush_op *op, const rush_value *in, rush_value *out) { return copied(out, T("unfold", in[0], in[1], in[2], in[3])); }
static int unsqueeze_run(const rush_op *op, const rush_value *in, rush_value *out) { return copied(out, T("unsqueeze", in[0], in[1])); }
static int view_dtype_run(const rush_op *op, const rush_value *in, rush_value *out) { return copied(out, T("view.dtype", in[0], in[1])); }
static int view_as_real_run(const rush_op *op, const rush_value *in, rush_value *out) { return copied(out, T("view_as_real", in[0])); }
static int view_as_complex_run(const rush_op *op, const rush_value *in, rush_value *out) { return copied(out, T("view_as_complex", in[0])); }

static int split_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value views = {0};
    return copied_list(out, TN(&views, "split.Tensor", in[0], in[1], in[2]), views);
}

static int split_with_sizes_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value views = {0};
    return copied_list(out, TN(&views, "split_with_sizes", in[0], in[1], in[2]), views);
}

static int unbind_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value views = {0};
    return copied_list(out, TN(&views, "unbind.int", in[0], in[1]), views);
}

#define COPY(id, name, arguments, result, ...)                                                              \
    static rush_op op_##id = {.schema = name "(Tensor self" arguments ") -> " result, .doc = "A copy of the view of that name.", .run = id##_run, .flags = RUSH_WHOLE __VA_ARGS__}
COPY(alias, "alias_copy", "", "Tensor");
COPY(as_strided, "as_strided_copy", ", SymInt[] size, SymInt[] stride, SymInt? storage_offset=None", "Tensor");
COPY(detach, "detach_copy", "", "Tensor");
COPY(diagonal, "diagonal_copy", ", int offset=0, int dim1=0, int dim2=1", "Tensor");
COPY(permute, "permute_copy", ", int[] dims", "Tensor");
COPY(select, "select_copy.int", ", int dim, SymInt index", "Tensor");
COPY(slice, "slice_copy.Tensor", ", int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1", "Tensor");
COPY(squeeze, "squeeze_copy", "", "Tensor");
COPY(squeeze_dim, "squeeze_copy.dim", ", int dim", "Tensor");
COPY(squeeze_dims, "squeeze_copy.dims", ", int[] dim", "Tensor");
COPY(t, "t_copy", "", "Tensor");
COPY(transpose, "transpose_copy.int", ", int dim0, int dim1", "Tensor");
COPY(unfold, "unfold_copy", ", int dimension, int size, int step", "Tensor");
COPY(unsqueeze, "unsqueeze_copy", ", int dim", "Tensor");
COPY(view_dtype, "view_copy.dtype", ", ScalarType dtype", "Tensor");
COPY(view_as_real, "view_as_real_copy", "", "Tensor");
COPY(view_as_complex, "view_as_complex_copy", "", "Tensor");
COPY(split, "split_copy.Tensor", ", SymInt split_size, int dim=0", "Tensor[]", | RUSH_OUT_CASTS);
COPY(split_with_sizes, "split_with_sizes_copy", ", SymInt[] split_sizes, int dim=0", "Tensor[]");
COPY(unbind, "unbind_copy.int", ", int dim=0", "Tensor[]");

RUSH_FAMILY(copies, &op_alias, &op_as_strided, &op_detach, &op_diagonal, &op_permute, &op_select, &op_slice, &op_squeeze, &op_squeeze_dim,
            &op_squeeze_dims, &op_t, &op_transpose, &op_unfold, &op_unsqueeze, &op_view_dtype, &op_view_as_real, &op_view_as_complex, &op_split,
            &op_split_with_sizes, &op_unbind)
