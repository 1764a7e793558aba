/* repeat.c - elements said again or in another order: repeat, tile, repeat_interleave, roll, flip, rot90. */
#include "op/formula.h"
#include "ops/geometry.h"

#define SELF (in[0].t)

/* ---- repeat ---- */

static int repeat_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    int n = (int)in[1].n, lead = n - SELF->ndim;
    int64_t size[RUSH_MAXDIM];
    RUSH_CHECK(lead >= 0, RUSH_RUNTIME_ERROR, "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor");
    RUSH_CHECK(n <= RUSH_MAXDIM, RUSH_NOT_IMPLEMENTED, "tensors have at most %d dimensions", RUSH_MAXDIM);
    for (int d = 0; d < n; ++d)
        RUSH_CHECK(!__builtin_mul_overflow(d < lead ? 1 : SELF->size[d - lead], in[1].ints[d], &size[d]), RUSH_RUNTIME_ERROR,
                   "numel: integer multiplication overflow in %lld repetitions of dimension %d", (long long)in[1].ints[d], d);
    return rush_out_t(out, 0, SELF, SELF->dtype, n, size) ? 0 : -1;
}

/* The result seen as (times, size, times, size, ...); self expanded along all times. */
static void repeat_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *self = SELF, *to = out[0].t;
    int n = to->ndim, lead = n - self->ndim, k = 0;
    int64_t size[2 * RUSH_MAXDIM], from[2 * RUSH_MAXDIM], into[2 * RUSH_MAXDIM];
    if (to->numel == 0) return;
    for (int d = 0; d < n; ++d) {
        int64_t own = d < lead ? 1 : self->size[d - lead], times = in[1].ints[d];
        if (times > 1) {
            size[k] = times;
            from[k] = 0;
            into[k++] = own * to->stride[d];
        }
        if (own > 1) {
            size[k] = own;
            from[k] = self->stride[d - lead];
            into[k++] = to->stride[d];
        }
    }
    if (k > RUSH_MAXDIM) {
        rush_fail(RUSH_RUNTIME_ERROR, "repeat: too many dimensions");
        return;
    }
    rush_tensor *a = rush_tensor_alias(to, k, size, into, to->offset), *b = rush_tensor_alias(self, k, size, from, self->offset);
    if (a && b) rush_copy_into(a, b);
}

static void repeat_grad(rush_grads *s)
{
    const rush_tensor *self = s->in[0].t;
    const int64_t *times = s->in[1].ints;
    rush_tensor *g = s->g[0];
    int n = (int)s->in[1].n, lead = n - self->ndim, k = 0, sums = 0;
    int64_t size[2 * RUSH_MAXDIM], dims[RUSH_MAXDIM];
    if (!g) return;
    for (int d = 0; d < n; ++d)
        if (times[d] == 0) {
            s->gin[0] = rush_zeros_like(self);
            return;
        }
    for (int d = 0; d < n; ++d) {
        if (times[d] != 1 || d < lead) {
            dims[sums++] = k;
            size[k++] = times[d];
        }
        if (d >= lead) size[k++] = self->size[d - lead];
    }
    g = T("reshape", V(g), rush_v_ints(size, k));
    s->gin[0] = g && sums ? T("sum.dim_IntList", V(g), rush_v_ints(dims, sums)) : g;
}

static rush_op op_repeat = {
    .schema = "repeat(Tensor self, SymInt[] repeats) -> Tensor", .method = RUSH_METHOD | RUSH_NO_FUNCTION,
    .doc = "A copy of self repeats[d] times along each dimension d; more repeats than dimensions add dimensions in front.",
    .shape = repeat_shape, .cpu = repeat_cpu, .grad = repeat_grad,
};

static int tile_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    int64_t times[RUSH_MAXDIM];
    int n = (int)in[1].n, lead = SELF->ndim - n;
    if (lead <= 0) return rush_result(out, T("repeat", V(SELF), in[1]));
    for (int d = 0; d < SELF->ndim; ++d) times[d] = d < lead ? 1 : in[1].ints[d - lead];
    return rush_result(out, T("repeat", V(SELF), rush_v_ints(times, SELF->ndim)));
}

