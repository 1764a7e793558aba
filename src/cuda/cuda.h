/* cuda.h - the CUDA backend's own: devices, launches, memory, and how operands become a kernel's parameters. */
#ifndef RUSH_CUDA_H
#define RUSH_CUDA_H

#include "cuda/driver.h"
#include "cuda/params.h"
#include "op/op.h"
#include "op/tables.h"
#include "tensor/backend.h"
#include "tensor/cuda.h"
#include <rushlight/backend.h>

enum { CUDA_DEVICES = 16, CUDA_POOL = 32, CUDA_STREAMS = 1 + 2 * CUDA_POOL };

typedef struct cuda_module {
    const char *file; /* of src/cuda, without its end */
    CUmodule module;
    struct cuda_module *next;
} cuda_module;

typedef struct cuda_device {
    CUdevice number;
    CUcontext context;
    cuda_module *modules; /* those of which a kernel was asked for */
    CUstream streams[CUDA_STREAMS]; /* [0] NULL: the device's own; then a pool of normal ones and one of those with priority, made when they are asked for */
    unsigned asked[2];    /* how often streams of each pool were */
    int processors, major;
    int shared;           /* bytes of memory that a block can have at most */
    cuda_fault *fault;    /* page-locked: what a kernel found */
    _Atomic rush_error_kind spoiled_kind;
    char *_Atomic spoiled; /* why what it computed cannot be relied on; NULL: it can */
} cuda_device;

extern const rush_cuda_driver *cuda_driver;
extern cuda_device cuda_devices[CUDA_DEVICES];
extern int cuda_emulated;
extern rush_backend cuda_backend;
extern const rush_cuda_graphs cuda_graphs;

/* 0, or -1 and an error with the driver's text. */
int cuda_check(CUresult, const char *what);
cuda_device *cuda_enter(rush_device); /* made current in this thread; NULL and an error */
CUstream cuda_stream(rush_device);    /* the thread's current one */
/* Starts the kernel of that name on the current stream, a thread per unit of work as far as that pays, params[0..bytes) its
 * structure. An unknown name is a NotImplementedError. */
int cuda_launch(rush_device, const char *kernel, const void *params, int64_t work);
int cuda_launch_function(rush_device, int stream, CUfunction, const char *name, const void *params, int64_t work); /* of one that is no file's */
int cuda_launch_blocks(rush_device, const char *kernel, const void *params, int64_t blocks);
/* A block for each piece of work, of so many threads, with so many bytes that the kernel has as shared_memory. */
int cuda_launch_shared(rush_device, const char *kernel, const void *params, int64_t blocks, int threads, int shared);
/* Blocks that hold so many teams of threads; and pieces that long work is cut into while there are blocks too few for a large device, a
 * number of elements for each thread at the least. Both depend on the shape alone, and so do results. */
static inline int64_t cuda_blocks_of(int64_t teams, int64_t team) { return (teams * team + CUDA_THREADS - 1) / CUDA_THREADS; }
static inline int64_t cuda_pieces_of(int64_t teams, int64_t team, int64_t length)
{
    enum { BLOCKS = 1024, LEAST = 16 };
    const int64_t pieces = RUSH_MIN(BLOCKS / cuda_blocks_of(teams, team), length / (team * LEAST));
    return RUSH_MAX(pieces, 1);
}
void cuda_spoil(rush_device, rush_error_kind, const char *why); /* told when it is waited for; NULL: this thread is not told */
int cuda_launched(rush_device, const char *what); /* with CUDA_LAUNCH_BLOCKING: waits */
int cuda_fault_check(rush_device); /* after waiting: what kernels found becomes an error */

/* ---- graph.c: what a stream is given, kept and launched again ---- */
int cuda_captures(void);                  /* how many are underway in the process */
rush_cuda_graph *cuda_capture(rush_device); /* the graph that the thread's current stream is captured for; NULL: none */
/* Between the two a capture of this thread's stream allows calls of the driver that nothing in it depends on: allocations, plans of libraries. */
int cuda_relaxed(rush_device);
void cuda_strict(int mode);
struct memory_pool *cuda_graph_memory(const rush_cuda_graph *);
/* Where the numbers stand that it draws next from a generator, `by` of them: at *offset behind what *state says at each launch. */
int cuda_graph_draw(rush_cuda_graph *, rush_generator *, uint64_t by, const uint64_t **state, uint64_t *offset);
int cuda_upload(rush_device, void *to, const void *numbers, size_t bytes); /* of the host, which may be gone when a graph is launched */

/* ---- memory.c: a caching allocator in the order of the stream ---- */
typedef struct memory_pool memory_pool;
rush_pool_id cuda_pool_id(bool of_a_graph); /* a new one */
memory_pool *cuda_pool_keep(rush_pool_id);  /* made if there is none */
void cuda_pool_drop(memory_pool *);
int cuda_pool_pin(memory_pool *, void *);   /* memory of the driver's host_alloc is freed with the pool */
int cuda_pool_new(rush_pool_id, bool whole, bool last_resort);
int cuda_pool_free(rush_pool_id);
int cuda_pool_users(rush_pool_id);
int cuda_pool_begin(rush_device, rush_pool_id);
int cuda_pool_end(rush_device, rush_pool_id);
size_t cuda_memory_blocks(rush_device, rush_cuda_block *, size_t room);
void *cuda_alloc(rush_device, size_t bytes);
void cuda_free(rush_device, void *, size_t bytes);
int cuda_memory_read(rush_device, rush_cuda_memory *);
int cuda_memory_empty(rush_device);
int cuda_memory_fraction(rush_device, double fraction);
int cuda_memory_reset_peak(rush_device);

