/* unique.c - distinct elements, or distinct slices along a dimension: unique, unique_consecutive, isin.
 *
 * Equal elements are neighbours after sorting, and each run of them is one result. NaN is equal to nothing, as in
 * PyTorch. Slices are compared by keys (keys.h).
 */
#include "kernels/cpu/mask.h"
#include "op/formula.h"
#include "ops/geometry.h"
#include "ops/order/keys.h"

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

/* Room for inverse (of the given sizes) and counts, empty where they are not wanted. */
static int make_rest(rush_value *out, bool inverse, bool counts, int ndim, const int64_t *size, int64_t count)
{
    const int64_t none = 0;
    rush_device cpu = {RUSH_CPU, -1};
    rush_tensor *inv = inverse ? rush_tensor_new(RUSH_I64, cpu, ndim, size) : rush_tensor_new(RUSH_I64, cpu, 1, &none);
    rush_tensor *cnt = rush_tensor_new(RUSH_I64, cpu, 1, counts ? &count : &none);
    if (!inv || !cnt) return -1;
    out[1] = rush_v_tensor(inv);
    out[2] = rush_v_tensor(cnt);
    return 0;
}

static int fill_rest(rush_value *out, const runs *r, bool inverse, bool counts, int ndim, const int64_t *size)
{
    if (make_rest(out, inverse, counts, ndim, size, r->count)) return -1;
    int64_t *pi = rush_ptr(out[1].t), *pc = rush_ptr(out[2].t), run = -1;
    if (counts) rush_zero_into(out[2].t);
    for (int64_t i = 0; i < r->n && (inverse || counts); ++i) {
        run += r->first[i];
        if (inverse) pi[place(r, i)] = run;
        if (counts) ++pc[run];
    }
    return 0;
}

/* ---- elements ---- */

/* Integers that span no more numbers than there are of them are counted, not sorted. 1, or 0 if they aren't such, or -1. */
static int count_elements(rush_tensor *t, rush_value *out, bool inverse, bool counts)
{
    rush_value limit[2];
    if (rush_dtypes[t->dtype].category > 1 || t->dtype == RUSH_U64 || !t->numel) return 0;
    rush_tensor *numbers = rush_cast_copy(t, RUSH_I64);
    if (!numbers || TN(limit, "aminmax", V(numbers))) return -1;
    const int64_t *x = rush_ptr(numbers), low = *(int64_t *)rush_ptr(limit[0].t), high = *(int64_t *)rush_ptr(limit[1].t);
    if ((uint64_t)high - (uint64_t)low >= (uint64_t)t->numel) return 0;
    int64_t span = high - low + 1, distinct = 0;
    rush_tensor *room = rush_tensor_new(RUSH_I64, t->device, 1, &span);
    if (!room) return -1;
    rush_zero_into(room);
    int64_t *count = rush_ptr(room);
    for (int64_t i = 0; i < t->numel; ++i) ++count[x[i] - low];
    for (int64_t k = 0; k < span; ++k) distinct += count[k] > 0;
    rush_tensor *values = rush_tensor_new(RUSH_I64, t->device, 1, &distinct);
    if (!values || make_rest(out, inverse, counts, t->ndim, t->size, distinct)) return -1;
    int64_t *value = rush_ptr(values), *pi = rush_ptr(out[1].t), *pc = rush_ptr(out[2].t), which = 0;
    for (int64_t k = 0; k < span; ++k) {
        if (!count[k]) continue;
        value[which] = low + k;
        if (counts) pc[which] = count[k];
        count[k] = which++;
    }
    for (int64_t i = 0; i < t->numel && inverse; ++i) pi[i] = count[x[i] - low];
    out[0] = rush_v_tensor(rush_cast_copy(values, t->dtype));
    return T_(out[0]) ? 1 : -1;
}

/* In order; *order says where each came from, unless that isn't wanted (NULL). */
static rush_tensor *sorted_elements(rush_tensor *flat, const int64_t **order)
{
    rush_value by[2];
    if (order || rush_dtypes[flat->dtype].category > 1) {
        if (TN(by, "sort.stable", V(flat), V(true), V(0), V(false))) return NULL;
        if (order) *order = rush_ptr(by[1].t);
        return by[0].t;
    }
    uint64_t *key = rush_keys(flat, false);
    rush_tensor *t = rush_tensor_new(flat->dtype, flat->device, 1, flat->size);
    if (!key || !t || rush_keys_sort(key, NULL, flat->numel)) return NULL;
    if (flat->dtype != RUSH_U64)
        for (int64_t i = 0; i < flat->numel; ++i) key[i] ^= 0x8000000000000000u;
    rush_convert_many(rush_ptr(t), flat->dtype, rush_dtypes[flat->dtype].size, key, flat->dtype == RUSH_U64 ? RUSH_U64 : RUSH_I64, 8, flat->numel);
    return t;
}

