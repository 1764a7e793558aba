/* device.h - what all .cu files stand on: KERNEL, the number of a thread, elements of any dtype.
 *
 *     KERNEL(name, params) { for (int64_t i = FIRST; i < p.n; i += ALL) ... }
 *
 * is a kernel of one structure, found by its name. nvcc compiles it for the device, a C++ compiler for the emulator.
 */
#ifndef RUSH_CUDA_DEVICE_H
#define RUSH_CUDA_DEVICE_H

#ifdef __CUDACC__
#define KERNEL_(name, params, ...) extern "C" __global__ void __launch_bounds__(__VA_ARGS__) name(const __grid_constant__ params p)
#define SHARED_MEMORY extern __shared__ __align__(128) unsigned char shared_memory[]
#define UNROLLED _Pragma("unroll") /* whatever its body takes: arrays that it indexes are registers then */
#define ROLLED _Pragma("unroll 1") /* before a loop: it stays one, or hundreds of kernels grow fourfold */
#else
#include "cuda/emulate.h"
#define TEXT_(word) #word
#define TEXT(word) TEXT_(word)
#define KERNEL_(name, params, ...)                                                                          \
    static void kernel_##name(const params &p);                                                             \
    static emulated::registration registered_##name(#name, TEXT(CUDA_FILE), [](const void *given) { kernel_##name(*(const params *)given); }, sizeof(params)); \
    static void kernel_##name(const params &p)
#define UNROLLED
#define ROLLED
#define SHARED_MEMORY unsigned char *const shared_memory = emulated::shared_memory
#endif
#define KERNEL(name, params) KERNEL_(name, params, CUDA_THREADS)
#define KERNEL_OF(threads, name, params) KERNEL_(name, params, threads) /* whose blocks have that many */
#define KERNEL_WIDE(name, params) KERNEL_(name, params, CUDA_THREADS, 3) /* of whose blocks three are to be on a multiprocessor: ptxas would make room for more, and spill */
#include "cuda/params.h"

#define FN __device__ __forceinline__
#define FIRST ((int64_t)blockIdx.x * CUDA_THREADS + threadIdx.x) /* of a KERNEL, whose blocks have that many: blockDim would take a register */
#define ALL ((int64_t)gridDim.x * CUDA_THREADS)

