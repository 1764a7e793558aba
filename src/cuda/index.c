/* index.c - operations that index, over the kernels of index.cu: gather, scatter, take, put, index, embedding. */
#include "cuda/places.h"
#include "op/formula.h"
#include <stdio.h>

#define SELF (in[0].t)

/* Can elements that go one behind the other to one place be taken `bytes` at a time? Then the walk is one over such. */
static bool widen(cuda_places *p, int item, int bytes)
{
    cuda_walk *w = &p->w;
    if (!w->ndim || !w->p[0] || w->stride[0][0] != item || w->stride[1][0] != item) return false;
    int64_t all = w->size[0] * item | (int64_t)(size_t)w->p[0] | (int64_t)(size_t)w->p[1];
    for (int d = 1; d < w->ndim; d++) all |= w->stride[0][d] | w->stride[1][d];
    for (int k = 2; k < w->nop; k++) {
        if (w->stride[k][0]) return false;
        all |= p->scale[k - 2];
    }
    if (all % bytes) return false;
    w->n = w->n / (bytes / item), w->size[0] = w->size[0] / (bytes / item);
    w->stride[0][0] = w->stride[1][0] = bytes;
    return true;
}

static int run_sized(places *w, const char *what, rush_dtype d, rush_device device)
{
    char kernel[32];
    int bytes = 16, item = rush_dtypes[d].size;
    if (cuda_places_finish(w)) return -1;
    while (bytes > item && !widen(&w->p, item, bytes)) bytes /= 2;
    snprintf(kernel, sizeof kernel, "%s_%d", what, bytes);
    return cuda_launch(device, kernel, &w->p, w->p.w.n);
}

static int run_combine(places *w, int how, rush_dtype d, rush_device device)
{
    char kernel[32];
    RUSH_CHECK(d <= RUSH_C128 && d != RUSH_C32 && !(d >= RUSH_U16 && d <= RUSH_U64) && (d != RUSH_C128 || how == CUDA_ADD) &&
                   (rush_dtypes[d].category < 3 || how < CUDA_MAX), RUSH_NOT_IMPLEMENTED, "Could not run 'aten::%s' on device 'cuda': elements of %s are not combined there.",
               rush_now.op->name, rush_dtype_name(d));
    w->p.how = how;
    if (cuda_places_finish(w)) return -1;
    const bool runs = how == CUDA_ADD && (d == RUSH_F16 || d == RUSH_BF16 || d == RUSH_F32) && widen(&w->p, rush_dtypes[d].size, d == RUSH_F32 ? 16 : 4);
    snprintf(kernel, sizeof kernel, "%s_%s", runs ? "add_runs" : "combine", rush_dtype_name(d));
    return cuda_launch(device, kernel, &w->p, w->p.w.n);
}

static rush_tensor *wide_index(rush_tensor *t) { return t->dtype == RUSH_I64 || t->dtype == RUSH_I32 ? t : rush_cast_copy(t, RUSH_I64); }

/* x as a vector if it has no dims. */
static const rush_tensor *at_least_1d(const rush_tensor *x)
{
    return x->ndim ? x : rush_tensor_alias(x, 1, (const int64_t[]){1}, (const int64_t[]){1}, x->offset);
}

/* ---- along one dim: the index tensor has all dims (gather, scatter), or that one alone ---- */

