/* onnx_shape.c - what ONNX does with shapes and places, as composites: sizes and indices are tensors there. */
#include "op/formula.h"
#include "ops/geometry.h"

#define RULE(name) static int name##_run(const rush_op *op, const rush_value *in, rush_value *out)
#define RECORD(name, arguments, doc_) static rush_op op_##name = {.schema = "onnx::" #name "(" arguments ") -> Tensor", .doc = doc_, .run = name##_run, .flags = RUSH_HIDDEN}

/* The elements of a tensor, or of an attribute in its place; n is -1 without either, or with an error. */
typedef struct ints {
    int64_t n;
    const int64_t *at;
} ints;

static ints ints_of(rush_value tensor, rush_value attribute)
{
    if (HAS(tensor)) {
        const int64_t *at = rush_numbers_of(tensor.t);
        return (ints){at ? tensor.t->numel : -1, at};
    }
    return HAS(attribute) ? (ints){attribute.n, attribute.ints} : (ints){-1};
}

static int axis_of(int64_t d, const rush_tensor *t)
{
    RUSH_CHECK(t->ndim, RUSH_VALUE_ERROR, "axis %lld of a tensor without dimensions", (long long)d);
    return rush_dim_wrap(d, t->ndim);
}

/* Integers as a tensor where t is. */
static rush_tensor *tensor_of(const int64_t *x, int64_t n, const rush_tensor *t) { return rush_to_device(rush_from_data(x, RUSH_I64, 1, &n), t); }

/* ---- shapes ---- */

RULE(Reshape)
{
    rush_tensor *x = in[0].t;
    ints s = ints_of(in[1], in[2]);
    int64_t size[RUSH_MAXDIM];
    RUSH_CHECK(!rush_failed() && s.n >= 0 && s.n <= RUSH_MAXDIM, RUSH_VALUE_ERROR, "no shape to reshape to");
    for (int64_t d = 0; d < s.n; ++d) {
        bool same = s.at[d] == 0 && !I_(in[3]);
        RUSH_CHECK(!same || d < x->ndim, RUSH_VALUE_ERROR, "dimension %lld is to be kept of a tensor of shape %s", (long long)d, rush_shape_of(x));
        size[d] = same ? x->size[d] : s.at[d];
    }
    return rush_result(out, T("reshape", V(x), rush_v_ints(size, (size_t)s.n)));
}
RECORD(Reshape, "Tensor data, Tensor? shape_input=None, *, int[]? shape=None, int allowzero=0", "reshape(); a 0 keeps the size that is there.");

RULE(Flatten)
{
    rush_tensor *x = in[0].t;
    int64_t axis = I_(in[1]) < 0 ? I_(in[1]) + x->ndim : I_(in[1]), first = 1, rest = 1;
    RUSH_CHECK(axis >= 0 && axis <= x->ndim, RUSH_INDEX_ERROR, "axis %lld of a tensor of shape %s", (long long)axis, rush_shape_of(x));
    for (int d = 0; d < x->ndim; ++d) *(d < axis ? &first : &rest) *= x->size[d];
    return rush_result(out, T("reshape", V(x), INTS(first, rest)));
}
RECORD(Flatten, "Tensor input, *, int axis=1", "Two dimensions: those before axis, and the rest.");

RULE(Squeeze)
{
    ints axes = ints_of(in[1], in[2]);
    if (rush_failed()) return -1;
    return rush_result(out, axes.n < 0 ? T("squeeze", in[0]) : T("squeeze.dims", in[0], rush_v_ints(axes.at, (size_t)axes.n)));
}
RECORD(Squeeze, "Tensor data, Tensor? axes_input=None, *, int[]? axes=None", "Without dimensions of size 1.");

