/* frames.c - what goes over a mesh's connections: frames written as the sockets take them, and frames read and acted upon.
 *
 * Called under the mesh's lock, by whoever sends and by the mesh's thread. What goes wrong breaks the mesh.
 */
#define _GNU_SOURCE
#include "dist/frames.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* ---- announcements, messages that wait, frames on their way ---- */

rush_tally **rush_tally_of(rush_tally **t, uint64_t slot)
{
    while (*t && (*t)->slot != slot) t = &(*t)->next;
    return t;
}

int rush_tally_add(rush_tally **list, uint64_t slot)
{
    rush_tally **at = rush_tally_of(list, slot);
    if (!*at && !(*at = rush_calloc(1, sizeof **at))) return -1;
    (*at)->slot = slot;
    (*at)->n++;
    return 0;
}

bool rush_tally_take(rush_tally **list, uint64_t slot)
{
    rush_tally **at = rush_tally_of(list, slot), *t = *at;
    if (!t) return false;
    if (!--t->n) {
        *at = t->next;
        rush_free(t);
    }
    return true;
}

void rush_tally_free(rush_tally **list)
{
    for (rush_tally *t = *list, *next; t; t = next) {
        next = t->next;
        rush_free(t);
    }
    *list = NULL;
}

/* A message of the buffer is through, or given up. What is to be released then is left to the next caller: the mesh's thread
 * may not run foreign code. */
void rush_part_unref(rush_mesh_buffer *b)
{
    if (--b->flying) return;
    if (b->release && !b->landing) {
        b->landing = true;
        b->next = b->mesh->landed;
        b->mesh->landed = b;
    } else if (!b->held && !b->landing) {
        rush_free(b);
    }
}

rush_part *rush_part_new(rush_mesh_buffer *b, uint64_t slot, size_t offset, size_t n)
{
    rush_part *p = rush_calloc(1, sizeof *p);
    if (!p) return NULL;
    *p = (rush_part){.b = b, .slot = slot, .offset = offset, .n = n};
    b->flying++;
    return p;
}

void rush_part_free(rush_part *p)
{
    rush_part_unref(p->b);
    rush_free(p->from);
    rush_free(p);
}

void rush_part_append(rush_part **list, rush_part *p)
{
    while (*list) list = &(*list)->next;
    *list = p;
}

static rush_part *take_part(rush_part **list, uint64_t slot)
{
    while (*list && (*list)->slot != slot) list = &(*list)->next;
    rush_part *p = *list;
    if (p) *list = p->next;
    return p;
}

void rush_part_list_free(rush_part **list)
{
    for (rush_part *p = *list, *next; p; p = next) {
        next = p->next;
        rush_part_free(p);
    }
    *list = NULL;
}

static void frame_free(rush_frame *f)
{
    if (f->b) rush_part_unref(f->b);
    free(f->text);
    rush_free(f);
}

void rush_frames_free(rush_peer *q)
{
    for (rush_frame *f = q->out, *next; f; f = next) {
        next = f->next;
        frame_free(f);
    }
    q->out = NULL;
    q->out_end = &q->out;
}

/* ---- writing ---- */

/* Writes what the socket takes of the frames. A failure is left to the reading side, which may still find a goodbye. */
void rush_frames_write(rush_mesh *m, rush_peer *q, int rank)
{
    while (q->out && !q->gone) {
        rush_frame *f = q->out;
        size_t head = sizeof f->p, n = f->p.length * (f->data != NULL);
        struct iovec v[2] = {{(char *)&f->p + RUSH_MIN(f->done, head), head - RUSH_MIN(f->done, head)},
                             {(char *)f->data + (f->done > head ? f->done - head : 0), n - (f->done > head ? f->done - head : 0)}};
        struct msghdr h = {.msg_iov = v, .msg_iovlen = f->data ? 2 : 1};
        ssize_t sent = sendmsg(q->fd, &h, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) return;
        f->done += (size_t)sent;
        if (f->done < head + n) return;
        q->out = f->next;
        if (!q->out) q->out_end = &q->out;
        if (f->b) {
            f->b->sent++;
            f->b->sent_to = rank;
            pthread_cond_broadcast(&m->changed);
        }
        frame_free(f);
    }
}

void rush_frame_push(rush_mesh *m, rush_peer *q, uint64_t opcode, uint64_t slot, size_t length, rush_mesh_buffer *b, const char *data, char *text)
{
    rush_frame *f = rush_calloc(1, sizeof *f);
    if (!f) {
        free(text);
        rush_mesh_out_of_memory(m);
        return rush_error_clear();
    }
    if (b) b->flying++;
    bool carries = opcode == DATA || text;
    f->p = (rush_preamble){.all = sizeof f->p + (carries ? length : 0), .opcode = opcode, .slot = slot, .length = length};
    f->b = b;
    f->data = carries ? data : NULL;
    f->text = text;
    bool first = !q->out;
    *q->out_end = f;
    q->out_end = &f->next;
    if (!first) return;
    rush_frames_write(m, q, (int)(q - m->peers));
    if (q->out) rush_mesh_poke(m); /* the thread is to wait for room, too */
}

void rush_frame_push_data(rush_mesh *m, rush_peer *q, rush_part *p)
{
    rush_frame_push(m, q, DATA, p->slot, p->n, p->b, p->b->data + p->offset, NULL);
    rush_part_free(p);
}

/* ---- reading ---- */