static int unique_elements(rush_tensor *t, rush_value *out, bool sorted, bool inverse, bool counts)
{
    int counted = sorted ? count_elements(t, out, inverse, counts) : 0;
    if (counted) return counted > 0 ? 0 : -1;
    const int64_t n = t->numel;
    rush_tensor *flat = T("reshape", V(t), INTS(-1)), *mask = rush_tensor_new(RUSH_BOOL, t->device, 1, &n);
    runs r = {.n = n};
    if (flat) flat = sorted ? sorted_elements(flat, inverse ? &r.order : NULL) : rush_contiguous_copy(flat);
    if (!flat || !mask) return -1;
    uint8_t *first = rush_ptr(mask);
    if (n) {
        rush_value before[2] = {rush_v_tensor(rush_part(flat, 0, 1, n - 1)), rush_v_tensor(rush_part(flat, 0, 0, n - 1))};
        rush_value differs[1] = {rush_v_tensor(rush_part(mask, 0, 1, n - 1))};
        if (rush_failed() || rush_call_out(rush_op_find("ne.Tensor"), before, differs)) return -1;
        first[0] = 1;
    }
    r.first = first;
    r.count = rush_k_mask->count(first, n);
    rush_tensor *values = rush_tensor_new(t->dtype, t->device, 1, &r.count);
    if (!values) return -1;
    rush_k_mask->pack(rush_ptr(values), rush_ptr(flat), first, n, rush_dtypes[t->dtype].size);
    out[0] = rush_v_tensor(values);
    return fill_rest(out, &r, inverse, counts, t->ndim, t->size);
}

/* What is known before: the results' sizes are not. */
static int unique_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(rush_dtypes[SELF->dtype].category < 3, RUSH_NOT_IMPLEMENTED, "\"unique\" not implemented for '%s'", rush_dtype_word(SELF->dtype));
    return 0;
}

static void unique2_cpu(const rush_op *op, const rush_value *in, rush_value *out) { unique_elements(SELF, out, true, I_(in[2]), I_(in[3])); }

static rush_op op_unique2 = {
    .schema = "_unique2(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False) -> (Tensor, Tensor, Tensor)",
    .doc = "The distinct elements in order; for each element which of them it is; how often each occurs.", .shape = unique_shape, .cpu = unique2_cpu,
    .flags = RUSH_HIDDEN | RUSH_DATA_SIZED,
};

static void unique_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value all[3];
    if (!unique_elements(SELF, all, true, I_(in[2]), false)) memcpy(out, all, 2 * sizeof *out);
}

static rush_op op_unique = {
    .schema = "_unique(Tensor self, bool sorted=True, bool return_inverse=False) -> (Tensor, Tensor)",
    .doc = "The distinct elements in order, and for each element which of them it is.", .shape = unique_shape, .cpu = unique_cpu,
    .flags = RUSH_HIDDEN | RUSH_DATA_SIZED,
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

static int slices_check(const rush_tensor *t, int64_t at)
{
    int dim = rush_dim_wrap(at, t->ndim);
    if (dim < 0) return -1;
    int64_t n = t->ndim ? t->size[dim] : 1, zeros = 0;
    for (int d = 0; d < t->ndim; ++d) zeros += t->size[d] == 0;
    RUSH_CHECK(zeros == 0 || (n == 0 && zeros == 1), RUSH_RUNTIME_ERROR,
               n == 0 ? "Number of zero sized dimensions is more than one, so unique cannot be applied "
                      : "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied");
    RUSH_CHECK(rush_dtypes[t->dtype].category < 3, RUSH_NOT_IMPLEMENTED, "complex numbers (%s) have no order here", rush_dtype_word(t->dtype));
    return 0;
}

static int unique_slices(rush_tensor *t, int64_t at, rush_value *out, bool sorted, bool inverse, bool counts)
{
    int dim = rush_dim_wrap(at, t->ndim);
    int64_t n = t->ndim ? t->size[dim] : 1;
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
    rush_tensor *values = index ? T("index_select", V(rows), V((int64_t)0), V(index)) : NULL;
    if (!values || !(values = T("movedim.int", V(values), V((int64_t)0), V((int64_t)dim)))) return -1;
    out[0] = rush_v_tensor(values);
    return fill_rest(out, &r, inverse, counts, 1, &n);
}

static int unique_dim_shape(const rush_op *op, const rush_value *in, rush_value *out) { return slices_check(SELF, I_(in[1])); }

static void unique_dim_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    unique_slices(SELF, I_(in[1]), out, true, I_(in[3]), I_(in[4]));
}

