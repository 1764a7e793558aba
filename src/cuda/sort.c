/* sort.c - sorting, over the kernels of sort.cu, and what is read off sorted rows: top values, k-th values, medians, modes.
 *
 * The order is stable, so of equal elements PyTorch's CPU may name others where it sorts otherwise, as its CUDA does.
 */
#include "cuda/column.h"
#include "op/formula.h"
#include <stdio.h>

/* Rows of (..., n), contiguous, dim last, and what was found of them. */
typedef struct sorted {
    rush_tensor *x, *value, *at;
    int64_t n;
    int dim;
} sorted;

static rush_tensor *last(rush_tensor *t, int dim) { return !t || !t->ndim || dim == t->ndim - 1 ? t : T("movedim.int", V(t), V((int64_t)dim), V((int64_t)-1)); }
static rush_tensor *piece(rush_tensor *t, int64_t begin, int64_t n) { return t->ndim ? T("narrow", V(t), V((int64_t)-1), V(begin), V(n)) : t; }

static int rows_of(sorted *s, rush_tensor *x, int64_t dim)
{
    *s = (sorted){.dim = rush_dim_wrap(dim, x->ndim), .n = x->ndim ? x->size[rush_dim_wrap(dim, x->ndim)] : 1};
    s->x = rush_contiguous_copy(last(x, s->dim));
    return s->x && s->x->numel ? 0 : -1;
}

/* How the elements of x are ordered. */
static cuda_sort order_of(const rush_tensor *x, int64_t n, bool descending)
{
    const rush_dtype d = x->dtype;
    const int bits = 8 * rush_dtypes[d].size;
    const bool is_unsigned = d <= RUSH_U8 || (d >= RUSH_U16 && d <= RUSH_U64);
    return (cuda_sort){.x = rush_ptr(x), .rows = x->numel / n, .n = n, .flip = descending ? ~(uint64_t)0 : 0, .sign = is_unsigned ? 0 : (uint64_t)1 << (bits - 1), .passes = bits / 8,
                       .infinity = d == RUSH_F16 ? 0x7c00 : d == RUSH_BF16 ? 0x7f80 : d == RUSH_F32 ? 0x7f800000 : d == RUSH_F64 ? 0x7ff0000000000000 : 0, .pieces = 1, .span = 1};
}

static int start(const char *what, rush_device d, const cuda_sort *p, int64_t blocks)
{
    char kernel[32];
    snprintf(kernel, sizeof kernel, "%s_%d", what, p->passes);
    return cuda_launch_blocks(d, kernel, p, blocks);
}

/* Into s->value and s->at, which are there. from: the places that x's elements had, or NULL. */
static int sort_into(sorted *s, bool descending, const rush_tensor *from)
{
    const rush_device device = s->x->device;
    cuda_sort p = order_of(s->x, s->n, descending);
    p.from = from ? rush_ptr(from) : NULL, p.value = rush_ptr(s->value), p.at = rush_ptr(s->at);
    while (p.span < p.n && p.span < CUDA_TILE) p.span *= 2;
    if (p.n <= CUDA_TILE) return start("sort_tiles", device, &p, (p.rows + CUDA_TILE / p.span - 1) / (CUDA_TILE / p.span));
    if (p.n <= SORT_TILE) return start("sort_rows", device, &p, p.rows);
    RUSH_CHECK(p.n < UINT32_MAX, RUSH_NOT_IMPLEMENTED, "rows of %lld elements are not sorted on device 'cuda'", (long long)p.n);
    const int64_t tiles = (p.n + SORT_TILE - 1) / SORT_TILE, most = RUSH_MAX(1, RUSH_MIN(tiles, RUSH_MAX(32, 4 * cuda_devices[device.index].processors) / p.rows));
    p.piece = (tiles + most - 1) / most * SORT_TILE, p.pieces = (p.n + p.piece - 1) / p.piece, p.ngroups = (p.pieces + SORT_GROUP - 1) / SORT_GROUP;
    const int64_t ncounts = p.rows * p.pieces * 256, ngroups = p.passes * p.rows * p.ngroups * 256 + 2; /* the bits that differ lie before them */
    rush_tensor *counts = rush_tensor_new(RUSH_I32, device, 1, &ncounts), *groups = rush_tensor_new(RUSH_I32, device, 1, &ngroups);
    if (!counts || !groups || rush_device_fill(groups, rush_v_int(0))) return -1;
    p.counts = rush_ptr(counts), p.groups = (uint32_t *)rush_ptr(groups) + 2;
    if (p.passes == 8 || (p.passes == 4 && !p.infinity)) p.differ = rush_ptr(groups); /* integers are small, and so are mantissas made of them */
    for (int k = 0; k < 2 && k + 1 < p.passes; k++) {
        rush_tensor *swap = rush_tensor_new(s->x->dtype, device, 1, &s->x->numel), *place = rush_tensor_new(RUSH_I32, device, 1, &s->x->numel);
        if (!swap || !place) return -1;
        p.swap[k] = rush_ptr(swap), p.place[k] = rush_ptr(place);
    }
    for (; p.pass < p.passes; p.pass++)
        if (start("sort_count", device, &p, p.rows * p.pieces) || start("sort_scatter", device, &p, p.rows * p.pieces)) return -1;
    return 0;
}

