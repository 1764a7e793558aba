/* main.c - the command `rushlight`: what this library is and has. */
#include "cmd/cmd.h"
#include "config.h"
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
    const char *engines = rush_engines(), *without = strstr(engines, "; without ");
    printf("engines:         %.*s\n", without ? (int)(without - engines) : (int)strlen(engines), engines);
    if (without) printf("without:         %s\n", without + strlen("; without "));
    printf("dtypes:         ");
    for (int d = 0; d < RUSH_DTYPES; ++d) printf(" %s", rush_dtype_name(d));
    printf("\n");
    return 0;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "--help";
    if (!strcmp(what, "info")) return info();
    if (!strcmp(what, "--version")) return printf("rushlight %s\n", rush_version()), 0;
    if (!strcmp(what, "ops")) return rush_cmd_ops(argc > 2 ? argv[2] : NULL);
    if (!strcmp(what, "run")) return rush_cmd_run(argc - 2, argv + 2);
    if (!strcmp(what, "inspect")) return rush_cmd_inspect(argc - 2, argv + 2);
#if RUSH_HAS_SERVER
    if (!strcmp(what, "serve")) return rush_cmd_serve(argc - 2, argv + 2);
#endif
    if (!strcmp(what, "convert")) return rush_cmd_convert(argc - 2, argv + 2);
    if (!strcmp(what, "archive")) return rush_cmd_archive(argc - 2, argv + 2);
    if (!strcmp(what, "compile")) return rush_cmd_compile(argc - 2, argv + 2);
    if (!strcmp(what, "generate")) return rush_cmd_generate(argc - 2, argv + 2);
    if (!strcmp(what, "chat")) return rush_cmd_chat(argc - 2, argv + 2);
    if (!strcmp(what, "perplexity")) return rush_cmd_perplexity(argc - 2, argv + 2);
    if (!strcmp(what, "launch")) return rush_cmd_launch(argc - 2, argv + 2);
    printf("usage: rushlight info          operations, dtypes, engines, instruction set, threads\n"
           "       rushlight ops [NAME]    the schemas of all operations, or what one does\n"
           "       rushlight run MODEL INPUT.npy|.npz|FILE ... [-o OUT.npz] [--bench] [--frozen]\n"
           "                               runs a program (.pt2, .onnx); results are out0, out1, ...\n"
           "       rushlight inspect MODEL [--dot | --svg]\n"
           "                               its graph, a line for each call, or a picture\n"
           "       rushlight inspect FILE.gguf         what it says about itself, and its tensors\n"
           "       rushlight convert MODEL OUT.onnx\n"
           "       rushlight convert IN.gguf OUT.safetensors\n"
           "       rushlight convert IN.gguf OUT.gguf TYPE     its matrices as F16, Q8_0, Q4_K, ...\n"
           "       rushlight archive MODEL -o OUT.pt2 [--picture] [--text MERGES.txt] [--top K] [--labels FILE] ...\n"
           "                               a program with what stands around it, in one file\n"
           "       rushlight compile MODEL.pt2 -o OUT.c [--size N] [--int8] [--train sgd|adam] [--loss cross_entropy|mse]\n"
           "                               one C99 file that needs nothing but libm\n"
           "       rushlight generate MODEL.gguf -p TEXT [-n TOKENS] [--temperature T] [--top-k K] [--top-p P] [--seed S]\n"
           "                               goes on with a text\n"
           "       rushlight chat MODEL.gguf [--system TEXT]    a conversation, line by line\n"
           "       rushlight perplexity MODEL.gguf TEXT    how well it foretells one\n"
           "       rushlight launch [-n N] PROGRAM [ARGUMENTS]   N processes of a job; without PROGRAM: its options\n"
           "       rushlight serve DIR     the models of a folder by the KServe v2 protocol, language models by OpenAI's%s\n"
           "       rushlight --version\n", RUSH_HAS_SERVER ? "" : " (this build is without civetweb)");
    return strcmp(what, "--help") && strcmp(what, "-h") ? 2 : 0;
}
