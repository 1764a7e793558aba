/* run.c - `rushlight run` and `rushlight inspect`: programs that were captured elsewhere, without Python. */
#include "cmd/cmd.h"
#include <rushlight.h>
#include <rushlight/gguf.h>
#include <rushlight/io.h>
#include <rushlight/program.h>

#include <stdio.h>
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

static int deliver(const char *path, int n, rush_tensor **out)
{
    static char room[MOST][16];
    static const char *names[MOST];
    for (int i = 0; i < n; ++i) {
        snprintf(room[i], sizeof room[i], "out%d", i);
        names[i] = room[i];
        if (path) continue;
        printf("%s ", names[i]);
        rush_tensor_print(out[i]);
    }
    return path ? rush_npz_save(path, (rush_state){n, names, out}) : 0;
}

int rush_cmd_run(int n, char **args)
{
    const char *model = NULL, *to = NULL;
    rush_tensor *in[MOST], *out[MOST];
    int nin = 0, status = 0;
    bool measure = false, frozen = false;
    rush_scope() {
        for (int i = 0; i < n; ++i) {
            if (!strcmp(args[i], "-o") && i + 1 < n) to = args[++i];
            else if (!strcmp(args[i], "--bench")) measure = true;
            else if (!strcmp(args[i], "--frozen")) frozen = true;
            else if (args[i][0] == '-') return fprintf(stderr, "rushlight: run does not know %s\n", args[i]), 2;
            else if (!model) model = args[i];
            else if (take_inputs(args[i], in, &nin)) return failed();
        }
        if (!model) return fprintf(stderr, "usage: rushlight run MODEL INPUT.npy|.npz ... [-o OUT.npz] [--bench] [--frozen]\n"), 2;
        rush_module *net = rush_program_load(model);
        rush_grad_enabled_set(false);
        if (net && frozen && rush_program_freeze(net)) return failed();
        int nout = net ? rush_program_run(net, nin, in, MOST, out) : -1;
        if (nout < 0 || (measure && bench(net, nin, in)) || (!measure || to ? deliver(to, nout, out) : 0)) status = failed();
    }
    return status;
}

int rush_cmd_inspect(int n, char **args)
{
    const char *how = n == 2 ? args[1] : "";
    bool svg = !strcmp(how, "--svg"), dot = !strcmp(how, "--dot");
    if (n < 1 || n > 2 || (n == 2 && ((!svg && !dot) || rush_ends_with(args[0], ".gguf")))) return fprintf(stderr, "usage: rushlight inspect MODEL [--dot | --svg]\n       rushlight inspect FILE.gguf\n"), 2;
    int status = 0;
    rush_scope() {
        bool gguf = rush_ends_with(args[0], ".gguf");
        rush_module *net = gguf ? NULL : rush_program_load(args[0]);
        const char *text = gguf ? rush_gguf_text(args[0]) : !net ? NULL : svg || dot ? rush_program_picture(net, svg) : rush_program_text(net);
        if (!text) status = failed();
        else if (svg || dot || gguf) fputs(text, stdout);
        else printf("%lld numbers in parameters\n%s", (long long)rush_parameter_count(net), text);
    }
    return status;
}
