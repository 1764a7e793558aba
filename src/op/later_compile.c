/* later_compile.c - steps that were put off, done by one loop that the system's C compiler has made of them, behind what runs.
 *
 * Steps that come again and again are written as C: each row of pointwise.def as it stands there, between what is read and what is
 * written, over the words of the library's own loops and for the instruction set that these were chosen for: so the bits are the same.
 * A thread hands that to ${CC:-cc} and opens the result. Meanwhile, and where there is no compiler, steps are done by blocks (later_run.c).
 *
 * Floats and truth values are taken, and rows that need no function of a library: what is compiled is linked with none, and where that fails
 * an empty file says so to those who ask again. What succeeds is kept too (base/kept.h), under a hash of all that it is made of.
 */
#define _GNU_SOURCE
#include "base/hash.h"
#include "base/kept.h"
#include "base/text.h"
#include "op/later_list.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#undef I /* the words of pointwise.def are wanted as they stand */
#undef INFINITY
#undef NAN

extern char **environ;

enum { BUCKETS = 256, KINDS = 1024, STRETCHES = 4 };            /* KINDS: the most there are; STRETCHES of a run are walked along side by side */
static const int64_t LEAST = 1 << 16, LOOK = 1 << 23, WORTH = 1 << 28; /* steps times elements: of one run; before the folder is looked in; before it is compiled */

/* Where something of a step is: the kind above, which one below. */
enum { NONE, STEP = 1 << 12, FLOATS = 2 << 12, BYTES = 3 << 12, NUMBER = 4 << 12, KIND = 15 << 12 };
typedef struct part { /* a step, as text and key know it; WHERE is the row that pointwise.def does not have */
    uint16_t row, x[3], argument[4], to;
} part;
enum { WHERE = RUSH_PW_COUNT };

typedef void (*made_loop)(char *const *p, const float *number, int64_t n);
typedef enum state { NEW, ABSENT, ASKED, READY, REFUSED } state;
typedef struct kind { /* of runs of steps */
    struct kind *next, *behind; /* in its bucket; in the queue */
    uint64_t hash;
    _Atomic(made_loop) loop;
    atomic_llong work;
    _Atomic(state) state;
    int n;
    part part[];
} kind;

static _Atomic(kind *) kinds[BUCKETS];
static atomic_int nkinds, nloops;
static _Atomic(rush_later_how) how;
static atomic_bool lacking; /* there is no compiler of that name */
static kind *queue;            /* under RUSH_LOCK_COMPILED, as is: */
static int worker;             /* 1 + the forks (rush_forks()) of the process that has the thread; 0: nobody has */

int rush_later_compile(rush_later_how now)
{
    rush_later_how before = RUSH_LATER_UNASKED;
    if (now != RUSH_LATER_BEHIND) {
        atomic_store(&how, now);
    } else if (atomic_load_explicit(&how, memory_order_relaxed) == RUSH_LATER_UNASKED) {
        const char *said = getenv("RUSHLIGHT_COMPILE");
        const bool never = getauxval(AT_SECURE) || (said && !strcmp(said, "0"));
        atomic_compare_exchange_strong(&how, &before, never ? RUSH_LATER_NEVER : RUSH_LATER_BEHIND);
    }
    return atomic_load_explicit(&nloops, memory_order_relaxed);
}

/* ---- the text ---- */

static const char *const word[] = {"x", "y", "z", "a", "b", "c", "d"}; /* of operands and arguments */

static const struct { const char *value; bool truth; } rows[] = {
#define TRUTH_SAME false
#define TRUTH_REAL false
#define TRUTH_BOOL true
#define ROW(id, operands, dtypes, result, schema, value, ...) [RUSH_PW_##id] = {#value, TRUTH_##result},
#include "kernels/pointwise.def"
#undef ROW
    [WHERE] = {"x != 0 ? y : z", false},
};

static const char *const name[] = {[STEP >> 12] = "s%d_%d", [FLOATS >> 12] = "p%d[i + %d * h]", [BYTES >> 12] = "(float)(p%d[i + %d * h] != 0)", [NUMBER >> 12] = "c%d"};

