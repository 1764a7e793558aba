/* graph.c - CUDA graphs: what a stream is given between begin and end is kept by the driver, and launched again as a whole.
 *
 * Kernels find what they were given at the same places each time. So memory that is allocated meanwhile comes from a pool (memory.c) that
 * stays as long as the graph; where random numbers begin lies in memory of the device and is written before each launch, as far on as
 * eager calls would be; and numbers of the host that the library itself copies there are kept page-locked with the pool.
 */
#include "cuda/cuda.h"
#include <pthread.h>
#include <stdatomic.h>

typedef struct draw {
    rush_generator *generator;
    uint64_t *state; /* of the device: seed and offset */
    uint64_t by;     /* numbers that a launch takes, as the generator counts them */
    struct draw *next;
} draw;

struct rush_cuda_graph {
    rush_device device;
    int stream;
    unsigned long long capture; /* the driver's number of what is underway; 0: nothing */
    bool keep, ended;           /* ended: there is something to launch */
    CUgraph graph;
    CUgraphExec exec;
    memory_pool *pool;
    rush_pool_id pool_id;
    draw *draws;
    rush_cuda_graph *next; /* of those that are captured */
};

static rush_cuda_graph *captured;
static atomic_int underway;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool debug; /* graphs are kept for dump() */

int cuda_captures(void) { return atomic_load_explicit(&underway, memory_order_relaxed); }
memory_pool *cuda_graph_memory(const rush_cuda_graph *g) { return g->pool; }

static rush_cuda_graph *capture_of(CUstream s)
{
    int state = CU_CAPTURE_NONE;
    unsigned long long id = 0;
    if (!cuda_captures() || cuda_driver->capture_info(s, &state, &id, NULL, NULL, NULL) || state != CU_CAPTURE_ACTIVE) return NULL;
    pthread_mutex_lock(&lock);
    rush_cuda_graph *g = captured;
    while (g && g->capture != id) g = g->next;
    pthread_mutex_unlock(&lock);
    return g;
}

rush_cuda_graph *cuda_capture(rush_device d) { return cuda_captures() && cuda_enter(d) ? capture_of(cuda_stream(d)) : NULL; }

static int relax(bool wanted)
{
    int mode = CU_CAPTURE_RELAXED;
    return wanted && !cuda_driver->capture_mode(&mode) ? mode : -1;
}
int cuda_relaxed(rush_device d) { return relax(cuda_capture(d) != NULL); }
void cuda_strict(int mode)
{
    if (mode >= 0) cuda_driver->capture_mode(&mode);
}

int cuda_upload(rush_device d, void *to, const void *numbers, size_t bytes)
{
    rush_cuda_graph *g = cuda_capture(d);
    if (!g) return cuda_backend.copy(to, d, numbers, (rush_device){RUSH_CPU, -1}, bytes);
    void *kept = cuda_backend.pin(bytes);
    if (!kept) return -1;
    if (cuda_pool_pin(g->pool, kept)) return cuda_backend.unpin(kept, bytes), -1;
    return cuda_check(cuda_driver->copy_to_device((CUdeviceptr)(size_t)to, memcpy(kept, numbers, bytes), bytes, cuda_stream(d)), "cuMemcpyHtoD");
}

/* ---- random numbers ---- */

static draw *draw_of(rush_cuda_graph *g, rush_device d, rush_generator *generator)
{
    draw *own = g->draws;
    while (own && own->generator != generator) own = own->next;
    if (own || !(own = rush_calloc(1, sizeof *own))) return own;
    if (!(own->state = cuda_alloc(d, 2 * sizeof *own->state))) return rush_free(own), NULL;
    rush_generator_keep(generator);
    own->generator = generator;
    own->next = g->draws;
    return g->draws = own;
}

int cuda_graph_draw(rush_cuda_graph *g, rush_generator *generator, uint64_t by, const uint64_t **state, uint64_t *offset)
{
    draw *own = draw_of(g, g->device, generator);
    if (!own) return -1;
    *state = own->state;
    *offset = own->by;
    own->by += by;
    return 0;
}

static int draws(rush_cuda_graph *g, rush_generator *generator)
{
    RUSH_CHECK(generator->device.type == RUSH_CUDA, RUSH_RUNTIME_ERROR, "a graph draws from generators of CUDA devices, not of %s", rush_device_text(generator->device));
    RUSH_CHECK(!cuda_capture(generator->device), RUSH_RUNTIME_ERROR, "Cannot register the state during capturing stage.");
    return draw_of(g, generator->device, generator) ? 0 : -1;
}

