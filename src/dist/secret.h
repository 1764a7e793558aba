/* secret.h - both sides of a connection show each other that they know the job's secret, without sending it. */
#ifndef RUSH_DIST_SECRET_H
#define RUSH_DIST_SECRET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RUSH_NONCE = 16, RUSH_PROOF = 32 };

const char *rush_secret(void); /* RUSHLIGHT_STORE_SECRET; NULL: the job has none */
/* HMAC-SHA-256, under the secret, of who proves ('c'lient or 's'erver) and both sides' random numbers. */
void rush_secret_proof(const char *secret, char who, const uint8_t *of_client, const uint8_t *of_server, uint8_t *proof);
bool rush_secret_equal(const uint8_t *a, const uint8_t *b); /* of proofs; takes the same time for all */

/* HMAC-SHA-256 (RFC 2104, FIPS 180-4). */
void rush_hmac_sha256(const void *key, size_t nkey, const void *data, size_t n, uint8_t *mac);

#endif
