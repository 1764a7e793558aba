/* blocks.c - blocks of few bits to floats and back; blocks.def says which there are. */
#include "kernels/cpu/blocks_close.h"

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

static void from_float_part(void *arg, int64_t begin, int64_t end)
{
    const conversion *c = arg;
    for (int64_t x = begin; x < end; x++)
        block_close(c->type->number, c->floats + c->type->elements * x, c->blocks + x * c->type->bytes);
}

static void from_float(const rush_block_type *type, const float *from, void *blocks, int64_t n)
{
    conversion c = {type, blocks, (float *)from};
    rush_parallel_for(n / type->elements, 16384 / type->elements, from_float_part, &c);
}

/* ---- rows rounded to int8 ---- */

typedef struct rounding {
    const float *a;
    const rush_rounded *to;
} rounding;

/* Groups [begin, end) of 32 */
static void round_part(void *arg, int64_t begin, int64_t end)
{
    const rounding *job = arg;
    for (int64_t x = begin; x < end; x++) {
        const float *a = job->a + 32 * x;
        int8_t *q = job->to->q + 32 * x;
        float most = 0;
#pragma omp simd reduction(max : most)
        for (int i = 0; i < 32; i++) most = fabsf(a[i]) > most ? fabsf(a[i]) : most;
        float scale = most / 127, inverse = most > 0 ? 127 / most : 0;
        for (int i = 0; i < 32; i++) q[i] = (int8_t)(int32_t)(a[i] * inverse + copysignf(0.5f, a[i])); /* away from zero */
        job->to->scale[x] = scale;
        for (int h = 0; h < 2; h++) {
            int32_t sum = 0;
            for (int i = 0; i < 16; i++) sum += q[16 * h + i];
            job->to->sum[2 * x + h] = (float)sum * scale;
        }
    }
}

static void round_rows(const float *a, int64_t m, const rush_rounded *to)
{
    rounding job = {a, to};
    rush_parallel_for(m * to->k / 32, 1024, round_part, &job);
}

/* ---- products ---- */

static inline int32_t int_at(const void *p)
{
    int32_t x;
    memcpy(&x, p, 4);
    return x;
}

/* Elements [from, k) of a row of any type, whose blocks begin at w. Never within the loops that read blocks as they are: GCC then orders their loads so that memory
 * is read by a fifth slower. */
static __attribute__((noinline)) float opened_row(const rush_block_type *t, const uint8_t *w, const int8_t *a, const float *scale, const float *sum, int64_t from, int64_t k)
{
    const int group = t->group;
    uint8_t q[RUSH_BLOCK_MOST];
    float by[RUSH_BLOCK_MOST / 16], low[RUSH_BLOCK_MOST / 16], total = 0;
    for (int64_t at = from; at < k; at += t->elements, w += t->bytes) {
        block_open(t->number, w, q, by, low);
        for (int g = 0; g < t->elements / group; g++) {
            int32_t ints = 0, zeros = 0; /* apart: GCC 12 makes a wrong sum of products of (q - 128) * a with AVX512-VNNI */
            float of_a = 0;
            int64_t x = at + g * group;
            for (int i = 0; i < group; i++) ints += q[g * group + i] * a[x + i], zeros += a[x + i];
            for (int i = 0; i < group / 16; i++) of_a += sum[x / 16 + i];
            total += by[g] * scale[x / 32] * (float)(ints - t->zero * zeros) - low[g] * of_a;
        }
    }
    return total;
}

/* Some rows of the weight, opened: integers, four of each row side by side; scales and lows (with the zero's part) per group. */
typedef struct panel {
    int32_t *q;
    float *scale, *low;
} panel;

static inline size_t panel_bytes(int64_t k, int group, int lanes) { return (size_t)(k * lanes + 8 * (k / group) * lanes); }
static inline panel panel_at(char *room, int64_t k, int group, int lanes)
{
    float *scale = (float *)(room + k * lanes);
    return (panel){(int32_t *)room, scale, scale + k / group * lanes};
}

#if defined(__AVX2__)
static inline float eight_of(__m256 v)
{
    float x[8], s = 0;
    _mm256_storeu_ps(x, v);
    for (int i = 0; i < 8; i++) s += x[i];
    return s;
}

/* The 16 scales of Q3_K: four bits of each in eight bytes, two in four. */
static inline __m128i six_bits_less_32(const uint8_t *s)
{
    __m128i low = _mm_loadl_epi64((const __m128i *)s), high = _mm_set1_epi32(int_at(s + 8)), four = _mm_set1_epi8(15);
    low = _mm_unpacklo_epi64(_mm_and_si128(low, four), _mm_and_si128(_mm_srli_epi16(low, 4), four));
    high = _mm_and_si128(_mm_srlv_epi32(high, _mm_setr_epi32(0, 2, 4, 6)), _mm_set1_epi8(3));
    return _mm_sub_epi8(_mm_or_si128(low, _mm_slli_epi16(high, 4)), _mm_set1_epi8(32));
}

