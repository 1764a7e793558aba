/* store.h - what the stores share: one request record, which each kind of store answers in one function.
 *
 * The request's kind is the byte that PyTorch's TCPStore sends for it, so that client and server pass requests on as they are.
 */
#ifndef RUSH_DIST_STORE_H
#define RUSH_DIST_STORE_H

#include "base/base.h"
#include <rushlight/dist.h>

typedef enum rush_request_kind { /* ORDER: PyTorch's */
    RUSH_STORE_VALIDATE, RUSH_STORE_SET, RUSH_STORE_COMPARE_SET, RUSH_STORE_GET, RUSH_STORE_ADD, RUSH_STORE_CHECK, RUSH_STORE_WAIT,
    RUSH_STORE_COUNT, RUSH_STORE_DELETE, RUSH_STORE_APPEND, RUSH_STORE_MULTI_GET, RUSH_STORE_MULTI_SET, RUSH_STORE_CANCEL_WAIT,
    RUSH_STORE_PING, RUSH_STORE_PUSH, RUSH_STORE_POP, RUSH_STORE_QUEUED, RUSH_STORE_LIST, RUSH_STORE_BARRIER, RUSH_STORE_KINDS
} rush_request_kind;

typedef struct rush_request {
    rush_request_kind kind;
    int n;                    /* keys */
    const char *const *keys;
    const rush_bytes *values; /* one per key; of COMPARE_SET what is expected, then what is desired */
    int64_t amount;           /* ADD; BARRIER: how many */
    double seconds;           /* WAIT, BARRIER          */
    /* the answer */
    int64_t number;           /* ADD: the total; CHECK, WAIT, BARRIER: 1 or 0; DELETE, COUNT, QUEUED: how many; POP: 1 or 0 */
    rush_bytes *answers;      /* GET, MULTI_GET, COMPARE_SET, POP: room of the caller's; LIST: made */
    int nanswers;             /* LIST */
} rush_request;

/* One kind of store. run() answers a request, or returns -1 and an error; a GET of what is not there is an error. */
typedef struct rush_store_kind {
    const char *name;
    int (*run)(rush_store *, rush_request *);
    void (*end)(rush_store *);
    rush_store *(*clone)(rush_store *);
} rush_store_kind;

struct rush_store { /* the first member of each kind's own struct */
    const rush_store_kind *kind;
    atomic_int refs;
    double timeout;
};

extern const rush_store_kind rush_store_hash_kind, rush_store_prefix_kind, rush_store_file_kind, rush_store_tcp_kind;
void *rush_store_new(const rush_store_kind *, size_t size);
RUSH_PY int rush_store_run(rush_store *, rush_request *);
rush_store *rush_store_under(rush_store *);          /* of a prefix store */
RUSH_PY const char *rush_store_prefix_of(const rush_store *);
RUSH_PY const char *rush_store_path(const rush_store *);     /* of a file store */
RUSH_PY const char *rush_store_host(const rush_store *);     /* of a TCP store  */

/* Called in waits, every tenth of a second, by the thread that waits; other than 0: give up, an error is pending. The Python
 * extension looks for signals there. */
extern RUSH_PY int (*rush_wait_interrupted)(void);
/* Of the calling thread: the same for its waits, where they are about to be in vain. NULL: none. */
extern _Thread_local int (*rush_wait_hopeless)(void);

/* ---- a table of keys and values ---- */

typedef struct rush_table rush_table;
rush_table *rush_table_new(void);
void rush_table_free(rush_table *);
size_t rush_table_bytes(const rush_table *); /* in keys and values */
/* Answers everything but waits: WAIT is answered as CHECK, a BARRIER as unknown. */
int rush_table_run(rush_table *, rush_request *);
bool rush_table_has(const rush_table *, const char *key);

/* ---- bytes ---- */

int rush_bytes_copy(rush_bytes *to, const void *data, size_t n); /* -1 and an error without memory; n bytes and a zero */

double rush_seconds(void); /* seconds, only forward */
void rush_nap(double seconds);
int rush_wait_turn(double until, double *turn); /* the length of the next turn of a wait, at most 0.1 s; 0 ends it; -1 interrupted */

#endif
