/* compose.c - operations that are written with others, which have kernels: distinct elements and slices, floats on the grid of integers, rows
 * scaled down to a norm.
 */
#include "cuda/column.h"
#include "op/formula.h"
#include <math.h>

#define logical_or(a, b) T("logical_or", V(a), V(b))

static rush_tensor *part(rush_tensor *t, int64_t dim, int64_t begin, int64_t n) { return T("narrow", V(t), V(dim), V(begin), V(n)); }

static rush_tensor *ones_before(rush_tensor *t, rush_dtype d) /* a row before those of t, or an element */
{
    int64_t size[RUSH_MAXDIM];
    if (!t) return NULL;
    memcpy(size, t->size, sizeof *size * (size_t)t->ndim);
    size[0] = 1;
    rush_tensor *both[2] = {T("ones", rush_v_ints(size, t->ndim), rush_v_dtype(d), ON(t)), to_dtype(t, d)};
    return both[0] && both[1] ? T("cat", rush_v_tensors(both, 2), V((int64_t)0)) : NULL;
}

/* ---- unique: equal elements are neighbours after sorting, and each run of them is one result ---- */

/* Does each differ from the one before? NaN does. */
static rush_tensor *differ(rush_tensor *t) { return t ? ne(part(t, 0, 1, t->size[0] - 1), part(t, 0, 0, t->size[0] - 1)) : NULL; }

/* Of runs that begin at `first`: which run each is in (order[i] is the i-th's place, or NULL), how long they are; empty where nobody asks. */
static void runs(rush_value *out, rush_tensor *first, rush_tensor *order, bool inverse, bool counts, int ndim, const int64_t *size)
{
    rush_tensor *which = T("empty.memory_format", INTS(0), rush_v_dtype(RUSH_I64), ON(first)), *often = which;
    if (inverse) {
        which = first->numel ? sub(T("cumsum", V(first), V((int64_t)0)), 1) : to_dtype(first, RUSH_I64);
        if (order && which) which = T("scatter.src", V(T("empty_like", V(which))), V((int64_t)0), V(order), V(which));
        which = which ? T("reshape", V(which), rush_v_ints(size, ndim)) : NULL;
    }
    if (counts) {
        rush_tensor *begin = T("reshape", V(T("nonzero", V(first))), INTS(-1)), *ends[2] = {begin, T("full", INTS(1), V(first->numel), rush_v_dtype(RUSH_I64), ON(first))};
        rush_tensor *end = begin && ends[1] ? T("cat", rush_v_tensors(ends, 2), V((int64_t)0)) : NULL;
        often = end ? sub(part(end, 0, 1, begin->numel), begin) : NULL;
    }
    if (which && often) out[1] = V(which), out[2] = V(often);
}

static int unique_elements(rush_tensor *t, rush_value *out, bool sorted, bool inverse, bool counts)
{
    rush_tensor *flat = T("reshape", V(t), INTS(-1)), *order = NULL;
    rush_value by[RUSH_MAXOUT];
    if (flat && sorted) {
        if (TN(by, "sort.stable", V(flat), V(true), V((int64_t)0), V(false))) return -1;
        flat = by[0].t, order = by[1].t;
    }
    if (!flat) return -1;
    rush_tensor *first = flat->numel ? ones_before(differ(flat), RUSH_BOOL) : to_dtype(flat, RUSH_BOOL), *values = first ? T("masked_select", V(flat), V(first)) : NULL;
    if (!values) return -1;
    out[0] = V(values);
    runs(out, first, order, inverse, counts, t->ndim, t->size);
    return rush_failed() ? -1 : 0;
}

/* Columns sorted, each on its own: where an element was, and the rank of each, from 1 on; equal ones have the same, and so have NaN here. */
static rush_tensor *ranks(rush_tensor *columns, rush_tensor **order)
{
    rush_value by[RUSH_MAXOUT];
    if (!columns || TN(by, "sort.stable", V(columns), V(true), V((int64_t)0), V(false))) return NULL;
    rush_tensor *sorted = by[0].t, *begins = differ(sorted);
    *order = by[1].t;
    if (begins && rush_dtype_is_float(sorted->dtype)) begins = mul(begins, logical_not(T("isnan", V(part(sorted, 0, 0, sorted->size[0] - 1))))); /* NaN are behind */
    rush_tensor *rank = begins ? T("cumsum", V(ones_before(begins, RUSH_I64)), V((int64_t)0)) : NULL;
    return rank ? T("scatter.src", V(T("empty_like", V(rank))), V((int64_t)0), V(*order), V(rank)) : NULL;
}

