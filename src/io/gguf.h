/* gguf.h - a GGUF file that was looked through: where its tensors lie, and what it says about itself. */
#ifndef RUSH_IO_GGUF_H
#define RUSH_IO_GGUF_H

#include "io/content.h"
#include "io/file.h"
#include "kernels/cpu/blocks.h"
#include <rushlight/gguf.h>

typedef struct rush_gguf_type { /* what a tensor's elements are: a dtype, or blocks */
    int number;                 /* in files */
    const char *name;
    rush_dtype dtype;           /* of blocks float32, which they become */
    const rush_block_type *block; /* NULL: a dtype's elements */
} rush_gguf_type;

typedef struct rush_gguf_tensor {
    const char *name;
    rush_gguf_type type;
    int ndim;
    int64_t size[4]; /* the last is the one along which elements lie side by side, as everywhere; files say it the other way round */
    int64_t numel;
    char *data;      /* in the mapping; all of it is there */
    size_t bytes;
} rush_gguf_tensor;

typedef struct rush_gguf {
    rush_object_end end; /* parked */
    const char *path;
    rush_mapping *map;
    int version, n;
    rush_gguf_tensor *tensor;
    rush_content *metadata; /* a dict, see rush_gguf_metadata() */
} rush_gguf;

rush_gguf *rush_gguf_open(const char *path); /* lives in the scope; the mapping lives as long as something lies over it */
rush_gguf *rush_gguf_open_held(const char *path); /* to be read again and again: rush_map_held */
const rush_gguf_tensor *rush_gguf_find(const rush_gguf *, const char *name); /* NULL: none, no error */
rush_tensor *rush_gguf_tensor_of(const rush_gguf *, const rush_gguf_tensor *); /* over the mapping, or what its blocks become */

/* The kinds of values in metadata, as files number them. */
enum rush_gguf_kind { GGUF_U8, GGUF_I8, GGUF_U16, GGUF_I16, GGUF_U32, GGUF_I32, GGUF_F32, GGUF_BOOL, GGUF_TEXT, GGUF_LIST, GGUF_U64, GGUF_I64, GGUF_F64, GGUF_KINDS };
extern const rush_dtype rush_gguf_kinds[GGUF_KINDS]; /* the dtype of each but texts and lists */
bool rush_gguf_type_of(int number, const char *name, rush_gguf_type *); /* by number, or by name if it is not NULL */
enum { RUSH_GGUF_ALIGNMENT = 32 }; /* of data, if the file says nothing else */

#endif
