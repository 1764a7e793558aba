/* sort.c - sorting and what is found by it: top values, k-th values, medians, modes, quantiles.
 *
 * A line of elements becomes a line of keys, unsigned numbers in the same order (NaN above all, both zeros equal), with
 * their places; keys are sorted, stably, by an 8-bit radix, and the result is gathered by place. Descending order sorts
 * the complements, so equal elements keep their order either way. Where nobody asks for that, equal elements come in the
 * order that PyTorch's sort leaves them in: introsort.c.
 */
#include "kernels/cpu/topk.h"
#include "op/formula.h"
#include "ops/geometry.h"
#include "ops/order/introsort.h"
#include "ops/reduce/reduce.h"
#include <math.h>

typedef rush_pair pair;

/* ---- keys ---- */

static uint64_t key_of_double(double x)
{
    union { double f; uint64_t u; } v = {.f = x};
    if (x != x) return UINT64_MAX;
    if (x == 0) v.u = 0;
    return v.u >> 63 ? ~v.u : v.u | (uint64_t)1 << 63;
}

static uint64_t key_of_float(float x)
{
    union { float f; uint32_t u; } v = {.f = x};
    if (x != x) return UINT32_MAX;
    if (x == 0) v.u = 0;
    return v.u >> 31 ? (uint32_t)~v.u : v.u | 0x80000000u;
}

static inline __attribute__((always_inline)) uint64_t key_of(const void *x, rush_dtype d)
{
    switch (d) {
    case RUSH_F64: return key_of_double(*(const double *)x);
    case RUSH_F32: return key_of_float(*(const float *)x);
    case RUSH_F16: return key_of_float(rush_f16_to_f32(*(const uint16_t *)x));
    case RUSH_BF16: return key_of_float(rush_bf16_to_f32(*(const uint16_t *)x));
    case RUSH_I64: return (uint64_t)*(const int64_t *)x ^ (uint64_t)1 << 63;
    case RUSH_U64: return *(const uint64_t *)x;
    case RUSH_I32: return (uint32_t)*(const int32_t *)x ^ 0x80000000u;
    case RUSH_U32: return *(const uint32_t *)x;
    case RUSH_I16: return (uint32_t)(*(const int16_t *)x + 0x8000);
    case RUSH_U16: return *(const uint16_t *)x;
    case RUSH_I8: return (uint32_t)(*(const int8_t *)x + 0x80);
    default: return *(const uint8_t *)x;
    }
}

/* n elements, `step` bytes apart, to keys; *bytes says how many low bytes of them count. */
static void make_keys(pair *p, const char *x, rush_dtype d, int64_t step, int64_t n, bool descending, int *bytes)
{
    *bytes = rush_dtypes[d].size > 4 ? 8 : 4;
    uint64_t flip = !descending ? 0 : *bytes == 8 ? UINT64_MAX : UINT32_MAX;
    if (d == RUSH_I64 && step == 8) /* the types of most keys, without choosing at each */
        for (int64_t i = 0; i < n; ++i) p[i] = (pair){key_of(x + 8 * i, RUSH_I64) ^ flip, i};
    else if (d == RUSH_F32 && step == 4)
        for (int64_t i = 0; i < n; ++i) p[i] = (pair){key_of(x + 4 * i, RUSH_F32) ^ flip, i};
    else
        for (int64_t i = 0; i < n; ++i) p[i] = (pair){key_of(x + step * i, d) ^ flip, i};
}

/* The same of keys of which four bytes count, from the least one on; one word a pair: see introsort.h. */
static void make_packed(uint64_t *p, const char *x, rush_dtype d, int64_t step, int64_t n, bool descending, uint64_t least)
{
    uint64_t flip = descending ? UINT32_MAX : 0;
    if (d == RUSH_F32 && step == 4)
        for (int64_t i = 0; i < n; ++i) p[i] = (key_of(x + 4 * i, RUSH_F32) ^ flip) << 32 | (uint64_t)i;
    else
        for (int64_t i = 0; i < n; ++i) p[i] = ((key_of(x + step * i, d) - least) ^ flip) << 32 | (uint64_t)i;
}

/* How far apart integers are, and the key of the least. */
static uint64_t span_of(const char *x, int64_t step, int64_t n, uint64_t *least)
{
    int64_t low = INT64_MAX, high = INT64_MIN;
    for (int64_t i = 0; i < n; ++i) {
        int64_t v = *(const int64_t *)(x + step * i);
        low = RUSH_MIN(low, v), high = RUSH_MAX(high, v);
    }
    *least = key_of(&low, RUSH_I64);
    return (uint64_t)high - (uint64_t)low;
}

