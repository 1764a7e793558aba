/* speak.h - what the commands share that let language models write: options, and the loop that draws tokens and prints them. */
#ifndef RUSH_SPEAK_H
#define RUSH_SPEAK_H

#include "cmd/cmd.h"
#include <rushlight.h>
#include <rushlight/lm.h>
#include <stdio.h>

typedef struct rush_speak {
    const char *model, *prompt, *system, *draft;
    int64_t tokens, seed;
    rush_lm_options from;
    bool numbers, timed; /* print numbers of tokens; say at the end how long it took */
    rush_lm_sampling how;
} rush_speak;

/* The model that proposes tokens; NULL if none is asked for, or with an error. */
rush_lm *rush_speak_draft(const rush_speak *);
/* As rush_options_read(), of `words` words, the first of which is the model; what is missing is wrong, too. own: the option that this command alone has; NULL: it only reads. */
int rush_speak_options(rush_speak *, const char *command, const rush_option *own, int words, int n, char **args);
/* Draws, prints and feeds tokens until the text or the room for it ends; how many, -1 and an error. copy: gets the text, too; NULL: none. */
long long rush_speak_on(const rush_speak *, rush_lm *, rush_lm *draft, const float *logits, FILE *copy);

#endif