static rush_op op_tile = {
    .schema = "tile(Tensor self, SymInt[] dims) -> Tensor", .method = RUSH_METHOD,
    .doc = "repeat() where missing repeats count as 1 in front.", .run = tile_run,
};

/* ---- repeat_interleave ---- */

static int interleave_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *repeats = in[0].t;
    RUSH_CHECK(repeats->ndim == 1, RUSH_RUNTIME_ERROR, "repeat_interleave only accept 1D vector as repeat");
    RUSH_CHECK(repeats->dtype == RUSH_I64 || repeats->dtype == RUSH_I32, rush_dtype_is_integer(repeats->dtype) ? RUSH_RUNTIME_ERROR : RUSH_NOT_IMPLEMENTED,
               "\"repeat_interleave_cpu\" not implemented for '%s': repeats has to be Long or Int tensor", rush_dtype_word(repeats->dtype));
    return !HAS(in[1]) || rush_out_t(out, 0, repeats, repeats->dtype, 1, &in[1].i) ? 0 : -1;
}

/* repeats to the indices they stand for: [2, 0, 1] to [0, 0, 2] */
static void interleave_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *repeats = in[0].t, *r = rush_cast_copy(repeats, RUSH_I64);
    if (!r) return;
    const int64_t *times = rush_ptr(r);
    int64_t total = 0, at = 0;
    bool negative = false, large = false;
    for (int64_t i = 0; i < r->numel; ++i) {
        negative |= times[i] < 0;
        large |= __builtin_add_overflow(total, times[i], &total);
    }
    if (negative) rush_fail(RUSH_RUNTIME_ERROR, "repeats can not be negative");
    else if (large) rush_fail(RUSH_RUNTIME_ERROR, "the repeats together are too many");
    else if (HAS(in[1]) && in[1].i != total) rush_fail(RUSH_RUNTIME_ERROR, "allocated size does not match required size");
    rush_tensor *to = rush_failed() ? NULL : HAS(out[0]) ? out[0].t : rush_out_t(out, 0, repeats, repeats->dtype, 1, &total);
    if (!to) return;
    bool wide = to->dtype == RUSH_I64;
    void *p = rush_ptr(to);
    for (int64_t i = 0; i < r->numel; ++i)
        for (int64_t k = 0; k < times[i]; ++k, ++at)
            if (wide) ((int64_t *)p)[at] = i;
            else ((int32_t *)p)[at] = (int32_t)i;
}

static rush_op op_repeat_interleave = {
    .schema = "repeat_interleave.Tensor(Tensor repeats, *, SymInt? output_size=None) -> Tensor", .method = RUSH_METHOD,
    .doc = "Index i repeats[i] times, for each i.", .shape = interleave_shape, .cpu = interleave_cpu,
    .flags = RUSH_NO_GRAD | RUSH_DATA_SIZED,
};

static int repeat_interleave_tensor_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *self = SELF, *repeats = in[1].t;
    int64_t dim = HAS(in[2]) ? I_(in[2]) : 0;
    if (!HAS(in[2])) self = T("reshape", V(self), INTS(self->numel));
    if (!self) return -1;
    int d = rush_dim_wrap(dim, self->ndim);
    if (d < 0) return -1;
    int64_t n = self->ndim ? self->size[d] : 1;
    RUSH_CHECK(repeats->ndim <= 1, RUSH_RUNTIME_ERROR, "repeats must be 0-dim or 1-dim tensor");
    if (repeats->ndim == 0 || repeats->size[0] == 1) {
        repeats = T("expand", V(T("reshape", V(repeats), INTS(1))), INTS(n));
        if (!repeats) return -1;
    }
    RUSH_CHECK(repeats->size[0] == n, RUSH_RUNTIME_ERROR,
               "repeats must have the same size as input along dim, but got repeats.size(0) = %lld and input.size(%lld) = %lld",
               (long long)repeats->size[0], (long long)dim, (long long)n);
    rush_tensor *index = T("repeat_interleave.Tensor", V(repeats), in[3]);
    return rush_result(out, index ? T("index_select", V(self), V(dim), V(index)) : NULL);
}