/* Sorts p by key, stably; `spare` has room for as many. */
static void sort_pairs(pair *p, pair *spare, int64_t n, int bytes)
{
    int64_t (*count)[256] = n > 48 ? malloc(sizeof(int64_t[8][256])) : NULL;
    if (!count) { /* few, or no memory for the counts: insertion */
        for (int64_t i = 1; i < n; ++i) {
            pair x = p[i];
            int64_t j = i;
            for (; j > 0 && p[j - 1].key > x.key; --j) p[j] = p[j - 1];
            p[j] = x;
        }
        return;
    }
    memset(count, 0, sizeof(int64_t[8][256]));
    uint64_t differ = 0;
    for (int64_t i = 1; i < n; ++i) differ |= p[i].key ^ p[0].key;
    for (int b = 0; b < bytes; ++b)
        for (int64_t i = 0; i < n && differ >> (8 * b) & 255; ++i) ++count[b][p[i].key >> (8 * b) & 255];
    pair *from = p, *to = spare;
    for (int b = 0; b < bytes; ++b) {
        if (!(differ >> (8 * b) & 255)) continue; /* all alike in this byte */
        int64_t sum = 0;
        for (int k = 0; k < 256; ++k) {
            int64_t c = count[b][k];
            count[b][k] = sum;
            sum += c;
        }
        for (int64_t i = 0; i < n; ++i) to[count[b][from[i].key >> (8 * b) & 255]++] = from[i];
        pair *swap = from;
        from = to;
        to = swap;
    }
    if (from != p) memcpy(p, from, sizeof *p * n);
    free(count);
}

static bool has_equals(const pair *p, int64_t n)
{
    for (int64_t i = 1; i < n; ++i)
        if (p[i].key == p[i - 1].key) return true;
    return false;
}

/* Are there equal elements, most likely? Of long lines the introsort is the faster one anyway. */
static bool expects_equals(size_t item, int64_t n, uint64_t span) { return n >= (item == 1 ? 16 : item == 2 ? 256 : item == 4 ? 2048 : 65536) || (uint64_t)n * (uint64_t)n > span; }

/* The k-th of n pairs, in the order that sort_pairs would give: byte by byte only those that it can be among. Has another its key? */
static pair select_pair(pair *p, pair *spare, int64_t n, int64_t k, int bytes, bool *shared)
{
    for (int b = bytes - 1; b >= 0 && n > 64; --b) {
        int64_t count[256] = {0}, kept = 0;
        int c = 0;
        for (int64_t i = 0; i < n; ++i) ++count[p[i].key >> (8 * b) & 255];
        for (; k >= count[c]; ++c) k -= count[c];
        if (count[c] == n) continue;
        for (int64_t i = 0; i < n; ++i) {
            p[kept] = p[i];
            kept += (int)(p[i].key >> (8 * b) & 255) == c;
        }
        n = kept;
    }
    sort_pairs(p, spare, n, bytes);
    *shared = (k > 0 && p[k - 1].key == p[k].key) || (k + 1 < n && p[k + 1].key == p[k].key);
    return p[k];
}

static void exchange(pair *a, pair *b)
{
    pair x = *a;
    *a = *b;
    *b = x;
}

static void in_order(pair *a, pair *b)
{
    if (a->key > b->key) exchange(a, b);
}

/* Puts the k-th of n pairs in place k by Hoare's FIND with the middle of three as pivot, which decides whose place PyTorch gives
 * of equal elements. False where that takes more than a few passes, as it does for lines that are made for it. */
static bool find(pair *p, int64_t n, int64_t k)
{
    int64_t low = 0, high = n - 1, steps = 32 * n;
    while (high > low + 1) {
        exchange(&p[low + (high - low) / 2], &p[low + 1]);
        in_order(&p[low + 1], &p[high]);
        in_order(&p[low], &p[high]);
        in_order(&p[low + 1], &p[low]);
        int64_t i = low + 1, j = high;
        const uint64_t pivot = p[low].key;
        for (;;) {
            while (p[++i].key < pivot) {}
            while (p[--j].key > pivot) {}
            if (j < i) break;
            exchange(&p[i], &p[j]);
        }
        exchange(&p[low], &p[j]);
        if ((steps -= high - low) < 0) return false;
        if (j <= k) low = i;
        if (j >= k) high = j - 1;
    }
    if (high == low + 1) in_order(&p[low], &p[high]);
    return true;
}

/* ---- lines along a dim ---- */

typedef struct lines {
    rush_tensor *x;          /* contiguous, (outer, n, inner) */
    int64_t n, inner, k;     /* k: how many come out, or which one */
    bool descending, ignore_nan, top;
    bool swaps;              /* equal elements come in the order of an unstable sort */
    int what;
    char *values;            /* (outer, k, inner) */
    int64_t *indices;
    size_t item;
    atomic_bool failed;
} lines;

enum { SORT, KTH, MEDIAN, MODE };
enum { DESCENDING = 1, IGNORE_NAN = 2, TOP = 4, STABLE = 8 }; /* how */

