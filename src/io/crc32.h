/* crc32.h - the checksum of zip files, at the speed of memory. */
#ifndef RUSH_IO_CRC32_H
#define RUSH_IO_CRC32_H

#include "base/base.h"

/* As zlib counts it: begins with 0, and goes on with what came before. */
uint32_t rush_crc32(uint32_t crc, const void *, size_t n);
/* The same of `src`, which is copied to `dst` on the way; large blocks pass the caches by. */
uint32_t rush_crc32_copy(uint32_t crc, void *dst, const void *src, size_t n);
/* Of two pieces one after the other, from theirs. */
uint32_t rush_crc32_join(uint32_t first, uint32_t second, uint64_t bytes_of_second);
/* By all threads, where that pays. */
uint32_t rush_crc32_of(const void *, size_t n);

#endif
