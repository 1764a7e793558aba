/* recorder.h - the flight recorder: what this process called last in its groups. */
#ifndef RUSH_DIST_RECORDER_H
#define RUSH_DIST_RECORDER_H

#include "dist/group.h"

void rush_recorder_begin(rush_work *);   /* it was called: it has its number now */
void rush_recorder_start(rush_work *);   /* it is being done */
void rush_recorder_end(rush_work *);     /* it is done, or has failed */
/* All that is remembered, the oldest first, as JSON in the words of PyTorch's flight recorder. -1 and an error without memory. */
RUSH_PY int rush_recorder_json(rush_bytes *, bool collectives, bool only_active);
RUSH_PY void rush_recorder_clear(void);
/* The group has failed: what is remembered goes to a file, where the environment names one. Once per process. */
void rush_recorder_dump(rush_group *, const char *why);

#endif
