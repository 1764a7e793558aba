/* create.c - new tensors: empty, zeros, ones, full and their _like and new_ forms, eye, triangles, complex.
 *
 * Arguments that are left out come from the default dtype, from `self`, or from the fill value. Sequences of
 * numbers (arange, linspace, windows) are in range.c.
 */
#include "kernels/cpu/create.h"
#include <math.h>
#include <stdatomic.h>
#include "op/formula.h"
#include "ops/create/factory.h"
#include "ops/create/pin.h"
#include "ops/elementwise/pointwise.h"
#include "ops/geometry.h"
#include "tensor/sparse.h"

#define SELF (in[0].t)
#define OPTIONS "*, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None"

int rush_factory_read_any(factory *f, const rush_value *v, int dtype, const rush_tensor *like)
{
    f->dtype = HAS(v[0]) ? (rush_dtype)I_(v[0]) : (rush_dtype)dtype;
    f->device = HAS(v[2]) ? v[2].device : like ? like->device : (rush_device){RUSH_CPU, -1};
    f->layout = HAS(v[1]) ? (rush_layout)I_(v[1]) : RUSH_STRIDED;
    if (f->dtype == RUSH_C32) RUSH_WARN_ONCE("ComplexHalf support is experimental and many operators don't support it yet.");
    return rush_pin_check(v[3], f->device);
}

int rush_factory_read(factory *f, const rush_value *v, int dtype, const rush_tensor *like)
{
    if (rush_factory_read_any(f, v, dtype, like)) return -1;
    RUSH_CHECK(f->layout == RUSH_STRIDED, RUSH_RUNTIME_ERROR, "the function is not implemented for sparse layout: only empty and zeros are");
    return 0;
}

static int make(rush_value *out, const factory *f, rush_value size)
{
    RUSH_CHECK(size.n <= RUSH_MAXDIM, RUSH_NOT_IMPLEMENTED, "tensors have at most %d dimensions, not %u", RUSH_MAXDIM, size.n);
    if (f->layout != RUSH_STRIDED) return rush_result(out, rush_sparse_empty(f->layout, f->dtype, f->device, (int)size.n, size.ints));
    return rush_out(out, 0, f->dtype, f->device, (int)size.n, size.ints) ? 0 : -1;
}

/* What full() takes a number for: complex64 where the default has two bytes. */
static rush_dtype number_dtype(rush_value v)
{
    rush_dtype d = rush_number_dtype(v);
    return d == RUSH_C32 ? RUSH_C64 : d;
}

/* ---- of a size ---- */

static int empty_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    factory f;
    if (rush_factory_read_any(&f, in + 1, rush_default_dtype(), NULL)) return -1;
    if (!HAS(in[5]) || I_(in[5]) == RUSH_CONTIGUOUS || HAS(out[0])) return make(out, &f, in[0]);
    int format = (int)I_(in[5]), want = format == RUSH_CHANNELS_LAST ? 4 : 5;
    int64_t stride[RUSH_MAXDIM];
    RUSH_CHECK(format != RUSH_PRESERVE, RUSH_RUNTIME_ERROR, "Preserve memory format is not supported by empty.memory_format");
    RUSH_CHECK((int)in[0].n == want, RUSH_RUNTIME_ERROR, "required rank %d tensor to use %s format", want, want == 4 ? "channels_last" : "channels_last_3d");
    rush_strides_for(format, want, in[0].ints, stride);
    rush_tensor *t = rush_tensor_new_strided(f.dtype, f.device, want, in[0].ints, stride);
    if (!t) return -1;
    rush_out_view(out, 0, t);
    return 0;
}

static int empty_strided_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    factory f;
    RUSH_CHECK(in[0].n == in[1].n, RUSH_RUNTIME_ERROR, "dimensionality of sizes (%u) must match dimensionality of strides (%u)", in[0].n, in[1].n);
    if (rush_factory_read(&f, in + 2, rush_default_dtype(), NULL)) return -1;
    rush_tensor *t = rush_tensor_new_strided(f.dtype, f.device, (int)in[0].n, in[0].ints, in[1].ints);
    if (!t) return -1;
    rush_out_view(out, 0, t);
    return 0;
}