static bool is_nan_key(const lines *l, uint64_t key, int bytes)
{
    return rush_dtype_is_float(l->x->dtype) && key == (bytes == 8 ? UINT64_MAX : UINT32_MAX);
}

static void put(lines *l, int64_t line, int64_t row, const char *x, int64_t at)
{
    int64_t outer = line / l->inner, c = line % l->inner, rows = l->what == SORT ? l->k : 1;
    int64_t to = (outer * rows + row) * l->inner + c;
    memcpy(l->values + to * l->item, x + at * l->inner * l->item, l->item);
    l->indices[to] = at;
}

/* The sorted line; its pairs are in p, or packed. */
static void put_sorted(lines *l, int64_t line, const char *x, const pair *p, const uint64_t *packed)
{
    if (l->inner != 1 || (l->item != 4 && l->item != 8)) {
        for (int64_t i = 0; i < l->k; ++i) put(l, line, i, x, packed ? (int64_t)(uint32_t)packed[i] : p[i].at);
        return;
    }
    char *to = l->values + line * l->k * (int64_t)l->item;
    int64_t *places = l->indices + line * l->k;
    int64_t k = l->k;
    if (packed)
        for (int64_t i = 0; i < k; ++i) places[i] = (int64_t)(uint32_t)packed[i];
    else
        for (int64_t i = 0; i < k; ++i) places[i] = p[i].at;
    if (l->item == 4)
        for (int64_t i = 0; i < k; ++i) ((uint32_t *)(void *)to)[i] = ((const uint32_t *)(const void *)x)[places[i]];
    else
        for (int64_t i = 0; i < k; ++i) ((uint64_t *)(void *)to)[i] = ((const uint64_t *)(const void *)x)[places[i]];
}

/* The k first of a line in place, equal ones where PyTorch finds them; packed, or pairs. */
static bool top_of(pair *p, const char *x, rush_dtype d, int64_t step, int64_t n, int64_t k, bool descending)
{
    int bytes;
    bool packed = rush_dtypes[d].size <= 4 && n <= UINT32_MAX;
    if (packed) {
        make_packed((uint64_t *)p, x, d, step, n, descending, 0);
        rush_introsort_top_packed((uint64_t *)p, n, k);
    } else {
        make_keys(p, x, d, step, n, descending, &bytes);
        rush_introsort_top(p, n, k);
    }
    return packed;
}

/* A whole line of single bytes, stably: how many of each there are says where each goes. */
static void count_line(lines *l, int64_t line, const char *x, int64_t step)
{
    const uint8_t flip = (l->descending ? 255 : 0) ^ (l->x->dtype == RUSH_I8 ? 0x80 : 0);
    int64_t from[257] = {0}, first = line / l->inner * l->n * l->inner + line % l->inner;
    for (int64_t i = 0; i < l->n; ++i) ++from[((uint8_t)x[i * step] ^ flip) + 1];
    for (int k = 0; k < 256; ++k) from[k + 1] += from[k];
    for (int64_t i = 0; i < l->n; ++i) {
        const int64_t to = first + from[(uint8_t)x[i * step] ^ flip]++ * l->inner;
        l->values[to] = x[i * step];
        l->indices[to] = i;
    }
}

static void one_line(lines *l, int64_t line, pair *p, pair *spare)
{
    int bytes;
    int64_t n = l->n, step = l->inner * (int64_t)l->item;
    const char *x = (const char *)rush_ptr(l->x) + (line / l->inner * n * l->inner + line % l->inner) * l->item;
    if (l->top) {
        bool packed = top_of(p, x, (rush_dtype)l->x->dtype, step, n, l->k, l->descending);
        return put_sorted(l, line, x, p, packed ? (uint64_t *)p : NULL);
    }
    if (l->what == SORT && !l->swaps && l->item == 1 && n > 48) return count_line(l, line, x, step);
    uint64_t least = 0, span = l->swaps && l->x->dtype == RUSH_I64 ? span_of(x, step, n, &least) : UINT64_MAX;
    bool shared, plain = l->swaps && !expects_equals(l->item, n, span); /* any sort will do, unless it finds equal elements */
    if (!l->swaps || plain) {
        make_keys(p, x, l->x->dtype, step, n, l->descending, &bytes);
        if (l->what == SORT) sort_pairs(p, spare, n, bytes);
        else if (l->what == MODE) rush_introsort(p, n);
    }
    if (l->swaps && (!plain || has_equals(p, n))) {
        if ((l->item <= 4 || span <= UINT32_MAX) && n <= UINT32_MAX) {
            uint64_t *packed = (uint64_t *)p;
            make_packed(packed, x, l->x->dtype, step, n, l->descending, least);
            rush_introsort_packed(packed, n);
            return put_sorted(l, line, x, NULL, packed);
        }
        make_keys(p, x, l->x->dtype, step, n, l->descending, &bytes);
        rush_introsort(p, n);
    }
    if (l->what == SORT) {
        put_sorted(l, line, x, p, NULL);
    } else if (l->what == KTH) {
        int64_t at = select_pair(p, spare, n, l->k, bytes, &shared).at;
        if (shared) {
            make_keys(p, x, l->x->dtype, step, n, false, &bytes);
            if (find(p, n, l->k)) at = p[l->k].at;
        }
        put(l, line, 0, x, at);
    } else if (l->what == MEDIAN) {
        int64_t valid = n;
        for (int64_t i = 0; i < n; ++i) valid -= is_nan_key(l, p[i].key, bytes);
        int64_t which = l->ignore_nan ? (valid ? (valid - 1) / 2 : 0) : valid < n ? valid : (n - 1) / 2;
        put(l, line, 0, x, select_pair(p, spare, n, which, bytes, &shared).at);
    } else { /* the longest run of equal keys, the first of them; its last place */
        int64_t best = 0, longest = 0;
        for (int64_t i = 0, j; i < n; i = j) {
            for (j = i + 1; j < n && p[j].key == p[i].key; ++j) {}
            if (j - i > longest) longest = j - i, best = j - 1;
        }
        put(l, line, 0, x, p[best].at);
    }
}