RULE(Unsqueeze)
{
    rush_tensor *x = in[0].t;
    ints axes = ints_of(in[1], in[2]);
    bool is[RUSH_MAXDIM] = {false};
    int64_t size[RUSH_MAXDIM], n = x->ndim + axes.n;
    RUSH_CHECK(!rush_failed() && axes.n >= 0 && n <= RUSH_MAXDIM, RUSH_VALUE_ERROR, "no axes, or too many");
    for (int64_t i = 0; i < axes.n; ++i) {
        int64_t d = axes.at[i] < 0 ? axes.at[i] + n : axes.at[i];
        RUSH_CHECK(d >= 0 && d < n && !is[d], RUSH_INDEX_ERROR, "axis %lld of a result of %lld dimensions", (long long)axes.at[i], (long long)n);
        is[d] = true;
    }
    for (int64_t d = 0, k = 0; d < n; ++d) size[d] = is[d] ? 1 : x->size[k++];
    return rush_result(out, T("reshape", V(x), rush_v_ints(size, (size_t)n)));
}
RECORD(Unsqueeze, "Tensor data, Tensor? axes_input=None, *, int[]? axes=None", "With new dimensions of size 1.");

RULE(Transpose)
{
    int64_t back[RUSH_MAXDIM];
    int n = in[0].t->ndim;
    for (int d = 0; d < n; ++d) back[d] = n - 1 - d;
    return rush_result(out, T("permute", in[0], HAS(in[1]) ? in[1] : rush_v_ints(back, (size_t)n)));
}
RECORD(Transpose, "Tensor data, *, int[]? perm=None", "Dimensions in another order; without one, backwards.");

RULE(Expand)
{
    rush_tensor *x = in[0].t;
    ints s = ints_of(in[1], RUSH_NONE);
    int64_t size[RUSH_MAXDIM], n = RUSH_MAX(s.n, (int64_t)x->ndim);
    RUSH_CHECK(!rush_failed() && n <= RUSH_MAXDIM, RUSH_VALUE_ERROR, "a shape of %lld sizes", (long long)n);
    for (int64_t d = 0; d < n; ++d) {
        int64_t own = d < n - x->ndim ? 1 : x->size[d - (n - x->ndim)], given = d < n - s.n ? 1 : s.at[d - (n - s.n)];
        RUSH_CHECK(own == given || own == 1 || given == 1, RUSH_RUNTIME_ERROR, "a tensor of shape %s does not expand to size %lld", rush_shape_of(x), (long long)given);
        size[d] = own == 1 ? given : own;
    }
    return rush_result(out, T("expand", V(x), rush_v_ints(size, (size_t)n)));
}
RECORD(Expand, "Tensor input, Tensor shape", "Broadcast with a shape: both ways.");

RULE(Tile)
{
    ints s = ints_of(in[1], RUSH_NONE);
    return s.n < 0 ? -1 : rush_result(out, T("repeat", in[0], rush_v_ints(s.at, (size_t)s.n)));
}
RECORD(Tile, "Tensor input, Tensor repeats", "repeat().");

RULE(Shape)
{
    const rush_tensor *x = in[0].t;
    int64_t n = x->ndim, from = I_(in[1]), to = HAS(in[2]) ? I_(in[2]) : n;
    from = RUSH_MIN(RUSH_MAX(from < 0 ? from + n : from, (int64_t)0), n);
    to = RUSH_MIN(RUSH_MAX(to < 0 ? to + n : to, from), n);
    return rush_result(out, tensor_of(x->size + from, to - from, x));
}
static rush_op op_Shape = {.schema = "onnx::Shape(Tensor data, *, int start=0, int? end=None) -> Tensor", .doc = "The sizes, as a tensor.", .run = Shape_run, .flags = RUSH_HIDDEN | RUSH_NO_GRAD};

RULE(Size) { return rush_result(out, rush_to_device(rush_from_data(&in[0].t->numel, RUSH_I64, 0, NULL), in[0].t)); }
static rush_op op_Size = {.schema = "onnx::Size(Tensor data) -> Tensor", .doc = "The number of elements, as a tensor.", .run = Size_run, .flags = RUSH_HIDDEN | RUSH_NO_GRAD};

/* ---- pieces ---- */

RULE(Concat) { return rush_result(out, T("cat", in[0], in[1])); }
RECORD(Concat, "Tensor[] inputs, *, int axis", "cat().");

