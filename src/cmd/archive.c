/* archive.c - `rushlight archive MODEL -o OUT`: a program with what stands around it, in one file without code. */
#include "cmd/cmd.h"
#include <rushlight.h>
#include <rushlight/program.h>

#include <math.h>
#include <stdio.h>

const char rush_usage_archive[] =
    "usage: rushlight archive MODEL.pt2|.onnx -o OUT.pt2 [--picture [--size HEIGHT,WIDTH] [--resize N] [--gray] [--mean A,B,C] [--std A,B,C]]\n"
    "                         [--text MERGES.txt [--vocabulary VOCAB.json] [--length N] [--padding TOKEN]] [--softmax] [--top K] [--labels FILE]\n"
    "  --picture: the input is PNG and JPEG files, the shorter side resized to N, then the middle cut out; without --resize all is resized.\n"
    "  --text: it is texts, in GPT-2's byte pairs. --top: the K likeliest classes instead of all; --labels: their names, a line each.\n";

int rush_cmd_archive(int n, char **args)
{
    rush_archive_options o = {0};
    rush_floats size = {0};
    const char *to = NULL;
    const rush_option known[] = {
        {"-o", RUSH_TO(&to)}, {"--picture", RUSH_TO(&o.picture)}, {"--size", RUSH_TO(&size)}, {"--resize", RUSH_TO(&o.resize)}, {"--gray", RUSH_TO(&o.gray)},
        {"--mean", RUSH_TO(&o.mean)}, {"--std", RUSH_TO(&o.std)}, {"--text", RUSH_TO(&o.merges)}, {"--vocabulary", RUSH_TO(&o.vocabulary)}, {"--length", RUSH_TO(&o.length)},
        {"--padding", RUSH_TO(&o.padding)}, {"--softmax", RUSH_TO(&o.softmax)}, {"--top", RUSH_TO(&o.top)}, {"--labels", RUSH_TO(&o.labels)}, {0}};
    if ((n = rush_options_read("archive", known, 1, n, args)) < 0) return n;
    if (!n || !to) return RUSH_CMD_WRONG;
    for (size_t i = 0; i < size.n; ++i)
        if (size.n != 2 || size.data[i] < 1 || size.data[i] > 1e6 || size.data[i] != floor(size.data[i])) return fprintf(stderr, "rushlight: --size takes HEIGHT,WIDTH in pixels\n"), RUSH_CMD_WRONG;
    if (size.n) o.height = (int64_t)size.data[0], o.width = (int64_t)size.data[1];
    if (!rush_program_archive_with(args[0], to, &o)) return 0;
    fprintf(stderr, "rushlight: %s\n", rush_error());
    return 1;
}