static void run_lines(void *arg, int64_t begin, int64_t end)
{
    lines *l = arg;
    size_t got;
    pair *p = rush_block_alloc(sizeof *p * 2 * (size_t)RUSH_MAX(l->n, 1), &got); /* its pages are there already */
    if (!p) {
        l->failed = true;
        return;
    }
    for (int64_t i = begin; i < end; ++i) one_line(l, i, p, p + l->n);
    rush_block_free(p, got);
}

/* Whole lines of more than 16 elements; PyTorch sorts one long line of integers, upwards, by a radix. */
static bool swaps_equals(int what, unsigned how, const rush_tensor *x, int64_t n)
{
    bool whole = x->dtype != RUSH_BOOL && rush_dtypes[x->dtype].category <= 1;
    return what == SORT && !(how & (STABLE | TOP)) && n > 16 && !(whole && x->ndim == 1 && n >= 32768 && !(how & DESCENDING));
}

static void run(int what, unsigned how, rush_tensor *x, int64_t dim, int64_t k, rush_tensor *values, rush_tensor *indices)
{
    int d = rush_dim_wrap(dim, x->ndim);
    lines l = {.x = rush_contiguous_copy(x), .n = x->ndim ? x->size[d] : 1, .inner = 1, .k = k, .descending = how & DESCENDING, .ignore_nan = how & IGNORE_NAN, .top = how & TOP,
               .swaps = x->ndim && x->stride[d] && swaps_equals(what, how, x, x->size[d]), .what = what, .item = rush_dtypes[x->dtype].size};
    int64_t outer = 1;
    for (int i = 0; i < d; ++i) outer *= x->size[i];
    for (int i = d + 1; i < x->ndim; ++i) l.inner *= x->size[i];
    if (!l.x || !values->numel) return;
    rush_tensor *v = rush_contiguous(values) ? values : rush_tensor_new(values->dtype, values->device, values->ndim, values->size);
    rush_tensor *at = rush_contiguous(indices) ? indices : rush_tensor_new(RUSH_I64, indices->device, indices->ndim, indices->size);
    if (!v || !at) return;
    l.values = rush_ptr(v);
    l.indices = rush_ptr(at);
    rush_parallel_for(outer * l.inner, RUSH_MAX(1, 4096 / RUSH_MAX(l.n, 1)), run_lines, &l);
    if (l.failed) rush_fail(RUSH_MEMORY_ERROR, "out of memory for lines of %lld elements", (long long)l.n);
    if (v != values) rush_copy_into(values, v);
    if (at != indices) rush_copy_into(indices, at);
}

static int check(const rush_tensor *x, int64_t dim)
{
    RUSH_CHECK(!rush_dtype_is_complex(x->dtype), RUSH_RUNTIME_ERROR, "Sort currently does not support complex dtypes on CPU");
    return rush_dim_wrap(dim, x->ndim);
}

/* ---- sort, topk ---- */

static int sort_shape_of(const rush_tensor *x, int64_t dim, rush_value *out)
{
    if (check(x, dim) < 0) return -1;
    return rush_out_like(out, 0, x, x->dtype) && rush_out_like(out, 1, x, RUSH_I64) ? 0 : -1;
}

static int stable_shape(const rush_op *op, const rush_value *in, rush_value *out) { return sort_shape_of(in[0].t, in[2].i, out); }
static int plain_shape(const rush_op *op, const rush_value *in, rush_value *out) { return sort_shape_of(in[0].t, in[1].i, out); }

static void sort_all(rush_tensor *x, unsigned how, int64_t dim, bool descending, rush_value *out)
{
    run(SORT, how | (descending ? DESCENDING : 0), x, dim, x->ndim ? x->size[rush_dim_wrap(dim, x->ndim)] : 1, out[0].t, out[1].t);
}

