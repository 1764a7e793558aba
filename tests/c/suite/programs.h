/* programs.h - files of programs in tests/data: their networks give and learn what was noted when they were written.
 *
 * A test names its folder there with `#define PROGRAMS "onnx"` before it includes this. Beside NAME.pt2 lie NAME_in.npz, NAME_out.npz,
 * and for those that are trained NAME_state.npz, as tests/exported.py writes them.
 */
#ifndef PROGRAMS_H
#define PROGRAMS_H

#include "suite.h"
#include "op/formula.h"
#include "tensor/tensor.h"
#include <rushlight/io.h>
#include <rushlight/optim.h>
#include <rushlight/ops.h>
#include <rushlight/program.h>

#include <stdio.h>

/* The path of a file; that of the last four calls are kept. */
static const char *file(const char *name, const char *end)
{
    static char path[4][512];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[0], "%s/" PROGRAMS "/%s%s", RUSH_TEST_DATA, name, end);
    return path[turn];
}

/* The largest difference of two elements; 1e9 of tensors that cannot be compared. */
__attribute__((unused)) static double differs(rush_tensor *a, rush_tensor *b)
{
    if (!a || !b || !rush_same_sizes(a, b)) return 1e9;
    return a->numel ? rush_item(rush_max(rush_abs(rush_sub(T("to.dtype", V(a), rush_v_dtype(RUSH_F64)), T("to.dtype", V(b), rush_v_dtype(RUSH_F64)))))) : 0;
}

/* The network, whose results for NAME_in.npz are those of NAME_out.npz. */
__attribute__((unused)) static rush_module *gives_its_results(const char *name, const char *end)
{
    rush_tensor *out[8];
    rush_module *net = rush_program_load(file(name, end));
    rush_state in = rush_npz_load(file(name, "_in.npz")), want = rush_npz_load(file(name, "_out.npz"));
    int n = net ? rush_forward_all(net, in.n, in.tensor, out) : -1;
    assert_true(n > 0 && n == want.n);
    assert_int_equal(rush_program_results(net), n);
    assert_int_equal(rush_program_inputs(net), in.n);
    for (int i = 0; i < n; ++i) assert_true(differs(out[i], want.tensor[i]) < 1e-5);
    return net;
}

/* Three steps of Adam lead to the weights of NAME_state.npz: how many of them have the same names there. */
__attribute__((unused)) static int learns_its_weights(const char *name, const char *end)
{
    rush_module *net = rush_program_load(file(name, end));
    rush_state in = rush_npz_load(file(name, "_in.npz")), want = rush_npz_load(file(name, "_state.npz"));
    rush_optim *adam = rush_adam(rush_parameters(net), .lr = 1e-3, .eps = 1e-4);
    for (int step = 0; step < 3; ++step) {
        rush_tensor *out[8];
        rush_module_zero_grad(net);
        assert_true(rush_forward_all(net, in.n, in.tensor, out) > 0);
        rush_tensor *wave = rush_sin(rush_arange(RUSH_V((double)rush_numel(out[0]))));
        rush_backward(rush_mse_loss(rush_flatten(out[0]), wave));
        rush_optim_step(adam);
    }
    rush_state got = rush_module_state(net);
    int same = 0;
    for (int i = 0; i < got.n; ++i) {
        rush_tensor *theirs = rush_state_find(want, got.name[i]);
        if (!theirs) continue;
        assert_true(differs(got.tensor[i], theirs) < 1e-5);
        ++same;
    }
    return same;
}

#endif
