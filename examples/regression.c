/* regression.c - fit a curve with nothing but tensors and their gradients: automatic differentiation by hand.
 *
 * y = sin(3x) + noise is approximated by w2 tanh(w1 x + b1) + b2. The four tensors are leaves that require
 * gradients; a step subtracts a little of each gradient, unrecorded.
 */
#include <rushlight.h>
#include <stdio.h>

static rush_tensor *leaf(rush_tensor *t) { return rush_requires_grad_set(t, true); }

int main(void)
{
    rush_scope() {
        rush_manual_seed(0);
        rush_tensor *x = rush_unsqueeze(rush_linspace(-1, 1, 200), 1);
        rush_tensor *y = rush_add(rush_sin(rush_mul(x, 3)), rush_mul(rush_randn(RUSH_INTS(200, 1)), 0.05));
        rush_tensor *w1 = leaf(rush_randn(RUSH_INTS(1, 32))), *b1 = leaf(rush_randn(RUSH_INTS(32)));
        rush_tensor *w2 = leaf(rush_div(rush_randn(RUSH_INTS(32, 1)), 8)), *b2 = leaf(rush_zeros(RUSH_INTS(1)));
        rush_tensor *all[] = {w1, b1, w2, b2};

        for (int step = 0; step <= 2000 && !rush_error(); step++)
            rush_scope() {
                rush_tensor *hidden = rush_tanh(rush_add(rush_matmul(x, w1), b1));
                rush_tensor *guess = rush_add(rush_matmul(hidden, w2), b2), *error = rush_sub(guess, y);
                rush_tensor *loss = rush_mean(rush_mul(error, error));
                rush_backward(loss);
                if (step % 500 == 0) printf("step %4d  mean squared error %.6f\n", step, rush_item(loss));
                bool grad = rush_grad_enabled_set(false);
                for (int i = 0; i < 4; i++) {
                    rush_call_inplace(rush_op_find("sub.Tensor"), (rush_value[]){RUSH_V(all[i]), RUSH_V(rush_grad(all[i])), RUSH_V(0.05)},
                                      (rush_value[1]){RUSH_NONE});
                    rush_grad_set(all[i], NULL);
                }
                rush_grad_enabled_set(grad);
            }
    }
    if (rush_error()) fprintf(stderr, "%s\n", rush_error());
    return rush_error() ? 1 : 0;
}
