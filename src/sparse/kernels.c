/* kernels.c - what computes on the elements of indices: hidden operations, from which the rest of src/sparse is made.
 *
 * Each has a shape rule and a kernel, so that a device can have them, too; those whose results' sizes depend on the
 * indices make them in the kernel (RUSH_DATA_SIZED). Arguments are trusted no more than those of any operation.
 */
#include "kernels/cpu/sparse.h"
#include "op/op.h"
#include "sparse/coo.h"
#include <stdlib.h>

#define KERNEL(id, text, words, ...)                                                                        \
    static rush_op op_##id = {.schema = text, .doc = words, .shape = id##_shape, .cpu = id##_cpu, .flags = RUSH_NO_GRAD | RUSH_HIDDEN | __VA_ARGS__}

static const int64_t *numbers(const rush_tensor *t) { return rush_ptr(t); }

/* Integers of int64 in `ndim` dimensions, in order. */
static int need(rush_value v, int ndim, const char *what)
{
    const rush_tensor *t = v.t;
    RUSH_CHECK(!t->layout && t->dtype == RUSH_I64 && t->ndim == ndim && rush_contiguous(t), RUSH_RUNTIME_ERROR, "%s must be a contiguous int64 tensor of %d dimensions, got %s %s",
               what, ndim, rush_dtype_name(t->dtype), rush_shape_of(t));
    return 0;
}

static rush_tensor *list_out(rush_value *out, int i, const rush_tensor *on, int64_t n) { return rush_out_t(out, i, on, RUSH_I64, 1, &n); }

/* ---- keys: numbers of places ---- */

static int keys_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (need(in[0], 2, "indices")) return -1;
    RUSH_CHECK((int64_t)in[1].n <= in[0].t->size[0], RUSH_RUNTIME_ERROR, "%u sizes for indices %s", in[1].n, rush_shape_of(in[0].t));
    return list_out(out, 0, in[0].t, in[0].t->size[1]) ? 0 : -1;
}

static void keys_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    int64_t n = in[0].t->size[1], *key = rush_ptr(out[0].t);
    if (n) memset(key, 0, sizeof *key * (size_t)n);
    for (uint32_t d = 0; d < in[1].n && n; ++d) {
        const int64_t *index = numbers(in[0].t) + d * n;
        uint64_t limit = (uint64_t)in[1].ints[d];
        bool outside = false;
        for (int64_t i = 0; i < n; ++i) {
            outside |= (uint64_t)index[i] >= limit;
            key[i] = (int64_t)((uint64_t)key[i] * limit + (uint64_t)index[i]);
        }
        if (!outside) continue;
        int64_t bad = 0;
        while ((uint64_t)index[bad] < limit) ++bad;
        rush_fail(RUSH_RUNTIME_ERROR, "size is inconsistent with indices: for dim %u, size is %lld but found index %lld", d, (long long)limit, (long long)index[bad]);
        return;
    }
}
KERNEL(keys, "_coo_keys(Tensor indices, int[] size) -> Tensor", "Per entry the number of its place; an index outside is an error.", 0);

static bool increasing(const int64_t *key, int64_t n)
{
    bool up = true;
    for (int64_t i = 1; i < n; ++i) up &= key[i - 1] < key[i];
    return up;
}

static bool in_order(const int64_t *key, int64_t n)
{
    bool up = true;
    for (int64_t i = 1; i < n; ++i) up &= key[i - 1] <= key[i];
    return up;
}

static int group_shape(const rush_op *op, const rush_value *in, rush_value *out) { return need(in[0], 1, "keys"); }

static void group_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *keys = in[0].t;
    int64_t n = keys->numel, groups = 0;
    rush_value sorted[RUSH_MAXOUT];
    const int64_t *key = numbers(keys), *order = NULL; /* NULL: as they come */
    if (!in_order(key, n)) {
        if (TN(sorted, "sort.stable", V(keys), V(true))) return;
        key = numbers(sorted[0].t), order = numbers(sorted[1].t);
    }
    for (int64_t i = 0; i < n; ++i) groups += i == 0 || key[i] != key[i - 1];
    rush_tensor *g = list_out(out, 0, keys, n), *f = list_out(out, 1, keys, groups);
    if (!g || !f) return;
    int64_t *group = rush_ptr(g), *first = rush_ptr(f), at = 0;
    for (int64_t i = 0; i < n; ++i) {
        int64_t entry = order ? order[i] : i;
        if (i == 0 || key[i] != key[i - 1]) first[at++] = entry;
        group[entry] = at - 1;
    }
}
KERNEL(group, "_coo_group(Tensor keys) -> (Tensor, Tensor)", "Equal keys joined: the group of each entry, and which entry has each group's key first.", RUSH_DATA_SIZED);

