/* shared.c - tensors that are not sent: clients on this machine put them into shared memory, and name a part of it.
 *
 * Regions are read and written as files: one that a client cuts short is an error, where a map of it would end the server.
 */
#include "serve/serve.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { REGIONS = 256 }; /* each holds a file */
typedef struct region { char name[SERVE_NAME], key[SERVE_NAME]; uint64_t offset, size; int file; } region; /* no name: it is free */

static region regions[REGIONS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static region *region_named(const char *name)
{
    for (int k = 0; k < REGIONS; ++k)
        if (!strcmp(regions[k].name, name)) return &regions[k];
    return NULL;
}

static int add(region *r)
{
    RUSH_CHECK(!region_named(r->name), RUSH_VALUE_ERROR, "shared memory region '%s' is already registered", r->name);
    region *to = region_named("");
    RUSH_CHECK(to, RUSH_VALUE_ERROR, "more than %d shared memory regions", REGIONS);
    r->file = shm_open(r->key, O_RDWR | O_CLOEXEC, 0);
    RUSH_CHECK(r->file >= 0, RUSH_VALUE_ERROR, "there is no shared memory '%s' that the server may open", r->key);
    *to = *r;
    return 0;
}

int serve_shared_register(const char *name, const rush_json *how)
{
    const char *key = rush_json_text_of(how, "key");
    const rush_json *offset = rush_json_get(how, "offset"), *size = rush_json_get(how, "byte_size");
    region r = {.file = -1};
    RUSH_CHECK(*name && strlen(name) < sizeof r.name, RUSH_VALUE_ERROR, "a region has a name of at most %d bytes", SERVE_NAME - 1);
    RUSH_CHECK(key && *key && strlen(key) < sizeof r.key && !strchr(key + (*key == '/'), '/') && !strstr(key, ".."), RUSH_VALUE_ERROR, "'key' is no name of shared memory");
    RUSH_CHECK(rush_json_is(size, RUSH_JSON_WHOLE) && size->i > 0, RUSH_VALUE_ERROR, "'byte_size' must be a number of bytes");
    RUSH_CHECK(!offset || (rush_json_is(offset, RUSH_JSON_WHOLE) && offset->i >= 0 && offset->i <= INT64_MAX - size->i), RUSH_VALUE_ERROR, "'offset' must be a number of bytes");
    strcpy(r.name, name);
    strcpy(r.key, key);
    r.offset = offset ? (uint64_t)offset->i : 0;
    r.size = (uint64_t)size->i;
    pthread_mutex_lock(&lock);
    int failed = add(&r);
    pthread_mutex_unlock(&lock);
    return failed;
}

void serve_shared_unregister(const char *name)
{
    pthread_mutex_lock(&lock);
    for (int k = 0; k < REGIONS; ++k)
        if (*regions[k].name && (!name || !strcmp(name, regions[k].name))) close(regions[k].file), *regions[k].name = 0;
    pthread_mutex_unlock(&lock);
}

int serve_shared_list(const char *name, serve_text *t)
{
    int n = 0;
    pthread_mutex_lock(&lock);
    for (int k = 0; k < REGIONS; ++k) {
        const region *r = &regions[k];
        if (!*r->name || (name && strcmp(name, r->name))) continue;
        serve_print(t, "%s{\"name\":", n++ ? "," : "");
        serve_put_json(t, r->name);
        serve_print(t, ",\"key\":");
        serve_put_json(t, r->key);
        serve_print(t, ",\"offset\":%llu,\"byte_size\":%llu}", (unsigned long long)r->offset, (unsigned long long)r->size);
    }
    pthread_mutex_unlock(&lock);
    return n;
}

/* The file of a region, which is the caller's to close, and where in it the n bytes are. -1 and an error. */
static int open_part(const char *name, uint64_t offset, uint64_t n, off_t *at)
{
    int file = -1;
    pthread_mutex_lock(&lock);
    const region *r = name && *name ? region_named(name) : NULL;
    if (!r) rush_fail(RUSH_VALUE_ERROR, "there is no shared memory region '%.100s'", name ? name : "");
    else if (offset > r->size || n > r->size - offset) rush_fail(RUSH_VALUE_ERROR, "%llu bytes from %llu on reach beyond shared memory region '%s'", (unsigned long long)n, (unsigned long long)offset, r->name);
    else if ((file = fcntl(r->file, F_DUPFD_CLOEXEC, 0)) < 0) rush_fail(RUSH_RUNTIME_ERROR, "no more files");
    else *at = (off_t)(r->offset + offset);
    pthread_mutex_unlock(&lock);
    return file;
}

/* Reads into `to`, or writes what is at `from`. */
static int move(const char *name, uint64_t offset, uint64_t n, char *to, const char *from)
{
    off_t at = 0;
    int file = open_part(name, offset, n, &at);
    if (file < 0) return -1;
    uint64_t done = 0;
    for (ssize_t k = 1; done < n && k > 0; done += k > 0 ? (uint64_t)k : 0)
        k = to ? pread(file, to + done, n - done, at + (off_t)done) : pwrite(file, from + done, n - done, at + (off_t)done);
    close(file);
    return done == n ? 0 : rush_fail(RUSH_VALUE_ERROR, "shared memory region '%s' is smaller than was said", name);
}

int serve_shared_read(const char *name, uint64_t offset, void *to, uint64_t n) { return move(name, offset, n, to, NULL); }
int serve_shared_write(const char *name, uint64_t offset, const void *from, uint64_t n) { return move(name, offset, n, NULL, from); }
