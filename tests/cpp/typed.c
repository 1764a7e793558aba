/* typed.c - the typed functions from C: lists, NULL and zeroed options, blocks, hooks, generators. Prints "fine". */
#include <rushlight.h>
#include <rushlight/dist.h>
#include <rushlight/program.h>
#include <stdio.h>

static int wrong(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, rush_error() ? rush_error() : "differs");
    return 1;
}
#define SAME(x, y)                                                                                          \
    do {                                                                                                    \
        if (rush_item(rush_sum(rush_abs(rush_sub(x, y)))) != 0 || rush_error()) return wrong(#x " is not " #y); \
    } while (0)

static int options(void)
{
    rush_tensor *x = rush_randn(RUSH_INTS(1, 2, 8, 8)), *w = rush_randn(RUSH_INTS(4, 2, 3, 3));
    SAME(rush_conv2d(x, w), rush_conv2d_call(x, w, NULL));
    SAME(rush_conv2d(x, w), rush_conv2d_call(x, w, &(rush_conv2d_options){0}));
    SAME(rush_conv2d(x, w, .stride = RUSH_INTS(2, 2)), rush_conv2d_call(x, w, &(rush_conv2d_options){.stride = RUSH_INTS(2)}));
    SAME(rush_max_pool2d(x, RUSH_INTS(2, 2)), rush_max_pool2d(x, 2, .stride = RUSH_INTS(2, 2)));
    SAME(rush_max_pool2d(rush_max_pool2d(x, 2, .ceil_mode = true), 2), rush_max_pool2d(x, 4));
    /* zeros are defaults in a struct of one's own, and what they say in a call by name */
    rush_avg_pool2d_options own = {.padding = RUSH_INTS(1)};
    SAME(rush_avg_pool2d_call(RUSH_V(x), RUSH_INTS(3), &own), rush_avg_pool2d(x, 3, .padding = RUSH_INTS(1), .count_include_pad = true));
    own.exact = true;
    SAME(rush_avg_pool2d_call(RUSH_V(x), RUSH_INTS(3), &own), rush_avg_pool2d(x, 3, .padding = RUSH_INTS(1), .count_include_pad = false));
    if (rush_add_call(RUSH_V(x), RUSH_V(1), NULL) == NULL) return wrong("options that are NULL");
    if (!rush_adamw_with(rush_parameters(rush_nn_linear_with(2, 3, NULL)), NULL)) return wrong("a layer and an optimizer without options");
    if (rush_conv2d_call(NULL, w, NULL) || rush_error_kind_now() != RUSH_TYPE_ERROR) return wrong("a tensor that is NULL");
    rush_error_clear();
    rush_tensor *copy = rush_clone(x);
    SAME(rush_mul_(copy, 2), rush_add(x, x));
    SAME(copy, rush_add(x, x));
    return 0;
}

static rush_tensor *twice(void *arg, rush_tensor *g)
{
    ++*(int *)arg;
    return rush_mul(g, 2);
}

static void ended(void *arg) { *(int *)arg += 100; }

static uint64_t both[2];

static rush_tensor *remove_both(void *arg, rush_tensor *g)
{
    rush_hook_remove((rush_tensor *)arg, both[0]);
    rush_hook_remove((rush_tensor *)arg, both[1]);
    return rush_mul(g, 2);
}

static void see(void *arg, const rush_profile_event *e, bool begins)
{
    if (e->how == RUSH_PROFILE_CALL && begins) ++*(int *)arg;
}

static int modes(void)
{
    rush_generator *g = rush_generator_new(3), *h = rush_generator_new(3);
    SAME(rush_rand_generator(RUSH_INTS(5), g), rush_rand_generator(RUSH_INTS(5), h));
    unsigned char state[RUSH_GENERATOR_STATE];
    rush_generator_state(g, state);
    rush_tensor *next = rush_rand_generator(RUSH_INTS(5), g);
    if (rush_generator_state_set(g, state, sizeof state)) return wrong("a generator's state");
    SAME(next, rush_rand_generator(RUSH_INTS(5), g));
    rush_generator_drop(g);
    rush_generator_drop(h);

    int calls = 0;
    rush_tensor *x = rush_requires_grad_set(rush_from_floats(RUSH_FLOATS(1, 2)), true), *y = rush_mul(x, 3);
    uint64_t id = rush_hook_add(x, twice, &calls, ended);
    if (!id || rush_retain_grad(y)) return wrong("a hook");
    rush_backward(rush_sum(y));
    SAME(rush_grad(x), rush_from_floats(RUSH_FLOATS(6, 6)));
    SAME(rush_grad(y), rush_from_floats(RUSH_FLOATS(1, 1)));
    if (calls != 1 || rush_hook_remove(x, id) || calls != 101) return wrong("a hook is called once, then removed");
    if (!rush_hook_remove(x, id)) return wrong("a hook that is gone");
    rush_error_clear();
    both[0] = rush_hook_add(x, remove_both, x, NULL);
    both[1] = rush_hook_add(x, twice, &calls, ended);
    rush_backward(rush_sum(rush_mul(x, 3)));
    SAME(rush_grad(x), rush_from_floats(RUSH_FLOATS(12, 12)));
    if (calls != 201) return wrong("a hook that removes itself and the next");

    rush_no_grad() if (rush_requires_grad(rush_mul(x, x))) return wrong("recorded in rush_no_grad()");
    rush_tensor *a = rush_randn(RUSH_INTS(4, 4));
    rush_autocast(RUSH_BF16) if (rush_dtype_of(rush_matmul(a, a)) != RUSH_BF16) return wrong("not cast in rush_autocast()");
    if (rush_autocast_on(RUSH_CPU) || !rush_grad_enabled()) return wrong("a block did not end");

    int seen = 0;
    rush_profile_to(see, &seen);
    rush_mul(a, a);
    rush_profile_to(NULL, NULL);
    rush_mul(a, a);
    return seen == 1 ? 0 : wrong("calls that were seen");
}

int main(void)
{
    int failed = 0;
    rush_scope() {
        rush_manual_seed(1);
        failed = options() || modes();
    }
    if (rush_error()) return wrong("at the end");
    if (!failed) puts("fine");
    return failed;
}
