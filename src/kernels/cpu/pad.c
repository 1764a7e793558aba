/* pad.c - planes whose border repeats what is inside. Rows are copied whole but for their two ends. */
#include "kernels/cpu/pad.h"

static inline void one(char *d, const char *s, size_t size)
{
    switch (size) {
    case 1: *d = *s; break;
    case 2: memcpy(d, s, 2); break;
    case 4: memcpy(d, s, 4); break;
    case 8: memcpy(d, s, 8); break;
    default: memcpy(d, s, 16);
    }
}

static void forward(const rush_pad *p, char *out, const char *in)
{
    int64_t size = (int64_t)p->size, row = p->in[2] * size;
    const int64_t *map = p->map[2];
    for (int64_t a = 0; a < p->out[0]; a++)
        for (int64_t b = 0; b < p->out[1]; b++) {
            const char *s = in + (p->map[0][a] * p->in[1] + p->map[1][b]) * row;
            char *d = out + (a * p->out[1] + b) * p->out[2] * size;
            for (int64_t c = 0; c < p->begin; c++) one(d + c * size, s + map[c] * size, p->size);
            if (p->end > p->begin) memcpy(d + p->begin * size, s + map[p->begin] * size, (size_t)((p->end - p->begin) * size));
            for (int64_t c = p->end; c < p->out[2]; c++) one(d + c * size, s + map[c] * size, p->size);
        }
}

#define T float
#define NAME backward_f32
#include "kernels/cpu/pad.inc"
#define T double
#define NAME backward_f64
#include "kernels/cpu/pad.inc"

RUSH_KERNELS(pad) = {.forward = forward, .backward_f32 = backward_f32, .backward_f64 = backward_f64};
