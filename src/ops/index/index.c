/* index.c - indexing by tensors: x[i, j], x[mask], x[i] = v, as index, index_put and their unsafe forms.
 *
 * All index tensors together become one array of offsets: what the indexed dimensions add up to, in bytes. The result is
 * then a box of the dimensions before, those of the indices, and those after, and one walk takes or puts it.
 */
#include "op/watch.h"
#include "kernels/cpu/index.h"
#include "op/formula.h"
#include "ops/elementwise/pointwise.h"
#include "ops/geometry.h"
#include "ops/index/places.h"
#include "ops/walk.h"

#define SELF (in[0].t)

/* ---- index numbers ---- */

rush_tensor *rush_index_numbers(const rush_tensor *index)
{
    return rush_cast_copy(index, RUSH_I64);
}

typedef struct bounds {
    const int64_t *p;
    int64_t low, high;
    int outside;
} bounds;

static void check_range(void *arg, int64_t begin, int64_t end)
{
    bounds *b = arg;
    if (rush_k_index->outside(b->p + begin, end - begin, b->low, b->high) >= 0) __atomic_store_n(&b->outside, 1, __ATOMIC_RELAXED);
}

int64_t rush_index_outside(const rush_tensor *numbers, int64_t low, int64_t high)
{
    bounds b = {rush_ptr(numbers), low, high, 0};
    if (numbers->numel == 0) return -1;
    if (numbers->numel < 32768) return rush_k_index->outside(b.p, numbers->numel, low, high);
    rush_parallel_for(numbers->numel, 32768, check_range, &b);
    return b.outside ? rush_k_index->outside(b.p, numbers->numel, low, high) : -1;
}

int rush_index_within(const rush_tensor *numbers, int64_t low, int64_t high, rush_error_kind kind, int dim)
{
    const int64_t *p = rush_ptr(numbers);
    int64_t at = rush_index_outside(numbers, low, high);
    RUSH_CHECK(at < 0, kind, "index %lld is out of bounds for dimension %d with size %lld", (long long)p[at], dim, (long long)high);
    return 0;
}

rush_index_loop rush_combining(int put, rush_dtype d)
{
    rush_index_loop fn = rush_k_index->combine[put][d];
    RUSH_CHECK_NULL(fn, RUSH_NOT_IMPLEMENTED, "elements that meet are not combined: not implemented for '%s'", rush_dtype_word(d));
    return fn;
}

int rush_same_dtype_out(const rush_value *out, const rush_tensor *self)
{
    RUSH_CHECK(!HAS(out[0]) || out[0].t->dtype == self->dtype, RUSH_RUNTIME_ERROR, "Expected out tensor to have dtype %s, but got %s instead",
               rush_dtype_name(self->dtype), rush_dtype_name(out[0].t->dtype));
    return HAS(out[0]) && rush_overlap(out[0].t, self) ? rush_overlaps_input() : 0;
}

/* ---- the plan ---- */

typedef struct plan {
    int ndim;                      /* of the result */
    int64_t size[RUSH_MAXDIM];     /* of the result */
    int64_t stride[RUSH_MAXDIM];   /* of self in it; 0 along the indices' dimensions */
    int64_t places[RUSH_MAXDIM];   /* strides of the offsets in it, in elements */
    int first, nindex;             /* result dimensions [first, first + nindex) are the indices' */
    int indexed, dim;              /* how many dimensions of self are indexed; the first of them */
    int ntensors;
    bool open;                     /* masks are among the indices, whose sizes are not known before the kernel runs */
    int64_t broadcast[RUSH_MAXDIM]; /* sizes of the indices together */
    int64_t count;                 /* and how many numbers that are */
    rush_tensor *tensor[RUSH_MAXDIM]; /* per dimension of self: int64 numbers, NULL where there is none */
    int64_t *offset, scale;        /* offset[i] * scale bytes */
} plan;

static bool is_mask(const rush_tensor *index) { return index && (index->dtype == RUSH_BOOL || index->dtype == RUSH_U8); }

