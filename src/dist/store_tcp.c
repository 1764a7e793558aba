/* store_tcp.c - a client of a TCP store, and in one process its server: store_server.c.
 *
 * One connection, one request at a time. A wait holds the connection only as long as no other thread wants it: then it is
 * cancelled and taken up again. So it is every second, too, as only the answer shows that the server is alive. After a failure
 * or an interruption the next request connects anew.
 */
#define _GNU_SOURCE
#include "base/buried.h"
#include "dist/secret.h"
#include "dist/socket.h"
#include "dist/store_server.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define BEAT 1.0 /* seconds between two questions to a server that is waited for */

static const char INIT[] = "init/"; /* the clients' own key, which counts them: without the stroke before it */

typedef struct tcp_store {
    rush_store s;
    char *host;
    int port, fd, forks;
    rush_store_server *server;
    pthread_mutex_t lock;
    atomic_int queue; /* threads that want the connection */
} tcp_store;

/* ---- a message ---- */

typedef struct message {
    char *data;
    size_t n, room;
} message;

static int put(message *m, const void *data, size_t n)
{
    if (m->n + n > m->room) {
        size_t room = 2 * (m->n + n) + 64;
        char *p = rush_realloc(m->data, room);
        if (!p) return -1;
        m->data = p;
        m->room = room;
    }
    if (n) memcpy(m->data + m->n, data, n);
    m->n += n;
    return 0;
}

static int put_number(message *m, int64_t x) { return put(m, &x, sizeof x); }
static int put_bytes(message *m, const void *p, size_t n) { return put_number(m, (int64_t)n) || put(m, p, n) ? -1 : 0; }

static int put_key(message *m, const char *key)
{
    size_t n = strlen(key), stroke = key != INIT;
    RUSH_CHECK(n < RUSH_STORE_MAX_KEY, RUSH_DIST_STORE_ERROR, "a key of %zu bytes", n);
    return put_number(m, (int64_t)(n + stroke)) || put(m, "/", stroke) || put(m, key, n) ? -1 : 0;
}

static int encode(message *m, const rush_request *r)
{
    bool many = r->kind == RUSH_STORE_CHECK || r->kind == RUSH_STORE_WAIT || r->kind == RUSH_STORE_MULTI_GET || r->kind == RUSH_STORE_MULTI_SET;
    bool value = r->kind == RUSH_STORE_SET || r->kind == RUSH_STORE_APPEND || r->kind == RUSH_STORE_MULTI_SET ||
                 r->kind == RUSH_STORE_PUSH || r->kind == RUSH_STORE_COMPARE_SET;
    RUSH_CHECK(r->n <= RUSH_STORE_MAX_KEYS, RUSH_DIST_STORE_ERROR, "%d keys in one request", r->n);
    if (put(m, &(uint8_t){(uint8_t)r->kind}, 1) || (many && put_number(m, r->n))) return -1;
    for (int i = 0; i < r->n; i++)
        if (put_key(m, r->keys[i]) || (value && put_bytes(m, r->values[i].data, r->values[i].n))) return -1;
    if (r->kind == RUSH_STORE_COMPARE_SET && put_bytes(m, r->values[1].data, r->values[1].n)) return -1;
    if ((r->kind == RUSH_STORE_ADD || r->kind == RUSH_STORE_BARRIER) && put_number(m, r->amount)) return -1;
    RUSH_CHECK(m->n <= RUSH_STORE_MAX_MESSAGE, RUSH_DIST_STORE_ERROR, "a request of %zu bytes", m->n);
    return 0;
}

static int receive_bytes(int fd, rush_bytes *b, double until)
{
    uint64_t n;
    if (rush_socket_receive(fd, &n, sizeof n, until)) return -1;
    RUSH_CHECK(n <= RUSH_STORE_MAX_MESSAGE, RUSH_DIST_NETWORK_ERROR, "an answer of %llu bytes", (unsigned long long)n);
    char *p = rush_malloc((size_t)n + 1);
    if (!p) return -1;
    if (rush_socket_receive(fd, p, (size_t)n, until)) return rush_free(p), -1;
    p[n] = 0;
    *b = (rush_bytes){p, (size_t)n};
    return 0;
}

/* All of them, or none. */
static int receive_all(int fd, rush_bytes *b, int n, double until)
{
    for (int i = 0; i < n; i++)
        if (receive_bytes(fd, &b[i], until)) {
            while (i--) rush_bytes_free(&b[i]);
            return -1;
        }
    return 0;
}

