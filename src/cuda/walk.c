/* walk.c - operands as the parameters of kernels, and what comes to one walk: rows, folds, copies with dtype, numbers in all places. */
#include "cuda/cuda.h"
#include <stdio.h>

static uint64_t magnitude(int64_t stride) { return stride < 0 ? (uint64_t)-stride : (uint64_t)stride; }

typedef struct dim {
    int64_t size, stride[CUDA_OPERANDS];
} dim;

/* Innermost first, by the result's strides, then those of what is read; stable. */
static bool comes_before(const dim *a, const dim *b, int n)
{
    for (int k = 0; k < n; k++) {
        if (a->stride[k] == 0 || b->stride[k] == 0) continue;
        if (a->stride[k] != b->stride[k]) return magnitude(a->stride[k]) < magnitude(b->stride[k]);
    }
    return false;
}

static int dims_merged(dim *d, int ndim, int n)
{
    int last = 0;
    for (int i = 1; i < ndim; i++) {
        bool one = true;
        for (int k = 0; k < n; k++) one &= d[i].stride[k] == d[last].stride[k] * d[last].size;
        if (one) d[last].size *= d[i].size;
        else d[++last] = d[i];
    }
    return ndim ? last + 1 : 0;
}

/* Operand k: a tensor of the device, or a number, of which those of the host are one, too. */
static int take_operand(cuda_walk *w, int k, rush_value v, uint8_t compute)
{
    if (v.kind != RUSH_V_TENSOR) {
        rush_number_store(w->number[k], compute, v);
        return 0;
    }
    const rush_tensor *t = v.t;
    w->dtype[k] = t->dtype;
    w->lazy[k] = t->flags & (RUSH_T_CONJ | RUSH_T_NEG);
    if (t->device.type == RUSH_CPU) {
        RUSH_CHECK(t->numel == 1, RUSH_RUNTIME_ERROR, "Expected all tensors to be on the same device, but found cpu");
        if (w->lazy[k]) {
            const rush_tensor *plain = rush_cast_copy(t, compute);
            if (!plain) return -1;
            t = plain;
        }
        rush_convert(w->number[k], compute, 0, rush_ptr(t), t->dtype, 0, 1);
        return 0;
    }
    RUSH_CHECK(t->dtype <= RUSH_C128 || (t->dtype == compute && !w->lazy[k]), RUSH_NOT_IMPLEMENTED, "%s is not computed on device 'cuda'", rush_dtype_name(t->dtype));
    w->p[k] = rush_ptr(t);
    return 0;
}

/* The elements that a thread may take at once: 16 bytes of what is computed in, when all operands allow it. */
static int vector_of(const cuda_walk *w, int nout, int n, const uint8_t *compute)
{
    const int v = 16 / rush_dtypes[compute[n - 1]].size;
    if (w->ndim == 0 || (w->ndim > 1 && w->size[0] % v)) return 0;
    for (int k = 0; k < n; k++) {
        const int64_t item = rush_dtypes[w->dtype[k]].size, bytes = v * item;
        const bool half = w->dtype[k] == RUSH_F16 || w->dtype[k] == RUSH_BF16 || (w->dtype[k] == RUSH_BOOL && k >= nout);
        if (!w->p[k]) continue;
        if (w->lazy[k] || (w->dtype[k] != compute[k] && !(half && compute[k] == RUSH_F32))) return 0;
        if (w->stride[k][0] == 0 && k >= nout) continue;
        if (w->stride[k][0] != item || (int64_t)(size_t)w->p[k] % bytes) return 0;
        for (int i = 1; i < w->ndim; i++)
            if (w->stride[k][i] % bytes) return 0;
    }
    return v;
}

