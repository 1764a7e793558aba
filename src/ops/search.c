/* search.c - places in sorted sequences and counts of values: searchsorted, bucketize, bincount, one_hot, renorm. */
#include "op/formula.h"
#include "ops/geometry.h"
#include "ops/keys.h"

#define SELF (in[0].t)

/* ---- searchsorted ---- */

typedef struct search_job {
    const uint64_t *edge, *key;
    const int64_t *order; /* or NULL: the edges lie sorted */
    int64_t *to, n, row;  /* n edges a row, `row` values */
    bool by_row, right, floats;
} search_job;

static void search_some(void *arg, int64_t begin, int64_t end)
{
    const search_job *j = arg;
    for (int64_t i = begin; i < end; ++i) {
        int64_t skip = j->by_row ? i / j->row * j->n : 0, low = 0, high = j->n;
        const uint64_t *e = j->edge + skip, key = j->key[i];
        if (j->floats && key == RUSH_KEY_NAN) { /* NaN goes behind everything */
            j->to[i] = j->n;
            continue;
        }
        if (!j->order) {
            j->to[i] = rush_keys_place(e, j->n, key, j->right);
            continue;
        }
        while (low < high) {
            int64_t mid = low + (high - low) / 2;
            uint64_t at = e[j->order[skip + mid]];
            if (j->right ? at > key : at >= key) high = mid;
            else low = mid + 1;
        }
        j->to[i] = low;
    }
}

/* Places of values among the boundaries of their row (or of the only one). */
static rush_tensor *search(const rush_tensor *boundaries, const rush_tensor *values, bool right, bool narrow, const rush_tensor *sorter)
{
    bool floats = rush_dtypes[boundaries->dtype].category == 2 || rush_dtypes[values->dtype].category == 2;
    const uint64_t *edge = rush_keys(boundaries, floats), *key = edge ? rush_keys(values, floats) : NULL;
    const rush_tensor *by = sorter ? rush_cast_copy(sorter, RUSH_I64) : NULL;
    rush_tensor *result = key ? rush_tensor_new(RUSH_I64, values->device, values->ndim, values->size) : NULL;
    if (!result || (sorter && !by)) return NULL;
    int64_t row = boundaries->ndim == 1 || values->ndim == 0 ? values->numel : values->size[values->ndim - 1];
    search_job j = {edge, key, by ? rush_ptr(by) : NULL, rush_ptr(result), boundaries->size[boundaries->ndim - 1], row, boundaries->ndim > 1, right, floats};
    rush_parallel_for(values->numel, 4096, search_some, &j);
    return narrow ? rush_cast_copy(result, RUSH_I32) : result;
}