/* Which dimensions are indexed, by what. */
static int plan_tensors(plan *p, const rush_tensor *self, rush_value list)
{
    int dim = 0;
    p->ntensors = 0;
    p->open = false;
    for (int d = 0; d < self->ndim; ++d) p->tensor[d] = NULL;
    for (uint32_t k = 0; k < list.n; ++k) {
        rush_tensor *index = list.tensors[k];
        if (!index) {
            ++dim;
            continue;
        }
        int width = 1;
        switch (index->dtype) {
        case RUSH_I64:
        case RUSH_I32: break;
        case RUSH_U8:
            rush_log(1, "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.");
            /* fall through */
        case RUSH_BOOL: width = index->ndim; break;
        default:
            return rush_fail(RUSH_INDEX_ERROR, "tensors used as indices must be long, int, byte or bool tensors, not %s", rush_dtype_name(index->dtype));
        }
        RUSH_CHECK(dim + width <= self->ndim, RUSH_INDEX_ERROR, "too many indices for tensor of dimension %d (got %d)", self->ndim, dim + width);
        if (!is_mask(index)) {
            p->tensor[dim++] = index;
            ++p->ntensors;
            continue;
        }
        for (int d = 0; d < width; ++d)
            RUSH_CHECK(index->size[d] == self->size[dim + d], RUSH_INDEX_ERROR,
                       "The shape of the mask %s at index %d does not match the shape of the indexed tensor %s at index %d", rush_shape_of(index), d,
                       rush_shape_of(self), dim + d);
        p->open = true;
        dim += width;
    }
    RUSH_CHECK(dim <= self->ndim, RUSH_INDEX_ERROR, "too many indices for tensor of dimension %d (got %d)", self->ndim, dim);
    return 0;
}

static int plan_broadcast(plan *p, const rush_tensor *self)
{
    p->nindex = 0;
    for (int d = 0; d < self->ndim; ++d) {
        const rush_tensor *t = p->tensor[d];
        if (t && rush_broadcast_sizes(p->nindex, p->broadcast, t->ndim, t->size, &p->nindex, p->broadcast)) {
            char shapes[512] = "";
            size_t n = 0;
            for (int k = 0; k < self->ndim && n < sizeof shapes - 80; ++k) {
                if (!p->tensor[k]) continue;
                const char *text = rush_shape_of(p->tensor[k]);
                size_t m = RUSH_MIN(strlen(text), 70);
                if (n) shapes[n++] = ',', shapes[n++] = ' ';
                memcpy(shapes + n, text, m);
                n += m;
                shapes[n] = 0;
            }
            rush_error_clear();
            return rush_fail(RUSH_INDEX_ERROR, "shape mismatch: indexing tensors could not be broadcast together with shapes %s", shapes);
        }
    }
    return 0;
}

/* Sizes of the result and where its dimensions come from. */
static int plan_shape(plan *p, const rush_tensor *self)
{
    int n = 0, last = -1;
    bool together = true;
    p->dim = -1;
    p->indexed = 0;
    for (int d = 0; d < self->ndim; ++d) {
        if (!p->tensor[d]) continue;
        if (p->dim < 0) p->dim = d;
        else together &= last == d - 1;
        last = d;
        ++p->indexed;
    }
    p->first = together && p->dim > 0 ? p->dim : 0;
    RUSH_CHECK(self->ndim - p->indexed + p->nindex <= RUSH_MAXDIM, RUSH_NOT_IMPLEMENTED, "tensors have at most %d dimensions", RUSH_MAXDIM);
    int64_t next = 1;
    for (int d = 0; d <= self->ndim; ++d) {
        if (n == p->first && p->indexed && d >= p->first) { /* here the indices' own dimensions come in */
            for (int k = 0; k < p->nindex; ++k, ++n) {
                p->size[n] = p->broadcast[k];
                p->stride[n] = 0;
            }
            for (int k = p->nindex - 1; k >= 0; --k) {
                p->places[p->first + k] = next;
                next *= p->broadcast[k];
            }
            if (p->nindex == 0) p->first = -1 - p->first; /* nothing to insert, and not again */
        }
        if (d == self->ndim || p->tensor[d]) continue;
        p->size[n] = self->size[d];
        p->stride[n] = self->stride[d];
        p->places[n++] = 0;
    }
    if (p->first < 0) p->first = -1 - p->first;
    p->ndim = n;
    p->count = rush_numel_of(p->nindex, p->broadcast);
    for (int d = 0; d < self->ndim; ++d)
        RUSH_CHECK(!p->tensor[d] || self->size[d] > 0 || p->count == 0, RUSH_INDEX_ERROR, "index is out of bounds for dimension with size 0");
    return p->count < 0 ? -1 : 0;
}

