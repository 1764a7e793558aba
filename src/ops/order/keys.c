/* keys.c - elements as 64-bit keys, and a radix sort of them. */
#include "ops/order/keys.h"
#include "ops/geometry.h"

static uint64_t float_key(double x)
{
    union { double f; uint64_t u; } v = {.f = x};
    if (x != x) return RUSH_KEY_NAN;
    if (x == 0) v.u = 0;
    return v.u >> 63 ? ~v.u : v.u | 0x8000000000000000u;
}

typedef struct key_job {
    const void *x;
    uint64_t *key, flip;
    bool floats;
} key_job;

static void keys_of(void *arg, int64_t begin, int64_t end)
{
    const key_job *j = arg;
    if (j->floats)
        for (int64_t i = begin; i < end; ++i) j->key[i] = float_key(((const double *)j->x)[i]);
    else
        for (int64_t i = begin; i < end; ++i) j->key[i] = ((const uint64_t *)j->x)[i] ^ j->flip;
}

uint64_t *rush_keys(const rush_tensor *t, bool as_float)
{
    RUSH_CHECK_NULL(rush_dtypes[t->dtype].category < 3, RUSH_NOT_IMPLEMENTED, "complex numbers (%s) have no order here", rush_dtype_word(t->dtype));
    bool floats = as_float || rush_dtypes[t->dtype].category == 2;
    const rush_tensor *wide = rush_cast_copy(t, floats ? RUSH_F64 : t->dtype == RUSH_U64 ? RUSH_U64 : RUSH_I64);
    rush_tensor *room = wide ? rush_tensor_new(RUSH_I64, (rush_device){RUSH_CPU, -1}, 1, (int64_t[]){RUSH_MAX(t->numel, 1)}) : NULL;
    if (!room) return NULL;
    uint64_t *key = rush_ptr(room); /* a tensor's memory: large blocks of it have their pages already */
    key_job j = {rush_ptr(wide), key, t->dtype == RUSH_U64 ? 0 : 0x8000000000000000u, floats};
    rush_parallel_for(t->numel, 16384, keys_of, &j);
    return key;
}

int rush_keys_sort(uint64_t *key, int64_t *from, int64_t n)
{
    if (n < 64) { /* by insertion */
        for (int64_t i = 1; i < n; ++i) {
            uint64_t k = key[i];
            int64_t f = from ? from[i] : 0, j = i;
            for (; j > 0 && key[j - 1] > k; --j) {
                key[j] = key[j - 1];
                if (from) from[j] = from[j - 1];
            }
            key[j] = k;
            if (from) from[j] = f;
        }
        return 0;
    }
    uint64_t *other = rush_malloc(sizeof *other * (size_t)n);
    int64_t *other_from = from ? rush_malloc(sizeof *other_from * (size_t)n) : NULL;
    size_t(*count)[256] = rush_calloc(8, sizeof *count);
    int failed = !other || (from && !other_from) || !count ? -1 : 0;
    uint64_t *a = key, *b = other;
    int64_t *fa = from, *fb = other_from;
    uint64_t differ = 0;
    for (int64_t i = 1; i < n; ++i) differ |= key[i] ^ key[0];
    for (int d = 0; d < 8 && !failed; ++d)
        for (int64_t i = 0; i < n && differ >> (8 * d) & 255; ++i) ++count[d][key[i] >> (8 * d) & 255];
    for (int d = 0; d < 8 && !failed; ++d) {
        size_t at[256], sum = 0;
        if (!(differ >> (8 * d) & 255)) continue; /* one digit for all */
        for (int v = 0; v < 256; ++v) at[v] = sum, sum += count[d][v];
        for (int64_t i = 0; i < n; ++i) {
            size_t to = at[a[i] >> (8 * d) & 255]++;
            b[to] = a[i];
            if (from) fb[to] = fa[i];
        }
        uint64_t *swap = a;
        a = b, b = swap;
        int64_t *swap_from = fa;
        fa = fb, fb = swap_from;
    }
    if (!failed && a != key) {
        memcpy(key, a, sizeof *key * (size_t)n);
        if (from) memcpy(from, fa, sizeof *from * (size_t)n);
    }
    rush_free(other);
    rush_free(other_from);
    rush_free(count);
    return failed;
}
