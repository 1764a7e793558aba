/* blocks.c - blocks of few bits to floats and back; blocks.def says which there are. */
#include "kernels/cpu/blocks_open.h"

#include <math.h>

typedef struct conversion {
    const rush_block_type *type;
    uint8_t *blocks;
    float *floats;
} conversion;

/* Blocks [begin, end) */
static void to_float_part(void *arg, int64_t begin, int64_t end)
{
    const conversion *c = arg;
    const int elements = c->type->elements, group = c->type->group, zero = c->type->zero;
    uint8_t q[RUSH_BLOCK_MOST];
    float scale[RUSH_BLOCK_MOST / 16], low[RUSH_BLOCK_MOST / 16];
    for (int64_t x = begin; x < end; x++) {
        float *to = c->floats + x * elements;
        block_open(c->type->number, c->blocks + x * c->type->bytes, q, scale, low);
        for (int g = 0; g < elements / group; g++)
            for (int i = g * group; i < (g + 1) * group; i++) to[i] = scale[g] * (float)(q[i] - zero) - low[g];
    }
}

static void to_float(const rush_block_type *type, const void *blocks, float *to, int64_t n)
{
    conversion c = {type, (uint8_t *)blocks, to};
    rush_parallel_for(n / type->elements, 16384 / type->elements, to_float_part, &c);
}

static inline void half_put(uint8_t *p, float f)
{
    uint16_t h = rush_f32_to_f16(f);
    p[0] = (uint8_t)h, p[1] = (uint8_t)(h >> 8);
}

/* The largest number, by its distance from zero, becomes -8. */
static void Q4_0_close(const float *x, uint8_t *b)
{
    float most = x[0];
    for (int i = 1; i < 32; i++) most = fabsf(x[i]) > fabsf(most) ? x[i] : most;
    float scale = most / -8, inverse = scale == 0 ? 0 : 1 / scale;
    uint8_t q[32];
    for (int i = 0; i < 32; i++) q[i] = (uint8_t)fminf(fmaxf(truncf(x[i] * inverse + 8.5f), 0), 15);
    half_put(b, scale);
    for (int i = 0; i < 16; i++) b[2 + i] = (uint8_t)(q[i] | q[16 + i] << 4);
}

static void Q8_0_close(const float *x, uint8_t *b)
{
    float most = 0;
    for (int i = 0; i < 32; i++) most = fmaxf(most, fabsf(x[i]));
    float scale = most / 127, inverse = scale == 0 ? 0 : 1 / scale;
    half_put(b, scale);
    for (int i = 0; i < 32; i++) b[2 + i] = (uint8_t)(int8_t)fminf(fmaxf(roundf(x[i] * inverse), -128), 127);
}

static void from_float_part(void *arg, int64_t begin, int64_t end)
{
    const conversion *c = arg;
    for (int64_t x = begin; x < end; x++)
        (c->type->number == RUSH_BLOCK_Q4_0 ? Q4_0_close : Q8_0_close)(c->floats + 32 * x, c->blocks + x * c->type->bytes);
}

static void from_float(const rush_block_type *type, const float *from, void *blocks, int64_t n)
{
    conversion c = {type, blocks, (float *)from};
    rush_parallel_for(n / 32, 512, from_float_part, &c);
}

RUSH_KERNELS(blocks) = {.to_float = to_float, .from_float = from_float};
