/* convert.c - `rushlight convert IN OUT.onnx`: a program in another format. */
#include "cmd/cmd.h"
#include <rushlight.h>
#include <rushlight/program.h>

#include <stdio.h>
#include <string.h>

int rush_cmd_convert(int n, char **args)
{
    size_t length = n == 2 ? strlen(args[1]) : 0;
    if (length < 5 || strcmp(args[1] + length - 5, ".onnx")) return fprintf(stderr, "usage: rushlight convert MODEL OUT.onnx\n"), 2;
    int failed = 0;
    rush_scope() {
        rush_module *net = rush_program_load(args[0]);
        failed = !net || rush_program_save_onnx_with(net, args[1], NULL);
        if (failed) fprintf(stderr, "rushlight: %s\n", rush_error());
    }
    return failed != 0;
}
