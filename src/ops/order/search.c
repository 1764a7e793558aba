/* search.c - places in sorted sequences and counts of values: searchsorted, bucketize, bincount, one_hot, renorm. */
#include "op/formula.h"
#include "ops/geometry.h"
#include "ops/order/keys.h"

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
static void search(rush_tensor *to, const rush_tensor *boundaries, const rush_tensor *values, bool right, const rush_tensor *sorter)
{
    rush_dtype common = rush_result_type(2, (const rush_value[2]){rush_v_tensor((rush_tensor *)boundaries), rush_v_tensor((rush_tensor *)values)});
    if (boundaries->dtype != values->dtype) { /* compared as numbers of what both promote to */
        boundaries = rush_cast_copy(boundaries, common);
        values = boundaries ? rush_cast_copy(values, common) : NULL;
        if (!values) return;
    }
    bool floats = rush_dtypes[common].category == 2;
    const uint64_t *edge = rush_keys(boundaries, floats), *key = edge ? rush_keys(values, floats) : NULL;
    const rush_tensor *by = sorter ? rush_cast_copy(sorter, RUSH_I64) : NULL;
    rush_tensor *result = to->dtype == RUSH_I64 && rush_contiguous(to) ? to : rush_tensor_new(RUSH_I64, to->device, to->ndim, to->size);
    if (!key || !result || (sorter && !by)) return;
    int64_t n = boundaries->size[boundaries->ndim - 1];
    for (int64_t i = 0; by && i < by->numel; ++i) {
        int64_t at = ((const int64_t *)rush_ptr(by))[i];
        if (at >= 0 && at < n) continue;
        rush_fail(RUSH_RUNTIME_ERROR, "torch.searchsorted(): sorter index out of range");
        return;
    }
    int64_t row = boundaries->ndim == 1 || values->ndim == 0 ? values->numel : values->size[values->ndim - 1];
    search_job j = {edge, key, by ? rush_ptr(by) : NULL, rush_ptr(result), n, row, boundaries->ndim > 1, right, floats};
    rush_parallel_for(values->numel, 4096, search_some, &j);
    if (result != to) rush_copy_into(to, result);
}

static bool to_the_right(const rush_value *options)
{
    return I_(options[1]) || (HAS(options[2]) && !strcmp(options[2].s, "right"));
}

static int check_search(rush_value *out, const rush_tensor *boundaries, const rush_tensor *values, const rush_value *options)
{
    bool narrow = I_(options[0]), right = I_(options[1]);
    const char *side = HAS(options[2]) ? options[2].s : NULL;
    const rush_tensor *sorter = T_(options[3]);
    if (side) {
        bool is_right = !strcmp(side, "right");
        RUSH_CHECK(is_right || !strcmp(side, "left"), RUSH_RUNTIME_ERROR, "torch.searchsorted(): side can only be 'left' or 'right' but got %s", side);
        RUSH_CHECK(!right || is_right, RUSH_RUNTIME_ERROR,
                   "torch.searchsorted(): side and right can't be set to opposites, got side of %s while right was True", side);
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
    RUSH_CHECK(!sorter || rush_same_sizes(sorter, boundaries), RUSH_RUNTIME_ERROR,
               "torch.searchsorted(): boundary and sorter must have the same size, but got boundary tensor %s and got sorter tensor %s",
               rush_shape_of(boundaries), sorter ? rush_shape_of(sorter) : "");
    RUSH_CHECK(!sorter || sorter->dtype == RUSH_I64, RUSH_RUNTIME_ERROR, "torch.searchsorted(): sorter must be a tensor of long dtype but got dtype %s",
               sorter ? rush_dtype_name(sorter->dtype) : "");
    RUSH_CHECK(rush_dtypes[boundaries->dtype].category < 3 && rush_dtypes[values->dtype].category < 3, RUSH_NOT_IMPLEMENTED,
               "complex numbers (%s) have no order here", rush_dtype_word(boundaries->dtype));
    RUSH_CHECK(!narrow || boundaries->size[boundaries->ndim - 1] < INT32_MAX, RUSH_RUNTIME_ERROR,
               "torch.searchsorted(): the size of boundaries' last dimension should be less than %d, but we got %lld", INT32_MAX,
               (long long)boundaries->size[boundaries->ndim - 1]);
    return rush_out_t(out, 0, boundaries, narrow ? RUSH_I32 : RUSH_I64, values->ndim, values->size) ? 0 : -1;
}

/* A tensor, or a number as one. */
static rush_tensor *sought(rush_value v) { return T_(v) ? v.t : rush_tensor_of_number(v, true); }

static int searchsorted_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *values = sought(in[1]);
    return values ? check_search(out, SELF, values, in + 2) : -1;
}

