/* content.h - making the items of checkpoint.h. */
#ifndef RUSH_IO_CONTENT_H
#define RUSH_IO_CONTENT_H

#include "op/op.h"
#include <rushlight/checkpoint.h>

rush_content *rush_content_new(int kind);
RUSH_PY rush_content *rush_content_bytes(int kind, const char *, size_t n); /* text, bytes or a name; copied */
bool rush_content_given(const rush_content *); /* an error if there is none, or its scope was closed */
RUSH_PY int rush_content_add(rush_content *to, rush_content **items, size_t n);

/* checkpoint_code.c: the classes of an archive of TorchScript, whose outermost object is x, as entries below root/code */
struct rush_zip_writer;
int rush_content_code(const rush_content *x, const char *root, struct rush_zip_writer *);
int rush_content_class(char *to, size_t room, uint32_t number); /* the module that object `number` has its class in, counted as they are written */

/* checkpoint_write.c: a program's archive, to a sink: the object of its outermost module, whose objects have the paths of their classes as type;
 * a tuple of constants; and files with their names below the archive's folder. */
typedef struct rush_archive_file { const char *name; const void *p; size_t n; } rush_archive_file;
int rush_save_archive(int (*sink)(void *to, const void *, size_t), void *to, rush_content *data, rush_content *constants, size_t n, const rush_archive_file *);

/* checkpoint_lbfgs.c: what checkpoint_optim.c has for the others */
rush_content *rush_content_lbfgs(rush_optim *);
int rush_lbfgs_load_content(rush_optim *, const rush_content *state, const rush_content *group);
int rush_content_number(const rush_content *, double *to); /* -1 without an error: it is none */

#endif