/* Position of each key among sorted ones, their number where there is none. */
static void look_up(const int64_t *key, int64_t n, const int64_t *in, int64_t m, int64_t *to)
{
    bool both = increasing(key, n) && m < 16 * n; /* then both lists are walked together, unless one is much longer */
    for (int64_t i = 0, from = 0; i < n; ++i) {
        if (both) {
            while (from < m && in[from] < key[i]) ++from;
        } else {
            int64_t high = m;
            for (from = 0; from < high;) {
                int64_t mid = from + (high - from) / 2;
                if (in[mid] < key[i]) from = mid + 1;
                else high = mid;
            }
        }
        to[i] = from < m && in[from] == key[i] ? from : m;
    }
}

static int two_lists(const rush_value *in) { return need(in[0], 1, "keys") || need(in[1], 1, "keys") ? -1 : 0; }

static int find_shape(const rush_op *op, const rush_value *in, rush_value *out) { return two_lists(in) || !list_out(out, 0, in[0].t, in[0].t->numel) ? -1 : 0; }

static void find_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    look_up(numbers(in[0].t), in[0].t->numel, numbers(in[1].t), in[1].t->numel, rush_ptr(out[0].t));
}
KERNEL(find, "_coo_find(Tensor keys, Tensor sorted) -> Tensor", "Where each key is among sorted ones; their number where it is not.", 0);

static int common_shape(const rush_op *op, const rush_value *in, rush_value *out) { return two_lists(in); }

static void common_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    int64_t n = in[0].t->numel, m = in[1].t->numel, common = 0, *at = rush_scope_alloc(sizeof *at * (size_t)RUSH_MAX(n, 1));
    if (!at) return;
    look_up(numbers(in[0].t), n, numbers(in[1].t), m, at);
    for (int64_t i = 0; i < n; ++i) common += at[i] < m;
    rush_tensor *a = list_out(out, 0, in[0].t, common), *b = list_out(out, 1, in[0].t, common);
    if (!a || !b) return;
    int64_t *mine = rush_ptr(a), *theirs = rush_ptr(b);
    for (int64_t i = 0, k = 0; i < n; ++i)
        if (at[i] < m) mine[k] = i, theirs[k++] = at[i];
}
KERNEL(common, "_coo_common(Tensor keys, Tensor sorted) -> (Tensor, Tensor)", "The keys that both lists have: where they are in each.", RUSH_DATA_SIZED);

static int merge_shape(const rush_op *op, const rush_value *in, rush_value *out) { return two_lists(in); }

/* Both lists are walked as if they were sorted, and meet where they are equal; the n-th place is the first. What comes behind the last. */
static int64_t merge(const int64_t *x, int64_t nx, const int64_t *y, int64_t ny, int64_t n, int64_t *to_x, int64_t *to_y)
{
    int64_t i = 0, j = 0;
    while (i < nx && j < ny) { /* without a jump that nobody could foretell */
        const int64_t a = x[i], b = y[j];
        to_x[i] = to_y[j] = n++;
        i += a <= b;
        j += b <= a;
    }
    while (i < nx) to_x[i++] = n++;
    while (j < ny) to_y[j++] = n++;
    return n;
}

static void merge_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *a = list_out(out, 0, in[0].t, in[0].t->numel), *b = list_out(out, 1, in[0].t, in[1].t->numel);
    if (a && b) out[2] = rush_v_int(merge(numbers(in[0].t), a->numel, numbers(in[1].t), b->numel, 0, rush_ptr(a), rush_ptr(b)));
}
KERNEL(merge, "_coo_merge(Tensor a, Tensor b) -> (Tensor, Tensor, int)", "Which entry of a sum each entry of two tensors goes to, and how many there are.", RUSH_DATA_SIZED);

/* ---- checks ---- */

static int within_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (need(in[0], 2, "indices")) return -1;
    RUSH_CHECK(!HAS(in[1]) || (int64_t)in[1].n >= in[0].t->size[0], RUSH_RUNTIME_ERROR, "%u sizes for indices %s", in[1].n, rush_shape_of(in[0].t));
    return 0;
}