static int searchsorted(rush_value *out, const rush_tensor *boundaries, const rush_tensor *values, bool scalar, const rush_value *options)
{
    bool narrow = I_(options[0]), right = I_(options[1]);
    const char *side = HAS(options[2]) ? options[2].s : NULL;
    const rush_tensor *sorter = T_(options[3]);
    if (side) {
        bool is_right = !strcmp(side, "right");
        RUSH_CHECK(is_right || !strcmp(side, "left"), RUSH_RUNTIME_ERROR, "torch.searchsorted(): side can only be 'left' or 'right' but got %s", side);
        RUSH_CHECK(!right || is_right, RUSH_RUNTIME_ERROR,
                   "torch.searchsorted(): side and right can't be set to opposites, got side of %s while right was True", side);
        right = is_right;
    }
    RUSH_CHECK(boundaries->ndim > 0, RUSH_RUNTIME_ERROR, "torch.searchsorted(): boundaries tensor should have positive dimension, but got 0 dimension");
    bool fits = boundaries->ndim == 1 || boundaries->ndim == values->ndim;
    RUSH_CHECK(values->ndim > 0 || boundaries->ndim == 1, RUSH_RUNTIME_ERROR,
               "torch.searchsorted(): input value can be a scalar only when boundaries tensor dimension is 1, but we got boundaries tensor dim(%d) and input "
               "value's dim(0) numel(1)", boundaries->ndim);
    for (int d = 0; d < boundaries->ndim - 1 && fits && boundaries->ndim > 1; ++d) fits = boundaries->size[d] == values->size[d];
    RUSH_CHECK(fits, RUSH_RUNTIME_ERROR,
               "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor and input value tensor must match, "
               "but we got boundaries tensor %s and input value tensor %s", rush_shape_of(boundaries), rush_shape_of(values));
    RUSH_CHECK(scalar || boundaries->dtype == values->dtype, RUSH_RUNTIME_ERROR,
               "torch.searchsorted(): boundary tensor and input value tensor should have same dtype, but got boundary tensor's dtype %s and input value "
               "tensor's dtype %s", rush_dtype_name(boundaries->dtype), rush_dtype_name(values->dtype));
    RUSH_CHECK(!sorter || rush_same_sizes(sorter, boundaries), RUSH_RUNTIME_ERROR,
               "torch.searchsorted(): boundary and sorter must have the same size, but got boundary tensor %s and got sorter tensor %s",
               rush_shape_of(boundaries), sorter ? rush_shape_of(sorter) : "");
    RUSH_CHECK(!sorter || sorter->dtype == RUSH_I64, RUSH_RUNTIME_ERROR, "torch.searchsorted(): sorter must be a tensor of long dtype but got dtype %s",
               sorter ? rush_dtype_name(sorter->dtype) : "");
    if (sorter && sorter->numel) {
        const rush_tensor *o = rush_cast_copy(sorter, RUSH_I64);
        int64_t n = boundaries->size[boundaries->ndim - 1];
        for (int64_t i = 0; o && i < o->numel; ++i) {
            int64_t at = ((const int64_t *)rush_ptr(o))[i];
            RUSH_CHECK(at >= 0 && at < n, RUSH_RUNTIME_ERROR, "torch.searchsorted(): sorter index out of range");
        }
    }
    RUSH_CHECK(!narrow || boundaries->size[boundaries->ndim - 1] < INT32_MAX, RUSH_RUNTIME_ERROR,
               "torch.searchsorted(): the size of boundaries' last dimension should be less than %d, but we got %lld", INT32_MAX,
               (long long)boundaries->size[boundaries->ndim - 1]);
    return rush_result(out, search(boundaries, values, right, narrow, sorter));
}

static int searchsorted_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return searchsorted(out, SELF, in[1].t, in[1].t->flags & RUSH_T_WRAPPED, in + 2);
}

static int searchsorted_scalar_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *value = rush_tensor_of_number(in[1], true);
    return value ? searchsorted(out, SELF, value, true, in + 2) : -1;
}

#define SEARCH "*, bool out_int32=False, bool right=False, str? side=None, Tensor? sorter=None) -> Tensor"
static rush_op op_searchsorted = {
    .schema = "searchsorted.Tensor(Tensor sorted_sequence, Tensor self, " SEARCH,
    .doc = "Where each value would go in its row of sorted sequences: before equal ones, or with right behind them.", .run = searchsorted_run,
    .flags = RUSH_NO_GRAD,
};
static rush_op op_searchsorted_scalar = {
    .schema = "searchsorted.Scalar(Tensor sorted_sequence, Scalar self, " SEARCH, .doc = "Where a number would go in a sorted sequence.",
    .run = searchsorted_scalar_run, .flags = RUSH_NO_GRAD,
};

static int bucketize(rush_value *out, const rush_tensor *values, const rush_tensor *boundaries, bool narrow, bool right, bool scalar)
{
    RUSH_CHECK(boundaries->ndim == 1, RUSH_RUNTIME_ERROR, "boundaries tensor must be 1 dimension, but got dim(%d)", boundaries->ndim);
    const rush_value options[4] = {rush_v_bool(narrow), rush_v_bool(right)};
    return searchsorted(out, boundaries, values, scalar, options);
}

