/* graph_picture.c - a program's graph as a picture: in the language of Graphviz, or drawn as SVG by itself.
 *
 * A call is a box, an arrow a tensor that it reads. Parameters are no boxes. In the SVG a box stands one row below the lowest of
 * those that it reads from; the boxes of a row stand side by side. Blocks inside of calls are not drawn.
 */
#include "base/buried.h"
#include "graph/program.h"
#include "script/script.h"
#include <rushlight/program.h>

#include <stdio.h>
#include <stdlib.h>

enum { WIDE = 170, HIGH = 36, GAP = 30, ACROSS = 190 };

typedef struct picture {
    const rush_graph *g;
    const rush_program *p;
    uint32_t *maker;   /* value -> box; RUSH_NO_VALUE: none                         */
    uint32_t *row, *column;
    uint32_t nboxes, nrows, ncolumns; /* boxes: the inputs that are given, the nodes, the end */
    FILE *to;
    bool svg;
} picture;

static void escaped(const picture *c, const char *s)
{
    for (; *s; ++s) {
        const char *word = NULL;
        if (c->svg) word = *s == '<' ? "&lt;" : *s == '>' ? "&gt;" : *s == '&' ? "&amp;" : *s == '"' ? "&quot;" : NULL;
        else if (*s == '"' || *s == '\\') fputc('\\', c->to);
        if (word) fputs(word, c->to);
        else fputc((unsigned char)*s < ' ' ? ' ' : *s, c->to);
    }
}

static void label(const picture *c, uint32_t box)
{
    const rush_graph *g = c->g;
    const rush_graph_node *node = box >= g->nin && box < g->nin + g->nnodes ? &g->node[box - g->nin] : NULL;
    uint32_t value = box < g->nin ? g->in[box] : node && node->nout ? node->out[0] : RUSH_NO_VALUE;
    const char *name = box < g->nin ? value == RUSH_NO_VALUE ? "_" : g->value[value].name : node ? node->target : "results";
    if (!strncmp(name, "torch.ops.", 10)) name += 10;
    if (!strncmp(name, "aten.", 5)) name += 5;
    escaped(c, name);
    if (value == RUSH_NO_VALUE || g->value[value].type != RUSH_A_TENSOR || g->value[value].ndim < 0) return;
    fputs(c->svg ? "</text><text dy=\"26\" class=\"s\">" : "\\n", c->to);
    const rush_graph_value *v = &g->value[value];
    for (int d = 0; d < v->ndim; ++d) {
        const rush_graph_size *s = &v->size[d];
        if (d) fputs(" x ", c->to);
        if (s->symbol >= 0) escaped(c, rush_graph_root(g)->symbol[s->symbol].name);
        else if (s->n >= 0) fprintf(c->to, "%lld", (long long)s->n);
        else fputc('?', c->to);
    }
    if (!v->ndim) fputs("one number", c->to);
}

static bool shown(const picture *c, uint32_t box) { return box >= c->g->nin || (!c->p->in[box].part && !c->p->in[box].unused); }

typedef void (*on_arrow)(picture *, uint32_t from, uint32_t to);

static void arrows_of(picture *c, const rush_operand *o, uint32_t to, on_arrow each)
{
    if (o->kind == RUSH_OPERAND_VALUE && c->maker[o->value] != RUSH_NO_VALUE && shown(c, c->maker[o->value])) each(c, c->maker[o->value], to);
    for (uint32_t i = 0; o->kind == RUSH_OPERAND_LIST && i < o->n; ++i) arrows_of(c, &o->item[i], to, each);
}

static void arrows(picture *c, on_arrow each)
{
    const rush_graph *g = c->g;
    for (uint32_t k = 0; k < g->nnodes; ++k)
        for (uint32_t i = 0; i < g->node[k].nin; ++i) arrows_of(c, &g->node[k].in[i], g->nin + k, each);
    for (uint32_t i = 0; i < g->nout; ++i) arrows_of(c, &g->out[i], c->nboxes - 1, each);
}

static void lower(picture *c, uint32_t from, uint32_t to) { c->row[to] = RUSH_MAX(c->row[to], c->row[from] + 1); }

