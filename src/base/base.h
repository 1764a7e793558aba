/* base.h - memory, errors, threads, dtypes, random bits: what everything stands on. Knows no tensor. */
#ifndef RUSH_BASE_H
#define RUSH_BASE_H

#ifndef RUSH_BUILDING
#define RUSH_BUILDING /* the typed functions of rushlight/ops.h are printed from what is being built */
#endif
#include <rushlight.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define RUSH_PY RUSH_API /* the Python extension calls it, no others should */
#define RUSH_LIKELY(x) __builtin_expect(!!(x), 1)
#define RUSH_UNLIKELY(x) __builtin_expect(!!(x), 0)
/* On the way of most calls. Such functions stand together: far apart they share lines of the instruction cache with each other
 * and with Python's, and each line that is lost costs some nanoseconds a call (valgrind --cache-sim=yes counts them). */
#define RUSH_HOT __attribute__((hot))
#define RUSH_COUNT(a) (sizeof(a) / sizeof *(a))
#define RUSH_MIN(a, b) ((a) < (b) ? (a) : (b))
#define RUSH_MAX(a, b) ((a) > (b) ? (a) : (b))

/* ---- the thread: one small block of thread-local state, read on every call ---- */

enum rush_mode_bits {
    RUSH_MODE_NO_GRAD = 1,
    RUSH_MODE_INFERENCE = 2,
    RUSH_MODE_AUTOCAST = 4,
    RUSH_MODE_WATCH = 8,       /* somebody sees every operation: op/watch.h */
    RUSH_MODE_PROFILE = 16,
    RUSH_MODE_ANOMALY = 32,
    RUSH_MODE_SAVED_HOOKS = 64,
    RUSH_MODE_INPLACE = 128,   /* the results given to the shape rule must not be resized */
    RUSH_MODE_UNWATCHED = 256, /* nobody is asked, whatever the tensors are */
    RUSH_MODE_READ_TOO = 1024, /* the result given to the shape rule is an argument as well, and must not be resized */
    RUSH_MODE_LATER = 512      /* elementwise work is put off: op/later.h */
};

typedef struct rush_thread {
    uint32_t mode;         /* rush_mode_bits; 0: grad on, nothing else */
    int error;             /* rush_error_kind of the pending error     */
    const rush_op *op;     /* the operation that is running, for messages */
    void **parked;         /* the stack of parked things, see scope.c (src/op) */
    size_t nparked, room;
    uint32_t pending;      /* steps that this thread has put off: op/later.h */
    int in_parallel;       /* inside rush_parallel_for, where nested calls run inline: 1 + which of the pieces; 0 outside */
    bool alone;            /* computes on one thread: a loader's worker thread */
    const uint32_t *outside;   /* the mode in which the call was made that somebody else answers at present (op/watch.h), else NULL */
    rush_generator *generator; /* the default one of who stands for a process of its own (a loader's worker), else NULL */
} rush_thread;
#define RUSH_QUICK_TLS __attribute__((tls_model("initial-exec"))) /* for what most calls read: such room is scarce */
extern RUSH_PY _Thread_local rush_thread rush_now RUSH_QUICK_TLS;

#define rush_failed() RUSH_UNLIKELY(rush_now.error)
/* CHECK(condition, kind, format, ...) in a function that returns -1 or a pointer: see both forms */
#define RUSH_CHECK(cond, kind, ...)                                                                         \
    do {                                                                                                    \
        if (RUSH_UNLIKELY(!(cond))) return rush_fail(kind, __VA_ARGS__);                                    \
    } while (0)
#define RUSH_CHECK_NULL(cond, kind, ...)                                                                    \
    do {                                                                                                    \
        if (RUSH_UNLIKELY(!(cond))) return rush_fail(kind, __VA_ARGS__), NULL;                              \
    } while (0)