static void stable_cpu(const rush_op *op, const rush_value *in, rush_value *out) { sort_all(in[0].t, HAS(in[1]) && in[1].i ? STABLE : 0, in[2].i, in[3].i, out); }
static void plain_cpu(const rush_op *op, const rush_value *in, rush_value *out) { sort_all(in[0].t, 0, in[1].i, in[2].i, out); }

static void select_grad(rush_grads *s, int64_t dim, bool keepdim)
{
    if (!s->g[0]) return;
    rush_tensor *x = s->in[0].t;
    s->gin[0] = T("value_selecting_reduction_backward", V(s->g[0]), V(dim), s->out[1], rush_v_ints(x->size, x->ndim), V(keepdim));
}

static void stable_grad(rush_grads *s) { select_grad(s, s->in[2].i, true); }
static void plain_grad(rush_grads *s) { select_grad(s, s->in[1].i, true); }

#define SORT_DOC "Elements along dim in order, NaN last, and the places that they had."
static rush_op op_sort = {
    .schema = "sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)", .method = RUSH_METHOD,
    .doc = SORT_DOC, .shape = plain_shape, .cpu = plain_cpu, .grad = plain_grad, .saves = "indices",
};
static rush_op op_sort_stable = {
    .schema = "sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)",
    .doc = SORT_DOC " stable: equal elements keep their order.", .shape = stable_shape, .cpu = stable_cpu, .grad = stable_grad, .saves = "indices",
};

static int argsort_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value got[RUSH_MAXOUT];
    return TN(got, "sort", in[0], in[1], in[2]) ? -1 : rush_result(out, got[1].t);
}
static int argsort_stable_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value got[RUSH_MAXOUT];
    return TN(got, "sort.stable", in[0], in[1], in[2], in[3]) ? -1 : rush_result(out, got[1].t);
}
static int msort_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value got[RUSH_MAXOUT];
    return TN(got, "sort", in[0], V(0), V(false)) ? -1 : rush_result(out, got[0].t);
}

static rush_op op_argsort = {.schema = "argsort(Tensor self, int dim=-1, bool descending=False) -> Tensor", .method = RUSH_METHOD, .doc = "The places of sorted elements.", .run = argsort_run};
static rush_op op_argsort_stable = {.schema = "argsort.stable(Tensor self, *, bool stable, int dim=-1, bool descending=False) -> Tensor", .doc = "The places of sorted elements.", .run = argsort_stable_run};
static rush_op op_msort = {.schema = "msort(Tensor self) -> Tensor", .method = RUSH_METHOD, .doc = "Sorted along the first dim.", .run = msort_run};

static int topk_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t;
    int d = check(x, in[2].i);
    if (d < 0) return -1;
    RUSH_CHECK(x->dtype != RUSH_BOOL, RUSH_RUNTIME_ERROR, "topk does not support bool dtypes on CPU");
    int64_t n = x->ndim ? x->size[d] : 1, size[RUSH_MAXDIM];
    RUSH_CHECK(in[1].i >= 0 && in[1].i <= n, RUSH_RUNTIME_ERROR, "selected index k out of range: k = %lld, dim %d has %lld elements", (long long)in[1].i, d, (long long)n);
    memcpy(size, x->size, sizeof *size * x->ndim);
    if (x->ndim) size[d] = in[1].i;
    return rush_out_t(out, 0, x, x->dtype, x->ndim, size) && rush_out_t(out, 1, x, RUSH_I64, x->ndim, size) ? 0 : -1;
}

/* Few of many along the last dim: each row is read once. */
typedef struct few {
    const char *x;
    char *values;
    int64_t *places, n, k;
    size_t item;
    int type;
    bool largest;
} few;

static void run_few(void *arg, int64_t begin, int64_t end)
{
    const few *f = arg;
    for (int64_t r = begin; r < end; ++r)
        rush_k_topk->best[f->type](f->x + r * f->n * f->item, f->n, f->k, f->largest, f->values + r * f->k * f->item, f->places + r * f->k);
}

static void topk_few(const rush_tensor *x, int64_t k, bool largest, rush_tensor *values, rush_tensor *places)
{
    static const uint8_t computes[TOPK_TYPES] = {RUSH_F32, RUSH_F64, RUSH_I32, RUSH_I64};
    int type = x->dtype == RUSH_F64 ? TOPK_F64 : rush_dtype_is_float(x->dtype) ? TOPK_F32 : rush_dtypes[x->dtype].size < 4 || x->dtype == RUSH_I32 ? TOPK_I32 : TOPK_I64;
    rush_dtype d = computes[type];
    rush_tensor *from = rush_cast_copy(x, d);
    rush_tensor *to = values->dtype == d && rush_contiguous(values) ? values : rush_tensor_new(d, x->device, values->ndim, values->size);
    rush_tensor *at = rush_contiguous(places) ? places : rush_tensor_new(RUSH_I64, x->device, places->ndim, places->size);
    if (!from || !to || !at) return;
    few f = {rush_ptr(from), rush_ptr(to), rush_ptr(at), x->size[x->ndim - 1], k, rush_dtypes[d].size, type, largest};
    rush_parallel_for(x->numel / f.n, 1 + 16384 / f.n, run_few, &f);
    if (to != values) rush_copy_into(values, to);
    if (at != places) rush_copy_into(places, at);
}

