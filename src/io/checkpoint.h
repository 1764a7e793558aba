/* checkpoint.h - what reading and writing .pt files share: names of storages, and storages by their key. */
#ifndef RUSH_IO_CHECKPOINT_H
#define RUSH_IO_CHECKPOINT_H

#include "io/content.h"
#include "io/file.h"

/* A storage that a file refers to. */
typedef struct rush_loaded {
    const char *key;
    rush_tensor *whole; /* one dimension, all its elements */
    bool filled;        /* by a file of the time before, which has them behind the pickles */
} rush_loaded;

/* One file while it is read. */
typedef struct rush_reader {
    const char *path;
    rush_load_options options;
    struct rush_zip *zip;      /* NULL: of the time before */
    rush_mapping *map;         /* with options.mmap        */
    bool swap, script;         /* big-endian; TorchScript  */
    const char *folder;        /* of the storages: "data"  */
    rush_loaded *loaded;       /* in the order in which they were met */
    size_t n, room;
    uint32_t *slots;           /* numbers + 1 of the above by key */
    size_t nslots;
    uint64_t left;             /* bytes that storages of the old format may still have */
    uint64_t copied, copies;   /* values copied by calls, and how many may be: in proportion to the pickle */
} rush_reader;

/* One pickle of [p, p + n) as a content; NULL and an error. */
rush_content *rush_reader_pickle(rush_reader *, const void *p, size_t n, size_t *used);
rush_loaded *rush_reader_storage(rush_reader *, const char *key); /* NULL: not met yet */
/* "data": data.pkl of a zip, with storages in data/; "constants" of TorchScript likewise. */
rush_content *rush_load_part(const char *path, const char *part, rush_load_options);
rush_content *rush_legacy_load(rush_reader *, const rush_source *);

#endif
