/* convert.c - `rushlight convert`: a program as an ONNX file, the tensors of a GGUF file as safetensors. */
#include "cmd/cmd.h"
#include <rushlight.h>
#include <rushlight/gguf.h>
#include <rushlight/io.h>
#include <rushlight/program.h>

#include <stdio.h>
#include <string.h>

bool rush_ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && !strcmp(s + n - m, end);
}

static int convert_program(const char *from, const char *to)
{
    rush_module *net = rush_program_load(from);
    return !net || rush_program_save_onnx_with(net, to, NULL);
}

static int convert_tensors(const char *from, const char *to)
{
    rush_state s = rush_gguf_load(from);
    return s.n < 0 || rush_safetensors_save(to, s);
}

int rush_cmd_convert(int n, char **args)
{
    bool program = n == 2 && rush_ends_with(args[1], ".onnx"), tensors = n == 2 && rush_ends_with(args[0], ".gguf") && rush_ends_with(args[1], ".safetensors");
    if (!program && !tensors) return fprintf(stderr, "usage: rushlight convert MODEL OUT.onnx\n       rushlight convert IN.gguf OUT.safetensors\n"), 2;
    int failed = 0;
    rush_scope() {
        failed = (program ? convert_program : convert_tensors)(args[0], args[1]);
        if (failed) fprintf(stderr, "rushlight: %s\n", rush_error());
    }
    return failed != 0;
}
