/* modes.h - what changes how calls are run: generators of random numbers, precision, recording, hooks, a look at every call.
 *
 *     rush_no_grad() { ... }                         nothing is recorded inside
 *     rush_autocast(RUSH_BF16) { ... }               products in bfloat16, as torch.autocast says
 *     rush_hook_add(x, clip, NULL, NULL);            clip(NULL, gradient of x) in every backward pass
 *     rush_normal_(x, .generator = g);               numbers of one's own generator
 *
 * Of the calling thread, all of them, and in PyTorch's terms. Rates over time, as of torch.optim.lr_scheduler, are in
 * rushlight/optim.h, forms that change their first argument in rushlight/ops.h: rush_add_(x, y).
 */
#ifndef RUSHLIGHT_MODES_H
#define RUSHLIGHT_MODES_H

#include <rushlight.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- generators: PyTorch's mt19937 ---- */

RUSH_API rush_generator *rush_generator_new(uint64_t seed); /* the caller's: rush_generator_drop() */
RUSH_API void rush_generator_keep(rush_generator *);
RUSH_API void rush_generator_drop(rush_generator *);
RUSH_API void rush_generator_seed(rush_generator *, uint64_t seed);
/* The state as PyTorch's get_state() gives it. */
#define RUSH_GENERATOR_STATE 5056
RUSH_API void rush_generator_state(const rush_generator *, void *bytes);
RUSH_API int rush_generator_state_set(rush_generator *, const void *bytes, size_t n);

/* ---- autocast, for a type of device ---- */

RUSH_API bool rush_autocast_on(int device_type);
RUSH_API void rush_autocast_set(int device_type, bool on);
RUSH_API rush_dtype rush_autocast_dtype(int device_type);
RUSH_API void rush_autocast_dtype_set(int device_type, rush_dtype);

/* ---- blocks: `rush_no_grad() { ... }`, `rush_autocast(RUSH_BF16) { ... }`; break and return are fine ---- */

typedef struct rush_mode_guard {
    bool was, cast, open; /* what it was; autocast's, or recording's; not yet closed */
    rush_dtype dtype;
} rush_mode_guard;
static inline rush_mode_guard rush_no_grad_begin(void)
{
    rush_mode_guard g = {rush_grad_enabled_set(false), false, true, RUSH_F32};
    return g;
}
static inline rush_mode_guard rush_autocast_begin(rush_dtype dtype)
{
    rush_mode_guard g = {rush_autocast_on(RUSH_CPU), true, true, rush_autocast_dtype(RUSH_CPU)};
    rush_autocast_dtype_set(RUSH_CPU, dtype);
    rush_autocast_set(RUSH_CPU, true);
    return g;
}
static inline void rush_mode_end(rush_mode_guard *g)
{
    if (g->open && g->cast) {
        rush_autocast_set(RUSH_CPU, g->was);
        rush_autocast_dtype_set(RUSH_CPU, g->dtype);
    } else if (g->open) {
        rush_grad_enabled_set(g->was);
    }
    g->open = false;
}
#define rush_no_grad() RUSH_MODE_(__LINE__, rush_no_grad_begin())
#define rush_autocast(dtype) RUSH_MODE_(__LINE__, rush_autocast_begin(dtype))
#define RUSH_MODE_(line, begin) RUSH_MODE2_(line, begin)
#define RUSH_MODE2_(line, begin)                                                                            \
    for (rush_mode_guard rush_mode_##line __attribute__((cleanup(rush_mode_end))) = begin;                  \
         rush_mode_##line.open; rush_mode_end(&rush_mode_##line))

/* ---- hooks on gradients ---- */

/* Sees the gradient of a tensor in each backward pass; what it returns, parked, takes its place. NULL: it stays. */
typedef rush_tensor *(*rush_hook_fn)(void *arg, rush_tensor *grad);
/* Returns a number to remove it by; 0 and an error. end(arg), if there is one, when it goes. */
RUSH_API uint64_t rush_hook_add(rush_tensor *, rush_hook_fn, void *arg, void (*end)(void *arg));
RUSH_API int rush_hook_remove(rush_tensor *, uint64_t id); /* -1 and an error: there is none of this number */
RUSH_API int rush_retain_grad(rush_tensor *);              /* of a result: backward fills its rush_grad(), too */

/* ---- a look at every call, every node of a backward pass, every range that a program marks ---- */

typedef enum rush_profile_how {
    RUSH_PROFILE_CALL,     /* op, as it is                             */
    RUSH_PROFILE_INPLACE,  /* its form name_                           */
    RUSH_PROFILE_OUT,      /* with results that were given: out        */
    RUSH_PROFILE_EVALUATE, /* the engine's work for a node: name       */
    RUSH_PROFILE_NODE,     /* inside that, the derivative itself       */
    RUSH_PROFILE_RANGE     /* what a program marked                    */
} rush_profile_how;
typedef struct rush_profile_event {
    rush_profile_how how;
    const rush_op *op;     /* of calls                                        */
    const rush_value *in, *out;
    const char *name;      /* of nodes and ranges                             */
    int64_t sequence;      /* of the node that is recorded or run; -1: none   */
} rush_profile_event;
typedef void (*rush_profile_fn)(void *arg, const rush_profile_event *, bool begins);
RUSH_API void rush_profile_to(rush_profile_fn, void *arg); /* NULL ends */
RUSH_API uint64_t rush_clock(void);                        /* ns */

#ifdef __cplusplus
}
#endif
#endif
