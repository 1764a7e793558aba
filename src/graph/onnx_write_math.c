/* onnx_write_math.c - arithmetic, activations, comparisons and reductions, written as ONNX. */
#include "graph/onnx_write.h"
#include "op/op.h"

#include <math.h>

#define RULE(name) static int name(W *w, const rush_graph_node *node)

static int category(int dtype) { return rush_dtypes[dtype].category; }
static const char *number(W *w, double x, int dtype) { return rush_onnx_number(w, rush_v_float(x), dtype); }

/* ---- one operand ---- */

RULE(plain) { GIVE(PUT(rush_onnx_word(node), NULL, rush_onnx_tensor_of(w, IN(0), node->nout && RESULT(0)->ndim >= 0 && category(RESULT(0)->dtype) >= 2 ? RESULT(0)->dtype : -1))); }
RULE(tested) { GIVE(PUT(rush_onnx_word(node), NULL, TENSOR(0))); } /* a bool of each number */
RULE(same) { GIVE(TENSOR(0)); }

RULE(nothing) { return 0; } /* what the program was captured under is not checked again */

RULE(inverted)
{
    if (!TYPE(0) || (TYPE(0)->dtype != RUSH_BOOL && !strcmp(node->op->base, "bitwise_not"))) return 1;
    GIVE(PUT("Not", NULL, rush_onnx_tensor_of(w, IN(0), RUSH_BOOL)));
}

/* Formulas of one tensor x, in its own type. */
static const char *formula(W *w, const char *word, const char *x, int d)
{
    if (!strcmp(word, "rsqrt")) return PUT("Reciprocal", NULL, PUT("Sqrt", NULL, x));
    if (!strcmp(word, "square")) return PUT("Mul", NULL, x, x);
    if (!strcmp(word, "silu")) return PUT("Mul", NULL, x, PUT("Sigmoid", NULL, x));
    if (!strcmp(word, "log1p")) return PUT("Log", NULL, PUT("Add", NULL, x, number(w, 1, d)));
    if (!strcmp(word, "expm1")) return PUT("Sub", NULL, PUT("Exp", NULL, x), number(w, 1, d));
    if (!strcmp(word, "exp2")) return PUT("Pow", NULL, number(w, 2, d), x);
    if (!strcmp(word, "log2")) return PUT("Mul", NULL, PUT("Log", NULL, x), number(w, 1 / log(2), d));
    if (!strcmp(word, "log10")) return PUT("Mul", NULL, PUT("Log", NULL, x), number(w, 1 / log(10), d));
    if (!strcmp(word, "erfc")) return PUT("Sub", NULL, number(w, 1, d), PUT("Erf", NULL, x));
    if (!strcmp(word, "relu6")) return PUT("Clip", NULL, x, number(w, 0, d), number(w, 6, d));
    if (!strcmp(word, "hardsigmoid")) return PUT("HardSigmoid", rush_onnx_f(NULL, "alpha", 1.0 / 6), x);
    if (!strcmp(word, "log_sigmoid")) return PUT("Neg", NULL, PUT("Softplus", NULL, PUT("Neg", NULL, x)));
    if (!strcmp(word, "trunc")) return PUT("Mul", NULL, PUT("Sign", NULL, x), PUT("Floor", NULL, PUT("Abs", NULL, x)));
    if (!strcmp(word, "frac")) return PUT("Mod", rush_onnx_i(NULL, "fmod", 1), x, number(w, 1, d));
    if (!strcmp(word, "tanhshrink")) return PUT("Sub", NULL, x, PUT("Tanh", NULL, x));
    return NULL;
}

RULE(computed) { GIVE(formula(w, rush_onnx_word(node), rush_onnx_tensor_of(w, IN(0), RESULT(0)->dtype), RESULT(0)->dtype)); }

