/* embedding.c - rows of a table looked up by number: embedding, its dense gradient, embedding_bag. */
#include "kernels/cpu/index.h"
#include "op/formula.h"
#include "ops/geometry.h"
#include "ops/index/places.h"
#include "ops/walk.h"
#include <math.h>

#define SELF (in[0].t)

static int indices_check(const char *name, const rush_tensor *indices)
{
    RUSH_CHECK(indices->dtype == RUSH_I64 || indices->dtype == RUSH_I32, RUSH_RUNTIME_ERROR,
               "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got torch.%sTensor instead (while checking "
               "arguments for %s)", rush_dtype_word(indices->dtype), name);
    return 0;
}

/* int64 numbers, all of rows that the table has; others are an error of this kind (PyTorch's differs by operation) */
static const rush_tensor *row_numbers(const rush_tensor *indices, int64_t rows, rush_error_kind kind)
{
    const rush_tensor *t = rush_index_numbers(indices);
    if (!t || t->numel == 0) return t;
    RUSH_CHECK_NULL(rows > 0, RUSH_RUNTIME_ERROR, "index_select(): self indexing axis dim should be positive");
    const int64_t *p = rush_ptr(t);
    int64_t bad = rush_k_index->outside(p, t->numel, 0, rows);
    RUSH_CHECK_NULL(bad < 0, kind, "index out of range in self: Expected idx >= 0 && idx < num_embeddings, but index %lld is at position %lld and the table has %lld rows",
                    (long long)p[bad], (long long)bad, (long long)rows);
    return t;
}

/* ---- embedding ---- */

static int embedding_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *weight = SELF, *indices = in[1].t;
    int64_t size[RUSH_MAXDIM];
    RUSH_CHECK(weight->ndim == 2, RUSH_RUNTIME_ERROR, "'weight' must be 2-D");
    RUSH_CHECK(indices->ndim < RUSH_MAXDIM, RUSH_NOT_IMPLEMENTED, "tensors have at most %d dimensions", RUSH_MAXDIM);
    if (indices_check("embedding", indices)) return -1;
    if (indices->ndim) memcpy(size, indices->size, sizeof *size * indices->ndim);
    size[indices->ndim] = weight->size[1];
    return rush_out_t(out, 0, weight, weight->dtype, indices->ndim + 1, size) ? 0 : -1;
}

static void embedding_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *numbers = row_numbers(in[1].t, SELF->size[0], RUSH_INDEX_ERROR), *weight = SELF;
    if (!numbers || out[0].t->numel == 0 || !(weight = rush_contiguous_copy(weight))) return;
    rush_take_rows(out[0].t, weight, rush_ptr(numbers), numbers->numel);
}

static void embedding_grad(rush_grads *s)
{
    const rush_tensor *weight = s->in[0].t;
    if (s->g[0] && rush_needs(s, 0)) s->gin[0] = T("embedding_backward", V(s->g[0]), s->in[1], V(weight->size[0]), s->in[2], s->in[3], s->in[4]);
}

static rush_op op_embedding = {
    .schema = "embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, bool sparse=False) -> Tensor",
    .doc = "Row indices[...] of weight for each index, as a new last dimension. The row padding_idx gets no gradient.",
    .shape = embedding_shape, .cpu = embedding_cpu, .grad = embedding_grad, .saves = "indices",
};

static int embedding_backward_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *g = SELF, *indices = in[1].t;
    if (!I_(in[5])) return rush_result(out, T("embedding_dense_backward", V(g), V(indices), in[2], in[3], in[4]));
    RUSH_CHECK(!I_(in[4]), RUSH_RUNTIME_ERROR, "embedding_backward: scale_grad_by_freq not supported with sparse gradients");
    int64_t width = g->size[g->ndim - 1];
    rush_tensor *flat = T("reshape", V(indices), INTS(-1)), *rows = T("reshape", V(g), INTS(indices->numel, width));
    if (I_(in[3]) >= 0 && flat) {
        rush_tensor *keep = ne(flat, I_(in[3]));
        flat = T("masked_select", V(flat), V(keep));
        rows = T("index.Tensor", V(rows), rush_v_tensors(&keep, 1));
    }
    if (!flat || !rows) return -1;
    return rush_result(out, T("_sparse_coo_tensor_unsafe", V(T("reshape", V(flat), INTS(1, -1))), V(rows), INTS(I_(in[2]), width)));
}