static int bucketize_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return bucketize(out, SELF, in[1].t, I_(in[2]), I_(in[3]), SELF->flags & RUSH_T_WRAPPED);
}

static int bucketize_scalar_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *value = rush_tensor_of_number(in[0], true);
    return value ? bucketize(out, value, in[1].t, I_(in[2]), I_(in[3]), true) : -1;
}

static rush_op op_bucketize = {
    .schema = "bucketize.Tensor(Tensor self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor",
    .doc = "For each element the number of its bucket between sorted boundaries.", .run = bucketize_run, .flags = RUSH_NO_GRAD,
};
static rush_op op_bucketize_scalar = {
    .schema = "bucketize.Scalar(Scalar self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor",
    .doc = "The number of a number's bucket.", .run = bucketize_scalar_run, .flags = RUSH_NO_GRAD,
};

/* ---- bincount ---- */

static int bincount_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *self = SELF, *weights = T_(in[1]);
    int64_t least = I_(in[2]), n = self->numel, most = -1;
    RUSH_CHECK(least >= 0, RUSH_RUNTIME_ERROR, "minlength should be >= 0");
    if (rush_needs_data(self)) return -1;
    RUSH_CHECK(self->ndim == 1 && rush_dtype_is_integer(self->dtype), rush_dtype_is_float(self->dtype) ? RUSH_NOT_IMPLEMENTED : RUSH_RUNTIME_ERROR,
               "bincount only supports 1-d non-negative integral inputs.");
    RUSH_CHECK(!weights || (weights->ndim == 1 && weights->numel == n), RUSH_RUNTIME_ERROR, "weights should be 1-d and have the same length as input");
    rush_tensor *numbers = rush_cast_copy(self, RUSH_I64);
    rush_value limit[2];
    if (!numbers || (n && TN(limit, "aminmax", V(numbers)))) return -1;
    const int64_t *p = rush_ptr(numbers);
    if (n) most = *(int64_t *)rush_ptr(limit[1].t);
    RUSH_CHECK(!n || *(int64_t *)rush_ptr(limit[0].t) >= 0, RUSH_RUNTIME_ERROR, "bincount only supports 1-d non-negative integral inputs.");
    int64_t bins = RUSH_MAX(most + 1, least);
    rush_dtype d = !weights || n == 0 ? RUSH_I64 : weights->dtype == RUSH_F32 ? RUSH_F32 : RUSH_F64;
    rush_tensor *result = rush_tensor_new(d, self->device, 1, &bins);
    const rush_tensor *w = weights ? rush_cast_copy(weights, d) : NULL;
    if (!result || (weights && !w)) return -1;
    rush_zero_into(result);
    void *to = rush_ptr(result);
    const void *from = w ? rush_ptr(w) : NULL;
    for (int64_t i = 0; i < n && d == RUSH_I64; ++i) ++((int64_t *)to)[p[i]];
    for (int64_t i = 0; i < n && d == RUSH_F32; ++i) ((float *)to)[p[i]] += ((const float *)from)[i];
    for (int64_t i = 0; i < n && d == RUSH_F64; ++i) ((double *)to)[p[i]] += ((const double *)from)[i];
    return rush_result(out, result);
}

static rush_op op_bincount = {
    .schema = "bincount(Tensor self, Tensor? weights=None, SymInt minlength=0) -> Tensor",
    .doc = "How often each number from 0 on occurs in a vector, or the sum of the weights where it does.", .run = bincount_run, .flags = RUSH_NO_GRAD,
};

/* ---- one_hot ---- */

