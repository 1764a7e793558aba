/* cudnn.c - convolutions by cuDNN's graph API, on NVIDIA's devices where it is installed. convolve.c computes what it does not take.
 *
 * A graph is one operation: the result of a plain convolution, its image's gradient, or its weight's. cuDNN's heuristics list the
 * ways to compute it, the fastest first; the first that runs becomes a plan, or the fastest of those that were timed
 * (torch.backends.cudnn.benchmark). Plans are kept by all that went into them, for each thread, since they may not run in two at once.
 */
#include "cuda/column.h"
#include "cuda/libraries.h"
#include <pthread.h>

typedef cudnnBackendDescriptor_t part; /* of a graph */

enum { X = 1, W, Y, BUCKETS = 512, PLANS = 2048, WAYS = 128, NOTES = 32, TIMED = 3 };

/* What a plan depends on. Made from zeros, so that bytes can be compared. */
typedef struct key {
    rush_conv c;
    int what, dims, dtype, last; /* channels last in memory */
    int device, alignment, tf32, deterministic, benchmark;
} key;

typedef struct plan {
    struct plan *next;
    key key;
    part way, steps;  /* NULL: cuDNN does not compute it */
    int64_t bytes;    /* of workspace */
    bool lacked;      /* memory, for some way: another time there may be more */
} plan;

typedef struct thread {
    cudnnHandle_t handles[CUDA_DEVICES];
    plan *plans[BUCKETS];
    int n;
} thread;

/* ---- errors ---- */

/* The first call that failed; those after it are not made. */
typedef struct tried {
    const rush_cudnn *dnn;
    cudnnStatus_t status;
    const char *what;
    char detail[160];
} tried;

static bool failed(tried *t, cudnnStatus_t status, const char *what)
{
    if (!status || t->status) return t->status;
    t->status = status, t->what = what;
    t->dnn->last_error(t->detail, sizeof t->detail);
    return true;
}

static bool is_unsupported(cudnnStatus_t s) { return s >= CUDNN_STATUS_NOT_SUPPORTED && s < CUDNN_STATUS_INTERNAL_ERROR; }
static int raise(const tried *t) { return rush_fail(RUSH_RUNTIME_ERROR, "cuDNN error: %s (%s, %d%s%s)", t->dnn->status_text(t->status), t->what, t->status, *t->detail ? ": " : "", t->detail); }

/* ---- descriptors ---- */

static part make(tried *t, cudnnBackendDescriptorType_t type)
{
    part p = NULL;
    return t->status || failed(t, t->dnn->make(type, &p), "cudnnBackendCreateDescriptor") ? NULL : p;
}
static void set(tried *t, part p, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t n, const void *values)
{
    if (!t->status) failed(t, t->dnn->set(p, name, type, n, values), "cudnnBackendSetAttribute");
}
static void set_part(tried *t, part p, cudnnBackendAttributeName_t name, part value) { set(t, p, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value); }
static int64_t get(tried *t, part p, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t room, void *values)
{
    int64_t n = 0;
    return t->status || failed(t, t->dnn->get(p, name, type, room, &n, values), "cudnnBackendGetAttribute") ? 0 : n;
}
static void finish(tried *t, part p)
{
    if (!t->status) failed(t, t->dnn->finish(p), "cudnnBackendFinalize");
}
static void drop(const rush_cudnn *dnn, part p)
{
    if (p) dnn->drop(p);
}

static cudnnDataType_t data_type(int d) { return d == RUSH_F16 ? CUDNN_DATA_HALF : d == RUSH_BF16 ? CUDNN_DATA_BFLOAT16 : d == RUSH_F64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT; }

