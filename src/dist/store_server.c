/* store_server.c - serves a table to the processes of a job, in the protocol of PyTorch's TCPStore.
 *
 * One thread, one poll(). A message is a byte that says its kind, then fields: integers of 64 bits, texts after their 64-bit
 * length, all in the byte order of the machine. A connection opens with VALIDATE and a magic number. What does not follow the
 * protocol, is larger than the limits or fills the memory closes its connection, and harms no other. A server that was made
 * with a secret answers nothing but greetings before the client has proved that it knows it.
 */
#define _GNU_SOURCE
#include "dist/store_server.h"
#include "dist/secret.h"
#include "dist/socket.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#define MAX_HELD ((size_t)1 << 30) /* bytes in the table, and as many in messages that are not whole yet */

typedef struct buffer {
    char *data;
    size_t n, at, room; /* bytes; those that are done with */
} buffer;

typedef struct guest { /* one connection */
    int fd;
    bool valid, closing, asked, proved;
    uint8_t nonces[2 * RUSH_NONCE]; /* the client's and ours, once it has asked */
    buffer in, out;
    rush_request_kind waits; /* WAIT, BARRIER; else 0 */
    const char **keys;       /* what it waits for */
    int nkeys;
    int64_t size;            /* of a barrier */
} guest;

struct rush_store_server {
    rush_store_server *next; /* of all in this process */
    int listener, port, users, wake, forks;
    char *secret;            /* NULL: none */
    pthread_t thread;
    rush_table *table;
    guest **guests;
    struct pollfd *polls;    /* (nguests + 2) */
    int nguests, room;
    size_t held;             /* bytes in messages of all guests */
};

/* ---- bytes out ---- */

static int buffer_reserve(buffer *b, size_t more)
{
    if (b->at && b->at == b->n) b->at = b->n = 0;
    if (b->n + more <= b->room) return 0;
    if (b->at) {
        memmove(b->data, b->data + b->at, b->n - b->at);
        b->n -= b->at;
        b->at = 0;
    }
    size_t room = RUSH_MAX(b->room, 256);
    while (room < b->n + more) room *= 2;
    char *data = room == b->room ? b->data : rush_realloc(b->data, room);
    if (!data) return -1;
    b->data = data;
    b->room = room;
    return 0;
}

static void flush(guest *g)
{
    while (g->out.at < g->out.n) {
        ssize_t sent = send(g->fd, g->out.data + g->out.at, g->out.n - g->out.at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent > 0) {
            g->out.at += (size_t)sent;
        } else if (errno != EINTR) {
            g->closing |= errno != EAGAIN && errno != EWOULDBLOCK;
            return;
        }
    }
}

static void put(guest *g, const void *data, size_t n)
{
    if (g->closing) return;
    if (g->out.n - g->out.at > MAX_HELD || buffer_reserve(&g->out, n)) { /* it asks, and does not read the answers */
        g->closing = true;
        return;
    }
    if (n) memcpy(g->out.data + g->out.n, data, n);
    g->out.n += n;
}

static void put_number(guest *g, int64_t x) { put(g, &x, sizeof x); }

static void put_bytes(guest *g, rush_bytes *b)
{
    put_number(g, (int64_t)b->n);
    put(g, b->data, b->n);
    rush_bytes_free(b);
}

static void put_byte(guest *g, char c) { put(g, &c, 1); }

/* ---- messages in ---- */

typedef struct reader {
    const char *p;
    size_t left;
    bool short_, bad; /* more bytes are to come; these make no sense */
} reader;

static const void *take(reader *r, size_t n)
{
    if (n > r->left) r->short_ = true;
    if (r->short_ || r->bad) return NULL;
    const void *p = r->p;
    r->p += n;
    r->left -= n;
    return p;
}

static uint64_t take_number(reader *r, uint64_t most)
{
    uint64_t x = 0;
    const void *p = take(r, sizeof x);
    if (p) memcpy(&x, p, sizeof x);
    r->bad |= x > most;
    return r->bad ? 0 : x;
}

