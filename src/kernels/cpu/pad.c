/* pad.c - planes whose border repeats what is inside. Rows are copied whole but for their two ends. */
#include "kernels/cpu/pad.h"

static inline void one(char *d, const char *s, size_t size)
{
    switch (size) {
    case 1: *d = *s; break;
    case 2: memcpy(d, s, 2); break;
    case 4: memcpy(d, s, 4); break;
    case 8: memcpy(d, s, 8); break;
    default: memcpy(d, s, size);
    }
}

static void forward(const rush_pad *p, char *out, const char *in, int64_t begin, int64_t end)
{
    int64_t size = (int64_t)p->size, row = p->in[2] * size, a = begin / p->out[1] % p->out[0], b = begin % p->out[1];
    const int64_t *map = p->map[2];
    in += begin / p->out[1] / p->out[0] * p->in[0] * p->in[1] * row;
    for (char *d = out + begin * p->out[2] * size; begin < end; ++begin, d += p->out[2] * size) {
        const char *s = in + (p->map[0][a] * p->in[1] + p->map[1][b]) * row;
        for (int64_t c = 0; c < p->begin; c++) one(d + c * size, s + map[c] * size, p->size);
        if (p->end > p->begin) memcpy(d + p->begin * size, s + map[p->begin] * size, (size_t)((p->end - p->begin) * size));
        for (int64_t c = p->end; c < p->out[2]; c++) one(d + c * size, s + map[c] * size, p->size);
        if (++b < p->out[1]) continue;
        b = 0;
        if (++a < p->out[0]) continue;
        a = 0;
        in += p->in[0] * p->in[1] * row;
    }
}

#define T float
#define NAME backward_f32
#include "kernels/cpu/pad.inc"
#define T double
#define NAME backward_f64
#include "kernels/cpu/pad.inc"

RUSH_KERNELS(pad) = {.forward = forward, .backward_f32 = backward_f32, .backward_f64 = backward_f64};