/* The order of rows (n, width): neighbouring columns become one, whose numbers are ordered as pairs of theirs, until there is one. */
static rush_tensor *rows_in_order(rush_tensor *rows)
{
    rush_tensor *order = NULL, *rank = ranks(rows, &order);
    const int64_t n = rows->size[0];
    while (rank && rank->size[1] > 1) {
        const int64_t width = rank->size[1], half = width / 2;
        rush_tensor *even = T("slice.Tensor", V(rank), V((int64_t)1), V((int64_t)0), V(2 * half), V((int64_t)2)), *odd = T("slice.Tensor", V(rank), V((int64_t)1), V((int64_t)1), V(2 * half), V((int64_t)2));
        rush_tensor *parts[2] = {add(mul(even, n + 1), odd), part(rank, 1, 2 * half, width % 2)};
        if (rush_failed()) return NULL;
        rank = ranks(width % 2 ? T("cat", rush_v_tensors(parts, 2), V((int64_t)1)) : parts[0], &order);
    }
    return rank ? T("reshape", V(order), INTS(-1)) : NULL;
}

static int unique_slices(rush_tensor *t, int64_t at, rush_value *out, bool sorted, bool inverse, bool counts)
{
    const int64_t dim = rush_dim_wrap(at, t->ndim), n = t->ndim ? t->size[dim] : 1;
    rush_tensor *rows = n ? T("reshape", V(t->ndim ? T("movedim.int", V(t), V(dim), V((int64_t)0)) : t), INTS(n, -1)) : NULL, *order = NULL, *first;
    if (n) {
        if (rows && sorted) order = rows_in_order(rows), rows = order ? T("index_select", V(rows), V((int64_t)0), V(order)) : NULL;
        rush_tensor *new = rows ? differ(rows) : NULL;
        first = new ? ones_before(T("any.dim", V(new), V((int64_t)1)), RUSH_BOOL) : NULL;
    } else {
        first = T("empty.memory_format", INTS(0), rush_v_dtype(RUSH_BOOL), ON(t));
    }
    rush_tensor *from = !first ? NULL : order ? T("masked_select", V(order), V(first)) : T("reshape", V(T("nonzero", V(first))), INTS(-1));
    rush_tensor *values = from ? T("index_select", V(t), V(dim), V(from)) : NULL;
    if (!values) return -1;
    out[0] = V(values);
    runs(out, first, order, inverse, counts, 1, &n);
    return rush_failed() ? -1 : 0;
}

static void unique2(const rush_op *op, const rush_value *in, rush_value *out) { unique_elements(in[0].t, out, true, I_(in[2]), I_(in[3])); }
static void unique_two(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value all[3];
    if (!unique_elements(in[0].t, all, true, I_(in[2]), false)) out[0] = all[0], out[1] = all[1];
}
static void unique_dim(const rush_op *op, const rush_value *in, rush_value *out) { unique_slices(in[0].t, I_(in[1]), out, true, I_(in[3]), I_(in[4])); }
static void unique_dim_consecutive(const rush_op *op, const rush_value *in, rush_value *out) { unique_slices(in[0].t, I_(in[1]), out, false, I_(in[2]), I_(in[3])); }
static void unique_consecutive(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (HAS(in[3])) unique_slices(in[0].t, I_(in[3]), out, false, I_(in[1]), I_(in[2]));
    else unique_elements(in[0].t, out, false, I_(in[1]), I_(in[2]));
}

/* ---- fake quantization: (clamp(round(x / scale) + zero) - zero) * scale in float32, and what lay within the grid ---- */

/* scale, zero: numbers, or tensors that broadcast; rounds_sum: zero is added before rounding. q holds integers. */
static void snap(rush_value *out, rush_tensor *x, rush_value scale, rush_value zero, int64_t low, int64_t high, bool rounds_sum, bool channels)
{
    rush_tensor *narrow = to_dtype(x, RUSH_F32), *q = NULL;
    if (narrow) q = mul(narrow, scale.kind == RUSH_V_TENSOR ? V(reciprocal(scale.t)) : V((double)(1 / (float)scale.f)));
    if (q) q = rounds_sum ? T("round", V(add(q, zero))) : add(T("round", V(q)), zero);
    if (q && channels) q = where(lt(T("abs", V(q)), 0x1p63), q, -0x1p63); /* what no int64 holds is its least */
    else if (q) q = where(eq(q, q), q, -INFINITY);
    rush_tensor *within = q ? logical_and(ge(q, (double)low), le(q, (double)high)) : NULL;
    rush_tensor *y = within ? mul(sub(T("clamp", V(q), V((double)low), V((double)high)), zero), scale) : NULL;
    if (y && !rush_copy_into(out[0].t, y)) rush_copy_into(out[1].t, within);
}

