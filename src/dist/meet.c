/* meet.c - ranks find each other as those of PyTorch's gloo do, so that both kinds can be in one group.
 *
 * Each rank listens at one port and leaves under its number in the store: the length and text of its host's name, the length
 * and bytes of its address (a sockaddr_storage and -1), then for each rank a number by which that one makes itself known when
 * it connects. Of two ranks the one with the larger address connects. The numbers are drawn, so that only who can read the
 * store is taken for a rank. Ours add a number more, which tells them apart, and an offer of memory.
 */
#define _GNU_SOURCE
#include "dist/meet.h"
#include "dist/socket.h"

#include <errno.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

#define MARK INT64_C(0x5255534848454c4c)

typedef struct card { /* what a rank leaves in the store, read */
    struct sockaddr_storage at;
    int64_t number;   /* what this rank is to say when it connects */
} card;

/* The address of the interface that GLOO_SOCKET_IFNAME names, else of the host's name, as text. */
static int own_address(char *text, size_t room)
{
    const char *want = getenv("GLOO_SOCKET_IFNAME");
    char host[256] = "";
    struct ifaddrs *list = NULL;
    int code = -1;
    if (want && *want) {
        if (getifaddrs(&list)) return rush_fail(RUSH_DIST_NETWORK_ERROR, "getifaddrs: %s", strerror(errno));
        for (int v4 = 1; v4 >= 0 && code; v4--)
            for (struct ifaddrs *i = list; i && code; i = i->ifa_next)
                if (i->ifa_addr && !strcmp(i->ifa_name, want) && i->ifa_addr->sa_family == (v4 ? AF_INET : AF_INET6))
                    code = getnameinfo(i->ifa_addr, v4 ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6), text, (socklen_t)room, NULL, 0, NI_NUMERICHOST);
        freeifaddrs(list);
        RUSH_CHECK(!code, RUSH_DIST_NETWORK_ERROR, "GLOO_SOCKET_IFNAME is '%s', which is no interface with an address", want);
        return 0;
    }
    gethostname(host, sizeof host - 1);
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found;
    if (!getaddrinfo(host, NULL, &hints, &found)) {
        for (struct addrinfo *a = found; a && code; a = a->ai_next) { /* the first one that is this machine's */
            int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
            if (fd >= 0 && !bind(fd, a->ai_addr, a->ai_addrlen)) code = getnameinfo(a->ai_addr, a->ai_addrlen, text, (socklen_t)room, NULL, 0, NI_NUMERICHOST);
            if (fd >= 0) close(fd);
        }
        freeaddrinfo(found);
    }
    if (code) snprintf(text, room, "127.0.0.1");
    return 0;
}

/* What each of the others is to say when it connects. */
static int64_t *draw_numbers(int size)
{
    int64_t *numbers = rush_malloc((size_t)size * sizeof *numbers);
    for (int i = 0; numbers && i < size; i++) {
        if (getrandom(&numbers[i], sizeof *numbers, 0) != sizeof *numbers) {
            rush_fail(RUSH_DIST_NETWORK_ERROR, "getrandom: %s", strerror(errno));
            return rush_free(numbers), NULL;
        }
        numbers[i] &= INT64_MAX;
    }
    return numbers;
}

static int leave_card(rush_store *store, int rank, int size, const struct sockaddr_storage *at, const int64_t *numbers, const rush_offer *mine)
{
    char host[256] = "", key[16];
    gethostname(host, sizeof host - 1);
    size_t nhost = strlen(host), naddress = sizeof *at + 8, n = 8 + nhost + 8 + naddress + 8 * ((size_t)size + 1) + sizeof *mine;
    char *bytes = rush_malloc(n), *p = bytes;
    if (!bytes) return -1;
    p = mempcpy(p, &nhost, 8);
    p = mempcpy(p, host, nhost);
    p = mempcpy(p, &naddress, 8);
    p = mempcpy(p, at, sizeof *at);
    p = mempcpy(p, &(int64_t){-1}, 8);
    p = mempcpy(p, numbers, 8 * (size_t)size);
    p = mempcpy(p, &(int64_t){MARK}, 8);
    mempcpy(p, mine, sizeof *mine);
    snprintf(key, sizeof key, "%d", rank);
    int failed = rush_store_set(store, key, bytes, n);
    rush_free(bytes);
    return failed;
}