/* The strides of a contiguous tensor whose dims lie in this order, the outermost first. */
static int empty_permuted_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    factory f;
    int64_t stride[RUSH_MAXDIM], step = 1;
    bool seen[RUSH_MAXDIM] = {false};
    int n = (int)in[0].n;
    RUSH_CHECK(in[0].n == in[1].n, RUSH_RUNTIME_ERROR,
               "Number of dimensions in size does not match the length of the physical_layout; i.e. len(size) = %u is not equal to len(physical_layout) = %u",
               in[0].n, in[1].n);
    RUSH_CHECK(n <= RUSH_MAXDIM, RUSH_NOT_IMPLEMENTED, "tensors have at most %d dimensions, not %d", RUSH_MAXDIM, n);
    for (int k = n - 1; k >= 0; --k) {
        int64_t d = in[1].ints[k];
        RUSH_CHECK(d >= 0 && d < n, RUSH_RUNTIME_ERROR,
                   "Dimension out of range (expected to be between 0 and %d, but got %lld at index %d).  NB: negative dims not currently supported", n - 1,
                   (long long)d, k);
        RUSH_CHECK(!seen[d], RUSH_RUNTIME_ERROR, "Duplicate dim not allowed");
        RUSH_CHECK(in[0].ints[d] >= 0, RUSH_RUNTIME_ERROR, "Trying to create tensor with negative dimension %lld", (long long)in[0].ints[d]);
        seen[d] = true;
        stride[d] = step;
        RUSH_CHECK(!__builtin_mul_overflow(step, RUSH_MAX(in[0].ints[d], 1), &step), RUSH_RUNTIME_ERROR, "Stride calculation overflowed");
    }
    if (rush_factory_read(&f, in + 2, rush_default_dtype(), NULL)) return -1;
    rush_tensor *t = rush_tensor_new_strided(f.dtype, f.device, n, in[0].ints, stride);
    if (t) rush_out_view(out, 0, t);
    return t ? 0 : -1;
}

static int sized_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    factory f;
    return rush_factory_read(&f, in + 1, rush_default_dtype(), NULL) ? -1 : make(out, &f, in[0]);
}

static int zeros_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    factory f;
    if (rush_factory_read_any(&f, in + 1, rush_default_dtype(), NULL)) return -1;
    if (!f.layout && f.device.type != RUSH_META) /* PyTorch's zeros looks before the others do, and has words of its own */
        for (int d = 0; d < (int)in[0].n; ++d) RUSH_CHECK(in[0].ints[d] >= 0, RUSH_RUNTIME_ERROR, "zeros: Dimension size must be non-negative.");
    return make(out, &f, in[0]);
}

static int full_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    factory f;
    int dtype = HAS(out[0]) && out[0].kind == RUSH_V_TENSOR ? out[0].t->dtype : number_dtype(in[1]);
    return rush_factory_read(&f, in + 2, dtype, NULL) || make(out, &f, in[0]) ? -1 : rush_filled_fits(in[1], out[0].t);
}

static atomic_bool fresh_filled;

void rush_fresh_filled(bool on) { atomic_store(&fresh_filled, on); }

void rush_fresh_fill(rush_tensor *t)
{
    if (!atomic_load_explicit(&fresh_filled, memory_order_relaxed) || t->layout) return;
    const rush_dtype_info *d = &rush_dtypes[t->dtype];
    if (d->category >= 2) rush_fill_into(t, rush_v_float(NAN));
    else if (d->category == 1) rush_fill_into(t, rush_v_int(d->size == 8 ? (t->dtype == RUSH_U64 ? -1 : INT64_MAX) : ((int64_t)1 << (d->size * 8 - d->is_signed)) - 1));
    else rush_fill_into(t, rush_v_int(1));
}

