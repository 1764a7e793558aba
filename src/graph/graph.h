/* graph.h - a program as data: values that are named once, nodes that call operations, blocks inside of nodes.
 *
 * A reader makes a graph (pt2.c), graph_text.c prints it, graph_run.c runs it. Nodes stand in the order in which they run. All
 * that a graph points to lies in its arena and goes with it; operations are the registry's.
 */
#ifndef RUSH_GRAPH_ROOM_H
#define RUSH_GRAPH_ROOM_H

#include "base/arena.h"
#include "op/op.h"

typedef struct rush_graph rush_graph;

#define RUSH_NO_VALUE UINT32_MAX

/* One argument: a constant, a value of the graph, or a list of such. */
typedef enum rush_operand_kind { RUSH_OPERAND_CONSTANT, RUSH_OPERAND_VALUE, RUSH_OPERAND_LIST } rush_operand_kind;

typedef struct rush_operand {
    uint8_t kind; /* a rush_operand_kind                 */
    uint32_t n;   /* of a list                           */
    union {
        rush_value constant;
        uint32_t value; /* its number in the graph       */
        struct rush_operand *item;
    };
} rush_operand;

/* A size that a tensor was captured with: a number, a symbol that takes its number when the program runs, or what follows
 * from others and is not looked at. */
typedef struct rush_graph_size {
    int64_t n;      /* -1: not a number */
    int32_t symbol; /* -1: none         */
} rush_graph_size;

typedef struct rush_graph_value {
    const char *name;
    uint8_t type; /* rush_arg_type: a tensor, or a number that is computed from sizes */
    int8_t ndim;  /* of a tensor; -1: not known                                       */
    uint8_t dtype;
    rush_graph_size *size;
} rush_graph_value;

/* Arithmetic on sizes, which is no tensor operation: sizes.c. Results other than 0 are errors. */
typedef int (*rush_graph_arithmetic)(int n, const rush_value *in, rush_value *out);

/* What stands after COND has blocks: one that is run with or without gradients; one that is run as long as another says so; one for each
 * slice of tensors, with what is carried from one to the next (SCAN) or without (MAP). */
typedef enum rush_graph_form { RUSH_NODE_CALL, RUSH_NODE_INPLACE, RUSH_NODE_SIZES, RUSH_NODE_COND, RUSH_NODE_BLOCK, RUSH_NODE_WHILE, RUSH_NODE_SCAN, RUSH_NODE_MAP } rush_graph_form;

typedef struct rush_graph_node {
    uint8_t form;              /* a rush_graph_form                                                         */
    bool list;                 /* the results are the items of one list                                     */
    bool grad;                 /* RUSH_NODE_BLOCK: are gradients recorded inside?                           */
    bool reuses;               /* the result may take the place of the first argument, which ends here      */
    const char *target;        /* as the program calls it                                                   */
    const char *where;         /* the line of source that it came from, or NULL                             */
    const rush_op *op;         /* of calls; its arguments are in[0 .. op->nargs)                            */
    rush_graph_arithmetic run; /* of sizes                                                                  */
    uint32_t nin, nout, nends;
    uint32_t ncarried, nsliced; /* of WHILE, SCAN and MAP: the first arguments, and those behind them; the others are the same each time */
    rush_operand *in;
    uint32_t *out;             /* RUSH_NO_VALUE where nobody asks for the result                            */
    uint32_t *ends;            /* values that nothing needs after this node                                 */
    rush_graph *block[2];      /* of cond: taken when true, when false; of while: the condition, the body; else the first */
} rush_graph_node;

typedef struct rush_graph_symbol {
    const char *name;
    int64_t least, most;
} rush_graph_symbol;

struct rush_graph {
    rush_graph *outer;     /* the graph that this is a block of: it has the arena and the symbols */
    rush_arena arena;
    rush_graph_value *value;
    rush_graph_node *node;
    rush_graph_symbol *symbol;
    uint32_t nvalues, nnodes, nsymbols, nin, nout;
    uint32_t *in;          /* values that are given                                               */
    rush_operand *out;
};

static inline rush_graph *rush_graph_root(const rush_graph *g)
{
    while (g->outer) g = g->outer;
    return (rush_graph *)g;
}

/* ---- making one: graph.c ---- */
rush_graph *rush_graph_new(rush_graph *outer);
void rush_graph_free(rush_graph *);                     /* with its blocks; NULL is fine               */
void *rush_graph_alloc(rush_graph *, size_t bytes);     /* zeroed; NULL and an error                   */
const char *rush_graph_copy(rush_graph *, const char *); /* of a text; NULL passes through             */
int32_t rush_graph_symbol_named(rush_graph *, const char *name, size_t n); /* its number, made when it is new; -1 and an error */
/* When all nodes are there: are values made before they are used, once? Fills in where they end. */
int rush_graph_finish(rush_graph *);

/* ---- looking at it ---- */
rush_graph_arithmetic rush_graph_arithmetic_of(const char *target); /* "_operator.add"; NULL: no such */
char *rush_graph_text(const rush_graph *);              /* reads like code; in the scope              */

/* ---- running it: graph_run.c ---- */
/* in[g->nin] to out[g->nout]; results are parked. */
int rush_graph_run(const rush_graph *, const rush_value *in, rush_value *out);
/* The node that the thread is running, or NULL: profilers ask it where a call came from. */
extern _Thread_local const rush_graph_node *rush_graph_running;
/* One node; v has the values by number, its results are held there. */
int rush_graph_run_node(const rush_graph *, uint32_t node, rush_value *v);

#endif
