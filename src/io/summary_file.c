/* summary_file.c - TensorBoard's event files: records of length, masked crc32c, data; protobuf written by hand.
 *
 * The messages are few and only written, so that a protobuf library would bring more code than it saves.
 */
#include "io/summary_file.h"
#include "base/buried.h"

#include <errno.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- bytes, protobuf ---- */

void rush_bytes_add(rush_bytes *b, const void *p, size_t n)
{
    if (b->lost || !n) return;
    if (b->room - b->n < n) {
        size_t room = RUSH_MAX(b->room * 2, b->n + n + 64);
        uint8_t *more = rush_realloc(b->p, room);
        if (!more) {
            b->lost = true;
            return;
        }
        b->p = more;
        b->room = room;
    }
    memcpy(b->p + b->n, p, n);
    b->n += n;
}

void rush_bytes_end(rush_bytes *b)
{
    rush_free(b->p);
    *b = (rush_bytes){0};
}

void rush_pb_varint(rush_bytes *b, uint64_t x)
{
    uint8_t out[10];
    int n = 0;
    for (; x > 127; x >>= 7) out[n++] = (uint8_t)(x | 128);
    out[n++] = (uint8_t)x;
    rush_bytes_add(b, out, (size_t)n);
}

void rush_pb_int(rush_bytes *b, int field, int64_t x)
{
    rush_pb_varint(b, (uint64_t)field << 3);
    rush_pb_varint(b, (uint64_t)x);
}

void rush_pb_double(rush_bytes *b, int field, double x)
{
    rush_pb_varint(b, (uint64_t)field << 3 | 1);
    rush_bytes_add(b, &x, sizeof x);
}

void rush_pb_float(rush_bytes *b, int field, float x)
{
    rush_pb_varint(b, (uint64_t)field << 3 | 5);
    rush_bytes_add(b, &x, sizeof x);
}

void rush_pb_data(rush_bytes *b, int field, const void *p, size_t n)
{
    rush_pb_varint(b, (uint64_t)field << 3 | 2);
    rush_pb_varint(b, n);
    rush_bytes_add(b, p, n);
}

void rush_pb_text(rush_bytes *b, int field, const char *s) { rush_pb_data(b, field, s, strlen(s)); }

void rush_pb_message(rush_bytes *b, int field, rush_bytes *inner)
{
    b->lost = b->lost || inner->lost;
    rush_pb_data(b, field, inner->p, inner->n);
    rush_bytes_end(inner);
}

/* ---- crc32c ---- */

static uint32_t crc_table[8][256];

__attribute__((constructor)) static void fill_table(void)
{
    for (uint32_t n = 0; n < 256; n++) {
        uint32_t c = n;
        for (int k = 0; k < 8; k++) c = c & 1 ? c >> 1 ^ 0x82f63b78 : c >> 1;
        crc_table[0][n] = c;
    }
    for (uint32_t n = 0; n < 256; n++)
        for (int k = 1; k < 8; k++) crc_table[k][n] = crc_table[0][crc_table[k - 1][n] & 255] ^ crc_table[k - 1][n] >> 8;
}

/* Eight bytes a step, by a table for the place of each (Kadatch and Jenkins). */
uint32_t rush_masked_crc(const void *data, size_t n)
{
    const uint8_t *p = data;
    uint32_t c = ~0u;
    for (; n >= 8; n -= 8, p += 8) {
        uint32_t low, high;
        memcpy(&low, p, 4);
        memcpy(&high, p + 4, 4);
        low ^= c;
        c = crc_table[7][low & 255] ^ crc_table[6][low >> 8 & 255] ^ crc_table[5][low >> 16 & 255] ^ crc_table[4][low >> 24] ^
            crc_table[3][high & 255] ^ crc_table[2][high >> 8 & 255] ^ crc_table[1][high >> 16 & 255] ^ crc_table[0][high >> 24];
    }
    for (; n; n--) c = crc_table[0][(c ^ *p++) & 255] ^ c >> 8;
    c = ~c;
    return (c >> 15 | c << 17) + 0xa282ead8u;
}

/* ---- the file ---- */

double rush_wall_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int rush_make_folders(const char *folder)
{
    size_t n = strlen(folder);
    char *path = rush_malloc(n + 1);
    if (!path) return -1;
    memcpy(path, folder, n + 1);
    for (size_t i = 1; i <= n; i++)
        if (path[i] == '/' || !path[i]) {
            char was = path[i];
            path[i] = 0;
            mkdir(path, 0777); /* what can't be made is noticed when the file is opened */
            path[i] = was;
        }
    rush_free(path);
    return 0;
}

