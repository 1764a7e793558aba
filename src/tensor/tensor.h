/* tensor.h - storage and tensor, shape and view algebra. Knows no operation. */
#ifndef RUSH_TENSOR_H
#define RUSH_TENSOR_H

#include "base/base.h"

/* Bytes, shared by views. */
struct rush_storage {
    atomic_int refs;
    rush_device device;
    bool resizable : 1;      /* false over foreign memory                                  */
    bool shown : 1;          /* a program was told the address                             */
    bool py_owned : 1;       /* the storage owns its Python object (see python/_C)         */
    bool nowhere : 1;        /* of a tensor RUSH_ELSEWHERE: it has a size and a device, and no bytes that one may ask for */
    uint8_t lent;            /* buffers and parts that point into the memory, which keeps its place meanwhile; 255: for ever */
    void *data;              /* NULL on meta, when nbytes is 0, or while the contents are still to be computed: rush_storage_data() */
    size_t nbytes;           /* as PyTorch counts them                                     */
    size_t block;            /* of data, what rush_block_free wants; 0: data is not a block of its own */
    void (*release)(void *); /* for foreign memory, called with `owner`                    */
    void *owner;
    atomic_uint version;     /* counts in-place changes, see rush_tensor.version           */
    uint32_t own;            /* of the block of this structure and the few bytes behind it; 0: a small structure */
    void *py;                /* the Python object, borrowed unless py_owned                */
};

enum rush_tensor_flags {
    RUSH_T_CONTIGUOUS = 1,
    RUSH_T_CHANNELS_LAST = 2,   /* 4-d or 5-d, strides of NHWC / NDHWC */
    RUSH_T_DENSE = 4,           /* no holes, no overlap: some order of dims is contiguous */
    RUSH_T_CONJ = 8,            /* lazily conjugated (complex only) */
    RUSH_T_NEG = 16,            /* lazily negated */
    RUSH_T_WRAPPED = 32,        /* a Python number made a tensor: low rank in promotion */
    RUSH_T_INFERENCE = 64,      /* made under inference_mode */
    RUSH_T_ZERO = 128,          /* known to be all zeros */
    RUSH_T_PY_OWNED = 256,      /* the tensor owns its Python object (see python/_C) */
    /* Views whose history does not follow their base's: in-place changes with a gradient are errors. */
    RUSH_T_NO_GRAD_VIEW = 512,      /* made under no_grad of a tensor with a gradient   */
    RUSH_T_INFERENCE_VIEW = 1024,   /* the same under inference_mode                    */
    RUSH_T_MANY_VIEW = 2048,        /* one of several that one call returned            */
    RUSH_T_WATCHED = 8192,          /* calls with it are somebody else's to do: op/watch.h */
    RUSH_T_HISTORY_BELOW = 16384,   /* with RUSH_T_WATCHED: what the others do is recorded below, not for this tensor */
    RUSH_T_FUNCTION_VIEW = 4096,    /* returned by a function with its own derivative   */
    RUSH_T_APART = RUSH_T_NO_GRAD_VIEW | RUSH_T_INFERENCE_VIEW | RUSH_T_MANY_VIEW | RUSH_T_FUNCTION_VIEW
};

typedef struct rush_autograd rush_autograd; /* src/autograd */
typedef struct rush_sparse rush_sparse;     /* sparse.h */
typedef struct rush_qparams rush_qparams;   /* quantized.h */

typedef struct rush_counter { /* of in-place changes */
    atomic_int refs;
    atomic_uint n;
} rush_counter;

#define RUSH_INLINE_DIMS 5

/* A value of rush_tensor.layout: the tensor has sizes, strides, dtype and device, but no memory. It stands for an object that
 * says what an operation on it does (op/watch.h): PyTorch's wrapper subclasses. */
enum { RUSH_ELSEWHERE = 128 };
/* Another: memory and strides as of strided tensors, but the elements are integers that stand for numbers (tensor/quantized.h). */
enum { RUSH_QUANTIZED = 64 };
enum { RUSH_T_ENDED = 255 }; /* ndim of one that is no more */