static void fresh_cpu(const rush_op *op, const rush_value *in, rush_value *out) { rush_fresh_fill(out[0].t); }
static void zeros_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (!out[0].t->layout) rush_zero_into(out[0].t); /* sparse ones are made without entries */
}
static void ones_cpu(const rush_op *op, const rush_value *in, rush_value *out) { rush_fill_into(out[0].t, rush_v_int(1)); }
static void full_cpu(const rush_op *op, const rush_value *in, rush_value *out) { rush_fill_into(out[0].t, in[1]); }

static rush_op op_empty = {
    .schema = "empty.memory_format(SymInt[] size, " OPTIONS ", MemoryFormat? memory_format=None) -> Tensor",
    .doc = "A tensor of a size whose elements are not initialised.", .shape = empty_shape, .cpu = fresh_cpu, .flags = RUSH_NO_GRAD,
};
static rush_op op_empty_strided = {
    .schema = "empty_strided(SymInt[] size, SymInt[] stride, " OPTIONS ") -> Tensor",
    .doc = "A tensor of a size and strides whose elements are not initialised.", .shape = empty_strided_shape, .cpu = fresh_cpu, .flags = RUSH_NO_GRAD,
};
static rush_op op_empty_permuted = {
    .schema = "empty_permuted(SymInt[] size, int[] physical_layout, " OPTIONS ") -> Tensor",
    .doc = "A tensor not initialised whose dims lie in memory in the order of physical_layout.", .shape = empty_permuted_shape, .cpu = fresh_cpu,
    .flags = RUSH_NO_GRAD,
};
static rush_op op_zeros = {
    .schema = "zeros(SymInt[] size, " OPTIONS ") -> Tensor", .doc = "A tensor of zeros.",
    .shape = zeros_shape, .cpu = zeros_cpu, .flags = RUSH_NO_GRAD | RUSH_STRIDED_OUT,
};
static rush_op op_ones = {
    .schema = "ones(SymInt[] size, " OPTIONS ") -> Tensor", .doc = "A tensor of ones.",
    .shape = sized_shape, .cpu = ones_cpu, .flags = RUSH_NO_GRAD | RUSH_STRIDED_OUT,
};
static rush_op op_full = {
    .schema = "full(SymInt[] size, Scalar fill_value, " OPTIONS ") -> Tensor",
    .doc = "A tensor of one number, whose kind decides the dtype if none is given.",
    .shape = full_shape, .cpu = full_cpu, .flags = RUSH_NO_GRAD | RUSH_STRIDED_OUT,
};

static int scalar_tensor_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    factory f;
    return rush_factory_read(&f, in + 1, rush_default_dtype(), NULL) || make(out, &f, rush_v_ints(NULL, 0)) ? -1 : rush_filled_fits(in[0], out[0].t);
}

static void scalar_tensor_cpu(const rush_op *op, const rush_value *in, rush_value *out) { rush_fill_into(out[0].t, in[0]); }

static rush_op op_scalar_tensor = {
    .schema = "scalar_tensor(Scalar s, " OPTIONS ") -> Tensor",
    .doc = "A number as a 0-d tensor.", .shape = scalar_tensor_shape, .cpu = scalar_tensor_cpu, .flags = RUSH_NO_GRAD,
};

/* ---- like another ---- */

/* `v` has dtype, layout, device, pin_memory, memory_format */
static int like_shape(const rush_value *in, const rush_value *v, rush_value *out)
{
    factory f;
    if (rush_factory_read(&f, v, SELF->dtype, SELF)) return -1;
    if (HAS(out[0])) return rush_out(out, 0, f.dtype, f.device, SELF->ndim, SELF->size) ? 0 : -1;
    rush_tensor *t = rush_tensor_new_like(SELF, f.dtype, f.device, HAS(v[4]) ? (int)I_(v[4]) : RUSH_PRESERVE);
    if (!t) return -1;
    rush_out_view(out, 0, t);
    return 0;
}

