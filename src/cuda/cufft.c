/* cufft.c - Fourier transforms by cuFFT, up to three dims at a time, with plans that are kept.
 *
 * A plan is made for sizes, strides, dtypes and device, and costs milliseconds; the PLANS that were used last are kept. Its workspace
 * comes from our allocator at each call, so that plans hold little memory and streams may share them.
 */
#include "cuda/column.h"
#include "cuda/libraries.h"
#include "op/formula.h"
#include <pthread.h>

enum { PLANS = 64, MOST_DIMS = 3 };

/* What cuFFT asks about a tensor: element (b; i, j, k) lies at b * apart + ((i * inside[1] + j) * inside[2] + k) * step. */
typedef struct layout {
    long long inside[MOST_DIMS], step, apart;
} layout;

typedef struct shape {
    layout from, to;
    long long size[MOST_DIMS], batch;
    int rank, kind, device, none; /* without padding: compared as bytes */
} shape;

typedef struct plan {
    shape of;
    cufftHandle handle;
    size_t room; /* bytes of workspace */
    uint64_t used;
    bool captured; /* a graph reads its tables: it stays */
} plan;

static plan plans[PLANS];
static int nplans;
static uint64_t uses;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* a plan has one stream and one workspace at a time */

/* The dims that are not transformed as one, in the order of t's dims; the transformed ones, the last innermost. False: strides that cuFFT cannot say. */
static bool layout_of(const rush_tensor *t, int rank, const int *dim, layout *l, long long *batch)
{
    int64_t step[MOST_DIMS + 1], whole = 1;
    bool is_transformed[RUSH_MAXDIM] = {false};
    *l = (layout){0};
    for (int i = rank - 1; i >= 0; i--) {
        const int64_t inner = i + 1 < rank ? l->inside[i + 1] = t->size[dim[i + 1]] : 1, before = i + 1 < rank ? step[i + 1] : 1;
        step[i] = t->size[dim[i]] == 1 ? before * inner : t->stride[dim[i]];
        if (step[i] <= 0) return false;
        if (i + 1 < rank && (step[i] % before || (l->inside[i + 1] = step[i] / before) < inner)) return false;
        is_transformed[dim[i]] = true;
    }
    l->inside[0] = t->size[dim[0]];
    l->step = step[rank - 1];
    for (int d = t->ndim - 1; d >= 0; d--) {
        if (is_transformed[d] || t->size[d] == 1) continue;
        if (whole == 1) l->apart = t->stride[d];
        if (t->stride[d] <= 0 || t->stride[d] != l->apart * whole) return false;
        whole *= t->size[d];
    }
    if (whole == 1) l->apart = 1;
    *batch = whole;
    return true;
}

/* As t, with memory of its own in the order that layout_of takes; filled with t's numbers or not. */
static rush_tensor *in_order(rush_tensor *t, int rank, const int *dim, bool filled)
{
    int64_t order[RUSH_MAXDIM], back[RUSH_MAXDIM], size[RUSH_MAXDIM];
    bool is_transformed[RUSH_MAXDIM] = {false};
    int n = 0;
    for (int i = 0; i < rank; i++) is_transformed[dim[i]] = true;
    for (int d = 0; d < t->ndim; d++)
        if (!is_transformed[d]) order[n++] = d;
    for (int i = 0; i < rank; i++) order[n++] = dim[i];
    for (int d = 0; d < n; d++) back[order[d]] = d, size[d] = t->size[order[d]];
    rush_tensor *made = rush_tensor_new(t->dtype, t->device, n, size), *from = filled ? T("permute", V(t), rush_v_ints(order, (size_t)n)) : NULL;
    if (made && from && rush_copy_into(made, from)) return NULL;
    return made ? T("permute", V(made), rush_v_ints(back, (size_t)n)) : NULL;
}

/* The plan of that shape, with the lock held; NULL without an error: cuFFT refuses it. */
static plan *plan_of(const rush_cufft *lib, const shape *s)
{
    plan *oldest = NULL, made = {.of = *s};
    shape own = *s; /* cuFFT does not say that it leaves its arguments */
    for (int i = 0; i < nplans; i++) {
        if (!memcmp(&plans[i].of, s, sizeof *s)) return &plans[i];
        if (!plans[i].captured && (!oldest || plans[i].used < oldest->used)) oldest = &plans[i];
    }
    if ((nplans == PLANS && !oldest) || lib->create(&made.handle)) return NULL;
    if (lib->own_room(made.handle, 0) ||
        lib->plan(made.handle, s->rank, own.size, own.from.inside, own.from.step, own.from.apart, own.to.inside, own.to.step, own.to.apart, s->kind, own.batch, &made.room)) {
        lib->destroy(made.handle);
        return NULL;
    }
    plan *to = nplans < PLANS ? &plans[nplans++] : oldest;
    if (to == oldest) lib->destroy(to->handle);
    *to = made;
    return to;
}

