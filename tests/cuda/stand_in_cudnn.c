/* stand_in_cudnn.c - a stand-in for cuDNN's graph API on emulated devices: convolutions in plain loops, by what its manual says of descriptors.
 *
 * It refuses what cuDNN refuses: attributes of other types, in other numbers, after a descriptor was finished, or read before it was. Its
 * heuristics list four ways: on tensor cores (float32 is rounded to TF32); one that turns out not to be supported when it runs; one in an order
 * that changes; and, as what is left, one that needs workspace. Three dims in groups have none. tests/python/test_cuda.py compiles this file.
 */
#define _GNU_SOURCE
#include "cuda/libraries.h"
#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

enum { BAD = 2000, UNFINISHED = 2004, ROOM = 1000, MOST = 64 };
enum { TENSOR_CORES, UNSUPPORTED, UNORDERED, PLAIN };

typedef struct part {
    int type, is_finished, is_dropped, n;
    struct { int name, type; int64_t n; char values[128]; } attributes[8];
    struct part *graph; /* of a way, and the plan made of it */
    int way;
} part;

int stand_in_live, stand_in_plans, stand_in_runs[4]; /* descriptors that are there; plans that were made; runs of each way */

static int find_emulator(struct dl_phdr_info *one, size_t bytes, void *host)
{
    void *library = strstr(one->dlpi_name, "librushlight_cuda.so") ? dlopen(one->dlpi_name, RTLD_NOW | RTLD_NOLOAD) : NULL;
    return library && (*(void **)host = dlsym(library, "rush_emulator_host"));
}

static void on_device(int (*f)(void *), void *arg)
{
    int (*host)(int (*)(void *), void *) = NULL;
    if (!dl_iterate_phdr(find_emulator, &host) || host(f, arg)) abort();
}

size_t cudnnGetVersion(void) { return 90000; }
const char *cudnnGetErrorString(int status) { return status == BAD ? "CUDNN_STATUS_BAD_PARAM" : status == UNFINISHED ? "CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED" : "CUDNN_STATUS_NOT_SUPPORTED"; }
void cudnnGetLastErrorString(char *text, size_t room) { strncpy(text, "said by the stand-in", room); }
int cudnnCreate(void **handle) { return !(*handle = malloc(8)); }
int cudnnDestroy(void *handle) { return free(handle), 0; }
int cudnnSetStream(void *handle, void *stream) { return !handle; }

/* What each attribute is: of which descriptor, its type and number; 0: as many as the convolution has dims, or with them the tensor */
static const struct { int owner, name, type, n; } known[] = {
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1}, {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 0},
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 0}, {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1},
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1},
    {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1},
    {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1},
    {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1},
    {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 0},
    {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 0},
    {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 0},
    {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 0},
    {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1},
    {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1},
    {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1},
    {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1},
    {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1},
    {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1},
    {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 3},
    {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3},
    {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1}};

static int first_of(int type) /* of an operation's six attributes */
{
    return type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR         ? CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA
           : type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR ? CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA
           : type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR ? CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA : 0;
}

static size_t bytes_of(int type) { return type == CUDNN_TYPE_DATA_TYPE || type == CUDNN_TYPE_CONVOLUTION_MODE || type == CUDNN_TYPE_HEUR_MODE || type == CUDNN_TYPE_FLOAT ? 4 : 8; }

int cudnnBackendCreateDescriptor(int type, void **made)
{
    part *p = calloc(1, sizeof *p);
    if (p) p->type = type, stand_in_live++;
    return *made = p, !p;
}
/* What was made of it still reads it, so that it stays in memory. */
int cudnnBackendDestroyDescriptor(void *p)
{
    if (((part *)p)->is_dropped++) abort();
    return stand_in_live--, 0;
}