static bool usable(const sorted *s, const rush_tensor *t)
{
    return t->storage != s->x->storage && t->numel == s->x->numel && rush_contiguous(t) && (!t->ndim || s->dim == t->ndim - 1) && !(t->flags & (RUSH_T_CONJ | RUSH_T_NEG));
}

/* All in order; right into `out` where that can be. */
static int sort_rows(sorted *s, rush_tensor *x, int64_t dim, bool descending, rush_value *out)
{
    if (rows_of(s, x, dim)) return -1;
    s->value = out && usable(s, out[0].t) ? out[0].t : rush_tensor_new(x->dtype, x->device, s->x->ndim, s->x->size);
    s->at = out && usable(s, out[1].t) ? out[1].t : rush_tensor_new(RUSH_I64, x->device, s->x->ndim, s->x->size);
    return s->value && s->at ? sort_into(s, descending, NULL) : -1;
}

/* Into the results, which may have kept the dim or not. */
static void deliver(const sorted *s, rush_tensor *value, rush_tensor *at, rush_value *out)
{
    rush_tensor *made[2] = {value, at};
    for (int i = 0; i < 2 && value && at; i++) {
        rush_tensor *to = out[i].t, *from = made[i];
        if (to == from) continue;
        if (to->ndim == s->x->ndim) to = last(to, s->dim);
        else from = squeeze(from, -1);
        if (!to || !from || rush_copy_into(to, from)) return;
    }
}
static void deliver_place(const sorted *s, rush_tensor *place, rush_value *out)
{
    if (place) deliver(s, T("gather", V(s->value), V((int64_t)-1), V(place)), T("gather", V(s->at), V((int64_t)-1), V(place)), out);
}

static void sort_of(rush_tensor *x, int64_t dim, bool descending, int64_t begin, int64_t n, rush_value *out)
{
    sorted s;
    if (!out[0].t->numel || sort_rows(&s, x, dim, descending, n < 0 ? out : NULL)) return;
    if (n < 0) deliver(&s, s.value, s.at, out);
    else deliver(&s, piece(s.value, begin, n), piece(s.at, begin, n), out);
}

/* p's choice, k elements of each piece of each row, as x, at of (..., pieces k). */
static int select_from(sorted *s, cuda_sort *p)
{
    int64_t size[RUSH_MAXDIM];
    const int ndim = s->x->ndim;
    memcpy(size, s->x->size, sizeof *size * (size_t)ndim);
    if (ndim) size[ndim - 1] = p->pieces * (p->one ? 1 : p->k);
    s->value = rush_tensor_new(s->x->dtype, s->x->device, ndim, size), s->at = rush_tensor_new(RUSH_I64, s->x->device, ndim, size);
    if (!s->value || !s->at) return -1;
    p->value = rush_ptr(s->value), p->at = rush_ptr(s->at);
    return start("sort_select", s->x->device, p, p->rows * p->pieces);
}

/* in: self, k, dim, largest, sorted. The first k of each piece, then the first k of those; many of few are all sorted. */
static void topk(const rush_op *op, const rush_value *in, rush_value *out)
{
    sorted s, some;
    const int64_t k = in[1].i;
    if (!out[0].t->numel || rows_of(&s, in[0].t, in[2].i)) return;
    if (s.n <= CUDA_TILE || k > s.n / 4) return sort_of(in[0].t, in[2].i, in[3].i, 0, k, out);
    cuda_sort p = order_of(s.x, s.n, in[3].i);
    p.k = k, p.pieces = RUSH_MAX(1, RUSH_MIN(RUSH_MIN(4 * cuda_devices[s.x->device.index].processors / p.rows, s.n / SORT_TILE), SORT_TILE / k));
    if (select_from(&s, &p)) return;
    some = (sorted){.x = s.value, .n = p.pieces * k, .dim = s.dim};
    if (p.pieces == 1 && !in[4].i) return deliver(&s, s.value, s.at, out);
    some.value = rush_tensor_new(s.x->dtype, s.x->device, s.x->ndim, s.value->size), some.at = rush_tensor_new(RUSH_I64, s.x->device, s.x->ndim, s.value->size);
    if (some.value && some.at && !sort_into(&some, in[3].i, s.at)) deliver(&some, piece(some.value, 0, k), piece(some.at, 0, k), out);
}