/* name_1 to name_16, for elements of so many bytes that move as they are: template <class T> FN void function(const params &). */
struct sixteen { uint64_t half[2]; };
#define KERNELS_BY_SIZE(name, params, function)                                                             \
    KERNEL_WIDE(name##_1, params) { function<uint8_t>(p); }                                                 \
    KERNEL_WIDE(name##_2, params) { function<uint16_t>(p); }                                                \
    KERNEL_WIDE(name##_4, params) { function<uint32_t>(p); }                                                \
    KERNEL_WIDE(name##_8, params) { function<uint64_t>(p); }                                                \
    KERNEL(name##_16, params) { function<sixteen>(p); }

/* As in rushlight.h. */
enum rush_dtype_of_device {
    RUSH_BOOL, RUSH_U8, RUSH_I8, RUSH_I16, RUSH_I32, RUSH_I64, RUSH_U16, RUSH_U32, RUSH_U64, RUSH_F16, RUSH_BF16, RUSH_F32, RUSH_F64,
    RUSH_C32, RUSH_C64, RUSH_C128
};
enum { LAZY_CONJ = 8, LAZY_NEG = 16 };

/* ---- half types ---- */

FN float f16_to_float(uint16_t h)
{
#ifdef __CUDACC__
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
    return f;
#else
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 0x3ff;
    if (e == 31) return __uint_as_float(sign | 0x7f800000 | m << 13);
    if (e) return __uint_as_float(sign | (e + 112) << 23 | m << 13);
    float small = (float)m * 0x1p-24f;
    return sign ? -small : small;
#endif
}

FN uint16_t float_to_f16(float f)
{
#ifdef __CUDACC__
    uint16_t h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
    return h;
#else
    uint32_t u = __float_as_uint(f), sign = u >> 16 & 0x8000;
    u &= 0x7fffffff;
    if (u > 0x7f800000) return (uint16_t)(sign | 0x7e00);
    if (u >= 0x477ff000) return (uint16_t)(sign | 0x7c00);
    if (u < 0x38800000) /* rounded where the last digit of subnormal numbers is that of a float */
        return (uint16_t)(sign | (__float_as_uint(__uint_as_float(u) + 0.5f) - 0x3f000000));
    return (uint16_t)(sign | ((u + 0xfff + (u >> 13 & 1) - 0x38000000) >> 13));
#endif
}

FN float bf16_to_float(uint16_t h) { return __uint_as_float((uint32_t)h << 16); }
FN uint16_t float_to_bf16(float f)
{
    uint32_t u = __float_as_uint(f);
    return f != f ? 0x7fc0 : (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

/* ---- complex numbers: as PyTorch has them on devices, without C's care for infinities in products ---- */

template <class R> struct complex_of {
    R re, im;
    complex_of() = default;
    FN complex_of(R re, R im = 0) : re(re), im(im) {}
};
template <class R> FN complex_of<R> operator+(complex_of<R> a, complex_of<R> b) { return {a.re + b.re, a.im + b.im}; }
template <class R> FN complex_of<R> operator-(complex_of<R> a, complex_of<R> b) { return {a.re - b.re, a.im - b.im}; }
template <class R> FN complex_of<R> operator-(complex_of<R> a) { return {-a.re, -a.im}; }
template <class R> FN complex_of<R> operator*(complex_of<R> a, complex_of<R> b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
/* Smith's way: of the divisor's parts the larger one goes first */
template <class R> FN complex_of<R> operator/(complex_of<R> a, complex_of<R> b)
{
    if (fabs(b.re) >= fabs(b.im)) {
        if (b.re == 0 && b.im == 0) return {a.re / b.re, a.im / b.re};
        R r = b.im / b.re, d = b.re + b.im * r;
        return {(a.re + a.im * r) / d, (a.im - a.re * r) / d};
    }
    R r = b.re / b.im, d = b.re * r + b.im;
    return {(a.re * r + a.im) / d, (a.im * r - a.re) / d};
}
template <class R> FN bool operator==(complex_of<R> a, complex_of<R> b) { return a.re == b.re && a.im == b.im; }
template <class R> FN bool operator!=(complex_of<R> a, complex_of<R> b) { return !(a == b); }

/* ---- elements ---- */

/* Bool, as it lies in memory: bytes that are 0 or 1. */
struct truth { uint8_t v; };

template <class T> struct as { template <class F> static FN T of(F v) { return (T)v; } template <class R> static FN T of(complex_of<R> v) { return (T)v.re; } };
template <> struct as<truth> {
    template <class F> static FN truth of(F v) { return {(uint8_t)(v != F(0))}; }
    template <class R> static FN truth of(complex_of<R> v) { return {(uint8_t)(v.re != 0 || v.im != 0)}; }
};
template <class R> struct as<complex_of<R>> {
    template <class F> static FN complex_of<R> of(F v) { return {(R)v, 0}; }
    template <class Q> static FN complex_of<R> of(complex_of<Q> v) { return {(R)v.re, (R)v.im}; }
};

template <class T> FN T lazily(T v, int lazy) { return lazy & LAZY_NEG ? as<T>::of(-v) : v; }
FN truth lazily(truth v, int lazy) { return v; }
template <class R> FN complex_of<R> lazily(complex_of<R> v, int lazy)
{
    if (lazy & LAZY_CONJ) v.im = -v.im;
    return lazy & LAZY_NEG ? -v : v;
}

/* The element at p of any dtype, as T. A call: so long a choice is not to stand in every kernel. */
template <class T> __device__ __noinline__ T load(const void *p, int dtype)
{
    switch (dtype) {
    case RUSH_BOOL: return as<T>::of((int)(*(const uint8_t *)p != 0));
    case RUSH_U8: return as<T>::of(*(const uint8_t *)p);
    case RUSH_I8: return as<T>::of(*(const int8_t *)p);
    case RUSH_I16: return as<T>::of(*(const int16_t *)p);
    case RUSH_I32: return as<T>::of(*(const int32_t *)p);
    case RUSH_I64: return as<T>::of(*(const int64_t *)p);
    case RUSH_U16: return as<T>::of(*(const uint16_t *)p);
    case RUSH_U32: return as<T>::of(*(const uint32_t *)p);
    case RUSH_U64: return as<T>::of(*(const uint64_t *)p);
    case RUSH_F16: return as<T>::of(f16_to_float(*(const uint16_t *)p));
    case RUSH_BF16: return as<T>::of(bf16_to_float(*(const uint16_t *)p));
    case RUSH_F32: return as<T>::of(*(const float *)p);
    case RUSH_F64: return as<T>::of(*(const double *)p);
    case RUSH_C32: return as<T>::of(complex_of<float>(f16_to_float(((const uint16_t *)p)[0]), f16_to_float(((const uint16_t *)p)[1])));
    case RUSH_C64: return as<T>::of(*(const complex_of<float> *)p);
    default: return as<T>::of(*(const complex_of<double> *)p);
    }
}

/* Floating numbers become integers of 64 bits first: so those outside wrap as PyTorch's do. */
template <class I> struct narrow { template <class F> static FN I of(F v) { return (I)v; } static FN I of(float v) { return (I)(int64_t)v; } static FN I of(double v) { return (I)(int64_t)v; } };
template <class I, class F> FN I integer(F v) { return narrow<I>::of(v); }
template <class I, class R> FN I integer(complex_of<R> v) { return narrow<I>::of(v.re); }
template <class I> FN I integer(truth v) { return v.v; }
template <class F> FN double real_of(F v) { return (double)v; }
template <class R> FN double real_of(complex_of<R> v) { return (double)v.re; }
FN double real_of(truth v) { return v.v; }
template <class F> FN float float_of(F v) { return (float)v; }
template <class R> FN float float_of(complex_of<R> v) { return (float)v.re; }
FN float float_of(truth v) { return v.v; }
template <class R, class F> FN complex_of<R> complex_from(F v) { return as<complex_of<R>>::of(v); }
template <class R> FN complex_of<R> complex_from(truth v) { return {(R)v.v, 0}; }

template <class T> __device__ __noinline__ void store(void *p, int dtype, T v)
{
    switch (dtype) {
    case RUSH_BOOL: *(uint8_t *)p = as<truth>::of(v).v; break;
    case RUSH_U8: *(uint8_t *)p = integer<uint8_t>(v); break;
    case RUSH_I8: *(int8_t *)p = integer<int8_t>(v); break;
    case RUSH_I16: *(int16_t *)p = integer<int16_t>(v); break;
    case RUSH_I32: *(int32_t *)p = integer<int32_t>(v); break;
    case RUSH_I64: *(int64_t *)p = integer<int64_t>(v); break;
    case RUSH_U16: *(uint16_t *)p = integer<uint16_t>(v); break;
    case RUSH_U32: *(uint32_t *)p = integer<uint32_t>(v); break;
    case RUSH_U64: *(uint64_t *)p = integer<uint64_t>(v); break;
    case RUSH_F16: *(uint16_t *)p = float_to_f16(float_of(v)); break;
    case RUSH_BF16: *(uint16_t *)p = float_to_bf16(float_of(v)); break;
    case RUSH_F32: *(float *)p = float_of(v); break;
    case RUSH_F64: *(double *)p = real_of(v); break;
    case RUSH_C32: {
        complex_of<float> c = complex_from<float>(v);
        ((uint16_t *)p)[0] = float_to_f16(c.re);
        ((uint16_t *)p)[1] = float_to_f16(c.im);
        break;
    }
    case RUSH_C64: *(complex_of<float> *)p = complex_from<float>(v); break;
    default: *(complex_of<double> *)p = complex_from<double>(v);
    }
}
template <> __device__ inline void store<truth>(void *p, int dtype, truth v) { store<uint8_t>(p, dtype, v.v); }

template <class T> struct dtype_of;
template <> struct dtype_of<truth> { enum { is = RUSH_BOOL }; };
template <> struct dtype_of<uint8_t> { enum { is = RUSH_U8 }; };
template <> struct dtype_of<int32_t> { enum { is = RUSH_I32 }; };
template <> struct dtype_of<int64_t> { enum { is = RUSH_I64 }; };
template <> struct dtype_of<uint64_t> { enum { is = RUSH_U64 }; };
template <> struct dtype_of<float> { enum { is = RUSH_F32 }; };
template <> struct dtype_of<double> { enum { is = RUSH_F64 }; };
template <> struct dtype_of<complex_of<float>> { enum { is = RUSH_C64 }; };
template <> struct dtype_of<complex_of<double>> { enum { is = RUSH_C128 }; };

/* The same where most often it is T already: without a call then, and what a call takes in registers. */
template <class T> FN T element(const void *p, int dtype) { return dtype == dtype_of<T>::is ? *(const T *)p : load<T>(p, dtype); }

/* ---- the walk ---- */

/* How far element i lies from the first one, for each of N operands. */
template <int N> FN void locate(const cuda_walk &w, int64_t i, int64_t *far)
{
    for (int k = 0; k < N; k++) far[k] = 0;
    ROLLED
    for (int d = 0; d < w.ndim; d++) {
        int64_t next, at;
        if (d + 1 == w.ndim) next = 0, at = i;
        else if ((i | w.size[d]) >> 32) next = i / w.size[d], at = i - next * w.size[d];
        else next = (uint32_t)i / (uint32_t)w.size[d], at = i - next * w.size[d]; /* divisions of 64 bits are slow */
        for (int k = 0; k < N; k++) far[k] += at * w.stride[k][d];
        i = next;
    }
}

template <class T> FN T operand(const cuda_walk &w, int k, int64_t far)
{
    if (!w.p[k]) return *(const T *)w.number[k];
    return lazily(element<T>((const char *)w.p[k] + far, w.dtype[k]), w.lazy[k]);
}

/* N elements side by side, that are read and written at once; as many as 16 bytes hold. */
template <class T, int N> struct alignas(sizeof(T) * N) results { T v[N]; };
template <class T> using pack = results<T, 16 / sizeof(T)>;

FN void report(cuda_fault *fault, unsigned code, int64_t value, int64_t limit)
{
    fault->value = value;
    fault->limit = limit;
    fault->code = code;
}

#endif