static void topk_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t;
    int64_t k = in[1].i, last = x->ndim - 1;
    if (x->ndim && x->numel && k && rush_dim_wrap(in[2].i, x->ndim) == last && k <= x->size[last] / 64 && x->dtype != RUSH_U64)
        topk_few(x, k, in[3].i, out[0].t, out[1].t);
    else run(SORT, TOP | (in[3].i ? DESCENDING : 0), x, in[2].i, x->ndim ? k : 1, out[0].t, out[1].t); /* a number is itself the largest, even of none */
}
static void topk_grad(rush_grads *s) { select_grad(s, s->in[2].i, true); }

static rush_op op_topk = {
    .schema = "topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor indices)",
    .method = RUSH_METHOD,
    .doc = "The k largest (or smallest) elements along dim, in order, and their places.", .shape = topk_shape, .cpu = topk_cpu, .grad = topk_grad, .saves = "indices",
};

/* ---- one element per line ---- */

static int no_truth(const rush_tensor *x, const char *kernel)
{
    RUSH_CHECK(x->dtype != RUSH_BOOL, RUSH_NOT_IMPLEMENTED, "\"%s\" not implemented for 'Bool'", kernel);
    return 0;
}

static int one_shape(const rush_tensor *x, int64_t dim, bool keepdim, rush_value *out)
{
    int d = check(x, dim), nd = 0;
    int64_t size[RUSH_MAXDIM];
    if (d < 0) return -1;
    RUSH_CHECK(!x->ndim || x->size[d], RUSH_INDEX_ERROR, "Expected reduction dim %d to have non-zero size.", d);
    for (int i = 0; i < x->ndim; ++i)
        if (i != d || keepdim) size[nd++] = i == d ? 1 : x->size[i];
    return rush_out_t(out, 0, x, x->dtype, nd, size) && rush_out_t(out, 1, x, RUSH_I64, nd, size) ? 0 : -1;
}

static int kth_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t;
    int d = check(x, in[2].i);
    if (d < 0) return -1;
    int64_t n = x->ndim ? x->size[d] : 1;
    RUSH_CHECK(n, RUSH_INDEX_ERROR, "Expected reduction dim %d to have non-zero size.", d);
    RUSH_CHECK(in[1].i >= 1 && in[1].i <= n, RUSH_RUNTIME_ERROR, "selected number k out of range for dimension %d: k = %lld of %lld", d, (long long)in[1].i, (long long)n);
    return no_truth(x, "kthvalue_cpu") ? -1 : one_shape(x, in[2].i, in[3].i, out);
}

static int mode_shape(const rush_op *op, const rush_value *in, rush_value *out) { return one_shape(in[0].t, in[1].i, in[2].i, out); }
static int median_shape(const rush_op *op, const rush_value *in, rush_value *out) { return no_truth(in[0].t, "median_out") ? -1 : mode_shape(op, in, out); }
static void kth_cpu(const rush_op *op, const rush_value *in, rush_value *out) { run(KTH, 0, in[0].t, in[2].i, in[1].i - 1, out[0].t, out[1].t); }
static void median_cpu(const rush_op *op, const rush_value *in, rush_value *out) { run(MEDIAN, 0, in[0].t, in[1].i, 1, out[0].t, out[1].t); }
static void nanmedian_cpu(const rush_op *op, const rush_value *in, rush_value *out) { run(MEDIAN, IGNORE_NAN, in[0].t, in[1].i, 1, out[0].t, out[1].t); }
static void mode_cpu(const rush_op *op, const rush_value *in, rush_value *out) { run(MODE, 0, in[0].t, in[1].i, 1, out[0].t, out[1].t); }
static void kth_grad(rush_grads *s) { select_grad(s, s->in[2].i, s->in[3].i); }
static void pick_grad(rush_grads *s) { select_grad(s, s->in[1].i, s->in[2].i); }

