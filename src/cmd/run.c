/* run.c - `rushlight run` and `rushlight inspect`: programs that were captured elsewhere, without Python. */
#include "cmd/cmd.h"
#include <rushlight.h>
#include <rushlight/data.h>
#include <rushlight/gguf.h>
#include <rushlight/io.h>
#include <rushlight/program.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 64 };

static int failed(void)
{
    fprintf(stderr, "rushlight: %s\n", rush_error());
    return 1;
}

/* A file holds one tensor, or several that follow in its order. */
static int take_inputs(const char *path, rush_tensor **in, int *n)
{
    if (!rush_ends_with(path, ".npz")) {
        if (*n == MOST) return rush_fail(RUSH_VALUE_ERROR, "more than %d inputs", MOST);
        return (in[*n] = rush_npy_load(path)) ? ++*n, 0 : -1;
    }
    rush_state s = rush_npz_load(path);
    if (s.n < 0) return -1;
    if (*n + s.n > MOST) return rush_fail(RUSH_VALUE_ERROR, "more than %d inputs", MOST);
    for (int i = 0; i < s.n; ++i) in[(*n)++] = s.tensor[i];
    return 0;
}

/* A row for each file, its bytes. */
static rush_tensor *take_files(int n, char **paths)
{
    char *text[MOST] = {0};
    size_t length[MOST];
    int read = 0;
    for (FILE *f; read < n && read < MOST && (f = fopen(paths[read], "rb")); ++read) {
        text[read] = rush_read_all(f, &length[read]);
        fclose(f);
        if (!text[read]) break;
    }
    if (read < n) rush_fail(RUSH_IO_ERROR, "can't read '%s'", paths[read]);
    rush_tensor *t = read < n ? NULL : rush_texts((size_t)n, (const char *const *)text, length);
    for (int i = 0; i < read; ++i) free(text[i]);
    return t;
}

/* Tensors are inputs in their order. Where the first input is of files, those that hold no tensors are its rows. */
static int take_all(const rush_module *net, int n, char **paths, rush_tensor **in, int *nin)
{
    rush_program_value v;
    char *rows[MOST];
    int nrows = 0;
    bool files = rush_program_inputs(net) > 0 && !rush_program_input_at(net, 0, &v) && v.text;
    for (int i = 0; i < n; ++i)
        if (files && !rush_ends_with(paths[i], ".npy") && !rush_ends_with(paths[i], ".npz")) rows[nrows++] = paths[i];
    if (nrows && !(in[(*nin)++] = take_files(nrows, rows))) return -1;
    for (int i = 0; i < n; ++i)
        if ((!files || rush_ends_with(paths[i], ".npy") || rush_ends_with(paths[i], ".npz")) && take_inputs(paths[i], in, nin)) return -1;
    return rush_error() ? -1 : 0;
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* For at least a second: the median would need all times; the mean and the best say enough. */
static int bench(rush_module *net, int nin, rush_tensor **in)
{
    double begin = seconds(), best = 1e9;
    int runs = 0;
    while (seconds() - begin < 1 || runs < 3) {
        rush_scope() {
            rush_tensor *out[MOST];
            double at = seconds();
            if (rush_program_run(net, nin, in, MOST, out) < 0) return -1;
            double took = seconds() - at;
            best = took < best ? took : best;
            ++runs;
        }
    }
    printf("%d runs, %.3f ms each, best %.3f ms\n", runs, (seconds() - begin) / runs * 1e3, best * 1e3);
    return 0;
}

/* A line for each row. */
static int print_texts(const rush_tensor *t)
{
    int ndim = rush_ndim(t);
    int64_t width = ndim ? rush_size(t, -1) : 0, n = width ? rush_numel(t) / width : 0, row = ndim > 2 ? rush_size(t, -2) : 1;
    for (int64_t i = 0; i < n; ++i) {
        size_t length = 0;
        const char *text = rush_text_at(t, i, &length);
        if (!text) return -1;
        printf("%.*s%s", (int)length, text, (i + 1) % row ? ", " : "\n");
    }
    return 0;
}

static int deliver(const rush_module *net, const char *path, int n, rush_tensor **out)
{
    static char room[MOST][16];
    static const char *names[MOST];
    for (int i = 0; i < n; ++i) {
        snprintf(room[i], sizeof room[i], "out%d", i);
        names[i] = room[i];
        if (path) continue;
        printf("%s ", names[i]);
        rush_program_value v;
        if (rush_program_result_at(net, i, &v)) return -1;
        if (!v.text) rush_tensor_print(out[i]);
        else if (print_texts(out[i])) return -1;
    }
    return path ? rush_npz_save(path, (rush_state){n, names, out}) : 0;
}

const char rush_usage_run[] =
    "usage: rushlight run MODEL INPUT.npy|.npz|FILE ... [-o OUT.npz] [--bench] [--frozen]\n";

int rush_cmd_run(int n, char **args)
{
    const char *to = NULL;
    rush_tensor *in[MOST], *out[MOST];
    int nin = 0, status = 0;
    bool measure = false, frozen = false;
    const rush_option known[] = {{"-o", RUSH_TO(&to)}, {"--bench", RUSH_TO(&measure)}, {"--frozen", RUSH_TO(&frozen)}, {0}};
    if ((n = rush_options_read("run", known, n, n, args)) < 0) return n;
    if (!n) return RUSH_CMD_WRONG;
    if (n > MOST) return fprintf(stderr, "rushlight: more than %d files\n", MOST), 1;
    rush_scope() {
        rush_module *net = rush_program_load(args[0]);
        if (net && take_all(net, n - 1, args + 1, in, &nin)) return failed();
        rush_grad_enabled_set(false);
        if (net && frozen && rush_program_freeze(net)) return failed();
        int nout = net ? rush_program_run(net, nin, in, MOST, out) : -1;
        if (nout < 0 || (measure && bench(net, nin, in)) || (!measure || to ? deliver(net, to, nout, out) : 0)) status = failed();
    }
    return status;
}

const char rush_usage_inspect[] =
    "usage: rushlight inspect MODEL [--frozen] [--dot | --svg]\n       rushlight inspect FILE.gguf\n";

int rush_cmd_inspect(int n, char **args)
{
    bool svg = false, dot = false, frozen = false;
    if ((n = rush_options_read("inspect", (const rush_option[]){{"--svg", RUSH_TO(&svg)}, {"--dot", RUSH_TO(&dot)}, {"--frozen", RUSH_TO(&frozen)}, {0}}, 1, n, args)) < 0) return n;
    if (!n || (svg && dot) || ((svg || dot || frozen) && rush_ends_with(args[0], ".gguf"))) return RUSH_CMD_WRONG;
    int status = 0;
    rush_scope() {
        bool gguf = rush_ends_with(args[0], ".gguf");
        rush_module *net = gguf ? NULL : rush_program_load(args[0]);
        if (net && frozen && rush_program_freeze(net)) return failed();
        const char *text = gguf ? rush_gguf_text(args[0]) : !net ? NULL : svg || dot ? rush_program_picture(net, svg) : rush_program_text(net);
        if (!text) status = failed();
        else if (svg || dot || gguf) fputs(text, stdout);
        else printf("%lld numbers in parameters\n%s", (long long)rush_parameter_count(net), text);
    }
    return status;
}