int cuda_walk_make(cuda_walk *w, int nout, int n, const rush_value *operand, const uint8_t *compute)
{
    dim d[RUSH_MAXDIM];
    const rush_tensor *first = operand[0].t;
    int ndim = 0;
    *w = (cuda_walk){.n = first->numel, .nop = n};
    for (int k = 0; k < n; k++)
        if (take_operand(w, k, operand[k], compute[k])) return -1;
    for (int i = first->ndim - 1; i >= 0; i--) {
        if (first->size[i] == 1) continue;
        d[ndim].size = first->size[i];
        for (int k = 0; k < n; k++) {
            const rush_tensor *t = w->p[k] ? operand[k].t : NULL;
            int at = t ? i - (first->ndim - t->ndim) : -1;
            d[ndim].stride[k] = at < 0 || t->size[at] == 1 ? 0 : t->stride[at] * (int64_t)rush_dtypes[t->dtype].size;
        }
        ndim++;
    }
    for (int i = 1; i < ndim; i++)
        for (int j = i; j > 0 && comes_before(&d[j], &d[j - 1], n); j--) {
            dim swap = d[j];
            d[j] = d[j - 1], d[j - 1] = swap;
        }
    ndim = dims_merged(d, ndim, n);
    RUSH_CHECK(ndim <= CUDA_DIMS, RUSH_NOT_IMPLEMENTED, "tensors of more than %d dimensions that cannot be merged are not walked on device 'cuda'", CUDA_DIMS);
    w->ndim = ndim;
    for (int i = 0; i < ndim; i++) w->size[i] = d[i].size;
    for (int k = 0; k < n; k++)
        for (int i = 0; i < ndim; i++) w->stride[k][i] = d[i].stride[k];
    w->vector = vector_of(w, nout, n, compute);
    return 0;
}

int cuda_rows_run(const char *kernel, int nout, int n, const rush_value *operand, const uint8_t *compute, cuda_rows *p)
{
    const rush_tensor *first = operand[0].t;
    if (!first->numel) return 0;
    if (cuda_walk_make(&p->w, nout, n, operand, compute)) return -1;
    p->fault = cuda_devices[first->device.index].fault;
    return cuda_launch(first->device, kernel, p, p->w.vector ? (p->w.n + p->w.vector - 1) / p->w.vector : p->w.n);
}

/* ---- rows ---- */

static const char *const row_names[] = {
#define ROW(id, ...) #id,
#include "kernels/pointwise.def"
#undef ROW
};

/* The kernels' word for a type that is computed in; NULL: there are none. */
static const char *type_word(uint8_t d)
{
    switch (d) {
    case RUSH_BOOL: return "bool";
    case RUSH_U8: return "u8";
    case RUSH_I32: return "i32";
    case RUSH_I64: return "i64";
    case RUSH_U64: return "u64";
    case RUSH_F32: return "f32";
    case RUSH_F64: return "f64";
    case RUSH_C64: return "c64";
    case RUSH_C128: return "c128";
    default: return NULL;
    }
}

static int no_kernel(const char *what)
{
    return rush_fail(RUSH_NOT_IMPLEMENTED, "Could not run 'aten::%s' on device 'cuda': it has no kernel there for %s.", rush_now.op ? rush_now.op->name : "(none)", what);
}

/* A condition, and what it chooses from, brought to the result's dtype first. */
static int run_where(const rush_value *operand, cuda_rows *p)
{
    rush_value v[4];
    uint8_t d = operand[0].t->dtype;
    char kernel[32];
    memcpy(v, operand, sizeof v);
    for (int k = 2; k < 4; k++)
        if (v[k].kind == RUSH_V_TENSOR && v[k].t->device.type != RUSH_CPU && (v[k].t->dtype != d || v[k].t->flags & (RUSH_T_CONJ | RUSH_T_NEG)))
            if (!(v[k].t = rush_cast_copy(v[k].t, d))) return -1;
    snprintf(kernel, sizeof kernel, "where_%d", rush_dtypes[d].size);
    return cuda_rows_run(kernel, 1, 4, v, (const uint8_t[]){d, RUSH_BOOL, d, d}, p);
}

static int run_row(int id, int nout, int n, const rush_value *operand, const uint8_t *compute, const rush_pw_args *args)
{
    char kernel[64];
    cuda_rows p = {0};
    const char *word = type_word(compute[n - 1]);
    memcpy(p.re, args->re, sizeof p.re);
    memcpy(p.im, args->im, sizeof p.im);
    memcpy(p.i, args->i, sizeof p.i);
    if (id == RUSH_PW_where) return run_where(operand, &p);
    if (id == RUSH_PW_frexp) return cuda_rows_run(compute[0] == RUSH_F64 ? "frexp_f64" : "frexp_f32", nout, n, operand, compute, &p);
    if (id == RUSH_PW_nextafter && !word) {
        p.i[0] = compute[0] == RUSH_F16 ? 0x7c00 : 0x7f80;
        p.i[1] = compute[0] == RUSH_F16 ? 0x7e00 : 0x7fc0;
        return cuda_rows_run("nextafter_half", nout, n, operand, compute, &p);
    }
    if (id >= RUSH_PW_COUNT || !word) return no_kernel(rush_dtype_name(compute[n - 1]));
    snprintf(kernel, sizeof kernel, "pw_%s_%s", row_names[id], word);
    return cuda_rows_run(kernel, nout, n, operand, compute, &p);
}