static void put_declared(FILE *f, int at, unsigned char *seen)
{
    const int i = at & ~KIND;
    if (!at || (at & KIND) == STEP || seen[i]++) return;
    if ((at & KIND) == NUMBER) fprintf(f, "    const float c%d = number[%d];\n", i, i);
    else fprintf(f, "    %s *const p%d = (%s *)p[%d];\n", (at & KIND) == FLOATS ? "float" : "unsigned char", i, (at & KIND) == FLOATS ? "float" : "unsigned char", i);
}

/* Step i for an element of one of the stretches. */
static void put_step(FILE *f, const part *s, int i, int stretch)
{
    fprintf(f, "        float s%d_%d;\n        {", i, stretch);
    for (int j = 0; j < 7; ++j) {
        const int at = j < 3 ? s->x[j] : s->argument[j - 3];
        if (!at) continue;
        fprintf(f, " const float %s = ", word[j]);
        fprintf(f, name[at >> 12], at & ~KIND, stretch);
        fputs(";", f);
    }
    fprintf(f, " s%d_%d = (float)(%s%s%s); }\n", i, stretch, rows[s->row].truth ? "(" : "", rows[s->row].value, rows[s->row].truth ? ") != 0" : "");
}

/* The stretches from that one on, or what is left behind them. Each step is done for all of them before the next: what waits for a result
 * leaves others to compute meanwhile. */
static void put_loop(FILE *f, const kind *k, int from, int stretches)
{
    fprintf(f, "#pragma omp simd\n    for (int64_t i = %d * h; i < %s; i++) {\n", from, from ? "n" : "h");
    for (int i = 0; i < k->n; ++i)
        for (int at = 0; at < stretches; ++at) put_step(f, &k->part[i], i, at);
    for (int i = 0; i < k->n; ++i) /* behind all that is read of the same memory */
        for (int at = 0; k->part[i].to && at < stretches; ++at)
            fprintf(f, "        p%d[i + %d * h] = s%d_%d;\n", k->part[i].to & ~KIND, at, i, at);
    fputs("    }\n", f);
}

static void put_kind(FILE *f, const kind *k)
{
    unsigned char memory[LATER_CELLS] = {0}, number[LATER_STEPS * 8] = {0};
    fprintf(f, "void fused(char *const *p, const float *number, int64_t n)\n{\n    const int64_t h = n / %d * 16;\n", 16 * STRETCHES);
    for (int i = 0; i < k->n; ++i)
        for (const uint16_t *at = k->part[i].x; at <= &k->part[i].to; ++at) put_declared(f, *at, (*at & KIND) == NUMBER ? number : memory);
    put_loop(f, k, 0, STRETCHES);
    put_loop(f, k, STRETCHES, 1);
    fputs("}\n", f);
}

static char *text_of(const kind *k)
{
    static const char words[] =
#include "later_words.inc"
        ;
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    if (!f) return NULL;
    fputs(words, f);
    put_kind(f, k);
    return fclose(f) ? free(text), NULL : text;
}

/* ---- the compiler ---- */

static const char *const options[] = {"-xc", "-std=gnu11", "-O3", "-w", "-fPIC", "-shared", "-fopenmp-simd", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math",
                                      "-fno-stack-protector", "-nostdlib", "-Wl,-z,defs"};
#if defined(__x86_64__)
static const char *const of_level[][3] = {[1] = {NULL}, {"-march=x86-64-v2"}, {"-march=x86-64-v3"}, {"-march=x86-64-v4", "-mprefer-vector-width=512"}};
#else
static const char *const of_level[][3] = {[1] = {NULL}, [4] = {NULL}};
#endif

