/* nested.h - the types in schemas that no rush_arg says: Dict(str, Tensor), str[], (str, int)[], int[][]?, classes. See rushlight/library.h. */
#ifndef RUSH_NESTED_H
#define RUSH_NESTED_H

#include "op/op.h"
#include <rushlight/library.h>

/* A type as it is written. */
typedef struct rush_type_text {
    const char *at;
    size_t n;
} rush_type_text;

/* What a type is at its outside: text[]? is an option of a list. */
typedef enum rush_type_form { RUSH_TYPE_PLAIN, RUSH_TYPE_OPTIONAL, RUSH_TYPE_LIST, RUSH_TYPE_TUPLE, RUSH_TYPE_DICT } rush_type_form;

const char *rush_type_end(const char *type); /* what follows it; NULL: this is none */
RUSH_PY rush_type_form rush_type_read(rush_type_text, rush_type_text *first); /* the form, and the first type inside */
RUSH_PY bool rush_type_next(rush_type_text *inside); /* from one type inside of a tuple or Dict to the next */
RUSH_PY int rush_type_plain(rush_type_text);  /* the rush_arg_type; -1: it is not plain */
RUSH_PY rush_type_text rush_type_of_arg(const rush_op *, int i);
RUSH_PY rush_type_text rush_type_of_result(const rush_op *, int i);
bool rush_type_fits(rush_type_text, const rush_value *);

#endif
