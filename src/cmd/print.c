/* print.c - walks the registry and prints what must be text: C prototypes, their bodies, the reference pages.
 *
 *     print header | source | reference | at | stable | lacks
 *
 * Run while building; what it prints is never edited or committed. op/cname.c tells the names. Arguments that have no default
 * are parameters; the others are fields of an options struct: rush_conv2d(x, w, .stride = RUSH_INTS(2, 2)). C++ has them as
 * parameters, too: rush_conv2d(x, w, nullptr, {2, 2}).
 */
#include "cmd/print.h"
#include <stdio.h>

#define arg_name rush_arg_c_name
static bool plain_name(const rush_op *op) { return rush_op_c_name(op) != NULL; }
#define c_name rush_op_c_name

/* Which C type an argument has. Pointwise operations take numbers for tensors, so theirs are values. */
static const char *c_type(const rush_op *op, const rush_arg *a)
{
    if (a->list) return a->type == RUSH_A_TENSOR ? "rush_tensors" : a->type == RUSH_A_FLOAT ? "rush_floats"
                      : a->type == RUSH_A_SCALAR ? "rush_scalars" : "rush_ints";
    switch (a->type) {
    case RUSH_A_TENSOR: return op->row ? "rush_value" : "rush_tensor *";
    case RUSH_A_SCALAR: return "rush_value";
    case RUSH_A_INT: return a->optional ? "rush_value" : "int64_t";
    case RUSH_A_FLOAT: return a->optional ? "rush_value" : "double";
    case RUSH_A_BOOL: return a->optional ? "rush_value" : "bool";
    case RUSH_A_STRING: return "const char *";
    case RUSH_A_GENERATOR: return "rush_generator *";
    default: return "rush_value";
    }
}

static bool boxed(const rush_op *op, const rush_arg *a) { return !strcmp(c_type(op, a), "rush_value"); }
/* Defaults that are not zero, so that a field of zero does not say them. */
static bool has_own_default(const rush_op *op, const rush_arg *a)
{
    if (!a->has_default || a->list || boxed(op, a)) return false;
    return a->def.kind == RUSH_V_FLOAT ? a->def.f != 0 : (a->def.kind == RUSH_V_INT || a->def.kind == RUSH_V_BOOL) && a->def.i;
}

static bool has_own_defaults(const rush_op *op)
{
    for (int i = 0; i < op->nargs; ++i)
        if (has_own_default(op, &op->args[i])) return true;
    return false;
}

static void print_number(const rush_value *d)
{
    if (d->kind == RUSH_V_FLOAT) printf("%.17g", d->f);
    else if (d->kind == RUSH_V_BOOL) printf(d->i ? "true" : "false");
    else printf("%lld", (long long)d->i);
}

static int options(const rush_op *op)
{
    int n = 0;
    for (int i = 0; i < op->nargs; ++i) n += op->args[i].has_default;
    return n;
}

static void print_result_type(const rush_op *op)
{
    if (op->nout == 1 && op->out_types[0] == RUSH_A_TENSOR) printf(op->out_list & 1 ? "rush_tensors " : "rush_tensor *");
    else if (op->nout == 0) printf("int ");
    else if (op->nout == 1) printf("rush_value ");
    else printf("%s_result ", c_name(op));
}

/* The form that changes its first argument, where Python has it: rush_add_(x, y). */
static bool has_inplace(const rush_op *op)
{
    char name[96];
    snprintf(name, sizeof name, "%s_", op->base);
    return op->method & (RUSH_METHOD_ | RUSH_FUNCTION_) && !rush_op_find(name) && !strcmp(c_name(op) + 5, op->base) && op->nout == 1 &&
           op->nargs && op->args[0].type == RUSH_A_TENSOR && !op->args[0].list && op->out_types[0] == RUSH_A_TENSOR;
}

/* Of both forms: tail is "" or, of the one that changes its first argument, "_". */
static void print_signature(const rush_op *op, const char *tail)
{
    print_result_type(op);
    printf("%s%s_call(", c_name(op), tail);
    int n = 0;
    for (int i = 0; i < op->nargs; ++i) {
        if (op->args[i].has_default) continue;
        const char *type = c_type(op, &op->args[i]);
        printf("%s%s%s%s", n++ ? ", " : "", type, type[strlen(type) - 1] == '*' ? "" : " ", arg_name(&op->args[i]));
    }
    if (options(op)) printf("%sconst %s_options *options", n ? ", " : "", c_name(op));
    else if (!n) printf("void");
    printf(")");
}