/* `other` is walked; self moves along dim by the index. */
static int along(places *w, const rush_tensor *other, const rush_tensor *self, int dim, rush_tensor *index, bool whole)
{
    const rush_tensor *x = at_least_1d(self), *o = other ? at_least_1d(other) : NULL, *at = index ? at_least_1d(index) : NULL;
    if (!x || (other && !o) || !at) return -1;
    const rush_tensor *shape = whole ? at : o;
    cuda_places_begin(w, shape->ndim, shape->size, self->device);
    cuda_places_operand(w, 1, x, 0);
    for (int d = 0; d < x->ndim; d++) w->stride[1][d] = d == dim ? 0 : x->stride[d] * item_of(x);
    if (o) {
        cuda_places_operand(w, 0, o, 0);
        for (int d = 0; d < o->ndim; d++) w->stride[0][d] = o->stride[d] * item_of(o);
    }
    if (whole) {
        cuda_places_operand(w, 2, at, 0);
        for (int d = 0; d < at->ndim; d++) w->stride[2][d] = at->stride[d] * item_of(at);
    } else {
        w->p.w.p[2] = rush_ptr(at);
        w->p.w.dtype[2] = at->dtype;
        w->stride[2][dim] = at->stride[0] * item_of(at);
    }
    w->p.w.nop = 3;
    w->p.scale[0] = x->stride[dim] * item_of(x);
    w->p.limit[0] = x->size[dim];
    return 0;
}

static void gather(const rush_op *op, const rush_value *in, rush_value *out)
{
    places w;
    const rush_tensor *self = plain(SELF);
    if (!in[2].t->numel || !self || along(&w, out[0].t, self, rush_dim_wrap(in[1].i, self->ndim), wide_index(in[2].t), true)) return;
    run_sized(&w, "take", self->dtype, self->device);
}

static void index_select(const rush_op *op, const rush_value *in, rush_value *out)
{
    places w;
    const rush_tensor *self = plain(SELF);
    if (!out[0].t->numel || !self || along(&w, out[0].t, self, rush_dim_wrap(in[1].i, self->ndim), wide_index(in[2].t), false)) return;
    run_sized(&w, "take", self->dtype, self->device);
}

enum { ASSIGN = -1, MEAN = -2, NONE = -3 };
static int how_of(const char *word)
{
    static const struct { const char *word; int how; } words[] = {{"add", CUDA_ADD}, {"sum", CUDA_ADD}, {"multiply", CUDA_MUL}, {"prod", CUDA_MUL}, {"mean", MEAN},
                                                                  {"amax", CUDA_MAX}, {"amin", CUDA_MIN}};
    for (size_t i = 0; i < RUSH_COUNT(words); i++)
        if (!strcmp(word, words[i].word)) return words[i].how;
    return NONE;
}

/* src, or a number everywhere, put into `to` where the index says. */
static int put_along(rush_tensor *to, int64_t at, rush_tensor *index, rush_tensor *src, rush_value number, int how, bool whole, const rush_value *alpha)
{
    places w;
    int dim = rush_dim_wrap(at, to->ndim);
    if (!index->numel || !to->numel || (src && !src->numel)) return 0;
    if (src && (src->flags & (RUSH_T_CONJ | RUSH_T_NEG) || src->storage == to->storage)) src = rush_apply(rush_op_find("clone"), 1, (rush_value[]){V(rush_contiguous_copy(src))});
    if (src && src->dtype != to->dtype) src = rush_cast_copy(src, to->dtype);
    if (rush_failed() || along(&w, src, to, dim, wide_index(index), whole)) return -1;
    if (!src) rush_number_store(w.p.w.number[0], to->dtype, number);
    if (alpha) {
        w.p.scaled = true;
        w.p.re = rush_to_double(*alpha), w.p.im = alpha->kind == RUSH_V_COMPLEX ? alpha->c[1] : 0;
        w.p.whole = alpha->kind == RUSH_V_COMPLEX ? 0 : cuda_int(*alpha);
    }
    return how == ASSIGN ? run_sized(&w, "put", to->dtype, to->device) : run_combine(&w, how, to->dtype, to->device);
}