static int receive_list(int fd, rush_request *r, double until)
{
    int64_t n;
    if (rush_socket_receive(fd, &n, sizeof n, until)) return -1;
    RUSH_CHECK(n >= 0 && n <= 1 << 26, RUSH_DIST_NETWORK_ERROR, "an answer of %lld keys", (long long)n);
    r->answers = rush_calloc((size_t)n + 1, sizeof *r->answers);
    if (!r->answers || receive_all(fd, r->answers, (int)n, until)) {
        rush_free(r->answers);
        r->answers = NULL;
        return -1;
    }
    r->nanswers = 0;
    for (int i = 0; i < n; i++) { /* those with a stroke, without it */
        rush_bytes *key = &r->answers[i];
        if (*(char *)key->data != '/') {
            rush_bytes_free(key);
            continue;
        }
        memmove(key->data, (char *)key->data + 1, key->n--);
        r->answers[r->nanswers++] = *key;
    }
    return 0;
}

static int receive_answer(int fd, rush_request *r, double until)
{
    uint8_t byte;
    switch (r->kind) {
    case RUSH_STORE_GET:
    case RUSH_STORE_COMPARE_SET: return receive_bytes(fd, r->answers, until);
    case RUSH_STORE_MULTI_GET: return receive_all(fd, r->answers, r->n, until);
    case RUSH_STORE_LIST: return receive_list(fd, r, until);
    case RUSH_STORE_ADD:
    case RUSH_STORE_COUNT:
    case RUSH_STORE_DELETE:
    case RUSH_STORE_QUEUED: return rush_socket_receive(fd, &r->number, 8, until);
    case RUSH_STORE_POP:
        if (rush_socket_receive(fd, &r->number, 8, until)) return -1;
        return r->number ? receive_bytes(fd, r->answers, until) : 0;
    case RUSH_STORE_CHECK:
        if (rush_socket_receive(fd, &byte, 1, until)) return -1;
        r->number = !byte;
        return 0;
    default: return 0;
    }
}

/* ---- the connection ---- */

/* Says which store an error of the network is about. */
static int tell_where(tcp_store *t)
{
    if (rush_error_kind_now() != RUSH_DIST_NETWORK_ERROR) return -1;
    if (strncmp(rush_error(), "the store at", 12)) rush_error_in("the store at (%s, %d)", t->host, t->port);
    return -1;
}

/* Both sides show that they know the job's secret. */
static int prove(tcp_store *t, int fd, const char *secret, double until)
{
    uint8_t ask[1 + RUSH_NONCE] = {RUSH_STORE_ASK}, answer[RUSH_NONCE + RUSH_PROOF], mine[1 + RUSH_PROOF] = {RUSH_STORE_PROVE}, proof[RUSH_PROOF], good = 1;
    RUSH_CHECK(getrandom(ask + 1, RUSH_NONCE, 0) == RUSH_NONCE, RUSH_DIST_NETWORK_ERROR, "getrandom: %s", strerror(errno));
    int failed = rush_socket_send(fd, ask, sizeof ask, until) || rush_socket_receive(fd, answer, sizeof answer, until);
    if (!failed) {
        rush_secret_proof(secret, 's', ask + 1, answer, proof);
        if (!rush_secret_equal(proof, answer + RUSH_NONCE)) return rush_fail(RUSH_DIST_NETWORK_ERROR, "the store at (%s, %d) has another secret than this process "
                                                                                                       "(RUSHLIGHT_STORE_SECRET)", t->host, t->port);
        rush_secret_proof(secret, 'c', ask + 1, answer, mine + 1);
        failed = rush_socket_send(fd, mine, sizeof mine, until) || rush_socket_receive(fd, &good, 1, until);
    }
    if (failed && rush_error_kind_now() == RUSH_DIST_NETWORK_ERROR) {
        rush_error_clear();
        rush_fail(RUSH_DIST_NETWORK_ERROR, "the store at (%s, %d) does not take the secret that this process has (RUSHLIGHT_STORE_SECRET): it has another one, or none",
                  t->host, t->port);
    }
    return failed ? -1 : 0;
}

/* The server answers at once, or is no more: until an answer begins to come; -1 and an error where there is none. */
static int await_answer(tcp_store *t, int fd, double until)
{
    double silence = rush_silence(), now = rush_seconds(), patience = silence > 0 ? RUSH_MIN(silence, until - now) : until - now;
    int ready = rush_socket_wait(fd, POLLIN, now + patience);
    if (!ready) rush_fail(RUSH_DIST_NETWORK_ERROR, "the store at (%s, %d): its server is silent for %.1f s: it is stopped, or its machine is gone", t->host, t->port, patience);
    return ready > 0 ? 0 : -1;
}