static rush_bytes take_bytes(reader *r, size_t most)
{
    size_t n = (size_t)take_number(r, most);
    const void *p = take(r, n);
    return (rush_bytes){(void *)p, p ? n : 0};
}

/* A request with room for its keys: texts with a zero, which lie behind the pointers. */
typedef struct parsed {
    rush_request r;
    rush_bytes *keys, *values; /* (n), within the message */
    const char **names;        /* (n), and their texts    */
} parsed;

static bool parsed_room(parsed *p, uint64_t n)
{
    p->keys = rush_calloc(2 * (n + 1), sizeof *p->keys);
    p->values = p->keys + n + 1;
    p->r.n = (int)n;
    return p->keys;
}

static void parsed_free(parsed *p)
{
    rush_free(p->keys);
    rush_free(p->names);
}

static bool parsed_names(parsed *p)
{
    size_t all = (size_t)p->r.n * sizeof(char *);
    for (int i = 0; i < p->r.n; i++) all += p->keys[i].n + 1;
    p->names = rush_malloc(RUSH_MAX(all, 1));
    char *at = (char *)(p->names + p->r.n);
    for (int i = 0; p->names && i < p->r.n; i++) {
        p->names[i] = memcpy(at, p->keys[i].data, p->keys[i].n);
        at[p->keys[i].n] = 0;
        at += p->keys[i].n + 1;
    }
    p->r.keys = p->names;
    p->r.values = p->values;
    return p->names;
}

static const struct { bool key, many, value, second, number, known; } shape[RUSH_STORE_KINDS] = {
    [RUSH_STORE_SET] = {.key = 1, .value = 1, .known = 1},
    [RUSH_STORE_COMPARE_SET] = {.key = 1, .value = 1, .second = 1, .known = 1},
    [RUSH_STORE_GET] = {.key = 1, .known = 1},
    [RUSH_STORE_ADD] = {.key = 1, .number = 1, .known = 1},
    [RUSH_STORE_CHECK] = {.many = 1, .known = 1},
    [RUSH_STORE_WAIT] = {.many = 1, .known = 1},
    [RUSH_STORE_COUNT] = {.known = 1},
    [RUSH_STORE_DELETE] = {.key = 1, .known = 1},
    [RUSH_STORE_APPEND] = {.key = 1, .value = 1, .known = 1},
    [RUSH_STORE_MULTI_GET] = {.many = 1, .known = 1},
    [RUSH_STORE_MULTI_SET] = {.many = 1, .value = 1, .known = 1},
    [RUSH_STORE_CANCEL_WAIT] = {.known = 1},
    [RUSH_STORE_PUSH] = {.key = 1, .value = 1, .known = 1},
    [RUSH_STORE_POP] = {.key = 1, .known = 1},
    [RUSH_STORE_QUEUED] = {.key = 1, .known = 1},
    [RUSH_STORE_LIST] = {.known = 1},
    [RUSH_STORE_BARRIER] = {.key = 1, .number = 1, .known = 1},
};

/* The fields of a message of that kind. Counts are checked against what has arrived, so a large one takes no memory. */
static void parse(reader *in, parsed *p)
{
    rush_request_kind k = p->r.kind;
    in->bad |= !shape[k].known;
    uint64_t n = shape[k].many ? take_number(in, RUSH_STORE_MAX_KEYS) : shape[k].key;
    if (in->bad || in->short_) return;
    in->short_ |= n * 8 > in->left;
    if (in->short_) return;
    if (!parsed_room(p, n)) {
        in->bad = true;
        return;
    }
    for (uint64_t i = 0; i < n; i++) {
        p->keys[i] = take_bytes(in, RUSH_STORE_MAX_KEY);
        if (shape[k].value) p->values[i] = take_bytes(in, RUSH_STORE_MAX_MESSAGE);
        if (shape[k].second) p->values[i + 1] = take_bytes(in, RUSH_STORE_MAX_MESSAGE);
    }
    const void *amount = shape[k].number ? take(in, 8) : NULL;
    if (amount) memcpy(&p->r.amount, amount, 8);
    if (!in->bad && !in->short_ && !parsed_names(p)) in->bad = true;
}