/* (first, second, space), dense */
static part tensor(tried *t, const key *k, int64_t id, int64_t first, int64_t second, const int64_t *space)
{
    const int n = k->dims + 2;
    const int64_t alignment = k->alignment;
    const cudnnDataType_t type = data_type(k->dtype);
    int64_t size[5] = {first, second}, stride[5], step = k->last ? second : 1;
    for (int i = 0; i < k->dims; i++) size[i + 2] = space[3 - k->dims + i];
    for (int i = n - 1; i > 1; i--) stride[i] = step, step *= size[i];
    stride[1] = k->last ? 1 : step;
    stride[0] = k->last ? step : step * second;
    part p = make(t, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    set(t, p, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(t, p, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, n, size);
    set(t, p, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, n, stride);
    set(t, p, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    set(t, p, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    finish(t, p);
    return p;
}

static part convolution(tried *t, const key *k)
{
    const int64_t dims = k->dims, skip = 3 - dims;
    const cudnnDataType_t type = k->dtype == RUSH_F64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT; /* halves are summed as floats */
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    part p = make(t, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    set(t, p, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(t, p, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    set(t, p, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &dims);
    set(t, p, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, dims, k->c.before + skip);
    set(t, p, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, dims, k->c.before + skip);
    set(t, p, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, dims, k->c.dilation + skip);
    set(t, p, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, dims, k->c.stride + skip);
    finish(t, p);
    return p;
}

/* The six attributes of each of the operations follow each other in this order */
enum { ALPHA, BETA, CONVOLUTION, OF_W, OF_X, OF_Y };

static part operation(tried *t, const key *k, part conv, part x, part w, part y)
{
    static const struct { int type, first; } kinds[] = {
        [CUDA_CONV_FORWARD] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA},
        [CUDA_CONV_BACK] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA},
        [CUDA_CONV_WEIGH] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA}};
    const int first = kinds[k->what].first, type = k->dtype == RUSH_F64 ? CUDNN_TYPE_DOUBLE : CUDNN_TYPE_FLOAT;
    const double wide[] = {1, 0};
    const float narrow[] = {1, 0};
    part p = make(t, kinds[k->what].type);
    set(t, p, first + ALPHA, type, 1, k->dtype == RUSH_F64 ? (const void *)wide : narrow);
    set(t, p, first + BETA, type, 1, k->dtype == RUSH_F64 ? (const void *)(wide + 1) : narrow + 1);
    set_part(t, p, first + CONVOLUTION, conv);
    set_part(t, p, first + OF_W, w), set_part(t, p, first + OF_X, x), set_part(t, p, first + OF_Y, y);
    finish(t, p);
    return p;
}

static part graph_of(tried *t, cudnnHandle_t handle, part op)
{
    part p = make(t, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(t, p, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    set_part(t, p, CUDNN_ATTR_OPERATIONGRAPH_OPS, op);
    finish(t, p);
    return p;
}

/* ---- ways to compute a graph ---- */

/* As PyTorch chooses: no inputs rounded further than was asked, nothing of float32 on tensor cores without TF32, and with
 * `deterministic` no sums whose order changes. */
static bool may_be(const rush_cudnn *dnn, part way, const key *k)
{
    cudnnBackendNumericalNote_t notes[NOTES];
    tried t = {.dnn = dnn};
    part engine = make(&t, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    get(&t, way, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &engine);
    const int64_t n = get(&t, engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, NOTES, notes);
    bool may = !t.status;
    for (int64_t i = 0; i < n; i++) {
        if (notes[i] == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS) may = may && k->dtype != RUSH_F32;
        if (notes[i] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE) may = may && (k->dtype != RUSH_F32 || k->tf32);
        if (notes[i] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) may = may && !k->deterministic;
    }
    drop(dnn, engine);
    return may;
}

/* Adds those that a heuristic lists; a heuristic that knows none adds none. */
static int ways_of(const rush_cudnn *dnn, part graph, cudnnBackendHeurMode_t mode, part *to, int n)
{
    tried t = {.dnn = dnn};
    part heuristic = make(&t, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    set_part(&t, heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    set(&t, heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    finish(&t, heuristic);
    int64_t known = RUSH_MIN(get(&t, heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, NULL), WAYS - n);
    for (int64_t i = 0; i < known; i++) to[n + i] = make(&t, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    const int64_t got = get(&t, heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, known, to + n);
    for (int64_t i = got; i < known; i++) drop(dnn, to[n + i]);
    drop(dnn, heuristic);
    return n + (int)RUSH_MIN(got, known);
}

static part steps_of(tried *t, cudnnHandle_t handle, part way, int64_t *bytes)
{
    part p = make(t, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    set(t, p, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    set_part(t, p, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, way);
    finish(t, p);
    get(t, p, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, bytes);
    return p;
}

/* memory: of x, w, y */
static void execute(tried *t, cudnnHandle_t handle, part steps, void *const *memory, void *workspace)
{
    static const int64_t ids[] = {X, W, Y};
    part pack = make(t, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    set(t, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 3, ids);
    set(t, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, memory);
    set(t, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    finish(t, pack);
    if (!t->status) failed(t, t->dnn->execute(handle, steps, pack), "cudnnBackendExecute");
    drop(t->dnn, pack);
}

/* -1 and an error: there is no memory. */
static int run(tried *t, cudnnHandle_t handle, const plan *p, void *const *memory)
{
    const rush_device d = {RUSH_CUDA, (int8_t)p->key.device};
    void *workspace = p->bytes ? cuda_alloc(d, (size_t)p->bytes) : NULL;
    if (p->bytes && !workspace) return -1;
    execute(t, handle, p->steps, memory, workspace);
    if (workspace) cuda_free(d, workspace, (size_t)p->bytes);
    return 0;
}

/* Milliseconds of some runs after a first one, 0 where they are not asked for; negative: it does not run. */
static float time_of(tried *t, cudnnHandle_t handle, plan *p, void *const *memory)
{
    const rush_device d = {RUSH_CUDA, (int8_t)p->key.device};
    CUevent begin = NULL, end = NULL;
    float ms = 0;
    if (run(t, handle, p, memory)) p->lacked = true, rush_error_clear(); /* another way may take less */
    if (t->status || p->lacked || !p->key.benchmark) return t->status || p->lacked ? -1 : 0;
    int bad = cuda_driver->event_create(&begin, 0) || cuda_driver->event_create(&end, 0) || cuda_driver->event_record(begin, cuda_stream(d));
    for (int i = 0; i < TIMED && !bad; i++) bad = run(t, handle, p, memory) || t->status;
    bad = bad || cuda_driver->event_record(end, cuda_stream(d)) || cuda_driver->event_synchronize(end) || cuda_driver->event_elapsed(&ms, begin, end);
    if (begin) cuda_driver->event_destroy(begin);
    if (end) cuda_driver->event_destroy(end);
    rush_error_clear();
    return bad ? -1 : ms;
}

/* Runs ways of p's graph until one has worked, or all that are to be timed, and keeps the best in p. */
static void choose(tried *first, cudnnHandle_t handle, plan *p, part graph, void *const *memory)
{
    const rush_cudnn *dnn = first->dnn;
    const int limit = rush_cuda_switch(RUSH_CUDNN_BENCHMARK_LIMIT, -1);
    part ways[WAYS];
    float best = -1;
    int n = ways_of(dnn, graph, CUDNN_HEUR_MODE_FALLBACK, ways, ways_of(dnn, graph, CUDNN_HEUR_MODE_A, ways, 0)), timed = 0;
    for (int i = 0; i < n; i++) {
        plan one = {.key = p->key, .way = ways[i]};
        tried t = {.dnn = dnn};
        float ms = -1;
        const bool wanted = best < 0 || (p->key.benchmark && (!limit || timed < limit));
        if (wanted && may_be(dnn, ways[i], &p->key)) {
            one.steps = steps_of(&t, handle, ways[i], &one.bytes);
            if (!t.status) ms = time_of(&t, handle, &one, memory);
            p->lacked = p->lacked || one.lacked;
            if (ms >= 0) timed++;
            else if (t.status && !is_unsupported(t.status) && !first->status) *first = t;
        }
        if (ms >= 0 && (best < 0 || ms < best)) {
            drop(dnn, p->steps), drop(dnn, p->way);
            best = ms, p->way = one.way, p->steps = one.steps, p->bytes = one.bytes;
        } else {
            drop(dnn, one.steps), drop(dnn, one.way);
        }
    }
    if (best >= 0) first->status = 0;
}

/* A plan that has run; NULL and an error. Without steps cuDNN has none. */
static plan *plan_new(const rush_cudnn *dnn, cudnnHandle_t handle, const key *k, void *const *memory)
{
    tried t = {.dnn = dnn};
    plan *p = rush_calloc(1, sizeof *p);
    if (!p) return NULL;
    p->key = *k;
    part x = tensor(&t, k, X, k->c.n, k->c.in, k->c.space), w = tensor(&t, k, W, k->c.out, k->c.in / k->c.groups, k->c.kernel), y = tensor(&t, k, Y, k->c.n, k->c.out, k->c.result);
    part conv = convolution(&t, k), op = operation(&t, k, conv, x, w, y), graph = graph_of(&t, handle, op);
    if (!t.status) choose(&t, handle, p, graph, memory);
    drop(dnn, graph), drop(dnn, op), drop(dnn, conv), drop(dnn, y), drop(dnn, w), drop(dnn, x);
    if (!t.status || is_unsupported(t.status)) return p;
    raise(&t);
    rush_free(p);
    return NULL;
}

/* ---- what a thread keeps ---- */

static void forget(const rush_cudnn *dnn, thread *own)
{
    for (int i = 0; i < BUCKETS; i++)
        for (plan *p = own->plans[i], *next; p; p = next) {
            next = p->next;
            drop(dnn, p->steps), drop(dnn, p->way);
            rush_free(p);
        }
    memset(own->plans, 0, sizeof own->plans);
    own->n = 0;
}

static pthread_key_t of_thread;
static void thread_end(void *arg)
{
    thread *own = arg;
    const rush_cudnn *dnn = cuda_cudnn();
    forget(dnn, own);
    for (int i = 0; i < CUDA_DEVICES; i++)
        if (own->handles[i] && cuda_enter((rush_device){RUSH_CUDA, (int8_t)i})) dnn->destroy(own->handles[i]);
    rush_free(own);
}
static void key_new(void) { pthread_key_create(&of_thread, thread_end); }

static thread *thread_own(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    static _Thread_local thread *own;
    if (own) return own;
    pthread_once(&once, key_new);
    if ((own = rush_calloc(1, sizeof *own))) pthread_setspecific(of_thread, own);
    return own;
}

static plan **place(thread *own, const key *k)
{
    const int64_t *words = (const int64_t *)&k->c;
    uint64_t h = (uint64_t)(k->what + 4 * k->dtype + 256 * k->device);
    for (size_t i = 0; i < sizeof k->c / sizeof *words; i++) h = (h ^ (uint64_t)words[i]) * 0x9e3779b97f4a7c15u, h ^= h >> 29;
    plan **at = &own->plans[h % BUCKETS];
    while (*at && memcmp(&(*at)->key, k, sizeof *k)) at = &(*at)->next;
    return at;
}

/* ---- the way in ---- */

/* Dense in that format, t itself where it is so. */
static rush_tensor *dense(rush_tensor *t, rush_memory_format f, bool to_be_written)
{
    if (!(t->flags & (RUSH_T_CONJ | RUSH_T_NEG)) && rush_contiguous_as(t, f)) return t;
    rush_tensor *made = rush_tensor_new_like(t, t->dtype, t->device, f);
    return made && (to_be_written || !rush_copy_into(made, t)) ? made : NULL;
}

/* Its offsets are of 31 bits, it knows no padding that is cut off at the end (a transposed convolution's may be), and it has these types. */
static bool suits(const rush_conv *c, const rush_tensor *x, const rush_tensor *w, const rush_tensor *y)
{
    if (x->dtype != w->dtype || x->dtype != y->dtype || RUSH_MAX(x->numel, RUSH_MAX(w->numel, y->numel)) > INT32_MAX) return false;
    for (int i = 0; i < 3; i++) {
        const int64_t slack = c->space[i] + 2 * c->before[i] - (c->kernel[i] - 1) * c->dilation[i] - 1;
        if (slack < 0 || slack / c->stride[i] + 1 != c->result[i]) return false;
    }
    return x->dtype == RUSH_F16 || x->dtype == RUSH_BF16 || x->dtype == RUSH_F32 || x->dtype == RUSH_F64;
}

static int alignment(const rush_tensor *x, const rush_tensor *w, const rush_tensor *y)
{
    const size_t bits = (size_t)rush_ptr(x) | (size_t)rush_ptr(w) | (size_t)rush_ptr(y) | 16;
    return (int)(bits & -bits);
}

static int convolve_by(const rush_cudnn *dnn, rush_device d, const key *k, void *const *memory)
{
    thread *own = thread_own();
    tried t = {.dnn = dnn};
    key untimed = *k;
    if (!own) return -1;
    cudnnHandle_t *handle = &own->handles[k->device];
    if (!*handle && failed(&t, dnn->create(handle), "cudnnCreate")) return raise(&t);
    if (failed(&t, dnn->stream(*handle, cuda_stream(d)), "cudnnSetStream")) return raise(&t);
    plan **at = place(own, k), *p = *at;
    if (!p && k->benchmark && cuda_capture(d)) untimed.benchmark = false, k = &untimed, at = place(own, k), p = *at; /* nothing runs that could be timed */
    if (p && !p->steps) return 0;
    if (p) return run(&t, *handle, p, memory) || (t.status && raise(&t)) ? -1 : 1;
    if (own->n >= PLANS) forget(dnn, own), at = place(own, k);
    if (!(p = plan_new(dnn, *handle, k, memory))) return -1;
    const bool runs = p->steps;
    if (runs || !p->lacked) *at = p, own->n++;
    else rush_free(p);
    return runs;
}

static int convolve(const rush_cudnn *dnn, const key *k, void *const *memory)
{
    const rush_device d = {RUSH_CUDA, (int8_t)k->device};
    if (!cuda_enter(d)) return -1;
    const int mode = cuda_relaxed(d), done = convolve_by(dnn, d, k, memory);
    cuda_strict(mode);
    return done;
}

int cuda_cudnn_convolve(int what, const rush_conv *c, rush_tensor *a, rush_tensor *b, rush_tensor *to)
{
    rush_tensor *x = what == CUDA_CONV_FORWARD ? a : what == CUDA_CONV_BACK ? to : b, *w = what == CUDA_CONV_WEIGH ? to : b, *y = what == CUDA_CONV_FORWARD ? to : a;
    if (!cuda_has_libraries() || !rush_cuda_switch(RUSH_CUDNN_ENABLED, -1) || !suits(c, x, w, y)) return 0;
    const rush_cudnn *dnn = cuda_cudnn();
    if (!dnn) return rush_error_clear(), 0;
    rush_memory_format f = rush_format_of(x);
    if (f == RUSH_CONTIGUOUS) f = rush_format_of(w);
    rush_tensor *xd = dense(x, f, x == to), *wd = dense(w, f, w == to), *yd = dense(y, f, y == to);
    if (!xd || !wd || !yd) return -1;
    key k;
    memset(&k, 0, sizeof k);
    k.c = *c, k.what = what, k.dims = RUSH_MAX(x->ndim - 2, 2), k.dtype = x->dtype, k.last = f != RUSH_CONTIGUOUS;
    k.device = to->device.index, k.alignment = alignment(xd, wd, yd), k.tf32 = rush_cuda_switch(RUSH_CUDNN_TF32, -1), k.benchmark = rush_cuda_switch(RUSH_CUDNN_BENCHMARK, -1);
    k.deterministic = rush_cuda_switch(RUSH_CUDNN_DETERMINISTIC, -1) || rush_cuda_switch(RUSH_DETERMINISTIC, -1);
    void *const memory[] = {rush_ptr(xd), rush_ptr(wd), rush_ptr(yd)};
    const int done = convolve(dnn, &k, memory);
    rush_tensor *made = what == CUDA_CONV_FORWARD ? yd : what == CUDA_CONV_BACK ? xd : wd;
    return done == 1 && made != to && rush_copy_into(to, made) ? -1 : done;
}

size_t cuda_cudnn_version(void)
{
    const rush_cudnn *dnn = cuda_has_libraries() ? cuda_cudnn() : NULL;
    rush_error_clear();
    return dnn ? dnn->version() : 0;
}
