/* unique.c - distinct elements, or distinct slices along a dimension: unique, unique_consecutive, isin.
 *
 * Elements become keys (keys.h), equal ones are neighbours after sorting, and each run of them is one result. NaN is
 * equal to nothing, as in PyTorch.
 */
#include "op/formula.h"
#include "ops/geometry.h"
#include "ops/keys.h"

#define SELF (in[0].t)

/* Runs of equal neighbours among n things: order[i] is the i-th in order, same(i) whether it equals the one before. */
typedef struct runs {
    int64_t n, count;
    const int64_t *order; /* NULL: as they are */
    const uint8_t *first; /* first[i]: the i-th begins a run */
} runs;

static int64_t place(const runs *r, int64_t i)
{
    return r->order ? r->order[i] : i;
}

/* Where the first of each run came from, as an index vector. */
static rush_tensor *representatives(const runs *r)
{
    rush_tensor *t = rush_tensor_new(RUSH_I64, (rush_device){RUSH_CPU, -1}, 1, &r->count);
    if (!t) return NULL;
    int64_t *p = rush_ptr(t);
    for (int64_t i = 0; i < r->n; ++i)
        if (r->first[i]) *p++ = place(r, i);
    return t;
}

/* The first element of each run. */
static void take_firsts(const runs *r, const char *x, char *to, size_t item)
{
    if (item == 8) {
        const uint64_t *from = (const void *)x;
        uint64_t *p = (void *)to;
        for (int64_t i = 0; i < r->n; ++i)
            if (r->first[i]) *p++ = from[place(r, i)];
    } else if (item == 4) {
        const uint32_t *from = (const void *)x;
        uint32_t *p = (void *)to;
        for (int64_t i = 0; i < r->n; ++i)
            if (r->first[i]) *p++ = from[place(r, i)];
    } else {
        for (int64_t i = 0; i < r->n; ++i)
            if (r->first[i]) memcpy(to, x + (size_t)place(r, i) * item, item), to += item;
    }
}

/* inverse (of the given sizes) and counts, empty where they are not wanted. */
static int fill_rest(rush_value *out, const runs *r, bool inverse, bool counts, int ndim, const int64_t *size)
{
    const int64_t none = 0;
    rush_device cpu = {RUSH_CPU, -1};
    rush_tensor *inv = inverse ? rush_tensor_new(RUSH_I64, cpu, ndim, size) : rush_tensor_new(RUSH_I64, cpu, 1, &none);
    rush_tensor *cnt = rush_tensor_new(RUSH_I64, cpu, 1, counts ? &r->count : &none);
    if (!inv || !cnt) return -1;
    int64_t *pi = rush_ptr(inv), *pc = rush_ptr(cnt), run = -1;
    if (counts && r->count) memset(pc, 0, sizeof *pc * (size_t)r->count);
    for (int64_t i = 0; i < r->n; ++i) {
        run += r->first[i];
        if (inverse) pi[place(r, i)] = run;
        if (counts) ++pc[run];
    }
    out[1] = rush_v_tensor(inv);
    out[2] = rush_v_tensor(cnt);
    return 0;
}

/* ---- elements ---- */

static int unique_elements(const rush_tensor *t, rush_value *out, bool sorted, bool inverse, bool counts)
{
    uint64_t *key = rush_keys(t, false);
    int64_t n = t->numel, *from = NULL;
    rush_tensor *room = key ? rush_tensor_new(RUSH_U8, (rush_device){RUSH_CPU, -1}, 1, (int64_t[]){RUSH_MAX(n, 1)}) : NULL;
    if (!room) return -1;
    uint8_t *first = rush_ptr(room);
    bool floats = rush_dtypes[t->dtype].category == 2;
    if (sorted) {
        from = rush_scope_alloc(sizeof *from * (size_t)RUSH_MAX(n, 1));
        if (!from) return -1;
        for (int64_t i = 0; i < n; ++i) from[i] = i;
        if (rush_keys_sort(key, from, n)) return -1;
    }
    runs r = {.n = n, .order = from, .first = first};
    int64_t count = n > 0;
    if (n) first[0] = 1;
#pragma omp simd reduction(+ : count)
    for (int64_t i = 1; i < n; ++i) {
        uint8_t begins = (key[i] != key[i - 1]) | (floats & (key[i] == RUSH_KEY_NAN));
        first[i] = begins;
        count += begins;
    }
    r.count = count;
    rush_tensor *flat = rush_contiguous_copy(t), *values = flat ? rush_tensor_new(t->dtype, t->device, 1, &count) : NULL;
    if (!values) return -1;
    take_firsts(&r, rush_ptr(flat), rush_ptr(values), rush_dtypes[t->dtype].size);
    out[0] = rush_v_tensor(values);
    return fill_rest(out, &r, inverse, counts, t->ndim, t->size);
}