/* ---- answers ---- */

static void wake_waiters(rush_store_server *s)
{
    for (int i = 0; i < s->nguests; i++) {
        guest *g = s->guests[i];
        if (g->waits != RUSH_STORE_WAIT) continue;
        bool all = true;
        for (int k = 0; k < g->nkeys && all; k++) all = rush_table_has(s->table, g->keys[k]);
        if (!all) continue;
        g->waits = 0;
        put_byte(g, 0);
        flush(g);
    }
}

static void barrier(rush_store_server *s, const char *key, int64_t size)
{
    int64_t here = 0;
    for (int pass = 0; pass < 2; pass++) /* count, then let go */
        for (int i = 0; i < s->nguests; i++) {
            guest *g = s->guests[i];
            if (g->waits != RUSH_STORE_BARRIER || g->closing || strcmp(g->keys[0], key)) continue;
            if (!pass) {
                here++;
            } else if (here >= size) {
                g->waits = 0;
                put_byte(g, 0);
                flush(g);
            }
        }
}

static void begin_wait(rush_store_server *s, guest *g, parsed *p)
{
    rush_free(g->keys);
    g->keys = p->names; /* the guest's from now on */
    p->names = NULL;
    g->nkeys = p->r.n;
    g->waits = p->r.kind;
    g->size = p->r.amount;
    if (g->waits == RUSH_STORE_WAIT) wake_waiters(s);
    else barrier(s, g->keys[0], g->size);
}

static void answer(rush_store_server *s, guest *g, parsed *p)
{
    rush_request *r = &p->r;
    if (r->kind == RUSH_STORE_WAIT || r->kind == RUSH_STORE_BARRIER) return begin_wait(s, g, p);
    if (r->kind == RUSH_STORE_CANCEL_WAIT) {
        g->waits = 0;
        return put_byte(g, 1);
    }
    rush_bytes one = {0};
    rush_bytes *many = r->kind == RUSH_STORE_MULTI_GET ? rush_calloc((size_t)r->n + 1, sizeof *many) : NULL;
    r->answers = many ? many : &one;
    if (rush_table_run(s->table, r)) {
        g->closing = true; /* a GET of nothing, an ADD to what is no number, no memory: the protocol has no word for it */
        rush_free(many);
        return;
    }
    switch (r->kind) {
    case RUSH_STORE_ADD:
    case RUSH_STORE_COUNT:
    case RUSH_STORE_DELETE:
    case RUSH_STORE_QUEUED: put_number(g, r->number); break;
    case RUSH_STORE_CHECK: put_byte(g, !r->number); break;
    case RUSH_STORE_GET:
    case RUSH_STORE_COMPARE_SET: put_bytes(g, &one); break;
    case RUSH_STORE_POP:
        put_number(g, r->number);
        if (r->number) put_bytes(g, &one);
        break;
    case RUSH_STORE_MULTI_GET:
        for (int i = 0; i < r->n; i++) put_bytes(g, &many[i]);
        break;
    case RUSH_STORE_LIST:
        put_number(g, r->nanswers);
        for (int i = 0; i < r->nanswers; i++) put_bytes(g, &r->answers[i]);
        rush_free(r->answers);
        break;
    default: break; /* SET and its like have no answer */
    }
    rush_free(many);
    if (rush_table_bytes(s->table) > MAX_HELD) g->closing = true;
    wake_waiters(s);
}

/* The first message: a magic number. Then PINGs, which have 32 bits. */
static void greet(reader *in, guest *g, int kind)
{
    const void *p = take(in, 4);
    uint32_t x = 0;
    if (!p) return;
    memcpy(&x, p, 4);
    if (kind == RUSH_STORE_PING) put(g, &x, 4);
    else g->valid = x == RUSH_STORE_MAGIC;
    in->bad |= !g->valid;
}