static void print_types(const rush_op *op)
{
    if (options(op)) {
        printf("typedef struct %s_options { rush_exact exact RUSH_OTHERWISE(rush_exact::yes);", c_name(op));
        for (int i = 0; i < op->nargs; ++i) {
            const rush_arg *a = &op->args[i];
            if (!a->has_default) continue;
            const char *type = c_type(op, a);
            printf(" %s%s%s RUSH_OTHERWISE(", type, type[strlen(type) - 1] == '*' ? "" : " ", arg_name(a));
            if (has_own_default(op, a)) print_number(&a->def);
            else printf("{}");
            printf(");");
        }
        printf(" } %s_options;\n", c_name(op));
    }
    if (op->nout > 1) {
        printf("typedef struct %s_result {", c_name(op));
        for (int i = 0; i < op->nout; ++i) {
            const char *type = op->out_types[i] != RUSH_A_TENSOR ? "rush_value " : op->out_list >> i & 1 ? "rush_tensors " : "rush_tensor *";
            if (op->out_names[i]) printf(" %s%s;", type, op->out_names[i]);
            else printf(" %sresult%d;", type, i);
        }
        printf(" } %s_result;\n", c_name(op));
    }
}

/* A list argument where one number stands for all of its entries. */
static bool is_size(const rush_arg *a) { return a->list && a->fixed && a->type == RUSH_A_INT; }

static void print_macro(const rush_op *op, const char *tail)
{
    bool own = has_own_defaults(op);
    printf("#define %s%s(", c_name(op), tail);
    int n = 0;
    for (int i = 0; i < op->nargs; ++i)
        if (!op->args[i].has_default) printf("%s%s_", n++ ? ", " : "", op->args[i].name);
    if (options(op)) printf("%s...", n ? ", " : "");
    printf(") ");
    if (own) {
        printf("__extension__({ RUSH_OVER_DEFAULTS_BEGIN const %s_options rush_options_ = {.exact = 1, ", c_name(op));
        for (int i = 0; i < op->nargs; ++i)
            if (has_own_default(op, &op->args[i])) {
                printf(".%s = ", arg_name(&op->args[i]));
                print_number(&op->args[i].def);
                printf(", ");
            }
        printf("__VA_ARGS__}; RUSH_OVER_DEFAULTS_END ");
    }
    printf("%s%s_call(", c_name(op), tail);
    n = 0;
    for (int i = 0; i < op->nargs; ++i) {
        const rush_arg *a = &op->args[i];
        if (!a->has_default) printf(boxed(op, a) ? "%sRUSH_V(%s_)" : is_size(a) ? "%sRUSH_SIZES(%s_)" : "%s%s_", n++ ? ", " : "", a->name);
    }
    if (own) printf("%s&rush_options_); })", n ? ", " : "");
    else if (options(op)) printf("%s&(%s_options){__VA_ARGS__})", n ? ", " : "", c_name(op));
    else printf(")");
    printf("\n");
}

/* ---- C++: functions of the same names, with defaults, or with the options as a struct ---- */

static const char *cpp_type(const rush_op *op, const rush_arg *a)
{
    if (a->list) return a->type == RUSH_A_TENSOR ? "const rush_tensor_list &" : a->type == RUSH_A_FLOAT ? "const rush_float_list &"
                      : a->type == RUSH_A_SCALAR ? "const rush_scalar_list &" : "const rush_int_list &";
    return boxed(op, a) ? "const rush_boxed &" : c_type(op, a);
}

static void print_cpp_parameter(const rush_op *op, const rush_arg *a, bool with_default)
{
    const char *type = cpp_type(op, a);
    printf("%s%s%s", type, strchr("*&", type[strlen(type) - 1]) ? "" : " ", arg_name(a));
    if (!with_default) return;
    printf(" = ");
    if (has_own_default(op, a)) print_number(&a->def);
    else printf("{}");
}

static void print_cpp_call(const rush_op *op, const char *tail)
{
    printf("return %s%s_call(", c_name(op), tail);
    int n = 0;
    for (int i = 0; i < op->nargs; ++i)
        if (!op->args[i].has_default) {
            const char *inside = op->args[i].list ? ".list()" : boxed(op, &op->args[i]) ? ".value" : "";
            printf("%s%s%s", n++ ? ", " : "", arg_name(&op->args[i]), inside);
        }
    if (options(op)) printf("%s&options", n ? ", " : "");
    printf("); }\n");
}

