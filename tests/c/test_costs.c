/* test_costs.c - how many allocations a call makes, once it has been made before. The table only gets better: a call
 * that makes more fails, one that makes fewer must have its row lowered. */
#include "suite/suite.h"
#include "op/op.h"
#include <rushlight/nn.h>
#include <rushlight/optim.h>

static rush_tensor *a, *b, *m, *w, *leaf, *q, *labels;
static rush_module *net;
static rush_optim *sgd, *adam;

static void add(void) { T("add.Tensor", V(a), V(b)); }
static void add_in_place(void)
{
    rush_value in[3] = {rush_v_tensor(a), rush_v_tensor(b), rush_v_int(1)}, out[1];
    rush_call_inplace(rush_op_find("add.Tensor"), in, out);
}
static void times_number(void) { T("mul.Tensor", V(a), V(2.0)); }
static void add_recorded(void) { T("add.Tensor", V(leaf), V(b)); }
static void view(void) { T("view", V(w), INTS(64)); }
static void first_row(void) { T("select.int", V(w), V(0), V(0)); }
static void sum(void) { T("sum", V(w)); }
static void sum_rows(void) { T("sum.dim_IntList", V(w), INTS(1)); }
static void softmax(void) { T("softmax.int", V(w), V(-1)); }
static void product(void) { T("matmul", V(m), V(w)); }
static void relu(void) { T("relu", V(w)); }
static void forward(void) { rush_forward(net, m); }
static void there_and_back(void)
{
    rush_grad_set(q, NULL);
    rush_backward(T("sum", V(T("relu", V(T("matmul", V(m), V(q)))))));
}
static void training_step(void)
{
    rush_optim_zero_grad(adam);
    rush_backward(T("cross_entropy_loss", V(rush_forward(net, m)), V(labels)));
    rush_optim_step(adam);
}
static void sgd_step(void) { rush_optim_step(sgd); }
static void adam_step(void) { rush_optim_step(adam); }

/* A result is a header, and a storage with its numbers; a recorded one has nodes and what they keep. */
static const struct { const char *name; void (*fn)(void); int allocations; } costs[] = {
    {"add", add, 2},
    {"add in place", add_in_place, 0},
    {"times a number", times_number, 2},
    {"add, recorded", add_recorded, 6},
    {"view", view, 1},
    {"first row", first_row, 1},
    {"sum", sum, 2},
    {"sum of rows", sum_rows, 2},
    {"softmax", softmax, 2},
    {"product", product, 2},
    {"relu", relu, 2},
    {"forward of linear, relu, linear", forward, 24},
    {"relu(m @ w).sum(), forward and backward", there_and_back, 25},
    {"training step", training_step, 72},
    {"SGD step", sgd_step, 14},
    {"Adam step", adam_step, 8},
};

static void calls_allocate_what_the_table_says(void **state)
{
    rush_num_threads_set(1);
    rush_scope() {
        a = T("randn", INTS(4)), b = T("randn", INTS(4)), leaf = T("randn", INTS(4));
        m = T("randn", INTS(4, 8)), w = T("randn", INTS(8, 8)), q = T("randn", INTS(8, 8));
        labels = T("arange", V(4));
        rush_requires_grad_set(leaf, true);
        rush_requires_grad_set(q, true);
        net = rush_nn_sequential(rush_nn_linear(8, 16), rush_nn_relu(), rush_nn_linear(16, 4));
        sgd = rush_sgd(rush_parameters(net), .lr = 1e-3, .momentum = 0.9);
        adam = rush_adam(rush_parameters(net), .lr = 1e-3);
        rush_scope() training_step(); /* gradients for the optimizers */
        int wrong = 0;
        for (size_t k = 0; k < RUSH_COUNT(costs); ++k) {
            for (int i = 0; i < 3; ++i) rush_scope() costs[k].fn();
            uint64_t before = rush_memory_count();
            rush_scope() costs[k].fn();
            int made = (int)(rush_memory_count() - before);
            if (made != costs[k].allocations) print_message("%s: %d allocations, the table says %d\n", costs[k].name, made, costs[k].allocations);
            wrong += made != costs[k].allocations;
        }
        if (rush_error()) print_message("%s\n", rush_error());
        assert_null(rush_error());
        assert_int_equal(wrong, 0);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(calls_allocate_what_the_table_says)};
    return SUITE(tests);
}
