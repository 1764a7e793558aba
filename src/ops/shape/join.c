/* join.c - several tensors made one: cat, stack and their relatives, block_diag, meshgrid.
 *
 * Seen as bytes, both cat and stack write rows that are made of one piece of each tensor. Contiguous tensors of the
 * result's dtype are copied so; others go piece by piece through the general copy.
 */
#include "op/formula.h"
#include "ops/geometry.h"
#include "tensor/backend.h"

#define LIST (in[0].tensors)
#define COUNT_ ((int64_t)in[0].n)

/* The dtype that all of the list promote to. */
static int promoted(const rush_value *in, rush_dtype *to)
{
    rush_value *values = rush_scope_alloc(sizeof *values * (size_t)COUNT_);
    if (!values) return -1;
    for (int64_t k = 0; k < COUNT_; ++k) values[k] = rush_v_tensor(LIST[k]);
    *to = rush_result_type((int)COUNT_, values);
    return 0;
}
#define MANY 32

/* ---- rows of pieces ---- */

typedef struct piece {
    const char *src;
    int64_t bytes, at; /* per row; begin within the row */
} piece;

typedef struct rows {
    char *dst;
    const piece *pieces;
    int64_t n, row;
} rows;

static inline __attribute__((always_inline)) void strided(char *to, int64_t row, const char *from, int64_t n, int64_t bytes)
{
    for (int64_t i = 0; i < n; ++i) memcpy(to + i * row, from + i * bytes, (size_t)bytes);
}

/* Rows [begin, end): piece by piece within blocks that stay in the first-level cache. */
static void copy_rows(const rows *r, int64_t begin, int64_t end)
{
    int64_t block = RUSH_MAX(1, 16384 / r->row);
    for (int64_t at = begin; at < end; at += block) {
        int64_t n = RUSH_MIN(block, end - at);
        for (int64_t k = 0; k < r->n; ++k) {
            const piece *p = &r->pieces[k];
            const char *s = p->src + at * p->bytes;
            char *d = r->dst + at * r->row + p->at;
            switch (p->bytes) {
            case 1: strided(d, r->row, s, n, 1); break;
            case 2: strided(d, r->row, s, n, 2); break;
            case 4: strided(d, r->row, s, n, 4); break;
            case 8: strided(d, r->row, s, n, 8); break;
            default: strided(d, r->row, s, n, p->bytes);
            }
        }
    }
}

/* Bytes [begin, end) of one row. */
static void copy_within(const rows *r, int64_t row, int64_t begin, int64_t end)
{
    for (int64_t k = 0; k < r->n && begin < end; ++k) {
        const piece *p = &r->pieces[k];
        int64_t skip = begin - p->at, m = RUSH_MIN(p->bytes - skip, end - begin);
        if (m <= 0) continue;
        memcpy(r->dst + row * r->row + begin, p->src + row * p->bytes + skip, (size_t)m);
        begin += m;
    }
}

/* Bytes [begin, end) of the result. */
static void copy_range(void *arg, int64_t begin, int64_t end)
{
    const rows *r = arg;
    int64_t first = (begin + r->row - 1) / r->row, last = end / r->row;
    if (first > last) {
        copy_within(r, last, begin % r->row, end % r->row);
        return;
    }
    if (begin % r->row) copy_within(r, first - 1, begin % r->row, r->row);
    copy_rows(r, first, last);
    if (end % r->row) copy_within(r, last, 0, end % r->row);
}

/* Whether each tensor is as it must be for a copy of bytes. */
static bool plain(const rush_tensor *t, const rush_tensor *result)
{
    return t->dtype == result->dtype && rush_contiguous(t) && !(t->flags & (RUSH_T_CONJ | RUSH_T_NEG));
}

