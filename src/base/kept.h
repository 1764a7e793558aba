/* kept.h - what a program compiled while it ran, kept on disk for those that run later. */
#ifndef RUSH_BASE_KEPT_H
#define RUSH_BASE_KEPT_H

#include "base/base.h"

/* The folder: $PYTORCH_KERNEL_CACHE_PATH, or rushlight/kernels in the user's cache; made if need be. -1: nothing is to be kept
 * (USE_PYTORCH_KERNEL_CACHE=0), or there is no folder that is the user's own and that nobody else may write to: what lies in it runs. */
RUSH_PY int rush_kept_folder(char *path, size_t room);
/* The folders above the file `path`, of the user alone. */
RUSH_PY void rush_make_parents(char *path);

/* FNV-1a of a text behind what was hashed before, or RUSH_HASH_NOTHING: the same in every process, for names of files. */
#define RUSH_HASH_NOTHING 1469598103934665603u
static inline uint64_t rush_hash_text(uint64_t h, const char *text)
{
    for (; *text; text++) h = (h ^ (unsigned char)*text) * 1099511628211u;
    return (h ^ 0xff) * 1099511628211u; /* where it ends counts, too */
}

#endif
