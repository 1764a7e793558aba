/* socket.c - TCP: listening, connecting, sending, receiving, with deadlines. No call of ours is ended by SIGPIPE. */
#define _GNU_SOURCE
#include "dist/socket.h"
#include "base/text.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#define SILENCE 3.5 /* where RUSHLIGHT_DIST_SILENCE says nothing else */

double rush_silence(void)
{
    const char *told = getenv("RUSHLIGHT_DIST_SILENCE"), *end = told;
    double seconds = told ? rush_strtod(told, (char **)&end) : SILENCE;
    return end == told && told ? SILENCE : RUSH_MAX(seconds, 0);
}

void rush_socket_tune(int fd)
{
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
}

static struct addrinfo *addresses(const char *host, int port, int flags)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICSERV}, *list;
    char service[16];
    snprintf(service, sizeof service, "%d", port);
    int code = getaddrinfo(host && *host ? host : NULL, service, &hints, &list);
    if (!code) return list;
    rush_fail(RUSH_DIST_NETWORK_ERROR, "The address of the host '%s' cannot be found: %s", host ? host : "", gai_strerror(code));
    return NULL;
}

static int listen_at(const struct addrinfo *a)
{
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    if (a->ai_family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &(int){0}, sizeof(int));
    if (!bind(fd, a->ai_addr, a->ai_addrlen) && !listen(fd, 2048)) return fd;
    int why = errno;
    close(fd);
    errno = why;
    return -1;
}

static int port_of(int fd)
{
    struct sockaddr_storage at;
    if (getsockname(fd, (struct sockaddr *)&at, &(socklen_t){sizeof at})) return -1;
    return ntohs(at.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&at)->sin6_port : ((struct sockaddr_in *)&at)->sin_port);
}

/* Debian gives a machine's own name the address 127.0.1.1, at which no other machine can reach it. */
static bool is_own_name(const char *host, const struct addrinfo *list)
{
    struct in_addr a;
    if (!host || inet_pton(AF_INET, host, &a) == 1) return false; /* the address itself was asked for */
    for (; list; list = list->ai_next)
        if (list->ai_family == AF_INET && ntohl(((struct sockaddr_in *)list->ai_addr)->sin_addr.s_addr) == 0x7f000101) return true;
    return false;
}

int rush_socket_listen(const char *host, int port, int *bound)
{
    struct addrinfo *list = addresses(host, port, AI_PASSIVE);
    if (!list) return -1;
    if (is_own_name(host, list)) {
        freeaddrinfo(list);
        rush_log(2, "'%s' is this machine's own name (127.0.1.1); the store listens on all interfaces", host);
        return rush_socket_listen(NULL, port, bound);
    }
    int fd = -1, why = 0;
    for (int v4 = 1; v4 >= 0 && fd < 0; v4--) /* "localhost" is 127.0.0.1 first, as clients of either family try all */
        for (struct addrinfo *a = list; a && fd < 0; a = a->ai_next)
            if ((a->ai_family == AF_INET) == v4 && (fd = listen_at(a)) < 0 && why != EADDRINUSE) why = errno;
    freeaddrinfo(list);
    if (fd < 0 && why == EADDRNOTAVAIL && host && *host) { /* behind a translated address: any interface will do */
        rush_log(2, "no interface of this machine has the address of '%s'; the store listens on all", host);
        return rush_socket_listen(NULL, port, bound);
    }
    RUSH_CHECK(fd >= 0, RUSH_DIST_NETWORK_ERROR, "The server socket has failed to listen on any local network address. port: %d, message: %s",
               port, strerror(why));
    if (bound) *bound = port_of(fd);
    return fd;
}

int rush_socket_wait(int fd, short events, double until)
{
    for (double turn;;) {
        if (rush_wait_turn(until, &turn)) return -1;
        struct pollfd p = {.fd = fd, .events = events};
        int n = poll(&p, 1, (int)(turn * 1000 + 0.999));
        if (n > 0) return 1;
        if (n < 0 && errno != EINTR) return rush_fail(RUSH_DIST_NETWORK_ERROR, "poll: %s", strerror(errno));
        if (!turn) return 0;
    }
}

/* One try at one address: the socket; -1 without an error: not there (yet), -2 with one: interrupted. */
static int connect_once(const struct addrinfo *a, double until, int *why)
{
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), code = 0;
    if (fd < 0) return *why = errno, -1;
    if (connect(fd, a->ai_addr, a->ai_addrlen)) {
        int ready = errno == EINPROGRESS ? rush_socket_wait(fd, POLLOUT, until) : (code = errno, 1);
        if (ready < 0) return close(fd), -2;
        if (!ready) code = ETIMEDOUT;
        else if (!code) getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &(socklen_t){sizeof code});
    }
    if (!code) return rush_socket_tune(fd), fd;
    close(fd);
    return *why = code, -1;
}

int rush_socket_connect(const char *host, int port, double seconds, bool there)
{
    double until = rush_seconds() + seconds, turn, nap = 0.005;
    struct addrinfo *list = addresses(host, port, 0);
    if (!list) return -1;
    int fd = -1, why = ETIMEDOUT;
    for (;;) {
        for (struct addrinfo *a = list; a && fd == -1; a = a->ai_next) fd = connect_once(a, until, &why);
        if (fd != -1 || rush_wait_turn(until, &turn)) break;
        if (there && why == ECONNREFUSED) {
            rush_fail(RUSH_DIST_NETWORK_ERROR, "it was at (%s, %d), and listens there no more: %s", host, port, strerror(why));
            break;
        }
        if (!turn) {
            rush_fail(RUSH_DIST_NETWORK_ERROR, "The client socket has timed out after %.0fms while trying to connect to (%s, %d): %s.",
                      seconds * 1000, host, port, strerror(why));
            break;
        }
        rush_nap(RUSH_MIN(turn, nap));
        nap = RUSH_MIN(2 * nap, 0.1);
    }
    freeaddrinfo(list);
    return RUSH_MAX(fd, -1);
}

int rush_socket_send(int fd, const void *data, size_t n, double until)
{
    for (const char *p = data; n;) {
        ssize_t sent = send(fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent > 0) {
            p += sent;
            n -= (size_t)sent;
            continue;
        }
        if (errno == EINTR) continue;
        RUSH_CHECK(errno == EAGAIN || errno == EWOULDBLOCK, RUSH_DIST_NETWORK_ERROR, "%s", strerror(errno));
        int ready = rush_socket_wait(fd, POLLOUT, until);
        if (ready < 0) return -1;
        RUSH_CHECK(ready, RUSH_DIST_NETWORK_ERROR, "Sending timed out: the other side takes nothing");
    }
    return 0;
}

int rush_socket_receive(int fd, void *data, size_t n, double until)
{
    for (char *p = data; n;) {
        ssize_t got = recv(fd, p, n, MSG_DONTWAIT);
        if (got > 0) {
            p += got;
            n -= (size_t)got;
            continue;
        }
        RUSH_CHECK(got, RUSH_DIST_NETWORK_ERROR, "the connection was closed by the other side");
        if (errno == EINTR) continue;
        RUSH_CHECK(errno == EAGAIN || errno == EWOULDBLOCK, RUSH_DIST_NETWORK_ERROR, "%s", strerror(errno));
        int ready = rush_socket_wait(fd, POLLIN, until);
        if (ready < 0) return -1;
        RUSH_CHECK(ready, RUSH_DIST_NETWORK_ERROR, "Receiving timed out: the other side sends nothing");
    }
    return 0;
}