static void within_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_op *now = rush_now.op;
    rush_now.op = NULL; /* the message is the caller's */
    for (int64_t d = 0; d < in[0].t->size[0] && !rush_failed(); ++d) {
        const int64_t *index = numbers(in[0].t) + d * in[0].t->size[1];
        int64_t least = INT64_MAX, most = -1;
        for (int64_t i = 0; i < in[0].t->size[1]; ++i) {
            least = RUSH_MIN(least, index[i]);
            most = RUSH_MAX(most, index[i]);
        }
        if (least < 0) rush_fail(RUSH_RUNTIME_ERROR, "found negative index %lld for dim %lld", (long long)least, (long long)d);
        else if (HAS(in[1]) && most >= in[1].ints[d])
            rush_fail(RUSH_RUNTIME_ERROR, "size is inconsistent with indices: for dim %lld, size is %lld but found index %lld", (long long)d, (long long)in[1].ints[d],
                      (long long)most);
    }
    rush_now.op = now;
}
KERNEL(within, "_coo_within(Tensor indices, int[]? size=None) -> ()", "An error if an index is negative or not below the size.", 0);

/* starts (batches, majors + 1), minors (batches, nnz) */
static int compressed_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (need(in[0], 2, "compressed indices") || need(in[1], 2, "plain indices")) return -1;
    RUSH_CHECK(in[0].t->size[0] == in[1].t->size[0] && in[0].t->size[1] > 0, RUSH_RUNTIME_ERROR, "compressed indices %s and plain indices %s do not belong together",
               rush_shape_of(in[0].t), rush_shape_of(in[1].t));
    return 0;
}

static int good_starts(const int64_t *start, int64_t batches, int64_t majors, int64_t nnz)
{
    for (int64_t b = 0; b < batches; ++b, start += majors + 1) {
        bool good = start[0] == 0 && start[majors] == nnz;
        for (int64_t m = 0; m < majors; ++m) good &= start[m] <= start[m + 1];
        RUSH_CHECK(good, RUSH_RUNTIME_ERROR, "the compressed indices do not count from 0 to nnz = %lld", (long long)nnz);
    }
    return 0;
}

static int good_minors(const rush_tensor *minors, int64_t limit)
{
    const int64_t *minor = numbers(minors);
    for (int64_t i = 0; i < minors->numel; ++i)
        RUSH_CHECK(minor[i] >= 0 && minor[i] < limit, RUSH_RUNTIME_ERROR, "an index %lld is outside [0, %lld)", (long long)minor[i], (long long)limit);
    return 0;
}

static int trusted_shape(const rush_op *op, const rush_value *in, rush_value *out) { return compressed_shape(op, in, out); }
static void trusted_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (!good_starts(numbers(in[0].t), in[0].t->size[0], in[0].t->size[1] - 1, in[1].t->size[1])) good_minors(in[1].t, in[2].i);
}
KERNEL(trusted, "_compressed_within(Tensor starts, Tensor minors, int limit) -> ()", "An error if these are no indices of a compressed tensor.", 0);

#define HOLDS(condition, format, ...) RUSH_CHECK(condition, RUSH_RUNTIME_ERROR, "`" format "` is not satisfied.", __VA_ARGS__)

/* The invariants in PyTorch's words. */
static int invariants(const rush_tensor *starts, const rush_tensor *plain, int64_t minors, bool by_row)
{
    const char *c = by_row ? "crow_indices" : "ccol_indices", *p = by_row ? "col_indices" : "row_indices", *width = by_row ? "ncols" : "nrows";
    int64_t majors = starts->size[1] - 1, nnz = plain->size[1];
    const int64_t *start = numbers(starts), *minor = numbers(plain);
    for (int64_t b = 0; b < starts->size[0]; ++b, start += majors + 1, minor += nnz) {
        HOLDS(start[0] == 0, "%s[..., 0] == 0", c);
        HOLDS(start[majors] == nnz, "%s[..., -1] == nnz", c);
        for (int64_t i = 0; i < nnz; ++i) HOLDS(minor[i] >= 0 && minor[i] < minors, "0 <= %s < %s", p, width);
        for (int64_t m = 0; m < majors; ++m)
            HOLDS(start[m + 1] >= start[m] && start[m + 1] - start[m] <= minors, "0 <= %s[..., 1:] - %s[..., :-1] <= %s", c, c, width);
        for (int64_t m = 0; m < majors; ++m)
            for (int64_t i = start[m] + 1; i < start[m + 1]; ++i)
                HOLDS(minor[i] > minor[i - 1], "%s[..., %s[..., i - 1]:%s[..., i]] for all i = 1, ..., n%ss are sorted and distinct along the last dimension values", p, c, c,
                      by_row ? "row" : "col");
    }
    return 0;
}

