/* hash.h - hashes of names that others choose: files and the network may not know which of them meet in a table. */
#ifndef RUSH_BASE_HASH_H
#define RUSH_BASE_HASH_H

#include "base/base.h"

uint64_t rush_hash_bytes(const char *, size_t n); /* SipHash-2-4 under a key that this process drew */
uint64_t rush_hash_name(const char *);

#endif