int cudnnBackendSetAttribute(void *descriptor, int name, int type, int64_t n, const void *values)
{
    part *p = descriptor;
    const int first = first_of(p->type), at = name - first;
    int fits = first && at >= 0 && at < 6 && n == 1 && (at < 2 ? type == CUDNN_TYPE_FLOAT || type == CUDNN_TYPE_DOUBLE : type == CUDNN_TYPE_BACKEND_DESCRIPTOR);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        fits = fits || (known[i].owner == p->type && known[i].name == name && known[i].type == type && (known[i].n ? known[i].n == n : n >= 2 && n <= 5));
    if (!fits || p->is_finished || p->n == 8) return BAD;
    if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR && p->type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR && !(*(part *const *)values)->is_finished) return UNFINISHED;
    if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR && (*(part *const *)values)->is_dropped) return BAD;
    p->attributes[p->n].name = name, p->attributes[p->n].type = type, p->attributes[p->n].n = n;
    memcpy(p->attributes[p->n++].values, values, bytes_of(type) * (size_t)n);
    return 0;
}

static const void *value(const part *p, int name)
{
    for (int i = 0; i < p->n; i++)
        if (p->attributes[i].name == name) return p->attributes[i].values;
    abort();
}
static part *part_in(const part *p, int name) { return *(part *const *)value(p, name); }
static const int64_t *numbers(const part *p, int name) { return value(p, name); }

typedef struct job {
    const part *op, *conv, *tensor[3]; /* w, x, y */
    void *memory[3];
    void *workspace;
    int way, kind; /* 0: the result, 1: the image's gradient, 2: the weight's */
} job;

static void parts_of(job *j, const part *graph)
{
    j->op = part_in(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS);
    const int first = first_of(j->op->type);
    j->conv = part_in(j->op, first + 2);
    for (int k = 0; k < 3; k++) j->tensor[k] = part_in(j->op, first + 3 + k);
    j->kind = first == CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA ? 0 : first == CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA ? 1 : 2;
}

/* Sizes that belong together, alpha 1 and beta 0 of the right type */
static int is_operation_right(const part *op)
{
    job j = {0};
    part graph = {.n = 1};
    graph.attributes[0].name = CUDNN_ATTR_OPERATIONGRAPH_OPS;
    memcpy(graph.attributes[0].values, &op, sizeof op);
    parts_of(&j, &graph);
    const int64_t *w = numbers(j.tensor[0], CUDNN_ATTR_TENSOR_DIMENSIONS), *x = numbers(j.tensor[1], CUDNN_ATTR_TENSOR_DIMENSIONS), *y = numbers(j.tensor[2], CUDNN_ATTR_TENSOR_DIMENSIONS);
    const int first = first_of(op->type), is_wide = *(const int *)value(j.tensor[0], CUDNN_ATTR_TENSOR_DATA_TYPE) == CUDNN_DATA_DOUBLE;
    const double one = is_wide ? *(const double *)value(op, first) : *(const float *)value(op, first), none = is_wide ? *(const double *)value(op, first + 1) : *(const float *)value(op, first + 1);
    if (one != 1 || none != 0 || x[0] != y[0] || w[0] != y[1] || x[1] % w[1] || y[1] % (x[1] / w[1]) || *(const int *)value(j.conv, CUDNN_ATTR_CONVOLUTION_CONV_MODE) != CUDNN_CROSS_CORRELATION) return 0;
    for (int64_t i = 0, dims = *numbers(j.conv, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS); i < dims; i++) {
        const int64_t window = (w[i + 2] - 1) * numbers(j.conv, CUDNN_ATTR_CONVOLUTION_DILATIONS)[i] + 1;
        const int64_t padded = x[i + 2] + numbers(j.conv, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS)[i] + numbers(j.conv, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS)[i];
        if (padded < window || (padded - window) / numbers(j.conv, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES)[i] + 1 != y[i + 2]) return 0;
    }
    return 1;
}