static rush_op op_repeat_interleave_tensor = {
    .schema = "repeat_interleave.self_Tensor(Tensor self, Tensor repeats, int? dim=None, *, SymInt? output_size=None) -> Tensor",
    .doc = "Each index i of dim repeats[i] times in a row; without dim, of the flattened tensor.", .run = repeat_interleave_tensor_run,
};

static int repeat_interleave_int_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *self = SELF;
    int64_t times = I_(in[1]), dim = HAS(in[2]) ? I_(in[2]) : 0, size[RUSH_MAXDIM + 1];
    if (rush_dim_wrap(dim, HAS(in[2]) ? self->ndim : 0) < 0) return -1;
    if (!HAS(in[2]) || self->ndim == 0) self = T("reshape", V(self), INTS(self->numel));
    if (!self) return -1;
    int d = rush_dim_wrap(dim, self->ndim), n = self->ndim;
    if (d < 0) return -1;
    RUSH_CHECK(times >= 0, RUSH_RUNTIME_ERROR, "Repeats must be non-negative");
    int64_t want;
    RUSH_CHECK(!__builtin_mul_overflow(times, self->size[d], &want), RUSH_RUNTIME_ERROR, "%lld repeats of %lld are too many", (long long)times, (long long)self->size[d]);
    RUSH_CHECK(!HAS(in[3]) || I_(in[3]) == want, RUSH_RUNTIME_ERROR, "repeat_interleave: Invalid output_size, expected %lld but got %lld", (long long)want, (long long)I_(in[3]));
    self = unsqueeze(self, d + 1);
    if (!self) return -1;
    memcpy(size, self->size, sizeof *size * (n + 1));
    size[d + 1] = times;
    rush_tensor *wide = T("expand", V(self), rush_v_ints(size, n + 1));
    wide = wide ? T("clone", V(wide), ((rush_value){.kind = RUSH_V_MEMORY_FORMAT, .i = RUSH_CONTIGUOUS})) : NULL;
    return rush_result(out, wide ? T("flatten.using_ints", V(wide), V((int64_t)d), V((int64_t)d + 1)) : NULL);
}

static rush_op op_repeat_interleave_int = {
    .schema = "repeat_interleave.self_int(Tensor self, SymInt repeats, int? dim=None, *, SymInt? output_size=None) -> Tensor",
    .doc = "Each index of dim `repeats` times in a row; without dim, of the flattened tensor.", .run = repeat_interleave_int_run,
};

/* ---- roll ---- */

static int roll_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(in[1].n > 0, RUSH_RUNTIME_ERROR, "`shifts` required");
    RUSH_CHECK(in[2].n == in[1].n || (in[2].n == 0 && in[1].n == 1), RUSH_RUNTIME_ERROR, "shifts and dimensions must align. shifts: %u, dims:%u", in[1].n,
               in[2].n);
    RUSH_CHECK(SELF->ndim > 0 || in[2].n == 0, RUSH_INDEX_ERROR, "Dimension specified as %lld but tensor has no dimensions", (long long)in[2].ints[0]);
    for (uint32_t k = 0; k < in[2].n && SELF->numel; ++k)
        if (rush_dim_wrap(in[2].ints[k], SELF->ndim) < 0) return -1;
    if (!SELF->numel) return rush_out_like(out, 0, SELF, SELF->dtype) ? 0 : -1;
    return rush_out_format(out, 0, in[2].n ? rush_format_of(SELF) : RUSH_CONTIGUOUS, SELF, SELF->dtype, SELF->ndim, SELF->size) ? 0 : -1;
}

/* Each dimension with a shift is cut in two, and the two parts change places: boxes of `to` from boxes of `from`. */
static int roll_boxes(rush_tensor *to, const rush_tensor *from, const int64_t *shift, int dim)
{
    while (dim < to->ndim && shift[dim] == 0) ++dim;
    if (dim == to->ndim) return rush_copy_into(to, from);
    int64_t n = to->size[dim], k = shift[dim];
    rush_tensor *a = rush_part(to, dim, 0, k), *b = rush_part(from, dim, n - k, k);
    if (!a || !b || roll_boxes(a, b, shift, dim + 1)) return -1;
    a = rush_part(to, dim, k, n - k);
    b = rush_part(from, dim, 0, n - k);
    return !a || !b || roll_boxes(a, b, shift, dim + 1) ? -1 : 0;
}