static int read_card(const rush_bytes *b, int from, int rank, int size, card *c, rush_met *met)
{
    const char *p = b->data;
    size_t left = b->n, n = 0;
    bool good = left >= 8;
    if (good) memcpy(&n, p, 8), p += 8, left -= 8;
    good = good && n < 256 && left >= n + 8 + sizeof c->at + 8;
    rush_bytes host = {0};
    if (good && rush_bytes_copy(&host, p, n)) return -1;
    if (good) p += n, left -= n, memcpy(&n, p, 8), good = n == sizeof c->at + 8;
    if (good) memcpy(&c->at, p + 8, sizeof c->at), p += 8 + n, left -= 8 + n;
    c->number = rank; /* where a rank leaves no numbers, it is one's own */
    if (good && left >= 8 * (size_t)size) memcpy(&c->number, p + 8 * (size_t)rank, 8);
    int64_t mark = 0;
    if (good && left == 8 * ((size_t)size + 1) + sizeof met->offer) memcpy(&mark, p + 8 * (size_t)size, 8);
    if (mark == MARK) memcpy(&met->offer, p + 8 * ((size_t)size + 1), sizeof met->offer);
    good = good && (c->at.ss_family == AF_INET || c->at.ss_family == AF_INET6);
    met->host = host.data;
    met->ours = mark == MARK;
    RUSH_CHECK(good, RUSH_DIST_BACKEND_ERROR, "what rank %d left in the store is no address", from);
    return 0;
}

static int read_cards(rush_store *store, int rank, int size, double until, card *cards, rush_met *met)
{
    double began = rush_seconds();
    for (int i = 0; i < size; i++) {
        char key[16], *k = key;
        rush_bytes b = {0};
        if (i == rank) continue;
        snprintf(key, sizeof key, "%d", i);
        if (rush_store_wait(store, 1, (const char *const *)&k, RUSH_MAX(until - rush_seconds(), 0))) {
            if (rush_error_kind_now() != RUSH_DIST_STORE_ERROR) return -1;
            rush_error_clear();
            char list[256] = "";
            size_t n = 0;
            for (int j = i; j < size && n < 200; j++) {
                snprintf(key, sizeof key, "%d", j);
                int here = j == rank || rush_store_check(store, 1, (const char *const *)&k) == 1;
                if (!here) n += (size_t)snprintf(list + n, sizeof list - n, "%s%d", n ? ", " : "", j);
            }
            rush_error_clear();
            return rush_fail(RUSH_DIST_BACKEND_ERROR, "rank %d of %d waited %.1f s for rank %s, which did not come: is it running, with the same "
                             "MASTER_ADDR, MASTER_PORT and WORLD_SIZE?", rank, size, rush_seconds() - began, list);
        }
        if (rush_store_get(store, key, &b)) return -1;
        int failed = read_card(&b, i, rank, size, &cards[i], &met[i]);
        rush_bytes_free(&b);
        if (failed) return -1;
    }
    return 0;
}

/* As gloo compares: the larger one connects. */
static int compare(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
    if (a->ss_family == AF_INET) {
        const struct sockaddr_in *x = (const void *)a, *y = (const void *)b;
        int c = memcmp(&x->sin_addr, &y->sin_addr, sizeof x->sin_addr);
        return c ? c : x->sin_port - y->sin_port;
    }
    const struct sockaddr_in6 *x = (const void *)a, *y = (const void *)b;
    int c = memcmp(&x->sin6_addr, &y->sin6_addr, sizeof x->sin6_addr);
    return c ? c : x->sin6_port - y->sin6_port;
}

