/* mesh.c - messages between the ranks of a group: rows of frames over one connection per pair of ranks.
 *
 * A thread of the mesh reads, writes what did not fit into the sockets at once, and watches: a connection that ends without a
 * goodbye is a death, and so is silence of several seconds while somebody waits. Both break the mesh: every wait ends with an
 * error that says who is gone. What two ranks of ours tell each other beyond gloo's frames is in enum opcode of frames.h.
 *
 * All fields are under the mesh's lock. The thread polls without it. Frames are in frames.c.
 */
#define _GNU_SOURCE
#include "dist/frames.h"
#include "dist/socket.h"
#include "base/text.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define BEAT 0.5 /* seconds between two signs of life */

/* Those of this process, so that one that ends says goodbye. */
static rush_mesh *all_meshes;
static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;

void rush_mesh_poke(rush_mesh *m)
{
    uint64_t one = 1;
    while (write(m->wake, &one, sizeof one) < 0 && errno == EINTR) { }
}

/* Called without the lock. */
static void release_landed(rush_mesh *m)
{
    pthread_mutex_lock(&m->lock);
    rush_mesh_buffer *list = m->landed;
    m->landed = NULL;
    pthread_mutex_unlock(&m->lock);
    for (rush_mesh_buffer *b = list, *next; b; b = next) {
        next = b->next;
        b->release(b->arg);
        pthread_mutex_lock(&m->lock);
        b->landing = false;
        bool last = !b->held && !b->flying;
        pthread_mutex_unlock(&m->lock);
        if (last) rush_free(b);
    }
}

const char *rush_mesh_name_of(rush_mesh *m, int rank)
{
    char *words = rush_words();
    snprintf(words, RUSH_WORDS, "rank %d on host %.60s", rank, m->peers[rank].host ? m->peers[rank].host : "?");
    return words;
}

/* ---- breaking ---- */

static char no_memory[] = "not enough memory";

static void RUSH_PRINTF(3, 0) break_with(rush_mesh *m, bool tell, const char *format, va_list args)
{
    if (m->broken) return;
    char *why = NULL;
    m->broken = rush_vasprintf(&why, format, args) < 0 ? no_memory : why;
    for (int i = 0; m->peers && i < m->size; i++) {
        rush_peer *q = &m->peers[i];
        if (q->into) rush_part_unref(q->into);
        q->into = NULL;
        rush_part_list_free(&q->sends);
        rush_part_list_free(&q->receives);
        if (q->fd >= 0) {
            if (tell && q->ours && (!q->out || !q->out->done)) { /* not into the midst of another frame */
                rush_frames_free(q);
                char *text = strdup(m->broken);
                if (text) rush_frame_push(m, q, FAIL, 0, strlen(text), NULL, text, text);
            }
            shutdown(q->fd, SHUT_RDWR);
        }
        rush_frames_free(q);
    }
    rush_part_list_free(&m->any);
    pthread_cond_broadcast(&m->changed);
    rush_mesh_poke(m);
}

void rush_mesh_break_locked(rush_mesh *m, bool tell, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    break_with(m, tell, format, args);
    va_end(args);
}

void rush_mesh_break(rush_mesh *m, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    pthread_mutex_lock(&m->lock);
    break_with(m, true, format, args);
    pthread_mutex_unlock(&m->lock);
    va_end(args);
}

static int fail_broken(rush_mesh *m)
{
    return rush_fail(RUSH_DIST_BACKEND_ERROR, "%s", m->broken);
}

/* Without memory a mesh cannot go on: its ranks would no longer agree. */
int rush_mesh_out_of_memory(rush_mesh *m)
{
    rush_error_clear();
    rush_mesh_break_locked(m, true, "rank %d has not enough memory", m->rank);
    return fail_broken(m);
}

bool rush_mesh_broken(rush_mesh *m)
{
    pthread_mutex_lock(&m->lock);
    bool broken = m->broken;
    pthread_mutex_unlock(&m->lock);
    return broken;
}