/* An attribute of ONNX for each argument: the word is "Elu alpha". */
RULE(shaped)
{
    char type[32], name[3][16] = {""};
    double f;
    rush_bytes *a = NULL;
    int n = sscanf(rush_onnx_word(node), "%31s %15s %15s %15s", type, name[0], name[1], name[2]);
    for (int k = 1; k < n; ++k) {
        if (!rush_onnx_float(IN(k), &f)) return 1;
        a = rush_onnx_f(a, name[k - 1], f);
    }
    GIVE(PUT(type, a, TENSOR(0)));
}

RULE(gelu)
{
    int d = RESULT(0)->dtype;
    bool near = rush_onnx_is(IN(1), "tanh");
    const char *x = TENSOR(0), *inner;
    if (w->opset >= 20) GIVE(PUT("Gelu", rush_onnx_s(NULL, "approximate", near ? "tanh" : "none"), x));
    if (near) {
        const char *cube = PUT("Mul", NULL, PUT("Mul", NULL, x, x), x);
        inner = PUT("Tanh", NULL, PUT("Mul", NULL, PUT("Add", NULL, x, PUT("Mul", NULL, cube, number(w, 0.044715, d))), number(w, sqrt(2 / M_PI), d)));
    } else {
        inner = PUT("Erf", NULL, PUT("Mul", NULL, x, number(w, sqrt(0.5), d)));
    }
    GIVE(PUT("Mul", NULL, PUT("Mul", NULL, x, number(w, 0.5, d)), PUT("Add", NULL, inner, number(w, 1, d))));
}

RULE(elu)
{
    double alpha, scale, input;
    if (!rush_onnx_float(IN(1), &alpha) || !rush_onnx_float(IN(2), &scale) || !rush_onnx_float(IN(3), &input) || input != 1) return 1;
    const char *y = PUT("Elu", rush_onnx_f(NULL, "alpha", alpha), TENSOR(0));
    GIVE(scale == 1 ? y : PUT("Mul", NULL, y, number(w, scale, RESULT(0)->dtype)));
}

RULE(softplus)
{
    double beta;
    int d = RESULT(0)->dtype;
    if (!rush_onnx_float(IN(1), &beta)) return 1;
    const char *x = TENSOR(0);
    GIVE(beta == 1 ? PUT("Softplus", NULL, x) : PUT("Div", NULL, PUT("Softplus", NULL, PUT("Mul", NULL, x, number(w, beta, d))), number(w, beta, d)));
}

RULE(clamped)
{
    int d = RESULT(0)->dtype;
    bool low_only = !strcmp(node->op->base, "clamp_min"), high_only = !strcmp(node->op->base, "clamp_max");
    const rush_operand *low = high_only ? NULL : IN(1), *high = low_only ? NULL : high_only ? IN(1) : IN(2);
    const char *y = rush_onnx_tensor_of(w, IN(0), d);
    if (low && !rush_onnx_none(low)) y = PUT("Max", NULL, y, rush_onnx_tensor_of(w, low, d));
    if (high && !rush_onnx_none(high)) y = PUT("Min", NULL, y, rush_onnx_tensor_of(w, high, d));
    GIVE(y);
}

RULE(prelu)
{
    const rush_graph_value *x = TYPE(0), *slope = TYPE(1);
    int64_t size[RUSH_MAXDIM];
    if (!x || !slope || x->ndim < 2 || slope->ndim != 1 || slope->size[0].n == 1) GIVE(PUT("PRelu", NULL, TENSOR(0), TENSOR(1)));
    for (int d = 0; d < x->ndim - 1; ++d) size[d] = d ? 1 : -1;
    GIVE(PUT("PRelu", NULL, TENSOR(0), PUT("Reshape", NULL, TENSOR(1), rush_onnx_list(w, x->ndim - 1, size))));
}

RULE(glu)
{
    int64_t dim;
    const char *half[2], *x = TENSOR(0);
    if (!rush_onnx_int(IN(1), &dim)) return 1;
    if (rush_onnx_put_many(w, "Split", rush_onnx_i(rush_onnx_i(NULL, "axis", dim), "num_outputs", 2), 1, &x, 2, half)) return -1;
    GIVE(PUT("Mul", NULL, half[0], PUT("Sigmoid", NULL, half[1])));
}

