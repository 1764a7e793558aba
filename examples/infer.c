/* infer.c - inference from a saved file: the network of digits.c, its weights, one picture on the terminal.
 *
 *     infer digits.safetensors digits.npy [which]
 */
#include <rushlight.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    const char *weights = argc > 1 ? argv[1] : "digits.safetensors", *data = argc > 2 ? argv[2] : "examples/data/digits.npy";
    int which = argc > 3 ? atoi(argv[3]) : 42;
    rush_grad_enabled_set(false);
    rush_scope() {
        rush_module *net = rush_nn_sequential(rush_nn_conv2d(1, 32, 3, .padding = RUSH_INTS(1)), rush_nn_relu(),
                                              rush_nn_conv2d(32, 64, 3, .padding = RUSH_INTS(1)), rush_nn_relu(), rush_nn_max_pool2d(2),
                                              rush_nn_flatten(), rush_nn_linear(64 * 4 * 4, 128), rush_nn_relu(), rush_nn_dropout(0.4),
                                              rush_nn_linear(128, 10));
        rush_module_load(net, weights);
        rush_module_eval(net);
        rush_tensor *row = rush_select(rush_npy_load(data), 0, which), *pixels = rush_narrow(row, 0, 0, 64);
        if (rush_error()) break;
        const uint8_t *p = rush_data(pixels);
        for (int i = 0; i < 64; i++) printf("%c%s", " .:-=+*#%@"[p[i] * 9 / 16], i % 8 == 7 ? "\n" : "");
        rush_tensor *x = rush_div(rush_reshape(rush_to(pixels, rush_v_dtype(RUSH_F32)), RUSH_INTS(1, 1, 8, 8)), 16);
        rush_tensor *chance = rush_softmax(rush_forward(net, x), 1);
        for (int i = 0; i < 10 && chance; i++) printf("%d: %5.1f %%\n", i, 100 * (double)((float *)rush_data(chance))[i]);
    }
    if (rush_error()) fprintf(stderr, "%s\n", rush_error());
    return rush_error() ? 1 : 0;
}