static int one_hot_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *self = SELF;
    int64_t classes = I_(in[1]), size[RUSH_MAXDIM], most = -1;
    RUSH_CHECK(self->dtype == RUSH_I64, RUSH_RUNTIME_ERROR, "one_hot is only applicable to index tensor of type LongTensor.");
    RUSH_CHECK(self->ndim < RUSH_MAXDIM, RUSH_NOT_IMPLEMENTED, "tensors have at most %d dimensions", RUSH_MAXDIM);
    RUSH_CHECK(self->numel || classes > 0, RUSH_RUNTIME_ERROR, "Can not infer total number of classes from empty tensor.");
    const rush_tensor *numbers = rush_contiguous_copy(self);
    if (!numbers) return -1;
    const int64_t *p = rush_ptr(numbers);
    RUSH_CHECK(p || self->device.type != RUSH_META || classes > 0, RUSH_NOT_IMPLEMENTED, "the number of classes depends on data, which this device has not");
    for (int64_t i = 0; p && i < self->numel; ++i) {
        RUSH_CHECK(p[i] >= 0, RUSH_RUNTIME_ERROR, "Class values must be non-negative.");
        most = RUSH_MAX(most, p[i]);
    }
    RUSH_CHECK(classes != 0 && classes >= -1, RUSH_RUNTIME_ERROR, "num_classes should be positive");
    RUSH_CHECK(classes == -1 || most < classes, RUSH_RUNTIME_ERROR, "Class values must be smaller than num_classes.");
    if (classes == -1) classes = most + 1;
    if (self->ndim) memcpy(size, self->size, sizeof *size * self->ndim);
    size[self->ndim] = classes;
    rush_tensor *result = rush_tensor_new(RUSH_I64, self->device, self->ndim + 1, size);
    if (!result) return -1;
    if (self->device.type == RUSH_CPU) rush_zero_into(result);
    for (int64_t i = 0; p && i < self->numel; ++i) ((int64_t *)rush_ptr(result))[i * classes + p[i]] = 1;
    return rush_result(out, result);
}

static rush_op op_one_hot = {
    .schema = "one_hot(Tensor self, int num_classes=-1) -> Tensor",
    .doc = "For each class number a vector that is 1 there and 0 elsewhere; without num_classes, the largest number decides.", .run = one_hot_run,
    .flags = RUSH_NO_GRAD,
};

/* ---- renorm ---- */

static int renorm_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *self = SELF;
    double p = D_(in[1]), most = D_(in[3]);
    int64_t dims[RUSH_MAXDIM];
    int n = 0;
    RUSH_CHECK(p > 0, RUSH_RUNTIME_ERROR, "renorm: non-positive-norm not supported");
    RUSH_CHECK(in[1].kind != RUSH_V_COMPLEX, RUSH_RUNTIME_ERROR, "renorm: p must be real-valued");
    RUSH_CHECK(most >= 0, RUSH_RUNTIME_ERROR, "renorm: expected maxnorm to be >= 0 but got %g", most);
    RUSH_CHECK(self->ndim > 1, RUSH_RUNTIME_ERROR, "renorm: input needs at least 2 dimensions, got %d dimensions", self->ndim);
    int dim = rush_dim_wrap(I_(in[2]), self->ndim);
    if (dim < 0) return -1;
    for (int d = 0; d < self->ndim; ++d)
        if (d != dim) dims[n++] = d;
    rush_tensor *norm = T("linalg_vector_norm", V(self), in[1], rush_v_ints(dims, n), V(true));
    if (!norm) return -1;
    rush_tensor *scale = where(gt(norm, most), div_(V(most), add(norm, 1e-7)), ones_like(norm));
    return rush_result(out, mul(self, scale));
}

static rush_op op_renorm = {
    .schema = "renorm(Tensor self, Scalar p, int dim, Scalar maxnorm) -> Tensor",
    .doc = "Slices of dim whose p-norm is above maxnorm scaled down to it.", .run = renorm_run, .flags = RUSH_INPLACE_OK,
};

RUSH_FAMILY(search, &op_searchsorted, &op_searchsorted_scalar, &op_bucketize, &op_bucketize_scalar, &op_bincount, &op_one_hot, &op_renorm)
