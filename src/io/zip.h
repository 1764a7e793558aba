/* zip.h - zip archives as checkpoints and npz files use them: read by name in any order, written in one go.
 *
 * Not by a library, since none tells where in the file an entry's bytes are (to map them), aligns them, or checks
 * and writes them by more than one thread. Compressed entries are inflated by zlib.
 */
#ifndef RUSH_IO_ZIP_H
#define RUSH_IO_ZIP_H

#include "io/file.h"

/* ---- reading ---- */

typedef struct rush_zip_entry {
    const char *name;    /* whole, ended by a zero                            */
    uint64_t offset;     /* of the local header                               */
    uint64_t limit;      /* where the next one begins: it must end before     */
    uint64_t packed, size;
    uint32_t crc;
    uint16_t method;     /* 0 stored, 8 deflated                              */
} rush_zip_entry;

typedef struct rush_zip {
    rush_source source;  /* closed with the archive                           */
    rush_zip_entry *entry;
    uint32_t n;
    uint32_t *slots, mask; /* a hash table of entry numbers + 1, by name      */
    char *directory;     /* the central directory as it lies in the file, names ended by zeros */
    char *name;          /* of the file, for messages                         */
    char *root;          /* the folder of its first entry, without the slash; "" when there is none */
    bool check;          /* compare checksums; true unless switched off       */
} rush_zip;

/* Takes the source over, also when it fails (NULL and an error). */
RUSH_PY rush_zip *rush_zip_open(rush_source);
RUSH_PY void rush_zip_close(rush_zip *);
const rush_zip_entry *rush_zip_find(const rush_zip *, const char *name);              /* NULL: none, no error */
RUSH_PY const rush_zip_entry *rush_zip_find_below(const rush_zip *, const char *name);        /* below the root folder */
RUSH_PY const rush_zip_entry *rush_zip_need(const rush_zip *, const char *name);              /* below it; NULL and an error */
/* Where its bytes begin; -1 and an error. */
RUSH_PY int64_t rush_zip_offset(const rush_zip *, const rush_zip_entry *);
/* entry->size bytes. */
RUSH_PY int rush_zip_read(const rush_zip *, const rush_zip_entry *, void *);
/* The same into memory of its own, ended by a zero; the caller gives it to rush_free. */
char *rush_zip_read_all(const rush_zip *, const rush_zip_entry *);

/* The same as a storage, of which the caller has the reference; NULL and an error. */
rush_storage *rush_zip_read_storage(const rush_zip *, const rush_zip_entry *);

/* ---- writing ---- */

/* Takes bytes one after the other; 0, or -1 and an error. */
typedef int (*rush_sink)(void *to, const void *, size_t n);

typedef struct rush_zip_writer {
    rush_sink sink;
    void *to;
    uint64_t at;
    char *directory;     /* grows with each entry */
    size_t used, room, n;
    bool check;          /* compute checksums; without, they are 0 and readers that look complain */
} rush_zip_writer;

RUSH_PY void rush_zip_begin(rush_zip_writer *, rush_sink, void *to);
/* Stored, beginning at a multiple of 64, large ones of 4096. `p` NULL: that many zeros. */
RUSH_PY int rush_zip_add(rush_zip_writer *, const char *name, const void *p, uint64_t n);
/* The same of two pieces. */
int rush_zip_add_headed(rush_zip_writer *, const char *name, const void *head, size_t nhead, const void *p, uint64_t n);
/* The directory. Frees what the writer holds; keep: false after a failure. */
RUSH_PY int rush_zip_end(rush_zip_writer *, bool keep);
RUSH_PY int rush_zip_to_file(void *writing, const void *, size_t n); /* the sink of a rush_writing */

#endif
