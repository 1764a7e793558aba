/* print_at.c - the operations as C++ has them under ATen's names: functions of namespace at, and methods of at::Tensor.
 *
 *     print at
 *
 * prints three parts into one file: for include/rushlight/cpp/rushlight/at/tensor.hpp the methods' declarations where RUSH_AT_METHODS
 * is defined (inside the class), their bodies and what these call where RUSH_AT_BODIES is; else, for functions.hpp, all other
 * functions. So what needs only the class is not made to parse thousands of them. What a call is made of is at::detail::Call.
 */
#include "base/kept.h"
#include "cmd/print.h"
#include <stdio.h>

/* Methods that tensor.hpp writes by hand: they are no calls, or take what no schema has. */
static const char *const by_hand[] = {"size", "stride", "item", "numel", "dim", "is_contiguous", "data", "is_leaf", "output_nr", "_version", "index", "index_put_",
                                      "requires_grad_", "retain_grad", "retains_grad", "is_sparse", "is_meta", "is_cuda", "storage_offset", "element_size", "grad",
                                      "is_floating_point", "is_complex", "is_signed", "itemsize", "nbytes", "layout", "device", "dtype", "is_cpu", "backward"};

static bool is_by_hand(const char *name)
{
    for (size_t k = 0; k < RUSH_COUNT(by_hand); ++k)
        if (!strcmp(name, by_hand[k])) return true;
    return false;
}

/* A record before it takes a number there: clamp_min before clamp_min.Tensor. */
static bool has_number_before(const rush_op *op, int i)
{
    for (const rush_op *o = rush_op_find(op->base); o && o != op; o = o->next)
        if (i < o->nargs && o->args[i].type == RUSH_A_SCALAR && !o->args[i].list) return true;
    return false;
}

/* Numbers stand for its tensors behind self. */
static bool is_operand(const rush_op *op, int i)
{
    const rush_arg *a = &op->args[i];
    return i && a->type == RUSH_A_TENSOR && !a->list && !a->optional && (op->row || op->flags & RUSH_NUMBERS) && !has_number_before(op, i);
}

/* dtype, layout, device and pin_memory in a row are TensorOptions. */
static bool begins_options(const rush_op *op, int i)
{
    static const char *const names[] = {"dtype", "layout", "device", "pin_memory"};
    for (int k = 0; k < 4; ++k)
        if (i + k >= op->nargs || strcmp(op->args[i + k].name, names[k]) || !op->args[i + k].optional) return false;
    return true;
}

static const char *element(const rush_arg *a)
{
    switch (a->type) {
    case RUSH_A_TENSOR: return "Tensor";
    case RUSH_A_INT: return "int64_t";
    case RUSH_A_FLOAT: return "double";
    case RUSH_A_BOOL: return "bool";
    case RUSH_A_SCALAR: return "Scalar";
    case RUSH_A_STRING: return "c10::string_view";
    case RUSH_A_DTYPE: return "ScalarType";
    case RUSH_A_DEVICE: return "Device";
    case RUSH_A_LAYOUT: return "Layout";
    case RUSH_A_MEMORY_FORMAT: return "MemoryFormat";
    default: return "Generator";
    }
}

static void print_type(const rush_op *op, int i)
{
    const rush_arg *a = &op->args[i];
    bool reference = a->type == RUSH_A_TENSOR || a->type == RUSH_A_SCALAR;
    if (is_operand(op, i)) printf("const Operand &");
    else if (a->list && a->optional_items) printf("const c10::List<std::optional<Tensor>> &");
    else if (a->list) printf(a->optional ? "OptionalArrayRef<%s> " : "ArrayRef<%s> ", element(a));
    else if (a->optional) printf(reference ? "const std::optional<%s> &" : "std::optional<%s> ", element(a));
    else printf(reference ? "const %s &" : "%s ", element(a));
}

