/* cmd.h - the parts of the command `rushlight`; each gets its own arguments and returns the exit status. */
#ifndef RUSH_CMD_H
#define RUSH_CMD_H

#include <stdbool.h>
#include <stdio.h>

/* What a part returns where its arguments make no sense and it has said why: main shows its usage. */
enum { RUSH_CMD_WRONG = -1 };
extern const char rush_usage_run[], rush_usage_inspect[], rush_usage_convert[], rush_usage_archive[], rush_usage_compile[], rush_usage_generate[], rush_usage_chat[], rush_usage_perplexity[],
    rush_usage_launch[], rush_usage_serve[];

int rush_cmd_ops(const char *name);        /* ops [NAME]; NULL: all */
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
