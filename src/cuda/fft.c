/* fft.c - the three Fourier transforms (complex, real to complex, complex to real): by cuFFT where it is, else dim by dim over the kernel of fft.cu.
 *
 * Of the latter, lines whose length has a large prime factor are left to the host: steps of that radix are too slow.
 */
#include "cuda/column.h"
#include "op/formula.h"

enum { LARGEST_RADIX = 1024 };

static int64_t radix_of(int64_t n)
{
    if (n % 4 == 0) return 4;
    for (int64_t r = 2; r * r <= n; r++)
        if (n % r == 0) return r;
    return n;
}

static bool is_large(int64_t n)
{
    for (; n > 1; n /= radix_of(n))
        if (radix_of(n) > LARGEST_RADIX) return true;
    return false;
}

/* x along a dim, times `scale`. */
static rush_tensor *transform(rush_tensor *x, int dim, bool forward, double scale)
{
    if (!x || !x->numel) return x;
    const bool moved = dim != x->ndim - 1;
    rush_tensor *now = rush_contiguous_copy(moved ? T("movedim.int", V(x), V((int64_t)dim), V((int64_t)-1)) : x);
    cuda_fft p = {.n = x->size[dim], .lines = x->numel / x->size[dim], .done = 1, .scale = 1, .sign = forward ? -1 : 1};
    for (bool first = true; now && (p.done < p.n || first); first = false) {
        rush_tensor *next = rush_tensor_new(now->dtype, now->device, now->ndim, now->size);
        p.radix = radix_of(p.n / p.done);
        if (p.done * p.radix == p.n) p.scale = scale;
        p.x = rush_ptr(now), p.y = next ? rush_ptr(next) : NULL;
        if (!next || cuda_launch(x->device, now->dtype == RUSH_C128 ? "fft_c128" : "fft_c64", &p, x->numel)) return NULL;
        p.done *= p.radix;
        now = next;
    }
    return moved && now ? T("movedim.int", V(now), V((int64_t)-1), V((int64_t)dim)) : now;
}

/* Of numbers of t's size along the dims. */
static double scale_of(const rush_tensor *t, rush_value dims, int64_t norm)
{
    double n = 1;
    for (uint32_t i = 0; i < dims.n; i++) n *= (double)t->size[rush_dim_wrap(dims.ints[i], t->ndim)];
    return norm == 0 ? 1 : norm == 1 ? 1 / __builtin_sqrt(n) : 1 / n;
}

/* Sizes are those of `signal`, be it argument or result. */
static bool is_for_host(const rush_tensor *signal, rush_value dims)
{
    bool large = false;
    for (uint32_t i = 0; i < dims.n; i++) large = large || is_large(signal->size[rush_dim_wrap(dims.ints[i], signal->ndim)]);
    return large;
}

/* By cuFFT, times `scale`? */
static bool by_library(rush_tensor *x, rush_tensor *y, rush_value dims, bool forward, double scale)
{
    const int done = cuda_fft_by_library(x, y, dims, forward);
    if (done == 1 && scale != 1) CUDA_INPLACE("mul.Tensor", V(y), V(scale));
    return done != 0;
}

/* in: self, dim, normalization, forward */
static void c2c(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t;
    const double scale = scale_of(x, in[1], in[2].i);
    if (by_library(x, out[0].t, in[1], in[3].i, scale)) return;
    if (is_for_host(x, in[1])) return cuda_host_run(op, in, out);
    for (uint32_t i = 0; i < in[1].n; i++) x = transform(x, rush_dim_wrap(in[1].ints[i], in[0].t->ndim), in[3].i, i + 1 == in[1].n ? scale : 1);
    if (x) rush_copy_into(out[0].t, x);
}

/* in: self, dim, normalization, onesided */
static void r2c(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t, *y = out[0].t;
    const double scale = scale_of(x, in[1], in[2].i);
    rush_tensor *from = in[3].i ? x : to_dtype(x, y->dtype); /* both halves: as of complex numbers */
    if (!from || by_library(from, y, in[1], true, scale)) return;
    if (is_for_host(x, in[1])) return cuda_host_run(op, in, out);
    const int last = rush_dim_wrap(in[1].ints[in[1].n - 1], x->ndim);
    rush_tensor *z = transform(to_dtype(x, y->dtype), last, true, scale);
    if (z && in[3].i) z = T("narrow", V(z), V((int64_t)last), V((int64_t)0), V(x->size[last] / 2 + 1));
    for (uint32_t i = 0; i + 1 < in[1].n; i++) z = transform(z, rush_dim_wrap(in[1].ints[i], x->ndim), true, 1);
    if (z) rush_copy_into(y, z);
}

/* The first n of x along a dim, behind it zeros. */
static rush_tensor *sized(rush_tensor *x, int dim, int64_t n)
{
    int64_t pad[2 * RUSH_MAXDIM] = {0};
    const int at = x->ndim - 1 - dim;
    if (n <= x->size[dim]) return T("narrow", V(x), V((int64_t)dim), V((int64_t)0), V(n));
    pad[2 * at + 1] = n - x->size[dim];
    return T("constant_pad_nd", V(x), rush_v_ints(pad, 2 * (size_t)(at + 1)), V((int64_t)0));
}

/* in: self, dim, normalization, last_dim_size */
static void c2r(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t, *y = out[0].t;
    if (!y->numel) return;
    const int last = rush_dim_wrap(in[1].ints[in[1].n - 1], x->ndim);
    const int64_t n = in[3].i, half = n / 2 + 1;
    const double scale = scale_of(y, in[1], in[2].i);
    x = sized(x, last, half);
    if (!x || by_library(x, y, in[1], false, scale)) return;
    if (is_for_host(y, in[1])) return cuda_host_run(op, in, out);
    for (uint32_t i = 0; i + 1 < in[1].n; i++) x = transform(x, rush_dim_wrap(in[1].ints[i], y->ndim), false, 1);
    /* the other half is the conjugate, backwards; imaginary parts at both ends give nothing real */
    rush_tensor *parts[2] = {x, n > half && x ? T("narrow", V(x), V((int64_t)last), V((int64_t)1), V(n - half)) : NULL};
    if (parts[1]) parts[1] = conj_(T("flip", V(parts[1]), INTS(last)));
    if (rush_failed()) return;
    x = transform(parts[1] ? T("cat", rush_v_tensors(parts, 2), V((int64_t)last)) : parts[0], last, false, scale);
    if (x) rush_copy_into(y, T("real", V(x)));
}

const cuda_kernel cuda_fft_kernels[] = {{"_fft_c2c", c2c}, {"_fft_r2c", r2c}, {"_fft_c2r", c2r}, {0}};