/* The numbers go on where the generator stands, which counts on by those of a launch. */
static int begin_draws(rush_cuda_graph *g)
{
    for (draw *own = g->draws; own; own = own->next) {
        cuda_philox_state p = {.to = own->state};
        cuda_random_take(own->generator, own->by, &p.seed, &p.offset);
        if (cuda_launch(g->device, "philox_begin", &p, 1)) return -1;
    }
    return 0;
}

/* ---- capture ---- */

static void unlink_captured(rush_cuda_graph *g)
{
    pthread_mutex_lock(&lock);
    rush_cuda_graph **at = &captured;
    while (*at != g) at = &(*at)->next;
    *at = g->next;
    pthread_mutex_unlock(&lock);
    atomic_fetch_sub(&underway, 1);
    g->capture = 0;
}

static void release(rush_cuda_graph *g)
{
    const int mode = relax(cuda_captures());
    for (draw *own = g->draws, *next; own; own = next) {
        next = own->next;
        cuda_free(g->device, own->state, 2 * sizeof *own->state);
        rush_generator_drop(own->generator);
        rush_free(own);
    }
    if (g->pool) cuda_pool_drop(g->pool);
    if (g->graph) cuda_check(cuda_driver->graph_destroy(g->graph), "cuGraphDestroy");
    if (g->exec) cuda_check(cuda_driver->exec_destroy(g->exec), "cuGraphExecDestroy");
    g->draws = NULL, g->pool = NULL, g->graph = NULL, g->exec = NULL, g->ended = false;
    cuda_strict(mode);
}

static int begin(rush_cuda_graph *g, rush_pool_id pool, enum rush_capture_mode mode)
{
    const rush_device d = {RUSH_CUDA, (int8_t)rush_device_current(RUSH_CUDA)};
    int state = CU_CAPTURE_NONE;
    rush_later_end_waiting();
    RUSH_CHECK(!g->ended && !g->capture, RUSH_RUNTIME_ERROR,
               "This CUDAGraph instance already owns a captured graph. To capture a new graph, create a new instance.");
    RUSH_CHECK(rush_device_stream(d), RUSH_RUNTIME_ERROR,
               "CUDA graphs must be captured on a non-default stream. (However, after capture, it's ok to replay them on the default stream.)");
    if (!cuda_enter(d)) return -1;
    g->device = d, g->stream = rush_device_stream(d);
    g->pool_id = pool.graph || pool.user ? pool : cuda_pool_id(true);
    if (!(g->pool = cuda_pool_keep(g->pool_id))) return -1;
    if (cuda_check(cuda_driver->capture_begin(cuda_stream(d), (int)mode), "cuStreamBeginCapture")) return release(g), -1;
    if (cuda_check(cuda_driver->capture_info(cuda_stream(d), &state, &g->capture, NULL, NULL, NULL), "cuStreamGetCaptureInfo")) return -1;
    pthread_mutex_lock(&lock);
    g->next = captured;
    captured = g;
    pthread_mutex_unlock(&lock);
    atomic_fetch_add(&underway, 1);
    return 0;
}

static int instantiate(rush_cuda_graph *g)
{
    RUSH_CHECK(g->ended, RUSH_RUNTIME_ERROR, "capture_end() must have been called before calling instantiate");
    RUSH_CHECK(!g->exec || g->keep, RUSH_RUNTIME_ERROR, "instantiate() is intended to be called by the user only when keep_graph=true");
    if (!cuda_enter(g->device) || (g->exec && cuda_check(cuda_driver->exec_destroy(g->exec), "cuGraphExecDestroy"))) return -1;
    g->exec = NULL;
    return cuda_check(cuda_driver->graph_instantiate(&g->exec, g->graph, CU_GRAPH_AUTO_FREE | CU_GRAPH_NODE_PRIORITY), "cuGraphInstantiate");
}