/* For shape rules, which end here when the plan is open. */
static int plan_sizes(plan *p, const rush_tensor *self, rush_value list)
{
    RUSH_CHECK(list.n > 0, RUSH_INDEX_ERROR, "at least one index must be provided");
    if (plan_tensors(p, self, list)) return -1;
    return !p->open && (plan_broadcast(p, self) || plan_shape(p, self)) ? -1 : 0;
}

/* The coordinates of what masks choose in their place. */
static int without_masks(rush_value *list)
{
    uint32_t n = 0, masks = 0;
    for (uint32_t k = 0; k < list->n; ++k) masks += is_mask(list->tensors[k]);
    if (!masks) return 0;
    rush_tensor **all = rush_scope_alloc(sizeof *all * RUSH_MAXDIM);
    for (uint32_t k = 0; all && k < list->n; ++k) {
        rush_tensor *index = list->tensors[k], *rows = is_mask(index) ? rush_nonzero_rows(index) : NULL;
        if (!is_mask(index)) all[n++] = index;
        else if (!rows) return -1;
        for (int d = 0; rows && d < index->ndim; ++d)
            if (!(all[n++] = rush_tensor_alias(rows, 1, &rows->size[1], (const int64_t[]){1}, rows->offset + d * rows->size[1]))) return -1;
    }
    *list = rush_v_tensors(all, n);
    return all ? 0 : -1;
}

/* For kernels, whose shape rule has passed: no more indices than dimensions. */
static int plan_make(plan *p, const rush_tensor *self, rush_value list)
{
    return without_masks(&list) || plan_tensors(p, self, list) || plan_broadcast(p, self) || plan_shape(p, self) ? -1 : 0;
}

/* Reads the index tensors: checks all numbers and adds up the offsets. */
static int plan_offsets(plan *p, const rush_tensor *self)
{
    int64_t n = p->count, item = rush_dtypes[self->dtype].size;
    int64_t *sum = NULL;
    if (p->indexed != 1) {
        sum = rush_scope_alloc(sizeof *sum * (size_t)RUSH_MAX(n, 1));
        if (!sum) return -1;
        memset(sum, 0, sizeof *sum * (size_t)n);
    }
    p->scale = 1;
    for (int d = 0; d < self->ndim; ++d) {
        if (!p->tensor[d]) continue;
        const rush_tensor *numbers = rush_index_numbers(p->tensor[d]);
        if (!numbers) return -1;
        const int64_t *v = rush_ptr(numbers);
        bool plain = rush_index_outside(numbers, 0, self->size[d]) < 0;
        if (!plain && rush_index_within(numbers, -self->size[d], self->size[d], RUSH_INDEX_ERROR, d)) return -1;
        if (numbers->numel != n || (numbers->ndim != p->nindex && n != 1)) {
            rush_value size = rush_v_ints(p->broadcast, p->nindex);
            int64_t stride[RUSH_MAXDIM];
            int lead = p->nindex - numbers->ndim;
            for (int k = 0; k < p->nindex; ++k) stride[k] = k < lead || numbers->size[k - lead] != size.ints[k] ? 0 : numbers->stride[k - lead];
            numbers = rush_tensor_alias(numbers, p->nindex, size.ints, stride, numbers->offset);
            numbers = numbers ? rush_contiguous_copy(numbers) : NULL;
            if (!numbers) return -1;
            v = rush_ptr(numbers);
        }
        if (!sum && plain) { /* one index of numbers that need no wrapping: they are the offsets */
            p->offset = (int64_t *)v;
            p->scale = self->stride[d] * item;
            return 0;
        }
        if (!sum) {
            sum = rush_scope_alloc(sizeof *sum * (size_t)RUSH_MAX(n, 1));
            if (!sum) return -1;
            memset(sum, 0, sizeof *sum * (size_t)n);
        }
        rush_k_index->offsets(sum, v, n, self->size[d], self->stride[d] * item);
    }
    p->offset = sum;
    return 0;
}

/* ---- taking ---- */

static void take(const plan *p, const rush_tensor *self, rush_tensor *out)
{
    size_t item = rush_dtypes[self->dtype].size;
    rush_walk w;
    rush_at at = {.scale = p->scale, .size = item};
    rush_walk_start(&w, p->ndim, p->size);
    rush_walk_add(&w, rush_ptr(out), out->stride, (int64_t)item);
    rush_walk_add(&w, rush_ptr(self), p->stride, (int64_t)item);
    rush_walk_add(&w, p->offset, p->places, 8);
    rush_walk_run(&w, 0, rush_k_index->take, &at);
}

