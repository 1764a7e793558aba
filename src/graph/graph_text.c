/* graph_text.c - a graph as text: a line for each call, values with the shapes that they were captured with. */
#include "graph/graph.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>

typedef struct text {
    char *p;
    size_t used, room;
    bool failed;
} text;

static __attribute__((format(printf, 2, 3))) void say(text *t, const char *format, ...)
{
    va_list args;
    for (;;) {
        va_start(args, format);
        int n = t->failed ? -1 : rush_vsnprintf(t->p + t->used, t->room - t->used, format, args);
        va_end(args);
        if (n < 0) return;
        if (t->used + (size_t)n < t->room) {
            t->used += (size_t)n;
            return;
        }
        size_t room = (t->room + (size_t)n) * 2;
        char *more = rush_realloc(t->p, room);
        if (!more) t->failed = true;
        else t->p = more, t->room = room;
    }
}

static void number(text *t, rush_value v)
{
    switch (v.kind) {
    case RUSH_V_NONE: say(t, "None"); break;
    case RUSH_V_INT: say(t, "%lld", (long long)v.i); break;
    case RUSH_V_BOOL: say(t, "%s", v.i ? "True" : "False"); break;
    case RUSH_V_FLOAT: say(t, "%.17g", v.f); break;
    case RUSH_V_COMPLEX: say(t, "%.17g%+.17gj", v.c[0], v.c[1]); break;
    case RUSH_V_STRING: say(t, "'%s'", v.s); break;
    case RUSH_V_DTYPE: say(t, "%s", rush_dtype_name((rush_dtype)v.i)); break;
    case RUSH_V_DEVICE: say(t, "device"); break;
    case RUSH_V_LAYOUT: say(t, "strided"); break;
    case RUSH_V_MEMORY_FORMAT: say(t, "memory_format(%lld)", (long long)v.i); break;
    case RUSH_V_INTS:
    case RUSH_V_FLOATS:
        say(t, "[");
        for (uint32_t i = 0; i < v.n; ++i) {
            say(t, "%s", i ? ", " : "");
            if (v.kind == RUSH_V_INTS) say(t, "%lld", (long long)v.ints[i]);
            else say(t, "%.17g", v.floats[i]);
        }
        say(t, "]");
        break;
    default: say(t, "...");
    }
}

static void operand(text *t, const rush_graph *g, const rush_operand *o)
{
    if (o->kind == RUSH_OPERAND_VALUE) say(t, "%s", g->value[o->value].name);
    if (o->kind == RUSH_OPERAND_CONSTANT) number(t, o->constant);
    if (o->kind != RUSH_OPERAND_LIST) return;
    say(t, "[");
    for (uint32_t i = 0; i < o->n; ++i) {
        say(t, "%s", i ? ", " : "");
        operand(t, g, &o->item[i]);
    }
    say(t, "]");
}

static void type_of(text *t, const rush_graph *g, const rush_graph_value *v)
{
    const rush_graph *root = rush_graph_root(g);
    if (v->type != RUSH_A_TENSOR || v->ndim < 0) {
        say(t, v->type == RUSH_A_INT ? "int" : v->type == RUSH_A_BOOL ? "bool" : v->type == RUSH_A_FLOAT ? "float" : "Tensor");
        return;
    }
    say(t, "%s[", rush_dtype_name((rush_dtype)v->dtype));
    for (int d = 0; d < v->ndim; ++d) {
        say(t, "%s", d ? ", " : "");
        if (v->size[d].symbol >= 0) say(t, "%s", root->symbol[v->size[d].symbol].name);
        else if (v->size[d].n >= 0) say(t, "%lld", (long long)v->size[d].n);
        else say(t, "?");
    }
    say(t, "]");
}

/* Arguments that are as the schema has them are left out. */
static bool is_default(const rush_graph_node *node, uint32_t i)
{
    if (!node->op || node->form > RUSH_NODE_INPLACE || node->in[i].kind != RUSH_OPERAND_CONSTANT) return false;
    const rush_arg *a = &node->op->args[i];
    return a->has_default && !memcmp(&a->def, &node->in[i].constant, sizeof a->def);
}

static void graph(text *t, const rush_graph *g, int depth);

static void node_line(text *t, const rush_graph *g, const rush_graph_node *node, int depth)
{
    bool any = false, skipped = false;
    say(t, "%*s", 4 * depth, "");
    for (uint32_t i = 0; i < node->nout; ++i) say(t, "%s%s", i ? ", " : "", node->out[i] == RUSH_NO_VALUE ? "_" : g->value[node->out[i]].name);
    if (node->nout == 1 && node->out[0] != RUSH_NO_VALUE) {
        say(t, ": ");
        type_of(t, g, &g->value[node->out[0]]);
    }
    say(t, "%s%s(", node->nout ? " = " : "", strncmp(node->target, "torch.ops.", 10) ? node->target : node->target + 10);
    for (uint32_t i = 0; i < node->nin; ++i) {
        if (is_default(node, i)) {
            skipped = true;
            continue;
        }
        say(t, "%s", any ? ", " : "");
        if (node->op && node->form <= RUSH_NODE_INPLACE && (skipped || node->op->args[i].kwonly)) say(t, "%s=", node->op->args[i].name);
        operand(t, g, &node->in[i]);
        any = true;
    }
    say(t, ")\n");
    for (int k = 0; k < 2; ++k) {
        if (!node->block[k]) continue;
        say(t, "%*s%s\n", 4 * depth, "", node->form == RUSH_NODE_COND ? k ? "  else" : "  then" : node->form == RUSH_NODE_WHILE && !k ? "  while" : "  block");
        graph(t, node->block[k], depth + 1);
    }
}

static void graph(text *t, const rush_graph *g, int depth)
{
    say(t, "%*sgraph(", 4 * depth, "");
    for (uint32_t i = 0; i < g->nin; ++i) {
        say(t, "%s", i ? ", " : "");
        if (g->in[i] == RUSH_NO_VALUE) {
            say(t, "_");
            continue;
        }
        say(t, "%s: ", g->value[g->in[i]].name);
        type_of(t, g, &g->value[g->in[i]]);
    }
    say(t, "):\n");
    for (uint32_t k = 0; k < g->nnodes; ++k) node_line(t, g, &g->node[k], depth + 1);
    say(t, "%*sreturn ", 4 * (depth + 1), "");
    for (uint32_t i = 0; i < g->nout; ++i) {
        say(t, "%s", i ? ", " : "");
        operand(t, g, &g->out[i]);
    }
    say(t, "\n");
}

char *rush_graph_text(const rush_graph *g)
{
    text t = {.p = rush_malloc(1024), .room = 1024};
    if (!t.p) return NULL;
    graph(&t, g, 0);
    char *copy = t.failed ? NULL : rush_scope_alloc(t.used + 1);
    if (copy) memcpy(copy, t.p, t.used + 1);
    rush_free(t.p);
    return copy;
}