/* One shifted dimension of contiguous tensors: short rows of n bytes, of which the last k come first. */
#define ROLL_ROW 65536
typedef struct roll_job {
    const char *from;
    char *to;
    size_t n, k;
} roll_job;

static void roll_rows(void *arg, int64_t begin, int64_t end)
{
    const roll_job *j = arg;
    for (int64_t r = begin; r < end; ++r) {
        const char *from = j->from + (size_t)r * j->n;
        char *to = j->to + (size_t)r * j->n;
        memcpy(to, from + j->n - j->k, j->k);
        memcpy(to + j->k, from, j->n - j->k);
    }
}

static void roll_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *to = out[0].t, *from = SELF;
    int64_t shift[RUSH_MAXDIM] = {0};
    if (to->numel == 0) return;
    if (in[2].n == 0) {
        from = rush_contiguous_copy(from);
        const int64_t one = 1;
        from = from ? rush_tensor_alias(from, 1, &from->numel, &one, from->offset) : NULL;
        to = from ? rush_tensor_alias(to, 1, &to->numel, &one, to->offset) : NULL;
        if (!to) return;
        shift[0] = in[1].ints[0];
    }
    for (uint32_t k = 0; k < in[2].n; ++k) shift[rush_dim_wrap(in[2].ints[k], to->ndim)] += in[1].ints[k] % to->size[rush_dim_wrap(in[2].ints[k], to->ndim)];
    for (int d = 0; d < to->ndim; ++d) shift[d] = (shift[d] % to->size[d] + to->size[d]) % to->size[d];
    int dim = 0, shifted = 0;
    for (int d = 0; d < to->ndim; ++d)
        if (shift[d]) dim = d, ++shifted;
    int64_t inner = rush_dtypes[to->dtype].size;
    for (int d = dim + 1; d < to->ndim; ++d) inner *= to->size[d];
    if (to->device.type == RUSH_CPU && shifted == 1 && inner * to->size[dim] <= ROLL_ROW && rush_contiguous(to) && rush_contiguous(from) && to->dtype == from->dtype &&
        !((to->flags | from->flags) & (RUSH_T_CONJ | RUSH_T_NEG))) {
        roll_job j = {rush_ptr(from), rush_ptr(to), (size_t)(inner * to->size[dim]), (size_t)(inner * shift[dim])};
        rush_parallel_for(to->numel * rush_dtypes[to->dtype].size / (int64_t)j.n, ROLL_ROW / (int64_t)j.n, roll_rows, &j);
    } else {
        roll_boxes(to, from, shift, 0);
    }
}

static void roll_grad(rush_grads *s)
{
    int64_t back[RUSH_MAXDIM];
    rush_tensor *g = s->g[0];
    if (!g || s->in[1].n > RUSH_MAXDIM) return;
    for (uint32_t k = 0; g->numel && k < s->in[1].n; ++k) { /* the rest of the round: INT64_MIN has no opposite */
        int64_t n = s->in[2].n && g->ndim ? g->size[rush_dim_wrap(s->in[2].ints[k], g->ndim)] : g->numel;
        back[k] = -(s->in[1].ints[k] % RUSH_MAX(n, 1));
    }
    s->gin[0] = g->numel ? T("roll", V(g), rush_v_ints(back, s->in[1].n), s->in[2]) : g; /* of nothing any dims are taken */
}

static rush_op op_roll = {
    .schema = "roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor", .method = RUSH_METHOD,
    .doc = "Elements moved on by shifts along dims, those that fall off the end put in front; without dims, of the flattened tensor.",
    .shape = roll_shape, .cpu = roll_cpu, .grad = roll_grad,
};

/* ---- flip ---- */

static int flip_dims(const rush_value *in, uint64_t *dims)
{
    *dims = 0;
    for (uint32_t k = 0; k < in[1].n; ++k) {
        int d = rush_dim_wrap(in[1].ints[k], SELF->ndim);
        if (d < 0) return -1;
        RUSH_CHECK(!(*dims >> d & 1), RUSH_RUNTIME_ERROR, "dim %d appears multiple times in the list of dims", d);
        *dims |= (uint64_t)1 << d;
    }
    return 0;
}