/* The text goes into the shell's compiler, which makes `path` of it, whole or not at all; also if this process ends before. */
static void run_compiler(const char *path, const char *text)
{
    static char script[] = "${CC:-cc} \"$@\" -o \"$0.$$\" - && mv \"$0.$$\" \"$0\" || { e=$?; test $e = 1 && : >\"$0\"; rm -f \"$0.$$\"; exit $e; }";
    char *command[32] = {"sh", "-c", script, (char *)path};
    int n = 4, ends[2], status = 0;
    pid_t child;
    sigset_t none;
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    for (size_t i = 0; i < RUSH_COUNT(options); ++i) command[n++] = (char *)options[i];
    for (const char *const *o = of_level[rush_cpu_level()]; *o; ++o) command[n++] = (char *)*o;
    if (pipe2(ends, O_CLOEXEC)) return;
    sigemptyset(&none);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, ends[0], 0);
    posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&files, 1, 2);
    const bool begun = !posix_spawn(&child, "/bin/sh", &files, &attributes, command, environ);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
    close(ends[0]);
    for (size_t left = strlen(text); begun && left > 0;) {
        const ssize_t went = write(ends[1], text, left);
        if (went < 0 && errno != EINTR) break; /* it is gone, and there is no result */
        if (went > 0) text += went, left -= (size_t)went;
    }
    close(ends[1]);
    while (begun && waitpid(child, &status, 0) < 0 && errno == EINTR) continue; /* what it made the file says: the program may have waited for all children */
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127) atomic_store(&lacking, true);
}

static state opened(kind *k, const char *path)
{
    struct stat s;
    if (stat(path, &s)) return ABSENT;
    if (!S_ISREG(s.st_mode) || s.st_uid != geteuid() || !s.st_size) return REFUSED;
    rush_lock(RUSH_LOCK_COMPILED); /* a fork waits: the child's loader would be locked for good */
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL), *found = object ? dlsym(object, "fused") : NULL; /* never closed */
    rush_unlock(RUSH_LOCK_COMPILED);
    made_loop loop;
    memcpy(&loop, &found, sizeof loop);
    if (found) atomic_store_explicit(&k->loop, loop, memory_order_release), atomic_fetch_add(&nloops, 1);
    return found ? READY : REFUSED;
}

static state make(kind *k)
{
    char folder[4096], path[4200];
    char *text = rush_kept_folder(folder, sizeof folder) ? NULL : text_of(k);
    if (!text) return REFUSED;
    uint64_t h[2] = {RUSH_HASH_NOTHING, 7809847782465536322u};
    for (int i = 0; i < 2; ++i) {
        h[i] = rush_hash_text(rush_hash_text(h[i], text), rush_version()) + (uint64_t)rush_cpu_level();
        for (size_t o = 0; o < RUSH_COUNT(options); ++o) h[i] = rush_hash_text(h[i], options[o]);
    }
    snprintf(path, sizeof path, "%s/%016llx%016llx.loop.so", folder, (unsigned long long)h[0], (unsigned long long)h[1]);
    state s = opened(k, path);
    if (s == ABSENT && (atomic_load(&k->work) >= WORTH || atomic_load(&how) == RUSH_LATER_AT_ONCE)) {
        if (!atomic_load(&lacking)) run_compiler(path, text), s = opened(k, path);
        if (s == ABSENT) s = REFUSED;
    }
    free(text);
    return s;
}

/* ---- the thread, which is there while there is something to do ---- */

static void *work(void *unused)
{
    setpriority(PRIO_PROCESS, (id_t)gettid(), 10); /* what it makes saves time later, and is to take none now */
    rush_lock(RUSH_LOCK_COMPILED);
    while (queue) {
        kind *k = queue;
        queue = k->behind;
        rush_unlock(RUSH_LOCK_COMPILED);
        atomic_store(&k->state, make(k));
        rush_lock(RUSH_LOCK_COMPILED);
    }
    worker = 0;
    rush_unlock(RUSH_LOCK_COMPILED);
    return NULL;
}

