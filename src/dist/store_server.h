/* store_server.h - the server behind a TCP store. */
#ifndef RUSH_DIST_STORE_SERVER_H
#define RUSH_DIST_STORE_SERVER_H

#include "dist/store.h"

typedef struct rush_store_server rush_store_server;
rush_store_server *rush_store_server_new(int listen_fd, int port); /* takes the socket, also when it fails */
rush_store_server *rush_store_server_at(int port); /* one more user of that which this process has at a port; NULL: there is none */
void rush_store_server_free(rush_store_server *); /* when its last user says so */

/* Where the job has a secret (secret.h), two messages of our own follow the greeting: the client's random number, which the
 * server answers with its own and its proof; then the client's proof, which it answers with a zero. */
enum { RUSH_STORE_ASK = 0x70, RUSH_STORE_PROVE = 0x71 };

#define RUSH_STORE_MAGIC 0x3C85F7CEu
enum { RUSH_STORE_MAX_KEY = 1 << 16, RUSH_STORE_MAX_KEYS = 1 << 17, RUSH_STORE_MAX_MESSAGE = 1 << 28 }; /* bytes, keys, bytes */

#endif