static int flip_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    uint64_t dims;
    return flip_dims(in, &dims) || !rush_out_like(out, 0, SELF, SELF->dtype) ? -1 : 0;
}

/* Read backwards: from the last element on with negative strides. */
static void flip_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *self = SELF;
    uint64_t dims;
    int64_t stride[RUSH_MAXDIM], offset = self->offset;
    if (flip_dims(in, &dims) || self->numel == 0) return;
    for (int d = 0; d < self->ndim; ++d) {
        stride[d] = self->stride[d];
        if (!(dims >> d & 1)) continue;
        offset += (self->size[d] - 1) * stride[d];
        stride[d] = -stride[d];
    }
    rush_tensor *back = rush_tensor_alias(self, self->ndim, self->size, stride, offset);
    if (!back) return;
    back->flags &= ~(RUSH_T_CONTIGUOUS | RUSH_T_DENSE | RUSH_T_CHANNELS_LAST);
    rush_copy_into(out[0].t, back);
}

static void flip_grad(rush_grads *s)
{
    if (s->g[0]) s->gin[0] = T("flip", V(s->g[0]), s->in[1]);
}

static rush_op op_flip = {
    .schema = "flip(Tensor self, int[] dims) -> Tensor", .method = RUSH_METHOD,
    .doc = "A copy in reverse order along dims.", .shape = flip_shape, .cpu = flip_cpu, .grad = flip_grad,
};

static int fliplr_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(SELF->ndim >= 2, RUSH_RUNTIME_ERROR, "Input must be >= 2-d.");
    return rush_result(out, T("flip", V(SELF), INTS(1)));
}

static int flipud_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(SELF->ndim >= 1, RUSH_RUNTIME_ERROR, "Input must be >= 1-d.");
    return rush_result(out, T("flip", V(SELF), INTS(0)));
}

static rush_op op_fliplr = {.schema = "fliplr(Tensor self) -> Tensor", .method = RUSH_METHOD, .doc = "flip() of dimension 1.", .run = fliplr_run};
static rush_op op_flipud = {.schema = "flipud(Tensor self) -> Tensor", .method = RUSH_METHOD, .doc = "flip() of dimension 0.", .run = flipud_run};

static int rot90_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *self = SELF;
    int n = self->ndim;
    int64_t k = (I_(in[1]) % 4 + 4) % 4;
    RUSH_CHECK(in[2].n == 2, RUSH_RUNTIME_ERROR, "expected total rotation dims == 2, but got dims = %u", in[2].n);
    RUSH_CHECK(n >= 2, RUSH_RUNTIME_ERROR, "expected total dims >= 2, but got total dims = %d", n);
    int a = rush_dim_wrap(in[2].ints[0], n), b = a < 0 ? -1 : rush_dim_wrap(in[2].ints[1], n);
    if (b < 0) return -1;
    RUSH_CHECK(a != b, RUSH_RUNTIME_ERROR, "expected rotation dims to be different, but got dim0 = %lld and dim1 = %lld", (long long)in[2].ints[0],
               (long long)in[2].ints[1]);
    if (k == 0) return rush_result(out, T("clone", V(self), ((rush_value){.kind = RUSH_V_MEMORY_FORMAT, .i = RUSH_CONTIGUOUS})));
    rush_tensor *t = T("flip", V(self), k == 2 ? in[2] : INTS(k == 1 ? b : a));
    return rush_result(out, k == 2 ? t : transpose(t, a, b));
}

static rush_op op_rot90 = {
    .schema = "rot90(Tensor self, int k=1, int[] dims=[0,1]) -> Tensor", .method = RUSH_METHOD, .node = "Rot90Backward0",
    .doc = "Turned k times by 90 degrees in the plane of two dims, from the first towards the second.", .run = rot90_run, .flags = RUSH_WHOLE,
};

RUSH_FAMILY(repeat, &op_repeat, &op_tile, &op_repeat_interleave, &op_repeat_interleave_tensor, &op_repeat_interleave_int, &op_roll, &op_flip,
            &op_fliplr, &op_flipud, &op_rot90)
