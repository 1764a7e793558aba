/* mask.c - what masks choose and what is not zero, over the kernels of index.cu. */
#include "cuda/places.h"
#include "op/formula.h"
#include <stdio.h>

#define SELF (in[0].t)

/* Which bits of an element tell it from zero: not the signs. */
static uint64_t telling_bits(rush_dtype d)
{
    switch (d) {
    case RUSH_F16: case RUSH_BF16: case RUSH_C32: return 0x7fff7fff7fff7fff;
    case RUSH_F32: case RUSH_C64: return 0x7fffffff7fffffff;
    case RUSH_F64: case RUSH_C128: return 0x7fffffffffffffff;
    default: return ~(uint64_t)0;
    }
}

/* The choice whose walk is made: the count of each piece, and of all. The host waits for it. */
static int count_choice(cuda_choice *p, rush_dtype d, rush_device device, int64_t *all)
{
    char kernel[32];
    const int64_t tiles = (p->w.n + CHOICE_TILE - 1) / CHOICE_TILE, most = RUSH_MIN(tiles, 8 * cuda_devices[device.index].processors);
    *all = 0;
    if (!p->w.n) return 0;
    p->piece = (tiles + most - 1) / most * CHOICE_TILE, p->pieces = (p->w.n + p->piece - 1) / p->piece;
    p->bits = telling_bits(d), p->fault = cuda_devices[device.index].fault;
    rush_tensor *counts = rush_tensor_new(RUSH_I64, device, 1, &p->pieces), *here = rush_tensor_new(RUSH_I64, (rush_device){RUSH_CPU, -1}, 1, &p->pieces);
    if (!counts || !here) return -1;
    p->counts = rush_ptr(counts);
    snprintf(kernel, sizeof kernel, "count_chosen_%d", rush_dtypes[d].size);
    if (cuda_launch_blocks(device, kernel, p, p->pieces) || rush_copy_into(here, counts)) return -1;
    for (int64_t i = 0; i < p->pieces; i++) *all += ((const int64_t *)rush_ptr(here))[i];
    return 0;
}

static void nonzero(const rush_op *op, const rush_value *in, rush_value *out)
{
    int64_t n;
    const rush_tensor *x = plain(SELF);
    if (!x) return;
    if (x->ndim > CUDA_DIMS) {
        rush_fail(RUSH_NOT_IMPLEMENTED, "nonzero of more than %d dimensions on device 'cuda'", CUDA_DIMS);
        return;
    }
    cuda_choice p = {.w = {.n = x->numel, .ndim = x->ndim, .p = {NULL, rush_ptr(x)}}, .plain = rush_contiguous(x)};
    for (int d = 0; d < x->ndim; d++) {
        p.w.size[x->ndim - 1 - d] = x->size[d];
        p.w.stride[1][x->ndim - 1 - d] = x->stride[d] * item_of(x);
    }
    if (count_choice(&p, x->dtype, x->device, &n)) return;
    rush_tensor *to = rush_out(out, 0, RUSH_I64, x->device, 2, (const int64_t[]){n, x->ndim});
    if (!to || !to->numel) return;
    rush_tensor *rows = rush_contiguous(to) ? to : rush_tensor_new(RUSH_I64, to->device, 2, to->size);
    if (!rows) return;
    char kernel[32];
    p.other = rush_ptr(rows);
    snprintf(kernel, sizeof kernel, "coordinates_%d", rush_dtypes[x->dtype].size);
    if (!cuda_launch_blocks(x->device, kernel, &p, p.pieces) && rows != to) rush_copy_into(to, rows);
}

/* The choice of t's elements by a mask of its sizes, and how many it chooses. */
static int choose(cuda_choice *p, rush_tensor *t, rush_tensor *mask, int64_t *n)
{
    places w;
    if (mask && item_of(mask) > 1) mask = T("ne.Scalar", V(mask), V((int64_t)0));
    if (!mask) return -1;
    cuda_places_begin(&w, t->ndim, t->size, t->device);
    cuda_places_operand(&w, 0, t, 0);
    cuda_places_operand(&w, 1, mask, 0);
    if (cuda_places_finish(&w)) return -1;
    *p = (cuda_choice){.w = w.p.w};
    p->plain = !p->w.ndim || (p->w.ndim == 1 && p->w.stride[0][0] == item_of(t) && p->w.stride[1][0] == 1);
    return count_choice(p, RUSH_BOOL, t->device, n);
}

