/* onnx_wire.c - protobuf's wire format, as ONNX files have it.
 *
 * Not by a library: those make an object of each message, so that a file of small ones takes many times its size, and copy
 * the weights; here messages are read where they lie. Every length is compared with the bytes that are left.
 */
#include "graph/onnx.h"

static int damaged(void) { return rush_fail(RUSH_VALUE_ERROR, "the ONNX file is damaged: a message ends too early, or is none"); }

static int varint(rush_wire *w, uint64_t *n)
{
    *n = 0;
    for (int shift = 0; shift < 70 && w->p < w->end; shift += 7) {
        uint8_t b = *w->p++;
        if (shift < 64) *n |= (uint64_t)(b & 127) << shift;
        if (!(b & 128)) return 0;
    }
    return damaged();
}

static int fixed(rush_wire *w, int bytes, uint64_t *n)
{
    if (w->end - w->p < bytes) return damaged();
    *n = 0;
    for (int i = 0; i < bytes; ++i) *n |= (uint64_t)*w->p++ << 8 * i;
    return 0;
}

int rush_wire_next(rush_wire *w, rush_wire_field *f)
{
    uint64_t key;
    if (rush_failed()) return -1;
    if (w->p == w->end) return 0;
    if (varint(w, &key)) return -1;
    *f = (rush_wire_field){.number = (uint32_t)(key >> 3), .type = key & 7};
    if (!f->number || key >> 32) return damaged();
    switch (f->type) {
    case 0: return varint(w, &f->n) ? -1 : 1;
    case 1: return fixed(w, 8, &f->n) ? -1 : 1;
    case 5: return fixed(w, 4, &f->n) ? -1 : 1;
    case 2:
        if (varint(w, &f->n)) return -1;
        if (f->n > (uint64_t)(w->end - w->p)) return damaged();
        f->bytes = (rush_wire){w->p, w->p + f->n};
        w->p += f->n;
        return 1;
    default: return damaged();
    }
}

bool rush_wire_find(rush_wire w, uint32_t number, rush_wire_field *found)
{
    bool any = false;
    rush_wire_field f;
    while (rush_wire_next(&w, &f) > 0)
        if (f.number == number) *found = f, any = true;
    return any && !rush_failed();
}

size_t rush_wire_count(rush_wire w, uint32_t number)
{
    size_t n = 0;
    rush_wire_field f;
    while (rush_wire_next(&w, &f) > 0) n += f.number == number;
    return n;
}

bool rush_wire_is(rush_wire w, const char *text)
{
    size_t n = strlen(text);
    return (size_t)(w.end - w.p) == n && !memcmp(w.p, text, n);
}

char *rush_wire_text(rush_graph *g, rush_wire w)
{
    size_t n = (size_t)(w.end - w.p);
    RUSH_CHECK_NULL(n < 4096 && !memchr(w.p ? (const char *)w.p : "", 0, n), RUSH_VALUE_ERROR, "the ONNX file is damaged: a name is long, or holds a zero");
    char *copy = rush_graph_alloc(g, n + 1);
    if (copy && n) memcpy(copy, w.p, n);
    return copy;
}

int rush_wire_numbers(const rush_wire_field *f, int width, int (*put)(void *, uint64_t), void *to)
{
    if (f->type != 2) return put(to, f->n);
    rush_wire w = f->bytes;
    uint64_t n = 0;
    while (w.p < w.end)
        if ((width ? fixed(&w, width, &n) : varint(&w, &n)) || put(to, n)) return -1;
    return 0;
}
