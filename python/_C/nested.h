/* nested.h - values of the types that schemas of programs may have beyond a plain type and a list of it. */
#ifndef RUSH_PY_NESTED_H
#define RUSH_PY_NESTED_H

#include "ext.h"
#include "op/nested.h"

int py_to_nested(rush_type_text, PyObject *, rush_value *);
int py_to_object(rush_type_text path, PyObject *, rush_value *); /* of this class of a program */
PyObject *py_from_nested(rush_type_text, const rush_value *);

#endif