/* Do both ranks do the same as their collective number `number`? */
void rush_mesh_compare(rush_mesh *m, int64_t number, const char *mine, int rank, const char *its)
{
    size_t n = strcspn(mine, "["); /* shapes may differ where the numbers do not */
    if (n == strcspn(its, "[") && !strncmp(mine, its, n)) return;
    rush_mesh_break_locked(m, true, "the ranks do not agree: as collective %lld rank %d called %s, and %s called %s", (long long)number, m->rank, mine,
                 rush_mesh_name_of(m, rank), its);
}

int rush_mesh_same(rush_mesh *m, int ago, const char *mine, int rank, const char *its)
{
    if (!strcmp(mine, its)) return 0;
    pthread_mutex_lock(&m->lock);
    rush_mesh_compare(m, m->number - ago, mine, rank, its);
    int failed = m->broken ? fail_broken(m) : 0;
    pthread_mutex_unlock(&m->lock);
    return failed;
}

int rush_mesh_fail_history(rush_mesh *m, int rank)
{
    rush_mesh_break(m, "the ranks do not agree: before collective %lld rank %d and %s called different ones", (long long)m->number, m->rank, rush_mesh_name_of(m, rank));
    return rush_mesh_fail_gone(m, rank);
}

/* ---- who is gone ---- */

/* Waits anything for that rank? A rank that has left on purpose harms only those. */
static bool is_needed(rush_mesh *m, int rank)
{
    rush_peer *q = &m->peers[rank];
    if (q->sends || q->receives || q->into || (q->out && q->out->b)) return true;
    if (m->number > q->reached && q->left) return true; /* and is in a collective that the other never begins */
    for (rush_part *p = m->any; p; p = p->next) {
        bool others = false;
        for (int i = 0; i < p->nfrom; i++) others |= !m->peers[p->from[i]].gone && p->from[i] != rank;
        if (!others) return true;
    }
    return false;
}

/* "; it had begun collective 4", where that is known. */
static const char *how_far(rush_mesh *m, int rank)
{
    char *words = rush_words();
    int64_t n = m->peers[rank].reached;
    words[0] = 0;
    if (n >= 0) snprintf(words, RUSH_WORDS, "; it had begun collective %lld", (long long)n);
    return words;
}

void rush_mesh_lost(rush_mesh *m, int rank, const char *why)
{
    rush_peer *q = &m->peers[rank];
    bool died = !q->left && q->ours; /* who does not say goodbye */
    q->gone = !died || m->leaving;
    pthread_cond_broadcast(&m->changed);
    if (m->leaving || (!died && !is_needed(m, rank))) return;
    if (q->left) rush_mesh_break_locked(m, true, "%s has left the group after its collective %lld", rush_mesh_name_of(m, rank), (long long)q->reached);
    else rush_mesh_break_locked(m, true, "%s is gone: %s%s", rush_mesh_name_of(m, rank), why, how_far(m, rank));
}

/* Every half second: say that this rank is alive, and look who is silent. */
static void watch(rush_mesh *m, double now, bool slept)
{
    for (int i = 0; i < m->size && !m->broken; i++) {
        rush_peer *q = &m->peers[i];
        if (i == m->rank || !q->ours || q->gone) continue;
        if (slept) q->heard = now; /* it was us who were stopped */
        if (!q->out && !m->leaving) rush_frame_push(m, q, ALIVE, (uint64_t)m->number, 0, NULL, NULL, NULL);
        if (m->broken || !m->waiting || !m->patience || now - q->heard < m->patience) continue;
        rush_mesh_break_locked(m, true, "%s is silent for %.1f s: it is stopped, or its machine is gone%s", rush_mesh_name_of(m, i), now - q->heard, how_far(m, i));
    }
}