static int plain_like_shape(const rush_op *op, const rush_value *in, rush_value *out) { return like_shape(in, in + 1, out); }

static int zeros_like_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    factory f;
    if (rush_factory_read_any(&f, in + 1, SELF->dtype, SELF)) return -1;
    return f.layout == RUSH_STRIDED ? plain_like_shape(op, in, out) : make(out, &f, rush_v_ints(SELF->size, SELF->ndim));
}

static int full_like_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    return like_shape(in, in + 2, out) ? -1 : rush_filled_fits(in[1], out[0].t);
}

static rush_op op_empty_like = {
    .schema = "empty_like(Tensor self, " OPTIONS ", MemoryFormat? memory_format=None) -> Tensor",
    .doc = "A tensor of self's size, dtype and memory format whose elements are not initialised.",
    .shape = zeros_like_shape, .cpu = fresh_cpu, .flags = RUSH_NO_GRAD,
};
static rush_op op_zeros_like = {
    .schema = "zeros_like(Tensor self, " OPTIONS ", MemoryFormat? memory_format=None) -> Tensor",
    .doc = "Zeros of self's size, dtype and memory format.", .shape = zeros_like_shape, .cpu = zeros_cpu, .flags = RUSH_NO_GRAD,
};
static rush_op op_ones_like = {
    .schema = "ones_like(Tensor self, " OPTIONS ", MemoryFormat? memory_format=None) -> Tensor",
    .doc = "Ones of self's size, dtype and memory format.", .shape = plain_like_shape, .cpu = ones_cpu, .flags = RUSH_NO_GRAD,
};
static rush_op op_full_like = {
    .schema = "full_like(Tensor self, Scalar fill_value, " OPTIONS ", MemoryFormat? memory_format=None) -> Tensor",
    .doc = "One number in all places of a tensor of self's size, dtype and memory format.",
    .shape = full_like_shape, .cpu = full_cpu, .flags = RUSH_NO_GRAD,
};

static int new_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    factory f;
    return rush_factory_read(&f, in + 2, SELF->dtype, SELF) ? -1 : make(out, &f, in[1]);
}

static int new_zeros_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    factory f;
    return rush_factory_read_any(&f, in + 2, SELF->dtype, SELF) ? -1 : make(out, &f, in[1]);
}

static int new_full_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    factory f;
    return rush_factory_read(&f, in + 3, SELF->dtype, SELF) || make(out, &f, in[1]) ? -1 : rush_filled_fits(in[2], out[0].t);
}

static int new_strided_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    factory f;
    RUSH_CHECK(in[1].n == in[2].n, RUSH_RUNTIME_ERROR, "dimensionality of sizes (%u) must match dimensionality of strides (%u)", in[1].n, in[2].n);
    if (rush_factory_read(&f, in + 3, SELF->dtype, SELF)) return -1;
    rush_tensor *t = rush_tensor_new_strided(f.dtype, f.device, (int)in[1].n, in[1].ints, in[2].ints);
    if (!t) return -1;
    rush_out_view(out, 0, t);
    return 0;
}

static void new_full_cpu(const rush_op *op, const rush_value *in, rush_value *out) { rush_fill_into(out[0].t, in[2]); }