/* n tensors into rows of the contiguous `to`; there are `count` rows. False when some tensor is not plain. */
static bool join_plain(rush_tensor *to, int64_t n, rush_tensor *const *list, int64_t count)
{
    piece few[MANY], *pieces = n <= MANY ? few : rush_scope_alloc(sizeof *pieces * (size_t)n);
    int64_t item = rush_dtypes[to->dtype].size, used = 0;
    rows r = {rush_ptr(to), pieces, 0, 0};
    if (!pieces || !rush_contiguous(to) || to->device.type != RUSH_CPU) return false;
    for (int64_t k = 0; k < n; ++k) {
        const rush_tensor *t = list[k];
        if (t->numel == 0) continue;
        if (!plain(t, to)) return false;
        int64_t bytes = t->numel / count * item;
        pieces[used++] = (piece){rush_ptr(t), bytes, r.row};
        r.row += bytes;
    }
    r.n = used;
    int64_t total = to->numel * item;
    if (total <= 131072) copy_rows(&r, 0, used ? count : 0);
    else rush_parallel_for(total, 131072, copy_range, &r);
    return true;
}

/* ---- cat ---- */

/* Old PyTorch had no tensors without dimensions, and [0] stood for nothing: it joins anything. */
static bool skipped(const rush_tensor *t)
{
    return t->ndim == 1 && t->size[0] == 0;
}

/* Nothing but such tensors join along any dimension. */
static int cat_dim(rush_value dim, const rush_tensor *t) { return skipped(t) ? 0 : rush_dim_wrap(I_(dim), t->ndim); }

static int cat_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *first = NULL;
    int64_t size[RUSH_MAXDIM], total = 0;
    RUSH_CHECK(COUNT_ > 0, RUSH_VALUE_ERROR, "torch.cat(): expected a non-empty list of Tensors");
    for (int64_t k = 0; k < COUNT_; ++k) {
        RUSH_CHECK(LIST[k]->ndim > 0, RUSH_RUNTIME_ERROR, "zero-dimensional tensor (at position %lld) cannot be concatenated", (long long)k);
        if (!first && !skipped(LIST[k])) first = LIST[k];
    }
    if (!first) first = LIST[0];
    int n = first->ndim, dim = cat_dim(in[1], first), format = -1;
    bool same = true;
    if (dim < 0) return -1;
    for (int64_t k = 0; k < COUNT_; ++k) {
        const rush_tensor *t = LIST[k];
        same &= t->dtype == first->dtype;
        if (skipped(t)) continue;
        RUSH_CHECK(t->ndim == n, RUSH_RUNTIME_ERROR, "Tensors must have same number of dimensions: got %d and %d", n, t->ndim);
        for (int d = 0; d < n; ++d)
            RUSH_CHECK(d == dim || t->size[d] == first->size[d], RUSH_RUNTIME_ERROR,
                       "Sizes of tensors must match except in dimension %d. Expected size %lld but got size %lld for tensor number %lld in the list.", dim,
                       (long long)first->size[d], (long long)t->size[d], (long long)k);
        total += t->size[dim];
        int f = rush_format_of(t);
        format = format < 0 || format == f ? f : RUSH_CONTIGUOUS;
    }
    rush_dtype d = first->dtype;
    if (!same && promoted(in, &d)) return -1;
    memcpy(size, first->size, sizeof *size * n);
    size[dim] = total;
    for (int64_t k = 0; k < COUNT_ && HAS(out[0]); ++k)
        RUSH_CHECK(!rush_overlap(out[0].t, LIST[k]), RUSH_RUNTIME_ERROR,
                   "unsupported operation: the input tensors cannot refer to any of the output memory locations. Found overlap in input tensor %lld",
                   (long long)k);
    return rush_out_format(out, 0, format < 0 ? RUSH_CONTIGUOUS : (rush_memory_format)format, first, d, n, size) ? 0 : -1;
}

static void cat_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *to = out[0].t;
    int dim = cat_dim(in[1], to);
    int64_t count = 1, start = 0;
    for (int d = 0; d < dim; ++d) count *= to->size[d];
    if (to->numel == 0 || join_plain(to, COUNT_, LIST, count)) return;
    for (int64_t k = 0; k < COUNT_; ++k) {
        const rush_tensor *t = LIST[k];
        if (skipped(t)) continue;
        rush_tensor *part = rush_part(to, dim, start, t->size[dim]);
        if (!part || rush_copy_into(part, t)) return;
        start += t->size[dim];
    }
}

