/* onnx_math.c - ONNX's arithmetic, activations and reductions as composites: where they differ from ATen's, or have attributes.
 *
 * https://onnx.ai/onnx/operators. Of several versions of an operator one record serves; `opset` is what the file was written for.
 */
#include "op/formula.h"

#define RULE(name) static int name##_run(const rush_op *op, const rush_value *in, rush_value *out)
#define RECORD(name, arguments, doc_) static rush_op op_##name = {.schema = "onnx::" #name "(" arguments ") -> Tensor", .doc = doc_, .run = name##_run, .flags = RUSH_HIDDEN}

static bool is_float(const rush_tensor *t) { return rush_dtypes[t->dtype].category >= 2; }

/* ---- two operands, and many ---- */

RULE(Div) { return rush_result(out, is_float(in[0].t) ? T("div.Tensor", in[0], in[1]) : T("div.Tensor_mode", in[0], in[1], V("trunc"))); }
RECORD(Div, "Tensor A, Tensor B", "A / B; of integers, rounded towards zero.");

RULE(Mod) { return rush_result(out, I_(in[2]) ? T("fmod.Tensor", in[0], in[1]) : T("remainder.Tensor", in[0], in[1])); }
RECORD(Mod, "Tensor A, Tensor B, *, int fmod=0", "The rest of A / B: with the sign of B, or with fmod that of A.");

RULE(Pow) { return rush_result(out, to_dtype(pow_(in[0].t, in[1].t), in[0].t->dtype)); }
RECORD(Pow, "Tensor X, Tensor Y", "X to the power Y, in the type of X.");

RULE(BitShift)
{
    bool left = in[2].kind == RUSH_V_STRING && !strcmp(in[2].s, "LEFT");
    return rush_result(out, left ? T("bitwise_left_shift.Tensor", in[0], in[1]) : T("bitwise_right_shift.Tensor", in[0], in[1]));
}
RECORD(BitShift, "Tensor X, Tensor Y, *, str direction='LEFT'", "X's bits, moved by Y.");

/* One result of many tensors: two at a time. */
#define FOLD(name, call, doc_)                                                                                                         \
    RULE(name)                                                                                                                         \
    {                                                                                                                                  \
        RUSH_CHECK(in[0].n, RUSH_VALUE_ERROR, "without tensors");                                                                      \
        rush_tensor *y = in[0].tensors[0];                                                                                             \
        for (uint32_t i = 1; i < in[0].n && y; ++i) y = T(call, V(y), V(in[0].tensors[i]));                                            \
        return rush_result(out, y);                                                                                                    \
    }                                                                                                                                  \
    RECORD(name, "Tensor[] data_0", doc_)
FOLD(Max, "maximum", "The largest of several tensors, element by element.");
FOLD(Min, "minimum", "The smallest of several tensors, element by element.");
FOLD(Sum, "add.Tensor", "The sum of several tensors.");

RULE(Mean) { return Sum_run(op, in, out) ? -1 : rush_result(out, div_(out[0].t, (int64_t)in[0].n)); }
RECORD(Mean, "Tensor[] data_0", "The mean of several tensors.");

/* ---- one operand ---- */

RULE(Clip)
{
    rush_tensor *x = in[0].t;
    rush_value low = HAS(in[1]) ? in[1] : in[3], high = HAS(in[2]) ? in[2] : in[4];
    if (low.kind == RUSH_V_FLOAT || high.kind == RUSH_V_FLOAT) return rush_result(out, T("clamp", V(x), low, high));
    return rush_result(out, HAS(low) || HAS(high) ? T("clamp.Tensor", V(x), low, high) : T("alias", V(x)));
}
RECORD(Clip, "Tensor input, Tensor? min_input=None, Tensor? max_input=None, *, float? min=None, float? max=None", "Kept between two numbers.");

static int dtype_of(int64_t code)
{
    for (int d = 0; code > 0 && d < RUSH_QINT8; ++d)
        if (rush_dtypes[d].onnx == code) return d;
    return rush_fail(RUSH_NOT_IMPLEMENTED, "ONNX's type %lld is not supported", (long long)code);
}

RULE(Cast)
{
    int d = dtype_of(I_(in[1]));
    return d < 0 ? -1 : rush_result(out, to_dtype(in[0].t, d));
}
RECORD(Cast, "Tensor input, *, int to, int saturate=1", "The same numbers in another type.");