static rush_op op_new_empty = {
    .schema = "new_empty(Tensor self, SymInt[] size, " OPTIONS ") -> Tensor", .method = RUSH_METHOD | RUSH_NO_FUNCTION,
    .doc = "empty() of self's dtype and device.", .shape = new_zeros_shape, .cpu = fresh_cpu, .flags = RUSH_NO_GRAD,
};
static rush_op op_new_zeros = {
    .schema = "new_zeros(Tensor self, SymInt[] size, " OPTIONS ") -> Tensor", .method = RUSH_METHOD | RUSH_NO_FUNCTION,
    .doc = "zeros() of self's dtype and device.", .shape = new_zeros_shape, .cpu = zeros_cpu, .flags = RUSH_NO_GRAD,
};
static rush_op op_new_ones = {
    .schema = "new_ones(Tensor self, SymInt[] size, " OPTIONS ") -> Tensor", .method = RUSH_METHOD | RUSH_NO_FUNCTION,
    .doc = "ones() of self's dtype and device.", .shape = new_shape, .cpu = ones_cpu, .flags = RUSH_NO_GRAD,
};
static rush_op op_new_full = {
    .schema = "new_full(Tensor self, SymInt[] size, Scalar fill_value, " OPTIONS ") -> Tensor", .method = RUSH_METHOD | RUSH_NO_FUNCTION,
    .doc = "full() of self's dtype and device.", .shape = new_full_shape, .cpu = new_full_cpu, .flags = RUSH_NO_GRAD,
};
static rush_op op_new_empty_strided = {
    .schema = "new_empty_strided(Tensor self, SymInt[] size, SymInt[] stride, " OPTIONS ") -> Tensor", .method = RUSH_METHOD | RUSH_NO_FUNCTION,
    .doc = "empty_strided() of self's dtype and device.", .shape = new_strided_shape, .cpu = fresh_cpu, .flags = RUSH_NO_GRAD,
};

/* ---- eye ---- */

static int eye_make(rush_value *out, const rush_value *options, int64_t n, int64_t m)
{
    factory f;
    const int64_t size[2] = {n, m};
    RUSH_CHECK(n >= 0, RUSH_RUNTIME_ERROR, "n must be greater or equal to 0, got %lld", (long long)n);
    RUSH_CHECK(m >= 0, RUSH_RUNTIME_ERROR, "m must be greater or equal to 0, got %lld", (long long)m);
    int dtype = out[0].kind == RUSH_V_TENSOR ? out[0].t->dtype : rush_default_dtype();
    return rush_factory_read(&f, options, dtype, NULL) ? -1 : make(out, &f, rush_v_ints(size, 2));
}

static int eye_shape(const rush_op *op, const rush_value *in, rush_value *out) { return eye_make(out, in + 1, I_(in[0]), I_(in[0])); }
static int eye_m_shape(const rush_op *op, const rush_value *in, rush_value *out) { return eye_make(out, in + 2, I_(in[0]), I_(in[1])); }

static void eye_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    geometry g;
    rush_zero_into(out[0].t);
    if (rush_geometry_diagonal(&g, out[0].t, 0, 0, 1)) return;
    rush_tensor *diagonal = rush_geometry_view(out[0].t, &g);
    if (diagonal) rush_fill_into(diagonal, rush_v_int(1));
}

static rush_op op_eye = {
    .schema = "eye(SymInt n, " OPTIONS ") -> Tensor",
    .doc = "The identity matrix of n rows.", .shape = eye_shape, .cpu = eye_cpu, .flags = RUSH_NO_GRAD | RUSH_STRIDED_OUT,
};
static rush_op op_eye_m = {
    .schema = "eye.m(SymInt n, SymInt m, " OPTIONS ") -> Tensor",
    .doc = "n rows and m columns with ones on the diagonal.", .shape = eye_m_shape, .cpu = eye_cpu, .flags = RUSH_NO_GRAD | RUSH_STRIDED_OUT,
};

/* ---- triangles ---- */

typedef struct triangle {
    const char *src;
    char *dst;
    int64_t rows, cols, item, diagonal;
    bool upper;
} triangle;

/* Row r keeps columns below (or from) cut. */
static void triangle_rows(void *arg, int64_t begin, int64_t end)
{
    const triangle *t = arg;
    int64_t row = t->cols * t->item;
    for (int64_t i = begin; i < end; ++i) {
        int64_t cut = i % t->rows + t->diagonal + (t->upper ? 0 : 1);
        cut = RUSH_MAX(0, RUSH_MIN(cut, t->cols)) * t->item;
        char *d = t->dst + i * row;
        const char *s = t->src + i * row;
        if (t->upper) {
            memset(d, 0, (size_t)cut);
            memcpy(d + cut, s + cut, (size_t)(row - cut));
        } else {
            memcpy(d, s, (size_t)cut);
            memset(d + cut, 0, (size_t)(row - cut));
        }
    }
}

