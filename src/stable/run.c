/* run.c - programs that AOTInductor compiled, by the path of their shared object: _stable::run computes, _stable::call_spec tells how
 * inputs and results are nested. */
#include "stable/stable.h"
#include <rushlight/library.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { INSTANCES = 2 }; /* of a program, that run side by side */

/* Of an object: its functions, as AOTInductor names them, and the container they made. */
typedef struct compiled {
    char *path;
    void *container;
    int32_t (*run)(void *container, stable_tensor **in, size_t n, stable_tensor **out, size_t nout, void *stream, void *executor);
    int32_t (*why)(const char **);
    const char *spec[2]; /* of inputs, of results */
    size_t n, nout;
    struct compiled *next;
} compiled;

static compiled *loaded;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int failed(const compiled *c, const char *what)
{
    const char *why = "";
    if (c->why) c->why(&why);
    return rush_fail(RUSH_RUNTIME_ERROR, "'%s' cannot be %s: %s%s%s", c->path, what, why, *why ? "; " : "", rush_stable_message());
}

static int open_compiled(compiled *c)
{
    dlopen("libsleef.so.3", RTLD_NOW | RTLD_GLOBAL); /* for programs that call its functions on vectors, which PyTorch's library has inside */
    void *object = dlopen(c->path, RTLD_NOW | RTLD_LOCAL);
    const char *why = object ? "" : dlerror();
    if (!object) return rush_fail(RUSH_RUNTIME_ERROR, "%s%s", why, strstr(why, "Sleef_") ? " (of SLEEF, which is not installed: libsleef3, as Debian calls it)" : "");
    int32_t (*make)(void **, size_t, const char *, const char *) = NULL, (*inputs)(void *, size_t *) = NULL, (*outputs)(void *, size_t *) = NULL, (*spec)(void *, const char **, const char **) = NULL;
    const struct { void *to; const char *name; } needed[] = {{&make, "AOTInductorModelContainerCreateWithDevice"}, {&inputs, "AOTInductorModelContainerGetNumInputs"},
        {&outputs, "AOTInductorModelContainerGetNumOutputs"}, {&c->run, "AOTInductorModelContainerRun"}, {&spec, "AOTInductorModelContainerGetCallSpec"}, {&c->why, "AOTInductorGetLastError"}};
    for (size_t k = 0; k < sizeof needed / sizeof *needed; ++k) {
        void *f = dlsym(object, needed[k].name);
        if (!f && needed[k].to != (void *)&c->why) return rush_fail(RUSH_RUNTIME_ERROR, "'%s' is no program of AOTInductor: it has no %s", c->path, needed[k].name);
        memcpy(needed[k].to, &f, sizeof f);
    }
    if (make(&c->container, INSTANCES, "cpu", NULL) || inputs(c->container, &c->n) || outputs(c->container, &c->nout) || spec(c->container, &c->spec[0], &c->spec[1])) return failed(c, "loaded");
    return 0;
}

/* Objects stay for the process. */
static const compiled *compiled_at(const char *path)
{
    pthread_mutex_lock(&lock);
    compiled *c = loaded;
    while (c && strcmp(c->path, path)) c = c->next;
    if (!c && !(c = calloc(1, sizeof *c))) rush_fail(RUSH_MEMORY_ERROR, "out of memory");
    else if (!c->run) {
        if (!(c->path = strdup(path)) || open_compiled(c)) {
            if (!c->path) rush_fail(RUSH_MEMORY_ERROR, "out of memory");
            free(c->path);
            free(c);
            c = NULL;
        } else c->next = loaded, loaded = c;
    }
    pthread_mutex_unlock(&lock);
    return c;
}

static int run(void *arg, const rush_op *op, const rush_value *in, rush_value *out)
{
    (void)arg, (void)op;
    const compiled *c = compiled_at(in[0].s);
    if (!c) return -1;
    if (in[1].n != c->n) return rush_fail(RUSH_RUNTIME_ERROR, "the program takes %zu tensors, and was given %u", c->n, in[1].n);
    stable_tensor **handles = calloc(c->n + c->nout + 1, sizeof *handles);
    rush_tensor **results = rush_scope_copy((rush_tensor *[64]){0}, 64 * sizeof *results);
    if (!handles || !results || c->nout > 64) return free(handles), rush_fail(RUSH_MEMORY_ERROR, "out of memory");
    int wrong = 0;
    for (size_t i = 0; i < c->n && !wrong; ++i) wrong = !(handles[i] = rush_stable_handle(in[1].tensors[i])) ? -1 : 0;
    if (!wrong && c->run(c->container, handles, c->n, handles + c->n, c->nout, NULL, NULL)) wrong = failed(c, "run");
    for (size_t i = 0; i < c->nout && !wrong; ++i) results[i] = rush_stable_take(handles[c->n + i]);
    free(handles);
    out[0] = rush_v_tensors(results, c->nout);
    return wrong ? -1 : 0;
}

static int call_spec(void *arg, const rush_op *op, const rush_value *in, rush_value *out)
{
    (void)arg, (void)op;
    const compiled *c = compiled_at(in[0].s);
    for (int i = 0; c && i < 2; ++i) out[i] = rush_v_string(c->spec[i]);
    return c ? 0 : -1;
}

__attribute__((constructor)) static void define(void)
{
    if (rush_library_define("_stable::run(str path, Tensor[] inputs) -> Tensor[]")) rush_library_impl("_stable::run", "CompositeExplicitAutograd", run, NULL, NULL);
    if (rush_library_define("_stable::call_spec(str path) -> (str, str)")) rush_library_impl("_stable::call_spec", "CompositeExplicitAutograd", call_spec, NULL, NULL);
}
