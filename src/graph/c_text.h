/* c_text.h - programs as C: what a program calls is recorded once, laid out in memory, and written as loops.
 *
 * c_record.c runs the program on the sizes asked for and keeps each call of a kernel, composites opened where no row writes them
 * whole. So views cost nothing: a tensor is a place in a buffer with strides. c_rows.c has a row for each operation that can be
 * written, c_helpers.c the functions that the rows' lines call; c_write.c finds which buffers live when, and writes the file.
 */
#ifndef RUSH_GRAPH_C_TEXT_H
#define RUSH_GRAPH_C_TEXT_H

#include "base/arena.h"
#include "graph/program.h"
#include "tensor/tensor.h"

#include <stdio.h>

typedef struct c_row c_row;

typedef struct c_step {
    const rush_op *op;
    const c_row *row;     /* NULL: it cannot be written                                            */
    bool depends;         /* what it gives depends on data, so that the recorded call shows one case of many */
    const char *where;    /* the line of source that calls it, or NULL                             */
    bool inplace;
    rush_value *in, *out; /* as the call had them; lists are copies, tensors are held by the recording */
} c_step;

/* What a storage is for. */
typedef enum c_use { C_WORK, C_INPUT, C_OUTPUT, C_WEIGHT, C_CONSTANT } c_use;

typedef struct c_buffer {
    rush_storage *storage;  /* NULL: room that one step needs                    */
    uint8_t use, dtype;
    uint32_t number;        /* among those of the same use                       */
    int64_t first, last;    /* steps that write and read it                      */
    int64_t n, at;          /* elements; of work: where in its type's array      */
    struct c_buffer *over;  /* the one whose place it takes, or NULL             */
    const char *name;       /* of weights                                        */
    bool written;           /* by a step                                         */
    rush_tensor *whole;     /* of weights and constants: what is written down    */
} c_buffer;

typedef struct c_record {
    rush_arena arena;
    c_step *step;
    c_buffer *buffer;
    rush_tensor **held;
    uint32_t nsteps, nbuffers, nheld;
    int depth, inside;      /* of calls; at which depth a kernel began, 0: none  */
    bool failed;
    int64_t now;            /* the step that is being written                    */
    uint64_t helpers;       /* which of c_helpers.c are needed                   */
    bool int8;              /* weights of two and more dimensions have 8 bits    */
    int64_t unpacked;       /* such a weight that this step has unpacked, and where; -1: none */
    uint32_t unpacked_to;
    const char *mark;       /* of its constants' names: "c", "t"                 */
    FILE *to;
} c_record;

struct c_row {
    const char *name;                      /* the operation's base name          */
    int (*write)(c_record *, const c_step *); /* 0; -1 and an error: not in this form */
    uint64_t writes;                       /* arguments that it changes, beyond those that the schema says */
};

/* c_record.c */
int rush_c_record_begin(c_record *);
int rush_c_record_end(c_record *);         /* -1 and the first error                           */
void rush_c_record_free(c_record *);
c_buffer *rush_c_buffer_of(const c_record *, const rush_storage *); /* NULL: not seen             */
int rush_c_buffer_add(c_record *, rush_tensor *, c_use, const char *name);
c_buffer *rush_c_room(c_record *, rush_dtype, int64_t n); /* for the step that is being written */

/* Do the sizes of its results depend on data, or is what it gives a number of a tensor? Indices make a size only where there is a mask among them. */
bool rush_c_is_settled(const rush_op *); /* is there nothing to do where dtypes are fixed? */
bool rush_c_depends_on_data(const rush_op *, bool mask);

/* c_rows.c */
const c_row *rush_c_row_find(const rush_op *); /* NULL: the operation cannot be written as it is  */

/* c_helpers.c: functions of the file that is written; asking for one has it written */
typedef struct c_helper {
    const char *name, *text;
    uint64_t needs;         /* others, which stand before it                    */
} c_helper;
extern const c_helper rush_c_helpers[];
extern const int rush_c_helpers_count;
extern const char rush_c_words[];          /* macros for the words of pointwise.def            */

/* c_write.c */
const char *rush_c_type(int dtype);        /* "float"; NULL: the file has no such type         */
const char *rush_c_place(c_record *, const rush_tensor *);       /* where its first element is; lives in the scope */
const char *rush_c_packed(c_record *, const rush_tensor *);      /* the same of its elements without gaps, copied if need be */
const char *rush_c_name(const c_record *, const c_buffer *);     /* in the scope */

#endif