static int triangle_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(SELF->ndim >= 2, RUSH_RUNTIME_ERROR, "input tensor must have at least 2 dimensions, but has sizes %s", rush_shape_of(SELF));
    return rush_out_t(out, 0, SELF, SELF->dtype, SELF->ndim, SELF->size) ? 0 : -1;
}

static void triangle_of(const rush_value *in, rush_value *out, bool upper)
{
    rush_tensor *src = rush_contiguous_copy(SELF), *dst = out[0].t;
    if (!src || !src->numel) return;
    int64_t limit = INT64_MAX / 4, k = I_(in[1]);
    triangle t = {rush_ptr(src), rush_ptr(dst), src->size[src->ndim - 2], src->size[src->ndim - 1], rush_dtypes[src->dtype].size,
                  RUSH_MAX(-limit, RUSH_MIN(k, limit)), upper};
    rush_parallel_for(src->numel / t.cols, 1 + 65536 / (t.cols + 1), triangle_rows, &t);
}

static void tril_cpu(const rush_op *op, const rush_value *in, rush_value *out) { triangle_of(in, out, false); }
static void triu_cpu(const rush_op *op, const rush_value *in, rush_value *out) { triangle_of(in, out, true); }
static void tril_grad(rush_grads *s) { if (s->g[0]) s->gin[0] = T("tril", V(s->g[0]), s->in[1]); }
static void triu_grad(rush_grads *s) { if (s->g[0]) s->gin[0] = T("triu", V(s->g[0]), s->in[1]); }

static rush_op op_tril = {
    .schema = "tril(Tensor self, SymInt diagonal=0) -> Tensor", .method = RUSH_METHODS,
    .doc = "The lower triangle of matrices, zeros above the given diagonal.",
    .shape = triangle_shape, .cpu = tril_cpu, .grad = tril_grad, .flags = RUSH_INPLACE_OK,
};
static rush_op op_triu = {
    .schema = "triu(Tensor self, SymInt diagonal=0) -> Tensor", .method = RUSH_METHODS,
    .doc = "The upper triangle of matrices, zeros below the given diagonal.",
    .shape = triangle_shape, .cpu = triu_cpu, .grad = triu_grad, .flags = RUSH_INPLACE_OK,
};

/* Columns [first, last) of row r that belong to a triangle. */
static void triangle_span(int64_t r, int64_t cols, int64_t offset, bool upper, int64_t *first, int64_t *last)
{
    __int128 at = (__int128)r + offset;
    *first = upper ? (int64_t)RUSH_MAX(0, RUSH_MIN(at, cols)) : 0;
    *last = upper ? cols : (int64_t)RUSH_MAX(0, RUSH_MIN(at + 1, cols));
}

/* Elements on and below the diagonal `offset`: rows that are cut by it, then full ones. Wide, since sizes may be anything. */
static __int128 lower_count(__int128 rows, __int128 cols, __int128 offset)
{
    __int128 begin = RUSH_MIN(RUSH_MAX(-offset, 0), rows), full = RUSH_MAX(RUSH_MIN(RUSH_MAX(cols - offset - 1, 0), rows), begin);
    return (begin + offset + 1 + full + offset) * (full - begin) / 2 + (rows - full) * cols;
}