/* The two messages about the secret. */
static void prove(rush_store_server *s, reader *in, guest *g, int kind)
{
    uint8_t proof[RUSH_PROOF], *ours = g->nonces + RUSH_NONCE;
    const uint8_t *p = take(in, kind == RUSH_STORE_ASK ? RUSH_NONCE : RUSH_PROOF);
    in->bad |= !s->secret || g->asked == (kind == RUSH_STORE_ASK) || g->proved;
    if (!p || in->bad) return;
    if (kind == RUSH_STORE_ASK) {
        memcpy(g->nonces, p, RUSH_NONCE);
        in->bad |= getrandom(ours, RUSH_NONCE, 0) != RUSH_NONCE;
        rush_secret_proof(s->secret, 's', g->nonces, ours, proof);
        put(g, ours, RUSH_NONCE);
        put(g, proof, RUSH_PROOF);
        g->asked = true;
    } else {
        rush_secret_proof(s->secret, 'c', g->nonces, ours, proof);
        g->proved = rush_secret_equal(p, proof);
        in->bad |= !g->proved;
        if (g->proved) put_byte(g, 0);
    }
}

/* Answers the messages that are whole. */
static void read_messages(rush_store_server *s, guest *g)
{
    while (!g->closing && g->in.at < g->in.n) {
        reader in = {g->in.data + g->in.at, g->in.n - g->in.at, false, false};
        int kind = (unsigned char)*(const char *)take(&in, 1);
        parsed p = {.r = {.kind = kind}};
        bool greeting = kind == RUSH_STORE_VALIDATE || kind == RUSH_STORE_PING, proving = kind == RUSH_STORE_ASK || kind == RUSH_STORE_PROVE;
        in.bad |= (kind >= RUSH_STORE_KINDS && !proving) || (!g->valid && kind != RUSH_STORE_VALIDATE) || (g->waits && kind != RUSH_STORE_CANCEL_WAIT);
        in.bad |= s->secret && !g->proved && !greeting && !proving;
        if (!in.bad && greeting) greet(&in, g, kind);
        else if (!in.bad && proving) prove(s, &in, g, kind);
        else if (!in.bad) parse(&in, &p);
        if (!in.bad && !in.short_ && !greeting && !proving) answer(s, g, &p);
        parsed_free(&p);
        g->closing |= in.bad || (in.short_ && g->in.n - g->in.at > RUSH_STORE_MAX_MESSAGE);
        if (in.short_) break;
        g->in.at = g->in.n - in.left;
    }
    flush(g);
}

static void receive(rush_store_server *s, guest *g)
{
    size_t before = g->in.room;
    if (buffer_reserve(&g->in, 1 << 14)) {
        g->closing = true;
        return;
    }
    s->held += g->in.room - before;
    ssize_t got = recv(g->fd, g->in.data + g->in.n, g->in.room - g->in.n, MSG_DONTWAIT);
    if (got > 0) {
        g->in.n += (size_t)got;
        read_messages(s, g);
    } else if (!got || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
        g->closing = true;
    }
    if (g->in.at == g->in.n && g->in.room > 1 << 16) { /* after a large message */
        s->held -= g->in.room;
        rush_free(g->in.data);
        g->in = (buffer){0};
    }
    g->closing |= s->held > MAX_HELD;
}

/* ---- guests ---- */

static void guest_free(rush_store_server *s, guest *g)
{
    s->held -= g->in.room;
    close(g->fd);
    rush_free(g->in.data);
    rush_free(g->out.data);
    rush_free(g->keys);
    rush_free(g);
}

static void welcome(rush_store_server *s)
{
    int fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) rush_nap(0.01);
        return;
    }
    rush_socket_tune(fd);
    if (s->nguests == s->room) {
        int room = s->room ? 2 * s->room : 16;
        guest **guests = rush_realloc(s->guests, (size_t)room * sizeof *guests);
        if (guests) s->guests = guests;
        struct pollfd *polls = guests ? rush_realloc(s->polls, ((size_t)room + 2) * sizeof *polls) : NULL;
        if (polls) s->polls = polls, s->room = room;
    }
    guest *g = s->nguests < s->room ? rush_calloc(1, sizeof *g) : NULL;
    if (!g) {
        close(fd);
        return;
    }
    g->fd = fd;
    s->guests[s->nguests++] = g;
}