static int validate_shape(const rush_op *op, const rush_value *in, rush_value *out) { return compressed_shape(op, in, out); }
static void validate_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_op *now = rush_now.op;
    rush_now.op = NULL; /* the message is the caller's */
    invariants(in[0].t, in[1].t, in[2].i, in[3].i);
    rush_now.op = now;
}
KERNEL(validate, "_compressed_validate(Tensor starts, Tensor plain, int minors, bool by_row) -> ()", "An error that names what the indices of a compressed tensor do not satisfy.", 0);

/* ---- rows ---- */

static int starts_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (need(in[0], 1, "rows")) return -1;
    RUSH_CHECK(in[1].i >= 0 && in[1].i < INT64_MAX, RUSH_RUNTIME_ERROR, "%lld rows", (long long)in[1].i);
    return list_out(out, 0, in[0].t, in[1].i + 1) ? 0 : -1;
}

static void starts_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    int64_t rows = in[1].i, *start = rush_ptr(out[0].t);
    const int64_t *row = numbers(in[0].t);
    memset(start, 0, sizeof *start * (size_t)(rows + 1));
    for (int64_t i = 0; i < in[0].t->numel; ++i) {
        if (row[i] < 0 || row[i] >= rows) {
            rush_fail(RUSH_RUNTIME_ERROR, "an index %lld is outside [0, %lld)", (long long)row[i], (long long)rows);
            return;
        }
        ++start[row[i] + 1];
    }
    for (int64_t r = 0; r < rows; ++r) start[r + 1] += start[r];
}
KERNEL(starts, "_row_starts(Tensor row, int rows) -> Tensor", "Where each row begins, of sorted or unsorted numbers of rows.", 0);

static int entries_shape(const rush_op *op, const rush_value *in, rush_value *out) { return need(in[0], 1, "starts") || need(in[1], 1, "order") || need(in[2], 1, "rows") ? -1 : 0; }

static void entries_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    const int64_t *start = numbers(in[0].t), *order = numbers(in[1].t), *want = numbers(in[2].t);
    int64_t rows = in[0].t->numel - 1, total = 0;
    for (int64_t r = 0; r <= rows; ++r)
        if (start[r] < 0 || start[r] > in[1].t->numel || (r && start[r] < start[r - 1])) {
            rush_fail(RUSH_RUNTIME_ERROR, "rows do not begin in order");
            return;
        }
    for (int64_t i = 0; i < in[2].t->numel; ++i) {
        if (want[i] < 0 || want[i] >= rows) {
            rush_fail(RUSH_INDEX_ERROR, "row %lld of %lld", (long long)want[i], (long long)rows);
            return;
        }
        total += start[want[i] + 1] - start[want[i]];
    }
    rush_tensor *at = list_out(out, 0, in[0].t, total), *number = list_out(out, 1, in[0].t, total);
    if (!at || !number) return;
    for (int64_t i = 0, k = 0; i < in[2].t->numel; ++i)
        for (int64_t j = start[want[i]]; j < start[want[i] + 1]; ++j, ++k) {
            ((int64_t *)rush_ptr(at))[k] = order[j];
            ((int64_t *)rush_ptr(number))[k] = i;
        }
}
KERNEL(entries, "_row_entries(Tensor starts, Tensor order, Tensor rows) -> (Tensor, Tensor)", "The entries of some rows, and for which of the rows each is.", RUSH_DATA_SIZED);

/* ---- between coordinates and compressed layouts ---- */

