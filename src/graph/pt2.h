/* pt2.h - reading programs that torch.export.save wrote: pt2_graph.c reads graphs, pt2.c what stands around them. */
#ifndef RUSH_GRAPH_PT2_H
#define RUSH_GRAPH_PT2_H

#include "config.h"
#include "op/missing.h"
#include "graph/program.h"

#if RUSH_HAS_JSON
#include <cjson/cJSON.h>

static inline const cJSON *rush_json(const cJSON *of, const char *key) { return cJSON_GetObjectItemCaseSensitive(of, key); }
static inline const char *rush_json_text(const cJSON *of, const char *key) { return cJSON_GetStringValue(rush_json(of, key)); }

int rush_pt2_dtype(const cJSON *code);        /* a rush_dtype, or -1: none */
int64_t rush_pt2_int(const cJSON *number);    /* JSON's numbers end at 2^53; the largest stands for all beyond */
bool rush_pt2_size(const cJSON *size, int64_t *n); /* {"as_int": 4}: false if it is anything else */
/* Values, nodes and results of one graph; its blocks go into graphs below it. */
int rush_pt2_graph(rush_graph *, const cJSON *json, rush_missing *);
#endif
#endif
