/* compile.c - `rushlight compile MODEL -o OUT.c`: a program as one C file. */
#include "cmd/cmd.h"
#include <rushlight.h>
#include <rushlight/program.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char rush_usage_compile[] =
    "usage: rushlight compile MODEL.pt2 -o OUT.c [--size N] [--int8] [--train sgd|adam] [--loss cross_entropy|mse]\n";

int rush_cmd_compile(int n, char **args)
{
    const char *model = NULL, *to = NULL, *size = NULL;
    rush_c_options o = {.size = 1};
    const struct { const char *name, **text; } known[] = {{"-o", &to}, {"--size", &size}, {"--train", &o.train}, {"--loss", &o.loss}};
    for (int i = 0; i < n; ++i) {
        size_t k = 0, all = sizeof known / sizeof *known;
        while (k < all && strcmp(known[k].name, args[i])) ++k;
        if (k < all && i + 1 == n) return fprintf(stderr, "rushlight: %s needs a value\n", args[i]), RUSH_CMD_WRONG;
        if (k < all) *known[k].text = args[++i];
        else if (!strcmp(args[i], "--int8")) o.int8 = true;
        else if (args[i][0] == '-' || model) return fprintf(stderr, "rushlight: compile does not know %s\n", args[i]), RUSH_CMD_WRONG;
        else model = args[i];
    }
    char *end = NULL;
    if (size) o.size = strtoll(size, &end, 10);
    if (size && (end == size || *end || o.size < 1 || o.size > INT32_MAX)) return fprintf(stderr, "rushlight: --size %s is no such number\n", size), RUSH_CMD_WRONG;
    if (!model || !to) return RUSH_CMD_WRONG;
    int failed = 0;
    rush_scope() {
        rush_module *net = rush_program_load(model);
        failed = !net || rush_program_save_c_with(net, to, &o);
        if (failed) fprintf(stderr, "rushlight: %s\n", rush_error());
    }
    return failed;
}