static void scatter_with(const rush_value *in, rush_value *out, rush_tensor *src, rush_value number, int how)
{
    rush_tensor *made, *to = cuda_target(in, out, &made);
    if (to && !put_along(to, in[1].i, in[2].t, src, number, how, true, NULL)) cuda_deliver(out, made);
}
static void scatter_src(const rush_op *op, const rush_value *in, rush_value *out) { scatter_with(in, out, in[3].t, RUSH_NONE, ASSIGN); }
static void scatter_value(const rush_op *op, const rush_value *in, rush_value *out) { scatter_with(in, out, NULL, in[3], ASSIGN); }
static void scatter_add(const rush_op *op, const rush_value *in, rush_value *out) { scatter_with(in, out, in[3].t, RUSH_NONE, CUDA_ADD); }
static void scatter_reduce_old(const rush_op *op, const rush_value *in, rush_value *out) { scatter_with(in, out, in[3].t, RUSH_NONE, how_of(in[4].s)); }
static void scatter_value_reduce(const rush_op *op, const rush_value *in, rush_value *out) { scatter_with(in, out, NULL, in[3], how_of(in[4].s)); }

/* What is combined with nothing yet: the first one counts alone. */
static rush_value neutral(int how, rush_dtype d)
{
    const rush_dtype_info *i = &rush_dtypes[d];
    if (how == CUDA_MUL) return rush_v_int(1);
    if (how != CUDA_MAX && how != CUDA_MIN) return rush_v_int(0);
    if (i->category == 2) return rush_v_float(how == CUDA_MAX ? -__builtin_inf() : __builtin_inf());
    if (d == RUSH_BOOL) return rush_v_int(how == CUDA_MIN);
    if (d == RUSH_I64) return rush_v_int(how == CUDA_MAX ? INT64_MIN : INT64_MAX);
    return rush_v_int((int64_t)(how == CUDA_MAX ? i->min : i->max));
}

/* The number as a tensor of like's sizes, which repeats it; NULL and an error. */
static rush_tensor *repeated(rush_value number, const rush_tensor *like, const int64_t *size)
{
    static const int64_t still[RUSH_MAXDIM];
    rush_tensor *one = rush_tensor_new(like->dtype, like->device, 0, NULL);
    if (!one || (number.kind == RUSH_V_TENSOR ? rush_copy_into(one, number.t) : rush_device_fill(one, number))) return NULL;
    return rush_tensor_alias(one, like->ndim, size, still, 0);
}

/* in = self, dim, index, src, reduce, include_self; whole: the index has all dims */
static void reduce_into(const rush_value *in, rush_value *out, bool whole)
{
    rush_tensor *made, *to = cuda_target(in, out, &made), *index = in[2].t, *src = in[3].t;
    int how = how_of(in[4].s), put = how == MEAN ? CUDA_ADD : how;
    bool include = in[5].i;
    if (!to || how == NONE) return;
    rush_tensor *first = include ? NULL : repeated(neutral(put, to->dtype), src->dtype == to->dtype ? src : rush_cast_copy(src, to->dtype), (whole ? index : src)->size);
    if (!include && (!first || put_along(to, in[1].i, index, first, RUSH_NONE, ASSIGN, whole, NULL))) return;
    if (put_along(to, in[1].i, index, src, RUSH_NONE, put, whole, NULL)) return;
    if (how == MEAN) {
        rush_tensor *count = rush_tensor_new(RUSH_I64, to->device, to->ndim, to->size);
        if (!count || rush_device_fill(count, rush_v_int(include))) return;
        rush_tensor *ones = T("ones_like", V(src), rush_v_dtype(RUSH_I64));
        if (!ones || put_along(count, in[1].i, index, ones, RUSH_NONE, CUDA_ADD, whole, NULL)) return;
        count = T("clamp_min", V(count), V((int64_t)1));
        bool whole_numbers = rush_dtypes[to->dtype].category < 2;
        rush_tensor *mean = !count ? NULL : whole_numbers ? T("div.Tensor_mode", V(to), V(count), V("floor")) : T("div.Tensor", V(to), V(count));
        if (!mean || rush_copy_into(to, mean)) return;
    }
    cuda_deliver(out, made);
}
static void scatter_reduce(const rush_op *op, const rush_value *in, rush_value *out) { reduce_into(in, out, true); }
static void index_reduce(const rush_op *op, const rush_value *in, rush_value *out) { reduce_into(in, out, false); }

