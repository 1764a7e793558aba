/* builtin.c - what the language has beside the registry's operations: numbers, texts, lists, dictionaries, and what tensors say of
 * themselves. One table at the end; a function that is given what it does not take says so, and an operation of its name is tried. */
#include "script/builtin.h"
#include "base/hash.h"
#include "base/text.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>

static bool has(const script_call *c, int k, int kind) { return k < c->n && c->in[k].kind == kind; }
static int give_float(script_value *out, double f) { return *out = script_of_float(f), 0; }
static int nothing(script_value *out) { return *out = SCRIPT_NOTHING, 0; }
static int given(script_value *out, script_value v) { return *out = rush_script_keep(v), 0; }

/* The argument of this name, or the k-th; NULL: not given, or None. */
const script_value *rush_script_argument(const script_call *c, int k, const char *name)
{
    for (int i = 0; i < c->n; ++i) {
        bool by_name = c->names && c->names[i];
        if (by_name ? !strcmp(c->names[i], name) : i == k) return c->in[i].kind == SCRIPT_NONE ? NULL : &c->in[i];
    }
    return NULL;
}

/* ---- arithmetic ---- */

static bool numbers(const script_call *c, int n)
{
    for (int i = 0; i < n; ++i)
        if (i >= c->n || !script_is_number(c->in[i])) return false;
    return true;
}

static int zero_division(void) { return rush_fail(RUSH_ZERO_DIVISION_ERROR, "division by zero"); }

static int whole(const char *name, int64_t a, int64_t b, script_value *out)
{
    uint64_t x = (uint64_t)a, y = (uint64_t)b;
    switch (name[0] == '_' ? name[2] : name[0]) {
    case 'a': return give_int(out, name[0] == '_' ? a & b : (int64_t)(x + y));
    case 's': return give_int(out, (int64_t)(x - y));
    case 'm': return give_int(out, (int64_t)(x * y));
    case 'f': case 'r':
        if (name[0] == '_') return give_int(out, b < 0 || b > 63 ? 0 : a >> b); /* __rshift__ */
        if (!b) return zero_division();
        if (b == -1) return give_int(out, name[0] == 'f' ? (int64_t)(0 - x) : 0);
        if (name[0] == 'f') return give_int(out, a / b - (a % b != 0 && (a % b < 0) != (b < 0)));
        return give_int(out, a % b + (a % b != 0 && (a % b < 0) != (b < 0) ? b : 0));
    case 'x': return give_int(out, a ^ b);
    case 'o': return give_int(out, a | b);
    case 'l': return give_int(out, b < 0 || b > 63 ? 0 : (int64_t)(x << b));
    default: NOT_MINE;
    }
}

/* A float of integers, too: what the language's pow gives. */
static int power(script_value a, script_value b, script_value *out)
{
    double x = rush_script_double(a), y = rush_script_double(b);
    RUSH_CHECK(x != 0 || !(y < 0), RUSH_RUNTIME_ERROR, "0.0 cannot be raised to a negative power");
    return give_float(out, pow(x, y));
}

static int complex_arithmetic(const char *name, script_value a, script_value b, script_value *out)
{
    double x = rush_script_double(a), y = a.kind == SCRIPT_COMPLEX ? a.c[1] : 0, u = rush_script_double(b), v = b.kind == SCRIPT_COMPLEX ? b.c[1] : 0, d = u * u + v * v;
    script_value z = {.kind = SCRIPT_COMPLEX};
    if (!strcmp(name, "add")) z.c[0] = x + u, z.c[1] = y + v;
    else if (!strcmp(name, "sub")) z.c[0] = x - u, z.c[1] = y - v;
    else if (!strcmp(name, "mul")) z.c[0] = x * u - y * v, z.c[1] = x * v + y * u;
    else if (!strcmp(name, "div") && d != 0) z.c[0] = (x * u + y * v) / d, z.c[1] = (y * u - x * v) / d;
    else NOT_MINE;
    return give(out, z);
}

int rush_script_arithmetic(const char *name, script_value a, script_value b, script_value *out)
{
    if (a.kind == SCRIPT_COMPLEX || b.kind == SCRIPT_COMPLEX) return complex_arithmetic(name, a, b, out);
    if (!strcmp(name, "pow")) return power(a, b, out);
    double x = rush_script_double(a), y = rush_script_double(b);
    if (!strcmp(name, "div")) return y == 0 ? zero_division() : give_float(out, x / y);
    if (a.kind != SCRIPT_FLOAT && b.kind != SCRIPT_FLOAT) {
        bool bools = a.kind == SCRIPT_BOOL && b.kind == SCRIPT_BOOL && name[0] == '_';
        int r = whole(name, a.i, b.i, out);
        if (!r && bools) *out = script_of_bool(out->i);
        return r;
    }
    switch (name[0]) {
    case 'a': return give_float(out, x + y);
    case 's': return give_float(out, x - y);
    case 'm': return give_float(out, x * y);
    case 'f': return y == 0 ? zero_division() : give_float(out, floor(x / y));
    case 'r': {
        if (y == 0) return zero_division();
        double r = fmod(x, y);
        return give_float(out, r != 0 && (r < 0) != (y < 0) ? r + y : r);
    }
    default: NOT_MINE;
    }
}

static bool is_items(script_value v) { return v.kind == SCRIPT_LIST || v.kind == SCRIPT_TUPLE; }

/* Two of one kind; of a list and a tuple, as of sizes and a tuple, a list. */
static int joined(script_value a, script_value b, script_value *out)
{
    if (a.kind == SCRIPT_TEXT) {
        script_value v = rush_script_text("", 0);
        char *p = v.kind == SCRIPT_UNSET ? NULL : rush_realloc(v.box->text, a.box->n + b.box->n + 1);
        if (!p) return rush_script_drop(v), -1;
        memcpy(p, a.box->text, a.box->n);
        memcpy(p + a.box->n, b.box->text, b.box->n + 1);
        v.box->text = p;
        v.box->n = a.box->n + b.box->n;
        return give(out, v);
    }
    script_value v = rush_script_list(a.kind == b.kind ? a.kind : SCRIPT_LIST, a.box->n, a.box->item);
    for (size_t i = 0; v.kind != SCRIPT_UNSET && i < b.box->n; ++i)
        if (rush_script_append(v.box, b.box->item[i])) return rush_script_drop(v), -1;
    return give(out, v);
}

static int repeated(script_value a, int64_t n, script_value *out)
{
    int64_t total;
    RUSH_CHECK(n <= 0 || (!__builtin_mul_overflow(n, (int64_t)a.box->n, &total) && total < 1 << 28), RUSH_MEMORY_ERROR, "a list of %lld times %zu items", (long long)n, a.box->n);
    script_value v = a.kind == SCRIPT_TEXT ? rush_script_text("", 0) : rush_script_list(a.kind, 0, NULL);
    for (int64_t k = 0; k < n && v.kind != SCRIPT_UNSET; ++k) {
        script_value more;
        int failed = joined(v, a, &more);
        rush_script_drop(v);
        if (failed) return -1;
        v = more;
    }
    return give(out, v);
}

FUNCTION(arithmetic)
{
    const char *name = c->name;
    if (c->n == 2 && numbers(c, 2)) return rush_script_arithmetic(name, c->in[0], c->in[1], out);
    if (c->n != 2) NOT_MINE;
    script_value a = c->in[0], b = c->in[1];
    bool texts = a.kind == SCRIPT_TEXT && b.kind == SCRIPT_TEXT, items = is_items(a) && is_items(b);
    if (!strcmp(name, "add") && (texts || items)) return joined(a, b, out);
    if (!strcmp(name, "remainder") && a.kind == SCRIPT_TEXT) return rush_script_text_method("percentFormat")(c, out);
    if (!strcmp(name, "mul") && (a.kind == SCRIPT_LIST || a.kind == SCRIPT_TEXT) && b.kind == SCRIPT_INT) return repeated(a, b.i, out);
    if (!strcmp(name, "mul") && b.kind == SCRIPT_LIST && a.kind == SCRIPT_INT) return repeated(b, a.i, out);
    if (!strcmp(name, "floordiv") || !strcmp(name, "floordiv_")) { /* of tensors the operation has another name */
        c->name = "floor_divide";
        return rush_script_run_op(rush_op_find("floor_divide"), c, out);
    }
    NOT_MINE;
}

FUNCTION(add_inplace) /* of lists */
{
    if (!has(c, 0, SCRIPT_LIST) || c->n != 2) NOT_MINE;
    script_value items;
    if (rush_script_items(c->in[1], &items)) return -1;
    size_t n = items.box->n;
    for (size_t i = 0; i < n; ++i)
        if (rush_script_append(c->in[0].box, items.box->item[i])) return rush_script_drop(items), -1;
    rush_script_drop(items);
    return given(out, c->in[0]);
}