RULE(Split)
{
    rush_tensor *x = in[0].t;
    ints s = ints_of(in[1], in[3]);
    int d = axis_of(I_(in[2]), x);
    if (rush_failed() || d < 0) return -1;
    int64_t n = HAS(in[4]) ? I_(in[4]) : I_(in[5]);
    RUSH_CHECK(s.n >= 0 || (n > 0 && n <= RUSH_MAX(x->size[d], (int64_t)1)), RUSH_VALUE_ERROR, "%lld pieces of size %lld", (long long)n, (long long)x->size[d]);
    int64_t *size = rush_scope_alloc((size_t)(s.n >= 0 ? 1 : n) * sizeof *size);
    if (!size) return -1;
    for (int64_t i = 0, piece = s.n < 0 ? (x->size[d] + n - 1) / n : 0; s.n < 0 && i < n; ++i) size[i] = RUSH_MIN(piece, RUSH_MAX(x->size[d] - i * piece, (int64_t)0));
    return TN(out, "split_with_sizes", V(x), s.n >= 0 ? rush_v_ints(s.at, (size_t)s.n) : rush_v_ints(size, (size_t)n), V((int64_t)d));
}
static rush_op op_Split = {.schema = "onnx::Split(Tensor input, Tensor? split_input=None, *, int axis=0, int[]? split=None, int? num_outputs=None, int results=0) -> Tensor[]",
                           .doc = "Pieces along axis: of given sizes, or equal but for the last.", .run = Split_run, .flags = RUSH_HIDDEN};

/* The piece at a position of what SplitToSequence makes: pieces of one size, of given sizes, or of one element each. */
RULE(SequenceAt)
{
    rush_tensor *x = in[0].t;
    ints s = ints_of(in[1], RUSH_NONE), position = ints_of(in[2], RUSH_NONE);
    int d = axis_of(I_(in[3]), x);
    if (rush_failed() || d < 0) return -1;
    bool each = HAS(in[1]) && in[1].t->ndim; /* given sizes */
    int64_t piece = s.n < 0 ? 1 : s.n && !each ? s.at[0] : 0, n = each ? s.n : piece > 0 ? (x->size[d] + piece - 1) / piece : 0, from = 0;
    RUSH_CHECK(position.n == 1 && (each || piece > 0), RUSH_VALUE_ERROR, "a sequence of pieces of %lld, and %lld positions in it", (long long)piece, (long long)position.n);
    int64_t at = position.at[0] < 0 ? position.at[0] + n : position.at[0];
    RUSH_CHECK(at >= 0 && at < n, RUSH_INDEX_ERROR, "position %lld of a sequence of %lld tensors", (long long)position.at[0], (long long)n);
    for (int64_t i = 0; each && i < at; ++i) from += s.at[i];
    if (!each) from = at * piece;
    rush_tensor *t = T("narrow", V(x), V((int64_t)d), V(from), V(each ? s.at[at] : RUSH_MIN(piece, x->size[d] - from)));
    return rush_result(out, t && s.n < 0 && !I_(in[4]) ? T("squeeze.dim", V(t), V((int64_t)d)) : t);
}
RECORD(SequenceAt, "Tensor input, Tensor? split=None, Tensor? position=None, *, int axis=0, int keepdims=1", "One of the pieces along axis.");

/* From start to end by a step; a negative step goes backwards. */
static rush_tensor *slice(rush_tensor *x, int d, int64_t from, int64_t to, int64_t step)
{
    int64_t n = x->size[d], low = step < 0 ? -1 : 0, high = step < 0 ? n - 1 : n;
    RUSH_CHECK_NULL(step && step != INT64_MIN, RUSH_VALUE_ERROR, "a step of %lld", (long long)step);
    from = RUSH_MIN(RUSH_MAX(from < 0 ? from + n : from, step < 0 ? low : 0), high);
    to = to < -n ? low : to < 0 ? to + n : to;
    to = RUSH_MIN(RUSH_MAX(to, low), high + (step < 0));
    if (step > 0) return T("slice.Tensor", V(x), V((int64_t)d), V(from), V(RUSH_MAX(to, from)), V(step));
    rush_tensor *y = T("flip", V(x), INTS(d)); /* element i is n - 1 - i there */
    return y ? T("slice.Tensor", V(y), V((int64_t)d), V(n - 1 - from), V(RUSH_MAX(n - 1 - to, n - 1 - from)), V(-step)) : NULL;
}