static rush_op op_kthvalue = {
    .schema = "kthvalue(Tensor self, SymInt k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)", .method = RUSH_METHOD,
    .doc = "The k-th smallest element along dim, counted from 1.", .shape = kth_shape, .cpu = kth_cpu, .grad = kth_grad, .saves = "indices",
    .flags = RUSH_OUT_APART,
};
static rush_op op_median_dim = {
    .schema = "median.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)", .method = RUSH_METHOD,
    .doc = "The median along dim, the lower of two; NaN where there is one.", .shape = median_shape, .cpu = median_cpu, .grad = pick_grad, .saves = "indices",
};
static rush_op op_nanmedian_dim = {
    .schema = "nanmedian.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)", .method = RUSH_METHOD,
    .doc = "The median along dim of what is not NaN.", .shape = median_shape, .cpu = nanmedian_cpu, .grad = pick_grad, .saves = "indices",
};
static rush_op op_mode = {
    .schema = "mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)", .method = RUSH_METHOD,
    .doc = "The most frequent element along dim, the smallest of several.", .shape = mode_shape, .cpu = mode_cpu, .grad = pick_grad, .saves = "indices",
};

/* Of all elements: the gradient is shared by those that are equal to it. */
static int whole(rush_tensor *x, bool ignore_nan, rush_value *out)
{
    rush_value got[RUSH_MAXOUT];
    RUSH_CHECK(!rush_dtype_is_complex(x->dtype), RUSH_RUNTIME_ERROR, "complex numbers have no order");
    if (no_truth(x, "median_cpu")) return -1;
    if (!x->numel) { /* NaN; of integers the smallest */
        rush_tensor *t = rush_tensor_new(x->dtype, x->device, 0, NULL);
        if (!t) return -1;
        rush_fill_into(t, rush_dtype_is_float(x->dtype) ? rush_v_float(NAN) : rush_v_int(INT64_MIN));
        return rush_result(out, t);
    }
    rush_tensor *flat = T("reshape", V(x), INTS(-1));
    if (!flat || (ignore_nan ? TN(got, "nanmedian.dim", V(flat), V(0)) : TN(got, "median.dim", V(flat), V(0)))) return -1;
    return rush_result(out, got[0].t);
}

static int median_run(const rush_op *op, const rush_value *in, rush_value *out) { return whole(in[0].t, false, out); }
static int nanmedian_run(const rush_op *op, const rush_value *in, rush_value *out) { return whole(in[0].t, true, out); }

static void whole_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0], *x = s->in[0].t, *y = s->out[0].t;
    if (!g) return;
    rush_tensor *nan = T("isnan", V(y));
    rush_tensor *mask = T("logical_or", V(eq(x, y)), V(logical_and(nan, T("isnan", V(x)))));
    s->gin[0] = rush_share_all(g, x, mask);
}

static rush_op op_median = {.schema = "median(Tensor self) -> Tensor", .doc = "The median of all elements, the lower of two.", .run = median_run, .grad = whole_grad, .saves = "self, result"};
static rush_op op_nanmedian = {.schema = "nanmedian(Tensor self) -> Tensor", .doc = "The median of all elements that are not NaN.", .run = nanmedian_run, .grad = whole_grad, .saves = "self, result"};

/* ---- quantiles: in self, q, dim, keepdim, interpolation ---- */