int cudnnBackendFinalize(void *descriptor)
{
    part *p = descriptor;
    if (p->is_finished || (first_of(p->type) && !is_operation_right(p))) return BAD;
    if (p->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
        const part *way = part_in(p, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
        p->graph = way->graph, p->way = way->way, stand_in_plans++;
    }
    return p->is_finished = 1, 0;
}

int cudnnBackendGetAttribute(void *descriptor, int name, int type, int64_t room, int64_t *n, void *to)
{
    part *p = descriptor;
    *n = 0;
    if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS && type == CUDNN_TYPE_BACKEND_DESCRIPTOR && p->is_finished) {
        job j = {0};
        part *graph = part_in(p, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
        const int left = *(const int *)value(p, CUDNN_ATTR_ENGINEHEUR_MODE) == CUDNN_HEUR_MODE_FALLBACK;
        parts_of(&j, graph);
        if (*numbers(j.conv, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS) == 3 && numbers(j.tensor[0], CUDNN_ATTR_TENSOR_DIMENSIONS)[1] != numbers(j.tensor[1], CUDNN_ATTR_TENSOR_DIMENSIONS)[1]) return CUDNN_STATUS_NOT_SUPPORTED;
        *n = left ? 1 : 3;
        for (int64_t i = 0; i < *n && i < room; i++) ((part **)to)[i]->graph = graph, ((part **)to)[i]->way = left ? PLAIN : (int)i, ((part **)to)[i]->is_finished = 1;
        return 0;
    }
    if (!p->is_finished) return UNFINISHED;
    if (name == CUDNN_ATTR_ENGINECFG_ENGINE && room == 1) {
        (*(part **)to)->way = p->way, (*(part **)to)->is_finished = *n = 1;
    } else if (name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE && type == CUDNN_TYPE_NUMERICAL_NOTE) {
        *n = p->way == TENSOR_CORES || p->way == UNORDERED;
        if (*n) *(int *)to = p->way == UNORDERED ? CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC : CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
    } else if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE && type == CUDNN_TYPE_INT64 && room == 1) {
        *(int64_t *)to = p->way == PLAIN ? ROOM : 0, *n = 1;
    } else {
        return BAD;
    }
    return 0;
}

/* ---- running ---- */

static double half_at(uint16_t h)
{
    const int e = h >> 10 & 31, m = h & 1023;
    const double v = e == 31 ? (m ? __builtin_nan("") : __builtin_inf()) : e ? __builtin_ldexp(1024 + m, e - 25) : __builtin_ldexp(m, -24);
    return h >> 15 ? -v : v;
}
static double get_at(const job *j, int k, int64_t i)
{
    uint32_t bits;
    const void *p = j->memory[k];
    switch (*(const int *)value(j->tensor[k], CUDNN_ATTR_TENSOR_DATA_TYPE)) {
    case CUDNN_DATA_DOUBLE: return ((const double *)p)[i];
    case CUDNN_DATA_HALF: return half_at(((const uint16_t *)p)[i]);
    case CUDNN_DATA_BFLOAT16: bits = (uint32_t)((const uint16_t *)p)[i] << 16; break;
    default: bits = ((const uint32_t *)p)[i] & (j->way == TENSOR_CORES ? 0xffffe000 : 0xffffffff);
    }
    float f;
    memcpy(&f, &bits, 4);
    return f;
}
static void put_at(const job *j, int k, int64_t i, double v)
{
    void *p = j->memory[k];
    float f = (float)v;
    uint32_t bits;
    memcpy(&bits, &f, 4);
    switch (*(const int *)value(j->tensor[k], CUDNN_ATTR_TENSOR_DATA_TYPE)) {
    case CUDNN_DATA_DOUBLE: ((double *)p)[i] = v; break;
    case CUDNN_DATA_HALF: { /* the nearer of neighbours */
        uint16_t h = 0;
        for (int bit = 14; bit >= 0; bit--)
            if (half_at((uint16_t)(h | 1 << bit)) <= __builtin_fabs(v)) h = (uint16_t)(h | 1 << bit);
        if (half_at((uint16_t)(h + 1)) - __builtin_fabs(v) < __builtin_fabs(v) - half_at(h)) h++;
        ((uint16_t *)p)[i] = (uint16_t)(h | (v < 0) << 15);
        break;
    }
    case CUDNN_DATA_BFLOAT16: ((uint16_t *)p)[i] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16); break;
    default: ((float *)p)[i] = f;
    }
}

