/* cuda_settings.c - what PYTORCH_ALLOC_CONF asks of the allocator of CUDA devices, which there need not be. */
#include "tensor/cuda.h"
#include "base/text.h"
#include <ctype.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)
enum { WORD = 64, WORDS = 256 };

static rush_cuda_settings now = {.max_split = SIZE_MAX, .max_rounding = 20 * MIB, .large_segment = 20 * MIB};
static atomic_bool read; /* what the environment says, which comes before what is set */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The words of a text: names, numbers, and each of , : [ ] by itself. Blanks do not count. */
typedef struct words {
    char at[WORDS][WORD];
    int n, i;
} words;

static int split(const char *text, words *w)
{
    for (bool inside = false; *text; text++) {
        const bool mark = strchr(",:[]", *text);
        if (isspace((unsigned char)*text)) continue;
        if (mark || !inside) w->n++;
        char *word = w->n <= WORDS ? w->at[w->n - 1] : NULL;
        const size_t length = word ? strlen(word) : WORD;
        RUSH_CHECK(length < WORD - 1, RUSH_VALUE_ERROR, "Accelerator allocator config is too long");
        word[length] = *text;
        inside = !mark;
    }
    return 0;
}

/* The next word; NULL and an error at the end. */
static const char *next(words *w)
{
    if (w->i < w->n) return w->at[w->i++];
    rush_fail(RUSH_RUNTIME_ERROR, "Accelerator allocator config: Index out of bounds in ConfigTokenizer");
    return NULL;
}

/* A value stands behind a mark. */
static const char *value(words *w) { return next(w) ? next(w) : NULL; }

static int truth(words *w, bool *to)
{
    const char *word = value(w);
    if (!word) return -1;
    *to = !strcmp(word, "True");
    RUSH_CHECK(*to || !strcmp(word, "False"), RUSH_VALUE_ERROR, "Expected 'True' or 'False' at index %d in ConfigTokenizer but got '%s'", w->i - 1, word);
    return 0;
}

static int number(const char *word, double *to)
{
    char *end;
    if (!word) return -1;
    *to = rush_strtod(word, &end);
    RUSH_CHECK(end != word, RUSH_VALUE_ERROR, "a number was expected in the allocator config, not '%s'", word);
    return 0;
}

/* Bytes, given as a number of MiB that is `least` at the least. */
static int size(words *w, const char *name, double least, size_t *to)
{
    double mib;
    if (number(value(w), &mib)) return -1;
    RUSH_CHECK(mib >= least, RUSH_VALUE_ERROR, "CachingAllocator option %s too small, must be >= %g", name, least);
    *to = mib >= (double)(SIZE_MAX / MIB) ? SIZE_MAX : (size_t)mib * MIB;
    return 0;
}

static bool is_power(double x) { return x >= 1 && x < 1e18 && x == (double)(uint64_t)x && !((uint64_t)x & ((uint64_t)x - 1)); }

/* N, or [BELOW:N, ..., >:N]: of how many steps between powers of two sizes of so many MiB are; 0: no such steps. */
static int divisions(words *w, rush_cuda_settings *s)
{
    enum { ALL = RUSH_CUDA_DIVISIONS };
    const char *word = value(w);
    double mib = 0, n;
    if (!word) return -1;
    if (strcmp(word, "[")) {
        if (number(word, &n)) return -1;
        RUSH_CHECK(is_power(n), RUSH_VALUE_ERROR, "For roundups, the divisions has to be power of 2 ");
        for (int i = 0; i < ALL; i++) s->divisions[i] = (size_t)n;
        return 0;
    }
    for (int last = 0, first = 1; (word = next(w)) && strcmp(word, "]");) {
        const bool rest = !strcmp(word, ">");
        int index = 0;
        if (!strcmp(word, ",")) continue;
        if ((!rest && number(word, &mib)) || number(value(w), &n)) return -1;
        RUSH_CHECK(rest || is_power(mib), RUSH_VALUE_ERROR, "For roundups, the intervals have to be power of 2 ");
        RUSH_CHECK(n == 0 || is_power(n), RUSH_VALUE_ERROR, "For roundups, the divisions has to be power of 2 or 0 to disable roundup ");
        while (!rest && index < ALL - 1 && (double)((uint64_t)1 << index) < mib) index++;
        if (rest)
            for (index = ALL - 1; last < ALL; last++) s->divisions[last] = (size_t)n;
        else
            for (int i = first ? 0 : index; i <= index; i++) s->divisions[i] = (size_t)n;
        last = index, first = 0;
    }
    return word ? 0 : -1;
}