static int connect_now(tcp_store *t, double seconds)
{
    double until = rush_seconds() + seconds;
    const char *host = t->server && !*t->host ? "localhost" : t->host;
    int fd = rush_socket_connect(host, t->port, seconds, false);
    if (fd < 0) return -1;
    uint32_t magic = RUSH_STORE_MAGIC, nonce = (uint32_t)getpid(), back = 0;
    char hello[10] = {RUSH_STORE_VALIDATE};
    memcpy(hello + 1, &magic, 4);
    hello[5] = RUSH_STORE_PING;
    memcpy(hello + 6, &nonce, 4);
    int failed = rush_socket_send(fd, hello, sizeof hello, until) || await_answer(t, fd, until) || rush_socket_receive(fd, &back, 4, until);
    if (!failed && back != nonce) failed = rush_fail(RUSH_DIST_NETWORK_ERROR, "what listens at (%s, %d) is no store", host, t->port);
    if (!failed && rush_secret()) failed = prove(t, fd, rush_secret(), until);
    if (failed) return close(fd), tell_where(t);
    t->fd = fd;
    t->forks = rush_forks();
    return 0;
}

static void hang_up(tcp_store *t)
{
    if (t->fd >= 0) close(t->fd);
    t->fd = -1;
}

static void enter(tcp_store *t)
{
    atomic_fetch_add(&t->queue, 1);
    pthread_mutex_lock(&t->lock);
    atomic_fetch_sub(&t->queue, 1);
}

/* Sends a request and takes its answer; the lock is held. A connection that failed is given up. */
static int exchange(tcp_store *t, rush_request *r, const message *m)
{
    double until = rush_seconds() + t->s.timeout;
    if (t->fd >= 0 && t->forks != rush_forks()) hang_up(t); /* it is the parent's */
    if (t->fd < 0 && connect_now(t, t->s.timeout)) return -1;
    bool silent = r->kind == RUSH_STORE_SET || r->kind == RUSH_STORE_APPEND || r->kind == RUSH_STORE_MULTI_SET || r->kind == RUSH_STORE_PUSH ||
                  r->kind == RUSH_STORE_WAIT || r->kind == RUSH_STORE_BARRIER; /* no answer, or not at once */
    if (!rush_socket_send(t->fd, m->data, m->n, until) && (silent || (!await_answer(t, t->fd, until) && !receive_answer(t->fd, r, until)))) return 0;
    hang_up(t);
    return -1;
}

/* Ends a wait. What the server says: 0: the wait was over; 1: it is cancelled; -1 and an error. */
static int cancel_wait(tcp_store *t)
{
    uint8_t byte = RUSH_STORE_CANCEL_WAIT;
    double until = rush_seconds() + t->s.timeout;
    if (rush_socket_send(t->fd, &byte, 1, until) || await_answer(t, t->fd, until) || rush_socket_receive(t->fd, &byte, 1, until)) return -1;
    if (byte) return 1;
    return rush_socket_receive(t->fd, &byte, 1, until); /* the answer came while we cancelled, and the other one follows */
}

/* A turn of a wait: until the answer, the end, or another thread that wants the connection. 1: done; 0; -1 and an error. */
static int wait_turn(tcp_store *t, rush_request *r, const message *m, double until)
{
    uint8_t byte = 0;
    if (exchange(t, r, m)) return -1;
    bool once = r->kind == RUSH_STORE_BARRIER; /* the server counts who comes */
    double end = once ? until : RUSH_MIN(until, rush_seconds() + BEAT);
    int ready;
    do ready = rush_socket_wait(t->fd, POLLIN, RUSH_MIN(end, rush_seconds() + 0.02));
    while (!ready && (once || !atomic_load(&t->queue)) && rush_seconds() < end);
    int still = ready < 0 ? -1 : !ready ? cancel_wait(t) : rush_socket_receive(t->fd, &byte, 1, rush_seconds() + t->s.timeout) ? -1 : byte;
    if (still >= 0) return !still;
    hang_up(t);
    return -1;
}

static int late(const rush_request *r)
{
    size_t n = 1;
    for (int i = 0; i < r->n; i++) n += strlen(r->keys[i]) + 3;
    char *text = rush_malloc(n), *at = text;
    if (!text) return -1;
    const char *stroke = r->kind == RUSH_STORE_WAIT ? "/" : "";
    for (int i = 0; i < r->n; i++) at += sprintf(at, "%s%s%s", i ? ", " : "", stroke, r->keys[i]);
    rush_fail(RUSH_DIST_STORE_ERROR, r->kind == RUSH_STORE_WAIT ? "wait timeout after %.0fms, keys: %.4000s" : "barrier timeout after %.0fms, key: %.4000s",
              r->seconds * 1000, text);
    rush_free(text);
    return -1;
}