FUNCTION(compare)
{
    if (c->n != 2 || c->in[0].kind == SCRIPT_TENSOR || c->in[1].kind == SCRIPT_TENSOR) NOT_MINE;
    if (c->name[0] == 'e' || c->name[0] == 'n') {
        /* x.shape == (2, 3): beside a list, a tuple is one. */
        bool items = is_items(c->in[0]) && is_items(c->in[1]);
        int same = items ? rush_script_same_items(c->in[0], c->in[1]) : rush_script_same(c->in[0], c->in[1]);
        return same < 0 ? -1 : give_bool(out, c->name[0] == 'e' ? same : !same);
    }
    int order = 0;
    if (rush_script_order(c->in[0], c->in[1], &order)) return -1;
    if (order == 2 && c->in[0].kind != SCRIPT_TEXT) return give_bool(out, 0);
    bool equal = c->name[1] == 'e';
    return give_bool(out, (equal && !order) || (c->name[0] == 'l' ? order < 0 : order > 0));
}

FUNCTION(negate)
{
    if (!numbers(c, 1)) NOT_MINE;
    script_value v = c->in[0];
    if (v.kind == SCRIPT_COMPLEX) return *out = (script_value){.kind = SCRIPT_COMPLEX, .c = {-v.c[0], -v.c[1]}}, 0;
    return v.kind == SCRIPT_FLOAT ? give_float(out, -v.f) : give_int(out, (int64_t)(0 - (uint64_t)v.i));
}

FUNCTION(absolute)
{
    if (!numbers(c, 1)) NOT_MINE;
    script_value v = c->in[0];
    if (v.kind == SCRIPT_COMPLEX) return give_float(out, hypot(v.c[0], v.c[1]));
    return v.kind == SCRIPT_FLOAT ? give_float(out, fabs(v.f)) : give_int(out, v.i < 0 ? (int64_t)(0 - (uint64_t)v.i) : v.i);
}

FUNCTION(bit_not)
{
    if (!numbers(c, 1) || c->in[0].kind > SCRIPT_INT) NOT_MINE;
    return give_int(out, ~c->in[0].i);
}

FUNCTION(logical_not)
{
    int truth = c->n == 1 ? rush_script_truth(c->in[0]) : -1;
    return truth < 0 ? -1 : give_bool(out, !truth);
}

static int whole_of(double d, script_value *out)
{
    RUSH_CHECK(d >= -0x1p63 && d < 0x1p63, RUSH_OVERFLOW_ERROR, "cannot convert %g to an integer", d);
    return give_int(out, (int64_t)d);
}

static double degrees(double x) { return x * (180 / M_PI); }
static double radians(double x) { return x * (M_PI / 180); }

static int pair(script_value first, script_value second, script_value *out)
{
    const script_value both[2] = {first, second};
    return give(out, rush_script_list(SCRIPT_TUPLE, 2, both));
}

/* math's functions that take a float apart or put it together, and factorials. */
FUNCTION(taken_apart)
{
    const script_value a = c->n ? c->in[0] : SCRIPT_NOTHING, b = c->n > 1 ? c->in[1] : SCRIPT_NOTHING;
    if (!numbers(c, c->n) || !c->n || c->n > 2 || a.kind == SCRIPT_COMPLEX) NOT_MINE;
    const double x = rush_script_double(a);
    if (!strcmp(c->name, "ldexp") && b.kind == SCRIPT_INT) return give_float(out, ldexp(x, (int)RUSH_MAX(RUSH_MIN(b.i, 5000), -5000)));
    if (c->n > 1) NOT_MINE;
    if (!strcmp(c->name, "frexp")) {
        int exponent;
        const double part = frexp(x, &exponent);
        return pair(script_of_float(part), script_of_int(exponent), out);
    }
    if (!strcmp(c->name, "modf")) {
        double whole;
        const double part = modf(x, &whole);
        return pair(script_of_float(part), script_of_float(whole), out);
    }
    if (strcmp(c->name, "factorial") || a.kind != SCRIPT_INT) NOT_MINE;
    RUSH_CHECK(a.i >= 0, RUSH_VALUE_ERROR, "factorial() not defined for negative values");
    RUSH_CHECK(a.i <= 20, RUSH_OVERFLOW_ERROR, "the factorial of %lld is no 64-bit integer", (long long)a.i);
    int64_t product = 1;
    for (int64_t i = 2; i <= a.i; ++i) product *= i;
    return give_int(out, product);
}

/* Functions of one or two floats, as math has them. */
FUNCTION(real)
{
    static const struct { const char *name; double (*f)(double); } table[] = {
        {"sqrt", sqrt}, {"exp", exp}, {"log1p", log1p}, {"expm1", expm1}, {"log2", log2}, {"log10", log10}, {"sin", sin}, {"cos", cos}, {"tan", tan}, {"asin", asin}, {"acos", acos},
        {"atan", atan}, {"sinh", sinh}, {"cosh", cosh}, {"tanh", tanh}, {"asinh", asinh}, {"acosh", acosh}, {"atanh", atanh}, {"gamma", tgamma}, {"lgamma", lgamma}, {"erf", erf}, {"erfc", erfc}, {"fabs", fabs},
        {"degrees", degrees}, {"radians", radians}};
    if (!numbers(c, c->n) || !c->n || c->n > 2 || c->in[0].kind == SCRIPT_COMPLEX) NOT_MINE;
    double x = rush_script_double(c->in[0]), y = c->n > 1 ? rush_script_double(c->in[1]) : 0;
    if (!strcmp(c->name, "log")) {
        RUSH_CHECK(x > 0, RUSH_VALUE_ERROR, "math domain error");
        return give_float(out, c->n > 1 ? log(x) / log(y) : log(x));
    }
    if (!strcmp(c->name, "ceil")) return whole_of(ceil(x), out);
    if (!strcmp(c->name, "floor")) return whole_of(floor(x), out);
    if (!strcmp(c->name, "trunc")) return whole_of(trunc(x), out);
    if (!strcmp(c->name, "atan2")) return give_float(out, atan2(x, y));
    if (!strcmp(c->name, "fmod")) return give_float(out, fmod(x, y));
    if (!strcmp(c->name, "copysign")) return give_float(out, copysign(x, y));
    if (!strcmp(c->name, "hypot")) return give_float(out, hypot(x, y));
    if (!strcmp(c->name, "isnan")) return give_bool(out, isnan(x));
    if (!strcmp(c->name, "isinf")) return give_bool(out, isinf(x));
    if (!strcmp(c->name, "isfinite")) return give_bool(out, isfinite(x));
    for (size_t i = 0; i < RUSH_COUNT(table); ++i)
        if (!strcmp(c->name, table[i].name)) return give_float(out, table[i].f(x));
    NOT_MINE;
}

FUNCTION(rounded)
{
    if (!numbers(c, c->n) || !c->n) NOT_MINE;
    if (c->n > 1) {
        double p = pow(10, rush_script_double(c->in[1]));
        return give_float(out, nearbyint(rush_script_double(c->in[0]) * p) / p);
    }
    return give_float(out, nearbyint(rush_script_double(c->in[0])));
}

FUNCTION(divmod)
{
    script_value both[2];
    if (!numbers(c, 2)) NOT_MINE;
    if (rush_script_arithmetic("floordiv", c->in[0], c->in[1], &both[0]) || rush_script_arithmetic("remainder", c->in[0], c->in[1], &both[1])) return -1;
    return pair(both[0], both[1], out);
}

FUNCTION(gcd)
{
    if (!numbers(c, 2) || c->in[0].kind > SCRIPT_INT || c->in[1].kind > SCRIPT_INT) NOT_MINE;
    uint64_t a = (uint64_t)llabs(c->in[0].i), b = (uint64_t)llabs(c->in[1].i);
    while (b) {
        uint64_t r = a % b;
        a = b;
        b = r;
    }
    return give_int(out, (int64_t)a);
}

/* ---- conversions ---- */

static int number_of_tensor(rush_tensor *t, script_value *out)
{
    int category = rush_dtypes[t->dtype].category;
    if (category == 3) {
        rush_value v, in = rush_v_tensor(t);
        if (rush_call(rush_op_find("item"), &in, &v)) return -1;
        return give(out, rush_script_from_rush(NULL, 0, v));
    }
    if (category == 1) *out = script_of_int(rush_item_int(t));
    else if (category == 0) *out = script_of_bool(rush_item(t) != 0);
    else *out = script_of_float(rush_item(t));
    return rush_failed() ? -1 : 0;
}