RULE(Slice)
{
    rush_tensor *x = in[0].t;
    ints from = ints_of(in[1], in[5]), to = ints_of(in[2], in[6]), axes = ints_of(in[3], in[7]), steps = ints_of(in[4], RUSH_NONE);
    RUSH_CHECK(!rush_failed() && from.n >= 0 && from.n == to.n && (axes.n < 0 || axes.n == from.n) && (steps.n < 0 || steps.n == from.n), RUSH_VALUE_ERROR, "starts, ends, axes and steps are not as many");
    for (int64_t i = 0; i < from.n && x; ++i) {
        int d = axis_of(axes.n < 0 ? i : axes.at[i], x);
        x = d < 0 ? NULL : slice(x, d, from.at[i], to.at[i], steps.n < 0 ? 1 : steps.at[i]);
    }
    return rush_result(out, x && !from.n ? T("alias", V(x)) : x);
}
RECORD(Slice, "Tensor data, Tensor? starts_input=None, Tensor? ends_input=None, Tensor? axes_input=None, Tensor? steps_input=None, *, int[]? starts=None, int[]? ends=None, int[]? axes=None", "From start to end by a step, along several axes.");

/* ---- places ---- */

/* index.Tensor with one index along d: None before it. */
static rush_tensor *taken(rush_tensor *x, int d, rush_tensor *index)
{
    rush_tensor *at[RUSH_MAXDIM] = {NULL};
    at[d] = index;
    return index ? T("index.Tensor", V(x), rush_v_tensors(at, (size_t)d + 1)) : NULL;
}

RULE(Gather)
{
    int d = axis_of(I_(in[2]), in[0].t);
    return d < 0 ? -1 : rush_result(out, taken(in[0].t, d, to_dtype(in[1].t, RUSH_I64)));
}
RECORD(Gather, "Tensor data, Tensor indices, *, int axis=0", "The places of an axis that indices name.");

/* Indices from the end count too. */
static rush_tensor *from_zero(rush_tensor *index, int64_t n)
{
    index = to_dtype(index, RUSH_I64);
    return index ? where(lt(index, 0), add(index, n), index) : NULL;
}

RULE(GatherElements)
{
    int d = axis_of(I_(in[2]), in[0].t);
    return d < 0 ? -1 : rush_result(out, T("gather", in[0], V((int64_t)d), V(from_zero(in[1].t, in[0].t->size[d]))));
}
RECORD(GatherElements, "Tensor data, Tensor indices, *, int axis=0", "gather().");

RULE(ScatterElements)
{
    rush_tensor *x = in[0].t;
    int d = axis_of(I_(in[3]), x);
    if (d < 0) return -1;
    rush_value index = V(from_zero(in[1].t, x->size[d])), dim = V((int64_t)d);
    const char *how = in[4].s;
    if (rush_failed()) return -1;
    if (!strcmp(how, "none")) return rush_result(out, T("scatter.src", V(x), dim, index, in[2]));
    const char *word = !strcmp(how, "add") ? "sum" : !strcmp(how, "mul") ? "prod" : !strcmp(how, "max") ? "amax" : "amin";
    return rush_result(out, T("scatter_reduce.two", V(x), dim, index, in[2], V(word)));
}
RECORD(ScatterElements, "Tensor data, Tensor indices, Tensor updates, *, int axis=0, str reduction='none'", "scatter().");