static int triangle_indices_shape(const rush_value *in, rush_value *out, bool upper)
{
    factory f;
    int64_t rows = I_(in[0]), cols = I_(in[1]), size[2] = {2, 0};
    RUSH_CHECK(rows >= 0, RUSH_RUNTIME_ERROR, "row must be non-negative, got%lld", (long long)rows);
    RUSH_CHECK(cols >= 0, RUSH_RUNTIME_ERROR, "col must be non-negative, got%lld", (long long)cols);
    __int128 count = lower_count(rows, cols, upper ? (__int128)I_(in[2]) - 1 : I_(in[2]));
    if (upper) count = (__int128)rows * cols - count;
    RUSH_CHECK(count < INT64_MAX / 16, RUSH_MEMORY_ERROR, "the indices of a triangle of %lld x %lld do not fit in memory", (long long)rows, (long long)cols);
    size[1] = (int64_t)count;
    if (rush_factory_read(&f, in + 3, RUSH_I64, NULL)) return -1;
    RUSH_CHECK(f.dtype == RUSH_I64 || f.dtype == RUSH_I32 || f.device.type == RUSH_META, RUSH_NOT_IMPLEMENTED, "\"tri%c_indices\" not implemented for '%s'",
               upper ? 'u' : 'l', rush_dtype_word(f.dtype));
    return make(out, &f, rush_v_ints(size, 2));
}

static void triangle_indices_of(const rush_value *in, rush_value *out, bool upper)
{
    rush_tensor *t = out[0].t;
    int64_t n = t->size[1], rows = I_(in[0]), at = 0, first, last;
    rush_tensor *both = t->dtype == RUSH_I64 && rush_contiguous(t) ? t : rush_tensor_new(RUSH_I64, t->device, 2, t->size);
    if (!both || n == 0) return;
    int64_t *p = rush_ptr(both);
    __int128 offset = I_(in[2]); /* rows that have none are passed over: there may be very many */
    int64_t begin = upper ? 0 : (int64_t)RUSH_MIN(RUSH_MAX(-offset, 0), rows), end = upper ? (int64_t)RUSH_MAX(0, RUSH_MIN(rows, I_(in[1]) - offset)) : rows;
    for (int64_t r = begin; r < end; ++r) {
        triangle_span(r, I_(in[1]), I_(in[2]), upper, &first, &last);
        for (int64_t c = first; c < last; ++c, ++at) {
            p[at] = r;
            p[n + at] = c;
        }
    }
    if (both != t) rush_copy_into(t, both);
}

static int tril_indices_shape(const rush_op *op, const rush_value *in, rush_value *out) { return triangle_indices_shape(in, out, false); }
static int triu_indices_shape(const rush_op *op, const rush_value *in, rush_value *out) { return triangle_indices_shape(in, out, true); }
static void tril_indices_cpu(const rush_op *op, const rush_value *in, rush_value *out) { triangle_indices_of(in, out, false); }
static void triu_indices_cpu(const rush_op *op, const rush_value *in, rush_value *out) { triangle_indices_of(in, out, true); }

#define LONG_OPTIONS "*, ScalarType? dtype=long, Layout? layout=None, Device? device=None, bool? pin_memory=None"
static rush_op op_tril_indices = {
    .schema = "tril_indices(int row, int col, int offset=0, " LONG_OPTIONS ") -> Tensor",
    .doc = "Row and column indices of the lower triangle, as two rows.", .shape = tril_indices_shape, .cpu = tril_indices_cpu, .flags = RUSH_NO_GRAD,
};
static rush_op op_triu_indices = {
    .schema = "triu_indices(int row, int col, int offset=0, " LONG_OPTIONS ") -> Tensor",
    .doc = "Row and column indices of the upper triangle, as two rows.", .shape = triu_indices_shape, .cpu = triu_indices_cpu, .flags = RUSH_NO_GRAD,
};

/* ---- complex numbers of two real ones ---- */

