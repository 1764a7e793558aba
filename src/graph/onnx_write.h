/* onnx_write.h - writing graphs as ONNX: onnx_write.c what stands around, onnx_put.c nodes and constants, onnx_write_*.c the operations.
 *
 * Each operation is written by a function, found by its name in a table. It puts nodes and gives the names of their results; a name stands for a
 * value from then on, so that nothing is copied to be renamed.
 */
#ifndef RUSH_GRAPH_ONNX_WRITE_H
#define RUSH_GRAPH_ONNX_WRITE_H

#include "op/missing.h"
#include "graph/program.h"
#include "io/file.h"
#include "io/summary_file.h"

#include <rushlight/program.h>

typedef struct rush_onnx_writer {
    const rush_graph *g;         /* that is written now: the program's or a block of it */
    const char **name;           /* of g's values                                       */
    rush_bytes *nodes;           /* of the graph that is written now                    */
    rush_bytes *constants;       /* of the whole                                        */
    const char **symbol;         /* names of sizes, by number of the symbol; NULL: not asked for yet */
    rush_missing *missing;
    const rush_graph_node *node; /* that is written now                                 */
    int64_t opset;
    unsigned *fresh;             /* names that were made                                */
} rush_onnx_writer;

typedef rush_onnx_writer W;
/* 0; 1: cannot be written (told at the end); -1 and an error. */
typedef int (*rush_onnx_rule)(W *, const rush_graph_node *);
typedef struct rush_onnx_row {
    const char *op;   /* the registry's name, all overloads or one: "add", "max.dim" */
    rush_onnx_rule rule;
    const char *word; /* for the rule: what ONNX calls it                            */
} rush_onnx_row;
extern const rush_onnx_row rush_onnx_math[], rush_onnx_shape[], rush_onnx_nn[]; /* ended by an empty row */
const rush_onnx_row *rush_onnx_row_of(const rush_graph_node *);

/* ---- nodes: onnx_put.c. Names are in the scope. An input that is left out is ""; NULL is one that cannot be written, and makes the result NULL (or 1) ---- */
const char *rush_onnx_put(W *, const char *type, rush_bytes *attributes, int n, const char *const *in); /* its result; takes the attributes */
int rush_onnx_put_many(W *, const char *type, rush_bytes *attributes, int n, const char *const *in, int nout, const char **out);
#define PUT(type, attributes, ...) rush_onnx_put(w, type, attributes, (int)RUSH_COUNT(((const char *[]){__VA_ARGS__})), (const char *[]){__VA_ARGS__})
/* Attributes: chained, so that they can stand in a call. `a` NULL begins. */
rush_bytes *rush_onnx_i(rush_bytes *a, const char *name, int64_t);
rush_bytes *rush_onnx_f(rush_bytes *a, const char *name, double);
rush_bytes *rush_onnx_s(rush_bytes *a, const char *name, const char *);
rush_bytes *rush_onnx_ints(rush_bytes *a, const char *name, int64_t n, const int64_t *);
const char *rush_onnx_fresh(W *);

/* ---- constants ---- */
const char *rush_onnx_number(W *, rush_value, int dtype); /* of no dimension */
const char *rush_onnx_list(W *, int64_t n, const int64_t *); /* of one, int64 */
const char *rush_onnx_filled(W *, int64_t n, double, int dtype);
int rush_onnx_constant(W *, const char *name, const rush_tensor *);

/* ---- arguments of the node: by number, as its schema has them ---- */
const rush_graph_value *rush_onnx_type(const W *, const rush_operand *); /* NULL: no tensor */
const char *rush_onnx_tensor_of(W *, const rush_operand *, int dtype);   /* cast to it; dtype -1: as it is; NULL: none */
const char *rush_onnx_size_of(W *, const rush_operand *);                /* a number or a size, int64 of one dimension of size 1 */
const char *rush_onnx_sizes_of(W *, const rush_operand *);               /* a list of such */
bool rush_onnx_is(const rush_operand *, const char *word);               /* a constant text? */
bool rush_onnx_none(const rush_operand *);
bool rush_onnx_int(const rush_operand *, int64_t *);                     /* a constant integer */
bool rush_onnx_float(const rush_operand *, double *);
int rush_onnx_ints_of(const rush_operand *, int most, int64_t *);        /* a constant list: how many; -1: is none. One number is a list of one */
/* A shape to reshape or expand to: that of a value, as int64. `like`: sizes that are this value's are written as 1. NULL: not known. */
const char *rush_onnx_shape_of(W *, const rush_graph_value *, const rush_graph_value *like, bool minus_one);
const char *rush_onnx_cast(W *, const char *, int dtype);
const char *rush_onnx_word(const rush_graph_node *); /* its row's */
int rush_onnx_give(W *, const rush_graph_node *, int k, const char *name); /* result k is this; -1 if the name is NULL */

#define IN(k) (&node->in[k])
#define TYPE(k) rush_onnx_type(w, IN(k))
#define TENSOR(k) rush_onnx_tensor_of(w, IN(k), -1)
#define RESULT(k) ((const rush_graph_value *)&w->g->value[node->out[k]])
#define GIVE(name) return rush_onnx_give(w, node, 0, name)

#endif
