/* serve.h - models over HTTP: the KServe v2 protocol, as Triton's clients speak it.
 *
 * A request is read and answered by a thread of the web server (http.c); in between it waits as a job in its model's queue
 * (queue.c), from which the model's own threads take as many as fit into one batch. Which models there are is looked at in
 * a folder (repository.c). Operations are called in a model's threads alone: those of the web server have small stacks.
 */
#ifndef RUSH_SERVE_H
#define RUSH_SERVE_H

#include <rushlight.h>
#include <rushlight/lm.h>
#include <rushlight/program.h>
#include "base/base.h"
#include "base/json.h"

#include <pthread.h>
#include <stdatomic.h>

enum { SERVE_TENSORS = 64, SERVE_NAME = 128, SERVE_ERROR = 512, SERVE_BYTES = 1 << 10 }; /* SERVE_BYTES stands where dtypes do: texts, see rush_texts() */

typedef struct serve_options {
    const char *dir, *host, *key, *tls, *trace; /* tls: a file with certificate and key; trace: one to be written; NULL: none */
    int port, connections, instances, max_batch, queue;
    int64_t delay_us, timeout_ms, grace_ms, context; /* context: tokens that language models remember; 0: the model's own */
    size_t max_bytes, max_held; /* of one request; of all that are being answered */
    bool log;
    bool shared;                /* clients on this machine may name shared memory */
} serve_options;
extern serve_options serve_given;

/* Bytes of a block for what is n bytes long in this request and of another length in the next. The C library keeps some free blocks of every size up to a kilobyte
 * for each thread, so that the memory of many threads would grow slowly, until each had some of all. The sanitizer is to see each byte beyond. */
#ifdef __SANITIZE_ADDRESS__
enum { SERVE_LEAST = 1 };
#else
enum { SERVE_LEAST = 2048 };
#endif
#define SERVE_ROOM(n) RUSH_MAX((size_t)(n), (size_t)SERVE_LEAST)

uint64_t serve_now(void); /* nanoseconds, of a clock that only goes forward */
struct timespec serve_time_of(uint64_t);

/* ---- text that grows: wire.c ---- */

typedef struct serve_text { char *p; size_t n, room; bool failed; } serve_text;
void serve_put(serve_text *, const void *, size_t);
void serve_print(serve_text *, const char *format, ...) RUSH_PRINTF(2, 3);
void serve_put_json(serve_text *, const char *text); /* in quotes; bytes that are no UTF-8 become U+FFFD */
void serve_put_json_bytes(serve_text *, const char *, size_t); /* a zero stands behind them */
bool serve_base64(const char *text, size_t n, char *to, size_t *length); /* `to` has room for n / 4 * 3 + 3 bytes; false: it is something else */

/* ---- models ---- */

typedef struct serve_value {
    char name[SERVE_NAME];
    int dtype;                 /* -1: any               */
    int ndim;                  /* -1: any               */
    int64_t size[RUSH_MAXDIM]; /* -1: any               */
} serve_value;

/* Counts that only grow, and the nanoseconds that went into them. */
typedef struct serve_count { atomic_ullong n, ns; } serve_count;
enum { SERVE_BUCKETS = 16 };
typedef struct serve_stats {
    serve_count success, fail, waited, input, infer, output;
    atomic_ullong executions, rows, refused, timed_out, last_ms, tokens_read, tokens_made, loads;
    atomic_ullong bucket[SERVE_BUCKETS]; /* requests that took at most 2^k * 100 us */
} serve_stats;

enum { SERVE_SIZES = 16 };
typedef struct serve_pace { uint64_t ns; int runs, tries; } serve_pace; /* for a row; runs: at most 3 are counted; tries: a job may have more rows than were tried */

typedef struct serve_job serve_job;
typedef struct serve_talk serve_talk;
typedef struct serve_model {
    atomic_int refs;
    char name[SERVE_NAME], version[24], platform[16];
    int nin, nout, max_batch; /* max_batch 1: the first dimension is not one of samples */
    int64_t delay_us;
    serve_value *in, *out;
    serve_stats *stats;       /* of the name and version: it outlives a reload           */
    pthread_mutex_t lock;
    pthread_cond_t more;      /* there are jobs, or it ends                              */
    pthread_cond_t help;      /* the same for helpers: queue.c                           */
    serve_job *first, **last;
    int waiting, instances;  /* jobs in the queue                                        */
    int64_t rows;            /* of them                                                  */
    bool ending;
    unsigned turn;           /* batches that were taken                                  */
    int takers, computing;   /* threads that take batches; those that compute one now    */
    bool led;                /* the first may compute with all processors, while the others rest */
    bool leading;            /* it computes                                              */
    bool apart, gathering;   /* those that compute do so each alone; they come to an end, since the next batch is tried together */
    uint64_t work, counted;  /* nanoseconds that they computed, all together; when that was counted */
    serve_pace pace[2][SERVE_SIZES]; /* of batches of at most 2^k rows, computed together and [1] apart */
} serve_model;