RULE(cast) { GIVE(rush_onnx_tensor_of(w, IN(0), RESULT(0)->dtype)); }

/* ---- two operands, in the type of the result ---- */

RULE(binary)
{
    int d = RESULT(0)->dtype;
    int64_t one;
    int alpha = rush_op_arg(node->op, "alpha");
    const char *a = rush_onnx_tensor_of(w, IN(0), d), *b = rush_onnx_tensor_of(w, IN(1), d);
    if (alpha >= 0 && !(rush_onnx_int(IN(alpha), &one) && one == 1)) b = PUT("Mul", NULL, b, rush_onnx_tensor_of(w, IN(alpha), d));
    if (!strncmp(node->op->base, "rsub", 4)) GIVE(PUT("Sub", NULL, b, a));
    const char *word = rush_onnx_word(node);
    if (d == RUSH_BOOL && !strcmp(word, "Mul")) word = "And";
    if (d == RUSH_BOOL && !strcmp(word, "Add")) word = "Or";
    GIVE(PUT(word, NULL, a, b));
}

RULE(power)
{
    int d = RESULT(0)->dtype;
    double e;
    const char *x = rush_onnx_tensor_of(w, IN(0), d);
    if (rush_onnx_float(IN(1), &e) && e == 2) GIVE(PUT("Mul", NULL, x, x));
    if (rush_onnx_float(IN(1), &e) && e == 0.5) GIVE(PUT("Sqrt", NULL, x));
    GIVE(PUT("Pow", NULL, x, rush_onnx_tensor_of(w, IN(1), d)));
}

/* Divisions that round; ONNX's Div of integers rounds towards zero. */
RULE(divided)
{
    int d = RESULT(0)->dtype, mode = rush_op_arg(node->op, "rounding_mode");
    bool floors = mode < 0 ? !strcmp(node->op->base, "floor_divide") : rush_onnx_is(IN(mode), "floor"), truncates = mode >= 0 && rush_onnx_is(IN(mode), "trunc");
    const char *a = rush_onnx_tensor_of(w, IN(0), d), *b = rush_onnx_tensor_of(w, IN(1), d);
    if (!floors || category(d) >= 2) {
        const char *q = PUT("Div", NULL, a, b);
        GIVE(category(d) < 2 || (!floors && !truncates) ? q : floors ? PUT("Floor", NULL, q) : formula(w, "trunc", q, d));
    }
    GIVE(PUT("Div", NULL, PUT("Sub", NULL, a, PUT("Mod", NULL, a, b)), b)); /* Mod has the sign of b, so this is exact */
}

RULE(rest)
{
    int d = RESULT(0)->dtype;
    const char *a = rush_onnx_tensor_of(w, IN(0), d), *b = rush_onnx_tensor_of(w, IN(1), d);
    if (!strcmp(node->op->base, "fmod")) GIVE(PUT("Mod", rush_onnx_i(NULL, "fmod", 1), a, b));
    if (category(d) < 2) GIVE(PUT("Mod", NULL, a, b));
    GIVE(PUT("Sub", NULL, a, PUT("Mul", NULL, b, PUT("Floor", NULL, PUT("Div", NULL, a, b)))));
}

/* What two operands are compared in: the type that they are promoted to. */
static int common(W *w, const rush_graph_node *node, int a, int b)
{
    const rush_graph_value *x = TYPE(a), *y = TYPE(b);
    double f;
    if (x && y && x->ndim >= 0 && y->ndim >= 0) {
        if (x->ndim && !y->ndim && category(x->dtype) >= category(y->dtype)) return x->dtype;
        if (y->ndim && !x->ndim && category(y->dtype) >= category(x->dtype)) return y->dtype;
        return rush_promote((rush_dtype)x->dtype, (rush_dtype)y->dtype);
    }
    const rush_graph_value *t = x ? x : y;
    const rush_operand *o = x ? IN(b) : IN(a);
    bool fraction = rush_onnx_float(o, &f) && o->constant.kind == RUSH_V_FLOAT;
    return !t ? RUSH_I64 : fraction && category(t->dtype) < 2 ? RUSH_F32 : t->dtype == RUSH_BOOL && !(o->kind == RUSH_OPERAND_CONSTANT && o->constant.kind == RUSH_V_BOOL) ? RUSH_I64 : t->dtype;
}

