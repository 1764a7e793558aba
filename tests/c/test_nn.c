/* test_nn.c - modules, their state, files; optimizers against numbers printed by PyTorch 2.13. */
#include "suite/suite.h"
#include "op/op.h"
#include <rushlight/io.h>
#include <rushlight/nn.h>
#include <rushlight/optim.h>

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#define TEST(name) static void name(void **state)

static void no_error(void)
{
    if (rush_error()) print_message("%s\n", rush_error());
    assert_null(rush_error());
}

static double at(rush_tensor *t, int64_t i)
{
    double x;
    no_error();
    assert_non_null(t);
    rush_convert(&x, RUSH_F64, 8, (char *)rush_data(t) + i * (int64_t)rush_dtype_size(rush_dtype_of(t)), rush_dtype_of(t), 8, 1);
    return x;
}

static rush_tensor *numbers(const float *x, int64_t rows, int64_t cols)
{
    return rush_from_data(x, RUSH_F32, cols ? 2 : 1, (const int64_t[]){rows, cols});
}

static double checksum(rush_tensor *t)
{
    double sum = 0;
    no_error();
    assert_non_null(t);
    t = rush_contiguous_copy(t);
    for (int64_t i = 0; i < rush_numel(t); i++) sum += at(t, i) * (double)(i % 7 + 1);
    return sum;
}

static void near(double got, double want)
{
    if (fabs(got - want) > 1e-4 * (1 + fabs(want))) print_message("%.9g instead of %.9g\n", got, want);
    assert_true(fabs(got - want) <= 1e-4 * (1 + fabs(want)));
}

/* Made with the same seed, fed with the same numbers, every layer gives what PyTorch's gives. */
TEST(layers_start_and_compute_as_in_pytorch)
{
    rush_scope() {
        rush_tensor *x = T("reshape", V(T("linspace", V(-1.0), V(1.0), V(240))), INTS(2, 4, 5, 6));
        rush_tensor *rows = T("reshape", V(T("linspace", V(-1.0), V(1.0), V(96))), INTS(3, 4, 8));
        rush_manual_seed(11);
        rush_module *linear = rush_nn_linear(6, 5), *conv = rush_nn_conv2d(4, 6, 3, .padding = RUSH_INTS(1), .groups = 2);
        rush_module *up = rush_nn_conv_transpose2d(4, 3, 2, .stride = RUSH_INTS(2)), *lstm = rush_nn_lstm(8, 5, .layers = 2, .bidirectional = true);
        rush_module *gru = rush_nn_gru(8, 3, .batch_first = true), *attention = rush_nn_attention(8, 2);
        rush_module *encoder = rush_nn_encoder_layer(8, 2, .feedforward = 16, .dropout = 0);
        rush_module *decoder = rush_nn_decoder_layer(8, 4, .feedforward = 16, .dropout = 0, .norm_first = true, .gelu = true);
        rush_module *embedding = rush_nn_embedding(10, 4);
        near(checksum(rush_forward(linear, x)), 4.39190102);
        near(checksum(rush_forward(conv, x)), 49.3339363);
        near(checksum(rush_forward(up, x)), -472.96697);
        near(checksum(rush_forward(lstm, rows)), 0.280935315);
        near(checksum(rush_forward(gru, rows)), 8.73991228);
        near(checksum(rush_forward(attention, rows)), 2.62600076);
        near(checksum(rush_forward(encoder, rows)), 0.754363094);
        rush_tensor *both[2] = {rows, T("mul.Tensor", V(rows), V(0.5))}, *out[8];
        assert_int_equal(rush_forward_all(decoder, 2, both, out), 1);
        near(checksum(out[0]), -55.8320893);
        near(checksum(rush_forward(embedding, T("arange", V(10)))), -12.7131883);
        rush_module *norm = rush_nn_batch_norm(4);
        near(checksum(rush_forward(norm, x)), 1.69079632);
        rush_module_eval(norm);
        near(checksum(rush_forward(norm, x)), 2.88683742);
        near(checksum(rush_forward(rush_nn_layer_norm(6), x)), -10.0052725);
        near(checksum(rush_forward(rush_nn_group_norm(2, 4), x)), -1.87620454);
        near(checksum(rush_forward(rush_nn_max_pool2d(2), x)), 5.70292911);
        near(checksum(rush_forward(rush_nn_sequential(rush_nn_avg_pool2d(2), rush_nn_flatten(), rush_nn_softmax(1)), x)), 7.87920895);
    }
    no_error();
}