static int prepare(picture *c)
{
    const rush_graph *g = c->g;
    c->nboxes = g->nin + g->nnodes + 1;
    c->maker = rush_scope_alloc(sizeof *c->maker * (g->nvalues + 1));
    c->row = rush_scope_alloc(sizeof *c->row * 2 * c->nboxes);
    if (!c->maker || !c->row) return -1;
    c->column = c->row + c->nboxes;
    memset(c->row, 0, sizeof *c->row * 2 * c->nboxes);
    for (uint32_t v = 0; v < g->nvalues; ++v) c->maker[v] = RUSH_NO_VALUE;
    for (uint32_t i = 0; i < g->nin; ++i)
        if (g->in[i] != RUSH_NO_VALUE) c->maker[g->in[i]] = i;
    for (uint32_t k = 0; k < g->nnodes; ++k)
        for (uint32_t i = 0; i < g->node[k].nout; ++i)
            if (g->node[k].out[i] != RUSH_NO_VALUE) c->maker[g->node[k].out[i]] = g->nin + k;
    arrows(c, lower); /* nodes stand in the order in which they run */
    for (uint32_t box = 0; box < c->nboxes; ++box) c->nrows = RUSH_MAX(c->nrows, c->row[box] + 1);
    uint32_t *taken = rush_scope_alloc(sizeof *taken * (c->nrows + 1));
    if (!taken) return -1;
    memset(taken, 0, sizeof *taken * (c->nrows + 1));
    for (uint32_t box = 0; box < c->nboxes; ++box) {
        if (!shown(c, box)) continue;
        c->column[box] = taken[c->row[box]]++;
        c->ncolumns = RUSH_MAX(c->ncolumns, c->column[box] + 1);
    }
    return 0;
}

static void dot_arrow(picture *c, uint32_t from, uint32_t to) { fprintf(c->to, "  b%u -> b%u;\n", (unsigned)from, (unsigned)to); }

static void put_dot(picture *c)
{
    fputs("digraph program {\n  node [shape=box, style=rounded, fontname=\"sans-serif\"];\n", c->to);
    for (uint32_t box = 0; box < c->nboxes; ++box) {
        if (!shown(c, box)) continue;
        fprintf(c->to, "  b%u [label=\"", (unsigned)box);
        label(c, box);
        fputs("\"];\n", c->to);
    }
    arrows(c, dot_arrow);
    fputs("}\n", c->to);
}

static long x_of(const picture *c, uint32_t box) { return GAP + (long)c->column[box] * ACROSS; }
static long y_of(const picture *c, uint32_t box) { return GAP + (long)c->row[box] * (HIGH + GAP); }

static void svg_arrow(picture *c, uint32_t from, uint32_t to)
{
    long x0 = x_of(c, from) + WIDE / 2, y0 = y_of(c, from) + HIGH, x1 = x_of(c, to) + WIDE / 2, y1 = y_of(c, to);
    long side = c->row[to] > c->row[from] + 1 && x0 == x1 ? WIDE / 2 + GAP / 2 : 0; /* around the boxes between */
    fprintf(c->to, "<path d=\"M%ld %ld C%ld %ld %ld %ld %ld %ld\"/>\n", x0, y0, x0 + side, y0 + GAP / 2 + side, x1 + side, y1 - GAP / 2 - side, x1, y1);
}

static void put_svg(picture *c)
{
    long wide = GAP + (long)c->ncolumns * ACROSS + WIDE / 2, high = GAP + (long)c->nrows * (HIGH + GAP);
    fprintf(c->to, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%ld\" height=\"%ld\" viewBox=\"0 0 %ld %ld\">\n"
            "<style>rect{fill:#f4f1e8;stroke:#555}text{font:12px sans-serif;text-anchor:middle}.s{font-size:10px;fill:#555}path{fill:none;stroke:#888;marker-end:url(#a)}</style>\n"
            "<defs><marker id=\"a\" viewBox=\"0 0 6 6\" refX=\"6\" refY=\"3\" markerWidth=\"6\" markerHeight=\"6\" orient=\"auto\"><path d=\"M0 0L6 3L0 6z\" style=\"fill:#888;stroke:none;marker-end:none\"/></marker></defs>\n", wide, high, wide, high);
    arrows(c, svg_arrow);
    for (uint32_t box = 0; box < c->nboxes; ++box) {
        if (!shown(c, box)) continue;
        fprintf(c->to, "<g transform=\"translate(%ld %ld)\"><rect width=\"%d\" height=\"%d\" rx=\"6\"/><g transform=\"translate(%d 4)\"><text dy=\"12\">", x_of(c, box), y_of(c, box), WIDE, HIGH, WIDE / 2);
        label(c, box);
        fputs("</text></g></g>\n", c->to);
    }
    fputs("</svg>\n", c->to);
}

const char *rush_program_picture(const rush_module *m, bool svg)
{
    const rush_program *p = rush_program_of(m);
    if (!p) return NULL;
    picture c = {.g = p->graph, .p = p, .svg = svg};
    char *made = NULL, *text = NULL;
    size_t n = 0;
    if (prepare(&c)) return NULL;
    c.to = open_memstream(&made, &n);
    RUSH_CHECK_NULL(c.to, RUSH_MEMORY_ERROR, "no memory for the text");
    svg ? put_svg(&c) : put_dot(&c);
    bool whole = !fclose(c.to);
    if (whole && (text = rush_scope_alloc(n + 1))) memcpy(text, made, n + 1);
    free(made);
    RUSH_CHECK_NULL(whole, RUSH_MEMORY_ERROR, "no memory for the text");
    return text;
}