/* A model whose threads run; one reference. NULL and an error. */
serve_model *serve_model_load(const char *name, const char *version, const char *path, serve_stats *);
void serve_model_drop(serve_model *);
void serve_model_end(serve_model *); /* its threads answer what is queued, then go; drops the caller's reference */

/* ---- jobs: queue.c ---- */

struct serve_job {
    atomic_int refs;
    serve_model *model;
    int n, nout;
    rush_tensor *in[SERVE_TENSORS], *out[SERVE_TENSORS]; /* held */
    rush_tensor *numbers[SERVE_TENSORS]; /* held: of results that JSON shows, as int64 or float64 */
    uint64_t shown;                      /* bit k: result k is one of them                       */
    int8_t cast[SERVE_TENSORS];          /* inputs that came in JSON become this dtype; -1: they have theirs */
    int64_t rows;
    serve_talk *talk;        /* NULL: it is of tensors */
    char error[SERVE_ERROR]; /* empty: it was computed */
    uint64_t queued_at, began;
    pthread_mutex_t lock;
    pthread_cond_t done;
    int status;      /* under the lock; 0: there is no answer yet */
    const char *why; /* of the answer that serve_job_run returns  */
    serve_job *next;
};
serve_job *serve_job_new(serve_model *);
void serve_job_drop(serve_job *);
/* Waits for the answer. An HTTP status: 200 with job->out, else job->why says why; 410: the model has ended, look for the new one. */
int serve_job_run(serve_job *);
int serve_job_queue(serve_job *); /* the same without waiting: 0, 410, 429 */
void serve_job_take_back(serve_job *); /* nobody waits any more: it leaves the queue, or is dropped when it has been computed */
int serve_job_late(serve_job *);       /* the same, since it took too long: 504 */
void *serve_instance(void *);     /* the thread of one instance */
void serve_instance_settle(void);  /* what each such thread begins with */
void serve_each_batch(serve_model *, bool helps, void (*run)(void *arg, serve_job **, int n), void *arg); /* until the model ends */
typedef struct serve_instance_start { serve_model *model; rush_module *net; bool helps; } serve_instance_start;

/* ---- language models: text.c ---- */

enum { SERVE_STOPS = 4, SERVE_STOP = 256, SERVE_LIKELIEST = 20 };
typedef struct serve_chance { /* how likely a token was; those that were likeliest there stand behind it */
    size_t at, piece, bytes;  /* of `said` before it; its text, in `pieces`              */
    int32_t token, rank;      /* rank 0: it is what was said                             */
    float log;                /* of its probability; NaN of the first of all             */
} serve_chance;
struct serve_talk {
    serve_text prompt;  /* a text; of a chat, roles and contents in turn, each with a zero behind it */
    bool chat, echo;    /* echo: what is said begins with the prompt                                 */
    int32_t *tokens;    /* the prompt as tokens; NULL: as a text                                     */
    size_t ntokens;
    int64_t most;       /* tokens to be made; -1: as many as there is room for                       */
    rush_lm_sampling how; /* its biases are the talk's own                                             */
    uint64_t seed;
    int likeliest;      /* tokens to be told of beside each that is said; -1: of none is told         */
    char stop[SERVE_STOPS][SERVE_STOP];
    int stops;
    atomic_bool cancelled;
    serve_text said;    /* this and what follows under the job's lock, until there is an answer      */
    size_t sure, taken, echoed; /* bytes of it: that no stop can take back; that were read; of the prompt */
    serve_text pieces, chances; /* the latter of serve_chance */
    size_t told;                /* chances that were read */
    int64_t read, made, steps; /* tokens; anything that was done                                 */
    const char *finish; /* "stop", "length" */
};
void serve_talk_drop(serve_talk *);
/* Appends what was said since; waits until there is something. 0: more follows; 200: the end; else an HTTP status, and job->why says why. */
int serve_talk_next(serve_job *, serve_text *to);
void serve_talk_leave(serve_job *); /* nobody listens any more */
int serve_talk_instance(serve_model *, const char *path); /* a thread that has the model. 0; -1 and an error */

/* ---- the folder: repository.c ---- */

