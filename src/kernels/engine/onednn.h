/* onednn.h - the part that all files of the glue share: the engine, a stream per thread, the cache of primitives. */
#ifndef RUSH_ONEDNN_H
#define RUSH_ONEDNN_H

#include "kernels/engine/engine.h"
#include "kernels/engine/versions.h"

#define RUSH_CASE 56 /* numbers that tell one case from another */
#define RUSH_MEMS 8

typedef struct rush_case {
    int32_t n;
    int64_t key[RUSH_CASE];
} rush_case;

/* A reorder by kernels of our own (repack.c): in `outer` times `rows` pieces, steps in elements. */
typedef struct rush_repack {
    enum { RUSH_REPACK_NONE, RUSH_REPACK_IMAGE, RUSH_REPACK_OUTPUTS, RUSH_REPACK_INPUTS, RUSH_REPACK_PAIRS, RUSH_REPACK_PAIRS_ACROSS } kind;
    int64_t outer, rows, columns, taps, block;
    int64_t out_step, in_step, step, tap_step, row;
    bool last; /* the caller's weights have their inputs last */
} rush_repack;
bool rush_repack_plan(rush_repack *, rush_const_desc user, rush_const_desc want);
bool rush_repack_both_ways(const rush_repack *); /* or only from the caller's layout */
void rush_repack_run(const rush_repack *, void *to, const void *from, bool back);

/* One memory of a primitive. Where the primitive prefers another layout than the caller's, `reorder` goes between. */
typedef struct rush_mem {
    int arg;                 /* DNNL_ARG_... */
    dnnl_memory_t mem;       /* what the primitive sees */
    dnnl_memory_t user;      /* the caller's layout, NULL when it is the same */
    dnnl_primitive_t reorder; /* into mem before, or (for results) from mem after; NULL when `own` does it */
    rush_repack own;
    bool result;
    size_t size;             /* room that mem needs while the primitive runs, when reordered */
} rush_mem;

typedef struct rush_primitive {
    rush_case id;
    dnnl_primitive_t p;
    rush_mem mem[RUSH_MEMS];
    int nmem;
    size_t bytes;
    bool ran;
    struct rush_primitive *next; /* of the same hash */
} rush_primitive;

dnnl_engine_t rush_onednn(void);                     /* NULL when it cannot be had */
void rush_case_add(rush_case *, int n, const int64_t *);
static inline void rush_case_one(rush_case *c, int64_t x) { c->key[c->n++] = x; }
/* Runs the thread's primitive of this case, which `make` makes of `arg` if there is none yet (NULL: it cannot be done), with the
 * caller's pointers in the order in which memories were added. False: it was not done. */
bool rush_primitive_do(const rush_case *, rush_primitive *(*make)(const void *arg, const rush_case *), const void *arg, void *const *data);
/* ---- for `make` ---- */
/* Takes over the descriptor; NULL remembers that the case cannot be done. */
rush_primitive *rush_primitive_add(const rush_case *, dnnl_primitive_desc_t);
/* Remembers instead that the case cannot be done. */
void rush_primitive_forget(rush_primitive *);
/* Adds a memory: `query` (dnnl_query_src_md, ...) tells the primitive's layout, `user` the caller's. */
bool rush_primitive_mem(rush_primitive *, dnnl_primitive_desc_t, dnnl_query_t query, int index, int arg,
                        rush_const_desc user, bool result);
/* Adds the integer that stands for 0 in an operand. */
bool rush_primitive_zero(rush_primitive *, int arg);
void rush_primitive_done(dnnl_primitive_desc_t);
/* Without instructions for it oneDNN adds pairs of products of bytes in 16 bits, where they may not fit. */
bool rush_onednn_exact_bytes(void);
int rush_onednn_dtype(rush_dtype); /* dnnl_data_type_undef where there is none */

#endif
