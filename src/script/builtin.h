/* builtin.h - how the functions that the language has beside the registry's are written: builtin.c and text.c. */
#ifndef RUSH_SCRIPT_BUILTIN_H
#define RUSH_SCRIPT_BUILTIN_H

#include "script/script.h"

#define NOT_MINE return SCRIPT_NOT_MINE
#define FUNCTION(name) static int name(script_call *c, script_value *out)

static inline int give(script_value *out, script_value v) { return *out = v, v.kind == SCRIPT_UNSET ? -1 : 0; }
static inline int give_int(script_value *out, int64_t i) { return *out = script_of_int(i), 0; }
static inline int give_bool(script_value *out, int b) { return b < 0 ? -1 : (*out = script_of_bool(b), 0); }

#endif
