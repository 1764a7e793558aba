/* compile.c - `rushlight compile MODEL -o OUT.c`: a program as one C file. */
#include "cmd/cmd.h"
#include <rushlight.h>
#include <rushlight/program.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int rush_cmd_compile(int n, char **args)
{
    const char *model = NULL, *to = NULL;
    rush_c_options o = {.size = 1};
    for (int i = 0; i < n; ++i) {
        const char *next = i + 1 < n ? args[i + 1] : NULL;
        if (!strcmp(args[i], "--int8")) o.int8 = true;
        else if (!strcmp(args[i], "-o") && next) to = args[++i];
        else if (!strcmp(args[i], "--size") && next) o.size = atoll(args[++i]);
        else if (!strcmp(args[i], "--train") && next) o.train = args[++i];
        else if (!strcmp(args[i], "--loss") && next) o.loss = args[++i];
        else if (args[i][0] == '-' || model) return fprintf(stderr, "rushlight: compile does not know %s\n", args[i]), 2;
        else model = args[i];
    }
    if (!model || !to) return fprintf(stderr, "usage: rushlight compile MODEL.pt2 -o OUT.c [--size N] [--int8] [--train sgd|adam] [--loss cross_entropy|mse]\n"), 2;
    int failed = 0;
    rush_scope() {
        rush_module *net = rush_program_load(model);
        failed = !net || rush_program_save_c_with(net, to, &o);
        if (failed) fprintf(stderr, "rushlight: %s\n", rush_error());
    }
    return failed;
}
