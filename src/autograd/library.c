/* library.c - operations defined piece by piece: rushlight/library.h. A definition is a record whose run chooses among the
 * functions that were given to it, by the device of its arguments and by whether a gradient is wanted. */
#include "autograd/autograd.h"
#include "op/nested.h"
#include "op/watch.h"
#include <rushlight/library.h>
#include <rushlight/modes.h>

typedef struct kernel {
    const char *key; /* one of `keys` */
    rush_library_fn fn;
    void *arg;
    void (*end)(void *arg);
} kernel;

enum { KERNELS = 15 };
typedef struct definition {
    rush_op op;
    int n;
    kernel kernel[KERNELS];
    char schema[];
} definition;

enum { CPU, META, CUDA, PRIVATE, QUANTIZED }; /* of `keys` */
static const char *const keys[KERNELS] = {"CPU", "Meta", "CUDA", "PrivateUse1", "QuantizedCPU", "CompositeExplicitAutograd", "CompositeImplicitAutograd", "",
                                          "Autograd", "AutogradCPU", "AutogradCUDA", "AutogradPrivateUse1", "AutogradMeta", "AutocastCPU", "AutocastCUDA"};
/* Of devices and modes that are nowhere here: their functions are taken, and never run. */
static const char *const elsewhere[] = {"HIP", "HPU", "IPU", "MPS", "MTIA", "VE", "XLA", "XPU", "Lazy", "QuantizedCUDA", "SparseCPU", "SparseCUDA", "SparseCsrCPU", "SparseCsrCUDA", "NestedTensorCPU", "NestedTensorCUDA",
                                        "AutogradOther", "AutogradHPU", "AutogradIPU", "AutogradMPS", "AutogradMTIA", "AutogradXLA", "AutogradXPU", "AutogradLazy", "AutogradNestedTensor",
                                        "AutocastHPU", "AutocastIPU", "AutocastMPS", "AutocastMTIA", "AutocastXLA", "AutocastXPU", "AutocastPrivateUse1", "ADInplaceOrView", "BackendSelect", "Functionalize",
                                        "FuncTorchBatched", "Python", "Tracer"};

/* What was given to operations that are not defined yet: objects are loaded in any order. */
typedef struct waiting {
    struct waiting *next;
    kernel kernel;
    char name[];
} waiting;
static waiting *list;

static const char *key_of(const char *text)
{
    if (!strcmp(text, "Autocast")) text = "AutocastCUDA"; /* its name of old */
    for (size_t k = 0; k < RUSH_COUNT(keys); ++k)
        if (!strcmp(keys[k], text)) return keys[k];
    return NULL;
}

static bool is_elsewhere(const char *key)
{
    for (size_t k = 0; k < RUSH_COUNT(elsewhere); ++k)
        if (!strcmp(elsewhere[k], key)) return true;
    return false;
}

static const kernel *find(const definition *d, const char *prefix, const char *name)
{
    size_t n = strlen(prefix);
    for (int k = 0; k < d->n; ++k)
        if (!strncmp(d->kernel[k].key, prefix, n) && !strcmp(d->kernel[k].key + n, name)) return &d->kernel[k];
    return NULL;
}

/* The type of device of the first tensor; whether any is quantized. */
static int device_type(const rush_op *op, const rush_value *in, bool *quantized)
{
    int type = RUSH_CPU;
    for (int i = op->nargs - 1; i >= 0; --i) {
        const rush_tensor *t = in[i].kind == RUSH_V_TENSOR ? in[i].t : in[i].kind == RUSH_V_TENSORS && in[i].n ? in[i].tensors[0] : NULL;
        if (t) type = t->device.type, *quantized |= t->layout == RUSH_QUANTIZED;
        else if (in[i].kind == RUSH_V_DEVICE) type = in[i].device.type;
    }
    return type;
}

/* Without data there is nothing to do for an operation that only writes its arguments, so it needs no function for that. */
static bool only_writes(const rush_op *op)
{
    bool any = false;
    for (int i = 0; i < op->nargs; ++i) any |= op->args[i].written;
    return any && !op->nout;
}

/* Does somebody see every operation, or an argument answer for itself? */
static bool is_watched(const rush_op *op, const rush_value *in)
{
    if (rush_now.mode & RUSH_MODE_WATCH) return true;
    for (int i = 0; i < op->nargs; ++i) {
        if (in[i].kind == RUSH_V_TENSOR && rush_is_watched(in[i].t)) return true;
        for (uint32_t k = 0; in[i].kind == RUSH_V_TENSORS && k < in[i].n; ++k)
            if (in[i].tensors[k] && rush_is_watched(in[i].tensors[k])) return true;
    }
    return false;
}

/* The watcher's answer: 0, -1, or 1 if it has none. Who sees operations sees this one below autograd. */
static int watched(const rush_op *op, const rush_value *in, rush_value *out, bool given)
{
    const uint32_t mode = rush_now.mode, *outside = rush_now.outside;
    if (!given) rush_now.outside = &mode, rush_now.mode |= RUSH_MODE_NO_GRAD;
    int taken = rush_watcher(RUSH_FORM_CALL, op, in, out);
    rush_now.mode = mode;
    rush_now.outside = outside;
    return taken;
}