static rush_op op_embedding_backward = {
    .schema = "embedding_backward(Tensor grad, Tensor indices, SymInt num_weights, SymInt padding_idx, bool scale_grad_by_freq, bool sparse) -> Tensor",
    .doc = "The gradient of an embedding's table, dense or sparse.", .run = embedding_backward_run, .flags = RUSH_HIDDEN,
};

static int dense_backward_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *g = SELF, *indices = in[1].t;
    RUSH_CHECK(g->ndim == indices->ndim + 1, RUSH_RUNTIME_ERROR, "the gradient %s does not fit indices %s", rush_shape_of(g), rush_shape_of(indices));
    int64_t rows = 1;
    for (int d = 0; d < indices->ndim; ++d) rows *= g->size[d];
    RUSH_CHECK(rows == indices->numel, RUSH_RUNTIME_ERROR, "the gradient %s does not fit indices %s", rush_shape_of(g), rush_shape_of(indices));
    if (indices_check("embedding_backward", indices)) return -1;
    return rush_out_t(out, 0, g, g->dtype, 2, (const int64_t[]){I_(in[2]), g->size[g->ndim - 1]}) ? 0 : -1;
}

/* Rows of g added to the rows of `to` that the numbers name. Threads share the columns, so each sum has one order. */
static void add_rows(rush_tensor *to, const rush_tensor *g, const int64_t *index, int64_t n)
{
    rush_index_loop add = rush_combining(RUSH_PUT_ADD, to->dtype);
    if (!add) return;
    int64_t item = rush_dtypes[to->dtype].size, width = to->size[1];
    const int64_t size[2] = {n, width}, into[2] = {0, 1}, from[2] = {width, 1}, places[2] = {1, 0};
    rush_at at = {.scale = width * item, .size = (size_t)item};
    rush_walk w;
    rush_walk_start(&w, 2, size);
    rush_walk_add(&w, rush_ptr(to), into, item);
    rush_walk_add(&w, rush_ptr(g), from, item);
    rush_walk_add(&w, index, places, 8);
    rush_walk_run(&w, 1, add, &at);
}

static void dense_backward_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *to = out[0].t;
    int64_t padding = I_(in[3]), rows = I_(in[2]);
    const rush_tensor *numbers = row_numbers(in[1].t, rows, RUSH_INDEX_ERROR);
    const rush_tensor *g = rush_contiguous_copy(SELF);
    if (!numbers || !g) return;
    rush_zero_into(to);
    if (g->numel) add_rows(to, g, rush_ptr(numbers), numbers->numel);
    if (I_(in[4])) {
        int64_t *count = rush_scope_alloc(sizeof *count * (size_t)RUSH_MAX(rows, 1));
        if (!count) return;
        memset(count, 0, sizeof *count * (size_t)rows);
        for (int64_t i = 0; i < numbers->numel; ++i) ++count[((const int64_t *)rush_ptr(numbers))[i]];
        for (int64_t r = 0; r < rows; ++r) {
            rush_tensor *row = count[r] > 1 ? rush_part(to, 0, r, 1) : NULL;
            if (row && !T_INPLACE("div.Tensor", V(row), V(count[r]))) return;
        }
    }
    if (padding >= 0 && padding < rows) {
        rush_tensor *row = rush_part(to, 0, padding, 1);
        if (row) rush_zero_into(row);
    }
}

static void dense_backward_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0], *indices = s->in[1].t;
    if (!g || !rush_needs(s, 0)) return;
    rush_tensor *rows = T("embedding", V(g), V(indices), s->in[3]);
    if (I_(s->in[3]) >= 0) rows = T("masked_fill.Scalar", V(rows), V(unsqueeze(eq(indices, I_(s->in[3])), -1)), V((int64_t)0));
    s->gin[0] = rows;
}