/* A gradient of the joined dtype, as one of the input's. */
static rush_tensor *of_dtype(rush_tensor *g, const rush_tensor *like)
{
    if (!g || g->dtype == like->dtype) return g;
    if (rush_dtype_is_complex(g->dtype) && !rush_dtype_is_complex(like->dtype)) g = T("real", V(g));
    return g && g->dtype != like->dtype ? to_dtype(g, like->dtype) : g;
}

static void cat_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0];
    int64_t start = 0;
    if (!g) return;
    int dim = cat_dim(s->in[1], g);
    for (uint32_t k = 0; k < s->in[0].n; ++k) {
        const rush_tensor *t = s->in[0].tensors[k];
        if (skipped(t)) {
            s->glist[0][k] = rush_zeros_like(t);
            continue;
        }
        s->glist[0][k] = of_dtype(T("slice.Tensor", V(g), V((int64_t)dim), V(start), V(start + t->size[dim]), V((int64_t)1)), t);
        start += t->size[dim];
    }
}

static rush_op op_cat = {
    .schema = "cat(Tensor[] tensors, int dim=0) -> Tensor",
    .doc = "Tensors one after the other along dim; all other sizes agree. The dtype is the promoted one.",
    .shape = cat_shape, .cpu = cat_cpu, .grad = cat_grad, .flags = RUSH_AUTOCAST_WIDEST | RUSH_STRIDED_OUT | RUSH_OUT_CASTS | RUSH_OUT_TYPE,
};

static int concat_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_result(out, T("cat", in[0], in[1]));
}

static rush_op op_concat = {
    .schema = "concat(Tensor[] tensors, int dim=0) -> Tensor", .doc = "cat() by another name.", .run = concat_run, .flags = RUSH_OUT_CASTS | RUSH_OUT_TYPE};
static rush_op op_concatenate = {
    .schema = "concatenate(Tensor[] tensors, int dim=0) -> Tensor", .doc = "cat() under NumPy's name.", .run = concat_run, .flags = RUSH_OUT_CASTS | RUSH_OUT_TYPE};

/* ---- stack ---- */

/* Strides of a result of `size` that keeps the channels of `like` last: the new dimension lies before the one that it is in front of. */
static void stacked_strides(const rush_tensor *like, int dim, const int64_t *size, int64_t *stride)
{
    int order[RUSH_MAXDIM], n = 0;
    for (int k = 0; k < like->ndim; ++k) {
        int at = k == 0 ? 0 : k == like->ndim - 1 ? 1 : k + 1; /* N, D, H, W, C in memory */
        if (at == dim) order[n++] = dim;
        order[n++] = at + (at >= dim);
    }
    for (int64_t step = 1; n-- > 0; step *= size[order[n]]) stride[order[n]] = step;
}

static int stack_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(COUNT_ > 0, RUSH_RUNTIME_ERROR, "stack expects a non-empty TensorList");
    const rush_tensor *first = LIST[0];
    int64_t size[RUSH_MAXDIM], stride[RUSH_MAXDIM];
    bool same = true;
    int dim = rush_dim_wrap(I_(in[1]), first->ndim + 1);
    rush_memory_format format = rush_format_of(first);
    if (dim < 0) return -1;
    RUSH_CHECK(first->ndim < RUSH_MAXDIM, RUSH_NOT_IMPLEMENTED, "tensors have at most %d dimensions", RUSH_MAXDIM);
    for (int64_t k = 1; k < COUNT_; ++k) {
        RUSH_CHECK(rush_same_sizes(LIST[k], first), RUSH_RUNTIME_ERROR, "stack expects each tensor to be equal size, but got %s at entry 0 and %s at entry %lld",
                   rush_shape_of(first), rush_shape_of(LIST[k]), (long long)k);
        same &= LIST[k]->dtype == first->dtype;
        if (rush_format_of(LIST[k]) != format) format = RUSH_CONTIGUOUS;
    }
    rush_dtype d = first->dtype;
    if (!same && promoted(in, &d)) return -1;
    for (int k = 0; k < dim; ++k) size[k] = first->size[k];
    size[dim] = COUNT_;
    for (int k = dim; k < first->ndim; ++k) size[k + 1] = first->size[k];
    if (format == RUSH_CONTIGUOUS || dim == first->ndim) return rush_out_t(out, 0, first, d, first->ndim + 1, size) ? 0 : -1;
    stacked_strides(first, dim, size, stride);
    return rush_out_strided(out, 0, d, first->device, first->ndim + 1, size, stride) ? 0 : -1;
}