/* The last dimension of indices as one index for each leading dimension of x (from `batch` on). */
static int split_index(rush_tensor *x, rush_tensor *indices, int batch, rush_tensor **at)
{
    RUSH_CHECK(indices->ndim >= 1, RUSH_VALUE_ERROR, "indices without a dimension");
    int64_t n = indices->size[indices->ndim - 1];
    RUSH_CHECK(n <= x->ndim - batch, RUSH_VALUE_ERROR, "%lld indices into a tensor of shape %s", (long long)n, rush_shape_of(x));
    for (int64_t k = 0; k < n; ++k)
        if (!(at[batch + k] = T("select.int", V(to_dtype(indices, RUSH_I64)), V(-1), V(k)))) return -1;
    return batch + (int)n;
}

RULE(GatherND)
{
    rush_tensor *x = in[0].t, *indices = in[1].t, *at[RUSH_MAXDIM + 1];
    int64_t batch = I_(in[2]);
    RUSH_CHECK(batch >= 0 && batch < x->ndim && batch < indices->ndim, RUSH_VALUE_ERROR, "batch_dims of %lld", (long long)batch);
    for (int b = 0; b < batch; ++b) { /* each batch has its own number along dimension b */
        int64_t size[RUSH_MAXDIM], m = indices->ndim - 1;
        for (int d = 0; d < m; ++d) size[d] = d == b ? x->size[b] : 1;
        at[b] = T("reshape", V(T("arange", V(x->size[b]), rush_v_dtype(RUSH_I64), ON(x))), rush_v_ints(size, (size_t)m));
    }
    int n = split_index(x, indices, (int)batch, at);
    return n < 0 ? -1 : rush_result(out, T("index.Tensor", V(x), rush_v_tensors(at, (size_t)n)));
}
RECORD(GatherND, "Tensor data, Tensor indices, *, int batch_dims=0", "The places that rows of indices name.");

RULE(ScatterND)
{
    rush_tensor *at[RUSH_MAXDIM + 1];
    bool sum = !strcmp(in[3].s, "add");
    RUSH_CHECK(sum || !strcmp(in[3].s, "none"), RUSH_NOT_IMPLEMENTED, "the reduction '%s'", in[3].s);
    int n = split_index(in[0].t, in[1].t, 0, at);
    return n < 0 ? -1 : rush_result(out, T("index_put", in[0], rush_v_tensors(at, (size_t)n), in[2], V(sum)));
}
RECORD(ScatterND, "Tensor data, Tensor indices, Tensor updates, *, str reduction='none'", "data with updates at the places that rows of indices name.");

RULE(NonZero) { return rush_result(out, transpose(T("nonzero", in[0]), 0, 1)); }
RECORD(NonZero, "Tensor X", "The places of what is not 0, a row for each dimension.");

RULE(Compress)
{
    rush_tensor *x = in[0].t, *which = T("nonzero", in[1]);
    int d = 0;
    if (!HAS(in[2])) x = T("reshape", V(x), INTS(-1));
    else if ((d = axis_of(I_(in[2]), x)) < 0) return -1;
    return rush_result(out, x && which ? taken(x, d, T("reshape", V(which), INTS(-1))) : NULL);
}
RECORD(Compress, "Tensor input, Tensor condition, *, int? axis=None", "Where the condition holds along an axis.");

RULE(OneHot)
{
    rush_tensor *index = to_dtype(in[0].t, RUSH_I64), *values = in[2].t;
    int64_t depth = (int64_t)rush_number_of(in[1].t), n = in[0].t->ndim, axis = I_(in[3]) < 0 ? I_(in[3]) + n + 1 : I_(in[3]);
    RUSH_CHECK(!rush_failed() && axis >= 0 && axis <= n && depth >= 0, RUSH_VALUE_ERROR, "axis %lld, depth %lld", (long long)axis, (long long)depth);
    int64_t size[RUSH_MAXDIM + 1];
    for (int d = 0; d <= n; ++d) size[d] = d == axis ? depth : 1;
    rush_tensor *places = T("reshape", V(T("arange", V(depth), rush_v_dtype(RUSH_I64), ON(values))), rush_v_ints(size, (size_t)n + 1));
    rush_tensor *hit = eq(unsqueeze(from_zero(index, depth), axis), places);
    return rush_result(out, where(hit, T("select.int", V(values), V(0), V(1)), T("select.int", V(values), V(0), V(0))));
}
RECORD(OneHot, "Tensor indices, Tensor depth, Tensor values, *, int axis=-1", "values[1] where the place is the index, values[0] elsewhere.");

