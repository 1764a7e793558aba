/* socket.h - sockets whose every wait ends: at a deadline, or when the program is interrupted. Deadlines are rush_seconds()'s. */
#ifndef RUSH_DIST_SOCKET_H
#define RUSH_DIST_SOCKET_H

#include "dist/store.h"
#include <sys/socket.h>

/* Listens at a host's address (NULL or "": at all of this machine's), port 0: a free one. The socket, or -1 and an error. */
int rush_socket_listen(const char *host, int port, int *bound);
/* Connects, again and again until the deadline: who listens may come later. Where it is `there` already, a refusal is the end. */
int rush_socket_connect(const char *host, int port, double seconds, bool there);
void rush_socket_tune(int fd); /* no delay, no signal */
/* All n bytes, or -1 and an error. */
int rush_socket_send(int fd, const void *data, size_t n, double until);
int rush_socket_receive(int fd, void *data, size_t n, double until);
/* 1: something can be read (or the other side is gone); 0: the time is over; -1 and an error: interrupted. */
int rush_socket_wait(int fd, short events, double until);
/* Seconds without a sign of life that are taken for a death; 0: never. */
double rush_silence(void);

#endif