static void stack_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *to = out[0].t;
    int dim = rush_dim_wrap(I_(in[1]), to->ndim);
    int64_t count = 1;
    geometry g;
    for (int d = 0; d < dim; ++d) count *= to->size[d];
    if (to->numel == 0 || join_plain(to, COUNT_, LIST, count)) return;
    for (int64_t k = 0; k < COUNT_; ++k) {
        if (rush_geometry_select(&g, to, dim, k)) return;
        rush_tensor *part = rush_geometry_view(to, &g);
        if (!part || rush_copy_into(part, LIST[k])) return;
    }
}

static void stack_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0];
    for (uint32_t k = 0; g && k < s->in[0].n; ++k)
        s->glist[0][k] = of_dtype(T("select.int", V(g), s->in[1], V((int64_t)k)), s->in[0].tensors[k]);
}

static rush_op op_stack = {
    .schema = "stack(Tensor[] tensors, int dim=0) -> Tensor",
    .doc = "Tensors of one size side by side along a new dimension.", .shape = stack_shape, .cpu = stack_cpu, .grad = stack_grad,
    .flags = RUSH_AUTOCAST_WIDEST | RUSH_OUT_CASTS | RUSH_OUT_TYPE,
};

/* ---- hstack and the like ---- */

static int joined(const rush_value *in, rush_value *out, const char *name, rush_tensor *(*grown)(rush_tensor *), int64_t dim)
{
    RUSH_CHECK(COUNT_ > 0, RUSH_RUNTIME_ERROR, "%s expects a non-empty TensorList", name);
    rush_tensor **list = rush_scope_alloc(sizeof *list * (size_t)COUNT_);
    if (!list) return -1;
    for (int64_t k = 0; k < COUNT_; ++k)
        if (!(list[k] = grown(LIST[k]))) return -1;
    if (dim < 0) dim = list[0]->ndim == 1 ? 0 : 1;
    return rush_result(out, T("cat", rush_v_tensors(list, (size_t)COUNT_), V(dim)));
}

static rush_tensor *grown_1(rush_tensor *t) { return T("atleast_1d", V(t)); }
static rush_tensor *grown_2(rush_tensor *t) { return T("atleast_2d", V(t)); }
static rush_tensor *grown_3(rush_tensor *t) { return T("atleast_3d", V(t)); }
static rush_tensor *as_column(rush_tensor *t) { return t->ndim > 1 ? t : T("reshape", V(t), INTS(t->numel, 1)); }

static int hstack_run(const rush_op *op, const rush_value *in, rush_value *out) { return joined(in, out, "hstack", grown_1, -1); }
static int vstack_run(const rush_op *op, const rush_value *in, rush_value *out) { return joined(in, out, "vstack", grown_2, 0); }
static int dstack_run(const rush_op *op, const rush_value *in, rush_value *out) { return joined(in, out, "dstack", grown_3, 2); }
static int column_stack_run(const rush_op *op, const rush_value *in, rush_value *out) { return joined(in, out, "column_stack", as_column, -1); }

static rush_op op_hstack = {
    .schema = "hstack(Tensor[] tensors) -> Tensor", .doc = "Side by side: along dimension 1, or 0 of vectors.", .run = hstack_run, .flags = RUSH_OUT_CASTS | RUSH_OUT_TYPE};
static rush_op op_vstack = {
    .schema = "vstack(Tensor[] tensors) -> Tensor", .doc = "One below the other: along dimension 0, vectors being rows.", .run = vstack_run, .flags = RUSH_OUT_CASTS | RUSH_OUT_TYPE};