/* ---- folds ---- */

static void fold_axes(cuda_axis *a, int *n, int64_t size, int64_t in, int64_t out)
{
    cuda_axis *last = *n ? &a[*n - 1] : NULL;
    if (size == 1) return;
    if (last && in == last->in * last->size && out == last->out * last->size) last->size *= size;
    else a[(*n)++] = (cuda_axis){size, in, out};
}

static int team_for(int64_t length, int most)
{
    int team = 1;
    while (team < most && team * 2 <= length) team *= 2;
    return team;
}

/* Who makes what: neighbours read neighbours, and there are blocks for all of a large device if the elements suffice. */
static void share_out(cuda_fold *p)
{
    int64_t near_gone = INT64_MAX;
    for (int d = 0; d < p->ngone; d++) near_gone = RUSH_MIN(near_gone, (int64_t)magnitude(p->gone[d].in));
    p->across = p->nkept && (int64_t)magnitude(p->kept[0].in) < near_gone && p->kept[0].size >= 8;
    p->team = p->across ? team_for(p->length / 4, p->outputs >= 32 ? 8 : 32) : p->length >= 1024 ? CUDA_THREADS : team_for(p->length / 2, 32);
    p->teams = CUDA_THREADS / p->team;
    p->pieces = cuda_pieces_of(p->outputs, p->team, p->length);
    p->piece = (p->length + p->pieces - 1) / p->pieces;
    p->pieces_team = team_for(p->pieces, CUDA_THREADS);
}

static int run_fold(const rush_fold *f, const rush_tensor *x, uint64_t dims, rush_tensor *const out[2], const rush_fold_arg *arg)
{
    char kernel[32];
    cuda_axis kept[RUSH_MAXDIM], gone[RUSH_MAXDIM];
    cuda_fold p = {.x = rush_ptr(x), .dtype = x->dtype, .lazy = x->flags & (RUSH_T_CONJ | RUSH_T_NEG), .outputs = 1, .length = 1, .pieces = 1};
    if (arg) p.count = arg->count, p.p = arg->p, p.correction = arg->correction, p.mean = arg->mean, p.root = arg->root;
    for (int d = x->ndim - 1; d >= 0; d--) {
        int64_t in = x->stride[d] * (int64_t)rush_dtypes[x->dtype].size;
        if (dims >> d & 1) fold_axes(gone, &p.ngone, x->size[d], in, 0), p.length *= x->size[d];
        else fold_axes(kept, &p.nkept, x->size[d], in, p.outputs), p.outputs *= x->size[d];
    }
    RUSH_CHECK(p.nkept <= CUDA_DIMS && p.ngone <= CUDA_DIMS, RUSH_NOT_IMPLEMENTED, "tensors of more than %d dimensions are not reduced on device 'cuda'", CUDA_DIMS);
    if (!p.outputs) return 0;
    memcpy(p.kept, kept, sizeof *kept * (size_t)p.nkept);
    memcpy(p.gone, gone, sizeof *gone * (size_t)p.ngone);
    for (int k = 0; k < 2; k++)
        if (out[k]) p.out[k] = rush_ptr(out[k]), p.out_dtype[k] = out[k]->dtype, p.out_size[k] = rush_dtypes[out[k]->dtype].size;
    share_out(&p);
    rush_tensor *partial = p.pieces > 1 ? rush_tensor_new(RUSH_U8, x->device, 1, (const int64_t[]){p.outputs * p.pieces * FOLD_KEEPS}) : NULL;
    if (p.pieces > 1 && !partial) return -1;
    if (partial) p.partial = rush_ptr(partial);
    snprintf(kernel, sizeof kernel, "fold_%s", f->name);
    if (cuda_launch_blocks(x->device, kernel, &p, cuda_blocks_of(p.outputs, p.team) * p.pieces)) return -1;
    snprintf(kernel, sizeof kernel, "pieces_%s", f->name);
    return p.pieces > 1 ? cuda_launch_blocks(x->device, kernel, &p, cuda_blocks_of(p.outputs, p.pieces_team)) : 0;
}

