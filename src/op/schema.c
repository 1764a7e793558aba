/* schema.c - reads ATen's schema strings into the argument list of a record.
 *
 *     clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor
 *     max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)
 *
 * The only reader of schemas in the library: bindings, documentation and tests walk what it leaves.
 */
#include "op/nested.h"
#include "op/schema.h"
#include "base/text.h"
#include <ctype.h>
#include <errno.h>
#include <math.h>

typedef struct reader {
    const char *at;
    rush_op *op;
} reader;

static int wrong(reader *r, const char *what)
{
    return rush_fail(RUSH_VALUE_ERROR, "schema '%s': %s expected at '%.40s'", r->op->schema, what, r->at);
}

static void skip_space(reader *r)
{
    while (*r->at == ' ') ++r->at;
}

static bool take(reader *r, const char *word)
{
    skip_space(r);
    size_t n = strlen(word);
    if (strncmp(r->at, word, n)) return false;
    r->at += n;
    return true;
}

static char *copy_text(const char *from, size_t n)
{
    char *text = rush_malloc(n + 1);
    if (text) {
        memcpy(text, from, n);
        text[n] = 0;
    }
    return text;
}

/* A name: letters, digits, _ (and . where an overload may follow). */
static char *take_name(reader *r, bool dotted)
{
    skip_space(r);
    const char *begin = r->at;
    while (isalnum((unsigned char)*r->at) || *r->at == '_' || (dotted && (*r->at == '.' || *r->at == ':'))) ++r->at;
    return r->at == begin ? NULL : copy_text(begin, r->at - begin);
}

/* A plain type, or a list of it; -1: it is another. */
static int take_plain_type(reader *r, rush_arg *arg)
{
    const char *begin = r->at;
    while (isalpha((unsigned char)*r->at)) ++r->at;
    int type = rush_type_plain((rush_type_text){begin, (size_t)(r->at - begin)});
    if (type < 0) return -1;
    arg->type = (uint8_t)type;
    if (*r->at == '(') { /* (a!), (a), (a -> *) */
        while (*r->at && *r->at != ')') arg->written |= *r->at++ == '!';
        if (*r->at) ++r->at;
    }
    bool item_optional = false;
    if (*r->at == '?') item_optional = true, ++r->at;
    if (*r->at == '[') {
        arg->list = true;
        arg->optional_items = item_optional;
        item_optional = false;
        ++r->at;
        if (isdigit((unsigned char)*r->at)) arg->fixed = (int8_t)strtol(r->at, (char **)&r->at, 10);
        if (*r->at++ != ']') return -1;
        if (*r->at == '(') {
            while (*r->at && *r->at != ')') arg->written |= *r->at++ == '!';
            if (*r->at) ++r->at;
        }
        if (*r->at == '?') item_optional = true, ++r->at;
    }
    arg->optional = item_optional;
    bool known = !arg->list || arg->type == RUSH_A_TENSOR || (!arg->optional_items && arg->type <= RUSH_A_SCALAR);
    return known && !isalpha((unsigned char)*r->at) && *r->at != '[' && *r->at != '?' ? 0 : -1;
}

static int take_type(reader *r, rush_arg *arg)
{
    skip_space(r);
    const char *begin = r->at;
    if (!take_plain_type(r, arg)) return 0;
    const char *end = rush_type_end(begin);
    if (!end) return r->at = begin, wrong(r, "a type");
    *arg = (rush_arg){.type = RUSH_A_NESTED, .optional = end[-1] == '?', .kwonly = arg->kwonly};
    r->at = end;
    return 0;
}

static const struct { const char *name; int format; } format_names[] = {
    {"contiguous_format", RUSH_CONTIGUOUS}, {"preserve_format", RUSH_PRESERVE}, {"channels_last", RUSH_CHANNELS_LAST},
};

static int take_number(reader *r, rush_value *v)
{
    skip_space(r);
    char *end;
    errno = 0;
    long long i = strtoll(r->at, &end, 10);
    if (end != r->at && *end != '.' && *end != 'e' && !errno) {
        *v = rush_v_int(i);
        r->at = end;
        return 0;
    }
    double f = rush_strtod(r->at, &end);
    if (end == r->at) return wrong(r, "a number");
    r->at = end;
    *v = rush_v_float(f);
    return 0;
}

static int take_default(reader *r, rush_arg *arg)
{
    arg->has_default = true;
    skip_space(r);
    if (take(r, "None")) return arg->def = RUSH_NONE, 0;
    if (take(r, "True")) return arg->def = rush_v_bool(true), 0;
    if (take(r, "False")) return arg->def = rush_v_bool(false), 0;
    if (take(r, "Mean")) return arg->def = rush_v_int(1), 0; /* at::Reduction */
    if (take(r, "Sum")) return arg->def = rush_v_int(2), 0;
    if (take(r, "long")) return arg->def = rush_v_dtype(RUSH_I64), 0;
    for (size_t k = 0; k < RUSH_COUNT(format_names); ++k)
        if (take(r, format_names[k].name)) {
            arg->def = (rush_value){.kind = RUSH_V_MEMORY_FORMAT, .i = format_names[k].format};
            return 0;
        }
    if (*r->at == '"' || *r->at == '\'') {
        char quote = *r->at++;
        const char *begin = r->at;
        while (*r->at && *r->at != quote) ++r->at;
        char *text = copy_text(begin, r->at - begin);
        if (!text) return -1;
        if (*r->at) ++r->at;
        arg->def = rush_v_string(text);
        return 0;
    }
    if (take(r, "[")) {
        int64_t ints[16];
        size_t n = 0;
        while (!take(r, "]")) {
            rush_value v;
            if (n == RUSH_COUNT(ints)) return wrong(r, "a shorter list");
            if (take(r, "True")) v = rush_v_int(1);
            else if (take(r, "False")) v = rush_v_int(0);
            else if (take_number(r, &v)) return -1;
            ints[n++] = v.i;
            take(r, ",");
        }
        int64_t *kept = rush_malloc(sizeof ints[0] * RUSH_MAX(n, 1));
        if (!kept) return -1;
        memcpy(kept, ints, sizeof ints[0] * n);
        arg->def = rush_v_ints(kept, n);
        return 0;
    }
    if (take_number(r, &arg->def)) return -1;
    if (arg->list && arg->type == RUSH_A_INT) { /* int[2] stride=1: one number stands for all */
        size_t n = RUSH_MAX(arg->fixed, 1);
        int64_t *kept = rush_malloc(sizeof *kept * n);
        if (!kept) return -1;
        for (size_t k = 0; k < n; ++k) kept[k] = arg->def.i;
        arg->def = rush_v_ints(kept, n);
    } else if (arg->type == RUSH_A_FLOAT && arg->def.kind == RUSH_V_INT) {
        arg->def = rush_v_float((double)arg->def.i);
    }
    return 0;
}