static int coordinates_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    int64_t batches = 1;
    if (compressed_shape(op, in, out)) return -1;
    for (uint32_t d = 0; d < in[2].n; ++d) batches = rush_size_times(batches, in[2].ints[d]);
    RUSH_CHECK(in[3].n == 2 && in[3].ints[0] > 0 && in[3].ints[1] > 0 && batches == in[0].t->size[0] && in[2].n <= RUSH_MAXDIM - 2, RUSH_RUNTIME_ERROR,
               "blocks %s and batches %s do not fit %s", rush_shape_text((int)in[3].n, in[3].ints), rush_shape_text((int)in[2].n, in[2].ints), rush_shape_of(in[0].t));
    int64_t n = rush_size_times(in[1].t->numel, rush_size_times(in[3].ints[0], in[3].ints[1]));
    return n >= 0 && rush_out_t(out, 0, in[0].t, RUSH_I64, 2, (int64_t[]){in[2].n + 2, n}) ? 0 : -1;
}

static void coordinates_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    int batch = (int)in[2].n;
    int64_t majors = in[0].t->size[1] - 1, nnz = in[1].t->size[1], n = out[0].t->size[1], at = 0, *to = rush_ptr(out[0].t);
    const int64_t *start = numbers(in[0].t), *minor = numbers(in[1].t), *size = in[2].ints, *block = in[3].ints, area = block[0] * block[1];
    if (good_starts(start, in[0].t->size[0], majors, nnz)) return;
    if (!batch && area == 1) { /* a matrix without blocks */
        for (int64_t m = 0; m < majors; ++m)
            for (int64_t k = start[m]; k < start[m + 1]; ++k) to[in[4].i ? k : n + k] = m;
        if (nnz) memcpy(to + (in[4].i ? n : 0), minor, sizeof *to * (size_t)nnz);
        return;
    }
    for (int64_t b = 0; b < in[0].t->size[0]; ++b, start += majors + 1, minor += nnz)
        for (int64_t m = 0; m < majors; ++m)
            for (int64_t k = start[m]; k < start[m + 1]; ++k)
                for (int64_t e = 0; e < area; ++e, ++at) {
                    int64_t rest = b, row = in[4].i ? m : minor[k], col = in[4].i ? minor[k] : m;
                    for (int d = batch - 1; d >= 0; rest /= size[d], --d) to[d * n + at] = rest % size[d];
                    to[batch * n + at] = (int64_t)((uint64_t)row * block[0] + e / block[1]); /* minors are anybody's: they may wrap around */
                    to[(batch + 1) * n + at] = (int64_t)((uint64_t)col * block[1] + e % block[1]);
                }
}
KERNEL(coordinates, "_compressed_coordinates(Tensor starts, Tensor minors, int[] batch, int[2] block, bool by_row) -> Tensor",
       "Coordinates of the entries of a compressed tensor, in its order.", 0);

static int batch_starts_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (need(in[0], 1, "majors")) return -1;
    RUSH_CHECK(in[1].i >= 0 && in[2].i >= 0 && in[2].i < INT64_MAX, RUSH_RUNTIME_ERROR, "%lld batches of %lld", (long long)in[1].i, (long long)in[2].i);
    return rush_out_t(out, 0, in[0].t, RUSH_I64, 2, (int64_t[]){in[1].i, in[2].i + 1}) ? 0 : -1;
}

static void batch_starts_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    int64_t batches = in[1].i, majors = in[2].i, n = in[0].t->numel, nnz = batches ? n / batches : 0, at = 0, *start = rush_ptr(out[0].t);
    const int64_t *key = numbers(in[0].t);
    const rush_op *now = rush_now.op;
    for (int64_t b = 0; b < batches; ++b, start += majors + 1) {
        start[0] = 0;
        for (int64_t m = 0; m < majors; ++m) {
            while (at < n && key[at] == b * majors + m) ++at;
            start[m + 1] = at - b * nnz;
        }
        if (at == (b + 1) * nnz) continue;
        rush_now.op = NULL; /* the message is the caller's */
        rush_fail(RUSH_RUNTIME_ERROR, "Expect the same number of specified elements per batch.");
        rush_now.op = now;
        return;
    }
}
KERNEL(batch_starts, "_compressed_starts(Tensor major, int batches, int majors) -> Tensor", "Where each major line of each batch begins, of their sorted numbers.", 0);

static int rows_merge_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    for (int i = 0; i < 4; ++i)
        if (need(in[i], 1, i % 2 ? "columns" : "starts")) return -1;
    RUSH_CHECK(in[0].t->numel > 0 && in[0].t->numel == in[2].t->numel, RUSH_RUNTIME_ERROR, "%lld and %lld starts of rows", (long long)in[0].t->numel, (long long)in[2].t->numel);
    return 0;
}