static void *run(void *arg)
{
    rush_mesh *m = arg;
    double last = rush_seconds();
    pthread_mutex_lock(&m->lock);
    while (!m->stop) {
        nfds_t n = 0;
        m->polls[n++] = (struct pollfd){.fd = m->wake, .events = POLLIN};
        for (int i = 0; i < m->size; i++) {
            rush_peer *q = &m->peers[i];
            bool on = i != m->rank && !q->gone && !m->broken;
            m->polls[n++] = (struct pollfd){.fd = on ? q->fd : -1, .events = POLLIN | (q->out ? POLLOUT : 0)};
        }
        pthread_mutex_unlock(&m->lock);
        poll(m->polls, n, (int)(BEAT * 1000));
        pthread_mutex_lock(&m->lock);
        if (m->polls[0].revents) (void)!read(m->wake, &(uint64_t){0}, 8);
        for (int i = 0; i < m->size && !m->broken; i++) {
            short came = m->polls[i + 1].fd >= 0 ? m->polls[i + 1].revents : 0;
            if (came & POLLOUT) rush_frames_write(m, &m->peers[i], i);
            if (came & ~POLLOUT) rush_frames_read(m, &m->peers[i], i);
        }
        double now = rush_seconds();
        if (now - last >= BEAT) {
            watch(m, now, now - last > 2);
            last = now;
        }
        rush_error_clear();
    }
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

/* ---- messages ---- */

rush_mesh_buffer *rush_mesh_buffer_new(rush_mesh *m, void *data, size_t n, void (*release)(void *), void *arg)
{
    rush_mesh_buffer *b = rush_calloc(1, sizeof *b);
    if (!b) return NULL;
    *b = (rush_mesh_buffer){.mesh = m, .data = data, .n = n, .held = true, .release = release, .arg = arg};
    return b;
}

void rush_mesh_buffer_drop(rush_mesh_buffer *b)
{
    rush_mesh *m = b->mesh;
    pthread_mutex_lock(&m->lock);
    if (b->flying && !b->release) /* its bytes are going away under a message */
        rush_mesh_break_locked(m, true, "rank %d gave up a call that was on its way", m->rank);
    b->held = false;
    bool last = !b->flying && !b->landing;
    pthread_mutex_unlock(&m->lock);
    if (last) rush_free(b);
}

static int check_part(rush_mesh_buffer *b, size_t offset, size_t n)
{
    RUSH_CHECK(offset <= b->n && n <= b->n - offset, RUSH_VALUE_ERROR, "a message of %zu bytes at %zu of %zu", n, offset, b->n);
    return b->mesh->broken ? fail_broken(b->mesh) : 0;
}

static int fail_gone(rush_mesh *m, int rank)
{
    rush_peer *q = &m->peers[rank];
    if (q->left) rush_mesh_break_locked(m, true, "%s has left the group after its collective %lld", rush_mesh_name_of(m, rank), (long long)q->reached);
    else rush_mesh_break_locked(m, true, "%s is gone", rush_mesh_name_of(m, rank));
    return fail_broken(m);
}

static int send_locked(rush_mesh_buffer *b, int to, uint64_t slot, size_t offset, size_t n)
{
    rush_mesh *m = b->mesh;
    rush_peer *q = &m->peers[to];
    if (check_part(b, offset, n)) return -1;
    if (q->gone) return fail_gone(m, to);
    rush_part *p = rush_part_new(b, slot, offset, n);
    if (!p) return rush_mesh_out_of_memory(m);
    rush_frame_push(m, q, SEND_READY, slot, n, NULL, NULL, NULL);
    if (m->broken) return rush_part_free(p), fail_broken(m);
    if (rush_tally_take(&q->can_receive, slot)) rush_frame_push_data(m, q, p);
    else rush_part_append(&q->sends, p);
    return m->broken ? fail_broken(m) : 0;
}

int rush_mesh_send(rush_mesh_buffer *b, int to, uint64_t slot, size_t offset, size_t n)
{
    pthread_mutex_lock(&b->mesh->lock);
    b->flying++; /* so that it is released, too, where nothing could be sent */
    int failed = send_locked(b, to, slot, offset, n);
    rush_part_unref(b);
    pthread_mutex_unlock(&b->mesh->lock);
    return failed;
}

static int receive_locked(rush_mesh_buffer *b, int nfrom, const int *from, uint64_t slot, size_t offset, size_t n)
{
    rush_mesh *m = b->mesh;
    if (check_part(b, offset, n)) return -1;
    int rank = nfrom == 1 ? from[0] : -1, alive = 0;
    for (int i = 0; i < nfrom; i++) {
        rush_peer *q = &m->peers[from[i]];
        if (rank < 0 && !q->gone && *rush_tally_of(&q->can_send, slot)) rank = from[i]; /* it has been announced */
        alive += !q->gone;
    }
    if (!alive) return fail_gone(m, from[0]);
    rush_part *p = rush_part_new(b, slot, offset, n);
    if (!p) return rush_mesh_out_of_memory(m);
    if (rank < 0) {
        p->from = rush_malloc((size_t)nfrom * sizeof *p->from);
        if (!p->from) return rush_part_free(p), rush_mesh_out_of_memory(m);
        memcpy(p->from, from, (size_t)nfrom * sizeof *from);
        p->nfrom = nfrom;
        rush_part_append(&m->any, p);
        return 0;
    }
    rush_peer *q = &m->peers[rank];
    if (!rush_tally_take(&q->can_send, slot) && rush_tally_add(&q->owed, slot)) return rush_part_free(p), rush_mesh_out_of_memory(m);
    rush_part_append(&q->receives, p);
    rush_frame_push(m, q, RECEIVE_READY, slot, n, NULL, NULL, NULL);
    return m->broken ? fail_broken(m) : 0;
}

int rush_mesh_receive(rush_mesh_buffer *b, int nfrom, const int *from, uint64_t slot, size_t offset, size_t n)
{
    pthread_mutex_lock(&b->mesh->lock);
    b->flying++;
    int failed = receive_locked(b, nfrom, from, slot, offset, n);
    rush_part_unref(b);
    pthread_mutex_unlock(&b->mesh->lock);
    return failed;
}

int rush_mesh_done(rush_mesh_buffer *b, bool receives)
{
    pthread_mutex_lock(&b->mesh->lock);
    int done = (receives ? b->received : b->sent) > 0 || b->mesh->broken;
    pthread_mutex_unlock(&b->mesh->lock);
    return done;
}

/* Whom does the buffer wait for? A text, or "" when that is not known. */
static void missing(rush_mesh *m, rush_mesh_buffer *b, char *text, size_t room)
{
    size_t n = 0;
    text[0] = 0;
    for (int i = 0; i < m->size && n + 40 < room; i++) {
        bool waits = m->peers[i].into == b;
        for (rush_part *p = m->peers[i].sends; p && !waits; p = p->next) waits = p->b == b;
        for (rush_part *p = m->peers[i].receives; p && !waits; p = p->next) waits = p->b == b;
        for (rush_frame *f = m->peers[i].out; f && !waits; f = f->next) waits = f->b == b;
        if (!waits) continue;
        n += (size_t)snprintf(text + n, room - n, "%s%d", n ? ", " : " for rank ", i);
        if (m->peers[i].ours && m->peers[i].reached < m->number)
            n += (size_t)snprintf(text + n, room - n, " (which has begun collective %lld of %lld)", (long long)m->peers[i].reached, (long long)m->number);
    }
}

int rush_mesh_wait(rush_mesh_buffer *b, bool receives, double seconds, int *rank)
{
    rush_mesh *m = b->mesh;
    pthread_mutex_lock(&m->lock);
    int *through = receives ? &b->received : &b->sent;
    double until = rush_seconds() + seconds;
    int interrupted = 0;
    for (m->waiting++; !*through && !m->broken && !interrupted;) {
        double left = until - rush_seconds();
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        t.tv_nsec += (long)(RUSH_MIN(RUSH_MAX(left, 0), 0.1) * 1e9);
        if (t.tv_nsec >= 1000000000) t.tv_sec++, t.tv_nsec -= 1000000000;
        if (left > 0) {
            pthread_cond_timedwait(&m->changed, &m->lock, &t);
            if (!b->release || *through || !rush_wait_interrupted) continue; /* a collective: the group's thread hears no signals */
            pthread_mutex_unlock(&m->lock);
            interrupted = rush_wait_interrupted();
            pthread_mutex_lock(&m->lock);
            continue;
        }
        char who[400];
        missing(m, b, who, sizeof who);
        rush_mesh_break_locked(m, true, "rank %d waited %.1f s%s", m->rank, seconds, who);
    }
    m->waiting--;
    int failed = *through ? 0 : interrupted ? -1 : fail_broken(m);
    if (!failed) {
        --*through;
        if (rank) *rank = receives ? b->received_from : b->sent_to;
    }
    bool landed = m->landed;
    pthread_mutex_unlock(&m->lock);
    if (landed && b->release) release_landed(m);
    return failed;
}

int rush_mesh_begin(rush_mesh *m, int64_t number, const char *what, bool tell)
{
    char *copy = strdup(what);
    RUSH_CHECK(copy, RUSH_MEMORY_ERROR, "not enough memory");
    pthread_mutex_lock(&m->lock);
    int i = (int)((uint64_t)number % REMEMBERED);
    free(m->begun[i].what);
    m->begun[i].number = m->number = number;
    m->begun[i].what = copy;
    for (int k = 0; k < m->size && !m->broken; k++) {
        rush_peer *q = &m->peers[k];
        if (k == m->rank) continue;
        if (q->gone && q->left && number > q->reached) fail_gone(m, k), rush_error_clear(); /* else it has done its part */
        char *text = tell && q->ours && !q->gone && !m->broken ? strdup(what) : NULL;
        if (text) rush_frame_push(m, q, BEGIN, (uint64_t)number, strlen(text), NULL, text, text);
    }
    if (m->told[i].what && m->told[i].number == number && !m->broken) rush_mesh_compare(m, number, what, m->told_by[i], m->told[i].what);
    int failed = m->broken ? fail_broken(m) : 0;
    pthread_mutex_unlock(&m->lock);
    return failed;
}

int64_t rush_mesh_reached(rush_mesh *m, int rank)
{
    pthread_mutex_lock(&m->lock);
    int64_t n = rank == m->rank ? m->number : m->peers[rank].reached;
    pthread_mutex_unlock(&m->lock);
    return n;
}

bool rush_mesh_foreign(const rush_mesh *m)
{
    bool all = true;
    for (int i = 0; i < m->size; i++) all &= i == m->rank || m->peers[i].ours;
    return !all;
}

const char *rush_mesh_host(const rush_mesh *m, int rank) { return m->peers[rank].host; }

/* ---- waits by other means ---- */

void rush_mesh_waiting(rush_mesh *m, int more)
{
    pthread_mutex_lock(&m->lock);
    m->waiting += more;
    pthread_mutex_unlock(&m->lock);
}

bool rush_mesh_gone(rush_mesh *m, int rank)
{
    pthread_mutex_lock(&m->lock);
    bool gone = m->broken || m->peers[rank].gone;
    pthread_mutex_unlock(&m->lock);
    return gone;
}

int rush_mesh_fail_gone(rush_mesh *m, int rank)
{
    pthread_mutex_lock(&m->lock);
    int failed = m->broken ? fail_broken(m) : fail_gone(m, rank);
    pthread_mutex_unlock(&m->lock);
    return failed;
}

int rush_mesh_fail_late(rush_mesh *m, int rank, double seconds)
{
    pthread_mutex_lock(&m->lock);
    if (rank < 0) rush_mesh_break_locked(m, true, "rank %d waited %.1f s for the others", m->rank, seconds);
    else rush_mesh_break_locked(m, true, "rank %d waited %.1f s for %s (which has begun collective %lld of %lld)", m->rank, seconds, rush_mesh_name_of(m, rank),
                                (long long)m->peers[rank].reached, (long long)m->number);
    int failed = fail_broken(m);
    pthread_mutex_unlock(&m->lock);
    return failed;
}

/* ---- beginning and end ---- */

#define FLUSH 1.0   /* seconds that a rank of PyTorch has to take what was sent, when this one goes */
#define FAREWELL 3.5 /* of silence, after which a rank of ours that has not answered the goodbye is not waited for */

/* Until something changes, a moment at most. The lock is held. */
static void wait_a_moment(rush_mesh *m)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_nsec += 20000000;
    if (t.tv_nsec >= 1000000000) t.tv_sec++, t.tv_nsec -= 1000000000;
    pthread_cond_timedwait(&m->changed, &m->lock, &t);
}