rush_summary *rush_summary_open(const char *folder, const char *suffix)
{
    static atomic_int count;
    char host[128] = "localhost";
    if (rush_failed()) return NULL;
    RUSH_CHECK_NULL(folder && *folder, RUSH_VALUE_ERROR, "a summary is written to a folder");
    if (rush_make_folders(folder)) return NULL;
    gethostname(host, sizeof host - 1);
    rush_summary *s = rush_calloc(1, sizeof *s);
    size_t n = strlen(folder) + strlen(host) + (suffix ? strlen(suffix) : 0) + 100;
    if (s) s->lives = 1;
    if (!s || !(s->path = rush_malloc(n)) || !(s->folder = rush_malloc(strlen(folder) + 1))) goto fail;
    strcpy(s->folder, folder);
    s->every = 120;
    s->flushed = rush_wall_time();
    snprintf(s->path, n, "%s/events.out.tfevents.%010lld.%s.%d.%d%s", folder, (long long)s->flushed, host, (int)getpid(), atomic_fetch_add(&count, 1),
             suffix ? suffix : "");
    s->f = fopen(s->path, "wbe");
    if (!s->f) {
        rush_fail(RUSH_IO_ERROR, "can't write '%s': %s", s->path, strerror(errno));
        goto fail;
    }
    rush_bytes first = {0};
    rush_pb_double(&first, 1, s->flushed);
    rush_pb_text(&first, 3, "brain.Event:2");
    int failed = rush_summary_event(s, first.p, first.n) || rush_summary_flush(s);
    rush_bytes_end(&first);
    if (!failed) return s;
fail:
    rush_summary_close(s);
    return NULL;
}

int rush_summary_flush(rush_summary *s)
{
    if (!rush_summary_given(s)) return -1;
    s->flushed = rush_wall_time();
    return fflush(s->f) ? rush_fail(RUSH_IO_ERROR, "can't write '%s': %s", s->path, strerror(errno)) : 0;
}

int rush_summary_close(rush_summary *s)
{
    int failed = 0;
    if (!s) return 0;
    if (!rush_summary_given(s)) return -1;
    if (s->f && fclose(s->f)) failed = rush_fail(RUSH_IO_ERROR, "can't write '%s': %s", s->path, strerror(errno));
    rush_free(s->path);
    rush_free(s->folder);
    rush_bury_handle(s, sizeof *s);
    return failed;
}

bool rush_summary_given(const rush_summary *s) { return rush_lives(s, "a summary"); }
const char *rush_summary_path(const rush_summary *s) { return rush_summary_given(s) ? s->path : NULL; }

void rush_summary_time(rush_summary *s, double wall)
{
    if (rush_summary_given(s)) s->wall = wall;
}

void rush_summary_flush_every(rush_summary *s, double seconds)
{
    if (rush_summary_given(s)) s->every = seconds;
}

int rush_summary_event(rush_summary *s, const void *event, size_t n)
{
    if (!rush_summary_given(s)) return -1;
    uint64_t length = n;
    uint32_t head = rush_masked_crc(&length, 8), tail = rush_masked_crc(event, n);
    rush_lock(RUSH_LOCK_SUMMARY);
    bool whole = fwrite(&length, 8, 1, s->f) == 1 && fwrite(&head, 4, 1, s->f) == 1 && (!n || fwrite(event, n, 1, s->f) == 1) && fwrite(&tail, 4, 1, s->f) == 1;
    if (whole && rush_wall_time() - s->flushed > s->every) whole = !fflush(s->f), s->flushed = rush_wall_time();
    rush_unlock(RUSH_LOCK_SUMMARY);
    return whole ? 0 : rush_fail(RUSH_IO_ERROR, "can't write '%s': %s", s->path, strerror(errno));
}

int rush_summary_value(rush_summary *s, const void *value, size_t n, int64_t step, double wall)
{
    rush_bytes event = {0}, all = {0};
    rush_pb_double(&event, 1, wall ? wall : s && s->wall ? s->wall : rush_wall_time());
    if (step) rush_pb_int(&event, 2, step);
    rush_pb_data(&all, 1, value, n);
    rush_pb_message(&event, 5, &all);
    int failed = event.lost ? -1 : rush_summary_event(s, event.p, event.n);
    rush_bytes_end(&event);
    return failed;
}

int rush_summary_field(rush_summary *s, const char *tag, int field, rush_bytes *message, const char *plugin, const char *content, size_t ncontent,
                       int data_class, int64_t step)
{
    rush_bytes value = {0};
    rush_pb_text(&value, 1, tag);
    if (message) rush_pb_message(&value, field, message);
    if (plugin) {
        rush_bytes meta = {0}, about = {0};
        rush_pb_text(&about, 1, plugin);
        if (ncontent) rush_pb_data(&about, 2, content, ncontent);
        rush_pb_message(&meta, 1, &about);
        if (data_class) rush_pb_int(&meta, 4, data_class);
        rush_pb_message(&value, 9, &meta);
    }
    int failed = value.lost || rush_failed() ? -1 : rush_summary_value(s, value.p, value.n, step, 0);
    rush_bytes_end(&value);
    return failed;
}