static void index_add(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *made, *to = cuda_target(in, out, &made);
    bool one = in[4].kind == RUSH_V_INT && in[4].i == 1;
    if (to && !put_along(to, in[1].i, in[2].t, in[3].t, RUSH_NONE, CUDA_ADD, false, one ? NULL : &in[4])) cuda_deliver(out, made);
}
static void index_copy(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *made, *to = cuda_target(in, out, &made);
    if (to && !put_along(to, in[1].i, in[2].t, in[3].t, RUSH_NONE, ASSIGN, false, NULL)) cuda_deliver(out, made);
}

static void fill_along(const rush_value *in, rush_value *out, rush_value number)
{
    rush_tensor *made, *to = cuda_target(in, out, &made), *index = in[2].t;
    int64_t size[RUSH_MAXDIM];
    if (!to || !index->numel) {
        if (to) cuda_deliver(out, made);
        return;
    }
    for (int d = 0; d < to->ndim; d++) size[d] = to->size[d];
    int dim = rush_dim_wrap(in[1].i, to->ndim);
    if (to->ndim) size[dim] = index->numel;
    rush_tensor *all = repeated(number, to, size);
    if (all && !put_along(to, in[1].i, index, all, RUSH_NONE, ASSIGN, false, NULL)) cuda_deliver(out, made);
}
static void index_fill(const rush_op *op, const rush_value *in, rush_value *out) { fill_along(in, out, in[3]); }

/* ---- take, put: places in the flattened tensor ---- */

static void take(const rush_op *op, const rush_value *in, rush_value *out)
{
    places w;
    rush_tensor *flat = rush_contiguous_copy(SELF), *index = rush_contiguous_copy(in[1].t), *to = out[0].t;
    if (!to->numel || !flat || !index) return;
    cuda_places_begin(&w, to->ndim, to->size, to->device);
    cuda_places_operand(&w, 0, to, 0);
    w.p.w.p[1] = rush_ptr(flat);
    cuda_places_operand(&w, 2, index, 0);
    w.p.wrap = true, w.p.scale[0] = item_of(flat), w.p.limit[0] = flat->numel;
    run_sized(&w, "take", flat->dtype, flat->device);
}

static void put(const rush_op *op, const rush_value *in, rush_value *out)
{
    places w;
    rush_tensor *to = out[0].t, *flat = rush_contiguous(to) && !(to->flags & (RUSH_T_CONJ | RUSH_T_NEG)) ? to : rush_tensor_new(to->dtype, to->device, to->ndim, to->size);
    rush_tensor *index = rush_contiguous_copy(in[1].t), *source = rush_contiguous_copy(in[2].t);
    if (!flat || !index || !source || (flat != SELF && rush_copy_into(flat, SELF))) return;
    if (index->numel) {
        cuda_places_begin(&w, 1, &index->numel, to->device);
        w.p.w.p[0] = rush_ptr(source), w.p.w.p[1] = rush_ptr(flat), w.p.w.p[2] = rush_ptr(index);
        w.p.w.dtype[2] = index->dtype, w.p.w.nop = 3;
        w.stride[0][0] = item_of(source), w.stride[2][0] = item_of(index);
        w.p.wrap = true, w.p.scale[0] = item_of(flat), w.p.limit[0] = flat->numel;
        if (in[3].i ? run_combine(&w, CUDA_ADD, to->dtype, to->device) : run_sized(&w, "put", to->dtype, to->device)) return;
    }
    cuda_deliver(out, flat);
}

/* ---- index, index_put ---- */

enum { MOST_INDICES = CUDA_OPERANDS - 2 };

typedef struct plan {
    rush_tensor *index[MOST_INDICES];
    int dim[MOST_INDICES], n, first, nindex; /* where the indices' own dims stand in the result, and how many they are */
    int64_t broadcast[RUSH_MAXDIM], size[RUSH_MAXDIM];
    int ndim, from[RUSH_MAXDIM]; /* the result's: -1 - k is dim k of the indices, else dim of self */
} plan;

