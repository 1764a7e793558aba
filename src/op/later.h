/* later.h - elementwise work that is put off, and done together over blocks that stay in the first-level cache.
 *
 *     rush_later_begin();
 *     ...            calls run as always, but elementwise ones on large tensors are only written down
 *     rush_later_end();
 *
 * Shapes, dtypes, versions, histories and errors are those of the call; what is put off is the loop alone, and it cannot
 * fail. A result that waits has its memory, but its storage hides it (rush_storage_waits()): whoever asks for the address,
 * by rush_ptr() or rush_storage_data(), has all that waits done first, in the order of the calls. So nobody has to know.
 * What is dropped before that was needed by the steps that read it only, and never leaves the cache.
 *
 * Values are those that the calls would have given, bit for bit: loops and their types are the same.
 *
 * On a device whose tables have a `fuser` rows are put off, too: one kernel does what waits, on the stream of the calls. Whoever gives
 * that device work, or waits for it, has it started first.
 */
#ifndef RUSH_LATER_H
#define RUSH_LATER_H

#include "op/blocks.h"
#include "op/op.h"

/* Nests; of the calling thread. -1 and an error: there is no memory. */
RUSH_PY int rush_later_begin(void);
RUSH_PY void rush_later_end(void);
void rush_later_settle(void); /* does what the calling thread has put off */

/* May the system's C compiler make loops of what is put off again and again (later_compile.c)? BEHIND: by a thread, if it runs long enough to be
 * worth it; taken unless something else was said, or the environment says RUSHLIGHT_COMPILE=0. AT_ONCE: while the caller waits. How many there are. */
typedef enum rush_later_how { RUSH_LATER_UNASKED, RUSH_LATER_BEHIND, RUSH_LATER_AT_ONCE, RUSH_LATER_NEVER } rush_later_how;
RUSH_PY int rush_later_compile(rush_later_how);

RUSH_PY uint32_t rush_later_waiting(void);   /* how many steps that is */

/* Writes down a loop, or a device's row, over operand[0] (written, a tensor), operand[1], ... (tensors or numbers), which the loop takes as
 * `compute` says. False: it is to be run now. */
bool rush_later_put(const rush_block_loop *, const rush_value *operand, const uint8_t *compute);
/* How a device does such steps, in tables.h. */
struct later_list;
typedef struct rush_fuser {
    bool (*takes)(const rush_block_loop *, const rush_value *operand, const uint8_t *compute); /* can such a step be one of several that a kernel does? */
    void (*run)(const struct later_list *, int first, int end); /* of as many elements, on the list's stream; what fails is told as the device tells of a kernel's */
} rush_fuser;
/* Before a tensor is changed: does what other threads have put off that reads it. */
extern atomic_int rush_later_threads; /* that have begun */
void rush_later_settle_others(const rush_tensor *);

#endif