#define F(x) x##_pairs
#define FOURS 0
#include "kernels/cpu/blocks_product.inc"
#if defined(__AVX512F__)
#define HAS_FOURS 1
#pragma GCC push_options
#pragma GCC target("avx512vnni")
#define F(x) x##_fours
#define FOURS 1
#include "kernels/cpu/blocks_product.inc"
#pragma GCC pop_options
#endif
#else
static void rows_plain(const rush_block_product *p, int64_t begin, int64_t end, char *room)
{
    const rush_block_type *t = p->type;
    int64_t k = p->a->k, step = k / t->elements * t->bytes;
    for (int64_t j = begin; j < end; j++)
        for (int64_t i = 0; i < p->m; i++)
            p->c[i * p->n + j] = opened_row(t, (const uint8_t *)p->w + j * step, p->a->q + i * k, p->a->scale + i * (k / 32),
                                            p->a->sum + i * (k / 16), 0, k);
}
#endif

enum { PIECE = 1 << 16, FEW = 6, MOST_SHARES = 64 }; /* bytes of a piece of few rows; rows that are no longer few */

/* The columns of several products in pieces. Each thread has a share that lies together, so that it reads memory in order, and helps the others when it is done:
 * processors are seldom equally fast. Of a few rows it takes a third of what is left at a time, in the end single pieces. */
typedef struct sharing {
    void (*columns)(const rush_block_product *, int64_t begin, int64_t end, char *room);
    void (*ready)(const rush_rounded *, int64_t m, char *room); /* done by each thread before, or NULL */
    const rush_block_product *p;
    int64_t piece, pieces; /* columns of a piece; how many pieces all products have */
    char *room;            /* of each thread, for a panel or what rows of Q4_0 ask */
    size_t room_bytes;
    int64_t threads;
    struct {
        _Alignas(64) atomic_llong next;
    } share[MOST_SHARES]; /* the next piece of each */
} sharing;

static int64_t pieces_of(const sharing *s, const rush_block_product *p) { return (p->n + s->piece - 1) / s->piece; }
static int64_t share_begin(const sharing *s, int64_t thread) { return s->pieces * thread / s->threads; }

static void take_piece(const sharing *s, int64_t x, char *room)
{
    const rush_block_product *p = s->p;
    for (; x >= pieces_of(s, p); p++) x -= pieces_of(s, p);
    s->columns(p, x * s->piece, RUSH_MIN((x + 1) * s->piece, p->n), room);
}

/* Threads [begin, end) of so many. */
static void take_pieces(void *arg, int64_t begin, int64_t end)
{
    sharing *s = arg;
    for (int64_t thread = begin; thread < end; thread++) {
        char *room = s->room + (size_t)thread * s->room_bytes;
        if (s->ready) s->ready(s->p->a, s->p->m, room);
        for (int64_t i = 0; i < s->threads; i++) {
            int64_t of = (thread + i) % s->threads, first = share_begin(s, of), n = share_begin(s, of + 1) - first;
            long long at = atomic_load_explicit(&s->share[of].next, memory_order_relaxed);
            while (at < n) {
                int64_t many = s->p->m < FEW ? (n - at + 2) / 3 : 1; /* to take one waits for all of memory that was asked for */
                if (!atomic_compare_exchange_weak_explicit(&s->share[of].next, &at, at + many, memory_order_relaxed, memory_order_relaxed)) continue;
                for (int64_t x = first + at; many; x++, many--) take_piece(s, x, room);
                at = atomic_load_explicit(&s->share[of].next, memory_order_relaxed);
            }
        }
    }
}

static int products(const rush_block_product *p, int n)
{
    int64_t k = p->a->k, work = 0;
    sharing s = {.p = p, .piece = RUSH_MAX(PIECE / RUSH_MAX(k / p->type->elements * p->type->bytes, 1), 1)};
#if defined(__AVX2__)
    bool few = p->m < FEW;
    int lanes = 8;
    s.columns = few ? rows_pairs : panels_pairs;
#if HAS_FOURS
    if (__builtin_cpu_supports("avx512vnni")) {
        s.columns = few ? rows_fours : panels_fours, lanes = 16;
        for (int i = 0; i < n && few; i++)
            if (p[i].type->number == RUSH_BLOCK_Q4_0) s.ready = make_ready, s.room_bytes = ready_bytes(p->a, p->m);
    }
#endif
    if (!few) s.piece = lanes;
    for (int i = 0; i < n && !few; i++) s.room_bytes = RUSH_MAX(s.room_bytes, (panel_bytes(k, p[i].type->group, lanes) + 63) / 64 * 64);
#else
    s.columns = rows_plain;
#endif
    for (int i = 0; i < n; i++) s.pieces += pieces_of(&s, &p[i]), work += p->m * k * p[i].n;
    s.threads = RUSH_MAX(RUSH_MIN(RUSH_MIN(rush_num_threads(), work >> 16), MOST_SHARES), 1);
    size_t got = 0;
    if (s.room_bytes && !(s.room = rush_block_alloc(s.room_bytes * (size_t)s.threads, &got))) return -1;
    rush_parallel_for(s.threads, 1, take_pieces, &s);
    if (s.room) rush_block_free(s.room, got);
    return 0;
}

RUSH_KERNELS(blocks) = {.to_float = to_float, .from_float = from_float, .round = round_rows, .products = products};