TEST(layers_may_be_empty_but_not_less)
{
    rush_scope() {
        assert_float_equal(rush_item(T("sum", V(T("abs", V(rush_module_tensor(rush_nn_linear(0, 2), "bias")))))), 0, 0);
        assert_non_null(rush_nn_conv2d(3, 4, 0));
        assert_non_null(rush_init_xavier_uniform(rush_module_tensor(rush_nn_linear(0, 0), "weight"), 1));
        assert_null(rush_error());
        assert_null(rush_nn_lstm(3, 4, .layers = -1));
        rush_error_clear();
        assert_null(rush_nn_gru(0, 4));
        rush_error_clear();
    }
}

TEST(state_has_pytorchs_names)
{
    rush_scope() {
        rush_module *net = rush_nn_sequential(rush_nn_linear(3, 4), rush_nn_batch_norm(4), rush_nn_encoder_layer(4, 2, .feedforward = 8));
        rush_state s = rush_module_state(net);
        assert_int_equal(s.n, 2 + 5 + 12);
        static const char *const names[] = {"0.weight", "1.running_var", "1.num_batches_tracked", "2.self_attn.in_proj_weight",
                                            "2.self_attn.out_proj.bias", "2.norm2.weight"};
        for (size_t i = 0; i < RUSH_COUNT(names); i++) assert_non_null(rush_state_find(s, names[i]));
        assert_int_equal(rush_parameters(net).n, 2 + 2 + 12);
        assert_ptr_equal(rush_module_tensor(net, "0.bias"), rush_module_tensor(rush_module_child(net, "0"), "bias"));
        rush_module_eval(net);
        assert_false(rush_module_training(rush_module_child(net, "2.self_attn")));
        assert_int_equal(rush_module_to(net, RUSH_F64), 0);
        assert_int_equal(rush_dtype_of(rush_module_tensor(net, "1.running_mean")), RUSH_F64);
        assert_int_equal(rush_dtype_of(rush_module_tensor(net, "1.num_batches_tracked")), RUSH_I64);
    }
}

TEST(weights_come_back_from_a_file)
{
    static char path[32]; /* a run that ended early has left its file */
    if (*path) unlink(path);
    strcpy(path, "rush_test_XXXXXX");
    close(mkstemp(path));
    rush_scope() {
        rush_module *a = rush_nn_sequential(rush_nn_linear(5, 4), rush_nn_relu(), rush_nn_linear(4, 2));
        rush_module *b = rush_nn_sequential(rush_nn_linear(5, 4), rush_nn_relu(), rush_nn_linear(4, 2));
        rush_tensor *x = T("randn", INTS(3, 5));
        assert_int_equal(rush_module_save(a, path), 0);
        assert_int_equal(rush_module_load(b, path), 0);
        rush_tensor *p = rush_forward(a, x), *q = rush_forward(b, x);
        for (int i = 0; i < 6; i++) assert_true(at(p, i) == at(q, i));
        assert_int_equal(rush_module_load(rush_nn_linear(5, 4), path), -1); /* other names */
        assert_non_null(rush_error());
        rush_error_clear();
        rush_tensor *odd = T("transpose.int", V(T("randn", INTS(3, 7), rush_v_dtype(RUSH_F64))), V(0), V(1));
        assert_int_equal(rush_npy_save(path, odd), 0);
        rush_tensor *back = rush_npy_load(path);
        near(checksum(back), checksum(odd));
        assert_int_equal(rush_size(back, 0), 7);
        rush_tensor *picture = T("randint", V(256), INTS(3, 5, 4), rush_v_dtype(RUSH_U8));
        assert_int_equal(rush_png_save(path, picture), 0);
        near(checksum(rush_png_load(path)), checksum(picture));
        assert_null(rush_npy_load("no such file"));
        assert_int_equal(rush_error_kind_now(), RUSH_IO_ERROR);
        rush_error_clear();
        assert_int_equal(rush_safetensors_load(path).n, -1); /* a PNG */
        rush_error_clear();
    }
    unlink(path);
}

