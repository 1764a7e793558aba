/* engine.h - what computes the collectives of a group: an existing library, behind a table of functions. C and C++.
 *
 * gloo is C++ and need not be there, so it lies behind dlopen: gloo.cc makes a shared object of its own. It sends and
 * receives through functions of ours (rush_wire: the mesh), and so needs no connections of its own.
 */
#ifndef RUSH_DIST_ENGINE_H
#define RUSH_DIST_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rush_wire { /* each returns -1 where it failed; the error is pending in the thread */
    void *(*buffer)(void *mesh, void *data, size_t n);
    void (*drop)(void *buffer);
    int (*send)(void *buffer, int to, uint64_t slot, size_t offset, size_t n);
    int (*receive)(void *buffer, int nfrom, const int *from, uint64_t slot, size_t offset, size_t n);
    int (*wait)(void *buffer, int receives, double seconds, int *rank);
    int (*broken)(void *mesh); /* 1: every call fails from now on */
} rush_wire;

typedef enum rush_engine_kind {
    RUSH_ENGINE_ALL_REDUCE, RUSH_ENGINE_BROADCAST, RUSH_ENGINE_REDUCE, RUSH_ENGINE_ALL_GATHER, RUSH_ENGINE_GATHER, RUSH_ENGINE_SCATTER,
    RUSH_ENGINE_ALL_TO_ALL, RUSH_ENGINE_ALL_TO_ALL_V, RUSH_ENGINE_BARRIER, RUSH_ENGINE_REDUCE_SCATTER
} rush_engine_kind;

typedef void (*rush_reduction)(void *out, const void *a, const void *b, size_t n); /* out may be a or b */

typedef struct rush_engine_call {
    rush_engine_kind kind;
    uint32_t tag;
    double seconds;
    int root;
    void *in, *out;              /* dense; of ALL_REDUCE and BROADCAST only out                    */
    char **ins, **outs;          /* where an engine takes parts: each rank's part of that side (ranks); `in`, `out` may be NULL then */
    size_t n, size;              /* elements per rank (all of them for ALL_TO_ALL), bytes of each: 1, 2, 4, 8 */
    int64_t *in_counts, *out_counts; /* ALL_TO_ALL_V: elements per rank                           */
    rush_reduction reduction;
    int dtype, reduce;           /* rush_dtype of the numbers, rush_reduce; for engines that reduce by themselves */
    double factor;               /* of PREMUL_SUM */
    int ranks;
    const char *what;            /* which call, in words */
    bool direct;                 /* the caller's thread does it: it hears signals */
} rush_engine_call;

typedef struct rush_engine {
    const char *name;
    void *(*open)(const rush_wire *, void *mesh, int rank, int size, double seconds, char *why, size_t room); /* NULL and a text */
    void (*close)(void *);
    int (*run)(void *, const rush_engine_call *, char *why, size_t room); /* -1 and a text, or none: then the wire has failed */
    bool reduces_scattered;      /* run() knows REDUCE_SCATTER: n numbers for each rank in, n out */
    bool reduces_in_place;       /* of REDUCE, `out` may be `in` */
    unsigned takes_parts;        /* a bit for each kind: what lies apart for each rank, as in a list of tensors, need not be one array */
    bool averages;               /* run() divides, too */
} rush_engine;

#ifdef __cplusplus
}
#endif
#endif