static rush_op op_row_stack = {.schema = "row_stack(Tensor[] tensors) -> Tensor", .doc = "vstack() by another name.", .run = vstack_run, .flags = RUSH_OUT_CASTS | RUSH_OUT_TYPE};
static rush_op op_dstack = {.schema = "dstack(Tensor[] tensors) -> Tensor", .doc = "One behind the other: along dimension 2.", .run = dstack_run, .flags = RUSH_OUT_CASTS | RUSH_OUT_TYPE};
static rush_op op_column_stack = {
    .schema = "column_stack(Tensor[] tensors) -> Tensor", .doc = "Side by side, vectors being columns.", .run = column_stack_run, .flags = RUSH_OUT_CASTS | RUSH_OUT_TYPE};

/* Each tensor's dimension `dim` padded to num_chunks equal pieces, flattened, pieces of all tensors side by side. */
static int chunk_cat_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    int64_t dim = I_(in[1]), chunks = I_(in[2]);
    RUSH_CHECK(COUNT_ > 0, RUSH_RUNTIME_ERROR, "_chunk_cat expects a non-empty input tensor list");
    RUSH_CHECK(chunks >= 1, RUSH_RUNTIME_ERROR, "_chunk_cat expects positive num_chunks");
    rush_tensor **list = rush_scope_alloc(sizeof *list * (size_t)COUNT_);
    if (!list) return -1;
    int first = rush_dim_wrap(dim, LIST[0]->ndim);
    if (first < 0) return -1;
    dim = first;
    for (int64_t k = 0; k < COUNT_; ++k) {
        rush_tensor *t = LIST[k];
        RUSH_CHECK(t->numel > 0, RUSH_RUNTIME_ERROR, "_chunk_cat expects non-empty tensor");
        int d = (int)dim;
        bool like = t->ndim > d && t->dtype == LIST[0]->dtype;
        for (int e = 0; e < d && like; ++e) like = t->size[e] == LIST[0]->size[e];
        RUSH_CHECK(like, RUSH_RUNTIME_ERROR, "_chunk_cat expects same dtype and same sizes of 0,...,dim-1 dimensions for all tensors");
        int64_t each = t->size[d] / chunks + (t->size[d] % chunks != 0), missing = 0, size[RUSH_MAXDIM + 1];
        RUSH_CHECK(!__builtin_mul_overflow(each, chunks, &missing) && missing <= INT64_MAX / 16, RUSH_RUNTIME_ERROR, "_chunk_cat: %lld chunks are too many", (long long)chunks);
        missing -= t->size[d];
        if (missing) {
            int64_t pad[2 * RUSH_MAXDIM] = {0};
            pad[2 * (t->ndim - 1 - d) + 1] = missing;
            t = T("constant_pad_nd", V(t), rush_v_ints(pad, 2 * (size_t)(t->ndim - d)));
            if (!t) return -1;
        }
        memcpy(size, t->size, sizeof *size * d);
        size[d] = chunks;
        size[d + 1] = -1;
        if (t->numel == 0) size[d + 1] = 0;
        if (!(list[k] = T("reshape", V(t), rush_v_ints(size, (size_t)d + 2)))) return -1;
    }
    return rush_result(out, T("cat", rush_v_tensors(list, (size_t)COUNT_), V(dim + 1)));
}

static rush_op op_chunk_cat = {
    .schema = "_chunk_cat(Tensor[] tensors, int dim, int num_chunks) -> Tensor",
    .doc = "Pieces k of all tensors joined, for each k.", .run = chunk_cat_run, .flags = RUSH_HIDDEN,
};

/* ---- block_diag ---- */

