/* finetune.c - trains a program that PyTorch exported, without Python.
 *
 *     finetune MODEL.pt2 INPUTS.npz STATE.npz      three steps of Adam towards a wave
 *
 * STATE.npz gets the parameters and buffers afterwards, under the names that they have in PyTorch.
 */
#include <rushlight.h>
#include <rushlight/io.h>
#include <rushlight/optim.h>
#include <rushlight/program.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    if (argc != 4) return fprintf(stderr, "usage: finetune MODEL.pt2 INPUTS.npz STATE.npz\n"), 2;
    rush_scope() {
        rush_module *net = rush_program_load(argv[1]);
        rush_state in = rush_npz_load(argv[2]);
        rush_optim *adam = rush_adam(rush_parameters(net), .lr = 1e-3, .eps = 1e-4);
        for (int step = 0; step < 3 && !rush_error(); ++step) {
            rush_scope() {
                rush_tensor *out[64];
                rush_module_zero_grad(net);
                if (rush_program_run(net, in.n, in.tensor, 64, out) < 0) break;
                rush_tensor *wave = rush_sin(rush_arange(RUSH_V((double)rush_numel(out[0]))));
                rush_tensor *loss = rush_mse_loss(rush_flatten(out[0]), wave);
                rush_backward(loss);
                rush_optim_step(adam);
                printf("step %d: %.6f\n", step, rush_item(loss));
            }
        }
        rush_npz_save(argv[3], rush_module_state(net));
    }
    if (rush_error()) return fprintf(stderr, "finetune: %s\n", rush_error()), 1;
    return 0;
}