FUNCTION(to_int)
{
    script_value v;
    char *end;
    if (!c->n) return give_int(out, 0);
    if (has(c, 0, SCRIPT_TEXT)) {
        long long i = strtoll(c->in[0].box->text, &end, c->n > 1 ? (int)c->in[1].i : 10);
        RUSH_CHECK(c->in[0].box->n && !*end, RUSH_VALUE_ERROR, "invalid literal for int(): '%.100s'", c->in[0].box->text);
        return give_int(out, i);
    }
    if (has(c, 0, SCRIPT_TENSOR)) {
        if (number_of_tensor(c->in[0].t, &v)) return -1;
    } else v = c->in[0];
    if (!script_is_number(v)) NOT_MINE;
    return v.kind == SCRIPT_FLOAT ? whole_of(trunc(v.f), out) : give_int(out, v.i);
}

FUNCTION(to_float)
{
    script_value v;
    char *end;
    if (has(c, 0, SCRIPT_TEXT)) {
        double d = rush_strtod(c->in[0].box->text, &end);
        RUSH_CHECK(c->in[0].box->n && !*end, RUSH_VALUE_ERROR, "could not convert string to float: '%.100s'", c->in[0].box->text);
        return give_float(out, d);
    }
    if (has(c, 0, SCRIPT_TENSOR)) {
        if (number_of_tensor(c->in[0].t, &v)) return -1;
    } else if (!c->n || !script_is_number(c->in[0])) NOT_MINE;
    else v = c->in[0];
    return give_float(out, rush_script_double(v));
}


FUNCTION(to_bool)
{
    int truth = c->n ? rush_script_truth(c->in[0]) : 0;
    return truth < 0 ? -1 : give_bool(out, truth);
}

FUNCTION(to_complex)
{
    if (has(c, 0, SCRIPT_TENSOR) || !numbers(c, c->n) || !c->n) NOT_MINE;
    return *out = (script_value){.kind = SCRIPT_COMPLEX, .c = {rush_script_double(c->in[0]), c->n > 1 ? rush_script_double(c->in[1]) : c->in[0].kind == SCRIPT_COMPLEX ? c->in[0].c[1] : 0}}, 0;
}

FUNCTION(to_text) { return c->n ? give(out, rush_script_print(c->in[0], false)) : give(out, rush_script_text("", 0)); }

FUNCTION(same_value) { return c->n ? given(out, c->in[0]) : SCRIPT_NOT_MINE; }

FUNCTION(item) { return has(c, 0, SCRIPT_TENSOR) ? number_of_tensor(c->in[0].t, out) : SCRIPT_NOT_MINE; }

FUNCTION(number_to_tensor)
{
    rush_value v;
    if (has(c, 0, SCRIPT_TENSOR)) return given(out, c->in[0]);
    if (!numbers(c, 1)) NOT_MINE;
    script_value x = c->in[0];
    v = x.kind == SCRIPT_BOOL ? rush_v_bool(x.i) : x.kind == SCRIPT_INT ? rush_v_int(x.i) : rush_v_float(rush_script_double(x));
    rush_tensor *t = rush_tensor_of_number(v, false);
    return t ? give(out, rush_script_of_tensor(t)) : -1;
}

FUNCTION(unwrap)
{
    RUSH_CHECK(c->n && c->in[0].kind != SCRIPT_NONE, RUSH_RUNTIME_ERROR, "Unwrapping null optional");
    return given(out, c->in[0]);
}

/* ---- texts ---- */

FUNCTION(ordinal)
{
    if (!has(c, 0, SCRIPT_TEXT) || c->in[0].box->n != 1) NOT_MINE;
    return give_int(out, (unsigned char)c->in[0].box->text[0]);
}

/* hex, oct, bin */
FUNCTION(digits)
{
    if (!has(c, 0, SCRIPT_INT)) NOT_MINE;
    const int bits = *c->name == 'h' ? 4 : *c->name == 'o' ? 3 : 1;
    uint64_t rest = c->in[0].i < 0 ? -(uint64_t)c->in[0].i : (uint64_t)c->in[0].i;
    char text[68], *at = text + sizeof text; /* sign, 0x, at most 64 digits, and one to spare */
    do *--at = "0123456789abcdef"[rest & ((1u << bits) - 1)];
    while (rest >>= bits);
    *--at = bits == 4 ? 'x' : bits == 3 ? 'o' : 'b';
    *--at = '0';
    if (c->in[0].i < 0) *--at = '-';
    return give(out, rush_script_text(at, (size_t)(text + sizeof text - at)));
}

FUNCTION(letter)
{
    if (!has(c, 0, SCRIPT_INT) || c->in[0].i < 0 || c->in[0].i > 127) NOT_MINE;
    char x = (char)c->in[0].i;
    return give(out, rush_script_text(&x, 1));
}

static int64_t hash_of(script_value v, int depth)
{
    uint64_t h = 14695981039346656037u + v.kind;
    switch (v.kind) {
    case SCRIPT_NONE: return 0;
    case SCRIPT_BOOL: case SCRIPT_INT: return v.i;
    case SCRIPT_FLOAT: {
        int64_t bits = 0;
        if (v.f == floor(v.f) && fabs(v.f) < 9e18) return (int64_t)v.f; /* equal numbers have one */
        memcpy(&bits, &v.f, sizeof v.f);
        return bits;
    }
    case SCRIPT_DEVICE: return v.device.type * 256 + v.device.index;
    case SCRIPT_TENSOR: return (int64_t)(intptr_t)v.t;
    case SCRIPT_TEXT: return (int64_t)rush_hash_bytes(v.box->text, v.box->n);
    case SCRIPT_TUPLE:
        for (size_t i = 0; depth && i < v.box->n && !rush_failed(); ++i) h = (h ^ (uint64_t)hash_of(v.box->item[i], depth - 1)) * 1099511628211u;
        return (int64_t)h;
    default: return rush_fail(RUSH_TYPE_ERROR, "unhashable type: '%s'", v.kind == SCRIPT_LIST ? "list" : v.kind == SCRIPT_DICT ? "dict" : rush_script_kind_name(v));
    }
}

FUNCTION(hash)
{
    if (c->n != 1) NOT_MINE;
    const int64_t h = hash_of(c->in[0], 50);
    return rush_failed() ? -1 : give_int(out, h);
}

/* ---- lists and dictionaries ---- */

FUNCTION(length)
{
    if (c->n != 1) NOT_MINE;
    script_value v = c->in[0];
    if (v.kind == SCRIPT_TENSOR) {
        RUSH_CHECK(v.t->ndim, RUSH_TYPE_ERROR, "len() of a 0-d tensor");
        return give_int(out, v.t->size[0]);
    }
    if (v.kind == SCRIPT_DICT) return give_int(out, (int64_t)v.box->n / 2);
    if (v.kind == SCRIPT_LIST || v.kind == SCRIPT_TUPLE || v.kind == SCRIPT_TEXT) return give_int(out, (int64_t)v.box->n);
    script_value items;
    if (rush_script_items(v, &items)) return -1;
    *out = script_of_int((int64_t)items.box->n);
    rush_script_drop(items);
    return 0;
}

FUNCTION(append)
{
    if (!has(c, 0, SCRIPT_LIST) || c->n != 2) NOT_MINE;
    return rush_script_append(c->in[0].box, c->in[1]) ? -1 : given(out, c->in[0]);
}

FUNCTION(extend)
{
    if (!has(c, 0, SCRIPT_LIST)) NOT_MINE;
    script_value v;
    int r = add_inplace(c, &v);
    if (!r) rush_script_drop(v);
    return r ? r : nothing(out);
}

static int64_t from_end(int64_t i, size_t n) { return i < 0 ? i + (int64_t)n : i; }

FUNCTION(insert)
{
    if (!has(c, 0, SCRIPT_LIST) || !has(c, 1, SCRIPT_INT) || c->n != 3) NOT_MINE;
    script_box *b = c->in[0].box;
    int64_t at = from_end(c->in[1].i, b->n);
    at = at < 0 ? 0 : at > (int64_t)b->n ? (int64_t)b->n : at;
    if (rush_script_append(b, c->in[2])) return -1;
    script_value last = b->item[b->n - 1];
    memmove(b->item + at + 1, b->item + at, (b->n - 1 - (size_t)at) * sizeof last);
    b->item[at] = last;
    return nothing(out);
}

FUNCTION(pop)
{
    if (has(c, 0, SCRIPT_DICT)) {
        script_value *at = c->n > 1 ? rush_script_dict_at(c->in[0].box, c->in[1]) : NULL;
        if (!at && c->n > 2) return given(out, c->in[2]);
        if (!at) return rush_script_no_key(c->in[1]);
        *out = rush_script_keep(*at);
        return rush_script_remove(c->in[0].box, (size_t)(at - c->in[0].box->item) - 1, 2), 0;
    }
    if (!has(c, 0, SCRIPT_LIST)) NOT_MINE;
    script_box *b = c->in[0].box;
    int64_t at = from_end(c->n > 1 ? c->in[1].i : -1, b->n);
    RUSH_CHECK(at >= 0 && at < (int64_t)b->n, RUSH_INDEX_ERROR, b->n || c->n > 1 ? "list index out of range" : "pop from empty list");
    *out = rush_script_keep(b->item[at]);
    return rush_script_remove(b, (size_t)at, 1), 0;
}