struct rush_tensor {
    atomic_int refs;
    uint8_t dtype;
    uint8_t layout;
    rush_device device;
    uint8_t ndim;
    uint16_t flags;
    rush_storage *storage;     /* of sparse layouts NULL                                         */
    int64_t offset;            /* of the first element, in elements                              */
    int64_t numel;             /* product of the sizes                                           */
    int64_t *size, *stride;    /* ndim each; stride in elements, 0 broadcasts; point to dims or a heap block */
    rush_autograd *ag;         /* NULL for tensors that have no part in a graph                  */
    rush_tensor *base;         /* of a differentiable view: whose memory it shows; never itself a view */
    rush_counter *version;     /* NULL: storage->version. That of x.data and its views           */
    void *py;                  /* the Python object, borrowed unless RUSH_T_PY_OWNED             */
    union {
        rush_sparse *parts;    /* of sparse layouts                                              */
        rush_qparams *q;       /* of RUSH_QUANTIZED                                              */
    };                         /* NULL otherwise                                                 */
    int64_t dims[2 * RUSH_INLINE_DIMS];
};

/* Every function below that returns a tensor parks it, like the public ones; `_own` gives the reference instead. */

/* Is there one, and is its scope open still (as far as can be told)? If not, an error. */
bool rush_tensor_given(const rush_tensor *);
/* A reference of the caller's to a tensor without memory, sizes and strides still to be written. */
RUSH_PY rush_tensor *rush_tensor_header(rush_dtype, rush_device, int ndim);
/* New memory, not initialised; contiguous. Sizes are checked (negative, overflow). */
RUSH_PY rush_tensor *rush_tensor_new(rush_dtype, rush_device, int ndim, const int64_t *size);
rush_tensor *rush_tensor_new_strided(rush_dtype, rush_device, int ndim, const int64_t *size, const int64_t *stride);
/* With the strides of memory format f, PRESERVE meaning `like`'s (dense and non-overlapping, else contiguous). */
RUSH_PY rush_tensor *rush_tensor_new_like(const rush_tensor *like, rush_dtype, rush_device, int f);
/* A tensor over part of t's storage. Not recorded: the operations in src/ops/shape/view.c are. */
RUSH_PY rush_tensor *rush_tensor_alias(const rush_tensor *t, int ndim, const int64_t *size, const int64_t *stride, int64_t offset);
/* The same memory, sizes and strides under a dtype of the same size; strided. */
rush_tensor *rush_tensor_retyped(const rush_tensor *of, rush_dtype);
/* Size, stride, dtype, device of t without memory: what a derivative sees of an argument that was not saved. */
rush_tensor *rush_tensor_shape_only(const rush_tensor *t);
/* The same for derivatives that programs bring along: a look at its elements is an error, and finds zeros. t itself where it is not strided or elsewhere than here. */
rush_tensor *rush_tensor_closed(rush_tensor *t);
RUSH_PY rush_tensor *rush_tensor_elsewhere(rush_dtype, rush_device, int ndim, const int64_t *size, const int64_t *stride, int64_t offset);
/* x.detach(): same memory and version counter, no graph. */
RUSH_PY rush_tensor *rush_tensor_detach(const rush_tensor *);
/* A 0-d CPU tensor of a number value (wrapped: it does not take part in promotion beyond its category). */
RUSH_PY rush_tensor *rush_tensor_of_number(rush_value, bool wrapped);
RUSH_PY rush_tensor *rush_tensor_of_number_typed(rush_value, rush_dtype);
/* Changes geometry in place (resize_, set_, t_()); storage is kept or grown. */
int rush_tensor_reshape_inplace(rush_tensor *, int ndim, const int64_t *size, const int64_t *stride, int64_t offset);
int rush_tensor_resize(rush_tensor *, int ndim, const int64_t *size);
/* A tensor over a storage of which the caller keeps its own reference; sizes and strides are believed. */
RUSH_PY rush_tensor *rush_tensor_over(rush_storage *, rush_dtype, int ndim, const int64_t *size, const int64_t *stride, int64_t offset);
RUSH_PY void rush_tensor_set_storage(rush_tensor *, rush_storage *, int64_t offset);
RUSH_PY void rush_tensor_refresh(rush_tensor *); /* numel and layout flags after sizes or strides were written */

