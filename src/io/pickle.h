/* pickle.h - the pickle machine, which can run nothing: it knows opcodes, not what they make.
 *
 * A stack of values, marks in it, and a memo. What a value is, its maker knows: rush_load makes contents of them
 * (content.h), the Python extension Python's objects. Names are handed to the maker as text and answered by it; the
 * machine imports and calls nothing.
 */
#ifndef RUSH_IO_PICKLE_H
#define RUSH_IO_PICKLE_H

#include "base/base.h"

enum rush_pickle_bytes { RUSH_PICKLE_BYTES, RUSH_PICKLE_BYTEARRAY, RUSH_PICKLE_OLD_TEXT /* str of Python 2 */ };

/* Each function that makes a value returns a reference that the machine owns, or NULL and an error. What is handed
 * in stays the machine's, unless it says otherwise. `self` is the maker. */
typedef struct rush_pickle_maker {
    void (*keep)(void *value);
    void (*drop)(void *value);
    void *(*none)(void *self);
    void *(*boolean)(void *self, bool);
    void *(*integer)(void *self, int64_t);
    void *(*big)(void *self, const uint8_t *little_endian, size_t n); /* more than 8 bytes */
    void *(*real)(void *self, double);
    void *(*text)(void *self, const char *utf8, size_t n);
    void *(*bytes)(void *self, const char *, size_t n, int kind);
    void *(*tuple)(void *self, void **items, size_t n);
    void *(*list)(void *self);
    void *(*dict)(void *self);
    void *(*set)(void *self);
    int (*append)(void *self, void *list, void **items, size_t n);
    int (*set_items)(void *self, void *dict, void **items, size_t n); /* keys and values in turn; n is even */
    int (*add_items)(void *self, void *set, void **items, size_t n);
    void *(*global)(void *self, const char *module, const char *name); /* ended by zeros, at most 4096 bytes each */
    void *(*global_of)(void *self, void *module, void *name);
    void *(*call)(void *self, void *callable, void *args);
    void *(*make)(void *self, void *type, void *args, void *keywords); /* keywords may be NULL */
    int (*build)(void *self, void *target, void *state);
    void *(*persistent)(void *self, void *id);
} rush_pickle_maker;

/* Reads one pickle from [p, p + n). *used: how many bytes it had. `name` is of the file, for messages. */
RUSH_PY void *rush_unpickle(const rush_pickle_maker *, void *self, const void *p, size_t n, size_t *used, const char *name);

#endif