static void *serve(void *arg)
{
    rush_store_server *s = arg;
    for (;;) {
        int n = s->nguests;
        s->polls[0] = (struct pollfd){.fd = s->wake, .events = POLLIN};
        s->polls[1] = (struct pollfd){.fd = s->listener, .events = POLLIN};
        for (int i = 0; i < n; i++)
            s->polls[i + 2] = (struct pollfd){.fd = s->guests[i]->fd, .events = POLLIN | (s->guests[i]->out.at < s->guests[i]->out.n ? POLLOUT : 0)};
        if (poll(s->polls, (nfds_t)n + 2, -1) < 0) continue;
        if (s->polls[0].revents) return NULL;
        for (int i = 0; i < n; i++) {
            guest *g = s->guests[i];
            if (s->polls[i + 2].revents & POLLOUT) flush(g);
            if (s->polls[i + 2].revents & ~POLLOUT) receive(s, g);
            rush_error_clear(); /* the connection is closed for it, and that is all */
        }
        for (int i = s->nguests - 1; i >= 0; i--)
            if (s->guests[i]->closing) {
                guest_free(s, s->guests[i]);
                s->guests[i] = s->guests[--s->nguests];
            }
        if (s->polls[1].revents) welcome(s);
        rush_error_clear();
    }
}

/* ---- all of this process ---- */

static rush_store_server *all_servers;
static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;

rush_store_server *rush_store_server_at(int port)
{
    pthread_mutex_lock(&all_lock);
    rush_store_server *s = all_servers;
    while (s && (s->port != port || s->forks != rush_forks())) s = s->next;
    if (s) s->users++;
    pthread_mutex_unlock(&all_lock);
    return s;
}

static rush_store_server *begins(rush_store_server *s)
{
    s->forks = rush_forks();
    pthread_mutex_lock(&all_lock);
    s->next = all_servers;
    all_servers = s;
    pthread_mutex_unlock(&all_lock);
    return s;
}

/* Was that its last user? Then it is no longer among all. */
static bool ends(rush_store_server *s)
{
    pthread_mutex_lock(&all_lock);
    bool last = !--s->users;
    for (rush_store_server **at = &all_servers; last && *at; at = &(*at)->next)
        if (*at == s) {
            *at = s->next;
            break;
        }
    pthread_mutex_unlock(&all_lock);
    return last;
}

rush_store_server *rush_store_server_new(int listener, int port)
{
    rush_store_server *s = rush_calloc(1, sizeof *s);
    if (!s) return close(listener), NULL;
    s->listener = listener;
    s->port = port;
    s->users = 1;
    s->forks = -1; /* no thread yet */
    s->wake = eventfd(0, EFD_CLOEXEC);
    s->table = rush_table_new();
    if (rush_secret() && !(s->secret = strdup(rush_secret()))) rush_fail(RUSH_MEMORY_ERROR, "not enough memory");
    s->polls = rush_calloc(2, sizeof *s->polls);
    if (s->wake < 0) rush_fail(RUSH_DIST_NETWORK_ERROR, "eventfd: %s", strerror(errno));
    int code = rush_failed() ? 0 : pthread_create(&s->thread, NULL, serve, s);
    if (code) rush_fail(RUSH_DIST_STORE_ERROR, "no thread for the store's server: %s", strerror(code));
    if (!rush_failed()) return begins(s);
    rush_store_server_free(s);
    return NULL;
}

void rush_store_server_free(rush_store_server *s)
{
    if (!s || !ends(s)) return;
    if (s->forks == rush_forks()) { /* in a forked child there is no thread to end */
        uint64_t one = 1;
        while (write(s->wake, &one, sizeof one) < 0 && errno == EINTR) { }
        pthread_join(s->thread, NULL);
    }
    for (int i = 0; i < s->nguests; i++) guest_free(s, s->guests[i]);
    if (s->wake >= 0) close(s->wake);
    close(s->listener);
    rush_table_free(s->table);
    free(s->secret);
    rush_free(s->guests);
    rush_free(s->polls);
    rush_free(s);
}
