/* Archives of torch.jit.save in a C program: results are PyTorch's, they can be trained, and damage is an error. */
#define PROGRAMS "scripts"
#include "suite/programs.h"

#include <string.h>
#include <unistd.h>

static const char *const names[] = {"cnn_traced", "cnn_scripted", "gru_traced", "lstm_scripted", "encoder_traced", "encoder_scripted"};

static void results_are_pytorchs_and_weights_learn(void **state)
{
    for (size_t k = 0; k < sizeof names / sizeof *names; ++k) {
        rush_scope() {
            rush_module *net = rush_program_load(file(names[k], ".pt"));
            const rush_content *io = rush_load(file(names[k], ".io"));
            assert_true(net && io && io->n == 2);
            rush_tensor *x = io->items[0]->items[0]->t, *y = rush_forward(net, x);
            assert_non_null(y);
            assert_true(differs(y, io->items[1]->t) < 1e-5);
            assert_int_equal(rush_program_inputs(net), 1);
            assert_int_equal(rush_program_results(net), 1);
            const char *text = rush_program_text(net);
            assert_true(text && strstr(text, "def forward"));
            rush_optim *opt = rush_sgd(rush_parameters(net), .lr = 0.01);
            rush_tensor *loss = rush_mean(rush_mul(y, y));
            rush_backward(loss);
            rush_optim_step(opt);
            y = rush_forward(net, x);
            assert_true(rush_item(rush_mean(rush_mul(y, y))) < rush_item(loss));
        }
        assert_null(rush_error());
    }
}

static void several_results_come_one_after_the_other(void **state)
{
    rush_scope() {
        rush_tensor *out[32], *x = rush_ones(RUSH_INTS(3, 3));
        rush_module *net = rush_program_load(file("control", ".pt"));
        int n = rush_program_run(net, 1, &x, 32, out);
        assert_true(n > 3);
        assert_int_equal(rush_ndim(out[0]), 3);
        assert_int_equal(rush_program_run(net, 1, &x, 1, out), -1);
        assert_non_null(strstr(rush_error(), "room"));
        rush_error_clear();
    }
}

static void damage_is_an_error(void **state)
{
    char bytes[20000], path[64];
    FILE *f = fopen(file("values", ".pt"), "rb");
    size_t n = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    snprintf(path, sizeof path, "/tmp/rush_script_%d.pt", (int)getpid());
    for (size_t at = 0; at < n; at += 31) {
        bytes[at] ^= 0x55;
        f = fopen(path, "wb");
        fwrite(bytes, 1, n, f);
        fclose(f);
        rush_scope() {
            rush_module *net = rush_program_load(path);
            assert_true(net || rush_error());
            rush_error_clear();
        }
        bytes[at] ^= 0x55;
    }
    unlink(path);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(results_are_pytorchs_and_weights_learn), cmocka_unit_test(several_results_come_one_after_the_other), cmocka_unit_test(damage_is_an_error)};
    return SUITE(tests);
}