static void print_cpp(const rush_op *op, const char *tail)
{
    for (int form = 0; form < 1 + (options(op) > 1); ++form) { /* arguments in a row, then options as a struct */
        int n = 0;
        printf("inline ");
        print_result_type(op);
        printf("%s%s(", c_name(op), tail);
        for (int with_default = 0; with_default < 2 - form; ++with_default)
            for (int i = 0; i < op->nargs; ++i)
                if (op->args[i].has_default == with_default) {
                    printf("%s", n++ ? ", " : "");
                    print_cpp_parameter(op, &op->args[i], with_default);
                }
        if (form) printf("%sconst %s_options &options", n ? ", " : "", c_name(op));
        printf(") { ");
        if (!form && options(op)) {
            printf("%s_options options; ", c_name(op));
            for (int i = 0; i < op->nargs; ++i)
                if (op->args[i].has_default) {
                    printf("options.%s = ", arg_name(&op->args[i]));
                    printf("%s%s; ", arg_name(&op->args[i]), op->args[i].list ? ".list()" : boxed(op, &op->args[i]) ? ".value" : "");
                }
        }
        print_cpp_call(op, tail);
    }
}

static void print_header(void)
{
    printf("/* ops.h - a typed prototype for each operation, printed from the registry. Schemas are ATen's. */\n"
           "#ifndef RUSHLIGHT_OPS_H\n#define RUSHLIGHT_OPS_H\n#include <rushlight.h>\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n");
    for (const rush_op *op = rush_op_first(); op; op = rush_op_next(op)) {
        if (!plain_name(op)) continue;
        printf("/* %s */\n", op->schema);
        print_types(op);
        printf("RUSH_API ");
        print_signature(op, "");
        printf(";\n");
        if (!has_inplace(op)) continue;
        printf("RUSH_API ");
        print_signature(op, "_");
        printf(";\n");
    }
    printf("\n#ifndef __cplusplus\n");
    for (const rush_op *op = rush_op_first(); op; op = rush_op_next(op))
        if (plain_name(op)) {
            print_macro(op, "");
            if (has_inplace(op)) print_macro(op, "_");
        }
    printf("#else\n}\n");
    for (const rush_op *op = rush_op_first(); op; op = rush_op_next(op))
        if (plain_name(op)) {
            print_cpp(op, "");
            if (has_inplace(op)) print_cpp(op, "_");
        }
    printf("#endif\n#endif\n");
}

static void print_boxing(const rush_op *op, int i)
{
    const rush_arg *a = &op->args[i];
    char from[96];
    snprintf(from, sizeof from, a->has_default ? "options->%s" : "%s", arg_name(a));
    const char *kind = a->type == RUSH_A_FLOAT ? "RUSH_V_FLOATS" : a->type == RUSH_A_TENSOR ? "RUSH_V_TENSORS" : a->type == RUSH_A_SCALAR ? "RUSH_V_VALUES" : "RUSH_V_INTS";
    char otherwise[40] = "RUSH_NONE";
    if (a->has_default && a->def.kind != RUSH_V_NONE) snprintf(otherwise, sizeof otherwise, "op->args[%d].def", i);
    if (a->list && (a->optional || a->has_default)) printf("%s.data ? LIST(%s, %s) : %s", from, kind, from, otherwise);
    else if (a->list) printf("LIST(%s, %s)", kind, from);
    else if (a->type == RUSH_A_STRING) printf("%s ? rush_v_string(%s) : %s", from, from, otherwise);
    else if (a->type == RUSH_A_GENERATOR) printf("rush_v_generator(%s)", from);
    else if (boxed(op, a) && a->has_default && a->def.kind != RUSH_V_NONE) printf("%s.kind ? %s : %s", from, from, otherwise);
    else if (boxed(op, a)) printf("%s", from);
    else if (a->type == RUSH_A_TENSOR) printf("rush_v_tensor(%s)", from);
    else {
        if (has_own_default(op, a)) printf("!options->exact && !%s ? %s : ", from, otherwise);
        printf(a->type == RUSH_A_INT ? "rush_v_int(%s)" : a->type == RUSH_A_FLOAT ? "rush_v_float(%s)" : "rush_v_bool(%s)", from);
    }
}