/* Has that rank all that this one has sent it, or is it not to be waited for? */
static bool may_leave(rush_mesh *m, int rank, double since)
{
    rush_peer *q = &m->peers[rank];
    double now = rush_seconds();
    if (rank == m->rank || q->gone) return true;
    return q->ours ? now - q->heard > FAREWELL : !q->out || now - since > FLUSH;
}

/* Tells the others that this rank goes, and waits until they have read that, and all before it: what is on its way would be lost with the
 * connection, since a socket that is closed answers what still comes to it with a reset. The lock is held. */
static void say_goodbye(rush_mesh *m)
{
    double since = rush_seconds();
    for (int i = 0; i < m->size && !m->broken; i++)
        if (i != m->rank && m->peers[i].ours && !m->peers[i].gone) rush_frame_push(m, &m->peers[i], LEAVE, (uint64_t)m->number, 0, NULL, NULL, NULL);
    m->leaving = true;
    for (int i = 0; i < m->size; i++)
        while (!m->broken && !may_leave(m, i, since)) wait_a_moment(m);
}

static void at_exit(void)
{
    pthread_mutex_lock(&all_lock);
    for (rush_mesh *m = all_meshes; m; m = m->next) {
        if (m->forks != rush_forks()) continue;
        pthread_mutex_lock(&m->lock);
        if (m->waiting) rush_mesh_break_locked(m, true, "rank %d ended in its collective %lld", m->rank, (long long)m->number);
        say_goodbye(m);
        pthread_mutex_unlock(&m->lock);
    }
    pthread_mutex_unlock(&all_lock);
}