static int quantile(const rush_value *in, rush_value *out, bool ignore_nan)
{
    rush_tensor *x = in[0].t, *q = in[1].kind == RUSH_V_TENSOR ? in[1].t : NULL;
    const char *how = in[4].s;
    bool keepdim = in[3].i, linear = !strcmp(how, "linear"), midpoint = !strcmp(how, "midpoint"), lower = !strcmp(how, "lower"), higher = !strcmp(how, "higher");
    RUSH_CHECK(x->dtype == RUSH_F32 || x->dtype == RUSH_F64, RUSH_RUNTIME_ERROR, "quantile() input tensor must be either float or double dtype");
    RUSH_CHECK(linear || midpoint || lower || higher || !strcmp(how, "nearest"), RUSH_RUNTIME_ERROR,
               "quantile() interpolation must be one of linear, lower, higher, midpoint or nearest, but got %s", how);
    RUSH_CHECK(x->numel, RUSH_RUNTIME_ERROR, "quantile() input tensor must be non-empty");
    if (q) {
        RUSH_CHECK(q->ndim <= 1, RUSH_RUNTIME_ERROR, "quantile() q must be a scalar or 1D tensor");
        RUSH_CHECK(q->dtype == x->dtype, RUSH_RUNTIME_ERROR, "quantile() q tensor must be same dtype as the input tensor");
        rush_tensor *inside = q->numel ? T("all", V(logical_and(ge(q, 0.0), le(q, 1.0)))) : NULL;
        if (inside && TN(out, "_assert_async.msg", V(inside), V("quantile() q values must be in the range [0, 1]"))) return -1;
    } else {
        RUSH_CHECK(in[1].f >= 0 && in[1].f <= 1, RUSH_RUNTIME_ERROR, "quantile() q must be in the range [0, 1] but got %g", in[1].f);
        q = T("scalar_tensor", in[1], rush_v_dtype(x->dtype), ON(x));
    }
    int d = HAS(in[2]) ? rush_dim_wrap(in[2].i, x->ndim) : 0, nd = x->ndim;
    if (d < 0 || !q) return -1;
    int64_t kept[RUSH_MAXDIM], nk = 0;
    for (int i = 0; i < nd; ++i)
        if (!HAS(in[2]) || i == d) { if (keepdim) kept[nk++] = 1; }
        else kept[nk++] = x->size[i];
    rush_value got[RUSH_MAXOUT];
    rush_tensor *moved = !HAS(in[2]) || !nd ? T("reshape", V(x), INTS(-1)) : T("movedim.int", V(x), V(d), V(-1));
    if (!moved || TN(got, "sort", V(moved))) return -1;
    rush_tensor *sorted = got[0].t; /* (..., n) */
    int64_t n = sorted->size[sorted->ndim - 1];
    rush_tensor *qs = q->ndim ? q : unsqueeze(q, 0);
    if (!qs) return -1;
    rush_tensor *nan = T("isnan", V(sorted)), *ranks;
    if (ignore_nan) {
        rush_tensor *count = to_dtype(sub(sum_dim(logical_not(nan), -1, true), 1), x->dtype);
        ranks = T("clamp_min", V(mul(qs, count)), V(0));
    } else {
        ranks = mul(qs, (double)(n - 1));
        rush_tensor *any = T("any.dim", V(nan), V(-1), V(true));
        ranks = T("masked_fill.Scalar", V(T("expand", V(ranks), rush_v_ints((int64_t[]){qs->size[0]}, 1))), V(any ? any : ranks), V((double)(n - 1)));
    }
    if (lower) ranks = T("floor", V(ranks));
    else if (higher) ranks = T("ceil", V(ranks));
    else if (!linear && !midpoint) ranks = T("round", V(ranks));
    rush_tensor *low = ranks ? T("floor", V(ranks)) : NULL;
    if (!low) return -1;
    int64_t size[RUSH_MAXDIM];
    memcpy(size, sorted->size, sizeof *size * sorted->ndim);
    size[sorted->ndim - 1] = qs->size[0];
    rush_tensor *at = T("expand", V(to_dtype(low, RUSH_I64)), rush_v_ints(size, sorted->ndim));
    rush_tensor *y = T("gather", V(sorted), V(-1), V(at));
    if (linear || midpoint) {
        rush_tensor *above = T("gather", V(sorted), V(-1), V(T("expand", V(to_dtype(T("ceil", V(ranks)), RUSH_I64)), rush_v_ints(size, sorted->ndim))));
        rush_tensor *weight = midpoint ? T("full_like", V(ranks), V(0.5)) : sub(ranks, low);
        y = T("lerp.Tensor", V(y), V(above), V(T("expand", V(weight), rush_v_ints(size, sorted->ndim))));
    }
    if (!y) return -1;
    if (!q->ndim) return rush_result(out, T("reshape", V(squeeze(y, -1)), rush_v_ints(kept, nk)));
    memmove(kept + 1, kept, sizeof *kept * nk);
    kept[0] = qs->size[0];
    return rush_result(out, T("reshape", V(T("movedim.int", V(y), V(-1), V(0))), rush_v_ints(kept, nk + 1)));
}

static int quantile_run(const rush_op *op, const rush_value *in, rush_value *out) { return quantile(in, out, false); }
static int nanquantile_run(const rush_op *op, const rush_value *in, rush_value *out) { return quantile(in, out, true); }

#define QUANTILE_ARGS "int? dim=None, bool keepdim=False, *, str interpolation='linear') -> Tensor"
static rush_op op_quantile = {.schema = "quantile(Tensor self, Tensor q, " QUANTILE_ARGS, .method = RUSH_METHOD, .doc = "Quantiles q along dim, or of all elements.", .run = quantile_run, .flags = RUSH_AUTOCAST_F32};
static rush_op op_quantile_scalar = {.schema = "quantile.scalar(Tensor self, float q, " QUANTILE_ARGS, .doc = "The quantile q along dim.", .run = quantile_run, .flags = RUSH_AUTOCAST_F32};
static rush_op op_nanquantile = {.schema = "nanquantile(Tensor self, Tensor q, " QUANTILE_ARGS, .method = RUSH_METHOD, .doc = "Quantiles of what is not NaN.", .run = nanquantile_run, .flags = RUSH_AUTOCAST_F32};
static rush_op op_nanquantile_scalar = {.schema = "nanquantile.scalar(Tensor self, float q, " QUANTILE_ARGS, .doc = "The quantile of what is not NaN.", .run = nanquantile_run, .flags = RUSH_AUTOCAST_F32};

RUSH_FAMILY(sort, &op_sort, &op_sort_stable, &op_argsort, &op_argsort_stable, &op_msort, &op_topk, &op_kthvalue, &op_median_dim, &op_median, &op_nanmedian_dim,
            &op_nanmedian, &op_mode, &op_quantile, &op_quantile_scalar, &op_nanquantile, &op_nanquantile_scalar)