/* What it says and gives is looked at: a call that fails leaves an error, and one that does not gives what its schema promises. */
static int use(const kernel *k, const rush_op *op, const rush_value *in, rush_value *out)
{
    if (k->fn(k->arg, op, in, out)) return rush_fail(RUSH_RUNTIME_ERROR, "its function for '%s' failed without an error", k->key);
    for (int i = 0; i < op->nout; ++i) {
        const rush_value *v = &out[i];
        bool fits = op->out_list >> i & 1 ? v->kind == RUSH_V_TENSORS && (v->tensors || !v->n) : v->kind == RUSH_V_TENSOR;
        RUSH_CHECK(fits || op->out_types[i] != RUSH_A_TENSOR || (v->kind == RUSH_V_NONE && strchr(strstr(op->schema, "->"), '?')), RUSH_TYPE_ERROR, "its function for '%s' gave no tensor%s as result %d", k->key,
                   op->out_list >> i & 1 ? "s" : "", i);
        RUSH_CHECK(op->out_types[i] != RUSH_A_NESTED || rush_type_fits(rush_type_of_result(op, i), v), RUSH_TYPE_ERROR, "its function for '%s' gave another type than the schema says as result %d", k->key, i);
    }
    return rush_failed() ? -1 : 0;
}

static int run(const rush_op *op, const rush_value *in, rush_value *out)
{
    const definition *d = (const definition *)op;
    bool quantized = false;
    int type = device_type(op, in, &quantized);
    const char *device = keys[type == RUSH_CPU ? CPU : type == RUSH_META ? META : type == RUSH_CUDA ? CUDA : PRIVATE];
    const kernel *k = NULL;
    if (rush_now.mode & RUSH_MODE_AUTOCAST && rush_autocast_on(type) && (k = find(d, "Autocast", device))) return use(k, op, in, out);
    const kernel *above = find(d, "Autograd", device);
    if (!above) above = find(d, "", "Autograd");
    if (above && !(rush_now.mode & RUSH_MODE_NO_GRAD) && rush_any_wants_grad(op, in)) return use(above, op, in, out);
    if (quantized && type == RUSH_CPU) device = keys[QUANTIZED];
    if (!(k = find(d, "", device))) k = find(d, "", "CompositeExplicitAutograd");
    bool below = k, given = rush_watch_all || op->given; /* given: perhaps a function of Python's for this device */
    if (!k && !(k = find(d, "", "CompositeImplicitAutograd"))) k = find(d, "", "");
    if (rush_watcher && !(rush_now.mode & RUSH_MODE_UNWATCHED) && (given || ((below || !k) && is_watched(op, in)))) { /* what consists of others is opened */
        int taken = watched(op, in, out, given);
        if (taken <= 0) return taken;
    }
    if (!k && device == keys[META] && only_writes(op)) return 0;
    static _Thread_local const rush_op *within; /* the operation whose Autograd function has to do */
    const rush_op *was = within;
    if (!k && within != op && (k = above)) within = op; /* when there is nothing to record, it may consist of others, but not of itself */
    RUSH_CHECK(k, RUSH_NOT_IMPLEMENTED, "Could not run '%s' with arguments from the '%s' backend: no function was given to it for that.", op->name, device);
    uint32_t mode = rush_now.mode;
    if (below) rush_now.mode |= RUSH_MODE_NO_GRAD;
    int failed = use(k, op, in, out);
    within = was;
    if (below) rush_now.mode = (rush_now.mode & ~RUSH_MODE_NO_GRAD) | (mode & RUSH_MODE_NO_GRAD);
    return failed;
}

static void give(definition *d, kernel k)
{
    rush_lock(RUSH_LOCK_REGISTRY);
    kernel *at = (kernel *)find(d, "", k.key), was = {0};
    if (!at) at = &d->kernel[d->n];
    else was = *at;
    *at = k;
    d->n += at == &d->kernel[d->n];
    rush_unlock(RUSH_LOCK_REGISTRY);
    if (was.end) was.end(was.arg);
}

const rush_op *rush_library_define(const char *schema)
{
    RUSH_CHECK_NULL(schema, RUSH_VALUE_ERROR, "rush_library_define: the schema is NULL");
    definition *d = rush_calloc(1, sizeof *d + strlen(schema) + 1);
    if (!d) return NULL;
    d->op = (rush_op){.schema = strcpy(d->schema, schema), .doc = "Defined by a program.", .run = run};
    if (rush_op_register(&d->op)) {
        rush_free(d);
        return NULL;
    }
    for (waiting **w = &list; *w;) {
        waiting *found = *w;
        if (strcmp(found->name, d->op.name)) {
            w = &found->next;
            continue;
        }
        *w = found->next;
        give(d, found->kernel);
        rush_free(found);
    }
    return &d->op;
}

int rush_library_impl(const char *name, const char *key, rush_library_fn fn, void *arg, void (*end)(void *))
{
    const char *known = key ? key_of(key) : NULL;
    RUSH_CHECK(name, RUSH_VALUE_ERROR, "rush_library_impl: the name is NULL");
    RUSH_CHECK(known || (key && is_elsewhere(key)), RUSH_VALUE_ERROR, "%s: could not parse dispatch key: %s", name, key ? key : "(NULL)");
    RUSH_CHECK(fn, RUSH_VALUE_ERROR, "%s: the function is NULL", name);
    if (!known) {
        if (end) end(arg);
        return 0;
    }
    const kernel k = {known, fn, arg, end};
    const rush_op *op = rush_op_find(name);
    RUSH_CHECK(!op || op->run == run, RUSH_RUNTIME_ERROR, "operator %s is the library's own and cannot be implemented anew", name);
    if (op) return give((definition *)op, k), 0;
    waiting *w = rush_malloc(sizeof *w + strlen(name) + 1);
    if (!w) return -1;
    *w = (waiting){list, k};
    strcpy(w->name, name);
    list = w;
    return 0;
}