static int connect_to(const card *c, int i, const char *name, double until)
{
    char host[128], port[16];
    int code = getnameinfo((const struct sockaddr *)&c->at, c->at.ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6),
                           host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
    RUSH_CHECK(!code, RUSH_DIST_NETWORK_ERROR, "the address of rank %d: %s", i, gai_strerror(code));
    int fd = rush_socket_connect(host, atoi(port), RUSH_MAX(until - rush_seconds(), 0), true);
    if (fd >= 0 && !rush_socket_send(fd, &c->number, 8, until)) return fd;
    if (fd >= 0) close(fd);
    return rush_error_in("rank %d on host %s", i, name);
}

/* One connection that says which rank it is; what does not, or says it twice, is closed. */
static int accept_one(int listener, int size, const int64_t *numbers, rush_met *met, const bool *expected)
{
    int64_t said = -1;
    int who = 0;
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0) return 0;
    if (rush_socket_receive(fd, &said, 8, rush_seconds() + 2) && rush_error_kind_now() == RUSH_FOREIGN_ERROR) return close(fd), -1;
    rush_error_clear();
    while (who < size && !(expected[who] && numbers[who] == said)) who++;
    if (who == size || met[who].fd >= 0) return close(fd), 0;
    rush_socket_tune(fd);
    met[who].fd = fd;
    return 1;
}

static int connect_all(int listener, const struct sockaddr_storage *own, const card *cards, const int64_t *numbers, int rank, int size, double until,
                       double seconds, rush_met *met)
{
    bool *expected = rush_calloc((size_t)size, sizeof *expected);
    int waits = 0, failed = !expected;
    for (int i = 0; i < size && !failed; i++) {
        if (i == rank) continue;
        if (cards[i].at.ss_family != own->ss_family) failed = rush_fail(RUSH_DIST_NETWORK_ERROR, "rank %d has an address of another kind (IPv4, IPv6) than rank %d", i, rank);
        else if (compare(own, &cards[i].at) > 0) failed = (met[i].fd = connect_to(&cards[i], i, met[i].host, until)) < 0;
        else expected[i] = true, waits++;
    }
    while (!failed && waits) {
        int ready = rush_socket_wait(listener, POLLIN, until), one = ready > 0 ? accept_one(listener, size, numbers, met, expected) : 0;
        waits -= one > 0;
        failed = ready < 0 || one < 0;
        int missing = 0;
        while (missing < size - 1 && !(expected[missing] && met[missing].fd < 0)) missing++;
        if (!ready) failed = rush_fail(RUSH_DIST_BACKEND_ERROR, "rank %d waited %.1f s for rank %d on host %s, which did not connect", rank, seconds, missing, met[missing].host);
    }
    rush_free(expected);
    return failed ? -1 : 0;
}

int rush_meet(rush_store *store, int rank, int size, double seconds, const rush_offer *mine, rush_met *met)
{
    double until = rush_seconds() + seconds;
    char address[128];
    struct sockaddr_storage own = {0};
    for (int i = 0; i < size; i++) met[i] = (rush_met){.fd = -1};
    card *cards = rush_calloc((size_t)size, sizeof *cards);
    int64_t *numbers = cards ? draw_numbers(size) : NULL;
    if (!numbers) return rush_free(cards), -1;
    int listener = own_address(address, sizeof address) ? -1 : rush_socket_listen(address, 0, NULL), failed = listener < 0;
    if (!failed && getsockname(listener, (struct sockaddr *)&own, &(socklen_t){sizeof own})) failed = rush_fail(RUSH_DIST_NETWORK_ERROR, "getsockname: %s", strerror(errno));
    failed = failed || leave_card(store, rank, size, &own, numbers, mine) || read_cards(store, rank, size, until, cards, met) ||
             connect_all(listener, &own, cards, numbers, rank, size, until, seconds, met);
    if (listener >= 0) close(listener);
    rush_free(numbers);
    rush_free(cards);
    for (int i = 0; failed && i < size; i++) {
        if (met[i].fd >= 0) close(met[i].fd);
        rush_free(met[i].host);
    }
    return failed ? -1 : 0;
}