static rush_op op_dense_backward = {
    .schema = "embedding_dense_backward(Tensor grad_output, Tensor indices, SymInt num_weights, SymInt padding_idx, bool scale_grad_by_freq) -> Tensor",
    .doc = "The rows of a gradient added up by index, in order.", .shape = dense_backward_shape, .cpu = dense_backward_cpu, .grad = dense_backward_grad,
    .saves = "indices", .flags = RUSH_HIDDEN,
};

/* ---- renorm of the rows that are looked up ---- */

static int renorm_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(SELF->ndim == 2, RUSH_RUNTIME_ERROR, "self must be 2-D");
    if (indices_check("embedding_renorm_", in[1].t)) return -1;
    rush_out_view(out, 0, SELF);
    return 0;
}

static void renorm_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *self = SELF;
    double most = D_(in[2]), p = D_(in[3]);
    const rush_tensor *numbers = row_numbers(in[1].t, self->size[0], RUSH_INDEX_ERROR);
    if (!numbers) return;
    const int64_t *index = rush_ptr(numbers);
    uint8_t *done = rush_scope_alloc((size_t)RUSH_MAX(self->size[0], 1));
    rush_tensor *wide = rush_tensor_new(RUSH_F64, self->device, 2, (const int64_t[]){1, self->size[1]});
    if (!done || !wide) return;
    memset(done, 0, (size_t)self->size[0]);
    double *x = rush_ptr(wide);
    for (int64_t i = 0; i < numbers->numel; ++i) {
        if (done[index[i]]) continue;
        done[index[i]] = 1;
        rush_tensor *row = rush_part(self, 0, index[i], 1);
        if (!row || rush_copy_into(wide, row)) return;
        double norm = 0;
        for (int64_t k = 0; k < self->size[1]; ++k) norm = isinf(p) ? fmax(norm, fabs(x[k])) : norm + (p == 2 ? x[k] * x[k] : pow(fabs(x[k]), p));
        norm = isinf(p) ? norm : p == 2 ? sqrt(norm) : pow(norm, 1 / p);
        if (norm <= most) continue;
        for (int64_t k = 0; k < self->size[1]; ++k) x[k] *= most / (norm + 1e-7);
        if (rush_copy_into(row, wide)) return;
    }
}

static rush_op op_renorm = {
    .schema = "embedding_renorm_(Tensor(a!) self, Tensor indices, float max_norm, float norm_type) -> Tensor(a!)", .method = RUSH_FUNCTION_,
    .doc = "Scales the rows that indices names down to max_norm where their norm is larger.",
    .shape = renorm_shape, .cpu = renorm_cpu, .flags = RUSH_SIDE_EFFECT | RUSH_NO_GRAD,
};

/* ---- embedding_bag: rows combined by sum, mean or maximum ---- */

enum { SUM, MEAN, MAX };

