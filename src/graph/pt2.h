/* pt2.h - reading programs that torch.export.save wrote: pt2_graph.c reads graphs, pt2.c what stands around them. */
#ifndef RUSH_GRAPH_PT2_H
#define RUSH_GRAPH_PT2_H

#include "base/json.h"
#include "op/missing.h"
#include "graph/program.h"

int rush_pt2_dtype(const rush_json *code);        /* a rush_dtype, or -1: none */
int64_t rush_pt2_int(const rush_json *number);    /* the nearest that there is */
bool rush_pt2_size(const rush_json *size, int64_t *n); /* {"as_int": 4}: false if it is anything else */
/* Values, nodes and results of one graph; its blocks go into graphs below it. */
int rush_pt2_graph(rush_graph *, const rush_json *json, rush_missing *);

#endif