static int complex_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *re = SELF, *im = in[1].t, *both[2] = {re, im};
    bool fits = true;
    for (int k = 0; k < 2; ++k) fits &= both[k]->dtype == RUSH_F16 || both[k]->dtype == RUSH_F32 || both[k]->dtype == RUSH_F64;
    RUSH_CHECK(fits, RUSH_RUNTIME_ERROR, "Expected both inputs to be Half, Float or Double tensors but got %s and %s", rush_dtype_word(re->dtype),
               rush_dtype_word(im->dtype));
    RUSH_CHECK(re->dtype == im->dtype, RUSH_RUNTIME_ERROR, "Expected object of scalar type %s but got scalar type %s for second argument",
               rush_dtype_word(re->dtype), rush_dtype_word(im->dtype));
    rush_dtype want = rush_dtype_complex(re->dtype);
    RUSH_CHECK(!HAS(out[0]) || out[0].t->dtype == want, RUSH_RUNTIME_ERROR, "Expected object of scalar type %s but got scalar type %s for argument 'out'",
               rush_dtype_word(want), rush_dtype_word(out[0].t->dtype));
    return rush_pw_result(out, 0, want, 2, in);
}

static void complex_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    bool wide = SELF->dtype == RUSH_F64;
    rush_value operand[3] = {out[0], in[0], in[1]};
    uint8_t part = wide ? RUSH_F64 : RUSH_F32;
    rush_iterate(1, 3, operand, (const uint8_t[]){wide ? RUSH_C128 : RUSH_C64, part, part}, wide ? rush_k_create->complex64 : rush_k_create->complex32, NULL, 0);
}

static void complex_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0];
    if (!g) return;
    if (rush_needs(s, 0)) s->gin[0] = sum_to_size(T("real", V(g)), s->in[0].t);
    if (rush_needs(s, 1)) s->gin[1] = sum_to_size(T("imag", V(g)), s->in[1].t);
}

static rush_op op_complex = {
    .schema = "complex(Tensor real, Tensor imag) -> Tensor",
    .doc = "Complex numbers from real and imaginary parts.", .shape = complex_shape, .cpu = complex_cpu, .grad = complex_grad, .flags = RUSH_STRIDED_OUT,
};

static int polar_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *r = SELF, *angle = in[1].t;
    RUSH_CHECK(rush_dtype_is_float(r->dtype) && rush_dtype_is_float(angle->dtype), RUSH_RUNTIME_ERROR,
               "Expected both inputs to be Half, Float or Double tensors but got %s and %s", rush_dtype_word(r->dtype), rush_dtype_word(angle->dtype));
    RUSH_CHECK(r->dtype == angle->dtype, RUSH_RUNTIME_ERROR, "Expected object of scalar type %s but got scalar type %s for second argument",
               rush_dtype_word(r->dtype), rush_dtype_word(angle->dtype));
    rush_tensor *re = mul(r, cos_(angle)), *im = mul(r, sin_(angle));
    return rush_result(out, re && im ? T("complex", V(re), V(im)) : NULL);
}

static void polar_grad(rush_grads *s)
{
    rush_tensor *out = s->out[0].t, *g = s->g[0] ? T("conj", V(s->g[0])) : NULL;
    if (!g) return;
    if (rush_needs(s, 0)) s->gin[0] = sum_to_size(T("real", V(mul(g, T("sgn", V(out))))), s->in[0].t);
    if (rush_needs(s, 1)) s->gin[1] = sum_to_size(neg(T("imag", V(mul(g, out)))), s->in[1].t); /* the real part of g i out */
}

static rush_op op_polar = {
    .schema = "polar(Tensor abs, Tensor angle) -> Tensor",
    .doc = "Complex numbers from absolute values and angles.", .run = polar_run, .grad = polar_grad, .saves = "result", .flags = RUSH_AUTOCAST_F32,
};

RUSH_FAMILY(create, &op_empty, &op_empty_strided, &op_empty_permuted, &op_zeros, &op_ones, &op_full, &op_scalar_tensor, &op_empty_like, &op_zeros_like, &op_ones_like,
            &op_full_like, &op_new_empty, &op_new_zeros, &op_new_ones, &op_new_full, &op_new_empty_strided, &op_eye, &op_eye_m, &op_tril, &op_triu,
            &op_tril_indices, &op_triu_indices, &op_complex, &op_polar)
