/* main.c - load a shared object with an operation, call it by name, differentiate it. */
#include <dlfcn.h>
#include <rushlight.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    void *file = dlopen(argc > 1 ? argv[1] : "./my_operation.so", RTLD_NOW);
    int (*registration)(void) = file ? (int (*)(void))dlsym(file, "register_operations") : NULL;
    if (!registration) return fprintf(stderr, "%s\n", dlerror()), 1;
    if (registration()) return fprintf(stderr, "%s\n", rush_error()), 1;
    rush_scope() {
        rush_tensor *x = rush_requires_grad_set(rush_linspace(-2, 2, 5), true);
        rush_tensor *y = rush_apply(rush_op_find("squareplus"), 2, (rush_value[]){RUSH_V(x), RUSH_V(0.25)});
        rush_backward(rush_sum(y));
        rush_tensor_print(y);
        rush_tensor_print(rush_grad(x));
    }
    if (rush_error()) fprintf(stderr, "%s\n", rush_error());
    return rush_error() ? 1 : 0;
}
