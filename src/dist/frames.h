/* frames.h - the parts of a mesh, which mesh.c and frames.c share. All of it is under the mesh's lock. */
#ifndef RUSH_DIST_FRAMES_H
#define RUSH_DIST_FRAMES_H

#include "dist/mesh.h"

#include <poll.h>
#include <pthread.h>

enum opcode {
    DATA = 1, SEND_READY = 2, RECEIVE_READY = 3, /* gloo's */
    ALIVE = 0x52550001, /* slot: the last collective begun                 */
    BEGIN,              /* slot: its number; text: which one               */
    LEAVE,              /* slot: the last collective begun; nothing comes after it. Who has read it shuts its side: the sender may go */
    FAIL                /* text: why the sender gives up                   */
};

typedef struct rush_preamble { /* of each frame, then `length` bytes of data or text */
    uint64_t all, opcode, slot, offset, length, roffset;
} rush_preamble;

struct rush_mesh_buffer {
    rush_mesh *mesh;
    char *data;
    size_t n;
    int flying;                  /* messages on their way                       */
    bool held, landing;          /* by the caller; it is in the list of landed  */
    int sent, received;          /* through, not waited for yet                 */
    int sent_to, received_from;
    void (*release)(void *);     /* when nothing flies any more                 */
    void *arg;
    rush_mesh_buffer *next;      /* landed */
};

typedef struct rush_part { /* of a buffer: a message that waits for the other side */
    struct rush_part *next;
    rush_mesh_buffer *b;
    uint64_t slot;
    size_t offset, n;
    int nfrom;                   /* receives from one of several: */
    int *from;
} rush_part;

typedef struct rush_frame { /* on its way out */
    struct rush_frame *next;
    rush_preamble p;
    rush_mesh_buffer *b;         /* of DATA */
    const char *data;
    char *text;                  /* owned   */
    size_t done;                 /* of preamble and data together */
} rush_frame;

typedef struct rush_tally { /* how often, per slot */
    struct rush_tally *next;
    uint64_t slot;
    int64_t n;
} rush_tally;

typedef struct rush_peer {
    int fd;
    bool ours, here;             /* speaks our frames; has spoken */
    bool left, gone;             /* said goodbye; its connection has ended */
    char *host;
    int64_t reached;             /* the last collective it began, -1: not known */
    double heard;
    rush_frame *out, **out_end;
    rush_part *sends, *receives;
    rush_tally *can_receive, *can_send, *owed; /* announced by the other side; announcements of sends that a receive was ahead of */
    rush_preamble p;                  /* being read */
    size_t head, body;           /* bytes of it and of its data that have come */
    rush_mesh_buffer *into;
    char *into_at, *text;
} rush_peer;

enum { REMEMBERED = 64 };

struct rush_mesh {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    int rank, size, wake, forks;
    bool running, leaving, stop;
    rush_peer *peers;                 /* (size), that of this rank unused */
    rush_part *any;                   /* receives from one of several */
    rush_mesh_buffer *landed;
    char *broken;
    int waiting;                 /* threads */
    int64_t number;              /* of the collective that was begun last */
    struct { int64_t number; char *what; } begun[REMEMBERED], told[REMEMBERED]; /* by number modulo; told: of the first that told */
    int told_by[REMEMBERED];
    double patience;             /* with a silent rank, seconds; 0: endless */
    struct pollfd *polls;
    rush_mesh *next;             /* of all in this process */
};

/* ---- frames.c ---- */

rush_tally **rush_tally_of(rush_tally **list, uint64_t slot); /* points to NULL: none */
int rush_tally_add(rush_tally **list, uint64_t slot);
bool rush_tally_take(rush_tally **list, uint64_t slot);      /* false: there was none */
void rush_tally_free(rush_tally **list);

rush_part *rush_part_new(rush_mesh_buffer *, uint64_t slot, size_t offset, size_t n);
void rush_part_free(rush_part *);
void rush_part_append(rush_part **list, rush_part *);
void rush_part_list_free(rush_part **list);
void rush_part_unref(rush_mesh_buffer *); /* a message of the buffer is through, or given up */

/* Queues a frame and writes what the socket takes; `text` is freed. Without memory the mesh breaks. */
void rush_frame_push(rush_mesh *, rush_peer *, uint64_t opcode, uint64_t slot, size_t length, rush_mesh_buffer *, const char *data, char *text);
void rush_frame_push_data(rush_mesh *, rush_peer *, rush_part *); /* and frees the part */
void rush_frames_free(rush_peer *);
void rush_frames_write(rush_mesh *, rush_peer *, int rank);
void rush_frames_read(rush_mesh *, rush_peer *, int rank);

/* ---- mesh.c ---- */

void rush_mesh_break_locked(rush_mesh *, bool tell, const char *format, ...) RUSH_PRINTF(3, 4);
int rush_mesh_out_of_memory(rush_mesh *); /* breaks it: its ranks would no longer agree; -1 */
void rush_mesh_lost(rush_mesh *, int rank, const char *why); /* the connection has ended */
void rush_mesh_poke(rush_mesh *);         /* the thread is to look again */
const char *rush_mesh_name_of(rush_mesh *, int rank);
/* Do both ranks do the same as their collective `number`? If not, the mesh breaks. */
void rush_mesh_compare(rush_mesh *, int64_t number, const char *mine, int rank, const char *its);

#endif