static cufftResult execute(const rush_cufft *lib, const plan *p, void *x, void *y, bool forward)
{
    switch (p->of.kind) {
    case CUFFT_C2C: return lib->c2c(p->handle, x, y, forward ? -1 : 1);
    case CUFFT_Z2Z: return lib->z2z(p->handle, x, y, forward ? -1 : 1);
    case CUFFT_R2C: return lib->r2c(p->handle, x, y);
    case CUFFT_D2Z: return lib->d2z(p->handle, x, y);
    case CUFFT_C2R: return lib->c2r(p->handle, x, y);
    default: return lib->z2d(p->handle, x, y);
    }
}

static int kind_of(const rush_tensor *x, const rush_tensor *y)
{
    const bool wide = rush_dtype_real(x->dtype) == RUSH_F64;
    if (!rush_dtype_is_complex(x->dtype)) return wide ? CUFFT_D2Z : CUFFT_R2C;
    if (!rush_dtype_is_complex(y->dtype)) return wide ? CUFFT_Z2D : CUFFT_C2R;
    return wide ? CUFFT_Z2Z : CUFFT_C2C;
}

/* Pairs of numbers are read as one. */
static bool is_aligned(const rush_tensor *t) { return (uintptr_t)rush_ptr(t) % (2 * rush_dtypes[rush_dtype_real(t->dtype)].size) == 0; }

/* y = x transformed along up to three dims, the last of which is the halved one. 1: done, 0: cuFFT refuses, -1: an error. */
static int transform(const rush_cufft *lib, rush_tensor *x, rush_tensor *y, int rank, const int *dim, bool forward)
{
    shape s;
    long long batch;
    memset(&s, 0, sizeof s);
    const rush_tensor *whole = rush_dtype_is_complex(y->dtype) ? x : y;
    const bool overwrites = rush_dtype_is_complex(x->dtype) && whole == y;
    if (overwrites || x->flags & (RUSH_T_CONJ | RUSH_T_NEG) || !is_aligned(x) || !layout_of(x, rank, dim, &s.from, &batch)) x = in_order(x, rank, dim, true);
    rush_tensor *to = !is_aligned(y) || !layout_of(y, rank, dim, &s.to, &batch) ? in_order(y, rank, dim, false) : y;
    if (!x || !to || !cuda_enter(y->device)) return -1;
    if (!layout_of(x, rank, dim, &s.from, &batch) || !layout_of(to, rank, dim, &s.to, &s.batch)) return 0;
    for (int i = 0; i < rank; i++) s.size[i] = whole->size[dim[i]];
    s.rank = rank, s.kind = kind_of(x, y), s.device = y->device.index;

    void *room = NULL;
    int done = 0;
    pthread_mutex_lock(&lock);
    const int mode = cuda_relaxed(y->device);
    plan *p = plan_of(lib, &s);
    cuda_strict(mode);
    if (p && cuda_capture(y->device)) p->captured = true;
    if (p && (!p->room || (room = cuda_alloc(y->device, p->room)))) {
        p->used = ++uses;
        cufftResult answer = lib->stream(p->handle, cuda_stream(y->device));
        if (!answer && room) answer = lib->room(p->handle, room);
        if (!answer) answer = execute(lib, p, rush_ptr(x), rush_ptr(to), forward);
        done = answer ? rush_fail(RUSH_RUNTIME_ERROR, "CUDA error: cuFFT answers %d", (int)answer) : 1;
        if (room) cuda_free(y->device, room, p->room);
    }
    pthread_mutex_unlock(&lock);
    if (rush_failed()) return -1;
    return done && to != y && rush_copy_into(y, to) ? -1 : done;
}

/* y = x transformed along the dims; which kind the dtypes say. 1: done, 0: it is left to others, -1: an error. */
int cuda_fft_by_library(rush_tensor *x, rush_tensor *y, rush_value dims, bool forward)
{
    int dim[RUSH_MAXDIM], left = (int)dims.n;
    const bool to_real = !rush_dtype_is_complex(y->dtype);
    if (!left || !x->numel || !y->numel || !cuda_has_libraries()) return 0;
    const rush_cufft *lib = cuda_cufft();
    if (!lib) {
        rush_error_clear();
        return 0;
    }
    for (int i = 0; i < left; i++) dim[i] = rush_dim_wrap(dims.ints[i], x->ndim);
    int first = to_real ? 0 : RUSH_MAX(left - MOST_DIMS, 0), done = 1; /* the halved dim first of all, or last */
    for (bool begun = false; left && done == 1; begun = true) {
        const int rank = RUSH_MIN(left, MOST_DIMS);
        const bool is_last = rank == left;
        if (!to_real) {
            done = transform(lib, begun ? y : x, y, rank, dim + first, forward);
            left -= rank, first = RUSH_MAX(left - MOST_DIMS, 0);
        } else {
            rush_tensor *next = is_last ? y : rush_tensor_new(x->dtype, x->device, x->ndim, x->size);
            done = next ? transform(lib, x, next, rank, dim + first, forward) : -1;
            x = next, left -= rank, first += rank;
        }
    }
    return done;
}