RULE(CastLike) { return rush_result(out, to_dtype(in[0].t, in[1].t->dtype)); }
RECORD(CastLike, "Tensor input, Tensor target_type, *, int saturate=1", "The same numbers in the type of another tensor.");

RULE(Identity) { return rush_result(out, T("alias", in[0])); }
RECORD(Identity, "Tensor input", "The tensor itself.");

RULE(Elu) { return rush_result(out, T("elu", in[0], in[1])); }
RECORD(Elu, "Tensor X, *, float alpha=1.0", "elu().");

RULE(Celu) { return rush_result(out, T("celu", in[0], in[1])); }
RECORD(Celu, "Tensor X, *, float alpha=1.0", "celu().");

RULE(Selu) { return rush_result(out, mul(T("elu", in[0], in[1]), in[2])); }
RECORD(Selu, "Tensor X, *, float alpha=1.67326319217681884765625, float gamma=1.05070102214813232421875", "elu() times gamma.");

RULE(LeakyRelu) { return rush_result(out, T("leaky_relu", in[0], in[1])); }
RECORD(LeakyRelu, "Tensor X, *, float alpha=0.01", "leaky_relu().");

RULE(ThresholdedRelu) { return rush_result(out, T("threshold", in[0], in[1], V(0))); }
RECORD(ThresholdedRelu, "Tensor X, *, float alpha=1.0", "What is above alpha; 0 below.");

RULE(HardSigmoid) { return rush_result(out, T("clamp", V(add(mul(in[0].t, in[1]), in[2])), V(0), V(1))); }
RECORD(HardSigmoid, "Tensor X, *, float alpha=0.2, float beta=0.5", "alpha X + beta, between 0 and 1.");

RULE(Softsign) { return rush_result(out, div_(in[0].t, add(abs_(in[0].t), 1))); }
RECORD(Softsign, "Tensor input", "x / (1 + |x|).");

RULE(Gelu) { return rush_result(out, T("gelu", in[0], in[1])); }
RECORD(Gelu, "Tensor X, *, str approximate='none'", "gelu().");

RULE(Swish) { return rush_result(out, mul(in[0].t, sigmoid(mul(in[0].t, in[1])))); }
RECORD(Swish, "Tensor X, *, float alpha=1.0", "x sigmoid(alpha x).");

RULE(PRelu) { return rush_result(out, where(gt(in[0].t, 0), in[0].t, mul(in[0].t, in[1].t))); }
RECORD(PRelu, "Tensor X, Tensor slope", "slope X where X is negative.");

RULE(IsInf)
{
    rush_tensor *x = in[0].t, *any = T("isinf", V(x));
    if (!I_(in[1])) any = logical_and(any, gt(x, 0));
    if (!I_(in[2])) any = logical_and(any, lt(x, 0));
    return rush_result(out, any);
}
RECORD(IsInf, "Tensor X, *, int detect_negative=1, int detect_positive=1", "Which elements are infinite.");

RULE(Shrink)
{
    rush_tensor *x = in[0].t, *zero = zeros_like(x);
    return rush_result(out, where(lt(x, -D_(in[2])), add(x, in[1]), where(gt(x, in[2]), sub(x, in[1]), zero)));
}
RECORD(Shrink, "Tensor input, *, float bias=0.0, float lambd=0.5", "Towards zero by bias; 0 within lambd of it.");

RULE(Dropout)
{
    if (rush_result(out, T("alias", in[0]))) return -1;
    return rush_result(out + 1, T("ones_like", in[0], rush_v_dtype(RUSH_BOOL)));
}
static rush_op op_Dropout = {.schema = "onnx::Dropout(Tensor data, Tensor? ratio_input=None, Tensor? training_mode=None, *, float ratio=0.5, int? seed=None) -> (Tensor, Tensor)",
                             .doc = "The tensor itself: models are read as they infer.", .run = Dropout_run, .flags = RUSH_HIDDEN};

/* ---- softmax: before version 13 of all dimensions from axis on ---- */

