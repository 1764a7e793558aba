/* content.h - making the items of checkpoint.h. */
#ifndef RUSH_IO_CONTENT_H
#define RUSH_IO_CONTENT_H

#include "op/op.h"
#include <rushlight/checkpoint.h>

rush_content *rush_content_new(int kind);
rush_content *rush_content_bytes(int kind, const char *, size_t n); /* text, bytes or a name; copied */
int rush_content_add(rush_content *to, rush_content **items, size_t n);

#endif