static int bag_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *weight = SELF, *indices = in[1].t, *offsets = in[2].t;
    int mode = (int)I_(in[4]);
    bool last = I_(in[7]);
    RUSH_CHECK(weight->ndim == 2, RUSH_RUNTIME_ERROR, "weight has to be a 2D Tensor, but got Tensor of dimension %d", weight->ndim);
    RUSH_CHECK(indices->ndim == 1, RUSH_RUNTIME_ERROR, "input has to be a 1D or 2D Tensor, and flat here, but got Tensor of dimension %d", indices->ndim);
    RUSH_CHECK(offsets->ndim == 1, RUSH_RUNTIME_ERROR, "offsets has to be a 1D Tensor, but got Tensor of dimension %d", offsets->ndim);
    if (indices_check("embedding_bag", indices) || indices_check("embedding_bag", offsets)) return -1;
    RUSH_CHECK(mode >= SUM && mode <= MAX, RUSH_VALUE_ERROR, "mode has to be one of sum, mean or max");
    const rush_tensor *scale = T_(in[6]);
    RUSH_CHECK(!scale || mode == SUM, RUSH_RUNTIME_ERROR, "embedding_bag: per_sample_weights only supported with mode='sum'");
    RUSH_CHECK(!scale || (scale->ndim == 1 && scale->numel == indices->numel), RUSH_RUNTIME_ERROR,
               "expected per_sample_weights to have the same number of elements as input, but got %s and %s", scale ? rush_shape_of(scale) : "",
               rush_shape_of(indices));
    RUSH_CHECK(!scale || scale->dtype == weight->dtype, RUSH_RUNTIME_ERROR, "expected weight to have the same type as per_sample_weights, but got %s and %s",
               rush_dtype_word(weight->dtype), scale ? rush_dtype_word(scale->dtype) : "");
    RUSH_CHECK(!last || offsets->numel >= 1, RUSH_RUNTIME_ERROR, "include_last_offset: number of offset should be at least 1");
    int64_t bags = offsets->numel - last, size[2] = {bags, weight->size[1]}, many = indices->numel;
    if (!rush_out_t(out, 0, weight, weight->dtype, 2, size) || !rush_out_t(out, 1, weight, indices->dtype, 1, &many)) return -1;
    if (!rush_out_t(out, 2, weight, indices->dtype, 1, &bags)) return -1;
    return rush_out_t(out, 3, weight, indices->dtype, mode == MAX ? 2 : 1, mode == MAX ? size : &bags) ? 0 : -1;
}

typedef struct bag_job {
    const int64_t *index, *start;
    int64_t nstarts, n, width, padding;
    int mode;
    int64_t *size, *winner;
    const void *table, *scale;
    void *to;
    rush_index_loop join;
} bag_job;

static const int64_t nowhere = 0; /* rows are added at once: no offsets */

#define AHEAD 4 /* rows that are fetched before they are wanted */
static void prefetch(const void *row, int64_t bytes)
{
    for (int64_t b = 0; b < bytes && b < 512; b += 64) __builtin_prefetch((const char *)row + b);
}

/* Bags [begin, end): their rows' numbers join `to`, which is zero. */
#define BAGS(name, T)                                                                                       \
    static void name(void *arg, int64_t begin, int64_t end)                                                 \
    {                                                                                                       \
        const bag_job *j = arg;                                                                             \
        const T *scale = j->scale;                                                                          \
        for (int64_t b = begin; b < end; ++b) {                                                             \
            int64_t last = b + 1 < j->nstarts ? j->start[b + 1] : j->n, used = 0, width = j->width;         \
            T *restrict to = (T *)j->to + b * width;                                                        \
            int64_t *restrict winner = j->winner + b * width;                                               \
            for (int64_t i = j->start[b]; i < last; ++i) {                                                  \
                const T *restrict from = (const T *)j->table + j->index[i] * width;                         \
                if (i + AHEAD < j->n) prefetch((const T *)j->table + j->index[i + AHEAD] * width, width * (int64_t)sizeof(T)); \
                if (j->index[i] == j->padding) continue;                                                    \
                if (j->mode == MAX) {                                                                       \
                    for (int64_t k = 0; k < width; ++k)                                                     \
                        if (used == 0 || from[k] > to[k]) to[k] = from[k], winner[k] = j->index[i];         \
                } else {                                                                                    \
                    const rush_at at = {.alpha = {scale ? (double)scale[i] : 1}};                           \
                    j->join((char *[]){(char *)to, (char *)from, (char *)&nowhere}, (int64_t[]){sizeof(T), sizeof(T), 0}, width, &at); \
                }                                                                                           \
                ++used;                                                                                     \
            }                                                                                               \
            j->size[b] = used;                                                                              \
            for (int64_t k = 0; k < width && j->mode == MEAN && used > 1; ++k) to[k] /= (T)used;            \
        }                                                                                                   \
    }
BAGS(bags_f32, float)
BAGS(bags_f64, double)