const rush_tables cuda_tables = {.row = run_row, .fold = run_fold, .sample = cuda_sample_into, .pool = cuda_pool, .pool_scatter = cuda_pool_scatter,
                                 .along = cuda_along, .nearest = cuda_nearest, .pad = cuda_pad, .grid = cuda_grid_run,
                                 .distances = cuda_distances_run, .distances_back = cuda_distances_back, .steps = cuda_steps_run, .fuser = &cuda_fuser};

/* ---- copies with dtype, numbers in all places ---- */

static const char *convert_kernel(rush_dtype from)
{
    if (from == RUSH_BOOL) return "convert_truth";
    if (from == RUSH_U64) return "convert_u64";
    if (rush_dtypes[from].category == 1) return "convert_i64";
    if (rush_dtypes[from].category == 3) return "convert_c128";
    return from == RUSH_F64 ? "convert_f64" : "convert_f32";
}

static uint8_t convert_type(rush_dtype from)
{
    if (from == RUSH_BOOL || from == RUSH_U64 || from == RUSH_F64) return from;
    return rush_dtypes[from].category == 1 ? RUSH_I64 : rush_dtypes[from].category == 3 ? RUSH_C128 : RUSH_F32;
}

/* Bytes as they are, or a number in all places; in units of 16 bytes where elements lie one behind the other. */
static int run_copy(rush_tensor *to, rush_value from)
{
    char kernel[32];
    cuda_rows p = {0};
    cuda_walk *w = &p.w;
    int item = rush_dtypes[to->dtype].size, v;
    if (cuda_walk_make(w, 1, 2, (const rush_value[]){RUSH_V(to), from}, (const uint8_t[]){to->dtype, to->dtype})) return -1;
    v = w->vector;
    if (v > 1 && w->size[0] % v == 0 && !(w->p[1] && w->stride[1][0] == 0)) {
        w->n /= v, w->size[0] /= v, w->stride[0][0] *= v, w->stride[1][0] *= v;
        for (; item < 16; item *= 2) memcpy(w->number[1] + item, w->number[1], (size_t)item);
    }
    snprintf(kernel, sizeof kernel, "copy_%d", item);
    return cuda_launch(to->device, kernel, &p, w->n);
}

static bool same_bytes(const rush_tensor *a, const rush_tensor *b)
{
    return rush_contiguous(a) && rush_contiguous(b) && rush_same_sizes(a, b);
}

int cuda_convert(rush_tensor *to, const rush_tensor *from)
{
    cuda_rows p = {0};
    bool as_it_is = to->dtype == from->dtype && !((to->flags ^ from->flags) & (RUSH_T_CONJ | RUSH_T_NEG));
    if (!to->numel) return 0;
    if (to->storage == from->storage) {
        if (as_it_is && rush_ptr(to) == rush_ptr(from) && same_bytes(to, from)) return 0;
        rush_tensor *apart = rush_tensor_new(from->dtype, from->device, from->ndim, from->size); /* read before it is overwritten */
        if (!apart || cuda_convert(apart, from)) return -1;
        from = apart;
        as_it_is = to->dtype == from->dtype && !(to->flags & (RUSH_T_CONJ | RUSH_T_NEG));
    }
    if (as_it_is && same_bytes(to, from)) return cuda_backend.copy(rush_ptr(to), to->device, rush_ptr(from), from->device, (size_t)to->numel * rush_dtypes[to->dtype].size);
    rush_value operand[2] = {RUSH_V(to), RUSH_V((rush_tensor *)from)};
    if (as_it_is) return run_copy(to, operand[1]);
    RUSH_CHECK(to->dtype <= RUSH_C128 && from->dtype <= RUSH_C128, RUSH_NOT_IMPLEMENTED, "%s is not converted to %s on device 'cuda'", rush_dtype_name(from->dtype),
               rush_dtype_name(to->dtype));
    return cuda_rows_run(convert_kernel(from->dtype), 1, 2, operand, (const uint8_t[]){convert_type(from->dtype), convert_type(from->dtype)}, &p);
}

int cuda_fill(rush_tensor *t, rush_value number)
{
    if (!t->numel) return 0;
    if (t->flags & (RUSH_T_CONJ | RUSH_T_NEG)) {
        rush_tensor *one = rush_tensor_of_number_typed(number, t->dtype), *there = one ? rush_tensor_new(t->dtype, t->device, 0, NULL) : NULL;
        return there && !rush_copy_into(there, one) ? cuda_convert(t, there) : -1;
    }
    return run_copy(t, number);
}