/* Each of the three sums over the same triples: sum[to] += a b */
static int convolve(void *arg)
{
    const job *j = arg;
    const int dims = (int)*numbers(j->conv, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS), to = j->kind == 0 ? 2 : j->kind == 1 ? 1 : 0;
    const int64_t *size[3], *step[3];
    for (int k = 0; k < 3; k++) size[k] = numbers(j->tensor[k], CUDNN_ATTR_TENSOR_DIMENSIONS), step[k] = numbers(j->tensor[k], CUDNN_ATTR_TENSOR_STRIDES);
    int64_t far = 1, inner = 1, windows = 1;
    for (int d = 0; d < dims + 2; d++) far += (size[to][d] - 1) * step[to][d];
    for (int d = 0; d < dims; d++) inner *= size[0][d + 2], windows *= size[2][d + 2];
    double *sum = calloc((size_t)far, sizeof *sum);
    const int64_t per_group = size[0][0] / (size[1][1] / size[0][1]);
    for (int64_t n = 0; n < size[2][0]; n++)
        for (int64_t o = 0; o < size[2][1]; o++)
            for (int64_t c = 0; c < size[0][1]; c++)
                for (int64_t at = 0; at < windows; at++)
                    for (int64_t in = 0; in < inner; in++) {
                        int64_t place[3] = {o * step[0][0] + c * step[0][1], n * step[1][0] + (o / per_group * size[0][1] + c) * step[1][1], n * step[2][0] + o * step[2][1]}, a = at, i = in, inside = 1;
                        for (int d = dims - 1; d >= 0; d--) {
                            const int64_t y = a % size[2][d + 2], w = i % size[0][d + 2];
                            const int64_t x = y * numbers(j->conv, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES)[d] + w * numbers(j->conv, CUDNN_ATTR_CONVOLUTION_DILATIONS)[d] - numbers(j->conv, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS)[d];
                            a /= size[2][d + 2], i /= size[0][d + 2];
                            inside = inside && x >= 0 && x < size[1][d + 2];
                            place[0] += w * step[0][d + 2], place[1] += x * step[1][d + 2], place[2] += y * step[2][d + 2];
                        }
                        const int p = to == 0 ? 1 : 0, q = to == 2 ? 1 : 2;
                        if (inside) sum[place[to]] += get_at(j, p, place[p]) * get_at(j, q, place[q]);
                    }
    for (int64_t i = 0; i < far; i++) put_at(j, to, i, sum[i]); /* dense */
    if (j->workspace) memset(j->workspace, 0x77, ROOM);
    free(sum);
    return 0;
}

int cudnnBackendExecute(void *handle, void *plan, void *pack)
{
    const part *p = plan, *v = pack;
    job j = {.way = p->way};
    if (!handle || !p->is_finished || !v->is_finished || p->is_dropped || v->is_dropped) return UNFINISHED;
    if (p->way == UNSUPPORTED) return CUDNN_STATUS_NOT_SUPPORTED;
    parts_of(&j, p->graph);
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < 3; i++)
            if (numbers(v, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS)[i] == *numbers(j.tensor[k], CUDNN_ATTR_TENSOR_UNIQUE_ID)) j.memory[k] = ((void *const *)value(v, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS))[i];
        if (!j.memory[k] || (uintptr_t)j.memory[k] % (uintptr_t)*numbers(j.tensor[k], CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT)) return BAD;
    }
    j.workspace = *(void *const *)value(v, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
    if (!j.workspace != (p->way != PLAIN)) return BAD;
    on_device(convolve, &j);
    stand_in_runs[p->way]++;
    return 0;
}
