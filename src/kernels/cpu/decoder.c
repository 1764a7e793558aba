/* decoder.c - the steps of a language model between its products; decoder.h says which. */
#include "kernels/cpu/decoder.h"
#include "kernels/cpu/quick_exp.h"
#include "kernels/cpu/simd.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

static inline vf halves(const uint16_t *p)
{
#if defined(__AVX512F__)
    return (vf)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
#elif defined(__F16C__) && VBYTES == 32
    return (vf)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
#else
    vf v;
    for (int i = 0; i < VF; i++) v[i] = rush_f16_to_f32(p[i]);
    return v;
#endif
}

/* The sum of (x - less)^e, e being 1 or 2, in parts that floats hold well. */
static inline double sum_of(const float *x, int64_t n, float less, int e)
{
    double sum = 0;
    for (int64_t at = 0; at < n; at += 64) {
        float part = 0;
        for (int64_t p = at; p < RUSH_MIN(at + 64, n); p++) part += e == 1 ? x[p] - less : (x[p] - less) * (x[p] - less);
        sum += part;
    }
    return sum;
}

static void norm(const rush_norm *f, const float *x, float *to, int64_t m, int64_t n)
{
    for (int64_t i = 0; i < m; i++, x += n, to += n) {
        float mean = f->centred ? (float)(sum_of(x, n, 0, 1) / (double)n) : 0;
        float by = 1 / sqrtf((float)(sum_of(x, n, mean, 2) / (double)n) + f->eps);
        for (int64_t p = 0; p < n; p++) to[p] = (x[p] - mean) * by * f->weight[p];
        for (int64_t p = 0; p < n && f->bias; p++) to[p] += f->bias[p];
    }
}

static void turn(float *x, const float *turns, int64_t m, int64_t heads, int64_t head, int64_t dims, bool in_halves)
{
    for (int64_t i = 0; i < m; i++, turns += dims)
        for (int64_t h = 0; h < heads; h++, x += head)
            for (int64_t p = 0; p < dims / 2; p++) {
                float *a = x + (in_halves ? p : 2 * p), *b = in_halves ? a + dims / 2 : a + 1;
                float u = *a, v = *b, c = turns[2 * p], s = turns[2 * p + 1];
                *a = u * c - v * s;
                *b = u * s + v * c;
            }
}

typedef struct gating {
    float *x;
    const float *y;
} gating;

static void gate_part(void *arg, int64_t begin, int64_t end)
{
    const gating *g = arg;
#pragma omp simd
    for (int64_t i = begin; i < end; i++) g->x[i] = g->x[i] / (1 + exp_f32(-g->x[i])) * g->y[i];
}

static void gate(float *x, const float *y, int64_t n)
{
    gating g = {x, y};
    rush_parallel_for(n, 16384, gate_part, &g);
}

static void gelu_part(void *arg, int64_t begin, int64_t end)
{
    float *x = arg;
#pragma omp simd
    for (int64_t i = begin; i < end; i++) x[i] = x[i] / (1 + exp_f32(-1.5957691f * (x[i] + 0.044715f * x[i] * x[i] * x[i]))); /* (1 + tanh(y)) / 2 is 1 / (1 + exp(-2 y)) */
}

static void gelu(float *x, int64_t n) { rush_parallel_for(n, 16384, gelu_part, x); }

static void keep(const float *x, void *to, int64_t at, int64_t n, int64_t step, float *scale)
{
    float most = 0;
    for (int64_t i = 0; i < n && scale; i++) most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    float inverse = most > 0 && most < INFINITY ? 127 / most : 0;
    if (scale) *scale = inverse > 0 ? most / 127 : 0;
    for (int64_t i = 0; i < n; i++)
        if (scale) ((int8_t *)to)[at + i * step] = inverse > 0 ? (int8_t)(int32_t)(x[i] * inverse + copysignf(0.5f, x[i])) : 0;
        else ((uint16_t *)to)[at + i * step] = rush_f32_to_f16(x[i]);
}

/* ---- attention ---- */

enum { ROWS = 8, WIDE = 2 }; /* of a tile: rows, which share the keys; vectors */

/* Elements of the cache from `at` on. */
static inline __attribute__((always_inline)) vf remembered(bool bytes, const void *p, int64_t at)
{
    if (!bytes) return halves((const uint16_t *)p + at);
    int8_t few __attribute__((vector_size(VF)));
    memcpy(&few, (const int8_t *)p + at, sizeof few);
    return __builtin_convertvector(few, vf);
}