static void searchsorted_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *values = sought(in[1]);
    if (values) search(out[0].t, SELF, values, to_the_right(in + 2), T_(in[5]));
}

#define SEARCH "*, bool out_int32=False, bool right=False, str? side=None, Tensor? sorter=None) -> Tensor"
static rush_op op_searchsorted = {
    .schema = "searchsorted.Tensor(Tensor sorted_sequence, Tensor self, " SEARCH,
    .doc = "Where each value would go in its row of sorted sequences: before equal ones, or with right behind them.", .shape = searchsorted_shape,
    .cpu = searchsorted_cpu,
    .flags = RUSH_NO_GRAD,
};
static rush_op op_searchsorted_scalar = {
    .schema = "searchsorted.Scalar(Tensor sorted_sequence, Scalar self, " SEARCH, .doc = "Where a number would go in a sorted sequence.",
    .shape = searchsorted_shape, .cpu = searchsorted_cpu, .flags = RUSH_NO_GRAD,
};

static int bucketize_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *values = sought(in[0]), *boundaries = in[1].t;
    RUSH_CHECK(boundaries->ndim == 1, RUSH_RUNTIME_ERROR, "boundaries tensor must be 1 dimension, but got dim(%d)", boundaries->ndim);
    return values ? check_search(out, boundaries, values, (const rush_value[4]){in[2], in[3]}) : -1;
}

static void bucketize_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *values = sought(in[0]);
    if (values) search(out[0].t, in[1].t, values, I_(in[3]), NULL);
}

static rush_op op_bucketize = {
    .schema = "bucketize.Tensor(Tensor self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor",
    .doc = "For each element the number of its bucket between sorted boundaries.", .shape = bucketize_shape, .cpu = bucketize_cpu, .flags = RUSH_NO_GRAD,
};
static rush_op op_bucketize_scalar = {
    .schema = "bucketize.Scalar(Scalar self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor",
    .doc = "The number of a number's bucket.", .shape = bucketize_shape, .cpu = bucketize_cpu, .flags = RUSH_NO_GRAD,
};

/* ---- bincount ---- */

static int bincount_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *self = SELF, *weights = T_(in[1]);
    RUSH_CHECK(I_(in[2]) >= 0, RUSH_RUNTIME_ERROR, "minlength should be >= 0");
    RUSH_CHECK(self->ndim == 1 && rush_dtype_is_integer(self->dtype), rush_dtype_is_float(self->dtype) ? RUSH_NOT_IMPLEMENTED : RUSH_RUNTIME_ERROR,
               "bincount only supports 1-d non-negative integral inputs.");
    RUSH_CHECK(!weights || (weights->ndim == 1 && weights->numel == self->numel), RUSH_RUNTIME_ERROR, "weights should be 1-d and have the same length as input");
    return 0;
}

static void bincount_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *self = SELF, *weights = T_(in[1]);
    int64_t n = self->numel, most = -1;
    rush_tensor *numbers = rush_cast_copy(self, RUSH_I64);
    rush_value limit[2];
    if (!numbers || (n && TN(limit, "aminmax", V(numbers)))) return;
    const int64_t *p = rush_ptr(numbers);
    if (n) most = *(int64_t *)rush_ptr(limit[1].t);
    if (n && *(int64_t *)rush_ptr(limit[0].t) < 0) {
        rush_fail(RUSH_RUNTIME_ERROR, "bincount only supports 1-d non-negative integral inputs.");
        return;
    }
    if (most == INT64_MAX) {
        rush_fail(RUSH_RUNTIME_ERROR, "maximum value of input overflowed, it should be < %lld but got %lld", (long long)INT64_MAX, (long long)most);
        return;
    }
    int64_t bins = RUSH_MAX(most + 1, I_(in[2]));
    rush_dtype d = !weights || n == 0 ? RUSH_I64 : weights->dtype == RUSH_F32 ? RUSH_F32 : RUSH_F64;
    rush_tensor *result = rush_out_t(out, 0, self, d, 1, &bins);
    const rush_tensor *w = weights ? rush_cast_copy(weights, d) : NULL;
    if (!result || (weights && !w)) return;
    rush_zero_into(result);
    void *to = rush_ptr(result);
    const void *from = w ? rush_ptr(w) : NULL;
    for (int64_t i = 0; i < n && d == RUSH_I64; ++i) ++((int64_t *)to)[p[i]];
    for (int64_t i = 0; i < n && d == RUSH_F32; ++i) ((float *)to)[p[i]] += ((const float *)from)[i];
    for (int64_t i = 0; i < n && d == RUSH_F64; ++i) ((double *)to)[p[i]] += ((const double *)from)[i];
}