static void list_mesh(rush_mesh *m)
{
    static bool registered;
    pthread_mutex_lock(&all_lock);
    m->next = all_meshes;
    all_meshes = m;
    if (!registered) atexit(at_exit);
    registered = true;
    pthread_mutex_unlock(&all_lock);
}

static void unlist_mesh(rush_mesh *m)
{
    pthread_mutex_lock(&all_lock);
    for (rush_mesh **at = &all_meshes; *at; at = &(*at)->next)
        if (*at == m) {
            *at = m->next;
            break;
        }
    pthread_mutex_unlock(&all_lock);
}

/* While a group is made: has the group that its ranks are of broken? */
static _Thread_local rush_mesh *parent_of_new;

static int look_at_parent(void)
{
    rush_mesh *m = parent_of_new;
    pthread_mutex_lock(&m->lock);
    int failed = m->broken ? rush_fail(RUSH_DIST_BACKEND_ERROR, "a new group was to be made, and %s", m->broken) : 0;
    pthread_mutex_unlock(&m->lock);
    return failed;
}

static void look_at(rush_mesh *parent, bool on)
{
    if (!parent) return;
    parent_of_new = on ? parent : NULL;
    rush_wait_hopeless = on ? look_at_parent : NULL;
    rush_mesh_waiting(parent, on ? 1 : -1);
}