FUNCTION(delete_item)
{
    script_value v;
    if (c->n != 2) NOT_MINE;
    int r = pop(c, &v);
    if (!r) rush_script_drop(v);
    return r ? r : nothing(out);
}

FUNCTION(clear)
{
    if (!has(c, 0, SCRIPT_LIST) && !has(c, 0, SCRIPT_DICT)) NOT_MINE;
    rush_script_remove(c->in[0].box, 0, c->in[0].box->n);
    return nothing(out);
}

FUNCTION(copy)
{
    if (has(c, 0, SCRIPT_DICT)) {
        *out = rush_script_dict();
        for (size_t i = 0; out->kind != SCRIPT_UNSET && i + 1 < c->in[0].box->n; i += 2)
            if (rush_script_dict_set(out->box, c->in[0].box->item[i], c->in[0].box->item[i + 1])) return rush_script_drop(*out), -1;
        return out->kind == SCRIPT_UNSET ? -1 : 0;
    }
    if (!has(c, 0, SCRIPT_LIST)) NOT_MINE;
    return give(out, rush_script_list(SCRIPT_LIST, c->in[0].box->n, c->in[0].box->item));
}

FUNCTION(to_list)
{
    if (!c->n) return give(out, rush_script_list(SCRIPT_LIST, 0, NULL));
    script_value items;
    if (rush_script_items(c->in[0], &items)) return -1;
    *out = rush_script_list(SCRIPT_LIST, items.box->n, items.box->item);
    rush_script_drop(items);
    return out->kind == SCRIPT_UNSET ? -1 : 0;
}

FUNCTION(to_tuple)
{
    if (to_list(c, out)) return -1;
    return out->box->kind = out->kind = SCRIPT_TUPLE, 0;
}

FUNCTION(reversed)
{
    bool inplace = !strcmp(c->name, "reverse");
    if (inplace && !has(c, 0, SCRIPT_LIST)) NOT_MINE;
    script_value v = c->in[0];
    if (!inplace && to_list(c, &v)) return -1;
    for (size_t i = 0; i < v.box->n / 2; ++i) {
        script_value x = v.box->item[i];
        v.box->item[i] = v.box->item[v.box->n - 1 - i];
        v.box->item[v.box->n - 1 - i] = x;
    }
    return inplace ? nothing(out) : give(out, v);
}

/* 1: a is less than b, which objects say themselves; 0; -1 and an error. */
static int is_less(script_value a, script_value b)
{
    script_value v;
    int order, r = rush_script_special(a, "__lt__", 1, &b, &v);
    if (a.kind == SCRIPT_TENSOR && b.kind == SCRIPT_TENSOR) {
        script_call both = {.name = "lt", .n = 2, .in = (script_value[]){a, b}};
        r = rush_script_run_op(rush_op_find("lt"), &both, &v);
    }
    if (r == SCRIPT_NOT_MINE) return rush_script_order(a, b, &order) ? -1 : order == -1;
    if (r) return -1;
    r = rush_script_truth(v);
    rush_script_drop(v);
    return r;
}

static int merge(script_value *a, script_value *room, size_t n, bool down)
{
    if (n < 2) return 0;
    size_t half = n / 2, i = 0, j = half;
    if (merge(a, room, half, down) || merge(a + half, room, n - half, down)) return -1;
    for (size_t k = 0; k < n; ++k) {
        const bool both = i < half && j < n;
        const int swapped = both ? down ? is_less(a[i], a[j]) : is_less(a[j], a[i]) : 0;
        if (swapped < 0) return -1;
        room[k] = j == n || (both && !swapped) ? a[i++] : a[j++];
    }
    memcpy(a, room, n * sizeof *a);
    return 0;
}

FUNCTION(sort)
{
    bool inplace = !strcmp(c->name, "sort");
    if (!c->n || c->in[0].kind == SCRIPT_TENSOR || (inplace && !has(c, 0, SCRIPT_LIST))) NOT_MINE;
    script_value v = c->in[0];
    const script_value *down = rush_script_argument(c, 1, "reverse");
    script_call one = {.n = 1, .in = c->in};
    if (!inplace && to_list(&one, &v)) return -1;
    script_value *room = rush_malloc(RUSH_MAX(v.box->n, 1u) * sizeof *room);
    int failed = !room || merge(v.box->item, room, v.box->n, down && rush_script_truth(*down) == 1);
    rush_free(room);
    if (inplace) return failed ? -1 : nothing(out);
    return failed ? (rush_script_drop(v), -1) : give(out, v);
}

/* Where a value is in a list; -1 and no error: nowhere. */
static int64_t place_of(const script_box *list, script_value v)
{
    for (size_t i = 0; i < list->n; ++i) {
        int same = rush_script_same(list->item[i], v);
        if (same) return same < 0 ? -1 : (int64_t)i;
    }
    return -1;
}

FUNCTION(index_of)
{
    if (has(c, 0, SCRIPT_DEVICE)) return c->in[0].device.index < 0 ? nothing(out) : give_int(out, c->in[0].device.index);
    if (has(c, 0, SCRIPT_TEXT)) return rush_script_text_method("index")(c, out);
    if (!has(c, 0, SCRIPT_LIST) || c->n != 2) NOT_MINE;
    const int64_t at = place_of(c->in[0].box, c->in[1]);
    if (at >= 0 || rush_failed()) return at < 0 ? -1 : give_int(out, at);
    script_value text = rush_script_print(c->in[1], false);
    if (text.kind == SCRIPT_UNSET) return -1;
    rush_fail(RUSH_VALUE_ERROR, "'%.200s' is not in list", text.box->text);
    return rush_script_drop(text), -1;
}

FUNCTION(remove_item)
{
    if (!has(c, 0, SCRIPT_LIST) || c->n != 2) NOT_MINE;
    const int64_t at = place_of(c->in[0].box, c->in[1]);
    if (at < 0) return rush_failed() ? -1 : rush_fail(RUSH_VALUE_ERROR, "list.remove(x): x not in list");
    rush_script_remove(c->in[0].box, (size_t)at, 1);
    return nothing(out);
}

FUNCTION(count)
{
    int64_t n = 0;
    if (has(c, 0, SCRIPT_TEXT)) return rush_script_text_method("count")(c, out);
    if (!has(c, 0, SCRIPT_LIST) && !has(c, 0, SCRIPT_TUPLE)) NOT_MINE;
    for (size_t i = 0; c->n == 2 && i < c->in[0].box->n; ++i) n += rush_script_same(c->in[0].box->item[i], c->in[1]) == 1;
    return rush_failed() ? -1 : give_int(out, n);
}

FUNCTION(contains)
{
    if (c->n != 2) NOT_MINE;
    const script_box *b = script_is_boxed(c->in[0]) ? c->in[0].box : NULL;
    if (has(c, 0, SCRIPT_DICT)) return give_bool(out, rush_script_dict_at(b, c->in[1]) != NULL);
    if (has(c, 0, SCRIPT_TEXT) && has(c, 1, SCRIPT_TEXT)) return give_bool(out, strstr(b->text, c->in[1].box->text) != NULL);
    if (!b || (b->kind != SCRIPT_LIST && b->kind != SCRIPT_TUPLE)) NOT_MINE;
    for (size_t i = 0; i < b->n; ++i) {
        int same = rush_script_same(b->item[i], c->in[1]);
        if (same) return give_bool(out, same);
    }
    return give_bool(out, 0);
}

FUNCTION(identical)
{
    if (c->n != 2) NOT_MINE;
    script_value a = c->in[0], b = c->in[1];
    bool same = a.kind == b.kind && (a.kind == SCRIPT_NONE || (a.kind == SCRIPT_TENSOR ? a.t == b.t : script_is_boxed(a) ? a.box == b.box : rush_script_same(a, b) == 1));
    return give_bool(out, same == !strcmp(c->name, "__is__"));
}

FUNCTION(dict_part)
{
    if (!has(c, 0, SCRIPT_DICT)) NOT_MINE;
    const script_box *d = c->in[0].box;
    *out = rush_script_list(SCRIPT_LIST, 0, NULL);
    for (size_t i = 0; out->kind != SCRIPT_UNSET && i + 1 < d->n; i += 2) {
        script_value x = c->name[0] == 'k' ? rush_script_keep(d->item[i]) : c->name[0] == 'v' ? rush_script_keep(d->item[i + 1]) : rush_script_list(SCRIPT_TUPLE, 2, &d->item[i]);
        int failed = x.kind == SCRIPT_UNSET || rush_script_append(out->box, x);
        rush_script_drop(x);
        if (failed) return rush_script_drop(*out), -1;
    }
    return out->kind == SCRIPT_UNSET ? -1 : 0;
}