RULE(compared)
{
    int d = common(w, node, 0, 1);
    const char *word = rush_onnx_word(node);
    if (d == RUSH_BOOL && strcmp(word, "Equal") && strcmp(word, "ne")) d = RUSH_I32;
    const char *a = rush_onnx_tensor_of(w, IN(0), d), *b = rush_onnx_tensor_of(w, IN(1), d);
    GIVE(!strcmp(word, "ne") ? PUT("Not", NULL, PUT("Equal", NULL, a, b)) : PUT(word, NULL, a, b));
}

RULE(logical) { GIVE(PUT(rush_onnx_word(node), NULL, rush_onnx_tensor_of(w, IN(0), RUSH_BOOL), rush_onnx_tensor_of(w, IN(1), RUSH_BOOL))); }

RULE(bitwise)
{
    char word[20];
    if (RESULT(0)->dtype == RUSH_BOOL) return logical(w, node);
    snprintf(word, sizeof word, "Bitwise%s", rush_onnx_word(node));
    GIVE(PUT(word, NULL, rush_onnx_tensor_of(w, IN(0), RESULT(0)->dtype), rush_onnx_tensor_of(w, IN(1), RESULT(0)->dtype)));
}

RULE(chosen)
{
    int d = RESULT(0)->dtype;
    GIVE(PUT("Where", NULL, rush_onnx_tensor_of(w, IN(0), RUSH_BOOL), rush_onnx_tensor_of(w, IN(1), d), rush_onnx_tensor_of(w, IN(2), d)));
}

RULE(masked)
{
    int d = RESULT(0)->dtype;
    GIVE(PUT("Where", NULL, rush_onnx_tensor_of(w, IN(1), RUSH_BOOL), rush_onnx_tensor_of(w, IN(2), d), TENSOR(0)));
}

RULE(addc) /* self + value * a (* or /) b */
{
    int d = RESULT(0)->dtype;
    const char *y = PUT(rush_onnx_word(node), NULL, rush_onnx_tensor_of(w, IN(1), d), rush_onnx_tensor_of(w, IN(2), d));
    GIVE(PUT("Add", NULL, TENSOR(0), PUT("Mul", NULL, y, rush_onnx_tensor_of(w, IN(3), d))));
}

/* ---- reductions ---- */

/* The axes as an input; NULL for all. -1: not constant. */
static int axes_of(W *w, const rush_graph_node *node, const char **axes, bool *keep)
{
    int64_t x[RUSH_MAXDIM], k = 0;
    int dim = rush_op_arg(node->op, "dim"), keepdim = rush_op_arg(node->op, "keepdim"), n = 0;
    *axes = NULL;
    if (keepdim >= 0) rush_onnx_int(IN(keepdim), &k);
    *keep = k;
    if (dim >= 0 && !rush_onnx_none(IN(dim)) && (n = rush_onnx_ints_of(IN(dim), RUSH_MAXDIM, x)) < 0) return -1;
    if (n) *axes = rush_onnx_list(w, n, x);
    return 0;
}

static const char *reduce(W *w, const char *word, const char *x, const char *axes, bool keep) { return x ? PUT(word, rush_onnx_i(NULL, "keepdims", keep), x, axes ? axes : "") : NULL; }

RULE(reduced)
{
    const char *axes, *word = rush_onnx_word(node);
    bool keep;
    if (axes_of(w, node, &axes, &keep)) return 1;
    GIVE(reduce(w, word, rush_onnx_tensor_of(w, IN(0), RESULT(0)->dtype), axes, keep));
}

