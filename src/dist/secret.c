/* secret.c - the job's secret: SHA-256, HMAC, and what two sides prove with it. */
#include "dist/secret.h"

#include <stdlib.h>
#include <string.h>

/* ---- SHA-256 ---- */

typedef struct sha { uint32_t h[8]; } sha;

static const uint32_t constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74,
    0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d,
    0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e,
    0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5,
    0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t turn(uint32_t x, int n) { return x >> n | x << (32 - n); }

static void sha_block(sha *s, const uint8_t *p)
{
    uint32_t w[64], v[8];
    for (int i = 0; i < 16; i++) w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 | (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (turn(a, 7) ^ turn(a, 18) ^ a >> 3) + w[i - 7] + (turn(b, 17) ^ turn(b, 19) ^ b >> 10);
    }
    memcpy(v, s->h, sizeof v);
    for (int i = 0; i < 64; i++) {
        uint32_t x = v[7] + (turn(v[4], 6) ^ turn(v[4], 11) ^ turn(v[4], 25)) + ((v[4] & v[5]) ^ (~v[4] & v[6])) + constants[i] + w[i];
        uint32_t y = (turn(v[0], 2) ^ turn(v[0], 13) ^ turn(v[0], 22)) + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += x;
        v[0] = x + y;
    }
    for (int i = 0; i < 8; i++) s->h[i] += v[i];
}

/* Of `first`, one block, and the data behind it. */
static void sha256_behind(const uint8_t first[64], const void *data, size_t n, uint8_t *digest)
{
    sha s = {{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
    uint8_t last[128] = {0};
    const uint8_t *p = data;
    uint64_t bits = (64 * (first != NULL) + n) * 8;
    size_t left = n;
    if (first) sha_block(&s, first);
    for (; left >= 64; p += 64, left -= 64) sha_block(&s, p);
    if (left) memcpy(last, p, left);
    last[left] = 0x80;
    size_t all = left < 56 ? 64 : 128;
    for (size_t i = 0; i < 8; i++) last[all - 1 - i] = (uint8_t)(bits >> (8 * i));
    for (size_t at = 0; at < all; at += 64) sha_block(&s, last + at);
    for (int i = 0; i < 32; i++) digest[i] = (uint8_t)(s.h[i / 4] >> (24 - 8 * (i % 4)));
}

void rush_hmac_sha256(const void *key, size_t nkey, const void *data, size_t n, uint8_t *mac)
{
    uint8_t block[64] = {0}, inner[32];
    if (nkey > sizeof block) sha256_behind(NULL, key, nkey, block);
    else if (nkey) memcpy(block, key, nkey);
    for (int i = 0; i < 64; i++) block[i] ^= 0x36;
    sha256_behind(block, data, n, inner);
    for (int i = 0; i < 64; i++) block[i] ^= 0x36 ^ 0x5c;
    sha256_behind(block, inner, sizeof inner, mac);
}

/* ---- the secret ---- */

const char *rush_secret(void)
{
    const char *told = getenv("RUSHLIGHT_STORE_SECRET");
    return told && *told ? told : NULL;
}

void rush_secret_proof(const char *secret, char who, const uint8_t *of_client, const uint8_t *of_server, uint8_t *proof)
{
    uint8_t text[1 + 2 * RUSH_NONCE];
    text[0] = (uint8_t)who;
    memcpy(text + 1, of_client, RUSH_NONCE);
    memcpy(text + 1 + RUSH_NONCE, of_server, RUSH_NONCE);
    rush_hmac_sha256(secret, strlen(secret), text, sizeof text, proof);
}

bool rush_secret_equal(const uint8_t *a, const uint8_t *b)
{
    uint8_t differ = 0;
    for (int i = 0; i < RUSH_PROOF; i++) differ |= a[i] ^ b[i];
    return !differ;
}
