/* store_file.c - a store in a file that all processes can reach: PyTorch's FileStore, byte by byte.
 *
 * The file is a list of records, appended under a lock: 32-bit length and key, 32-bit length and value; the last one of a key
 * counts. Keys of the program begin with '/', a record of "-/key" deletes "/key". "refcount/" counts the stores that are
 * open, "cleanup/" those that were closed; when none is open and all of world_size were closed, the file goes.
 */
#define _GNU_SOURCE
#include "dist/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct file_store {
    rush_store s;
    char *path;
    int world_size;
    pthread_mutex_t lock;
    rush_table *table;     /* what the first `read` bytes say */
    off_t read;
    ino_t inode;           /* of the file that they are of    */
} file_store;

/* Opens and locks the file; -1 and an error. */
static int open_locked(file_store *f)
{
    int fd = open(f->path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    RUSH_CHECK(fd >= 0, RUSH_RUNTIME_ERROR, "open(%s): %s", f->path, strerror(errno));
    while (flock(fd, LOCK_EX)) {
        if (errno == EINTR) continue;
        rush_fail(RUSH_RUNTIME_ERROR, "flock(%s): %s", f->path, strerror(errno));
        close(fd);
        return -1;
    }
    return fd;
}

static int take_record(rush_table *t, char *key, size_t nkey, char *value, size_t nvalue)
{
    char after = key[nkey]; /* the first byte of the value's length, which was read */
    key[nkey] = 0;
    bool gone = key[0] == '-';
    const char *name = key + gone;
    rush_request r = {.kind = gone ? RUSH_STORE_DELETE : RUSH_STORE_SET, .n = 1, .keys = &name, .values = &(rush_bytes){value, nvalue}};
    int failed = rush_table_run(t, &r);
    key[nkey] = after;
    return failed;
}

/* Applies what others have appended. A record that is not whole is an error: nobody writes without the lock. */
static int catch_up(file_store *f, int fd)
{
    struct stat st;
    RUSH_CHECK(!fstat(fd, &st), RUSH_RUNTIME_ERROR, "fstat(%s): %s", f->path, strerror(errno));
    if (!f->table || st.st_ino != f->inode || st.st_size < f->read) { /* another file of the same name */
        rush_table_free(f->table);
        f->read = 0;
        f->inode = st.st_ino;
        if (!(f->table = rush_table_new())) return -1;
    }
    size_t n = (size_t)(st.st_size - f->read), at = 0;
    if (!n) return 0;
    char *bytes = rush_malloc(n);
    if (!bytes) return -1;
    int failed = 0;
    if (pread(fd, bytes, n, f->read) != (ssize_t)n) failed = rush_fail(RUSH_RUNTIME_ERROR, "read(%s): %s", f->path, strerror(errno));
    while (!failed && at < n) {
        uint32_t nkey = 0, nvalue = 0;
        bool whole = n - at >= 4;
        if (whole) memcpy(&nkey, bytes + at, 4);
        whole = whole && nkey > 0 && n - at - 4 >= (size_t)nkey + 4;
        if (whole) memcpy(&nvalue, bytes + at + 4 + nkey, 4);
        whole = whole && n - at - 8 - nkey >= nvalue;
        failed = whole ? take_record(f->table, bytes + at + 4, nkey, bytes + at + 8 + nkey, nvalue)
                       : rush_fail(RUSH_DIST_STORE_ERROR, "%s is no file of a store", f->path);
        if (!failed) at += 8 + (size_t)nkey + nvalue;
    }
    f->read += (off_t)at;
    rush_free(bytes);
    return failed;
}

/* Appends a record; one that cannot be written whole is cut off again. */
static int write_record(file_store *f, int fd, const char *before, const char *key, const rush_bytes *value)
{
    size_t nkey = strlen(before) + strlen(key), n = 8 + nkey + value->n;
    RUSH_CHECK(value->n <= UINT32_MAX && nkey <= UINT32_MAX, RUSH_DIST_STORE_ERROR, "a value of %zu bytes", value->n);
    char *bytes = rush_malloc(n + 1);
    if (!bytes) return -1;
    uint32_t k = (uint32_t)nkey, v = (uint32_t)value->n;
    memcpy(bytes, &k, 4);
    sprintf(bytes + 4, "%s%s", before, key);
    memcpy(bytes + 4 + nkey, &v, 4);
    if (v) memcpy(bytes + 8 + nkey, value->data, v);
    int failed = 0;
    if (pwrite(fd, bytes, n, f->read) != (ssize_t)n) {
        failed = rush_fail(RUSH_RUNTIME_ERROR, "write(%s): %s", f->path, strerror(errno));
        if (ftruncate(fd, f->read)) rush_log(1, "%s ends in half a record: %s", f->path, strerror(errno));
    }
    if (!failed) f->read += (off_t)n;
    rush_free(bytes);
    return failed;
}

/* Writes what a request has changed in the table. Where that fails the table is read anew next time. */
static int write_changes(file_store *f, int fd, const rush_request *r)
{
    int failed = 0;
    bool changes = r->kind == RUSH_STORE_SET || r->kind == RUSH_STORE_APPEND || r->kind == RUSH_STORE_ADD ||
                   r->kind == RUSH_STORE_COMPARE_SET || r->kind == RUSH_STORE_MULTI_SET;
    if (r->kind == RUSH_STORE_DELETE && r->number) failed = write_record(f, fd, "-", r->keys[0], &(rush_bytes){0});
    for (int i = 0; changes && i < r->n && !failed; i++) {
        rush_bytes now = {0};
        if (r->kind == RUSH_STORE_COMPARE_SET && !rush_table_has(f->table, r->keys[i])) continue; /* refused */
        rush_request get = {.kind = RUSH_STORE_GET, .n = 1, .keys = &r->keys[i], .answers = &now};
        failed = rush_table_run(f->table, &get) || write_record(f, fd, "", r->keys[i], &now);
        rush_bytes_free(&now);
    }
    if (failed) {
        rush_table_free(f->table);
        f->table = NULL;
    }
    return failed;
}

static int once(file_store *f, rush_request *r)
{
    pthread_mutex_lock(&f->lock);
    int fd = open_locked(f), failed = fd < 0 || catch_up(f, fd) || rush_table_run(f->table, r) || write_changes(f, fd, r);
    if (fd >= 0) close(fd); /* and with it the lock */
    pthread_mutex_unlock(&f->lock);
    return failed ? -1 : 0;
}

static int wait_for(file_store *f, rush_request *r)
{
    double until = rush_seconds() + r->seconds, turn;
    for (;;) {
        if (once(f, r)) return -1;
        if (r->number) return 0;
        if (rush_wait_turn(until, &turn)) return -1;
        RUSH_CHECK(turn, RUSH_DIST_STORE_ERROR, "Wait timeout");
        rush_nap(RUSH_MIN(turn, 0.01));
    }
}

/* Only the program's keys, without the stroke. */
static void show_keys(rush_request *r)
{
    int kept = 0;
    for (int i = 0; i < r->nanswers; i++) {
        rush_bytes *key = &r->answers[i];
        if (*(char *)key->data != '/') {
            rush_bytes_free(key);
            continue;
        }
        memmove(key->data, (char *)key->data + 1, key->n--);
        r->answers[kept++] = *key;
    }
    r->nanswers = kept;
}

static int file_run(rush_store *s, rush_request *r)
{
    file_store *f = (file_store *)s;
    RUSH_CHECK(r->kind != RUSH_STORE_PUSH && r->kind != RUSH_STORE_POP && r->kind != RUSH_STORE_QUEUED, RUSH_NOT_IMPLEMENTED,
               "queue support is not implemented.");
    size_t all = (size_t)r->n * sizeof(char *);
    for (int i = 0; i < r->n; i++) all += strlen(r->keys[i]) + 2;
    const char *const *keys = r->keys, **longer = rush_malloc(RUSH_MAX(all, 1));
    if (!longer) return -1;
    char *at = (char *)(longer + r->n);
    for (int i = 0; i < r->n; i++) {
        longer[i] = at;
        at += sprintf(at, "/%s", keys[i]) + 1;
    }
    r->keys = longer;
    int failed = r->kind == RUSH_STORE_WAIT ? wait_for(f, r) : once(f, r);
    r->keys = keys;
    rush_free(longer);
    if (!failed && r->kind == RUSH_STORE_LIST) show_keys(r);
    return failed;
}

static int64_t count(file_store *f, const char *key, int64_t amount)
{
    rush_request r = {.kind = RUSH_STORE_ADD, .n = 1, .keys = &key, .amount = amount};
    return once(f, &r) ? -1 : r.number;
}

static void file_end(rush_store *s)
{
    file_store *f = (file_store *)s;
    rush_error_state before = rush_error_take();
    if (f->world_size >= 0 && !access(f->path, F_OK)) {
        int64_t closed = count(f, "cleanup/", 1), open = count(f, "refcount/", -1);
        if (open == 0 && closed >= f->world_size) unlink(f->path);
    }
    rush_error_clear(); /* nobody is left to tell */
    rush_error_restore(before);
    pthread_mutex_destroy(&f->lock);
    rush_table_free(f->table);
    rush_free(f->path);
}

const rush_store_kind rush_store_file_kind = {.name = "FileStore", .run = file_run, .end = file_end};

rush_store *rush_store_file(const char *path, int world_size)
{
    rush_bytes text;
    if (rush_failed()) return NULL;
    RUSH_CHECK_NULL(path, RUSH_TYPE_ERROR, "a path is missing (NULL)");
    if (rush_bytes_copy(&text, path, strlen(path))) return NULL;
    file_store *f = rush_store_new(&rush_store_file_kind, sizeof *f);
    if (!f) {
        rush_bytes_free(&text);
        return NULL;
    }
    f->path = text.data;
    f->world_size = -1; /* until it counts, ending it removes nothing */
    pthread_mutex_init(&f->lock, NULL);
    if (count(f, "refcount/", 1) < 0) {
        rush_store_drop(&f->s);
        return NULL;
    }
    f->world_size = world_size;
    return &f->s;
}

const char *rush_store_path(const rush_store *s)
{
    return s->kind == &rush_store_file_kind ? ((const file_store *)s)->path : NULL;
}