static void rows_merge_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    const int64_t *x = numbers(in[1].t), *y = numbers(in[3].t), *x_start = numbers(in[0].t), *y_start = numbers(in[2].t);
    int64_t rows = in[0].t->numel - 1, nx = in[1].t->numel, ny = in[3].t->numel, n = 0;
    if (good_starts(x_start, 1, rows, nx) || good_starts(y_start, 1, rows, ny)) return;
    rush_tensor *starts = list_out(out, 0, in[0].t, rows + 1), *a = list_out(out, 2, in[0].t, nx), *b = list_out(out, 3, in[0].t, ny);
    if (!starts || !a || !b) return;
    int64_t *start = rush_ptr(starts), *to_x = rush_ptr(a), *to_y = rush_ptr(b);
    start[0] = 0;
    for (int64_t r = 0; r < rows; ++r) {
        const int64_t i = x_start[r], j = y_start[r];
        start[r + 1] = n = merge(x + i, x_start[r + 1] - i, y + j, y_start[r + 1] - j, n, to_x + i, to_y + j);
    }
    rush_tensor *columns = list_out(out, 1, in[0].t, n);
    if (!columns) return;
    int64_t *column = rush_ptr(columns);
    for (int64_t i = 0; i < nx; ++i) column[to_x[i]] = x[i];
    for (int64_t j = 0; j < ny; ++j) column[to_y[j]] = y[j];
}
KERNEL(rows_merge, "_rows_merge(Tensor starts, Tensor columns, Tensor other_starts, Tensor other_columns) -> (Tensor, Tensor, Tensor, Tensor)",
       "The starts and columns of a sum of two matrices in rows, and which of its entries each entry of theirs goes to.", RUSH_DATA_SIZED);

/* ---- products ---- */

static bool is_computed(int d) { return d == RUSH_I64 || d == RUSH_F32 || d == RUSH_F64 || d == RUSH_C64 || d == RUSH_C128; }

/* (starts, columns, values) of a matrix in rows, from argument i on; values of `ndim` dimensions */
static int need_rows(const rush_value *in, int i, int ndim)
{
    const rush_tensor *v = in[i + 2].t;
    if (need(in[i], 1, "starts") || need(in[i + 1], 1, "columns")) return -1;
    RUSH_CHECK(!v->layout && v->ndim == ndim && rush_contiguous(v) && v->size[0] == in[i + 1].t->numel && in[i].t->numel > 0 && is_computed(v->dtype) && !(v->flags & (RUSH_T_CONJ | RUSH_T_NEG)),
               RUSH_RUNTIME_ERROR, "columns %s and values %s do not make rows", rush_shape_of(in[i + 1].t), rush_shape_of(v));
    return 0;
}

static int good_rows(const rush_value *in, int i, int64_t width)
{
    const int64_t *start = numbers(in[i].t);
    int64_t rows = in[i].t->numel - 1, n = in[i + 1].t->numel;
    bool good = start[0] == 0 && start[rows] == n;
    for (int64_t r = 0; r < rows; ++r) good &= start[r] <= start[r + 1];
    RUSH_CHECK(good, RUSH_RUNTIME_ERROR, "rows do not begin in order");
    return good_minors(in[i + 1].t, width);
}

static rush_rows rows_at(const rush_value *in, int i)
{
    const rush_tensor *v = in[i + 2].t;
    return (rush_rows){numbers(in[i].t), numbers(in[i + 1].t), rush_ptr(v), v->ndim == 3 ? v->size[1] : 1, v->ndim == 3 ? v->size[2] : 1};
}

static int rows_dense_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *b = in[3].t, *v = in[2].t;
    int64_t size[2];
    if (need_rows(in, 0, v->ndim == 3 ? 3 : 1)) return -1;
    RUSH_CHECK(!b->layout && b->ndim == 2 && b->dtype == in[2].t->dtype && rush_contiguous(b) && !(b->flags & (RUSH_T_CONJ | RUSH_T_NEG)), RUSH_RUNTIME_ERROR,
               "a contiguous matrix of %s is expected, got %s", rush_dtype_name(in[2].t->dtype), rush_shape_of(b));
    size[0] = in[0].t->numel - 1, size[1] = b->size[1];
    RUSH_CHECK(v->ndim == 1 || (v->size[1] > 0 && v->size[2] > 0 && b->size[0] % v->size[2] == 0 && !__builtin_mul_overflow(size[0], v->size[1], &size[0])), RUSH_RUNTIME_ERROR,
               "blocks %s do not fit a matrix of %s", rush_shape_of(v), rush_shape_of(b));
    return rush_out_t(out, 0, b, b->dtype, 2, size) ? 0 : -1;
}