/* Five steps on sum((p - target)^2 * weight), p from 0. */
static rush_tensor *parameter, *target, *weight;

static rush_tensor *quadratic(void *unused)
{
    rush_tensor *d = T("sub.Tensor", V(parameter), V(target));
    rush_tensor *loss = T("sum", V(T("mul.Tensor", V(T("mul.Tensor", V(d), V(d))), V(weight))));
    rush_backward(loss);
    return loss;
}

static void five_steps(rush_optim *o, const double *want)
{
    assert_non_null(o);
    rush_init_constant(parameter, 0);
    for (int i = 0; i < 5; i++)
        rush_scope() {
            rush_optim_zero_grad(o);
            rush_optim_step_closure(o, quadratic, NULL);
        }
    for (int i = 0; i < 3; i++) near(at(parameter, i), want[i]);
}

/* A zero in a call by name is a zero: running averages that stay, attention that drops nothing. */
TEST(options_of_layers_may_be_zero)
{
    rush_scope() {
        rush_tensor *x = T("randn", INTS(4, 2));
        rush_module *still = rush_nn_batch_norm(2, .momentum = 0), *usual = rush_nn_batch_norm(2), *none = rush_nn_batch_norm_with(2, &(rush_nn_norm_options){0});
        rush_forward(still, x);
        near(at(rush_module_tensor(still, "running_mean"), 0), 0);
        rush_forward(usual, x);
        rush_forward(none, x);
        near(at(rush_module_tensor(none, "running_mean"), 0), at(rush_module_tensor(usual, "running_mean"), 0));
        assert_true(at(rush_module_tensor(usual, "running_mean"), 0) != 0);
        assert_null(rush_nn_encoder_layer(8, 2, .dropout = -1));
        assert_non_null(strstr(rush_error(), "dropout probability has to be between 0 and 1, but got -1"));
        rush_error_clear();
    }
    no_error();
}

/* LBFGS goes on from a file as in itself, whatever its options were. */
TEST(lbfgs_in_files)
{
    static const float goal[] = {1, -2, 3}, by[] = {1, .5, 2};
    char path[80];
    snprintf(path, sizeof path, "/tmp/rushlight-lbfgs-%d.pt", (int)getpid());
    rush_scope() {
        double got[2][3] = {{0}};
        parameter = rush_requires_grad_set(T("zeros", INTS(3)), true);
        target = numbers(goal, 3, 0);
        weight = numbers(by, 3, 0);
        rush_optim *o = rush_lbfgs(RUSH_TENSORS(parameter), .lr = 0.5, .max_iter = 3, .history = 4), *other = rush_lbfgs(RUSH_TENSORS(parameter), .line_search = true);
        for (int i = 0; o && i < 2; i++) rush_optim_zero_grad(o), rush_optim_step_closure(o, quadratic, NULL);
        rush_save(path, rush_content_optim(o));
        rush_tensor *there = T("clone", V(parameter ? rush_tensor_detach(parameter) : NULL));
        rush_optim_load_content(other, rush_load(path));
        for (int k = 0; k < 2 && !rush_error(); k++) {
            rush_copy_into(parameter, there);
            for (int i = 0; i < 2; i++) rush_optim_zero_grad(o), rush_optim_step_closure(k ? other : o, quadratic, NULL);
            for (int i = 0; i < 3; i++) got[k][i] = at(parameter, i);
        }
        for (int i = 0; i < 3; i++) near(got[1][i], got[0][i]);
        const char *names[] = {"n_iter", "prev_loss", "old_dirs", "old_stps", "H_diag", "d"};
        for (size_t i = 0; i < RUSH_COUNT(names) && !rush_error(); i++) { /* what is wrong is said, and nothing crashes */
            rush_content *all = rush_content_optim(o);
            rush_content_set(rush_content_at(rush_content_get(all, "state"), 0), names[i], rush_content_text("nonsense"));
            if (rush_error()) break;
            assert_int_equal(rush_optim_load_content(other, all), -1);
            assert_int_equal(rush_error_kind_now(), RUSH_VALUE_ERROR);
            rush_error_clear();
        }
    }
    unlink(path);
    no_error();
}