rush_storage *rush_storage_closed(size_t nbytes); /* of rush_tensor_closed() */
RUSH_PY rush_storage *rush_storage_nowhere(rush_tensor *elsewhere); /* the tensor's own, made when it is first asked for */
RUSH_PY rush_storage *rush_storage_new(size_t nbytes, rush_device);            /* one reference, the caller's */
RUSH_PY rush_storage *rush_storage_over(void *data, size_t nbytes, void (*release)(void *), void *owner);
RUSH_PY int rush_storage_resize(rush_storage *, size_t nbytes);
RUSH_PY int rush_tensor_show(rush_tensor *, rush_storage *, int ndim, const int64_t *size, const int64_t *stride, int64_t offset); /* grows the storage where it must */
/* Keeps a storage whose memory somebody points to, at its place; and the end of that. */
RUSH_PY rush_storage *rush_storage_lend(rush_storage *);
RUSH_PY void rush_storage_unlend(rush_storage *);
/* Says that the contents change no more, as those of a frozen program's weights: what an engine makes of them may be kept until the
 * storage ends. 0, or -1 and an error. */
int rush_storage_settle(rush_storage *);
bool rush_storage_settled(const rush_storage *);
/* One such form: the head of a struct of the engine's, which knows its own by `end`. */
typedef struct rush_kept {
    void (*end)(struct rush_kept *);
    struct rush_kept *next;
    size_t nbytes;
    unsigned version; /* of the storage that it was made of: a write after all makes it void */
} rush_kept;
/* What fits of what is kept; else what `make` makes, with its first two fields and this many bytes. NULL where it can't, the contents may
 * change, or the forms would take more than twice the room of what they were made of. */
rush_kept *rush_storage_form(const rush_storage *, size_t nbytes, bool (*fits)(const rush_kept *, const void *arg), rush_kept *(*make)(const void *arg), const void *arg);
RUSH_PY void rush_storage_keep(rush_storage *);
RUSH_PY void rush_storage_drop(rush_storage *);

/* Set by upper rooms: called when a tensor with autograd state, sparse parts or a Python object ends. */
extern void (*rush_autograd_free)(rush_autograd *);
extern void (*rush_parts_free)(rush_sparse *);
extern void (*rush_qparams_free)(rush_qparams *);
extern RUSH_PY bool (*rush_python_free)(rush_tensor *); /* true: the object keeps the tensor alive */
extern RUSH_PY void (*rush_python_free_storage)(rush_storage *); /* of a storage that owns its object, which ends both or keeps both alive */

/* Set by op/later.c: does what was put off and has to be done before anybody reads or writes the storage's memory. NULL: all that this thread has. */
extern RUSH_PY void (*rush_later_touch)(rush_storage *);
static inline void rush_later_end_waiting(void)
{
    if (RUSH_UNLIKELY(rush_now.pending)) rush_later_touch(NULL);
}
extern void (*rush_later_dropped)(rush_storage *); /* nobody has one that waits any more */
void rush_later_mark(void *);                      /* the `release` of storages whose contents are still to be computed */
static inline bool rush_storage_waits(const rush_storage *s) { return __atomic_load_n(&s->release, __ATOMIC_ACQUIRE) == rush_later_mark; }
RUSH_PY void *rush_storage_touch(rush_storage *);
RUSH_PY void *rush_storage_show(rush_storage *); /* the first byte, for somebody outside */
/* The first byte, of contents that are computed. */
static inline void *rush_storage_data(rush_storage *s)
{
    void *data = __atomic_load_n(&s->data, __ATOMIC_ACQUIRE);
    return RUSH_LIKELY(data && !rush_now.pending) ? data : rush_storage_touch(s);
}
static inline void *rush_ptr(const rush_tensor *t)
{
    char *data = t->storage ? rush_storage_data(t->storage) : NULL;
    return data ? data + t->offset * rush_dtypes[t->dtype].size : NULL;
}
/* The elements of a tensor of one's own, dense and on the CPU, become zeros. */
static inline void rush_clear(rush_tensor *t)
{
    void *data = rush_ptr(t);
    if (data) memset(data, 0, (size_t)t->numel * rush_dtypes[t->dtype].size);
}
static inline unsigned rush_version_of(const rush_tensor *t)
{
    return t->version ? t->version->n : t->storage ? t->storage->version : 0;
}
static inline void rush_version_bump(rush_tensor *t)
{
    if (t->version) ++t->version->n;
    else if (t->storage) ++t->storage->version;
}
RUSH_PY int rush_version_own(rush_tensor *, unsigned from); /* a counter that only t, and views that are made of it, have */
void rush_version_share(rush_tensor *, const rush_tensor *with); /* the counter that another has of its own */
/* Has it elements of its own, in memory and with strides? */
static inline bool rush_in_memory(const rush_tensor *t) { return t->layout == RUSH_STRIDED || t->layout == RUSH_QUANTIZED; }
/* Does it stand for one of another device, over memory of meta? Tensors that answer for themselves may: nobody else reads or writes them. */
static inline bool rush_lacks_data(const rush_tensor *t) { return t->flags & RUSH_T_WATCHED && t->storage && t->storage->device.type == RUSH_META && t->device.type != RUSH_META; }
static inline bool rush_contiguous(const rush_tensor *t) { return t->flags & RUSH_T_CONTIGUOUS; }
bool rush_is_plain(const rush_tensor *); /* contiguous, with the strides of a new tensor in dimensions of one and of none, too */
RUSH_PY bool rush_contiguous_as(const rush_tensor *, rush_memory_format);
/* The format that results take from t: channels last where its strides are in that order, though it may have holes (a part of an image). */
RUSH_PY rush_memory_format rush_format_of(const rush_tensor *t);
RUSH_PY void rush_strides_for(int f, int ndim, const int64_t *size, int64_t *stride);
/* The format of images of so many dimensions that has their channels last; contiguous for what has none. */
static inline rush_memory_format rush_channels_last(int ndim) { return ndim == 5 ? RUSH_CHANNELS_LAST_3D : ndim == 4 ? RUSH_CHANNELS_LAST : RUSH_CONTIGUOUS; }
/* Do two tensors share any byte? 0 no, 1 exactly the same elements in the same order, 2 partly, 3 maybe (one of them has
 * holes: PyTorch does not look closer, and lets it pass). */