RULE(decided) /* any, all */
{
    const char *axes;
    bool keep;
    if (axes_of(w, node, &axes, &keep)) return 1;
    GIVE(rush_onnx_cast(w, reduce(w, rush_onnx_word(node), rush_onnx_cast(w, rush_onnx_tensor_of(w, IN(0), RUSH_BOOL), RUSH_I32), axes, keep), RUSH_BOOL));
}

RULE(norm)
{
    double p = 2;
    const char *axes;
    bool keep;
    if (axes_of(w, node, &axes, &keep) || (!rush_onnx_none(IN(1)) && !rush_onnx_float(IN(1), &p)) || (p != 1 && p != 2)) return 1;
    GIVE(reduce(w, p == 1 ? "ReduceL1" : "ReduceL2", rush_onnx_tensor_of(w, IN(0), RESULT(0)->dtype), axes, keep));
}

/* var, std, var_mean: the mean square of what is left of the mean, times n / (n - correction). */
RULE(spread)
{
    int d = RESULT(0)->dtype, how = rush_op_arg(node->op, "correction"), unbiased = rush_op_arg(node->op, "unbiased");
    double correction = 1;
    int64_t flag = 1;
    const char *axes, *x = TENSOR(0), *base = node->op->base;
    bool keep, root = !strncmp(base, "std", 3), both = strstr(base, "_mean") != NULL;
    if (axes_of(w, node, &axes, &keep)) return 1;
    if (how >= 0 && !rush_onnx_none(IN(how)) && !rush_onnx_float(IN(how), &correction)) return 1;
    if (unbiased >= 0 && rush_onnx_int(IN(unbiased), &flag)) correction = flag != 0;
    const char *mean = reduce(w, "ReduceMean", x, axes, true), *off = PUT("Sub", NULL, x, mean), *y = reduce(w, "ReduceMean", PUT("Mul", NULL, off, off), axes, keep);
    if (correction != 0) {
        const char *n = PUT("Div", NULL, rush_onnx_cast(w, PUT("Size", NULL, x), d), rush_onnx_cast(w, PUT("Size", NULL, mean), d));
        y = PUT("Mul", NULL, y, PUT("Div", NULL, n, PUT("Sub", NULL, n, number(w, correction, d))));
    }
    if (root) y = PUT("Sqrt", NULL, y);
    if (both && rush_onnx_give(w, node, 1, reduce(w, "ReduceMean", x, axes, keep))) return -1;
    GIVE(y);
}

RULE(argument)
{
    int64_t dim = 0, keep = 0;
    const char *x = TENSOR(0);
    rush_onnx_int(IN(2), &keep);
    if (rush_onnx_none(IN(1))) {
        if (keep) return 1;
        x = PUT("Reshape", NULL, x, rush_onnx_list(w, 1, (int64_t[]){-1}));
    } else if (!rush_onnx_int(IN(1), &dim)) {
        return 1;
    }
    GIVE(PUT(rush_onnx_word(node), rush_onnx_i(rush_onnx_i(NULL, "axis", dim), "keepdims", keep), x));
}

RULE(best) /* max.dim and min.dim: values and where they are */
{
    int64_t dim, keep;
    bool most = !strcmp(rush_onnx_word(node), "ReduceMax");
    if (!rush_onnx_int(IN(1), &dim) || !rush_onnx_int(IN(2), &keep)) return 1;
    if (rush_onnx_give(w, node, 0, reduce(w, rush_onnx_word(node), TENSOR(0), rush_onnx_list(w, 1, &dim), keep))) return -1;
    return node->nout > 1 ? rush_onnx_give(w, node, 1, PUT(most ? "ArgMax" : "ArgMin", rush_onnx_i(rush_onnx_i(NULL, "axis", dim), "keepdims", keep), TENSOR(0))) : 0;
}