/* Sums go in double for float64 and in float for the rest; the winning rows of the maximum are kept. */
static void bag_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *weight = SELF;
    int mode = (int)I_(in[4]);
    int64_t rows = weight->size[0], width = weight->size[1], padding = I_(in[8]), n = in[1].t->numel, bags = out[0].t->size[0];
    if (padding < 0 && padding >= -rows && in[8].kind == RUSH_V_INT && padding != -1) padding += rows;
    bool wide = weight->dtype == RUSH_F64;
    rush_dtype d = wide ? RUSH_F64 : RUSH_F32;
    const rush_tensor *numbers = row_numbers(in[1].t, rows, RUSH_RUNTIME_ERROR), *starts = rush_index_numbers(in[2].t);
    const rush_tensor *table = rush_cast_copy(weight, d), *scale = T_(in[6]) ? rush_cast_copy(in[6].t, d) : NULL;
    rush_tensor *result = rush_tensor_new(d, weight->device, 2, out[0].t->size), *which = rush_tensor_new(RUSH_I64, weight->device, 1, &n);
    rush_tensor *count = rush_tensor_new(RUSH_I64, weight->device, 1, &bags), *best = count;
    if (mode == MAX) best = rush_tensor_new(RUSH_I64, weight->device, 2, out[0].t->size);
    if (rush_failed() || !numbers || !starts || !table || !best) return;
    const int64_t *index = rush_ptr(numbers), *start = rush_ptr(starts);
    int64_t *bag_of = rush_ptr(which), *size = rush_ptr(count), *winner = rush_ptr(best);
    if (starts->numel && start[0] != 0) {
        rush_fail(RUSH_RUNTIME_ERROR, "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. However, got %lld",
                  (long long)start[0]);
        return;
    }
    if (starts->numel && start[starts->numel - 1] > n) {
        rush_fail(RUSH_RUNTIME_ERROR, "offsets[-1] can not be greater than input's length, but got offsets[-1]=%lld and input's length %lld",
                  (long long)start[starts->numel - 1], (long long)n);
        return;
    }
    for (int64_t b = 1; b < bags; ++b)
        if (start[b] < 0 || start[b] > n) {
            rush_fail(RUSH_RUNTIME_ERROR, "offsets[%lld]=%lld lies outside the input, whose length is %lld", (long long)b, (long long)start[b], (long long)n);
            return;
        }
    rush_zero_into(result);
    if (mode == MAX) rush_zero_into(best);
    int64_t nstarts = bags && (mode == MAX || padding >= 0) ? bags : starts->numel; /* there PyTorch's last bag goes on to the end of the input */
    for (int64_t b = 0; b < bags; ++b)
        for (int64_t i = start[b], end = b + 1 < nstarts ? start[b + 1] : n; i < end; ++i) bag_of[i] = b;
    for (int64_t i = bags < nstarts ? start[bags] : n; i < n; ++i) bag_of[i] = -1; /* behind the last offset: in no bag */
    bag_job j = {.index = index, .start = start, .nstarts = nstarts, .n = n, .width = width, .padding = padding, .mode = mode, .size = size,
                 .winner = winner, .table = rush_ptr(table), .scale = scale ? rush_ptr(scale) : NULL, .to = rush_ptr(result),
                 .join = rush_k_index->combine[scale ? RUSH_PUT_ADD_SCALED : RUSH_PUT_ADD][d]};
    rush_parallel_for(bags, 1 + 32768 / (1 + (n / RUSH_MAX(bags, 1)) * width), wide ? bags_f64 : bags_f32, &j);
    rush_copy_into(out[0].t, result);
    rush_copy_into(out[1].t, which);
    rush_copy_into(out[2].t, count);
    rush_copy_into(out[3].t, best);
}

static void bag_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0];
    const rush_value *in = s->in, *o = s->out;
    if (!g) return;
    if (rush_needs(s, 0))
        s->gin[0] = T("_embedding_bag_backward", V(g), in[1], in[2], o[1], o[2], o[3], V(in[0].t->size[0]), in[3], in[4], in[5], in[6], in[8]);
    if (rush_needs(s, 6)) s->gin[6] = T("_embedding_bag_per_sample_weights_backward", V(g), in[0], in[1], in[2], o[1], in[4], in[8]);
}