static void print_default(const rush_arg *a)
{
    const rush_value *d = &a->def;
    if (d->kind == RUSH_V_NONE) printf(a->optional ? "std::nullopt" : "{}");
    else if (d->kind == RUSH_V_STRING) printf("\"%s\"", d->s);
    else if (a->list && !d->n) printf("ArrayRef<%s>()", element(a));
    else if (d->kind == RUSH_V_INTS) { /* all alike, as in schemas "int[2] stride=1"; those that are not are listed */
        printf("detail::list<");
        for (uint32_t k = 0; k < d->n; ++k) printf("%s%lld", k ? ", " : "", (long long)d->ints[k]);
        printf(">()");
    } else if (d->kind == RUSH_V_FLOAT) printf("%.17g", d->f);
    else if (d->kind == RUSH_V_BOOL) printf(d->i ? "true" : "false");
    else if (d->kind == RUSH_V_DTYPE) printf("static_cast<ScalarType>(%lld)", (long long)d->i);
    else if (d->kind == RUSH_V_MEMORY_FORMAT) printf("static_cast<MemoryFormat>(%lld)", (long long)d->i);
    else printf("%lld", (long long)d->i);
}

/* Does argument i of two records of one name look the same to C++? */
static bool is_alike(const rush_op *a, const rush_op *b, int i)
{
    const rush_arg *x = &a->args[i], *y = &b->args[i];
    if (is_operand(a, i) && !y->list && (y->type == RUSH_A_SCALAR || y->type == RUSH_A_TENSOR)) return true;
    return x->type == y->type && x->list == y->list && x->optional == y->optional;
}

static int first_default(const rush_op *op);

/* How many arguments `op` needs, at least `first`, so that a call is not as well one of `other`, which comes before it. -1: none would do. */
static int told_apart(const rush_op *other, const rush_op *op, int first)
{
    int i = 0;
    if (first_default(other) != first) return first;
    while (i < first && is_alike(other, op, i)) ++i;
    if (i < first) return first;
    for (; i < op->nargs && !op->args[i].kwonly; ++i)
        if (i >= other->nargs || other->args[i].kwonly || !is_alike(other, op, i)) return i + 1;
    return -1;
}

/* From this argument on all have defaults; in C++ no other may have one. -1: C++ could not tell the record from another one of its name. */
static int first_default(const rush_op *op)
{
    int first = op->nargs;
    while (first && op->args[first - 1].has_default) --first;
    for (const rush_op *o = rush_op_find(op->base); o && o != op && first >= 0; o = o->next) first = told_apart(o, op, first);
    return first;
}

enum { DECLARED = 1, METHOD = 2 };

static void print_parameters(const rush_op *op, int how, int before)
{
    int n = before;
    for (int i = how & METHOD ? 1 : 0; i < op->nargs; ++i) {
        printf("%s", n++ ? ", " : "");
        bool grouped = begins_options(op, i);
        if (grouped) printf("const TensorOptions &");
        else print_type(op, i);
        printf("%s", grouped ? "options" : rush_arg_c_name(&op->args[i]));
        if (how & DECLARED && i >= first_default(op)) {
            printf(" = ");
            if (grouped) printf("{}");
            else print_default(&op->args[i]);
        }
        if (grouped) i += 3;
    }
}

static void print_names(const rush_op *op, bool method, int before)
{
    int n = before;
    for (int i = 0; i < op->nargs; ++i) {
        bool grouped = begins_options(op, i);
        printf("%s%s", n++ ? ", " : "", method && !i ? "*this" : grouped ? "options" : rush_arg_c_name(&op->args[i]));
        if (grouped) i += 3;
    }
}

static const char *result_type(const rush_op *op, int i)
{
    if (op->out_list >> i & 1) return "std::vector<Tensor>";
    const rush_arg a = {.type = op->out_types[i]};
    return a.type == RUSH_A_STRING ? "std::string" : element(&a);
}

