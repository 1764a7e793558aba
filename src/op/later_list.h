/* later_list.h - what a thread has put off: steps, in the order of the calls, and the memory that they read and write. */
#ifndef RUSH_LATER_LIST_H
#define RUSH_LATER_LIST_H

#include "op/later.h"

enum { LATER_STEPS = 48, LATER_DEVICE_STEPS = 24, LATER_DEVICE_STRIDED = 8, /* the most at once; of a device, whose kernels take so many parameters */
       LATER_CELLS = LATER_STEPS * RUSH_LOOP_OPERANDS, LATER_DIMS = 6 };

/* A storage that steps read or write. */
typedef struct later_cell {
    struct later_list *list;
    rush_storage *storage;     /* NULL: it was written, and nobody has it any more              */
    char *data;                /* NULL: it lives in a buffer of the blocks only                 */
    size_t block;              /* of data, which is hidden from the storage; 0: it was only read */
    uint8_t dtype;             /* of the elements, where it is written                          */
    bool loaded;               /* its contents from before are read                             */
    bool odd;                  /* somebody reads it in another order than that of its memory    */
    int first, last;           /* steps that use it                                             */
    int slot;                  /* while it runs: the buffer, -1: memory                         */
} later_cell;

typedef enum later_way { LATER_ALONG, LATER_ONE, LATER_STRIDED } later_way; /* element by element with the result; one for all; strides */

typedef struct later_operand {
    uint8_t way, dtype, compute, ndim;
    int16_t cell;              /* -1: a number                                        */
    int64_t at;                /* bytes from the start of the cell's memory           */
    int64_t size[LATER_DIMS], stride[LATER_DIMS]; /* of LATER_STRIDED, outermost first, in the order of the result's memory; bytes */
    _Alignas(16) char one[16]; /* of LATER_ONE, as the loop takes it                  */
} later_operand;

typedef struct later_step {
    rush_block_loop loop;
    rush_pw_args args;
    int64_t numel;             /* of the result                                          */
    int group;                 /* the first of the steps of as many elements that run together */
    later_operand x[RUSH_LOOP_OPERANDS]; /* x[0] is written                               */
} later_step;

typedef struct later_list {
    pthread_mutex_t lock;
    uint32_t *pending;         /* rush_now.pending of the thread */
    size_t size;               /* of its memory                  */
    struct later_list *next;   /* of another thread              */
    int depth, nsteps, ncells, nstrided;
    rush_device device;        /* of all steps, and the stream that they were called on */
    int stream;
    later_cell cell[LATER_CELLS];
    later_step step[LATER_STEPS];
} later_list;

void rush_later_run(later_list *); /* all steps; the lock is held */
/* Elements [i, i + n) of an operand with strides, as the loop takes them: in `to`, or where they are. */
char *rush_later_gather(const later_operand *, char *from, int64_t i, int64_t n, char *to);
/* Steps [first, end) of as many elements, on the CPU, by a loop that was compiled of them. False: there is none (yet). */
bool rush_later_run_compiled(const later_list *, int first, int end);

#endif
