/* print.c - walks the registry and prints what must be text: C prototypes, their bodies, the reference pages.
 *
 *     print header | source | reference
 *
 * Run while building; what it prints is never edited or committed. An operation's C name is rush_ and its ATen name,
 * for further overloads with theirs behind it: rush_sum, rush_sum_dim_intlist. Arguments that have no default are
 * parameters; the others are fields of an options struct: rush_conv2d(x, w, .stride = {2, 2}).
 */
#include "op/op.h"
#include <ctype.h>
#include <stdio.h>

static const char *reserved[] = {"grad", "size", "stride", "item", "numel", "data", "sizes", "strides", "ndim", "error", "keep", "drop",
                                 "park", "apply", "call", "out", "log", "promote", "is_contiguous", "result_type"};

static bool plain_name(const rush_op *op)
{
    if (op->name[0] == '_' || op->flags & RUSH_HIDDEN) return false;
    if (strchr(op->base, ':')) return false; /* of a namespace: not ours */
    for (size_t k = 0; k < RUSH_COUNT(reserved); ++k)
        if (!strcmp(op->base, reserved[k])) return false;
    return true;
}

/* The overload that has the plain name: the one without a name, else the tensors' one, else the first. */
static const rush_op *main_overload(const rush_op *op)
{
    const rush_op *first = rush_op_find(op->base), *tensor = NULL;
    for (const rush_op *o = first; o; o = o->next) {
        if (!strcmp(o->name, o->base)) return o;
        if (!tensor && (!strcmp(o->name + strlen(o->base), ".Tensor") || !strcmp(o->name + strlen(o->base), ".self"))) tensor = o;
    }
    return tensor ? tensor : first;
}

static const char *c_name(const rush_op *op)
{
    static char text[160];
    const char *overload = op->name + strlen(op->base);
    int n = snprintf(text, sizeof text, "rush_%s", op->base);
    if (main_overload(op) != op) n += snprintf(text + n, sizeof text - n, "_%s", *overload ? overload + 1 : "default");
    const rush_op *other = rush_op_find(text + 5); /* scatter.reduce is not scatter_reduce */
    if (other && strcmp(other->base, op->base)) snprintf(text, sizeof text, "rush_%s__%s", op->base, *overload ? overload + 1 : "default");
    for (char *c = text; *c; ++c) *c = (char)tolower((unsigned char)*c);
    if (main_overload(op) != op && rush_op_find(text + 5)) /* scatter.reduce beside scatter_reduce */
        snprintf(text, sizeof text, "rush_%s__%s", op->base, *overload ? overload + 1 : "default");
    return text;
}

static const char *arg_name(const rush_arg *a)
{
    static const char *words[] = {"register", "default", "int", "float", "double", "long", "short", "signed", "unsigned", "char", "const", "out"};
    static char text[64];
    for (size_t k = 0; k < RUSH_COUNT(words); ++k)
        if (!strcmp(a->name, words[k])) return snprintf(text, sizeof text, "%s_", a->name), text;
    return a->name;
}

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
static bool inline_list(const rush_arg *a) { return a->list && a->fixed > 1 && a->has_default && a->def.kind == RUSH_V_INTS && a->type != RUSH_A_FLOAT; }