static void ask(kind *k)
{
    pthread_t thread;
    sigset_t all, before;
    rush_lock(RUSH_LOCK_COMPILED);
    k->behind = queue;
    queue = k;
    if (worker != 1 + rush_forks()) {
        sigfillset(&all); /* signals are for the program's threads */
        pthread_sigmask(SIG_SETMASK, &all, &before);
        worker = pthread_create(&thread, NULL, work, NULL) ? 0 : 1 + rush_forks();
        if (worker) pthread_detach(thread);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    const bool begun = worker;
    rush_unlock(RUSH_LOCK_COMPILED);
    while (begun && atomic_load(&how) == RUSH_LATER_AT_ONCE && atomic_load(&k->state) == ASKED) usleep(1000);
}

/* ---- a run of steps ---- */

typedef struct call {
    made_loop loop;
    int nmemory, nnumbers, ngathered;
    char *memory[LATER_CELLS];
    const later_operand *gathered[LATER_CELLS]; /* NULL: walked along                */
    uint8_t size[LATER_CELLS];                  /* bytes of an element, as it is read */
    float number[LATER_STEPS * 8];
    uint16_t seen[LATER_CELLS];                 /* what a cell's elements are now, and */
    int64_t at[LATER_CELLS];                    /* from where they were read           */
} call;

static int add_memory(call *c, char *p, const later_operand *gathered, bool bytes)
{
    c->memory[c->nmemory] = p;
    c->gathered[c->nmemory] = gathered;
    c->ngathered += gathered != NULL;
    c->size[c->nmemory] = bytes ? 1 : sizeof(float);
    return (bytes ? BYTES : FLOATS) + c->nmemory++;
}

static int add_number(call *c, float v)
{
    c->number[c->nnumbers] = v;
    return NUMBER + c->nnumbers++;
}

/* How an operand is read; NONE: not by such a loop. */
static int operand(call *c, const later_list *list, const later_operand *x)
{
    float v;
    const bool bytes = x->compute == RUSH_BOOL;
    if (x->way == LATER_ONE) {
        memcpy(&v, x->one, sizeof v);
        return add_number(c, bytes ? (float)(x->one[0] != 0) : v);
    }
    if (x->way == LATER_STRIDED) return add_memory(c, list->cell[x->cell].data + x->at, x, bytes);
    if (c->seen[x->cell] && ((c->seen[x->cell] & KIND) == STEP || c->at[x->cell] == x->at)) return c->seen[x->cell];
    if (x->dtype != RUSH_BOOL && (x->dtype != RUSH_F32 || bytes)) return NONE;
    c->at[x->cell] = x->at;
    return c->seen[x->cell] = (uint16_t)add_memory(c, list->cell[x->cell].data + x->at, NULL, x->dtype == RUSH_BOOL);
}

static int row_of(const later_step *s)
{
    for (int i = 0; i < RUSH_PW_COUNT; ++i)
        if (rush_k_pw_f32->loop[i] == s->loop.loop) return i;
    return s->loop.loop == rush_k_pw_misc->where[sizeof(float)] && s->x[0].compute == RUSH_F32 ? WHERE : -1;
}

/* Bit k: the row's value names argument k. Looked for in its text once: a run asks for each of its steps. */
static unsigned arguments_of(int row)
{
    enum { KNOWN = 16 };
    static atomic_uchar found[WHERE + 1];
    unsigned bits = atomic_load_explicit(&found[row], memory_order_relaxed);
    if (bits) return bits;
    for (int k = 0; k < 4; ++k)
        if (rush_names(rows[row].value, word[3 + k])) bits |= 1u << k;
    atomic_store_explicit(&found[row], (unsigned char)(bits | KNOWN), memory_order_relaxed);
    return bits;
}

/* Step i of a run as a part, and what it needs in c. */
static bool describe(call *c, const later_list *list, const later_step *s, int i, part *p)
{
    const int row = row_of(s);
    if (row < 0 || s->x[0].dtype != (rows[row].truth ? RUSH_BOOL : RUSH_F32) || s->x[0].compute != s->x[0].dtype) return false;
    *p = (part){.row = (uint16_t)row};
    for (int k = 1; k < s->loop.n; ++k)
        if (!(p->x[k - 1] = (uint16_t)operand(c, list, &s->x[k]))) return false;
    for (int k = 0; k < 4; ++k)
        if (arguments_of(row) >> k & 1) p->argument[k] = (uint16_t)add_number(c, (float)s->args.re[k]);
    c->seen[s->x[0].cell] = (uint16_t)(STEP + i);
    return true;
}

static kind *kind_of(const part *p, int n)
{
    const uint64_t h = rush_hash_bytes((const char *)p, (size_t)n * sizeof *p);
    _Atomic(kind *) *bucket = &kinds[h % BUCKETS];
    kind *first = atomic_load_explicit(bucket, memory_order_acquire), *k = first;
    while (k && (k->hash != h || k->n != n || memcmp(k->part, p, (size_t)n * sizeof *p))) k = k->next;
    if (k || atomic_load(&nkinds) >= KINDS) return k;
    k = calloc(1, sizeof *k + (size_t)n * sizeof *p); /* for good */
    if (!k) return NULL;
    k->hash = h, k->n = n;
    memcpy(k->part, p, (size_t)n * sizeof *p);
    k->next = first; /* who comes at the same time may add it twice, which costs its memory */
    while (!atomic_compare_exchange_weak(bucket, &k->next, k)) continue;
    atomic_fetch_add(&nkinds, 1);
    return k;
}

static void run_piece(void *arg, int64_t begin, int64_t end)
{
    enum { ROOM = 65536, BLOCK = 2048 };
    const call *c = arg;
    char buffers[ROOM] __attribute__((aligned(64))), *p[LATER_CELLS];
    const int64_t most = c->ngathered ? RUSH_MIN(ROOM / (int64_t)sizeof(float) / c->ngathered / 16 * 16, BLOCK) : end - begin;
    for (int64_t i = begin, n; i < end; i += n) {
        char *to = buffers;
        n = RUSH_MIN(most, end - i);
        for (int k = 0; k < c->nmemory; ++k) {
            const later_operand *x = c->gathered[k];
            p[k] = x ? rush_later_gather(x, c->memory[k], i, n, to) : c->memory[k] + i * c->size[k];
            if (x) to += most * (int64_t)sizeof(float);
        }
        c->loop(p, c->number, n);
    }
}

bool rush_later_run_compiled(const later_list *list, int first, int end)
{
    part parts[LATER_STEPS];
    call c = {.nmemory = 0};
    const int steps = end - first;
    const rush_later_how now = atomic_load_explicit(&how, memory_order_relaxed);
    const int64_t numel = list->step[first].numel;
    if ((now != RUSH_LATER_BEHIND && now != RUSH_LATER_AT_ONCE) || steps < 2 || (numel * steps < LEAST && now != RUSH_LATER_AT_ONCE)) return false;
    for (int i = first; i < end; ++i)
        if (!describe(&c, list, &list->step[i], i - first, &parts[i - first])) return false;
    for (int i = 0; i < list->ncells; ++i)
        if ((c.seen[i] & KIND) == STEP && list->cell[i].data) {
            part *last = &parts[c.seen[i] & ~KIND];
            last->to = (uint16_t)add_memory(&c, list->cell[i].data, NULL, rows[last->row].truth);
        }
    kind *k = kind_of(parts, steps);
    if (!k) return false;
    const int64_t done = atomic_fetch_add_explicit(&k->work, numel * steps, memory_order_relaxed) + numel * steps;
    state s = atomic_load_explicit(&k->state, memory_order_relaxed);
    if ((s == NEW && done >= LOOK) || (s == ABSENT && done >= WORTH) || (s <= ABSENT && now == RUSH_LATER_AT_ONCE))
        if (atomic_compare_exchange_strong(&k->state, &s, ASKED)) ask(k);
    if (!(c.loop = atomic_load_explicit(&k->loop, memory_order_acquire))) return false;
    rush_parallel_for(numel, RUSH_MAX(LEAST / 2 / steps, 2048), run_piece, &c);
    return true;
}