/* Scores of ROWS rows with `n` keys, a multiple of WIDE vectors. */
static inline __attribute__((always_inline)) void scores_of(bool bytes, const float *const q[ROWS], const rush_attend *a, int64_t h, int64_t n, float *to)
{
    const int64_t head = a->head, context = a->context;
    for (int64_t j = 0; j < n; j += WIDE * VF) {
        const int64_t first = (h * context + j / RUSH_KEYS * RUSH_KEYS) * head + j % RUSH_KEYS;
        vf s[ROWS][WIDE] = {0};
        for (int64_t d = 0; d < head; d++) {
            vf k[WIDE];
#pragma GCC unroll 2
            for (int x = 0; x < WIDE; x++) k[x] = remembered(bytes, a->keys, first + d * RUSH_KEYS + x * VF);
#pragma GCC unroll 8
            for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 2
                for (int x = 0; x < WIDE; x++) s[r][x] = vf_fma(vf_set(q[r][d]), k[x], s[r][x]);
        }
        for (int r = 0; r < ROWS; r++)
            for (int x = 0; x < WIDE; x++) vf_store(to + r * context + j + x * VF, bytes ? s[r][x] * vf_load(a->key_scale + h * context + j + x * VF) : s[r][x]);
    }
}

/* Elements [d, d + wide * VF) of the rows' sums of values, by the weights in s. */
static inline __attribute__((always_inline)) void mix(bool bytes, int wide, const float *s, const rush_attend *a, int64_t from, int64_t n, float *const to[ROWS], int rows, const float *by)
{
    vf sum[ROWS][WIDE] = {0};
    for (int64_t j = 0; j < n; j++) {
        vf v[WIDE];
#pragma GCC unroll 2
        for (int x = 0; x < wide; x++) v[x] = remembered(bytes, a->values, from + j * a->head + x * VF);
#pragma GCC unroll 8
        for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 2
            for (int x = 0; x < wide; x++) sum[r][x] = vf_fma(vf_set(s[r * a->context + j]), v[x], sum[r][x]);
    }
    for (int r = 0; r < rows; r++)
        for (int x = 0; x < wide; x++) vf_store(to[r] + x * VF, sum[r][x] * vf_set(by[r]));
}

/* The first n scores become weights, those after them nothing; what the weights sum to. */
static float weigh(float *s, int64_t n, int64_t whole, float scale)
{
    float most = -INFINITY, sum = 0;
    for (int64_t j = 0; j < n; j++) most = s[j] > most ? s[j] : most;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < n; j++) {
        float e = exp_negative_f32((s[j] - most) * scale);
        s[j] = e;
        sum += e;
    }
    for (int64_t j = n; j < whole; j++) s[j] = 0;
    return sum;
}

/* Rows [first, first + rows) of the m * heads / kv_heads that head `h` of keys and values serves. */
static inline __attribute__((always_inline)) void tile_of(bool bytes, const rush_attend *a, int64_t h, int64_t first, int rows, float *s)
{
    int64_t group = a->heads / a->kv_heads, last = a->position + (first + rows - 1) / group + 1, whole = (last + 63) / 64 * 64;
    const float *q[ROWS];
    float *to[ROWS], by[ROWS];
    for (int r = 0; r < ROWS; r++) { /* what is missing of a tile is its last row again */
        int64_t row = first + RUSH_MIN(r, rows - 1), at = (row / group * a->heads + h * group + row % group) * a->head;
        q[r] = a->q + at;
        to[r] = a->to + at;
    }
    scores_of(bytes, q, a, h, whole, s);
    for (int r = 0; r < ROWS; r++) {
        float *row = s + r * a->context;
        by[r] = 1 / weigh(row, a->position + (first + RUSH_MIN(r, rows - 1)) / group + 1, whole, 1 / sqrtf((float)a->head));
        for (int64_t j = 0; j < last && bytes; j++) row[j] *= a->value_scale[h * a->context + j];
    }
    for (int64_t d = 0; d < a->head;) {
        bool wide = d + WIDE * VF <= a->head;
        float *at[ROWS];
        for (int r = 0; r < ROWS; r++) at[r] = to[r] + d;
        if (wide) mix(bytes, WIDE, s, a, h * a->context * a->head + d, last, at, rows, by);
        else mix(bytes, 1, s, a, h * a->context * a->head + d, last, at, rows, by);
        d += (wide ? WIDE : 1) * VF;
    }
}

static void tile_of_halves(const rush_attend *a, int64_t h, int64_t first, int rows, float *s) { tile_of(false, a, h, first, rows, s); }
static void tile_of_bytes(const rush_attend *a, int64_t h, int64_t first, int rows, float *s) { tile_of(true, a, h, first, rows, s); }