#define BAG "(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, bool sparse=False, Tensor? per_sample_weights=None, " \
            "bool include_last_offset=False, int padding_idx=-1) -> (Tensor, Tensor, Tensor, Tensor)"
static rush_op op_bag = {
    .schema = "_embedding_bag" BAG,
    .doc = "Rows of a table summed (mode 0), averaged (1) or maximised (2) per bag; also each index's bag, the bags' sizes, and the winning rows.",
    .shape = bag_shape, .cpu = bag_cpu, .grad = bag_grad,
    .saves = "weight@per_sample_weights, indices, offsets, per_sample_weights@weight, result1, result2, result3", .flags = RUSH_HIDDEN,
};
static rush_op op_bag_forward_only = {
    .schema = "_embedding_bag_forward_only" BAG, .doc = "_embedding_bag() without a derivative.", .shape = bag_shape, .cpu = bag_cpu,
    .flags = RUSH_HIDDEN | RUSH_NO_GRAD,
};

static int bag_with(const rush_value *in, rush_value *out, int64_t padding)
{
    return TN(out, "_embedding_bag", in[0], in[1], in[2], in[3], in[4], in[5], in[6], in[7], V(padding));
}

static int embedding_bag_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return bag_with(in, out, -1);
}

static int embedding_bag_padding_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    int64_t padding = -1, rows = SELF->ndim ? SELF->size[0] : 0;
    if (HAS(in[8])) {
        padding = I_(in[8]);
        RUSH_CHECK(padding >= -rows && padding < rows, RUSH_RUNTIME_ERROR, "padding_idx must be within the number of embeddings, -%lld through %lld, but got %lld",
                   (long long)rows, (long long)rows - 1, (long long)padding);
        if (padding < 0) padding += rows;
    }
    return bag_with(in, out, padding);
}

static rush_op op_embedding_bag = {
    .schema = "embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, bool sparse=False, "
              "Tensor? per_sample_weights=None, bool include_last_offset=False) -> (Tensor, Tensor, Tensor, Tensor)",
    .doc = "embedding() followed by a sum, mean or maximum over each bag; bag b has indices[offsets[b] : offsets[b + 1]].", .run = embedding_bag_run,
};
static rush_op op_embedding_bag_padding = {
    .schema = "embedding_bag.padding_idx(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq, int mode, bool sparse, "
              "Tensor? per_sample_weights, bool include_last_offset, int? padding_idx) -> (Tensor, Tensor, Tensor, Tensor)",
    .doc = "embedding_bag() whose row padding_idx does not count.", .run = embedding_bag_padding_run,
};

static int are_rows_of_bags(const rush_tensor *g, const rush_tensor *bag_of)
{
    RUSH_CHECK(g->ndim == 2 && bag_of->ndim == 1, RUSH_RUNTIME_ERROR, "embedding_bag: the gradient has a row for each bag (2 dims, not %d), offset2bag a number for each index (1 dim, not %d)",
               g->ndim, bag_of->ndim);
    return 0;
}

/* Of each index the row of g that is its bag's, or zeros. */
static rush_tensor *rows_of_bags(rush_tensor *g, rush_tensor *bag_of)
{
    bool all = !bag_of->numel || bag_of->device.type == RUSH_META || rush_number_of(T("select.int", V(bag_of), V((int64_t)0), V((int64_t)-1))) >= 0;
    if (all) return T("index_select", V(g), V((int64_t)0), V(bag_of));
    if (!g->size[0]) return T("new_zeros", V(g), INTS(bag_of->numel, g->size[1]));
    rush_tensor *rows = T("index_select", V(g), V((int64_t)0), V(T("clamp_min", V(bag_of), V((int64_t)0))));
    return rows ? T("masked_fill.Scalar", V(rows), V(unsqueeze(lt(bag_of, (int64_t)0), -1)), V((int64_t)0)) : NULL;
}