/* One index, of whole rows and of numbers that need no wrapping: the usual case needs no plan. */
static bool take_rows(const rush_tensor *self, rush_value list, rush_tensor *out)
{
    rush_tensor *index = list.n == 1 ? list.tensors[0] : NULL;
    if (!index || is_mask(index) || self->ndim < 2 || !rush_contiguous(self) || !rush_contiguous(out)) return false;
    const rush_tensor *numbers = rush_index_numbers(index);
    if (!numbers || rush_index_outside(numbers, 0, self->size[0]) >= 0) return false;
    rush_take_rows(out, self, rush_ptr(numbers), numbers->numel);
    return true;
}

static rush_tensor *settled(rush_tensor *t)
{
    return t->flags & (RUSH_T_CONJ | RUSH_T_NEG) ? rush_contiguous_copy(t) : t;
}

/* A single mask over all dimensions. */
static rush_tensor *whole_mask(const rush_tensor *self, rush_value list)
{
    rush_tensor *mask = list.n == 1 ? list.tensors[0] : NULL;
    return mask && mask->dtype == RUSH_BOOL && self->ndim > 0 && rush_same_sizes(self, mask) ? mask : NULL;
}

/* Its dimensions lie in memory in the order of self's and of the indices'. */
static rush_tensor *index_result(const plan *p, const rush_tensor *self, rush_value *out)
{
    bool plain = rush_is_plain(self);
    for (int d = 0; plain && d < self->ndim; ++d) plain = !p->tensor[d] || p->tensor[d]->ndim < 2 || rush_is_plain(p->tensor[d]);
    int64_t size[RUSH_MAXDIM], stride[RUSH_MAXDIM][RUSH_MAXDIM], dense[RUSH_MAXDIM];
    rush_tensor walked[RUSH_MAXDIM + 1] = {{.ndim = (uint8_t)p->ndim, .size = (int64_t *)p->size, .stride = (int64_t *)p->stride}};
    rush_value x[RUSH_MAXDIM + 1] = {rush_v_tensor(walked)};
    int n = 1;
    for (int k = 0; k < p->ndim; ++k) size[k] = k >= p->first && k < p->first + p->nindex ? p->size[k] : 1;
    for (int d = 0; !plain && d < self->ndim; ++d) {
        const rush_tensor *t = p->tensor[d];
        if (!t) continue;
        int64_t own[RUSH_MAXDIM];
        for (int k = 0, lead = p->nindex - t->ndim; k < p->nindex; ++k) own[k] = k < lead || t->size[k - lead] != p->broadcast[k] ? 0 : t->stride[k - lead];
        walked[n] = (rush_tensor){.ndim = (uint8_t)p->nindex, .size = (int64_t *)p->broadcast, .stride = own, .numel = p->count};
        plain = !rush_view_strides(&walked[n], p->ndim, size, stride[n - 1]); /* dimensions of one before and behind */
        walked[n] = (rush_tensor){.ndim = (uint8_t)p->ndim, .size = size, .stride = stride[n - 1]};
        x[n] = rush_v_tensor(&walked[n]);
        ++n;
    }
    if (plain || !rush_pw_strides(n, x, p->ndim, p->size, dense)) return rush_out_t(out, 0, self, self->dtype, p->ndim, p->size);
    return rush_out_strided(out, 0, self->dtype, self->device, p->ndim, p->size, dense);
}

static int index_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    plan p;
    if (whole_mask(SELF, in[1])) return 0;
    if (plan_sizes(&p, SELF, in[1])) return -1;
    if (p.open) return 0;
    return (p.ntensors ? index_result(&p, SELF, out) : rush_out_like(out, 0, SELF, SELF->dtype)) ? 0 : -1;
}

static void index_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *self = settled(SELF), *mask = whole_mask(SELF, in[1]);
    plan p;
    if (!self) return;
    if (mask) {
        rush_result(out, rush_masked_pack(self, mask));
        return;
    }
    if (HAS(out[0]) && (!out[0].t->numel || take_rows(self, in[1], out[0].t))) return;
    if (plan_make(&p, self, in[1])) return;
    if (p.ntensors == 0) { /* nothing but None and 0-d masks */
        rush_tensor *all = HAS(out[0]) ? out[0].t : rush_out_like(out, 0, self, self->dtype);
        if (all) rush_copy_into(all, self);
        return;
    }
    rush_tensor *result = HAS(out[0]) ? out[0].t : index_result(&p, SELF, out);
    if (result && result->numel && !plan_offsets(&p, self)) take(&p, self, result);
}