/* Elements that are chosen to `other`, or (back) from there. */
static int pack(cuda_choice *p, rush_tensor *t, rush_tensor *other, bool back)
{
    char kernel[32];
    p->other = rush_ptr(other), p->back = back, p->limit = other->numel;
    snprintf(kernel, sizeof kernel, "pack_%d", rush_dtypes[t->dtype].size);
    return cuda_launch_blocks(t->device, kernel, p, p->pieces);
}

void cuda_select_into(rush_value *out, rush_tensor *x, rush_tensor *mask)
{
    int64_t n;
    cuda_choice p;
    if (!x || choose(&p, x, mask, &n)) return;
    rush_tensor *to = rush_out(out, 0, x->dtype, x->device, 1, &n);
    if (!to || !n) return;
    rush_tensor *row = rush_contiguous(to) ? to : rush_tensor_new(to->dtype, to->device, 1, &n);
    if (row && !pack(&p, x, row, false) && row != to) rush_copy_into(to, row);
}

static void masked_select(const rush_op *op, const rush_value *in, rush_value *out)
{
    int64_t size[RUSH_MAXDIM];
    int ndim;
    const rush_tensor *x = plain(SELF), *mask = in[1].t;
    if (!x) return;
    memcpy(size, x->size, sizeof *size * x->ndim);
    if ((ndim = cuda_broadcast(x->ndim, size, mask->ndim, mask->size)) < 0) return;
    cuda_select_into(out, T("expand", V((rush_tensor *)x), rush_v_ints(size, ndim)), T("expand", in[1], rush_v_ints(size, ndim)));
}

int cuda_fill_where(rush_tensor *to, rush_tensor *mask, rush_value value, rush_value from)
{
    rush_pw_args none = {{0}};
    const rush_value operand[4] = {V(to), V(mask), value, from};
    return cuda_tables.row(RUSH_PW_where, 1, 4, operand, (const uint8_t[]){to->dtype, RUSH_BOOL, to->dtype, to->dtype}, &none);
}

static void masked_fill(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *to = out[0].t;
    rush_value v = in[2];
    if (v.kind == RUSH_V_TENSOR && v.t->device.type != RUSH_CPU && v.t->dtype != to->dtype) v = V(rush_cast_copy(v.t, to->dtype));
    if (rush_failed()) return;
    if (to->flags & (RUSH_T_CONJ | RUSH_T_NEG)) {
        rush_tensor *made = T("where.self", in[1], V(T("expand", V(rush_cast_copy(v.kind == RUSH_V_TENSOR ? v.t : rush_tensor_of_number_typed(v, to->dtype), to->dtype)), rush_v_ints(to->size, to->ndim))), in[0]);
        if (made) rush_copy_into(to, made);
        return;
    }
    cuda_fill_where(to, in[1].t, v, in[0]);
}

static void masked_scatter(const rush_op *op, const rush_value *in, rush_value *out)
{
    int64_t n;
    rush_tensor *made, *to = cuda_target(in, out, &made);
    rush_tensor *mask = to ? T("expand", in[1], rush_v_ints(to->size, to->ndim)) : NULL, *source = mask ? rush_contiguous_copy(in[2].t) : NULL;
    cuda_choice p;
    if (!source || choose(&p, to, mask, &n)) return;
    if (n > source->numel) rush_fail(RUSH_RUNTIME_ERROR, "masked_scatter: expected self and source to have same dtypes and source to have %lld elements", (long long)n);
    else if (!n || !pack(&p, to, source, true)) cuda_deliver(out, made);
}

const cuda_kernel cuda_mask_kernels[] = {{"nonzero", nonzero}, {"argwhere", nonzero}, {"masked_select", masked_select}, {"masked_fill.Scalar", masked_fill},
                                         {"masked_fill.Tensor", masked_fill}, {"masked_scatter", masked_scatter}, {0}};