RULE(Trilu)
{
    int64_t k = HAS(in[1]) ? (int64_t)rush_number_of(in[1].t) : 0;
    if (rush_failed()) return -1;
    return rush_result(out, I_(in[2]) ? T("triu", in[0], V(k)) : T("tril", in[0], V(k)));
}
RECORD(Trilu, "Tensor input, Tensor? k=None, *, int upper=1", "triu() or tril().");

/* ---- new tensors ---- */

RULE(ConstantOfShape)
{
    ints s = ints_of(in[0], RUSH_NONE);
    rush_tensor *value = T_(in[1]);
    if (s.n < 0) return -1;
    rush_value sizes = rush_v_ints(s.at, (size_t)s.n);
    if (!value) return rush_result(out, T("zeros", sizes, rush_v_dtype(RUSH_F32), ON(in[0].t)));
    return rush_result(out, T("clone", V(T("expand", V(T("reshape", V(value), rush_v_ints(NULL, 0))), sizes))));
}
RECORD(ConstantOfShape, "Tensor input, *, Tensor? value=None", "A tensor of that shape, full of value.");

RULE(Range)
{
    rush_value from, to, step;
    rush_dtype d = in[0].t->dtype;
    bool whole = rush_dtypes[d].category < 2;
    rush_value *x[] = {&from, &to, &step};
    for (int i = 0; i < 3; ++i) {
        double f = rush_number_of(in[i].t);
        *x[i] = whole ? rush_v_int((int64_t)f) : rush_v_float(f);
    }
    return rush_failed() ? -1 : rush_result(out, T("arange.start_step", from, to, step, rush_v_dtype(d), ON(in[0].t)));
}
RECORD(Range, "Tensor start, Tensor limit, Tensor delta", "arange().");

RULE(EyeLike)
{
    const rush_tensor *x = in[0].t;
    RUSH_CHECK(x->ndim == 2, RUSH_VALUE_ERROR, "a tensor of two dimensions, not of shape %s", rush_shape_of(x));
    int d = HAS(in[2]) ? -1 : x->dtype;
    for (int k = 0; d < 0 && k < RUSH_QINT8; ++k) d = rush_dtypes[k].onnx == I_(in[2]) && I_(in[2]) ? k : d;
    RUSH_CHECK(d >= 0, RUSH_NOT_IMPLEMENTED, "ONNX's type %lld is not supported", (long long)I_(in[2]));
    rush_tensor *row = T("arange", V(x->size[0]), rush_v_dtype(RUSH_I64), ON(x)), *column = T("arange", V(x->size[1]), rush_v_dtype(RUSH_I64), ON(x));
    return rush_result(out, to_dtype(eq(add(unsqueeze(row, 1), in[1]), column), d));
}
RECORD(EyeLike, "Tensor input, *, int k=0, int? dtype=None", "Ones on the k-th diagonal.");