static void index_grad(rush_grads *s)
{
    const rush_tensor *self = s->in[0].t;
    rush_tensor *g = s->g[0];
    if (!g || !rush_needs(s, 0)) return;
    rush_tensor *zeros = T("new_zeros", V(g), rush_v_ints(self->size, self->ndim));
    if (zeros && rush_is_watched(zeros)) s->gin[0] = T("index_put", V(zeros), s->in[1], V(g), V(true));
    else if (zeros) s->gin[0] = T("_index_put_impl_", V(zeros), s->in[1], V(g), V(true), V(true));
}

static rush_op op_index = {
    .schema = "index.Tensor(Tensor self, Tensor?[] indices) -> Tensor", .method = RUSH_NO_FUNCTION,
    .doc = "What lies at the given indices of the leading dimensions, None meaning all. Index tensors are broadcast together; a mask stands for "
           "the coordinates of what it chooses.",
    .shape = index_shape, .cpu = index_cpu, .grad = index_grad, .saves = "indices", .flags = RUSH_DATA_SIZED,
};
static rush_op op_unsafe_index = {
    .schema = "_unsafe_index.Tensor(Tensor self, Tensor?[] indices) -> Tensor",
    .doc = "index() of indices that are known to be good; they are checked all the same.", .shape = index_shape, .cpu = index_cpu, .grad = index_grad,
    .saves = "indices", .flags = RUSH_DATA_SIZED | RUSH_HIDDEN,
};

/* ---- putting ---- */

/* Values that are broadcast to what is indexed: their sizes from the right one on, where they may be too many. */
typedef struct spread {
    int lead, ndim; /* values->size[values->ndim - ndim..] belongs to the result's dimensions from lead on */
} spread;

static int put_fits(const plan *p, const rush_tensor *values, spread *s)
{
    const int64_t *size = values->size;
    *s = (spread){p->ndim - values->ndim, values->ndim};
    while (s->lead < 0 && s->ndim && size[0] == 1) ++s->lead, ++size, --s->ndim; /* leading dimensions of one may be too many */
    bool fits = s->lead >= 0;
    for (int d = 0; d < s->ndim && fits; ++d) fits = size[d] == p->size[d + s->lead] || size[d] == 1;
    RUSH_CHECK(fits, RUSH_RUNTIME_ERROR, "shape mismatch: value tensor of shape %s cannot be broadcast to indexing result of shape %s",
               rush_shape_of(values), rush_shape_text(p->ndim, p->size));
    return 0;
}

/* One number in all places that a single mask chooses: of any dtype, and it may lie in what it fills. */
static bool is_fill(rush_value list, const rush_tensor *values, bool accumulate)
{
    uint32_t masks = 0;
    for (uint32_t k = 0; k < list.n; ++k) {
        if (list.tensors[k] && !is_mask(list.tensors[k])) return false;
        masks += list.tensors[k] != NULL;
    }
    return masks == 1 && values->numel == 1 && !accumulate;
}

/* What is known without data. */
static int put_check(const rush_tensor *self, rush_value list, const rush_tensor *values, bool accumulate)
{
    plan p;
    spread s;
    bool fill = is_fill(list, values, accumulate);
    RUSH_CHECK(!fill || !rush_dtype_is_complex(values->dtype) || rush_dtype_is_complex(self->dtype), RUSH_RUNTIME_ERROR,
               "value cannot be converted to type %s without overflow", rush_dtypes[self->dtype].c_type);
    RUSH_CHECK(list.n > 0, RUSH_RUNTIME_ERROR, "at least one index must be provided");
    if (plan_sizes(&p, self, list) || (!p.open && put_fits(&p, values, &s))) return -1;
    RUSH_CHECK(fill || self->dtype == values->dtype, RUSH_RUNTIME_ERROR,
               "Index put requires the source and destination dtypes match, got %s for the destination and %s for the source.",
               rush_dtype_word(self->dtype), rush_dtype_word(values->dtype));
    return 0;
}