typedef struct attending {
    const rush_attend *a;
    float *room; /* (threads, ROWS, context) */
    int64_t threads;
} attending;

/* Threads take tiles in turn, since later rows have more keys. */
static void attend_part(void *arg, int64_t begin, int64_t end)
{
    const attending *job = arg;
    const rush_attend *a = job->a;
    int64_t rows = a->m * (a->heads / a->kv_heads), tiles = (rows + ROWS - 1) / ROWS;
    for (int64_t thread = begin; thread < end; thread++)
        for (int64_t x = thread; x < tiles * a->kv_heads; x += job->threads) {
            int64_t first = x / a->kv_heads * ROWS;
            (a->key_scale ? tile_of_bytes : tile_of_halves)(a, x % a->kv_heads, first, (int)RUSH_MIN((int64_t)ROWS, rows - first), job->room + thread * ROWS * a->context);
        }
}

static int attend(const rush_attend *a)
{
    size_t got;
    attending job = {a, NULL, RUSH_MAX(rush_num_threads(), 1)};
    if (!(job.room = rush_block_alloc((size_t)(job.threads * ROWS * a->context) * sizeof(float), &got))) return -1;
    rush_parallel_for(job.threads, 1, attend_part, &job);
    rush_block_free(job.room, got);
    return 0;
}

/* ---- weights that are numbers ---- */

static inline __attribute__((always_inline)) vf load_as(rush_dtype d, const char *p)
{
    if (d == RUSH_F32) return vf_load((const float *)p);
    if (d == RUSH_F16) return halves((const uint16_t *)p);
    uint16_t h[VF];
    memcpy(h, p, sizeof h);
    vi v;
    for (int i = 0; i < VF; i++) v[i] = (int32_t)((uint32_t)h[i] << 16);
    return (vf)v;
}

static inline float one_as(rush_dtype d, const char *p)
{
    float f;
    uint16_t h;
    if (d == RUSH_F32) return memcpy(&f, p, 4), f;
    memcpy(&h, p, 2);
    return d == RUSH_F16 ? rush_f16_to_f32(h) : rush_bf16_to_f32(h);
}

typedef struct denseness {
    const float *a;
    const char *w;
    float *c;
    int64_t m, n, k;
} denseness;

static inline __attribute__((always_inline)) void dense_columns(rush_dtype d, const denseness *g, int64_t begin, int64_t end)
{
    const int64_t k = g->k, item = d == RUSH_F32 ? 4 : 2;
    for (int64_t j = begin; j < end; j++) {
        const char *w = g->w + j * k * item;
        for (int64_t i = 0; i < g->m; i += 4) {
            int rows = (int)RUSH_MIN(g->m - i, (int64_t)4);
            const float *a[4];
            vf s[4] = {0};
            float sum[4];
            int64_t p = 0;
            for (int r = 0; r < 4; r++) a[r] = g->a + (i + RUSH_MIN(r, rows - 1)) * k;
            for (; p + VF <= k; p += VF) {
                vf y = load_as(d, w + p * item);
#pragma GCC unroll 4
                for (int r = 0; r < 4; r++) s[r] = vf_fma(vf_load(a[r] + p), y, s[r]);
            }
            for (int r = 0; r < rows; r++) {
                sum[r] = vf_sum(s[r]);
                for (int64_t x = p; x < k; x++) sum[r] += a[r][x] * one_as(d, w + x * item);
                g->c[(i + r) * g->n + j] = sum[r];
            }
        }
    }
}

static void dense_f32(void *g, int64_t begin, int64_t end) { dense_columns(RUSH_F32, g, begin, end); }
static void dense_f16(void *g, int64_t begin, int64_t end) { dense_columns(RUSH_F16, g, begin, end); }
static void dense_bf16(void *g, int64_t begin, int64_t end) { dense_columns(RUSH_BF16, g, begin, end); }

static void dense(rush_dtype d, const float *a, const void *w, float *c, int64_t m, int64_t n, int64_t k)
{
    denseness g = {a, w, c, m, n, k};
    rush_parallel_for(n, RUSH_MAX(65536 / RUSH_MAX(m * k, 1), 1), d == RUSH_F32 ? dense_f32 : d == RUSH_F16 ? dense_f16 : dense_bf16, &g);
}

RUSH_KERNELS(decoder) = {.norm = norm, .turn = turn, .gate = gate, .gelu = gelu, .keep = keep, .attend = attend, .dense = dense};
