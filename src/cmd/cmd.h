/* cmd.h - the parts of the command `rushlight`; each gets its own arguments and returns the exit status. */
#ifndef RUSH_CMD_H
#define RUSH_CMD_H

#include <rushlight.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* What a part returns for main to show its usage: where its arguments make no sense and it has said why, and where they ask for it. */
enum { RUSH_CMD_WRONG = -1, RUSH_CMD_HELP = -2 };
extern const char rush_usage_run[], rush_usage_inspect[], rush_usage_convert[], rush_usage_archive[], rush_usage_compile[], rush_usage_generate[], rush_usage_chat[], rush_usage_perplexity[],
    rush_usage_launch[], rush_usage_serve[];

/* An option: {"--name", RUSH_TO(&variable)}. A bool's takes no value, numbers of a list have commas between them. Whole numbers
 * lie between least and most; 0 stands for a most of RUSH_OPTION_MOST. */
typedef struct rush_option {
    const char *name; /* NULL: the table ends */
    void *to;
    enum { RUSH_OPTION_INT, RUSH_OPTION_INT64, RUSH_OPTION_REAL, RUSH_OPTION_REALS, RUSH_OPTION_TEXT, RUSH_OPTION_FLAG } type;
    int64_t least, most;
} rush_option;
enum { RUSH_OPTION_MOST = 1000000000, RUSH_OPTION_PROGRAM = -1 };
#define RUSH_TO(p) (p), _Generic((p), int *: RUSH_OPTION_INT, int64_t *: RUSH_OPTION_INT64, double *: RUSH_OPTION_REAL, rush_floats *: RUSH_OPTION_REALS, \
                                 const char **: RUSH_OPTION_TEXT, bool *: RUSH_OPTION_FLAG)
/* Fills what options are for; words come to stand first in args, at most so many, NULL behind them. RUSH_OPTION_PROGRAM: behind the first
 * word there are no more options. How many words, or what the part is to return. */
int rush_options_read(const char *command, const rush_option *, int most, int n, char **args);

int rush_cmd_ops(int n, char **args);     /* ops [NAME] */
int rush_cmd_run(int n, char **args);     /* run MODEL INPUT... [-o OUT.npz] [--bench] [--frozen] */
int rush_cmd_inspect(int n, char **args); /* inspect MODEL */
bool rush_ends_with(const char *s, const char *end);
char *rush_read_all(FILE *, size_t *n); /* the caller's to free; NULL: no memory */
int rush_cmd_convert(int n, char **args);
int rush_cmd_archive(int n, char **args); /* archive MODEL -o OUT [...] */
int rush_cmd_compile(int n, char **args); /* compile MODEL -o OUT.c [--size N] [--int8] [--train sgd|adam] [--loss NAME] */
int rush_cmd_generate(int n, char **args); /* generate MODEL.gguf -p TEXT [...] */
int rush_cmd_chat(int n, char **args); /* chat MODEL.gguf [...] */
int rush_cmd_perplexity(int n, char **args); /* perplexity MODEL.gguf TEXT [--context TOKENS] */
int rush_cmd_launch(int n, char **args);  /* launch [-n N] [...] PROGRAM ARGS */
int rush_cmd_serve(int n, char **args);   /* serve DIR; its own help tells the options */

#endif