TEST(optimizers_step_as_in_pytorch)
{
    static const float goal[] = {1, -2, 3}, by[] = {1, .5, 2};
    rush_scope() {
        parameter = rush_requires_grad_set(T("zeros", INTS(3)), true);
        target = numbers(goal, 3, 0);
        weight = numbers(by, 3, 0);
        rush_tensors p = RUSH_TENSORS(parameter);
        five_steps(rush_sgd(p, .lr = 0.05, .momentum = 0.9, .nesterov = true, .weight_decay = 0.01), (const double[]){1.10218489, -1.36523628, 4.23753643});
        five_steps(rush_adam(p, .lr = 0.1, .amsgrad = true), (const double[]){0.492036313, -0.497044235, 0.498220563});
        five_steps(rush_adamw(p, .lr = 0.1), (const double[]){0.491057128, -0.496051818, 0.497225344});
        five_steps(rush_adamw(p, .lr = 0.1, .weight_decay = 0), (const double[]){0.492036313, -0.497044235, 0.498220563});
        rush_adam_options own = {.lr = 0.1};    /* zeros of a struct of one's own are defaults, unless it is exact */
        five_steps(rush_adamw_with(p, &own), (const double[]){0.491057128, -0.496051818, 0.497225344});
        own = (rush_adam_options){.exact = true, .lr = 0.1, .beta1 = RUSH_DEFAULT, .beta2 = RUSH_DEFAULT, .eps = RUSH_DEFAULT};
        five_steps(rush_adamw_with(p, &own), (const double[]){0.492036313, -0.497044235, 0.498220563});
        five_steps(rush_adamax(p, .lr = 0.1), (const double[]){0.448446155, -0.474222422, 0.483036399});
        five_steps(rush_nadam(p, .lr = 0.1), (const double[]){0.376337111, -0.391540378, 0.396201223});
        five_steps(rush_radam(p, .lr = 0.1), (const double[]){0.798352063, -0.89527154, 3.75945926});
        five_steps(rush_rmsprop(p, .lr = 0.1, .centered = true, .momentum = 0.5), (const double[]){0.810676098, -2.30283284, 3.42619395});
        five_steps(rush_adagrad(p, .lr = 0.5), (const double[]){0.94910872, -1.31720972, 1.43036032});
        five_steps(rush_adadelta(p, .lr = 10), (const double[]){0.15775837, -0.161083952, 0.162175});
        five_steps(rush_rprop(p, .lr = 0.1), (const double[]){0.744160056, -0.744160056, 0.744160056});
        five_steps(rush_asgd(p, .lr = 0.1, .t0 = 2), (const double[]){0.672300696, -0.818993866, 2.76665831});
        five_steps(rush_lbfgs(p, .lr = 0.5, .max_iter = 3), (const double[]){0.99921006, -1.97182643, 3.00170279});
        five_steps(rush_lbfgs(p, .line_search = true), (const double[]){1, -2, 3});
    }
    no_error();
}

