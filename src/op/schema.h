/* schema.h - the reader of schema strings. */
#ifndef RUSH_SCHEMA_H
#define RUSH_SCHEMA_H

#include "op/op.h"

int rush_schema_read(rush_op *); /* fills the record's second group; -1 and a RUSH_VALUE_ERROR */
void rush_schema_forget(rush_op *); /* ends what was read: the record is as it was written */

#endif
