/* sizes.c - arithmetic on sizes and other Python numbers, which programs do between calls: `_operator.add` and its like.
 *
 * Numbers are Python's: bools count as ints, // and % round down, a division by zero is an error.
 */
#include "graph/graph.h"
#include "op/formula.h"

#include <math.h>

static bool whole(rush_value v) { return v.kind == RUSH_V_INT || v.kind == RUSH_V_BOOL; }

static int result(rush_value *out, bool ints, int64_t i, double f)
{
    *out = ints ? rush_v_int(i) : rush_v_float(f);
    return 0;
}

static int overflows(void) { return rush_fail(RUSH_RUNTIME_ERROR, "a size is larger than 64 bits hold"); }
static int no_divisor(void) { return rush_fail(RUSH_RUNTIME_ERROR, "ZeroDivisionError"); }

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a % b < 0) != (b < 0)); }

#define EXACT(name, builtin, sign)                                                                                                     \
    static int name(int n, const rush_value *in, rush_value *out)                                                                      \
    {                                                                                                                                  \
        int64_t sum = 0;                                                                                                               \
        bool ints = whole(in[0]) && whole(in[1]);                                                                                      \
        if (ints && builtin(in[0].i, in[1].i, &sum)) return overflows();                                                               \
        return result(out, ints, sum, rush_to_double(in[0]) sign rush_to_double(in[1]));                                               \
    }
EXACT(add_sizes, __builtin_add_overflow, +)
EXACT(sub_sizes, __builtin_sub_overflow, -)
EXACT(mul_sizes, __builtin_mul_overflow, *)

#define COMPARE(name, sign)                                                                                                            \
    static int name(int n, const rush_value *in, rush_value *out)                                                                      \
    {                                                                                                                                  \
        *out = rush_v_bool(whole(in[0]) && whole(in[1]) ? in[0].i sign in[1].i : rush_to_double(in[0]) sign rush_to_double(in[1]));    \
        return 0;                                                                                                                      \
    }
COMPARE(eq_sizes, ==)
COMPARE(ne_sizes, !=)
COMPARE(le_sizes, <=)
COMPARE(ge_sizes, >=)
COMPARE(lt_sizes, <)
COMPARE(gt_sizes, >)

static int floordiv_sizes(int n, const rush_value *in, rush_value *out)
{
    if (rush_to_double(in[1]) == 0) return no_divisor();
    bool ints = whole(in[0]) && whole(in[1]);
    if (ints && in[0].i == INT64_MIN && in[1].i == -1) return overflows();
    return result(out, ints, ints ? floor_div(in[0].i, in[1].i) : 0, floor(rush_to_double(in[0]) / rush_to_double(in[1])));
}

static int mod_sizes(int n, const rush_value *in, rush_value *out)
{
    double a = rush_to_double(in[0]), b = rush_to_double(in[1]);
    if (b == 0) return no_divisor();
    bool ints = whole(in[0]) && whole(in[1]);
    int64_t rest = ints && in[1].i != -1 ? in[0].i - floor_div(in[0].i, in[1].i) * in[1].i : 0;
    return result(out, ints, rest, ints ? 0 : a - floor(a / b) * b);
}

static int truediv_sizes(int n, const rush_value *in, rush_value *out)
{
    if (rush_to_double(in[1]) == 0) return no_divisor();
    return result(out, false, 0, rush_to_double(in[0]) / rush_to_double(in[1]));
}

static int pow_sizes(int n, const rush_value *in, rush_value *out)
{
    bool ints = whole(in[0]) && whole(in[1]) && in[1].i >= 0;
    int64_t base = ints ? in[0].i : 0, all = 1;
    for (int64_t left = ints ? in[1].i : 0; left; left >>= 1) {
        if (left & 1 && __builtin_mul_overflow(all, base, &all)) return overflows();
        if (left > 1 && __builtin_mul_overflow(base, base, &base)) return overflows();
    }
    return result(out, ints, all, ints ? 0 : pow(rush_to_double(in[0]), rush_to_double(in[1])));
}