FUNCTION(get)
{
    if (!has(c, 0, SCRIPT_DICT) || c->n < 2) NOT_MINE;
    script_value *at = rush_script_dict_at(c->in[0].box, c->in[1]);
    if (at) return given(out, *at);
    if (!strcmp(c->name, "setdefault") && c->n > 2 && rush_script_dict_set(c->in[0].box, c->in[1], c->in[2])) return -1;
    return c->n > 2 ? given(out, c->in[2]) : nothing(out);
}

FUNCTION(update)
{
    if (!has(c, 0, SCRIPT_DICT) || !has(c, 1, SCRIPT_DICT)) NOT_MINE;
    size_t n = c->in[1].box->n;
    for (size_t i = 0; i + 1 < n && i + 1 < c->in[1].box->n; i += 2)
        if (rush_script_dict_set(c->in[0].box, c->in[1].box->item[i], c->in[1].box->item[i + 1])) return -1;
    return nothing(out);
}

FUNCTION(popitem)
{
    if (!has(c, 0, SCRIPT_DICT)) NOT_MINE;
    script_box *d = c->in[0].box;
    RUSH_CHECK(d->n >= 2, RUSH_KEY_ERROR, "popitem(): dictionary is empty");
    *out = rush_script_list(SCRIPT_TUPLE, 2, &d->item[d->n - 2]);
    if (out->kind == SCRIPT_UNSET) return -1;
    return rush_script_remove(d, d->n - 2, 2), 0;
}

static int dict_of_pairs(const script_box *pairs, script_value *out)
{
    for (size_t i = 0; i < pairs->n; ++i) {
        script_value pair = pairs->item[i];
        RUSH_CHECK(pair.kind == SCRIPT_TUPLE && pair.box->n == 2, RUSH_TYPE_ERROR, "a dictionary is made of what is no pairs");
        if (rush_script_dict_set(out->box, pair.box->item[0], pair.box->item[1])) return -1;
    }
    return 0;
}

FUNCTION(to_dict)
{
    const bool from = c->n && !(c->names && c->names[0]);
    if (from && !has(c, 0, SCRIPT_DICT) && !has(c, 0, SCRIPT_LIST)) NOT_MINE;
    if (from && has(c, 0, SCRIPT_DICT)) {
        if (copy(c, out)) return -1;
    } else *out = rush_script_dict();
    int failed = out->kind == SCRIPT_UNSET;
    if (!failed && has(c, 0, SCRIPT_LIST) && from) failed = dict_of_pairs(c->in[0].box, out);
    for (int k = from; !failed && k < c->n; ++k) {
        const char *name = c->names ? c->names[k] : NULL;
        if (!name) failed = rush_fail(RUSH_TYPE_ERROR, "dict expected at most 1 argument, got %d", c->n);
        script_value key = failed ? SCRIPT_NOTHING : rush_script_text(name, strlen(name));
        failed = failed || key.kind == SCRIPT_UNSET || rush_script_dict_set(out->box, key, c->in[k]);
        rush_script_drop(key);
    }
    return failed ? (rush_script_drop(*out), -1) : 0;
}

FUNCTION(set_item) { return c->n != 3 ? SCRIPT_NOT_MINE : rush_script_index_set(c->in[0], c->in[1], c->in[2]) ? -1 : nothing(out); }
FUNCTION(get_item) { return c->n != 2 ? SCRIPT_NOT_MINE : rush_script_index(c->in[0], c->in[1], out); }

/* slice(start, stop, step) as Python makes one; of a list or text the items that it says, as files have it. */
FUNCTION(slice)
{
    const bool of = has(c, 0, SCRIPT_LIST) || has(c, 0, SCRIPT_TEXT) || has(c, 0, SCRIPT_TUPLE), made = has(c, 0, SCRIPT_INT) || has(c, 0, SCRIPT_NONE);
    if (!of && !made) NOT_MINE;
    script_value parts[3] = {SCRIPT_NOTHING, SCRIPT_NOTHING, SCRIPT_NOTHING};
    RUSH_CHECK(!c->names && c->n <= 3 + of, RUSH_RUNTIME_ERROR, c->names ? "Slice does not accept any keyword arguments" : "slice expected at most 3 arguments, got %d", c->n);
    if (made && c->n == 1) parts[1] = c->in[0];
    else
        for (int k = of; k < c->n; ++k) parts[k - of] = c->in[k];
    script_value at = rush_script_list(SCRIPT_SLICE, 3, parts);
    if (at.kind == SCRIPT_UNSET) return -1;
    if (made) return give(out, at);
    int failed = rush_script_index(c->in[0], at, out);
    rush_script_drop(at);
    return failed;
}

FUNCTION(smallest)
{
    bool least = c->name[1] == 'i';
    script_value items, best;
    if (!c->n || c->in[0].kind == SCRIPT_TENSOR) NOT_MINE;
    if (c->n == 1) {
        if (rush_script_items(c->in[0], &items)) return -1;
    } else if ((items = rush_script_list(SCRIPT_LIST, (size_t)c->n, c->in)).kind == SCRIPT_UNSET) return -1;
    if (!items.box->n) return rush_script_drop(items), rush_fail(RUSH_VALUE_ERROR, "%s() arg is an empty sequence", c->name);
    best = items.box->item[0];
    bool some_float = best.kind == SCRIPT_FLOAT;
    for (size_t i = 1; i < items.box->n; ++i) {
        int order;
        if (rush_script_order(items.box->item[i], best, &order)) return rush_script_drop(items), -1;
        some_float = some_float || items.box->item[i].kind == SCRIPT_FLOAT;
        if (order != 2 && (least ? order < 0 : order > 0)) best = items.box->item[i];
    }
    *out = some_float && best.kind == SCRIPT_INT ? script_of_float((double)best.i) : rush_script_keep(best);
    return rush_script_drop(items), 0;
}

FUNCTION(sum)
{
    if (!has(c, 0, SCRIPT_LIST) && !has(c, 0, SCRIPT_TUPLE)) NOT_MINE;
    script_value all = script_of_int(0);
    for (size_t i = 0; i < c->in[0].box->n; ++i) {
        script_value more;
        if (!script_is_number(c->in[0].box->item[i]) || rush_script_arithmetic("add", all, c->in[0].box->item[i], &more)) NOT_MINE;
        all = more;
    }
    return give(out, all);
}

FUNCTION(any_all)
{
    bool any = !strcmp(c->name, "any");
    if (!has(c, 0, SCRIPT_LIST) && !has(c, 0, SCRIPT_TUPLE)) NOT_MINE;
    for (size_t i = 0; i < c->in[0].box->n; ++i) {
        int truth = rush_script_truth(c->in[0].box->item[i]);
        if (truth < 0) return -1;
        if (truth == any) return give_bool(out, any);
    }
    return give_bool(out, !any);
}

FUNCTION(range)
{
    script_value part[3] = {script_of_int(0), script_of_int(0), script_of_int(1)};
    if (c->n < 1 || c->n > 3) NOT_MINE;
    for (int k = 0; k < c->n; ++k) {
        script_call one = {.name = "int", .n = 1, .in = &c->in[k]};
        script_value i;
        if (to_int(&one, &i)) return -1;
        part[c->n == 1 ? 1 : k] = i;
    }
    RUSH_CHECK(part[2].i, RUSH_VALUE_ERROR, "range() arg 3 must not be zero");
    return give(out, rush_script_list(SCRIPT_RANGE, 3, part));
}

FUNCTION(enumerate)
{
    script_value items;
    const script_value *from = rush_script_argument(c, 1, "start");
    if (!c->n || rush_script_items(c->in[0], &items)) return -1;
    *out = rush_script_list(SCRIPT_LIST, 0, NULL);
    for (size_t i = 0; out->kind != SCRIPT_UNSET && i < items.box->n; ++i) {
        script_value pair = rush_script_list(SCRIPT_TUPLE, 2, (script_value[]){script_of_int((int64_t)i + (from ? from->i : 0)), items.box->item[i]});
        int failed = pair.kind == SCRIPT_UNSET || rush_script_append(out->box, pair);
        rush_script_drop(pair);
        if (failed) return rush_script_drop(*out), rush_script_drop(items), -1;
    }
    rush_script_drop(items);
    return out->kind == SCRIPT_UNSET ? -1 : 0;
}