static int block_diag_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    int64_t size[2] = {0, 0};
    rush_device device = {RUSH_CPU, -1};
    rush_value *values = rush_scope_alloc(sizeof *values * (size_t)RUSH_MAX(COUNT_, 1));
    if (!values) return -1;
    if (COUNT_ == 0) size[0] = 1;
    for (int64_t k = 0; k < COUNT_; ++k) {
        const rush_tensor *t = LIST[k];
        RUSH_CHECK(t->ndim <= 2, RUSH_RUNTIME_ERROR, "torch.block_diag: Input tensors must have 2 or fewer dimensions. Input %lld has %d dimensions",
                   (long long)k, t->ndim);
        size[0] += t->ndim < 2 ? 1 : t->size[0];
        size[1] += t->ndim == 0 ? 1 : t->size[t->ndim - 1];
        values[k] = rush_v_tensor(LIST[k]);
        device = t->device;
    }
    return rush_out(out, 0, rush_result_type((int)COUNT_, values), device, 2, size) ? 0 : -1;
}

static void block_diag_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *to = out[0].t;
    int64_t row = 0, col = 0;
    rush_zero_into(to);
    for (int64_t k = 0; k < COUNT_; ++k) {
        const rush_tensor *t = LIST[k];
        int64_t size[2] = {t->ndim < 2 ? 1 : t->size[0], t->ndim == 0 ? 1 : t->size[t->ndim - 1]};
        rush_tensor *block = rush_tensor_alias(to, 2 - (t->ndim < 2) - (t->ndim < 1), size + 2 - t->ndim, to->stride + 2 - t->ndim,
                                               to->offset + (size[0] && size[1] ? row * to->stride[0] + col * to->stride[1] : 0));
        if (!block || rush_copy_into(block, t)) return;
        row += size[0];
        col += size[1];
    }
}

static void block_diag_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0];
    int64_t row = 0, col = 0, one = 1;
    for (uint32_t k = 0; g && k < s->in[0].n; ++k) {
        const rush_tensor *t = s->in[0].tensors[k];
        int64_t h = t->ndim < 2 ? 1 : t->size[0], w = t->ndim == 0 ? 1 : t->size[t->ndim - 1];
        rush_tensor *block = T("slice.Tensor", V(g), V((int64_t)0), V(row), V(row + h), V(one));
        block = block ? T("slice.Tensor", V(block), V((int64_t)1), V(col), V(col + w), V(one)) : NULL;
        if (!block) return;
        s->glist[0][k] = of_dtype(reshape_to(block, t), t);
        row += h;
        col += w;
    }
}

static rush_op op_block_diag = {
    .schema = "block_diag(Tensor[] tensors) -> Tensor",
    .doc = "A matrix with the tensors as blocks along its diagonal, zeros elsewhere.",
    .shape = block_diag_shape, .cpu = block_diag_cpu, .grad = block_diag_grad,
};

/* ---- grids ---- */

static int meshgrid(const rush_value *in, rush_value *out, bool swap)
{
    int64_t n = COUNT_, size[RUSH_MAXDIM];
    RUSH_CHECK(n > 0, RUSH_RUNTIME_ERROR, "meshgrid expects a non-empty TensorList");
    RUSH_CHECK(n <= RUSH_MAXDIM, RUSH_NOT_IMPLEMENTED, "tensors have at most %d dimensions", RUSH_MAXDIM);
    for (int64_t k = 0; k < n; ++k) {
        const rush_tensor *t = LIST[k];
        RUSH_CHECK(t->ndim <= 1, RUSH_RUNTIME_ERROR, "torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got sizes %s at place %lld",
                   rush_shape_of(t), (long long)k);
        RUSH_CHECK(t->dtype == LIST[0]->dtype, RUSH_RUNTIME_ERROR, "meshgrid expects all tensors to have the same dtype");
        RUSH_CHECK(rush_same_device(t->device, LIST[0]->device), RUSH_RUNTIME_ERROR, "torch.meshgrid expects all tensors to have the same device");
        size[k] = t->numel;
    }
    swap = swap && n >= 2;
    if (swap) { /* "xy": the first two tensors run along columns and rows */
        int64_t first = size[0];
        size[0] = size[1];
        size[1] = first;
    }
    rush_tensor **list = rush_out_list(out, 0, (size_t)n);
    if (!list) return -1;
    for (int64_t k = 0; k < n; ++k) {
        int64_t shape[RUSH_MAXDIM], along = swap && k < 2 ? 1 - k : k;
        for (int64_t d = 0; d < n; ++d) shape[d] = d == along ? LIST[k]->numel : 1;
        rush_tensor *t = T("view", V(LIST[k]), rush_v_ints(shape, (size_t)n));
        if (!t || !(list[k] = T("expand", V(t), rush_v_ints(size, (size_t)n)))) return -1;
    }
    return 0;
}

