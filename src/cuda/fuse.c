/* fuse.c - elementwise steps that were put off (op/later.h), written as one kernel, compiled, kept and launched.
 *
 * The text of a kernel has a step's row of pointwise.def as it stands there, between what it reads and what it makes: registers, where
 * memory is not asked for. Numbers, addresses and strides are parameters, so that one kernel serves all calls of a kind.
 */
#include "base/kept.h"
#include "base/text.h"
#include "cuda/cuda.h"
#include "op/later_list.h"
#include "ops/elementwise/pointwise.h"
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#undef I /* the words of pointwise.def are wanted as they stand */
#undef INFINITY
#undef NAN

_Static_assert(+LATER_DEVICE_STEPS == +FUSED_STEPS && +LATER_DEVICE_STRIDED == +FUSED_STRIDED && +LATER_DIMS == +FUSED_DIMS, "parameters hold a list");
_Static_assert(sizeof(cuda_fused) <= 4096, "parameters of a kernel");

typedef struct row_text {
    const char *value;
    int result;
} row_text;
static const row_text rows[] = {
#define ROW(id, operands, dtypes, result, schema, value, ...) {#value, RUSH_PW_##result},
#include "kernels/pointwise.def"
#undef ROW
};

static bool held(int dtype, int compute) /* as values of the type that is computed in */
{
    return dtype == RUSH_F32 || dtype == RUSH_F16 || dtype == RUSH_BF16 || dtype == RUSH_BOOL || (dtype == RUSH_F64 && compute == RUSH_F64);
}

static bool takes(const rush_block_loop *s, const rush_value *operand, const uint8_t *compute)
{
    const int t = compute[1];
    if ((t != RUSH_F32 && t != RUSH_F64) || s->row >= RUSH_PW_COUNT || !held(operand[0].t->dtype, t)) return false;
    if (compute[0] != t && !(compute[0] == RUSH_BOOL && operand[0].t->dtype == RUSH_BOOL)) return false;
    if (compute[0] == t && operand[0].t->dtype == RUSH_BOOL) return false;
    for (int k = 1; k < s->n; k++)
        if (compute[k] != t || (operand[k].kind == RUSH_V_TENSOR && !held(operand[k].t->dtype, t))) return false;
    return cuda_compiles();
}

/* ---- the text ---- */

typedef struct writer {
    const later_list *list;
    cuda_fused *p;
    int t; /* that is computed in */
    int nmemory, nnumbers, nstrided, nread;
    struct seen { /* what a cell's elements are: nothing yet, what was read (m0, m1, ...), or what a step made (s0, s1, ...) */
        char kind;
        int number, dtype;
        int64_t at;
    } seen[LATER_CELLS];
    char *end, *most;
} writer;

__attribute__((format(printf, 2, 3))) static void put(writer *w, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const size_t room = (size_t)(w->most - w->end);
    const int n = vsnprintf(w->end, room, format, args);
    va_end(args);
    w->end += RUSH_MIN((size_t)n, room - 1);
}

static const char *dtype_word(int d) { return d == RUSH_F64 ? "RUSH_F64" : d == RUSH_F16 ? "RUSH_F16" : d == RUSH_BF16 ? "RUSH_BF16" : d == RUSH_BOOL ? "RUSH_BOOL" : "RUSH_F32"; }
static int number(writer *w, double v) { return w->p->number[w->nnumbers] = v, w->nnumbers++; }
static int memory(writer *w, const later_operand *x)
{
    w->p->p[w->nmemory] = w->list->cell[x->cell].data + x->at;
    return w->nmemory++;
}
static bool vector_at(const writer *w, const char *p, int dtype) { return (int64_t)(size_t)p % (16 / rush_dtypes[w->t].size * rush_dtypes[dtype].size) == 0; }

static void put_strided(writer *w, const later_operand *x, int name)
{
    cuda_strided *s = &w->p->strided[w->nstrided];
    for (int d = 0; d < x->ndim; d++) s->size[d] = x->size[x->ndim - 1 - d], s->stride[d] = x->stride[x->ndim - 1 - d];
    put(w, "    const results<T, V> m%d = strided<%s, %d, V>(p.p[%d], p.strided[%d], i);\n", name, dtype_word(x->dtype), x->ndim, memory(w, x), w->nstrided);
    w->nstrided++;
}

/* What operand x is called, after it has been read. */
static void read_operand(writer *w, const later_operand *x, char name[16])
{
    struct seen *c = x->cell >= 0 ? &w->seen[x->cell] : NULL;
    if (x->way == LATER_ALONG && c->kind == 's') {
        snprintf(name, 16, "s%d", c->number);
        return;
    }
    if (x->way == LATER_ALONG && c->kind == 'm' && c->at == x->at && c->dtype == x->dtype) {
        snprintf(name, 16, "m%d", c->number);
        return;
    }
    const int m = w->nread++;
    snprintf(name, 16, "m%d", m);
    if (x->way == LATER_STRIDED) {
        put_strided(w, x, m);
    } else if (x->way == LATER_ONE && x->cell < 0) {
        put(w, "    const results<T, V> m%d = same<V>((T)p.number[%d]);\n", m, number(w, w->t == RUSH_F64 ? *(const double *)x->one : *(const float *)x->one));
    } else if (x->way == LATER_ONE) {
        put(w, "    const results<T, V> m%d = only<%s, V>(p.p[%d]);\n", m, dtype_word(x->dtype), memory(w, x));
    } else {
        const int at = memory(w, x);
        w->p->vector &= vector_at(w, w->p->p[at], x->dtype);
        put(w, "    const results<T, V> m%d = along<%s, V>(p.p[%d], i);\n", m, dtype_word(x->dtype), at);
        *c = (struct seen){'m', m, x->dtype, x->at};
    }
}