static int neg_sizes(int n, const rush_value *in, rush_value *out)
{
    if (whole(in[0]) && in[0].i == INT64_MIN) return overflows();
    return result(out, whole(in[0]), whole(in[0]) ? -in[0].i : 0, -rush_to_double(in[0]));
}

static int pos_sizes(int n, const rush_value *in, rush_value *out) { return result(out, whole(in[0]), in[0].i, rush_to_double(in[0])); }
static int float_of_sizes(int n, const rush_value *in, rush_value *out) { return result(out, false, 0, rush_to_double(in[0])); }
static int sqrt_sizes(int n, const rush_value *in, rush_value *out) { return result(out, false, 0, sqrt(rush_to_double(in[0]))); }
static int max_sizes(int n, const rush_value *in, rush_value *out) { return *out = rush_to_double(in[0]) >= rush_to_double(in[1]) ? in[0] : in[1], 0; }
static int min_sizes(int n, const rush_value *in, rush_value *out) { return *out = rush_to_double(in[0]) <= rush_to_double(in[1]) ? in[0] : in[1], 0; }
static int not_sizes(int n, const rush_value *in, rush_value *out) { return *out = rush_v_bool(rush_to_double(in[0]) == 0), 0; }

static int int_of_sizes(int n, const rush_value *in, rush_value *out) /* towards zero */
{
    double x = rush_to_double(in[0]);
    if (!whole(in[0]) && !(fabs(x) < 0x1p63)) return overflows();
    return *out = whole(in[0]) ? rush_v_int(in[0].i) : rush_v_int((int64_t)x), 0;
}

static int ceil_sizes(int n, const rush_value *in, rush_value *out)
{
    rush_value up = whole(in[0]) ? in[0] : rush_v_float(ceil(in[0].f));
    return int_of_sizes(1, &up, out);
}

static int floor_sizes(int n, const rush_value *in, rush_value *out)
{
    rush_value down = whole(in[0]) ? in[0] : rush_v_float(floor(in[0].f));
    return int_of_sizes(1, &down, out);
}

static int ite_sizes(int n, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(n == 3, RUSH_VALUE_ERROR, "a choice of sizes needs three arguments");
    return *out = rush_to_double(in[0]) != 0 ? in[1] : in[2], 0;
}

#define BITS(name, sign)                                                                                                               \
    static int name(int n, const rush_value *in, rush_value *out)                                                                      \
    {                                                                                                                                  \
        RUSH_CHECK(whole(in[0]) && whole(in[1]), RUSH_TYPE_ERROR, "bits of what is no int");                                           \
        *out = in[0].kind == RUSH_V_BOOL && in[1].kind == RUSH_V_BOOL ? rush_v_bool(in[0].i sign in[1].i) : rush_v_int(in[0].i sign in[1].i); \
        return 0;                                                                                                                      \
    }
BITS(and_sizes, &)
BITS(or_sizes, |)

static int lshift_sizes(int n, const rush_value *in, rush_value *out)
{
    int64_t power;
    if (!whole(in[0]) || !whole(in[1]) || in[1].i < 0 || in[1].i > 62 || __builtin_mul_overflow(in[0].i, (int64_t)1 << in[1].i, &power)) return overflows();
    return *out = rush_v_int(power), 0;
}

static int rshift_sizes(int n, const rush_value *in, rush_value *out)
{
    if (!whole(in[0]) || !whole(in[1]) || in[1].i < 0) return overflows();
    return *out = rush_v_int(in[0].i >> RUSH_MIN(in[1].i, 63)), 0;
}

/* ---- of tensors ---- */

static int size_of(int n, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(in[0].kind == RUSH_V_TENSOR && whole(in[1]), RUSH_TYPE_ERROR, "the size of what is no tensor");
    int d = rush_dim_wrap(in[1].i, in[0].t->ndim);
    return d < 0 || !in[0].t->ndim ? (rush_failed() ? -1 : rush_fail(RUSH_INDEX_ERROR, "the size of a dimension of a number")) : (*out = rush_v_int(in[0].t->size[d]), 0);
}