static int wait_for(tcp_store *t, rush_request *r, const message *m)
{
    double until = rush_seconds() + r->seconds;
    for (;;) {
        enter(t);
        int done = wait_turn(t, r, m, until);
        pthread_mutex_unlock(&t->lock);
        if (done) return done < 0 ? -1 : 0;
        if (rush_seconds() >= until) return late(r);
        while (atomic_load(&t->queue)) rush_nap(0.0005); /* those who want the connection go first */
    }
}

static int tcp_run(rush_store *s, rush_request *r)
{
    tcp_store *t = (tcp_store *)s;
    message m = {0};
    int failed = encode(&m, r);
    if (!failed && (r->kind == RUSH_STORE_WAIT || r->kind == RUSH_STORE_BARRIER)) {
        failed = wait_for(t, r, &m);
    } else if (!failed) {
        enter(t);
        failed = exchange(t, r, &m);
        pthread_mutex_unlock(&t->lock);
    }
    rush_free(m.data);
    return failed ? tell_where(t) : 0;
}

static void tcp_end(rush_store *s)
{
    tcp_store *t = (tcp_store *)s;
    hang_up(t);
    rush_store_server_free(t->server);
    pthread_mutex_destroy(&t->lock);
    rush_free(t->host);
}

static tcp_store *tcp_new(const char *host, int port, double timeout)
{
    rush_bytes text;
    if (rush_failed() || rush_bytes_copy(&text, host ? host : "", host ? strlen(host) : 0)) return NULL;
    tcp_store *t = rush_store_new(&rush_store_tcp_kind, sizeof *t);
    if (!t) return rush_bytes_free(&text), NULL;
    t->host = text.data;
    t->port = port;
    t->fd = -1;
    t->s.timeout = timeout;
    pthread_mutex_init(&t->lock, NULL);
    return t;
}

static rush_store *tcp_clone(rush_store *s)
{
    tcp_store *t = (tcp_store *)s, *made = tcp_new(*t->host ? t->host : "localhost", t->port, s->timeout);
    if (!made || !connect_now(made, s->timeout)) return made ? &made->s : NULL;
    rush_store_drop(&made->s);
    return NULL;
}

const rush_store_kind rush_store_tcp_kind = {.name = "TCPStore", .run = tcp_run, .end = tcp_end, .clone = tcp_clone};

static int wait_for_clients(tcp_store *t, int world_size)
{
    double until = rush_seconds() + t->s.timeout, turn;
    for (int64_t here;;) {
        if (rush_store_add(&t->s, INIT, 0, &here)) return -1;
        if (here >= world_size) return 0;
        if (rush_wait_turn(until, &turn)) return -1;
        RUSH_CHECK(turn, RUSH_DIST_STORE_ERROR, "Timed out after %.0f seconds waiting for clients. %lld/%d clients joined.", t->s.timeout,
                   (long long)here, world_size);
        rush_nap(RUSH_MIN(turn, 0.01));
    }
}

rush_store *rush_store_tcp_with(const char *host, int port, const rush_store_tcp_options *o)
{
    if (rush_failed()) return NULL;
    RUSH_CHECK_NULL(host, RUSH_TYPE_ERROR, "a TCP store needs a host");
    o = RUSH_OPTIONS(o);
    tcp_store *t = tcp_new(host, port, o->timeout > 0 ? o->timeout : 300);
    if (!t) return NULL;
    int failed = port < 0 || port > 65535 ? rush_fail(RUSH_VALUE_ERROR, "port %d is not between 0 and 65535", port) : 0;
    if (!failed && o->share && o->server) t->server = rush_store_server_at(port);
    if (!failed && o->server && !t->server) {
        int listener = o->listen_fd > 0 ? o->listen_fd : rush_socket_listen(host, port, &t->port);
        failed = listener < 0 || !(t->server = rush_store_server_new(listener, t->port));
    }
    failed = failed || connect_now(t, t->s.timeout) || rush_store_add(&t->s, INIT, 1, NULL);
    if (!failed && o->server && o->wait && o->world_size > 0) failed = wait_for_clients(t, o->world_size);
    if (!failed) return &t->s;
    rush_store_drop(&t->s);
    return NULL;
}

int rush_store_port(const rush_store *s)
{
    return rush_lives(s, "a store") && s->kind == &rush_store_tcp_kind ? ((const tcp_store *)s)->port : -1;
}

const char *rush_store_host(const rush_store *s)
{
    return s->kind == &rush_store_tcp_kind ? ((const tcp_store *)s)->host : NULL;
}