static int add_index(plan *p, rush_tensor *t, int dim)
{
    RUSH_CHECK(p->n < MOST_INDICES, RUSH_NOT_IMPLEMENTED, "more than %d index tensors on device 'cuda'", MOST_INDICES);
    p->index[p->n] = t;
    p->dim[p->n++] = dim;
    p->nindex = cuda_broadcast(p->nindex, p->broadcast, t->ndim, t->size);
    return p->nindex < 0 ? -1 : 0;
}

static int add_mask(plan *p, rush_tensor *mask, int dim)
{
    rush_tensor *rows = T("nonzero", V(mask));
    for (int d = 0; rows && d < mask->ndim; d++) {
        rush_tensor *column = rush_tensor_alias(rows, 1, &rows->size[0], (const int64_t[]){mask->ndim}, rows->offset + d);
        if (!column || add_index(p, column, dim + d)) return -1;
    }
    return rows ? 0 : -1;
}

/* The list's only index, if that is a mask of self's first dims, on self's device. */
static rush_tensor *one_mask(const rush_tensor *self, rush_value list)
{
    rush_tensor *mask = list.n ? list.tensors[0] : NULL;
    if (!mask || mask->dtype != RUSH_BOOL || mask->device.type != RUSH_CUDA || mask->ndim > self->ndim || memcmp(mask->size, self->size, sizeof *mask->size * mask->ndim)) return NULL;
    for (uint32_t k = 1; k < list.n; k++)
        if (list.tensors[k]) return NULL;
    return mask;
}

static int plan_make(plan *p, const rush_tensor *self, rush_value list)
{
    int dim = 0;
    bool together = true;
    *p = (plan){0};
    for (uint32_t k = 0; k < list.n; k++) {
        rush_tensor *t = list.tensors[k];
        bool mask = t && (t->dtype == RUSH_BOOL || t->dtype == RUSH_U8);
        if (!t) {
            dim++;
        } else {
            rush_tensor *here = t->device.type == RUSH_CPU ? T("_to_copy", V(t), RUSH_NONE, RUSH_NONE, rush_v_device(self->device)) : t;
            if (!here || (mask ? add_mask(p, here, dim) : add_index(p, wide_index(here), dim))) return -1;
            dim += mask ? t->ndim : 1;
        }
    }
    for (int k = 1; k < p->n; k++) together &= p->dim[k] == p->dim[k - 1] + 1;
    p->first = together && p->n ? p->dim[0] : 0;
    for (int d = 0, taken = 0; d <= self->ndim; d++) {
        if (p->ndim == p->first && !taken && p->n) {
            taken = 1;
            for (int k = 0; k < p->nindex; k++) p->size[p->ndim] = p->broadcast[k], p->from[p->ndim++] = -1 - k;
        }
        bool indexed = false;
        for (int k = 0; k < p->n; k++) indexed |= p->dim[k] == d;
        if (d < self->ndim && !indexed) p->size[p->ndim] = self->size[d], p->from[p->ndim++] = d;
        if (d == self->ndim && !taken && p->n) /* all dims before the indices' were none */
            for (int k = 0; k < p->nindex; k++) p->size[p->ndim] = p->broadcast[k], p->from[p->ndim++] = -1 - k;
    }
    return 0;
}

static void plan_operands(places *w, const plan *p, const rush_tensor *self)
{
    cuda_places_begin(w, p->ndim, p->size, self->device);
    w->p.w.p[1] = rush_ptr(self);
    w->p.w.nop = 2 + p->n;
    w->p.wrap = true;
    for (int d = 0; d < p->ndim; d++)
        if (p->from[d] >= 0) w->stride[1][d] = self->stride[p->from[d]] * item_of(self);
    for (int k = 0; k < p->n; k++) {
        const rush_tensor *t = p->index[k];
        w->p.w.p[2 + k] = rush_ptr(t), w->p.w.dtype[2 + k] = t->dtype;
        w->p.scale[k] = self->stride[p->dim[k]] * item_of(self), w->p.limit[k] = self->size[p->dim[k]];
        for (int d = 0; d < p->ndim; d++) {
            int at = p->from[d] < 0 ? -1 - p->from[d] - (p->nindex - t->ndim) : -1;
            if (at >= 0 && t->size[at] > 1) w->stride[2 + k][d] = t->stride[at] * item_of(t);
        }
    }
}

