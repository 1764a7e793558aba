/* convert.c - `rushlight convert`: a program as an ONNX file, the tensors of a GGUF file as safetensors, or in blocks of another type. */
#include "cmd/cmd.h"
#include <rushlight.h>
#include <rushlight/gguf.h>
#include <rushlight/io.h>
#include <rushlight/program.h>

#include <stdio.h>
#include <stdlib.h>
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

/* Matrices become blocks of that type, or stay as they are opened if their rows are no whole blocks. */
static int convert_blocks(const char *from, const char *to, const char *type)
{
    int64_t elements = rush_gguf_block(type);
    rush_state s = elements < 0 ? (rush_state){.n = -1} : rush_gguf_load(from);
    const rush_content *metadata = s.n < 0 ? NULL : rush_gguf_metadata(from);
    const char **types = metadata ? malloc((size_t)(s.n + 1) * sizeof *types) : NULL;
    for (int i = 0; types && i < s.n; i++) {
        int dims = rush_ndim(s.tensor[i]);
        types[i] = dims >= 2 && rush_size(s.tensor[i], dims - 1) % elements == 0 ? type : NULL;
    }
    int failed = !types || rush_gguf_save(to, s, metadata, types);
    free(types);
    return failed;
}

const char rush_usage_convert[] =
    "usage: rushlight convert MODEL OUT.onnx\n       rushlight convert IN.gguf OUT.safetensors\n       rushlight convert IN.gguf OUT.gguf TYPE\n"
    "TYPE: F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K or Q6_K, of matrices\n";

int rush_cmd_convert(int n, char **args)
{
    if ((n = rush_options_read("convert", &(rush_option){0}, 3, n, args)) < 0) return n;
    bool program = n == 2 && rush_ends_with(args[1], ".onnx"), gguf = n > 1 && rush_ends_with(args[0], ".gguf"), tensors = gguf && n == 2 && rush_ends_with(args[1], ".safetensors"),
         blocks = gguf && n == 3 && rush_ends_with(args[1], ".gguf");
    if (!program && !tensors && !blocks)
        return RUSH_CMD_WRONG;
    int failed = 0;
    rush_scope() {
        failed = blocks ? convert_blocks(args[0], args[1], args[2]) : (program ? convert_program : convert_tensors)(args[0], args[1]);
        if (failed) fprintf(stderr, "rushlight: %s\n", rush_error());
    }
    return failed != 0;
}