typedef struct dense_job {
    rush_rows a;
    void *c;
    const void *b;
    int64_t width;
    rush_dtype d;
} dense_job;

static void some_rows(void *arg, int64_t begin, int64_t end)
{
    const dense_job *j = arg;
    rush_k_sparse->dense[j->d](j->c, &j->a, j->b, j->width, begin, end);
}

static void rows_dense_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *c = out[0].t;
    const rush_rows a = rows_at(in, 0);
    if (good_rows(in, 0, in[3].t->size[0] / a.width)) return;
    dense_job j = {a, rush_ptr(c), rush_ptr(in[3].t), c->size[1], c->dtype};
    if (c->numel) rush_parallel_for(c->size[0], RUSH_MAX(1, 32768 / RUSH_MAX(c->size[1], 1)), some_rows, &j);
}
KERNEL(rows_dense, "_rows_dense(Tensor starts, Tensor columns, Tensor values, Tensor b) -> Tensor", "A matrix in rows of entries, or of blocks (n, height, width), times a dense one.", 0);

static int by_number(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Distinct columns in order: where they lie close, by a bit for each (bits are zeros, and are again). */
static void sort_columns(int64_t *col, int64_t n, uint64_t *bits)
{
    int64_t low = col[0], high = col[0], at = 0;
    for (int64_t k = 1; k < n; ++k) low = RUSH_MIN(low, col[k]), high = RUSH_MAX(high, col[k]);
    if (high / 64 - low / 64 > 8 * n) {
        qsort(col, (size_t)n, sizeof *col, by_number);
        return;
    }
    for (int64_t k = 0; k < n; ++k) bits[col[k] / 64] |= (uint64_t)1 << (col[k] & 63);
    for (int64_t word = low / 64; word <= high / 64; ++word)
        for (; bits[word]; bits[word] &= bits[word] - 1) col[at++] = word * 64 + __builtin_ctzll(bits[word]);
}

/* The columns of each row of a b, sorted, or with col NULL only where the rows begin; how many. seen[j] is 1 + the last row that had column j. */
static int64_t product_columns(const rush_rows *a, int64_t rows, const rush_rows *b, int64_t width, int64_t *seen, uint64_t *bits, int64_t *start, int64_t *col)
{
    int64_t at = 0;
    if (width) memset(seen, 0, sizeof *seen * (size_t)width);
    for (int64_t i = 0; i < rows; ++i) {
        start[i] = at;
        for (int64_t k = a->start[i]; k < a->start[i + 1]; ++k)
            for (int64_t j = b->start[a->col[k]]; j < b->start[a->col[k] + 1]; ++j) {
                int64_t column = b->col[j];
                if (seen[column] == i + 1) continue;
                seen[column] = i + 1;
                if (col) col[at] = column;
                ++at;
            }
        if (col && at > start[i]) sort_columns(col + start[i], at - start[i], bits);
    }
    return start[rows] = at;
}

static int rows_sparse_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (need_rows(in, 0, 1) || need_rows(in, 3, 1)) return -1;
    RUSH_CHECK(in[2].t->dtype == in[5].t->dtype && in[6].i >= 0, RUSH_RUNTIME_ERROR, "matrices of one dtype are expected");
    return 0;
}