int serve_repository_scan(void);                                         /* how many models changed; prints what went wrong */
serve_model *serve_model_find(const char *name, const char *version);    /* held; version NULL: the latest. NULL: there is none */
/* 0; -1. Parameters may hold "config" (how it is run) and files to be served instead of those in the folder, "file:VERSION/model.ENDING". */
int serve_repository_load(const char *name, const rush_json *parameters, char *error, size_t room);
int serve_repository_unload(const char *name);                           /* 0; -1: there is none */
void serve_repository_end(void);

typedef struct serve_entry {
    char name[SERVE_NAME], version[24], path[1024], reason[SERVE_ERROR];
    serve_model *model;      /* NULL: not loaded                    */
    serve_stats stats;
    int64_t stamp[4];        /* of the file that was loaded or tried */
    bool unloaded, seen;     /* unloaded: by request                 */
    bool sent;               /* it came with a request, and is in no folder */
    int max_batch;           /* asked for; 0: the server's           */
    int64_t delay_us;        /* the same; -1: the server's           */
    struct serve_entry *next;
} serve_entry;
void serve_repository_each(void (*fn)(serve_entry *, void *), void *arg); /* under the lock */

/* ---- tensors: wire.c ---- */

const char *serve_datatype(int dtype);               /* "FP32"; NULL: the protocol has none */
int serve_dtype_named(const char *datatype);         /* -1 */

typedef struct serve_request serve_request;
/* The tensors of a body, whose first nheader bytes are JSON, and what is asked for; without JSON the body is the only text. NULL and an error. */
serve_request *serve_request_read(const serve_model *, const char *body, size_t n, size_t nheader, bool near, serve_job *into); /* near: from this machine */
void serve_request_free(serve_request *);
const char *serve_request_id(const serve_request *); /* NULL */
/* The answer; nheader: the length of its JSON, 0 when there is nothing else; results for shared memory are there then. 0; -1 and an error. */
int serve_request_answer(const serve_request *, const serve_job *, serve_text *out, size_t *nheader);

/* ---- shared memory: shared.c ---- */

int serve_shared_register(const char *name, const rush_json *how);                     /* 0; -1 and an error */
void serve_shared_unregister(const char *name);                                        /* NULL: all          */
int serve_shared_list(const char *name, serve_text *);                                 /* how many; NULL: of all */
int serve_shared_read(const char *name, uint64_t offset, void *to, uint64_t n);        /* 0; -1 and an error */
int serve_shared_write(const char *name, uint64_t offset, const void *from, uint64_t n);

/* ---- traces: trace.c ---- */

typedef struct serve_moment { const char *name; uint64_t ns; } serve_moment;
void serve_trace_settings(const char *model, serve_text *);              /* model NULL: of all */
int serve_trace_change(const char *model, const rush_json *settings);    /* 0; -1 and an error */
uint64_t serve_trace_begin(const serve_model *);                         /* the number of a request's trace; 0: it has none */
void serve_trace(uint64_t id, const serve_model *, const char *request, const serve_moment *, int n);
void serve_trace_end(void);

/* ---- HTTP: http.c ---- */

struct mg_connection;
int serve_send(struct mg_connection *, int status, const char *type, serve_text *); /* the whole answer; its text is freed. The status */
int serve_send_error(struct mg_connection *, int status, const char *why);           /* in the protocol of the path */
int serve_send_failed(struct mg_connection *);                                       /* the library's error; kinds that are the request's fault are 400 */
int serve_body_read(struct mg_connection *, char **body, size_t *n);                 /* 0; an HTTP status: it was cut short, or there is no room */
const char *serve_body_why(int status);
bool serve_stays(const struct mg_connection *);                                      /* whether another request may come on the connection */
void serve_body_free(char *body, size_t n);
void serve_note(serve_model *, bool well, uint64_t begin); /* a request that is answered */

/* ---- counts and the log: metrics.c ---- */

extern atomic_ullong serve_responses[600]; /* by status */
void serve_count_response(int status);     /* once for each request, the first status counts */
void serve_metrics(serve_text *, int answering, size_t held);
void serve_log(int level, const char *message, void *); /* for rush_log_to() */
int serve_log_change(const rush_json *settings);        /* 0; -1 and an error */
void serve_log_all(void);                               /* as with --log      */
void serve_log_settings(serve_text *);
bool serve_logs_requests(void);
void serve_log_request(const char *method, const char *path, int status, uint64_t ns, const char *from);

/* ---- OpenAI's paths: openai.c ---- */

int serve_openai(struct mg_connection *, char *path, bool post); /* what is behind /v1/; the status that was sent */
void serve_openai_put_error(serve_text *, int status, const char *why);

int serve_http_begin(void);
void serve_http_drain(void); /* tells clients to go, and waits until no request is being answered, or for grace_ms */
void serve_http_end(void);
extern atomic_bool serve_draining;

#endif
