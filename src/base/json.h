/* json.h - JSON as RFC 8259 has it and no more, read whole into one block of memory; and how texts are written in it.
 *
 * Nothing here is believed to be what a program expects: every function takes NULL for what is not there, and says so of it.
 */
#ifndef RUSH_BASE_JSON_H
#define RUSH_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef enum rush_json_kind {
    RUSH_JSON_NULL, RUSH_JSON_BOOL, RUSH_JSON_WHOLE, RUSH_JSON_NUMBER, RUSH_JSON_TEXT, RUSH_JSON_LIST, RUSH_JSON_OBJECT
} rush_json_kind;

typedef struct rush_json {
    rush_json_kind kind;
    uint32_t n;             /* items of a list or object                                             */
    const char *name;       /* in an object; else NULL                                               */
    const char *text;       /* of TEXT, valid UTF-8; else NULL                                       */
    int64_t i;              /* of WHOLE: written without point and power, and it fits; of BOOL 0 or 1 */
    double number;          /* of WHOLE and NUMBER                                                   */
    struct rush_json *up, *first, *next; /* what it is in; the first of its items; the next one beside it */
} rush_json;

/* The value that the n bytes are, freed by rush_free(). NULL: they are no JSON, or hold NUL in a text, or are nested more than a
 * thousand deep; NULL and an error without memory. A name may be there twice: who minds looks. */
rush_json *rush_json_read(const char *bytes, size_t n);

const rush_json *rush_json_get(const rush_json *object, const char *name);       /* the first of that name; NULL */
bool rush_json_same(const rush_json *, const rush_json *);                        /* in the same order, too       */
void rush_json_write_text(FILE *, const char *);                                   /* in quotes                    */

#define rush_json_each(x, box) for (const rush_json *x = (box) ? (box)->first : NULL; x; x = x->next)
static inline bool rush_json_is(const rush_json *x, rush_json_kind kind) { return x && x->kind == kind; }
static inline bool rush_json_is_number(const rush_json *x) { return x && (x->kind == RUSH_JSON_WHOLE || x->kind == RUSH_JSON_NUMBER); }
static inline bool rush_json_is_true(const rush_json *x) { return x && x->kind == RUSH_JSON_BOOL && x->i; }
static inline bool rush_json_is_false(const rush_json *x) { return x && x->kind == RUSH_JSON_BOOL && !x->i; }
static inline const char *rush_json_text(const rush_json *x) { return x ? x->text : NULL; }
static inline const char *rush_json_text_of(const rush_json *object, const char *name) { return rush_json_text(rush_json_get(object, name)); }
static inline size_t rush_json_count(const rush_json *box) { return box ? box->n : 0; }

#endif