#define SOFTMAX(name, call)                                                                                                            \
    RULE(name)                                                                                                                         \
    {                                                                                                                                  \
        rush_tensor *x = in[0].t;                                                                                                      \
        bool old = I_(in[2]) < 13;                                                                                                     \
        int64_t axis = HAS(in[1]) ? I_(in[1]) : old ? 1 : -1, first = 1;                                                               \
        if (!old) return rush_result(out, T(call, V(x), V(axis)));                                                                     \
        if (axis < 0) axis += x->ndim;                                                                                                 \
        RUSH_CHECK(axis >= 0 && axis <= x->ndim, RUSH_INDEX_ERROR, "axis %lld of a tensor of shape %s", (long long)axis, rush_shape_of(x)); \
        for (int d = 0; d < axis; ++d) first *= x->size[d];                                                                            \
        rush_tensor *y = T(call, V(T("reshape", V(x), INTS(first, first ? x->numel / first : 0))), V(1));                              \
        return rush_result(out, y ? reshape_to(y, x) : NULL);                                                                          \
    }                                                                                                                                  \
    RECORD(name, "Tensor input, *, int? axis=None, int opset=13", #call " along axis; before version 13 of all dimensions from axis on.")
SOFTMAX(Softmax, "softmax.int");
SOFTMAX(LogSoftmax, "log_softmax.int");

RULE(Hardmax)
{
    int64_t axis = HAS(in[1]) ? I_(in[1]) : I_(in[2]) < 13 ? 1 : -1;
    rush_tensor *x = in[0].t, *best = T("argmax", V(x), V(axis), V(true));
    return rush_result(out, T("scatter.value", V(zeros_like(x)), V(axis), V(best), V(1)));
}
RECORD(Hardmax, "Tensor input, *, int? axis=None, int opset=13", "1 at the largest along axis, 0 elsewhere.");

/* ---- reductions: the axes are an attribute at first, later an input ---- */

#define REDUCED "Tensor data, Tensor? axes_input=None, *, int[]? axes=None, int keepdims=1, int noop_with_empty_axes=0"

/* 1: nothing to do. The axes' list lives in the scope. */
static int read_axes(const rush_value *in, rush_value *axes)
{
    size_t n = HAS(in[1]) ? (size_t)in[1].t->numel : HAS(in[2]) ? in[2].n : 0;
    const int64_t *given = HAS(in[1]) ? rush_numbers_of(in[1].t) : in[2].ints;
    if (n) return *axes = rush_v_ints(given, n), given ? 0 : -1;
    if (I_(in[4])) return 1;
    int64_t *all = rush_scope_alloc(RUSH_MAXDIM * sizeof *all);
    for (int d = 0; all && d < in[0].t->ndim; ++d) all[d] = d;
    return *axes = rush_v_ints(all, (size_t)in[0].t->ndim), all ? 0 : -1;
}

#define REDUCE(name, formula, doc_)                                                                                                    \
    RULE(Reduce##name)                                                                                                                 \
    {                                                                                                                                  \
        rush_value axes, keep = V((bool)I_(in[3]));                                                                                    \
        rush_tensor *x = in[0].t;                                                                                                      \
        int nothing = read_axes(in, &axes);                                                                                            \
        if (nothing) return nothing < 0 ? -1 : rush_result(out, T("alias", in[0]));                                                    \
        return rush_result(out, formula);                                                                                              \
    }                                                                                                                                  \
    RECORD(Reduce##name, REDUCED, doc_)

static rush_tensor *sum_of(rush_tensor *x, rush_value axes, rush_value keep) { return x ? T("sum.dim_IntList", V(x), axes, keep, rush_v_dtype(x->dtype)) : NULL; }

static rush_tensor *product_of(rush_tensor *x, rush_value axes, bool keep)
{
    int n = x->ndim;
    bool is[RUSH_MAXDIM] = {false};
    for (uint32_t i = 0; i < axes.n; ++i) {
        int d = rush_dim_wrap(axes.ints[i], n);
        if (d < 0) return NULL;
        is[d] = true;
    }
    for (int d = n - 1; d >= 0 && x; --d)
        if (is[d]) x = T("prod.dim_int", V(x), V((int64_t)d), V(keep), rush_v_dtype(x->dtype));
    return x;
}

REDUCE(Sum, sum_of(x, axes, keep), "The sum along axes.");
REDUCE(Mean, is_float(x) ? T("mean.dim", V(x), axes, keep) : to_dtype(T("mean.dim", V(to_dtype(x, RUSH_F64)), axes, keep), x->dtype), "The mean along axes.");
REDUCE(Max, T("amax", V(x), axes, keep), "The largest along axes.");
REDUCE(Min, T("amin", V(x), axes, keep), "The smallest along axes.");
REDUCE(Prod, product_of(x, axes, keep.i), "The product along axes.");
REDUCE(L1, sum_of(abs_(x), axes, keep), "The sum of absolute values along axes.");
REDUCE(L2, T("linalg_vector_norm", V(x), V(2), axes, keep), "The Euclidean norm along axes.");
REDUCE(LogSum, log_(sum_of(x, axes, keep)), "The logarithm of the sum along axes.");
REDUCE(LogSumExp, T("logsumexp", V(x), axes, keep), "The logarithm of the sum of exp along axes.");
REDUCE(SumSquare, sum_of(square(x), axes, keep), "The sum of squares along axes.");

/* ---- along one axis ---- */

/* The first of the best is PyTorch's choice; the last is looked for from the end. */
static rush_tensor *best_of(const rush_value *in, bool most)
{
    rush_tensor *x = in[0].t;
    bool last = I_(in[3]);
    int d = x->ndim ? rush_dim_wrap(I_(in[1]), x->ndim) : 0;
    if (d < 0) return NULL;
    rush_tensor *from = last ? T("flip", V(x), INTS(d)) : x;
    rush_tensor *at = most ? T("argmax", V(from), V((int64_t)d), V((bool)I_(in[2]))) : T("argmin", V(from), V((int64_t)d), V((bool)I_(in[2])));
    return last && x->ndim ? sub(V(x->size[d] - 1), at) : at;
}

RULE(ArgMax) { return rush_result(out, best_of(in, true)); }
RECORD(ArgMax, "Tensor data, *, int axis=0, int keepdims=1, int select_last_index=0", "Where the largest is along axis.");
RULE(ArgMin) { return rush_result(out, best_of(in, false)); }
RECORD(ArgMin, "Tensor data, *, int axis=0, int keepdims=1, int select_last_index=0", "Where the smallest is along axis.");

RULE(CumSum)
{
    rush_tensor *x = in[0].t;
    int d = rush_dim_wrap((int64_t)rush_number_of(in[1].t), x->ndim);
    bool without = I_(in[2]), back = I_(in[3]);
    if (rush_failed() || d < 0) return -1;
    rush_tensor *y = back ? T("flip", V(x), INTS(d)) : x;
    rush_tensor *sum = y ? T("cumsum", V(y), V((int64_t)d), rush_v_dtype(x->dtype)) : NULL;
    if (sum && without) sum = sub(sum, y);
    return rush_result(out, sum && back ? T("flip", V(sum), INTS(d)) : sum);
}
RECORD(CumSum, "Tensor x, Tensor axis, *, int exclusive=0, int reverse=0", "Running sums along axis; without the element itself, or from the end.");

RULE(TopK)
{
    rush_value both[2];
    int64_t k = (int64_t)rush_number_of(in[1].t);
    if (rush_failed() || TN(both, "topk", in[0], V(k), in[2], V((bool)I_(in[3])), V((bool)I_(in[4])))) return -1;
    out[0] = both[0];
    out[1] = both[1];
    return 0;
}
static rush_op op_TopK = {.schema = "onnx::TopK(Tensor X, Tensor K, *, int axis=-1, int largest=1, int sorted=1) -> (Tensor, Tensor)",
                          .doc = "The K largest or smallest along axis, and where they are.", .run = TopK_run, .flags = RUSH_HIDDEN};

RUSH_FAMILY(onnx_math, &op_Div, &op_Mod, &op_Pow, &op_BitShift, &op_Max, &op_Min, &op_Sum, &op_Mean, &op_Clip, &op_Cast, &op_CastLike, &op_Identity, &op_Elu, &op_Celu,
            &op_Selu, &op_LeakyRelu, &op_ThresholdedRelu, &op_HardSigmoid, &op_Softsign, &op_Gelu, &op_Swish, &op_PRelu, &op_IsInf, &op_Shrink, &op_Dropout, &op_Softmax,
            &op_LogSoftmax, &op_Hardmax, &op_ReduceSum, &op_ReduceMean, &op_ReduceMax, &op_ReduceMin, &op_ReduceProd, &op_ReduceL1, &op_ReduceL2, &op_ReduceLogSum,
            &op_ReduceLogSumExp, &op_ReduceSumSquare, &op_ArgMax, &op_ArgMin, &op_CumSum, &op_TopK)