static int stride_of(int n, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(in[0].kind == RUSH_V_TENSOR && whole(in[1]), RUSH_TYPE_ERROR, "the stride of what is no tensor");
    int d = rush_dim_wrap(in[1].i, in[0].t->ndim);
    return d < 0 || !in[0].t->ndim ? (rush_failed() ? -1 : rush_fail(RUSH_INDEX_ERROR, "the stride of a dimension of a number")) : (*out = rush_v_int(in[0].t->stride[d]), 0);
}

static int numel_of(int n, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(in[0].kind == RUSH_V_TENSOR, RUSH_TYPE_ERROR, "the number of elements of what is no tensor");
    return *out = rush_v_int(in[0].t->numel), 0;
}

static int item_of(int n, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(in[0].kind == RUSH_V_TENSOR, RUSH_TYPE_ERROR, "the element of what is no tensor");
    const rush_tensor *t = in[0].t;
    int category = rush_dtypes[t->dtype].category;
    *out = t->dtype == RUSH_BOOL ? rush_v_bool(rush_item(t) != 0) : category < 2 ? rush_v_int(rush_item_int(t)) : rush_v_float(rush_item(t));
    return rush_failed() ? -1 : 0;
}

/* What the capturing program took for granted: checked, where it is about numbers. */
static int assert_scalar(int n, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(rush_to_double(in[0]) != 0, RUSH_RUNTIME_ERROR, "%s", n > 1 && in[1].kind == RUSH_V_STRING && in[1].s ? in[1].s : "a size is not as the program needs it");
    return 0;
}

static int in_range(int n, const rush_value *in, rush_value *out)
{
    bool low = n > 1 && whole(in[1]), high = n > 2 && whole(in[2]);
    RUSH_CHECK(whole(in[0]) && (!low || in[0].i >= in[1].i) && (!high || in[0].i <= in[2].i), RUSH_RUNTIME_ERROR, "a size of %lld is outside of the range that the program was made for",
               (long long)in[0].i);
    return 0;
}

rush_graph_arithmetic rush_graph_arithmetic_of(const char *target)
{
    static const struct { const char *name; rush_graph_arithmetic run; } table[] = {
        {"_operator.add", add_sizes}, {"_operator.sub", sub_sizes}, {"_operator.mul", mul_sizes}, {"_operator.eq", eq_sizes}, {"_operator.ne", ne_sizes},
        {"_operator.le", le_sizes}, {"_operator.ge", ge_sizes}, {"_operator.lt", lt_sizes}, {"_operator.gt", gt_sizes}, {"_operator.neg", neg_sizes},
        {"_operator.pos", pos_sizes}, {"_operator.floordiv", floordiv_sizes}, {"_operator.truediv", truediv_sizes}, {"_operator.mod", mod_sizes},
        {"_operator.pow", pow_sizes}, {"_operator.and_", and_sizes}, {"_operator.or_", or_sizes}, {"_operator.lshift", lshift_sizes},
        {"_operator.rshift", rshift_sizes}, {"math.trunc", int_of_sizes}, {"math.ceil", ceil_sizes}, {"math.floor", floor_sizes},
        {"torch.sym_not", not_sizes}, {"torch.sym_int", int_of_sizes}, {"torch.sym_float", float_of_sizes}, {"torch.sym_ite", ite_sizes},
        {"torch.sym_max", max_sizes}, {"torch.sym_min", min_sizes}, {"torch._sym_sqrt", sqrt_sizes}, {"torch.sym_sqrt", sqrt_sizes},
        {"torch.ops.aten.sym_size.int", size_of}, {"torch.ops.aten.sym_stride.int", stride_of}, {"torch.ops.aten.sym_numel.default", numel_of},
        {"torch.ops.aten.item.default", item_of}, {"torch.ops.aten._local_scalar_dense.default", item_of},
        {"torch.ops.aten._assert_scalar.default", assert_scalar}, {"torch.ops.aten.sym_constrain_range_for_size.default", in_range},
        {"torch.ops.aten.sym_constrain_range.default", in_range}};
    for (size_t i = 0; i < RUSH_COUNT(table); ++i)
        if (!strcmp(table[i].name, target)) return table[i].run;
    return NULL;
}
