/* object.h - objects of the classes of programs, for those who read schemas and hold values. */
#ifndef RUSH_OBJECT_H
#define RUSH_OBJECT_H

#include "op/nested.h"

/* Before each path of a class, in schemas and in files. */
#define RUSH_CLASS_HEAD "__torch__.torch.classes."

struct rush_class {
    rush_class *next;
    void (*end)(void *data);
    char path[];
};

const char *rush_class_path_end(const char *type); /* behind the path that begins here; NULL: none does */
RUSH_PY const rush_class *rush_class_at(rush_type_text path); /* NULL: there is none */
const rush_op *rush_class_method(const rush_class *, const char *method); /* NULL: it has no such */
bool rush_class_any_has(const char *method);
/* An object of a program becomes what its class's __init__ made. */
void rush_object_become(rush_object *, rush_object *made);

#endif