FUNCTION(zip)
{
    script_value all[16], row[16];
    int n = 0, failed = c->n > 16;
    size_t least = c->n ? SIZE_MAX : 0;
    for (; n < c->n && !failed; ++n) {
        if ((failed = rush_script_items(c->in[n], &all[n]))) break;
        least = RUSH_MIN(least, all[n].box->n);
    }
    *out = rush_script_list(SCRIPT_LIST, 0, NULL);
    failed = failed || out->kind == SCRIPT_UNSET;
    for (size_t i = 0; !failed && i < least; ++i) {
        for (int k = 0; k < n; ++k) row[k] = all[k].box->item[i];
        script_value tuple = rush_script_list(SCRIPT_TUPLE, (size_t)n, row);
        failed = tuple.kind == SCRIPT_UNSET || rush_script_append(out->box, tuple);
        rush_script_drop(tuple);
    }
    for (int k = 0; k < n; ++k) rush_script_drop(all[k]);
    if (failed) rush_script_drop(*out);
    return failed ? rush_failed() ? -1 : rush_fail(RUSH_TYPE_ERROR, "zip() of more than 16") : 0;
}

FUNCTION(derive_index)
{
    if (!numbers(c, 3)) NOT_MINE;
    return give_int(out, (int64_t)((uint64_t)c->in[1].i + (uint64_t)c->in[0].i * (uint64_t)c->in[2].i));
}

FUNCTION(range_length)
{
    if (!numbers(c, 3)) NOT_MINE;
    int64_t lo = c->in[0].i, hi = c->in[1].i, step = c->in[2].i;
    RUSH_CHECK(step, RUSH_VALUE_ERROR, "range() arg 3 must not be zero");
    if (step > 0 ? lo >= hi : lo <= hi) return give_int(out, 0);
    uint64_t span = step > 0 ? (uint64_t)hi - (uint64_t)lo : (uint64_t)lo - (uint64_t)hi, by = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    return give_int(out, (int64_t)(1 + (span - 1) / by));
}

/* ---- tensors ---- */

static script_value ints(int n, const int64_t *p)
{
    script_value v = rush_script_list(SCRIPT_LIST, 0, NULL);
    for (int i = 0; v.kind != SCRIPT_UNSET && i < n; ++i)
        if (rush_script_append(v.box, script_of_int(p[i]))) return rush_script_drop(v), (script_value){.kind = SCRIPT_UNSET};
    return v;
}

FUNCTION(sizes)
{
    if (!has(c, 0, SCRIPT_TENSOR)) NOT_MINE;
    const rush_tensor *t = c->in[0].t;
    const int64_t *p = !strcmp(c->name, "stride") ? rush_strides(t) : t->size;
    const script_value *dim = rush_script_argument(c, 1, "dim");
    if (!dim) return give(out, ints(t->ndim, p));
    if (dim->kind != SCRIPT_INT) NOT_MINE;
    int64_t d = from_end(dim->i, (size_t)t->ndim);
    RUSH_CHECK(d >= 0 && d < t->ndim, RUSH_INDEX_ERROR, "Dimension out of range (expected to be in range of [%d, %d], but got %lld)", -t->ndim, t->ndim - 1, (long long)dim->i);
    return give_int(out, p[d]);
}

FUNCTION(tensor_says)
{
    if (!has(c, 0, SCRIPT_TENSOR) || c->n > 1) NOT_MINE;
    rush_tensor *t = c->in[0].t;
    const char *s = c->name;
    if (!strcmp(s, "dim") || !strcmp(s, "ndim") || !strcmp(s, "ndimension")) return give_int(out, t->ndim);
    if (!strcmp(s, "numel")) return give_int(out, t->numel);
    if (!strcmp(s, "dtype")) return give_int(out, rush_script_dtype_code(t->dtype));
    if (!strcmp(s, "device")) return *out = (script_value){.kind = SCRIPT_DEVICE, .device = t->device}, 0;
    if (!strcmp(s, "layout")) return give_int(out, rush_script_layout_code(t->layout));
    if (!strcmp(s, "itemsize") || !strcmp(s, "element_size")) return give_int(out, (int64_t)rush_dtypes[t->dtype].size);
    if (!strcmp(s, "requires_grad")) return give_bool(out, rush_requires_grad(t));
    if (!strcmp(s, "is_leaf")) return give_bool(out, !rush_requires_grad(t) || !t->ag);
    if (!strcmp(s, "is_floating_point")) return give_bool(out, rush_dtypes[t->dtype].category == 2);
    if (!strcmp(s, "is_complex")) return give_bool(out, rush_dtypes[t->dtype].category == 3);
    if (!strcmp(s, "is_cpu")) return give_bool(out, t->device.type == RUSH_CPU);
    if (!strcmp(s, "is_meta")) return give_bool(out, t->device.type == RUSH_META);
    if (!strcmp(s, "is_cuda")) return give_bool(out, t->device.type == RUSH_CUDA);
    if (!strcmp(s, "is_sparse")) return give_bool(out, t->layout == RUSH_SPARSE_COO);
    if (!strcmp(s, "is_sparse_csr")) return give_bool(out, t->layout == RUSH_SPARSE_CSR);
    if (!strcmp(s, "grad")) return give(out, rush_script_of_tensor(rush_grad(t)));
    if (!strncmp(s, "is_", 3)) return give_bool(out, 0); /* is_mkldnn, is_quantized, is_nested, is_xpu, ... */
    NOT_MINE;
}

FUNCTION(turned) /* x.T, x.mT, x.H */
{
    if (!has(c, 0, SCRIPT_TENSOR)) NOT_MINE;
    const rush_op *op = rush_op_find(!strcmp(c->name, "T") ? "numpy_T" : !strcmp(c->name, "mT") ? "mT" : "matrix_H");
    return op ? rush_script_run_op(op, c, out) : SCRIPT_NOT_MINE;
}

FUNCTION(contiguous_is)
{
    if (!has(c, 0, SCRIPT_TENSOR) || c->n > 2 || (c->n == 2 && c->in[1].kind != SCRIPT_INT)) NOT_MINE;
    return give_bool(out, c->n == 2 ? rush_contiguous_as(c->in[0].t, (rush_memory_format)c->in[1].i) : rush_is_contiguous(c->in[0].t));
}

static int gather_numbers(script_value v, int depth, int *ndim, int64_t *size, bool *seen, script_box *flat)
{
    if (v.kind != SCRIPT_LIST && v.kind != SCRIPT_TUPLE) {
        script_value number = v;
        RUSH_CHECK(!*seen || *ndim == depth, RUSH_VALUE_ERROR, "lists of different depth cannot become a tensor");
        *ndim = depth;
        *seen = true;
        if (v.kind == SCRIPT_TENSOR && number_of_tensor(v.t, &number)) return -1;
        RUSH_CHECK(script_is_number(number), RUSH_TYPE_ERROR, "a %s cannot become part of a tensor", rush_script_kind_name(v));
        return rush_script_append(flat, number);
    }
    RUSH_CHECK(depth < RUSH_MAXDIM, RUSH_VALUE_ERROR, "lists are nested too deeply");
    RUSH_CHECK(size[depth] < 0 || size[depth] == (int64_t)v.box->n, RUSH_VALUE_ERROR, "lists of different length cannot become a tensor");
    size[depth] = (int64_t)v.box->n;
    if (!v.box->n && !*seen) *ndim = depth + 1;
    for (size_t i = 0; i < v.box->n; ++i)
        if (gather_numbers(v.box->item[i], depth + 1, ndim, size, seen, flat)) return -1;
    return 0;
}

