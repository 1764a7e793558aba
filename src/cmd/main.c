/* main.c - the command `rushlight`: what this library is and has. */
#include "cmd/cmd.h"
#include "config.h"
#include <rushlight.h>
#include <stdio.h>
#include <string.h>

static int info(int n, char **args)
{
    if ((n = rush_options_read("info", &(rush_option){0}, 0, n, args)) < 0) return n;
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

static const struct { const char *name, *usage; int (*run)(int n, char **args); } parts[] = {
    {"info", "usage: rushlight info\n", info}, {"ops", "usage: rushlight ops [NAME]\n", rush_cmd_ops}, {"run", rush_usage_run, rush_cmd_run}, {"inspect", rush_usage_inspect, rush_cmd_inspect},
#if RUSH_HAS_SERVER
    {"serve", rush_usage_serve, rush_cmd_serve},
#endif
    {"convert", rush_usage_convert, rush_cmd_convert}, {"archive", rush_usage_archive, rush_cmd_archive}, {"compile", rush_usage_compile, rush_cmd_compile},
    {"generate", rush_usage_generate, rush_cmd_generate}, {"chat", rush_usage_chat, rush_cmd_chat}, {"perplexity", rush_usage_perplexity, rush_cmd_perplexity},
    {"launch", rush_usage_launch, rush_cmd_launch}};

static void usage(FILE *to)
{
    fprintf(to, "usage: rushlight info          operations, dtypes, engines, instruction set, threads\n"
           "       rushlight ops [NAME]    the schemas of all operations, or what one does\n"
           "       rushlight run MODEL INPUT.npy|.npz|FILE ... [-o OUT.npz] [--bench] [--frozen]\n"
           "                               runs a program (.pt2, .onnx, TorchScript's .pt); results are out0, out1, ...\n"
           "       rushlight inspect MODEL [--frozen] [--dot | --svg]\n"
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
}

/* The exit status: 0, 1 for what failed, 2 for arguments that make no sense. */
static int act(int n, char **args)
{
    if (!n || !strcmp(args[0], "--help") || !strcmp(args[0], "-h")) return usage(stdout), 0;
    if (!strcmp(args[0], "--version")) return printf("rushlight %s\n", rush_version()), 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (strcmp(parts[i].name, args[0])) continue;
        int status = parts[i].run(n - 1, args + 1);
        if (status < 0) fputs(parts[i].usage, status == RUSH_CMD_HELP ? stdout : stderr);
        return status == RUSH_CMD_HELP ? 0 : status == RUSH_CMD_WRONG ? 2 : status;
    }
    fprintf(stderr, "rushlight: there is no command %s\n", args[0]);
    return usage(stderr), 2;
}

int main(int argc, char **argv)
{
    int status = act(argc - 1, argv + 1);
    bool lost = ferror(stdout);
    if ((fflush(stdout) || lost) && !status) return fprintf(stderr, "rushlight: the standard output cannot be written\n"), 1;
    return status;
}
