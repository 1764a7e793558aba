/* wide.h - for threads whose tensors live briefly and change their sizes from one run to the next, as a server's do. */
#ifndef RUSH_WIDE_H
#define RUSH_WIDE_H

#include "base/base.h"

/* From now on a large block of the calling thread may be up to four times what it asks for, where such a one lies idle. Else the cache would have to hold
 * a set of blocks for each size that a batch has, and blocks would come from the system and go back to it all the time. */
RUSH_PY void rush_memory_wide(bool);

#endif