static void print_body(const rush_op *op, const char *tail)
{
    print_signature(op, tail);
    printf("\n{\n    static const rush_op *op;\n    rush_value out[RUSH_MAXOUT]%s;\n    if (!op) op = rush_op_find(\"%s\");\n", *tail ? " = {0}" : "", op->name);
    if (options(op)) printf("    static const %s_options none;\n    if (!options) options = &none;\n", c_name(op));
    printf("    const rush_value in[] = {");
    for (int i = 0; i < op->nargs; ++i) {
        printf("\n        ");
        print_boxing(op, i);
        printf(",");
    }
    printf("%s};\n    int failed = missing(op, %d, in) || rush_call%s(op, in, out);\n", op->nargs ? "" : "RUSH_NONE", op->nargs, *tail ? "_inplace" : "");
    if (op->nout == 0) printf("    return failed ? -1 : 0;\n");
    else if (op->nout == 1 && op->out_types[0] != RUSH_A_TENSOR) printf("    return failed ? RUSH_NONE : out[0];\n");
    else if (op->nout == 1) printf(op->out_list & 1 ? "    return failed ? (rush_tensors){0} : (rush_tensors){out[0].tensors, out[0].n};\n"
                                                    : "    return failed || out[0].kind != RUSH_V_TENSOR ? NULL : out[0].t;\n");
    else {
        printf("    if (failed) memset(out, 0, sizeof out);\n    return (%s_result){", c_name(op));
        for (int i = 0; i < op->nout; ++i) {
            if (op->out_types[i] != RUSH_A_TENSOR) printf("%sout[%d]", i ? ", " : "", i);
            else if (op->out_list >> i & 1) printf("%s{out[%d].tensors, out[%d].n}", i ? ", " : "", i, i);
            else printf("%sout[%d].t", i ? ", " : "", i);
        }
        printf("};\n");
    }
    printf("}\n\n");
}

static void print_source(void)
{
    printf("#include <rushlight/ops.h>\n#include <string.h>\n\n"
           "#define LIST(its_kind, list) (rush_value){.kind = its_kind, .n = (uint32_t)(list).n, {.ints = (const void *)(list).data}}\n\n"
           "/* A nested call that failed left NULL where a tensor must be: its error is pending, nothing is to be done. */\n"
           "static int missing(const rush_op *op, int n, const rush_value *in)\n{\n"
           "    if (rush_error()) return 1;\n"
           "    for (int i = 0; i < n; ++i)\n"
           "        if (op->args[i].type == RUSH_A_TENSOR && !op->args[i].list && !op->args[i].optional && in[i].kind == RUSH_V_NONE)\n"
           "            return rush_fail(RUSH_TYPE_ERROR, \"%%s: argument '%%s' is NULL\", op->name, op->args[i].name);\n"
           "    return 0;\n}\n\n");
    for (const rush_op *op = rush_op_first(); op; op = rush_op_next(op))
        if (plain_name(op)) {
            print_body(op, "");
            if (has_inplace(op)) print_body(op, "_");
        }
}

static void print_reference(void)
{
    printf("# Operations\n\nPrinted from the registry: the schema of each, and what it does.\n\n");
    for (const rush_op *op = rush_op_first(); op; op = rush_op_next(op))
        if (!(op->flags & RUSH_HIDDEN) && op->name[0] != '_') printf("- `%s`\n  %s\n", op->schema, op->doc ? op->doc : "");
}

/* What an engine that was not found costs, in one line; nothing where there are all. */
static void print_lacks(void)
{
    const char *without = strstr(rush_engines(), "; without ");
    if (without) printf("this build is without: %s\n", without + strlen("; without "));
}

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "header")) print_header();
    else if (argc == 2 && !strcmp(argv[1], "source")) print_source();
    else if (argc == 2 && !strcmp(argv[1], "reference")) print_reference();
    else if (argc == 2 && !strcmp(argv[1], "at")) print_at();
    else if (argc == 2 && !strcmp(argv[1], "stable")) print_stable();
    else if (argc == 2 && !strcmp(argv[1], "lacks")) print_lacks();
    else return fprintf(stderr, "usage: %s header|source|reference|at|stable|lacks\n", argv[0]), 2;
    return fflush(stdout) || ferror(stdout);
}
