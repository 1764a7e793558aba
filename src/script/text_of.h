/* text_of.h - the texts of programs where several are written into one archive. */
#ifndef RUSH_SCRIPT_TEXT_OF_H
#define RUSH_SCRIPT_TEXT_OF_H

#include "script/script.h"

typedef struct script_writer {
    char *p; /* from rush_realloc */
    size_t n, room;
} script_writer;

typedef struct script_place script_place;
struct script_place {
    script_unit *unit;
    char name[40];       /* what its "__torch__" becomes  */
    size_t constants;    /* where its constants begin     */
    script_place **used; /* of unit->used                 */
    script_place *next;
};

int rush_script_put(script_writer *, const char *);
/* Lines that people indented anyhow, the first of them at the column; the last one ends. */
int rush_script_put_lines(script_writer *, const char *, int column);
/* A text with what was added to its classes. */
int rush_script_put_text(script_writer *, const script_place *, const script_text *);

#endif