static void told(rush_mesh *m, int rank, int64_t number, char *what)
{
    int i = (int)((uint64_t)number % REMEMBERED);
    if (m->begun[i].what && m->begun[i].number == number) {
        rush_mesh_compare(m, number, m->begun[i].what, rank, what);
    } else if (number > m->number && (!m->told[i].what || m->told[i].number != number)) {
        free(m->told[i].what);
        m->told[i].number = number;
        m->told[i].what = what;
        m->told_by[i] = rank;
        return;
    }
    free(what);
}

/* A part of ours for a send that the other side has announced. */
static void announced(rush_mesh *m, rush_peer *q, int rank, uint64_t slot)
{
    if (rush_tally_take(&q->owed, slot)) return;
    for (rush_part **at = &m->any; *at; at = &(*at)->next) {
        rush_part *p = *at;
        bool takes = p->slot == slot;
        for (int i = 0; takes && i < p->nfrom; i++)
            if (p->from[i] == rank) {
                *at = p->next;
                p->next = NULL;
                rush_part_append(&q->receives, p);
                return rush_frame_push(m, q, RECEIVE_READY, slot, p->n, NULL, NULL, NULL);
            }
    }
    if (rush_tally_add(&q->can_send, slot)) rush_mesh_out_of_memory(m), rush_error_clear();
}

/* The preamble is there: where is its data to go? */
static void frame_begins(rush_mesh *m, rush_peer *q, int rank)
{
    rush_preamble *p = &q->p;
    if (p->opcode == DATA) {
        rush_part *to = take_part(&q->receives, p->slot);
        if (!to) return rush_mesh_break_locked(m, true, "%s sent what nobody waits for", rush_mesh_name_of(m, rank));
        if (p->length > to->n) {
            size_t room = to->n;
            rush_part_free(to);
            return rush_mesh_break_locked(m, true, "%s sent %llu bytes where rank %d expects %zu: the ranks' shapes or dtypes differ", rush_mesh_name_of(m, rank),
                                (unsigned long long)p->length, m->rank, room);
        }
        q->into = to->b;
        q->into->flying++;
        q->into_at = to->b->data + to->offset;
        rush_part_free(to);
    } else if (p->opcode == BEGIN || p->opcode == FAIL) {
        if (p->length > 1 << 16) return rush_mesh_break_locked(m, true, "%s sent a text of %llu bytes", rush_mesh_name_of(m, rank), (unsigned long long)p->length);
        q->text = malloc(p->length + 1);
        if (!q->text) rush_mesh_out_of_memory(m), rush_error_clear();
        else q->text[p->length] = 0;
        q->into_at = q->text;
    } else if (p->opcode < DATA || (p->opcode > RECEIVE_READY && (p->opcode < ALIVE || p->opcode > FAIL))) {
        rush_mesh_break_locked(m, true, "%s sent a frame of unknown kind %llu", rush_mesh_name_of(m, rank), (unsigned long long)p->opcode);
    }
}

/* All of a frame is there. */
static void frame_ends(rush_mesh *m, rush_peer *q, int rank)
{
    rush_preamble p = q->p;
    char *text = q->text;
    q->text = NULL;
    rush_part *s;
    switch (p.opcode) {
    case DATA:
        q->into->received++;
        q->into->received_from = rank;
        rush_part_unref(q->into);
        q->into = NULL;
        pthread_cond_broadcast(&m->changed);
        break;
    case SEND_READY: announced(m, q, rank, p.slot); break;
    case RECEIVE_READY:
        if ((s = take_part(&q->sends, p.slot))) rush_frame_push_data(m, q, s);
        else if (rush_tally_add(&q->can_receive, p.slot)) rush_mesh_out_of_memory(m), rush_error_clear();
        break;
    case ALIVE: q->reached = RUSH_MAX(q->reached, (int64_t)p.slot); break;
    case BEGIN:
        q->reached = RUSH_MAX(q->reached, (int64_t)p.slot);
        told(m, rank, (int64_t)p.slot, text);
        return;
    case LEAVE:
        q->left = true;
        q->reached = (int64_t)p.slot;
        shutdown(q->fd, SHUT_WR);
        rush_mesh_lost(m, rank, NULL);
        break;
    case FAIL: rush_mesh_break_locked(m, false, "%s gave up: %s", rush_mesh_name_of(m, rank), text); break;
    }
    free(text);
}

static bool carries(const rush_preamble *p)
{
    return p->opcode == DATA || p->opcode == BEGIN || p->opcode == FAIL;
}

/* Reads what has come; a large message at most a megabyte at a time, for the lock's sake. */
void rush_frames_read(rush_mesh *m, rush_peer *q, int rank)
{
    char small[4096];
    for (int turn = 0; turn < 64 && !m->broken && !q->gone; turn++) {
        bool head = q->head < sizeof q->p;
        size_t left = head ? sizeof q->p - q->head : q->p.length - q->body;
        ssize_t got = recv(q->fd, head ? (char *)&q->p + q->head : q->into_at ? q->into_at + q->body : small,
                           RUSH_MIN(left, head || q->into_at ? 1 << 20 : sizeof small), MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return rush_mesh_lost(m, rank, got ? strerror(errno) : "its connection was closed");
        q->heard = rush_seconds();
        if (!q->here) q->here = true, pthread_cond_broadcast(&m->changed);
        if (head) {
            q->head += (size_t)got;
            if (q->head < sizeof q->p) continue;
            q->body = 0;
            q->into_at = NULL;
            frame_begins(m, q, rank);
        } else {
            q->body += (size_t)got;
        }
        if (m->broken || (carries(&q->p) && q->body < q->p.length)) continue;
        frame_ends(m, q, rank);
        q->head = 0;
    }
}