int rush_overlap(const rush_tensor *, const rush_tensor *);
int rush_overlaps_input(void); /* the error of an operation that would overwrite what it reads */
RUSH_PY bool rush_self_overlap(const rush_tensor *); /* two indices, one address (expanded) */

/* Shape algebra. All return -1 with an error whose text shows the shapes. */
RUSH_PY int rush_dim_wrap(int64_t dim, int ndim);                 /* -1..: IndexError out of range; ndim 0 counts as 1 */
int rush_broadcast(int n, const rush_tensor *const *ts, int *ndim, int64_t *size);
int rush_broadcast_sizes(int na, const int64_t *a, int nb, const int64_t *b, int *ndim, int64_t *size);
int64_t rush_numel_of(int ndim, const int64_t *size);     /* checked; -1 */
int64_t rush_size_times(int64_t a, int64_t b);                    /* of sizes of different tensors, or of arguments: checked; -1 */
static inline bool rush_sizes_equal(int ndim, const int64_t *a, const int64_t *b) /* few numbers: a loop is quicker than memcmp */
{
    for (int d = 0; d < ndim; ++d)
        if (a[d] != b[d]) return false;
    return true;
}
RUSH_PY bool rush_same_sizes(const rush_tensor *, const rush_tensor *);
/* strides of a view of t with these sizes; false when it would need a copy */
bool rush_view_strides(const rush_tensor *t, int ndim, const int64_t *size, int64_t *stride);
int rush_infer_size(int64_t numel, int n, const int64_t *size, int64_t *out); /* resolves one -1 */
/* "[2, 3]" into a small per-thread ring of buffers, for messages */
RUSH_PY const char *rush_shape_text(int ndim, const int64_t *size);
#define rush_shape_of(t) rush_shape_text((t)->ndim, (t)->size)
/* dtype that PyTorch's type promotion gives these tensors and numbers (rush_value array of tensors/numbers). */
RUSH_PY rush_dtype rush_result_type(int n, const rush_value *values);

/* Copies elements, any dtypes and strides, broadcasting src to dst; no autograd, no version bump. */
RUSH_PY int rush_copy_into(rush_tensor *dst, const rush_tensor *src);
/* t itself when contiguous (and not conj/neg), else a contiguous copy. For kernels' glue. */
RUSH_PY rush_tensor *rush_contiguous_copy(const rush_tensor *t);
/* Of kernels that have two loops: the dtype in which they compute x. */
static inline rush_dtype rush_computed_in(const rush_tensor *x) { return x->dtype == RUSH_F64 ? RUSH_F64 : RUSH_F32; }
RUSH_PY rush_tensor *rush_cast_copy(const rush_tensor *t, rush_dtype); /* contiguous, of that dtype; t itself if it is so */

#endif