/* One block finds an element of a row: fewer and longer rows are sorted. */
static bool few_and_long(const sorted *s) { return s->n > 16 * SORT_TILE && s->x->numel / s->n < cuda_devices[s->x->device.index].processors / 4 + 1; }

static void kthvalue(const rush_op *op, const rush_value *in, rush_value *out)
{
    sorted s;
    if (!out[0].t->numel || rows_of(&s, in[0].t, in[2].i)) return;
    if (s.n <= CUDA_TILE || few_and_long(&s)) return sort_of(in[0].t, in[2].i, false, in[1].i - 1, 1, out);
    cuda_sort p = order_of(s.x, s.n, false);
    p.k = in[1].i, p.one = true;
    if (!select_from(&s, &p)) deliver(&s, s.value, s.at, out);
}

static void sort(const rush_op *op, const rush_value *in, rush_value *out) { sort_of(in[0].t, in[1].i, in[2].i, 0, -1, out); }
static void sort_stable(const rush_op *op, const rush_value *in, rush_value *out) { sort_of(in[0].t, in[2].i, in[3].i, 0, -1, out); }
/* The lower of two middle ones, of what is no NaN; or NaN, if there is one and it counts. */
static void middle(const rush_value *in, rush_value *out, bool ignore_nan)
{
    sorted s;
    if (!out[0].t->numel || rows_of(&s, in[0].t, in[1].i)) return;
    if (s.n > CUDA_TILE && !few_and_long(&s)) {
        cuda_sort p = order_of(s.x, s.n, false);
        p.one = true, p.middle = ignore_nan ? SORT_NANMEDIAN : SORT_MEDIAN;
        if (!select_from(&s, &p)) deliver(&s, s.value, s.at, out);
        return;
    }
    if (sort_rows(&s, in[0].t, in[1].i, false, NULL)) return;
    if (!s.x->ndim || !rush_dtype_is_float(s.x->dtype)) return deliver(&s, piece(s.value, (s.n - 1) / 2, 1), piece(s.at, (s.n - 1) / 2, 1), out);
    rush_tensor *valid = sum_dim(logical_not(T("isnan", V(s.x))), -1, true);
    rush_tensor *half = valid ? T("div.Tensor_mode", V(T("clamp_min", V(sub(valid, 1)), V((int64_t)0))), V(T("full_like", V(valid), V((int64_t)2))), V("floor")) : NULL;
    deliver_place(&s, ignore_nan || !half ? half : where(lt(valid, s.n), valid, half), out);
}
static void median(const rush_op *op, const rush_value *in, rush_value *out) { middle(in, out, false); }
static void nanmedian(const rush_op *op, const rush_value *in, rush_value *out) { middle(in, out, true); }

/* The end of the longest run of equal elements, the first of several. */
static void mode(const rush_op *op, const rush_value *in, rush_value *out)
{
    sorted s;
    if (!out[0].t->numel || sort_rows(&s, in[0].t, in[1].i, false, NULL)) return;
    if (!s.x->ndim || s.n == 1) return deliver(&s, piece(s.value, 0, 1), piece(s.at, 0, 1), out);
    rush_tensor *place = T("arange", V(s.n), rush_v_dtype(RUSH_I64), ON(s.x)), *begins = ne(piece(s.value, 1, s.n - 1), piece(s.value, 0, s.n - 1));
    if (begins && rush_dtype_is_float(s.x->dtype)) begins = mul(begins, logical_not(T("isnan", V(piece(s.value, 0, s.n - 1))))); /* NaN are behind, and one run */
    rush_tensor *begin = place && begins ? mul(begins, piece(place, 1, s.n - 1)) : NULL;
    rush_tensor *parts[] = {T("zeros_like", V(piece(s.at, 0, 1))), begin};
    rush_tensor *of_run = begin ? T("cummax", V(T("cat", rush_v_tensors(parts, 2), V((int64_t)-1))), V((int64_t)-1)) : NULL;
    deliver_place(&s, of_run ? T("argmax", V(sub(place, of_run)), V((int64_t)-1), V(true)) : NULL, out);
}

const cuda_kernel cuda_sort_kernels[] = {{"sort", sort}, {"sort.stable", sort_stable}, {"topk", topk}, {"kthvalue", kthvalue}, {"median.dim", median}, {"nanmedian.dim", nanmedian},
                                         {"mode", mode}, {0}};
