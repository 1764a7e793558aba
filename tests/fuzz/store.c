/* store.c - bytes at the port of a store's server. The first one says whether a greeting goes before, and whether the server has
 * a secret. The server must go on: another client asks it after each input. */
#include "dist/store_server.h"
#include "fuzz.h"
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { RENEW = 500 }; /* inputs, after which the servers are made anew: what they hold is bounded by far more */

static struct sockaddr_un places[2];
static rush_store_server *servers[2];

static void serve(int i)
{
    rush_store_server_free(servers[i]);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    places[i] = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(places[i].sun_path + 1, 60, "rushlight-fuzz-%d-%d", (int)getpid(), i);
    if (i) setenv("RUSHLIGHT_STORE_SECRET", "a", 1);
    else unsetenv("RUSHLIGHT_STORE_SECRET");
    if (fd < 0 || bind(fd, (struct sockaddr *)&places[i], sizeof places[i]) || listen(fd, 16) || !(servers[i] = rush_store_server_new(fd, 0))) abort();
}

static int guest(int i)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&places[i], sizeof places[i])) abort();
    return fd;
}

static const char greeting[] = "\0\xce\xf7\x85\x3c"; /* VALIDATE, the magic number */

static void talk(int fd, const uint8_t *data, size_t size)
{
    char answers[4096];
    for (size_t at = 0; at < size;) {
        ssize_t sent = TEMP_FAILURE_RETRY(send(fd, data + at, size - at, MSG_NOSIGNAL));
        if (sent <= 0) break;
        at += (size_t)sent;
    }
    shutdown(fd, SHUT_WR);
    while (TEMP_FAILURE_RETRY(read(fd, answers, sizeof answers)) > 0) { } /* the fuzzer's timer interrupts */
    close(fd);
}

static void still_there(int i)
{
    char back[4] = {0};
    int fd = guest(i);
    if (write(fd, greeting, 5) != 5 || write(fd, "\x0d" "abcd", 5) != 5 || TEMP_FAILURE_RETRY(recv(fd, back, 4, MSG_WAITALL)) != 4 || memcmp(back, "abcd", 4)) abort();
    close(fd);
}

FUZZ({
    static int inputs;
    if (inputs++ % RENEW == 0) serve(0), serve(1);
    if (!size) return 0;
    int i = data[0] >> 1 & 1, fd = guest(i);
    if ((data[0] & 1) && write(fd, greeting, 5) != 5) abort();
    talk(fd, data + 1, size - 1);
    still_there(i);
})