/* Meets the others and takes over the connections. */
static int connect_peers(rush_mesh *m, rush_store *store, double seconds, const rush_offer *mine, rush_offer *first)
{
    rush_met *met = rush_calloc((size_t)m->size, sizeof *met);
    if (!met) return -1;
    int failed = rush_meet(store, m->rank, m->size, seconds, mine, met);
    bool near = !failed && mine->machine;
    for (int i = 0; i < m->size && !failed; i++) {
        rush_peer *q = &m->peers[i];
        q->fd = met[i].fd;
        q->host = met[i].host;
        q->ours = met[i].ours;
        q->heard = rush_seconds();
        near &= i == m->rank || (q->ours && met[i].offer.machine == mine->machine);
    }
    const rush_offer *zero = m->rank ? &met[0].offer : mine;
    if (near && zero->fd >= 0) *first = *zero;
    rush_free(met);
    return failed;
}

/* Whom of ours has this rank not heard? -1: all have spoken. The lock is held. */
static int not_here(rush_mesh *m)
{
    for (int i = 0; i < m->size; i++)
        if (i != m->rank && m->peers[i].ours && !m->peers[i].here && !m->peers[i].gone) return i;
    return -1;
}

/* Until all ranks of ours have met all others. Before that none may leave: it may serve the store. */
static int greet(rush_mesh *m, double seconds)
{
    double until = rush_seconds() + seconds, turn;
    int failed = 0;
    pthread_mutex_lock(&m->lock);
    m->waiting++;
    for (int i = 0; i < m->size && !m->broken; i++)
        if (i != m->rank && m->peers[i].ours) rush_frame_push(m, &m->peers[i], ALIVE, (uint64_t)m->number, 0, NULL, NULL, NULL);
    for (int who; !failed && !m->broken && (who = not_here(m)) >= 0;) {
        pthread_mutex_unlock(&m->lock);
        failed = rush_wait_turn(until, &turn);
        pthread_mutex_lock(&m->lock);
        if (!failed && turn > 0) wait_a_moment(m);
        else if (!failed) rush_mesh_break_locked(m, true, "rank %d waited %.1f s for %s, which did not finish meeting the others", m->rank, seconds, rush_mesh_name_of(m, who));
    }
    m->waiting--;
    if (!failed && m->broken) failed = fail_broken(m);
    pthread_mutex_unlock(&m->lock);
    return failed;
}

