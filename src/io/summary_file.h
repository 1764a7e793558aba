/* summary_file.h - bytes that grow, protobuf's wire format in them, and the records of event files. */
#ifndef RUSH_IO_SUMMARY_FILE_H
#define RUSH_IO_SUMMARY_FILE_H

#include "op/op.h"
#include <rushlight/summary.h>
#include <stdio.h>

/* A message that is being written. Out of memory: `lost`, and an error is pending. */
typedef struct rush_bytes {
    uint8_t *p;
    size_t n, room;
    bool lost;
} rush_bytes;

void rush_bytes_add(rush_bytes *, const void *, size_t n);
void rush_bytes_end(rush_bytes *);
/* Fields of a message: number and value. */
void rush_pb_varint(rush_bytes *, uint64_t);
void rush_pb_int(rush_bytes *, int field, int64_t);
void rush_pb_double(rush_bytes *, int field, double);
void rush_pb_float(rush_bytes *, int field, float);
void rush_pb_data(rush_bytes *, int field, const void *, size_t n);
void rush_pb_text(rush_bytes *, int field, const char *);
/* A message inside one; `inner` is freed. */
void rush_pb_message(rush_bytes *, int field, rush_bytes *inner);

/* crc32c (Castagnoli) masked as records want it */
uint32_t rush_masked_crc(const void *, size_t n);

/* Writes an event whose serialised Summary.Value is given; `wall` 0: now. Locked: any thread may. */
RUSH_PY int rush_summary_value(rush_summary *, const void *value, size_t n, int64_t step, double wall);
/* Any serialised event. */
RUSH_PY int rush_summary_event(rush_summary *, const void *event, size_t n);
/* A value of these parts: tag, one field with a message in it, and (plugin not NULL) metadata. */
int rush_summary_field(rush_summary *, const char *tag, int field, rush_bytes *message, const char *plugin, const char *content, size_t ncontent,
                       int data_class, int64_t step);

struct rush_summary {
    uint64_t lives;        /* first: 1 until its end */
    FILE *f;
    char *path, *folder;
    double wall;           /* of the events to come; 0: now */
    double flushed, every; /* seconds */
};
bool rush_summary_given(const rush_summary *); /* an error if there is none, or none any more */
double rush_wall_time(void);
int rush_make_folders(const char *path); /* it and those above it */

#endif