TEST(settings_that_make_no_sense_are_errors)
{
    rush_scope() {
        rush_tensors p = RUSH_TENSORS(rush_requires_grad_set(rush_from_data((float[]){0}, RUSH_F32, 0, NULL), true));
        for (int i = 0; i < 9; i++) { /* as in PyTorch */
            rush_optim *o = i == 0 ? rush_sgd(p, .momentum = -1) : i == 1 ? rush_sgd(p, .weight_decay = NAN) : i == 2 ? rush_adam(p, .eps = -1) : i == 3 ? rush_nadam(p, .momentum_decay = -1)
                          : i == 4 ? rush_rmsprop(p, .alpha = -1) : i == 5 ? rush_adagrad(p, .lr_decay = -1) : i == 6 ? rush_adadelta(p, .rho = -1) : i == 7 ? rush_rprop(p, .eta_plus = 1)
                          : rush_asgd(p, .weight_decay = -1);
            assert_null(o);
            assert_int_equal(rush_error_kind_now(), RUSH_VALUE_ERROR);
            rush_error_clear();
        }
    }
}

TEST(gradients_are_clipped)
{
    rush_scope() {
        static const float x[] = {3, 4};
        rush_tensor *p = rush_requires_grad_set(T("zeros", INTS(2)), true);
        rush_grad_set(p, numbers(x, 2, 0));
        near(rush_clip_grad_norm(RUSH_TENSORS(p), 1, 2), 5);
        near(at(rush_grad(p), 0), 0.6);
        rush_clip_grad_value(RUSH_TENSORS(p), 0.7);
        near(at(rush_grad(p), 1), 0.7);
    }
}

TEST(learning_rates)
{
    near(rush_lr_step(1, 7, 3, 0.1), 0.01);
    near(rush_lr_cosine(1, 5, 10, 0), 0.5);
    near(rush_lr_linear(1, 5, 0.5, 1, 10), 0.75);
    near(rush_lr_one_cycle(1, 2, 10, 0.3, 25, 1e4), 1);
    near(rush_lr_warm_restarts(1, 10, 10, 2, 0), 1);
    near(rush_lr_polynomial(1, 5, 10, 2), 0.25);
    near(rush_lr_multistep(1, 5, RUSH_INTS(2, 5, 9), 0.1), 0.01);
}

TEST(ten_thousand_steps_leave_memory_as_it_was)
{
    rush_scope() {
        rush_module *net = rush_nn_sequential(rush_nn_linear(3, 4), rush_nn_tanh(), rush_nn_linear(4, 1));
        rush_optim *o = rush_adam(rush_parameters(net));
        rush_tensor *x = T("randn", INTS(8, 3));
        rush_memory_stats before, after;
        for (int i = 0; i < 10000; i++) {
            if (i == 100) rush_memory_stats_read(&before);
            rush_scope() {
                rush_tensor *y = rush_forward(net, x);
                rush_optim_zero_grad(o);
                rush_backward(T("sum", V(T("mul.Tensor", V(y), V(y)))));
                rush_optim_step(o);
            }
        }
        rush_memory_stats_read(&after);
        assert_int_equal(before.small_live, after.small_live);
        assert_int_equal(before.live_blocks, after.live_blocks);
    }
    no_error();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_start_and_compute_as_in_pytorch), cmocka_unit_test(state_has_pytorchs_names), cmocka_unit_test(layers_may_be_empty_but_not_less),
        cmocka_unit_test(weights_come_back_from_a_file), cmocka_unit_test(optimizers_step_as_in_pytorch), cmocka_unit_test(settings_that_make_no_sense_are_errors), cmocka_unit_test(lbfgs_in_files), cmocka_unit_test(options_of_layers_may_be_zero),
        cmocka_unit_test(gradients_are_clipped), cmocka_unit_test(learning_rates),
        cmocka_unit_test(ten_thousand_steps_leave_memory_as_it_was),
    };
    return SUITE(tests);
}
