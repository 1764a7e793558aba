/* compile.c - `rushlight compile MODEL -o OUT.c`: a program as one C file. */
#include "cmd/cmd.h"
#include <rushlight.h>
#include <rushlight/program.h>

#include <stdio.h>

const char rush_usage_compile[] =
    "usage: rushlight compile MODEL.pt2 -o OUT.c [--size N] [--int8] [--train sgd|adam] [--loss cross_entropy|mse]\n";

int rush_cmd_compile(int n, char **args)
{
    const char *to = NULL;
    rush_c_options o = {.size = 1};
    const rush_option known[] = {{"-o", RUSH_TO(&to)}, {"--size", RUSH_TO(&o.size), 1, INT32_MAX}, {"--int8", RUSH_TO(&o.int8)}, {"--train", RUSH_TO(&o.train)}, {"--loss", RUSH_TO(&o.loss)}, {0}};
    if ((n = rush_options_read("compile", known, 1, n, args)) < 0) return n;
    if (!n || !to) return RUSH_CMD_WRONG;
    int failed = 0;
    rush_scope() {
        rush_module *net = rush_program_load(args[0]);
        failed = !net || rush_program_save_c_with(net, to, &o);
        if (failed) fprintf(stderr, "rushlight: %s\n", rush_error());
    }
    return failed;
}
