/* main.c - the command `rushlight`: what this library is and has. */
#include <rushlight.h>
#include <stdio.h>
#include <string.h>

static int info(void)
{
    int ops = 0, with_grad = 0, composite = 0;
    for (const rush_op *op = rush_op_first(); op; op = rush_op_next(op)) {
        ++ops;
        with_grad += op->grad != NULL;
        composite += op->run != NULL && !op->grad;
    }
    printf("rushlight %s\n", rush_version());
    printf("operations:      %d (%d with a derivative, %d composed of others)\n", ops, with_grad, composite);
    printf("instruction set: %s\n", rush_cpu_isa());
    printf("threads:         %d\n", rush_num_threads());
    printf("engines:         %s\n", rush_engines());
    printf("dtypes:         ");
    for (int d = 0; d < RUSH_DTYPES; ++d) printf(" %s", rush_dtype_name(d));
    printf("\n");
    return 0;
}

static int list_ops(void)
{
    for (const rush_op *op = rush_op_first(); op; op = rush_op_next(op))
        if (!(op->flags & RUSH_HIDDEN)) printf("%s\n", op->schema);
    return 0;
}

static int describe(const char *name)
{
    const rush_op *op = rush_op_find(name);
    if (!op) return fprintf(stderr, "rushlight: no operation is called %s\n", name), 1;
    for (; op; op = strchr(name, '.') ? NULL : op->next) printf("%s\n    %s\n", op->schema, op->doc ? op->doc : "");
    return 0;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "--help";
    if (!strcmp(what, "info")) return info();
    if (!strcmp(what, "--version")) return printf("rushlight %s\n", rush_version()), 0;
    if (!strcmp(what, "ops")) return argc > 2 ? describe(argv[2]) : list_ops();
    printf("usage: rushlight info          operations, dtypes, engines, instruction set, threads\n"
           "       rushlight ops [NAME]    the schemas of all operations, or what one does\n"
           "       rushlight --version\n");
    return strcmp(what, "--help") && strcmp(what, "-h") ? 2 : 0;
}
