/* places.c - a walk by hand (places.h). */
#include "cuda/places.h"

#define SELF (in[0].t)

int cuda_broadcast(int n, int64_t *size, int m, const int64_t *more)
{
    int ndim = RUSH_MAX(n, m);
    memmove(size + ndim - n, size, sizeof *size * (size_t)n);
    for (int d = 0; d < ndim - n; d++) size[d] = 1;
    for (int d = 0; d < m; d++) {
        int64_t *s = &size[ndim - m + d];
        RUSH_CHECK(*s == more[d] || *s == 1 || more[d] == 1, RUSH_INDEX_ERROR, "sizes %lld and %lld differ at dimension %d", (long long)*s, (long long)more[d], d);
        if (*s == 1) *s = more[d];
    }
    return ndim;
}

void cuda_places_begin(places *w, int ndim, const int64_t *size, rush_device d)
{
    *w = (places){.ndim = ndim};
    memcpy(w->size, size, sizeof *size * (size_t)ndim);
    w->p.fault = cuda_devices[d.index].fault;
    w->p.skip = INT64_MIN;
}

void cuda_places_operand(places *w, int k, const rush_tensor *t, int first)
{
    w->p.w.p[k] = rush_ptr(t);
    w->p.w.dtype[k] = t->dtype;
    w->p.w.nop = RUSH_MAX(w->p.w.nop, k + 1);
    for (int d = 0; d < t->ndim; d++)
        if (t->size[d] > 1 || w->size[first + d] == 1) w->stride[k][first + d] = t->size[d] > 1 ? t->stride[d] * (int64_t)rush_dtypes[t->dtype].size : 0;
}

int cuda_places_finish(places *w)
{
    cuda_walk *to = &w->p.w;
    to->n = 1;
    to->ndim = 0;
    for (int d = w->ndim - 1; d >= 0; d--) {
        to->n *= w->size[d];
        if (w->size[d] == 1) continue;
        int last = to->ndim - 1;
        bool one = last >= 0;
        for (int k = 0; k < to->nop && one; k++) one = w->stride[k][d] == to->stride[k][last] * to->size[last];
        if (one) {
            to->size[last] *= w->size[d];
            continue;
        }
        RUSH_CHECK(to->ndim < CUDA_DIMS, RUSH_NOT_IMPLEMENTED, "tensors of more than %d dimensions are not indexed on device 'cuda'", CUDA_DIMS);
        to->size[to->ndim] = w->size[d];
        for (int k = 0; k < to->nop; k++) to->stride[k][to->ndim] = w->stride[k][d];
        to->ndim++;
    }
    return 0;
}

rush_tensor *cuda_target(const rush_value *in, rush_value *out, rush_tensor **made)
{
    rush_tensor *to = out[0].t;
    *made = to->flags & (RUSH_T_CONJ | RUSH_T_NEG) ? rush_tensor_new(to->dtype, to->device, to->ndim, to->size) : to;
    return *made && (*made == SELF || !rush_copy_into(*made, SELF)) ? *made : NULL;
}
void cuda_deliver(rush_value *out, rush_tensor *made)
{
    if (made != out[0].t && !rush_failed()) rush_copy_into(out[0].t, made);
}
