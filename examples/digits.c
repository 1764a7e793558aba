/* digits.c - train a small convolutional network on handwritten digits, look at its mistakes, save it, use it.
 *
 *     digits [digits.npy [EPOCHS]]
 *
 * Nothing here is freed: what a scope made goes when it closes. tests/digits_torch.py is the same program for PyTorch, with the same losses.
 */
#include <rushlight.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 32, TEST = 360, SEED = 7 };
static int epochs = 30;

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static rush_module *network(void)
{
    return rush_nn_sequential(rush_nn_conv2d(1, 32, 3, .padding = RUSH_INTS(1)), rush_nn_relu(),
                              rush_nn_conv2d(32, 64, 3, .padding = RUSH_INTS(1)), rush_nn_relu(), rush_nn_max_pool2d(2),
                              rush_nn_flatten(), rush_nn_linear(64 * 4 * 4, 128), rush_nn_relu(), rush_nn_dropout(0.4),
                              rush_nn_linear(128, 10));
}

static rush_tensor *classify(rush_module *net, rush_tensor *x)
{
    rush_module_eval(net);
    rush_tensor *digit = rush_argmax(rush_forward(net, x), .dim = RUSH_V(1));
    rush_module_train(net, true);
    return digit;
}

static double accuracy(rush_module *net, rush_tensor *x, rush_tensor *y)
{
    rush_scope() return rush_item(rush_sum(rush_eq(classify(net, x), y))) / (double)rush_size(x, 0);
    return 0;
}

static void bar(int epoch, int64_t step, int64_t steps, double loss, double began)
{
    double now = seconds() - began, done = epoch + (double)step / (double)steps, rate = done * (double)steps * BATCH / now;
    printf("\repoch %2d [", epoch + 1);
    for (int i = 0; i < 20; i++) putchar(i < 20 * step / steps ? '#' : '.');
    printf("] loss %.4f  %5.0f digits/s  %3.0f s left", loss, rate, now / done * (epochs - done));
    fflush(stdout);
}

static void train(rush_module *net, rush_tensor *x, rush_tensor *y, rush_tensor *test_x, rush_tensor *test_y)
{
    rush_optim *opt = rush_adamw(rush_parameters(net), .lr = 2e-3);
    int64_t n = rush_size(x, 0), steps = (n + BATCH - 1) / BATCH;
    double began = seconds(), sum = 0;
    for (int epoch = 0; epoch < epochs; epoch++, sum = 0) {
        rush_scope() {
            rush_tensor *order = rush_randperm(n);
            rush_optim_lr_set(opt, rush_lr_cosine(2e-3, epoch, epochs, 0));
            for (int64_t step = 0; step < steps && !rush_error(); step++)
                rush_scope() {
                    int64_t from = step * BATCH, count = from + BATCH < n ? BATCH : n - from;
                    rush_tensor *batch = rush_narrow(order, 0, from, count), *out = rush_forward(net, rush_index_select(x, 0, batch));
                    rush_tensor *loss = rush_cross_entropy(out, rush_index_select(y, 0, batch));
                    rush_optim_zero_grad(opt);
                    rush_backward(loss);
                    rush_optim_step(opt);
                    sum += rush_item(loss);
                    if (isatty(1)) bar(epoch, step + 1, steps, sum / (double)(step + 1), began);
                }
        }
        printf("%sepoch %2d  loss %.6f  test accuracy %.2f %%\n", isatty(1) ? "\r\x1b[K" : "", epoch + 1, sum / (double)steps, 100 * accuracy(net, test_x, test_y));
    }
    printf("trained in %.1f s\n", seconds() - began);
}

/* Rows of the confusion matrix are true digits, columns what they were taken for; below it the misread ones. */
static void picture(const char *path, rush_tensor *x, rush_tensor *y, rush_tensor *guess)
{
    rush_tensor *pairs = rush_add(rush_mul(y, 10), guess);
    rush_tensor *counts = rush_to(rush_reshape(rush_bincount(pairs, .minlength = 100), RUSH_INTS(10, 10)), rush_v_dtype(RUSH_F32));
    rush_tensor *cells = rush_clamp(rush_mul(rush_sqrt(counts), 40), .max = RUSH_V(255));
    cells = rush_repeat_interleave_self_int(rush_repeat_interleave_self_int(cells, 24, .dim = RUSH_V(0)), 24, .dim = RUSH_V(1));
    rush_tensor *wrong = rush_reshape(rush_nonzero(rush_ne(guess, y)), RUSH_INTS(-1));
    int64_t n = rush_size(wrong, 0) < 10 ? rush_size(wrong, 0) : 10;
    rush_tensor *digits = rush_reshape(rush_index_select(x, 0, rush_narrow(wrong, 0, 0, n)), RUSH_INTS(n, 8, 8));
    rush_tensor *row = rush_reshape(rush_permute(digits, RUSH_INTS(1, 0, 2)), RUSH_INTS(8, n * 8));
    row = rush_repeat_interleave_self_int(rush_repeat_interleave_self_int(rush_mul(row, 255), 3, .dim = RUSH_V(0)), 3, .dim = RUSH_V(1));
    row = rush_constant_pad_nd(row, RUSH_INTS(0, 240 - n * 24, 8, 0));
    rush_png_save(path, rush_to(rush_cat(RUSH_TENSORS(cells, row)), rush_v_dtype(RUSH_U8)));
    if (!rush_error()) printf("its mistakes are in %s\n", path);
    else if (rush_error_kind_now() == RUSH_NOT_IMPLEMENTED) printf("left out: %s; %s\n", path, rush_error()), rush_error_clear();
}

int main(int argc, char **argv)
{
    rush_scope() {
        if (argc > 2) sscanf(argv[2], "%d", &epochs);
        rush_manual_seed(SEED);
        rush_tensor *data = rush_to(rush_npy_load(argc > 1 ? argv[1] : "examples/data/digits.npy"), rush_v_dtype(RUSH_F32));
        if (rush_error()) break;
        int64_t n = rush_size(data, 0), test = n < 4 * TEST ? n / 4 : TEST, rest = n - test;
        data = rush_index_select(data, 0, rush_randperm(n));
        rush_tensor *x = rush_reshape(rush_div(rush_narrow(data, 1, 0, 64), 16), RUSH_INTS(n, 1, 8, 8));
        rush_tensor *y = rush_to(rush_select(data, 1, 64), rush_v_dtype(RUSH_I64));
        rush_tensor *test_x = rush_narrow(x, 0, rest, test), *test_y = rush_narrow(y, 0, rest, test);
        rush_module *net = network();
        printf("%lld digits to learn from, %lld to be tested on, %lld weights\n", (long long)rest, (long long)test, (long long)rush_parameter_count(net));
        train(net, rush_narrow(x, 0, 0, rest), rush_narrow(y, 0, 0, rest), test_x, test_y);
        rush_module_save(net, "digits.safetensors");
        rush_module_load(net = network(), "digits.safetensors");
        printf("loaded from digits.safetensors: test accuracy %.2f %%\n", 100 * accuracy(net, test_x, test_y));
        picture("digits.png", test_x, test_y, classify(net, test_x));
    }
    if (rush_error()) fprintf(stderr, "%s\n", rush_error());
    return rush_error() ? 1 : 0;
}