static int put_into(rush_tensor *self, rush_value list, rush_tensor *values, bool accumulate)
{
    plan p;
    spread s;
    if (self->flags & (RUSH_T_CONJ | RUSH_T_NEG)) {
        rush_tensor *plain = rush_tensor_new(self->dtype, self->device, self->ndim, self->size);
        if (!plain || rush_copy_into(plain, self) || put_into(plain, list, values, accumulate)) return -1;
        return rush_copy_into(self, plain);
    }
    values = settled(values);
    if (values && values->dtype != self->dtype) values = rush_cast_copy(values, self->dtype);
    if (!values) return -1;
    rush_tensor *mask = whole_mask(self, list);
    if (mask && !accumulate && values->numel == 1 && values->ndim <= 1) {
        rush_tensor *one = values->ndim ? rush_tensor_alias(values, 0, NULL, NULL, values->offset) : values;
        uint32_t mode = rush_now.mode;
        rush_now.mode |= RUSH_MODE_NO_GRAD;
        int failed = !one || !T_INPLACE("masked_fill.Tensor", V(self), V(mask), V(one));
        rush_now.mode = mode;
        return failed ? -1 : 0;
    }
    int64_t from[RUSH_MAXDIM];
    if (plan_make(&p, self, list) || put_fits(&p, values, &s)) return -1;
    for (int d = 0; d < p.ndim; ++d) {
        int k = d - s.lead + values->ndim - s.ndim;
        from[d] = d < s.lead || values->size[k] != p.size[d] ? 0 : values->stride[k];
    }
    int64_t item = rush_dtypes[self->dtype].size;
    if (rush_overlap(self, values)) { /* read before it is overwritten */
        const rush_tensor *shared = values;
        values = rush_tensor_new_strided(shared->dtype, shared->device, shared->ndim, shared->size, shared->stride);
        if (!values || rush_copy_into(values, shared)) return -1;
    }
    if (p.ntensors == 0) { /* only None: everything */
        rush_tensor *all = rush_tensor_alias(values, p.ndim, p.size, from, values->offset);
        return !all ? -1 : accumulate ? rush_add_into(self, all) : rush_copy_into(self, all);
    }
    if (plan_offsets(&p, self)) return -1;
    rush_walk w;
    rush_at at = {.scale = p.scale, .size = (size_t)item};
    rush_index_loop fn = accumulate ? rush_combining(RUSH_PUT_ADD, self->dtype) : rush_k_index->put;
    if (!fn) return -1;
    uint64_t ordered = 0;
    for (int d = p.first; d < p.first + p.nindex; ++d) ordered |= (uint64_t)1 << d;
    rush_walk_start(&w, p.ndim, p.size);
    rush_walk_add(&w, rush_ptr(self), p.stride, item);
    rush_walk_add(&w, rush_ptr(values), from, item);
    rush_walk_add(&w, p.offset, p.places, 8);
    rush_walk_run(&w, ordered, fn, &at);
    return 0;
}

static int index_put_inplace_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *values = in[2].t;
    bool settled = is_fill(in[1], values, I_(in[3])) || values->flags & (RUSH_T_CONJ | RUSH_T_NEG), overlap = !settled && rush_overlap(SELF, values) % 3;
    for (uint32_t k = 0; k < in[1].n; ++k) overlap |= in[1].tensors[k] && !is_mask(in[1].tensors[k]) && rush_overlap(SELF, in[1].tensors[k]) % 3;
    rush_out_view(out, 0, SELF);
    if (put_check(SELF, in[1], values, I_(in[3]))) return -1;
    if (rush_self_overlap(SELF)) rush_log(1, "Use of index_put_ on expanded tensors is deprecated. Please clone() the tensor before performing this operation. This also applies "
                                             "to advanced indexing e.g. tensor[indices] = tensor");
    return overlap ? rush_overlaps_input() : 0;
}

static void index_put_inplace_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    put_into(SELF, in[1], in[2].t, I_(in[3]));
}

static void index_put_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0];
    const rush_tensor *values = s->in[2].t;
    if (!g) return;
    if (rush_needs(s, 0)) s->gin[0] = I_(s->in[3]) ? g : T("index_put", V(g), s->in[1], V(T("new_zeros", V(g), rush_v_ints(NULL, 0))), V(false));
    if (!rush_needs(s, 2)) return;
    rush_tensor *picked = T("index.Tensor", V(g), s->in[1]);
    if (picked && picked->ndim < values->ndim) picked = reshape_to(picked, values);
    s->gin[2] = sum_to_size(picked, values);
}

