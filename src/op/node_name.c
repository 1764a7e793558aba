/* node_name.c - what graphs call an operation: "AddBackward0", as PyTorch prints it in grad_fn=<...>.
 *
 * The rule is the base name in camel case, a letter after a digit raised, and the overload's number in the order of
 * registration. Where PyTorch's is another (ATen numbers the overloads otherwise; the operation is built of other ones, whose
 * last node is the one that is seen) the record says so: `.node`.
 */
#include "op/op.h"
#include "base/text.h"
#include <ctype.h>
#include <stdio.h>

const char *rush_node_name(const rush_op *op)
{
    size_t n = 0;
    bool up = true;
    if (op->node) return op->node;
    char *text = rush_words();
    for (const char *c = op->base; *c && n < RUSH_WORDS - 16; ++c) {
        if (*c != '_') text[n++] = up ? rush_upper(*c) : *c;
        up = *c == '_' || isdigit((unsigned char)*c);
    }
    int overload = 0;
    for (const rush_op *other = rush_op_find(op->base); other && other->index != op->index; other = other->next) overload += other->grad != NULL;
    snprintf(text + n, RUSH_WORDS - n, "Backward%d", overload);
    return text;
}