static void rows_sparse_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    int64_t rows = in[0].t->numel - 1, width = in[6].i;
    rush_dtype d = in[2].t->dtype;
    if (good_rows(in, 0, in[3].t->numel - 1) || good_rows(in, 3, width)) return;
    const rush_rows a = rows_at(in, 0), b = rows_at(in, 3);
    int64_t *seen = rush_scope_alloc(sizeof *seen * (size_t)RUSH_MAX(width, 1)), *start = rush_scope_alloc(sizeof *start * (size_t)(rows + 1));
    uint64_t *bits = rush_scope_alloc(sizeof *bits * (size_t)(width / 64 + 1));
    rush_tensor *room = rush_tensor_new(d, in[2].t->device, 1, &width);
    if (!seen || !start || !room || !bits) return;
    memset(bits, 0, sizeof *bits * (size_t)(width / 64 + 1));
    int64_t n = product_columns(&a, rows, &b, width, seen, bits, start, NULL);
    rush_tensor *indices = rush_out_t(out, 0, in[0].t, RUSH_I64, 2, (int64_t[]){2, n}), *values = rush_out_t(out, 1, in[2].t, d, 1, &n);
    if (!indices || !values) return;
    int64_t *row = rush_ptr(indices), *col = n ? row + n : row;
    product_columns(&a, rows, &b, width, seen, bits, start, col);
    rush_clear(room);
    const rush_rows c = {start, col, rush_ptr(values)};
    rush_k_sparse->sparse[d](&c, &a, &b, rush_ptr(room), 0, rows);
    for (int64_t i = 0; i < rows; ++i)
        for (int64_t k = start[i]; k < start[i + 1]; ++k) row[k] = i;
}
KERNEL(rows_sparse, "_rows_sparse(Tensor starts, Tensor columns, Tensor values, Tensor other_starts, Tensor other_columns, Tensor other_values, int width) -> (Tensor, Tensor)",
       "The indices and values of a product of two matrices in rows of entries.", RUSH_DATA_SIZED);

static int sampled_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *a = in[0].t, *b = in[1].t;
    if (need(in[2], 1, "rows") || need(in[3], 1, "columns")) return -1;
    for (int k = 0; k < 2; ++k)
        RUSH_CHECK(!in[k].t->layout && in[k].t->ndim == 2 && is_computed(in[k].t->dtype) && rush_contiguous(in[k].t) && !(in[k].t->flags & (RUSH_T_CONJ | RUSH_T_NEG)),
                   RUSH_RUNTIME_ERROR, "a contiguous matrix is expected, got %s", rush_shape_of(in[k].t));
    RUSH_CHECK(a->dtype == b->dtype && a->size[1] == b->size[1] && in[2].t->numel == in[3].t->numel, RUSH_RUNTIME_ERROR, "rows of %s and of %s at %lld and %lld places do not fit",
               rush_shape_of(a), rush_shape_of(b), (long long)in[2].t->numel, (long long)in[3].t->numel);
    return rush_out_t(out, 0, a, a->dtype, 1, in[2].t->size) ? 0 : -1;
}

typedef struct sampled_job {
    void *to;
    const void *a, *b;
    const int64_t *i, *j;
    int64_t width;
    rush_dtype d;
} sampled_job;

static void some_sampled(void *arg, int64_t begin, int64_t end)
{
    const sampled_job *s = arg;
    rush_k_sparse->sampled[s->d](s->to, s->a, s->b, s->i, s->j, s->width, begin, end);
}

static void sampled_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *a = in[0].t, *b = in[1].t;
    if (good_minors(in[2].t, a->size[0]) || good_minors(in[3].t, b->size[0])) return;
    sampled_job s = {rush_ptr(out[0].t), rush_ptr(a), rush_ptr(b), numbers(in[2].t), numbers(in[3].t), a->size[1], a->dtype};
    rush_parallel_for(out[0].t->numel, RUSH_MAX(1, 32768 / RUSH_MAX(s.width, 1)), some_sampled, &s);
}

/* A row of a gets, for each place that it is at, the row of b there. */
static void sampled_grad(rush_grads *s)
{
    for (int k = 0; k < 2; ++k) {
        if (!rush_needs(s, k)) continue;
        rush_tensor *met = T("index_select", s->in[1 - k], V((int64_t)0), s->in[3 - k]), *zeros = T("zeros_like", s->in[k]);
        s->gin[k] = met && zeros ? T("index_add", V(zeros), V((int64_t)0), s->in[2 + k], V(mul(unsqueeze(s->g[0], 1), conj_(met)))) : NULL;
    }
}
static rush_op op_sampled = {
    .schema = "_sampled_products(Tensor a, Tensor b, Tensor rows, Tensor columns) -> Tensor", .doc = "The products of rows of a and rows of b, at pairs of both.",
    .shape = sampled_shape, .cpu = sampled_cpu, .grad = sampled_grad, .saves = "a, b, rows, columns", .flags = RUSH_HIDDEN,
};

RUSH_FAMILY(sparse_kernels, &op_keys, &op_group, &op_find, &op_common, &op_merge, &op_within, &op_trusted, &op_validate, &op_starts, &op_entries, &op_coordinates,
            &op_batch_starts, &op_rows_merge, &op_rows_dense, &op_rows_sparse, &op_sampled)