static void print_result(const rush_op *op)
{
    if (!op->nout) printf("void");
    else if (op->nout == 1) printf("%s", result_type(op, 0));
    else {
        printf("std::tuple<");
        for (int i = 0; i < op->nout; ++i) printf("%s%s", i ? ", " : "", result_type(op, i));
        printf(">");
    }
}

/* Of "add.Tensor" the record "add.Scalar", which ATen calls when argument i is a number: graphs show it under another name. */
static const rush_op *with_number(const rush_op *op, int *i)
{
    char name[96];
    snprintf(name, sizeof name, "%s.Scalar", op->base);
    const rush_op *other = strstr(op->name, ".Tensor") ? rush_op_find(name) : NULL;
    if (!other || strcmp(other->name, name) || other->nargs != op->nargs) return NULL;
    for (*i = 1; *i < op->nargs; ++*i)
        if (is_operand(op, *i)) return other->args[*i].type == RUSH_A_SCALAR ? other : NULL;
    return NULL;
}

/* Which of all records this is: where the header keeps what it found. */
static int place_of(const rush_op *op)
{
    int place = 0;
    for (const rush_op *o = rush_op_first(); o && o != op; o = rush_op_next(o)) ++place;
    return place;
}

/* An argument as a value. What is most frequent goes without choosing among overloads, which is most of the time to parse a call. */
static void print_boxed(const rush_op *op, int i)
{
    const rush_arg *a = &op->args[i];
    bool plain = !a->list && !a->optional;
    const char *how = is_operand(op, i) || (plain && a->type == RUSH_A_SCALAR) ? "%s.value()"
                      : !plain                                                 ? "c(%s)"
                      : a->type == RUSH_A_TENSOR                               ? "rush_v_tensor(%s.get())"
                      : a->type == RUSH_A_INT                                  ? "rush_v_int(%s)"
                      : a->type == RUSH_A_FLOAT                                ? "rush_v_float(%s)"
                      : a->type == RUSH_A_BOOL                                 ? "rush_v_bool(%s)"
                                                                               : "c(%s)";
    printf(how, rush_arg_c_name(a));
}

static void print_body(const rush_op *op, const char *how)
{
    int number;
    const rush_op *other = with_number(op, &number);
    printf(" { detail::Call c(");
    if (other) printf("%s.is_number() ? detail::find(%d, \"%s\") : ", rush_arg_c_name(&op->args[number]), place_of(other), other->name);
    printf("detail::find(%d, \"%s\")); const rush_value in[] = {", place_of(op), op->name);
    for (int i = 0; i < op->nargs; ++i) {
        printf("%s", i ? ", " : "");
        if (begins_options(op, i)) {
            printf("c(options.dtype_opt()), c(options.layout_opt()), c(options.device_opt()), c(options.pinned_memory_opt())");
            i += 3;
        } else print_boxed(op, i);
    }
    printf("%s}; ", op->nargs ? "" : "rush_v_none()");
    printf(how, op->name);
}

/* Methods in C++, for which Python has something else. */
static const char *const more_methods[] = {"to", "alias", "type_as", "slice", "nonzero", "is_nonzero", "mT", "mH", "matrix_H", "numpy_T",
                                           "__and__", "__or__", "__xor__", "__lshift__", "__rshift__"};

static bool ends_with_line(const rush_op *op) { return strncmp(op->base, "__", 2) && op->base[strlen(op->base) - 1] == '_'; }

static bool is_method(const rush_op *op, unsigned which)
{
    unsigned method = 0;
    for (const rush_op *o = rush_op_find(op->base); o; o = o->next) method |= o->method;
    for (size_t k = 0; k < RUSH_COUNT(more_methods); ++k)
        if (!strcmp(op->base, more_methods[k])) method |= RUSH_METHOD;
    return method & which && op->nargs && op->args[0].type == RUSH_A_TENSOR && !op->args[0].list && !op->args[0].optional;
}