/* ---- ipc.c: memory that other processes have ---- */
typedef struct cuda_ticket cuda_ticket;
bool cuda_tickets_back(cuda_ticket **); /* is nothing lent any more? Those that are back are gone */
void cuda_tickets_add(cuda_ticket **, cuda_ticket *);
extern const rush_cuda_sharing cuda_sharing;
typedef struct cuda_home { /* where memory lies */
    char *p;         /* the block, */
    size_t bytes;
    char *segment;   /* the driver's allocation that it is of, */
    struct cuda_span *span; /* or the addresses; NULL */
    cuda_ticket **tickets;
} cuda_home;
int cuda_memory_home(rush_device, const void *, cuda_home *);
void cuda_memory_lend(const cuda_home *, cuda_ticket *); /* the block stays until it is back */
void cuda_memory_collect(void); /* frees what other processes are done with */

/* ---- span.c: addresses whose memory comes and goes piece by piece ---- */
typedef struct cuda_span cuda_span;
cuda_span *cuda_span_new(rush_device, size_t piece); /* room for all that the device has; NULL without an error */
void cuda_span_free(cuda_span *);                    /* which has no memory any more */
char *cuda_span_base(const cuda_span *);
size_t cuda_span_room(const cuda_span *);
size_t cuda_span_piece(const cuda_span *);
CUresult cuda_span_access(rush_device, CUdeviceptr, size_t bytes); /* the device may read and write there */
int cuda_span_export(cuda_span *, size_t first, size_t n, int *fds); /* descriptors of pieces, which stay open as long as these have their memory */
bool cuda_span_map(cuda_span *, char *p, size_t bytes); /* whole pieces; false: the driver has no more */
void cuda_span_unmap(cuda_span *, char *p, size_t bytes);

/* ---- trace.c: when devices did what ---- */
int cuda_trace_begin(bool memory, uint32_t *thread);
void cuda_trace_memory(rush_device, int64_t bytes, size_t active, size_t reserved); /* more or less of it is in use, and so much then */
int cuda_trace_end(rush_cuda_record **, size_t *n);

/* ---- walk.c: operands to parameters ---- */
/* operand[0..nout) are written; compute[k] is the type that a kernel reads k as. */
int cuda_walk_make(cuda_walk *, int nout, int n, const rush_value *operand, const uint8_t *compute);
int cuda_rows_run(const char *kernel, int nout, int n, const rush_value *operand, const uint8_t *compute, cuda_rows *);
int cuda_convert(rush_tensor *to, const rush_tensor *from);
int cuda_fill(rush_tensor *, rush_value number);
int cuda_multiply(rush_tensor *a, rush_tensor *b, rush_tensor *d, rush_tensor *c, rush_value alpha, rush_value beta); /* product.c */
int cuda_sample_into(rush_tensor *, const struct sampler *, rush_generator *); /* random.c */
void cuda_random_take(rush_generator *, uint64_t by, uint64_t *seed, uint64_t *offset); /* where it stands; it counts on */
/* window.c */
int cuda_pool(rush_pool_kind, const rush_pool *, const rush_tensor *x, rush_tensor *y, rush_tensor *index);
int cuda_pool_scatter(int64_t planes, int64_t result, int64_t space, const rush_tensor *g, const rush_tensor *index, rush_tensor *gx, bool add);
int cuda_along(const rush_taps *, int64_t outer, int64_t inner, const rush_tensor *x, rush_tensor *y, bool back);
int cuda_nearest(const rush_nearest *, const rush_tensor *x, rush_tensor *y);
int cuda_pad(const rush_pad *, const rush_tensor *x, rush_tensor *y, bool back);
int cuda_grid_run(rush_grid_pass, const rush_grid *, rush_dtype, rush_device, const rush_grid_data *);
/* look.c */
int cuda_distances_run(const rush_distances *, const rush_tensor *a, const rush_tensor *b, rush_tensor *to);
int cuda_distances_back(const rush_distances *, const rush_tensor *weight, const rush_tensor *a, const rush_tensor *b, const rush_tensor *distance, rush_tensor *ga);
int cuda_steps_run(const rush_step_work *, rush_device); /* optim.c */
extern const rush_tables cuda_tables;

/* The end of the name of a kernel that computes in the widest type of t's kind, halves in float. */
static inline const char *cuda_word(rush_dtype d)
{
    const int category = rush_dtypes[d].category;
    return category < 2 ? "i64" : category == 3 ? (d == RUSH_C128 ? "c128" : "c64") : d == RUSH_F64 ? "f64" : "f32";
}
static inline int64_t cuda_int(rush_value v) { return v.kind == RUSH_V_FLOAT ? (int64_t)v.f : v.kind == RUSH_V_COMPLEX ? (int64_t)v.c[0] : v.i; }
/* name_(in...): for kernels that are written with operations. */
static inline rush_tensor *cuda_inplace(const char *name, int n, const rush_value *in) { return rush_apply_inplace(rush_op_find(name), n, in); }
#define CUDA_INPLACE(name, ...) cuda_inplace(name, (int)RUSH_COUNT(((const rush_value[]){__VA_ARGS__})), (const rush_value[]){__VA_ARGS__})

/* rtc.c: what NVRTC, or the C++ compiler for emulated devices, makes of a kernel with this name; from the user's cache where it was made before. */
bool cuda_compiles(void);
CUfunction cuda_compile(rush_device, const char *name, const char *text); /* NULL and an error */
extern const struct rush_fuser cuda_fuser; /* fuse.c */

int cuda_column(void);            /* puts the kernels into the backend's column */
const char *cuda_library(void);   /* the operations that NVIDIA's libraries do, where they are there */
const char *cuda_host(void);      /* those that the host computes */
size_t cuda_cudnn_version(void);  /* 0: it is not there, or not for these devices */

#endif
