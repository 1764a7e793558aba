/* typed.cpp - the typed functions from C++: defaults, braces, options as a struct, blocks, in-place forms. Prints "fine". */
#include <cstdio>
#include <rushlight.h>
#include <rushlight/dist.h>
#include <rushlight/program.h>
#include <vector>

static int wrong(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, rush_error() ? rush_error() : "differs");
    return 1;
}
#define SAME(x, y)                                                                                          \
    do {                                                                                                    \
        if (rush_item(rush_sum(rush_abs(rush_sub(x, y)))) != 0 || rush_error()) return wrong(#x " is not " #y); \
    } while (0)

static int operations()
{
    rush_tensor *x = rush_randn({1, 2, 8, 8}), *w = rush_randn({4, 2, 3, 3}), *b = rush_randn(4);
    SAME(rush_conv2d(x, w), rush_conv2d_call(x, w, nullptr));
    rush_conv2d_options o;
    SAME(rush_conv2d(x, w, o), rush_conv2d(x, w));
    o.bias = b;
    o.stride = RUSH_INTS(2, 1);
    SAME(rush_conv2d(x, w, b, {2, 1}), rush_conv2d(x, w, o));
    std::vector<int64_t> two = {2, 2};
    SAME(rush_max_pool2d(x, two), rush_max_pool2d(x, 2));
    SAME(rush_max_pool2d(x, {2, 2}), rush_max_pool2d(x, RUSH_INTS(2, 2), 2, 0, 1, false));
    SAME(rush_add(x, 2), rush_add(2, x));
    SAME(rush_add(x, x, 0.5), rush_mul(x, 1.5));
    SAME(rush_to(x, RUSH_F64), x);
    SAME(rush_cat({b, b}, 0), rush_cat(RUSH_TENSORS(b, b)));
    rush_tensor *copy = rush_clone(x);
    SAME(rush_add_(copy, x), rush_mul(x, 2));
    SAME(copy, rush_mul(x, 2));
    SAME(rush_sum_dim_intlist(x, {0, 1, 2, 3}), rush_sum(x));
    rush_avg_pool2d_options plain;
    plain.padding = RUSH_INTS(1);
    plain.count_include_pad = false;
    SAME(rush_avg_pool2d(x, 3, plain), rush_avg_pool2d(x, 3, {}, 1, false, false));
#if __cplusplus >= 202002L
    SAME(rush_conv2d(x, w, {.bias = b, .stride = RUSH_INTS(2, 1)}), rush_conv2d(x, w, o));
#endif
    return 0;
}

static int training()
{
    rush_tensor *x = rush_randn({4, 2, 8, 8});
    rush_module *net = rush_nn_sequential(rush_nn_conv2d(2, 4, {3, 1}), rush_nn_batch_norm(4), rush_nn_leaky_relu(0.1), rush_nn_flatten(),
                                          rush_nn_linear(4 * 6 * 8, 3));
    rush_adam_options fast{};
    fast.lr = 0.01;
    rush_optim *opt = rush_adam(rush_parameters(net), fast);
    fast.weight_decay = 0; /* left out it is RUSH_DEFAULT: a zero that is written counts */
    if (!rush_adamw(rush_parameters(net), fast)) return wrong("no decay");
    double first = 0, last = 0;
    for (int step = 0; step < 10; step++)
        rush_scope() {
            rush_tensor *loss = rush_cross_entropy_loss(rush_forward(net, x), rush_from_ints(RUSH_INTS(0, 1, 2, 0)));
            rush_optim_zero_grad(opt);
            rush_backward(loss);
            rush_optim_step(opt);
            last = rush_item(loss);
            if (!step) first = last;
        }
    if (!(last < first)) return wrong("the loss does not fall");
    rush_no_grad() {
        if (rush_requires_grad(rush_forward(net, x))) return wrong("recorded in rush_no_grad()");
    }
    rush_autocast(RUSH_BF16) {
        if (rush_dtype_of(rush_forward(net, x)) != RUSH_BF16) return wrong("not cast in rush_autocast()");
    }
    if (rush_autocast_on(RUSH_CPU) || !rush_grad_enabled()) return wrong("a block did not end");
#if __cplusplus >= 202002L
    rush_nn_lstm(3, 4, {.layers = 2});
    rush_adamw(rush_parameters(net), {.lr = 3e-4});
#endif
    return 0;
}

/* What writes programs, asked to write none. */
static int refused(int status)
{
    bool well = status == -1 && rush_error();
    rush_error_clear();
    return !well;
}
static int programs()
{
    rush_module *net = rush_nn_linear(1, 1);
    rush_c_options small;
    small.int8 = true;
    if (refused(rush_program_save_c(net, "none.c")) || refused(rush_program_save_c(net, "none.c", small)) || refused(rush_program_save_onnx(net, "none.onnx")) ||
        refused(rush_program_archive("none.pt2", "some.pt2")))
        return wrong("a program of a layer");
#if __cplusplus >= 202002L
    if (refused(rush_program_save_onnx(net, "none.onnx", {.opset = 20})) || refused(rush_program_archive("none.pt2", "some.pt2", {.softmax = true}))) return wrong("a program of a layer");
#endif
    return 0;
}

int main()
{
    int failed = 0;
    rush_scope() {
        rush_manual_seed(1);
        failed = operations() || training() || programs();
    }
    if (rush_error()) return wrong("at the end");
    if (!failed) puts("fine");
    return failed;
}