/* The method of the record itself. */
static bool has_method(const rush_op *op) { return is_method(op, ends_with_line(op) ? RUSH_METHOD_ : RUSH_METHOD) && !is_by_hand(op->base); }

/* ATen writes into given tensors with name_out(out, ...): where all results are tensors of their own. */
static bool has_out(const rush_op *op)
{
    size_t n = strlen(op->base);
    if (!op->nout || op->flags & (RUSH_VIEW | RUSH_HIDDEN) || op->out_list || op->base[0] == '_' || op->base[n - 1] == '_' || (op->nargs && op->args[0].written)) return false;
    for (int i = 0; i < op->nout; ++i)
        if (op->out_types[i] != RUSH_A_TENSOR) return false;
    return !strstr(op->name, "out");
}

static bool changes_self(const rush_op *op)
{
    return ends_with_line(op) && op->nargs && !op->args[0].list && op->args[0].type == RUSH_A_TENSOR && op->args[0].written && op->nout == 1;
}

/* The form name_, which is derived from the record. */
static bool has_inplace(const rush_op *op)
{
    char name[96];
    snprintf(name, sizeof name, "%s_", op->base);
    return !ends_with_line(op) && (is_method(op, RUSH_METHOD_ | RUSH_FUNCTION_)) && !rush_op_find(name) && op->nout == 1 && op->nargs && op->args[0].type == RUSH_A_TENSOR &&
           !op->args[0].list && !op->args[0].optional && op->out_types[0] == RUSH_A_TENSOR;
}

/* The same as a method. */
static bool has_inplace_method(const rush_op *op) { return has_inplace(op) && is_method(op, RUSH_METHOD_); }

static const char *out_tuple(const rush_op *op)
{
    static char text[160];
    int n = snprintf(text, sizeof text, "std::tuple<Tensor &");
    for (int i = 1; i < op->nout; ++i) n += snprintf(text + n, sizeof text - (size_t)n, ", Tensor &");
    snprintf(text + n, sizeof text - (size_t)n, ">");
    return text;
}

static bool wanted(const rush_op *op)
{
    return !strchr(op->base, ':') && first_default(op) >= 0;
}

/* Functions that are no methods, and that the class's operators and methods written by hand call. */
static bool serves_methods(const rush_op *op)
{
    static const char *const names[] = {"rsub", "full", "scalar_tensor", "view_as_real", "real", "where", "polygamma", "index", "index_put_"};
    for (size_t k = 0; k < RUSH_COUNT(names); ++k)
        if (!strcmp(op->base, names[k])) return true;
    return has_method(op) || has_inplace_method(op);
}

static void print_declarations(const rush_op *op)
{
    if (has_method(op)) {
        if (changes_self(op)) printf("Tensor &");
        else print_result(op), printf(" ");
        printf("%s(", op->base);
        print_parameters(op, DECLARED | METHOD, 0);
        printf(") const;\n");
    }
    if (has_inplace_method(op)) {
        printf("Tensor &%s_(", op->base);
        print_parameters(op, DECLARED | METHOD, 0);
        printf(") const;\n");
    }
}

/* The same function with dtype, layout, device and pin_memory as arguments of their own, none of which has a default. */
static void print_ungrouped(const rush_op *op)
{
    printf("inline ");
    print_result(op);
    printf(" %s(", op->base);
    for (int i = 0; i < op->nargs; ++i) {
        printf("%s", i ? ", " : "");
        print_type(op, i);
        printf("%s", rush_arg_c_name(&op->args[i]));
    }
    printf(") { return %s(", op->base);
    for (int i = 0; i < op->nargs; ++i) {
        bool grouped = begins_options(op, i);
        printf("%s%s", i ? ", " : "", grouped ? "TensorOptions().dtype(dtype).layout(layout).device(device).pinned_memory(pin_memory)" : rush_arg_c_name(&op->args[i]));
        if (grouped) i += 3;
    }
    printf("); }\n");
}