static int end(rush_cuda_graph *g)
{
    size_t nodes = 0;
    rush_later_end_waiting();
    RUSH_CHECK(g->capture, RUSH_RUNTIME_ERROR, "capture_end() called before capture_begin().");
    RUSH_CHECK(rush_device_current(RUSH_CUDA) == g->device.index && rush_device_stream(g->device) == g->stream, RUSH_RUNTIME_ERROR,
               "Capture must end on the same stream it began on.");
    if (!cuda_enter(g->device)) return -1;
    const CUresult failed = cuda_driver->capture_end(cuda_stream(g->device), &g->graph);
    if (failed == CUDA_ERROR_CAPTURE_WRONG_THREAD) return cuda_check(failed, "cuStreamEndCapture"); /* it goes on */
    unlink_captured(g);
    if (cuda_check(failed, "cuStreamEndCapture") || cuda_check(cuda_driver->graph_nodes(g->graph, NULL, &nodes), "cuGraphGetNodes")) return release(g), -1;
    g->ended = true;
    if (!g->keep && instantiate(g)) return release(g), -1;
    if (!g->keep && !debug) {
        cuda_check(cuda_driver->graph_destroy(g->graph), "cuGraphDestroy");
        g->graph = NULL;
    }
    return rush_failed() ? -1 : nodes == 0;
}

static int replay(rush_cuda_graph *g)
{
    rush_later_end_waiting();
    RUSH_CHECK(g->ended, RUSH_RUNTIME_ERROR, "Called CUDAGraph::replay without a preceding successful capture.");
    if ((!g->exec && instantiate(g)) || !cuda_enter(g->device)) return -1;
    RUSH_CHECK(!g->draws || !cuda_capture(g->device), RUSH_RUNTIME_ERROR, "Cannot prepare for replay during capturing stage.");
    if (begin_draws(g) || cuda_check(cuda_driver->graph_launch(g->exec, cuda_stream(g->device)), "cuGraphLaunch")) return -1;
    return cuda_launched(g->device, "cuGraphLaunch");
}

/* ---- the rest of a graph's life ---- */

static rush_cuda_graph *make(bool keep)
{
    rush_cuda_graph *g = rush_calloc(1, sizeof *g);
    if (g) g->keep = keep;
    return g;
}

static int reset(rush_cuda_graph *g)
{
    if (!cuda_enter(g->device)) return -1;
    if (g->capture) { /* nobody can end it any more */
        cuda_driver->capture_end(cuda_devices[g->device.index].streams[g->stream], &g->graph);
        unlink_captured(g);
    }
    release(g);
    return rush_failed() ? -1 : 0;
}

static void drop(rush_cuda_graph *g)
{
    if (g->capture || g->pool || g->draws) reset(g);
    rush_free(g);
}

static int pool(rush_cuda_graph *g, rush_pool_id *id)
{
    RUSH_CHECK(g->ended, RUSH_RUNTIME_ERROR, "Called CUDAGraph::pool() without a preceding successful capture.");
    *id = g->pool_id;
    return 0;
}

static void set_debug(void) { debug = true; }

/* 1: debugging was not on. */
static int dump(rush_cuda_graph *g, const char *path)
{
    if (!debug && !g->keep) return 1;
    if (!g->graph) return 0;
    const int failed = cuda_check(cuda_driver->graph_dot(g->graph, path, CU_GRAPH_DOT_VERBOSE), "cuGraphDebugDotPrint");
    if (!g->keep) cuda_check(cuda_driver->graph_destroy(g->graph), "cuGraphDestroy"), g->graph = NULL;
    return failed;
}

static int raw(rush_cuda_graph *g, bool exec, void **to)
{
    if (exec) {
        RUSH_CHECK(g->exec, RUSH_RUNTIME_ERROR, "You cannot access the raw cudaGraphExec_t instance until instantiate() has been called");
        *to = g->exec;
        return 0;
    }
    RUSH_CHECK(g->keep, RUSH_RUNTIME_ERROR, "You cannot access the raw cudaGraph_t instance unless CUDAGraph was initialized with keep_graph=true");
    RUSH_CHECK(g->graph, RUSH_RUNTIME_ERROR, "You cannot access the raw cudaGraph_t instance until capture_end() has been called");
    *to = g->graph;
    return 0;
}

static int is_capturing(rush_device d, int stream)
{
    int state = CU_CAPTURE_NONE;
    const cuda_device *device = &cuda_devices[d.index];
    if (!device->context || stream < 0 || stream >= CUDA_STREAMS) return 0; /* nothing was done there yet */
    if (!cuda_enter(d) || cuda_check(cuda_driver->capture_info(device->streams[stream], &state, NULL, NULL, NULL, NULL), "cuStreamGetCaptureInfo")) return -1;
    return state != CU_CAPTURE_NONE;
}

const rush_cuda_graphs cuda_graphs = {.make = make, .drop = drop, .begin = begin, .end = end, .instantiate = instantiate, .replay = replay, .reset = reset, .pool = pool,
                                      .draws = draws, .dump = dump, .debug = set_debug, .raw = raw, .is_capturing = is_capturing};