static rush_op op_index_put_inplace = {
    .schema = "index_put_(Tensor(a!) self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor(a!)",
    .method = RUSH_METHOD_ | RUSH_FUNCTION_,
    .doc = "Puts values at the given indices of self, or with accumulate adds them, in order.",
    .shape = index_put_inplace_shape, .cpu = index_put_inplace_cpu, .grad = index_put_grad, .saves = "indices", .flags = RUSH_SIDE_EFFECT,
};
static rush_op op_index_put_impl = {
    .schema = "_index_put_impl_(Tensor(a!) self, Tensor?[] indices, Tensor values, bool accumulate=False, bool unsafe=False) -> Tensor(a!)",
    .method = RUSH_FUNCTION_,
    .doc = "index_put_().", .shape = index_put_inplace_shape, .cpu = index_put_inplace_cpu, .grad = index_put_grad, .saves = "indices",
    .flags = RUSH_SIDE_EFFECT | RUSH_HIDDEN,
};

static int index_put_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_out_like(out, 0, SELF, SELF->dtype) ? put_check(SELF, in[1], in[2].t, I_(in[3])) : -1;
}

static void index_put_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (out[0].t != SELF && rush_copy_into(out[0].t, SELF)) return;
    put_into(out[0].t, in[1], in[2].t, I_(in[3]));
}

static rush_op op_index_put = {
    .schema = "index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor", .method = RUSH_METHOD,
    .doc = "A copy of self with values put at, or with accumulate added to, the given indices.",
    .shape = index_put_shape, .cpu = index_put_cpu, .grad = index_put_grad, .saves = "indices", .flags = RUSH_STRIDED_OUT | RUSH_INPLACE_OK,
};
static rush_op op_unsafe_index_put = {
    .schema = "_unsafe_index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor",
    .doc = "index_put() of indices that are known to be good.",
    .shape = index_put_shape, .cpu = index_put_cpu, .grad = index_put_grad, .saves = "indices", .flags = RUSH_HIDDEN,
};

/* ---- indices that count only where a mask is true ---- */

/* Each index, 0 where the mask is false. */
static rush_value masked_indices(rush_value list, rush_tensor *mask)
{
    rush_tensor **safe = rush_scope_alloc(sizeof *safe * RUSH_MAX(list.n, 1));
    for (uint32_t k = 0; safe && k < list.n; ++k) safe[k] = list.tensors[k] ? mul(list.tensors[k], mask) : NULL;
    return rush_v_tensors(safe, safe ? list.n : 0);
}

static int unsafe_masked_index_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *mask = in[1].t, *picked;
    if (SELF->numel == 0) {
        plan p;
        if (plan_sizes(&p, SELF, in[2])) return -1;
        if (!p.open) return rush_result(out, T("new_full", V(SELF), rush_v_ints(p.size, p.ndim), in[3]));
    }
    picked = T("index.Tensor", V(SELF), masked_indices(in[2], mask));
    return rush_result(out, picked ? T("masked_fill.Scalar", V(picked), V(logical_not(mask)), in[3]) : NULL);
}

static rush_op op_unsafe_masked_index = {
    .schema = "_unsafe_masked_index(Tensor self, Tensor mask, Tensor?[] indices, Scalar fill) -> Tensor",
    .doc = "index() where mask is true, a number elsewhere; indices may be wrong there.", .run = unsafe_masked_index_run, .flags = RUSH_HIDDEN | RUSH_WHOLE,
};

static int unsafe_masked_put_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *mask = in[1].t, *values;
    if (SELF->numel == 0) return rush_result(out, T("clone", V(SELF)));
    values = T("masked_fill.Scalar", V(in[3].t), V(logical_not(mask)), V((int64_t)0));
    return rush_result(out, values ? T("index_put", V(SELF), masked_indices(in[2], mask), V(values), V(true)) : NULL);
}

static rush_op op_unsafe_masked_put = {
    .schema = "_unsafe_masked_index_put_accumulate(Tensor self, Tensor mask, Tensor?[] indices, Tensor values) -> Tensor",
    .doc = "index_put() with accumulate, of the values where mask is true.", .run = unsafe_masked_put_run, .flags = RUSH_HIDDEN | RUSH_WHOLE,
};

RUSH_FAMILY(index, &op_index, &op_unsafe_index, &op_index_put, &op_index_put_inplace, &op_index_put_impl, &op_unsafe_index_put,
            &op_unsafe_masked_index, &op_unsafe_masked_put)
