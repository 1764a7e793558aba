/* test_threads.c - eight threads at once: each trains a network of its own with a loader, saves and loads it, and they share a
 * network whose gradients by the input each of them asks for, and to whose own gradients all add. Built with
 * -Db_sanitize=thread (make tsan) it must stay silent. ROUNDS in the environment: how often. */
#include "suite/suite.h"
#include "op/op.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { THREADS = 8, ROUNDS = 6 };
static rush_module *shared;
static atomic_int failures;

static rush_module *network(void) { return rush_nn_sequential(rush_nn_linear(6, 8), rush_nn_relu(), rush_nn_linear(8, 3)); }

static int train(rush_module *net, rush_optim *opt, rush_loader *loader)
{
    rush_tensor *batch[2];
    int more;
    while ((more = rush_loader_next(loader, batch)) > 0)
        rush_scope() {
            rush_backward(T("cross_entropy_loss", V(rush_forward(net, batch[0])), V(batch[1])));
            rush_optim_step(opt);
            rush_optim_zero_grad(opt);
        }
    return more;
}

static int files(rush_module *net, rush_optim *opt, int number)
{
    char path[80];
    snprintf(path, sizeof path, "/tmp/rushlight-threads-%d-%d.pt", (int)getpid(), number);
    rush_content *all = rush_content_dict();
    rush_content_set(all, "model", rush_content_state(rush_module_state(net)));
    rush_content_set(all, "optimizer", rush_content_optim(opt));
    int failed = rush_save(path, all);
    const rush_content *back = failed ? NULL : rush_load(path);
    failed = !back || rush_module_load_state(net, rush_content_tensors(rush_content_get(back, "model")), true) ||
             rush_optim_load_content(opt, rush_content_get(back, "optimizer"));
    unlink(path);
    return failed;
}

static void *work(void *arg)
{
    int number = (int)(intptr_t)arg;
    rush_scope() {
        rush_module *net = network();
        rush_optim *opt = rush_adamw(rush_parameters(net), .lr = 0.01);
        rush_tensor *x = T("randn", rush_v_ints((int64_t[]){32, 6}, 2)), *y = T("randint", V((int64_t)3), rush_v_ints((int64_t[]){32}, 1));
        rush_dataset *data = rush_dataset_tensors(2, (rush_tensor *[]){x, y});
        rush_loader *loader = rush_loader_new(data, .batch = 8, .shuffle = true, .threads = 2);
        const char *asked = getenv("ROUNDS");
        for (int round = 0, rounds = asked ? atoi(asked) : ROUNDS; round < rounds && !rush_error(); ++round)
            rush_scope() {
                train(net, opt, loader);
                if (files(net, opt, number)) rush_fail(RUSH_RUNTIME_ERROR, "files");
                rush_tensor *in = rush_requires_grad_set(T("randn", rush_v_ints((int64_t[]){4, 6}, 2)), true), *out = T("sum", V(rush_forward(shared, in))), *g = NULL;
                rush_grad_of(1, &out, NULL, 1, &in, &g, false, false, false);
                rush_backward(T("sum", V(rush_forward(shared, in)))); /* all add to the gradients of one network */
                T("fft_fft", V(T("randn", rush_v_ints((int64_t[]){5 + number + round}, 1))));
            }
        rush_loader_free(loader);
        rush_dataset_drop(data);
    }
    if (rush_error()) {
        fprintf(stderr, "thread %d: %s\n", number, rush_error());
        atomic_fetch_add(&failures, 1);
        rush_error_clear();
    }
    return NULL;
}

static void eight_threads(void **state)
{
    if (suite_failing()) return;
    pthread_t thread[THREADS];
    rush_scope() {
        rush_manual_seed(1);
        shared = network();
        for (intptr_t i = 0; i < THREADS; ++i) assert_int_equal(pthread_create(&thread[i], NULL, work, (void *)i), 0);
        for (int i = 0; i < THREADS; ++i) pthread_join(thread[i], NULL);
    }
    assert_int_equal(atomic_load(&failures), 0);
}

static void steps(rush_optim *opt, rush_tensor *p)
{
    for (int i = 0; i < 3; ++i) {
        rush_grad_set(p, T("mul.Scalar", V(rush_tensor_detach(p)), V(0.3)));
        rush_optim_step(opt);
    }
}

/* What one optimizer wrote goes on in another one as in itself. */
static void optimizers_in_files(void **state)
{
    char path[80];
    if (suite_failing()) return; /* files without memory are test_io's */
    snprintf(path, sizeof path, "/tmp/rushlight-optim-%d.pt", (int)getpid());
    rush_scope() {
        rush_tensor *start = T("arange", V((int64_t)6), rush_v_dtype(RUSH_F32));
        for (int kind = 0; kind < 11 && !rush_error(); ++kind) {
            rush_tensor *p[2];
            rush_optim *opt[2];
            for (int k = 0; k < 2; ++k) {
                p[k] = rush_requires_grad_set(T("clone", V(start)), true);
                rush_tensors list = {&p[k], 1};
                double lr = k ? 0.5 : 0.1; /* the options come with the file */
                opt[k] = kind == 0 ? rush_sgd(list, .lr = lr, .momentum = 0.9) : kind == 1 ? rush_adam(list, .lr = lr, .amsgrad = true) : kind == 2 ? rush_adamw(list, .lr = lr)
                         : kind == 3 ? rush_adamax(list, .lr = lr) : kind == 4 ? rush_nadam(list, .lr = lr) : kind == 5 ? rush_radam(list, .lr = lr)
                         : kind == 6 ? rush_rmsprop(list, .lr = lr, .momentum = 0.5, .centered = true) : kind == 7 ? rush_adagrad(list, .lr = lr)
                         : kind == 8 ? rush_adadelta(list, .lr = lr) : kind == 9 ? rush_rprop(list, .lr = lr) : rush_asgd(list, .lr = lr);
            }
            steps(opt[0], p[0]);
            rush_copy_into(p[1], p[0]); /* the second one takes over here */
            assert_int_equal(rush_save(path, rush_content_optim(opt[0])), 0);
            assert_int_equal(rush_optim_load_content(opt[1], rush_load(path)), 0);
            for (int k = 0; k < 2; ++k) steps(opt[k], p[k]);
            assert_true(rush_item(T("all", V(T("eq.Tensor", V(p[0]), V(p[1]))))) == 1);
        }
        rush_tensor *other = rush_requires_grad_set(T("ones", rush_v_ints((int64_t[]){3}, 1)), true);
        rush_content *wrong = rush_content_dict();
        rush_content_set(wrong, "state", rush_content_dict());
        if (!rush_error()) {
            rush_optim *o = rush_adam(((rush_tensors){&other, 1}));
            assert_int_equal(rush_optim_load_content(o, wrong), -1);
            rush_error_clear();
            assert_int_equal(rush_optim_load_content(o, rush_load(path)), -1); /* of another size */
            rush_error_clear();
            const char *name = "nothing.exp_avg";
            assert_int_equal(rush_optim_load_state(o, (rush_state){1, &name, &other}), -1);
            assert_non_null(rush_error());
            rush_error_clear();
        }
    }
    unlink(path);
    rush_error_clear();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(eight_threads), cmocka_unit_test(optimizers_in_files)};
    return SUITE(tests);
}