/* Options of a public function: NULL is a struct of zeros. */
#define RUSH_OPTIONS(o) ((o) ? (o) : &(const __typeof__(*(o))){0})
/* A number of options o, or its default. */
#define RUSH_OPTION(o, field, otherwise) ((o)->field == RUSH_DEFAULT || (!(o)->exact && (o)->field == 0) ? (otherwise) : (o)->field)
/* Our own bugs only: always on, reports the operation and the place, then traps. */
#define RUSH_ASSERT(cond)                                                                                   \
    do {                                                                                                    \
        if (RUSH_UNLIKELY(!(cond))) rush_assert_failed(#cond, __FILE__, __LINE__);                          \
    } while (0)
/* A warning that is given the first time only, or each time where rush_warn_always(true) asked for that. */
#define RUSH_WARN_ONCE(...)                                         \
    do {                                                            \
        static atomic_flag said_ = ATOMIC_FLAG_INIT;                \
        if (rush_warn_now(&said_)) rush_log(1, __VA_ARGS__);        \
    } while (0)
RUSH_PY bool rush_warn_now(atomic_flag *said) RUSH_COLD;
RUSH_PY void rush_warn_always(bool);

_Noreturn RUSH_COLD void rush_assert_failed(const char *what, const char *file, int line);

/* The pending error's details for callers that save and restore it (a destructor that runs code). */
typedef struct rush_error_state {
    int kind;
    char *message;
} rush_error_state;
RUSH_PY rush_error_state rush_error_take(void);
RUSH_PY void rush_error_restore(rush_error_state);
int rush_error_in(const char *format, ...) RUSH_PRINTF(1, 2) RUSH_COLD; /* the pending error's message says before all else where it was: "'cat.png'". -1 */

/* Gives up one reference of a counted thing; true when it was the last one. Who holds the only reference need not lock. */
static inline bool rush_refs_drop(atomic_int *refs)
{
    return atomic_load_explicit(refs, memory_order_acquire) == 1 || atomic_fetch_sub_explicit(refs, 1, memory_order_acq_rel) == 1;
}

/* ---- memory ---- */

/* Small structures (tensor headers, nodes): per-thread free lists by size class up to 512 bytes, malloc beyond.
 * Memory is not zeroed. NULL and a RUSH_MEMORY_ERROR when there is none. `size` is given back on free. */
void *rush_small_alloc(size_t size);
void rush_small_free(void *, size_t size);
/* Thread-local variables are for a few bytes: one library's are all static once one of them is quick, and glibc leaves some
 * 1,600 bytes of that to all libraries that a process opens late, Python's extensions among them. What is larger comes from
 * these. Room for a few words in a message, RUSH_WORDS bytes; the same room comes again at the eighth call in a thread. */
#define RUSH_WORDS 128
char *rush_words(void);
/* Zeros at first, this thread's until it ends. NULL: it was never asked for with a size, or there is no memory; no error is set. */
typedef enum rush_thread_room { RUSH_ROOM_STREAMS, RUSH_ROOM_WRITERS, RUSH_ROOMS } rush_thread_room;
void *rush_of_thread(rush_thread_room, size_t size);
/* Named, counted malloc for everything else; NULL and an error when there is none. */
RUSH_PY void *rush_malloc(size_t size);
RUSH_PY void *rush_calloc(size_t n, size_t size);
RUSH_PY void *rush_realloc(void *, size_t size);
RUSH_PY void rush_free(void *);
/* Bytes of tensors: 64-byte aligned, size classes, a bounded cache, huge pages for large blocks. *got is the
 * class's size, which rush_block_free() wants back. */
#define RUSH_BEHIND ((size_t)4096) /* bytes that are mapped behind large blocks: OpenBLAS reads a little past the end of a matrix (its issue 4013) */
void *rush_block_alloc(size_t size, size_t *got);
void rush_block_free(void *, size_t got);
/* The same for small blocks that begin with `head` bytes of the caller's own, which do not count as a tensor's. */
void *rush_block_alloc_with(size_t head, size_t size, size_t *got);
void rush_block_free_with(size_t head, void *, size_t got);

typedef struct rush_memory_stats {
    size_t live_bytes, live_blocks;   /* tensor blocks in use                 */
    size_t peak_bytes;
    size_t cached_bytes;              /* free blocks kept for reuse           */
    size_t small_live;                /* small and counted allocations in use */
} rush_memory_stats;
RUSH_PY void rush_memory_stats_read(rush_memory_stats *);
RUSH_PY void rush_memory_trim(void);                 /* gives the cache back to the system */
void rush_memory_limit_cache(size_t bytes);
/* From now on a large block of the calling thread may be up to four times what it asks for, where such a one lies idle: for threads whose tensors live
 * briefly and change their sizes, as a server's do. Else a set of blocks for each size that a batch has would come from the system and go back all the time. */
RUSH_PY void rush_memory_wide(bool);
/* For tests: the n-th allocation from now fails (once, or with `all` every one from then on); 0 switches off. */
RUSH_PY void rush_memory_fail_at(uint64_t n, bool all);
RUSH_PY uint64_t rush_memory_count(void);    /* allocations so far */

/* ---- parallel_for ---- */

/* rush_parallel_for(), in rushlight.h: the split depends on n, grain only in ways that cannot change results of elementwise
 * work. Inline when nested, when n <= grain, or in a forked child. */
void rush_parallel_elsewhere(void); /* a library is about to use the pool by itself: said before, so that forked children know */
RUSH_PY void rush_parallel_alone(bool); /* does the calling thread compute alone from now on? */
bool rush_cpu_suits(void); /* are there kernels for this processor? */
int rush_cpu_refuse(void); /* the error that says there are none; -1 */
int rush_lacks(const char *engine); /* the error that says what is built without, and how to get it; -1 */
void rush_beside_library(char *path, size_t room, const char *file); /* the path of a file in the library's folder; "" where that is not known */
bool rush_busy(void); /* do other programs want this process's processors? Asked before a parallel loop: busy.c */
double rush_granted_processors(void);  /* by the limits of control groups; 0: they set none */
double rush_granted_memory(void);      /* bytes that are available, or that control groups allow if that is less; 0: not known */
RUSH_PY int rush_thread_limit(void); /* min(affinity, cgroup quota) at start, OMP_NUM_THREADS respected */

/* ---- locks: those of the process, in the order in which one may be taken while another is held. A fork takes all: lock.c ---- */

typedef enum rush_lock_name {
    RUSH_LOCK_SUMMARY, RUSH_LOCK_REPLACED, RUSH_LOCK_GUARD, RUSH_LOCK_ONEDNN, RUSH_LOCK_SETTLE, RUSH_LOCK_FFT, RUSH_LOCK_REGISTRY,
    RUSH_LOCK_ACCUMULATORS, RUSH_LOCK_LATER, RUSH_LOCK_COMPILED, RUSH_LOCK_LOG, RUSH_LOCK_MEMORY,
    RUSH_LOCKS
} rush_lock_name;
extern pthread_mutex_t rush_locks[RUSH_LOCKS];
static inline void rush_lock(rush_lock_name i) { pthread_mutex_lock(&rush_locks[i]); }
static inline void rush_unlock(rush_lock_name i) { pthread_mutex_unlock(&rush_locks[i]); }
int rush_forks(void); /* how many forks this process is away from the one that loaded the library */

/* ---- dtypes ---- */

/* All that is known of an element type, and what others call it: one row, which files, messages and Python ask. */
typedef struct rush_dtype_info {
    const char *name;  /* "float32"                                                   */
    const char *word;  /* "Float": in messages, and of FloatTensor and FloatStorage   */
    const char *c_type; /* "float": in messages that name C++ types                 */
    uint8_t size;
    uint8_t category;  /* 0 bool, 1 integer, 2 float, 3 complex                       */
    bool is_signed;
    bool storage;      /* checkpoints have a storage class of that word               */
    uint8_t onnx;      /* ONNX's number; 0: none                                      */
    int8_t numpy;      /* NumPy's number of the type that holds the same bits; -1     */
    char npy[4];       /* the code of .npy files; "": none                            */
    char buffer[4];    /* the code of Python's buffers; "": none                      */
    const char *safetensors; /* the word of safetensors files; NULL: none             */
    double eps, min, max, tiny;
} rush_dtype_info;
extern RUSH_PY const rush_dtype_info rush_dtypes[RUSH_DTYPES];
RUSH_PY const char *rush_dtype_word(rush_dtype);   /* the row's, also of what is no dtype */
RUSH_PY rush_dtype rush_dtype_real(rush_dtype);    /* complex64 -> float32; others as they are */
RUSH_PY rush_dtype rush_dtype_complex(rush_dtype); /* float32 -> complex64; error-free for floats */
/* Half types to and from float, and a number to and from any dtype. */
float rush_f16_to_f32(uint16_t);
uint16_t rush_f32_to_f16(float);
static inline float rush_bf16_to_f32(uint16_t h)
{
    union { uint32_t u; float f; } x = {.u = (uint32_t)h << 16};
    return x.f;
}
static inline uint16_t rush_f32_to_bf16(float f)
{
    union { float f; uint32_t u; } x = {.f = f};
    if (f != f) return 0x7fc0;
    return (uint16_t)((x.u + 0x7fff + ((x.u >> 16) & 1)) >> 16);
}
/* v as an element of that floating dtype holds it. */
static inline double rush_round_to(double v, rush_dtype d)
{
    return d == RUSH_F32 ? (float)v : d == RUSH_BF16 ? rush_bf16_to_f32(rush_f32_to_bf16((float)v)) : d == RUSH_F16 ? rush_f16_to_f32(rush_f32_to_f16((float)v)) : v;
}
/* Converts n elements between any two dtypes (strides in bytes), with C's and PyTorch's conversions. */
RUSH_PY void rush_convert(void *dst, rush_dtype, int64_t dstride, const void *src, rush_dtype, int64_t sstride, int64_t n);

/* ---- random bits: PyTorch's CPU generator ---- */

struct rush_generator {
    atomic_int refs;
    atomic_int busy;        /* held while numbers are drawn: rush_forks() + 1, see rush_generator_lock() */
    uint64_t seed;
    uint32_t mt[624];
    int left;               /* words left before the next refill */
    int next;
    bool has_normal_double, has_normal_float;
    double normal_double;   /* Box-Muller's spare, as PyTorch keeps it */
    float normal_float;
    rush_device device;
    void *py;               /* the Python object, borrowed */
};
/* One thread draws at a time; the functions below leave the lock to their callers. */
void rush_generator_lock(rush_generator *);
static inline void rush_generator_unlock(rush_generator *g) { atomic_store_explicit(&g->busy, 0, memory_order_release); }
uint32_t rush_random32(rush_generator *);
RUSH_PY uint64_t rush_random64(rush_generator *);

#endif