static rush_tensor *tensor_of_numbers(script_value v, int dtype, rush_device device)
{
    int64_t size[RUSH_MAXDIM + 1];
    int ndim = 0, kind = SCRIPT_BOOL;
    bool seen = false;
    for (int d = 0; d <= RUSH_MAXDIM; ++d) size[d] = -1;
    script_value flat = rush_script_list(SCRIPT_LIST, 0, NULL);
    if (flat.kind == SCRIPT_UNSET || gather_numbers(v, 0, &ndim, size, &seen, flat.box)) return rush_script_drop(flat), NULL;
    size_t n = flat.box->n;
    for (size_t i = 0; i < n; ++i) kind = RUSH_MAX(kind, flat.box->item[i].kind);
    if (!n && (v.kind == SCRIPT_LIST || v.kind == SCRIPT_TUPLE)) kind = SCRIPT_FLOAT;
    rush_dtype from = kind == SCRIPT_COMPLEX ? RUSH_C128 : kind == SCRIPT_FLOAT ? RUSH_F64 : kind == SCRIPT_INT ? RUSH_I64 : RUSH_BOOL;
    if (dtype < 0) dtype = kind == SCRIPT_COMPLEX ? RUSH_C64 : kind == SCRIPT_FLOAT ? (int)rush_default_dtype() : (int)from;
    char *room = rush_malloc(RUSH_MAX(n, 1u) * 16);
    for (size_t i = 0; room && i < n; ++i) {
        script_value x = flat.box->item[i];
        if (kind == SCRIPT_COMPLEX) ((double *)room)[2 * i] = rush_script_double(x), ((double *)room)[2 * i + 1] = x.kind == SCRIPT_COMPLEX ? x.c[1] : 0;
        else if (kind == SCRIPT_FLOAT) ((double *)room)[i] = rush_script_double(x);
        else if (kind == SCRIPT_INT) ((int64_t *)room)[i] = x.i;
        else ((uint8_t *)room)[i] = x.i != 0;
    }
    rush_tensor *t = room ? rush_from_data(room, from, ndim, size) : NULL;
    rush_free(room);
    rush_script_drop(flat);
    rush_value in[8], to = RUSH_NONE;
    const rush_op *op = rush_op_find("to.dtype_layout");
    if (!t || (t->dtype == dtype && device.type == RUSH_CPU) || !op) return t;
    for (int i = 0; i < op->nargs && i < 8; ++i) in[i] = op->args[i].def;
    in[0] = rush_v_tensor(t);
    in[rush_op_arg(op, "dtype")] = rush_v_dtype(dtype);
    in[rush_op_arg(op, "device")] = (rush_value){.kind = RUSH_V_DEVICE, .device = device};
    return rush_call(op, in, &to) ? NULL : to.t;
}

FUNCTION(device);

FUNCTION(to_device) /* x.to(device, dtype=None, ...), which the registry has by name only */
{
    static const char *const names[] = {NULL, "device", "dtype", "non_blocking", "copy"};
    const char *given[RUSH_COUNT(names)];
    script_call named = *c;
    bool mine = has(c, 0, SCRIPT_TENSOR) && (has(c, 1, SCRIPT_DEVICE) || has(c, 1, SCRIPT_TEXT) || has(c, 1, SCRIPT_NONE)) && (size_t)c->n <= RUSH_COUNT(names);
    if (!mine || (c->names && c->names[1])) NOT_MINE;
    for (int k = 0; k < c->n; ++k) given[k] = c->names && c->names[k] ? c->names[k] : names[k];
    named.names = given;
    return rush_script_run_op(rush_op_find("to"), &named, out);
}

FUNCTION(type) /* of a device; x.type(dtype) is x.to(dtype) */
{
    if (has(c, 0, SCRIPT_DEVICE) && c->n == 1) return give(out, rush_script_text(rush_device_name(c->in[0].device.type), strlen(rush_device_name(c->in[0].device.type))));
    if (!has(c, 0, SCRIPT_TENSOR)) NOT_MINE;
    script_call to = *c;
    to.name = "to";
    return c->n == 1 ? give(out, rush_script_keep(c->in[0])) : has(c, 1, SCRIPT_TEXT) ? to_device(&to, out) : rush_script_run_op(rush_op_find("to"), &to, out);
}

FUNCTION(make_tensor) /* tensor(data, *, dtype, device, requires_grad), as_tensor */
{
    if (!c->n) NOT_MINE;
    const script_value *dtype = rush_script_argument(c, -1, "dtype"), *device_ = rush_script_argument(c, -1, "device"), *wants = rush_script_argument(c, -1, "requires_grad");
    rush_device d = {RUSH_CPU, -1};
    if (device_) {
        script_value v;
        script_call one = {.n = 1, .in = (script_value *)device_};
        if (device(&one, &v)) return -1;
        d = v.device;
    }
    rush_tensor *t;
    if (has(c, 0, SCRIPT_TENSOR)) {
        script_value again;
        script_call to = {.name = "to", .n = dtype ? 2 : 1, .in = (script_value[]){c->in[0], dtype ? *dtype : SCRIPT_NOTHING}};
        if (!strcmp(c->name, "tensor")) {
            script_call one = {.name = "clone", .n = 1, .in = c->in};
            script_value copy_;
            if (rush_script_run_op(rush_op_find("clone"), &one, &copy_)) return -1;
            int failed = 0;
            to.in[0] = copy_;
            if (dtype) failed = rush_script_run_op(rush_op_find("to"), &to, &again), rush_script_drop(copy_);
            else again = copy_;
            return failed ? -1 : give(out, again);
        }
        return dtype ? rush_script_run_op(rush_op_find("to"), &to, out) : given(out, c->in[0]);
    }
    t = tensor_of_numbers(c->in[0], dtype ? rush_script_dtype_of(dtype->i) : -1, d);
    if (t && wants && rush_script_truth(*wants) == 1) rush_requires_grad_set(t, true);
    return t && !rush_failed() ? give(out, rush_script_of_tensor(t)) : -1;
}

static int listed(const char *data, rush_dtype dtype, int d, int ndim, const int64_t *size, size_t *at, script_value *out)
{
    if (d == ndim) {
        size_t i = (*at)++;
        if (dtype == RUSH_F64) return give_float(out, ((const double *)data)[i]);
        return dtype == RUSH_BOOL ? give_bool(out, ((const uint8_t *)data)[i] != 0) : give_int(out, ((const int64_t *)data)[i]);
    }
    *out = rush_script_list(SCRIPT_LIST, 0, NULL);
    for (int64_t i = 0; out->kind != SCRIPT_UNSET && i < size[d]; ++i) {
        script_value x;
        int failed = listed(data, dtype, d + 1, ndim, size, at, &x);
        if (!failed) failed = rush_script_append(out->box, x), rush_script_drop(x);
        if (failed) return rush_script_drop(*out), -1;
    }
    return out->kind == SCRIPT_UNSET ? -1 : 0;
}

FUNCTION(tolist)
{
    if (!has(c, 0, SCRIPT_TENSOR)) NOT_MINE;
    int category = rush_dtypes[c->in[0].t->dtype].category;
    RUSH_CHECK(category < 3, RUSH_NOT_IMPLEMENTED, "tolist() of a complex tensor");
    rush_dtype as = category == 2 ? RUSH_F64 : category ? RUSH_I64 : RUSH_BOOL;
    script_value plain, flat;
    script_call to = {.name = "to", .n = 2, .in = (script_value[]){c->in[0], script_of_int(rush_script_dtype_code(as))}}, one = {.name = "contiguous", .n = 1, .in = &plain};
    if (rush_script_run_op(rush_op_find("to"), &to, &plain)) return -1;
    int failed = rush_script_run_op(rush_op_find("contiguous"), &one, &flat);
    rush_script_drop(plain);
    if (failed) return -1;
    size_t at = 0;
    failed = listed(rush_data(flat.t), as, 0, flat.t->ndim, flat.t->size, &at, out);
    rush_script_drop(flat);
    return failed;
}

FUNCTION(device)
{
    if (has(c, 0, SCRIPT_TENSOR)) return tensor_says(c, out);
    if (has(c, 0, SCRIPT_DEVICE)) return given(out, c->in[0]);
    if (!has(c, 0, SCRIPT_TEXT)) NOT_MINE;
    char name[40];
    snprintf(name, sizeof name, "%.39s", c->in[0].box->text);
    char *colon = strchr(name, ':'), *end = NULL;
    long index = colon ? strtol(colon + 1, &end, 10) : c->n > 1 && c->in[1].kind == SCRIPT_INT ? c->in[1].i : -1;
    if (colon) *colon = 0;
    int type = rush_device_from_name(name);
    RUSH_CHECK(type >= 0 && index < 128 && (!end || !*end), RUSH_RUNTIME_ERROR, "'%.100s' is no device", c->in[0].box->text);
    return *out = (script_value){.kind = SCRIPT_DEVICE, .device = {(uint8_t)type, (int8_t)(type == RUSH_CPU ? -1 : index)}}, 0;
}

FUNCTION(list_with_default) { return has(c, 0, SCRIPT_LIST) ? given(out, c->in[0]) : SCRIPT_NOT_MINE; }

FUNCTION(infer_size)
{
    if (!has(c, 0, SCRIPT_LIST) || !has(c, 1, SCRIPT_LIST)) NOT_MINE;
    const script_box *a = c->in[0].box, *b = c->in[1].box;
    size_t n = RUSH_MAX(a->n, b->n);
    *out = rush_script_list(SCRIPT_LIST, 0, NULL);
    for (size_t i = 0; out->kind != SCRIPT_UNSET && i < n; ++i) {
        int64_t x = i + a->n < n ? 1 : a->item[i + a->n - n].i, y = i + b->n < n ? 1 : b->item[i + b->n - n].i;
        if (x != y && x != 1 && y != 1) return rush_script_drop(*out), rush_fail(RUSH_RUNTIME_ERROR, "sizes %lld and %lld differ", (long long)x, (long long)y);
        if (rush_script_append(out->box, script_of_int(x == 1 ? y : x))) return rush_script_drop(*out), -1;
    }
    return out->kind == SCRIPT_UNSET ? -1 : 0;
}

