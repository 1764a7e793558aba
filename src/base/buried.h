/* buried.h - what is left of a handle after its end, so that whoever still uses it gets an error.
 *
 * A public handle begins with a word that is never 0 while it lives. At its end the structure is buried: that word becomes 0, and the
 * memory is only given back after RUSH_GRAVES others. Under the address sanitizer all behind the first `legible` bytes
 * is poisoned: reading more of it is reported. Tensors are too many for that: they are buried only under the sanitizer,
 * and otherwise say that they are no more until their memory is another tensor's (tensor.c).
 */
#ifndef RUSH_BASE_BURIED_H
#define RUSH_BASE_BURIED_H

#include "base/base.h"

enum { RUSH_GRAVES = 4096 };

/* `p` is of rush_malloc(), rush_calloc() or rush_small_alloc(). Its first `legible` bytes stay as they are. */
void rush_bury(void *p, size_t size, size_t legible);
/* The same with the first word 0. */
void rush_bury_handle(void *p, size_t size);
/* Is there a handle, and has it not ended? If not, an error that names what was expected. */
bool rush_lives(const void *handle, const char *what);

#endif
