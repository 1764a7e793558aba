/* sort.c - sorting, over the kernels of sort.cu, and what is read off sorted rows: top values, k-th values, medians, modes.
 *
 * The order is stable, so of equal elements PyTorch's CPU may name others where it sorts otherwise, as its CUDA does.
 */
#include "cuda/column.h"
#include "op/formula.h"

/* Rows in order: of (..., n), dim last; key: as sort.cu makes them, in bits of int64. */
typedef struct sorted {
    rush_tensor *x, *key, *at;
    int64_t n;
    int dim;
} sorted;

static rush_tensor *last(rush_tensor *t, int dim) { return !t || !t->ndim || dim == t->ndim - 1 ? t : T("movedim.int", V(t), V((int64_t)dim), V((int64_t)-1)); }

static int sort_rows(sorted *s, rush_tensor *x, int64_t dim, bool descending)
{
    const rush_dtype d = x->dtype;
    *s = (sorted){.dim = rush_dim_wrap(dim, x->ndim), .n = x->ndim ? x->size[rush_dim_wrap(dim, x->ndim)] : 1};
    s->x = rush_contiguous_copy(last(x, s->dim));
    if (!s->x || !s->x->numel) return -1;
    rush_tensor *both[4];
    for (int k = 0; k < 4; k++)
        if (!(both[k] = rush_tensor_new(RUSH_I64, x->device, s->x->ndim, s->x->size))) return -1;
    cuda_sort p = {.x = rush_ptr(s->x), .dtype = d, .flip = descending ? ~(uint64_t)0 : 0, .rows = x->numel / s->n, .n = s->n, .item = (int)rush_dtypes[d].size, .span = 1,
                   .key_to = rush_ptr(both[0]), .at_to = rush_ptr(both[1])};
    while (p.span < p.n && p.span < CUDA_TILE) p.span *= 2;
    const int64_t together = CUDA_TILE / p.span, tiles = (p.rows + together - 1) / together * ((p.n + CUDA_TILE - 1) / CUDA_TILE);
    int failed = cuda_launch_blocks(x->device, d == RUSH_U64 ? "sort_tiles_u64" : rush_dtypes[d].category < 2 ? "sort_tiles_i64" : "sort_tiles_f64", &p, tiles);
    int now = 0;
    for (p.run = CUDA_TILE; p.run < p.n && !failed; p.run *= 2, now ^= 2) {
        p.key = rush_ptr(both[now]), p.at = rush_ptr(both[now + 1]), p.key_to = rush_ptr(both[now ^ 2]), p.at_to = rush_ptr(both[(now ^ 2) + 1]);
        failed = cuda_launch(x->device, "sort_merge", &p, x->numel);
    }
    s->key = both[now], s->at = both[now + 1];
    return failed ? -1 : 0;
}

/* Places of the sorted rows, (..., k), and the elements there into the results, which may have kept the dim or not. */
static void deliver(const sorted *s, rush_tensor *at, rush_value *out)
{
    rush_tensor *values = at ? T("gather", V(s->x), V((int64_t)-1), V(at)) : NULL, *made[2] = {values, at};
    for (int i = 0; i < 2 && values; i++) {
        rush_tensor *to = out[i].t, *from = made[i];
        if (to->ndim == s->x->ndim) to = last(to, s->dim);
        else from = squeeze(from, -1);
        if (!to || !from || rush_copy_into(to, from)) return;
    }
}

static rush_tensor *piece(rush_tensor *t, int64_t begin, int64_t n) { return t->ndim ? T("narrow", V(t), V((int64_t)-1), V(begin), V(n)) : t; }

static void sort_of(rush_tensor *x, int64_t dim, bool descending, int64_t begin, int64_t n, rush_value *out)
{
    sorted s;
    if (out[0].t->numel && !sort_rows(&s, x, dim, descending)) deliver(&s, piece(s.at, begin, n < 0 ? s.n : n), out);
}

static void sort(const rush_op *op, const rush_value *in, rush_value *out) { sort_of(in[0].t, in[1].i, in[2].i, 0, -1, out); }
static void sort_stable(const rush_op *op, const rush_value *in, rush_value *out) { sort_of(in[0].t, in[2].i, in[3].i, 0, -1, out); }
static void topk(const rush_op *op, const rush_value *in, rush_value *out) { sort_of(in[0].t, in[2].i, in[3].i, 0, in[1].i, out); }
static void kthvalue(const rush_op *op, const rush_value *in, rush_value *out) { sort_of(in[0].t, in[2].i, false, in[1].i - 1, 1, out); }

/* The lower of two middle ones, of what is no NaN; or NaN, if there is one and it counts. */
static void middle(const rush_value *in, rush_value *out, bool ignore_nan)
{
    sorted s;
    if (!out[0].t->numel || sort_rows(&s, in[0].t, in[1].i, false)) return;
    if (!s.x->ndim || !rush_dtype_is_float(s.x->dtype)) return deliver(&s, piece(s.at, (s.n - 1) / 2, 1), out);
    rush_tensor *valid = sum_dim(logical_not(T("isnan", V(s.x))), -1, true);
    rush_tensor *half = valid ? T("div.Tensor_mode", V(T("clamp_min", V(sub(valid, 1)), V((int64_t)0))), V(T("full_like", V(valid), V((int64_t)2))), V("floor")) : NULL;
    rush_tensor *place = ignore_nan || !half ? half : where(lt(valid, s.n), valid, half);
    deliver(&s, place ? T("gather", V(s.at), V((int64_t)-1), V(place)) : NULL, out);
}
static void median(const rush_op *op, const rush_value *in, rush_value *out) { middle(in, out, false); }
static void nanmedian(const rush_op *op, const rush_value *in, rush_value *out) { middle(in, out, true); }

/* The end of the longest run of equal elements, the first of several. */
static void mode(const rush_op *op, const rush_value *in, rush_value *out)
{
    sorted s;
    if (!out[0].t->numel || sort_rows(&s, in[0].t, in[1].i, false)) return;
    if (!s.x->ndim || s.n == 1) return deliver(&s, piece(s.at, 0, 1), out);
    rush_tensor *place = T("arange", V(s.n), rush_v_dtype(RUSH_I64), ON(s.x)), *begins = ne(piece(s.key, 1, s.n - 1), piece(s.key, 0, s.n - 1));
    rush_tensor *begin = place && begins ? mul(begins, piece(place, 1, s.n - 1)) : NULL;
    rush_tensor *parts[] = {T("zeros_like", V(piece(s.key, 0, 1))), begin};
    rush_tensor *of_run = begin ? T("cummax", V(T("cat", rush_v_tensors(parts, 2), V((int64_t)-1))), V((int64_t)-1)) : NULL;
    rush_tensor *longest = of_run ? T("argmax", V(sub(place, of_run)), V((int64_t)-1), V(true)) : NULL;
    deliver(&s, longest ? T("gather", V(s.at), V((int64_t)-1), V(longest)) : NULL, out);
}

const cuda_kernel cuda_sort_kernels[] = {{"sort", sort}, {"sort.stable", sort_stable}, {"topk", topk}, {"kthvalue", kthvalue}, {"median.dim", median}, {"nanmedian.dim", nanmedian},
                                         {"mode", mode}, {0}};