RULE(max_of)
{
    if (node->op->nargs > 1) return strstr(node->op->name, ".dim") ? best(w, node) : binary(w, node);
    char word[16];
    snprintf(word, sizeof word, "Reduce%s", rush_onnx_word(node));
    GIVE(reduce(w, word, TENSOR(0), NULL, false));
}

RULE(softmaxed)
{
    int64_t dim;
    if (!rush_onnx_int(IN(1), &dim)) return 1;
    GIVE(PUT(rush_onnx_word(node), rush_onnx_i(NULL, "axis", dim), rush_onnx_tensor_of(w, IN(0), RESULT(0)->dtype)));
}

RULE(cumsum)
{
    int64_t dim;
    if (!rush_onnx_int(IN(1), &dim)) return 1;
    GIVE(PUT("CumSum", NULL, rush_onnx_tensor_of(w, IN(0), RESULT(0)->dtype), rush_onnx_number(w, rush_v_int(dim), RUSH_I64)));
}

RULE(topk)
{
    const char *in[2] = {TENSOR(0)}, *out[2];
    int64_t dim, largest, sorted = 1;
    bool sort = !strcmp(node->op->base, "sort");
    int at = sort ? rush_op_arg(node->op, "dim") : 2, down = sort ? rush_op_arg(node->op, "descending") : 3;
    if (!rush_onnx_int(IN(at), &dim) || !rush_onnx_int(IN(down), &largest) || (!sort && !rush_onnx_int(IN(4), &sorted))) return 1;
    if (TYPE(0) && dim < 0) dim += TYPE(0)->ndim;
    in[1] = sort ? PUT("Shape", rush_onnx_i(rush_onnx_i(NULL, "start", dim), "end", dim + 1), in[0]) : rush_onnx_size_of(w, IN(1));
    if (!in[1] || rush_onnx_put_many(w, "TopK", rush_onnx_i(rush_onnx_i(rush_onnx_i(NULL, "axis", dim), "largest", largest), "sorted", sorted), 2, in, 2, out)) return rush_failed() ? -1 : 1;
    return rush_onnx_give(w, node, 0, out[0]) || rush_onnx_give(w, node, 1, out[1]);
}

