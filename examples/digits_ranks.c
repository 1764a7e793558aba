/* digits_ranks.c - the digits, trained by several processes that average their gradients.
 *
 *     digits_ranks [RANKS [digits.npy [EPOCHS]]]
 *
 * Started alone it starts RANKS (4) processes of itself, with the environment that a launcher gives:
 * `python -m rushlight.distributed.run --no-python --nproc-per-node 4 digits_ranks` does the same, on several machines, too.
 */
#define _GNU_SOURCE
#include <rushlight.h>
#include <rushlight/dist.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;
enum { BATCH = 48, SEED = 7 }; /* of all ranks together */

static rush_module *network(void)
{
    return rush_nn_sequential(rush_nn_conv2d(1, 16, 3, .padding = RUSH_INTS(1)), rush_nn_relu(), rush_nn_max_pool2d(2), rush_nn_flatten(),
                              rush_nn_linear(16 * 4 * 4, 64), rush_nn_relu(), rush_nn_linear(64, 10));
}

static double accuracy(rush_module *net, rush_tensor *x, rush_tensor *y)
{
    rush_scope() return rush_item(rush_sum(rush_eq(rush_argmax(rush_forward(net, x), .dim = RUSH_V(1)), y))) / (double)rush_size(x, 0);
    return 0;
}

/* A step: this rank's part of the batch; the backward pass averages the gradients. Returns the mean of the ranks' losses. */
static double step(rush_group *world, rush_module *net, rush_optim *opt, rush_tensor *x, rush_tensor *y)
{
    int64_t part = rush_size(x, 0) / rush_group_size(world), from = part * rush_group_rank(world);
    rush_scope() {
        rush_tensor *loss = rush_cross_entropy(rush_forward(net, rush_narrow(x, 0, from, part)), rush_narrow(y, 0, from, part));
        rush_optim_zero_grad(opt);
        rush_backward(loss);
        rush_optim_step(opt);
        rush_tensor *mean = rush_clone(rush_detach(loss));
        rush_dist_all_reduce(world, mean, RUSH_REDUCE_AVG);
        return rush_item(mean);
    }
    return 0;
}

static int train(rush_group *world, const char *path, int epochs)
{
    rush_scope() {
        rush_manual_seed(SEED);
        rush_tensor *data = rush_to(rush_npy_load(path), rush_v_dtype(RUSH_F32));
        if (rush_error()) break;
        int64_t n = rush_size(data, 0), test = n / 5, rest = n - test;
        data = rush_index_select(data, 0, rush_randperm(n)); /* the same order in all ranks */
        rush_tensor *x = rush_reshape(rush_div(rush_narrow(data, 1, 0, 64), 16), RUSH_INTS(n, 1, 8, 8)), *y = rush_to(rush_select(data, 1, 64), rush_v_dtype(RUSH_I64));
        rush_module *net = network();
        rush_reducer *mean = rush_ddp(world, net);
        rush_optim *opt = rush_adamw(rush_parameters(net), .lr = 4e-3);
        for (int epoch = 0; epoch < epochs && !rush_error(); epoch++)
            rush_scope() {
                rush_tensor *order = rush_randperm(rest);
                double sum = 0;
                int64_t steps = rest / BATCH;
                for (int64_t i = 0; i < steps && !rush_error(); i++)
                    rush_scope() {
                        rush_tensor *batch = rush_narrow(order, 0, i * BATCH, BATCH);
                        sum += step(world, net, opt, rush_index_select(x, 0, batch), rush_index_select(y, 0, batch));
                    }
                double right = accuracy(net, rush_narrow(x, 0, rest, test), rush_narrow(y, 0, rest, test));
                if (!rush_group_rank(world) && !rush_error()) printf("epoch %d  loss %.6f  test accuracy %.2f %%\n", epoch + 1, sum / (double)steps, 100 * right);
            }
        rush_reducer_drop(mean);
    }
    return rush_error() ? 1 : 0;
}

/* Starts the ranks and waits for them; 1 when one of them failed. */
static int launch(int ranks, char **argv)
{
    char number[16], size[16], port[16];
    rush_store *store = rush_store_tcp("127.0.0.1", 0, .server = true); /* where they meet */
    if (!store) return 1;
    snprintf(size, sizeof size, "%d", ranks);
    snprintf(port, sizeof port, "%d", rush_store_port(store));
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("MASTER_PORT", port, 1);
    setenv("WORLD_SIZE", size, 1);
    setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1);
    setenv("OMP_NUM_THREADS", "1", 0);
    int failed = 0, started = 0;
    for (; started < ranks; started++) {
        pid_t pid;
        snprintf(number, sizeof number, "%d", started);
        setenv("RANK", number, 1);
        if ((failed = posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ))) break;
    }
    for (int status; started-- > 0;) failed |= wait(&status) < 0 || status;
    rush_store_drop(store);
    return failed != 0;
}

int main(int argc, char **argv)
{
    int failed;
    if (!getenv("RANK")) {
        failed = launch(argc > 1 ? atoi(argv[1]) : 4, argv);
    } else {
        rush_group *world = rush_dist_init(NULL);
        failed = !world || train(world, argc > 2 ? argv[2] : "examples/data/digits.npy", argc > 3 ? atoi(argv[3]) : 5);
        rush_group_drop(world);
    }
    if (rush_error()) fprintf(stderr, "rank %s: %s\n", getenv("RANK") ? getenv("RANK") : "-", rush_error());
    return failed;
}