static void end_arg(rush_arg *arg)
{
    rush_free((char *)arg->name);
    if (arg->def.kind == RUSH_V_STRING) rush_free((char *)arg->def.s);
    else if (arg->def.kind == RUSH_V_INTS) rush_free((int64_t *)arg->def.ints);
}

static bool is_among(const char *name, const rush_arg *args, int n)
{
    for (int i = 0; i < n; ++i)
        if (!strcmp(args[i].name, name)) return true;
    return false;
}

/* Up to 63 arguments into args, which stay the caller's to end; their number, or -1 minus the number. */
static int take_each_arg(reader *r, rush_arg *args)
{
    int n = 0;
    bool kwonly = false;
    if (!take(r, "(")) return wrong(r, "(");
    while (!take(r, ")")) {
        if (take(r, "*")) {
            kwonly = true;
            take(r, ",");
            continue;
        }
        rush_arg *arg = &args[n];
        arg->kwonly = kwonly;
        if (n == 63) wrong(r, "fewer arguments");
        else if (take_type(r, arg)) ;
        else if (!(arg->name = take_name(r, false))) wrong(r, "an argument's name");
        else if (is_among(arg->name, args, n)) rush_fail(RUSH_VALUE_ERROR, "schema '%s': two arguments are called '%s'", r->op->schema, arg->name);
        else if (take(r, "=") && take_default(r, arg)) ;
        else if (!take(r, ",") && *r->at != ')') wrong(r, ", or )");
        ++n;
        if (rush_failed()) return -1 - n;
        arg->kinds = rush_arg_kinds(r->op, arg);
        if (arg->type == RUSH_A_TENSOR) r->op->tensor_args |= (uint64_t)1 << (n - 1);
    }
    return n;
}

static int take_args(reader *r)
{
    rush_arg args[64] = {0};
    int n = take_each_arg(r, args), given = n < 0 ? -1 - n : n;
    r->op->args = n < 0 ? NULL : rush_malloc(sizeof *args * RUSH_MAX(n, 1));
    if (!r->op->args) {
        for (int i = 0; i < given; ++i) end_arg(&args[i]);
        return -1;
    }
    r->op->nargs = (uint8_t)n;
    memcpy(r->op->args, args, sizeof *args * n);
    return 0;
}

static int take_results(reader *r)
{
    if (!take(r, "->")) return wrong(r, "->");
    bool many = take(r, "(");
    int n = 0;
    if (many && take(r, ")")) return 0;
    do {
        rush_arg result = {0};
        if (n == RUSH_MAXOUT) return wrong(r, "fewer results");
        if (take_type(r, &result)) return -1;
        if (result.list) r->op->out_list |= (uint8_t)(1 << n);
        r->op->out_types[n] = result.type;
        char *name = take_name(r, false);
        r->op->out_names[n] = name;
        r->op->nout = (uint8_t)++n;
    } while (many && take(r, ","));
    return many && !take(r, ")") ? wrong(r, ")") : 0;
}

static int read_whole(rush_op *op)
{
    reader r = {op->schema, op};
    op->name = take_name(&r, true);
    if (!op->name) return wrong(&r, "a name");
    const char *dot = strchr(op->name, '.');
    op->base = dot ? copy_text(op->name, dot - op->name) : op->name;
    if (!op->base || take_args(&r) || take_results(&r)) return -1;
    skip_space(&r);
    return *r.at ? wrong(&r, "the end") : 0;
}

int rush_schema_read(rush_op *op)
{
    if (!read_whole(op) && !rush_failed()) return 0;
    rush_schema_forget(op);
    return -1;
}

void rush_schema_forget(rush_op *op)
{
    for (int i = 0; i < op->nargs; ++i) end_arg(&op->args[i]);
    for (int i = 0; i < RUSH_MAXOUT; ++i) rush_free((char *)op->out_names[i]);
    rush_free(op->args);
    rush_free(op->saves_when);
    if (op->base != op->name) rush_free((char *)op->base);
    rush_free((char *)op->name);
    op->args = NULL;
    op->saves_when = NULL;
    op->name = op->base = NULL;
    op->nargs = op->nout = op->out_list = 0;
    op->saves_in = op->tensor_args = 0;
    op->saves_out = 0;
    memset(op->out_names, 0, sizeof op->out_names);
}

int rush_op_arg(const rush_op *op, const char *name)
{
    for (int i = 0; i < op->nargs; ++i)
        if (!strcmp(op->args[i].name, name)) return i;
    return -1;
}
