/* pass.h - changes to a program's graph that leave its results as they are. A pass is one file, and one line in pass.c. */
#ifndef RUSH_GRAPH_PASS_H
#define RUSH_GRAPH_PASS_H

#include "graph/program.h"

/* For every program; for those whose tensors are constants, since nothing is trained any more; for those of them that our kernels run. */
enum rush_pass_when { RUSH_PASS_ALWAYS, RUSH_PASS_FROZEN, RUSH_PASS_RUN };

typedef struct rush_graph_pass {
    const char *name;
    enum rush_pass_when when;
    int (*run)(rush_module *, rush_program *); /* how many changes; -1 and an error */
} rush_graph_pass;

extern const rush_graph_pass rush_pass_functional, rush_pass_common, rush_pass_constants, rush_pass_batch_norm, rush_pass_layout, rush_pass_dead;

/* Those of the list that are up to `most`. 0, or -1 and an error. */
int rush_passes_run(rush_module *, rush_program *, enum rush_pass_when most);

/* ---- for passes ---- */
uint32_t *rush_graph_uses(const rush_graph *);  /* per value: operands that are it, results of the graph among them; in the scope */
void rush_graph_replace(rush_graph *, uint32_t first, uint32_t value, uint32_t by); /* in all operands from node `first` on */
bool rush_operand_same(const rush_operand *, const rush_operand *);
/* Does the node nothing but make its results? */
bool rush_node_is_pure(const rush_graph_node *);
bool rush_graph_writes(const rush_graph *);     /* does a node change a tensor? Then calls cannot be moved or left out by their operands alone */
uint32_t rush_graph_add(rush_graph *, const char *name, int dtype, int ndim, const rush_graph_size *); /* a tensor; RUSH_NO_VALUE and an error */
/* A call before node `at`, whose arguments and results are to be filled in; until the next one. NULL and an error. */
rush_graph_node *rush_graph_insert(rush_graph *, uint32_t at, const rush_op *, const char *target, uint32_t nout);
void rush_graph_drop_nodes(rush_graph *, const bool *drop);
/* A tensor that the program has from now on; its value. RUSH_NO_VALUE and an error. */
uint32_t rush_program_constant(rush_module *, rush_program *, const char *name, rush_tensor *);
/* The module's tensor that a value is; NULL: it is not one, or the program changes it. */
rush_tensor *rush_program_tensor(const rush_program *, uint32_t value);

#endif