static int unique2_run(const rush_value *in, rush_value *out)
{
    return unique_elements(SELF, out, true, I_(in[2]), I_(in[3]));
}

static rush_op op_unique2 = {
    .schema = "_unique2(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False) -> (Tensor, Tensor, Tensor)",
    .doc = "The distinct elements in order; for each element which of them it is; how often each occurs.", .run = unique2_run,
    .flags = RUSH_NO_GRAD | RUSH_HIDDEN,
};

static int unique_run(const rush_value *in, rush_value *out)
{
    rush_value all[3];
    if (unique_elements(SELF, all, true, I_(in[2]), false)) return -1;
    out[0] = all[0];
    out[1] = all[1];
    return 0;
}

static rush_op op_unique = {
    .schema = "_unique(Tensor self, bool sorted=True, bool return_inverse=False) -> (Tensor, Tensor)",
    .doc = "The distinct elements in order, and for each element which of them it is.", .run = unique_run, .flags = RUSH_NO_GRAD | RUSH_HIDDEN,
};

/* ---- slices ---- */

typedef struct slices {
    const uint64_t *key; /* (n, width) */
    int64_t width;
    bool floats;
} slices;

static int slice_compare(const slices *s, int64_t a, int64_t b)
{
    const uint64_t *x = s->key + a * s->width, *y = s->key + b * s->width;
    for (int64_t k = 0; k < s->width; ++k)
        if (x[k] != y[k]) return x[k] < y[k] ? -1 : 1;
    return 0;
}

static bool slice_same(const slices *s, int64_t a, int64_t b)
{
    const uint64_t *x = s->key + a * s->width;
    if (slice_compare(s, a, b)) return false;
    for (int64_t k = 0; k < s->width && s->floats; ++k)
        if (x[k] == RUSH_KEY_NAN) return false;
    return true;
}

/* Merge sort of slice numbers, stable. */
static void slice_sort(const slices *s, int64_t *a, int64_t *b, int64_t n)
{
    if (n < 2) return;
    int64_t half = n / 2, i = 0, j = half, k = 0;
    slice_sort(s, a, b, half);
    slice_sort(s, a + half, b, n - half);
    while (i < half && j < n) b[k++] = slice_compare(s, a[j], a[i]) < 0 ? a[j++] : a[i++];
    while (i < half) b[k++] = a[i++];
    while (j < n) b[k++] = a[j++];
    memcpy(a, b, sizeof *a * (size_t)n);
}

static int unique_slices(rush_tensor *t, int64_t at, rush_value *out, bool sorted, bool inverse, bool counts)
{
    int dim = rush_dim_wrap(at, t->ndim);
    if (dim < 0) return -1;
    int64_t n = t->ndim ? t->size[dim] : 1, zeros = 0;
    for (int d = 0; d < t->ndim; ++d) zeros += t->size[d] == 0;
    RUSH_CHECK(zeros == 0 || (n == 0 && zeros == 1), RUSH_RUNTIME_ERROR,
               n == 0 ? "Number of zero sized dimensions is more than one, so unique cannot be applied "
                      : "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied");
    rush_tensor *rows = T("movedim.int", V(t), V((int64_t)dim), V((int64_t)0));
    uint64_t *key = rows ? rush_keys(rows, false) : NULL;
    int64_t *order = key ? rush_scope_alloc(sizeof *order * 2 * (size_t)RUSH_MAX(n, 1)) : NULL;
    uint8_t *first = order ? rush_scope_alloc((size_t)RUSH_MAX(n, 1)) : NULL;
    if (!first) return -1;
    slices s = {key, n ? t->numel / n : 0, rush_dtypes[t->dtype].category == 2};
    for (int64_t i = 0; i < n; ++i) order[i] = i;
    if (sorted) slice_sort(&s, order, order + n, n);
    runs r = {.n = n, .order = order, .first = first};
    for (int64_t i = 0; i < n; ++i) {
        first[i] = i == 0 || !slice_same(&s, order[i - 1], order[i]);
        r.count += first[i];
    }
    rush_tensor *index = representatives(&r);
    rush_tensor *values = index ? T("index_select", V(t), V((int64_t)dim), V(index)) : NULL;
    if (!values) return -1;
    out[0] = rush_v_tensor(values);
    return fill_rest(out, &r, inverse, counts, 1, &n);
}

static int unique_dim_run(const rush_value *in, rush_value *out)
{
    return unique_slices(SELF, I_(in[1]), out, true, I_(in[3]), I_(in[4]));
}

static rush_op op_unique_dim = {
    .schema = "unique_dim(Tensor self, int dim, bool sorted=True, bool return_inverse=False, bool return_counts=False) -> (Tensor, Tensor, Tensor)",
    .doc = "The distinct slices of dim, in lexicographic order; for each slice which of them it is; how often each occurs.", .run = unique_dim_run,
    .flags = RUSH_NO_GRAD | RUSH_HIDDEN,
};

