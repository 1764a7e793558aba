/* onnx.h - reading ONNX files: onnx_wire.c reads messages, onnx_tensor.c tensors, onnx_graph.c graphs, onnx.c the whole.
 *
 * A node becomes a call of one operation: of ATen's where both agree (a table in onnx_graph.c), otherwise of "onnx::Name", a
 * composite whose schema has ONNX's names: inputs come first, attributes are bound by name (onnx_math.c, onnx_shape.c,
 * onnx_nn.c). What depends on ranks and dtypes is decided there, when they are known.
 */
#ifndef RUSH_GRAPH_ONNX_H
#define RUSH_GRAPH_ONNX_H

#include "op/missing.h"
#include "graph/program.h"
#include "io/file.h"

/* ---- messages: protobuf's wire format ---- */

typedef struct rush_wire { /* what is left of a message */
    const uint8_t *p, *end;
} rush_wire;

typedef struct rush_wire_field {
    uint32_t number;
    uint8_t type;    /* 0 varint, 1 eight bytes, 2 bytes, 5 four bytes */
    uint64_t n;      /* the number; of bytes their count               */
    rush_wire bytes;
} rush_wire_field;

int rush_wire_next(rush_wire *, rush_wire_field *);       /* 1; 0 at the end; -1 and an error                          */
bool rush_wire_find(rush_wire, uint32_t number, rush_wire_field *); /* the last of that number; an error if it is damaged */
size_t rush_wire_count(rush_wire, uint32_t number);
bool rush_wire_is(rush_wire, const char *text);
/* The numbers of a repeated field, packed or not: calls put for each; width 0 (varint), 4 or 8 bytes. */
int rush_wire_numbers(const rush_wire_field *, int width, int (*put)(void *to, uint64_t), void *to);

/* ---- files ---- */

typedef struct rush_onnx_file {
    const char *path;
    rush_mapping *mapping; /* of the whole file */
    int64_t opset;
} rush_onnx_file;

char *rush_wire_text(rush_graph *, rush_wire); /* ended by a zero; NULL and an error */
int rush_onnx_dtype(uint64_t code);            /* a rush_dtype, or -1: none */
int rush_onnx_size(rush_wire dims, uint32_t field, int *ndim, int64_t *size); /* the numbers of a field as sizes */
rush_tensor *rush_onnx_tensor(const rush_onnx_file *, rush_wire); /* parked */

/* Values that stand for tensors of the file, to be given to the module. */
typedef struct rush_onnx_held {
    const char *name;
    rush_tensor *t;  /* parked in the scope of the reading */
    uint32_t value;
    uint8_t what;    /* a slot_kind */
} rush_onnx_held;

typedef struct rush_onnx_sequence { /* a list that SplitToSequence makes: its node is read again where one of it is taken */
    const char *name;
    rush_wire node;
    struct rush_onnx_sequence *next;
} rush_onnx_sequence;

typedef struct rush_onnx_reader rush_onnx_reader;
struct rush_onnx_reader { /* one graph: the program's, or a branch */
    const rush_onnx_file *file;
    rush_graph *g;
    rush_onnx_reader *outer;
    rush_missing *missing;
    int depth;
    uint32_t *slot, mask;         /* names of this graph to value's number + 1 */
    const char **name;            /* of values, as the file has them           */
    uint32_t values_room;
    uint32_t *from;               /* of a branch's inputs: the value outside   */
    uint32_t in_room, nheld, held_room;
    rush_onnx_held *held;         /* of the program's graph                    */
    rush_onnx_sequence *sequences;
};

int rush_onnx_graph(rush_onnx_reader *, rush_wire graph);
void rush_onnx_reader_end(rush_onnx_reader *);

#endif
