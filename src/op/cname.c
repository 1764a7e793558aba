/* cname.c - what operations and their arguments are called in C.
 *
 * An operation's name is rush_ and its ATen name, for further overloads with theirs behind it: rush_sum, rush_sum_dim_intlist.
 * Those whose name begins with _ or has a namespace have no typed function, nor those that the header has as something else.
 */
#include "op/op.h"
#include "base/text.h"
#include <stdio.h>

static const char *const reserved[] = {"grad", "size", "stride", "item", "numel", "data", "sizes", "strides", "ndim", "error", "keep", "drop",
                                       "park", "apply", "call", "out", "log", "promote", "is_contiguous", "result_type"};

static bool plain_name(const rush_op *op)
{
    if (op->name[0] == '_' || op->flags & RUSH_HIDDEN) return false;
    if (strchr(op->base, ':')) return false; /* of a namespace: not ours */
    for (size_t k = 0; k < RUSH_COUNT(reserved); ++k)
        if (!strcmp(op->base, reserved[k])) return false;
    return true;
}

/* The overload that has the plain name: where()'s of three tensors, else the one without a name, else the tensors' one, else the first. */
static const rush_op *main_overload(const rush_op *op)
{
    static const char *const endings[] = {".self", "", ".Tensor"};
    const rush_op *first = rush_op_find(op->base);
    for (size_t i = 0; i < RUSH_COUNT(endings); ++i)
        for (const rush_op *o = first; o; o = o->next)
            if (!strcmp(o->name + strlen(o->base), endings[i])) return o;
    return first;
}

const char *rush_op_c_name(const rush_op *op)
{
    if (!op || !op->name || !plain_name(op)) return NULL;
    char *text = rush_words();
    bool plain = main_overload(op) == op;
    const char *overload = op->name + strlen(op->base);
    int n = snprintf(text, RUSH_WORDS, "rush_%s", op->base);
    if (!plain && n < RUSH_WORDS) snprintf(text + n, RUSH_WORDS - n, "_%s", *overload ? overload + 1 : "default");
    const rush_op *other = rush_op_find(text + 5); /* scatter.reduce is not scatter_reduce */
    if (other && strcmp(other->base, op->base)) snprintf(text, RUSH_WORDS, "rush_%s__%s", op->base, *overload ? overload + 1 : "default");
    for (char *c = text; *c; ++c) *c = rush_lower(*c);
    if (!plain && rush_op_find(text + 5)) /* scatter.reduce beside scatter_reduce */
        snprintf(text, RUSH_WORDS, "rush_%s__%s", op->base, *overload ? overload + 1 : "default");
    return text;
}

const char *rush_arg_c_name(const rush_arg *a)
{
    static const char *const words[] = {"register", "default", "int", "float", "double", "long", "short", "signed", "unsigned", "char", "const", "out", "exact",
                                        "and", "or", "xor", "not", "new", "class", "template", "this", "operator", "delete"};
    for (size_t k = 0; k < RUSH_COUNT(words); ++k) {
        if (strcmp(a->name, words[k])) continue;
        char *text = rush_words();
        snprintf(text, RUSH_WORDS, "%s_", a->name);
        return text;
    }
    return a->name;
}