static int unique_consecutive_run(const rush_value *in, rush_value *out)
{
    if (!HAS(in[3])) return unique_elements(SELF, out, false, I_(in[1]), I_(in[2]));
    return unique_slices(SELF, I_(in[3]), out, false, I_(in[1]), I_(in[2]));
}

static rush_op op_unique_consecutive = {
    .schema = "unique_consecutive(Tensor self, bool return_inverse=False, bool return_counts=False, int? dim=None) -> (Tensor, Tensor, Tensor)",
    .doc = "One of each run of equal neighbours; for each element which run it is in; how long the runs are.", .run = unique_consecutive_run,
    .flags = RUSH_NO_GRAD,
};

static int unique_dim_consecutive_run(const rush_value *in, rush_value *out)
{
    return unique_slices(SELF, I_(in[1]), out, false, I_(in[2]), I_(in[3]));
}

static rush_op op_unique_dim_consecutive = {
    .schema = "unique_dim_consecutive(Tensor self, int dim, bool return_inverse=False, bool return_counts=False) -> (Tensor, Tensor, Tensor)",
    .doc = "unique_consecutive() of slices.", .run = unique_dim_consecutive_run, .flags = RUSH_NO_GRAD | RUSH_HIDDEN,
};

/* ---- isin ---- */

typedef struct isin_job {
    const uint64_t *key, *sorted;
    int64_t n;
    uint8_t *to;
    bool floats, invert;
} isin_job;

static void isin_some(void *arg, int64_t begin, int64_t end)
{
    const isin_job *j = arg;
    for (int64_t i = begin; i < end; ++i) {
        int64_t at = rush_keys_place(j->sorted, j->n, j->key[i], false);
        j->to[i] = (at < j->n && j->sorted[at] == j->key[i] && !(j->floats && j->key[i] == RUSH_KEY_NAN)) != j->invert;
    }
}

static int is_in(rush_value *out, const rush_tensor *elements, const rush_tensor *test, bool invert)
{
    bool floats = rush_dtypes[elements->dtype].category == 2 || rush_dtypes[test->dtype].category == 2;
    uint64_t *a = rush_keys(elements, floats), *b = a ? rush_keys(test, floats) : NULL;
    int64_t *from = b ? rush_scope_alloc(sizeof *from * (size_t)RUSH_MAX(test->numel, 1)) : NULL;
    rush_tensor *result = from ? rush_tensor_new(RUSH_BOOL, elements->device, elements->ndim, elements->size) : NULL;
    if (!result) return -1;
    for (int64_t i = 0; i < test->numel; ++i) from[i] = i;
    if (rush_keys_sort(b, from, test->numel)) return -1;
    isin_job j = {a, b, test->numel, rush_ptr(result), floats, invert};
    rush_parallel_for(elements->numel, 4096, isin_some, &j);
    return rush_result(out, result);
}

static int isin_run(const rush_value *in, rush_value *out)
{
    rush_tensor *side[2];
    for (int k = 0; k < 2; ++k) {
        side[k] = in[k].kind == RUSH_V_TENSOR ? in[k].t : rush_tensor_of_number(in[k], false);
        if (!side[k]) return -1;
        RUSH_CHECK(side[k]->dtype != RUSH_BOOL || in[k].kind != RUSH_V_TENSOR, RUSH_RUNTIME_ERROR,
                   "Unsupported input type encountered for isin(): %s", rush_scalar_name(side[k]->dtype));
    }
    return is_in(out, side[0], side[1], I_(in[3]));
}

#define ISIN "*, bool assume_unique=False, bool invert=False) -> Tensor"
static rush_op op_isin = {
    .schema = "isin.Tensor_Tensor(Tensor elements, Tensor test_elements, " ISIN, .doc = "For each element whether it is among the test elements.",
    .run = isin_run, .flags = RUSH_NO_GRAD};
static rush_op op_isin_scalar = {
    .schema = "isin.Tensor_Scalar(Tensor elements, Scalar test_element, " ISIN, .doc = "For each element whether it is a number.", .run = isin_run,
    .flags = RUSH_NO_GRAD};
static rush_op op_scalar_isin = {
    .schema = "isin.Scalar_Tensor(Scalar element, Tensor test_elements, " ISIN, .doc = "Whether a number is among the test elements.", .run = isin_run,
    .flags = RUSH_NO_GRAD};

RUSH_FAMILY(unique, &op_unique2, &op_unique, &op_unique_dim, &op_unique_consecutive, &op_unique_dim_consecutive, &op_isin, &op_isin_scalar,
            &op_scalar_isin)