static void print_default(const rush_op *op, const rush_arg *a)
{
    const rush_value *d = &a->def;
    if (d->kind == RUSH_V_NONE || (a->list && !inline_list(a))) return;
    printf(".%s = ", arg_name(a));
    if (inline_list(a)) {
        printf("{");
        for (int k = 0; k < a->fixed; ++k) printf("%s%lld", k ? ", " : "", (long long)(d->n ? d->ints[RUSH_MIN((uint32_t)k, d->n - 1)] : 0));
        printf("}");
    } else if (d->kind == RUSH_V_STRING) {
        printf("\"%s\"", d->s);
    } else if (boxed(op, a)) {
        if (d->kind == RUSH_V_FLOAT) printf("rush_v_float(%.17g)", d->f);
        else if (d->kind == RUSH_V_BOOL) printf("rush_v_bool(%d)", (int)d->i);
        else if (d->kind == RUSH_V_INT) printf("rush_v_int(%lld)", (long long)d->i);
        else printf("{.kind = %d, .n = 0, {.i = %lld}}", d->kind, (long long)d->i);
    } else if (d->kind == RUSH_V_FLOAT) {
        printf("%.17g", d->f);
    } else {
        printf("%lld", (long long)d->i);
    }
    printf(", ");
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

static void print_signature(const rush_op *op)
{
    print_result_type(op);
    printf("%s_call(", c_name(op));
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
        printf("typedef struct %s_options {", c_name(op));
        for (int i = 0; i < op->nargs; ++i) {
            const rush_arg *a = &op->args[i];
            if (!a->has_default) continue;
            const char *type = c_type(op, a);
            if (inline_list(a)) printf(" int64_t %s[%d];", arg_name(a), a->fixed);
            else printf(" %s%s%s;", type, type[strlen(type) - 1] == '*' ? "" : " ", arg_name(a));
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

static void print_macro(const rush_op *op)
{
    printf("#define %s(", c_name(op));
    int n = 0;
    for (int i = 0; i < op->nargs; ++i)
        if (!op->args[i].has_default) printf("%s%s_", n++ ? ", " : "", op->args[i].name);
    if (options(op)) printf("%s...", n ? ", " : "");
    printf(") %s_call(", c_name(op));
    n = 0;
    for (int i = 0; i < op->nargs; ++i)
        if (!op->args[i].has_default) printf(boxed(op, &op->args[i]) ? "%sRUSH_V(%s_)" : "%s%s_", n++ ? ", " : "", op->args[i].name);
    if (options(op)) {
        printf("%s&(%s_options){", n ? ", " : "", c_name(op));
        for (int i = 0; i < op->nargs; ++i)
            if (op->args[i].has_default) print_default(op, &op->args[i]);
        printf("__VA_ARGS__}");
    }
    printf(")\n");
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
        print_signature(op);
        printf(";\n");
    }
    printf("\n#ifndef __cplusplus\n");
    for (const rush_op *op = rush_op_first(); op; op = rush_op_next(op))
        if (plain_name(op)) print_macro(op);
    printf("#endif\n#ifdef __cplusplus\n}\n#endif\n#endif\n");
}

static void print_boxing(const rush_op *op, int i)
{
    const rush_arg *a = &op->args[i];
    char from[96];
    snprintf(from, sizeof from, a->has_default ? "options->%s" : "%s", arg_name(a));
    if (inline_list(a)) printf("rush_v_ints(%s, %d)", from, a->fixed);
    else if (a->list && a->optional) printf("%s.data ? (rush_value){.kind = %d, .n = (uint32_t)%s.n, {.ints = (const void *)%s.data}} : RUSH_NONE", from,
                a->type == RUSH_A_FLOAT ? RUSH_V_FLOATS : a->type == RUSH_A_TENSOR ? RUSH_V_TENSORS : RUSH_V_INTS, from, from);
    else if (a->list && a->has_default) printf("%s.data ? (rush_value){.kind = %d, .n = (uint32_t)%s.n, {.ints = (const void *)%s.data}} : op->args[%d].def",
                from, a->type == RUSH_A_FLOAT ? RUSH_V_FLOATS : a->type == RUSH_A_TENSOR ? RUSH_V_TENSORS : RUSH_V_INTS, from, from, i);
    else if (a->list) printf("(rush_value){.kind = %d, .n = (uint32_t)%s.n, {.ints = (const void *)%s.data}}",
                a->type == RUSH_A_FLOAT ? RUSH_V_FLOATS : a->type == RUSH_A_TENSOR ? RUSH_V_TENSORS
                : a->type == RUSH_A_SCALAR ? RUSH_V_VALUES : RUSH_V_INTS, from, from);
    else if (a->type == RUSH_A_STRING) printf("%s ? rush_v_string(%s) : RUSH_NONE", from, from);
    else if (a->type == RUSH_A_GENERATOR) printf("%s ? (rush_value){.kind = RUSH_V_GENERATOR, .gen = %s} : RUSH_NONE", from, from);
    else if (boxed(op, a)) printf("%s", from);
    else if (a->type == RUSH_A_TENSOR) printf("rush_v_tensor(%s)", from);
    else if (a->type == RUSH_A_INT) printf("rush_v_int(%s)", from);
    else if (a->type == RUSH_A_FLOAT) printf("rush_v_float(%s)", from);
    else printf("rush_v_bool(%s)", from);
}

static void print_body(const rush_op *op)
{
    print_signature(op);
    printf("\n{\n    static const rush_op *op;\n    rush_value out[RUSH_MAXOUT];\n    if (!op) op = rush_op_find(\"%s\");\n", op->name);
    printf("    const rush_value in[] = {");
    for (int i = 0; i < op->nargs; ++i) {
        printf("\n        ");
        print_boxing(op, i);
        printf(",");
    }
    printf("%s};\n    int failed = missing(op, %d, in) || rush_call(op, in, out);\n", op->nargs ? "" : "RUSH_NONE", op->nargs);
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
           "/* A nested call that failed left NULL where a tensor must be: its error is pending, nothing is to be done. */\n"
           "static int missing(const rush_op *op, int n, const rush_value *in)\n{\n"
           "    if (rush_error()) return 1;\n"
           "    for (int i = 0; i < n; ++i)\n"
           "        if (op->args[i].type == RUSH_A_TENSOR && !op->args[i].list && !op->args[i].optional && in[i].kind == RUSH_V_NONE)\n"
           "            return rush_fail(RUSH_TYPE_ERROR, \"%%s: argument '%%s' is NULL\", op->name, op->args[i].name);\n"
           "    return 0;\n}\n\n");
    for (const rush_op *op = rush_op_first(); op; op = rush_op_next(op))
        if (plain_name(op)) print_body(op);
}

static void print_reference(void)
{
    printf("# Operations\n\nPrinted from the registry: the schema of each, and what it does.\n\n");
    for (const rush_op *op = rush_op_first(); op; op = rush_op_next(op))
        if (!(op->flags & RUSH_HIDDEN) && op->name[0] != '_') printf("- `%s`\n  %s\n", op->schema, op->doc ? op->doc : "");
}

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "header")) print_header();
    else if (argc == 2 && !strcmp(argv[1], "source")) print_source();
    else if (argc == 2 && !strcmp(argv[1], "reference")) print_reference();
    else return fprintf(stderr, "usage: %s header|source|reference\n", argv[0]), 2;
    return fflush(stdout) || ferror(stdout);
}
