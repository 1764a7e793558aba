/* program.h - a loaded program: a graph, and where each of its inputs and results comes from and goes to. */
#ifndef RUSH_GRAPH_PROGRAM_H
#define RUSH_GRAPH_PROGRAM_H

#include "graph/graph.h"
#include "nn/module.h"

/* An input of the graph: given by the caller, a tensor of the module, or a constant that the caller does not pass. */
typedef struct rush_program_input {
    rush_module *part; /* whose tensor it is: a module below the program; NULL: the caller gives it */
    int slot;
    bool unused;       /* a constant of the capturing call */
} rush_program_input;

/* A result of the graph: handed to the caller, or written to a tensor of the module or to an input. */
typedef struct rush_program_result {
    int32_t into;      /* the number of the graph's input that it changes; -1: the caller gets it */
} rush_program_result;

typedef struct rush_program {
    rush_graph *graph;
    rush_program_input *in;
    rush_program_result *out;
    int ninputs, nresults; /* that the caller gives and gets */
} rush_program;

/* Readers of one format each; rush_program_load() looks which it is. Parked; NULL and an error. */
rush_module *rush_pt2_load(const char *path);
rush_module *rush_onnx_load(const char *path, size_t at, size_t n); /* of the file the n bytes from `at` on; n SIZE_MAX: all of them */
rush_module *rush_archive_load(const char *path); /* a .pt2 file, or ONNX in a zip, with what is declared in extra/ */

extern const rush_module_kind rush_program_kind;
rush_program *rush_program_of(const rush_module *); /* of what has a graph; NULL and an error */
/* Gives part a tensor of that name, which becomes the input; what: a slot_kind. */
int rush_program_place(rush_program_input *, rush_module *part, const char *name, rush_tensor *, int what);
rush_module *rush_program_part(rush_module *program, const char *path, const char **last); /* "a.b.weight": the module a.b, made if need be */

#endif