static void index_take(const rush_op *op, const rush_value *in, rush_value *out)
{
    plan p;
    places w;
    const rush_tensor *self = plain(SELF);
    rush_tensor *mask = self && !HAS(out[0]) ? one_mask(self, in[1]) : NULL;
    if (mask && mask->ndim == self->ndim) return cuda_select_into(out, (rush_tensor *)self, mask);
    if (!self || plan_make(&p, self, in[1])) return;
    rush_tensor *to = HAS(out[0]) ? out[0].t : rush_out(out, 0, self->dtype, self->device, p.n ? p.ndim : self->ndim, p.n ? p.size : self->size);
    if (!to || !to->numel) return;
    if (!p.n) {
        rush_copy_into(to, self);
        return;
    }
    plan_operands(&w, &p, self);
    cuda_places_operand(&w, 0, to, 0);
    w.p.w.nop = 2 + p.n;
    run_sized(&w, "take", self->dtype, self->device);
}

/* Values of the host, which need not be waited for if they are one number. */
static rush_tensor *there(rush_tensor *values, rush_device d)
{
    if (values->numel != 1) return T("_to_copy", V(values), RUSH_NONE, RUSH_NONE, rush_v_device(d));
    rush_tensor *made = rush_tensor_new(values->dtype, d, values->ndim, values->size), *yes = made ? T("ones_like", V(made), rush_v_dtype(RUSH_BOOL)) : NULL;
    return yes && !cuda_fill_where(made, yes, V(values), V(made)) ? made : NULL;
}

static int put_into(rush_tensor *self, rush_value list, rush_tensor *values, bool accumulate)
{
    plan p;
    places w;
    if (self->flags & (RUSH_T_CONJ | RUSH_T_NEG)) {
        rush_tensor *made = rush_tensor_new(self->dtype, self->device, self->ndim, self->size);
        return made && !rush_copy_into(made, self) && !put_into(made, list, values, accumulate) ? rush_copy_into(self, made) : -1;
    }
    if (values->device.type == RUSH_CPU) values = there(values, self->device);
    if (values && (values->flags & (RUSH_T_CONJ | RUSH_T_NEG) || values->storage == self->storage)) values = T("clone", V(rush_contiguous_copy(values)));
    rush_tensor *mask = values && values->numel == 1 && values->dtype == self->dtype && !accumulate ? one_mask(self, list) : NULL;
    if (mask) { /* nobody needs to know how many there are */
        while (mask && mask->ndim < self->ndim) mask = unsqueeze(mask, -1);
        return mask && self->numel ? cuda_fill_where(self, mask, V(rush_tensor_alias(values, 0, NULL, NULL, values->offset)), V(self)) : mask ? 0 : -1;
    }
    if (!values || plan_make(&p, self, list)) return -1;
    while (values->ndim > p.ndim && values->size[0] == 1) values = T("squeeze.dim", V(values), V((int64_t)0));
    values = values ? T("expand", V(values), rush_v_ints(p.size, p.ndim)) : NULL;
    if (!values || !values->numel) return values ? 0 : -1;
    if (!p.n) return accumulate ? (CUDA_INPLACE("add.Tensor", V(self), V(values)) ? 0 : -1) : rush_copy_into(self, values);
    plan_operands(&w, &p, self);
    cuda_places_operand(&w, 0, values, 0);
    w.p.w.nop = 2 + p.n;
    return accumulate ? run_combine(&w, CUDA_ADD, self->dtype, self->device) : run_sized(&w, "put", self->dtype, self->device);
}

