/* cmd.h - the parts of the command `rushlight`; each gets its own arguments and returns the exit status. */
#ifndef RUSH_CMD_H
#define RUSH_CMD_H

#include <stdbool.h>
#include <stdio.h>

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