static rush_op op_unique_dim = {
    .schema = "unique_dim(Tensor self, int dim, bool sorted=True, bool return_inverse=False, bool return_counts=False) -> (Tensor, Tensor, Tensor)",
    .doc = "The distinct slices of dim, in lexicographic order; for each slice which of them it is; how often each occurs.", .shape = unique_dim_shape,
    .cpu = unique_dim_cpu, .flags = RUSH_HIDDEN | RUSH_DATA_SIZED,
};

static int unique_consecutive_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    return HAS(in[3]) ? slices_check(SELF, I_(in[3])) : unique_shape(op, in, out);
}

static void unique_consecutive_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (HAS(in[3])) unique_slices(SELF, I_(in[3]), out, false, I_(in[1]), I_(in[2]));
    else unique_elements(SELF, out, false, I_(in[1]), I_(in[2]));
}

static rush_op op_unique_consecutive = {
    .schema = "unique_consecutive(Tensor self, bool return_inverse=False, bool return_counts=False, int? dim=None) -> (Tensor, Tensor, Tensor)",
    .doc = "One of each run of equal neighbours; for each element which run it is in; how long the runs are.", .shape = unique_consecutive_shape,
    .cpu = unique_consecutive_cpu, .flags = RUSH_DATA_SIZED,
};

static void unique_dim_consecutive_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    unique_slices(SELF, I_(in[1]), out, false, I_(in[2]), I_(in[3]));
}

static rush_op op_unique_dim_consecutive = {
    .schema = "unique_dim_consecutive(Tensor self, int dim, bool return_inverse=False, bool return_counts=False) -> (Tensor, Tensor, Tensor)",
    .doc = "unique_consecutive() of slices.", .shape = unique_dim_shape, .cpu = unique_dim_consecutive_cpu, .flags = RUSH_HIDDEN | RUSH_DATA_SIZED,
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

static int isin_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    for (int k = 0; k < 2; ++k) {
        const rush_tensor *t = T_(in[k]);
        RUSH_CHECK(!t || t->dtype != RUSH_BOOL, RUSH_RUNTIME_ERROR, "Unsupported input type encountered for isin(): %s", rush_dtype_word(RUSH_BOOL));
        RUSH_CHECK(t ? rush_dtypes[t->dtype].category < 3 : in[k].kind != RUSH_V_COMPLEX, RUSH_NOT_IMPLEMENTED, "complex numbers have no order here");
    }
    const rush_tensor *elements = T_(in[0]);
    return rush_out_t(out, 0, elements ? elements : in[1].t, RUSH_BOOL, elements ? elements->ndim : 0, elements ? elements->size : NULL) ? 0 : -1;
}

static void isin_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *elements = T_(in[0]) ? in[0].t : rush_tensor_of_number(in[0], false), *test = T_(in[1]) ? in[1].t : rush_tensor_of_number(in[1], false);
    if (!elements || !test) return;
    bool floats = rush_dtypes[elements->dtype].category == 2 || rush_dtypes[test->dtype].category == 2;
    uint64_t *a = rush_keys(elements, floats), *b = a ? rush_keys(test, floats) : NULL;
    int64_t *from = b ? rush_scope_alloc(sizeof *from * (size_t)RUSH_MAX(test->numel, 1)) : NULL;
    if (!from) return;
    for (int64_t i = 0; i < test->numel; ++i) from[i] = i;
    if (rush_keys_sort(b, from, test->numel)) return;
    isin_job j = {a, b, test->numel, rush_ptr(out[0].t), floats, I_(in[3])};
    rush_parallel_for(elements->numel, 4096, isin_some, &j);
}

#define ISIN "*, bool assume_unique=False, bool invert=False) -> Tensor"
static rush_op op_isin = {
    .schema = "isin.Tensor_Tensor(Tensor elements, Tensor test_elements, " ISIN, .doc = "For each element whether it is among the test elements.",
    .shape = isin_shape, .cpu = isin_cpu, .flags = RUSH_NO_GRAD};
static rush_op op_isin_scalar = {
    .schema = "isin.Tensor_Scalar(Tensor elements, Scalar test_element, " ISIN, .doc = "For each element whether it is a number.", .shape = isin_shape, .cpu = isin_cpu,
    .flags = RUSH_NO_GRAD};
static rush_op op_scalar_isin = {
    .schema = "isin.Scalar_Tensor(Scalar element, Tensor test_elements, " ISIN, .doc = "Whether a number is among the test elements.", .shape = isin_shape, .cpu = isin_cpu,
    .flags = RUSH_NO_GRAD};

RUSH_FAMILY(unique, &op_unique2, &op_unique, &op_unique_dim, &op_unique_consecutive, &op_unique_dim_consecutive, &op_isin, &op_isin_scalar,
            &op_scalar_isin)
