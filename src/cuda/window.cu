/* window.cu - windows, borders and resampling over contiguous planes: pooling and its ways back, padding, upsampling.
 *
 * A thread makes a result; ways back add atomically into zeros, since what lies under several windows gets several gradients.
 */
#include "cuda/rows.h"

FN int64_t volume(const int64_t *size) { return size[0] * size[1] * size[2]; }

struct spot { int64_t plane, at[3]; };
/* Result i of all planes. */
FN spot spot_of(const cuda_planes &p, int64_t i)
{
    spot s;
    for (int d = 2; d >= 0; d--) s.at[d] = i % p.result[d], i /= p.result[d];
    s.plane = i;
    return s;
}

/* The window of a result in dimension d: positions from `begin` by `step` below `end`, all inside; `length` counts the padding, too. */
struct window { int64_t begin, end, step, length; };
FN window window_of(const cuda_planes &p, const spot &s, int d)
{
    if (p.begin[d]) {
        const int64_t k = s.at[d] + (p.each ? s.plane * p.result[d] : 0), begin = p.begin[d][k], end = p.end[d][k];
        return {begin, end, 1, end - begin};
    }
    const int64_t n = p.space[d], step = p.dilation[d], first = s.at[d] * p.stride[d] - p.before[d], last = first + (p.kernel[d] - 1) * step + 1;
    const int64_t padded = last < n + p.before[d] ? last : n + p.before[d];
    return {first < 0 ? first + (-first + step - 1) / step * step : first, last < n ? last : n, step, padded - first};
}

template <class T> FN void pool_max(const cuda_planes &p)
{
    ROLLED
    for (int64_t i = FIRST; i < p.planes * volume(p.result); i += ALL) {
        const spot s = spot_of(p, i);
        const window a = window_of(p, s, 0), b = window_of(p, s, 1), c = window_of(p, s, 2);
        const T *x = (const T *)p.x + s.plane * volume(p.space);
        T best = 0;
        int64_t where = -1;
        for (int64_t z = a.begin; z < a.end; z += a.step)
            for (int64_t y = b.begin; y < b.end; y += b.step)
                for (int64_t w = c.begin; w < c.end; w += c.step) {
                    const int64_t at = (z * p.space[1] + y) * p.space[2] + w;
                    const T v = x[at];
                    if (where < 0 || v > best || v != v) best = v, where = at;
                }
        ((T *)p.y)[i] = best;
        if (p.index) p.index[i] = where;
    }
}
KERNEL(pool_max_f32, cuda_planes) { pool_max<float>(p); }
KERNEL(pool_max_f64, cuda_planes) { pool_max<double>(p); }
KERNEL(pool_max_i64, cuda_planes) { pool_max<int64_t>(p); }

FN int64_t divisor(const cuda_planes &p, const window &a, const window &b, const window &c)
{
    if (p.divisor) return p.divisor;
    return p.count_padding ? a.length * b.length * c.length : (a.end - a.begin) * (b.end - b.begin) * (c.end - c.begin);
}

template <class T> FN void pool_mean(const cuda_planes &p)
{
    ROLLED
    for (int64_t i = FIRST; i < p.planes * volume(p.result); i += ALL) {
        const spot s = spot_of(p, i);
        const window a = window_of(p, s, 0), b = window_of(p, s, 1), c = window_of(p, s, 2);
        const T *x = (const T *)p.x + s.plane * volume(p.space);
        T sum = 0;
        for (int64_t z = a.begin; z < a.end; z++)
            for (int64_t y = b.begin; y < b.end; y++)
                for (int64_t w = c.begin; w < c.end; w++) sum += x[(z * p.space[1] + y) * p.space[2] + w];
        ((T *)p.y)[i] = a.end > a.begin && b.end > b.begin && c.end > c.begin ? sum / (T)divisor(p, a, b, c) : 0;
    }
}
KERNEL(pool_mean_f32, cuda_planes) { pool_mean<float>(p); }
KERNEL(pool_mean_f64, cuda_planes) { pool_mean<double>(p); }
KERNEL(pool_mean_i64, cuda_planes) { pool_mean<int64_t>(p); }

/* x is the results' gradient, y the planes' */
template <class T> FN void pool_mean_back(const cuda_planes &p)
{
    ROLLED
    for (int64_t i = FIRST; i < p.planes * volume(p.result); i += ALL) {
        const spot s = spot_of(p, i);
        const window a = window_of(p, s, 0), b = window_of(p, s, 1), c = window_of(p, s, 2);
        const T g = ((const T *)p.x)[i] / (T)divisor(p, a, b, c);
        T *y = (T *)p.y + s.plane * volume(p.space);
        for (int64_t z = a.begin; z < a.end; z++)
            for (int64_t h = b.begin; h < b.end; h++)
                for (int64_t w = c.begin; w < c.end; w++) atomicAdd(&y[(z * p.space[1] + h) * p.space[2] + w], g);
    }
}
KERNEL(pool_mean_back_f32, cuda_planes) { pool_mean_back<float>(p); }
KERNEL(pool_mean_back_f64, cuda_planes) { pool_mean_back<double>(p); }

/* result[2] elements of each plane to where index says, in planes of space[2]. */
template <class T> FN void pool_scatter(const cuda_planes &p)
{
    ROLLED
    for (int64_t i = FIRST; i < p.planes * p.result[2]; i += ALL) {
        const int64_t at = p.index[i];
        if (at < 0 || at >= p.space[2]) {
            report(p.fault, CUDA_FAULT_INDEX, at, p.space[2]);
            continue;
        }
        T *y = (T *)p.y + i / p.result[2] * p.space[2] + at;
        if (p.add) atomicAdd(y, ((const T *)p.x)[i]);
        else *y = ((const T *)p.x)[i];
    }
}
KERNEL(pool_scatter_f32, cuda_planes) { pool_scatter<float>(p); }
KERNEL(pool_scatter_f64, cuda_planes) { pool_scatter<double>(p); }