static int meshgrid_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return meshgrid(in, out, false);
}

static int meshgrid_indexing_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    const char *how = in[1].s;
    RUSH_CHECK(!strcmp(how, "ij") || !strcmp(how, "xy"), RUSH_RUNTIME_ERROR, "torch.meshgrid: indexing must be one of \"xy\" or \"ij\", but received: %s", how);
    return meshgrid(in, out, !strcmp(how, "xy"));
}

static rush_op op_meshgrid = {
    .schema = "meshgrid(Tensor[] tensors) -> Tensor[]",
    .doc = "Vectors expanded to the grid that they span, one dimension each. Views.", .run = meshgrid_run,
};
static rush_op op_meshgrid_indexing = {
    .schema = "meshgrid.indexing(Tensor[] tensors, *, str indexing) -> Tensor[]",
    .doc = "meshgrid() with the first two dimensions as matrices (ij) or as plots (xy) have them.", .run = meshgrid_indexing_run,
};

static int cartesian_prod_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value grid;
    for (int64_t k = 0; k < COUNT_; ++k)
        RUSH_CHECK(LIST[k]->ndim == 1, RUSH_RUNTIME_ERROR, "Expect a 1D vector, but got shape %s", rush_shape_of(LIST[k]));
    if (COUNT_ == 1) return rush_result(out, LIST[0]);
    if (TN(&grid, "meshgrid", in[0])) return -1;
    for (uint32_t k = 0; k < grid.n; ++k)
        if (!(grid.tensors[k] = T("reshape", V(grid.tensors[k]), INTS(grid.tensors[k]->numel)))) return -1;
    return rush_result(out, T("stack", grid, V((int64_t)1)));
}

static rush_op op_cartesian_prod = {
    .schema = "cartesian_prod(Tensor[] tensors) -> Tensor",
    .doc = "All combinations of one element of each vector, as rows.", .run = cartesian_prod_run,
};

/* The next increasing (or, with replacement, non-decreasing) choice of r numbers below n; false after the last. */
static bool next_choice(int64_t *choice, int64_t r, int64_t n, bool again)
{
    for (int64_t k = r - 1; k >= 0; --k) {
        int64_t last = again ? n - 1 : n - r + k;
        if (choice[k] >= last) continue;
        int64_t v = ++choice[k];
        for (int64_t j = k + 1; j < r; ++j) choice[j] = again ? v : ++v;
        return true;
    }
    return false;
}

/* in: n, r, with_replacement, how many there are, device */
static int places_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    int64_t n = I_(in[0]), r = I_(in[1]), count = I_(in[3]), numel;
    RUSH_CHECK(n >= 0 && r > 0 && count >= 0 && (I_(in[2]) || r <= n || !count) && (n > 0 || !count) && !__builtin_mul_overflow(r, count, &numel), RUSH_RUNTIME_ERROR,
               "there are not %lld combinations of %lld out of %lld", (long long)count, (long long)r, (long long)n);
    return rush_out(out, 0, RUSH_I64, in[4].device, 1, &numel) ? 0 : -1;
}

static void places_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    int64_t n = I_(in[0]), r = I_(in[1]), count = I_(in[3]), *p = rush_ptr(out[0].t);
    bool again = I_(in[2]);
    int64_t *choice = rush_scope_alloc(sizeof *choice * (size_t)r);
    if (!choice) return;
    for (int64_t k = 0; k < r; ++k) choice[k] = again ? 0 : k;
    for (int64_t i = 0; i < count; ++i) {
        memcpy(p + i * r, choice, sizeof *choice * (size_t)r);
        next_choice(choice, r, n, again);
    }
}