/* ---- the rest ---- */

FUNCTION(raise_exception)
{
    script_value text = rush_script_print(c->n ? c->in[0] : SCRIPT_NOTHING, false);
    if (text.kind == SCRIPT_UNSET) return -1;
    rush_script_raise("", text.box->text);
    rush_script_drop(text);
    (void)out;
    return -1;
}

FUNCTION(exception)
{
    return c->n ? give(out, rush_script_print(c->in[0], false)) : give(out, rush_script_text("", 0));
}

FUNCTION(warn)
{
    script_value text = rush_script_print(c->n ? c->in[0] : SCRIPT_NOTHING, false);
    if (text.kind == SCRIPT_UNSET) return -1;
    rush_log(1, "%s", text.box->text);
    rush_script_drop(text);
    return nothing(out);
}

FUNCTION(print)
{
    for (int k = 0; k < c->n; ++k) {
        script_value text = rush_script_print(c->in[k], false);
        if (text.kind == SCRIPT_UNSET) return -1;
        printf("%s%s", k ? " " : "", text.box->text);
        rush_script_drop(text);
    }
    printf("\n");
    fflush(stdout);
    return nothing(out);
}

FUNCTION(constant_false) { (void)c; return give_bool(out, 0); }
FUNCTION(constant_true) { (void)c; return give_bool(out, 1); }
FUNCTION(is_grad_enabled) { (void)c; return give_bool(out, rush_grad_enabled()); }
FUNCTION(set_grad_enabled)
{
    if (c->n != 1) NOT_MINE;
    rush_grad_enabled_set(rush_script_truth(c->in[0]) == 1);
    return nothing(out);
}

FUNCTION(manual_seed)
{
    if (!has(c, 0, SCRIPT_INT)) NOT_MINE;
    rush_manual_seed((uint64_t)c->in[0].i);
    return nothing(out);
}

FUNCTION(default_dtype) { (void)c; return give_int(out, rush_script_dtype_code(rush_default_dtype())); }

/* What scripted encoders ask where get_fastpath_enabled() says yes; here it says no, and nothing comes to it. */
FUNCTION(left_aligned) { (void)out; return rush_fail(RUSH_NOT_IMPLEMENTED, "%s belongs to a fast path of PyTorch that is not taken here", c->name); }

FUNCTION(is_same_size)
{
    if (!has(c, 0, SCRIPT_TENSOR) || !has(c, 1, SCRIPT_LIST)) NOT_MINE;
    return nothing(out);
}

static const struct { const char *name; script_builtin f; } table[] = {
    {"add", arithmetic}, {"sub", arithmetic}, {"mul", arithmetic}, {"div", arithmetic}, {"floordiv", arithmetic}, {"remainder", arithmetic}, {"pow", arithmetic}, {"__and__", arithmetic},
    {"__or__", arithmetic}, {"__xor__", arithmetic}, {"__lshift__", arithmetic}, {"__rshift__", arithmetic}, {"floordiv_", arithmetic}, {"add_", add_inplace}, {"eq", compare}, {"ne", compare},
    {"lt", compare}, {"le", compare}, {"gt", compare}, {"ge", compare}, {"neg", negate}, {"abs", absolute}, {"bitwise_not", bit_not}, {"__not__", logical_not},
    {"sqrt", real}, {"exp", real}, {"log", real}, {"log1p", real}, {"expm1", real}, {"log2", real}, {"log10", real}, {"sin", real}, {"cos", real}, {"tan", real}, {"asin", real}, {"acos", real},
    {"atan", real}, {"sinh", real}, {"cosh", real}, {"tanh", real}, {"asinh", real}, {"acosh", real}, {"atanh", real}, {"ceil", real}, {"floor", real}, {"trunc", real}, {"atan2", real},
    {"fmod", real}, {"copysign", real}, {"hypot", real}, {"isnan", real}, {"isinf", real}, {"isfinite", real}, {"gamma", real}, {"lgamma", real}, {"erf", real}, {"erfc", real}, {"fabs", real}, {"degrees", real}, {"radians", real},
    {"factorial", taken_apart}, {"frexp", taken_apart}, {"modf", taken_apart}, {"ldexp", taken_apart},
    {"round", rounded}, {"divmod", divmod}, {"gcd", gcd}, {"mathremainder", arithmetic},
    {"int", to_int}, {"Int", to_int}, {"IntImplicit", to_int}, {"float", to_float}, {"Float", to_float}, {"FloatImplicit", to_float}, {"bool", to_bool}, {"Bool", to_bool}, {"complex", to_complex},
    {"Complex", to_complex}, {"str", to_text}, {"Scalar", item}, {"ScalarImplicit", item}, {"item", item}, {"NumToTensor", number_to_tensor}, {"scalar_tensor", number_to_tensor},
    {"unchecked_unwrap_optional", unwrap}, {"_unwrap_optional", unwrap}, {"wait", same_value}, {"data", same_value},
    {"hash", hash}, {"ord", ordinal}, {"chr", letter}, {"hex", digits}, {"oct", digits}, {"bin", digits},
    {"len", length}, {"append", append}, {"extend", extend}, {"insert", insert}, {"pop", pop}, {"Delete", delete_item}, {"_delete", delete_item}, {"clear", clear}, {"copy", copy}, {"list", to_list},
    {"tuple", to_tuple}, {"reverse", reversed}, {"reversed", reversed}, {"sort", sort}, {"sorted", sort}, {"index", index_of}, {"remove", remove_item}, {"count", count},
    {"__contains__", contains}, {"__is__", identical}, {"__isnot__", identical}, {"keys", dict_part}, {"values", dict_part}, {"items", dict_part}, {"get", get}, {"setdefault", get},
    {"update", update}, {"popitem", popitem}, {"dict", to_dict}, {"_set_item", set_item}, {"__setitem__", set_item}, {"__getitem__", get_item}, {"slice", slice}, {"min", smallest}, {"max", smallest},
    {"sum", sum}, {"any", any_all}, {"all", any_all}, {"range", range}, {"enumerate", enumerate}, {"zip", zip}, {"__derive_index", derive_index}, {"__range_length", range_length},
    {"size", sizes}, {"shape", sizes}, {"stride", sizes}, {"dim", tensor_says}, {"ndim", tensor_says}, {"ndimension", tensor_says}, {"numel", tensor_says}, {"dtype", tensor_says},
    {"layout", tensor_says}, {"itemsize", tensor_says}, {"element_size", tensor_says}, {"requires_grad", tensor_says}, {"is_leaf", tensor_says}, {"is_floating_point", tensor_says},
    {"is_complex", tensor_says}, {"is_cpu", tensor_says}, {"is_meta", tensor_says}, {"is_cuda", tensor_says}, {"is_sparse", tensor_says}, {"is_mkldnn", tensor_says}, {"is_quantized", tensor_says},
    {"is_nested", tensor_says}, {"is_xpu", tensor_says}, {"is_mps", tensor_says}, {"is_sparse_csr", tensor_says}, {"is_ipu", tensor_says}, {"is_vulkan", tensor_says}, {"grad", tensor_says},
    {"type", type}, {"T", turned}, {"mT", turned}, {"H", turned}, {"is_contiguous", contiguous_is}, {"tensor", make_tensor}, {"as_tensor", make_tensor}, {"tolist", tolist}, {"to", to_device},
    {"device", device}, {"list_with_default", list_with_default}, {"_infer_size", infer_size}, {"broadcast_shapes", infer_size},
    {"RaiseException", raise_exception}, {"Exception", exception}, {"RuntimeError", exception}, {"ValueError", exception}, {"TypeError", exception}, {"AssertionError", exception},
    {"NotImplementedError", exception}, {"IndexError", exception}, {"KeyError", exception}, {"warn", warn}, {"print", print}, {"is_autocast_enabled", constant_false},
    {"is_autocast_cpu_enabled", constant_false}, {"get_fastpath_enabled", constant_false}, {"is_scripting", constant_true}, {"is_tracing", constant_false}, {"is_grad_enabled", is_grad_enabled},
    {"set_grad_enabled", set_grad_enabled}, {"manual_seed", manual_seed}, {"get_default_dtype", default_dtype}, {"_size_if_not_equal", is_same_size},
    {"_nested_tensor_from_mask_left_aligned", left_aligned}};

script_builtin rush_script_builtin_find(const char *name)
{
    for (size_t i = 0; i < RUSH_COUNT(table); ++i)
        if (!strcmp(table[i].name, name)) return table[i].f;
    script_builtin ragged = rush_script_ragged(name);
    return ragged ? ragged : rush_script_text_method(name);
}