rush_mesh *rush_mesh_new(rush_store *store, int rank, int size, double seconds, rush_mesh *parent, const rush_offer *mine, rush_offer *first)
{
    *first = (rush_offer){0};
    rush_mesh *m = rush_calloc(1, sizeof *m);
    if (!m) return NULL;
    m->rank = rank;
    m->size = size;
    m->number = -1;
    m->patience = rush_silence();
    m->forks = rush_forks();
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->changed, NULL);
    m->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    m->peers = rush_calloc((size_t)size, sizeof *m->peers);
    m->polls = rush_calloc((size_t)size + 1, sizeof *m->polls);
    for (int i = 0; m->peers && i < size; i++) {
        m->peers[i].fd = m->peers[i].reached = -1;
        m->peers[i].out_end = &m->peers[i].out;
    }
    if (m->wake < 0) rush_fail(RUSH_DIST_BACKEND_ERROR, "eventfd: %s", strerror(errno));
    look_at(parent, true);
    if (!rush_failed() && !connect_peers(m, store, seconds, mine, first)) {
        int code = pthread_create(&m->thread, NULL, run, m);
        m->running = !code;
        if (code) rush_fail(RUSH_DIST_BACKEND_ERROR, "no thread for the group: %s", strerror(code));
        else greet(m, seconds);
    }
    look_at(parent, false);
    if (!rush_failed()) return list_mesh(m), m;
    rush_mesh_close(m);
    rush_mesh_free(m);
    return NULL;
}

void rush_mesh_close(rush_mesh *m)
{
    unlist_mesh(m);
    if (m->running && m->forks == rush_forks()) {
        pthread_mutex_lock(&m->lock);
        say_goodbye(m);
        m->stop = true;
        rush_mesh_poke(m);
        pthread_mutex_unlock(&m->lock);
        pthread_join(m->thread, NULL);
    }
    m->running = false;
    pthread_mutex_lock(&m->lock);
    rush_mesh_break_locked(m, false, "the group was destroyed");
    for (int i = 0; m->peers && i < m->size; i++) {
        if (m->peers[i].fd >= 0) close(m->peers[i].fd);
        m->peers[i].fd = -1;
    }
    pthread_mutex_unlock(&m->lock);
    release_landed(m);
}

void rush_mesh_free(rush_mesh *m)
{
    for (int i = 0; m->peers && i < m->size; i++) {
        rush_peer *q = &m->peers[i];
        rush_tally_free(&q->can_receive);
        rush_tally_free(&q->can_send);
        rush_tally_free(&q->owed);
        rush_free(q->host);
        free(q->text);
    }
    for (int i = 0; i < REMEMBERED; i++) {
        free(m->begun[i].what);
        free(m->told[i].what);
    }
    if (m->wake >= 0) close(m->wake);
    if (m->broken != no_memory) free(m->broken);
    pthread_cond_destroy(&m->changed);
    pthread_mutex_destroy(&m->lock);
    rush_free(m->peers);
    rush_free(m->polls);
    rush_free(m);
}