static rush_op op_bincount = {
    .schema = "bincount(Tensor self, Tensor? weights=None, SymInt minlength=0) -> Tensor", .method = RUSH_METHOD,
    .doc = "How often each number from 0 on occurs in a vector, or the sum of the weights where it does.", .shape = bincount_shape,
    .cpu = bincount_cpu, .flags = RUSH_NO_GRAD | RUSH_DATA_SIZED,
};

/* ---- one_hot ---- */

static rush_tensor *one_hot_out(rush_value *out, const rush_tensor *self, int64_t classes)
{
    int64_t size[RUSH_MAXDIM];
    if (self->ndim) memcpy(size, self->size, sizeof *size * self->ndim);
    size[self->ndim] = classes;
    return rush_out_t(out, 0, self, RUSH_I64, self->ndim + 1, size);
}

static int one_hot_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *self = SELF;
    int64_t classes = I_(in[1]);
    RUSH_CHECK(self->dtype == RUSH_I64, RUSH_RUNTIME_ERROR, "one_hot is only applicable to index tensor of type LongTensor.");
    RUSH_CHECK(self->ndim < RUSH_MAXDIM, RUSH_NOT_IMPLEMENTED, "tensors have at most %d dimensions", RUSH_MAXDIM);
    RUSH_CHECK(self->numel || classes > 0, RUSH_RUNTIME_ERROR, "Can not infer total number of classes from empty tensor.");
    RUSH_CHECK(classes != 0 && classes >= -1, RUSH_RUNTIME_ERROR, "num_classes should be positive");
    return classes < 0 || one_hot_out(out, self, classes) ? 0 : -1; /* else the largest number decides */
}

static void one_hot_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *self = SELF, *numbers = rush_contiguous_copy(self);
    int64_t classes = I_(in[1]), most = -1;
    if (!numbers) return;
    const int64_t *p = rush_ptr(numbers);
    bool negative = false;
    for (int64_t i = 0; i < self->numel; ++i) {
        negative |= p[i] < 0;
        most = RUSH_MAX(most, p[i]);
    }
    if (negative) rush_fail(RUSH_RUNTIME_ERROR, "Class values must be non-negative.");
    else if (classes >= 0 && most >= classes) rush_fail(RUSH_RUNTIME_ERROR, "Class values must be smaller than num_classes.");
    else if (most == INT64_MAX) rush_fail(RUSH_RUNTIME_ERROR, "Class values must be smaller than %lld.", (long long)INT64_MAX);
    rush_tensor *result = rush_failed() ? NULL : classes >= 0 ? out[0].t : one_hot_out(out, self, classes = most + 1);
    if (!result) return;
    rush_zero_into(result);
    int64_t *to = rush_ptr(result);
    for (int64_t i = 0; i < self->numel; ++i) to[i * classes + p[i]] = 1;
}

static rush_op op_one_hot = {
    .schema = "one_hot(Tensor self, int num_classes=-1) -> Tensor", .method = RUSH_NN,
    .doc = "For each class number a vector that is 1 there and 0 elsewhere; without num_classes, the largest number decides.", .shape = one_hot_shape, .cpu = one_hot_cpu,
    .flags = RUSH_NO_GRAD | RUSH_DATA_SIZED,
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
    return rush_result(out, rush_laid_plain(mul(self, scale)));
}

static rush_op op_renorm = {
    .schema = "renorm(Tensor self, Scalar p, int dim, Scalar maxnorm) -> Tensor", .method = RUSH_METHODS, .node = "RenormBackward0",
    .doc = "Slices of dim whose p-norm is above maxnorm scaled down to it.", .run = renorm_run, .flags = RUSH_INPLACE_OK | RUSH_WHOLE,
};

RUSH_FAMILY(search, &op_searchsorted, &op_searchsorted_scalar, &op_bucketize, &op_bucketize_scalar, &op_bincount, &op_one_hot, &op_renorm)