/* Every index sees its bag's gradient, over the bag's size for the mean; the maximum's goes to the winners. */
static int bag_backward_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *g = SELF, *indices = in[1].t, *bag_of = in[3].t, *sizes = in[4].t, *best = in[5].t;
    int64_t rows = I_(in[6]), padding = I_(in[11]);
    int mode = (int)I_(in[8]);
    RUSH_CHECK(!(mode == MAX && I_(in[9])), RUSH_RUNTIME_ERROR, "embedding_bag: max mode does not support sparse weights");
    if (are_rows_of_bags(g, bag_of)) return -1;
    if (mode == MAX) {
        rush_tensor *zeros = T("new_zeros", V(g), INTS(rows, g->size[1]));
        rush_tensor *full = unsqueeze(ne(sizes, (int64_t)0), -1);
        return rush_result(out, zeros && full ? T("scatter_add", V(zeros), V((int64_t)0), V(to_dtype(best, RUSH_I64)), V(mul(g, full))) : NULL);
    }
    if (mode == MEAN) {
        rush_tensor *n = to_dtype(T("clamp_min", V(sizes), V((int64_t)1)), g->dtype);
        g = div_(g, unsqueeze(n, -1));
    }
    rush_tensor *each = g ? rows_of_bags(g, bag_of) : NULL;
    if (each && HAS(in[10])) each = mul(each, unsqueeze(in[10].t, -1));
    return rush_result(out, each ? T("embedding_backward", V(each), V(indices), V(rows), V(padding), in[7], in[9]) : NULL);
}

static rush_op op_bag_backward = {
    .schema = "_embedding_bag_backward(Tensor grad, Tensor indices, Tensor offsets, Tensor offset2bag, Tensor bag_size, Tensor maximum_indices, "
              "SymInt num_weights, bool scale_grad_by_freq, int mode, bool sparse, Tensor? per_sample_weights, int padding_idx=-1) -> Tensor",
    .doc = "The gradient of embedding_bag's table.", .run = bag_backward_run, .flags = RUSH_HIDDEN,
};

static int bag_dense_backward_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_result(out, T("_embedding_bag_backward", in[0], in[1], in[1], in[2], in[3], in[4], in[5], in[6], in[7], V(false), in[8], in[9]));
}

static rush_op op_bag_dense_backward = {
    .schema = "_embedding_bag_dense_backward(Tensor grad, Tensor indices, Tensor offset2bag, Tensor bag_size, Tensor maximum_indices, SymInt num_weights, "
              "bool scale_grad_by_freq, int mode, Tensor? per_sample_weights, int padding_idx=-1) -> Tensor",
    .doc = "The dense gradient of embedding_bag's table.", .run = bag_dense_backward_run, .flags = RUSH_HIDDEN,
};

static int bag_weights_backward_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *g = SELF, *weight = in[1].t, *indices = in[2].t, *bag_of = in[4].t;
    int64_t padding = I_(in[6]);
    if (are_rows_of_bags(g, bag_of)) return -1;
    rush_tensor *theirs = rows_of_bags(g, bag_of), *rows = T("embedding", V(weight), V(indices));
    rush_tensor *sum = theirs && rows ? sum_dim(mul(theirs, rows), 1, false) : NULL;
    if (sum && padding >= 0) sum = T("masked_fill.Scalar", V(sum), V(eq(indices, padding)), V((int64_t)0));
    return rush_result(out, sum);
}

static rush_op op_bag_weights_backward = {
    .schema = "_embedding_bag_per_sample_weights_backward(Tensor grad, Tensor weight, Tensor indices, Tensor offsets, Tensor offset2bag, int mode, "
              "int padding_idx=-1) -> Tensor",
    .doc = "The gradient of embedding_bag's weights of the samples.", .run = bag_weights_backward_run, .flags = RUSH_HIDDEN,
};

RUSH_FAMILY(embedding, &op_embedding, &op_embedding_backward, &op_dense_backward, &op_renorm, &op_bag, &op_bag_forward_only, &op_embedding_bag,
            &op_embedding_bag_padding, &op_bag_backward, &op_bag_dense_backward, &op_bag_weights_backward)