static rush_op op_places = {
    .schema = "_combination_places(int n, int r, bool with_replacement, int count, Device device) -> Tensor",
    .doc = "The first `count` combinations of r numbers below n, one after the other.", .shape = places_shape, .cpu = places_cpu,
    .flags = RUSH_NO_GRAD | RUSH_HIDDEN,
};

static int combinations_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *self = in[0].t;
    int64_t r = I_(in[1]), n = self->numel, count = 1;
    bool again = I_(in[2]);
    RUSH_CHECK(self->ndim == 1, RUSH_RUNTIME_ERROR, "Expect a 1D vector, but got shape %s", rush_shape_of(self));
    RUSH_CHECK(r >= 0, RUSH_RUNTIME_ERROR, "Expect a non-negative number, but got %lld", (long long)r);
    if (r == 0) return rush_result(out, T("new_empty", V(self), INTS(0)));
    int64_t from = n; /* n over r without replacement, n + r - 1 over r with it */
    RUSH_CHECK(!again || n == 0 || !__builtin_add_overflow(n - 1, r, &from), RUSH_RUNTIME_ERROR, "there are too many combinations");
    if (from < r) count = 0;
    for (int64_t k = 0; k < RUSH_MIN(r, from - r); ++k) {
        RUSH_CHECK(!__builtin_mul_overflow(count, from - k, &count), RUSH_RUNTIME_ERROR, "there are too many combinations");
        count /= k + 1;
    }
    RUSH_CHECK(r < INT64_MAX / 16 / RUSH_MAX(count, 1), RUSH_MEMORY_ERROR, "%lld combinations of %lld do not fit in memory", (long long)count, (long long)r);
    const int64_t size[2] = {count, r};
    rush_tensor *index = T("_combination_places", V(n), V(r), V(again), V(count), (rush_value){.kind = RUSH_V_DEVICE, .device = self->device});
    rush_tensor *chosen = T("index_select", V(self), V((int64_t)0), V(index));
    return rush_result(out, chosen ? T("view", V(chosen), rush_v_ints(size, 2)) : NULL);
}

static rush_op op_combinations = {
    .schema = "combinations(Tensor self, int r=2, bool with_replacement=False) -> Tensor",
    .doc = "All choices of r elements of a vector, in order, as rows.", .run = combinations_run,
};

static int vander_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t;
    RUSH_CHECK(x->ndim == 1, RUSH_RUNTIME_ERROR, "x must be a one-dimensional tensor.");
    int64_t n = HAS(in[1]) ? I_(in[1]) : x->size[0];
    RUSH_CHECK(n >= 0, RUSH_RUNTIME_ERROR, "N must be non-negative.");
    rush_dtype d = rush_dtypes[x->dtype].category <= 1 ? RUSH_I64 : x->dtype;
    if (n == 0) return rush_result(out, T("new_empty", V(x), INTS(x->size[0], 0), rush_v_dtype(d)));
    rush_tensor *result = T("new_ones", V(x), INTS(x->size[0], 1), rush_v_dtype(d));
    if (n > 1) {
        rush_tensor *wide = T("expand", V(unsqueeze(x, -1)), INTS(x->size[0], n - 1));
        rush_tensor *powers = T("cumprod", V(wide), V((int64_t)-1), rush_v_dtype(d));
        if (!powers) return -1;
        rush_tensor *both[2] = {result, powers};
        result = T("cat", rush_v_tensors(both, 2), V((int64_t)-1));
    }
    if (!I_(in[2]) && result) result = T("flip", V(result), INTS(-1));
    return rush_result(out, result);
}

static rush_op op_vander = {
    .schema = "vander(Tensor x, int? N=None, bool increasing=False) -> Tensor",
    .doc = "The Vandermonde matrix: powers of x as columns, falling unless `increasing`.", .run = vander_run,
};

RUSH_FAMILY(join, &op_cat, &op_concat, &op_concatenate, &op_stack, &op_hstack, &op_vstack, &op_row_stack, &op_dstack, &op_column_stack,
            &op_chunk_cat, &op_block_diag, &op_meshgrid, &op_meshgrid_indexing, &op_cartesian_prod, &op_places, &op_combinations, &op_vander)