static void index_put_inplace(const rush_op *op, const rush_value *in, rush_value *out) { put_into(SELF, in[1], in[2].t, in[3].i); }
static void index_put(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (out[0].t == SELF || !rush_copy_into(out[0].t, SELF)) put_into(out[0].t, in[1], in[2].t, in[3].i);
}

/* ---- embedding ---- */

static void embedding(const rush_op *op, const rush_value *in, rush_value *out)
{
    places w;
    const rush_tensor *weight = plain(SELF), *index = in[1].t;
    rush_tensor *to = out[0].t;
    if (!to->numel || !weight) return;
    cuda_places_begin(&w, to->ndim, to->size, to->device);
    cuda_places_operand(&w, 0, to, 0);
    w.p.w.p[1] = rush_ptr(weight);
    w.stride[1][to->ndim - 1] = weight->stride[1] * item_of(weight);
    cuda_places_operand(&w, 2, index, 0);
    w.p.scale[0] = weight->stride[0] * item_of(weight), w.p.limit[0] = weight->size[0];
    run_sized(&w, "take", weight->dtype, weight->device);
}

/* in = grad, indices, num_weights, padding_idx, scale_grad_by_freq */
static void embedding_dense_backward(const rush_op *op, const rush_value *in, rush_value *out)
{
    places w;
    rush_tensor *g = rush_contiguous_copy(SELF), *index = wide_index(in[1].t), *to = out[0].t;
    if (!g || !index || rush_device_fill(to, rush_v_int(0)) || !g->numel) return;
    if (in[4].i) {
        rush_tensor *flat = T("reshape", V(index), INTS(-1)), *count = T("zeros", INTS(in[2].i), rush_v_dtype(to->dtype), ON(to));
        rush_tensor *ones = T("ones", INTS(index->numel), rush_v_dtype(to->dtype), ON(to));
        count = count && ones ? CUDA_INPLACE("index_add", V(count), V((int64_t)0), V(flat), V(ones)) : NULL;
        rush_tensor *each = count ? T("index_select", V(count), V((int64_t)0), V(flat)) : NULL;
        if (each) g = rush_contiguous_copy(div_(T("reshape", V(g), INTS(index->numel, -1)), T("unsqueeze", V(each), V((int64_t)1))));
        g = each && g ? T("reshape", V(g), rush_v_ints(SELF->size, SELF->ndim)) : NULL;
        if (!g) return;
    }
    cuda_places_begin(&w, g->ndim, g->size, g->device);
    cuda_places_operand(&w, 0, g, 0);
    w.p.w.p[1] = rush_ptr(to);
    w.stride[1][g->ndim - 1] = to->stride[1] * item_of(to);
    cuda_places_operand(&w, 2, index, 0);
    w.p.scale[0] = to->stride[0] * item_of(to), w.p.limit[0] = to->size[0];
    if (in[3].i >= 0) w.p.skip = in[3].i;
    run_combine(&w, CUDA_ADD, to->dtype, to->device);
}

const cuda_kernel cuda_index_kernels[] = {
    {"gather", gather}, {"index_select", index_select}, {"scatter.src", scatter_src}, {"scatter.value", scatter_value}, {"scatter_add", scatter_add},
    {"scatter.reduce", scatter_reduce_old}, {"scatter.value_reduce", scatter_value_reduce}, {"scatter_reduce.two", scatter_reduce}, {"index_reduce", index_reduce}, {"index_add", index_add},
    {"index_copy", index_copy}, {"index_fill.int_Scalar", index_fill}, {"index_fill.int_Tensor", index_fill}, {"take", take}, {"put", put},
    {"index.Tensor", index_take}, {"_unsafe_index.Tensor", index_take}, {"index_put_", index_put_inplace},
    {"_index_put_impl_", index_put_inplace}, {"index_put", index_put}, {"_unsafe_index_put", index_put}, {"embedding", embedding},
    {"embedding_dense_backward", embedding_dense_backward}, {0}};