/* ---- borders, nearest neighbours: each result shows an element ---- */

FN int64_t shown(const cuda_planes &p, const spot &s)
{
    return ((s.plane * p.space[0] + p.begin[0][s.at[0]]) * p.space[1] + p.begin[1][s.at[1]]) * p.space[2] + p.begin[2][s.at[2]];
}

template <class T> FN void show(const cuda_planes &p)
{
    ROLLED
    for (int64_t i = FIRST; i < p.planes * volume(p.result); i += ALL) ((T *)p.y)[i] = ((const T *)p.x)[shown(p, spot_of(p, i))];
}
KERNELS_BY_SIZE(show, cuda_planes, show)

/* x is the results' gradient; complex numbers are two parts */
template <class T> FN void show_back(const cuda_planes &p)
{
    ROLLED
    for (int64_t i = FIRST; i < p.planes * volume(p.result); i += ALL) {
        const int64_t at = shown(p, spot_of(p, i));
        for (int k = 0; k < p.parts; k++) atomicAdd((T *)p.y + at * p.parts + k, ((const T *)p.x)[i * p.parts + k]);
    }
}
KERNEL(show_back_f32, cuda_planes) { show_back<float>(p); }
KERNEL(show_back_f64, cuda_planes) { show_back<double>(p); }

/* ---- sums along one dimension ---- */

template <class T> FN void along(const cuda_taps &p)
{
    ROLLED
    for (int64_t i = FIRST; i < p.outer * p.m * p.inner; i += ALL) {
        const int64_t o = i / p.inner % p.m;
        const T *x = (const T *)p.x + (i / p.inner / p.m * p.n + p.begin[o]) * p.inner + i % p.inner;
        T sum = 0;
        for (int64_t k = 0; k < p.count[o]; k++) sum += (T)p.weight[o * p.most + k] * x[k * p.inner];
        ((T *)p.y)[i] = sum;
    }
}
KERNEL(along_f32, cuda_taps) { along<float>(p); }
KERNEL(along_f64, cuda_taps) { along<double>(p); }

template <class T> FN void along_back(const cuda_taps &p)
{
    ROLLED
    for (int64_t i = FIRST; i < p.outer * p.m * p.inner; i += ALL) {
        const int64_t o = i / p.inner % p.m;
        T *y = (T *)p.y + (i / p.inner / p.m * p.n + p.begin[o]) * p.inner + i % p.inner;
        for (int64_t k = 0; k < p.count[o]; k++) atomicAdd(&y[k * p.inner], (T)p.weight[o * p.most + k] * ((const T *)p.x)[i]);
    }
}
KERNEL(along_back_f32, cuda_taps) { along_back<float>(p); }
KERNEL(along_back_f64, cuda_taps) { along_back<double>(p); }

/* ---- columns of a convolution's windows: (planes, kernel, result), each of three dimensions ---- */

template <class T> FN void columns(const cuda_planes &p)
{
    ROLLED
    for (int64_t i = FIRST; i < p.planes * volume(p.kernel) * volume(p.result); i += ALL) {
        int64_t rest = i, far = 0, step = 1, at[3], k[3];
        bool inside = true;
        for (int d = 2; d >= 0; d--) at[d] = rest % p.result[d], rest /= p.result[d];
        for (int d = 2; d >= 0; d--) k[d] = rest % p.kernel[d], rest /= p.kernel[d];
        for (int d = 2; d >= 0; step *= p.space[d--]) {
            const int64_t place = at[d] * p.stride[d] - p.before[d] + k[d] * p.dilation[d];
            inside = inside && place >= 0 && place < p.space[d];
            far += place * step;
        }
        T v = {};
        if (inside) v = ((const T *)p.x)[rest * volume(p.space) + far];
        ((T *)p.y)[i] = v;
    }
}
KERNELS_BY_SIZE(columns, cuda_planes, columns)

/* The way back: each element of the space is the sum of what stands for it in the columns. */
template <class T> FN void images(const cuda_planes &p)
{
    const int64_t results = volume(p.result), positions = volume(p.kernel);
    ROLLED
    for (int64_t i = FIRST; i < p.planes * volume(p.space); i += ALL) {
        int64_t plane = i, at[3];
        for (int d = 2; d >= 0; d--) at[d] = plane % p.space[d], plane /= p.space[d];
        T sum = as<T>::of(0);
        ROLLED
        for (int64_t k = 0; k < positions; k++) {
            int64_t rest = k, far = 0, step = 1;
            bool inside = true;
            for (int d = 2; d >= 0; step *= p.result[d--]) {
                const int64_t from = at[d] + p.before[d] - rest % p.kernel[d] * p.dilation[d], place = from / p.stride[d];
                inside = inside && from >= 0 && from % p.stride[d] == 0 && place < p.result[d];
                far += place * step;
                rest /= p.kernel[d];
            }
            if (inside) sum = sum + ((const T *)p.x)[(plane * positions + k) * results + far];
        }
        ((T *)p.y)[i] = sum;
    }
}
KERNEL(images_i64, cuda_planes) { images<int64_t>(p); }
KERNEL(images_f32, cuda_planes) { images<float>(p); }
KERNEL(images_f64, cuda_planes) { images<double>(p); }
KERNEL(images_c64, cuda_planes) { images<complex_of<float>>(p); }
KERNEL(images_c128, cuda_planes) { images<complex_of<double>>(p); }