static void print_functions(const rush_op *op)
{
    const char *base = op->base;
    printf("inline ");
    print_result(op);
    printf(" %s(", base);
    print_parameters(op, DECLARED, 0);
    printf(")");
    print_body(op, "");
    bool grouped = false;
    for (int i = 0; i < op->nargs; ++i) grouped |= begins_options(op, i);
    if (grouped && op->nout == 1) printf("return detail::as_asked(c.call<Tensor>(in), options); }\n");
    else printf("return c.call<"), print_result(op), printf(">(in); }\n");
    if (grouped) print_ungrouped(op);
    if (has_inplace(op)) {
        printf("inline Tensor %s_(", base);
        print_parameters(op, DECLARED, 0);
        printf(")");
        print_body(op, "return c.inplace(in); }\n");
    }
}

static void print_out_function(const rush_op *op)
{
    const char *base = op->base;
    if (!has_out(op)) return;
    printf(op->nout == 1 ? "inline Tensor &%s_out(" : "inline %s %s_out(", op->nout == 1 ? base : out_tuple(op), base);
    for (int i = 0; i < op->nout; ++i) printf(i ? ", Tensor &result%d" : "Tensor &result%d", i);
    print_parameters(op, DECLARED, op->nout);
    printf(")");
    print_body(op, "c.into(in, {");
    for (int i = 0; i < op->nout; ++i) printf(i ? ", &result%d" : "&result%d", i);
    printf(op->nout == 1 ? "}); return result0; }\n" : "}); return {");
    for (int i = 0; op->nout > 1 && i < op->nout; ++i) printf(i ? ", result%d" : "result%d", i);
    if (op->nout > 1) printf("}; }\n");
}

static void print_method_bodies(const rush_op *op)
{
    const char *base = op->base;
    if (has_method(op)) {
        printf("inline ");
        if (changes_self(op)) printf("Tensor &");
        else print_result(op), printf(" ");
        printf("Tensor::%s(", base);
        print_parameters(op, METHOD, 0);
        printf(") const { ");
        if (!changes_self(op)) printf("return ");
        printf("at::%s(", base);
        print_names(op, true, 0);
        printf(changes_self(op) ? "); return const_cast<Tensor &>(*this); }\n" : "); }\n");
    }
    if (has_inplace_method(op)) {
        printf("inline Tensor &Tensor::%s_(", base);
        print_parameters(op, METHOD, 0);
        printf(") const { at::%s_(", base);
        print_names(op, true, 0);
        printf("); return const_cast<Tensor &>(*this); }\n");
    }
}

void print_at(void)
{
    printf("/* functions.inc - ATen's functions and methods, printed from the registry for rushlight/at/tensor.hpp and functions.hpp. */\n#ifdef RUSH_AT_METHODS\n");
    uint64_t names = RUSH_HASH_NOTHING;
    for (const rush_op *op = rush_op_first(); op; op = rush_op_next(op)) names = rush_hash_text(names, op->name);
    printf("#define RUSH_AT_OPS %d\n#define RUSH_AT_NAMES names_%016llx\n", place_of(NULL), (unsigned long long)names);
    for (const rush_op *op = rush_op_first(); op; op = rush_op_next(op))
        if (wanted(op)) print_declarations(op);
    printf("#elif defined RUSH_AT_BODIES\n");
    for (const rush_op *op = rush_op_first(); op; op = rush_op_next(op))
        if (wanted(op) && serves_methods(op)) print_functions(op);
    for (const rush_op *op = rush_op_first(); op; op = rush_op_next(op))
        if (wanted(op)) print_method_bodies(op);
    printf("#else\n");
    for (const rush_op *op = rush_op_first(); op; op = rush_op_next(op)) {
        if (wanted(op) && !serves_methods(op)) print_functions(op);
        if (wanted(op)) print_out_function(op);
    }
    printf("#endif\n");
}
