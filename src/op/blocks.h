/* blocks.h - small things that everybody needs who hands loops of src/kernels/pointwise.def their elements by blocks. */
#ifndef RUSH_BLOCKS_H
#define RUSH_BLOCKS_H

#include "kernels/cpu/pointwise.h"

enum { RUSH_LOOP_OPERANDS = 5, RUSH_LOOP_EVEN = 16 }; /* results and operands of a loop; elements of its widest vectors */

/* A loop of the table with all but its elements. */
typedef struct rush_block_loop {
    rush_pw_kernel loop;              /* NULL: it is a row of the table on another device            */
    const rush_pw_args *args;
    int row;                          /* of pointwise.def, of those                                  */
    int nout, n;                      /* operands written, operands in all                       */
    unsigned ones;                    /* bit m: the loop takes m as its `one`                    */
    bool even;                        /* its vector form may round otherwise than its scalar one */
    uint8_t size[RUSH_LOOP_OPERANDS]; /* bytes of an element                                     */
} rush_block_loop;

/* n elements of p[0], p[1], ... Bit k of `one`, which the loop takes: operand nout + k has one element only. */
void rush_block_run(const rush_block_loop *, char *const *p, int64_t n, unsigned one);
/* As many of the operands in mask as the loop takes as single elements. */
unsigned rush_block_ones(const rush_block_loop *, unsigned mask);
/* n elements of `size` bytes from one stride to another; from_stride 0 repeats one. */
void rush_block_move(char *to, int64_t to_stride, const char *from, int64_t from_stride, int64_t n, int size);

#endif