const rush_onnx_row rush_onnx_math[] = {
    {"abs", plain, "Abs"}, {"acos", plain, "Acos"}, {"acosh", plain, "Acosh"}, {"asin", plain, "Asin"}, {"asinh", plain, "Asinh"}, {"atan", plain, "Atan"}, {"atanh", plain, "Atanh"},
    {"ceil", plain, "Ceil"}, {"cos", plain, "Cos"}, {"cosh", plain, "Cosh"}, {"erf", plain, "Erf"}, {"exp", plain, "Exp"}, {"floor", plain, "Floor"}, {"log", plain, "Log"},
    {"neg", plain, "Neg"}, {"reciprocal", plain, "Reciprocal"}, {"relu", plain, "Relu"}, {"round", plain, "Round"}, {"sigmoid", plain, "Sigmoid"}, {"sign", plain, "Sign"},
    {"sin", plain, "Sin"}, {"sinh", plain, "Sinh"}, {"sqrt", plain, "Sqrt"}, {"tan", plain, "Tan"}, {"tanh", plain, "Tanh"}, {"mish", plain, "Mish"}, {"hardswish", plain, "HardSwish"},
    {"isnan", tested, "IsNaN"}, {"isinf", tested, "IsInf"}, {"_assert_tensor_metadata", nothing, NULL}, {"_assert_async", nothing, NULL}, {"logical_not", inverted, NULL}, {"bitwise_not", inverted, NULL},
    {"rsqrt", computed, "rsqrt"}, {"square", computed, "square"}, {"silu", computed, "silu"}, {"log1p", computed, "log1p"}, {"expm1", computed, "expm1"}, {"exp2", computed, "exp2"},
    {"log2", computed, "log2"}, {"log10", computed, "log10"}, {"erfc", computed, "erfc"}, {"relu6", computed, "relu6"}, {"hardsigmoid", computed, "hardsigmoid"},
    {"log_sigmoid", computed, "log_sigmoid"}, {"log_sigmoid_forward", computed, "log_sigmoid"}, {"trunc", computed, "trunc"}, {"frac", computed, "frac"}, {"tanhshrink", computed, "tanhshrink"},
    {"leaky_relu", shaped, "LeakyRelu alpha"}, {"celu", shaped, "Celu alpha"}, {"selu", shaped, "Selu"}, {"gelu", gelu, NULL}, {"elu", elu, NULL}, {"softplus", softplus, NULL},
    {"clamp", clamped, NULL}, {"clip", clamped, NULL}, {"clamp_min", clamped, NULL}, {"clamp_max", clamped, NULL}, {"hardtanh", clamped, NULL}, {"prelu", prelu, NULL}, {"_prelu_kernel", prelu, NULL},
    {"glu", glu, NULL}, {"_to_copy", cast, NULL}, {"to", cast, NULL}, {"type_as", cast, NULL}, {"_to_dtype", cast, NULL}, {"clone", same, NULL}, {"alias", same, NULL}, {"contiguous", same, NULL},
    {"detach", same, NULL}, {"detach_", same, NULL}, {"lift_fresh_copy", same, NULL}, {"lift_fresh", same, NULL}, {"_fresh_copy", same, NULL}, {"positive", same, NULL}, {"_conj_if_complex", same, NULL},
    {"add", binary, "Add"}, {"sub", binary, "Sub"}, {"rsub", binary, "Sub"}, {"mul", binary, "Mul"}, {"maximum", binary, "Max"}, {"minimum", binary, "Min"}, {"fmax", binary, "Max"}, {"fmin", binary, "Min"},
    {"div", divided, NULL}, {"true_divide", divided, NULL}, {"floor_divide", divided, NULL}, {"remainder", rest, NULL}, {"fmod", rest, NULL}, {"pow", power, NULL},
    {"eq", compared, "Equal"}, {"ne", compared, "ne"}, {"lt", compared, "Less"}, {"le", compared, "LessOrEqual"}, {"gt", compared, "Greater"}, {"ge", compared, "GreaterOrEqual"},
    {"logical_and", logical, "And"}, {"logical_or", logical, "Or"}, {"logical_xor", logical, "Xor"}, {"bitwise_and", bitwise, "And"}, {"bitwise_or", bitwise, "Or"}, {"bitwise_xor", bitwise, "Xor"},
    {"__and__", bitwise, "And"}, {"__or__", bitwise, "Or"}, {"where", chosen, NULL}, {"masked_fill", masked, NULL}, {"addcmul", addc, "Mul"}, {"addcdiv", addc, "Div"},
    {"sum", reduced, "ReduceSum"}, {"mean", reduced, "ReduceMean"}, {"amax", reduced, "ReduceMax"}, {"amin", reduced, "ReduceMin"}, {"prod", reduced, "ReduceProd"}, {"logsumexp", reduced, "ReduceLogSumExp"},
    {"any", decided, "ReduceMax"}, {"all", decided, "ReduceMin"}, {"linalg_vector_norm", norm, NULL}, {"norm", norm, NULL}, {"var", spread, NULL}, {"std", spread, NULL}, {"var_mean", spread, NULL}, {"std_mean", spread, NULL},
    {"argmax", argument, "ArgMax"}, {"argmin", argument, "ArgMin"}, {"max.dim", best, "ReduceMax"}, {"min.dim", best, "ReduceMin"}, {"max", max_of, "Max"}, {"min", max_of, "Min"},
    {"softmax", softmaxed, "Softmax"}, {"_softmax", softmaxed, "Softmax"}, {"_safe_softmax", softmaxed, "Softmax"}, {"log_softmax", softmaxed, "LogSoftmax"}, {"_log_softmax", softmaxed, "LogSoftmax"},
    {"cumsum", cumsum, NULL}, {"topk", topk, NULL}, {"sort", topk, NULL}, {NULL}};
