/* archive.c - `rushlight archive MODEL -o OUT`: a program with what stands around it, in one file without code. */
#include "cmd/cmd.h"
#include <rushlight.h>
#include <rushlight/program.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char rush_usage_archive[] =
    "usage: rushlight archive MODEL.pt2|.onnx -o OUT.pt2 [--picture [--size HEIGHT,WIDTH] [--resize N] [--gray] [--mean A,B,C] [--std A,B,C]]\n"
    "                         [--text MERGES.txt [--vocabulary VOCAB.json] [--length N] [--padding TOKEN]] [--softmax] [--top K] [--labels FILE]\n"
    "  --picture: the input is PNG and JPEG files, the shorter side resized to N, then the middle cut out; without --resize all is resized.\n"
    "  --text: it is texts, in GPT-2's byte pairs. --top: the K likeliest classes instead of all; --labels: their names, a line each.\n";

enum { MOST = 4 };

/* Numbers with commas between them. -1: they are none. */
static int numbers(const char *text, double *to, size_t *n)
{
    char *end;
    for (*n = 0; *n < MOST; text = end + 1) {
        to[(*n)++] = strtod(text, &end);
        if (end == text || (*end && *end != ',')) return -1;
        if (!*end) return 0;
    }
    return -1;
}

static int read_options(int n, char **args, rush_archive_options *o, double (*room)[MOST], const char **model, const char **to)
{
    double size[MOST];
    size_t nsize = 0;
    struct { const char *name; bool *flag; const char **text; int64_t *whole; rush_floats *floats; } known[] = {
        {"--picture", .flag = &o->picture}, {"--gray", .flag = &o->gray}, {"--softmax", .flag = &o->softmax}, {"-o", .text = to}, {"--text", .text = &o->merges},
        {"--vocabulary", .text = &o->vocabulary}, {"--labels", .text = &o->labels}, {"--resize", .whole = &o->resize}, {"--length", .whole = &o->length},
        {"--padding", .whole = &o->padding}, {"--top", .whole = &o->top}, {"--mean", .floats = &o->mean}, {"--std", .floats = &o->std}, {"--size"}};
    for (int i = 0; i < n; ++i) {
        size_t k = 0, all = sizeof known / sizeof *known;
        while (k < all && strcmp(known[k].name, args[i])) ++k;
        if (k == all && (args[i][0] == '-' || *model)) return fprintf(stderr, "rushlight: archive does not know %s\n", args[i]), -1;
        if (k == all || known[k].flag) {
            if (k == all) *model = args[i];
            else *known[k].flag = true;
            continue;
        }
        if (++i == n) return fprintf(stderr, "rushlight: %s needs a value\n", known[k].name), -1;
        char *end = NULL;
        bool wrong = false;
        if (known[k].text) *known[k].text = args[i];
        else if (known[k].whole) *known[k].whole = strtoll(args[i], &end, 10), wrong = *end || end == args[i] || *known[k].whole < 0;
        else if (known[k].floats) {
            double *p = room[known[k].floats == &o->std];
            wrong = numbers(args[i], p, &known[k].floats->n);
            known[k].floats->data = p;
        } else wrong = numbers(args[i], size, &nsize) || nsize != 2 || size[0] < 1 || size[1] < 1 || size[0] > 1e6 || size[1] > 1e6, o->height = wrong ? 0 : (int64_t)size[0], o->width = wrong ? 0 : (int64_t)size[1];
        if (wrong) return fprintf(stderr, "rushlight: %s %s is no such number\n", known[k].name, args[i]), -1;
    }
    return *model && *to ? 0 : -1;
}

int rush_cmd_archive(int n, char **args)
{
    rush_archive_options o = {0};
    double room[2][MOST];
    const char *model = NULL, *to = NULL;
    if (read_options(n, args, &o, room, &model, &to)) return RUSH_CMD_WRONG;
    if (!rush_program_archive_with(model, to, &o)) return 0;
    fprintf(stderr, "rushlight: %s\n", rush_error());
    return 1;
}