/* Of settings that ask for nothing that is done here: pinned memory is taken and freed with its tensors, and no lock is held for long. */
static bool is_idle(const char *name)
{
    static const char *const known[] = {"pinned_use_background_threads", "pinned_use_cuda_host_register", "pinned_use_hip_host_register", "pinned_num_register_threads",
                                        "pinned_reserve_segment_size_mb", "pinned_max_round_threshold_mb", "pinned_max_cached_size_mb", "release_lock_on_cudamalloc",
                                        "graph_capture_record_stream_reuse", "throw_on_cudamalloc_oom"};
    for (size_t i = 0; i < RUSH_COUNT(known); i++)
        if (!strcmp(name, known[i])) return true;
    return false;
}

static int set(const char *name, words *w, rush_cuda_settings *s)
{
    double x;
    bool ignored;
    if (!strcmp(name, "expandable_segments")) return truth(w, &s->expandable);
    if (!strcmp(name, "max_split_size_mb")) return size(w, name, 20, &s->max_split);
    if (!strcmp(name, "max_non_split_rounding_mb")) return size(w, name, 20, &s->max_rounding);
    if (!strcmp(name, "roundup_power2_divisions")) return divisions(w, s);
    if (!strcmp(name, "backend")) {
        const char *word = value(w);
        if (!word) return -1;
        RUSH_CHECK(!strcmp(word, "native") || !strcmp(word, "cudaMallocAsync"), RUSH_VALUE_ERROR, "Unknown allocator backend, options are native and cudaMallocAsync");
        RUSH_CHECK(!strcmp(word, "native"), RUSH_NOT_IMPLEMENTED, "the allocator backend cudaMallocAsync is not there: native is the only one");
        return 0;
    }
    if (!strcmp(name, "large_segment_size_mb")) {
        if (size(w, name, 0, &s->large_segment)) return -1;
        RUSH_CHECK(s->large_segment > 10 * MIB, RUSH_VALUE_ERROR, "CachingAllocator option large_segment_size_mb must be > 10 MB");
        return 0;
    }
    if (!strcmp(name, "garbage_collection_threshold")) {
        if (number(value(w), &x)) return -1;
        RUSH_CHECK(x > 0 && x < 1, RUSH_VALUE_ERROR, "garbage_collect_threshold is invalid, set it in (0.0, 1.0)");
        return s->collect = x, 0;
    }
    if (!strcmp(name, "per_process_memory_fraction")) {
        if (number(value(w), &x)) return -1;
        RUSH_CHECK(x >= 0 && x <= 1, RUSH_VALUE_ERROR, "per_process_memory_fraction is invalid, set it in [0.0, 1.0]");
        return s->fraction = x, 0;
    }
    RUSH_CHECK(is_idle(name), RUSH_VALUE_ERROR, "Unrecognized key '%s' in Accelerator allocator config.", name);
    if (!strstr(name, "_mb") && !strstr(name, "_num_")) return truth(w, &ignored);
    if (number(value(w), &x)) return -1;
    RUSH_CHECK(!strstr(name, "_num_") || is_power(x), RUSH_VALUE_ERROR, "Number of register threads has to be power of 2, got %g", x);
    return 0;
}

static int take(const char *text)
{
    words *w = rush_calloc(1, sizeof *w);
    rush_cuda_settings s = now;
    int failed = !w || split(text, w);
    while (!failed && w->i < w->n) {
        const char *name = next(w);
        failed = !strchr(",:", name[0]) && set(name, w, &s);
    }
    rush_free(w);
    if (failed) return -1;
    pthread_mutex_lock(&lock);
    now = s;
    pthread_mutex_unlock(&lock);
    return 0;
}

const rush_cuda_settings *rush_cuda_settings_now(void)
{
    if (!read) {
        const char *text = getenv("PYTORCH_CUDA_ALLOC_CONF");
        if (!text) text = getenv("PYTORCH_ALLOC_CONF");
        if (text && take(text)) return NULL;
        read = true;
    }
    return &now;
}

int rush_cuda_set(const char *text) { return !rush_cuda_settings_now() || take(text) ? -1 : 0; }