RULE(Pad)
{
    rush_tensor *x = in[0].t;
    ints pads = ints_of(in[1], in[5]), axes = ints_of(in[3], RUSH_NONE);
    int64_t n = axes.n < 0 ? x->ndim : axes.n, pad[2 * RUSH_MAXDIM] = {0}, last = 0;
    RUSH_CHECK(!rush_failed() && pads.n == 2 * n && n <= RUSH_MAXDIM, RUSH_VALUE_ERROR, "%lld numbers of padding for a tensor of shape %s", (long long)pads.n, rush_shape_of(x));
    for (int64_t i = 0; i < n; ++i) { /* PyTorch counts from the last dimension, before and after together */
        int d = axis_of(axes.n < 0 ? i : axes.at[i], x);
        if (d < 0) return -1;
        int64_t at = x->ndim - 1 - d;
        pad[2 * at] = pads.at[i];
        pad[2 * at + 1] = pads.at[n + i];
        if (pads.at[i] || pads.at[n + i]) last = RUSH_MAX(last, at + 1);
    }
    const char *mode = !strcmp(in[4].s, "edge") ? "replicate" : !strcmp(in[4].s, "wrap") ? "circular" : in[4].s;
    rush_value amount = rush_v_ints(pad, 2 * (size_t)last);
    if (!last) return rush_result(out, T("alias", V(x)));
    if (!strcmp(mode, "constant")) return rush_result(out, T("constant_pad_nd", V(x), amount, HAS(in[2]) ? V(rush_number_of(in[2].t)) : in[6]));
    return rush_result(out, T("pad", V(x), amount, V(mode)));
}
RECORD(Pad, "Tensor data, Tensor? pads_input=None, Tensor? constant_value=None, Tensor? axes=None, *, str mode='constant', int[]? pads=None, float value=0.0", "With borders: of one number, mirrored, or of what is at the edge.");

/* ---- blocks of pixels and channels ---- */

RULE(DepthToSpace)
{
    const rush_tensor *x = in[0].t;
    int64_t b = I_(in[1]), c = x->ndim == 4 && b > 0 && b <= x->size[1] ? x->size[1] / b / b : 0;
    RUSH_CHECK(x->ndim == 4 && b > 0 && c * b * b == x->size[1], RUSH_VALUE_ERROR, "blocks of %lld of a tensor of shape %s", (long long)b, rush_shape_of(x));
    int64_t n = x->size[0], h = x->size[2], w = x->size[3];
    bool columns = !strcmp(in[2].s, "CRD");
    if (rush_grown("DepthToSpace", &h, b) || rush_grown("DepthToSpace", &w, b)) return -1;
    rush_tensor *y = columns ? T("reshape", in[0], INTS(n, c, b, b, x->size[2], x->size[3])) : T("reshape", in[0], INTS(n, b, b, c, x->size[2], x->size[3]));
    y = columns ? T("permute", V(y), INTS(0, 1, 4, 2, 5, 3)) : T("permute", V(y), INTS(0, 3, 4, 1, 5, 2));
    return rush_result(out, T("reshape", V(y), INTS(n, c, h, w)));
}
RECORD(DepthToSpace, "Tensor input, *, int blocksize, str mode='DCR'", "Channels become blocks of pixels.");

RULE(SpaceToDepth)
{
    const rush_tensor *x = in[0].t;
    int64_t b = I_(in[1]);
    RUSH_CHECK(x->ndim == 4 && b > 0 && x->size[2] % b == 0 && x->size[3] % b == 0, RUSH_VALUE_ERROR, "blocks of %lld of a tensor of shape %s", (long long)b, rush_shape_of(x));
    int64_t n = x->size[0], c = x->size[1], h = x->size[2] / b, w = x->size[3] / b;
    rush_tensor *y = T("permute", V(T("reshape", in[0], INTS(n, c, h, b, w, b))), INTS(0, 3, 5, 1, 2, 4));
    return rush_grown("SpaceToDepth", &c, b) || rush_grown("SpaceToDepth", &c, b) ? -1 : rush_result(out, T("reshape", V(y), INTS(n, c, h, w)));
}
RECORD(SpaceToDepth, "Tensor input, *, int blocksize", "Blocks of pixels become channels.");

RUSH_FAMILY(onnx_shape, &op_Reshape, &op_Flatten, &op_Squeeze, &op_Unsqueeze, &op_Transpose, &op_Expand, &op_Tile, &op_Shape, &op_Size, &op_Concat, &op_Split, &op_SequenceAt, &op_Slice,
            &op_Gather, &op_GatherElements, &op_ScatterElements, &op_GatherND, &op_ScatterND, &op_NonZero, &op_Compress, &op_OneHot, &op_Trilu, &op_ConstantOfShape, &op_Range,
            &op_EyeLike, &op_Pad, &op_DepthToSpace, &op_SpaceToDepth)