/* in: self, scale, zero_point, quant_min, quant_max */
static void fake_quantize(const rush_op *op, const rush_value *in, rush_value *out)
{
    snap(out, in[0].t, rush_v_float(D_(in[1])), rush_v_float((double)I_(in[2])), I_(in[3]), I_(in[4]), false, false);
}

/* in: self, scale, zero_point, fake_quant_enabled, quant_min, quant_max; nobody waits for what the tensors say */
static void fake_quantize_tensors(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *scale = to_dtype(T("reshape", in[1], INTS(1)), RUSH_F32), *zero = to_dtype(T("reshape", in[2], INTS(1)), RUSH_F32), *on = ne(T("reshape", in[3], INTS(1)), 0);
    if (rush_failed() || !(zero = T("trunc", V(zero)))) return;
    snap(out, in[0].t, V(scale), V(zero), I_(in[4]), I_(in[5]), false, false);
    if (rush_failed() || !(on = in[0].t->ndim ? on : T("reshape", V(on), rush_v_ints(NULL, 0)))) return;
    rush_tensor *y = where(on, out[0].t, in[0].t), *within = logical_or(out[1].t, logical_not(on));
    if (y && within && !rush_copy_into(out[0].t, y)) rush_copy_into(out[1].t, within);
}

/* in: self, scale, zero_point, axis, quant_min, quant_max */
static void fake_quantize_channels(const rush_op *op, const rush_value *in, rush_value *out)
{
    const int ndim = in[0].t->ndim, axis = (int)I_(in[3]);
    const int64_t low = I_(in[4]), high = I_(in[5]);
    const bool whole = in[2].t->dtype == RUSH_I32;
    int64_t size[RUSH_MAXDIM];
    for (int d = 0; d < ndim; d++) size[d] = d == axis ? in[1].t->numel : 1;
    rush_tensor *scale = to_dtype(T("reshape", in[1], rush_v_ints(size, ndim)), RUSH_F32), *zero = to_dtype(T("reshape", in[2], rush_v_ints(size, ndim)), RUSH_F32);
    rush_tensor *outside = whole && in[2].t->numel ? T("any", V(logical_or(lt(in[2].t, low), gt(in[2].t, high)))) : NULL;
    if (rush_failed()) return;
    if (outside && rush_number_of(outside) != 0) return (void)rush_fail(RUSH_RUNTIME_ERROR, "`zero_point` must be between `quant_min` and `quant_max`.");
    if (!rush_failed()) snap(out, in[0].t, V(scale), V(zero), low, high, !whole, true);
}

/* ---- rows that are looked up, scaled down to a norm. in: self, indices, max_norm, norm_type; one that is named twice gets the same twice ---- */

static void embedding_renorm(const rush_op *op, const rush_value *in, rush_value *out)
{
    const double most = D_(in[2]);
    rush_tensor *index = T("reshape", in[1], INTS(-1)), *rows = index && index->numel ? T("index_select", in[0], V((int64_t)0), V(index)) : NULL;
    rush_tensor *wide = rows ? to_dtype(rows, RUSH_F64) : NULL, *norm = wide ? T("linalg_vector_norm", V(wide), in[3], INTS(-1), V(true)) : NULL;
    rush_tensor *scaled = norm ? where(gt(norm, most), mul(wide, div_(T("full_like", V(norm), V(most)), add(norm, 1e-7))), wide) : NULL;
    if (scaled) CUDA_INPLACE("index_copy", in[0], V((int64_t)0), V(index), V(to_dtype(scaled, rows->dtype)));
}

const cuda_kernel cuda_compose_kernels[] = {
    {"_unique2", unique2}, {"_unique", unique_two}, {"unique_dim", unique_dim}, {"unique_consecutive", unique_consecutive}, {"unique_dim_consecutive", unique_dim_consecutive},
    {"fake_quantize_per_tensor_affine_cachemask", fake_quantize}, {"_fake_quantize_per_tensor_affine_cachemask_tensor_qparams", fake_quantize_tensors},
    {"fake_quantize_per_channel_affine_cachemask", fake_quantize_channels}, {"embedding_renorm_", embedding_renorm}, {0}};