static void put_step(writer *w, const later_step *s, int at)
{
    static const char *const letter[] = {"a", "b", "c", "d"};
    char name[3][16], argument[4][32];
    const row_text *row = &rows[s->loop.row];
    for (int k = 0; k < 3; k++) {
        if (k + 1 < s->loop.n) read_operand(w, &s->x[k + 1], name[k]);
        else memcpy(name[k], name[0], sizeof name[k]);
    }
    for (int k = 0; k < 4; k++) {
        if (rush_names(row->value, letter[k])) snprintf(argument[k], sizeof argument[k], "p.number[%d]", number(w, s->args.re[k]));
        else snprintf(argument[k], sizeof argument[k], "0");
    }
    put(w, "    STEP(s%d, %s, %s, %s, %s, %s, %s, %s, %s, %s%s%s)\n", at, dtype_word(s->x[0].dtype), name[0], name[1], name[2], argument[0], argument[1], argument[2], argument[3],
        row->result == RUSH_PW_BOOL ? "(T)((" : "(T)(", row->value, row->result == RUSH_PW_BOOL ? ") != 0)" : ")");
    w->seen[s->x[0].cell] = (struct seen){'s', at, s->x[0].dtype, 0};
}

static void put_kernel(writer *w, int first, int end)
{
    const later_list *list = w->list;
    w->p->n = list->step[first].numel;
    w->p->vector = 1;
    put(w, "{\n");
    for (int i = first; i < end; i++) put_step(w, &list->step[i], i - first);
    for (int c = 0; c < list->ncells; c++) {
        if (w->seen[c].kind != 's' || !list->cell[c].data) continue;
        w->p->p[w->nmemory] = list->cell[c].data;
        w->p->vector &= vector_at(w, list->cell[c].data, w->seen[c].dtype);
        put(w, "    written<%s, V>(p.p[%d], i, s%d);\n", dtype_word(w->seen[c].dtype), w->nmemory++, w->seen[c].number);
    }
    put(w, "}\n");
}

/* ---- those that there are ---- */

typedef struct kernel {
    uint64_t hash;
    char *text, name[32];
    const char *body; /* of the text */
    CUfunction function[CUDA_DEVICES];
    struct kernel *next;
} kernel;
enum { BUCKETS = 1024 };
static kernel *kernels[BUCKETS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static kernel *kernel_of(const char *body, int t)
{
    const uint64_t h = rush_hash_text(RUSH_HASH_NOTHING ^ (uint64_t)t, body);
    kernel **at = &kernels[h % BUCKETS], *k = *at;
    while (k && (k->hash != h || strcmp(k->body, body))) k = k->next;
    if (k || !(k = rush_calloc(1, sizeof *k))) return k;
    const char *const head = t == RUSH_F64 ? "#define FUSED_DOUBLE 1\n#include \"cuda/fused.h\"\nFUSED" : "#define FUSED_DOUBLE 0\n#include \"cuda/fused.h\"\nFUSED";
    snprintf(k->name, sizeof k->name, "fused_%016llx", (unsigned long long)h);
    const size_t room = strlen(head) + 2 * sizeof k->name + strlen(body) + 16;
    if (!(k->text = rush_malloc(room))) return rush_free(k), NULL;
    k->body = k->text + snprintf(k->text, room, "%s(%s)\n", head, k->name);
    memcpy(k->text + (k->body - k->text), body, strlen(body) + 1);
    k->hash = h, k->next = *at;
    return *at = k;
}

static int launch(const later_list *list, int first, int end)
{
    enum { ROOM = 65536 };
    cuda_fused p;
    writer *w = rush_calloc(1, sizeof *w + ROOM);
    if (!w) return -1;
    char *body = (char *)(w + 1);
    memset(&p, 0, sizeof p);
    *w = (writer){.list = list, .p = &p, .t = list->step[first].x[1].compute, .end = body, .most = body + ROOM};
    put_kernel(w, first, end);
    pthread_mutex_lock(&lock);
    kernel *k = w->end < w->most - 1 ? kernel_of(body, w->t) : NULL;
    CUfunction f = k ? k->function[list->device.index] : NULL;
    if (k && !f) f = k->function[list->device.index] = cuda_compile(list->device, k->name, k->text);
    pthread_mutex_unlock(&lock);
    rush_free(w);
    return f ? cuda_launch_function(list->device, list->stream, f, k->name, &p, p.n) : -1;
}

/* Who has them done did not call them, and is told nothing. */
static void run(const later_list *list, int first, int end)
{
    const rush_error_state before = rush_error_take();
    if (launch(list, first, end)) cuda_spoil(list->device, RUSH_RUNTIME_ERROR, rush_failed() ? rush_error() : "a kernel of several operations could not be written");
    rush_error_clear();
    rush_error_restore(before);
}

const rush_fuser cuda_fuser = {.takes = takes, .run = run};
